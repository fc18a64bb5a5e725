//! Random histories with bugs planted, judged guilty.

use crate::plans::{COMMITTED, among_owners, plan};
use exec::DesignKind;
use exec::planted::{Bug, plant};
use trials::histories::{HistoryVerdict, Plan, conventional, logical, serial};

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
