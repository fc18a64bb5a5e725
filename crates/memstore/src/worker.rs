//! A worker: begins transactions, carries out their operations, and takes away what transactions leave behind.
//!
//! An operation notes what it saw and changes nothing that others see, except that an insert enters its row, absent.

use crate::arena::{Local, Ref};
use crate::epoch::What;
use crate::guard;
use crate::hints::Hash;
use crate::hot::For;
use crate::index::{Chunk, Insertion, Removal, Spot};
use crate::life;
use crate::log::{Read, put_read};
use crate::pins::Pins;
use crate::row::{self, MAX_KEY, MAX_ROW, Touched};
use crate::store::{Cause, Conflict, Held, Memstore, Refused, RowId};
use crate::tid::{self, ABSENT, DEAD, Lock, PREPARED};
use crate::transaction::{Txn, Value};
use base::TableId;
use latch::Backoff;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use txn::{Direction, Flow, Inserted, Range};

/// What a commit leaves for later: of use up to snapshots before this epoch.
pub(crate) enum Garbage {
    Version(Ref),
    /// A row that is absent under this word and still in the index of the table.
    Row(TableId, Ref, u64),
}

/// What belongs to a worker's number: the next worker of that number goes on with it.
pub(crate) struct Left {
    pub(crate) local: Local,
    pub(crate) reading: Pins,
    pub(crate) committing: Pins,
    pub(crate) prepared: Pins,
    pub(crate) snapshots: Pins,
    pub(crate) garbage: VecDeque<(u64, Garbage)>,
    /// How much of it there was when the last transaction had ended.
    kept: usize,
    pub(crate) last_tid: u64,
    appended: u64,
    /// The epoch in which nothing could be taken away any more, when it was last looked for.
    pub(crate) looked: u64,
    /// So much waits to be written that the next commit waits as well.
    pub(crate) is_behind: bool,
}

impl Default for Left {
    fn default() -> Left {
        Left {
            local: Local::new(),
            reading: Pins::new(What::Reading),
            committing: Pins::new(What::Committing),
            prepared: Pins::new(What::Prepared),
            snapshots: Pins::new(What::Snapshot),
            garbage: VecDeque::new(),
            kept: 0,
            last_tid: 0,
            appended: 0,
            looked: 0,
            is_behind: false,
        }
    }
}

/// One thread's way into the store. Any number of its transactions may be open at a time. Whoever drops it has ended them.
pub struct Worker {
    /// Counted here, not in the store: a count that all workers change would be a shared write per operation.
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

/// Garbage is looked at when there is this much of it, and at the end of each transaction from then on this much and twice what
/// that one has left, until what is left waits for another epoch: so a store in which as much goes as comes stays as large as
/// it is, and what a long reader has kept from going goes after it in steps.
const GARBAGE_STEP: usize = 64;

/// What was there is not any more, or the other way round.
pub(crate) const CHANGED: Refused = Refused::Conflict(Cause::Changed);

impl Worker {
    pub(crate) fn new(store: Arc<Memstore>, number: usize, own: Left) -> Worker {
        let (buffer, key) = (Vec::new(), Vec::new());
        Worker { store: Rc::new(store), number, own, pool: Vec::new(), buffer, key, chunk: Chunk::default() }
    }

    pub fn store(&self) -> &Arc<Memstore> {
        self.store.as_ref()
    }

    /// Begins a transaction. It has to end here by [`Worker::commit`], [`Worker::post_commit`] or [`Worker::abort`]:
    /// memory that it might still look at is not used again before.
    #[inline]
    pub fn begin(&mut self) -> Box<Txn> {
        let mut txn = self.pool.pop().unwrap_or_default();
        txn.since = Some(self.own.reading.add(&self.store.epochs, self.number));
        txn
    }

    /// From here on it looks at nothing but what it has locked, which stays where it is.
    #[inline]
    pub(crate) fn unpin(&mut self, txn: &mut Txn) {
        if let Some(since) = txn.since.take() {
            self.own.reading.remove(&self.store.epochs, self.number, since);
        }
    }

    pub(crate) fn end(&mut self, mut txn: Box<Txn>) {
        self.unguard(&mut txn);
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

    /// What to do about a locked word: `Ok` to look again.
    pub(crate) fn met_lock(&self, row: Ref, word: u64, wait: &mut Backoff) -> Result<(), Refused> {
        if word & PREPARED == 0 && wait.wait_bounded().is_ok() {
            return Ok(());
        }
        Err(match self.store.conflict {
            Conflict::Wait if word & PREPARED != 0 => Refused::Busy(RowId(row, Held::Writer)),
            _ => Refused::Conflict(Cause::Locked),
        })
    }

    /// What to do about readers whose decision is made elsewhere.
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

    /// As [`Worker::look`], of a row that was in a leaf: it may have left that since, and be dead.
    #[inline]
    pub(crate) fn look_in_leaf(&self, row: Ref, out: &mut Vec<u8>) -> Result<u64, Refused> {
        row::read(&self.store.arena, row, out).or_else(|word| self.look_again(row, word, out))
    }

    /// As [`Worker::look_in_leaf`], of a row that was locked.
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

    /// The row with this key in the index; its absence is noted.
    #[inline]
    fn note_find(&self, txn: &mut Txn, table: TableId, key: &[u8]) -> Result<Option<Ref>, Refused> {
        let (store, hash) = (&self.store, Hash::of(table, key));
        let hinted = txn.ahead.take(hash).or_else(|| store.hints.candidate(hash));
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
        // What is asked for one after the other often lies side by side, like the lines of an order.
        if let (last, Some(leaf)) = txn.near
            && last == table
            && let Some(row) = index.find_in(&store.arena, leaf, key)
        {
            row::ask_for(&store.arena, row);
            return Ok(Some(row));
        }
        let found = index.find(&store.arena, key);
        txn.near = (table, Some(found.seen.leaf));
        if let Some(row) = found.row {
            row::ask_for(&store.arena, row);
            store.hints.enter(hash, row, store.arena.used_bytes());
        } else {
            txn.see_key(found.seen, table, key);
            if store.log.is_some() {
                put_read(&mut txn.ranges, table.0, Read::Key(key));
            }
        }
        Ok(found.row)
    }

    /// Whether the index has a row with this key, committed or not. No part of any transaction: a hint, and what a look-up
    /// costs.
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
        self.take_turn(txn, table, row, For::Reading)?;
        let mut buffer = std::mem::take(&mut self.buffer);
        let word = self.look(row, &mut buffer);
        self.buffer = buffer;
        let word = word?;
        txn.read(table, row, word);
        Ok((word & ABSENT == 0).then(|| f(&self.buffer)))
    }

    /// Runs `f` on what the transaction has given a row; `None` if that is nothing.
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

    /// Runs `f` on a copy of the row, which takes the row's place when the transaction commits; `None` if there is none.
    ///
    /// # Errors
    /// See [`Refused`]. When the row became too long, it stays as it was.
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

    /// As [`Worker::update`], by one who knows where: `f` gives the range of bytes as well outside of which the row is what it was.
    /// Only those are written, and logged; of a row whose length has changed it says nothing.
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
        self.take_turn(txn, table, row, For::Writing)?;
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

    /// The same for a row that the transaction has written.
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
                // What was placed is in the row already, and has to be written over whole.
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

    /// Copies what the transaction has given a row; `false` if that is nothing.
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
        // Most keys that are inserted are new: one way down the index does it, at the price of a row for nothing if not.
        let word = tid::entered(store.epochs.now());
        let row = row::create(&store.arena, &mut self.own.local, (table, word), key, bytes.len())?;
        // And with its value, which nobody looks at before the row is there.
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
            Insertion::Guarded(leaf) => return Err(self.met_readers(leaf, Held::LeafReaders)),
        };
        self.put(txn, table, row, bytes)
    }

    /// Makes an absent row be there.
    fn put(&mut self, txn: &mut Txn, table: TableId, row: Ref, bytes: &[u8]) -> Result<Inserted, Refused> {
        let own = txn.own(row);
        let mut seen = 0;
        match own.map(|own| txn.writes[own].value) {
            Some(Value::New(_) | Value::Placed) => return Ok(Inserted::Exists),
            Some(Value::Absent) => {}
            None => {
                self.take_turn(txn, table, row, For::Writing)?;
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

    /// Inserts a row into a table that is only ever scanned, under a key of the store's choice.
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
            // A worker of this number has been here in an earlier life.
            self.own.appended = self.next_appended(table)?;
        }
    }

    /// Behind the last row that a worker of this number has ever appended to a table.
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
        self.take_turn(txn, table, row, For::Writing)?;
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

    /// Whether there is something that will be taken away, now or when an epoch or two have passed.
    #[inline]
    pub fn has_garbage(&self) -> bool {
        !self.own.garbage.is_empty() || self.own.local.waiting() > 0
    }

    /// Whether something of it may go now: not in an epoch in which nothing more of it could.
    #[inline]
    pub fn may_collect(&self) -> bool {
        self.has_garbage() && self.own.looked != self.store.epochs.now()
    }

    /// Takes away what nobody can reach any more: at most `limit` old versions and absent rows; gives how many it looked at.
    /// Workers do this by themselves as they commit; one that has nothing to do may be asked to.
    pub fn collect(&mut self, limit: usize) -> usize {
        let store = Rc::clone(&self.store);
        let now = store.epochs.now();
        // Who finds no row under a key has to wait until its deletion is durable, and learns that from the row.
        // And who has found none may look again, for one that has come and gone.
        let oldest = store.epochs.horizon().saturating_sub(1);
        let horizon = store.oldest_snapshot().min(store.durable_epoch()).min(oldest);
        // Those that come back to the queue have to wait for another call.
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
            // Whoever has it either makes it be there or leaves it as it is.
            Lock::Busy(_) => return self.own.garbage.push_back((0, Garbage::Row(table, row, word))),
            // It is there, or is another row by now, or none.
            Lock::Dead => return,
        }
        guard::settle();
        if guard::is_held(row::readers(&store.arena, row), guard::OF_ROW) {
            return self.put_off(table, row, word);
        }
        self.key.clear();
        row::key(&store.arena, row, &mut self.key);
        if let Ok(index) = store.index(table) {
            let removal = index.remove(&store.arena, &mut self.own.local, &store.epochs, &self.key, row);
            debug_assert_ne!(removal, Removal::Missing, "whoever took the row out has marked it dead");
            if removal == Removal::Guarded {
                return self.put_off(table, row, word);
            }
        }
        life::leave(tid, word);
        row::retire(&store.arena, &mut self.own.local, &store.epochs, row);
    }

    /// Unlocks an absent row, to be taken away later.
    fn put_off(&mut self, table: TableId, row: Ref, word: u64) {
        row::tid(&self.store.arena, row).store(word, Ordering::Release);
        self.own.garbage.push_back((0, Garbage::Row(table, row, word)));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.store.release(self.number, std::mem::take(&mut self.own));
    }
}
