//! Dates and times from text: ISO 8601 and the common forms that PostgreSQL reads with the setting
//! `DateStyle = ISO, MDY`.

use super::zone::Zone;
use super::{BEGIN, BEGIN_DATE, Civil, DAY, END, END_DATE, HOUR, MINUTE, SECOND, days_in};
use super::{MONTHS, UNIX_EPOCH, WEEKDAYS, checked_timestamp};
use crate::numeric::is_blank;
use crate::{SqlError, SqlState};

/// Why a text is no date or time.
enum Problem {
    Syntax,
    /// A field is out of its range; the flag tells whether it is the month or the day of a date
    /// in an order that depends on the style.
    Field(bool),
    Zone(String),
    ZoneField,
}

type Read<T> = Result<T, Problem>;

/// # Errors
/// `22007` for a wrong form, `22008` for fields or results out of range, `22023` for unknown zones;
/// the other functions too.
pub fn date(text: &str) -> Result<i32, SqlError> {
    let fields = Fields::read(text).map_err(|problem| problem.error(text, "date"))?;
    match fields.special {
        Some(BEGIN) => return Ok(BEGIN_DATE),
        Some(END) => return Ok(END_DATE),
        Some(_) => return Ok(UNIX_EPOCH as i32),
        None => {}
    }
    let days = fields.days().map_err(|problem| problem.error(text, "date"))?;
    super::date(days)
        .ok_or_else(|| SqlError::new(SqlState::DATETIME_OVERFLOW, format!("date out of range: \"{text}\"")))
}

pub fn time(text: &str) -> Result<i64, SqlError> {
    let error = |problem: Problem| problem.error(text, "time");
    let fields = Fields { is_clock: true, ..Fields::default() }.read_all(text).map_err(error)?;
    if fields.date.is_some() {
        fields.days().map_err(error)?;
    }
    fields.time.filter(|_| fields.special.is_none()).ok_or_else(|| error(Problem::Syntax))
}

/// A timestamp. With a zone it is an instant: the text may name a zone of its own.
pub fn timestamp(text: &str, zone: Option<&Zone>) -> Result<i64, SqlError> {
    let name = if zone.is_some() { "timestamp with time zone" } else { "timestamp" };
    let fields = Fields::read(text).map_err(|problem| problem.error(text, name))?;
    if let Some(special) = fields.special {
        return Ok(special);
    }
    let days = fields.days().map_err(|problem| problem.error(text, name))?;
    let out_of_range =
        || SqlError::new(SqlState::DATETIME_OVERFLOW, format!("timestamp out of range: \"{text}\""));
    let local = days.checked_mul(DAY).and_then(|m| m.checked_add(fields.time.unwrap_or(0)));
    // An offset may bring a time within reach that is not without it.
    let local = local.filter(|local| local.checked_abs().is_some_and(|local| local < END - DAY));
    let local = local.ok_or_else(out_of_range)?;
    match (zone, &fields.zone) {
        (Some(_), Some(Shift::East(east))) => checked_timestamp(local - east),
        (Some(_), Some(Shift::Rules(zone))) | (Some(zone), None) => {
            checked_timestamp(zone.instant(local).map_err(|_| out_of_range())?)
        }
        (None, _) => checked_timestamp(local),
    }
    .ok_or_else(out_of_range)
}

impl Problem {
    fn error(self, text: &str, name: &str) -> SqlError {
        match self {
            Problem::Syntax => {
                let message = format!("invalid input syntax for type {name}: \"{text}\"");
                SqlError::new(SqlState::INVALID_DATETIME, message)
            }
            Problem::Field(is_style) => {
                let message = format!("date/time field value out of range: \"{text}\"");
                let error = SqlError::new(SqlState::DATETIME_OVERFLOW, message);
                let hint = "Perhaps you need a different \"datestyle\" setting.";
                if is_style { error.with_hint(hint) } else { error }
            }
            Problem::Zone(zone) => {
                SqlError::new(SqlState::INVALID_PARAMETER, format!("time zone \"{zone}\" not recognized"))
            }
            Problem::ZoneField => {
                let message = format!("time zone displacement out of range: \"{text}\"");
                SqlError::new(SqlState(*b"22009"), message)
            }
        }
    }
}

/// A zone in a text.
enum Shift {
    /// Microseconds east of Greenwich.
    East(i64),
    Rules(Zone),
}

/// What a text says.
#[derive(Default)]
struct Fields {
    /// Year as written, month, day.
    date: Option<(i64, i64, i64)>,
    is_bc: bool,
    /// Microseconds of the day.
    time: Option<i64>,
    zone: Option<Shift>,
    /// -infinity, infinity, or the Unix epoch.
    special: Option<i64>,
    /// Numbers and a month's name that stand alone: `January 8, 1999`.
    loose: Vec<i64>,
    month: Option<i64>,
    has_weekday: bool,
    /// Whether a time of day is expected, which may stand without a date and without colons.
    is_clock: bool,
    /// Whether the date's fields come in an order that the style decides.
    is_style: bool,
}

impl Fields {
    fn read(text: &str) -> Read<Fields> {
        Fields::default().read_all(text)
    }

    fn read_all(self, text: &str) -> Read<Fields> {
        let mut fields = self;
        let mut rest = text.trim_matches(is_blank);
        if rest.is_empty() {
            return Err(Problem::Syntax);
        }
        while let Some(first) = rest.chars().next() {
            rest = match first {
                c if is_blank(c) || c == ',' => &rest[1..],
                '0'..='9' => fields.number(rest)?,
                '+' | '-' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => fields.offset(rest)?,
                '-' if rest[1..].eq_ignore_ascii_case("infinity") => {
                    fields.special = Some(BEGIN);
                    ""
                }
                c if c.is_ascii_alphabetic() => fields.word(rest)?,
                _ => return Err(Problem::Syntax),
            };
        }
        fields.gather()?;
        let has_fields = fields.date.is_some() || fields.time.is_some();
        if fields.special.is_some() == has_fields {
            return Err(Problem::Syntax);
        }
        Ok(fields)
    }

    /// A date, a time or a lone number at the front of `rest`; gives what is behind it.
    fn number<'a>(&mut self, rest: &'a str) -> Read<&'a str> {
        let length = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let next = rest[length..].chars().next();
        match next {
            Some(':') => self.clock(rest),
            Some('-' | '/') => self.dashed(rest),
            Some('.') if self.date.is_none() && rest[length + 1..].contains('.') => self.dashed(rest),
            _ if (self.date.is_some() || self.is_clock)
                && self.time.is_none()
                && (length == 6 || length == 4) =>
            {
                self.digits_of_clock(&rest[..length])?;
                self.fraction(&rest[length..])
            }
            _ if length == 8 && self.date.is_none() && self.loose.is_empty() => {
                let date = |range: std::ops::Range<usize>| parse(&rest[range]);
                self.date = Some((date(0..4)?, date(4..6)?, date(6..8)?));
                Ok(after_date(&rest[length..]))
            }
            _ => {
                self.loose.push(parse(&rest[..length])?);
                let ordinal = ["st", "nd", "rd", "th"].iter().find(|s| rest[length..].starts_with(**s));
                Ok(&rest[length + ordinal.map_or(0, |s| s.len())..])
            }
        }
    }

    /// `HHMM` or `HHMMSS`.
    fn digits_of_clock(&mut self, digits: &str) -> Read<()> {
        let (hour, minute) = (parse(&digits[..2])?, parse(&digits[2..4])?);
        let second = if digits.len() == 6 { parse(&digits[4..])? } else { 0 };
        self.set_clock(hour, minute, second * SECOND)
    }

    /// `HH:MM[:SS[.ffffff]]`.
    fn clock<'a>(&mut self, rest: &'a str) -> Read<&'a str> {
        let length = rest.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(rest.len());
        let mut parts = rest[..length].split(':');
        let hour = parse(parts.next().unwrap_or(""))?;
        let minute = parse(parts.next().unwrap_or(""))?;
        let second = parts.next();
        if parts.next().is_some() {
            return Err(Problem::Syntax);
        }
        let fraction = second.is_some();
        self.set_clock(hour, minute, second.map_or(Ok(0), parse)? * SECOND)?;
        if fraction { self.fraction(&rest[length..]) } else { Ok(&rest[length..]) }
    }

    fn set_clock(&mut self, hour: i64, minute: i64, second: i64) -> Read<()> {
        if self.time.is_some() {
            return Err(Problem::Syntax);
        }
        let is_end = hour == 24 && (minute > 0 || second > 0);
        if hour > 24 || minute > 59 || second > 60 * SECOND || is_end {
            return Err(Problem::Field(false));
        }
        self.time = Some(hour * HOUR + minute * MINUTE + second);
        Ok(())
    }

    /// Digits behind the point of the seconds, rounded to microseconds.
    fn fraction<'a>(&mut self, rest: &'a str) -> Read<&'a str> {
        let Some(digits) = rest.strip_prefix('.') else { return Ok(rest) };
        let length = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let fraction: f64 = format!("0.{}0", &digits[..length]).parse().map_err(|_| Problem::Syntax)?;
        let time = self.time.unwrap_or(0) + (fraction * SECOND as f64).round_ties_even() as i64;
        if time > DAY {
            return Err(Problem::Field(false));
        }
        self.time = Some(time);
        Ok(&digits[length..])
    }

    /// Three parts with the same separator: year first, or month first; the month may be a name.
    fn dashed<'a>(&mut self, rest: &'a str) -> Read<&'a str> {
        let bytes = rest.as_bytes();
        let mut length = 0;
        while length < bytes.len() {
            let is_t = bytes[length] | 32 == b't' && bytes.get(length + 1).is_some_and(u8::is_ascii_digit);
            let is_part =
                bytes[length].is_ascii_alphanumeric() || matches!(bytes[length], b'-' | b'/' | b'.');
            if is_t || !is_part {
                break;
            }
            length += 1;
        }
        let separator = rest.find(|c: char| !c.is_ascii_digit()).map_or('-', |at| char::from(bytes[at]));
        let parts: Vec<&str> = rest[..length].split(separator).collect();
        let &[first, second, third] = parts.as_slice() else { return Err(Problem::Syntax) };
        if self.date.is_some() {
            return Err(Problem::Syntax);
        }
        let month = month_of(second);
        self.date = Some(match month {
            Some(month) if first.len() > 2 => (parse(first)?, month, parse(third)?),
            Some(month) => (year(third)?, month, parse(first)?),
            None if first.len() > 2 => (parse(first)?, parse(second)?, parse(third)?),
            None => {
                self.is_style = true;
                (year(third)?, parse(first)?, parse(second)?)
            }
        });
        self.is_style |= month.is_none();
        Ok(after_date(&rest[length..]))
    }

    /// `+HH`, `+HH:MM`, `+HHMM` behind a time.
    fn offset<'a>(&mut self, rest: &'a str) -> Read<&'a str> {
        let length =
            rest[1..].find(|c: char| !c.is_ascii_digit() && c != ':').map_or(rest.len(), |at| at + 1);
        let digits = &rest[1..length];
        let (hour, minute, second) = match digits.split(':').collect::<Vec<_>>()[..] {
            [all] if all.len() <= 2 => (parse(all)?, 0, 0),
            [all] if all.len() <= 4 => (parse(&all[..all.len() - 2])?, parse(&all[all.len() - 2..])?, 0),
            [hour, minute] => (parse(hour)?, parse(minute)?, 0),
            [hour, minute, second] => (parse(hour)?, parse(minute)?, parse(second)?),
            _ => return Err(Problem::Syntax),
        };
        if self.zone.is_some() || self.time.is_none() {
            return Err(Problem::Syntax);
        }
        if hour > 15 || minute > 59 || second > 59 {
            return Err(Problem::ZoneField);
        }
        let offset = hour * HOUR + minute * MINUTE + second * SECOND;
        self.zone = Some(Shift::East(if rest.starts_with('-') { -offset } else { offset }));
        Ok(&rest[length..])
    }

    fn word<'a>(&mut self, rest: &'a str) -> Read<&'a str> {
        let length = length_of_word(rest);
        let word = rest[..length].to_ascii_lowercase();
        match word.as_str() {
            "infinity" => self.special = Some(END),
            "epoch" => self.special = Some(UNIX_EPOCH * DAY),
            "z" | "utc" | "gmt" | "zulu" | "ut" => self.zone = Some(Shift::East(0)),
            "bc" => self.is_bc = true,
            "ad" | "t" | "at" | "on" => {}
            "am" | "pm" => self.half(word == "pm")?,
            _ => match (month_of(&word), is_weekday(&word)) {
                (Some(month), _) if self.month.is_none() && self.date.is_none() => self.month = Some(month),
                (None, true) if !self.has_weekday => self.has_weekday = true,
                _ if self.zone.is_some() => return Err(Problem::Syntax),
                _ => match Zone::of_text(&word) {
                    Ok(zone) => self.zone = Some(Shift::Rules(zone)),
                    Err(_) if word.contains('/') => return Err(Problem::Zone(word)),
                    Err(_) => return Err(Problem::Syntax),
                },
            },
        }
        let behind = &rest[length..];
        Ok(behind.strip_prefix('.').filter(|_| self.month.is_some()).unwrap_or(behind))
    }

    fn half(&mut self, is_pm: bool) -> Read<()> {
        let time = self.time.ok_or(Problem::Syntax)?;
        if time / HOUR > 12 {
            return Err(Problem::Field(false));
        }
        let time = time % (12 * HOUR);
        self.time = Some(if is_pm { time + 12 * HOUR } else { time });
        Ok(())
    }

    /// Makes a date of a month's name and the two numbers beside it.
    fn gather(&mut self) -> Read<()> {
        match (self.month, &self.loose[..]) {
            (None, []) => Ok(()),
            (Some(month), [a, b]) if self.date.is_none() => {
                let (year, day) = if *a > 31 { (*a, *b) } else { (*b, *a) };
                let year = if year < 70 && !self.is_bc { year + 2000 } else { year };
                self.date = Some((if (70..100).contains(&year) { year + 1900 } else { year }, month, day));
                Ok(())
            }
            _ => Err(Problem::Syntax),
        }
    }

    /// Days since 2000-01-01.
    fn days(&self) -> Read<i64> {
        let (year, month, day) = self.date.ok_or(Problem::Syntax)?;
        let year = match (self.is_bc, year) {
            (_, 0) => return Err(Problem::Field(false)),
            (true, year) => 1 - year,
            (false, year) => year,
        };
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return Err(Problem::Field(self.is_style));
        }
        if day > days_in(year, month) {
            return Err(Problem::Field(false));
        }
        Ok(Civil { year, month, day }.days())
    }
}

/// The letters at the front; the whole name of a zone, if it has a slash: `Etc/GMT+3`.
fn length_of_word(rest: &str) -> usize {
    let is_part = |c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '_');
    let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    if !rest[..length].contains('/') {
        return length;
    }
    let is_part = |c: char| is_part(c) || c.is_ascii_digit() || matches!(c, '+' | '-');
    rest.find(|c| !is_part(c)).unwrap_or(rest.len())
}

/// A `T` separates a date from a time.
fn after_date(rest: &str) -> &str {
    rest.strip_prefix(['T', 't'])
        .filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        .unwrap_or(rest)
}

fn parse(digits: &str) -> Read<i64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !is_number {
        return Err(Problem::Syntax);
    }
    digits.parse().ok().filter(|v| *v <= i64::from(i32::MAX)).ok_or(Problem::Field(false))
}

/// A year of two digits is one from 1970 to 2069.
fn year(digits: &str) -> Read<i64> {
    let year = parse(digits)?;
    Ok(match digits.len() {
        1 | 2 if year < 70 => year + 2000,
        1 | 2 => year + 1900,
        _ => year,
    })
}

fn month_of(word: &str) -> Option<i64> {
    let word = word.to_ascii_lowercase();
    let word = if word == "sept" { "sep" } else { &word };
    (1..).zip(MONTHS).find(|(_, name)| *name == word || name[..3] == *word).map(|(number, _)| number)
}

fn is_weekday(word: &str) -> bool {
    let extra = ["tues", "wednes", "weds", "thur", "thurs"];
    WEEKDAYS.iter().any(|name| *name == word || name[..3] == *word) || extra.contains(&word)
}
