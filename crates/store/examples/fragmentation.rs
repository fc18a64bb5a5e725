//! The space of divided heap pages, compared with shared ones (thesis of Pandis, section 3.4.8,
//! Figure 3.18), and the time of a file scan (Figure 3.19), the best of five. Rows of 100 and of
//! 1,000 bytes are loaded in key order, loaded in random order, and inserted in random order.
//!
//! `cargo run --profile quick -p store --example fragmentation [MEGABYTES [disk]]`: MEGABYTES (10)
//! of rows in each table. With `disk` the table lies in files in the system's temporary folder, and
//! the pool has an eighth of its pages.

use base::{Key, TableId};
use latch::{ByPage, Claiming, OwnerId, act_for, claim};
use pages::Stop;
use std::ops::Bound;
use std::path::Path;
use std::time::{Duration, Instant};
use store::{ChunkEnd, HeapForm, Loaded, Store, StoreOptions, TreeKind, Txn, Writers};
use txn::{Column, RowBuf, Schema, TableDef, TableKind, Type};
use wal::Durability;

const T: TableId = TableId(1);

fn table(bytes: u32) -> TableDef {
    TableDef {
        id: T,
        name: "rows".into(),
        columns: vec![Column::new("id", Type::I64), Column::new("filler", Type::Text(bytes))],
        key: vec![0],
        indexes: vec![],
        domain: 1,
        kind: TableKind::Heap,
    }
}

/// How rows are added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    LoadedInOrder,
    LoadedScattered,
    Inserted,
}

struct Case {
    form: HeapForm,
    /// Bytes of a row, in total.
    bytes: usize,
    rows: i64,
    partitions: usize,
    way: Way,
    medium: Medium,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Medium {
    Memory,
    Disk,
}

struct Found {
    heap_pages: u64,
    /// Leaves of the index.
    leaves: u64,
    scan: Duration,
}

/// Reads every row in storage order; the best time of several runs.
fn scan(store: &Store, rows: i64, times: usize) -> Duration {
    let once = |_| {
        let (start, mut from, mut met) = (Instant::now(), Bound::Unbounded, 0);
        loop {
            let at = from.as_ref().map(Key::as_slice);
            let mut here = 0;
            match store.file_chunk::<ByPage>(T, at, |_| here += 1) {
                Ok(ChunkEnd::More(next)) => from = next,
                Ok(ChunkEnd::Done(_)) => break,
                Err(Stop::Page(page)) => {
                    store.load_page(page).expect("a page");
                    continue;
                }
                Err(stop) => panic!("{stop}"),
            }
            met += here;
        }
        assert_eq!(met, rows);
        start.elapsed()
    };
    (0..times).map(once).min().unwrap_or_default()
}

fn measure(case: &Case) -> Found {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (world, path, durability) = match case.medium {
        Medium::Memory => (world::memory(), Path::new("/db"), Durability::Memory),
        Medium::Disk => (world::real(), dir.path(), Durability::Async),
    };
    let rows_bytes = case.rows as usize * case.bytes;
    let options = StoreOptions {
        trees: TreeKind::MultiRooted,
        heaps: case.form,
        partitions: case.partitions,
        ..StoreOptions::new(durability, 2_000 + rows_bytes / 1_500)
    };
    let (store, _) = Store::open(world.clone(), path, options).expect("it opens");
    let def = table(case.bytes as u32);
    store.create(&Schema { tables: vec![def.clone()] }).expect("a schema");
    store.have_owners(|_| true);
    let table = store.table(T).expect("created");
    let (mut buf, mut loader, mut txn) = (RowBuf::new(&def), store.loader(), Txn::default());
    let filler = "x".repeat(case.bytes - 12);
    for n in 0..case.rows {
        let id = if case.way == Way::LoadedInOrder { n } else { n * 7_919 % case.rows };
        let mut row = buf.start();
        row.set_int(0, id);
        row.set_text(1, &filler);
        let key = Key::new().i64(id);
        if case.way != Way::Inserted {
            loader.add::<ByPage>(table, Some(&key), buf.bytes()).expect("a row");
            continue;
        }
        store.begin(&mut txn, 0);
        store
            .insert::<ByPage>(&mut txn, table, &key, buf.bytes(), access::Expect::Any)
            .expect("everything is in memory");
        store.commit(&mut txn, None).expect("sound");
        for (table, key) in store.parted(&mut txn) {
            let mut mover = Txn::default();
            store.settle_rows::<ByPage>(&mut mover, table, &key, Writers::Running).expect("there is room");
        }
    }
    let loaded: Loaded = loader.finish::<ByPage>().expect("written");
    if case.way != Way::Inserted {
        store.build_trees::<ByPage>(loaded).expect("built");
    }
    store.pool().disown_mine().expect("nothing is held");
    let report = store.check().unwrap_or_else(|fault| panic!("{fault}"));
    let table = &report.tables[0];
    assert_eq!(table.undivided, 0);
    let (heap_pages, leaves) = (table.heap.pages, table.trees[0].1.leaves);
    if case.medium == Medium::Memory {
        return Found { heap_pages, leaves, scan: scan(&store, case.rows, 5) };
    }
    store.close().expect("closed");
    let options = StoreOptions {
        trees: TreeKind::MultiRooted,
        heaps: case.form,
        ..StoreOptions::new(durability, 256 + heap_pages as usize / 8)
    };
    let (store, _) = Store::open(world, path, options).expect("it opens");
    Found { heap_pages, leaves, scan: scan(&store, case.rows, 5) }
}

fn main() {
    act_for(OwnerId::new(0));
    claim(Claiming::Pages);
    let megabytes = std::env::args().nth(1).map_or(10, |arg| arg.parse().expect("megabytes"));
    let disk = std::env::args().nth(2).is_some_and(|arg| arg == "disk");
    let medium = if disk { Medium::Disk } else { Medium::Memory };
    println!("| rows | way | form | heap pages | of shared ones | leaves | file scan, ms | of shared ones |");
    println!("|---|---|---|---|---|---|---|---|");
    for (bytes, partitions) in [(100, 100), (1_000, 10)] {
        let rows = megabytes * 1_000_000 / bytes as i64;
        for way in [Way::LoadedInOrder, Way::LoadedScattered, Way::Inserted] {
            let mut shared: Option<Found> = None;
            for form in HeapForm::ALL {
                // Inserted rows find one partition: only a load divides a tree.
                let found = measure(&Case { form, bytes, rows, partitions, way, medium });
                let base = shared.as_ref().unwrap_or(&found);
                let pages = found.heap_pages as f64 / base.heap_pages as f64;
                let (ms, time) =
                    (found.scan.as_secs_f64() * 1e3, found.scan.as_secs_f64() / base.scan.as_secs_f64());
                println!(
                    "| {bytes} B | {way:?} | {} | {} | {pages:.2} | {} | {ms:.1} | {time:.2} |",
                    form.name(),
                    found.heap_pages,
                    found.leaves
                );
                shared.get_or_insert(found);
            }
        }
    }
}
