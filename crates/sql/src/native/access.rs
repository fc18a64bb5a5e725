//! [`Access`] behind one pointer, for steps that the engine does not know when it is compiled.

use base::TableId;
use std::future::Future;
use std::pin::Pin;
use txn::{Abort, Access, Direction, Flow, Inserted, Range, Row, RowMut};

/// A future that stays on its thread.
pub(crate) type Local<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// The methods of [`Access`] that steps in Rust need. See there.
pub(crate) trait AnyAccess {
    fn read<'a>(
        &'a mut self,
        table: TableId,
        key: &'a [u8],
        visit: &'a mut dyn FnMut(Row<'_>),
    ) -> Local<'a, Result<bool, Abort>>;

    fn update<'a>(
        &'a mut self,
        table: TableId,
        key: &'a [u8],
        change: &'a mut dyn FnMut(&mut RowMut<'_>),
    ) -> Local<'a, Result<bool, Abort>>;

    fn insert<'a>(
        &'a mut self,
        table: TableId,
        key: &'a [u8],
        row: &'a [u8],
    ) -> Local<'a, Result<Inserted, Abort>>;

    fn delete<'a>(&'a mut self, table: TableId, key: &'a [u8]) -> Local<'a, Result<bool, Abort>>;

    fn scan<'a>(
        &'a mut self,
        table: TableId,
        range: Range<'a>,
        direction: Direction,
        visit: &'a mut dyn FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Local<'a, Result<(), Abort>>;
}

impl<A: Access> AnyAccess for A {
    fn read<'a>(
        &'a mut self,
        table: TableId,
        key: &'a [u8],
        visit: &'a mut dyn FnMut(Row<'_>),
    ) -> Local<'a, Result<bool, Abort>> {
        Box::pin(async move { Ok(Access::read(self, table, key, visit).await?.is_some()) })
    }

    fn update<'a>(
        &'a mut self,
        table: TableId,
        key: &'a [u8],
        change: &'a mut dyn FnMut(&mut RowMut<'_>),
    ) -> Local<'a, Result<bool, Abort>> {
        Box::pin(async move { Ok(Access::update(self, table, key, change).await?.is_some()) })
    }

    fn insert<'a>(
        &'a mut self,
        table: TableId,
        key: &'a [u8],
        row: &'a [u8],
    ) -> Local<'a, Result<Inserted, Abort>> {
        Box::pin(Access::insert(self, table, key, row))
    }

    fn delete<'a>(&'a mut self, table: TableId, key: &'a [u8]) -> Local<'a, Result<bool, Abort>> {
        Box::pin(Access::delete(self, table, key))
    }

    fn scan<'a>(
        &'a mut self,
        table: TableId,
        range: Range<'a>,
        direction: Direction,
        visit: &'a mut dyn FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Local<'a, Result<(), Abort>> {
        Box::pin(Access::scan(self, table, range, direction, visit))
    }
}
