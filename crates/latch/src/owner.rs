//! The thread that owns a set of pages, checked in debug builds only.

use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static TOKEN: u8 = const { 0 };
}

/// A number that no other live thread has: the address of a thread-local byte.
pub(crate) fn me() -> u64 {
    TOKEN.with(|t| std::ptr::from_ref(t) as u64)
}

/// The thread that owns a set of pages, or none.
///
/// Access rules: the serial worker claims once when it starts, and disowns when it ends. Any thread
/// may check. While no thread owns the pages, checks pass: loading and restart run before there is
/// a worker, from one thread at a time.
#[derive(Debug, Default)]
pub struct Owner(AtomicU64);

impl Owner {
    pub const fn new() -> Owner {
        Owner(AtomicU64::new(0))
    }

    /// The calling thread owns the pages from now on.
    ///
    /// # Panics
    /// If another thread owns them: two workers were given the same pages.
    pub fn claim(&self) {
        let before = self.0.swap(me(), Ordering::Relaxed);
        assert!(before == 0 || before == me(), "these pages are owned by another thread already");
    }

    /// No thread owns the pages from now on.
    pub fn disown(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Asserts in debug builds that the calling thread owns the pages, or that no thread does.
    #[inline]
    pub fn check(&self) {
        #[cfg(debug_assertions)]
        {
            let owner = self.0.load(Ordering::Relaxed);
            assert!(owner == 0 || owner == me(), "a page was touched by a thread that does not own it");
        }
    }
}
