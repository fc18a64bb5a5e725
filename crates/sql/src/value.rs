//! Values.

use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::BigInt;
use serde::{Deserialize, Serialize};

/// A value of any [`crate::SqlType`]. Types that share a representation share a variant: the column
/// or expression that holds the value knows its type.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Datum {
    Null,
    Bool(bool),
    /// `Int2`, `Int4`, `Int8`, `Oid`; `Enum`, as the code of a label.
    Int(i64),
    /// `Float4`, `Float8`.
    Float(f64),
    Numeric(Numeric),
    /// `Char` (without its trailing blanks), `Varchar`, `Text`, `Name`, `Json`, `Jsonb`, `Unknown`,
    /// `Array`.
    Text(String),
    Bytes(Vec<u8>),
    /// Days since 2000-01-01.
    Date(i32),
    /// Microseconds since midnight.
    Time(i64),
    /// `Timestamp` and `TimestampTz` (UTC): microseconds since 2000-01-01 00:00. The least and the
    /// greatest number stand for -infinity and infinity.
    Timestamp(i64),
    Interval(Interval),
    Uuid([u8; 16]),
}

/// A span of time. Months and days have no fixed length, so they are kept apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Interval {
    pub months: i32,
    pub days: i32,
    pub micros: i64,
}

/// A number of any precision, with its scale (0 to 16383); or not a number, which equals itself and
/// is greater than every number.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(from = "Parts", into = "Parts")]
pub enum Numeric {
    Number(BigDecimal),
    NaN,
}

/// A [`Numeric`] in messages: its scale, and its digits as a two's complement, little-endian;
/// nothing for NaN.
#[derive(Serialize, Deserialize)]
struct Parts(Option<(u16, Vec<u8>)>);

impl From<Numeric> for Parts {
    fn from(number: Numeric) -> Parts {
        let Numeric::Number(number) = number else { return Parts(None) };
        let (digits, scale) = number.into_bigint_and_scale();
        Parts(Some((scale as u16, digits.to_signed_bytes_le())))
    }
}

impl From<Parts> for Numeric {
    fn from(Parts(parts): Parts) -> Numeric {
        parts.map_or(Numeric::NaN, |(scale, digits)| {
            Numeric::Number(BigDecimal::new(BigInt::from_signed_bytes_le(&digits), scale.into()))
        })
    }
}

impl Datum {
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn values_travel_as_they_are() {
        let mut rng = fastrand::Rng::with_seed(10);
        for ty in sample::TYPES {
            for _ in 0..500 {
                let value = sample::datum(&mut rng, *ty);
                let bytes = postcard::to_stdvec(&value).unwrap();
                let read: Datum = postcard::from_bytes(&bytes).unwrap();
                assert_eq!(format!("{read:?}"), format!("{value:?}"));
            }
        }
    }
}
