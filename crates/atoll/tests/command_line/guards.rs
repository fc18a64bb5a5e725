//! No harm to the machine or to earlier results: missing memory, directories of results, options
//! that do not apply.

use super::*;
use std::fs;

const MICRO: &[&str] = &["bench", "micro", "--islands", "1", "--workers", "1", "--dataset", "1000"];

/// The run is refused before anything is touched: the data directory stays empty.
#[test]
fn memory_that_is_not_there_is_refused_with_the_sums() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("db");
    let path = data.to_str().unwrap();
    for memory in ["100T", "1023T"] {
        let more = ["--memory", memory, "--data", path];
        let parts = ["--memory", "page memory", "MiB are free", "at most", "--memory-unchecked"];
        assert_refused(&[MICRO, &more, BRIEF].concat(), 2, &parts);
        assert_refused(&[MICRO, &more, &["--populate"], BRIEF].concat(), 2, &parts);
        assert_refused(&[&["load", "micro", "--dataset", "1000"], &more[..]].concat(), 2, &parts);
        assert_refused(&[MICRO, &more, &["--design", "occ"], BRIEF].concat(), 2, &parts);
    }
    assert_refused(&[MICRO, &["--memory", "99999999T"], BRIEF].concat(), 2, &["out of range", "1024T"]);
    assert!(!data.exists(), "something was touched");
}

/// A deployment of a sweep that needs too much memory is found before the first one runs.
#[test]
fn a_sweep_is_held_against_memory_as_a_whole() {
    let out = tempfile::tempdir().unwrap();
    let rows = out.path().join("rows");
    let args = ["--design", "conventional,occ", "--memory", "100T", "--out", rows.to_str().unwrap()];
    assert_refused(&[MICRO, &args, BRIEF].concat(), 2, &["--memory-unchecked"]);
    assert!(!rows.exists());
}

#[test]
fn memory_that_is_not_there_can_be_asked_for_all_the_same() {
    let free = free_kib();
    let memory = format!("{}K", free + (64 << 10));
    assert_refused(&[MICRO, &["--memory", &memory], BRIEF].concat(), 2, &["--memory-unchecked"]);
    let output = Sandbox::new().run(&[MICRO, &["--memory", &memory, "--memory-unchecked"], BRIEF].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

fn free_kib() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_check_is_held_against_memory_too() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("db");
    let path = data.to_str().unwrap();
    let load = ["load", "micro", "--dataset", "1000", "--data", path];
    assert_eq!(Sandbox::new().run(&load).status.code(), Some(0));
    assert_refused(&["check", "--data", path, "--memory", "100T"], 2, &["104857600M", "--memory-unchecked"]);
    assert_eq!(Sandbox::new().run(&["check", "--data", path]).status.code(), Some(0));
}

/// The same check in a control group of its own, if the system allows one.
#[test]
fn the_limit_of_a_control_group_counts() {
    let Some(group) = Group::of(512 << 20) else {
        eprintln!("skipped: no control group with a memory limit can be made here");
        return;
    };
    let sandbox = Sandbox::new();
    let inside = |more: &[&str]| {
        let join = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", group.path.display());
        let args = [&["-c", &join, env!("CARGO_BIN_EXE_atoll")], MICRO, more, BRIEF].concat();
        let mut command = Command::new("sh");
        command.args(args).env("TMPDIR", sandbox.tmp.path()).stdin(Stdio::null());
        command.output().unwrap()
    };
    let refused = inside(&["--memory", "600M"]);
    let text = stderr(&refused);
    assert_eq!(refused.status.code(), Some(2), "{text}");
    assert!(text.contains("in the control group") && text.contains("(of 512 MiB)"), "{text}");
    let runs = inside(&["--memory", "64M", "--durability", "memory"]);
    assert_eq!(runs.status.code(), Some(0), "{}", stderr(&runs));
    sandbox.assert_nothing_left();
}

/// A control group below this process' own, removed at the end.
struct Group {
    path: std::path::PathBuf,
}

impl Group {
    fn of(limit: u64) -> Option<Group> {
        let memberships = fs::read_to_string("/proc/self/cgroup").ok()?;
        for line in memberships.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, own) = (fields.next()?, fields.next()?);
            let (root, file) = match controllers {
                "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                "" => ("/sys/fs/cgroup", "memory.max"),
                _ => continue,
            };
            let parent = Path::new(root).join(own.trim_start_matches('/'));
            let path = parent.join(format!("atoll-test-{}", std::process::id()));
            if !parent.is_dir() || fs::create_dir(&path).is_err() {
                continue;
            }
            let group = Group { path };
            if fs::write(group.path.join(file), limit.to_string()).is_ok() {
                return Some(group);
            }
        }
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just ended may still be in it.
        let deadline = Instant::now() + Duration::from_secs(10);
        while fs::remove_dir(&self.path).is_err() && Instant::now() < deadline {
            std::thread::yield_now();
        }
    }
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap().lines().count()
}

#[test]
fn earlier_rows_are_never_lost_in_silence() {
    let (sandbox, place) = (Sandbox::new(), tempfile::tempdir().unwrap());
    let out = place.path().join("results");
    let path = out.to_str().unwrap();
    let run = |more: &[&str]| sandbox.run(&[MICRO, &["--out", path], more, BRIEF].concat());
    assert_eq!(run(&[]).status.code(), Some(0));
    let before = fs::read(out.join("rows.jsonl")).unwrap();
    let parts = ["rows.jsonl", "1 row of an earlier run", "another directory", "--append", "--overwrite"];
    assert_refused(&[MICRO, &["--out", path], BRIEF].concat(), 2, &parts);
    assert_eq!(fs::read(out.join("rows.jsonl")).unwrap(), before);

    let output = run(&["--append"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(lines(&out.join("rows.jsonl")), 2);
    assert!(fs::read(out.join("rows.jsonl")).unwrap().starts_with(&before));
    assert!(fs::read_to_string(out.join("report.html")).unwrap().contains("2 rows"), "the report is of both");

    let output = run(&["--overwrite"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(lines(&out.join("rows.jsonl")), 1);
    assert_refused(&["bench", "micro", "--append"], 2, &["--out"]);
    let both = [MICRO, &["--out", path, "--append", "--overwrite"], BRIEF].concat();
    assert_refused(&both, 2, &["--append", "--overwrite"]);
}

/// Rows to be replaced stay until new rows exist.
#[test]
fn a_run_that_fails_leaves_nothing_and_loses_nothing() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("results");
    let path = out.to_str().unwrap();
    let too_large = ["bench", "micro", "--islands", "1", "--dataset", "100000000000", "--out", path];
    assert_refused(&[&too_large, BRIEF].concat(), 1, &["MiB free"]);
    assert!(!out.exists(), "an empty directory of results: {:?}", fs::read_dir(&out).map(Iterator::count));
    fs::create_dir(&out).unwrap();
    fs::write(out.join("rows.jsonl"), "{}\n").unwrap();
    assert_refused(&[&too_large[..], &["--overwrite"], BRIEF].concat(), 1, &["MiB free"]);
    assert_eq!(fs::read_to_string(out.join("rows.jsonl")).unwrap(), "{}\n");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 1, "nothing else is in it");
}

#[test]
fn half_a_row_of_a_killed_run_stays_a_line_of_its_own() {
    let (sandbox, place) = (Sandbox::new(), tempfile::tempdir().unwrap());
    let rows = place.path().join("rows.jsonl");
    fs::write(&rows, "{\"workload\": \"mic").unwrap();
    let path = place.path().to_str().unwrap();
    let output = sandbox.run(&[MICRO, &["--out", path, "--append"], BRIEF].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = fs::read_to_string(&rows).unwrap();
    let last = text.lines().nth(1).unwrap();
    assert!(serde_json::from_str::<Value>(last).is_ok() && text.lines().count() == 2, "{text}");
}

/// The first run is blocked by a reader that does not read, and holds the directory as long as that
/// lasts.
#[test]
fn two_runs_into_one_directory_do_not_meet() {
    let (sandbox, place) = (Sandbox::new(), tempfile::tempdir().unwrap());
    let out = place.path().join("results");
    let path = out.to_str().unwrap();
    let args = [MICRO, &["--out", path, "--duration", "60m"]].concat();
    let first = sandbox.command(&args).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while fs::read_to_string(out.join(".lock")).unwrap_or_default().trim() != first.id().to_string() {
        assert!(Instant::now() < deadline, "the first run has not taken the directory");
        std::thread::yield_now();
    }
    let pid = format!("process {}", first.id());
    for more in [&["--append"][..], &["--overwrite"], &[]] {
        assert_refused(&[MICRO, &["--out", path], more, BRIEF].concat(), 1, &[&pid, "another directory"]);
    }
    signal(first.id(), rustix::process::Signal::INT);
    let output = first.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    sandbox.assert_nothing_left();
    assert!(!out.exists(), "it has measured nothing");
}

#[test]
fn an_option_that_says_nothing_is_refused() {
    for (args, parts) in [
        (&["micro", "--occ-reads", "snapshot"][..], &["--occ-reads", "--design occ"][..]),
        (&["micro", "--design", "serial", "--latching", "coupled"], &["--latching", "serial"]),
        (&["micro", "--balance-every", "1s"], &["--balance-every", "--balance on"]),
        (&["tpcb", "--check-every", "3"], &["--check-every", "--kill"]),
        (&["ipc", "--kill", "3"], &["--kill", "ipc"]),
        (&["counter", "--islands", "2"], &["--islands", "counter"]),
        (&["micro", "--phases", "20s:hot:50/30", "--duration", "5s"], &["--phases", "20s", "never", "5s"]),
        (&["micro", "--listen", "7000"], &["--listen", "--channel tcp"]),
    ] {
        assert_refused(&[&["bench"], args].concat(), 2, parts);
    }
    let dir = tempfile::tempdir().unwrap();
    let load =
        ["load", "micro", "--design", "occ", "--tree", "mrbtree", "--data", dir.path().to_str().unwrap()];
    assert_refused(&load, 2, &["--tree", "occ"]);
}

#[test]
fn what_is_typed_wrong_is_told_with_what_was_meant() {
    for (args, parts) in [
        (&["bench", "micro", "--out", ""][..], &["--out", "empty", "DIR"][..]),
        (&["bench", "micro", "--data", ""], &["--data", "empty", "DIR"]),
        (&["bench", "micro", "--phases", ""], &["--phases", "empty", "FILE"]),
        (&["bench", "TPCC"], &["did you mean tpcc?"]),
        (&["bench", "tpcd"], &["did you mean tpcb, tpcc or tpce?"]),
        (&["bench", "micro", "--seed", "-5s"], &["-5s", "--seed"]),
        (&["bench", "micro", "--duration", "-5s"], &["-5s", "--duration"]),
    ] {
        assert_refused(args, 2, parts);
    }
    let output = Sandbox::new().run(&["init"]);
    assert!(!stderr(&output).contains("instance") && output.status.code() == Some(2), "{}", stderr(&output));
}

#[test]
fn lengths_of_time_are_written_alike_everywhere() {
    let times = ["--duration", "0m1s", "--lock-timeout", "1s", "--warmup", "50ms", "--backoff", "1ms"];
    let output = Sandbox::new().run(&[MICRO, &times, &["--repeat", "1", "--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let seconds = rows(&output)[0]["seconds"].as_f64().unwrap();
    assert!(seconds >= 1.0, "{seconds}");
    for option in ["--duration", "--warmup", "--lock-timeout", "--balance-every", "--backoff"] {
        assert_refused(&["bench", "micro", option, "soon"], 2, &[option, "soon", "1h30m"]);
    }
    assert_refused(&["claims", "--within", "soon"], 2, &["--within", "1h30m"]);
}

/// A deployment with several names is measured once.
#[test]
fn one_deployment_is_measured_once() {
    let islands = "shared,1,1";
    let args = ["bench", "micro", "--islands", islands, "--workers", "1", "--dataset", "1000"];
    let output = Sandbox::new().run(&[&args[..], BRIEF].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(rows(&output).len(), 1);
    let text = stderr(&output);
    assert!(text.contains("--islands shared, 1 come to one deployment here, on 1 island"), "{text}");
}

#[test]
fn tcp_listens_where_a_name_or_a_version_six_address_says() {
    let base = [
        "bench",
        "micro",
        "--islands",
        "2",
        "--workers",
        "2",
        "--channel",
        "tcp",
        "--dataset",
        "1000",
        "--listen",
    ];
    let last = [&base[..], &["127.0.0.1:65535"], BRIEF].concat();
    assert_refused(&last, 2, &["127.0.0.1:65535", "65536", "65534 at most"]);
    let run = |at: &str| Sandbox::new().run(&[&base[..], &[at, "--multisite", "50"], BRIEF].concat());
    let output = run("localhost");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: no address of version 6 here");
        return;
    }
    let output = run("[::1]");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_latency_file_that_is_no_matrix_is_named_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    for (text, parts) in [
        (",,\n5,,9\n", &["machine.csv:2: column 3"][..]),
        (",,\n5,,\n7\n", &["machine.csv:3: 1 values"]),
        ("0,900\n5,0\n", &["machine.csv:1: column 2", "900 ns", "5 ns back (line 2)"]),
        (",\n-5,\n", &["machine.csv:2: column 1"]),
        ("5\n7,8\n", &["machine.csv:1: column 1"]),
    ] {
        let file = dir.path().join("machine.csv");
        fs::write(&file, text).unwrap();
        assert_refused(&["topology", "--machine", file.to_str().unwrap()], 2, parts);
    }
}

/// Each kill counts, those of restarting instances included.
#[test]
fn as_many_are_killed_as_was_said() {
    let args = ["bench", "tpcb", "--scale", "2", "--workers", "2", "--islands", "2", "--kill", "6", "--json"];
    for seed in ["1", "2"] {
        let output = Sandbox::new().run(&[&args[..], &["--seed", seed, "--check-every", "6"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let row = &rows(&output)[0];
        assert_eq!((row["kills"].as_u64(), row["restarts"].as_u64()), (Some(6), Some(6)), "{row}");
    }
}

/// Figures and claims write a file of the same name, made from files that they find again.
#[test]
fn an_experiment_does_not_replace_the_rows_of_a_bench() {
    let place = tempfile::tempdir().unwrap();
    let rows = place.path().join("rows.jsonl");
    let path = place.path().to_str().unwrap();
    let own = "{\"experiment\": \"vldbj-11\", \"workload\": \"micro\"}\n";
    fs::write(&rows, format!("{own}{{\"workload\": \"micro\"}}\n")).unwrap();
    for command in ["figures", "claims"] {
        let parts = ["rows.jsonl", "atoll bench", "another directory"];
        assert_refused(&[command, "--quick", "--out", path], 2, &parts);
    }
    assert!(fs::read_to_string(&rows).unwrap().starts_with(own));
}
