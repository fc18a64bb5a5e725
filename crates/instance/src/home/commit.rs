//! The commit driver: feeds coordinators events and carries out their effects.
//!
//! ```text
//!   first step leaves --> open_home: the coordinator exists before any inquiry can arrive
//!   votes, time-outs  --> feed_home --> effects --> messages; the task is woken to log or to abort
//!   the task: LocalReady, waits for LogCommit or Abort, appends the commit record, waits until it
//!             is durable, Logged --> decisions to the participants --> Forget
//! ```
//!
//! The worker loop feeds votes that come as messages; the task feeds those that ride on results.
//! The task alone appends the commit record and releases the home's locks.

use crate::local::Local;
use crate::seams;
use crate::state::Home;
use base::Gtid;
use exec::{Engine, Holds};
use probe::{Component, Wait};
use std::task::Poll;
use twophase::coordinator::{Coordinator, Effect, Effects, Event};
use txn::{Abort, Workload};

/// Drives the coordinator from the votes to the answer.
pub(super) async fn commit_everywhere<W: Workload, E: Engine>(
    local: &Local<W, E>,
    gtid: Gtid,
    txn: &mut E::LocalTxn,
) -> Result<(), Abort> {
    let (engine, ctx) = (&local.shared.engine, &local.ctx);
    let participants = std::future::poll_fn(|cx| {
        let mut homes = local.distributed.homes.borrow_mut();
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
        local.distributed.homes.borrow_mut().remove(&gtid);
        engine.rollback(ctx, txn)?;
        return Err(Abort::Participant);
    };
    if participants.is_empty() {
        let lsn = engine.commit(ctx, txn)?;
        local.durable(lsn).await?;
        local.feed_home(gtid, Event::Logged);
        local.distributed.homes.borrow_mut().remove(&gtid);
        return Ok(());
    }
    let note = local.distributed.homes.borrow()[&gtid].machine.note();
    let note = postcard::to_stdvec(&note).expect("a note is a plain value");
    let (lsn, id) = engine.commit_with_note(ctx, txn, &note)?;
    if let Some(home) = local.distributed.homes.borrow_mut().get_mut(&gtid) {
        home.note = Some(id);
    }
    // The participants commit on this record and then forget the transaction.
    local.stable(lsn).await?;
    local.feed_home(gtid, Event::Logged);
    Ok(())
}

impl<W: Workload, E: Engine> Local<W, E> {
    /// Registers a distributed transaction before its first step leaves, so that inquiries find it.
    pub(super) fn open_home(&self) -> Gtid {
        let gtid = self.new_gtid();
        self.register_home(gtid);
        gtid
    }

    pub(super) fn register_home(&self, gtid: Gtid) {
        let holds = match E::HOLDS {
            Holds::FromSteps => twophase::Holds::FromSteps,
            Holds::FromValidation => seams::holds_from_validation(),
        };
        self.distributed
            .homes
            .borrow_mut()
            .insert(gtid, Home::new(Coordinator::new(gtid).holding(holds), self.shared.give_up_ns()));
    }

    /// Feeds a coordinator an event and carries out the effects that it returns. A transaction that
    /// is not found is over.
    pub(crate) fn feed_home(&self, gtid: Gtid, event: Event) {
        let _span = probe::span(Component::Management);
        let effects = match self.distributed.homes.borrow_mut().get_mut(&gtid) {
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
                    if let Some(home) = self.distributed.homes.borrow_mut().get_mut(&gtid) {
                        home.log_commit = Some(participants);
                        wake = home.waker.take();
                    }
                }
                Effect::Abort => {
                    if let Some(home) = self.distributed.homes.borrow_mut().get_mut(&gtid) {
                        home.aborted = true;
                        wake = home.waker.take();
                    }
                    self.calls.give_up(gtid);
                }
            }
        }
        if forget
            && let Some(home) = self.distributed.homes.borrow_mut().remove(&gtid)
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
        let due: Vec<_> = self
            .distributed
            .homes
            .borrow()
            .iter()
            .filter_map(|(gtid, home)| Some((*gtid, event(home)?)))
            .collect();
        due.into_iter().for_each(|(gtid, event)| self.feed_home(gtid, event));
    }
}
