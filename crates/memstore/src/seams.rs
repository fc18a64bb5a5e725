//! Seams: the steps of a transaction that a test can make its store leave out, so that the checkers
//! of histories can show that they find the bug. In other builds a step is a plain call.

/// A step of which the outcome depends on it in a way that only a checker sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Step {
    /// Validation checks the rows read.
    CheckReads = 1,
    /// Validation checks the leaves seen, against phantoms.
    CheckLeaves,
    /// A scan notes absent rows, since an insert may have been entered before it.
    NoteAbsent,
    /// A part of a distributed transaction keeps others from writing the rows that it has read,
    /// until the decision.
    ReserveReads,
    /// A commit is logged.
    LogCommit,
}

/// The outcome of a step that finds nothing wrong.
pub(crate) trait Passed {
    fn passed() -> Self;
}

impl Passed for () {
    fn passed() {}
}

impl Passed for bool {
    fn passed() -> bool {
        true
    }
}

impl<T: Passed, E> Passed for Result<T, E> {
    fn passed() -> Result<T, E> {
        Ok(T::passed())
    }
}

/// The seams of one store.
#[derive(Default)]
pub(crate) struct Seams {
    /// The number of the step that is left out.
    #[cfg(test)]
    left_out: std::sync::atomic::AtomicU8,
}

impl Seams {
    /// Plants a bug: from now on the store leaves out this step, or none.
    #[cfg(test)]
    pub(crate) fn leave_out(&self, step: Option<Step>) {
        self.left_out.store(step.map_or(0, |step| step as u8), std::sync::atomic::Ordering::Relaxed);
    }

    /// Carries out a step.
    #[inline(always)]
    pub(crate) fn run<T: Passed>(&self, step: Step, carry_out: impl FnOnce() -> T) -> T {
        if self.is_left_out(step) { T::passed() } else { carry_out() }
    }

    #[cfg(test)]
    fn is_left_out(&self, step: Step) -> bool {
        self.left_out.load(std::sync::atomic::Ordering::Relaxed) == step as u8
    }

    #[cfg(not(test))]
    #[inline(always)]
    fn is_left_out(&self, _: Step) -> bool {
        false
    }
}
