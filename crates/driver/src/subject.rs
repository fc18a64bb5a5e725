//! The measured workload with its options, and the description that it gives of itself.

use crate::row::Labels;
use deploy::DeployError;
use std::collections::BTreeMap;
use txn::{Verdict, Workload};
use workload::benchmark::{Counted, Statistic, Statistics, Terminals};
use workload::{AnyWorkload, Benchmark, SpecError, Visitor, WorkloadSpec};

/// A workload's specification, checked.
#[derive(Clone, Debug)]
pub struct Subject {
    spec: WorkloadSpec,
    workload: AnyWorkload,
}

/// Bytes of pages per byte of rows: slots, page headers, the index, and pages not quite full.
const PAGES_PER_ROW_BYTES: f64 = 1.35;

/// A workload's description of itself, as values.
struct Portrait {
    sites: u32,
    labels: Labels,
    data_name: String,
    row_bytes: u64,
    growth_bytes: u64,
    terminals: Option<&'static Terminals>,
}

struct Draw;

impl Visitor for Draw {
    type Output = Portrait;

    fn visit<W: Benchmark>(self, workload: W) -> Portrait {
        Portrait {
            sites: workload.sites(),
            labels: workload.labels().into(),
            data_name: workload.data_name(),
            row_bytes: workload.row_bytes(),
            growth_bytes: workload.growth_bytes(),
            terminals: const { W::TERMINALS.as_ref() },
        }
    }
}

struct Describe<'a>(Counted<'a>);

impl Visitor for Describe<'_> {
    type Output = Statistics;

    fn visit<W: Benchmark>(self, workload: W) -> Statistics {
        workload.statistics(self.0)
    }
}

struct Effects<'a>(&'a BTreeMap<String, u64>);

impl Visitor for Effects<'_> {
    type Output = Option<u64>;

    fn visit<W: Benchmark>(self, workload: W) -> Option<u64> {
        workload.effects(self.0)
    }
}

impl Subject {
    /// # Errors
    /// The first option that is wrong, with the expected value.
    pub fn new(spec: WorkloadSpec) -> Result<Subject, SpecError> {
        Ok(Subject { workload: spec.build()?, spec })
    }

    pub fn spec(&self) -> &WorkloadSpec {
        &self.spec
    }

    fn portrait(&self) -> Portrait {
        self.workload.clone().visit(Draw)
    }

    pub fn sites(&self) -> u32 {
        self.portrait().sites
    }

    pub fn labels(&self) -> Labels {
        self.portrait().labels
    }

    /// The terminals of the workload's definition, if it has any.
    pub fn terminals(&self) -> Option<&'static Terminals> {
        self.portrait().terminals
    }

    /// Whether the requests are those of the whole benchmark, and not one of its transactions or
    /// another mix of them.
    pub fn is_standard_mix(&self) -> bool {
        !self.spec.name.contains('-')
    }

    /// The data, apart from the requests: two subjects with the same name can use the same
    /// database.
    pub fn data_name(&self) -> String {
        self.portrait().data_name
    }

    /// Bytes that the loaded data takes in pages, roughly.
    pub fn data_bytes(&self) -> u64 {
        (self.portrait().row_bytes as f64 * PAGES_PER_ROW_BYTES) as u64
    }

    /// Bytes of page memory in which the data and the rows that a run adds stay resident.
    pub fn pool_bytes(&self) -> u64 {
        self.data_bytes() + self.data_bytes() / 4 + self.portrait().growth_bytes
    }

    /// The consistency check's count for these committed transactions by kind, to be added up
    /// modulo 2^64 (see [`Benchmark::effects`]); `None` if it does not follow from the counts.
    pub fn effects(&self, committed: &BTreeMap<String, u64>) -> Option<u64> {
        self.workload.clone().visit(Effects(committed))
    }

    /// The statistics that the workload's definition prescribes, beside the measured ones, by name.
    pub fn statistics(&self, counted: Counted<'_>) -> BTreeMap<String, Statistic> {
        self.workload.clone().visit(Describe(counted)).0
    }

    /// Judges the instances' encoded audits. `effects`: the effects of all commits since loading in
    /// the unit of [`Subject::effects`], over all request mixes that ran on the data; `None` when
    /// it is not known.
    pub fn judge(&self, audits: &[Vec<u8>], effects: Option<u64>) -> Result<Verdict, DeployError> {
        self.workload.clone().visit(Judge { audits, effects })
    }
}

struct Judge<'a> {
    audits: &'a [Vec<u8>],
    effects: Option<u64>,
}

impl Visitor for Judge<'_> {
    type Output = Result<Verdict, DeployError>;

    fn visit<W: Benchmark>(self, workload: W) -> Self::Output {
        Ok(workload.for_any_mix().judge(decode_audits::<W>(self.audits)?, self.effects))
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
    use workload::micro::Op;

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
        assert_eq!((a.effects(&committed), b.effects(&committed)), (Some(0), Some(12)));
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
