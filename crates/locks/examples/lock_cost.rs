//! The cost of a lock: transactions of one table intention and ten row locks, released together;
//! with and without inheritance; beside another thread that does the same on other rows.
//!
//! `cargo run --release -p locks --example lock_cost`, or for instruction counts, which noise does
//! not affect (1000 transactions in the function `measured`):
//!
//! ```text
//! valgrind --tool=callgrind --collect-atstart=no --toggle-collect='*measured*' \
//!     target/release/examples/lock_cost count spin
//! ```
//!
//! Also `count nomutex`; `spin-table` and `spin-table-off` for the transaction without rows.

use base::{TableId, hash64};
use latch::{NoMutex, RawMutex, SpinRaw};
use locks::{Inheritance, LockName, LockOptions, LockTable, LockTuning, Locker, Mode};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

const ROWS: u64 = 240_000;
const TXNS: u64 = 200_000;
const BUCKETS: usize = 1 << 14;
const T: [LockName; 1] = [LockName::table(TableId(1))];

fn table<M: RawMutex>(inheritance: Inheritance) -> LockTable<M> {
    let tuning = LockTuning { inheritance, ..LockTuning::PLAIN };
    LockTable::with(LockOptions { buckets: BUCKETS, tuning })
}

fn names() -> Vec<LockName> {
    (0..ROWS).map(|at| LockName::key(TableId(1), hash64(&at.to_be_bytes()))).collect()
}

#[inline(never)]
fn measured<M: RawMutex>(
    table: &LockTable<M>,
    locker: &mut Locker,
    names: &[LockName],
    rows: u64,
    txns: u64,
) {
    let mut at = 0;
    for _ in 0..txns {
        black_box(table.acquire(locker, T[0], Mode::IX));
        for _ in 0..rows {
            at = (at + 7919) % names.len();
            black_box(table.acquire_below(locker, &T, names[at], Mode::ROW_X));
        }
        table.release_all(locker);
    }
}

fn ns<M: RawMutex>(table: &LockTable<M>, names: &[LockName], rows: u64) -> f64 {
    let mut locker = table.locker();
    measured(table, &mut locker, names, rows, TXNS / 10);
    let once = |_| {
        let begun = Instant::now();
        measured(table, &mut locker, names, rows, TXNS);
        begun.elapsed().as_nanos() as f64 / TXNS as f64
    };
    (0..5).map(once).fold(f64::MAX, f64::min)
}

fn report<M: RawMutex>(what: &str, names: &[LockName]) {
    for inheritance in [Inheritance::Off, Inheritance::On, Inheritance::Off, Inheritance::On] {
        let table = table::<M>(inheritance);
        let [none, ten, thirty] = [0, 10, 30].map(|rows| ns(&table, names, rows));
        println!(
            "{what}, inheritance {inheritance:>3}: table intention {none:.1} ns, row of 10 {:.1} ns, row of 30 {:.1} ns",
            (ten - none) / 10.0,
            (thirty - none) / 30.0
        );
    }
}

/// Transactions per microsecond of one thread alone, and of two at once on rows of their own.
fn side_by_side(names: &[LockName]) {
    let table = table::<SpinRaw>(Inheritance::On);
    let (low, high) = names.split_at(names.len() / 2);
    let alone = 1000.0 / ns(&table, low, 10);
    let together = Barrier::new(2);
    let both: f64 = std::thread::scope(|s| {
        let (table, together) = (&table, &together);
        let run = |names| {
            s.spawn(move || {
                together.wait();
                1000.0 / ns(table, names, 10)
            })
        };
        [low, high].map(run).into_iter().map(|w| w.join().expect("no worker panics")).sum()
    });
    println!(
        "transactions of 10 rows per µs: one thread {alone:.2}, two {both:.2}, {:.2} times",
        both / alone
    );
}

fn count<M: RawMutex>(names: &[LockName], rows: u64, inheritance: Inheritance) {
    let table = table::<M>(inheritance);
    measured(&table, &mut table.locker(), names, rows, 1000);
}

fn main() {
    let names = names();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["count", "spin"] => count::<SpinRaw>(&names, 10, Inheritance::On),
        ["count", "spin-table"] => count::<SpinRaw>(&names, 0, Inheritance::On),
        ["count", "spin-table-off"] => count::<SpinRaw>(&names, 0, Inheritance::Off),
        ["count", "nomutex"] => count::<NoMutex>(&names, 10, Inheritance::On),
        _ => {
            report::<SpinRaw>("SpinRaw", &names);
            report::<NoMutex>("NoMutex", &names);
            side_by_side(&names);
        }
    }
}
