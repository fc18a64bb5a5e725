//! Operators on dates, times and intervals.

use super::BinaryOp;
use crate::value::Interval;
use crate::{Datum, SqlError};

pub(super) fn binary(_op: BinaryOp, _left: &Datum, _right: &Datum) -> Result<Datum, SqlError> {
    Err(super::eval::mistyped())
}

pub(super) fn negate(v: &Interval) -> Result<Interval, SqlError> {
    Ok(Interval { months: -v.months, days: -v.days, micros: -v.micros })
}
