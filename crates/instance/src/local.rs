//! The state of one worker: its tasks, links and calls, the distributed transactions that have
//! their home here, and the local transactions that it runs for other instances. Only the worker's
//! own thread touches this state; other threads reach the worker through its inbox.

use crate::calls::Calls;
use crate::clients::Mix;
use crate::counts::Counts;
use crate::gate::Gate;
use crate::links::{Class, LinkId, Links, Unsent};
use crate::owners::forwarding::Forwarding;
use crate::owners::sampling::Sampling;
use crate::shared::Shared;
use crate::source::Source;
use crate::state::{ByGtid, Home, Job, PendingAck, Session};
use base::{Gtid, InstanceId, Lsn, TableId};
use exec::executor::Unpark;
use exec::{Engine, Executor, Holds, OccAhead, OccConflict, OccReads, SiteOwner};
use probe::Round;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use twophase::{Message, WORKER_BITS, worker_of};
use txn::{Abort, Route, Workload};
use wal::{Durability, FlushBy};
use wire::{Batch, Frame};

/// The largest number of workers of an instance.
pub const MAX_WORKERS: usize = 1 << WORKER_BITS;

/// How long an answer waits before it checks again whether its link has room, in ns.
const FULL_NS: u64 = 1_000_000;

/// Where a step runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StepPlace {
    /// On this worker.
    Here,
    /// On another worker of this instance.
    Worker(usize),
    Instance(InstanceId),
}

/// Where all steps of a request run, as far as its arguments tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keys {
    Here,
    /// On this other worker of the instance.
    At(usize),
    /// On several workers, or on other instances.
    Spread,
}

/// The state of one worker. No borrow of a `RefCell` is held over an await.
pub(crate) struct Local<W: Workload, E: Engine> {
    pub shared: Arc<Shared<W, E>>,
    /// This worker's number within the instance.
    pub worker: usize,
    /// The engine's worker context.
    pub ctx: E::WorkerContext,
    /// The tasks and timers of this worker.
    pub executor: Executor,
    /// Replaced by [`Local::reconfigure`].
    pub workload: RefCell<Rc<W>>,
    /// Domain of the routing keys by table id; 0 for a table that every instance holds.
    domains: RefCell<Vec<u64>>,
    pub links: Links,
    pub calls: Calls,
    /// Tasks that wait for the log.
    in_log: Cell<usize>,
    /// A task has begun to wait for the log since its last flush was requested.
    unflushed: Cell<bool>,
    /// Limits the distributed transactions, where too many of them would slow each other down.
    pub gate: Option<Gate>,
    /// Transactions that write nothing read the rows as of their begin.
    pub reads_past: bool,
    /// The rows that a request names are prefetched while other requests run before it.
    pub prefetches_requests: bool,
    /// Coordinators of the distributed transactions that have their home at this worker.
    pub homes: RefCell<ByGtid<Home>>,
    /// Participants at this worker.
    pub sessions: RefCell<ByGtid<Session<E::LocalTxn>>>,
    /// Requests that wait for a task, oldest first.
    pub jobs: RefCell<VecDeque<Job<E::LocalTxn>>>,
    /// Tasks that wait for jobs.
    pub idle: RefCell<Vec<Waker>>,
    /// A task has been woken or spawned for the first job and has not taken it yet.
    pub summoned: Cell<bool>,
    /// Request forwarding to and from the other workers.
    pub forwarding: Forwarding<W::Request>,
    /// Local transactions for reuse.
    spare_txns: RefCell<Vec<E::LocalTxn>>,
    /// Batches for reuse.
    batches: RefCell<Vec<Batch>>,
    /// Buffers for reuse.
    buffers: RefCell<Vec<Vec<u8>>>,
    /// Commits that are acknowledged once they are durable, oldest first.
    pub acks: RefCell<VecDeque<PendingAck>>,
    /// Counters of this window.
    pub counts: RefCell<Counts>,
    /// The workload's own counts of its requests, in this window.
    pub observed: RefCell<Vec<(&'static str, u64)>>,
    /// Set by `Halt`, cleared by `Drive`: clients end at their next request.
    pub halting: Cell<bool>,
    /// Tasks of the load that have not ended.
    pub clients: Cell<usize>,
    /// The workload's present options.
    pub mix: Cell<Mix>,
    /// Of an open loop.
    pub source: RefCell<Option<Source<W>>>,
    /// Counts and samples for the balancer.
    pub sampling: Sampling,
    /// The number of the next transaction, before the worker's bits are added.
    next_number: Cell<u64>,
    /// A buffer in which frames are encoded.
    frame: RefCell<Vec<u8>>,
    /// The message that a procedure issues steps after its last ones was printed.
    told_of_bug: Cell<bool>,
}

impl<W: Workload, E: Engine> Local<W, E> {
    pub fn new(
        shared: Arc<Shared<W, E>>,
        worker: usize,
        unpark: Unpark,
        executor: Executor,
        workload: W,
    ) -> Rc<Self> {
        let ctx = shared.engine.worker_context(worker, unpark);
        let forwarding =
            shared.forward_rings.as_ref().map_or_else(Forwarding::none, |rings| rings.take(worker));
        let sampling = Sampling::new(&shared);
        // Without waits on conflict all transactions may be in flight at once. Where a vote waits
        // for a device, more transactions in flight hide that latency.
        let options = &shared.config.options;
        let waits =
            options.occ_conflict == OccConflict::Wait && shared.config.durability == Durability::Memory;
        let reads_past = E::SNAPSHOTS && options.occ_reads == OccReads::Snapshot;
        let prefetches_requests = E::PREFETCHES && options.occ_ahead == OccAhead::Requests;
        let most_requests = options.most_requests;
        let is_gated = E::HOLDS == Holds::FromValidation && waits;
        let local = Rc::new(Local {
            shared,
            ctx,
            worker,
            executor,
            workload: RefCell::new(Rc::new(workload)),
            domains: RefCell::default(),
            links: Links::new(most_requests),
            calls: Calls::default(),
            in_log: Cell::new(0),
            unflushed: Cell::new(false),
            gate: is_gated.then(Gate::default),
            reads_past,
            prefetches_requests,
            homes: RefCell::default(),
            sessions: RefCell::default(),
            jobs: RefCell::default(),
            idle: RefCell::default(),
            summoned: Cell::new(false),
            forwarding,
            spare_txns: RefCell::default(),
            batches: RefCell::default(),
            buffers: RefCell::default(),
            acks: RefCell::default(),
            counts: RefCell::new(Counts::new(world::now_ns())),
            observed: RefCell::default(),
            halting: Cell::new(false),
            clients: Cell::new(0),
            mix: Cell::default(),
            source: RefCell::new(None),
            sampling,
            next_number: Cell::new(1),
            frame: RefCell::default(),
            told_of_bug: Cell::new(false),
        });
        local.learn_domains();
        local
    }

    /// Replaces the options of the workload.
    pub fn reconfigure(&self, workload: W) {
        *self.workload.borrow_mut() = Rc::new(workload);
        self.learn_domains();
    }

    fn learn_domains(&self) {
        let schema = self.workload.borrow().schema();
        let top = schema.tables.iter().map(|t| t.id.0 as usize + 1).max().unwrap_or(0);
        let mut domains = vec![0; top];
        schema.tables.iter().for_each(|t| domains[t.id.0 as usize] = t.domain);
        *self.domains.borrow_mut() = domains;
    }

    pub fn workload(&self) -> Rc<W> {
        Rc::clone(&self.workload.borrow())
    }

    pub fn me(&self) -> InstanceId {
        self.shared.config.id
    }

    /// The routing keys of a table are below this; 0 if every instance holds the table, or none
    /// does.
    pub fn domain(&self, table: TableId) -> u64 {
        self.domains.borrow().get(usize::from(table.0)).copied().unwrap_or(0)
    }

    /// The instance that owns the row at this route. A replicated table is owned by every instance.
    pub fn owner(&self, route: Route) -> InstanceId {
        let domain = self.domain(route.table);
        if domain == 0 {
            return self.me();
        }
        let placement = &self.shared.config.placement;
        placement.owner(placement.site(route.key, domain))
    }

    /// Whether there is only one instance.
    pub fn is_alone(&self) -> bool {
        self.shared.config.placement.instances() == 1
    }

    /// Where the steps for this route run.
    #[inline]
    pub fn place(&self, route: Route) -> StepPlace {
        if !self.is_alone() {
            let owner = self.owner(route);
            if owner != self.me() {
                return StepPlace::Instance(owner);
            }
        }
        match self.shared.engine.site_owner(route) {
            Some(SiteOwner { worker, .. }) if E::OWNERS && worker != self.worker => StepPlace::Worker(worker),
            _ => StepPlace::Here,
        }
    }

    /// Whether this worker runs every step.
    #[inline]
    pub fn is_all_here(&self) -> bool {
        self.is_alone() && (!E::OWNERS || self.shared.config.workers() == 1)
    }

    /// Where the keys of a request live, as far as its arguments tell.
    pub fn keys_of(&self, request: &W::Request) -> Keys {
        if self.is_all_here() {
            return Keys::Here;
        }
        let mut keys = None;
        self.workload.borrow().routes(request, &mut |route| {
            // A replicated table has a copy everywhere.
            if self.domain(route.table) == 0 {
                return;
            }
            let its = match self.place(route) {
                StepPlace::Here => Keys::Here,
                StepPlace::Worker(worker) => Keys::At(worker),
                StepPlace::Instance(_) => Keys::Spread,
            };
            keys = Some(if keys.is_none_or(|keys| keys == its) { its } else { Keys::Spread });
        });
        keys.unwrap_or(Keys::Here)
    }

    /// A new transaction number, unique over instances, lives and workers.
    pub fn new_gtid(&self) -> Gtid {
        let n = self.next_number.get();
        self.next_number.set(n + 1);
        Gtid { home: self.me(), life: self.shared.life, number: n << WORKER_BITS | self.worker as u64 }
    }

    /// The worker of this instance that is responsible for a transaction, at whichever instance its
    /// home is.
    pub fn worker_of(&self, gtid: Gtid) -> usize {
        worker_of(gtid, self.shared.config.workers())
    }

    /// Reports, once, that the procedure of a request breaks a rule.
    #[cold]
    pub fn tell_of_bug(&self, request: &W::Request, abort: Abort) {
        if !self.told_of_bug.replace(true) {
            let (me, workload) = (self.me(), self.workload());
            let (kind, name) = (workload.kind(request), workload.name());
            world::tell(format_args!("atoll: instance {me}: {kind} of {name}: {abort}"));
        }
    }

    pub fn take_txn(&self) -> E::LocalTxn {
        self.spare_txns.borrow_mut().pop().unwrap_or_else(|| self.shared.engine.local_txn(&self.ctx))
    }

    pub fn give_txn(&self, txn: E::LocalTxn) {
        self.spare_txns.borrow_mut().push(txn);
    }

    pub fn take_batch(&self) -> Batch {
        let mut batch = self.batches.borrow_mut().pop().unwrap_or_default();
        batch.clear();
        batch
    }

    pub fn give_batch(&self, batch: Batch) {
        self.batches.borrow_mut().push(batch);
    }

    /// A copy of `bytes` in a recycled buffer.
    pub fn take_buffer(&self, bytes: &[u8]) -> Vec<u8> {
        let mut buffer = self.buffers.borrow_mut().pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        buffer
    }

    pub fn give_buffer(&self, buffer: Vec<u8>) {
        self.buffers.borrow_mut().push(buffer);
    }

    /// The rows, as one local transaction sees them.
    #[inline]
    pub fn access<'a>(&'a self, txn: &'a mut E::LocalTxn) -> E::RowAccess<'a> {
        self.shared.engine.access(&self.ctx, &self.executor, txn)
    }

    /// # Errors
    /// [`Unsent`]; for a message of the commit protocol only when the link has ended, or its peer
    /// has not read for very long.
    pub fn send(&self, link: LinkId, frame: &Frame<'_>) -> Result<(), Unsent> {
        probe::within(probe::Component::Communication, || {
            let mut buffer = self.frame.borrow_mut();
            frame.encode(&mut buffer);
            let class = if let Frame::TwoPhase(_) = frame { Class::Protocol } else { Class::Other };
            self.links.send(link, &buffer, class)
        })
    }

    /// Sends an answer with `payload` bytes. The task waits while the link has no room. The answer
    /// is lost only if the link has ended.
    pub async fn answer(&self, link: LinkId, payload: usize, frame: &Frame<'_>) {
        while self.links.must_wait(link, payload) {
            Box::pin(self.sleep(FULL_NS)).await;
        }
        let sent = self.send(link, frame);
        debug_assert_ne!(sent, Err(Unsent::TooLong), "the payload is measured before the commit");
    }

    /// Sends a message of the commit protocol on this worker's own link. A missing link is no
    /// error: the machine that needs the message sends it again at a later tick.
    pub fn tell(&self, to: InstanceId, message: Message) {
        if let Some(link) = self.links.to(to) {
            let _ = self.send(link, &Frame::TwoPhase(message));
        }
    }

    /// Waits until the log up to `lsn` is as safe as the durability mode promises.
    /// [`Local::flush_log`] causes the flush. The future must be awaited to its end, since it
    /// counts the waiting tasks.
    pub async fn durable(&self, lsn: Lsn) -> Result<(), Abort> {
        let engine = &self.shared.engine;
        if let Some(known) = engine.durable_now(lsn) {
            return known;
        }
        let durable = engine.durable(&self.ctx, lsn, self.enter_log()).await;
        self.in_log.set(self.in_log.get() - 1);
        durable
    }

    /// Waits until the device has the log up to `lsn`, in asynchronous mode too: another instance
    /// is about to rely on it. A power cut leaves each instance a different end of its log, so
    /// anything that one instance has told another must be on the device.
    pub async fn stable(&self, lsn: Lsn) -> Result<(), Abort> {
        if self.spares_device() {
            return self.durable(lsn).await;
        }
        let engine = &self.shared.engine;
        let stable = engine.stable(&self.ctx, lsn, self.enter_log()).await;
        self.in_log.set(self.in_log.get() - 1);
        stable
    }

    /// Whether the device has the log up to `lsn`, as far as [`Local::stable`] would wait for it.
    pub fn is_stable(&self, lsn: Lsn) -> bool {
        let engine = &self.shared.engine;
        match self.spares_device() {
            true => engine.durable_now(lsn).is_some_and(|known| known.is_ok()),
            false => engine.is_stable(lsn),
        }
    }

    /// Asynchronous mode over data that does not survive a power cut anyway.
    fn spares_device(&self) -> bool {
        let config = &self.shared.config;
        config.durability == Durability::Async && !config.outlives_power_cuts
    }

    /// A task is about to wait for the log. Returns which thread is to flush it.
    fn enter_log(&self) -> FlushBy {
        self.in_log.set(self.in_log.get() + 1);
        self.unflushed.set(true);
        let others = self.executor.tasks().saturating_sub(self.in_log.get());
        self.shared.engine.flush_by(others)
    }

    /// Has the log flushed for the tasks that wait for it. The worker flushes on its own thread
    /// when two conditions hold: all its tasks wait for the log, so none could run meanwhile; and
    /// no link and no other worker can bring it new work.
    pub fn flush_log(&self) {
        if !self.unflushed.replace(false) {
            return;
        }
        let unknown = self.links.is_empty() && (!E::OWNERS || self.is_all_here());
        if self.in_log.get() == self.executor.tasks() && unknown {
            probe::round(Round::Worked);
            self.shared.engine.flush_log_here();
            probe::round(Round::Idle);
        } else {
            self.shared.engine.flush_log();
        }
    }

    /// Waits `ns` nanoseconds while other tasks run.
    pub async fn sleep(&self, ns: u64) {
        let at = world::now_ns() + ns;
        let mut armed = false;
        std::future::poll_fn(|cx| {
            if world::now_ns() >= at {
                return Poll::Ready(());
            }
            if !std::mem::replace(&mut armed, true) {
                self.executor.timer(at, cx.waker().clone());
            }
            probe::parks(probe::Wait::Retry, Poll::Pending)
        })
        .await;
    }
}
