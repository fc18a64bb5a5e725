//! The counts and samples of one worker that the balancer collects ([`balance`](super::balance)):
//! steps by site, the queue of other workers' steps, and which sites occur together.
//!
//! Only the worker's own thread touches them. It sends them as [`Loads`] when the balancer asks.

use partition::{QueueLength, QueueMeter};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

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
    /// Counts steps at `sites` sites, or none; and `watches` which sites occur together, or not.
    pub fn new(sites: Option<usize>, watches: bool) -> Sampling {
        Sampling {
            tallies: (0..sites.unwrap_or(0)).map(|_| Cell::new(0)).collect(),
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

    /// Counts a step at a site.
    #[inline]
    pub fn tally(&self, site: u32) {
        if let Some(tally) = self.tallies.get(site as usize) {
            tally.set(tally.get().saturating_add(1));
        }
    }

    /// Samples the number of other workers' steps that wait here.
    #[inline]
    pub fn look_at_queue(&self, waiting: usize) {
        let mut queue = self.queue.get();
        queue.look(waiting);
        self.queue.set(queue);
    }

    /// Counts a transaction. Returns the meetings if this one is to be sampled
    /// ([`Sampling::enter`]).
    #[inline]
    pub fn draw(&self) -> Option<&RefCell<Meetings>> {
        let meetings = self.meetings.as_ref()?;
        let drawn = self.drawn.get().wrapping_add(1);
        self.drawn.set(drawn);
        drawn.is_multiple_of(DRAWN).then_some(meetings)
    }

    /// Enters the sites that one transaction visits.
    pub fn enter(meetings: &RefCell<Meetings>, mut sites: SmallVec<[u32; 8]>) {
        sites.sort_unstable();
        sites.dedup();
        // A transaction that visits more sites than this has no natural home.
        sites.truncate(8);
        let mut meetings = meetings.borrow_mut();
        for (i, &a) in sites.iter().enumerate() {
            sites[i + 1..].iter().for_each(|&b| *meetings.entry((a, b)).or_default() += 1);
        }
    }

    /// The counts since the last call, of this worker.
    pub fn take(&self, worker: usize) -> Loads {
        let mut queue = self.queue.get();
        let length = queue.take();
        self.queue.set(queue);
        let steps = self.tallies.iter().map(|tally| tally.replace(0)).collect();
        let met = self.meetings.as_ref().map(RefCell::take).unwrap_or_default();
        Loads { worker, steps, queue: length, met }
    }
}
