//! What takes part in a comparison, and what is asked of it.

use crate::atoll::Atoll;
use crate::peer::Hosted;
use crate::tree::Tree;
use crate::{PeerFault, redo::Redo};
use exec::DesignKind;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;
use topology::CpuId;
use wal::Durability;
use workload::micro::{Micro, MicroOptions, Op};

/// The table that every contestant is loaded with: one site, so that every transaction is local.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Table {
    /// Rows in it.
    pub dataset: u64,
    /// Rows that a transaction touches.
    pub rows: u32,
}

impl Table {
    /// # Errors
    /// An option out of its range.
    pub fn micro(&self, op: Op) -> Result<Micro, PeerFault> {
        Ok(Micro::new(MicroOptions { dataset: self.dataset, rows: self.rows, op, ..MicroOptions::new(1) })?)
    }
}

/// One measurement: transactions of one kind by one worker.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub op: Op,
    pub seed: u64,
    pub warm_up: Duration,
    pub window: Duration,
}

impl Work {
    /// The number of the request stream: the one that [`instance::Instance::drive`] gives to the first client of the
    /// first worker of instance 0, so that every contestant is asked for exactly the same rows.
    pub fn stream(&self) -> u64 {
        self.seed << 24
    }
}

/// What was reached in a window.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Rate {
    /// Committed transactions per second.
    pub tps: f64,
    /// The same per second of CPU time of the whole process, an engine's background threads included: what compares when
    /// the machine is shared. Counted by the kernel in ticks of 10 ms; 0 in a window without one.
    pub per_cpu_second: f64,
}

impl Rate {
    pub(crate) fn new(committed: u64, seconds: f64, cpu_ns: u64) -> Rate {
        let per = |seconds: f64| if seconds > 0.0 { committed as f64 / seconds } else { 0.0 };
        Rate { tps: per(seconds), per_cpu_second: per(cpu_ns as f64 / 1e9) }
    }
}

pub trait Contestant {
    fn name(&self) -> &str;

    /// # Errors
    /// When a transaction fails (one worker meets no conflict), nothing is committed in the window, or the engine fails.
    fn run(&mut self, work: &Work) -> Result<Rate, PeerFault>;

    /// Reads all rows: each must be there unharmed, and the counters add up to the updates committed so far.
    ///
    /// # Errors
    /// [`PeerFault::Wrong`] when they do not.
    fn check(&mut self) -> Result<(), PeerFault>;
}

/// An engine by name, as `--engines` spells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    Atoll(DesignKind, Durability),
    /// A `BTreeMap` behind a mutex.
    Tree,
    /// The same, every commit appended to a file.
    LoggedTree,
    #[cfg(feature = "rocksdb")]
    RocksDb,
}

use Engine::{Atoll as A, LoggedTree, Tree as T};

const NAMES: &[(&str, Engine)] = &[
    ("conventional", A(DesignKind::Conventional, Durability::Memory)),
    ("serial", A(DesignKind::Serial, Durability::Memory)),
    ("conventional-async", A(DesignKind::Conventional, Durability::Async)),
    ("serial-async", A(DesignKind::Serial, Durability::Async)),
    ("btree", T),
    ("btree-log", LoggedTree),
    #[cfg(feature = "rocksdb")]
    ("rocksdb", Engine::RocksDb),
];

impl Engine {
    /// What is compared unless said otherwise: Atoll in both designs, and every peer that this build has.
    pub fn default_list() -> Vec<Engine> {
        NAMES.iter().map(|(_, e)| *e).filter(|e| !matches!(e, A(_, Durability::Async))).collect()
    }

    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, e)| *e == self).expect("every engine has a name").0
    }

    /// The name in tables.
    pub fn title(self) -> &'static str {
        match self {
            A(DesignKind::Conventional, Durability::Async) => "Atoll `conventional`, log written",
            A(DesignKind::Serial, Durability::Async) => "Atoll `serial`, log written",
            A(DesignKind::Conventional, _) => "Atoll `conventional`, log in memory",
            A(DesignKind::Serial, _) => "Atoll `serial`, log in memory",
            T => "`BTreeMap` behind a mutex, no log, no rollback",
            LoggedTree => "the same with a redo log, written, unsynced",
            #[cfg(feature = "rocksdb")]
            Engine::RocksDb => "RocksDB, pessimistic, log written, unsynced",
        }
    }

    /// Opens the engine in the existing directory `dir` and loads `table`. Its one worker will run on `cpu`; what an
    /// engine does in the background may run anywhere.
    ///
    /// # Errors
    /// When the engine cannot be opened there.
    pub fn load(
        self,
        table: Table,
        dir: &Path,
        cpu: Option<CpuId>,
    ) -> Result<Box<dyn Contestant>, PeerFault> {
        let dir = dir.join(self.name());
        std::fs::create_dir_all(&dir).map_err(PeerFault::io(&dir))?;
        Ok(match self {
            A(design, durability) => {
                Box::new(Atoll::load(self.title(), table, design, durability, &dir, cpu)?)
            }
            T => Box::new(Hosted::load(self.title(), Tree::new(None), table, cpu)?),
            LoggedTree => {
                let redo = Redo::create(&dir.join("redo"))?;
                Box::new(Hosted::load(self.title(), Tree::new(Some(redo)), table, cpu)?)
            }
            #[cfg(feature = "rocksdb")]
            Engine::RocksDb => {
                Box::new(Hosted::load(self.title(), crate::rocksdb::Rocks::open(&dir)?, table, cpu)?)
            }
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
