//! Parts of a worker's state: the distributed transactions that it knows (coordinators of those
//! that have their home here, sessions of those that have it elsewhere), the requests that wait for
//! a task, the tasks of its load, and those that wait for the log.

use crate::links::{LinkId, Peer};
use crate::source::Source;
use base::{Gtid, InstanceId, Lsn};
use exec::NoteId;
use exec::Visit;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::task::Waker;
use twophase::coordinator::{Effects, Event, Phase};
use twophase::{Coordinator, LockPoint, Message, Participant};
use txn::Workload;
use wire::Piggyback;

/// Values by transaction. The numbers are assigned by this deployment's instances, so the hash
/// needs no secret key against chosen collisions.
pub(crate) type ByGtid<T> = HashMap<Gtid, T, BuildHasherDefault<NumberHash>>;

/// A hash of numbers: multiplies, then folds the two halves of the product.
#[derive(Default)]
pub(crate) struct NumberHash(u64);

impl NumberHash {
    #[inline]
    fn add(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for NumberHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.add(byte.into()));
    }

    fn write_u16(&mut self, number: u16) {
        self.add(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.add(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }
}

/// The distributed transactions that one worker knows. `P` is a local transaction.
pub(crate) struct Distributed<P> {
    /// Coordinators of those that have their home at this worker.
    pub homes: RefCell<ByGtid<Home>>,
    /// Participants at this worker.
    pub sessions: RefCell<ByGtid<Session<P>>>,
    /// Commits that are acknowledged once they are durable, oldest first.
    pub acks: RefCell<VecDeque<PendingAck>>,
    /// The number of the next transaction, before the worker's bits are added.
    pub next_number: Cell<u64>,
}

impl<P> Default for Distributed<P> {
    fn default() -> Self {
        Distributed {
            homes: RefCell::default(),
            sessions: RefCell::default(),
            acks: RefCell::default(),
            next_number: Cell::new(1),
        }
    }
}

/// A distributed transaction that has its home at this worker.
pub(crate) struct Home {
    pub machine: Coordinator,
    /// Set when the task has to append the commit record, with a note for these participants;
    /// without a note if there are none.
    pub log_commit: Option<twophase::Instances>,
    pub aborted: bool,
    pub note: Option<NoteId>,
    pub waker: Option<Waker>,
    pub since_ns: u64,
    /// After this time the transaction is never decided Commit.
    pub until_ns: u64,
}

/// A local commit of a participant, to be acknowledged once it is durable.
pub(crate) struct PendingAck {
    pub lsn: Lsn,
    pub gtid: Gtid,
    pub link: Option<LinkId>,
}

impl Home {
    /// To be made before the first step leaves. The transaction is given up `give_up_ns` later.
    pub(crate) fn new(machine: Coordinator, give_up_ns: u64) -> Home {
        let since_ns = world::now_ns();
        let until_ns = since_ns.saturating_add(give_up_ns);
        Home { machine, log_commit: None, aborted: false, note: None, waker: None, since_ns, until_ns }
    }

    /// Feeds the coordinator an event. A transaction that is overdue gets [`Event::Timeout`]
    /// instead, so that it is not decided Commit late. The next life of a peer that could not
    /// announce itself relies on this ([`opening`](crate::opening)).
    pub(crate) fn on(&mut self, event: Event, now_ns: u64) -> Effects {
        self.machine.on(if self.is_overdue(now_ns) { Event::Timeout } else { event })
    }

    /// As [`Home::on`], for a message.
    pub(crate) fn receive(&mut self, from: InstanceId, message: Message, now_ns: u64) -> Effects {
        if self.is_overdue(now_ns) {
            return self.machine.on(Event::Timeout);
        }
        self.machine.receive(from, message)
    }

    /// Whether the transaction is undecided at its deadline.
    pub(crate) fn is_overdue(&self, now_ns: u64) -> bool {
        let undecided = matches!(self.machine.phase(), Phase::Running | Phase::Voting);
        undecided && now_ns >= self.until_ns
    }
}

/// A participant: one remote transaction's local part at this worker.
pub(crate) struct Session<P> {
    pub machine: Participant,
    pub txn: Option<P>,
    /// The link on which its requests come; `None` after a restart, or when that link broke.
    pub link: Option<LinkId>,
    /// To be rolled back as soon as the task that serves it puts the local transaction back.
    pub cancelled: bool,
    pub since_ns: u64,
}

impl<P> Session<P> {
    pub fn new(gtid: Gtid, link: LinkId) -> Session<P> {
        let (machine, since_ns) = (Participant::new(gtid), world::now_ns());
        Session { machine, txn: None, link: Some(link), cancelled: false, since_ns }
    }
}

/// Requests that wait for a task, and tasks that wait for requests.
pub(crate) struct JobQueue<P> {
    /// Oldest first.
    pub waiting: RefCell<VecDeque<Job<P>>>,
    /// Tasks that wait for jobs.
    pub idle: RefCell<Vec<Waker>>,
    /// A task has been woken or spawned for the first job and has not taken it yet.
    pub summoned: Cell<bool>,
}

impl<P> Default for JobQueue<P> {
    fn default() -> Self {
        JobQueue { waiting: RefCell::default(), idle: RefCell::default(), summoned: Cell::default() }
    }
}

/// The workload's present options, and the first of the streams that are drawn under them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Mix {
    /// Counted up whenever the options change.
    pub number: u32,
    /// Workloads number their requests by the low 24 bits of their stream. The caller keeps the
    /// streams of its seeds apart, by instance, by call and by mix, and leaves room for the clients
    /// of one instance.
    pub seed: u64,
}

/// The tasks of the load inside one worker.
pub(crate) struct ClientTasks<W: Workload> {
    /// Set by `Halt`, cleared by `Drive`: clients end at their next request.
    pub halting: Cell<bool>,
    /// The number of tasks that have not ended.
    pub running: Cell<usize>,
    /// The workload's present options.
    pub mix: Cell<Mix>,
    /// Of an open loop.
    pub source: RefCell<Option<Source<W>>>,
}

impl<W: Workload> Default for ClientTasks<W> {
    fn default() -> Self {
        ClientTasks {
            halting: Cell::default(),
            running: Cell::default(),
            mix: Cell::default(),
            source: RefCell::default(),
        }
    }
}

/// The tasks of one worker that wait for the log.
#[derive(Default)]
pub(crate) struct LogWaits {
    /// How many there are.
    pub tasks: Cell<usize>,
    /// A task has begun to wait since the last flush was requested.
    pub unflushed: Cell<bool>,
}

/// A request that waits for a task.
pub(crate) enum Job<P> {
    /// From another worker of the instance.
    Visit(Visit<P>),
    Steps {
        link: LinkId,
        call: u32,
        gtid: Gtid,
        piggyback: Piggyback,
        steps: Vec<u8>,
    },
    Prepare {
        link: LinkId,
        gtid: Gtid,
        lock_point: LockPoint,
    },
    Submit {
        link: LinkId,
        from: Peer,
        call: u64,
        request: Vec<u8>,
    },
    /// A message for a conversation that is not open. It may be that its request is still in this
    /// queue, before the message.
    More {
        link: LinkId,
        call: u64,
        message: Vec<u8>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::InstanceId;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    #[test]
    fn nothing_is_decided_when_time_is_over() {
        use twophase::coordinator::{Effect, Request};
        use twophase::{Decision, Vote};
        let (gtid, peer) = (Gtid { home: InstanceId(0), life: 1, number: 1 << 10 }, InstanceId(1));
        const TIME_NS: u64 = 1_000_000_000;
        for (late_ns, commits) in [(TIME_NS - 1, true), (TIME_NS, false)] {
            let mut home = Home::new(Coordinator::new(gtid), TIME_NS);
            let now = home.since_ns + late_ns;
            home.machine.request(peer, Request::LastSteps(LockPoint::Ahead)).unwrap();
            home.on(Event::Voted { from: peer, vote: Vote::Yes }, home.since_ns);
            let effects = home.on(Event::LocalReady, now);
            let logs = effects.iter().any(|effect| matches!(effect, Effect::LogCommit { .. }));
            assert_eq!(logs, commits, "{effects:?}");
            let is_aborted = home.machine.phase() == Phase::Done(Decision::Abort);
            assert_eq!(is_aborted, !commits);
        }
        // The same for the last vote, when it arrives as a message.
        let mut home = Home::new(Coordinator::new(gtid), TIME_NS);
        home.machine.request(peer, Request::Steps).unwrap();
        home.on(Event::LocalReady, home.since_ns);
        let vote = Message::Vote { gtid, vote: Vote::Yes };
        home.receive(peer, vote, home.until_ns);
        assert_eq!(home.machine.phase(), Phase::Done(Decision::Abort));
    }

    #[test]
    fn transactions_of_all_homes_and_lives_spread_over_a_table() {
        let state = BuildHasherDefault::<NumberHash>::default();
        let gtid = |home, life, number: u64| Gtid { home: InstanceId(home), life, number: number << 10 };
        let all =
            (0..4).flat_map(|home| (1..4).flat_map(move |life| (0..1000).map(move |n| gtid(home, life, n))));
        let hashes: Vec<u64> = all.map(|gtid| state.hash_one(gtid)).collect();
        let distinct = |of: fn(u64) -> u64| hashes.iter().map(|&hash| of(hash)).collect::<HashSet<_>>().len();
        // A hash table chooses a bucket by the low bits and tells neighbours apart by the high
        // ones.
        assert_eq!(distinct(|hash| hash), hashes.len());
        assert!(distinct(|hash| hash & 0x3fff) > 7_000, "of 12,000 in 16,384 places");
        assert_eq!(distinct(|hash| hash >> 57), 128);
    }
}
