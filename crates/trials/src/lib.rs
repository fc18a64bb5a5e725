//! The failures that the engine must survive, as programs: run small by the tests, and at length by
//! `cargo xtask`.
//!
//! - [`table`]: the tables of every trial.
//! - [`ledger`]: the promises, and the check whether an opened database keeps them.
//! - [`store_run`]: random transactions on a store, as a life of one process.
//! - [`engine_run`]: the same on an engine, many clients at a time.
//! - [`memory_run`]: the engine in main memory, its openings and its failing devices.
//! - [`crash`]: power cuts and kills at every moment of recorded lives, on the simulated disk of
//!   [`world::sim`].
//! - [`faults`]: every I/O operation of small workloads fails, once or for ever.
//! - [`flips`]: flipped bits in the files.
//! - [`workers`]: an engine with several workers and many clients. [`histories`]: the results that
//!   they saw, and whether these are strictly serialisable. [`deployed`]: the same for whole
//!   instances with workers that own keys. [`islands`]: for several instances at a time, which are
//!   killed and restarted; [`member`]: one of those. [`brokerage`]: histories of a reduced TPC-E.
//!
//! The trials use other crates only through their public interfaces.

#![forbid(unsafe_code)]

pub mod brokerage;
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
