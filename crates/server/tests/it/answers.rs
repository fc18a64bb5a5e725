//! Statements with PostgreSQL 15's answers: time zones, columns that get other types, arrays,
//! constraints, JSON, views, tables of queries, functions.
//!
//! A line of a file is the session's time zone, a text of statements, and the answer: rows with
//! `|` between columns and `;` behind each row, or the code and the message of the error, with the
//! detail of a constraint's. Where
//! `ATOLL_TEST_POSTGRESQL` names a server (`host=... port=... user=...`), the files are compared
//! with what it answers too; its output is what the file has to say.

use crate::bench::Bench;
use tokio_postgres::{Client, SimpleQueryMessage};

const ZONES: &str = include_str!("answers/zones.tsv");
const ARRAYS: &str = include_str!("answers/arrays.tsv");
const CONSTRAINTS: &str = include_str!("answers/constraints.tsv");
const JSON: &str = include_str!("answers/json.tsv");
const VIEWS: &str = include_str!("answers/views.tsv");
const TABLES: &str = include_str!("answers/tables.tsv");
const FUNCTIONS: &str = include_str!("answers/functions.tsv");

async fn answer(client: &Client, zone: &str, text: &str) -> String {
    let set = format!("SET TimeZone = '{zone}'");
    client.batch_execute(&set).await.unwrap_or_else(|error| panic!("{set}: {error:?}"));
    let answer = match client.simple_query(text).await {
        Ok(messages) => messages.iter().filter_map(row).collect(),
        Err(error) => match error.as_db_error() {
            Some(error) => {
                let detail = error.detail().filter(|_| error.code().code().starts_with("23"));
                let detail = detail.map_or_else(String::new, |detail| format!(" ({detail})"));
                format!("{}: {}{detail}", error.code().code(), error.message())
            }
            None => panic!("{text}: {error:?}"),
        },
    };
    client.batch_execute("ROLLBACK; RESET ALL").await.expect("the session goes on");
    answer
}

fn row(message: &SimpleQueryMessage) -> Option<String> {
    let SimpleQueryMessage::Row(row) = message else { return None };
    let columns: Vec<&str> = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL")).collect();
    Some(columns.join("|") + ";")
}

/// The lines that `client` answers otherwise.
async fn others(client: &Client, file: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for line in file.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let [zone, text, expected] = columns[..] else { panic!("no columns: {line}") };
        let found = answer(client, zone, text).await;
        if found != expected {
            wrong.push(format!("{zone}\t{text}\t{found}"));
        }
    }
    wrong
}

async fn check(file: &str) {
    let bench = Bench::new().await;
    let wrong = others(&bench.client().await, file).await;
    let count = file.lines().count();
    assert!(count > 35, "the file has {count} lines");
    assert!(wrong.is_empty(), "{} of {count} answers differ:\n{}", wrong.len(), wrong.join("\n"));
    let Ok(postgresql) = std::env::var("ATOLL_TEST_POSTGRESQL") else {
        return eprintln!("not compared with PostgreSQL: ATOLL_TEST_POSTGRESQL names none");
    };
    let connecting = tokio_postgres::connect(&postgresql, tokio_postgres::NoTls);
    let (client, connection) = connecting.await.expect("PostgreSQL");
    tokio::spawn(connection);
    let wrong = others(&client, file).await;
    assert!(wrong.is_empty(), "PostgreSQL answers:\n{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_in_zones_are_those_of_postgresql() {
    check(ZONES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arrays_are_those_of_postgresql() {
    check(ARRAYS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_constraints_are_told_as_by_postgresql() {
    check(CONSTRAINTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_are_built_as_by_postgresql() {
    check(JSON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_are_those_of_postgresql() {
    check(VIEWS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_queries_are_those_of_postgresql() {
    check(TABLES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_are_those_of_postgresql() {
    check(FUNCTIONS).await;
}

/// Values pass in both forms, as parameters and as results.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arrays_pass_in_binary_form() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY, tags text[], n int[] DEFAULT '{}')")
        .await
        .unwrap();
    let tags = vec![Some("a b"), None, Some("\"")];
    let insert = "INSERT INTO t VALUES ($1, $2, $3) RETURNING tags, n";
    let row = client.query_one(insert, &[&1i32, &tags, &vec![3i32, -1]]).await.unwrap();
    assert_eq!(row.get::<_, Vec<Option<&str>>>(0), tags);
    assert_eq!(row.get::<_, Vec<i32>>(1), [3, -1]);
    client.execute("INSERT INTO t (id) VALUES (2)", &[]).await.unwrap();
    let rows = client.query("SELECT n, tags FROM t ORDER BY id", &[]).await.unwrap();
    assert_eq!(rows[1].get::<_, Vec<i32>>(0), Vec::<i32>::new());
    assert_eq!(rows[1].get::<_, Option<Vec<Option<&str>>>>(1), None);
    let found =
        client.query_one("SELECT array_agg(id) FROM t WHERE $1 = ANY (tags)", &[&"a b"]).await.unwrap();
    assert_eq!(found.get::<_, Vec<i32>>(0), [1]);
    let by_key = client.query("SELECT id FROM t WHERE id = ANY ($1) ORDER BY id", &[&vec![2i32, 1]]).await;
    assert_eq!(by_key.unwrap().len(), 2);
}
