//! Bugs on purpose, behind the feature `planted`: each breaks isolation in a way that a checker of histories must see,
//! which shows that the checker has teeth. Nothing of this is in a build without the feature.

use crate::design::Design;
use crate::local::Part;
use crate::paged::PageEngine;
use locks::Mode;
use std::sync::atomic::{AtomicU8, Ordering};

/// What is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Bug {
    None,
    /// Scans lock the rows they meet and not the gaps between: phantoms. Under owners, whose one lock for a range stands for
    /// both, they lock nothing.
    NoGapLocks,
    /// A transaction lets go of its read locks before each further lock: not two-phase.
    EarlyReadRelease,
    /// It lets go of all of them: dirty writes and lost updates, too.
    EarlyRelease,
    /// Readers take no locks.
    DirtyRead,
    /// A rollback keeps what was done.
    LostUndo,
}

impl Bug {
    pub const ALL: [Bug; 5] =
        [Bug::NoGapLocks, Bug::EarlyReadRelease, Bug::EarlyRelease, Bug::DirtyRead, Bug::LostUndo];
}

/// For the whole process: there is one bug at a time, and tests of it run alone.
static PLANTED: AtomicU8 = AtomicU8::new(Bug::None as u8);

/// Makes this the bug from now on.
pub fn plant(bug: Bug) {
    PLANTED.store(bug as u8, Ordering::SeqCst);
}

pub(crate) fn is(bug: Bug) -> bool {
    PLANTED.load(Ordering::Relaxed) == bug as u8
}

/// What a part locks when it should lock in `mode`; `None` for nothing.
pub(crate) fn asked<D: Design>(engine: &PageEngine<D>, part: &mut Part, mode: Mode) -> Option<Mode> {
    if is(Bug::EarlyReadRelease) {
        engine.locks(part.owner).release_shared(&mut part.locker);
    }
    if is(Bug::EarlyRelease) {
        engine.locks(part.owner).release_all(&mut part.locker);
    }
    match mode {
        Mode::GAP_S if is(Bug::NoGapLocks) => None,
        Mode::ROW_AND_GAP_S if is(Bug::NoGapLocks) => Some(Mode::ROW_S),
        Mode::ROW_U_AND_GAP_S if is(Bug::NoGapLocks) => Some(Mode::ROW_U),
        Mode::ROW_S | Mode::GAP_S | Mode::ROW_AND_GAP_S | Mode::IS | Mode::S if is(Bug::DirtyRead) => None,
        mode => Some(mode),
    }
}
