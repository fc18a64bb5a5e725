//! Tests of the built binary from outside: exit codes, messages, rows, and that it leaves nothing
//! behind.
//!
//! Every run gets a temporary directory of its own as TMPDIR. Afterwards the directory is empty,
//! and no process that inherited it is alive.

#[path = "command_line/backups.rs"]
mod backups;
#[path = "command_line/calibrations.rs"]
mod calibrations;
#[path = "command_line/databases.rs"]
mod databases;
#[path = "command_line/directories.rs"]
mod directories;
#[path = "command_line/endings.rs"]
mod endings;
#[path = "command_line/guards.rs"]
mod guards;
#[path = "command_line/hosts.rs"]
mod hosts;
#[path = "command_line/lives.rs"]
mod lives;
#[path = "command_line/papers.rs"]
mod papers;
#[path = "command_line/plans.rs"]
mod plans;
#[path = "command_line/reports.rs"]
mod reports;
#[path = "command_line/schedules.rs"]
mod schedules;
#[path = "command_line/screens.rs"]
mod screens;
#[path = "command_line/traces.rs"]
mod traces;
#[path = "command_line/wholeness.rs"]
mod wholeness;

use serde_json::Value;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The environment of a run.
struct Sandbox {
    tmp: TempDir,
}

impl Sandbox {
    fn new() -> Sandbox {
        // The unix sockets of a deployment are below it, so its path must be short.
        Sandbox { tmp: tempfile::Builder::new().prefix("t-").tempdir().unwrap() }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
        command
            .args(args)
            .env("TMPDIR", self.tmp.path())
            .env_remove("XDG_CACHE_HOME")
            .env_remove("HOME")
            .stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs to the end and checks that nothing is left.
    fn run(&self, args: &[&str]) -> Output {
        let output = self.command(args).output().unwrap();
        self.assert_nothing_left();
        output
    }

    fn assert_nothing_left(&self) {
        let left: Vec<_> = std::fs::read_dir(self.tmp.path()).unwrap().flatten().map(|e| e.path()).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        let deadline = Instant::now() + Duration::from_secs(120);
        while !self.processes().is_empty() {
            assert!(Instant::now() < deadline, "still alive: {:?}", self.processes());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Processes that were started with this TMPDIR.
    fn processes(&self) -> Vec<u32> {
        let mark = format!("TMPDIR={}", self.tmp.path().display());
        let inherited = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|&b| b == 0).any(|v| v == mark.as_bytes())
        };
        let pids = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|e| e.file_name().to_str()?.parse().ok());
        pids.filter(inherited).collect()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn rows(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// The last line of standard error contains all of `parts`; the lines before it are progress.
fn assert_refused(args: &[&str], code: i32, parts: &[&str]) {
    let output = Sandbox::new().run(args);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
    let complaints: Vec<_> =
        text.lines().filter(|l| l.starts_with("atoll: ") && !l.contains(": warning: ")).collect();
    assert_eq!(complaints.len(), 1, "{args:?}: one line, not: {text}");
    for part in parts {
        assert!(complaints[0].contains(part), "{args:?}: {part:?} in {text}");
    }
}

const BRIEF: &[&str] = &["--duration", "100ms", "--warmup", "50ms", "--repeat", "1", "--json"];

#[test]
fn help_says_everything_and_succeeds() {
    for args in [
        &["--help"][..],
        &["bench", "--help"],
        &["topology", "--help"],
        &["load", "--help"],
        &["check", "--help"],
        &["backup", "--help"],
        &["restore", "--help"],
        &["dump", "--help"],
        &["stats", "--help"],
        &["agent", "--help"],
        &["cluster", "--help"],
        &["cluster", "up", "--help"],
        &["--version"],
    ] {
        let output = Sandbox::new().run(args);
        assert_eq!(output.status.code(), Some(0));
        assert!(!output.stdout.is_empty());
    }
    let help = Sandbox::new().run(&["bench", "--help"]).stdout;
    let help = String::from_utf8(help).unwrap();
    for option in [
        "--machine",
        "--islands",
        "--workers",
        "--placement",
        "--design",
        "--host",
        "--channel",
        "--durability",
        "--data",
        "--keep",
        "--duration",
        "--warmup",
        "--repeat",
        "--seed",
        "--multisite",
        "--rows",
        "--op",
        "--skew",
        "--dataset",
        "--scale",
        "--load-model",
        "--out",
        "--json",
        "--kill",
        "--profile",
        "--watch",
        "Examples",
    ] {
        assert!(help.contains(option), "{option}");
    }
}

#[test]
fn wrong_usage_exits_with_2_and_one_line() {
    assert_refused(&["bench"], 2, &["WORKLOAD"]);
    assert_refused(&["bench", "tpcz"], 2, &["tpcz", "micro"]);
    assert_refused(&["bench", "micro", "--op", "write"], 2, &["write", "--op", "read, update"]);
    assert_refused(&["bench", "micro", "--islands", "0"], 2, &["0", "--islands", "at least 1"]);
    assert_refused(&["bench", "micro", "--islands", "9", "--workers", "2"], 2, &["9", "2", "--workers"]);
    assert_refused(
        &["bench", "tpcb", "--islands", "2", "--workers", "2", "--scale", "1"],
        2,
        &["2", "1 site", "--scale"],
    );
    assert_refused(&["bench", "micro", "--multisite", "101"], 2, &["101", "--multisite", "0 to 100"]);
    assert_refused(&["bench", "micro", "--duration", "soon"], 2, &["soon", "--duration", "5s"]);
    assert_refused(&["bench", "micro", "--dataset", "5", "--scale", "9"], 2, &["dataset", "5", "9"]);
    assert_refused(&["bench", "micro", "--channel", "ring", "--host", "process"], 2, &["ring", "thread"]);
    assert_refused(&["bench", "micro", "--channel", "pipe"], 2, &["pipe", "ipc"]);
    assert_refused(&["bench", "micro", "--machine", "package:2 core:2"], 2, &["package:2 core:2", "live"]);
    assert_refused(
        &["bench", "tpcb", "--kill", "2", "--durability", "memory"],
        2,
        &["--kill", "memory", "sync"],
    );
    assert_refused(&["bench", "tpcb", "--kill", "2", "--profile"], 2, &["--kill", "--profile"]);
    assert_refused(&["bench", "counter", "--profile"], 2, &["--profile", "micro", "tpcb"]);
    assert_refused(&["instance", "--number", "0"], 2, &["atoll bench"]);
}

#[test]
fn an_unreadable_machine_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let bad = dir.path().join("machine.csv");
    std::fs::write(&bad, "1,2,three\n").unwrap();
    assert_refused(&["topology", "--machine", bad.to_str().unwrap()], 2, &["machine.csv", "expected"]);
    assert_refused(&["topology", "--machine", "/no/such/machine.xml"], 2, &["/no/such/machine.xml"]);
    assert_refused(&["topology", "--machine", "package:2 core:2", "--probe"], 2, &["--probe", "live"]);
}

#[test]
fn topology_shows_a_machine_as_picture_and_as_json() {
    let output = Sandbox::new().run(&["topology", "--machine", "package:2 l3:2 core:3", "--json"]);
    let machine: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(machine["islands"].as_array().unwrap().len(), 4);
    assert_eq!(Sandbox::new().run(&["topology"]).status.code(), Some(0));
}

#[test]
fn a_port_in_use_is_named_and_nothing_is_left() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let args = [
        &["bench", "micro", "--islands", "2", "--workers", "2", "--channel", "tcp", "--listen", &address],
        BRIEF,
    ]
    .concat();
    assert_refused(&args, 1, &[&address, "in use"]);
}

#[test]
fn a_database_larger_than_the_disk_is_refused_before_loading() {
    let args = [&["bench", "micro", "--islands", "1", "--dataset", "100000000000"], BRIEF].concat();
    assert_refused(&args, 1, &["MiB free", "--dataset"]);
}

#[test]
fn stats_count_what_a_transaction_touches_beside_what_is_published() {
    let args = ["stats", "tpcb", "--accounts", "1000", "--duration", "300ms"];
    let output = Sandbox::new().run(&[&args[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let found = &rows(&output)[0];
    assert_eq!(found["consistent"], true, "{found}");
    for kind in ["deposit", "mean"] {
        let counted = &found["transactions"][kind];
        let records = counted["measured"]["records"].as_f64().unwrap();
        assert!((records - 4.0).abs() < 0.05, "three updates and an insert: {counted}");
    }
    let published = &found["transactions"]["mean"]["published"][0];
    assert_eq!(published["figures"]["row_locks"], 10.0, "{published}");
    let table = String::from_utf8(Sandbox::new().run(&args).stdout).unwrap();
    assert!(table.contains("Table 5.2") && table.contains("row locks"), "{table}");
    assert_refused(&["stats", "ipc"], 2, &["ipc", "tpcb"]);
}

#[test]
fn rows_say_how_the_workload_was_drawn() {
    let args = ["bench", "tpcc", "--islands", "1", "--workers", "2", "--scale", "2", "--items", "1000"];
    let output =
        Sandbox::new().run(&[&args[..], &["--customers", "100", "--durability", "memory"], BRIEF].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let stats = &rows(&output)[0]["workload_stats"];
    for name in ["mix_new_order_percent", "rollbacks_percent", "remote_lines_percent", "by_name_percent"] {
        let s = &stats[name];
        let [low, high, found] = ["low", "high", "found"].map(|f| s[f].as_f64().unwrap());
        assert!(
            low < high && (0.0..=100.0).contains(&found) && s["n"].as_u64().unwrap() > 0,
            "{name}: {stats}"
        );
    }
    let lines = &stats["lines_per_order"];
    assert!((lines["found"].as_f64().unwrap() - 10.0).abs() < 2.0, "{lines}");
}

/// A read-only transaction with all rows at home is not validated; one over two instances is
/// validated like a writer.
#[test]
fn readers_of_snapshots_are_answered_with_one_instance_and_with_two() {
    let args = ["bench", "tatp", "--design", "occ", "--islands", "1,2", "--workers", "2", "--scale", "2"];
    let options = ["--host", "thread", "--durability", "sync", "--occ-reads", "validate,snapshot"];
    let output = Sandbox::new().run(&[&args[..], &options, BRIEF].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows = rows(&output);
    let read = |row: &Value| row["occ_reads"].as_str().unwrap().to_owned();
    assert_eq!(rows.iter().map(read).collect::<Vec<_>>(), ["validate", "snapshot", "validate", "snapshot"]);
    assert!(rows.iter().all(|row| row["tps"].as_f64().unwrap() > 0.0 && row["consistent"] == true));
}

/// With clients in a closed loop, and with an open load.
#[test]
fn rows_are_asked_for_as_far_ahead_as_is_said() {
    for load in [&["--clients", "4"][..], &["--load-model", "open", "--rate", "2000"]] {
        let args = ["bench", "tpcc", "--islands", "1", "--workers", "1", "--scale", "1", "--host", "thread"];
        let options = ["--design", "occ,serial", "--durability", "memory", "--occ-ahead", "requests,steps"];
        let output = Sandbox::new().run(&[&args[..], &options, load, BRIEF].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let rows = rows(&output);
        let ahead: Vec<_> = rows.iter().map(|row| row["occ_ahead"].as_str()).collect();
        assert_eq!(ahead, [Some("requests"), Some("steps"), None]);
        assert!(rows.iter().all(|row| row["tps"].as_f64().unwrap() > 0.0 && row["consistent"] == true));
    }
}

#[test]
fn memory_is_taken_at_the_start_if_asked_for() {
    for design in ["occ", "conventional"] {
        let run = |more: &[&str]| {
            let args = ["bench", "micro", "--islands", "1", "--workers", "1", "--dataset", "1000"];
            let options = ["--design", design, "--durability", "memory", "--memory", "600M"];
            let output = Sandbox::new().run(&[&args[..], &options, more, BRIEF].concat());
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            let row = rows(&output).remove(0);
            (row["rss_mib"].as_f64().unwrap(), row["populated"].as_bool())
        };
        let (as_used, at_start) = (run(&[]), run(&["--populate"]));
        assert!(as_used.0 < 500.0 && at_start.0 >= 600.0, "{design}: {as_used:?}, {at_start:?}");
        assert_eq!((as_used.1, at_start.1), (None, Some(true)));
    }
}

#[test]
fn rows_that_cannot_be_written_are_refused_before_anything_runs() {
    assert_refused(&["bench", "micro", "--out", "/proc/nowhere"], 1, &["/proc/nowhere", "--out"]);
}

#[test]
fn a_directory_of_something_else_or_of_another_version_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap().to_owned();
    let args = [&["bench", "micro", "--islands", "1", "--data", &data], BRIEF].concat();
    std::fs::create_dir(dir.path().join("0")).unwrap();
    std::fs::write(dir.path().join("0/letter.txt"), "mine").unwrap();
    assert_refused(&args, 2, &[&data, "0", "no instance's folder"]);
    assert_eq!(std::fs::read_to_string(dir.path().join("0/letter.txt")).unwrap(), "mine");
    std::fs::remove_dir_all(dir.path().join("0")).unwrap();

    std::fs::write(dir.path().join("lock"), "").unwrap();
    std::fs::write(dir.path().join("deployment.json"), r#"{"format": 77}"#).unwrap();
    assert_refused(&args, 2, &[&data, "format 77", "format 7", "version of Atoll"]);
    std::fs::write(dir.path().join("deployment.json"), "{").unwrap();
    assert_refused(&args, 1, &["deployment.json", "damaged"]);
}

#[test]
fn both_hosts_measure_every_combination() {
    for (host, channels) in [("process", "shm,uds"), ("thread", "ring,tcp")] {
        let args = [
            &[
                "bench",
                "micro",
                "--islands",
                "1,2",
                "--workers",
                "2",
                "--scale",
                "2",
                "--dataset",
                "2000",
                "--host",
                host,
            ],
            &[
                "--channel",
                channels,
                "--op",
                "update",
                "--rows",
                "4",
                "--multisite",
                "0,100",
                "--durability",
                "memory",
            ][..],
            BRIEF,
        ]
        .concat();
        let output = Sandbox::new().run(&args);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let rows = rows(&output);
        assert_eq!(rows.len(), 8);
        for row in &rows {
            assert_eq!(row["consistent"], true, "{row}");
            assert!(row["tps"].as_f64().unwrap() > 0.0, "{row}");
            let distributed = row["islands"] == 2 && row["multisite"] == 100.0;
            assert_eq!(row["distributed"].as_f64().unwrap() > 0.5, distributed, "{row}");
            assert!(row["latency_us"]["p50"].as_f64().unwrap() > 0.0, "{row}");
            assert_eq!(row["host"], host);
            assert!(row["rss_mib"].as_f64().unwrap() > 1.0, "{row}");
        }
    }
}

/// Two processes: the times of their workers reach the parent, and add up to the times that the
/// clients saw.
#[test]
fn a_profile_adds_up_to_the_latency() {
    let args = [
        "bench",
        "tpcb",
        "--islands",
        "2",
        "--workers",
        "2",
        "--scale",
        "2",
        "--design",
        "conventional,serial",
        // With waits for a device, few transactions would fit into a window, and most of them would
        // span its ends.
        "--durability",
        "memory",
    ];
    let more = [
        "--multisite",
        "50",
        "--duration",
        "300ms",
        "--warmup",
        "50ms",
        "--repeat",
        "1",
        "--json",
        "--profile",
    ];
    let output = Sandbox::new().run(&[&args[..], &more[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows = rows(&output);
    assert_eq!(rows.len(), 2);
    let sum = |object: &Value| object.as_object().unwrap().values().map(|v| v.as_f64().unwrap()).sum::<f64>();
    for row in &rows {
        let mean_ns = row["latency_us"]["mean"].as_f64().unwrap() * 1000.0;
        let of = |name: &str| sum(&row[name]);
        // Transactions in progress at the start or end of such a short window are in only one of
        // the two sums.
        let off = (of("time_ns_per_txn") / mean_ns - 1.0).abs();
        assert!(off < 0.2, "{off}: {} against {mean_ns}", row["time_ns_per_txn"]);
        let waiting = row["time_ns_per_txn"]["waiting"].as_f64().unwrap();
        assert!((of("waiting_ns_per_txn") - waiting).abs() < 1.0, "{row}");
        let workers_ns = row["seconds"].as_f64().unwrap() * 2e9 / row["committed"].as_f64().unwrap();
        assert!((of("worker_ns_per_txn") / workers_ns - 1.0).abs() < 0.2, "{}", row["worker_ns_per_txn"]);
        let records = row["accesses_per_txn"]["records"].as_f64().unwrap();
        assert!((3.9..6.0).contains(&records), "four, and what was tried in vain: {row}");
        for component in ["execution", "locking", "latching", "logging", "communication", "management"] {
            let kinds = row["critical_sections_per_txn"][component].as_object().unwrap();
            assert_eq!(kinds.len(), 3, "{row}");
            assert!(row["time_ns_per_txn"][component].is_number(), "{row}");
        }
        for field in ["latches_per_txn", "lock_calls_per_txn", "log_per_txn", "traffic_per_txn"] {
            assert!(row[field].is_object(), "{field}: {row}");
        }
    }
    // Both read index pages without latches.
    let latches = |row: &Value| row["latches_per_txn"]["heap"].as_f64().unwrap();
    assert!(latches(&rows[0]) > 3.5 && latches(&rows[1]) == 0.0, "{}", rows[0]["latches_per_txn"]);
}

#[test]
fn serial_and_conventional_tpcb_stay_consistent_on_a_data_directory_that_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("db").to_str().unwrap().to_owned();
    let args = |islands, design| {
        [
            &[
                "bench",
                "tpcb",
                "--scale",
                "2",
                "--workers",
                "2",
                "--islands",
                islands,
                "--design",
                design,
                "--keep",
                "--data",
                &data,
            ][..],
            BRIEF,
        ]
        .concat()
    };
    for design in ["serial", "conventional"] {
        let output = Sandbox::new().run(&args("2", design));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(rows(&output)[0]["consistent"], true);
    }
    assert_refused(&args("1", "conventional"), 2, &["2 islands", "1 island"]);
}

#[test]
fn instances_die_and_nothing_acknowledged_is_lost() {
    let args = [
        &[
            "bench",
            "tpcb",
            "--scale",
            "2",
            "--workers",
            "2",
            "--islands",
            "2",
            "--multisite",
            "50",
            "--kill",
            "4",
        ],
        &["--check-every", "2", "--durability", "async"][..],
        BRIEF,
    ]
    .concat();
    let output = Sandbox::new().run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let row = &rows(&output)[0];
    assert_eq!(row["kills"].as_u64(), Some(4), "{row}");
    assert_eq!(row["consistent"], true, "{row}");
    assert!(row["acknowledged"].as_u64().unwrap() > 0, "{row}");
    assert!(row["max_in_doubt_ms"].as_u64().unwrap() <= 5000, "{row}");
}

/// Starts a bench on `data` that would run for an hour, and waits until its instances are there.
fn long_bench(sandbox: &Sandbox, data: &Path) -> Child {
    let args = [
        "bench",
        "micro",
        "--islands",
        "2",
        "--workers",
        "2",
        "--scale",
        "2",
        "--dataset",
        "2000",
        "--duration",
        "60m",
    ];
    let mut command = sandbox.command(&args);
    let child = command.arg("--data").arg(data).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while !data.join("deployment.json").exists() {
        assert!(Instant::now() < deadline, "the bench has not loaded");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The instances that load the data end, and others start on the copy.
    while !data.join("run/1/data").exists() || sandbox.processes().len() != 3 {
        assert!(Instant::now() < deadline, "nothing runs on the copy");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn one_run_at_a_time_and_ctrl_c_ends_it_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("db");
    let sandbox = Sandbox::new();
    let child = long_bench(&sandbox, &data);
    let holder = child.id().to_string();
    let args =
        [&["bench", "micro", "--islands", "2", "--workers", "2", "--data", data.to_str().unwrap()], BRIEF]
            .concat();
    assert_refused(&args, 1, &["in use", &holder]);
    signal(child.id(), rustix::process::Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    sandbox.assert_nothing_left();
    assert!(!data.join("run").exists(), "the copy goes with the run");
}

#[test]
fn children_do_not_outlive_a_killed_parent() {
    let dir = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new();
    let mut child = long_bench(&sandbox, &dir.path().join("db"));
    child.kill().unwrap();
    child.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while !sandbox.processes().is_empty() {
        assert!(Instant::now() < deadline, "orphans: {:?}", sandbox.processes());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_dead_instance_is_started_again_in_the_middle_of_a_bench() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("db");
    let sandbox = Sandbox::new();
    let args = [
        "bench",
        "tpcb",
        "--islands",
        "2",
        "--workers",
        "2",
        "--scale",
        "2",
        "--warmup",
        "50ms",
        "--duration",
        "2s",
    ];
    let child = sandbox
        .command(&args)
        .args(["--repeat", "1", "--json", "--keep", "--data"])
        .arg(&data)
        .spawn()
        .unwrap();
    while !data.join("deployment.json").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
    let victim = sandbox.processes().into_iter().find(|&pid| pid != child.id()).unwrap();
    signal(victim, rustix::process::Signal::KILL);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let row = &rows(&output)[0];
    assert_eq!((&row["restarts"], &row["consistent"]), (&1.into(), &true.into()), "{row}");
    sandbox.assert_nothing_left();
}

#[test]
fn the_smallest_experiments_give_rows() {
    let args = [&["bench", "counter", "--workers", "2", "--placement", "island,os"], BRIEF].concat();
    let rows_of_counter = rows(&Sandbox::new().run(&args));
    assert!(rows_of_counter.len() >= 4 && rows_of_counter.iter().all(|r| r["consistent"] == true));
    if std::thread::available_parallelism().is_ok_and(|n| n.get() >= 2) {
        let args = [&["bench", "ipc", "--channel", "shm,ring"], BRIEF].concat();
        let output = Sandbox::new().run(&args);
        assert_eq!(rows(&output).len() % 4, 0, "{}", stderr(&output));
    }
}
