//! Deliberate bugs, behind the feature `planted`. Each breaks a rule of the protocol between
//! instances, in a way that the trials over several instances must detect. In a build with the
//! feature this file takes the place of `seams.rs`: the instance calls the functions at the end.

use crate::state::Session;
use std::sync::atomic::{AtomicU8, Ordering};
use twophase::{Decision, Holds, Message};

/// The kind of bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Bug {
    None,
    /// Readers are released before the last participant is prepared, although reads are protected
    /// only from there on.
    EarlyRelease,
    /// A message for a participant is handled by the worker that received it, not by the one that
    /// is responsible for the transaction.
    WrongWorker,
    /// A home that announces its decision gets an acknowledgement although the participant is in
    /// doubt since a restart.
    DoubtAcknowledged,
}

impl Bug {
    pub const ALL: [Bug; 3] = [Bug::EarlyRelease, Bug::WrongWorker, Bug::DoubtAcknowledged];
}

/// One bug at a time for the whole process; tests of it run alone.
static PLANTED: AtomicU8 = AtomicU8::new(Bug::None as u8);

/// Selects `bug` from now on.
pub fn plant(bug: Bug) {
    PLANTED.store(bug as u8, Ordering::SeqCst);
}

/// The selected bug.
pub fn planted() -> Bug {
    let now = PLANTED.load(Ordering::SeqCst);
    Bug::ALL.into_iter().find(|bug| *bug as u8 == now).unwrap_or(Bug::None)
}

fn is(bug: Bug) -> bool {
    PLANTED.load(Ordering::Relaxed) == bug as u8
}

/// In place of `seams::worker_for`: a message for a participant stays with its receiver.
pub(crate) fn worker_for(responsible: usize, receiver: usize, message: Message) -> usize {
    if is(Bug::WrongWorker) && !message.is_for_coordinator() { receiver } else { responsible }
}

/// In place of `seams::assert_responsible`: the assertion would find the bug before the checker.
pub(crate) fn assert_responsible(responsible: usize, here: usize) {
    debug_assert!(responsible == here || is(Bug::WrongWorker));
}

/// In place of `seams::acknowledges_at_once`: a part that is in doubt since a restart, so one
/// without a link, does so with a commit.
pub(crate) fn acknowledges_at_once<P>(session: &Session<P>, message: Message) -> bool {
    let commits = matches!(message, Message::Decide { decision: Decision::Commit, .. });
    is(Bug::DoubtAcknowledged) && session.link.is_none() && commits
}

/// In place of `seams::holds_from_validation`: readers are released before the last prepare.
pub(crate) fn holds_from_validation() -> Holds {
    if is(Bug::EarlyRelease) { Holds::FromSteps } else { Holds::FromPrepare }
}
