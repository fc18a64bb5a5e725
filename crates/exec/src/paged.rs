//! The engine of all designs on pages: begin, commit, prepare and rollback of local transactions,
//! and the order of a commit's work.
//!
//! ```text
//!   commit:  append commit record -> release locks (early) -> purge ghosts
//!            -> wait until the record is durable -> reply
//!   prepare: append prepare record, keep exclusive locks
//!            -> wait until the record is durable -> vote
//! ```
//!
//! Locks are released once the commit record is in the log buffer (early lock release, Aether
//! section 3). A transaction that then reads the new values logs later in the same log, so it
//! cannot become durable first. A transaction that logs nothing has to wait as well: **every reply
//! and every vote waits until all commits that the local transaction has seen are durable**
//! (`commit_marks`; without locks, that is the whole log up to its end). With `memory` and `async`
//! durability that is at once.

mod adopting;
mod commit_marks;
mod face;
mod filling;
mod locking;
mod owners;
mod upkeep;

use crate::branches::{BranchMessage, Branches};
use crate::design::Design;
use crate::engine::LockPoint;
use crate::local::{LocalTxn, Locking, Protection};
use crate::owners::Owners;
use crate::owners::mailboxes::Mailboxes;
use crate::owners::waits_for::WaitsForGraph;
use crate::seams;
use base::{Lsn, TableId};
use commit_marks::CommitMarks;
use latch::CachePadded;
use locks::{LockOptions, LockStats, LockTable, Victim};
use pages::{PageFault, Seat, Stop};
use probe::{Component, Wait};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::task::Poll;
use store::{CheckpointRun, NoteId, Prefetched, Store, StoreFault, Txn};
use txn::Abort;
use wal::FlushBy;

use owners::page_ownership::PageOwnership;

pub use face::PageWorkerContext;
pub use filling::PageFilling;
pub use owners::moving::{Carried, DRAIN_NS, Refusal, RepartitionRequest};

/// The settings of an engine on pages, apart from those of its store.
#[derive(Clone, Copy, Debug)]
pub struct PageOptions {
    pub locks: LockOptions,
    /// The longest wait of a local transaction for one lock before its transaction aborts (breaks
    /// deadlocks over several instances).
    pub lock_timeout_ns: u64,
    /// Whether a reply waits for the log device.
    pub waits_for_log: bool,
}

/// One instance's storage and locks under design `D`, shared by its workers.
pub struct PageEngine<D: Design> {
    pub(crate) store: Store,
    /// The central lock table, or the first owner's.
    locks: LockTable<D::Mutex>,
    /// The lock tables of the other owners; only their threads touch them.
    others: Box<[LockTable<D::Mutex>]>,
    options: PageOptions,
    /// One for each owner, or one for all workers where there are no owners.
    locking: Box<[CachePadded<Locked>]>,
    /// The owner of each key; only where workers own keys.
    pub(crate) owners: Option<Owners>,
    mailboxes: Mailboxes<BranchMessage>,
    waits_for: WaitsForGraph,
    commit_marks: CommitMarks,
    /// Waits for locks since the start, by table.
    lock_waits: Mutex<BTreeMap<TableId, u64>>,
    /// In-doubt locks: those of transactions that restart found prepared.
    in_doubt_locks: Mutex<Vec<adopting::InDoubtLocks>>,
    /// Page ownership: whether workers own pages, and when they may.
    ownership: PageOwnership,
    /// The first failure for want of room.
    full: OnceLock<String>,
    /// Set while a checkpoint is being taken.
    checkpointing: AtomicBool,
    /// Where one worker owns the pages and takes its part in slices: the rest of that part.
    run: Mutex<Option<CheckpointRun>>,
}

/// The local transactions that lock under one owner. Only the owner's thread touches this; atomics
/// let other threads hold a reference to the engine.
#[derive(Default)]
struct Locked {
    /// The local transactions under [`Protection::Locks`] at present, where designs run others
    /// alone.
    txns: AtomicUsize,
    /// The drain gate is shut: no other transaction is admitted, since keys are about to be given
    /// away (`moving`).
    shut: AtomicBool,
}

/// The number of times a rollback looks for a free frame; each look takes some 20 ms before it
/// gives up.
const PATIENCE: u32 = 50;

/// The abort for a page that is unavailable. A fault has poisoned the store, a lack of frames has
/// not.
fn no_page(fault: StoreFault) -> Abort {
    match fault {
        StoreFault::Page(why) if why.is_want_of_room() => Abort::NoSpace,
        _ => Abort::Fault,
    }
}

impl<D: Design> PageEngine<D> {
    /// For any number of workers that own nothing, or for one that owns everything.
    pub fn new(store: Store, options: PageOptions) -> PageEngine<D> {
        let all = || Owners::whole(&store.schema().unwrap_or_default());
        let owners = D::OWNERS.then(all);
        PageEngine::of(store, options, 1, owners)
    }

    /// For `workers` workers, with the keys of each given by `owners`.
    ///
    /// # Panics
    /// If there is no worker, or if workers own keys and `owners` is `None`.
    pub fn of(store: Store, options: PageOptions, workers: usize, owners: Option<Owners>) -> PageEngine<D> {
        assert!(workers > 0 && (!D::OWNERS || owners.is_some()), "owners of nothing");
        let tables = if D::OWNERS { workers } else { 1 };
        PageEngine {
            store,
            locks: LockTable::with(options.locks),
            others: (1..tables).map(|_| LockTable::with(options.locks)).collect(),
            options,
            locking: (0..tables).map(|_| CachePadded::default()).collect(),
            owners,
            mailboxes: Mailboxes::new(tables),
            waits_for: WaitsForGraph::default(),
            commit_marks: CommitMarks::new(
                options.waits_for_log && !D::OWNERS && D::LOCKING == Locking::Always,
            ),
            lock_waits: Mutex::default(),
            in_doubt_locks: Mutex::default(),
            ownership: PageOwnership::default(),
            full: OnceLock::new(),
            checkpointing: AtomicBool::new(false),
            run: Mutex::default(),
        }
    }

    /// Counts of the lock tables since the start.
    pub fn lock_stats(&self) -> LockStats {
        let all = std::iter::once(&self.locks).chain(&self.others);
        all.fold(LockStats::default(), |sum, table| sum.and(&table.stats()))
    }

    /// Waits for locks since the start, by the table's name.
    pub fn lock_waits(&self) -> BTreeMap<String, u64> {
        let waits = self.lock_waits.lock().unwrap_or_else(PoisonError::into_inner);
        let named = |(id, n): (&TableId, &u64)| Some((self.store.table(*id)?.def.name.clone(), *n));
        waits.iter().filter_map(named).collect()
    }

    /// The lock table in which a local transaction of `owner` takes its locks.
    #[inline]
    pub(crate) fn locks(&self, owner: usize) -> &LockTable<D::Mutex> {
        if D::OWNERS && owner > 0 { &self.others[owner - 1] } else { &self.locks }
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// To be called by each worker before its first local transaction. Where pages have no latches,
    /// it makes the calling worker their owner.
    pub fn own(&self) {
        if !D::LATCHED {
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

    /// The protection for a transaction that needs only this instance, as far as its arguments
    /// tell.
    pub fn protection_at_home(&self, worker: usize) -> Protection {
        match D::LOCKING {
            Locking::Always => Protection::Locks,
            _ if self.locking(worker).txns.load(Ordering::Relaxed) == 0 => Protection::Unlocked,
            _ => Protection::Locks,
        }
    }

    /// An empty local transaction of the first worker; [`PageEngine::begin`] starts it.
    pub fn local_txn(&self) -> LocalTxn {
        self.local_txn_of(0)
    }

    /// An empty local transaction of a worker.
    pub fn local_txn_of(&self, worker: usize) -> LocalTxn {
        let owner = if D::OWNERS { worker } else { 0 };
        LocalTxn {
            store_txn: Txn::default(),
            locker: self.locks(owner).locker(),
            prefetched: Prefetched::default(),
            protection: Protection::Unlocked,
            owner,
            name: 0,
            sites: None,
            abroad: false,
            hurries: false,
            counted: false,
            branches: Branches::default(),
            hold: probe::Hold::default(),
        }
    }

    fn locking(&self, worker: usize) -> &Locked {
        &self.locking[if D::OWNERS { worker } else { 0 }]
    }

    pub fn begin(&self, txn: &mut LocalTxn, worker: usize, protection: Protection) {
        let hold = probe::part_begins();
        txn.prefetched.clear();
        self.store.begin(&mut txn.store_txn, worker);
        txn.protection = protection;
        txn.sites = None;
        txn.abroad = false;
        txn.hurries = false;
        if protection == Protection::Locks {
            txn.hold = hold;
            if !D::OWNERS {
                self.count_locking(0, 1);
            }
            if self.options.locks.tuning.victim == Victim::Youngest {
                txn.locker.begun_ns = world::now_ns();
            }
        }
    }

    fn count_locking(&self, owner: usize, by: isize) {
        if D::LOCKING != Locking::Always {
            // One thread writes this, so a load and a store are enough.
            let locking = &self.locking(owner).txns;
            let now = locking.load(Ordering::Relaxed);
            locking.store(now.wrapping_add_signed(by), Ordering::Relaxed);
        }
    }

    /// Called before an owner's local transaction asks for its first lock: from here on others must
    /// not run alone. Before that it has touched nothing, so a transaction that is only on its way
    /// to other owners hinders no other.
    #[cold]
    fn begin_locking(&self, txn: &mut LocalTxn) {
        txn.counted = true;
        self.count_locking(txn.owner, 1);
        self.locks(txn.owner).label(&mut txn.locker, txn.name);
    }

    fn end(&self, txn: &mut LocalTxn) {
        probe::part_ends();
        if txn.protection == Protection::Locks {
            if !D::OWNERS || txn.counted {
                let locks = self.locks(txn.owner);
                probe::within(Component::Locking, || locks.release_all(&mut txn.locker));
                self.count_locking(txn.owner, -1);
                txn.counted = false;
            }
            probe::held(std::mem::take(&mut txn.hold));
        }
        txn.protection = Protection::Unlocked;
    }

    /// Commits a local transaction that was not prepared, or that was prepared and has the decision
    /// to commit. The caller may reply once the returned LSN is durable.
    ///
    /// # Errors
    /// [`Abort::Fault`] when the store accepts nothing more; the local transaction is over, and
    /// restart undoes it.
    pub fn commit(&self, txn: &mut LocalTxn) -> Result<Lsn, Abort> {
        let logged = self.store.commit(&mut txn.store_txn, None);
        self.after_commit(txn, logged)
    }

    /// As [`PageEngine::commit`], with a note that every restart returns until it is forgotten.
    pub fn commit_with_note(&self, txn: &mut LocalTxn, note: &[u8]) -> Result<(Lsn, NoteId), Abort> {
        let logged = self.store.commit(&mut txn.store_txn, Some(note));
        self.after_commit(txn, logged).map(|lsn| (lsn, NoteId(lsn)))
    }

    fn after_commit(&self, txn: &mut LocalTxn, logged: Result<Lsn, StoreFault>) -> Result<Lsn, Abort> {
        let logged = match logged {
            Ok(lsn) => lsn,
            Err(_) => {
                // On a store that has met a fault this only ends the transaction.
                let _ = self.store.rollback::<D::Latch>(&mut txn.store_txn);
                self.end(txn);
                return Err(Abort::Fault);
            }
        };
        let told_after = if logged == Lsn(0) { self.horizon(txn) } else { logged };
        if logged != Lsn(0) && self.commit_marks.are_kept() {
            match txn.protection {
                Protection::Locks => self.commit_marks.raise(&txn.locker, logged),
                _ => self.commit_marks.raise_all(logged),
            }
        }
        self.end(txn);
        self.store.committed::<D::Latch>(&mut txn.store_txn);
        Ok(told_after)
    }

    /// The position that has to be durable before the outcome of a local transaction that logged
    /// nothing is told. To be asked while it still holds its locks.
    pub fn horizon(&self, txn: &LocalTxn) -> Lsn {
        if !self.options.waits_for_log {
            return Lsn(0);
        }
        let by_locks = txn.protection == Protection::Locks && self.commit_marks.are_kept();
        let seen = if by_locks { self.commit_marks.seen(&txn.locker) } else { None };
        seen.unwrap_or_else(|| self.store.log().end())
    }

    /// Prepares a local transaction that has written: afterwards it can commit or roll back. Its
    /// read locks go only if the whole transaction holds all its locks already. The caller may vote
    /// once the returned LSN is durable.
    pub fn prepare(&self, txn: &mut LocalTxn, note: &[u8], lock_point: LockPoint) -> Result<Lsn, Abort> {
        let prepared = if txn.branches.is_empty() {
            self.store.prepare(&mut txn.store_txn, note)
        } else {
            self.prepare_branches(txn, note)
        };
        let lsn = prepared.map_err(|fault| match fault {
            StoreFault::Schema(_) => Abort::BadRequest,
            _ => Abort::Fault,
        })?;
        if lock_point == LockPoint::Reached {
            let locks = self.locks(txn.owner);
            probe::within(Component::Locking, || locks.release_shared(&mut txn.locker));
        }
        Ok(lsn)
    }

    /// Undoes all changes of the local transaction. Blocks for a page that has been evicted
    /// meanwhile. That is rare, because the transaction has touched the pages to undo a moment ago.
    /// Suspending instead would let others see a half-undone state where no lock protects it.
    ///
    /// # Errors
    /// [`Abort::Fault`] when the store has met a fault: restart undoes the changes then. The same
    /// for a local transaction that wrote nothing, since it may have read changes that another one
    /// could not undo.
    pub fn rollback(&self, txn: &mut LocalTxn) -> Result<(), Abort> {
        let undone = self.undo(&mut txn.store_txn);
        self.end(txn);
        undone
    }

    /// Undoes the changes of one chain. If that fails, even for lack of frames, it poisons the
    /// store: the transaction's locks are released next, so no other transaction may commit beside
    /// the changes that are left. Restart undoes them.
    fn undo(&self, txn: &mut Txn) -> Result<(), Abort> {
        let mut patience = PATIENCE;
        let fault = loop {
            let fault = match seams::roll_back::<D>(&self.store, txn) {
                // On a store that has met a fault this only ended the transaction.
                Ok(()) => return self.store.fault().map_or(Ok(()), |_| Err(Abort::Fault)),
                Err(Stop::Again) => {
                    std::hint::spin_loop();
                    continue;
                }
                Err(Stop::Page(page)) => match self.store.load_page(page) {
                    Ok(()) => continue,
                    Err(StoreFault::Page(why)) => Stop::Fault(why),
                    Err(fault) => break fault,
                },
                Err(stop) => stop,
            };
            let is_brief = match &fault {
                Stop::Fault(why) => matches!(**why, PageFault::NoFrame { .. }),
                stop => matches!(stop, Stop::NoSpace),
            };
            // Either others hold the frames for a moment, or no frame ever becomes free.
            if !is_brief || patience == 0 {
                break match fault {
                    Stop::Fault(why) if !why.is_want_of_room() => StoreFault::Page(why),
                    stop => StoreFault::NotUndone { why: stop.to_string() },
                };
            }
            patience -= 1;
            std::thread::yield_now();
        };
        self.store.poison(fault);
        // On a store that has met a fault this only ends the transaction.
        let _ = self.store.rollback::<D::Latch>(txn);
        Err(Abort::Fault)
    }

    /// Gives a local transaction up without ending it: the worker stops, and the next opening of
    /// the store finds the transaction as its log records say (prepared, or to be undone). Its
    /// locks stay until the engine ends, since others may still be at work.
    pub fn abandon(&self, txn: &mut LocalTxn) {
        std::mem::forget(std::mem::replace(&mut txn.locker, self.locks(txn.owner).locker()));
        self.end(txn);
    }

    /// Makes it possible to repeat the operation that stopped, or returns why it cannot be
    /// repeated. Waits for an absent page, unless the local transaction is protected by not
    /// waiting. The caller keeps `seat` until the operation is done.
    ///
    /// # Errors
    /// [`Abort::NeedsLocks`] when a local transaction that runs alone would have to wait.
    #[cold]
    pub(crate) async fn resume<'e>(
        &'e self,
        stop: Stop,
        protection: Protection,
        seat: &mut Option<Seat<'e>>,
    ) -> Result<(), Abort> {
        match stop {
            Stop::Page(page) if protection == Protection::Unlocked => {
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
            Stop::Fault(fault) if fault.is_want_of_room() => {
                self.full.get_or_init(|| fault.to_string());
                Err(Abort::NoSpace)
            }
            // The request is at fault, and nothing was changed.
            Stop::Fault(fault) if matches!(*fault, PageFault::TooLong { .. }) => Err(Abort::BadRequest),
            // A step was sent to the wrong owner; the page is in order.
            Stop::Fault(fault) if matches!(*fault, PageFault::Foreign { .. }) => Err(Abort::BadRequest),
            Stop::Fault(fault) => {
                self.store.poison(StoreFault::from(fault));
                Err(Abort::Fault)
            }
        }
    }

    /// The result that [`PageEngine::durable`] has at once; `None` if it would wait.
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
    /// [`Abort::Fault`] when the log has failed, also in the modes without a wait: records that
    /// were appended after that are not written.
    pub async fn durable(&self, lsn: Lsn, flush_by: FlushBy) -> Result<(), Abort> {
        if let Some(known) = self.durable_now(lsn) {
            return known;
        }
        let log = self.store.log();
        std::future::poll_fn(|cx| probe::parks(Wait::Log, log.poll_durable(lsn, flush_by, cx)))
            .await
            .map_err(|_| Abort::Fault)
    }

    /// Waits until the device has the log up to `lsn`, in every durability mode.
    ///
    /// # Errors
    /// As [`PageEngine::durable`].
    pub async fn stable(&self, lsn: Lsn, flush_by: FlushBy) -> Result<(), Abort> {
        let log = self.store.log();
        if log.poisoned().is_some() {
            return Err(Abort::Fault);
        }
        std::future::poll_fn(|cx| match log.poll_stable(lsn, flush_by, cx) {
            Poll::Ready(outcome) => Poll::Ready(outcome.map_err(|_| Abort::Fault)),
            Poll::Pending => probe::parks(Wait::Log, Poll::Pending),
        })
        .await
    }

    /// Whether the device has the log up to `lsn` already; asks for it if not.
    pub fn is_stable(&self, lsn: Lsn) -> bool {
        let log = self.store.log();
        log.ask_stable(lsn) && (log.durability().is_synced() || log.poisoned().is_none())
    }

    /// Has the log's own thread flush the log for transactions that wait with [`FlushBy::Caller`].
    pub fn flush_log(&self) {
        self.store.log().flush();
    }

    /// The same on the calling thread, if no other thread is flushing: for a worker that has
    /// nothing else to do.
    pub fn flush_log_here(&self) {
        self.store.log().flush_here();
    }
}
