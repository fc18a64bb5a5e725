//! Workloads by name: from what was typed to a concrete type.
//!
//! A [`WorkloadSpec`] is a plain value that a command line fills and a child process receives. Because every workload
//! is a type of its own (its transactions are compiled into the engine, not called through a table), it cannot be
//! returned as a trait object: [`with_workload`] instead calls a [`Visitor`], whose method is generic.

use crate::micro::{Micro, MicroOptions, Op};
use crate::tpcb::{Padding, RemoteRow, Tpcb, TpcbOptions};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::ops::RangeInclusive;
use txn::Workload;

/// The names that [`WorkloadSpec::name`] takes.
pub const WORKLOADS: &[&str] = &["micro", "tpcb"];

/// A workload's name and its options as they were given; `None` is the workload's own default.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkloadSpec {
    pub name: String,
    /// The number of cores that the data is meant for: the default of `scale`.
    pub cores: u32,
    /// Branches of TPC-B; logical sites of the microbenchmark.
    pub scale: Option<u32>,
    /// Per cent of multisite transactions (`micro`) or of remote ones (`tpcb`).
    pub multisite: Option<f64>,
    /// Rows of a transaction (`micro`).
    pub rows: Option<u32>,
    /// What is done with them (`micro`).
    pub op: Option<Op>,
    /// Zipf exponent (`micro`).
    pub skew: Option<f64>,
    /// Rows of the table (`micro`).
    pub dataset: Option<u64>,
    /// Accounts of a branch (`tpcb`).
    pub accounts: Option<u32>,
    /// Tellers of a branch (`tpcb`).
    pub tellers: Option<u32>,
    /// Which row of a remote transaction is remote (`tpcb`).
    pub remote: Option<RemoteRow>,
    /// Whether a branch or teller row fills a page (`tpcb`).
    pub padding: Option<Padding>,
}

/// Why a specification names no workload that can run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SpecError {
    #[error("no workload is called {name:?}: expected one of {}", WORKLOADS.join(", "))]
    Unknown { name: String },
    #[error("--{option} {value} is out of range: expected {low} to {high}")]
    OutOfRange { option: &'static str, value: String, low: String, high: String },
    #[error("--{option} does not apply to {workload}: leave it out")]
    NotApplicable { option: &'static str, workload: &'static str },
}

/// A NaN lies in no range.
pub(crate) fn in_range<T: PartialOrd + Display>(
    option: &'static str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), SpecError> {
    if range.contains(&value) {
        return Ok(());
    }
    let (low, high) = range.into_inner();
    Err(SpecError::OutOfRange {
        option,
        value: value.to_string(),
        low: low.to_string(),
        high: high.to_string(),
    })
}

/// A workload of any kind, ready to run.
#[derive(Clone, Debug)]
pub enum AnyWorkload {
    Micro(Micro),
    Tpcb(Tpcb),
}

/// Something to be done with a workload of whatever type.
pub trait Visitor {
    type Output;
    fn visit<W: Workload>(self, workload: W) -> Self::Output;
}

impl WorkloadSpec {
    /// All defaults, for a machine or deployment of so many cores.
    pub fn new(name: &str, cores: u32) -> WorkloadSpec {
        WorkloadSpec { name: name.into(), cores, ..WorkloadSpec::default() }
    }

    /// Without the options that shape requests: the same for all runs over the same data.
    #[must_use]
    pub fn data_only(&self) -> WorkloadSpec {
        let all = self.clone();
        WorkloadSpec { multisite: None, rows: None, op: None, skew: None, remote: None, ..all }
    }

    /// Checks every option.
    ///
    /// # Errors
    /// The first option that is wrong, with what was expected.
    pub fn build(&self) -> Result<AnyWorkload, SpecError> {
        match self.name.as_str() {
            "micro" => self.micro().map(AnyWorkload::Micro),
            "tpcb" => self.tpcb().map(AnyWorkload::Tpcb),
            _ => Err(SpecError::Unknown { name: self.name.clone() }),
        }
    }

    fn micro(&self) -> Result<Micro, SpecError> {
        self.refuse("micro", &self.tpcb_only())?;
        let base = MicroOptions::new(self.scale.unwrap_or(self.cores));
        Micro::new(MicroOptions {
            dataset: self.dataset.unwrap_or(base.dataset),
            rows: self.rows.unwrap_or(base.rows),
            op: self.op.unwrap_or(base.op),
            multisite: self.multisite.unwrap_or(base.multisite),
            skew: self.skew.unwrap_or(base.skew),
            ..base
        })
    }

    fn tpcb(&self) -> Result<Tpcb, SpecError> {
        self.refuse("tpcb", &self.micro_only())?;
        let base = TpcbOptions::new(self.scale.unwrap_or(self.cores));
        Tpcb::new(TpcbOptions {
            accounts: self.accounts.unwrap_or(base.accounts),
            tellers: self.tellers.unwrap_or(base.tellers),
            multisite: self.multisite.unwrap_or(base.multisite),
            remote: self.remote.unwrap_or(base.remote),
            padding: self.padding.unwrap_or(base.padding),
            ..base
        })
    }

    fn micro_only(&self) -> [(&'static str, bool); 4] {
        [
            ("rows", self.rows.is_some()),
            ("op", self.op.is_some()),
            ("skew", self.skew.is_some()),
            ("dataset", self.dataset.is_some()),
        ]
    }

    fn tpcb_only(&self) -> [(&'static str, bool); 4] {
        [
            ("accounts", self.accounts.is_some()),
            ("tellers", self.tellers.is_some()),
            ("remote", self.remote.is_some()),
            ("padding", self.padding.is_some()),
        ]
    }

    fn refuse(&self, workload: &'static str, options: &[(&'static str, bool)]) -> Result<(), SpecError> {
        match options.iter().find(|(_, given)| *given) {
            Some(&(option, _)) => Err(SpecError::NotApplicable { option, workload }),
            None => Ok(()),
        }
    }
}

impl AnyWorkload {
    pub fn visit<V: Visitor>(self, visitor: V) -> V::Output {
        match self {
            AnyWorkload::Micro(w) => visitor.visit(w),
            AnyWorkload::Tpcb(w) => visitor.visit(w),
        }
    }
}

/// Calls `visitor` with the workload that `spec` describes.
///
/// # Errors
/// See [`WorkloadSpec::build`]; the visitor is not called then.
pub fn with_workload<V: Visitor>(spec: &WorkloadSpec, visitor: V) -> Result<V::Output, SpecError> {
    Ok(spec.build()?.visit(visitor))
}
