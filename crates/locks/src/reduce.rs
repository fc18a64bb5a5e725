//! De-escalation: who has to wait goes back from an escalated table to the keys it needs (as Rdb/VMS does, Joshi, VLDB 1991).
//!
//! An escalated table excludes far more than its holder has touched. While the holder runs that costs others a wait that
//! ends by itself. But when it waits in turn, for one that waits for the table, there is a deadlock that key locks would
//! not have made (in TPC-C, StockLevel with all order lines, and a NewOrder that has taken from the stock). So the keys that a
//! table's lock covers are remembered, and before a wait each of them is locked again and the table is held as it was asked
//! for. That waits for nobody: whoever holds or wants anything in the way of a covered key holds an intention on the table
//! that the escalated lock excludes. The same before an escalated table is asked for more strongly.
//!
//! So no escalated lock is ever an edge of a cycle, but for those whose keys were too many to remember, or that cover
//! something else than keys: they stay to the end (`fixed`).

use crate::locker::{Granule, Held, Locker, Pending};
use crate::mode::{LockName, Mode};
use crate::queue::Entry;
use crate::slot::Standing;
use crate::table::{Acquired, LockTable};
use latch::RawMutex;
use std::sync::atomic::Ordering;

/// Room for the keys that one locker remembers: 64 KiB. Once it is full of accesses, each key is kept once; with more keys than
/// half of it, the table stays locked: locking them again would take longer than most waits.
pub(crate) const REMEMBERED: usize = 4096;

impl Locker {
    /// Notes what the escalated granule at `at` covers, so that it can be asked for by name later.
    #[inline]
    pub(crate) fn remember(&mut self, at: usize, path: &[LockName], name: LockName, mode: Mode) {
        let granule = &mut self.granules[at];
        if granule.fixed {
            return;
        }
        let table = granule.name.space as u16;
        if name.is_granule() || path.len() > 1 || !self.has_room() {
            self.granules[at].fixed = true;
            self.covered.retain(|key| key.table != table);
            return;
        }
        self.covered.push(Held::new(name, mode, table));
    }

    #[inline]
    fn has_room(&mut self) -> bool {
        self.covered.len() < REMEMBERED || {
            self.merge_covered();
            self.covered.len() < REMEMBERED / 2
        }
    }

    /// Keeps each covered key once, under all modes that it was asked for in.
    #[cold]
    fn merge_covered(&mut self) {
        self.covered.sort_unstable_by_key(Held::place);
        self.covered.dedup_by(|again, key| {
            let is_again = again.place() == key.place();
            if is_again {
                key.mode = key.mode.with(again.mode);
            }
            is_again
        });
    }
}

impl<M: RawMutex> LockTable<M> {
    /// Takes back a request that would have to wait, goes back to keys, and asks again.
    #[cold]
    pub(crate) fn wait_with_keys(&self, locker: &mut Locker, pending: Pending) -> Acquired {
        match self.withdraw(locker) {
            Standing::Granted => return Acquired::Granted,
            Standing::Denied => return Acquired::Deadlock,
            Standing::Waits => locker.ended = None,
        }
        for at in 0..locker.granules.len() {
            self.reduce(locker, at);
        }
        locker.covered.clear();
        let Pending { name, before, wanted, table } = pending;
        // It is one request, however often it is asked.
        let counts = &mut locker.counts;
        counts.requests -= 1;
        if name.is_granule() {
            counts.granule_calls -= 1;
            counts.granule_requests -= u64::from(before == Mode::NONE);
            counts.higher -= 1;
        }
        match name.is_granule() {
            true => self.acquire_granule(locker, name, wanted),
            false => self.acquire_key(locker, name, wanted, table),
        }
    }

    /// Makes the escalated granule at `at` what was asked for, and locks the keys that it covered.
    #[cold]
    pub(crate) fn reduce(&self, locker: &mut Locker, at: usize) {
        let Granule { name, asked, fixed, .. } = locker.granules[at];
        if fixed || !locker.granules[at].is_escalated() {
            return;
        }
        let table = name.space as u16;
        locker.merge_covered();
        let covered = std::mem::take(&mut locker.covered);
        let mine = || covered.iter().filter(|key| key.table == table);
        if !mine().all(|key| self.lock_covered(locker, key)) {
            // Only if somebody locks keys without an intention on their table. What the table covers stays covered.
            locker.granules[at].fixed = true;
        } else {
            self.lower_granule(locker, at, asked);
            self.counters.reductions.fetch_add(1, Ordering::Relaxed);
            let granule = &mut locker.granules[at];
            let keys = mine().count() as u32;
            // It has shown that others want the table.
            granule.most_reads = granule.most_reads.max(2 * keys);
            granule.most_writes = granule.most_writes.max(2 * keys);
        }
        locker.covered = covered;
        locker.covered.retain(|key| key.table != table);
    }

    /// Locks a key that the table has covered so far; false if that would have to wait.
    fn lock_covered(&self, locker: &mut Locker, key: &Held) -> bool {
        let name = key.name();
        let at = locker.find(name);
        let before = at.map_or(Mode::NONE, |at| locker.held[at].mode);
        let wanted = before.with(key.mode);
        if wanted == before {
            return true;
        }
        let id = locker.id;
        let entry = self.bucket(name).with(|q| {
            let entry = q.convert(name, id, wanted);
            if entry == Entry::Waiting {
                q.lower(name, id, before);
            }
            entry
        });
        if entry == Entry::Waiting {
            return false;
        }
        match at {
            Some(at) => locker.set(at, wanted),
            None => locker.push(name, wanted, key.table),
        }
        true
    }
}
