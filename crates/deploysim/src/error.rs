//! Errors of a model's inputs, each as one sentence that names the missing or contradictory value.

use thiserror::Error;

/// An input from which nothing can be predicted.
#[derive(Debug, Error, Clone, PartialEq)]
pub enum ModelError {
    /// A file or a field cannot be understood.
    #[error("{file}: {problem}")]
    File {
        /// The file or the built-in name.
        file: String,
        /// The problem with it.
        problem: String,
    },
    /// The machine has no distances between its cores.
    #[error(
        "machine {machine:?} has no core-to-core latencies: give a latency CSV, or a machine file with \
         [latency_ns]"
    )]
    NoLatencies {
        /// The machine's name.
        machine: String,
    },
    /// Nearer cores would be farther apart than farther ones.
    #[error("machine {machine:?}: contradictory levels: {problem}")]
    Levels {
        /// The machine's name.
        machine: String,
        /// Both levels with their figures.
        problem: String,
    },
    /// A number out of its range.
    #[error("{what} is {value}: expected {expected}")]
    Value {
        /// The field.
        what: String,
        /// Its value.
        value: String,
        /// The range.
        expected: &'static str,
    },
    /// The profile has no costs for a design.
    #[error("the engine profile {profile:?} has no costs for the design {design:?}; it has {known}")]
    NoCosts {
        /// The profile's name.
        profile: String,
        /// The design asked for.
        design: String,
        /// The designs that it has.
        known: String,
    },
    /// The profile has no costs for a channel.
    #[error("the engine profile {profile:?} has no costs for messages over {channel}")]
    NoChannel {
        /// The profile's name.
        profile: String,
        /// The channel's name.
        channel: &'static str,
    },
    /// A transaction kind without recorded steps.
    #[error("{workload}: {problem}; a prediction needs the recorded steps of each kind")]
    NoSteps {
        /// The workload's name.
        workload: String,
        /// The kind and the missing part.
        problem: String,
    },
    /// A deployment that the machine or the design does not allow.
    #[error("deployment: {0}")]
    Deployment(String),
}
