//! The screens that a new user reads: help, tables on terminals of any width, completions, the
//! manual, the version.

use super::reports::{COLUMNS, ROWS, on_a_terminal};
use super::*;
use std::io::{BufRead, BufReader};

/// The output on a terminal with this many columns.
fn shown(args: &[&str], columns: &str) -> String {
    let output = Sandbox::new().command(args).env("COLUMNS", columns).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn longest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn the_first_screen_is_short_and_has_three_commands_to_try() {
    let text = shown(&["-h"], "80");
    assert!(text.lines().count() < 25 && longest(&text) <= 110, "{text}");
    for words in
        ["\n  atoll  ", "\n  atoll bench tpcc --islands 1,2", "\n  atoll bench tpcc --help", "atoll --help"]
    {
        assert!(text.contains(words), "{words:?} in {text}");
    }
}

#[test]
fn without_a_command_it_says_what_begins_and_what_else_there_is() {
    let (sandbox, place) = (Sandbox::new(), tempfile::tempdir().unwrap());
    let mut child = sandbox.command(&[]).current_dir(place.path()).spawn().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let first: Vec<String> = said.take_while(|line| !line.starts_with("1/")).collect();
    signal(child.id(), rustix::process::Signal::INT);
    let text = first.join("\n");
    for words in ["about a minute", "atoll bench tpcc --islands", "atoll bench tpcc --help", "\nplan: "] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
    assert!(first.len() < 25, "{text}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn the_short_help_of_bench_is_a_screen_and_the_long_one_is_complete_and_in_groups() {
    for columns in ["80", "100", "120"] {
        let text = shown(&["bench", "-h"], columns);
        assert!(text.lines().count() < 60, "{} lines at {columns}:\n{text}", text.lines().count());
        for words in
            ["--islands", "--design", "--data", "--scale", "--duration", "--out", "--help has all options"]
        {
            assert!(text.contains(words), "{words:?} in {text}");
        }
        assert!(!text.contains("--occ-reads") && !text.contains("--accounts"), "{text}");
    }
    let text = shown(&["bench", "--help"], "100");
    for words in [
        "Deployment (",
        "Database and memory",
        "Locks and latches",
        "Design occ",
        "Requests",
        "Options of tpcc",
        "Options of tatp",
        "Measuring:",
        "Load:",
        "Faults:",
        "Results:",
        "--occ-reads",
        "--accounts",
        "Exit code",
    ] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
}

#[test]
fn the_help_of_a_workload_has_what_applies_to_it() {
    let text = shown(&["bench", "tpcc", "--help"], "100");
    assert!(text.contains("--customers") && text.contains("--think") && text.contains("--islands"), "{text}");
    assert!(!text.contains("--accounts") && !text.contains("--skew"), "{text}");
    assert!(text.lines().count() < 70, "{} lines:\n{text}", text.lines().count());
    assert!(shown(&["bench", "tpcb", "-h"], "100").contains("--accounts"));
    assert!(shown(&["load", "tatp", "--help"], "100").contains("--subscribers"));
}

#[test]
fn a_complaint_names_the_option_once() {
    for args in [
        &["bench", "micro", "--islands", "0"][..],
        &["bench", "micro", "--islands", "x"],
        &["bench", "micro", "--duration", "soon"],
        &["bench", "micro", "--multisite", "120"],
        &["bench", "micro", "--hot", "x"],
        &["bench", "micro", "--rate", "x"],
        &["bench", "micro", "--op", "write"],
        &["bench", "micro", "--placement", "x"],
        &["bench", "micro", "--workers", "0"],
        &["bench", "micro", "--retries", "x"],
        &["bench", "micro", "--memory", "x"],
    ] {
        let output = Sandbox::new().run(args);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        let option = args[2];
        assert_eq!(text.matches(option).count(), 1, "{text}");
        assert!(text.contains(args[3]) && text.contains("expected"), "{text}");
    }
}

/// The table of a sweep with many settings, every result, a profile and a legend.
#[test]
fn tables_fit_the_terminal() {
    let sweep = ["bench", "micro", "--islands", "1,2", "--workers", "2", "--scale", "2", "--dataset", "2000"];
    let lists = ["--design", "conventional,serial", "--op", "read,update", "--channel", "ring,uds"];
    let brief = ["--host", "thread", "--durability", "memory", "--duration", "20ms", "--warmup", "10ms"];
    for columns in [80, 100, 120, 200] {
        let args =
            [&sweep[..], &lists, &brief, &["--repeat", "2", "--multisite", "0,50", "--dry-run"]].concat();
        let text = shown(&args, &columns.to_string());
        assert!(longest(&text) <= columns && text.contains("conventional"), "{columns}:\n{text}");
    }
    let args =
        [&["bench", "micro"], &sweep[4..], &lists[..4], &brief, &["--islands", "1,2", "--repeat", "2"]]
            .concat();
    for columns in [80, 200] {
        let text = shown(&[&args[..], &["--profile"]].concat(), &columns.to_string());
        assert!(longest(&text) <= columns, "{columns}:\n{text}");
        for words in ["common: workload micro", "per s", "spread", "p99", "wait for", "critical sections"] {
            assert!(
                text.contains(words) || columns == 80 && words.starts_with("crit"),
                "{words:?} in {text}"
            );
        }
    }
}

/// The table beside the bar, which is redrawn below the rows.
#[test]
fn a_table_grows_on_a_terminal() {
    let args =
        ["bench", "micro", "--islands", "1", "--workers", "1", "--dataset", "1000", "--op", "read,update"];
    let brief = ["--host", "thread", "--durability", "memory", "--duration", "100ms", "--warmup", "50ms"];
    let Some(text) = on_a_terminal(&[&args[..], &brief].concat(), None) else { return };
    let mut terminal = vt100::Parser::new(ROWS, COLUMNS, 0);
    terminal.process(text.as_bytes());
    let screen = terminal.screen().contents();
    let at = |words: &str| {
        let line = screen.lines().position(|line| line.starts_with(words));
        line.unwrap_or_else(|| panic!("{words:?} begins a line of\n{screen}"))
    };
    assert!(at("plan: 1 deployment, 2 rows: op read, update") < at("common: workload micro"), "{screen}");
    assert_eq!((at("read  ") - at("op  "), at("update  ") - at("op  ")), (2, 3), "{screen}");
    assert!(!screen.contains("1/2"), "the bar is gone:\n{screen}");
}

#[test]
fn options_are_known_to_shells_and_to_the_manual() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let text = shown(&["completions", shell], "80");
        assert!(text.contains("durability") && text.contains("dry-run"), "{shell}: {text}");
    }
    assert_refused(&["completions", "csh"], 2, &["csh", "bash"]);
    let page = shown(&["man"], "80");
    assert!(page.contains(".TH atoll 1") && page.contains("bench"), "{page}");
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("man1");
    shown(&["man", "--out", dir.to_str().unwrap()], "80");
    let bench = std::fs::read_to_string(dir.join("atoll-bench.1")).unwrap();
    assert!(bench.contains("\\-\\-durability") && dir.join("atoll.1").exists(), "{bench}");
    assert!(!dir.join("atoll-instance.1").exists(), "a command for deployments only");
    assert_refused(&["man", "--out", "/proc/nowhere"], 1, &["/proc/nowhere", "--out"]);
}

#[test]
fn the_version_is_a_line_or_all_that_tells_builds_apart() {
    let short = shown(&["-V"], "80");
    assert!(short.starts_with("atoll ") && short.lines().count() == 1 && short.contains('('), "{short}");
    let long = shown(&["--version"], "80");
    for words in ["atoll ", "\ncommit ", "\nprofile ", "\ntarget ", "\nfeatures "] {
        assert!(long.contains(words), "{words:?} in {long}");
    }
}
