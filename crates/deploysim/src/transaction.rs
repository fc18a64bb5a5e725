//! Transactions as sequences of phases of steps, and requests drawn from them.
//!
//! A [`Mix`] is a list of [`RecordedKind`]s: per kind its share, its phases, and per phase the
//! groups of rows it reads or updates, the table they lie in, and the place: at home, or with a
//! probability elsewhere. The built-in ones follow the workloads' own definitions. The islands
//! microbenchmark is drawn by the workload's own generator, so its participants, keys and skew are
//! those of a real run. So are the transactions of a recording, by the workload that carries it out
//! again.

mod draw;
mod kinds;
mod spec;

pub use draw::{Request, Requests, Row};
pub use kinds::{tatp, tpcb, tpcc_mix, tpcc_new_order, tpcc_payment};
pub use spec::takes_share;

use crate::error::ModelError;
use serde::{Deserialize, Serialize};
use txn::Workload;
use workload::Hot;
use workload::micro::{Micro, MicroOptions, Op};
use workload::recording::Recorded;
use workload::replay::Replay;

/// The rows of a table. A model numbers the rows of all tables one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rows {
    /// Rows of one site, or of one copy.
    pub of_site: u64,
    pub rows: u64,
    /// The number of the first row.
    pub first: u64,
}

/// A table of a recorded kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub name: String,
    /// Rows of one site. A hot table has few.
    pub rows_per_site: u64,
}

/// The place of a group's rows.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The home site.
    Home,
    /// The home site, but with this probability one other site ([`Mix::together`]) for all rows of
    /// the group. Groups with the same number share the decision and the site.
    Remote { probability: f64, decision: u8 },
}

/// Rows that one phase reads or updates in one table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowGroup {
    /// Index into the mix's tables.
    pub table: usize,
    pub rows: u32,
    pub update: bool,
    pub place: Place,
}

/// One phase: the groups that are issued together.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseSteps {
    pub groups: Vec<RowGroup>,
}

/// One kind of transaction, as recorded from the engine or described.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedKind {
    pub name: String,
    /// Its share of the requests; shares need not add up to 1.
    pub share: f64,
    pub phases: Vec<PhaseSteps>,
    /// Rows that it inserts at home: work and log, but no lock that another transaction meets.
    #[serde(default)]
    pub inserts: u32,
    /// The cost of a row relative to the profile's: 1 where nothing else is known.
    #[serde(default = "one")]
    pub row_weight: f64,
    /// Log bytes; `None` takes the profile's bytes per updated row.
    #[serde(default)]
    pub log_bytes: Option<f64>,
}

fn one() -> f64 {
    1.0
}

fn alone() -> u32 {
    1
}

/// A workload as recorded kinds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    pub name: String,
    /// Logical sites; an instance owns a run of them.
    pub sites: u32,
    /// Sites in runs of so many lie together, and [`Place::Remote`] is a site of another run where
    /// there is one; 1 where any other site will do.
    #[serde(default = "alone")]
    pub together: u32,
    /// Clients draw their homes among all sites, and send each request to its home; otherwise each
    /// client keeps to the sites of its worker.
    #[serde(default)]
    pub is_routed: bool,
    pub tables: Vec<Table>,
    pub kinds: Vec<RecordedKind>,
}

/// The transactions of a run.
#[derive(Clone, Debug)]
pub enum Transactions {
    /// The islands microbenchmark.
    Micro(Box<Micro>),
    /// Recorded or described kinds.
    Mix(Box<Mix>),
    /// A recorded run, transaction by transaction.
    Replay(Box<Replay>),
}

impl Transactions {
    /// The islands microbenchmark: `rows` rows of `dataset` over `sites`, `multisite` and `hot` in
    /// per cent, `skew` a Zipf exponent.
    ///
    /// # Errors
    /// An option out of its range.
    pub fn micro(options: MicroOptions) -> Result<Transactions, ModelError> {
        let wrong =
            |e: workload::SpecError| ModelError::NoSteps { workload: "micro".into(), problem: e.to_string() };
        Ok(Transactions::Micro(Box::new(Micro::new(options).map_err(wrong)?)))
    }

    /// Ten rows of `op` on `sites` sites of 10,000 rows, `multisite` in per cent.
    ///
    /// # Errors
    /// A share outside 0 to 100.
    pub fn micro_of(sites: u32, op: Op, multisite: f64) -> Result<Transactions, ModelError> {
        Transactions::micro(MicroOptions { op, multisite, ..MicroOptions::new(sites) })
    }

    /// # Errors
    /// A workload without kinds, a kind without steps, or a table that is not there.
    pub fn mix(mix: Mix) -> Result<Transactions, ModelError> {
        mix.check()?;
        Ok(Transactions::Mix(Box::new(mix)))
    }

    pub fn name(&self) -> &str {
        match self {
            Transactions::Micro(_) => "micro",
            Transactions::Mix(mix) => &mix.name,
            Transactions::Replay(replay) => &replay.recording().header.source,
        }
    }

    /// Logical sites.
    pub fn sites(&self) -> u32 {
        match self {
            Transactions::Micro(micro) => micro.options().sites,
            Transactions::Mix(mix) => mix.sites,
            Transactions::Replay(replay) => replay.sites(),
        }
    }

    /// Rows of all tables.
    pub fn dataset(&self) -> u64 {
        match self {
            Transactions::Micro(micro) => micro.options().dataset,
            Transactions::Mix(_) | Transactions::Replay(_) => {
                self.tables().iter().map(|table| table.rows).sum()
            }
        }
    }

    /// The tables in the order of their keys.
    pub fn tables(&self) -> Vec<Rows> {
        let of_site: Vec<(u64, u64)> = match self {
            Transactions::Micro(micro) => vec![(micro.options().dataset, 1)],
            Transactions::Mix(mix) => {
                mix.tables.iter().map(|table| (table.rows_per_site, u64::from(mix.sites))).collect()
            }
            Transactions::Replay(replay) => {
                let copies = |is_replicated| if is_replicated { 1 } else { u64::from(replay.sites()) };
                let tables = replay.recording().header.tables.iter().enumerate();
                tables.map(|(at, table)| (replay.rows(at), copies(table.is_replicated))).collect()
            }
        };
        let mut first = 0;
        let place = |(of_site, sites): (u64, u64)| {
            let rows = of_site * sites;
            first += rows;
            Rows { of_site, rows, first: first - rows }
        };
        of_site.into_iter().map(place).collect()
    }

    /// Whether all rows lie in one table, and are drawn alike.
    pub(crate) fn is_one_table(&self) -> bool {
        match self {
            Transactions::Micro(_) => true,
            Transactions::Mix(mix) => mix.tables.len() == 1,
            Transactions::Replay(replay) => replay.recording().header.tables.len() == 1,
        }
    }

    /// Whether clients send their requests to the homes of the rows, without skew.
    pub fn is_routed(&self) -> bool {
        match self {
            Transactions::Micro(_) => false,
            Transactions::Mix(mix) => mix.is_routed,
            Transactions::Replay(replay) => replay.recording().header.is_routed,
        }
    }

    /// Whether any transaction updates or inserts a row.
    pub fn is_updating(&self) -> bool {
        match self {
            Transactions::Micro(micro) => micro.options().op != Op::Read,
            Transactions::Mix(mix) => mix.kinds.iter().any(|kind| {
                let mut groups = kind.phases.iter().flat_map(|phase| &phase.groups);
                kind.inserts > 0 || groups.any(|group| group.update)
            }),
            Transactions::Replay(replay) => {
                let all = replay.recording().transactions.iter();
                all.flat_map(Recorded::touches).any(|touch| touch.op.writes())
            }
        }
    }

    /// The skew of the keys: a Zipf exponent or a hot range; micro only.
    pub fn skew(&self) -> (f64, Option<Hot>) {
        match self {
            Transactions::Micro(micro) => (micro.options().skew, micro.options().hot),
            Transactions::Mix(_) | Transactions::Replay(_) => (0.0, None),
        }
    }
}

impl Mix {
    /// # Errors
    /// Text that is no mix, or one that [`Transactions::mix`] would refuse.
    pub fn parse(name: &str, text: &str) -> Result<Mix, ModelError> {
        let wrong = |e: toml::de::Error| ModelError::File { file: name.to_owned(), problem: e.to_string() };
        let mix: Mix = toml::from_str(text).map_err(wrong)?;
        mix.check()?;
        Ok(mix)
    }

    fn check(&self) -> Result<(), ModelError> {
        let wrong = |problem: String| Err(ModelError::NoSteps { workload: self.name.clone(), problem });
        if self.kinds.is_empty() {
            return wrong("no kind of transaction is recorded".into());
        }
        if self.together == 0 || !self.sites.is_multiple_of(self.together) {
            return wrong(format!("{} sites are no runs of {}", self.sites, self.together));
        }
        if self.sites == 0 || self.tables.iter().any(|table| table.rows_per_site == 0) {
            return wrong("it has no sites, or a table without rows".into());
        }
        for kind in &self.kinds {
            let groups = || kind.phases.iter().flat_map(|phase| &phase.groups);
            if groups().count() == 0 && kind.inserts == 0 {
                return wrong(format!("the kind {:?} has no recorded steps", kind.name));
            }
            if groups().any(|group| group.table >= self.tables.len() || group.rows == 0) {
                return wrong(format!("the kind {:?} has a group without rows or of no table", kind.name));
            }
            if !(kind.share.is_finite() && kind.share >= 0.0 && kind.row_weight > 0.0) {
                return wrong(format!("the kind {:?} has a share or a weight below 0", kind.name));
            }
        }
        if self.kinds.iter().map(|kind| kind.share).sum::<f64>() <= 0.0 {
            return wrong("the shares of its kinds add up to 0".into());
        }
        Ok(())
    }
}
