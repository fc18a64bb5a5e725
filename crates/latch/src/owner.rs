//! Which thread owns a set of pages, checked in debug builds only.

use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static TOKEN: u8 = const { 0 };
}

/// A number no other live thread has: the address of a thread-local byte.
pub(crate) fn me() -> u64 {
    TOKEN.with(|t| std::ptr::from_ref(t) as u64)
}

/// The owner of a set of pages, or nobody.
///
/// Who may do what: the serial worker claims once, when it starts, and disowns when it ends; anyone may check.
/// While nobody owns, checks pass: loading and restart run before there is a worker, from one thread at a time.
#[derive(Debug, Default)]
pub struct Owner(AtomicU64);

impl Owner {
    pub const fn new() -> Owner {
        Owner(AtomicU64::new(0))
    }

    /// The calling thread owns from now on.
    ///
    /// # Panics
    /// When another thread owns already: two workers were given the same pages.
    pub fn claim(&self) {
        let before = self.0.swap(me(), Ordering::Relaxed);
        assert!(before == 0 || before == me(), "these pages are owned by another thread already");
    }

    /// Nobody owns from now on.
    pub fn disown(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Asserts in debug builds that the calling thread owns, or that nobody does.
    #[inline]
    pub fn check(&self) {
        #[cfg(debug_assertions)]
        {
            let owner = self.0.load(Ordering::Relaxed);
            assert!(owner == 0 || owner == me(), "a page was touched by a thread that does not own it");
        }
    }
}
