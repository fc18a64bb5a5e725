//! The calendar: days and microseconds since 2000-01-01, and the years, months and days that they
//! are. Years are astronomical: 0 is 1 BC.

mod interval;
pub mod interval_text;
pub mod parts;
pub mod read;
pub mod write;
pub mod zone;

use crate::{SqlError, SqlState};

pub const SECOND: i64 = 1_000_000;
pub const MINUTE: i64 = 60 * SECOND;
pub const HOUR: i64 = 60 * MINUTE;
/// Microseconds in a day.
pub const DAY: i64 = 24 * HOUR;

/// 400 years: the calendar and the days of the week repeat.
pub const CYCLE: i64 = 146_097 * DAY;

/// -infinity and infinity among timestamps and among dates.
pub const BEGIN: i64 = i64::MIN;
pub const END: i64 = i64::MAX;
pub const BEGIN_DATE: i32 = i32::MIN;
pub const END_DATE: i32 = i32::MAX;

/// The Julian day of 2000-01-01. Day 0 is the first that PostgreSQL has: 4714-11-24 BC.
pub const JULIAN: i64 = 2_451_545;

/// The names of the months, and of the days of a week from Sunday on, as texts are read.
pub(crate) const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
pub(crate) const WEEKDAYS: [&str; 7] =
    ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
/// 5874898-01-01 and 294277-01-01: the first days that PostgreSQL's dates and timestamps lack.
const DATES_END: i64 = 2_145_031_949;
const TIMESTAMPS_END: i64 = 106_751_983;
/// 1970-01-01, in days.
pub const UNIX_EPOCH: i64 = -10_957;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Civil {
    pub year: i64,
    /// From 1.
    pub month: i64,
    pub day: i64,
}

impl Civil {
    /// The day, in days since 2000-01-01; `month` and `day` may be out of their ranges.
    pub fn days(self) -> i64 {
        let months = self.month - 1;
        let year = self.year + months.div_euclid(12);
        let month = months.rem_euclid(12) + 1;
        // Years from March on: the leap day is a year's last. Era: 400 years.
        let year = if month <= 2 { year - 1 } else { year };
        let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5;
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year + self.day - 1 - 730_425
    }

    pub fn of(days: i64) -> Civil {
        let days = days + 730_425;
        let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let day_of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        Civil { year: year + era * 400 + i64::from(month <= 2), month, day }
    }
}

pub fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 2000-01-01 as a date; `None` if PostgreSQL has no such date.
pub fn date(days: i64) -> Option<i32> {
    (-JULIAN..DATES_END).contains(&days).then_some(days as i32)
}

/// A day and microseconds of it (or more) as a timestamp; `None` if PostgreSQL has no such one.
pub fn timestamp(days: i64, micros: i64) -> Option<i64> {
    checked_timestamp(days.checked_mul(DAY)?.checked_add(micros)?)
}

pub fn checked_timestamp(micros: i64) -> Option<i64> {
    (-JULIAN * DAY..TIMESTAMPS_END * DAY).contains(&micros).then_some(micros)
}

/// A date's midnight.
///
/// # Errors
/// `22008` if timestamps do not reach it.
pub fn midnight(date: i32) -> Result<i64, SqlError> {
    match date {
        BEGIN_DATE => Ok(BEGIN),
        END_DATE => Ok(END),
        days => timestamp(days.into(), 0)
            .ok_or_else(|| SqlError::new(SqlState::DATETIME_OVERFLOW, "date out of range for timestamp")),
    }
}

/// The date of a timestamp.
pub fn date_of(timestamp: i64) -> i32 {
    match timestamp {
        BEGIN => BEGIN_DATE,
        END => END_DATE,
        micros => micros.div_euclid(DAY) as i32,
    }
}

pub fn timestamp_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_OVERFLOW, "timestamp out of range")
}

pub fn date_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_OVERFLOW, "date out of range")
}

pub fn interval_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_OVERFLOW, "interval out of range")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_civil_dates_are_inverse() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..100_000 {
            let days = rng.i64(-JULIAN..DATES_END);
            let civil = Civil::of(days);
            assert_eq!(civil.days(), days);
            assert!((1..=12).contains(&civil.month) && civil.day <= days_in(civil.year, civil.month));
        }
        assert_eq!(Civil::of(0), Civil { year: 2000, month: 1, day: 1 });
        assert_eq!(Civil { year: 1970, month: 1, day: 1 }.days(), UNIX_EPOCH);
        assert_eq!(Civil { year: 294_277, month: 1, day: 1 }.days(), TIMESTAMPS_END);
        assert_eq!(Civil { year: 5_874_898, month: 1, day: 1 }.days(), DATES_END);
        assert_eq!(Civil { year: -4713, month: 11, day: 24 }.days(), -JULIAN);
    }
}
