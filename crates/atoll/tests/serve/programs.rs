//! The programs of the folder `clients` that need no more than this machine usually has: psql,
//! pgbench, and psycopg 3 in a Python environment that a script makes. `cargo xtask clients` runs
//! all of them.

use crate::served::Served;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients")
}

fn has(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        eprintln!("skipped: {program} is not installed");
    }
    is_there
}

/// Runs a program against a server. Its output names each check.
fn run(served: &Served, command: &mut Command) -> Output {
    command.envs(served.environment()).current_dir(clients()).output().unwrap()
}

/// Every check must succeed, apart from those of which the server says that it does not support it.
fn assert_all_ok(output: &Output, least: usize) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed = text.lines().any(|line| line.starts_with("FAILED"));
    let good = text.lines().filter(|line| line.starts_with("ok ")).count();
    assert!(!failed && good >= least, "{text}{}", String::from_utf8_lossy(&output.stderr));
    eprintln!("{text}");
}

#[test]
fn psql_runs_its_commands() {
    let served = Served::start(&[]);
    if has("psql") {
        assert_all_ok(&run(&served, &mut Command::new("./use_psql")), 12);
    }
}

#[test]
fn pgbench_runs_every_script_in_every_protocol() {
    let served = Served::start(&["--islands", "2", "--durability", "async"]);
    if has("pgbench") {
        assert_all_ok(&run(&served, &mut Command::new("./use_pgbench")), 13);
    }
}

#[test]
fn psycopg_3_passes_its_checks() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("psycopg3");
    let made = Command::new(clients().join("venv")).arg(dir).arg("psycopg").output().unwrap();
    if made.status.code() == Some(3) {
        return eprintln!("skipped: {}", String::from_utf8_lossy(&made.stderr));
    }
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let python = String::from_utf8(made.stdout).unwrap().trim_end().to_owned();
    let served = Served::start(&["--islands", "2"]);
    let output = run(&served, Command::new(python).arg("-B").arg("use_psycopg3.py"));
    assert_all_ok(&output, 12);
}
