//! Which directory a run may use: databases, directories of sweeps, files of other programs, and
//! the advice in refusals.

use super::databases::{Database, SHAPE};
use super::*;
use std::fs;

/// The commands that a message puts between backquotes, split into words.
pub(super) fn advised(text: &str) -> Vec<Vec<String>> {
    let commands = text.split('`').skip(1).step_by(2).filter_map(|c| c.strip_prefix("atoll "));
    commands.map(|c| c.split_whitespace().map(str::to_owned).collect()).collect()
}

/// The error message of a refused command.
pub(super) fn refusal(args: &[&str], code: i32) -> String {
    let output = Sandbox::new().run(args);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
    let last = text.lines().rfind(|line| line.starts_with("atoll: ")).unwrap_or_default();
    last.to_owned()
}

/// Runs the first command that `text` advises.
pub(super) fn follow(text: &str) -> Output {
    let command = advised(text).into_iter().next().unwrap_or_else(|| panic!("no command in {text}"));
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let output = Sandbox::new().run(&words);
    assert_eq!(output.status.code(), Some(0), "{words:?}, as advised by {text}: {}", stderr(&output));
    output
}

fn bench<'a>(workload: &'a str, data: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["bench", workload, "--workers", "2", "--data", data], BRIEF, more].concat()
}

#[test]
fn a_sweep_never_puts_databases_into_a_database() {
    let database = Database::shaped("tpcb", &["--islands", "1", "--scale", "2"]);
    let loaded = database.files();
    let text = refusal(&bench("tpcb", database.path(), &["--islands", "1,2"]), 2);
    for part in [database.path(), "tpcb with 2 branches", "--islands 2", "--islands 1"] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    assert!(database.files() == loaded, "a refused sweep changed something");
    let output = follow(&text);
    assert_eq!(rows(&output)[0]["islands"], 1);
    assert!(database.files() == loaded);
    database.assert_sound();
}

#[test]
fn a_sweep_whose_deployments_all_fit_runs_on_copies_of_what_is_there() {
    let database = Database::load("tpcb", &[]);
    let loaded = database.files();
    let sweep = ["--design", "conventional,serial,logical", "--durability", "async,memory"];
    let output = database.run(&bench("tpcb", database.path(), &sweep));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows = rows(&output);
    assert!(rows.len() == 6 && rows.iter().all(|row| row["consistent"] == true), "{rows:?}");
    assert!(database.files() == loaded, "the sweep changed what was loaded");

    let text = refusal(&bench("tpcb", database.path(), &[&["--keep"][..], &sweep[..2]].concat()), 2);
    assert!(text.contains("--keep") && text.contains("3 deployments"), "{text}");
    assert!(database.files() == loaded);
}

#[test]
fn a_directory_of_a_sweep_says_what_it_is_and_is_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database { dir };
    let sweep = database.dir.path().join("sweep");
    let path = sweep.to_str().unwrap();
    let shape = ["--scale", "2", "--islands"];
    let run = |islands: &str| {
        let output = database.run(&bench("tpcb", path, &[&shape[..], &[islands]].concat()));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        rows(&output)
    };
    assert_eq!(run("1,2").len(), 2);
    let loaded = database.files();
    assert!(sweep.join("sweep.json").exists(), "{:?}", loaded.keys());

    let text = refusal(&["check", "--data", path], 2);
    for part in [path, "sweep", "01-1-islands", "02-2-islands", "tpcb with 2 branches"] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    follow(&text);
    let text = refusal(&["load", "tpcb", "--data", path, "--scale", "3", "--workers", "2"], 2);
    assert!(text.contains("sweep") && text.contains("01-1-islands"), "{text}");
    let output = follow(&text);
    assert!(String::from_utf8_lossy(&output.stdout).contains("loaded"), "a directory of its own");
    let other = advised(&text)[0].iter().skip_while(|word| *word != "--data").nth(1).unwrap().clone();
    assert!(!std::path::Path::new(&other).starts_with(&sweep), "{other}");
    fs::remove_dir_all(other).unwrap();

    // A single deployment finds its database wherever it is in the directory of the sweep.
    assert_eq!(run("2")[0]["islands"], 2);
    assert_eq!(run("2,1").len(), 2);
    assert!(database.files() == loaded, "a later run loaded anew or changed what was there");
    let more = database.run(&bench("tpcb", path, &["--scale", "3", "--islands", "1"]));
    assert_eq!(more.status.code(), Some(0), "{}", stderr(&more));
    assert!(sweep.join("03-1-islands/deployment.json").exists());
    assert!(loaded.iter().all(|(name, bytes)| fs::read(name).unwrap() == *bytes));
}

#[test]
fn half_a_load_in_a_sweep_is_started_anew_and_half_a_load_is_no_place_for_a_sweep() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let sweep = bench("tpcb", path, &["--scale", "2", "--islands", "1,2"]);
    let output = Sandbox::new().run(&sweep);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    fs::remove_file(dir.path().join("02-2-islands/deployment.json")).unwrap();
    let output = Sandbox::new().run(&sweep);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(dir.path().join("02-2-islands/deployment.json").exists());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "two databases and sweep.json");

    let database = Database::load("tpcb", &[]);
    fs::remove_file(database.file("deployment.json")).unwrap();
    let before = database.files();
    let text = refusal(&bench("tpcb", database.path(), &["--scale", "2", "--islands", "1,2"]), 1);
    assert!(text.contains("has not ended") && text.contains("atoll load"), "{text}");
    assert!(database.files() == before);
}

#[test]
fn what_does_not_fit_is_refused_with_the_difference_and_a_command_that_fits() {
    let database = Database::load("tpcb", &[]);
    let loaded = database.files();
    for (options, parts) in [
        (&["--islands", "1"][..], &["--islands 1", "--islands 2"][..]),
        (&["--scale", "3"], &["3 branches", "2 branches"]),
        (&["--accounts", "500"], &["500 accounts", "accounts"]),
        (&["--design", "occ"], &["--design occ", "pages"]),
        (&["--design", "plp-leaf"], &["plp-leaf", "btree", "shared"]),
        (&["--design", "plp-regular"], &["plp-regular", "btree"]),
        (&["--tables", "clustered"], &["--tables clustered", "--tables heap"]),
        (&["--tree", "mrbtree"], &["--tree mrbtree", "--tree btree"]),
    ] {
        let text = refusal(&bench("tpcb", database.path(), options), 2);
        for part in [database.path()].iter().chain(parts) {
            assert!(text.contains(part), "{options:?}: {part:?} in {text}");
        }
        let output = follow(&text);
        assert_eq!(rows(&output)[0]["consistent"], true, "{text}");
        assert!(database.files() == loaded, "{options:?} changed what was loaded");
    }
    let text = refusal(&bench("micro", database.path(), &[]), 2);
    assert!(text.contains("micro") && text.contains("tpcb with 2 branches"), "{text}");
    follow(&text);

    let load = ["load", "tpcb", "--islands", "2", "--workers", "2", "--scale", "3", "--data"];
    let text = refusal(&[&load[..], &[database.path()]].concat(), 2);
    assert!(text.contains("3 branches") && text.contains("2 branches"), "{text}");
    let output = follow(&text);
    assert!(String::from_utf8_lossy(&output.stdout).contains("loaded"), "another directory");
    let other = advised(&text)[0].iter().skip_while(|word| *word != "--data").nth(1).unwrap().clone();
    assert_ne!(other, database.path());
    fs::remove_dir_all(other).unwrap();
    assert!(database.files() == loaded);
}

#[test]
fn a_database_in_main_memory_refuses_pages_with_the_command_that_fits() {
    let database = Database::load("tpcb", &["--design", "occ"]);
    let loaded = database.files();
    let text = refusal(&bench("tpcb", database.path(), &["--design", "serial"]), 2);
    assert!(text.contains("--design serial") && text.contains("--design occ"), "{text}");
    let output = follow(&text);
    assert_eq!(rows(&output)[0]["design"], "occ");
    assert!(database.files() == loaded);
}

#[test]
fn strangers_files_are_left_alone_and_forbid_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database { dir };
    fs::create_dir(database.file("lost+found")).unwrap();
    fs::write(database.file("notes.txt"), "mine").unwrap();
    let load = [&["load", "micro", "--dataset", "4000", "--data", database.path()], SHAPE].concat();
    let output = database.run(&load);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    fs::write(database.file("0/notes.txt"), "mine").unwrap();
    fs::write(database.file("7"), "mine").unwrap();
    database.assert_sound();
    fs::remove_file(database.file("lock")).unwrap();
    let output = database.run(&bench("micro", database.path(), &[]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(database.file("lock").exists(), "the lock is made anew");
    fs::remove_file(database.file("lock")).unwrap();
    database.assert_sound();
    assert_eq!(fs::read_to_string(database.file("notes.txt")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(database.file("7")).unwrap(), "mine");
    assert!(database.file("lost+found").exists());
}

#[test]
fn a_folder_with_a_name_that_a_load_would_use_is_not_taken_away() {
    for (name, inside) in [("0", "thesis.txt"), ("run", "thesis.txt"), ("01-1-islands", "thesis.txt")] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join(inside), "mine").unwrap();
        let commands = match name {
            "01-1-islands" => vec![bench("micro", path, &["--islands", "1,2"])],
            _ => vec![
                bench("micro", path, &["--islands", "1"]),
                vec!["load", "micro", "--data", path, "--workers", "2"],
            ],
        };
        for args in commands {
            match name {
                // A sweep takes the next free number.
                "01-1-islands" => {
                    let output = Sandbox::new().run(&args);
                    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
                }
                _ => assert_refused(&args, 2, &[path, name, "another directory"]),
            }
            assert_eq!(fs::read_to_string(dir.path().join(name).join(inside)).unwrap(), "mine");
        }
    }
}

#[test]
fn a_lock_that_was_removed_does_not_let_a_second_run_in() {
    let sandbox = Sandbox::new();
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("db");
    let mut child = long_bench(&sandbox, &data);
    fs::remove_file(data.join("lock")).unwrap();
    assert_refused(&["check", "--data", data.to_str().unwrap()], 1, &["in use"]);
    signal(child.id(), rustix::process::Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
