//! Scans: rows are looked at chunk by chunk, locked, and looked at again.
//!
//! ```text
//!   scan_with -> whole table, or no key: scan_table   one lock on the table, then chunks
//!             -> a range:                scan_some    look -> lock the keys -> look again -> visit
//!                                                       ^                      |
//!                                                       +---- other keys ------+
//! ```

use super::cursor::{Chunk, Cursor};
use super::{PageAccess, Purpose, entries, gap_name};
use crate::design::Design;
use base::{Key, TableId, hash64};
use locks::{LockName, Mode};
use probe::Counter;
use probe::mark::{self, marked};
use std::ops::Bound;
use store::{ChunkEnd, Table};
use txn::{Abort, Direction, Flow, Range, Row};

/// The most rows that a scan looks at before it locks them.
const MOST_AT_ONCE: usize = 256;

impl<D: Design> PageAccess<'_, D> {
    /// Visits the rows of a range, in the order of an index.
    pub(super) async fn scan_with(
        &mut self,
        purpose: Purpose,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        f: &mut dyn FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        let _traced = marked::<{ mark::SCAN }>();
        let table = self.table_of(index)?;
        if !D::OWNERS {
            let cursor = Cursor::start(purpose, index, range, direction, None);
            return self.scan_range(table, cursor, f).await;
        }
        let own = self.own(table, index, range)?;
        let Some(range) = own.as_ref().map_or(Some(range), |own| own.clip(range)) else { return Ok(()) };
        if self.locks() {
            self.lock_range(purpose, table, index, range).await?;
        }
        let cursor = Cursor::start(purpose, index, range, direction, own.as_ref());
        self.scan_range(table, cursor, f).await
    }

    /// Visits the rows of a range as they are at the moment, without locks.
    pub(super) async fn look_at(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        f: &mut dyn FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        let table = self.table_of(index)?;
        let own = if D::OWNERS { self.own(table, index, range)? } else { None };
        let Some(range) = own.as_ref().map_or(Some(range), |own| own.clip(range)) else { return Ok(()) };
        let mut cursor = Cursor::start(Purpose::Read, index, range, direction, own.as_ref());
        loop {
            let chunk = self.collect(&cursor, MOST_AT_ONCE).await?;
            // An entry of an index may have lost its row.
            for (key, row) in chunk.rows().filter(|(_, row)| !row.is_empty()) {
                probe::count(Counter::Records);
                if f(key, Row::new(&table.layout, row)) == Flow::Enough {
                    return Ok(());
                }
            }
            if !cursor.advance(chunk.end) {
                return Ok(());
            }
        }
    }

    async fn scan_range(
        &mut self,
        table: &Table,
        cursor: Cursor<'_>,
        f: &mut dyn FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        let is_whole = cursor.from == Bound::Unbounded && cursor.until.is_none();
        if is_whole || table.def.key.is_empty() {
            return self.scan_table(cursor, f).await;
        }
        self.scan_some(cursor, f).await
    }

    /// Visits all rows under a lock on the whole table.
    async fn scan_table(
        &mut self,
        mut cursor: Cursor<'_>,
        f: &mut dyn FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        let index = cursor.index;
        let table = self.lock_table_of(index, cursor.purpose.table()).await?;
        loop {
            let chunk = self.collect(&cursor, usize::MAX).await?;
            for (key, row) in chunk.rows() {
                if cursor.lacks(row) {
                    return Err(self.lost_row(table));
                }
                self.met(table, index, key);
                probe::add(Counter::Records, u64::from(!row.is_empty()));
                if f(key, Row::new(&table.layout, row)) == Flow::Enough {
                    return Ok(());
                }
            }
            if !cursor.advance(chunk.end) {
                return Ok(());
            }
        }
    }

    /// Visits a range under locks on its keys: it looks, locks the keys it saw, and looks again.
    /// The rows of the second look are protected if it sees the same keys. Each look starts behind
    /// the last key that was visited, not at the next leaf: otherwise another transaction could
    /// insert a key between two leaves before the first key of the second leaf is locked.
    async fn scan_some(
        &mut self,
        mut cursor: Cursor<'_>,
        f: &mut dyn FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        let index = cursor.index;
        let opening = marked::<{ mark::CURSOR }>();
        let table = self.lock_table_of(index, cursor.purpose.intention()).await?;
        // Often the caller wants the first row only, and every row that is looked at gets locked.
        // Entries alone are small, and mostly the caller wants all.
        let mut limit = match std::mem::take(&mut self.expected) {
            0 if cursor.purpose.is_of_keys() => 8,
            0 => 1,
            rows => rows.min(MOST_AT_ONCE),
        };
        let mut first = Some(self.collect_some(&cursor, limit).await?);
        drop(opening);
        let _going_on = marked::<{ mark::FETCH }>();
        loop {
            let mut chunk = match first.take() {
                Some(chunk) => chunk,
                None => self.collect_some(&cursor, limit).await?,
            };
            while self.ranges() {
                self.lock_chunk(table, &cursor, &chunk).await?;
                let again = self.collect_some(&cursor, limit).await?;
                let same = again.same_keys(&chunk);
                chunk = again;
                if same {
                    break;
                }
            }
            if chunk.rows().any(|(_, row)| cursor.lacks(row)) {
                return Err(self.lost_row(table));
            }
            let mut last = None;
            for (key, row) in chunk.rows() {
                self.met(table, index, key);
                probe::add(Counter::Records, u64::from(!row.is_empty()));
                if f(key, Row::new(&table.layout, row)) == Flow::Enough {
                    return Ok(());
                }
                last = Some(key);
            }
            match (&chunk.end, last) {
                (ChunkEnd::More(_), Some(last)) => cursor.from = Bound::Excluded(Key::from_bytes(last)),
                _ => return Ok(()),
            }
            limit = (limit * 4).min(MOST_AT_ONCE);
        }
    }

    /// As [`PageAccess::collect`], over as many leaves as it takes to meet a row or the end of the
    /// range.
    async fn collect_some(&self, cursor: &Cursor<'_>, limit: usize) -> Result<Chunk, Abort> {
        let mut chunk = self.collect(cursor, limit).await?;
        while let (ChunkEnd::More(from), true) = (&chunk.end, chunk.ends.is_empty()) {
            let further = Cursor { from: from.clone(), until: cursor.until.clone(), ..*cursor };
            chunk = self.collect(&further, limit).await?;
        }
        Ok(chunk)
    }

    async fn lock_chunk(&mut self, table: &Table, cursor: &Cursor<'_>, chunk: &Chunk) -> Result<(), Abort> {
        let (id, index, purpose) = (table.def.id, cursor.index, cursor.purpose);
        if cursor.direction == Direction::Backward {
            self.lock_above(id, cursor).await?;
        }
        for (key, _) in chunk.rows() {
            self.lock(id, LockName::key(index, hash64(key)), purpose.key()).await?;
            if index != id && !purpose.is_of_keys() {
                let row = entries::row_name(table, index, key).ok_or_else(|| self.lost_row(table))?;
                self.lock(id, row, purpose.row()).await?;
            }
        }
        if let (Direction::Forward, ChunkEnd::Done(next)) = (cursor.direction, &chunk.end) {
            self.lock(id, gap_name(index, next.as_deref()), Mode::GAP_S).await?;
        }
        Ok(())
    }

    /// A backward scan also covers the gap above the first key it meets. That gap belongs to the
    /// key at or beyond the upper bound.
    async fn lock_above(&mut self, table: TableId, cursor: &Cursor<'_>) -> Result<(), Abort> {
        let index = cursor.index;
        let from = match &cursor.from {
            Bound::Unbounded => return self.lock(table, LockName::end(index), Mode::GAP_S).await,
            Bound::Excluded(key) => Bound::Included(key.as_slice()),
            Bound::Included(key) => Bound::Excluded(key.as_slice()),
        };
        loop {
            let next = retry!(self, self.engine.store.successor::<D::Latch>(index, from));
            self.lock(table, gap_name(index, next.as_deref()), Mode::GAP_S).await?;
            if next == retry!(self, self.engine.store.successor::<D::Latch>(index, from)) {
                return Ok(());
            }
        }
    }

    /// Copies at most `limit` rows of one leaf (or heap page), from the cursor on.
    async fn collect(&self, cursor: &Cursor<'_>, limit: usize) -> Result<Chunk, Abort> {
        let Cursor { purpose, index, direction, own, .. } = *cursor;
        let range = (cursor.from(), cursor.until());
        let mut chunk = Chunk::default();
        let found = match own.filter(|_| D::OWNERS) {
            own if purpose.is_of_keys() => {
                let table = self.table_of(index)?;
                retry!(self, {
                    chunk.clear();
                    let wanted = |entry: &[u8]| own.is_none_or(|own| own.has(table, entry));
                    let visit = (wanted, |key: &[u8]| chunk.push(key, &[]));
                    self.engine.store.keys_chunk::<D::Latch>(index, range, direction, limit, visit)
                })
            }
            None => retry!(self, {
                chunk.clear();
                let push = |key: &[u8], row: &[u8]| chunk.push(key, row);
                self.engine.store.chunk::<D::Latch>(index, range.0, range.1, direction, limit, push)
            }),
            Some(own) => {
                let table = self.table_of(index)?;
                retry!(self, {
                    chunk.clear();
                    let (wanted, push) =
                        (|entry: &[u8]| own.has(table, entry), |key: &[u8], row: &[u8]| chunk.push(key, row));
                    self.engine.store.chunk_of::<D::Latch>(index, range, direction, limit, (wanted, push))
                })
            }
        };
        // Only a scan that locks gaps needs the key behind the range, and with owners that key may
        // be another worker's.
        chunk.end = match found {
            ChunkEnd::More(from) if D::OWNERS && cursor.ends_before(&from) => ChunkEnd::Done(None),
            found => found,
        };
        Ok(chunk)
    }
}
