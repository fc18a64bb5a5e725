//! Decides which deployment fits a machine and a workload, and says why and how surely: values in,
//! values out.
//!
//! - [`Space`] lists the deployments that a machine and a workload allow ([`Candidate`]).
//! - [`search()`] ranks them with two [`Predictor`]s, a fast one for all and a slow one for the
//!   best. [`simulated`] makes these of `deploysim`.
//! - [`race`] decides between the best few by measured windows, which a closure delivers.
//! - [`Plan`] holds the choice and its reasons: a file, and a screen for a person. [`explain()`]
//!   compares two deployments, [`flip`] finds where a choice changes, [`map`] draws the winners
//!   over two axes.
//! - [`settings`] writes the islands of a plan for other database servers.
//!
//! The crate runs no deployment, reads no clock and no file.

#![forbid(unsafe_code)]

mod error;

mod candidate;
mod objective;
mod predictor;

pub mod space;

pub mod search;
pub mod simulated;

pub mod race;

pub mod explain;
pub mod flip;
pub mod map;
pub mod plan;
pub mod settings;

pub use candidate::{Candidate, Preference};
pub use error::AdviceError;
pub use explain::explain;
pub use flip::BreakEven;
pub use map::Map;
pub use objective::{Objective, time};
pub use plan::Plan;
pub use predictor::{Interval, Limit, Part, Prediction, Predictor};
pub use race::{RaceError, RaceOptions, RaceResult, Trial};
pub use search::{Basis, Found, Ranked, SearchOptions, search};
pub use space::{Design, Levels, Space};
