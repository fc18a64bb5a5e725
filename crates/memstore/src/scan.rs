//! Scans: the rows of a range, leaf by leaf.
//!
//! A scan notes each leaf with its version, against phantoms, and each row of the range with its
//! word, absent rows too. An absent row may be taken out of its leaf before the transaction
//! commits, as other transactions collect their garbage. Its word then still shows that the row has
//! not changed. A leaf that has changed at commit is looked at again, in the part of the range that
//! lay in it: validation fails if there is another row in that part, and not for changes beside it.

use crate::arena::Ref;
use crate::hints::Hash;
use crate::index::{Chunk, Seek};
use crate::log::{Read, put_read};
use crate::row;
use crate::seams::Step;
use crate::store::{LookAhead, Refused};
use crate::tid::{ABSENT, DEAD};
use crate::transaction::Txn;
use crate::worker::{CHANGED, Worker};
use base::{Key, TableId};
use std::rc::Rc;
use txn::{Direction, Flow, Range};

/// Rows to prefetch ahead of the one that is visited.
const ASKED_FOR: usize = 6;
/// Of the rows that entries lead to: the hint is prefetched this many entries ahead, and the row
/// half as many. An entry itself is prefetched before its hint.
const HINT_AHEAD: usize = 4;
const ROW_AHEAD: usize = HINT_AHEAD / 2;
const _: () = assert!(HINT_AHEAD < ASKED_FOR);

/// The hints of the entries behind the one that is visited.
#[derive(Default)]
struct Leads {
    /// The hash of entry `i` at `i % HINT_AHEAD`.
    hashes: [Option<Hash>; HINT_AHEAD],
    /// The entries of which the hash was computed.
    hashed: usize,
}

impl Worker {
    /// Visits the rows of `range` in the order of keys, or against it, until `f` says
    /// [`Flow::Enough`]. `f` gets key and row.
    ///
    /// # Errors
    /// See [`Refused`]. `f` may have seen rows by then.
    pub fn scan(
        &mut self,
        txn: &mut Txn,
        table: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<(), Refused> {
        let mut is_whole = true;
        let scanned = self.leaves(table, range, direction, |worker, chunk, range| {
            let seen = chunk.seen.expect("a chunk says where it was seen");
            let at = txn.see(seen, table, range, &chunk.rows);
            for (row, coming) in worker.one_by_one(chunk) {
                coming.inspect(|row| row::prefetch_row(&worker.store.arena, *row));
                if worker.visit(txn, table, row, &mut f)? == Flow::Enough {
                    txn.end_at(at, direction, &worker.key);
                    is_whole = false;
                    return Ok(Flow::Enough);
                }
            }
            Ok(Flow::More)
        });
        if self.store.log.is_some() {
            self.note_range(txn, table, range, (!is_whole).then_some(direction));
        }
        scanned
    }

    /// As [`Worker::scan`], for a table of entries that lead to rows of another table: `key_of`
    /// gives the key there, and `f` gets entry and row. If there is no row under that key, entry
    /// and row were not seen at one moment: the scan fails.
    ///
    /// # Errors
    /// See [`Refused`]. `f` may have seen rows by then.
    pub fn scan_through(
        &mut self,
        txn: &mut Txn,
        (entries, table): (TableId, TableId),
        range: Range<'_>,
        direction: Direction,
        key_of: impl Fn(&[u8]) -> Option<Key>,
        mut f: impl FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<(), Refused> {
        let mut is_whole = true;
        let scanned = self.leaves(entries, range, direction, |worker, chunk, range| {
            let seen = chunk.seen.expect("a chunk says where it was seen");
            let at = txn.see(seen, entries, range, &chunk.rows);
            let mut leads = Leads::default();
            for (i, (row, coming)) in worker.one_by_one(chunk).enumerate() {
                coming.inspect(|row| row::prefetch_row(&worker.store.arena, *row));
                // Most scans that want one row are over by then.
                if i > 0 && worker.store.look_ahead != LookAhead::Never {
                    worker.prefetch_leads(table, &chunk.rows[i + 1..], i + 1, &key_of, &mut leads);
                }
                let mut is_there = false;
                let mut found = |_: &[u8], _: &[u8]| {
                    is_there = true;
                    Flow::More
                };
                worker.visit(txn, entries, row, &mut found)?;
                if !is_there {
                    continue;
                }
                let entry = std::mem::take(&mut worker.key);
                let key = key_of(&entry).ok_or(CHANGED);
                let flow = key.and_then(|key| worker.read(txn, table, &key, |row| f(&entry, row)));
                worker.key = entry;
                if flow?.ok_or(CHANGED)? == Flow::Enough {
                    txn.end_at(at, direction, &worker.key);
                    is_whole = false;
                    return Ok(Flow::Enough);
                }
            }
            Ok(Flow::More)
        });
        if self.store.log.is_some() {
            self.note_range(txn, entries, range, (!is_whole).then_some(direction));
        }
        scanned
    }

    /// Notes the range that a scan has seen. If it stopped early, the range ends at its last row.
    fn note_range(&self, txn: &mut Txn, table: TableId, range: Range<'_>, stopped: Option<Direction>) {
        let last = Some(&self.key[..]);
        let seen = match stopped {
            None => range,
            Some(Direction::Forward) => Range { high: last, ..range },
            Some(Direction::Backward) => Range { low: last, ..range },
        };
        put_read(&mut txn.ranges, table.0, Read::Range(seen));
    }

    fn visit(
        &mut self,
        txn: &mut Txn,
        table: TableId,
        row: Ref,
        f: &mut impl FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<Flow, Refused> {
        let mut buffer = std::mem::take(&mut self.buffer);
        if let Some(own) = txn.own(row) {
            let copied = self.copy_own(txn, own, &mut buffer);
            self.buffer = buffer;
            if !copied? {
                return Ok(Flow::More);
            }
            return Ok(self.show(row, f));
        }
        let word = self.look_in_leaf(row, &mut buffer);
        self.buffer = buffer;
        let word = word?;
        if word & ABSENT == 0 {
            txn.read(table, row, word);
            return Ok(self.show(row, f));
        }
        // A transaction that makes the row present changes its word.
        self.store.seams.run(Step::NoteAbsent, || txn.absent.push((table, row, word & !DEAD)));
        Ok(Flow::More)
    }

    /// Passes a row that is present to `f`. Its value is in the buffer.
    #[inline]
    fn show(&mut self, row: Ref, f: &mut impl FnMut(&[u8], &[u8]) -> Flow) -> Flow {
        self.key.clear();
        row::key(&self.store.arena, row, &mut self.key);
        f(&self.key, &self.buffer)
    }

    /// The rows of a leaf, each with a later row that is to be prefetched: a scan may stop at any
    /// row.
    fn one_by_one<'c>(&self, chunk: &'c Chunk) -> impl Iterator<Item = (Ref, Option<Ref>)> + use<'c> {
        let (first, coming) = chunk.rows.split_at(ASKED_FOR.min(chunk.rows.len()));
        first.iter().for_each(|row| row::prefetch_row(&self.store.arena, *row));
        let coming = coming.iter().map(|row| Some(*row)).chain(std::iter::repeat(None));
        chunk.rows.iter().copied().zip(coming)
    }

    /// Prefetches the rows of `table` to which the coming entries of a leaf lead. The first of them
    /// has number `first`.
    #[inline]
    fn prefetch_leads(
        &mut self,
        table: TableId,
        coming: &[Ref],
        first: usize,
        key_of: impl Fn(&[u8]) -> Option<Key>,
        leads: &mut Leads,
    ) {
        let (arena, hints) = (&self.store.arena, &self.store.hints);
        let near = coming.len().min(HINT_AHEAD);
        let known = leads.hashed.saturating_sub(first);
        for (i, entry) in coming.iter().enumerate().take(near).skip(known) {
            self.buffer.clear();
            row::key(arena, *entry, &mut self.buffer);
            let hash = key_of(&self.buffer).map(|key| Hash::of(table, &key));
            hash.inspect(|hash| hints.prefetch(*hash));
            leads.hashes[(first + i) % HINT_AHEAD] = hash;
        }
        leads.hashed = first + near;
        if ROW_AHEAD < near {
            let hash = leads.hashes[(first + ROW_AHEAD) % HINT_AHEAD];
            hash.and_then(|hash| hints.candidate(hash)).inspect(|row| row::prefetch_row(arena, *row));
        }
    }

    /// Goes through a range leaf by leaf; `f` also gets the part of the range that lies in the
    /// leaf.
    pub(crate) fn leaves(
        &mut self,
        table: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&mut Worker, &Chunk, Range<'_>) -> Result<Flow, Refused>,
    ) -> Result<(), Refused> {
        if range.low.zip(range.high).is_some_and(|(low, high)| low >= high) {
            return self.store.index(table).map(drop);
        }
        let store = Rc::clone(&self.store);
        let index = store.index(table)?;
        let mut chunk = std::mem::take(&mut self.chunk);
        let (mut from, until) = match direction {
            Direction::Forward => (range.low.map(<[u8]>::to_vec), range.high),
            Direction::Backward => (range.high.map(<[u8]>::to_vec), range.low),
        };
        let done = loop {
            let seek = match direction {
                Direction::Forward => Seek::Up(from.as_deref()),
                Direction::Backward => Seek::Down(from.as_deref()),
            };
            index.chunk(&store.arena, seek, until, &mut chunk);
            let next = chunk.next.as_deref().or(until);
            let part = match direction {
                Direction::Forward => Range { low: from.as_deref(), high: next },
                Direction::Backward => Range { low: next, high: from.as_deref() },
            };
            match f(self, &chunk, part) {
                Ok(Flow::More) if chunk.next.is_some() => from = chunk.next.take(),
                Ok(_) => break Ok(()),
                Err(refused) => break Err(refused),
            }
        };
        self.chunk = chunk;
        done
    }
}
