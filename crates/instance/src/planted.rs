//! Bugs on purpose, behind the feature `planted`: each breaks what several instances owe each other, in a way that the trials over
//! several instances must see. Nothing of this is in a build without the feature.

use std::sync::atomic::{AtomicU8, Ordering};
use twophase::{Decision, Message};

/// What is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Bug {
    None,
    /// Readers are let go before the last part is prepared, where parts hold what they have seen from there on.
    EarlyRelease,
    /// A message for a part is handled by the worker that it came to, not by the one that looks after the transaction.
    WrongWorker,
    /// A home that tells its decision hears that it is done, where a part is in doubt since a restart.
    DoubtAcknowledged,
}

impl Bug {
    pub const ALL: [Bug; 3] = [Bug::EarlyRelease, Bug::WrongWorker, Bug::DoubtAcknowledged];
}

/// For the whole process: there is one bug at a time, and tests of it run alone.
static PLANTED: AtomicU8 = AtomicU8::new(Bug::None as u8);

/// Makes this the bug from now on.
pub fn plant(bug: Bug) {
    PLANTED.store(bug as u8, Ordering::SeqCst);
}

/// The bug that is planted.
pub fn planted() -> Bug {
    let now = PLANTED.load(Ordering::SeqCst);
    Bug::ALL.into_iter().find(|bug| *bug as u8 == now).unwrap_or(Bug::None)
}

pub(crate) fn is(bug: Bug) -> bool {
    PLANTED.load(Ordering::Relaxed) == bug as u8
}

/// Whether a message says that a transaction has committed.
pub(crate) fn is_commit(message: Message) -> bool {
    matches!(message, Message::Decide { decision: Decision::Commit, .. })
}
