//! Epochs decide three things: when memory that has left a shared structure may be used again, the
//! order of commits across a crash, and the past that a snapshot sees.
//!
//! The store has one counter. Each worker has words of its own, on a cache line of its own: for
//! each kind of activity ([`EpochUse`]), the epoch in which the oldest one that still runs began. A
//! thread that takes something out of a structure tags it with the epoch it reads after that. The
//! memory is free once no worker reads in an epoch up to the tag.
//!
//! Access rules:
//!
//! - Any thread advances the counter ([`Epochs::tick`]), at any time, without a lock and without
//!   waiting. (Silo's ticker takes every worker's lock.)
//! - A worker's words are written by this worker alone, and read by any thread.
//!
//! Why no reader meets reused memory: a worker publishes its epoch, then fences, then looks. The
//! reclaiming thread takes the memory out, fences, then reads the counter for the tag; later it
//! fences again and reads the words. Two cases:
//!
//! - The worker's fence comes after the first fence of the reclaiming thread: the worker does not
//!   find the memory any more.
//! - It comes before: the reclaiming thread sees the worker's word, which is at most the tag, and
//!   waits.

use super::sync::{AtomicU64, CachePadded, Ordering, fence};

/// The word of a worker that has no activity of this kind.
pub(crate) const IDLE: u64 = u64::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EpochUse {
    /// Holds references into shared structures.
    Reading,
    /// Is between publishing this and the last of its writes. Its transaction, and all that it
    /// logs, gets this epoch or a later one.
    Committing,
    /// Has prepared a transaction of this epoch or a later one, which may still go either way and
    /// logs again when it does.
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

    /// Publishes the oldest activity of this kind that this worker has, and its epoch: one that
    /// [`Epochs::now`] returned before the call.
    #[inline]
    pub(crate) fn publish(&self, worker: usize, used_for: EpochUse, since: u64) {
        self.words[worker][used_for as usize].store(since, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Publishes that the oldest activity of this kind has ended. `since` is the epoch of the
    /// oldest one that is left, or [`IDLE`].
    #[inline]
    pub(crate) fn withdraw(&self, worker: usize, used_for: EpochUse, since: u64) {
        self.words[worker][used_for as usize].store(since, Ordering::Release);
    }

    /// The tag for memory that was taken out before this call.
    #[inline]
    pub(crate) fn tag(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.now.load(Ordering::Relaxed)
    }

    /// The oldest epoch in which a worker began an activity of this kind that still runs; [`IDLE`]
    /// if there is none.
    pub(crate) fn oldest(&self, used_for: EpochUse) -> u64 {
        fence(Ordering::SeqCst);
        let words = self.words.iter().map(|words| words[used_for as usize].load(Ordering::Acquire));
        words.min().unwrap_or(IDLE)
    }

    /// The oldest epoch of any transaction that has not written everything yet. A worker publishes
    /// `Prepared` for a transaction before it withdraws `Committing`. So the transaction is found
    /// under one of the two, which are read in this order.
    pub(crate) fn oldest_undone(&self) -> u64 {
        fence(Ordering::SeqCst);
        let undone = [EpochUse::Committing, EpochUse::Prepared];
        let word =
            |words: &[AtomicU64; 4], used_for: EpochUse| words[used_for as usize].load(Ordering::Acquire);
        let words = self.words.iter().flat_map(|words| undone.map(|used_for| word(words, used_for)));
        words.min().unwrap_or(IDLE)
    }

    /// Memory with a tag below this is out of reach of all readers.
    pub(crate) fn horizon(&self) -> u64 {
        self.oldest(EpochUse::Reading)
    }
}
