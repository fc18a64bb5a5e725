//! The house's one tool: `cargo xtask tidy | test | ci | stress | bench | kill | lives | crash | faults | flips | histories |
//! fuzz | report-test | tsan`.
//!
//! A check is a function that returns complaints; `tidy` prints them all, and a test runs each, so a rule holds whether
//! one calls this tool or plain `cargo test`. What the rooms may know of each other is in [`floors`], what the text of
//! the repository must look like in [`text`], and the language of its comments and docs in [`prose`].

#![forbid(unsafe_code)]

mod floors;
mod fuzz;
mod lives;
mod lives_command;
mod prose;
mod rust_text;
mod sizes;
mod stress;
mod text;
mod workspace;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;
use workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask <command> [arguments]

  tidy             formatting, clippy, the floors of the house, the text rules, the language of comments and docs
  test [ARGS]      every test (arguments go to `cargo test`)
  ci               tidy, test, documentation: what ./test and CI run
  stress [--rounds N] [--minutes M] [--hogs N] [--jobs N] [--parts A,B] [-- ARGS]
                   the tests of all crates or these side by side, beside busy threads, again and again (3 rounds, a thread
                   for each CPU), until a round in which one fails (ARGS go to the test binaries)
  bench [ARGS]     every table of docs/benchmarks.md, measured now (arguments go to scripts/bench-tables)
  kill [N] [--design D]
                   kill -9 a random instance N times (200) under TPC-B, for each of several deployments (of this design)
  lives [N] [--design D] [--channel C] [--seed S] [--jobs N] [--atoll FILE]
                   N times (300) kill -9 of instances under distributed deposits, opened again with other workers, over every
                   design and channel, N (4) at a time, with this program or the one that is built now
  crash [ARGS]     open the disks that power cuts and kills leave behind (--images N, --seed S, --chains N, --design pages|occ)
  faults [ARGS]    every I/O operation of small workloads fails, once and for ever (--stride N, --seed S, --tables, --design)
  flips [ARGS]     turn over bits of data, log and control files (--flips N, --seed S, --tables)
  histories [ARGS] record histories and judge them (--histories N, --transactions N, --seed S)
  histories islands [ARGS]
                   the same over 2 to 4 instances that are killed and come back
  fuzz [TARGET] [--seconds N]
                   bytes that nobody wrote, for each reader of bytes or for one, N seconds (60) each (nightly compiler)
  report-test [DIR] the report in a browser, which must be there; pictures of it go to DIR (target/report-pictures)
  tsan [ROOMS]     the tests of the rooms with shared memory under the thread sanitizer (nightly compiler)
";

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("unknown command '{0}'\n\n{USAGE}")]
    Usage(String),
    #[error("`{command}` failed ({status})")]
    Command { command: String, status: String },
    #[error("{0} rule(s) of the house broken; each line above says what to do")]
    Tidy(usize),
    #[error("{0}")]
    Lives(String),
    #[error("{0}")]
    Stress(String),
    #[error("{0} target(s) found something; each line above says where the input is")]
    Fuzz(usize),
    #[error(transparent)]
    Workspace(#[from] workspace::Unreadable),
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let verb = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let outcome = match verb.as_str() {
        "tidy" => tidy(),
        "test" => test(&rest),
        "ci" => ci(),
        "bench" => run("scripts/bench-tables", &rest.iter().map(String::as_str).collect::<Vec<_>>()),
        "stress" => stress::stress(&rest),
        "kill" => kill(&rest),
        "lives" => lives_command::lives(&rest),
        "crash" | "faults" | "flips" | "histories" => trial(&verb, &rest),
        "fuzz" => fuzz::fuzz(&rest),
        "report-test" => report_test(rest.first().map(String::as_str)),
        "tsan" => tsan(&rest),
        "" | "help" | "--help" | "-h" => {
            print!("{USAGE}");
            Ok(())
        }
        other => Err(Failed::Usage(other.to_owned())),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("error: {failed}");
            ExitCode::from(if matches!(failed, Failed::Usage(_)) { 2 } else { 1 })
        }
    }
}

/// The cheap rules first, so that a slip is known before the compiler has warmed up.
fn tidy() -> Result<(), Failed> {
    let workspace = Workspace::read()?;
    let prose = prose::Prose::read(&workspace);
    let told = sizes::report(&workspace).into_iter().chain([prose.summary()]);
    told.for_each(|line| eprintln!("{line}"));
    let complaints: Vec<String> =
        floors::check(&workspace).into_iter().chain(text::check(&workspace)).chain(prose.check()).collect();
    complaints.iter().for_each(|c| eprintln!("{c}"));
    if !complaints.is_empty() {
        return Err(Failed::Tidy(complaints.len()));
    }
    cargo(&["fmt", "--all", "--check"], &[])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"], &[])
}

fn test(rest: &[String]) -> Result<(), Failed> {
    // The whole workspace, so that the benchmarks against other engines cannot rot; RocksDB stays behind its feature. Examples
    // are checked by clippy: to link them would instantiate every design once more in each.
    let args: Vec<&str> = ["test", "--workspace", "--lib", "--bins", "--tests"]
        .into_iter()
        .chain(rest.iter().map(String::as_str))
        .collect();
    cargo(&args, &[])?;
    if rest.is_empty() {
        cargo(&["test", "--workspace", "--exclude", "peers", "--doc"], &[])?;
    }
    // An engine with bugs planted is another build.
    cargo(&["test", "--package", "trials", "--features", "planted", "planted"], &[])
}

fn ci() -> Result<(), Failed> {
    tidy()?;
    test(&[])?;
    cargo(&["doc", "--no-deps", "--quiet"], &[("RUSTDOCFLAGS", "-D warnings")])
}

/// Options of `atoll bench tpcb` for each deployment whose instances are killed: two under distributed transactions, several
/// workers on one, one worker each, owners on one and on two, of keys and of pages, a page memory that a quarter of the data
/// fits, and rows in main memory. A file, so that a test of the command line
/// reads it too.
const TORMENTED: &str = include_str!("kill.txt");

/// The campaign of docs/commit.md: fails when an acknowledged transaction is missing, one is half applied, or one stays
/// in doubt.
fn kill(rest: &[String]) -> Result<(), Failed> {
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    let (times, design) = match rest[..] {
        [] => ("200", None),
        ["--design", design] => ("200", Some(design)),
        [times] => (times, None),
        [times, "--design", design] | ["--design", design, times] => (times, Some(design)),
        _ => return Err(Failed::Usage(format!("kill {}: expected [N] [--design D]", rest.join(" ")))),
    };
    let design_of = |deployment: &str| {
        let options: Vec<&str> = deployment.split_whitespace().collect();
        let at = options.iter().position(|option| *option == "--design");
        at.map_or("conventional".to_owned(), |at| options[at + 1].to_owned())
    };
    let wanted = |deployment: &&str| design.is_none_or(|d| design_of(deployment) == d);
    if !TORMENTED.lines().any(|deployment| wanted(&deployment)) {
        return Err(Failed::Usage(format!(
            "kill --design {}: none of its deployments",
            design.unwrap_or_default()
        )));
    }
    cargo(&["build", "--release", "--package", "atoll"], &[])?;
    TORMENTED.lines().filter(wanted).try_for_each(|deployment| {
        let options = deployment.split_whitespace();
        let args: Vec<&str> = ["bench", "tpcb"].into_iter().chain(options).chain(["--kill", times]).collect();
        run("target/release/atoll", &args)
    })
}

/// What plain `cargo test` skips on a machine without a browser.
fn report_test(pictures: Option<&str>) -> Result<(), Failed> {
    let pictures = pictures.map_or_else(|| root().join("target/report-pictures"), PathBuf::from);
    let pictures = std::path::absolute(&pictures).unwrap_or(pictures);
    eprintln!("pictures: {}", pictures.display());
    let env = [("REPORT_TEST_BROWSER", "required"), ("REPORT_TEST_PICTURES", &pictures.to_string_lossy())];
    cargo(&["test", "--package", "report", "--test", "it"], &env)
}

/// The rooms whose threads share memory, under the thread sanitizer of the nightly compiler. The standard library is not
/// instrumented; what that makes it misunderstand is named in scripts/tsan-suppressions.
fn tsan(rest: &[String]) -> Result<(), Failed> {
    let suppressions =
        format!("suppressions={} halt_on_error=1", root().join("scripts/tsan-suppressions").display());
    let flags = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer";
    let rooms = [
        "base", "world", "probe", "latch", "wal", "locks", "pages", "access", "store", "memstore", "exec",
        "channel", "instance",
    ];
    let rooms: Vec<&str> =
        if rest.is_empty() { rooms.to_vec() } else { rest.iter().map(String::as_str).collect() };
    let mut args = vec!["run", "nightly", "cargo", "test", "--target", "x86_64-unknown-linux-gnu"];
    args.extend(["--target-dir", "target/tsan", "--lib", "--tests"]);
    args.extend(rooms.iter().flat_map(|room| ["--package", room]));
    // The models explore schedules one thread at a time: nothing races there, and it takes for ever.
    // One test at a time: memory is mapped and given back by system calls of its own, which the sanitizer does not see, and a
    // test's pool at the place of an ended one's looked like a race of the two.
    args.extend(["--", "--skip", "model", "--skip", "shuttle", "--test-threads", "1"]);
    program("rustup", &args, &[("RUSTFLAGS", flags), ("TSAN_OPTIONS", &suppressions)])
}

/// One of the room `trials`, with nearly the engine's full speed and its assertions.
fn trial(name: &str, rest: &[String]) -> Result<(), Failed> {
    let args = ["run", "--quiet", "--profile", "quick", "--package", "trials", "--", name];
    let args: Vec<&str> = args.into_iter().chain(rest.iter().map(String::as_str)).collect();
    cargo(&args, &[])
}

/// Runs a program of this repository.
fn run(program: &str, args: &[&str]) -> Result<(), Failed> {
    let command = format!("{program} {}", args.join(" "));
    eprintln!("+ {command}");
    match Command::new(root().join(program)).args(args).current_dir(root()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failed::Command { command, status: status.to_string() }),
        Err(error) => Err(Failed::Command { command, status: error.to_string() }),
    }
}

/// Runs cargo at the root of the workspace and says how long it took.
fn cargo(args: &[&str], env: &[(&str, &str)]) -> Result<(), Failed> {
    program("cargo", args, env)
}

fn program(name: &str, args: &[&str], env: &[(&str, &str)]) -> Result<(), Failed> {
    let command = format!("{name} {}", args.join(" "));
    eprintln!("+ {command}");
    let begun = Instant::now();
    let cargo = std::env::var_os("CARGO").filter(|_| name == "cargo");
    let mut child = Command::new(cargo.unwrap_or_else(|| name.into()));
    let status = child.args(args).envs(env.iter().copied()).current_dir(root());
    let status = if name == "cargo" { status } else { status.env_remove("RUSTUP_TOOLCHAIN") }.status();
    eprintln!("  {:.1} s", begun.elapsed().as_secs_f64());
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failed::Command { command, status: status.to_string() }),
        Err(error) => Err(Failed::Command { command, status: error.to_string() }),
    }
}

/// The root of the workspace: the folder above this crate.
fn root() -> PathBuf {
    let mut here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.pop();
    here
}
