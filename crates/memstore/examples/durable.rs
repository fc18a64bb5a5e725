//! The cost of keeping the data, and the speed of opening.
//!
//! `cargo run -p memstore --release --example durable -- [commit|replay|rows] [rows [threads
//! [transactions in flight]]]`
//!
//! - `commit`: ten random rows of 250 bytes are read and written per transaction, by one worker
//!   with 512 transactions in flight (the last argument). Their clients wait for durability.
//!   Without a log, in `async` and in `sync`, in turn, by rounds. The worker never waits for the
//!   device while it has something to run. Two bars for comparison: the time that the device takes
//!   for a write of 4 KiB with a sync, and the bytes per second that it takes in blocks of 1 MiB.
//!   `sync` cannot be faster.
//! - `replay`: a log of those transactions, without a checkpoint: MB of log per second and core.
//! - `rows`: that many rows of 250 bytes from a checkpoint: seconds.
//!
//! Files go to the system's folder for temporary files, and are removed at the end.

use base::TableId;
use fastrand::Rng;
use memstore::{Durability, LogOptions, Memstore, Options, Recovered, Worker};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROW: usize = 250;
const T: TableId = TableId(0);

fn open(rows: u64, dir: &Path, log: LogOptions) -> (Arc<Memstore>, Recovered) {
    let options = Options::new(rows * 400 + (1 << 28), 1);
    let (store, recovered) = Memstore::open_in(options, log, world::real(), dir).expect("a store");
    store.create(T).expect("a table");
    (store, recovered)
}

fn load(store: &Memstore, worker: &mut Worker, rows: u64) {
    let mut epoch = 0;
    for first in (0..rows).step_by(1000) {
        let mut t = worker.begin();
        for n in first..rows.min(first + 1000) {
            worker.insert(&mut t, T, &n.to_be_bytes(), &[n as u8; ROW]).expect("room for a row");
        }
        epoch = worker.commit(t).map_err(|(why, _)| why).expect("alone").epoch;
        store.tick();
    }
    store.wait_durable(epoch).expect("a device");
}

fn update(worker: &mut Worker, random: &mut Rng, rows: u64) -> u64 {
    let mut t = worker.begin();
    for _ in 0..10 {
        let key = random.u64(0..rows).to_be_bytes();
        worker.update(&mut t, T, &key, |row| row[8] = row[8].wrapping_add(1)).expect("a loaded key");
    }
    worker.commit(t).map_err(|(why, _)| why).expect("alone").epoch
}

fn cpu_ns() -> u64 {
    world::usage().cpu_ns
}

fn quantile(sorted: &[u64], q: f64) -> f64 {
    sorted
        .get(((sorted.len() as f64 * q) as usize).min(sorted.len().saturating_sub(1)))
        .map_or(0.0, |ns| *ns as f64 / 1e3)
}

/// Transactions per second of time and of the process's CPU time, and latencies in ns.
fn commit(
    store: &Memstore,
    worker: &mut Worker,
    (rows, in_flight): (u64, usize),
    pace: Option<Duration>,
) -> (f64, f64, Vec<u64>) {
    let (mut random, mut flying, mut latencies) = (Rng::with_seed(1), VecDeque::new(), Vec::new());
    let (begun, cpu) = (Instant::now(), cpu_ns());
    let mut count = 0u32;
    while begun.elapsed() < Duration::from_secs(2) {
        let is_due = pace.is_none_or(|pace| begun.elapsed() >= pace * count);
        if flying.len() < in_flight && is_due {
            let began = Instant::now();
            flying.push_back((update(worker, &mut random, rows), began));
            count += 1;
            if count.is_multiple_of(1024) {
                store.tick();
            }
        } else {
            std::thread::yield_now();
        }
        while let Some((epoch, began)) = flying.front()
            && store.ask_durable(*epoch)
        {
            latencies.push(began.elapsed().as_nanos() as u64);
            flying.pop_front();
        }
    }
    latencies.sort_unstable();
    let done = latencies.len() as f64;
    (done / begun.elapsed().as_secs_f64(), done * 1e9 / (cpu_ns() - cpu) as f64, latencies)
}

fn device(dir: &Path) -> Vec<u64> {
    let file = world::real().open(&dir.join("device"), world::Open::Create).expect("a file");
    file.allocate(1 << 22).expect("room");
    file.write_all_at(&vec![0; 1 << 22], 0).expect("room");
    file.sync().expect("a device");
    let mut took = Vec::new();
    for n in 0..3000 {
        let began = Instant::now();
        file.write_all_at(&[n as u8; 4096], n % 1024 * 4096).expect("a device");
        file.sync().expect("a device");
        took.push(began.elapsed().as_nanos() as u64);
    }
    took.sort_unstable();
    took
}

/// Past the system's cache, as the log writes.
fn bytes_a_second(dir: &Path) -> f64 {
    const BLOCK: usize = 1 << 20;
    let (file, _) = world::real().open_direct(&dir.join("device"), world::Open::ReadWrite).expect("a file");
    let bytes = vec![7u8; 2 * BLOCK];
    let aligned = bytes.as_ptr().addr().wrapping_neg() % 4096;
    let began = Instant::now();
    for n in 0..64 {
        file.write_all_at(&bytes[aligned..aligned + BLOCK], n % 4 * BLOCK as u64).expect("a device");
        file.sync().expect("a device");
    }
    (64 * BLOCK) as f64 / began.elapsed().as_secs_f64()
}

fn commits(rows: u64, in_flight: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let took = device(folder.path());
    println!(
        "device, 4 KiB and sync: p50 {:.0} us, p99.9 {:.0} us; 1 MiB and sync: {:.0} MB/s",
        quantile(&took, 0.5),
        quantile(&took, 0.999),
        bytes_a_second(folder.path()) / 1e6
    );
    let modes = [Durability::Memory, Durability::Async, Durability::Sync];
    let stores = modes.map(|mode| {
        let (store, _) = open(rows, &folder.path().join(format!("{mode:?}")), LogOptions::new(mode));
        let mut worker = store.worker(0).expect("the only one");
        load(&store, &mut worker, rows);
        (store, worker, mode)
    });
    let mut stores = stores;
    for _ in 0..3 {
        for (store, worker, mode) in &mut stores {
            let logged = store.log_stats().bytes;
            let (rate, per_cpu, latencies) = commit(store, worker, (rows, in_flight), None);
            let logged = (store.log_stats().bytes - logged) as f64 / 2e6;
            let pace = Duration::from_secs_f64(1.0 / (0.7 * rate));
            let paced = commit(store, worker, (rows, in_flight), Some(pace)).2;
            println!(
                "{mode:?}: {rate:.0}/s, {:.0} MB/s of log, {per_cpu:.0} per CPU-second, full load p50 {:.0} us p99.9 {:.0} us; 70 %: p50 {:.0} us p99.9 {:.0} us",
                logged,
                quantile(&latencies, 0.5),
                quantile(&latencies, 0.999),
                quantile(&paced, 0.5),
                quantile(&paced, 0.999)
            );
        }
    }
}

fn reopened(rows: u64, dir: &Path, threads: usize) -> (f64, f64, Recovered) {
    let (began, cpu) = (Instant::now(), cpu_ns());
    let log = LogOptions { threads, ..LogOptions::new(Durability::Sync) };
    let (store, recovered) = open(rows, dir, log);
    let took = (began.elapsed().as_secs_f64(), (cpu_ns() - cpu) as f64 / 1e9);
    let mut worker = store.worker(0).expect("the only one");
    let mut t = worker.begin();
    for n in [0, rows / 2, rows - 1] {
        assert!(worker.read(&mut t, T, &n.to_be_bytes(), |_| ()).expect("a row").is_some());
    }
    worker.abort(t);
    (took.0, took.1, recovered)
}

fn replay(rows: u64, threads: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    {
        let (store, _) = open(rows, folder.path(), LogOptions::new(Durability::Async));
        let mut worker = store.worker(0).expect("the only one");
        load(&store, &mut worker, rows);
        let mut random = Rng::with_seed(2);
        while store.log_stats().bytes < 1 << 30 {
            update(&mut worker, &mut random, rows);
        }
    }
    for round in 0..4 {
        let threads = if round % 2 == 0 { threads } else { 1 };
        let (wall, cpu, recovered) = reopened(rows, folder.path(), threads);
        let mb = recovered.replayed.log_bytes as f64 / 1e6;
        println!(
            "{threads} threads: {mb:.0} MB of log, {} writes that counted, in {wall:.2} s and {cpu:.2} s of CPU: {:.0} MB/s, {:.0} MB per CPU-second",
            recovered.replayed.writes,
            mb / wall,
            mb / cpu
        );
    }
}

fn rows_back(rows: u64, threads: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    {
        let (store, _) = open(rows, folder.path(), LogOptions::new(Durability::Async));
        let mut worker = store.worker(0).expect("the only one");
        load(&store, &mut worker, rows);
        let began = Instant::now();
        store.checkpoint().expect("room for a checkpoint");
        println!("checkpoint of {rows} rows in {:.2} s", began.elapsed().as_secs_f64());
    }
    for _ in 0..2 {
        let (wall, cpu, recovered) = reopened(rows, folder.path(), threads);
        println!(
            "{threads} threads: {} rows, {:.0} MB, and {:.0} MB of log in {wall:.2} s and {cpu:.2} s of CPU",
            recovered.replayed.rows,
            recovered.replayed.checkpoint_bytes as f64 / 1e6,
            recovered.replayed.log_bytes as f64 / 1e6
        );
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_else(|| "commit".into());
    let number = |arg: Option<String>, default: u64| arg.map_or(default, |n| n.parse().expect("a number"));
    let rows = number(args.next(), if what == "rows" { 10_000_000 } else { 240_000 });
    let threads = number(args.next(), 2) as usize;
    match what.as_str() {
        "commit" => commits(rows, number(args.next(), 512) as usize),
        "replay" => replay(rows, threads),
        "rows" => rows_back(rows, threads),
        other => println!("'{other}' is nothing to measure; expected commit, replay or rows"),
    }
}
