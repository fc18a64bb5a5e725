//! The procedure runner: one request, from the begin of its transaction to its outcome.
//!
//! ```text
//!   begin -> procedure (its phases run meanwhile) -> validate -+-> commit -> durable -> reply
//!     ^                                                        +-> commit_everywhere -> reply
//!     |                                                        +-> roll back -> abort
//!     +---- with locks, if the transaction needs them after all
//! ```
//!
//! The first try runs without locks where the design allows it: all keys are owned here, or the
//! request only reads. A step that leaves this worker ends such a try with [`Abort::NeedsLocks`].

use super::Run;
use super::commit::commit_everywhere;
use super::confirm::answer;
use crate::conversations::ConversationId;
use crate::counts::{self, Reach};
use crate::gate;
use crate::links::MOST_PAYLOAD;
use crate::local::{Keys, Local};
use base::{Gtid, Lsn};
use exec::{Engine, Protection, Scope};
use probe::{Component, mark};
use std::pin::pin;
use twophase::coordinator::Event;
use txn::{Abort, Workload};

/// The way back to a client that is not in this instance.
pub(crate) struct Parcel<'r> {
    /// The encoded reply.
    pub reply: &'r mut Vec<u8>,
    pub conversation: Option<ConversationId>,
}

/// Runs one request until its outcome is durable. `keys` says which workers own its keys, as found
/// just before. A reply that leaves this instance is encoded into `parcel`. A reply that is too
/// long to be sent ends the transaction before anything is committed.
pub(crate) async fn run<W: Workload, E: Engine>(
    local: &Local<W, E>,
    (request, keys): (&W::Request, Keys),
    txn: &mut E::LocalTxn,
    mut parcel: Option<Parcel<'_>>,
) -> Result<(W::Reply, Reach), Abort> {
    let workload = local.workload();
    let _traced = begun(workload.kind(request));
    local.note_meeting(request);
    let (engine, ctx) = (&local.shared.engine, &local.ctx);
    let mut protection = first_protection(local, &*workload, request, keys);
    let _pass = match &local.occ.gate {
        Some(gate) if keys != Keys::Here => Some(pin!(gate.enter(gate::MOST)).await),
        _ => None,
    };
    loop {
        engine.begin(ctx, txn, protection);
        let mut run = Run::new(local, txn, parcel.as_ref().and_then(|parcel| parcel.conversation));
        let span = probe::span(Component::Execution);
        let outcome = pin!(workload.run(request, &mut run)).await;
        drop(span);
        run.end_conversation();
        let (mut outcome, abandoned) = run.kept(outcome);
        if let (Some(gtid), Some(abort)) = (run.gtid, run.decided_abort(&outcome)) {
            outcome = Err(Box::pin(run.validate_abort(gtid, abort)).await);
        }
        outcome = run.first_abort_or(outcome);
        outcome = with_reply::<W>(outcome, abandoned.as_ref(), parcel.as_mut());
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
                let lsn = commit_here(&**engine, ctx, txn)?;
                local.durable(lsn).await?;
                workload.committed(request, &reply);
                observe(local, &*workload, request, Some(&reply));
                return Ok((reply, if alone { Reach::Distributed } else { Reach::Home }));
            }
            (Ok(reply), Some(gtid)) => {
                local.feed_home(gtid, Event::LocalReady);
                Box::pin(commit_everywhere(local, gtid, txn)).await?;
                workload.committed(request, &reply);
                observe(local, &*workload, request, Some(&reply));
                return Ok((reply, Reach::Distributed));
            }
            (Err(Abort::NeedsLocks), _) if protection != Protection::Locks => {
                engine.rollback(ctx, txn)?;
                protection = Protection::Locks;
            }
            (Err(abort), gtid) => {
                let seen = roll_back(local, request, (gtid, abort), txn)?;
                if let Abort::User(_) = abort {
                    // Locks of other transactions are released before their commits are durable.
                    // This answer depends on rows that they wrote, so it waits for those commits.
                    local.durable(seen).await?;
                    observe(local, &*workload, request, None);
                    return abandoned.map(|reply| (reply, reach_of(gtid))).ok_or(abort);
                }
                return Err(abort);
            }
        }
    }
}

/// Encodes the reply, if it leaves this instance. One that is too long is an abort.
#[inline(always)]
fn with_reply<W: Workload>(
    outcome: Result<W::Reply, Abort>,
    abandoned: Option<&W::Reply>,
    parcel: Option<&mut Parcel<'_>>,
) -> Result<W::Reply, Abort> {
    match (outcome.as_ref().ok().or(abandoned), parcel) {
        (Some(reply), Some(parcel)) => packed::<W>(reply, parcel.reply).and(outcome),
        _ => outcome,
    }
}

/// Tells the profile, and a trace, that a transaction of a kind begins.
#[inline(always)]
fn begun(kind: &'static str) -> mark::Marked<{ mark::TRANSACTION }> {
    probe::transaction(kind);
    mark::transaction(kind)
}

/// Commits a transaction that no other instance took part in.
#[inline(always)]
fn commit_here<E: Engine>(engine: &E, ctx: &E::WorkerContext, txn: &mut E::LocalTxn) -> Result<Lsn, Abort> {
    let _traced = mark::marked::<{ mark::COMMIT }>();
    engine.commit(ctx, txn)
}

fn reach_of(gtid: Option<Gtid>) -> Reach {
    if gtid.is_some() { Reach::Distributed } else { Reach::Home }
}

/// How the rows of a request are protected at its first try.
#[inline]
fn first_protection<W: Workload, E: Engine>(
    local: &Local<W, E>,
    workload: &W,
    request: &W::Request,
    keys: Keys,
) -> Protection {
    match keys {
        Keys::Here if workload.converses(request) => Protection::Locks,
        Keys::Here if local.occ.reads_past && workload.only_reads(request) => Protection::Snapshot,
        Keys::Here => local.shared.engine.protection_at_home(&local.ctx),
        Keys::At(_) | Keys::Spread => Protection::Locks,
    }
}

/// Ends a transaction that aborts. Returns the end of the log on which the rows that it read
/// depend.
fn roll_back<W: Workload, E: Engine>(
    local: &Local<W, E>,
    request: &W::Request,
    (gtid, abort): (Option<Gtid>, Abort),
    txn: &mut E::LocalTxn,
) -> Result<Lsn, Abort> {
    let (engine, ctx) = (&local.shared.engine, &local.ctx);
    let seen = engine.horizon(txn, ctx);
    let undone = engine.rollback(ctx, txn);
    if let Some(gtid) = gtid {
        local.feed_home(gtid, Event::LocalFailed);
        local.distributed.homes.borrow_mut().remove(&gtid);
    }
    undone?;
    if abort == Abort::AfterLast {
        local.tell_of_bug(request, abort);
    }
    Ok(seen)
}

/// Encodes a reply into `parcel`.
fn packed<W: Workload>(reply: &W::Reply, parcel: &mut Vec<u8>) -> Result<(), Abort> {
    parcel.clear();
    W::encode_reply(reply, parcel);
    if parcel.len() <= MOST_PAYLOAD { Ok(()) } else { Err(Abort::TooLong) }
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
        *counts::entry(&mut local.measuring.observed.borrow_mut(), name) += n;
    });
}
