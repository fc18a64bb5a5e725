//! Epochs: when memory that has left a shared structure may be used again, what a commit comes after, and which past a
//! snapshot sees.
//!
//! One counter of the whole store, and per worker, on a cache line of its own, the epochs in which it began the oldest of
//! what it is doing ([`What`]). Whoever takes something out of a structure tags it with the epoch after that; it is free
//! once no worker reads in an epoch up to the tag.
//!
//! Who may do what: anybody advances the counter ([`Epochs::tick`]), at any time, without a lock and without waiting for
//! anybody (Silo's ticker takes every worker's lock). A worker alone writes its own words. Anybody reads all words.
//!
//! Why it holds: a worker publishes its epoch, then fences, then looks; a reclaimer takes out, fences, then reads the
//! counter, and later fences and reads the words. Either the worker's fence comes after the reclaimer's, then it no
//! longer finds what was taken out; or before, then the reclaimer sees its word, which is at most the tag.

use super::sync::{AtomicU64, CachePadded, Ordering, fence};

/// The word of a worker that is doing nothing of the kind.
pub(crate) const IDLE: u64 = u64::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// Holds references into shared structures.
    Reading,
    /// Is between publishing this and the last of its writes: its transaction gets this epoch or a later one, and so does
    /// whatever it logs.
    Committing,
    /// Has prepared a transaction of this epoch or a later one, which may still go either way and logs again when it does.
    Prepared,
    /// Reads the past as it was at the end of this epoch.
    Snapshot,
}

pub(crate) struct Epochs {
    now: CachePadded<AtomicU64>,
    words: Box<[CachePadded<[AtomicU64; 4]>]>,
}

impl Epochs {
    pub(crate) fn new(workers: usize, first: u64) -> Epochs {
        let idle = |_| CachePadded::new([(); 4].map(|()| AtomicU64::new(IDLE)));
        Epochs { now: CachePadded::new(AtomicU64::new(first)), words: (0..workers).map(idle).collect() }
    }

    pub(crate) fn tick(&self) -> u64 {
        self.now.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Ends epoch `now` if it is still running.
    pub(crate) fn end(&self, now: u64) -> bool {
        self.now.compare_exchange(now, now + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.now.load(Ordering::Acquire)
    }

    /// Says what this worker does from now on, and since which epoch: one that was [`Epochs::now`] before the call.
    #[inline]
    pub(crate) fn publish(&self, worker: usize, what: What, since: u64) {
        self.words[worker][what as usize].store(since, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Says that the oldest of what this worker did has ended: `since` which epoch it does what is left, or [`IDLE`].
    #[inline]
    pub(crate) fn withdraw(&self, worker: usize, what: What, since: u64) {
        self.words[worker][what as usize].store(since, Ordering::Release);
    }

    /// The tag of what has been taken out before this call.
    #[inline]
    pub(crate) fn tag(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.now.load(Ordering::Relaxed)
    }

    /// The oldest epoch in which any worker began what it does; [`IDLE`] when none does.
    pub(crate) fn oldest(&self, what: What) -> u64 {
        fence(Ordering::SeqCst);
        let words = self.words.iter().map(|words| words[what as usize].load(Ordering::Acquire));
        words.min().unwrap_or(IDLE)
    }

    /// The oldest epoch that a transaction of which not everything is written may have. A worker says that it has prepared one
    /// before it says that it no longer commits it, so it is found in one of the two, looked at in this order.
    pub(crate) fn oldest_undone(&self) -> u64 {
        fence(Ordering::SeqCst);
        let undone = [What::Committing, What::Prepared];
        let word = |words: &[AtomicU64; 4], what: What| words[what as usize].load(Ordering::Acquire);
        let words = self.words.iter().flat_map(|words| undone.map(|what| word(words, what)));
        words.min().unwrap_or(IDLE)
    }

    /// What has a tag below this is out of everybody's reach.
    pub(crate) fn horizon(&self) -> u64 {
        self.oldest(What::Reading)
    }
}
