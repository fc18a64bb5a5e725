//! The engine of all designs on pages: begin, commit, prepare and rollback of parts; the order in which a commit does its
//! work.
//!
//! ```text
//!   commit:  append commit record -> release locks (early) -> purge ghosts -> wait until the record is durable -> reply
//!   prepare: append prepare record, keep exclusive locks   ->                 wait until it is durable        -> vote
//! ```
//!
//! Locks are released once the commit record is in the log buffer (early lock release, Aether section 3): a
//! transaction that then reads the new values logs later in the same log, so it cannot become durable first. A
//! transaction that logs nothing has to wait as well: **every reply and every vote waits until everything that
//! was in the log when the part ended is durable.** With `memory` and `async` durability that is at once.

mod face;
mod filling;

use crate::design::Design;
use crate::engine::LockPoint;
use crate::executor::Executor;
use crate::local::{Locking, Part, Protection};
use base::{Lsn, hash64};
use latch::LatchPolicy;
use locks::{Acquired, LockAbort, LockName, LockOptions, LockStats, LockTable, Mode, Victim};
use pages::{PageFault, Progress, Seat, Stop, Tending};
use probe::{Component, Wait};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::{Ahead, CheckpointRun, NoteId, Store, StoreFault, Touched, Txn};
use txn::Abort;
use wal::Urge;

pub use filling::PageFilling;

#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    pub locks: LockOptions,
    /// How long a part waits for one lock before its transaction aborts (breaks deadlocks over several instances).
    pub lock_timeout_ns: u64,
    /// Whether a reply waits for the log device.
    pub waits_for_log: bool,
}

/// One instance's storage and locks under design `D`, shared by its workers.
pub struct PageEngine<D: Design> {
    pub(crate) store: Store,
    pub(crate) locks: LockTable<D::Mutex>,
    options: EngineOptions,
    /// Parts under [`Protection::Locks`] now (counted under `serial` only, by its one worker).
    locking: AtomicUsize,
    /// A checkpoint is being taken, and, where the pages' owner takes its part in slices, what it still has to do.
    checkpointing: AtomicBool,
    run: Mutex<Option<CheckpointRun>>,
}

/// A page that cannot be had: a fault has poisoned the store, want of room has not.
fn no_page(fault: StoreFault) -> Abort {
    match fault {
        StoreFault::Page(why) if why.is_want_of_room() => Abort::NoSpace,
        _ => Abort::Fault,
    }
}

impl<D: Design> PageEngine<D> {
    pub fn new(store: Store, options: EngineOptions) -> PageEngine<D> {
        PageEngine {
            store,
            locks: LockTable::with(options.locks),
            options,
            locking: AtomicUsize::new(0),
            checkpointing: AtomicBool::new(false),
            run: Mutex::default(),
        }
    }

    /// What the locks did since the start.
    pub fn lock_stats(&self) -> LockStats {
        self.locks.stats()
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// To be called by each worker before its first part: where pages have no latches, the one that owns them.
    pub fn own(&self) {
        if !D::Latch::LATCHED {
            self.store.pool().owner().claim();
        }
    }

    /// The worker that owns the pages is about to end.
    pub fn disown(&self) {
        self.store.pool().owner().disown();
    }

    pub fn into_store(self) -> Store {
        self.store
    }

    /// Protection for a transaction that needs only this instance as far as its arguments tell.
    pub fn protection_at_home(&self) -> Protection {
        match D::LOCKING {
            Locking::Always => Protection::Locks,
            Locking::WhileShared if self.locking.load(Ordering::Relaxed) == 0 => Protection::Alone,
            Locking::WhileShared => Protection::Locks,
        }
    }

    /// An empty part; [`PageEngine::begin`] starts it.
    pub fn part(&self) -> Part {
        Part {
            txn: Txn::default(),
            locker: self.locks.locker(),
            ahead: Ahead::default(),
            protection: Protection::Alone,
        }
    }

    pub fn begin(&self, part: &mut Part, worker: usize, protection: Protection) {
        probe::part_begins();
        part.ahead.clear();
        self.store.begin(&mut part.txn, worker);
        part.protection = protection;
        if protection == Protection::Locks {
            self.count_locking(1);
            if self.options.locks.tuning.victim == Victim::Youngest {
                part.locker.begun_ns = world::now_ns();
            }
        }
    }

    fn count_locking(&self, by: isize) {
        if D::LOCKING == Locking::WhileShared {
            // One worker only: a plain add would do, the atomic only lets other threads hold the engine.
            let now = self.locking.load(Ordering::Relaxed);
            self.locking.store(now.wrapping_add_signed(by), Ordering::Relaxed);
        }
    }

    fn end(&self, part: &mut Part) {
        probe::part_ends();
        if part.protection == Protection::Locks {
            probe::within(Component::Locking, || self.locks.release_all(&mut part.locker));
            self.count_locking(-1);
        }
        part.protection = Protection::Alone;
    }

    /// Commits a part that was not prepared, or that was and whose decision is commit. The reply may be given once the
    /// returned LSN is durable.
    ///
    /// # Errors
    /// [`Abort::Fault`] when the store accepts nothing more; the part is over, and restart undoes it.
    pub fn commit(&self, part: &mut Part) -> Result<Lsn, Abort> {
        let logged = self.store.commit(&mut part.txn, None);
        self.after_commit(part, logged)
    }

    /// As [`PageEngine::commit`], with a note that is returned at every restart until it is forgotten.
    pub fn commit_with_note(&self, part: &mut Part, note: &[u8]) -> Result<(Lsn, NoteId), Abort> {
        let logged = self.store.commit(&mut part.txn, Some(note));
        self.after_commit(part, logged).map(|lsn| (lsn, NoteId(lsn)))
    }

    fn after_commit(&self, part: &mut Part, logged: Result<Lsn, StoreFault>) -> Result<Lsn, Abort> {
        let logged = match logged {
            Ok(lsn) => lsn,
            Err(_) => {
                // On a store that has met a fault this only ends the transaction.
                let _ = self.store.rollback::<D::Latch>(&mut part.txn);
                self.end(part);
                return Err(Abort::Fault);
            }
        };
        self.end(part);
        self.store.committed::<D::Latch>(&mut part.txn);
        Ok(if logged == Lsn(0) { self.horizon() } else { logged })
    }

    /// What a part that logged nothing has to wait for.
    pub fn horizon(&self) -> Lsn {
        if self.options.waits_for_log { self.store.log().end() } else { Lsn(0) }
    }

    /// Prepares a part that wrote something: it can go either way from now on. Its read locks go only if the whole
    /// transaction holds all its locks already. The vote may be given once the returned LSN is durable.
    pub fn prepare(&self, part: &mut Part, note: &[u8], lock_point: LockPoint) -> Result<Lsn, Abort> {
        let lsn = self.store.prepare(&mut part.txn, note).map_err(|fault| match fault {
            StoreFault::Schema(_) => Abort::BadRequest,
            _ => Abort::Fault,
        })?;
        if lock_point == LockPoint::Reached {
            probe::within(Component::Locking, || self.locks.release_shared(&mut part.locker));
        }
        Ok(lsn)
    }

    /// Undoes everything the part did here. Blocks for a page that has left meanwhile: what a part is about to undo it has
    /// touched a moment ago, and while it undoes, nobody may see it half undone where nothing else protects it.
    pub fn rollback(&self, part: &mut Part) -> Result<(), Abort> {
        #[cfg(feature = "planted")]
        if crate::planted::is(crate::planted::Bug::LostUndo) {
            return self.commit(part).map(drop);
        }
        let undone = loop {
            let stop = match self.store.rollback::<D::Latch>(&mut part.txn) {
                Ok(()) => break Ok(()),
                Err(stop) => stop,
            };
            let resumed = match stop {
                Stop::Page(page) => self.store.load_page(page).map_err(no_page),
                stop => self.resume_at_once(stop),
            };
            if let Err(abort) = resumed {
                break Err(abort);
            }
        };
        self.end(part);
        undone
    }

    /// Lets go of a part without ending its transaction: the worker stops, and the next life of the store will find it
    /// as its log says (prepared, or to be undone).
    pub fn abandon(&self, part: &mut Part) {
        self.end(part);
    }

    /// Makes it possible to repeat the operation that stopped, or says why it can't be. Waits for an absent page, unless
    /// the part is protected by not waiting. `seat` is the operation's own and kept until it is done.
    ///
    /// # Errors
    /// [`Abort::NeedsLocks`] when a part that is alone would have to wait.
    #[cold]
    pub(crate) async fn resume<'e>(
        &'e self,
        stop: Stop,
        protection: Protection,
        seat: &mut Option<Seat<'e>>,
    ) -> Result<(), Abort> {
        match stop {
            Stop::Page(page) if protection == Protection::Alone => {
                self.store.pool().prefetch(page);
                Err(Abort::NeedsLocks)
            }
            Stop::Page(page) => {
                if seat.is_none() {
                    *seat = Some(self.store.pool().seat().await);
                }
                self.store.page(page).await.map_err(no_page)
            }
            stop => self.resume_at_once(stop),
        }
    }

    fn resume_at_once(&self, stop: Stop) -> Result<(), Abort> {
        match stop {
            Stop::Again | Stop::Page(_) => {
                std::hint::spin_loop();
                Ok(())
            }
            Stop::NoSpace => Err(Abort::NoSpace),
            // The request's own fault, and nothing was changed.
            Stop::Fault(fault) if matches!(*fault, PageFault::TooLong { .. }) => Err(Abort::BadRequest),
            Stop::Fault(fault) if fault.is_want_of_room() => Err(Abort::NoSpace),
            Stop::Fault(fault) => {
                self.store.poison(StoreFault::from(fault));
                Err(Abort::Fault)
            }
        }
    }

    /// What a worker does between transactions for the pages: takes the reads that have ended, has pages read that
    /// a restart left to be brought up to date, and where it owns the pages, a slice of cleaning and of a checkpoint. `true` when there was something.
    #[inline]
    pub fn turn(self: &Arc<Self>) -> bool {
        let mut any = self.store.pool().turn();
        any |= self.store.redo_some();
        if !D::Latch::LATCHED {
            any |= self.store.pool().tend();
            any |= self.step_checkpoint();
        }
        any
    }

    /// Whether [`PageEngine::turn`] has something to do: the look before a sleep on the pool's bell.
    pub fn ready(&self) -> bool {
        self.store.pool().flush();
        self.store.pool().ready()
    }

    /// The body of the instance's cleaner thread, until `stop` is set and [`PageEngine::stop_cleaner`] called: writes pages
    /// out and, where no worker owns them, keeps frames free.
    pub fn clean(&self, stop: &AtomicBool) {
        let tending = if D::Latch::LATCHED { Tending::Cleaner } else { Tending::Owner };
        self.store.pool().serve(tending, stop);
    }

    pub fn stop_cleaner(&self) {
        self.store.pool().stop_serving();
    }

    /// What [`PageEngine::durable`] would give without waiting.
    #[inline]
    pub fn durable_now(&self, lsn: Lsn) -> Option<Result<(), Abort>> {
        let log = self.store.log();
        if !self.options.waits_for_log || lsn == Lsn(0) {
            return Some(if log.poisoned().is_none() { Ok(()) } else { Err(Abort::Fault) });
        }
        (log.durable() >= lsn).then_some(Ok(()))
    }

    /// Waits until the log up to `lsn` is as safe as the durability mode promises.
    ///
    /// # Errors
    /// [`Abort::Fault`] when the log has failed, also in the modes that wait for nothing: what was appended after that is
    /// written nowhere.
    pub async fn durable(&self, lsn: Lsn, urge: Urge) -> Result<(), Abort> {
        if let Some(known) = self.durable_now(lsn) {
            return known;
        }
        let log = self.store.log();
        std::future::poll_fn(|cx| probe::parks(Wait::Log, log.poll_durable(lsn, urge, cx)))
            .await
            .map_err(|_| Abort::Fault)
    }

    /// Has the log flushed for those who wait for it with [`Urge::Caller`]: by its own thread.
    pub fn flush_log(&self) {
        self.store.log().flush();
    }

    /// The same, on the calling thread if nobody else is at it: for a worker that can do nothing else meanwhile.
    pub fn flush_log_here(&self) {
        self.store.log().flush_here();
    }

    /// Whether the log up to `lsn` is safe now; asks for it if not.
    pub fn is_durable(&self, lsn: Lsn) -> bool {
        let log = self.store.log();
        if !self.options.waits_for_log {
            return log.poisoned().is_none();
        }
        if log.durable() >= lsn {
            return true;
        }
        log.kick(lsn);
        false
    }

    /// Called by the workers now and then. Where pages have one owner, it copies them for the checkpoint in slices between
    /// transactions ([`PageEngine::turn`]); otherwise the first worker leaves it all to a thread of its own.
    pub fn checkpoint_if_due(self: &Arc<Self>, worker: usize) {
        if worker != 0 || !self.store.checkpoint_due() || self.checkpointing.swap(true, Ordering::Acquire) {
            return;
        }
        if D::Latch::LATCHED {
            self.beside("checkpoint", |engine| engine.store.checkpoint());
        } else {
            *self.run() = Some(self.store.begin_checkpoint());
        }
    }

    fn run(&self) -> MutexGuard<'_, Option<CheckpointRun>> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The owner's share of a checkpoint that has begun. `true` when it did something.
    fn step_checkpoint(self: &Arc<Self>) -> bool {
        if !self.checkpointing.load(Ordering::Relaxed) {
            return false;
        }
        let mut run = self.run();
        let Some(begun) = run.as_mut() else { return false };
        match self.store.step_checkpoint(begun) {
            Ok(Progress::More) => true,
            Ok(Progress::Waiting) => false,
            Ok(Progress::Finished) => {
                if let Some(begun) = run.take() {
                    drop(run);
                    self.beside("checkpoint", move |engine| engine.store.finish_checkpoint(&begun));
                }
                true
            }
            Err(_) => {
                // The store is poisoned with it.
                *run = None;
                false
            }
        }
    }

    /// Does the rest of a checkpoint on a thread of its own.
    fn beside(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce(&Self) -> Result<(), StoreFault> + Send + 'static,
    ) {
        let engine = Arc::clone(self);
        let write = move || {
            if let Err(fault) = work(&engine) {
                engine.store.poison(fault);
            }
            engine.checkpointing.store(false, Ordering::Release);
        };
        // Without a thread the next tick tries again.
        if std::thread::Builder::new().name(name.into()).spawn(write).is_err() {
            self.checkpointing.store(false, Ordering::Release);
        }
    }

    /// Takes a transaction that restart found prepared: locks again what it changed.
    pub fn adopt(&self, txn: Txn, touched: &[Touched]) -> Part {
        let mut part = Part { txn, protection: Protection::Locks, ..self.part() };
        self.count_locking(1);
        for Touched { table, index, key, gap } in touched {
            self.regain(&mut part, LockName::table(*table), Mode::IX);
            if !key.is_empty() {
                self.regain(&mut part, LockName::key(*index, hash64(key)), Mode::ROW_AND_GAP_X);
            }
            if let Some(next) = gap {
                let name =
                    next.as_deref().map_or(LockName::end(*index), |k| LockName::key(*index, hash64(k)));
                self.regain(&mut part, name, Mode::GAP_X);
            }
        }
        part
    }

    /// # Panics
    /// When somebody else holds the lock: prepared transactions held theirs together before the crash.
    fn regain(&self, part: &mut Part, name: LockName, mode: Mode) {
        let granted = self.locks.acquire(&mut part.locker, name, mode);
        assert!(matches!(granted, Acquired::Granted), "two transactions in doubt claim {name:?}");
    }

    /// Takes a lock for `part` on what lies beneath `path`, waiting for it if need be.
    #[inline]
    pub(crate) async fn lock(
        &self,
        executor: &Executor,
        part: &mut Part,
        path: &[LockName],
        name: LockName,
        mode: Mode,
    ) -> Result<(), Abort> {
        if part.protection != Protection::Locks {
            return Ok(());
        }
        #[cfg(feature = "planted")]
        let Some(mode) = crate::planted::asked(self, part, mode) else { return Ok(()) };
        loop {
            match probe::within(Component::Locking, || {
                self.locks.acquire_below(&mut part.locker, path, name, mode)
            }) {
                Acquired::Granted => return Ok(()),
                Acquired::Deadlock => return Err(Abort::Deadlock),
                // Perhaps for the table: what lies beneath it is asked for next.
                Acquired::Waiting => Box::pin(self.wait(executor, part)).await?,
            }
        }
    }

    #[cold]
    async fn wait(&self, executor: &Executor, part: &mut Part) -> Result<(), Abort> {
        let deadline = world::now_ns() + self.options.lock_timeout_ns;
        part.locker.deadline_ns = deadline;
        let mut armed = false;
        std::future::poll_fn(|cx| {
            let polled = self.locks.poll_until(&mut part.locker, world::now_ns(), cx);
            if polled.is_pending() && !std::mem::replace(&mut armed, true) {
                executor.timer(deadline, cx.waker().clone());
            }
            probe::parks(Wait::Lock, polled).map_err(|abort| match abort {
                LockAbort::Deadlock => Abort::Deadlock,
                LockAbort::Timeout => Abort::LockTimeout,
            })
        })
        .await
    }
}
