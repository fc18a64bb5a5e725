//! Deliberate bugs, behind the feature `planted`. Each breaks isolation in a way that a checker of
//! histories must detect, which shows that the checker works. Without the feature the build holds
//! none of this.

use crate::design::Design;
use crate::local::LocalTxn;
use crate::paged::PageEngine;
use locks::Mode;
use std::sync::atomic::{AtomicU8, Ordering};

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

pub(crate) fn is(bug: Bug) -> bool {
    PLANTED.load(Ordering::Relaxed) == bug as u8
}

/// The mode in which to lock, given the requested `mode`; `None` to take no lock.
pub(crate) fn asked<D: Design>(engine: &PageEngine<D>, txn: &mut LocalTxn, mode: Mode) -> Option<Mode> {
    if is(Bug::EarlyReadRelease) {
        engine.locks(txn.owner).release_shared(&mut txn.locker);
    }
    if is(Bug::EarlyRelease) {
        engine.locks(txn.owner).release_all(&mut txn.locker);
    }
    match mode {
        Mode::GAP_S if is(Bug::NoGapLocks) => None,
        Mode::ROW_AND_GAP_S if is(Bug::NoGapLocks) => Some(Mode::ROW_S),
        Mode::ROW_U_AND_GAP_S if is(Bug::NoGapLocks) => Some(Mode::ROW_U),
        Mode::ROW_S | Mode::GAP_S | Mode::ROW_AND_GAP_S | Mode::IS | Mode::S if is(Bug::DirtyRead) => None,
        mode => Some(mode),
    }
}
