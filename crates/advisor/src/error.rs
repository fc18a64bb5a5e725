//! Why there is no advice, in one sentence.

/// A question that has no answer. The text names the missing part.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum AdviceError {
    /// No deployment is left to choose from.
    #[error("no deployment fits: {0}")]
    NoCandidate(String),
    /// Not one candidate has a prediction.
    #[error("none of {candidates} deployments can be predicted: {problem}")]
    NoPrediction {
        /// Deployments that were tried.
        candidates: usize,
        /// The first refusal of the predictor.
        problem: String,
    },
    /// The objective's bound holds for no deployment.
    #[error("--objective {objective}: no deployment reaches it; the nearest is {nearest} with {value}")]
    Unreachable {
        /// The objective as it was typed.
        objective: String,
        /// The deployment that comes nearest.
        nearest: String,
        /// Its value, with the unit.
        value: String,
    },
    /// The budget does not pay for one trial of each of two deployments.
    #[error(
        "--budget {budget_s:.0}s: one trial of each of {arms} deployments takes about {needed_s:.0}s; \
         expected at least that"
    )]
    Budget {
        /// Seconds that were given.
        budget_s: f64,
        /// Deployments that have to be tried.
        arms: usize,
        /// Seconds that they need.
        needed_s: f64,
    },
    /// A text that is no objective.
    #[error("{0:?} is no objective; expected tps, tps-per-core, or a bound such as p99<5ms")]
    Objective(String),
    /// A text that is no plan.
    #[error("{file}: {problem}; expected a plan file as atoll plan --out writes it")]
    PlanFile {
        /// The file's name.
        file: String,
        /// The line and the reason.
        problem: String,
    },
}
