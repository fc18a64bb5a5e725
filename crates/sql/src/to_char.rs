//! `to_char` of times: the patterns of PostgreSQL's `formatting.c`. That of numbers is
//! [`crate::number_format`].

use crate::datetime::zone::{Zone, offset_text};
use crate::datetime::{self, BEGIN, Civil, DAY, END, HOUR, JULIAN, MINUTE, SECOND, parts};
use crate::value::Interval;
use crate::{Datum, SqlError};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// The patterns, longer ones before their beginnings. Those of names also stand in lower case and
/// with one capital, which decides the case of the result.
const PATTERNS: [&str; 57] = [
    "Y,YYY", "YYYY", "YYY", "YY", "Y", "IYYY", "IYY", "IY", "IDDD", "ID", "IW", "I", "HH24", "HH12", "HH",
    "MI", "MM", "MS", "MONTH", "Month", "month", "MON", "Mon", "mon", "SSSSS", "SSSS", "SS", "US", "FF1",
    "FF2", "FF3", "FF4", "FF5", "FF6", "A.M.", "P.M.", "a.m.", "p.m.", "AM", "PM", "am", "pm", "DAY", "Day",
    "day", "DY", "Dy", "dy", "DDD", "DD", "D", "WW", "W", "CC", "J", "Q", "RM",
];
const MORE_PATTERNS: [&str; 14] =
    ["rm", "B.C.", "A.D.", "b.c.", "a.d.", "BC", "AD", "bc", "ad", "TZH", "TZM", "TZ", "tz", "OF"];

/// The parts of a time that the patterns show. Those of an interval are no date.
struct Shown {
    civil: Civil,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    /// Days since 2000-01-01; `None` for an interval.
    days: Option<i64>,
    /// What the zone is called, and microseconds east of Greenwich.
    zone: Option<(String, i64)>,
}

/// An instant, as clocks in the zone show it. An infinite one gives null.
pub fn instant(instant: i64, zone: &Zone, format: &str) -> Datum {
    if matches!(instant, BEGIN | END) || format.is_empty() {
        return Datum::Null;
    }
    let shift = (zone.abbreviation_at(instant), zone.offset_at(instant));
    let shown = Shown { zone: Some(shift), ..of_timestamp(zone.local(instant)) };
    Datum::Text(write(&shown, format))
}

/// # Errors
/// `XX000` if the value is no time. An infinite time gives null.
pub fn time(value: &Datum, format: &str) -> Result<Datum, SqlError> {
    let shown = match value {
        Datum::Timestamp(BEGIN | END) => return Ok(Datum::Null),
        Datum::Timestamp(micros) => of_timestamp(*micros),
        Datum::Date(date) => match datetime::midnight(*date)? {
            BEGIN | END => return Ok(Datum::Null),
            micros => of_timestamp(micros),
        },
        Datum::Interval(interval) => of_interval(interval),
        Datum::Time(micros) => of_interval(&Interval { micros: *micros, ..Interval::default() }),
        _ => return Err(SqlError::new(crate::SqlState::INTERNAL, "to_char of a value that is no time")),
    };
    Ok(if format.is_empty() { Datum::Null } else { Datum::Text(write(&shown, format)) })
}

fn of_timestamp(micros: i64) -> Shown {
    let days = micros.div_euclid(DAY);
    with_clock(Civil::of(days), micros.rem_euclid(DAY), Some(days))
}

fn of_interval(interval: &Interval) -> Shown {
    let Interval { months, days, micros } = *interval;
    with_clock(
        Civil { year: (months / 12).into(), month: (months % 12).into(), day: days.into() },
        micros,
        None,
    )
}

fn with_clock(civil: Civil, micros: i64, days: Option<i64>) -> Shown {
    Shown {
        civil,
        hour: micros / HOUR,
        minute: micros % HOUR / MINUTE,
        second: micros % MINUTE / SECOND,
        micros: micros % SECOND,
        days,
        zone: None,
    }
}

fn write(shown: &Shown, format: &str) -> String {
    let mut out = String::new();
    let mut rest = format;
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            rest = quoted(&mut out, &rest[1..]);
            continue;
        }
        let (is_filled, behind) = match rest.strip_prefix("FM").or_else(|| rest.strip_prefix("fm")) {
            Some(behind) => (false, behind),
            None => (true, rest),
        };
        let behind = behind.strip_prefix("TM").unwrap_or(behind);
        let Some(pattern) = pattern(behind) else {
            // `FM` before no pattern is dropped.
            if behind.len() < rest.len() {
                rest = behind;
                continue;
            }
            let literal =
                rest.strip_prefix('\\').and_then(|rest| rest.strip_prefix('"')).map_or(first, |_| '"');
            out.push(literal);
            rest = &rest[if literal == first { first.len_utf8() } else { 2 }..];
            continue;
        };
        rest = &behind[pattern.len()..];
        let start = out.len();
        put(&mut out, shown, pattern, is_filled);
        for (suffix, is_upper) in [("TH", true), ("th", false)] {
            if let Some(behind) = rest.strip_prefix(suffix) {
                let ending = ordinal(&out[start..]);
                out.push_str(&if is_upper { ending.to_uppercase() } else { ending.into() });
                rest = behind;
                break;
            }
        }
    }
    out
}

/// Copies what is in quotes; gives what is behind them.
fn quoted<'a>(out: &mut String, text: &'a str) -> &'a str {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return &text[at + 1..],
            '\\' => out.extend(chars.next().map(|(_, c)| c)),
            c => out.push(c),
        }
    }
    ""
}

/// The pattern at the front of `rest`, in its own case if names have one.
fn pattern(rest: &str) -> Option<&'static str> {
    let all = || PATTERNS.into_iter().chain(MORE_PATTERNS);
    let starts =
        |pattern: &str| rest.get(..pattern.len()).is_some_and(|front| front.eq_ignore_ascii_case(pattern));
    let exact = all().filter(|pattern| rest.starts_with(pattern)).max_by_key(|pattern| pattern.len());
    let any = all().filter(|pattern| starts(pattern)).max_by_key(|pattern| pattern.len());
    match (exact, any) {
        (Some(exact), Some(any)) if any.len() > exact.len() => Some(any),
        (exact, any) => exact.or(any),
    }
}

/// The ending of an ordinal number.
pub fn ordinal(number: &str) -> &'static str {
    let digits = number.trim_end();
    let is_teen = digits.len() > 1 && digits.as_bytes()[digits.len() - 2] == b'1';
    match digits.as_bytes().last() {
        _ if is_teen => "th",
        Some(b'1') => "st",
        Some(b'2') => "nd",
        Some(b'3') => "rd",
        _ => "th",
    }
}

fn put(out: &mut String, shown: &Shown, pattern: &str, is_filled: bool) {
    let Shown { civil, hour, minute, second, micros, days, .. } = shown;
    let mut number = |value: i64, width: usize| {
        let sign = if value < 0 { "-" } else { "" };
        let digits = value.abs().to_string();
        let digits = if is_filled { format!("{digits:0>width$}") } else { digits };
        out.push_str(sign);
        out.push_str(&digits);
    };
    let year = if civil.year > 0 || days.is_none() { civil.year } else { 1 - civil.year };
    let iso = days.map_or((year, 0), parts::iso_week);
    let half = |hour: i64| if hour % 12 == 0 { 12 } else { hour % 12 };
    let day = days.unwrap_or(0);
    match pattern {
        "YYYY" => number(year, 4),
        "YYY" => number(year % 1000, 3),
        "YY" => number(year % 100, 2),
        "Y" => number(year % 10, 1),
        "IYYY" => number(iso.0, 4),
        "IYY" => number(iso.0 % 1000, 3),
        "IY" => number(iso.0 % 100, 2),
        "I" => number(iso.0 % 10, 1),
        "HH24" => number(*hour, 2),
        "HH12" | "HH" => number(half(*hour), 2),
        "MI" => number(*minute, 2),
        "MM" => number(civil.month, 2),
        "SS" => number(*second, 2),
        "SSSS" | "SSSSS" => number(hour * 3600 + minute * 60 + second, 1),
        "MS" => number(micros / 1000, 3),
        "US" => number(*micros, 6),
        "DDD" => number(if days.is_some() { parts::day_of_year(day) } else { civil.day }, 3),
        "IDDD" => number((iso.1 - 1) * 7 + (parts::weekday(day) + 6) % 7 + 1, 3),
        "DD" => number(civil.day, 2),
        "D" => number(parts::weekday(day) + 1, 1),
        "ID" => number((parts::weekday(day) + 6) % 7 + 1, 1),
        "WW" => number((parts::day_of_year(day) - 1) / 7 + 1, 2),
        "W" => number((civil.day - 1) / 7 + 1, 1),
        "IW" => number(iso.1, 2),
        "CC" => number((year + 99) / 100, 2),
        "J" => number(day + JULIAN, 1),
        "Q" => number((civil.month - 1) / 3 + 1, 1),
        "Y,YYY" => {
            let text = format!("{},{:03}", year / 1000, year % 1000);
            out.push_str(&text);
        }
        _ => put_word(out, shown, pattern, is_filled),
    }
}

/// Patterns that show words, and fractions of seconds.
fn put_word(out: &mut String, shown: &Shown, pattern: &str, is_filled: bool) {
    let Shown { civil, hour, micros, days, zone, .. } = shown;
    let month = (civil.month - 1).rem_euclid(12) as usize;
    let weekday = parts::weekday(days.unwrap_or(0)) as usize;
    let offset = zone.as_ref().map_or(0, |(_, offset)| *offset);
    let cased = |word: &str| {
        let mut letters = pattern.chars();
        let (first, second) = (letters.next().unwrap_or('a'), letters.next().unwrap_or('a'));
        match (first.is_uppercase(), second.is_uppercase()) {
            (true, true) => word.to_uppercase(),
            (true, false) => word.to_owned(),
            _ => word.to_lowercase(),
        }
    };
    let filled = |word: String, width: usize| if is_filled { format!("{word:width$}") } else { word };
    let text = match pattern.to_ascii_uppercase().as_str() {
        "MONTH" if days.is_some() => filled(cased(MONTHS[month]), 9),
        "MON" if days.is_some() => cased(&MONTHS[month][..3]),
        "DAY" if days.is_some() => filled(cased(WEEKDAYS[weekday]), 9),
        "DY" if days.is_some() => cased(&WEEKDAYS[weekday][..3]),
        "RM" if civil.month != 0 => filled(cased(&ROMAN[month].to_uppercase()), 4),
        "AM" | "PM" => {
            if hour % 24 >= 12 {
                "pm".into()
            } else {
                "am".into()
            }
        }
        "A.M." | "P.M." => {
            if hour % 24 >= 12 {
                "p.m.".into()
            } else {
                "a.m.".into()
            }
        }
        "AD" | "BC" => {
            if civil.year > 0 {
                "ad".into()
            } else {
                "bc".into()
            }
        }
        "A.D." | "B.C." => {
            if civil.year > 0 {
                "a.d.".into()
            } else {
                "b.c.".into()
            }
        }
        "TZ" => cased(zone.as_ref().map_or("", |(name, _)| name)),
        "TZH" if days.is_some() => offset_text(offset)[..3].to_owned(),
        "TZM" if days.is_some() => format!("{:02}", (offset / MINUTE).abs() % 60),
        "OF" if days.is_some() => offset_text(offset / MINUTE * MINUTE),
        fraction if fraction.starts_with("FF") => {
            let digits = usize::from(fraction.as_bytes()[2] - b'0');
            format!("{micros:06}")[..digits].to_owned()
        }
        _ => String::new(),
    };
    let is_upper_mark = matches!(pattern, "AM" | "PM" | "A.M." | "P.M." | "AD" | "BC" | "A.D." | "B.C.");
    out.push_str(&if is_upper_mark { text.to_uppercase() } else { text });
}
