//! The simulated loop's constants against the engine's source: a change there fails here.

use deploysim::engine_loop::{ASK_NS, BUDGET, GATE, LOG_PAUSE_NS, LOG_THREADS, SPIN_US, TURNS};
use std::path::Path;

/// The value of `const NAME: TYPE = VALUE;` in a file of another crate.
fn constant(file: &str, name: &str) -> u64 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let start = format!("const {name}: ");
    let line = text.lines().find(|line| {
        line.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ").starts_with(&start)
    });
    let line =
        line.unwrap_or_else(|| panic!("{file} has no constant {name}: adapt the simulation to the new loop"));
    let value = line.split('=').nth(1).and_then(|rest| rest.trim().strip_suffix(';')).unwrap();
    let value = value.trim_start_matches("Duration::from_micros(").trim_end_matches(')');
    value.replace('_', "").parse().unwrap_or_else(|_| panic!("{name} of {file} is {value}"))
}

#[test]
fn the_loop_has_the_engines_constants() {
    assert_eq!(TURNS as u64, constant("instance/src/worker.rs", "TURNS"));
    assert_eq!(ASK_NS, constant("instance/src/worker.rs", "ASK_NS"));
    assert_eq!(BUDGET as u64, constant("instance/src/worker.rs", "BUDGET"));
    assert_eq!(GATE as u64, constant("instance/src/gate.rs", "MOST"));
    assert_eq!(SPIN_US, constant("deploy/src/plan.rs", "SPIN_US"));
    assert_eq!(LOG_THREADS as u64, constant("memstore/src/log/flusher.rs", "ABREAST"));
    assert_eq!(LOG_PAUSE_NS, constant("memstore/src/log/flusher.rs", "QUICK") * 1_000);
}

#[test]
fn the_loop_has_the_engines_order() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../instance/src/worker.rs");
    let text = std::fs::read_to_string(path).unwrap();
    let begins_with = |name: &str| &text[text.find(name).unwrap_or_else(|| panic!("{name:?} is gone"))..];
    let in_order = |mut rest: &str, steps: &[&str]| {
        for step in steps {
            let at = rest.find(step).unwrap_or_else(|| panic!("{step:?} is not where the simulation has it"));
            rest = &rest[at..];
        }
    };
    let run = begins_with("pub fn run(mut self)");
    in_order(
        &run[..run.find("self.finish()").expect("the loop's end is there")],
        &["self.work(now)", "self.rest(now)"],
    );
    let round = begins_with("fn work(&mut self, now: u64)");
    let round = &round[..round.find("probe::round").expect("the round's end is there")];
    in_order(
        round,
        &["self.turns(now)", "Ask::Rings } else { Ask::All }", "self.receive(ask)", "links.flush()"],
    );
}
