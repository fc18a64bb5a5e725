//! One tree and one heap under several threads: million operations per second, and the ratio to one
//! thread, for each latch policy that threads may share. Rounds of one thread and of several
//! alternate, so that other work on the machine disturbs both alike; the median round is shown with
//! the spread.
//!
//! `cargo run --release -p access --example scaling [threads] [rounds]`
//!
//! For instruction counts: `scaling count POLICY OPERATION` runs a million calls of one operation
//! (`get`, `read`, `modify`) under one policy and nothing else, for
//! `valgrind --tool=callgrind --toggle-collect='*counted*'`.

mod support;

use access::{BTree, Heap, InsertPages};
use base::{Rid, TableId};
use pages::{Coupled, LatchPolicy, Optimistic, Owned, Pool};
use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Barrier;
use std::time::Instant;
use support::{Counter, pool};

const ROWS: u64 = 240_000;
const CALLS: u64 = 1_000_000;

struct Data {
    pool: Pool,
    tree: base::PageId,
    heap: base::PageId,
    hints: InsertPages,
}

fn load() -> Data {
    let pool = pool(20_000);
    let (mut journal, hints) = (Counter(0), InsertPages::new());
    let tree = BTree::create::<Owned>(&pool, &mut journal, TableId(1)).expect("a tree");
    let heap = Heap::create::<Owned>(&pool, &mut journal, TableId(1)).expect("a heap");
    let rows = Heap::open(&pool, heap, TableId(1), &hints);
    let entries: Vec<_> = (0..ROWS)
        .map(|i| {
            (i.to_be_bytes(), rows.insert::<Owned>(&mut journal, &[i as u8; 250]).expect("a row").encode())
        })
        .collect();
    let index = BTree::open(&pool, tree, TableId(1));
    index.bulk::<Owned, _, _>(&mut journal, entries, 100).expect("sorted");
    Data { pool, tree, heap, hints }
}

#[derive(Clone, Copy, PartialEq)]
enum Op {
    Get,
    /// A row by its key: tree, then heap.
    Read,
    /// Eight bytes of a row by its key.
    Modify,
}

const OPS: [(&str, Op); 3] = [("get", Op::Get), ("read", Op::Read), ("modify", Op::Modify)];

/// `calls` operations on keys spread over the table; returns the nanoseconds they took.
#[inline(never)]
fn counted<L: LatchPolicy>(data: &Data, op: Op, seed: u64, calls: u64) -> f64 {
    let tree = BTree::open(&data.pool, data.tree, TableId(1));
    let heap = Heap::open(&data.pool, data.heap, TableId(1), &data.hints);
    let (mut journal, mut buffer, mut state) = (Counter(0), Vec::new(), seed);
    let start = Instant::now();
    for i in 0..calls {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = (((state >> 40) * ROWS) >> 24).to_be_bytes();
        let rid = tree.get::<L, _>(&key, Rid::decode).expect("at hand").flatten().expect("a row");
        match op {
            Op::Get => _ = black_box(rid),
            Op::Read => _ = black_box(heap.read::<L, _>(rid, |row| row[100]).expect("at hand")),
            Op::Modify => {
                let set = |row: &mut Vec<u8>| {
                    row[100..108].copy_from_slice(&i.to_le_bytes());
                    ControlFlow::Continue(((), 100..108))
                };
                _ = black_box(heap.modify::<L, _>(&mut journal, rid, &mut buffer, set).expect("at hand"));
            }
        }
    }
    start.elapsed().as_nanos() as f64
}

/// Million operations per second of `threads` threads together.
fn rate<L: LatchPolicy>(data: &Data, op: Op, threads: u64) -> f64 {
    let barrier = Barrier::new(threads as usize);
    let run = |t: u64| {
        barrier.wait();
        counted::<L>(data, op, t * 77 + 1, CALLS)
    };
    let run = &run;
    let slowest = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|t| scope.spawn(move || run(t))).collect();
        all.into_iter().map(|t| t.join().expect("no panic")).fold(0.0, f64::max)
    });
    threads as f64 * CALLS as f64 * 1e3 / slowest
}

fn compare<L: LatchPolicy>(data: &Data, threads: u64, rounds: usize) {
    for (name, op) in OPS {
        let mut ratios = Vec::new();
        let (mut one, mut many) = (0.0f64, 0.0f64);
        for _ in 0..rounds {
            let alone = (rate::<L>(data, op, 1), rate::<L>(data, op, threads), rate::<L>(data, op, 1));
            (one, many) = (one.max(alone.0), many.max(alone.1));
            ratios.push(alone.1 * 2.0 / (alone.0 + alone.2));
        }
        ratios.sort_by(f64::total_cmp);
        let (low, mid, high) = (ratios[0], ratios[rounds / 2], ratios[rounds - 1]);
        let policy = L::NAME;
        println!(
            "{policy:<11} {name:<7} best {one:>6.2} M/s alone, {many:>6.2} M/s with {threads}; x{mid:.2} ({low:.2} to {high:.2})"
        );
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let data = load();
    if let [first, policy, op] = &args[..]
        && first == "count"
    {
        let (_, op) = OPS.into_iter().find(|(name, _)| name == op).expect("get, read or modify");
        match policy.as_str() {
            "owned" => counted::<Owned>(&data, op, 1, CALLS),
            "optimistic" => counted::<Optimistic>(&data, op, 1, CALLS),
            _ => counted::<Coupled>(&data, op, 1, CALLS),
        };
        return;
    }
    let number = |i: usize, default: u64| args.get(i).map_or(default, |n| n.parse().expect("a number"));
    let (threads, rounds) = (number(0, 2), number(1, 5) as usize);
    compare::<Coupled>(&data, threads, rounds);
    compare::<Optimistic>(&data, threads, rounds);
}
