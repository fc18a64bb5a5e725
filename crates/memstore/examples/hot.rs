//! One hot warehouse: workers that all pay to and order from it, TPC-C's NewOrder and Payment by the rows they touch, run again
//! until they commit. What plain optimistic concurrency control (Silo's) and queues for hot rows make of it, in one run,
//! alternating: rate, latency from the first attempt on, attempts.
//!
//! `cargo run -p memstore --release --example hot [workers [seconds per turn [rounds]]]`, e.g. `2 2 5`.

use base::TableId;
use fastrand::Rng;
use memstore::{Conflict, Contention, Memstore, Options, Refused, Tid, Txn, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const WAREHOUSE: TableId = TableId(0);
const DISTRICT: TableId = TableId(1);
const CUSTOMER: TableId = TableId(2);
const STOCK: TableId = TableId(3);
const ORDER: TableId = TableId(4);
const LINE: TableId = TableId(5);
const HISTORY: TableId = TableId(6);

fn fill(w: &mut Worker, table: TableId, count: u64, bytes: usize) {
    for n in 0..count {
        let mut t = w.begin();
        w.insert(&mut t, table, &n.to_be_bytes(), &vec![0; bytes]).expect("room");
        w.commit(t).map_err(|(why, _)| why).expect("alone");
    }
}

fn open(conflict: Conflict, contention: Contention, workers: usize) -> Arc<Memstore> {
    let store = Memstore::open(Options { conflict, contention, ..Options::new(4 << 30, workers) })
        .expect("addresses");
    (0..7).for_each(|table| store.create(TableId(table)).expect("a table"));
    let mut w = store.worker(0).expect("a worker");
    for (table, count, bytes) in
        [(WAREHOUSE, 1, 90), (DISTRICT, 10, 100), (CUSTOMER, 30_000, 600), (STOCK, 100_000, 300)]
    {
        fill(&mut w, table, count, bytes);
    }
    store
}

/// One request; an attempt is all there is of it before it commits.
struct Request {
    is_payment: bool,
    district: [u8; 8],
    customer: [u8; 8],
    items: [[u8; 8]; 10],
}

impl Request {
    fn any(random: &mut Rng) -> Request {
        let mut one = |of: u64| random.u64(..of).to_be_bytes();
        let (district, customer) = (one(10), one(30_000));
        let mut items = std::array::from_fn(|_| one(100_000));
        items.sort_unstable();
        Request { is_payment: random.bool(), district, customer, items }
    }

    fn carry_out(&self, w: &mut Worker, t: &mut Txn) -> Result<(), Refused> {
        if self.is_payment { self.pay(w, t) } else { self.order(w, t) }
    }

    fn pay(&self, w: &mut Worker, t: &mut Txn) -> Result<(), Refused> {
        let add = |row: &mut Vec<u8>| row[0] = row[0].wrapping_add(1);
        calm(w, |w| w.update(t, WAREHOUSE, &[0; 8], add))?;
        calm(w, |w| w.update(t, DISTRICT, &self.district, add))?;
        calm(w, |w| w.update(t, CUSTOMER, &self.customer, add))?;
        w.append(t, HISTORY, &[0; 46])
    }

    fn order(&self, w: &mut Worker, t: &mut Txn) -> Result<(), Refused> {
        calm(w, |w| w.read(t, WAREHOUSE, &[0; 8], |row| row[1]))?;
        let next = calm(w, |w| {
            w.update(t, DISTRICT, &self.district, |row| {
                let number = u64::from_le_bytes(row[8..16].try_into().expect("eight bytes"));
                row[8..16].copy_from_slice(&(number + 1).to_le_bytes());
                number
            })
        })?;
        calm(w, |w| w.read(t, CUSTOMER, &self.customer, |row| row[1]))?;
        let order = [self.district, next.expect("a district").to_be_bytes()].concat();
        calm(w, |w| w.insert(t, ORDER, &order, &[0; 32]))?;
        for (n, item) in self.items.iter().enumerate() {
            calm(w, |w| w.update(t, STOCK, item, |row| row[0] = row[0].wrapping_add(1)))?;
            let line = [&order[..], &[n as u8]].concat();
            calm(w, |w| w.insert(t, LINE, &line, &[0; 54]))?;
        }
        Ok(())
    }
}

/// Repeats what met a busy row, once that is free.
fn calm<R>(w: &mut Worker, mut call: impl FnMut(&mut Worker) -> Result<R, Refused>) -> Result<R, Refused> {
    loop {
        match call(w) {
            Err(Refused::Busy(row)) => wait(w, row),
            other => return other,
        }
    }
}

fn wait(w: &Worker, row: memstore::RowId) {
    let mut rounds = 0u32;
    while w.store().is_busy(row) {
        rounds += 1;
        if rounds < 1000 { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
}

/// How many attempts it took.
fn run(w: &mut Worker, request: &Request) -> u32 {
    let mut attempts = 1;
    loop {
        let mut t = w.begin();
        match request.carry_out(w, &mut t) {
            Ok(()) => {
                if commit(w, t).is_ok() {
                    return attempts;
                }
            }
            Err(Refused::Conflict(_)) => w.abort(t),
            Err(refused) => panic!("{refused}"),
        }
        attempts += 1;
    }
}

fn commit(w: &mut Worker, mut t: Box<Txn>) -> Result<Tid, Refused> {
    loop {
        match w.commit(t) {
            Ok(tid) => return Ok(tid),
            Err((Refused::Busy(row), Some(again))) => {
                wait(w, row);
                t = again;
            }
            Err((refused, _)) => return Err(refused),
        }
    }
}

/// Latencies and attempts of one worker.
fn drive(w: &mut Worker, stop: &AtomicBool, seed: u64) -> Vec<(u64, u32)> {
    let (mut random, mut all) = (Rng::with_seed(seed), Vec::with_capacity(1 << 20));
    while !stop.load(Ordering::Relaxed) {
        let (request, begin) = (Request::any(&mut random), Instant::now());
        let attempts = run(w, &request);
        all.push((begin.elapsed().as_nanos() as u64, attempts));
    }
    all
}

fn turn(store: &Arc<Memstore>, workers: usize, turn: Duration, seed: u64) -> (f64, Vec<(u64, u32)>) {
    let stop = AtomicBool::new(false);
    let begin = Instant::now();
    let mut all: Vec<(u64, u32)> = std::thread::scope(|scope| {
        let stop = &stop;
        let threads: Vec<_> = (0..workers)
            .map(|n| {
                scope.spawn(move || drive(&mut store.worker(n).expect("a worker"), stop, seed + n as u64))
            })
            .collect();
        while begin.elapsed() < turn {
            std::thread::sleep(Duration::from_millis(5));
            store.tick();
        }
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().flat_map(|thread| thread.join().expect("a worker ends")).collect()
    });
    let rate = all.len() as f64 / begin.elapsed().as_secs_f64();
    all.sort_unstable();
    (rate, all)
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<f64>().expect("a number"));
    let workers = args.next().unwrap_or(2.0) as usize;
    let seconds = Duration::from_secs_f64(args.next().unwrap_or(1.0));
    let rounds = args.next().unwrap_or(3.0) as u64;
    let ways = [
        ("optimistic", open(Conflict::Abort, Contention::Optimistic, workers)),
        ("queues", open(Conflict::Wait, Contention::Queues, workers)),
    ];
    for round in 0..rounds {
        for (name, store) in &ways {
            let (rate, all) = turn(store, workers, seconds, 100 * round);
            let us =
                |per_mille: usize| all[(all.len() * per_mille / 10_000).min(all.len() - 1)].0 as f64 / 1e3;
            let attempts: u64 = all.iter().map(|(_, n)| u64::from(*n)).sum();
            let mut tries: Vec<u32> = all.iter().map(|(_, n)| *n).collect();
            tries.sort_unstable();
            println!(
                "round {round}: {name:10} {rate:>9.0} per second; us: p50 {:>6.1} p99 {:>7.1} p99.9 {:>8.1} max {:>9.1}; attempts {:.2}, p99.9 {}, max {}",
                us(5000),
                us(9900),
                us(9990),
                us(9999),
                attempts as f64 / all.len() as f64,
                tries[all.len() * 999 / 1000],
                tries[all.len() - 1]
            );
        }
    }
}
