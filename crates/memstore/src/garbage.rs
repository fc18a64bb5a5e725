//! The garbage that transactions leave behind: old versions, and absent rows that are still in
//! their index. Each worker removes the garbage of its own transactions, once no reader can reach
//! it.

use crate::arena::Ref;
use crate::index::Removal;
use crate::left::Garbage;
use crate::life;
use crate::read_reservation;
use crate::row;
use crate::tid::{self, Lock};
use crate::worker::Worker;
use base::TableId;
use std::rc::Rc;
use std::sync::atomic::Ordering;

impl Worker {
    /// Whether there is garbage that can be removed now or after an epoch or two.
    #[inline]
    pub fn has_garbage(&self) -> bool {
        !self.own.garbage.is_empty() || self.own.local.waiting() > 0
    }

    /// Whether some of the garbage may go now. `false` while the epoch lasts in which the last
    /// search found none that could.
    #[inline]
    pub fn may_collect(&self) -> bool {
        self.has_garbage() && self.own.looked != self.store.epochs.now()
    }

    /// Removes at most `limit` old versions and absent rows that no reader can reach any more, and
    /// returns how many it looked at. Workers collect by themselves as they commit; an idle worker
    /// may be asked to.
    pub fn collect(&mut self, limit: usize) -> usize {
        let store = Rc::clone(&self.store);
        let now = store.epochs.now();
        // The row stays until its deletion is durable: a reader that finds it absent learns from
        // its word which epoch it has to wait for. The row also stays until every transaction that
        // began before its deletion has ended: such a transaction, when it validates, may look for
        // rows that came and went (`finds_no_other`).
        let oldest = store.epochs.horizon().saturating_sub(1);
        let horizon = store.oldest_snapshot().min(store.durable_epoch()).min(oldest);
        // Garbage that goes back to the queue below is left for another call.
        let (mut done, limit) = (0, limit.min(self.own.garbage.len()));
        while done < limit {
            let Some((epoch, garbage)) = self.own.garbage.pop_front() else { break };
            if epoch > horizon {
                self.own.garbage.push_front((epoch, garbage));
                break;
            }
            match garbage {
                Garbage::Version(version) => {
                    row::retire_version(&store.arena, &mut self.own.local, &store.epochs, version);
                }
                Garbage::Row(table, row, word) => self.unlink(table, row, word),
            }
            done += 1;
        }
        let waiting = self.own.local.waiting();
        self.own.local.reclaim(&store.arena, &store.epochs);
        if done == 0 && self.own.local.waiting() == waiting {
            self.own.looked = now;
        }
        done
    }

    /// Takes an absent row out of its index, if it is still absent under the same word.
    fn unlink(&mut self, table: TableId, row: Ref, word: u64) {
        let store = Rc::clone(&self.store);
        let tid = row::tid(&store.arena, row);
        match tid::try_lock_as(tid, word) {
            Lock::Taken(_) => {}
            // The transaction that holds the lock either makes the row present or leaves it as it
            // is.
            Lock::Busy(_) => return self.own.garbage.push_back((0, Garbage::Row(table, row, word))),
            // The row is present, or the block is another row's by now, or free.
            Lock::Dead => return,
        }
        read_reservation::settle();
        if read_reservation::is_held(row::readers(&store.arena, row), read_reservation::OF_ROW) {
            return self.put_off(table, row, word);
        }
        self.key.clear();
        row::key(&store.arena, row, &mut self.key);
        if let Ok(index) = store.index(table) {
            let removal = index.remove(&store.arena, &mut self.own.local, &store.epochs, &self.key, row);
            debug_assert_ne!(
                removal,
                Removal::Missing,
                "the worker that took the row out has marked it dead"
            );
            if removal == Removal::Reserved {
                return self.put_off(table, row, word);
            }
        }
        life::leave(tid, word);
        row::retire(&store.arena, &mut self.own.local, &store.epochs, row);
    }

    /// Unlocks an absent row and puts it back into the queue of garbage.
    fn put_off(&mut self, table: TableId, row: Ref, word: u64) {
        row::tid(&self.store.arena, row).store(word, Ordering::Release);
        self.own.garbage.push_back((0, Garbage::Row(table, row, word)));
    }
}
