//! A load into an empty store: small transactions, by all workers at once.

use crate::memory::{CUT, MemoryEngine, MemoryPart, MemoryWorkerContext, abort_of};
use base::TableId;
use memstore::{Refused, Worker};
use txn::{Abort, Inserted, NewRows, Row};

/// Access for a load. It takes new rows only, as in every engine.
pub struct MemoryFilling<'a> {
    engine: &'a MemoryEngine,
    ctx: &'a MemoryWorkerContext,
    part: MemoryPart,
}

impl<'a> MemoryFilling<'a> {
    pub(super) fn new(engine: &'a MemoryEngine, ctx: &'a MemoryWorkerContext) -> Self {
        let mut part = MemoryPart::new();
        part.txn = Some(ctx.worker.borrow_mut().begin());
        MemoryFilling { engine, ctx, part }
    }

    /// Commits the rows that are left.
    pub(super) fn finish(mut self) -> Result<(), Abort> {
        let mut worker = self.ctx.worker.borrow_mut();
        self.engine.cut(&mut worker, &mut self.part)
    }
}

impl NewRows for MemoryFilling<'_> {
    fn put(&mut self, table: TableId, key: Option<&[u8]>, row: &[u8]) -> Result<Inserted, Abort> {
        let t = self.engine.table(table)?;
        let mut worker = self.ctx.worker.borrow_mut();
        let mut put = |part: &mut MemoryPart, table, key: Option<&[u8]>, row: &[u8]| {
            put_in(&mut worker, part, table, key, row).map_err(abort_of)
        };
        if put(&mut self.part, table, key, row)? == Inserted::Exists {
            return Ok(Inserted::Exists);
        }
        for index in &t.def.indexes {
            let entry = t.def.entry_of(index, Row::new(&t.layout, row));
            put(&mut self.part, index.id, Some(&entry), &[])?;
        }
        self.part.rows += 1;
        if self.part.rows >= CUT {
            self.engine.cut(&mut worker, &mut self.part)?;
        }
        Ok(Inserted::Done)
    }
}

impl Drop for MemoryFilling<'_> {
    /// A load that is given up keeps only the rows it has committed.
    fn drop(&mut self) {
        if let Some(txn) = self.part.txn.take() {
            self.ctx.worker.borrow_mut().abort(txn);
        }
    }
}

fn put_in(
    worker: &mut Worker,
    part: &mut MemoryPart,
    table: TableId,
    key: Option<&[u8]>,
    row: &[u8],
) -> Result<Inserted, Refused> {
    match key {
        Some(key) => worker.insert(part.txn(), table, key, row),
        None => worker.append(part.txn(), table, row).map(|()| Inserted::Done),
    }
}
