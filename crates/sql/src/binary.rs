//! Values in PostgreSQL's binary format, both ways. All numbers are big-endian.

use crate::text::{Excess, array_of, fit, to_string, values_of};
use crate::value::{Interval, Numeric};
use crate::{Datum, Element, SqlError, SqlState, SqlType, datetime, json};
use bigdecimal::num_bigint::{BigInt, BigUint, Sign};

/// A digit of a number in this format counts to 10000.
const BASE: u16 = 10_000;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;
const INFINITIES: [u16; 2] = [0xd000, 0xf000];
/// The version in front of a `jsonb`.
const JSONB: u8 = 1;

/// Appends a value's bytes; null has none.
pub fn write(out: &mut Vec<u8>, ty: SqlType, datum: &Datum) {
    if let (SqlType::Array(element), Datum::Text(text)) = (ty, datum) {
        return write_array(out, element, text);
    }
    match datum {
        Datum::Null => {}
        Datum::Bool(v) => out.push(u8::from(*v)),
        Datum::Int(v) => match ty {
            SqlType::Int2 => out.extend_from_slice(&(*v as i16).to_be_bytes()),
            SqlType::Int4 => out.extend_from_slice(&(*v as i32).to_be_bytes()),
            SqlType::Oid => out.extend_from_slice(&(*v as u32).to_be_bytes()),
            SqlType::Enum(_) => out.extend_from_slice(to_string(ty, datum).as_bytes()),
            _ => out.extend_from_slice(&v.to_be_bytes()),
        },
        Datum::Float(v) if ty == SqlType::Float4 => out.extend_from_slice(&(*v as f32).to_be_bytes()),
        Datum::Float(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Numeric(v) => write_numeric(out, v),
        Datum::Text(v) if ty == SqlType::Jsonb => {
            out.push(JSONB);
            out.extend_from_slice(v.as_bytes());
        }
        Datum::Text(_) if matches!(ty, SqlType::Char(_)) => {
            out.extend_from_slice(to_string(ty, datum).as_bytes());
        }
        Datum::Text(v) => out.extend_from_slice(v.as_bytes()),
        Datum::Bytes(v) => out.extend_from_slice(v),
        Datum::Date(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Time(v) | Datum::Timestamp(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Interval(v) => {
            out.extend_from_slice(&v.micros.to_be_bytes());
            out.extend_from_slice(&v.days.to_be_bytes());
            out.extend_from_slice(&v.months.to_be_bytes());
        }
        Datum::Uuid(v) => out.extend_from_slice(v),
    }
}

/// The value of bytes.
///
/// # Errors
/// `22P03` if they do not have the type's form, `22021` if a text is no UTF-8, `22008` for times
/// out of range, and those of [`crate::text::read`] for lengths and documents.
pub fn read(ty: SqlType, bytes: &[u8]) -> Result<Datum, SqlError> {
    Ok(match ty {
        SqlType::Bool => Datum::Bool(exact::<1>(bytes)? != [0]),
        SqlType::Int2 => Datum::Int(i16::from_be_bytes(exact(bytes)?).into()),
        SqlType::Int4 => Datum::Int(i32::from_be_bytes(exact(bytes)?).into()),
        SqlType::Int8 => Datum::Int(i64::from_be_bytes(exact(bytes)?)),
        SqlType::Oid => Datum::Int(u32::from_be_bytes(exact(bytes)?).into()),
        SqlType::Float4 => Datum::Float(f32::from_be_bytes(exact(bytes)?).into()),
        SqlType::Float8 => Datum::Float(f64::from_be_bytes(exact(bytes)?)),
        SqlType::Numeric(limits) => {
            let number = read_numeric(bytes)?;
            Datum::Numeric(match limits {
                Some((precision, scale)) => number.fit(precision, scale)?,
                None => number,
            })
        }
        SqlType::Bytea => Datum::Bytes(bytes.to_vec()),
        SqlType::Date => Datum::Date(read_date(i32::from_be_bytes(exact(bytes)?))?),
        SqlType::Time => {
            let micros = i64::from_be_bytes(exact(bytes)?);
            if !(0..=datetime::DAY).contains(&micros) {
                return Err(SqlError::new(SqlState::DATETIME_OVERFLOW, "time out of range"));
            }
            Datum::Time(micros)
        }
        SqlType::Timestamp | SqlType::TimestampTz => {
            let micros = i64::from_be_bytes(exact(bytes)?);
            let is_infinite = matches!(micros, datetime::BEGIN | datetime::END);
            let checked = if is_infinite { Some(micros) } else { datetime::checked_timestamp(micros) };
            Datum::Timestamp(checked.ok_or_else(datetime::timestamp_out_of_range)?)
        }
        SqlType::Interval => {
            let bits = u128::from_be_bytes(exact(bytes)?);
            let (micros, days, months) = ((bits >> 64) as i64, (bits >> 32) as i32, bits as i32);
            Datum::Interval(Interval { months, days, micros })
        }
        SqlType::Uuid => Datum::Uuid(exact(bytes)?),
        SqlType::Json => {
            let text = utf8(bytes)?;
            json::check(&text)?;
            Datum::Text(text)
        }
        SqlType::Jsonb => {
            let (version, text) = bytes.split_first().ok_or_else(malformed)?;
            if *version != JSONB {
                let message = format!("unsupported jsonb version number {version}");
                return Err(SqlError::new(SqlState::INTERNAL, message));
            }
            Datum::Text(json::normalize(&utf8(text)?)?)
        }
        SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Text | SqlType::Name | SqlType::Unknown => {
            Datum::Text(fit(ty, utf8(bytes)?, Excess::Refused)?)
        }
        SqlType::Array(element) => read_array(element, bytes)?,
        SqlType::Enum(labels) => Datum::Int(labels.read(&utf8(bytes)?)?),
    })
}

/// The number of dimensions, whether there are nulls, the type of the elements; the length and the
/// first index of each dimension; the elements, each with its length before it.
fn write_array(out: &mut Vec<u8>, element: Element, text: &str) {
    // A value has the form that [`array_of`] gives it.
    let values = values_of(element, text).unwrap_or_default();
    let is_there = !values.is_empty();
    let head = [is_there.into(), values.iter().any(Datum::is_null).into(), element.number() as i32];
    let dimension = [values.len() as i32, 1];
    let numbers = head.iter().chain(dimension.iter().filter(|_| is_there));
    numbers.for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
    for value in &values {
        let at = out.len();
        out.extend_from_slice(&(-1_i32).to_be_bytes());
        if !value.is_null() {
            write(out, element.ty(), value);
            let length = (out.len() - at - 4) as i32;
            out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
}

fn read_array(element: Element, bytes: &[u8]) -> Result<Datum, SqlError> {
    let mut rest = bytes;
    let (dimensions, _, of) = (number(&mut rest)?, number(&mut rest)?, number(&mut rest)?);
    if dimensions > 1 {
        return Err(SqlError::unsupported("an array of arrays", Some("Use a table of its own.")));
    }
    if of as u32 != element.number() {
        let message = format!("binary data has array element type {of} instead of {}", element.number());
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    }
    let mut values = Vec::new();
    if dimensions == 1 {
        let (count, _first) = (number(&mut rest)?, number(&mut rest)?);
        for _ in 0..count {
            values.push(match number(&mut rest)? {
                -1 => Datum::Null,
                length => {
                    let length = usize::try_from(length).map_err(|_| malformed())?;
                    read(element.ty(), take(&mut rest, length)?)?
                }
            });
        }
    }
    if rest.is_empty() { Ok(array_of(element, &values)) } else { Err(malformed()) }
}

fn number(rest: &mut &[u8]) -> Result<i32, SqlError> {
    exact(take(rest, 4)?).map(i32::from_be_bytes)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], SqlError> {
    let (taken, others) = rest.split_at_checked(count).ok_or_else(malformed)?;
    *rest = others;
    Ok(taken)
}

fn malformed() -> SqlError {
    SqlError::new(SqlState::INVALID_BINARY, "incorrect binary data format")
}

fn exact<const N: usize>(bytes: &[u8]) -> Result<[u8; N], SqlError> {
    bytes.try_into().map_err(|_| malformed())
}

fn utf8(bytes: &[u8]) -> Result<String, SqlError> {
    String::from_utf8(bytes.to_vec()).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let message = format!("invalid byte sequence for encoding \"UTF8\": 0x{:02x}", bytes[at]);
        SqlError::new(SqlState::INVALID_CHARACTER, message)
    })
}

fn read_date(days: i32) -> Result<i32, SqlError> {
    if matches!(days, datetime::BEGIN_DATE | datetime::END_DATE) {
        return Ok(days);
    }
    datetime::date(days.into()).ok_or_else(datetime::date_out_of_range)
}

/// The number of digits, the power of 10000 by which the first counts, the sign, the scale, then
/// the digits; zeros at both ends are left out.
fn write_numeric(out: &mut Vec<u8>, number: &Numeric) {
    let Numeric::Number(number) = number else {
        return [0, 0, NAN, 0].iter().for_each(|part| out.extend_from_slice(&part.to_be_bytes()));
    };
    let (digits, scale) = number.as_bigint_and_scale();
    // So many decimal zeros behind that the point is between two digits in base 10000.
    let behind = (scale as u64).div_ceil(4);
    let shift = behind * 4 - scale as u64;
    let shifted = digits.magnitude() * BigUint::from(10_u16).pow(shift as u32);
    // The library goes to base 256 only: two digits in base 100 make one in base 10000.
    let mut parts = shifted.to_radix_be(100);
    if parts.len() % 2 == 1 {
        parts.insert(0, 0);
    }
    let mut parts: Vec<u16> =
        parts.chunks(2).map(|pair| u16::from(pair[0]) * 100 + u16::from(pair[1])).collect();
    let weight = parts.len() as i64 - 1 - behind as i64;
    let is_zero = digits.sign() == Sign::NoSign;
    while parts.last() == Some(&0) {
        parts.pop();
    }
    let sign = if digits.sign() == Sign::Minus { NEGATIVE } else { 0 };
    let weight = if is_zero { 0 } else { weight as i16 };
    for part in [parts.len() as u16, weight as u16, sign, scale as u16].iter().chain(&parts) {
        out.extend_from_slice(&part.to_be_bytes());
    }
}

fn read_numeric(bytes: &[u8]) -> Result<Numeric, SqlError> {
    let (parts, rest) = bytes.as_chunks::<2>();
    let parts: Vec<u16> = parts.iter().map(|part| u16::from_be_bytes(*part)).collect();
    let (head, digits) = parts.split_first_chunk::<4>().ok_or_else(malformed)?;
    let [count, weight, sign, scale] = *head;
    if digits.len() != usize::from(count) || !rest.is_empty() {
        return Err(malformed());
    }
    let external = |what: &str| {
        SqlError::new(SqlState::INVALID_BINARY, format!("invalid {what} in external \"numeric\" value"))
    };
    let sign = match sign {
        0 => Sign::Plus,
        NEGATIVE => Sign::Minus,
        NAN => return Ok(Numeric::NaN),
        sign if INFINITIES.contains(&sign) => {
            return Err(SqlError::unsupported("an infinite numeric", Some("Use double precision.")));
        }
        _ => return Err(external("sign")),
    };
    if scale > 0x3fff {
        return Err(external("scale"));
    }
    if digits.iter().any(|digit| *digit >= BASE) {
        return Err(external("digit"));
    }
    let pairs: Vec<u8> = digits.iter().flat_map(|digit| [(digit / 100) as u8, (digit % 100) as u8]).collect();
    let number = BigUint::from_radix_be(&pairs, 100).unwrap_or_default();
    let number = Numeric::new(
        BigInt::from_biguint(sign, number),
        (i64::from(count) - 1 - i64::from(weight as i16)) * 4,
    );
    // Digits behind the scale are cut.
    number.truncate(scale.into()).checked()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare;
    use crate::{sample, text};
    use fastrand::Rng;

    #[test]
    fn both_formats_are_read_as_they_were_written() {
        let mut rng = Rng::with_seed(8);
        for ty in sample::TYPES {
            for _ in 0..2000 {
                let value = sample::datum(&mut rng, *ty);
                if value.is_null() {
                    continue;
                }
                let mut bytes = Vec::new();
                write(&mut bytes, *ty, &value);
                let written = to_string(*ty, &value);
                for read in [read(*ty, &bytes), text::read(*ty, &written)] {
                    let read = read.unwrap_or_else(|error| panic!("{ty:?} {written}: {error}"));
                    assert!(compare(&read, &value).is_eq(), "{ty:?}: {read:?} {value:?}");
                    assert_eq!(to_string(*ty, &read), written);
                }
            }
        }
    }

    #[test]
    fn hostile_bytes_and_texts_are_no_panic() {
        let mut rng = Rng::with_seed(9);
        let alphabet: Vec<char> = "0123456789-+:.,TtZeEnNaif {}[]\"\\\'xdaysmonPBCé\0\n/".chars().collect();
        let types =
            sample::TYPES.iter().chain(&[SqlType::Json, SqlType::Jsonb, SqlType::Numeric(Some((4, 2)))]);
        for ty in types {
            for _ in 0..4000 {
                let mut bytes = Vec::new();
                write(&mut bytes, *ty, &sample::datum(&mut rng, *ty));
                bytes.push(0);
                let at = rng.usize(..bytes.len());
                bytes[at] = rng.u8(..);
                bytes.truncate(rng.usize(..=bytes.len()));
                let noise: String = (0..rng.usize(..12)).map(|_| *rng.choice(&alphabet).unwrap()).collect();
                let mut text: Vec<char> = to_string(*ty, &sample::datum(&mut rng, *ty)).chars().collect();
                text.extend(noise.chars());
                if !text.is_empty() {
                    text.swap_remove(rng.usize(..text.len()));
                }
                let read =
                    [read(*ty, &bytes), text::read(*ty, &noise), text::read(*ty, &String::from_iter(text))];
                // What was read can be written.
                for value in read.into_iter().flatten() {
                    to_string(*ty, &value);
                }
            }
        }
    }
}
