//! Deadlocks are found by the request that closes the cycle, at once.

use crate::{Table, granted, is_granted, poll};
use base::TableId;
use locks::{Acquired, LockAbort, LockName, LockOptions, LockTuning, Locker, Mode, Victim};
use std::task::Poll;

fn key(i: u64) -> LockName {
    LockName::key(TableId(1), i.wrapping_mul(0x9e37_79b9))
}

fn ring(members: usize) {
    let table = Table::new(64);
    let mut lockers: Vec<Locker> = (0..members).map(|_| table.locker()).collect();
    for (i, l) in lockers.iter_mut().enumerate() {
        assert!(granted(table.acquire(l, key(i as u64), Mode::ROW_X)));
    }
    for (i, l) in lockers.iter_mut().enumerate() {
        let next = key(((i + 1) % members) as u64);
        let want = if i + 1 == members { Acquired::Deadlock } else { Acquired::Waiting };
        assert_eq!(table.acquire(l, next, Mode::ROW_X), want);
    }
    table.release_all(lockers.last_mut().expect("a member"));
    for l in lockers.iter_mut().rev().skip(1) {
        assert!(is_granted(&table, l), "the victim's locks let the others go on, one after another");
        table.release_all(l);
    }
    assert_eq!((table.requests(), table.stats().deadlocks), (0, 1));
}

#[test]
fn rings_of_two_three_and_fifty() {
    [2, 3, 50].into_iter().for_each(ring);
}

#[test]
fn two_readers_that_both_want_to_write() {
    let table = Table::new(64);
    let (mut a, mut b) = (table.locker(), table.locker());
    assert!(granted(table.acquire(&mut a, key(1), Mode::ROW_S)));
    assert!(granted(table.acquire(&mut b, key(1), Mode::ROW_S)));
    assert_eq!(table.acquire(&mut a, key(1), Mode::ROW_X), Acquired::Waiting);
    assert_eq!(table.acquire(&mut b, key(1), Mode::ROW_X), Acquired::Deadlock);
    assert_eq!(b.holds(key(1)), Mode::ROW_S);
    table.release_all(&mut b);
    assert!(is_granted(&table, &mut a));
    table.release_all(&mut a);
}

#[test]
fn a_cycle_through_the_queue_rather_than_through_holders() {
    // c waits behind b's write request, which waits for a's read lock. Then a wants c's lock.
    let table = Table::new(64);
    let (mut a, mut b, mut c) = (table.locker(), table.locker(), table.locker());
    assert!(granted(table.acquire(&mut a, key(1), Mode::ROW_S)));
    assert!(granted(table.acquire(&mut c, key(2), Mode::ROW_X)));
    assert_eq!(table.acquire(&mut b, key(1), Mode::ROW_X), Acquired::Waiting);
    assert_eq!(table.acquire(&mut c, key(1), Mode::ROW_S), Acquired::Waiting);
    assert_eq!(table.acquire(&mut a, key(2), Mode::ROW_S), Acquired::Deadlock);
    [&mut a, &mut b, &mut c].into_iter().for_each(|l| table.release_all(l));
    assert_eq!(table.requests(), 0);
}

#[test]
fn a_cycle_through_intentions_that_took_the_fast_path() {
    let table = Table::new(64);
    let (mut a, mut b) = (table.locker(), table.locker());
    let t = LockName::table;
    assert!(granted(table.acquire(&mut a, t(TableId(1)), Mode::IX)));
    assert!(granted(table.acquire(&mut b, t(TableId(2)), Mode::IX)));
    assert_eq!(table.acquire(&mut a, t(TableId(2)), Mode::S), Acquired::Waiting);
    assert_eq!(table.acquire(&mut b, t(TableId(1)), Mode::S), Acquired::Deadlock);
    [&mut a, &mut b].into_iter().for_each(|l| table.release_all(l));
    assert_eq!(table.requests(), 0);
}

#[test]
fn a_long_queue_without_a_cycle_is_no_deadlock() {
    let table = Table::new(64);
    let mut lockers: Vec<Locker> = (0..200).map(|_| table.locker()).collect();
    assert!(granted(table.acquire(&mut lockers[0], key(1), Mode::ROW_X)));
    for l in &mut lockers[1..] {
        assert_eq!(table.acquire(l, key(1), Mode::ROW_X), Acquired::Waiting);
    }
    for l in &mut lockers {
        assert!(is_granted(&table, l));
        table.release_all(l);
    }
}

/// Whichever member closes the ring: the one that began last gives up, learns of it when it polls,
/// and keeps its locks.
#[test]
fn the_youngest_of_a_ring_dies() {
    for youngest in 0..3 {
        let tuning = LockTuning { victim: Victim::Youngest, ..LockTuning::PLAIN };
        let table = Table::with(LockOptions { buckets: 64, tuning });
        let mut lockers: Vec<Locker> = (0..3).map(|_| table.locker()).collect();
        for (i, l) in lockers.iter_mut().enumerate() {
            l.begun_ns = if i == youngest { 10 } else { i as u64 };
            assert!(granted(table.acquire(l, key(i as u64), Mode::ROW_X)));
        }
        for (i, l) in lockers.iter_mut().enumerate() {
            let closes = i == 2 && youngest == 2;
            let want = if closes { Acquired::Deadlock } else { Acquired::Waiting };
            assert_eq!(table.acquire(l, key((i as u64 + 1) % 3), Mode::ROW_X), want);
        }
        let dead = &mut lockers[youngest];
        assert_eq!(poll(&table, dead), Poll::Ready(Err(LockAbort::Deadlock)));
        assert_eq!(dead.held().collect::<Vec<_>>(), [(key(youngest as u64), Mode::ROW_X)]);
        table.release_all(dead);
        for next in [youngest + 2, youngest + 1] {
            let l = &mut lockers[next % 3];
            assert!(is_granted(&table, l));
            table.release_all(l);
        }
        assert_eq!((table.requests(), table.stats().deadlocks), (0, 1));
    }
}
