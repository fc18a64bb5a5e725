//! Epochs: when memory that has left a shared structure may be used again.
//!
//! One counter of the whole store, and one word per worker, on a cache line of its own, with the epoch in which the
//! worker began what it is doing. Whoever takes something out of a structure tags it with the epoch after that; it is
//! free once no worker is in an epoch up to the tag.
//!
//! Who may do what: anybody advances the counter ([`Epochs::tick`]), at any time, without a lock and without waiting for
//! anybody (Silo's ticker takes every worker's lock). A worker alone writes its own word. Anybody reads all words.
//!
//! Why it holds: a worker publishes its epoch, then fences, then looks; a reclaimer takes out, fences, then reads the
//! counter, and later fences and reads the words. Either the worker's fence comes after the reclaimer's, then it no
//! longer finds what was taken out; or before, then the reclaimer sees its word, which is at most the tag.

use super::sync::{AtomicU64, CachePadded, Ordering, fence};

/// The word of a worker that holds no reference.
const IDLE: u64 = u64::MAX;

pub(crate) struct Epochs {
    now: CachePadded<AtomicU64>,
    pinned: Box<[CachePadded<AtomicU64>]>,
}

impl Epochs {
    pub(crate) fn new(workers: usize) -> Epochs {
        let idle = |_| CachePadded::new(AtomicU64::new(IDLE));
        Epochs { now: CachePadded::new(AtomicU64::new(1)), pinned: (0..workers).map(idle).collect() }
    }

    pub(crate) fn tick(&self) -> u64 {
        self.now.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// From here to [`Epochs::unpin`] nothing this worker can reach is used for something else.
    #[inline]
    pub(crate) fn pin(&self, worker: usize) {
        self.pinned[worker].store(self.now.load(Ordering::Relaxed), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn unpin(&self, worker: usize) {
        self.pinned[worker].store(IDLE, Ordering::Release);
    }

    /// The tag of what has been taken out before this call.
    pub(crate) fn tag(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.now.load(Ordering::Relaxed)
    }

    /// What has a tag below this is out of everybody's reach.
    pub(crate) fn horizon(&self) -> u64 {
        fence(Ordering::SeqCst);
        let words = self.pinned.iter().map(|word| word.load(Ordering::Acquire));
        words.min().unwrap_or(IDLE)
    }
}
