//! Record operations of one transaction on a main-memory instance.
//!
//! The store works on bytes and never waits. This file adds columns, secondary indexes, and the
//! waits for rows that other transactions have prepared: an operation that meets such a row has
//! changed nothing and is repeated.

use crate::engine::WaitOrder;
use crate::executor::Executor;
use crate::local::Protection;
use crate::memory::{CUT, MemoryEngine, MemoryLocalTxn, MemoryWorkerContext, Table, abort_of};
use base::{Key, TableId};
use memstore::{Cause, Refused, RowId, Txn, Worker};
use probe::mark::{self, marked};
use probe::{Counter, Wait};
use std::task::Poll;
use txn::{Abort, Access, Direction, Flow, Inserted, Range, Row, RowMut};

/// Record access under `occ`: the rows of this instance as one local transaction sees them.
pub struct MemoryAccess<'a> {
    pub(super) engine: &'a MemoryEngine,
    pub(super) ctx: &'a MemoryWorkerContext,
    pub(super) executor: &'a Executor,
    pub(super) txn: &'a mut MemoryLocalTxn,
}

/// Repeats an operation of the store until no prepared row is in its way.
macro_rules! retry {
    ($access:expr, $op:expr) => {
        loop {
            match $op {
                Ok(value) => break value,
                // Boxed because it is rare, and the future of every operation would hold it.
                Err(Refused::Busy(row)) => {
                    Box::pin($access.engine.wait($access.executor, $access.txn.order, row)).await?
                }
                Err(Refused::NotReady) => Box::pin($access.past_written()).await?,
                Err(refused) => return Err(abort_of(refused)),
            }
        }
    };
}

/// The first interval between a waiting transaction's own checks, ns, doubled at each. A waiting
/// transaction is woken when a prepared transaction ends. It checks by itself too, because a turn
/// at a hot row ends with any transaction.
const FIRST_LOOK_NS: u64 = 4_000;
/// The longest such interval, ns.
const LAST_LOOK_NS: u64 = 256_000;
/// The longest wait, ns, where a wait may close a cycle over instances: longer than most decisions
/// take.
const SHORT_NS: u64 = 1_000_000;

/// A change of a secondary index.
enum EntryChange {
    Gone(Key),
    Come(Key),
}

impl MemoryEngine {
    /// Waits until the transaction that has prepared the row has ended.
    #[cold]
    pub(super) async fn wait(&self, executor: &Executor, order: WaitOrder, row: RowId) -> Result<(), Abort> {
        self.stir();
        let most = if order == WaitOrder::Upwards { self.wait_ns } else { self.wait_ns.min(SHORT_NS) };
        self.looking(executor, most, |cx| self.waiting.poll(&self.store, row, cx)).await
    }

    /// Waits until `poll` is ready, for at most `most` ns. Nothing need wake the task: it polls at
    /// intervals, too.
    async fn looking(
        &self,
        executor: &Executor,
        most: u64,
        mut poll: impl FnMut(&mut std::task::Context<'_>) -> Poll<()>,
    ) -> Result<(), Abort> {
        let deadline = world::now_ns() + most;
        let (mut pause, mut next) = (FIRST_LOOK_NS, 0);
        std::future::poll_fn(|cx| {
            let mut polled = poll(cx).map(Ok);
            let now = world::now_ns();
            if polled.is_pending() && now >= deadline {
                polled = Poll::Ready(Err(Abort::LockTimeout));
            } else if polled.is_pending() && now >= next {
                next = (now + pause).min(deadline);
                pause = (pause * 2).min(LAST_LOOK_NS);
                executor.timer(next, cx.waker().clone());
            }
            probe::parks(Wait::Lock, polled)
        })
        .await
    }
}

impl<'a> MemoryAccess<'a> {
    #[inline]
    fn with<R>(
        &mut self,
        op: impl FnOnce(&mut Worker, &mut Txn) -> Result<R, Refused>,
    ) -> Result<R, Refused> {
        op(&mut self.ctx.worker.borrow_mut(), self.txn.store_txn())
    }

    /// An operation on the past: a row that stays locked makes it wait, too.
    fn back_then<R>(&self, op: impl FnOnce(&mut Worker) -> Result<R, Refused>) -> Result<R, Refused> {
        let done = op(&mut self.ctx.worker.borrow_mut());
        done.map_err(|refused| match refused {
            Refused::Conflict(Cause::Locked) => Refused::NotReady,
            other => other,
        })
    }

    /// Waits until every transaction before the snapshot has written its rows.
    #[cold]
    async fn past_written(&mut self) -> Result<(), Abort> {
        let (engine, ctx, past) = (self.engine, self.ctx, self.txn.past.as_ref());
        let is_ready = || past.is_none_or(|past| ctx.worker.borrow().is_ready(past));
        let look = |_: &mut std::task::Context<'_>| if is_ready() { Poll::Ready(()) } else { Poll::Pending };
        engine.looking(self.executor, engine.wait_ns, look).await
    }

    /// To be called before a write.
    #[inline]
    fn may_write(&mut self) -> Result<(), Abort> {
        match self.txn.protection {
            Protection::Snapshot => Err(Abort::NeedsLocks),
            _ => self.quietly(),
        }
    }

    /// Counts a row of a [`Protection::Exclusive`] transaction, and from time to time cuts it, so
    /// that it forgets its reads.
    #[inline]
    fn quietly(&mut self) -> Result<(), Abort> {
        if self.txn.protection != Protection::Exclusive {
            return Ok(());
        }
        self.txn.rows += 1;
        if self.txn.rows < CUT {
            return Ok(());
        }
        self.engine.cut(&mut self.ctx.worker.borrow_mut(), self.txn)
    }

    /// Changes the index entries of one row.
    #[cold]
    async fn change_entries(&mut self, changes: Vec<(TableId, EntryChange)>) -> Result<(), Abort> {
        for (index, change) in changes {
            let done = match &change {
                EntryChange::Gone(key) => retry!(self, self.with(|w, txn| w.delete(txn, index, key))),
                EntryChange::Come(key) => {
                    retry!(self, self.with(|w, txn| w.insert(txn, index, key, &[]))) == Inserted::Done
                }
            };
            // The row and its entries were not read at one moment.
            if !done {
                return Err(Abort::Conflict);
            }
        }
        Ok(())
    }

    /// Visits the rows of a table of the store (an index is one, too). With `through`, visits the
    /// rows of that table in the order of its index of this number, and `f` gets the entries as
    /// keys.
    async fn scan_rows(
        &mut self,
        id: TableId,
        through: Option<(&Table, usize)>,
        range: Range<'_>,
        direction: Direction,
        f: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<(), Abort> {
        let _traced = marked::<{ mark::SCAN }>();
        let [mut at, mut next] = std::mem::take(&mut self.txn.keys);
        at.clear();
        loop {
            let rest = if at.is_empty() { range } else { behind(range, direction, &at) };
            let mut room = if self.txn.protection == Protection::Exclusive { CUT } else { u32::MAX };
            let mut over = false;
            next.clear();
            let visit = |key: &[u8], row: &[u8]| {
                probe::add(Counter::Records, u64::from(!row.is_empty()));
                over = f(key, row) == Flow::Enough;
                next.clear();
                next.extend_from_slice(key);
                room -= 1;
                if over || room == 0 { Flow::Enough } else { Flow::More }
            };
            let by = through.map(|(table, at)| (&table.def, &table.def.indexes[at]));
            let scanned = match (by, &self.txn.past) {
                (None, None) => self.with(|w, txn| w.scan(txn, id, rest, direction, visit)),
                (None, Some(past)) => self.back_then(|w| w.scan_past(past, id, rest, direction, visit)),
                (Some((def, by)), None) => self.with(|w, txn| {
                    w.scan_through(txn, (by.id, id), rest, direction, |e| def.key_in_entry(by, e), visit)
                }),
                (Some((def, by)), Some(past)) => self.back_then(|w| {
                    let tables = (by.id, id);
                    w.scan_through_past(past, tables, rest, direction, |e| def.key_in_entry(by, e), visit)
                }),
            };
            match scanned {
                Ok(()) if over || room > 0 => break,
                Ok(()) => self.engine.cut(&mut self.ctx.worker.borrow_mut(), self.txn)?,
                Err(Refused::Busy(row)) => {
                    Box::pin(self.engine.wait(self.executor, self.txn.order, row)).await?
                }
                Err(Refused::NotReady) => Box::pin(self.past_written()).await?,
                Err(refused) => return Err(abort_of(refused)),
            }
            if !next.is_empty() {
                std::mem::swap(&mut at, &mut next);
                from_behind(direction, &mut at);
            }
        }
        self.txn.keys = [at, next];
        Ok(())
    }
}

/// The rest of a range: from `bound` on upwards, or below it.
fn behind<'r>(range: Range<'r>, direction: Direction, bound: &'r [u8]) -> Range<'r> {
    match direction {
        Direction::Forward => Range { low: Some(bound), ..range },
        Direction::Backward => Range { high: Some(bound), ..range },
    }
}

/// Turns the last key of a scan into the bound at which the rest of it begins.
fn from_behind(direction: Direction, last: &mut Vec<u8>) {
    if direction == Direction::Forward {
        last.push(0);
    }
}

/// The changes of an update to the indexes of its table.
fn changes(table: &Table, old: &[u8], new: &[u8]) -> Vec<(TableId, EntryChange)> {
    let (old, new) = (Row::new(&table.layout, old), Row::new(&table.layout, new));
    let mut changes = Vec::new();
    for index in &table.def.indexes {
        let (gone, come) = (table.def.entry_of(index, old), table.def.entry_of(index, new));
        if gone != come {
            changes.push((index.id, EntryChange::Gone(gone)));
            changes.push((index.id, EntryChange::Come(come)));
        }
    }
    changes
}

impl Access for MemoryAccess<'_> {
    #[inline]
    async fn read<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        let _traced = marked::<{ mark::READ }>();
        self.quietly()?;
        let t = self.engine.table(table)?;
        let mut f = Some(f);
        let read = retry!(self, {
            let run = |bytes: &[u8]| f.take().map(|f| f(Row::new(&t.layout, bytes)));
            match &self.txn.past {
                None => self.with(|worker, txn| worker.read(txn, table, key, run)),
                Some(past) => self.back_then(|worker| worker.read_past(past, table, key, run)),
            }
        });
        probe::add(Counter::Records, u64::from(read.is_some()));
        Ok(read.flatten())
    }

    #[inline]
    async fn update<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        let _traced = marked::<{ mark::UPDATE }>();
        self.may_write()?;
        let t = self.engine.table(table)?;
        let mut f = Some(f);
        let mut moved = Vec::new();
        let is_indexed = !t.def.indexes.is_empty();
        let mut old = if is_indexed { std::mem::take(&mut self.txn.keys[0]) } else { Vec::new() };
        let updated = retry!(
            self,
            self.with(|worker, txn| {
                worker.update_within(txn, table, key, |bytes| {
                    if is_indexed {
                        old.clear();
                        old.extend_from_slice(bytes);
                    }
                    let mut row = RowMut::new(&t.layout, bytes);
                    let result = f.take().map(|f| f(&mut row));
                    let (set, touched) = (row.columns_set(), row.touched());
                    if set.meets(t.indexed) {
                        moved = changes(t, &old, bytes);
                    }
                    (result, touched)
                })
            })
        );
        if is_indexed {
            self.txn.keys[0] = old;
        }
        probe::add(Counter::Records, u64::from(updated.is_some()));
        if !moved.is_empty() {
            Box::pin(self.change_entries(moved)).await?;
        }
        Ok(updated.flatten())
    }

    #[inline]
    fn prefetch(&mut self, table: TableId, keys: &[Key]) {
        let _traced = marked::<{ mark::AHEAD }>();
        if self.txn.past.is_some() {
            return;
        }
        // The operation itself reports a table that does not exist.
        let _ = self.with(|worker, txn| worker.prefetch(txn, table, keys));
    }

    async fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<Inserted, Abort> {
        let _traced = marked::<{ mark::INSERT }>();
        self.may_write()?;
        let t = self.engine.table(table)?;
        let done = retry!(self, self.with(|worker, txn| worker.insert(txn, table, key, row)));
        if done == Inserted::Exists {
            return Ok(done);
        }
        probe::count(Counter::Records);
        for index in &t.def.indexes {
            let mut entry = std::mem::take(&mut self.txn.keys[0]);
            entry.clear();
            t.def.put_entry(index, Row::new(&t.layout, row), &mut entry);
            let come = retry!(self, self.with(|worker, txn| worker.insert(txn, index.id, &entry, &[])));
            self.txn.keys[0] = entry;
            // The row and its entries were not read at one moment.
            if come == Inserted::Exists {
                return Err(Abort::Conflict);
            }
        }
        Ok(done)
    }

    async fn append(&mut self, table: TableId, row: &[u8]) -> Result<(), Abort> {
        let _traced = marked::<{ mark::APPEND }>();
        self.may_write()?;
        self.engine.table(table)?;
        retry!(self, self.with(|worker, txn| worker.append(txn, table, row)));
        probe::count(Counter::Records);
        Ok(())
    }

    async fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        let _traced = marked::<{ mark::DELETE }>();
        self.may_write()?;
        let t = self.engine.table(table)?;
        if !t.def.indexes.is_empty() {
            let old = retry!(self, self.with(|worker, txn| worker.read(txn, table, key, <[u8]>::to_vec)));
            let Some(old) = old else { return Ok(false) };
            let entry =
                |index: &txn::IndexDef| EntryChange::Gone(t.def.entry_of(index, Row::new(&t.layout, &old)));
            let gone = t.def.indexes.iter().map(|index| (index.id, entry(index))).collect();
            Box::pin(self.change_entries(gone)).await?;
        }
        let done = retry!(self, self.with(|worker, txn| worker.delete(txn, table, key)));
        probe::add(Counter::Records, u64::from(done));
        Ok(done)
    }

    async fn scan(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        let (table, through) = self.engine.index(index)?;
        let through = through.map(|at| (table, at));
        let mut visit = |key: &[u8], row: &[u8]| f(key, Row::new(&table.layout, row));
        self.scan_rows(table.def.id, through, range, direction, &mut visit).await
    }

    async fn scan_for_update(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        f: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        let from = if direction == Direction::Forward { range.low } else { range.high };
        let (table, _) = self.engine.index(index)?;
        // Writes conflict at rows of the table, even where an index led to them.
        if let (Some(from), None) = (from, &self.txn.past) {
            retry!(self, self.with(|worker, txn| worker.queue_at(txn, table.def.id, from)));
        }
        std::pin::pin!(self.scan(index, range, direction, f)).await
    }

    async fn scan_keys(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8]) -> Flow,
    ) -> Result<(), Abort> {
        let (table, _) = self.engine.index(index)?;
        if table.def.key.is_empty() {
            return Ok(());
        }
        self.scan_rows(index, None, range, direction, &mut |key: &[u8], _: &[u8]| f(key)).await
    }
}
