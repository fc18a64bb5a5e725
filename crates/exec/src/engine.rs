//! What an instance asks of the engine whose data it holds: the one face of all designs.
//!
//! ```text
//!   begin -> operations through Here -> certify -> commit  -> wait until durable -> reply
//!                                               -> prepare -> wait until durable -> vote -> commit or rollback
//! ```
//!
//! An engine is shared by an instance's workers. What each has to itself is its [`Engine::Desk`], made on the worker's own
//! thread; a transaction's work is an [`Engine::Part`], which stays with the worker that made it. Whatever may have to wait
//! for another transaction is asynchronous and done by [`Engine::certify`] at the latest: a commit or a prepare after it
//! fails only with the engine.
//!
//! Where workers own keys ([`Engine::OWNERS`]) a part may have branches at other workers, which end with it:
//!
//! ```text
//!   the part's worker                                          an owner
//!   meeting, send(steps) ... ------------------------------->  receive: a Visit, with the branch
//!   own steps                                                  runs the steps
//!   rendezvous  <--------------------------------------------  answer: results and branch
//!   commit: one record for all; or rollback ---------------->  (within receive) locks released; or undone
//! ```

use crate::branches::{Answer, Visit};
use crate::chart::Stamp;
use crate::design::{DesignKind, OccConflict};
use crate::executor::{Executor, Unpark};
use crate::local::Protection;
use crate::owners::{Spot, Territory};
use crate::paged::{Errand, Refusal};
use base::{Lsn, TableId};
use locks::LockTuning;
use pages::Latching;
use partition::Ranges;
use probe::{LockWork, LogCounts};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use store::{HeapForm, NoteId, StoreFault, TreeKind};
use txn::{Abort, Access, Route, Schema};
use wal::{Durability, Urge};

/// What an engine is opened with.
#[derive(Clone, Debug)]
pub struct Setup {
    pub design: DesignKind,
    /// Everything that survives lies here; created if missing.
    pub dir: PathBuf,
    pub durability: Durability,
    /// Memory for data, in pages of 8 KiB.
    pub pool_pages: usize,
    pub workers: usize,
    pub locks: LockTuning,
    pub lock_timeout_ns: u64,
    /// For `occ`, whose rows, index and old versions take [`Setup::pool_pages`] at most.
    pub occ_conflict: OccConflict,
    /// How trees are made, if the folder holds none; for `occ` it says nothing.
    pub trees: TreeKind,
    /// How readers of pages keep out of the way of writers; for `serial` and `occ` it says nothing.
    pub latching: Latching,
    /// Which rows share a heap page, if the folder holds no tables; for `occ` it says nothing.
    pub heaps: HeapForm,
    /// Into how many parts a load divides each multi-rooted tree; where workers own keys, how many partitions these have at least.
    pub partitions: usize,
    /// The tables, created if the folder holds none.
    pub schema: Schema,
    pub territory: Territory,
}

/// What opening found.
pub struct Recovered<T> {
    /// How often this data has been opened, this time included.
    pub life: u32,
    /// Bytes of log replayed.
    pub log_bytes: u64,
    /// Transactions found prepared, and the note each was prepared with.
    pub in_doubt: Vec<(Vec<u8>, T)>,
    /// Notes that were not forgotten, oldest first.
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

/// Whether a transaction has parts elsewhere, which may have been certified earlier and end later than this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    Home,
    Distributed,
}

/// Where a transaction is certified already while a part of it waits here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// At instances with lower numbers at most: waits only go upwards, so they close no circle over instances.
    Upwards,
    /// Perhaps at higher ones: a wait may close a circle, so it has to be short.
    Any,
}

/// Since when a part holds what keeps others from undoing what it has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// Since it saw it, by locks.
    FromSteps,
    /// Since [`Engine::certify`], by validation.
    FromCertify,
}

/// Whether the transaction of a part that is being prepared holds all its locks, here and elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockPoint {
    Reached,
    Ahead,
}

/// What an engine did since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EngineCounts {
    pub log: LogCounts,
    pub locks: LockWork,
    /// In use now, not since opening.
    pub pages: u64,
    pub page_reads: u64,
    pub page_writes: u64,
}

/// An instance's storage under one design, shared by its workers.
pub trait Engine: Send + Sync + Sized + 'static {
    const HOLDS: Holds;
    /// Parts may run under [`Protection::Past`].
    const PAST: bool = false;
    /// Rows can be asked for ahead of the transaction ([`Engine::want`]).
    const FETCHES: bool = false;
    /// The rows that one transaction to come is known to ask for.
    type Wanted: Default + 'static;
    /// What one worker has to itself.
    type Desk: 'static;
    /// One transaction's work here. Used for one transaction after the other, so that its buffers stay.
    type Part: 'static;
    /// The rows, as one part sees them.
    type Here<'a>: Access;
    /// New rows on their way into an empty engine.
    type Filling<'a>: Access;
    /// What a worker has filled in and is still to be put together.
    type Filled: Send + 'static;
    /// A transaction that restart found prepared.
    type InDoubt: Send + 'static;

    /// # Errors
    /// [`EngineFault`] with what was expected in the folder.
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

    /// Writes what is still in memory only, whatever the durability, and closes.
    ///
    /// # Errors
    /// [`EngineFault`]; the folder is as after a crash.
    fn close(self) -> Result<(), EngineFault>;

    /// What whoever runs the engine should know and may mend, though it goes on: a warning with what to do.
    fn shortage(&self) -> Option<String> {
        None
    }

    /// What the engine has met that keeps it from going on.
    fn fault(&self) -> Option<String>;

    /// To be called on the worker's own thread, before anything else it does here. `unpark` wakes it.
    fn desk(self: &Arc<Self>, worker: usize, unpark: Unpark) -> Self::Desk;

    /// The worker is about to end; its parts have ended or were abandoned.
    fn leave(&self, desk: &Self::Desk);

    /// Protection for a transaction that needs only this instance as far as its arguments tell.
    fn protection_at_home(&self, desk: &Self::Desk) -> Protection;

    /// An empty part; [`Engine::begin`] starts it.
    fn part(&self, desk: &Self::Desk) -> Self::Part;
    fn begin(&self, desk: &Self::Desk, part: &mut Self::Part, protection: Protection);

    /// Has memory bring what is to be known of a row that a transaction to come will ask for. It takes nothing and promises nothing.
    fn want(&self, _: &Self::Desk, _: &mut Self::Wanted, _: TableId, _: &[u8]) {}

    /// A while later, right before that transaction: has memory bring the rows themselves, and forgets them.
    fn fetch(&self, _: &Self::Desk, _: &mut Self::Wanted) {}

    fn protection(part: &Self::Part) -> Protection;
    /// From here on the part waits for others as this says; [`Engine::begin`] makes it [`Order::Upwards`].
    fn in_order(part: &mut Self::Part, order: Order);
    /// Whether anything was written.
    fn wrote(part: &Self::Part) -> bool;

    fn here<'a>(
        &'a self,
        desk: &'a Self::Desk,
        executor: &'a Executor,
        part: &'a mut Self::Part,
    ) -> Self::Here<'a>;

    /// Whether all that the part has seen was there at one moment: only then is an abort that the procedure decided on an
    /// answer. The part is to be rolled back after this, whatever it says.
    fn holds(&self, desk: &Self::Desk, part: &mut Self::Part) -> bool;

    /// Makes certain that the part can commit: all it has seen still holds, and will until its end.
    ///
    /// # Errors
    /// The part has to be rolled back.
    async fn certify(
        &self,
        desk: &Self::Desk,
        executor: &Executor,
        part: &mut Self::Part,
        scope: Scope,
    ) -> Result<(), Abort>;

    /// Commits a certified part that was not prepared, or that was and whose decision is commit. The reply may be given once
    /// the returned position is durable.
    ///
    /// # Errors
    /// [`Abort::Fault`] when the engine accepts nothing more; the part is over, and restart undoes it.
    fn commit(&self, desk: &Self::Desk, part: &mut Self::Part) -> Result<Lsn, Abort>;

    /// As [`Engine::commit`], with a note that is returned at every restart until it is forgotten.
    ///
    /// # Errors
    /// As [`Engine::commit`].
    fn commit_with_note(
        &self,
        desk: &Self::Desk,
        part: &mut Self::Part,
        note: &[u8],
    ) -> Result<(Lsn, NoteId), Abort>;

    fn forget(&self, desk: &Self::Desk, note: NoteId);

    /// Prepares a certified part that wrote something: it can go either way from now on. The vote may be given once the
    /// returned position is durable.
    ///
    /// # Errors
    /// The part has to be rolled back.
    fn prepare(
        &self,
        desk: &Self::Desk,
        part: &mut Self::Part,
        note: &[u8],
        lock_point: LockPoint,
    ) -> Result<Lsn, Abort>;

    /// Undoes everything the part did here.
    ///
    /// # Errors
    /// [`Abort::Fault`] when that did not work; restart will do it.
    fn rollback(&self, desk: &Self::Desk, part: &mut Self::Part) -> Result<(), Abort>;

    /// Lets go of a part without ending its transaction: the worker stops, and restart finds it as its log says.
    fn abandon(&self, desk: &Self::Desk, part: &mut Self::Part);

    /// Takes a transaction that restart found prepared: protects again what it changed.
    fn adopt(&self, desk: &Self::Desk, in_doubt: Self::InDoubt) -> Self::Part;

    /// Whether each worker owns keys, so that steps may belong to another one.
    const OWNERS: bool = false;

    /// Where what is routed there must be run; `None` if any worker may.
    fn spot(&self, _: Route) -> Option<Spot> {
        None
    }

    /// To be taken before steps that share a letter are routed; says to whoever gets it whether they still are its own.
    fn stamp(&self) -> Stamp {
        unreachable!("an engine without owners")
    }

    /// Which worker owns which sites, where workers own keys: the sites are counted from the instance's first.
    fn ranges(&self) -> Option<Ranges> {
        None
    }

    /// Lets a part into its own worker's keys: until its end, what is routed to this worker now stays so. `false` where it has to wait:
    /// [`Engine::pass`].
    fn admit(&self, _: &mut Self::Part) -> bool {
        true
    }

    /// Waits until the part is let in.
    ///
    /// # Errors
    /// [`Abort::Deadlock`], [`Abort::LockTimeout`].
    async fn pass(&self, _: &Self::Desk, _: &Executor, _: &mut Self::Part) -> Result<(), Abort> {
        Ok(())
    }

    /// Has the worker carry out changes of who owns what, in its turns; the errand says to whom that is told.
    fn repartition(&self, _: &Self::Desk, errand: Errand) {
        // Who asked may be gone.
        let _ = errand.done.send(Err(Refusal::NoOwners));
    }

    /// The steps of a visit are about to be run.
    fn begin_visit(&self, _: &mut Self::Part) {}

    /// Visits that the worker has let in and not answered.
    fn waiting(&self, _: &Self::Desk) -> usize {
        0
    }

    /// The sites whose keys a worker owns, where that matters.
    fn sites_of(&self, _: &Self::Desk) -> Option<Range<u32>> {
        None
    }

    /// Has the system back all the memory that data may take, so that no transaction waits for it; it may take seconds. Called
    /// by a thread whose memory comes from the instance's node.
    fn back_memory(&self);

    /// A load begins: from now on the worker may have its pages to itself.
    fn take_over(&self, _: &Self::Desk) {}

    /// The load has halted: from now on anybody may touch any page.
    fn give_back(&self, _: &Self::Desk) {}

    /// Opens a meeting of steps at several workers.
    fn meeting(&self, _: &Self::Desk) -> u32 {
        unreachable!("an engine without owners")
    }

    /// Sends encoded steps to their owner, on behalf of `part`. They lie where the stamp says.
    fn send(
        &self,
        _: &Self::Desk,
        _: &mut Self::Part,
        _meeting: u32,
        _owner: (usize, Stamp),
        _steps: Vec<u8>,
    ) {
        unreachable!("an engine without owners")
    }

    /// Waits until all that was sent has been answered, and ends the meeting. [`Abort::NotHere`] is the answer to steps that belong to
    /// another worker by now: none of them has been run.
    async fn rendezvous(&self, _: &Self::Desk, _: &mut Self::Part, _meeting: u32) -> Vec<Answer> {
        unreachable!("an engine without owners")
    }

    /// Reads the mail from other workers: does what it says, up to the next steps to be run here.
    fn receive(&self, _: &Self::Desk) -> Option<Visit<Self::Part>> {
        None
    }

    /// Sends the results of a visit back.
    fn answer(&self, _: &Self::Desk, _: Visit<Self::Part>, _: Result<(), Abort>, _outputs: Vec<u8>) {
        unreachable!("an engine without owners")
    }

    /// Whether there is neither mail nor anybody whose wait for the log has ended: part of the look before a sleep.
    fn is_quiet(&self, _: &Self::Desk) -> bool {
        true
    }

    /// Whether everything this worker had undone elsewhere is undone.
    fn is_settled(&self, _: &Self::Desk) -> bool {
        true
    }

    /// What has to be durable before anybody is told of what a part has seen that wrote nothing, or that is going to be rolled back.
    fn horizon(&self, part: &Self::Part, desk: &Self::Desk) -> Lsn;

    /// What [`Engine::durable`] would give without waiting.
    fn durable_now(&self, lsn: Lsn) -> Option<Result<(), Abort>>;

    /// Waits until the log up to `lsn` is as safe as the durability mode promises.
    ///
    /// # Errors
    /// [`Abort::Fault`] when the log has failed, also in the modes that wait for nothing.
    async fn durable(&self, desk: &Self::Desk, lsn: Lsn, urge: Urge) -> Result<(), Abort>;

    /// Who had better see to the flush that a transaction waits for, when so many others of its worker can run meanwhile.
    fn urge(&self, _others: usize) -> Urge {
        Urge::Caller
    }

    /// Waits until the device has the log up to `lsn`, also where the durability mode promises
    /// less: what other instances rely on. With a log in memory there is nothing to wait for.
    ///
    /// # Errors
    /// As [`Engine::durable`].
    async fn stable(&self, desk: &Self::Desk, lsn: Lsn, urge: Urge) -> Result<(), Abort>;

    /// Whether the device has the log up to `lsn` now; asks for it if not.
    fn is_stable(&self, lsn: Lsn) -> bool;

    /// Has the log flushed for those who wait for it with [`Urge::Caller`]: by its own thread.
    fn flush_log(&self);

    /// The same, on the calling thread if nobody else is at it: for a worker that can do nothing else meanwhile.
    fn flush_log_here(&self);

    /// What a worker does for the engine between transactions. `true` when there was something.
    fn turn(self: &Arc<Self>, desk: &Self::Desk) -> bool;

    /// A bounded piece of what makes room for transactions to come, for a worker that has nothing else to do. `true` when there
    /// was some, and may be more.
    fn tidy(&self, _: &Self::Desk) -> bool {
        false
    }

    /// Whether [`Engine::turn`] has something to do: the look before a sleep on the [`Engine::bell`].
    fn ready(&self) -> bool;

    /// Becomes readable, edge by edge, when [`Engine::ready`] may have become true.
    fn bell(&self) -> Option<BorrowedFd<'_>>;

    /// The body of a thread of the engine's own, until `stop` is set and [`Engine::stop_cleaner`] called.
    fn clean(&self, stop: &AtomicBool);
    fn stop_cleaner(&self);

    /// Called by the workers now and then.
    fn checkpoint_if_due(self: &Arc<Self>, desk: &Self::Desk);

    /// Writes a checkpoint: on a worker, because it may own the pages.
    ///
    /// # Errors
    /// [`EngineFault`].
    fn checkpoint(&self) -> Result<(), EngineFault>;

    fn counts(&self) -> EngineCounts;

    /// Whether it holds no row yet, so that [`Engine::filling`] can be used.
    fn is_blank(&self) -> bool;

    /// For rows on their way into an empty engine; takes new rows only: nothing can be read before all are there.
    fn filling<'a>(&'a self, desk: &'a Self::Desk) -> Self::Filling<'a>;

    /// # Errors
    /// In words.
    fn filled(&self, filling: Self::Filling<'_>) -> Result<Self::Filled, String>;

    /// Puts together what all workers have filled in.
    ///
    /// # Errors
    /// In words.
    fn assemble(&self, all: Vec<Self::Filled>) -> Result<(), String>;
}
