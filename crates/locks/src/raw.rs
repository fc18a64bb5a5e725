//! Mutual exclusion as a parameter: spinning among threads, or nothing where one thread owns the table.

use std::sync::atomic::{AtomicBool, Ordering};

/// # Safety
/// Between `lock` and the matching `unlock` no other `lock` on the same value returns.
pub unsafe trait RawMutex: Sync + Send + 'static {
    const NEW: Self;
    fn lock(&self);
    /// # Safety
    /// The caller holds the lock.
    unsafe fn unlock(&self);
}

#[derive(Debug)]
pub struct SpinRaw(AtomicBool);

// SAFETY: `lock` returns only after changing false to true, and only `unlock` changes it back.
unsafe impl RawMutex for SpinRaw {
    const NEW: Self = SpinRaw(AtomicBool::new(false));
    #[inline]
    fn lock(&self) {
        while self.0.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            let mut spins = 0u32;
            while self.0.load(Ordering::Relaxed) {
                spins += 1;
                if spins > 100 { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
        }
    }
    #[inline]
    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}
