//! How long a restart takes: a process fills a database, takes a checkpoint, updates random rows until so much was
//! logged, and dies; then the database is opened and answers its first transaction.
//!
//! ```text
//! cargo run --release -p store --example restart [DATABASE_MIB] [LOG_MIB] [FOLDER]
//! ```
//!
//! Prints the seconds until it is open, until the first transaction has committed, and until every page is as the log
//! says, which transactions need not wait for; and megabytes (10^6 bytes) of log replayed per second.
//! Without arguments: 1024 MiB, and as much log as is written between two checkpoints.

use access::Expect;
use base::{Key, TableId};
use latch::Coupled;
use pages::Stop;
use std::path::Path;
use std::time::Instant;
use store::{Store, StoreOptions, Table, Txn};
use txn::{Column, RowBuf, Schema, TableDef, TableKind, Type};
use wal::Durability;

const TABLE: TableId = TableId(1);
const PAYLOAD: usize = 480;
/// Bytes of a page's share for one row, with its index entry.
const ROW_BYTES: u64 = 530;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().and_then(|a| a.parse().ok()).unwrap_or(default);
    let (database, log) = (number(1024) << 20, number(64) << 20);
    let folder = arguments.next().unwrap_or_else(|| "restart-example".into());
    let dir = Path::new(&folder);
    let rows = database / ROW_BYTES;
    if arguments.next().is_some() {
        fill_and_die(dir, rows, log);
    }
    let _ = std::fs::remove_dir_all(dir);
    let me = std::env::current_exe().expect("this program has a file");
    let sizes = [database >> 20, log >> 20].map(|n| n.to_string());
    let _killed = std::process::Command::new(me).args(&sizes).arg(dir).arg("fill").status().expect("starts");
    let (before, cpu) = (Instant::now(), world::usage().cpu_ns);
    let since = || (before.elapsed().as_secs_f64(), (world::usage().cpu_ns - cpu) as f64 / 1e9);
    let (store, recovered) = open(dir, rows);
    let opened = since();
    update(&store, store.table(TABLE).expect("created"), &mut Txn::default(), 7);
    let answered = since();
    let waiting = store.redo_left();
    store.finish_redo().expect("repeats everything");
    let repeated = since();
    let replayed = recovered.redo_bytes as f64 / 1e6;
    println!(
        "{} MiB of data; {replayed:.1} MB of log, {} records; {waiting} pages waited for theirs after the first answer",
        u64::from(store.pages_used()) * 8 / 1024,
        recovered.redo_records,
    );
    println!(
        "opened in {:.3} s ({:.3} s of a core's time); first answer at {:.3} s; everything repeated at {:.3} s",
        opened.0, opened.1, answered.0, repeated.0,
    );
    println!(
        "analysis alone {:.0} MB/s per core; everything {:.0} MB/s, {:.0} MB/s per core",
        replayed / opened.1,
        replayed / repeated.0,
        replayed / repeated.1,
    );
    drop(store);
    let _ = std::fs::remove_dir_all(dir);
}

fn open(dir: &Path, rows: u64) -> (Store, store::Recovered) {
    let frames = (rows * ROW_BYTES / 8192 + 10_000) as usize;
    Store::open(world::real(), dir, StoreOptions::new(Durability::Async, frames)).expect("the database opens")
}

fn fill_and_die(dir: &Path, rows: u64, log: u64) -> ! {
    let (store, _) = open(dir, rows);
    let columns = vec![
        Column::new("id", Type::I64),
        Column::new("n", Type::I64),
        Column::new("pad", Type::Char(PAYLOAD as u16)),
    ];
    let def = TableDef {
        id: TABLE,
        name: "t".into(),
        columns,
        key: vec![0],
        indexes: vec![],
        domain: 1,
        kind: TableKind::Heap,
    };
    store.create(&Schema { tables: vec![def] }).expect("creates");
    let table = store.table(TABLE).expect("created");
    let mut txn = Txn::default();
    let mut buf = RowBuf::new(&table.def);
    let pad = "x".repeat(PAYLOAD);
    for id in 0..rows as i64 {
        if id % 1000 == 0 {
            store.begin(&mut txn, 0);
        }
        let mut row = buf.start();
        row.set_int(0, id);
        row.set_int(1, 0);
        row.set_text(2, &pad);
        let key = Key::new().i64(id);
        settle(&store, || store.insert::<Coupled>(&mut txn, table, &key, buf.bytes(), Expect::Any));
        if id % 1000 == 999 || id + 1 == rows as i64 {
            store.commit(&mut txn, None).expect("commits");
        }
        if store.checkpoint_due() {
            store.checkpoint().expect("a checkpoint");
        }
    }
    store.checkpoint().expect("a checkpoint");
    let from = store.log().end().0;
    let mut random = 1u64;
    while store.log().end().0 - from < log {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        update(&store, table, &mut txn, ((random >> 33) % rows) as i64);
    }
    std::process::abort();
}

fn update(store: &Store, table: &Table, txn: &mut Txn, id: i64) {
    store.begin(txn, 0);
    let key = Key::new().i64(id);
    let add = |row: &mut txn::RowMut<'_>| row.set_int(1, row.int(1) + 1);
    settle(store, || store.update::<Coupled, _>(txn, table, &key, add)).expect("the row is there");
    store.commit(txn, None).expect("commits");
}

fn settle<T>(store: &Store, mut op: impl FnMut() -> Result<T, Stop>) -> T {
    loop {
        match op() {
            Err(Stop::Page(page)) => store.load_page(page).expect("loads"),
            Err(Stop::Again) => std::hint::spin_loop(),
            done => return done.unwrap_or_else(|stop| panic!("{stop}")),
        }
    }
}
