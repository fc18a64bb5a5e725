//! The workloads: their data, transactions, requests and consistency conditions.
//!
//! This crate knows no engine: it uses the language of [`txn`] and nothing else, and has no clock
//! and no entropy (every request follows from a seed), so the same code runs in every deployment. A
//! request is a value drawn by a workload's [`txn::Generator`]; it becomes steps in
//! [`txn::Workload::run`], and its result is a small reply. [`txn::Workload::audit`] and
//! [`txn::Workload::judge`] check the data after a run.
//!
//! Read it in this order: the list of all workloads, with their names ([`spec`]), and the
//! properties that the measuring code needs ([`benchmark`]); the islands microbenchmark
//! ([`micro`]), TPC-B ([`tpcb`]), TPC-C ([`tpcc`]), TPC-E ([`tpce`]) and TATP ([`tatp`]), each as
//! schema and loader, steps, generator, check; recorded runs ([`recording`]), and those again
//! ([`replay`]); the random draws that they share ([`random`], and
//! hot ranges, [`hot`]).
//! With the feature `oracle`: a naive model that runs any workload in one thread (`oracle`), the
//! do-nothing storage on which the language itself is measured (`null`), and a workload without
//! data (`idle`).

#![forbid(unsafe_code)]

mod any;
pub mod benchmark;
mod served;
pub mod spec;

pub mod micro;
pub mod recording;
pub mod replay;
pub mod tatp;
pub mod tpcb;
pub mod tpcc;
pub mod tpce;

pub mod hot;
pub mod random;

mod columns;
mod findings;

#[cfg(feature = "oracle")]
pub mod idle;
#[cfg(feature = "oracle")]
pub mod null;
#[cfg(feature = "oracle")]
pub mod oracle;

pub use any::{AnyAudit, AnyGenerator, AnyReply, AnyRequest, AnyWorkload};
pub use benchmark::{Benchmark, Labels};
pub use hot::Hot;
pub use recording::{Recorder, Recording};
pub use spec::{SpecError, WorkloadSpec};
