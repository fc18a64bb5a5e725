//! What a workload tells those who name, load and measure it, beyond the language of transactions.
//!
//! A module that implements [`txn::Workload`] and [`Benchmark`] and has a line in the list of [`crate::spec`] is known to the
//! driver and to the command line: names, help, options, labels of rows, sizes and what is counted all come from here.

use crate::spec::{SpecError, WorkloadSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use txn::Workload;

/// A name that a workload goes by: one of its mixes over the same data.
#[derive(Debug)]
pub struct Form {
    /// As typed and as in result rows.
    pub name: &'static str,
    /// For `--help`.
    pub about: &'static str,
}

/// An option that not every workload knows.
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
    /// A whole number from the first to the second, both included.
    Number(u64, u64),
    /// One of these.
    Word(&'static [&'static str]),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shapes {
    /// What is loaded: another value is another database.
    Data,
    /// Only what is asked of it.
    Requests,
}

/// The options that several workloads share, by the names in [`WorkloadSpec`]; `scale` and `cores` apply to all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Common {
    Multisite,
    Rows,
    Op,
    Skew,
    Hot,
    Dataset,
}

/// Settings as they stand in a result row; `None` where one does not apply.
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
    /// Own options by name, each with the value in force.
    pub options: BTreeMap<String, String>,
}

/// What was counted in a window, by name.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// By kind of request.
    pub committed: &'a BTreeMap<String, u64>,
    pub user_aborted: &'a BTreeMap<String, u64>,
    /// What [`Workload::observe`] has reported.
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

    /// Requests of a kind that were carried out, whether they ended in a commit or in a rollback of their own.
    pub fn ended(&self, kind: &str) -> u64 {
        Counted::of(self.committed, kind) + self.rolled_back(kind)
    }

    pub fn ended_in_all(&self) -> u64 {
        self.committed.values().chain(self.user_aborted.values()).sum()
    }
}

/// A figure that a definition prescribes or implies, as a run has it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Statistic {
    pub found: f64,
    /// Where the definition wants it, both ends included.
    pub low: f64,
    pub high: f64,
    /// Of how many it is a share or a mean: of a few it says little.
    pub n: u64,
}

/// The statistics of a window, by name.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Statistics(pub BTreeMap<String, Statistic>);

impl Statistics {
    /// `part` of `n` in per cent, wanted in `low..=high`; left out where there were none.
    pub fn share(&mut self, name: impl Into<String>, part: u64, n: u64, (low, high): (f64, f64)) {
        if n > 0 {
            let found = part as f64 / n as f64 * 100.0;
            self.0.insert(name.into(), Statistic { found, low, high, n });
        }
    }

    /// The mean of `n` that add up to `sum`.
    pub fn mean(&mut self, name: impl Into<String>, sum: u64, n: u64, (low, high): (f64, f64)) {
        if n > 0 {
            self.0.insert(name.into(), Statistic { found: sum as f64 / n as f64, low, high, n });
        }
    }
}

/// People at terminals, for a workload whose definition has them.
#[derive(Debug)]
pub struct Terminals {
    pub per_site: u32,
    /// The kind of request whose completions a minute are the result.
    pub counted: &'static str,
    /// The most of them that a site's terminals can complete in a minute with the pauses as defined.
    pub ceiling: f64,
}

pub trait Benchmark: Workload {
    const TERMINALS: Option<Terminals> = None;
    const FORMS: &'static [Form];
    const OPTIONS: &'static [OwnOption] = &[];
    const COMMON: &'static [Common] = &[];

    /// The workload that `spec` describes. Its name is one of [`Benchmark::FORMS`], and its own options are known and fit
    /// what [`OwnOption::takes`] says.
    ///
    /// # Errors
    /// An option out of its range.
    fn from_spec(spec: &WorkloadSpec) -> Result<Self, SpecError>;

    fn labels(&self) -> Labels {
        Labels { scale: Some(self.sites().into()), ..Labels::default() }
    }

    /// The data in words, apart from what is asked of it: two workloads with the same words can use the same database.
    fn data_name(&self) -> String;

    /// Bytes of the loaded rows, roughly.
    fn row_bytes(&self) -> u64;

    /// Bytes of page memory for rows that a run adds.
    fn growth_bytes(&self) -> u64 {
        0
    }

    /// What the consistency check counts of so many committed transactions by kind, in the unit of `committed` of
    /// [`Workload::judge`]; added up modulo 2^64, so that what takes rows away can count downwards. `None` if that does not
    /// follow from the counts: nothing is then counted over this data any more. Unless said otherwise, each counts one.
    fn effects(&self, committed: &BTreeMap<String, u64>) -> Option<u64> {
        Some(committed.values().sum())
    }

    /// What the definition says about so many requests, beside what was found.
    fn statistics(&self, _counted: Counted<'_>) -> Statistics {
        Statistics::default()
    }

    /// The one that judges data over which any of the request mixes may have run.
    #[must_use]
    fn for_any_mix(&self) -> Self {
        self.clone()
    }
}
