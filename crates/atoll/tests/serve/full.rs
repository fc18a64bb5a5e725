//! A server on a file system that is full: statements are refused, the server goes on, and nothing
//! that was acknowledged is lost.

use crate::served::{Served, connect};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

/// How long it may take until freed room is noticed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A small file system. It is taken away with this value, also under a server that runs.
struct Mounted(PathBuf);

impl Mounted {
    /// `None` where the machine does not allow to mount one.
    fn at(path: &Path, size: &str) -> Option<Mounted> {
        std::fs::create_dir(path).unwrap();
        let options = format!("size={size}");
        mount(&["-t", "tmpfs", "-o", &options, "tmpfs"], path).then(|| Mounted(path.to_owned()))
    }

    fn enlarge(&self, size: &str) {
        assert!(mount(&["-o", &format!("remount,size={size}")], &self.0));
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn mount(args: &[&str], path: &Path) -> bool {
    Command::new("mount").args(args).arg(path).output().is_ok_and(|output| output.status.success())
}

/// Inserts a row; the state of the error if it was refused.
async fn insert(client: &Client, number: i32) -> Option<String> {
    let text = "INSERT INTO t VALUES ($1, repeat('x', 6000))";
    let error = client.execute(text, &[&number]).await.err()?;
    Some(error.code().unwrap_or_else(|| panic!("the connection is lost: {error}")).code().to_owned())
}

async fn count(client: &Client) -> i64 {
    client.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get(0)
}

/// What meets the full disk first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    /// The log. All rows fit the memory for pages.
    Log,
    /// Pages that must leave the memory: then a read that needs another page is refused too.
    Pages,
}

async fn trial(design: &str, first: First) {
    let dir = tempfile::Builder::new().prefix("s-").tempdir().unwrap();
    let Some(mounted) = Mounted::at(&dir.path().join("db"), if first == First::Log { "60m" } else { "100m" })
    else {
        return eprintln!("skipped: no file system can be mounted here (it takes a superuser)");
    };
    let mut server = Served::start_in(dir, &["--islands", "1", "--design", design]);
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY, b text)").await.unwrap();
    let (mut number, mut stored) = (0, 0);
    let refused = loop {
        number += 1;
        match insert(&client, number).await {
            None => stored += 1,
            Some(state) => break state,
        }
        assert!(stored < 30_000, "{design}: it does not fill the file system");
    };
    assert_eq!(refused, "53100", "{design}, after {stored} rows: {}", server.log());
    // It stays full for a while. Sessions go on, and others begin.
    for _ in 0..100 {
        number += 1;
        match insert(&client, number).await {
            None => stored += 1,
            Some(state) => assert_eq!(state, "53100", "{design}: {}", server.log()),
        }
    }
    let other = connect(&server.config()).await.unwrap();
    assert_eq!(other.query_one("SELECT 1", &[]).await.unwrap().get::<_, i32>(0), 1);
    if first == First::Log {
        let block = "BEGIN; INSERT INTO t VALUES (-1, ''); COMMIT";
        let error = client.batch_execute(block).await.expect_err("a block of statements is refused too");
        assert_eq!(error.code().map(|code| code.code()), Some("53100"), "{design}: {error}");
        client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(count(&other).await, stored, "{design}");
    }
    let defined = client.batch_execute("CREATE TABLE u (id int PRIMARY KEY)").await;
    if let Err(error) = defined {
        assert_eq!(error.code().map(|code| code.code()), Some("53100"), "{design}: {error}");
    }
    mounted.enlarge("600m");
    let begun = Instant::now();
    loop {
        number += 1;
        let Some(state) = insert(&client, number).await else { break };
        assert!(state == "53100" && begun.elapsed() < PATIENCE, "{design}: {state}: {}", server.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stored += 1;
    for _ in 0..3000 {
        number += 1;
        assert_eq!(insert(&client, number).await, None, "{design}: with room again: {}", server.log());
        stored += 1;
    }
    drop(client);
    server.kill();
    server.start_again();
    let client = server.client().await;
    assert_eq!(count(&client).await, stored, "{design}");
    assert_eq!(insert(&client, number + 1).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_statements_and_the_server_goes_on_with_room() {
    trial("conventional", First::Log).await;
    trial("logical", First::Pages).await;
    trial("occ", First::Log).await;
}
