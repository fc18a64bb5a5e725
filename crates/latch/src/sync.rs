//! Primitives of the latches. The loom models compile the same latch files against loom's versions
//! of these names (see `models.rs`).

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
pub(crate) use std::thread::yield_now;

/// Sleeps for `us` microseconds, the last stage of a wait.
pub(crate) fn nap_us(us: u64) {
    std::thread::sleep(std::time::Duration::from_micros(us));
}

/// A cell with the interface of loom's, which passes out a pointer for one access at a time.
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    #[inline]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
