//! `atoll load` and `atoll check`: databases that last, are inspected, and get damaged.

use super::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// A database of two instances in a directory of its own.
pub(super) struct Database {
    pub(super) dir: TempDir,
}

pub(super) const SHAPE: &[&str] = &["--islands", "2", "--workers", "2", "--scale", "2"];

impl Database {
    pub(super) fn load(workload: &str, more: &[&str]) -> Database {
        let database = Database { dir: tempfile::tempdir().unwrap() };
        let output = database.run(&[&["load", workload, "--data", database.path()], SHAPE, more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        database
    }

    /// With another number of islands than two, or another scale.
    pub(super) fn shaped(workload: &str, shape: &[&str]) -> Database {
        let database = Database { dir: tempfile::tempdir().unwrap() };
        let load = ["load", workload, "--data", database.path(), "--workers", "2"];
        let output = database.run(&[&load[..], shape].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        database
    }

    pub(super) fn micro() -> Database {
        Database::load("micro", &["--dataset", "4000"])
    }

    pub(super) fn path(&self) -> &str {
        self.dir.path().to_str().unwrap()
    }

    pub(super) fn run(&self, args: &[&str]) -> Output {
        Sandbox::new().run(args)
    }

    /// Runs a check, which must not change any file; returns its exit code and its lines.
    pub(super) fn check(&self) -> (i32, Vec<Value>) {
        let before = self.files();
        let output = self.run(&["check", "--data", self.path(), "--json"]);
        assert!(before == self.files(), "a check changed a file");
        (output.status.code().unwrap(), rows(&output))
    }

    pub(super) fn assert_sound(&self) -> Value {
        let (code, lines) = self.check();
        assert_eq!(code, 0, "{lines:?}");
        let sum = lines.last().unwrap().clone();
        assert_eq!((&sum["sound"], &sum["conditions_checked"]), (&true.into(), &true.into()), "{sum}");
        sum
    }

    /// Every file except the locks, which name their last holder.
    pub(super) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let (mut found, mut dirs) = (BTreeMap::new(), vec![self.dir.path().to_owned()]);
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).unwrap().flatten() {
                match entry.metadata().unwrap().is_dir() {
                    true => dirs.push(entry.path()),
                    false if entry.file_name() == "lock" => {}
                    false => drop(found.insert(entry.path(), fs::read(entry.path()).unwrap())),
                }
            }
        }
        found
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn change(&self, name: &str, f: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.file(name)).unwrap();
        f(&mut bytes);
        fs::write(self.file(name), bytes).unwrap();
    }

    /// The finding of a check that mentions `what`; the check must find damage.
    pub(super) fn finding(&self, what: &str) -> Value {
        let (code, lines) = self.check();
        assert_eq!(code, 1, "{lines:?}");
        assert_eq!(lines.last().unwrap()["sound"], false);
        let found = lines.iter().find(|l| l["what"].as_str().is_some_and(|text| text.contains(what)));
        let found = found.unwrap_or_else(|| panic!("{what:?} in {lines:?}")).clone();
        assert_eq!(found["weight"], "damage");
        assert!(!found["remedy"].as_str().unwrap().is_empty(), "{found}");
        found
    }
}

#[test]
fn a_loaded_database_is_sound_and_bench_runs_on_it_without_loading() {
    for workload in ["micro", "tpcb"] {
        let database = Database::load(workload, &[]);
        let sum = database.assert_sound();
        let tables: u64 = sum["instances"][0]["tables"][0]["rows"].as_u64().unwrap();
        assert!(tables > 0, "{sum}");
        let loaded = database.files();
        // The database determines the shape if the options do not.
        let args = ["bench", workload, "--workers", "2", "--data", database.path(), "--durability"];
        for durabilities in ["sync,memory", "async"] {
            let output = database.run(&[&args[..], &[durabilities], BRIEF].concat());
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            for row in rows(&output) {
                assert_eq!((&row["islands"], &row["consistent"]), (&2.into(), &true.into()), "{row}");
            }
            assert!(database.files() == loaded, "a bench changed what was loaded");
        }
        let output = database.run(&[&args[..], &["sync", "--keep"], BRIEF].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(database.files() != loaded, "--keep kept nothing");
        database.assert_sound();
    }
}

#[test]
fn a_bench_loads_an_empty_directory_once_and_leaves_it_as_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database { dir };
    let args = [
        &["bench", "tpcb", "--islands", "1,2", "--workers", "2", "--scale", "2", "--data", database.path()],
        &["--durability", "async,memory"][..],
        BRIEF,
    ]
    .concat();
    let output = database.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(rows(&output).iter().all(|row| row["consistent"] == true) && rows(&output).len() == 4);
    let loaded = database.files();
    assert!(loaded.contains_key(&database.file("02-2-islands/1/data")), "{:?}", loaded.keys());
    assert!(!loaded.keys().any(|path| path.components().any(|part| part.as_os_str() == "run")));
    let output = database.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(database.files() == loaded, "the second run loaded anew or changed what was there");
    for base in ["01-1-islands", "02-2-islands"] {
        let path = database.file(base);
        assert_eq!(database.run(&["check", "--data", path.to_str().unwrap()]).status.code(), Some(0));
    }
}

/// In `async` mode instances that rely on each other wait for the device only if the data is opened
/// again after a power cut. A sweep runs on copies, and the last deployment on the loaded data
/// itself: both are removed.
#[test]
fn only_data_that_stays_is_synced_for_other_instances() {
    let sandbox = Sandbox::new();
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("db");
    let bench: &[&str] = &[
        "bench",
        "tpcb",
        "--islands",
        "2",
        "--workers",
        "2",
        "--multisite",
        "100",
        "--durability",
        "async",
        "--duration",
        "200ms",
        "--warmup",
        "100ms",
        "--repeat",
        "1",
        "--json",
    ];
    let data: &[&str] = &["--data", place.to_str().unwrap()];
    let syncs = |more: &[&[&str]]| -> Vec<f64> {
        let output = sandbox.run(&[bench, &more.concat()].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let of = |row: &Value| row["fsyncs"].as_f64().unwrap() / row["committed"].as_f64().unwrap();
        rows(&output).iter().map(of).collect()
    };
    let of_sweep = syncs(&[&["--design", "serial,conventional"]]);
    assert_eq!(of_sweep.len(), 2);
    let of_copy = syncs(&[&["--design", "serial"], data]);
    for per_commit in of_sweep.into_iter().chain(of_copy) {
        assert!(per_commit < 0.05, "{per_commit} syncs a commit");
    }
    let kept = syncs(&[&["--design", "serial", "--keep"], data]);
    assert!(kept[0] > 0.05, "{kept:?}");
}

#[test]
fn a_database_of_multi_rooted_trees_remembers_them() {
    let database = Database::load("tpcb", &["--tree", "mrbtree", "--partitions", "3"]);
    database.assert_sound();
    let bench = [&["bench", "tpcb", "--workers", "2", "--data", database.path()], BRIEF].concat();
    let output = database.run(&[&bench[..], &["--durability", "async,memory"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for row in rows(&output) {
        assert_eq!((&row["tree"], &row["partitions"]), (&"mrbtree".into(), &3.into()), "{row}");
        assert_eq!(row["consistent"], true);
    }
    assert_refused(
        &[&bench[..], &["--tree", "btree"]].concat(),
        2,
        &["mrbtree of 3 partitions", "--tree btree"],
    );
    assert_refused(&[&bench[..], &["--partitions", "4"]].concat(), 2, &["3 partitions", "4 partitions"]);
    assert_refused(
        &[&bench[..], &["--partitions", "0"]].concat(),
        2,
        &["--partitions 0: expected 1 to 4096"],
    );
}

#[test]
fn half_a_load_is_refused_and_half_a_copy_is_removed() {
    let database = Database::micro();
    let bench = ["bench", "micro", "--workers", "2", "--data", database.path()];
    fs::create_dir_all(database.file("run/0")).unwrap();
    fs::write(database.file("run/0/data"), "half").unwrap();
    let output = database.run(&[&bench[..], BRIEF].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!database.file("run").exists());

    fs::remove_file(database.file("deployment.json")).unwrap();
    let bench = [&["bench", "micro", "--data", database.path()], SHAPE, BRIEF].concat();
    let before = database.files();
    assert_refused(&bench, 1, &["has not ended", "atoll load"]);
    assert_refused(&[&bench[..], &["--keep"]].concat(), 1, &["has not ended", "atoll load"]);
    assert!(database.files() == before);
}

#[test]
fn loading_again_changes_nothing_and_another_shape_is_refused() {
    let database = Database::micro();
    let before = database.files();
    let again = [&["load", "micro", "--data", database.path(), "--dataset", "4000"], SHAPE].concat();
    let output = database.run(&again);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("already"));
    let same = |name: &str| before[&database.file(name)] == fs::read(database.file(name)).unwrap();
    assert!(same("0/data") && same("1/data"));
    let other = [&["load", "micro", "--data", database.path(), "--dataset", "5000"], SHAPE].concat();
    assert_refused(&other, 2, &["4000 rows", "5000 rows", "another directory"]);
    let more = [&["bench", "micro", "--islands", "1", "--workers", "2", "--data", database.path()], BRIEF];
    assert_refused(&more.concat(), 2, &["2 islands", "1 island"]);
    let other = [&["bench", "tpcb", "--workers", "2", "--scale", "2", "--data", database.path()], BRIEF];
    assert_refused(&other.concat(), 2, &["micro", "tpcb"]);
    database.assert_sound();
}

#[test]
fn what_cannot_be_loaded_or_checked_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    assert_refused(&["load", "counter", "--data", path], 2, &["counter", "micro, tpcb"]);
    assert_refused(&["load", "micro"], 2, &["--data"]);
    assert_refused(&["load", "micro", "--data", path, "--islands", "9", "--workers", "2"], 2, &["9", "2"]);
    let many = ["load", "micro", "--data", path, "--islands", "1", "--workers"];
    assert_refused(&[&many[..], &["2000"]].concat(), 2, &["workers 2000", "at most"]);
    assert_refused(&["check", "--data", "/no/such/place"], 2, &["/no/such/place", "no such directory"]);
    assert_refused(&["check", "--data", path], 2, &[path, "deployment.json"]);
    let letter = dir.path().join("letter.txt");
    fs::write(&letter, "mine").unwrap();
    assert_refused(&["check", "--data", path], 2, &[path, "deployment.json"]);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "a check writes nothing");
    for command in [&["check"][..], &["load", "micro"], &["bench", "micro"]] {
        let args = [command, &["--data", letter.to_str().unwrap()]].concat();
        assert_refused(&args, 2, &["letter.txt", "a file", "expected a directory"]);
    }
    assert_eq!(fs::read_to_string(letter).unwrap(), "mine");
}

#[test]
fn a_load_that_is_interrupted_is_started_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let sandbox = Sandbox::new();
    let args = [&["load", "micro", "--dataset", "3000000", "--data", path], SHAPE].concat();
    let mut child = sandbox.command(&args).spawn().unwrap();
    let begun = || fs::read_dir(dir.path().join("1/log")).is_ok_and(|entries| entries.count() > 0);
    let deadline = Instant::now() + Duration::from_secs(120);
    while !begun() {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "it does not load");
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(child.id(), rustix::process::Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("starts the load anew"), "{}", stderr(&output));
    sandbox.assert_nothing_left();
    assert_refused(&["check", "--data", path], 1, &[path, "has not ended", "atoll load"]);
    let output = sandbox.run(&[&["load", "micro", "--dataset", "2000", "--data", path], SHAPE].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(sandbox.run(&["check", "--data", path]).status.code(), Some(0));
}

#[test]
fn a_database_left_by_kill_9_is_judged_by_what_restart_would_make_of_it() {
    let database = Database::load("tpcb", &[]);
    let sandbox = Sandbox::new();
    let args =
        ["bench", "tpcb", "--workers", "2", "--multisite", "50", "--duration", "60s", "--keep", "--data"];
    let mut child = sandbox.command(&args).arg(database.path()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while sandbox.processes().len() < 3 {
        assert!(Instant::now() < deadline, "the bench does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(1500));
    assert_refused(&["check", "--data", database.path()], 1, &["in use", &child.id().to_string()]);
    child.kill().unwrap();
    child.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while !sandbox.processes().is_empty() {
        assert!(Instant::now() < deadline, "instances outlive their parent");
        std::thread::sleep(Duration::from_millis(10));
    }
    let sum = database.assert_sound();
    let records: u64 = (0..2).map(|i| sum["instances"][i]["log_records"].as_u64().unwrap()).sum();
    assert!(records > 100, "transactions ran and left a log: {sum}");
    // Restart itself gives the same result.
    let args = [&["bench", "tpcb", "--workers", "2", "--data", database.path()], BRIEF].concat();
    let output = database.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    database.assert_sound();
}

/// The offset of a page in the instance's data file that holds rows (kind 4). The first such page
/// belongs to the catalog, and the doublewrite area has copies of the last ones, so neither is
/// chosen.
fn page_of_rows(bytes: &[u8]) -> usize {
    (8192..bytes.len()).step_by(8192).filter(|at| bytes[at + 5] == 4).nth(5).expect("pages with rows")
}

#[test]
fn a_flipped_bit_in_a_page_is_named_with_file_and_place() {
    let database = Database::micro();
    let (mut at, mut page) = (0, Vec::new());
    database.change("1/data", |bytes| {
        at = page_of_rows(bytes);
        page = bytes[at + 64..at + 8192].to_vec();
        bytes[at + 4000] ^= 4;
    });
    // As long as the last batch of writes lies beside the data, its pages would be repaired from
    // there.
    database.change("1/doublewrite", |bytes| {
        let copy = bytes.windows(page.len()).position(|window| window == page);
        bytes[copy.expect("a copy of the page") + 4000] ^= 4;
    });
    let found = database.finding("checksum");
    assert!(found["file"].as_str().unwrap().ends_with("1/data"), "{found}");
    assert_eq!((&found["offset"], &found["instance"]), (&at.into(), &1.into()), "{found}");
    let text = String::from_utf8(database.run(&["check", "--data", database.path()]).stdout).unwrap();
    assert!(text.contains("1/data") && text.contains(&at.to_string()) && text.contains("backup"), "{text}");
}

/// Recomputes the checksum of a page: the damage then looks like that of a bug, not of a device.
fn reseal(page: &mut [u8]) {
    let sum = base::crc32c(&page[4..]);
    page[..4].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn a_row_without_its_entry_and_a_page_of_another_version_are_found() {
    let database = Database::micro();
    database.change("0/data", |bytes| {
        let at = page_of_rows(bytes);
        let page = &mut bytes[at..at + 8192];
        // The slot of the first row: its second byte has the flag of a deleted row, and the page
        // counts such rows.
        page[41] |= 0x80;
        page[36] += 1;
        reseal(page);
    });
    let found = database.finding("does not fit a row");
    assert!(found["what"].as_str().unwrap().contains("slot 0"), "{found}");

    let database = Database::micro();
    database.change("0/data", |bytes| {
        let at = page_of_rows(bytes);
        bytes[at + 4] = 77;
        reseal(&mut bytes[at..at + 8192]);
    });
    let found = database.finding("format 77");
    assert!(found["remedy"].as_str().unwrap().contains("version"), "{found}");
}

#[test]
fn missing_and_damaged_files_are_named() {
    let database = Database::micro();
    fs::remove_file(database.file("0/data")).unwrap();
    let found = database.finding("this file is missing");
    assert!(found["file"].as_str().unwrap().ends_with("0/data"), "{found}");

    let database = Database::micro();
    let segments = || {
        let mut all: Vec<_> =
            fs::read_dir(database.file("1/log")).unwrap().flatten().map(|e| e.path()).collect();
        all.retain(|path| path.file_name().unwrap().to_string_lossy() != "spare-segment");
        all
    };
    segments().iter().for_each(|path| fs::remove_file(path).unwrap());
    let found = database.finding("the log ends");
    assert!(found["file"].as_str().unwrap().contains("1/log"), "{found}");

    let database = Database::micro();
    for name in ["0/control-0", "0/control-1"] {
        if database.file(name).exists() {
            database.change(name, |bytes| *bytes.last_mut().unwrap() ^= 1);
        }
    }
    database.finding("control");

    let database = Database::micro();
    for name in ["0/control-0", "0/control-1"] {
        let _ = fs::remove_file(database.file(name));
    }
    database.finding("control file");

    let database = Database::micro();
    database.change("deployment.json", |text| text.truncate(20));
    assert_refused(&["check", "--data", database.path()], 1, &["deployment.json", "damaged"]);
}

#[test]
fn a_database_of_occ_is_loaded_checked_run_on_and_told_apart() {
    let database = Database::load("tpcb", &["--design", "occ"]);
    let sum = database.assert_sound();
    assert!(sum["instances"][0]["tables"][0]["rows"].as_u64().unwrap() > 0, "{sum}");
    let loaded = database.files();
    let args = ["bench", "tpcb", "--workers", "2", "--data", database.path(), "--design", "occ"];
    for durability in ["sync,memory", "async"] {
        let output = database.run(&[&args[..], &["--durability", durability], BRIEF].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        for row in rows(&output) {
            assert_eq!((&row["islands"], &row["consistent"]), (&2.into(), &true.into()), "{row}");
        }
        assert!(database.files() == loaded, "a bench changed what was loaded");
    }
    let output = database.run(&[&args[..], &["--durability", "sync", "--keep"], BRIEF].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(database.files() != loaded, "--keep kept nothing");
    database.assert_sound();
    let pages =
        database.run(&[&["bench", "tpcb", "--workers", "2", "--data", database.path()], BRIEF].concat());
    assert_eq!(pages.status.code(), Some(2));
    assert!(stderr(&pages).contains("rows in main memory"), "{}", stderr(&pages));
}

#[test]
fn damage_to_a_database_of_occ_is_named() {
    let database = Database::load("micro", &["--dataset", "4000", "--design", "occ"]);
    let part = database.files().into_keys().find(|path| path.to_string_lossy().contains("0/checkpoint-"));
    let part = part.expect("a load ends with a checkpoint");
    let name = part.strip_prefix(database.dir.path()).unwrap().to_string_lossy().into_owned();
    database.change(&name, |bytes| bytes[5000] ^= 1);
    let found = database.finding("block");
    assert!(found["file"].as_str().unwrap().contains("checkpoint-"), "{found}");
    fs::remove_file(&part).unwrap();
    let found = database.finding("missing");
    assert!(found["file"].as_str().unwrap().contains("checkpoint-"), "{found}");
}
