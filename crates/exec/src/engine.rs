//! The interface between an instance and the engine that holds its data, the same for every design.
//!
//! ```text
//!   begin -> operations through RowAccess -> validate -> commit  -> wait until durable -> reply
//!                                                     -> prepare -> wait until durable -> vote
//!                                                        -> commit or rollback
//! ```
//!
//! The workers of an instance share one engine. Each worker has a worker context of its own
//! ([`Engine::WorkerContext`]), made on the worker's thread. A transaction's work here is a local
//! transaction ([`Engine::LocalTxn`]), which stays with the worker that made it. Every wait for
//! another transaction is asynchronous and ends in [`Engine::validate`] at the latest: a commit or
//! a prepare after it fails only with the engine.
//!
//! [`Engine`] is the life of a local transaction, which every design has. The rest lies apart:
//!
//! - [`owners`]: only for designs in which workers own keys. An engine hands itself out as one of
//!   [`KeyOwners`] ([`Engine::owners`]); an engine without owners has nothing to hand out.
//! - [`load`]: filling an empty engine.
//! - [`maintenance`]: flushes, checkpoints, the engine's own thread, the check before a sleep.
//! - [`prefetch`]: rows brought near before their transaction runs.

pub mod load;
pub mod maintenance;
pub mod owners;
pub mod prefetch;

use crate::design::DesignKind;
use crate::executor::{Executor, Unpark};
use crate::local::Protection;
use crate::options::EngineOptions;
use crate::owners::SiteRange;
use base::Lsn;
use owners::KeyOwners;
use probe::{LockWork, LogCounts};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use store::{NoteId, StoreFault};
use txn::{Abort, Access, Schema};
use wal::{Durability, FlushBy};

/// The settings an engine is opened with.
#[derive(Clone, Debug)]
pub struct Setup {
    pub design: DesignKind,
    /// The folder with all durable state; created if missing.
    pub dir: PathBuf,
    pub durability: Durability,
    /// Memory for data, in pages of 8 KiB. The rows, index and old versions of `occ` take this at
    /// most.
    pub pool_pages: usize,
    pub workers: usize,
    pub options: EngineOptions,
    /// The tables, created if the folder holds none.
    pub schema: Schema,
    pub site_range: SiteRange,
}

/// The state that opening found in the folder.
pub struct Recovered<T> {
    /// The number of times this data has been opened, this time included.
    pub life: u32,
    /// Bytes of log replayed.
    pub log_bytes: u64,
    /// The transactions found prepared, each with the note that it was prepared with.
    pub in_doubt: Vec<(Vec<u8>, T)>,
    /// The notes that were not forgotten, oldest first.
    pub notes: Vec<(NoteId, Vec<u8>)>,
}

/// Why an engine did not open, load or close.
#[derive(Debug, thiserror::Error)]
pub enum EngineFault {
    #[error(transparent)]
    Store(#[from] StoreFault),
    #[error(transparent)]
    Ranges(#[from] partition::RangeError),
    #[error(
        "design '{0}' has one worker per instance, but {1} were asked for; use as many instances as workers"
    )]
    OneWorker(DesignKind, usize),
    #[error(
        "design '{0}' gives trees' partitions to workers, but these trees have one root each; load the data with multi-rooted trees \
         (--tree mrbtree)"
    )]
    OneRoot(DesignKind),
    #[error(
        "design '{0}' gives heap pages to workers and expects them divided by {1}, but these are {2}; load the data with --heap {1}"
    )]
    Form(DesignKind, &'static str, &'static str),
    #[error("design '{0}': {1} workers in one instance, expected 1023 at most; use more instances")]
    TooManyOwners(DesignKind, usize),
    #[error(
        "--partitions {partitions}: more partitions of the keys than the {sites} sites of the instance, which no partition cuts; expected \
         {sites} at most, or more data (--scale)"
    )]
    TooManyPartitions { partitions: usize, sites: usize },
    #[error("the trees could not be divided among the workers: {0}")]
    Divide(String),
    #[error("the main-memory store: {0}")]
    Memory(#[from] memstore::OpenError),
    #[error("the main-memory store's tables: {0}; open it with the version of Atoll that wrote it")]
    Tables(String),
}

/// Whether a transaction has local transactions elsewhere too, which may be validated earlier and
/// end later than this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    Home,
    Distributed,
}

/// Where a transaction may be validated already while its local transaction waits here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitOrder {
    /// At instances with lower numbers only: waits go only upwards, so they close no cycle over
    /// instances.
    Upwards,
    /// Perhaps at instances with higher numbers: a wait may close a cycle, so it has to be short.
    Any,
}

/// The moment from which a local transaction keeps others from changing the rows it has read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// From its read on, by locks.
    FromSteps,
    /// From [`Engine::validate`] on, by validation.
    FromValidation,
}

/// Whether the transaction that is being prepared holds all its locks, here and elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockPoint {
    Reached,
    Ahead,
}

/// Counts of an engine's work since it was opened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EngineCounts {
    pub log: LogCounts,
    pub locks: LockWork,
    /// Waits for locks, by the name of the table.
    pub lock_waits: BTreeMap<String, u64>,
    /// Pages in use at present, not since opening.
    pub pages: u64,
    pub page_reads: u64,
    pub page_writes: u64,
}

/// An instance's storage under one design, shared by its workers.
pub trait Engine: Send + Sync + Sized + 'static {
    const HOLDS: Holds;
    /// The engine as one of [`KeyOwners`], if each worker owns keys, so that a step may belong to
    /// another worker. [`Engine::OWNERS`] and [`Engine::owners`] follow from it.
    const AS_OWNERS: Option<fn(&Self) -> &Self::Owners> = None;
    /// Whether each worker owns keys. A constant, so that a design without owners is compiled
    /// without the code for them.
    const OWNERS: bool = Self::AS_OWNERS.is_some();
    /// Local transactions may run under [`Protection::Snapshot`].
    const SNAPSHOTS: bool = false;
    /// The worker context: state of the engine that belongs to one worker.
    type WorkerContext: 'static;
    /// One local transaction. Reused for the next one, so that its buffers stay.
    type LocalTxn: 'static;
    /// The rows as one local transaction sees them.
    type RowAccess<'a>: Access;
    /// A transaction that restart found prepared.
    type InDoubt: Send + 'static;
    /// The engine where its workers own keys, else [`NoOwners`](owners::NoOwners).
    type Owners: KeyOwners<Self::WorkerContext, Self::LocalTxn>;

    /// Opens the engine in the folder of `setup`.
    ///
    /// # Errors
    /// [`EngineFault`]: the folder does not hold the expected data, or cannot be read.
    fn open(setup: &Setup) -> Result<(Self, Recovered<Self::InDoubt>), EngineFault> {
        Self::open_in(world::real(), setup)
    }

    /// As [`Engine::open`], on any files.
    ///
    /// # Errors
    /// As there.
    fn open_in(
        files: Arc<dyn world::Files>,
        setup: &Setup,
    ) -> Result<(Self, Recovered<Self::InDoubt>), EngineFault>;

    /// Writes all changes that are in memory only, in every durability mode, and closes.
    ///
    /// # Errors
    /// [`EngineFault`]; the folder is as it is after a crash.
    fn close(self) -> Result<(), EngineFault>;

    /// A warning for the operator, with a remedy: the engine runs, but lacks something that can be
    /// provided.
    fn shortage(&self) -> Option<String> {
        None
    }

    /// The fault for which the engine accepts nothing more, if it has met one.
    fn fault(&self) -> Option<String>;

    /// The first failure for want of room on a device, if changes were refused for one. The engine
    /// goes on, and accepts changes once there is room.
    fn full(&self) -> Option<String> {
        None
    }

    /// Makes the worker's context. To be called on the worker's own thread, before any other call
    /// from it. `unpark` wakes the worker.
    fn worker_context(self: &Arc<Self>, worker: usize, unpark: Unpark) -> Self::WorkerContext;

    /// The worker is about to end; its local transactions have ended or were abandoned.
    fn leave(&self, ctx: &Self::WorkerContext);

    /// The protection for a transaction that needs only this instance, as far as its arguments
    /// tell.
    fn protection_at_home(&self, ctx: &Self::WorkerContext) -> Protection;

    /// The engine as one of [`KeyOwners`]; `None` unless [`Engine::OWNERS`].
    #[inline]
    fn owners(&self) -> Option<&Self::Owners> {
        Self::AS_OWNERS.map(|as_owners| as_owners(self))
    }

    /// An empty local transaction; [`Engine::begin`] starts it.
    fn local_txn(&self, ctx: &Self::WorkerContext) -> Self::LocalTxn;
    fn begin(&self, ctx: &Self::WorkerContext, txn: &mut Self::LocalTxn, protection: Protection);

    fn protection(txn: &Self::LocalTxn) -> Protection;
    /// Sets how the local transaction waits for others from here on; [`Engine::begin`] sets
    /// [`WaitOrder::Upwards`].
    fn set_wait_order(txn: &mut Self::LocalTxn, order: WaitOrder);
    /// Whether it has written anything.
    fn wrote(txn: &Self::LocalTxn) -> bool;

    fn access<'a>(
        &'a self,
        ctx: &'a Self::WorkerContext,
        executor: &'a Executor,
        txn: &'a mut Self::LocalTxn,
    ) -> Self::RowAccess<'a>;

    /// Validates an abort: whether all that the local transaction has read was there at one moment.
    /// Only then is an abort that the procedure decided on an answer. The local transaction is to
    /// be rolled back after this in either case.
    fn holds(&self, ctx: &Self::WorkerContext, txn: &mut Self::LocalTxn) -> bool;

    /// Validates the local transaction, so that it can commit: all it has read still holds, and
    /// will until its end.
    ///
    /// # Errors
    /// The local transaction has to be rolled back.
    async fn validate(
        &self,
        ctx: &Self::WorkerContext,
        executor: &Executor,
        txn: &mut Self::LocalTxn,
        scope: Scope,
    ) -> Result<(), Abort>;

    /// Commits a validated local transaction that was not prepared, or that was prepared and has
    /// the decision to commit. The caller may reply once the returned position is durable.
    ///
    /// # Errors
    /// [`Abort::Fault`] when the engine accepts nothing more; the local transaction is over, and
    /// restart undoes it.
    fn commit(&self, ctx: &Self::WorkerContext, txn: &mut Self::LocalTxn) -> Result<Lsn, Abort>;

    /// As [`Engine::commit`], with a note that every restart returns until it is forgotten.
    ///
    /// # Errors
    /// As [`Engine::commit`].
    fn commit_with_note(
        &self,
        ctx: &Self::WorkerContext,
        txn: &mut Self::LocalTxn,
        note: &[u8],
    ) -> Result<(Lsn, NoteId), Abort>;

    fn forget(&self, ctx: &Self::WorkerContext, note: NoteId);

    /// Prepares a validated local transaction that has written: afterwards it can commit or roll
    /// back. The caller may vote once the returned position is durable.
    ///
    /// # Errors
    /// The local transaction has to be rolled back.
    fn prepare(
        &self,
        ctx: &Self::WorkerContext,
        txn: &mut Self::LocalTxn,
        note: &[u8],
        lock_point: LockPoint,
    ) -> Result<Lsn, Abort>;

    /// Undoes all changes of the local transaction.
    ///
    /// # Errors
    /// [`Abort::Fault`] when that failed; restart undoes them.
    fn rollback(&self, ctx: &Self::WorkerContext, txn: &mut Self::LocalTxn) -> Result<(), Abort>;

    /// Gives a local transaction up without ending it: the worker stops, and restart finds it as
    /// its log records say.
    fn abandon(&self, ctx: &Self::WorkerContext, txn: &mut Self::LocalTxn);

    /// Takes over a transaction that restart found prepared, and protects the rows it changed
    /// again.
    fn adopt(&self, ctx: &Self::WorkerContext, in_doubt: Self::InDoubt) -> Self::LocalTxn;

    /// The position that has to be durable before the outcome is told of a local transaction that
    /// wrote nothing or that is going to be rolled back: it may have read changes that are not
    /// durable yet. To be asked before the transaction ends, while it holds its locks.
    fn horizon(&self, txn: &Self::LocalTxn, ctx: &Self::WorkerContext) -> Lsn;

    /// The result that [`Engine::durable`] has at once; `None` if it would wait.
    fn durable_now(&self, lsn: Lsn) -> Option<Result<(), Abort>>;

    /// Waits until the log up to `lsn` is as safe as the durability mode promises.
    ///
    /// # Errors
    /// [`Abort::Fault`] when the log has failed, also in the modes without a wait.
    async fn durable(&self, ctx: &Self::WorkerContext, lsn: Lsn, flush_by: FlushBy) -> Result<(), Abort>;

    /// The thread that should flush the log for a transaction's wait, given the number of other
    /// transactions that its worker can run meanwhile.
    fn flush_by(&self, _others: usize) -> FlushBy {
        FlushBy::Caller
    }

    /// Waits until the device has the log up to `lsn`, also where the durability mode promises
    /// less: other instances rely on this. With a log in memory it returns at once.
    ///
    /// # Errors
    /// As [`Engine::durable`].
    async fn stable(&self, ctx: &Self::WorkerContext, lsn: Lsn, flush_by: FlushBy) -> Result<(), Abort>;

    /// Whether the device has the log up to `lsn` already; asks for it if not.
    fn is_stable(&self, lsn: Lsn) -> bool;

    /// The worker's share of the engine's work between transactions. `true` if there was any.
    fn turn(self: &Arc<Self>, ctx: &Self::WorkerContext) -> bool;

    fn counts(&self) -> EngineCounts;
}
