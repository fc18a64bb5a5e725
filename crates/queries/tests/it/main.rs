//! Scripts of statements, on queries over the naive model of an engine, and on PostgreSQL.
//!
//! The scripts have the form of `sqllogictest`. Each answer in them is PostgreSQL's.

mod atoll;
mod differ;
mod postgres;
mod random;
mod script;

use std::path::PathBuf;

fn scripts() -> Vec<PathBuf> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/scripts");
    let entries = std::fs::read_dir(dir).expect("the scripts");
    let mut scripts: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    scripts.sort();
    assert!(!scripts.is_empty());
    scripts
}

#[test]
fn scripts_on_atoll() {
    let mut wrong = Vec::new();
    for path in scripts() {
        let mut database = atoll::Atoll::new();
        wrong.extend(script::run(&path, &mut |text| database.run(text)));
    }
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn scripts_on_postgresql() {
    let Some(server) = postgres::Server::find() else {
        return eprintln!("PostgreSQL 15 cannot be started here, so this test is skipped");
    };
    for path in scripts() {
        let mut other = server.renew("atoll_scripts");
        let wrong = script::run(&path, &mut |text| other.run(text));
        assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
    }
}
