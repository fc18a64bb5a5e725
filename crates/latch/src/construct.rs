//! Constant constructors. They have a file of their own because loom's atomics cannot be made in
//! constants, and the models compile the other latch files with loom's atomics.

use crate::sync::{AtomicBool, AtomicU64};
use crate::{PageLatch, Rank, RankTag, RawMutex, SpinMutex, SpinRaw};

impl PageLatch {
    /// The latch of an absent page.
    pub const fn new() -> PageLatch {
        PageLatch::from_word(AtomicU64::new(0))
    }
}

impl Default for PageLatch {
    fn default() -> Self {
        PageLatch::new()
    }
}

impl SpinRaw {
    pub const fn new() -> SpinRaw {
        SpinRaw::from_flag(AtomicBool::new(false))
    }
}

impl Default for SpinRaw {
    fn default() -> Self {
        SpinRaw::new()
    }
}

impl RawMutex for SpinRaw {
    const NEW: SpinRaw = SpinRaw::new();
    const SHARED: bool = true;
    #[inline]
    fn lock(&self) {
        self.acquire();
    }
    #[inline]
    fn unlock(&self) {
        self.release();
    }
}

impl<T> SpinMutex<T> {
    /// A mutex without a rank: no other one is taken while it is held.
    pub const fn new(value: T) -> SpinMutex<T> {
        SpinMutex::from_parts(SpinRaw::new(), RankTag::NONE, value)
    }

    /// A mutex with a place in the order of latches.
    pub const fn ranked(rank: Rank, value: T) -> SpinMutex<T> {
        SpinMutex::from_parts(SpinRaw::new(), RankTag::of(rank), value)
    }
}

impl<T: Default> Default for SpinMutex<T> {
    fn default() -> Self {
        SpinMutex::new(T::default())
    }
}
