//! A workload's name and options, as given.

use crate::hot::Hot;
use crate::micro::Op;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;

/// A workload's name and its options as given; `None` stands for the workload's own default.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkloadSpec {
    pub name: String,
    /// The number of cores that the data is sized for: the default of `scale`.
    pub cores: u32,
    /// Units of data: warehouses of TPC-C, branches of TPC-B, ten thousand subscribers of TATP,
    /// sites of the microbenchmark.
    pub scale: Option<u32>,
    /// Multisite or remote transactions, in per cent.
    pub multisite: Option<f64>,
    /// Rows per transaction.
    pub rows: Option<u32>,
    /// The operation on the rows.
    pub op: Option<Op>,
    /// Zipf exponent.
    pub skew: Option<f64>,
    /// Keys that get more requests than others.
    pub hot: Option<Hot>,
    /// Rows of the table.
    pub dataset: Option<u64>,
    /// Options that only some workloads have: see [`own_options`](crate::spec::own_options).
    pub own: BTreeMap<String, String>,
}

impl WorkloadSpec {
    /// All defaults, for a machine or deployment with this many cores.
    pub fn new(name: &str, cores: u32) -> WorkloadSpec {
        WorkloadSpec { name: name.into(), cores, ..WorkloadSpec::default() }
    }

    /// With an option that only some workloads have.
    #[must_use]
    pub fn with(mut self, option: &str, value: impl Display) -> WorkloadSpec {
        self.own.insert(option.into(), value.to_string());
        self
    }

    /// Units of data: as given, or one per core.
    pub fn scale(&self) -> u32 {
        self.scale.unwrap_or(self.cores)
    }

    /// The value of an own option as a number; `None` if it was not given.
    pub fn number(&self, option: &str) -> Option<u32> {
        self.own.get(option)?.parse().ok()
    }

    /// The entry of `words` for an own option; the first entry if it was not given.
    pub fn word<T: Copy>(&self, option: &str, words: &[(&str, T)]) -> T {
        let given = self.own.get(option).and_then(|value| words.iter().find(|(word, _)| word == value));
        given.unwrap_or(&words[0]).1
    }
}
