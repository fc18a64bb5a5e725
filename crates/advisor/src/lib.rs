//! Decides which deployment fits a machine and a workload, and says why and how surely: values in,
//! values out.
//!
//! - [`Space`] lists the deployments that a machine and a workload allow ([`Candidate`]).
//! - [`search`] ranks them with two [`Predictor`]s, a fast one for all and a slow one for the best.
//! - [`race`] decides between the best few by measured windows, which a closure delivers.
//!
//! The crate runs no deployment, reads no clock and no file.

#![forbid(unsafe_code)]

mod error;

mod candidate;
mod objective;
mod predictor;

pub mod space;

pub mod search;

pub mod race;

pub use candidate::{Candidate, Preference};
pub use error::AdviceError;
pub use objective::{Objective, time};
pub use predictor::{Interval, Limit, Part, Prediction, Predictor};
pub use race::{RaceError, RaceOptions, RaceResult, Trial};
pub use search::{Basis, Found, Ranked, SearchOptions, search};
pub use space::{Design, Levels, Space};
