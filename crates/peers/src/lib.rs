//! The same transactions on Atoll and on other engines, side by side in one run; and the other figures that
//! `docs/benchmarks.md` prints.
//!
//! Nothing of Atoll is built on this room, and it is built only when asked for. A comparison enters as a list of
//! [`Contestant`]s, all loaded with the same rows; each [`rounds::alternate`] round gives every one of them the same
//! requests, drawn by the workload's own generator; out come [`rounds::Line`]s, printed as a Markdown table under a
//! [`stamp::Stamp`] of the machine. Other engines run the workload's own procedures too: [`peer`] makes an `Access`
//! of whatever can read and write bytes under a key, so no transaction is written twice.
//!
//! - [`contestant`]: what takes part. [`atoll`]: an instance in this process, driven by its own closed loop.
//! - [`peer`]: another engine as a map of bytes. [`tree`]: a `BTreeMap` behind a mutex, with or without a redo log
//!   ([`redo`]). `rocksdb` (feature): pessimistic transactions of the system's library.
//! - [`deployment`]: instances in this process. [`figures`]: what is measured on Atoll alone.
//! - [`rounds`], [`stamp`]: repetition and what a table says of its circumstances.

#![allow(async_fn_in_trait)]
#![cfg_attr(not(feature = "rocksdb"), forbid(unsafe_code))]

pub mod contestant;
pub mod fault;

pub mod atoll;

pub mod peer;
pub mod redo;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;
pub mod tree;

pub mod deployment;
pub mod figures;

pub mod rounds;
pub mod stamp;

pub use contestant::{Contestant, Engine, Rate, Table, Work};
pub use fault::PeerFault;
