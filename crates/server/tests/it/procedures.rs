//! Procedures and functions in SQL.

use crate::bench::Bench;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::error::SqlState;

const TABLES: &str = "
    CREATE TABLE accounts (aid int PRIMARY KEY, abalance int NOT NULL);
    CREATE TABLE branches (bid int PRIMARY KEY, bbalance int NOT NULL);
    CREATE TABLE history (aid int, delta int, seen int);
    INSERT INTO accounts VALUES (1, 0), (2, 100);
    INSERT INTO branches VALUES (1, 0)";

const DEPOSIT: &str = "
    CREATE PROCEDURE deposit(aid int, bid int, delta int, OUT balance int) LANGUAGE SQL AS $$
      UPDATE accounts SET abalance = abalance + delta WHERE accounts.aid = deposit.aid
        RETURNING abalance INTO balance;
      UPDATE branches SET bbalance = bbalance + delta WHERE branches.bid = deposit.bid;
      INSERT INTO history VALUES (aid, delta, (SELECT abalance FROM accounts a WHERE a.aid = deposit.aid));
    $$";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_runs_the_body_in_both_protocols() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute(TABLES).await.unwrap();
    client.batch_execute(DEPOSIT).await.unwrap();
    let call = client.prepare("CALL deposit($1, $2, $3, NULL)").await.unwrap();
    assert_eq!(call.columns()[0].name(), "balance");
    let balance: i32 = client.query_one(&call, &[&1i32, &1i32, &5i32]).await.unwrap().get(0);
    assert_eq!(balance, 5);
    let answers = client.simple_query("CALL deposit(2, bid => 1, delta => -30)").await.unwrap();
    let row = answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    assert_eq!(row, Some("70"));
    let rows = client.query("SELECT aid, delta, seen FROM history ORDER BY aid", &[]).await.unwrap();
    let rows: Vec<(i32, i32, i32)> = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    assert_eq!(rows, [(1, 5, 5), (2, -30, 70)]);
    let total: i32 = client.query_one("SELECT bbalance FROM branches", &[]).await.unwrap().get(0);
    assert_eq!(total, -25);
    // A row that is not there leaves a null, and the rest is done.
    let none: Option<i32> = client.query_one(&call, &[&9i32, &1i32, &1i32]).await.unwrap().get(0);
    assert_eq!(none, None);
}

/// The body is one with the transaction around it, and all of it or nothing is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_all_or_nothing() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute(TABLES).await.unwrap();
    client
        .batch_execute(
            "CREATE PROCEDURE open(aid int, bid int) BEGIN ATOMIC
               UPDATE branches SET bbalance = bbalance + 1 WHERE branches.bid = $2;
               INSERT INTO accounts VALUES (aid, 10 / bid);
             END",
        )
        .await
        .unwrap();
    let total = async |client: &tokio_postgres::Client| -> i64 {
        let sums = "SELECT sum(bbalance) FROM branches";
        client.query_one(sums, &[]).await.unwrap().get(0)
    };
    let twice = client.batch_execute("CALL open(1, 1)").await.unwrap_err();
    assert_eq!(twice.code(), Some(&SqlState::UNIQUE_VIOLATION));
    // The first statement's error is told, though the second one fails before any row is found.
    let zero = client.batch_execute("CALL open(3, 0)").await.unwrap_err();
    assert_eq!(zero.code(), Some(&SqlState::DIVISION_BY_ZERO));
    assert_eq!(total(&client).await, 0);
    // The first statement's row is there already, which it finds after the second one has failed.
    client
        .batch_execute(
            "CREATE PROCEDURE both(aid int, of int) BEGIN ATOMIC
               INSERT INTO accounts VALUES (aid, 1);
               UPDATE branches SET bbalance = bbalance + 1 WHERE bid = 10 / of;
             END",
        )
        .await
        .unwrap();
    let first = client.batch_execute("CALL both(1, 0)").await.unwrap_err();
    assert_eq!(first.code(), Some(&SqlState::UNIQUE_VIOLATION));
    let second = client.batch_execute("CALL both(9, 0)").await.unwrap_err();
    assert_eq!(second.code(), Some(&SqlState::DIVISION_BY_ZERO));
    client.batch_execute("BEGIN; SAVEPOINT s").await.unwrap();
    client.batch_execute("CALL open(3, 1)").await.unwrap();
    client.batch_execute("SAVEPOINT t").await.unwrap();
    assert!(client.batch_execute("CALL open(3, 1)").await.is_err());
    client.batch_execute("ROLLBACK TO t").await.unwrap();
    assert_eq!(total(&client).await, 1);
    client.batch_execute("ROLLBACK TO s; CALL open(4, 1); COMMIT").await.unwrap();
    assert_eq!(total(&client).await, 1);
    let accounts: i64 = client.query_one("SELECT count(*) FROM accounts", &[]).await.unwrap().get(0);
    assert_eq!(accounts, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_give_values_and_rows() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute(TABLES).await.unwrap();
    client
        .batch_execute(
            "CREATE FUNCTION twice(x bigint) RETURNS bigint RETURN x * 2;
             CREATE FUNCTION move(a int, b int, amount int, OUT left_a int, OUT right_b int)
             LANGUAGE SQL AS 'UPDATE accounts SET abalance = abalance - amount WHERE aid = a
                RETURNING abalance INTO left_a; UPDATE accounts SET abalance = abalance + amount
                WHERE aid = b RETURNING abalance INTO right_b';
             CREATE FUNCTION none(x int) RETURNS int LANGUAGE SQL AS 'SELECT aid FROM accounts WHERE aid = x'",
        )
        .await
        .unwrap();
    let twice: i64 = client.query_one("SELECT twice($1) + 1", &[&20i64]).await.unwrap().get(0);
    assert_eq!(twice, 41);
    let row = client.query_one("SELECT * FROM move(2, 1, $1)", &[&40i32]).await.unwrap();
    assert_eq!((row.get::<_, i32>("left_a"), row.get::<_, i32>("right_b")), (60, 40));
    let none: Option<i32> = client.query_one("SELECT none(77)", &[]).await.unwrap().get(0);
    assert_eq!(none, None);
    let sum: i64 =
        client.query_one("SELECT sum(twice(abalance))::bigint FROM accounts", &[]).await.unwrap().get(0);
    assert_eq!(sum, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_graph_of_a_call_is_explained() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute(TABLES).await.unwrap();
    client.batch_execute(DEPOSIT).await.unwrap();
    let answers = client.simple_query("EXPLAIN CALL deposit(1, 1, 5)").await.unwrap();
    let lines = answers.iter().filter_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    for expected in [
        "Call deposit(aid = $1, bid = $2, delta = $3, out balance): 4 statements, 3 phases, one round trip",
        "after [1] because of accounts",
        "after [3] for $5",
        "Result: balance = $4",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    let count: i64 = client.query_one("SELECT count(*) FROM history", &[]).await.unwrap().get(0);
    assert_eq!(count, 0, "EXPLAIN has run the procedure");
}

/// A procedure that changes while a client has prepared a call of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_call_follows_a_change_of_the_procedure() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b int)").await.unwrap();
    let create = "PROCEDURE p(x int) LANGUAGE SQL AS";
    client.batch_execute(&format!("CREATE {create} 'INSERT INTO t VALUES (x, 1)'")).await.unwrap();
    let call = client.prepare("CALL p($1)").await.unwrap();
    client.execute(&call, &[&1i32]).await.unwrap();
    let replace = format!("CREATE OR REPLACE {create} 'INSERT INTO t (a, b) VALUES (x, 2)'");
    client.batch_execute(&format!("BEGIN; {replace}; ROLLBACK")).await.unwrap();
    client.execute(&call, &[&2i32]).await.unwrap();
    client.batch_execute(&replace).await.unwrap();
    client.execute(&call, &[&3i32]).await.unwrap();
    client.batch_execute("ALTER TABLE t ADD COLUMN c int DEFAULT 7").await.unwrap();
    client.execute(&call, &[&4i32]).await.unwrap();
    let rows = client.query("SELECT b FROM t ORDER BY a", &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [1, 1, 2, 2]);
    let used = client.batch_execute("DROP TABLE t").await.unwrap_err();
    assert_eq!(used.code(), Some(&SqlState::DEPENDENT_OBJECTS_STILL_EXIST));
    client.batch_execute("DROP PROCEDURE p").await.unwrap();
    let gone = client.execute(&call, &[&5i32]).await.unwrap_err();
    assert_eq!(gone.code(), Some(&SqlState::UNDEFINED_FUNCTION));
}
