//! The write-ahead log: records of opaque bytes in segment files, durable as [`Durability`]
//! promises.
//!
//! - Append: [`Log::append`] frames and checksums a record in a buffer of its thread. It reserves a
//!   place that the record's [`LogOrder`] allows, in one of three ways ([`Insert`]), and copies the
//!   record into a ring.
//! - Flush: the flusher's thread, or a worker that has nothing else to do, writes the ring to
//!   segment files and syncs them. One sync makes all records durable that were in the ring when
//!   the write began (group commit).
//! - Wait: a task waits by [`Log::poll_durable`], a thread by [`Log::wait_durable`].
//! - Recover: [`Log::open`] finds the end of the valid records after a crash.
//! - Read: [`Log::read_from`] returns the records. [`LogReader::keep`] keeps them in memory, where
//!   [`Stretch::record`] finds each by its position.
//!
//! `docs/log.md` has a table of the failures that each durability mode survives.
//!
//! This crate does not know the meaning of records, transactions beyond their ids, or pages.

mod fault;
mod files;
mod flusher;
mod frame;
mod insert;
mod log;
mod options;
mod order;
mod reader;
mod recover;
mod ring;
mod segment;
mod shared;

pub use base::{Durability, FlushBy};
pub use fault::LogFault;
pub use frame::{CLR, RecordHeader, Span};
pub use log::Log;
pub use options::{Insert, LogOptions, LogStats};
pub use order::LogOrder;
pub use reader::{LogReader, Record, Stretch};

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod insert_tests;
#[cfg(test)]
mod tests;
