//! A load into an empty store: heap pages are filled one by one and logged once, and the trees are
//! built at the end.

use crate::design::Design;
use crate::paged::PageEngine;
use base::TableId;
use std::marker::PhantomData;
use store::{Loader, Store, Table};
use txn::{Abort, Inserted, NewRows};

/// Access for a load. It takes new rows only: none can be read before all are there.
pub struct PageFilling<'s, D> {
    store: &'s Store,
    pub(super) loader: Loader<'s>,
    design: PhantomData<D>,
}

impl<'s, D: Design> PageFilling<'s, D> {
    pub(super) fn new(engine: &'s PageEngine<D>) -> Self {
        PageFilling { store: &engine.store, loader: engine.store.loader(), design: PhantomData }
    }
}

impl<D: Design> NewRows for PageFilling<'_, D> {
    /// A duplicate key is found when the tree is built.
    fn put(&mut self, table: TableId, key: Option<&[u8]>, row: &[u8]) -> Result<Inserted, Abort> {
        let table: &Table = self.store.table(table).ok_or(Abort::BadRequest)?;
        let added = self.loader.add::<D::Latch>(table, key, row);
        added.map(|()| Inserted::Done).map_err(|stop| match stop {
            stop if stop.is_want_of_room() => Abort::NoSpace,
            _ => Abort::Fault,
        })
    }
}
