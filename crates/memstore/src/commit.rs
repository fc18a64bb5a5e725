//! Commit in three phases (Silo, section 4.4). Two-phase commit calls the first two on their own:
//!
//! ```text
//!   pre-commit   1. lock the rows to be written, each as it was when it was read; a transaction
//!                   that meets a lock releases all of its own, sorts the rows by address, and
//!                   locks them in that order, waiting for each
//!                -- the serialisation point: the epoch is read here, after the last lock and
//!                   before the first check --
//!                2. check that every row read has the word it was read under and is not locked by
//!                   another transaction, and that every leaf seen is unchanged, or else has no
//!                   other rows in the range that was looked at
//!   post-commit  3. write, and unlock each row with the new id
//! ```
//! The epoch is read there because the order of epochs has to agree with the serial order: if T1
//! comes before T2, its epoch is not a later one.
//!
//! - T2 read or replaced a version that T1 wrote. T1 read its epoch before it wrote the version. So
//!   an epoch that T2 reads after its operations is not earlier. One from before them could be, and
//!   a log cut between the two epochs would keep T2 without T1. (Ids guard the same order: an id
//!   lies above the ids of these versions, so T2 would find none in an earlier epoch.)
//! - T2 replaced a version that T1 read. T1 found the row unlocked when it checked it, so T2 locked
//!   it after that. T1 read its epoch before the check and T2 after the lock, so T2's is not
//!   earlier. No id guards this order: T2 need not have read anything of T1. If T2 read the epoch
//!   before its locks, or T1 after its checks, the epoch could end in between. Then T2 would belong
//!   to epoch e and T1 to e+1, and a snapshot at the end of e would show T2's writes and not T1's.
//!
//! A commit writes no memory that other workers write, except the rows that the transaction writes
//! and the queues of hot rows: a worker's log buffer and its words for epochs are its own. The
//! commit of a transaction that only read writes nothing. A distributed transaction, in addition,
//! counts itself at the rows and leaves that it has read ([`read_reservation`]).

use crate::arena::Ref;
use crate::index::{Chunk, Seek};
use crate::left::Garbage;
use crate::log::TxnVerdict;
use crate::node::Node;
use crate::read_reservation;
use crate::row::{self, Keep};
use crate::seams::Step;
use crate::store::{Cause, Conflict, Contention, Held, Refused, RowId};
use crate::tid::{self, ABSENT, DEAD, LOCKED, Lock, PREPARED, epoch};
use crate::transaction::{NodeSetEntry, Pin, Txn, Validated, Value, Write};
use crate::worker::{CHANGED, Worker};
use base::TableId;
use latch::Backoff;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// A committed transaction's place in the serial order. Ids of one epoch come before those of later
/// epochs, and the ids that one row is written with grow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tid(pub u64);

/// Why a transaction has not committed, and the transaction itself if the call can be repeated.
pub type Refusal = (Refused, Option<Box<Txn>>);

/// The row at which validation failed, and the reason.
type FailedAt = ((TableId, Ref), Refused);

/// A transaction that has committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Committed {
    pub tid: Tid,
    /// No result may be reported before this epoch is durable ([`crate::Memstore::poll_durable`]).
    /// Then the transaction survives a crash, and so does everything that it has read.
    pub epoch: u64,
}

impl Tid {
    pub fn epoch(self) -> u64 {
        epoch(self.0)
    }
}

/// A note that has not been forgotten.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NoteId(pub u64);

/// Whether a transaction also reads or writes in other stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// It does not. Or it only reads, and had read everything in all stores before the first
    /// pre-commit.
    Local,
    /// It does, and each store is asked at another moment. Everything that it has read here stays
    /// as it is until it ends, also when it writes nothing here.
    Distributed,
}

impl Worker {
    /// Commits. The transaction is over, unless the answer is [`Refused::Busy`]: then it comes back
    /// to be tried again.
    ///
    /// # Errors
    /// See [`Refused`]; nothing was written.
    #[inline]
    pub fn commit(&mut self, mut txn: Box<Txn>) -> Result<Committed, Refusal> {
        match self.validate(&mut txn, Scope::Local) {
            Ok(()) => Ok(self.post_commit(txn)),
            Err(refused) => Err(self.refuse(refused, txn)),
        }
    }

    /// As [`Worker::commit`], with a note. Every opening of the store returns the note until
    /// [`Worker::forget`] is called for it.
    ///
    /// # Errors
    /// As [`Worker::commit`].
    pub fn commit_with_note(
        &mut self,
        mut txn: Box<Txn>,
        note: &[u8],
    ) -> Result<(Committed, NoteId), Refusal> {
        match self.validate(&mut txn, Scope::Local) {
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

    /// Locks and validates. From here on the transaction can go either way, by
    /// [`Worker::post_commit`] or [`Worker::abort`]. Until then, transactions that meet its writes
    /// abort or wait, as the store's options say. So do transactions that would write a row that a
    /// [`Scope::Distributed`] one has read. Nothing is logged: see [`Worker::prepare`].
    ///
    /// # Errors
    /// See [`Refused`]; nothing is locked or reserved then.
    pub fn pre_commit(&mut self, txn: &mut Txn, scope: Scope) -> Result<Tid, Refused> {
        if txn.validated.is_none() {
            self.validate(txn, scope)?;
            for write in &txn.writes {
                row::tid(&self.store.arena, write.row).fetch_or(PREPARED, Ordering::Release);
            }
            self.hold(txn);
            // The prepared locks tell other transactions to wait, however long the decision takes.
            // So the turns in queues of hot rows end here. The read pin ends too: the rows and
            // leaves that are locked or reserved stay where they are. So this transaction does not
            // hold back the reuse of memory, nor the removal of absent rows from the index.
            self.end_turns(txn);
            self.unpin(txn);
        }
        Ok(Tid(txn.validated.map_or(0, |validated| validated.tid)))
    }

    /// From here on the transaction logs in a later epoch than its own, so that no epoch waits for
    /// a decision that is made elsewhere. Snapshots do wait for it.
    pub(crate) fn hold(&mut self, txn: &mut Txn) {
        if let Some(Validated { pin, .. }) = &mut txn.validated
            && let Pin::Committing(since) = *pin
        {
            *pin = Pin::Prepared(self.own.prepared.add_at(&self.store.epochs, self.number, since));
            self.own.committing.remove(&self.store.epochs, self.number, since);
        }
    }

    /// As [`Worker::pre_commit`], for a transaction that ends at once: other transactions that meet
    /// its writes wait for them on the spot.
    ///
    /// # Errors
    /// As [`Worker::pre_commit`].
    #[inline]
    pub fn validate(&mut self, txn: &mut Txn, scope: Scope) -> Result<(), Refused> {
        if txn.validated.is_none() && !txn.writes.is_empty() {
            self.may_log()?;
        }
        self.confirm(txn, scope)
    }

    /// As [`Worker::validate`], for a transaction that may be about to end without effect: it
    /// succeeds also if the log has failed or has no room.
    ///
    /// # Errors
    /// As [`Worker::validate`].
    #[inline]
    pub fn confirm(&mut self, txn: &mut Txn, scope: Scope) -> Result<(), Refused> {
        if txn.validated.is_some() {
            return Ok(());
        }
        if txn.writes.is_empty() {
            self.validate_reads_and_nodes(txn, scope)?;
            // A read-only transaction comes after everything that it has read, and none depends on
            // it.
            let last = txn.words_read().map(tid::of).max();
            txn.validated = Some(Validated { tid: last.unwrap_or(0), pin: Pin::Nothing, name: None });
            return Ok(());
        }
        let since = self.own.committing.add(&self.store.epochs, self.number);
        let validated = self.lock_all(txn).and_then(|()| {
            let tid = self.serialise(txn);
            let tid = tid.and_then(|tid| {
                self.validate_reads_and_nodes(txn, scope)
                    .and_then(|()| self.reserve_versions(txn, tid))
                    .map(|()| tid)
            });
            tid.inspect_err(|_| self.unlock(&txn.writes))
        });
        match validated {
            Ok(tid) => {
                self.own.last_tid = tid;
                txn.validated = Some(Validated { tid, pin: Pin::Committing(since), name: None });
                Ok(())
            }
            Err(refused) => {
                self.unreserve_reads(txn);
                self.own.committing.remove(&self.store.epochs, self.number, since);
                Err(refused)
            }
        }
    }

    /// Locks all rows to be written. Mostly no lock is taken, and as long as the transaction does
    /// not wait, it may lock in any order. Once it meets a lock, it starts again in the order of
    /// addresses.
    fn lock_all(&self, txn: &mut Txn) -> Result<(), Refused> {
        if self.lock_in_turn(txn, |row| Ok(tid::try_lock(row::tid(&self.store.arena, row))))? {
            return Ok(());
        }
        txn.sort_writes();
        self.lock_in_turn(txn, |row| self.lock(row)).map(drop)
    }

    /// Locks one row after the other, each as it was when it was read; all or none. `false` if
    /// another transaction holds a lock.
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
                    if self.store.seams.run(Step::CheckReads, || before == write.seen) =>
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

    /// Waits for a lock that is held for the duration of one commit. All waiting transactions lock
    /// in the order of addresses, so such waits close no cycle.
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
        read_reservation::settle();
        for write in &txn.writes {
            if read_reservation::is_held(row::readers(&self.store.arena, write.row), read_reservation::OF_ROW)
            {
                return Err(self.met_readers(write.row, Held::Readers));
            }
        }
        self.next_id(txn, tid::LAST_OF_ALL)
    }

    /// An id of the running epoch, later than the ids that this worker has committed and than those
    /// of all versions that the transaction has read or replaces.
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
            // The epoch has no numbers left and has not been ended: end it here.
            self.store.epochs.end(now);
        }
    }

    /// Checks that everything that was read is as it was read and that no other transaction is
    /// about to change it. For a distributed transaction it then stays so. The writes are locked.
    fn validate_reads_and_nodes(&self, txn: &mut Txn, scope: Scope) -> Result<(), Refused> {
        if scope == Scope::Distributed {
            self.store.seams.run(Step::ReserveReads, || self.reserve_reads(txn));
        }
        self.check_reads_and_nodes(txn, scope).inspect_err(|_| self.unreserve_reads(txn))
    }

    fn check_reads_and_nodes(&self, txn: &Txn, scope: Scope) -> Result<(), Refused> {
        let rows = || self.validate_reads(txn).and_then(|()| self.validate_absent(txn, scope));
        let checked = self.store.seams.run(Step::CheckReads, rows);
        checked.map_err(|(at, refused)| self.failed_at(&txn.heads, at, refused))?;
        // Silo takes any change of a leaf for a phantom. So does a distributed transaction: a
        // reserved leaf must not change at all.
        let looks_again = self.store.contention == Contention::Queues && scope == Scope::Local;
        let is_as_seen = |node: &NodeSetEntry| {
            node.seen.holds(&self.store.arena) || looks_again && self.finds_no_other(txn, node)
        };
        let leaves = || txn.node_set.iter().all(is_as_seen);
        match self.store.seams.run(Step::CheckLeaves, leaves) {
            true => Ok(()),
            false => Err(Refused::Conflict(Cause::Phantom)),
        }
    }

    /// Whether a range holds only rows that the transaction knows, although the leaf that it was in
    /// has changed. The change may lie beside the range.
    ///
    /// Like every look at a row, this one comes after the serialisation point. A row that came and
    /// went since the transaction looked is still found here: rows stay in the index as long as a
    /// transaction runs that began before their deletion ([`Worker::collect`]).
    #[cold]
    fn finds_no_other(&self, txn: &Txn, node: &NodeSetEntry) -> bool {
        let Ok(index) = self.store.index(node.table) else { return false };
        let range = txn.range_of(node);
        let (mut chunk, mut from) = (Chunk::default(), range.low.map(<[u8]>::to_vec));
        loop {
            index.chunk(&self.store.arena, Seek::Up(from.as_deref()), range.high, &mut chunk);
            if !chunk.rows.iter().all(|row| txn.knows(node, *row)) {
                return false;
            }
            match chunk.next.take() {
                None => return true,
                next => from = next,
            }
        }
    }

    /// Adds a read reservation on every row and leaf that the transaction has read without writing.
    #[cold]
    fn reserve_reads(&self, txn: &mut Txn) {
        let (mut rows, mut leaves) = std::mem::take(&mut txn.reserved);
        let absent = txn.absent.iter().map(|(_, row, _)| *row);
        let read = txn.reads.iter().map(|(row, _)| *row).chain(absent);
        rows.extend(read.filter(|row| txn.own(*row).is_none()));
        leaves.extend(txn.node_set.iter().map(|node| node.seen.leaf));
        for list in [&mut rows, &mut leaves] {
            list.sort_unstable_by_key(|at| at.0);
            list.dedup();
        }
        let arena = &self.store.arena;
        rows.iter()
            .for_each(|row| read_reservation::enter(row::readers(arena, *row), read_reservation::OF_ROW));
        leaves.iter().for_each(|leaf| {
            read_reservation::enter(Node::at(arena, *leaf).readers(), read_reservation::OF_LEAF)
        });
        txn.reserved = (rows, leaves);
    }

    /// Ends the reservations of [`Worker::reserve_reads`], if there are any.
    #[inline]
    pub(crate) fn unreserve_reads(&self, txn: &mut Txn) {
        let (rows, leaves) = &mut txn.reserved;
        let arena = &self.store.arena;
        rows.drain(..)
            .for_each(|row| read_reservation::leave(row::readers(arena, row), read_reservation::OF_ROW));
        leaves.drain(..).for_each(|leaf| {
            read_reservation::leave(Node::at(arena, leaf).readers(), read_reservation::OF_LEAF)
        });
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

    /// Absent rows may have left the leaves in which they were seen, but not reserved ones.
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

    /// Checks a row that has another word than when it was read: that is fine if the transaction
    /// itself has locked it and nothing else has changed.
    fn validate_another(&self, txn: &Txn, at: (TableId, Ref), word: u64, now: u64) -> Result<(), FailedAt> {
        if now & !(LOCKED | PREPARED) != word {
            return Err((at, CHANGED));
        }
        match txn.own(at.1) {
            Some(_) => Ok(()),
            None => Err((at, self.locked_by_another(at.1, now))),
        }
    }

    /// Waiting on the spot with locks held could close a cycle. So only a prepared row is waited
    /// for, by the caller, after the locks are released.
    fn locked_by_another(&self, row: Ref, word: u64) -> Refused {
        match self.store.conflict {
            Conflict::Wait if word & PREPARED != 0 => Refused::Busy(RowId(row, Held::Writer)),
            _ => Refused::Conflict(Cause::Locked),
        }
    }

    /// Allocates the memory that the writes need, so that no step after validation can fail.
    pub(crate) fn reserve_versions(&mut self, txn: &mut Txn, tid: u64) -> Result<(), Refused> {
        let store = Rc::clone(&self.store);
        let snapshot = store.snapshot.load(Ordering::Acquire);
        for i in 0..txn.writes.len() {
            let write = &txn.writes[i];
            let old = epoch(write.before);
            // A row that was never committed needs no version: a snapshot without one finds it
            // absent.
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

    /// Carries out the writes of a transaction that has passed [`Worker::pre_commit`]. It is over.
    ///
    /// # Panics
    /// If it has not been prepared.
    #[inline]
    pub fn post_commit(&mut self, txn: Box<Txn>) -> Committed {
        self.finish(txn, |_, _| ())
    }

    /// As [`Worker::post_commit`], with a note that every opening returns until it is forgotten.
    ///
    /// # Panics
    /// If it has not been prepared.
    pub fn post_commit_with_note(&mut self, txn: Box<Txn>, note: &[u8]) -> (Committed, NoteId) {
        let mut id = None;
        let committed = self.finish(txn, |worker, epoch| id = Some(worker.log_note(epoch, note)));
        match id {
            Some(id) => (committed, id),
            None => {
                // The transaction only read: the note is the only record.
                let (epoch, id) = self.note(note);
                (Committed { epoch, ..committed }, id)
            }
        }
    }

    /// Logs and writes. `more` logs further records of the transaction, in the epoch that it is
    /// given.
    #[inline]
    fn finish(&mut self, mut txn: Box<Txn>, more: impl FnOnce(&mut Worker, u64)) -> Committed {
        let validated = txn.validated.take().expect("only what is prepared can be committed");
        let tid = validated.tid;
        let epoch = match validated.pin {
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
                match validated.name {
                    Some(name) => self.log_decision(late, name, TxnVerdict::Commit(tid)),
                    None => self.log_commit(&txn, tid, late),
                }
                more(self, late);
                self.be_late(late);
                self.overwrite(&txn, tid, late);
                self.decided(validated.name);
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
        if let Some(validated) = txn.validated.take() {
            self.unequip(&mut txn.writes);
            if let Some(name) = validated.name {
                let (pin, now) = self.enter_epoch();
                self.log_decision(now, name, TxnVerdict::Abort);
                self.decided(validated.name);
                self.own.committing.remove(&self.store.epochs, self.number, pin);
            }
            self.unlock(&txn.writes);
            match validated.pin {
                Pin::Nothing => {}
                Pin::Committing(since) => {
                    self.own.committing.remove(&self.store.epochs, self.number, since);
                }
                Pin::Prepared(since) => {
                    self.own.prepared.remove(&self.store.epochs, self.number, since);
                }
            }
        }
        // Absent rows that it entered. Another transaction may have made one present meanwhile, or
        // be about to: `unlink` checks the word.
        let entered = txn.entered.drain(..);
        self.own.garbage.extend(entered.map(|(table, row, word)| (0, Garbage::Row(table, row, word))));
        self.end(txn);
    }
}
