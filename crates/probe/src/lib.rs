//! Measurements: the time that transactions and workers spend in each component, counts of events,
//! contention, and latencies.
//!
//! Counters belong to one worker each and are plain integers. They cross threads and processes only
//! as values ([`Measured`], [`Profile`]), which are merged at the end of a window.
//!
//! - [`table`]: the one list of components, waits, critical sections and counters. Names, columns
//!   and documents follow from it.
//! - [`hooks`]: the functions that the other crates call. They are off until [`profile`] turns them
//!   on for a worker.
//! - [`mark`]: marks in the machine code for traces of instructions.
//! - `far`: the functions that a hook calls while a worker profiles. `worker`: the cells of one
//!   thread, and the division of time. `ticks`: cheap timestamps.
//! - [`Hardware`]: the processor's counters of a thread, where it has them.
//! - [`Profile`]: the profile as a value, and per transaction. [`Measured`]: a whole window.
//!   [`Latency`]: histograms. [`series`]: a window second by second.

#![deny(unsafe_code)]

pub mod hooks;
pub mod mark;
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
pub use worker::{Latched, LockCalls, Role, Round};

#[cfg(test)]
mod tests;
