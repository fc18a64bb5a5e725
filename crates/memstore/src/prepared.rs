//! The records that transactions write to the log, among them those for a decision that a crash may
//! delay: prepared transactions, notes, decisions.
//!
//! ```text
//!   home:         pre_commit ... votes ... post_commit_with_note --durable--> reply, decisions
//!                                                                --all acknowledged--> forget
//!   participant:  prepare --durable--> vote ... post_commit or abort --durable--> acknowledge
//!   after a crash: InDoubt --adopt--> the same choice
//! ```
//! A worker reads the epoch of a record while it has published that it commits, and the log waits
//! for such workers before it completes an epoch. A prepared transaction publishes this for its
//! prepare record, and again for its decision. In between, no epoch waits for it.
//!
//! The rows of a prepared transaction get the id from its validation, since snapshots need that.
//! Its decision is logged in a later epoch, and a transaction that reads those rows depends on that
//! epoch. A transaction that writes has a late enough epoch by itself, since it reads its epoch
//! afterwards. A read-only one takes the latest such epoch of the whole store (`Log::late`).

use crate::arena::{Arena, Ref};
use crate::commit::{NoteId, Scope};
use crate::log::{Open, TxnVerdict, Undecided};
use crate::log::{Read, put_guards, put_read};
use crate::log::{put_change, put_decision, put_forget, put_named_note, put_placed, put_write};
use crate::row;
use crate::seams::Step;
use crate::store::Refused;
use crate::tid::{ABSENT, LAST_EPOCH, of};
use crate::transaction::{Pin, Txn, Validated, Value, Write};
use crate::worker::Worker;
use probe::Component;
use std::sync::atomic::{Ordering, fence};

/// An in-doubt transaction: one that was prepared before the store was opened, and not decided. Its
/// rows are locked until a worker has adopted it ([`Worker::adopt`]) and decided. If it is dropped,
/// it stays in doubt until the next opening.
pub struct InDoubt {
    /// As given to [`Worker::prepare`].
    pub note: Vec<u8>,
    pub(crate) txn: Box<Txn>,
    pub(crate) name: u64,
}

/// When a record has more bytes than this, the writes continue in another record.
const RECORD_BYTES: usize = if cfg!(test) { 1 << 10 } else { 64 << 20 };

impl Worker {
    /// Checks that a transaction with writes may commit now. Waits while the log does not write
    /// this worker's records as fast as the worker makes them.
    ///
    /// # Errors
    /// [`Refused::LogFailed`], [`Refused::NoRoom`].
    #[inline]
    pub(crate) fn may_log(&mut self) -> Result<(), Refused> {
        let Some(log) = &self.store.log else { return Ok(()) };
        if self.own.unwritten >= log.allowance(self.number) {
            self.own.unwritten = log.wait_for_room(self.number).ok_or(Refused::NoRoom)?;
        }
        if log.is_broken() { Err(Refused::LogFailed) } else { Ok(()) }
    }

    /// Publishes that this worker commits. Returns the pin, and the epoch for the records that the
    /// worker logs until it removes the pin.
    pub(crate) fn enter_epoch(&mut self) -> (u64, u64) {
        let pin = self.own.committing.add(&self.store.epochs, self.number);
        fence(Ordering::SeqCst);
        (pin, self.store.epochs.now())
    }

    fn log(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(log) = &self.store.log {
            self.own.unwritten = probe::within(Component::Logging, || log.append(self.number, write));
        }
    }

    #[inline]
    pub(crate) fn log_commit(&mut self, txn: &Txn, tid: u64, epoch: u64) {
        let Some(log) = &self.store.log else { return };
        let is_late = epoch != crate::tid::epoch(tid);
        let begin = |out: &mut Vec<u8>| match is_late {
            false => Open::commit(out, tid),
            true => Open::late_commit(out, epoch, tid),
        };
        let arena = &self.store.arena;
        let put = || {
            log.append(self.number, |out| {
                put_writes(out, &txn.writes, begin, |write, out| put_change_of(arena, txn, write, out))
            })
        };
        let unwritten = &mut self.own.unwritten;
        self.store.seams.run(Step::LogCommit, || *unwritten = probe::within(Component::Logging, put));
    }

    pub(crate) fn log_decision(&mut self, epoch: u64, name: u64, verdict: TxnVerdict) {
        self.log(|out| put_decision(out, epoch, name, verdict));
    }

    /// Removes an undecided transaction from the list: its writes have been carried out, or never
    /// will be.
    pub(crate) fn decided(&self, name: Option<u64>) {
        if let (Some(log), Some(name)) = (&self.store.log, name) {
            log.shared.named.lock().undecided.remove(&name);
        }
    }

    pub(crate) fn be_late(&self, epoch: u64) {
        if let Some(log) = &self.store.log {
            log.is_late(epoch);
        }
    }

    /// The commit dependency of a transaction that has read nothing later than `epoch`: the epoch,
    /// or a later one in which a decision was logged.
    #[inline]
    pub(crate) fn seen(&self, epoch: u64) -> u64 {
        self.store.log.as_ref().map_or(epoch, |log| epoch.max(log.late()))
    }

    /// The transaction's commit dependency: the epoch that has to be durable before any of its
    /// results is reported.
    pub fn depends_on(&self, txn: &Txn) -> u64 {
        let seen = txn.words_read().chain(txn.writes.iter().map(|write| write.seen));
        self.seen(seen.map(|word| crate::tid::epoch(crate::tid::of(word))).max().unwrap_or(0))
    }

    fn name(&self) -> u64 {
        let Some(log) = &self.store.log else { return 0 };
        let mut named = log.shared.named.lock();
        named.next += 1;
        named.next
    }

    pub(crate) fn log_note(&mut self, epoch: u64, note: &[u8]) -> NoteId {
        let name = self.name();
        self.log(|out| put_named_note(out, epoch, name, note));
        if let Some(log) = &self.store.log {
            log.shared.named.lock().notes.insert(name, note.to_vec());
        }
        NoteId(name)
    }

    /// Logs a note that belongs to no transaction. It is safe once the returned epoch is durable.
    pub fn note(&mut self, note: &[u8]) -> (u64, NoteId) {
        let (pin, now) = self.enter_epoch();
        let id = self.log_note(now, note);
        self.own.committing.remove(&self.store.epochs, self.number, pin);
        (now, id)
    }

    /// Ends a note. There is no need to wait for the record: after a crash the note may be returned
    /// once more.
    pub fn forget(&mut self, note: NoteId) {
        let (pin, now) = self.enter_epoch();
        self.log(|out| put_forget(out, now, note.0));
        if let Some(log) = &self.store.log {
            log.shared.named.lock().notes.remove(&note.0);
        }
        self.own.committing.remove(&self.store.epochs, self.number, pin);
    }

    /// As [`Worker::pre_commit`], if that has not been done. In addition, the next opening after a
    /// crash returns the transaction, with `note`. The vote may be sent once the returned epoch is
    /// durable. A transaction that wrote nothing logs nothing, and the epoch is that of its latest
    /// read.
    ///
    /// # Errors
    /// See [`Refused`]; nothing is locked then, unless it was before.
    pub fn prepare(&mut self, txn: &mut Txn, note: &[u8]) -> Result<u64, Refused> {
        let tid = self.pre_commit(txn, Scope::Distributed)?.0;
        let validated = txn.validated.as_ref();
        if validated.is_none_or(|validated| matches!(validated.pin, Pin::Nothing)) {
            return Ok(self.seen(crate::tid::epoch(tid)));
        }
        let name = self.name();
        let (pin, now) = self.enter_epoch();
        if let Some(log) = &self.store.log {
            let arena = &self.store.arena;
            let begin = |out: &mut Vec<u8>| Open::prepare(out, now, name, tid, note);
            let reads = self.reads(txn);
            let put = |out: &mut Vec<u8>| {
                if !reads.is_empty() {
                    put_guards(out, now, name, &reads);
                }
                put_writes(out, &txn.writes, begin, |write, out| put_one(arena, txn, write, out));
            };
            let unwritten = probe::within(Component::Logging, || log.append(self.number, put));
            self.own.unwritten = unwritten;
            let mut writes = Vec::new();
            txn.writes.iter().for_each(|write| put_one(arena, txn, write, &mut writes));
            let undecided = Undecided { tid, note: note.to_vec(), writes, reads };
            log.shared.named.lock().undecided.insert(name, undecided);
            if let Some(validated) = &mut txn.validated {
                validated.name = Some(name);
            }
        }
        self.own.committing.remove(&self.store.epochs, self.number, pin);
        Ok(now)
    }

    /// The reads that a prepared transaction has reserved, in the log's format.
    fn reads(&self, txn: &mut Txn) -> Vec<u8> {
        let (rows, leaves) = &txn.reserved;
        let mut reads = if leaves.is_empty() { Vec::new() } else { std::mem::take(&mut txn.ranges) };
        let (arena, mut key) = (&self.store.arena, Vec::new());
        let is_guarded = |row: &Ref| rows.binary_search_by_key(&row.0, |row| row.0).is_ok();
        let read = txn.reads.iter().map(|(row, _)| *row).zip(txn.tables.iter().copied());
        let absent = txn.absent.iter().map(|(table, row, _)| (*row, *table));
        for (row, table) in read.chain(absent).filter(|(row, _)| is_guarded(row)) {
            key.clear();
            row::key(arena, row, &mut key);
            put_read(&mut reads, table.0, Read::Key(&key));
        }
        reads
    }

    /// Releases the read reservations: the transaction holds all its locks in all stores, so the
    /// rows that it has read here may change. Called between [`Worker::pre_commit`] and
    /// [`Worker::prepare`], or not at all.
    pub fn release_reads(&mut self, txn: &mut Txn) {
        self.unreserve_reads(txn);
    }

    /// Takes over an in-doubt transaction. It is prepared again, as of now, and ends by
    /// [`Worker::post_commit`] or [`Worker::abort`].
    ///
    /// # Errors
    /// [`Refused::Full`], if a snapshot was opened before: the transaction stays in doubt, its rows
    /// locked; try again when there is memory. [`Refused::EpochsUsedUp`].
    pub fn adopt(&mut self, mut doubt: InDoubt) -> Result<Box<Txn>, (Refused, InDoubt)> {
        let (pin, _) = self.enter_epoch();
        // Its rows were locked before any transaction could read them, so there are no prepared
        // readers to give way to.
        let reserved = self.next_id(&doubt.txn, LAST_EPOCH).and_then(|tid| {
            if self.store.snapshot.load(Ordering::Acquire) != 0 {
                // The snapshot may need the versions that are overwritten.
                self.unequip(&mut doubt.txn.writes);
                self.reserve_versions(&mut doubt.txn, tid)?;
            }
            Ok(tid)
        });
        match reserved {
            Ok(tid) => {
                self.own.last_tid = tid;
                doubt.txn.validated =
                    Some(Validated { tid, pin: Pin::Committing(pin), name: Some(doubt.name) });
                self.hold(&mut doubt.txn);
                Ok(doubt.txn)
            }
            Err(refused) => {
                self.own.committing.remove(&self.store.epochs, self.number, pin);
                Err((refused, doubt))
            }
        }
    }
}

/// Puts the writes into a record, or into several if they are too many for one.
#[inline]
fn put_writes(
    out: &mut Vec<u8>,
    writes: &[Write],
    begin: impl Fn(&mut Vec<u8>) -> Open,
    put: impl Fn(&Write, &mut Vec<u8>),
) {
    let (mut open, mut at) = (begin(out), out.len());
    for write in writes {
        if out.len() - at > RECORD_BYTES {
            open.end(out);
            (open, at) = (begin(out), out.len());
        }
        put(write, out);
    }
    open.end(out);
}

/// Puts the whole new value of a row.
#[inline]
fn put_one(arena: &Arena, txn: &Txn, write: &Write, out: &mut Vec<u8>) {
    let key = |out: &mut Vec<u8>| row::key(arena, write.row, out);
    match write.value {
        Value::Absent => put_write(out, write.table.0, None, key),
        Value::New(value) => put_write(out, write.table.0, Some(&txn.values[value as usize]), key),
        Value::Placed => put_placed(out, write.table.0, key, |out| row::placed(arena, write.row, out)),
    }
}

/// As [`put_one`], for a locked row that still has its old value: puts only the bytes that change,
/// if those are fewer.
#[inline]
fn put_change_of(arena: &Arena, txn: &Txn, write: &Write, out: &mut Vec<u8>) {
    let value = match write.value {
        Value::New(value) if write.before & ABSENT == 0 => &txn.values[value as usize][..],
        _ => return put_one(arena, txn, write, out),
    };
    let change = put_change(out, write.table.0, of(write.before), |out| row::key(arena, write.row, out));
    let is_one =
        row::differences(arena, write.row, value, write.touched, |at, bytes| change.run(out, at, bytes));
    match is_one && change.bytes(out) < value.len() {
        true => change.end(out),
        false => {
            change.undo(out);
            put_one(arena, txn, write, out);
        }
    }
}
