//! Real threads on one latch and one mutex: no torn value, no lost update, with evictions in
//! between.

use crate::{Owner, OwnerId, PageChange, PageLatch, Refused, SpinMutex, act_for, acting_for, ring};
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::scope;

struct Cell2(UnsafeCell<[u64; 2]>);
// SAFETY: the test reads it under a shared latch and writes it under the exclusive one.
unsafe impl Sync for Cell2 {}

const ROUNDS: u64 = 20_000;

#[test]
fn readers_never_see_half_a_change() {
    let latch = PageLatch::new();
    assert!(latch.begin_load());
    latch.end_load();
    let pair = Cell2(UnsafeCell::new([0, 0]));
    let (latch, pair, writes) = (&latch, &pair, &AtomicU64::new(0));
    scope(|s| {
        for t in 0..4u64 {
            s.spawn(move || (0..ROUNDS).for_each(|i| one_turn(latch, pair, writes, t * ROUNDS + i)));
        }
        s.spawn(move || (0..ROUNDS / 10).for_each(|_| evict_and_reload(latch)));
    });
    // SAFETY: all threads have ended.
    let [a, b] = unsafe { *pair.0.get() };
    assert_eq!(a, b);
    assert_eq!(a, writes.load(Ordering::Relaxed), "an increment was lost");
    assert!(latch.look().version() >= writes.load(Ordering::Relaxed));
}

fn one_turn(latch: &PageLatch, pair: &Cell2, writes: &AtomicU64, n: u64) {
    if n.is_multiple_of(4) {
        while latch.exclusive().is_err() {
            std::thread::yield_now();
        }
        // SAFETY: the exclusive latch is held.
        let p = unsafe { &mut *pair.0.get() };
        p[0] += 1;
        p[1] += 1;
        writes.fetch_add(1, Ordering::Relaxed);
        latch.unlock_exclusive(PageChange::Nothing);
        return;
    }
    match latch.shared() {
        Ok(_) => {
            // SAFETY: a shared latch is held.
            let p = unsafe { &*pair.0.get() };
            assert_eq!(p[0], p[1]);
            latch.unlock_shared();
        }
        Err(Refused::Absent) => std::thread::yield_now(),
        Err(Refused::Busy | Refused::Foreign) => {}
    }
}

fn evict_and_reload(latch: &PageLatch) {
    if latch.begin_evict() {
        latch.end_evict();
        assert!(latch.begin_load());
        latch.end_load();
    }
}

/// Threads own a page, change it by plain stores and disown it. Others latch it when it has no
/// owner, and a clock evicts it and loads it again.
#[test]
fn a_page_that_changes_hands_loses_nothing() {
    let latch = PageLatch::new();
    assert!(latch.begin_load());
    latch.end_load();
    let pair = Cell2(UnsafeCell::new([0, 0]));
    let (latch, pair, writes) = (&latch, &pair, &AtomicU64::new(0));
    scope(|s| {
        for t in 0..3 {
            s.spawn(move || {
                act_for(OwnerId::new(t));
                (0..ROUNDS / 4).for_each(|i| own_for_a_while(latch, pair, writes, i));
            });
        }
        s.spawn(move || (0..ROUNDS / 4).for_each(|_| _ = by_page(latch, pair, writes)));
        s.spawn(move || (0..ROUNDS / 10).for_each(|_| evict_and_reload(latch)));
    });
    // SAFETY: all threads have ended.
    let [a, b] = unsafe { *pair.0.get() };
    assert_eq!((a, b), (writes.load(Ordering::Relaxed), a), "an increment was lost");
    assert_eq!(latch.look().owner(), None);
}

fn own_for_a_while(latch: &PageLatch, pair: &Cell2, writes: &AtomicU64, i: u64) {
    match latch.own() {
        Ok(()) => {}
        Err(Refused::Foreign) => return std::thread::yield_now(),
        Err(refused) => panic!("{refused:?}"),
    }
    for _ in 0..i % 8 {
        let wrote = by_page(latch, pair, writes);
        assert!(matches!(wrote, Ok(()) | Err(Refused::Absent)), "an owner was refused: {wrote:?}");
    }
    latch.disown().unwrap();
}

fn by_page(latch: &PageLatch, pair: &Cell2, writes: &AtomicU64) -> Result<(), Refused> {
    latch.by_page_exclusive()?;
    // SAFETY: the page is held exclusively.
    let p = unsafe { &mut *pair.0.get() };
    p[0] += 1;
    p[1] += 1;
    writes.fetch_add(1, Ordering::Relaxed);
    latch.by_page_unlock_exclusive(PageChange::Nothing);
    latch.by_page_shared()?;
    // SAFETY: the page is held shared.
    let p = unsafe { &*pair.0.get() };
    assert_eq!(p[0], p[1]);
    latch.by_page_unlock_shared();
    Ok(())
}

#[test]
fn what_is_anothers_is_refused() {
    let latch = PageLatch::new();
    act_for(OwnerId::new(1022));
    assert!(OwnerId::new(1023).is_none() && acting_for() == OwnerId::new(1022));
    latch.own().unwrap();
    assert!(latch.begin_load(), "an absent page can be owned, and anybody reads it in");
    latch.end_load();
    assert!(latch.is_mine() && latch.by_page_shared().is_ok());
    assert_eq!(latch.disown(), Err(Refused::Busy), "its owner holds it");
    assert_eq!(latch.shared(), latch.by_page_shared(), "any policy serves its owner");
    (0..3).for_each(|_| latch.by_page_unlock_shared());
    latch.mark(latch.look());
    for other in [OwnerId::new(0), None] {
        act_for(other);
        assert!(latch.look().foreign() && latch.look().owner() == OwnerId::new(1022));
        assert_eq!(latch.by_page_shared(), Err(Refused::Foreign));
        assert_eq!(latch.by_page_exclusive(), Err(Refused::Foreign));
        assert_eq!(latch.exclusive(), Err(Refused::Foreign));
        assert_eq!(latch.disown(), Err(Refused::Foreign));
        assert!(!latch.begin_evict() && !latch.try_shared_unmarked());
        assert!(latch.glimpse().is_ok() && latch.look().marked(), "a look leaves the mark");
    }
    act_for(OwnerId::new(1022));
    assert!(latch.begin_evict());
    latch.end_evict();
    assert_eq!((latch.by_page_shared(), latch.is_mine()), (Err(Refused::Absent), true));
    latch.disown().unwrap();
    act_for(None);
    assert!(latch.begin_load());
    latch.end_load();
    assert!(latch.by_page_exclusive().is_ok());
    latch.by_page_unlock_exclusive(PageChange::Nothing);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "does not own")]
fn a_look_at_anothers_page_is_caught() {
    let latch = PageLatch::new();
    assert!(latch.begin_load());
    latch.end_load();
    act_for(OwnerId::new(0));
    latch.own().unwrap();
    act_for(OwnerId::new(1));
    let began = latch.glimpse().unwrap();
    latch.unchanged(began);
}

#[test]
fn the_mutex_loses_no_increment() {
    let counter = SpinMutex::new(0u64);
    scope(|s| {
        for _ in 0..4 {
            s.spawn(|| (0..ROUNDS).for_each(|_| *counter.lock() += 1));
        }
    });
    assert_eq!(*counter.lock(), 4 * ROUNDS);
}

#[test]
fn a_page_walks_through_its_states() {
    let latch = PageLatch::new();
    assert_eq!(latch.shared(), Err(Refused::Absent));
    assert!(latch.begin_load() && !latch.begin_load());
    assert_eq!(latch.exclusive(), Err(Refused::Absent), "a page being read in is not waited for");
    latch.end_load();
    let v = latch.shared().unwrap();
    assert!(!latch.begin_evict(), "a page in use stays");
    latch.unlock_shared();
    assert_eq!(latch.exclusive(), Ok(v));
    latch.unlock_exclusive(PageChange::Bytes);
    assert!(!latch.begin_evict(), "a dirty page stays");
    assert!(latch.try_shared_unmarked() && latch.begin_write());
    latch.unlock_shared();
    assert!(!latch.begin_evict(), "a page being written stays");
    latch.end_write();
    assert_eq!(latch.look().version(), v + 1);
    assert!(latch.begin_evict());
    latch.end_evict();
    assert!(!latch.look().resident() && latch.look().version() > v + 1);
}

#[test]
fn a_failed_write_leaves_the_page_dirty() {
    let latch = PageLatch::new();
    assert!(latch.begin_load());
    latch.end_load_exclusive();
    latch.unlock_exclusive(PageChange::Bytes);
    assert!(latch.try_shared_unmarked() && latch.begin_write());
    latch.unlock_shared();
    latch.fail_write();
    assert!(latch.look().dirty() && !latch.look().writing() && !latch.begin_evict());
}

#[test]
fn a_hold_that_never_ends_is_reported_as_busy() {
    let latch = PageLatch::new();
    assert!(latch.begin_load());
    latch.end_load();
    latch.shared().unwrap();
    assert_eq!(latch.exclusive(), Err(Refused::Busy));
    assert!(latch.shared().is_ok(), "the claim was given back");
}

#[test]
#[cfg(debug_assertions)]
fn a_stranger_is_caught() {
    let owner = Owner::new();
    let checked = || scope(|s| s.spawn(|| owner.check()).join().is_ok());
    assert!(checked(), "nobody owns yet");
    owner.claim();
    owner.check();
    assert!(!checked());
    owner.disown();
    assert!(checked());
}

/// A failed attempt must not make a guard: its drop would unlock the mutex under the holder.
#[test]
fn a_failed_attempt_does_not_unlock() {
    let mutex = SpinMutex::new(());
    let held = mutex.lock();
    assert!(mutex.try_lock().is_none());
    assert!(mutex.try_lock().is_none(), "the first attempt let go of what this test holds");
    drop(held);
    assert!(mutex.try_lock().is_some());
}

#[test]
fn values_come_out_of_a_ring_in_order_and_a_full_one_gives_them_back() {
    let (mut into, mut out) = ring(3);
    for round in 0..5 {
        (0..4).for_each(|i| assert_eq!(into.push(round * 10 + i), Ok(())));
        assert_eq!(into.push(99), Err(99));
        (0..4).for_each(|i| assert_eq!(out.pop(), Some(round * 10 + i)));
        assert_eq!(out.pop(), None);
    }
}

#[test]
fn what_is_staged_is_seen_once_it_is_published() {
    let (mut into, mut out) = ring(4);
    assert!(!into.publish());
    assert_eq!((into.stage(1), into.stage(2), out.pop()), (Ok(()), Ok(()), None));
    assert!(into.publish() && !into.publish());
    assert_eq!((out.pop(), out.seen(), out.pop(), out.pop()), (Some(1), 1, Some(2), None));
    assert_eq!([3, 4, 5, 6, 7].map(|value| into.stage(value)), [Ok(()), Ok(()), Ok(()), Ok(()), Err(7)]);
    assert_eq!(out.pop(), None);
    drop(into);
    assert_eq!([(); 5].map(|()| out.pop()), [Some(3), Some(4), Some(5), Some(6), None]);
}

#[test]
fn what_was_not_taken_from_a_ring_is_dropped_once() {
    let value = Arc::new(());
    let (mut into, mut out) = ring(4);
    (0..3).for_each(|_| assert!(into.push(value.clone()).is_ok()));
    drop(out.pop());
    assert!(into.stage(value.clone()).is_ok());
    drop((into, out));
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn a_ring_between_two_threads_loses_and_doubles_nothing() {
    let (mut into, mut out) = ring(8);
    let producer = std::thread::spawn(move || {
        for value in 0..200_000u64 {
            while into.push(Box::new(value)).is_err() {
                std::thread::yield_now();
            }
        }
    });
    for expected in 0..200_000u64 {
        let value = loop {
            match out.pop() {
                Some(value) => break value,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!(*value, expected);
    }
    producer.join().unwrap();
}
