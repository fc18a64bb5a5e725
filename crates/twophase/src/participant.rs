//! A participant: the local transaction of a distributed one at a remote instance.
//!
//! ```text
//!            Prepare, wrote          Prepared           Decided(Commit)          Logged
//!   Working ----------------> Preparing -----> InDoubt ----------------> Committing -----> Done
//!    | |     LogPrepare         |     Vote Yes   |          Commit                Ack (Committed)
//!    | |                        |                | Decided(Abort)
//!    | |     LocalFailed (Vote No), Decided(Abort) or
//!    | +---- PeerLost ---------------------------+-----> Done(Aborted)
//!    |
//!    |     Prepare, wrote nothing                Released or Decided
//!    +--------------------------------> Reading ---------------------> Done(Read)
//!         Vote ReadOnly        (lock point ahead)       Release
//!         (lock point reached: straight to Done(Read))
//! ```
//!
//! 1. `Vote Yes` leaves only after the prepare record is durable.
//! 2. After `Vote Yes` only a decision of its home ends the participant: no time-out, lost link or
//!    restart does.
//! 3. Before `Vote Yes` it may roll back at any moment, by itself.
//! 4. `Ack` leaves only after the local commit record is durable: the home forgets on it, and from
//!    then on presumes abort.
//! 5. Read locks are kept until the transaction's lock point, also across a lost link.
//! 6. A restart keeps `InDoubt` (from its prepare record) and no other state: a participant without
//!    a durable prepare record is rolled back, one with a durable commit record is done.

use crate::message::{Decision, LockPoint, Message, Vote};
use base::{Gtid, InstanceId};
use smallvec::SmallVec;

/// An event at the participant, fed to the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The prepare request, alone or riding on steps, after every step here has succeeded.
    Prepare {
        wrote: Wrote,
        lock_point: LockPoint,
    },
    /// A step failed, or the prepare record could not be written; the local transaction is rolled
    /// back already.
    LocalFailed,
    /// The prepare record is durable.
    Prepared,
    Decided(Decision),
    /// The transaction holds all its locks: a reader may release its own.
    Released,
    /// The local commit record is durable.
    Logged,
    /// The link to the home broke.
    PeerLost,
    /// Some milliseconds passed without a message. The caller chooses the interval.
    Tick,
}

/// Whether the transaction has written anything here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrote {
    Nothing,
    Something,
}

/// An effect that the caller must carry out, in the order given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Send a message to the home.
    Send { to: InstanceId, message: Message },
    /// Append the prepare record with its note; feed [`Event::Prepared`] when it is durable. Read
    /// locks may be released with it only if the lock point is reached.
    LogPrepare { lock_point: LockPoint },
    /// Append the commit record and release the locks; feed [`Event::Logged`] when it is durable.
    Commit,
    /// Roll back and release the locks. A step that still runs here has to be stopped first.
    Abort,
    /// Release the read locks; nothing is logged.
    Release,
}

pub type Effects = SmallVec<[Effect; 2]>;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ParticipantState {
    /// Its steps run, or it waits for the next ones.
    Working,
    /// The prepare record is appended and not yet durable; no vote has been given.
    Preparing,
    /// Voted Yes. Also the state after a restart that finds the prepare record without an outcome.
    InDoubt,
    /// Voted ReadOnly ahead of the lock point: it keeps its read locks.
    Reading,
    /// Told to commit; the commit record is not yet durable.
    Committing,
    Done(End),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum End {
    Committed,
    Aborted,
    Read,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Participant {
    gtid: Gtid,
    state: ParticipantState,
}

impl Participant {
    /// For the first step of `gtid` at this instance.
    pub fn new(gtid: Gtid) -> Participant {
        Participant { gtid, state: ParticipantState::Working }
    }

    /// For a prepare record without an outcome, found by restart. Feed [`Event::Tick`] to send the
    /// first inquiry.
    pub fn recover(gtid: Gtid) -> Participant {
        Participant { gtid, state: ParticipantState::InDoubt }
    }

    pub fn gtid(&self) -> Gtid {
        self.gtid
    }

    pub fn state(&self) -> ParticipantState {
        self.state
    }

    /// The caller may drop the machine: [`reply_unknown`](crate::reply_unknown) answers for it from
    /// then on.
    pub fn is_done(&self) -> bool {
        matches!(self.state, ParticipantState::Done(_))
    }

    /// Whether it has voted Yes and does not know the outcome.
    pub fn is_in_doubt(&self) -> bool {
        self.state == ParticipantState::InDoubt
    }

    /// Takes a message to this participant. Only `Prepare` uses `wrote`.
    pub fn receive(&mut self, message: Message, wrote: Wrote) -> Effects {
        match message {
            Message::Prepare { lock_point, .. } => self.on(Event::Prepare { wrote, lock_point }),
            Message::Release { .. } => self.on(Event::Released),
            Message::Decide { decision, .. } => self.on(Event::Decided(decision)),
            Message::Vote { .. } | Message::Ack { .. } | Message::Inquire { .. } => Effects::new(),
        }
    }

    /// One transition. An event without an arrow in the drawing changes nothing: messages come late
    /// and twice.
    pub fn on(&mut self, event: Event) -> Effects {
        use ParticipantState::{Committing, Done, InDoubt, Preparing, Reading, Working};
        match (self.state, event) {
            (Working, Event::Prepare { wrote: Wrote::Something, lock_point }) => {
                self.go(Preparing, [Effect::LogPrepare { lock_point }])
            }
            (Working, Event::Prepare { wrote: Wrote::Nothing, lock_point: LockPoint::Ahead }) => {
                self.go(Reading, [self.vote(Vote::ReadOnly)])
            }
            (Working, Event::Prepare { wrote: Wrote::Nothing, lock_point: LockPoint::Reached }) => {
                self.go(Done(End::Read), [self.vote(Vote::ReadOnly), Effect::Release])
            }
            (Preparing, Event::Prepared) => self.go(InDoubt, [self.vote(Vote::Yes)]),
            (Working | Preparing, Event::LocalFailed) => self.go(Done(End::Aborted), [self.vote(Vote::No)]),

            (Working | Preparing, Event::PeerLost)
            | (Working | Preparing | InDoubt, Event::Decided(Decision::Abort)) => {
                self.go(Done(End::Aborted), [Effect::Abort])
            }
            (InDoubt, Event::Decided(Decision::Commit)) => self.go(Committing, [Effect::Commit]),
            (Reading, Event::Released | Event::Decided(_)) => self.go(Done(End::Read), [Effect::Release]),
            (Committing, Event::Logged) => {
                self.go(Done(End::Committed), [self.send(Message::Ack { gtid: self.gtid })])
            }

            // A repeated message: the first answer may have been lost.
            (InDoubt, Event::Prepare { .. }) => self.go(InDoubt, [self.vote(Vote::Yes)]),
            (Done(End::Committed), Event::Decided(Decision::Commit)) => {
                self.go(self.state, [self.send(Message::Ack { gtid: self.gtid })])
            }
            (Working | InDoubt | Reading, Event::Tick) => {
                self.go(self.state, [self.send(Message::Inquire { gtid: self.gtid })])
            }
            _ => Effects::new(),
        }
    }

    fn go<const N: usize>(&mut self, to: ParticipantState, effects: [Effect; N]) -> Effects {
        self.state = to;
        effects.into_iter().collect()
    }

    fn vote(&self, vote: Vote) -> Effect {
        self.send(Message::Vote { gtid: self.gtid, vote })
    }

    fn send(&self, message: Message) -> Effect {
        Effect::Send { to: self.gtid.home, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: InstanceId = InstanceId(0);
    const GTID: Gtid = Gtid { home: HOME, life: 1, number: 1 };

    fn to_home(message: Message) -> Effect {
        Effect::Send { to: HOME, message }
    }

    #[test]
    fn nothing_leaves_before_its_record_is_durable() {
        let mut p = Participant::new(GTID);
        let prepare = Message::Prepare { gtid: GTID, lock_point: LockPoint::Reached };
        let log = Effect::LogPrepare { lock_point: LockPoint::Reached };
        assert_eq!(p.receive(prepare, Wrote::Something).as_slice(), [log]);
        assert_eq!(
            p.on(Event::Prepared).as_slice(),
            [to_home(Message::Vote { gtid: GTID, vote: Vote::Yes })]
        );
        let commit = Message::Decide { gtid: GTID, decision: Decision::Commit };
        assert_eq!(p.receive(commit, Wrote::Something).as_slice(), [Effect::Commit]);
        assert_eq!(p.on(Event::Logged).as_slice(), [to_home(Message::Ack { gtid: GTID })]);
        assert!(p.is_done());
    }

    #[test]
    fn in_doubt_only_the_home_decides() {
        let mut p = Participant::recover(GTID);
        for event in [Event::PeerLost, Event::LocalFailed, Event::Logged, Event::Prepared, Event::Released] {
            assert!(p.on(event).is_empty() && p.is_in_doubt(), "{event:?}");
        }
        assert_eq!(p.on(Event::Tick).as_slice(), [to_home(Message::Inquire { gtid: GTID })]);
        assert_eq!(p.on(Event::Decided(Decision::Abort)).as_slice(), [Effect::Abort]);
    }

    #[test]
    fn a_commit_that_was_never_promised_is_not_taken() {
        let mut p = Participant::new(GTID);
        assert!(p.on(Event::Decided(Decision::Commit)).is_empty());
        assert_eq!(p.state(), ParticipantState::Working);
    }
}
