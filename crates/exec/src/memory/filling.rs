//! A load into an empty store: small transactions, by all workers at once.

use crate::memory::{CUT, MemoryEngine, MemoryLocalTxn, MemoryWorkerContext, abort_of};
use base::TableId;
use memstore::{Refused, Worker};
use txn::{Abort, Inserted, NewRows, Row};

/// Access for a load. It takes new rows only, as in every engine.
pub struct MemoryFilling<'a> {
    engine: &'a MemoryEngine,
    ctx: &'a MemoryWorkerContext,
    txn: MemoryLocalTxn,
}

impl<'a> MemoryFilling<'a> {
    pub(super) fn new(engine: &'a MemoryEngine, ctx: &'a MemoryWorkerContext) -> Self {
        let mut txn = MemoryLocalTxn::new();
        txn.store_txn = Some(ctx.worker.borrow_mut().begin());
        MemoryFilling { engine, ctx, txn }
    }

    /// Commits the rows that are left.
    pub(super) fn finish(mut self) -> Result<(), Abort> {
        let mut worker = self.ctx.worker.borrow_mut();
        self.engine.cut(&mut worker, &mut self.txn)
    }
}

impl NewRows for MemoryFilling<'_> {
    fn put(&mut self, table: TableId, key: Option<&[u8]>, row: &[u8]) -> Result<Inserted, Abort> {
        let t = self.engine.table(table)?;
        let mut worker = self.ctx.worker.borrow_mut();
        let mut put = |txn: &mut MemoryLocalTxn, table, key: Option<&[u8]>, row: &[u8]| {
            put_in(&mut worker, txn, table, key, row).map_err(abort_of)
        };
        if put(&mut self.txn, table, key, row)? == Inserted::Exists {
            return Ok(Inserted::Exists);
        }
        for index in &t.def.indexes {
            let entry = t.def.entry_of(index, Row::new(&t.layout, row));
            put(&mut self.txn, index.id, Some(&entry), &[])?;
        }
        self.txn.rows += 1;
        if self.txn.rows >= CUT {
            self.engine.cut(&mut worker, &mut self.txn)?;
        }
        Ok(Inserted::Done)
    }
}

impl Drop for MemoryFilling<'_> {
    /// A load that is given up keeps only the rows it has committed.
    fn drop(&mut self) {
        if let Some(store_txn) = self.txn.store_txn.take() {
            self.ctx.worker.borrow_mut().abort(store_txn);
        }
    }
}

fn put_in(
    worker: &mut Worker,
    txn: &mut MemoryLocalTxn,
    table: TableId,
    key: Option<&[u8]>,
    row: &[u8],
) -> Result<Inserted, Refused> {
    match key {
        Some(key) => worker.insert(txn.store_txn(), table, key, row),
        None => worker.append(txn.store_txn(), table, row).map(|()| Inserted::Done),
    }
}
