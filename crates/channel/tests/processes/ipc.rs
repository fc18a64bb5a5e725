//! The benchmark of round trips, run small over every mechanism.

use crate::common::private_directory;
use channel::ipc::{Figures, IpcError, Mechanism, Plan, Waiting, measure, run_if_peer};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Not a test by itself: the part of this binary when `measure` starts it as the far side.
#[test]
fn far_process() {
    if let Some(result) = run_if_peer(|_| ()) {
        result.unwrap();
    }
}

fn launch() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "ipc::far_process", "--nocapture"]).stdout(std::process::Stdio::null());
    command
}

fn small(mechanism: Mechanism, waiting: Waiting, directory: &Path) -> Plan {
    let plan = Plan::new(mechanism, waiting, directory.to_path_buf());
    Plan { round_trips: 40, streamed: 200, ..plan }
}

fn check(figures: &Figures, plan: &Plan) {
    assert_eq!((figures.mechanism, figures.waiting), (plan.mechanism, plan.waiting));
    assert!(figures.p50_ns > 0 && figures.p50_ns <= figures.p99_ns, "{figures:?}");
    assert!(figures.mean_ns > 0 && figures.messages_per_s > 0.0, "{figures:?}");
}

#[test]
fn every_mechanism_is_measured_in_both_ways_of_waiting() {
    let directory = private_directory();
    for mechanism in Mechanism::ALL {
        for waiting in Waiting::ALL {
            let plan = small(mechanism, waiting, directory.path());
            match measure(&plan, launch, |_| ()) {
                Ok(figures) => check(&figures, &plan),
                // Some containers have no message queues.
                Err(IpcError::Unavailable { mechanism: Mechanism::Mqueue, .. }) => {}
                Err(error) => panic!("{mechanism} {waiting}: {error}"),
            }
        }
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "something was left behind");
}

#[test]
fn a_far_side_that_never_joins_is_noticed() {
    let directory = private_directory();
    for mechanism in [Mechanism::Shm, Mechanism::Tcp, Mechanism::Pipe, Mechanism::Fifo] {
        let start = Instant::now();
        let plan = small(mechanism, Waiting::Blocking, directory.path());
        let error = measure(&plan, || Command::new("true"), |_| ()).unwrap_err();
        assert!(matches!(error, IpcError::Silent), "{mechanism}: {error}");
        assert!(start.elapsed() < Duration::from_secs(9));
    }
}

#[test]
fn a_wrong_plan_is_refused_with_what_was_expected() {
    let directory = private_directory();
    let plan = small(Mechanism::Ring, Waiting::Polled, directory.path());
    for bytes in [0, 4097] {
        let plan = Plan { message_bytes: bytes, ..plan.clone() };
        let text = measure(&plan, launch, |_| ()).unwrap_err().to_string();
        assert!(text.contains("expected 1 to 4096"), "{text}");
    }
    let plan = Plan { round_trips: 0, ..plan };
    assert!(matches!(measure(&plan, launch, |_| ()), Err(IpcError::Nothing { .. })));
    assert!("carrier pigeon".parse::<Mechanism>().unwrap_err().to_string().contains("mqueue"));
}
