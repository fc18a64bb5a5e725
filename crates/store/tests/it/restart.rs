//! Restart with particular logs.

use crate::files::{Life, Mortal};
use crate::{ACCOUNTS, L, begin, commit, contents, key, open, options, retry, row, schema};
use access::Expect;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use store::{Store, Txn};
use wal::Durability;
use world::sim::Disk;
use world::{Deed, Intervention, watched};

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

/// With early lock release, two transactions may have changed one row and both lose their commit
/// records. Here they change two rows in opposite orders. If one transaction were undone completely
/// before the other, in either order, row 1 or row 2 would keep a value that was never committed.
#[test]
pub fn two_losers_that_changed_the_same_rows_are_undone_youngest_first() {
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

/// A transaction changes one row before the checkpoint begins. After the checkpoint has written the
/// pages, and before it lists the running transactions, the transaction changes another row and
/// commits. So it is not listed as running, and its end must be durable before the checkpoint is.
/// Otherwise a power cut would leave its first change, and restart would not undo it.
#[test]
fn a_checkpoint_waits_for_the_ends_of_those_it_does_not_list() {
    let disk = Disk::new();
    let (reached, at_sync) = channel();
    let (go_on, told) = channel::<()>();
    let hook = Mutex::new(Some((reached, told)));
    let armed = Arc::new(AtomicBool::new(false));
    let files = watched(disk.files(), {
        let armed = armed.clone();
        move |path, deed| {
            let now = path.ends_with("data") && matches!(deed, Deed::Sync) && armed.load(Ordering::SeqCst);
            if let Some((reached, told)) = hook.lock().unwrap().take_if(|_| now) {
                reached.send(()).unwrap();
                told.recv().unwrap();
            }
            Intervention::Do
        }
    });
    let (store, _) = open(&files, Durability::Sync, 64);
    store.create(&schema()).unwrap();
    fill(&store, 1..3);
    store.checkpoint().unwrap();
    let mut txn = begin(&store);
    set(&store, &mut txn, 1, 77);
    armed.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| store.checkpoint());
        at_sync.recv().expect("the checkpoint syncs the data file");
        set(&store, &mut txn, 2, 77);
        commit(&store, txn);
        go_on.send(()).unwrap();
        checkpoint.join().unwrap().unwrap();
    });
    for seed in 0..60 {
        let (store, _) = open(&disk.crash_image(seed).files(), Durability::Sync, 64);
        let scores: Vec<i64> = contents(&store).into_values().map(|(score, _)| score).collect();
        assert!(scores == [77, 77] || scores == [0, 0], "half a transaction: {scores:?} with seed {seed}");
    }
}

/// Killed during restart, again and again: the final state equals that after one restart.
#[test]
pub fn a_restart_cut_at_every_change_is_finished_by_the_next() {
    let made = || {
        let files = world::memory();
        let life = Life::new();
        let (store, _) = open(&Mortal::over(&files, &life), Durability::Sync, 24);
        store.create(&schema()).unwrap();
        fill(&store, 0..200);
        let mut losers = [begin(&store), begin(&store)];
        for id in 0..150 {
            set(&store, &mut losers[id as usize % 2], id, 1000 + id);
        }
        store.checkpoint().unwrap();
        let last = store.log().end();
        store.log().wait_durable(last).unwrap();
        life.kill();
        files
    };
    let mut n = 0;
    loop {
        n += 3;
        let files = made();
        let life = Life::of_changes(n);
        drop(Store::open(Mortal::over(&files, &life), Path::new("/db"), options(Durability::Sync, 24)));
        let (store, _) = open(&files, Durability::Sync, 24);
        assert!(contents(&store).into_values().all(|(score, _)| score == 0), "cut before change {n}");
        assert_eq!(store.check().unwrap().lost_pages, 0);
        if !life.is_dead() {
            return assert!(n > 10, "only {n} changes");
        }
    }
}
