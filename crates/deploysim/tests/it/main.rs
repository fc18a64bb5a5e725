//! The simulation against laws, the closed form, measured figures and the engine's source.

mod analytic;
mod calibration;
mod drift;
mod laws;
mod lines;
mod machines;
mod measured;
mod papers;
mod recorded;
mod sections;

use deploysim::{Case, Deployment, EngineProfile, MachineModel, Outcome, RunOptions, Transactions, simulate};

/// Simulates one deployment of the microbenchmark.
fn run(
    machine: &MachineModel,
    profile: &EngineProfile,
    transactions: &Transactions,
    deployment: &Deployment,
    options: &RunOptions,
) -> Outcome {
    let case = Case::new(machine, profile, transactions, deployment).unwrap();
    simulate(&case, options)
}

/// The path of a described machine.
fn machines(name: &str) -> String {
    format!("{}/../../machines/{name}", env!("CARGO_MANIFEST_DIR"))
}
