//! Contexts, their queues, and time. Of the contexts with a transaction, the one that is furthest
//! behind runs next.

use crate::code::Code;
use crate::course::Course;
use crate::machine::Machine;
use crate::run::Input;
use crate::run::chip::{Chip, Hiding, Tally};
use crate::run::earliest::Earliest;
use crate::run::settings::{Scheduler, Settings};
use crate::run::stacks::Stack;
use std::collections::VecDeque;
use trace::code::{END, is_operation};
use trace::{Decoder, Event, Trace, Transaction};

/// What a policy decides about the transaction that runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Stay,
    /// To the end of its context's queue.
    Tail,
    /// To the end of another context's queue.
    To(usize),
}

/// A scheduler.
pub trait Policy {
    /// Whether it wants to know of fetches from the line of the fetch before.
    const COUNTS_FETCHES: bool = false;

    /// Gives transactions to contexts; called at the begin, and whenever a transaction has ended or
    /// left its context.
    fn dispatch(&mut self, run: &mut Run<'_>);

    /// A transaction begins or resumes on a context.
    fn resumes(&mut self, _run: &mut Run<'_>, _context: usize, _thread: usize) {}

    /// It is about to fetch a line.
    #[inline]
    fn before(&mut self, _run: &mut Run<'_>, _context: usize, _thread: usize, _line: u64) -> Step {
        Step::Stay
    }

    /// It has fetched a line, by so many fetches.
    #[inline]
    fn after(
        &mut self,
        _run: &mut Run<'_>,
        _place: (usize, usize),
        _line: u64,
        _hit: bool,
        _fetches: u32,
    ) -> Step {
        Step::Stay
    }

    /// It begins an operation.
    fn operation(&mut self, _run: &mut Run<'_>, _context: usize, _thread: usize, _code: u16) -> Step {
        Step::Stay
    }

    /// It has ended, or left for another context.
    fn left(&mut self, _run: &mut Run<'_>, _context: usize, _thread: usize, _ended: bool) {}
}

/// A transaction in flight.
#[derive(Debug)]
pub struct Thread<'t> {
    pub kind: u32,
    events: Decoder<'t>,
    stack: Stack,
    /// Its place in the pool of transactions in flight.
    slot: u64,
    /// When a scheduler took it up, and from when on it can run.
    entered: f64,
    ready: f64,
    switches: u32,
    pending: Pending,
}

/// The lines of a block that have not been fetched: none where `line` is `end`.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    block: u32,
    line: u64,
    end: u64,
}

/// The transaction that runs, in its slice of time.
#[derive(Debug)]
struct Slice {
    context: usize,
    thread: usize,
    core: usize,
    /// The time of the context; its own field is behind.
    time: f64,
    pending: Pending,
    /// The line that it fetched last. Other contexts of the core may have used its caches before
    /// the slice, so it begins with none.
    last_line: u64,
}

/// Why a slice is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    Time,
    Ended,
    Leaves(Step),
}

#[derive(Debug)]
pub struct Context {
    pub core: usize,
    pub time: f64,
    pub queue: VecDeque<usize>,
    pub running: Option<usize>,
    /// The number of its last fetch, in units of the width of a fetch.
    last_fetch: u64,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub tally: Tally,
    pub transactions: usize,
    /// Until the last transaction has ended.
    pub cycles: f64,
    /// The mean over transactions from the time at which they were taken up, and each of them.
    pub latency: f64,
    pub latencies: Vec<f64>,
    /// The most transactions in flight at once, and the most switches of one.
    pub most_in_flight: usize,
    pub most_switches: u32,
    /// Switches on one context, and migrations.
    pub switches: u64,
    /// The cycles that they took.
    pub switch_cycles: f64,
    /// Transactions that ended before counting began, and the time at which it began.
    pub warmed: usize,
    pub start: f64,
    /// The sum over contexts of the time in which one had a transaction.
    pub busy: f64,
    /// Signatures: accesses, and those in which signature and cache agreed (SLICC).
    pub signature: (u64, u64),
}

/// Transactions on a chip.
#[derive(Debug)]
pub struct Run<'t> {
    pub chip: Chip,
    pub contexts: Vec<Context>,
    pub threads: Vec<Thread<'t>>,
    pub settings: Settings,
    /// The transactions that no scheduler has taken up, in the order of their arrival.
    pub waiting: VecDeque<(usize, u32)>,
    /// Those that arrive when the ones that warm the caches have ended, so that all schedulers are
    /// measured on the same transactions.
    later: Vec<(usize, u32)>,
    trace: &'t Trace,
    code: &'t Code,
    slots: Vec<bool>,
    /// When the last transaction ended or left a context: a scheduler acts then.
    now: f64,
    /// Contexts of each core that have a transaction.
    active: Vec<u32>,
    /// The times of the contexts that have a transaction.
    earliest: Earliest,
    pub outcome: Outcome,
}

impl<'t> Run<'t> {
    /// # Panics
    /// If the machine has no shared cache.
    pub fn new(input: Input<'t>, machine: &Machine, settings: &Settings) -> Run<'t> {
        let Input { trace, code, chosen } = input;
        let (first, measured) = match settings.warm {
            0 => (chosen, &chosen[..0]),
            warm => chosen.split_at(warm.min(chosen.len())),
        };
        let arriving = |numbers: &[usize]| -> VecDeque<(usize, u32)> {
            numbers.iter().map(|&number| (number, trace.transactions[number].kind)).collect()
        };
        let hiding = match settings.scheduler {
            Scheduler::NextLine => Hiding::NextLine,
            Scheduler::Pif => Hiding::All,
            _ => Hiding::None,
        };
        let context = |number| Context {
            core: number / settings.contexts,
            time: 0.0,
            queue: VecDeque::new(),
            running: None,
            last_fetch: u64::MAX,
        };
        Run {
            chip: Chip::new(machine, settings.cores, hiding),
            contexts: (0..settings.cores * settings.contexts).map(context).collect(),
            threads: Vec::new(),
            settings: settings.clone(),
            waiting: arriving(first),
            later: arriving(measured).into(),
            trace,
            code,
            slots: Vec::new(),
            now: 0.0,
            active: vec![0; settings.cores],
            earliest: Earliest::new(settings.cores * settings.contexts),
            outcome: Outcome::default(),
        }
    }

    /// Takes up the waiting transaction at a place of the queue, at a time. Returns its thread.
    pub fn take_up(&mut self, at: usize, now: f64) -> usize {
        let (number, kind) = self.waiting.remove(at).expect("a place of the queue");
        let transaction: &Transaction = &self.trace.transactions[number];
        let slot = self.slots.iter().position(|used| !used).unwrap_or_else(|| {
            self.slots.push(false);
            self.slots.len() - 1
        });
        self.slots[slot] = true;
        self.threads.push(Thread {
            kind,
            events: transaction.events(),
            stack: Stack::new(transaction.private_lines(), slot as u64),
            slot: slot as u64,
            entered: now,
            ready: now,
            switches: 0,
            pending: Pending::default(),
        });
        self.outcome.most_in_flight = self.outcome.most_in_flight.max(self.in_flight());
        self.threads.len() - 1
    }

    /// Transactions in flight.
    pub fn in_flight(&self) -> usize {
        self.threads.len() - self.outcome.transactions - self.outcome.warmed
    }

    /// Whether a context has nothing to do.
    pub fn is_idle(&self, context: usize) -> bool {
        self.contexts[context].running.is_none() && self.contexts[context].queue.is_empty()
    }

    /// The contexts of a core that have a transaction.
    pub fn active(&self, core: usize) -> u32 {
        self.active[core]
    }

    /// The transactions that a context has, the running one included.
    pub fn load(&self, context: usize) -> usize {
        self.contexts[context].queue.len() + usize::from(self.contexts[context].running.is_some())
    }

    /// The time at which the last transaction ended or left its context. A context may be behind
    /// it, which has had nothing to do since then.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// The time of the context that is furthest ahead.
    pub fn latest(&self) -> f64 {
        self.contexts.iter().map(|c| c.time).fold(0.0, f64::max)
    }

    /// Runs all transactions to their ends, unless `course` is stopped.
    pub fn all<P: Policy>(mut self, policy: &mut P, course: &Course) -> Outcome {
        policy.dispatch(&mut self);
        self.resume_all(policy);
        while let Some(context) = self.earliest.first() {
            let Some(thread) = self.contexts[context].running else { break };
            match self.slice(context, thread, policy) {
                Why::Time => {
                    self.earliest.set(context, self.contexts[context].time);
                    continue;
                }
                Why::Ended => {
                    self.end(context, thread, policy);
                    course.one_done();
                    if course.is_stopped() {
                        break;
                    }
                }
                Why::Leaves(step) => self.switch(context, thread, step, policy),
            }
            policy.dispatch(&mut self);
            self.resume_all(policy);
        }
        let Run { mut outcome, chip, .. } = self;
        outcome.tally = chip.tally;
        outcome.latency /= outcome.transactions.max(1) as f64;
        outcome
    }

    /// Starts the next transaction of each context that has none running.
    fn resume_all<P: Policy>(&mut self, policy: &mut P) {
        for context in 0..self.contexts.len() {
            let c = &mut self.contexts[context];
            if c.running.is_some() {
                continue;
            }
            let Some(thread) = c.queue.pop_front() else { continue };
            c.running = Some(thread);
            c.time = c.time.max(self.threads[thread].ready);
            self.active[c.core] += 1;
            self.earliest.set(context, c.time);
            policy.resumes(self, context, thread);
        }
    }

    /// Runs a context's transaction until its slice is over, or it leaves.
    fn slice<P: Policy>(&mut self, context: usize, thread: usize, policy: &mut P) -> Why {
        let Context { core, time: start, .. } = self.contexts[context];
        let until = start + self.settings.slice;
        let per_instruction = f64::from(self.active[core]) / self.chip.shared.ipc;
        let code = self.code;
        let Thread { ref events, stack, pending, .. } = self.threads[thread];
        let mut events = events.clone();
        let mut now = Slice { context, thread, core, time: start, pending, last_line: u64::MAX };
        let mut instructions = 0;
        let why = loop {
            if now.time >= until {
                break Why::Time;
            }
            let step = self.lines(&mut now, policy);
            if step != Step::Stay {
                break Why::Leaves(step);
            }
            let (line, store) = match events.next() {
                None => break Why::Ended,
                Some(Event::Block(block)) => {
                    let run = code.runs[block as usize];
                    instructions += u64::from(run.instructions);
                    now.time += f64::from(run.instructions) * per_instruction;
                    now.pending = Pending { block, line: run.first, end: run.first + u64::from(run.lines) };
                    continue;
                }
                Some(Event::Load(line)) => (line, false),
                Some(Event::Store(line)) => (line, true),
                Some(Event::Mark(mark)) if mark & END == 0 && is_operation(mark) => {
                    match policy.operation(self, context, thread, mark) {
                        Step::Stay => continue,
                        step => break Why::Leaves(step),
                    }
                }
                Some(_) => continue,
            };
            let own = stack.holds(line);
            let line = if own { stack.line(line) } else { line };
            now.time += self.chip.data(core, line, store, own);
        };
        self.chip.tally.instructions += instructions;
        self.outcome.busy += now.time - start;
        self.contexts[context].time = now.time;
        let thread = &mut self.threads[thread];
        (thread.events, thread.pending) = (events, now.pending);
        why
    }

    /// Fetches the pending lines of a block.
    #[inline]
    fn lines<P: Policy>(&mut self, now: &mut Slice, policy: &mut P) -> Step {
        while now.pending.line != now.pending.end {
            let line = now.pending.line;
            let fetches = if P::COUNTS_FETCHES { self.count_fetches(now.context, now.pending) } else { 1 };
            if line == now.last_line {
                now.pending.line += 1;
                if P::COUNTS_FETCHES && fetches > 0 {
                    policy.after(self, (now.context, now.thread), line, true, fetches);
                }
                continue;
            }
            let step = policy.before(self, now.context, now.thread, line);
            if step != Step::Stay {
                return step;
            }
            let (hit, stall) = self.chip.fetch(now.core, line, now.time);
            now.time += stall;
            now.last_line = line;
            now.pending.line += 1;
            let step = policy.after(self, (now.context, now.thread), line, hit, fetches.max(1));
            if step != Step::Stay {
                return step;
            }
        }
        Step::Stay
    }

    /// The fetches of a block's bytes in its next line, without one that the block before has made.
    #[inline]
    fn count_fetches(&mut self, context: usize, pending: Pending) -> u32 {
        let block = &self.code.blocks[pending.block as usize];
        let start = self.fetch_of(block.address.max(pending.line * 64));
        let end = (block.address + u64::from(block.bytes.max(1)) - 1).min(pending.line * 64 + 63);
        let end = self.fetch_of(end);
        let last = std::mem::replace(&mut self.contexts[context].last_fetch, end);
        (end - start + 1) as u32 - u32::from(start == last)
    }

    /// The number of the fetch that has an address.
    #[inline]
    fn fetch_of(&self, address: u64) -> u64 {
        match self.settings.fetch_bytes {
            // Most machines: no division.
            16 => address / 16,
            width => address / width,
        }
    }

    fn end<P: Policy>(&mut self, context: usize, thread: usize, policy: &mut P) {
        let now = self.contexts[context].time;
        self.vacate(context);
        self.now = now;
        self.slots[self.threads[thread].slot as usize] = false;
        self.outcome.transactions += 1;
        let latency = now - self.threads[thread].entered;
        self.outcome.latency += latency;
        self.outcome.latencies.push(latency);
        self.outcome.cycles = self.outcome.cycles.max(now - self.outcome.start);
        if self.outcome.warmed == 0 && self.outcome.transactions == self.settings.warm {
            let (warmed, start) = (self.outcome.transactions, self.latest());
            self.outcome = Outcome { warmed, start, ..Outcome::default() };
            self.chip.tally = Tally::default();
            self.waiting.extend(self.later.drain(..));
            self.contexts.iter_mut().for_each(|context| context.time = start);
            self.now = start;
        }
        policy.left(self, context, thread, true);
    }

    fn vacate(&mut self, context: usize) {
        self.contexts[context].running = None;
        self.earliest.set(context, f64::INFINITY);
        self.active[self.contexts[context].core] -= 1;
    }

    /// Moves a transaction to the end of a queue. Each of the two contexts bears half of the cost.
    fn switch<P: Policy>(&mut self, context: usize, thread: usize, step: Step, policy: &mut P) {
        let target = match step {
            Step::To(target) => target,
            _ => context,
        };
        self.vacate(context);
        self.now = self.contexts[context].time;
        // Alone in its queue, the transaction just goes on.
        if target != context || !self.contexts[context].queue.is_empty() {
            let cost = self.chip.shared.switch_cycles;
            self.chip.carry(self.threads[thread].slot);
            self.outcome.switches += 1;
            self.threads[thread].switches += 1;
            self.outcome.most_switches = self.outcome.most_switches.max(self.threads[thread].switches);
            self.outcome.switch_cycles += cost;
            self.outcome.busy += cost / 2.0;
            self.contexts[context].time += cost / 2.0;
            self.threads[thread].ready = self.contexts[context].time + cost / 2.0;
        }
        self.contexts[target].queue.push_back(thread);
        policy.left(self, context, thread, false);
    }
}
