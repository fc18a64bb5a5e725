//! Partial rollback, and operations that fail half-way.

use crate::files::{Life, Mortal};
use crate::{ACCOUNTS, BY_NAME, L, begin, commit, contents, key, open, options, retry, row, scan, schema};
use access::Expect;
use pages::Stop;
use std::path::Path;
use std::sync::Arc;
use store::{DeleteOutcome, InsertOutcome, Store, Txn};
use txn::Direction;
use wal::Durability;
use world::Files;

fn put(store: &Store, txn: &mut Txn, id: i64, name: &str) {
    let table = store.table(ACCOUNTS).unwrap();
    let done = retry(store, || store.insert::<L>(txn, table, &key(id), &row(id, 0, name), Expect::Any));
    assert_eq!(done, InsertOutcome::Done);
}

fn set(store: &Store, txn: &mut Txn, id: i64, name: &str) {
    let table = store.table(ACCOUNTS).unwrap();
    let done = retry(store, || store.update::<L, _>(txn, table, &key(id), |row| row.set_text(2, name)));
    assert!(done.is_some());
}

fn remove(store: &Store, txn: &mut Txn, id: i64) {
    let table = store.table(ACCOUNTS).unwrap();
    let done = retry(store, || store.delete::<L>(txn, table, &key(id), Expect::Any));
    assert_eq!(done, DeleteOutcome::Done);
}

fn names(store: &Store) -> Vec<(i64, String)> {
    contents(store).into_iter().map(|(id, (_, name))| (id, name)).collect()
}

fn named(all: &[(i64, &str)]) -> Vec<(i64, String)> {
    all.iter().map(|&(id, name)| (id, name.to_owned())).collect()
}

#[test]
pub fn what_came_after_a_savepoint_is_undone_and_the_rest_commits() {
    let files = world::memory();
    let (store, _) = open(&files, Durability::Sync, 64);
    store.create(&schema()).unwrap();
    let mut txn = begin(&store);
    put(&store, &mut txn, 1, "one");
    put(&store, &mut txn, 2, "two");
    let before = store.savepoint(&txn);
    set(&store, &mut txn, 1, "changed");
    remove(&store, &mut txn, 2);
    put(&store, &mut txn, 3, "three");
    let later = store.savepoint(&txn);
    put(&store, &mut txn, 4, "four");
    retry(&store, || store.rollback_to::<L>(&mut txn, &later));
    assert_eq!(names(&store), named(&[(1, "changed"), (3, "three")]));
    for _ in 0..2 {
        retry(&store, || store.rollback_to::<L>(&mut txn, &before));
        assert_eq!(names(&store), named(&[(1, "one"), (2, "two")]));
    }
    put(&store, &mut txn, 5, "five");
    commit(&store, txn);
    assert_eq!(names(&store), named(&[(1, "one"), (2, "two"), (5, "five")]));
    store.check().unwrap();
}

/// Killed before or after the commit record is durable: the transaction is there without its undone
/// part, or not at all.
#[test]
pub fn a_partial_rollback_survives_a_crash_with_the_commit_and_goes_with_it() {
    for committed in [false, true] {
        let files = world::memory();
        let life = Life::new();
        let (store, _) = open(&Mortal::over(&files, &life), Durability::Sync, 64);
        store.create(&schema()).unwrap();
        let mut txn = begin(&store);
        put(&store, &mut txn, 1, "base");
        commit(&store, txn);
        let mut txn = begin(&store);
        put(&store, &mut txn, 2, "kept");
        let savepoint = store.savepoint(&txn);
        set(&store, &mut txn, 1, &"long".repeat(100));
        put(&store, &mut txn, 3, "undone");
        retry(&store, || store.rollback_to::<L>(&mut txn, &savepoint));
        set(&store, &mut txn, 1, "after");
        // The pages are written with the uncommitted changes, so that restart has something to
        // undo.
        store.checkpoint().unwrap();
        if committed {
            let lsn = commit(&store, txn);
            store.log().wait_durable(lsn).unwrap();
        }
        life.kill();
        drop(store);
        let (store, recovered) = open(&files, Durability::Sync, 64);
        store.check().unwrap();
        assert_eq!(recovered.rolled_back, usize::from(!committed));
        let expected = if committed { named(&[(1, "after"), (2, "kept")]) } else { named(&[(1, "base")]) };
        assert_eq!(names(&store), expected);
    }
}

#[test]
#[should_panic(expected = "rolled back over")]
fn a_savepoint_that_was_rolled_back_over_is_refused() {
    let (store, _) = open(&world::memory(), Durability::Sync, 64);
    store.create(&schema()).unwrap();
    let mut txn = begin(&store);
    put(&store, &mut txn, 1, "one");
    let early = store.savepoint(&txn);
    put(&store, &mut txn, 2, "two");
    let late = store.savepoint(&txn);
    retry(&store, || store.rollback_to::<L>(&mut txn, &early));
    // The same number of records as when `late` was taken, but other records.
    for id in 2..9 {
        put(&store, &mut txn, id, "again");
    }
    let _ = store.rollback_to::<L>(&mut txn, &late);
}

/// No frame or page is left in the middle of an insertion into table and indexes: the insertion
/// leaves nothing, the transaction continues with its earlier changes, and the indexes agree with
/// the rows.
#[test]
pub fn an_operation_that_runs_out_of_room_leaves_nothing_half_done() {
    let files: Arc<dyn Files> = world::memory();
    let mut small = options(Durability::Sync, 256);
    small.pool.max_pages = 60;
    let (store, _) = Store::open(files, Path::new("/db"), small).unwrap();
    store.create(&schema()).unwrap();
    let table = store.table(ACCOUNTS).unwrap();
    let mut txn = begin(&store);
    let (mut id, mut refused) = (0, 0);
    while refused < 40 {
        let bytes = row(id, id, &format!("{id:0600}"));
        match store.insert::<L>(&mut txn, table, &key(id), &bytes, Expect::Any) {
            Ok(InsertOutcome::Done) => {}
            Err(Stop::NoSpace) => refused += 1,
            other => panic!("{other:?}"),
        }
        // An order that splits leaves everywhere.
        id = (id + 617) % 1009;
    }
    commit(&store, txn);
    assert!(store.fault().is_none());
    store.check().unwrap();
    assert_eq!(scan(&store, BY_NAME, Direction::Forward).len(), contents(&store).len());
}

/// A row with an entry longer than an index allows is the caller's mistake; the store continues.
#[test]
pub fn an_update_to_a_key_too_long_for_an_index_changes_nothing() {
    let (store, _) = open(&world::memory(), Durability::Sync, 64);
    let mut wide = schema();
    wide.tables[0].columns[2].ty = txn::Type::Text(4000);
    store.create(&wide).unwrap();
    let mut txn = begin(&store);
    put(&store, &mut txn, 1, "short");
    let table = store.table(ACCOUNTS).unwrap();
    let long = "x".repeat(3000);
    let set = |row: &mut txn::RowMut<'_>| row.set_text(2, &long);
    let stop = store.update::<L, _>(&mut txn, table, &key(1), set);
    assert!(matches!(stop, Err(Stop::Fault(_))), "{stop:?}");
    assert!(store.fault().is_none());
    commit(&store, txn);
    assert_eq!(names(&store), named(&[(1, "short")]));
    store.check().unwrap();
}
