//! The cost of the store's operations: one thread, no locks, 240,000 rows of 250 bytes, the log in
//! memory.
//!
//! `cargo run --release -p store --example store_cost`

use access::Expect;
use base::{Key, TableId};
use latch::{Coupled, LatchPolicy, Owned};
use pages::{PAGE_SIZE, PoolOptions, Stop};
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;
use store::{InsertOutcome, Store, StoreOptions, Txn};
use txn::{Column, Row, RowBuf, Schema, TableDef, TableKind, Type};
use wal::Durability;

const ROWS: u64 = 240_000;
const TXNS: u64 = 200_000;
const T: TableId = TableId(1);

fn schema() -> Schema {
    let columns = vec![
        Column::new("id", Type::I64),
        Column::new("value", Type::I64),
        Column::new("pad", Type::Char(234)),
    ];
    let table = TableDef {
        id: T,
        name: "rows".into(),
        columns,
        key: vec![0],
        indexes: vec![],
        domain: ROWS,
        kind: TableKind::Heap,
    };
    Schema { tables: vec![table] }
}

fn now<T>(result: Result<T, Stop>) -> T {
    result.unwrap_or_else(|stop| panic!("everything is in memory: {stop}"))
}

fn load(store: &Store) {
    let table = store.table(T).expect("created");
    let mut buf = RowBuf::new(&table.def);
    let mut txn = Txn::default();
    for id in 0..ROWS {
        if id % 100 == 0 {
            store.begin(&mut txn, 0);
        }
        buf.start().set_int(0, id as i64);
        let key = Key::new().i64(id as i64);
        let put = now(store.insert::<Coupled>(&mut txn, table, &key, buf.bytes(), Expect::Any));
        assert_eq!(put, InsertOutcome::Done);
        if id % 100 == 99 {
            store.commit(&mut txn, None).expect("sound");
        }
    }
}

struct Keys(u64);

impl Keys {
    fn next(&mut self) -> Key {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Key::new().i64((self.0 % ROWS) as i64)
    }
}

/// Nanoseconds that this thread has run on a core, which other load on the machine does not affect.
/// Wall-clock time if the kernel does not report them.
fn cpu_ns(begun: Instant) -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ns = told.and_then(|s| s.split_whitespace().next().and_then(|ns| ns.parse().ok()));
    ns.unwrap_or_else(|| begun.elapsed().as_nanos() as u64)
}

fn timed(what: &str, per_txn: u64, mut txn: impl FnMut()) {
    (0..TXNS / 10).for_each(|_| txn());
    let begun = Instant::now();
    let before = cpu_ns(begun);
    (0..TXNS).for_each(|_| txn());
    let ns = (cpu_ns(begun) - before) as f64 / TXNS as f64;
    let each = ns / per_txn as f64;
    println!("{what:>24}: {:>9.0} transactions/s, {ns:>7.0} ns each, {each:>6.1} ns a row", 1e9 / ns);
}

fn measure<L: LatchPolicy>(store: &Store) {
    let table = store.table(T).expect("created");
    let (mut txn, mut keys) = (Txn::default(), Keys(88_172_645_463_325_252));
    timed(&format!("{} read 10", L::NAME), 10, || {
        store.begin(&mut txn, 0);
        for _ in 0..10 {
            let read = |bytes: &[u8]| Row::new(&table.layout, bytes).int(1);
            black_box(now(store.get::<L, _>(table, &keys.next(), read)));
        }
        store.commit(&mut txn, None).expect("sound");
    });
    for rows in [1, 10] {
        timed(&format!("{} update {rows}", L::NAME), rows, || {
            store.begin(&mut txn, 0);
            for _ in 0..rows {
                let add = |row: &mut txn::RowMut<'_>| row.set_int(1, row.int(1) + 1);
                now(store.update::<L, _>(&mut txn, table, &keys.next(), add));
            }
            store.commit(&mut txn, None).expect("sound");
        });
    }
}

fn main() {
    let options =
        StoreOptions { pool: PoolOptions::new(16_384), ..StoreOptions::new(Durability::Memory, 16_384) };
    let dir = std::env::temp_dir().join(format!("atoll-store-cost-{}", std::process::id()));
    let (store, _) = Store::open(world::real(), Path::new(&dir), options).expect("opens");
    store.create(&schema()).expect("creates");
    let begun = Instant::now();
    let before = cpu_ns(begun);
    load(&store);
    let each = (cpu_ns(begun) - before) / ROWS;
    let mib = store.pages_used() as usize * PAGE_SIZE / (1 << 20);
    println!("loaded {ROWS} rows of 250 bytes: {each} ns each, {} pages, {mib} MiB", store.pages_used());
    measure::<Coupled>(&store);
    measure::<Owned>(&store);
    let closed = store.close();
    std::fs::remove_dir_all(&dir).expect("the folder is ours");
    closed.expect("closes");
}
