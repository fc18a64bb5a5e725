//! The data that a store keeps, and the reports about files that are damaged.

use crate::Scope;
use crate::{
    Committed, Durability, FlushBy, LogFault, LogOptions, Memstore, OpenError, Options, Recovered, Refused,
    Worker,
};
use base::TableId;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use txn::{Direction, Flow, Range};
use world::sim::{Disk, Lasts, Operation, Plan, Trouble};
use world::{Files, Open};

pub(crate) const T: TableId = TableId(1);
const DIR: &str = "/db";

pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) fn options() -> Options {
    Options { pages: world::PageSize::Normal, tables: 8, ..Options::new(4 << 20, 2) }
}

pub(crate) fn log_options(durability: Durability) -> LogOptions {
    LogOptions { segment_bytes: 1 << 16, ..LogOptions::new(durability) }
}

pub(crate) fn open_with(
    files: Arc<dyn Files>,
    log: LogOptions,
) -> Result<(Arc<Memstore>, Recovered), OpenError> {
    let (store, recovered) = Memstore::open_in(options(), log, files, Path::new(DIR))?;
    store.create(T)?;
    Ok((store, recovered))
}

pub(crate) fn open(disk: &Disk) -> (Arc<Memstore>, Recovered) {
    open_with(disk.files(), log_options(Durability::Sync)).unwrap()
}

pub(crate) fn fault(disk: &Disk) -> LogFault {
    match open_with(disk.files(), log_options(Durability::Sync)) {
        Err(OpenError::Log(fault)) => fault,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it opened"),
    }
}

pub(crate) fn put(w: &mut Worker, key: &[u8], value: &[u8]) -> Committed {
    let mut t = w.begin();
    let is_there = w.update(&mut t, T, key, |row| {
        row.clear();
        row.extend_from_slice(value);
    });
    if is_there.unwrap().is_none() {
        w.insert(&mut t, T, key, value).unwrap();
    }
    w.commit(t).map_err(|(refused, _)| refused).unwrap()
}

pub(crate) fn delete(w: &mut Worker, key: &[u8]) -> Committed {
    let mut t = w.begin();
    assert!(w.delete(&mut t, T, key).unwrap());
    w.commit(t).map_err(|(refused, _)| refused).unwrap()
}

pub(crate) fn rows(w: &mut Worker) -> Rows {
    let (mut t, mut rows) = (w.begin(), Rows::new());
    let all = w.scan(&mut t, T, Range::ALL, Direction::Forward, |key, row| {
        rows.insert(key.to_vec(), row.to_vec());
        Flow::More
    });
    all.unwrap();
    w.abort(t);
    rows
}

pub(crate) fn rows_of(disk: &Disk) -> Rows {
    let (store, _) = open(disk);
    rows(&mut store.worker(0).unwrap())
}

pub(crate) fn of(pairs: &[(&[u8], &[u8])]) -> Rows {
    pairs.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

#[test]
fn what_was_committed_is_there_again() {
    let disk = Disk::new();
    let (store, recovered) = open(&disk);
    assert!(recovered.schema.is_none() && recovered.tables.is_empty());
    store.define(b"a schema", &[TableId(3)]).unwrap();
    let mut w = store.worker(0).unwrap();
    let long = vec![7; 5000];
    put(&mut w, b"a", b"1");
    put(&mut w, b"b", b"2");
    put(&mut w, b"a", &long);
    let last = delete(&mut w, b"b");
    store.wait_durable(last.epoch).unwrap();
    assert!(store.durable_epoch() >= last.epoch);
    let cut = disk.crash_image(1);
    drop((w, store));
    for disk in [cut, disk] {
        let (store, recovered) = open(&disk);
        assert_eq!(recovered.schema.as_deref(), Some(&b"a schema"[..]));
        assert_eq!(recovered.tables, [T, TableId(3)]);
        assert!(recovered.replayed.log_bytes > 5000 && recovered.replayed.writes >= 2);
        assert_eq!(rows(&mut store.worker(0).unwrap()), of(&[(b"a", &long)]));
    }
}

pub(crate) fn log_files(disk: &Disk) -> Vec<PathBuf> {
    let paths = disk.paths().into_iter().map(|(path, _)| path);
    paths.filter(|path| path.to_string_lossy().contains("log-")).collect()
}

#[test]
fn lives_follow_one_another_and_checkpoints_shorten_the_log() {
    let disk = Disk::new();
    let mut expected = Rows::new();
    let mut random = fastrand::Rng::with_seed(3);
    for life in 0..6u8 {
        let (store, recovered) = open(&disk);
        let mut w = store.worker(usize::from(life % 2)).unwrap();
        assert_eq!(rows(&mut w), expected, "life {life}");
        assert_eq!(recovered.replayed.checkpoint_bytes > 0, life > 2, "life {life}");
        for n in 0..300 {
            let key = random.u16(0..400).to_be_bytes();
            if random.u8(0..4) == 0 && expected.remove(&key[..]).is_some() {
                delete(&mut w, &key);
            } else {
                let value = vec![random.u8(..); random.usize(0..300)];
                put(&mut w, &key, &value);
                expected.insert(key.to_vec(), value);
            }
            if life >= 2 && n == 150 {
                let before = log_files(&disk).len();
                store.checkpoint().unwrap();
                assert!(life > 2 || log_files(&disk).len() < before, "no log file has gone");
            }
        }
        if life % 2 == 0 {
            let last = put(&mut w, b"end", b"");
            expected.insert(b"end".to_vec(), Vec::new());
            store.wait_durable(last.epoch).unwrap();
        }
    }
    assert_eq!(rows_of(&disk), expected);
}

/// A record that comes while a block is being made is in that block, but belongs to an epoch that
/// only the next block completes.
#[test]
fn a_store_that_is_closed_keeps_everything() {
    let disk = Disk::new();
    let log = LogOptions { leisure: std::time::Duration::from_micros(20), ..log_options(Durability::Sync) };
    let mut expected = Rows::new();
    for life in 0..30u8 {
        let (store, _) = open_with(disk.files(), log.clone()).unwrap();
        let mut w = store.worker(0).unwrap();
        assert_eq!(rows(&mut w), expected, "life {life}");
        for n in 0..100u8 {
            put(&mut w, &[n], &[life; 200]);
            expected.insert(vec![n], vec![life; 200]);
        }
    }
}

#[test]
fn several_streams_make_one_store() {
    let disk = Disk::new();
    let log = LogOptions { streams: 2, ..log_options(Durability::Sync) };
    let mut expected = Rows::new();
    for life in 0..3u8 {
        let (store, _) = open_with(disk.files(), log.clone()).unwrap();
        let mut workers = [store.worker(0).unwrap(), store.worker(1).unwrap()];
        assert_eq!(rows(&mut workers[0]), expected);
        for n in 0..200u8 {
            let done = put(&mut workers[usize::from(n) % 2], &[n % 50], &[life, n]);
            expected.insert(vec![n % 50], vec![life, n]);
            if n == 199 {
                store.wait_durable(done.epoch).unwrap();
            }
        }
    }
    let heads = log_files(&disk).into_iter().map(|path| disk.bytes(&path).unwrap()[28..32].to_vec());
    assert_eq!(heads.collect::<std::collections::BTreeSet<_>>().len(), 2, "both streams have files");
}

#[test]
fn on_the_systems_own_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut expected = Rows::new();
    for durability in [Durability::Sync, Durability::Async, Durability::Sync] {
        let log = log_options(durability);
        let (store, _) = Memstore::open_in(options(), log, world::real(), folder.path()).unwrap();
        store.create(T).unwrap();
        let mut w = store.worker(0).unwrap();
        assert_eq!(rows(&mut w), expected, "{durability:?}");
        for n in 0..100u8 {
            let value = vec![n; 40 * usize::from(n)];
            let done = put(&mut w, &[n % 30], &value);
            expected.insert(vec![n % 30], value);
            if n % 10 == 9 {
                store.wait_durable(done.epoch).unwrap();
            }
            if n == 50 {
                store.checkpoint().unwrap();
            }
        }
    }
}

/// Polls once.
fn poll(store: &Memstore, epoch: u64, flush_by: FlushBy) -> Poll<Result<(), LogFault>> {
    store.poll_durable(epoch, flush_by, &mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_worker_that_is_alone_flushes_by_itself() {
    let disk = Disk::new();
    let log = LogOptions { leisure: std::time::Duration::from_secs(60), ..log_options(Durability::Sync) };
    let (store, _) = open_with(disk.files(), log).unwrap();
    let mut w = store.worker(0).unwrap();
    let mut by_others = 0;
    for n in 0..10 {
        let done = put(&mut w, b"a", &[n]);
        let syncs = store.log_stats().fsyncs;
        let mut is_ready = poll(&store, done.epoch, FlushBy::Caller).is_ready();
        if !is_ready {
            store.flush_here();
            is_ready = poll(&store, done.epoch, FlushBy::Caller).is_ready();
        }
        // A flusher that only starts now looks once, and may do the flush.
        if !is_ready || store.log_stats().fsyncs != syncs + 1 {
            by_others += 1;
            store.wait_durable(done.epoch).unwrap();
        }
        // A transaction that reads the row now has nothing to wait for.
        let mut t = w.begin();
        assert_eq!(w.read(&mut t, T, b"a", |row| row[0]), Ok(Some(n)));
        let read = w.commit(t).map_err(|(refused, _)| refused).unwrap();
        assert_eq!(read.epoch, done.epoch);
        assert!(poll(&store, read.epoch, FlushBy::Caller).is_ready());
    }
    assert!(by_others <= 2, "{by_others} flushes were left to the two flushers");
}

#[test]
fn who_read_what_is_not_durable_waits_for_it() {
    let disk = Disk::new();
    let (store, _) = open(&disk);
    let (mut w, mut other) = (store.worker(0).unwrap(), store.worker(1).unwrap());
    put(&mut w, b"a", b"1");
    let mut prepared = w.begin();
    w.update(&mut prepared, T, b"a", |row| row[0] = b'2').unwrap();
    w.pre_commit(&mut prepared, Scope::Distributed).unwrap();
    store.wait_durable(store.tick() - 1).unwrap();
    // Its id is of a durable epoch, but it is not durable itself.
    let done = w.post_commit(prepared);
    assert!(done.tid.epoch() <= store.durable_epoch() && done.epoch > done.tid.epoch());
    let mut t = other.begin();
    assert_eq!(other.read(&mut t, T, b"a", |row| row[0]), Ok(Some(b'2')));
    let read = other.commit(t).map_err(|(refused, _)| refused).unwrap();
    assert!(read.epoch >= done.epoch);
    store.wait_durable(read.epoch).unwrap();
    assert_eq!(rows_of(&disk.crash_image(1)), of(&[(b"a", b"2")]));
}

#[test]
fn who_found_no_row_waits_for_its_deletion() {
    let disk = Disk::new();
    let log = LogOptions { leisure: std::time::Duration::from_secs(60), ..log_options(Durability::Sync) };
    let (store, _) = open_with(disk.files(), log).unwrap();
    let (mut w, mut other) = (store.worker(0).unwrap(), store.worker(1).unwrap());
    let done = put(&mut w, b"a", b"1");
    store.wait_durable(done.epoch).unwrap();
    let gone = delete(&mut w, b"a");
    w.collect(100);
    let find = |w: &mut Worker| {
        let mut t = w.begin();
        assert_eq!(w.read(&mut t, T, b"a", |_| ()), Ok(None));
        w.commit(t).map_err(|(refused, _)| refused).unwrap().epoch
    };
    assert_eq!(find(&mut other), gone.epoch);
    store.wait_durable(gone.epoch).unwrap();
    w.collect(100);
    assert!(find(&mut other) <= gone.epoch);
    assert_eq!(w.find(T, b"a"), Ok(false), "then it goes");
}

#[test]
fn what_is_prepared_goes_either_way_over_a_crash() {
    for decision in 0..4 {
        let disk = Disk::new();
        let (store, _) = open(&disk);
        let mut w = store.worker(0).unwrap();
        put(&mut w, b"a", b"1");
        put(&mut w, b"b", b"1");
        let mut t = w.begin();
        w.update(&mut t, T, b"a", |row| row[0] = b'2').unwrap();
        w.delete(&mut t, T, b"b").unwrap();
        w.insert(&mut t, T, b"c", &[3; 3000]).unwrap();
        let vote = w.prepare(&mut t, b"who").unwrap();
        store.wait_durable(vote).unwrap();
        if decision == 3 {
            store.checkpoint().unwrap();
        }
        let image = disk.crash_image(decision);
        let (store, mut recovered) = open(&image);
        let (mut w, mut other) = (store.worker(0).unwrap(), store.worker(1).unwrap());
        let doubt = recovered.in_doubt.pop().expect("it is in doubt");
        assert_eq!(doubt.note, b"who");
        let mut read = other.begin();
        assert!(
            matches!(other.read(&mut read, T, b"a", |_| ()), Err(Refused::Conflict(_))),
            "its rows are locked"
        );
        other.abort(read);
        let (before, after) = (of(&[(b"a", b"1"), (b"b", b"1")]), of(&[(b"a", b"2"), (b"c", &[3; 3000])]));
        let expected = match decision {
            0 => {
                let t = w.adopt(doubt).map_err(|(refused, _)| refused).unwrap();
                let done = w.post_commit(t);
                store.wait_durable(done.epoch).unwrap();
                after
            }
            1 => {
                let t = w.adopt(doubt).map_err(|(refused, _)| refused).unwrap();
                w.abort(t);
                assert_eq!(rows(&mut w), before);
                store.wait_durable(store.tick() - 1).unwrap();
                before
            }
            // Undecided over another crash, and then committed.
            _ => {
                drop((doubt, w, other, store));
                let (store, mut recovered) = open(&image);
                let mut w = store.worker(1).unwrap();
                let doubt = recovered.in_doubt.pop().expect("it still is");
                let t = w.adopt(doubt).map_err(|(refused, _)| refused).unwrap();
                store.checkpoint().unwrap();
                let done = w.post_commit(t);
                store.wait_durable(done.epoch).unwrap();
                assert_eq!(rows(&mut w), after);
                after
            }
        };
        let image = image.crash_image(7);
        let (store, recovered) = open(&image);
        assert!(recovered.in_doubt.is_empty());
        assert_eq!(rows(&mut store.worker(0).unwrap()), expected, "decision {decision}");
    }
}

#[test]
fn notes_are_handed_out_until_they_are_forgotten() {
    let disk = Disk::new();
    let (store, _) = open(&disk);
    let mut w = store.worker(0).unwrap();
    let t = w.begin();
    let (_, first) = w.commit_with_note(t, b"only read").map_err(|(refused, _)| refused).unwrap();
    let mut t = w.begin();
    w.insert(&mut t, T, b"a", b"1").unwrap();
    w.pre_commit(&mut t, Scope::Distributed).unwrap();
    store.tick();
    let (_, second) = w.post_commit_with_note(t, b"wrote");
    w.forget(first);
    let (epoch, third) = w.note(b"alone");
    store.wait_durable(epoch).unwrap();
    for round in 0..3 {
        let image = disk.crash_image(round);
        let (store, recovered) = open(&image);
        let expected = [(second, b"wrote".to_vec()), (third, b"alone".to_vec())];
        assert_eq!(recovered.notes, expected, "round {round}");
        let mut w = store.worker(0).unwrap();
        assert_eq!(rows(&mut w), of(&[(b"a", b"1")]));
        if round == 1 {
            store.checkpoint().unwrap();
        }
        w.forget(third);
        store.wait_durable(store.tick() - 1).unwrap();
        let (_, recovered) = open(&image.crash_image(9));
        assert_eq!(recovered.notes, expected[..1]);
    }
}

#[test]
fn appended_rows_go_on_where_an_earlier_life_ended() {
    let disk = Disk::new();
    for life in 0..3u8 {
        let (store, _) = open(&disk);
        let mut w = store.worker(0).unwrap();
        assert_eq!(rows(&mut w).len(), usize::from(life) * 20);
        for n in 0..20 {
            let mut t = w.begin();
            w.append(&mut t, T, &[life, n]).unwrap();
            w.commit(t).map_err(|(refused, _)| refused).unwrap();
        }
    }
    let all: Vec<Vec<u8>> = rows_of(&disk).into_values().collect();
    assert!(all.is_sorted() && all.len() == 60);
}

#[test]
fn a_device_that_fails_ends_commits_and_nothing_else() {
    for operation in [Operation::Sync, Operation::Write] {
        let disk = Disk::new();
        let (store, _) = open(&disk);
        let mut w = store.worker(0).unwrap();
        let safe = put(&mut w, b"a", b"1");
        store.wait_durable(safe.epoch).unwrap();
        // Before the commit: a flusher may take the records at any moment after it.
        let at = disk.operations() + 1;
        disk.plan(Plan { trouble: Trouble::Error, lasts: Lasts::Forever, at, only: Some(operation) });
        let lost = put(&mut w, b"b", b"2");
        assert!(store.wait_durable(lost.epoch).is_err());
        assert!(matches!(poll(&store, safe.epoch, FlushBy::Flusher), Poll::Ready(Ok(()))));
        let mut t = w.begin();
        assert_eq!(w.read(&mut t, T, b"b", |row| row[0]), Ok(Some(b'2')), "reads go on");
        let read = w.commit(t).map_err(|(refused, _)| refused).unwrap();
        assert!(store.wait_durable(read.epoch).is_err(), "but nobody is told what is not durable");
        let mut t = w.begin();
        w.update(&mut t, T, b"a", |row| row[0] = 0).unwrap();
        let refused = w.commit(t).map(drop).map_err(|(refused, _)| refused);
        assert_eq!(refused, Err(Refused::LogFailed));
        assert!(store.log_fault().is_some() && store.checkpoint().is_err());
        disk.heal();
        let image = disk.crash_image(1);
        let found = rows_of(&image);
        assert_eq!(found.get(&b"a"[..]), Some(&b"1".to_vec()));
    }
}

/// After a failed sync the system may take pages for written that it has dropped. The next process
/// on the same system finds the data in the cache and counts them. Another sync would bring nothing
/// to the device, so the data have to be written again.
#[test]
fn what_a_failed_sync_left_with_the_system_is_written_again() {
    // The file is long enough that the next one is not made here: its sync would be the one that
    // fails.
    let log = LogOptions { segment_bytes: 1 << 20, ..log_options(Durability::Sync) };
    // The part that has reached the device is drawn at random, with another result after each
    // number of commits.
    for before in 1..12 {
        let disk = Disk::new();
        let (store, _) = open_with(disk.files(), log.clone()).unwrap();
        let mut w = store.worker(0).unwrap();
        for n in 0..before {
            let safe = put(&mut w, b"a", &[n]);
            store.wait_durable(safe.epoch).unwrap();
        }
        // Before the commit: a flusher may take the records at any moment after it.
        let at = disk.operations() + 1;
        disk.plan(Plan { trouble: Trouble::Error, lasts: Lasts::Once, at, only: Some(Operation::Sync) });
        let lost = put(&mut w, b"b", b"2");
        assert!(store.wait_durable(lost.epoch).is_err());
        drop((w, store));
        disk.heal();
        let found = rows_of(&disk);
        assert_eq!(found.get(&b"b"[..]), Some(&b"2".to_vec()), "the system still has it");
        assert_eq!(rows_of(&disk.crash_image(0)), found, "and from then on the device");
    }
}

/// A disk with a checkpoint and log files of two lives.
fn written() -> Disk {
    let disk = Disk::new();
    for life in 0..2u8 {
        let (store, _) = open(&disk);
        let mut w = store.worker(0).unwrap();
        for n in 0..200u8 {
            let done = put(&mut w, &[n], &[life; 400]);
            if n % 20 == 0 {
                store.wait_durable(done.epoch).unwrap();
            }
            if (life, n) == (0, 100) {
                store.checkpoint().unwrap();
            }
        }
    }
    disk
}

#[test]
fn missing_foreign_and_damaged_files_are_named() {
    let disk = written();
    let paths: Vec<_> = disk.paths().into_iter().filter(|(path, _)| !path.ends_with("lock")).collect();
    assert!(paths.iter().filter(|(path, _)| path.to_string_lossy().contains("checkpoint-")).count() >= 1);
    let (mut told, mut beyond) = (0, 0);
    for (path, len) in &paths {
        let gone = disk.killed();
        gone.files().remove(path).unwrap();
        let found = fault(&gone);
        assert!(matches!(&found, LogFault::Missing { file, .. } if file == path), "{found}");
        let other = Disk::new();
        drop(open(&other));
        let foreign = disk.killed();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("log-") {
            let (theirs, _) =
                other.paths().into_iter().find(|(p, _)| p.to_string_lossy().contains("log-")).unwrap();
            let file = foreign.files().open(path, Open::ReadWrite).unwrap();
            file.write_all_at(&other.bytes(&theirs).unwrap()[..4096], 0).unwrap();
            let found = fault(&foreign);
            assert!(matches!(&found, LogFault::Foreign { file, .. } if file == path), "{found}");
        }
        let mut random = fastrand::Rng::with_seed(*len);
        for _ in 0..12 {
            let flipped = disk.killed();
            let byte = random.u64(0..*len);
            flipped.flip(path, byte, random.u32(0..8));
            match open_with(flipped.files(), log_options(Durability::Sync)) {
                Err(OpenError::Log(
                    LogFault::Corrupt { file, .. }
                    | LogFault::Version { file, .. }
                    | LogFault::Foreign { file, .. },
                )) => {
                    assert_eq!(&file, path);
                    told += 1;
                }
                Err(other) => panic!("{other}"),
                // Padding, zeros behind the end, or the last block, which looks like a crash.
                Ok((store, _)) => {
                    let rows = rows(&mut store.worker(0).unwrap());
                    assert_eq!(rows.len(), 200);
                    beyond += 1;
                }
            }
        }
    }
    assert!(told > 20 && told + beyond == paths.len() * 12, "{told} told, {beyond} hit nothing");
    assert_eq!(rows_of(&disk).len(), 200);
}

#[test]
fn a_damaged_first_block_of_an_earlier_life_is_told() {
    let disk = Disk::new();
    for n in 0..2u8 {
        let (store, _) = open(&disk);
        let done = put(&mut store.worker(0).unwrap(), &[n], &[n; 100]);
        store.wait_durable(done.epoch).unwrap();
    }
    let path = log_files(&disk).remove(0);
    disk.flip(&path, 4096 + 70, 3);
    let found = fault(&disk);
    assert!(matches!(&found, LogFault::Corrupt { file, offset: 4096, .. } if *file == path), "{found}");
}

#[test]
fn opening_again_and_again_leaves_no_more_files_and_counts_the_log_there_is() {
    let disk = Disk::new();
    let log = LogOptions { checkpoint_bytes: 1000, ..log_options(Durability::Sync) };
    let (store, _) = open_with(disk.files(), log.clone()).unwrap();
    put(&mut store.worker(0).unwrap(), b"a", &[1; 2000]);
    drop(store);
    let count = (0..5).map(|_| {
        let (store, _) = open_with(disk.files(), log.clone()).unwrap();
        assert!(store.checkpoint_due());
        drop(store);
        disk.paths().len()
    });
    assert!(count.collect::<Vec<_>>().iter().all(|count| *count <= 4));
    let (store, _) = open_with(disk.files(), log).unwrap();
    store.checkpoint().unwrap();
    assert!(!store.checkpoint_due());
}

#[test]
fn a_store_in_use_and_options_that_cannot_work_are_refused() {
    let disk = Disk::new();
    let (store, _) = open(&disk);
    assert!(matches!(fault(&disk), LogFault::InUse { .. }));
    let mut w = store.worker(0).unwrap();
    for n in 0..200u8 {
        put(&mut w, &[n], &[n; 2000]);
    }
    drop((w, store));
    let small = Options { budget: 1 << 17, ..options() };
    let opened = Memstore::open_in(small, log_options(Durability::Sync), disk.files(), Path::new(DIR));
    assert!(matches!(opened.map(drop), Err(OpenError::TooSmall { bytes: 131_072 })));
    let few = Options { tables: 1, ..options() };
    let opened = Memstore::open_in(few, log_options(Durability::Sync), disk.files(), Path::new(DIR));
    assert!(matches!(opened.map(drop), Err(OpenError::Table(T))));
    for wrong in [
        LogOptions { streams: 0, ..log_options(Durability::Sync) },
        LogOptions { threads: 0, ..log_options(Durability::Sync) },
        LogOptions { segment_bytes: 100, ..log_options(Durability::Sync) },
    ] {
        assert!(matches!(
            open_with(disk.files(), wrong).map(drop),
            Err(OpenError::Log(LogFault::Options(_)))
        ));
    }
    assert_eq!(rows_of(&disk).len(), 200, "nothing was changed by openings that failed");
}

/// A transaction that reads a row, misses one, scans a range, and writes another row.
fn prepared_reader(w: &mut Worker) -> Box<crate::Txn> {
    for key in [b"a", b"c", b"e", b"w"] {
        put(w, key, b"1");
    }
    let mut t = w.begin();
    assert_eq!(w.read(&mut t, T, b"a", |_| ()), Ok(Some(())));
    assert_eq!(w.read(&mut t, T, b"m", |_| ()), Ok(None));
    let range = Range { low: Some(b"c"), high: Some(b"f") };
    let mut seen = 0;
    w.scan(&mut t, T, range, Direction::Forward, |_, _| {
        seen += 1;
        Flow::More
    })
    .unwrap();
    assert_eq!(seen, 2);
    w.update(&mut t, T, b"w", |row| row[0] = b'2').unwrap();
    t
}

/// Whether each of four changes is refused: of a row that was read, of a row in a range that was
/// read, an insert of a key that was missed, an insert into the range.
fn refused(w: &mut Worker) -> [bool; 4] {
    type Change = fn(&mut Worker, &mut crate::Txn) -> Result<(), Refused>;
    let changes: [Change; 4] = [
        |w, t| w.update(t, T, b"a", |row| row[0] = b'9').map(drop),
        |w, t| w.update(t, T, b"e", |row| row[0] = b'9').map(drop),
        |w, t| w.insert(t, T, b"m", b"9").map(drop),
        |w, t| w.insert(t, T, b"d", b"9").map(drop),
    ];
    changes.map(|change| {
        let mut t = w.begin();
        let done = change(w, &mut t).and_then(|()| w.pre_commit(&mut t, Scope::Local));
        w.abort(t);
        done.is_err()
    })
}

#[test]
fn what_a_prepared_transaction_has_read_stays_over_a_restart() {
    for (checkpoint, released) in [(false, false), (true, false), (false, true)] {
        let disk = Disk::new();
        let (store, _) = open(&disk);
        let mut w = store.worker(0).unwrap();
        let mut t = prepared_reader(&mut w);
        w.pre_commit(&mut t, Scope::Distributed).unwrap();
        if released {
            w.release_reads(&mut t);
        }
        let vote = w.prepare(&mut t, b"who").unwrap();
        store.wait_durable(vote).unwrap();
        if checkpoint {
            store.checkpoint().unwrap();
        }
        let expected = [!released; 4];
        assert_eq!(refused(&mut store.worker(1).unwrap()), expected);
        let image = disk.crash_image(3);
        // Twice: the second opening finds the files as the first one left them.
        drop(open(&image));
        let (store, mut recovered) = open(&image);
        let (mut w, mut other) = (store.worker(0).unwrap(), store.worker(1).unwrap());
        assert_eq!(refused(&mut other), expected, "checkpoint: {checkpoint}, released: {released}");
        let t = w.adopt(recovered.in_doubt.pop().unwrap()).map_err(|(refused, _)| refused).unwrap();
        assert_eq!(refused(&mut other), expected);
        w.abort(t);
        assert_eq!(refused(&mut other), [false; 4]);
    }
}

#[test]
fn what_is_asked_for_becomes_durable_and_what_is_written_out_is() {
    let disk = Disk::new();
    let log = LogOptions { leisure: std::time::Duration::from_secs(60), ..log_options(Durability::Async) };
    let (store, _) = open_with(disk.files(), log).unwrap();
    let mut w = store.worker(0).unwrap();
    let done = put(&mut w, b"a", b"1");
    while !store.ask_durable(done.epoch) {
        std::thread::yield_now();
    }
    put(&mut w, b"b", b"2");
    store.write_out().unwrap();
    assert_eq!(rows_of(&disk.crash_image(1)), of(&[(b"a", b"1"), (b"b", b"2")]));
    assert!(store.log_stats().records >= 2);
}

/// In mode `async` the operating system alone may have the log that a checkpoint has seen. If the
/// checkpoint counted then, a power cut would leave half a transaction.
#[test]
fn a_checkpoint_counts_only_once_the_device_has_the_log_that_it_may_have_seen() {
    use std::sync::Mutex;
    let disk = Disk::new();
    let deeds: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
    let told = deeds.clone();
    let files = world::watched(disk.files(), move |path, deed| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        told.lock().unwrap().push((name, matches!(deed, world::Deed::Sync)));
        world::Intervention::Do
    });
    // No sync comes by itself in the time that this takes.
    let (store, _) = open_with(files, log_options(Durability::Async)).unwrap();
    let mut w = store.worker(0).unwrap();
    let done = put(&mut w, b"a", b"1");
    store.wait_durable(done.epoch).unwrap();
    deeds.lock().unwrap().clear();
    let done = put(&mut w, b"b", b"2");
    store.wait_durable(done.epoch).unwrap();
    store.checkpoint().unwrap();
    let deeds = deeds.lock().unwrap();
    let control =
        deeds.iter().position(|(name, _)| name.starts_with("control")).expect("it was put in place");
    let log: Vec<bool> =
        deeds[..control].iter().filter(|(name, _)| name.starts_with("log-")).map(|(_, sync)| *sync).collect();
    assert_eq!(log.last(), Some(&true), "a sync behind the last write: {log:?}");
}
