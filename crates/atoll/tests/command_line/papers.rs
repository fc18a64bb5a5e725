//! `figures` and `claims` from outside: refusals, kept rows, and a second call that measures
//! nothing.

use super::{Sandbox, signal, stderr};
use serde_json::Value;
use std::fs;
use std::process::Output;
use std::time::{Duration, Instant};

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn unknown_ids_are_refused_with_the_nearest() {
    let sandbox = Sandbox::new();
    for (args, part) in [
        (&["claims", "ISL-24"][..], "did you mean ISL-024"),
        (&["figures", "vldbj11"], "vldbj-11"),
        (&["claims", "--how", "guessed"], "measured-here"),
        (&["claims", "ISL-024", "--how", "hardware"], "--how hardware"),
        (&["claims", "ISL-024", "--rows", "no-such-file"], "no-such-file"),
        (&["claims", "ISL-003", "--engine-profile", "shore-mt"], "--how simulated"),
        (&["claims", "ISL-003", "--how", "simulated", "--engine-profile", "oracle"], "shore-mt"),
        (&["claims", "ISL-003", "--how", "simulated", "--quick"], "--quick"),
        (&["figures", "vldbj-11", "--simulated", "pvldb-8"], "measured and not simulated"),
        (&["figures", "simulated-vldbj-11"], "--simulated"),
    ] {
        let output = sandbox.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn the_list_has_figures_of_today_and_of_later() {
    let text = stdout(&Sandbox::new().run(&["figures", "--list"]));
    assert!(
        text.contains("vldbj-11") && text.contains("thesis-6.1") && text.contains("simulated machines"),
        "{text}"
    );
}

#[test]
fn simulated_claims_are_decided_and_an_anchor_is_no_reproduction() {
    let command =
        ["claims", "ISL-003", "ISL-006", "--how", "simulated", "--engine-profile", "shore-mt", "--json"];
    let output = Sandbox::new().run(&command);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let verdicts: Vec<(String, String)> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .map(|claim: Value| (claim["id"].to_string(), claim["verdict"].to_string()))
        .collect();
    let quoted = |word: &str| format!("\"{word}\"");
    let expected = [("ISL-003", "reproduced"), ("ISL-006", "anchor")];
    assert_eq!(verdicts, expected.map(|(id, verdict)| (quoted(id), quoted(verdict))));
}

#[test]
fn counted_claims_need_no_engine_and_are_kept() {
    let (sandbox, out) = (Sandbox::new(), tempfile::tempdir().unwrap());
    let dir = out.path().to_str().unwrap();
    let output = sandbox.run(&["claims", "BENCH-01", "BENCH-02", "PLP-49", "PLP-42", "--out", dir, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let verdicts: Vec<Value> = stdout(&output).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let verdict = |id: &str| {
        verdicts.iter().find(|v| v["id"] == id).map(|v| v["verdict"].as_str().unwrap().to_owned()).unwrap()
    };
    assert_eq!(["BENCH-01", "BENCH-02", "PLP-49"].map(verdict), ["reproduced"; 3]);
    assert_eq!(verdict("PLP-42"), "not decidable here");
    assert!(out.path().join("claims.md").exists() && out.path().join("sections.jsonl").exists());
    let again = sandbox.run(&["claims", "PLP-49", "--out", dir]);
    assert!(stderr(&again).contains("0 experiments to run"), "{}", stderr(&again));
}

#[test]
fn rows_of_a_file_decide_and_damaged_ones_do_not() {
    let (sandbox, out) = (Sandbox::new(), tempfile::tempdir().unwrap());
    let file = out.path().join("rows.jsonl");
    let run = |text: &str| {
        fs::write(&file, text).unwrap();
        sandbox.run(&["claims", "DAMON-10", "--rows", file.to_str().unwrap(), "--json"])
    };
    let version = env!("CARGO_PKG_VERSION");
    let row = |share: f64| {
        format!("{{\"experiment\":\"one-instance\",\"version\":{version:?},\"distributed\":{share}}}\n")
    };
    assert!(stdout(&run(&row(0.0))).contains("\"reproduced\""));
    assert!(stdout(&run(&row(0.1))).contains("\"not reproduced\""));
    for (text, part) in [
        (row(0.0) + "{\"experiment\"", "rows.jsonl:2"),
        (row(0.0).replace(version, "9.9.9"), "version 9.9.9"),
    ] {
        let output = run(&text);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
}

/// A load is inspected table by table, and removed.
#[test]
fn what_a_load_leaves_decides_claims_about_pages() {
    let (sandbox, out) = (Sandbox::new(), tempfile::tempdir().unwrap());
    let dir = out.path().to_str().unwrap();
    let output = sandbox.run(&["claims", "PLP-35", "PLP-43", "--out", dir, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for line in stdout(&output).lines() {
        let verdict: Value = serde_json::from_str(line).unwrap();
        assert_eq!(verdict["verdict"], "reproduced", "{verdict}");
    }
    let rows = fs::read_to_string(out.path().join("heap-pages.jsonl")).unwrap();
    let rows: Vec<Value> = rows.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let all: Vec<&Value> = rows.iter().filter(|r| r["table"] == "all").collect();
    assert_eq!(all.iter().map(|r| &r["tree"]).collect::<Vec<_>>(), ["btree", "mrbtree"]);
    assert!(all.iter().all(|r| r["records"] == 60_000 && r["index_pages"].as_u64() > Some(100)), "{all:?}");
    sandbox.assert_nothing_left();
}

#[test]
fn more_than_there_is_time_for_is_refused_before_anything_runs() {
    let output = Sandbox::new().run(&["claims", "ISL-024", "--within", "1s"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("with the shortest windows, of 100 ms"), "{}", stderr(&output));
}

/// The whole path once: a run of `bench`, its rows in files, a verdict from them.
#[test]
fn a_measured_claim_is_decided_from_a_run() {
    let (sandbox, out) = (Sandbox::new(), tempfile::tempdir().unwrap());
    let output =
        sandbox.run(&["claims", "PLP-32", "--quick", "--json", "--out", out.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let verdict: Value = serde_json::from_str(stdout(&output).trim()).unwrap();
    assert_eq!(verdict["verdict"], "reproduced", "{verdict}");
    let rows = fs::read_to_string(out.path().join("rows.jsonl")).unwrap();
    assert!(rows.lines().count() == 5 && rows.contains("\"experiment\":\"escalation\""));
}

#[test]
fn ctrl_c_keeps_the_rows_that_were_measured() {
    let (sandbox, out) = (Sandbox::new(), tempfile::tempdir().unwrap());
    let partial = out.path().join("escalation.partial.jsonl");
    let args = ["claims", "PLP-32", "PLP-49", "--json", "--out", out.path().to_str().unwrap()];
    let child = sandbox.command(&args).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while fs::read_to_string(&partial).map_or(0, |text| text.lines().count()) == 0 {
        assert!(Instant::now() < deadline, "no row has been measured");
        std::thread::sleep(Duration::from_millis(20));
    }
    signal(child.id(), rustix::process::Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    sandbox.assert_nothing_left();
    assert!(stdout(&output).contains("interrupted while it was measured"), "{}", stdout(&output));
    let kept = fs::read_to_string(out.path().join("rows.jsonl")).unwrap();
    assert!(kept.lines().count() >= 1 && kept.contains("\"experiment\":\"escalation\""));
}

/// Each experiment would fail for the same reason.
#[test]
fn without_the_plugin_claims_on_traces_are_left_out_and_that_is_told_twice() {
    let built = std::path::Path::new(env!("CARGO_BIN_EXE_atoll"));
    let beside = tempfile::tempdir_in(built.parent().unwrap()).unwrap();
    let program = beside.path().join("atoll");
    fs::hard_link(built, &program).unwrap();
    let command = ["claims", "--how", "trace-sim", "--json"];
    let output = std::process::Command::new(program).args(command).current_dir(beside.path()).output();
    let output = output.unwrap();
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    let lines: Vec<&str> = told.lines().filter(|line| line.contains("libtracer.so")).collect();
    let is_last = told.lines().next_back() == lines.last().copied();
    assert!(lines.len() == 2 && is_last && lines[0] == told.lines().next().unwrap(), "{told}");
    assert!(!told.contains("failed") && stdout(&output).contains("no trace can be captured here"), "{told}");
}
