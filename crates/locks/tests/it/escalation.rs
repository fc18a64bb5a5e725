//! A table lock in place of many key locks.

use crate::{Table, granted, is_granted};
use base::TableId;
use locks::{Acquired, Escalation, Inheritance, LockName, LockOptions, LockTuning, Locker, Mode};

const T: LockName = LockName::table(TableId(1));

fn key(i: u64) -> LockName {
    LockName::key(TableId(1), base::hash64(&i.to_be_bytes()))
}

fn escalating(reads: u32, writes: u32) -> Table {
    let escalation = Escalation { reads: Some(reads), writes: Some(writes) };
    Table::with(LockOptions { buckets: 64, tuning: LockTuning { escalation, ..LockTuning::PLAIN } })
}

fn lock(table: &Table, locker: &mut Locker, i: u64, mode: Mode) -> Acquired {
    table.acquire_below(locker, &[T], key(i), mode)
}

fn lock_all(table: &Table, locker: &mut Locker, keys: std::ops::Range<u64>, mode: Mode) {
    keys.for_each(|i| assert!(granted(lock(table, locker, i, mode))));
}

#[test]
fn the_twenty_sixth_row_read_is_the_table() {
    let table = escalating(25, 1000);
    let mut a = table.locker();
    lock_all(&table, &mut a, 0..25, Mode::ROW_S);
    lock_all(&table, &mut a, 0..25, Mode::ROW_S);
    assert_eq!((a.holds(T), a.held().count(), table.stats().escalations), (Mode::IS, 26, 0));
    lock_all(&table, &mut a, 25..26, Mode::ROW_S);
    assert_eq!(a.held().collect::<Vec<_>>(), [(T, Mode::S)], "the rows' locks are given back");
    assert_eq!((table.requests(), table.stats().escalations), (1, 1));
    lock_all(&table, &mut a, 26..10_000, Mode::ROW_AND_GAP_S);
    assert_eq!(table.requests(), 1, "and no others are asked for");
    let mut b = table.locker();
    assert!(granted(lock(&table, &mut b, 99_999, Mode::ROW_S)));
    assert_eq!(lock(&table, &mut b, 5, Mode::ROW_X), Acquired::Waiting);
    table.release_all(&mut a);
    assert!(is_granted(&table, &mut b));
    table.release_all(&mut b);
    assert_eq!((table.requests(), a.holds(T)), (0, Mode::NONE));
}

#[test]
fn a_writer_that_reads_much_keeps_its_written_rows() {
    let table = escalating(10, 100);
    let mut a = table.locker();
    lock_all(&table, &mut a, 0..5, Mode::ROW_X);
    lock_all(&table, &mut a, 100..111, Mode::ROW_S);
    assert_eq!((a.holds(T), a.held().count()), (Mode::SIX, 6));
    lock_all(&table, &mut a, 5..100, Mode::ROW_X);
    assert_eq!((a.holds(T), a.held().count()), (Mode::SIX, 101));
    lock_all(&table, &mut a, 200..201, Mode::ROW_AND_GAP_X);
    assert_eq!(a.held().collect::<Vec<_>>(), [(T, Mode::X)]);
    table.release_all(&mut a);
    assert_eq!(table.requests(), 0);
}

#[test]
fn it_never_waits_and_asks_again_later() {
    let table = escalating(10, 100);
    let (mut a, mut b) = (table.locker(), table.locker());
    assert!(granted(lock(&table, &mut b, 500, Mode::ROW_X)));
    lock_all(&table, &mut a, 0..20, Mode::ROW_S);
    assert_eq!((a.holds(T), table.stats().escalations_put_off), (Mode::IS, 1));
    table.release_all(&mut b);
    lock_all(&table, &mut a, 20..21, Mode::ROW_S);
    assert_eq!((a.holds(T), table.stats().escalations), (Mode::S, 1));
    table.release_all(&mut a);
}

/// Both hold IX and read much. If they waited for S, each would wait for the other's IX.
#[test]
fn two_that_would_escalate_do_not_deadlock() {
    let table = escalating(10, 20);
    let (mut a, mut b) = (table.locker(), table.locker());
    for (l, base) in [(&mut a, 0), (&mut b, 1000)] {
        lock_all(&table, l, base..base + 1, Mode::ROW_X);
    }
    for (l, base) in [(&mut a, 0), (&mut b, 1000)] {
        lock_all(&table, l, base + 1..base + 200, Mode::ROW_S);
        lock_all(&table, l, base + 200..base + 300, Mode::ROW_X);
        assert_eq!(l.holds(T), Mode::IX);
    }
    let stats = table.stats();
    assert_eq!((stats.escalations, stats.deadlocks, stats.waits), (0, 0, 0));
    assert!(
        (10..30).contains(&stats.escalations_put_off),
        "asked for at twice the distance each time: {stats:?}"
    );
    [&mut a, &mut b].into_iter().for_each(|l| table.release_all(l));
    assert_eq!(table.requests(), 0);
}

#[test]
fn nobody_who_waits_for_the_table_is_overtaken() {
    let table = escalating(10, 20);
    let (mut reader, mut writer, mut whole) = (table.locker(), table.locker(), table.locker());
    assert!(granted(lock(&table, &mut reader, 1, Mode::ROW_S)));
    assert_eq!(table.acquire(&mut whole, T, Mode::X), Acquired::Waiting);
    lock_all(&table, &mut reader, 0..100, Mode::ROW_S);
    assert_eq!(reader.holds(T), Mode::IS);
    assert_eq!(lock(&table, &mut writer, 7, Mode::ROW_X), Acquired::Waiting);
    table.release_all(&mut reader);
    assert!(is_granted(&table, &mut whole));
    [&mut whole, &mut writer].into_iter().for_each(|l| table.release_all(l));
}

/// A parked table lock that was never requested would keep the intentions of all other lockers off
/// the fast path.
#[test]
fn an_escalated_lock_is_not_inherited() {
    let tuning =
        LockTuning { escalation: Escalation::after(10), inheritance: Inheritance::On, ..LockTuning::PLAIN };
    let table = Table::with(LockOptions { buckets: 64, tuning });
    let (mut a, mut b) = (table.locker(), table.locker());
    lock_all(&table, &mut a, 0..50, Mode::ROW_S);
    table.release_all(&mut a);
    assert_eq!(a.parked().count(), 0);
    lock_all(&table, &mut a, 0..1, Mode::ROW_S);
    assert!(granted(lock(&table, &mut b, 1, Mode::ROW_X)));
    assert_eq!(b.counts().fast, 1);
    [&mut a, &mut b].into_iter().for_each(|l| table.release_all(l));
    lock_all(&table, &mut a, 0..50, Mode::ROW_S);
    assert_eq!(a.holds(T), Mode::S, "b's parked IX is not in the way of an escalation");
    table.release_all(&mut a);
    assert_eq!((table.stats().escalations, table.stats().escalations_put_off), (2, 0));
}

#[test]
fn keys_of_an_index_count_for_their_table_and_go_with_it() {
    let table = escalating(10, 20);
    let mut a = table.locker();
    for i in 0..6 {
        assert!(granted(table.acquire_below(
            &mut a,
            &[T],
            LockName::key(TableId(9), i),
            Mode::ROW_AND_GAP_S
        )));
        assert!(granted(lock(&table, &mut a, i, Mode::ROW_S)));
    }
    assert_eq!(a.held().collect::<Vec<_>>(), [(T, Mode::S)]);
    table.release_all(&mut a);
    assert_eq!(table.requests(), 0);
}

#[test]
fn switched_off_it_never_happens() {
    let table = Table::new(64);
    let mut a = table.locker();
    lock_all(&table, &mut a, 0..5000, Mode::ROW_X);
    assert_eq!((a.holds(T), a.held().count()), (Mode::IX, 5001));
    table.release_all(&mut a);
    assert_eq!(table.stats().escalations, 0);
}
