//! `cargo xtask stress`: the parts of the test suite side by side, beside threads that keep every
//! CPU busy, again and again until one fails.
//!
//! A part is a test binary. It is built once and started like `cargo test` starts it, in the folder
//! of its crate. Its output goes to a file, which is kept if the part fails.

use crate::{Failed, root};
use serde_json::Value;
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A part that runs longer than this hangs.
const LONGEST: Duration = Duration::from_secs(30 * 60);

struct Options {
    rounds: u64,
    /// No round begins after this many minutes; 0 for no limit.
    minutes: u64,
    hogs: usize,
    /// Parts that run at a time.
    jobs: usize,
    /// Crates; empty for all.
    parts: Vec<String>,
    /// Arguments for the test binaries, for example names of tests.
    rest: Vec<String>,
}

impl Options {
    fn read(args: &[String]) -> Result<Options, Failed> {
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
        let (parts, rest) = (Vec::new(), Vec::new());
        let mut options = Options { rounds: 3, minutes: 0, hogs: cpus, jobs: cpus * 2, parts, rest };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if arg == "--" {
                options.rest = args.cloned().collect();
                break;
            }
            let usage = |what: &str| Failed::Usage(format!("stress {arg}: {what}"));
            let value = args.next().ok_or_else(|| usage("a value is missing"))?;
            let number = || value.parse::<u64>().map_err(|_| usage("expected a number"));
            match arg.as_str() {
                "--rounds" => options.rounds = number()?,
                "--minutes" => {
                    options.minutes = number()?;
                    // Until the time is up, unless `--rounds` follows.
                    options.rounds = u64::MAX;
                }
                "--hogs" => options.hogs = number()? as usize,
                "--jobs" => options.jobs = number()?.max(1) as usize,
                "--parts" => options.parts = value.split(',').map(str::to_owned).collect(),
                _ => {
                    let known = "[--rounds N] [--minutes M] [--hogs N] [--jobs N] [--parts A,B] [-- ARGS]";
                    return Err(usage(&format!("expected {known}")));
                }
            }
        }
        Ok(options)
    }
}

/// A test binary.
#[derive(Clone, Debug, PartialEq)]
struct Part {
    /// The name of its crate and its own name.
    name: String,
    program: PathBuf,
    folder: PathBuf,
}

/// Fails after the first round in which a part fails.
pub fn stress(args: &[String]) -> Result<(), Failed> {
    let options = Options::read(args)?;
    let parts = build(&options.parts)?;
    let kept = root().join("target/stress");
    let _ = std::fs::remove_dir_all(&kept); // files of an earlier run
    std::fs::create_dir_all(&kept).map_err(|why| Failed::Stress(format!("{}: {why}", kept.display())))?;
    let (begun, over) = (Instant::now(), AtomicBool::new(false));
    eprintln!("{} parts, {} at a time, beside {} busy threads", parts.len(), options.jobs, options.hogs);
    std::thread::scope(|scope| {
        (0..options.hogs).for_each(|_| _ = scope.spawn(|| hog(&over)));
        let outcome = rounds(&options, &parts, &kept, begun);
        over.store(true, Ordering::Relaxed);
        outcome
    })
}

fn rounds(options: &Options, parts: &[Part], kept: &Path, begun: Instant) -> Result<(), Failed> {
    let mut round = 0;
    while round < options.rounds {
        let minutes = begun.elapsed().as_secs() / 60;
        if options.minutes > 0 && minutes >= options.minutes {
            break;
        }
        round += 1;
        let failures = one_round(options, parts, kept, round);
        println!("round {round}: {} of {} parts failed ({minutes} min)", failures.len(), parts.len());
        if !failures.is_empty() {
            failures.iter().for_each(|failure| println!("{failure}"));
            return Err(Failed::Stress(format!("{} part(s) failed in round {round}", failures.len())));
        }
    }
    println!("{round} rounds of {} parts, none failed", parts.len());
    Ok(())
}

/// Keeps a CPU busy.
fn hog(over: &AtomicBool) {
    let mut n = 0_u64;
    while !over.load(Ordering::Relaxed) {
        n = std::hint::black_box(n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// Builds the tests of these crates; returns the binaries.
fn build(crates: &[String]) -> Result<Vec<Part>, Failed> {
    let mut args = vec!["test", "--no-run", "--message-format=json", "--lib", "--bins", "--tests"];
    match crates.is_empty() {
        true => args.extend(["--workspace", "--exclude", "xtask"]),
        false => crates.iter().for_each(|name| args.extend(["--package", name.as_str()])),
    }
    let command = format!("cargo {}", args.join(" "));
    eprintln!("+ {command}");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(&args).current_dir(root()).stderr(Stdio::inherit()).output();
    let failed = |status: String| Failed::Command { command: command.clone(), status };
    let output = output.map_err(|why| failed(why.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let parts: Vec<Part> = messages.lines().filter_map(part).collect();
    if parts.is_empty() { Err(Failed::Stress("no test binary was built".into())) } else { Ok(parts) }
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

/// Runs every part once; returns the failures.
fn one_round(options: &Options, parts: &[Part], kept: &Path, round: u64) -> Vec<String> {
    let waiting: Mutex<VecDeque<&Part>> = Mutex::new(parts.iter().collect());
    let failures = Mutex::new(Vec::new());
    let next = || waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop_front();
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                while let Some(part) = next() {
                    let file = kept.join(format!("{round}-{}.txt", part.name));
                    if let Err(what) = run(part, &options.rest, &file) {
                        let said = std::fs::read_to_string(&file).unwrap_or_default();
                        let tests = failed_tests(&said).join(", ");
                        let failure = format!("{}: {what}: {tests}\n  {}", part.name, file.display());
                        failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(failure);
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
    fn the_tests_that_failed_are_named() {
        let said =
            "test a::b ... ok\ntest c::d ... FAILED\n\nfailures:\n    c::d\ntest e - should panic ... FAILED";
        assert_eq!(failed_tests(said), ["c::d", "e - should panic"]);
    }
}
