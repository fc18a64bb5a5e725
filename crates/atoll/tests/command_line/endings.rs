//! How runs end on external failures: broken standard output and standard error, signals, process
//! limits, full devices, pipes without a writer. There is no panic, no child process or file is
//! left, and the message names the cause.

use super::*;
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

const MICRO: &[&str] =
    &["bench", "micro", "--islands", "1,2", "--workers", "2", "--scale", "2", "--dataset", "2000"];

/// An output that is broken from the start.
fn broken() -> [(&'static str, Stdio); 2] {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let full = File::options().write(true).open("/dev/full").unwrap();
    [("a pipe without a reader", writer.into()), ("a full device", full.into())]
}

fn assert_no_panic(output: &Output) {
    assert!(!stderr(output).contains("panicked") && output.status.code() != Some(101), "{}", stderr(output));
}

/// Messages are lost, but the measured rows are not.
#[test]
fn a_run_survives_its_standard_error() {
    for host in ["process", "thread"] {
        for (name, stderr) in broken() {
            let sandbox = Sandbox::new();
            // Serial on fewer workers also prints a warning.
            let args = [MICRO, &["--host", host, "--design", "conventional,serial"], BRIEF].concat();
            let output = sandbox.command(&args).stderr(stderr).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{name}, {host}");
            assert_eq!(rows(&output).len(), 4, "{name}, {host}");
            sandbox.assert_nothing_left();
        }
    }
    for (name, stderr) in broken() {
        let refused = Sandbox::new().command(&["bench", "nothing"]).stderr(stderr).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{name}");
    }
}

/// A closed reader ends the run silently, as SIGPIPE does; a full device is a failure with a
/// message.
#[test]
fn a_broken_standard_output_ends_the_run() {
    let out = tempfile::tempdir().unwrap();
    let results = out.path().join("results");
    let bench = [MICRO, &["--out", results.to_str().unwrap()], BRIEF].concat();
    for args in
        [&["topology"][..], &bench, &["bench", "counter", "--duration", "50ms", "--repeat", "1", "--json"]]
    {
        let [(_, closed), (_, full)] = broken();
        for (stdout, code, lines) in [(closed, 141, 0), (full, 1, 1)] {
            let sandbox = Sandbox::new();
            let _ = fs::remove_dir_all(&results);
            let output = sandbox.command(args).stdout(stdout).output().unwrap();
            assert_no_panic(&output);
            let text = stderr(&output);
            assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
            let told: Vec<&str> = text.lines().filter(|line| line.starts_with("atoll: ")).collect();
            assert_eq!(told.len(), lines, "{args:?}: {text}");
            assert!(told.iter().all(|line| line.contains("standard output")), "{text}");
            sandbox.assert_nothing_left();
            if args == bench {
                let kept = fs::read_to_string(results.join("rows.jsonl")).unwrap();
                assert_eq!(kept.lines().count(), 1, "what could not be printed is in the directory");
                assert!(results.join("report.html").exists());
            }
        }
    }
}

/// Runs under a limit of the shell, as a user that limits apply to; `None` if there is none.
fn limited(sandbox: &Sandbox, limit: &str, args: &[&str]) -> Option<Output> {
    const NOBODY: u32 = 65_534;
    let mut command = Command::new("bash");
    let line = format!("{limit} && exec \"$0\" \"$@\"");
    command.args(["-c", &line, env!("CARGO_BIN_EXE_atoll")]).args(args);
    command.env("TMPDIR", sandbox.tmp.path()).stdin(Stdio::null()).current_dir("/");
    if rustix::process::getuid().is_root() {
        std::os::unix::fs::chown(sandbox.tmp.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().ok()?;
    // The shell cannot run the program as that user, or cannot set the limit.
    match output.status.code() {
        Some(126 | 127) => None,
        _ if stderr(&output).contains("ulimit: ") => None,
        _ => Some(output),
    }
}

#[test]
fn limits_of_processes_and_files_end_a_run_in_order() {
    let (mut ran, mut failed) = (0, 0);
    let limits = [2, 3, 5, 8, 13].map(|n| format!("ulimit -u {n}")).into_iter();
    for limit in limits.chain([8, 12, 16, 24, 40].map(|n| format!("ulimit -n {n}"))) {
        for host in ["process", "thread"] {
            let sandbox = Sandbox::new();
            let args = [MICRO, &["--host", host], BRIEF].concat();
            let Some(output) = limited(&sandbox, &limit, &args) else { continue };
            assert_no_panic(&output);
            let (code, text) = (output.status.code(), stderr(&output));
            assert!(matches!(code, Some(0 | 1)), "{limit}, {host}: {code:?}, {text}");
            if code == Some(1) {
                failed += 1;
                // The failure comes last; an instance may have reported a shortage before.
                let told =
                    text.lines().filter(|line| line.starts_with("atoll: ") && !line.contains("warning"));
                let told: Vec<&str> = told.collect();
                let Some((_, before)) = told.split_last() else {
                    panic!("{limit}, {host}: it failed and did not say why: {text}")
                };
                let of_instances = before.iter().all(|line| line.starts_with("atoll: instance "));
                assert!(of_instances, "{limit}, {host}: {text}");
            }
            ran += 1;
            sandbox.assert_nothing_left();
        }
    }
    if ran == 0 {
        eprintln!("skipped: no limit holds here, or the program cannot be run by another user");
        return;
    }
    assert!(failed > 0, "no limit was low enough to be met");
}

/// Waits until there are this many rows.
fn await_rows(rows: &Path, n: usize) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while fs::read_to_string(rows).map_or(0, |text| text.lines().count()) < n {
        assert!(Instant::now() < deadline, "no row has come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether this process ignores SIGHUP, as `nohup` has its children do.
fn ignores_hangups() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1
}

/// A terminal that closes sends two SIGHUPs.
#[test]
fn a_terminal_that_goes_away_ends_a_run_in_order() {
    if ignores_hangups() {
        eprintln!("skipped: the tests run under nohup, and so does what they start");
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let results = out.path().join("results");
    let sandbox = Sandbox::new();
    let multisite = (0..=100).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let args = [MICRO, &["--multisite", &multisite, "--out", results.to_str().unwrap()], BRIEF].concat();
    let child = sandbox.command(&args).spawn().unwrap();
    await_rows(&results.join("rows.jsonl"), 2);
    signal(child.id(), Signal::HUP);
    signal(child.id(), Signal::HUP);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    sandbox.assert_nothing_left();
    let kept = fs::read_to_string(results.join("rows.jsonl")).unwrap().lines().count();
    assert!((2..200).contains(&kept), "{kept} rows");
    let page = fs::read_to_string(results.join("report.html")).unwrap();
    assert!(page.contains(&format!("{kept} rows")), "the report is of what was measured");
}

#[test]
fn nohup_stays_nohup() {
    let sandbox = Sandbox::new();
    let mut command = Command::new("nohup");
    let args = [MICRO, &["--out", "results"], BRIEF].concat();
    command.arg(env!("CARGO_BIN_EXE_atoll")).args(args);
    command
        .env("TMPDIR", sandbox.tmp.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let place = tempfile::tempdir().unwrap();
    let Ok(child) = command.current_dir(place.path()).spawn() else {
        eprintln!("skipped: no nohup");
        return;
    };
    await_rows(&place.path().join("results/rows.jsonl"), 1);
    signal(child.id(), Signal::HUP);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), rows(&output).len()), (Some(0), 2), "{}", stderr(&output));
}

/// Waits until the process has a thread of this name.
fn await_thread(pid: u32, name: &str) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !threads(pid).iter().any(|thread| thread == name) {
        assert!(Instant::now() < deadline, "{pid} has no thread {name}: {:?}", threads(pid));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn threads(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks
        .filter_map(|task| Some(fs::read_to_string(task.path().join("comm")).ok()?.trim().to_owned()))
        .collect()
}

#[test]
fn one_ctrl_c_ends_a_process_that_reads() {
    let place = tempfile::tempdir().unwrap();
    let fifo = place.path().join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no mkfifo");
        return;
    }
    let (path, page) = (fifo.to_str().unwrap(), place.path().join("page.html"));
    let page = page.to_str().unwrap();
    for args in [
        &["report", "-", "--out", page][..],
        &["report", path, "--out", page],
        &["topology", "--machine", path],
        &["bench", "micro", "--phases", path],
        &["claims", "--rows", path],
        &["compare", path, "-"],
    ] {
        let sandbox = Sandbox::new();
        let mut command = sandbox.command(args);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let open = child.stdin.take(); // The pipe has no data, and stays open.
        await_thread(child.id(), "reader");
        signal(child.id(), Signal::INT);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("interrupted while reading"), "{}", stderr(&output));
        sandbox.assert_nothing_left();
        drop(open);
    }
    assert!(!Path::new(page).exists());
}

#[test]
fn a_report_of_what_is_typed_says_so() {
    let place = tempfile::tempdir().unwrap();
    let line = format!("'{}' report - --out page.html", env!("CARGO_BIN_EXE_atoll"));
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).current_dir(place.path());
    let Ok(mut child) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
        eprintln!("skipped: no `script` (Debian's bsdutils) to make a terminal with");
        return;
    };
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("Ctrl-D ends them") {
        let mut some = [0; 256];
        let n = screen.read(&mut some).unwrap();
        assert!(n > 0, "it ended: {}", String::from_utf8_lossy(&seen));
        seen.extend(&some[..n]);
    }
    keys.write_all(b"\x04").unwrap();
    assert!(!child.wait().unwrap().success(), "there was no row");
}

/// The first cause is reported at once, and acknowledged transactions are there when there is space
/// again.
#[test]
fn a_full_device_ends_a_run_and_loses_nothing() {
    for design in ["conventional", "occ"] {
        let Some((code, told, checked)) = fill_up(design) else {
            eprintln!("skipped: no small file system can be mounted here");
            return;
        };
        assert_eq!(code, 1, "{design}: {told}");
        let complaints: Vec<&str> =
            told.lines().filter(|l| l.starts_with("atoll: ") && !l.contains(": warning: ")).collect();
        let parts = ["no space left on device while instance", "free some space"];
        assert!(parts.iter().all(|part| complaints[0].contains(part)), "{design}: {told}");
        assert!(complaints.len() == 1 && !told.contains("panicked"), "{design}: {told}");
        assert!(checked.ends_with("code 0\n"), "{design}: {checked}");
    }
}

/// Runs a bench with its data on a small device until the device is full, makes room, and checks.
/// Returns the exit code and output of the bench, and the output of the check.
fn fill_up(design: &str) -> Option<(i32, String, String)> {
    const SCRIPT: &str = r#"
        mount -t tmpfs -o size=160m none "$PLACE/disk" || exit 99
        "$ATOLL" load tpcb --scale 2 --islands 2 --workers 2 --accounts 1000 --design "$DESIGN" --data "$PLACE/disk/db" \
            >/dev/null || exit 98
        room=$(($(df --output=avail -k "$PLACE/disk" | tail -1) - 49152))
        head -c "${room}k" /dev/zero >"$PLACE/disk/filler" || exit 97
        "$ATOLL" bench tpcb --islands 2 --workers 2 --design "$DESIGN" --data "$PLACE/disk/db" --keep --durability sync \
            --duration 10m --repeat 1 --json >/dev/null 2>"$PLACE/told"
        echo $? >"$PLACE/code"
        rm "$PLACE/disk/filler"
        "$ATOLL" check --data "$PLACE/disk/db" >"$PLACE/checked" 2>&1
        echo "code $?" >>"$PLACE/checked"
    "#;
    let (sandbox, place) = (Sandbox::new(), tempfile::tempdir().unwrap());
    fs::create_dir(place.path().join("disk")).unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let root = rustix::process::getuid().is_root();
    let output = Command::new("unshare")
        .args([if root { "-m" } else { "-rm" }, "sh", "-c", SCRIPT])
        .env("PLACE", place.path())
        .env("DESIGN", design)
        .env("ATOLL", env!("CARGO_BIN_EXE_atoll"))
        .env("TMPDIR", sandbox.tmp.path())
        .output()
        .ok()?;
    let read = |name: &str| fs::read_to_string(place.path().join(name)).unwrap_or_default();
    match output.status.code() {
        Some(0) => {}
        Some(97 | 98) => panic!("{design}: {}", stderr(&output)),
        _ => return None,
    }
    sandbox.assert_nothing_left();
    Some((read("code").trim().parse().unwrap(), read("told"), read("checked")))
}

#[test]
fn processes_and_threads_have_names() {
    let dir = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new();
    let child = long_bench(&sandbox, &dir.path().join("db"));
    for pid in sandbox.processes() {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap().replace('\0', " ");
        // A process gets its name when it starts, and its threads appear one by one.
        await_thread(pid, "atoll");
        let numbered = ["atoll instance --number 0 ", "atoll instance --number 1 "].contains(&line.as_str());
        assert!(pid == child.id() || numbered, "{line}");
        assert_eq!(fs::read_to_string(format!("/proc/{pid}/comm")).unwrap(), "atoll\n");
        // A thread has its parent's name until it sets its own.
        let unnamed = || threads(pid).iter().filter(|name| *name == "atoll" || *name == "exe").count();
        let deadline = Instant::now() + Duration::from_secs(120);
        while unnamed() != 1 {
            let text = "only the first thread has the program's name";
            assert!(Instant::now() < deadline, "{text}: {:?}", threads(pid));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    signal(child.id(), Signal::INT);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    sandbox.assert_nothing_left();
}
