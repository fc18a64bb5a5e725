//! How a step reads and writes rows.
//!
//! Every method is asynchronous because a lock wait or a page fault parks the transaction, never
//! the worker. Under a lock-based design each method takes the locks that make it serialisable
//! before it returns. Under an optimistic design it records the rows and ranges that it has read.
//! Closures run on the bytes in place and never leave the thread.

use crate::{Abort, Route, Row, RowMut};
use base::{Key, TableId};

/// The outcome of an insert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    Done,
    /// A row with that key exists; nothing was changed.
    Exists,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    Forward,
    Backward,
}

/// Whether a scan continues after this row.
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
/// `key` is always the encoded primary key ([`base::Key`], the key columns in order). A table
/// without a key supports only [`Access::append`] and scans.
pub trait Access {
    /// Announces the route of the step that is about to run.
    ///
    /// # Errors
    /// [`Abort::NotHere`] if the step belongs to another worker; nothing was done.
    fn enter(&mut self, _route: Route) -> Result<(), Abort> {
        Ok(())
    }

    /// From now on scans visit only rows of these sites of the deployment, as for a share of a
    /// [`crate::Spread`] step. `None` lifts the restriction. An engine may ignore this if one owner
    /// has all rows of its instance.
    ///
    /// # Errors
    /// [`Abort::Conflict`] if some of the sites have another owner by now, [`Abort::BadRequest`] if
    /// the instance has none of them.
    fn within(&mut self, _sites: Option<std::ops::Range<u32>>) -> Result<(), Abort> {
        Ok(())
    }

    /// Says that the next scan is likely to visit this many rows. A hint, which changes no outcome:
    /// an engine that looks at rows before it locks them looks at that many at once.
    fn expect(&mut self, _rows: usize) {}

    /// Whether the operations after this wait for locks (they do at first). One that would have to
    /// wait and may not is [`Abort::LockTimeout`] at once; it has done nothing, and others may
    /// follow it. An engine without locks ignores this.
    fn wait_for_locks(&mut self, _waits: bool) {}

    /// Runs `f` on the row with this key. `None` if there is none (and none will appear before this
    /// transaction ends).
    async fn read<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>, Abort>;

    /// Prefetch: announces the rows of a table that will be read or updated next, in this order, so
    /// that the engine can overlap fetching them from memory. A hint: it takes no lock, does not
    /// wait and changes no result. An engine may ignore it.
    fn prefetch(&mut self, _table: TableId, _keys: &[Key]) {}

    /// Reads for update and writes the changes of `f` back. Takes the exclusive lock from the
    /// start, so two updaters never deadlock on an upgrade. `f` must not change key columns.
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

    /// Visits the rows of `range` in key order until `f` returns [`Flow::Enough`]. `index` is the
    /// table itself (its primary key; a keyless table in storage order, whole) or one of its
    /// secondary indexes. The visited range is protected against phantoms. A scan of [`Range::ALL`]
    /// locks the whole table.
    async fn scan(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        f: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort>;

    /// As [`Access::scan`], over the keys alone, or over an index's entries, which end with the
    /// rows' keys. For callers that need no other column: rows are not read where that can be
    /// avoided. A table without a key has no keys to visit.
    async fn scan_keys(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8]) -> Flow,
    ) -> Result<(), Abort> {
        self.scan(index, range, direction, |key, _| f(key)).await
    }

    /// As [`Access::scan_keys`], for a caller that will update or delete one of the rows to which
    /// the keys lead. Where one lock covers all of them, it is exclusive from the start.
    async fn scan_keys_for_update(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        f: impl FnMut(&[u8]) -> Flow,
    ) -> Result<(), Abort> {
        self.scan_keys(index, range, direction, f).await
    }

    /// As [`Access::scan`], for a caller that may update or delete the rows that it visits, such as
    /// the head of a queue. Under locks, readers may share the rows, but other such scans and
    /// writers may not. So two transactions that take from one queue wait at the row, and do not
    /// deadlock on each other's read locks.
    async fn scan_for_update(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        f: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        self.scan(index, range, direction, f).await
    }

    /// As [`Access::scan`], without protection where there are locks: rows may be those of
    /// transactions that have not ended, and others may change them at once. For callers that read
    /// each row again under its lock. Without locks it is a scan.
    async fn look(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        f: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        self.scan(index, range, direction, f).await
    }
}

/// The [`Access`] of a consumer that only takes new rows, as loading needs it. Nothing can be read
/// before all rows are there, so every other call is [`Abort::BadRequest`].
pub trait NewRows {
    /// Takes a row; `key` is `None` for a table without a key.
    ///
    /// # Errors
    /// The reason why it was not taken. An existing key may be reported now ([`Inserted::Exists`])
    /// or once all rows are there.
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
