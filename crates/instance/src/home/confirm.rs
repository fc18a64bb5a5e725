//! Aborts that a procedure or a step decides on, because of the rows that it read.
//!
//! Such an abort is an answer: it is reported only if a serial execution could have produced it.
//! Two things must hold. All rows that were read, at any instance, were there at one moment. And
//! those rows are durable, since other transactions release their locks before their commits are
//! durable.
//!
//! ```text
//!   home: abort -> Check to each instance that has not voted -> own reads (`answer`) -> reply
//!                    |
//!   other instance:  +-> are the rows unchanged? -> roll back -> durable -> answer
//! ```

use super::{Keeps, Run};
use base::Gtid;
use exec::{Engine, Holds};
use probe::Wait;
use smallvec::SmallVec;
use txn::{Abort, Workload};
use wire::{Frame, Piggyback};

/// Whether the procedure or a step decided on this abort itself, because of the rows that it read.
pub(super) fn is_its_own(abort: Abort) -> bool {
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

impl<W: Workload, E: Engine> Run<'_, W, E> {
    /// Whether an abort may be reported only after the other instances have confirmed it. They
    /// confirm two things. The rows that were read there were there at one moment; without locks
    /// this is certain only after validation. And those rows are durable, since other transactions
    /// release their locks before their commits are durable.
    pub(super) fn is_to_be_checked(&self, abort: Abort) -> bool {
        match E::HOLDS {
            Holds::FromValidation => is_its_own(abort),
            Holds::FromSteps => matches!(abort, Abort::User(_)),
        }
    }

    /// The abort with which the transaction is to end, if the other instances have to confirm it
    /// first.
    pub(super) fn decided_abort<R>(&self, outcome: &Result<R, Abort>) -> Option<Abort> {
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
    pub(super) async fn validate_abort(&mut self, gtid: Gtid, abort: Abort) -> Abort {
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

    /// The outcome of the procedure, or the first abort of a step: it ends the transaction, even if
    /// the procedure ignores it. Only the abort that a step decided on itself may be replaced by
    /// another abort of the procedure.
    pub(super) fn first_abort_or<R>(&self, outcome: Result<R, Abort>) -> Result<R, Abort> {
        match self.failed {
            Some(abort) if outcome.is_ok() || !is_its_own(abort) => Err(abort),
            _ => outcome,
        }
    }

    /// The outcome with which the transaction ends, and the reply that is delivered although the
    /// procedure abandoned it.
    pub(super) fn kept<R>(&self, outcome: Result<R, Abort>) -> (Result<R, Abort>, Option<R>) {
        match outcome {
            Ok(reply) if self.abandoned && self.failed.is_none() => (Err(Abort::User(0)), Some(reply)),
            outcome => (outcome, None),
        }
    }
}
