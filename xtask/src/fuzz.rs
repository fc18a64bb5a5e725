//! Runs the targets of the crate `hostile` under libFuzzer and the address sanitizer, one after the
//! other.
//!
//! The flags are those of `cargo fuzz`: coverage counters on every edge, and comparisons reported
//! to the fuzzer. They are given here so that only the nightly compiler must be installed. Inputs
//! with new coverage stay under `target/fuzz`, so that the next run begins where this one ended.

use crate::{Failed, program, root};
use std::path::Path;
use std::process::Command;

const TRIPLE: &str = "x86_64-unknown-linux-gnu";
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Zsanitizer=address \
                     -Cunsafe-allow-abi-mismatch=sanitizer";
/// The limits of one input: seconds, megabytes per allocation, megabytes in all.
const LIMITS: [&str; 3] = ["-timeout=20", "-malloc_limit_mb=512", "-rss_limit_mb=3072"];
const DEFAULT_SECONDS: u64 = 60;

/// `[TARGET]... [--seconds N]`
pub fn fuzz(args: &[String]) -> Result<(), Failed> {
    let (mut wanted, mut seconds) = (Vec::new(), DEFAULT_SECONDS);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--seconds" {
            let given = args.next().map(String::as_str).unwrap_or_default();
            seconds = given.parse().map_err(|_| Failed::Usage(format!("fuzz --seconds '{given}'")))?;
        } else {
            wanted.push(arg.as_str());
        }
    }
    build()?;
    let all = targets();
    let all: Vec<&str> = all.lines().collect();
    if let Some(unknown) = wanted.iter().find(|name| !all.contains(name)) {
        eprintln!("targets: {}", all.join(", "));
        return Err(Failed::Usage(format!("fuzz {unknown}")));
    }
    let names = if wanted.is_empty() { all } else { wanted };
    let broken = names.iter().filter(|name| !run(name, seconds)).count();
    if broken == 0 { Ok(()) } else { Err(Failed::Fuzz(broken)) }
}

fn build() -> Result<(), Failed> {
    let args = ["run", "nightly", "cargo", "build", "--release", "--manifest-path", "fuzz/Cargo.toml"];
    let args = args.into_iter().chain(["--target", TRIPLE, "--target-dir", "target/fuzz"]);
    program("rustup", &args.collect::<Vec<_>>(), &[("RUSTFLAGS", FLAGS)])
}

fn fuzzer() -> Command {
    Command::new(root().join("target/fuzz").join(TRIPLE).join("release/fuzz"))
}

/// The names of the targets, one per line: the fuzzer prints them if no target is selected.
fn targets() -> String {
    let told = fuzzer().env("FUZZ_TARGET", "").output().map(|done| done.stdout).unwrap_or_default();
    String::from_utf8_lossy(&told).into_owned()
}

/// Runs one target; `false` if it found a failure, or cannot run.
fn run(name: &str, seconds: u64) -> bool {
    let home = root().join("target/fuzz");
    let (corpus, seeds, found) =
        (home.join("corpus").join(name), home.join("seeds").join(name), home.join("found"));
    if let Err(error) = [&corpus, &seeds, &found].into_iter().try_for_each(std::fs::create_dir_all) {
        eprintln!("{}: {error}", home.display());
        return false;
    }
    eprintln!("+ fuzz {name}, {seconds} s");
    let mut fuzzer = fuzzer();
    fuzzer.args([&corpus, &seeds]).arg(format!("-max_total_time={seconds}"));
    fuzzer.args(LIMITS).args(["-max_len=65536", "-print_final_stats=1", "-verbosity=0"]);
    fuzzer.arg(format!("-artifact_prefix={}", prefix(&found, name)));
    fuzzer.env("FUZZ_TARGET", name).env("FUZZ_SEEDS", &seeds).current_dir(root());
    match fuzzer.status() {
        Ok(status) if status.success() => true,
        Ok(status) => {
            eprintln!("{name}: {status}; the input is {}*", prefix(&found, name));
            false
        }
        Err(error) => {
            eprintln!("{name}: {error}");
            false
        }
    }
}

fn prefix(found: &Path, name: &str) -> String {
    found.join(format!("{name}-")).display().to_string()
}
