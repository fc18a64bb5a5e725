//! Values as order-preserving bytes: the order of the bytes is that of [`crate::compare::compare`],
//! and no value's bytes are a prefix of another's.
//!
//! ```text
//!   integer, date, time,   1 byte: 0x80 + n, then n bytes of the number, big-endian, as few as it
//! needs   timestamp              negative: 0x7f - n, then the n low bytes of its two's complement
//!   bool                   0x10, 0x11
//!   text, bytes            0x01, then the bytes as base::Key has them (0x00 escaped, 0x00 0x00 at
//! the end)   float                  0x01, then 8 bytes: sign flipped, or all bits inverted if
//! negative   numeric                0x20 negative, 0x21 zero, 0x22 positive, 0x23 NaN; then the
//! exponent as an                          integer and two decimal digits a byte, + 1, ended by
//! 0x00; after a negative                          sign all these bytes are inverted
//!   interval               0x01, then 16 bytes: its length in microseconds, sign flipped
//!   uuid                   0x01, then 16 bytes
//!   null                   0xff
//! ```
//!
//! Equal values have equal bytes, so a decoded value equals the encoded one, yet may differ in
//! form: 1.00 is decoded as 1, and one month as 30 days.

use crate::value::{Interval, Numeric};
use crate::{Datum, SqlError, SqlState, SqlType};
use base::Key;
use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::{BigInt, Sign};

const VALUE: u8 = 0x01;
const FALSE: u8 = 0x10;
const TRUE: u8 = 0x11;
const NEGATIVE: u8 = 0x20;
const ZERO: u8 = 0x21;
const POSITIVE: u8 = 0x22;
const NAN: u8 = 0x23;
/// The header of the integer 0.
const INTEGER: u8 = 0x80;
const NULL: u8 = 0xff;

/// Microseconds in a day.
const DAY: i128 = 86_400_000_000;

/// Appends the bytes of a value.
#[inline]
pub fn append(out: &mut Vec<u8>, datum: &Datum) {
    match datum {
        Datum::Int(v) | Datum::Time(v) | Datum::Timestamp(v) => append_int(out, *v),
        Datum::Date(days) => append_int(out, i64::from(*days)),
        Datum::Null => out.push(NULL),
        Datum::Bool(v) => out.push(if *v { TRUE } else { FALSE }),
        Datum::Text(text) => append_bytes(out, text.as_bytes()),
        Datum::Bytes(bytes) => append_bytes(out, bytes),
        Datum::Float(v) => {
            out.push(VALUE);
            out.extend_from_slice(&float_bits(*v).to_be_bytes());
        }
        Datum::Numeric(number) => append_numeric(out, number),
        Datum::Interval(interval) => {
            out.push(VALUE);
            out.extend_from_slice(&(interval.length() ^ i128::MIN).to_be_bytes());
        }
        Datum::Uuid(bytes) => {
            out.push(VALUE);
            out.extend_from_slice(bytes);
        }
    }
}

/// Reads one value of the given type from the front of `bytes`, and moves `bytes` behind it.
///
/// # Errors
/// `XX001` if the bytes are no value of this type.
pub fn decode(ty: SqlType, bytes: &mut &[u8]) -> Result<Datum, SqlError> {
    if bytes.first() == Some(&NULL) {
        *bytes = &bytes[1..];
        return Ok(Datum::Null);
    }
    match ty {
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 | SqlType::Oid | SqlType::Enum(_) => {
            Ok(Datum::Int(read_int(bytes)?))
        }
        SqlType::Time => Ok(Datum::Time(read_int(bytes)?)),
        SqlType::Timestamp | SqlType::TimestampTz => Ok(Datum::Timestamp(read_int(bytes)?)),
        SqlType::Date => i32::try_from(read_int(bytes)?).map(Datum::Date).map_err(|_| corrupt()),
        SqlType::Bool => match take(bytes, 1)? {
            [FALSE] => Ok(Datum::Bool(false)),
            [TRUE] => Ok(Datum::Bool(true)),
            _ => Err(corrupt()),
        },
        SqlType::Bytea => Ok(Datum::Bytes(read_bytes(bytes)?)),
        SqlType::Float4 | SqlType::Float8 => {
            let bits = u64::from_be_bytes(read_array(bytes)?);
            let bits = if bits >> 63 == 1 { bits ^ (1 << 63) } else { !bits };
            Ok(Datum::Float(f64::from_bits(bits)))
        }
        SqlType::Numeric(_) => Ok(Datum::Numeric(read_numeric(bytes)?)),
        SqlType::Interval => {
            let length = i128::from_be_bytes(read_array(bytes)?) ^ i128::MIN;
            interval_of(length).map(Datum::Interval).ok_or_else(corrupt)
        }
        SqlType::Uuid => Ok(Datum::Uuid(read_array(bytes)?)),
        SqlType::Char(_)
        | SqlType::Varchar(_)
        | SqlType::Text
        | SqlType::Json
        | SqlType::Jsonb
        | SqlType::Name
        | SqlType::Array(_)
        | SqlType::Unknown => String::from_utf8(read_bytes(bytes)?).map(Datum::Text).map_err(|_| corrupt()),
    }
}

fn corrupt() -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, "the bytes of a key do not have the form of its columns' types")
}

#[inline]
fn append_int(out: &mut Vec<u8>, v: i64) {
    // The bits in which a number differs from a number of its sign with the least magnitude.
    let significant = (v ^ (v >> 63)) as u64;
    let n = (64 - significant.leading_zeros() as usize).div_ceil(8);
    let header = if v < 0 { INTEGER - 1 - n as u8 } else { INTEGER + n as u8 };
    out.push(header);
    out.extend_from_slice(&v.to_be_bytes()[8 - n..]);
}

fn read_int(bytes: &mut &[u8]) -> Result<i64, SqlError> {
    let &[header] = take(bytes, 1)? else { return Err(corrupt()) };
    let is_negative = header < INTEGER;
    let n = usize::from(if is_negative { INTEGER - 1 - header } else { header - INTEGER });
    if n > 8 {
        return Err(corrupt());
    }
    let mut place = if is_negative { [0xff; 8] } else { [0; 8] };
    place[8 - n..].copy_from_slice(take(bytes, n)?);
    Ok(i64::from_be_bytes(place))
}

fn append_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(VALUE);
    Key::put_bytes(out, bytes);
}

fn read_bytes(bytes: &mut &[u8]) -> Result<Vec<u8>, SqlError> {
    let mut out = Vec::new();
    if take(bytes, 1)? != [VALUE] {
        return Err(corrupt());
    }
    loop {
        let length = bytes.iter().position(|b| *b == 0).ok_or_else(corrupt)?;
        out.extend_from_slice(take(bytes, length)?);
        match take(bytes, 2)? {
            [0, 0xff] => out.push(0),
            [0, 0] => return Ok(out),
            _ => return Err(corrupt()),
        }
    }
}

fn float_bits(v: f64) -> u64 {
    let v = if v.is_nan() { f64::NAN } else { v + 0.0 };
    // The sign of a NaN is not specified by IEEE 754.
    let bits = if v.is_nan() { v.to_bits() & (u64::MAX >> 1) } else { v.to_bits() };
    if bits >> 63 == 1 { !bits } else { bits ^ (1 << 63) }
}

fn append_numeric(out: &mut Vec<u8>, number: &Numeric) {
    let Numeric::Number(number) = number else { return out.push(NAN) };
    let (digits, scale) = number.as_bigint_and_scale();
    let sign = digits.sign();
    if sign == Sign::NoSign {
        return out.push(ZERO);
    }
    out.push(if sign == Sign::Minus { NEGATIVE } else { POSITIVE });
    let start = out.len();
    let digits = digits.magnitude().to_string();
    // The number is 0.digits times ten to this power.
    append_int(out, digits.len() as i64 - scale);
    for pair in digits.trim_end_matches('0').as_bytes().chunks(2) {
        let low = pair.get(1).map_or(0, |digit| digit - b'0');
        out.push((pair[0] - b'0') * 10 + low + 1);
    }
    out.push(0);
    if sign == Sign::Minus {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

fn read_numeric(bytes: &mut &[u8]) -> Result<Numeric, SqlError> {
    let sign = match take(bytes, 1)? {
        [NAN] => return Ok(Numeric::NaN),
        [ZERO] => return Ok(Numeric::Number(BigDecimal::from(0))),
        [NEGATIVE] => Sign::Minus,
        [POSITIVE] => Sign::Plus,
        _ => return Err(corrupt()),
    };
    let mask = if sign == Sign::Minus { 0xff } else { 0 };
    // The exponent has at most nine bytes; a copy of them without the mask is read.
    let plain: Vec<u8> = bytes.iter().take(9).map(|byte| byte ^ mask).collect();
    let mut rest = &plain[..];
    let exponent = read_int(&mut rest)?;
    *bytes = &bytes[plain.len() - rest.len()..];
    let length = bytes.iter().position(|byte| byte ^ mask == 0).ok_or_else(corrupt)?;
    let mut digits = Vec::with_capacity(2 * length);
    for byte in &take(bytes, length + 1)?[..length] {
        let pair = (byte ^ mask) - 1;
        if pair > 99 {
            return Err(corrupt());
        }
        digits.extend([pair / 10, pair % 10]);
    }
    if exponent.unsigned_abs() > 1 << 20 {
        return Err(corrupt());
    }
    let mut scale = digits.len() as i64 - exponent;
    while scale > 0 && digits.last() == Some(&0) {
        digits.pop();
        scale -= 1;
    }
    let digits = BigInt::from_radix_be(sign, &digits, 10).ok_or_else(corrupt)?;
    Ok(Numeric::new(digits, scale))
}

/// The canonical interval of this length: without months.
fn interval_of(length: i128) -> Option<Interval> {
    let days = length / DAY;
    let (days, micros) = match i32::try_from(days) {
        Ok(_) => (days, length % DAY),
        // Months hold what days cannot.
        Err(_) => {
            let months = i32::try_from(days / 30).ok()?;
            let days = (days % 30) as i32;
            return Some(Interval { months, days, micros: (length % DAY) as i64 });
        }
    };
    Some(Interval { months: 0, days: days as i32, micros: micros as i64 })
}

fn take<'a>(bytes: &mut &'a [u8], n: usize) -> Result<&'a [u8], SqlError> {
    let (front, rest) = bytes.split_at_checked(n).ok_or_else(corrupt)?;
    *bytes = rest;
    Ok(front)
}

fn read_array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], SqlError> {
    if take(bytes, 1)? != [VALUE] {
        return Err(corrupt());
    }
    take(bytes, N)?.try_into().map_err(|_| corrupt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{compare, hash};
    use crate::sample;

    fn encoded(datum: &Datum) -> Vec<u8> {
        let mut out = Vec::new();
        append(&mut out, datum);
        out
    }

    #[test]
    fn order_of_bytes_is_order_of_values() {
        let mut rng = fastrand::Rng::with_seed(1);
        for ty in sample::TYPES {
            for _ in 0..4000 {
                let (a, b) = (sample::datum(&mut rng, *ty), sample::datum(&mut rng, *ty));
                let order = compare(&a, &b);
                assert_eq!(encoded(&a).cmp(&encoded(&b)), order, "{ty:?}: {a:?} {b:?}");
                assert_eq!(hash(&a) == hash(&b), order.is_eq(), "{ty:?}: {a:?} {b:?}");
                assert!(!encoded(&b).starts_with(&encoded(&a)) || order.is_eq(), "{ty:?}: {a:?} {b:?}");
            }
        }
    }

    #[test]
    fn decodes_to_equal_values() {
        let mut rng = fastrand::Rng::with_seed(2);
        for ty in sample::TYPES {
            for _ in 0..2000 {
                let (a, b) = (sample::datum(&mut rng, *ty), sample::datum(&mut rng, *ty));
                let bytes = [encoded(&a), encoded(&b)].concat();
                let mut rest = &bytes[..];
                for value in [a, b] {
                    let read = decode(*ty, &mut rest).unwrap();
                    assert!(compare(&read, &value).is_eq(), "{ty:?}: {read:?} {value:?}");
                    assert_eq!(encoded(&read), encoded(&value));
                }
                assert!(rest.is_empty());
            }
        }
    }

    #[test]
    fn malformed_bytes_are_an_error() {
        let mut rng = fastrand::Rng::with_seed(3);
        for ty in sample::TYPES {
            for _ in 0..4000 {
                let mut bytes = encoded(&sample::datum(&mut rng, *ty));
                let at = rng.usize(..bytes.len());
                bytes[at] = rng.u8(..);
                bytes.truncate(rng.usize(..=bytes.len()));
                let _ = decode(*ty, &mut &bytes[..]);
            }
        }
    }

    #[test]
    fn small_numbers_are_short() {
        assert_eq!(encoded(&Datum::Int(0)), [0x80]);
        assert_eq!(encoded(&Datum::Int(-1)), [0x7f]);
        assert_eq!(encoded(&Datum::Int(300)), [0x82, 1, 44]);
        assert_eq!(encoded(&Datum::Int(i64::MIN)).len(), 9);
    }
}
