//! The plan: a choice with its reasons, as a value, a file and a screen.
//!
//! A plan file is TOML. It names its version, and a reader refuses another one. A plan that is
//! written and read again is equal to itself.

mod screen;

use crate::candidate::Candidate;
use crate::error::AdviceError;
use crate::flip::BreakEven;
use crate::predictor::{Interval, Limit, Part, Prediction};
use crate::search::{Basis, Ranked};
use serde::{Deserialize, Serialize};

/// The version of the file that this code writes and reads.
pub const VERSION: u32 = 1;

/// The workload and its load, as options of `atoll bench`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedWorkload {
    pub name: String,
    /// Option without dashes, and its value.
    #[serde(default)]
    pub options: Vec<(String, String)>,
}

/// The machine.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedMachine {
    /// `live`, or the argument that described it.
    pub argument: String,
    pub name: String,
    pub cores: usize,
    pub packages: usize,
    pub l3_groups: usize,
    /// Terms that took a default.
    #[serde(default)]
    pub assumed: Vec<String>,
}

/// The way to the choice.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedSearch {
    /// The engine profile of the model, with its date.
    pub profile: String,
    /// The measured cells that the profile was scaled to, with age and spread; `None` for the
    /// profile as it is built in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibrated: Option<String>,
    /// Designs with costs borrowed from another one and scaled to their cells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub borrowed: Vec<String>,
    pub screened: usize,
    pub refined: usize,
    /// Measured trials; 0 if the model decided alone.
    pub trials: usize,
    /// Seconds of trials.
    pub seconds: f64,
    /// Whether the trials ended since no rival was left; `None` without trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<bool>,
    /// The median ratio of a trial's throughput to its prediction, by which the predictions of
    /// deployments without a trial are multiplied; `None` without trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Deployments without a prediction, with the reason.
    #[serde(default)]
    pub unpredicted: Vec<String>,
}

/// One deployment of the ranking.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub basis: Basis,
    /// By the objective.
    pub score: Interval,
    pub tps: Interval,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// Measured windows, in transactions per second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<f64>,
    pub candidate: Candidate,
    #[serde(default)]
    pub limits: Vec<Limit>,
    #[serde(default)]
    pub parts: Vec<Part>,
}

impl Entry {
    /// The prediction that it was ranked by.
    pub fn prediction(&self) -> Prediction {
        let Entry { tps, p99_us, limits, parts, .. } = self.clone();
        Prediction { tps, p99_us, limits, parts }
    }
}

impl From<Ranked> for Entry {
    fn from(ranked: Ranked) -> Entry {
        let Ranked { candidate, prediction, basis, score } = ranked;
        let Prediction { tps, p99_us, limits, parts } = prediction;
        Entry { basis, score, tps, p99_us, windows: Vec::new(), candidate, limits, parts }
    }
}

/// A plan. Invariant: `ranking` is not empty, and its first entry is the choice.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub version: u32,
    /// The day and the version of the program.
    pub date: String,
    pub program: String,
    pub objective: String,
    pub workload: PlannedWorkload,
    pub machine: PlannedMachine,
    pub search: PlannedSearch,
    #[serde(default)]
    pub break_even: Vec<BreakEven>,
    pub ranking: Vec<Entry>,
}

impl Plan {
    pub fn choice(&self) -> &Entry {
        &self.ranking[0]
    }

    /// The best entry that is another deployment than the choice; the basis comes first, since a
    /// screened score is no match for a measured one.
    pub fn runner_up(&self) -> Option<&Entry> {
        let others = self.ranking[1..].iter();
        others.max_by(|a, b| a.basis.cmp(&b.basis).then(a.score.mid.total_cmp(&b.score.mid)))
    }

    /// The lead over the runner-up as a share; below 0 if that one is ahead within a tie.
    pub fn margin(&self) -> Option<f64> {
        Some(self.choice().score.mid / self.runner_up()?.score.mid - 1.0)
    }

    /// Whether the lead is within the error of the scores.
    pub fn is_tie(&self) -> bool {
        let next = self.runner_up().map(|next| next.score);
        next.is_some_and(|next| next.high >= self.choice().score.low)
    }

    /// The command that deploys the choice, without the program's name.
    pub fn bench_words(&self) -> Vec<String> {
        let mut words = vec!["bench".to_owned(), self.workload.name.clone()];
        for (option, value) in &self.workload.options {
            words.extend([format!("--{option}"), value.clone()]);
        }
        words.extend(self.choice().candidate.options());
        words
    }

    /// The plan as TOML.
    ///
    /// # Errors
    /// The serialiser's complaint.
    pub fn to_toml(&self) -> Result<String, AdviceError> {
        toml::to_string(self)
            .map_err(|e| AdviceError::PlanFile { file: "the plan".to_owned(), problem: e.to_string() })
    }

    /// Reads a plan file. `file` is its name for the error.
    ///
    /// # Errors
    /// No TOML, another version, a missing or unknown field, an empty ranking.
    pub fn parse(file: &str, text: &str) -> Result<Plan, AdviceError> {
        let wrong = |problem: String| AdviceError::PlanFile { file: file.to_owned(), problem };
        let one_line = |e: toml::de::Error| {
            let at = e.span().map(|span| text[..span.start.min(text.len())].lines().count().max(1));
            at.map_or(e.message().to_owned(), |line| format!("line {line}: {}", e.message()))
        };
        let versioned: Versioned = toml::from_str(text).map_err(|e| wrong(one_line(e)))?;
        if versioned.version != VERSION {
            return Err(wrong(format!(
                "version {} of the file, this program reads {VERSION}",
                versioned.version
            )));
        }
        let plan: Plan = toml::from_str(text).map_err(|e| wrong(one_line(e)))?;
        if plan.ranking.is_empty() {
            return Err(wrong("it ranks no deployment".to_owned()));
        }
        Ok(plan)
    }
}

/// The field that every version has.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

#[cfg(test)]
mod tests;
