//! The state of one worker: its tasks, links and calls, the distributed transactions that have
//! their home here, and the local transactions that it runs for other instances. Only the worker's
//! own thread touches this state; other threads reach the worker through its inbox.

use crate::batches::Batches;
use crate::calls::Calls;
use crate::config::InstanceConfig;
use crate::conversations::Conversations;
use crate::counts::Measuring;
use crate::gate::Gate;
use crate::links::{Class, LinkId, Links, Unsent};
use crate::owners::forwarding::Forwarding;
use crate::owners::sampling::{Meetings, Sampling};
use crate::shared::Shared;
use crate::spares::Spares;
use crate::state::{ClientTasks, Distributed, JobQueue, LogWaits};
use base::{Gtid, InstanceId, TableId};
use exec::executor::Unpark;
use exec::{Engine, Executor, Holds, KeyOwners, OccAhead, OccConflict, OccReads, SiteOwner};
use partition::Mode;
use smallvec::SmallVec;
use std::cell::{Ref, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use twophase::{Message, WORKER_BITS, worker_of};
use txn::{Abort, Route, Workload};
use wal::Durability;
use wire::Frame;

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
    pub workload: PresentWorkload<W>,
    pub links: Links,
    pub calls: Calls,
    pub conversations: Conversations,
    pub log_waits: LogWaits,
    pub occ: OccSettings,
    /// The distributed transactions that this worker knows.
    pub distributed: Distributed<Box<E::LocalTxn>>,
    /// Requests that wait for others of their kind; `None` if each starts when it arrives.
    pub batches: Option<Batches>,
    /// Requests of other instances, of outside clients and of other workers' transactions.
    pub jobs: JobQueue<E::LocalTxn>,
    /// Request forwarding to and from the other workers.
    pub forwarding: Forwarding<W::Request>,
    pub spares: Spares<E::LocalTxn>,
    pub measuring: Measuring,
    /// The load inside this worker.
    pub clients: ClientTasks<W>,
    /// Counts and samples for the balancer.
    pub sampling: Sampling,
}

/// The workload with its present options; [`Local::reconfigure`] replaces it.
pub(crate) struct PresentWorkload<W> {
    options: RefCell<Rc<W>>,
    /// Domain of the routing keys by table id; 0 for a table that every instance holds.
    domains: RefCell<Vec<u64>>,
}

impl<W: Workload> PresentWorkload<W> {
    fn new(workload: W) -> PresentWorkload<W> {
        let present =
            PresentWorkload { options: RefCell::new(Rc::new(workload)), domains: RefCell::default() };
        present.learn_domains();
        present
    }

    fn replace(&self, workload: W) {
        *self.options.borrow_mut() = Rc::new(workload);
        self.learn_domains();
    }

    fn learn_domains(&self) {
        let schema = self.options.borrow().schema();
        let top = schema.tables.iter().map(|t| t.id.0 as usize + 1).max().unwrap_or(0);
        let mut domains = vec![0; top];
        schema.tables.iter().for_each(|t| domains[t.id.0 as usize] = t.domain);
        *self.domains.borrow_mut() = domains;
    }

    pub fn borrow(&self) -> Ref<'_, Rc<W>> {
        self.options.borrow()
    }
}

/// The behaviour that the options of `occ` select.
pub(crate) struct OccSettings {
    /// Limits the distributed transactions, where too many of them would slow each other down.
    pub gate: Option<Gate>,
    /// Transactions that write nothing read the rows as of their begin.
    pub reads_past: bool,
    /// The rows that a request names are prefetched while other requests run before it.
    pub prefetches_requests: bool,
}

impl OccSettings {
    fn new<E: Engine>(config: &InstanceConfig) -> OccSettings {
        let options = &config.options;
        // Without waits on conflict all transactions may be in flight at once. Where a vote waits
        // for a device, more transactions in flight hide that latency.
        let waits = options.occ_conflict == OccConflict::Wait && config.durability == Durability::Memory;
        let is_gated = E::HOLDS == Holds::FromValidation && waits;
        OccSettings {
            gate: is_gated.then(Gate::default),
            reads_past: E::SNAPSHOTS && options.occ_reads == OccReads::Snapshot,
            prefetches_requests: options.occ_ahead == OccAhead::Requests,
        }
    }
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
        let is_balanced = shared.config.options.balance.mode != Mode::Off;
        let sampling =
            Sampling::new(is_balanced.then(|| shared.sites()), E::OWNERS && shared.watches_meetings());
        let occ = OccSettings::new::<E>(&shared.config);
        let batches = Batches::of(shared.config.options.schedule);
        let links = Links::new(shared.config.options.most_requests);
        Rc::new(Local {
            shared,
            worker,
            ctx,
            executor,
            workload: PresentWorkload::new(workload),
            links,
            calls: Calls::default(),
            conversations: Conversations::default(),
            log_waits: LogWaits::default(),
            occ,
            distributed: Distributed::default(),
            batches,
            jobs: JobQueue::default(),
            forwarding,
            spares: Spares::default(),
            measuring: Measuring::new(world::now_ns()),
            clients: ClientTasks::default(),
            sampling,
        })
    }

    /// Replaces the options of the workload.
    pub fn reconfigure(&self, workload: W) {
        self.workload.replace(workload);
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
        self.workload.domains.borrow().get(usize::from(table.0)).copied().unwrap_or(0)
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
        match self.owners().and_then(|owners| owners.site_owner(route)) {
            Some(SiteOwner { worker, .. }) if worker != self.worker => StepPlace::Worker(worker),
            _ => StepPlace::Here,
        }
    }

    /// Counts a step of this worker's transactions, for the balancer.
    #[inline]
    pub fn tally(&self, route: Route) {
        if let Some(owner) = self.owners().and_then(|owners| owners.site_owner(route)) {
            self.sampling.tally(owner.site);
        }
    }

    /// Samples how many steps of other workers wait here, for the balancer.
    #[inline]
    pub fn look_at_queue(&self, owners: &E::Owners) {
        if E::OWNERS && self.sampling.is_on() {
            self.sampling.look_at_queue(owners.waiting(&self.ctx) + self.forwarding.waiting());
        }
    }

    /// Samples the sites that a transaction visits, for the placement of partitions.
    #[inline]
    pub fn note_meeting(&self, request: &W::Request) {
        if let Some(meetings) = self.sampling.draw() {
            self.draw_meeting(request, meetings);
        }
    }

    #[cold]
    fn draw_meeting(&self, request: &W::Request, meetings: &RefCell<Meetings>) {
        let mut sites: SmallVec<[u32; 8]> = SmallVec::new();
        let owner = |route| self.owners().and_then(|owners| owners.site_owner(route));
        let mut visit = |route| sites.extend(owner(route).map(|owner| owner.site));
        self.workload.borrow().routes(request, &mut visit);
        Sampling::enter(meetings, sites);
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
        let n = self.distributed.next_number.get();
        self.distributed.next_number.set(n + 1);
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
        if !self.measuring.told_of_bug.replace(true) {
            let (me, workload) = (self.me(), self.workload());
            let (kind, name) = (workload.kind(request), workload.name());
            world::tell(format_args!("atoll: instance {me}: {kind} of {name}: {abort}"));
        }
    }

    /// A local transaction for reuse, or a new one.
    pub fn take_txn(&self) -> Box<E::LocalTxn> {
        self.spares.take_txn().unwrap_or_else(|| Box::new(self.shared.engine.local_txn(&self.ctx)))
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
        if crate::lease::is_over() {
            return Err(Unsent::Gone);
        }
        probe::within(probe::Component::Communication, || {
            let mut buffer = self.spares.frame.borrow_mut();
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
