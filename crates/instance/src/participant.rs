//! The participant side: steps of transactions that have their home at another instance.
//!
//! A session is one transaction's local part, from its first step until it is over. Tasks serve the
//! requests, since a step may wait for a lock; [`twophase::Participant`] decides the next action.
//! While a task serves a session, the task holds the local transaction and `Session::txn` is
//! empty. A decision to abort that arrives meanwhile is noted, and carried out when the task puts
//! the local transaction back.

mod passing;

use self::passing::Passing;
use crate::home::{self, Open, Parcel};
use crate::links::{LinkId, MOST_PAYLOAD, Peer};
use crate::local::Local;
use crate::seams;
use crate::state::{Job, PendingAck, Session};
use base::{Gtid, InstanceId};
use exec::{Engine, KeyOwners, Protection, Scope, WaitOrder};
use probe::{Component, Role};
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use twophase::participant::{Effect, Effects, Event, ParticipantState, Wrote};
use twophase::{Decision, LockPoint, Message, PrepareNote, Vote, reply_unknown};
use txn::{Abort, Workload};
use wire::{Batch, BatchReader, Frame, Piggyback};

impl<W: Workload, E: Engine> Local<W, E> {
    /// Queues a request and makes sure that a task takes it.
    pub(crate) fn push_job(self: &Rc<Self>, job: Job<E::LocalTxn>) {
        self.jobs.waiting.borrow_mut().push_back(job);
        self.summon();
    }

    /// Wakes or spawns a task for the first job, unless one is already on its way. A task does one
    /// job after the other, and summons the next task only when it has to wait within a job.
    fn summon(self: &Rc<Self>) {
        if self.jobs.summoned.get() {
            return;
        }
        let idle = self.jobs.idle.borrow_mut().pop();
        let comes = match idle {
            Some(waker) => {
                waker.wake();
                true
            }
            // With every task slot taken, the request waits until a task is free.
            None => self.executor.spawn(probe::charged(Role::Served, serve(Rc::clone(self)))),
        };
        self.jobs.summoned.set(comes);
    }

    /// A message of the commit protocol for a local part. It came on `link`, or by way of another
    /// worker. To be called on the worker that is responsible for the transaction: that worker's
    /// answer "no such transaction here" tells the home that its decision was carried out.
    pub(crate) fn participant_message(&self, from: InstanceId, link: Option<LinkId>, message: Message) {
        let gtid = message.gtid();
        seams::assert_responsible(self.worker_of(gtid), self.worker);
        if let Message::Decide { decision: Decision::Abort, .. } = message {
            self.drop_jobs_of(gtid);
        }
        let mut sessions = self.distributed.sessions.borrow_mut();
        let Some(session) = sessions.get_mut(&gtid) else {
            drop(sessions);
            if let Some(answer) = reply_unknown(message)
                && link.is_none_or(|link| self.send(link, &Frame::TwoPhase(answer)).is_err())
            {
                self.tell(from, answer);
            }
            return;
        };
        if seams::acknowledges_at_once(session, message) {
            drop(sessions);
            return self.tell(from, Message::Ack { gtid });
        }
        session.since_ns = world::now_ns();
        if session.txn.is_none() && !matches!(session.machine.state(), ParticipantState::Committing) {
            session.cancelled |= matches!(message, Message::Decide { decision: Decision::Abort, .. });
            return;
        }
        session.link = link.or(session.link);
        let effects = session.machine.receive(message, Wrote::Nothing);
        drop(sessions);
        self.perform_session(gtid, effects);
    }

    /// Drops the requests of a transaction that was given up before a task took them.
    fn drop_jobs_of(&self, given_up: Gtid) {
        self.jobs.waiting.borrow_mut().retain_mut(|job| match job {
            Job::Steps { gtid, steps, .. } if *gtid == given_up => {
                self.spares.give_buffer(std::mem::take(steps));
                false
            }
            Job::Prepare { gtid, .. } => *gtid != given_up,
            _ => true,
        });
    }

    /// Carries out the effects that a participant asks for, except votes: those ride on replies.
    pub(crate) fn perform_session(&self, gtid: Gtid, effects: Effects) {
        probe::charge(Role::Served, || self.perform(gtid, effects));
    }

    fn perform(&self, gtid: Gtid, effects: Effects) {
        let (engine, ctx) = (&self.shared.engine, &self.ctx);
        for effect in effects {
            let taken = |local: &Self| {
                let mut sessions = local.distributed.sessions.borrow_mut();
                let session = sessions.get_mut(&gtid)?;
                Some((session.txn.take()?, session.link))
            };
            match effect {
                Effect::Send { to, message } => self.tell(to, message),
                Effect::Commit => {
                    let Some((mut txn, link)) = taken(self) else { continue };
                    let committed = engine.commit(ctx, &mut txn);
                    self.spares.give_txn(txn);
                    // Without the record there is no acknowledgement: after the next restart this
                    // instance inquires again.
                    let Ok(lsn) = committed else { continue };
                    self.distributed.acks.borrow_mut().push_back(PendingAck { lsn, gtid, link });
                }
                Effect::Abort => {
                    if let Some((mut txn, _)) = taken(self) {
                        // A failed rollback has poisoned the store; nothing commits afterwards.
                        let _ = engine.rollback(ctx, &mut txn);
                        self.spares.give_txn(txn);
                    }
                    self.distributed.sessions.borrow_mut().remove(&gtid);
                }
                Effect::Release => {
                    if let Some((mut txn, _)) = taken(self) {
                        // Nothing was written, so an error at the end of a reader has no
                        // consequences.
                        let _ = engine.commit(ctx, &mut txn);
                        self.spares.give_txn(txn);
                    }
                    self.distributed.sessions.borrow_mut().remove(&gtid);
                }
                Effect::LogPrepare { .. } => unreachable!("prepared by the task that serves the session"),
            }
        }
    }

    /// Acknowledges the commits that are on the device. The acknowledgement lets the home forget
    /// the transaction.
    pub(crate) fn poll_acks(&self) -> bool {
        let mut any = false;
        loop {
            let mut acks = self.distributed.acks.borrow_mut();
            if !acks.front().is_some_and(|a| self.is_stable(a.lsn)) {
                return any;
            }
            let ack = acks.pop_front().expect("looked at");
            drop(acks);
            any = true;
            self.distributed.sessions.borrow_mut().remove(&ack.gtid);
            let frame = Frame::TwoPhase(Message::Ack { gtid: ack.gtid });
            if ack.link.is_none_or(|link| self.send(link, &frame).is_err()) {
                self.tell(ack.gtid.home, Message::Ack { gtid: ack.gtid });
            }
        }
    }

    /// A link broke on which other instances' transactions ran steps here.
    pub(crate) fn caller_lost(&self, broken: LinkId) {
        let affected: Vec<Gtid> = self
            .distributed
            .sessions
            .borrow()
            .iter()
            .filter(|(_, s)| s.link == Some(broken))
            .map(|(g, _)| *g)
            .collect();
        for gtid in affected {
            let mut sessions = self.distributed.sessions.borrow_mut();
            let session = sessions.get_mut(&gtid).expect("just listed");
            session.link = None;
            if session.txn.is_none() {
                session.cancelled |= matches!(session.machine.state(), ParticipantState::Working);
                continue;
            }
            let effects = session.machine.on(Event::PeerLost);
            drop(sessions);
            self.perform_session(gtid, effects);
        }
    }

    /// Inquires at the home for each local part that has had no message for `older_than_ns`.
    pub(crate) fn ask_homes(&self, older_than_ns: u64) {
        let now = world::now_ns();
        let quiet: Vec<Gtid> = self
            .distributed
            .sessions
            .borrow()
            .iter()
            .filter(|(_, s)| s.txn.is_some() && now.saturating_sub(s.since_ns) >= older_than_ns)
            .map(|(gtid, _)| *gtid)
            .collect();
        for gtid in quiet {
            let effects = match self.distributed.sessions.borrow_mut().get_mut(&gtid) {
                Some(session) => session.machine.on(Event::Tick),
                None => continue,
            };
            self.perform_session(gtid, effects);
        }
    }

    /// The number of participants in doubt at this worker.
    pub(crate) fn in_doubt(&self) -> u64 {
        self.distributed.sessions.borrow().values().filter(|s| s.machine.is_in_doubt()).count() as u64
    }

    /// Takes the local transaction out of its session for a request. The first request of a
    /// transaction opens the session.
    fn open_session(
        &self,
        gtid: Gtid,
        link: LinkId,
        piggyback: Piggyback,
    ) -> Result<Box<E::LocalTxn>, Abort> {
        let mut sessions = self.distributed.sessions.borrow_mut();
        if let Some(session) = sessions.get_mut(&gtid) {
            if session.machine.state() != ParticipantState::Working {
                // It is prepared, or a reader that waits for its release: no step may follow.
                return Err(Abort::AfterLast);
            }
            session.link = Some(link);
            return session.txn.take().ok_or(Abort::BadRequest);
        }
        drop(sessions);
        let txn = self.begin(gtid, piggyback);
        self.distributed.sessions.borrow_mut().insert(gtid, Session::new(gtid, link));
        Ok(txn)
    }

    /// Begins a local transaction for a participant.
    fn begin(&self, gtid: Gtid, piggyback: Piggyback) -> Box<E::LocalTxn> {
        let mut txn = self.take_txn();
        self.shared.engine.begin(&self.ctx, &mut txn, Protection::Locks);
        let home_is_validated = piggyback == Piggyback::Prepare(LockPoint::Reached) && self.me() < gtid.home;
        if self.shared.config.placement.instances() > 2 || home_is_validated {
            // A wait here may close a circle in two cases: with more than two instances several may
            // be prepared at once; and a home with the higher number may already be validated.
            E::set_wait_order(&mut txn, WaitOrder::Any);
        }
        txn
    }

    fn cancelled(&self, gtid: Gtid) -> bool {
        self.distributed.sessions.borrow().get(&gtid).is_none_or(|s| s.cancelled)
    }

    /// Runs the steps of a request, on this worker or on the workers that own their keys.
    pub(crate) async fn run_batch(
        &self,
        txn: &mut E::LocalTxn,
        steps: &[u8],
        outputs: &mut Batch,
    ) -> Result<(), Abort> {
        let _span = probe::span(Component::Execution);
        let workload = self.workload();
        let mut reader = BatchReader::new(steps);
        for (id, args) in reader.by_ref() {
            let body = outputs.open(id);
            loop {
                let map_version = self.owners().map(KeyOwners::map_version);
                let run = pin!(workload.run_step(id, args, &mut self.access(txn), outputs.buffer())).await;
                let (Err(Abort::NotHere(owner)), Some(map_version), Some(owners)) =
                    (run, map_version, self.owners())
                else {
                    break run?;
                };
                if usize::from(owner) == self.worker {
                    // The drain gate is closed: keys are about to be given to another worker,
                    // perhaps these.
                    Box::pin(owners.pass(&self.ctx, &self.executor, txn)).await?;
                    continue;
                }
                let to = (owner.into(), map_version);
                match Box::pin(self.send_on(owners, txn, to, (id, args), outputs.buffer())).await {
                    // The key has moved on to a third worker meanwhile.
                    Err(Abort::NotHere(_)) => {}
                    sent => break sent?,
                }
            }
            outputs.close(body);
        }
        if reader.finished() { Ok(()) } else { Err(Abort::BadRequest) }
    }

    /// Runs the steps of a request, and prepares if the request asks for it. Returns the vote.
    async fn serve_steps(
        &self,
        gtid: Gtid,
        link: LinkId,
        piggyback: Piggyback,
        steps: &[u8],
        outputs: &mut Batch,
    ) -> Result<Option<Vote>, Abort> {
        if piggyback == Piggyback::Check {
            return Box::pin(self.check(gtid)).await.map(|()| None);
        }
        // A transaction that comes here only once opens a session only if it has to wait. Until
        // then this worker runs nothing else, so no message can look for the session.
        let may_pass = piggyback == Piggyback::Prepare(LockPoint::Reached)
            && !self.distributed.sessions.borrow().contains_key(&gtid);
        let passing = Passing { local: self, gtid, link, opened: Cell::new(!may_pass) };
        let mut txn =
            if may_pass { self.begin(gtid, piggyback) } else { self.open_session(gtid, link, piggyback)? };
        let mut outcome = passing.run(pin!(self.run_batch(&mut txn, steps, outputs))).await;
        if outcome.is_ok() && outputs.bytes().len() > MOST_PAYLOAD {
            outcome = Err(Abort::TooLong);
        }
        if outcome.is_ok() && may_pass && !E::wrote(&txn) {
            outcome = passing.run(pin!(self.validate_at_home(&mut txn))).await;
            if outcome.is_ok() {
                return pin!(self.pass(txn, &passing)).await.map(Some);
            }
        }
        if let Err(abort) = outcome {
            let abort = home::answer(&*self.shared.engine, &self.ctx, &mut txn, abort);
            let seen = self.shared.engine.horizon(&txn, &self.ctx);
            self.give_up(gtid, txn)?;
            if let Abort::User(_) = abort {
                // The home tells its client about rows that were read here, so those must be
                // durable.
                self.durable(seen).await?;
            }
            return Err(abort);
        }
        match piggyback {
            Piggyback::More | Piggyback::Check => {
                self.put_back(gtid, txn);
                Ok(None)
            }
            Piggyback::Prepare(lock_point) => {
                passing.open();
                pin!(self.prepare(gtid, txn, lock_point)).await.map(Some)
            }
        }
    }

    /// Checks, at the lock point, that all rows that a read-only participant has read are there at
    /// this moment. Changes after it do not matter.
    async fn validate_at_home(&self, txn: &mut E::LocalTxn) -> Result<(), Abort> {
        pin!(self.shared.engine.validate(&self.ctx, &self.executor, txn, Scope::Home)).await
    }

    /// Ends a participant that has only read, at the lock point.
    async fn pass(&self, mut txn: Box<E::LocalTxn>, passing: &Passing<'_, W, E>) -> Result<Vote, Abort> {
        let lsn = self.shared.engine.commit(&self.ctx, &mut txn);
        self.spares.give_txn(txn);
        if passing.opened.get() {
            self.distributed.sessions.borrow_mut().remove(&passing.gtid);
        }
        self.durable(lsn?).await?;
        Ok(Vote::ReadOnly)
    }

    /// Ends a session of which the home is about to abort by its own decision. Succeeds if all rows
    /// that were read here were there at one moment.
    async fn check(&self, gtid: Gtid) -> Result<(), Abort> {
        let (engine, ctx) = (&self.shared.engine, &self.ctx);
        // A session that is gone, or of which a step still runs, cannot be confirmed. A prepared
        // one waits for its decision.
        let mut txn = self.take_working(gtid).ok_or(Abort::Conflict)?;
        let holds = engine.holds(ctx, &mut txn);
        let seen = engine.horizon(&txn, ctx);
        self.give_up(gtid, txn)?;
        if !holds {
            return Err(Abort::Conflict);
        }
        self.durable(seen).await
    }

    /// The local transaction of a session that has run steps and was not asked to prepare. `None`
    /// while a step still runs.
    fn take_working(&self, gtid: Gtid) -> Option<Box<E::LocalTxn>> {
        let mut sessions = self.distributed.sessions.borrow_mut();
        let session = sessions.get_mut(&gtid)?;
        if session.machine.state() == ParticipantState::Working { session.txn.take() } else { None }
    }

    /// Ends a session of which the local transaction cannot be prepared.
    fn give_up(&self, gtid: Gtid, mut txn: Box<E::LocalTxn>) -> Result<(), Abort> {
        let undone = self.shared.engine.rollback(&self.ctx, &mut txn);
        self.spares.give_txn(txn);
        self.distributed.sessions.borrow_mut().remove(&gtid);
        undone
    }

    fn put_back(&self, gtid: Gtid, txn: Box<E::LocalTxn>) {
        if let Some(session) = self.distributed.sessions.borrow_mut().get_mut(&gtid) {
            session.txn = Some(txn);
            session.since_ns = world::now_ns();
        }
    }

    async fn validate_for_vote(&self, gtid: Gtid, txn: &mut E::LocalTxn) -> Result<(), Abort> {
        pin!(self.shared.engine.validate(&self.ctx, &self.executor, txn, Scope::Distributed)).await?;
        // The home may have given up the transaction meanwhile.
        if self.cancelled(gtid) { Err(Abort::Participant) } else { Ok(()) }
    }

    async fn prepare(
        &self,
        gtid: Gtid,
        mut txn: Box<E::LocalTxn>,
        lock_point: LockPoint,
    ) -> Result<Vote, Abort> {
        let (engine, ctx) = (&self.shared.engine, &self.ctx);
        let validated = pin!(self.validate_for_vote(gtid, &mut txn)).await;
        if let Err(abort) = validated {
            self.give_up(gtid, txn)?;
            return Err(abort);
        }
        let wrote = if E::wrote(&txn) { Wrote::Something } else { Wrote::Nothing };
        // The effects that the machine returns here follow from its diagram: the code below carries
        // them out. The vote rides on the reply.
        let event = Event::Prepare { wrote, lock_point };
        if let Some(session) = self.distributed.sessions.borrow_mut().get_mut(&gtid) {
            session.machine.on(event);
        }
        match (wrote, lock_point) {
            (Wrote::Something, _) => {
                let note = postcard::to_stdvec(&PrepareNote { gtid }).expect("a note is a plain value");
                let lsn = engine.prepare(
                    ctx,
                    &mut txn,
                    &note,
                    match lock_point {
                        LockPoint::Reached => exec::LockPoint::Reached,
                        LockPoint::Ahead => exec::LockPoint::Ahead,
                    },
                );
                self.put_back(gtid, txn);
                // The home commits on this vote.
                self.stable(lsn?).await?;
                let mut sessions = self.distributed.sessions.borrow_mut();
                let Some(session) = sessions.get_mut(&gtid) else { return Err(Abort::Participant) };
                session.machine.on(Event::Prepared);
                Ok(Vote::Yes)
            }
            (Wrote::Nothing, LockPoint::Ahead) => {
                let lsn = engine.horizon(&txn, ctx);
                self.put_back(gtid, txn);
                self.durable(lsn).await?;
                Ok(Vote::ReadOnly)
            }
            (Wrote::Nothing, LockPoint::Reached) => {
                let lsn = engine.commit(ctx, &mut txn);
                self.spares.give_txn(txn);
                self.distributed.sessions.borrow_mut().remove(&gtid);
                let lsn = lsn?;
                self.durable(lsn).await?;
                Ok(Vote::ReadOnly)
            }
        }
    }

    async fn serve_job(&self, job: Job<E::LocalTxn>) {
        match job {
            Job::Visit(visit) => {
                if let Some(owners) = self.owners() {
                    pin!(self.serve_visit(owners, visit)).await;
                }
            }
            // A step request is not begun once its link has broken: its home has given the
            // transaction up.
            Job::Steps { link, .. } | Job::Prepare { link, .. } if self.links.peer(link).is_none() => {}
            Job::Steps { link, call, gtid, piggyback, steps } => {
                let mut outputs = self.spares.take_batch();
                let outcome = pin!(self.serve_steps(gtid, link, piggyback, &steps, &mut outputs)).await;
                let bytes = if outcome.is_ok() { outputs.bytes() } else { &[] };
                let done = Frame::StepsDone { call, gtid, outcome, outputs: bytes };
                pin!(self.answer(link, bytes.len(), &done)).await;
                self.spares.give_batch(outputs);
                self.spares.give_buffer(steps);
            }
            Job::Prepare { link, gtid, lock_point } => {
                let vote = match self.take_working(gtid) {
                    Some(mut txn) => {
                        // The home is already validated.
                        if self.me() < gtid.home {
                            E::set_wait_order(&mut txn, WaitOrder::Any);
                        }
                        pin!(self.prepare(gtid, txn, lock_point)).await.unwrap_or(Vote::No)
                    }
                    // A prepare request while a step still runs breaks the protocol: the home gets
                    // a refusal.
                    None => Vote::No,
                };
                // If the vote is lost, the home gives up, and this participant inquires.
                let _ = self.send(link, &Frame::TwoPhase(Message::Vote { gtid, vote }));
            }
            Job::More { link, call, message } => {
                if !self.conversations.deliver((link, call), message) {
                    // Nothing of the transaction is left. If the link is full, its client knows by
                    // its own limits.
                    let outcome = Err(Abort::InstanceDown);
                    let _ = self.send(link, &Frame::Done { call, outcome, reply: b"" });
                }
            }
            Job::Submit { link, from, call, request } => {
                let mut reply = self.spares.take_buffer(&[]);
                let outcome = match W::decode_request(&request) {
                    Ok(request) => {
                        // Given by value it would be moved into the outer future: tens of
                        // thousands of bytes.
                        let submitted = pin!(self.submit(&request, (from, link, call), &mut reply));
                        pin!(probe::charged(Role::Home, submitted)).await
                    }
                    Err(abort) => Err(abort),
                };
                self.spares.give_buffer(request);
                let bytes = if outcome.is_ok() { &reply[..] } else { &[] };
                pin!(self.answer(link, bytes.len(), &Frame::Done { call, outcome, reply: bytes })).await;
                self.spares.give_buffer(reply);
                if from == Peer::Client {
                    self.links.answered(link);
                }
            }
        }
    }

    /// Runs a request of which the client is elsewhere. A client of another instance measures its
    /// latency itself.
    async fn submit(
        &self,
        request: &W::Request,
        (from, link, call): (Peer, LinkId, u64),
        reply: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        let id = (link, call);
        let conversation = (from == Peer::Client && self.workload().converses(request)).then_some(id);
        let _open = conversation.map(|id| Open::new(self, id));
        let started = world::now_ns();
        if let Some(batches) = &self.batches
            && conversation.is_none()
        {
            let kind = self.workload().kind(request);
            batches.join(kind).await;
        }
        let mut txn = self.take_txn();
        let keys = self.keys_of(request);
        let parcel = Parcel { reply, conversation };
        let outcome = pin!(home::run(self, (request, keys), &mut txn, Some(parcel))).await;
        self.spares.give_txn(txn);
        let now = world::now_ns();
        self.count(request, outcome.as_ref().map(|(_, reach)| *reach).map_err(|abort| *abort), now);
        if outcome.is_ok() && from == Peer::Client {
            self.answered(request, now - started);
        }
        outcome.map(drop)
    }
}

/// A task that serves requests, one after the other.
async fn serve<W: Workload, E: Engine>(local: Rc<Local<W, E>>) {
    loop {
        let job = std::future::poll_fn(|cx| {
            local.jobs.summoned.set(false);
            match local.jobs.waiting.borrow_mut().pop_front() {
                Some(job) => Poll::Ready(job),
                None => {
                    let mut idle = local.jobs.idle.borrow_mut();
                    if !idle.iter().any(|w| w.will_wake(cx.waker())) {
                        idle.push(cx.waker().clone());
                    }
                    Poll::Pending
                }
            }
        })
        .await;
        let mut served = pin!(local.serve_job(job));
        std::future::poll_fn(|cx| {
            let polled = served.as_mut().poll(cx);
            if polled.is_pending() && !local.jobs.waiting.borrow().is_empty() {
                local.summon();
            }
            polled
        })
        .await;
    }
}
