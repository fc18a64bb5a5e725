//! The objective of a choice: throughput, throughput under a bound on latency, or throughput per
//! core.

use crate::candidate::Candidate;
use crate::error::AdviceError;
use crate::predictor::{Interval, Prediction};
use std::fmt;
use std::str::FromStr;

/// The quantity of which the best deployment has most.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Objective {
    /// Transactions per second.
    #[default]
    Tps,
    /// Transactions per second, with the 99th percentile of latency below this many microseconds.
    P99Below(f64),
    /// Transactions per second for each worker: deployments with fewer workers compete.
    TpsPerCore,
}

impl Objective {
    /// The value to maximise; `None` if the prediction breaks the bound. A prediction without
    /// latencies passes: only a predictor that knows them can decide.
    pub fn score(self, candidate: &Candidate, prediction: &Prediction) -> Option<Interval> {
        match self {
            Objective::Tps => Some(prediction.tps),
            Objective::TpsPerCore => Some(prediction.tps.over(candidate.workers.max(1) as f64)),
            Objective::P99Below(us) => prediction.p99_us.is_none_or(|p99| p99 < us).then_some(prediction.tps),
        }
    }

    /// The error if every prediction breaks the bound.
    pub fn unreachable<'a>(
        self,
        all: impl Iterator<Item = (&'a Candidate, &'a Prediction)>,
    ) -> Option<AdviceError> {
        let known = all.filter_map(|(candidate, p)| Some((candidate, p.p99_us?)));
        let (nearest, p99) = known.min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(AdviceError::Unreachable {
            objective: self.to_string(),
            nearest: nearest.to_string(),
            value: format!("a p99 of {}", time(p99)),
        })
    }
}

/// `250us`, `1.5ms`.
pub fn time(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.1}s", us / 1e6),
        us if us >= 1e3 => format!("{:.1}ms", us / 1e3),
        us => format!("{us:.0}us"),
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Objective::Tps => f.write_str("tps"),
            Objective::TpsPerCore => f.write_str("tps-per-core"),
            Objective::P99Below(us) if *us >= 1e6 => write!(f, "p99<{}s", us / 1e6),
            Objective::P99Below(us) if *us >= 1e3 => write!(f, "p99<{}ms", us / 1e3),
            Objective::P99Below(us) => write!(f, "p99<{us}us"),
        }
    }
}

impl FromStr for Objective {
    type Err = AdviceError;

    fn from_str(text: &str) -> Result<Objective, AdviceError> {
        let wrong = || AdviceError::Objective(text.to_owned());
        match text {
            "tps" => return Ok(Objective::Tps),
            "tps-per-core" => return Ok(Objective::TpsPerCore),
            _ => {}
        }
        let bound = text.strip_prefix("p99<").ok_or_else(wrong)?.trim();
        let unit_at = bound.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, unit) = bound.split_at(unit_at);
        let us = match unit {
            "us" => 1.0,
            "ms" => 1e3,
            "s" => 1e6,
            _ => return Err(wrong()),
        };
        let value = number.parse::<f64>().map_err(|_| wrong())? * us;
        if value > 0.0 { Ok(Objective::P99Below(value)) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read_and_written_alike() {
        for text in ["tps", "tps-per-core", "p99<5ms", "p99<250us", "p99<1.5s"] {
            assert_eq!(text.parse::<Objective>().unwrap().to_string(), text);
        }
        for text in ["", "latency", "p99<5", "p99<0ms", "p99<ms", "p99>5ms", "p50<5ms"] {
            let error = text.parse::<Objective>().unwrap_err().to_string();
            assert!(error.contains("p99<5ms"), "{error}");
        }
    }
}
