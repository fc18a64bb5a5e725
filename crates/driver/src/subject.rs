//! The measured workload with its options, and the description that it gives of itself.

use crate::row::Labels;
use deploy::DeployError;
use std::collections::BTreeMap;
use txn::{Verdict, Workload};
use workload::benchmark::{Counted, Statistic, Terminals};
use workload::{AnyAudit, AnyWorkload, SpecError, WorkloadSpec};

/// A workload's specification, checked.
#[derive(Clone, Debug)]
pub struct Subject {
    spec: WorkloadSpec,
    workload: AnyWorkload,
}

/// Bytes of pages per byte of rows: slots, page headers, the index, and pages not quite full.
const PAGES_PER_ROW_BYTES: f64 = 1.35;

impl Subject {
    /// # Errors
    /// The first option that is wrong, with the expected value.
    pub fn new(spec: WorkloadSpec) -> Result<Subject, SpecError> {
        Ok(Subject { workload: spec.build()?, spec })
    }

    pub fn spec(&self) -> &WorkloadSpec {
        &self.spec
    }

    pub(crate) fn workload(&self) -> &AnyWorkload {
        &self.workload
    }

    pub fn sites(&self) -> u32 {
        self.workload.sites()
    }

    /// The largest number of instances over which the data divides.
    pub fn most_islands(&self) -> usize {
        (self.sites() / self.workload.site_group()) as usize
    }

    /// Whether the data divides over that many instances without cutting a group of sites.
    ///
    /// # Errors
    /// The numbers that fit.
    pub fn check_islands(&self, islands: usize) -> Result<(), String> {
        let groups = self.most_islands();
        if self.workload.site_group() == 1 || islands == 0 || groups.is_multiple_of(islands) {
            return Ok(());
        }
        let fit: Vec<String> =
            (1..=groups).filter(|n| groups.is_multiple_of(*n)).map(|n| n.to_string()).collect();
        Err(format!(
            "--islands {islands}: each instance of {} holds whole load units, as many as every other, and --scale {groups} \
             makes {groups}; expected --islands {}, or a --scale that is a multiple of {islands}",
            self.spec.name,
            fit.join(", ")
        ))
    }

    pub fn labels(&self) -> Labels {
        self.workload.labels().into()
    }

    /// The terminals of the workload's definition, if it has any.
    pub fn terminals(&self) -> Option<&'static Terminals> {
        self.workload.terminals()
    }

    /// Whether the requests are those of the whole benchmark, and not one of its transactions or
    /// another mix of them.
    pub fn is_standard_mix(&self) -> bool {
        !self.spec.name.contains('-')
    }

    /// The data, apart from the requests: two subjects with the same name can use the same
    /// database.
    pub fn data_name(&self) -> String {
        self.workload.data_name()
    }

    /// Bytes that the loaded data takes in pages, roughly.
    pub fn data_bytes(&self) -> u64 {
        (self.workload.row_bytes() as f64 * PAGES_PER_ROW_BYTES) as u64
    }

    /// Bytes of page memory in which the data and the rows that a run adds stay resident.
    pub fn pool_bytes(&self) -> u64 {
        self.data_bytes() + self.data_bytes() / 4 + self.workload.growth_bytes()
    }

    /// The consistency check's count for these committed transactions by kind, to be added up
    /// modulo 2^64 (see [`workload::Benchmark::effects`]); `None` if it does not follow from the
    /// counts.
    pub fn effects(&self, committed: &BTreeMap<String, u64>) -> Option<u64> {
        self.workload.effects(committed)
    }

    /// The statistics that the workload's definition prescribes, beside the measured ones, by name.
    pub fn statistics(&self, counted: Counted<'_>) -> BTreeMap<String, Statistic> {
        self.workload.statistics(counted).0
    }

    /// Judges the instances' encoded audits. `effects`: the effects of all commits since loading in
    /// the unit of [`Subject::effects`], over all request mixes that ran on the data; `None` when
    /// it is not known.
    pub fn judge(&self, audits: &[Vec<u8>], effects: Option<u64>) -> Result<Verdict, DeployError> {
        Ok(self.workload.for_any_mix().judge(decode_audits(audits)?, effects))
    }
}

/// The audits, encoded by the instances.
pub(crate) fn decode_audits(audits: &[Vec<u8>]) -> Result<Vec<AnyAudit>, DeployError> {
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
    fn instances_hold_whole_load_units() {
        let of = |name: &str, scale| {
            Subject::new(WorkloadSpec { scale: Some(scale), ..WorkloadSpec::new(name, 2) }).unwrap()
        };
        let four = of("tpce", 4);
        assert_eq!((four.sites(), four.most_islands()), (40, 4));
        assert_eq!([1, 2, 4].map(|n| four.check_islands(n)), [Ok(()), Ok(()), Ok(())]);
        let why = four.check_islands(3).unwrap_err();
        assert!(why.contains("expected --islands 1, 2, 4, or a --scale that is a multiple of 3"), "{why}");
        assert!(of("tpce-tradeorder", 1).check_islands(2).is_err());
        assert!(of("tpcb", 4).check_islands(3).is_ok(), "a branch stands alone");
    }

    #[test]
    fn a_mix_of_row_counts_is_judged_by_rows() {
        let audits: Vec<Vec<u8>> = [(0..1, 7i64), (1..2, 9)]
            .map(|(sites, counters)| {
                let audit = workload::micro::MicroAudit { sites, counters, damage: vec![] };
                postcard::to_stdvec(&AnyAudit::Micro(audit)).unwrap()
            })
            .into();
        let read = micro(Op::Read, 10, 0.0);
        assert!(read.judge(&audits, Some(16)).unwrap().holds());
        assert!(!read.judge(&audits, Some(17)).unwrap().holds());
        assert!(read.judge(&audits, None).unwrap().holds());
        assert!(read.judge(&[vec![255; 3]], None).is_err());
        let tpcb = Subject::new(WorkloadSpec::new("tpcb", 2)).unwrap();
        assert!(!tpcb.judge(&audits, None).unwrap().holds(), "the audits are another workload's");
    }
}
