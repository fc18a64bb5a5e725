//! Heap pages by which rows share them, against shared ones (thesis of Pandis, section 3.4.8, Figure 3.18): rows of 100 and of 1,000
//! bytes, loaded in the order of their keys, loaded in no order, and inserted in no order.
//!
//! `cargo run --profile quick -p store --example fragmentation [MEGABYTES]`: rows of so many megabytes (10) in each table.

use base::{Key, TableId};
use latch::{ByPage, Claiming, OwnerId, act_for, claim};
use std::path::Path;
use store::{HeapForm, Loaded, Store, StoreOptions, TreeKind, Txn, Writers};
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

/// How rows come in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    LoadedInOrder,
    LoadedScattered,
    Inserted,
}

struct Case {
    form: HeapForm,
    /// Of a row, all told.
    bytes: usize,
    rows: i64,
    partitions: usize,
    way: Way,
}

/// Heap pages, and leaves that lead to them.
fn pages(case: &Case) -> (u64, u64) {
    let rows_bytes = case.rows as usize * case.bytes;
    let options = StoreOptions {
        trees: TreeKind::MultiRooted,
        heaps: case.form,
        partitions: case.partitions,
        ..StoreOptions::new(Durability::Memory, 2_000 + rows_bytes / 1_500)
    };
    let (store, _) = Store::open(world::memory(), Path::new("/db"), options).expect("it opens");
    let def = table(case.bytes as u32);
    store.create(&Schema { tables: vec![def.clone()] }).expect("a schema");
    store.have_owners();
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
    (table.heap.pages, table.trees[0].1.leaves)
}

fn main() {
    act_for(OwnerId::new(0));
    claim(Claiming::Pages);
    let megabytes = std::env::args().nth(1).map_or(10, |arg| arg.parse().expect("megabytes"));
    println!("| rows | way | form | heap pages | of shared ones | leaves |\n|---|---|---|---|---|---|");
    for (bytes, partitions) in [(100, 100), (1_000, 10)] {
        let rows = megabytes * 1_000_000 / bytes as i64;
        for way in [Way::LoadedInOrder, Way::LoadedScattered, Way::Inserted] {
            let mut shared = 0;
            for form in HeapForm::ALL {
                // Who inserts finds one partition: only a load divides.
                let (heap, leaves) = pages(&Case { form, bytes, rows, partitions, way });
                shared = if form == HeapForm::Shared { heap } else { shared };
                let ratio = heap as f64 / shared as f64;
                println!("| {bytes} B | {way:?} | {} | {heap} | {ratio:.2} | {leaves} |", form.name());
            }
        }
    }
}
