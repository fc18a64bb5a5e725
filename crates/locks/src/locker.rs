//! A transaction's own list of locks, so that a lock asked for again costs no visit to the table.
//!
//! Up to [`LINEAR`] locks are found by looking at each; beyond that by an open-addressing index over the list.
//! A lock given back while the index is in use stays in the list with mode `NONE`.

use crate::mode::{LockName, Mode};
use crate::queue::LockerId;
use crate::slot::Ids;
use std::sync::Arc;

/// Looking at 16 entries of 16 bytes costs about as much as one probe of an index that must be kept up.
const LINEAR: usize = 16;
/// An index larger than this is dropped at the end of the transaction rather than cleared for each next one.
const KEEP: usize = 1024;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    key: u64,
    space: u32,
    pub(crate) mode: Mode,
    /// Was put into the slot's fast list; somebody may have moved it to its bucket since.
    pub(crate) fast: bool,
}

impl Held {
    #[inline]
    pub(crate) fn name(&self) -> LockName {
        LockName { space: self.space, key: self.key }
    }
}

/// The one request a locker may be waiting for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) name: LockName,
    pub(crate) before: Mode,
    pub(crate) wanted: Mode,
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
}

/// One transaction's locks in one [`LockTable`](crate::LockTable); reusable after
/// [`release_all`](crate::LockTable::release_all). Owned by one worker at a time.
pub struct Locker {
    pub(crate) id: LockerId,
    pub(crate) ids: Arc<Ids>,
    pub(crate) held: Vec<Held>,
    index: Vec<u32>,
    pub(crate) pending: Option<Pending>,
    pub(crate) cancelled: bool,
    pub(crate) counts: LockCounts,
    /// When a wait is given up by [`poll_until`](crate::LockTable::poll_until), in ns of the caller's clock.
    pub deadline_ns: u64,
}

impl Locker {
    pub(crate) fn new(id: LockerId, ids: Arc<Ids>) -> Locker {
        Locker {
            id,
            ids,
            held: Vec::with_capacity(LINEAR),
            index: Vec::new(),
            pending: None,
            cancelled: false,
            counts: LockCounts::default(),
            deadline_ns: u64::MAX,
        }
    }

    /// What is held on `name`; [`Mode::NONE`] if nothing.
    #[inline]
    pub fn holds(&self, name: LockName) -> Mode {
        self.find(name).map_or(Mode::NONE, |i| self.held[i].mode)
    }

    /// Every lock held, in the order of the first request for each.
    pub fn held(&self) -> impl Iterator<Item = (LockName, Mode)> {
        self.held.iter().filter(|h| h.mode != Mode::NONE).map(|h| (h.name(), h.mode))
    }

    /// The lock that is being waited for.
    pub fn waits_for(&self) -> Option<(LockName, Mode)> {
        self.pending.map(|p| (p.name, p.wanted))
    }

    pub fn counts(&self) -> LockCounts {
        self.counts
    }

    #[inline]
    pub(crate) fn find(&self, name: LockName) -> Option<usize> {
        if self.index.is_empty() {
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
    pub(crate) fn push(&mut self, name: LockName, mode: Mode, fast: bool) {
        self.held.push(Held { key: name.key, space: name.space, mode, fast });
        if self.held.len() > LINEAR {
            self.enter_in_index(name);
        }
    }

    fn enter_in_index(&mut self, name: LockName) {
        if self.held.len() * 2 > self.index.len() {
            let size = (self.held.len() * 4).next_power_of_two();
            self.index.clear();
            self.index.resize(size, 0);
            for i in 0..self.held.len() {
                self.place(self.held[i].name(), i);
            }
        } else {
            self.place(name, self.held.len() - 1);
        }
    }

    fn place(&mut self, name: LockName, position: usize) {
        if let Err(free) = self.probe(name) {
            self.index[free] = position as u32 + 1;
        }
    }

    /// Sets the mode of the lock at `position`; `NONE` takes it off the list.
    pub(crate) fn set(&mut self, position: usize, mode: Mode) {
        if mode == Mode::NONE && self.index.is_empty() {
            self.held.remove(position);
        } else {
            self.held[position].mode = mode;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.held.clear();
        if !self.index.is_empty() {
            if self.index.len() > KEEP {
                self.index = Vec::new();
            }
            // An empty index is what marks a short list, so the capacity is kept and the length is not.
            self.index.clear();
        }
    }
}

impl Drop for Locker {
    fn drop(&mut self) {
        // The number of a locker that still stands in queues must never name another.
        if self.held().next().is_none() && self.pending.is_none() {
            self.ids.give_back(self.id);
        } else {
            debug_assert!(std::thread::panicking(), "a locker was dropped while it held locks");
        }
    }
}
