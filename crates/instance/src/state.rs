//! What a worker remembers of distributed transactions: those at home here, and its parts of others'.

use crate::links::{LinkId, Peer};
use base::{Gtid, InstanceId, Lsn};
use exec::NoteId;
use exec::Visit;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::task::Waker;
use twophase::coordinator::{Effects, Event, Phase};
use twophase::{Coordinator, LockPoint, Message, Participant};
use wire::Ride;

/// Values by transaction. Their numbers are dealt out by this deployment's instances, so no key is needed to keep an enemy from
/// choosing them.
pub(crate) type ByGtid<T> = HashMap<Gtid, T, BuildHasherDefault<NumberHash>>;

/// Multiplies and folds what it is given, number by number.
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

/// A distributed transaction whose home is this worker.
pub(crate) struct Home {
    pub machine: Coordinator,
    /// The next step is the task's: append the commit record, with a note for these participants or none.
    pub log_commit: Option<twophase::Instances>,
    pub aborted: bool,
    pub note: Option<NoteId>,
    pub waker: Option<Waker>,
    pub since_ns: u64,
    /// From then on it is not decided Commit any more.
    pub until_ns: u64,
}

/// A commit of a remote transaction that is acknowledged once it is durable.
pub(crate) struct PendingAck {
    pub lsn: Lsn,
    pub gtid: Gtid,
    pub link: Option<LinkId>,
}

impl Home {
    /// To be made before the first step leaves; given up after so long.
    pub(crate) fn new(machine: Coordinator, give_up_ns: u64) -> Home {
        let since_ns = world::now_ns();
        let until_ns = since_ns.saturating_add(give_up_ns);
        Home { machine, log_commit: None, aborted: false, note: None, waker: None, since_ns, until_ns }
    }

    /// Tells the coordinator what happened. Of a transaction whose time is over it is told that
    /// instead: none is decided Commit later, on which a peer's next life relies that could not
    /// announce itself ([`opening`](crate::opening)).
    pub(crate) fn on(&mut self, event: Event, now_ns: u64) -> Effects {
        self.machine.on(if self.is_overdue(now_ns) { Event::Timeout } else { event })
    }

    /// The same, of a message.
    pub(crate) fn receive(&mut self, from: InstanceId, message: Message, now_ns: u64) -> Effects {
        if self.is_overdue(now_ns) {
            return self.machine.on(Event::Timeout);
        }
        self.machine.receive(from, message)
    }

    /// Whether it is undecided and has had its time.
    pub(crate) fn is_overdue(&self, now_ns: u64) -> bool {
        let undecided = matches!(self.machine.phase(), Phase::Running | Phase::Voting);
        undecided && now_ns >= self.until_ns
    }
}

/// One remote transaction's part at this worker.
pub(crate) struct Session<P> {
    pub machine: Participant,
    pub part: Option<P>,
    /// Where its requests come from; `None` after a restart or when that link broke.
    pub link: Option<LinkId>,
    /// To be rolled back as soon as the task that serves it is back.
    pub cancelled: bool,
    pub since_ns: u64,
}

/// A request that waits for a task.
pub(crate) enum Job<P> {
    /// From another worker of the instance.
    Visit(Visit<P>),
    Steps {
        link: LinkId,
        call: u32,
        gtid: Gtid,
        ride: Ride,
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
        // By the last vote, when that comes as a message.
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
        // A hash table chooses a place by the low bits and tells its neighbours apart by the high ones.
        assert_eq!(distinct(|hash| hash), hashes.len());
        assert!(distinct(|hash| hash & 0x3fff) > 7_000, "of 12,000 in 16,384 places");
        assert_eq!(distinct(|hash| hash >> 57), 128);
    }
}
