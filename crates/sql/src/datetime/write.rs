//! Dates and times as text, in PostgreSQL's style `ISO`.

use super::{BEGIN, BEGIN_DATE, Civil, DAY, END, END_DATE, HOUR, MINUTE, SECOND};
use std::fmt::Write as _;

pub fn date(out: &mut String, date: i32) {
    match date {
        BEGIN_DATE => out.push_str("-infinity"),
        END_DATE => out.push_str("infinity"),
        days => {
            let civil = Civil::of(days.into());
            civil_date(out, civil);
            era(out, civil);
        }
    }
}

pub fn time(out: &mut String, micros: i64) {
    put(out, format_args!("{:02}:{:02}:", micros / HOUR, micros % HOUR / MINUTE));
    seconds(out, micros % MINUTE);
}

/// `zone` is written behind the time: an offset, or nothing.
pub fn timestamp(out: &mut String, timestamp: i64, zone: &str) {
    match timestamp {
        BEGIN => out.push_str("-infinity"),
        END => out.push_str("infinity"),
        micros => {
            let civil = Civil::of(micros.div_euclid(DAY));
            civil_date(out, civil);
            out.push(' ');
            time(out, micros.rem_euclid(DAY));
            out.push_str(zone);
            era(out, civil);
        }
    }
}

fn civil_date(out: &mut String, Civil { year, month, day }: Civil) {
    let year = if year > 0 { year } else { 1 - year };
    put(out, format_args!("{year:04}-{month:02}-{day:02}"));
}

fn era(out: &mut String, civil: Civil) {
    if civil.year <= 0 {
        out.push_str(" BC");
    }
}

/// Two digits, and as many digits of the fraction as it needs.
pub(super) fn seconds(out: &mut String, micros: i64) {
    put(out, format_args!("{:02}", micros / SECOND));
    let fraction = micros % SECOND;
    if fraction != 0 {
        put(out, format_args!(".{fraction:06}"));
        out.truncate(out.trim_end_matches('0').len());
    }
}

pub(super) fn put(out: &mut String, args: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(args);
}
