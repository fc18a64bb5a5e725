//! What an operator has: a status page, counts, a configuration file, a service manager, limits,
//! and a stop in order.

use crate::browser::{self, Browser, Screen};
use crate::served::{Served, connect, program};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio_postgres::error::SqlState;

/// A new server with a status page, and the page's address.
fn with_status(options: &[&str]) -> (Served, String) {
    let served = Served::start(&[options, &["--status", "127.0.0.1:0"]].concat());
    let log = served.log();
    let line =
        log.lines().find(|line| line.contains("the status page is ready")).unwrap_or_else(|| panic!("{log}"));
    let address = line.rsplit("address=").next().unwrap().trim().to_owned();
    (served, address)
}

fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("{request} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The value of a line of the metrics.
fn metric(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}: {text}")).parse().unwrap()
}

#[tokio::test]
async fn counts_for_programs() {
    let (served, address) = with_status(&["--islands", "2"]);
    let client = served.client().await;
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
    for id in [1, 2561] {
        client.batch_execute(&format!("INSERT INTO t VALUES ({id}, 0)")).await.unwrap();
    }
    assert!(client.batch_execute("SELECT 1 / 0").await.is_err());
    let text = ask(&address, "GET /metrics");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n"), "{text}");
    assert!(metric(&text, "atoll_commits_total") >= 3.0 && metric(&text, "atoll_sessions") == 1.0, "{text}");
    assert_eq!(metric(&text, "atoll_sqlstate_total{state=\"22012\"}"), 1.0);
    assert!(metric(&text, "atoll_statement_seconds_count") >= 4.0);
    for island in [0, 1] {
        assert!(
            metric(&text, &format!("atoll_island_requests_total{{island=\"{island}\"}}")) >= 1.0,
            "{text}"
        );
        assert_eq!(metric(&text, &format!("atoll_island_restarts_total{{island=\"{island}\"}}")), 0.0);
    }
    let values = ask(&address, "GET /status.json?x");
    let values: serde_json::Value = serde_json::from_str(values.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!((&values["design"], &values["durability"]), (&"conventional".into(), &"sync".into()));
    assert_eq!(values["islands"].as_array().unwrap().len(), 2);
    assert_eq!(values["states"]["22012"], 1);
    assert!(
        values["log"]
            .as_array()
            .unwrap()
            .iter()
            .any(|line| line.as_str().unwrap().contains("a session begins"))
    );
    assert!(ask(&address, "GET /other").starts_with("HTTP/1.1 404 "));
    assert!(ask(&address, "POST /metrics").starts_with("HTTP/1.1 405 "));
    // A client that sends no whole request does not keep others from theirs.
    let mut slow = TcpStream::connect(&address).unwrap();
    slow.write_all(b"GET /met").unwrap();
    assert!(ask(&address, "HEAD /").starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_for_people() {
    let Some(chromium) = browser::find() else {
        return eprintln!("skipped: no Chromium is installed");
    };
    let (served, address) = with_status(&["--islands", "2"]);
    let client = served.client().await;
    client
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0)")
        .await
        .unwrap();
    assert!(client.batch_execute("SELECT 1 / 0").await.is_err());
    // A definition that waits for a transaction.
    let (holder, waiter) = (served.client().await, served.client().await);
    holder.batch_execute("BEGIN; SELECT * FROM t").await.unwrap();
    let waits = tokio::spawn(async move {
        waiter.batch_execute("SET lock_timeout = 0; ALTER TABLE t ADD COLUMN w int").await.unwrap();
    });
    let load = tokio::spawn(async move {
        loop {
            client.batch_execute("SELECT 1").await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let home = tempfile::tempdir().unwrap();
    let seen = tokio::task::spawn_blocking(move || {
        let mut browser = Browser::start(&chromium, home.path());
        let mut page = browser.page();
        page.visit(
            &format!("http://{address}/"),
            Screen { width: 1100, height: 900, mobile: false, scheme: "light" },
        );
        let text = |page: &mut browser::Page<'_>| page.value("document.body.innerText").to_string();
        // Rates need two rounds of values.
        for _ in 0..600 {
            let rate = page.value("parseFloat(document.getElementById('sps').textContent)");
            if rate.as_f64().is_some_and(|rate| rate > 0.0) && text(&mut page).contains("table t") {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        if let Some(pictures) = std::env::var_os("REPORT_TEST_PICTURES") {
            std::fs::write(Path::new(&pictures).join("status.png"), page.picture("body")).unwrap();
        }
        let islands = page.value("document.querySelectorAll('.island').length");
        (text(&mut page), islands, page.complaints())
    });
    let (text, islands, complaints) = seen.await.unwrap();
    load.abort();
    holder.batch_execute("COMMIT").await.unwrap();
    waits.await.unwrap();
    assert_eq!(complaints, [""; 0]);
    assert_eq!(islands, 2);
    for word in ["live", "island 1", "slots", "table t", "22012", "a session begins", "conventional"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

/// Options in a file, and words to the service manager.
#[test]
fn started_by_a_service_manager_with_a_file_of_options() {
    let dir = tempfile::Builder::new().prefix("s-").tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let file = format!(
        "data = \"{}\"\nlisten = \"127.0.0.1:0\"\nmemory = \"64M\"\nislands = 2\nworkers = 2\njson = true\n",
        at("db").display()
    );
    std::fs::write(at("atoll.toml"), file).unwrap();
    let manager = UnixDatagram::bind(at("notify")).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let told = || {
        let mut bytes = [0; 100];
        let length = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let mut child = Command::new(program())
        .args(["serve", "--config"])
        .arg(at("atoll.toml"))
        .args(["--design", "serial"])
        .env("NOTIFY_SOCKET", at("notify"))
        .env("TMPDIR", dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(told(), "READY=1");
    crate::served::signal_to(child.id(), rustix::process::Signal::TERM);
    assert_eq!(told(), "STOPPING=1");
    assert!(child.wait().unwrap().success());
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(log.lines().all(|line| line.starts_with('{')), "{log}");
    assert!(at("db/1").exists(), "two islands");
}

#[test]
fn the_units_of_systemd_are_units() {
    verify_unit("atoll.service");
    verify_unit("atoll-agent.service");
}

fn verify_unit(name: &str) {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    let dir = tempfile::tempdir().unwrap();
    // The manager looks for the program.
    let text = std::fs::read_to_string(unit).unwrap();
    let text =
        text.replace("/usr/local/bin/atoll", &program().to_string_lossy()).replace("User=atoll", "User=root");
    let file = dir.path().join(name);
    std::fs::write(&file, text).unwrap();
    match Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && !said.contains(name), "{said}");
        }
        Err(why) => eprintln!("skipped: systemd-analyze: {why}"),
    }
}

/// One pod for each machine, with whole CPUs of its own.
#[test]
fn the_stateful_set_is_of_class_guaranteed() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/statefulset.yaml");
    let check = "
import sys
try:
    import yaml
except ImportError:
    sys.exit(77)
service, pods = yaml.safe_load_all(open(sys.argv[1]))
assert (service['kind'], pods['kind']) == ('Service', 'StatefulSet')
assert pods['spec']['serviceName'] == service['metadata']['name']
pod = pods['spec']['template']
assert pods['spec']['selector']['matchLabels'] == pod['metadata']['labels']
assert pod['spec']['affinity']['podAntiAffinity']['requiredDuringSchedulingIgnoredDuringExecution']
(agent,) = pod['spec']['containers']
resources = agent['resources']
assert resources['requests'] == resources['limits'] and resources['limits']['cpu'].isdigit()
volumes = {v['name'] for v in pod['spec']['volumes']}
volumes |= {c['metadata']['name'] for c in pods['spec']['volumeClaimTemplates']}
assert {m['name'] for m in agent['volumeMounts']} == volumes
assert 'atoll agent' in agent['args'][0]
";
    match Command::new("python3").args(["-c", check]).arg(file).output() {
        Ok(output) if output.status.code() == Some(77) => eprintln!("skipped: python3 has no yaml"),
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(why) => eprintln!("skipped: python3: {why}"),
    }
}

#[tokio::test]
async fn limits_of_connections_and_of_time() {
    let limits =
        ["--connections", "2", "--statement-timeout", "200ms", "--idle-transaction-timeout", "300ms"];
    let served = Served::start(&limits);
    let (holder, waiter) = (served.client().await, served.client().await);
    let third = connect(&served.config()).await.err().unwrap();
    assert_eq!(third.code(), Some(&SqlState::TOO_MANY_CONNECTIONS));
    holder
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0)")
        .await
        .unwrap();
    holder.batch_execute("SET idle_in_transaction_session_timeout = 0; BEGIN").await.unwrap();
    holder.batch_execute("UPDATE t SET v = 1").await.unwrap();
    waiter.batch_execute("BEGIN").await.unwrap();
    let late = waiter.batch_execute("UPDATE t SET v = 2").await.unwrap_err();
    assert_eq!(late.code(), Some(&SqlState::QUERY_CANCELED));
    // It is idle in its transaction from now on.
    while !waiter.is_closed() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Another client may take its place, and choose a limit of its own at the start.
    let config = format!("{} options='-c statement_timeout=1h'", served.config());
    let other = loop {
        // The server may not have seen the end of the last one.
        match connect(&config).await {
            Ok(other) => break other,
            Err(error) => assert_eq!(error.code(), Some(&SqlState::TOO_MANY_CONNECTIONS)),
        }
    };
    let shown = other.query_one("SHOW statement_timeout", &[]).await.unwrap();
    assert_eq!(shown.get::<_, &str>(0), "3600000");
}

/// Sessions on the threads of the workers have links to both instances, which end one after the
/// other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_that_was_asked_for_is_quiet() {
    let mut served = Served::start(&["--islands", "2", "--host", "thread"]);
    let clients = [served.client().await, served.client().await, served.client().await];
    clients[0].batch_execute("CREATE TABLE t (id int PRIMARY KEY, b text)").await.unwrap();
    let fill = "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 8000) i";
    clients[0].batch_execute(fill).await.unwrap();
    for client in &clients {
        client.batch_execute("SELECT count(*) FROM t").await.unwrap();
    }
    served.stop();
    let log = served.log();
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
}

/// A transaction under way may end; what is not committed by then has no effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_lets_transactions_end() {
    let mut served = Served::start(&["--islands", "2"]);
    let (one, two) = (served.client().await, served.client().await);
    one.batch_execute("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
    one.batch_execute("BEGIN; INSERT INTO t VALUES (1)").await.unwrap();
    two.batch_execute("BEGIN; INSERT INTO t VALUES (2)").await.unwrap();
    served.signal(rustix::process::Signal::TERM);
    // New clients are refused once the server has seen the signal.
    while connect(&served.config()).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    one.batch_execute("COMMIT").await.unwrap();
    drop(two);
    served.await_end();
    served.start_again();
    let client = served.client().await;
    let rows = client.query("SELECT id FROM t", &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [1]);
}
