//! Times, shares and counts as typed.

use driver::Warmup;
use std::time::Duration;

/// The interval of `--progress`.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    let sensible = Duration::from_millis(100)..=Duration::from_secs(3600);
    if sensible.contains(&interval) { Ok(interval) } else { Err("expected 100ms to 60m".into()) }
}

/// `None` for no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetryLimit(pub Option<u32>);

pub(super) fn retries(text: &str) -> Result<RetryLimit, String> {
    match text {
        "unlimited" => Ok(RetryLimit(None)),
        _ => text
            .parse()
            .map(|n| RetryLimit(Some(n)))
            .map_err(|_| format!("{text:?}: expected how often to try again, such as 3, or unlimited")),
    }
}

/// Zero for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backoff(pub Duration);

pub(super) fn backoff(text: &str) -> Result<Backoff, String> {
    match text {
        "none" => Ok(Backoff(Duration::ZERO)),
        _ => {
            let range = Duration::from_micros(1)..=Duration::from_secs(60);
            traffic::parse_time_in(text, "s", range).map(Backoff).map_err(|why| format!("{why}, or none"))
        }
    }
}

pub(super) fn warmup(text: &str) -> Result<Warmup, String> {
    match text {
        "auto" => Ok(Warmup::UntilSteady),
        _ => duration(text).map(Warmup::For).map_err(|why| format!("{why}, or auto")),
    }
}

/// `5s`, `500ms`, `2m`, `1h30m`; a number alone is seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    traffic::parse_time(text)
}

fn in_range(text: &str, low: f64, high: f64) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|v| (low..=high).contains(v));
    value.ok_or_else(|| format!("expected a number from {low} to {high}"))
}

pub(super) fn per_cent(text: &str) -> Result<f64, String> {
    in_range(text, 0.0, 100.0)
}

pub(super) fn skew(text: &str) -> Result<f64, String> {
    in_range(text, 0.0, 10.0)
}
