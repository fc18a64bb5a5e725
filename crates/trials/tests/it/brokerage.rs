//! Histories of a reduced TPC-E, judged.

use exec::DesignKind;
use trials::brokerage::{Plan, record};
use trials::workers::Crew;

const TRANSACTIONS: usize = 1_200;

#[test]
fn histories_of_a_brokerage_are_strictly_serialisable() {
    let designs = [DesignKind::Conventional, DesignKind::Serial, DesignKind::Occ];
    for (seed, design) in (0..).zip(designs) {
        let plan = Plan { crew: Crew { workers: 3, clients: 4 }, transactions: TRANSACTIONS, seed };
        let verdict = record(design, plan).unwrap();
        let (anomalies, why) = (&verdict.anomalies, &verdict.explanation);
        assert!(verdict.strictly_serialisable, "{}: {anomalies:?} {why}", design.name());
        assert!(verdict.committed > TRANSACTIONS / 2, "{}: {} committed", design.name(), verdict.committed);
    }
}
