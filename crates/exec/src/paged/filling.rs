//! The rows of an empty store on their way in: page by page, logged once, and the trees at the end.

use crate::design::Design;
use crate::paged::PageEngine;
use base::TableId;
use pages::Stop;
use std::marker::PhantomData;
use store::{Loader, Store, Table};
use txn::{Abort, Access, Direction, Flow, Inserted, Range, Row, RowMut};

/// Takes new rows only: nothing can be read before all are there.
pub struct PageFilling<'s, D> {
    store: &'s Store,
    pub(super) loader: Loader<'s>,
    design: PhantomData<D>,
}

impl<'s, D: Design> PageFilling<'s, D> {
    pub(super) fn new(engine: &'s PageEngine<D>) -> Self {
        PageFilling { store: &engine.store, loader: engine.store.loader(), design: PhantomData }
    }

    fn add(&mut self, table: TableId, key: Option<&[u8]>, row: &[u8]) -> Result<(), Abort> {
        let table: &'s Table = self.store.table(table).ok_or(Abort::BadRequest)?;
        self.loader.add::<D::Latch>(table, key, row).map_err(|stop| match stop {
            Stop::NoSpace => Abort::NoSpace,
            _ => Abort::Fault,
        })
    }
}

impl<D: Design> Access for PageFilling<'_, D> {
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

    /// A key that is there twice is found when the tree is built.
    async fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<Inserted, Abort> {
        self.add(table, Some(key), row).map(|()| Inserted::Done)
    }

    async fn append(&mut self, table: TableId, row: &[u8]) -> Result<(), Abort> {
        self.add(table, None, row)
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
