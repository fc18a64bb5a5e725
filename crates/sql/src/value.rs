//! Values.

use bigdecimal::BigDecimal;
use serde::{Deserialize, Serialize};

/// A value of any [`crate::SqlType`]. Types that share a representation share a variant: the column
/// or expression that holds the value knows its type.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Datum {
    Null,
    Bool(bool),
    /// `Int2`, `Int4`, `Int8`, `Oid`.
    Int(i64),
    /// `Float4`, `Float8`.
    Float(f64),
    Numeric(Numeric),
    /// `Char` (without its trailing blanks), `Varchar`, `Text`, `Name`, `Json`, `Jsonb`, `Unknown`.
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

/// A number of any precision, with its scale; or not a number, which equals itself and is greater
/// than every number.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Numeric {
    Number(BigDecimal),
    NaN,
}

impl Datum {
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }
}
