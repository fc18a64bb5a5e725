//! What a transaction has read and is going to write.

use crate::ahead::Ahead;
use crate::arena::Ref;
use crate::hot::Turn;
use crate::index::{Inserted, Seen};
use crate::row::Prepared;
use base::TableId;

/// A transaction of one worker: its read set, write set and the leaves it has seen. Comes from
/// [`Worker::begin`](crate::Worker::begin) and has to go back there by commit or abort.
#[derive(Default)]
pub struct Txn {
    /// Rows, and the word each was read under.
    pub(crate) reads: Vec<(Ref, u64)>,
    /// The table of each of those.
    pub(crate) tables: Vec<TableId>,
    pub(crate) writes: Vec<Write>,
    pub(crate) leaves: Vec<Seen>,
    /// Rows that this transaction has entered into an index, absent until it commits.
    pub(crate) entered: Vec<(TableId, Ref)>,
    /// New values, by [`Write::value`]. More than are in use: their memory is for the next transaction.
    pub(crate) values: Vec<Vec<u8>>,
    pub(crate) used: usize,
    /// One bit of each row written, so that most reads need not look for it among the writes.
    written: u64,
    /// Since when it reads, as published.
    pub(crate) since: u64,
    /// Once it is certain that it can commit.
    pub(crate) certified: Option<Certified>,
    /// Its places in the queues of hot rows.
    pub(crate) turns: Vec<Turn>,
    /// Rows, then leaves, that it has read and guards, once a part of a distributed transaction is prepared.
    pub(crate) guarded: (Vec<Ref>, Vec<Ref>),
    /// What was looked up before it is asked for.
    pub(crate) ahead: Ahead,
    /// Ranges that it has read, and keys that it did not find, as the log writes them: of stores that have one.
    pub(crate) ranges: Vec<u8>,
}

/// A transaction that has locked and validated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Certified {
    pub(crate) tid: u64,
    pub(crate) pin: Pin,
    /// What its record calls it, when one says that it is prepared.
    pub(crate) name: Option<u64>,
}

/// What holds the epoch of a certified transaction back, and since when.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pin {
    /// It only read.
    Nothing,
    Committing(u64),
    Prepared(u64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) row: Ref,
    pub(crate) table: TableId,
    pub(crate) value: Option<usize>,
    /// The word as it was before it was locked.
    pub(crate) before: u64,
    pub(crate) prepared: Prepared,
}

fn bit(row: Ref) -> u64 {
    1 << (row.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
}

impl Txn {
    pub(crate) fn clear(&mut self) {
        self.reads.clear();
        self.tables.clear();
        self.writes.clear();
        self.leaves.clear();
        self.entered.clear();
        self.ahead.clear();
        self.ranges.clear();
        (self.used, self.written, self.certified) = (0, 0, None);
    }

    /// Whether it has changed nothing so far.
    pub fn is_read_only(&self) -> bool {
        self.writes.is_empty()
    }

    /// Whether others may wait for their turn behind it at a hot row. It gives that up as it ends or is prepared.
    pub fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Whether it has passed [`Worker::pre_commit`](crate::Worker::pre_commit).
    pub fn is_prepared(&self) -> bool {
        self.certified.is_some()
    }

    #[inline]
    pub(crate) fn own(&self, row: Ref) -> Option<usize> {
        if self.written & bit(row) == 0 {
            return None;
        }
        self.writes.iter().rposition(|write| write.row == row)
    }

    pub(crate) fn write(&mut self, table: TableId, row: Ref, value: Option<usize>) {
        self.written |= bit(row);
        self.writes.push(Write { row, table, value, before: 0, prepared: Prepared::default() });
    }

    #[inline]
    pub(crate) fn read(&mut self, table: TableId, row: Ref, word: u64) {
        self.reads.push((row, word));
        self.tables.push(table);
    }

    /// An empty buffer for a new value.
    pub(crate) fn value(&mut self) -> usize {
        if self.used == self.values.len() {
            self.values.push(Vec::new());
        }
        self.values[self.used].clear();
        self.used += 1;
        self.used - 1
    }

    #[inline]
    pub(crate) fn see(&mut self, seen: Seen) {
        if self.leaves.last() != Some(&seen) {
            self.leaves.push(seen);
        }
    }

    /// Its own insert is no phantom: leaves that nobody else has changed are seen as they are now.
    pub(crate) fn adjust(&mut self, inserted: Inserted) {
        let mut has_half = false;
        for seen in self.leaves.iter_mut().filter(|seen| **seen == inserted.before) {
            *seen = inserted.after;
            has_half = true;
        }
        if let (true, Some(other)) = (has_half, inserted.split_off) {
            self.leaves.push(other);
        }
    }
}
