//! How a step touches rows.
//!
//! Every method is asynchronous because a lock wait or a page fault parks the transaction, never the worker. Under
//! a lock-based design each method takes the locks that make it serialisable before it returns; under an optimistic
//! one it records what it saw. Closures run on the bytes in place and never leave the thread.

use crate::{Abort, Route, Row, RowMut};
use base::{Key, TableId};

/// What an insert found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    Done,
    /// A row with that key is there; nothing was changed.
    Exists,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    Forward,
    Backward,
}

/// Whether a scan goes on after this row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    More,
    Enough,
}

/// Keys from `low` (inclusive) to `high` (exclusive); `None` is unbounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Range<'a> {
    pub low: Option<&'a [u8]>,
    pub high: Option<&'a [u8]>,
}

impl<'a> Range<'a> {
    pub const ALL: Range<'static> = Range { low: None, high: None };

    pub fn new(low: &'a [u8], high: &'a [u8]) -> Self {
        Range { low: Some(low), high: Some(high) }
    }
}

/// The rows of one instance, as one transaction sees them.
///
/// `key` is always the encoded primary key ([`base::Key`], the key columns in order). A table without a key takes
/// [`Access::append`] and scans only.
pub trait Access {
    /// Tells where the step about to run belongs.
    ///
    /// # Errors
    /// [`Abort::NotHere`] if that is another worker; nothing was done.
    fn enter(&mut self, _route: Route) -> Result<(), Abort> {
        Ok(())
    }

    /// From here on scans visit rows of these sites of the deployment only, as a share of a [`crate::Spread`] step does; with `None`
    /// they visit what they name. An engine whose instance has one owner for all its rows need not look.
    ///
    /// # Errors
    /// [`Abort::Conflict`] if some of them have another owner by now, [`Abort::BadRequest`] if they are none of the instance's.
    fn within(&mut self, _sites: Option<std::ops::Range<u32>>) -> Result<(), Abort> {
        Ok(())
    }

    /// Runs `f` on the row with this key; `None` if there is none (and none will appear before this transaction ends).
    async fn read<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>, Abort>;

    /// Tells which rows of a table will be read or updated next, in this order, so that fetching them from memory can
    /// overlap. A hint: it locks nothing, waits for nothing, changes no result, and may do nothing.
    fn ahead(&mut self, _table: TableId, _keys: &[Key]) {}

    /// Reads for update and writes back what `f` changed. Takes the exclusive lock from the start, so that two
    /// updaters never deadlock on an upgrade. `f` must not change key columns.
    async fn update<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<Option<R>, Abort>;

    async fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<Inserted, Abort>;

    /// Adds a row to a table without a key.
    async fn append(&mut self, table: TableId, row: &[u8]) -> Result<(), Abort>;

    /// Removes the row; `false` if there was none.
    async fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort>;

    /// Visits the rows of `range` in key order until `f` says [`Flow::Enough`]. `index` is the table itself (its
    /// primary key; a keyless table in storage order, whole) or one of its secondary indexes. The range visited is
    /// protected against phantoms. A scan of [`Range::ALL`] locks the whole table.
    async fn scan(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        f: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort>;

    /// As [`Access::scan`], of the keys alone, or of an index's entries, which end with the rows' keys: for who finds all that is
    /// wanted there. Rows are not looked at, where that can be spared; a table without a key has nothing to visit.
    async fn scan_keys(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8]) -> Flow,
    ) -> Result<(), Abort> {
        self.scan(index, range, direction, |key, _| f(key)).await
    }

    /// As [`Access::scan_keys`], by one who will update or delete one of the rows that the keys lead to. Where one lock stands for all
    /// of them, it is the exclusive one from the start.
    async fn scan_keys_for_update(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        f: impl FnMut(&[u8]) -> Flow,
    ) -> Result<(), Abort> {
        self.scan_keys(index, range, direction, f).await
    }

    /// As [`Access::scan`], by one who will perhaps update or delete what it visits: a queue's head, say. Where locks isolate,
    /// the rows are shared with readers and kept from others who scan them so, or change them; so two who take from one queue
    /// wait for each other at the row, not for each other's read locks.
    async fn scan_for_update(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        f: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        self.scan(index, range, direction, f).await
    }
}

/// The [`Access`] of whoever takes new rows and nothing else, as loading needs it: there is nothing to read before all are
/// there, so every other call is [`Abort::BadRequest`].
pub trait NewRows {
    /// Takes a row; `key` is `None` for a table without a key.
    ///
    /// # Errors
    /// Why it was not taken. A key that is there already may be told now ([`Inserted::Exists`]) or when all rows are there.
    fn put(&mut self, table: TableId, key: Option<&[u8]>, row: &[u8]) -> Result<Inserted, Abort>;
}

impl<N: NewRows> Access for N {
    async fn read<R>(
        &mut self,
        _: TableId,
        _: &[u8],
        _: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        Err(Abort::BadRequest)
    }

    async fn update<R>(
        &mut self,
        _: TableId,
        _: &[u8],
        _: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        Err(Abort::BadRequest)
    }

    async fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<Inserted, Abort> {
        self.put(table, Some(key), row)
    }

    async fn append(&mut self, table: TableId, row: &[u8]) -> Result<(), Abort> {
        self.put(table, None, row).map(drop)
    }

    async fn delete(&mut self, _: TableId, _: &[u8]) -> Result<bool, Abort> {
        Err(Abort::BadRequest)
    }

    async fn scan(
        &mut self,
        _: TableId,
        _: Range<'_>,
        _: Direction,
        _: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        Err(Abort::BadRequest)
    }
}
