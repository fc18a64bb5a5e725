//! What splitting and merging partitions of a table takes while transactions run: time, and what it moved beside the cost model (thesis,
//! sections 4.3 and 4.5), with 0 to 4 secondary indexes.
//!
//! ```text
//! cargo run --release -p exec --example repartition [ROWS]
//! ```
//!
//! A table of 64 partitions; all of its 63 borders shift (63 splits, 63 merges), and shift back, over and over, while another thread
//! updates rows. The trees are those of `plp-regular`: only the primary one is cut, so secondary indexes and records stay where they are.
//! Pages are latched here, as a second thread works on them. The log is in memory.

use base::{Key, TableId};
use exec::{Design, Partitioned};
use partition::cost::{Beside, Cost, Split, System};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::{Store, StoreOptions, TreeKind, Txn};
use txn::{Column, IndexDef, RowBuf, RowMut, Schema, TableDef, TableKind, Type};
use wal::Durability;

const T: TableId = TableId(1);
const PARTITIONS: u64 = 64;
const ROUNDS: usize = 5;

type L = <Partitioned as Design>::Latch;

fn schema(rows: u64, indexes: usize) -> Schema {
    let int = |name: &str| Column::new(name, Type::I64);
    let mut columns = vec![int("id"), int("value")];
    columns.extend((0..4).map(|i| int(&format!("c{i}"))));
    columns.push(Column::new("pad", Type::Char(52)));
    let index = |i: usize| IndexDef {
        id: TableId(2 + i as u16),
        name: format!("by_c{i}"),
        columns: vec![2 + i as u16, 0],
    };
    let table = TableDef {
        id: T,
        name: "rows".into(),
        columns,
        key: vec![0],
        indexes: (0..indexes).map(index).collect(),
        domain: rows,
        kind: TableKind::Heap,
    };
    Schema { tables: vec![table] }
}

fn key(id: u64) -> Key {
    Key::new().i64(id as i64)
}

fn load(store: &Store, rows: u64) {
    let table = store.table(T).expect("created");
    let mut buf = RowBuf::new(&table.def);
    let mut loader = store.loader();
    for id in 0..rows {
        let mut row = buf.start();
        row.set_int(0, id as i64);
        (0..4).for_each(|c| row.set_int(2 + c, (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (8 + c)) as i64));
        loader.add::<L>(table, Some(&key(id)), buf.bytes()).expect("room");
    }
    store.build_trees::<L>(loader.finish::<L>().expect("written")).expect("built");
}

/// Updates rows one by one until told to stop.
fn work(store: &Store, rows: u64, stop: &AtomicBool, done: &AtomicU64) {
    let table = store.table(T).expect("created");
    let (mut txn, mut word) = (Txn::default(), 1u64);
    while !stop.load(Ordering::Relaxed) {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = key((word >> 20) % rows);
        store.begin(&mut txn, 0);
        let add = |row: &mut RowMut<'_>| {
            let value = row.int(1);
            row.set_int(1, value + 1);
        };
        while store.update::<L, _>(&mut txn, table, &key, add).is_err() {
            std::hint::spin_loop();
        }
        store.commit(&mut txn, None).expect("sound");
        store.committed::<L>(&mut txn);
        done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Moves all borders from one place to another: what the splits moved, all together.
fn shift(store: &Store, from: &[u64], to: &[u64]) -> access::Moved {
    let mut sum = access::Moved::default();
    for at in to {
        let moved = store.split_partition::<L>(T, &key(*at)).expect("room");
        sum.pages_read += moved.pages_read;
        sum.leaf_entries += moved.leaf_entries;
        sum.inner_entries += moved.inner_entries;
        sum.pointers += moved.pointers;
    }
    for at in from {
        store.merge_partition::<L>(T, &key(*at)).expect("room");
    }
    sum
}

/// A split of table 4.1 in the worst case for a sub-tree of so many rows, beside the mean of those that were counted.
fn beside(rows: u64, splits: u64, moved: access::Moved) -> Beside {
    // Full leaves of 8 KiB hold about so many entries of a key of 8 bytes here.
    let fanout: u64 = 340;
    let height = (1..).find(|h| fanout.pow(*h) >= rows / PARTITIONS).unwrap_or(1) as usize;
    let split = Split { height, fanout, moved: vec![fanout / 2; height] };
    let counted = Cost {
        entries_moved: (moved.leaf_entries + moved.inner_entries) as u64 / splits,
        pointer_updates: moved.pointers as u64 / splits,
        ..Cost::default()
    };
    Beside { model: split.cost(System::PlpRegular).expect("a tree"), counted }
}

fn main() {
    let rows: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(640_000);
    for indexes in 0..=4 {
        let options = StoreOptions {
            trees: TreeKind::MultiRooted,
            partitions: 1,
            ..StoreOptions::new(Durability::Memory, (rows / 8 + 10_000) as usize)
        };
        let (store, _) = Store::open(world::memory(), Path::new("/db"), options).expect("a store");
        store.create(&schema(rows, indexes)).expect("a table");
        load(&store, rows);
        measure(&store, rows, indexes);
        store.check().expect("sound");
    }
}

fn measure(store: &Store, rows: u64, indexes: usize) {
    let border = |shift: u64| (1..PARTITIONS).map(move |i| i * rows / PARTITIONS + shift).collect::<Vec<_>>();
    let (even, off) = (border(0), border(rows / PARTITIONS / 2));
    even.iter().for_each(|at| _ = store.split_partition::<L>(T, &key(*at)).expect("room"));
    let (stop, done) = (&AtomicBool::new(false), &AtomicU64::new(0));
    let updates = || done.load(Ordering::Relaxed);
    let rate = |since: Instant, before: u64| (updates() - before) as f64 / since.elapsed().as_secs_f64();
    std::thread::scope(|scope| {
        scope.spawn(move || work(store, rows, stop, done));
        let (start, before) = (Instant::now(), updates());
        std::thread::sleep(Duration::from_millis(300));
        let alone = rate(start, before);
        let (mut times, mut moved, mut during) = (Vec::new(), access::Moved::default(), 0.0);
        for round in 0..ROUNDS {
            let (from, to) = if round % 2 == 0 { (&even, &off) } else { (&off, &even) };
            let (start, before) = (Instant::now(), updates());
            moved = shift(store, from, to);
            times.push(start.elapsed().as_secs_f64() * 1e3);
            during = rate(start, before);
        }
        stop.store(true, Ordering::Relaxed);
        times.sort_by(f64::total_cmp);
        let [least, median, most] = [times[0], times[ROUNDS / 2], times[ROUNDS - 1]];
        println!(
            "{indexes} secondary indexes: 126 changes in {median:.1} ms ({least:.1} to {most:.1}); {alone:.0} updates a second before, \
             {during:.0} meanwhile"
        );
        if indexes == 0 {
            println!("\na split, beside table 4.1 (plp-regular):\n{}\n", beside(rows, PARTITIONS - 1, moved));
        }
    });
}
