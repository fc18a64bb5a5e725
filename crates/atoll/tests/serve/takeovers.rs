//! Deposits over islands of a machine that dies or stops. Another machine takes them over in
//! another directory: `--durability replicated` over real relays, with leases in etcd.
//!
//! A machine is a server with its instances and its directory. It is killed as a whole, or stopped
//! and continued after its successor serves. Then: no acknowledged deposit is lost, each balance is
//! the sum of its deposits, and the machine that was stopped answers no read.
//!
//! `cargo xtask trial-cluster` runs it; plain `cargo test` skips it with a word. `ATOLL_RELAY`
//! names the services (`nats`, `kafka`), `ATOLL_PROGRAM` a binary with their clients.

use crate::kills::{ACCOUNTS, APART, Fate, Ledger, PATIENCE, Way, deposit, judge, number_of, reach};
use crate::served::{Served, connect, signal_to};
use fastrand::Rng;
use rustix::process::Signal;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio_postgres::Client;

const CLIENTS: u64 = 6;
/// A client gives up a deposit without an answer after this time, and does not know its fate.
const ANSWER: Duration = Duration::from_secs(5);

/// Three servers of one service, ended with this value.
pub(crate) struct Service {
    dir: tempfile::TempDir,
    pub address: String,
}

fn script(args: &[&str], env: &[(&str, String)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/relay-services");
    let env = env.iter().map(|(name, value)| (name, value));
    let output = Command::new(path).args(args).envs(env).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "relay-services {args:?} failed");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

impl Service {
    /// `env` is that of the script.
    pub fn up(kind: &str, env: &[(&str, String)]) -> Service {
        let dir = tempfile::tempdir().unwrap();
        let address = script(&["up", kind, dir.path().to_str().unwrap()], env);
        Service { dir, address }
    }

    /// Does something with one of the servers; 1 is the first.
    pub fn one(&self, what: &str, number: usize) {
        script(&[what, self.dir.path().to_str().unwrap(), &number.to_string()], &[]);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        script(&["down", self.dir.path().to_str().unwrap()], &[]);
    }
}

/// The address of the machine that serves; changed by the trial.
type Active = Arc<Mutex<String>>;

fn active(active: &Active) -> String {
    active.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Connects to the machine that serves, again and again.
async fn reach_active(all: &Active) -> Client {
    let begun = Instant::now();
    loop {
        let config = active(all);
        if let Ok(Ok(client)) = tokio::time::timeout(Duration::from_secs(2), connect(&config)).await {
            return client;
        }
        assert!(begun.elapsed() < PATIENCE, "no connection for {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn client(all: Active, number: u64, ends: Arc<AtomicBool>, told: Arc<AtomicUsize>) -> Ledger {
    let mut rng = Rng::with_seed(number);
    let way = if number.is_multiple_of(2) { Way::Interactive } else { Way::Text };
    let mut ledger = Ledger::new();
    let mut connected = reach_active(&all).await;
    let mut id = number as i64 * 1_000_000_000;
    while !ends.load(Ordering::Acquire) {
        id += 1;
        let (account, amount) = ((rng.u64(..ACCOUNTS) * APART) as i64, rng.i64(-50..=100));
        let making = deposit(&connected, way, (id, account, amount));
        let answered = tokio::time::timeout(ANSWER, making).await;
        let is_late = answered.is_err();
        let fate = answered.unwrap_or(Fate::Unknown);
        ledger.insert(id, (account, amount, fate));
        told.fetch_add(usize::from(fate == Fate::Acknowledged), Ordering::Release);
        if is_late || connected.is_closed() {
            connected = reach_active(&all).await;
        } else if fate != Fate::Acknowledged {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    ledger
}

/// What happens to the machine that serves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Blow {
    Killed,
    Stopped,
}

/// The server and its instances.
fn signal_all(machine: &Served, signal: Signal) {
    let instances = machine.instances();
    machine.signal(signal);
    instances.into_iter().for_each(|pid| signal_to(pid, signal));
}

/// A machine that was stopped is continued: it must answer no read, and end by itself.
async fn deposed(machine: &mut Served, readers: &[Client]) -> usize {
    signal_all(machine, Signal::CONT);
    let mut refused = 0;
    for reader in readers {
        let read = reader.query("SELECT sum(balance) FROM account", &[]);
        match tokio::time::timeout(Duration::from_secs(3), read).await {
            Ok(Ok(_)) => panic!("a deposed machine has answered a read"),
            Ok(Err(_)) | Err(_) => refused += 1,
        }
    }
    let begun = Instant::now();
    while !machine.has_ended() {
        assert!(begun.elapsed() < PATIENCE, "a machine goes on after the end of its lease");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    refused
}

async fn trial(kind: &str, design: &str, blows: u64, rng: &mut Rng) {
    let (relay, etcd) = (Service::up(kind, &[]), Service::up("etcd", &[]));
    let options = |machine| {
        let all =
            ["--islands", "2", "--design", design, "--durability", "replicated", "--relay", &relay.address];
        [&all[..], &["--relay-name", "trial", "--etcd", &etcd.address, "--machine", machine]].concat()
    };
    let mut first = Served::start(&options("a"));
    let setup = first.client().await;
    setup
        .batch_execute(
            "CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL);
             CREATE TABLE deposit (id bigint PRIMARY KEY, account bigint NOT NULL, amount bigint NOT NULL)",
        )
        .await
        .unwrap();
    let accounts: Vec<String> = (0..ACCOUNTS).map(|i| format!("({}, 0)", i * APART)).collect();
    setup.batch_execute(&format!("INSERT INTO account VALUES {}", accounts.join(", "))).await.unwrap();
    drop(setup);
    // The base copy of the other machine.
    first.stop();
    let second = first.start_copy(&options("b"));
    let all: Active = Arc::new(Mutex::new(second.config()));
    let (mut serves, mut other) = (second, first);
    let (ends, told) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(client(all.clone(), number, ends.clone(), told.clone())))
        .collect();
    let (mut silent, mut refused) = (Vec::new(), 0);
    for _ in 0..blows {
        tokio::time::sleep(Duration::from_millis(rng.u64(500..2500))).await;
        let blow = if rng.bool() { Blow::Killed } else { Blow::Stopped };
        let mut readers = Vec::new();
        for _ in 0..4 {
            readers.push(reach(&serves.config()).await);
        }
        match blow {
            Blow::Killed => serves.kill(),
            Blow::Stopped => signal_all(&serves, Signal::STOP),
        }
        let begun = Instant::now();
        // It waits for the lease of the other to end.
        other.start_again();
        std::mem::swap(&mut serves, &mut other);
        *all.lock().unwrap() = serves.config();
        let before = told.load(Ordering::Acquire);
        while told.load(Ordering::Acquire) == before {
            assert!(begun.elapsed() < PATIENCE, "nothing is acknowledged after a machine was {blow:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        silent.push((blow, begun.elapsed()));
        if blow == Blow::Stopped {
            refused += deposed(&mut other, &readers).await;
        }
    }
    ends.store(true, Ordering::Release);
    let mut ledger = Ledger::new();
    for client in clients {
        ledger.extend(client.await.unwrap());
    }
    let count = judge(&serves.config(), &ledger).await;
    serves.kill();
    serves.start_again();
    assert_eq!(judge(&serves.config(), &ledger).await, count, "{design}");
    eprintln!(
        "{kind}, {design}: {count} acknowledged deposits, all there after {silent:.1?}; {refused} reads of deposed \
         machines, none answered"
    );
}

const DESIGNS: [&str; 4] = ["conventional", "occ", "logical", "serial"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_deposits_survive_the_loss_of_their_machine() {
    let asked = std::env::var("ATOLL_RELAY").unwrap_or_default();
    if asked.is_empty() {
        return eprintln!("skipped: no relay is asked for; `cargo xtask trial-cluster` runs the trial");
    }
    let (rounds, seed) = (number_of("TAKEOVER_ROUNDS").unwrap_or(2), number_of("TAKEOVER_SEED").unwrap_or(1));
    for kind in asked.split(',') {
        let mut rng = Rng::with_seed(seed);
        for design in DESIGNS.iter().take(rounds.div_ceil(3) as usize) {
            trial(kind, design, 3, &mut rng).await;
        }
    }
}
