//! A session: the part of a distributed transaction at another instance.

use super::Sim;
use super::measure::Kind;
use super::parts::{Cursor, Message, Record, Task};
use super::rows::{Part, Rows};
use super::worker::Then;
use crate::case::LogWait;
use crate::outcome::Component;
use twophase::participant::{Effect, Event, Wrote};
use twophase::{Decision, LockPoint, Vote};

impl Sim<'_> {
    /// Steps have come: they run as a task.
    pub(super) fn take_steps(&mut self, number: usize, session: u32) {
        self.sessions[session].is_running = true;
        self.workers[number].ready.push_back(Task::Steps(session));
    }

    /// Runs the steps until they wait, end, or another worker may notice their progress.
    pub(super) fn run_session(&mut self, number: usize, session: u32) -> Then {
        let s = &mut self.sessions[session];
        if s.machine.as_ref().is_none_or(twophase::Participant::is_done) {
            // The home has aborted the transaction meanwhile.
            s.is_running = false;
            self.end_session(number, session);
            return Then::Leave;
        }
        let group = s.group.expect("steps came with their group");
        let (txn, mut cursor) = (s.txn, s.cursor);
        let mut held = std::mem::take(&mut s.held);
        let shape = self.txns[txn].shape.expect("a planned transaction");
        let task = Task::Steps(session);
        let part = Part { group: Some(group), inserts: 0.0, shape, is_distributed: true, task, txn };
        let end = self.rows(number, &part, &mut cursor, &mut held);
        let s = &mut self.sessions[session];
        (s.cursor, s.held) = (cursor, held);
        match end {
            Rows::Again => return Then::Again,
            Rows::Waits => return Then::Leave,
            Rows::Conflict => {
                let service = &self.instances[self.workers[number].instance].service;
                let rows = group.rows() as f64;
                let (work, _) = service.part_ns(shape, rows, rows, 0.0);
                self.pay(number, Component::Aborted, work * self.case.costs.abort_share);
                self.sessions[session].is_running = false;
                self.participate(number, session, Event::LocalFailed, Kind::Reply);
                return Then::Leave;
            }
            Rows::Done => {}
        }
        s.is_running = false;
        s.wrote += if group.updates { group.rows() as f64 } else { 0.0 };
        s.cursor = Cursor::default();
        let prepare = s.prepare;
        self.pay_scaled(number, Component::Management, self.case.parts(shape.updates > 0.0).participant);
        match prepare {
            Some(lock_point) => self.prepare(number, session, lock_point, Kind::Reply),
            None => self.reply(number, session, None, Kind::Reply),
        }
        Then::Leave
    }

    fn prepare(&mut self, number: usize, session: u32, lock_point: LockPoint, kind: Kind) {
        let wrote = if self.sessions[session].wrote > 0.0 { Wrote::Something } else { Wrote::Nothing };
        self.participate(number, session, Event::Prepare { wrote, lock_point }, kind);
    }

    /// A prepare request that rode on no steps.
    pub(super) fn take_prepare(&mut self, number: usize, session: u32, lock_point: LockPoint) {
        self.sessions[session].prepare = None;
        self.prepare(number, session, lock_point, Kind::Vote);
    }

    pub(super) fn take_release(&mut self, number: usize, session: u32) {
        self.pay_scaled(number, Component::Management, self.case.parts(false).decision);
        self.participate(number, session, Event::Released, Kind::Vote);
    }

    pub(super) fn take_decision(&mut self, number: usize, session: u32, decision: Decision) {
        self.pay_scaled(number, Component::Management, self.case.parts(true).decision);
        self.participate(number, session, Event::Decided(decision), Kind::Vote);
    }

    /// The prepare record is durable. The vote rides on the reply if the request rode on the steps.
    pub(super) fn is_prepared(&mut self, number: usize, session: u32) {
        let kind = if self.sessions[session].prepare.is_some() { Kind::Reply } else { Kind::Vote };
        self.participate(number, session, Event::Prepared, kind);
    }

    pub(super) fn has_committed(&mut self, number: usize, session: u32) {
        self.participate(number, session, Event::Logged, Kind::Ack);
    }

    /// Feeds the participant's machine and carries out its effects. `kind` is the message on which
    /// a vote leaves.
    fn participate(&mut self, number: usize, session: u32, event: Event, kind: Kind) {
        let Some(machine) = &mut self.sessions[session].machine else { return };
        let effects = machine.on(event);
        for effect in effects {
            match effect {
                Effect::Send { message: twophase::Message::Vote { vote, .. }, .. } => {
                    self.reply(number, session, Some(vote), kind);
                }
                Effect::Send { .. } => self.ack(number, session),
                Effect::LogPrepare { .. } => {
                    let costs = &self.case.costs;
                    let rows_ns = costs.two_phase_row_ns * self.sessions[session].wrote;
                    self.append(number, costs.two_phase_log_ns + rows_ns);
                    if self.case.log_wait() != LogWait::None {
                        self.wait_for_log(number, Record::Prepare(session));
                    } else {
                        self.participate(number, session, Event::Prepared, kind);
                    }
                }
                Effect::Commit => {
                    self.append(number, 0.0);
                    self.release_session(number, session);
                    if self.case.log_wait() != LogWait::None {
                        self.wait_for_log(number, Record::Commit(session));
                    } else {
                        self.participate(number, session, Event::Logged, kind);
                    }
                }
                Effect::Abort | Effect::Release => self.release_session(number, session),
            }
        }
        self.end_session(number, session);
    }

    /// Frees a session with a machine that is done, once its steps do not run any more.
    fn end_session(&mut self, number: usize, session: u32) {
        let s = &mut self.sessions[session];
        let is_done = s.machine.as_ref().is_some_and(twophase::Participant::is_done);
        if !is_done || s.is_running {
            return;
        }
        s.machine = None;
        self.release_session(number, session);
        let instance = self.workers[number].instance;
        self.instances[instance].distributed -= 1;
        self.sessions.free(session);
    }

    fn append(&mut self, number: usize, two_phase_ns: f64) {
        let append_ns = self.instances[self.workers[number].instance].service.append_ns;
        self.pay(number, Component::Logging, append_ns + two_phase_ns / self.case.speed);
    }

    fn release_session(&mut self, number: usize, session: u32) {
        if self.withdraw(Task::Steps(session)) {
            self.sessions[session].is_running = false;
        }
        let mut held = std::mem::take(&mut self.sessions[session].held);
        self.release(number, &mut held);
        self.sessions[session].held = held;
    }

    /// The results leave, with a vote or without; or a vote by itself.
    fn reply(&mut self, number: usize, session: u32, vote: Option<Vote>, kind: Kind) {
        let s = &self.sessions[session];
        let (txn, attempt, home) = (s.txn, s.attempt, s.home);
        let from = self.workers[number].instance as u16;
        let message = match (kind, vote) {
            (Kind::Reply, vote) => Message::Reply { txn, attempt, from, vote },
            (_, Some(vote)) => Message::Vote { txn, attempt, from, vote },
            // A reply without a vote answers steps, so its kind is `Reply`.
            (_, None) => return,
        };
        self.send(number, self.link_back(number, home), message, kind);
    }

    fn ack(&mut self, number: usize, session: u32) {
        let (txn, home) = (self.sessions[session].txn, self.sessions[session].home);
        let from = self.workers[number].instance as u16;
        self.send(number, self.link_back(number, home), Message::Ack { txn, from }, Kind::Ack);
    }
}
