//! A discrete-event simulation of a deployment: the loop of every worker, step by step.
//!
//! The event is an elementary step of the worker with the least clock: a part of a task, a look at
//! the links, or a pass's end. Steps that another worker can notice (a lock released, a hot line
//! visited) are events of their own, so they happen in the order of their times. The commit
//! protocol is that of `twophase`, by its own machines. Besides workers there are timers: flushes
//! of the log and arrivals of an open load.
//!
//! ```text
//!   Begin --> Turn --> Task ... Task --> Turn      up to TURNS turns over the ready tasks
//!               |                                  (a message on a ring ends them early)
//!               v
//!             Look: messages in; sockets only when idle or every ASK_NS
//!               |
//!               v
//!            flush: buffered sends out --> Begin, or Idle --> parked after the spin time
//! ```
//!
//! Equal seeds give equal outcomes.

mod home;
pub(crate) mod locks;
mod measure;
mod participant;
mod parts;
mod report;
mod rows;
mod setup;
mod slab;
mod stations;
pub(crate) mod tree;
mod worker;
mod writers;

use crate::case::{Case, LogWait};
use crate::costs::ChannelCosts;
use crate::outcome::{Component, Outcome};
use fastrand::Rng;
pub(crate) use setup::hot_keys;

use locks::{Locks, Waiter};
use measure::Counts;
use parts::{Instance, Post, Record, Session, State, Task, Txn, Worker};
use slab::Slab;
use stations::Line;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use tree::Tree;

/// The length and the seed of a simulation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RunOptions {
    pub seed: u64,
    /// Committed transactions of the measured window.
    pub transactions: u64,
    /// Committed transactions before it.
    pub warm_up: u64,
    /// The simulated time, in ns, after which the run ends in any case.
    pub most_ns: f64,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions { seed: 1, transactions: 20_000, warm_up: 4_000, most_ns: 60e9 }
    }
}

impl RunOptions {
    /// A run long enough for a deployment of this many workers.
    pub fn for_workers(workers: usize) -> RunOptions {
        let per_worker = workers as u64 * 500;
        RunOptions {
            transactions: per_worker.max(20_000),
            warm_up: (per_worker / 4).max(4_000),
            ..RunOptions::default()
        }
    }

    #[must_use]
    pub fn seeded(self, seed: u64) -> RunOptions {
        RunOptions { seed, ..self }
    }
}

/// Simulates a case. A deployment in which nothing can go on any more (a circle of lock waits in a
/// recorded kind) ends early, with the transactions that were committed until then.
pub fn simulate(case: &Case<'_>, options: &RunOptions) -> Outcome {
    let mut sim = Sim::new(case, options);
    sim.run(options)
}

/// An open load that is never served ends the run when so many requests wait.
const MOST_UNDER_WAY: u64 = 1 << 20;

/// An event that is no worker's step.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Timer {
    FlushEnds(usize),
    LookAtLog(usize),
    /// A thread of an instance's log has written.
    WriteEnds {
        instance: usize,
        thread: usize,
    },
    PauseEnds {
        instance: usize,
        thread: usize,
    },
    Arrival,
    /// The longest wait of a party for a lock ends, unless it has the lock.
    GivesUp {
        lock: u32,
        task: Task,
        since: f64,
    },
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Event {
    at: f64,
    /// Events of one time come in the order in which they were set.
    number: u64,
    timer: Timer,
}

impl Eq for Event {}

impl Ord for Event {
    /// Reversed, so that the heap gives the earliest first.
    fn cmp(&self, other: &Event) -> Ordering {
        other.at.total_cmp(&self.at).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The state of a simulation.
struct Sim<'c> {
    case: &'c Case<'c>,
    channel: ChannelCosts,
    workers: Vec<Worker>,
    instances: Vec<Instance>,
    tree: Tree,
    timers: BinaryHeap<Event>,
    timers_set: u64,
    txns: Slab<Txn>,
    sessions: Slab<Session>,
    locks: Locks<Task>,
    /// Whether any transaction updates a row: without, no lock can conflict.
    is_updating: bool,
    /// Of tables with few rows, each lock is taken at the moment when its row is reached.
    hot_keys: Vec<(u64, u64)>,
    /// Lines of popular rows: the place in the profile, the instance, and the run. A run's number
    /// is that of its table's first row and the runs before it.
    runs: HashMap<(u8, u16, u64), Line>,
    has_runs: bool,
    counts: Counts,
    random: Rng,
    /// The instance of each site.
    owners: Vec<u16>,
    /// By worker and instance: the worker at the other end of the link, and the link's number
    /// there.
    ends: Vec<(u32, u32)>,
    cores_of: Vec<usize>,
    flushes_under_way: u32,
    taken: Vec<Post>,
    granted: Vec<Waiter<Task>>,
    durable: Vec<(usize, Record)>,
    window_start: f64,
    /// Clocks of the workers when the window began.
    started: Vec<f64>,
    is_measuring: bool,
    steps: u64,
}

impl Sim<'_> {
    fn run(&mut self, options: &RunOptions) -> Outcome {
        let mut now = 0.0;
        if options.warm_up == 0 {
            self.begin_window(0.0);
        }
        while let Some(next) = self.next_event() {
            now = next;
            let committed = self.counts.committed;
            if !self.is_measuring && committed >= options.warm_up {
                self.begin_window(now);
            } else if self.is_measuring && committed >= options.transactions
                || now >= options.most_ns
                || self.counts.under_way() > MOST_UNDER_WAY
            {
                break;
            }
            self.steps += 1;
            match self.timers.peek() {
                Some(event) if event.at <= now => self.timer(),
                _ => {
                    let worker = self.tree.least().0;
                    self.step(worker);
                    let w = &self.workers[worker];
                    let clock = if w.state == State::Idle { w.wake_at } else { w.clock };
                    self.tree.set(worker, clock);
                }
            }
        }
        let is_complete = self.is_measuring && self.counts.committed >= options.transactions;
        self.outcome(now, is_complete)
    }

    /// The time of the next event; `None` when there is none.
    #[inline]
    fn next_event(&self) -> Option<f64> {
        let worker = self.tree.least().1;
        let at = self.timers.peek().map_or(worker, |event| event.at.min(worker));
        (at < f64::INFINITY).then_some(at)
    }

    fn begin_window(&mut self, now: f64) {
        self.is_measuring = true;
        self.window_start = now;
        for w in &mut self.workers {
            if w.state == State::Idle {
                w.clock = w.clock.max(now);
            }
            (w.busy, w.idle, w.parked) = (0.0, 0.0, 0.0);
        }
        self.started = self.workers.iter().map(|w| w.clock).collect();
        for instance in &mut self.instances {
            instance.lines.iter_mut().for_each(|line| line.begin_window(now));
            instance.log.begin_window(now);
        }
        self.counts.begin_window(now);
    }

    fn set_timer(&mut self, at: f64, timer: Timer) {
        self.timers_set += 1;
        self.timers.push(Event { at, number: self.timers_set, timer });
    }

    fn timer(&mut self) {
        let Some(Event { at, timer, .. }) = self.timers.pop() else { return };
        match timer {
            Timer::FlushEnds(instance) => self.flush_ends(instance, at),
            Timer::LookAtLog(instance) => {
                let flush_ns = self.case.machine.flush_ns(self.flushes_under_way + 1);
                let due = self.instances[instance].log.look(at, flush_ns);
                self.log_is_due(instance, due);
            }
            Timer::WriteEnds { instance, thread } => self.write_ends(instance, thread, at),
            Timer::PauseEnds { instance, thread } => self.pause_ends(instance, thread, at),
            Timer::Arrival => self.arrival(at),
            Timer::GivesUp { lock, task, since } => self.gives_up(lock, task, since, at),
        }
    }

    fn log_is_due(&mut self, instance: usize, due: stations::Due) {
        match due {
            stations::Due::Nothing => {}
            stations::Due::End(at) => {
                self.flushes_under_way += 1;
                self.set_timer(at, Timer::FlushEnds(instance));
            }
            stations::Due::Look(at) => self.set_timer(at, Timer::LookAtLog(instance)),
        }
    }

    fn flush_ends(&mut self, instance: usize, now: f64) {
        self.flushes_under_way -= 1;
        let flush_ns = self.case.machine.flush_ns(self.flushes_under_way + 1);
        let mut durable = std::mem::take(&mut self.durable);
        let due = self.instances[instance].log.end(now, flush_ns, &mut durable);
        self.log_is_due(instance, due);
        for (worker, record) in durable.drain(..) {
            self.make_ready(worker, Task::Durable(record), now);
        }
        self.durable = durable;
    }

    /// A record is appended and its waiter goes on when it is durable.
    fn wait_for_log(&mut self, worker: usize, record: Record) {
        if self.case.log_wait() == LogWait::Written {
            return self.wait_for_write(worker, record);
        }
        let (instance, now) = (self.workers[worker].instance, self.workers[worker].clock);
        let flush_ns = self.case.machine.flush_ns(self.flushes_under_way + 1);
        let due = self.instances[instance].log.append(now, (worker, record), flush_ns);
        self.log_is_due(instance, due);
    }

    /// A worker spends time.
    #[inline]
    fn pay(&mut self, worker: usize, component: Component, ns: f64) {
        let w = &mut self.workers[worker];
        w.clock += ns;
        w.busy += ns;
        self.counts.spend(component, ns);
    }

    /// A worker spends time until `until`.
    fn pay_until(&mut self, worker: usize, component: Component, until: f64) {
        let ns = (until - self.workers[worker].clock).max(0.0);
        self.pay(worker, component, ns);
    }
}
