//! The index and the store beside a bare concurrent radix tree (`congee`) and a `BTreeMap` behind a
//! mutex, in one run, alternating, one thread, per second of CPU time of the process.
//!
//! `cargo run -p memstore --release --example micro [dense] [rows [seconds per turn [rounds]]]`,
//! e.g. `240000 1 3`, `10000000 2 3`.
//!
//! - `lookup`: the row of a random key. congee: its value, a pointer. index: a look-up without
//!   validation would not be a transaction, so it is a read of one row, committed, and beside it a
//!   read of the past.
//! - `read10`, `update10`: ten random rows of 250 bytes each per transaction; congee reads or
//!   writes the same 250 bytes under a sequence lock per row, without transactions.

use base::TableId;
use fastrand::Rng;
use memstore::{Memstore, Options, Worker};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

const ROW: usize = 250;
const WORDS: usize = ROW.div_ceil(8);
const T: TableId = TableId(0);

/// Loaded in random order and all over the space of keys, unless they are to be `dense`: 0, 1, 2,
/// ...
static FACTOR: AtomicU64 = AtomicU64::new(0x9e37_79b9_7f4a_7c15);

fn key(n: u64) -> u64 {
    n.wrapping_mul(FACTOR.load(Ordering::Relaxed))
}

/// congee's rows: a sequence lock and the bytes.
struct Bare {
    tree: congee::Congee<usize, usize>,
    rows: Vec<[AtomicU64; WORDS + 1]>,
}

impl Bare {
    fn load(count: u64) -> Bare {
        let rows = (0..count).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect();
        let tree = congee::Congee::default();
        let guard = tree.pin();
        for n in 0..count {
            tree.insert(key(n) as usize, n as usize, &guard).expect("memory for a tree");
        }
        drop(guard);
        Bare { tree, rows }
    }

    fn row(&self, n: u64) -> &[AtomicU64; WORDS + 1] {
        let guard = self.tree.pin();
        &self.rows[self.tree.get(&(key(n) as usize), &guard).expect("a loaded key")]
    }

    fn read(&self, n: u64) -> [u64; WORDS] {
        Bare::copy(self.row(n))
    }

    #[inline]
    fn copy(row: &[AtomicU64; WORDS + 1]) -> [u64; WORDS] {
        loop {
            let before = row[0].load(Ordering::Acquire);
            let copy = std::array::from_fn(|i| row[i + 1].load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if before & 1 == 0 && row[0].load(Ordering::Relaxed) == before {
                return copy;
            }
        }
    }

    fn update(&self, n: u64) {
        let mut copy = self.read(n);
        copy[1] += 1;
        let row = self.row(n);
        let before = row[0].load(Ordering::Relaxed);
        row[0]
            .compare_exchange(before, before + 1, Ordering::Acquire, Ordering::Relaxed)
            .expect("one thread");
        fence(Ordering::Release);
        row[1..].iter().zip(copy).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        row[0].store(before + 2, Ordering::Release);
    }
}

fn load(w: &mut Worker, count: u64) {
    for start in (0..count).step_by(100) {
        let mut t = w.begin();
        for n in start..count.min(start + 100) {
            w.insert(&mut t, T, &key(n).to_be_bytes(), &[7; ROW]).expect("room");
        }
        w.commit(t).map_err(|(why, _)| why).expect("alone");
    }
}

fn read(w: &mut Worker, random: &mut Rng, count: u64, rows: usize) {
    let mut t = w.begin();
    for _ in 0..rows {
        let key = key(random.u64(..count)).to_be_bytes();
        black_box(w.read(&mut t, T, &key, |row| row[8]).expect("alone").expect("a loaded key"));
    }
    w.commit(t).map_err(|(why, _)| why).expect("alone");
}

fn update(w: &mut Worker, random: &mut Rng, count: u64) {
    let mut t = w.begin();
    for _ in 0..10 {
        let key = key(random.u64(..count)).to_be_bytes();
        w.update(&mut t, T, &key, |row| row[8] = row[8].wrapping_add(1)).expect("alone");
    }
    w.commit(t).map_err(|(why, _)| why).expect("alone");
}

/// Calls per second of CPU time.
fn rate(turn: Duration, mut work: impl FnMut()) -> f64 {
    let (cpu, begin, mut done) = (world::usage().cpu_ns, Instant::now(), 0u64);
    while begin.elapsed() < turn {
        (0..64).for_each(|_| work());
        done += 64;
    }
    done as f64 * 1e9 / (world::usage().cpu_ns - cpu).max(1) as f64
}

fn consume<V>(value: &V) {
    black_box(value);
}

fn main() {
    let mut args = std::env::args().skip(1).peekable();
    if args.next_if(|arg| arg == "dense").is_some() {
        FACTOR.store(1, Ordering::Relaxed);
    }
    let mut args = args.map(|arg| arg.parse::<f64>().expect("a number"));
    let count = args.next().unwrap_or(240_000.0) as u64;
    let turn = Duration::from_secs_f64(args.next().unwrap_or(1.0));
    let rounds = args.next().unwrap_or(3.0) as usize;

    let store = Memstore::open(Options::new((64 << 20) + count * 400, 1)).expect("addresses");
    store.create(T).expect("a table");
    let mut w = store.worker(0).expect("a worker");
    let begin = Instant::now();
    load(&mut w, count);
    let over = || store.used_bytes() as f64 / count as f64 - (8 + ROW) as f64;
    println!("{count} rows loaded in {:?}; {:.1} bytes per row over key and value", begin.elapsed(), over());
    let bare = Bare::load(count);
    let map: BTreeMap<u64, u64> = (0..count).map(|n| (key(n), n)).collect();
    let map = Mutex::new(map);

    let mut random = Rng::with_seed(1);
    for round in 0..rounds {
        let r = &mut random;
        let lookups = [
            rate(turn, || consume(&w.find(T, &key(r.u64(..count)).to_be_bytes()))),
            rate(turn, || {
                let guard = bare.tree.pin();
                black_box(bare.tree.get(&(key(r.u64(..count)) as usize), &guard));
            }),
            rate(turn, || {
                black_box(map.lock().expect("alone").get(&key(r.u64(..count))));
            }),
        ];
        println!(
            "round {round}: lookup   index {:>10.0}  congee {:>10.0}  BTreeMap+mutex {:>10.0}  per CPU-second",
            lookups[0], lookups[1], lookups[2]
        );
        let reads = [
            rate(turn, || read(&mut w, r, count, 10)),
            rate(turn, || (0..10).for_each(|_| consume(&bare.read(r.u64(..count))))),
            rate(turn, || {
                (0..10).for_each(|_| consume(&Bare::copy(&bare.rows[r.u64(..count) as usize])));
            }),
        ];
        println!(
            "round {round}: read10   store {:>10.0}  congee {:>10.0}  ratio {:.2}  rows alone {:>10.0}",
            reads[0],
            reads[1],
            reads[0] / reads[1],
            reads[2]
        );
        let updates = [
            rate(turn, || update(&mut w, r, count)),
            rate(turn, || (0..10).for_each(|_| bare.update(r.u64(..count)))),
        ];
        println!(
            "round {round}: update10 store {:>10.0}  congee {:>10.0}  ratio {:.2}",
            updates[0],
            updates[1],
            updates[0] / updates[1]
        );
        store.tick();
    }
    println!("with hints of those that were looked up {:.1} bytes per row over key and value", over());
}
