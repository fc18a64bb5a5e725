//! Pages for which restart postpones redo until they are read.

use crate::files::{Life, Mortal};
use crate::{ACCOUNTS, L, begin, commit, contents, key, open, options, retry, row, schema};
use access::Expect;
use std::path::Path;
use std::sync::Arc;
use store::{Store, StoreFault, StoreOptions};
use txn::Row;
use wal::Durability;
use world::{Files, Open};

const ROWS: i64 = 600;

fn set(store: &Store, id: i64, score: i64) {
    let table = store.table(ACCOUNTS).unwrap();
    let mut txn = begin(store);
    retry(store, || store.update::<L, _>(&mut txn, table, &key(id), |row| row.set_int(1, score))).unwrap();
    commit(store, txn);
}

/// A database that was killed after row `n` got the score `n`, all since the last checkpoint.
fn killed() -> Arc<dyn Files> {
    let files = world::memory();
    let life = Life::new();
    let (store, _) = open(&Mortal::over(&files, &life), Durability::Sync, 2000);
    store.create(&schema()).unwrap();
    let table = store.table(ACCOUNTS).unwrap();
    let mut txn = begin(&store);
    for id in 0..ROWS {
        let row = row(id, 0, &"x".repeat(300));
        retry(&store, || store.insert::<L>(&mut txn, table, &key(id), &row, Expect::Any));
    }
    commit(&store, txn);
    store.checkpoint().unwrap();
    (0..ROWS).for_each(|id| set(&store, id, id));
    store.log().wait_durable(store.log().end()).unwrap();
    life.kill();
    drop(store);
    files
}

fn is_whole(store: &Store, but: &[(i64, i64)]) {
    let found = contents(store);
    assert_eq!(found.len() as i64, ROWS);
    for (id, (score, _)) in found {
        let expected = but.iter().find(|(n, _)| *n == id).map_or(id, |(_, score)| *score);
        assert_eq!(score, expected, "row {id}");
    }
    store.check().unwrap();
}

#[test]
pub fn opening_reads_no_page_that_nobody_wants() {
    let (store, _) = open(&killed(), Durability::Sync, 2000);
    let waiting = store.redo_left();
    assert!(waiting > 20 && store.pool().stats().loaded < 10, "{:?}", store.pool().stats());
    let table = store.table(ACCOUNTS).unwrap();
    let score =
        retry(&store, || store.get::<L, _>(table, &key(77), |bytes| Row::new(&table.layout, bytes).int(1)));
    assert_eq!(score, Some(77));
    assert!((waiting - 5..waiting).contains(&store.redo_left()), "its own pages and no others");
    is_whole(&store, &[]);
}

#[test]
pub fn what_nobody_wants_is_repeated_beside_the_work() {
    let (store, _) = open(&killed(), Durability::Sync, 2000);
    while store.redo_left() > 0 {
        store.redo_some();
        store.pool().turn();
    }
    assert!(!store.redo_some(), "nothing is left");
    let loaded = store.pool().stats().loaded;
    is_whole(&store, &[]);
    assert!(store.pool().stats().loaded - loaded < 40, "only pages that no record was about");
}

/// Without the drain before it, the checkpoint would pass changes that exist only in the log before
/// it.
#[test]
pub fn a_checkpoint_passes_no_page_that_waits() {
    for frames in [24, 2000] {
        let files = killed();
        let life = Life::new();
        let (store, _) = open(&Mortal::over(&files, &life), Durability::Sync, frames);
        assert!(store.redo_left() > 0);
        store.checkpoint().unwrap();
        assert_eq!(store.redo_left(), 0);
        life.kill();
        drop(store);
        let (store, recovered) = open(&files, Durability::Sync, frames);
        assert_eq!(recovered.redo_records, 0, "the checkpoint counted");
        is_whole(&store, &[]);
    }
}

/// The same for a checkpoint in pieces, as the pages' owner takes it.
#[test]
pub fn nor_does_one_taken_in_pieces() {
    let files = killed();
    let life = Life::new();
    let (store, _) = open(&Mortal::over(&files, &life), Durability::Sync, 2000);
    let mut run = store.begin_checkpoint();
    while store.step_checkpoint(&mut run).unwrap() != pages::Progress::Finished {
        store.pool().write_out();
    }
    store.finish_checkpoint(&run).unwrap();
    life.kill();
    drop(store);
    let (store, recovered) = open(&files, Durability::Sync, 2000);
    assert_eq!((recovered.redo_records, store.redo_left()), (0, 0));
    is_whole(&store, &[]);
}

/// A log longer than the memory for its records is repeated in several portions while it is read.
#[test]
fn a_long_log_is_repeated_while_it_is_read() {
    for frames in [24, 2000] {
        let small = StoreOptions { checkpoint_bytes: 1 << 10, ..options(Durability::Sync, frames) };
        let (store, _) = Store::open(killed(), Path::new("/db"), small).unwrap();
        assert_eq!(store.redo_left(), 0, "pages that are in memory already are not read again");
        is_whole(&store, &[]);
    }
}

/// Killed again, and again, after some pages were read, changed, written and evicted, and others
/// not.
#[test]
pub fn killed_while_pages_wait_it_restarts_from_the_same_place() {
    let files = killed();
    let mut set_since = Vec::new();
    for round in 0..12 {
        let life = Life::new();
        let (store, recovered) = open(&Mortal::over(&files, &life), Durability::Sync, 24);
        assert!(recovered.redo_records > ROWS as u64, "no checkpoint came between");
        for step in 0..7 {
            let id = (round * 97 + step * 53) % ROWS;
            let score = 10_000 + round * 10 + step;
            set(&store, id, score);
            set_since.retain(|(n, _)| *n != id);
            set_since.push((id, score));
        }
        store.log().wait_durable(store.log().end()).unwrap();
        life.kill();
        drop(store);
    }
    let (store, _) = open(&files, Durability::Sync, 24);
    is_whole(&store, &set_since);
}

/// The bad page is found when it is read or drained, not before. Then nothing commits, and the
/// checkpoint that would forget the log is refused.
#[test]
fn a_page_that_cannot_be_brought_up_to_date_is_named_and_stops_the_store() {
    let files = killed();
    files.open(Path::new("/db/doublewrite"), Open::ReadWrite).unwrap().set_len(0).unwrap();
    let data = files.open(Path::new("/db/data"), Open::ReadWrite).unwrap();
    let pages = data.len().unwrap() / 8192;
    for page in 1..pages {
        let mut owner = [0; 4];
        data.read_at(&mut owner, page * 8192 + 20).unwrap();
        if u32::from_le_bytes(owner) == u32::from(ACCOUNTS.0) {
            data.write_all_at(&[0xff; 64], page * 8192 + 4000).unwrap();
        }
    }
    let control = |files: &Arc<dyn Files>| {
        ["control-0", "control-1"].map(|name| {
            let mut bytes = vec![0; 4096];
            let file = files.open(&Path::new("/db").join(name), Open::Read).unwrap();
            let read = file.read_at(&mut bytes, 0).unwrap();
            bytes.truncate(read);
            bytes
        })
    };
    let (store, _) = open(&files, Durability::Sync, 2000);
    let before = control(&files);
    let fault = store.checkpoint().unwrap_err();
    assert!(fault.to_string().contains("/db/data") && fault.to_string().contains("corrupt"), "{fault}");
    assert!(store.redo_left() > 0 && store.fault().is_some());
    assert_eq!(control(&files), before, "the log is still needed");
    assert!(store.close().is_err());
}

/// A page waits for records that do not fit its contents: the file was replaced by an older one.
#[test]
fn a_page_that_does_not_fit_its_records_is_named_with_its_place() {
    let files = killed();
    let data = files.open(Path::new("/db/data"), Open::ReadWrite).unwrap();
    for page in 2..data.len().unwrap() / 8192 {
        let mut bytes = vec![0; 8192];
        data.read_at(&mut bytes, page * 8192).unwrap();
        if u32::from_le_bytes(bytes[20..24].try_into().unwrap()) == u32::from(ACCOUNTS.0) {
            data.write_all_at(&[0; 8192], page * 8192).unwrap();
        }
    }
    let (store, _) = Store::open(files, Path::new("/db"), options(Durability::Sync, 2000)).unwrap();
    let fault = store.finish_redo().unwrap_err();
    assert!(
        matches!(&fault, StoreFault::Unfit { file, offset } if file.ends_with("data") && *offset > 0),
        "{fault}"
    );
    assert!(store.fault().is_some() && store.checkpoint().is_err());
}
