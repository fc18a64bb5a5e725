//! How a database is opened.

use crate::{Error, Procedures};
use deploy::engine::{Backing, EngineOptions};
use deploy::{ChannelKind, DataUse, Deployment, Interrupt, LOOPBACK, Standing, standing};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use workload::WorkloadSpec;
use workload::benchmark::Benchmark;

pub use deploy::engine::{DesignKind as Design, Durability};

/// Where the instances of a database run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Host {
    /// As threads of this process.
    #[default]
    Threads,
    /// As child processes, which run the same program: see [`crate::host_instance`]. One that dies
    /// is started anew, and the others go on.
    Processes,
}

/// Page memory of all instances, in bytes.
const MEMORY: u64 = 256 << 20;
const CONNECTIONS: usize = 1000;

/// How a database is opened. All have good defaults: one island, threads, every commit on the
/// device before it is acknowledged.
///
/// ```
/// use atoll::{Design, Durability, Options};
///
/// # fn main() -> Result<(), atoll::Error> {
/// let dir = tempfile::tempdir().unwrap();
/// let options = Options::new().islands(2).workers(2).design(Design::Logical);
/// let db = options.durability(Durability::Async).open(dir.path().join("db"))?;
/// db.execute("CREATE TABLE t (id int8 PRIMARY KEY)", ())?;
/// db.close()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    islands: Option<u16>,
    workers: Option<usize>,
    design: Design,
    pub(crate) durability: Durability,
    pub(crate) host: Host,
    memory: u64,
    lock_timeout: Option<Duration>,
    connections: usize,
    pub(crate) procedures: Procedures,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            islands: None,
            workers: None,
            design: Design::Conventional,
            durability: Durability::Sync,
            host: Host::Threads,
            memory: MEMORY,
            lock_timeout: None,
            connections: CONNECTIONS,
            procedures: Procedures::new(),
        }
    }
}

impl Options {
    /// The defaults.
    ///
    /// ```
    /// # fn main() -> Result<(), atoll::Error> {
    /// let db = atoll::Options::new().open_in_memory()?;
    /// # db.close()
    /// # }
    /// ```
    pub fn new() -> Options {
        Options::default()
    }

    /// The number of instances among which the rows are divided, 1 to 64; by default 1, or as many
    /// as the database has. It cannot be changed later.
    #[must_use]
    pub fn islands(mut self, islands: u16) -> Options {
        self.islands = Some(islands);
        self
    }

    /// The number of worker threads of all instances together; by default one for each CPU that
    /// this process may use, and at least one for each instance.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Options {
        self.workers = Some(workers);
        self
    }

    /// How rows are shared among the workers of an instance; by default
    /// [`Design::Conventional`]. A database opens with any design that stores rows in the same
    /// form.
    #[must_use]
    pub fn design(mut self, design: Design) -> Options {
        self.design = design;
        self
    }

    /// When a commit is acknowledged; by default [`Durability::Sync`], once it is on the device.
    /// [`Durability::Async`] survives `kill -9`, and not a power cut.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// Where instances run; by default [`Host::Threads`].
    #[must_use]
    pub fn host(mut self, host: Host) -> Options {
        self.host = host;
        self
    }

    /// The memory for pages, or for rows if the design keeps them in memory, in bytes; by default
    /// 256 MiB.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Options {
        self.memory = bytes;
        self
    }

    /// How long a transaction waits for a lock before it ends with `40001`; by default 100 ms. So
    /// end deadlocks over several instances.
    #[must_use]
    pub fn lock_timeout(mut self, wait: Duration) -> Options {
        self.lock_timeout = Some(wait);
        self
    }

    /// The most connections at a time, also those over
    /// [`Database::listen`](crate::Database::listen); by default 1000.
    #[must_use]
    pub fn connections(mut self, most: usize) -> Options {
        self.connections = most;
        self
    }

    /// The procedures in Rust that [`Database::call`](crate::Database::call) can call.
    #[must_use]
    pub fn procedures(mut self, procedures: &Procedures) -> Options {
        self.procedures = procedures.clone();
        self
    }

    pub(crate) fn most_connections(&self) -> usize {
        self.connections
    }

    /// The deployment that these options describe.
    pub(crate) fn deployment(&self, path: Option<&Path>) -> Result<Deployment, Error> {
        let existing = match path.map(standing).transpose()? {
            Some(Standing::Database(manifest)) => Some(manifest.islands),
            _ => None,
        };
        let islands = self.islands.or(existing).unwrap_or(1);
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
        let least = usize::from(islands).max(1);
        let workers =
            self.workers.unwrap_or(if self.design == Design::Serial { least } else { cpus.max(least) });
        let spec = WorkloadSpec::new("sql", workers as u32);
        let database = sql::Database::from_spec(&spec).map_err(|why| Error::Failed(why.to_string()))?;
        let mut options = EngineOptions::of(self.design);
        if let Some(wait) = self.lock_timeout {
            options.lock_timeout_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
        }
        let (host, channel) = match self.host {
            Host::Threads => (deploy::Host::Thread, ChannelKind::Ring),
            Host::Processes => (deploy::Host::Process, ChannelKind::Shm),
        };
        Ok(Deployment {
            spec,
            sites: database.sites,
            islands,
            workers,
            places: Vec::new(),
            worker_islands: Vec::new(),
            design: self.design,
            host,
            channel,
            durability: self.durability,
            options,
            data: path.map(Into::into),
            data_use: DataUse::Keep,
            data_name: database.data_name(),
            data_bytes: database.growth_bytes(),
            pool_bytes: self.memory,
            backing: Backing::AsUsed,
            listen: LOOPBACK,
            machines: None,
            // The program around the database has work of its own: idle workers sleep at once.
            oversubscribed: true,
            number: number(),
            relay: None,
            interrupt: Interrupt::default(),
        })
    }
}

/// A number that no other deployment has.
fn number() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let parts = [u64::from(std::process::id()), COUNT.fetch_add(1, Ordering::Relaxed), now.as_nanos() as u64];
    base::hash64(&parts.map(u64::to_le_bytes).concat())
}
