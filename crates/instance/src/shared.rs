//! What an instance's threads share: the engine, and an inbox per worker.

use crate::balance::Loads;
use crate::config::InstanceConfig;
use crate::handover::Crossings;
use crate::links::Peer;
use crate::opening::{Lives, Opening};
use crate::plan::LoadPlan;
use base::InstanceId;
use channel::{Address, Link, Unparker};
use exec::{Engine, EngineFault, Errand};
use partition::Mode;
use probe::{Measured, Profiling};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock};
use traffic::{Rate, Share, Traffic};
use twophase::Message;
use txn::Workload;

pub(crate) struct Shared<W: Workload, E: Engine> {
    pub config: InstanceConfig,
    pub engine: Arc<E>,
    /// What the workers that are done with a load have filled in, to be put together by the last.
    pub filled: Mutex<Vec<E::Filled>>,
    /// Counted up at every restart; part of the names of distributed transactions.
    pub life: u32,
    pub opening: Opening,
    pub lives: Lives,
    pub inboxes: Vec<Inbox<W>>,
    /// Between workers that own keys, for requests that are one other's as a whole.
    pub crossings: Crossings<W::Request>,
    /// Wakes the connector thread when a link to a peer has broken.
    pub lost: Mutex<Option<Sender<Wanted>>>,
}

/// A change of the load.
#[derive(Clone)]
pub struct Scene<W> {
    /// When, on the clock of [`world::now_ns`]; at once if that is over.
    pub at_ns: u64,
    /// Another rate, of the whole deployment, for an open loop.
    pub rate: Option<Rate>,
    /// Other requests over the same data, whose streams are drawn from this seed on.
    pub requests: Option<(W, u64)>,
}

/// What a worker is told by other threads of the instance.
pub(crate) enum Order<W> {
    Link(Link, Peer),
    /// Start this load; clients draw streams of requests from `seed` on.
    Drive {
        traffic: Traffic,
        share: Share,
        seed: u64,
    },
    /// Changes of the load, ascending by time.
    Script(Vec<Scene<W>>),
    /// End the clients; tell when nothing of theirs is in flight.
    Halt(Sender<()>),
    /// Tell when no part of a distributed transaction is left here.
    Settle(Sender<()>),
    /// Turn the profile on or off.
    Profile(Profiling, Sender<()>),
    Measure(Sender<Measured>),
    Reconfigure(W, Sender<()>),
    Load(Arc<LoadPlan>, Sender<Result<(), String>>),
    Audit(Sender<Result<Vec<u8>, String>>),
    /// Change who owns which keys, as far as this worker is concerned.
    Errand(Errand),
    /// Tell what was counted for whoever balances.
    Loads(Sender<Loads>),
    /// Write a checkpoint: on the worker, because it may own the pages.
    Checkpoint(Sender<Result<(), EngineFault>>),
    /// A message for a transaction that this worker looks after, received by another.
    Message {
        from: InstanceId,
        message: Message,
    },
    /// A peer is there in this life: give up what rests on its earlier ones, and say so.
    Reborn {
        peer: InstanceId,
        life: u32,
        done: Sender<()>,
    },
    Stop,
}

/// What the connector is told.
pub(crate) enum Wanted {
    /// Where the peers are now (again after a restart of one of them); answered when every worker has its link to each of them.
    Peers(Vec<(InstanceId, Address)>, Sender<()>),
    /// A worker's link to a peer has broken.
    Lost(usize, InstanceId),
    Stop,
}

/// Orders for one worker: any thread puts, the worker takes. The flag is set after the order is in and read before
/// the lock is taken, so that an empty inbox costs one load.
pub(crate) struct Inbox<W> {
    orders: Mutex<Vec<Order<W>>>,
    filled: AtomicBool,
    unparker: OnceLock<Unparker>,
}

impl<W> Default for Inbox<W> {
    fn default() -> Self {
        Inbox { orders: Mutex::default(), filled: AtomicBool::new(false), unparker: OnceLock::new() }
    }
}

impl<W> Inbox<W> {
    pub fn put(&self, order: Order<W>) {
        self.orders.lock().expect("no holder of this lock panics").push(order);
        self.filled.store(true, Ordering::Release);
        self.wake();
    }

    /// Has the worker look around if it sleeps. One that has not begun looks before it first sleeps.
    #[inline]
    pub fn wake(&self) {
        if let Some(unparker) = self.unparker.get() {
            unparker.unpark();
        }
    }

    /// Called once by the worker, before its first look.
    pub fn owned_by(&self, unparker: Unparker) {
        assert!(self.unparker.set(unparker).is_ok(), "an inbox has one owner");
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.filled.load(Ordering::Acquire)
    }

    pub fn take(&self) -> Vec<Order<W>> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut orders = self.orders.lock().expect("no holder of this lock panics");
        self.filled.store(false, Ordering::Relaxed);
        std::mem::take(&mut orders)
    }
}

impl<W: Workload, E: Engine> Shared<W, E> {
    /// Sites of this instance.
    pub fn sites(&self) -> usize {
        self.config.placement.sites_of(self.config.id).len()
    }

    /// Whether it matters which sites meet in transactions: somebody balances, and some workers are further from each other than others.
    pub fn watches_meetings(&self) -> bool {
        let islands = &self.config.worker_islands;
        self.config.balance.mode != Mode::Off && islands.iter().any(|island| *island != islands[0])
    }

    pub fn order_all(&self, order: impl Fn() -> Order<W>) {
        self.inboxes.iter().for_each(|inbox| inbox.put(order()));
    }
}
