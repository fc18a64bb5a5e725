//! Random histories with bugs planted, judged guilty.

use exec::DesignKind;
use exec::planted::{Bug, plant};
use trials::deployed::{Keys, deployed};
use trials::histories::{HistoryVerdict, Plan, conventional, logical, serial};
use trials::workers::Crew;
use txn::TableKind;
use wal::Durability;

/// Transactions of one history here; as in the tests without bugs.
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

#[test]
fn every_planted_bug_is_found_in_every_design() {
    let _alone = crate::alone();
    type Record = fn(Plan) -> Result<HistoryVerdict, store::StoreFault>;
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
    let owners = [DesignKind::Logical, DesignKind::PlpRegular, DesignKind::PlpPartition, DesignKind::PlpLeaf];
    for design in owners {
        let run = |seed| among_owners(design, Plan { transactions: COMMITTED, ..plan(seed) });
        plant(Bug::None);
        assert!(run(0).unwrap().strictly_serialisable);
        for bug in Bug::ALL {
            plant(bug);
            // Undoing a change after other transactions have changed the row may leave bytes that
            // are no row, which the store itself detects.
            let found = (0..6).find(|seed| !run(*seed).is_ok_and(|verdict| verdict.strictly_serialisable));
            assert!(found.is_some(), "{bug:?} among owners of {design} was not found");
            println!("owners of {design}: {bug:?} found in history {}", found.unwrap_or_default());
        }
    }
    plant(Bug::None);
}
