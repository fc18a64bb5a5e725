//! What an instance is told at its start: plain values, so that it can be told across a process boundary.

use base::InstanceId;
use channel::Address;
use exec::{DesignKind, HeapForm, Latching, OccAhead, OccConflict, OccReads, TreeKind};
use locks::LockTuning;
use partition::Mode;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use txn::{Placement, TableKind};
use wal::Durability;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InstanceConfig {
    pub id: InstanceId,
    /// Tells this deployment's instances from those of any other; a caller with another number is refused.
    pub deployment: u64,
    /// Which sites belong to which instance.
    pub placement: Placement,
    #[serde(with = "by_name")]
    pub design: DesignKind,
    pub durability: Durability,
    /// Where the rows of tables with a key lie, if this instance makes them.
    pub tables: TableKind,
    /// How trees are made, if this instance makes them.
    pub trees: TreeKind,
    /// Which rows share a heap page, if this instance makes the tables.
    pub heaps: HeapForm,
    /// How readers of pages keep out of the way of writers.
    #[serde(with = "by_name")]
    pub latching: Latching,
    /// Into how many parts a load divides each multi-rooted tree.
    pub partitions: usize,
    /// Data file and log live here; created if missing.
    pub dir: PathBuf,
    /// Buffer pool size in pages of 8 KiB.
    pub pool_pages: usize,
    pub backing: Backing,
    /// One worker for each entry; pinned to that CPU, or left to the operating system.
    pub cpus: Vec<Option<usize>>,
    /// The island of each worker, by any numbers: workers of one island are close to each other. Empty: all are.
    pub worker_islands: Vec<u16>,
    /// The NUMA node the buffer pool's memory is bound to.
    pub node: Option<usize>,
    /// Where peers and clients connect; `None` for an instance that stays alone.
    pub listen: Option<Address>,
    pub locks: LockTuning,
    pub lock_timeout_ms: u64,
    /// What transactions of `occ` do on meeting a prepared row.
    #[serde(with = "by_name")]
    pub occ_conflict: OccConflict,
    /// How transactions of `occ` read that write nothing.
    #[serde(with = "by_name")]
    pub occ_reads: OccReads,
    /// How far ahead `occ` asks for rows.
    #[serde(with = "by_name")]
    pub occ_ahead: OccAhead,
    /// Whether keys follow the load among the workers that own them.
    pub balance: Balance,
    /// How long an idle worker polls before it sleeps, in µs. 0 where workers outnumber CPUs.
    pub spin_us: u64,
}

/// When the memory of the pool, or of `occ`'s rows, is taken from the system. What was not touched yet costs whoever touches it first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Backing {
    /// A little ahead of its use.
    #[default]
    AsUsed,
    /// All of it before the instance is ready.
    AtStart,
}

/// Whether and how often it is looked who owns too much; where workers own nothing it says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Balance {
    #[serde(with = "by_name")]
    pub mode: Mode,
    /// Length of a period, in ms.
    pub every_ms: u64,
}

impl Default for Balance {
    /// Off; a quarter of a second, so that a load that has shifted is found out in half a second: two periods agree.
    fn default() -> Balance {
        Balance { mode: Mode::Off, every_ms: 250 }
    }
}

impl InstanceConfig {
    /// The first instance of `placement`, with one worker that is not pinned, nobody to connect to, and a log in memory: a
    /// start for those who set what they care about.
    pub fn new(dir: PathBuf, placement: Placement, design: DesignKind) -> InstanceConfig {
        InstanceConfig {
            id: InstanceId(0),
            deployment: 1,
            placement,
            design,
            durability: Durability::Memory,
            tables: TableKind::default(),
            trees: if design.owns_pages() { TreeKind::MultiRooted } else { TreeKind::default() },
            heaps: design.heap_form(),
            latching: Latching::default(),
            partitions: 1,
            dir,
            pool_pages: 4096,
            cpus: vec![None],
            worker_islands: Vec::new(),
            node: None,
            listen: None,
            locks: LockTuning::default(),
            lock_timeout_ms: 100,
            occ_conflict: OccConflict::default(),
            occ_reads: OccReads::default(),
            occ_ahead: OccAhead::default(),
            backing: Backing::default(),
            balance: Balance::default(),
            spin_us: 50,
        }
    }

    pub fn workers(&self) -> usize {
        self.cpus.len()
    }
}

mod by_name {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::fmt::Display;
    use std::str::FromStr;

    pub fn serialize<T: Display, S: Serializer>(named: &T, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(named)
    }

    pub fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(d: D) -> Result<T, D::Error> {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}

/// Why an instance could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum InstanceFault {
    #[error(transparent)]
    Engine(#[from] exec::EngineFault),
    #[error(transparent)]
    Channel(#[from] channel::ChannelError),
    #[error(
        "--balance: {sites} sites in instance {id}, expected at most {most}; use more instances, or data of fewer sites (--scale)"
    )]
    TooManySites { id: InstanceId, sites: usize, most: usize },
    #[error("loading failed: {0}")]
    Load(String),
    #[error("the consistency check could not read the data: {0}")]
    Audit(String),
    #[error("a worker of this instance ended unexpectedly: {0}")]
    Worker(String),
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}
