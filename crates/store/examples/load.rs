//! Loading 240,000 rows of 250 bytes in two ways, by turns: inserted in transactions of a hundred,
//! and filled page by page with the tree built at the end. Prints rows per second, and bytes of log
//! per byte of rows.
//!
//! `cargo run --release -p store --example load`

use access::Expect;
use base::{Key, TableId};
use latch::Coupled;
use pages::{PAGE_SIZE, Stop};
use std::path::Path;
use std::time::Instant;
use store::{InsertOutcome, Store, StoreOptions, Txn};
use txn::{Column, RowBuf, Schema, TableDef, TableKind, Type};
use wal::Durability;

const ROWS: i64 = 240_000;
const ROW_BYTES: u64 = 250;
const ROUNDS: usize = 3;
const T: TableId = TableId(1);

fn store() -> Store {
    let columns = vec![Column::new("id", Type::I64), Column::new("pad", Type::Char(242))];
    let table = TableDef {
        id: T,
        name: "rows".into(),
        columns,
        key: vec![0],
        indexes: vec![],
        domain: ROWS as u64,
        kind: TableKind::Heap,
    };
    let frames = (512 << 20) / PAGE_SIZE;
    let options = StoreOptions::new(Durability::Memory, frames);
    let (store, _) = Store::open(world::memory(), Path::new("db"), options).expect("a store in memory");
    store.create(&Schema { tables: vec![table] }).expect("a schema");
    store
}

fn now<T>(result: Result<T, Stop>) -> T {
    result.unwrap_or_else(|stop| panic!("everything is in memory: {stop}"))
}

fn insert(store: &Store) {
    let table = store.table(T).expect("created");
    let (mut buf, mut txn) = (RowBuf::new(&table.def), Txn::default());
    for id in 0..ROWS {
        if id % 100 == 0 {
            store.begin(&mut txn, 0);
        }
        buf.start().set_int(0, id);
        let key = Key::new().i64(id);
        let put = now(store.insert::<Coupled>(&mut txn, table, &key, buf.bytes(), Expect::Any));
        assert_eq!(put, InsertOutcome::Done);
        if id % 100 == 99 {
            store.commit(&mut txn, None).expect("sound");
        }
    }
}

fn fill(store: &Store) {
    let table = store.table(T).expect("created");
    let (mut buf, mut loader) = (RowBuf::new(&table.def), store.loader());
    for id in 0..ROWS {
        buf.start().set_int(0, id);
        now(loader.add::<Coupled>(table, Some(&Key::new().i64(id)), buf.bytes()));
    }
    now(store.build_trees::<Coupled>(now(loader.finish::<Coupled>())));
}

fn main() {
    for _ in 0..ROUNDS {
        for (what, load) in [("inserted", insert as fn(&Store)), ("filled", fill)] {
            let store = store();
            let (start, logged) = (Instant::now(), store.log().stats().bytes);
            load(&store);
            let seconds = start.elapsed().as_secs_f64();
            let log = (store.log().stats().bytes - logged) as f64 / (ROWS as u64 * ROW_BYTES) as f64;
            let rate = ROWS as f64 / seconds / 1e6;
            println!(
                "{what:<10} {rate:>6.2} million rows/s, {log:.2} bytes of log per byte, {} pages",
                store.pages_used()
            );
        }
    }
}
