//! Planted bugs, for the tests of the checkers that must find them. In other builds there are none.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Bug {
    /// Validation does not check the rows read.
    ReadsUnchecked = 1,
    /// Validation does not check the leaves seen: phantoms.
    LeavesUnchecked,
    /// A scan does not note absent rows: it misses an insert that was entered before it.
    AbsentUnnoted,
    /// Rows that a part of a distributed transaction has read may be written before the decision.
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
