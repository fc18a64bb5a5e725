//! A mutex for tens of nanoseconds: test-and-test-and-set, spinning, then yielding.

use super::backoff::Backoff;
use super::sync::{AtomicBool, Ordering};
use crate::rank::{Held, RankTag};
use std::cell::{Cell, UnsafeCell};
use std::ops::{Deref, DerefMut};

/// Mutual exclusion as a type parameter: the lock table is written once, and used centrally or by
/// one partition.
pub trait RawMutex {
    /// An unlocked mutex.
    const NEW: Self;
    /// Whether several threads can lock it, so that the data it protects is a critical section.
    const SHARED: bool;
    /// Whether the order of latches is checked where it is locked. The record of held latches
    /// belongs to a thread, so a mutex between coroutines of one thread has none.
    const RANKED: bool = true;
    fn lock(&self);
    /// Called by the holder only.
    fn unlock(&self);
}

/// A spin lock between threads.
pub struct SpinRaw(AtomicBool);

impl SpinRaw {
    /// Wraps an existing flag; `false` is unlocked.
    pub const fn from_flag(flag: AtomicBool) -> SpinRaw {
        SpinRaw(flag)
    }

    #[inline]
    fn swap(&self) -> bool {
        self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock unless another thread holds it.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        !self.0.load(Ordering::Relaxed) && self.swap()
    }

    /// Waits for the lock and takes it.
    #[inline]
    pub fn acquire(&self) {
        if !self.swap() {
            self.acquire_slow();
        }
    }

    #[cold]
    fn acquire_slow(&self) {
        let mut backoff = Backoff::new();
        while !self.try_acquire() {
            backoff.wait();
        }
    }

    /// Releases the lock. Called by the holder only.
    #[inline]
    pub fn release(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// No exclusion, for structures that one thread owns. Not `Sync`, so the compiler keeps it on one
/// thread at a time. Debug builds also assert that it is not taken twice.
#[derive(Debug, Default)]
pub struct NoMutex(Cell<bool>);

impl RawMutex for NoMutex {
    const NEW: NoMutex = NoMutex(Cell::new(false));
    const SHARED: bool = false;
    #[inline]
    fn lock(&self) {
        debug_assert!(!self.0.replace(true), "an owned structure was entered twice");
    }
    #[inline]
    fn unlock(&self) {
        debug_assert!(self.0.replace(false), "an owned structure was left that no thread had entered");
    }
}

/// Exclusion by thread: only the first thread that locks it may ever lock it. Costs a load and a
/// comparison, no read-modify-write. The lock table of a serial worker uses it in place of a latch.
#[derive(Debug)]
pub struct ThreadBound(std::sync::atomic::AtomicU64);

impl RawMutex for ThreadBound {
    const NEW: ThreadBound = ThreadBound(std::sync::atomic::AtomicU64::new(0));
    const SHARED: bool = false;

    /// # Panics
    /// If another thread has locked it before. Checked in every build, because soundness depends on
    /// it.
    #[inline]
    fn lock(&self) {
        if self.0.load(std::sync::atomic::Ordering::Relaxed) != crate::owner::me() {
            self.bind();
        }
    }
    #[inline]
    fn unlock(&self) {}
}

impl ThreadBound {
    #[cold]
    fn bind(&self) {
        use std::sync::atomic::Ordering::Relaxed;
        let bound = self.0.compare_exchange(0, crate::owner::me(), Relaxed, Relaxed);
        assert!(bound.is_ok(), "a structure of one worker was touched by another thread");
    }
}

/// A value behind a spin lock. Hold it for a few dozen instructions, never across I/O.
pub struct SpinMutex<T: ?Sized> {
    raw: SpinRaw,
    rank: RankTag,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, and `raw` admits one guard at a time. Passing
// the value from thread to thread in this way needs only `T: Send`.
unsafe impl<T: ?Sized + Send> Sync for SpinMutex<T> {}
// SAFETY: as above; moving the mutex moves the value.
unsafe impl<T: ?Sized + Send> Send for SpinMutex<T> {}

impl<T> SpinMutex<T> {
    pub(crate) const fn from_parts(raw: SpinRaw, rank: RankTag, value: T) -> SpinMutex<T> {
        SpinMutex { raw, rank, value: UnsafeCell::new(value) }
    }
}

impl<T: ?Sized> SpinMutex<T> {
    /// # Panics
    /// In a debug build, if the thread holds a latch that must not be held then ([`crate::Rank`]).
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lock(&self) -> SpinGuard<'_, T> {
        let held = self.rank.checked();
        self.raw.acquire();
        SpinGuard { mutex: self, _held: held }
    }

    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
        // Built only on success: a guard made and dropped would unlock a mutex that another thread
        // holds.
        self.raw.try_acquire().then(|| SpinGuard { mutex: self, _held: self.rank.taken() })
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

/// Access to the value; unlocks when dropped.
pub struct SpinGuard<'a, T: ?Sized> {
    mutex: &'a SpinMutex<T>,
    _held: Held,
}

impl<T: ?Sized> Deref for SpinGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard holds the lock, so no other reference to the value exists.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for SpinGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard holds the lock, and `&mut self` makes this the guard's only borrow.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for SpinGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.raw.release();
    }
}

// SAFETY: sharing a guard shares `&T` only.
unsafe impl<T: ?Sized + Sync> Sync for SpinGuard<'_, T> {}
