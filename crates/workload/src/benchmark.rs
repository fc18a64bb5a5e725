//! The properties of a workload beyond its transactions, for the code that names, loads and
//! measures it.
//!
//! A module that implements [`txn::Workload`] and [`Benchmark`] and has a line in the list of
//! [`crate::spec`] is complete: the driver and the command line take its names, help, options, row
//! labels, sizes and counts from here.

use crate::spec::{SpecError, WorkloadSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use txn::Workload;

/// A name of a workload: one of its mixes over the same data.
#[derive(Debug)]
pub struct Form {
    /// As typed and in result rows.
    pub name: &'static str,
    /// For `--help`.
    pub about: &'static str,
}

/// An option that only some workloads have.
#[derive(Debug)]
pub struct OwnOption {
    /// As typed, without the dashes.
    pub name: &'static str,
    /// For `--help`, with the default.
    pub about: &'static str,
    pub takes: Takes,
    pub shapes: Shapes,
}

#[derive(Debug)]
pub enum Takes {
    /// A whole number in this range, both ends included.
    Number(u64, u64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// The path of a file.
    File,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shapes {
    /// The data: another value needs another database.
    Data,
    /// Only the requests.
    Requests,
}

/// The options that several workloads share, by their names in [`WorkloadSpec`]; `scale` and
/// `cores` apply to all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Common {
    Multisite,
    Rows,
    Op,
    Skew,
    Hot,
    Dataset,
}

/// Settings as in a result row; `None` if one does not apply.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Labels {
    /// Per cent.
    pub multisite: Option<f64>,
    pub rows: Option<u64>,
    pub op: Option<String>,
    pub skew: Option<f64>,
    pub hot: Option<String>,
    pub dataset: Option<u64>,
    pub scale: Option<u64>,
    /// Own options by name, with their values.
    pub options: BTreeMap<String, String>,
}

/// The counts of a window, by name.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// By kind of request.
    pub committed: &'a BTreeMap<String, u64>,
    pub user_aborted: &'a BTreeMap<String, u64>,
    /// The reports of [`Workload::observe`].
    pub observed: &'a BTreeMap<String, u64>,
}

impl Counted<'_> {
    fn of(map: &BTreeMap<String, u64>, name: &str) -> u64 {
        map.get(name).copied().unwrap_or(0)
    }

    pub fn observed(&self, name: &str) -> u64 {
        Counted::of(self.observed, name)
    }

    pub fn rolled_back(&self, kind: &str) -> u64 {
        Counted::of(self.user_aborted, kind)
    }

    /// Finished requests of a kind: commits, and rollbacks that the request asks for.
    pub fn ended(&self, kind: &str) -> u64 {
        Counted::of(self.committed, kind) + self.rolled_back(kind)
    }

    pub fn ended_in_all(&self) -> u64 {
        self.committed.values().chain(self.user_aborted.values()).sum()
    }
}

/// A figure that a definition prescribes or implies, as measured in a run.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Statistic {
    pub found: f64,
    /// The range that the definition allows, both ends included.
    pub low: f64,
    pub high: f64,
    /// The size of the sample; a share or mean of a small sample is not significant.
    pub n: u64,
}

/// The statistics of a window, by name.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Statistics(pub BTreeMap<String, Statistic>);

impl Statistics {
    /// Adds `part` of `n` in per cent, expected in `low..=high`; adds nothing if `n` is 0.
    pub fn share(&mut self, name: impl Into<String>, part: u64, n: u64, (low, high): (f64, f64)) {
        if n > 0 {
            let found = part as f64 / n as f64 * 100.0;
            self.0.insert(name.into(), Statistic { found, low, high, n });
        }
    }

    /// Adds the mean of `n` values with total `sum`.
    pub fn mean(&mut self, name: impl Into<String>, sum: u64, n: u64, (low, high): (f64, f64)) {
        if n > 0 {
            self.0.insert(name.into(), Statistic { found: sum as f64 / n as f64, low, high, n });
        }
    }
}

/// Terminals with human users, for a workload that defines them.
#[derive(Debug)]
pub struct Terminals {
    pub per_site: u32,
    /// The kind of request that is counted: its completions per minute are the result.
    pub counted: &'static str,
    /// The most of these requests per minute that the terminals of a site can complete with the
    /// specified pauses.
    pub ceiling: f64,
}

pub trait Benchmark: Workload {
    const TERMINALS: Option<Terminals> = None;
    const FORMS: &'static [Form];
    /// Names of the workload that no benchmark offers.
    const HIDDEN: &'static [Form] = &[];
    const OPTIONS: &'static [OwnOption] = &[];
    const COMMON: &'static [Common] = &[];

    /// The workload that `spec` describes. Its name is one of [`Benchmark::FORMS`], and its own
    /// options are known and fit [`OwnOption::takes`].
    ///
    /// # Errors
    /// An option out of its range.
    fn from_spec(spec: &WorkloadSpec) -> Result<Self, SpecError>;

    fn labels(&self) -> Labels {
        Labels { scale: Some(self.sites().into()), ..Labels::default() }
    }

    /// The data in words, without the requests: two workloads with the same words can use the same
    /// database.
    fn data_name(&self) -> String;

    /// Bytes of the loaded rows, approximately.
    fn row_bytes(&self) -> u64;

    /// The number of adjacent sites that stay together: every instance holds whole groups of them.
    fn site_group(&self) -> u32 {
        1
    }

    /// Bytes of page memory for rows that a run adds.
    fn growth_bytes(&self) -> u64 {
        0
    }

    /// The effect of committed transactions, given by kind, on the count of the consistency check,
    /// in the unit of `committed` of [`Workload::judge`]; sums are modulo 2^64, so that removals
    /// can count downwards. `None` if the counts do not determine the effect: the count of this
    /// data is then unknown from that point on. By default, each transaction counts one.
    fn effects(&self, committed: &BTreeMap<String, u64>) -> Option<u64> {
        Some(committed.values().sum())
    }

    /// The figures that the definition prescribes for these requests, with the measured values.
    fn statistics(&self, _counted: Counted<'_>) -> Statistics {
        Statistics::default()
    }

    /// The workload that judges data over which any of the request mixes may have run.
    #[must_use]
    fn for_any_mix(&self) -> Self {
        self.clone()
    }
}
