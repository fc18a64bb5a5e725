//! A log that a quorum of other machines keeps: bytes in, a promise out.
//!
//! ```text
//!   owner --append--> entry n (term, chain of all before) --> a tape: NATS, Kafka, memory
//!         <---kept--- a quorum has entry n and all before it
//!   successor: seal --> the tape; read up to the seal's own position; go on with the next entry
//! ```
//!
//! A [`Tape`] is a foreign service with one property: it appends in some order, and tells the
//! position. The fence is made from that alone, without a trusted clock and without help from the
//! service:
//!
//! - An owner counts an entry once its position follows the one before, and all before it count. If
//!   a position does not follow, or is unknown, the owner reads the tape from the last entry that
//!   counted.
//! - A successor appends a seal of a higher term, unconditionally, and reads up to the seal's own
//!   position. What counted lies before the seal. Entries of an older term behind a seal are
//!   ignored for ever.
//!
//! The owner and every reader decide by the same rules ([`Walker`]). Each entry says how far its
//! owner had counted. So a reader that lacks such an entry knows that the service lost it
//! ([`Fault::Hole`]).
//!
//! Read in this order: entries (`entry`), where a log may begin (`milestone`), the rules
//! (`walker`), the owner as a state machine (`owner`), the owner with its thread (`log`), the
//! taking over (`opening`), the services (`tape`, `memory`, `nats`, `kafka`), files changed through
//! a log (`files`).
//!
//! This crate does not know records, transactions, instances or machines.

#![forbid(unsafe_code)]

mod address;
mod entry;
mod fault;
pub mod files;
#[cfg(feature = "kafka")]
mod kafka;
mod log;
pub mod memory;
mod milestone;
#[cfg(feature = "nats")]
mod nats;
mod opening;
mod owner;
mod signs;
mod tape;
#[cfg(feature = "kafka")]
mod topic;
mod walker;

pub use address::{Address, Service};
pub use entry::{Chain, Entry, Kind, Term};
pub use fault::{Fault, Trouble};
pub use log::RelayLog;
pub use milestone::Milestone;
pub use opening::{Loss, Opened, TakeOver, take_over};
pub use owner::{Owner, Settled};
pub use signs::Signs;
pub use tape::{Landed, Landing, Tape};
pub use walker::{Place, Verdict, Walker};

#[cfg(test)]
mod fence_tests;
