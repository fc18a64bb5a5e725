//! One island: a storage engine with its own log, its workers and its inbox.
//!
//! A request enters from a client inside a worker ([`Instance::drive`]) or over a channel
//! ([`wire::Frame::Submit`]). Its procedure runs on one worker; its steps run there or travel to
//! the instances that own their rows. Steps of transactions that have their home elsewhere enter as
//! [`wire::Frame::Steps`]. The state machines of `twophase` decide the commit protocol; this room
//! feeds them events and carries out their effects.
//!
//! # Access rules
//!
//! Each worker is one thread, and owns its tasks, links, coordinators and sessions. Workers share
//! the engine, and reach each other only through inboxes and rings. A transaction belongs to the
//! same worker of each instance for its whole life, over broken links and restarts, because its
//! number determines the worker.
//!
//! This room knows no workload and no other process: `deploy` decides where instances run.
//!
//! - [`config`]: the settings of an instance at its start.
//! - `worker`: the loop. `home`: procedures and commit. `gate`: limits distributed transactions.
//!   `participant`: local parts of transactions that have their home elsewhere.
//! - `groups`: the steps of a phase by owner. `spread`: steps over many sites.
//! - `links`, `calls`, `connector`, `roles`: messages, requests under way, how links are opened,
//!   and which messages a peer may send.
//! - `clients`: requests from inside the workers, in closed and open loops; `source`: the requests
//!   of an open loop.
//! - `conversations`: transactions of which the client decides the next step.
//! - `local`: the state of one worker. `state`: the distributed transactions in it. `durable`:
//!   waits for the log. `spares`: values for reuse.
//! - `orders`: orders to an instance and to its threads. `island`: an instance with any engine.
//! - `load`: loading and auditing.
//! - `owners`: the designs in which each worker owns keys: request forwarding, steps at other
//!   workers, and the balancer.
//! - `seams`: the points at which a test build plants a bug.
//! - [`offline`]: examines instances that do not run, without changing them.

#![forbid(unsafe_code)]
#![allow(async_fn_in_trait)]

mod batches;
mod calls;
mod clients;
pub mod config;
mod connector;
mod conversations;
mod counts;
mod durable;
mod gate;
mod groups;
mod home;
mod island;
pub mod lease;
mod links;
mod load;
mod local;
pub mod offline;
mod opening;
mod orders;
mod owners;
mod participant;
mod phase;
mod plan;
#[cfg(feature = "planted")]
pub mod planted;
mod roles;
mod running;
#[cfg(not(feature = "planted"))]
mod seams;
mod shared;
mod source;
mod spares;
mod spread;
mod state;
mod worker;

#[cfg(feature = "planted")]
use planted as seams;

pub use config::{Backing, InstanceConfig, InstanceFault, RelayConfig};
pub use exec::{Balance, Carried};
pub use local::MAX_WORKERS;
pub use orders::TrafficOrder;
pub use owners::balance::RepartitionError;
pub use partition::Mode;
pub use running::Recovery;

use base::InstanceId;
use channel::Address;
use exec::{
    Conventional, EngineKind, Load, Maintenance, MemoryEngine, PageEngine, Partitioned, Prefetch, Serial,
};
use island::Island;
use probe::{Measured, Profiling};
use running::Running;
use std::ops::Range;
use std::sync::Arc;
use traffic::{LoadChange, Share, Traffic};
use txn::Workload;

/// A running instance. Its methods are called by one thread at a time, which is none of the
/// instance's own.
///
/// Calls on it are rare, and go through a table: so the types of the engines end here, and a crate
/// for each engine can be compiled beside the others ([`Instance::with_engine`]).
pub struct Instance<W: Workload>(Box<dyn Island<W> + Send + Sync>);

impl<W: Workload> Instance<W> {
    /// Opens (or creates) the store in the configured directory, which replays its log, and starts
    /// the workers.
    ///
    /// # Errors
    /// When the directory is in use or damaged, the address is taken, or the system has no threads
    /// or file descriptors left.
    pub fn start(workload: W, config: InstanceConfig) -> Result<Self, InstanceFault> {
        Instance::start_in(workload, config, world::real())
    }

    /// As [`Instance::start`], with its directory in `files`.
    ///
    /// # Errors
    /// As [`Instance::start`].
    pub fn start_in(
        workload: W,
        config: InstanceConfig,
        files: Arc<dyn world::Files>,
    ) -> Result<Self, InstanceFault> {
        match config.design.engine() {
            EngineKind::Conventional => {
                Instance::with_engine::<PageEngine<Conventional>>(workload, config, files)
            }
            EngineKind::Partitioned => {
                Instance::with_engine::<PageEngine<Partitioned>>(workload, config, files)
            }
            EngineKind::Serial => Instance::with_engine::<PageEngine<Serial>>(workload, config, files),
            EngineKind::Memory => Instance::with_engine::<MemoryEngine>(workload, config, files),
        }
    }

    /// As [`Instance::start_in`], on this engine, which is that of the configured design. All code
    /// of the instance is compiled for it in the calling crate.
    ///
    /// # Errors
    /// As [`Instance::start`].
    pub fn with_engine<E: Load + Maintenance + Prefetch>(
        workload: W,
        config: InstanceConfig,
        files: Arc<dyn world::Files>,
    ) -> Result<Self, InstanceFault> {
        Ok(Instance(Box::new(Running::<W, E>::start(workload, config, files)?)))
    }

    /// The address for peers and clients (with the real port, if port 0 was requested).
    pub fn address(&self) -> Option<Address> {
        self.0.address()
    }

    /// The same for those on other machines.
    pub fn far_address(&self) -> Option<Address> {
        self.0.far_address()
    }

    /// The findings of restart.
    pub fn recovery(&self) -> &Recovery {
        self.0.recovery()
    }

    /// A warning with a remedy, if the system granted less than was requested. The instance runs.
    pub fn shortage(&self) -> Option<String> {
        self.0.shortage()
    }

    /// Why nothing commits here any more, or why the load inside has ended; `None` while there is
    /// no fault.
    pub fn fault(&self) -> Option<String> {
        self.0.fault()
    }

    /// Whether the instance's memory comes from its NUMA node, or why not.
    pub fn binding(&self) -> &topology::Binding {
        self.0.binding()
    }

    /// Sets the addresses of the other instances. Links are opened now, and again whenever they
    /// break. Returns when all are open, or after 2 s: a peer that is down gets its links when it
    /// is back.
    pub fn connect(&self, peers: &[(InstanceId, Address)]) {
        self.0.connect(peers)
    }

    /// Loads the workload's data of this instance's sites. `progress` gets the pieces done and the
    /// pieces in all.
    pub fn load(&self, progress: &dyn Fn(u64, u64)) -> Result<(), InstanceFault> {
        self.0.load(progress)
    }

    /// Carries out an order about the load. [`Instance::load_with`], [`Instance::script`],
    /// [`Instance::profile`] and [`Instance::reconfigure`] are the four orders as methods.
    ///
    /// # Errors
    /// [`InstanceFault::Worker`] when a worker has ended. The start of a load and its changes have
    /// none.
    pub fn obey(&self, order: &TrafficOrder<W>) -> Result<(), InstanceFault> {
        self.0.obey(order)
    }

    /// For an order that has no error.
    fn obey_at_once(&self, order: &TrafficOrder<W>) {
        self.obey(order).expect("it is not waited for");
    }

    /// Starts a closed loop of `clients_per_worker` clients on every worker.
    pub fn drive(&self, clients_per_worker: usize, seed: u64) {
        self.load_with(Traffic::closed(clients_per_worker as u32), Share::whole(1), seed);
    }

    /// Starts this instance's `share` of a load. Clients draw streams of requests, numbered from
    /// `seed` on; each worker uses at most one stream more than it has clients.
    pub fn load_with(&self, traffic: Traffic, share: Share, seed: u64) {
        self.obey_at_once(&TrafficOrder::Drive { traffic, share, seed });
    }

    /// Sets changes of the load, ascending by time ([`world::now_ns`]). The streams of other
    /// requests start at the seed beside them. [`Instance::halt`] drops the changes that are still
    /// to come.
    pub fn script(&self, changes: &[LoadChange<(W, u64)>]) {
        self.obey_at_once(&TrafficOrder::Change(changes.to_vec()));
    }

    /// Turns the workers' profile on or off. [`Instance::measure`] includes it from then on.
    ///
    /// # Errors
    /// [`InstanceFault::Worker`] when a worker has ended.
    pub fn profile(&self, profiling: Profiling) -> Result<(), InstanceFault> {
        self.obey(&TrafficOrder::Profile(profiling))
    }

    /// The measurements since the last call.
    ///
    /// # Errors
    /// As [`Instance::profile`].
    pub fn measure(&self) -> Result<Measured, InstanceFault> {
        self.0.measure()
    }

    /// Which worker owns which sites, counted from the instance's first site. Empty where workers
    /// own no keys.
    pub fn partitions(&self) -> Vec<(Range<u32>, usize)> {
        self.0.partitions()
    }

    /// Changes the owners of keys to `parts`, in any order, while transactions run. Each change is
    /// made by the owner that it concerns, once that owner has nothing under way. Returns the cost
    /// of the changes.
    ///
    /// # Errors
    /// [`RepartitionError`]: gaps and overlaps, a worker that would be left without a site, an
    /// owner that is never idle. Changes made before the error stay.
    pub fn repartition(&self, parts: &[(Range<u32>, usize)]) -> Result<Carried, RepartitionError> {
        self.0.repartition(parts)
    }

    /// Ends the clients. Returns when none of their transactions is in flight.
    ///
    /// # Errors
    /// As [`Instance::profile`].
    pub fn halt(&self) -> Result<(), InstanceFault> {
        self.0.halt()
    }

    /// Replaces the options of the workload (its mix, not its data). To be called while no load
    /// runs.
    ///
    /// # Errors
    /// As [`Instance::profile`].
    pub fn reconfigure(&self, workload: W) -> Result<(), InstanceFault> {
        self.obey(&TrafficOrder::Reconfigure(workload))
    }

    /// The workload's report on the data of this instance (an encoded [`Workload::Audit`]). To be
    /// called when every instance has been halted. Waits until no transaction is in doubt.
    pub fn audit(&self) -> Result<Vec<u8>, InstanceFault> {
        self.0.audit()
    }

    /// Stops the workers and closes the store. All commits are then in the data file, under any
    /// durability.
    pub fn stop(self) -> Result<(), InstanceFault> {
        self.0.stop()
    }
}
