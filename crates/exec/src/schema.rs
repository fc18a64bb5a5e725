//! Changes of the schema, and partial rollback.
//!
//! A change of a table takes X on the table by name, to the transaction's end: no other transaction
//! is at work on the table. A transaction that waits for that lock looks the table up after it is
//! granted, so it finds the changed table. The work itself blocks for pages, and its worker runs no
//! other transaction meanwhile.

use crate::design::Design;
use crate::page_access::PageAccess;
use base::TableId;
use locks::Mode;
use store::{Savepoint, StoreFault};
use txn::{Abort, IndexDef, TableDef};

/// Why the schema was not changed. Nothing was changed; except after an abort, the transaction may
/// go on.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refused {
    #[error("the transaction must end: {0:?}")]
    Abort(Abort),
    #[error(transparent)]
    Store(#[from] StoreFault),
}

impl From<Abort> for Refused {
    fn from(abort: Abort) -> Self {
        Refused::Abort(abort)
    }
}

impl<D: Design> PageAccess<'_, D> {
    /// Creates a table with its indexes, unless the same table exists already.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn create_table(&mut self, def: &TableDef) -> Result<(), Refused> {
        self.lock_table(def.id, Mode::X).await?;
        Ok(self.engine.store.create_table::<D::Latch>(&mut self.txn.store_txn, def)?)
    }

    /// Drops a table and its indexes.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn drop_table(&mut self, id: TableId) -> Result<(), Refused> {
        self.lock_table(id, Mode::X).await?;
        Ok(self.engine.store.drop_table::<D::Latch>(&mut self.txn.store_txn, id)?)
    }

    /// Creates an index of `table` and fills it from the table's rows.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn create_index(&mut self, table: TableId, def: &IndexDef) -> Result<(), Refused> {
        self.lock_table(table, Mode::X).await?;
        Ok(self.engine.store.create_index::<D::Latch>(&mut self.txn.store_txn, table, def)?)
    }

    /// Drops an index of `table`.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn drop_index(&mut self, table: TableId, id: TableId) -> Result<(), Refused> {
        self.lock_table(table, Mode::X).await?;
        Ok(self.engine.store.drop_index::<D::Latch>(&mut self.txn.store_txn, id)?)
    }

    /// The current point of the local transaction, for [`PageAccess::rollback_to`].
    pub fn savepoint(&self) -> Savepoint {
        self.engine.store.savepoint(&self.txn.store_txn)
    }

    /// Undoes the changes of the local transaction since `savepoint`. Its locks stay, and it goes
    /// on from there.
    ///
    /// # Errors
    /// [`Abort`]: the whole local transaction must be rolled back.
    ///
    /// # Panics
    /// If the savepoint belongs to another transaction, or was rolled back over.
    pub async fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<(), Abort> {
        let mut seat = None;
        loop {
            match self.engine.store.rollback_to::<D::Latch>(&mut self.txn.store_txn, savepoint) {
                Ok(()) => return Ok(()),
                Err(stop) => self.engine.resume(stop, self.txn.protection, &mut seat).await?,
            }
        }
    }
}
