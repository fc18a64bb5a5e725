//! Values of a file as the texts that COPY has for them.

use crate::shape::{Shape, Unit};
use sql::datetime::{self, DAY, UNIX_EPOCH};
use sql::value::Interval;
use sql::{Datum, SqlType, text};
use std::fmt::Write as _;

/// Why a value has no text.
pub type Unfit = &'static str;

const NO_SHAPE: Unfit = "its type does not go with its bytes";

/// A number of four or eight bytes.
pub fn of_int(shape: Shape, value: i64, bits: u32) -> Result<String, Unfit> {
    match shape {
        Shape::Int { is_signed: false } if bits == 32 => Ok((value as u32).to_string()),
        Shape::Int { is_signed: false } => Ok((value as u64).to_string()),
        Shape::Int { is_signed: true } => Ok(value.to_string()),
        Shape::Decimal { scale } => Ok(decimal(value.into(), scale)),
        Shape::Date => {
            let days = datetime::date(value + UNIX_EPOCH).ok_or("no date of PostgreSQL")?;
            Ok(text::to_string(SqlType::Date, &Datum::Date(days)))
        }
        Shape::Time(unit) => {
            let micros = unit.micros(value).filter(|micros| (0..=DAY).contains(micros));
            let micros = micros.ok_or("no time of a day")?;
            Ok(text::to_string(SqlType::Time, &Datum::Time(micros)))
        }
        Shape::Timestamp { unit, utc } => timestamp(unit, utc, value),
        _ => Err(NO_SHAPE),
    }
}

pub fn timestamp(unit: Unit, utc: bool, value: i64) -> Result<String, Unfit> {
    let micros = unit.micros(value).and_then(|micros| micros.checked_add(UNIX_EPOCH * DAY));
    let micros = micros.and_then(datetime::checked_timestamp).ok_or("no timestamp of PostgreSQL")?;
    let ty = if utc { SqlType::TimestampTz } else { SqlType::Timestamp };
    Ok(text::to_string(ty, &Datum::Timestamp(micros)))
}

/// Whole numbers without an exponent, so that columns of integers take them.
pub fn of_float(value: f64, is_narrow: bool, to: Option<SqlType>) -> String {
    let is_int = matches!(to, Some(SqlType::Int2 | SqlType::Int4 | SqlType::Int8 | SqlType::Oid));
    match is_narrow {
        _ if is_int && value.is_finite() => value.to_string(),
        true => text::to_string(SqlType::Float4, &Datum::Float(value)),
        false => text::to_string(SqlType::Float8, &Datum::Float(value)),
    }
}

pub fn of_bytes(shape: Shape, bytes: &[u8], to: Option<SqlType>) -> Result<String, Unfit> {
    match shape {
        Shape::Text => utf8(bytes),
        Shape::Bytes if to == Some(SqlType::Bytea) => {
            Ok(text::to_string(SqlType::Bytea, &Datum::Bytes(bytes.to_vec())))
        }
        Shape::Bytes if to != Some(SqlType::Uuid) => utf8(bytes),
        Shape::Bytes | Shape::Uuid => {
            let uuid = bytes.try_into().map_err(|_| "no 16 bytes of a UUID")?;
            Ok(text::to_string(SqlType::Uuid, &Datum::Uuid(uuid)))
        }
        Shape::Decimal { scale } => {
            let number = whole(bytes).ok_or("a decimal number of more than 16 bytes")?;
            Ok(decimal(number, scale))
        }
        Shape::Interval => interval(bytes).ok_or("no interval of PostgreSQL"),
        _ => Err(NO_SHAPE),
    }
}

fn utf8(bytes: &[u8]) -> Result<String, Unfit> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "no text in UTF-8")
}

/// A two's complement, big-endian.
fn whole(bytes: &[u8]) -> Option<i128> {
    let fill = if bytes.first()? & 0x80 == 0 { 0 } else { 0xff };
    let mut all = [fill; 16];
    let missing = all.len().checked_sub(bytes.len())?;
    all[missing..].copy_from_slice(bytes);
    Some(i128::from_be_bytes(all))
}

/// `number` divided by ten to the power of `scale`.
fn decimal(number: i128, scale: u32) -> String {
    let scale = scale as usize;
    let digits = format!("{:0>width$}", number.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let mut out = String::from(if number < 0 { "-" } else { "" });
    out.push_str(whole);
    if scale > 0 {
        // Writing to a string cannot fail.
        let _ = write!(out, ".{fraction}");
    }
    out
}

fn interval(bytes: &[u8]) -> Option<String> {
    let part = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let interval = Interval {
        months: part(0)?.try_into().ok()?,
        days: part(4)?.try_into().ok()?,
        micros: i64::from(part(8)?) * 1000,
    };
    Some(text::to_string(SqlType::Interval, &Datum::Interval(interval)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_number_has_its_point() {
        for (number, scale, text) in [
            (0, 0, "0"),
            (0, 2, "0.00"),
            (-5, 3, "-0.005"),
            (12_345, 2, "123.45"),
            (-12_345, 5, "-0.12345"),
            (7, 0, "7"),
        ] {
            assert_eq!(decimal(number, scale), text);
        }
        let (least, most) = ([0x80; 1], [0x7f, 0xff]);
        assert_eq!(
            (whole(&least), whole(&most), whole(&[0; 17]), whole(&[])),
            (Some(-128), Some(32_767), None, None)
        );
    }

    #[test]
    fn times_of_each_unit_are_read() {
        for (unit, value, text) in [
            (Unit::Millis, -1, "1969-12-31 23:59:59.999"),
            (Unit::Micros, 1, "1970-01-01 00:00:00.000001"),
            (Unit::Nanos, 1_499, "1970-01-01 00:00:00.000001"),
            (Unit::Nanos, -500, "1970-01-01 00:00:00"),
            (Unit::Nanos, 1_500, "1970-01-01 00:00:00.000002"),
        ] {
            assert_eq!(timestamp(unit, false, value).as_deref(), Ok(text));
            assert_eq!(timestamp(unit, true, value), Ok(format!("{text}+00")));
        }
        assert!(timestamp(Unit::Millis, true, i64::MAX).is_err());
        assert!(timestamp(Unit::Micros, true, i64::MIN).is_err());
        assert!(of_int(Shape::Date, i32::MAX.into(), 32).is_err());
        assert!(of_int(Shape::Time(Unit::Millis), -1, 32).is_err());
        assert_eq!(of_int(Shape::Int { is_signed: false }, -1, 32).as_deref(), Ok("4294967295"));
        assert_eq!(of_float(1e15, false, Some(SqlType::Int8)), "1000000000000000");
    }
}
