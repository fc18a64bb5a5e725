//! What restart does with particular logs.

use crate::files::{Life, Mortal};
use crate::{ACCOUNTS, L, begin, commit, contents, key, open, retry, row, schema};
use access::Expect;
use store::{Store, Txn};
use wal::Durability;

fn fill(store: &Store, ids: std::ops::Range<i64>) {
    let table = store.table(ACCOUNTS).unwrap();
    let mut txn = begin(store);
    for id in ids {
        retry(store, || store.insert::<L>(&mut txn, table, &key(id), &row(id, 0, "zero"), Expect::Any));
    }
    commit(store, txn);
}

fn set(store: &Store, txn: &mut Txn, id: i64, score: i64) {
    let table = store.table(ACCOUNTS).unwrap();
    retry(store, || store.update::<L, _>(txn, table, &key(id), |row| row.set_int(1, score))).unwrap();
}

/// With early lock release two transactions may have changed one row and both lose their commit records. Undone one
/// transaction after the other, in either order, row 1 or row 2 would keep a value nobody committed.
#[test]
fn two_losers_that_changed_the_same_rows_are_undone_youngest_first() {
    let files = world::memory();
    let life = Life::new();
    let (store, _) = open(&Mortal::over(&files, &life), Durability::Sync, 64);
    store.create(&schema()).unwrap();
    fill(&store, 1..3);
    let (mut first, mut second) = (begin(&store), begin(&store));
    set(&store, &mut first, 1, 11);
    set(&store, &mut second, 1, 21);
    set(&store, &mut second, 2, 22);
    set(&store, &mut first, 2, 12);
    store.log().wait_durable(store.log().end()).unwrap();
    life.kill();
    drop(store);
    let (store, recovered) = open(&files, Durability::Sync, 64);
    assert_eq!(recovered.rolled_back, 2);
    let scores: Vec<i64> = contents(&store).into_values().map(|(score, _)| score).collect();
    assert_eq!(scores, [0, 0]);
    store.check().unwrap();
}

#[test]
fn a_transaction_that_only_reads_writes_no_log_record() {
    let (store, _) = open(&world::memory(), Durability::Sync, 64);
    store.create(&schema()).unwrap();
    fill(&store, 0..50);
    let records = store.log().stats().records;
    let table = store.table(ACCOUNTS).unwrap();
    for end in 0..3 {
        let mut txn = begin(&store);
        let savepoint = store.savepoint(&txn);
        assert!(retry(&store, || store.get::<L, _>(table, &key(7), |_| ())).is_some());
        assert_eq!(contents(&store).len(), 50);
        retry(&store, || store.rollback_to::<L>(&mut txn, &savepoint));
        match end {
            0 => assert_eq!(store.commit(&mut txn, None).unwrap(), base::Lsn(0)),
            1 => retry(&store, || store.rollback::<L>(&mut txn)),
            _ => drop(txn),
        }
    }
    assert_eq!(store.log().stats().records, records);
}
