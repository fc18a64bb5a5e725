//! Random histories, judged.

use crate::plans::{COMMITTED, TRANSACTIONS, among_owners, plan};
use exec::DesignKind;
use trials::histories::{HistoryVerdict, Plan, conventional, logical, occ, serial};

fn innocent<F: std::fmt::Debug>(design: fn(Plan) -> Result<HistoryVerdict, F>) {
    for seed in 0..10 {
        let verdict = design(plan(seed)).unwrap();
        assert!(
            verdict.strictly_serialisable,
            "seed {seed}: {:?} {}",
            verdict.anomalies, verdict.explanation
        );
        assert!(verdict.committed > TRANSACTIONS / 10, "seed {seed}: {} committed", verdict.committed);
    }
}

#[test]
fn conventional_histories_are_strictly_serialisable() {
    innocent(conventional);
}

#[test]
fn logical_histories_are_strictly_serialisable() {
    innocent(logical);
}

/// Whole instances: several owners in each; keys move between them in every second history.
fn innocent_among_owners(design: DesignKind) {
    for seed in 0..4 {
        let verdict = among_owners(design, Plan { transactions: COMMITTED, ..plan(seed) }).unwrap();
        assert!(
            verdict.strictly_serialisable,
            "seed {seed}: {:?} {}",
            verdict.anomalies, verdict.explanation
        );
        assert!(verdict.committed >= COMMITTED, "seed {seed}: {} committed", verdict.committed);
    }
}

#[test]
fn histories_among_owners_are_strictly_serialisable_under_logical() {
    innocent_among_owners(DesignKind::Logical);
}

#[test]
fn histories_among_owners_are_strictly_serialisable_under_plp_regular() {
    innocent_among_owners(DesignKind::PlpRegular);
}

#[test]
fn histories_among_owners_are_strictly_serialisable_under_plp_partition() {
    innocent_among_owners(DesignKind::PlpPartition);
}

#[test]
fn histories_among_owners_are_strictly_serialisable_under_plp_leaf() {
    innocent_among_owners(DesignKind::PlpLeaf);
}

#[test]
fn occ_histories_are_strictly_serialisable() {
    innocent(occ);
}

#[test]
fn serial_histories_are_strictly_serialisable() {
    innocent(serial);
}
