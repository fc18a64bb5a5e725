//! Bugs on purpose, for the tests of the checkers that must find them.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Bug {
    /// Rows read are not looked at again.
    ReadsUnchecked = 1,
    /// Leaves seen are not looked at again: phantoms.
    LeavesUnchecked,
    /// A scan does not note rows that are absent: it misses an insert that was entered before it.
    AbsentUnnoted,
}

/// The bug of one store.
#[derive(Default)]
pub(crate) struct Planted(AtomicU8);

impl Planted {
    pub(crate) fn set(&self, bug: Option<Bug>) {
        self.0.store(bug.map_or(0, |bug| bug as u8), Relaxed);
    }

    pub(crate) fn is(&self, bug: Bug) -> bool {
        self.0.load(Relaxed) == bug as u8
    }
}
