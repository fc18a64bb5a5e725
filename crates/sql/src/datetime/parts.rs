//! Parts of dates, times and intervals: `extract`, `date_part`, `date_trunc`, `age`.

use super::zone::Zone;
use super::{BEGIN, Civil, DAY, END, HOUR, JULIAN, MINUTE, SECOND, UNIX_EPOCH, days_in};
use super::{timestamp, timestamp_out_of_range};
use crate::value::{Interval, Numeric};
use crate::{Datum, SqlError, SqlState};

/// A part of a time that has a name, by growing size, then those that cannot be truncated to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Part {
    Microseconds,
    Milliseconds,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    IsoYear,
    Dow,
    IsoDow,
    Doy,
    Julian,
    Epoch,
    Timezone,
    TimezoneHour,
    TimezoneMinute,
}

fn part(name: &str) -> Option<Part> {
    Some(match name.to_ascii_lowercase().as_str() {
        "microseconds" | "microsecond" | "us" | "usec" | "usecs" | "usecond" | "useconds" => {
            Part::Microseconds
        }
        "milliseconds" | "millisecond" | "ms" | "msec" | "msecs" | "msecond" | "mseconds" => {
            Part::Milliseconds
        }
        "second" | "seconds" | "s" | "sec" | "secs" => Part::Second,
        "minute" | "minutes" | "m" | "min" | "mins" => Part::Minute,
        "hour" | "hours" | "h" | "hr" | "hrs" => Part::Hour,
        "day" | "days" | "d" => Part::Day,
        "week" | "weeks" | "w" => Part::Week,
        "month" | "months" | "mon" | "mons" => Part::Month,
        "quarter" | "qtr" => Part::Quarter,
        "year" | "years" | "y" | "yr" | "yrs" => Part::Year,
        "decade" | "decades" | "dec" | "decs" => Part::Decade,
        "century" | "centuries" | "c" | "cent" => Part::Century,
        "millennium" | "millennia" | "mil" | "mils" => Part::Millennium,
        "isoyear" => Part::IsoYear,
        "dow" => Part::Dow,
        "isodow" => Part::IsoDow,
        "doy" => Part::Doy,
        "julian" | "j" | "jd" => Part::Julian,
        "epoch" => Part::Epoch,
        "timezone" => Part::Timezone,
        "timezone_h" | "timezone_hour" => Part::TimezoneHour,
        "timezone_m" | "timezone_minute" => Part::TimezoneMinute,
        _ => return None,
    })
}

/// `extract(name from value)`, as a decimal number.
///
/// # Errors
/// `22023` for a name of no part, `0A000` for a part that values of this kind do not have.
pub fn extract(name: &str, value: &Datum) -> Result<Datum, SqlError> {
    let unknown = || unknown(name, type_name(value));
    let part = part(name).ok_or_else(unknown)?;
    let number = match value {
        Datum::Timestamp(BEGIN | END) | Datum::Date(i32::MIN | i32::MAX) => {
            return infinite(part, name, value);
        }
        Datum::Timestamp(micros) => of_timestamp(part, *micros),
        Datum::Date(days) => of_date(part, (*days).into()),
        Datum::Time(micros) => of_time(part, *micros),
        Datum::Interval(interval) => of_interval(part, interval),
        _ => return Err(unknown()),
    };
    number.map(Datum::Numeric).ok_or_else(|| unsupported(name, type_name(value)))
}

/// [`extract`] of an instant, as clocks in the zone show it.
///
/// # Errors
/// As [`extract`].
pub fn extract_of_instant(name: &str, instant: i64, zone: &Zone) -> Result<Datum, SqlError> {
    let part = part(name).ok_or_else(|| unknown(name, WITH_ZONE))?;
    if matches!(instant, BEGIN | END) {
        return infinite(part, name, &Datum::Timestamp(instant));
    }
    let offset = zone.offset_at(instant);
    let seconds = offset / SECOND;
    let number = match part {
        Part::Epoch => of_timestamp(part, instant),
        Part::Timezone => Some(Numeric::from(seconds)),
        Part::TimezoneHour => Some(Numeric::from(seconds / 3600)),
        Part::TimezoneMinute => Some(Numeric::from(seconds / 60 % 60)),
        part => of_timestamp(part, instant + offset),
    };
    number.map(Datum::Numeric).ok_or_else(|| unsupported(name, WITH_ZONE))
}

const WITH_ZONE: &str = "timestamp with time zone";

fn type_name(value: &Datum) -> &'static str {
    match value {
        Datum::Date(_) => "date",
        Datum::Time(_) => "time without time zone",
        Datum::Interval(_) => "interval",
        _ => "timestamp without time zone",
    }
}

fn unknown(name: &str, ty: &str) -> SqlError {
    let name = name.to_ascii_lowercase();
    SqlError::new(SqlState::INVALID_PARAMETER, format!("unit \"{name}\" not recognized for type {ty}"))
}

fn unsupported(name: &str, ty: &str) -> SqlError {
    let name = name.to_ascii_lowercase();
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("unit \"{name}\" not supported for type {ty}"))
}

/// Parts that grow for ever are infinite too; the others are null.
fn infinite(part: Part, name: &str, value: &Datum) -> Result<Datum, SqlError> {
    let grows = matches!(
        part,
        Part::Year
            | Part::Decade
            | Part::Century
            | Part::Millennium
            | Part::IsoYear
            | Part::Julian
            | Part::Epoch
    );
    if matches!(value, Datum::Date(_)) && part < Part::Day {
        return Err(unsupported(name, "date"));
    }
    let is_end = matches!(value, Datum::Timestamp(END) | Datum::Date(i32::MAX));
    let infinity = if is_end { f64::INFINITY } else { f64::NEG_INFINITY };
    Ok(if grows { Datum::Float(infinity) } else { Datum::Null })
}

/// A number of microseconds in units of ten to the power of `scale`.
fn scaled(micros: i64, scale: i64) -> Numeric {
    Numeric::new(micros.into(), scale)
}

fn of_timestamp(part: Part, micros: i64) -> Option<Numeric> {
    let (days, time) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
    match part {
        Part::Epoch => Some(scaled(micros - UNIX_EPOCH * DAY, 6)),
        Part::Julian => {
            let fraction = Numeric::from(time).divide(&Numeric::from(DAY)).ok()?;
            Numeric::from(days + JULIAN).add(&fraction).ok()
        }
        part if part < Part::Day => of_time(part, time),
        part => of_date(part, days),
    }
}

fn of_time(part: Part, micros: i64) -> Option<Numeric> {
    Some(match part {
        Part::Microseconds => Numeric::from(micros % MINUTE),
        Part::Milliseconds => scaled(micros % MINUTE, 3),
        Part::Second => scaled(micros % MINUTE, 6),
        Part::Minute => Numeric::from(micros % HOUR / MINUTE),
        Part::Hour => Numeric::from(micros / HOUR),
        Part::Epoch => scaled(micros, 6),
        _ => return None,
    })
}

fn of_date(part: Part, days: i64) -> Option<Numeric> {
    let Civil { year, month, day } = Civil::of(days);
    // There is no year 0.
    let shown = if year > 0 { year } else { year - 1 };
    Some(Numeric::from(match part {
        Part::Day => day,
        Part::Week => iso_week(days).1,
        Part::Month => month,
        Part::Quarter => (month - 1) / 3 + 1,
        Part::Year => shown,
        Part::Decade => year.div_euclid(10),
        Part::Century => period(year, 100),
        Part::Millennium => period(year, 1000),
        Part::IsoYear => match iso_week(days).0 {
            year @ 1.. => year,
            year => year - 1,
        },
        Part::Dow => weekday(days),
        Part::IsoDow => (weekday(days) + 6) % 7 + 1,
        Part::Doy => day_of_year(days),
        Part::Julian => days + JULIAN,
        Part::Epoch => (days - UNIX_EPOCH) * 86_400,
        _ => return None,
    }))
}

/// The century or the millennium of a year: the first begins with the year 1, that before it is -1.
fn period(year: i64, length: i64) -> i64 {
    if year > 0 { (year + length - 1) / length } else { -((length - 1 - (year - 1)) / length) }
}

/// 0 is Sunday.
pub fn weekday(days: i64) -> i64 {
    (days + 6).rem_euclid(7)
}

pub fn day_of_year(days: i64) -> i64 {
    days - Civil { month: 1, day: 1, ..Civil::of(days) }.days() + 1
}

/// The year and number of the week with this day, by ISO 8601: the week of a year's first Thursday
/// is its first.
pub fn iso_week(days: i64) -> (i64, i64) {
    let thursday = days - (weekday(days) + 6) % 7 + 3;
    (Civil::of(thursday).year, (day_of_year(thursday) - 1) / 7 + 1)
}

fn of_interval(part: Part, interval: &Interval) -> Option<Numeric> {
    let Interval { months, days, micros } = *interval;
    let (years, months_left) = (i64::from(months / 12), i64::from(months % 12));
    Some(match part {
        Part::Day => Numeric::from(i64::from(days)),
        Part::Month => Numeric::from(months_left),
        Part::Quarter => Numeric::from(months_left / 3 + 1),
        Part::Year => Numeric::from(years),
        Part::Decade => Numeric::from(years / 10),
        Part::Century => Numeric::from(years / 100),
        Part::Millennium => Numeric::from(years / 1000),
        Part::Epoch => {
            // A year counts 365.25 days.
            let seconds = i128::from(years) * 31_557_600 + i128::from(months_left) * 2_592_000;
            let seconds = seconds + i128::from(days) * 86_400;
            let total = seconds * i128::from(SECOND) + i128::from(micros);
            Numeric::new(total.into(), 6)
        }
        part if part < Part::Day => of_time(part, micros)?,
        _ => return None,
    })
}

/// `date_trunc(name, value)` of a timestamp or an interval.
///
/// # Errors
/// Those of [`extract`].
pub fn truncate(name: &str, value: &Datum) -> Result<Datum, SqlError> {
    truncate_as(name, value, type_name(value))
}

/// `date_trunc(name, instant)`, of what clocks in the zone show.
///
/// # Errors
/// Those of [`extract`]; `22008` if timestamps do not reach the result.
pub fn truncate_instant(name: &str, instant: i64, zone: &Zone) -> Result<Datum, SqlError> {
    let offset = zone.offset_at(instant);
    let local = Datum::Timestamp(zone.local(instant));
    let Datum::Timestamp(cut) = truncate_as(name, &local, WITH_ZONE)? else { return Ok(Datum::Null) };
    // An hour that comes twice stays the one that it was.
    let is_short = part(name).is_some_and(|part| part < Part::Day);
    match cut {
        BEGIN | END => Ok(Datum::Timestamp(cut)),
        cut if is_short => Ok(Datum::Timestamp(cut - offset)),
        cut => zone.instant(cut).map(Datum::Timestamp),
    }
}

fn truncate_as(name: &str, value: &Datum, ty: &str) -> Result<Datum, SqlError> {
    let part = part(name).ok_or_else(|| unknown(name, ty))?;
    match value {
        Datum::Timestamp(micros @ (BEGIN | END)) => Ok(Datum::Timestamp(*micros)),
        Datum::Timestamp(_) | Datum::Interval(_) if part >= Part::Timezone => Err(unsupported(name, ty)),
        Datum::Timestamp(_) | Datum::Interval(_) if part > Part::Millennium => Err(unknown(name, ty)),
        Datum::Timestamp(micros) => truncate_timestamp(part, *micros).map(Datum::Timestamp),
        Datum::Interval(_) if part == Part::Week => {
            Err(unsupported(name, ty).with_detail("Months usually have fractional weeks."))
        }
        Datum::Interval(interval) => Ok(Datum::Interval(truncate_interval(part, interval))),
        _ => Err(unsupported(name, ty)),
    }
}

/// The size of a part that has a fixed one, in microseconds.
/// The begin of the bin of a width in which a time lies; one bin begins at `origin` (`date_bin`).
///
/// # Errors
/// `22008` for a width that is not positive, `0A000` for one of months.
pub fn bin(width: &Interval, time: i64, origin: i64) -> Result<i64, SqlError> {
    let out = |message: &str| SqlError::new(SqlState::DATETIME_OVERFLOW, message);
    if matches!(time, BEGIN | END) {
        return Ok(time);
    }
    if matches!(origin, BEGIN | END) {
        return Err(out("origin out of range"));
    }
    if width.months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let micros = i64::from(width.days).checked_mul(DAY).and_then(|days| days.checked_add(width.micros));
    let micros = micros.ok_or_else(super::interval_out_of_range)?;
    if micros <= 0 {
        return Err(out("stride must be greater than zero"));
    }
    let since = time.checked_sub(origin).ok_or_else(super::interval_out_of_range)?;
    let begin = since.div_euclid(micros).checked_mul(micros).and_then(|begin| begin.checked_add(origin));
    begin.and_then(super::checked_timestamp).ok_or_else(super::timestamp_out_of_range)
}

fn size(part: Part) -> Option<i64> {
    Some(match part {
        Part::Microseconds => 1,
        Part::Milliseconds => 1000,
        Part::Second => SECOND,
        Part::Minute => MINUTE,
        Part::Hour => HOUR,
        _ => return None,
    })
}

fn truncate_timestamp(part: Part, micros: i64) -> Result<i64, SqlError> {
    if let Some(size) = size(part) {
        return Ok(micros - micros.rem_euclid(size));
    }
    let days = micros.div_euclid(DAY);
    let Civil { year, month, day } = Civil::of(days);
    // The first year of a period of years that begins with the year 1.
    let first = |length: i64| (year - 1).div_euclid(length) * length + 1;
    let days = match part {
        Part::Week => days - (weekday(days) + 6) % 7,
        _ => {
            let (year, month, day) = match part {
                Part::Day => (year, month, day),
                Part::Month => (year, month, 1),
                Part::Quarter => (year, (month - 1) / 3 * 3 + 1, 1),
                Part::Year => (year, 1, 1),
                Part::Decade => (year.div_euclid(10) * 10, 1, 1),
                Part::Century => (first(100), 1, 1),
                _ => (first(1000), 1, 1),
            };
            Civil { year, month, day }.days()
        }
    };
    timestamp(days, 0).ok_or_else(timestamp_out_of_range)
}

fn truncate_interval(part: Part, interval: &Interval) -> Interval {
    let Interval { months, days, micros } = *interval;
    let whole = |months: i32| Interval { months, days: 0, micros: 0 };
    match part {
        Part::Day => Interval { months, days, micros: 0 },
        Part::Month => whole(months),
        Part::Quarter => whole(months / 3 * 3),
        Part::Year => whole(months / 12 * 12),
        Part::Decade => whole(months / 120 * 120),
        Part::Century => whole(months / 1200 * 1200),
        Part::Millennium => whole(months / 12_000 * 12_000),
        part => Interval { months, days, micros: micros - micros % size(part).unwrap_or(1) },
    }
}

/// The time from `from` to `to` in years, months, days and parts of a day.
///
/// # Errors
/// `22008` for infinite times.
pub fn age(to: i64, from: i64) -> Result<Interval, SqlError> {
    if [to, from].iter().any(|micros| matches!(*micros, BEGIN | END)) {
        return Err(timestamp_out_of_range());
    }
    if to < from {
        let Interval { months, days, micros } = age_between(from, to);
        return Ok(Interval { months: -months, days: -days, micros: -micros });
    }
    Ok(age_between(to, from))
}

/// A difference of days below zero borrows the days of the earlier time's month.
fn age_between(late: i64, early: i64) -> Interval {
    let (a, b) = (Civil::of(late.div_euclid(DAY)), Civil::of(early.div_euclid(DAY)));
    let mut micros = late.rem_euclid(DAY) - early.rem_euclid(DAY);
    let mut days = a.day - b.day;
    let mut months = (a.year - b.year) * 12 + a.month - b.month;
    if micros < 0 {
        micros += DAY;
        days -= 1;
    }
    while days < 0 {
        days += days_in(b.year, b.month);
        months -= 1;
    }
    Interval { months: months as i32, days: days as i32, micros }
}
