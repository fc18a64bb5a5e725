//! One hot warehouse: workers that all pay to it and order from it. The transactions touch the rows
//! of TPC-C's NewOrder and Payment, and run again until they commit. Compares plain optimistic
//! concurrency control (Silo's) with queues for hot rows, in one run, alternating: rate, latency
//! from the first attempt on, attempts.
//!
//! - `cargo run -p memstore --release --example hot [workers [seconds per turn [rounds]]]`, e.g. `2
//!   2 5`: with threads.
//! - `... --example hot steps [workers [thousand steps [rounds]]]`, e.g. `steps 2 2000 3`: on one
//!   thread, a random worker's next operation at a time, with a step as the unit of time. The
//!   result shows the effect on transactions that are under way at the same time, and does not
//!   depend on the machine and its load.

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

/// One request. An attempt carries out all its operations, and then commits.
struct Request {
    is_payment: bool,
    district: [u8; 8],
    customer: [u8; 8],
    items: [[u8; 8]; 10],
    order: Vec<u8>,
}

impl Request {
    fn any(random: &mut Rng) -> Request {
        let mut one = |of: u64| random.u64(..of).to_be_bytes();
        let (district, customer) = (one(10), one(30_000));
        let mut items = std::array::from_fn(|_| one(100_000));
        items.sort_unstable();
        Request { is_payment: random.bool(), district, customer, items, order: Vec::new() }
    }

    /// Operation `n` of it; `false` when there is no more.
    fn operate(&mut self, n: usize, w: &mut Worker, t: &mut Txn) -> Result<bool, Refused> {
        if self.is_payment { self.pay(n, w, t) } else { self.order(n, w, t) }
    }

    fn pay(&mut self, n: usize, w: &mut Worker, t: &mut Txn) -> Result<bool, Refused> {
        let add = |row: &mut Vec<u8>| row[0] = row[0].wrapping_add(1);
        match n {
            0 => drop(w.update(t, WAREHOUSE, &[0; 8], add)?),
            1 => drop(w.update(t, DISTRICT, &self.district, add)?),
            2 => drop(w.update(t, CUSTOMER, &self.customer, add)?),
            3 => w.append(t, HISTORY, &[0; 46])?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn order(&mut self, n: usize, w: &mut Worker, t: &mut Txn) -> Result<bool, Refused> {
        match n {
            0 => drop(w.read(t, WAREHOUSE, &[0; 8], |row| row[1])?),
            1 => {
                let next = w.update(t, DISTRICT, &self.district, |row| {
                    let number = u64::from_le_bytes(row[8..16].try_into().expect("eight bytes"));
                    row[8..16].copy_from_slice(&(number + 1).to_le_bytes());
                    number
                })?;
                self.order = [self.district, next.expect("a district").to_be_bytes()].concat();
            }
            2 => drop(w.read(t, CUSTOMER, &self.customer, |row| row[1])?),
            3 => drop(w.insert(t, ORDER, &self.order, &[0; 32])?),
            4..24 if n.is_multiple_of(2) => {
                let item = &self.items[(n - 4) / 2];
                w.update(t, STOCK, item, |row| row[0] = row[0].wrapping_add(1))?;
            }
            4..24 => drop(w.insert(t, LINE, &[&self.order[..], &[n as u8]].concat(), &[0; 54])?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn carry_out(w: &mut Worker, t: &mut Txn, request: &mut Request) -> Result<(), Refused> {
    let mut n = 0;
    loop {
        match request.operate(n, w, t) {
            Ok(true) => n += 1,
            Ok(false) => return Ok(()),
            Err(Refused::Busy(row)) => wait(w, row),
            Err(refused) => return Err(refused),
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

/// Runs a request until it commits; returns the number of attempts.
fn run(w: &mut Worker, request: &mut Request) -> u32 {
    let mut attempts = 1;
    loop {
        let mut t = w.begin();
        match carry_out(w, &mut t, request) {
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
            Ok(done) => return Ok(done.tid),
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
        let (mut request, begin) = (Request::any(&mut random), Instant::now());
        let attempts = run(w, &mut request);
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

/// A worker that takes one step at a time.
struct Stepped {
    w: Worker,
    request: Request,
    txn: Option<Box<Txn>>,
    next: usize,
    began: u64,
    attempts: u32,
}

impl Stepped {
    /// Latency and attempts of the request that this step has ended.
    fn step(&mut self, now: u64, random: &mut Rng) -> Option<(u64, u32)> {
        let Some(mut t) = self.txn.take() else {
            self.txn = Some(self.w.begin());
            (self.next, self.attempts) = (0, self.attempts + 1);
            return None;
        };
        match self.request.operate(self.next, &mut self.w, &mut t) {
            Ok(true) => self.next += 1,
            Ok(false) => return self.commit(t, now, random),
            Err(Refused::Busy(_)) => {}
            Err(_) => {
                self.w.abort(t);
                return None;
            }
        }
        self.txn = Some(t);
        None
    }

    fn commit(&mut self, t: Box<Txn>, now: u64, random: &mut Rng) -> Option<(u64, u32)> {
        match self.w.commit(t) {
            Ok(_) => {
                let done = (now - self.began, self.attempts);
                (self.request, self.began, self.attempts) = (Request::any(random), now, 0);
                Some(done)
            }
            Err((_, again)) => {
                self.txn = again;
                None
            }
        }
    }
}

fn steps(store: &Arc<Memstore>, workers: usize, steps: u64, seed: u64) -> (f64, Vec<(u64, u32)>) {
    let mut random = Rng::with_seed(seed);
    let mut all = Vec::new();
    let mut workers: Vec<Stepped> = (0..workers)
        .map(|n| {
            let (w, request) = (store.worker(n).expect("a worker"), Request::any(&mut random));
            Stepped { w, request, txn: None, next: 0, began: 0, attempts: 0 }
        })
        .collect();
    for now in 0..steps {
        let n = random.usize(..workers.len());
        all.extend(workers[n].step(now, &mut random));
        if now % 20_000 == 0 {
            store.tick();
        }
    }
    for worker in &mut workers {
        worker.txn.take().into_iter().for_each(|t| worker.w.abort(t));
    }
    all.sort_unstable();
    (1e3 * all.len() as f64 / steps as f64, all)
}

fn report(round: u64, name: &str, unit: &str, rate: f64, scale: f64, all: &[(u64, u32)]) {
    let at = |part: usize| all[(all.len() * part / 10_000).min(all.len() - 1)].0 as f64 / scale;
    let attempts: u64 = all.iter().map(|(_, n)| u64::from(*n)).sum();
    let mut tries: Vec<u32> = all.iter().map(|(_, n)| *n).collect();
    tries.sort_unstable();
    println!(
        "round {round}: {name:10} {rate:>9.1} per {unit:18} p50 {:>6.1} p99 {:>7.1} p99.9 {:>8.1} max {:>8.1}; \
         attempts {:.2}, p99.9 {}, max {}",
        at(5000),
        at(9900),
        at(9990),
        at(10_000),
        attempts as f64 / all.len() as f64,
        tries[all.len() * 999 / 1000],
        tries[all.len() - 1]
    );
}

fn main() {
    let mut args = std::env::args().skip(1).peekable();
    let by_steps = args.next_if(|arg| arg == "steps").is_some();
    let mut args = args.map(|arg| arg.parse::<f64>().expect("a number"));
    let workers = args.next().unwrap_or(2.0) as usize;
    let length = args.next().unwrap_or(if by_steps { 2000.0 } else { 1.0 });
    let rounds = args.next().unwrap_or(3.0) as u64;
    let ways = [
        ("optimistic", open(Conflict::Abort, Contention::Optimistic, workers)),
        ("queues", open(Conflict::Wait, Contention::Queues, workers)),
    ];
    for round in 0..rounds {
        for (name, store) in &ways {
            if by_steps {
                let (rate, all) = steps(store, workers, (1e3 * length) as u64, round);
                report(round, name, "1000 steps; steps:", rate, 1.0, &all);
            } else {
                let (rate, all) = turn(store, workers, Duration::from_secs_f64(length), 100 * round);
                report(round, name, "second; us:", rate, 1e3, &all);
            }
        }
    }
}
