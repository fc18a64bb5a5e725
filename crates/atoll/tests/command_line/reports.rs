//! `bench --out`, `atoll report` and `bench --watch`: output for human readers.

use super::*;
use std::fs;
use std::io::{Read, Write};
use std::num::NonZero;

const MICRO: &[&str] = &["bench", "micro", "--islands", "1", "--workers", "1", "--dataset", "1000"];

fn bench_into(sandbox: &Sandbox, dir: &Path) {
    let out = dir.to_str().unwrap();
    let output = sandbox.run(&[MICRO, &["--multisite", "0,50", "--out", out], BRIEF].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("report.html"), "says where the report is: {}", stderr(&output));
}

#[test]
fn a_run_leaves_rows_machine_and_report_and_reports_can_be_joined() {
    let (sandbox, place) = (Sandbox::new(), tempfile::tempdir().unwrap());
    let first = place.path().join("first");
    bench_into(&sandbox, &first);
    let page = fs::read_to_string(first.join("report.html")).unwrap();
    assert!(page.contains("Atoll: micro") && page.contains("50 % multisite") && page.ends_with("</html>\n"));
    let rows = fs::read_to_string(first.join("rows.jsonl")).unwrap();
    assert_eq!(rows.lines().count(), 2);
    let machine: Value = serde_json::from_slice(&fs::read(first.join("machine.json")).unwrap()).unwrap();
    assert!(!machine["pus"].as_array().unwrap().is_empty());

    let (second, both) = (place.path().join("second.jsonl"), place.path().join("both.html"));
    fs::write(&second, &rows).unwrap();
    let args = ["report", first.to_str().unwrap(), second.to_str().unwrap(), "--out", both.to_str().unwrap()];
    let output = sandbox.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let page = fs::read_to_string(&both).unwrap();
    assert!(
        page.contains("4 rows") && page.contains("second.jsonl"),
        "equal rows are told apart by their file"
    );
}

#[test]
fn what_can_be_read_is_reported_and_what_cannot_is_named() {
    let (sandbox, place) = (Sandbox::new(), tempfile::tempdir().unwrap());
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let good = sandbox.run(&[MICRO, BRIEF].concat());
    let row = String::from_utf8(good.stdout).unwrap();
    let newer =
        row.replace(&format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION")), "\"version\":\"99.1.0\"");
    assert_ne!(row, newer);
    fs::write(at("mixed.jsonl"), format!("{row}{newer}{}\n", &row[..row.len() / 3])).unwrap();
    fs::write(at("machine.json"), "{\"pus\": 3}").unwrap();
    let args = ["report", &at("nowhere.jsonl"), &at("mixed.jsonl"), "--out", &at("page.html")];
    let output = sandbox.run(&args);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    for words in
        ["nowhere.jsonl", "mixed.jsonl line 2: a row of version 99.1.0", "mixed.jsonl line 3", "machine.json"]
    {
        assert!(text.contains(words), "{words:?} in {text}");
    }
    let page = fs::read_to_string(at("page.html")).unwrap();
    assert!(
        page.contains("1 rows") && page.contains("99.1.0"),
        "the page has the row, and says what it lacks"
    );

    fs::remove_file(at("page.html")).unwrap();
    let output = sandbox.run(&["report", &at("nowhere.jsonl"), "--out", &at("page.html")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!Path::new(&at("page.html")).exists(), "a report of nothing is not written");
}

#[test]
fn a_report_does_not_land_on_its_own_rows() {
    let place = tempfile::tempdir().unwrap();
    let rows = place.path().join("rows.jsonl");
    fs::write(&rows, "{}\n").unwrap();
    let rows = rows.to_str().unwrap();
    assert_refused(&["report", rows, "--out", rows], 2, &["--out", "another file"]);
    assert_refused(
        &["report", rows, "--out", place.path().to_str().unwrap()],
        2,
        &["directory", "report.html"],
    );
    assert_refused(&["report"], 2, &["ROWS"]);
    assert_eq!(fs::read_to_string(rows).unwrap(), "{}\n");
}

#[test]
fn a_row_says_when_where_and_how_it_was_measured() {
    let output = Sandbox::new().run(&[MICRO, BRIEF].concat());
    let row = &rows(&output)[0];
    let date = row["date"].as_str().unwrap();
    assert!(date.starts_with("20") && date.ends_with('Z') && date.len() == 20, "{date}");
    let command = row["command"].as_str().unwrap();
    assert!(
        command.starts_with("atoll bench micro --islands 1 --workers 1") && command.ends_with("--json"),
        "{command}"
    );
    let uname = |option: &str| {
        let output = Command::new("uname").arg(option).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    };
    assert_eq!(
        (row["hostname"].as_str().unwrap(), row["kernel"].as_str().unwrap()),
        (&*uname("-n"), &*uname("-r"))
    );
    assert_eq!(row["repetitions"].as_array().unwrap().len(), 1);
}

#[test]
fn the_designs_of_a_sweep_are_in_its_report() {
    let (sandbox, place) = (Sandbox::new(), tempfile::tempdir().unwrap());
    let out = place.path().to_str().unwrap();
    let designs = ["conventional", "serial", "occ"];
    let output = sandbox
        .run(&[MICRO, &["--design", &designs.join(","), "--out", out], &BRIEF[..BRIEF.len() - 1]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let page = fs::read_to_string(place.path().join("report.html")).unwrap();
    let table = page.split("id=\"rows-table\"").nth(1).unwrap().split("</table>").next().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    for design in designs {
        assert!(table.contains(design), "{design} in {table}");
        assert!(printed.contains(design), "{design} in {printed}");
    }
    assert!(printed.contains("The fastest, beyond spread and noise"), "{printed}");
}

#[test]
fn a_single_deployment_is_divided_by_type_of_transaction() {
    let sandbox = Sandbox::new();
    let tpcc = [
        "bench",
        "tpcc",
        "--islands",
        "1",
        "--workers",
        "1",
        "--scale",
        "1",
        "--items",
        "1000",
        "--customers",
        "100",
    ];
    let output =
        sandbox.run(&[&tpcc[..], &["--duration", "500ms", "--warmup", "50ms", "--repeat", "1"]].concat());
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for words in [
        "tpmC",
        "By transaction",
        "new_order",
        "payment",
        "stock_level",
        "share %",
        "p95 µs",
        "user rollbacks",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
}

#[test]
fn rows_come_as_csv_from_a_run_and_from_a_file() {
    let (sandbox, place) = (Sandbox::new(), tempfile::tempdir().unwrap());
    let dir = place.path().join("out");
    let args =
        [MICRO, &["--multisite", "0,50", "--csv", "--out", dir.to_str().unwrap()], &BRIEF[..BRIEF.len() - 1]];
    let output = sandbox.run(&args.concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    let head = printed.lines().next().unwrap();
    assert!(
        head.contains("tps,") && head.contains("latency_us.p99") && head.contains("machine.cores"),
        "{head}"
    );
    assert_eq!(printed.lines().count(), 3, "{printed}");
    let file = place.path().join("rows.csv");
    let output = sandbox.run(&["report", dir.to_str().unwrap(), "--csv", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(&file).unwrap(), printed);
    assert!(
        !place.path().join("report.html").exists() && !Path::new("report.html").exists(),
        "no page was asked for"
    );
    let output = sandbox.run(&["report", dir.to_str().unwrap(), "--csv", "-"]);
    assert!(String::from_utf8(output.stdout).unwrap() == printed);
    assert_refused(&[MICRO, &["--csv", "--json"]].concat(), 2, &["--csv", "--json"]);
    let rows = dir.join("rows.jsonl");
    assert_refused(
        &["report", dir.to_str().unwrap(), "--csv", rows.to_str().unwrap()],
        2,
        &["--csv", "rows files"],
    );
}

/// A rows file with these throughputs, each repeated with a spread of 2 %.
fn rows_file(place: &Path, name: &str, rows: &[(&str, f64)]) -> String {
    let line = |(design, tps): &(&str, f64)| {
        let repetitions: Vec<Value> = [0.99, 1.0, 1.01].map(|f| serde_json::json!({"tps": tps * f})).into();
        let row = serde_json::json!({
            "workload": "tpcb", "design": design, "islands": 1, "tps": tps, "tps_min": tps * 0.99, "tps_max": tps * 1.01,
            "committed": 1, "seconds": 1.0, "machine": {"model": "x", "cores": 1, "islands": 1}, "commit": "x",
            "version": env!("CARGO_PKG_VERSION"), "noise": 0.0, "oversubscribed": false, "repetitions": repetitions,
        });
        format!("{row}\n")
    };
    let path = place.join(name);
    fs::write(&path, rows.iter().map(line).collect::<String>()).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn two_runs_are_compared_and_a_regression_is_an_exit_code() {
    let (sandbox, place) = (Sandbox::new(), tempfile::tempdir().unwrap());
    let a = rows_file(place.path(), "a.jsonl", &[("serial", 100.0), ("occ", 100.0), ("logical", 100.0)]);
    let b = rows_file(place.path(), "b.jsonl", &[("occ", 101.0), ("serial", 150.0), ("conventional", 1.0)]);
    let c = rows_file(place.path(), "c.jsonl", &[("occ", 90.0), ("serial", 100.0), ("logical", 100.0)]);
    let compare = |args: &[&str]| {
        let output = sandbox.run(&[&["compare"], args].concat());
        (output.status.code(), String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output))
    };
    let (code, text, _) = compare(&[&a, &b]);
    assert_eq!(code, Some(0), "{text}");
    for words in ["1 better, 1 no difference, 1 only in A, 1 only in B", "1.500", "serial", "conventional"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let (code, text, complaint) = compare(&[&a, &c]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("worse, a regression") && complaint.contains("1 row is worse by tps"),
        "{text} {complaint}"
    );
    assert_eq!(compare(&[&a, &c, "--threshold", "12"]).0, Some(0));
    assert_eq!(compare(&[&a, &c, "--by", "p99"]).0, Some(0), "latency was not measured");
    let (code, text, _) = compare(&[&a, &c, "--json"]);
    assert_eq!((code, text.lines().count()), (Some(1), 3));
    let pair: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    assert_eq!((&pair["verdict"], &pair["regression"]), (&"worse".into(), &true.into()));
    assert_refused(&["compare", &a, &a, "--by", "speed"], 2, &["--by", "p999"]);
    assert_refused(&["compare", &a], 2, &["B"]);
    assert_refused(&["compare", &a, "nowhere.jsonl"], 1, &["nowhere.jsonl"]);
    let other = rows_file(place.path(), "d.jsonl", &[("plp-leaf", 1.0)]);
    assert_refused(&["compare", &a, &other], 1, &["no row of A", "--ignore"]);
    assert_eq!(compare(&[&other, &other, "--ignore", "design,islands"]).0, Some(0));
}

#[test]
fn watching_needs_a_terminal_and_transactions() {
    assert_refused(&[MICRO, &["--watch"]].concat(), 2, &["--watch", "terminal"]);
    assert_refused(&["bench", "ipc", "--watch"], 2, &["--watch", "micro"]);
    assert_refused(&["bench", "tpcb", "--kill", "1", "--watch"], 2, &["--kill", "--watch"]);
}

pub const ROWS: NonZero<u16> = NonZero::new(40).unwrap();
pub const COLUMNS: NonZero<u16> = NonZero::new(120).unwrap();

/// Runs `atoll` on a terminal made by `script`; returns everything it writes there. `None` if there
/// is no `script`.
pub fn on_a_terminal(args: &[&str], typed_after: Option<(&str, &[u8])>) -> Option<String> {
    let sandbox = Sandbox::new();
    let program = env!("CARGO_BIN_EXE_atoll");
    let line = format!("stty rows {ROWS} cols {COLUMNS}; exec '{program}' {}", args.join(" "));
    let mut command = Command::new("script");
    command
        .args(["-qefc", &line, "/dev/null"])
        .env("TMPDIR", sandbox.tmp.path())
        .env("TERM", "xterm-256color");
    let Ok(mut child) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
        eprintln!("skipped: no `script` (Debian's bsdutils) to make a terminal with");
        return None;
    };
    let mut keyboard = child.stdin.take().unwrap();
    let (mut screen, mut seen, mut typed) = (child.stdout.take().unwrap(), Vec::new(), typed_after);
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = screen.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..n]);
        if let Some((cue, keys)) = typed
            && String::from_utf8_lossy(&seen).contains(cue)
        {
            keyboard.write_all(keys).unwrap();
            typed = None;
        }
    }
    child.wait().unwrap();
    Some(String::from_utf8_lossy(&seen).into_owned())
}

/// The pictures that the terminal showed, in order. Only letters that differ from the previous
/// picture are written to it, so the output need not contain a whole word.
fn pictures(text: &str) -> Vec<String> {
    let mut terminal = vt100::Parser::new(ROWS, COLUMNS, 0);
    let draw = |drawn: &str| {
        terminal.process(drawn.as_bytes());
        terminal.screen().contents()
    };
    // Each ends with a reset of the colours.
    text.split_inclusive("\x1b[0m").map(draw).collect()
}

/// The last time that the alternate screen was taken it was given back, and the cursor with it.
fn assert_given_back(text: &str) {
    let last = |what: &str| text.rfind(what).unwrap_or_else(|| panic!("{what:?} in {text:?}"));
    assert!(last("\x1b[?1049h") < last("\x1b[?1049l"), "the ordinary screen is back: {text:?}");
    assert!(last("\x1b[?25l") < last("\x1b[?25h"), "the cursor is back: {text:?}");
}

#[test]
fn watching_draws_and_gives_the_terminal_back() {
    let args =
        [MICRO, &["--watch", "--profile", "--warmup", "50ms", "--duration", "1200ms", "--repeat", "1"]]
            .concat();
    let Some(text) = on_a_terminal(&args, None) else { return };
    assert_given_back(&text);
    let pictures = pictures(&text);
    for words in ["throughput", "latency", "instances", "x execution", "measuring", "gone", " now"] {
        assert!(pictures.iter().any(|p| p.contains(words)), "{words:?} in one of {pictures:#?}");
    }
    let after = &text[text.rfind("\x1b[?1049l").unwrap()..];
    assert!(after.contains("per s"), "the table is on the ordinary screen: {after:?}");
}

#[test]
fn ctrl_c_while_watching_gives_the_terminal_back() {
    let args = [MICRO, &["--watch", "--duration", "10s", "--repeat", "1"]].concat();
    let Some(text) = on_a_terminal(&args, Some(("throughput", b"\x03"))) else { return };
    assert_given_back(&text);
    let after = &text[text.rfind("\x1b[?1049l").unwrap()..];
    assert!(after.contains("interrupted"), "says so on the ordinary screen: {after:?}");
}
