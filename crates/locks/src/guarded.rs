//! Data behind a [`RawMutex`]: the only unsafe code of this crate.

use latch::{Rank, RankTag, RawMutex};
use std::cell::UnsafeCell;

/// Invariant: `data` is accessed only between `lock` and `unlock` of `raw`, by the thread that
/// locked it.
pub(crate) struct Guarded<M, T> {
    raw: M,
    rank: RankTag,
    data: UnsafeCell<T>,
}

// SAFETY: a `RawMutex` that is `Sync` keeps other threads out between `lock` and `unlock`.
// `SpinRaw` admits one thread at a time, `ThreadBound` only ever the first. `NoMutex`, which admits
// any thread, is not `Sync`. `with` accesses the data only between the two calls, so sharing the
// cell only moves access to the `T` from thread to thread.
unsafe impl<M: RawMutex + Sync, T: Send> Sync for Guarded<M, T> {}

struct Unlock<'a, M: RawMutex>(&'a M);

impl<M: RawMutex> Drop for Unlock<'_, M> {
    #[inline]
    fn drop(&mut self) {
        self.0.unlock();
    }
}

impl<M: RawMutex, T> Guarded<M, T> {
    pub(crate) const fn new(rank: Rank, data: T) -> Self {
        let rank = if M::RANKED { RankTag::of(rank) } else { RankTag::NONE };
        Guarded { raw: M::NEW, rank, data: UnsafeCell::new(data) }
    }

    /// Runs `f` on the data. Must not be nested on one cell (`NoMutex` asserts that in debug
    /// builds).
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let _held = self.rank.checked();
        self.raw.lock();
        let _unlock = Unlock(&self.raw);
        // SAFETY: the mutex is held until `_unlock` is dropped, after the reference is gone. On one
        // thread, no caller in this crate enters a cell from inside `f`.
        f(unsafe { &mut *self.data.get() })
    }
}
