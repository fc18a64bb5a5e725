//! The simulation: contexts that run jobs step by step, in the order of their clocks.
//!
//! Without owners a context runs the transactions of its client, one after the other. With owners
//! its queue holds the dispatches of its clients and the actions of its partitions.
//!
//! ```text
//!   Dispatch --> Action ... Action --> Rendezvous --> Action ... --> Commit --> Release ...
//!   client       owners, at once       last of them                  last        owners
//! ```
//!
//! Equal seeds give equal outcomes.

use super::case::SectionCase;
use super::load::{Homes, Site, Touch, Way};
use super::outcome::{Class, PARTS, Part, SectionOutcome};
use super::program::{Action, Builder, Entry, Step};
use super::station::Sections;
use crate::simulate::RunOptions;
use crate::simulate::locks::{Locks, Mode, Waiter};
use crate::simulate::tree::Tree;
use fastrand::Rng;
use std::collections::{HashMap, VecDeque};

/// Contexts begin one after the other, so that they are not in step.
const STAGGER_NS: f64 = 137.0;

/// A job of a context.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Job {
    /// A whole transaction.
    Whole(usize),
    Dispatch(usize),
    /// An action of the phase under way, by number; whether it has its lock.
    Action {
        txn: usize,
        action: usize,
        has_lock: bool,
    },
    Rendezvous(usize),
    Commit(usize),
    /// An owner gives back a row lock, if the action took one.
    Release(Option<u32>),
}

/// A context.
#[derive(Default)]
struct Context {
    core: usize,
    clock: f64,
    queue: VecDeque<Job>,
    job: Option<Job>,
    steps: Vec<Step>,
    at: usize,
    /// Since when it waits for a row lock.
    blocked: Option<f64>,
    idle_since: Option<f64>,
}

/// A transaction; its slot serves its client again.
#[derive(Default)]
struct Txn {
    home: usize,
    born: f64,
    phases: Vec<Vec<Action>>,
    phase: usize,
    left: usize,
    held: Vec<u32>,
    updates: bool,
}

struct Sim<'c> {
    case: &'c SectionCase<'c>,
    builder: Builder<'c>,
    contexts: Vec<Context>,
    /// Contexts that run, by core; and the stretch by their number.
    running: Vec<usize>,
    stretch: Vec<f64>,
    busy: f64,
    tree: Tree,
    sections: Sections,
    splits: HashMap<(u16, u32), f64>,
    locks: Locks<Job>,
    granted: Vec<Waiter<Job>>,
    txns: Vec<Txn>,
    random: Rng,
    out: SectionOutcome,
    window_start: f64,
    responses: f64,
}

/// Simulates a case until `options.transactions` are committed after `options.warm_up`.
pub fn simulate(case: &SectionCase<'_>, options: &RunOptions) -> SectionOutcome {
    let mut sim = Sim::new(case, options);
    let mut is_measuring = options.warm_up == 0;
    loop {
        let (context, now) = sim.tree.least();
        let committed = sim.out.committed;
        if !is_measuring && committed >= options.warm_up {
            is_measuring = true;
            sim.begin_window(now);
        } else if is_measuring && committed >= options.transactions || now >= options.most_ns {
            return sim.outcome(now.min(options.most_ns));
        }
        sim.step(context, now);
    }
}

impl<'c> Sim<'c> {
    fn new(case: &'c SectionCase<'c>, options: &RunOptions) -> Sim<'c> {
        let builder = Builder::new(case);
        let count = case.contexts.len();
        let mut cores = case.cores();
        let mut known: Vec<usize> = cores.clone();
        known.sort_unstable();
        known.dedup();
        cores.iter_mut().for_each(|core| *core = known.binary_search(core).unwrap_or(0));
        let pipelines = case.machine.terms().pipelines;
        let stretch = |running| pipelines.map_or(1.0, |p| p.stretch(running));
        let mut sim = Sim {
            contexts: cores.iter().map(|&core| Context { core, ..Context::default() }).collect(),
            running: vec![0; known.len()],
            stretch: (0..=count).map(stretch).collect(),
            busy: pipelines.map_or(0.0, |p| p.busy),
            tree: Tree::new(count),
            sections: Sections::default(),
            splits: HashMap::new(),
            locks: Locks::of_rows(builder.small_rows()),
            granted: Vec::new(),
            txns: Vec::new(),
            random: Rng::with_seed(options.seed),
            out: SectionOutcome { contexts: count, ..SectionOutcome::default() },
            window_start: 0.0,
            responses: 0.0,
            builder,
            case,
        };
        sim.start();
        sim
    }

    fn start(&mut self) {
        let mut order: Vec<usize> = (0..self.contexts.len()).collect();
        self.random.shuffle(&mut order);
        let has_owners = self.case.design.has_owners();
        for (at, turn) in order.into_iter().enumerate() {
            let clock = turn as f64 * STAGGER_NS;
            for _ in 0..self.case.in_flight() {
                let txn = self.txns.len();
                self.txns.push(Txn { home: at, ..Txn::default() });
                self.draw(txn, clock);
                let job = if has_owners { Job::Dispatch(txn) } else { Job::Whole(txn) };
                self.contexts[at].queue.push_back(job);
            }
            self.contexts[at].clock = clock;
            self.running[self.contexts[at].core] += 1;
            self.tree.set(at, clock);
        }
    }

    fn begin_window(&mut self, now: f64) {
        self.out = SectionOutcome { contexts: self.contexts.len(), ..SectionOutcome::default() };
        self.builder.tally = super::program::Tally::default();
        (self.window_start, self.responses) = (now, 0.0);
        for context in &mut self.contexts {
            context.blocked = context.blocked.map(|_| now);
            context.idle_since = context.idle_since.map(|_| now);
        }
    }

    fn outcome(mut self, now: f64) -> SectionOutcome {
        for context in &self.contexts {
            self.out.idle_ns += context.idle_since.map_or(0.0, |since| now - since);
            self.out.parts[Part::LockWait as usize] += context.blocked.map_or(0.0, |since| now - since);
        }
        let tally = self.builder.tally;
        let window_ns = (now - self.window_start).max(1.0);
        let committed = self.out.committed;
        SectionOutcome {
            tps: committed as f64 * 1e9 / window_ns,
            window_ns,
            response_ns: self.responses / committed.max(1) as f64,
            entries: tally.entries,
            latches: tally.latches,
            row_locks: tally.row_locks,
            ..self.out
        }
    }

    /// Draws a client's next transaction.
    fn draw(&mut self, number: usize, now: f64) {
        let load = self.case.load;
        let total: f64 = load.kinds.iter().map(|kind| kind.share).sum();
        let mut left = self.random.f64() * total;
        let kind = load.kinds.iter().find(|kind| {
            left -= kind.share;
            left < 0.0
        });
        let kind = kind.unwrap_or(&load.kinds[load.kinds.len() - 1]);
        let home = self.home(self.txns[number].home);
        let mut phases = Vec::with_capacity(kind.phases.len());
        for phase in &kind.phases {
            let mut actions = Vec::with_capacity(phase.len());
            for rows in phase {
                let site = match rows.site {
                    Site::Remote(share) if load.sites > 1 && self.random.f64() < share => {
                        let other = self.random.u32(0..load.sites - 1);
                        if other < home { other } else { other + 1 }
                    }
                    _ => home,
                };
                self.place(*rows, site, &mut actions);
            }
            phases.push(actions);
        }
        let updates = kind.phases.iter().flatten().any(|rows| rows.touch != Touch::Read);
        let txn = &mut self.txns[number];
        (txn.born, txn.phase, txn.left, txn.updates) = (now, 0, 0, updates);
        txn.phases = phases;
    }

    fn home(&mut self, context: usize) -> u32 {
        let (sites, count) = (self.case.load.sites, self.contexts.len() as u32);
        match self.case.load.homes {
            Homes::Any => self.random.u32(0..sites),
            Homes::Own => {
                let own = context as u32 % sites;
                let turns = (sites - own).div_ceil(count);
                own + count * self.random.u32(0..turns)
            }
            Homes::Hot { sites: share, requests } => {
                let hot = ((f64::from(sites) * share).round() as u32).clamp(1, sites);
                if hot == sites || self.random.f64() < requests {
                    self.random.u32(0..hot)
                } else {
                    self.random.u32(hot..sites)
                }
            }
        }
    }

    /// An access as actions: a range may go on into the next sites.
    fn place(&mut self, rows: super::load::Rows, site: u32, actions: &mut Vec<Action>) {
        let table = &self.case.load.tables[rows.table];
        let count = self.contexts.len();
        let mut action = |rows, site: u32, row| {
            actions.push(Action { rows, site, owner: site as usize % count, row });
        };
        if table.is_small {
            let per_site = table.rows_per_site as u32;
            // Rows of one access follow each other, so that locks are taken in their order.
            let last = per_site - rows.count.min(super::program::MOST_BATCHES).min(per_site);
            let row = site * per_site + self.random.u32(0..=last);
            return action(rows, site, Some(row));
        }
        if !matches!(rows.way, Way::Range | Way::RangeNotAligned) {
            return action(rows, site, None);
        }
        let mut room = table.rows_per_site - self.random.u64(0..table.rows_per_site);
        let (mut left, mut site) = (u64::from(rows.count), site);
        while left > 0 {
            let here = left.min(room);
            action(super::load::Rows { count: here as u32, ..rows }, site, None);
            left -= here;
            (room, site) = (table.rows_per_site, (site + 1) % self.case.load.sites);
        }
    }

    /// One step of a context.
    fn step(&mut self, at: usize, now: f64) {
        if self.contexts[at].job.is_none() {
            let Some(job) = self.contexts[at].queue.pop_front() else { return self.rest(at, now) };
            if !self.prepare(at, job, now) {
                return self.tree.set(at, now);
            }
        }
        let context = &self.contexts[at];
        let Some(step) = context.steps.get(context.at).copied() else {
            return self.finish(at, now);
        };
        self.contexts[at].at += 1;
        let then = match step {
            Step::Work(parts) => self.work(at, now, &parts),
            Step::Enter(entry) => self.enter(at, now, &entry),
            Step::Visit { tree } => {
                let until = self.splits.get(&tree).map_or(now, |until| until.max(now));
                self.spend(Part::SplitWait, until - now);
                self.wait(Class::Unbounded, until - now);
                until
            }
            Step::Split { tree, ns } => {
                let until = self.splits.entry(tree).or_insert(0.0);
                let start = until.max(now);
                *until = start + ns;
                self.spend(Part::SplitWait, start - now);
                self.wait(Class::Unbounded, start - now);
                self.spend(Part::Work, ns);
                start + ns
            }
            Step::Lock { row, is_exclusive } => {
                if !self.lock(at, row, is_exclusive, now) {
                    return;
                }
                now
            }
        };
        self.contexts[at].clock = then;
        self.tree.set(at, then);
    }

    fn spend(&mut self, part: Part, ns: f64) {
        self.out.parts[part as usize] += ns;
    }

    fn wait(&mut self, class: Class, ns: f64) {
        self.out.waits_ns[class as usize] += ns;
    }

    /// Work takes longer the more contexts of its core run.
    fn work(&mut self, at: usize, now: f64, parts: &[f64; PARTS]) -> f64 {
        let stretch = self.stretch[self.running[self.contexts[at].core]];
        let usual = 1.0 - self.busy + self.busy * stretch;
        let mut then = now;
        for (part, ns) in Part::ALL.into_iter().zip(parts) {
            // A histogram's update finds its lines in the nearest cache, and never stalls.
            let factor = if part == Part::Histogram { stretch } else { usual };
            self.spend(part, ns * factor);
            then += ns * factor;
        }
        then
    }

    fn enter(&mut self, at: usize, now: f64, entry: &Entry) -> f64 {
        let section = self.sections.of(entry.name);
        let (machine, here) = (self.case.machine, self.case.contexts[at]);
        let far = section.owner.map_or(0.0, |owner| machine.latency_ns(self.case.contexts[owner], here));
        // Entries of equal length would fall into step and never meet.
        let ns = (entry.ns + entry.lines * far) * -(1.0 - self.random.f64()).ln();
        let (start, end) = match entry.class {
            Class::Cooperative => section.join(now, at, ns),
            Class::Unbounded | Class::Fixed => section.enter(now, at, ns),
        };
        self.spend(entry.wait, start - now);
        self.wait(entry.class, start - now);
        self.out.inside_ns[entry.class as usize] += end - start;
        if !entry.is_own_time {
            return start;
        }
        self.spend(entry.part, end - start);
        end
    }

    /// Locks a row for the whole transaction of a context; `false` if it waits.
    fn lock(&mut self, at: usize, row: u32, is_exclusive: bool, now: f64) -> bool {
        let Some(Job::Whole(txn)) = self.contexts[at].job else { return true };
        if self.txns[txn].held.contains(&row) {
            return true;
        }
        self.txns[txn].held.push(row);
        if self.locks.try_take(row, mode(is_exclusive)) {
            return true;
        }
        self.locks.wait(row, Waiter { task: Job::Whole(txn), mode: mode(is_exclusive), since: now });
        self.contexts[at].blocked = Some(now);
        self.running[self.contexts[at].core] -= 1;
        self.tree.set(at, f64::INFINITY);
        false
    }

    /// Builds a job's program. `false` if it waits for a local lock, and another job may run.
    fn prepare(&mut self, at: usize, job: Job, now: f64) -> bool {
        if let Job::Action { txn, action, has_lock: false } = job {
            let a = self.txns[txn].phases[self.txns[txn].phase][action];
            if let Some(row) = self.builder.lock_of(&a, 0).filter(|row| !self.txns[txn].held.contains(row)) {
                self.txns[txn].held.push(row);
                let mode = mode(a.rows.touch != Touch::Read);
                if !self.locks.try_take(row, mode) {
                    let task = Job::Action { txn, action, has_lock: true };
                    self.locks.wait(row, Waiter { task, mode, since: now });
                    return false;
                }
            }
        }
        let mut steps = std::mem::take(&mut self.contexts[at].steps);
        steps.clear();
        self.builder.steps = steps;
        self.build(at, job);
        self.builder.flush();
        let context = &mut self.contexts[at];
        context.steps = std::mem::take(&mut self.builder.steps);
        (context.job, context.at) = (Some(job), 0);
        true
    }

    fn build(&mut self, at: usize, job: Job) {
        let b = &mut self.builder;
        match job {
            Job::Whole(txn) => {
                let txn = &self.txns[txn];
                let mut locked = Vec::new();
                b.half();
                for action in txn.phases.iter().flatten() {
                    b.access(action, &mut locked, &mut self.random);
                }
                if txn.updates {
                    b.log(1.0);
                }
                b.half();
            }
            Job::Dispatch(txn) => {
                b.half();
                for action in &self.txns[txn].phases[0] {
                    if action.rows.way == Way::RangeNotAligned {
                        b.scan_index(action, &mut self.random);
                    }
                    b.hand_over(action.owner);
                }
            }
            Job::Action { txn, action, .. } => {
                let action = self.txns[txn].phases[self.txns[txn].phase][action];
                b.take_action(at);
                b.access(&action, &mut Vec::new(), &mut self.random);
                b.histogram(f64::from(action.rows.count));
                b.rendezvous();
            }
            Job::Rendezvous(txn) => {
                let txn = &self.txns[txn];
                txn.phases[txn.phase].iter().for_each(|action| b.hand_over(action.owner));
            }
            Job::Commit(txn) => {
                if self.txns[txn].updates {
                    b.log(1.0);
                }
                b.half();
            }
            Job::Release(_) => b.release(),
        }
    }

    /// The program of a context's job has ended.
    fn finish(&mut self, at: usize, now: f64) {
        let Some(job) = self.contexts[at].job.take() else { return };
        match job {
            Job::Whole(txn) => {
                let held = std::mem::take(&mut self.txns[txn].held);
                self.release(&held, now);
                self.committed(txn, now);
                self.contexts[at].queue.push_back(Job::Whole(txn));
            }
            Job::Dispatch(txn) | Job::Rendezvous(txn) => self.send_actions(txn, now),
            Job::Action { txn, .. } => self.report(at, txn),
            Job::Commit(txn) => {
                self.tell_owners(txn, now);
                self.committed(txn, now);
                let home = self.txns[txn].home;
                self.contexts[home].queue.push_back(Job::Dispatch(txn));
                self.awaken(home, now);
            }
            Job::Release(Some(row)) => self.release(&[row], now),
            Job::Release(None) => {}
        }
        self.tree.set(at, now);
    }

    /// An action has ended: the last one of its phase goes on with the transaction.
    fn report(&mut self, at: usize, txn: usize) {
        let t = &mut self.txns[txn];
        t.left -= 1;
        if t.left > 0 {
            return;
        }
        t.phase += 1;
        let job = if t.phase < t.phases.len() { Job::Rendezvous(txn) } else { Job::Commit(txn) };
        self.contexts[at].queue.push_front(job);
    }

    /// The actions of the phase under way enter the queues of their owners.
    fn send_actions(&mut self, txn: usize, now: f64) {
        let t = &mut self.txns[txn];
        t.left = t.phases[t.phase].len();
        for action in 0..t.left {
            let owner = self.txns[txn].phases[self.txns[txn].phase][action].owner;
            self.contexts[owner].queue.push_back(Job::Action { txn, action, has_lock: false });
            self.awaken(owner, now);
        }
    }

    /// The owners of all actions get word of the commit, ahead of their other jobs.
    fn tell_owners(&mut self, txn: usize, now: f64) {
        let mut held = std::mem::take(&mut self.txns[txn].held);
        for action in std::mem::take(&mut self.txns[txn].phases).iter().flatten() {
            let row = self.builder.lock_of(action, 0);
            let taken = held.iter().position(|held| Some(*held) == row).map(|at| held.swap_remove(at));
            self.contexts[action.owner].queue.push_front(Job::Release(taken));
            self.awaken(action.owner, now);
        }
    }

    fn committed(&mut self, txn: usize, now: f64) {
        self.out.committed += 1;
        self.responses += now - self.txns[txn].born;
        self.draw(txn, now);
    }

    /// Gives locks back; those that waited go on.
    fn release(&mut self, rows: &[u32], now: f64) {
        let mut granted = std::mem::take(&mut self.granted);
        rows.iter().for_each(|row| self.locks.release(*row, &mut granted));
        for waiter in granted.drain(..) {
            match waiter.task {
                Job::Whole(txn) => {
                    let at = self.txns[txn].home;
                    let context = &mut self.contexts[at];
                    let since = context.blocked.take().unwrap_or(now);
                    self.running[context.core] += 1;
                    self.spend(Part::LockWait, now - since);
                    self.tree.set(at, now);
                }
                job @ Job::Action { txn, action, .. } => {
                    let owner = self.txns[txn].phases[self.txns[txn].phase][action].owner;
                    self.contexts[owner].queue.push_front(job);
                    self.awaken(owner, now);
                }
                _ => unreachable!("only these wait for locks"),
            }
        }
        self.granted = granted;
    }

    /// A context without a job waits for one.
    fn rest(&mut self, at: usize, now: f64) {
        let context = &mut self.contexts[at];
        context.idle_since = Some(now);
        self.running[context.core] -= 1;
        self.tree.set(at, f64::INFINITY);
    }

    fn awaken(&mut self, at: usize, now: f64) {
        let context = &mut self.contexts[at];
        if let Some(since) = context.idle_since.take() {
            self.out.idle_ns += now - since;
            self.running[context.core] += 1;
            self.tree.set(at, now);
        }
    }
}

fn mode(is_exclusive: bool) -> Mode {
    if is_exclusive { Mode::Exclusive } else { Mode::Shared }
}
