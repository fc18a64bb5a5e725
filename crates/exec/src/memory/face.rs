//! The main-memory engine behind the trait [`Engine`].

use crate::engine::load::Load;
use crate::engine::maintenance::Maintenance;
use crate::engine::owners::NoOwners;
use crate::engine::prefetch::Prefetch;
use crate::engine::{
    Engine, EngineCounts, EngineFault, Holds, LockPoint, Recovered, Scope, Setup, WaitOrder,
};
use crate::executor::{Executor, Unpark};
use crate::local::Protection;
use crate::memory::awaiting::Awaiting;
use crate::memory::{
    MemoryAccess, MemoryEngine, MemoryFilling, MemoryLocalTxn, MemoryWorkerContext, abort_of,
};
use base::{Lsn, TableId};
use memstore::{InDoubt, PrefetchList, Refused, Txn};
use probe::{Component, LogCounts};
use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use store::NoteId;
use txn::{Abort, Direction, Flow, Range};
use wal::FlushBy;

/// The length of an epoch of a store at work, in ms. Freed memory is reused an epoch later.
const EPOCH_MS: u64 = 10;
/// With fewer other transactions than this, a worker that has run them flushes the log itself,
/// sooner than the log's thread would wake up.
const FEW: usize = 8;
/// Rows and versions that an idle worker frees at once: some tens of microseconds.
const TIDIED: usize = 128;
/// The longest interval between the ticker's looks at an idle store, in ms.
const IDLE_MS: u64 = 160;

impl Engine for MemoryEngine {
    const HOLDS: Holds = Holds::FromValidation;
    const SNAPSHOTS: bool = true;
    type WorkerContext = MemoryWorkerContext;
    type LocalTxn = MemoryLocalTxn;
    type RowAccess<'a> = MemoryAccess<'a>;
    type InDoubt = InDoubt;
    type Owners = NoOwners;

    fn open_in(
        files: Arc<dyn world::Files>,
        setup: &Setup,
    ) -> Result<(Self, Recovered<InDoubt>), EngineFault> {
        MemoryEngine::open_on(files, setup, |_| {})
    }

    fn close(self) -> Result<(), EngineFault> {
        Ok(self.store.wind_up()?)
    }

    fn shortage(&self) -> Option<String> {
        self.unwritten().clone().or_else(|| self.short_of_epochs())
    }

    fn fault(&self) -> Option<String> {
        self.store.log_fault().map(|fault| fault.to_string())
    }

    fn full(&self) -> Option<String> {
        self.store.log_refused().map(|fault| fault.to_string())
    }

    /// # Panics
    /// If there is no such worker, or another thread has its number.
    fn worker_context(self: &Arc<Self>, worker: usize, unpark: Unpark) -> MemoryWorkerContext {
        let number = worker;
        let worker = self.store.worker(number).expect("an instance numbers its workers");
        MemoryWorkerContext { worker: RefCell::new(worker), number, awaiting: Awaiting::new(unpark) }
    }

    fn leave(&self, _: &MemoryWorkerContext) {}

    fn protection_at_home(&self, _: &MemoryWorkerContext) -> Protection {
        Protection::Locks
    }

    fn local_txn(&self, _: &MemoryWorkerContext) -> MemoryLocalTxn {
        MemoryLocalTxn::new()
    }

    #[inline]
    fn begin(&self, ctx: &MemoryWorkerContext, txn: &mut MemoryLocalTxn, protection: Protection) {
        probe::part_begins();
        txn.protection = protection;
        (txn.rows, txn.logged) = (0, 0);
        txn.prepared = false;
        txn.order = WaitOrder::Upwards;
        let mut worker = ctx.worker.borrow_mut();
        match protection {
            Protection::Snapshot => txn.past = Some(worker.open_snapshot()),
            _ => txn.store_txn = Some(worker.begin()),
        }
    }

    fn protection(txn: &MemoryLocalTxn) -> Protection {
        txn.protection
    }

    fn set_wait_order(txn: &mut MemoryLocalTxn, order: WaitOrder) {
        txn.order = order;
    }

    fn wrote(txn: &MemoryLocalTxn) -> bool {
        txn.store_txn.as_ref().is_some_and(|store_txn| !store_txn.is_read_only())
    }

    #[inline]
    fn access<'a>(
        &'a self,
        ctx: &'a MemoryWorkerContext,
        executor: &'a Executor,
        txn: &'a mut MemoryLocalTxn,
    ) -> MemoryAccess<'a> {
        MemoryAccess { engine: self, ctx, executor, txn }
    }

    fn holds(&self, ctx: &MemoryWorkerContext, txn: &mut MemoryLocalTxn) -> bool {
        let mut worker = ctx.worker.borrow_mut();
        let mut confirm = |store_txn: &mut Txn| worker.confirm(store_txn, memstore::Scope::Local).is_ok();
        txn.store_txn.as_mut().is_none_or(|store_txn| store_txn.is_prepared() || confirm(store_txn))
    }

    #[inline]
    async fn validate(
        &self,
        ctx: &MemoryWorkerContext,
        executor: &Executor,
        txn: &mut MemoryLocalTxn,
        scope: Scope,
    ) -> Result<(), Abort> {
        if txn.past.is_some() {
            return Ok(());
        }
        loop {
            let validated = probe::within(Component::Locking, || {
                let mut worker = ctx.worker.borrow_mut();
                match scope {
                    Scope::Home => worker.validate(txn.store_txn(), memstore::Scope::Local),
                    Scope::Distributed => {
                        txn.prepared = true;
                        let has_turns = txn.store_txn().has_turns();
                        let prepared = worker.pre_commit(txn.store_txn(), memstore::Scope::Distributed);
                        self.ended(has_turns && prepared.is_ok());
                        prepared.map(drop)
                    }
                }
            });
            match validated {
                Ok(()) => return Ok(()),
                Err(Refused::Busy(row)) => Box::pin(self.wait(executor, txn.order, row)).await?,
                Err(refused) => return Err(abort_of(refused)),
            }
        }
    }

    #[inline]
    fn commit(&self, ctx: &MemoryWorkerContext, txn: &mut MemoryLocalTxn) -> Result<Lsn, Abort> {
        let awaited = txn.is_awaited();
        let Some(store_txn) = txn.store_txn.take() else {
            return Ok(Lsn(self.end_past(ctx, txn).max(txn.logged)));
        };
        probe::part_ends();
        let mut worker = ctx.worker.borrow_mut();
        let epoch = if store_txn.is_prepared() {
            self.stir();
            let committed = worker.post_commit(store_txn);
            self.ended(awaited);
            committed.epoch
        } else {
            self.commit_now(&mut worker, store_txn)?
        };
        Ok(Lsn(epoch.max(txn.logged)))
    }

    fn commit_with_note(
        &self,
        ctx: &MemoryWorkerContext,
        txn: &mut MemoryLocalTxn,
        note: &[u8],
    ) -> Result<(Lsn, NoteId), Abort> {
        let awaited = txn.is_awaited();
        // A transaction with local transactions elsewhere is validated before they are asked to
        // prepare.
        let Some(store_txn) = txn.store_txn.take_if(|store_txn| store_txn.is_prepared()) else {
            return Err(Abort::BadRequest);
        };
        probe::part_ends();
        self.stir();
        let (committed, id) = ctx.worker.borrow_mut().post_commit_with_note(store_txn, note);
        self.ended(awaited);
        Ok((Lsn(committed.epoch), NoteId(Lsn(id.0))))
    }

    fn forget(&self, ctx: &MemoryWorkerContext, note: NoteId) {
        self.stir();
        ctx.worker.borrow_mut().forget(memstore::NoteId(note.0.0));
    }

    fn prepare(
        &self,
        ctx: &MemoryWorkerContext,
        txn: &mut MemoryLocalTxn,
        note: &[u8],
        lock_point: LockPoint,
    ) -> Result<Lsn, Abort> {
        let mut worker = ctx.worker.borrow_mut();
        if lock_point == LockPoint::Reached {
            // All other local transactions of it are validated: no transaction can come between
            // them and this one.
            worker.release_reads(txn.store_txn());
            self.waiting.ended();
        }
        self.stir();
        worker.prepare(txn.store_txn(), note).map(Lsn).map_err(abort_of)
    }

    fn rollback(&self, ctx: &MemoryWorkerContext, txn: &mut MemoryLocalTxn) -> Result<(), Abort> {
        let awaited = txn.is_awaited();
        if let Some(store_txn) = txn.store_txn.take() {
            probe::part_ends();
            ctx.worker.borrow_mut().abort(store_txn);
            self.ended(awaited);
        }
        self.end_past(ctx, txn);
        Ok(())
    }

    /// A prepared transaction's rows stay locked: it may have been committed elsewhere.
    fn abandon(&self, ctx: &MemoryWorkerContext, txn: &mut MemoryLocalTxn) {
        let awaited = txn.is_awaited();
        if let Some(store_txn) = txn.store_txn.take() {
            probe::part_ends();
            if !store_txn.is_prepared() {
                ctx.worker.borrow_mut().abort(store_txn);
                self.ended(awaited);
            }
        }
        self.end_past(ctx, txn);
    }

    /// When another transaction holds its rows. That is a bug: prepared transactions held theirs at
    /// the same time before the crash.
    fn adopt(&self, ctx: &MemoryWorkerContext, in_doubt: InDoubt) -> MemoryLocalTxn {
        let adopted = ctx.worker.borrow_mut().adopt(in_doubt).map_err(|(refused, _)| refused);
        let store_txn = adopted.unwrap_or_else(|refused| panic!("a transaction in doubt: {refused}"));
        MemoryLocalTxn { store_txn: Some(store_txn), prepared: true, ..MemoryLocalTxn::new() }
    }

    fn horizon(&self, txn: &MemoryLocalTxn, ctx: &MemoryWorkerContext) -> Lsn {
        let worker = ctx.worker.borrow();
        let past = txn.past.as_ref().map_or(0, |past| worker.snapshot_depends_on(past));
        Lsn(txn.store_txn.as_ref().map_or(past, |store_txn| worker.depends_on(store_txn)))
    }

    #[inline]
    fn durable_now(&self, lsn: Lsn) -> Option<Result<(), Abort>> {
        self.known(lsn)
    }

    async fn durable(&self, ctx: &MemoryWorkerContext, lsn: Lsn, flush_by: FlushBy) -> Result<(), Abort> {
        self.await_durable(ctx, lsn, flush_by).await
    }

    fn flush_by(&self, others: usize) -> FlushBy {
        if others < FEW { FlushBy::Caller } else { FlushBy::Flusher }
    }

    async fn stable(&self, ctx: &MemoryWorkerContext, lsn: Lsn, flush_by: FlushBy) -> Result<(), Abort> {
        self.await_stable(ctx, lsn, flush_by).await
    }

    fn is_stable(&self, lsn: Lsn) -> bool {
        self.store.ask_stable(lsn.0)
    }

    #[inline]
    fn turn(self: &Arc<Self>, ctx: &MemoryWorkerContext) -> bool {
        ctx.awaiting.wake(|epoch| self.known(Lsn(epoch)).is_some())
    }

    fn counts(&self) -> EngineCounts {
        let log = self.store.log_stats();
        EngineCounts {
            log: LogCounts {
                bytes: log.bytes,
                records: log.records,
                flushes: log.flushes,
                fsyncs: log.fsyncs,
            },
            pages: self.store.used_bytes() / 8192,
            ..EngineCounts::default()
        }
    }
}

impl Maintenance for MemoryEngine {
    fn flush_log(&self) {
        self.store.flush();
    }

    fn flush_log_here(&self) {
        self.store.flush_here();
    }

    fn tidy(&self, ctx: &MemoryWorkerContext) -> bool {
        let mut worker = ctx.worker.borrow_mut();
        if !worker.has_garbage() {
            return false;
        }
        // Rows that cannot be freed yet wait for epochs to end, and there may be no commit that
        // ends them.
        self.stir();
        worker.may_collect() && worker.collect(TIDIED) > 0
    }

    fn is_quiet(&self, ctx: &MemoryWorkerContext) -> bool {
        ctx.awaiting.is_quiet(|epoch| self.known(Lsn(epoch)).is_some())
    }

    fn ready(&self) -> bool {
        false
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Begins epochs: one after the other while transactions commit, seldom otherwise.
    fn clean(&self, stop: &AtomicBool) {
        let mut pause = EPOCH_MS;
        while !stop.load(Ordering::Acquire) {
            let stopped = self.ticker.stopped.lock().unwrap_or_else(PoisonError::into_inner);
            let waited =
                self.ticker
                    .bell
                    .wait_timeout_while(stopped, Duration::from_millis(pause), |stopped| !*stopped);
            drop(waited);
            pause = (pause * 2).min(IDLE_MS);
            if self.stirred.swap(false, Ordering::Relaxed) {
                pause = EPOCH_MS;
                self.begin_epoch();
            }
        }
    }

    fn stop_cleaner(&self) {
        *self.ticker.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ticker.bell.notify_all();
    }

    fn checkpoint_if_due(self: &Arc<Self>, ctx: &MemoryWorkerContext) {
        if ctx.number == 0 && self.store.checkpoint_due() {
            self.checkpoint_beside();
        }
    }

    fn checkpoint(&self) -> Result<(), EngineFault> {
        Ok(self.store.checkpoint()?)
    }
}

impl Load for MemoryEngine {
    type Filling<'a> = MemoryFilling<'a>;
    type Filled = ();

    /// Looks for a row, under a worker number that the instance does not use.
    fn is_blank(&self) -> bool {
        let Ok(mut worker) = self.store.worker(self.spare) else { return false };
        let mut store_txn = worker.begin();
        let is_empty = |table: &super::Relation| match table {
            super::Relation::Table(table) => {
                let mut any = false;
                let found = |_: &[u8], _: &[u8]| {
                    any = true;
                    Flow::Enough
                };
                let seen = worker.scan(&mut store_txn, table.def.id, Range::ALL, Direction::Forward, found);
                seen.is_ok() && !any
            }
            _ => true,
        };
        let blank = self.relations.iter().all(is_empty);
        worker.abort(store_txn);
        blank
    }

    fn filling<'a>(&'a self, ctx: &'a MemoryWorkerContext) -> MemoryFilling<'a> {
        MemoryFilling::new(self, ctx)
    }

    fn filled(&self, filling: MemoryFilling<'_>) -> Result<(), String> {
        filling.finish().map_err(|abort| abort.name().to_owned())
    }

    fn assemble(&self, _: Vec<()>) -> Result<(), String> {
        Ok(())
    }

    fn back_memory(&self) {
        self.store.back_all();
    }
}

impl Prefetch for MemoryEngine {
    const PREFETCHES: bool = true;
    type PrefetchList = PrefetchList;

    #[inline]
    fn prefetch_hint(&self, ctx: &MemoryWorkerContext, list: &mut PrefetchList, table: TableId, key: &[u8]) {
        ctx.worker.borrow().prefetch_hint(list, table, key);
    }

    #[inline]
    fn prefetch_rows(&self, ctx: &MemoryWorkerContext, list: &mut PrefetchList) {
        ctx.worker.borrow().prefetch_rows(list);
    }
}
