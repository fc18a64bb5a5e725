//! The cost of the driver. A procedure that does nothing runs under each load model, so the rest is
//! drawing, queueing, running, timing and counting requests; plus begin and commit of an empty
//! transaction, which are not the driver's.
//!
//! `cargo run --profile quick -p instance --example driver_cost [rounds]`
//!
//! `saturated`: processor time of the worker over requests, with as many as it can answer. `at
//! 100,000/s`: an open loop that leaves the worker idle most of the time; its time from the
//! profile, without idle rounds and sleep. `engine`: the same transactions without a driver, begun
//! and committed in a row. The share of a core that the driver takes at 100,000 tps is the
//! difference in nanoseconds times 0.01 %.

use exec::{DesignKind, PageEngine, PageOptions, Protection};
use instance::{Instance, InstanceConfig};
use probe::Profiling;
use std::time::{Duration, Instant};
use traffic::{Arrivals, LoadModel, Rate, Share, Think, Traffic};
use txn::{Abort, Pauses, Placement, Workload};
use workload::idle::{Answer, Ask, Idle};

/// Answers every request with success.
#[derive(Clone)]
struct Yes;

impl Answer for Yes {
    fn answer(&self, _: &Ask) -> Result<(), Abort> {
        Ok(())
    }

    fn pauses(&self) -> Option<Pauses> {
        Some(Pauses { keying_s: 9.0, think_s: 14.0 })
    }
}

const WINDOW: Duration = Duration::from_millis(100);

fn main() {
    let rounds = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(31);
    let open =
        |rate| LoadModel::Open { rate: Rate::constant(rate).expect("a rate"), arrivals: Arrivals::Poisson };
    // 100,000 terminals of 23 s each are some 4,300 requests a second.
    let people = LoadModel::Terminals { terminals: 100_000, think: Think::STANDARD };
    println!("{:<34} {:>8} {:>8}  quarters", "ns a request", "fastest", "median");
    show("engine: begin and commit", (0..rounds).map(|_| engine_ns()).collect());
    show("closed loop, saturated", saturated(Traffic::closed(4), rounds));
    show("open loop, saturated", saturated(Traffic { model: open(1e7), ..Traffic::closed(64) }, rounds));
    let at_rate = Traffic { model: open(1e5), ..Traffic::closed(64) };
    show("open loop, at 100,000/s", busy(at_rate, rounds));
    let before = resident_mib();
    let traffic = Traffic { model: people, ..Traffic::closed(64) };
    show("100,000 terminals, at 4,300/s", busy(traffic, rounds));
    println!("resident: {before:.0} MiB before the terminals, {:.0} MiB with them", peak_mib());
}

fn show(name: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share) as usize];
    println!("{name:<34} {:>8.0} {:>8.0}  {:.0} to {:.0}", values[0], at(0.5), at(0.25), at(0.75));
}

fn with_instance<T>(traffic: Traffic, run: impl FnOnce(&Instance<Idle<Yes>>) -> T) -> T {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let config = InstanceConfig::new(dir.path().into(), Placement::even(1, 1), DesignKind::Conventional);
    let instance = Instance::start(Idle(Yes), config).expect("an instance");
    instance.load(&|_, _| {}).expect("loaded");
    instance.load_with(traffic, Share::whole(1), 1 << 32);
    std::thread::sleep(WINDOW);
    let out = run(&instance);
    instance.halt().unwrap();
    instance.stop().expect("stopped");
    out
}

/// For a worker that always has work.
fn saturated(traffic: Traffic, rounds: usize) -> Vec<f64> {
    with_instance(traffic, |instance| {
        let window = |_| {
            instance.measure().unwrap();
            let start = worker_ns();
            std::thread::sleep(WINDOW);
            let committed = instance.measure().unwrap().committed_total();
            (worker_ns() - start) as f64 / committed.max(1) as f64
        };
        (0..rounds).map(window).collect()
    })
}

/// For a worker that is idle most of the time: its time without the idle time.
fn busy(traffic: Traffic, rounds: usize) -> Vec<f64> {
    with_instance(traffic, |instance| {
        instance.profile(Profiling::ON).unwrap();
        let window = |_| {
            instance.measure().unwrap();
            std::thread::sleep(WINDOW);
            let measured = instance.measure().unwrap();
            let committed = measured.committed_total().max(1);
            let profile = measured.profile.expect("profiling is on").per_transaction(committed);
            profile.worker_ns_per_txn.iter().filter(|(name, _)| *name != "idle").map(|(_, ns)| ns).sum()
        };
        (0..rounds).map(window).collect()
    })
}

/// An empty transaction without a client.
fn engine_ns() -> f64 {
    const COUNT: u32 = 100_000;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = store::StoreOptions::new(wal::Durability::Memory, 2_000);
    let (store, _) = store::Store::open(world::real(), dir.path(), options).expect("a store");
    store.create(&Idle(Yes).schema()).expect("a schema");
    let locks = locks::LockOptions { buckets: 1 << 14, tuning: Default::default() };
    let options = PageOptions { locks, lock_timeout_ns: 100_000_000, waits_for_log: false };
    let engine = PageEngine::<exec::Conventional>::new(store, options);
    engine.own();
    let mut txn = engine.local_txn();
    let start = Instant::now();
    for _ in 0..COUNT {
        engine.begin(&mut txn, 0, Protection::Locks);
        engine.commit(&mut txn).expect("committed");
    }
    let ns = start.elapsed().as_nanos() as f64 / f64::from(COUNT);
    engine.disown();
    ns
}

/// Processor time of the instance's one worker, as the scheduler counts it.
fn worker_ns() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux").flatten();
    let text = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let mut worker = tasks.filter(|task| text(task.path().join("comm")).trim() == "i0w0");
    let counts = text(worker.next().expect("one worker").path().join("schedstat"));
    counts.split(' ').next().and_then(|ns| ns.parse().ok()).expect("the scheduler's statistics")
}

fn resident_mib() -> f64 {
    world::usage().rss_bytes as f64 / f64::from(1 << 20)
}

/// The largest resident memory so far.
fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1024.0
}
