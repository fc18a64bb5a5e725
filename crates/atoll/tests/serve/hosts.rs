//! Three hosts in network namespaces, each with a server of the relay, one of etcd and one `atoll
//! serve`, are killed, stopped and cut off at random while clients use the database.
//!
//! ```text
//!   operator: deposits, histories --+-- host 1: atoll, relay, etcd, a reader inside
//!                                   +-- host 2: the same
//!                                   +-- host 3: the same
//! ```
//!
//! One host is struck at a time, with all that runs there, so a quorum is left; it is healed once
//! the database is served again. A supervisor starts `atoll serve` again on each host that has
//! none, as systemd does: it waits there until the lease of the host that serves is over.
//!
//! Judged: no acknowledged deposit is lost, each balance is the sum of its deposits, and the
//! history of all clients is strictly serialisable. The readers inside the hosts reach a server
//! that is cut off from all others: an answer after its successor's first commit would be a stale
//! read.
//!
//! `cargo xtask trial-cluster --over hosts` runs it, as root; plain `cargo test` skips it with a
//! word.

use crate::histories::{self, Record};
use crate::kills::{ACCOUNTS, APART, Fate, Ledger, PATIENCE, Way, deposit, judge, number_of};
use crate::served::{connect, program};
use crate::takeovers::Service;
use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio_postgres::Client;

const HOSTS: usize = 3;
const PREFIX: &str = "atolltrial";
const NET: &str = "10.79.0";
const PORT: u16 = 5432;
const PASSWORD: &str = "of the trial";
const DEPOSITORS: u64 = 4;
const WRITERS: u64 = 3;
/// A client gives up without an answer after this time, and does not know the outcome.
const ANSWER: Duration = Duration::from_secs(4);
const CONNECTED: Duration = Duration::from_secs(1);

/// Lets this thread, and the processes that it starts, use the network of a namespace.
fn enter(namespace: &str) {
    let file = File::open(format!("/var/run/netns/{namespace}")).unwrap();
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
}

/// The network namespaces.
struct Net;

impl Net {
    fn script(args: &[&str]) -> std::process::Output {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/hosts-here");
        Command::new(path).args(args).env("PREFIX", PREFIX).env("NET", NET).output().unwrap()
    }

    fn run(args: &[&str]) {
        let output = Net::script(args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        Net::script(&["down"]);
    }
}

/// One of the hosts.
struct Host {
    number: usize,
    dir: PathBuf,
    options: Vec<String>,
    server: Mutex<Option<Child>>,
    /// Whether the supervisor starts the server.
    is_up: AtomicBool,
}

impl Host {
    fn namespace(&self) -> String {
        format!("{PREFIX}-{}", self.number)
    }

    fn config(&self) -> String {
        let Host { number, .. } = self;
        format!("host={NET}.{number} port={PORT} user=atoll dbname=test password='{PASSWORD}'")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Starts the server if there is none.
    fn tend(&self) {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = server.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none());
        if runs || !self.is_up.load(Ordering::Acquire) {
            return;
        }
        let log = File::options().create(true).append(true).open(self.dir.join("log")).unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace()]).arg(program()).arg("serve");
        command.args(["--data", &self.dir.join("db").to_string_lossy(), "--workers", "2", "--memory", "64M"]);
        command.args(["--listen", &format!("{NET}.{}:{PORT}", self.number)]).args(&self.options);
        command.env("TMPDIR", &self.dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        *server = Some(command.spawn().unwrap());
    }

    /// The process of the server, unless it has ended.
    fn pid(&self) -> Option<u32> {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let child = server.as_mut()?;
        child.try_wait().unwrap().is_none().then(|| child.id())
    }

    /// All processes there, the relay's and etcd's too.
    fn signal_all(&self, signal: Signal) {
        let output = Command::new("ip").args(["netns", "pids", &self.namespace()]).output().unwrap();
        for pid in String::from_utf8_lossy(&output.stdout).split_whitespace() {
            let pid = pid.parse().ok().and_then(Pid::from_raw).unwrap();
            let _ = kill_process(pid, signal); // it may have ended
        }
    }

    /// Ends the server in order.
    fn stop(&self) {
        self.is_up.store(false, Ordering::Release);
        let child = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut child) = child {
            let _ = kill_process(Pid::from_child(&child), Signal::TERM); // it may have ended
            child.wait().unwrap();
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Blow {
    Killed,
    Stopped,
    Cut,
}

const BLOWS: [Blow; 3] = [Blow::Killed, Blow::Stopped, Blow::Cut];

/// All that the trial has started, ended with it.
struct Cluster {
    hosts: Vec<Arc<Host>>,
    services: Vec<Service>,
    _net: Net,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for host in &self.hosts {
            host.is_up.store(false, Ordering::Release);
            host.signal_all(Signal::CONT);
            host.signal_all(Signal::KILL);
            if let Some(mut child) = host.server.lock().unwrap_or_else(PoisonError::into_inner).take() {
                let _ = child.wait();
            }
            if std::thread::panicking() {
                eprintln!("the log of host {}:\n{}", host.number, host.log());
            }
        }
    }
}

impl Cluster {
    fn up(dir: &Path, kind: &str, design: &str) -> Cluster {
        let net = Net;
        Net::run(&["up", &HOSTS.to_string(), dir.join("hosts").to_str().unwrap()]);
        enter(&format!("{PREFIX}-operator"));
        let all = |of: &dyn Fn(usize) -> String| (1..=HOSTS).map(of).collect::<Vec<_>>().join(" ");
        let env = [
            ("RELAY_HOSTS", all(&|i| format!("{NET}.{i}"))),
            ("RELAY_NS", all(&|i| format!("{PREFIX}-{i}"))),
        ];
        let services = vec![Service::up(kind, &env), Service::up("etcd", &env)];
        let password = dir.join("password");
        std::fs::write(&password, PASSWORD).unwrap();
        let host = |number: usize| {
            let machine = format!("h{number}");
            let words = ["--islands", "2", "--design", design, "--durability", "replicated"];
            let relay = ["--relay", &services[0].address, "--relay-name", "trial"];
            let etcd = ["--etcd", &services[1].address, "--machine", &machine];
            let options = [&words[..], &relay, &etcd, &["--password-file", password.to_str().unwrap()]];
            let dir = dir.join(&machine);
            std::fs::create_dir(&dir).unwrap();
            let options = options.concat().into_iter().map(str::to_owned).collect();
            Arc::new(Host { number, dir, options, server: Mutex::default(), is_up: AtomicBool::new(false) })
        };
        let hosts = (1..=HOSTS).map(host).collect();
        Cluster { hosts, services, _net: net }
    }

    /// Makes the tables on the first host, and copies its directory to the others.
    async fn load(&self) {
        let first = &self.hosts[0];
        first.is_up.store(true, Ordering::Release);
        first.tend();
        let client = reach_any(&self.hosts, 0).await.0;
        client
            .batch_execute(
                "CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL);
                 CREATE TABLE deposit (id bigint PRIMARY KEY, account bigint NOT NULL, amount bigint NOT NULL)",
            )
            .await
            .unwrap();
        let accounts: Vec<String> = (0..ACCOUNTS).map(|i| format!("({}, 0)", i * APART)).collect();
        client.batch_execute(&format!("INSERT INTO account VALUES {}", accounts.join(", "))).await.unwrap();
        histories::make(&client).await;
        drop(client);
        first.stop();
        for other in &self.hosts[1..] {
            let (from, to) = (first.dir.join("db"), other.dir.join("db"));
            assert!(Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
        }
        self.hosts.iter().for_each(|host| host.is_up.store(true, Ordering::Release));
    }

    fn strike(&self, host: &Host, blow: Blow) {
        match blow {
            Blow::Killed => {
                host.is_up.store(false, Ordering::Release);
                host.signal_all(Signal::KILL);
            }
            Blow::Stopped => host.signal_all(Signal::STOP),
            Blow::Cut => Net::run(&["cut", &host.number.to_string()]),
        }
    }

    fn heal(&self, host: &Host, blow: Blow) {
        match blow {
            Blow::Killed => {
                self.services.iter().for_each(|service| service.one("start", host.number));
                host.is_up.store(true, Ordering::Release);
            }
            Blow::Stopped => host.signal_all(Signal::CONT),
            Blow::Cut => Net::run(&["mend", &host.number.to_string()]),
        }
    }
}

/// Connects to the host that serves, whichever it is, from `begin` on. Returns its index too.
async fn reach_any(hosts: &[Arc<Host>], begin: usize) -> (Client, usize) {
    let begun = Instant::now();
    for at in (0..hosts.len()).cycle().skip(begin) {
        match tokio::time::timeout(CONNECTED, connect(&hosts[at].config())).await {
            Ok(Ok(client)) => return (client, at),
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
        assert!(begun.elapsed() < PATIENCE, "no host serves for {PATIENCE:?}");
    }
    unreachable!("the hosts are tried for ever")
}

/// Shared by the clients.
struct Load {
    hosts: Vec<Arc<Host>>,
    ends: AtomicBool,
    begun: Instant,
    /// When, in ms since the begin, the latest of the acknowledged deposits was sent.
    latest_ms: AtomicU64,
    /// The index of the host that served the latest one.
    serves: AtomicUsize,
    record: Record,
    /// Reads that a server inside its host has answered.
    inside: AtomicU64,
}

impl Load {
    fn over(hosts: Vec<Arc<Host>>) -> Load {
        Load {
            hosts,
            ends: AtomicBool::new(false),
            begun: Instant::now(),
            latest_ms: AtomicU64::new(0),
            serves: AtomicUsize::new(0),
            record: Record::default(),
            inside: AtomicU64::new(0),
        }
    }

    fn goes_on(&self) -> bool {
        !self.ends.load(Ordering::Acquire)
    }

    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }
}

async fn depositor(load: Arc<Load>, number: u64) -> Ledger {
    let mut rng = Rng::with_seed(number);
    let way = if number.is_multiple_of(2) { Way::Interactive } else { Way::Text };
    let mut ledger = Ledger::new();
    let (mut client, mut at) = reach_any(&load.hosts, 0).await;
    let mut id = number as i64 * 1_000_000_000;
    while load.goes_on() {
        id += 1;
        let (account, amount) = ((rng.u64(..ACCOUNTS) * APART) as i64, rng.i64(-50..=100));
        let sent_ms = load.now_ms();
        let making = deposit(&client, way, (id, account, amount));
        let answered = tokio::time::timeout(ANSWER, making).await;
        let is_late = answered.is_err();
        let fate = answered.unwrap_or(Fate::Unknown);
        ledger.insert(id, (account, amount, fate));
        if fate == Fate::Acknowledged {
            load.serves.store(at, Ordering::Release);
            load.latest_ms.fetch_max(sent_ms, Ordering::AcqRel);
        }
        if is_late || client.is_closed() {
            (client, at) = reach_any(&load.hosts, at).await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ledger
}

async fn writer(load: Arc<Load>, number: u64) {
    let mut rng = Rng::with_seed(100 + number);
    let mut process = load.record.process();
    let (mut client, mut at) = reach_any(&load.hosts, 0).await;
    while load.goes_on() && !load.record.is_full() {
        let fate = load.record.write(&client, process, &mut rng, ANSWER).await;
        if fate == Fate::Unknown {
            process = load.record.process();
        }
        if fate == Fate::Unknown || client.is_closed() {
            (client, at) = reach_any(&load.hosts, at).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Reads inside a host, from its own server, on a thread of its own.
fn read_inside(load: &Load, host: &Host) {
    enter(&host.namespace());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut rng = Rng::with_seed(200 + host.number as u64);
    runtime.block_on(async {
        let process = load.record.process();
        let mut open: Option<Client> = None;
        while load.goes_on() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            match &open {
                Some(client) if !client.is_closed() => {
                    let fate = load.record.read(client, process, &mut rng, ANSWER).await;
                    load.inside.fetch_add(u64::from(fate == Fate::Acknowledged), Ordering::Relaxed);
                }
                _ => {
                    let connected = tokio::time::timeout(CONNECTED, connect(&host.config())).await;
                    open = connected.ok().and_then(Result::ok);
                }
            }
        }
    });
}

/// One blow, until the database is served again and the host is healed. Returns whether it met the
/// host that served, and how long no deposit that was sent later was acknowledged.
async fn torment(cluster: &Cluster, load: &Load, blow: Blow, rng: &mut Rng) -> (bool, Duration) {
    let serves = load.serves.load(Ordering::Acquire);
    let at = if rng.u32(..3) < 2 { serves } else { rng.usize(..HOSTS) };
    let host = &cluster.hosts[at];
    let before = host.pid();
    cluster.strike(host, blow);
    let (struck, struck_ms) = (Instant::now(), load.now_ms());
    while load.latest_ms.load(Ordering::Acquire) <= struck_ms {
        assert!(
            struck.elapsed() < PATIENCE,
            "nothing is acknowledged after host {} was {blow:?}",
            host.number
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let silent = struck.elapsed();
    tokio::time::sleep(Duration::from_millis(rng.u64(..3000))).await;
    cluster.heal(host, blow);
    if load.serves.load(Ordering::Acquire) != at && at == serves {
        // It was deposed: its server ends by itself, and waits as a new process.
        let healed = Instant::now();
        while before.is_some() && host.pid() == before {
            assert!(healed.elapsed() < PATIENCE, "a deposed server goes on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    // The relay's server there reads what it has missed.
    tokio::time::sleep(Duration::from_millis(rng.u64(4000..8000))).await;
    (at == serves, silent)
}

fn told(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let (Some(longest), count) = (times.last(), times.len()) else { return };
    eprintln!(
        "  {what}: {count}, served again after {:.1?} (median), {longest:.1?} (longest)",
        times[count / 2]
    );
}

/// The clients of a trial, and the supervisor of the hosts.
struct Crew {
    depositors: Vec<tokio::task::JoinHandle<Ledger>>,
    writers: Vec<tokio::task::JoinHandle<()>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Crew {
    /// Starts them, and waits until a deposit is acknowledged.
    async fn start(load: &Arc<Load>) -> Crew {
        let own = load.clone();
        let supervisor = std::thread::spawn(move || {
            while own.goes_on() {
                own.hosts.iter().for_each(|host| host.tend());
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let inside = load.hosts.iter().cloned().map(|host| {
            let load = load.clone();
            std::thread::spawn(move || read_inside(&load, &host))
        });
        let threads = inside.chain([supervisor]).collect();
        let depositors = (0..DEPOSITORS).map(|n| tokio::spawn(depositor(load.clone(), n))).collect();
        let writers = (0..WRITERS).map(|n| tokio::spawn(writer(load.clone(), n))).collect();
        while load.latest_ms.load(Ordering::Acquire) == 0 {
            assert!(load.begun.elapsed() < PATIENCE, "nothing is acknowledged");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Crew { depositors, writers, threads }
    }

    async fn end(self, load: &Load) -> Ledger {
        load.ends.store(true, Ordering::Release);
        let mut ledger = Ledger::new();
        for depositor in self.depositors {
            ledger.extend(depositor.await.unwrap());
        }
        for writer in self.writers {
            writer.await.unwrap();
        }
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        ledger
    }
}

/// How long blows fall.
#[derive(Clone, Copy)]
enum Extent {
    Blows(u64),
    For(Duration),
}

impl Extent {
    /// `minutes` if there are some, else `blows`.
    fn of(minutes: Option<u64>, blows: u64) -> Extent {
        minutes.map_or(Extent::Blows(blows), |minutes| Extent::For(Duration::from_secs(60 * minutes)))
    }

    fn goes_on(self, blows: usize, since: Duration) -> bool {
        match self {
            Extent::Blows(most) => (blows as u64) < most,
            Extent::For(most) => since < most,
        }
    }
}

/// How many islands of the trial etcd knows the acknowledged entries of.
fn islands_with_acked(etcd: &str) -> usize {
    // The keys that begin with `atoll/trial/acked/`, as etcd's gateway takes them.
    let question = r#"{"key":"YXRvbGwvdHJpYWwvYWNrZWQv","range_end":"YXRvbGwvdHJpYWwvYWNrZWQw"}"#;
    let first = etcd.split(',').next().unwrap();
    let address = format!("{first}/v3/kv/range");
    let output = Command::new("curl").args(["-s", "--max-time", "5", &address, "-d", question]).output();
    String::from_utf8_lossy(&output.unwrap().stdout).matches("\"value\"").count()
}

async fn trial(kind: &str, design: &str, extent: Extent, rng: &mut Rng) {
    let dir = tempfile::Builder::new().prefix("h-").tempdir().unwrap();
    let cluster = Cluster::up(dir.path(), kind, design);
    cluster.load().await;
    let load = Arc::new(Load::over(cluster.hosts.clone()));
    let crew = Crew::start(&load).await;
    let mut times = Vec::new();
    while extent.goes_on(times.len(), load.begun.elapsed()) {
        let (blow, number) = (BLOWS[rng.usize(..BLOWS.len())], times.len() + 1);
        let (serving, silent) = torment(&cluster, &load, blow, rng).await;
        let which = if serving { "the serving host" } else { "another host" };
        let minute = load.begun.elapsed().as_secs_f64() / 60.0;
        eprintln!("minute {minute:.1}, blow {number}: {which} was {blow:?}, served again after {silent:.1?}");
        times.push((blow, serving, silent));
    }
    let ledger = crew.end(&load).await;
    let minutes = load.begun.elapsed().as_secs_f64() / 60.0;
    let (client, at) = reach_any(&cluster.hosts, load.serves.load(Ordering::Acquire)).await;
    load.record.read_all(&client).await;
    let count = judge(&cluster.hosts[at].config(), &ledger).await;
    let verdict = load.record.judge();
    let inside = load.inside.load(Ordering::Relaxed);
    eprintln!(
        "{kind}, {design}: {minutes:.1} minutes, {count} acknowledged deposits, all there; a history of {} committed \
         ({inside} of them reads inside a host) and {} unknown, anomalies: {:?}",
        verdict.committed, verdict.unknown, verdict.anomalies
    );
    for blow in BLOWS {
        for (serving, word) in [(true, "the serving host"), (false, "another host")] {
            let of = times.iter().filter(|(b, s, _)| (*b, *s) == (blow, serving)).map(|(.., silent)| *silent);
            told(&format!("{word} was {blow:?}"), of.collect());
        }
    }
    assert_eq!(islands_with_acked(&cluster.services[1].address), 2, "etcd knows what was acknowledged");
    assert!(verdict.strictly_serialisable, "{:?} {}", verdict.anomalies, verdict.explanation);
}

#[test]
fn acknowledged_commits_survive_the_loss_of_hosts() {
    let asked = std::env::var("TRIAL_HOSTS").unwrap_or_default();
    if asked.is_empty() {
        return eprintln!("skipped: no relay is asked for; `cargo xtask trial-cluster --over hosts` runs it");
    }
    if !Net::script(&["permitted"]).status.success() {
        return eprintln!("skipped: network namespaces need root and `ip`");
    }
    let (blows, seed) = (number_of("TAKEOVER_ROUNDS").unwrap_or(6), number_of("TAKEOVER_SEED").unwrap_or(1));
    let designs = std::env::var("TAKEOVER_DESIGN").unwrap_or_else(|_| "conventional".into());
    let extent = Extent::of(number_of("TAKEOVER_MINUTES"), blows);
    for (kind, design) in
        asked.split(',').flat_map(|kind| designs.split(',').map(move |design| (kind, design)))
    {
        // The namespaces are there before the threads that enter one.
        let mut rng = Rng::with_seed(seed);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(trial(kind, design, extent, &mut rng));
    }
}
