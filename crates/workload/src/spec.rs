//! Workloads by name: from the typed name to a concrete type. This file has the list of all
//! workloads.
//!
//! A [`WorkloadSpec`] is a plain value that a command line fills and a child process receives. It
//! becomes an [`AnyWorkload`], which runs as any one of them.

mod error;
mod settings;

use crate::AnyWorkload;
use crate::benchmark::{Benchmark, Common, Form, OwnOption, Shapes, Takes};

pub use error::SpecError;
pub(crate) use error::in_range;
pub use settings::WorkloadSpec;

/// The properties of a workload that are known by its name, before one is built.
#[derive(Debug)]
pub struct Entry {
    pub forms: &'static [Form],
    /// Names that no benchmark offers.
    hidden: &'static [Form],
    pub options: &'static [OwnOption],
    common: &'static [Common],
    build: fn(&WorkloadSpec) -> Result<AnyWorkload, SpecError>,
}

/// The list: passes every workload, its kind and its type, to the macro that is named.
macro_rules! workloads {
    ($declare:ident) => {
        $declare! {
            Micro: crate::micro::Micro,
            Tpcb: crate::tpcb::Tpcb,
            Tpcc: crate::tpcc::Tpcc,
            Tatp: crate::tatp::Tatp,
            Tpce: crate::tpce::Tpce,
            Replay: crate::replay::Replay,
            Sql: sql::Database,
        }
    };
}
pub(crate) use workloads;

/// Declares the table of names.
macro_rules! entries {
    ($($kind:ident: $ty:ty),+ $(,)?) => {
        /// Every workload, in the order of the list.
        pub const ENTRIES: &[Entry] = &[$(Entry {
            forms: <$ty as Benchmark>::FORMS,
            hidden: <$ty as Benchmark>::HIDDEN,
            options: <$ty as Benchmark>::OPTIONS,
            common: <$ty as Benchmark>::COMMON,
            build: |spec| <$ty as Benchmark>::from_spec(spec).map(AnyWorkload::$kind),
        }),+];
    };
}

workloads!(entries);

/// Every name that [`WorkloadSpec::name`] accepts.
pub fn forms() -> impl Iterator<Item = &'static Form> {
    ENTRIES.iter().flat_map(|e| e.forms)
}

/// Every option that only some workloads have.
pub fn own_options() -> impl Iterator<Item = &'static OwnOption> {
    ENTRIES.iter().filter(|e| !e.forms.is_empty()).flat_map(|e| e.options)
}

impl Takes {
    fn check(&self, option: &'static str, value: &str) -> Result<(), SpecError> {
        match *self {
            // The workload opens it.
            Takes::File => Ok(()),
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
    /// The workload of this name.
    ///
    /// # Errors
    /// [`SpecError::Unknown`].
    pub fn entry(&self) -> Result<&'static Entry, SpecError> {
        let goes_by = |e: &&Entry| e.forms.iter().chain(e.hidden).any(|f| f.name == self.name);
        ENTRIES.iter().find(goes_by).ok_or_else(|| {
            let known = forms().map(|f| f.name).collect::<Vec<_>>().join(", ");
            SpecError::Unknown { name: self.name.clone(), known }
        })
    }

    /// Without the options that shape requests: equal for all runs over the same data.
    #[must_use]
    pub fn data_only(&self) -> WorkloadSpec {
        let mut all = self.clone();
        let all_options = ENTRIES.iter().flat_map(|e| e.options);
        let shapes_data =
            |name: &String| all_options.clone().any(|o| o.name == name && o.shapes == Shapes::Data);
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
