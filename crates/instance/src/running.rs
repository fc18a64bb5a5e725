//! An instance from its start to its stop, as seen by the thread that owns it.

use crate::config::{Backing, InstanceConfig, InstanceFault};
use crate::connector;
use crate::load::Filled;
use crate::local::MAX_WORKERS;
use crate::opening::{Lives, Opening, closed_ns};
use crate::orders::{ConnectorOrder, TrafficOrder, WorkerOrder};
use crate::owners::balance::{self, BalancerThread, Ledger, MAX_SITES, RepartitionError};
use crate::owners::forwarding::ForwardRings;
use crate::plan::LoadPlan;
use crate::shared::{Inbox, Shared};
use crate::worker::{Inheritance, Worker};
use base::InstanceId;
use channel::lodging::{self, Place};
use channel::{Address, Listener};
use exec::{
    Carried, Engine, EngineCounts, EngineFault, KeyOwners, Load, Maintenance, NoteId, Prefetch, Recovered,
    Setup, SiteRange,
};
use partition::{Mode, Partition, Ranges};
use probe::{Counter, LogCounts, Measured};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;
use topology::Binding;
use twophase::{CommitNote, PrepareNote, worker_of};
use txn::{Schema, TableDef, Workload};
use wal::Durability;

/// How long `connect` waits for the links; a peer that is still down gets its links later.
const CONNECT: Duration = Duration::from_secs(2);
/// The least time that an audit waits until no transaction is in doubt.
const SETTLE: Duration = Duration::from_secs(20);
/// How often a thread that waits for a worker's answer checks that the workers are alive.
const LOOK: Duration = Duration::from_millis(50);

/// The findings of an instance's restart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recovery {
    /// How often this store has been opened, this time included.
    pub life: u32,
    /// Transactions found prepared, of which the outcome has to be asked for.
    pub in_doubt: usize,
    /// Bytes of log replayed.
    pub log_bytes: u64,
}

/// A running instance: its threads and the state that they share.
pub(crate) struct Running<W: Workload, E: Load + Maintenance + Prefetch> {
    shared: Arc<Shared<W, E>>,
    workers: Vec<JoinHandle<()>>,
    /// For callers on this machine; `None` for an instance without an address.
    listener: Option<ListenerThread>,
    /// For callers on other machines.
    far_listener: Option<ListenerThread>,
    /// Orders to the connector thread, and the thread.
    connector: Option<(Sender<ConnectorOrder>, JoinHandle<()>)>,
    /// The stop flag of the cleaner thread, and the thread.
    cleaner: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
    /// `None` where keys are not balanced.
    balancer: Option<BalancerThread>,
    /// The balancer's decisions in this window.
    ledger: Ledger,
    /// The present options; the workers have copies.
    workload: Mutex<W>,
    recovery: Recovery,
    binding: Binding,
    window: Mutex<Window>,
}

/// Counts at the end of the last window, for counters of the process and of the log.
#[derive(Default)]
struct Window {
    engine: EngineCounts,
    cpu_ns: u64,
    involuntary_switches: u64,
}

impl<W: Workload, E: Load + Maintenance + Prefetch> Running<W, E> {
    pub fn start(
        workload: W,
        config: InstanceConfig,
        files: Arc<dyn world::Files>,
    ) -> Result<Self, InstanceFault> {
        let workers = config.workers();
        assert!((1..=MAX_WORKERS).contains(&workers), "between 1 and {MAX_WORKERS} workers");
        let sites = config.placement.sites_of(config.id).len();
        if config.options.balance.mode != Mode::Off && sites > MAX_SITES {
            return Err(InstanceFault::TooManySites { id: config.id, sites, most: MAX_SITES });
        }
        let schema = workload.schema().of_kind(config.options.tables);
        let (engine, recovered, binding) = open::<W, E>(&config, &workload, schema, files)?;
        let recovery = Recovery {
            life: recovered.life,
            in_doubt: recovered.in_doubt.len(),
            log_bytes: recovered.log_bytes,
        };
        let inherited = share_out(&recovered.notes, recovered.in_doubt, workers)?;
        let bind = |at: &Address| Listener::bind_guarded(at, &config.guard).map(Arc::new);
        let listener = config.listen.as_ref().map(bind).transpose()?;
        let far_listener = config.listen_far.as_ref().map(bind).transpose()?;
        let opens_by = world::now_ns() + closed_ns(config.options.distributed_timeout_ns());
        let shared = Arc::new(Shared {
            engine: Arc::new(engine),
            life: recovery.life,
            opening: Opening::new(config.id, recovery.life, config.placement.instances(), opens_by),
            lives: Lives::default(),
            inboxes: (0..workers).map(|_| Inbox::default()).collect(),
            forward_rings: E::OWNERS.then(|| ForwardRings::between(workers)),
            lost: Mutex::new(None),
            load_fault: OnceLock::new(),
            config,
        });
        let connector = start_connector(&shared)?;
        let cleaner = start_cleaner(&shared)?;
        let (workers, started) = start_workers(&shared, &workload, inherited);
        let mut running = Running {
            shared,
            workers,
            listener: None,
            far_listener: None,
            connector: Some(connector),
            cleaner: Some(cleaner),
            balancer: None,
            ledger: Ledger::default(),
            workload: Mutex::new(workload),
            recovery,
            binding,
            window: Mutex::default(),
        };
        if let Err(fault) = running.begin(&started, [listener, far_listener]) {
            let ended = running.end_threads();
            return Err(match (fault, ended) {
                // A panic carries more information than the fact that a worker has ended.
                (InstanceFault::Worker(_), Err(panic)) => panic,
                (fault, _) => fault,
            });
        }
        Ok(running)
    }

    /// Starts the listeners and the balancer once every worker has locked its in-doubt transactions
    /// again.
    fn begin(
        &mut self,
        started: &Receiver<Result<(), InstanceFault>>,
        [listener, far_listener]: [Option<Arc<Listener>>; 2],
    ) -> Result<(), InstanceFault> {
        for _ in &self.shared.inboxes {
            self.one(started)??;
        }
        let start = |listener| start_listener(&self.shared, listener);
        (self.listener, self.far_listener) =
            (listener.map(start).transpose()?, far_listener.map(start).transpose()?);
        self.balancer = BalancerThread::start(&self.shared, &self.ledger).map_err(InstanceFault::Thread)?;
        self.measure().map(drop)
    }

    pub fn address(&self) -> Option<Address> {
        self.listener.as_ref().map(|(listener, ..)| listener.address().clone())
    }

    pub fn far_address(&self) -> Option<Address> {
        self.far_listener.as_ref().map(|(listener, ..)| listener.address().clone())
    }

    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    pub fn shortage(&self) -> Option<String> {
        self.shared.engine.shortage()
    }

    pub fn fault(&self) -> Option<String> {
        self.shared.engine.fault().or_else(|| self.shared.load_fault.get().cloned())
    }

    pub fn binding(&self) -> &Binding {
        &self.binding
    }

    pub fn connect(&self, peers: &[(InstanceId, Address)]) {
        let others = peers.iter().filter(|(id, _)| *id != self.shared.config.id).cloned().collect();
        // The connector ends only with the instance.
        if let Some((wanted, _)) = &self.connector {
            let (done, opened) = mpsc::channel();
            let _ = wanted.send(ConnectorOrder::Peers(others, done));
            let _ = opened.recv_timeout(CONNECT);
        }
    }

    /// Sends an order to every worker; their answers arrive at the returned receiver.
    fn ask<T>(&self, order: impl Fn(Sender<T>) -> WorkerOrder<W>) -> Receiver<T> {
        let (reply, replies) = mpsc::channel();
        self.shared.order_all(|| order(reply.clone()));
        replies
    }

    /// The answers of all workers.
    fn gather<T>(&self, replies: &Receiver<T>) -> Result<Vec<T>, InstanceFault> {
        self.workers.iter().map(|_| self.one(replies)).collect()
    }

    /// The next worker's answer; `None` if it has not arrived within [`LOOK`].
    ///
    /// # Errors
    /// When a worker has ended: its answer would never arrive.
    fn next<T>(&self, replies: &Receiver<T>) -> Result<Option<T>, InstanceFault> {
        match replies.recv_timeout(LOOK) {
            Ok(reply) => Ok(Some(reply)),
            Err(RecvTimeoutError::Timeout) => self.alive().map(|()| None),
            Err(RecvTimeoutError::Disconnected) => Err(self.dead()),
        }
    }

    pub fn load(&self, progress: &dyn Fn(u64, u64)) -> Result<(), InstanceFault> {
        self.shared.opening.wait();
        let sites = self.shared.config.placement.sites_of(self.shared.config.id);
        let workload = self.workload.lock().expect("not poisoned").clone();
        let plan = Arc::new(LoadPlan::new(&workload, sites, self.workers.len()));
        let replies = self.ask(|reply| WorkerOrder::Load(Arc::clone(&plan), reply));
        let mut missing = self.workers.len();
        while missing > 0 {
            if let Some(outcome) = self.next(&replies)? {
                outcome.map_err(InstanceFault::Load)?;
                missing -= 1;
            }
            progress(plan.done.load(Ordering::Relaxed), plan.total());
        }
        if self.shared.config.durability != Durability::Memory {
            let (done, written) = mpsc::channel();
            self.shared.inboxes[0].put(WorkerOrder::Checkpoint(done));
            self.one(&written)??;
        }
        Ok(())
    }

    /// The answer of a single worker.
    fn one<T>(&self, replies: &Receiver<T>) -> Result<T, InstanceFault> {
        loop {
            if let Some(reply) = self.next(replies)? {
                return Ok(reply);
            }
        }
    }

    fn alive(&self) -> Result<(), InstanceFault> {
        if self.workers.iter().any(JoinHandle::is_finished) { Err(self.dead()) } else { Ok(()) }
    }

    fn dead(&self) -> InstanceFault {
        let fault = self.shared.engine.fault();
        InstanceFault::Worker(fault.unwrap_or_else(|| "see its message above".into()))
    }

    /// Carries out an order about the load. A load starts once the instance lets transactions in;
    /// neither its start nor its changes are waited for.
    pub fn obey(&self, order: &TrafficOrder<W>) -> Result<(), InstanceFault> {
        match order {
            TrafficOrder::Drive { .. } => self.shared.opening.wait(),
            TrafficOrder::Reconfigure(workload) => {
                *self.workload.lock().expect("not poisoned") = workload.clone();
            }
            TrafficOrder::Profile(_) | TrafficOrder::Change(_) => {}
        }
        let done = self.ask(|done| WorkerOrder::Traffic(order.clone(), done));
        match order {
            TrafficOrder::Drive { .. } | TrafficOrder::Change(_) => Ok(()),
            TrafficOrder::Profile(_) | TrafficOrder::Reconfigure(_) => self.gather(&done).map(drop),
        }
    }

    pub fn measure(&self) -> Result<Measured, InstanceFault> {
        let mut measured = Measured::default();
        self.gather(&self.ask(WorkerOrder::Measure))?.iter().for_each(|worker| measured.merge(worker));
        let engine = self.shared.engine.counts();
        let usage = world::usage();
        let mut window = self.window.lock().expect("not poisoned");
        let lock_waits = since(&engine.lock_waits, &window.engine.lock_waits);
        let before = std::mem::replace(
            &mut *window,
            Window {
                engine: engine.clone(),
                cpu_ns: usage.cpu_ns,
                involuntary_switches: usage.involuntary_switches,
            },
        );
        measured.rebalances = std::mem::take(&mut *self.ledger.lock().expect("not poisoned"));
        measured.log = LogCounts {
            bytes: engine.log.bytes - before.engine.log.bytes,
            records: engine.log.records - before.engine.log.records,
            flushes: engine.log.flushes - before.engine.log.flushes,
            fsyncs: engine.log.fsyncs - before.engine.log.fsyncs,
        };
        measured.locks = engine.locks.since(&before.engine.locks);
        measured.lock_waits = lock_waits;
        measured.cpu_ns = usage.cpu_ns.saturating_sub(before.cpu_ns);
        measured.involuntary_switches =
            usage.involuntary_switches.saturating_sub(before.involuntary_switches);
        measured.rss_bytes = usage.rss_bytes;
        measured.pages = engine.pages;
        measured.page_reads = engine.page_reads - before.engine.page_reads;
        measured.page_writes = engine.page_writes - before.engine.page_writes;
        if let Some(profile) = &mut measured.profile {
            profile.set(Counter::LogRecords, measured.log.records);
            profile.set(Counter::LogBytes, measured.log.bytes);
            profile.set(Counter::LogFlushes, measured.log.flushes);
            profile.set(Counter::LogSyncs, measured.log.fsyncs);
            profile.set(Counter::MessagesSent, measured.messages);
            profile.set(Counter::MessageBytes, measured.message_bytes);
        }
        Ok(measured)
    }

    pub fn partitions(&self) -> Vec<(Range<u32>, usize)> {
        let ranges = self.shared.engine.owners().map(KeyOwners::ranges);
        let part = |p: Partition| (p.keys.start as u32..p.keys.end as u32, usize::from(p.owner.0));
        ranges.iter().flat_map(Ranges::partitions).map(part).collect()
    }

    pub fn repartition(&self, parts: &[(Range<u32>, usize)]) -> Result<Carried, RepartitionError> {
        balance::repartition(&self.shared, parts)
    }

    pub fn halt(&self) -> Result<(), InstanceFault> {
        self.gather(&self.ask(WorkerOrder::Halt)).map(drop)
    }

    pub fn audit(&self) -> Result<Vec<u8>, InstanceFault> {
        let settled = self.ask(WorkerOrder::Settle);
        let given_up = Duration::from_nanos(self.shared.config.options.distributed_timeout_ns());
        let patience = SETTLE.max(2 * given_up);
        for _ in 0..self.workers.len() {
            settled.recv_timeout(patience).map_err(|_| {
                InstanceFault::Audit(format!(
                    "transactions are still in doubt after {} s",
                    patience.as_secs()
                ))
            })?;
        }
        let (reply, replies) = mpsc::channel();
        self.shared.inboxes[0].put(WorkerOrder::Audit(reply));
        self.one(&replies)?.map_err(InstanceFault::Audit)
    }

    pub fn stop(mut self) -> Result<(), InstanceFault> {
        self.end_threads()?;
        let Running { shared, .. } = self;
        let Ok(shared) = Arc::try_unwrap(shared) else {
            return Err(InstanceFault::Worker("a thread still holds the engine".into()));
        };
        // A checkpoint that is being written holds the engine a little longer.
        let mut engine = shared.engine;
        let engine = loop {
            match Arc::try_unwrap(engine) {
                Ok(engine) => break engine,
                Err(busy) => engine = busy,
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        Ok(engine.close()?)
    }

    fn end_threads(&mut self) -> Result<(), InstanceFault> {
        // The balancer ends first: it waits for workers.
        if let Some(balancer) = self.balancer.take() {
            balancer.end();
        }
        for (listener, stop, thread) in self.listener.take().into_iter().chain(self.far_listener.take()) {
            stop.store(true, Ordering::Release);
            listener.stopper().stop();
            drop(thread.join());
        }
        *self.shared.lost.lock().expect("not poisoned") = None;
        if let Some((wanted, thread)) = self.connector.take() {
            let _ = wanted.send(ConnectorOrder::Stop);
            drop(thread.join());
        }
        self.shared.order_all(|| WorkerOrder::Stop);
        let mut outcome = Ok(());
        for worker in self.workers.drain(..) {
            if let Err(panic) = worker.join() {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
                outcome = Err(InstanceFault::Worker(text.unwrap_or_default()));
            }
        }
        // The cleaner ends last: until then a worker may wait for a page to be written.
        if let Some((stop, thread)) = self.cleaner.take() {
            stop.store(true, Ordering::Release);
            self.shared.engine.stop_cleaner();
            drop(thread.join());
        }
        outcome
    }
}

/// Opens the engine on a separate thread that allocates from the instance's NUMA node, since
/// restart is the first to touch the data.
fn open<W: Workload, E: Load>(
    config: &InstanceConfig,
    workload: &W,
    schema: Schema,
    files: Arc<dyn world::Files>,
) -> Result<(E, Recovered<E::InDoubt>, Binding), InstanceFault> {
    let columns = |table: &TableDef| (table.id, workload.lock_columns(table.id));
    let setup = Setup {
        site_range: SiteRange {
            sites: config.placement.sites(),
            own: config.placement.sites_of(config.id),
            lock_columns: schema.tables.iter().map(columns).collect(),
        },
        design: config.design,
        dir: config.dir.clone(),
        durability: config.durability,
        pool_pages: config.pool_pages,
        workers: config.workers(),
        options: config.options,
        schema,
    };
    let body = move || -> Result<_, EngineFault> {
        let binding = topology::bind_thread_memory(config.node.map(|n| topology::NodeId(n as u32)));
        let (engine, recovered) = E::open_in(files, &setup)?;
        if config.backing == Backing::AtStart {
            engine.back_memory();
        }
        Ok((engine, recovered, binding))
    };
    std::thread::scope(|scope| {
        let opener = std::thread::Builder::new().name("open".into()).spawn_scoped(scope, body);
        match opener.map_err(InstanceFault::Thread)?.join() {
            Ok(opened) => Ok(opened?),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// What was added to each count since the counts were `before`.
fn since(now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let added = |name: &String, n: u64| n.saturating_sub(before.get(name).copied().unwrap_or(0));
    now.iter().map(|(name, n)| (name.clone(), added(name, *n))).collect()
}

/// Divides the in-doubt transactions and commit notes that restart found among the workers, by the
/// number of the transaction.
fn share_out<T>(
    notes: &[(NoteId, Vec<u8>)],
    in_doubt: Vec<(Vec<u8>, T)>,
    workers: usize,
) -> Result<Vec<Inheritance<T>>, InstanceFault> {
    let damaged = |what: String| {
        InstanceFault::Worker(format!("the log holds {what}, which is damaged or of another version"))
    };
    let mut shares: Vec<Inheritance<T>> =
        (0..workers).map(|_| Inheritance { in_doubt: Vec::new(), decided: Vec::new() }).collect();
    for (id, bytes) in notes {
        let note: CommitNote =
            postcard::from_bytes(bytes).map_err(|_| damaged(format!("commit note {}", id.0.0)))?;
        shares[worker_of(note.gtid, workers)].decided.push((*id, note));
    }
    for (note, in_doubt) in in_doubt {
        let note: PrepareNote = postcard::from_bytes(&note).map_err(|_| damaged("a prepare note".into()))?;
        shares[worker_of(note.gtid, workers)].in_doubt.push((note.gtid, in_doubt));
    }
    Ok(shares)
}

/// Worker threads, and the receiver on which each reports that it is ready.
type Started = (Vec<JoinHandle<()>>, Receiver<Result<(), InstanceFault>>);

fn start_workers<W: Workload, E: Load + Maintenance + Prefetch>(
    shared: &Arc<Shared<W, E>>,
    workload: &W,
    inherited: Vec<Inheritance<E::InDoubt>>,
) -> Started {
    let mut handles = Vec::new();
    let (ready, started) = mpsc::channel();
    let filled = Filled::<E>::default();
    for (index, inheritance) in inherited.into_iter().enumerate() {
        let (shared, workload) = (Arc::clone(shared), workload.clone());
        let (ready, failed, filled) = (ready.clone(), ready.clone(), filled.clone());
        let name = format!("i{}w{index}", shared.config.id.0);
        let body = move || {
            if let Some(cpu) = shared.config.cpus[index] {
                // If the CPU is not available any more, the worker runs on any CPU.
                let _ = topology::pin_thread(topology::CpuId(cpu as u32));
            }
            topology::bind_thread_memory(shared.config.node.map(|n| topology::NodeId(n as u32)));
            let house = lodging::house_of(shared.config.deployment);
            let place = Place { instance: shared.config.id.0, worker: index as u16 };
            // The thread that starts the instance waits for this, or has given it up.
            match Worker::new(shared, index, workload, filled, inheritance) {
                Ok(worker) => {
                    let _ = ready.send(Ok(()));
                    drop(ready);
                    match house {
                        Some(house) => house.lodge(place, Box::new(worker)),
                        None => worker.run(),
                    }
                }
                Err(fault) => drop(ready.send(Err(fault.into()))),
            }
        };
        match std::thread::Builder::new().name(name).spawn(body) {
            Ok(handle) => handles.push(handle),
            Err(why) => drop(failed.send(Err(InstanceFault::Thread(why)))),
        }
    }
    (handles, started)
}

/// The thread that waits for the device when pages are written. It also copies the pages that have
/// no owner.
fn start_cleaner<W: Workload, E: Maintenance>(
    shared: &Arc<Shared<W, E>>,
) -> Result<(Arc<AtomicBool>, JoinHandle<()>), InstanceFault> {
    let stop = Arc::new(AtomicBool::new(false));
    let name = format!("i{}clean", shared.config.id.0);
    let (flag, shared) = (Arc::clone(&stop), Arc::clone(shared));
    let body = move || {
        topology::bind_thread_memory(shared.config.node.map(|n| topology::NodeId(n as u32)));
        shared.engine.clean(&flag);
    };
    let thread = std::thread::Builder::new().name(name).spawn(body).map_err(InstanceFault::Thread)?;
    Ok((stop, thread))
}

/// The listener, its stop flag, and its thread.
type ListenerThread = (Arc<Listener>, Arc<AtomicBool>, JoinHandle<()>);

fn start_listener<W: Workload, E: Engine>(
    shared: &Arc<Shared<W, E>>,
    listener: Arc<Listener>,
) -> Result<ListenerThread, InstanceFault> {
    let stop = Arc::new(AtomicBool::new(false));
    let (theirs, flag, shared) = (Arc::clone(&listener), Arc::clone(&stop), Arc::clone(shared));
    let thread = std::thread::Builder::new()
        .name("accept".into())
        .spawn(move || connector::accept(&shared, &theirs, &flag))
        .map_err(InstanceFault::Thread)?;
    Ok((listener, stop, thread))
}

fn start_connector<W: Workload, E: Engine>(
    shared: &Arc<Shared<W, E>>,
) -> Result<(Sender<ConnectorOrder>, JoinHandle<()>), InstanceFault> {
    let (wanted, orders) = mpsc::channel();
    *shared.lost.lock().expect("not poisoned") = Some(wanted.clone());
    let shared = Arc::clone(shared);
    let thread = std::thread::Builder::new()
        .name("connect".into())
        .spawn(move || connector::connect(&shared, &orders))
        .map_err(InstanceFault::Thread)?;
    Ok((wanted, thread))
}
