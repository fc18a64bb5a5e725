//! The gain of looking rows up side by side ([`Worker::ahead`]), in one run, alternating, one
//! thread, per second of CPU time of the process: random rows of 250 bytes, 8-byte keys.
//!
//! `cargo run -p memstore --release --example hiding [rows [seconds per turn [rounds]]]`, e.g.
//! `10000000 2 3`; 16000000 rows are 5 GB.

use base::TableId;
use fastrand::Rng;
use memstore::{Memstore, Options, Worker};
use std::hint::black_box;
use std::time::{Duration, Instant};

const ROW: usize = 250;
const T: TableId = TableId(0);

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn load(w: &mut Worker, count: u64) {
    for start in (0..count).step_by(100) {
        let mut t = w.begin();
        for n in start..count.min(start + 100) {
            w.insert(&mut t, T, &key(n), &[7; ROW]).expect("room");
        }
        w.commit(t).map_err(|(why, _)| why).expect("alone");
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Plain,
    Ahead,
}

fn keys<const N: usize>(random: &mut Rng, count: u64) -> [[u8; 8]; N] {
    std::array::from_fn(|_| key(random.u64(..count)))
}

fn read(w: &mut Worker, keys: &[[u8; 8]; 10], way: Way) {
    let mut t = w.begin();
    if way == Way::Ahead {
        w.prefetch(&mut t, T, keys).expect("a table");
    }
    for key in keys {
        black_box(w.read(&mut t, T, key, |row| row[8]).expect("alone").expect("a loaded key"));
    }
    w.commit(t).map_err(|(why, _)| why).expect("alone");
}

fn update(w: &mut Worker, keys: &[[u8; 8]; 10], way: Way) {
    let mut t = w.begin();
    if way == Way::Ahead {
        w.prefetch(&mut t, T, keys).expect("a table");
    }
    for key in keys {
        w.update(&mut t, T, key, |row| row[8] = row[8].wrapping_add(1)).expect("alone");
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

fn line(round: usize, what: &str, plain: f64, ahead: f64) {
    println!(
        "round {round}: {what:8} plain {plain:>10.0}  ahead {ahead:>10.0}  ratio {:.2}  per CPU-second",
        ahead / plain
    );
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<f64>().expect("a number"));
    let count = args.next().unwrap_or(1_000_000.0) as u64;
    let turn = Duration::from_secs_f64(args.next().unwrap_or(1.0));
    let rounds = args.next().unwrap_or(3.0) as usize;

    let store = Memstore::open(Options::new((64 << 20) + count * 400, 1)).expect("addresses");
    store.create(T).expect("a table");
    let mut w = store.worker(0).expect("a worker");
    load(&mut w, count);
    println!("{count} rows, {:.2} GB", store.used_bytes() as f64 / 1e9);
    let r = &mut Rng::with_seed(1);
    for round in 0..rounds {
        let one = rate(turn, || {
            black_box(w.find(T, &key(r.u64(..count))).expect("a table"));
        });
        let many = rate(turn, || {
            black_box(w.find_many(T, &keys::<16>(r, count)).expect("a table"));
        });
        line(round, "lookup", one, 16.0 * many);
        let [plain, ahead] =
            [Way::Plain, Way::Ahead].map(|way| rate(turn, || read(&mut w, &keys(r, count), way)));
        line(round, "read10", plain, ahead);
        let [plain, ahead] =
            [Way::Plain, Way::Ahead].map(|way| rate(turn, || update(&mut w, &keys(r, count), way)));
        line(round, "update10", plain, ahead);
        store.tick();
    }
}
