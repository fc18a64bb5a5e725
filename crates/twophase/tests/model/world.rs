//! One distributed transaction in a hostile world: the real machines, a log per node that can lose
//! its tail, a network that loses, repeats and reorders, and a budget for each kind of fault.
//!
//! This file carries out on plain values all effects that the crate above would carry out. So a
//! planted [`Bug`] is a wrong action of that crate (or of a wrong machine), not an edit of the code
//! under test.

use base::{Gtid, InstanceId};
use std::collections::BTreeSet;
use twophase::coordinator::{self, Request};
use twophase::participant::{self, Wrote};
use twophase::{
    CommitNote, Coordinator, Decision, Holds, LockPoint, Message, Participant, Vote, WORKER_BITS,
    reply_unknown, worker_of,
};

pub const HOME: u16 = 0;
/// A transaction of the home's worker 3.
pub const GTID: Gtid = Gtid { home: InstanceId(HOME), life: 1, number: 7 << WORKER_BITS | 3 };
/// Workers of a node before its first crash and after it, of the home and of a participant. After a
/// crash the home's own link ends at another worker of a participant than the one that has the
/// machine.
const HOME_WORKERS: [usize; 2] = [4, 2];
const PART_WORKERS: [usize; 2] = [4, 3];

/// How a participant is asked to prepare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rides {
    /// Plain steps; the prepare request is a message of its own.
    Not,
    /// The prepare request rides on steps that run while others run.
    Ahead,
    /// It rides on the very last steps of the transaction.
    Last,
}

#[derive(Clone, Copy, Debug)]
pub struct Role {
    pub rides: Rides,
    pub wrote: Wrote,
}

/// Actions that break the protocol. The checker must find each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    None,
    RollsBackInDoubt,
    AnswersBeforeDurable,
    ForgetsAfterFirstAck,
    VotesBeforeDurable,
    AcksBeforeDurable,
    ReaderReleasesAhead,
    AnswersBeforeNotesAreRead,
    NeverInquires,
    RemembersNobody,
    /// A home is told of a peer's restart, and goes on with reads from before it.
    IgnoresLostReaders,
    /// A participant admits other transactions after a restart before the home knows of it.
    LetsInUnannounced,
    /// A home decides Commit after its time is over.
    DecidesLate,
    /// The readers are released while another local transaction is being prepared (of
    /// [`Holds::FromPrepare`]).
    ReleasesBeforeTheLastPrepare,
    /// The worker at which a message arrives answers, though another has the machine.
    AnswersWhereItArrives,
}

/// How often each kind of fault may happen on one path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Budget {
    pub crashes: u8,
    pub repeats: u8,
    pub losses: u8,
    pub broken_links: u8,
    pub failures: u8,
    pub ticks: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Wire {
    /// Steps, with or without the prepare request on them. At most once; lost with their link.
    Steps(Option<LockPoint>),
    /// The results of steps without a vote.
    Results,
    Protocol(Message),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Packet {
    pub from: u16,
    pub to: u16,
    pub wire: Wire,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Disk {
    Nothing,
    /// In the log buffer: a crash may keep or lose it.
    Appended,
    Durable,
}

/// How much of the appended log a crash leaves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kept {
    Nothing,
    First,
    All,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Home {
    pub up: bool,
    pub machine: Option<Coordinator>,
    /// The state of the commit record.
    pub record: Disk,
    /// The participants that it lists.
    pub list: Vec<InstanceId>,
    pub forgotten: bool,
    /// The notes have not been read yet (only a planted bug answers in this state).
    pub ignorant: bool,
    /// The home's own steps are done.
    pub own_done: bool,
    pub results: u8,
    pub replied: Option<Decision>,
    pub committed: bool,
    pub aborted: bool,
    pub crashed_once: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    pub up: bool,
    pub machine: Option<Participant>,
    pub prepare: Disk,
    pub commit: Disk,
    pub ran: bool,
    /// Whether the reads here are protected: by locks, or by validation. After a crash the closed
    /// gate protects them.
    pub read_locks: bool,
    /// It was prepared, or has voted ReadOnly.
    pub prepared: bool,
    /// It has crashed, and admits no other transaction yet.
    pub closed: bool,
    /// The home has been told of this restart.
    pub announced: bool,
    pub committed: bool,
    pub aborted: bool,
    pub crashed_once: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    pub home: Home,
    pub parts: Vec<Part>,
    pub net: BTreeSet<Packet>,
    pub left: Budget,
    /// Read locks were released while the transaction was still acquiring locks elsewhere.
    pub released_early: bool,
    /// The transaction has run for so long that its home must not decide Commit any more.
    pub overdue: bool,
    pub holds: Protected,
    pub bug: Planted,
    pub roles: Roles,
    pub machines: Machines,
}

/// Constant along a path, so kept out of hashes.
#[derive(Clone, Copy, Debug)]
pub struct Planted(pub Bug);
#[derive(Clone, Copy, Debug)]
pub struct Protected(pub Holds);
#[derive(Clone, Copy, Debug)]
pub struct Roles(pub &'static [Role]);
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    Dropped,
    Kept,
}
/// Whether a machine that is done stays and answers for itself.
#[derive(Clone, Copy, Debug)]
pub struct Machines(pub Ended);

macro_rules! constant {
    ($($t:ty),*) => {$(
        impl PartialEq for $t { fn eq(&self, _: &Self) -> bool { true } }
        impl Eq for $t {}
        impl std::hash::Hash for $t { fn hash<H: std::hash::Hasher>(&self, _: &mut H) {} }
    )*};
}
constant!(Planted, Protected, Roles, Machines);

impl World {
    pub fn new(roles: &'static [Role], holds: Holds, left: Budget, bug: Bug, ended: Ended) -> World {
        let part = Part {
            up: true,
            machine: None,
            prepare: Disk::Nothing,
            commit: Disk::Nothing,
            ran: false,
            read_locks: false,
            prepared: false,
            closed: false,
            announced: false,
            committed: false,
            aborted: false,
            crashed_once: false,
        };
        let home = Home {
            up: true,
            machine: Some(Coordinator::new(GTID).holding(holds)),
            record: Disk::Nothing,
            list: Vec::new(),
            forgotten: false,
            ignorant: false,
            own_done: false,
            results: 0,
            replied: None,
            committed: false,
            aborted: false,
            crashed_once: false,
        };
        let mut world = World {
            home,
            parts: vec![part; roles.len()],
            net: BTreeSet::new(),
            left,
            released_early: false,
            overdue: false,
            holds: Protected(holds),
            bug: Planted(bug),
            roles: Roles(roles),
            machines: Machines(ended),
        };
        for (i, role) in roles.iter().enumerate() {
            match role.rides {
                Rides::Not => world.request(i, None),
                Rides::Ahead => world.request(i, Some(LockPoint::Ahead)),
                Rides::Last => {}
            }
        }
        world
    }

    fn request(&mut self, i: usize, rides: Option<LockPoint>) {
        let machine = self.home.machine.as_mut().expect("the home runs");
        let request = rides.map_or(Request::Steps, Request::LastSteps);
        machine.request(InstanceId(i as u16 + 1), request).expect("asked once");
        let lies = self.bug.0 == Bug::ReaderReleasesAhead;
        let rides = rides.map(|lock_point| if lies { LockPoint::Reached } else { lock_point });
        self.net.insert(Packet { from: HOME, to: i as u16 + 1, wire: Wire::Steps(rides) });
    }

    /// Whether the very last steps may go out: every other result is in.
    pub fn can_send_last(&self, i: usize) -> bool {
        let others = (0..self.parts.len()).filter(|&j| j != i && self.roles.0[j].rides != Rides::Last);
        self.roles.0[i].rides == Rides::Last
            && self.undecided(coordinator::Phase::Running)
            && !self.home.machine.iter().flat_map(Coordinator::participants).any(|p| p.0 == i as u16 + 1)
            && others.into_iter().all(|j| self.home.results & (1 << j) != 0)
    }

    /// Sends the last steps at the lock point, unless other participants protect no reads before
    /// their prepare, which is still to come.
    pub fn send_last(&mut self, i: usize) {
        let others_to_prepare =
            self.holds.0 == Holds::FromPrepare && self.roles.0.iter().any(|role| role.rides == Rides::Not);
        self.home.own_done |= !others_to_prepare;
        let lock_point = if others_to_prepare { LockPoint::Ahead } else { LockPoint::Reached };
        self.request(i, Some(lock_point));
    }

    pub fn undecided(&self, phase: coordinator::Phase) -> bool {
        self.home.up && self.home.machine.as_ref().is_some_and(|m| m.phase() == phase)
    }

    pub fn can_be_ready(&self) -> bool {
        self.undecided(coordinator::Phase::Running) && self.home.results == (1 << self.parts.len()) - 1
    }

    /// Whether every node protects all reads of the transaction.
    fn lock_point(&self) -> bool {
        let holds = |p: &Part| match self.holds.0 {
            Holds::FromSteps => p.ran,
            Holds::FromPrepare => p.prepared,
        };
        self.home.own_done && self.parts.iter().all(holds)
    }

    fn releases(&mut self, i: usize) {
        self.released_early |= self.parts[i].read_locks && !self.lock_point();
        self.parts[i].read_locks = false;
    }

    // The home.

    pub fn home(&mut self, event: coordinator::Event) {
        if self.time_is_over() {
            return;
        }
        let Some(machine) = self.home.machine.as_mut() else { return };
        let ready = event == coordinator::Event::LocalReady;
        self.home.own_done |= ready;
        let effects = machine.on(event);
        if ready && self.bug.0 == Bug::ReleasesBeforeTheLastPrepare {
            let reads = |i: &usize| self.roles.0[*i].wrote == Wrote::Nothing && self.parts[*i].prepared;
            let readers: Vec<_> = (0..self.parts.len()).filter(reads).collect();
            let release = Wire::Protocol(Message::Release { gtid: GTID });
            readers.into_iter().for_each(|i| self.post(HOME, i as u16 + 1, release));
        }
        self.home_effects(effects);
    }

    /// Whether it is too late for the home to go on; it then gives up.
    fn time_is_over(&mut self) -> bool {
        let undecided =
            self.undecided(coordinator::Phase::Running) || self.undecided(coordinator::Phase::Voting);
        if !self.overdue || !undecided || self.bug.0 == Bug::DecidesLate {
            return false;
        }
        let machine = self.home.machine.as_mut().expect("it is undecided");
        let effects = machine.on(coordinator::Event::Timeout);
        self.home_effects(effects);
        true
    }

    fn home_effects(&mut self, effects: coordinator::Effects) {
        use coordinator::Effect;
        for effect in effects {
            match effect {
                Effect::Send { to, message } => self.post(HOME, to.0, Wire::Protocol(message)),
                Effect::LogCommit { participants } => {
                    self.home.record = Disk::Appended;
                    if self.bug.0 != Bug::RemembersNobody {
                        self.home.list = participants.to_vec();
                    }
                    if self.bug.0 == Bug::AnswersBeforeDurable {
                        self.home(coordinator::Event::Logged);
                    }
                }
                Effect::Commit => self.home.committed = true,
                Effect::Abort => self.home.aborted = true,
                Effect::Answer(decision) => self.home.replied = Some(decision),
                Effect::Forget => self.home.forgotten = true,
            }
        }
        if let Some(machine) = &self.home.machine {
            machine.check();
            if machine.is_done() && self.machines.0 == Ended::Dropped {
                self.home.machine = None;
            }
        }
    }

    pub fn home_flush(&mut self) {
        self.home.record = Disk::Durable;
        self.home(coordinator::Event::Logged);
    }

    pub fn home_crash(&mut self, kept: Kept) {
        let home = &mut self.home;
        home.up = false;
        home.machine = None;
        home.crashed_once = true;
        home.record = after_crash(home.record, kept, Kept::First);
        home.forgotten &= kept == Kept::All;
        home.committed |= home.record == Disk::Durable;
        home.aborted |= home.record != Disk::Durable;
        home.ignorant = self.bug.0 == Bug::AnswersBeforeNotesAreRead;
        self.net.retain(|p| !matches!(p.wire, Wire::Steps(_)));
    }

    pub fn home_restart(&mut self) {
        self.home.up = true;
        if !self.home.ignorant {
            self.read_notes();
        }
    }

    pub fn read_notes(&mut self) {
        let home = &mut self.home;
        home.ignorant = false;
        if home.record == Disk::Durable && !home.list.is_empty() && !home.forgotten {
            home.machine =
                Some(Coordinator::recover(&CommitNote { gtid: GTID, participants: home.list.clone() }));
        }
    }

    // The participants.

    pub fn part(&mut self, i: usize, event: participant::Event) {
        let Some(machine) = self.parts[i].machine.as_mut() else { return };
        if self.bug.0 == Bug::RollsBackInDoubt
            && event == participant::Event::PeerLost
            && machine.is_in_doubt()
        {
            self.parts[i].machine = None;
            self.parts[i].aborted = true;
            return;
        }
        let effects = machine.on(event);
        self.part_effects(i, effects);
    }

    fn part_effects(&mut self, i: usize, effects: participant::Effects) {
        use participant::{Effect, Event};
        for effect in effects {
            match effect {
                Effect::Send { to, message } => {
                    // Its reads are validated before it votes.
                    self.parts[i].prepared |= matches!(message, Message::Vote { vote: Vote::ReadOnly, .. });
                    self.post(i as u16 + 1, to.0, Wire::Protocol(message));
                }
                Effect::LogPrepare { lock_point } => {
                    self.parts[i].prepare = Disk::Appended;
                    self.parts[i].prepared = true;
                    if lock_point == LockPoint::Reached {
                        self.releases(i);
                    }
                    if self.bug.0 == Bug::VotesBeforeDurable {
                        self.part(i, Event::Prepared);
                    }
                }
                Effect::Commit => {
                    self.parts[i].commit = Disk::Appended;
                    self.parts[i].committed = true;
                    self.releases(i);
                    if self.bug.0 == Bug::AcksBeforeDurable {
                        self.part(i, Event::Logged);
                    }
                }
                Effect::Abort => {
                    self.parts[i].aborted = true;
                    self.parts[i].read_locks = false;
                }
                Effect::Release => self.releases(i),
            }
        }
        let done = self.parts[i].machine.as_ref().is_some_and(Participant::is_done);
        if done && self.machines.0 == Ended::Dropped {
            self.parts[i].machine = None;
        }
    }

    pub fn part_flush(&mut self, i: usize) {
        let part = &mut self.parts[i];
        if part.prepare == Disk::Appended {
            part.prepare = Disk::Durable;
            self.part(i, participant::Event::Prepared);
        } else if part.commit == Disk::Appended {
            part.commit = Disk::Durable;
            self.part(i, participant::Event::Logged);
        }
    }

    pub fn part_crash(&mut self, i: usize, kept: Kept) {
        let wrote = self.roles.0[i].wrote == Wrote::Something;
        let part = &mut self.parts[i];
        part.up = false;
        part.closed = true;
        part.announced = false;
        part.crashed_once = true;
        part.machine = None;
        part.prepare = after_crash(part.prepare, kept, Kept::First);
        part.commit = after_crash(part.commit, kept, Kept::All);
        if part.aborted && kept == Kept::All {
            // The abort record was kept too.
            part.prepare = Disk::Nothing;
        }
        part.aborted |= wrote && part.ran && part.prepare != Disk::Durable;
        let me = i as u16 + 1;
        self.net.retain(|p| p.to != me || !matches!(p.wire, Wire::Steps(_)));
    }

    pub fn part_restart(&mut self, i: usize) {
        let part = &mut self.parts[i];
        part.up = true;
        if part.prepare == Disk::Durable && part.commit != Disk::Durable {
            part.machine = Some(Participant::recover(GTID));
        }
    }

    /// A participant tells the home that it has restarted.
    pub fn announce(&mut self, i: usize) {
        if self.bug.0 != Bug::IgnoresLostReaders {
            self.home(coordinator::Event::PeerLost { from: InstanceId(i as u16 + 1) });
        }
        self.parts[i].announced = true;
    }

    /// Whether steps wait at its gate.
    pub fn is_closed(&self, node: u16) -> bool {
        node != HOME && self.parts[usize::from(node) - 1].closed
    }

    pub fn may_let_in(&self, i: usize) -> bool {
        let part = &self.parts[i];
        let may = part.announced || self.overdue || self.bug.0 == Bug::LetsInUnannounced;
        part.up && part.closed && may
    }

    /// Admits other transactions, which may change the rows that were read here: nothing protects
    /// them.
    pub fn let_in(&mut self, i: usize) {
        self.parts[i].closed = false;
        self.releases(i);
    }

    /// One end sees the link break; unanswered steps on it are lost.
    pub fn break_link(&mut self, i: usize) {
        let me = i as u16 + 1;
        self.net.retain(|p| p.to != me || !matches!(p.wire, Wire::Steps(_)));
    }

    pub fn part_tick(&mut self, i: usize) {
        if self.bug.0 != Bug::NeverInquires {
            self.part(i, participant::Event::Tick);
        }
    }

    // The network.

    fn post(&mut self, from: u16, to: u16, wire: Wire) {
        self.net.insert(Packet { from, to, wire });
    }

    /// `fails`: the steps do not succeed.
    pub fn deliver(&mut self, packet: Packet, fails: bool) {
        match packet.to {
            HOME if self.home.up => self.deliver_home(packet),
            HOME => {}
            to if self.parts[usize::from(to) - 1].up => self.deliver_part(usize::from(to) - 1, packet, fails),
            _ => {}
        }
    }

    fn deliver_home(&mut self, Packet { from, wire, .. }: Packet) {
        if matches!(wire, Wire::Results | Wire::Protocol(Message::Vote { .. })) {
            self.home.results |= 1 << (from - 1);
        }
        let Wire::Protocol(message) = wire else { return };
        if self.time_is_over() {
            // The home has given up; a vote that comes then is answered like any later one.
            return self.post(from, HOME, wire);
        }
        match self.home.machine.as_mut() {
            Some(machine) => {
                let effects = machine.receive(InstanceId(from), message);
                self.home_effects(effects);
                let acked = matches!(message, Message::Ack { .. });
                if self.bug.0 == Bug::ForgetsAfterFirstAck && acked {
                    self.home.machine = None;
                    self.home.forgotten = true;
                }
            }
            None => {
                if let Some(reply) = reply_unknown(message) {
                    self.post(HOME, from, Wire::Protocol(reply));
                }
            }
        }
    }

    fn deliver_part(&mut self, i: usize, packet: Packet, fails: bool) {
        let (me, wrote) = (i as u16 + 1, self.roles.0[i].wrote);
        let message = match packet.wire {
            Wire::Results => return,
            Wire::Steps(rides) => {
                self.parts[i].ran = true;
                self.parts[i].read_locks = true;
                self.parts[i].machine = Some(Participant::new(GTID));
                match rides {
                    _ if fails => {
                        self.parts[i].aborted = true;
                        self.parts[i].read_locks = false;
                        return self.part(i, participant::Event::LocalFailed);
                    }
                    Some(lock_point) => {
                        return self.part(i, participant::Event::Prepare { wrote, lock_point });
                    }
                    None => return self.post(me, HOME, Wire::Results),
                }
            }
            Wire::Protocol(message) => message,
        };
        let knows = self.arrives_at(i) == worker_of(GTID, self.part_workers(i));
        match self.parts[i].machine.as_mut().filter(|_| knows || self.bug.0 != Bug::AnswersWhereItArrives) {
            Some(machine) => {
                let effects = machine.receive(message, wrote);
                self.part_effects(i, effects);
            }
            None => {
                if let Some(reply) = reply_unknown(message) {
                    self.post(me, HOME, Wire::Protocol(reply));
                }
            }
        }
    }

    fn part_workers(&self, i: usize) -> usize {
        PART_WORKERS[usize::from(self.parts[i].crashed_once)]
    }

    /// The worker of a participant at which the link of the home's worker ends.
    fn arrives_at(&self, i: usize) -> usize {
        let homes = HOME_WORKERS[usize::from(self.home.crashed_once)];
        worker_of(GTID, homes) % self.part_workers(i)
    }

    // The properties.

    /// The home forgets only after the commit of every writer is durable.
    pub fn forgets_what_is_done(&self) -> bool {
        let wrote = self.parts.iter().zip(self.roles.0).filter(|(_, role)| role.wrote == Wrote::Something);
        !self.home.forgotten || wrote.into_iter().all(|(part, _)| part.commit == Disk::Durable)
    }

    pub fn atomic(&self) -> bool {
        let committed = self.home.committed || self.parts.iter().any(|p| p.committed);
        let aborted = self.home.aborted || self.parts.iter().any(|p| p.aborted);
        !(committed && aborted)
    }

    /// After the answer Commit no node has rolled back, and the record that makes all nodes commit
    /// is durable.
    pub fn acknowledged_is_safe(&self) -> bool {
        let told = self.home.replied == Some(Decision::Commit);
        !told
            || (self.home.record == Disk::Durable
                && !self.home.aborted
                && self.parts.iter().all(|p| !p.aborted))
    }

    pub fn readers_sit_out(&self) -> bool {
        let reader = |id: u16| id != HOME && self.roles.0[usize::from(id) - 1].wrote == Wrote::Nothing;
        let second = |p: &Packet| {
            let phase_two = matches!(
                p.wire,
                Wire::Protocol(Message::Decide { decision: Decision::Commit, .. } | Message::Ack { .. })
            );
            phase_two && (reader(p.to) || reader(p.from))
        };
        !self.home.list.iter().any(|p| reader(p.0)) && !self.net.iter().any(second)
    }

    pub fn locks_held_to_the_lock_point(&self) -> bool {
        !(self.released_early && self.home.replied == Some(Decision::Commit))
    }

    /// Whether from here, with every node up and every message delivered, all nodes come to rest,
    /// in agreement.
    pub fn comes_to_rest(&self) -> bool {
        let mut w = self.clone();
        if !w.home.up {
            w.home_restart();
        }
        if w.home.ignorant {
            w.read_notes();
        }
        (0..w.parts.len()).filter(|&i| !self.parts[i].up).for_each(|i| w.part_restart(i));
        for i in (0..w.parts.len()).filter(|&i| self.parts[i].closed) {
            w.announce(i);
            w.let_in(i);
        }
        for round in 0..12 {
            w.calm_round();
            if round % 3 == 2 {
                w.home(coordinator::Event::Tick);
                (0..w.parts.len()).for_each(|i| w.part_tick(i));
            }
            if round == 6 {
                w.home(coordinator::Event::Timeout);
            }
        }
        w.at_rest() && w.atomic() && w.acknowledged_is_safe()
    }

    fn calm_round(&mut self) {
        while let Some(packet) = self.net.pop_first() {
            self.deliver(packet, false);
        }
        (0..self.parts.len()).for_each(|i| self.part_flush(i));
        if self.home.record == Disk::Appended {
            self.home_flush();
        }
        for i in 0..self.parts.len() {
            if self.can_send_last(i) {
                self.send_last(i);
            }
        }
        if self.can_be_ready() {
            self.home(coordinator::Event::LocalReady);
        }
    }

    fn at_rest(&self) -> bool {
        let parts =
            self.parts.iter().all(|p| p.machine.as_ref().is_none_or(Participant::is_done) && !p.read_locks);
        let note = self.home.record != Disk::Durable || self.home.list.is_empty() || self.home.forgotten;
        let all_in = !self.home.committed
            || self.parts.iter().zip(self.roles.0).all(|(p, r)| p.committed || r.wrote == Wrote::Nothing);
        let answered = self.home.replied.is_some() || self.home.crashed_once;
        let home = self.home.machine.as_ref().is_none_or(Coordinator::is_done);
        home && parts && note && all_in && answered && self.net.is_empty()
    }

    /// Whether such a vote is on its way.
    pub fn voted(&self, vote: Vote) -> bool {
        self.net.iter().any(|p| matches!(p.wire, Wire::Protocol(Message::Vote { vote: v, .. }) if v == vote))
    }
}

fn after_crash(disk: Disk, kept: Kept, needs: Kept) -> Disk {
    match disk {
        Disk::Appended if kept < needs => Disk::Nothing,
        Disk::Appended => Disk::Durable,
        other => other,
    }
}
