//! The log has only the bytes of a row that changed. They come back with any events between two
//! changes. A change without the version that it was made from is reported. Log files that are used
//! again show nothing of their former contents.

use crate::durable_tests::{
    Rows, T, delete, fault, log_files, log_options, of, open, open_with, put, rows, rows_of,
};
use crate::{Durability, LogOptions, Worker};
use world::sim::Disk;

/// Adds one to the counter at the front of a row of 100 bytes. One byte changes.
fn count(w: &mut Worker, t: &mut crate::Txn, key: &[u8]) -> u64 {
    let add = |row: &mut Vec<u8>| {
        let next = u64::from_le_bytes(row[8..16].try_into().unwrap()) + 1;
        row[8..16].copy_from_slice(&next.to_le_bytes());
        (next, 8..16)
    };
    w.update_within(t, T, key, add).unwrap().expect("a row that was put there")
}

/// Two workers in turn change rows in part, so that the changes of one row lie in two buffers. Some
/// versions in between are whole, prepared, deleted or in a checkpoint.
#[test]
fn changes_of_a_row_come_back_in_their_order_whatever_lies_between_them() {
    let disk = Disk::new();
    let mut random = fastrand::Rng::with_seed(11);
    let mut expected = Rows::new();
    for life in 0..4 {
        let log = LogOptions { threads: 1 + life, ..log_options(Durability::Sync) };
        let (store, _) = open_with(disk.files(), log).unwrap();
        let mut workers = [store.worker(0).unwrap(), store.worker(1).unwrap()];
        assert_eq!(rows(&mut workers[0]), expected, "life {life}");
        for n in 0..1200 {
            let w = &mut workers[n % 2];
            let key = [random.u8(0..20)];
            let Some(row) = expected.get_mut(&key[..]) else {
                put(w, &key, &[n as u8; 100]);
                expected.insert(key.to_vec(), vec![n as u8; 100]);
                continue;
            };
            let add = |row: &mut Vec<u8>, n: u64| row[8..16].copy_from_slice(&n.to_le_bytes());
            match random.u8(0..40) {
                0 => {
                    delete(w, &key);
                    expected.remove(&key[..]);
                }
                1 => {
                    row.resize(random.usize(16..200), 3);
                    put(w, &key, row);
                }
                2..6 => {
                    let mut t = w.begin();
                    add(row, count(w, &mut t, &key));
                    let vote = w.prepare(&mut t, b"").unwrap();
                    store.wait_durable(vote).unwrap();
                    w.post_commit(t);
                }
                _ => {
                    let mut t = w.begin();
                    add(row, count(w, &mut t, &key));
                    w.commit(t).map_err(|(refused, _)| refused).unwrap();
                }
            }
            if n == 700 && life > 0 {
                store.checkpoint().unwrap();
            }
        }
        let last = put(&mut workers[0], b"end", b"");
        expected.insert(b"end".to_vec(), Vec::new());
        store.wait_durable(last.epoch).unwrap();
        assert_eq!(rows_of(&disk.crash_image(life as u64)), expected, "life {life}");
    }
}

/// The in-doubt transaction gets another id when it is adopted, and the next write is a change of
/// the version with that id.
#[test]
fn what_changes_a_row_that_was_in_doubt_is_repeated_after_it() {
    let disk = Disk::new();
    let (store, _) = open(&disk);
    let mut w = store.worker(0).unwrap();
    put(&mut w, b"a", &[0; 100]);
    let mut t = w.begin();
    assert_eq!(count(&mut w, &mut t, b"a"), 1);
    let vote = w.prepare(&mut t, b"who").unwrap();
    store.wait_durable(vote).unwrap();
    let image = disk.crash_image(1);
    let (store, mut recovered) = open(&image);
    let mut w = store.worker(0).unwrap();
    let t = w.adopt(recovered.in_doubt.pop().unwrap()).map_err(|(refused, _)| refused).unwrap();
    w.post_commit(t);
    let mut t = w.begin();
    assert_eq!(count(&mut w, &mut t, b"a"), 2);
    let done = w.commit(t).map_err(|(refused, _)| refused).unwrap();
    store.wait_durable(done.epoch).unwrap();
    let mut row = vec![0; 100];
    row[8] = 2;
    assert_eq!(rows_of(&image.crash_image(2)), of(&[(b"a", &row)]));
}

#[test]
fn a_change_takes_less_log_than_the_row() {
    let disk = Disk::new();
    let (store, _) = open(&disk);
    let mut w = store.worker(0).unwrap();
    let done = put(&mut w, b"a", &[0; 100]);
    store.wait_durable(done.epoch).unwrap();
    let before = store.log_stats().bytes;
    let mut t = w.begin();
    count(&mut w, &mut t, b"a");
    let done = w.commit(t).map_err(|(refused, _)| refused).unwrap();
    store.wait_durable(done.epoch).unwrap();
    // Two heads, a key, the version that it changes, the head of one run, and the byte that
    // changes.
    assert_eq!(store.log_stats().bytes - before, 13 + 8 + 1 + 8 + 4 + 1);
}

/// Without the record of the first change the second one has nothing to change.
#[test]
fn a_change_without_what_it_was_made_from_is_damage_and_is_told() {
    let disk = Disk::new();
    let (store, _) = open(&disk);
    let mut w = store.worker(0).unwrap();
    let done = put(&mut w, b"a", &[0; 100]);
    store.wait_durable(done.epoch).unwrap();
    store.seams.leave_out(Some(crate::seams::Step::LogCommit));
    let mut t = w.begin();
    count(&mut w, &mut t, b"a");
    w.commit(t).map_err(|(refused, _)| refused).unwrap();
    store.seams.leave_out(None);
    let mut t = w.begin();
    count(&mut w, &mut t, b"a");
    let done = w.commit(t).map_err(|(refused, _)| refused).unwrap();
    store.wait_durable(done.epoch).unwrap();
    let fault = fault(&disk.crash_image(1)).to_string();
    assert!(fault.contains("was made from"), "{fault}");
}

fn spares(disk: &Disk) -> usize {
    disk.paths().iter().filter(|(path, _)| path.to_string_lossy().contains("spare-")).count()
}

/// The former contents of a reused file neither end the log nor continue it, wherever the log is
/// cut.
#[test]
fn log_files_are_used_again_and_what_they_held_before_is_not_taken_for_log() {
    let disk = Disk::new();
    let (store, _) = open(&disk);
    let mut w = store.worker(0).unwrap();
    let mut fill = |rounds: u8, value: u8| {
        for n in 0..rounds {
            let done = put(&mut w, &[n % 40], &vec![value; 2000 + usize::from(n)]);
            store.wait_durable(done.epoch).unwrap();
        }
    };
    fill(200, 1);
    store.checkpoint().unwrap();
    let kept = spares(&disk);
    assert!(kept > 2, "a checkpoint leaves {kept} files");
    let before = log_files(&disk).len();
    fill(120, 2);
    assert!(spares(&disk) < kept && log_files(&disk).len() > before);
    let expected: Rows = (0..40u8).map(|n| (vec![n], vec![2; 2080 + usize::from(n)])).collect();
    assert_eq!(rows_of(&disk.crash_image(3)), expected);
    drop((w, store));
    assert_eq!((spares(&disk), rows_of(&disk)), (0, expected));
}
