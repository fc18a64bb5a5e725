//! Operators on dates, times and intervals.

use super::BinaryOp;
use crate::datetime::zone::Zone;
use crate::datetime::{self, BEGIN, Civil, DAY, END, checked_timestamp, days_in, interval_out_of_range};
use crate::datetime::{date_out_of_range, timestamp_out_of_range};
use crate::numeric::division_by_zero;
use crate::value::Interval;
use crate::{Datum, SqlError, SqlState};

/// Days and months are added to the time that clocks in the zone show.
pub(super) fn binary(op: BinaryOp, left: &Datum, right: &Datum, zone: &Zone) -> Result<Datum, SqlError> {
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
            let signed = if op == Add { *span } else { span.negate()? };
            add_to_timestamp(datetime::midnight(*date)?, &signed, zone).map(Timestamp)
        }
        (Add, Timestamp(t), Datum::Interval(span)) | (Add, Datum::Interval(span), Timestamp(t)) => {
            add_to_timestamp(*t, span, zone).map(Timestamp)
        }
        (Add, Datum::Interval(span), Date(date)) => {
            add_to_timestamp(datetime::midnight(*date)?, span, zone).map(Timestamp)
        }
        (Subtract, Timestamp(t), Datum::Interval(span)) => {
            add_to_timestamp(*t, &span.negate()?, zone).map(Timestamp)
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
        (Add, Datum::Interval(a), Datum::Interval(b)) => a.add(b).map(Datum::Interval),
        (Subtract, Datum::Interval(a), Datum::Interval(b)) => a.subtract(b).map(Datum::Interval),
        (Multiply, Datum::Interval(span), Float(factor))
        | (Multiply, Float(factor), Datum::Interval(span)) => span.scale(|v| v * factor).map(Datum::Interval),
        (Divide, Datum::Interval(_), Float(0.0)) => Err(division_by_zero()),
        (Divide, Datum::Interval(span), Float(divisor)) => span.scale(|v| v / divisor).map(Datum::Interval),
        _ => Err(super::context::mistyped()),
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
fn add_to_timestamp(t: i64, span: &Interval, zone: &Zone) -> Result<i64, SqlError> {
    if matches!(t, BEGIN | END) {
        return Ok(t);
    }
    let mut t = t;
    if span.months != 0 {
        let local = zone.local(t);
        let civil = Civil::of(local.div_euclid(DAY));
        let months = civil.year * 12 + civil.month - 1 + i64::from(span.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        let days = Civil { year, month, day: civil.day.min(days_in(year, month)) }.days();
        t = instant(days, local.rem_euclid(DAY), zone)?;
    }
    if span.days != 0 {
        let local = zone.local(t);
        t = instant(local.div_euclid(DAY) + i64::from(span.days), local.rem_euclid(DAY), zone)?;
    }
    t.checked_add(span.micros).and_then(checked_timestamp).ok_or_else(timestamp_out_of_range)
}

fn instant(days: i64, time: i64, zone: &Zone) -> Result<i64, SqlError> {
    zone.instant(datetime::timestamp(days, time).ok_or_else(timestamp_out_of_range)?)
}

fn between(a: i64, b: i64) -> Result<Interval, SqlError> {
    if [a, b].iter().any(|t| matches!(*t, BEGIN | END)) {
        return Err(SqlError::new(SqlState::DATETIME_OVERFLOW, "cannot subtract infinite timestamps"));
    }
    let micros = a.checked_sub(b).ok_or_else(interval_out_of_range)?;
    Ok(Interval { months: 0, days: (micros / DAY) as i32, micros: micros % DAY })
}
