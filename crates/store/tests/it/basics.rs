//! One transaction at a time, everything in memory or on a memory disk.

use crate::{
    ACCOUNTS, BY_NAME, BY_SCORE, HISTORY, L, begin, commit, contents, history, key, open, retry, row, scan,
    schema,
};
use access::Expect;
use base::{Key, Lsn};
use pages::PAGE_SIZE;
use std::ops::Bound;
use std::path::Path;
use store::{DeleteOutcome, Entries, InsertOutcome, Store, Txn, UpdateOutcome};
use txn::{Direction, Row, RowBuf};
use wal::Durability;

fn fresh() -> Store {
    let (store, recovered) = open(&world::memory(), Durability::Memory, 256);
    assert_eq!((recovered.life, recovered.in_doubt.len()), (1, 0));
    store.create(&schema()).unwrap();
    store
}

fn insert(store: &Store, txn: &mut Txn, id: i64, score: i64, name: &str) -> InsertOutcome {
    let table = store.table(ACCOUNTS).unwrap();
    retry(store, || store.insert::<L>(txn, table, &key(id), &row(id, score, name), Expect::Any))
}

fn set_name(store: &Store, txn: &mut Txn, id: i64, score: i64, name: &str) -> bool {
    let table = store.table(ACCOUNTS).unwrap();
    let set = |r: &mut txn::RowMut<'_>| {
        r.set_int(1, score);
        r.set_text(2, name);
    };
    retry(store, || store.update::<L, _>(txn, table, &key(id), set)).is_some()
}

fn delete(store: &Store, txn: &mut Txn, id: i64) -> DeleteOutcome {
    let table = store.table(ACCOUNTS).unwrap();
    retry(store, || store.delete::<L>(txn, table, &key(id), Expect::Any))
}

fn names_in(store: &Store, index: base::TableId, direction: Direction) -> Vec<String> {
    let layout = &store.table(ACCOUNTS).unwrap().layout;
    let rows = scan(store, index, direction);
    rows.iter().map(|(_, bytes)| Row::new(layout, bytes).text(2).to_owned()).collect()
}

#[test]
pub fn rows_and_both_indexes_move_together() {
    let store = fresh();
    let mut txn = begin(&store);
    for (id, score, name) in [(3, 10, "carol"), (1, 30, "alice"), (2, 20, "bob")] {
        assert_eq!(insert(&store, &mut txn, id, score, name), InsertOutcome::Done);
    }
    assert_eq!(insert(&store, &mut txn, 2, 99, "again"), InsertOutcome::Exists);
    commit(&store, txn);
    assert_eq!(names_in(&store, ACCOUNTS, Direction::Forward), ["alice", "bob", "carol"]);
    assert_eq!(names_in(&store, BY_SCORE, Direction::Forward), ["carol", "bob", "alice"]);
    assert_eq!(names_in(&store, BY_NAME, Direction::Backward), ["carol", "bob", "alice"]);

    let mut txn = begin(&store);
    assert!(set_name(&store, &mut txn, 3, 40, "aaron"));
    assert!(!set_name(&store, &mut txn, 4, 40, "nobody"));
    assert_eq!(delete(&store, &mut txn, 2), DeleteOutcome::Done);
    assert_eq!(delete(&store, &mut txn, 2), DeleteOutcome::Missing);
    commit(&store, txn);
    assert_eq!(names_in(&store, BY_SCORE, Direction::Forward), ["alice", "aaron"]);
    assert_eq!(names_in(&store, BY_NAME, Direction::Forward), ["aaron", "alice"]);
    let report = store.check().unwrap();
    assert_eq!((report.tables[0].rows(), report.tables[0].heap.ghosts), (2, 0));
}

/// A caller that locks index entries learns of the columns set before anything is changed, and only
/// if an index contains one of them.
#[test]
fn an_update_that_sets_an_indexed_column_is_held_back_when_asked() {
    let store = fresh();
    let mut txn = begin(&store);
    insert(&store, &mut txn, 1, 10, "alice");
    commit(&store, txn);
    let table = store.table(ACCOUNTS).unwrap();
    let mut txn = begin(&store);
    let mut update = |entries, set: fn(&mut txn::RowMut<'_>)| {
        let done = store.update_seen::<L, _>(&mut txn, table, &key(1), (None, entries), set).unwrap();
        (done, txn.wrote(), txn.held_back().1.to_vec())
    };
    let (done, wrote, _) = update(Entries::HoldBack, |row| row.set_int(0, 1));
    assert_eq!((done, wrote), (UpdateOutcome::Done(()), false), "no index has the column");
    let (done, wrote, held) = update(Entries::HoldBack, |row| row.set_int(1, 11));
    assert_eq!((done, wrote, held), (UpdateOutcome::Entries(()), false, row(1, 11, "alice")));
    assert_eq!(names_in(&store, BY_SCORE, Direction::Forward), ["alice"]);
    assert_eq!(scan(&store, BY_SCORE, Direction::Forward)[0].1, row(1, 10, "alice"));
    let mut update = |set: fn(&mut txn::RowMut<'_>)| {
        store.update_seen::<L, _>(&mut txn, table, &key(1), (None, Entries::Follow), set).unwrap()
    };
    assert_eq!(update(|row| row.set_int(1, 12)), UpdateOutcome::Done(()));
    assert_eq!(update(|row| row.set_text(2, "zoe")), UpdateOutcome::Done(()));
    commit(&store, txn);
    assert_eq!(scan(&store, BY_SCORE, Direction::Forward)[0].1, row(1, 12, "zoe"));
    assert_eq!(names_in(&store, BY_NAME, Direction::Forward), ["zoe"]);
    store.check().unwrap();
}

#[test]
pub fn a_row_that_outgrows_its_page_keeps_its_entries() {
    let store = fresh();
    let mut txn = begin(&store);
    for id in 0..100 {
        insert(&store, &mut txn, id, id, "short");
    }
    commit(&store, txn);
    let mut txn = begin(&store);
    let long = "x".repeat(500);
    (0..100).step_by(3).for_each(|id| assert!(set_name(&store, &mut txn, id, id, &long)));
    store.check().unwrap();
    commit(&store, txn);
    assert_eq!(store.check().unwrap().tables[0].heap.ghosts, 0);
    assert_eq!(contents(&store).values().filter(|v| v.1 == long).count(), 34);
}

#[test]
pub fn rollback_leaves_no_trace() {
    let store = fresh();
    let mut txn = begin(&store);
    (0..200).for_each(|id| drop(insert(&store, &mut txn, id, id % 7, "before")));
    commit(&store, txn);
    let before = contents(&store);
    for round in 0..3 {
        let mut txn = begin(&store);
        let long = "y".repeat(550);
        for id in 0..200 {
            match (id + round) % 4 {
                0 => assert_eq!(delete(&store, &mut txn, id), DeleteOutcome::Done),
                1 => assert!(set_name(&store, &mut txn, id, -id, &long)),
                2 => assert!(set_name(&store, &mut txn, id, id, "after")),
                _ => assert_eq!(insert(&store, &mut txn, 1000 + id, 1, &long), InsertOutcome::Done),
            }
        }
        let (key, row) = (key(4 - round), row(4 - round, 5, "put back"));
        let table = store.table(ACCOUNTS).unwrap();
        retry(&store, || store.insert::<L>(&mut txn, table, &key, &row, Expect::Any));
        retry(&store, || store.rollback::<L>(&mut txn));
        assert_eq!(contents(&store), before);
        let report = store.check().unwrap();
        assert_eq!(report.tables[0].heap.ghosts, 0);
    }
}

#[test]
pub fn an_unexpected_neighbour_is_reported_and_nothing_stays() {
    let store = fresh();
    let mut txn = begin(&store);
    assert_eq!(
        [10, 20].map(|id| insert(&store, &mut txn, id, 0, "x")),
        [InsertOutcome::Done, InsertOutcome::Done]
    );
    let table = store.table(ACCOUNTS).unwrap();
    let bytes = row(15, 0, "y");
    let put =
        |txn: &mut Txn, expect| retry(&store, || store.insert::<L>(txn, table, &key(15), &bytes, expect));
    let next = key(20);
    assert_eq!(put(&mut txn, Expect::Next(None)), InsertOutcome::Next(Some(next.clone())));
    assert_eq!(store.check().unwrap().tables[0].rows(), 2);
    assert_eq!(put(&mut txn, Expect::Next(Some(&next))), InsertOutcome::Done);
    let gone = store.delete::<L>(&mut txn, table, &next, Expect::Next(Some(&next))).unwrap();
    assert_eq!(gone, DeleteOutcome::Next(None));
    commit(&store, txn);
    assert_eq!(contents(&store).keys().copied().collect::<Vec<_>>(), [10, 15, 20]);
    let after = store.successor::<L>(ACCOUNTS, Bound::Excluded(&key(15))).unwrap();
    assert_eq!(after, Some(key(20)));
    assert_eq!(store.predecessor::<L>(ACCOUNTS, Bound::Excluded(&key(10))).unwrap(), None);
}

#[test]
fn a_keyless_table_keeps_what_is_appended() {
    let store = fresh();
    let table = store.table(HISTORY).unwrap();
    let mut buf = RowBuf::new(&table.def);
    let mut put = |txn: &mut Txn, n| {
        buf.start().set_int(0, n);
        assert!(retry(&store, || store.append::<L>(txn, table, buf.bytes())));
    };
    let mut txn = begin(&store);
    (0..2000).for_each(|n| put(&mut txn, n));
    commit(&store, txn);
    let mut txn = begin(&store);
    (2000..3000).for_each(|n| put(&mut txn, n));
    retry(&store, || store.rollback::<L>(&mut txn));
    assert_eq!(history(&store), (0..2000).collect::<Vec<_>>());
    store.check().unwrap();
}

#[test]
pub fn what_does_not_fit_is_refused() {
    let store = fresh();
    let table = store.table(ACCOUNTS).unwrap();
    let mut txn = begin(&store);
    let key = Key::from_bytes(&[1; PAGE_SIZE / 4]);
    let put = store.insert::<L>(&mut txn, table, &key, &row(1, 1, "x"), Expect::Any);
    assert_eq!(put.unwrap(), InsertOutcome::TooLong);
    assert!(!txn.wrote());
    assert_eq!(store.commit(&mut txn, None).unwrap(), Lsn(0), "nothing was logged");
}

#[test]
pub fn a_reused_transaction_gets_a_new_number() {
    let store = fresh();
    let mut txn = Txn::default();
    let mut ids = Vec::new();
    for id in 0..600 {
        store.begin(&mut txn, 0);
        insert(&store, &mut txn, id, 0, "x");
        ids.push(txn.id().unwrap());
        store.commit(&mut txn, None).unwrap();
    }
    let all = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), all);
}

#[test]
fn the_catalog_takes_more_tables_and_refuses_contradictions() {
    let files = world::memory();
    let (store, _) = open(&files, Durability::Sync, 64);
    let all = schema();
    store.create(&txn::Schema { tables: vec![all.tables[1].clone()] }).unwrap();
    store.create(&all).unwrap();
    store.create(&all).unwrap();
    let mut other = all.clone();
    other.tables[0].columns.pop();
    assert!(store.create(&other).unwrap_err().to_string().contains("'accounts'"));
    let mut twice = all.clone();
    twice.tables[0].id = base::TableId(50);
    assert!(store.create(&twice).unwrap_err().to_string().contains("same id 2"));
    store.close().unwrap();
    let (store, recovered) =
        Store::open(files, Path::new("/db"), crate::options(Durability::Sync, 64)).unwrap();
    assert_eq!(recovered.life, 2);
    let schema = store.schema().unwrap();
    assert_eq!(schema.tables, all.tables, "sorted by id");
    assert!(store.index(BY_NAME).unwrap().1 && store.table(BY_NAME).is_none());
    store.check().unwrap();
}
