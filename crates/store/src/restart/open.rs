//! Opening and closing a store: the folder's lock, the format version, and the decision whether a
//! restart is needed.

use crate::catalog::definition::{HeapForm, TreeKind};
use crate::catalog::tables::Catalog;
use crate::restart::recovery::{Recovered, restart};
use crate::state::active::Active;
use crate::state::control::{Checkpoint, Control, Keeping};
use crate::state::redo::Redo;
use crate::state::store::Store;
use crate::{DATA, StoreFault};
use base::PageId;
use latch::{Rank, RankedMutex};
use pages::{Pool, PoolOptions};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use wal::{Durability, Log, LogOptions};
use world::{Files, Open};

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
            notes: RankedMutex::new(Rank::Notes, BTreeMap::new()),
            checkpointed: AtomicU64::new(control.checkpoint.redo_start.0),
            checkpoint_after_ns: AtomicU64::new(0),
            checkpoint_bytes: options.checkpoint_bytes,
            node_bytes: options.node_bytes,
            trees: options.trees,
            heaps: options.heaps,
            partitions: options.partitions,
            control: RankedMutex::new(Rank::Checkpoint, control.clone()),
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
