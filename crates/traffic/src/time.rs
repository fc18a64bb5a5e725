//! Lengths of time as people type them: one notation for all options.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The units, the longest first.
const UNITS: [(&str, f64); 6] =
    [("d", 86_400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6)];

/// The range of an option without a range of its own.
const USUAL: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(86_400);

/// `5s`, `500ms`, `2m`, `1.5s`, `1h30m`; a number alone is seconds.
///
/// # Errors
/// A description with the text and the expected form; also outside 1 ms to a day.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    parse_time_in(text, "s", USUAL)
}

/// The same with another unit for a number alone (one of `d`, `h`, `m`, `s`, `ms`, `us`), and in
/// another range.
///
/// # Errors
/// A description with the text and the expected form.
pub fn parse_time_in(text: &str, unit: &str, range: RangeInclusive<Duration>) -> Result<Duration, String> {
    let seconds = seconds(text, unit)
        .ok_or_else(|| format!("{text:?} is no length of time; expected e.g. 5s, 500ms, 2m or 1h30m"))?;
    // Written so that NaN, and a number too large for a length of time, are out of range too.
    let fits = seconds >= range.start().as_secs_f64() && seconds <= range.end().as_secs_f64();
    if !fits {
        let (from, to) = (in_words(*range.start()), in_words(*range.end()));
        return Err(format!("{text:?} is out of range; expected {from} to {to}"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// In the largest unit without a remainder: `90m`, `1500ms`.
pub fn in_words(time: Duration) -> String {
    let us = time.as_micros();
    let whole = |(_, scale): &&(&str, f64)| us.is_multiple_of((scale * 1e6) as u128);
    match UNITS.iter().find(whole) {
        Some((unit, scale)) if us > 0 => format!("{}{unit}", us / (scale * 1e6) as u128),
        _ => format!("{}s", time.as_secs_f64()),
    }
}

/// Pieces of a number and a unit, each unit shorter than the one before; a number without a unit
/// only if it is the whole text.
fn seconds(text: &str, unit: &str) -> Option<f64> {
    if let Ok(number) = number(text) {
        return Some(number * scale_of(unit)?.1);
    }
    let (mut rest, mut sum, mut last) = (text, 0.0, None);
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let after = &rest[unit_at..];
        let next = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (place, scale) = scale_of(&after[..next])?;
        if last.is_some_and(|last| place <= last) {
            return None;
        }
        sum += number(&rest[..unit_at]).ok()? * scale;
        (rest, last) = (&after[next..], Some(place));
    }
    last.map(|_| sum)
}

/// Digits, perhaps with a point; no sign and no exponent.
fn number(text: &str) -> Result<f64, ()> {
    let plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.parse::<f64>().ok().filter(|_| plain).ok_or(())
}

fn scale_of(unit: &str) -> Option<(usize, f64)> {
    let place = UNITS.iter().position(|(name, _)| *name == unit)?;
    Some((place, UNITS[place].1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_units_and_sums_of_them() {
        let ms = |text: &str| parse_time(text).unwrap().as_millis();
        assert_eq!((ms("5"), ms("1.5s"), ms("20ms"), ms("2m")), (5000, 1500, 20, 120_000));
        assert_eq!(
            (ms("1h30m"), ms("1m30s"), ms("1s500ms"), ms("1d")),
            (5_400_000, 90_000, 1500, 86_400_000)
        );
        let us = parse_time_in("250us", "s", Duration::from_micros(1)..=Duration::from_secs(1));
        assert_eq!(us, Ok(Duration::from_micros(250)));
        let bare = parse_time_in("100", "ms", Duration::from_millis(1)..=Duration::from_secs(600));
        assert_eq!(bare, Ok(Duration::from_millis(100)));
    }

    #[test]
    fn the_rest_is_refused_with_what_was_expected() {
        for bad in [
            "",
            "s",
            "-1s",
            "nan",
            "inf",
            "1e99s",
            "1 s",
            "5 parsecs",
            "1h30",
            "30m1h",
            "1m1m",
            "5sec",
            "1..2s",
            ".",
        ] {
            let why = parse_time(bad).unwrap_err();
            assert!(why.contains("1h30m"), "{bad}: {why}");
        }
        for bad in ["0s", "0", "25h", "2d", "0.5ms", "99999999999999999999999d"] {
            let why = parse_time(bad).unwrap_err();
            assert!(why.contains("1ms to 1d"), "{bad}: {why}");
        }
    }

    #[test]
    fn in_words_is_what_is_read_again() {
        for text in ["90m", "1500ms", "2h", "1d", "7us", "12s"] {
            let range = Duration::ZERO..=Duration::from_secs(1 << 30);
            assert_eq!(in_words(parse_time_in(text, "s", range).unwrap()), text);
        }
        assert_eq!(in_words(Duration::ZERO), "0s");
    }
}
