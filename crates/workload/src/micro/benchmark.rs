//! The name and data size of the microbenchmark.

use super::{Micro, MicroOptions, Op, PAYLOAD_BYTES};
use crate::benchmark::{Benchmark, Common, Form, Labels};
use crate::spec::{SpecError, WorkloadSpec};
use std::collections::BTreeMap;

/// Bytes of a row with its id and counter.
const ROW_BYTES: u64 = 16 + PAYLOAD_BYTES as u64;

impl Benchmark for Micro {
    const FORMS: &'static [Form] = &[Form {
        name: "micro",
        about: "Transactions that read or update N rows, some of them over several sites",
    }];
    const COMMON: &'static [Common] =
        &[Common::Multisite, Common::Rows, Common::Op, Common::Skew, Common::Hot, Common::Dataset];

    fn from_spec(spec: &WorkloadSpec) -> Result<Micro, SpecError> {
        let base = MicroOptions::new(spec.scale());
        Micro::new(MicroOptions {
            dataset: spec.dataset.unwrap_or(base.dataset),
            rows: spec.rows.unwrap_or(base.rows),
            op: spec.op.unwrap_or(base.op),
            multisite: spec.multisite.unwrap_or(base.multisite),
            skew: spec.skew.unwrap_or(base.skew),
            hot: spec.hot,
            ..base
        })
    }

    fn labels(&self) -> Labels {
        let o = self.options();
        let op = match o.op {
            Op::Read => "read",
            Op::Update => "update",
            Op::Mixed => "mixed",
        };
        Labels {
            multisite: Some(o.multisite),
            rows: Some(o.rows.into()),
            op: Some(op.into()),
            skew: Some(o.skew),
            hot: o.hot.map(|hot| hot.to_string()),
            dataset: Some(o.dataset),
            scale: Some(o.sites.into()),
            ..Labels::default()
        }
    }

    fn data_name(&self) -> String {
        format!("micro with {} rows over {} sites", self.options.dataset, self.options.sites)
    }

    fn row_bytes(&self) -> u64 {
        self.options.dataset * ROW_BYTES
    }

    /// The number of updated rows.
    fn effects(&self, committed: &BTreeMap<String, u64>) -> Option<u64> {
        let all: u64 = committed.values().sum();
        Some(match self.options.op {
            Op::Read => 0,
            Op::Update => all * u64::from(self.options.rows),
            Op::Mixed => all,
        })
    }

    /// Mixes with different row counts may have run: the data is judged as if each transaction
    /// updates one row.
    fn for_any_mix(&self) -> Micro {
        let mut any = self.clone();
        (any.options.op, any.options.rows) = (Op::Update, 1);
        any
    }
}
