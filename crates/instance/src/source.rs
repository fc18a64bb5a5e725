//! The requests of an open loop: arrivals at a rate, or terminals with pauses; and the queue in
//! which due requests wait for one of the worker's open-loop clients.
//!
//! ```text
//!   arrivals / timing wheel --due--> waiting (bounded)
//!       --> open-loop client runs it, answers the terminal --> pause --> wheel
//! ```
//!
//! The latency of a request counts from the moment at which it is due, however late a client takes
//! it. A stall of the engine therefore shows in every request that arrives during it (no
//! coordinated omission). An arrival that finds the queue full is refused and counted. A terminal
//! is never refused, since it has one request at most.
//!
//! Only the worker's own thread uses it.

use probe::Offered;
use std::collections::VecDeque;
use std::task::Waker;
use traffic::{ArrivalStream, Rate, Thinker, Wheel};
use txn::{Generator, Pauses, Workload};

/// Requests that may wait at one worker: one second's arrivals for a worker that answers 65,000 a
/// second.
const MOST_WAITING: usize = 1 << 16;

/// A request that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub since_ns: u64,
    /// The terminal that sends it; `None` for an arrival.
    pub terminal: Option<u32>,
}

/// The two kinds of open loops.
pub(crate) enum Kind<W: Workload> {
    Arrivals(ArrivalStream),
    Terminals(Box<Terminals<W>>),
}

/// The terminals of one worker, numbered from 0.
pub(crate) struct Terminals<W: Workload> {
    /// The next request of each terminal.
    requests: Vec<Option<W::Request>>,
    wheel: Wheel,
    thinker: Thinker,
    generator: W::Generator,
    /// The site of a terminal, and its number at the site.
    place: Box<dyn Fn(u32) -> (u32, u32)>,
}

impl<W: Workload> Terminals<W> {
    /// Starts `count` terminals, in the state that they have after some time with answers that take
    /// no time.
    pub fn new(
        workload: &W,
        count: u32,
        thinker: Thinker,
        generator: W::Generator,
        place: Box<dyn Fn(u32) -> (u32, u32)>,
        now_ns: u64,
    ) -> Terminals<W> {
        let wheel = Wheel::new(count, now_ns);
        let mut all =
            Terminals { requests: Vec::with_capacity(count as usize), wheel, thinker, generator, place };
        for terminal in 0..count {
            let mut request = all.draw(terminal);
            let mut ahead =
                i128::from(all.pause_ns(workload, &request, &request)) - i128::from(all.thinker.lead_ns());
            while ahead < 0 && workload.pauses(&request).is_some() {
                let next = all.draw(terminal);
                ahead += i128::from(all.pause_ns(workload, &request, &next).max(1));
                request = next;
            }
            all.wheel.arm(terminal, now_ns + ahead.max(0) as u64);
            all.requests.push(Some(request));
        }
        all
    }

    /// The pause between the answer to `last` and the sending of `next`.
    fn pause_ns(&mut self, workload: &W, last: &W::Request, next: &W::Request) -> u64 {
        let (thought, keyed) = (pauses(workload, last).think_s, pauses(workload, next).keying_s);
        self.thinker.pause_ns(thought, keyed)
    }

    fn draw(&mut self, terminal: u32) -> W::Request {
        let (site, number) = (self.place)(terminal);
        self.generator.next_at(site, number)
    }
}

fn pauses<W: Workload>(workload: &W, request: &W::Request) -> Pauses {
    workload.pauses(request).unwrap_or(Pauses { keying_s: 0.0, think_s: 0.0 })
}

/// The source of one worker's requests.
pub(crate) struct Source<W: Workload> {
    kind: Kind<W>,
    /// Requests that are due, oldest first.
    waiting: VecDeque<Due>,
    /// Counts of this window.
    offered: Offered,
    /// Open-loop clients without work.
    pub idle: Vec<Waker>,
    /// Wakes the arrival timer's task.
    pub arrival_timer: Option<Waker>,
    /// When the arrival timer fires next; `u64::MAX` if it is not set.
    armed_ns: u64,
}

impl<W: Workload> Source<W> {
    pub fn new(kind: Kind<W>) -> Source<W> {
        let (waiting, offered) = (VecDeque::new(), Offered::default());
        Source { kind, waiting, offered, idle: Vec::new(), arrival_timer: None, armed_ns: u64::MAX }
    }

    /// Moves the requests that have become due into the queue.
    pub fn release(&mut self, now_ns: u64) {
        let Source { kind, waiting, offered, .. } = self;
        match kind {
            Kind::Arrivals(stream) => {
                while stream.next_ns() <= now_ns {
                    let since_ns = stream.take();
                    offered.requests += 1;
                    if waiting.len() < MOST_WAITING {
                        waiting.push_back(Due { since_ns, terminal: None });
                    } else {
                        offered.refused += 1;
                    }
                }
            }
            Kind::Terminals(terminals) => terminals.wheel.advance(now_ns, |terminal, since_ns| {
                offered.requests += 1;
                waiting.push_back(Due { since_ns, terminal: Some(terminal) });
            }),
        }
    }

    /// The oldest request that is due.
    pub fn take(&mut self) -> Option<Due> {
        self.waiting.pop_front()
    }

    /// Open-loop clients to wake: idle ones, at most as many as requests wait.
    pub fn wanted(&mut self) -> std::vec::Drain<'_, Waker> {
        let keep = self.idle.len().saturating_sub(self.waiting.len());
        self.idle.drain(keep..)
    }

    /// When the arrival timer must fire next, if it is not yet set early enough.
    pub fn timer_ns(&mut self, now_ns: u64) -> Option<u64> {
        let next = self.next_ns().unwrap_or(u64::MAX);
        // A timer that is already set fires in time or too early. Too early costs one poll.
        if next < self.armed_ns || self.armed_ns <= now_ns {
            self.armed_ns = next;
            return (next != u64::MAX).then_some(next);
        }
        None
    }

    /// When the next request becomes due; `None` when all terminals wait for answers.
    fn next_ns(&self) -> Option<u64> {
        match &self.kind {
            Kind::Arrivals(stream) => Some(stream.next_ns()),
            Kind::Terminals(terminals) => terminals.wheel.next_ns(),
        }
    }

    /// The request of a terminal that is due.
    pub fn request_of(&mut self, terminal: u32) -> Option<W::Request> {
        match &mut self.kind {
            Kind::Terminals(terminals) => terminals.requests[terminal as usize].take(),
            Kind::Arrivals(_) => None,
        }
    }

    /// A terminal has its answer to `last`: it pauses to think, then keys in its next request.
    pub fn answered(&mut self, workload: &W, terminal: u32, last: &W::Request, now_ns: u64) {
        let Kind::Terminals(terminals) = &mut self.kind else { return };
        let next = terminals.draw(terminal);
        let pause = terminals.pause_ns(workload, last, &next);
        let at_ns = terminals.wheel.arm(terminal, now_ns + pause);
        terminals.requests[terminal as usize] = Some(next);
        // The arrival timer was set before this request was known.
        if at_ns < self.armed_ns
            && let Some(arrival_timer) = self.arrival_timer.take()
        {
            arrival_timer.wake();
        }
    }

    /// Changes the rate from now on.
    pub fn change(&mut self, rate: Rate, now_ns: u64) {
        self.release(now_ns);
        if let Kind::Arrivals(stream) = &mut self.kind {
            stream.change(rate, now_ns);
        }
        if let Some(arrival_timer) = self.arrival_timer.take() {
            arrival_timer.wake();
        }
    }

    /// Changes the requests from now on. Those that terminals already hold are still sent.
    pub fn draw_from(&mut self, generator: W::Generator) {
        if let Kind::Terminals(terminals) = &mut self.kind {
            terminals.generator = generator;
        }
    }

    /// Wakes all clients and the arrival timer, so that they see the end of the load.
    pub fn wake_all(&mut self) {
        self.idle.drain(..).chain(self.arrival_timer.take()).for_each(Waker::wake);
    }

    /// Ends a window, and returns its counts.
    pub fn offered(&mut self, now_ns: u64) -> Offered {
        self.release(now_ns);
        Offered { backlog: self.waiting.len() as u64, ..std::mem::take(&mut self.offered) }
    }
}
