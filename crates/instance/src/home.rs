//! The home side of a transaction. The *home* is the instance at which the procedure runs. It sends
//! steps to the instances that own their rows, collects the results, and drives the commit.
//!
//! ```text
//!   run the procedure                                                                  procedure
//!     `all` / `last` ---> steps of this instance run here                              phases
//!                         other instances: one request for each, all under way at once
//!                         (a phase that writes visits the instances one after the other)
//!                    <--- rendezvous: results by value; votes ride back on the last results
//!   end with an abort of the procedure: the other instances confirm it                 confirm
//!   commit                                                                             commit
//!     no other instance took part: commit record -> durable -> reply
//!     others took part:            twophase::Coordinator gives the order:
//!                                  [prepare], log, decide, reply, forget
//! ```
//!
//! - [`procedure`]: one request, from the begin to its outcome.
//! - [`phases`]: the steps of one phase, here and at the instances that own their rows.
//! - [`optimistic`]: the order of reads and validations where validation protects reads.
//! - [`converse`]: the client's messages in between.
//! - [`confirm`]: aborts that a procedure or a step decides on.
//! - [`commit`]: the coordinator, from the votes to the answer.

mod commit;
mod confirm;
mod converse;
mod optimistic;
mod phases;
mod procedure;

pub(crate) use confirm::answer;
pub(crate) use converse::Open;
pub(crate) use procedure::{Parcel, run};

use crate::conversations::ConversationId;
use crate::groups;
use crate::local::Local;
use base::{Gtid, InstanceId};
use exec::Engine;
use smallvec::SmallVec;
use std::pin::pin;
use txn::{Abort, Spread, Steps, Transaction, Workload};

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
    /// Whether others run before the next phase begins (`--schedule staged`); not before the first.
    staged: bool,
    /// The instances to which steps were sent.
    asked: SmallVec<[Asked; 8]>,
    /// The first abort of any step, here or elsewhere. The transaction ends with an abort, even if
    /// the procedure ignores this one.
    failed: Option<Abort>,
    /// The conversation of which this is the procedure.
    conversation: Option<ConversationId>,
    /// The procedure wants the transaction to have no effect ([`Transaction::abandon`]).
    abandoned: bool,
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

impl<'l, W: Workload, E: Engine> Run<'l, W, E> {
    /// A run of which no step has been issued.
    fn new(
        local: &'l Local<W, E>,
        txn: &'l mut E::LocalTxn,
        conversation: Option<ConversationId>,
    ) -> Run<'l, W, E> {
        Run {
            local,
            txn,
            gtid: None,
            alone: false,
            ended: false,
            staged: false,
            asked: SmallVec::new(),
            failed: None,
            conversation,
            abandoned: false,
        }
    }

    /// Whether no step has left this instance.
    pub(crate) fn is_at_home(&self) -> bool {
        self.gtid.is_none()
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

impl<W: Workload, E: Engine> Transaction for Run<'_, W, E> {
    async fn all<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        let outcome = pin!(self.phase(steps, Last::No)).await;
        self.noted(outcome)
    }

    async fn last<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        if self.conversation.is_some() {
            return self.all(steps).await;
        }
        let outcome = pin!(self.phase(steps, Last::Yes)).await;
        self.ended = true;
        self.noted(outcome)
    }

    async fn last_elsewhere<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        if self.conversation.is_some() {
            return self.all(steps).await;
        }
        let outcome = pin!(self.phase(steps, Last::Elsewhere)).await;
        self.noted(outcome)
    }

    async fn over<S: Spread>(&mut self, step: S) -> Result<S::Output, Abort> {
        let outcome = Box::pin(self.spread(&step)).await;
        self.noted(outcome)
    }

    async fn hear(&mut self, said: Vec<u8>) -> Result<Vec<u8>, Abort> {
        let outcome = Box::pin(self.converse(&said)).await;
        self.noted(outcome)
    }

    fn abandon(&mut self) {
        self.abandoned = true;
    }
}
