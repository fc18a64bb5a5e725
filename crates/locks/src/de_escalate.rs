//! De-escalation: a transaction that must wait goes back from an escalated table to the keys that
//! it needs (as Rdb/VMS does, Joshi, VLDB 1991).
//!
//! An escalated table excludes far more than its holder has touched. While the holder runs, that
//! costs other transactions a wait that ends by itself. But if the holder waits in turn, for a
//! transaction that waits for the table, there is a deadlock that key locks would not have made:
//!
//! ```text
//! TPC-C.  T1 (StockLevel) has locked all of order_line, and waits for a row of stock.
//!         T2 (NewOrder) has locked that row of stock, and waits to insert into order_line.
//! ```
//!
//! So the keys that a table's lock covers are remembered. Before a wait each of them is locked
//! again, and the table is lowered to the requested mode. This never waits: a transaction that
//! holds or wants a conflicting lock on a covered key holds an intention on the table, which the
//! escalated lock excludes. The same happens before a stronger mode is requested on an escalated
//! table.
//!
//! So an escalated lock is never an edge of a cycle, except if it covers too many keys to remember,
//! or names other than keys. Such a lock stays to the end of the transaction (`fixed`).

use crate::locker::{Granule, Held, Locker, Pending};
use crate::mode::{LockName, Mode};
use crate::queue::Entry;
use crate::slot::Standing;
use crate::table::{Acquired, LockTable};
use latch::RawMutex;
use std::sync::atomic::Ordering;

/// Number of keys that one locker remembers: 64 KiB. When the list is full of accesses, each key is
/// kept once. If more than half of the list is left, the table stays locked, since locking the keys
/// again would take longer than most waits.
pub(crate) const REMEMBERED: usize = 4096;

impl Locker {
    /// Notes a name that the escalated granule at `at` covers, so that the key can be locked later.
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

    /// Keeps each covered key once, with the supremum of the modes requested for it.
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
    /// Withdraws a request that would have to wait, goes back to key locks, and requests it again.
    #[cold]
    pub(crate) fn wait_with_keys(&self, locker: &mut Locker, pending: Pending) -> Acquired {
        match self.withdraw(locker) {
            Standing::Granted => return Acquired::Granted,
            Standing::Denied => return Acquired::Deadlock,
            Standing::Waits => locker.ended = None,
        }
        for at in 0..locker.granules.len() {
            self.de_escalate(locker, at);
        }
        locker.covered.clear();
        let Pending { name, before, wanted, table } = pending;
        // It counts as one request.
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

    /// Lowers the escalated granule at `at` to the requested mode, and locks the keys that it
    /// covered.
    #[cold]
    pub(crate) fn de_escalate(&self, locker: &mut Locker, at: usize) {
        let Granule { name, asked, fixed, .. } = locker.granules[at];
        if fixed || !locker.granules[at].is_escalated() {
            return;
        }
        let table = name.space as u16;
        locker.merge_covered();
        let covered = std::mem::take(&mut locker.covered);
        let mine = || covered.iter().filter(|key| key.table == table);
        if !mine().all(|key| self.lock_covered(locker, key)) {
            // Possible only if a transaction locks keys without an intention on their table. The
            // table's lock stays.
            locker.granules[at].fixed = true;
        } else {
            self.lower_granule(locker, at, asked);
            self.counters.de_escalations.fetch_add(1, Ordering::Relaxed);
            let granule = &mut locker.granules[at];
            let keys = mine().count() as u32;
            // De-escalation has shown that other transactions want the table, so the next
            // escalation comes later.
            granule.most_reads = granule.most_reads.max(2 * keys);
            granule.most_writes = granule.most_writes.max(2 * keys);
        }
        locker.covered = covered;
        locker.covered.retain(|key| key.table != table);
    }

    /// Locks a key that the table has covered so far. False if that would have to wait.
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
