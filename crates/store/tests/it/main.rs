//! The store from outside: rows and indexes, transactions, checkpoints, crashes.

mod bad;
mod basics;
mod clustered;
mod crash;
mod ddl;
mod files;
mod first_touch;
mod large;
mod load;
mod multi;
mod notes;
mod restart;
mod row_placement;
mod savepoints;
mod threads;

use crate::files::{Life, Mortal};
use base::{Key, TableId};
use latch::Coupled;
use pages::{PoolOptions, Stop};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use store::{CheckReport, ChunkEnd, HeapForm, Recovered, Store, StoreOptions, TreeKind, Txn};
use txn::{Column, Direction, IndexDef, Row, RowBuf, Schema, TableDef, TableKind, Type};
use wal::{Durability, LogOptions};
use world::Files;

type L = Coupled;

const ACCOUNTS: TableId = TableId(1);
const BY_SCORE: TableId = TableId(2);
const BY_NAME: TableId = TableId(3);
const HISTORY: TableId = TableId(10);

thread_local! {
    /// The kind of the keyed tables in a test on this thread.
    static KIND: Cell<TableKind> = const { Cell::new(TableKind::Heap) };
    /// The kind of their trees.
    static TREES: Cell<TreeKind> = const { Cell::new(TreeKind::BTree) };
    /// Which of their rows share a heap page.
    static HEAPS: Cell<HeapForm> = const { Cell::new(HeapForm::Shared) };
}

/// A keyed table with two secondary indexes and rows of varying length, and a keyless one.
fn schema() -> Schema {
    let index = |id, name: &str, column| IndexDef { id, name: name.into(), columns: vec![column] };
    let columns = vec![
        Column::new("id", Type::I64),
        Column::new("score", Type::I64),
        Column::new("name", Type::Text(600)),
    ];
    let accounts = TableDef {
        indexes: vec![index(BY_SCORE, "by_score", 1), index(BY_NAME, "by_name", 2)],
        ..TableDef::new(ACCOUNTS, "accounts", columns, &[0], 1)
    };
    let history = TableDef::new(HISTORY, "history", vec![Column::new("number", Type::I64)], &[], 1);
    Schema { tables: vec![accounts, history] }.of_kind(KIND.get())
}

fn options(durability: Durability, frames: usize) -> StoreOptions {
    StoreOptions {
        log: LogOptions { segment_bytes: 1 << 16, buffer_bytes: 1 << 16, ..LogOptions::new(durability) },
        pool: PoolOptions { max_pages: 1 << 14, ..PoolOptions::new(frames) },
        checkpoint_bytes: 1 << 20,
        node_bytes: usize::MAX,
        trees: TREES.get(),
        heaps: HEAPS.get(),
        partitions: 3,
    }
}

fn open(files: &Arc<dyn Files>, durability: Durability, frames: usize) -> (Store, Recovered) {
    Store::open(files.clone(), Path::new("/db"), options(durability, frames)).expect("the database opens")
}

/// The report of a check that finds nothing, neither in the tables nor between pages and log.
fn examined(store: &Store) -> CheckReport {
    let (report, findings) = store.examine(&mut |_, _, _| {});
    let what: Vec<_> = findings.iter().map(|finding| &finding.what).collect();
    assert!(what.is_empty(), "{what:?}");
    report
}

/// A change to the database in these files. Returns whether it was acknowledged.
type Deed = fn(&Arc<dyn Files>) -> bool;

/// Fills a database and runs `change` on it, killed before its n-th change to the files, for every
/// n. Each restart is killed once as well, before one of its first `deaths` changes. `found` checks
/// the state after that; its arguments are whether `change` was acknowledged, and n. Returns the
/// number of changes.
fn killed_before_every_change(
    options: fn() -> StoreOptions,
    fill: impl Fn(&Store, &mut Txn),
    (change, deaths): (Deed, i64),
    found: impl Fn(&Store, bool, i64),
) -> i64 {
    let open = |files| Store::open(files, Path::new("/db"), options());
    for n in 1.. {
        let files = world::memory();
        let (store, _) = open(files.clone()).expect("an empty folder");
        store.create(&schema()).expect("a schema");
        let mut txn = begin(&store);
        fill(&store, &mut txn);
        commit(&store, txn);
        store.close().expect("closed");
        let life = Life::of_changes(n);
        let done = change(&Mortal::over(&files, &life));
        drop(open(Mortal::over(&files, &Life::of_changes(n % deaths))));
        let (store, _) = open(files).unwrap_or_else(|fault| panic!("killed before change {n}: {fault}"));
        found(&store, done, n);
        if !life.is_dead() {
            assert!(done, "nobody killed it");
            return n;
        }
    }
    unreachable!("it changes something for ever")
}

fn key(id: i64) -> Key {
    Key::new().i64(id)
}

fn row(id: i64, score: i64, name: &str) -> Vec<u8> {
    let mut buf = RowBuf::new(&schema().tables[0]);
    let mut row = buf.start();
    row.set_int(0, id);
    row.set_int(1, score);
    row.set_text(2, name);
    buf.bytes().to_vec()
}

/// Loads pages until the operation succeeds, as the layer above does.
fn retry<T>(store: &Store, mut op: impl FnMut() -> Result<T, Stop>) -> T {
    loop {
        match op() {
            Ok(done) => return done,
            Err(Stop::Page(page)) => store.load_page(page).expect("the page loads"),
            Err(Stop::Again) => std::thread::yield_now(),
            Err(stop) => panic!("{stop}"),
        }
    }
}

fn begin(store: &Store) -> Txn {
    let mut txn = Txn::default();
    store.begin(&mut txn, 0);
    txn
}

fn commit(store: &Store, mut txn: Txn) -> base::Lsn {
    let lsn = store.commit(&mut txn, None).expect("the store is sound");
    store.committed::<L>(&mut txn);
    lsn
}

/// Every row of a table or index, in the given direction, in small chunks.
fn scan(store: &Store, index: TableId, direction: Direction) -> Vec<(Key, Vec<u8>)> {
    let (mut all, mut from) = (Vec::new(), Bound::Unbounded);
    loop {
        let mut part = Vec::new();
        let chunk = retry(store, || {
            part.clear();
            store.chunk::<L>(index, from.as_ref().map(Key::as_slice), None, direction, 7, |k, r| {
                part.push((Key::from_bytes(k), r.to_vec()));
            })
        });
        all.append(&mut part);
        match chunk {
            ChunkEnd::More(next) => from = next,
            ChunkEnd::Done(_) => return all,
        }
    }
}

/// From key to (score, name).
type Model = BTreeMap<i64, (i64, String)>;

fn contents(store: &Store) -> Model {
    let table = store.table(ACCOUNTS).expect("created");
    let rows = scan(store, ACCOUNTS, Direction::Forward);
    rows.iter()
        .map(|(_, bytes)| {
            let row = Row::new(&table.layout, bytes);
            (row.int(0), (row.int(1), row.text(2).to_owned()))
        })
        .collect()
}

fn history(store: &Store) -> Vec<i64> {
    let table = store.table(HISTORY).expect("created");
    let mut all: Vec<i64> = scan(store, HISTORY, Direction::Forward)
        .iter()
        .map(|(_, r)| Row::new(&table.layout, r).int(0))
        .collect();
    all.sort_unstable();
    all
}
