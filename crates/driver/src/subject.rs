//! What is measured: a workload with its options, and what the driver must know of it beyond the language.

use crate::row::Labels;
use deploy::DeployError;
use std::collections::BTreeMap;
use txn::{Verdict, Workload};
use workload::micro::Op;
use workload::{AnyWorkload, SpecError, Visitor, WorkloadSpec, with_workload};

/// A workload's specification, checked.
#[derive(Clone, Debug)]
pub struct Subject {
    spec: WorkloadSpec,
    workload: AnyWorkload,
}

/// Pages a byte of rows takes: slots, page headers, the index, and pages not quite full.
const PAGES_PER_ROW_BYTES: f64 = 1.35;
/// Bytes a TPC-B branch takes beside its accounts: less than the accounts' rounding.
const TPCB_ROW_BYTES: u64 = 110;
/// Bytes of a microbenchmark row with its id and counter.
const MICRO_ROW_BYTES: u64 = 16 + workload::micro::PAYLOAD_BYTES as u64;
/// Page memory for rows that a run adds: a minute's worth of 50,000 history rows of 80 bytes a second.
const TPCB_GROWTH: u64 = 256 << 20;
/// Bytes that TPC-C keeps for an item in a warehouse.
const STOCK_BYTES: u64 = 340;
/// Bytes that TPC-C keeps for a customer: the row, its history, one order with its lines.
const CUSTOMER_BYTES: u64 = 1_560;
/// A minute's worth of 20,000 orders of 700 bytes a second would be more: what a run adds at first.
const TPCC_GROWTH: u64 = 512 << 20;

impl Subject {
    /// # Errors
    /// The first option that is wrong, with what was expected.
    pub fn new(spec: WorkloadSpec) -> Result<Subject, SpecError> {
        Ok(Subject { workload: spec.build()?, spec })
    }

    pub fn spec(&self) -> &WorkloadSpec {
        &self.spec
    }

    pub fn sites(&self) -> u32 {
        match &self.workload {
            AnyWorkload::Micro(w) => w.sites(),
            AnyWorkload::Tpcb(w) => w.sites(),
            AnyWorkload::Tpcc(w) => w.sites(),
        }
    }

    pub fn labels(&self) -> Labels {
        match &self.workload {
            AnyWorkload::Micro(w) => {
                let o = w.options();
                let op = match o.op {
                    Op::Read => "read",
                    Op::Update => "update",
                };
                Labels {
                    multisite: Some(o.multisite),
                    rows: Some(o.rows.into()),
                    op: Some(op.into()),
                    skew: Some(o.skew),
                    dataset: Some(o.dataset),
                    scale: Some(o.sites.into()),
                    ..Labels::default()
                }
            }
            AnyWorkload::Tpcb(w) => Labels {
                multisite: Some(w.options().multisite),
                scale: Some(w.options().branches.into()),
                ..Labels::default()
            },
            AnyWorkload::Tpcc(w) => Labels {
                multisite: w.options().multisite,
                scale: Some(w.options().warehouses.into()),
                ..Labels::default()
            },
        }
    }

    /// The data, apart from what is asked of it: two subjects with the same name can use the same database.
    pub fn data_name(&self) -> String {
        match &self.workload {
            AnyWorkload::Micro(w) => {
                let o = w.options();
                format!("micro with {} rows over {} sites", o.dataset, o.sites)
            }
            AnyWorkload::Tpcb(w) => {
                let o = w.options();
                format!(
                    "tpcb with {} branches of {} accounts and {} tellers",
                    o.branches, o.accounts, o.tellers
                )
            }
            AnyWorkload::Tpcc(w) => {
                let o = w.options();
                format!(
                    "tpcc with {} warehouses, {} items, {} customers a district",
                    o.warehouses, o.items, o.customers
                )
            }
        }
    }

    /// Bytes that the loaded data takes in pages, roughly.
    pub fn data_bytes(&self) -> u64 {
        let rows = match &self.workload {
            AnyWorkload::Micro(w) => w.options().dataset * MICRO_ROW_BYTES,
            AnyWorkload::Tpcb(w) => {
                u64::from(w.options().branches) * u64::from(w.options().accounts) * TPCB_ROW_BYTES
            }
            AnyWorkload::Tpcc(w) => {
                let o = w.options();
                let (items, customers) = (u64::from(o.items), u64::from(o.customers));
                u64::from(o.warehouses) * (items * STOCK_BYTES + 10 * customers * CUSTOMER_BYTES)
            }
        };
        (rows as f64 * PAGES_PER_ROW_BYTES) as u64
    }

    /// Bytes of page memory in which the data and what a run adds stay resident.
    pub fn pool_bytes(&self) -> u64 {
        let growth = match &self.workload {
            AnyWorkload::Micro(_) => 0,
            AnyWorkload::Tpcb(_) => TPCB_GROWTH,
            AnyWorkload::Tpcc(_) => TPCC_GROWTH,
        };
        self.data_bytes() + self.data_bytes() / 4 + growth
    }

    /// What the consistency check counts of so many committed transactions by kind: rows updated (`micro`), deposits (`tpcb`),
    /// NewOrders and Payments (`tpcc`).
    pub fn effects(&self, committed: &BTreeMap<String, u64>) -> u64 {
        let all: u64 = committed.values().sum();
        match &self.workload {
            AnyWorkload::Micro(w) if w.options().op == Op::Read => 0,
            AnyWorkload::Micro(w) => all * u64::from(w.options().rows),
            AnyWorkload::Tpcb(_) => all,
            AnyWorkload::Tpcc(_) => {
                let of = |kind| committed.get(kind).copied().unwrap_or(0);
                of("new_order") + of("payment")
            }
        }
    }

    /// Judges the instances' encoded audits. `effects`: everything committed since loading in the unit of
    /// [`Subject::effects`], over all request mixes that ran on the data; `None` when it is not known.
    pub fn judge(&self, audits: &[Vec<u8>], effects: Option<u64>) -> Result<Verdict, DeployError> {
        let mut spec = self.spec.clone();
        if let AnyWorkload::Micro(_) = self.workload {
            // Mixes of several row counts have run: judged as transactions that update one row each.
            spec.op = Some(Op::Update);
            spec.rows = Some(1);
        }
        with_workload(&spec, Judge { audits, effects }).map_err(|e| DeployError::Impossible(e.to_string()))?
    }
}

struct Judge<'a> {
    audits: &'a [Vec<u8>],
    effects: Option<u64>,
}

impl Visitor for Judge<'_> {
    type Output = Result<Verdict, DeployError>;

    fn visit<W: Workload>(self, workload: W) -> Self::Output {
        Ok(workload.judge(decode_audits::<W>(self.audits)?, self.effects))
    }
}

/// The audits as the workload's own type.
pub(crate) fn decode_audits<W: Workload>(audits: &[Vec<u8>]) -> Result<Vec<W::Audit>, DeployError> {
    let decode = |bytes: &Vec<u8>| {
        postcard::from_bytes(bytes)
            .map_err(|e| DeployError::Impossible(format!("an audit does not decode as this workload's: {e}")))
    };
    audits.iter().map(decode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micro(op: Op, rows: u32, multisite: f64) -> Subject {
        let spec = WorkloadSpec {
            op: Some(op),
            rows: Some(rows),
            multisite: Some(multisite),
            dataset: Some(1000),
            ..WorkloadSpec::new("micro", 2)
        };
        Subject::new(spec).unwrap()
    }

    #[test]
    fn request_options_change_the_labels_and_not_the_data() {
        let (a, b) = (micro(Op::Read, 10, 0.0), micro(Op::Update, 4, 20.0));
        assert_eq!(a.data_name(), b.data_name());
        let committed = BTreeMap::from([("any".to_owned(), 3)]);
        assert_eq!((a.effects(&committed), b.effects(&committed)), (0, 12));
        assert_eq!(b.labels().op.as_deref(), Some("update"));
        assert_eq!(b.labels().multisite, Some(20.0));
    }

    #[test]
    fn a_mix_of_row_counts_is_judged_by_rows() {
        let audits: Vec<Vec<u8>> = [(0..1, 7i64), (1..2, 9)]
            .map(|(sites, counters)| {
                postcard::to_stdvec(&workload::micro::MicroAudit { sites, counters, damage: vec![] }).unwrap()
            })
            .into();
        let read = micro(Op::Read, 10, 0.0);
        assert!(read.judge(&audits, Some(16)).unwrap().holds());
        assert!(!read.judge(&audits, Some(17)).unwrap().holds());
        assert!(read.judge(&audits, None).unwrap().holds());
        assert!(read.judge(&[vec![255; 3]], None).is_err());
    }
}
