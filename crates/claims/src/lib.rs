//! The papers' claims, the results that we accept as their reproduction, and the verdict of result
//! rows on them.
//!
//! ```text
//!   experiments/*.toml --Experiment--> runs, by the `atoll` command --Row--> judge --> Decision
//!   experiments/claims.toml --Evaluator---------------------------------------^          ^
//!   experiments/ledger.tsv --Claim-------------------------------------------------------+
//! ```
//!
//! All of it is data: no claim has code of its own; each is decided by a few expressions over rows,
//! read from a file. This crate starts and measures nothing: the `atoll` command runs an
//! [`Experiment`]. Rows of described machines come from a prediction ([`simulated`]). Counts that
//! follow from the definition of a workload alone are made here ([`counting`]).
//!
//! - [`ledger`]: the claims. [`experiment`]: the runs and plots. [`library`]: the files of
//!   `experiments/`, which are embedded in the program and checked against each other.
//! - [`row`]: rows as JSON objects. [`rows`]: files of them. [`expression`]: the language over
//!   rows, read by `parse`.
//! - [`judge`]: evaluators and verdicts. [`figure`]: rows as a table of a plot. [`page`]: the table
//!   of all claims.
//! - [`simulated`]: rows of described machines, predicted.
//! - [`counting`]: counts of workload definitions; `trace`: the operations of transactions on the
//!   naive model; [`repartitioning`]: the costs and decisions of splits, merges and balancing;
//!   [`schedulers`]: the hardware and the rules of the schedulers that follow the code.

#![forbid(unsafe_code)]

pub mod error;
pub mod ledger;

pub mod experiment;
pub mod library;

pub mod expression;
pub mod row;
pub mod rows;

mod count_row;
pub mod counting;
pub mod repartitioning;
pub mod schedulers;
mod trace;

pub mod simulated;

pub mod figure;
pub mod judge;
pub mod page;

pub use error::DataError;
pub use experiment::{Experiment, Plot, Traced};
pub use judge::{ClaimVerdict, Decision};
pub use ledger::{Claim, How};
pub use library::{Library, Unknown};
pub use row::Row;
