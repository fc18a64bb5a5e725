//! Deployments over two agents: processes of this program at loopback addresses of their own, so
//! that everything between them goes through TCP or TLS. Without the harness of other tests,
//! because this program is the agents and their instances too.

use base::InstanceId;
use channel::{Guarding, Role};
use cluster::agent::{self, Claim, Lease, Logs, Options};
use cluster::{ClusterError, Fleet, Hosts, Loss, start, status};
use deploy::engine::{Backing, DesignKind, Durability, EngineOptions};
use deploy::{ChannelKind, DataUse, DeployError, Deployment, Host, Interrupt, LOOPBACK, Machines, Running};
use probe::Profiling;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use traffic::Traffic;
use trust::Holder;
use txn::Workload;
use workload::{AnyAudit, WorkloadSpec};

const BUILD: &str = "test build";
/// How long an agent may take to be reached.
const REACH: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    match words.get(1).map(String::as_str) {
        Some("instance") => {
            deploy::host_child_guarded(guards).unwrap();
            ExitCode::SUCCESS
        }
        Some("agent") => be_agent(&words[2..]),
        _ => run_all(words.get(1).filter(|word| !word.starts_with('-'))),
    }
}

fn guards(dir: &Path) -> Result<Guarding, String> {
    trust::guard(dir).map(|guard| Guarding(Some(guard))).map_err(|e| e.to_string())
}

/// The tests, by name; `only` is a part of the names of those to run.
fn run_all(only: Option<&String>) -> ExitCode {
    let tests: [(&str, fn()); 8] = [
        ("a_deployment_spans_two_hosts", a_deployment_spans_two_hosts),
        ("links_between_hosts_are_sealed", links_between_hosts_are_sealed),
        ("an_agent_starts_a_killed_instance_again", an_agent_starts_a_killed_instance_again),
        ("a_lost_host_is_named", a_lost_host_is_named),
        ("a_kept_database_moves", a_kept_database_moves),
        ("an_island_is_taken_over_from_its_copy", an_island_is_taken_over_from_its_copy),
        ("an_agent_takes_over_what_a_lost_machine_left", an_agent_takes_over_what_a_lost_machine_left),
        ("strangers_are_refused", strangers_are_refused),
    ];
    for (name, test) in tests.iter().filter(|(name, _)| only.is_none_or(|only| name.contains(only.as_str())))
    {
        eprintln!("test {name} ...");
        test();
        eprintln!("test {name} ... ok");
    }
    ExitCode::SUCCESS
}

/// A lease that ends when a file appears, and claims in a directory that both machines share: a
/// file for each island, with the machine's name.
struct FileLease {
    lost: PathBuf,
    claims: PathBuf,
    machine: String,
}

impl FileLease {
    fn claim_of(&self, database: &str, island: InstanceId) -> PathBuf {
        self.claims.join(format!("{database}-{island}"))
    }

    fn holder(&self, database: &str, island: InstanceId) -> Option<String> {
        std::fs::read_to_string(self.claim_of(database, island)).ok()
    }

    fn is_gone(&self, machine: &str) -> bool {
        self.claims.join(format!("gone-{machine}")).exists()
    }
}

/// A number that a test has written, or why there is none.
fn number_in(path: &Path) -> Result<u64, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    text.parse().map_err(|_| format!("{text} is no number"))
}

impl Lease for FileLease {
    fn lost(&self) -> Option<String> {
        self.lost.exists().then(|| "the test took it".into())
    }

    fn regain(&self) {}

    fn answers_until(&self) -> u64 {
        if self.lost.exists() { 0 } else { world::now_ns() + 10_000_000_000 }
    }

    /// Another machine's island is free once that machine's file says that it is gone.
    fn claim(&self, database: &str, island: InstanceId) -> Result<Claim, String> {
        let other = self.holder(database, island).filter(|holder| *holder != self.machine);
        if let Some(other) = other.filter(|other| !self.is_gone(other)) {
            return Err(format!("island {island} is served by machine {other}"));
        }
        std::fs::create_dir_all(&self.claims).unwrap();
        std::fs::write(self.claim_of(database, island), &self.machine).unwrap();
        Ok(Claim { term: 1, at_least: 0 })
    }

    fn is_elsewhere(&self, database: &str, island: InstanceId) -> Result<bool, String> {
        Ok(self.holder(database, island).is_some_and(|holder| holder != self.machine))
    }

    fn release(&self, database: &str, island: InstanceId) -> Result<(), String> {
        let _ = std::fs::remove_file(self.claim_of(database, island)); // it may have none
        Ok(())
    }

    fn left(&self, database: &str, island: InstanceId) -> Result<Option<String>, String> {
        let holder = self.holder(database, island);
        Ok(holder.filter(|holder| *holder != self.machine && self.is_gone(holder)))
    }

    fn at_least(&self, _: &str, _: InstanceId) -> Result<u64, String> {
        Ok(number_in(&self.claims.join("acked")).unwrap_or(0))
    }

    fn inherit(&self, database: &str, island: InstanceId) -> Result<bool, String> {
        self.claim(database, island).map(|_| true)
    }

    fn note(&self, _: &str, _: InstanceId, _: u64) -> Result<(), String> {
        Ok(())
    }

    fn leave(&self) {}
}

/// A relay of which a file says how far all logs reach.
struct FileLogs(PathBuf);

impl Logs for FileLogs {
    fn reaches(&self, _: &str, _: InstanceId, dir: &Path) -> Result<u64, String> {
        assert!(dir.join("relay-mark").exists());
        number_in(&self.0)
    }
}

/// The words after `agent`, as [`start::command`] makes them.
fn be_agent(words: &[String]) -> ExitCode {
    let after = |name: &str| words.iter().position(|word| word == name).map(|at| words[at + 1].clone());
    let cluster = words[0].strip_prefix("--cluster=").unwrap().to_owned();
    let data = PathBuf::from(after("--data").unwrap());
    let machine = after("--machine").unwrap();
    let (lost, claims) = (data.join("lost"), data.with_file_name("claims"));
    let options = Options {
        cluster,
        machine: machine.clone(),
        listen: after("--listen").unwrap().parse().unwrap(),
        cores: after("--cores"),
        tls: after("--tls").map(PathBuf::from),
        build: BUILD.into(),
        logs: Some(Box::new(FileLogs(claims.join("reached")))),
        lease: Some(Box::new(FileLease { lost, claims, machine })),
        data,
    };
    match agent::run(options, &Interrupt::default(), &mut |_| {}) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("agent: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Two agents; they end with this value.
struct TwoHosts {
    hosts: Hosts,
    dir: TempDir,
    agents: Vec<Child>,
}

impl TwoHosts {
    fn new(net: u8, tls: bool) -> TwoHosts {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        let mut text = String::from("cluster test\n");
        if tls {
            text += &format!("tls {}\n", at("tls"));
        }
        for (i, name) in ["a", "b"].iter().enumerate() {
            text += &format!("{name} 127.{net}.0.{}:7400 local data={}\n", i + 1, at(name));
        }
        let hosts = Hosts::parse(Path::new("hosts"), &text).unwrap();
        if tls {
            certify(&hosts);
        }
        let mut two = TwoHosts { hosts, dir, agents: Vec::new() };
        two.start_agents();
        two
    }

    fn start_agents(&mut self) {
        (0..self.hosts.lines.len()).for_each(|number| self.spawn_agent(number));
        self.await_agents();
    }

    fn start_agent(&mut self, number: usize) {
        self.spawn_agent(number);
        self.await_agents();
    }

    fn spawn_agent(&mut self, number: usize) {
        let host = &self.hosts.lines[number];
        let words = start::command(&self.hosts, host, &std::env::current_exe().unwrap());
        self.agents.push(Command::new(&words[0]).args(&words[1..]).stdin(Stdio::null()).spawn().unwrap());
    }

    fn await_agents(&self) {
        wait_until("the agents answer", || {
            status(&self.hosts, BUILD, REACH).unwrap().iter().all(|host| host.agent.is_ok())
        });
    }

    fn fleet(&self, database: Option<&str>) -> Result<Fleet, ClusterError> {
        Fleet::open(&self.hosts, BUILD, database)
    }

    /// TPC-B on two islands, one on each host.
    fn launch(&self, database: Option<&str>) -> Result<Running, DeployError> {
        let fleet = self.fleet(database).map_err(|e| DeployError::Machine(e.to_string()))?;
        deployment(Arc::new(fleet), database).launch()
    }

    fn pids(&self) -> Vec<u32> {
        let all = status(&self.hosts, BUILD, REACH).unwrap();
        let agents = all.into_iter().filter_map(|host| host.agent.ok());
        let deployments = agents.flat_map(|agent| agent.deployments);
        deployments.flat_map(|d| d.instances).map(|i| i.pid).filter(|pid| *pid > 0).collect()
    }

    fn assert_nothing_left(&self) {
        wait_until("the instances have ended", || self.pids().is_empty());
        wait_until("their data is gone", || {
            let left = |host: &str| std::fs::read_dir(self.dir.path().join(host)).unwrap().flatten();
            let is_run = |e: std::fs::DirEntry| e.file_name().to_string_lossy().starts_with("run-");
            !["a", "b"].into_iter().flat_map(left).any(is_run)
        });
    }
}

impl Drop for TwoHosts {
    fn drop(&mut self) {
        for agent in &mut self.agents {
            let _ = agent.kill(); // it may have ended
            let _ = agent.wait();
        }
    }
}

fn certify(hosts: &Hosts) {
    let dir = hosts.tls.as_ref().unwrap();
    let machine = |line: &cluster::HostLine| Holder {
        name: line.name.clone(),
        role: Role::Machine,
        address: Some(line.address.ip()),
    };
    let mut holders: Vec<Holder> = hosts.lines.iter().map(machine).collect();
    for role in [Role::Operator, Role::Client] {
        holders.push(Holder { name: role.name().into(), role, address: None });
    }
    trust::make(dir, "test", &holders, 1).unwrap();
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn spec() -> WorkloadSpec {
    let mut spec = WorkloadSpec { scale: Some(2), multisite: Some(50.0), ..WorkloadSpec::new("tpcb", 2) };
    spec.own.insert("accounts".into(), "1000".into());
    spec
}

fn deployment(fleet: Arc<dyn Machines>, database: Option<&str>) -> Deployment {
    let workload = spec().build().unwrap();
    let design = DesignKind::Serial;
    Deployment {
        sites: workload.sites(),
        islands: 2,
        workers: 2,
        places: Vec::new(),
        worker_islands: Vec::new(),
        design,
        host: Host::Process,
        channel: ChannelKind::Shm,
        durability: Durability::Async,
        options: EngineOptions::of(design),
        data: database.map(PathBuf::from),
        data_use: if database.is_some() { DataUse::Keep } else { DataUse::Copy },
        data_name: "tpcb, 2 branches".into(),
        data_bytes: 1 << 20,
        pool_bytes: 64 << 20,
        backing: Backing::AsUsed,
        listen: LOOPBACK,
        machines: Some(fleet),
        relay: None,
        oversubscribed: true,
        number: base::hash64(&Instant::now().elapsed().as_nanos().to_le_bytes()) ^ world::entropy(),
        interrupt: Interrupt::default(),
        spec: spec(),
    }
}

/// Drives the deployment for a while; returns committed transactions, and those over both hosts.
fn drive(running: &mut Running, time: Duration) -> (u64, u64) {
    running.load(&mut |_, _| {}).unwrap();
    running.drive(Traffic::closed(4), 1, Profiling::default()).unwrap();
    let until = Instant::now() + time;
    while Instant::now() < until {
        running.tend(Duration::from_millis(50)).unwrap();
    }
    let measured = running.measure().unwrap();
    running.halt().unwrap();
    let committed = measured.iter().flat_map(|m| m.committed.values()).sum();
    (committed, measured.iter().map(|m| m.distributed).sum())
}

/// The sums of TPC-B agree over all islands.
fn check(running: &mut Running) {
    let audits: Vec<AnyAudit> =
        running.audit().unwrap().iter().map(|audit| postcard::from_bytes(audit).unwrap()).collect();
    let verdict = spec().build().unwrap().for_any_mix().judge(audits, None);
    assert!(verdict.holds(), "{verdict:?}");
}

fn a_deployment_spans_two_hosts() {
    let two = TwoHosts::new(61, false);
    for _ in 0..2 {
        let mut running = two.launch(None).unwrap();
        let (committed, distributed) = drive(&mut running, Duration::from_millis(500));
        assert!(committed > 0 && distributed > 0, "{committed}, {distributed}");
        check(&mut running);
        running.stop(None).unwrap();
        two.assert_nothing_left();
    }
    // A deployment that is dropped takes its instances with it.
    let running = two.launch(None).unwrap();
    assert_eq!(two.pids().len(), 2);
    drop(running);
    two.assert_nothing_left();
}

fn links_between_hosts_are_sealed() {
    let two = TwoHosts::new(62, true);
    let mut running = two.launch(None).unwrap();
    assert!(running.addresses().iter().all(|(_, at)| at.channel() == "tls"), "{:?}", running.addresses());
    let (committed, distributed) = drive(&mut running, Duration::from_millis(500));
    assert!(committed > 0 && distributed > 0, "{committed}, {distributed}");
    check(&mut running);
    // A client's certificate cannot speak as an instance.
    let (_, at) = running.addresses().remove(0);
    let number = running.deployment().number;
    let hello =
        |from| channel::Hello(wire::Hello { version: wire::VERSION, deployment: number, from }.encode());
    let client = guards(&two.hosts.tls.clone().unwrap().join("client")).unwrap();
    let patience = Duration::from_secs(30);
    let as_instance = hello(wire::Caller::Instance(InstanceId(1), base::WorkerId(0), 1));
    let mut link = channel::connect_guarded(&at, as_instance, patience, &client).unwrap();
    wait_until("the link of a false instance has ended", || link.receive().is_err());
    let mut link = channel::connect_guarded(&at, hello(wire::Caller::Client), patience, &client).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert!(link.receive().is_ok(), "a client may connect");
    running.stop(None).unwrap();
    two.assert_nothing_left();
}

fn an_agent_starts_a_killed_instance_again() {
    let two = TwoHosts::new(63, false);
    let mut running = two.launch(None).unwrap();
    drive(&mut running, Duration::from_millis(200));
    running.kill(InstanceId(1)).unwrap();
    let restarted = running.tend(Duration::from_secs(30)).unwrap();
    assert_eq!(restarted, [InstanceId(1)]);
    let (committed, distributed) = drive(&mut running, Duration::from_millis(500));
    assert!(committed > 0 && distributed > 0, "{committed}, {distributed}");
    check(&mut running);
    let restarts = |host: &cluster::HostStatus| {
        let agent = host.agent.as_ref().unwrap();
        agent.deployments.iter().flat_map(|d| &d.instances).map(|i| i.restarts).sum::<u64>()
    };
    let counts: Vec<u64> = status(&two.hosts, BUILD, REACH).unwrap().iter().map(restarts).collect();
    assert_eq!(counts, [0, 1]);
    running.stop(None).unwrap();
}

fn a_lost_host_is_named() {
    let mut two = TwoHosts::new(64, false);
    let mut running = two.launch(None).unwrap();
    drive(&mut running, Duration::from_millis(200));
    two.agents[1].kill().unwrap();
    two.agents[1].wait().unwrap();
    let why = running.tend(Duration::from_secs(30)).unwrap_err().to_string();
    assert!(why.contains("host b cannot be reached at 127.64.0.2:7400"), "{why}");
    drop(running);
    // A host that may not serve any more ends its instances, and starts none.
    std::fs::write(two.dir.path().join("a/lost"), "").unwrap();
    two.agents.pop();
    std::thread::sleep(Duration::from_millis(200));
    let all = status(&two.hosts, BUILD, REACH).unwrap();
    assert!(all[0].agent.is_ok() && all[1].agent.is_err());
    let alone = Hosts { lines: two.hosts.lines[..1].to_vec(), ..two.hosts.clone() };
    let fleet = Arc::new(Fleet::open(&alone, BUILD, None).unwrap());
    let why = deployment(fleet, None).launch().err().unwrap().to_string();
    assert!(why.contains("the test took it"), "{why}");
}

fn a_kept_database_moves() {
    let two = TwoHosts::new(65, false);
    let run = || {
        let mut running = two.launch(Some("bank")).unwrap();
        let (committed, _) = drive(&mut running, Duration::from_millis(200));
        assert!(committed > 0);
        check(&mut running);
        running.stop(None).unwrap();
        wait_until("the instances have ended", || two.pids().is_empty());
    };
    run();
    run();
    let islands = |host: &str| two.fleet(Some("bank")).unwrap().islands_of(host).len();
    assert_eq!((islands("a"), islands("b")), (1, 1));
    let mut fleet = two.fleet(Some("bank")).unwrap();
    assert_eq!(fleet.emptiest("b").as_deref(), Some("a"));
    assert_eq!(fleet.move_island("bank", InstanceId(1), "a").unwrap(), "b");
    let why = fleet.move_island("bank", InstanceId(1), "a").unwrap_err().to_string();
    assert!(why.contains("has island 1 already"), "{why}");
    assert_eq!((islands("a"), islands("b")), (2, 0));
    run();
    // While something runs on it, nothing moves, and no other deployment takes it.
    let running = two.launch(Some("bank")).unwrap();
    let why =
        two.fleet(Some("bank")).unwrap().move_island("bank", InstanceId(0), "b").unwrap_err().to_string();
    assert!(why.contains("a deployment runs on database bank"), "{why}");
    let why = two.launch(Some("bank")).err().unwrap().to_string();
    assert!(why.contains("another deployment runs on database bank"), "{why}");
    drop(running);
    wait_until("the instances have ended", || two.pids().is_empty());
    // Descriptions that differ, of hosts that have islands.
    two.fleet(Some("bank")).unwrap().move_island("bank", InstanceId(1), "b").unwrap();
    let file = two.dir.path().join("b/bank/deployment.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("2 branches", "3 branches")).unwrap();
    let why = two.launch(Some("bank")).err().unwrap().to_string();
    assert!(why.contains("hosts a and b disagree about database bank"), "{why}");
}

/// Without a log at a relay, so the copies are of the end of the run: what the copies lack comes
/// from the relay, which `scripts/cluster-here` shows.
fn an_island_is_taken_over_from_its_copy() {
    let mut two = TwoHosts::new(67, false);
    let mut running = two.launch(Some("bank")).unwrap();
    assert!(drive(&mut running, Duration::from_millis(200)).0 > 0);
    running.stop(None).unwrap();
    wait_until("the instances have ended", || two.pids().is_empty());
    let alone = Hosts { lines: two.hosts.lines[..1].to_vec(), ..two.hosts.clone() };
    let take_over_or = |loss| Fleet::open(&alone, BUILD, None).unwrap().take_over("bank", loss);
    let take_over = || take_over_or(Loss::Accept);
    let why = take_over().unwrap_err().to_string();
    assert!(why.contains("island 1 of database bank") && why.contains("none has a copy"), "{why}");
    let copied = two.fleet(Some("bank")).unwrap().copy("bank").unwrap();
    let place = |island: u16, from: &str, to: &str| (InstanceId(island), from.to_owned(), to.to_owned());
    assert_eq!(copied, [place(0, "a", "b"), place(1, "b", "a")]);
    let why = take_over_or(Loss::Refuse).unwrap_err().to_string();
    assert!(why.contains("island 1 of bank is at no relay") && why.contains("--accept-loss"), "{why}");
    // Host b serves, and then is gone.
    let why = take_over().unwrap_err().to_string();
    assert!(why.contains("island 1 is served by machine b"), "{why}");
    two.agents[1].kill().unwrap();
    two.agents[1].wait().unwrap();
    std::fs::write(two.dir.path().join("claims/gone-b"), "").unwrap();
    assert_eq!(take_over().unwrap(), [(InstanceId(1), "a".to_owned())]);
    assert_eq!(take_over().unwrap(), []);
    let run_on = |hosts: &Hosts| {
        let fleet = Arc::new(Fleet::open(hosts, BUILD, Some("bank")).unwrap());
        let mut running = deployment(fleet, Some("bank")).launch().unwrap();
        assert!(drive(&mut running, Duration::from_millis(200)).0 > 0);
        check(&mut running);
        running.stop(None).unwrap();
    };
    run_on(&alone);
    // Host b is back: its directory of the island is a copy now.
    two.agents.truncate(1);
    std::fs::remove_file(two.dir.path().join("claims/gone-b")).unwrap();
    two.start_agent(1);
    let fleet = two.fleet(Some("bank")).unwrap();
    assert_eq!((fleet.islands_of("a").len(), fleet.islands_of("b").len()), (2, 0));
    assert!(two.dir.path().join("b/bank/copy-1").exists() && !two.dir.path().join("b/bank/1").exists());
}

/// The mark of a relay and how far the log reaches are this test's: an agent asks for them, and
/// nothing more, before it takes an island over.
fn an_agent_takes_over_what_a_lost_machine_left() {
    let mut two = TwoHosts::new(68, false);
    let mut running = two.launch(Some("bank")).unwrap();
    assert!(drive(&mut running, Duration::from_millis(200)).0 > 0);
    running.stop(None).unwrap();
    wait_until("the instances have ended", || two.pids().is_empty());
    two.fleet(Some("bank")).unwrap().copy("bank").unwrap();
    let at = |name: &str| two.dir.path().join(name);
    std::fs::write(at("claims/acked"), "10").unwrap();
    two.agents[1].kill().unwrap();
    two.agents[1].wait().unwrap();
    std::fs::write(at("claims/gone-b"), "").unwrap();
    let agent = || status(&two.hosts, BUILD, REACH).unwrap().remove(0).agent.unwrap();
    let refuses = |part: &str| {
        wait_until(part, || agent().refused.iter().any(|refused| refused.why.contains(part)));
        let refused = &agent().refused[0];
        assert_eq!((refused.island, refused.from.as_str()), (InstanceId(1), "b"));
        assert!(at("a/bank/copy-1").exists() && !at("a/bank/1").exists() && agent().taken.is_empty());
    };
    refuses("is at no relay");
    std::fs::write(at("a/bank/copy-1/relay-mark"), "").unwrap();
    refuses("reached: No such file");
    std::fs::write(at("claims/reached"), "7").unwrap();
    refuses("go on without the last 3");
    std::fs::write(at("claims/reached"), "10").unwrap();
    wait_until("the island is taken over", || !agent().taken.is_empty());
    let taken = &agent().taken[0];
    assert_eq!((taken.database.as_str(), taken.island, taken.from.as_str()), ("bank", InstanceId(1), "b"));
    assert!(at("a/bank/1").exists() && !at("a/bank/copy-1").exists() && agent().refused.is_empty());
    assert_eq!(std::fs::read_to_string(at("claims/bank-1")).unwrap(), "a");
    std::fs::remove_file(at("a/bank/1/relay-mark")).unwrap();
    // The hosts file still names b. With leases a database goes on without it; a new one does not.
    let open = |hosts: &Hosts, name: &str| Fleet::open_present(hosts, BUILD, name);
    let why = open(&two.hosts, "bank").unwrap_err().to_string();
    assert!(why.contains("host b cannot be reached"), "{why}");
    let leased = Hosts { etcd: Some("http://127.0.0.1:1".into()), ..two.hosts.clone() };
    let why = open(&leased, "another").unwrap_err().to_string();
    assert!(why.contains("host b cannot be reached"), "{why}");
    let (fleet, gone) = open(&leased, "bank").unwrap();
    assert_eq!(gone, ["b"]);
    let mut running = deployment(Arc::new(fleet), Some("bank")).launch().unwrap();
    assert!(drive(&mut running, Duration::from_millis(200)).0 > 0);
    check(&mut running);
    running.stop(None).unwrap();
}

fn strangers_are_refused() {
    let two = TwoHosts::new(66, false);
    let refused = |hosts: &Hosts, build: &str| Fleet::open(hosts, build, None).unwrap_err().to_string();
    let other_build = refused(&two.hosts, "another build");
    assert!(
        other_build.contains("test build") && other_build.contains("same version on all hosts"),
        "{other_build}"
    );
    let other = Hosts { cluster: "other".into(), ..two.hosts.clone() };
    assert!(refused(&other, BUILD).contains("belongs to cluster test"));
    let mut swapped = two.hosts.clone();
    let (a, b) = (swapped.lines[0].address, swapped.lines[1].address);
    (swapped.lines[0].address, swapped.lines[1].address) = (b, a);
    assert!(refused(&swapped, BUILD).contains("calls itself b"));
    // A second agent on the directory of the first.
    let mut second = two.hosts.lines[0].clone();
    second.address = "127.66.0.9:7400".parse().unwrap();
    let words = start::command(&two.hosts, &second, &std::env::current_exe().unwrap());
    let output = Command::new(&words[0]).args(&words[1..]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("in use by another agent"), "{text}");
}
