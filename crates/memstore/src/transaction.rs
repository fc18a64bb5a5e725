//! What a transaction has read and is going to write.

use crate::ahead::Ahead;
use crate::arena::Ref;
use crate::hot::{Head, Turn};
use crate::index::{Inserted, Seen, Spot};
use crate::row::{Prepared, Touched};
use base::TableId;
use txn::{Direction, Range};

/// A transaction of one worker: its read set, write set and the leaves it has seen. Comes from
/// [`Worker::begin`](crate::Worker::begin) and has to go back there by commit or abort.
#[derive(Default)]
pub struct Txn {
    /// Rows, and the word each was read under, but for those that it has written as well ([`Write::seen`]).
    pub(crate) reads: Vec<(Ref, u64)>,
    /// The table of each of those.
    pub(crate) tables: Vec<TableId>,
    /// Rows that its scans have passed because they were absent, and the word of each. They may leave their leaves: nothing comes
    /// in their place then that would not be noticed there.
    pub(crate) absent: Vec<(TableId, Ref, u64)>,
    pub(crate) writes: Vec<Write>,
    pub(crate) leaves: Vec<Looked>,
    /// The keys between which it has looked there, and what it has found.
    bounds: Vec<u8>,
    found: Vec<Ref>,
    /// Rows that this transaction has entered into an index, absent until it commits, and the word of each.
    pub(crate) entered: Vec<(TableId, Ref, u64)>,
    /// New values, by [`Value::New`]. More than are in use: their memory is for the next transaction.
    pub(crate) values: Vec<Vec<u8>>,
    pub(crate) used: usize,
    /// One bit of each row written, so that most reads need not look for it among the writes.
    written: [u64; 4],
    /// Where each row lies among the writes, if they are more than [`LINEAR`] and were not put in order since.
    places: RowPlaces,
    /// Since when it reads, as published; not once it is prepared.
    pub(crate) since: Option<u64>,
    /// Once it is certain that it can commit.
    pub(crate) certified: Option<Certified>,
    /// Its places in the queues of hot rows and heads.
    pub(crate) turns: Vec<Turn>,
    /// Where it has begun to look for rows to take.
    pub(crate) heads: Heads,
    /// Rows, then leaves, that it has read and guards, once a part of a distributed transaction is prepared.
    pub(crate) guarded: (Vec<Ref>, Vec<Ref>),
    /// Where it has entered a row last.
    pub(crate) spot: (TableId, Spot),
    /// The leaf in which it has found a row last, by a way down the index.
    pub(crate) near: (TableId, Option<Ref>),
    /// What was looked up before it is asked for.
    pub(crate) ahead: Ahead,
    /// Ranges that it has read, and keys that it did not find, as the log writes them: of stores that have one.
    pub(crate) ranges: Vec<u8>,
}

/// A leaf in which a transaction has looked for the keys of a range. Bounds are where their bytes lie among its own, and how many; so
/// is what it has found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looked {
    pub(crate) seen: Seen,
    pub(crate) table: TableId,
    low: Option<(u32, u32)>,
    high: Option<(u32, u32)>,
    found: (u32, u32),
}

pub(crate) type Heads = Vec<(TableId, Head)>;

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
    pub(crate) value: Value,
    /// Where the new value may differ from what is there.
    pub(crate) touched: Touched,
    /// The word that the row was read under when it was first written: it is to be locked from that one.
    pub(crate) seen: u64,
    /// The word as it was before it was locked.
    pub(crate) before: u64,
    pub(crate) prepared: Prepared,
}

/// What a row is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    Absent,
    /// This one of the transaction's values.
    New(u32),
    /// What stands in it: a row that the transaction has entered, and that was never there if it still can commit.
    Placed,
}

fn mix(row: Ref) -> u64 {
    row.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Its bit, of 256.
#[inline]
fn bit(row: Ref) -> (usize, u64) {
    let mixed = mix(row);
    ((mixed >> 62) as usize, 1 << (mixed >> 56 & 63))
}

/// So many writes are looked at one by one. With more of them the filter in front lets too much through.
const LINEAR: usize = 32;
/// Places for more than this are not kept for the next transaction, which would have to clear them.
const KEPT: usize = 1024;

/// Positions of writes by row: open addressing, each one more than the position; empty if nothing is known.
#[derive(Default)]
struct RowPlaces(Vec<u32>);

impl RowPlaces {
    /// The position, or the free place.
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

    /// The last of the writes is new.
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
        self.leaves.clear();
        self.bounds.clear();
        self.found.clear();
        self.entered.clear();
        self.heads.clear();
        self.ahead.clear();
        (self.spot, self.near) = Default::default();
        self.ranges.clear();
        (self.used, self.written, self.certified) = (0, [0; 4], None);
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
        let (word, bit) = bit(row);
        if self.written[word] & bit == 0 {
            return None;
        }
        self.places.find(&self.writes, row)
    }

    /// Puts the writes into the order in which whoever waits for locks takes them.
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

    /// Gives a row that it has written before another value.
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

    /// It has looked in a leaf for the keys of a range, and has found these rows. Gives the place of that among its leaves.
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
        self.leaves.push(Looked { seen, table, low, high, found: (from as u32, rows.len() as u32) });
        self.leaves.len() - 1
    }

    /// It has looked in a leaf for this key, and has found nothing.
    pub(crate) fn see_key(&mut self, seen: Seen, table: TableId, key: &[u8]) {
        let at = self.see(seen, table, Range { low: Some(key), high: None }, &[]);
        self.end_at(at, Direction::Forward, key);
    }

    /// It has looked no further there than up, or down, to this key.
    pub(crate) fn end_at(&mut self, at: usize, direction: Direction, key: &[u8]) {
        let from = self.bounds.len() as u32;
        self.bounds.extend_from_slice(key);
        let looked = &mut self.leaves[at];
        match direction {
            Direction::Backward => looked.low = Some((from, key.len() as u32)),
            Direction::Forward => {
                // The first key behind it.
                self.bounds.push(0);
                looked.high = Some((from, key.len() as u32 + 1));
            }
        }
    }

    /// Between which keys it has looked in a leaf.
    pub(crate) fn range_of(&self, looked: &Looked) -> Range<'_> {
        let key = |(from, len): (u32, u32)| &self.bounds[from as usize..][..len as usize];
        Range { low: looked.low.map(key), high: looked.high.map(key) }
    }

    /// Whether a row is no news to it where it has looked: it has found it then, or entered it.
    pub(crate) fn knows(&self, looked: &Looked, row: Ref) -> bool {
        let (from, len) = looked.found;
        self.found[from as usize..][..len as usize].contains(&row)
            || self.entered.iter().any(|(_, entered, _)| *entered == row)
    }

    /// Its own insert is no phantom: leaves that nobody else has changed are seen as they are now.
    #[inline]
    pub(crate) fn adjust(&mut self, inserted: Inserted) {
        if !self.leaves.is_empty() {
            self.adjust_all(inserted);
        }
    }

    fn adjust_all(&mut self, inserted: Inserted) {
        for at in 0..self.leaves.len() {
            let looked = &mut self.leaves[at];
            match inserted.passed_to {
                Some((other, was)) if Some(looked.seen) == was => looked.seen = other,
                _ if looked.seen != inserted.before => {}
                passed_to => {
                    looked.seen = inserted.after;
                    let looked = *looked;
                    self.leaves.extend(passed_to.map(|(other, _)| Looked { seen: other, ..looked }));
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
                    // As when a commit is refused for now and more is written before it is tried again.
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
