//! [`Access`] behind one pointer.

use super::Local;
use crate::{Abort, Access, Direction, Flow, Inserted, Range, Route, Row, RowMut};
use base::{Key, TableId};

/// Takes the key of an entry.
type VisitKey<'a> = &'a mut dyn FnMut(&[u8]) -> Flow;
/// Takes a row and the key by which it was found.
type VisitRow<'a> = &'a mut dyn FnMut(&[u8], Row<'_>) -> Flow;

/// The methods of [`Access`]; see there. `read` and `update` call their closure at most once, and
/// return whether there is such a row.
pub trait AnyAccess {
    fn enter(&mut self, route: Route) -> Result<(), Abort>;
    fn within(&mut self, sites: Option<std::ops::Range<u32>>) -> Result<(), Abort>;
    fn prefetch(&mut self, table: TableId, keys: &[Key]);
    fn expect(&mut self, rows: usize);
    fn wait_for_locks(&mut self, waits: bool);

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

    fn append<'a>(&'a mut self, table: TableId, row: &'a [u8]) -> Local<'a, Result<(), Abort>>;

    fn delete<'a>(&'a mut self, table: TableId, key: &'a [u8]) -> Local<'a, Result<bool, Abort>>;

    fn scan<'a>(
        &'a mut self,
        index: TableId,
        range: Range<'a>,
        direction: Direction,
        visit: VisitRow<'a>,
    ) -> Local<'a, Result<(), Abort>>;

    fn scan_for_update<'a>(
        &'a mut self,
        index: TableId,
        range: Range<'a>,
        direction: Direction,
        visit: VisitRow<'a>,
    ) -> Local<'a, Result<(), Abort>>;

    fn look<'a>(
        &'a mut self,
        index: TableId,
        range: Range<'a>,
        direction: Direction,
        visit: VisitRow<'a>,
    ) -> Local<'a, Result<(), Abort>>;

    fn scan_keys<'a>(
        &'a mut self,
        index: TableId,
        range: Range<'a>,
        direction: Direction,
        visit: VisitKey<'a>,
    ) -> Local<'a, Result<(), Abort>>;

    fn scan_keys_for_update<'a>(
        &'a mut self,
        index: TableId,
        range: Range<'a>,
        direction: Direction,
        visit: VisitKey<'a>,
    ) -> Local<'a, Result<(), Abort>>;
}

impl<A: Access> AnyAccess for A {
    fn enter(&mut self, route: Route) -> Result<(), Abort> {
        Access::enter(self, route)
    }

    fn within(&mut self, sites: Option<std::ops::Range<u32>>) -> Result<(), Abort> {
        Access::within(self, sites)
    }

    fn prefetch(&mut self, table: TableId, keys: &[Key]) {
        Access::prefetch(self, table, keys);
    }

    fn expect(&mut self, rows: usize) {
        Access::expect(self, rows);
    }

    fn wait_for_locks(&mut self, waits: bool) {
        Access::wait_for_locks(self, waits);
    }

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

    fn append<'a>(&'a mut self, table: TableId, row: &'a [u8]) -> Local<'a, Result<(), Abort>> {
        Box::pin(Access::append(self, table, row))
    }

    fn delete<'a>(&'a mut self, table: TableId, key: &'a [u8]) -> Local<'a, Result<bool, Abort>> {
        Box::pin(Access::delete(self, table, key))
    }

    fn scan<'a>(
        &'a mut self,
        index: TableId,
        range: Range<'a>,
        direction: Direction,
        visit: VisitRow<'a>,
    ) -> Local<'a, Result<(), Abort>> {
        Box::pin(Access::scan(self, index, range, direction, visit))
    }

    fn scan_for_update<'a>(
        &'a mut self,
        index: TableId,
        range: Range<'a>,
        direction: Direction,
        visit: VisitRow<'a>,
    ) -> Local<'a, Result<(), Abort>> {
        Box::pin(Access::scan_for_update(self, index, range, direction, visit))
    }

    fn look<'a>(
        &'a mut self,
        index: TableId,
        range: Range<'a>,
        direction: Direction,
        visit: VisitRow<'a>,
    ) -> Local<'a, Result<(), Abort>> {
        Box::pin(Access::look(self, index, range, direction, visit))
    }

    fn scan_keys<'a>(
        &'a mut self,
        index: TableId,
        range: Range<'a>,
        direction: Direction,
        visit: VisitKey<'a>,
    ) -> Local<'a, Result<(), Abort>> {
        Box::pin(Access::scan_keys(self, index, range, direction, visit))
    }

    fn scan_keys_for_update<'a>(
        &'a mut self,
        index: TableId,
        range: Range<'a>,
        direction: Direction,
        visit: VisitKey<'a>,
    ) -> Local<'a, Result<(), Abort>> {
        Box::pin(Access::scan_keys_for_update(self, index, range, direction, visit))
    }
}

/// An [`Access`] that calls another through a pointer.
pub struct ErasedAccess<'a>(pub &'a mut dyn AnyAccess);

impl Access for ErasedAccess<'_> {
    fn enter(&mut self, route: Route) -> Result<(), Abort> {
        self.0.enter(route)
    }

    fn within(&mut self, sites: Option<std::ops::Range<u32>>) -> Result<(), Abort> {
        self.0.within(sites)
    }

    async fn read<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        let (mut f, mut found) = (Some(f), None);
        let visit = &mut |row: Row<'_>| found = f.take().map(|f| f(row));
        self.0.read(table, key, visit).await?;
        Ok(found)
    }

    fn prefetch(&mut self, table: TableId, keys: &[Key]) {
        self.0.prefetch(table, keys);
    }

    fn expect(&mut self, rows: usize) {
        self.0.expect(rows);
    }

    fn wait_for_locks(&mut self, waits: bool) {
        self.0.wait_for_locks(waits);
    }

    async fn update<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        let (mut f, mut found) = (Some(f), None);
        let change = &mut |row: &mut RowMut<'_>| found = f.take().map(|f| f(row));
        self.0.update(table, key, change).await?;
        Ok(found)
    }

    async fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<Inserted, Abort> {
        self.0.insert(table, key, row).await
    }

    async fn append(&mut self, table: TableId, row: &[u8]) -> Result<(), Abort> {
        self.0.append(table, row).await
    }

    async fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        self.0.delete(table, key).await
    }

    async fn scan(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        self.0.scan(index, range, direction, &mut f).await
    }

    async fn scan_for_update(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        self.0.scan_for_update(index, range, direction, &mut f).await
    }

    async fn look(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        self.0.look(index, range, direction, &mut f).await
    }

    async fn scan_keys(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8]) -> Flow,
    ) -> Result<(), Abort> {
        self.0.scan_keys(index, range, direction, &mut f).await
    }

    async fn scan_keys_for_update(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8]) -> Flow,
    ) -> Result<(), Abort> {
        self.0.scan_keys_for_update(index, range, direction, &mut f).await
    }
}
