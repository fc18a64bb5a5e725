//! Operators on dates, times and intervals.

use super::BinaryOp;
use crate::datetime::{self, BEGIN, Civil, DAY, END, checked_timestamp, days_in, interval_out_of_range};
use crate::datetime::{date_out_of_range, timestamp_out_of_range};
use crate::numeric::division_by_zero;
use crate::value::Interval;
use crate::{Datum, SqlError, SqlState};

pub(super) fn binary(op: BinaryOp, left: &Datum, right: &Datum) -> Result<Datum, SqlError> {
    use BinaryOp::{Add, Divide, Multiply, Subtract};
    use Datum::{Date, Float, Int, Time, Timestamp};
    match (op, left, right) {
        (Add, Date(date), Int(days)) | (Add, Int(days), Date(date)) => add_days(*date, *days).map(Date),
        (Subtract, Date(date), Int(days)) => {
            add_days(*date, days.checked_neg().ok_or_else(date_out_of_range)?).map(Date)
        }
        (Subtract, Date(a), Date(b)) => days_between(*a, *b).map(Int),
        (Add, Date(date), Time(time)) | (Add, Time(time), Date(date)) => {
            let midnight = datetime::midnight(*date)?;
            if matches!(midnight, BEGIN | END) {
                return Ok(Timestamp(midnight));
            }
            checked_timestamp(midnight + time).map(Timestamp).ok_or_else(timestamp_out_of_range)
        }
        (Add | Subtract, Date(date), Datum::Interval(span)) => {
            let signed = if op == Add { *span } else { negate(span)? };
            add_to_timestamp(datetime::midnight(*date)?, &signed).map(Timestamp)
        }
        (Add, Timestamp(t), Datum::Interval(span)) | (Add, Datum::Interval(span), Timestamp(t)) => {
            add_to_timestamp(*t, span).map(Timestamp)
        }
        (Add, Datum::Interval(span), Date(date)) => {
            add_to_timestamp(datetime::midnight(*date)?, span).map(Timestamp)
        }
        (Subtract, Timestamp(t), Datum::Interval(span)) => {
            add_to_timestamp(*t, &negate(span)?).map(Timestamp)
        }
        (Subtract, Timestamp(a), Timestamp(b)) => between(*a, *b).map(Datum::Interval),
        (Add, Time(t), Datum::Interval(span)) | (Add, Datum::Interval(span), Time(t)) => {
            Ok(Time((t + span.micros.rem_euclid(DAY)).rem_euclid(DAY)))
        }
        (Subtract, Time(t), Datum::Interval(span)) => {
            Ok(Time((t - span.micros.rem_euclid(DAY)).rem_euclid(DAY)))
        }
        (Subtract, Time(a), Time(b)) => {
            Ok(Datum::Interval(Interval { micros: a - b, ..Interval::default() }))
        }
        (Add, Datum::Interval(a), Datum::Interval(b)) => add(a, b).map(Datum::Interval),
        (Subtract, Datum::Interval(a), Datum::Interval(b)) => subtract(a, b).map(Datum::Interval),
        (Multiply, Datum::Interval(span), Float(factor))
        | (Multiply, Float(factor), Datum::Interval(span)) => {
            scale(span, |v| v * factor).map(Datum::Interval)
        }
        (Divide, Datum::Interval(_), Float(0.0)) => Err(division_by_zero()),
        (Divide, Datum::Interval(span), Float(divisor)) => scale(span, |v| v / divisor).map(Datum::Interval),
        _ => Err(super::eval::mistyped()),
    }
}

fn add_days(date: i32, days: i64) -> Result<i32, SqlError> {
    if matches!(date, datetime::BEGIN_DATE | datetime::END_DATE) {
        return Ok(date);
    }
    i64::from(date).checked_add(days).and_then(datetime::date).ok_or_else(date_out_of_range)
}

fn days_between(a: i32, b: i32) -> Result<i64, SqlError> {
    if [a, b].iter().any(|date| matches!(*date, datetime::BEGIN_DATE | datetime::END_DATE)) {
        return Err(SqlError::new(SqlState::DATETIME_OVERFLOW, "cannot subtract infinite dates"));
    }
    Ok(i64::from(a) - i64::from(b))
}

/// Months first, where a day behind the end of a month becomes its last; then days; then the rest.
fn add_to_timestamp(t: i64, span: &Interval) -> Result<i64, SqlError> {
    if matches!(t, BEGIN | END) {
        return Ok(t);
    }
    let (mut days, time) = (t.div_euclid(DAY), t.rem_euclid(DAY));
    if span.months != 0 {
        let civil = Civil::of(days);
        let months = civil.year * 12 + civil.month - 1 + i64::from(span.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        days = Civil { year, month, day: civil.day.min(days_in(year, month)) }.days();
    }
    let start = datetime::timestamp(days + i64::from(span.days), time).ok_or_else(timestamp_out_of_range)?;
    start.checked_add(span.micros).and_then(checked_timestamp).ok_or_else(timestamp_out_of_range)
}

fn between(a: i64, b: i64) -> Result<Interval, SqlError> {
    if [a, b].iter().any(|t| matches!(*t, BEGIN | END)) {
        return Err(SqlError::new(SqlState::DATETIME_OVERFLOW, "cannot subtract infinite timestamps"));
    }
    let micros = a.checked_sub(b).ok_or_else(interval_out_of_range)?;
    Ok(Interval { months: 0, days: (micros / DAY) as i32, micros: micros % DAY })
}

/// # Errors
/// `22008` if a part of the sum is out of range; the functions below too.
pub(super) fn add(a: &Interval, b: &Interval) -> Result<Interval, SqlError> {
    let sum = || {
        Some(Interval {
            months: a.months.checked_add(b.months)?,
            days: a.days.checked_add(b.days)?,
            micros: a.micros.checked_add(b.micros)?,
        })
    };
    sum().ok_or_else(interval_out_of_range)
}

fn subtract(a: &Interval, b: &Interval) -> Result<Interval, SqlError> {
    let difference = || {
        Some(Interval {
            months: a.months.checked_sub(b.months)?,
            days: a.days.checked_sub(b.days)?,
            micros: a.micros.checked_sub(b.micros)?,
        })
    };
    difference().ok_or_else(interval_out_of_range)
}

pub(super) fn negate(v: &Interval) -> Result<Interval, SqlError> {
    subtract(&Interval::default(), v)
}

/// Each part by `by`; what is no whole month counts in days of 30 a month, what is no whole day in
/// microseconds (PostgreSQL's `interval_mul`).
pub(super) fn scale(span: &Interval, by: impl Fn(f64) -> f64) -> Result<Interval, SqlError> {
    const SECONDS: f64 = 86_400.0;
    let whole = |v: f64| {
        let fits = v > f64::from(i32::MIN) - 1.0 && v < f64::from(i32::MAX) + 1.0;
        if fits { Ok(v as i32) } else { Err(interval_out_of_range()) }
    };
    let round = |v: f64| (v * 1e6).round_ties_even() / 1e6;
    let (months_exact, days_exact) = (by(span.months.into()), by(span.days.into()));
    let (months, mut days) = (whole(months_exact)?, whole(days_exact)?);
    let month_days = round((months_exact - f64::from(months)) * 30.0);
    let mut seconds = round((days_exact - f64::from(days) + month_days - month_days.trunc()) * SECONDS);
    if seconds.abs() >= SECONDS {
        let more = (seconds / SECONDS).trunc();
        days = days.checked_add(more as i32).ok_or_else(interval_out_of_range)?;
        seconds -= more * SECONDS;
    }
    let days = days.checked_add(month_days as i32).ok_or_else(interval_out_of_range)?;
    let micros = (by(span.micros as f64) + seconds * 1e6).round_ties_even();
    if !(micros.abs() < i64::MAX as f64) {
        return Err(interval_out_of_range());
    }
    Ok(Interval { months, days, micros: micros as i64 })
}
