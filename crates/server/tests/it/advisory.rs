//! Advisory locks between sessions.

use crate::bench::Bench;
use tokio_postgres::Client;

async fn truth(client: &Client, text: &str) -> bool {
    client.query_one(text, &[]).await.unwrap().get(0)
}

async fn code(client: &Client, text: &str) -> String {
    let error = client.batch_execute(text).await.unwrap_err();
    error.code().map(|code| code.code().to_owned()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_keeps_its_locks_until_it_ends() {
    let bench = Bench::new().await;
    let (first, second) = (bench.client().await, bench.client().await);
    first.batch_execute("SELECT pg_advisory_lock(7); SELECT pg_advisory_lock_shared(1, 2)").await.unwrap();
    assert!(!truth(&second, "SELECT pg_try_advisory_lock(7)").await);
    assert!(truth(&second, "SELECT pg_try_advisory_lock(8)").await);
    assert!(truth(&second, "SELECT pg_try_advisory_lock_shared(1, 2)").await);
    assert!(!truth(&second, "SELECT pg_try_advisory_xact_lock(1, 2)").await);
    second.batch_execute("SET lock_timeout = 30").await.unwrap();
    assert_eq!(code(&second, "SELECT pg_advisory_lock(7)").await, "55P03");
    assert!(truth(&first, "SELECT pg_advisory_unlock(7)").await);
    assert!(!truth(&first, "SELECT pg_advisory_unlock(7)").await);
    assert!(truth(&second, "SELECT pg_try_advisory_lock(7)").await);
    let number = first.query_one("SELECT pg_try_advisory_lock($1)", &[&7_i64]).await.unwrap();
    assert!(!number.get::<_, bool>(0));
    drop(second);
    // The end of the session gives its locks back, and a wait for them is over.
    first.batch_execute("SELECT pg_advisory_lock(7), pg_advisory_lock(8)").await.unwrap();
    first.batch_execute("SELECT pg_advisory_unlock_all()").await.unwrap();
    let third = bench.client().await;
    assert!(truth(&third, "SELECT pg_try_advisory_lock(7) AND pg_try_advisory_lock(1, 2)").await);
    let none = third.query_one("SELECT pg_try_advisory_lock(NULL)", &[]).await.unwrap();
    assert_eq!(none.get::<_, Option<bool>>(0), None);
    assert_eq!(code(&third, "SELECT pg_advisory_lock('x')").await, "22P02");
    assert_eq!(code(&third, "SELECT pg_advisory_lock(1, 2, 3)").await, "42883");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_keeps_its_locks_until_its_end() {
    let bench = Bench::new().await;
    let (first, second) = (bench.client().await, bench.client().await);
    let try_it = "SELECT pg_try_advisory_lock(7)";
    for end in ["COMMIT", "ROLLBACK"] {
        first.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(7)").await.unwrap();
        assert!(!truth(&second, try_it).await);
        first.batch_execute(end).await.unwrap();
        assert!(truth(&second, try_it).await);
        second.batch_execute("SELECT pg_advisory_unlock_all()").await.unwrap();
    }
    // An error gives them back at once; a statement alone has them until its end.
    first.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(7)").await.unwrap();
    assert_eq!(code(&first, "SELECT 1 / 0").await, "22012");
    assert!(truth(&second, try_it).await);
    second.batch_execute("DISCARD ALL").await.unwrap();
    first.batch_execute("ROLLBACK").await.unwrap();
    first.batch_execute("SELECT pg_advisory_xact_lock(7)").await.unwrap();
    assert!(truth(&second, try_it).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_wait_for_each_other_end_with_a_deadlock() {
    let bench = Bench::new().await;
    let (first, second) = (bench.client().await, bench.client().await);
    first.batch_execute("SELECT pg_advisory_lock(1)").await.unwrap();
    second.batch_execute("SELECT pg_advisory_lock(2)").await.unwrap();
    // Either may be the one that would close the circle.
    let waits = async |client: &tokio_postgres::Client, number: u32| {
        let waits = client.batch_execute(&format!("SELECT pg_advisory_lock({number})")).await;
        client.batch_execute("SELECT pg_advisory_unlock_all()").await.unwrap();
        waits
    };
    let both = tokio::join!(waits(&first, 2), waits(&second, 1));
    let code = |result: Result<(), tokio_postgres::Error>| {
        result.err().and_then(|error| error.code().map(|code| code.code().to_owned()))
    };
    let codes = [code(both.0), code(both.1)];
    assert_eq!(codes.iter().flatten().collect::<Vec<_>>(), ["40P01"], "{codes:?}");
}
