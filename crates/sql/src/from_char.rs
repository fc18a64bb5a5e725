//! `to_date` and `to_timestamp` of a text and a format: patterns of PostgreSQL's `formatting.c`.
//!
//! A letter or digit of the text stands for itself in the format only in quotes. A character that
//! is neither skips one of the text that is neither. Patterns of weeks and zones are refused.

use crate::datetime::{self, Civil, DAY, HOUR, JULIAN, MINUTE, MONTHS, SECOND, WEEKDAYS};
use crate::{SqlError, SqlState};

/// Longer ones before their beginnings, each with the most digits that it reads.
const NUMBERS: [(&str, usize); 17] = [
    ("YYYY", 4),
    ("YYY", 3),
    ("YY", 2),
    ("Y", 1),
    ("HH24", 2),
    ("HH12", 2),
    ("HH", 2),
    ("MI", 2),
    ("MM", 2),
    ("MS", 3),
    ("SSSS", 5),
    ("SS", 2),
    ("US", 6),
    ("DDD", 3),
    ("DD", 2),
    ("J", 7),
    ("Q", 1),
];

/// More than a timestamp has; within them the days of a date can be computed.
const YEARS: std::ops::RangeInclusive<i64> = -300_000..=300_000;

#[derive(Default)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    julian: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    seconds_of_day: Option<i64>,
    is_12: bool,
    is_pm: Option<bool>,
}

fn wrong(state: SqlState, message: String) -> SqlError {
    SqlError::new(state, message)
}

/// The time, in microseconds since 2000-01-01.
///
/// # Errors
/// `22007` for a text that does not fit the format, `22008` for a field out of range, `0A000` for
/// other patterns.
pub fn timestamp(text: &str, format: &str) -> Result<i64, SqlError> {
    let mut fields = Fields::default();
    let (mut rest, mut format) = (text.trim_start(), format);
    while let Some(first) = format.chars().next() {
        if first == '"' {
            let end = format[1..].find('"').map_or(format.len(), |at| at + 1);
            let skipped = format[1..end].chars().count();
            format = format.get(end + 1..).unwrap_or_default();
            let mut chars = rest.chars();
            chars.by_ref().take(skipped).for_each(drop);
            rest = chars.as_str();
        } else if !first.is_ascii_alphanumeric() {
            format = &format[first.len_utf8()..];
            rest = rest.trim_start();
            if let Some(next) =
                rest.chars().next().filter(|next| !next.is_alphanumeric() && !first.is_whitespace())
            {
                rest = &rest[next.len_utf8()..];
            }
        } else {
            (rest, format) = fields.pattern(rest.trim_start(), format)?;
        }
    }
    fields.time(text)
}

impl Fields {
    /// Reads what the next pattern stands for. Returns what is left of text and format.
    fn pattern<'a>(&mut self, text: &'a str, format: &'a str) -> Result<(&'a str, &'a str), SqlError> {
        // No pattern is longer.
        let upper: String = format.chars().take(6).map(|c| c.to_ascii_uppercase()).collect();
        if upper.starts_with("FM") || upper.starts_with("TM") {
            return Ok((text, &format[2..]));
        }
        let names: [(&str, &[&str], usize); 4] = [
            ("MONTH", &MONTHS, usize::MAX),
            ("MON", &MONTHS, 3),
            ("DAY", &WEEKDAYS, usize::MAX),
            ("DY", &WEEKDAYS, 3),
        ];
        for (pattern, names, length) in names {
            if upper.starts_with(pattern) {
                let rest = self.name(text, pattern, (names, length))?;
                return Ok((rest, &format[pattern.len()..]));
            }
        }
        for pattern in ["A.M.", "P.M.", "AM", "PM"] {
            if upper.starts_with(pattern) {
                let read = text.get(..pattern.len()).unwrap_or(text);
                self.is_pm = match read.to_ascii_lowercase().replace('.', "").as_str() {
                    "am" => Some(false),
                    "pm" => Some(true),
                    _ => return Err(invalid(text, pattern.len(), pattern)),
                };
                return Ok((&text[read.len()..], &format[pattern.len()..]));
            }
        }
        let Some((pattern, width)) = NUMBERS.iter().find(|(pattern, _)| upper.starts_with(pattern)) else {
            let shown: String = format.chars().take_while(char::is_ascii_alphabetic).collect();
            return Err(SqlError::unsupported(&format!("the pattern \"{shown}\" of a text of time"), None));
        };
        let after = &format[pattern.len()..];
        let after = after.strip_prefix("th").or_else(|| after.strip_prefix("TH")).unwrap_or(after);
        // Digits that another pattern follows at once have a fixed number.
        let is_fixed = after.chars().next().is_some_and(|next| next.is_ascii_alphanumeric());
        let most = if is_fixed { *width } else { usize::MAX };
        let sign = usize::from(*pattern == "YYYY" && text.starts_with('-'));
        let digits = text[sign..].bytes().take(most).take_while(u8::is_ascii_digit).count();
        let number = text[..sign + digits].parse::<i64>();
        let number = number.map_err(|_| invalid(text, (*width).min(text.len()), pattern))?;
        self.set(pattern, number, digits)?;
        Ok((&text[sign + digits..], after))
    }

    fn name<'a>(
        &mut self,
        text: &'a str,
        pattern: &str,
        (names, length): (&[&str], usize),
    ) -> Result<&'a str, SqlError> {
        // No name is longer. Other letters than ASCII would change the length.
        let lower: String = text.chars().take(9).map(|c| c.to_ascii_lowercase()).collect();
        let cut = |name: &str| name[..length.min(name.len())].to_owned();
        let Some(at) = names.iter().position(|name| lower.starts_with(&cut(name))) else {
            let word: String = text.chars().take_while(|c| !c.is_whitespace()).collect();
            let message = format!("invalid value \"{word}\" for \"{pattern}\"");
            return Err(wrong(SqlState(*b"22007"), message)
                .with_detail("The given value did not match any of the allowed values for this field."));
        };
        if names.len() == MONTHS.len() {
            self.month = Some(at as i64 + 1);
        }
        Ok(&text[cut(names[at]).len()..])
    }

    fn set(&mut self, pattern: &str, number: i64, digits: usize) -> Result<(), SqlError> {
        let fraction = |width: u32| number.saturating_mul(10_i64.pow(width.saturating_sub(digits as u32)));
        match pattern {
            "YYYY" => self.year = Some(number),
            // Years of one to three digits are near 2020.
            "YYY" | "YY" | "Y" => {
                self.year = Some(match digits {
                    1 | 2 if number < 70 => number + 2000,
                    1 | 2 => number + 1900,
                    3 if number < 520 => number + 2000,
                    3 => number + 1000,
                    _ => number,
                });
            }
            "MM" => self.month = Some(number),
            "DD" => self.day = Some(number),
            "DDD" => self.day_of_year = Some(number),
            "J" => self.julian = Some(number),
            "HH24" => (self.hour, self.is_12) = (number, false),
            "HH" | "HH12" if !(1..=12).contains(&number) => {
                let message = format!("hour \"{number}\" is invalid for the 12-hour clock");
                return Err(wrong(SqlState(*b"22007"), message)
                    .with_hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            "HH" | "HH12" => (self.hour, self.is_12) = (number, true),
            "MI" => self.minute = number,
            "SS" => self.second = number,
            "SSSS" => self.seconds_of_day = Some(number),
            "MS" => self.micros = fraction(3).saturating_mul(1000),
            "US" => self.micros = fraction(6),
            _ => {}
        }
        Ok(())
    }

    fn time(&self, text: &str) -> Result<i64, SqlError> {
        let out =
            || wrong(SqlState::DATETIME_OVERFLOW, format!("date/time field value out of range: \"{text}\""));
        let year = match self.year.unwrap_or(0) {
            // Without a year it is 1 BC.
            year if year < 0 => year + 1,
            year => year,
        };
        let (month, day) = (self.month.unwrap_or(1), self.day.unwrap_or(1));
        let is_valid = YEARS.contains(&year)
            && self.seconds_of_day.is_none_or(|seconds| (0..=DAY / SECOND).contains(&seconds))
            && (1..=12).contains(&month)
            && (1..=datetime::days_in(year, month)).contains(&day)
            && (0..24).contains(&self.hour)
            && (0..60).contains(&self.minute)
            && (0..60).contains(&self.second)
            && self.micros < SECOND
            && self
                .day_of_year
                .is_none_or(|day| (1..=365 + i64::from(datetime::is_leap(year))).contains(&day));
        if !is_valid {
            return Err(out());
        }
        let days = match (self.julian, self.day_of_year) {
            (Some(julian), _) => julian - JULIAN,
            (None, Some(day)) => Civil { year, month: 1, day }.days(),
            (None, None) => Civil { year, month, day }.days(),
        };
        let hour = match (self.is_pm, self.hour) {
            (Some(true), hour) if hour < 12 => hour + 12,
            (Some(false), 12) => 0,
            (None, 12) if self.is_12 => 0,
            (_, hour) => hour,
        };
        let clock = hour * HOUR + self.minute * MINUTE + self.second * SECOND;
        let clock = self.seconds_of_day.map_or(clock, |seconds| seconds * SECOND);
        if clock > DAY {
            return Err(out());
        }
        datetime::timestamp(days, clock + self.micros).ok_or_else(out)
    }
}

fn invalid(text: &str, width: usize, pattern: &str) -> SqlError {
    let shown: String = text.chars().take(width).collect();
    wrong(SqlState(*b"22007"), format!("invalid value \"{shown}\" for \"{pattern}\""))
        .with_detail("Value must be an integer.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_any_letters_and_numbers_are_read_or_refused() {
        let at = |text| timestamp(text, "YYYY-MM-DD HH12:MI A.M.");
        assert_eq!(at("2000-01-02 01:00 am"), Ok(DAY + HOUR), "shorter than its pattern");
        assert_eq!(at("2000-01-02 01:00 a.m."), at("2000-01-02 01:00 am"));
        // The small form of this letter is longer.
        assert!(timestamp("fr\u{130}", "DY").is_err());
        assert!(timestamp("OCT\u{130} 2000", "MON").is_ok());
        let huge = "9223372036854775807";
        for format in ["YYYY", "MS", "US", "SSSS", "J", "DDD", "HH24", "MI", "SS"] {
            assert!(timestamp(huge, format).is_err(), "{format}");
        }
        assert!(timestamp(&format!("-{huge}"), "YYYY").is_err());
    }
}
