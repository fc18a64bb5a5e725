//! A mutex for tens of nanoseconds: test-and-test-and-set, spinning, then yielding.

use super::backoff::Backoff;
use super::sync::{AtomicBool, Ordering};
use std::cell::{Cell, UnsafeCell};
use std::ops::{Deref, DerefMut};

/// Mutual exclusion as a type parameter: the lock table is written once and used centrally or by one partition.
pub trait RawMutex {
    /// An unlocked one.
    const NEW: Self;
    /// Whether threads can meet here, so that what it protects is a critical section.
    const SHARED: bool;
    fn lock(&self);
    /// To be called by the holder only.
    fn unlock(&self);
}

/// A spin lock between threads.
pub struct SpinRaw(AtomicBool);

impl SpinRaw {
    /// Takes the flag over as it is; `false` is unlocked.
    pub const fn from_flag(flag: AtomicBool) -> SpinRaw {
        SpinRaw(flag)
    }

    #[inline]
    fn swap(&self) -> bool {
        self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock unless someone holds it.
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

    /// Lets go. To be called by the holder only.
    #[inline]
    pub fn release(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// No exclusion at all, for structures one thread owns. Not `Sync`, so the compiler keeps it on one thread at a
/// time; debug builds also assert that it is not taken twice.
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
        debug_assert!(self.0.replace(false), "an owned structure was left that nobody had entered");
    }
}

/// Exclusion by one thread: the first to lock it is the only one that ever may. Costs a load and a comparison, no
/// read-modify-write; it is what the lock table of a serial worker has instead of a latch.
#[derive(Debug)]
pub struct ThreadBound(std::sync::atomic::AtomicU64);

impl RawMutex for ThreadBound {
    const NEW: ThreadBound = ThreadBound(std::sync::atomic::AtomicU64::new(0));
    const SHARED: bool = false;

    /// # Panics
    /// When another thread has locked it before: it is checked in every build, because soundness hangs on it.
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
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, and `raw` gives out one guard at a time; handing the value
// from thread to thread this way needs `T: Send`, nothing more.
unsafe impl<T: ?Sized + Send> Sync for SpinMutex<T> {}
// SAFETY: as above; moving the mutex moves the value.
unsafe impl<T: ?Sized + Send> Send for SpinMutex<T> {}

impl<T> SpinMutex<T> {
    pub(crate) const fn from_parts(raw: SpinRaw, value: T) -> SpinMutex<T> {
        SpinMutex { raw, value: UnsafeCell::new(value) }
    }
}

impl<T: ?Sized> SpinMutex<T> {
    #[inline]
    pub fn lock(&self) -> SpinGuard<'_, T> {
        self.raw.acquire();
        SpinGuard { mutex: self }
    }

    #[inline]
    pub fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
        self.raw.try_acquire().then_some(SpinGuard { mutex: self })
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

/// The right to touch the value; unlocks when dropped.
pub struct SpinGuard<'a, T: ?Sized> {
    mutex: &'a SpinMutex<T>,
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
