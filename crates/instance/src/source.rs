//! Where an open loop's requests come from: arrivals at a rate, or people at terminals; and the queue in which those that are
//! due wait for one of the worker's clerks.
//!
//! ```text
//!   arrivals / timing wheel --due--> waiting (bounded) --> clerk: run it, tell the terminal --> pause --> wheel
//! ```
//!
//! A request is due when it is due, however late a clerk comes: its latency counts from that moment, so that a stall of
//! the engine shows in every request that would have come during it (no coordinated omission). Who waits when the queue is
//! full is refused and counted; a terminal is never refused, for it has one request at most.
//!
//! Only the worker's thread touches it.

use probe::Offered;
use std::collections::VecDeque;
use std::task::Waker;
use traffic::{ArrivalStream, Rate, Thinker, Wheel};
use txn::{Generator, Pauses, Workload};

/// Requests that may wait at one worker: a second's worth for a worker that answers 65,000 a second.
const MOST_WAITING: usize = 1 << 16;

/// A request that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub since_ns: u64,
    /// Whose it is; `None` for an arrival.
    pub terminal: Option<u32>,
}

pub(crate) enum Kind<W: Workload> {
    Arrivals(ArrivalStream),
    Terminals(Box<Terminals<W>>),
}

/// The terminals of one worker, numbered from 0.
pub(crate) struct Terminals<W: Workload> {
    /// What each will send next.
    requests: Vec<Option<W::Request>>,
    wheel: Wheel,
    thinker: Thinker,
    generator: W::Generator,
    /// Site, and number at the site, of each.
    place: Box<dyn Fn(u32) -> (u32, u32)>,
}

impl<W: Workload> Terminals<W> {
    /// So many terminals, as if each had been at it for a while with answers that take no time.
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

    /// Between the answer to `last` and the sending of `next`.
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

pub(crate) struct Source<W: Workload> {
    kind: Kind<W>,
    waiting: VecDeque<Due>,
    offered: Offered,
    /// Clerks without work.
    pub idle: Vec<Waker>,
    pub pump: Option<Waker>,
    /// When the pump looks again by itself; `u64::MAX` if it does not.
    armed_ns: u64,
}

impl<W: Workload> Source<W> {
    pub fn new(kind: Kind<W>) -> Source<W> {
        let (waiting, offered) = (VecDeque::new(), Offered::default());
        Source { kind, waiting, offered, idle: Vec::new(), pump: None, armed_ns: u64::MAX }
    }

    /// Puts what has become due into the queue.
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

    pub fn take(&mut self) -> Option<Due> {
        self.waiting.pop_front()
    }

    /// Clerks that have nothing to do and could have: no more than requests wait.
    pub fn wanted(&mut self) -> std::vec::Drain<'_, Waker> {
        let keep = self.idle.len().saturating_sub(self.waiting.len());
        self.idle.drain(keep..)
    }

    /// When the pump has to be woken next, if no timer does that yet.
    pub fn timer_ns(&mut self, now_ns: u64) -> Option<u64> {
        let next = self.next_ns().unwrap_or(u64::MAX);
        // A timer that is set already wakes it in time or too early; too early costs a look.
        if next < self.armed_ns || self.armed_ns <= now_ns {
            self.armed_ns = next;
            return (next != u64::MAX).then_some(next);
        }
        None
    }

    /// When something becomes due; `None` when all terminals are being served.
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

    /// A terminal has its answer to `last`: it thinks, then keys in its next request.
    pub fn answered(&mut self, workload: &W, terminal: u32, last: &W::Request, now_ns: u64) {
        let Kind::Terminals(terminals) = &mut self.kind else { return };
        let next = terminals.draw(terminal);
        let pause = terminals.pause_ns(workload, last, &next);
        let at_ns = terminals.wheel.arm(terminal, now_ns + pause);
        terminals.requests[terminal as usize] = Some(next);
        // The pump looked when it did not know of this.
        if at_ns < self.armed_ns
            && let Some(pump) = self.pump.take()
        {
            pump.wake();
        }
    }

    /// Another rate from now on.
    pub fn change(&mut self, rate: Rate, now_ns: u64) {
        self.release(now_ns);
        if let Kind::Arrivals(stream) = &mut self.kind {
            stream.change(rate, now_ns);
        }
        if let Some(pump) = self.pump.take() {
            pump.wake();
        }
    }

    /// Other requests from now on; those that terminals hold already are still sent.
    pub fn draw_from(&mut self, generator: W::Generator) {
        if let Kind::Terminals(terminals) = &mut self.kind {
            terminals.generator = generator;
        }
    }

    /// Wakes everybody, to find that it is over.
    pub fn wake_all(&mut self) {
        self.idle.drain(..).chain(self.pump.take()).for_each(Waker::wake);
    }

    /// Ends a window.
    pub fn offered(&mut self, now_ns: u64) -> Offered {
        self.release(now_ns);
        Offered { backlog: self.waiting.len() as u64, ..std::mem::take(&mut self.offered) }
    }
}
