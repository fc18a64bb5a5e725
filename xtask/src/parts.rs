//! The parts of the test suite: its test binaries, built by cargo and run side by side.
//!
//! A part is started like `cargo test` starts it, in the folder of its crate. On its own it leaves
//! CPUs idle: some tests wait for the device or for a moment, and its last test runs alone.

use crate::{Failed, cargo_command, root};
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A part that runs longer than this hangs.
const LONGEST: Duration = Duration::from_secs(20 * 60);

/// A test binary.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The name of its crate and its own name.
    pub name: String,
    program: PathBuf,
    folder: PathBuf,
}

/// A part that has run.
pub struct Ran<'a> {
    pub part: &'a Part,
    pub time: Duration,
    pub passed: bool,
    /// The tests in it that passed.
    pub tests: usize,
    /// What its failed tests said.
    pub said: &'a str,
}

/// The parts that run longest, in this order: a minute and more. The others follow by their size,
/// so that no long one begins when all others have ended.
const LONG: [&str; 5] = ["atoll-command_line", "atoll-serve", "trials-it", "twophase-model", "instance-it"];

/// The place of a part in the order in which parts begin.
fn turn(name: &str, bytes: u64) -> (usize, Reverse<u64>) {
    (LONG.iter().position(|long| *long == name).unwrap_or(LONG.len()), Reverse(bytes))
}

/// Builds the tests that these arguments of `cargo test` choose; returns the binaries, those that
/// run longest first.
pub fn build(choice: &[&str]) -> Result<Vec<Part>, Failed> {
    let args = [&["test", "--no-run", "--message-format=json"], choice].concat();
    let command = format!("cargo {}", args.join(" "));
    eprintln!("+ {command}");
    let begun = Instant::now();
    let output = cargo_command().args(&args).current_dir(root()).stderr(Stdio::inherit()).output();
    let failed = |status: String| Failed::Command { command: command.clone(), status };
    let output = output.map_err(|why| failed(why.to_string()))?;
    eprintln!("  {:.1} s", begun.elapsed().as_secs_f64());
    let messages = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        messages.lines().filter_map(diagnostic).for_each(|text| eprintln!("{text}"));
        return Err(failed(output.status.to_string()));
    }
    let mut parts: Vec<Part> = messages.lines().filter_map(part).collect();
    parts.sort_by_key(|part| turn(&part.name, std::fs::metadata(&part.program).map_or(0, |file| file.len())));
    if parts.is_empty() { Err(Failed::Stress("no test binary was built".into())) } else { Ok(parts) }
}

/// The words of the compiler in one of cargo's messages.
fn diagnostic(message: &str) -> Option<String> {
    let message: Value = serde_json::from_str(message).ok()?;
    Some(message["message"]["rendered"].as_str()?.trim_end().to_owned())
}

/// The test binary that one of cargo's messages describes.
fn part(message: &str) -> Option<Part> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let (of, target) = (folder.file_name()?.to_str()?.to_owned(), message["target"]["name"].as_str()?);
    let kind = message["target"]["kind"][0].as_str()?;
    let name = format!("{of}-{}", if kind == "lib" { "lib" } else { target });
    Some(Part { name, program: message["executable"].as_str()?.into(), folder })
}

/// Runs every part once, `jobs` at a time; returns the failures. The output of a part goes to
/// `file_of` it, and stays there if the part fails. `tell` hears of each part that has ended.
pub fn side_by_side(
    parts: &[Part],
    jobs: usize,
    args: &[String],
    file_of: impl Fn(&Part) -> PathBuf + Sync,
    tell: impl Fn(&Ran<'_>) + Sync,
) -> Vec<String> {
    let waiting: Mutex<VecDeque<&Part>> = Mutex::new(parts.iter().collect());
    let failures = Mutex::new(Vec::new());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(part) = next() {
                    let (file, begun) = (file_of(part), Instant::now());
                    let outcome = run(part, args, &file);
                    let said = std::fs::read_to_string(&file).unwrap_or_default();
                    let (time, tests) = (begun.elapsed(), passed_tests(&said));
                    let words = said.find("\nfailures:\n").map_or("", |at| &said[at..]);
                    tell(&Ran { part, time, passed: outcome.is_ok(), tests, said: words });
                    if let Err(what) = outcome {
                        let tests = [failed_tests(&said), endless_tests(&said)].concat().join(", ");
                        let failure = format!("{}: {what}: {tests}\n  {}", part.name, file.display());
                        failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
                    } else {
                        let _ = std::fs::remove_file(&file); // nothing of interest
                    }
                }
            });
        }
    });
    failures.into_inner().unwrap_or_default()
}

fn run(part: &Part, args: &[String], file: &Path) -> Result<(), String> {
    let told = |why: std::io::Error| format!("{}: {why}", part.program.display());
    let out = File::create(file).map_err(told)?;
    let err = out.try_clone().map_err(told)?;
    let mut command = Command::new(&part.program);
    command.args(args).current_dir(&part.folder).stdin(Stdio::null()).stdout(out).stderr(err);
    let mut child = command.spawn().map_err(told)?;
    let begun = Instant::now();
    loop {
        match child.try_wait().map_err(told)? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("ended with {status}")),
            None if begun.elapsed() > LONGEST => {
                let _ = child.kill(); // it may have ended just now
                let _ = child.wait();
                return Err(format!("has not ended after {} min", LONGEST.as_secs() / 60));
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// The names of the failed tests in a binary's output.
fn failed_tests(said: &str) -> Vec<&str> {
    said.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED")).collect()
}

/// The tests that a binary's output reports as long and without a result.
fn endless_tests(said: &str) -> Vec<&str> {
    let long = said
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" has been running for over 60 seconds"));
    let has_ended = |name: &&str| said.contains(&format!("test {name} ... "));
    long.filter(|name| !has_ended(name)).collect()
}

/// The number of tests that passed, by a binary's output.
fn passed_tests(said: &str) -> usize {
    said.lines().filter(|line| line.starts_with("test ") && line.ends_with(" ... ok")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_binaries_are_told_from_other_artifacts() {
        let message = |test: bool, kind: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/a/crates/wal/Cargo.toml","target":{{"kind":["{kind}"],"name":"it"}},"profile":{{"test":{test}}},"executable":"/a/t/it-1"}}"#
            )
        };
        let name = |message: &str| part(message).map(|part| part.name);
        assert_eq!(name(&message(true, "test")).as_deref(), Some("wal-it"));
        assert_eq!(name(&message(true, "lib")).as_deref(), Some("wal-lib"));
        assert_eq!(name(&message(false, "bin")), None);
        assert_eq!(name(r#"{"reason":"build-finished"}"#), None);
    }

    #[test]
    fn long_parts_begin_first_and_are_there() {
        let mut parts = [("wal-it", 7), ("instance-it", 1), ("store-it", 9), ("atoll-command_line", 2)];
        parts.sort_by_key(|(name, bytes)| turn(name, *bytes));
        assert_eq!(parts.map(|(name, _)| name), ["atoll-command_line", "instance-it", "store-it", "wal-it"]);
        for name in LONG {
            let (of, target) = name.split_once('-').unwrap();
            let tests = root().join("crates").join(of).join("tests");
            let here = [tests.join(format!("{target}.rs")), tests.join(target).join("main.rs")];
            assert!(here.iter().any(|file| file.is_file()), "{name}: there is no such part any more");
        }
    }

    #[test]
    fn errors_of_the_compiler_are_shown() {
        let error = r#"{"reason":"compiler-message","message":{"rendered":"error: no such thing\n"}}"#;
        assert_eq!(diagnostic(error).as_deref(), Some("error: no such thing"));
        assert_eq!(diagnostic(r#"{"reason":"build-finished"}"#), None);
    }

    #[test]
    fn the_tests_that_failed_are_named() {
        let said =
            "test a::b ... ok\ntest c::d ... FAILED\n\nfailures:\n    c::d\ntest e - should panic ... FAILED";
        assert_eq!(failed_tests(said), ["c::d", "e - should panic"]);
        assert_eq!(passed_tests(said), 1);
        let said = "test a has been running for over 60 seconds\ntest b has been running for over 60 seconds\n\
                    test a ... ok";
        assert_eq!(endless_tests(said), ["b"]);
    }
}
