//! Numbers for human readers: few digits, with a unit.

use std::time::Duration;

/// A count or a rate with at least four digits: `9876`, `12.35k`, `1.235M`. At most six characters
/// below 1e15.
pub fn scaled(value: f64) -> String {
    if value.abs() < 9_999.5 {
        return format!("{value:.0}");
    }
    let mut value = value;
    for unit in ["k", "M", "G"] {
        value /= 1000.0;
        if value.abs() < 999.95 {
            return with_digits(value, 4) + unit;
        }
    }
    with_digits(value / 1000.0, 4) + "T"
}

/// A time in microseconds, with three digits: `0.80us`, `123us`, `4.56ms`, `1.23s`. At most six
/// characters.
pub fn micros(us: f64) -> String {
    match us {
        _ if us < 999.5 => with_digits(us, 3) + "us",
        _ if us < 999_500.0 => with_digits(us / 1e3, 3) + "ms",
        _ => with_digits(us / 1e6, 3) + "s",
    }
}

/// Per cent, with one decimal place below ten.
pub fn per_cent(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}%") } else { format!("{value:.0}%") }
}

/// Bytes in powers of 1024: `512 MiB`, `1.5 GiB`.
pub fn bytes(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib < 1023.5 { format!("{:.0} MiB", mib.ceil()) } else { format!("{:.1} GiB", mib / 1024.0) }
}

/// A time in words: `50 ms`, `1.5 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `24 days`.
pub fn in_words(time: Duration) -> String {
    let (ms, seconds) = (time.as_millis(), time.as_secs_f64());
    let whole = seconds.round() as u64;
    match whole {
        _ if (1..1000).contains(&ms) => format!("{ms} ms"),
        _ if seconds < 9.95 && (seconds - whole as f64).abs() >= 0.05 => format!("{seconds:.1} s"),
        0..100 => format!("{whole} s"),
        100..3600 if whole.is_multiple_of(60) => format!("{} min", whole / 60),
        100..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..172_800 if whole % 3600 < 60 => format!("{} h", whole / 3600),
        3600..172_800 => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} days", whole / 86_400),
    }
}

/// This many digits in all; digits before the point are never dropped.
fn with_digits(value: f64, digits: usize) -> String {
    let before = match value.abs() {
        v if v < 9.995 => 1,
        v if v < 99.95 => 2,
        _ => 3,
    };
    format!("{value:.*}", digits.saturating_sub(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits_and_times_three() {
        for (value, text) in [
            (0.0, "0"),
            (999.4, "999"),
            (9_876.0, "9876"),
            (12_345.0, "12.35k"),
            (99_996.0, "100.0k"),
            (123_456.0, "123.5k"),
            (999_960.0, "1.000M"),
            (1_234_567.8, "1.235M"),
            (7e12, "7.000T"),
        ] {
            assert_eq!(scaled(value), text);
        }
        for (us, text) in [
            (0.8, "0.80us"),
            (12.34, "12.3us"),
            (999.7, "1.00ms"),
            (45_600.0, "45.6ms"),
            (999_600.0, "1.00s"),
            (123e6, "123s"),
        ] {
            assert_eq!(micros(us), text);
        }
        assert_eq!((per_cent(0.0), per_cent(9.97)), ("0.0%".into(), "10%".into()));
    }

    #[test]
    fn no_number_is_wider_than_its_column() {
        let mut value = 0.001;
        while value < 1e14 {
            assert!(scaled(value).len() <= 6, "{value}: {}", scaled(value));
            value *= 1.003;
        }
        let mut us = 0.001;
        while us < 9e8 {
            assert!(micros(us).len() <= 6, "{us}: {}", micros(us));
            us *= 1.003;
        }
    }

    #[test]
    fn times_in_words() {
        for (ms, text) in [
            (0, "0 s"),
            (50, "50 ms"),
            (5_000, "5 s"),
            (1_240, "1.2 s"),
            (9_980, "10 s"),
            (99_400, "99 s"),
            (120_000, "2 min"),
            (200_000, "3 min 20 s"),
            (3_600_000, "1 h"),
            (7_500_000, "2 h 5 min"),
            (2_080_000_000, "24 days"),
        ] {
            assert_eq!(in_words(Duration::from_millis(ms)), text);
        }
        assert_eq!(
            (bytes(1), bytes(512 << 20), bytes(3 << 29)),
            ("1 MiB".into(), "512 MiB".into(), "1.5 GiB".into())
        );
    }
}
