//! The name and data size of a replay.

use super::{OWN_BYTES, Replay};
use crate::benchmark::{Benchmark, Common, Form, Labels, OwnOption, Shapes, Takes};
use crate::recording::{Op, Recorded};
use crate::spec::{SpecError, WorkloadSpec};
use std::collections::BTreeMap;
use txn::Workload;

/// A row's slot and its index entry.
const OVERHEAD: u64 = 40;

impl Benchmark for Replay {
    const FORMS: &'static [Form] =
        &[Form { name: "replay", about: "The transactions of a recording (--recording), again" }];
    const OPTIONS: &'static [OwnOption] = &[OwnOption {
        name: "recording",
        about: "The file of a recording, as atoll record and serve --record write it",
        takes: Takes::File,
        shapes: Shapes::Data,
    }];
    const COMMON: &'static [Common] = &[Common::Multisite];

    fn from_spec(spec: &WorkloadSpec) -> Result<Replay, SpecError> {
        let path = spec.own.get("recording").ok_or(SpecError::Needed {
            workload: "replay",
            option: "recording",
            expected: "the file of a recording, as atoll record and serve --record write it",
        })?;
        if let Some(scale) = spec.scale {
            let (option, value) = ("scale".into(), scale.to_string());
            let expected = "none: the recording has its sites".into();
            return Err(SpecError::Value { option, value, expected });
        }
        Replay::open(path, spec.multisite)
    }

    fn labels(&self) -> Labels {
        let options = BTreeMap::from([("recording".to_owned(), self.of.name.clone())]);
        Labels { multisite: Some(self.multisite()), options, ..Labels::default() }
    }

    fn data_name(&self) -> String {
        let tables = self.of.recording.header.tables.iter();
        let rows: Vec<String> = tables.map(|table| format!("{} {}", table.rows, table.name)).collect();
        format!(
            "a replay of {} over {} sites: {}",
            self.of.recording.header.source,
            self.sites(),
            rows.join(", ")
        )
    }

    fn row_bytes(&self) -> u64 {
        let bytes = |table: usize| u64::from(self.filler(table)) + u64::from(OWN_BYTES) + OVERHEAD;
        let copies =
            |table: usize| if self.of.spans[table].is_replicated { 1 } else { u64::from(self.sites()) };
        (0..self.tables()).map(|table| self.rows(table) * copies(table) * bytes(table)).sum()
    }

    fn growth_bytes(&self) -> u64 {
        let inserts = |recorded: &Recorded| recorded.touches().any(|touch| touch.op == Op::Insert);
        if self.of.recording.transactions.iter().any(inserts) { 256 << 20 } else { 0 }
    }

    /// A transaction's effect on the data depends on its rows.
    fn effects(&self, _: &BTreeMap<String, u64>) -> Option<u64> {
        None
    }
}
