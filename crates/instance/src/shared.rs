//! State shared by the threads of an instance: the engine, and one inbox per worker.

use crate::config::InstanceConfig;
use crate::opening::{Lives, Opening};
use crate::orders::{ConnectorOrder, WorkerOrder};
use crate::owners::forwarding::ForwardRings;
use channel::Unparker;
use exec::Engine;
use partition::Mode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock};
use txn::Workload;

/// The state shared by the threads of an instance.
pub(crate) struct Shared<W: Workload, E: Engine> {
    pub config: InstanceConfig,
    pub engine: Arc<E>,
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
    /// Why the load inside this instance has ended.
    pub load_fault: OnceLock<String>,
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

    /// Whether the load inside this instance ends with a request that found no room: the device is
    /// full. Other requests find room when frames are free again.
    pub fn is_load_over(&self) -> bool {
        self.engine.full().is_some_and(|why| {
            self.load_fault.get_or_init(|| why);
            true
        })
    }

    /// Sends an order to every worker.
    pub fn order_all(&self, order: impl Fn() -> WorkerOrder<W>) {
        self.inboxes.iter().for_each(|inbox| inbox.put(order()));
    }
}
