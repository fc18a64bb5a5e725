//! `check` and opening find the same missing and mixed-up parts of a database, in the same words.

use super::databases::Database;
use super::directories::refusal;
use super::*;
use std::fs;
use std::path::Path;

fn both() -> [Database; 2] {
    [Database::micro(), Database::load("micro", &["--dataset", "4000", "--design", "occ"])]
}

fn is_memory(database: &Database) -> bool {
    database.file("0/control").exists() || database.file("1/control").exists()
}

fn bench(database: &Database) -> Vec<&str> {
    let design: &[&str] = if is_memory(database) { &["--design", "occ"] } else { &[] };
    [&["bench", "micro", "--workers", "2", "--data", database.path()], design, BRIEF].concat()
}

/// Check and opening both find the damage: `what` is in the finding and in the refusal. No file is
/// changed.
fn assert_found_by_both(database: &Database, what: &str) {
    let before = database.files();
    let found = database.finding(what);
    let sentence = found["what"].as_str().unwrap();
    for args in [bench(database), [&bench(database)[..], &["--keep"]].concat()] {
        let text = refusal(&args, 1);
        assert!(text.contains(sentence), "{sentence:?} in {text}");
        assert!(text.contains(found["remedy"].as_str().unwrap()), "{found} in {text}");
        assert!(before == database.files(), "a refused opening changed a file");
    }
}

#[test]
fn a_missing_instance_folder_is_found_and_not_made_anew() {
    for database in both() {
        fs::remove_dir_all(database.file("1")).unwrap();
        assert_found_by_both(&database, "instance 1's folder is missing");
        assert!(!database.file("1").exists());
    }
}

#[test]
fn swapped_folders_and_folders_of_another_database_are_found() {
    for (database, other) in both().into_iter().zip(both()) {
        let rename = |from: &str, to: &str| fs::rename(database.file(from), database.file(to)).unwrap();
        let swap = || {
            rename("0", "aside");
            rename("1", "0");
            rename("aside", "1");
        };
        swap();
        assert_found_by_both(&database, "it is instance 1's folder");
        swap();
        database.assert_sound();
        fs::remove_dir_all(database.file("1")).unwrap();
        copy(&other.file("1"), &database.file("1"));
        assert_found_by_both(&database, "another database");
        fs::remove_dir_all(database.file("1")).unwrap();
        fs::create_dir(database.file("1")).unwrap();
        assert_found_by_both(&database, "does not say which instance's folder it is");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        match entry.metadata().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

#[test]
fn missing_files_of_an_instance_are_found() {
    for name in ["doublewrite", "data", "log"] {
        let database = Database::micro();
        let path = database.file("0").join(name);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
        assert_found_by_both(&database, "this file is missing");
    }
    let database = Database::micro();
    for name in ["0/control-0", "0/control-1"] {
        let _ = fs::remove_file(database.file(name)); // A new database has only one of them.
    }
    assert_found_by_both(&database, "no control file");
    let [_, database] = both();
    fs::remove_file(database.file("0/control")).unwrap();
    assert_found_by_both(&database, "this file is missing");
}

#[test]
fn another_schema_number_and_another_number_of_islands_are_found() {
    for database in both() {
        let text = fs::read_to_string(database.file("deployment.json")).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        let schema = value["schema"].as_u64().unwrap();
        let change = |from: String, to: String| {
            assert!(text.contains(&from), "{from} in {text}");
            fs::write(database.file("deployment.json"), text.replace(&from, &to)).unwrap();
        };
        change(format!("\"schema\": {schema}"), format!("\"schema\": {}", schema ^ 1));
        assert_found_by_both(&database, &format!("schema {:08x}", schema ^ 1));
        change("\"islands\": 2".into(), "\"islands\": 1".into());
        assert_found_by_both(&database, "of 2 instances");
        change("\"islands\": 2".into(), "\"islands\": 0".into());
        let text = refusal(&["check", "--data", database.path()], 1);
        assert!(text.contains("names no instance"), "{text}");
        assert_eq!(refusal(&bench(&database), 1), text);
    }
}

/// Databases of versions that did not number their folders.
#[test]
fn a_database_without_identities_opens_as_before() {
    for database in both() {
        let text = fs::read_to_string(database.file("deployment.json")).unwrap();
        let mut value: Value = serde_json::from_str(&text).unwrap();
        value.as_object_mut().unwrap().remove("identity").expect("a database has an identity");
        fs::write(database.file("deployment.json"), value.to_string()).unwrap();
        for instance in ["0", "1"] {
            fs::remove_file(database.file(instance).join("instance.json")).unwrap();
        }
        let (code, lines) = database.check();
        assert_eq!(code, 0, "{lines:?}");
        let note = lines.iter().find(|line| line["weight"] == "note" && line["instance"].is_null());
        let note = note.unwrap_or_else(|| panic!("{lines:?}"));
        assert!(note["what"].as_str().unwrap().contains("swapped"), "{note}");
        let output = database.run(&bench(&database));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        fs::remove_dir_all(database.file("1")).unwrap();
        assert_found_by_both(&database, "instance 1's folder is missing");
    }
}
