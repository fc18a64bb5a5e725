//! The same transactions on Atoll and on other engines, side by side in one run; and the other figures that
//! `docs/benchmarks.md` prints.
//!
//! Nothing of Atoll is built on this room, and it is built only when asked for. A comparison enters as a list of
//! [`Contestant`]s, all loaded with the same rows; each [`rounds::alternate`] round gives every one of them the same
//! requests, drawn by the workload's own generator; out come [`rounds::Line`]s, printed as a Markdown table under a
//! [`stamp::Stamp`] of the machine. Other engines run the workload's own procedures too: [`peer`] makes an `Access`
//! of whatever can read and write bytes under a key, so no transaction is written twice.
//!
//! - [`contestant`]: what takes part. [`atoll`]: instances in this process, driven by their own closed loop. [`bench`](mod@bench): the workloads.
//! - [`peer`]: another engine as maps of bytes, [`hosted`]: a workload on it, [`threads`]: its clients.
//! - [`tree`]: a `BTreeMap` behind a mutex, with or without a redo log ([`redo`]). With the feature `engines`, `shim`: engines with a C
//!   interface (LMDB, WiredTiger, Berkeley DB, SQLite, RocksDB), `postgres`: a server with stored procedures.
//! - [`device`], [`mixed`]: what the disk itself does. [`deployment`]: instances in this process. [`figures`]: what is measured on Atoll alone.
//! - [`rounds`], [`stamp`]: repetition and what a table says of its circumstances.

#![allow(async_fn_in_trait)]
#![cfg_attr(not(feature = "engines"), forbid(unsafe_code))]

pub mod bench;
pub mod contestant;
pub mod fault;

pub mod atoll;

pub mod hosted;
pub mod peer;
#[cfg(feature = "engines")]
pub mod postgres;
pub mod redo;
#[cfg(feature = "engines")]
pub mod shim;
pub mod threads;
pub mod tree;

pub mod deployment;
pub mod device;
pub mod figures;
pub mod mixed;

pub mod rounds;
pub mod stamp;

pub use bench::{Bank, Bench, Served, Table};
pub use contestant::{Commits, Contestant, Engine, Rate, Work};
pub use fault::PeerFault;
