//! The store: tables, epochs and memory that its workers share.

use crate::arena::{Arena, Full, Local, Ref};
use crate::epoch::{Epochs, What};
use crate::guard;
use crate::hints::{Hash, Hints};
use crate::hot::Hot;
use crate::index::Index;
use crate::log::{self, Log, LogFault, LogStats, Urge};
use crate::node::Node;
use crate::planted::Planted;
use crate::row::{self, MAX_KEY, MAX_ROW};
use crate::tid;
use crate::worker::{Left, Worker};
use base::TableId;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

/// What to do on meeting a row that another transaction has prepared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conflict {
    /// Abort at once, as Silo does.
    Abort,
    /// Say which row is in the way ([`Refused::Busy`]), so that the caller waits and repeats the call.
    Wait,
}

/// A log of this many bytes is read in a moment: an end need not spare the next opening that.
const SHORT_LOG: u64 = 1 << 20;

/// What to do about rows at which one transaction after the other fails, and about leaves that change beside what was looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contention {
    /// Nothing, as Silo: every change of a leaf is taken for a phantom.
    Optimistic,
    /// Whoever is going to read or write such a row, or takes rows from where others have failed, waits for its turn: readers for
    /// writers, writers for everybody. A leaf that has changed is looked at again.
    Queues,
}

/// What [`Worker::ahead`] does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookAhead {
    /// Looks the rows up side by side, so that waiting for memory overlaps.
    Abreast,
    /// Nothing: each row is looked up when it is asked for.
    Never,
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Memory for everything: rows, versions, index; bytes.
    pub budget: u64,
    pub pages: world::PageSize,
    /// Workers are numbered from 0 to this.
    pub workers: usize,
    /// Table ids are below this.
    pub tables: u16,
    pub conflict: Conflict,
    pub look_ahead: LookAhead,
    pub contention: Contention,
}

impl Options {
    /// With huge pages, 256 tables, queues for hot rows, and aborts at prepared rows.
    pub fn new(budget: u64, workers: usize) -> Options {
        let (pages, conflict, look_ahead) = (world::PageSize::Huge, Conflict::Abort, LookAhead::Abreast);
        let contention = Contention::Queues;
        Options { budget, pages, workers, tables: 256, conflict, look_ahead, contention }
    }
}

/// The row, or range of rows, in the way of a transaction. Ask [`Memstore::is_busy`] while that transaction is open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RowId(pub(crate) Ref, pub(crate) Held);

/// By what it is held.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Held {
    /// The row is going to be written.
    Writer,
    /// The row was read.
    Readers,
    /// This leaf was.
    LeafReaders,
    /// Others are before it in this queue; its place there is in the place of the row.
    Turn { queue: u16, until: u64 },
}

/// Why a transaction cannot be serialised any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A row is locked by another transaction that is committing.
    Locked,
    /// A row that was read has changed.
    Changed,
    /// A range that was read has other rows now.
    Phantom,
}

/// Why a call did nothing. After [`Refused::Conflict`] the transaction can only be aborted; after [`Refused::Busy`] the call
/// can be repeated; after the others the transaction is as before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    #[error("conflict with another transaction ({0:?}): abort and run it again")]
    Conflict(Cause),
    #[error("another transaction has prepared the row: wait for its decision, then repeat the call")]
    Busy(RowId),
    #[error("the memory budget is used up: delete rows or open the store with a larger budget")]
    Full,
    #[error("a key of {0} bytes; at most {max} fit", max = MAX_KEY)]
    KeyTooLong(usize),
    #[error("a row of {0} bytes; at most {max} fit", max = MAX_ROW)]
    RowTooLong(usize),
    #[error("{0} was not created in this store")]
    NoTable(TableId),
    #[error(
        "the store's log has failed: nothing can be committed any more; see `Memstore::log_fault` for why"
    )]
    LogFailed,
    #[error("the snapshot cannot be read before the transactions it comes after have ended")]
    NotReady,
    #[error(
        "the store has used up its epochs, all 2^48 of them: nothing can be committed any more; read its rows and load them into a \
         new store"
    )]
    EpochsUsedUp,
}

impl From<Full> for Refused {
    fn from(_: Full) -> Refused {
        Refused::Full
    }
}

/// Why there is no store, table or worker.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot reserve {bytes} bytes of addresses for the store: {why}")]
    Memory { bytes: u64, why: std::io::Error },
    #[error("a store needs at least one worker and one table")]
    Nobody,
    #[error("{0} is beyond the store's tables: open it with a larger `tables`")]
    Table(TableId),
    #[error("the memory budget is too small for another table")]
    Full,
    #[error(transparent)]
    Log(#[from] LogFault),
    #[error(
        "the memory budget of {bytes} bytes is too small for the store's rows: open it with a larger budget"
    )]
    TooSmall { bytes: u64 },
    #[error("worker {worker} is in use, or beyond the store's {workers} workers")]
    Worker { worker: usize, workers: usize },
}

/// A main-memory store. Shared by its workers; see the crate's documentation.
pub struct Memstore {
    pub(crate) arena: Arena,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) log: Option<Log>,
    workers: usize,
    tables: Box<[OnceLock<Index>]>,
    pub(crate) conflict: Conflict,
    pub(crate) look_ahead: LookAhead,
    pub(crate) contention: Contention,
    pub(crate) hot: Hot,
    pub(crate) hints: Hints,
    /// The latest epoch that a snapshot was ever opened at, or is being: versions up to it are kept when overwritten.
    pub(crate) snapshot: AtomicU64,
    /// What the last worker of each number has left; nothing while there is one.
    left: Box<[Mutex<Option<Left>>]>,
    pub(crate) planted: Planted,
    /// For making tables, which no worker does.
    makes: Mutex<Local>,
}

impl Memstore {
    /// A store without files: what is in it goes with it. See [`Memstore::open_in`] for one that stays.
    ///
    /// # Errors
    /// [`OpenError::Memory`] when the system does not give the addresses, [`OpenError::Nobody`] for an empty store.
    pub fn open(options: Options) -> Result<Arc<Memstore>, OpenError> {
        Memstore::empty(options, 0, 1)
    }

    /// With `helpers` more workers than the options say, for the store's own use; its first epoch is `first`.
    pub(crate) fn empty(options: Options, helpers: usize, first: u64) -> Result<Arc<Memstore>, OpenError> {
        if options.workers == 0 || options.tables == 0 {
            return Err(OpenError::Nobody);
        }
        let memory = |why| OpenError::Memory { bytes: options.budget, why };
        let all = options.workers + helpers;
        Ok(Arc::new(Memstore {
            arena: Arena::new(options.budget, options.pages).map_err(memory)?,
            epochs: Arc::new(Epochs::new(all, first)),
            log: None,
            workers: options.workers,
            tables: (0..options.tables).map(|_| OnceLock::new()).collect(),
            conflict: options.conflict,
            look_ahead: options.look_ahead,
            contention: options.contention,
            hot: Hot::new(),
            hints: Hints::new(options.budget, options.pages).map_err(memory)?,
            snapshot: AtomicU64::new(0),
            left: (0..all).map(|_| Mutex::new(Some(Left::default()))).collect(),
            planted: Planted::default(),
            makes: Mutex::new(Local::new()),
        }))
    }

    /// Makes an empty table, or index (a table whose rows are keys of another, say). Nothing if it is there. In a store with
    /// files it is there for good when this returns; for many tables [`Memstore::define`] is faster.
    ///
    /// # Errors
    /// [`OpenError::Table`] for an id beyond the options', [`OpenError::Full`] when memory is used up, [`OpenError::Log`].
    pub fn create(&self, table: TableId) -> Result<(), OpenError> {
        self.make(table)?;
        self.record(None, &[table])
    }

    /// Makes tables, and keeps `schema` for the next opening, in place of any earlier one: what it says is the caller's.
    ///
    /// # Errors
    /// As [`Memstore::create`].
    pub fn define(&self, schema: &[u8], tables: &[TableId]) -> Result<(), OpenError> {
        tables.iter().try_for_each(|table| self.make(*table))?;
        self.record(Some(schema), tables)
    }

    fn record(&self, schema: Option<&[u8]>, tables: &[TableId]) -> Result<(), OpenError> {
        let Some(log) = &self.log else { return Ok(()) };
        let is_known = {
            let control = log::held(&log.shared.control);
            let has_schema = schema.is_none_or(|schema| control.schema.as_deref() == Some(schema));
            has_schema && tables.iter().all(|table| control.tables.binary_search(&table.0).is_ok())
        };
        if is_known {
            return Ok(());
        }
        log.shared.recontrol(|control| {
            control.tables.extend(tables.iter().map(|table| table.0));
            control.tables.sort_unstable();
            control.tables.dedup();
            if let Some(schema) = schema {
                control.schema = Some(schema.to_vec());
            }
        })?;
        Ok(())
    }

    pub(crate) fn make(&self, table: TableId) -> Result<(), OpenError> {
        let place = self.tables.get(usize::from(table.0)).ok_or(OpenError::Table(table))?;
        let mut local = self.makes.lock().unwrap_or_else(PoisonError::into_inner);
        if place.get().is_none() {
            let index = Index::new(&self.arena, &mut local).map_err(|Full| OpenError::Full)?;
            let _ = place.set(index);
        }
        Ok(())
    }

    /// The worker of this number, of which there is one at a time; it stays on the thread that asks.
    ///
    /// # Errors
    /// [`OpenError::Worker`] when there is no such worker or somebody has it.
    pub fn worker(self: &Arc<Memstore>, worker: usize) -> Result<Worker, OpenError> {
        let error = || OpenError::Worker { worker, workers: self.workers };
        if worker >= self.workers {
            return Err(error());
        }
        self.worker_of_any(worker).ok_or_else(error)
    }

    /// A worker for the store's own use.
    pub(crate) fn helper(self: &Arc<Memstore>, helper: usize) -> Option<Worker> {
        self.worker_of_any(self.workers + helper)
    }

    /// How many workers there are, those for its own use included.
    pub(crate) fn everybody(&self) -> usize {
        self.left.len()
    }

    fn worker_of_any(self: &Arc<Memstore>, worker: usize) -> Option<Worker> {
        let left = self.left.get(worker)?;
        let left = left.lock().unwrap_or_else(PoisonError::into_inner).take();
        Some(Worker::new(Arc::clone(self), worker, left?))
    }

    pub(crate) fn release(&self, worker: usize, left: Left) {
        *self.left[worker].lock().unwrap_or_else(PoisonError::into_inner) = Some(left);
    }

    #[inline]
    pub(crate) fn index(&self, table: TableId) -> Result<&Index, Refused> {
        let index = self.tables.get(usize::from(table.0)).and_then(OnceLock::get);
        index.ok_or(Refused::NoTable(table))
    }

    /// Whether the index has the key, if no hint says so. The caller is pinned.
    #[inline]
    pub(crate) fn find(&self, table: TableId, key: &[u8]) -> Result<bool, Refused> {
        let hash = Hash::of(table, key);
        let hinted = self.hints.candidate(hash).is_some_and(|row| row::is_of(&self.arena, row, table, key));
        if hinted {
            return Ok(true);
        }
        let found = self.index(table)?.find(&self.arena, key).row;
        found.inspect(|row| self.hints.enter(hash, *row, self.arena.used_bytes()));
        Ok(found.is_some())
    }

    /// Begins the next epoch. To be called every few milliseconds: memory and versions are used again, and snapshots
    /// become readable, as epochs pass. Takes no lock and waits for nobody.
    pub fn tick(&self) -> u64 {
        self.epochs.tick()
    }

    /// How many epochs are left until nothing can be committed any more ([`Refused::EpochsUsedUp`]).
    pub fn epochs_left(&self) -> u64 {
        tid::LAST_OF_ALL.saturating_sub(self.epochs.now())
    }

    /// Makes all the memory of the budget ready. A matter of seconds for each of many gigabytes.
    pub fn back_all(&self) {
        self.arena.back_all();
    }

    /// Makes memory ready that commits will soon need. For whoever ticks, a thread that no transaction waits for.
    pub fn back_ahead(&self) {
        self.arena.back_ahead();
    }

    /// Whether what was in somebody's way still is.
    pub fn is_busy(&self, RowId(at, held): RowId) -> bool {
        match held {
            Held::Writer => row::tid(&self.arena, at).load(Ordering::Acquire) & tid::LOCKED != 0,
            Held::Readers => guard::is_held(row::readers(&self.arena, at), guard::OF_ROW),
            Held::Turn { queue, until } => self.hot.waits(queue, at.0, until, self.epochs.now()),
            Held::LeafReaders => guard::is_held(Node::at(&self.arena, at).readers(), guard::OF_LEAF),
        }
    }

    /// All commits of epochs up to this are as safe as the log's mode promises. Without a log that is every commit.
    pub fn durable_epoch(&self) -> u64 {
        self.log.as_ref().map_or(u64::MAX, Log::durable)
    }

    /// Whether `epoch` is durable; if not, the task is woken when it is or never will be. No thread waits.
    ///
    /// # Errors
    /// Why it never will be.
    #[inline]
    pub fn poll_durable(&self, epoch: u64, urge: Urge, cx: &mut Context<'_>) -> Poll<Result<(), LogFault>> {
        self.log.as_ref().map_or(Poll::Ready(Ok(())), |log| log.poll_durable(epoch, urge, cx))
    }

    /// As [`Memstore::poll_durable`], for a thread that may block.
    ///
    /// # Errors
    /// Why it never will be.
    pub fn wait_durable(&self, epoch: u64) -> Result<(), LogFault> {
        self.log.as_ref().map_or(Ok(()), |log| log.wait_durable(epoch))
    }

    /// Whether `epoch` is durable. If not, it will be before long; nobody is woken for it.
    #[inline]
    pub fn ask_durable(&self, epoch: u64) -> bool {
        self.log.as_ref().is_none_or(|log| log.ask_durable(epoch))
    }

    /// As [`Memstore::poll_durable`], of the device in every mode: what a power cut leaves.
    ///
    /// # Errors
    /// Why it never will be there.
    pub fn poll_stable(&self, epoch: u64, urge: Urge, cx: &mut Context<'_>) -> Poll<Result<(), LogFault>> {
        self.log.as_ref().map_or(Poll::Ready(Ok(())), |log| log.poll_stable(epoch, urge, cx))
    }

    /// Whether the device has all commits of epochs up to this. If not, it will before long; no
    /// task is woken for it.
    pub fn ask_stable(&self, epoch: u64) -> bool {
        self.log.as_ref().is_none_or(|log| log.ask_stable(epoch))
    }

    /// The log's mode; `None` without a log.
    pub fn durability(&self) -> Option<crate::Durability> {
        self.log.as_ref().map(Log::durability)
    }

    /// Brings everything that has been committed to the device, whatever the durability. Blocks.
    ///
    /// # Errors
    /// Why that is impossible.
    pub fn write_out(&self) -> Result<(), LogFault> {
        self.log.as_ref().map_or(Ok(()), Log::write_out)
    }

    /// A clean end: as [`Memstore::write_out`], and with a checkpoint if that is less to write than the log is that the next
    /// opening would have to read. Blocks; nobody commits meanwhile.
    ///
    /// # Errors
    /// As [`Memstore::write_out`]. A checkpoint that cannot be written is none: the log has everything.
    pub fn wind_up(self: &Arc<Memstore>) -> Result<(), LogFault> {
        let Some(log) = &self.log else { return Ok(()) };
        log.write_out()?;
        if log.since_checkpoint() > self.arena.used_bytes().max(SHORT_LOG) {
            let _ = self.checkpoint();
        }
        log.fault().map_or(Ok(()), Err)
    }

    /// Has the log flushed for those who wait for it with [`Urge::Caller`]: by its own thread.
    pub fn flush(&self) {
        if let Some(log) = &self.log {
            log.flush();
        }
    }

    /// The same on the calling thread if nobody else is at it: for a worker that can do nothing else meanwhile.
    pub fn flush_here(&self) {
        if let Some(log) = &self.log {
            log.flush_here();
        }
    }

    /// What has broken the log, if anything has.
    pub fn log_fault(&self) -> Option<LogFault> {
        self.log.as_ref().and_then(Log::fault)
    }

    pub fn log_stats(&self) -> LogStats {
        self.log.as_ref().map(Log::stats).unwrap_or_default()
    }

    /// Bytes taken so far: from the budget, and a thirty-second part as much at most beside it.
    pub fn used_bytes(&self) -> u64 {
        self.arena.used_bytes() + self.hints.used_bytes()
    }

    /// The oldest snapshot that may still be read; every version overwritten before its end can go.
    pub(crate) fn oldest_snapshot(&self) -> u64 {
        self.epochs.oldest(What::Snapshot)
    }
}
