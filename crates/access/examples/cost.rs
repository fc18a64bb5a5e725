//! The cost of one operation on a cached tree or heap, in nanoseconds of this thread's processor
//! time (so that other work on the machine disturbs less): the median of several rounds.
//!
//! `cargo run --release -p access --example cost [part of a line's name]`

mod support;

use access::{BTree, Expect, Heap, HeapModify, InsertPages, Journal};
use base::{Lsn, Rid, TableId};
use pages::{Coupled, LatchPolicy, Optimistic, Owned};
use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;
use support::{Counter, pool};
use wal::{Log, LogOrder, RecordHeader};

const ROWS: u64 = 240_000;
const ROUNDS: usize = 5;
const CALLS: u64 = 400_000;

/// The real log, in memory.
struct Appender(Arc<Log>);

impl Journal for Appender {
    fn undoable(&mut self, kind: u8, after: Lsn, body: &[&[u8]]) -> Lsn {
        self.system(kind, LogOrder::After(after), body)
    }
    fn system(&mut self, kind: u8, order: LogOrder, body: &[&[u8]]) -> Lsn {
        self.0.append(&RecordHeader { kind, ..RecordHeader::default() }, order, body).end
    }
    fn worker(&self) -> usize {
        0
    }
}

/// A permutation of the keys, so that accesses are spread.
fn key(i: u64) -> u64 {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % ROWS
}

/// This thread's processor time.
fn now_ns() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}

fn measure(what: &str, calls: u64, mut f: impl FnMut(u64)) {
    if std::env::args().nth(1).is_some_and(|part| !what.contains(&part)) {
        return;
    }
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|round| {
            let start = now_ns();
            (0..calls).for_each(|i| f(i + round as u64 * calls));
            (now_ns() - start) / calls as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("{what:<44} {:>8.1} ns  ({:.1} to {:.1})", rounds[ROUNDS / 2], rounds[0], rounds[ROUNDS - 1]);
}

fn run<L: LatchPolicy>() {
    let pool = pool(20_000);
    let mut journal = Counter(0);
    let hints = InsertPages::new();
    let root = BTree::create::<L>(&pool, &mut journal, TableId(1)).expect("a tree");
    let tree = BTree::open(&pool, root, TableId(1));
    let root = Heap::create::<L>(&pool, &mut journal, TableId(1)).expect("a heap");
    let heap = Heap::open(&pool, root, TableId(1), &hints);

    let start = now_ns();
    let mut rids = Vec::new();
    for i in 0..ROWS {
        let rid = heap.insert::<L>(&mut journal, &[i as u8; 250]).expect("a row");
        tree.insert::<L>(&mut journal, &i.to_be_bytes(), &rid.encode(), Expect::Any).expect("an entry");
        rids.push(rid);
    }
    let each = (now_ns() - start) / ROWS as f64;
    println!("{:<44} {each:>8.1} ns", format!("{}: load a row and its entry, in order", L::NAME));
    let mib = f64::from(pool.stats().allocated) * pages::PAGE_SIZE as f64 / f64::from(1 << 20);
    let report = tree.verify::<L>().expect("sound");
    println!("{:<44} {mib:>8.1} MiB in pages; {report:?}", "");

    let get = |i: u64| {
        let rid = tree.get::<L, _>(&key(i).to_be_bytes(), Rid::decode).expect("at hand");
        black_box(rid);
    };
    measure(&format!("{}: tree get", L::NAME), CALLS, get);
    measure(&format!("{}: tree get, 1000 hot keys", L::NAME), CALLS, |i| get(i % 1000));
    measure(&format!("{}: tree get, one key", L::NAME), CALLS, |_| get(7));
    let read = |i: u64| {
        let byte = heap.read::<L, _>(rids[key(i) as usize], |row| row[100]).expect("at hand");
        black_box(byte);
    };
    measure(&format!("{}: heap read", L::NAME), CALLS, read);
    measure(&format!("{}: heap read, 1000 hot rows", L::NAME), CALLS, |i| read(i % 1000));
    let mut buffer = Vec::new();
    measure(&format!("{}: heap modify 8 bytes, hot", L::NAME), CALLS, |i| {
        let done = heap.modify::<L, _>(&mut journal, rids[key(i % 1000) as usize], &mut buffer, |row| {
            row[100..108].copy_from_slice(&i.to_le_bytes());
            ControlFlow::Continue(((), 100..108))
        });
        assert!(matches!(done, Ok(HeapModify::Done(()))));
    });
    let mut appender = Appender(pool.log().clone());
    measure(&format!("{}: heap modify 8 bytes, hot, logged", L::NAME), CALLS, |i| {
        let done = heap.modify::<L, _>(&mut appender, rids[key(i % 1000) as usize], &mut buffer, |row| {
            row[100..108].copy_from_slice(&i.to_le_bytes());
            ControlFlow::Continue(((), 100..108))
        });
        assert!(matches!(done, Ok(HeapModify::Done(()))));
    });
    measure(&format!("{}: tree delete and insert, spread", L::NAME), CALLS / 4, |i| {
        let key = key(i).to_be_bytes();
        tree.delete::<L>(&mut journal, &key, Expect::Any).expect("at hand");
        tree.insert::<L>(&mut journal, &key, b"sixbyt", Expect::Any).expect("at hand");
    });
    let mut met = 0u64;
    measure(&format!("{}: tree chunk of one leaf", L::NAME), 1000, |i| {
        let from = key(i).to_be_bytes();
        let from = std::ops::Bound::Included(&from[..]);
        let chunk = tree.chunk::<L>(from, None, access::Direction::Forward, |_, _| met += 1);
        black_box(chunk.expect("at hand"));
    });
    println!("{:<44} {:>8.1} entries a chunk", "", met as f64 / 1000.0 / ROUNDS as f64);
}

/// The cost of the same look-up in the standard library's map, as a measure of how quiet the
/// machine is.
fn yardstick() {
    let map: std::collections::BTreeMap<u64, u64> = (0..ROWS).map(|i| (i, i)).collect();
    measure("std: BTreeMap<u64, u64> get", CALLS, |i| {
        black_box(map.get(&key(i)));
    });
    measure("std: BTreeMap<u64, u64> get, one key", CALLS, |_| {
        black_box(map.get(&key(7)));
    });
    measure("std: BTreeMap<u64, u64> get, 1000 hot keys", CALLS, |i| {
        black_box(map.get(&key(i % 1000)));
    });
}

fn main() {
    yardstick();
    run::<Owned>();
    run::<Optimistic>();
    run::<Coupled>();
}
