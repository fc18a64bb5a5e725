//! Opening and closing: the folder's lock, its version, and whether there is something to restart from.

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
    /// [`Store::checkpoint_due`] says yes once this many bytes were logged since the last checkpoint. A restart takes four
    /// times as much memory, at most.
    pub checkpoint_bytes: u64,
    /// Bytes of a tree's node that may be used. All of them (`usize::MAX`), but in tests that want small nodes; always
    /// the same for one database.
    pub node_bytes: usize,
    /// What trees of tables and indexes that are created become; those that are there stay what they are.
    pub trees: TreeKind,
    /// Which rows of tables that are created share a heap page; those that are there stay what they are.
    pub heaps: HeapForm,
    /// Into how many parts a load divides each multi-rooted tree that it fills, by its entries.
    pub partitions: usize,
}

impl StoreOptions {
    /// `frames` pages in memory; a checkpoint every 64 MiB of log, which restart replays in well under a second.
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
/// Who may do what: any number of threads run transactions under a latched policy; under `Owned` only the owner
/// touches pages, and checkpoints are its business too. One checkpoint at a time.
pub struct Store {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) dir: PathBuf,
    pub(crate) log: Arc<Log>,
    pub(crate) pool: Pool,
    pub(crate) catalog: Catalog,
    pub(crate) active: Arc<Active>,
    /// What restart has left to be repeated.
    pub(crate) redo: Arc<Redo>,
    /// Live notes by the end of their records. A note's record is appended with this held, so that a checkpoint
    /// sees both or neither.
    pub(crate) notes: Mutex<BTreeMap<Lsn, Vec<u8>>>,
    /// The control file written last. Held during a checkpoint.
    pub(crate) control: Mutex<Control>,
    /// Where the last checkpoint's redo begins.
    pub(crate) checkpointed: AtomicU64,
    pub(crate) checkpoint_bytes: u64,
    pub(crate) node_bytes: usize,
    pub(crate) trees: TreeKind,
    pub(crate) heaps: HeapForm,
    pub(crate) partitions: usize,
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
            // From now on the control file knows of data and log, so that they are missed when they are gone.
            store.checkpoint()?;
        }
        Ok((store, recovered))
    }

    /// A fault met while opening or reading a page, with the file and the place in it.
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

    /// The control file to start from, with this life's number: it is written before anything else happens, so that
    /// no two lives number their transactions alike, and a crash while a database is being made leaves nothing that
    /// looks like one without control. The checkpoint in it is the last one, whenever that was.
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
    pub(crate) fn unreadable(&self, why: PageFault) -> StoreFault {
        let full = why.is_want_of_room();
        let fault = self.placed(StoreFault::from(why));
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
                    // A request that is too long, or made of the wrong owner, is the request's fault, and nothing was changed.
                    if !matches!(*fault, PageFault::TooLong { .. } | PageFault::Foreign { .. }) {
                        self.poison(StoreFault::Page(fault.clone()));
                    }
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

    /// Whether enough was logged since the last checkpoint to make another, and what was logged before is repeated or has
    /// been tried ([`Store::redo_some`]).
    pub fn checkpoint_due(&self) -> bool {
        let logged = self.log.end().0 - self.checkpointed.load(Ordering::Relaxed);
        logged >= self.checkpoint_bytes
            && !self.redo.draining()
            && self.log.durability() != Durability::Memory
    }
}

/// Whether `dir` has every file that opening the database in it needs, by the same judgement. Reads the control files and
/// changes nothing.
///
/// # Errors
/// [`StoreFault`]: no database, a control file that cannot be used, a file that is missing or too short; I/O.
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

/// Files that a checkpoint rests on: without them, or with less in them, other files would be made in their place, and
/// rows be lost without a word.
fn expect_files(files: &dyn Files, dir: &Path, checkpoint: &Checkpoint) -> Result<(), StoreFault> {
    if checkpoint.data_bytes == 0 {
        // Nobody got so far as to take a checkpoint: the log has everything.
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
