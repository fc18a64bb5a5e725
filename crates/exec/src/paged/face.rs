//! The page-based engines as an instance sees them.

use crate::design::Design;
use crate::engine::{Engine, EngineCounts, EngineFault, LockPoint, Recovered, Scope, Setup};
use crate::executor::Executor;
use crate::here::Here;
use crate::local::{Locking, Part, Protection};
use crate::paged::{EngineOptions, PageEngine, PageFilling};
use base::Lsn;
use locks::LockOptions;
use probe::{LockWork, LogCounts};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use store::{InDoubt, Loaded, NoteId, Store, StoreOptions};
use txn::Abort;
use wal::{Durability, Urge};

/// Buckets of an instance's lock table, a cache line each: more than a few hundred transactions hold rows (escalation bounds
/// what each holds), and no more than a core's own cache takes; with 2^16 a lock costs a quarter more.
const LOCK_BUCKETS: usize = 1 << 14;

/// What one worker has of a page-based engine to itself: its number.
#[derive(Debug)]
pub struct PageDesk {
    worker: usize,
}

impl<D: Design> Engine for PageEngine<D> {
    type Desk = PageDesk;
    type Part = Part;
    type Here<'a> = Here<'a, D>;
    type Filling<'a> = PageFilling<'a, D>;
    type Filled = Loaded;
    type InDoubt = InDoubt;

    fn open(setup: &Setup) -> Result<(Self, Recovered<InDoubt>), EngineFault> {
        if D::LOCKING == Locking::WhileShared && setup.workers != 1 {
            return Err(EngineFault::OneWorker(setup.design, setup.workers));
        }
        let options = StoreOptions::new(setup.durability, setup.pool_pages);
        let (store, found) = Store::open(world::real(), &setup.dir, options)?;
        if store.schema().is_none() {
            store.create(&setup.schema)?;
        }
        let mut recovered = Recovered {
            life: found.life,
            log_bytes: found.redo_bytes,
            in_doubt: Vec::new(),
            notes: found.notes,
        };
        for mut doubt in found.in_doubt {
            recovered.in_doubt.push((std::mem::take(&mut doubt.note), doubt));
        }
        let options = EngineOptions {
            locks: LockOptions { buckets: LOCK_BUCKETS, tuning: setup.locks },
            lock_timeout_ns: setup.lock_timeout_ns,
            waits_for_log: setup.durability == Durability::Sync,
        };
        Ok((PageEngine::new(store, options), recovered))
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

    fn desk(self: &Arc<Self>, worker: usize) -> PageDesk {
        self.own();
        PageDesk { worker }
    }

    fn leave(&self, _: &PageDesk) {
        self.disown();
    }

    fn protection_at_home(&self) -> Protection {
        PageEngine::protection_at_home(self)
    }

    fn part(&self, _: &PageDesk) -> Part {
        PageEngine::part(self)
    }

    #[inline]
    fn begin(&self, desk: &PageDesk, part: &mut Part, protection: Protection) {
        PageEngine::begin(self, part, desk.worker, protection);
    }

    fn protection(part: &Part) -> Protection {
        part.protection()
    }

    fn wrote(part: &Part) -> bool {
        part.wrote()
    }

    #[inline]
    fn here<'a>(&'a self, _: &'a PageDesk, executor: &'a Executor, part: &'a mut Part) -> Here<'a, D> {
        Here { engine: self, executor, part }
    }

    /// Its locks hold what it has seen.
    #[inline]
    async fn certify(&self, _: &PageDesk, _: &Executor, _: &mut Part, _: Scope) -> Result<(), Abort> {
        Ok(())
    }

    #[inline]
    fn commit(&self, _: &PageDesk, part: &mut Part) -> Result<Lsn, Abort> {
        PageEngine::commit(self, part)
    }

    fn commit_with_note(&self, _: &PageDesk, part: &mut Part, note: &[u8]) -> Result<(Lsn, NoteId), Abort> {
        PageEngine::commit_with_note(self, part, note)
    }

    fn forget(&self, note: NoteId) {
        self.store.forget(note);
    }

    fn prepare(
        &self,
        _: &PageDesk,
        part: &mut Part,
        note: &[u8],
        lock_point: LockPoint,
    ) -> Result<Lsn, Abort> {
        PageEngine::prepare(self, part, note, lock_point)
    }

    fn rollback(&self, _: &PageDesk, part: &mut Part) -> Result<(), Abort> {
        PageEngine::rollback(self, part)
    }

    fn abandon(&self, _: &PageDesk, part: &mut Part) {
        PageEngine::abandon(self, part);
    }

    fn adopt(&self, _: &PageDesk, in_doubt: InDoubt) -> Part {
        PageEngine::adopt(self, in_doubt.txn, &in_doubt.touched)
    }

    fn horizon(&self) -> Lsn {
        PageEngine::horizon(self)
    }

    #[inline]
    fn durable_now(&self, lsn: Lsn) -> Option<Result<(), Abort>> {
        PageEngine::durable_now(self, lsn)
    }

    async fn durable(&self, lsn: Lsn, urge: Urge) -> Result<(), Abort> {
        PageEngine::durable(self, lsn, urge).await
    }

    fn is_durable(&self, lsn: Lsn) -> bool {
        PageEngine::is_durable(self, lsn)
    }

    fn flush_log(&self) {
        PageEngine::flush_log(self);
    }

    fn flush_log_here(&self) {
        PageEngine::flush_log_here(self);
    }

    #[inline]
    fn turn(self: &Arc<Self>, _: &PageDesk) -> bool {
        PageEngine::turn(self)
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

    fn checkpoint_if_due(self: &Arc<Self>, desk: &PageDesk) {
        PageEngine::checkpoint_if_due(self, desk.worker);
    }

    fn checkpoint(&self) -> Result<(), EngineFault> {
        Ok(self.store.checkpoint()?)
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
            pages: u64::from(pool.allocated),
            page_reads: pool.loaded,
            page_writes: pool.written,
        }
    }

    fn has_schema(&self) -> bool {
        self.store.schema().is_some()
    }

    fn is_blank(&self) -> bool {
        matches!(self.store.is_blank::<D::Latch>(), Ok(true))
    }

    fn filling<'a>(&'a self, _: &'a PageDesk) -> PageFilling<'a, D> {
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
}
