//! The engines of a comparison, by name.

use crate::atoll::Atoll;
use crate::bench::Served;
use crate::contestant::{Commits, Contestant};
use crate::hosted::Hosted;
use crate::tree::Tree;
use crate::{PeerFault, redo::Redo};
use exec::DesignKind;
use std::path::Path;
use std::str::FromStr;
use topology::CpuId;
use txn::Workload;
use wal::Durability;
use workload::micro::Op;

/// An engine by name, as `--engines` spells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// The durability applies if commits are not synced.
    Atoll(DesignKind, Durability),
    /// A `BTreeMap` behind a mutex.
    Tree,
    /// The same, with every commit appended to a file.
    LoggedTree,
    #[cfg(feature = "engines")]
    Shim(crate::shim::Kind),
    #[cfg(feature = "engines")]
    Postgres,
}

#[cfg(feature = "engines")]
use crate::shim::Kind;
use Engine::{Atoll as A, LoggedTree, Tree as T};

const NAMES: &[(&str, Engine)] = &[
    ("conventional", A(DesignKind::Conventional, Durability::Memory)),
    ("serial", A(DesignKind::Serial, Durability::Memory)),
    ("logical", A(DesignKind::Logical, Durability::Memory)),
    ("occ", A(DesignKind::Occ, Durability::Memory)),
    ("occ-async", A(DesignKind::Occ, Durability::Async)),
    ("conventional-async", A(DesignKind::Conventional, Durability::Async)),
    ("serial-async", A(DesignKind::Serial, Durability::Async)),
    ("btree", T),
    ("btree-log", LoggedTree),
    #[cfg(feature = "engines")]
    ("lmdb", Engine::Shim(Kind::Lmdb)),
    #[cfg(feature = "engines")]
    ("wiredtiger", Engine::Shim(Kind::WiredTiger)),
    #[cfg(feature = "engines")]
    ("berkeleydb", Engine::Shim(Kind::BerkeleyDb)),
    #[cfg(feature = "engines")]
    ("rocksdb", Engine::Shim(Kind::RocksDb)),
    #[cfg(feature = "engines")]
    ("sqlite", Engine::Shim(Kind::Sqlite)),
    #[cfg(feature = "engines")]
    ("postgres", Engine::Postgres),
];

impl Engine {
    /// The engines compared by default: Atoll in its first two designs, and every other engine that
    /// this build contains and that supports this kind of commit.
    pub fn default_list(commits: Commits) -> Vec<Engine> {
        let fits = |e: &Engine| match (e, commits) {
            (A(DesignKind::Logical | DesignKind::Occ, _), _) => false,
            (A(_, durability), _) => *durability != Durability::Async,
            (T | LoggedTree, Commits::Synced) => false,
            _ => true,
        };
        NAMES.iter().map(|(_, e)| *e).filter(fits).collect()
    }

    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, e)| *e == self).expect("every engine has a name").0
    }

    /// The name in tables.
    pub fn title(self) -> &'static str {
        match self {
            A(DesignKind::Conventional, Durability::Async) => "Atoll `conventional`, log written",
            A(DesignKind::Serial, Durability::Async) => "Atoll `serial`, log written",
            A(DesignKind::Occ, Durability::Async) => "Atoll `occ`, log written",
            A(DesignKind::Logical, _) => "Atoll `logical`",
            A(DesignKind::PlpRegular, _) => "Atoll `plp-regular`",
            A(DesignKind::PlpPartition, _) => "Atoll `plp-partition`",
            A(DesignKind::PlpLeaf, _) => "Atoll `plp-leaf`",
            A(DesignKind::Occ, _) => "Atoll `occ`",
            A(DesignKind::Conventional, _) => "Atoll `conventional`",
            A(DesignKind::Serial, _) => "Atoll `serial`",
            T => "`BTreeMap` behind a mutex, no log, no rollback",
            LoggedTree => "the same with a redo log, written, unsynced",
            #[cfg(feature = "engines")]
            Engine::Shim(kind) => match kind {
                Kind::Lmdb => "LMDB",
                Kind::WiredTiger => "WiredTiger, snapshot isolation",
                Kind::BerkeleyDb => "Berkeley DB",
                Kind::RocksDb => "RocksDB, pessimistic",
                Kind::Sqlite => "SQLite",
            },
            #[cfg(feature = "engines")]
            Engine::Postgres => "PostgreSQL, stored procedure",
        }
    }

    /// Opens the engine in the existing directory `dir` and loads `bench`. Workers or client
    /// threads will run on `cpus`; an engine's background threads may run anywhere.
    ///
    /// # Errors
    /// The engine cannot be opened there.
    pub fn load<B: Served>(
        self,
        bench: B,
        commits: Commits,
        dir: &Path,
        cpus: &[Option<CpuId>],
    ) -> Result<Box<dyn Contestant>, PeerFault> {
        let dir = dir.join(self.name());
        std::fs::create_dir_all(&dir).map_err(PeerFault::io(&dir))?;
        let tables = bench.workload(Op::Read)?.schema().tables.len();
        let (title, threads) = (self.title(), cpus.to_vec());
        Ok(match self {
            A(design, unsynced) => {
                let durability = if commits == Commits::Synced { Durability::Sync } else { unsynced };
                Box::new(Atoll::load(title, bench, design, durability, &dir, cpus)?)
            }
            T => Box::new(Hosted::load(title, Tree::new(tables, None), bench, threads)?),
            LoggedTree => {
                let redo = Redo::create(&dir.join("redo"))?;
                Box::new(Hosted::load(title, Tree::new(tables, Some(redo)), bench, threads)?)
            }
            #[cfg(feature = "engines")]
            Engine::Shim(kind) => {
                let engine = crate::shim::Shim::open(kind, &dir, tables, commits)?;
                Box::new(Hosted::load(title, engine, bench, threads)?)
            }
            #[cfg(feature = "engines")]
            Engine::Postgres => Box::new(crate::postgres::Served::load(title, bench, commits, &dir)?),
        })
    }
}

impl FromStr for Engine {
    type Err = PeerFault;

    fn from_str(name: &str) -> Result<Engine, PeerFault> {
        let known = || NAMES.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", ");
        let found = NAMES.iter().find(|(n, _)| *n == name).map(|(_, e)| *e);
        found.ok_or_else(|| PeerFault::UnknownEngine(name.into(), known()))
    }
}
