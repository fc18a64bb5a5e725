//! Locks on the entries of secondary indexes, so that a scan through an index needs no lock on the
//! table.
//!
//! An entry is a key in the index's own name space and is locked like a primary key: row X + gap X
//! by a transaction that inserts or deletes it, row S + gap S by a scan that meets it. The store
//! changes the secondary trees within the operation on the row and does not check the neighbours
//! there. So the neighbours are locked around that operation:
//!
//! - **Deleting** e: X on the gap of the key n behind it, repeated until n is still the next key
//!   *after* it is locked. From then on no key comes between, because an inserter needs Insert on
//!   the gap that it fills, and n itself cannot be deleted.
//! - **Inserting** e: Insert on the gap of the next key, and when e is there, once more on the key
//!   that is next then (a neighbour may have come in between, committed and been scanned). If a
//!   scan has locked that gap, the inserter waits for it with e already in the tree. The scan
//!   cannot return e before it has the lock on e.

use super::{PageAccess, gap_name};
use crate::design::Design;
use base::{Key, TableId, hash64};
use locks::{LockName, Mode};
use std::ops::Bound;
use store::{StoreFault, Table};
use txn::{Abort, Row, RowMut};

/// An entry that is about to be inserted into its index, and the gaps locked for that moment.
pub(super) struct NewEntry {
    index: TableId,
    key: Key,
    gaps: Vec<LockName>,
}

type Entry = (TableId, Key);

/// The entries of a row, one for each index of its table.
pub(super) fn of_row(table: &Table, row: &[u8]) -> Vec<Entry> {
    let entry = |row| move |index: &txn::IndexDef| (index.id, table.def.entry_of(index, row));
    table.def.indexes.iter().map(entry(Row::new(&table.layout, row))).collect()
}

/// The lock on the row that an entry leads to; `None` if the entry is not one of this index.
pub(super) fn row_name(table: &Table, index: TableId, entry: &[u8]) -> Option<LockName> {
    let def = table.def.indexes.iter().find(|i| i.id == index)?;
    let key = table.def.key_in_entry(def, entry)?;
    Some(LockName::key(table.def.id, hash64(&key)))
}

impl<D: Design> PageAccess<'_, D> {
    async fn next_gap(&mut self, index: TableId, key: &Key) -> Result<LockName, Abort> {
        let bound = Bound::Excluded(key.as_slice());
        let next = retry!(self, self.engine.store.successor::<D::Latch>(index, bound));
        Ok(gap_name(index, next.as_deref()))
    }

    /// Locks entries before they are inserted.
    pub(super) async fn lock_new(
        &mut self,
        table: &Table,
        entries: Vec<Entry>,
    ) -> Result<Vec<NewEntry>, Abort> {
        let mut new = Vec::with_capacity(entries.len());
        for (index, key) in entries {
            self.lock(table.def.id, LockName::key(index, hash64(&key)), Mode::ROW_AND_GAP_X).await?;
            let mut entry = NewEntry { index, key, gaps: Vec::new() };
            self.lock_gap(table.def.id, &mut entry).await?;
            new.push(entry);
        }
        Ok(new)
    }

    /// Locks the gaps again after the entries are inserted, and releases them all.
    pub(super) async fn settle_new(&mut self, table: TableId, entries: &mut [NewEntry]) -> Result<(), Abort> {
        for entry in entries.iter_mut() {
            self.lock_gap(table, entry).await?;
        }
        self.release_gaps(entries);
        Ok(())
    }

    /// Locks the gap that the entry is in or will be in, until the last gap locked is that one.
    async fn lock_gap(&mut self, table: TableId, entry: &mut NewEntry) -> Result<(), Abort> {
        loop {
            let gap = self.next_gap(entry.index, &entry.key).await?;
            if entry.gaps.last() == Some(&gap) {
                return Ok(());
            }
            self.lock(table, gap, Mode::GAP_INSERT).await?;
            entry.gaps.push(gap);
        }
    }

    pub(super) fn release_gaps(&mut self, entries: &[NewEntry]) {
        for gap in entries.iter().flat_map(|e| &e.gaps) {
            self.engine.locks(self.txn.owner).release_instant(&mut self.txn.locker, *gap);
        }
    }

    /// Locks an entry before it is deleted.
    async fn lock_old(&mut self, table: TableId, index: TableId, key: &Key) -> Result<(), Abort> {
        self.lock(table, LockName::key(index, hash64(key)), Mode::ROW_AND_GAP_X).await?;
        let mut gap = self.next_gap(index, key).await?;
        loop {
            self.lock(table, gap, Mode::GAP_X).await?;
            let now = self.next_gap(index, key).await?;
            if now == gap {
                return Ok(());
            }
            gap = now;
        }
    }

    /// Locks the entries of a locked row before it is deleted.
    pub(super) async fn lock_entries_of(&mut self, table: &Table, key: &[u8]) -> Result<(), Abort> {
        if table.def.indexes.is_empty() {
            return Ok(());
        }
        let Some(row) = self.copy(table, key).await? else { return Ok(()) };
        for (index, entry) in of_row(table, &row) {
            self.lock_old(table.def.id, index, &entry).await?;
        }
        Ok(())
    }

    async fn copy(&mut self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>, Abort> {
        Ok(retry!(self, self.engine.store.get::<D::Latch, _>(table, key, <[u8]>::to_vec)))
    }

    /// Completes an update of a locked row that the store has held back because it sets a column of
    /// an index. It locks the entries that change before the store changes anything.
    pub(super) async fn update_with_entries(&mut self, table: &Table, key: &[u8]) -> Result<(), Abort> {
        let (old, row) = self.txn.store_txn.held_back();
        let (mut gone, mut come) = (of_row(table, old), of_row(table, row));
        let row = row.to_vec();
        let same: Vec<bool> = gone.iter().zip(&come).map(|(old, new)| old == new).collect();
        let mut changed = same.iter().map(|same| !same);
        gone.retain(|_| changed.next() == Some(true));
        let mut changed = same.iter().map(|same| !same);
        come.retain(|_| changed.next() == Some(true));
        for (index, entry) in &gone {
            self.lock_old(table.def.id, *index, entry).await?;
        }
        let mut new = self.lock_new(table, come).await?;
        let put = |to: &mut RowMut<'_>| to.replace(&row);
        let updated =
            retry!(self, self.engine.store.update::<D::Latch, _>(&mut self.txn.store_txn, table, key, put));
        if updated.is_none() {
            let what = "a locked row vanished while it was updated".to_owned();
            self.engine.store.poison(StoreFault::Broken { table: table.def.id, what });
            return Err(Abort::Fault);
        }
        self.settle_new(table.def.id, &mut new).await
    }
}
