//! A full device: changes are refused, nothing is lost, and all goes on once there is room.

use crate::durable_tests::{Rows, T, log_options, open_with, options, put, rows};
use crate::{Durability, LogOptions, Memstore, Options, Recovered, Refused, Scope, Worker};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use world::sim::Disk;

fn until(mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it takes for ever");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A new row; its epoch, or the refusal.
fn add(w: &mut Worker, key: &[u8], bytes: usize) -> Result<u64, Refused> {
    let mut t = w.begin();
    w.insert(&mut t, T, key, &vec![7; bytes]).unwrap();
    w.commit(t).map(|done| done.epoch).map_err(|(refused, _)| refused)
}

/// Adds rows until the device is full; their number.
fn fill(w: &mut Worker, begin: u32) -> u32 {
    for number in begin.. {
        match add(w, &number.to_be_bytes(), 200) {
            Ok(epoch) => w.store().wait_durable(epoch).unwrap(),
            Err(Refused::NoRoom) => return number - begin,
            Err(other) => panic!("{other}"),
        }
    }
    unreachable!()
}

const WORKERS: usize = 4;

fn open(disk: &Disk, log: LogOptions) -> (Arc<Memstore>, Recovered) {
    let options = Options { workers: WORKERS, ..options() };
    let (store, recovered) = Memstore::open_in(options, log, disk.files(), Path::new("/db")).unwrap();
    store.create(T).unwrap();
    (store, recovered)
}

/// Commits of one thread as fast as it can; the keys, and the last epoch.
fn race(w: &mut Worker, round: u64) -> (Vec<Vec<u8>>, u64) {
    let (mut keys, mut last) = (Vec::new(), 0);
    for number in 0u32.. {
        let key = [&[w.number as u8][..], &round.to_be_bytes(), &number.to_be_bytes()].concat();
        match add(w, &key, 100) {
            Ok(epoch) => {
                last = epoch;
                keys.push(key);
            }
            Err(refused) => {
                assert_eq!(refused, Refused::NoRoom);
                break;
            }
        }
    }
    (keys, last)
}

/// Everything that got a place in the log becomes durable while the device is full, decisions too.
#[test]
fn no_change_begins_without_room_for_its_end_however_fast_others_commit() {
    for round in 0..40 {
        let disk = Disk::new();
        let streams = 1 + (round % 3 == 2) as u16;
        let log = LogOptions { streams, ..log_options(Durability::Sync) };
        let (store, _) = open(&disk, log.clone());
        let mut workers: Vec<_> = (1..WORKERS).collect();
        let mut w = store.worker(0).unwrap();
        let mut prepared = w.begin();
        w.insert(&mut prepared, T, b"prepared", b"1").unwrap();
        let vote = w.prepare(&mut prepared, b"a note").unwrap();
        store.wait_durable(vote).unwrap();
        disk.set_capacity(Some(disk.used() + round % 4 * 40_000));
        let raced: Vec<_> = std::thread::scope(|scope| {
            let racing = workers.drain(..).map(|number| {
                let store = &store;
                scope.spawn(move || race(&mut store.worker(number).unwrap(), round))
            });
            let racing: Vec<_> = racing.collect();
            racing.into_iter().map(|raced| raced.join().unwrap()).collect()
        });
        let last = raced.iter().map(|(_, last)| *last).max().unwrap();
        store.wait_durable(last).unwrap();
        let decided = w.post_commit(prepared);
        store.wait_durable(decided.epoch).unwrap();
        assert!(store.log_fault().is_none() && store.log_refused().unwrap().is_want_of_room());
        let mut expected: Vec<_> = raced.into_iter().flat_map(|(keys, _)| keys).collect();
        expected.push(b"prepared".to_vec());
        expected.sort_unstable();
        assert!(rows(&mut w).keys().eq(&expected), "{round}: reads go on");
        let (cut, _) = open(&disk.crash_image(round), log.clone());
        assert!(rows(&mut cut.worker(0).unwrap()).keys().eq(&expected), "{round}");
        disk.set_capacity(None);
        until(|| add(&mut w, b"room", 1).is_ok());
        expected.push(b"room".to_vec());
        for number in 0u32..300 {
            let key = number.to_be_bytes().to_vec();
            let epoch = add(&mut w, &key, 200).unwrap();
            store.wait_durable(epoch).unwrap();
            expected.push(key);
        }
        expected.sort_unstable();
        let (cut, _) = open(&disk.crash_image(round), log);
        assert!(rows(&mut cut.worker(0).unwrap()).keys().eq(&expected), "{round}");
        assert!(store.log_fault().is_none());
    }
}

/// A transaction with more changes than a file has room for waits, and others with it. Nothing is
/// acknowledged that the device does not have.
#[test]
fn a_block_without_a_place_waits_for_room() {
    let disk = Disk::new();
    let (store, _) = open_with(disk.files(), log_options(Durability::Sync)).unwrap();
    let mut w = store.worker(0).unwrap();
    disk.set_capacity(Some(disk.used()));
    let mut t = w.begin();
    for number in 0..8u8 {
        w.insert(&mut t, T, &[number], &[1; 20_000]).unwrap();
    }
    let long = w.commit(t).map_err(|(refused, _)| refused).unwrap().epoch;
    let mut others = 0u32;
    let mut another = || {
        let added = add(&mut w, &others.to_be_bytes(), 1);
        others += u32::from(added.is_ok());
        added
    };
    until(|| another() == Err(Refused::NoRoom));
    assert!(store.durable_epoch() < long);
    assert!(store.write_out().unwrap_err().is_want_of_room());
    assert!(store.checkpoint().unwrap_err().is_want_of_room());
    assert!(store.log_fault().is_none());
    let (cut, _) = open_with(disk.crash_image(1).files(), log_options(Durability::Sync)).unwrap();
    assert_eq!(rows(&mut cut.worker(0).unwrap()), Rows::new());
    disk.set_capacity(None);
    store.wait_durable(long).unwrap();
    until(|| another().is_ok());
    store.write_out().unwrap();
    let (cut, _) = open_with(disk.crash_image(1).files(), log_options(Durability::Sync)).unwrap();
    assert_eq!(rows(&mut cut.worker(0).unwrap()).len(), 8 + others as usize);
}

/// It says so when it is closed; the next opening has all that was acknowledged.
#[test]
fn a_log_that_is_closed_with_a_block_without_a_place_tells_it() {
    let disk = Disk::new();
    let (store, _) = open_with(disk.files(), log_options(Durability::Sync)).unwrap();
    let mut w = store.worker(0).unwrap();
    let acknowledged = put(&mut w, b"a", b"1").epoch;
    store.wait_durable(acknowledged).unwrap();
    disk.set_capacity(Some(disk.used()));
    add(&mut w, b"long", 100_000).unwrap();
    assert!(store.wind_up().unwrap_err().is_want_of_room());
    drop((w, store));
    disk.set_capacity(None);
    let (store, _) = open_with(disk.files(), log_options(Durability::Sync)).unwrap();
    assert_eq!(rows(&mut store.worker(0).unwrap()).len(), 1);
}

#[test]
fn a_checkpoint_without_room_leaves_nothing_and_is_due_again() {
    let disk = Disk::new();
    let log = LogOptions { checkpoint_bytes: 1 << 13, ..log_options(Durability::Sync) };
    let (store, _) = open_with(disk.files(), log.clone()).unwrap();
    let mut w = store.worker(0).unwrap();
    for number in 0u32..100 {
        let epoch = add(&mut w, &number.to_be_bytes(), 300).unwrap();
        store.wait_durable(epoch).unwrap();
    }
    store.checkpoint().unwrap();
    for number in 100u32..200 {
        add(&mut w, &number.to_be_bytes(), 300).unwrap();
    }
    store.write_out().unwrap();
    let files = || -> Vec<_> {
        let paths = disk.paths().into_iter().map(|(path, _)| path);
        paths.filter(|path| path.to_string_lossy().contains("checkpoint-")).collect()
    };
    let before = files();
    for spare in [0, 5_000, 10_000, 40_000] {
        disk.set_capacity(Some(disk.used() + spare));
        until(|| store.checkpoint_due());
        assert!(store.checkpoint().unwrap_err().is_want_of_room(), "{spare}");
        assert_eq!(files(), before, "{spare}");
        assert!(!store.checkpoint_due(), "{spare}: it pauses");
        let (cut, recovered) = open_with(disk.crash_image(spare).files(), log.clone()).unwrap();
        assert_eq!(rows(&mut cut.worker(0).unwrap()).len(), 200, "{spare}");
        assert_eq!(recovered.replayed.rows, 100, "{spare}: the one before is valid");
    }
    disk.set_capacity(None);
    until(|| store.checkpoint_due());
    store.checkpoint().unwrap();
    assert_ne!(files(), before);
    let (_, recovered) = open_with(disk.crash_image(1).files(), log).unwrap();
    assert_eq!(recovered.replayed.rows, 200);
}

/// An abort that the caller decides on is confirmed on a full device too, and logs nothing.
#[test]
fn an_abort_needs_no_room() {
    let disk = Disk::new();
    let (store, _) = open_with(disk.files(), log_options(Durability::Sync)).unwrap();
    let mut w = store.worker(0).unwrap();
    disk.set_capacity(Some(disk.used()));
    fill(&mut w, 0);
    let mut t = w.begin();
    w.insert(&mut t, T, b"not", b"1").unwrap();
    assert_eq!(w.pre_commit(&mut t, Scope::Distributed), Err(Refused::NoRoom));
    assert_eq!(w.confirm(&mut t, Scope::Local), Ok(()));
    w.abort(t);
    let mut t = w.begin();
    assert_eq!(w.read(&mut t, T, b"not", |_| ()), Ok(None));
    w.commit(t).map_err(|(refused, _)| refused).unwrap();
}
