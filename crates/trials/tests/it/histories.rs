//! Random histories, judged.

use exec::DesignKind;
use trials::deployed::{Keys, deployed};
use trials::histories::{HistoryVerdict, Plan, conventional, logical, occ, serial};
use trials::workers::Crew;
use txn::TableKind;
use wal::Durability;

/// Transactions of one history here; `cargo xtask histories` records 20,000 each.
const TRANSACTIONS: usize = 2000;

/// Commits in one history of a whole instance.
const COMMITTED: usize = 400;

fn plan(seed: u64) -> Plan {
    let durability = if seed % 5 == 4 { Durability::Sync } else { Durability::Memory };
    let crew = Crew { workers: 1 + seed as usize % 3, clients: 6 };
    let kind = TableKind::ALL[seed as usize / 2 % 2];
    Plan { crew, transactions: TRANSACTIONS, rollback_one_in: 10, durability, kind, seed }
}

/// Two or three owners of an instance's keys.
fn among_owners(design: DesignKind, plan: Plan) -> Result<HistoryVerdict, instance::InstanceFault> {
    let dir = tempfile::tempdir().unwrap();
    let crew = Crew { workers: 2 + plan.seed as usize % 2, clients: 3 };
    let keys = if plan.seed % 4 > 1 { Keys::Move } else { Keys::Stay };
    deployed(design, Plan { crew, ..plan }, keys, dir.path())
}

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
