//! Queues for hot rows. A row at which validation keeps failing is hot: from then on transactions
//! take turns at it, in the order of their arrival, instead of all running at once and repeating.
//! (After mostly-optimistic concurrency control: Wang and Kimura, VLDB 2017. The difference: a
//! queue per row in place of a lock, and correctness does not depend on the queue.)
//!
//! The head of a range can be hot as well. Some transactions take rows from a range, such as the
//! oldest of a district's new orders. They fail at another row each time, but they all begin to
//! look at the same key.
//!
//! A queue is advice. A transaction that reads or writes a hot row by its key first waits for its
//! turn, and keeps the turn until it has ended or is prepared. Commits lock and validate in any
//! case, so a transaction that goes on without its turn risks an abort and nothing else. That is
//! how cycles of waiting end: a transaction waits long for a turn only if the queue comes after all
//! its other queues in their order, and never longer than a few epochs.
//!
//! Access rules:
//!
//! - Any thread sets and clears the hot bit of a row. It is a bit of the word that counts the row's
//!   readers (`read_reservation`), and is read together with the row.
//! - A head is hot when its count of failures says so (`heads`), which any thread changes.
//! - A queue's line changes under its mutex. The waiting transactions look only at `open`, which
//!   says up to which place the turn has come.

use crate::arena::Ref;
use base::TableId;
use latch::{CachePadded, Rank, SpinMutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Rows of one table that share a queue wait for each other. That costs time and nothing else.
const QUEUES_OF_TABLE: usize = 64;
/// Tables up to this number have queues of their own, in the order of their numbers. Most
/// procedures go through the tables in one order, from the warehouse to the stock for example, so
/// waiting for queues upwards in this order is the usual case.
const TABLES: usize = 16;
const _: () = assert!(TABLES * QUEUES_OF_TABLE <= 1 << 16);
/// Number of failure counters, for rows and for heads each. Rows with the same hash share one.
const HEATS: usize = 1024;
/// A row or head is hot after this many failures within [`MEMORY`] epochs: one may be bad luck.
const FAILURES: u64 = 3;
const MEMORY: u64 = 16;
/// A row or head is cold again after this many turns in a row for which no transaction had to wait.
const CALM: u32 = 512;
/// The number of epochs that a transaction waits for its turn.
const PATIENCE: u64 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AccessKind {
    /// Consecutive readers in a queue have their turns at the same time.
    Reading,
    Writing,
}

/// The place where turns are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QueueKey {
    Row(Ref),
    Head(Head),
}

/// The key from which transactions look for rows that they will take: a hash of table and key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head(pub(crate) u64);

/// A transaction's place in the queue of a row or head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Turn {
    pub(crate) queue: usize,
    pub(crate) at: QueueKey,
    /// Grows within a queue, from 1 on.
    pub(crate) place: u64,
    worker: usize,
    /// The epoch after which it goes on without its turn.
    pub(crate) until: u64,
    /// The transaction has gone on, with its turn or without it.
    pub(crate) has_begun: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TurnState {
    Mine,
    /// The turn belongs to a transaction of another worker.
    Other,
    /// It belongs to a transaction of the same worker, which then cannot wait on the spot.
    OwnWorker,
    /// It has waited long enough.
    Over,
}

/// The effect of a failure, or of the end of a turn, on a row or head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeatChange {
    Hot,
    Cold,
    AsBefore,
}

struct Queue {
    /// Transactions with a place up to this one have the turn.
    open: AtomicU64,
    /// The worker of the first place.
    worker: AtomicUsize,
    line: SpinMutex<Line>,
}

#[derive(Default)]
struct Line {
    places: VecDeque<Waiting>,
    last: u64,
    /// Turns that have ended since a transaction last had to wait.
    calm: u32,
}

struct Waiting {
    place: u64,
    worker: usize,
    access: AccessKind,
}

impl Queue {
    fn new() -> Queue {
        let line = SpinMutex::ranked(Rank::MemTurns, Line::default());
        Queue { open: AtomicU64::new(0), worker: AtomicUsize::new(0), line }
    }

    /// Publishes the turn: it belongs to the first place and, if that one reads, to the readers
    /// directly behind it.
    fn publish(&self, line: &Line) {
        let Some(first) = line.places.front() else { return };
        let with_it = line.places.iter().take_while(|place| place.access == AccessKind::Reading);
        self.worker.store(first.worker, Ordering::Relaxed);
        self.open.store(with_it.last().map_or(first.place, |last| last.place), Ordering::Release);
    }
}

pub(crate) struct Hot {
    queues: Box<[CachePadded<Queue>]>,
    rows: Heats,
    heads: Heats,
}

/// By hash: the epoch of the latest failure, and the number of failures.
struct Heats(Box<[AtomicU64]>);

const COUNT_BITS: u32 = 8;
const COUNTS: u64 = (1 << COUNT_BITS) - 1;

fn spread(number: u64) -> usize {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

impl QueueKey {
    fn number(self) -> u64 {
        match self {
            QueueKey::Row(row) => row.0,
            QueueKey::Head(head) => head.0,
        }
    }
}

impl Head {
    pub(crate) fn of(table: TableId, key: &[u8]) -> Head {
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        Head(key.iter().fold(u64::from(table.0) | 1 << 63, mix))
    }
}

impl Heats {
    fn new() -> Heats {
        Heats((0..HEATS).map(|_| AtomicU64::new(0)).collect())
    }

    fn of(&self, number: u64) -> &AtomicU64 {
        &self.0[spread(number) % HEATS]
    }

    /// Two workers that count at once may lose one failure. The next failures are counted again.
    fn failed(&self, number: u64, now: u64) -> HeatChange {
        let heat = self.of(number);
        let before = heat.load(Ordering::Relaxed);
        let (since, count) = (before >> COUNT_BITS, before & COUNTS);
        let count = if now > since + MEMORY { 1 } else { (count + 1).min(FAILURES) };
        heat.store(now << COUNT_BITS | count, Ordering::Relaxed);
        if count >= FAILURES { HeatChange::Hot } else { HeatChange::AsBefore }
    }
}

impl Hot {
    pub(crate) fn new() -> Hot {
        Hot {
            queues: (0..TABLES * QUEUES_OF_TABLE).map(|_| CachePadded::new(Queue::new())).collect(),
            rows: Heats::new(),
            heads: Heats::new(),
        }
    }

    pub(crate) fn queue_of(table: TableId, at: QueueKey) -> usize {
        usize::from(table.0) % TABLES * QUEUES_OF_TABLE + spread(at.number()) % QUEUES_OF_TABLE
    }

    /// Notes that validation failed at a row.
    pub(crate) fn failed(&self, row: Ref, now: u64) -> HeatChange {
        self.rows.failed(row.0, now)
    }

    /// Notes that validation failed at a row that a transaction found from this head on. A head
    /// stays hot until [`Hot::cool`], however long ago its last failure was.
    pub(crate) fn failed_from(&self, head: Head, now: u64) {
        if !self.is_hot(head) {
            self.heads.failed(head.0, now);
        }
    }

    pub(crate) fn is_hot(&self, head: Head) -> bool {
        self.heads.of(head.0).load(Ordering::Relaxed) & COUNTS >= FAILURES
    }

    pub(crate) fn cool(&self, head: Head) {
        self.heads.of(head.0).store(0, Ordering::Relaxed);
    }

    pub(crate) fn enter(
        &self,
        queue: usize,
        at: QueueKey,
        access: AccessKind,
        worker: usize,
        now: u64,
    ) -> Turn {
        let to = &self.queues[queue];
        let mut line = to.line.lock();
        line.last += 1;
        let place = line.last;
        line.places.push_back(Waiting { place, worker, access });
        to.publish(&line);
        if place > to.open.load(Ordering::Relaxed) {
            line.calm = 0;
        }
        Turn { queue, at, place, worker, until: now + PATIENCE, has_begun: false }
    }

    #[inline]
    pub(crate) fn state(&self, turn: &Turn, now: u64) -> TurnState {
        let queue = &self.queues[turn.queue];
        if turn.place <= queue.open.load(Ordering::Acquire) {
            TurnState::Mine
        } else if now > turn.until {
            TurnState::Over
        } else if queue.worker.load(Ordering::Relaxed) == turn.worker {
            TurnState::OwnWorker
        } else {
            TurnState::Other
        }
    }

    /// Whether the turn of a place has still to be waited for.
    pub(crate) fn waits(&self, queue: u16, place: u64, until: u64, now: u64) -> bool {
        place > self.queues[usize::from(queue)].open.load(Ordering::Acquire) && now <= until
    }

    /// Ends a turn, or gives up waiting for it.
    pub(crate) fn leave(&self, turn: &Turn) -> HeatChange {
        let queue = &self.queues[turn.queue];
        let mut line = queue.line.lock();
        line.places.retain(|place| place.place != turn.place);
        queue.publish(&line);
        line.calm += 1;
        if line.calm < CALM {
            return HeatChange::AsBefore;
        }
        line.calm = 0;
        HeatChange::Cold
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AccessKind::{Reading, Writing};
    use std::sync::atomic::AtomicI32;

    const ROW: Ref = Ref(8);
    const AT: QueueKey = QueueKey::Row(ROW);

    #[test]
    fn a_line_is_carried_out_in_its_order_and_readers_together() {
        let hot = Hot::new();
        let enter = |worker, access| hot.enter(3, AT, access, worker, 1);
        let line =
            [enter(0, Writing), enter(1, Reading), enter(1, Reading), enter(2, Writing), enter(0, Reading)];
        let states = || line.map(|turn| hot.state(&turn, 1));
        let (mine, other, own) = (TurnState::Mine, TurnState::Other, TurnState::OwnWorker);
        assert_eq!(states(), [mine, other, other, other, own]);
        hot.leave(&line[0]);
        assert_eq!(states()[1..], [mine, mine, other, other]);
        // A reader that comes behind a waiting writer does not overtake it.
        hot.leave(&line[1]);
        assert_eq!(states()[2..], [mine, other, other]);
        // A place that is given up leaves no gap.
        hot.leave(&line[3]);
        assert_eq!(states()[4], mine);
        hot.leave(&line[2]);
        hot.leave(&line[4]);
        assert_eq!(hot.state(&enter(0, Writing), 1), mine);
    }

    #[test]
    fn nobody_waits_longer_than_some_epochs() {
        let hot = Hot::new();
        let [first, second] = [0, 1].map(|worker| hot.enter(0, AT, Writing, worker, 5));
        assert_eq!(hot.state(&second, 5 + PATIENCE), TurnState::Other);
        assert_eq!(hot.state(&second, 6 + PATIENCE), TurnState::Over);
        assert_eq!(hot.state(&first, 6 + PATIENCE), TurnState::Mine);
    }

    #[test]
    fn rows_are_hot_after_failures_close_together_and_cold_after_turns_nobody_waited_for() {
        let hot = Hot::new();
        let spaced = [10, 20, 40, 60, 80].map(|now| hot.failed(ROW, now));
        assert_eq!(spaced, [HeatChange::AsBefore; 5]);
        assert_eq!([80, 81].map(|now| hot.failed(ROW, now)), [HeatChange::AsBefore, HeatChange::Hot]);
        let alone = |n: u32| {
            let ends = (0..n).map(|_| hot.leave(&hot.enter(0, AT, Writing, 0, 1)));
            ends.filter(|end| *end == HeatChange::Cold).count()
        };
        assert_eq!(alone(CALM - 1), 0);
        let [first, second] = [0, 1].map(|worker| hot.enter(0, AT, Writing, worker, 5));
        assert_eq!([first, second].map(|turn| hot.leave(&turn)), [HeatChange::AsBefore; 2]);
        assert_eq!(alone(CALM - 2), 1);
    }

    /// A writer runs alone, readers run without writers, and every thread gets its turn.
    #[test]
    fn threads_have_their_turns() {
        let (hot, inside) = (Hot::new(), AtomicI32::new(0));
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let (hot, inside) = (&hot, &inside);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(worker as u64);
                    for _ in 0..2000 {
                        let access = if random.bool() { Reading } else { Writing };
                        let turn = hot.enter(1, AT, access, worker, 1);
                        let gives_up = random.usize(..8) == 0;
                        while hot.state(&turn, 1) != TurnState::Mine && !gives_up {
                            std::thread::yield_now();
                        }
                        if hot.state(&turn, 1) == TurnState::Mine {
                            let (by, alone) = if access == Writing { (-1000, 0) } else { (1, i32::MAX) };
                            let before = inside.fetch_add(by, Ordering::SeqCst);
                            assert!((0..=alone).contains(&before), "{access:?} beside {before}");
                            std::thread::yield_now();
                            inside.fetch_sub(by, Ordering::SeqCst);
                        }
                        hot.leave(&turn);
                    }
                });
            }
        });
        assert!(hot.queues[1].line.lock().places.is_empty());
    }
}
