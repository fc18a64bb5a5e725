//! A transaction's own list of locks, so that a repeated request costs no visit to the table.
//!
//! Granules (tables, prefixes) are few and searched one by one. Up to [`LINEAR`] keys are searched
//! one by one too, unless a 64-bit filter shows that the key is new. Longer lists of keys have an
//! open-addressing index. A key that is released while the index is in use stays in the list with
//! mode `NONE`.
//!
//! Between transactions a locker keeps *parked* granules, which its next transaction inherits if it
//! requests them (see `inherit`). A parked granule has no holder: [`Locker::holds`] does not report
//! it.

use crate::abort::LockAbort;
use crate::mode::{LockName, Mode};
use crate::queue::LockerId;
use crate::slot::Ids;
use std::cell::Cell;
use std::sync::Arc;

/// Comparing 16 entries of 16 bytes costs about as much as one probe of an index, which must be
/// maintained as well.
const LINEAR: usize = 16;
/// An index larger than this is dropped at the end of the transaction and not cleared for the next.
const KEEP: usize = 1024;

/// A lock on a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    key: u64,
    space: u32,
    /// The table beneath which it was locked, or [`NO_TABLE`].
    pub(crate) table: u16,
    pub(crate) mode: Mode,
}

/// For keys that were locked without a path. No table has this number.
pub(crate) const NO_TABLE: u16 = u16::MAX;

impl Held {
    #[inline]
    pub(crate) fn new(name: LockName, mode: Mode, table: u16) -> Held {
        Held { key: name.key, space: name.space, table, mode }
    }

    #[inline]
    pub(crate) fn name(&self) -> LockName {
        LockName { space: self.space, key: self.key }
    }

    /// Sort key of a list in which the keys of a table lie together.
    pub(crate) fn place(&self) -> (u16, u32, u64) {
        (self.table, self.space, self.key)
    }
}

/// The place where the table has a granule's lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LockPlace {
    /// In the slot's fast list; another thread may have moved it to its bucket since.
    Fast,
    /// In its bucket.
    Bucket,
    /// In its bucket, with a note in the slot that it may be parked; another thread may have
    /// removed the note since.
    Kept,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// Held by the present transaction.
    Held,
    /// Left by an earlier transaction. This many transactions have ended since without a request
    /// for it.
    Parked(u8),
}

/// A lock on a granule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granule {
    pub(crate) name: LockName,
    pub(crate) mode: Mode,
    pub(crate) place: LockPlace,
    pub(crate) usage: Use,
    /// Number of keys locked beneath it by this transaction to read and to write, and the numbers
    /// above which it is escalated.
    pub(crate) reads: u32,
    pub(crate) writes: u32,
    pub(crate) most_reads: u32,
    pub(crate) most_writes: u32,
    /// The requested mode: weaker than `mode` if the granule is escalated.
    pub(crate) asked: Mode,
    /// Stays escalated to the end of the transaction: the keys that it covers are not remembered.
    pub(crate) fixed: bool,
}

impl Granule {
    /// Whether it is held in a stronger mode than requested.
    #[inline]
    pub(crate) fn is_escalated(&self) -> bool {
        self.mode != self.asked
    }
}

/// The one request that a locker may be waiting for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) name: LockName,
    pub(crate) before: Mode,
    pub(crate) wanted: Mode,
    pub(crate) table: u16,
}

/// Counts since the locker was made; never reset.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct LockCounts {
    /// Locks requested.
    pub requests: u64,
    /// Of these, answered from the locker's own list.
    pub repeated: u64,
    /// Of these, intention locks that took the fast path.
    pub fast: u64,
    /// Of these, not granted at once.
    pub waited: u64,
    /// Of these, for granules, and not answered from the list.
    pub higher: u64,
    /// Of these, for granules that the transaction did not hold.
    pub granule_requests: u64,
    /// Of these, granules that the transaction before had left.
    pub inherited: u64,
    /// Number of times that a granule's lock was added to the table, changed there or removed.
    /// Inheritance saves these.
    pub granule_calls: u64,
}

/// One transaction's locks in one [`LockTable`](crate::LockTable); reusable after
/// [`release_all`](crate::LockTable::release_all). Used by one worker at a time.
pub struct Locker {
    /// Its number in the table, if it has one. Without a number it holds and awaits no lock.
    pub(crate) id: LockerId,
    pub(crate) is_numbered: bool,
    pub(crate) ids: Arc<Ids>,
    /// See [`LockTable::label`](crate::LockTable::label).
    pub(crate) label: u64,
    pub(crate) granules: Vec<Granule>,
    pub(crate) held: Vec<Held>,
    /// Keys that escalated granules cover (see `de_escalate`).
    pub(crate) covered: Vec<Held>,
    index: Vec<u32>,
    /// A bit for each key in `held`, while that list is short. A key of which the bit is not set is
    /// not in the list.
    filter: u64,
    pub(crate) pending: Option<Pending>,
    pub(crate) ended: Option<LockAbort>,
    pub(crate) counts: LockCounts,
    /// The counts at the end of the last transaction.
    reported: LockCounts,
    /// The difference between the totals of its slot and its own counts, modulo 2^64: the counts of
    /// earlier lockers with this number, less the counts of this one before it had the number.
    pub(crate) predecessors: LockCounts,
    /// The time at which [`poll_until`](crate::LockTable::poll_until) gives up a wait, in ns of the
    /// caller's clock.
    pub deadline_ns: u64,
    /// The time at which the transaction began, in ns of the caller's clock. It decides the victim
    /// of a cycle with [`Victim::Youngest`](crate::Victim::Youngest).
    pub begun_ns: u64,
}

impl Locker {
    pub(crate) fn new(ids: Arc<Ids>) -> Locker {
        Locker {
            id: 0,
            is_numbered: false,
            ids,
            label: 0,
            granules: Vec::with_capacity(LINEAR),
            held: Vec::with_capacity(LINEAR),
            covered: Vec::new(),
            index: Vec::new(),
            filter: 0,
            pending: None,
            ended: None,
            counts: LockCounts::default(),
            reported: LockCounts::default(),
            predecessors: LockCounts::default(),
            deadline_ns: u64::MAX,
            begun_ns: 0,
        }
    }

    /// The mode held on `name`; [`Mode::NONE`] if none.
    #[inline]
    pub fn holds(&self, name: LockName) -> Mode {
        if name.is_granule() {
            let held = self.granules.iter().find(|g| g.name == name && g.usage == Use::Held);
            return held.map_or(Mode::NONE, |g| g.mode);
        }
        self.find(name).map_or(Mode::NONE, |i| self.held[i].mode)
    }

    /// All locks held: granules, then keys, in the order of the first request for each.
    pub fn held(&self) -> impl Iterator<Item = (LockName, Mode)> {
        let granules = self.granules.iter().filter(|g| g.usage == Use::Held).map(|g| (g.name, g.mode));
        granules.chain(self.held.iter().filter(|h| h.mode != Mode::NONE).map(|h| (h.name(), h.mode)))
    }

    /// Granules left by earlier transactions, for the next one.
    pub fn parked(&self) -> impl Iterator<Item = (LockName, Mode)> {
        self.granules.iter().filter(|g| g.usage != Use::Held).map(|g| (g.name, g.mode))
    }

    /// The lock for which the locker waits.
    pub fn waits_for(&self) -> Option<(LockName, Mode)> {
        self.pending.map(|p| (p.name, p.wanted))
    }

    pub fn counts(&self) -> LockCounts {
        self.counts
    }

    /// Reports the lock requests of the transaction that ends.
    #[inline]
    pub(crate) fn report(&mut self) {
        probe::lock_calls(|| {
            let (now, before) = (&self.counts, &self.reported);
            let (higher, repeats) = (now.higher - before.higher, now.repeated - before.repeated);
            probe::LockCalls {
                rows: now.requests - before.requests - higher - repeats,
                higher,
                repeats,
                inherited: now.inherited - before.inherited,
                fast: now.fast - before.fast,
            }
        });
        self.reported = self.counts;
    }

    /// The position of a granule, held or parked.
    #[inline]
    pub(crate) fn granule(&self, name: LockName) -> Option<usize> {
        self.granules.iter().position(|g| g.name == name)
    }

    /// The position of a key.
    #[inline]
    pub(crate) fn find(&self, name: LockName) -> Option<usize> {
        if self.index.is_empty() {
            if self.filter & bit(name) == 0 {
                return None;
            }
            return self.held.iter().position(|h| h.key == name.key && h.space == name.space);
        }
        self.probe(name).ok()
    }

    /// The position in `held`, or the free place in the index.
    fn probe(&self, name: LockName) -> Result<usize, usize> {
        let mask = self.index.len() - 1;
        let mut at = (name.mix() >> 32) as usize & mask;
        loop {
            match self.index[at] {
                0 => return Err(at),
                i if self.held[i as usize - 1].name() == name => return Ok(i as usize - 1),
                _ => at = (at + 1) & mask,
            }
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, name: LockName, mode: Mode, table: u16) {
        self.held.push(Held::new(name, mode, table));
        self.filter |= bit(name);
        if self.held.len() > LINEAR {
            self.enter_in_index(name);
        }
    }

    fn enter_in_index(&mut self, name: LockName) {
        if self.held.len() * 2 > self.index.len() {
            self.build_index();
        } else {
            self.place(name, self.held.len() - 1);
        }
    }

    fn build_index(&mut self) {
        let size = (self.held.len() * 4).next_power_of_two();
        self.index.clear();
        self.index.resize(size, 0);
        for i in 0..self.held.len() {
            self.place(self.held[i].name(), i);
        }
    }

    fn place(&mut self, name: LockName, position: usize) {
        if let Err(free) = self.probe(name) {
            self.index[free] = position as u32 + 1;
        }
    }

    /// Sets the mode of the key at `position`; `NONE` removes it from the list.
    pub(crate) fn set(&mut self, position: usize, mode: Mode) {
        if mode == Mode::NONE && self.index.is_empty() {
            self.held.remove(position);
        } else {
            self.held[position].mode = mode;
        }
    }

    /// Removes the keys for which `leave` returns true.
    pub(crate) fn leave(&mut self, mut leave: impl FnMut(&Held) -> bool) {
        self.held.retain(|h| !leave(h));
        self.index.clear();
        self.filter = self.held.iter().fold(0, |bits, h| bits | bit(h.name()));
        if self.held.len() > LINEAR {
            self.build_index();
        }
    }

    /// Removes all keys.
    #[inline]
    pub(crate) fn clear_keys(&mut self) {
        self.held.clear();
        self.covered.clear();
        self.filter = 0;
        if !self.index.is_empty() {
            if self.index.len() > KEEP {
                self.index = Vec::new();
            }
            // An empty index marks a short list, so the length is cleared and the capacity kept.
            self.index.clear();
        }
    }
}

#[inline]
fn bit(name: LockName) -> u64 {
    1 << (name.mix() >> (u64::BITS - 6))
}

thread_local! {
    static ENDS: Cell<bool> = const { Cell::new(false) };
}

/// Announces that this thread ends, and with it the transactions that it runs. Their locks stay
/// until the whole table is dropped.
pub fn end_thread() {
    ENDS.set(true);
}

impl Drop for Locker {
    fn drop(&mut self) {
        // The number of a locker that still stands in queues must never name another. Its parked
        // granules are released when the number is handed out again.
        if self.held().next().is_none() && self.pending.is_none() {
            if self.is_numbered {
                self.ids.give_back(self.id);
            }
        } else {
            debug_assert!(std::thread::panicking() || ENDS.get(), "a locker was dropped while it held locks");
        }
    }
}
