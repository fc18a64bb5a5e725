//! Deliberate bugs, behind the feature `planted`. Each breaks a rule of the protocol between
//! instances, in a way that the trials over several instances must detect. A build without the
//! feature contains none of them.

use std::sync::atomic::{AtomicU8, Ordering};
use twophase::{Decision, Message};

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

/// Whether `bug` is the selected one.
pub(crate) fn is(bug: Bug) -> bool {
    PLANTED.load(Ordering::Relaxed) == bug as u8
}

/// Whether a message announces a commit.
pub(crate) fn is_commit(message: Message) -> bool {
    matches!(message, Message::Decide { decision: Decision::Commit, .. })
}
