//! The output before a sweep, during it, and after an interruption.

use super::*;
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Lines, Read};
use std::process::{ChildStderr, ChildStdout};

const MICRO: &[&str] = &["bench", "micro", "--islands", "1", "--workers", "1", "--dataset", "1000"];
const MEMORY: &[&str] = &["--host", "thread", "--durability", "memory"];

/// A running bench, with its output.
struct Bench {
    child: Child,
    said: Lines<BufReader<ChildStderr>>,
    printed: BufReader<ChildStdout>,
}

impl Bench {
    fn start(sandbox: &Sandbox, args: &[&str]) -> Bench {
        let mut child = sandbox.command(args).spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap()).lines();
        let printed = BufReader::new(child.stdout.take().unwrap());
        Bench { child, said, printed }
    }

    /// The lines on standard error up to the first that contains `words`.
    fn until(&mut self, words: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for line in self.said.by_ref() {
            lines.push(line.unwrap());
            if lines.last().is_some_and(|line| line.contains(words)) {
                return lines;
            }
        }
        panic!("{words:?} is not in {lines:#?}");
    }

    /// Sends Ctrl-C; returns the rows on standard output, and the rest of standard error.
    fn interrupt(mut self) -> (Vec<Value>, String) {
        signal(self.child.id(), Signal::INT);
        let said: Vec<String> = self.said.by_ref().map(Result::unwrap).collect();
        let mut printed = String::new();
        self.printed.read_to_string(&mut printed).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(130), "{said:#?}");
        let rows = printed.lines().filter(|line| line.starts_with('{'));
        (rows.map(|line| serde_json::from_str(line).unwrap()).collect(), said.join("\n"))
    }
}

#[test]
fn a_sweep_says_first_what_it_will_do_and_how_long_it_takes() {
    let sweep = ["--op", "read,update", "--multisite", "0,50"];
    let output = Sandbox::new().run(&[MICRO, MEMORY, &sweep, BRIEF].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stderr(&output);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "plan: 1 deployment, 4 rows: op read, update; multisite 0, 50", "{text}");
    assert!(
        lines[1].starts_with("plan: each row is a window of 100 ms after 50 ms of warm-up; at least "),
        "{text}"
    );
    assert!(lines[2].starts_with("1/4 micro"), "and then it begins: {text}");
    assert_eq!(rows(&output).len(), 4);
}

#[test]
fn a_dry_run_prints_the_plan_and_touches_nothing() {
    let (sandbox, place) = (Sandbox::new(), tempfile::tempdir().unwrap());
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (out, data) = (at("out"), at("data"));
    let sweep =
        ["bench", "tpcb", "--islands", "1,2", "--workers", "2", "--scale", "2", "--channel", "shm,uds,tcp"];
    let more = ["--multisite", "0,50", "--dry-run", "--out", &out, "--data", &data];
    let output = sandbox.run(&[&sweep[..], &more].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("islands") && text.contains("multisite 0,50") && text.contains("at least"),
        "{text}"
    );
    assert!(text.contains("6 deployments, 12 rows, at least ") && text.contains("nothing was run"), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains("MiB")).count(), 6, "a line each: {text}");
    let output = sandbox.run(&[&sweep[..], &more, &["--json"]].concat());
    let objects = rows(&output);
    assert_eq!(objects.len(), 6);
    assert!(objects.iter().all(|o| o["at_least_s"].as_f64().unwrap() > 32.0 && o["result_rows"] == 2));
    assert_eq!((&objects[5]["channel"], &objects[5]["deployment"]), (&"tcp".into(), &6.into()));
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "neither results nor data");
    for experiment in ["counter", "ipc"] {
        let output = sandbox.run(&["bench", experiment, "--dry-run", "--out", &out]);
        // `ipc` needs two cores.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
        assert!(!Path::new(&out).exists());
    }
}

/// Tens of thousands of deployments are planned quickly, and a wrong value is still reported first.
#[test]
fn a_sweep_of_weeks_is_planned_in_a_moment() {
    let multisite: Vec<String> = (0..=100).map(|p| p.to_string()).collect();
    let multisite = multisite.join(",");
    let sweep = ["--islands", "1,2", "--workers", "2,3,4", "--scale", "4", "--multisite", &multisite];
    let lists =
        ["--clients", "1,2,3,4,5,6,7,8", "--channel", "shm,uds,tcp", "--durability", "sync,async,memory"];
    let args = [&["bench", "tpcb"], &sweep[..], &lists, &["--duration", "60s", "--dry-run"]].concat();
    let output = Sandbox::new().run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("54 deployments, 43632 rows, at least 91 days"), "{text}");
}

#[test]
fn a_long_sweep_says_how_to_shorten_it_and_begins() {
    let sandbox = Sandbox::new();
    let args = [MICRO, MEMORY, &["--multisite", "0,50", "--duration", "60m", "--json"]].concat();
    let mut bench = Bench::start(&sandbox, &args);
    let said = bench.until("1/2 micro").join("\n");
    for words in
        ["warning", "at least 6 h", "starts now", "--repeat 1 (at least 2 h)", "--duration 1s", "multisite"]
    {
        assert!(said.contains(words), "{words:?} in {said}");
    }
    assert!(said.lines().last().unwrap().contains("; at least 6 h"), "the time left: {said}");
    bench.interrupt();
    sandbox.assert_nothing_left();
}

#[test]
fn an_interrupted_window_is_kept_when_the_warm_up_is_over() {
    let sandbox = Sandbox::new();
    let times = ["--warmup", "50ms", "--duration", "60m", "--progress", "300ms", "--json"];
    for host in [MEMORY, &["--host", "process", "--durability", "async"]] {
        let mut bench = Bench::start(&sandbox, &[MICRO, host, &times].concat());
        bench.until("measuring 1/3: ");
        let (rows, said) = bench.interrupt();
        assert_eq!(rows.len(), 1, "{said}");
        let row = &rows[0];
        assert_eq!((&row["interrupted"], row.get("consistent")), (&true.into(), None), "{row}");
        assert!(row["tps"].as_f64().unwrap() > 0.0 && row["committed"].as_u64().unwrap() > 0, "{row}");
        assert!(row["seconds"].as_f64().unwrap() < 3000.0, "{row}");
        sandbox.assert_nothing_left();
    }
}

#[test]
fn a_row_that_is_not_kept_says_why() {
    let sandbox = Sandbox::new();
    let times = ["--warmup", "60m", "--progress", "200ms", "--json"];
    let mut bench = Bench::start(&sandbox, &[MICRO, MEMORY, &times].concat());
    bench.until("warming up: ");
    let (rows, said) = bench.interrupt();
    assert!(rows.is_empty());
    assert!(said.contains("interrupted while warming up; nothing of this row is kept"), "{said}");
    sandbox.assert_nothing_left();
}

/// The table is printed row by row: at the end there would be nothing left to interrupt.
#[test]
fn rows_are_printed_as_they_end() {
    let sandbox = Sandbox::new();
    let args =
        [MICRO, MEMORY, &["--multisite", "0,50,100", "--duration", "2s", "--warmup", "1ms", "--repeat", "1"]];
    let mut bench = Bench::start(&sandbox, &args.concat());
    let mut lines = bench.printed.by_ref().lines().map(Result::unwrap);
    let head: Vec<String> = lines.by_ref().take_while(|line| !line.starts_with("--")).collect();
    assert!(head[0].starts_with("common: ") && head.last().unwrap().contains("multisite"), "{head:#?}");
    let first = lines.next().unwrap();
    assert!(first.trim_start().starts_with("0 "), "{first}");
    drop(lines);
    bench.interrupt();
    sandbox.assert_nothing_left();
}

#[test]
fn a_line_an_interval_says_what_a_deployment_does() {
    let times = ["--warmup", "50ms", "--duration", "1s", "--repeat", "1", "--progress", "200ms", "--json"];
    let output = Sandbox::new().run(&[MICRO, MEMORY, &["--multisite", "0,50"], &times].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stderr(&output);
    for row in ["1/2 ", "2/2 "] {
        let of_row = |line: &&str| line.starts_with(row) && line.contains("measuring 1/1: ");
        let lines: Vec<&str> = text.lines().filter(of_row).collect();
        assert!(lines.len() >= 2, "{text}");
        for words in [" tps, latency avg ", " p99 ", " aborts ("] {
            assert!(lines.iter().all(|line| line.contains(words)), "{words:?} in {text}");
        }
    }
    // The load that the progress lines reported counts in the row.
    let rows = rows(&output);
    assert!(rows.iter().all(|row| row["seconds"].as_f64().unwrap() >= 0.95), "{rows:#?}");
    assert_refused(&[MICRO, &["--progress", "1ms"]].concat(), 2, &["--progress", "100ms"]);
    assert_refused(&["bench", "ipc", "--progress", "1s"], 2, &["--progress", "micro"]);
}

#[test]
fn standard_error_is_not_silent_for_long() {
    let sandbox = Sandbox::new();
    let args = [MICRO, MEMORY, &["--duration", "60m", "--repeat", "1", "--warmup", "1ms", "--json"]].concat();
    let mut bench = Bench::start(&sandbox, &args);
    let lines = bench.until("measuring 1/1, ");
    assert!(lines.last().unwrap().contains("; at least 59 min"), "{lines:#?}");
    bench.interrupt();
}
