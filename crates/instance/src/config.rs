//! The settings of an instance at its start: plain values, so that they can cross a process
//! boundary.

use base::InstanceId;
use channel::Address;
use exec::{DesignKind, HeapForm, Latching, OccAhead, OccConflict, OccReads, TreeKind};
use locks::LockTuning;
use partition::Mode;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use txn::{Placement, TableKind};
use wal::Durability;

/// The settings of one instance. Those of all instances of a deployment must have the same
/// `deployment`, `placement` and time-outs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InstanceConfig {
    pub id: InstanceId,
    /// Distinguishes this deployment's instances from those of any other. A caller with another
    /// number is refused.
    pub deployment: u64,
    /// Which sites belong to which instance.
    pub placement: Placement,
    #[serde(with = "by_name")]
    pub design: DesignKind,
    pub durability: Durability,
    /// Where the rows of tables with a key lie, if this instance creates them.
    pub tables: TableKind,
    /// How trees are made, if this instance creates them.
    pub trees: TreeKind,
    /// Which rows share a heap page, if this instance creates the tables.
    pub heaps: HeapForm,
    /// How readers of pages avoid conflicts with writers.
    #[serde(with = "by_name")]
    pub latching: Latching,
    /// The number of parts into which a load divides each multi-rooted tree.
    pub partitions: usize,
    /// The directory of the data file and the log; created if missing.
    pub dir: PathBuf,
    /// Buffer pool size in pages of 8 KiB.
    pub pool_pages: usize,
    pub backing: Backing,
    /// One worker for each entry; pinned to that CPU, or left to the operating system.
    pub cpus: Vec<Option<usize>>,
    /// The island of each worker, by arbitrary numbers. Workers of one island are close to each
    /// other. Empty: all workers are close.
    pub worker_islands: Vec<u16>,
    /// The NUMA node of the buffer pool's memory.
    pub node: Option<usize>,
    /// Where peers and clients connect; `None` for an instance without peers and outside clients.
    pub listen: Option<Address>,
    pub locks: LockTuning,
    pub lock_timeout_ms: u64,
    /// A distributed transaction that is undecided after this time is given up, in ms. `None`:
    /// twice `lock_timeout_ms`, at least [`InstanceConfig::LEAST_DISTRIBUTED_TIMEOUT_MS`].
    pub distributed_timeout_ms: Option<u64>,
    /// Whether the data is opened again after a power cut. The data of a temporary directory is
    /// not. In asynchronous mode its instances then rely on each other without waiting for the
    /// device.
    pub outlives_power_cuts: bool,
    /// Requests of outside clients that a worker takes before it has answered earlier ones. Further
    /// requests wait at their clients.
    pub most_requests: usize,
    /// The action of `occ` transactions that meet a prepared row.
    #[serde(with = "by_name")]
    pub occ_conflict: OccConflict,
    /// How `occ` transactions that write nothing read.
    #[serde(with = "by_name")]
    pub occ_reads: OccReads,
    /// How far ahead `occ` prefetches rows.
    #[serde(with = "by_name")]
    pub occ_ahead: OccAhead,
    /// Whether keys follow the load among the workers that own them.
    pub balance: Balance,
    /// How long an idle worker polls before it sleeps, in µs. 0 where workers outnumber CPUs.
    pub spin_us: u64,
}

/// When the memory of the pool, or of `occ`'s rows, is taken from the system. The first touch of
/// memory that is not yet taken costs time in the transaction that makes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Backing {
    /// A little ahead of its use.
    #[default]
    AsUsed,
    /// All of it before the instance is ready.
    AtStart,
}

/// Whether and how often the balancer checks the load of owners. Without effect where workers own
/// no keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Balance {
    #[serde(with = "by_name")]
    pub mode: Mode,
    /// Length of a period, in ms.
    pub every_ms: u64,
}

impl Default for Balance {
    /// Off. The period is a quarter of a second: two periods must agree, so a shift of the load is
    /// found within half a second.
    fn default() -> Balance {
        Balance { mode: Mode::Off, every_ms: 250 }
    }
}

impl InstanceConfig {
    /// Time for some round trips and some lock waits on a busy machine.
    pub const LEAST_DISTRIBUTED_TIMEOUT_MS: u64 = 2_000;

    /// Enough to keep a worker busy, and a quarter of the tasks that it can have. So requests from
    /// other instances still find a task while these wait.
    pub const MOST_REQUESTS: usize = 1024;

    /// The first instance of `placement`, with one worker that is not pinned, no peers or clients,
    /// and a log in memory. Callers change the fields that matter to them.
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
            distributed_timeout_ms: None,
            outlives_power_cuts: true,
            most_requests: InstanceConfig::MOST_REQUESTS,
            occ_conflict: OccConflict::default(),
            occ_reads: OccReads::default(),
            occ_ahead: OccAhead::default(),
            backing: Backing::default(),
            balance: Balance::default(),
            spin_us: 50,
        }
    }

    /// After how long an undecided distributed transaction is given up, in ns.
    pub fn distributed_timeout_ns(&self) -> u64 {
        let by_locks = self.lock_timeout_ms.saturating_mul(2).max(Self::LEAST_DISTRIBUTED_TIMEOUT_MS);
        self.distributed_timeout_ms.unwrap_or(by_locks).saturating_mul(1_000_000)
    }

    /// The number of workers.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_distributed_transactions_follows_that_of_locks_unless_it_is_set() {
        let base = InstanceConfig::new(PathBuf::new(), Placement::even(1, 1), DesignKind::Serial);
        for (locks, own, ms) in
            [(100, None, 2_000), (1_000, None, 2_000), (30_000, None, 60_000), (30_000, Some(50), 50)]
        {
            let config =
                InstanceConfig { lock_timeout_ms: locks, distributed_timeout_ms: own, ..base.clone() };
            assert_eq!(config.distributed_timeout_ns(), ms * 1_000_000);
        }
    }
}
