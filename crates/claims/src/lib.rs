//! What the papers claim, what we accept as its reproduction, and what result rows say of it.
//!
//! ```text
//!   experiments/*.toml --Experiment--> runs, by whoever can run them --Row-->  judge --> Decision, tables
//!   experiments/claims.toml --Evaluator-----------------------------------------^
//!   experiments/ledger.tsv  --Claim---------------------------------------------------------^
//! ```
//!
//! It is all data: a claim is never decided by code of its own, but by a few expressions over rows, which a file gives. The
//! room starts nothing and measures nothing: the `atoll` command runs what an [`Experiment`] asks for. What follows from
//! the definition of a workload alone is counted here ([`counting`]).
//!
//! - [`ledger`]: the claims. [`experiment`]: what is run and drawn. [`library`]: the files of `experiments/`, which travel
//!   in the program and are held against each other.
//! - [`row`]: rows as JSON objects. [`rows`]: files of them. [`expression`]: the language over rows, read by `parse`.
//! - [`judge`]: evaluators and verdicts. [`figure`]: rows as a table of a plot. [`page`]: the table of all claims.
//! - [`counting`]: counts of workload definitions; `trace`: what transactions do on the naive model; [`repartitioning`]: what
//!   splits, merges and balancing come to.

#![forbid(unsafe_code)]

pub mod error;
pub mod ledger;

pub mod experiment;
pub mod library;

mod parse;

pub mod expression;
pub mod row;
pub mod rows;

pub mod counting;
pub mod repartitioning;
mod trace;

pub mod figure;
pub mod judge;
pub mod page;

pub use error::DataError;
pub use experiment::{Experiment, Plot};
pub use judge::{Decision, Verdict};
pub use ledger::{Claim, How};
pub use library::{Library, Unknown};
pub use row::Row;
