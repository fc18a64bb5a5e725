//! Bugs that trials found, each as a test of its own.

use std::path::Path;
use store::Store;
use trials::ledger::{Ledger, Promise};
use trials::table::DIR;
use trials::{crash, faults, table};
use txn::TableKind;
use wal::Durability;
use world::sim::{Disk, Lasts, Operation, Plan, Trouble};

/// The length of a new data file reached the device, its first page did not: it was mistaken for
/// another program's file.
#[test]
fn a_database_cut_while_it_is_made_opens() {
    for durability in [Durability::Sync, Durability::Async] {
        let disk = Disk::new().recording();
        let made = Store::open(disk.files(), Path::new(DIR), table::options(durability, 64));
        made.unwrap().0.create(&table::schema()).unwrap();
        let tape = disk.tape();
        let mut player = tape.player();
        for position in 0..tape.len() {
            player.go_to(position);
            for seed in 0..8 {
                let image = player.crash_image(seed);
                let opened = crash::open_and_settle(
                    &image,
                    &Ledger::default(),
                    Promise::Consistent,
                    (TableKind::Heap, durability),
                );
                opened.unwrap_or_else(|flaw| panic!("{durability}, change {position}, draw {seed}: {flaw}"));
            }
        }
    }
}

/// Two segments were removed and the folder synced after both; only the second removal reached the
/// device, and the log had a hole.
#[test]
fn segments_are_removed_in_an_order_that_a_crash_keeps() {
    let disk = Disk::new();
    let (store, _) = Store::open(disk.files(), Path::new(DIR), table::options(Durability::Sync, 64)).unwrap();
    store.create(&table::schema()).unwrap();
    let history = store.table(table::HISTORY).unwrap();
    let segments = || disk.paths().iter().filter(|(p, _)| p.to_string_lossy().contains("/log-")).count();
    let mut number = 0;
    while segments() < 5 {
        let mut txn = store::Txn::default();
        store.begin(&mut txn, 0);
        for _ in 0..100 {
            number += 1;
            let row = table::history_row(number);
            let append = || store.append::<latch::Coupled>(&mut txn, history, &row);
            assert!(table::insist(&store, append).unwrap());
        }
        let lsn = store.commit(&mut txn, None).unwrap();
        store.log().wait_durable(lsn).unwrap();
    }
    let recorded = disk.clone().recording();
    store.checkpoint().unwrap();
    assert!(segments() < 4, "the checkpoint removed several");
    let tape = recorded.tape();
    let mut player = tape.player();
    for position in 0..=tape.len() {
        player.go_to(position);
        for seed in 0..12 {
            let image = player.crash_image(seed);
            let opened = Store::open(image.files(), Path::new(DIR), table::options(Durability::Sync, 64));
            let (store, _) = opened.unwrap_or_else(|e| panic!("change {position}, draw {seed}: {e}"));
            assert_eq!(table::history(&store).unwrap().len() as i64, number);
        }
    }
}

/// A control file that could not be read was treated as one that a crash had garbled. The database
/// was then opened from the older control file. The log that belongs to that one is gone, and a
/// later version even overwrote the good file with it.
#[test]
fn a_control_file_that_cannot_be_read_is_no_reason_to_use_the_older_one() {
    let disk = Disk::new();
    let open = |disk: &Disk| Store::open(disk.files(), Path::new(DIR), table::options(Durability::Sync, 64));
    for _ in 0..2 {
        let (store, _) = open(&disk).unwrap();
        store.create(&table::schema()).unwrap();
        store.checkpoint().unwrap();
        store.close().unwrap();
    }
    for (trouble, told) in [(Trouble::Error, "(simulated)"), (Trouble::Short, "could be read")] {
        for at in 4..=9 {
            let disk = disk.killed();
            disk.plan(Plan { trouble, lasts: Lasts::Once, at, only: None });
            if let Err(fault) = open(&disk).map(drop) {
                assert!(fault.to_string().contains(told), "operation {at}: {fault}");
            } else {
                assert!(trouble == Trouble::Short, "operation {at} failed, and it opened all the same");
            }
            disk.heal();
            open(&disk).unwrap_or_else(|fault| panic!("{trouble:?} at {at} spoiled it: {fault}"));
        }
    }
}

/// After a failed sync the kernel shows data that never reached the device. The next process
/// mistook it for durable: it read commits from the log and pages from the data file, synced
/// (without effect) and went on; the next power cut lost them.
#[test]
fn what_a_failed_sync_left_in_the_cache_is_written_again() {
    for script in faults::scripts(TableKind::Heap).unwrap() {
        let operations = script.operations().unwrap();
        for at in (1..operations).step_by(13) {
            let plan = Plan { trouble: Trouble::Error, lasts: Lasts::Once, at, only: Some(Operation::Sync) };
            script.with(plan).unwrap_or_else(|flaw| panic!("{}, {plan:?}: {flaw}", script.name));
        }
    }
}
