//! The engine of design `occ`: rows in main memory, optimistic concurrency control (`memstore`), and no pages, locks or
//! owners.
//!
//! ```text
//!   operations   note what they saw and buffer what they write; nobody else notices
//!   certify      lock the writes, check all that was seen     distributed: and keep it so until the decision
//!   commit       write, unlock
//! ```
//!
//! A transaction that stays at home runs from its first operation to its end without giving up its worker, but for a row
//! that another one has prepared for two-phase commit: it parks until that one has ended (`waiting`), or aborts where
//! [`Abort`](crate::OccConflict::Abort) is asked for. What it read may be inconsistent until it is certified; so whatever a
//! procedure concludes from it, an abort included, is an answer only if [`Engine::holds`](crate::Engine::holds). One that only
//! reads may read what was there when it began ([`Protection::Past`]): it waits for those that came before it and were not done,
//! and is neither checked nor aborted.
//!
//! What is committed goes to the store's own log (`memstore`), in epochs: an [`Lsn`](base::Lsn) of this engine is the number of an
//! epoch, and a reply or a vote waits until all of its epoch, and so all that it has seen, is durable. A checkpoint copies the
//! rows on threads of its own, once enough was logged, and the log before it goes. The tables' definitions lie in the
//! store's control file.
//!
//! A secondary index is a table of entries without values: an entry ends with the primary key. Entries are changed with their
//! rows, in the same transaction, so that validation covers them like rows.

mod awaiting;
mod check;
mod durability;
#[cfg(test)]
mod durable_tests;
mod face;
mod filling;
mod here;
#[cfg(test)]
mod tests;
mod waiting;

use crate::engine::Order;
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
pub use here::MemoryHere;

/// One instance's rows, shared by its workers.
pub struct MemoryEngine {
    pub(crate) store: Arc<Memstore>,
    /// By id.
    places: Vec<Place>,
    pub(crate) waiting: Waiting,
    wait_ns: u64,
    /// The number after those of the instance's workers: whoever looks at the store without being one of them.
    spare: usize,
    /// Something has been committed since the ticker looked last.
    stirred: AtomicBool,
    ticker: Ticker,
    /// A checkpoint is being written.
    checkpointing: AtomicBool,
    unwritten: Mutex<Option<String>>,
}

/// The bell of the thread that begins epochs.
#[derive(Default)]
struct Ticker {
    stopped: Mutex<bool>,
    bell: std::sync::Condvar,
}

/// What an id names.
enum Place {
    Nothing,
    Table(Box<Table>),
    Index {
        table: TableId,
        /// Which of the table's indexes.
        at: usize,
    },
}

impl Place {
    fn table(&self) -> Option<&Table> {
        match self {
            Place::Table(table) => Some(table),
            Place::Nothing | Place::Index { .. } => None,
        }
    }
}

pub(crate) struct Table {
    pub(crate) def: TableDef,
    pub(crate) layout: Layout,
    /// The columns that some index is over.
    pub(crate) indexed: Columns,
}

/// What one worker has of the engine to itself.
pub struct MemoryDesk {
    pub(crate) worker: RefCell<Worker>,
    pub(crate) number: usize,
    awaiting: awaiting::Awaiting,
}

/// A transaction's work at one instance.
pub struct MemoryPart {
    /// `None` before it has begun and after its end, and where it reads the past.
    pub(crate) txn: Option<Box<Txn>>,
    /// What it reads under [`Protection::Past`].
    past: Option<Snapshot>,
    pub(crate) protection: Protection,
    pub(crate) order: Order,
    /// What it has read and written is kept from others until it ends.
    pub(crate) prepared: bool,
    /// Rows seen or written by a [`Protection::Quiet`] part since it was last cut.
    pub(crate) rows: u32,
    /// The latest epoch that it has committed something in when it was cut; 0 if nothing.
    pub(crate) logged: u64,
    /// Where a scan stands: memory for the next scan.
    pub(crate) keys: [Vec<u8>; 2],
}

impl MemoryPart {
    fn new() -> MemoryPart {
        MemoryPart {
            txn: None,
            past: None,
            protection: Protection::Locks,
            order: Order::Upwards,
            prepared: false,
            rows: 0,
            logged: 0,
            keys: Default::default(),
        }
    }

    /// Whether others may wait for its end: for what it holds, or for their turn behind it.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.prepared || self.txn.as_ref().is_some_and(|txn| txn.has_turns())
    }

    /// # Panics
    /// If the part has not begun.
    #[inline]
    pub(crate) fn txn(&mut self) -> &mut Txn {
        self.txn.as_mut().expect("a part begins before it is worked on")
    }
}

/// With fewer epochs left a store says so: half a year of a million snapshots a second.
const FEW_EPOCHS: u64 = 1 << 44;

/// Rows after which a part that nobody else is in the way of ends its transaction and goes on with another: what it has read
/// need not be remembered.
pub(crate) const CUT: u32 = 512;

impl MemoryEngine {
    fn of(store: Arc<Memstore>, schema: &Schema, workers: usize, wait_ns: u64) -> MemoryEngine {
        let mut places: Vec<Place> = (0..durability::ids_of(schema)).map(|_| Place::Nothing).collect();
        for def in &schema.tables {
            let mut indexed = Columns::NONE;
            for (at, index) in def.indexes.iter().enumerate() {
                places[usize::from(index.id.0)] = Place::Index { table: def.id, at };
                indexed = index.columns.iter().fold(indexed, |set, &column| set.with(column));
            }
            let table = Table { def: def.clone(), layout: Layout::of(def), indexed };
            places[usize::from(def.id.0)] = Place::Table(Box::new(table));
        }
        MemoryEngine {
            store,
            places,
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
        match self.places.get(usize::from(id.0)) {
            Some(Place::Table(table)) => Ok(table),
            _ => Err(Abort::BadRequest),
        }
    }

    /// A table, and which of its indexes this is; none for the table itself.
    pub(crate) fn index(&self, id: TableId) -> Result<(&Table, Option<usize>), Abort> {
        match self.places.get(usize::from(id.0)) {
            Some(Place::Table(table)) => Ok((table, None)),
            Some(Place::Index { table, at }) => Ok((self.table(*table)?, Some(*at))),
            _ => Err(Abort::BadRequest),
        }
    }

    /// Said long before the store has used up its epochs.
    fn short_of_epochs(&self) -> Option<String> {
        let left = self.store.epochs_left();
        (left < FEW_EPOCHS).then(|| {
            format!(
                "the main-memory store has {left} of its 2^48 epochs left, after which it commits nothing: load its rows into a new \
                 store before that"
            )
        })
    }

    /// Begins the next epoch, as the ticker does while transactions commit: what was deleted in the last one can go.
    pub fn begin_epoch(&self) {
        self.store.tick();
        self.store.back_ahead();
    }

    /// Tells the ticker that there is something to begin an epoch for. Written once per epoch, read at every commit.
    #[inline]
    fn stir(&self) {
        if !self.stirred.load(Ordering::Relaxed) {
            self.stirred.store(true, Ordering::Relaxed);
        }
    }

    /// Has those look again who wait for what a part had prepared, or for their turn behind it.
    #[inline]
    fn ended(&self, was_in_the_way: bool) {
        if was_in_the_way {
            self.waiting.ended();
        }
    }

    /// Ends a part that read the past; gives the epoch that has to be durable before anybody is told what it saw. 0 of any other.
    fn end_past(&self, desk: &MemoryDesk, part: &mut MemoryPart) -> u64 {
        let Some(past) = part.past.take() else { return 0 };
        probe::part_ends();
        let mut worker = desk.worker.borrow_mut();
        let epoch = worker.snapshot_rests_on(&past);
        worker.close_snapshot(past);
        epoch
    }

    /// Ends a part's transaction, of which nobody else takes notice, and begins another: of a part that is alone with what
    /// it reads.
    pub(crate) fn cut(&self, worker: &mut Worker, part: &mut MemoryPart) -> Result<(), Abort> {
        let awaited = part.is_awaited();
        let Some(txn) = part.txn.take() else { return Ok(()) };
        part.rows = 0;
        let ended = if txn.is_read_only() {
            worker.abort(txn);
            self.ended(awaited);
            Ok(())
        } else {
            self.commit_now(worker, txn).map(|epoch| part.logged = part.logged.max(epoch))
        };
        part.txn = Some(worker.begin());
        ended
    }

    /// Commits a transaction that was not certified: one that nobody else is in the way of. Gives its epoch.
    fn commit_now(&self, worker: &mut Worker, txn: Box<Txn>) -> Result<u64, Abort> {
        self.stir();
        let has_turns = txn.has_turns();
        let ended = match worker.commit(txn) {
            Ok(committed) => Ok(committed.epoch),
            Err((refused, back)) => {
                if let Some(txn) = back {
                    worker.abort(txn);
                }
                Err(abort_of(refused))
            }
        };
        self.ended(has_turns);
        ended
    }
}

/// What a refusal means to the transaction.
#[cold]
pub(crate) fn abort_of(refused: Refused) -> Abort {
    match refused {
        Refused::Conflict(_) | Refused::Busy(_) | Refused::NotReady => Abort::Conflict,
        Refused::Full => Abort::NoSpace,
        Refused::LogFailed | Refused::EpochsUsedUp => Abort::Fault,
        Refused::KeyTooLong(_) | Refused::RowTooLong(_) | Refused::NoTable(_) => Abort::BadRequest,
    }
}
