//! What is counted and timed: where the time of transactions and workers goes, how often they meet, how long they take.
//!
//! Counters belong to one worker each and are plain integers; they cross threads and processes only as values
//! ([`Measured`], [`Profile`]), merged at the end of a window.
//!
//! - [`table`]: the one list of components, waits, critical sections and counters; names, columns and documents
//!   follow from it.
//! - [`hooks`]: what the rooms above call; off until [`profile`] turns it on for a worker.
//! - `far`: what a hook calls while somebody profiles. `worker`: the cells of one thread, and how time is divided.
//!   `ticks`: cheap timestamps.
//! - [`Hardware`]: what the processor counts of a thread, where it does.
//! - [`Profile`]: the profile as a value, and per transaction. [`Measured`]: a whole window. [`Latency`]: histograms.
//!   [`series`]: a window second by second.

#![deny(unsafe_code)]

pub mod hooks;
pub mod series;
pub mod table;

mod far;
mod hardware;
mod latency;
mod measured;
mod profile;
mod ticks;
mod worker;

pub use hardware::Hardware;
pub use hooks::*;
pub use latency::Latency;
pub use measured::{LockWork, LogCounts, Measured, Offered, Rebalance, Rebalanced};
pub use profile::{PerTransaction, Profile};
pub use series::{Second, Series};
pub use table::{Component, Counter, Event, Group, Kind, PageKind, Profiling, Section, Wait};
pub use ticks::ticks;
pub use worker::{Latched, Role, Round};

#[cfg(test)]
mod tests;
