//! The store as a value: the parts that the workers of an instance share, and the operations that
//! need no transaction.

use crate::catalog::definition::{HeapForm, TreeKind};
use crate::catalog::tables::{Catalog, Index, Table, TreePlace};
use crate::fault::offset_of;
use crate::state::active::Active;
use crate::state::control::Control;
use crate::state::redo::Redo;
use crate::{DATA, StoreFault};
use access::{BTree, Heap};
use base::{Lsn, PageId, TableId};
use latch::RankedMutex;
use pages::{PageFault, Pool, Stop};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use wal::{Durability, Log};
use world::{Files, FolderLock};

/// A store, shared by the workers of an instance.
///
/// Access rules:
///
/// - Under a latched policy, any number of threads run transactions.
/// - Under `Owned`, only the owner touches pages, and takes checkpoints.
/// - One checkpoint is taken at a time.
pub struct Store {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) dir: PathBuf,
    pub(crate) log: Arc<Log>,
    pub(crate) pool: Pool,
    pub(crate) catalog: Catalog,
    pub(crate) active: Arc<Active>,
    /// The redo that restart has left for the first read of a page.
    pub(crate) redo: Arc<Redo>,
    /// Live notes, by the end of their records. A note's record is appended while this mutex is
    /// held, so that a checkpoint sees both record and note or neither.
    pub(crate) notes: RankedMutex<BTreeMap<Lsn, Vec<u8>>>,
    /// The last control file written. Held during a checkpoint.
    pub(crate) control: RankedMutex<Control>,
    /// The `redo_start` of the last checkpoint.
    pub(crate) checkpointed: AtomicU64,
    /// The time before which no checkpoint is due, since the last one found no room; ns.
    pub(crate) checkpoint_after_ns: AtomicU64,
    pub(crate) checkpoint_bytes: u64,
    pub(crate) node_bytes: usize,
    pub(crate) trees: TreeKind,
    pub(crate) heaps: HeapForm,
    pub(crate) partitions: usize,
    pub(crate) fault: OnceLock<StoreFault>,
    /// Held while the store is open.
    pub(crate) _lock: FolderLock,
}

/// The number of times an undo looks for a free frame; each look takes some 20 ms before it gives
/// up.
const PATIENCE: u32 = 50;
/// The pause before the next checkpoint after one that found no room.
const ROOM_PAUSE_NS: u64 = 1_000_000_000;

impl Store {
    /// The table with this id; `None` also for the id of a secondary index.
    #[inline]
    pub fn table(&self, id: TableId) -> Option<&Table> {
        self.catalog.table(id)
    }

    /// The table that `id` is or belongs to, and whether `id` is a secondary index.
    pub fn index(&self, id: TableId) -> Option<(&Table, bool)> {
        self.catalog.index(id).map(|(table, secondary)| (table, secondary.is_some()))
    }

    pub fn log(&self) -> &Log {
        &self.log
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Pages in use, of [`pages::PAGE_SIZE`] bytes each.
    pub fn pages_used(&self) -> u32 {
        self.pool.stats().allocated
    }

    /// The number of times the database has been opened, including this time.
    pub fn life(&self) -> u32 {
        self.control.lock().life
    }

    /// The primary tree of a table that has a key.
    ///
    /// # Panics
    /// If the table has none. The caller has the definition and must check.
    #[inline]
    pub(crate) fn tree<'a>(&'a self, table: &'a Table) -> BTree<'a> {
        self.tree_at(table.tree.as_ref().expect("this table has no key"), table.def.id)
    }

    #[inline]
    pub(crate) fn tree_at<'a>(&'a self, place: &'a TreePlace, id: TableId) -> BTree<'a> {
        let tree = BTree::open(&self.pool, place.root, id).with_fill_limit(self.node_bytes);
        match &place.roots {
            None => tree,
            Some(roots) => tree.with_roots(roots),
        }
    }

    pub(crate) fn secondary<'a>(&'a self, index: &'a Index) -> BTree<'a> {
        self.tree_at(&index.tree, index.def.id)
    }

    #[inline]
    pub(crate) fn heap<'a>(&'a self, table: &'a Table) -> Heap<'a> {
        Heap::open(&self.pool, table.heap, table.def.id, &table.insert_pages)
    }

    /// Reads a page into memory. Blocks.
    ///
    /// If the page cannot be read, the store is poisoned. Lack of space, in memory or on the
    /// device, does not poison it.
    pub fn load_page(&self, page: PageId) -> Result<(), StoreFault> {
        self.pool.load(page).map_err(|e| self.unreadable(e))
    }

    /// As [`Store::load_page`], without blocking. While the caller polls this, a thread must call
    /// [`pages::Pool::turn`].
    ///
    /// # Errors
    /// As [`Store::load_page`]; every waiter for the page gets the error.
    pub async fn page(&self, page: PageId) -> Result<(), StoreFault> {
        self.pool.wait_for(page).await.map_err(|e| self.unreadable(e))
    }

    #[cold]
    pub(crate) fn unreadable(&self, why: PageFault) -> StoreFault {
        let full = why.is_want_of_room();
        let fault = self.placed(StoreFault::from(why));
        if !full {
            self.poison(fault.clone());
        }
        fault
    }

    /// Repeats a page operation until it meets neither an absent page nor a contended latch.
    /// Blocks.
    pub(crate) fn insist<T>(&self, mut op: impl FnMut() -> Result<T, Stop>) -> Result<T, Stop> {
        loop {
            match op() {
                Err(Stop::Page(page)) => self.pool.load(page)?,
                Err(Stop::Again) => std::thread::yield_now(),
                Err(Stop::Fault(fault)) => {
                    // A request that is too long, or that names the wrong owner, is the caller's
                    // mistake; nothing was changed. For want of room the caller undoes what it has
                    // done before, as after `Stop::NoSpace`.
                    let is_refused = matches!(*fault, PageFault::TooLong { .. } | PageFault::Foreign { .. });
                    if !is_refused && !fault.is_want_of_room() {
                        self.poison(StoreFault::Page(fault.clone()));
                    }
                    return Err(Stop::Fault(fault));
                }
                done => return done,
            }
        }
    }

    /// As [`Store::insist`], for an undo: no transaction may go on beside changes that could not be
    /// undone. So if it finds no room either, the store is poisoned, and restart undoes them.
    pub(crate) fn insist_on_undo<T>(&self, mut undo: impl FnMut() -> Result<T, Stop>) -> Result<T, Stop> {
        let mut patience = PATIENCE;
        loop {
            match self.insist(&mut undo) {
                // Others may hold the frames for a moment.
                Err(Stop::NoSpace) if patience > 0 => {
                    patience -= 1;
                    std::thread::yield_now();
                }
                Err(stop) => {
                    if stop.is_want_of_room() {
                        self.poison(StoreFault::NotUndone { why: stop.to_string() });
                    }
                    return Err(stop);
                }
                done => return done,
            }
        }
    }

    /// Stops all later commits. The first fault is kept.
    pub fn poison(&self, fault: StoreFault) {
        let _ = self.fault.set(fault);
    }

    /// The fault that stops commits, if any.
    #[inline]
    pub fn fault(&self) -> Option<StoreFault> {
        if let Some(fault) = self.fault.get() {
            return Some(fault.clone());
        }
        self.log.poisoned().map(StoreFault::Log)
    }

    /// Whether enough was logged since the last checkpoint to take another one, or the log is short
    /// of room, which a checkpoint may free. Not before every page that waits for redo is read or
    /// has been tried ([`Store::redo_some`]), and not within a second after a checkpoint that found
    /// no room.
    pub fn checkpoint_due(&self) -> bool {
        let logged = self.log.end().0 - self.checkpointed.load(Ordering::Relaxed);
        (logged >= self.checkpoint_bytes || self.log.is_short())
            && !self.redo.draining()
            && self.log.durability() != Durability::Memory
            && world::now_ns() >= self.checkpoint_after_ns.load(Ordering::Relaxed)
    }

    /// A checkpoint failed. For want of room the previous one stays valid, and another one is taken
    /// later; any other fault poisons the store.
    pub(crate) fn failed_checkpoint(&self, fault: StoreFault) -> StoreFault {
        if fault.is_want_of_room() {
            self.pause_checkpoints();
        } else {
            self.poison(fault.clone());
        }
        fault
    }

    pub(crate) fn pause_checkpoints(&self) {
        self.checkpoint_after_ns.store(world::now_ns() + ROOM_PAUSE_NS, Ordering::Relaxed);
    }

    /// A fault met during opening or while reading a page, completed with file and position.
    pub(crate) fn placed(&self, fault: StoreFault) -> StoreFault {
        match &fault {
            StoreFault::Page(page) => match **page {
                PageFault::Malformed { page } => {
                    StoreFault::Unfit { file: self.dir.join(DATA), offset: offset_of(page) }
                }
                _ => fault,
            },
            _ => fault,
        }
    }

    /// Reports that an index and its rows disagree, and poisons the store.
    #[cold]
    pub(crate) fn broken(&self, table: &Table, what: &str) -> Stop {
        self.poison(StoreFault::Broken { table: table.def.id, what: what.to_owned() });
        Stop::Fault(self.corrupt(table.heap))
    }

    /// A fault that reports `page` as corrupt.
    pub(crate) fn corrupt(&self, page: PageId) -> Arc<PageFault> {
        Arc::new(PageFault::Corrupt { page, file: self.dir.join(DATA), offset: offset_of(page) })
    }
}
