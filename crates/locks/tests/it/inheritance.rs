//! Inheritance from one transaction to the next: how much it saves, and that only the locker
//! notices it.

use crate::{granted, inheriting, is_granted};
use base::TableId;
use locks::{Acquired, LockName, Locker, Mode};

const T: LockName = LockName::table(TableId(1));
const K: LockName = LockName::key(TableId(1), 5);

fn transaction(table: &crate::Table, locker: &mut Locker, tables: u16, mode: Mode) {
    for t in 0..tables {
        assert!(granted(table.acquire(locker, LockName::table(TableId(t)), mode)));
        assert!(granted(table.acquire(locker, LockName::key(TableId(t), 9), Mode::ROW_S)));
    }
    table.release_all(locker);
}

/// The goal of the paper: nine of ten calls for hot table locks are saved. Twenty tables are more
/// than the fast path and the parking places in buckets hold, four are not. A scanner makes all of
/// them bucket locks.
#[test]
fn nine_of_ten_calls_for_hot_tables_are_gone() {
    for (tables, mode) in [(1, Mode::IS), (4, Mode::IX), (9, Mode::IX), (4, Mode::S)] {
        let calls = |inherits: bool| {
            let table = if inherits { inheriting(64) } else { crate::Table::new(64) };
            let mut locker = table.locker();
            (0..1000).for_each(|_| transaction(&table, &mut locker, tables, mode));
            let stats = table.stats();
            assert_eq!(stats.granule_requests, 1000 * u64::from(tables));
            assert_eq!(table.requests(), 0);
            (stats.granule_calls, stats.inherited)
        };
        let ((without, none), (with, inherited)) = (calls(false), calls(true));
        assert_eq!((without, none), (2000 * u64::from(tables), 0));
        assert!(with * 10 <= without, "{tables} {mode:?}: {with} of {without} calls are left");
        assert!(inherited >= 999 * u64::from(tables));
    }
}

/// An inherited intention costs one change of a word, and no critical section. The count of
/// `locking` in a profile must fall by the visits that the table locks would have made.
#[test]
fn an_inherited_table_lock_is_no_critical_section() {
    use probe::{Profiling, Section};
    let sections = |inherits: bool, mode: Mode| {
        let table = if inherits { inheriting(64) } else { crate::Table::new(64) };
        let mut locker = table.locker();
        transaction(&table, &mut locker, 2, mode);
        probe::profile(Profiling::ON);
        (0..100).for_each(|_| transaction(&table, &mut locker, 2, mode));
        let profile = probe::window().expect("this thread profiles");
        probe::profile(Profiling::Off);
        [Section::LockSlot, Section::LockBucket].map(|section| profile.entered[section as usize] / 100)
    };
    // Two tables with a key each: a key enters its bucket and leaves it.
    assert_eq!(sections(false, Mode::IX), [2, 4]);
    assert_eq!(sections(true, Mode::IX), [0, 4]);
    // A lock on the whole table lies in a bucket. It searches the one slot that there is for
    // intentions. If inherited, it is marked in the slot when it is taken up and when it is parked.
    assert_eq!(sections(false, Mode::S), [2, 8]);
    assert_eq!(sections(true, Mode::S), [4, 4]);
}

#[test]
fn beside_somebody_who_reads_the_whole_table_as_well() {
    let table = inheriting(64);
    let (mut scanner, mut reader) = (table.locker(), table.locker());
    assert!(granted(table.acquire(&mut scanner, T, Mode::S)));
    for _ in 0..1000 {
        assert!(granted(table.acquire(&mut reader, T, Mode::IS)));
        table.release_all(&mut reader);
    }
    assert_eq!((reader.counts().inherited, reader.counts().granule_calls), (999, 2));
    table.release_all(&mut scanner);
}

#[test]
fn whoever_conflicts_with_a_parked_lock_throws_it_out_and_does_not_wait() {
    for (parked, wanted) in
        [(Mode::IS, Mode::X), (Mode::IX, Mode::S), (Mode::S, Mode::IX), (Mode::S, Mode::X)]
    {
        let table = inheriting(4);
        let (mut a, mut b) = (table.locker(), table.locker());
        assert!(granted(table.acquire(&mut a, T, parked)));
        table.release_all(&mut a);
        assert_eq!(a.parked().collect::<Vec<_>>(), [(T, parked)]);
        assert_eq!((a.holds(T), a.held().count()), (Mode::NONE, 0), "parked is not held");
        assert!(granted(table.acquire(&mut b, T, wanted)), "{parked:?} {wanted:?}");
        assert_eq!(table.acquire(&mut a, T, parked), Acquired::Waiting, "and a has to ask again");
        table.release_all(&mut b);
        assert!(is_granted(&table, &mut a));
        assert_eq!((a.counts().inherited, table.stats().invalidated), (0, 1));
        table.release_all(&mut a);
        assert_eq!(table.requests(), 0);
    }
}

#[test]
fn an_inherited_lock_in_use_is_waited_for() {
    for (parked, wanted) in [(Mode::IS, Mode::X), (Mode::IX, Mode::S), (Mode::S, Mode::IX)] {
        let table = inheriting(4);
        let (mut a, mut b) = (table.locker(), table.locker());
        for _ in 0..2 {
            assert!(granted(table.acquire(&mut a, T, parked)));
            table.release_all(&mut a);
        }
        assert!(granted(table.acquire(&mut a, T, parked)));
        assert_eq!(a.counts().inherited, 2);
        assert_eq!(table.acquire(&mut b, T, wanted), Acquired::Waiting, "{parked:?} {wanted:?}");
        table.release_all(&mut a);
        assert_eq!(a.parked().count(), 0, "what somebody waits for is not parked");
        assert!(is_granted(&table, &mut b));
        table.release_all(&mut b);
        assert_eq!(table.requests(), 0);
    }
}

/// If the parked `IX` still counted as held, b would wait for a and a for b.
#[test]
fn a_parked_lock_closes_no_cycle() {
    let table = inheriting(4);
    let (mut a, mut b) = (table.locker(), table.locker());
    assert!(granted(table.acquire(&mut a, T, Mode::IX)));
    table.release_all(&mut a);
    assert!(granted(table.acquire(&mut b, K, Mode::ROW_X)));
    assert_eq!(table.acquire(&mut a, K, Mode::ROW_X), Acquired::Waiting);
    assert!(granted(table.acquire(&mut b, T, Mode::S)));
    table.release_all(&mut b);
    assert!(is_granted(&table, &mut a));
    table.release_all(&mut a);
    assert_eq!(table.stats().deadlocks, 0);
}

#[test]
fn an_inherited_lock_in_use_closes_one() {
    let table = inheriting(4);
    let (mut a, mut b) = (table.locker(), table.locker());
    for _ in 0..2 {
        table.release_all(&mut a);
        assert!(granted(table.acquire(&mut a, T, Mode::S)));
    }
    assert_eq!(a.counts().inherited, 1);
    assert!(granted(table.acquire(&mut b, K, Mode::ROW_X)));
    assert_eq!(table.acquire(&mut a, K, Mode::ROW_X), Acquired::Waiting);
    assert_eq!(table.acquire(&mut b, T, Mode::IX), Acquired::Deadlock);
    table.release_all(&mut b);
    assert!(is_granted(&table, &mut a));
    table.release_all(&mut a);
}

/// A worker that wrote and then only reads holds no more than a reader: no transaction waits
/// because of inheritance.
#[test]
fn what_is_taken_up_is_just_what_is_asked_for() {
    let table = inheriting(4);
    let (mut a, mut b) = (table.locker(), table.locker());
    assert!(granted(table.acquire(&mut a, T, Mode::IX)));
    table.release_all(&mut a);
    assert!(granted(table.acquire(&mut a, T, Mode::IS)));
    assert_eq!((a.holds(T), a.counts().inherited), (Mode::IS, 1));
    assert!(granted(table.acquire(&mut b, T, Mode::S)));
    [&mut a, &mut b].into_iter().for_each(|l| table.release_all(l));
    assert!(granted(table.acquire(&mut b, T, Mode::IS)), "a parked S serves no other mode");
    assert_eq!((b.holds(T), b.counts().inherited), (Mode::IS, 0));
    assert!(granted(table.acquire(&mut a, T, Mode::IX)));
    [&mut a, &mut b].into_iter().for_each(|l| table.release_all(l));
    assert_eq!(table.requests(), 0);
}

#[test]
fn what_nobody_asks_for_again_is_given_back() {
    let table = inheriting(4);
    let (mut a, mut b) = (table.locker(), table.locker());
    for t in 0..30 {
        assert!(granted(table.acquire(&mut a, LockName::table(TableId(t)), Mode::IX)));
    }
    table.release_all(&mut a);
    assert_eq!(a.parked().count(), 24, "as many as the slot has places for");
    assert_eq!(table.requests(), 0);
    for _ in 0..20 {
        transaction(&table, &mut a, 1, Mode::IX);
    }
    assert_eq!(a.parked().collect::<Vec<_>>(), [(LockName::table(TableId(0)), Mode::IX)]);
    assert!(granted(table.acquire(&mut b, LockName::table(TableId(3)), Mode::X)));
    assert_eq!(table.stats().invalidated, 0, "nothing was in the way");
    table.release_all(&mut b);
}

#[test]
fn prefixes_are_inherited_as_tables_are() {
    let table = inheriting(64);
    let path = [T, LockName::prefix(TableId(1), 1, 77)];
    let mut a = table.locker();
    for _ in 0..1000 {
        assert!(granted(table.acquire_below(&mut a, &path, K, Mode::ROW_X)));
        assert_eq!((a.holds(path[0]), a.holds(path[1])), (Mode::IX, Mode::IX));
        table.release_all(&mut a);
    }
    assert_eq!(a.counts().inherited, 2 * 999);
    let mut b = table.locker();
    assert!(granted(table.acquire_below(&mut b, &[T], path[1], Mode::X)));
    assert_eq!(table.acquire_below(&mut a, &path, K, Mode::ROW_S), Acquired::Waiting);
    table.release_all(&mut b);
    assert!(is_granted(&table, &mut a));
    [&mut a, &mut b].into_iter().for_each(|l| table.release_all(l));
    assert_eq!(table.requests(), 0);
}

#[test]
fn a_dropped_lockers_estate_is_cleared_before_its_number_is_used_again() {
    let table = inheriting(4);
    let mut a = table.locker();
    assert!(granted(table.acquire(&mut a, T, Mode::S)));
    assert!(granted(table.acquire(&mut a, LockName::table(TableId(2)), Mode::IX)));
    table.release_all(&mut a);
    drop(a);
    let (mut a, mut b) = (table.locker(), table.locker());
    assert!(granted(table.acquire(&mut b, T, Mode::IX)));
    assert_eq!(b.counts().fast, 1, "nobody's S is in the way of the fast path");
    assert!(granted(table.acquire(&mut a, LockName::table(TableId(2)), Mode::IS)));
    assert_eq!(a.counts().inherited, 0, "a number inherits nothing");
    [&mut a, &mut b].into_iter().for_each(|l| table.release_all(l));
}

/// A scan lock that was parked and discarded must not keep the intentions of all lockers in the
/// buckets.
#[test]
fn the_fast_path_opens_again_once_a_parked_scan_is_gone() {
    let table = inheriting(4);
    let (mut scanner, mut writer, mut other) = (table.locker(), table.locker(), table.locker());
    assert!(granted(table.acquire(&mut scanner, T, Mode::S)));
    table.release_all(&mut scanner);
    assert!(granted(table.acquire(&mut writer, T, Mode::IX)), "throws the scan out, in the bucket");
    assert!(granted(table.acquire(&mut other, T, Mode::IX)));
    assert_eq!((writer.counts().fast, other.counts().fast), (0, 1));
    [&mut writer, &mut other].into_iter().for_each(|l| table.release_all(l));
    assert!(granted(table.acquire(&mut scanner, T, Mode::S)));
    table.release_all(&mut scanner);
    // The next locker takes over its number, and none of its parked locks.
    drop(scanner);
    let mut last = table.locker();
    assert!(granted(table.acquire(&mut last, T, Mode::IX)));
    assert_eq!(last.counts().fast, 1);
    table.release_all(&mut last);
}
