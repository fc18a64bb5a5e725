//! Storage that does nothing: every table has one row, which matches every key and forgets every
//! change.
//!
//! The cost of a transaction on it is the cost of the language alone. The same calls exist as plain
//! functions, for the hand-written transaction that the language is compared with.

use base::TableId;
use std::hint::black_box;
use txn::row::Layout;
use txn::step::{Steps, Transaction};
use txn::{Abort, Access, Direction, Flow, Inserted, Range, Row, RowBuf, RowMut, Schema};

/// The constant rows of a schema.
#[derive(Debug)]
pub struct NullStorage {
    tables: Vec<(TableId, Layout, Vec<u8>)>,
    scratch: Vec<u8>,
}

impl NullStorage {
    pub fn new(schema: &Schema) -> NullStorage {
        let row = |t| {
            let mut buf = RowBuf::new(t);
            buf.start();
            (t.id, Layout::of(t), buf.bytes().to_vec())
        };
        NullStorage { tables: schema.tables.iter().map(row).collect(), scratch: vec![] }
    }

    #[inline]
    fn table(&self, id: TableId) -> Option<&(TableId, Layout, Vec<u8>)> {
        self.tables.iter().find(|t| t.0 == id)
    }

    #[inline]
    pub fn read<R>(&mut self, table: TableId, key: &[u8], f: impl FnOnce(Row<'_>) -> R) -> Option<R> {
        black_box(key);
        self.table(table).map(|(_, layout, row)| f(Row::new(layout, row)))
    }

    /// Changes a copy, as an engine does.
    #[inline]
    pub fn update<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Option<R> {
        black_box(key);
        let (_, layout, row) = self.tables.iter().find(|t| t.0 == table)?;
        self.scratch.clear();
        self.scratch.extend_from_slice(row);
        let out = f(&mut RowMut::new(layout, &mut self.scratch));
        black_box(&self.scratch);
        Some(out)
    }

    #[inline]
    pub fn append(&mut self, table: TableId, row: &[u8]) {
        black_box((table, row));
    }
}

impl Access for NullStorage {
    async fn read<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        Ok(NullStorage::read(self, table, key, f))
    }

    async fn update<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        Ok(NullStorage::update(self, table, key, f))
    }

    async fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<Inserted, Abort> {
        black_box((table, key, row));
        Ok(Inserted::Done)
    }

    async fn append(&mut self, table: TableId, row: &[u8]) -> Result<(), Abort> {
        NullStorage::append(self, table, row);
        Ok(())
    }

    async fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        black_box((table, key));
        Ok(true)
    }

    async fn scan(
        &mut self,
        index: TableId,
        _: Range<'_>,
        _: Direction,
        mut f: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        let (_, layout, row) = self.table(index).ok_or(Abort::BadRequest)?;
        f(&[], Row::new(layout, row));
        Ok(())
    }
}

/// A transaction with all steps at home: the most common case in every deployment.
#[derive(Debug)]
pub struct NullTransaction<'a>(pub &'a mut NullStorage);

impl Transaction for NullTransaction<'_> {
    async fn all<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        steps.run_all(self.0).await
    }

    async fn last<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        steps.run_all(self.0).await
    }
}
