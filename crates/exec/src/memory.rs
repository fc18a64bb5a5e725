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
//! that another one has prepared for two-phase commit: it parks until that one has ended ([`waiting`]), or aborts where
//! [`OccConflict::Abort`] is asked for. What it read may be inconsistent until it is certified; so whatever a procedure
//! concludes from it, an abort included, is an answer only if [`Engine::holds`](crate::Engine::holds).
//!
//! A secondary index is a table of entries without values: an entry ends with the primary key. Entries are changed with their
//! rows, in the same transaction, so that validation covers them like rows.

mod face;
mod filling;
mod here;
#[cfg(test)]
mod tests;
mod waiting;

use crate::design::OccConflict;
use crate::engine::{EngineFault, Order};
use crate::local::Protection;
use base::TableId;
use memstore::{Memstore, Options, Refused, Txn, Worker};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use txn::row::Layout;
use txn::{Abort, Columns, Schema, TableDef};
use waiting::Waiting;

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

pub(crate) struct Table {
    pub(crate) def: TableDef,
    pub(crate) layout: Layout,
    /// The columns that some index is over.
    pub(crate) indexed: Columns,
}

/// What one worker has of the engine to itself.
pub struct MemoryDesk {
    pub(crate) worker: RefCell<Worker>,
}

/// A transaction's work at one instance.
pub struct MemoryPart {
    /// `None` before it has begun and after its end.
    pub(crate) txn: Option<Box<Txn>>,
    pub(crate) protection: Protection,
    pub(crate) order: Order,
    /// Others may wait for its end.
    pub(crate) prepared: bool,
    /// Rows seen or written by a [`Protection::Quiet`] part since it was last cut.
    pub(crate) rows: u32,
    /// Where a scan stands: memory for the next scan.
    pub(crate) keys: [Vec<u8>; 2],
}

impl MemoryPart {
    fn new() -> MemoryPart {
        MemoryPart {
            txn: None,
            protection: Protection::Locks,
            order: Order::Upwards,
            prepared: false,
            rows: 0,
            keys: Default::default(),
        }
    }

    /// # Panics
    /// If the part has not begun.
    #[inline]
    pub(crate) fn txn(&mut self) -> &mut Txn {
        self.txn.as_mut().expect("a part begins before it is worked on")
    }
}

/// Rows after which a part that nobody else is in the way of ends its transaction and goes on with another: what it has read
/// need not be remembered.
pub(crate) const CUT: u32 = 512;

impl MemoryEngine {
    fn make(
        budget: u64,
        workers: usize,
        conflict: OccConflict,
        wait_ns: u64,
        schema: &Schema,
    ) -> Result<MemoryEngine, EngineFault> {
        let ids = schema.tables.iter().flat_map(|t| t.indexes.iter().map(|i| i.id).chain([t.id]));
        let tables = ids.map(|id| id.0 + 1).max().unwrap_or(1);
        // Silo knows no queues either.
        let (conflict, contention) = match conflict {
            OccConflict::Wait => (memstore::Conflict::Wait, memstore::Contention::Queues),
            OccConflict::Abort => (memstore::Conflict::Abort, memstore::Contention::Optimistic),
        };
        let options = Options { tables, conflict, contention, ..Options::new(budget, workers + 1) };
        let store = Memstore::open(options)?;
        let mut places: Vec<Place> = (0..tables).map(|_| Place::Nothing).collect();
        for def in &schema.tables {
            store.create(def.id)?;
            let mut indexed = Columns::NONE;
            for (at, index) in def.indexes.iter().enumerate() {
                store.create(index.id)?;
                places[usize::from(index.id.0)] = Place::Index { table: def.id, at };
                indexed = index.columns.iter().fold(indexed, |set, &column| set.with(column));
            }
            let table = Table { def: def.clone(), layout: Layout::of(def), indexed };
            places[usize::from(def.id.0)] = Place::Table(Box::new(table));
        }
        Ok(MemoryEngine {
            store,
            places,
            waiting: Waiting::default(),
            wait_ns,
            spare: workers,
            stirred: AtomicBool::new(false),
            ticker: Ticker::default(),
        })
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

    /// Ends a part's transaction, of which nobody else takes notice, and begins another: of a part that is alone with what
    /// it reads.
    pub(crate) fn cut(&self, worker: &mut Worker, part: &mut MemoryPart) -> Result<(), Abort> {
        let Some(txn) = part.txn.take() else { return Ok(()) };
        part.rows = 0;
        let ended = if txn.is_read_only() {
            let has_turns = txn.has_turns();
            worker.abort(txn);
            self.ended(has_turns);
            Ok(())
        } else {
            self.commit_now(worker, txn)
        };
        part.txn = Some(worker.begin());
        ended
    }

    /// Commits a transaction that was not certified: one that nobody else is in the way of.
    fn commit_now(&self, worker: &mut Worker, txn: Box<Txn>) -> Result<(), Abort> {
        self.stir();
        let has_turns = txn.has_turns();
        let ended = match worker.commit(txn) {
            Ok(_) => Ok(()),
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
        Refused::LogFailed => Abort::Fault,
        Refused::KeyTooLong(_) | Refused::RowTooLong(_) | Refused::NoTable(_) => Abort::BadRequest,
    }
}
