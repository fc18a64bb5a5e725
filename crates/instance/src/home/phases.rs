//! The steps of one phase: on this worker if it runs them all, else at the workers and instances
//! that own their rows.
//!
//! ```text
//!   phase that reads:   requests to all instances, own steps meanwhile, rendezvous with each
//!   phase that writes:  instance 0: request, rendezvous; instance 1: ...; the home in its turn
//! ```
//!
//! The last steps of a transaction carry a request to prepare, and the vote comes back with their
//! results. The coordinator is told before each request leaves.

use super::confirm::is_its_own;
use super::{Asked, Group, Keeps, Last, Run};
use crate::batches::Batches;
use crate::groups::{self, Groups};
use crate::local::StepPlace;
use crate::phase::{AnyPhase, Collected, Open};
use base::{Gtid, InstanceId};
use exec::{Engine, Holds, Protection, WaitOrder};
use probe::{Component, Wait};
use smallvec::smallvec;
use std::pin::pin;
use twophase::coordinator::{Event, Phase, Request};
use twophase::{LockPoint, Vote};
use txn::{Abort, Effect as StepEffect, Steps, Workload};
use wire::{Frame, Piggyback};

impl<W: Workload, E: Engine> Run<'_, W, E> {
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
        if self.staged && E::protection(self.txn) != Protection::Unlocked {
            exec::yield_now().await;
        }
        self.staged = local.batches.as_ref().is_some_and(Batches::is_staged);
        let here = |i: usize| local.place(steps.route(i)) == StepPlace::Here;
        if E::OWNERS && local.sampling.is_on() {
            (0..count).for_each(|i| local.tally(steps.route(i)));
        }
        if local.is_all_here() || (0..count).all(here) {
            if local.admit(self.txn) {
                return pin!(steps.run_all(&mut local.access(self.txn))).await;
            }
            Box::pin(local.wait_admitted(self.txn)).await?;
            // While this waited, keys that were owned here may have gone to another worker. From
            // now on the owner stays the same.
            if (0..count).all(here) {
                return pin!(steps.run_all(&mut local.access(self.txn))).await;
            }
        }
        if E::protection(self.txn) != Protection::Locks {
            return Err(Abort::NeedsLocks);
        }
        let mut phase = Collected { outputs: steps.partial(), steps: &steps };
        pin!(self.everywhere(&mut phase, last)).await?;
        Ok(S::finish(phase.outputs))
    }

    /// A phase with steps at other instances or at other workers.
    async fn everywhere(&mut self, phase: &mut dyn AnyPhase<E>, last: Last) -> Result<(), Abort> {
        let local = self.local;
        let others = |_, route| Some(local.owner(route)).filter(|owner| *owner != local.me());
        let mut groups: Groups<InstanceId, Option<u32>> =
            probe::within(Component::Communication, || groups::group(local, &*phase, others));
        // An instance that had steps before, and has none in this phase, is prepared after this
        // phase.
        let in_groups = |asked: &Asked| groups.iter().any(|group| group.owner == asked.instance);
        let last = if last == Last::Yes && !self.asked.iter().all(in_groups) { Last::Here } else { last };
        let outcome = match (&mut groups[..], phase.effect()) {
            ([], _) => pin!(self.run_home(phase)).await,
            ([group], _)
                if last == Last::Yes && E::HOLDS == Holds::FromValidation && group.only_reads(&*phase) =>
            {
                match self.gtid {
                    None => pin!(self.ask_alone(group, phase)).await,
                    Some(_) => pin!(self.home_first(group, phase)).await,
                }
            }
            (groups, StepEffect::Writes) => pin!(self.in_turn(groups, phase, last)).await,
            (groups, StepEffect::Reads) => pin!(self.at_once(groups, phase, last)).await,
        };
        groups.into_iter().for_each(|g| local.spares.give_batch(g.steps));
        outcome
    }

    /// A phase that writes visits the instances one after the other, in the order of their numbers.
    /// Transactions in such phases then never wait for each other in a circle over several
    /// instances. Example: T1 locks a row at instance 1 and wants one at 2, T2 the other way round.
    /// With all requests under way at once this deadlock occurs, and only a time-out ends it; on
    /// contended rows that costs far more than the round trips. Where validation protects reads,
    /// the home validates in its turn for the same reason.
    async fn in_turn(
        &mut self,
        groups: &mut [Group],
        phase: &mut dyn AnyPhase<E>,
        last: Last,
    ) -> Result<(), Abort> {
        groups.sort_by_key(|group| group.owner);
        let home = groups.partition_point(|group| group.owner < self.local.me());
        for visit in 0..groups.len() {
            if visit == home {
                pin!(self.run_home(phase)).await?;
                pin!(self.validate_first(last)).await?;
            }
            // The last instance to be visited is asked at the lock point.
            let last_visit = visit + 1 == groups.len() && home <= visit;
            let lock_point = if last_visit { LockPoint::Reached } else { LockPoint::Ahead };
            let group = &mut groups[visit];
            self.send(group, last, lock_point)?;
            pin!(self.rendezvous(group, phase)).await?;
        }
        if home == groups.len() {
            pin!(self.run_home(phase)).await?;
        }
        Ok(())
    }

    /// A phase that only reads. With one other instance the steps of the home run first: the
    /// request then leaves at the lock point, and the reader releases its locks with its vote. With
    /// more instances all requests are under way at once.
    async fn at_once(
        &mut self,
        groups: &mut [Group],
        phase: &mut dyn AnyPhase<E>,
        last: Last,
    ) -> Result<(), Abort> {
        let alone = groups.len() == 1;
        let lock_point = if alone { LockPoint::Reached } else { LockPoint::Ahead };
        if alone {
            pin!(self.run_home(phase)).await?;
        }
        let mut outcome = groups.iter_mut().try_for_each(|group| self.send(group, last, lock_point));
        if !alone && outcome.is_ok() {
            outcome = pin!(self.run_home(phase)).await;
        }
        for group in groups.iter() {
            let Some(call) = group.call else { continue };
            match outcome {
                Ok(()) => outcome = pin!(self.rendezvous(group, phase)).await,
                // The reads of the other instances are to be checked, once their steps have run.
                Err(abort) if self.is_to_be_checked(abort) => {
                    let other = self.rendezvous(group, phase).await;
                    outcome = Err(other.err().filter(|other| !is_its_own(*other)).unwrap_or(abort));
                }
                Err(_) => self.local.calls.abandon(call),
            }
        }
        outcome
    }

    pub(super) async fn run_home(&mut self, phase: &mut dyn AnyPhase<E>) -> Result<(), Abort> {
        let local = self.local;
        // The constant keeps the code of owners out of the other designs' programs.
        if E::OWNERS
            && let Some(owners) = local.owners()
        {
            return self.run_owned(owners, phase).await;
        }
        let is_ours = |_: usize, route| local.owner(route) == local.me();
        if (0..phase.count()).any(|i| is_ours(i, phase.route(i))) {
            let mut open: Open = smallvec![true; phase.count()];
            phase.run(&mut open, &is_ours, local.access(self.txn)).await?;
        }
        Ok(())
    }

    /// Tells the coordinator before a request is sent.
    pub(super) fn request(&self, gtid: Gtid, to: InstanceId, request: Request) -> Result<(), Abort> {
        let mut homes = self.local.distributed.homes.borrow_mut();
        let home = homes.get_mut(&gtid).ok_or(Abort::Participant)?;
        let phase = home.machine.phase();
        // While the procedure runs, only a bug in it sends steps to an instance that has had its
        // last ones. In any other phase another event has ended the transaction.
        let abort = if phase == Phase::Running { Abort::AfterLast } else { Abort::Participant };
        home.machine.request(to, request).map_err(|_| abort)
    }

    pub(super) fn send(&mut self, group: &mut Group, last: Last, lock_point: LockPoint) -> Result<(), Abort> {
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

    pub(super) async fn rendezvous(
        &mut self,
        group: &Group,
        phase: &mut dyn AnyPhase<E>,
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
                let taken = group.accept(&reply.outputs, phase);
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
}
