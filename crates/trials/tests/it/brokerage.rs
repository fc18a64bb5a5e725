//! Histories of a reduced TPC-E, judged.

use crate::plans::of_a_brokerage;
use exec::DesignKind;
use trials::brokerage::{Plan, record};
use trials::histories::HistoryVerdict;
use trials::workers::Crew;

const TRANSACTIONS: usize = 1_200;

fn sound(what: &str, verdict: &HistoryVerdict) {
    let (anomalies, why) = (&verdict.anomalies, &verdict.explanation);
    assert!(verdict.strictly_serialisable, "{what}: {anomalies:?} {why}");
}

#[test]
fn histories_of_a_brokerage_are_strictly_serialisable() {
    let designs = [DesignKind::Conventional, DesignKind::Serial, DesignKind::Occ];
    for (seed, design) in (0..).zip(designs) {
        let plan = Plan { crew: Crew { workers: 3, clients: 4 }, transactions: TRANSACTIONS, seed };
        let verdict = record(design, plan).unwrap();
        sound(design.name(), &verdict);
        assert!(verdict.committed > TRANSACTIONS / 2, "{}: {} committed", design.name(), verdict.committed);
    }
}

/// Orders and feeds deadlock over several owners. Each is tried again, and each comes to its end.
#[test]
fn histories_of_a_brokerage_among_owners_are_strictly_serialisable() {
    for (seed, design) in (0..).zip(DesignKind::ALL.into_iter().filter(|design| design.owns_keys())) {
        let (verdict, wanted) = of_a_brokerage(design, 1, seed);
        sound(design.name(), &verdict);
        assert!(verdict.committed >= wanted, "{}: {} committed", design.name(), verdict.committed);
    }
}

#[test]
fn histories_of_a_brokerage_on_two_instances_are_strictly_serialisable() {
    for (seed, design) in (0..).zip([DesignKind::Conventional, DesignKind::Occ, DesignKind::PlpLeaf]) {
        let (verdict, wanted) = of_a_brokerage(design, 2, seed);
        sound(design.name(), &verdict);
        assert!(verdict.committed >= wanted, "{}: {} committed", design.name(), verdict.committed);
    }
}
