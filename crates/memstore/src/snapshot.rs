//! Reading the recent past: the state at the end of an epoch, without validation and without
//! blocking any transaction.
//!
//! Opening a snapshot ends the running epoch. Transactions of later epochs then keep the versions
//! that they overwrite, once per row and snapshot. If no snapshot has been opened since a version
//! was written, overwriting it keeps nothing. A snapshot can be read as soon as the last
//! transaction of its epoch has written: at once, unless one is in the middle of its commit.

use crate::row;
use crate::store::Refused;
use crate::worker::{CHANGED, Worker};
use base::{Key, TableId};
use latch::Backoff;
use std::cell::Cell;
use std::sync::atomic::Ordering;
use txn::{Direction, Flow, Range};

/// The past at one moment, for one worker. Has to be closed there: the versions that it may read
/// are kept until then.
pub struct Snapshot {
    epoch: u64,
    since: u64,
    reading: u64,
    /// The epoch of the newest row that it has shown, or has shown to be absent.
    newest: Cell<u64>,
}

impl Snapshot {
    /// It sees the transactions of epochs up to this one.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl Worker {
    pub fn open_snapshot(&mut self) -> Snapshot {
        let epochs = &self.store.epochs;
        let reading = self.own.reading.add(epochs, self.number);
        // The epoch published here may have ended by now. Then more versions are kept than are
        // needed.
        let since = self.own.snapshots.add(epochs, self.number);
        let epoch = loop {
            let now = epochs.now();
            // A transaction that commits in the next epoch must know that this one is needed.
            self.store.snapshot.fetch_max(now, Ordering::AcqRel);
            if epochs.end(now) {
                break now;
            }
        };
        Snapshot { epoch, since, reading, newest: Cell::new(0) }
    }

    /// Whether the snapshot can be read: every transaction that it sees has written.
    pub fn is_ready(&self, snapshot: &Snapshot) -> bool {
        self.store.epochs.oldest_undone() > snapshot.epoch
    }

    /// The commit dependency of the snapshot's results so far: they may not be reported before this
    /// epoch is durable ([`crate::Memstore::poll_durable`]).
    pub fn snapshot_depends_on(&self, snapshot: &Snapshot) -> u64 {
        self.seen(snapshot.newest.get())
    }

    pub fn close_snapshot(&mut self, snapshot: Snapshot) {
        self.own.snapshots.remove(&self.store.epochs, self.number, snapshot.since);
        self.own.reading.remove(&self.store.epochs, self.number, snapshot.reading);
    }

    /// As [`Worker::read`], in the past.
    ///
    /// # Errors
    /// [`Refused::NotReady`], [`Refused::NoTable`]; [`Refused::Conflict`] when a row stays locked
    /// for milliseconds: then repeat the call.
    pub fn read_past<R>(
        &mut self,
        snapshot: &Snapshot,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Refused> {
        self.check(snapshot)?;
        let found = self.store.index(table)?.find(&self.store.arena, key);
        let Some(row) = found.row else { return Ok(None) };
        Ok(self.version(snapshot, row)?.then(|| f(&self.buffer)))
    }

    /// As [`Worker::scan`], in the past.
    ///
    /// # Errors
    /// As [`Worker::read_past`].
    pub fn scan_past(
        &mut self,
        snapshot: &Snapshot,
        table: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<(), Refused> {
        self.check(snapshot)?;
        self.leaves(table, range, direction, |worker, chunk, _| {
            for &row in &chunk.rows {
                if !worker.version(snapshot, row)? {
                    continue;
                }
                worker.key.clear();
                row::key(&worker.store.arena, row, &mut worker.key);
                if f(&worker.key, &worker.buffer) == Flow::Enough {
                    return Ok(Flow::Enough);
                }
            }
            Ok(Flow::More)
        })
    }

    /// As [`Worker::scan_through`], in the past: entry and row are of one moment.
    ///
    /// # Errors
    /// As [`Worker::read_past`].
    pub fn scan_through_past(
        &mut self,
        snapshot: &Snapshot,
        (entries, table): (TableId, TableId),
        range: Range<'_>,
        direction: Direction,
        key_of: impl Fn(&[u8]) -> Option<Key>,
        mut f: impl FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<(), Refused> {
        self.check(snapshot)?;
        self.leaves(entries, range, direction, |worker, chunk, _| {
            for &row in &chunk.rows {
                if !worker.version(snapshot, row)? {
                    continue;
                }
                let mut entry = std::mem::take(&mut worker.key);
                entry.clear();
                row::key(&worker.store.arena, row, &mut entry);
                let key = key_of(&entry).ok_or(CHANGED);
                let flow = key.and_then(|key| worker.read_past(snapshot, table, &key, |row| f(&entry, row)));
                worker.key = entry;
                if flow?.ok_or(CHANGED)? == Flow::Enough {
                    return Ok(Flow::Enough);
                }
            }
            Ok(Flow::More)
        })
    }

    fn check(&self, snapshot: &Snapshot) -> Result<(), Refused> {
        if self.is_ready(snapshot) { Ok(()) } else { Err(Refused::NotReady) }
    }

    /// Copies the row's value of that time to the buffer; `false` when there was no such row.
    fn version(&mut self, snapshot: &Snapshot, row: crate::arena::Ref) -> Result<bool, Refused> {
        let mut wait = Backoff::new();
        let mut buffer = std::mem::take(&mut self.buffer);
        let found = loop {
            match row::read_past(&self.store.arena, row, snapshot.epoch, &mut buffer) {
                Ok((found, epoch)) => {
                    snapshot.newest.set(snapshot.newest.get().max(epoch));
                    break Ok(found.is_some());
                }
                Err(word) => {
                    if let Err(refused) = self.met_lock(row, word, &mut wait) {
                        break Err(refused);
                    }
                }
            }
        };
        self.buffer = buffer;
        found
    }
}
