//! The engine of design `occ`: rows in main memory, optimistic concurrency control (`memstore`),
//! and no pages, locks or owners.
//!
//! ```text
//!   operations   note the rows they read, and buffer their writes, which no other transaction sees
//!   validate     lock the writes, validate the reads; distributed: and keep both to the decision
//!   commit       write, unlock
//! ```
//!
//! A transaction that stays at home runs from its first operation to its end without giving up its
//! worker, with one exception: when it meets a row that another transaction has prepared for
//! two-phase commit, it parks until that one has ended (`waiting`), or aborts if the conflict
//! policy is [`Abort`](crate::OccConflict::Abort). Its reads may be inconsistent until they are
//! validated. So each conclusion that a procedure draws from them, an abort included, is an answer
//! only if [`Engine::holds`](crate::Engine::holds). A transaction that only reads may read the
//! state at its begin ([`Protection::Snapshot`]): it waits for transactions that came before it and
//! were not done, and is neither validated nor aborted.
//!
//! Commits are logged in the store's own log (`memstore`), in epochs: an [`Lsn`](base::Lsn) of this
//! engine is the number of an epoch. A reply or a vote waits until all of its epoch, and so every
//! commit that it has read from, is durable. Once enough is logged, a checkpoint copies the rows on
//! threads of its own, and the log before it is deleted. The definitions of the tables are in the
//! store's control file.
//!
//! A secondary index is a table of entries without values: an entry contains the primary key.
//! Entries change with their rows, in the same transaction, so validation covers them like rows.

mod awaiting;
mod check;
mod durability;
#[cfg(test)]
mod durable_tests;
mod face;
mod filling;
mod row_access;
#[cfg(test)]
mod tests;
mod waiting;

use crate::engine::WaitOrder;
use crate::local::Protection;
use base::TableId;
use memstore::{Memstore, Refused, Snapshot, Txn, Worker};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use txn::row::Layout;
use txn::{Abort, Columns, Schema, TableDef};
use waiting::Waiting;

pub use check::{Checked, TableCount};
pub use durability::expect_files;
pub use filling::MemoryFilling;
pub use row_access::MemoryAccess;

/// One instance's rows, shared by its workers.
pub struct MemoryEngine {
    pub(crate) store: Arc<Memstore>,
    /// The table or index of each id.
    relations: Vec<Relation>,
    pub(crate) waiting: Waiting,
    wait_ns: u64,
    /// The number after those of the instance's workers, for a thread that reads the store without
    /// being one of them.
    spare: usize,
    /// Set at each commit, cleared by the ticker: whether the next epoch is needed.
    stirred: AtomicBool,
    ticker: Ticker,
    /// Set while a checkpoint is being written.
    checkpointing: AtomicBool,
    /// Why the last checkpoint was not written, if it was not.
    unwritten: Mutex<Option<String>>,
}

/// The bell of the thread that begins epochs.
#[derive(Default)]
struct Ticker {
    stopped: Mutex<bool>,
    bell: std::sync::Condvar,
}

/// The meaning of an id.
enum Relation {
    Nothing,
    Table(Box<Table>),
    Index {
        table: TableId,
        /// The position among the table's indexes.
        at: usize,
    },
}

impl Relation {
    fn table(&self) -> Option<&Table> {
        match self {
            Relation::Table(table) => Some(table),
            Relation::Nothing | Relation::Index { .. } => None,
        }
    }
}

pub(crate) struct Table {
    pub(crate) def: TableDef,
    pub(crate) layout: Layout,
    /// The columns that some index covers.
    pub(crate) indexed: Columns,
}

/// The worker context of this engine. Only the worker's thread touches it.
pub struct MemoryWorkerContext {
    pub(crate) worker: RefCell<Worker>,
    pub(crate) number: usize,
    awaiting: awaiting::Awaiting,
}

/// A local transaction of this engine.
pub struct MemoryLocalTxn {
    /// `None` before it has begun and after its end, and where it reads the past.
    pub(crate) store_txn: Option<Box<Txn>>,
    /// The snapshot that it reads under [`Protection::Snapshot`].
    past: Option<Snapshot>,
    pub(crate) protection: Protection,
    pub(crate) order: WaitOrder,
    /// Its reads and writes are kept from others until it ends.
    pub(crate) prepared: bool,
    /// Rows read or written by a [`Protection::Exclusive`] transaction since it was last cut.
    pub(crate) rows: u32,
    /// The latest epoch of its commits at cuts; 0 if there is none.
    pub(crate) logged: u64,
    /// Buffers for the position of a scan, kept for the next one.
    pub(crate) keys: [Vec<u8>; 2],
}

impl MemoryLocalTxn {
    fn new() -> MemoryLocalTxn {
        MemoryLocalTxn {
            store_txn: None,
            past: None,
            protection: Protection::Locks,
            order: WaitOrder::Upwards,
            prepared: false,
            rows: 0,
            logged: 0,
            keys: Default::default(),
        }
    }

    /// Whether other transactions may wait for its end: for rows that it holds, or for their turn
    /// behind it.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.prepared || self.store_txn.as_ref().is_some_and(|store_txn| store_txn.has_turns())
    }

    /// # Panics
    /// If the local transaction has not begun.
    #[inline]
    pub(crate) fn store_txn(&mut self) -> &mut Txn {
        self.store_txn.as_mut().expect("a local transaction begins before it is worked on")
    }
}

/// The number of epochs left below which a store warns: half a year of a million snapshots a
/// second.
const FEW_EPOCHS: u64 = 1 << 44;

/// The number of rows after which a local transaction with no concurrent writer on its rows ends
/// its transaction and starts another, so that it need not remember its reads.
pub(crate) const CUT: u32 = 512;

impl MemoryEngine {
    fn of(store: Arc<Memstore>, schema: &Schema, workers: usize, wait_ns: u64) -> MemoryEngine {
        let mut relations: Vec<Relation> =
            (0..durability::ids_of(schema)).map(|_| Relation::Nothing).collect();
        for def in &schema.tables {
            let mut indexed = Columns::NONE;
            for (at, index) in def.indexes.iter().enumerate() {
                relations[usize::from(index.id.0)] = Relation::Index { table: def.id, at };
                indexed = index.columns.iter().fold(indexed, |set, &column| set.with(column));
            }
            let table = Table { def: def.clone(), layout: Layout::of(def), indexed };
            relations[usize::from(def.id.0)] = Relation::Table(Box::new(table));
        }
        MemoryEngine {
            store,
            relations,
            waiting: Waiting::default(),
            wait_ns,
            spare: workers,
            stirred: AtomicBool::new(false),
            ticker: Ticker::default(),
            checkpointing: AtomicBool::new(false),
            unwritten: Mutex::default(),
        }
    }

    #[inline]
    pub(crate) fn table(&self, id: TableId) -> Result<&Table, Abort> {
        match self.relations.get(usize::from(id.0)) {
            Some(Relation::Table(table)) => Ok(table),
            _ => Err(Abort::BadRequest),
        }
    }

    /// The table of an id, and the position among its indexes if the id is an index.
    pub(crate) fn index(&self, id: TableId) -> Result<(&Table, Option<usize>), Abort> {
        match self.relations.get(usize::from(id.0)) {
            Some(Relation::Table(table)) => Ok((table, None)),
            Some(Relation::Index { table, at }) => Ok((self.table(*table)?, Some(*at))),
            _ => Err(Abort::BadRequest),
        }
    }

    /// A warning, long before the store has used up its epochs.
    fn short_of_epochs(&self) -> Option<String> {
        let left = self.store.epochs_left();
        (left < FEW_EPOCHS).then(|| {
            format!(
                "the main-memory store has {left} of its 2^48 epochs left, after which it commits nothing: load its rows into a new \
                 store before that"
            )
        })
    }

    /// Begins the next epoch, as the ticker does while transactions commit: rows deleted in the
    /// last one can be freed.
    pub fn begin_epoch(&self) {
        self.store.tick();
        self.store.back_ahead();
    }

    /// Tells the ticker that another epoch is needed. Written once per epoch, read at every commit.
    #[inline]
    fn stir(&self) {
        if !self.stirred.load(Ordering::Relaxed) {
            self.stirred.store(true, Ordering::Relaxed);
        }
    }

    /// Wakes the transactions that wait for rows that a local transaction had prepared, or for
    /// their turn behind it.
    #[inline]
    fn ended(&self, was_in_the_way: bool) {
        if was_in_the_way {
            self.waiting.ended();
        }
    }

    /// Ends a local transaction that read the past. Returns the epoch that has to be durable before
    /// its results are told, or 0 if it did not read the past.
    fn end_past(&self, ctx: &MemoryWorkerContext, txn: &mut MemoryLocalTxn) -> u64 {
        let Some(past) = txn.past.take() else { return 0 };
        probe::part_ends();
        let mut worker = ctx.worker.borrow_mut();
        let epoch = worker.snapshot_depends_on(&past);
        worker.close_snapshot(past);
        epoch
    }

    /// Ends the store's transaction and begins another, for a local transaction with no concurrent
    /// writer on its rows.
    pub(crate) fn cut(&self, worker: &mut Worker, txn: &mut MemoryLocalTxn) -> Result<(), Abort> {
        let awaited = txn.is_awaited();
        let Some(store_txn) = txn.store_txn.take() else { return Ok(()) };
        txn.rows = 0;
        let ended = if store_txn.is_read_only() {
            worker.abort(store_txn);
            self.ended(awaited);
            Ok(())
        } else {
            self.commit_now(worker, store_txn).map(|epoch| txn.logged = txn.logged.max(epoch))
        };
        txn.store_txn = Some(worker.begin());
        ended
    }

    /// Commits a transaction that was not validated: one with no concurrent writer on its rows.
    /// Returns its epoch.
    fn commit_now(&self, worker: &mut Worker, store_txn: Box<Txn>) -> Result<u64, Abort> {
        self.stir();
        let has_turns = store_txn.has_turns();
        let ended = match worker.commit(store_txn) {
            Ok(committed) => Ok(committed.epoch),
            Err((refused, back)) => {
                if let Some(store_txn) = back {
                    worker.abort(store_txn);
                }
                Err(abort_of(refused))
            }
        };
        self.ended(has_turns);
        ended
    }
}

/// The abort for a refusal of the store.
#[cold]
pub(crate) fn abort_of(refused: Refused) -> Abort {
    match refused {
        Refused::Conflict(_) | Refused::Busy(_) | Refused::NotReady => Abort::Conflict,
        Refused::Full | Refused::NoRoom => Abort::NoSpace,
        Refused::LogFailed | Refused::EpochsUsedUp => Abort::Fault,
        Refused::KeyTooLong(_) | Refused::RowTooLong(_) | Refused::NoTable(_) => Abort::BadRequest,
    }
}
