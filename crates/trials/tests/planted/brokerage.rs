//! Histories of TPC-E with bugs planted, judged guilty.

use crate::plans::of_a_brokerage;
use exec::DesignKind;
use exec::planted::{Bug, plant};

/// The largest number of histories in which a bug is looked for. Threads take turns by chance: on a
/// quiet machine up to five are needed, beside other work more.
const TRIES: u64 = 24;

#[test]
fn planted_bugs_are_found_in_a_brokerage_among_owners() {
    let _alone = crate::alone();
    for design in [DesignKind::Logical, DesignKind::PlpLeaf] {
        plant(Bug::None);
        assert!(of_a_brokerage(design, 1, 0).0.strictly_serialisable, "{design} without a bug");
        for bug in [Bug::EarlyReadRelease, Bug::EarlyRelease, Bug::DirtyRead, Bug::LostUndo] {
            plant(bug);
            let found = (0..TRIES).find(|seed| !of_a_brokerage(design, 1, *seed).0.strictly_serialisable);
            assert!(found.is_some(), "{bug:?} among owners of {design} was not found");
            println!("owners of {design}: {bug:?} found in history {}", found.unwrap_or_default());
        }
    }
    plant(Bug::None);
}
