//! Random histories, judged; and with bugs planted, judged guilty.

#[cfg(not(feature = "planted"))]
use trials::histories::occ;
use trials::histories::{Plan, Verdict, conventional, logical, serial};
use trials::workers::Crew;
use txn::TableKind;
use wal::Durability;

/// Transactions of one history here; `cargo xtask histories` records 20,000 each.
const TRANSACTIONS: usize = 2000;

fn plan(seed: u64) -> Plan {
    let durability = if seed % 5 == 4 { Durability::Sync } else { Durability::Memory };
    let crew = Crew { workers: 1 + seed as usize % 3, clients: 6 };
    let kind = TableKind::ALL[seed as usize / 2 % 2];
    Plan { crew, transactions: TRANSACTIONS, rollback_one_in: 10, durability, kind, seed }
}

#[cfg(not(feature = "planted"))]
mod sound {
    use super::*;

    fn innocent<F: std::fmt::Debug>(design: fn(Plan) -> Result<Verdict, F>) {
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

    #[test]
    fn occ_histories_are_strictly_serialisable() {
        innocent(occ);
    }

    #[test]
    fn serial_histories_are_strictly_serialisable() {
        innocent(serial);
    }
}

/// Run alone by `cargo test -p trials --features planted planted`.
#[cfg(feature = "planted")]
#[test]
fn every_planted_bug_is_found_in_every_design() {
    use exec::planted::{Bug, plant};
    type Record = fn(Plan) -> Result<Verdict, store::StoreFault>;
    let designs = [("conventional", conventional as Record), ("logical", logical), ("serial", serial)];
    for (name, design) in designs {
        plant(Bug::None);
        assert!(design(plan(1)).unwrap().strictly_serialisable);
        for bug in Bug::ALL {
            plant(bug);
            let found = (0..6).find(|seed| !design(plan(*seed)).unwrap().strictly_serialisable);
            assert!(found.is_some(), "{bug:?} under {name} was not found");
            println!("{name}: {bug:?} found in history {}", found.unwrap_or_default());
        }
    }
}
