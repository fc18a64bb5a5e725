//! The cost of a transaction over two instances in main memory, compared with one at home: the
//! cluster experiment (DaMoN 2016, figure 8) inside one process, in short windows in turn, in
//! processor time as well as in throughput.
//!
//! ```text
//! cargo run --profile quick -p instance --example occ_cluster \
//!     [shm] [uds] [wait] [abort] [clients=64,1000] [rounds=5] [ms=200] [from=0]
//! ```
//!
//! Two instances of one worker and 100,000 rows each. A transaction updates one row at home and
//! reads one, at home or at the other instance. Prints the median of the rounds: commits a second,
//! processor time of both workers per commit, messages per commit, aborts. Throughput and processor
//! time also as ratios to those of local transactions, with their least and greatest. Other work on
//! the machine changes processor time least. On two CPUs that only this program uses, its ratio
//! equals that of the throughput.
//!
//! The second form counts the instructions of a commit at both instances, by function, once most
//! rows have been read. The share of distributed transactions goes in the place of `100`. Without
//! the flag, `rustix` searches for the vdso, which faults under valgrind.
//!
//! ```text
//! RUSTFLAGS=--cfg=rustix_use_libc cargo build --profile quick -p instance --example occ_cluster
//! valgrind --tool=callgrind --fair-sched=yes --instr-atstart=no --callgrind-out-file=/tmp/out.%p \
//!     target/quick/examples/occ_cluster shm wait clients=64 count=100
//! ```

use base::InstanceId;
use channel::Address;
use exec::DesignKind;
use instance::{Instance, InstanceConfig};
use probe::Measured;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use txn::Placement;
use workload::micro::{Micro, MicroOptions, Op};

struct Ask {
    rounds: usize,
    window: Duration,
    /// Per cent of distributed transactions; the two are compared.
    shares: [f64; 2],
    /// Counts the instructions at this share, instead of the comparison.
    count: Option<f64>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|a| a == word);
    let number = |name: &str| arguments.iter().find_map(|a| a.strip_prefix(name)?.strip_prefix('='));
    let clients = number("clients").unwrap_or("64,1000").split(',').filter_map(|n| n.parse().ok());
    let clients: Vec<usize> = clients.collect();
    let ask = Ask {
        rounds: number("rounds").and_then(|n| n.parse().ok()).unwrap_or(5),
        window: Duration::from_millis(number("ms").and_then(|n| n.parse().ok()).unwrap_or(200)),
        shares: [number("from").and_then(|n| n.parse().ok()).unwrap_or(0.0), 100.0],
        count: number("count").and_then(|n| n.parse().ok()),
    };
    let either = |one: &'static str, two: &'static str| match (has(one), has(two)) {
        (true, false) => vec![one],
        (false, true) => vec![two],
        _ => vec![one, two],
    };
    println!(
        "| channel | conflict | clients | local/s | distributed/s | of it | local, ns | distributed, ns | of it | messages | aborted |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for channel in either("shm", "uds") {
        for conflict in either("wait", "abort") {
            compare(channel, conflict, &clients, &ask);
        }
    }
}

fn micro(multisite: f64) -> Micro {
    let options =
        MicroOptions { dataset: 200_000, rows: 2, op: Op::Mixed, multisite, ..MicroOptions::new(2) };
    Micro::new(options).expect("valid options")
}

fn compare(channel: &str, conflict: &str, clients: &[usize], ask: &Ask) {
    let dir = tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o700)).tempdir();
    let dir = dir.expect("a temporary directory");
    let start = |id: u16| {
        let socket = dir.path().join(format!("{id}.sock"));
        let config =
            InstanceConfig::new(dir.path().join(id.to_string()), Placement::even(2, 2), DesignKind::Occ);
        let config = InstanceConfig {
            id: InstanceId(id),
            listen: Some(if channel == "shm" { Address::Shm(socket) } else { Address::Uds(socket) }),
            pool_pages: 16_384,
            cpus: vec![Some(usize::from(id))],
            spin_us: 5,
            ..config
        };
        let config = config.with(|o| o.occ_conflict = conflict.parse().expect("wait or abort"));
        std::fs::create_dir_all(&config.dir).expect("a directory");
        Instance::start(micro(0.0), config).expect("an instance")
    };
    let instances = [0, 1].map(start);
    let address = |i: usize| (InstanceId(i as u16), instances[i].address().expect("it listens"));
    instances.iter().for_each(|i| i.connect(&[address(0), address(1)]));
    instances.iter().for_each(|i| i.load(&|_, _| {}).expect("loaded"));
    if let Some(share) = ask.count {
        count(&instances, share, clients[0]);
        return instances.into_iter().for_each(|i| i.stop().expect("stopped"));
    }
    for &clients in clients {
        let rounds: Vec<[Window; 2]> = (0..ask.rounds)
            .map(|_| ask.shares.map(|share| window(&instances, share, clients, ask.window)))
            .collect();
        report(channel, conflict, clients, &rounds);
    }
    instances.into_iter().for_each(|i| i.stop().expect("stopped"));
}

struct Window {
    per_second: f64,
    worker_ns: f64,
    messages: f64,
    aborted: f64,
}

fn window(instances: &[Instance<Micro>; 2], share: f64, clients: usize, length: Duration) -> Window {
    instances.iter().for_each(|i| i.reconfigure(micro(share)).expect("a worker"));
    instances.iter().enumerate().for_each(|(i, instance)| instance.drive(clients, (i as u64) << 32));
    std::thread::sleep(length / 4);
    let measure = || {
        let mut all = Measured::default();
        instances.iter().for_each(|i| all.merge(&i.measure().expect("a worker")));
        all
    };
    measure();
    let (began, before) = (Instant::now(), workers_ns());
    std::thread::sleep(length);
    let (measured, elapsed, used) = (measure(), began.elapsed(), workers_ns() - before);
    instances.iter().for_each(|i| i.halt().expect("a worker"));
    let commits = measured.committed_total().max(1) as f64;
    let aborted = measured.aborted.values().sum::<u64>() as f64;
    Window {
        per_second: commits / elapsed.as_secs_f64(),
        worker_ns: used as f64 / commits,
        messages: measured.messages as f64 / commits,
        aborted: aborted / (aborted + commits),
    }
}

/// Turns callgrind's counting on or off.
fn counting(switch: &str) {
    let ask = Command::new("callgrind_control")
        .args(["-i", switch, &std::process::id().to_string()])
        .stdout(Stdio::null())
        .status();
    if !ask.is_ok_and(|s| s.success()) {
        eprintln!("callgrind is not counting");
    }
}

fn count(instances: &[Instance<Micro>; 2], share: f64, clients: usize) {
    let measure = || instances.iter().map(|i| i.measure().expect("a worker").committed_total()).sum::<u64>();
    let drive = |share: f64, least: u64| {
        instances.iter().for_each(|i| i.reconfigure(micro(share)).expect("a worker"));
        instances.iter().enumerate().for_each(|(i, instance)| instance.drive(clients, (i as u64) << 32));
        let mut commits = 0;
        while commits < least {
            std::thread::sleep(Duration::from_millis(100));
            commits += measure();
        }
        instances.iter().for_each(|i| i.halt().expect("a worker"));
        commits + measure()
    };
    // Until nearly all rows have been read, as in any longer run.
    drive(0.0, 600_000);
    counting("on");
    let commits = drive(share, 30_000);
    counting("off");
    println!("{commits} committed while instructions were counted");
}

fn report(channel: &str, conflict: &str, clients: usize, rounds: &[[Window; 2]]) {
    let of = |f: &dyn Fn(&[Window; 2]) -> f64| spread(rounds.iter().map(f));
    let quotient = |[low, middle, high]: [f64; 3]| format!("{middle:.2} ({low:.2}-{high:.2})");
    println!(
        "| {channel} | `{conflict}` | {clients} | {:.0} | {:.0} | {} | {:.0} | {:.0} | {} | {:.2} | {:.1} % |",
        of(&|w| w[0].per_second)[1],
        of(&|w| w[1].per_second)[1],
        quotient(of(&|w| w[1].per_second / w[0].per_second)),
        of(&|w| w[0].worker_ns)[1],
        of(&|w| w[1].worker_ns)[1],
        quotient(of(&|w| w[0].worker_ns / w[1].worker_ns)),
        of(&|w| w[1].messages)[1],
        of(&|w| w[1].aborted)[1] * 100.0,
    );
}

/// Least, median, greatest.
fn spread(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    [values[0], values[values.len() / 2], values[values.len() - 1]]
}

/// Processor time of both instances' workers, as the scheduler counts it.
fn workers_ns() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux").flatten();
    let text = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let workers = tasks.filter(|task| matches!(text(task.path().join("comm")).trim(), "i0w0" | "i1w0"));
    let ns = |task: std::fs::DirEntry| {
        text(task.path().join("schedstat")).split(' ').next().and_then(|ns| ns.parse::<u64>().ok())
    };
    workers.filter_map(ns).sum()
}
