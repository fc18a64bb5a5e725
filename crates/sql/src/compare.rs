//! Comparison of values by SQL's rules, for conditions, sorting and groups.
//!
//! The order is total: -0 and 0 are equal, NaN equals itself and is greater than every number, text
//! is ordered by its bytes (collation "C"), intervals by their lengths with 30 days a month and 24
//! hours a day. The order of key bytes ([`crate::key`]) is the same.

use crate::value::{Interval, Numeric};
use crate::{Datum, key};
use bigdecimal::BigDecimal;
use std::cmp::Ordering;

/// Microseconds in a day.
const DAY: i64 = 86_400_000_000;

/// The order of two values of one type. Null equals null and is greater than every value.
#[inline]
pub fn compare(left: &Datum, right: &Datum) -> Ordering {
    match (left, right) {
        (Datum::Int(a), Datum::Int(b)) => a.cmp(b),
        (Datum::Text(a), Datum::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Datum::Timestamp(a), Datum::Timestamp(b)) | (Datum::Time(a), Datum::Time(b)) => a.cmp(b),
        (Datum::Date(a), Datum::Date(b)) => a.cmp(b),
        _ => compare_other(left, right),
    }
}

fn compare_other(left: &Datum, right: &Datum) -> Ordering {
    match (left, right) {
        (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
        (Datum::Float(a), Datum::Float(b)) => compare_floats(*a, *b),
        (Datum::Numeric(a), Datum::Numeric(b)) => compare_numerics(a, b),
        (Datum::Bytes(a), Datum::Bytes(b)) => a.cmp(b),
        (Datum::Interval(a), Datum::Interval(b)) => a.length().cmp(&b.length()),
        (Datum::Uuid(a), Datum::Uuid(b)) => a.cmp(b),
        _ => compare_mixed(left, right),
    }
}

/// Values of different variants: numbers by value, a date as its midnight, all others by variant.
fn compare_mixed(left: &Datum, right: &Datum) -> Ordering {
    match (left, right) {
        (Datum::Int(a), Datum::Float(b)) => compare_floats(*a as f64, *b),
        (Datum::Float(a), Datum::Int(b)) => compare_floats(*a, *b as f64),
        (Datum::Int(a), Datum::Numeric(b)) => compare_numerics(&Numeric::Number(BigDecimal::from(*a)), b),
        (Datum::Numeric(a), Datum::Int(b)) => compare_numerics(a, &Numeric::Number(BigDecimal::from(*b))),
        (Datum::Date(a), Datum::Timestamp(b)) => midnight(*a).cmp(b),
        (Datum::Timestamp(a), Datum::Date(b)) => a.cmp(&midnight(*b)),
        _ => rank(left).cmp(&rank(right)),
    }
}

fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn compare_numerics(a: &Numeric, b: &Numeric) -> Ordering {
    match (a, b) {
        (Numeric::Number(a), Numeric::Number(b)) => a.cmp(b),
        (Numeric::Number(_), Numeric::NaN) => Ordering::Less,
        (Numeric::NaN, Numeric::Number(_)) => Ordering::Greater,
        (Numeric::NaN, Numeric::NaN) => Ordering::Equal,
    }
}

fn midnight(date: i32) -> i64 {
    match date {
        i32::MIN => i64::MIN,
        i32::MAX => i64::MAX,
        days => i64::from(days).saturating_mul(DAY),
    }
}

fn rank(datum: &Datum) -> u8 {
    match datum {
        Datum::Bool(_) => 0,
        Datum::Int(_) => 1,
        Datum::Float(_) => 2,
        Datum::Numeric(_) => 3,
        Datum::Text(_) => 4,
        Datum::Bytes(_) => 5,
        Datum::Date(_) => 6,
        Datum::Time(_) => 7,
        Datum::Timestamp(_) => 8,
        Datum::Interval(_) => 9,
        Datum::Uuid(_) => 10,
        Datum::Null => 11,
    }
}

impl Interval {
    /// The length in microseconds by which intervals are compared.
    pub fn length(&self) -> i128 {
        let days = i128::from(self.months) * 30 + i128::from(self.days);
        days * i128::from(DAY) + i128::from(self.micros)
    }
}

/// A hash that is the same for equal values of one type, on every machine and in every release.
pub fn hash(datum: &Datum) -> u64 {
    let mut bytes = Vec::with_capacity(16);
    key::append(&mut bytes, datum);
    base::hash64(&bytes)
}
