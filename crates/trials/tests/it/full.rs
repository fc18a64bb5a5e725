//! A full disk: docs/testing.md lists the guarantees.

use exec::{
    Conventional, Design, Executor, LocalTxn, PageAccess, PageEngine, PageOptions, Protection, Serial,
};
use std::path::Path;
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use store::{Store, StoreFault};
use trials::crash::open_and_settle;
use trials::engine_run::{self, Mix};
use trials::ledger::{Flaw, Ledger, Promise};
use trials::memory_run;
use trials::table;
use trials::table::DIR;
use trials::workers::{self, Crew};
use txn::{Abort, Access, Inserted, TableKind};
use wal::Durability;
use world::sim::Disk;

fn open(disk: &Disk) -> Result<Store, StoreFault> {
    let (store, _) = Store::open(disk.files(), Path::new(DIR), table::options(Durability::Sync, 48))?;
    store.create(&table::schema())?;
    Ok(store)
}

const SYNCED: (TableKind, Durability) = (TableKind::Heap, Durability::Sync);

type Outcome = (Ledger, Result<Store, StoreFault>);

fn life_of<D: Design>(workers: usize, disk: &Disk, store: Store, ledger: Ledger, commits: usize) -> Outcome {
    let mix = Mix { crew: Crew { workers, clients: 4 }, keys: 2000, commits, prepares: 0, seed: 5 };
    engine_run::run::<D>(store, disk, ledger, mix)
}

fn life(disk: &Disk, store: Store, ledger: Ledger, commits: usize) -> Outcome {
    life_of::<Conventional>(2, disk, store, ledger, commits)
}

#[test]
fn a_full_disk_stops_the_engine_cleanly_and_nothing_is_lost() {
    for spare in [0, 10_000, 100_000, 300_000, 600_000] {
        let disk = Disk::new();
        let store = open(&disk).unwrap();
        disk.set_capacity(Some(disk.used() + spare));
        let (ledger, stopped) = life(&disk, store, Ledger::default(), usize::MAX);
        // Without a fault, every transaction was refused for want of room, one after the other.
        if let Err(fault) = stopped.map(drop) {
            let text = fault.to_string();
            assert!(
                text.contains(DIR) && text.contains("space"),
                "{spare}: what stopped it is not told: {text}"
            );
        }
        assert!(
            ledger.commits.iter().any(|c| c.acknowledged.is_some()) || spare < 100_000,
            "{spare}: no commit"
        );
        // Still full: it opens with all that was promised, or reports why not.
        if let Err(fault) = open(&disk) {
            assert!(fault.to_string().contains("space"), "{spare}: {fault}");
        }
        let everything = Promise::Acknowledged(usize::MAX);
        open_and_settle(&disk.crash_image(spare), &ledger, everything, SYNCED).unwrap();
        // Space returns: the same database goes on.
        disk.set_capacity(None);
        let (store, recovered) =
            Store::open(disk.files(), Path::new(DIR), table::options(Durability::Sync, 48)).unwrap();
        let ledger = ledger.settle(&store, recovered, everything).unwrap().ledger;
        let (ledger, store) = life(&disk, store, ledger, 50);
        drop(store.unwrap());
        open_and_settle(&disk.crash_image(1), &ledger, everything, SYNCED).unwrap();
    }
}

/// The store refuses work while the disk is full, stays open, and goes on once there is room. A
/// rollback that finds no room stops it until it is opened again; nothing else does.
fn goes_on_once_there_is_room<D: Design>(workers: usize) {
    let mut stopped_by_undo = 0;
    for spare in [100_000, 150_000, 200_000, 300_000, 600_000] {
        let disk = Disk::new();
        let store = open(&disk).unwrap();
        disk.set_capacity(Some(disk.used() + spare));
        let (ledger, stopped) = life_of::<D>(workers, &disk, store, Ledger::default(), usize::MAX);
        let everything = Promise::Acknowledged(usize::MAX);
        disk.set_capacity(None);
        let store = match stopped {
            Ok(store) => store,
            Err(StoreFault::NotUndone { .. }) => {
                open_and_settle(&disk.crash_image(spare), &ledger, everything, SYNCED).unwrap();
                stopped_by_undo += 1;
                continue;
            }
            Err(fault) => panic!("{spare}: it was poisoned: {fault}"),
        };
        let before = ledger.commits.len();
        // The log tries again from time to time.
        while store.log().is_short() {
            std::thread::yield_now();
        }
        let (ledger, store) = life_of::<D>(workers, &disk, store, ledger, 50);
        drop(store.unwrap_or_else(|fault| panic!("{spare}: with room again: {fault}")));
        assert!(ledger.commits.len() >= before + 50, "{spare}: {before} commits, and no more");
        open_and_settle(&disk.crash_image(spare), &ledger, everything, SYNCED).unwrap();
    }
    assert!(stopped_by_undo < 5, "none went on");
}

#[test]
fn an_open_store_goes_on_once_a_full_disk_has_room() {
    goes_on_once_there_is_room::<Conventional>(2);
}

#[test]
fn an_owner_of_pages_goes_on_once_a_full_disk_has_room() {
    goes_on_once_there_is_room::<Serial>(1);
}

/// Calls `f` with a directory in a file system of three megabytes, and with a function that
/// enlarges it. Does nothing if the machine does not allow to mount one.
fn in_three_megabytes(f: impl FnOnce(&Path, &dyn Fn()) + std::panic::UnwindSafe) {
    let folder = tempfile::tempdir().unwrap();
    let mount = |args: &[&str]| Command::new(args[0]).args(&args[1..]).arg(folder.path()).output();
    let mounted = mount(&["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs"]);
    if !mounted.is_ok_and(|done| done.status.success()) {
        eprintln!("skipped: no file system can be mounted here (it takes a superuser)");
        return;
    }
    let grow = || assert!(mount(&["mount", "-o", "remount,size=64m"]).unwrap().status.success());
    let tried = std::panic::catch_unwind(|| f(&folder.path().join("db"), &grow));
    let unmounted = mount(&["umount"]);
    assert!(tried.is_ok() && unmounted.is_ok());
}

/// A real file system of three megabytes.
#[test]
fn a_full_file_system_stops_the_engine_cleanly() {
    in_three_megabytes(|dir, grow| {
        let open = || Store::open(world::real(), dir, table::options(Durability::Sync, 48));
        let store = open().unwrap().0;
        store.create(&table::schema()).unwrap();
        let (ledger, stopped) = life(&Disk::new(), store, Ledger::default(), usize::MAX);
        if let Err(fault) = stopped.map(drop) {
            let text = fault.to_string();
            assert!(text.contains("pace") && text.contains("db/"), "{text}");
        }
        assert!(ledger.commits.len() > 100, "it had room for more than {}", ledger.commits.len());
        grow();
        let (store, recovered) = open().unwrap();
        ledger.settle(&store, recovered, Promise::Acknowledged(0)).unwrap();
    });
}

const EVERYTHING: Promise = Promise::Acknowledged(usize::MAX);

fn memory_mix(commits: usize) -> Mix {
    Mix { crew: Crew { workers: 2, clients: 4 }, keys: 2000, commits, prepares: 0, seed: 5 }
}

/// Commits in the engine in main memory until there is no room, and returns it, or why it did not
/// open.
fn in_memory(disk: &Disk, ledger: &mut Ledger, commits: usize) -> Result<memory_run::Opened, Flaw> {
    let mix = Mix { prepares: 1, ..memory_mix(commits) };
    memory_run::work((disk.files(), disk), ledger, EVERYTHING, (Durability::Sync, mix))
}

/// The engine in main memory refuses changes while the disk is full, stays open, and goes on once
/// there is room.
#[test]
fn the_engine_in_main_memory_goes_on_once_a_full_disk_has_room() {
    for spare in [80_000, 100_000, 150_000, 200_000, 300_000] {
        let (disk, mut ledger) = (Disk::new(), Ledger::default());
        // None is left in doubt: its commit would not be acknowledged to any client.
        let begin = (Durability::Sync, memory_mix(1));
        memory_run::work((disk.files(), &disk), &mut ledger, EVERYTHING, begin).unwrap().leave();
        disk.set_capacity(Some(disk.used() + spare));
        let opened = in_memory(&disk, &mut ledger, 20_000).unwrap();
        let full = exec::Engine::full(&*opened.engine);
        assert!(full.is_some() || spare >= 300_000, "{spare}: it did not fill the disk");
        assert!(full.is_none_or(|why| why.contains(DIR) && why.contains("space")), "{spare}");
        let (number, commits) = (ledger.next_number, ledger.commits.len());
        assert!(ledger.commits.iter().all(|c| c.acknowledged.is_some()), "{spare}: some did not end");
        memory_run::open_and_settle(&disk.crash_image(spare), &ledger, EVERYTHING, Durability::Sync).unwrap();
        disk.set_capacity(None);
        // The log tries again from time to time.
        while ledger.commits.len() < commits + 50 {
            ledger = engine_run::run_on(&opened.engine, &disk, ledger, memory_mix(50));
            assert!(
                exec::Engine::fault(&*opened.engine).is_none() && ledger.next_number < number + 1_000_000
            );
        }
        opened.leave();
        memory_run::open_and_settle(&disk.crash_image(spare), &ledger, EVERYTHING, Durability::Sync).unwrap();
    }
}

#[test]
fn a_full_disk_is_no_obstacle_for_the_next_life_of_the_engine_in_main_memory() {
    for spare in [0, 10_000, 100_000, 300_000, 600_000] {
        let (disk, mut ledger) = (Disk::new(), Ledger::default());
        in_memory(&disk, &mut ledger, 1).unwrap().leave();
        disk.set_capacity(Some(disk.used() + spare));
        // Rows are changed without end, and checkpoints cut the log only while there is room to
        // write one.
        let told = match in_memory(&disk, &mut ledger, 20_000) {
            Ok(opened) => {
                let told = exec::Engine::full(&*opened.engine);
                opened.leave();
                told
            }
            Err(flaw @ Flaw::Engine(_)) => Some(flaw.to_string()),
            Err(flaw) => panic!("{spare}: {flaw}"),
        };
        assert!(told.is_some() || spare >= 300_000, "{spare}: it did not fill the disk");
        assert!(told.is_none_or(|why| why.contains(DIR) && why.contains("space")), "{spare}: it is not told");
        assert!(ledger.commits.iter().any(|c| c.acknowledged.is_some()) || spare < 100_000);
        // Still full: it opens with all that was promised, or reports why not.
        if let Err(flaw) = memory_run::open(disk.files(), Durability::Sync, 0) {
            assert!(flaw.to_string().contains("space"), "{spare}: {flaw}");
        }
        memory_run::open_and_settle(&disk.crash_image(spare), &ledger, EVERYTHING, Durability::Sync).unwrap();
        // Space returns: the same database goes on.
        disk.set_capacity(None);
        in_memory(&disk, &mut ledger, 50).unwrap().leave();
        memory_run::open_and_settle(&disk.crash_image(1), &ledger, EVERYTHING, Durability::Sync).unwrap();
    }
}

/// The same on a file system of three megabytes, where the machine allows to mount one.
#[test]
fn a_full_file_system_does_not_stop_the_engine_in_main_memory() {
    in_three_megabytes(|dir, grow| {
        let open = || memory_run::open_in((world::real(), dir), Durability::Sync, 0).unwrap();
        let mut opened = open();
        let (ledger, _) = opened.settle(&Ledger::default(), Promise::Acknowledged(0)).unwrap();
        let mut ledger = engine_run::run_on(&opened.engine, &Disk::new(), ledger, memory_mix(200_000));
        let text = exec::Engine::full(&*opened.engine).expect("it has filled three megabytes");
        assert!(text.contains("space") && text.contains("db:"), "{text}");
        let commits = ledger.commits.len();
        assert!(commits > 100, "it had room for more than {commits}");
        grow();
        while ledger.commits.len() < commits + 50 {
            ledger = engine_run::run_on(&opened.engine, &Disk::new(), ledger, memory_mix(50));
            assert_eq!(exec::Engine::fault(&*opened.engine), None);
        }
        opened.leave();
        open().settle(&ledger, Promise::Acknowledged(0)).unwrap();
    });
}

#[test]
fn reads_go_on_when_the_disk_is_full() {
    let disk = Disk::new();
    let store = open(&disk).unwrap();
    let (ledger, store) = life(&disk, store, Ledger::default(), 30);
    drop(store.unwrap());
    // All data fits this pool, so reads need no eviction.
    let (store, recovered) =
        Store::open(disk.files(), Path::new(DIR), table::options(Durability::Sync, 2048)).unwrap();
    let ledger = ledger.settle(&store, recovered, Promise::Acknowledged(usize::MAX)).unwrap().ledger;
    disk.set_capacity(Some(0));
    let mut number = 1_000_000;
    while store.fault().is_none() {
        let mut txn = store::Txn::default();
        store.begin(&mut txn, 0);
        let history = store.table(table::HISTORY).unwrap();
        number += 1;
        let row = table::history_row(number);
        let appended = table::insist(&store, || store.append::<latch::Coupled>(&mut txn, history, &row));
        let committed = appended.and_then(|_| store.commit(&mut txn, None));
        let durable = committed.and_then(|lsn| Ok(store.log().wait_durable(lsn)?));
        if let Err(fault) = durable {
            assert!(fault.to_string().contains("space"), "{fault}");
            break;
        }
    }
    assert_eq!(table::accounts(&store).unwrap(), ledger.base);
}

fn to_its_end<T>(engine: &Arc<PageEngine<Conventional>>, doing: impl Future<Output = T>) -> T {
    let mut doing = pin!(doing);
    loop {
        match doing.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => return done,
            Poll::Pending => drop(engine.turn()),
        }
    }
}

/// Its locks are released although its changes stay, so no transaction may commit from then on. The
/// next life of the store undoes the changes.
#[test]
fn a_rollback_that_finds_no_room_poisons_the_store() {
    let poisoned = [100, 250, 302, 303, 400, 500, 599].map(rollback_without_room);
    assert!(poisoned.contains(&true), "no rollback needed a frame");
}

/// With rows of this length, so that different parts of an insert meet the full disk first. Returns
/// whether the rollback found no room: it needs none for pages that are still in memory.
fn rollback_without_room(bytes: usize) -> bool {
    let disk = Disk::new();
    let options = table::options(Durability::Memory, 48);
    let (store, _) = Store::open(disk.files(), Path::new(DIR), options).unwrap();
    store.create(&table::schema()).unwrap();
    let options =
        PageOptions { locks: workers::lock_options(0), lock_timeout_ns: 2_000_000_000, waits_for_log: false };
    let engine = Arc::new(PageEngine::<Conventional>::new(store, options));
    let executor = Executor::new(Arc::new(|| {}));
    let mut txns = [Protection::Exclusive, Protection::Locks].map(|protection| {
        let mut txn = engine.local_txn();
        engine.begin(&mut txn, 0, protection);
        txn
    });
    let [filler, victim] = &mut txns;
    let insert = |txn: &mut LocalTxn, id| {
        let (key, row) = (table::key(id), table::row(id, &(1, "n".repeat(bytes))));
        let mut access = PageAccess::new(&engine, &executor, txn);
        to_its_end(&engine, access.insert(table::ACCOUNTS, &key, &row))
    };
    (0..600).for_each(|id| assert_eq!(insert(filler, id), Ok(Inserted::Done)));
    engine.commit(filler).unwrap();
    engine.begin(filler, 0, Protection::Exclusive);
    for id in 0..30 {
        let mut access = PageAccess::new(&engine, &executor, &mut *victim);
        let set = |row: &mut txn::RowMut<'_>| row.set_int(table::SCORE, 2);
        let key = table::key(id * 20);
        assert_eq!(to_its_end(&engine, access.update(table::ACCOUNTS, &key, set)), Ok(Some(())));
    }
    disk.set_capacity(Some(disk.used()));
    let full = (1_000..).find_map(|id| insert(filler, id).err());
    assert_eq!(full, Some(Abort::NoSpace), "all of the pool is new pages, which the disk does not take");
    assert_eq!(engine.store().fault().map(|fault| fault.to_string()), None);

    if engine.rollback(victim).is_ok() {
        assert_eq!(engine.rollback(filler), Ok(()), "{bytes}");
        assert!(engine.store().fault().is_none());
        return false;
    }
    let fault = engine.store().fault().expect("it is poisoned").to_string();
    assert!(fault.contains("could not be undone") && fault.contains("space"), "{fault}");
    engine.begin(victim, 0, Protection::Locks);
    assert_eq!(engine.commit(victim), Err(Abort::Fault), "not even what has changed nothing");
    assert_eq!(engine.rollback(filler), Err(Abort::Fault), "nothing is undone from now on");
    true
}
