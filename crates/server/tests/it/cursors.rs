//! Cursors, statements that name others, savepoints of definitions, places and order of errors.

use crate::bench::Bench;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::error::{ErrorPosition, SqlState};

/// The first column of the rows of a text.
async fn column(client: &tokio_postgres::Client, text: &str) -> Vec<String> {
    let answers = client.simple_query(text).await.unwrap();
    let of = |answer: &SimpleQueryMessage| match answer {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("null").to_owned()),
        _ => None,
    };
    answers.iter().filter_map(of).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_gives_its_rows_in_parts() {
    let bench = Bench::new().await;
    let mut client = bench.client().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY)").await.unwrap();
    client.batch_execute("INSERT INTO t SELECT * FROM generate_series(1, 5)").await.unwrap();
    let outside = client.batch_execute("DECLARE c CURSOR FOR SELECT a FROM t").await.unwrap_err();
    assert_eq!(outside.code(), Some(&SqlState::NO_ACTIVE_SQL_TRANSACTION));
    client.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a").await.unwrap();
    client.batch_execute("DELETE FROM t WHERE a = 3").await.unwrap();
    assert_eq!(column(&client, "FETCH 2 FROM c").await, ["1", "2"]);
    assert_eq!(column(&client, "MOVE c; FETCH NEXT FROM c").await, ["4"]);
    assert_eq!(column(&client, "FETCH BACKWARD ALL FROM c").await, ["3", "2", "1"]);
    assert_eq!(column(&client, "FETCH LAST FROM c; FETCH c").await, ["5"]);
    client.batch_execute("CLOSE c").await.unwrap();
    let closed = client.simple_query("FETCH c").await.unwrap_err();
    assert_eq!(closed.code(), Some(&SqlState::INVALID_CURSOR_NAME));
    client.batch_execute("ROLLBACK").await.unwrap();
    let txn = client.transaction().await.unwrap();
    txn.execute("DECLARE c CURSOR WITH HOLD FOR SELECT a FROM t WHERE a > $1 ORDER BY a", &[&2i32])
        .await
        .unwrap();
    txn.batch_execute("DECLARE gone CURSOR FOR SELECT 1").await.unwrap();
    txn.commit().await.unwrap();
    let rows = client.query("FETCH 2 FROM c", &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, i32>("a")).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(column(&client, "FETCH ALL c").await, ["5"]);
    assert!(client.simple_query("FETCH gone").await.is_err());
    client.batch_execute("CLOSE ALL").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_statement_is_executed_by_the_extended_protocol() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute("PREPARE p (int) AS SELECT $1 + 1 AS next").await.unwrap();
    let row = client.query_one("EXECUTE p (4)", &[]).await.unwrap();
    assert_eq!(row.get::<_, i32>("next"), 5);
    let none = client.query("EXECUTE q (4)", &[]).await.unwrap_err();
    assert_eq!(none.code(), Some(&SqlState::INVALID_SQL_STATEMENT_NAME));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_are_undone_to_a_savepoint() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client
        .batch_execute(
            "BEGIN; CREATE TABLE first (a int PRIMARY KEY); SAVEPOINT s; CREATE TABLE second (a int);
             INSERT INTO second VALUES (1); INSERT INTO first VALUES (1);
             ALTER TABLE first ADD COLUMN b int; ROLLBACK TO s; CREATE TABLE second (b text);
             INSERT INTO second VALUES ('x'); INSERT INTO first VALUES (2); COMMIT",
        )
        .await
        .unwrap();
    assert_eq!(column(&client, "SELECT * FROM first").await, ["2"]);
    assert_eq!(column(&client, "SELECT b FROM second").await, ["x"]);
    client
        .batch_execute("BEGIN; SAVEPOINT s; CREATE TABLE third (a int); ROLLBACK TO s; COMMIT")
        .await
        .unwrap();
    client
        .batch_execute("CREATE TABLE third (a int PRIMARY KEY); INSERT INTO third VALUES (1)")
        .await
        .unwrap();
    assert_eq!(column(&client, "SELECT a FROM third").await, ["1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_have_the_place_and_the_order_of_postgresql() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b int NOT NULL)").await.unwrap();
    let place = async |text: &str| {
        let error = client.batch_execute(text).await.unwrap_err();
        let position = error.as_db_error().unwrap().position().cloned();
        match position {
            Some(ErrorPosition::Original(at)) => at,
            _ => 0,
        }
    };
    assert_eq!(place("SELECT a, c FROM t").await, 11);
    assert_eq!(place("SELECT 'é';\n  SELECT a FROM u").await, 29);
    assert_eq!(place("EXPLAIN SELECT nothing(1)").await, 16);
    let state = async |text: &str| client.batch_execute(text).await.unwrap_err().code().unwrap().clone();
    // The first row that fails is told, though a later one fails before any is stored.
    assert_eq!(state("INSERT INTO t VALUES (1, 1), (1, 2), (2, NULL)").await, SqlState::UNIQUE_VIOLATION);
    assert_eq!(state("INSERT INTO t VALUES (1, NULL), (2, 1), (2, 2)").await, SqlState::NOT_NULL_VIOLATION);
    assert_eq!(column(&client, "SELECT count(*) FROM t").await, ["0"]);
}
