//! State shared by the threads of an instance: the engine, and one inbox per worker.

use crate::config::InstanceConfig;
use crate::links::Peer;
use crate::opening::{Lives, Opening};
use crate::owners::forwarding::ForwardRings;
use crate::owners::sampling::Loads;
use crate::plan::LoadPlan;
use base::InstanceId;
use channel::{Address, Link, Unparker};
use exec::{Engine, EngineFault, RepartitionRequest};
use partition::Mode;
use probe::{Measured, Profiling};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock};
use traffic::{LoadChange, Share, Traffic};
use twophase::Message;
use txn::Workload;

/// The state shared by the threads of an instance.
pub(crate) struct Shared<W: Workload, E: Engine> {
    pub config: InstanceConfig,
    pub engine: Arc<E>,
    /// The data that workers have filled in during a bulk load. The last worker to finish assembles
    /// it.
    pub filled: Mutex<Vec<E::Filled>>,
    /// Counted up at every restart; part of the names of distributed transactions.
    pub life: u32,
    /// Admission of transactions after a restart.
    pub opening: Opening,
    /// The last known life of each peer.
    pub lives: Lives,
    pub inboxes: Vec<Inbox<W>>,
    /// Between workers that own keys, to forward requests of which another worker owns all keys.
    /// `None` where workers own no keys.
    pub forward_rings: Option<ForwardRings<W::Request>>,
    /// Wakes the connector thread when a link to a peer has broken.
    pub lost: Mutex<Option<Sender<ConnectorOrder>>>,
}

/// An order to a worker from another thread of the instance.
pub(crate) enum WorkerOrder<W> {
    Link(Link, Peer),
    /// Start this load; clients draw streams of requests from `seed` on.
    Drive {
        traffic: Traffic,
        share: Share,
        seed: u64,
    },
    /// Changes of the load, ascending by time.
    Script(Vec<LoadChange<(W, u64)>>),
    /// End the clients; reply when no transaction of theirs is in flight.
    Halt(Sender<()>),
    /// Reply when no local part of a distributed transaction is left here.
    Settle(Sender<()>),
    /// Turn the profile on or off.
    Profile(Profiling, Sender<()>),
    Measure(Sender<Measured>),
    Reconfigure(W, Sender<()>),
    Load(Arc<LoadPlan>, Sender<Result<(), String>>),
    Audit(Sender<Result<Vec<u8>, String>>),
    /// Repartition request: change the owners of keys, as far as this worker is concerned.
    Repartition(RepartitionRequest),
    /// Reply with the counts for the balancer.
    Loads(Sender<Loads>),
    /// Write a checkpoint: on the worker, because it may own the pages.
    Checkpoint(Sender<Result<(), EngineFault>>),
    /// A message for a transaction of this worker that another worker received.
    Message {
        from: InstanceId,
        message: Message,
    },
    /// A peer runs in this life: give up the state that depends on its earlier lives, then reply.
    Reborn {
        peer: InstanceId,
        life: u32,
        done: Sender<()>,
    },
    Stop,
}

/// An order to the connector thread.
pub(crate) enum ConnectorOrder {
    /// The present addresses of the peers (sent again after a restart of one of them). Answered
    /// when every worker has its link to each peer.
    Peers(Vec<(InstanceId, Address)>, Sender<()>),
    /// A worker's link to a peer has broken.
    Lost(usize, InstanceId),
    Stop,
}

/// Orders for one worker: any thread puts, the worker takes. The flag is set after the order is in,
/// and read before the lock is taken, so an empty inbox costs one load.
pub(crate) struct Inbox<W> {
    orders: Mutex<Vec<WorkerOrder<W>>>,
    filled: AtomicBool,
    unparker: OnceLock<Unparker>,
}

impl<W> Default for Inbox<W> {
    fn default() -> Self {
        Inbox { orders: Mutex::default(), filled: AtomicBool::new(false), unparker: OnceLock::new() }
    }
}

impl<W> Inbox<W> {
    /// Adds an order, and wakes the worker.
    pub fn put(&self, order: WorkerOrder<W>) {
        self.orders.lock().expect("no holder of this lock panics").push(order);
        self.filled.store(true, Ordering::Release);
        self.wake();
    }

    /// Wakes the worker if it sleeps. A worker that has not started checks its inbox before it
    /// first sleeps.
    #[inline]
    pub fn wake(&self) {
        if let Some(unparker) = self.unparker.get() {
            unparker.unpark();
        }
    }

    /// Called once by the worker, before its first check.
    pub fn owned_by(&self, unparker: Unparker) {
        assert!(self.unparker.set(unparker).is_ok(), "an inbox has one owner");
    }

    /// Whether there is no order; costs one load.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.filled.load(Ordering::Acquire)
    }

    /// Takes all orders. The flag is cleared under the lock, so a later order sets it again.
    pub fn take(&self) -> Vec<WorkerOrder<W>> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut orders = self.orders.lock().expect("no holder of this lock panics");
        self.filled.store(false, Ordering::Relaxed);
        std::mem::take(&mut orders)
    }
}

impl<W: Workload, E: Engine> Shared<W, E> {
    /// The number of sites of this instance.
    pub fn sites(&self) -> usize {
        self.config.placement.sites_of(self.config.id).len()
    }

    /// Whether workers sample which sites meet in transactions: there is a balancer, and the
    /// workers lie on more than one island.
    pub fn watches_meetings(&self) -> bool {
        let islands = &self.config.worker_islands;
        self.config.options.balance.mode != Mode::Off && islands.iter().any(|island| *island != islands[0])
    }

    /// Sends an order to every worker.
    pub fn order_all(&self, order: impl Fn() -> WorkerOrder<W>) {
        self.inboxes.iter().for_each(|inbox| inbox.put(order()));
    }
}
