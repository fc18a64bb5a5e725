//! The counts and samples of one worker that the balancer collects ([`balance`](super::balance)):
//! steps by site, the queue of other workers' steps, and which sites occur together.
//!
//! Only the worker's own thread touches them. It sends them as [`Loads`] when the balancer asks.

use crate::local::Local;
use crate::shared::Shared;
use exec::Engine;
use partition::{Mode, QueueLength, QueueMeter};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use txn::{Route, Workload};

/// One in this many transactions is sampled, to see which sites occur together.
const DRAWN: u32 = 16;

/// How often two sites of the instance occurred in one transaction; the lower site comes first.
pub(crate) type Meetings = HashMap<(u32, u32), u32>;

/// The counts of one worker since they were last collected.
pub(crate) struct Loads {
    pub worker: usize,
    /// Steps by site, counted from the instance's first site.
    pub steps: Vec<u32>,
    pub queue: QueueLength,
    pub met: Meetings,
}

/// The counts and samples of one worker since the balancer last collected them.
pub(crate) struct Sampling {
    /// Steps of this worker's transactions by site of the instance. Empty where there is no
    /// balancer.
    tallies: Box<[Cell<u32>]>,
    /// Samples of the steps of other workers that wait here.
    queue: Cell<QueueMeter>,
    /// Which sites occurred together, in one of [`DRAWN`] transactions. `None` where placement does
    /// not use it.
    meetings: Option<RefCell<Meetings>>,
    /// Transactions since the start, for the sampling of meetings.
    drawn: Cell<u32>,
}

impl Sampling {
    /// For one worker of an instance.
    pub fn new<W: Workload, E: Engine>(shared: &Shared<W, E>) -> Sampling {
        let watches = E::OWNERS && shared.watches_meetings();
        let tallied = if shared.config.options.balance.mode == Mode::Off { 0 } else { shared.sites() };
        Sampling {
            tallies: (0..tallied).map(|_| Cell::new(0)).collect(),
            queue: Cell::default(),
            meetings: watches.then(RefCell::default),
            drawn: Cell::default(),
        }
    }

    /// Whether steps are counted: there is a balancer.
    #[inline]
    pub fn is_on(&self) -> bool {
        !self.tallies.is_empty()
    }
}

impl<W: Workload, E: Engine> Local<W, E> {
    /// Counts a step of this worker's transactions, for the balancer.
    #[inline]
    pub fn tally(&self, route: Route) {
        if let Some(owner) = self.shared.engine.site_owner(route)
            && let Some(tally) = self.sampling.tallies.get(owner.site as usize)
        {
            tally.set(tally.get().saturating_add(1));
        }
    }

    /// Samples how many steps of other workers wait here, for the balancer.
    #[inline]
    pub fn look_at_queue(&self) {
        if E::OWNERS && self.sampling.is_on() {
            let mut queue = self.sampling.queue.get();
            queue.look(self.shared.engine.waiting(&self.ctx) + self.forwarding.waiting());
            self.sampling.queue.set(queue);
        }
    }

    /// The counts since the last call.
    pub fn loads(&self) -> Loads {
        let Sampling { tallies, queue, meetings, .. } = &self.sampling;
        let mut meter = queue.get();
        let length = meter.take();
        queue.set(meter);
        let steps = tallies.iter().map(|tally| tally.replace(0)).collect();
        let met = meetings.as_ref().map(RefCell::take).unwrap_or_default();
        Loads { worker: self.worker, steps, queue: length, met }
    }

    /// Samples the sites that a transaction visits, for the placement of partitions.
    #[inline]
    pub fn note_meeting(&self, request: &W::Request) {
        if let Some(meetings) = &self.sampling.meetings {
            let drawn = self.sampling.drawn.get().wrapping_add(1);
            self.sampling.drawn.set(drawn);
            if drawn.is_multiple_of(DRAWN) {
                self.draw_meeting(request, meetings);
            }
        }
    }

    #[cold]
    fn draw_meeting(&self, request: &W::Request, meetings: &RefCell<Meetings>) {
        let mut sites: SmallVec<[u32; 8]> = SmallVec::new();
        let mut visit = |route| sites.extend(self.shared.engine.site_owner(route).map(|owner| owner.site));
        self.workload.borrow().routes(request, &mut visit);
        sites.sort_unstable();
        sites.dedup();
        // A transaction that visits more sites than this has no natural home.
        sites.truncate(8);
        let mut meetings = meetings.borrow_mut();
        for (i, &a) in sites.iter().enumerate() {
            sites[i + 1..].iter().for_each(|&b| *meetings.entry((a, b)).or_default() += 1);
        }
    }
}
