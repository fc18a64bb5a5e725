//! The home side of a transaction. The *home* is the instance at which the procedure runs. It sends
//! steps to the instances that own their rows, collects the results, and drives the commit.
//!
//! ```text
//!   run the procedure
//!     `all` / `last` ---> steps of this instance run here
//!                         other instances: one request for each, all under way at once
//!                         (a phase that writes visits the instances one after the other)
//!                    <--- rendezvous: results by value; votes ride back on the last results
//!   commit
//!     no other instance took part: commit record -> durable -> reply
//!     others took part:            twophase::Coordinator gives the order:
//!                                  [prepare], log, decide, reply, forget
//! ```

use crate::counts::{self, Reach};
use crate::gate;
use crate::groups::{self, Groups};
use crate::links::MOST_PAYLOAD;
use crate::local::{Keys, Local, StepPlace};
use crate::state::Home;
use base::{Gtid, InstanceId};
use exec::{Engine, Holds, Protection, Scope, WaitOrder};
use probe::{Component, Wait};
use serde::Serialize;
use smallvec::SmallVec;
use std::pin::pin;
use std::task::Poll;
use twophase::coordinator::{Coordinator, Effect, Effects, Event, Phase, Request};
use twophase::{LockPoint, Vote};
use txn::{Abort, Effect as StepEffect, Spread, Steps, Transaction, Workload};
use wire::{Frame, Piggyback};

/// Runs one request until its outcome is durable. `keys` says which workers own its keys, as found
/// just before. A reply that leaves this instance is encoded into `parcel`. A reply that is too
/// long to be sent ends the transaction before anything is committed.
pub(crate) async fn run<W: Workload, E: Engine>(
    local: &Local<W, E>,
    (request, keys): (&W::Request, Keys),
    txn: &mut E::LocalTxn,
    mut parcel: Option<&mut Vec<u8>>,
) -> Result<(W::Reply, Reach), Abort> {
    let workload = local.workload();
    probe::transaction(workload.kind(request));
    local.note_meeting(request);
    let (engine, ctx) = (&local.shared.engine, &local.ctx);
    let mut protection = match keys {
        Keys::Here if local.reads_past && workload.only_reads(request) => Protection::Snapshot,
        Keys::Here => engine.protection_at_home(ctx),
        Keys::At(_) | Keys::Spread => Protection::Locks,
    };
    let _pass = match &local.gate {
        Some(gate) if keys != Keys::Here => Some(pin!(gate.enter(gate::MOST)).await),
        _ => None,
    };
    loop {
        engine.begin(ctx, txn, protection);
        let mut run =
            Run { local, txn, gtid: None, alone: false, ended: false, asked: SmallVec::new(), failed: None };
        let span = probe::span(Component::Execution);
        let mut outcome = pin!(workload.run(request, &mut run)).await;
        drop(span);
        if let (Some(gtid), Some(abort)) = (run.gtid, run.decided_abort(&outcome)) {
            outcome = Err(Box::pin(run.validate_abort(gtid, abort)).await);
        }
        // The first abort of a step ends the transaction, even if the procedure ignores it. Only
        // the abort that a step decided on itself may be replaced by another abort of the
        // procedure.
        if let Some(abort) = run.failed
            && (outcome.is_ok() || !is_its_own(abort))
        {
            outcome = Err(abort);
        }
        if let (Ok(reply), Some(parcel)) = (&outcome, &mut parcel) {
            outcome = packed(reply, parcel).and(outcome);
        }
        let (gtid, alone) = (run.gtid, run.alone);
        let outcome = match outcome {
            Ok(reply) if alone => Ok(reply),
            Ok(reply) => {
                let scope = if gtid.is_some() { Scope::Distributed } else { Scope::Home };
                pin!(engine.validate(ctx, &local.executor, txn, scope)).await.map(|()| reply)
            }
            Err(abort) => Err(answer(&**engine, ctx, txn, abort)),
        };
        match (outcome, gtid) {
            (Ok(reply), None) => {
                let lsn = engine.commit(ctx, txn)?;
                local.durable(lsn).await?;
                observe(local, &*workload, request, Some(&reply));
                return Ok((reply, if alone { Reach::Distributed } else { Reach::Home }));
            }
            (Ok(reply), Some(gtid)) => {
                local.feed_home(gtid, Event::LocalReady);
                Box::pin(commit_everywhere(local, gtid, txn)).await?;
                observe(local, &*workload, request, Some(&reply));
                return Ok((reply, Reach::Distributed));
            }
            (Err(Abort::NeedsLocks), _) if protection != Protection::Locks => {
                engine.rollback(ctx, txn)?;
                protection = Protection::Locks;
            }
            (Err(abort), gtid) => {
                let seen = engine.horizon(txn, ctx);
                let undone = engine.rollback(ctx, txn);
                if let Some(gtid) = gtid {
                    local.feed_home(gtid, Event::LocalFailed);
                    local.homes.borrow_mut().remove(&gtid);
                }
                undone?;
                if abort == Abort::AfterLast {
                    local.tell_of_bug(request, abort);
                }
                if let Abort::User(_) = abort {
                    // Locks of other transactions are released before their commits are durable.
                    // This answer depends on rows that they wrote, so it waits for those commits.
                    local.durable(seen).await?;
                    observe(local, &*workload, request, None);
                }
                return Err(abort);
            }
        }
    }
}

/// Encodes a reply into `parcel`.
fn packed<R: Serialize>(reply: &R, parcel: &mut Vec<u8>) -> Result<(), Abort> {
    parcel.clear();
    txn::step::encode(reply, parcel);
    if parcel.len() <= MOST_PAYLOAD { Ok(()) } else { Err(Abort::TooLong) }
}

/// Whether the procedure or a step decided on this abort itself, because of the rows that it read.
fn is_its_own(abort: Abort) -> bool {
    matches!(abort, Abort::User(_) | Abort::BadRequest)
}

/// The abort to report. An abort that the procedure or a step decided on counts only if all rows
/// that it read were there at one moment; otherwise it is a conflict.
pub(crate) fn answer<E: Engine>(
    engine: &E,
    ctx: &E::WorkerContext,
    txn: &mut E::LocalTxn,
    abort: Abort,
) -> Abort {
    if is_its_own(abort) && !engine.holds(ctx, txn) { Abort::Conflict } else { abort }
}

/// Adds the workload's own counts for a request that was carried out.
#[inline]
fn observe<W: Workload, E: Engine>(
    local: &Local<W, E>,
    workload: &W,
    request: &W::Request,
    reply: Option<&W::Reply>,
) {
    workload.observe(request, reply, &mut |name, n| {
        *counts::entry(&mut local.observed.borrow_mut(), name) += n;
    });
}

/// Drives the coordinator from the votes to the answer.
async fn commit_everywhere<W: Workload, E: Engine>(
    local: &Local<W, E>,
    gtid: Gtid,
    txn: &mut E::LocalTxn,
) -> Result<(), Abort> {
    let (engine, ctx) = (&local.shared.engine, &local.ctx);
    let participants = std::future::poll_fn(|cx| {
        let mut homes = local.homes.borrow_mut();
        let home = homes.get_mut(&gtid).expect("a home lives until its task ends it");
        if home.aborted {
            return Poll::Ready(None);
        }
        if let Some(participants) = home.log_commit.take() {
            return Poll::Ready(Some(participants));
        }
        home.waker = Some(cx.waker().clone());
        probe::parks(Wait::Decision, Poll::Pending)
    })
    .await;
    let Some(participants) = participants else {
        local.homes.borrow_mut().remove(&gtid);
        engine.rollback(ctx, txn)?;
        return Err(Abort::Participant);
    };
    if participants.is_empty() {
        let lsn = engine.commit(ctx, txn)?;
        local.durable(lsn).await?;
        local.feed_home(gtid, Event::Logged);
        local.homes.borrow_mut().remove(&gtid);
        return Ok(());
    }
    let note = local.homes.borrow()[&gtid].machine.note();
    let note = postcard::to_stdvec(&note).expect("a note is a plain value");
    let (lsn, id) = engine.commit_with_note(ctx, txn, &note)?;
    if let Some(home) = local.homes.borrow_mut().get_mut(&gtid) {
        home.note = Some(id);
    }
    // The participants commit on this record and then forget the transaction.
    local.stable(lsn).await?;
    local.feed_home(gtid, Event::Logged);
    Ok(())
}

/// One run of a procedure.
pub(crate) struct Run<'l, W: Workload, E: Engine> {
    pub local: &'l Local<W, E>,
    pub txn: &'l mut E::LocalTxn,
    /// Set when the first step leaves this instance, except in [`Run::ask_alone`].
    gtid: Option<Gtid>,
    /// Whether the only steps elsewhere were the last ones, went to one instance, and only read
    /// ([`Run::ask_alone`]).
    alone: bool,
    /// The steps that the procedure declared as its last ones ([`Transaction::last`]) have been
    /// issued.
    ended: bool,
    /// The instances to which steps were sent.
    asked: SmallVec<[Asked; 8]>,
    /// The first abort of any step, here or elsewhere. The transaction ends with an abort, even if
    /// the procedure ignores this one.
    failed: Option<Abort>,
}

/// An instance to which steps were sent.
struct Asked {
    instance: InstanceId,
    /// From which moment on that instance keeps the rows that were read there unchanged.
    keeps: Keeps,
}

/// Since when another instance keeps the rows that were read there unchanged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    /// It has not voted, and confirms its reads when it is asked.
    NotYet,
    /// From its vote to the decision, or to the lock point.
    SinceVote,
    /// It has rolled back, after it checked the rows that its steps read.
    NoMore,
}

/// The steps for one other instance, and the call that carries them.
type Group = groups::Group<InstanceId, Option<u32>>;

impl<W: Workload, E: Engine> Run<'_, W, E> {
    /// Whether no step has left this instance.
    pub(crate) fn is_at_home(&self) -> bool {
        self.gtid.is_none()
    }

    /// Runs one phase: here if this worker runs all its steps, else with the workers and instances
    /// that own them.
    pub(crate) async fn phase<S: Steps>(&mut self, steps: S, last: Last) -> Result<S::Outputs, Abort> {
        let local = self.local;
        let count = steps.count();
        if self.ended && count > 0 {
            // The home may be validated and others prepared, or they may have released their read
            // locks: nothing would protect these steps.
            return Err(Abort::AfterLast);
        }
        let here = |i: usize| local.place(steps.route(i)) == StepPlace::Here;
        if E::OWNERS && !local.tallies.is_empty() {
            (0..count).for_each(|i| local.tally(steps.route(i)));
        }
        if local.is_all_here() || (0..count).all(here) {
            let engine = &local.shared.engine;
            if engine.admit(self.txn) {
                return pin!(steps.run_all(&mut local.access(self.txn))).await;
            }
            Box::pin(engine.pass(&local.ctx, &local.executor, self.txn)).await?;
            // While this waited, keys that were owned here may have gone to another worker. From
            // now on the owner stays the same.
            if (0..count).all(here) {
                return pin!(steps.run_all(&mut local.access(self.txn))).await;
            }
        }
        if E::protection(self.txn) != Protection::Locks {
            return Err(Abort::NeedsLocks);
        }
        pin!(self.everywhere(&steps, last)).await
    }

    /// A phase with steps at other instances or at other workers.
    async fn everywhere<S: Steps>(&mut self, steps: &S, last: Last) -> Result<S::Outputs, Abort> {
        let local = self.local;
        let mut partial = steps.partial();
        let others = |_, route| Some(local.owner(route)).filter(|owner| *owner != local.me());
        let mut groups: Groups<InstanceId, Option<u32>> =
            probe::within(Component::Communication, || groups::group(local, steps, others));
        // An instance that had steps before, and has none in this phase, is prepared after this
        // phase.
        let in_groups = |asked: &Asked| groups.iter().any(|group| group.owner == asked.instance);
        let last = if last == Last::Yes && !self.asked.iter().all(in_groups) { Last::Here } else { last };
        let outcome = match (&mut groups[..], steps.effect()) {
            ([], _) => pin!(self.run_home(steps, &mut partial)).await,
            ([group], _)
                if last == Last::Yes && E::HOLDS == Holds::FromValidation && group.only_reads(steps) =>
            {
                match self.gtid {
                    None => pin!(self.ask_alone(group, steps, &mut partial)).await,
                    Some(_) => pin!(self.home_first(group, steps, &mut partial)).await,
                }
            }
            (groups, StepEffect::Writes) => pin!(self.in_turn(groups, steps, &mut partial, last)).await,
            (groups, StepEffect::Reads) => pin!(self.at_once(groups, steps, &mut partial, last)).await,
        };
        groups.into_iter().for_each(|g| local.give_batch(g.steps));
        outcome.map(|()| S::finish(partial))
    }

    /// The case in which the only steps left elsewhere read at one instance, and validation
    /// protects reads (`Holds::FromValidation`). The home validates first and then sends the steps.
    /// The other instance reads, validates its reads, and ends with its vote. Its validation is the
    /// moment at which the whole transaction takes effect. This costs one message in each
    /// direction; the other instance keeps nothing, and needs no decision.
    ///
    /// A home with the higher number waits here for a lower instance while its own rows are held,
    /// which could close a circle of waits. The lower instance therefore waits only a short time
    /// ([`WaitOrder::Any`]).
    async fn home_first<S: Steps>(
        &mut self,
        group: &mut Group,
        steps: &S,
        partial: &mut S::Partial,
    ) -> Result<(), Abort> {
        pin!(self.run_home(steps, partial)).await?;
        pin!(self.validate_first(Last::Yes)).await?;
        self.send(group, Last::Yes, LockPoint::Reached)?;
        pin!(self.rendezvous(group, steps, partial)).await
    }

    /// As [`Run::home_first`], for a transaction that has asked no other instance before. There is
    /// nothing to coordinate, so there is no coordinator: the answer of the other instance is the
    /// outcome, and that instance is done when it answers. If its steps wrote after all, although
    /// they were declared as reads, a coordinator is made when its vote arrives. Until then an
    /// inquiry from that instance gets no answer.
    async fn ask_alone<S: Steps>(
        &mut self,
        group: &mut Group,
        steps: &S,
        partial: &mut S::Partial,
    ) -> Result<(), Abort> {
        pin!(self.run_home(steps, partial)).await?;
        pin!(self.validate_first(Last::Yes)).await?;
        let local = self.local;
        let gtid = local.new_gtid();
        let link = local.links.to(group.owner).ok_or(Abort::InstanceDown)?;
        let call = local.calls.open_alone(gtid, link);
        self.alone = true;
        let piggyback = Piggyback::Prepare(LockPoint::Reached);
        if let Err(unsent) =
            local.send(link, &Frame::Steps { call, gtid, piggyback, steps: group.steps.bytes() })
        {
            local.calls.abandon(call);
            return Err(unsent.into());
        }
        let reply = std::future::poll_fn(|cx| probe::parks(Wait::Reply, local.calls.poll(call, cx))).await;
        let _span = probe::span(Component::Communication);
        let taken = match &reply.outcome {
            Ok(Some(Vote::ReadOnly)) => group.accept(&reply.outputs, steps, partial),
            Ok(Some(Vote::Yes)) => {
                (self.gtid, self.alone) = (Some(gtid), false);
                local.register_home(gtid);
                self.request(gtid, group.owner, Request::LastSteps(LockPoint::Reached))?;
                local.feed_home(gtid, Event::Voted { from: group.owner, vote: Vote::Yes });
                group.accept(&reply.outputs, steps, partial)
            }
            Ok(_) => Err(Abort::Participant),
            Err(abort) => Err(*abort),
        };
        local.calls.recycle(reply);
        taken
    }

    /// Tells the coordinator before a request is sent.
    fn request(&self, gtid: Gtid, to: InstanceId, request: Request) -> Result<(), Abort> {
        let mut homes = self.local.homes.borrow_mut();
        let home = homes.get_mut(&gtid).ok_or(Abort::Participant)?;
        let phase = home.machine.phase();
        // While the procedure runs, only a bug in it sends steps to an instance that has had its
        // last ones. In any other phase another event has ended the transaction.
        let abort = if phase == Phase::Running { Abort::AfterLast } else { Abort::Participant };
        home.machine.request(to, request).map_err(|_| abort)
    }

    /// A phase that writes visits the instances one after the other, in the order of their numbers.
    /// Transactions in such phases then never wait for each other in a circle over several
    /// instances. Example: T1 locks a row at instance 1 and wants one at 2, T2 the other way round.
    /// With all requests under way at once this deadlock occurs, and only a time-out ends it; on
    /// contended rows that costs far more than the round trips. Where validation protects reads,
    /// the home validates in its turn for the same reason.
    async fn in_turn<S: Steps>(
        &mut self,
        groups: &mut [Group],
        steps: &S,
        partial: &mut S::Partial,
        last: Last,
    ) -> Result<(), Abort> {
        groups.sort_by_key(|group| group.owner);
        let home = groups.partition_point(|group| group.owner < self.local.me());
        for visit in 0..groups.len() {
            if visit == home {
                pin!(self.run_home(steps, partial)).await?;
                pin!(self.validate_first(last)).await?;
            }
            // The last instance to be visited is asked at the lock point.
            let last_visit = visit + 1 == groups.len() && home <= visit;
            let lock_point = if last_visit { LockPoint::Reached } else { LockPoint::Ahead };
            let group = &mut groups[visit];
            self.send(group, last, lock_point)?;
            pin!(self.rendezvous(group, steps, partial)).await?;
        }
        if home == groups.len() {
            pin!(self.run_home(steps, partial)).await?;
        }
        Ok(())
    }

    /// A phase that only reads. With one other instance the steps of the home run first: the
    /// request then leaves at the lock point, and the reader releases its locks with its vote. With
    /// more instances all requests are under way at once.
    async fn at_once<S: Steps>(
        &mut self,
        groups: &mut [Group],
        steps: &S,
        partial: &mut S::Partial,
        last: Last,
    ) -> Result<(), Abort> {
        let alone = groups.len() == 1;
        let lock_point = if alone { LockPoint::Reached } else { LockPoint::Ahead };
        if alone {
            pin!(self.run_home(steps, partial)).await?;
        }
        let mut outcome = groups.iter_mut().try_for_each(|group| self.send(group, last, lock_point));
        if !alone && outcome.is_ok() {
            outcome = pin!(self.run_home(steps, partial)).await;
        }
        for group in groups.iter() {
            let Some(call) = group.call else { continue };
            match outcome {
                Ok(()) => outcome = pin!(self.rendezvous(group, steps, partial)).await,
                // The reads of the other instances are to be checked, once their steps have run.
                Err(abort) if self.is_to_be_checked(abort) => {
                    let other = self.rendezvous(group, steps, partial).await;
                    outcome = Err(other.err().filter(|other| !is_its_own(*other)).unwrap_or(abort));
                }
                Err(_) => self.local.calls.abandon(call),
            }
        }
        outcome
    }

    /// Whether an abort may be reported only after the other instances have confirmed it. They
    /// confirm two things. The rows that were read there were there at one moment; without locks
    /// this is certain only after validation. And those rows are durable, since other transactions
    /// release their locks before their commits are durable.
    fn is_to_be_checked(&self, abort: Abort) -> bool {
        match E::HOLDS {
            Holds::FromValidation => is_its_own(abort),
            Holds::FromSteps => matches!(abort, Abort::User(_)),
        }
    }

    /// The abort with which the transaction is to end, if the other instances have to confirm it
    /// first.
    fn decided_abort<R>(&self, outcome: &Result<R, Abort>) -> Option<Abort> {
        let abort = outcome.as_ref().err().copied().or(self.failed);
        abort.filter(|abort| self.is_to_be_checked(*abort))
    }

    /// Has the other instances confirm an abort that the procedure or a step decided on. Such an
    /// abort is reported only if a serial execution could produce it: all rows that were read, at
    /// any instance, must have been there at one moment. That moment is just before the first
    /// instance is asked: each answers whether its rows are still unchanged, and an instance that
    /// has voted has kept them unchanged since its vote. The instances that are asked roll back,
    /// and answer once the rows that were read there are durable.
    ///
    /// Returns the abort with which the transaction is to end. The caller checks the home's own
    /// reads afterwards.
    async fn validate_abort(&mut self, gtid: Gtid, abort: Abort) -> Abort {
        let local = self.local;
        let mut calls: SmallVec<[u32; 8]> = SmallVec::new();
        let mut outcome = Ok(());
        for asked in self.asked.iter().filter(|asked| asked.keeps == Keeps::NotYet) {
            let link = local.links.to(asked.instance);
            let sent = link.is_some_and(|link| {
                let call = local.calls.open(gtid, link);
                calls.push(call);
                local
                    .send(link, &Frame::Steps { call, gtid, piggyback: Piggyback::Check, steps: &[] })
                    .is_ok()
            });
            if !sent {
                outcome = Err(Abort::InstanceDown);
                break;
            }
        }
        for call in calls {
            if outcome.is_err() {
                local.calls.abandon(call);
                continue;
            }
            let reply =
                std::future::poll_fn(|cx| probe::parks(Wait::Reply, local.calls.poll(call, cx))).await;
            outcome = reply.outcome.map(drop);
            local.calls.recycle(reply);
        }
        outcome.err().unwrap_or(abort)
    }

    /// Validates the home's local transaction before the others are asked, once it has no step
    /// left.
    async fn validate_first(&mut self, last: Last) -> Result<(), Abort> {
        if E::HOLDS == Holds::FromSteps || last != Last::Yes {
            return Ok(());
        }
        let local = self.local;
        pin!(local.shared.engine.validate(&local.ctx, &local.executor, self.txn, Scope::Distributed)).await
    }

    async fn run_home<S: Steps>(&mut self, steps: &S, partial: &mut S::Partial) -> Result<(), Abort> {
        let local = self.local;
        if E::OWNERS {
            return self.run_owned(steps, partial).await;
        }
        for i in 0..steps.count() {
            if local.owner(steps.route(i)) == local.me() {
                pin!(steps.run(i, &mut local.access(self.txn), partial)).await?;
            }
        }
        Ok(())
    }

    fn send(&mut self, group: &mut Group, last: Last, lock_point: LockPoint) -> Result<(), Abort> {
        let _span = probe::span(Component::Management);
        let local = self.local;
        let gtid = *self.gtid.get_or_insert_with(|| local.open_home());
        let (piggyback, request) = match last {
            Last::No => (Piggyback::More, Request::Steps),
            Last::Yes => (Piggyback::Prepare(lock_point), Request::LastSteps(lock_point)),
            Last::Here if E::HOLDS == Holds::FromSteps => {
                (Piggyback::Prepare(lock_point), Request::LastSteps(lock_point))
            }
            // The home goes on and may take locks, or other instances are still to be prepared.
            Last::Elsewhere | Last::Here => {
                (Piggyback::Prepare(LockPoint::Ahead), Request::LastSteps(LockPoint::Ahead))
            }
        };
        if piggyback != Piggyback::More && group.owner > local.me() {
            // The other instance may already be prepared when the home next waits for a lock, so
            // that wait may close a circle.
            E::set_wait_order(self.txn, WaitOrder::Any);
        }
        if self.asked.iter().all(|asked| asked.instance != group.owner) {
            self.asked.push(Asked { instance: group.owner, keeps: Keeps::NotYet });
        }
        let link = local.links.to(group.owner).ok_or(Abort::InstanceDown)?;
        self.request(gtid, group.owner, request)?;
        let call = local.calls.open(gtid, link);
        match local.send(link, &Frame::Steps { call, gtid, piggyback, steps: group.steps.bytes() }) {
            Ok(()) => {
                group.call = Some(call);
                Ok(())
            }
            Err(unsent) => {
                local.calls.abandon(call);
                Err(unsent.into())
            }
        }
    }

    async fn rendezvous<S: Steps>(
        &mut self,
        group: &Group,
        steps: &S,
        partial: &mut S::Partial,
    ) -> Result<(), Abort> {
        let local = self.local;
        let (gtid, call) = self.gtid.zip(group.call).expect("a call was sent");
        let reply = std::future::poll_fn(|cx| probe::parks(Wait::Reply, local.calls.poll(call, cx))).await;
        let _span = probe::span(Component::Communication);
        let taken = match &reply.outcome {
            // The other participants are to keep their state until their reads are checked.
            Err(abort) if self.is_to_be_checked(*abort) => {
                self.note_keeping(group.owner, Keeps::NoMore);
                Err(*abort)
            }
            Err(abort) => {
                if *abort != Abort::InstanceDown {
                    local.feed_home(gtid, Event::Voted { from: group.owner, vote: Vote::No });
                }
                Err(*abort)
            }
            Ok(vote) => {
                let taken = group.accept(&reply.outputs, steps, partial);
                if let Some(vote) = *vote {
                    self.note_keeping(group.owner, Keeps::SinceVote);
                    local.feed_home(gtid, Event::Voted { from: group.owner, vote });
                }
                taken
            }
        };
        local.calls.recycle(reply);
        taken
    }

    /// Remembers the first abort of a step; the procedure gets the outcome unchanged.
    fn noted<T>(&mut self, outcome: Result<T, Abort>) -> Result<T, Abort> {
        if let Err(abort) = outcome {
            self.failed.get_or_insert(abort);
        }
        outcome
    }

    fn note_keeping(&mut self, instance: InstanceId, keeps: Keeps) {
        for asked in self.asked.iter_mut().filter(|asked| asked.instance == instance) {
            asked.keeps = keeps;
        }
    }
}

/// For which participants the steps of a phase are the last ones.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    No,
    /// These are the last steps for every instance but this one.
    Elsewhere,
    /// These are the last steps for the instances that they go to; other participants still have to
    /// be prepared.
    Here,
    Yes,
}

impl<W: Workload, E: Engine> Transaction for Run<'_, W, E> {
    async fn all<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        let outcome = pin!(self.phase(steps, Last::No)).await;
        self.noted(outcome)
    }

    async fn last<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        let outcome = pin!(self.phase(steps, Last::Yes)).await;
        self.ended = true;
        self.noted(outcome)
    }

    async fn last_elsewhere<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        let outcome = pin!(self.phase(steps, Last::Elsewhere)).await;
        self.noted(outcome)
    }

    async fn over<S: Spread>(&mut self, step: S) -> Result<S::Output, Abort> {
        let outcome = Box::pin(self.spread(&step)).await;
        self.noted(outcome)
    }
}

impl<W: Workload, E: Engine> Local<W, E> {
    /// Registers a distributed transaction before its first step leaves, so that inquiries find it.
    fn open_home(&self) -> Gtid {
        let gtid = self.new_gtid();
        self.register_home(gtid);
        gtid
    }

    fn register_home(&self, gtid: Gtid) {
        let holds = match E::HOLDS {
            Holds::FromSteps => twophase::Holds::FromSteps,
            #[cfg(feature = "planted")]
            Holds::FromValidation if crate::planted::is(crate::planted::Bug::EarlyRelease) => {
                twophase::Holds::FromSteps
            }
            Holds::FromValidation => twophase::Holds::FromPrepare,
        };
        self.homes
            .borrow_mut()
            .insert(gtid, Home::new(Coordinator::new(gtid).holding(holds), self.shared.give_up_ns()));
    }

    /// Feeds a coordinator an event and carries out the effects that it returns. A transaction that
    /// is not found is over.
    pub(crate) fn feed_home(&self, gtid: Gtid, event: Event) {
        let _span = probe::span(Component::Management);
        let effects = match self.homes.borrow_mut().get_mut(&gtid) {
            Some(home) => home.on(event, world::now_ns()),
            None => return,
        };
        self.perform_home(gtid, effects);
    }

    /// Carries out the effects that a coordinator returned.
    pub(crate) fn perform_home(&self, gtid: Gtid, effects: Effects) {
        let (mut wake, mut forget) = (None, false);
        for effect in effects {
            match effect {
                Effect::Send { to, message } => self.tell(to, message),
                Effect::Forget => forget = true,
                // The task that runs the procedure releases its own locks and gives its own answer.
                Effect::Commit | Effect::Answer(_) => {}
                Effect::LogCommit { participants } => {
                    if let Some(home) = self.homes.borrow_mut().get_mut(&gtid) {
                        home.log_commit = Some(participants);
                        wake = home.waker.take();
                    }
                }
                Effect::Abort => {
                    if let Some(home) = self.homes.borrow_mut().get_mut(&gtid) {
                        home.aborted = true;
                        wake = home.waker.take();
                    }
                    self.calls.give_up(gtid);
                }
            }
        }
        if forget
            && let Some(home) = self.homes.borrow_mut().remove(&gtid)
            && let Some(note) = home.note
        {
            self.shared.engine.forget(&self.ctx, note);
        }
        if let Some(waker) = wake {
            waker.wake();
        }
    }

    /// Feeds an event to every coordinator of this worker for which `event` returns one.
    pub(crate) fn feed_homes(&self, event: impl Fn(&Home) -> Option<Event>) {
        let due: Vec<_> =
            self.homes.borrow().iter().filter_map(|(gtid, home)| Some((*gtid, event(home)?))).collect();
        due.into_iter().for_each(|(gtid, event)| self.feed_home(gtid, event));
    }
}
