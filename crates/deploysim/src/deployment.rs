//! A deployment: which workers run on which cores, and how they are joined.

use crate::error::ModelError;
use crate::machine::{LevelGroups, MachineModel};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The way in which messages travel between instances.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// Queues of one process.
    Ring,
    /// Rings in shared memory.
    Shm,
    /// Unix sockets.
    Uds,
    Tcp,
    /// Devices move messages between the memories of two machines.
    Rdma,
}

impl Channel {
    pub const ALL: [Channel; 5] = [Channel::Ring, Channel::Shm, Channel::Uds, Channel::Tcp, Channel::Rdma];

    pub fn name(self) -> &'static str {
        match self {
            Channel::Ring => "ring",
            Channel::Shm => "shm",
            Channel::Uds => "uds",
            Channel::Tcp => "tcp",
            Channel::Rdma => "rdma",
        }
    }

    /// Whether it reaches another machine.
    pub fn crosses_machines(self) -> bool {
        matches!(self, Channel::Tcp | Channel::Rdma)
    }
}

/// The state of the log that a commit waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Nothing.
    Memory,
    /// Its record is appended; the log is written behind.
    Async,
    /// Its record is on the device.
    Sync,
}

impl Durability {
    pub fn name(self) -> &'static str {
        match self {
            Durability::Memory => "memory",
            Durability::Async => "async",
            Durability::Sync => "sync",
        }
    }
}

/// The clients of a run.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clients {
    /// Clients per worker, each with one request under way.
    Closed(u32),
    /// Requests per second of the whole deployment, as a Poisson stream.
    Open(f64),
}

/// The rule by which instances get their cores.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Each instance on cores that are near each other.
    Island,
    /// Each instance on cores of all packages, in turn.
    Spread,
    /// Cores drawn at random with this seed, as an operating system might.
    Os(u64),
}

/// A deployment on a machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Deployment {
    /// A name of the profile's designs.
    pub design: String,
    /// The core of each worker, by instance.
    pub instances: Vec<Vec<usize>>,
    pub channel: Channel,
    pub durability: Durability,
    pub clients: Clients,
    /// The first site of each instance but the first, ascending; empty for even parts.
    #[serde(default)]
    pub bounds: Vec<u32>,
}

impl Deployment {
    /// `islands` instances of equal size over the first `workers` cores by `placement`; log in
    /// memory, four clients per worker, shared memory.
    ///
    /// # Errors
    /// More workers than cores, or instances of unequal size.
    pub fn new(
        machine: &MachineModel,
        design: &str,
        islands: usize,
        workers: usize,
        placement: Placement,
    ) -> Result<Deployment, ModelError> {
        let wrong = |text: String| Err(ModelError::Deployment(text));
        if workers > machine.cores() {
            return wrong(format!("{workers} workers on {} cores", machine.cores()));
        }
        if islands == 0 || workers == 0 || !workers.is_multiple_of(islands) {
            return wrong(format!("{workers} workers do not divide evenly over {islands} instances"));
        }
        let cores = ordered(machine, workers, placement);
        let size = workers / islands;
        let instances = match placement {
            // The cores lie package by package, so every `islands`-th one is of another package.
            Placement::Spread => {
                (0..islands).map(|i| cores.iter().skip(i).step_by(islands).copied().collect()).collect()
            }
            Placement::Island | Placement::Os(_) => cores.chunks(size).map(<[usize]>::to_vec).collect(),
        };
        Ok(Deployment {
            design: design.to_owned(),
            instances,
            channel: Channel::Shm,
            durability: Durability::Memory,
            clients: Clients::Closed(4),
            bounds: Vec::new(),
        })
    }

    #[must_use]
    pub fn over(self, channel: Channel) -> Deployment {
        Deployment { channel, ..self }
    }

    #[must_use]
    pub fn with_clients(self, clients: Clients) -> Deployment {
        Deployment { clients, ..self }
    }

    #[must_use]
    pub fn with_durability(self, durability: Durability) -> Deployment {
        Deployment { durability, ..self }
    }

    /// The same deployment with parts that begin at these sites: one bound for each instance but
    /// the first.
    #[must_use]
    pub fn with_bounds(self, bounds: Vec<u32>) -> Deployment {
        Deployment { bounds, ..self }
    }

    /// The sites of an instance, of `sites` in all.
    pub fn sites_of(&self, instance: usize, sites: u32) -> Range<u32> {
        let count = self.instances.len();
        let start = |i: usize| match i {
            0 => 0,
            i if i == count => sites,
            i if self.bounds.is_empty() => (i as u64 * u64::from(sites) / count as u64) as u32,
            i => self.bounds[i - 1],
        };
        start(instance)..start(instance + 1)
    }

    /// The instance of a site, of `sites` in all.
    pub fn owner_of(&self, site: u32, sites: u32) -> usize {
        if self.bounds.is_empty() {
            // The last instance with a first site not above `site`.
            let count = self.instances.len() as u64;
            return (((u64::from(site) + 1) * count - 1) / u64::from(sites)) as usize;
        }
        self.bounds.partition_point(|&bound| bound <= site)
    }

    /// # Errors
    /// Bounds that are not one for each instance but the first, or that leave an instance without a
    /// site.
    pub fn check_bounds(&self, sites: u32) -> Result<(), ModelError> {
        let wrong = |text: String| Err(ModelError::Deployment(text));
        let (bounds, instances) = (&self.bounds, self.instances.len());
        if bounds.is_empty() {
            return Ok(());
        }
        if bounds.len() + 1 != instances {
            return wrong(format!(
                "{} bounds for {instances} instances: expected {}",
                bounds.len(),
                instances - 1
            ));
        }
        let all = std::iter::once(0).chain(bounds.iter().copied()).chain([sites]);
        if !all.is_sorted_by(|a, b| a < b) {
            return wrong(format!("the bounds {bounds:?} leave an instance without one of {sites} sites"));
        }
        Ok(())
    }

    /// The number of workers of all instances.
    pub fn workers(&self) -> usize {
        self.instances.iter().map(Vec::len).sum()
    }

    /// # Errors
    /// No worker, a core that the machine has not or that is used twice, a load without clients,
    /// or a channel that does not reach another machine.
    pub fn check(&self, machine: &MachineModel) -> Result<(), ModelError> {
        let wrong = |text: String| Err(ModelError::Deployment(text));
        if self.instances.is_empty() || self.instances.iter().any(Vec::is_empty) {
            return wrong("an instance needs at least one worker".into());
        }
        let mut used = vec![false; machine.cores()];
        for &core in self.instances.iter().flatten() {
            match used.get_mut(core) {
                None => return wrong(format!("core {core} of a machine with {} cores", machine.cores())),
                Some(true) => return wrong(format!("core {core} has two workers")),
                Some(free) => *free = true,
            }
        }
        match self.clients {
            Clients::Closed(0) => return wrong("a closed load needs at least one client per worker".into()),
            Clients::Open(rate) if !(rate.is_finite() && rate > 0.0) => {
                return wrong(format!("an open load of {rate} requests per second"));
            }
            _ => {}
        }
        let first = self.instances[0][0];
        let spans = self.instances.iter().flatten().any(|&core| !machine.is_one_host(first, core));
        if spans && self.instances.len() > 1 && !self.channel.crosses_machines() {
            return wrong(format!("{} does not reach another machine: use tcp or rdma", self.channel.name()));
        }
        let split = |cores: &Vec<usize>| cores.iter().any(|&core| !machine.is_one_host(cores[0], core));
        if self.instances.iter().any(split) {
            return wrong("an instance cannot span several machines".into());
        }
        Ok(())
    }
}

/// The first `workers` cores in an order in which near cores are neighbours, or drawn at random.
fn ordered(machine: &MachineModel, workers: usize, placement: Placement) -> Vec<usize> {
    let mut cores: Vec<usize> = (0..machine.cores()).collect();
    // The group of each core by level, coarsest first.
    cores.sort_by_cached_key(|&core| {
        let group = |level: &LevelGroups| level.groups.iter().position(|group| group.contains(&core));
        machine.levels().iter().rev().map(group).collect::<Vec<_>>()
    });
    if let Placement::Os(seed) = placement {
        fastrand::Rng::with_seed(seed).shuffle(&mut cores);
    }
    cores.truncate(workers);
    cores
}
