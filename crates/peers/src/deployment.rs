//! Instances of Atoll inside this process: one or more pinned workers each, with shared memory
//! between the instances.

use crate::fault::PeerFault;
use base::InstanceId;
use channel::Address;
use exec::DesignKind;
use instance::{Instance, InstanceConfig};
use probe::Measured;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;
use tempfile::TempDir;
use topology::CpuId;
use txn::{Placement, Workload};
use wal::Durability;

/// 256 MiB: all data measured here stays resident.
const POOL_PAGES: usize = 32_768;
const LOCK_TIMEOUT_MS: u64 = 1_000;
/// How long an idle worker spins, in µs: longer than a round trip, so that a distributed
/// transaction never pays for a wake-up.
const SPIN_US: u64 = 50;

/// The places of instances: a list of CPUs for each, with one worker per CPU, and the pool size of
/// each in pages.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    pub cpus: &'a [Vec<Option<CpuId>>],
    pub pool_pages: usize,
}

/// The results of driven clients: the measured window, and the commits from start to end.
pub struct Driven {
    pub window: Measured,
    pub committed: u64,
}

/// The settings of instance `id` out of `of`, with one worker for each of `cpus`.
pub fn config<W: Workload>(
    workload: &W,
    dir: &Path,
    design: DesignKind,
    durability: Durability,
    (id, of): (u16, u16),
    cpus: &[Option<CpuId>],
) -> InstanceConfig {
    InstanceConfig {
        id: InstanceId(id),
        deployment: u64::from(std::process::id()),
        durability,
        pool_pages: POOL_PAGES,
        cpus: cpus.iter().map(|cpu| cpu.map(|c| c.0 as usize)).collect(),
        listen: (of > 1).then(|| Address::Shm(dir.join(format!("{id}.sock")))),
        spin_us: SPIN_US,
        ..InstanceConfig::new(dir.join(id.to_string()), Placement::even(workload.sites(), of), design)
    }
    .with(|o| o.lock_timeout_ms = LOCK_TIMEOUT_MS)
}

pub fn seconds(measured: &Measured) -> f64 {
    (measured.window_ns as f64 / 1e9).max(f64::MIN_POSITIVE)
}

/// A directory under `parent` that only this user may enter, as channels require. It is removed
/// when dropped.
///
/// # Errors
/// It cannot be created.
pub fn private_dir(parent: &Path) -> Result<TempDir, PeerFault> {
    let private = std::fs::Permissions::from_mode(0o700);
    let made = tempfile::Builder::new().prefix("atoll-peers-").permissions(private).tempdir_in(parent);
    made.map_err(PeerFault::io(parent))
}

/// Loaded instances, connected to each other.
pub struct Deployment<W: Workload> {
    pub workload: W,
    pub instances: Vec<Instance<W>>,
    name: String,
    /// Dropped last, because it contains the instances' files.
    _dir: TempDir,
}

impl<W: Workload> Deployment<W> {
    /// One instance for each entry of `cpus`, in a directory of its own inside `dir`.
    ///
    /// # Errors
    /// An instance cannot start or be loaded.
    pub fn load(
        name: &str,
        workload: W,
        design: DesignKind,
        durability: Durability,
        dir: &Path,
        cpus: &[Vec<Option<CpuId>>],
    ) -> Result<Self, PeerFault> {
        let places = Places { cpus, pool_pages: POOL_PAGES };
        Self::load_in(name, workload, design, durability, dir, places)
    }

    /// As [`Deployment::load`], with a given pool size.
    ///
    /// # Errors
    /// As [`Deployment::load`].
    pub fn load_in(
        name: &str,
        workload: W,
        design: DesignKind,
        durability: Durability,
        dir: &Path,
        places: Places<'_>,
    ) -> Result<Self, PeerFault> {
        let Places { cpus, pool_pages } = places;
        let of = cpus.len() as u16;
        let own = private_dir(dir)?;
        let mut instances = Vec::new();
        for (id, cpus) in (0..).zip(cpus) {
            let config = config(&workload, own.path(), design, durability, (id, of), cpus);
            let config = InstanceConfig { pool_pages, ..config };
            std::fs::create_dir_all(&config.dir).map_err(PeerFault::io(&config.dir))?;
            instances.push(Instance::start(workload.clone(), config)?);
        }
        let named = (0..).map(InstanceId).zip(&instances);
        let addresses: Vec<_> = named.filter_map(|(id, i)| Some((id, i.address()?))).collect();
        instances.iter().for_each(|i| i.connect(&addresses));
        for instance in &instances {
            instance.load(&|_, _| {})?;
        }
        Ok(Deployment { workload, instances, name: name.into(), _dir: own })
    }

    /// Replaces the workload's options in all instances.
    pub fn reconfigure(&mut self, workload: W) {
        self.instances.iter().for_each(|i| i.reconfigure(workload.clone()).unwrap());
        self.workload = workload;
    }

    /// Runs one client on each worker of the first `driven` instances. Returns the measurements of
    /// their window.
    ///
    /// # Errors
    /// No transaction was committed.
    pub fn run(&self, driven: usize, seed: u64, times: Times) -> Result<Measured, PeerFault> {
        let driven = &self.instances[..driven];
        driven.iter().for_each(|i| i.drive(1, seed));
        sleep(times.warm_up);
        driven.iter().for_each(|i| drop(i.measure().unwrap()));
        sleep(times.window);
        let mut all = Measured::default();
        driven.iter().for_each(|i| all.merge(&i.measure().unwrap()));
        driven.iter().for_each(|i| i.halt().unwrap());
        if all.committed_total() == 0 { Err(PeerFault::Idle(self.name.clone())) } else { Ok(all) }
    }

    /// Runs `clients` clients on each worker of every instance.
    ///
    /// # Errors
    /// No transaction was committed in the window.
    pub fn drive(&self, clients: usize, seed: u64, times: Times) -> Result<Driven, PeerFault> {
        let measure = || {
            let mut all = Measured::default();
            self.instances.iter().for_each(|i| all.merge(&i.measure().unwrap()));
            all
        };
        self.instances.iter().for_each(|i| i.drive(clients, seed));
        sleep(times.warm_up);
        let warm = measure();
        sleep(times.window);
        let window = measure();
        self.instances.iter().for_each(|i| i.halt().unwrap());
        let committed = [&warm, &window, &measure()].iter().map(|m| m.committed_total()).sum();
        if window.committed_total() == 0 {
            Err(PeerFault::Idle(self.name.clone()))
        } else {
            Ok(Driven { window, committed })
        }
    }

    /// Checks the workload's consistency conditions, while no client runs. `committed` is the
    /// number of transactions known to have changed data since loading.
    ///
    /// # Errors
    /// [`PeerFault::Wrong`] if a condition is violated.
    pub fn check(&self, committed: Option<u64>) -> Result<(), PeerFault> {
        let mut audits = Vec::new();
        for instance in &self.instances {
            let audit = postcard::from_bytes(&instance.audit()?);
            audits.push(audit.map_err(|e| PeerFault::Audit(self.name.clone(), e))?);
        }
        let violations = self.workload.judge(audits, committed).violations;
        if violations.is_empty() {
            Ok(())
        } else {
            Err(PeerFault::Wrong { name: self.name.clone(), violations })
        }
    }

    /// # Errors
    /// An instance cannot close its store.
    pub fn stop(self) -> Result<(), PeerFault> {
        self.instances.into_iter().try_for_each(|i| i.stop().map_err(PeerFault::from))
    }
}

/// How long each run warms up and is measured.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub warm_up: Duration,
    pub window: Duration,
}
