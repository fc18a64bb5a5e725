//! What is counted and timed. Nothing here measures by itself: rooms above fill these in, the driver adds them up.
//!
//! Counters belong to one worker each and are plain integers; they cross threads and processes only as values
//! ([`Measured`]), merged at the end of a window.

#![forbid(unsafe_code)]

mod latency;
mod measured;

pub use latency::Latency;
pub use measured::{LockWork, LogCounts, Measured};
