//! Checkpoints during commits, power cuts and device failures.

use crate::durable_tests::{Rows, T, fault, log_files, log_options, open_with, put, rows};
use crate::{Durability, LogFault, LogOptions, Worker};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use world::Deed;
use world::sim::{Disk, Lasts, Operation, Plan, Trouble};

const LAST: u8 = 19;

/// Rows that fill several blocks of a part.
fn fill(w: &mut Worker) -> u64 {
    (0..=LAST).map(|key| put(w, &[key], &[1; 1000]).epoch).last().expect("rows")
}

/// Overwrites the first row and the last.
fn change_both(w: &mut Worker) {
    let mut t = w.begin();
    for key in [0, LAST] {
        assert_eq!(w.update(&mut t, T, &[key], |row| row.fill(2)), Ok(Some(())));
    }
    w.commit(t).map_err(|(refused, _)| refused).unwrap();
}

/// The transaction commits when the first row has been copied and the last has not.
#[test]
fn a_power_cut_after_a_checkpoint_in_async_leaves_no_half_of_a_transaction() {
    let disk = Disk::new();
    let (reached, at) = (Arc::new(Barrier::new(2)), AtomicBool::new(false));
    let met = Arc::clone(&reached);
    let files = world::watched(disk.files(), move |path, deed| {
        let is_part = path.to_string_lossy().contains("checkpoint-");
        if is_part && matches!(deed, Deed::Write { offset: 4096, .. }) && !at.swap(true, Ordering::Relaxed) {
            met.wait();
            met.wait();
        }
        world::Intervention::Do
    });
    let log = LogOptions { threads: 1, ..log_options(Durability::Async) };
    let (store, _) = open_with(files, log.clone()).unwrap();
    let mut w = store.worker(0).unwrap();
    fill(&mut w);
    let checkpoint = {
        let store = store.clone();
        std::thread::spawn(move || store.checkpoint())
    };
    reached.wait();
    change_both(&mut w);
    reached.wait();
    checkpoint.join().unwrap().unwrap();
    for seed in 0..8 {
        let image = disk.crash_image(seed);
        let (store, recovered) = open_with(image.files(), log.clone()).unwrap();
        assert_eq!(recovered.replayed.rows, u64::from(LAST) + 1, "the checkpoint counts");
        let rows = rows(&mut store.worker(0).unwrap());
        assert_eq!(rows[&vec![0]], rows[&vec![LAST]], "seed {seed}: half a transaction");
    }
}

#[test]
fn a_damaged_block_that_a_checkpoint_rests_on_is_told() {
    let disk = Disk::new();
    let (store, _) = open_with(disk.files(), log_options(Durability::Sync)).unwrap();
    let mut w = store.worker(0).unwrap();
    fill(&mut w);
    store.checkpoint().unwrap();
    let image = disk.crash_image(1);
    // The file after the last one with blocks may exist already.
    let last_block = |path: PathBuf| {
        let bytes = image.bytes(&path).unwrap();
        let last = (4096..bytes.len()).step_by(4096).rfind(|at| bytes[*at..].starts_with(b"BLCK"))?;
        Some((path, last as u64))
    };
    let (path, last) = log_files(&image).into_iter().rev().find_map(last_block).expect("a block");
    image.flip(&path, last + 24, 0);
    let found = fault(&image);
    let is_it = matches!(&found, LogFault::Corrupt { file, offset, .. } if (file, *offset) == (&path, last));
    assert!(is_it, "{found}");
}

/// When the control file that names the parts is in place, but this is not certain, the parts must
/// stay.
#[test]
fn a_checkpoint_that_fails_at_any_operation_leaves_a_store_that_opens() {
    let only = [None, Some(Operation::SyncFolder), Some(Operation::Sync), Some(Operation::Rename)];
    for only in only {
        let log = LogOptions { leisure: Duration::from_secs(60), ..log_options(Durability::Sync) };
        let mut poisoned = 0;
        for nth in 1.. {
            let disk = Disk::new();
            let (store, _) = open_with(disk.files(), log.clone()).unwrap();
            let mut w = store.worker(0).unwrap();
            store.wait_durable(fill(&mut w)).unwrap();
            let at = disk.operations() + nth;
            disk.plan(Plan { trouble: Trouble::Error, lasts: Lasts::Once, at, only });
            let taken = store.checkpoint();
            let is_over = taken.is_ok() && disk.operations() < at;
            disk.heal();
            let mut expected: Rows = (0..=LAST).map(|key| (vec![key], vec![1; 1000])).collect();
            if store.log_fault().is_none() {
                let done = put(&mut w, &[100], b"later");
                expected.insert(vec![100], b"later".to_vec());
                store.wait_durable(done.epoch).unwrap();
            } else {
                poisoned += 1;
                assert!(store.checkpoint().is_err());
            }
            for image in [disk.killed(), disk.crash_image(nth)] {
                let (store, _) = open_with(image.files(), log.clone())
                    .unwrap_or_else(|e| panic!("{only:?} {nth} ({taken:?}): {e}"));
                assert_eq!(rows(&mut store.worker(0).unwrap()), expected, "{only:?} {nth}");
            }
            if is_over {
                break;
            }
        }
        assert!(poisoned > 0 || only == Some(Operation::Sync), "{only:?}: nothing came of it");
    }
}

/// A reply does not wait for a sync that is due.
#[test]
fn in_async_nobody_waits_for_the_device() {
    let disk = Disk::new();
    let (asked, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (was_late, files) = (Arc::new(AtomicBool::new(false)), disk.files());
    let (is_asked, is_answered, late) = (asked.clone(), answered.clone(), was_late.clone());
    let files = world::watched(files, move |path, deed| {
        let is_log = path.to_string_lossy().contains("log-");
        if is_log && matches!(deed, Deed::Sync) && is_asked.load(Ordering::Acquire) {
            // A device that takes until the reply, or very long.
            let until = world::now_ns() + 20_000_000_000;
            while !is_answered.load(Ordering::Acquire) && world::now_ns() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            late.fetch_or(!is_answered.load(Ordering::Acquire), Ordering::Release);
        }
        world::Intervention::Do
    });
    let (store, _) = open_with(files, log_options(Durability::Async)).unwrap();
    // The next block's sync is due.
    std::thread::sleep(Duration::from_millis(600));
    asked.store(true, Ordering::Release);
    let done = put(&mut store.worker(0).unwrap(), b"a", b"1");
    store.wait_durable(done.epoch).unwrap();
    answered.store(true, Ordering::Release);
    drop(store);
    assert!(!was_late.load(Ordering::Acquire));
}
