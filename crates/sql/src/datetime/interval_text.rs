//! Intervals as text: PostgreSQL's style `postgres` out, and in also ISO 8601 (`P1Y2M3DT4H5M6S`).

use super::write::{put, seconds};
use super::{DAY, HOUR, MINUTE, SECOND};
use crate::numeric::is_blank;
use crate::value::Interval;
use crate::{SqlError, SqlState};

pub fn write(out: &mut String, interval: &Interval) {
    let start = out.len();
    // After a negative part, a positive one has a sign.
    let mut after_negative = false;
    let parts = [(interval.months / 12, "year"), (interval.months % 12, "mon"), (interval.days, "day")];
    for (value, unit) in parts.into_iter().filter(|(value, _)| *value != 0) {
        let space = if out.len() == start { "" } else { " " };
        let sign = if after_negative && value > 0 { "+" } else { "" };
        let plural = if value == 1 { "" } else { "s" };
        put(out, format_args!("{space}{sign}{value} {unit}{plural}"));
        after_negative = value < 0;
    }
    let is_first = out.len() == start;
    if interval.micros != 0 || is_first {
        let space = if is_first { "" } else { " " };
        let sign = match interval.micros {
            ..0 => "-",
            _ if after_negative => "+",
            _ => "",
        };
        let micros = interval.micros.unsigned_abs();
        let (hours, rest) = (micros / HOUR as u64, (micros % HOUR as u64) as i64);
        put(out, format_args!("{space}{sign}{hours:02}:{:02}:", rest / MINUTE));
        seconds(out, rest % MINUTE);
    }
}

/// # Errors
/// `22007` for a wrong form, `22015` for parts out of range.
pub fn read(text: &str) -> Result<Interval, SqlError> {
    let trimmed = text.trim_matches(is_blank);
    let sum = if let Some(iso) = trimmed.strip_prefix('P') { read_iso(iso) } else { read_words(trimmed) };
    sum.and_then(Sum::interval).map_err(|problem| match problem {
        Problem::Syntax => {
            let message = format!("invalid input syntax for type interval: \"{text}\"");
            SqlError::new(SqlState::INVALID_DATETIME, message)
        }
        Problem::Range => {
            let message = format!("interval field value out of range: \"{text}\"");
            SqlError::new(SqlState(*b"22015"), message)
        }
    })
}

enum Problem {
    Syntax,
    Range,
}

/// The parts read so far; wider than those of an interval.
#[derive(Default, Clone, Copy)]
struct Sum {
    months: i64,
    days: i64,
    micros: i128,
}

#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Micros(i64),
    Days(i64),
    Months(i64),
}

impl Sum {
    fn interval(self) -> Result<Interval, Problem> {
        let micros = i64::try_from(self.micros).map_err(|_| Problem::Range)?;
        let months = i32::try_from(self.months).map_err(|_| Problem::Range)?;
        let days = i32::try_from(self.days).map_err(|_| Problem::Range)?;
        Ok(Interval { months, days, micros })
    }

    /// Adds a number of a unit. The fraction of a month counts in days of 30 a month; that of a day
    /// in microseconds.
    fn add(&mut self, number: Number, unit: Unit) -> Result<(), Problem> {
        let Number { whole, fraction } = number;
        let times = |size: i64| whole.checked_mul(size).ok_or(Problem::Range);
        match unit {
            Unit::Micros(size) => {
                self.micros += i128::from(whole) * i128::from(size);
                self.micros += (fraction * size as f64).round_ties_even() as i128;
            }
            Unit::Days(size) => {
                self.days = self.days.checked_add(times(size)?).ok_or(Problem::Range)?;
                self.add_days(fraction * size as f64);
            }
            Unit::Months(1) => {
                self.months = self.months.checked_add(whole).ok_or(Problem::Range)?;
                self.add_days(fraction * 30.0);
            }
            Unit::Months(size) => {
                // Years and longer: their fraction is rounded to months.
                self.months = self.months.checked_add(times(size)?).ok_or(Problem::Range)?;
                self.months += (fraction * size as f64).round_ties_even() as i64;
            }
        }
        Ok(())
    }

    fn add_days(&mut self, days: f64) {
        self.days += days.trunc() as i64;
        self.micros += (days.fract() * DAY as f64).round_ties_even() as i128;
    }
}

/// Both parts have the number's sign.
#[derive(Clone, Copy)]
struct Number {
    whole: i64,
    fraction: f64,
}

/// A number at the front of `rest`, and what is behind it.
fn number(rest: &str) -> Result<(Number, &str), Problem> {
    let unsigned = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    let length = unsigned.find(|c: char| !c.is_ascii_digit()).unwrap_or(unsigned.len());
    let (digits, mut rest_behind) = unsigned.split_at(length);
    let mut fraction = 0.0;
    if let Some(behind) = rest_behind.strip_prefix('.') {
        let length = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
        fraction = format!("0.{}0", &behind[..length]).parse().map_err(|_| Problem::Syntax)?;
        rest_behind = &behind[length..];
    } else if digits.is_empty() {
        return Err(Problem::Syntax);
    }
    let whole: i64 = format!("0{digits}").parse().map_err(|_| Problem::Range)?;
    let is_negative = rest.starts_with('-');
    let number =
        if is_negative { Number { whole: -whole, fraction: -fraction } } else { Number { whole, fraction } };
    Ok((number, rest_behind))
}

fn read_words(text: &str) -> Result<Sum, Problem> {
    let mut sum = Sum::default();
    let mut rest = text.strip_prefix('@').unwrap_or(text).trim_start_matches(is_blank);
    if rest.is_empty() {
        return Err(Problem::Syntax);
    }
    let mut seen: Vec<&str> = Vec::new();
    while !rest.is_empty() {
        if rest.eq_ignore_ascii_case("ago") && !seen.is_empty() {
            return Ok(Sum { months: -sum.months, days: -sum.days, micros: -sum.micros });
        }
        let (value, behind) = number(rest)?;
        let is_negative = rest.starts_with('-');
        if behind.starts_with(':') {
            rest = clock(&mut sum, rest)?;
            mark(&mut seen, "clock")?;
        } else if behind.starts_with('-') && value.fraction == 0.0 {
            let (months, behind) = number(&behind[1..])?;
            let years = value.whole.checked_mul(12).ok_or(Problem::Range)?;
            sum.months += if is_negative { years - months.whole } else { years + months.whole };
            mark(&mut seen, "years-months")?;
            rest = behind;
        } else {
            let behind = behind.trim_start_matches(is_blank);
            let length = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
            let word = behind[..length].to_ascii_lowercase();
            rest = if length > 0 && word != "ago" { &behind[length..] } else { behind };
            let (unit, name) = match word.as_str() {
                // A lone number counts days before a time of day, else seconds.
                "" | "ago" if is_clock(behind) => (Unit::Days(1), "day"),
                "" | "ago" => (Unit::Micros(SECOND), "second"),
                word => unit(word).ok_or(Problem::Syntax)?,
            };
            mark(&mut seen, name)?;
            sum.add(value, unit)?;
        }
        rest = rest.trim_start_matches(is_blank);
    }
    Ok(sum)
}

/// No unit counts twice.
fn mark<'a>(seen: &mut Vec<&'a str>, name: &'a str) -> Result<(), Problem> {
    if seen.contains(&name) {
        return Err(Problem::Syntax);
    }
    seen.push(name);
    Ok(())
}

fn is_clock(rest: &str) -> bool {
    number(rest).is_ok_and(|(_, behind)| behind.starts_with(':'))
}

/// `[-]HH:MM[:SS[.ffffff]]`, or `MM:SS.ffffff`.
fn clock<'a>(sum: &mut Sum, rest: &'a str) -> Result<&'a str, Problem> {
    let is_negative = rest.starts_with('-');
    let unsigned = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    let length =
        unsigned.find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.').unwrap_or(unsigned.len());
    let parts: Vec<&str> = unsigned[..length].split(':').collect();
    let parts = match *parts.as_slice() {
        [minutes, seconds] if seconds.contains('.') => ["0", minutes, seconds],
        [hours, minutes] => [hours, minutes, "0"],
        [hours, minutes, seconds] => [hours, minutes, seconds],
        _ => return Err(Problem::Syntax),
    };
    let mut micros = 0;
    for (part, size) in parts.into_iter().zip([HOUR, MINUTE, SECOND]) {
        let (value, behind) = number(part)?;
        if !behind.is_empty() || (value.fraction != 0.0 && size != SECOND) {
            return Err(Problem::Syntax);
        }
        if (size == MINUTE && value.whole > 59) || (size == SECOND && value.whole > 60) {
            return Err(Problem::Range);
        }
        micros += i128::from(value.whole) * i128::from(size);
        micros += (value.fraction * size as f64).round_ties_even() as i128;
    }
    sum.micros += if is_negative { -micros } else { micros };
    Ok(&unsigned[length..])
}

fn unit(word: &str) -> Option<(Unit, &'static str)> {
    Some(match word {
        "microsecond" | "microseconds" | "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" => {
            (Unit::Micros(1), "microsecond")
        }
        "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" => {
            (Unit::Micros(1000), "millisecond")
        }
        "second" | "seconds" | "s" | "sec" | "secs" => (Unit::Micros(SECOND), "second"),
        "minute" | "minutes" | "m" | "min" | "mins" => (Unit::Micros(MINUTE), "minute"),
        "hour" | "hours" | "h" | "hr" | "hrs" => (Unit::Micros(HOUR), "hour"),
        "day" | "days" | "d" => (Unit::Days(1), "day"),
        "week" | "weeks" | "w" => (Unit::Days(7), "week"),
        "month" | "months" | "mon" | "mons" => (Unit::Months(1), "month"),
        "year" | "years" | "y" | "yr" | "yrs" => (Unit::Months(12), "year"),
        "decade" | "decades" | "decs" | "dec" => (Unit::Months(120), "decade"),
        "century" | "centuries" | "c" | "cent" => (Unit::Months(1200), "century"),
        "millennium" | "millennia" | "mil" | "mils" => (Unit::Months(12_000), "millennium"),
        _ => return None,
    })
}

/// Behind the `P`: numbers with designators, of which those behind `T` are parts of a day.
fn read_iso(text: &str) -> Result<Sum, Problem> {
    let (mut sum, mut rest, mut is_time) = (Sum::default(), text, false);
    if rest.is_empty() {
        return Err(Problem::Syntax);
    }
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix('T') {
            if is_time || behind.is_empty() {
                return Err(Problem::Syntax);
            }
            (rest, is_time) = (behind, true);
            continue;
        }
        let (value, behind) = number(rest)?;
        let designator = behind.chars().next().ok_or(Problem::Syntax)?;
        let unit = match (designator, is_time) {
            ('Y', false) => Unit::Months(12),
            ('M', false) => Unit::Months(1),
            ('W', false) => Unit::Days(7),
            ('D', false) => Unit::Days(1),
            ('H', true) => Unit::Micros(HOUR),
            ('M', true) => Unit::Micros(MINUTE),
            ('S', true) => Unit::Micros(SECOND),
            _ => return Err(Problem::Syntax),
        };
        sum.add(value, unit)?;
        rest = &behind[1..];
    }
    Ok(sum)
}
