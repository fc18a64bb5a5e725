//! A prediction as a value, and the trait of everything that predicts.

use crate::candidate::Candidate;
use serde::{Deserialize, Serialize};

/// A range with its middle. Invariant: `low <= mid <= high`.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    pub low: f64,
    pub mid: f64,
    pub high: f64,
}

impl Interval {
    /// `mid` give or take the share `error` of it; the low end is that of a factor, so it stays
    /// above 0.
    pub fn around(mid: f64, error: f64) -> Interval {
        Interval { low: mid / (1.0 + error), mid, high: mid * (1.0 + error) }
    }

    #[must_use]
    pub fn over(self, divisor: f64) -> Interval {
        Interval { low: self.low / divisor, mid: self.mid / divisor, high: self.high / divisor }
    }

    /// Half the width over the middle.
    pub fn error(self) -> f64 {
        if self.mid > 0.0 { (self.high - self.low) / 2.0 / self.mid } else { 0.0 }
    }
}

/// A resource and the share of it that is in use, from 0 to 1: the first one limits throughput.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    pub resource: String,
    pub share: f64,
}

/// A component of a transaction's cost.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub name: String,
    /// Processor ns of all workers per committed transaction.
    pub ns: f64,
}

/// The prediction for one candidate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// Committed transactions per second.
    pub tps: Interval,
    /// `None` if the predictor knows no latencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// The tightest first; empty if the predictor knows none.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// Cost by component; empty if the predictor knows none.
    #[serde(default)]
    pub parts: Vec<Part>,
}

impl Prediction {
    /// The cost of a component, in ns per transaction; 0 for an unknown one.
    pub fn part_ns(&self, name: &str) -> f64 {
        self.parts.iter().find(|part| part.name == name).map_or(0.0, |part| part.ns)
    }

    /// The components in descending order of their cost.
    pub fn dominating(&self) -> Vec<&Part> {
        let mut parts: Vec<&Part> = self.parts.iter().filter(|part| part.ns > 0.0).collect();
        parts.sort_by(|a, b| b.ns.total_cmp(&a.ns));
        parts
    }
}

/// Predicts candidates.
pub trait Predictor {
    /// # Errors
    /// Why this candidate has no prediction, such as a design that the model does not know.
    fn predict(&self, candidate: &Candidate) -> Result<Prediction, String>;
}

impl<F: Fn(&Candidate) -> Result<Prediction, String>> Predictor for F {
    fn predict(&self, candidate: &Candidate) -> Result<Prediction, String> {
        self(candidate)
    }
}
