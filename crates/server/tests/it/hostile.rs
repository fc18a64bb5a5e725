//! Clients that hold a connection and do not go on, and messages that no server should keep. Others
//! are served meanwhile.

use crate::bench::Bench;
use crate::raw::{Raw, query, startup};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Another client is answered.
async fn is_served(bench: &Bench) {
    let client = bench.client().await;
    assert_eq!(client.query_one("SELECT 1 + 1", &[]).await.unwrap().get::<_, i32>(0), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_stop_at_their_start_are_ended() {
    let bench = Bench::with(|options| options.limits.startup = Duration::from_millis(300)).await;
    let mut begun = Vec::new();
    // Nothing; a part of the length; a part of the message; the request for encryption, then
    // nothing.
    for bytes in [&b""[..], b"\0\0", b"\0\0\0\x29\0\x03\0\0user", b"\0\0\0\x08\x04\xd2\x16\x2f"] {
        for _ in 0..20 {
            let mut stream = TcpStream::connect(bench.address).await.unwrap();
            stream.write_all(bytes).await.unwrap();
            begun.push(stream);
        }
    }
    is_served(&bench).await;
    for mut stream in begun {
        let mut rest = Vec::new();
        // The server may reset a connection with bytes that it has not read.
        let end = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut rest)).await;
        assert!(end.is_ok(), "the connection is still there");
    }
    is_served(&bench).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_of_100_mb_is_refused_and_the_session_goes_on() {
    let bench = Bench::new().await;
    let mut raw = Raw::new(&bench).await;
    let length: u32 = 100 << 20;
    raw.0.write_all(&[&b"Q"[..], &(length + 4).to_be_bytes()].concat()).await.unwrap();
    let part = vec![b' '; 1 << 20];
    for _ in 0..length >> 20 {
        raw.0.write_all(&part).await.unwrap();
    }
    let (tag, body) = raw.next().await;
    let text = String::from_utf8_lossy(&body).into_owned();
    assert!(tag == b'E' && text.contains("54000"), "{tag}: {text}");
    assert_eq!(raw.until_ready().await, ("Z".to_owned(), 'I'));
    assert_eq!(raw.ask(&[query("SELECT 1")]).await, ("TDCZ".to_owned(), 'I'));
}

/// The server must not take memory for the long message of a client that has proved nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_message_in_place_of_a_password_is_refused_by_its_kind() {
    let bench = Bench::new().await;
    bench.client().await.batch_execute("ALTER USER atoll PASSWORD 'secret'").await.unwrap();
    let mut raw = Raw(TcpStream::connect(bench.address).await.unwrap());
    raw.0.write_all(&startup()).await.unwrap();
    assert_eq!(raw.next().await.0, b'R');
    // Its body does not come.
    let length: u32 = 50 << 20;
    raw.0.write_all(&[&b"Q"[..], &length.to_be_bytes()].concat()).await.unwrap();
    let (tag, body) = tokio::time::timeout(Duration::from_secs(10), raw.next()).await.expect("it waits");
    let text = String::from_utf8_lossy(&body).into_owned();
    assert!(tag == b'E' && text.contains("08P01") && text.contains("SASL"), "{tag}: {text}");
}

/// The state of the error that a statement ends with.
async fn state_of(client: &tokio_postgres::Client, text: &str) -> Option<String> {
    let error = client.batch_execute(text).await.err()?;
    Some(error.code().unwrap_or_else(|| panic!("{error}")).code().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_keeps_statements_and_cursors_up_to_a_limit() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    let long = "x".repeat(10 << 20);
    for number in 0..3 {
        assert_eq!(state_of(&client, &format!("PREPARE p{number} AS SELECT '{long}'")).await, None);
    }
    assert_eq!(state_of(&client, &format!("PREPARE p3 AS SELECT '{long}'")).await.as_deref(), Some("54000"));
    assert_eq!(state_of(&client, &format!("DEALLOCATE p1; PREPARE p3 AS SELECT '{long}'")).await, None);
    client.batch_execute("DEALLOCATE ALL").await.unwrap();
    let declare = |number: i32| {
        format!(
            "DECLARE c{number} CURSOR WITH HOLD FOR SELECT repeat('x', 10000000) FROM generate_series(1, 15)"
        )
    };
    for number in 0..3 {
        assert_eq!(state_of(&client, &declare(number)).await, None);
    }
    assert_eq!(state_of(&client, &declare(3)).await.as_deref(), Some("53200"));
    assert_eq!(state_of(&client, "CLOSE c0").await, None);
    assert_eq!(state_of(&client, &declare(3)).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_array_of_too_many_elements_is_refused() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY)").await.unwrap();
    let ask = async |count: i32| {
        let all: Vec<i32> = (0..count).collect();
        client.query("SELECT a FROM t WHERE a = ANY ($1)", &[&all]).await
    };
    assert!(ask(1000).await.unwrap().is_empty());
    let refused = ask(1_000_001).await.unwrap_err();
    assert_eq!(refused.code().map(|code| code.code()), Some("54000"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_given_up() {
    let bench = Bench::with(|options| options.limits.write = Duration::from_millis(300)).await;
    let mut raw = Raw::new(&bench).await;
    let text = "SELECT repeat('x', 1000000) FROM generate_series(1, 60)";
    raw.send(&[query(text)]).await;
    is_served(&bench).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut bytes = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(30), raw.0.read_to_end(&mut bytes)).await;
    assert!(end.is_ok() && bytes.len() < 60_000_000, "the server has waited for {} bytes", bytes.len());
    is_served(&bench).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_queries_hold_up_no_other_session() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute("CREATE TABLE a (id int PRIMARY KEY)").await.unwrap();
    client.batch_execute("INSERT INTO a SELECT n FROM generate_series(1, 1500) AS n").await.unwrap();
    let mut asked = Vec::new();
    // More than run at once.
    for _ in 0..8 {
        let mut raw = Raw::new(&bench).await;
        raw.send(&[query("SELECT count(*) FROM a x, a y, a z WHERE x.id + y.id = -z.id")]).await;
        asked.push(raw);
    }
    for _ in 0..20 {
        is_served(&bench).await;
    }
    // A query has its turn when those before it have ended, with or without their clients.
    drop(asked);
    let text = "SELECT count(*) FROM a x JOIN a y ON x.id + 0 = y.id + 0";
    let count = tokio::time::timeout(Duration::from_secs(60), client.query_one(text, &[])).await;
    assert_eq!(count.unwrap().unwrap().get::<_, i64>(0), 1500);
}

/// Rows with more columns than a message has room for would put the client out of step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_select_of_too_many_columns_is_refused() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b int)").await.unwrap();
    for (from, stars) in [("", false), (" FROM t", false), (" FROM t", true)] {
        let item = if stars { "t.*" } else { "1" };
        let select = |count: usize| format!("SELECT {}{from}", vec![item; count].join(", "));
        let most = if stars { 832 } else { 1664 };
        assert_eq!(state_of(&client, &select(most)).await, None, "{item}{from}");
        assert_eq!(state_of(&client, &select(70_000)).await.as_deref(), Some("54011"), "{item}{from}");
        assert_eq!(state_of(&client, &select(most + 1)).await.as_deref(), Some("54011"), "{item}{from}");
    }
}
