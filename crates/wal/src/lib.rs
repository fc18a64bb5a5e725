//! The write-ahead log: records of opaque bytes, in order, durable as promised.
//!
//! A record enters by [`Log::append`]: framed and checksummed in the appender's own scratch space, given a place that its
//! [`Order`] allows in one of three ways ([`Insert`]), copied into a ring. A flusher (a thread, or whoever has nothing else to
//! do) writes the ring to segment files and syncs them; one sync makes everything durable that was in the ring when the
//! write began (group commit). Whoever must know waits by [`Log::poll_durable`] (a task) or [`Log::wait_durable`] (a
//! thread). After a crash [`Log::open`] finds the
//! end of what is valid, and [`Log::read_from`] gives the records back; [`LogReader::keep`] has them stay in memory, where
//! [`Stretch::record`] finds each again.
//!
//! What counts as durable is an option, [`Durability`]; `docs/log.md` has the table of what survives what.
//!
//! What it does not know: what records mean, transactions beyond their number, pages.

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

pub use fault::LogFault;
pub use frame::{CLR, RecordHeader, Span};
pub use log::Log;
pub use options::{Durability, Insert, LogOptions, LogStats, Urge};
pub use order::Order;
pub use reader::{LogReader, Record, Stretch};

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod insert_tests;
#[cfg(test)]
mod tests;
