//! `kill -9` of the server and of its instances under deposits, with `--durability sync`. Clients
//! connect again by themselves. Afterwards each acknowledged deposit is there once, none that was
//! refused is, and each balance is the sum of its deposits.
//!
//! `cargo xtask kill serve` runs more rounds: `KILL_ROUNDS` of them, from `KILL_SEED` on.

use crate::served::{Served, connect, signal_to};
use fastrand::Rng;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio_postgres::Client;

const CLIENTS: u64 = 6;
/// Accounts lie at all instances: runs of 64 numbers go round the slots.
const ACCOUNTS: u64 = 64;
const APART: u64 = 64;
/// After a kill a client must be served again within this time.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Acknowledged,
    Refused,
    /// The connection broke before the answer.
    Unknown,
}

/// Account, amount, and what the client was told, by number of the deposit.
type Ledger = HashMap<i64, (i64, i64, Fate)>;

/// How a client makes its deposits.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// A transaction of three statements, as pgbench does.
    Interactive,
    /// One text of two statements.
    Text,
}

/// One deposit. Which of the errors says that it has no effect is the server's promise.
async fn deposit(client: &Client, way: Way, (id, account, amount): (i64, i64, i64)) -> Fate {
    let change = format!("UPDATE account SET balance = balance + {amount} WHERE id = {account}");
    let note = format!("INSERT INTO deposit VALUES ({id}, {account}, {amount})");
    let statements = match way {
        Way::Interactive => vec!["BEGIN".into(), change, note, "COMMIT".into()],
        Way::Text => vec![format!("{change}; {note}")],
    };
    let last = statements.len() - 1;
    for (at, statement) in statements.iter().enumerate() {
        let Err(error) = client.batch_execute(statement).await else { continue };
        let code = error.code().map(|code| code.code().to_owned());
        if way == Way::Interactive {
            // The connection may have gone.
            let _ = client.batch_execute("ROLLBACK").await;
        }
        return match code.as_deref() {
            Some("08007") => Fate::Unknown,
            Some(_) => Fate::Refused,
            // The server is gone: before the last statement nothing can have committed.
            None if at < last => Fate::Refused,
            None => Fate::Unknown,
        };
    }
    Fate::Acknowledged
}

/// Connects, again and again while the server is down.
async fn reach(config: &str) -> Client {
    let begun = Instant::now();
    loop {
        match connect(config).await {
            Ok(client) => return client,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "no connection for {PATIENCE:?}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Makes deposits until `ends`. Returns what it was told of each.
async fn client(config: String, number: u64, ends: Arc<AtomicBool>, told: Arc<AtomicUsize>) -> Ledger {
    let mut rng = Rng::with_seed(number);
    let way = if number.is_multiple_of(2) { Way::Interactive } else { Way::Text };
    let mut ledger = Ledger::new();
    let mut connected = reach(&config).await;
    let mut id = number as i64 * 1_000_000_000;
    while !ends.load(Ordering::Acquire) {
        id += 1;
        let (account, amount) = ((rng.u64(..ACCOUNTS) * APART) as i64, rng.i64(-50..=100));
        let fate = deposit(&connected, way, (id, account, amount)).await;
        ledger.insert(id, (account, amount, fate));
        told.fetch_add(usize::from(fate == Fate::Acknowledged), Ordering::Release);
        if connected.is_closed() {
            connected = reach(&config).await;
        } else if fate != Fate::Acknowledged {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    ledger
}

/// The process that is killed in a round.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Server,
    Instance,
}

/// Kills under load, and waits until clients are served again.
async fn torment(
    served: &mut Served,
    rng: &mut Rng,
    kills: u32,
    acknowledged: impl Fn() -> usize,
) -> Vec<Victim> {
    let mut victims = Vec::new();
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(rng.u64(50..500))).await;
        let instances = served.instances();
        let victim = if rng.bool() || instances.is_empty() { Victim::Server } else { Victim::Instance };
        match victim {
            Victim::Server => {
                served.kill();
                served.start_again();
            }
            Victim::Instance => {
                signal_to(instances[rng.usize(..instances.len())], rustix::process::Signal::KILL)
            }
        }
        victims.push(victim);
        let (before, begun) = (acknowledged(), Instant::now());
        while acknowledged() == before {
            assert!(begun.elapsed() < PATIENCE, "nothing is acknowledged after the death of {victim:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    victims
}

/// Compares the database with what clients were told. Returns the number of acknowledged deposits.
async fn judge(served: &Served, ledger: &Ledger) -> usize {
    let client = reach(&served.config()).await;
    // An instance may still come back.
    let begun = Instant::now();
    let rows = loop {
        match client.query("SELECT id, account, amount FROM deposit", &[]).await {
            Ok(rows) => break rows,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
    };
    let mut sums: HashMap<i64, i64> = HashMap::new();
    let mut there = HashMap::new();
    for row in rows {
        let (id, account, amount): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        *sums.entry(account).or_default() += amount;
        there.insert(id, (account, amount));
    }
    for (id, (account, amount, fate)) in ledger {
        match (fate, there.get(id)) {
            (Fate::Acknowledged, None) => panic!("the acknowledged deposit {id} is lost"),
            (Fate::Refused, Some(_)) => {
                panic!("the deposit {id} is there, and its client was told that it is not")
            }
            (_, Some(found)) => assert_eq!(found, &(*account, *amount), "deposit {id}"),
            (_, None) => {}
        }
    }
    assert!(there.keys().all(|id| ledger.contains_key(id)), "a deposit of no client");
    for row in client.query("SELECT id, balance FROM account", &[]).await.unwrap() {
        let (account, balance): (i64, i64) = (row.get(0), row.get(1));
        assert_eq!(balance, sums.get(&account).copied().unwrap_or(0), "account {account}");
    }
    ledger.values().filter(|(_, _, fate)| *fate == Fate::Acknowledged).count()
}

const DESIGNS: [&str; 7] =
    ["conventional", "occ", "logical", "serial", "plp-regular", "plp-partition", "plp-leaf"];

/// One database: kills under load, then the judgement.
async fn life(seed: u64, kills: u32) -> (usize, Vec<Victim>) {
    let mut rng = Rng::with_seed(seed);
    let design = DESIGNS[seed as usize % DESIGNS.len()];
    let (islands, host) = [("2", "process"), ("1", "process"), ("1", "thread")][rng.usize(..3)];
    let options = ["--islands", islands, "--host", host, "--design", design, "--durability", "sync"];
    let mut served = Served::start(&options);
    let setup = served.client().await;
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
    let ends = Arc::new(AtomicBool::new(false));
    let told = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (config, ends, told) = (served.config(), Arc::clone(&ends), Arc::clone(&told));
            tokio::spawn(client(config, number, ends, told))
        })
        .collect();
    let acknowledged = || told.load(Ordering::Acquire);
    let victims = torment(&mut served, &mut rng, kills, acknowledged).await;
    ends.store(true, Ordering::Release);
    let mut ledger = Ledger::new();
    for client in clients {
        ledger.extend(client.await.unwrap());
    }
    let count = judge(&served, &ledger).await;
    // What the last server has kept in memory is no proof.
    served.kill();
    served.start_again();
    assert_eq!(judge(&served, &ledger).await, count, "{design}");
    drop(served);
    (count, victims)
}

fn number_of(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_deposits_survive_kills() {
    let rounds = number_of("KILL_ROUNDS").unwrap_or(3);
    let first = number_of("KILL_SEED").unwrap_or(1);
    let (mut deposits, mut server, mut instance) = (0, 0, 0);
    for seed in first..first + rounds {
        let (count, victims) = life(seed, 4).await;
        deposits += count;
        server += victims.iter().filter(|victim| matches!(victim, Victim::Server)).count();
        instance += victims.iter().filter(|victim| matches!(victim, Victim::Instance)).count();
        eprintln!("seed {seed}: {count} acknowledged deposits, killed: {victims:?}");
    }
    eprintln!(
        "{deposits} acknowledged deposits, {server} kills of servers, {instance} of instances: all there"
    );
}
