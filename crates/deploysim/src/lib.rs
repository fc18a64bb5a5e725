//! Predicts the throughput and latency of a deployment on a described machine: values in, values
//! out, and no engine.
//!
//! - [`MachineModel`]: cores, one-way latencies, and further terms, from a latency file or a
//!   machine file (`machines/*.toml`).
//! - [`EngineProfile`]: service times by component of an engine (`atoll`, `shore-mt`, `silo`).
//! - [`Transactions`]: the requests, drawn by `workload`'s generator or from [`RecordedKind`]s.
//! - [`Deployment`]: instances, their cores, design, channel, durability, clients.
//!
//! - [`sections`]: the threads of one instance in critical sections, under designs with owners.
//!
//! The first four go in, and a [`Case`] holds them. [`simulate`] runs the worker's loop event by
//! event and gives an [`Outcome`]; [`estimate`] is a closed form in microseconds, for the first
//! screen of a search.
//!
//! ```
//! use deploysim::{Case, Deployment, EngineProfile, MachineModel, Placement, RunOptions,
//! Transactions}; use workload::micro::Op;
//!
//! let machine = MachineModel::uniform(2, 60.0)?;
//! let profile = EngineProfile::builtin("atoll")?;
//! let transactions = Transactions::micro_of(2, Op::Read, 20.0)?;
//! let two = Deployment::new(&machine, "conventional", 2, 2, Placement::Island)?;
//! let case = Case::new(&machine, &profile, &transactions, &two)?;
//! let quick = deploysim::estimate(&case);
//! let exact = deploysim::simulate(&case, &RunOptions::default());
//! assert!(quick.tps > 0.0 && exact.tps > 0.0);
//! # Ok::<(), deploysim::ModelError>(())
//! ```

#![forbid(unsafe_code)]

mod error;

pub mod calibration;
pub mod costs;
pub mod deployment;
pub mod engine_loop;
pub mod machine;
pub mod transaction;

mod case;
pub mod outcome;

mod analytic;
mod simulate;

pub mod sections;

pub use analytic::{Estimate, estimate, mva};
pub use case::Case;
pub use costs::EngineProfile;
pub use deployment::{Channel, Clients, Deployment, Durability, Placement};
pub use error::ModelError;
pub use machine::MachineModel;
pub use outcome::{Component, Limit, Outcome};
pub use simulate::{RunOptions, simulate};
pub use transaction::{Mix, RecordedKind, Transactions};
