//! The store: the tables, epochs and memory that its workers share.

use crate::arena::{Arena, Full, Local, Ref};
use crate::epoch::{EpochUse, Epochs};
use crate::hints::{Hash, Hints};
use crate::hot::Hot;
use crate::index::Index;
use crate::left::Left;
use crate::log::{FlushBy, Log, LogFault, LogStats};
use crate::node::Node;
use crate::read_reservation;
use crate::row::{self, MAX_KEY, MAX_ROW};
use crate::seams::Seams;
use crate::tid;
use base::TableId;
use latch::{Rank, RankedMutex};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

/// The reaction to a row that another transaction has prepared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conflict {
    /// Abort at once, as Silo does.
    Abort,
    /// Return the row that is in the way ([`Refused::Busy`]), so that the caller waits and repeats
    /// the call.
    Wait,
}

/// A log of up to this many bytes is read in a moment, so a clean end need not save the next
/// opening from reading it.
const SHORT_LOG: u64 = 1 << 20;

/// The reaction to rows at which transactions keep failing, and to leaves that change beside the
/// range that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contention {
    /// None, as in Silo: every change of a leaf is taken for a phantom.
    Optimistic,
    /// A transaction waits for its turn before it reads or writes such a row, and before it takes
    /// rows from a range where others keep failing. Readers wait for writers, writers for all. A
    /// leaf that has changed is looked at again.
    Queues,
}

/// The effect of [`crate::Worker::prefetch`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookAhead {
    /// Looks the rows up side by side, so that the waits for memory overlap.
    Batched,
    /// None: each row is looked up when it is read.
    Never,
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Memory for rows, versions and indexes together; bytes.
    pub budget: u64,
    pub pages: world::PageSize,
    /// The number of workers; they are numbered from 0.
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
        let (pages, conflict, look_ahead) = (world::PageSize::Huge, Conflict::Abort, LookAhead::Batched);
        let contention = Contention::Queues;
        Options { budget, pages, workers, tables: 256, conflict, look_ahead, contention }
    }
}

/// The row, or range of rows, that is in the way of a transaction. [`Memstore::is_busy`] may be
/// asked about it while that transaction is open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RowId(pub(crate) Ref, pub(crate) Held);

/// The holder of a row or range.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Held {
    /// A transaction that is going to write the row.
    Writer,
    /// Transactions that have read the row.
    Readers,
    /// Transactions that have read this leaf.
    LeafReaders,
    /// Other transactions that are ahead in this queue. The [`RowId`] then holds the place in the
    /// queue instead of a row.
    Turn { queue: u16, until: u64 },
}

/// Why a transaction can no longer be serialised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A row is locked by another transaction that is committing.
    Locked,
    /// A row that was read has changed.
    Changed,
    /// A range that was read has other rows at commit.
    Phantom,
}

/// Why a call did nothing. After [`Refused::Conflict`] the transaction can only be aborted. After
/// [`Refused::Busy`] the call can be repeated. After the others the transaction is as before.
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
    #[error(
        "the device has no room for the next file of the store's log: nothing can be changed until there is room on it"
    )]
    NoRoom,
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

/// Why a store, table or worker cannot be had.
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
    pub(crate) workers: usize,
    tables: Box<[OnceLock<Index>]>,
    pub(crate) conflict: Conflict,
    pub(crate) look_ahead: LookAhead,
    pub(crate) contention: Contention,
    pub(crate) hot: Hot,
    pub(crate) hints: Hints,
    /// The latest epoch at which a snapshot was ever opened, or is being opened. Versions of epochs
    /// up to it are kept when they are overwritten.
    pub(crate) snapshot: AtomicU64,
    /// The state that the last worker of each number has left; `None` while that number is in use.
    left: Box<[RankedMutex<Option<Left>>]>,
    pub(crate) seams: Seams,
    /// For creating tables, which needs no worker.
    makes: RankedMutex<Local>,
}

impl Memstore {
    /// Opens a store without files: its contents end with it. See [`Memstore::open_in`] for one
    /// that keeps them.
    ///
    /// # Errors
    /// [`OpenError::Memory`] when the system does not give the addresses, [`OpenError::Nobody`] for
    /// an empty store.
    pub fn open(options: Options) -> Result<Arc<Memstore>, OpenError> {
        Memstore::empty(options, 0, 1)
    }

    /// As [`Memstore::open`], with `helpers` more workers than the options say, for the store's own
    /// use. The first epoch is `first`.
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
            left: (0..all).map(|_| RankedMutex::new(Rank::MemWorkers, Some(Left::default()))).collect(),
            seams: Seams::default(),
            makes: RankedMutex::new(Rank::MemTables, Local::new()),
        }))
    }

    /// Creates an empty table or index (an index is a table with keys of another table in its
    /// rows). Does nothing if the table exists. In a store with files the table is durable when
    /// this returns. For many tables [`Memstore::define`] is faster.
    ///
    /// # Errors
    /// [`OpenError::Table`] for an id beyond the options', [`OpenError::Full`] when memory is used
    /// up, [`OpenError::Log`].
    pub fn create(&self, table: TableId) -> Result<(), OpenError> {
        self.make(table)?;
        self.record(None, &[table])
    }

    /// Creates tables, and keeps `schema` for the next opening, in place of any earlier one. Its
    /// contents are up to the caller.
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
            let control = log.shared.control.lock();
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
        let mut local = self.makes.lock();
        if place.get().is_none() {
            let index = Index::new(&self.arena, &mut local).map_err(|Full| OpenError::Full)?;
            let _ = place.set(index);
        }
        Ok(())
    }

    /// The number of workers, with those for the store's own use.
    pub(crate) fn everybody(&self) -> usize {
        self.left.len()
    }

    /// The state that the last worker of this number has left; `None` while that number is in use.
    pub(crate) fn take_left(&self, worker: usize) -> Option<Left> {
        self.left.get(worker)?.lock().take()
    }

    pub(crate) fn release(&self, worker: usize, left: Left) {
        *self.left[worker].lock() = Some(left);
    }

    #[inline]
    pub(crate) fn index(&self, table: TableId) -> Result<&Index, Refused> {
        let index = self.tables.get(usize::from(table.0)).and_then(OnceLock::get);
        index.ok_or(Refused::NoTable(table))
    }

    /// Whether the index has the key. A hint may answer, otherwise the index does. The caller is
    /// pinned.
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

    /// Begins the next epoch. Has to be called every few milliseconds: memory and versions are
    /// reused, and snapshots become readable, as epochs pass. Takes no lock and does not wait.
    pub fn tick(&self) -> u64 {
        self.epochs.tick()
    }

    /// The number of epochs that are left until nothing can be committed any more
    /// ([`Refused::EpochsUsedUp`]).
    pub fn epochs_left(&self) -> u64 {
        tid::LAST_OF_ALL.saturating_sub(self.epochs.now())
    }

    /// Has the system back all memory of the budget. Takes seconds if that is many gigabytes.
    pub fn back_all(&self) {
        self.arena.back_all();
    }

    /// Has the system back memory that commits will soon need. For the thread that ticks: no
    /// transaction waits for it.
    pub fn back_ahead(&self) {
        self.arena.back_ahead();
    }

    /// Whether the row or range that was in the way still is.
    pub fn is_busy(&self, RowId(at, held): RowId) -> bool {
        match held {
            Held::Writer => row::tid(&self.arena, at).load(Ordering::Acquire) & tid::LOCKED != 0,
            Held::Readers => {
                read_reservation::is_held(row::readers(&self.arena, at), read_reservation::OF_ROW)
            }
            Held::Turn { queue, until } => self.hot.waits(queue, at.0, until, self.epochs.now()),
            Held::LeafReaders => {
                read_reservation::is_held(Node::at(&self.arena, at).readers(), read_reservation::OF_LEAF)
            }
        }
    }

    /// All commits of epochs up to this one are as safe as the log's mode promises. Without a log
    /// these are all commits.
    pub fn durable_epoch(&self) -> u64 {
        self.log.as_ref().map_or(u64::MAX, Log::durable)
    }

    /// Whether `epoch` is durable. If not, the task is woken when it is, or when it is certain that
    /// it never will be. No thread waits.
    ///
    /// # Errors
    /// The reason why it never will be.
    #[inline]
    pub fn poll_durable(
        &self,
        epoch: u64,
        flush_by: FlushBy,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), LogFault>> {
        self.log.as_ref().map_or(Poll::Ready(Ok(())), |log| log.poll_durable(epoch, flush_by, cx))
    }

    /// As [`Memstore::poll_durable`], for a thread that may block.
    ///
    /// # Errors
    /// The reason why it never will be.
    pub fn wait_durable(&self, epoch: u64) -> Result<(), LogFault> {
        self.log.as_ref().map_or(Ok(()), |log| log.wait_durable(epoch))
    }

    /// Whether `epoch` is durable. If not, it will be before long; no task is woken for it.
    #[inline]
    pub fn ask_durable(&self, epoch: u64) -> bool {
        self.log.as_ref().is_none_or(|log| log.ask_durable(epoch))
    }

    /// As [`Memstore::poll_durable`], for the device in every mode: whether a power cut leaves the
    /// epoch.
    ///
    /// # Errors
    /// The reason why it never will be there.
    pub fn poll_stable(
        &self,
        epoch: u64,
        flush_by: FlushBy,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), LogFault>> {
        self.log.as_ref().map_or(Poll::Ready(Ok(())), |log| log.poll_stable(epoch, flush_by, cx))
    }

    /// Whether the device has all commits of epochs up to this one. If not, it will before long; no
    /// task is woken for it.
    pub fn ask_stable(&self, epoch: u64) -> bool {
        self.log.as_ref().is_none_or(|log| log.ask_stable(epoch))
    }

    /// The log's mode; `None` without a log.
    pub fn durability(&self) -> Option<crate::Durability> {
        self.log.as_ref().map(Log::durability)
    }

    /// Brings all commits to the device, in every durability mode. Blocks.
    ///
    /// # Errors
    /// The reason why that is impossible.
    pub fn write_out(&self) -> Result<(), LogFault> {
        self.log.as_ref().map_or(Ok(()), Log::write_out)
    }

    /// A clean end: as [`Memstore::write_out`], followed by a checkpoint if the checkpoint is
    /// smaller than the log that the next opening would have to read. Blocks. No transaction may
    /// commit meanwhile.
    ///
    /// # Errors
    /// As [`Memstore::write_out`]. A checkpoint that fails is ignored: the log has everything.
    pub fn wind_up(self: &Arc<Memstore>) -> Result<(), LogFault> {
        let Some(log) = &self.log else { return Ok(()) };
        log.write_out()?;
        if log.since_checkpoint() > self.arena.used_bytes().max(SHORT_LOG) {
            let _ = self.checkpoint();
        }
        log.fault().map_or(Ok(()), Err)
    }

    /// Has the log's own thread flush, for the callers that wait with [`FlushBy::Caller`].
    pub fn flush(&self) {
        if let Some(log) = &self.log {
            log.flush();
        }
    }

    /// The same on the calling thread, unless another thread is flushing. For a worker that can do
    /// nothing else meanwhile.
    pub fn flush_here(&self) {
        if let Some(log) = &self.log {
            log.flush_here();
        }
    }

    /// The fault that has broken the log, if there is one.
    pub fn log_fault(&self) -> Option<LogFault> {
        self.log.as_ref().and_then(Log::fault)
    }

    /// The first refusal of a change because the log could not grow ([`Refused::NoRoom`]), if there
    /// was one. The store goes on, and accepts changes once there is room.
    pub fn log_refused(&self) -> Option<LogFault> {
        self.log.as_ref().and_then(Log::refused)
    }

    pub fn log_stats(&self) -> LogStats {
        self.log.as_ref().map(Log::stats).unwrap_or_default()
    }

    /// Bytes in use: from the budget, and for hints up to a thirty-second part of that on top.
    pub fn used_bytes(&self) -> u64 {
        self.arena.used_bytes() + self.hints.used_bytes()
    }

    /// The oldest snapshot that may still be read. Every version that was overwritten before its
    /// end can go.
    pub(crate) fn oldest_snapshot(&self) -> u64 {
        self.epochs.oldest(EpochUse::Snapshot)
    }
}
