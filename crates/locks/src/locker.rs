//! A transaction's own list of locks, so that a lock asked for again costs no visit to the table.
//!
//! Granules (tables, prefixes) are few and looked at one by one. Keys: up to [`LINEAR`] by looking at each, and not
//! even that when a 64-bit filter says that the key is new; beyond that by an open-addressing index over the list. A
//! key given back while the index is in use stays in the list with mode `NONE`.
//!
//! Between transactions a locker keeps *parked* granules, inherited by its next transaction if that asks for them (see
//! `inherit`). What is parked is held for nobody: [`Locker::holds`] does not tell of it.

use crate::mode::{LockName, Mode};
use crate::queue::LockerId;
use crate::slot::Ids;
use crate::table::LockAbort;
use std::cell::Cell;
use std::sync::Arc;

/// Looking at 16 entries of 16 bytes costs about as much as one probe of an index that must be kept up.
const LINEAR: usize = 16;
/// An index larger than this is dropped at the end of the transaction rather than cleared for each next one.
const KEEP: usize = 1024;

/// A lock on a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    key: u64,
    space: u32,
    /// The table it was taken beneath, or [`NO_TABLE`].
    pub(crate) table: u16,
    pub(crate) mode: Mode,
}

/// For keys that were locked without saying what they lie beneath. No table has this number.
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

    /// Its place in a list where the keys of a table lie together.
    pub(crate) fn place(&self) -> (u16, u32, u64) {
        (self.table, self.space, self.key)
    }
}

/// Where the table knows of a granule's lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In the slot's fast list; somebody may have moved it to its bucket since.
    Fast,
    /// In its bucket.
    Bucket,
    /// In its bucket, with a note in the slot that it may be parked; somebody may have struck the note out since.
    Kept,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// Held by the transaction under way.
    Held,
    /// Left by an earlier transaction, and this many have ended since without asking for it.
    Parked(u8),
}

/// A lock on a granule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granule {
    pub(crate) name: LockName,
    pub(crate) mode: Mode,
    pub(crate) place: Place,
    pub(crate) usage: Use,
    /// Keys locked beneath it by this transaction to read and to write, and how many may be before it is escalated.
    pub(crate) reads: u32,
    pub(crate) writes: u32,
    pub(crate) most_reads: u32,
    pub(crate) most_writes: u32,
    /// What was asked for: less than `mode` if it is escalated.
    pub(crate) asked: Mode,
    /// Escalated to the end: what it covers is not remembered.
    pub(crate) fixed: bool,
}

impl Granule {
    /// Whether it is held more strongly than was asked for.
    #[inline]
    pub(crate) fn is_escalated(&self) -> bool {
        self.mode != self.asked
    }
}

/// The one request a locker may be waiting for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) name: LockName,
    pub(crate) before: Mode,
    pub(crate) wanted: Mode,
    pub(crate) table: u16,
}

/// What a locker did since it was made; never reset.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct LockCounts {
    /// Locks asked for.
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
    /// Times that a granule's lock was put into the table, changed there or taken out: what inheritance saves.
    pub granule_calls: u64,
}

/// One transaction's locks in one [`LockTable`](crate::LockTable); reusable after
/// [`release_all`](crate::LockTable::release_all). Owned by one worker at a time.
pub struct Locker {
    /// Its number in the table, if it has one; it holds and awaits nothing while it has none.
    pub(crate) id: LockerId,
    pub(crate) is_numbered: bool,
    pub(crate) ids: Arc<Ids>,
    /// See [`LockTable::label`](crate::LockTable::label).
    pub(crate) label: u64,
    pub(crate) granules: Vec<Granule>,
    pub(crate) held: Vec<Held>,
    /// Keys that escalated granules cover (see `reduce`).
    pub(crate) covered: Vec<Held>,
    index: Vec<u32>,
    /// A bit for each key in `held`, while that is short: a key whose bit is not set is not there.
    filter: u64,
    pub(crate) pending: Option<Pending>,
    pub(crate) ended: Option<LockAbort>,
    pub(crate) counts: LockCounts,
    /// What they were when the last transaction ended.
    reported: LockCounts,
    /// What to add to its own counts for the totals of its slot, modulo 2^64: what earlier lockers with this number have
    /// counted, less what this one had counted before it had the number.
    pub(crate) predecessors: LockCounts,
    /// When a wait is given up by [`poll_until`](crate::LockTable::poll_until), in ns of the caller's clock.
    pub deadline_ns: u64,
    /// When the transaction began, in ns of the caller's clock; decides who dies with
    /// [`Victim::Youngest`](crate::Victim::Youngest).
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

    /// What is held on `name`; [`Mode::NONE`] if nothing.
    #[inline]
    pub fn holds(&self, name: LockName) -> Mode {
        if name.is_granule() {
            let held = self.granules.iter().find(|g| g.name == name && g.usage == Use::Held);
            return held.map_or(Mode::NONE, |g| g.mode);
        }
        self.find(name).map_or(Mode::NONE, |i| self.held[i].mode)
    }

    /// Every lock held: granules, then keys, in the order of the first request for each.
    pub fn held(&self) -> impl Iterator<Item = (LockName, Mode)> {
        let granules = self.granules.iter().filter(|g| g.usage == Use::Held).map(|g| (g.name, g.mode));
        granules.chain(self.held.iter().filter(|h| h.mode != Mode::NONE).map(|h| (h.name(), h.mode)))
    }

    /// Granules left by earlier transactions, for the next one.
    pub fn parked(&self) -> impl Iterator<Item = (LockName, Mode)> {
        self.granules.iter().filter(|g| g.usage != Use::Held).map(|g| (g.name, g.mode))
    }

    /// The lock that is being waited for.
    pub fn waits_for(&self) -> Option<(LockName, Mode)> {
        self.pending.map(|p| (p.name, p.wanted))
    }

    pub fn counts(&self) -> LockCounts {
        self.counts
    }

    /// Says what the transaction that ends has asked for.
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

    /// Sets the mode of the key at `position`; `NONE` takes it off the list.
    pub(crate) fn set(&mut self, position: usize, mode: Mode) {
        if mode == Mode::NONE && self.index.is_empty() {
            self.held.remove(position);
        } else {
            self.held[position].mode = mode;
        }
    }

    /// Takes the keys off the list of which `leave` says so.
    pub(crate) fn leave(&mut self, mut leave: impl FnMut(&Held) -> bool) {
        self.held.retain(|h| !leave(h));
        self.index.clear();
        self.filter = self.held.iter().fold(0, |bits, h| bits | bit(h.name()));
        if self.held.len() > LINEAR {
            self.build_index();
        }
    }

    /// Forgets the keys.
    #[inline]
    pub(crate) fn clear_keys(&mut self) {
        self.held.clear();
        self.covered.clear();
        self.filter = 0;
        if !self.index.is_empty() {
            if self.index.len() > KEEP {
                self.index = Vec::new();
            }
            // An empty index is what marks a short list, so the capacity is kept and the length is not.
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

/// This thread ends, and with it the transactions that it runs: what they have locked stays so, until the whole table goes.
pub fn end_thread() {
    ENDS.set(true);
}

impl Drop for Locker {
    fn drop(&mut self) {
        // The number of a locker that still stands in queues must never name another. What is parked is taken out
        // when the number is handed out again.
        if self.held().next().is_none() && self.pending.is_none() {
            if self.is_numbered {
                self.ids.give_back(self.id);
            }
        } else {
            debug_assert!(std::thread::panicking() || ENDS.get(), "a locker was dropped while it held locks");
        }
    }
}
