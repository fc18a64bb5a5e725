//! From a deployment's options to the configuration of each instance: sites, workers, CPUs, memory,
//! an address.

use crate::DeployError;
use crate::distant::{Errand, Machines};
use crate::engine::{
    Address, Backing, DesignKind, Durability, EngineOptions, InstanceConfig, RelayConfig, Run, Size,
};
use base::{InstanceId, counted};
use channel::Guarding;
use instance::MAX_WORKERS;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use topology::{CpuId, InstancePlace};
use txn::Placement;
use workload::WorkloadSpec;

/// Where an instance runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Host {
    /// A child process.
    Process,
    /// A thread of this process.
    Thread,
}

impl Host {
    /// As the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            Host::Process => "process",
            Host::Thread => "thread",
        }
    }
}

/// As the command line spells it.
pub fn durability_name(durability: Durability) -> &'static str {
    durability.name()
}

/// How a deployment uses the data directory that it is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DataUse {
    /// It runs on a copy that is removed with it. The directory stays as it was loaded; if it is
    /// empty, it is loaded first. With durability `memory` the deployment loads data of its own
    /// beside the data in the directory, which must still be whole and match.
    #[default]
    Copy,
    /// It runs in the directory itself, and its changes stay.
    Keep,
    /// It runs in the directory itself, which is removed afterwards.
    Spend,
    /// It loads, in the directory itself. A half-finished load is started anew, not refused.
    Load,
}

/// The transport of messages between instances.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChannelKind {
    Shm,
    Uds,
    Tcp,
    /// In a build with it.
    Rdma,
    /// In-process ring: thread host only.
    Ring,
}

impl ChannelKind {
    pub const ALL: [ChannelKind; 5] =
        [ChannelKind::Shm, ChannelKind::Uds, ChannelKind::Tcp, ChannelKind::Rdma, ChannelKind::Ring];

    /// As the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            ChannelKind::Shm => "shm",
            ChannelKind::Uds => "uds",
            ChannelKind::Tcp => "tcp",
            ChannelKind::Rdma => "rdma",
            ChannelKind::Ring => "ring",
        }
    }

    /// Whether it connects instances that run there: a ring lies in the memory of one process.
    pub fn connects(self, host: Host) -> bool {
        self != ChannelKind::Ring || host == Host::Thread
    }
}

/// Set by the handler of Ctrl-C; every wait of a deployment checks it.
#[derive(Clone, Default, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Interrupts the deployment.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
    /// The flag itself, for a signal handler.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

/// Which instances are to run where, over which data.
#[derive(Clone, Debug)]
pub struct Deployment {
    pub spec: WorkloadSpec,
    /// Logical sites of the data.
    pub sites: u32,
    pub islands: u16,
    /// Worker threads in total, divided as evenly as possible.
    pub workers: usize,
    /// Where each instance's workers run and its memory lies. Empty: nothing is pinned.
    pub places: Vec<InstancePlace>,
    /// The island of each worker of each instance, by arbitrary numbers. Empty: unknown.
    pub worker_islands: Vec<Vec<u16>>,
    pub design: DesignKind,
    pub host: Host,
    pub channel: ChannelKind,
    pub durability: Durability,
    /// The same for all instances.
    pub options: EngineOptions,
    /// Where database and log lie; `None`: a temporary directory, removed afterwards.
    pub data: Option<PathBuf>,
    pub data_use: DataUse,
    /// The data in words, for the manifest ("micro, 240000 rows, 24 sites").
    pub data_name: String,
    /// The bytes that the loaded data takes in pages, roughly.
    pub data_bytes: u64,
    /// Bytes of page memory for all instances together.
    pub pool_bytes: u64,
    /// When that memory is taken from the system.
    pub backing: Backing,
    /// Where TCP listens: with port 0 any free ports, otherwise this one and the following.
    pub listen: SocketAddr,
    /// The machines that the instances run on; `None`: all on this one.
    pub machines: Option<Arc<dyn Machines>>,
    /// There are more workers than CPUs: idle ones then sleep instead of polling.
    pub oversubscribed: bool,
    /// Distinguishes this deployment's instances from those of any other, which they refuse.
    pub number: u64,
    /// Where a quorum keeps the logs, with durability `replicated`.
    pub relay: Option<RelayPlace>,
    pub interrupt: Interrupt,
}

/// Where a quorum keeps the logs of a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayPlace {
    /// `nats://HOST:PORT,..` or `kafka://HOST:PORT,..`
    pub address: String,
    /// The names of the logs begin with it. A database that is kept has the same logs each time;
    /// any other deployment has logs of its own.
    pub name: String,
    /// Opens even if entries are lost that had counted.
    pub accept_loss: bool,
    /// The claims of this machine; `None` without a membership.
    pub claim: Option<RelayClaim>,
}

/// The claim of a machine to the islands of a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayClaim {
    /// The term of each instance's log, by its number.
    pub terms: Vec<u64>,
    /// The entries of each that are known to have counted.
    pub at_least: Vec<u64>,
    /// [`instance::RelayConfig::answers_until`].
    pub answers_until: u64,
}

/// Loopback, any port.
pub const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Bytes of a page.
const PAGE: u64 = 8192;
/// How long an idle worker polls its inbox before it sleeps, in µs: several round trips over shared
/// memory, and short compared with a scheduler's time slice.
const SPIN_US: u64 = 50;
/// The least frames of an instance: roots, inner nodes and a page per concurrent transaction stay
/// resident.
const MIN_FRAMES: u64 = 512;

/// The least page memory that each instance of a deployment gets, in bytes.
pub const MIN_INSTANCE_MEMORY: u64 = MIN_FRAMES * PAGE;

/// The largest number of workers of one instance.
fn most_workers(design: DesignKind) -> usize {
    // A page stores its owner in ten bits, and one of the values means "no owner".
    if design.owns_pages() { MAX_WORKERS - 1 } else { MAX_WORKERS }
}

impl Deployment {
    /// Workers of instance `i`.
    pub fn workers_of(&self, i: u16) -> usize {
        let n = usize::from(self.islands);
        self.workers / n + usize::from(usize::from(i) < self.workers % n)
    }

    /// The number of parts into which a load divides each multi-rooted tree of each instance.
    pub fn partitions(&self) -> usize {
        self.options.partitions.unwrap_or_else(|| self.workers.div_ceil(usize::from(self.islands)))
    }

    /// The design and the options, for the columns of a result row.
    pub fn run(&self) -> Run<'_> {
        let workers = self.workers.div_ceil(usize::from(self.islands));
        Run { design: self.design, workers, options: &self.options }
    }

    /// Its name for the agents of its machines.
    pub(crate) fn errand(&self) -> Errand {
        let database = self.data.as_ref().map(|data| data.display().to_string());
        Errand { deployment: self.number, database, again: false }
    }

    /// The machine of an instance, if there are several.
    pub(crate) fn machine_of(&self, instance: InstanceId) -> Option<usize> {
        self.machines.as_ref().map(|machines| machines.of(instance, self.islands))
    }

    /// # Errors
    /// When no such deployment can exist. The message names the option, the expected values and the
    /// remedy.
    pub fn check(&self) -> Result<(), DeployError> {
        let impossible = |text: String| Err(DeployError::Impossible(text));
        let (islands, workers, sites) = (self.islands, self.workers, self.sites);
        if islands == 0 {
            return impossible(
                "--islands 0: expected at least 1; --islands shared is one instance over all cores".into(),
            );
        }
        if usize::from(islands) > workers {
            return impossible(format!(
                "--islands {islands}: more islands than the {}; expected 1 to {workers}, or raise --workers",
                counted(workers, "worker")
            ));
        }
        if u32::from(islands) > sites {
            return impossible(format!(
                "--islands {islands}: more islands than the {} of the data; expected 1 to {sites}, or raise --dataset or \
                 --scale",
                counted(sites, "site")
            ));
        }
        let (busiest, most) = (self.workers_of(0), most_workers(self.design));
        if busiest > most {
            return impossible(format!(
                "--workers {workers}: {busiest} in one instance; expected {most} at most with --design {}, or more --islands",
                self.design
            ));
        }
        let size = Size { islands: islands.into(), workers, sites: sites as usize };
        self.options.check(self.design, size).map_err(DeployError::Impossible)?;
        let last = u32::from(self.listen.port()) + u32::from(islands) - 1;
        if self.channel == ChannelKind::Tcp && self.listen.port() != 0 && last > u32::from(u16::MAX) {
            return impossible(format!(
                "--listen {}: with --islands {islands} the last instance would listen on port {last}; expected port {} at most, \
                 or no port",
                self.listen,
                65_536 - u32::from(islands)
            ));
        }
        if let Some(machines) = &self.machines {
            self.check_machines(machines.count())?;
        }
        if islands > 1 && !self.channel.connects(self.host) {
            return impossible(
                "--channel ring: it connects instances of one process; expected --host thread, or another channel".into(),
            );
        }
        Ok(())
    }

    /// The same, for a deployment over several machines.
    fn check_machines(&self, machines: usize) -> Result<(), DeployError> {
        let impossible = |text: String| Err(DeployError::Impossible(text));
        match () {
            () if usize::from(self.islands) < machines => impossible(format!(
                "--islands {}: fewer than the {machines} hosts; expected at least one island for each host",
                self.islands
            )),
            () if self.host == Host::Thread => {
                impossible("--host thread: instances on other hosts are processes; expected --host process".into())
            }
            () if self.data.is_some() && self.data_use != DataUse::Keep => impossible(
                "--data with --hosts: no copies are made on other hosts; expected --keep too, which runs on the database \
                 itself"
                    .into(),
            ),
            () => Ok(()),
        }
    }

    /// Page memory of instance `i`, in pages. In proportion to the data: an instance with more
    /// sites has more data to keep in memory.
    fn frames(&self, placement: &Placement, i: u16) -> u64 {
        let sites = placement.sites_of(InstanceId(i)).len() as u128;
        let share = u128::from(self.pool_bytes / PAGE) * sites / u128::from(self.sites.max(1));
        (share as u64).max(MIN_FRAMES)
    }

    /// Page memory of all instances, in bytes: the requested amount, and at least the minimum of
    /// each.
    pub(crate) fn page_memory(&self) -> u64 {
        let placement = Placement::even(self.sites, self.islands);
        (0..self.islands)
            .map(|i| self.frames(&placement, i).saturating_mul(PAGE))
            .fold(0, u64::saturating_add)
    }

    /// One configuration per instance, with data below `home` and links at `sockets`.
    pub(crate) fn configs(&self, home: &Path, sockets: &Path) -> Vec<InstanceConfig> {
        let placement = Placement::even(self.sites, self.islands);
        let frames = |i: u16| self.frames(&placement, i);
        let options = EngineOptions { partitions: Some(self.partitions()), ..self.options };
        (0..self.islands)
            .map(|i| {
                let place = self.places.get(usize::from(i));
                let cpu = |c: &Option<CpuId>| c.map(|c| c.0 as usize);
                let mut cpus: Vec<_> = place.map(|p| p.cpus.iter().map(cpu).collect()).unwrap_or_default();
                cpus.resize(self.workers_of(i), None);
                InstanceConfig {
                    id: InstanceId(i),
                    deployment: self.number,
                    placement: placement.clone(),
                    design: self.design,
                    durability: self.durability,
                    options,
                    dir: home.join(i.to_string()),
                    pool_pages: frames(i) as usize,
                    backing: self.backing,
                    cpus,
                    worker_islands: self.worker_islands.get(usize::from(i)).cloned().unwrap_or_default(),
                    node: place.and_then(|p| p.node).map(|n| n.0 as usize),
                    listen: Some(self.address(i, sockets)),
                    listen_far: self.far_address(InstanceId(i)),
                    guard: Guarding::default(),
                    outlives_power_cuts: self.outlives_power_cuts(),
                    spin_us: if self.oversubscribed { 0 } else { SPIN_US },
                    relay: self.relay_of(i),
                }
            })
            .collect()
    }

    /// The log of instance `i` at the relay.
    fn relay_of(&self, i: u16) -> Option<RelayConfig> {
        let RelayPlace { address, name, accept_loss, claim } = self.relay.clone()?;
        let of = |numbers: &[u64]| numbers.get(usize::from(i)).copied();
        let term = claim.as_ref().and_then(|claim| of(&claim.terms));
        let at_least = claim.as_ref().and_then(|claim| of(&claim.at_least)).unwrap_or(0);
        let answers_until = claim.map(|claim| claim.answers_until);
        let name = match self.data_use {
            DataUse::Keep | DataUse::Load => format!("{name}-{i}"),
            DataUse::Copy | DataUse::Spend => format!("{name}-{:016x}-{i}", self.number),
        };
        Some(RelayConfig { address, name, term, at_least, accept_loss, answers_until })
    }

    /// Whether the data is opened again after a power cut. A temporary directory is not, nor is a
    /// copy that is removed with the deployment.
    fn outlives_power_cuts(&self) -> bool {
        self.data.is_some() && matches!(self.data_use, DataUse::Keep | DataUse::Load)
    }

    /// Where other machines reach an instance: a port that the system chooses.
    fn far_address(&self, instance: InstanceId) -> Option<Address> {
        let machines = self.machines.as_ref()?;
        match (machines.address(machines.of(instance, self.islands)), self.channel) {
            (Address::Tcp(at), ChannelKind::Rdma) => Some(Address::Rdma(at)),
            (address, _) => Some(address),
        }
    }

    /// The address at which others call an instance that has bound `bound`: an agent may listen on
    /// all addresses of its machine.
    pub(crate) fn far_of(&self, instance: InstanceId, bound: Address) -> Address {
        match (self.far_address(instance), bound) {
            (Some(Address::Tcp(mut at)), Address::Tcp(bound)) => {
                at.set_port(bound.port());
                Address::Tcp(at)
            }
            (Some(Address::Tls(mut at)), Address::Tls(bound)) => {
                at.set_port(bound.port());
                Address::Tls(at)
            }
            (Some(Address::Rdma(mut at)), Address::Rdma(bound)) => {
                at.set_port(bound.port());
                Address::Rdma(at)
            }
            (_, bound) => bound,
        }
    }

    fn address(&self, i: u16, sockets: &Path) -> Address {
        match self.channel {
            ChannelKind::Shm => Address::Shm(sockets.join(i.to_string())),
            ChannelKind::Uds => Address::Uds(sockets.join(i.to_string())),
            ChannelKind::Ring => Address::Ring(format!("{}-{i}", self.number)),
            ChannelKind::Tcp => Address::Tcp(self.port_of(i)),
            ChannelKind::Rdma => Address::Rdma(self.port_of(i)),
        }
    }

    /// The ports follow that of the first instance, or the system chooses each.
    fn port_of(&self, i: u16) -> SocketAddr {
        let mut at = self.listen;
        if at.port() != 0 {
            at.set_port(at.port().saturating_add(i));
        }
        at
    }
}
