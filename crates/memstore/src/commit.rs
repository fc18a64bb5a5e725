//! Commit in three phases (Silo, section 4.4), of which the first two can be had on their own, for two-phase commit:
//!
//! ```text
//!   pre-commit   1. lock the rows to be written, as they were when they were read; who has to wait lets go of all of them
//!                   and takes them in the order of their addresses
//!                   -- the serialisation point: the epoch is read here, after the last lock and before the first check --
//!                2. check that every row read is as it was read and not locked by another, and that every leaf seen is unchanged,
//!                   or else has no other rows in the range that was looked at
//!   post-commit  3. write, each row unlocked with the new id
//! ```
//! The epoch has to be read after the locks: an id with an epoch from before them could be older than that of a
//! transaction whose writes this one read or replaced, and a log cut between the two would keep the wrong one.
//!
//! Nothing is shared but the rows written: a transaction that only read stores nothing.

use crate::arena::Ref;
use crate::guard;
use crate::index::{Chunk, Seek};
use crate::log::Verdict;
use crate::node::Node;
use crate::planted::Bug;
use crate::prepared::NoteId;
use crate::row::{self, Keep};
use crate::store::{Cause, Conflict, Contention, Held, Refused, RowId};
use crate::tid::{self, ABSENT, DEAD, LOCKED, Lock, PREPARED, epoch};
use crate::transaction::{Certified, Looked, Pin, Txn, Value, Write};
use crate::worker::{CHANGED, Garbage, Worker};
use base::TableId;
use latch::Backoff;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// A committed transaction's place in the order: ids of an epoch come before those of later ones, and a row's grow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tid(pub u64);

/// Why a transaction has not committed, and the transaction if it can be tried again.
pub type Refusal = (Refused, Option<Box<Txn>>);

/// The row at which validation has failed, and how.
type FailedAt = ((TableId, Ref), Refused);

/// A transaction that has committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Committed {
    pub tid: Tid,
    /// Nobody may be told before this epoch is durable ([`crate::Memstore::poll_durable`]): it then survives, and so
    /// does everything it has read.
    pub epoch: u64,
}

impl Tid {
    pub fn epoch(self) -> u64 {
        epoch(self.0)
    }
}

/// Where else a transaction reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Nowhere, or it reads only, and had read everything in all stores before the first of them was asked.
    Local,
    /// In other stores, each asked when it comes to it: what it has read here stays as it is until it ends, also when it
    /// writes nothing here.
    Distributed,
}

impl Worker {
    /// Commits. The transaction is over, unless the answer is [`Refused::Busy`]: then it comes back to be tried again.
    ///
    /// # Errors
    /// See [`Refused`]; nothing was written.
    #[inline]
    pub fn commit(&mut self, mut txn: Box<Txn>) -> Result<Committed, Refusal> {
        match self.certify(&mut txn, Scope::Local) {
            Ok(()) => Ok(self.post_commit(txn)),
            Err(refused) => Err(self.refuse(refused, txn)),
        }
    }

    /// As [`Worker::commit`], with a note that each opening hands out again until it is forgotten ([`Worker::forget`]).
    ///
    /// # Errors
    /// As [`Worker::commit`].
    pub fn commit_with_note(
        &mut self,
        mut txn: Box<Txn>,
        note: &[u8],
    ) -> Result<(Committed, NoteId), Refusal> {
        match self.certify(&mut txn, Scope::Local) {
            Ok(()) => Ok(self.post_commit_with_note(txn, note)),
            Err(refused) => Err(self.refuse(refused, txn)),
        }
    }

    fn refuse(&mut self, refused: Refused, txn: Box<Txn>) -> Refusal {
        if let Refused::Busy(_) = refused {
            return (refused, Some(txn));
        }
        self.abort(txn);
        (refused, None)
    }

    /// Locks and validates: from here on the transaction can go either way, by [`Worker::post_commit`] or
    /// [`Worker::abort`], and until then others that meet its writes abort or wait, as the store's options say; so do
    /// those that would write what a [`Scope::Distributed`] one has read. Nothing is logged: see [`Worker::prepare`].
    ///
    /// # Errors
    /// See [`Refused`]; nothing is locked or guarded then.
    pub fn pre_commit(&mut self, txn: &mut Txn, scope: Scope) -> Result<Tid, Refused> {
        if txn.certified.is_none() {
            self.certify(txn, scope)?;
            for write in &txn.writes {
                row::tid(&self.store.arena, write.row).fetch_or(PREPARED, Ordering::Release);
            }
            self.hold(txn);
            // From here on its locks say so themselves, over however long the decision takes; nobody waits for it with memory, either,
            // or with what is to leave the index: what it has locked and guarded stays where it is.
            self.end_turns(txn);
            self.unpin(txn);
        }
        Ok(Tid(txn.certified.map_or(0, |certified| certified.tid)))
    }

    /// From here on what the transaction logs has a later epoch than its own, so that no epoch waits for a decision that is
    /// made elsewhere. Snapshots do wait.
    pub(crate) fn hold(&mut self, txn: &mut Txn) {
        if let Some(Certified { pin, .. }) = &mut txn.certified
            && let Pin::Committing(since) = *pin
        {
            *pin = Pin::Prepared(self.own.prepared.add_at(&self.store.epochs, self.number, since));
            self.own.committing.remove(&self.store.epochs, self.number, since);
        }
    }

    /// As [`Worker::pre_commit`], for a transaction that ends at once: those who meet its writes wait a moment for them.
    ///
    /// # Errors
    /// As [`Worker::pre_commit`].
    #[inline]
    pub fn certify(&mut self, txn: &mut Txn, scope: Scope) -> Result<(), Refused> {
        if txn.certified.is_some() {
            return Ok(());
        }
        if txn.writes.is_empty() {
            self.validate(txn, scope)?;
            // It comes after all it has read, and nothing comes after it.
            let last = txn.words_read().map(tid::of).max();
            txn.certified = Some(Certified { tid: last.unwrap_or(0), pin: Pin::Nothing, name: None });
            return Ok(());
        }
        self.may_log()?;
        let since = self.own.committing.add(&self.store.epochs, self.number);
        let certified = self.lock_all(txn).and_then(|()| {
            let tid = self.serialise(txn);
            let tid = tid
                .and_then(|tid| self.validate(txn, scope).and_then(|()| self.equip(txn, tid)).map(|()| tid));
            tid.inspect_err(|_| self.unlock(&txn.writes))
        });
        match certified {
            Ok(tid) => {
                self.own.last_tid = tid;
                txn.certified = Some(Certified { tid, pin: Pin::Committing(since), name: None });
                Ok(())
            }
            Err(refused) => {
                self.unguard(txn);
                self.own.committing.remove(&self.store.epochs, self.number, since);
                Err(refused)
            }
        }
    }

    /// Mostly nobody is in the way, and any order will do for whoever waits for nothing.
    fn lock_all(&self, txn: &mut Txn) -> Result<(), Refused> {
        if self.lock_in_turn(txn, |row| Ok(tid::try_lock(row::tid(&self.store.arena, row))))? {
            return Ok(());
        }
        txn.sort_writes();
        self.lock_in_turn(txn, |row| self.lock(row)).map(drop)
    }

    /// Locks one row after the other, each as it was when it was read; all or none. `false` if somebody is in the way.
    #[inline]
    fn lock_in_turn(
        &self,
        txn: &mut Txn,
        lock: impl Fn(Ref) -> Result<Lock, Refused>,
    ) -> Result<bool, Refused> {
        let (writes, heads) = (&mut txn.writes, &txn.heads);
        for i in 0..writes.len() {
            let write = &mut writes[i];
            let ended = match lock(write.row) {
                Ok(Lock::Taken(before))
                    if before == write.seen || self.store.planted.is(Bug::ReadsUnchecked) =>
                {
                    write.before = before;
                    continue;
                }
                Ok(Lock::Taken(before)) => {
                    row::tid(&self.store.arena, write.row).store(before, Ordering::Release);
                    Err(self.failed_at(heads, (write.table, write.row), CHANGED))
                }
                Ok(Lock::Dead) => Err(self.failed_at(heads, (write.table, write.row), CHANGED)),
                Ok(Lock::Busy(_)) => Ok(false),
                Err(refused) => Err(refused),
            };
            self.unlock(&writes[..i]);
            return ended;
        }
        Ok(true)
    }

    /// Waits for a lock that is held over one commit; the order of addresses keeps such waits from closing a cycle.
    fn lock(&self, row: Ref) -> Result<Lock, Refused> {
        let word = row::tid(&self.store.arena, row);
        let mut wait = Backoff::new();
        loop {
            match tid::try_lock(word) {
                Lock::Busy(now) => self.met_lock(row, now, &mut wait)?,
                taken => return Ok(taken),
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
        guard::settle();
        for write in &txn.writes {
            if guard::is_held(row::readers(&self.store.arena, write.row), guard::OF_ROW) {
                return Err(self.met_readers(write.row, Held::Readers));
            }
        }
        self.next_id(txn, tid::LAST_OF_ALL)
    }

    /// An id of the running epoch, later than what this worker has committed and than all that the transaction has read and
    /// replaces.
    ///
    /// # Errors
    /// [`Refused::EpochsUsedUp`], if the epoch is later than `last`.
    pub(crate) fn next_id(&self, txn: &Txn, last: u64) -> Result<u64, Refused> {
        let above = txn
            .words_read()
            .chain(txn.writes.iter().map(|write| write.before))
            .fold(self.own.last_tid, u64::max);
        loop {
            let now = self.store.epochs.now();
            if now > last {
                return Err(Refused::EpochsUsedUp);
            }
            if let Some(tid) = tid::next(now, above) {
                return Ok(tid);
            }
            // Nobody ticked for as many commits as an epoch has numbers.
            self.store.epochs.end(now);
        }
    }

    /// Whether everything that was read is as it was read and nobody else is about to change it; of a distributed transaction,
    /// it then stays so. The writes are locked.
    fn validate(&self, txn: &mut Txn, scope: Scope) -> Result<(), Refused> {
        if scope == Scope::Distributed {
            self.guard(txn);
        }
        self.validate_all(txn, scope).inspect_err(|_| self.unguard(txn))
    }

    fn validate_all(&self, txn: &Txn, scope: Scope) -> Result<(), Refused> {
        if !self.store.planted.is(Bug::ReadsUnchecked) {
            let checked = self.validate_reads(txn).and_then(|()| self.validate_absent(txn, scope));
            checked.map_err(|(at, refused)| self.failed_at(&txn.heads, at, refused))?;
        }
        if self.store.planted.is(Bug::LeavesUnchecked) {
            return Ok(());
        }
        // Silo takes any change of a leaf for a phantom; and of what is guarded none is allowed.
        let looks_again = self.store.contention == Contention::Queues && scope == Scope::Local;
        let is_as_seen = |looked: &Looked| {
            looked.seen.holds(&self.store.arena) || looks_again && self.finds_no_other(txn, looked)
        };
        match txn.leaves.iter().all(is_as_seen) {
            true => Ok(()),
            false => Err(Refused::Conflict(Cause::Phantom)),
        }
    }

    /// Whether no row lies in a range that the transaction did not find there: its leaf has changed, perhaps beside the range. As
    /// every look at a row, this is one from behind the serialisation point, at what was seen before; what has come and gone
    /// in between would still be there, as rows stay in the index while anybody runs who began before their deletion
    /// ([`Worker::collect`]).
    #[cold]
    fn finds_no_other(&self, txn: &Txn, looked: &Looked) -> bool {
        let Ok(index) = self.store.index(looked.table) else { return false };
        let range = txn.range_of(looked);
        let (mut chunk, mut from) = (Chunk::default(), range.low.map(<[u8]>::to_vec));
        loop {
            index.chunk(&self.store.arena, Seek::Up(from.as_deref()), range.high, &mut chunk);
            if !chunk.rows.iter().all(|row| txn.knows(looked, *row)) {
                return false;
            }
            match chunk.next.take() {
                None => return true,
                next => from = next,
            }
        }
    }

    /// Counts the transaction in wherever it has read without writing.
    #[cold]
    fn guard(&self, txn: &mut Txn) {
        if self.store.planted.is(Bug::Unguarded) {
            return;
        }
        let (mut rows, mut leaves) = std::mem::take(&mut txn.guarded);
        let absent = txn.absent.iter().map(|(_, row, _)| *row);
        let read = txn.reads.iter().map(|(row, _)| *row).chain(absent);
        rows.extend(read.filter(|row| txn.own(*row).is_none()));
        leaves.extend(txn.leaves.iter().map(|looked| looked.seen.leaf));
        for list in [&mut rows, &mut leaves] {
            list.sort_unstable_by_key(|at| at.0);
            list.dedup();
        }
        let arena = &self.store.arena;
        rows.iter().for_each(|row| guard::enter(row::readers(arena, *row), guard::OF_ROW));
        leaves.iter().for_each(|leaf| guard::enter(Node::at(arena, *leaf).readers(), guard::OF_LEAF));
        txn.guarded = (rows, leaves);
    }

    /// Ends what [`Worker::guard`] began, if it did.
    #[inline]
    pub(crate) fn unguard(&self, txn: &mut Txn) {
        let (rows, leaves) = &mut txn.guarded;
        let arena = &self.store.arena;
        rows.drain(..).for_each(|row| guard::leave(row::readers(arena, row), guard::OF_ROW));
        leaves.drain(..).for_each(|leaf| guard::leave(Node::at(arena, leaf).readers(), guard::OF_LEAF));
    }

    fn validate_reads(&self, txn: &Txn) -> Result<(), FailedAt> {
        for (&(row, word), &table) in txn.reads.iter().zip(&txn.tables) {
            let now = row::tid(&self.store.arena, row).load(Ordering::Acquire);
            if now != word {
                self.validate_another(txn, (table, row), word, now)?;
            }
        }
        Ok(())
    }

    /// Absent rows may have left the leaves in which they were seen; not those that are guarded, which stay.
    fn validate_absent(&self, txn: &Txn, scope: Scope) -> Result<(), FailedAt> {
        for &(table, row, word) in &txn.absent {
            let now = row::tid(&self.store.arena, row).load(Ordering::Acquire);
            let has_left = scope == Scope::Local && now == word | DEAD;
            if now != word && !has_left {
                self.validate_another(txn, (table, row), word, now)?;
            }
        }
        Ok(())
    }

    /// Whether a row whose word is another than when it was read is only locked, by the transaction itself.
    fn validate_another(&self, txn: &Txn, at: (TableId, Ref), word: u64, now: u64) -> Result<(), FailedAt> {
        if now & !(LOCKED | PREPARED) != word {
            return Err((at, CHANGED));
        }
        match txn.own(at.1) {
            Some(_) => Ok(()),
            None => Err((at, self.locked_by_another(at.1, now))),
        }
    }

    /// Waiting on the spot with locks held could close a cycle: only a prepared row is waited for, without them.
    fn locked_by_another(&self, row: Ref, word: u64) -> Refused {
        match self.store.conflict {
            Conflict::Wait if word & PREPARED != 0 => Refused::Busy(RowId(row, Held::Writer)),
            _ => Refused::Conflict(Cause::Locked),
        }
    }

    /// Takes the memory that the writes need, so that nothing can fail after validation.
    pub(crate) fn equip(&mut self, txn: &mut Txn, tid: u64) -> Result<(), Refused> {
        let store = Rc::clone(&self.store);
        let snapshot = store.snapshot.load(Ordering::Acquire);
        for i in 0..txn.writes.len() {
            let write = &txn.writes[i];
            let old = epoch(write.before);
            // A row that never was there is found absent without a version that says so.
            let is_wanted = !tid::was_only_entered(write.before) && old < epoch(tid) && old <= snapshot;
            let keep = if is_wanted { Keep::Older } else { Keep::Nothing };
            let len = match write.value {
                Value::Absent => 0,
                Value::New(value) => txn.values[value as usize].len(),
                Value::Placed => continue,
            };
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

    pub(crate) fn unequip(&mut self, writes: &mut [Write]) {
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
    #[inline]
    pub fn post_commit(&mut self, txn: Box<Txn>) -> Committed {
        self.finish(txn, |_, _| ())
    }

    /// As [`Worker::post_commit`], with a note that each opening hands out again until it is forgotten.
    ///
    /// # Panics
    /// If it has not been prepared.
    pub fn post_commit_with_note(&mut self, txn: Box<Txn>, note: &[u8]) -> (Committed, NoteId) {
        let mut id = None;
        let committed = self.finish(txn, |worker, epoch| id = Some(worker.log_note(epoch, note)));
        match id {
            Some(id) => (committed, id),
            None => {
                // It only read: the note is all there is to log.
                let (epoch, id) = self.note(note);
                (Committed { epoch, ..committed }, id)
            }
        }
    }

    /// Logs and writes; `more` logs what belongs to it, in an epoch that it is told.
    #[inline]
    fn finish(&mut self, mut txn: Box<Txn>, more: impl FnOnce(&mut Worker, u64)) -> Committed {
        let certified = txn.certified.take().expect("only what is prepared can be committed");
        let tid = certified.tid;
        let epoch = match certified.pin {
            Pin::Nothing => {
                self.end(txn);
                return Committed { tid: Tid(tid), epoch: self.seen(epoch(tid)) };
            }
            Pin::Committing(since) => {
                self.log_commit(&txn, tid, epoch(tid));
                more(self, epoch(tid));
                self.overwrite(&txn, tid, epoch(tid));
                self.own.committing.remove(&self.store.epochs, self.number, since);
                epoch(tid)
            }
            Pin::Prepared(since) => {
                let (pin, late) = self.enter_epoch();
                match certified.name {
                    Some(name) => self.log_decision(late, name, Verdict::Commit(tid)),
                    None => self.log_commit(&txn, tid, late),
                }
                more(self, late);
                self.be_late(late);
                self.overwrite(&txn, tid, late);
                self.decided(certified.name);
                self.own.committing.remove(&self.store.epochs, self.number, pin);
                self.own.prepared.remove(&self.store.epochs, self.number, since);
                late
            }
        };
        self.end(txn);
        Committed { tid: Tid(tid), epoch }
    }

    #[inline]
    fn overwrite(&mut self, txn: &Txn, tid: u64, logged: u64) {
        let store = Rc::clone(&self.store);
        for write in &txn.writes {
            let value = match write.value {
                Value::Absent => None,
                Value::New(value) => Some(&txn.values[value as usize][..]),
                Value::Placed => {
                    row::appear(&store.arena, write.row, tid);
                    continue;
                }
            };
            let word = tid | if value.is_none() { ABSENT } else { 0 };
            let (local, epochs, Write { row, touched, prepared, .. }) =
                (&mut self.own.local, &store.epochs, *write);
            let older = row::overwrite(&store.arena, local, epochs, row, value, touched, prepared, word);
            if older != Ref::NONE {
                self.own.garbage.push_back((logged, Garbage::Version(older)));
            }
            if value.is_none() {
                self.own.garbage.push_back((logged, Garbage::Row(write.table, write.row, word)));
            }
        }
    }

    /// Ends a transaction without effect, prepared or not.
    pub fn abort(&mut self, mut txn: Box<Txn>) {
        if let Some(certified) = txn.certified.take() {
            self.unequip(&mut txn.writes);
            if let Some(name) = certified.name {
                let (pin, now) = self.enter_epoch();
                self.log_decision(now, name, Verdict::Abort);
                self.decided(certified.name);
                self.own.committing.remove(&self.store.epochs, self.number, pin);
            }
            self.unlock(&txn.writes);
            match certified.pin {
                Pin::Nothing => {}
                Pin::Committing(since) => {
                    self.own.committing.remove(&self.store.epochs, self.number, since);
                }
                Pin::Prepared(since) => {
                    self.own.prepared.remove(&self.store.epochs, self.number, since);
                }
            }
        }
        // Absent rows that it entered; another transaction may meanwhile have made them be there, or be about to.
        let entered = txn.entered.drain(..);
        self.own.garbage.extend(entered.map(|(table, row, word)| (0, Garbage::Row(table, row, word))));
        self.end(txn);
    }
}
