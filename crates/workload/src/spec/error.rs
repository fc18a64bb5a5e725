//! Why a workload cannot be built.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// Why a specification does not describe a workload that can run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SpecError {
    #[error("no workload is called {name:?}: expected one of {}", known)]
    Unknown { name: String, known: String },
    #[error("--{option} {value} is out of range: expected {low} to {high}")]
    OutOfRange { option: &'static str, value: String, low: String, high: String },
    #[error("--{option} {value}: expected {expected}")]
    Value { option: String, value: String, expected: String },
    #[error("{workload} needs --{option} FILE: {expected}")]
    Needed { workload: &'static str, option: &'static str, expected: &'static str },
    /// A file that is no recording, with its name.
    #[error("--recording {0}")]
    Recording(String),
    #[error("--{option} does not apply to {workload}: leave it out")]
    NotApplicable { option: String, workload: String },
}

/// A NaN lies in no range.
pub(crate) fn in_range<T: PartialOrd + Display>(
    option: &'static str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), SpecError> {
    if range.contains(&value) {
        return Ok(());
    }
    let (low, high) = range.into_inner();
    Err(SpecError::OutOfRange {
        option,
        value: value.to_string(),
        low: low.to_string(),
        high: high.to_string(),
    })
}
