//! The coordinator: the home instance's view of a distributed transaction.
//!
//! ```text
//!            LocalReady            all votes in          Logged                all acknowledged
//!   Running -------------> Voting -------------> Logging --------> Telling --------------> Done
//!      |     Prepare to each  |      LogCommit      |     Commit,  |  |        Forget     (Commit)
//!      |     peer not asked   |                     |     Decide   |  | Tick, PeerBack, Inquired:
//!      |     yet; Release     |                     |     Commit,  |  | Decide Commit again
//!      |     to readers       |                     |     Answer   +--+
//!      |                      |                     +--> Done(Commit) if there is no Yes-voter
//!      |                      |                          (Commit, Answer)
//!      +----------------------+--> Done(Abort)
//!        LocalFailed, Vote No, PeerLost of a peer that matters, Timeout:
//!        Abort, Decide Abort once, Answer
//! ```
//!
//! Each peer has its own standing:
//!
//! ```text
//!   Working --asked--> Asked --+--> Yes ----> Acknowledged
//!                              +--> Reader       (Asked, Yes, Reader know the lock point)
//! ```
//!
//! 1. `LogCommit` only when the procedure has ended well and every peer has voted Yes or ReadOnly.
//! 2. `Answer(Commit)` and `Decide(Commit)` only after the commit record, with the list of
//!    Yes-voters, is durable.
//! 3. The list holds Yes-voters only. Readers take no part in the second phase: not listed, not
//!    told, not waited for.
//! 4. `Forget` only after every Yes-voter has acknowledged.
//! 5. Nothing is logged for an abort: no coordinator and no live commit note means abort.
//! 6. No reader is released before the lock point. A peer that is lost before it has lost its read
//!    locks, so the transaction aborts even if that peer had voted. The lock point is reached when
//!    every local transaction, the home's own included, protects its reads: with
//!    [`Holds::FromSteps`] when the last step has run, with [`Holds::FromPrepare`] when the last
//!    one is prepared. A peer may be asked *at* the lock point only if its own prepare completes
//!    it.
//! 7. From `LogCommit` on only `Logged` or a restart moves the machine. After a failed log write
//!    the caller feeds nothing, and the restart finds out whether the record was written.

use crate::message::{CommitNote, Decision, Instances, LockPoint, Message, Vote};
use base::{Gtid, InstanceId};
use smallvec::SmallVec;

/// An event at the home, fed to the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The procedure returned well: every result it waited for is in, and it issues no more steps.
    LocalReady,
    /// The home's own local transaction failed, or the procedure asked for rollback; it is rolled
    /// back already.
    LocalFailed,
    Voted {
        from: InstanceId,
        vote: Vote,
    },
    /// The commit record is durable.
    Logged,
    Acked {
        from: InstanceId,
    },
    Inquired {
        from: InstanceId,
    },
    /// The link to a peer broke, or the peer has restarted. Must be fed before the restarted peer
    /// admits a transaction, unless [`Event::Timeout`] is.
    PeerLost {
        from: InstanceId,
    },
    PeerBack {
        from: InstanceId,
    },
    /// The transaction has run for too long (this also breaks distributed deadlocks). A caller that
    /// relies on a time after which nothing is decided Commit feeds this in place of any later
    /// event.
    Timeout,
    /// Some milliseconds passed in `Telling`. The caller chooses the interval.
    Tick,
}

/// An effect that the caller must carry out, in the order given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    Send {
        to: InstanceId,
        message: Message,
    },
    /// Append the home's own commit record; feed [`Event::Logged`] when it is durable. With
    /// participants, the record carries their [`CommitNote`] (even if the home itself wrote
    /// nothing). With none it is an ordinary local commit.
    LogCommit {
        participants: Instances,
    },
    /// The home's local transaction is committed: release its locks, make its effects final.
    Commit,
    /// Roll the home's local transaction back.
    Abort,
    /// Tell the client. Once per transaction; never after a restart.
    Answer(Decision),
    /// Drop the commit note. Need not be durable at once: forgetting late only resends.
    Forget,
}

pub type Effects = SmallVec<[Effect; 4]>;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    Running,
    Voting,
    Logging,
    Telling,
    Done(Decision),
}

/// The content of a step request to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Request {
    /// Steps; more may follow.
    Steps,
    /// The last steps for this peer, with the prepare request riding on them.
    LastSteps(LockPoint),
}

/// The peer has been asked to prepare, or the transaction is past its lock point: the peer takes no
/// more steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "transaction {gtid} sends steps to {peer:?} after its `last` ones: issue all steps for an instance before its last"
)]
pub struct TooLate {
    pub gtid: Gtid,
    pub peer: InstanceId,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Standing {
    Working,
    Asked(LockPoint),
    Yes(LockPoint),
    Reader(LockPoint),
    Acknowledged,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Peer {
    id: InstanceId,
    standing: Standing,
}

/// The moment from which a peer's local transaction keeps others from changing the rows it has
/// read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Holds {
    /// From its steps on, by locks. The lock point is reached with the last step. The home's own
    /// local transaction protects its reads as the peers do.
    #[default]
    FromSteps,
    /// From its prepare on, by validation. The lock point is reached when the last peer is
    /// prepared. The home's own local transaction is to be validated before [`Event::LocalReady`],
    /// and before a peer is asked at the lock point.
    FromPrepare,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Coordinator {
    gtid: Gtid,
    phase: Phase,
    holds: Holds,
    /// One entry per remote instance that the transaction touched, in the order of first contact.
    peers: SmallVec<[Peer; 8]>,
}

impl Coordinator {
    /// Register it before the first step leaves, where inquiries look it up: an unknown transaction
    /// counts as aborted.
    pub fn new(gtid: Gtid) -> Coordinator {
        Coordinator { gtid, phase: Phase::Running, holds: Holds::default(), peers: SmallVec::new() }
    }

    /// The same coordinator for an engine with this kind of protection.
    #[must_use]
    pub fn holding(self, holds: Holds) -> Coordinator {
        Coordinator { holds, ..self }
    }

    /// From a commit note that was live at restart. Feed [`Event::Tick`] to tell the participants
    /// again.
    pub fn recover(note: &CommitNote) -> Coordinator {
        let told = |&id| Peer { id, standing: Standing::Yes(LockPoint::Reached) };
        Coordinator {
            gtid: note.gtid,
            phase: Phase::Telling,
            holds: Holds::default(),
            peers: note.participants.iter().map(told).collect(),
        }
    }

    pub fn gtid(&self) -> Gtid {
        self.gtid
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The caller may drop the machine: [`reply_unknown`](crate::reply_unknown) answers for it from
    /// then on.
    pub fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done(_))
    }

    /// Whether the transaction has touched another instance.
    pub fn is_distributed(&self) -> bool {
        !self.peers.is_empty()
    }

    pub fn participants(&self) -> impl Iterator<Item = InstanceId> + '_ {
        self.peers.iter().map(|p| p.id)
    }

    /// The note of [`Effect::LogCommit`].
    pub fn note(&self) -> CommitNote {
        CommitNote { gtid: self.gtid, participants: self.yes_voters().collect() }
    }

    /// To be called before a step request goes out to `peer`.
    ///
    /// # Errors
    /// [`TooLate`] when the peer was asked to prepare before, any peer was asked at the lock point,
    /// or the transaction does not run any more.
    ///
    /// # Panics
    /// In debug builds, when the peer is to be asked at the lock point while another peer does not
    /// yet protect its reads (invariant 6).
    pub fn request(&mut self, peer: InstanceId, request: Request) -> Result<(), TooLate> {
        let gtid = self.gtid;
        let standing = match request {
            Request::Steps => Standing::Working,
            Request::LastSteps(lock_point) => Standing::Asked(lock_point),
        };
        let over = self.phase != Phase::Running || self.passed_lock_point();
        if let Request::LastSteps(LockPoint::Reached) = request {
            let others_hold = self.peers.iter().filter(|p| p.id != peer).all(|p| self.holds_now(p.standing));
            debug_assert!(over || others_hold, "{gtid}: asked at the lock point with others behind it");
        }
        match self.peers.iter_mut().find(|p| p.id == peer) {
            _ if over || peer == gtid.home => Err(TooLate { gtid, peer }),
            None => {
                self.peers.push(Peer { id: peer, standing });
                Ok(())
            }
            Some(known) if known.standing == Standing::Working => {
                known.standing = standing;
                Ok(())
            }
            Some(_) => Err(TooLate { gtid, peer }),
        }
    }

    /// Takes a message from a participant.
    pub fn receive(&mut self, from: InstanceId, message: Message) -> Effects {
        match message {
            Message::Vote { vote, .. } => self.on(Event::Voted { from, vote }),
            Message::Ack { .. } => self.on(Event::Acked { from }),
            Message::Inquire { .. } => self.on(Event::Inquired { from }),
            Message::Prepare { .. } | Message::Release { .. } | Message::Decide { .. } => Effects::new(),
        }
    }

    /// One transition. An event without an arrow in the drawing changes nothing: messages come late
    /// and twice.
    pub fn on(&mut self, event: Event) -> Effects {
        let mut out = Effects::new();
        match event {
            Event::LocalReady => self.local_ready(&mut out),
            Event::LocalFailed => self.local_failed(&mut out),
            Event::Voted { from, vote } => self.voted(from, vote, &mut out),
            Event::Logged => self.logged(&mut out),
            Event::Acked { from } => self.acked(from, &mut out),
            Event::Inquired { from } => self.inquired(from, &mut out),
            Event::PeerLost { from } => self.peer_lost(from, &mut out),
            Event::PeerBack { from } => self.tell(&mut out, |id| id == from),
            Event::Timeout => self.abort(&mut out),
            Event::Tick => self.tell(&mut out, |_| true),
        }
        out
    }

    fn local_ready(&mut self, out: &mut Effects) {
        if self.phase != Phase::Running {
            return;
        }
        self.phase = Phase::Voting;
        let is_ahead = match self.holds {
            Holds::FromSteps => self.others_still_run(),
            // The peers asked here are prepared in any order: the reads of the first one count
            // until the last one is prepared.
            Holds::FromPrepare => self.unprepared() > 1,
        };
        let lock_point = if is_ahead { LockPoint::Ahead } else { LockPoint::Reached };
        for peer in &mut self.peers {
            if peer.standing == Standing::Working {
                peer.standing = Standing::Asked(lock_point);
                out.push(send(peer.id, Message::Prepare { gtid: self.gtid, lock_point }));
            }
        }
        self.count(out);
    }

    /// The caller has rolled back the home's local transaction: the peers are told to, and none is
    /// asked again.
    fn local_failed(&mut self, out: &mut Effects) {
        if self.undecided() {
            self.abort_others(out);
        }
    }

    fn voted(&mut self, from: InstanceId, vote: Vote, out: &mut Effects) {
        let gtid = self.gtid;
        if self.phase == Phase::Done(Decision::Abort) {
            if vote == Vote::Yes {
                out.push(send(from, Message::Decide { gtid, decision: Decision::Abort }));
            }
            return;
        }
        if !self.undecided() {
            return;
        }
        let Some(peer) = self.peers.iter_mut().find(|p| p.id == from) else { return };
        match (peer.standing, vote) {
            (Standing::Asked(lock_point), Vote::Yes) => peer.standing = Standing::Yes(lock_point),
            (Standing::Asked(lock_point), Vote::ReadOnly) => peer.standing = Standing::Reader(lock_point),
            (Standing::Asked(_) | Standing::Working, Vote::No) => {
                self.peers.retain(|p| p.id != from);
                return self.abort(out);
            }
            _ => return,
        }
        self.count(out);
    }

    /// In `Voting`: releases the readers once the lock point is reached, and logs once every vote
    /// is in.
    fn count(&mut self, out: &mut Effects) {
        if self.phase != Phase::Voting || !self.all_hold() {
            return;
        }
        for peer in &mut self.peers {
            match peer.standing {
                Standing::Reader(LockPoint::Ahead) => {
                    peer.standing = Standing::Reader(LockPoint::Reached);
                    out.push(send(peer.id, Message::Release { gtid: self.gtid }));
                }
                Standing::Yes(_) => peer.standing = Standing::Yes(LockPoint::Reached),
                _ => {}
            }
        }
        if self.peers.iter().all(|p| !matches!(p.standing, Standing::Asked(_))) {
            self.phase = Phase::Logging;
            out.push(Effect::LogCommit { participants: self.yes_voters().collect() });
        }
    }

    fn logged(&mut self, out: &mut Effects) {
        if self.phase != Phase::Logging {
            return;
        }
        self.phase =
            if self.yes_voters().next().is_some() { Phase::Telling } else { Phase::Done(Decision::Commit) };
        out.push(Effect::Commit);
        self.tell(out, |_| true);
        out.push(Effect::Answer(Decision::Commit));
    }

    fn acked(&mut self, from: InstanceId, out: &mut Effects) {
        if self.phase != Phase::Telling {
            return;
        }
        for peer in self.peers.iter_mut().filter(|p| p.id == from && matches!(p.standing, Standing::Yes(_))) {
            peer.standing = Standing::Acknowledged;
        }
        if self.yes_voters().next().is_none() {
            self.phase = Phase::Done(Decision::Commit);
            out.push(Effect::Forget);
        }
    }

    /// A participant asks for the outcome. While undecided there is none, except for a reader once
    /// the lock point is passed. A restart forgets the readers, so a participant that is not listed
    /// is one.
    fn inquired(&mut self, from: InstanceId, out: &mut Effects) {
        let gtid = self.gtid;
        let standing = self.peers.iter().find(|p| p.id == from).map(|p| p.standing);
        let answer = match (self.phase, standing) {
            (Phase::Done(Decision::Abort), _) => Message::Decide { gtid, decision: Decision::Abort },
            (_, Some(Standing::Reader(LockPoint::Reached))) => Message::Release { gtid },
            (Phase::Telling | Phase::Done(Decision::Commit), None) => Message::Release { gtid },
            (Phase::Telling, Some(Standing::Yes(_))) => Message::Decide { gtid, decision: Decision::Commit },
            _ => return,
        };
        out.push(send(from, answer));
    }

    fn peer_lost(&mut self, from: InstanceId, out: &mut Effects) {
        let safe = |s| matches!(s, Standing::Yes(LockPoint::Reached) | Standing::Reader(LockPoint::Reached));
        if self.peers.iter().any(|p| p.id == from && !safe(p.standing)) {
            self.abort(out);
        }
    }

    fn abort(&mut self, out: &mut Effects) {
        if self.undecided() {
            out.push(Effect::Abort);
            self.abort_others(out);
        }
    }

    fn abort_others(&mut self, out: &mut Effects) {
        self.phase = Phase::Done(Decision::Abort);
        let message = Message::Decide { gtid: self.gtid, decision: Decision::Abort };
        for peer in self.peers.iter().filter(|p| p.standing != Standing::Reader(LockPoint::Reached)) {
            out.push(send(peer.id, message));
        }
        out.push(Effect::Answer(Decision::Abort));
    }

    /// In `Telling`: sends the decision to those of the given Yes-voters that have not acknowledged
    /// it.
    fn tell(&self, out: &mut Effects, whom: impl Fn(InstanceId) -> bool) {
        if self.phase == Phase::Telling {
            let message = Message::Decide { gtid: self.gtid, decision: Decision::Commit };
            out.extend(self.yes_voters().filter(|&id| whom(id)).map(|to| send(to, message)));
        }
    }

    fn undecided(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Voting)
    }

    /// Whether a peer was told that no other step runs or will be sent. Such a peer may have
    /// released its read locks.
    fn passed_lock_point(&self) -> bool {
        use Standing::{Asked, Reader, Yes};
        let told =
            |s| matches!(s, Asked(LockPoint::Reached) | Yes(LockPoint::Reached) | Reader(LockPoint::Reached));
        self.peers.iter().any(|p| told(p.standing))
    }

    /// Whether a peer of this standing protects its reads, if every result that the procedure
    /// waited for is in.
    fn holds_now(&self, standing: Standing) -> bool {
        match standing {
            Standing::Working => self.holds == Holds::FromSteps,
            Standing::Asked(_) => false,
            Standing::Yes(_) | Standing::Reader(_) | Standing::Acknowledged => true,
        }
    }

    /// Whether every peer protects its reads. The home's own local transaction does, once its
    /// procedure has ended well.
    fn all_hold(&self) -> bool {
        match self.holds {
            Holds::FromSteps => !self.others_still_run(),
            Holds::FromPrepare => self.unprepared() == 0,
        }
    }

    /// The number of peers that have not voted.
    fn unprepared(&self) -> usize {
        self.peers.iter().filter(|p| matches!(p.standing, Standing::Working | Standing::Asked(_))).count()
    }

    /// Whether a peer may still be acquiring locks for steps on which the prepare request rode.
    fn others_still_run(&self) -> bool {
        self.peers.iter().any(|p| p.standing == Standing::Asked(LockPoint::Ahead))
    }

    fn yes_voters(&self) -> impl Iterator<Item = InstanceId> + '_ {
        self.peers.iter().filter(|p| matches!(p.standing, Standing::Yes(_))).map(|p| p.id)
    }

    /// Checks the numbered invariants, as far as one machine can see them.
    ///
    /// # Panics
    /// When one does not hold: a bug in this file.
    pub fn check(&self) {
        let all = |ok: fn(Standing) -> bool| self.peers.iter().all(|p| ok(p.standing));
        for (i, peer) in self.peers.iter().enumerate() {
            assert!(peer.id != self.gtid.home, "the home is its own participant");
            assert!(self.peers[..i].iter().all(|p| p.id != peer.id), "{:?} is listed twice", peer.id);
        }
        if self.undecided() && self.passed_lock_point() {
            let last = |s| matches!(s, Standing::Asked(LockPoint::Reached));
            let behind = |p: &Peer| !self.holds_now(p.standing) && !last(p.standing);
            assert!(
                !self.peers.iter().any(behind),
                "invariant 6: told that the lock point is reached before it was"
            );
        }
        match self.phase {
            Phase::Running => assert!(all(|s| s != Standing::Acknowledged), "acknowledged before asked"),
            Phase::Voting => {
                assert!(all(|s| !matches!(s, Standing::Working | Standing::Acknowledged)), "not all asked")
            }
            Phase::Logging => assert!(
                all(|s| matches!(
                    s,
                    Standing::Yes(LockPoint::Reached) | Standing::Reader(LockPoint::Reached)
                )),
                "invariants 1 and 6: logging a commit without every vote, or ahead of the lock point"
            ),
            Phase::Telling => assert!(self.yes_voters().next().is_some(), "telling no participant"),
            Phase::Done(Decision::Commit) => assert!(
                all(|s| matches!(s, Standing::Acknowledged | Standing::Reader(LockPoint::Reached))),
                "invariant 4: forgotten before all have acknowledged"
            ),
            Phase::Done(Decision::Abort) => {
                assert!(all(|s| s != Standing::Acknowledged), "acknowledged an abort")
            }
        }
    }
}

fn send(to: InstanceId, message: Message) -> Effect {
    Effect::Send { to, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: InstanceId = InstanceId(1);
    const B: InstanceId = InstanceId(2);
    const GTID: Gtid = Gtid { home: InstanceId(0), life: 1, number: 1 };

    fn asked(peers: &[InstanceId]) -> Coordinator {
        let mut c = Coordinator::new(GTID);
        for &peer in peers {
            c.request(peer, Request::LastSteps(LockPoint::Ahead)).unwrap();
        }
        c
    }

    #[test]
    fn only_yes_voters_are_listed_and_told() {
        let mut c = asked(&[A, B]);
        assert!(c.on(Event::Voted { from: A, vote: Vote::Yes }).is_empty());
        assert!(c.on(Event::Voted { from: B, vote: Vote::ReadOnly }).is_empty());
        let release = send(B, Message::Release { gtid: GTID });
        let log = Effect::LogCommit { participants: Instances::from_slice(&[A]) };
        assert_eq!(c.on(Event::LocalReady).as_slice(), [release, log]);
        let tell = send(A, Message::Decide { gtid: GTID, decision: Decision::Commit });
        assert_eq!(
            c.on(Event::Logged).as_slice(),
            [Effect::Commit, tell.clone(), Effect::Answer(Decision::Commit)]
        );
        assert_eq!(c.on(Event::Tick).as_slice(), [tell]);
        assert_eq!(c.on(Event::Acked { from: A }).as_slice(), [Effect::Forget]);
        assert!(c.is_done() && c.on(Event::Tick).is_empty());
    }

    const AT_THE_LOCK_POINT: Message = Message::Prepare { gtid: GTID, lock_point: LockPoint::Reached };

    /// The transaction wrote at A in one phase, then read at B in its last: B's reads count until A
    /// is prepared.
    #[test]
    fn a_reader_is_kept_until_the_last_part_is_prepared() {
        let mut c = Coordinator::new(GTID).holding(Holds::FromPrepare);
        c.request(A, Request::Steps).unwrap();
        c.request(B, Request::LastSteps(LockPoint::Ahead)).unwrap();
        assert!(c.on(Event::Voted { from: B, vote: Vote::ReadOnly }).is_empty());
        // A is the last: its own prepare is the lock point, and B is not released before that.
        assert_eq!(c.on(Event::LocalReady).as_slice(), [send(A, AT_THE_LOCK_POINT)]);
        c.check();
        let log = Effect::LogCommit { participants: Instances::from_slice(&[A]) };
        assert_eq!(
            c.on(Event::Voted { from: A, vote: Vote::Yes }).as_slice(),
            [send(B, Message::Release { gtid: GTID }), log]
        );
    }

    #[test]
    fn a_reader_that_is_lost_before_the_last_part_is_prepared_aborts() {
        let mut c = Coordinator::new(GTID).holding(Holds::FromPrepare);
        c.request(A, Request::Steps).unwrap();
        c.request(B, Request::LastSteps(LockPoint::Ahead)).unwrap();
        c.on(Event::Voted { from: B, vote: Vote::ReadOnly });
        c.on(Event::LocalReady);
        let effects = c.on(Event::PeerLost { from: B });
        assert!(effects.contains(&Effect::Abort), "{effects:?}");
    }

    /// Locks are held from the steps on: there B may go, and both are asked at the lock point.
    #[test]
    fn under_locks_the_lock_point_comes_with_the_last_step() {
        let mut c = Coordinator::new(GTID);
        c.request(A, Request::Steps).unwrap();
        c.request(B, Request::LastSteps(LockPoint::Ahead)).unwrap();
        c.on(Event::Voted { from: B, vote: Vote::ReadOnly });
        let release = send(B, Message::Release { gtid: GTID });
        assert_eq!(c.on(Event::LocalReady).as_slice(), [send(A, AT_THE_LOCK_POINT), release]);
    }

    #[test]
    fn two_parts_that_are_prepared_in_any_order_are_asked_ahead_of_the_lock_point() {
        let mut c = Coordinator::new(GTID).holding(Holds::FromPrepare);
        c.request(A, Request::Steps).unwrap();
        c.request(B, Request::Steps).unwrap();
        let ahead = Message::Prepare { gtid: GTID, lock_point: LockPoint::Ahead };
        assert_eq!(c.on(Event::LocalReady).as_slice(), [send(A, ahead), send(B, ahead)]);
        assert!(c.on(Event::Voted { from: A, vote: Vote::ReadOnly }).is_empty());
        let release = send(A, Message::Release { gtid: GTID });
        let log = Effect::LogCommit { participants: Instances::from_slice(&[B]) };
        assert_eq!(c.on(Event::Voted { from: B, vote: Vote::Yes }).as_slice(), [release, log]);
    }

    #[test]
    fn no_peer_is_sent_steps_past_the_lock_point() {
        let mut c = Coordinator::new(GTID);
        c.request(A, Request::LastSteps(LockPoint::Reached)).unwrap();
        assert_eq!(c.request(B, Request::Steps), Err(TooLate { gtid: GTID, peer: B }));
        assert_eq!(c.request(B, Request::LastSteps(LockPoint::Ahead)), Err(TooLate { gtid: GTID, peer: B }));
    }

    #[test]
    fn readers_alone_make_it_a_local_commit() {
        let mut c = Coordinator::new(GTID);
        c.request(A, Request::LastSteps(LockPoint::Reached)).unwrap();
        c.on(Event::Voted { from: A, vote: Vote::ReadOnly });
        assert_eq!(
            c.on(Event::LocalReady).as_slice(),
            [Effect::LogCommit { participants: Instances::new() }]
        );
        assert_eq!(c.on(Event::Logged).as_slice(), [Effect::Commit, Effect::Answer(Decision::Commit)]);
        assert!(c.is_done());
    }

    #[test]
    fn a_transaction_that_stayed_at_home_commits_alone() {
        let mut c = Coordinator::new(GTID);
        assert!(!c.is_distributed());
        assert_eq!(
            c.on(Event::LocalReady).as_slice(),
            [Effect::LogCommit { participants: Instances::new() }]
        );
    }

    #[test]
    fn a_no_aborts_everyone_else_once() {
        let mut c = asked(&[A, B]);
        c.on(Event::Voted { from: A, vote: Vote::Yes });
        let tell = send(A, Message::Decide { gtid: GTID, decision: Decision::Abort });
        assert_eq!(
            c.on(Event::Voted { from: B, vote: Vote::No }).as_slice(),
            [Effect::Abort, tell, Effect::Answer(Decision::Abort)]
        );
        assert!(c.is_done() && c.on(Event::Tick).is_empty() && c.on(Event::Timeout).is_empty());
    }

    #[test]
    fn no_steps_after_the_last_ones() {
        let mut c = asked(&[A]);
        assert_eq!(c.request(A, Request::Steps), Err(TooLate { gtid: GTID, peer: A }));
        assert_eq!(c.request(GTID.home, Request::Steps), Err(TooLate { gtid: GTID, peer: GTID.home }));
        c.on(Event::Timeout);
        assert_eq!(c.request(B, Request::Steps), Err(TooLate { gtid: GTID, peer: B }));
    }
}
