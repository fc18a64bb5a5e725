//! Opening and closing: the folder's lock, its version, and whether there is something to restart from.

use crate::active::Active;
use crate::catalog::{self, Catalog, Table};
use crate::control::{Checkpoint, Control, Keeping, Roots};
use crate::restart::{Recovered, restart};
use crate::txn::{SystemJournal, system_record};
use crate::{DATA, StoreFault, kind};
use access::{BTree, Heap};
use base::{Lsn, PageId, TableId};
use latch::Coupled;
use pages::{PageFault, Pool, PoolOptions, Stop};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use txn::{Schema, TableDef};
use wal::{Durability, Log, LogOptions};
use world::{Files, FolderLock};

#[derive(Clone, Debug)]
pub struct StoreOptions {
    pub log: LogOptions,
    pub pool: PoolOptions,
    /// [`Store::checkpoint_due`] says yes once this many bytes were logged since the last checkpoint.
    pub checkpoint_bytes: u64,
}

impl StoreOptions {
    /// `frames` pages in memory; a checkpoint every 64 MiB of log, which restart replays in well under a second.
    pub fn new(durability: Durability, frames: usize) -> StoreOptions {
        StoreOptions {
            log: LogOptions::new(durability),
            pool: PoolOptions::new(frames),
            checkpoint_bytes: 64 << 20,
        }
    }
}

/// A store, shared by the workers of an instance.
///
/// Who may do what: any number of threads run transactions under a latched policy; under `Owned` only the owner
/// touches pages, and checkpoints are its business too. One checkpoint at a time.
pub struct Store {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) dir: PathBuf,
    pub(crate) log: Arc<Log>,
    pub(crate) pool: Pool,
    pub(crate) catalog: Catalog,
    pub(crate) active: Arc<Active>,
    /// Live notes by the end of their records. A note's record is appended with this held, so that a checkpoint
    /// sees both or neither.
    pub(crate) notes: Mutex<BTreeMap<Lsn, Vec<u8>>>,
    /// The control file written last. Held during a checkpoint.
    pub(crate) control: Mutex<Control>,
    /// Where the last checkpoint's redo begins.
    pub(crate) checkpointed: AtomicU64,
    checkpoint_bytes: u64,
    fault: OnceLock<StoreFault>,
    _lock: FolderLock,
}

/// Everything behind these mutexes is consistent between any two statements that hold them.
pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// Opens the database in `dir`, or makes one there, and restarts it if it was not closed.
    ///
    /// # Errors
    /// [`StoreFault`]: the folder in use, of another version or damaged; I/O.
    pub fn open(
        files: Arc<dyn Files>,
        dir: &Path,
        options: StoreOptions,
    ) -> Result<(Store, Recovered), StoreFault> {
        files.create_dir_all(dir)?;
        let lock = files.lock(&dir.join("lock")).map_err(|e| match e.kind() {
            ErrorKind::WouldBlock => StoreFault::InUse { dir: dir.to_owned(), why: Arc::new(e) },
            _ => e.into(),
        })?;
        let keeping =
            if options.log.durability == Durability::Memory { Keeping::Nothing } else { Keeping::Log };
        let mut control = Self::begin_life(&*files, dir, keeping)?;
        let log = Arc::new(Log::open(files.clone(), &dir.join("log"), options.log)?);
        let pool = Pool::open(files.clone(), &dir.join(DATA), options.pool, log.clone())?;
        control.life += 1;
        let store = Store {
            files,
            dir: dir.to_owned(),
            log,
            pool,
            catalog: Catalog::new(),
            active: Arc::new(Active::new(control.life)),
            notes: Mutex::default(),
            checkpointed: AtomicU64::new(0),
            checkpoint_bytes: options.checkpoint_bytes,
            control: Mutex::new(control.clone()),
            fault: OnceLock::new(),
            _lock: lock,
        };
        let recovered = restart(&store, &control)?;
        store.checkpoint()?;
        Ok((store, recovered))
    }

    /// The control file to start from. A new database gets its first one before anything else exists, so that a
    /// crash while it is being made leaves nothing that looks like a database without control.
    fn begin_life(files: &dyn Files, dir: &Path, keeping: Keeping) -> Result<Control, StoreFault> {
        match Control::read(files, dir)? {
            Some(Control { keeping: Keeping::Nothing, .. }) => Err(StoreFault::Gone { dir: dir.to_owned() }),
            Some(_) if keeping == Keeping::Nothing => Err(StoreFault::HasLog { dir: dir.to_owned() }),
            Some(control) => Ok(control),
            None => {
                let checkpoint = Checkpoint { next_page: PageId(1), ..Checkpoint::default() };
                let control = Control { keeping, sequence: 0, life: 0, checkpoint };
                control.write(files, dir)?;
                Ok(control)
            }
        }
    }

    /// Ends the store cleanly: with a checkpoint, so that the next opening has next to nothing to do. With
    /// durability `memory` the folder is left without a database, as if it had never held one.
    ///
    /// # Errors
    /// What poisoned the store, or what the checkpoint met.
    pub fn close(self) -> Result<(), StoreFault> {
        self.fault().map_or(Ok(()), Err)?;
        if self.log.durability() == Durability::Memory {
            return Control::remove(&*self.files, &self.dir);
        }
        self.checkpoint()
    }

    /// Creates the tables of `schema` that do not exist yet, with their indexes; those that exist must be alike.
    /// Durable when it returns. No transaction may use the new tables before.
    ///
    /// # Errors
    /// A schema that contradicts itself or what is there; no room; I/O.
    pub fn create(&self, schema: &Schema) -> Result<(), StoreFault> {
        let mut there = held(&self.catalog.adding);
        let mut new = Roots::default();
        for def in self.catalog.additions(&there, schema)? {
            self.create_table(def, &mut new)?;
        }
        if new.schema.tables.is_empty() {
            return Ok(());
        }
        let (kind, body) = catalog::record(&new);
        debug_assert_eq!(kind, kind::CATALOG);
        if body.len() > self.log.max_body() {
            return Err(StoreFault::Schema(format!(
                "a schema of {} bytes: a log record takes {}; create the tables in several calls",
                body.len(),
                self.log.max_body()
            )));
        }
        let span = system_record(&self.log, kind, &[&body]);
        self.log.wait_durable(span.end)?;
        let published = self.catalog.publish(&new);
        debug_assert!(published, "the schema was checked before");
        there.extend(new);
        Ok(())
    }

    /// Makes the pages of a table. A crash before the catalog record loses them, nothing else.
    fn create_table(&self, def: TableDef, new: &mut Roots) -> Result<(), StoreFault> {
        let mut journal = SystemJournal(&self.log);
        let mut tree = |id: TableId| -> Result<(TableId, PageId), StoreFault> {
            Ok((id, self.insist(|| BTree::create::<Coupled>(&self.pool, &mut journal, id)).map_err(no_room)?))
        };
        if !def.key.is_empty() {
            new.trees.push(tree(def.id)?);
        }
        for index in &def.indexes {
            new.trees.push(tree(index.id)?);
        }
        let mut journal = SystemJournal(&self.log);
        let heap =
            self.insist(|| Heap::create::<Coupled>(&self.pool, &mut journal, def.id)).map_err(no_room)?;
        new.heaps.push((def.id, heap));
        new.schema.tables.push(def);
        Ok(())
    }

    /// All tables; `None` before the first [`Store::create`].
    pub fn schema(&self) -> Option<Schema> {
        let schema = held(&self.catalog.adding).schema.clone();
        (!schema.tables.is_empty()).then_some(schema)
    }

    /// The table with this id; `None` also for the id of a secondary index.
    #[inline]
    pub fn table(&self, id: TableId) -> Option<&Table> {
        self.catalog.table(id)
    }

    /// The table that `id` names or is a secondary index of, and whether it is the latter.
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

    /// How often the database has been opened, this time included.
    pub fn life(&self) -> u32 {
        held(&self.control).life
    }

    /// Reads a page into memory. Blocks.
    ///
    /// # Errors
    /// The page cannot be read: the store is poisoned from now on. Not so when there is merely no room, in memory or on
    /// the device.
    pub fn load_page(&self, page: PageId) -> Result<(), StoreFault> {
        self.pool.load(page).map_err(|e| self.unreadable(e))
    }

    /// As [`Store::load_page`], without blocking: whoever polls this has [`pages::Pool::turn`] called meanwhile.
    ///
    /// # Errors
    /// As [`Store::load_page`]; everyone who waits for the page is told.
    pub async fn page(&self, page: PageId) -> Result<(), StoreFault> {
        self.pool.wait_for(page).await.map_err(|e| self.unreadable(e))
    }

    #[cold]
    fn unreadable(&self, why: PageFault) -> StoreFault {
        let full = why.is_want_of_room();
        let fault = StoreFault::from(why);
        if !full {
            self.poison(fault.clone());
        }
        fault
    }

    /// Repeats a page operation until it neither lacks a page nor meets a contended latch. Blocks.
    pub(crate) fn insist<T>(&self, mut op: impl FnMut() -> Result<T, Stop>) -> Result<T, Stop> {
        loop {
            match op() {
                Err(Stop::Page(page)) => self.pool.load(page)?,
                Err(Stop::Again) => std::thread::yield_now(),
                Err(Stop::Fault(fault)) => {
                    self.poison(StoreFault::Page(fault.clone()));
                    return Err(Stop::Fault(fault));
                }
                done => return done,
            }
        }
    }

    /// Nothing commits from now on; the first reason stays.
    pub fn poison(&self, fault: StoreFault) {
        let _ = self.fault.set(fault);
    }

    /// Why nothing commits any more, if so.
    #[inline]
    pub fn fault(&self) -> Option<StoreFault> {
        if let Some(fault) = self.fault.get() {
            return Some(fault.clone());
        }
        self.log.poisoned().map(StoreFault::Log)
    }

    /// Whether enough was logged since the last checkpoint to make another.
    pub fn checkpoint_due(&self) -> bool {
        let logged = self.log.end().0 - self.checkpointed.load(Ordering::Relaxed);
        logged >= self.checkpoint_bytes && self.log.durability() != Durability::Memory
    }
}

/// Outside of a transaction there is nobody to say "no space" to but the fault.
fn no_room(stop: Stop) -> StoreFault {
    match stop {
        Stop::Fault(fault) => StoreFault::Page(fault),
        stop => StoreFault::Schema(format!("the tables cannot be created: {stop}")),
    }
}
