//! The kill loop: instances die by SIGKILL at random moments while outside clients keep a ledger of
//! every reply.
//!
//! ```text
//!   clients   submit, submit, submit ...   (through the instances' channels, as any client would)
//!   owner     wait | kill one | restart it (and now and then kill that), connect
//!             | pause clients, wait until no transaction is in doubt | go on ...
//!             every K kills and at the end: pause, audit, conditions, ledger
//! ```
//!
//! The loop checks four things. All consistency conditions hold. Every acknowledged request is in
//! the data exactly once, a request with a lost answer at most once, and no other request at all.
//! No transaction stays in doubt for more than 5 s once every instance is up. The clients pause
//! during that wait, because under load there is always a transaction between its prepare and its
//! decision.
//!
//! # Access rules
//!
//! The owner alone orders the deployment. A client thread owns its connection. The ledger is shared
//! under a mutex (an entry is cheap compared with a message). The owner writes `Gate`, the clients
//! read it.

use crate::noise::Moment;
use crate::row::{LatencyUs, ResultRow};
use crate::session::{Ping, Schedule, Session, Watcher};
use crate::subject::{Subject, decode_audits};
use client::{Client, ClientError};
use deploy::DeployError;
use probe::Latency;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use txn::{Generator, Placement, Verdict, Workload};
use workload::{AnyGenerator, AnyWorkload};

/// The parameters of a kill loop.
#[derive(Clone, Debug)]
pub struct KillSchedule {
    pub kills: u32,
    /// Kills between two checks of the whole data.
    pub check_every: u32,
    /// Client threads.
    pub clients: u32,
}

/// Between two kills the load runs undisturbed for a random time in this range.
const CALM_MS: std::ops::Range<u64> = 20..200;
/// One restart in three is killed as well, at a random time before this.
const RESTART_MS: u64 = 40;
/// The promise: no transaction stays in doubt for longer than this once every instance is up.
const IN_DOUBT_LIMIT: Duration = Duration::from_secs(5);
/// After this the run is given up.
const GIVE_UP: Duration = Duration::from_secs(60);

/// Runs the kill loop on a freshly loaded deployment.
///
/// # Errors
/// If the workload keeps no ledger, the database is not fresh, or instances cannot be killed or
/// restarted. Conditions that do not hold are no error: the row reports them.
pub fn torment(
    session: &mut Session,
    subject: &Subject,
    schedule: &Schedule,
    kills: &KillSchedule,
    ping: Ping<'_>,
    watcher: &mut dyn Watcher,
) -> Result<ResultRow, DeployError> {
    if session.effects != Some(0) {
        return Err(DeployError::Impossible(
            "--kill needs a freshly loaded database, so that its ledger sees every transaction: name an empty --data".into(),
        ));
    }
    let mut row = session.begin(subject, schedule, ping)?;
    row.settings.clients = Some(kills.clients);
    Torment { session, schedule, kills, row: &mut row, watcher }.run(subject.workload())?;
    row.machine.latency_after_ns = ping();
    Ok(row)
}

/// The clients' knowledge of their requests.
#[derive(Default)]
struct Ledger {
    /// Requests answered as committed.
    acknowledged: Vec<u64>,
    /// Requests sent and never answered.
    unknown: Vec<u64>,
    aborted: BTreeMap<String, u64>,
    latency: Latency,
}

const RUN: u8 = 0;
const PAUSE: u8 = 1;
const STOP: u8 = 2;

/// The clients' order, and how many of them rest.
#[derive(Default)]
struct Gate {
    state: AtomicU8,
    idle: AtomicUsize,
}

impl Gate {
    fn set(&self, state: u8) {
        self.state.store(state, Ordering::SeqCst);
    }

    /// Returns `true` at once while running; rests while paused; returns `false` when the run is
    /// over.
    fn pass(&self) -> bool {
        if self.state.load(Ordering::SeqCst) == PAUSE {
            self.idle.fetch_add(1, Ordering::SeqCst);
            while self.state.load(Ordering::SeqCst) == PAUSE {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.idle.fetch_sub(1, Ordering::SeqCst);
        }
        self.state.load(Ordering::SeqCst) == RUN
    }
}

/// Ends the clients on any path by which the owner leaves: a scope joins its threads.
struct StopOnDrop<'a>(&'a Gate);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.set(STOP);
    }
}

fn locked(ledger: &Mutex<Ledger>) -> std::sync::MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The parameters of a kill loop, and the row for its results.
struct Torment<'a> {
    session: &'a mut Session,
    schedule: &'a Schedule,
    kills: &'a KillSchedule,
    row: &'a mut ResultRow,
    watcher: &'a mut dyn Watcher,
}

impl Torment<'_> {
    fn run(self, workload: &AnyWorkload) -> Result<(), DeployError> {
        let sites = workload.sites();
        let first = workload.generator(0, 0..sites).next();
        if workload.ledger_id(&first).is_none() {
            let text = format!("--kill: {} keeps no record of its requests; use tpcb", workload.name());
            return Err(DeployError::Impossible(text));
        }
        let (gate, ledger) = (Gate::default(), Mutex::new(Ledger::default()));
        let deployment = self.session.running.deployment();
        let (number, placement) = (deployment.number, Placement::even(sites, deployment.islands));
        let guard = deployment.machines.as_ref().map(|machines| machines.guard()).unwrap_or_default();
        let addresses: Vec<_> = self.session.running.addresses().into_iter().map(|(_, a)| a).collect();
        std::thread::scope(|scope| {
            let _stop = StopOnDrop(&gate);
            for i in 0..self.kills.clients {
                let client = Client::new(workload.clone(), placement.clone(), number, addresses.clone());
                let mut client =
                    client.map_err(|e| DeployError::Impossible(format!("cannot make a client: {e}")))?;
                client.guard = guard.clone();
                let requests = workload.generator(self.schedule.seed.wrapping_add(u64::from(i)), 0..sites);
                let (gate, ledger) = (&gate, &ledger);
                let body = move || run_client(workload, client, requests, gate, ledger);
                let thread = std::thread::Builder::new().name(format!("client-{i}"));
                thread.spawn_scoped(scope, body).map_err(DeployError::Thread)?;
            }
            Owner { torment: self, workload, gate: &gate, ledger: &ledger, children_ns: 0 }.run()
        })
    }
}

/// Submits one request after the other and records the outcome of each.
fn run_client(
    workload: &AnyWorkload,
    mut client: Client<AnyWorkload>,
    mut requests: AnyGenerator,
    gate: &Gate,
    ledger: &Mutex<Ledger>,
) {
    while gate.pass() {
        let request = requests.next();
        let Some(id) = workload.ledger_id(&request) else { continue };
        let start = Instant::now();
        let outcome = client.submit(&request);
        let mut ledger = locked(ledger);
        match outcome {
            Ok(_) => {
                ledger.latency.record(start.elapsed().as_nanos() as u64);
                ledger.acknowledged.push(id);
            }
            Err(ClientError::Unknown(_)) => ledger.unknown.push(id),
            Err(ClientError::Aborted(why)) => *ledger.aborted.entry(why.name().into()).or_default() += 1,
            Err(ClientError::Unreachable { .. }) => {
                *ledger.aborted.entry("unreachable".into()).or_default() += 1;
                drop(ledger);
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

/// The owner's side of the kill loop.
struct Owner<'t, 'a> {
    torment: Torment<'t>,
    workload: &'a AnyWorkload,
    gate: &'a Gate,
    ledger: &'a Mutex<Ledger>,
    /// CPU time of the instances, up to the last measurement of those that died.
    children_ns: u64,
}

impl Owner<'_, '_> {
    fn run(mut self) -> Result<(), DeployError> {
        let kills = self.torment.kills.kills;
        let (mut loaded, mut longest_doubt, mut longest_restart) =
            (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        let start = Moment::now();
        let (mut n, mut checked) = (0, 0);
        while n < kills {
            n += 1;
            let calm = Instant::now();
            self.calm(n)?;
            let victim = self.random(n, 1) % u64::from(self.torment.session.running.deployment().islands);
            let dead = Instant::now();
            // The restarted instance is killed as well, if a kill is left.
            let again = n < kills && self.random(n, 2).is_multiple_of(3);
            if again {
                let delay = Duration::from_millis(self.random(n, 3) % RESTART_MS);
                self.torment.session.running.kill_next_restart(delay);
            }
            self.torment.session.running.kill(base::InstanceId(victim as u16))?;
            while self.torment.session.running.tend(Duration::from_millis(50))?.is_empty() {}
            longest_restart = longest_restart.max(dead.elapsed());
            loaded += calm.elapsed();
            n += u32::from(again);
            longest_doubt = longest_doubt.max(self.settle(n)?);
            if n - checked >= self.torment.kills.check_every || n == kills {
                checked = n;
                self.check(n)?;
            }
            self.torment.watcher.progress(&format!("kill {n}/{kills}"), f64::from(n) / f64::from(kills));
            if !self.torment.row.violations.is_empty() {
                break;
            }
            self.gate.set(RUN);
        }
        self.torment.row.kills = Some(u64::from(n));
        self.torment.row.noise = start.noise_until(&Moment::now(), self.children_ns);
        self.fill(loaded, longest_doubt, longest_restart);
        Ok(())
    }

    /// A number that follows from the seed, the kill and the purpose.
    fn random(&self, kill: u32, purpose: u32) -> u64 {
        let seed = self.torment.schedule.seed;
        base::hash64(&[seed, u64::from(kill), u64::from(purpose)].map(u64::to_le_bytes).concat())
    }

    fn calm(&mut self, kill: u32) -> Result<(), DeployError> {
        let ms = CALM_MS.start + self.random(kill, 0) % (CALM_MS.end - CALM_MS.start);
        let until = Instant::now() + Duration::from_millis(ms);
        while Instant::now() < until {
            self.torment.session.running.tend(until.saturating_duration_since(Instant::now()))?;
        }
        Ok(())
    }

    /// Pauses the clients and waits until no transaction is in doubt; returns how long that took.
    fn settle(&mut self, kill: u32) -> Result<Duration, DeployError> {
        let up = Instant::now();
        self.gate.set(PAUSE);
        let mut doubtful = None;
        loop {
            let measured = self.torment.session.running.measure()?;
            self.children_ns += measured.iter().map(|m| m.cpu_ns).sum::<u64>();
            let in_doubt: u64 = measured.iter().map(|m| m.in_doubt).sum();
            let resting = self.gate.idle.load(Ordering::SeqCst) == self.torment.kills.clients as usize;
            if in_doubt == 0 {
                doubtful.get_or_insert(up.elapsed());
            } else {
                doubtful = None;
            }
            if let (true, Some(time)) = (resting, doubtful) {
                if time > IN_DOUBT_LIMIT {
                    self.violation(
                        kill,
                        format!("in doubt for {} ms after every instance was up", time.as_millis()),
                    );
                }
                return Ok(time);
            }
            if up.elapsed() > GIVE_UP {
                let what = if resting { "transactions in doubt" } else { "clients without an answer" };
                self.violation(kill, format!("{what} after {} s with every instance up", GIVE_UP.as_secs()));
                return Ok(up.elapsed());
            }
            self.torment.session.running.tend(Duration::from_millis(2))?;
        }
    }

    /// Checks the whole data against the conditions and the ledger. The clients rest.
    fn check(&mut self, kill: u32) -> Result<(), DeployError> {
        self.torment.session.running.halt()?;
        let audits = self.torment.session.running.audit()?;
        let (conditions, kept) = {
            let ledger = locked(self.ledger);
            let audits = decode_audits(&audits)?;
            let kept: Verdict = self.workload.judge_ledger(&audits, &ledger.acknowledged, &ledger.unknown);
            (self.workload.judge(audits, None), kept)
        };
        conditions.violations.into_iter().chain(kept.violations).for_each(|line| self.violation(kill, line));
        Ok(())
    }

    fn violation(&mut self, kill: u32, line: String) {
        self.torment.row.violations.push(format!("after kill {kill}: {line}"));
    }

    fn fill(self, loaded: Duration, longest_doubt: Duration, longest_restart: Duration) {
        let row = self.torment.row;
        let ledger = locked(self.ledger);
        row.seconds = loaded.as_secs_f64();
        row.committed = ledger.acknowledged.len() as u64;
        row.tps = row.committed as f64 / row.seconds.max(1e-9);
        (row.tps_min, row.tps_max) = (row.tps, row.tps);
        row.aborted = ledger.aborted.clone();
        row.latency_us = LatencyUs::of(&ledger.latency);
        row.consistent = Some(row.violations.is_empty());
        row.restarts = self.torment.session.running.restarts();
        row.acknowledged = Some(row.committed);
        row.unknown = Some(ledger.unknown.len() as u64);
        row.max_in_doubt_ms = Some(longest_doubt.as_millis() as u64);
        row.max_restart_ms = Some(longest_restart.as_millis() as u64);
        // The counts of the killed instances are lost.
        self.torment.session.effects = None;
    }
}
