//! How far a study has come, for another thread to show; and its end before its time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Access rules: the threads of a study count their instructions, any other thread reads or
/// stops. No other data hang on these numbers, so relaxed orders suffice.
#[derive(Debug, Default)]
pub struct Course {
    /// Transactions to simulate, over all runs of the study.
    all: AtomicU64,
    done: AtomicU64,
    stopped: AtomicBool,
}

impl Course {
    /// Makes the study end soon; its result is then not complete.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// The share that is done, from 0 to 1; 0 before the study knows its runs.
    pub fn share(&self) -> f64 {
        let (done, all) = (self.done.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed));
        (done as f64 / all.max(1) as f64).min(1.0)
    }

    pub(crate) fn expect(&self, transactions: usize) {
        self.all.fetch_add(transactions as u64, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn one_done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}
