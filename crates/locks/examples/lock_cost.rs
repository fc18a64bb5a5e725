//! What a lock costs: transactions of one table intention and ten row locks, released together.
//!
//! `cargo run --release -p locks --example lock_cost`

use base::{TableId, hash64};
use latch::{NoMutex, RawMutex, SpinRaw};
use locks::{LockName, LockTable, Locker, Mode};
use std::hint::black_box;
use std::time::Instant;

const ROWS: u64 = 240_000;
const TXNS: u64 = 400_000;

fn run<M: RawMutex>(table: &LockTable<M>, locker: &mut Locker, rows: u64, salt: u64) -> f64 {
    let begun = Instant::now();
    let mut at = salt;
    for _ in 0..TXNS {
        table.acquire(locker, LockName::table(TableId(1)), Mode::IX);
        for _ in 0..rows {
            at = (at + 7919) % ROWS;
            let name = LockName::key(TableId(1), hash64(&at.to_be_bytes()));
            black_box(table.acquire(locker, name, Mode::ROW_X));
        }
        table.release_all(locker);
    }
    begun.elapsed().as_nanos() as f64 / TXNS as f64
}

fn report<M: RawMutex>(what: &str, buckets: usize) {
    let table = LockTable::<M>::new(buckets);
    let mut locker = table.locker();
    run(&table, &mut locker, 10, 1);
    let best = |rows| (0..3).map(|_| run(&table, &mut locker, rows, 5)).fold(f64::MAX, f64::min);
    let [none, ten, thirty] = [0, 10, 30].map(best);
    let (row10, row30) = ((ten - none) / 10.0, (thirty - none) / 30.0);
    println!(
        "{what} {buckets:>6} buckets: table intention {none:.1} ns, row of 10 {row10:.1} ns, row of 30 {row30:.1} ns"
    );
}

fn main() {
    for buckets in [1024, 4096, 65_536] {
        report::<SpinRaw>("SpinRaw", buckets);
        report::<NoMutex>("NoMutex", buckets);
    }
    let table = LockTable::<SpinRaw>::new(4096);
    let ns: Vec<f64> = std::thread::scope(|s| {
        let table = &table;
        let workers = [1, 120_001].map(|salt| s.spawn(move || run(table, &mut table.locker(), 10, salt)));
        workers.into_iter().map(|w| w.join().expect("no worker panics")).collect()
    });
    println!(
        "two threads on one table, 4096 buckets: {:.0} and {:.0} ns per transaction of 10 rows",
        ns[0], ns[1]
    );
}
