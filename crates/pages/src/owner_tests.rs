//! Pages divided among owners: a cleaner, a checkpoint and threads that need frames must ask the
//! owners.

use crate::tests::{FRAMES, PAGES, Random, fill, get, open, put};
use crate::{ByPage, Coupled, PageFault, Pool, Stop, Tending};
use base::PageId;
use latch::{OwnerId, act_for};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::scope;
use wal::Durability;
use world::memory;

const OWNERS: usize = 3;

/// One owner's share of the pages, and the value that it wrote to each.
type Share = Vec<(PageId, u8)>;

fn work(pool: &Pool, owner: usize, free: &Mutex<Share>) -> Share {
    act_for(OwnerId::new(owner));
    let (mut random, mut share) = (Random(owner as u64), Share::new());
    for step in 0..1500 {
        pool.turn();
        if random.below(4) == 0 && !share.is_empty() {
            let given = share.swap_remove(random.below(share.len() as u64) as usize);
            while pool.disown(given.0).is_err() {}
            free.lock().unwrap().push(given);
        }
        let found = free.lock().unwrap().pop();
        if let Some(found) = found {
            while pool.own(found.0).is_err() {}
            share.push(found);
        }
        for _ in 0..3.min(share.len()) {
            let at = random.below(share.len() as u64) as usize;
            let (id, was) = share[at];
            assert_eq!(get::<ByPage>(pool, id), was, "{id:?} in step {step}");
            share[at].1 = random.below(250) as u8;
            put::<ByPage>(pool, id, share[at].1);
        }
    }
    share.drain(..).for_each(|given| {
        while pool.disown(given.0).is_err() {}
        free.lock().unwrap().push(given);
    });
    share
}

/// Owners change their pages and hand them on, while a cleaner keeps frames free and checkpoints
/// are taken: no change is lost, and every checkpoint ends.
#[test]
fn pages_are_cleaned_and_leave_by_their_owners() {
    let files = memory();
    let pool = &open(&files, Durability::Async);
    fill(pool);
    let free = &Mutex::new((1..=PAGES).map(|n| (PageId(n), n as u8)).collect::<Share>());
    let (done, over) = (&AtomicBool::new(false), &AtomicBool::new(false));
    let (at_work, gone) = (&AtomicUsize::new(OWNERS), &AtomicBool::new(false));
    scope(|scope| {
        let cleaner = scope.spawn(move || pool.serve(Tending::Cleaner, done));
        let checkpoints = scope.spawn(move || {
            let mut taken = 0;
            while !over.load(Ordering::Relaxed) {
                pool.write_back().unwrap();
                taken += 1;
            }
            taken
        });
        let live = move |owner| {
            assert!(work(pool, owner, free).is_empty());
            at_work.fetch_sub(1, Ordering::Relaxed);
            // A page may have been offered to this owner just before the owner gave it up, so it
            // handles requests until all are gone.
            while !gone.load(Ordering::Relaxed) {
                pool.turn();
                std::thread::yield_now();
            }
        };
        let workers: Vec<_> = (0..OWNERS).map(|owner| scope.spawn(move || live(owner))).collect();
        while at_work.load(Ordering::Relaxed) > 0 && !workers.iter().any(|worker| worker.is_finished()) {
            std::thread::yield_now();
        }
        over.store(true, Ordering::Relaxed);
        assert!(checkpoints.join().unwrap() > 3);
        gone.store(true, Ordering::Relaxed);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        done.store(true, Ordering::Relaxed);
        pool.stop_serving();
        cleaner.join().unwrap();
    });
    let stats = pool.stats();
    assert!(stats.evicted > 300 && stats.resident <= FRAMES, "{stats:?}");
    pool.write_back().unwrap();
    let again = open(&files, Durability::Async);
    let last = free.lock().unwrap();
    assert_eq!(last.len(), PAGES as usize);
    for &(id, value) in last.iter() {
        assert_eq!(get::<Coupled>(pool, id), value);
        assert_eq!(get::<Coupled>(&again, id), value, "as it was written");
    }
}

/// A write-back by another thread waits for the owner, which only has to call `turn`.
#[test]
fn a_checkpoint_waits_for_the_owner_of_a_page() {
    let pool = open(&memory(), Durability::Async);
    fill(&pool);
    pool.write_back().unwrap();
    act_for(OwnerId::new(7));
    let id = PageId(5);
    pool.own(id).unwrap();
    put::<ByPage>(&pool, id, 77);
    act_for(None);
    assert!(
        matches!(pool.exclusive::<Coupled>(id), Err(Stop::Fault(f)) if matches!(*f, PageFault::Foreign { .. }))
    );
    let mut run = pool.begin_write_back();
    for _ in 0..50 {
        assert_ne!(pool.step_write_back(&mut run).unwrap(), crate::Progress::Finished);
        pool.write_out();
    }
    assert!(!pool.turn(), "it is not for this thread to do");
    act_for(OwnerId::new(7));
    assert!(pool.ready() && pool.turn() && !pool.ready());
    assert!(pool.latch(id).look().writing() && !pool.latch(id).look().dirty());
    put::<ByPage>(&pool, id, 78);
    act_for(None);
    while pool.step_write_back(&mut run).unwrap() != crate::Progress::Finished {
        pool.write_out();
    }
    let seen = pool.latch(id).look();
    assert!(seen.dirty() && !seen.writing(), "the change beside the write is not lost");
    assert_eq!(pool.owner_of(id), OwnerId::new(7));
    pool.disown_all();
    assert_eq!((pool.owner_of(id), get::<Coupled>(&pool, id)), (None, 78));
}

/// Owners that ended without giving up their pages: the requests to them are not lost.
#[test]
fn frames_offered_to_an_owner_that_ended_come_back() {
    let pool = open(&memory(), Durability::Memory);
    fill(&pool);
    act_for(OwnerId::new(0));
    (1..=PAGES).for_each(|n| pool.own(PageId(n)).unwrap());
    act_for(None);
    let resident = pool.stats().resident;
    for _ in 0..20 {
        pool.make_room(4);
    }
    assert_eq!(pool.stats().resident, resident, "nobody else throws an owner's page out");
    pool.disown_all();
    for n in 1..=PAGES {
        put::<Coupled>(&pool, PageId(n), 1);
    }
    assert!(pool.stats().resident <= FRAMES);
}
