//! `atoll backup` and `atoll restore`.

use super::databases::Database;
use super::directories::{follow, refusal};
use super::*;
use std::fs;
use std::path::PathBuf;

/// A directory for backups and restored databases.
struct Shelf {
    dir: TempDir,
}

impl Shelf {
    fn new() -> Shelf {
        Shelf { dir: tempfile::tempdir().unwrap() }
    }

    fn at(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    /// The names in it, in order.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap().flatten();
        let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn run(args: &[&str]) -> Output {
    let output = Sandbox::new().run(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    output
}

fn flip(path: PathBuf, at: usize) {
    let mut bytes = fs::read(&path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn what_was_backed_up_and_restored_is_the_same_database() {
    for design in ["conventional", "occ"] {
        let database = Database::load("tpcb", &["--design", design]);
        let before = database.files();
        for backup in ["copy", "copy.tar"] {
            let shelf = Shelf::new();
            let (to, again) = (shelf.at(backup), shelf.at("again"));
            let output = run(&["backup", database.path(), "--to", &to]);
            assert!(String::from_utf8_lossy(&output.stdout).contains(&to), "{output:?}");
            assert!(database.files() == before, "a backup changed what it copied");
            run(&["restore", &to, "--to", &again]);
            assert_eq!(shelf.names(), ["again", backup]);
            for (path, bytes) in &before {
                let name = path.strip_prefix(database.dir.path()).unwrap();
                // The manifest differs: a restored database has an identity of its own.
                if name.extension().is_none_or(|ending| ending != "json") {
                    let restored = shelf.dir.path().join("again").join(name);
                    assert!(fs::read(&restored).unwrap() == *bytes, "{}", name.display());
                }
            }
            run(&["check", "--data", &again]);
            let bench = ["bench", "tpcb", "--workers", "2", "--design", design, "--data", &again];
            let output = run(&[&bench[..], BRIEF].concat());
            assert_eq!(rows(&output)[0]["consistent"], true);
            run(&[&bench[..], BRIEF, &["--keep"]].concat());
            run(&["check", "--data", &again]);
        }
        // A restored database does not accept a folder of the original.
        let shelf = Shelf::new();
        run(&["backup", database.path(), "--to", &shelf.at("copy")]);
        run(&["restore", &shelf.at("copy"), "--to", &shelf.at("again")]);
        fs::remove_dir_all(shelf.at("again/1")).unwrap();
        fs::rename(database.file("1"), shelf.at("again/1")).unwrap();
        let text = refusal(&["backup", &shelf.at("again"), "--to", &shelf.at("third")], 1);
        assert!(text.contains("another database"), "{text}");
    }
}

#[test]
fn a_database_left_by_a_crash_is_backed_up_as_it_is() {
    let database = Database::load("tpcb", &[]);
    let sandbox = Sandbox::new();
    let args = ["bench", "tpcb", "--workers", "2", "--duration", "60s", "--keep", "--data"];
    let mut child = sandbox.command(&args).arg(database.path()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while sandbox.processes().len() < 3 {
        assert!(Instant::now() < deadline, "the bench does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    let shelf = Shelf::new();
    let text = refusal(&["backup", database.path(), "--to", &shelf.at("copy")], 1);
    assert!(text.contains("in use") && text.contains(&child.id().to_string()), "{text}");
    assert_eq!(shelf.names(), [""; 0]);
    child.kill().unwrap();
    child.wait().unwrap();
    while !sandbox.processes().is_empty() {
        assert!(Instant::now() < deadline, "instances outlive their parent");
        std::thread::sleep(Duration::from_millis(10));
    }
    run(&["backup", database.path(), "--to", &shelf.at("copy")]);
    run(&["restore", &shelf.at("copy"), "--to", &shelf.at("again")]);
    run(&["check", "--data", &shelf.at("again")]);
}

#[test]
fn nothing_is_overwritten_and_a_backup_is_no_database() {
    let database = Database::micro();
    let shelf = Shelf::new();
    for name in ["copy", "copy.tar"] {
        let to = shelf.at(name);
        run(&["backup", database.path(), "--to", &to]);
        let text = refusal(&["backup", database.path(), "--to", &to], 2);
        assert!(text.contains(&to) && text.contains("exists"), "{text}");
        let text = refusal(&["restore", &to, "--to", database.path()], 2);
        assert!(text.contains(database.path()) && text.contains("exists"), "{text}");
    }
    database.assert_sound();
    let copy = shelf.at("copy");
    for command in [&["check"][..], &["load", "micro"], &["bench", "micro"]] {
        let text = refusal(&[command, &["--data", &copy]].concat(), 2);
        assert!(text.contains("backup"), "{text}");
        let restored = follow(&text);
        assert!(String::from_utf8_lossy(&restored.stdout).contains("restored"));
        let other = super::directories::advised(&text)[0].last().unwrap().clone();
        fs::remove_dir_all(other).unwrap();
    }
    let text = refusal(&["restore", database.path(), "--to", &shelf.at("again")], 2);
    assert!(text.contains("no backup") && text.contains("backup.json"), "{text}");
    let text = refusal(&["restore", &shelf.at("nothere"), "--to", &shelf.at("again")], 2);
    assert!(text.contains("nothere"), "{text}");
    let text = refusal(&["backup", &shelf.at("nothere"), "--to", &shelf.at("again")], 2);
    assert!(text.contains("nothere"), "{text}");
    // The destination may be an existing empty directory.
    fs::create_dir(shelf.at("again")).unwrap();
    run(&["restore", &copy, "--to", &shelf.at("again")]);
    run(&["check", "--data", &shelf.at("again")]);
}

#[test]
fn a_backup_that_is_not_what_was_written_is_refused_and_leaves_nothing() {
    let database = Database::micro();
    let shelf = Shelf::new();
    let (copy, tar) = (shelf.at("copy"), shelf.at("copy.tar"));
    run(&["backup", database.path(), "--to", &copy]);
    run(&["backup", database.path(), "--to", &tar]);
    let again = shelf.at("again");
    let refused = |from: &str, parts: &[&str]| {
        let text = refusal(&["restore", from, "--to", &again], 1);
        parts.iter().for_each(|part| assert!(text.contains(part), "{part:?} in {text}"));
        assert_eq!(shelf.names(), ["copy", "copy.tar"]);
    };
    let data = PathBuf::from(&copy).join("database/1/data");
    flip(data.clone(), 12345);
    refused(&copy, &["1/data", "checksum"]);
    flip(data.clone(), 12345);
    let length = fs::metadata(&data).unwrap().len();
    fs::File::options().write(true).open(&data).unwrap().set_len(length - 1).unwrap();
    refused(&copy, &["1/data", "bytes"]);
    fs::remove_file(&data).unwrap();
    refused(&copy, &["1/data", "missing"]);

    let bytes = fs::read(&tar).unwrap();
    flip(tar.clone().into(), bytes.len() / 2);
    refused(&tar, &["checksum"]);
    for length in [1000, bytes.len() / 2, bytes.len() / 2 + 512] {
        fs::write(&tar, &bytes[..length]).unwrap();
        refused(&tar, &["cut short"]);
    }
    fs::write(&tar, "something else").unwrap();
    refused(&tar, &["copy.tar"]);
}

/// An interrupted backup leaves nothing, and the next attempt removes the remains of a killed one.
#[test]
fn ctrl_c_leaves_nothing_and_a_killed_backup_is_begun_anew() {
    let database = Database::micro();
    // A sparse file takes no space, but a long time to read.
    let data = database.file("1/data");
    let length = fs::metadata(&data).unwrap().len();
    let stretch = |length| fs::File::options().write(true).open(&data).unwrap().set_len(length).unwrap();
    let shelf = Shelf::new();
    for name in ["copy", "copy.tar"] {
        let sandbox = Sandbox::new();
        let to = shelf.at(name);
        let partial = format!("{to}.atoll-partial");
        for end in [rustix::process::Signal::INT, rustix::process::Signal::KILL] {
            stretch(64 << 30);
            let mut child = sandbox.command(&["backup", database.path(), "--to", &to]).spawn().unwrap();
            let (within, file) = (Path::new(&partial).join("database/1/data"), Path::new(&partial));
            let begun = || within.exists() || file.metadata().is_ok_and(|m| m.is_file() && m.len() > 0);
            let deadline = Instant::now() + Duration::from_secs(120);
            while !begun() {
                let ended = child.try_wait().unwrap();
                assert!(Instant::now() < deadline && ended.is_none(), "it does not begin: {ended:?}");
                std::thread::sleep(Duration::from_millis(2));
            }
            if end == rustix::process::Signal::INT {
                let text = refusal(&["backup", database.path(), "--to", &to], 1);
                assert!(text.contains("being written by another process"), "{text}");
                let bench = ["bench", "micro", "--workers", "2", "--data", database.path()];
                let text = refusal(&[&bench[..], BRIEF].concat(), 1);
                assert!(text.contains("in use"), "{text}");
            }
            signal(child.id(), end);
            let output = child.wait_with_output().unwrap();
            assert!(!Path::new(&to).exists(), "half a backup has the name of a whole one");
            if end == rustix::process::Signal::KILL {
                assert_eq!(shelf.names(), [format!("{name}.atoll-partial")]);
            }
            if end == rustix::process::Signal::INT {
                assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
                assert_eq!(shelf.names().iter().filter(|n| n.contains("partial")).count(), 0);
            }
        }
        stretch(length);
        run(&["backup", database.path(), "--to", &to]);
        assert_eq!(shelf.names(), [name]);
        match name {
            "copy" => fs::remove_dir_all(&to).unwrap(),
            _ => fs::remove_file(&to).unwrap(),
        }
    }
}

/// A small file system of its own, if this process may mount one.
struct Mounted(TempDir);

impl Mounted {
    fn new(options: &str) -> Option<Mounted> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "none"]).arg(dir.path()).stderr(Stdio::null());
        let mounted = mount.status().is_ok_and(|status| status.success());
        if !mounted {
            eprintln!("skipped: this user cannot mount a small file system to fill up");
        }
        mounted.then_some(Mounted(dir))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Errors are ignored, so that a failed test keeps its own message.
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_named_and_nothing_is_left_on_it() {
    let database = Database::micro();
    let shelf = Shelf::new();
    let whole = shelf.at("whole.tar");
    run(&["backup", database.path(), "--to", &whole]);
    // Too little space from the start, and space that runs out on the way: room for some files
    // only.
    for options in ["size=1m", "size=512m,nr_inodes=6"] {
        let Some(small) = Mounted::new(options) else { return };
        let path = |name: &str| small.0.path().join(name).to_str().unwrap().to_owned();
        for args in
            [["backup", database.path(), "--to", &path("copy")], ["restore", &whole, "--to", &path("again")]]
        {
            let text = refusal(&args, 1);
            let said = text.contains("MiB free") || text.contains("No space left on device");
            assert!(said && text.contains(small.0.path().to_str().unwrap()), "{text}");
            assert_eq!(fs::read_dir(small.0.path()).unwrap().count(), 0, "{args:?} left something");
        }
    }
}
