//! The engines on pages behind the trait [`Engine`].

use super::adopting::Doubt;
use super::owners::moving::DrainGate;
use super::owners::page_ownership::{Hold, Parted};
use crate::branches::{BranchMessage, Meetings};
use crate::design::Design;
use crate::engine::load::Load;
use crate::engine::maintenance::Maintenance;
use crate::engine::prefetch::Prefetch;
use crate::engine::{
    Engine, EngineCounts, EngineFault, Holds, LockPoint, Recovered, Scope, Setup, WaitOrder,
};
use crate::executor::{Executor, Unpark};
use crate::local::{LocalTxn, Locking, Protection};
use crate::options::Size;
use crate::owners::Owners;
use crate::owners::mailboxes::Mailbox;
use crate::page_access::PageAccess;
use crate::paged::{PageEngine, PageFilling, PageOptions};
use base::Lsn;
use locks::LockOptions;
use pages::PoolOptions;
use probe::{LockWork, LogCounts};
use std::cell::{Cell, RefCell};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use store::{Loaded, NoteId, Store, StoreOptions};
use txn::Abort;
use wal::{FlushBy, LogOptions};

/// Buckets of an instance's lock table, a cache line each: more than a few hundred transactions
/// hold rows (escalation bounds the rows of each), and no more than fit into a core's own cache.
/// With 2^16 a lock costs a quarter more.
const LOCK_BUCKETS: usize = 1 << 14;

/// Buckets of one owner's table, which holds the locks of one worker's transactions.
const OWNER_BUCKETS: usize = 1 << 12;

/// The worker context of an engine on pages: the worker's number, and where workers own keys its
/// work under way with other workers. Only the worker's thread touches it.
pub struct PageWorkerContext {
    pub(super) worker: usize,
    mailbox: Option<Mailbox<BranchMessage>>,
    pub(super) meetings: RefCell<Meetings>,
    /// Branches that have ended here, in the boxes in which they travel.
    #[expect(
        clippy::vec_box,
        reason = "a branch goes into a message as it is, without being moved into a box again"
    )]
    pub(super) spare: RefCell<Vec<Box<LocalTxn>>>,
    /// Transactions named so far.
    pub(super) number: Cell<u64>,
    /// Branches that were sent to be undone and are not undone yet.
    pub(super) undoing: Cell<usize>,
    pub(super) hold: Cell<Hold>,
    /// Leaves with rows that may lie in the wrong pages.
    pub(super) parted: RefCell<Parted>,
    /// Whether the worker has begun to look through its leaves for such rows of an earlier opening.
    pub(super) looked: Cell<bool>,
    pub(super) gate: DrainGate,
}

impl PageWorkerContext {
    #[inline]
    pub(super) fn mailbox(&self) -> &Mailbox<BranchMessage> {
        self.mailbox.as_ref().expect("only owners send and get mail")
    }
}

/// The engine as one of [`crate::KeyOwners`].
#[inline]
fn itself<D: Design>(engine: &PageEngine<D>) -> &PageEngine<D> {
    engine
}

impl<D: Design> Engine for PageEngine<D> {
    const HOLDS: Holds = Holds::FromSteps;
    const AS_OWNERS: Option<fn(&Self) -> &Self> = if D::OWNERS { Some(itself) } else { None };
    type WorkerContext = PageWorkerContext;
    type LocalTxn = LocalTxn;
    type RowAccess<'a> = PageAccess<'a, D>;
    type InDoubt = Doubt;
    type Owners = Self;

    fn open_in(files: Arc<dyn world::Files>, setup: &Setup) -> Result<(Self, Recovered<Doubt>), EngineFault> {
        if D::LOCKING == Locking::WhileShared && setup.workers != 1 {
            return Err(EngineFault::OneWorker(setup.design, setup.workers));
        }
        let usual = StoreOptions::new(setup.durability, setup.pool_pages);
        let options = StoreOptions {
            log: LogOptions { insert: setup.options.log_insert, ..usual.log },
            trees: setup.options.trees,
            heaps: setup.options.heaps,
            // Where pages have owners, `divide` cuts the trees where the keys are cut.
            partitions: if setup.design.owns_pages() { 1 } else { setup.options.parts() },
            pool: PoolOptions { latching: setup.options.latching, ..PoolOptions::new(setup.pool_pages) },
            ..usual
        };
        let (store, found) = Store::open(files, &setup.dir, options)?;
        if store.schema().is_none() {
            store.create(&setup.schema)?;
        }
        let buckets = if D::OWNERS { OWNER_BUCKETS } else { LOCK_BUCKETS };
        let options = PageOptions {
            locks: LockOptions { buckets, tuning: setup.options.locks },
            lock_timeout_ns: setup.options.lock_timeout_ns(),
            waits_for_log: setup.durability.is_synced(),
        };
        let owners = if D::OWNERS { Some(owners_of(setup)?) } else { None };
        let mut engine = PageEngine::of(store, options, setup.workers, owners);
        if setup.design.owns_pages() {
            engine.divide(setup, found.in_doubt.len())?;
        }
        let recovered = Recovered {
            life: found.life,
            log_bytes: found.redo_bytes,
            in_doubt: engine.doubts(found.in_doubt),
            notes: found.notes,
        };
        Ok((engine, recovered))
    }

    fn close(self) -> Result<(), EngineFault> {
        Ok(self.into_store().close()?)
    }

    fn shortage(&self) -> Option<String> {
        self.store.pool().shortage()
    }

    fn fault(&self) -> Option<String> {
        self.store.fault().map(|fault| fault.to_string())
    }

    fn full(&self) -> Option<String> {
        self.full.get().cloned()
    }

    fn worker_context(self: &Arc<Self>, worker: usize, unpark: Unpark) -> PageWorkerContext {
        self.own();
        let ctx = PageWorkerContext {
            worker,
            mailbox: D::OWNERS.then(|| self.mailboxes.take(worker, unpark)),
            meetings: RefCell::default(),
            spare: RefCell::default(),
            number: Cell::new(0),
            undoing: Cell::new(0),
            hold: Cell::new(Hold::Nothing),
            parted: RefCell::default(),
            looked: Cell::new(false),
            gate: DrainGate::default(),
        };
        self.act(&ctx);
        self.take_in_doubt_locks(&ctx);
        ctx
    }

    fn leave(&self, ctx: &PageWorkerContext) {
        self.stop_acting(ctx);
        self.disown();
    }

    fn protection_at_home(&self, ctx: &PageWorkerContext) -> Protection {
        PageEngine::protection_at_home(self, ctx.worker)
    }

    fn local_txn(&self, ctx: &PageWorkerContext) -> LocalTxn {
        self.local_txn_of(ctx.worker)
    }

    #[inline]
    fn begin(&self, ctx: &PageWorkerContext, txn: &mut LocalTxn, protection: Protection) {
        self.begin_named(ctx, txn, protection);
    }

    fn protection(txn: &LocalTxn) -> Protection {
        txn.protection()
    }

    /// The time-out ends each of its waits in any case.
    fn set_wait_order(_: &mut LocalTxn, _: WaitOrder) {}

    fn wrote(txn: &LocalTxn) -> bool {
        txn.wrote()
    }

    #[inline]
    fn access<'a>(
        &'a self,
        _: &'a PageWorkerContext,
        executor: &'a Executor,
        txn: &'a mut LocalTxn,
    ) -> PageAccess<'a, D> {
        PageAccess::new(self, executor, txn)
    }

    #[inline]
    fn holds(&self, _: &PageWorkerContext, _: &mut LocalTxn) -> bool {
        true
    }

    /// Locks protect all it has read.
    #[inline]
    async fn validate(
        &self,
        _: &PageWorkerContext,
        _: &Executor,
        _: &mut LocalTxn,
        _: Scope,
    ) -> Result<(), Abort> {
        Ok(())
    }

    #[inline]
    fn commit(&self, ctx: &PageWorkerContext, txn: &mut LocalTxn) -> Result<Lsn, Abort> {
        if txn.branches.is_empty() {
            let committed = PageEngine::commit(self, txn);
            self.note_parted(ctx, &mut txn.store_txn);
            return committed;
        }
        let found = txn.branches.group.is_some();
        let committed = self.commit_branches(ctx, txn, None);
        if found {
            self.undoubted();
        }
        committed
    }

    fn commit_with_note(
        &self,
        ctx: &PageWorkerContext,
        txn: &mut LocalTxn,
        note: &[u8],
    ) -> Result<(Lsn, NoteId), Abort> {
        if txn.branches.is_empty() {
            let committed = PageEngine::commit_with_note(self, txn, note);
            self.note_parted(ctx, &mut txn.store_txn);
            return committed;
        }
        let found = txn.branches.group.is_some();
        let committed = self.commit_branches(ctx, txn, Some(note));
        if found {
            self.undoubted();
        }
        committed.map(|lsn| (lsn, NoteId(lsn)))
    }

    fn forget(&self, _: &PageWorkerContext, note: NoteId) {
        self.store.forget(note);
    }

    fn prepare(
        &self,
        _: &PageWorkerContext,
        txn: &mut LocalTxn,
        note: &[u8],
        lock_point: LockPoint,
    ) -> Result<Lsn, Abort> {
        PageEngine::prepare(self, txn, note, lock_point)
    }

    fn rollback(&self, ctx: &PageWorkerContext, txn: &mut LocalTxn) -> Result<(), Abort> {
        if txn.branches.is_empty() {
            let undone = PageEngine::rollback(self, txn);
            self.note_parted(ctx, &mut txn.store_txn);
            return undone;
        }
        let found = txn.branches.group.is_some();
        let others = self.rollback_branches(ctx, txn);
        let own = PageEngine::rollback(self, txn);
        // The transaction's own chain may hold keys of any owner, too.
        self.release_in_doubt(ctx, txn);
        self.note_parted(ctx, &mut txn.store_txn);
        if found {
            self.undoubted();
        }
        others.and(own)
    }

    fn abandon(&self, _: &PageWorkerContext, txn: &mut LocalTxn) {
        self.abandon_branches(txn);
        PageEngine::abandon(self, txn);
    }

    fn adopt(&self, ctx: &PageWorkerContext, doubt: Doubt) -> LocalTxn {
        self.take_up(ctx, doubt)
    }

    fn horizon(&self, txn: &LocalTxn, _: &PageWorkerContext) -> Lsn {
        PageEngine::horizon(self, txn)
    }

    #[inline]
    fn durable_now(&self, lsn: Lsn) -> Option<Result<(), Abort>> {
        PageEngine::durable_now(self, lsn)
    }

    async fn durable(&self, _: &Self::WorkerContext, lsn: Lsn, flush_by: FlushBy) -> Result<(), Abort> {
        PageEngine::durable(self, lsn, flush_by).await
    }

    async fn stable(&self, _: &Self::WorkerContext, lsn: Lsn, flush_by: FlushBy) -> Result<(), Abort> {
        PageEngine::stable(self, lsn, flush_by).await
    }

    fn is_stable(&self, lsn: Lsn) -> bool {
        PageEngine::is_stable(self, lsn)
    }

    #[inline]
    fn turn(self: &Arc<Self>, ctx: &PageWorkerContext) -> bool {
        self.own_wanted(ctx);
        let done = self.run_requests(ctx) | self.settle(ctx);
        PageEngine::turn(self) | done
    }

    fn counts(&self) -> EngineCounts {
        let (log, locks, pool) = (self.store.log().stats(), self.lock_stats(), self.store.pool().stats());
        EngineCounts {
            log: LogCounts {
                bytes: log.bytes,
                records: log.records,
                flushes: log.flushes,
                fsyncs: log.fsyncs,
            },
            locks: LockWork {
                table_requests: locks.granule_requests,
                inherited: locks.inherited,
                table_calls: locks.granule_calls,
                escalations: locks.escalations,
            },
            lock_waits: self.lock_waits(),
            pages: u64::from(pool.allocated),
            page_reads: pool.loaded,
            page_writes: pool.written,
        }
    }
}

impl<D: Design> Maintenance for PageEngine<D> {
    fn flush_log(&self) {
        PageEngine::flush_log(self);
    }

    fn flush_log_here(&self) {
        PageEngine::flush_log_here(self);
    }

    fn is_quiet(&self, ctx: &PageWorkerContext) -> bool {
        !D::OWNERS || ctx.mailbox().is_quiet()
    }

    fn ready(&self) -> bool {
        PageEngine::ready(self)
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        Some(self.store.pool().bell())
    }

    fn clean(&self, stop: &AtomicBool) {
        PageEngine::clean(self, stop);
    }

    fn stop_cleaner(&self) {
        PageEngine::stop_cleaner(self);
    }

    fn checkpoint_if_due(self: &Arc<Self>, ctx: &PageWorkerContext) {
        PageEngine::checkpoint_if_due(self, ctx.worker);
    }

    fn checkpoint(&self) -> Result<(), EngineFault> {
        Ok(self.store.checkpoint()?)
    }
}

impl<D: Design> Load for PageEngine<D> {
    type Filling<'a> = PageFilling<'a, D>;
    type Filled = Loaded;

    fn is_blank(&self) -> bool {
        matches!(self.store.is_blank::<D::Latch>(), Ok(true))
    }

    fn filling<'a>(&'a self, _: &'a PageWorkerContext) -> PageFilling<'a, D> {
        PageFilling::new(self)
    }

    fn filled(&self, filling: PageFilling<'_, D>) -> Result<Loaded, String> {
        filling.loader.finish::<D::Latch>().map_err(|stop| stop.to_string())
    }

    fn assemble(&self, all: Vec<Loaded>) -> Result<(), String> {
        let mut whole = Loaded::default();
        all.into_iter().for_each(|loaded| whole.merge(loaded));
        self.store.build_trees::<D::Latch>(whole).map_err(|stop| format!("the indexes: {stop}"))
    }

    fn back_memory(&self) {
        self.store.pool().back_all();
    }
}

impl<D: Design> Prefetch for PageEngine<D> {
    type PrefetchList = ();
}

/// One partition for each worker, or the requested number if that is more.
fn owners_of(setup: &Setup) -> Result<Owners, EngineFault> {
    let (partitions, sites) = (setup.options.parts(), setup.site_range.own.len());
    if !(Size { islands: 1, workers: setup.workers, sites }).has_room_for(partitions) {
        return Err(EngineFault::TooManyPartitions { partitions, sites });
    }
    let parts = partitions.max(setup.workers).min(sites.max(1));
    Ok(Owners::divided(&setup.schema, &setup.site_range, setup.workers, parts)?)
}
