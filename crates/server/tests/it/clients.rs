//! Real clients: tokio-postgres, psql and pgbench.

use crate::bench::Bench;
use std::process::Command;
use tokio_postgres::error::SqlState;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_both_protocols() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY, name text, v bigint)").await.unwrap();
    let inserted =
        client.execute("INSERT INTO t VALUES ($1, $2, $3)", &[&1i32, &"one", &11i64]).await.unwrap();
    assert_eq!(inserted, 1);
    client.simple_query("INSERT INTO t VALUES (2, 'two', NULL), (3, 'three', 33)").await.unwrap();
    let statement = client.prepare("SELECT id, name, v FROM t WHERE id = $1").await.unwrap();
    assert_eq!(statement.columns()[2].type_(), &tokio_postgres::types::Type::INT8);
    let row = client.query_one(&statement, &[&2i32]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, &str>(1), row.get::<_, Option<i64>>(2)), (2, "two", None));
    let twice = client.execute("INSERT INTO t VALUES (1, 'again', 0)", &[]).await.unwrap_err();
    assert_eq!(twice.code(), Some(&SqlState::UNIQUE_VIOLATION));
    let rows = client.query("SELECT id FROM t ORDER BY id", &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_and_savepoints() {
    let bench = Bench::new().await;
    let mut client = bench.client().await;
    let other = bench.client().await;
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
    let count = async |client: &tokio_postgres::Client| -> i64 {
        client.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get(0)
    };
    let txn = client.transaction().await.unwrap();
    txn.execute("INSERT INTO t VALUES (1)", &[]).await.unwrap();
    assert_eq!(count(&other).await, 0);
    txn.batch_execute("SAVEPOINT s").await.unwrap();
    txn.execute("INSERT INTO t VALUES (2)", &[]).await.unwrap();
    assert!(txn.execute("INSERT INTO t VALUES (1)", &[]).await.is_err());
    let failed = txn.execute("INSERT INTO t VALUES (3)", &[]).await.unwrap_err();
    assert_eq!(failed.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
    txn.batch_execute("ROLLBACK TO SAVEPOINT s").await.unwrap();
    txn.execute("INSERT INTO t VALUES (4)", &[]).await.unwrap();
    txn.commit().await.unwrap();
    assert_eq!(count(&other).await, 2);
    // A text of several statements is one transaction.
    assert!(client.batch_execute("INSERT INTO t VALUES (5); INSERT INTO t VALUES (1)").await.is_err());
    assert_eq!(count(&other).await, 2);
    client.batch_execute("INSERT INTO t VALUES (5); INSERT INTO t VALUES (6)").await.unwrap();
    client.batch_execute("BEGIN; INSERT INTO t VALUES (7); ROLLBACK").await.unwrap();
    assert_eq!(count(&other).await, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_of_sequences() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute("CREATE TABLE t (id serial PRIMARY KEY, v int)").await.unwrap();
    client.batch_execute("INSERT INTO t (v) VALUES (1), (2); INSERT INTO t (v) VALUES (3)").await.unwrap();
    let rows = client.query("SELECT id FROM t ORDER BY id", &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_shown_and_set() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    let show =
        async |name: &str| -> String { client.query_one(&format!("SHOW {name}"), &[]).await.unwrap().get(0) };
    assert_eq!(show("server_version").await, "15.0");
    client.batch_execute("SET application_name = 'test'").await.unwrap();
    assert_eq!(show("application_name").await, "test");
    client.batch_execute("RESET application_name").await.unwrap();
    assert_eq!(show("application_name").await, "");
    let unknown = client.batch_execute("SET no_such = 1").await.unwrap_err();
    assert_eq!(unknown.code(), Some(&SqlState::UNDEFINED_OBJECT));
}

fn psql(bench: &Bench, args: &[&str]) -> Option<(bool, String)> {
    let port = bench.address.port().to_string();
    let command = Command::new("psql")
        .args(["-X", "-A", "-t", "-h", "127.0.0.1", "-p", &port, "-U", "atoll", "-d", "test"])
        .args(args)
        .output();
    match command {
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
        }
        Err(error) => {
            eprintln!("psql is not installed, so this test is skipped: {error}");
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn psql_speaks_to_it_over_tls() {
    let bench = Bench::new().await;
    let text = "CREATE TABLE t (a int, b text); INSERT INTO t VALUES (1, 'x');";
    let Some((is_ok, text)) = psql(&bench, &["-c", text]) else { return };
    assert!(is_ok, "{text}");
    let copy = "COPY t FROM STDIN;\n2\ty\n3\t\\N\n\\.\nSELECT a, b FROM t ORDER BY a;\nCOPY t TO STDOUT;\n";
    let file = bench.dir.path().join("script.sql");
    std::fs::write(&file, copy).unwrap();
    let (is_ok, text) = psql(&bench, &["-f", file.to_str().unwrap()]).unwrap();
    assert!(is_ok && text.contains("2|y\n3|\n") && text.contains("3\t\\N\n"), "{text}");
    let (is_ok, text) = psql(&bench, &["-c", "SELECT nothing FROM t"]).unwrap();
    assert!(!is_ok && text.contains("column \"nothing\" does not exist"), "{text}");
    let (_, text) = psql(&bench, &["-c", "\\conninfo"]).unwrap();
    assert!(text.contains("TLS"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pgbench_runs_in_all_its_protocols() {
    let bench = Bench::new().await;
    let port = bench.address.port().to_string();
    let client = bench.client().await;
    // The model plays a COPY again for each of its parts, so the tables are small.
    client
        .batch_execute(
            "create table pgbench_history(tid int,bid int,aid int,delta int,mtime timestamp,filler char(22));
             create table pgbench_tellers(tid int not null primary key,bid int,tbalance int,filler char(84));
             create table pgbench_accounts(aid int not null primary key,bid int,abalance int,filler char(84));
             create table pgbench_branches(bid int not null primary key,bbalance int,filler char(88));
             insert into pgbench_branches(bid,bbalance) values(1,0)",
        )
        .await
        .unwrap();
    for mode in ["simple", "extended", "prepared"] {
        let output = Command::new("pgbench")
            .args([
                "-h",
                "127.0.0.1",
                "-p",
                &port,
                "-U",
                "atoll",
                "-n",
                "-M",
                mode,
                "-t",
                "5",
                "-c",
                "2",
                "test",
            ])
            .output();
        let Ok(output) = output else {
            return eprintln!("pgbench is not installed, so this test is skipped");
        };
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success() && text.contains("processed: 10/10"), "{mode}: {text}");
    }
    let history: i64 = client.query_one("SELECT count(*) FROM pgbench_history", &[]).await.unwrap().get(0);
    assert_eq!(history, 30);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_asked_for_once_it_is_set() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.simple_query("ALTER USER atoll PASSWORD 'it''s secret'").await.unwrap();
    let connect = async |password: &str| {
        let mut config: tokio_postgres::Config = bench.config().parse().unwrap();
        config.password(password).connect(tokio_postgres::NoTls).await.map(drop)
    };
    connect("it's secret").await.unwrap();
    let wrong = connect("its secret").await.unwrap_err();
    assert_eq!(wrong.code(), Some(&SqlState::INVALID_PASSWORD));
    let mut other: tokio_postgres::Config = bench.config().parse().unwrap();
    let unknown = other.user("postgres").connect(tokio_postgres::NoTls).await.err().unwrap();
    assert_eq!(unknown.code(), Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION));
    // The Unix socket knows the user of the client.
    let dir = bench.dir.path().to_str().unwrap();
    let Some((is_ok, text)) = psql(&bench, &["-h", dir, "-p", "5432", "-c", "SELECT 1"]) else { return };
    assert!(is_ok && text.contains('1'), "{text}");
    client.simple_query("ALTER USER atoll PASSWORD NULL").await.unwrap();
    connect("anything").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_for_a_table_can_be_cancelled_and_has_a_limit() {
    let bench = Bench::new().await;
    let (changer, reader) = (bench.client().await, bench.client().await);
    changer.batch_execute("CREATE TABLE t (a int PRIMARY KEY)").await.unwrap();
    changer.batch_execute("BEGIN; ALTER TABLE t ADD COLUMN b int").await.unwrap();
    let cancel = reader.cancel_token();
    let waits = tokio::spawn(async move {
        let cancelled = reader.simple_query("SELECT a FROM t").await.unwrap_err();
        (reader, cancelled)
    });
    // A request that comes too early is forgotten, so it is repeated.
    while !waits.is_finished() {
        cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let (reader, cancelled) = waits.await.unwrap();
    assert_eq!(cancelled.code(), Some(&SqlState::QUERY_CANCELED));
    reader.batch_execute("SET statement_timeout = '30ms'").await.unwrap();
    let late = reader.simple_query("SELECT a FROM t").await.unwrap_err();
    assert_eq!(late.code(), Some(&SqlState::QUERY_CANCELED));
    reader.batch_execute("SET statement_timeout = 0; SET lock_timeout = '30ms'").await.unwrap();
    let late = reader.simple_query("SELECT a FROM t").await.unwrap_err();
    assert_eq!(late.code(), Some(&SqlState::LOCK_NOT_AVAILABLE));
    changer.batch_execute("COMMIT").await.unwrap();
    reader.batch_execute("SELECT b FROM t").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_transaction_ends_with_its_session() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY)").await.unwrap();
    client.batch_execute("SET idle_in_transaction_session_timeout = '20ms'").await.unwrap();
    client.batch_execute("BEGIN; INSERT INTO t VALUES (1)").await.unwrap();
    while !client.is_closed() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let other = bench.client().await;
    let count: i64 = other.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get(0);
    assert_eq!(count, 0);
}

/// A prepared statement follows a change of the table, unless its columns would change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_statements_after_a_change_of_the_table() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)").await.unwrap();
    let named = client.prepare("SELECT a FROM t").await.unwrap();
    let all = client.prepare("SELECT * FROM t").await.unwrap();
    client.batch_execute("ALTER TABLE t ADD COLUMN b int").await.unwrap();
    assert_eq!(client.query(&named, &[]).await.unwrap().len(), 1);
    let changed = client.query(&all, &[]).await.unwrap_err();
    assert_eq!(changed.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED));
    assert_eq!(client.query("SELECT * FROM t", &[]).await.unwrap()[0].len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_after_a_left_join() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client
        .batch_execute(
            "CREATE TABLE a (id int PRIMARY KEY, b int); CREATE TABLE b (id int PRIMARY KEY, v int);
             INSERT INTO a VALUES (1, 1), (2, 1), (3, 7), (4, NULL); INSERT INTO b VALUES (1, NULL)",
        )
        .await
        .unwrap();
    let ids = async |condition: &str| {
        let query =
            format!("SELECT a.id FROM a LEFT JOIN b ON a.b = b.id WHERE {condition} ORDER BY a.id LIMIT 3");
        let rows = client.query(&query, &[]).await.unwrap();
        rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>()
    };
    assert_eq!(ids("b.id IS NULL").await, [3, 4]);
    assert_eq!(ids("b.v IS NULL").await, [1, 2, 3]);
    assert_eq!(ids("coalesce(b.id, 9) = 9 AND a.b IS NOT NULL").await, [3]);
    assert_eq!(ids("b.id = 1").await, [1, 2]);
}
