//! The order of grants: arrival, conversions, releases, wake-ups, giving up.

use crate::{Table, bell, granted, is_granted, poll};
use base::TableId;
use locks::{Acquired, LockAbort, LockName, Mode};
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

const T: LockName = LockName::table(TableId(1));
const K: LockName = LockName::key(TableId(1), 5);
const N: LockName = LockName::key(TableId(1), 6);

#[test]
fn a_waiting_writer_is_not_overtaken_by_readers() {
    let table = Table::new(4);
    let (mut reader, mut writer, mut late) = (table.locker(), table.locker(), table.locker());
    assert!(granted(table.acquire(&mut reader, K, Mode::ROW_S)));
    assert_eq!(table.acquire(&mut writer, K, Mode::ROW_X), Acquired::Waiting);
    assert_eq!(table.acquire(&mut late, K, Mode::ROW_S), Acquired::Waiting);
    table.release_all(&mut reader);
    assert!(is_granted(&table, &mut writer));
    assert!(!is_granted(&table, &mut late));
    table.release_all(&mut writer);
    assert!(is_granted(&table, &mut late));
    table.release_all(&mut late);
}

#[test]
fn a_request_that_delays_nobody_passes_a_waiting_one() {
    let table = Table::new(4);
    let (mut a, mut b, mut c) = (table.locker(), table.locker(), table.locker());
    assert!(granted(table.acquire(&mut a, K, Mode::ROW_X)));
    assert_eq!(table.acquire(&mut b, K, Mode::ROW_X), Acquired::Waiting);
    assert!(granted(table.acquire(&mut c, K, Mode::GAP_S)), "the gap is free and b does not want it");
    [&mut a, &mut b, &mut c].into_iter().for_each(|l| table.release_all(l));
    assert_eq!(table.requests(), 0);
}

#[test]
fn a_conversion_goes_before_new_requests() {
    let table = Table::new(4);
    let (mut a, mut b, mut new) = (table.locker(), table.locker(), table.locker());
    assert!(granted(table.acquire(&mut a, K, Mode::ROW_S)));
    assert!(granted(table.acquire(&mut b, K, Mode::ROW_S)));
    assert_eq!(table.acquire(&mut new, K, Mode::ROW_X), Acquired::Waiting);
    assert_eq!(table.acquire(&mut a, K, Mode::ROW_X), Acquired::Waiting);
    table.release_all(&mut b);
    assert!(is_granted(&table, &mut a));
    assert!(!is_granted(&table, &mut new));
    assert_eq!(a.holds(K), Mode::ROW_X);
    table.release_all(&mut a);
    assert!(is_granted(&table, &mut new));
    table.release_all(&mut new);
}

#[test]
fn a_lock_asked_for_again_is_recognised_however_many_are_held() {
    let table = Table::new(64);
    let mut a = table.locker();
    let key = |i: u64| LockName::key(TableId(1), base::hash64(&i.to_be_bytes()));
    for i in 0..10_000 {
        assert_eq!(table.acquire(&mut a, key(i), Mode::ROW_S), Acquired::Granted);
    }
    for i in 0..10_000 {
        assert_eq!(table.acquire(&mut a, key(i), Mode::ROW_S), Acquired::Granted);
    }
    assert_eq!((table.requests(), a.counts().repeated, a.held().count()), (10_000, 10_000, 10_000));
    table.release(&mut a, key(7));
    assert_eq!((a.holds(key(7)), a.holds(key(8))), (Mode::NONE, Mode::ROW_S));
    assert_eq!(table.acquire(&mut a, key(7), Mode::ROW_X), Acquired::Granted);
    assert_eq!(a.holds(key(7)), Mode::ROW_X);
    table.release_all(&mut a);
    assert_eq!((table.requests(), a.held().count(), a.holds(key(7))), (0, 0, Mode::NONE));
}

#[test]
fn a_lock_wanted_for_a_moment_goes_back_to_what_it_was() {
    let table = Table::new(4);
    let (mut a, mut b) = (table.locker(), table.locker());
    assert!(granted(table.acquire(&mut a, N, Mode::ROW_S)));
    assert!(granted(table.acquire(&mut a, N, Mode::GAP_INSERT)));
    assert_eq!(table.acquire(&mut b, N, Mode::GAP_S), Acquired::Waiting);
    table.release_instant(&mut a, N);
    assert!(is_granted(&table, &mut b));
    assert_eq!(a.holds(N), Mode::ROW_S);
    table.release_all(&mut a);
    table.release_all(&mut b);
}

#[test]
fn intentions_that_took_the_fast_path_still_stop_whoever_wants_the_table() {
    let table = Table::new(4);
    let (mut a, mut b, mut whole) = (table.locker(), table.locker(), table.locker());
    assert!(granted(table.acquire(&mut a, T, Mode::IS)));
    assert!(granted(table.acquire(&mut a, T, Mode::IX)));
    assert!(granted(table.acquire(&mut b, T, Mode::IS)));
    assert_eq!((a.counts().fast, b.counts().fast, table.requests()), (1, 1, 0));
    assert_eq!(table.acquire(&mut whole, T, Mode::S), Acquired::Waiting);
    assert_eq!(table.stats().migrated, 2);
    table.release_all(&mut a);
    assert!(is_granted(&table, &mut whole));
    assert!(granted(table.acquire(&mut a, T, Mode::IS)));
    assert_eq!(table.acquire(&mut b, T, Mode::IX), Acquired::Waiting);
    table.release_all(&mut whole);
    assert!(is_granted(&table, &mut b));
    table.release_all(&mut a);
    table.release_all(&mut b);
    assert!(granted(table.acquire(&mut b, T, Mode::IX)));
    assert_eq!(b.counts().fast, 2, "with the scanner gone the fast path is open again");
    assert!(granted(table.acquire(&mut b, T, Mode::X)), "one's own intention is no obstacle");
    table.release_all(&mut b);
    assert!(granted(table.acquire(&mut a, T, Mode::IX)));
    assert_eq!(a.counts().fast, 2);
    table.release_all(&mut a);
    assert_eq!(table.requests(), 0);
}

#[test]
fn more_tables_than_the_fast_path_has_room_for() {
    let table = Table::new(4);
    let (mut a, mut b) = (table.locker(), table.locker());
    for t in 0..40 {
        assert!(granted(table.acquire(&mut a, LockName::table(TableId(t)), Mode::IX)));
    }
    assert_eq!((a.counts().fast, table.requests()), (16, 24));
    for t in 0..40 {
        assert_eq!(table.acquire(&mut b, LockName::table(TableId(t)), Mode::X), Acquired::Waiting);
        table.cancel(&mut b);
    }
    table.release_all(&mut a);
    assert_eq!(table.requests(), 0);
}

#[test]
fn a_wait_that_is_given_up_leaves_what_was_held_and_lets_others_by() {
    let table = Table::new(4);
    let (mut a, mut b, mut c) = (table.locker(), table.locker(), table.locker());
    assert!(granted(table.acquire(&mut a, K, Mode::ROW_S)));
    assert!(granted(table.acquire(&mut b, K, Mode::ROW_S)));
    b.deadline_ns = 100;
    assert_eq!(table.acquire(&mut b, K, Mode::ROW_X), Acquired::Waiting);
    assert_eq!(table.acquire(&mut c, K, Mode::ROW_S), Acquired::Waiting);
    let (bell, waker) = bell();
    let mut cx = Context::from_waker(&waker);
    assert!(table.poll(&mut c, &mut cx).is_pending());
    assert!(table.poll_until(&mut b, 99, &mut cx).is_pending());
    assert_eq!(table.poll_until(&mut b, 100, &mut cx), Poll::Ready(Err(LockAbort::Timeout)));
    assert_eq!(bell.0.load(Ordering::SeqCst), 1, "c was waiting for b's conversion only");
    assert!(is_granted(&table, &mut c));
    assert_eq!(b.holds(K), Mode::ROW_S);
    [&mut a, &mut b, &mut c].into_iter().for_each(|l| table.release_all(l));
    assert_eq!((table.requests(), table.stats().cancelled), (0, 1));
}

#[test]
fn read_locks_go_early_and_write_locks_stay() {
    let table = Table::new(4);
    let mut a = table.locker();
    let names = [
        (T, Mode::IX),
        (K, Mode::ROW_AND_GAP_S),
        (N, Mode::ROW_AND_GAP_X),
        (LockName::end(TableId(1)), Mode::GAP_S),
    ];
    for (name, mode) in names {
        assert!(granted(table.acquire(&mut a, name, mode)));
    }
    table.release_shared(&mut a);
    assert_eq!(a.held().collect::<Vec<_>>(), [(T, Mode::IX), (N, Mode::ROW_AND_GAP_X)]);
    table.release_all(&mut a);
    assert_eq!(table.requests(), 0);
}

#[test]
fn a_dropped_lockers_number_is_used_again() {
    let table = Table::new(4);
    for _ in 0..100_000 {
        drop(table.locker());
    }
    let mut a = table.locker();
    assert_eq!(poll(&table, &mut a), Poll::Ready(Ok(())), "nothing is awaited");
}

/// Update intent: readers come and go beside it, a second one waits, and the conversion waits for
/// the present readers but admits no new one. With S in its place, two transactions that read
/// before they write would deadlock.
#[test]
fn one_who_reads_to_update_among_readers_and_its_like() {
    let table = Table::new(4);
    let (mut a, mut b, mut reader, mut late) =
        (table.locker(), table.locker(), table.locker(), table.locker());
    let path = [T];
    assert!(granted(table.acquire_below(&mut a, &path, K, Mode::ROW_U)));
    assert_eq!(a.holds(T), Mode::IX);
    assert!(granted(table.acquire_below(&mut reader, &path, K, Mode::ROW_S)));
    assert_eq!(table.acquire_below(&mut b, &path, K, Mode::ROW_U), Acquired::Waiting);
    assert_eq!(table.acquire_below(&mut a, &path, K, Mode::ROW_X), Acquired::Waiting);
    assert_eq!(table.acquire_below(&mut late, &path, K, Mode::ROW_S), Acquired::Waiting);
    table.release_all(&mut reader);
    assert!(is_granted(&table, &mut a));
    assert_eq!(a.holds(K), Mode::ROW_X);
    table.release_all(&mut a);
    assert!(is_granted(&table, &mut b) && is_granted(&table, &mut late), "U and S go together");
    assert!(granted(table.acquire_below(&mut late, &path, K, Mode::ROW_S)));
    [&mut b, &mut late].into_iter().for_each(|l| table.release_all(l));
    assert_eq!((table.requests(), table.stats().deadlocks), (0, 0));
}
