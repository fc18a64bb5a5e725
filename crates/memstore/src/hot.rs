//! Queues for hot rows: a row at which validation keeps failing is from then on carried out by one transaction after the other,
//! in the order they came, instead of by all at once and again. (After mostly-optimistic concurrency control: Wang and
//! Kimura, VLDB 2017; here a queue per row in place of a lock, and nothing that correctness rests on.)
//!
//! A queue is advice. Whoever writes a hot row, or reads it again after having failed there, first waits for its turn, and
//! keeps it until it has ended or is prepared. Commits lock and validate as ever, so whoever goes on without its turn risks an
//! abort and nothing else: that is how cycles of waiting end. They are waited for long only upwards in the order of queues,
//! and never longer than a few epochs.
//!
//! Who may do what: a row's hot bit (a bit of the word that counts its readers, `guard`) is set and cleared by anybody and
//! read with the row. A queue's entries change under its mutex; its `front` is a copy that those who wait look at.

use crate::arena::Ref;
use crate::epoch::Epochs;
use latch::{CachePadded, SpinMutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// More rows than this are never hot at a time in one store; two rows that share a queue only wait for each other.
const QUEUES: usize = 256;
/// A row is hot after as many failures within [`MEMORY`] epochs: once may be bad luck.
const FAILURES: u64 = 3;
const MEMORY: u64 = 16;
/// And no longer after as many turns in a row that nobody waited behind.
const CALM: u32 = 512;
/// For so many epochs a turn is waited for.
const PATIENCE: u64 = 8;

/// A place in a queue: a number that is never used again, and the worker in the low bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ticket(u64);

const WORKER_BITS: u32 = 16;

impl Ticket {
    pub(crate) fn new(number: u64, worker: usize) -> Ticket {
        Ticket((number + 1) << WORKER_BITS | worker as u64 & ((1 << WORKER_BITS) - 1))
    }
}

/// A transaction's place in the queue of a row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Turn {
    pub(crate) queue: usize,
    pub(crate) row: Ref,
    pub(crate) ticket: Ticket,
    /// The epoch after which it goes on without its turn.
    pub(crate) until: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Mine,
    /// Somebody else's; whether of the same worker, which then cannot wait on the spot.
    Other,
    OwnWorker,
    /// It has been waited for long enough.
    Over,
}

/// What a failure at a row, or a turn that has ended, means for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Now {
    Hot,
    Cold,
    AsBefore,
}

#[derive(Default)]
struct Queue {
    front: AtomicU64,
    /// Epoch of the latest failure, and how many.
    heat: AtomicU64,
    calm: AtomicU32,
    waiting: SpinMutex<VecDeque<Ticket>>,
}

pub(crate) struct Hot {
    queues: Box<[CachePadded<Queue>]>,
}

const COUNT_BITS: u32 = 8;

impl Hot {
    pub(crate) fn new() -> Hot {
        Hot { queues: (0..QUEUES).map(|_| CachePadded::new(Queue::default())).collect() }
    }

    pub(crate) fn queue_of(row: Ref) -> usize {
        (row.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % QUEUES
    }

    /// Validation failed at a row. Counts that may be lost between two are not missed.
    pub(crate) fn failed(&self, row: Ref, now: u64) -> Now {
        let heat = &self.queues[Hot::queue_of(row)].heat;
        let before = heat.load(Ordering::Relaxed);
        let (since, count) = (before >> COUNT_BITS, before & ((1 << COUNT_BITS) - 1));
        let count = if now > since + MEMORY { 1 } else { (count + 1).min(FAILURES) };
        heat.store(now << COUNT_BITS | count, Ordering::Relaxed);
        if count >= FAILURES { Now::Hot } else { Now::AsBefore }
    }

    pub(crate) fn enter(&self, row: Ref, ticket: Ticket, epochs: &Epochs) -> Turn {
        let queue = Hot::queue_of(row);
        let mut waiting = self.queues[queue].waiting.lock();
        waiting.push_back(ticket);
        if waiting.len() == 1 {
            self.queues[queue].front.store(ticket.0, Ordering::Release);
        }
        Turn { queue, row, ticket, until: epochs.now() + PATIENCE }
    }

    #[inline]
    pub(crate) fn state(&self, turn: &Turn, epochs: &Epochs) -> State {
        let front = self.queues[turn.queue].front.load(Ordering::Acquire);
        if front == turn.ticket.0 {
            State::Mine
        } else if epochs.now() > turn.until {
            State::Over
        } else if (front ^ turn.ticket.0) & ((1 << WORKER_BITS) - 1) == 0 {
            State::OwnWorker
        } else {
            State::Other
        }
    }

    /// Ends a turn, or gives up waiting for it.
    pub(crate) fn leave(&self, turn: &Turn) -> Now {
        let queue = &self.queues[turn.queue];
        let mut waiting = queue.waiting.lock();
        waiting.retain(|ticket| *ticket != turn.ticket);
        queue.front.store(waiting.front().map_or(0, |ticket| ticket.0), Ordering::Release);
        let calm = if waiting.is_empty() { queue.calm.load(Ordering::Relaxed) + 1 } else { 0 };
        queue.calm.store(calm % CALM, Ordering::Relaxed);
        if calm == CALM { Now::Cold } else { Now::AsBefore }
    }
}
