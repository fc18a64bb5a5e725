//! The write-ahead log: records of opaque bytes, in order, durable as promised.
//!
//! A record enters by [`Log::append`]: framed and checksummed in the appender's own scratch space, given its place
//! under one spin lock, copied into a ring. A flusher thread writes the ring to segment files and syncs them; one
//! sync makes everything durable that was in the ring when the write began (group commit). Whoever must know waits
//! by [`Log::poll_durable`] (a task) or [`Log::wait_durable`] (a thread). After a crash [`Log::open`] finds the
//! end of what is valid, and [`Log::read_from`] gives the records back.
//!
//! | durability | a record counts as durable | survives `kill -9` | survives a power cut | file work |
//! |---|---|---|---|---|
//! | `Sync` | when the device has it | yes | yes | write + fdatasync per group |
//! | `Async` | when appended; the ring is shared with the kernel | yes | a prefix does | writes; syncs at segment ends and before data pages |
//! | `Memory` | when appended | no | no | none |
//!
//! What it does not know: what records mean, transactions beyond their number, pages.

mod fault;
mod files;
mod flusher;
mod frame;
mod log;
mod options;
mod order;
mod reader;
mod recover;
mod ring;
mod segment;
mod waiters;

pub use fault::LogFault;
pub use frame::{CLR, RecordHeader, Span};
pub use log::Log;
pub use options::{Durability, LogOptions, LogStats};
pub use order::Order;
pub use reader::{LogReader, Record};

#[cfg(test)]
mod tests;
