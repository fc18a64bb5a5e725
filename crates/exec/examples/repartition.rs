//! The cost of splitting and merging partitions of a table while transactions run: time, and the
//! amount moved beside the cost model (thesis, sections 4.3 and 4.5), with 0 to 4 secondary
//! indexes.
//!
//! ```text
//! cargo run --release -p exec --example repartition [ROWS] [shared|partition|leaf]
//! ```
//!
//! A table of 64 partitions; all of its 63 borders shift (63 splits, 63 merges), and shift back,
//! over and over. Its trees are those of the three forms of PLP: only the primary one is cut. Under
//! `shared` (`plp-regular`) rows stay where they are, and another thread updates some all the
//! while. Under the other two the rows on one side of a border may have to move, and the secondary
//! indexes change with them. The thread that moves rows has them to itself; `--example rebalancing`
//! of `instance` has transactions beside that. The log is in memory.

use base::{Key, TableId};
use exec::{Design, Partitioned};
use partition::cost::{Beside, Changes, Cost, Split, System};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::{Divided, HeapForm, Reach, Store, StoreOptions, TreeKind, Txn, Writers};
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

/// The sum of all splits of a shift.
#[derive(Default)]
struct Shifted {
    trees: access::Moved,
    rows: Divided,
}

/// Moves all borders from one place to another.
fn shift(store: &Store, from: &[u64], to: &[u64]) -> Shifted {
    let mut sum = Shifted::default();
    for at in to {
        let how = (Reach::Leaf, Writers::Gone);
        sum.rows += store.divide_rows::<L>(&mut Txn::default(), T, &key(*at), how).expect("room");
        let moved = store.split_partition::<L>(T, &key(*at)).expect("room");
        sum.trees.pages_read += moved.pages_read;
        sum.trees.leaf_entries += moved.leaf_entries;
        sum.trees.inner_entries += moved.inner_entries;
        sum.trees.pointers += moved.pointers;
    }
    for at in from {
        store.merge_partition::<L>(T, &key(*at)).expect("room");
    }
    sum
}

fn system(form: HeapForm) -> System {
    match form {
        HeapForm::Shared => System::PlpRegular,
        HeapForm::ByPartition => System::PlpPartition,
        HeapForm::ByLeaf => System::PlpLeaf,
    }
}

/// A split of table 4.1 in the worst case for a sub-tree of so many rows, beside the mean of the
/// counted ones.
fn beside(form: HeapForm, indexes: usize, rows: u64, splits: u64, shifted: &Shifted) -> Beside {
    // Full leaves of 8 KiB hold about so many entries of a key of 8 bytes here.
    let fanout: u64 = 340;
    let height = (1..).find(|h| fanout.pow(*h) >= rows / PARTITIONS).unwrap_or(1) as usize;
    // Each level is cut in half. The root of a sub-tree is not full, so fewer of its entries move.
    let root = (rows / PARTITIONS).div_ceil(fanout.pow(height as u32 - 1));
    let split = Split {
        height,
        fanout,
        moved: (1..=height).map(|k| if k == height { root } else { fanout } / 2 + 1).collect(),
    };
    let mean = |count: usize| (count as u64).div_ceil(splits);
    let updates = |updates| Changes { updates, ..Changes::default() };
    let Shifted { trees, rows: divided } = shifted;
    let counted = Cost {
        records_moved: mean(divided.rows),
        entries_moved: mean(trees.leaf_entries + trees.inner_entries),
        reads: mean(divided.rows),
        pages_read: mean(divided.leaves_read),
        pointer_updates: mean(trees.pointers),
        primary: updates(mean(divided.primary)),
        secondary: updates(mean(divided.secondary.checked_div(indexes).unwrap_or(0))),
    };
    Beside { model: split.cost(system(form)).expect("a tree"), counted }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rows: u64 = arguments.iter().find_map(|n| n.parse().ok()).unwrap_or(640_000);
    let only = HeapForm::ALL.into_iter().find(|form| arguments.iter().any(|a| a == form.name()));
    for form in HeapForm::ALL.into_iter().filter(|form| only.is_none_or(|only| only == *form)) {
        for indexes in 0..=4 {
            let options = StoreOptions {
                trees: TreeKind::MultiRooted,
                heaps: form,
                partitions: 1,
                ..StoreOptions::new(Durability::Memory, (rows / 4 + 10_000) as usize)
            };
            let (store, _) = Store::open(world::memory(), Path::new("/db"), options).expect("a store");
            store.create(&schema(rows, indexes)).expect("a table");
            load(&store, rows);
            measure(&store, form, rows, indexes);
            store.check().expect("sound");
        }
    }
}

fn measure(store: &Store, form: HeapForm, rows: u64, indexes: usize) {
    let border = |shift: u64| (1..PARTITIONS).map(move |i| i * rows / PARTITIONS + shift).collect::<Vec<_>>();
    let (even, off) = (border(0), border(rows / PARTITIONS / 2));
    shift(store, &[], &even);
    let (stop, done) = (&AtomicBool::new(false), &AtomicU64::new(0));
    let updates = || done.load(Ordering::Relaxed);
    let rate = |since: Instant, before: u64| (updates() - before) as f64 / since.elapsed().as_secs_f64();
    std::thread::scope(|scope| {
        if form == HeapForm::Shared {
            scope.spawn(move || work(store, rows, stop, done));
        }
        let (start, before) = (Instant::now(), updates());
        std::thread::sleep(Duration::from_millis(300));
        let alone = rate(start, before);
        let (mut times, mut first, mut during) = (Vec::new(), Shifted::default(), 0.0);
        for round in 0..ROUNDS {
            let (from, to) = if round % 2 == 0 { (&even, &off) } else { (&off, &even) };
            let (start, before) = (Instant::now(), updates());
            let shifted = shift(store, from, to);
            if round == 0 {
                // Later shifts find pages that end at their cuts.
                first = shifted;
            }
            times.push(start.elapsed().as_secs_f64() * 1e3);
            during = rate(start, before);
        }
        stop.store(true, Ordering::Relaxed);
        times.sort_by(f64::total_cmp);
        let [least, median, most] = [times[0], times[ROUNDS / 2], times[ROUNDS - 1]];
        let beside_that = match form {
            HeapForm::Shared => format!("; {alone:.0} updates a second before, {during:.0} meanwhile"),
            _ => format!("; {} rows moved in the first", first.rows.rows),
        };
        println!(
            "{}, {indexes} secondary indexes: 126 changes in {median:.1} ms ({least:.1} to {most:.1}){beside_that}",
            form.name()
        );
        if indexes == 1 {
            let beside = beside(form, indexes, rows, PARTITIONS - 1, &first);
            println!("\na split, beside table 4.1 ({}):\n{beside}\n", system(form));
        }
    });
}
