//! Opening and closing a store: the folder's lock, the format version, and the decision whether a
//! restart is needed.

use crate::active::Active;
use crate::catalog::{Catalog, Table};
use crate::control::{Checkpoint, Control, Keeping};
use crate::definition::{HeapForm, TreeKind};
use crate::redo::Redo;
use crate::restart::{Recovered, restart};
use crate::{DATA, StoreFault};
use base::{Lsn, PageId, TableId};
use pages::{PageFault, Pool, PoolOptions, Stop};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use wal::{Durability, Log, LogOptions};
use world::{Files, FolderLock, Open};

#[derive(Clone, Debug)]
pub struct StoreOptions {
    pub log: LogOptions,
    pub pool: PoolOptions,
    /// [`Store::checkpoint_due`] returns `true` once this many bytes were logged since the last
    /// checkpoint. A restart uses at most four times as much memory.
    pub checkpoint_bytes: u64,
    /// Bytes of a tree node that may be used: all of them (`usize::MAX`), except in tests that want
    /// small nodes. Must stay the same for the life of a database.
    pub node_bytes: usize,
    /// The kind of trees for new tables and indexes; existing trees keep theirs.
    pub trees: TreeKind,
    /// The heap form of new tables; existing tables keep theirs.
    pub heaps: HeapForm,
    /// The number of partitions into which a load divides each multi-rooted tree, by entries.
    pub partitions: usize,
}

impl StoreOptions {
    /// A pool of `frames` pages, and a checkpoint every 64 MiB of log, which a restart replays in
    /// well under a second.
    pub fn new(durability: Durability, frames: usize) -> StoreOptions {
        StoreOptions {
            log: LogOptions::new(durability),
            pool: PoolOptions::new(frames),
            checkpoint_bytes: 64 << 20,
            node_bytes: usize::MAX,
            trees: TreeKind::BTree,
            heaps: HeapForm::Shared,
            partitions: 1,
        }
    }
}

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
    pub(crate) notes: Mutex<BTreeMap<Lsn, Vec<u8>>>,
    /// The last control file written. Held during a checkpoint.
    pub(crate) control: Mutex<Control>,
    /// The `redo_start` of the last checkpoint.
    pub(crate) checkpointed: AtomicU64,
    pub(crate) checkpoint_bytes: u64,
    pub(crate) node_bytes: usize,
    pub(crate) trees: TreeKind,
    pub(crate) heaps: HeapForm,
    pub(crate) partitions: usize,
    fault: OnceLock<StoreFault>,
    _lock: FolderLock,
}

/// Locks a mutex and ignores poisoning: the data behind these mutexes is consistent between any two
/// statements, so a panic of a holder leaves nothing half done.
pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// Opens the database in `dir`, or creates one there. Restarts it if it was not closed.
    ///
    /// # Errors
    /// [`StoreFault`]: the folder is in use, damaged or of another version; I/O.
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
        let control = Self::begin_life(&*files, dir, keeping)?;
        if keeping == Keeping::Log {
            expect_files(&*files, dir, &control.checkpoint)?;
        }
        let log = Arc::new(Log::open(files.clone(), &dir.join("log"), options.log)?);
        let pool = Pool::open(files.clone(), &dir.join(DATA), options.pool, log.clone())?;
        let redo = Arc::<Redo>::default();
        pool.renew_by(redo.clone());
        let store = Store {
            files,
            dir: dir.to_owned(),
            log,
            pool,
            catalog: Catalog::new(),
            active: Arc::new(Active::new(control.life)),
            redo,
            notes: Mutex::default(),
            checkpointed: AtomicU64::new(control.checkpoint.redo_start.0),
            checkpoint_bytes: options.checkpoint_bytes,
            node_bytes: options.node_bytes,
            trees: options.trees,
            heaps: options.heaps,
            partitions: options.partitions,
            control: Mutex::new(control.clone()),
            fault: OnceLock::new(),
            _lock: lock,
        };
        let recovered = restart(&store, &control).map_err(|fault| store.placed(fault))?;
        if control.checkpoint.data_bytes == 0 {
            // With this checkpoint the control file names data file and log, so that a later
            // opening notices if they are missing.
            store.checkpoint()?;
        }
        Ok((store, recovered))
    }

    /// A fault met during opening or while reading a page, completed with file and position.
    fn placed(&self, fault: StoreFault) -> StoreFault {
        match &fault {
            StoreFault::Page(page) => match **page {
                PageFault::Malformed { page } => {
                    StoreFault::Unfit { file: self.dir.join(DATA), offset: crate::finding::offset_of(page) }
                }
                _ => fault,
            },
            _ => fault,
        }
    }

    /// The control file to start from, with the number of this life. It is written before anything
    /// else happens, for two reasons: no two lives then use the same transaction numbers, and a
    /// crash during the creation of a database never leaves a data file without a control file. Its
    /// checkpoint is the last one taken.
    fn begin_life(files: &dyn Files, dir: &Path, keeping: Keeping) -> Result<Control, StoreFault> {
        let control = match Control::read(files, dir)? {
            Some(Control { keeping: Keeping::Nothing, .. }) => {
                return Err(StoreFault::Gone { dir: dir.to_owned() });
            }
            Some(_) if keeping == Keeping::Nothing => {
                return Err(StoreFault::HasLog { dir: dir.to_owned() });
            }
            Some(last) => Control { sequence: last.sequence + 1, life: last.life + 1, ..last },
            None => {
                let checkpoint = Checkpoint { next_page: PageId(1), ..Checkpoint::default() };
                Control { keeping, sequence: 0, life: 1, checkpoint }
            }
        };
        control.write(files, dir)?;
        Ok(control)
    }

    /// Closes the store with a checkpoint, so that the next opening has little to repeat. With
    /// durability `memory` it removes the control files, so that the folder holds no database.
    ///
    /// # Errors
    /// The fault that poisoned the store, or a fault of the checkpoint.
    pub fn close(self) -> Result<(), StoreFault> {
        self.fault().map_or(Ok(()), Err)?;
        if self.log.durability() == Durability::Memory {
            return Control::remove(&*self.files, &self.dir);
        }
        self.checkpoint()
    }

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
        held(&self.control).life
    }

    /// Reads a page into memory. Blocks.
    ///
    /// If the page cannot be read, the store is poisoned. Lack of space, in memory or on the
    /// device, does not poison it.
    /// the device.
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
                    // mistake; nothing was changed.
                    if !matches!(*fault, PageFault::TooLong { .. } | PageFault::Foreign { .. }) {
                        self.poison(StoreFault::Page(fault.clone()));
                    }
                    return Err(Stop::Fault(fault));
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

    /// Whether enough was logged since the last checkpoint to take another one. Not before every
    /// page that waits for redo is read or has been tried ([`Store::redo_some`]).
    pub fn checkpoint_due(&self) -> bool {
        let logged = self.log.end().0 - self.checkpointed.load(Ordering::Relaxed);
        logged >= self.checkpoint_bytes
            && !self.redo.draining()
            && self.log.durability() != Durability::Memory
    }
}

/// Checks, as opening does, that `dir` has every file that the database needs. Reads the control
/// files and changes nothing.
///
/// # Errors
/// [`StoreFault`]: there is no database, a control file is unusable, or a file is missing or too
/// short; I/O.
pub fn expect_database(files: &dyn Files, dir: &Path) -> Result<(), StoreFault> {
    match Control::read(files, dir)? {
        Some(Control { keeping: Keeping::Nothing, .. }) => Err(StoreFault::Gone { dir: dir.to_owned() }),
        Some(control) => expect_files(files, dir, &control.checkpoint),
        None => Err(StoreFault::NotADatabase {
            what: "it has no control file, so it holds no database or has lost it; put control-0 and control-1 back, or \
                   restore the database from a backup",
            dir: dir.to_owned(),
        }),
    }
}

/// Checks the files that a checkpoint depends on. If one of them were missing or short, opening
/// would create it anew and silently lose rows.
fn expect_files(files: &dyn Files, dir: &Path, checkpoint: &Checkpoint) -> Result<(), StoreFault> {
    if checkpoint.data_bytes == 0 {
        // The database was never checkpointed, so the log has everything.
        return Ok(());
    }
    let there = files.list(dir)?;
    for name in [DATA, "doublewrite", "log"] {
        if !there.iter().any(|n| n == name) {
            return Err(StoreFault::Missing { file: dir.join(name) });
        }
    }
    let file = dir.join(DATA);
    let found = files.open(&file, Open::Read)?.len()?;
    if found < checkpoint.data_bytes {
        return Err(StoreFault::Short { file, found, expected: checkpoint.data_bytes });
    }
    Ok(())
}
