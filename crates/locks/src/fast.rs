//! The intention locks of one locker that are not in a bucket: in use, or parked.
//!
//! ```text
//!   word    | moved |  ...  | entry 2 | entry 1 | entry 0 |   two bits: absent, parked, IS, IX
//!   tables          |  ...  | table   | table   | table   |   valid if not absent
//! ```
//!
//! Access rules:
//! - The locker adds, raises and removes entries under the mutex. It alone takes up parked entries
//!   and ends a transaction, each by one change of the word without the mutex.
//! - Other lockers remove entries under the mutex.
//!
//! So a thread that holds the mutex of another locker's list changes the word by a
//! read-modify-write. The locker itself may use plain stores under the mutex. The loom models
//! compile this file a second time (see `models.rs`).

use super::guarded::Guarded;
use super::sync::{AtomicU16, AtomicU64, Ordering};
use crate::mode::Mode;
use crate::tuning::Inheritance;
use base::TableId;
use latch::{Rank, RawMutex};

/// Number of tables of which the intention locks fit a slot (TPC-C has nine). A transaction over
/// more tables uses the buckets for the rest.
const FAST: usize = 16;

/// State of an entry that another locker has removed.
pub(crate) enum Taken {
    InUse(Mode),
    Parked,
}

/// See the top of the file.
pub(crate) struct Fast<M> {
    mutex: Guarded<M, ()>,
    word: AtomicU64,
    tables: [AtomicU16; FAST],
}

const ABSENT: u64 = 0;
const PARKED: u64 = 1;
const IS: u64 = 2;
const IX: u64 = 3;
/// An entry in use was moved to its bucket since the last [`Fast::leave`].
const MOVED: u64 = 1 << 63;
/// The upper bit of each entry: set while the entry is in use.
const USED: u64 = 0xaaaa_aaaa;
/// The lower bit of each entry.
const LOWER: u64 = USED >> 1;

const _: () = assert!(2 * FAST == 32, "USED covers the entries, and MOVED lies beyond them");

const fn entry(word: u64, at: usize) -> u64 {
    word >> (2 * at) & 3
}

const fn with_entry(word: u64, at: usize, state: u64) -> u64 {
    word & !(3 << (2 * at)) | state << (2 * at)
}

fn state_of(mode: Mode) -> u64 {
    if mode == Mode::IS { IS } else { IX }
}

fn taken(state: u64) -> Taken {
    match state {
        PARKED => Taken::Parked,
        IS => Taken::InUse(Mode::IS),
        _ => Taken::InUse(Mode::IX),
    }
}

impl<M: RawMutex> Fast<M> {
    pub(crate) fn new() -> Self {
        Fast {
            mutex: Guarded::new(Rank::LockFast, ()),
            word: AtomicU64::new(0),
            tables: std::array::from_fn(|_| AtomicU16::new(0)),
        }
    }

    /// Keeps other lockers from removing entries during `f`. Inside, relaxed loads of `tables`
    /// suffice, and so do relaxed loads of `word` in the locker's own calls: their writers hold the
    /// mutex too, or are this thread.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&Self) -> R) -> R {
        self.mutex.with(|()| f(self))
    }

    #[inline]
    fn find(&self, word: u64, table: TableId) -> Option<usize> {
        let there = (u64::BITS - (word & !MOVED).leading_zeros()).div_ceil(2) as usize;
        (0..there).find(|&at| entry(word, at) != ABSENT && self.tables[at].load(Ordering::Relaxed) == table.0)
    }

    /// Changes the word in one step, if `f` returns a new one. Returns the old word. If no other
    /// thread accesses the slot, a load and a store suffice.
    #[inline]
    fn change(&self, f: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        if M::SHARED {
            return self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, f).ok();
        }
        let before = self.word.load(Ordering::Relaxed);
        f(before).map(|after| {
            self.word.store(after, Ordering::Relaxed);
            before
        })
    }

    /// Adds or changes a lock of the present transaction. Called by the locker, under the mutex.
    #[inline]
    pub(crate) fn put(&self, table: TableId, mode: Mode) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        let free = || {
            let absent = !(word | word >> 1) & LOWER;
            (absent != 0).then_some(absent.trailing_zeros() as usize / 2)
        };
        let Some(at) = self.find(word, table).or_else(free) else { return false };
        self.tables[at].store(table.0, Ordering::Relaxed);
        self.word.store(with_entry(word, at, state_of(mode)), Ordering::Relaxed);
        true
    }

    #[inline]
    pub(crate) fn has(&self, table: TableId) -> bool {
        self.find(self.word.load(Ordering::Relaxed), table).is_some()
    }

    /// The mode of an entry in use. Called under the mutex.
    pub(crate) fn in_use(&self, table: TableId) -> Option<Mode> {
        let word = self.word.load(Ordering::Acquire);
        match taken(entry(word, self.find(word, table)?)) {
            Taken::InUse(mode) => Some(mode),
            Taken::Parked => None,
        }
    }

    /// Removes an entry. Called under the mutex.
    #[inline]
    pub(crate) fn take(&self, table: TableId) -> Option<Taken> {
        self.take_out(table, 0)
    }

    /// As [`Fast::take`], and notes for the locker that an entry in use has gone to its bucket.
    pub(crate) fn rob(&self, table: TableId) -> Option<Taken> {
        self.take_out(table, MOVED)
    }

    fn take_out(&self, table: TableId, mark: u64) -> Option<Taken> {
        // Entries are added and moved only under the mutex, so this one keeps its place until it is
        // absent. Acquire: if the locker released it without the mutex, the actions of its
        // transaction happen before those of the caller.
        let at = self.find(self.word.load(Ordering::Acquire), table)?;
        let before = self.change(|word| {
            let mark = if entry(word, at) > PARKED { mark } else { 0 };
            (entry(word, at) != ABSENT).then_some(with_entry(word, at, ABSENT) | mark)
        })?;
        Some(taken(entry(before, at)))
    }

    /// Takes a parked entry into use with exactly the requested mode. Called by the locker, without
    /// the mutex.
    #[inline]
    pub(crate) fn reuse(&self, table: TableId, mode: Mode) -> bool {
        let Some(at) = self.find(self.word.load(Ordering::Relaxed), table) else { return false };
        let change = |word| (entry(word, at) == PARKED).then_some(with_entry(word, at, state_of(mode)));
        self.change(change).is_some()
    }

    /// Ends a transaction: parks or removes all entries that it used. If one of them has moved to a
    /// bucket, changes no entry and returns false. Called by the locker, without the mutex.
    #[inline]
    pub(crate) fn leave(&self, inheritance: Inheritance) -> bool {
        let before = self.change(|word| {
            let used = word & USED;
            Some(match inheritance {
                _ if word & MOVED != 0 => word & !MOVED,
                Inheritance::Off => 0,
                Inheritance::On => word & !(used | used >> 1) | used >> 1,
            })
        });
        before.is_some_and(|word| word & MOVED == 0)
    }

    /// Called under the mutex.
    pub(crate) fn clear(&self) {
        self.change(|_| Some(0));
    }
}
