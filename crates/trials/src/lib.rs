//! What the engine must live through, as programs: run small by the tests, and at length by `cargo xtask`.
//!
//! - [`table`]: the tables of every trial.
//! - [`ledger`]: what was promised, and whether what is found keeps it.
//! - [`store_run`]: random transactions on a store, as a life of one process.
//! - [`engine_run`]: the same on an engine, many clients at a time.
//! - [`memory_run`]: the engine in main memory, its openings and its failing devices.
//! - [`crash`]: power cuts and kills at every moment of recorded lives, on the simulated disk of [`world::sim`].
//! - [`faults`]: every I/O operation of small workloads fails, once and for ever.
//! - [`flips`]: bits that turn over in the files.
//! - [`workers`]: an engine with several workers and many clients; [`histories`]: what they saw, and whether it is strictly
//!   serialisable. [`deployed`]: the same of whole instances, whose workers own keys. [`islands`]: of several at a time, which are
//!   killed and come back; [`member`]: each of those.
//!
//! It uses the rooms it tries through their public doors only.

#![forbid(unsafe_code)]

pub mod crash;
pub mod deployed;
pub mod engine_run;
pub mod faults;
pub mod flips;
pub mod histories;
pub mod islands;
pub mod ledger;
mod lists;
pub mod member;
pub mod memory_run;
pub mod store_run;
pub mod table;
pub mod workers;

use ledger::Flaw;

/// Runs `f`; a panic in it is a flaw like any other.
pub(crate) fn unwound<T>(f: impl FnOnce() -> Result<T, Flaw>) -> Result<T, Flaw> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Err(Flaw::Panicked(text.unwrap_or_else(|| "with something that is no text".into())))
    })
}
