//! Base copies of a server that writes: put beside it, trimmed behind, and begun with on a machine
//! that has nothing. Over real relays; plain `cargo test` skips it with a word, `cargo xtask
//! trial-cluster` runs it.

use crate::served::{Served, program};
use crate::takeovers::Service;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Output};
use tokio_postgres::Client;

const NAME: &str = "bases";
/// Rows of a round.
const ROWS: i32 = 300;

fn atoll(args: &[&str]) -> Output {
    Command::new(program()).args(args).output().unwrap()
}

/// The lines of a command that must succeed.
fn lines(args: &[&str]) -> Vec<serde_json::Value> {
    let output = atoll(args);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {told}");
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The positions of each log that a take-over would read, as a call of `base put` leaves it: from
/// the log's beginning to where the new copy ends.
type Spans = BTreeMap<String, Range<u64>>;

fn spans_after(put: &[&str]) -> Spans {
    let span = |line: serde_json::Value| {
        let number = |name: &str| line[name].as_u64().unwrap();
        (line["log"].as_str().unwrap().to_owned(), number("begins")..number("next"))
    };
    lines(put).into_iter().map(span).collect()
}

/// Each log that rows went to since the crash begins behind what it had then, so that a take-over
/// reads the last rounds only.
fn assert_trimmed_since(crash: &Spans, now: &Spans) {
    let rows = ROWS as u64 / 4;
    let mut busy = 0;
    for (log, span) in now.iter().filter(|(log, span)| span.end > crash[*log].end + rows) {
        busy += 1;
        assert!(span.start > crash[log].end, "{log} was not trimmed since the crash: {crash:?}, {now:?}");
    }
    assert!(busy > 0, "no log has grown since the crash: {crash:?}, {now:?}");
}

/// The line of a command that must fail.
fn refusal(args: &[&str]) -> String {
    let output = atoll(args);
    assert!(!output.status.success(), "{args:?} succeeds");
    String::from_utf8(output.stderr).unwrap()
}

async fn insert(client: &Client, numbers: Range<i32>) {
    for number in numbers {
        client.execute("INSERT INTO t VALUES ($1, repeat('x', 2000))", &[&number]).await.unwrap();
    }
}

async fn count(client: &Client) -> i64 {
    client.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get(0)
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
}

async fn trial(kind: &str, design: &str) {
    let relay = Service::up(kind, &[]);
    let at = ["--relay", relay.address.as_str(), "--relay-name", NAME];
    let all = ["--islands", "2", "--design", design, "--durability", "replicated"];
    let options = [&all[..], &at[..]].concat();
    let mut server = Served::start(&options);
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY, b text)").await.unwrap();
    insert(&client, 0..50).await;
    drop(client);
    server.stop();
    let room = tempfile::tempdir().unwrap();
    let [keep, old, place, got] = ["keep", "old", "place", "got"].map(|name| room.path().join(name));
    let [keep_, place_, got_] = [&keep, &place, &got].map(|path| path.to_str().unwrap());
    copy(&server.dir.path().join("db"), &keep);
    copy(&keep, &old);
    let nowhere = refusal(&["base", "put", keep_, "--to", place_]);
    assert!(nowhere.contains("make it first"), "{nowhere}");
    std::fs::create_dir(&place).unwrap();
    server.start_again();
    let mut client = server.client().await;
    let put =
        [&["base", "put", keep_, "--to", place_, "--json", "--keep", "1", "--trim"][..], &at[..]].concat();
    let (mut rows, mut spans) = (50, Vec::new());
    for round in 0..6 {
        if round == 2 {
            // The log has a seal behind a milestone. The first call after it need not see an entry.
            drop(client);
            server.kill();
            server.start_again();
            client = server.client().await;
            spans = vec![spans_after(&put)];
        }
        insert(&client, rows..rows + ROWS).await;
        rows += ROWS;
        // Nothing else is written meanwhile, but the server runs.
        spans.push(spans_after(&put));
        assert_eq!(count(&client).await, i64::from(rows));
    }
    eprintln!("{kind}, {design}: beside a server that writes, since its crash: {spans:?}");
    assert_trimmed_since(&spans[0], &spans[spans.len() - 1]);
    let listed = lines(&["base", "list", place_, "--relay-name", NAME, "--json"]);
    assert_eq!(listed.len(), 2, "{listed:?}");
    insert(&client, rows..rows + 20).await;
    rows += 20;
    drop(client);
    // The server can go on by itself, and the log has what the copies lack.
    server.kill();
    server.start_again();
    assert_eq!(count(&server.client().await).await, i64::from(rows), "{}", server.log());
    server.kill();
    std::fs::remove_dir_all(server.dir.path().join("db")).unwrap();
    // Folders older than the trimmed log are refused, and the way out works.
    let old_ = old.to_str().unwrap();
    let why = refusal(&[&["base", "put", old_, "--to", place_][..], &at[..]].concat());
    assert!(why.contains("was trimmed") && why.contains("atoll base get"), "{why}");
    let get = ["base", "get", place_, "--relay-name", NAME, "--to", got_, "--json"];
    assert_eq!(lines(&get).len(), 2);
    let other = [&options[..], &["--base", place_]].concat();
    let second = Served::start(&other);
    assert!(second.log().contains("begins with base copy"), "{}", second.log());
    let client = second.client().await;
    assert_eq!(count(&client).await, i64::from(rows));
    insert(&client, rows..rows + 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_with_nothing_begins_with_a_base_copy() {
    let asked = std::env::var("ATOLL_RELAY").unwrap_or_default();
    if asked.is_empty() {
        return eprintln!("skipped: no relay is asked for; `cargo xtask trial-cluster` runs the trial");
    }
    for kind in asked.split(',') {
        for design in ["conventional", "occ"] {
            trial(kind, design).await;
        }
    }
}
