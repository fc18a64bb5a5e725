//! A transaction's read set, write set and node set.

use crate::arena::Ref;
use crate::hot::{Head, Turn};
use crate::index::{Inserted, Seen, Spot};
use crate::prefetched::Prefetched;
use crate::row::{Prepared, Touched};
use base::TableId;
use txn::{Direction, Range};

/// A transaction of one worker: its read set, write set and node set (the leaves it has seen).
/// Comes from [`Worker::begin`](crate::Worker::begin) and has to go back there by commit or abort.
#[derive(Default)]
pub struct Txn {
    /// Rows, and the word each was read under. Rows that the transaction has written are not here
    /// but in `writes` ([`Write::seen`]).
    pub(crate) reads: Vec<(Ref, u64)>,
    /// The table of each row in `reads`.
    pub(crate) tables: Vec<TableId>,
    /// Rows that its scans passed over because they were absent, and the word of each. Such a row
    /// may leave its leaf before the commit: a new row in its place is noticed by the check of the
    /// leaf.
    pub(crate) absent: Vec<(TableId, Ref, u64)>,
    pub(crate) writes: Vec<Write>,
    pub(crate) node_set: Vec<NodeSetEntry>,
    /// The bounds of the ranges that it looked at in those leaves, and the rows it found there.
    bounds: Vec<u8>,
    found: Vec<Ref>,
    /// Rows that this transaction has entered into an index, absent until it commits, and the word
    /// of each.
    pub(crate) entered: Vec<(TableId, Ref, u64)>,
    /// New values, named by [`Value::New`]. Only the first `used` belong to this transaction: the
    /// other buffers are kept for the next one.
    pub(crate) values: Vec<Vec<u8>>,
    pub(crate) used: usize,
    /// A filter with one bit for each row written: most reads need not search the writes.
    written: [u64; 4],
    /// The position of each row among the writes. Empty if there are at most [`LINEAR`] writes, or
    /// if they were sorted since.
    places: RowPlaces,
    /// The epoch of its read pin, as published; `None` once it is prepared.
    pub(crate) since: Option<u64>,
    /// Set once the transaction is certain to be able to commit.
    pub(crate) validated: Option<Validated>,
    /// Its places in the queues of hot rows and heads.
    pub(crate) turns: Vec<Turn>,
    /// Keys from which it has begun to look for rows to take.
    pub(crate) heads: Heads,
    /// Rows, then leaves, on which it holds read reservations, once this part of a distributed
    /// transaction is prepared.
    pub(crate) reserved: (Vec<Ref>, Vec<Ref>),
    /// The place where it entered a row last.
    pub(crate) spot: (TableId, Spot),
    /// The leaf in which a descent of the index last found a row.
    pub(crate) near: (TableId, Option<Ref>),
    /// Rows that were prefetched for operations to come.
    pub(crate) prefetched: Prefetched,
    /// Ranges that it has read, and keys that it did not find, in the log's format. Filled only in
    /// stores that have a log.
    pub(crate) ranges: Vec<u8>,
}

/// A node-set entry: a leaf in which a transaction has looked for the keys of a range. `low` and
/// `high` are positions and lengths in the transaction's `bounds`; `found` is one in its list of
/// rows found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeSetEntry {
    pub(crate) seen: Seen,
    pub(crate) table: TableId,
    low: Option<(u32, u32)>,
    high: Option<(u32, u32)>,
    found: (u32, u32),
}

pub(crate) type Heads = Vec<(TableId, Head)>;

/// A transaction that has locked and validated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validated {
    pub(crate) tid: u64,
    pub(crate) pin: Pin,
    /// Its name in its prepare record, if it has one.
    pub(crate) name: Option<u64>,
}

/// The pin by which a validated transaction holds back its epoch, and the epoch of the pin.
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
    pub(crate) value: Value,
    /// The bytes in which the new value may differ from the present one.
    pub(crate) touched: Touched,
    /// The word under which the row was read when it was first written. Locking succeeds only from
    /// this word.
    pub(crate) seen: u64,
    /// The word right before it was locked.
    pub(crate) before: u64,
    pub(crate) prepared: Prepared,
}

/// The state that a write gives a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    Absent,
    /// The value at this position in the transaction's `values`.
    New(u32),
    /// The value that is in the row already: the transaction has entered the row, and if it can
    /// still commit, no other transaction has ever written it.
    Placed,
}

fn mix(row: Ref) -> u64 {
    row.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The row's bit in the filter of 256 bits.
#[inline]
fn bit(row: Ref) -> (usize, u64) {
    let mixed = mix(row);
    ((mixed >> 62) as usize, 1 << (mixed >> 56 & 63))
}

/// Up to this many writes are searched one by one. With more, the filter in front lets too many
/// searches through.
const LINEAR: usize = 32;
/// A table with more places than this is not kept for the next transaction, which would have to
/// clear it.
const KEPT: usize = 1024;

/// Positions of writes by row: open addressing. A place holds the position plus one, or 0. The
/// table is empty when it is not in use.
#[derive(Default)]
struct RowPlaces(Vec<u32>);

impl RowPlaces {
    /// The row's position, or the free place where it belongs.
    fn probe(&self, writes: &[Write], row: Ref) -> Result<usize, usize> {
        let mask = self.0.len() - 1;
        let mut at = (mix(row) >> 32) as usize & mask;
        loop {
            match self.0[at] as usize {
                0 => return Err(at),
                n if writes[n - 1].row == row => return Ok(n - 1),
                _ => at = (at + 1) & mask,
            }
        }
    }

    fn find(&self, writes: &[Write], row: Ref) -> Option<usize> {
        match self.0.is_empty() {
            true => writes.iter().position(|write| write.row == row),
            false => self.probe(writes, row).ok(),
        }
    }

    /// Adds the last write.
    #[inline]
    fn enter_last(&mut self, writes: &[Write]) {
        if writes.len() > LINEAR {
            self.enter_among_many(writes);
        }
    }

    fn enter_among_many(&mut self, writes: &[Write]) {
        if self.0.len() >= 2 * writes.len() {
            return self.enter(writes, writes.len() - 1);
        }
        self.0.clear();
        self.0.resize((4 * writes.len()).next_power_of_two(), 0);
        (0..writes.len()).for_each(|n| self.enter(writes, n));
    }

    fn enter(&mut self, writes: &[Write], n: usize) {
        if let Err(free) = self.probe(writes, writes[n].row) {
            self.0[free] = n as u32 + 1;
        }
    }

    fn clear(&mut self) {
        if self.0.len() > KEPT {
            self.0 = Vec::new();
        }
        self.0.clear();
    }
}

impl Txn {
    pub(crate) fn clear(&mut self) {
        self.reads.clear();
        self.tables.clear();
        self.absent.clear();
        self.writes.clear();
        self.places.clear();
        self.node_set.clear();
        self.bounds.clear();
        self.found.clear();
        self.entered.clear();
        self.heads.clear();
        self.prefetched.clear();
        (self.spot, self.near) = Default::default();
        self.ranges.clear();
        (self.used, self.written, self.validated) = (0, [0; 4], None);
    }

    /// Whether it has written nothing so far.
    pub fn is_read_only(&self) -> bool {
        self.writes.is_empty()
    }

    /// Whether other transactions may wait behind it for their turn at a hot row. It gives up its
    /// turns when it ends or is prepared.
    pub fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Whether it has passed [`Worker::pre_commit`](crate::Worker::pre_commit).
    pub fn is_prepared(&self) -> bool {
        self.validated.is_some()
    }

    #[inline]
    pub(crate) fn own(&self, row: Ref) -> Option<usize> {
        let (word, bit) = bit(row);
        if self.written[word] & bit == 0 {
            return None;
        }
        self.places.find(&self.writes, row)
    }

    /// Sorts the writes by address: the order in which a transaction that waits for locks takes
    /// them.
    pub(crate) fn sort_writes(&mut self) {
        self.writes.sort_unstable_by_key(|write| write.row.0);
        self.places.clear();
    }

    #[inline]
    pub(crate) fn write(&mut self, table: TableId, row: Ref, value: Value, touched: Touched, seen: u64) {
        let (word, bit) = bit(row);
        self.written[word] |= bit;
        self.writes.push(Write {
            row,
            table,
            value,
            touched,
            seen,
            before: 0,
            prepared: Prepared::default(),
        });
        self.places.enter_last(&self.writes);
    }

    /// Gives another value to a row that it has written before.
    pub(crate) fn rewrite(&mut self, own: usize, value: Value, touched: Touched) {
        let write = &mut self.writes[own];
        (write.value, write.touched) = (value, write.touched.or(touched));
    }

    #[inline]
    pub(crate) fn read(&mut self, table: TableId, row: Ref, word: u64) {
        self.reads.push((row, word));
        self.tables.push(table);
    }

    /// The words under which it has read rows that it has not written.
    pub(crate) fn words_read(&self) -> impl Iterator<Item = u64> {
        let absent = self.absent.iter().map(|(_, _, word)| *word);
        self.reads.iter().map(|(_, word)| *word).chain(absent)
    }

    /// An empty buffer for a new value.
    #[inline]
    pub(crate) fn value(&mut self) -> usize {
        if self.used == self.values.len() {
            self.values.push(Vec::new());
        }
        self.values[self.used].clear();
        self.used += 1;
        self.used - 1
    }

    /// Notes that it looked in a leaf for the keys of a range and found these rows. Returns the
    /// position of the entry in its node set.
    pub(crate) fn see(&mut self, seen: Seen, table: TableId, range: Range<'_>, rows: &[Ref]) -> usize {
        let mut put = |bound: Option<&[u8]>| {
            let from = self.bounds.len();
            bound.map(|key| {
                self.bounds.extend_from_slice(key);
                (from as u32, key.len() as u32)
            })
        };
        let (low, high) = (put(range.low), put(range.high));
        let from = self.found.len();
        self.found.extend_from_slice(rows);
        self.node_set.push(NodeSetEntry { seen, table, low, high, found: (from as u32, rows.len() as u32) });
        self.node_set.len() - 1
    }

    /// Notes that it looked in a leaf for this key and found nothing.
    pub(crate) fn see_key(&mut self, seen: Seen, table: TableId, key: &[u8]) {
        let at = self.see(seen, table, Range { low: Some(key), high: None }, &[]);
        self.end_at(at, Direction::Forward, key);
    }

    /// Narrows the range of an entry: the scan went up, or down, to this key and no further.
    pub(crate) fn end_at(&mut self, at: usize, direction: Direction, key: &[u8]) {
        let from = self.bounds.len() as u32;
        self.bounds.extend_from_slice(key);
        let node = &mut self.node_set[at];
        match direction {
            Direction::Backward => node.low = Some((from, key.len() as u32)),
            Direction::Forward => {
                // The smallest key behind it.
                self.bounds.push(0);
                node.high = Some((from, key.len() as u32 + 1));
            }
        }
    }

    /// The range of keys for which it looked in a leaf.
    pub(crate) fn range_of(&self, node: &NodeSetEntry) -> Range<'_> {
        let key = |(from, len): (u32, u32)| &self.bounds[from as usize..][..len as usize];
        Range { low: node.low.map(key), high: node.high.map(key) }
    }

    /// Whether it expects a row in a range that it looked at: it found the row then, or entered it
    /// itself.
    pub(crate) fn knows(&self, node: &NodeSetEntry, row: Ref) -> bool {
        let (from, len) = node.found;
        self.found[from as usize..][..len as usize].contains(&row)
            || self.entered.iter().any(|(_, entered, _)| *entered == row)
    }

    /// Its own insert is no phantom: leaves that only this insert has changed are noted as they are
    /// now.
    #[inline]
    pub(crate) fn adjust(&mut self, inserted: Inserted) {
        if !self.node_set.is_empty() {
            self.adjust_all(inserted);
        }
    }

    fn adjust_all(&mut self, inserted: Inserted) {
        for at in 0..self.node_set.len() {
            let node = &mut self.node_set[at];
            match inserted.passed_to {
                Some((other, was)) if Some(node.seen) == was => node.seen = other,
                _ if node.seen != inserted.before => {}
                passed_to => {
                    node.seen = inserted.after;
                    let node = *node;
                    self.node_set.extend(passed_to.map(|(other, _)| NodeSetEntry { seen: other, ..node }));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_among_any_number_of_writes() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut txn = Txn::default();
        for many in [3, LINEAR, LINEAR + 1, 300, 3 * KEPT, 40] {
            let mut rows: Vec<Ref> = (0..2 * many as u64).map(|n| Ref(1 + n * 24)).collect();
            random.shuffle(&mut rows);
            let (written, others) = rows.split_at(many);
            for (n, row) in written.iter().enumerate() {
                assert_eq!(txn.own(*row), None);
                txn.write(TableId(1), *row, Value::Absent, Touched::ALL, 0);
                assert_eq!(txn.own(written[n / 2]), Some(n / 2));
                if n == many / 2 {
                    // As when a commit answers `Busy`, and the transaction writes more before the
                    // next attempt.
                    txn.sort_writes();
                    assert!(written[..=n].iter().all(|row| txn.writes[txn.own(*row).unwrap()].row == *row));
                    txn.writes.sort_by_key(|write| written.iter().position(|row| *row == write.row));
                    txn.places.clear();
                }
            }
            assert!(written.iter().enumerate().all(|(n, row)| txn.own(*row) == Some(n)));
            assert!(others.iter().all(|row| txn.own(*row).is_none()));
            txn.clear();
            assert!(rows.iter().all(|row| txn.own(*row).is_none()));
        }
    }
}
