//! Two-phase commit with presumed abort, as two pure state machines: events in, effects out.
//!
//! No I/O, no clock, no thread, no log lives here, and no way to reach one: the room above (`instance`) feeds events
//! and carries effects out, in the order given. So the same machines run under load, under the fault simulator, and
//! under a model checker (`tests/model`) that explores every order of messages, losses, repeats and crashes.
//!
//! A transaction enters with [`Coordinator::new`] at its home and [`Participant::new`] wherever its first remote step
//! arrives. It is one-shot: the prepare request rides on the last steps, so the vote comes back with their results:
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
//! What the room above promises:
//! - A step request, alone or with a prepare request on it, reaches its peer at most once, and not at all once the link
//!   it was sent on has broken. The other messages may be lost, repeated and reordered.
//! - Either end may die at any point; what is back after its restart is made from its durable notes only
//!   ([`Coordinator::recover`], [`Participant::recover`]), before it answers anyone.
//! - A participant's next life lets no transaction in before every undecided coordinator that had steps at an earlier
//!   life was told `PeerLost`, or can no longer decide Commit. (A reader's locks die with it; a commit that rests on them
//!   must have passed its lock point by then.) `instance::opening` says how.
//! - A message for which there is no machine gets the reply of [`reply_unknown`], from the worker of [`worker_of`].

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
