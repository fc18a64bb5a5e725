//! The state before the first step.

use super::locks::Locks;
use super::measure::Counts;
use super::parts::{Instance, State, Task, Worker};
use super::slab::Slab;
use super::stations::{Line, Log, Writers};
use super::tree::Tree;
use super::{RunOptions, Sim, Timer};
use crate::case::Case;
use crate::costs::{ChannelCosts, Homes};
use crate::deployment::Clients;
use crate::transaction::{Requests, Rows, Transactions};
use fastrand::Rng;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::ops::Range;

/// Tables with at most this many rows per site count as hot.
const FEW_ROWS: u64 = 64;
/// Under a Zipf law, so many of the most popular rows count as hot.
const POPULAR_ROWS: u64 = 256;
/// Workers begin one after the other, in a drawn order, so that their loops are not in step. With
/// work of equal length that order lasts, and in the order of their numbers each would take a hot
/// line from its neighbour.
const STAGGER_NS: f64 = 137.0;

/// The channel of a deployment of one instance, over which nothing is sent.
const NO_CHANNEL: ChannelCosts =
    ChannelCosts { is_socket: false, write_ns: 0.0, read_ns: 0.0, empty_ns: 0.0, wire_ns: 0.0 };

impl<'c> Sim<'c> {
    pub(super) fn new(case: &'c Case<'c>, options: &RunOptions) -> Sim<'c> {
        let count = case.deployment.workers();
        let (ends, links) = links(case);
        let mut owners = vec![0; case.transactions.sites() as usize];
        for instance in 0..case.deployment.instances.len() {
            case.sites_of(instance).for_each(|site| owners[site as usize] = instance as u16);
        }
        let lines = case.costs.hot.len();
        let instance = |i: usize| Instance {
            service: case.service(i),
            is_shared: case.is_shared(i),
            lines: vec![Line::default(); lines],
            log: Log::default(),
            writers: Writers::default(),
            distributed: 0,
        };
        let scale = |ns: f64| ns / case.speed;
        let channel = case.channel.unwrap_or(NO_CHANNEL);
        let mut sim = Sim {
            case,
            channel: ChannelCosts {
                write_ns: scale(channel.write_ns),
                read_ns: scale(channel.read_ns),
                empty_ns: scale(channel.empty_ns),
                ..channel
            },
            workers: workers(case, options.seed, &links),
            instances: (0..case.deployment.instances.len()).map(instance).collect(),
            tree: Tree::new(count),
            timers: BinaryHeap::new(),
            timers_set: 0,
            txns: Slab::new(),
            sessions: Slab::new(),
            locks: Locks::new(case.transactions),
            is_updating: case.transactions.is_updating(),
            has_runs: !case.costs.runs.is_empty() && !hot_keys(case.transactions).is_empty(),
            hot_keys: hot_keys(case.transactions),
            runs: HashMap::new(),
            counts: Counts::new(),
            random: Rng::with_seed(options.seed),
            owners,
            ends,
            cores_of: case.deployment.instances.iter().flatten().copied().collect(),
            flushes_under_way: 0,
            taken: Vec::new(),
            granted: Vec::new(),
            durable: Vec::new(),
            window_start: 0.0,
            started: vec![0.0; count],
            is_measuring: false,
            steps: 0,
        };
        sim.start_clients();
        sim
    }

    fn start_clients(&mut self) {
        match self.case.deployment.clients {
            Clients::Closed(clients) => {
                let mut order: Vec<usize> = (0..self.workers.len()).collect();
                self.random.shuffle(&mut order);
                for (number, w) in self.workers.iter_mut().enumerate() {
                    w.clock = order[number] as f64 * STAGGER_NS;
                    let first = Task::Next(w.clock);
                    w.ready.extend(std::iter::repeat_n(first, clients as usize));
                    (0..clients).for_each(|_| self.counts.begin(w.clock));
                    self.tree.set(number, w.clock);
                }
            }
            Clients::Open(_) => {
                for (number, w) in self.workers.iter_mut().enumerate() {
                    w.state = State::Idle;
                    self.tree.set(number, f64::INFINITY);
                }
                self.set_timer(0.0, Timer::Arrival);
            }
        }
    }

    /// A request of an open load arrives at any worker; the next one follows.
    pub(super) fn arrival(&mut self, now: f64) {
        let Clients::Open(rate) = self.case.deployment.clients else { return };
        let worker = self.random.usize(0..self.workers.len());
        self.counts.begin(now);
        self.workers[worker].ready.push_back(Task::Next(now));
        // The loop's timer knows the moment, and the worker does not sleep through it.
        self.awaken(worker, now, super::worker::Alarm::Timer);
        let pause = -(1.0 - self.random.f64()).ln() * 1e9 / rate;
        self.set_timer(now + pause, Timer::Arrival);
    }
}

/// By worker and instance, the worker at the other end and the link's number there; and the number
/// of links that arrive at each worker.
fn links(case: &Case<'_>) -> (Vec<(u32, u32)>, Vec<u32>) {
    let instances = &case.deployment.instances;
    let mut first = Vec::with_capacity(instances.len());
    let mut total = 0;
    for cores in instances {
        first.push(total);
        total += cores.len();
    }
    let mut arriving = vec![0_u32; total];
    let mut ends = Vec::with_capacity(total * instances.len());
    for (own, cores) in instances.iter().enumerate() {
        for index in 0..cores.len() {
            for (other, there) in instances.iter().enumerate() {
                let worker = first[other] + index % there.len();
                if other == own {
                    ends.push((worker as u32, u32::MAX));
                    continue;
                }
                ends.push((worker as u32, instances.len() as u32 + arriving[worker]));
                arriving[worker] += 1;
            }
        }
    }
    (ends, arriving)
}

fn workers(case: &Case<'_>, seed: u64, arriving: &[u32]) -> Vec<Worker> {
    let instances = &case.deployment.instances;
    let mut workers: Vec<Worker> = Vec::with_capacity(arriving.len());
    for (instance, cores) in instances.iter().enumerate() {
        for (index, &core) in cores.iter().enumerate() {
            let number = workers.len();
            let links = instances.len() + arriving[number] as usize;
            let sites = request_sites(case, instance, index);
            workers.push(Worker {
                core,
                instance,
                index,
                clock: 0.0,
                state: State::Begin,
                current: None,
                preempted: None,
                ready: VecDeque::new(),
                left: 0,
                turn: 0,
                worked: false,
                loop_start: 0.0,
                next_ask: 0.0,
                idle_since: 0.0,
                wake_at: f64::INFINITY,
                links: (0..links).map(|_| VecDeque::new()).collect(),
                active: Vec::new(),
                peers: links - 1,
                out: Vec::new(),
                staged: Vec::new(),
                requests: Requests::new(case.transactions, seed ^ ((number as u64 + 1) << 32), sites),
                inside: 0,
                outside: VecDeque::new(),
                busy: 0.0,
                idle: 0.0,
                parked: 0.0,
                handed: 0.0,
            });
        }
    }
    workers
}

/// The sites from which a worker's clients draw their homes: those of the profile's [`Homes`], or
/// all sites under skew.
fn request_sites(case: &Case<'_>, instance: usize, index: usize) -> Range<u32> {
    if case.is_routed() {
        return 0..case.transactions.sites();
    }
    let sites = case.sites_of(instance);
    let workers = case.deployment.instances[instance].len();
    if sites.len() < workers || case.profile.homes == Homes::OfInstance {
        return sites;
    }
    let start = |index: usize| sites.start + (sites.len() * index / workers) as u32;
    start(index)..start(index + 1)
}

/// Ranges of keys so popular that the moment of their locking matters.
pub(crate) fn hot_keys(transactions: &Transactions) -> Vec<(u64, u64)> {
    match transactions {
        Transactions::Micro(micro) => {
            let options = micro.options();
            let popular = if options.skew > 0.0 { POPULAR_ROWS } else { 0 };
            let range =
                options.hot.map(|hot| hot.range(options.dataset)).filter(|r| r.end - r.start <= POPULAR_ROWS);
            let range = range.map_or((0, 0), |r| (r.start, r.end));
            [(0, popular.min(options.dataset)), range].into_iter().filter(|(a, b)| a < b).collect()
        }
        Transactions::Mix(_) | Transactions::Replay(_) => {
            let few = |table: &&Rows| table.of_site <= FEW_ROWS;
            let tables = transactions.tables();
            tables.iter().filter(few).map(|table| (table.first, table.first + table.rows)).collect()
        }
    }
}
