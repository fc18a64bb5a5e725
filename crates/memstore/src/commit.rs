//! Commit in three phases (Silo, section 4.4), of which the first two can be had on their own, for two-phase commit:
//!
//! ```text
//!   pre-commit   1. lock the rows to be written, in the order of their addresses
//!                   -- the serialisation point: the epoch is read here, after the last lock and before the first check --
//!                2. check that every row read is as it was read and not locked by another, and every leaf seen is unchanged
//!   post-commit  3. write, each row unlocked with the new id
//! ```
//! The epoch has to be read after the locks: an id with an epoch from before them could be older than that of a
//! transaction whose writes this one read or replaced, and a log cut between the two would keep the wrong one.
//!
//! Nothing is shared but the rows written: a transaction that only read stores nothing.

use crate::arena::Ref;
use crate::row::{self, Keep};
use crate::store::{Cause, Conflict, Refused, RowId};
use crate::tid::{self, ABSENT, LOCKED, Lock, PREPARED, epoch};
use crate::transaction::{Txn, Write};
use crate::worker::{Garbage, Worker};
use latch::Backoff;
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};

/// A committed transaction's place in the order: ids of an epoch come before those of later ones, and a row's grow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tid(pub u64);

impl Tid {
    pub fn epoch(self) -> u64 {
        epoch(self.0)
    }
}

impl Worker {
    /// Commits. The transaction is over, unless the answer is [`Refused::Busy`]: then it comes back to be tried again.
    ///
    /// # Errors
    /// See [`Refused`]; nothing was written.
    pub fn commit(&mut self, mut txn: Box<Txn>) -> Result<Tid, (Refused, Option<Box<Txn>>)> {
        match self.certify(&mut txn) {
            Ok(()) => Ok(self.post_commit(txn)),
            Err(busy @ Refused::Busy(_)) => Err((busy, Some(txn))),
            Err(refused) => {
                self.abort(txn);
                Err((refused, None))
            }
        }
    }

    /// Locks and validates: from here on the transaction can go either way, by [`Worker::post_commit`] or
    /// [`Worker::abort`], and until then others that meet its writes abort or wait, as the store's options say.
    ///
    /// # Errors
    /// See [`Refused`]; nothing is locked then.
    pub fn pre_commit(&mut self, txn: &mut Txn) -> Result<Tid, Refused> {
        if txn.commit.is_none() {
            self.certify(txn)?;
            for write in &txn.writes {
                row::tid(&self.store.arena, write.row).fetch_or(PREPARED, Ordering::Release);
            }
        }
        Ok(Tid(txn.commit.map_or(0, |(_, tid)| tid)))
    }

    /// As [`Worker::pre_commit`], for a transaction that ends at once: those who meet its writes wait a moment for them.
    ///
    /// # Errors
    /// As [`Worker::pre_commit`].
    pub fn certify(&mut self, txn: &mut Txn) -> Result<(), Refused> {
        if txn.writes.is_empty() {
            self.validate(txn)?;
            // It comes after all it has read, and nothing comes after it.
            let last = txn.reads.iter().map(|(_, word)| tid::of(*word)).max();
            txn.commit = Some((None, last.unwrap_or(0)));
            return Ok(());
        }
        txn.writes.sort_unstable_by_key(|write| write.row.0);
        let since = self.own.committing.add(&self.store.epochs, self.number);
        let certified = self.lock_all(&mut txn.writes).and_then(|()| {
            let tid = self.serialise(txn);
            let tid =
                tid.and_then(|tid| self.validate(txn).and_then(|()| self.equip(txn, tid)).map(|()| tid));
            tid.inspect_err(|_| self.unlock(&txn.writes))
        });
        match certified {
            Ok(tid) => {
                self.own.last_tid = tid;
                txn.commit = Some((Some(since), tid));
                Ok(())
            }
            Err(refused) => {
                self.own.committing.remove(&self.store.epochs, self.number, since);
                Err(refused)
            }
        }
    }

    fn lock_all(&mut self, writes: &mut [Write]) -> Result<(), Refused> {
        for i in 0..writes.len() {
            match self.lock(writes[i].row) {
                Ok(before) => writes[i].before = before,
                Err(refused) => {
                    self.unlock(&writes[..i]);
                    return Err(refused);
                }
            }
        }
        Ok(())
    }

    /// Waits for a lock that is held over one commit; the order of addresses keeps such waits from closing a cycle.
    fn lock(&self, row: Ref) -> Result<u64, Refused> {
        let word = row::tid(&self.store.arena, row);
        let mut wait = Backoff::new();
        loop {
            match tid::try_lock(word) {
                Lock::Taken(before) => return Ok(before),
                Lock::Dead => return Err(Refused::Conflict(Cause::Changed)),
                Lock::Busy(now) => self.met_lock(row, now, &mut wait)?,
            }
        }
    }

    fn unlock(&self, writes: &[Write]) {
        for write in writes {
            row::tid(&self.store.arena, write.row).store(write.before, Ordering::Release);
        }
    }

    /// The serialisation point.
    fn serialise(&self, txn: &Txn) -> Result<u64, Refused> {
        fence(Ordering::SeqCst);
        let read = txn.reads.iter().map(|(_, word)| *word);
        let above = read.chain(txn.writes.iter().map(|write| write.before)).fold(self.own.last_tid, u64::max);
        loop {
            let now = self.store.epochs.now();
            if let Some(tid) = tid::next(now, above) {
                return Ok(tid);
            }
            // Nobody ticked for as many commits as an epoch has numbers.
            self.store.epochs.end(now);
        }
    }

    /// Whether everything that was read is as it was read and nobody else is about to change it. [`Worker::pre_commit`] has
    /// asked already; but a transaction of several stores needs the answer to hold in all of them at one moment, after
    /// the last of them has locked what it writes there, or two of them may each read what the other overwrites.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn validate(&self, txn: &Txn) -> Result<(), Refused> {
        #[cfg(test)]
        let (unread, unseen) = {
            let is = |bug| self.store.planted.is(bug);
            (is(crate::planted::Bug::ReadsUnchecked), is(crate::planted::Bug::LeavesUnchecked))
        };
        #[cfg(not(test))]
        let (unread, unseen) = (false, false);
        if !unread {
            self.validate_reads(txn)?;
        }
        match unseen || txn.leaves.iter().all(|seen| seen.holds(&self.store.arena)) {
            true => Ok(()),
            false => Err(Refused::Conflict(Cause::Phantom)),
        }
    }

    fn validate_reads(&self, txn: &Txn) -> Result<(), Refused> {
        for &(row, word) in &txn.reads {
            let now = row::tid(&self.store.arena, row).load(Ordering::Acquire);
            if now == word {
                continue;
            }
            if now & !(LOCKED | PREPARED) != word {
                return Err(Refused::Conflict(Cause::Changed));
            }
            if txn.writes.binary_search_by_key(&row.0, |write| write.row.0).is_err() {
                return Err(self.locked_by_another(row, now));
            }
        }
        Ok(())
    }

    /// Waiting on the spot with locks held could close a cycle: only a prepared row is waited for, without them.
    fn locked_by_another(&self, row: Ref, word: u64) -> Refused {
        match self.store.conflict {
            Conflict::Wait if word & PREPARED != 0 => Refused::Busy(RowId(row)),
            _ => Refused::Conflict(Cause::Locked),
        }
    }

    /// Takes the memory that the writes need, so that nothing can fail after validation.
    fn equip(&mut self, txn: &mut Txn, tid: u64) -> Result<(), Refused> {
        let store = Rc::clone(&self.store);
        let snapshot = store.snapshot.load(Ordering::Acquire);
        for i in 0..txn.writes.len() {
            let write = &txn.writes[i];
            let old = epoch(write.before);
            // A row that never was there is found absent without a version that says so.
            let is_wanted = write.before != ABSENT && old < epoch(tid) && old <= snapshot;
            let keep = if is_wanted { Keep::Older } else { Keep::Nothing };
            let len = write.value.map_or(0, |value| txn.values[value].len());
            match row::prepare(&store.arena, &mut self.own.local, write.row, len, keep) {
                Ok(prepared) => txn.writes[i].prepared = prepared,
                Err(full) => {
                    self.unequip(&mut txn.writes[..i]);
                    return Err(full.into());
                }
            }
        }
        Ok(())
    }

    fn unequip(&mut self, writes: &mut [Write]) {
        for write in writes {
            row::cancel(
                &self.store.arena,
                &mut self.own.local,
                write.row,
                std::mem::take(&mut write.prepared),
            );
        }
    }

    /// Writes what a transaction that has passed [`Worker::pre_commit`] is to write. It is over.
    ///
    /// # Panics
    /// If it has not been prepared.
    pub fn post_commit(&mut self, mut txn: Box<Txn>) -> Tid {
        let (since, tid) = txn.commit.take().expect("only what is prepared can be committed");
        let store = Rc::clone(&self.store);
        for write in &txn.writes {
            let value = write.value.map(|value| &txn.values[value][..]);
            let word = tid | if value.is_none() { ABSENT } else { 0 };
            let (local, epochs) = (&mut self.own.local, &store.epochs);
            let older = row::overwrite(&store.arena, local, epochs, write.row, value, write.prepared, word);
            if older != Ref::NONE {
                self.own.garbage.push_back((epoch(tid), Garbage::Version(older)));
            }
            if value.is_none() {
                self.own.garbage.push_back((epoch(tid), Garbage::Row(write.table, write.row, word)));
            }
        }
        self.committed(since);
        self.end(txn);
        Tid(tid)
    }

    fn committed(&mut self, since: Option<u64>) {
        if let Some(since) = since {
            self.own.committing.remove(&self.store.epochs, self.number, since);
        }
    }

    /// Ends a transaction without effect, prepared or not.
    pub fn abort(&mut self, mut txn: Box<Txn>) {
        if let Some((since, _)) = txn.commit.take() {
            self.unequip(&mut txn.writes);
            self.unlock(&txn.writes);
            self.committed(since);
        }
        // Absent rows that it entered; another transaction may meanwhile have made them be there, or be about to.
        let entered = txn.entered.drain(..);
        self.own.garbage.extend(entered.map(|(table, row)| (0, Garbage::Row(table, row, ABSENT))));
        self.end(txn);
    }
}
