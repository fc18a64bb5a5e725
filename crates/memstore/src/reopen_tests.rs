//! A store is opened again with the memory that its rows have needed, however much of its log is
//! about rows that are gone. Deleted rows stay deleted, in whichever order the files have the
//! records.

use crate::durable_tests::{T, delete, open, open_with, put, rows, rows_of};
use crate::{Durability, LogOptions, Memstore, OpenError, Options, Recovered, Replayed, Scope, Worker};
use std::path::Path;
use std::sync::Arc;
use world::Files;
use world::sim::Disk;

const DIR: &str = "/db";
const LIVE: u64 = 10_000;
const BUDGET: u64 = 64 << 20;

fn open_within(
    files: Arc<dyn Files>,
    streams: u16,
    checkpoint_bytes: u64,
) -> Result<(Arc<Memstore>, Recovered), OpenError> {
    let options = Options { pages: world::PageSize::Normal, tables: 8, ..Options::new(BUDGET, 2) };
    let log = LogOptions { streams, checkpoint_bytes, ..LogOptions::new(Durability::Async) };
    Memstore::open_in(options, log, files, Path::new(DIR))
}

fn insert_and_delete(w: &mut Worker, (head, tail): (&mut u64, &mut u64), n: u64) -> u64 {
    let mut txn = w.begin();
    for _ in 0..n {
        w.insert(&mut txn, T, &tail.to_be_bytes(), &[7; 100]).expect("room for it");
        *tail += 1;
        if *tail - *head > LIVE {
            assert_eq!(w.delete(&mut txn, T, &head.to_be_bytes()), Ok(true));
            *head += 1;
        }
    }
    w.commit(txn).map_err(|(refused, _)| refused).unwrap().epoch
}

/// A store with this many bytes of log about 10,000 rows that are present and many more that are
/// gone. In 200 MiB of log these are 1.2 million, for which 64 MiB of memory would not be enough.
fn filled(files: Arc<dyn Files>, streams: u16, log_bytes: u64) -> Arc<Memstore> {
    let (store, _) = open_within(files, streams, 1 << 30).unwrap();
    store.create(T).unwrap();
    let mut workers = [store.worker(0).unwrap(), store.worker(1).unwrap()];
    let (mut head, mut tail) = (0, 0);
    let mut turn = 0;
    while store.log_stats().bytes < log_bytes {
        let epoch = insert_and_delete(&mut workers[turn % 2], (&mut head, &mut tail), 256);
        if turn % 16 == 0 {
            store.wait_durable(epoch).unwrap();
        }
        turn += 1;
    }
    assert!(store.used_bytes() < BUDGET / 2, "{} bytes for {LIVE} rows", store.used_bytes());
    store.write_out().unwrap();
    store
}

fn check(store: &Arc<Memstore>) {
    let mut w = store.worker(0).unwrap();
    let all = rows(&mut w);
    assert_eq!(all.len() as u64, LIVE);
    let first = all.keys().next().map(|key| u64::from_be_bytes(key[..].try_into().unwrap())).unwrap();
    let last = all.keys().next_back().map(|key| u64::from_be_bytes(key[..].try_into().unwrap())).unwrap();
    assert_eq!(last - first, LIVE - 1);
    // And there is room to work.
    let (mut head, mut tail) = (first, last + 1);
    for _ in 0..200 {
        insert_and_delete(&mut w, (&mut head, &mut tail), 256);
        store.tick();
    }
    assert!(store.used_bytes() < BUDGET / 2, "{} bytes for {LIVE} rows", store.used_bytes());
}

#[test]
fn a_store_that_was_killed_opens_within_its_budget() {
    for (streams, log_bytes) in [(1, 200 << 20), (2, 100 << 20)] {
        let files = world::memory();
        drop(filled(files.clone(), streams, log_bytes));
        let (store, found) =
            open_within(files, streams, 1 << 30).unwrap_or_else(|e| panic!("{streams} streams: {e}"));
        assert!(found.replayed.log_bytes >= log_bytes - (1 << 20), "{:?}", found.replayed);
        check(&store);
    }
}

#[test]
fn a_store_that_was_closed_opens_within_its_budget_and_reads_its_rows_only() {
    let files = world::memory();
    let store = filled(files.clone(), 1, 100 << 20);
    store.wind_up().unwrap();
    drop(store);
    let (store, found) = open_within(files, 1, 1 << 30).unwrap();
    // Of the log the last file is left. None of its records counts.
    let Replayed { rows, writes, log_bytes, .. } = found.replayed;
    assert!((rows, writes) == (LIVE, 0) && log_bytes < 64 << 20, "{:?}", found.replayed);
    check(&store);
}

#[test]
fn an_end_writes_no_checkpoint_that_is_larger_than_the_log() {
    let files = world::memory();
    let (store, _) = open_within(files.clone(), 1, 1 << 30).unwrap();
    store.create(T).unwrap();
    let mut w = store.worker(0).unwrap();
    put(&mut w, b"a", b"1");
    drop(w);
    store.wind_up().unwrap();
    drop(store);
    let (_, found) = open_within(files, 1, 1 << 30).unwrap();
    assert_eq!((found.replayed.rows, found.replayed.writes), (0, 1));
}

/// A deletion and older records of the row, by workers with records in different streams, and by
/// transactions that are prepared in one life and decided in the next one.
#[test]
fn what_is_deleted_stays_deleted_whatever_stream_says_it() {
    for decided_in_next_life in [false, true] {
        let files = world::memory();
        let log = || LogOptions { streams: 2, segment_bytes: 1 << 14, ..LogOptions::new(Durability::Sync) };
        let open = || open_with(files.clone(), log()).unwrap();
        let (mut store, _) = open();
        let mut keys = Vec::new();
        for round in 0..40u32 {
            let mut one = store.worker(0).unwrap();
            let mut two = store.worker(1).unwrap();
            let key = round.to_be_bytes();
            put(&mut one, &key, &[1; 300]);
            put(&mut two, &key, &[2; 300]);
            // Prepared by one worker, decided much later.
            let mut txn = one.begin();
            assert!(one.update(&mut txn, T, &key, |row| row[0] = 3).unwrap().is_some());
            one.pre_commit(&mut txn, Scope::Distributed).unwrap();
            let epoch = one.prepare(&mut txn, b"note").unwrap();
            store.wait_durable(epoch).unwrap();
            if decided_in_next_life && round % 8 == 0 {
                drop((one, two));
                std::mem::forget(txn);
                drop(store);
                let (again, found) = open();
                store = again;
                (one, two) = (store.worker(0).unwrap(), store.worker(1).unwrap());
                for doubt in found.in_doubt {
                    let txn = two.adopt(doubt).map_err(|(refused, _)| refused).unwrap();
                    two.post_commit(txn);
                }
            } else {
                one.post_commit(txn);
            }
            put(&mut two, &key, &[4; 300]);
            if round % 3 != 0 {
                let gone = delete(if round % 2 == 0 { &mut one } else { &mut two }, &key);
                store.wait_durable(gone.epoch).unwrap();
            } else {
                keys.push(key.to_vec());
            }
            store.tick();
        }
        store.write_out().unwrap();
        drop(store);
        let (store, found) = open_with(files.clone(), log()).unwrap();
        assert!(found.in_doubt.is_empty());
        let all = rows(&mut store.worker(0).unwrap());
        assert_eq!(all.keys().cloned().collect::<Vec<_>>(), keys);
        assert!(all.values().all(|row| row[..] == [4; 300]));
    }
}

/// Memory that an opening used for rows that are gone is given back.
#[test]
fn what_a_restart_has_used_for_rows_that_are_gone_is_given_back() {
    let disk = Disk::new();
    let (store, _) = open(&disk);
    let mut w = store.worker(0).unwrap();
    for n in 0..2_000u32 {
        put(&mut w, &n.to_be_bytes(), &[5; 200]);
    }
    let gone = (0..2_000u32).map(|n| delete(&mut w, &n.to_be_bytes())).last().unwrap();
    store.wait_durable(gone.epoch).unwrap();
    drop((w, store));
    assert!(rows_of(&disk).is_empty());
    let (store, _) = open(&disk);
    let before = store.used_bytes();
    let mut w = store.worker(0).unwrap();
    for n in 0..1_500u32 {
        put(&mut w, &n.to_be_bytes(), &[5; 200]);
    }
    let grown = store.used_bytes() - before;
    assert!(grown < 1500 * 200, "{grown} bytes more");
}
