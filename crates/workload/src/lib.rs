//! The workloads: what data there is, what transactions run on it, which requests come in, and what must hold afterwards.
//!
//! This room knows no engine: it speaks the language of [`txn`] and nothing else, has no clock and no entropy
//! (every request follows from a seed), and the same code runs in every deployment. A request enters as a value
//! drawn by a workload's [`txn::Generator`], becomes steps in [`txn::Workload::run`], and leaves as a small
//! reply; whether all of that was right is answered by [`txn::Workload::audit`] and [`txn::Workload::judge`].
//!
//! Read it in this order: the list of all workloads, how one is named and chosen ([`spec`]), and what it tells those who
//! measure it ([`benchmark`]); the islands microbenchmark ([`micro`]),
//! TPC-B ([`tpcb`]), TPC-C ([`tpcc`]) and TATP ([`tatp`]), each as schema and loader, steps, generator, check; the draws
//! that they share ([`random`], and hot ranges, [`hot`]). With
//! the feature `oracle`: a naive model that runs any workload in one thread (`oracle`), the do-nothing storage on which the
//! language itself is measured (`null`), and a workload without data (`idle`).

#![forbid(unsafe_code)]

pub mod benchmark;
pub mod spec;

pub mod micro;
pub mod tatp;
pub mod tpcb;
pub mod tpcc;

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

pub use benchmark::{Benchmark, Labels};
pub use hot::Hot;
pub use spec::{AnyWorkload, SpecError, Visitor, WorkloadSpec, with_workload};
