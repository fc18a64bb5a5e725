//! Contexts, their queues, and time. Of the contexts with a transaction, the one that is furthest
//! behind runs next.

use crate::code::Code;
use crate::machine::Machine;
use crate::run::chip::{Chip, Hiding, Tally};
use crate::run::settings::{Scheduler, Settings};
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

    /// Gives transactions to contexts; called whenever one may be idle.
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
    /// The lines of the stack and thread-local data, moved apart for each transaction in flight.
    private: (u64, u64),
    slot: u64,
    /// When a scheduler took it up, and from when on it can run.
    entered: f64,
    ready: f64,
    switches: u32,
    /// The rest of a block's lines, and the bytes from which fetches are counted.
    pending: Option<Pending>,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    block: u32,
    line: u64,
    end: u64,
}

#[derive(Debug)]
pub struct Context {
    pub core: usize,
    pub time: f64,
    pub queue: VecDeque<usize>,
    pub running: Option<usize>,
    last_line: u64,
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
    trace: &'t Trace,
    code: &'t Code,
    slots: Vec<bool>,
    last_end: f64,
    /// Contexts of each core that have a transaction.
    active: Vec<u32>,
    pub outcome: Outcome,
}

impl<'t> Run<'t> {
    /// # Panics
    /// If the machine has no shared cache.
    pub fn new(
        trace: &'t Trace,
        code: &'t Code,
        machine: &Machine,
        settings: &Settings,
        chosen: &[usize],
    ) -> Run<'t> {
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
            last_line: u64::MAX,
            last_fetch: u64::MAX,
        };
        Run {
            chip: Chip::new(machine, settings.cores, hiding),
            contexts: (0..settings.cores * settings.contexts).map(context).collect(),
            threads: Vec::new(),
            settings: settings.clone(),
            waiting: chosen.iter().map(|&number| (number, trace.transactions[number].kind)).collect(),
            trace,
            code,
            slots: Vec::new(),
            last_end: 0.0,
            active: vec![0; settings.cores],
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
            private: transaction.private_lines(),
            slot: slot as u64,
            entered: now,
            ready: now,
            switches: 0,
            pending: None,
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

    /// The transactions that a context has, the running one included.
    pub fn load(&self, context: usize) -> usize {
        self.contexts[context].queue.len() + usize::from(self.contexts[context].running.is_some())
    }

    /// The time at which the last transaction ended.
    pub fn last_end(&self) -> f64 {
        self.last_end
    }

    /// The time of the context that is furthest ahead.
    pub fn latest(&self) -> f64 {
        self.contexts.iter().map(|c| c.time).fold(0.0, f64::max)
    }

    /// Runs all transactions to their ends.
    pub fn all<P: Policy>(mut self, policy: &mut P) -> Outcome {
        loop {
            policy.dispatch(&mut self);
            self.resume_all(policy);
            let running = |c: &(usize, &Context)| c.1.running.is_some();
            let behind = self.contexts.iter().enumerate().filter(running);
            let Some(context) = behind.min_by(|a, b| a.1.time.total_cmp(&b.1.time)).map(|(at, _)| at) else {
                break;
            };
            self.slice(context, policy);
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
            c.last_line = u64::MAX;
            self.active[c.core] += 1;
            policy.resumes(self, context, thread);
        }
    }

    /// Runs a context's transaction until its slice is over, or it leaves.
    fn slice<P: Policy>(&mut self, context: usize, policy: &mut P) {
        let Some(thread) = self.contexts[context].running else { return };
        let start = self.contexts[context].time;
        let until = start + self.settings.slice;
        // Other contexts of the core may have used its caches since.
        self.contexts[context].last_line = u64::MAX;
        let per_instruction = f64::from(self.active[self.contexts[context].core]) / self.chip.shared.ipc;
        let mut step = Step::Stay;
        let mut ended = false;
        while self.contexts[context].time < until {
            step = self.lines(context, thread, policy);
            if step != Step::Stay {
                break;
            }
            match self.threads[thread].events.next() {
                None => {
                    ended = true;
                    break;
                }
                Some(Event::Block(block)) => {
                    let lines = &self.code.blocks[block as usize];
                    self.chip.tally.instructions += u64::from(lines.instructions);
                    self.contexts[context].time += f64::from(lines.instructions) * per_instruction;
                    let end = lines.first + u64::from(lines.lines);
                    self.threads[thread].pending = Some(Pending { block, line: lines.first, end });
                }
                Some(Event::Load(line)) => self.access(context, thread, line, false),
                Some(Event::Store(line)) => self.access(context, thread, line, true),
                Some(Event::Mark(mark)) if mark & END == 0 && is_operation(mark) => {
                    step = policy.operation(self, context, thread, mark);
                    if step != Step::Stay {
                        break;
                    }
                }
                Some(_) => {}
            }
        }
        self.outcome.busy += self.contexts[context].time - start;
        if ended {
            self.end(context, thread, policy);
        } else if step != Step::Stay {
            self.switch(context, thread, step, policy);
        }
    }

    #[inline]
    fn access(&mut self, context: usize, thread: usize, line: u64, store: bool) {
        let t = &self.threads[thread];
        let is_private = line >= t.private.0 && line <= t.private.1;
        let line = if is_private { line + ((t.slot + 1) << 42) } else { line };
        let core = self.contexts[context].core;
        let before = self.chip.tally.data_misses();
        let stall = self.chip.data(core, line, store);
        self.chip.tally.private_misses += u64::from(is_private) * (self.chip.tally.data_misses() - before);
        self.contexts[context].time += stall;
    }

    /// Fetches the pending lines of a block.
    #[inline]
    fn lines<P: Policy>(&mut self, context: usize, thread: usize, policy: &mut P) -> Step {
        while let Some(mut pending) = self.threads[thread].pending {
            if pending.line == pending.end {
                self.threads[thread].pending = None;
                break;
            }
            let line = pending.line;
            let fetches = if P::COUNTS_FETCHES { self.count_fetches(context, pending) } else { 1 };
            if line == self.contexts[context].last_line {
                pending.line += 1;
                self.threads[thread].pending = Some(pending);
                if P::COUNTS_FETCHES && fetches > 0 {
                    policy.after(self, (context, thread), line, true, fetches);
                }
                continue;
            }
            let step = policy.before(self, context, thread, line);
            if step != Step::Stay {
                return step;
            }
            let core = self.contexts[context].core;
            let (hit, stall) = self.chip.fetch(core, line, self.contexts[context].time);
            self.contexts[context].time += stall;
            self.contexts[context].last_line = line;
            pending.line += 1;
            self.threads[thread].pending = Some(pending);
            let step = policy.after(self, (context, thread), line, hit, fetches.max(1));
            if step != Step::Stay {
                return step;
            }
        }
        Step::Stay
    }

    /// The fetches of a block's bytes in its next line, without one that the block before has made.
    fn count_fetches(&mut self, context: usize, pending: Pending) -> u32 {
        let block = &self.code.blocks[pending.block as usize];
        let width = self.settings.fetch_bytes;
        let start = block.address.max(pending.line * 64) / width;
        let end = (block.address + u64::from(block.bytes.max(1)) - 1).min(pending.line * 64 + 63) / width;
        let last = std::mem::replace(&mut self.contexts[context].last_fetch, end);
        (end - start + 1) as u32 - u32::from(start == last)
    }

    fn end<P: Policy>(&mut self, context: usize, thread: usize, policy: &mut P) {
        let now = self.contexts[context].time;
        self.vacate(context);
        self.last_end = now;
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
        }
        policy.left(self, context, thread, true);
    }

    fn vacate(&mut self, context: usize) {
        self.contexts[context].running = None;
        self.active[self.contexts[context].core] -= 1;
    }

    /// Moves a transaction to the end of a queue. Each of the two contexts bears half of the cost.
    fn switch<P: Policy>(&mut self, context: usize, thread: usize, step: Step, policy: &mut P) {
        let target = match step {
            Step::To(target) => target,
            _ => context,
        };
        self.vacate(context);
        // Alone in its queue, the transaction just goes on.
        if target != context || !self.contexts[context].queue.is_empty() {
            let cost = self.chip.shared.switch_cycles;
            self.chip.carry(thread);
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
