//! Workloads by name: from the typed name to a concrete type. This file has the list of all
//! workloads.
//!
//! A [`WorkloadSpec`] is a plain value that a command line fills and a child process receives.
//! Every workload is a type of its own (its transactions are compiled into the engine, not called
//! through a table), so it cannot be returned as a trait object. [`with_workload`] calls a
//! [`Visitor`] with a generic method instead.

use crate::benchmark::{Benchmark, Common, Form, OwnOption, Shapes, Takes};
use crate::hot::Hot;
use crate::micro::Op;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;

/// The properties of a workload that are known by its name, before one is built.
#[derive(Debug)]
pub struct Entry {
    pub forms: &'static [Form],
    pub options: &'static [OwnOption],
    common: &'static [Common],
    build: fn(&WorkloadSpec) -> Result<AnyWorkload, SpecError>,
}

/// Declares the type that holds any workload of the list, and the table of names.
macro_rules! workloads {
    ($($kind:ident: $ty:ty),+ $(,)?) => {
        /// A workload of any kind, ready to run.
        #[derive(Clone, Debug)]
        pub enum AnyWorkload { $($kind($ty)),+ }

        impl AnyWorkload {
            pub fn visit<V: Visitor>(self, visitor: V) -> V::Output {
                match self { $(AnyWorkload::$kind(w) => visitor.visit(w)),+ }
            }
        }

        /// Every workload, in the order of the list.
        pub const ENTRIES: &[Entry] = &[$(Entry {
            forms: <$ty as Benchmark>::FORMS,
            options: <$ty as Benchmark>::OPTIONS,
            common: <$ty as Benchmark>::COMMON,
            build: |spec| <$ty as Benchmark>::from_spec(spec).map(AnyWorkload::$kind),
        }),+];
    };
}

workloads! {
    Micro: crate::micro::Micro,
    Tpcb: crate::tpcb::Tpcb,
    Tpcc: crate::tpcc::Tpcc,
    Tatp: crate::tatp::Tatp,
}

/// Every name that [`WorkloadSpec::name`] accepts.
pub fn forms() -> impl Iterator<Item = &'static Form> {
    ENTRIES.iter().flat_map(|e| e.forms)
}

/// Every option that only some workloads have.
pub fn own_options() -> impl Iterator<Item = &'static OwnOption> {
    ENTRIES.iter().flat_map(|e| e.options)
}

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
    /// Options that only some workloads have: see [`own_options`].
    pub own: BTreeMap<String, String>,
}

/// Why a specification does not describe a workload that can run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SpecError {
    #[error("no workload is called {name:?}: expected one of {}", forms().map(|f| f.name).collect::<Vec<_>>().join(", "))]
    Unknown { name: String },
    #[error("--{option} {value} is out of range: expected {low} to {high}")]
    OutOfRange { option: &'static str, value: String, low: String, high: String },
    #[error("--{option} {value}: expected {expected}")]
    Value { option: String, value: String, expected: String },
    #[error("--{option} does not apply to {workload}: leave it out")]
    NotApplicable { option: String, workload: String },
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

/// An operation on a workload of any type.
pub trait Visitor {
    type Output;
    fn visit<W: Benchmark>(self, workload: W) -> Self::Output;
}

impl Takes {
    fn check(&self, option: &'static str, value: &str) -> Result<(), SpecError> {
        match *self {
            Takes::Word(words) if words.contains(&value) => Ok(()),
            Takes::Word(words) => {
                let expected = words.join(" or ");
                Err(SpecError::Value { option: option.into(), value: value.into(), expected })
            }
            Takes::Number(low, high) => match value.parse::<u64>() {
                Ok(n) => in_range(option, n, low..=high),
                Err(_) => {
                    let expected = format!("a whole number from {low} to {high}");
                    Err(SpecError::Value { option: option.into(), value: value.into(), expected })
                }
            },
        }
    }
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

    /// The workload of this name.
    ///
    /// # Errors
    /// [`SpecError::Unknown`].
    pub fn entry(&self) -> Result<&'static Entry, SpecError> {
        let goes_by = |e: &&Entry| e.forms.iter().any(|f| f.name == self.name);
        ENTRIES.iter().find(goes_by).ok_or_else(|| SpecError::Unknown { name: self.name.clone() })
    }

    /// Without the options that shape requests: equal for all runs over the same data.
    #[must_use]
    pub fn data_only(&self) -> WorkloadSpec {
        let mut all = self.clone();
        let shapes_data = |name: &String| own_options().any(|o| o.name == name && o.shapes == Shapes::Data);
        all.own.retain(|name, _| shapes_data(name));
        WorkloadSpec { multisite: None, rows: None, op: None, skew: None, hot: None, ..all }
    }

    /// Whether both are names of one workload.
    pub fn is_kin_of(&self, other: &WorkloadSpec) -> bool {
        matches!((self.entry(), other.entry()), (Ok(a), Ok(b)) if std::ptr::eq(a.forms, b.forms))
    }

    /// Checks every option.
    ///
    /// # Errors
    /// The first option that is wrong, with the expected values.
    pub fn build(&self) -> Result<AnyWorkload, SpecError> {
        let entry = self.entry()?;
        let refuse =
            |option: &str| SpecError::NotApplicable { option: option.into(), workload: self.name.clone() };
        for (option, name, given) in [
            (Common::Rows, "rows", self.rows.is_some()),
            (Common::Op, "op", self.op.is_some()),
            (Common::Skew, "skew", self.skew.is_some()),
            (Common::Hot, "hot", self.hot.is_some()),
            (Common::Dataset, "dataset", self.dataset.is_some()),
            (Common::Multisite, "multisite", self.multisite.is_some()),
        ] {
            if given && !entry.common.contains(&option) {
                return Err(refuse(name));
            }
        }
        for (name, value) in &self.own {
            let option = entry.options.iter().find(|o| o.name == name).ok_or_else(|| refuse(name))?;
            option.takes.check(option.name, value)?;
        }
        (entry.build)(self)
    }
}

/// Calls `visitor` with the workload that `spec` describes.
///
/// # Errors
/// See [`WorkloadSpec::build`]; the visitor is then not called.
pub fn with_workload<V: Visitor>(spec: &WorkloadSpec, visitor: V) -> Result<V::Output, SpecError> {
    Ok(spec.build()?.visit(visitor))
}
