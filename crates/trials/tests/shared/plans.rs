//! The plans of the random histories, and their recording: the same with planted bugs and without.

use exec::DesignKind;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use trials::brokerage;
use trials::deployed::{Keys, deployed};
use trials::histories::{HistoryVerdict, Plan};
use trials::islands::{Course, Outcome, Trouble, record};
use trials::workers::Crew;
use txn::TableKind;
use wal::Durability;

/// Transactions of one history here; `cargo xtask histories` records 20,000 each.
pub const TRANSACTIONS: usize = 2000;

/// Commits in one history of a whole instance.
pub const COMMITTED: usize = 400;

pub fn plan(seed: u64) -> Plan {
    let durability = if seed % 5 == 4 { Durability::Sync } else { Durability::Memory };
    let crew = Crew { workers: 1 + seed as usize % 3, clients: 6 };
    let kind = TableKind::ALL[seed as usize / 2 % 2];
    Plan { crew, transactions: TRANSACTIONS, rollback_one_in: 10, durability, kind, seed }
}

/// Two or three owners of an instance's keys.
pub fn among_owners(design: DesignKind, plan: Plan) -> Result<HistoryVerdict, instance::InstanceFault> {
    let dir = tempfile::tempdir().unwrap();
    let crew = Crew { workers: 2 + plan.seed as usize % 2, clients: 3 };
    let keys = if plan.seed % 4 > 1 { Keys::Move } else { Keys::Stay };
    deployed(design, Plan { crew, ..plan }, keys, dir.path())
}

/// Records a history of TPC-E in whole instances. Also returns the number of commits that it was to
/// reach.
pub fn of_a_brokerage(design: DesignKind, islands: u16, seed: u64) -> (HistoryVerdict, usize) {
    let dir = tempfile::tempdir().unwrap();
    let crew = Crew { workers: 2, clients: 4 };
    let plan = brokerage::Plan { crew, transactions: COMMITTED, seed };
    (brokerage::deployed::record(design, islands, plan, dir.path()).unwrap(), COMMITTED)
}

/// Records a history over several instances.
pub fn recorded(course: &Course) -> Result<Outcome, Trouble> {
    record(course, Path::new(env!("CARGO_BIN_EXE_trials")), &AtomicBool::new(false))
}
