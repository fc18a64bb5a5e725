//! The order of reads, validations and votes where validation protects reads
//! ([`Holds::FromValidation`]), so that distributed transactions are strictly serialisable.
//!
//! ```text
//!   phase that writes:      instances by number; the home validates in its turn
//!   last phase, only reads  home: validate --> steps --> other instance: read, validate, vote
//!   at one instance:                                     the moment of the whole transaction
//! ```
//!
//! Without locks, a row that was read may change until its reader has validated. So a transaction
//! takes effect at a moment at which all its validations hold. The home validates before the last
//! instance is asked; that instance validates last.

use super::{Group, Last, Run};
use crate::phase::AnyPhase;
use exec::{Engine, Holds, Scope};
use probe::{Component, Wait};
use std::pin::pin;
use twophase::coordinator::{Event, Request};
use twophase::{LockPoint, Vote};
use txn::{Abort, Workload};
use wire::{Frame, Piggyback};

impl<W: Workload, E: Engine> Run<'_, W, E> {
    /// The case in which the only steps left elsewhere read at one instance, and validation
    /// protects reads (`Holds::FromValidation`). The home validates first and then sends the steps.
    /// The other instance reads, validates its reads, and ends with its vote. Its validation is the
    /// moment at which the whole transaction takes effect. This costs one message in each
    /// direction; the other instance keeps nothing, and needs no decision.
    ///
    /// A home with the higher number waits here for a lower instance while its own rows are held,
    /// which could close a circle of waits. The lower instance therefore waits only a short time
    /// ([`WaitOrder::Any`]).
    pub(super) async fn home_first(
        &mut self,
        group: &mut Group,
        phase: &mut dyn AnyPhase<E>,
    ) -> Result<(), Abort> {
        pin!(self.run_home(phase)).await?;
        pin!(self.validate_first(Last::Yes)).await?;
        self.send(group, Last::Yes, LockPoint::Reached)?;
        pin!(self.rendezvous(group, phase)).await
    }

    /// As [`Run::home_first`], for a transaction that has asked no other instance before. There is
    /// nothing to coordinate, so there is no coordinator: the answer of the other instance is the
    /// outcome, and that instance is done when it answers. If its steps wrote after all, although
    /// they were declared as reads, a coordinator is made when its vote arrives. Until then an
    /// inquiry from that instance gets no answer.
    pub(super) async fn ask_alone(
        &mut self,
        group: &mut Group,
        phase: &mut dyn AnyPhase<E>,
    ) -> Result<(), Abort> {
        pin!(self.run_home(phase)).await?;
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
            Ok(Some(Vote::ReadOnly)) => group.accept(&reply.outputs, phase),
            Ok(Some(Vote::Yes)) => {
                (self.gtid, self.alone) = (Some(gtid), false);
                local.register_home(gtid);
                self.request(gtid, group.owner, Request::LastSteps(LockPoint::Reached))?;
                local.feed_home(gtid, Event::Voted { from: group.owner, vote: Vote::Yes });
                group.accept(&reply.outputs, phase)
            }
            Ok(_) => Err(Abort::Participant),
            Err(abort) => Err(*abort),
        };
        local.calls.recycle(reply);
        taken
    }

    /// Validates the home's local transaction before the others are asked, once it has no step
    /// left.
    pub(super) async fn validate_first(&mut self, last: Last) -> Result<(), Abort> {
        if E::HOLDS == Holds::FromSteps || last != Last::Yes {
            return Ok(());
        }
        let local = self.local;
        pin!(local.shared.engine.validate(&local.ctx, &local.executor, self.txn, Scope::Distributed)).await
    }
}
