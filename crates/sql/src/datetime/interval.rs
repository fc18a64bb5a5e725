//! Arithmetic of intervals, part by part.

use super::{DAY, interval_out_of_range};
use crate::SqlError;
use crate::value::Interval;

impl Interval {
    /// # Errors
    /// `22008` if a part of the sum is out of range; the functions below too.
    pub fn add(&self, b: &Interval) -> Result<Interval, SqlError> {
        let sum = || {
            Some(Interval {
                months: self.months.checked_add(b.months)?,
                days: self.days.checked_add(b.days)?,
                micros: self.micros.checked_add(b.micros)?,
            })
        };
        sum().ok_or_else(interval_out_of_range)
    }

    pub fn subtract(&self, b: &Interval) -> Result<Interval, SqlError> {
        let difference = || {
            Some(Interval {
                months: self.months.checked_sub(b.months)?,
                days: self.days.checked_sub(b.days)?,
                micros: self.micros.checked_sub(b.micros)?,
            })
        };
        difference().ok_or_else(interval_out_of_range)
    }

    pub fn negate(&self) -> Result<Interval, SqlError> {
        Interval::default().subtract(self)
    }

    /// The interval with days of 30 a month as months (`of_days`), or microseconds as days. What is
    /// left has the sign of the larger part.
    pub fn justified(&self, of_days: bool) -> Result<Interval, SqlError> {
        let (large, small, size) = match of_days {
            true => (i64::from(self.months), i64::from(self.days), 30),
            false => (i64::from(self.days), self.micros, DAY),
        };
        let (mut large, mut small) = (large + small / size, small % size);
        if large > 0 && small < 0 {
            (large, small) = (large - 1, small + size);
        } else if large < 0 && small > 0 {
            (large, small) = (large + 1, small - size);
        }
        let whole = |v: i64| i32::try_from(v).map_err(|_| interval_out_of_range());
        Ok(match of_days {
            true => Interval { months: whole(large)?, days: whole(small)?, micros: self.micros },
            false => Interval { months: self.months, days: whole(large)?, micros: small },
        })
    }

    /// The interval with microseconds as days and days as months, all parts of one sign
    /// (PostgreSQL's `interval_justify_interval`).
    ///
    /// # Errors
    /// `22008`.
    pub fn justified_as_a_whole(&self) -> Result<Interval, SqlError> {
        const MONTH: i64 = 30;
        let (mut months, mut days, mut micros) = (i64::from(self.months), i64::from(self.days), self.micros);
        days += micros / DAY;
        micros %= DAY;
        months += days / MONTH;
        days %= MONTH;
        if months > 0 && (days < 0 || days == 0 && micros < 0) {
            (months, days) = (months - 1, days + MONTH);
        } else if months < 0 && (days > 0 || days == 0 && micros > 0) {
            (months, days) = (months + 1, days - MONTH);
        }
        if days > 0 && micros < 0 {
            (days, micros) = (days - 1, micros + DAY);
        } else if days < 0 && micros > 0 {
            (days, micros) = (days + 1, micros - DAY);
        }
        let months = i32::try_from(months).map_err(|_| interval_out_of_range())?;
        Ok(Interval { months, days: days as i32, micros })
    }

    /// Each part by `by`; what is no whole month counts in days of 30 a month, what is no whole day
    /// in microseconds (PostgreSQL's `interval_mul`).
    pub fn scale(&self, by: impl Fn(f64) -> f64) -> Result<Interval, SqlError> {
        const SECONDS: f64 = 86_400.0;
        let whole = |v: f64| {
            let fits = v > f64::from(i32::MIN) - 1.0 && v < f64::from(i32::MAX) + 1.0;
            if fits { Ok(v as i32) } else { Err(interval_out_of_range()) }
        };
        let round = |v: f64| (v * 1e6).round_ties_even() / 1e6;
        let (months_exact, days_exact) = (by(self.months.into()), by(self.days.into()));
        let (months, mut days) = (whole(months_exact)?, whole(days_exact)?);
        let month_days = round((months_exact - f64::from(months)) * 30.0);
        let mut seconds = round((days_exact - f64::from(days) + month_days - month_days.trunc()) * SECONDS);
        if seconds.abs() >= SECONDS {
            let more = (seconds / SECONDS).trunc();
            days = days.checked_add(more as i32).ok_or_else(interval_out_of_range)?;
            seconds -= more * SECONDS;
        }
        let days = days.checked_add(month_days as i32).ok_or_else(interval_out_of_range)?;
        let micros = (by(self.micros as f64) + seconds * 1e6).round_ties_even();
        if micros.is_nan() || micros.abs() >= i64::MAX as f64 {
            return Err(interval_out_of_range());
        }
        Ok(Interval { months, days, micros: micros as i64 })
    }
}
