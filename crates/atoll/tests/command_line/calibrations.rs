//! The costs of a plan's model: measured on this machine, kept in a file, and read again.

use super::*;
use rustix::process::Signal;
use std::io::{BufRead, BufReader};

const LOAD: &[&str] = &["plan", "micro", "--dataset", "1000", "--designs", "logical", "--no-trials"];

/// Runs a command; again, while the CPUs are too busy for one sample of their distance.
fn run(sandbox: &Sandbox, args: &[&str]) -> Output {
    let mut outputs = std::iter::repeat_with(|| sandbox.run(args)).take(20);
    let is_measured = |output: &Output| !stderr(output).contains("no sample within the time limit");
    outputs.find(is_measured).expect("a sample of the distance of two CPUs in 20 runs")
}

/// A plan's JSON object.
fn plan(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_design_without_costs_is_ranked_once_its_cells_are_measured() {
    let (sandbox, place) = (Sandbox::new(), tempfile::tempdir().unwrap());
    let file = place.path().join("costs/logical.toml");
    let file = file.to_str().unwrap();
    // Nothing is known of the design.
    let output = run(&sandbox, &[LOAD, &["--calibration", file]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains(file), "{}", stderr(&output));
    let output = run(&sandbox, &[LOAD, &["--calibration", file, "--calibrate=2s", "--json"]].concat());
    assert!(stderr(&output).contains("calibrating: logical"), "{}", stderr(&output));
    let measured = plan(&output);
    assert_eq!(measured["ranking"][0]["candidate"]["design"], "logical");
    assert_eq!(measured["search"]["borrowed"][0], "logical");
    // The file holds what was measured.
    let again = plan(&run(&sandbox, &[LOAD, &["--calibration", file, "--json"]].concat()));
    let tps = |plan: &Value| plan["ranking"][0]["tps"]["mid"].as_f64().unwrap();
    // The machine's distances are measured anew for each plan.
    assert!((tps(&again) / tps(&measured) - 1.0).abs() < 0.05, "{} and {}", tps(&again), tps(&measured));
    assert!(again["search"]["calibrated"].as_str().unwrap().contains("cell"), "{again}");
    let screen = run(&sandbox, &[LOAD, &["--calibration", file]].concat());
    let screen = String::from_utf8(screen.stdout).unwrap();
    assert!(screen.contains("calibrated by") && screen.contains("those of conventional, scaled"), "{screen}");
    // Another load that it holds for, and one that it does not.
    let other = run(&sandbox, &[LOAD, &["--calibration", file, "--rows", "4", "--clients", "2"]].concat());
    assert!(stderr(&other).contains("measured at clients 4, rows 10"), "{}", stderr(&other));
    let output = run(&sandbox, &[LOAD, &["--calibration", file, "--op", "update"]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("its op is read, not update"), "{}", stderr(&output));
    std::fs::write(file, "not a calibration").unwrap();
    let output = run(&sandbox, &[LOAD, &["--calibration", file]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--calibrate"), "{}", stderr(&output));
}

#[test]
fn a_budget_for_less_than_a_probe_of_each_design_is_refused() {
    let sandbox = Sandbox::new();
    let output = run(&sandbox, &["plan", "micro", "--no-trials", "--calibrate=1s"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("one probe of each of 7 designs"), "{}", stderr(&output));
}

#[test]
fn an_interrupted_calibration_writes_nothing() {
    let (sandbox, place) = (Sandbox::new(), tempfile::tempdir().unwrap());
    let file = place.path().join("costs.toml");
    let args = [LOAD, &["--calibrate", "--calibration", file.to_str().unwrap()]].concat();
    let mut child = sandbox.command(&args).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("calibrating: logical")));
    signal(child.id(), Signal::INT);
    let rest: Vec<String> = said.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:#?}");
    assert!(!file.exists());
    sandbox.assert_nothing_left();
}
