//! Failing devices.

use trials::faults::{Ended, campaign};
use txn::TableKind;

/// Each 101st position; `cargo xtask faults` takes them all.
#[test]
fn every_failing_operation_is_survived() {
    let outcome = campaign(&TableKind::ALL, 101, 17).unwrap();
    let failures: Vec<String> =
        outcome.failures.iter().map(|(plan, flaw)| format!("{plan}: {flaw}")).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    for ended in [Ended::Unharmed, Ended::Refused, Ended::Stopped] {
        assert!(outcome.ended.contains_key(&ended), "no life ended {ended:?}: {outcome:?}");
    }
}

/// The same for `occ`: each 37th position.
#[test]
fn every_failing_operation_is_survived_in_main_memory() {
    let outcome = trials::memory_run::faults(37, 5).unwrap();
    let failures: Vec<String> =
        outcome.failures.iter().map(|(plan, flaw)| format!("{plan}: {flaw}")).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(outcome.unharmed > 0 && outcome.stopped > 0, "{outcome:?}");
}
