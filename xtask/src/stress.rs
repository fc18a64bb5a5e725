//! `cargo xtask stress`: the parts of the test suite side by side, beside threads that keep every
//! CPU busy, again and again until one fails.
//!
//! The output of a part goes to a file, which is kept if the part fails.

use crate::parts::{self, Part};
use crate::{Failed, root};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

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
        let file_of = |part: &Part| kept.join(format!("{round}-{}.txt", part.name));
        let failures = parts::side_by_side(parts, options.jobs, &options.rest, file_of, |_| {});
        let minutes = begun.elapsed().as_secs() / 60;
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

/// Builds the tests of these crates, or of all.
fn build(crates: &[String]) -> Result<Vec<Part>, Failed> {
    let mut args = vec!["--lib", "--bins", "--tests"];
    match crates.is_empty() {
        true => args.extend(["--workspace", "--exclude", "xtask", "--exclude", "atoll-python"]),
        false => crates.iter().for_each(|name| args.extend(["--package", name.as_str()])),
    }
    parts::build(&args)
}
