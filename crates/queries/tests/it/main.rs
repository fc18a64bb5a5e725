//! Scripts of statements, on queries over the naive model of an engine, and on PostgreSQL.
//!
//! The scripts have the form of `sqllogictest`. Each answer in them is PostgreSQL's.

mod atoll;
mod differ;
mod functions;
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

/// PostgreSQL takes these, with a meaning that parts run one after another do not have.
#[test]
fn parts_of_with_that_would_mean_something_else_are_refused() {
    let mut database = atoll::Atoll::new();
    for text in [
        "CREATE TABLE p (id int PRIMARY KEY, n int)",
        "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p (id), n int)",
        "CREATE TABLE o (id int PRIMARY KEY REFERENCES c (id) ON DELETE CASCADE)",
    ] {
        database.run(text).expect(text);
    }
    for text in [
        "WITH d AS (DELETE FROM p RETURNING *) INSERT INTO p SELECT id + 1, n FROM d",
        "WITH i AS (INSERT INTO p VALUES (1, 1) ON CONFLICT DO NOTHING) INSERT INTO p VALUES (1, 2)",
        "WITH i AS (INSERT INTO c VALUES (1, 1, 1)) INSERT INTO p VALUES (1, 1)",
        "WITH d AS (DELETE FROM p RETURNING id) DELETE FROM c WHERE p IN (SELECT id FROM d)",
        "WITH d AS (DELETE FROM c) UPDATE o SET id = 1",
        "WITH d AS (DELETE FROM p RETURNING (SELECT max(id) FROM c)) SELECT * FROM d",
    ] {
        assert_eq!(database.run(text), Err("0A000".into()), "{text}");
    }
    for text in [
        "WITH u AS (UPDATE p SET n = 2) INSERT INTO c VALUES (1, NULL, 1)",
        "WITH i AS (INSERT INTO c VALUES (2, NULL, 1)) UPDATE p SET n = 3",
        "WITH d AS (DELETE FROM c WHERE id = 1) DELETE FROM p",
        "WITH i AS (INSERT INTO p VALUES (1, 1)) INSERT INTO p VALUES (2, 2)",
    ] {
        assert!(database.run(text).is_ok(), "{text}");
    }
}
