//! Loads of every model on a workload without data, with a server that can be made to stall.

use crate::support::{Via, config, private_dir};
use exec::DesignKind;
use instance::Instance;
use probe::Measured;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use traffic::{Arrivals, LoadChange, LoadModel, Rate, Retries, Share, Think, Traffic};
use txn::{Abort, Pauses};
use wal::Durability;
use workload::idle::{Answer, Ask, Idle};

/// Answers at once, except that it blocks its worker once for `stall`, and aborts the first
/// `aborts` tries.
#[derive(Clone, Default)]
struct Server {
    stall: Duration,
    stalled: Arc<AtomicU64>,
    aborts: Arc<AtomicU64>,
    /// The name under which requests are reported.
    kind: Option<&'static str>,
}

/// The request before which the server stalls.
const STALLS_AT: u64 = 100;

impl Answer for Server {
    fn answer(&self, request: &Ask) -> Result<(), Abort> {
        if request.terminal.is_some_and(|(site, number)| site >= 2 || number >= 500) {
            return Err(Abort::BadRequest);
        }
        if self.stalled.fetch_add(1, Ordering::Relaxed) == STALLS_AT {
            std::thread::sleep(self.stall);
        }
        let left = |n: u64| n.checked_sub(1);
        match self.aborts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left) {
            Ok(_) => Err(Abort::Deadlock),
            Err(_) => Ok(()),
        }
    }

    fn kind(&self) -> &'static str {
        self.kind.unwrap_or("ask")
    }

    fn sites(&self) -> u32 {
        2
    }

    fn pauses(&self) -> Option<Pauses> {
        Some(Pauses { keying_s: 0.1, think_s: 0.1 })
    }
}

/// The measurements of one worker under `traffic` until `done`, for at most 20 s.
fn run(
    server: Server,
    traffic: Traffic,
    script: impl Fn(&Instance<Idle<Server>>),
    done: impl Fn(&Measured) -> bool,
) -> Measured {
    let (dir, server) = (private_dir(), Idle(server));
    let config = config(&server, dir.path(), DesignKind::Serial, Durability::Memory, (0, 1), 1, Via::Ring);
    std::fs::create_dir_all(&config.dir).unwrap();
    let instance = Instance::start(server, config).unwrap();
    instance.load(&|_, _| {}).unwrap();
    instance.measure().unwrap();
    instance.load_with(traffic, Share::whole(1), 7);
    script(&instance);
    let (mut all, start) = (Measured::default(), Instant::now());
    while !done(&all) {
        assert!(start.elapsed() < Duration::from_secs(20), "not done: {all:?}");
        std::thread::sleep(Duration::from_millis(20));
        let last = all.offered;
        let window = instance.measure().unwrap();
        all.window_ns += window.window_ns;
        all.merge(&Measured { window_ns: 0, ..window });
        if let (Some(all), Some(last)) = (&mut all.offered, last) {
            all.backlog -= last.backlog;
        }
    }
    instance.halt().unwrap();
    let rest = instance.measure().unwrap();
    all.merge(&Measured { window_ns: 0, ..rest });
    instance.stop().unwrap();
    all
}

fn open(rate: f64, arrivals: Arrivals) -> Traffic {
    let model = LoadModel::Open { rate: Rate::constant(rate).unwrap(), arrivals };
    Traffic { model, ..Traffic::closed(8) }
}

/// A server that stalls for 300 ms of some 600 must show in about half of the requests of an open
/// loop. The clients of a closed loop wait with it, so each sees it once: the omission that an open
/// loop must not have.
#[test]
fn a_stall_shows_in_every_request_that_was_due_during_it() {
    let stall = Duration::from_millis(300);
    let server = || Server { stall, ..Server::default() };
    let open = run(server(), open(2_000.0, Arrivals::Uniform), |_| {}, |m| m.committed_total() >= 1_200);
    let (committed, slow) = (open.committed_total() as f64, stall.as_nanos() as f64 / 2.0);
    let late = |m: &Measured, ns: f64| -> u64 {
        m.latency.recorded().filter(|(value, _)| *value as f64 > ns).map(|(_, n)| n).sum()
    };
    // 600 arrivals fell into the stall, and half of these had to wait for more than half of it.
    let waited = late(&open, slow);
    assert!(waited >= 280, "{waited} of {committed}: {:?}", open.latency);
    assert!(open.latency.max() as f64 > stall.as_nanos() as f64 * 0.95);
    let closed = run(server(), Traffic::closed(8), |_| {}, |m| m.committed_total() >= 1_200);
    assert!(late(&closed, slow) < waited / 3, "{:?}", closed.latency);
}

#[test]
fn arrivals_come_at_the_rate_and_the_seconds_add_up() {
    for arrivals in [Arrivals::Poisson, Arrivals::Uniform] {
        let all = run(Server::default(), open(1_000.0, arrivals), |_| {}, |m| m.window_ns >= 1_500_000_000);
        let offered = all.offered.unwrap();
        let expected = all.window_ns as f64 / 1e9 * 1_000.0;
        // Ended by time, so the requests of the last window may be missing: five deviations and 10
        // %.
        let off = (offered.requests as f64 - expected).abs();
        assert!(
            off < 5.0 * expected.sqrt() + expected * 0.1,
            "{arrivals:?}: {offered:?}, expected {expected}"
        );
        assert_eq!(all.series.iter().map(|s| s.committed).sum::<u64>(), all.committed_total());
        assert_eq!(all.latency.count(), all.committed_total());
        assert_eq!(all.latency_by_kind["ask"].count(), all.committed_total());
        assert_eq!(offered.refused, 0);
    }
}

/// Far more requests than can be answered: those that do not fit into the queue are refused and
/// counted, and none is lost.
#[test]
fn a_rate_that_cannot_be_met_is_told_and_bounded() {
    let stall = Duration::from_millis(200);
    let server = Server { stall, ..Server::default() };
    let all = run(
        server,
        open(5_000_000.0, Arrivals::Uniform),
        |_| {},
        |m| m.offered.is_some_and(|o| o.refused > 0),
    );
    let offered = all.offered.unwrap();
    assert!(offered.requests > 500_000 && offered.backlog <= 1 << 16, "{offered:?}");
}

#[test]
fn terminals_pause_and_each_has_one_request_at_a_time() {
    let model = LoadModel::Terminals { terminals: 1_000, think: Think::STANDARD };
    let traffic = Traffic { model, ..Traffic::closed(8) };
    let all = run(Server::default(), traffic, |_| {}, |m| m.window_ns >= 1_500_000_000);
    // 100 ms of keying and 100 ms of thinking: five requests a second each.
    let expected = all.window_ns as f64 / 1e9 * 5_000.0;
    // On a busy machine terminals wait longer for their answers; they never send earlier.
    let share = all.committed_total() as f64 / expected;
    assert!((0.3..1.15).contains(&share), "{} committed, expected {expected}", all.committed_total());
    assert!(all.aborted.is_empty(), "a terminal of nowhere: {:?}", all.aborted);
}

/// With one terminal no timer is set while it is served, so the arrival timer must be woken for the
/// next request.
#[test]
fn a_single_terminal_goes_on() {
    let model = LoadModel::Terminals { terminals: 1, think: Think::STANDARD };
    let traffic = Traffic { model, ..Traffic::closed(1) };
    let all = run(Server::default(), traffic, |_| {}, |m| m.committed_total() >= 5);
    assert!(
        all.window_ns >= 400_000_000,
        "five requests, and 100 ms or more between two: {} ns",
        all.window_ns
    );
}

#[test]
fn retries_are_counted_and_end_at_the_limit() {
    let aborts = |n| Server { aborts: Arc::new(AtomicU64::new(n)), ..Server::default() };
    let traffic =
        |limit, backoff_ns| Traffic { retries: Retries { limit, backoff_ns }, ..Traffic::closed(1) };
    let all = run(aborts(10), traffic(None, 0), |_| {}, |m| m.committed_total() > 0);
    assert_eq!((all.retries, all.given_up, all.aborted["deadlock"]), (10, 0, 10));
    let all = run(aborts(10), traffic(Some(3), 100_000), |_| {}, |m| m.committed_total() > 0);
    // Four tries each of two requests, and two tries of the third, which then commits.
    assert_eq!((all.retries, all.given_up, all.aborted["deadlock"]), (3 + 3 + 2, 2, 10));
    let all = run(aborts(10), traffic(Some(0), 0), |_| {}, |m| m.committed_total() > 0);
    assert_eq!((all.retries, all.given_up), (0, 10));
}

#[test]
fn the_load_changes_when_the_script_says_so() {
    let later = Server { kind: Some("later"), ..Server::default() };
    let script = |instance: &Instance<Idle<Server>>| {
        let at_ns = world::now_ns() + 300_000_000;
        let rate = Some(Rate::constant(5_000.0).unwrap());
        instance.script(&[LoadChange { at_ns, rate, requests: Some((Idle(later.clone()), 9)) }]);
    };
    let all = run(Server::default(), open(500.0, Arrivals::Uniform), script, |m| {
        m.committed.get("later").is_some_and(|n| *n >= 2_000)
    });
    assert!(all.committed["ask"] > 0);
    let at_the_old_rate = all.window_ns as f64 / 1e9 * 500.0;
    let offered = all.offered.unwrap().requests as f64;
    assert!(offered > at_the_old_rate * 2.0, "{offered} requests, {at_the_old_rate} at the old rate");
}
