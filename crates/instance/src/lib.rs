//! One island: a storage engine with its own log, its workers and its inbox.
//!
//! A request enters from a client inside a worker ([`Instance::drive`]) or over a channel ([`wire::Frame::Submit`]);
//! its procedure runs on one worker, whose steps run here or travel to the instances that own their rows. Steps of
//! other instances' transactions enter as [`wire::Frame::Steps`]. What is agreed between instances is decided by the
//! state machines of `twophase`; this room feeds them and does what they say.
//!
//! Who may do what: each worker is one thread and owns its tasks, links, coordinators and sessions; workers share
//! the engine, and reach each other only through inboxes. A transaction belongs to the same worker of each instance for
//! its whole life, over broken links and restarts, because its number says which.
//!
//! This room knows no workload and no other process: where instances run is `deploy`'s business.
//!
//! - [`config`]: what an instance is told at its start.
//! - `worker`: the loop. `home`: procedures and commit. `gate`: how many of them at once. `participant`: parts of others'
//!   transactions.
//! - `handover`: requests whose keys are all another worker's, handed to it whole. `owned`: steps of other workers of the instance,
//!   where each owns keys. `groups`: a phase's steps by who runs them. `spread`: steps over many sites.
//! - `links`, `calls`, `connector`, `roles`: messages, requests under way, how links come about, and who may say what.
//! - `clients`: requests from inside the workers, in closed and open loops; `source`: where an open loop's come from.
//! - `load`: loading and auditing.
//! - `balance`: which worker owns which keys, changed as the load shifts; `placing`: on which island.
//! - [`offline`]: looking at instances that do not run, without changing them.

#![forbid(unsafe_code)]
#![allow(async_fn_in_trait)]

mod balance;
mod calls;
mod clients;
pub mod config;
mod connector;
mod counts;
mod gate;
mod groups;
mod handover;
mod home;
mod links;
mod load;
mod local;
pub mod offline;
mod opening;
mod owned;
mod participant;
mod placing;
mod plan;
#[cfg(feature = "planted")]
pub mod planted;
mod roles;
mod running;
mod shared;
mod source;
mod spread;
mod state;
mod worker;

pub use balance::RepartitionError;
pub use config::{Backing, Balance, InstanceConfig, InstanceFault};
pub use exec::Carried;
pub use local::MAX_WORKERS;
pub use partition::Mode;
pub use running::Recovery;
pub use shared::Scene;

use base::InstanceId;
use channel::Address;
use exec::{Conventional, DesignKind, MemoryEngine, PageEngine, Partitioned, Serial};
use probe::{Measured, Profiling};
use running::Running;
use std::ops::Range;
use std::sync::Arc;
use traffic::{Share, Traffic};
use txn::Workload;

/// A running instance. Its methods may be called from one thread that is none of its own.
pub struct Instance<W: Workload>(Inner<W>);

enum Inner<W: Workload> {
    Conventional(Running<W, PageEngine<Conventional>>),
    Partitioned(Running<W, PageEngine<Partitioned>>),
    Serial(Running<W, PageEngine<Serial>>),
    Occ(Running<W, MemoryEngine>),
}

macro_rules! each {
    ($self:expr, $running:ident => $call:expr) => {
        match $self {
            Inner::Conventional($running) => $call,
            Inner::Partitioned($running) => $call,
            Inner::Serial($running) => $call,
            Inner::Occ($running) => $call,
        }
    };
}

impl<W: Workload> Instance<W> {
    /// Opens (or creates) the store in the configured directory, which replays its log, and starts the workers.
    ///
    /// # Errors
    /// When the directory is in use or damaged, the address is taken, or the system has no threads or file descriptors left.
    pub fn start(workload: W, config: InstanceConfig) -> Result<Self, InstanceFault> {
        Instance::start_in(workload, config, world::real())
    }

    /// As [`Instance::start`], with its directory among these files.
    ///
    /// # Errors
    /// As there.
    pub fn start_in(
        workload: W,
        config: InstanceConfig,
        files: Arc<dyn world::Files>,
    ) -> Result<Self, InstanceFault> {
        Ok(Instance(match config.design {
            DesignKind::Conventional => Inner::Conventional(Running::start(workload, config, files)?),
            DesignKind::Logical | DesignKind::PlpRegular | DesignKind::PlpPartition | DesignKind::PlpLeaf => {
                Inner::Partitioned(Running::start(workload, config, files)?)
            }
            DesignKind::Serial => Inner::Serial(Running::start(workload, config, files)?),
            DesignKind::Occ => Inner::Occ(Running::start(workload, config, files)?),
        }))
    }

    /// Where peers and clients can connect (the real port, if port 0 was asked for).
    pub fn address(&self) -> Option<Address> {
        each!(&self.0, r => r.address())
    }

    /// What restart did.
    pub fn recovery(&self) -> &Recovery {
        each!(&self.0, r => r.recovery())
    }

    /// What the system gave less of than was asked for, and what to do; the instance runs.
    pub fn shortage(&self) -> Option<String> {
        each!(&self.0, r => r.shortage())
    }

    /// Why nothing commits here any more; `None` while all is well.
    pub fn fault(&self) -> Option<String> {
        each!(&self.0, r => r.fault())
    }

    /// Whether the instance's memory comes from its NUMA node, or why not.
    pub fn binding(&self) -> &topology::Binding {
        each!(&self.0, r => r.binding())
    }

    /// Tells where the other instances are; links are opened now and again whenever they break. Returns when all are
    /// open, or after 2 s: a peer that is down gets its links when it is back.
    pub fn connect(&self, peers: &[(InstanceId, Address)]) {
        each!(&self.0, r => r.connect(peers))
    }

    /// Loads the workload's data of this instance's sites. `progress` gets pieces done and pieces in all.
    pub fn load(&self, progress: &dyn Fn(u64, u64)) -> Result<(), InstanceFault> {
        each!(&self.0, r => r.load(progress))
    }

    /// Starts a closed loop of `clients_per_worker` clients on every worker.
    pub fn drive(&self, clients_per_worker: usize, seed: u64) {
        self.load_with(Traffic::closed(clients_per_worker as u32), Share::whole(1), seed);
    }

    /// Starts a load: this instance's `share` of it. Clients draw streams of requests from `seed` on, at most one more on
    /// every worker than it has clients.
    pub fn load_with(&self, traffic: Traffic, share: Share, seed: u64) {
        each!(&self.0, r => r.drive(traffic, share, seed))
    }

    /// Changes of the load to come, ascending by time; forgotten at the next [`Instance::halt`].
    pub fn script(&self, scenes: &[Scene<W>]) {
        each!(&self.0, r => r.script(scenes))
    }

    /// Turns the workers' profile on or off; measuring carries it from then on.
    ///
    /// # Errors
    /// [`InstanceFault::Worker`] when a worker has ended.
    pub fn profile(&self, profiling: Profiling) -> Result<(), InstanceFault> {
        each!(&self.0, r => r.profile(profiling))
    }

    /// What happened since the last call.
    ///
    /// # Errors
    /// As [`Instance::profile`].
    pub fn measure(&self) -> Result<Measured, InstanceFault> {
        each!(&self.0, r => r.measure())
    }

    /// Which worker owns which sites, counted from the instance's first; nothing where workers own no keys.
    pub fn partitions(&self) -> Vec<(Range<u32>, usize)> {
        each!(&self.0, r => r.partitions())
    }

    /// Makes it these, in any order, while transactions run: each change by the owner whom it concerns, once it has nothing under way.
    /// Says what that took.
    ///
    /// # Errors
    /// [`RepartitionError`]: gaps and overlaps, a worker that would be left without a site, an owner that is never idle. What had been
    /// changed by then stays.
    pub fn repartition(&self, parts: &[(Range<u32>, usize)]) -> Result<Carried, RepartitionError> {
        each!(&self.0, r => r.repartition(parts))
    }

    /// Ends the clients; returns when none of their transactions is in flight.
    ///
    /// # Errors
    /// As [`Instance::profile`].
    pub fn halt(&self) -> Result<(), InstanceFault> {
        each!(&self.0, r => r.halt())
    }

    /// Exchanges the options of the workload (its mix, not its data); to be called while nothing is driven.
    ///
    /// # Errors
    /// As [`Instance::profile`].
    pub fn reconfigure(&self, workload: W) -> Result<(), InstanceFault> {
        each!(&self.0, r => r.reconfigure(workload))
    }

    /// The workload's report on the data of this instance (an encoded [`Workload::Audit`]); to be called when every
    /// instance has been halted. Waits until no transaction is left in doubt.
    pub fn audit(&self) -> Result<Vec<u8>, InstanceFault> {
        each!(&self.0, r => r.audit())
    }

    /// Stops the workers and closes the store: what was committed is then in the data file, whatever the durability.
    pub fn stop(self) -> Result<(), InstanceFault> {
        each!(self.0, r => r.stop())
    }
}
