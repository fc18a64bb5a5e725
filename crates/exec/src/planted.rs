//! Deliberate bugs, behind the feature `planted`. Each breaks isolation in a way that a checker of
//! histories must detect, which shows that the checker works. In a build with the feature this file
//! takes the place of `seams.rs`: the engine calls the three functions at the end.

use crate::design::Design;
use latch::RawMutex;
use locks::{LockTable, Locker, Mode};
use pages::Stop;
use std::sync::atomic::{AtomicU8, Ordering};
use store::{Store, Txn};

/// The planted bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Bug {
    None,
    /// Scans lock the rows they meet and not the gaps between: phantoms. Under owners, where one
    /// lock for a range stands for both, they lock nothing.
    NoGapLocks,
    /// A transaction releases its read locks before each further lock: not two-phase.
    EarlyReadRelease,
    /// It releases all its locks then: dirty writes and lost updates, too.
    EarlyRelease,
    /// Readers take no locks.
    DirtyRead,
    /// A rollback keeps the changes.
    LostUndo,
}

impl Bug {
    pub const ALL: [Bug; 5] =
        [Bug::NoGapLocks, Bug::EarlyReadRelease, Bug::EarlyRelease, Bug::DirtyRead, Bug::LostUndo];
}

/// One for the whole process: there is one bug at a time, and its tests run alone.
static PLANTED: AtomicU8 = AtomicU8::new(Bug::None as u8);

/// Makes this the bug of the process.
pub fn plant(bug: Bug) {
    PLANTED.store(bug as u8, Ordering::SeqCst);
}

fn is(bug: Bug) -> bool {
    PLANTED.load(Ordering::Relaxed) == bug as u8
}

/// In place of `seams::lock_mode`: the mode in which to lock, `None` to take no lock.
pub(crate) fn lock_mode<M: RawMutex>(locks: &LockTable<M>, locker: &mut Locker, mode: Mode) -> Option<Mode> {
    if is(Bug::EarlyReadRelease) {
        locks.release_shared(locker);
    }
    if is(Bug::EarlyRelease) {
        locks.release_all(locker);
    }
    match mode {
        Mode::GAP_S if is(Bug::NoGapLocks) => None,
        Mode::ROW_AND_GAP_S if is(Bug::NoGapLocks) => Some(Mode::ROW_S),
        Mode::ROW_U_AND_GAP_S if is(Bug::NoGapLocks) => Some(Mode::ROW_U),
        Mode::ROW_S | Mode::GAP_S | Mode::ROW_AND_GAP_S | Mode::IS | Mode::S if is(Bug::DirtyRead) => None,
        mode => Some(mode),
    }
}

/// In place of `seams::owners_of_ranges`: without owners, a scan takes no lock for its range.
pub(crate) fn owners_of_ranges<T>(owners: Option<T>) -> Option<T> {
    owners.filter(|_| !is(Bug::NoGapLocks))
}

/// In place of `seams::roll_back`: the changes are committed.
pub(crate) fn roll_back<D: Design>(store: &Store, txn: &mut Txn) -> Result<(), Stop> {
    if is(Bug::LostUndo) && store.commit(txn, None).is_ok() {
        store.committed::<D::Latch>(txn);
        return Ok(());
    }
    store.rollback::<D::Latch>(txn)
}
