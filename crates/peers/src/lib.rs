//! The same transactions on Atoll and on other engines, by turns in one run, and the other figures
//! of `results/benchmarks.md`.
//!
//! No other crate depends on this one, and it is built only when asked for. A comparison is a list
//! of [`Contestant`]s, all loaded with the same rows. In each [`rounds::alternate`] round, each of
//! them gets the same requests, drawn by the workload's own generator. The results are
//! [`rounds::Line`]s, printed as a Markdown table with a [`stamp::Stamp`] of the machine.
//!
//! Other engines run the workload's own procedures: [`peer`] makes an `Access` of an engine that
//! can read and write bytes under a key. So no transaction is written twice, except for a server
//! with stored procedures.
//!
//! - [`contestant`]: the engines of a comparison. [`atoll`]: instances in this process, driven by
//!   their own closed loop. [`bench`](mod@bench): the workloads.
//! - [`peer`]: another engine as maps of bytes. [`hosted`]: a workload on it. [`threads`]: its
//!   clients.
//! - [`tree`]: a `BTreeMap` behind a mutex, with or without a redo log ([`redo`]). With the feature
//!   `engines`: `shim` for engines with a C interface (LMDB, WiredTiger, Berkeley DB, SQLite,
//!   RocksDB), and `postgres` for a server with stored procedures.
//! - With the feature `server`: `postgres`, and `brokerage`, which compares transactions of TPC-E with
//!   it.
//! - [`device`], [`mixed`]: the speed of the disk itself. [`deployment`]: instances in this
//!   process. [`figures`]: measurements of Atoll alone.
//! - [`rounds`], [`stamp`]: repetition, and the circumstances of a measurement.

#![allow(async_fn_in_trait)]
#![cfg_attr(not(feature = "engines"), forbid(unsafe_code))]

pub mod bench;
pub mod contestant;
pub mod engines;
pub mod fault;

pub mod atoll;

#[cfg(feature = "server")]
pub mod brokerage;
pub mod hosted;
pub mod peer;
#[cfg(feature = "server")]
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
pub use contestant::{Commits, Contestant, Rate, Work};
pub use engines::Engine;
pub use fault::PeerFault;
