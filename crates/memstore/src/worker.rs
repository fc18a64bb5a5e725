//! A worker: begins transactions and carries out their operations. `garbage` removes the garbage
//! that transactions leave behind.
//!
//! An operation notes the versions it saw and changes nothing that other transactions see, with one
//! exception: an insert enters its row into the index, marked absent.

use crate::arena::Ref;
use crate::hints::Hash;
use crate::hot::AccessKind;
use crate::index::{Chunk, Insertion, Spot};
use crate::left::Left;
use crate::log::{Read, put_read};
use crate::row::{self, MAX_KEY, MAX_ROW, Touched};
use crate::store::{Cause, Conflict, Held, Memstore, OpenError, Refused, RowId};
use crate::tid::{self, ABSENT, DEAD, PREPARED};
use crate::transaction::{Txn, Value};
use base::TableId;
use latch::Backoff;
use std::rc::Rc;
use std::sync::Arc;
use txn::{Direction, Flow, Inserted, Range};

/// One thread's access to the store. It may have any number of open transactions at a time. All of
/// them have ended when it is dropped.
pub struct Worker {
    /// An `Rc` with a reference count of its own: cloning the `Arc` would be a write to a count
    /// that all workers share, once per operation.
    #[expect(clippy::redundant_allocation, reason = "a count of its own is the point")]
    pub(crate) store: Rc<Arc<Memstore>>,
    pub(crate) number: usize,
    pub(crate) own: Left,
    #[expect(clippy::vec_box, reason = "they are handed out and come back boxed")]
    pool: Vec<Box<Txn>>,
    pub(crate) buffer: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) chunk: Chunk,
}

impl Memstore {
    /// The worker with this number. There is one at a time, and it stays on the thread that asked.
    ///
    /// # Errors
    /// [`OpenError::Worker`] when there is no such worker, or when it is in use.
    pub fn worker(self: &Arc<Memstore>, worker: usize) -> Result<Worker, OpenError> {
        let error = || OpenError::Worker { worker, workers: self.workers };
        if worker >= self.workers {
            return Err(error());
        }
        self.worker_of_any(worker).ok_or_else(error)
    }

    /// A worker for the store's own use.
    pub(crate) fn helper(self: &Arc<Memstore>, helper: usize) -> Option<Worker> {
        self.worker_of_any(self.workers + helper)
    }

    fn worker_of_any(self: &Arc<Memstore>, worker: usize) -> Option<Worker> {
        Some(Worker::new(Arc::clone(self), worker, self.take_left(worker)?))
    }
}

/// Garbage is collected once there is this much of it. From then on, the end of each transaction
/// looks at this many pieces, plus twice the number that the transaction has added. It stops when
/// the rest has to wait for another epoch. So a store with as many inserts as deletes keeps its
/// size. When a long reader ends, the backlog that it has caused is removed in steps.
const GARBAGE_STEP: usize = 64;

/// A row has appeared or disappeared since the transaction saw it.
pub(crate) const CHANGED: Refused = Refused::Conflict(Cause::Changed);

impl Worker {
    pub(crate) fn new(store: Arc<Memstore>, number: usize, own: Left) -> Worker {
        let (buffer, key) = (Vec::new(), Vec::new());
        Worker { store: Rc::new(store), number, own, pool: Vec::new(), buffer, key, chunk: Chunk::default() }
    }

    pub fn store(&self) -> &Arc<Memstore> {
        self.store.as_ref()
    }

    /// Begins a transaction. It has to end here, by [`Worker::commit`], [`Worker::post_commit`] or
    /// [`Worker::abort`]: memory that it might still look at is not reused before.
    #[inline]
    pub fn begin(&mut self) -> Box<Txn> {
        let mut txn = self.pool.pop().unwrap_or_default();
        txn.since = Some(self.own.reading.add(&self.store.epochs, self.number));
        txn
    }

    /// Ends the read pin. From here on the transaction looks only at rows that it has locked, and
    /// those stay where they are.
    #[inline]
    pub(crate) fn unpin(&mut self, txn: &mut Txn) {
        if let Some(since) = txn.since.take() {
            self.own.reading.remove(&self.store.epochs, self.number, since);
        }
    }

    pub(crate) fn end(&mut self, mut txn: Box<Txn>) {
        self.unreserve_reads(&mut txn);
        self.end_turns(&mut txn);
        self.unpin(&mut txn);
        txn.clear();
        self.pool.push(txn);
        let garbage = self.own.garbage.len();
        if garbage + self.own.local.waiting() >= GARBAGE_STEP && self.own.looked != self.store.epochs.now() {
            self.collect(GARBAGE_STEP + 2 * garbage.saturating_sub(self.own.kept));
        }
        self.own.kept = self.own.garbage.len();
    }

    /// The reaction to a locked word: `Ok` to look again, `Err` to give up.
    pub(crate) fn met_lock(&self, row: Ref, word: u64, wait: &mut Backoff) -> Result<(), Refused> {
        if word & PREPARED == 0 && wait.wait_bounded().is_ok() {
            return Ok(());
        }
        Err(match self.store.conflict {
            Conflict::Wait if word & PREPARED != 0 => Refused::Busy(RowId(row, Held::Writer)),
            _ => Refused::Conflict(Cause::Locked),
        })
    }

    /// The reaction to prepared readers, which belong to a transaction that is decided elsewhere.
    pub(crate) fn met_readers(&self, at: Ref, held: Held) -> Refused {
        match self.store.conflict {
            Conflict::Wait => Refused::Busy(RowId(at, held)),
            Conflict::Abort => Refused::Conflict(Cause::Locked),
        }
    }

    /// Copies a row's value and returns its word.
    #[inline]
    pub(crate) fn look(&self, row: Ref, out: &mut Vec<u8>) -> Result<u64, Refused> {
        let word = self.look_in_leaf(row, out)?;
        if word & DEAD == 0 { Ok(word) } else { Err(CHANGED) }
    }

    /// As [`Worker::look`], for a row that was found in a leaf. The row may have left the leaf
    /// since then, and be dead.
    #[inline]
    pub(crate) fn look_in_leaf(&self, row: Ref, out: &mut Vec<u8>) -> Result<u64, Refused> {
        row::read(&self.store.arena, row, out).or_else(|word| self.look_again(row, word, out))
    }

    /// As [`Worker::look_in_leaf`], for a row that was locked at the first look.
    #[cold]
    fn look_again(&self, row: Ref, mut word: u64, out: &mut Vec<u8>) -> Result<u64, Refused> {
        let mut wait = Backoff::new();
        loop {
            self.met_lock(row, word, &mut wait)?;
            match row::read(&self.store.arena, row, out) {
                Ok(word) => return Ok(word),
                Err(locked) => word = locked,
            }
        }
    }

    /// The row with this key in the index. If there is none, its absence is noted.
    #[inline]
    fn note_find(&self, txn: &mut Txn, table: TableId, key: &[u8]) -> Result<Option<Ref>, Refused> {
        let (store, hash) = (&self.store, Hash::of(table, key));
        let hinted = txn.prefetched.take(hash).or_else(|| store.hints.candidate(hash));
        if let Some(row) = hinted
            && row::is_of(&store.arena, row, table, key)
        {
            return Ok(Some(row));
        }
        self.find_in_index(txn, table, key, hash)
    }

    #[inline(never)]
    fn find_in_index(
        &self,
        txn: &mut Txn,
        table: TableId,
        key: &[u8],
        hash: Hash,
    ) -> Result<Option<Ref>, Refused> {
        let store = &self.store;
        let index = store.index(table)?;
        // Keys that are read one after the other often lie side by side in one leaf: the lines of
        // an order.
        if let (last, Some(leaf)) = txn.near
            && last == table
            && let Some(row) = index.find_in(&store.arena, leaf, key)
        {
            row::prefetch_row(&store.arena, row);
            return Ok(Some(row));
        }
        let found = index.find(&store.arena, key);
        txn.near = (table, Some(found.seen.leaf));
        if let Some(row) = found.row {
            row::prefetch_row(&store.arena, row);
            store.hints.enter(hash, row, store.arena.used_bytes());
        } else {
            txn.see_key(found.seen, table, key);
            if store.log.is_some() {
                put_read(&mut txn.ranges, table.0, Read::Key(key));
            }
        }
        Ok(found.row)
    }

    /// Whether the index has a row with this key, committed or not. The look-up is not part of any
    /// transaction: it gives a hint, and serves to measure the cost of a look-up.
    ///
    /// # Errors
    /// [`Refused::NoTable`].
    #[inline]
    pub fn find(&mut self, table: TableId, key: &[u8]) -> Result<bool, Refused> {
        let reading = self.own.reading.add(&self.store.epochs, self.number);
        let found = self.store.find(table, key);
        self.own.reading.remove(&self.store.epochs, self.number, reading);
        found
    }

    /// Runs `f` on the row with this key; `None` if there is none.
    ///
    /// # Errors
    /// See [`Refused`].
    #[inline]
    pub fn read<R>(
        &mut self,
        txn: &mut Txn,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Refused> {
        let Some(row) = self.note_find(txn, table, key)? else { return Ok(None) };
        if let Some(own) = txn.own(row) {
            return self.own_value(txn, own, f);
        }
        self.take_turn(txn, table, row, AccessKind::Reading)?;
        let mut buffer = std::mem::take(&mut self.buffer);
        let word = self.look(row, &mut buffer);
        self.buffer = buffer;
        let word = word?;
        txn.read(table, row, word);
        Ok((word & ABSENT == 0).then(|| f(&self.buffer)))
    }

    /// Runs `f` on the value that the transaction has given a row; `None` if it has deleted the
    /// row.
    fn own_value<R>(
        &mut self,
        txn: &Txn,
        own: usize,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Refused> {
        let write = &txn.writes[own];
        match write.value {
            Value::Absent => Ok(None),
            Value::New(value) => Ok(Some(f(&txn.values[value as usize]))),
            Value::Placed => {
                self.buffer.clear();
                row::read_placed(&self.store.arena, write.row, write.seen, &mut self.buffer)
                    .ok_or(CHANGED)?;
                Ok(Some(f(&self.buffer)))
            }
        }
    }

    /// Runs `f` on a copy of the row, which replaces the row when the transaction commits; `None`
    /// if there is none.
    ///
    /// # Errors
    /// See [`Refused`]. If the new value is too long, the row stays as it was.
    #[inline]
    pub fn update<R>(
        &mut self,
        txn: &mut Txn,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> Result<Option<R>, Refused> {
        self.update_within(txn, table, key, |bytes| (f(bytes), 0..usize::MAX))
    }

    /// As [`Worker::update`], for a caller that knows which bytes it changes: `f` also returns a
    /// range of bytes, and leaves the row unchanged outside it. Only that range is written and
    /// logged. The range has no meaning when the length of the row changes: then the whole row is
    /// written.
    ///
    /// # Errors
    /// As [`Worker::update`].
    #[inline]
    pub fn update_within<R>(
        &mut self,
        txn: &mut Txn,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(&mut Vec<u8>) -> (R, std::ops::Range<usize>),
    ) -> Result<Option<R>, Refused> {
        let Some(row) = self.note_find(txn, table, key)? else { return Ok(None) };
        if let Some(own) = txn.own(row) {
            return self.update_own(txn, own, f);
        }
        self.take_turn(txn, table, row, AccessKind::Writing)?;
        let value = txn.value();
        let bytes = &mut txn.values[value];
        let word = self.look(row, bytes)?;
        if word & ABSENT != 0 {
            txn.read(table, row, word);
            return Ok(None);
        }
        let (result, touched) = f(bytes);
        let len = bytes.len();
        if len > MAX_ROW {
            txn.read(table, row, word);
            return Err(Refused::RowTooLong(len));
        }
        txn.write(table, row, Value::New(value as u32), Touched::new(touched), word);
        Ok(Some(result))
    }

    /// The same, for a row that the transaction has already written.
    fn update_own<R>(
        &mut self,
        txn: &mut Txn,
        own: usize,
        f: impl FnOnce(&mut Vec<u8>) -> (R, std::ops::Range<usize>),
    ) -> Result<Option<R>, Refused> {
        let mut bytes = std::mem::take(&mut self.buffer);
        let copied = self.copy_own(txn, own, &mut bytes);
        let done = copied.map(|is_there| is_there.then(|| f(&mut bytes)));
        let ended = match done {
            Ok(Some(_)) if bytes.len() > MAX_ROW => Err(Refused::RowTooLong(bytes.len())),
            Ok(Some((result, touched))) => {
                let value = txn.value();
                txn.values[value].extend_from_slice(&bytes);
                // A placed value is in the row already, so the whole of it has to be overwritten.
                let touched = match txn.writes[own].value {
                    Value::New(_) => Touched::new(touched),
                    Value::Absent | Value::Placed => Touched::ALL,
                };
                txn.rewrite(own, Value::New(value as u32), touched);
                Ok(Some(result))
            }
            Ok(None) => Ok(None),
            Err(refused) => Err(refused),
        };
        self.buffer = bytes;
        ended
    }

    /// Copies the value that the transaction has given a row; `false` if it has deleted the row.
    pub(crate) fn copy_own(&self, txn: &Txn, own: usize, out: &mut Vec<u8>) -> Result<bool, Refused> {
        out.clear();
        let write = &txn.writes[own];
        match write.value {
            Value::Absent => return Ok(false),
            Value::New(value) => out.extend_from_slice(&txn.values[value as usize]),
            Value::Placed => {
                row::read_placed(&self.store.arena, write.row, write.seen, out).ok_or(CHANGED)?;
            }
        }
        Ok(true)
    }

    /// # Errors
    /// See [`Refused`].
    pub fn insert(
        &mut self,
        txn: &mut Txn,
        table: TableId,
        key: &[u8],
        bytes: &[u8],
    ) -> Result<Inserted, Refused> {
        if key.len() > MAX_KEY {
            return Err(Refused::KeyTooLong(key.len()));
        }
        if bytes.len() > MAX_ROW {
            return Err(Refused::RowTooLong(bytes.len()));
        }
        let store = Rc::clone(&self.store);
        let index = store.index(table)?;
        // Most keys that are inserted are new. So the row is created before its key is looked up,
        // and one descent of the index is enough. When the key exists, the block was taken for
        // nothing.
        let word = tid::entered(store.epochs.now());
        let row = row::create(&store.arena, &mut self.own.local, (table, word), key, bytes.len())?;
        // The value goes in at once: no transaction looks at it before the row is there.
        let is_placed = row::place(&store.arena, row, bytes);
        if txn.spot.0 != table {
            txn.spot = (table, Spot::default());
        }
        let entered =
            index.insert(&store.arena, &mut self.own.local, &store.epochs, key, row, &mut txn.spot.1);
        if !matches!(entered, Ok(Insertion::Done(_))) {
            row::discard(&store.arena, &mut self.own.local, row);
        }
        let row = match entered? {
            Insertion::Done(done) => {
                txn.adjust(done);
                txn.entered.push((table, row, word));
                if is_placed {
                    txn.write(table, row, Value::Placed, Touched::ALL, word);
                    return Ok(Inserted::Done);
                }
                row
            }
            Insertion::Exists(other, _) => other,
            Insertion::Reserved(leaf) => return Err(self.met_readers(leaf, Held::LeafReaders)),
        };
        self.put(txn, table, row, bytes)
    }

    /// Inserts a row that is in the index and absent.
    fn put(&mut self, txn: &mut Txn, table: TableId, row: Ref, bytes: &[u8]) -> Result<Inserted, Refused> {
        let own = txn.own(row);
        let mut seen = 0;
        match own.map(|own| txn.writes[own].value) {
            Some(Value::New(_) | Value::Placed) => return Ok(Inserted::Exists),
            Some(Value::Absent) => {}
            None => {
                self.take_turn(txn, table, row, AccessKind::Writing)?;
                let mut buffer = std::mem::take(&mut self.buffer);
                let word = self.look(row, &mut buffer);
                self.buffer = buffer;
                seen = word?;
                if seen & ABSENT == 0 {
                    txn.read(table, row, seen);
                    return Ok(Inserted::Exists);
                }
            }
        }
        let value = txn.value();
        txn.values[value].extend_from_slice(bytes);
        let new = Value::New(value as u32);
        match own {
            Some(own) => txn.rewrite(own, new, Touched::ALL),
            None => txn.write(table, row, new, Touched::ALL, seen),
        }
        Ok(Inserted::Done)
    }

    /// Inserts a row under a key that the store chooses: for tables that are only ever scanned.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn append(&mut self, txn: &mut Txn, table: TableId, bytes: &[u8]) -> Result<(), Refused> {
        loop {
            let key = ((self.number as u64) << 48 | self.own.appended).to_be_bytes();
            self.own.appended += 1;
            if self.insert(txn, table, &key, bytes)? == Inserted::Done {
                return Ok(());
            }
            // A worker of this number has used this key in an earlier life of the store.
            self.own.appended = self.next_appended(table)?;
        }
    }

    /// The first number behind all rows that workers of this number have appended to a table.
    #[cold]
    fn next_appended(&mut self, table: TableId) -> Result<u64, Refused> {
        let (low, next) = ((self.number as u64) << 48, self.own.appended);
        let (low, high) = (low.to_be_bytes(), (low + (1 << 48)).to_be_bytes());
        let mut last = None;
        let range = Range::new(&low, &high);
        self.leaves(table, range, Direction::Backward, |worker, chunk, _| {
            let Some(&row) = chunk.rows.first() else { return Ok(Flow::More) };
            worker.key.clear();
            row::key(&worker.store.arena, row, &mut worker.key);
            last = worker.key.last_chunk().map(|n| u64::from_be_bytes(*n) & 0xffff_ffff_ffff);
            Ok(Flow::Enough)
        })?;
        Ok(last.map_or(next, |last| next.max(last + 1)))
    }

    /// Removes the row; `false` if there was none.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn delete(&mut self, txn: &mut Txn, table: TableId, key: &[u8]) -> Result<bool, Refused> {
        let Some(row) = self.note_find(txn, table, key)? else { return Ok(false) };
        if let Some(own) = txn.own(row) {
            let was_there = txn.writes[own].value != Value::Absent;
            txn.rewrite(own, Value::Absent, Touched::ALL);
            return Ok(was_there);
        }
        self.take_turn(txn, table, row, AccessKind::Writing)?;
        let mut buffer = std::mem::take(&mut self.buffer);
        let word = self.look(row, &mut buffer);
        self.buffer = buffer;
        let word = word?;
        match word & ABSENT == 0 {
            true => txn.write(table, row, Value::Absent, Touched::ALL, word),
            false => txn.read(table, row, word),
        }
        Ok(word & ABSENT == 0)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.store.release(self.number, std::mem::take(&mut self.own));
    }
}
