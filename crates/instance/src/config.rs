//! The settings of an instance at its start: plain values, so that they can cross a process
//! boundary.

use base::InstanceId;
use channel::{Address, Guarding};
use exec::{DesignKind, EngineOptions};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use txn::Placement;
use wal::Durability;

/// The settings of one instance. Those of all instances of a deployment must have the same
/// `deployment`, `placement` and `options`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InstanceConfig {
    pub id: InstanceId,
    /// Distinguishes this deployment's instances from those of any other. A caller with another
    /// number is refused.
    pub deployment: u64,
    /// Which sites belong to which instance.
    pub placement: Placement,
    #[serde(with = "exec::options::by_name")]
    pub design: DesignKind,
    pub durability: Durability,
    pub options: EngineOptions,
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
    /// Where those on other machines connect; `None` in a deployment on one machine.
    pub listen_far: Option<Address>,
    /// Seals links with other machines.
    #[serde(skip)]
    pub guard: Guarding,
    /// Whether the data is opened again after a power cut. The data of a temporary directory is
    /// not. In asynchronous mode its instances then rely on each other without waiting for the
    /// device.
    pub outlives_power_cuts: bool,
    /// How long an idle worker polls before it sleeps, in µs. 0 where workers outnumber CPUs.
    pub spin_us: u64,
    /// Where a quorum keeps the log, with durability `replicated`.
    pub relay: Option<RelayConfig>,
}

/// The log of an instance at a relay.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RelayConfig {
    /// `nats://HOST:PORT,..` or `kafka://HOST:PORT,..`
    pub address: String,
    /// The name of the log there.
    pub name: String,
    /// The claimed term; `None` takes the next.
    pub term: Option<u64>,
    /// Entries that are known to have counted.
    pub at_least: u64,
    /// Opens even if entries are lost that had counted.
    pub accept_loss: bool,
    /// The process answers until this time ([`world::now_ns`]) unless it is told another one: see
    /// [`crate::lease`]. `None`: the machine has no lease.
    pub answers_until: Option<u64>,
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

impl InstanceConfig {
    /// The first instance of `placement`, with one worker that is not pinned, no peers or clients,
    /// and a log in memory. Callers change the fields that matter to them.
    pub fn new(dir: PathBuf, placement: Placement, design: DesignKind) -> InstanceConfig {
        InstanceConfig {
            id: InstanceId(0),
            deployment: 1,
            placement,
            design,
            durability: Durability::Memory,
            options: EngineOptions::of(design),
            dir,
            pool_pages: 4096,
            backing: Backing::default(),
            cpus: vec![None],
            worker_islands: Vec::new(),
            node: None,
            listen: None,
            listen_far: None,
            guard: Guarding::default(),
            outlives_power_cuts: true,
            spin_us: 50,
            relay: None,
        }
    }

    /// The same with other options of the engine.
    #[must_use]
    pub fn with(mut self, set: impl FnOnce(&mut EngineOptions)) -> InstanceConfig {
        set(&mut self.options);
        self
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.cpus.len()
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
    /// The relay of the instance's log.
    #[error("{0}")]
    Relay(String),
    #[error("loading failed: {0}")]
    Load(String),
    #[error("the consistency check could not read the data: {0}")]
    Audit(String),
    #[error("a worker of this instance ended unexpectedly: {0}")]
    Worker(String),
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}
