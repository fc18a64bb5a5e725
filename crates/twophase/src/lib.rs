//! Two-phase commit with presumed abort, as two pure state machines: events in, effects out.
//!
//! This crate has no I/O, clock, thread or log, and no way to reach one. The crate above
//! (`instance`) feeds events and carries effects out, in the order given. So the same machines run
//! under load, under the fault simulator, and under a model checker (`tests/model`) that explores
//! every order of messages, losses, repeats and crashes.
//!
//! A transaction enters with [`Coordinator::new`] at its home, and with [`Participant::new`] at
//! each instance where its first remote step arrives. It is one-shot: the prepare request rides on
//! the last steps, so the vote comes back with their results:
//!
//! ```text
//!   client     home                      participant
//!     |---------> LastSteps + prepare -----> runs, logs prepare (durable)
//!     |           <------ results + vote ---'
//!     |         logs commit + list (durable)
//!     |<-- answer --|----- Decide Commit ---> logs commit (durable)
//!     |             <--------- Ack ----------'
//!     |         forgets
//! ```
//!
//! The crate above promises:
//! - A step request, alone or with a prepare request on it, reaches its peer at most once, and not
//!   at all after its link has broken. The other messages may be lost, repeated and reordered.
//! - Either end may die at any point. After its restart it makes its machines from its durable
//!   notes only ([`Coordinator::recover`], [`Participant::recover`]), before it answers any
//!   message.
//! - After a restart a participant admits no transaction until every undecided coordinator that had
//!   steps at it before the restart was told `PeerLost`, or can no longer decide Commit. (A
//!   reader's locks are lost in a crash; a commit that depends on them must have passed its lock
//!   point by then.) `instance::opening` says how.
//! - The worker of [`worker_of`] answers a message for which there is no machine, with
//!   [`reply_unknown`].

#![forbid(unsafe_code)]

mod message;

pub mod coordinator;
pub mod participant;

pub use coordinator::{Coordinator, Holds};
pub use message::{
    CommitNote, Decision, Instances, LockPoint, Message, PrepareNote, Vote, WORKER_BITS, reply_unknown,
    worker_of,
};
pub use participant::Participant;
