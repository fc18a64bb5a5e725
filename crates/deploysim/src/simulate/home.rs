//! A transaction at its home: drawn, planned, run, decided.
//!
//! The order of visits is that of `instance::home::phases`: a phase that writes visits instances
//! one after the other by number, the home in its turn; a phase that reads at one other instance
//! runs at home first and asks at the lock point; any other asks all at once.

use super::Sim;
use super::measure::Kind;
use super::parts::{Cursor, Group, Message, Op, Record, Session, Task, Txn};
use super::rows::{Part, Rows};
use super::worker::{Alarm, Then};
use crate::case::{LogWait, Shape};
use crate::costs::{Protection, Visits};
use crate::deployment::Clients;
use crate::outcome::Component;
use base::{Gtid, InstanceId};
use smallvec::SmallVec;
use twophase::coordinator::{Effect, Event, Request};
use twophase::{Coordinator, Decision, Holds, LockPoint, Participant, Vote};

impl Sim<'_> {
    /// Draws a request and begins it here, or sends it to its home.
    pub(super) fn next_request(&mut self, number: usize, born: f64) -> Then {
        let id = self.txns.take();
        let txn = &mut self.txns[id];
        txn.restart(number, born);
        self.workers[number].requests.draw(&mut txn.request);
        let home = self.owners[txn.request.home_site as usize];
        self.plan(id, home);
        if usize::from(home) != self.workers[number].instance {
            self.pay_scaled(number, Component::Management, self.case.costs.forward / 3.0);
            self.send(number, self.link_to(number, home), Message::Submit { txn: id }, Kind::Forwarded);
            return Then::Leave;
        }
        if let Some(owner) = self.owner_of_all(number, id) {
            self.hand_over(number, owner, Task::Run(id));
            self.txns[id].home = owner;
            return Then::Leave;
        }
        self.publish(number);
        let then = self.run_txn(number, id);
        if then == Then::Again {
            self.workers[number].current = Some(Task::Run(id));
        }
        then
    }

    /// The other worker of this instance that owns all rows of a transaction.
    fn owner_of_all(&self, number: usize, id: u32) -> Option<usize> {
        let w = &self.workers[number];
        if !self.case.has_owners() || !self.instances[w.instance].is_shared {
            return None;
        }
        let mut owners =
            self.txns[id].request.rows.iter().map(|row| self.case.worker_of_site(w.instance, row.site));
        let first = owners.next().filter(|first| *first != w.index)?;
        let is_here = self.txns[id].groups.iter().all(|group| usize::from(group.instance) == w.instance);
        (is_here && owners.all(|owner| owner == first)).then_some(number - w.index + first)
    }

    /// Divides the rows into groups and lists the home's steps.
    fn plan(&mut self, id: u32, home: u16) {
        let (owners, protection) = (&self.owners, self.case.costs.protection);
        let txn = &mut self.txns[id];
        let updates = f64::from(txn.request.updates());
        let rows = &mut txn.request.rows;
        let key = |row: &crate::transaction::Row| (row.phase, owners[row.site as usize], row.key);
        if !rows.is_sorted_by_key(key) {
            rows.sort_unstable_by_key(key);
        }
        txn.groups.clear();
        for (at, row) in rows.iter().enumerate() {
            let (phase, instance) = (row.phase, owners[row.site as usize]);
            match txn.groups.last_mut() {
                Some(group) if (group.phase, group.instance) == (phase, instance) => {
                    group.end = at as u16 + 1;
                    group.updates |= row.update;
                }
                _ => {
                    let (start, end) = (at as u16, at as u16 + 1);
                    txn.groups.push(Group { instance, phase, start, end, updates: row.update });
                }
            }
        }
        let all = (rows.len() + txn.request.inserts as usize) as f64;
        txn.shape = Some(Shape { all, updates, weight: txn.request.row_weight });
        txn.is_distributed = txn.groups.iter().any(|group| group.instance != home);
        list_ops(txn, home, protection, self.case.profile.visits);
    }

    /// Runs a transaction until it waits, ends, or another worker may notice its progress.
    pub(super) fn run_txn(&mut self, number: usize, id: u32) -> Then {
        if self.must_queue(number, id) {
            return Then::Leave;
        }
        loop {
            let op = self.txns[id].ops[self.txns[id].pc];
            match op {
                Op::Home(group) => match self.home_rows(number, id, group) {
                    Rows::Done => {
                        let txn = &mut self.txns[id];
                        txn.pc += 1;
                        txn.cursor = Cursor { line: txn.cursor.line, ..Cursor::default() };
                        // Others may notice the commit, so it is a step of its own.
                        if self.instances[self.workers[number].instance].is_shared {
                            return Then::Again;
                        }
                    }
                    Rows::Again => return Then::Again,
                    Rows::Waits => return Then::Leave,
                    Rows::Conflict => {
                        self.home_conflict(number, id);
                        return Then::Leave;
                    }
                },
                Op::Send { group, prepare } => {
                    self.txns[id].pc += 1;
                    self.send_steps(number, id, group, prepare);
                }
                Op::Await => {
                    if self.txns[id].waiting > 0 {
                        return Then::Leave;
                    }
                    let txn = &mut self.txns[id];
                    txn.pc += 1;
                    let replies = f64::from(std::mem::take(&mut txn.replies));
                    let updates = txn.shape.is_some_and(|s| s.updates > 0.0);
                    let reply_ns = self.case.parts(updates).reply;
                    self.pay_scaled(number, Component::Management, reply_ns * replies);
                }
                Op::Ready => {
                    self.ready(number, id);
                    return Then::Leave;
                }
            }
        }
    }

    /// Whether the transaction waits at the worker's gate.
    fn must_queue(&mut self, number: usize, id: u32) -> bool {
        let txn = &mut self.txns[id];
        let is_gated = self.case.costs.protection == Protection::Validation;
        if !is_gated || !txn.is_distributed || txn.is_inside {
            return false;
        }
        let w = &mut self.workers[number];
        if w.inside >= self.case.profile.worker_loop.gate {
            w.outside.push_back(id);
            return true;
        }
        w.inside += 1;
        txn.is_inside = true;
        false
    }

    /// The rows of the home's group in this phase, and the inserts in the first one.
    fn home_rows(&mut self, number: usize, id: u32, group: Option<u8>) -> Rows {
        let txn = &mut self.txns[id];
        let group = group.map(|at| txn.groups[usize::from(at)]);
        let is_first = txn.pc == 0 || !txn.ops[..txn.pc].iter().any(|op| matches!(op, Op::Home(_)));
        let inserts = if is_first { f64::from(txn.request.inserts) } else { 0.0 };
        let (shape, is_distributed) = (txn.shape.expect("a planned transaction"), txn.is_distributed);
        let mut cursor = txn.cursor;
        let mut held = std::mem::take(&mut txn.held);
        let rows = Part { group, inserts, shape, is_distributed, task: Task::Run(id), txn: id };
        let end = self.rows(number, &rows, &mut cursor, &mut held);
        let txn = &mut self.txns[id];
        (txn.cursor, txn.held) = (cursor, held);
        end
    }

    fn release_txn(&mut self, number: usize, id: u32) {
        self.withdraw(Task::Run(id));
        let mut held = std::mem::take(&mut self.txns[id].held);
        self.release(number, &mut held);
        self.txns[id].held = held;
    }

    /// The steps of a group leave.
    fn send_steps(&mut self, number: usize, id: u32, at: u8, prepare: Option<LockPoint>) {
        let home = self.workers[number].instance;
        let txn = &mut self.txns[id];
        let updates = txn.shape.is_some_and(|s| s.updates > 0.0);
        let group = txn.groups[usize::from(at)];
        let number_of = Gtid { home: InstanceId(home as u16), life: 1, number: u64::from(id) };
        if txn.coordinator.is_none() {
            let holds = match self.case.costs.protection {
                Protection::Validation => Holds::FromPrepare,
                Protection::Locks | Protection::SerialLocks => Holds::FromSteps,
            };
            txn.coordinator = Some(Coordinator::new(number_of).holding(holds));
            self.instances[home].distributed += 1;
        }
        let request = prepare.map_or(Request::Steps, Request::LastSteps);
        let coordinator = txn.coordinator.as_mut().expect("made above");
        coordinator.request(InstanceId(group.instance), request).expect("the plan asks each instance once");
        let known = txn.sessions.iter().find(|(instance, _)| *instance == group.instance).map(|(_, s)| *s);
        let attempt = txn.attempt;
        txn.waiting += 1;
        let (to, link) = self.link_to(number, group.instance);
        let session = known.unwrap_or_else(|| {
            let session = self.sessions.take();
            let serial = self.sessions[session].serial.wrapping_add(1);
            self.sessions[session] = Session {
                serial,
                machine: Some(Participant::new(number_of)),
                txn: id,
                attempt,
                home: number,
                worker: to as usize,
                ..Session::default()
            };
            self.txns[id].sessions.push((group.instance, session));
            self.instances[usize::from(group.instance)].distributed += 1;
            session
        });
        // The papers' engines let a reader go with its vote, wherever the others stand.
        let at_once = self.case.profile.visits == Visits::AtOnce;
        let prepare = prepare.map(|lock_point| if at_once { LockPoint::Reached } else { lock_point });
        let s = &mut self.sessions[session];
        (s.group, s.prepare, s.cursor) = (Some(group), prepare, Cursor::default());
        self.pay_scaled(number, Component::Management, self.case.parts(updates).home);
        self.send(number, (to, link), Message::Steps { session }, Kind::Steps);
    }

    /// A reply to steps has come; the vote may ride on it.
    pub(super) fn take_reply(&mut self, id: u32, attempt: u32, from: u16, vote: Option<Vote>) {
        let txn = &mut self.txns[id];
        if txn.attempt != attempt {
            return;
        }
        txn.waiting -= 1;
        txn.replies += 1;
        let (home, is_last) = (txn.home, txn.waiting == 0);
        if let Some(vote) = vote {
            self.vote(home, id, from, vote);
        }
        let txn = &self.txns[id];
        // At another step its own rows are under way, or wait for a lock.
        let awaits = matches!(txn.ops.get(txn.pc), Some(Op::Await));
        let awaits = awaits && !self.workers[home].will_run(Task::Run(id));
        // After a No the transaction has begun again.
        if is_last && awaits && txn.attempt == attempt {
            self.workers[home].ready.push_back(Task::Run(id));
        }
    }

    /// A vote that came by itself.
    pub(super) fn take_vote(&mut self, number: usize, id: u32, attempt: u32, from: u16, vote: Vote) {
        if self.txns[id].attempt == attempt {
            self.vote(number, id, from, vote);
        }
    }

    fn vote(&mut self, number: usize, id: u32, from: u16, vote: Vote) {
        self.coordinate(number, id, Event::Voted { from: InstanceId(from), vote });
    }

    pub(super) fn take_ack(&mut self, number: usize, id: u32, from: u16) {
        self.pay_scaled(number, Component::Management, self.case.parts(true).ack);
        self.coordinate(number, id, Event::Acked { from: InstanceId(from) });
    }

    /// The procedure has ended well.
    fn ready(&mut self, number: usize, id: u32) {
        if self.txns[id].coordinator.is_some() {
            return self.coordinate(number, id, Event::LocalReady);
        }
        let updates = self.txns[id].shape.is_some_and(|s| s.updates > 0.0);
        if updates {
            let append_ns = self.instances[self.workers[number].instance].service.append_ns;
            self.pay(number, Component::Logging, append_ns);
        }
        self.release_txn(number, id);
        if updates && self.case.log_wait() != LogWait::None {
            return self.wait_for_log(number, Record::Local(id));
        }
        self.answer(number, id);
    }

    /// Feeds the coordinator and carries out its effects.
    pub(super) fn coordinate(&mut self, number: usize, id: u32, event: Event) {
        let Some(coordinator) = &mut self.txns[id].coordinator else { return };
        let effects = coordinator.on(event);
        for effect in effects {
            match effect {
                Effect::Send { to, message } => self.tell(number, id, to.0, message),
                Effect::LogCommit { participants } => self.log_commit(number, id, participants.len()),
                Effect::Commit | Effect::Abort => self.release_txn(number, id),
                Effect::Answer(Decision::Commit) => self.answer(number, id),
                Effect::Answer(Decision::Abort) => self.again(number, id),
                Effect::Forget => {}
            }
        }
        let txn = &mut self.txns[id];
        if txn.coordinator.as_ref().is_some_and(Coordinator::is_done) {
            txn.coordinator = None;
            let instance = self.workers[number].instance;
            self.instances[instance].distributed -= 1;
            if self.txns[id].is_answered {
                self.txns.free(id);
            }
        }
    }

    fn tell(&mut self, number: usize, id: u32, to: u16, message: twophase::Message) {
        let known = self.txns[id].sessions.iter().find(|(instance, _)| *instance == to);
        let session = known.expect("a peer has a session").1;
        let s = &self.sessions[session];
        let serial = s.serial;
        let has_left = s.machine.is_none() || (s.txn, s.attempt) != (id, self.txns[id].attempt);
        if has_left && self.case.profile.visits == Visits::AtOnce {
            return;
        }
        let (message, kind) = match message {
            twophase::Message::Prepare { lock_point, .. } => {
                (Message::Prepare { session, serial, lock_point }, Kind::Prepare)
            }
            twophase::Message::Release { .. } => (Message::Release { session, serial }, Kind::Release),
            twophase::Message::Decide { decision, .. } => {
                (Message::Decide { session, serial, decision }, Kind::Decision)
            }
            // A coordinator sends no others.
            _ => return,
        };
        self.send(number, self.link_to(number, to), message, kind);
    }

    fn log_commit(&mut self, number: usize, id: u32, participants: usize) {
        let updates = self.txns[id].shape.is_some_and(|s| s.updates > 0.0);
        if updates {
            let append_ns = self.instances[self.workers[number].instance].service.append_ns;
            let log_ns = self.case.costs.two_phase_log_ns / self.case.speed;
            self.pay(number, Component::Logging, append_ns + log_ns);
        }
        let is_durable = !updates && participants == 0 || self.case.log_wait() == LogWait::None;
        if is_durable {
            return self.coordinate(number, id, Event::Logged);
        }
        self.wait_for_log(number, Record::Home(id));
    }

    /// The transaction is committed.
    pub(super) fn answer(&mut self, number: usize, id: u32) {
        let txn = &mut self.txns[id];
        self.counts.committed += 1;
        if txn.is_distributed {
            self.counts.distributed += 1;
            self.counts.participants += txn.sessions.len() as u64;
        }
        if std::mem::take(&mut txn.is_inside) {
            let w = &mut self.workers[number];
            w.inside -= 1;
            if let Some(next) = w.outside.pop_front() {
                w.ready.push_back(Task::Run(next));
            }
        }
        let client = txn.client;
        if client == number {
            return self.take_done(number, id);
        }
        if self.workers[client].instance == self.workers[number].instance {
            return self.hand_over(number, client, Task::Answered(id));
        }
        self.send(number, self.link_back(number, client), Message::Done { txn: id }, Kind::Forwarded);
    }

    /// The client has its answer, and draws the next request if its load is closed.
    pub(super) fn take_done(&mut self, number: usize, id: u32) {
        let now = self.workers[number].clock;
        let txn = &mut self.txns[id];
        txn.is_answered = true;
        self.counts.end(txn.born, now);
        if matches!(self.case.deployment.clients, Clients::Closed(_)) {
            self.counts.begin(now);
            self.workers[number].ready.push_back(Task::Next(now));
        }
        // A transaction that its coordinator still tells of is freed with it.
        if self.txns[id].coordinator.is_none() {
            self.txns.free(id);
        }
    }

    /// The home's rows cannot be validated.
    fn home_conflict(&mut self, number: usize, id: u32) {
        let txn = &self.txns[id];
        let shape = txn.shape.expect("a planned transaction");
        let rows = txn.groups.first().map_or(1, |group| group.rows()) as f64;
        let service = &self.instances[self.workers[number].instance].service;
        let (work, _) = service.part_ns(shape, rows, rows, 0.0);
        self.pay(number, Component::Aborted, work * self.case.costs.abort_share);
        self.release_txn(number, id);
        if self.txns[id].coordinator.is_some() {
            self.coordinate(number, id, Event::LocalFailed);
        } else {
            self.again(number, id);
        }
    }

    /// The attempt has aborted: the same request begins again.
    fn again(&mut self, number: usize, id: u32) {
        self.counts.aborts += 1;
        self.release_txn(number, id);
        let txn = &mut self.txns[id];
        // A task that was granted its lock, or that gave way to a message, is ready already.
        let is_ready = self.workers[number].will_run(Task::Run(id));
        txn.attempt += 1;
        txn.rewind();
        txn.sessions.clear();
        if !is_ready {
            self.workers[number].ready.push_back(Task::Run(id));
            self.awaken(number, self.workers[number].clock, Alarm::Other);
        }
    }

    /// A record is durable: its waiter goes on.
    pub(super) fn is_durable(&mut self, number: usize, record: Record) -> Then {
        match record {
            Record::Local(id) => self.answer(number, id),
            Record::Home(id) => self.coordinate(number, id, Event::Logged),
            Record::Prepare(session) => self.is_prepared(number, session),
            Record::Commit(session) => self.has_committed(number, session),
        }
        Then::Leave
    }
}

/// The home's steps, phase by phase.
fn list_ops(txn: &mut Txn, home: u16, protection: Protection, visits: Visits) {
    txn.ops.clear();
    let phases = txn.request.phases();
    let asked_last: SmallVec<[u16; 8]> =
        txn.groups.iter().filter(|g| g.phase + 1 == phases).map(|g| g.instance).collect();
    // An instance that has no steps in the last phase is prepared after it.
    let some_wait = txn.groups.iter().any(|g| g.instance != home && !asked_last.contains(&g.instance));
    for phase in 0..phases {
        let groups = || (0_u8..).zip(&txn.groups).filter(move |(_, g)| g.phase == phase);
        let own = groups().find(|(_, g)| g.instance == home).map(|(at, _)| at);
        let remote: SmallVec<[u8; 8]> =
            groups().filter(|(_, g)| g.instance != home).map(|(at, _)| at).collect();
        let writes = groups().any(|(_, g)| g.updates);
        let prepare = |lock_point: LockPoint| {
            let ahead = some_wait && protection == Protection::Validation;
            (phase + 1 == phases).then_some(if ahead { LockPoint::Ahead } else { lock_point })
        };
        let run_home = own.is_some() || phase == 0;
        let ops = &mut txn.ops;
        let all_at_once = |lock_point: LockPoint| {
            let sends = remote.iter().map(move |&group| Op::Send { group, prepare: prepare(lock_point) });
            sends.chain(run_home.then_some(Op::Home(own))).chain([Op::Await])
        };
        match &remote[..] {
            [] => ops.push(Op::Home(own)),
            _ if visits == Visits::AtOnce => ops.extend(all_at_once(LockPoint::Ahead)),
            &[group] if !writes => {
                ops.extend(run_home.then_some(Op::Home(own)));
                ops.push(Op::Send { group, prepare: prepare(LockPoint::Reached) });
                ops.push(Op::Await);
            }
            _ if writes => {
                let before = remote.iter().filter(|&&g| txn.groups[usize::from(g)].instance < home).count();
                for (visit, &group) in remote.iter().enumerate() {
                    if visit == before {
                        ops.extend(run_home.then_some(Op::Home(own)));
                    }
                    let is_last = visit + 1 == remote.len() && before <= visit;
                    let lock_point = if is_last { LockPoint::Reached } else { LockPoint::Ahead };
                    ops.push(Op::Send { group, prepare: prepare(lock_point) });
                    ops.push(Op::Await);
                }
                if before == remote.len() {
                    ops.extend(run_home.then_some(Op::Home(own)));
                }
            }
            _ => ops.extend(all_at_once(LockPoint::Ahead)),
        }
    }
    txn.ops.push(Op::Ready);
}
