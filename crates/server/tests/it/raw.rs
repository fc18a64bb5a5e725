//! Bytes as no well-behaved client sends them, and orders of messages that drivers do not use.

use crate::bench::Bench;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection on which the test writes the bytes.
pub struct Raw(pub TcpStream);

pub fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(body);
    out
}

pub fn startup() -> Vec<u8> {
    let body = b"\0\x03\0\0user\0atoll\0database\0test\0\0";
    [&(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

pub fn query(text: &str) -> Vec<u8> {
    message(b'Q', format!("{text}\0").as_bytes())
}

fn parse(text: &str) -> Vec<u8> {
    message(b'P', format!("\0{text}\0\0\0").as_bytes())
}

fn bind() -> Vec<u8> {
    message(b'B', b"\0\0\0\0\0\0\0\0")
}

fn execute(most: u32) -> Vec<u8> {
    message(b'E', &[&b"\0"[..], &most.to_be_bytes()].concat())
}

fn sync() -> Vec<u8> {
    message(b'S', b"")
}

impl Raw {
    pub async fn new(bench: &Bench) -> Raw {
        let mut raw = Raw(TcpStream::connect(bench.address).await.unwrap());
        raw.0.write_all(&startup()).await.unwrap();
        raw.until_ready().await;
        raw
    }

    pub async fn send(&mut self, messages: &[Vec<u8>]) {
        self.0.write_all(&messages.concat()).await.unwrap();
    }

    pub async fn next(&mut self) -> (u8, Vec<u8>) {
        let tag = self.0.read_u8().await.unwrap();
        let length = self.0.read_u32().await.unwrap();
        let mut body = vec![0; length as usize - 4];
        self.0.read_exact(&mut body).await.unwrap();
        (tag, body)
    }

    /// The tags up to ReadyForQuery, and the status in it.
    pub async fn until_ready(&mut self) -> (String, char) {
        let mut tags = String::new();
        loop {
            let (tag, body) = tokio::time::timeout(Duration::from_secs(20), self.next()).await.expect(&tags);
            tags.push(char::from(tag));
            if tag == b'Z' {
                return (tags, char::from(body[0]));
            }
        }
    }

    pub async fn ask(&mut self, messages: &[Vec<u8>]) -> (String, char) {
        self.send(messages).await;
        self.until_ready().await
    }
}

fn tags(text: &str, status: char) -> (String, char) {
    (text.to_owned(), status)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_order_of_answers() {
    let bench = Bench::new().await;
    let mut raw = Raw::new(&bench).await;
    assert_eq!(raw.ask(&[query("")]).await, tags("IZ", 'I'));
    assert_eq!(raw.ask(&[query("-- ping")]).await, tags("IZ", 'I'));
    assert_eq!(raw.ask(&[query("CREATE TABLE t (a int PRIMARY KEY)")]).await, tags("CZ", 'I'));
    assert_eq!(raw.ask(&[query("INSERT INTO t VALUES (1), (2), (3)")]).await, tags("CZ", 'I'));
    assert_eq!(
        raw.ask(&[query("SELECT a FROM t; SELECT a FROM t WHERE a = 1")]).await,
        tags("TDDDCTDCZ", 'I')
    );
    let describe = message(b'D', b"P\0");
    assert_eq!(
        raw.ask(&[parse("SELECT a FROM t"), bind(), describe.clone(), execute(0), sync()]).await,
        tags("12TDDDCZ", 'I')
    );
    // Row limits: the portal goes on where it was suspended.
    let limited = [parse("SELECT a FROM t"), bind(), execute(2), execute(2), sync()];
    assert_eq!(raw.ask(&limited).await, tags("12DDsDCZ", 'I'));
    // An error skips the rest up to the Sync.
    let failing = [parse("SELECT a FROM t"), bind(), message(b'E', b"none\0\0\0\0\0"), execute(0), sync()];
    assert_eq!(raw.ask(&failing).await, tags("12EZ", 'I'));
    assert_eq!(raw.ask(&[parse("BEGIN"), bind(), describe, execute(0), sync()]).await, tags("12nCZ", 'T'));
    assert_eq!(raw.ask(&[query("SELECT b FROM t")]).await, tags("EZ", 'E'));
    assert_eq!(raw.ask(&[query("SELECT a FROM t")]).await, tags("EZ", 'E'));
    assert_eq!(raw.ask(&[query("COMMIT")]).await, tags("CZ", 'I'));
    // Flush brings the answers without a Sync.
    raw.send(&[parse("SELECT a FROM t"), message(b'D', b"S\0"), message(b'H', b"")]).await;
    assert_eq!([raw.next().await.0, raw.next().await.0, raw.next().await.0], *b"1tT");
    raw.ask(&[sync()]).await;
    // An error too.
    raw.send(&[parse("SELECT none FROM t"), message(b'D', b"S\0"), message(b'H', b"")]).await;
    let error = tokio::time::timeout(Duration::from_secs(20), raw.next()).await.expect("an answer to Flush");
    assert_eq!(error.0, b'E');
    assert_eq!(raw.ask(&[sync()]).await, tags("Z", 'I'));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_in_two_pieces_has_the_same_answers() {
    let bench = Bench::new().await;
    let mut raw = Raw::new(&bench).await;
    raw.ask(&[query("CREATE TABLE t (a int PRIMARY KEY, b int)")]).await;
    raw.ask(&[query("INSERT INTO t VALUES (1, 10), (2, 20)")]).await;
    raw.0.set_nodelay(true).unwrap();
    let describe = message(b'D', b"P\0");
    let read = [parse("SELECT b FROM t WHERE a = 2"), bind(), describe, execute(0), sync()].concat();
    for cut in 0..=read.len() {
        let (first, second) = read.split_at(cut);
        raw.0.write_all(first).await.unwrap();
        tokio::task::yield_now().await;
        assert_eq!(raw.ask(&[second.to_vec()]).await, tags("12TDCZ", 'I'), "cut at {cut}");
    }
    // A statement that is longer than messages of other kinds may be.
    let long = parse(&format!("SELECT b FROM t WHERE a = 1 /* {} */", "x".repeat(100_000)));
    assert_eq!(raw.ask(&[long, bind(), execute(0), sync()]).await, tags("12DCZ", 'I'));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_before_one_sync_are_one_transaction() {
    let bench = Bench::new().await;
    let mut raw = Raw::new(&bench).await;
    raw.ask(&[query("CREATE TABLE t (a int PRIMARY KEY)")]).await;
    let insert = |n: u32| [parse(&format!("INSERT INTO t VALUES ({n})")), bind(), execute(0)].concat();
    assert_eq!(raw.ask(&[insert(1), insert(2), insert(1), insert(3), sync()]).await, tags("12C12C12EZ", 'I'));
    assert_eq!(raw.ask(&[query("SELECT a FROM t")]).await, tags("TCZ", 'I'));
    assert_eq!(raw.ask(&[insert(1), insert(2), sync()]).await, tags("12C12CZ", 'I'));
    assert_eq!(raw.ask(&[query("SELECT a FROM t")]).await, tags("TDDCZ", 'I'));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_fails_leaves_nothing() {
    let bench = Bench::new().await;
    let mut raw = Raw::new(&bench).await;
    raw.ask(&[query("CREATE TABLE t (a int PRIMARY KEY)")]).await;
    raw.send(&[query("COPY t FROM STDIN")]).await;
    assert_eq!(raw.next().await.0, b'G');
    assert_eq!(raw.ask(&[message(b'd', b"1\n2\n"), message(b'f', b"no\0")]).await, tags("EZ", 'I'));
    raw.send(&[query("COPY t FROM STDIN")]).await;
    assert_eq!(raw.next().await.0, b'G');
    let rest = [message(b'd', b"1\nx\n"), message(b'd', b"3\n"), message(b'c', b"")];
    assert_eq!(raw.ask(&rest).await, tags("EZ", 'I'));
    assert_eq!(raw.ask(&[query("SELECT a FROM t")]).await, tags("TCZ", 'I'));
    raw.send(&[query("COPY t FROM STDIN")]).await;
    assert_eq!(raw.next().await.0, b'G');
    assert_eq!(
        raw.ask(&[message(b'd', b"1\n2"), message(b'd', b"2\n"), message(b'c', b"")]).await,
        tags("CZ", 'I')
    );
    assert_eq!(raw.ask(&[query("COPY t TO STDOUT")]).await, tags("HddcCZ", 'I'));
}

/// A server that reads mutated streams goes on to serve others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutated_streams_harm_no_other_client() {
    let bench = Bench::new().await;
    let mut good = Raw::new(&bench).await;
    good.ask(&[query("CREATE TABLE t (a int PRIMARY KEY, b text)")]).await;
    good.ask(&[query("CREATE TABLE u (n int[], at timestamptz)")]).await;
    let array = b"\0\0\0\x01\0\0\0\0\0\0\0\x17\0\0\0\x01\0\0\0\x01\0\0\0\x04\0\0\0\x05";
    let stream = [
        startup(),
        query("SET TIME ZONE 'Europe/Berlin'; SELECT '2024-10-27 02:30 PST'::timestamptz, ARRAY[1, 2]"),
        message(b'P', b"r\0INSERT INTO u VALUES ($1, '2024-07-01 12:00')\0\0\x01\0\0\x03\xef"),
        message(b'B', &[&b"\0r\0\0\x01\0\x01\0\x01\0\0\0\x1c"[..], array, b"\0\0"].concat()),
        execute(0),
        query("SELECT set_config('search_path', 'x', false); SELECT n, at FROM u"),
        query("INSERT INTO t VALUES (1, 'x')"),
        message(b'P', b"s\0SELECT a, b FROM t WHERE a = $1\0\0\x01\0\0\0\x17"),
        message(b'B', b"p\0s\0\0\x01\0\x01\0\x01\0\0\0\x04\0\0\0\x01\0\x01\0\x01"),
        message(b'D', b"Ss\0"),
        message(b'D', b"Pp\0"),
        message(b'E', b"p\0\0\0\0\x01"),
        message(b'C', b"Sp\0"),
        sync(),
        query("COPY t FROM STDIN"),
        message(b'd', b"2\ty\n"),
        message(b'c', b""),
        message(b'X', b""),
    ]
    .concat();
    let mut random = fastrand::Rng::with_seed(23);
    for _ in 0..300 {
        let mut bytes = stream.clone();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..bytes.len());
            match random.u8(..4) {
                0 => bytes[at] = random.u8(..),
                1 => bytes[at] ^= 1 << random.u8(..8),
                2 => drop(bytes.drain(at..(at + random.usize(1..9)).min(bytes.len()))),
                _ => (0..random.usize(1..9)).for_each(|_| bytes.insert(at, random.u8(..))),
            }
        }
        let mut bad = TcpStream::connect(bench.address).await.unwrap();
        bad.write_all(&bytes).await.unwrap();
        bad.shutdown().await.unwrap();
        let mut answers = Vec::new();
        // The server may reset the connection; what counts is that it ends.
        let _ = tokio::time::timeout(Duration::from_secs(20), bad.read_to_end(&mut answers))
            .await
            .expect("the server ends a stream that has ended");
    }
    assert_eq!(good.ask(&[query("SELECT 1")]).await, tags("TDCZ", 'I'));
    assert!(!bench.server.is_finished());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_ends_idle_sessions() {
    let bench = Bench::new().await;
    let mut idle = Raw::new(&bench).await;
    bench.stop.send(true).unwrap();
    let (tag, body) = idle.next().await;
    assert!(tag == b'E' && String::from_utf8_lossy(&body).contains("57P01"));
    bench.server.await.unwrap();
    assert!(TcpStream::connect(bench.address).await.is_err());
}
