//! Data behind a [`RawMutex`]: the only unsafe code of this room.

use crate::raw::RawMutex;
use std::cell::UnsafeCell;

/// `data` is touched only between `lock` and `unlock` of `raw`, by the thread that locked it.
pub(crate) struct Guarded<M, T> {
    raw: M,
    data: UnsafeCell<T>,
}

// SAFETY: `with` hands out the data to one thread at a time (the contract of `RawMutex`), so sharing the cell
// only ever moves access to the `T` between threads.
unsafe impl<M: RawMutex, T: Send> Sync for Guarded<M, T> {}

struct Unlock<'a, M: RawMutex>(&'a M);

impl<M: RawMutex> Drop for Unlock<'_, M> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: made right after `lock` returned, and dropped once.
        unsafe { self.0.unlock() }
    }
}

impl<M: RawMutex, T> Guarded<M, T> {
    pub(crate) const fn new(data: T) -> Self {
        Guarded { raw: M::NEW, data: UnsafeCell::new(data) }
    }

    /// Runs `f` on the data. Must not be nested on one cell.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        self.raw.lock();
        let _unlock = Unlock(&self.raw);
        // SAFETY: the mutex is held until `_unlock` is dropped, after the reference is gone.
        f(unsafe { &mut *self.data.get() })
    }
}
