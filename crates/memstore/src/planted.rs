//! Bugs on purpose, for the tests of the checkers that must find them. Outside of tests there are none.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Bug {
    /// Rows read are not looked at again.
    ReadsUnchecked = 1,
    /// Leaves seen are not looked at again: phantoms.
    LeavesUnchecked,
    /// A scan does not note rows that are absent: it misses an insert that was entered before it.
    AbsentUnnoted,
    /// What a part of a distributed transaction has read may be written before the decision.
    Unguarded,
    /// A commit is not logged.
    Unlogged,
}

/// The bug of one store.
#[derive(Default)]
pub(crate) struct Planted {
    #[cfg(test)]
    bug: std::sync::atomic::AtomicU8,
}

impl Planted {
    #[cfg(test)]
    pub(crate) fn set(&self, bug: Option<Bug>) {
        self.bug.store(bug.map_or(0, |bug| bug as u8), std::sync::atomic::Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is(&self, bug: Bug) -> bool {
        #[cfg(test)]
        return self.bug.load(std::sync::atomic::Ordering::Relaxed) == bug as u8;
        #[cfg(not(test))]
        {
            let _ = bug;
            false
        }
    }
}
