//! Seams: the points of the protocol between instances at which a test build replaces a step by a
//! wrong one, so that the trials over several instances can show that they find it (`planted.rs`,
//! feature `planted`). This file is the ordinary build: each step is as its caller asks.

use crate::state::Session;
use twophase::{Holds, Message};

/// The worker that handles a message of the commit protocol: the responsible one.
#[inline(always)]
pub(crate) fn worker_for(responsible: usize, _receiver: usize, _: Message) -> usize {
    responsible
}

/// Asserts that a message for a participant is at the worker that is responsible for it.
#[inline(always)]
pub(crate) fn assert_responsible(responsible: usize, here: usize) {
    debug_assert!(responsible == here, "a message at a worker that cannot know its part");
}

/// Whether a participant acknowledges a message without carrying it out.
#[inline(always)]
pub(crate) fn acknowledges_at_once<P>(_: &Session<P>, _: Message) -> bool {
    false
}

/// From when on the parts of a transaction are protected, under an engine that validates.
#[inline(always)]
pub(crate) fn holds_from_validation() -> Holds {
    Holds::FromPrepare
}
