//! Isolation, anomaly by anomaly (names after Adya), and bugs of similar engines, as scripts of one
//! thread.

use crate::hot::Head;
use crate::{
    Cause, Conflict, Contention, LookAhead, Memstore, Options, PrefetchList, Refused, Scope, Txn, Worker,
};
use base::TableId;
use std::sync::Arc;
use txn::{Direction, Flow, Inserted, Range};

const T: TableId = TableId(1);

fn small(conflict: Conflict) -> Options {
    Options { pages: world::PageSize::Normal, conflict, ..Options::new(4 << 20, 2) }
}

fn open(options: Options) -> (Arc<Memstore>, Worker) {
    let store = Memstore::open(options).expect("a small store");
    store.create(T).unwrap();
    let worker = store.worker(0).unwrap();
    (store, worker)
}

/// Rows `a` = 1, `c` = 3, `e` = 5.
fn with_rows(conflict: Conflict) -> (Arc<Memstore>, Worker) {
    with_rows_of(small(conflict))
}

fn with_rows_of(options: Options) -> (Arc<Memstore>, Worker) {
    let (store, mut w) = open(options);
    let mut t = w.begin();
    for (key, value) in [(b"a", 1), (b"c", 3), (b"e", 5)] {
        assert_eq!(w.insert(&mut t, T, key, &[value]), Ok(Inserted::Done));
    }
    commit(&mut w, t).unwrap();
    (store, w)
}

fn commit(w: &mut Worker, t: Box<Txn>) -> Result<(), Refused> {
    w.commit(t).map(drop).map_err(|(refused, _)| refused)
}

fn get(w: &mut Worker, t: &mut Txn, key: &[u8]) -> Option<u8> {
    w.read(t, T, key, |row| row[0]).unwrap()
}

fn put(w: &mut Worker, t: &mut Txn, key: &[u8], value: u8) {
    assert_eq!(w.update(t, T, key, |row| row[0] = value), Ok(Some(())));
}

fn keys(w: &mut Worker, t: &mut Txn, direction: Direction) -> String {
    let mut keys = String::new();
    let visit = |key: &[u8], _: &[u8]| {
        keys.push_str(std::str::from_utf8(key).unwrap());
        Flow::More
    };
    w.scan(t, T, Range::default(), direction, visit).unwrap();
    keys
}

fn now(w: &mut Worker, key: &[u8]) -> Option<u8> {
    let mut t = w.begin();
    let found = get(w, &mut t, key);
    commit(w, t).unwrap();
    found
}

const CHANGED: Result<(), Refused> = Err(Refused::Conflict(Cause::Changed));
const PHANTOM: Result<(), Refused> = Err(Refused::Conflict(Cause::Phantom));

#[test]
fn g0_writes_of_two_are_not_mixed() {
    let (_store, mut w) = with_rows(Conflict::Abort);
    let (mut t1, mut t2) = (w.begin(), w.begin());
    put(&mut w, &mut t1, b"a", 11);
    put(&mut w, &mut t2, b"a", 12);
    put(&mut w, &mut t1, b"c", 11);
    commit(&mut w, t1).unwrap();
    put(&mut w, &mut t2, b"c", 12);
    assert_eq!(commit(&mut w, t2), CHANGED);
    assert_eq!((now(&mut w, b"a"), now(&mut w, b"c")), (Some(11), Some(11)));
}

#[test]
fn g1_nothing_aborted_or_intermediate_is_read() {
    let (_store, mut w) = with_rows(Conflict::Abort);
    let (mut t1, mut t2) = (w.begin(), w.begin());
    put(&mut w, &mut t1, b"a", 11);
    assert_eq!(get(&mut w, &mut t2, b"a"), Some(1));
    put(&mut w, &mut t1, b"a", 12);
    assert_eq!(get(&mut w, &mut t1, b"a"), Some(12), "its own writes it sees");
    w.abort(t1);
    commit(&mut w, t2).unwrap();
    assert_eq!(now(&mut w, b"a"), Some(1));
}

#[test]
fn g1c_no_circle_of_information() {
    let (_store, mut w) = with_rows(Conflict::Abort);
    let (mut t1, mut t2) = (w.begin(), w.begin());
    put(&mut w, &mut t1, b"a", 11);
    put(&mut w, &mut t2, b"c", 12);
    assert_eq!((get(&mut w, &mut t1, b"c"), get(&mut w, &mut t2, b"a")), (Some(3), Some(1)));
    commit(&mut w, t1).unwrap();
    assert_eq!(commit(&mut w, t2), CHANGED);
}

#[test]
fn g_single_reads_of_two_moments_do_not_commit() {
    let (_store, mut w) = with_rows(Conflict::Abort);
    let (mut t1, mut t2) = (w.begin(), w.begin());
    assert_eq!(get(&mut w, &mut t1, b"a"), Some(1));
    put(&mut w, &mut t2, b"a", 11);
    put(&mut w, &mut t2, b"c", 13);
    commit(&mut w, t2).unwrap();
    assert_eq!(get(&mut w, &mut t1, b"c"), Some(13));
    assert_eq!(commit(&mut w, t1), CHANGED);
}

#[test]
fn g2_item_write_skew() {
    let (_store, mut w) = with_rows(Conflict::Abort);
    let (mut t1, mut t2) = (w.begin(), w.begin());
    for t in [&mut t1, &mut t2] {
        assert_eq!((get(&mut w, t, b"a"), get(&mut w, t, b"c")), (Some(1), Some(3)));
    }
    put(&mut w, &mut t1, b"a", 0);
    put(&mut w, &mut t2, b"c", 0);
    commit(&mut w, t1).unwrap();
    assert_eq!(commit(&mut w, t2), CHANGED);
}

#[test]
fn g2_phantoms_in_both_directions_and_of_single_keys() {
    for direction in [Direction::Forward, Direction::Backward] {
        let (_store, mut w) = with_rows(Conflict::Abort);
        let (mut t1, mut t2) = (w.begin(), w.begin());
        assert_eq!(keys(&mut w, &mut t1, direction).len(), 3);
        assert_eq!(get(&mut w, &mut t2, b"b"), None);
        put(&mut w, &mut t1, b"a", 9);
        w.insert(&mut t2, T, b"d", b"x").unwrap();
        commit(&mut w, t2).unwrap();
        assert_eq!(commit(&mut w, t1), PHANTOM);
        let (mut t1, mut t2) = (w.begin(), w.begin());
        assert_eq!(get(&mut w, &mut t1, b"b"), None);
        w.insert(&mut t2, T, b"b", b"x").unwrap();
        commit(&mut w, t2).unwrap();
        assert_eq!(commit(&mut w, t1), PHANTOM);
    }
}

#[test]
fn an_insert_entered_before_a_scan_and_committed_after_it_is_not_missed() {
    let (_store, mut w) = with_rows(Conflict::Abort);
    let (mut t1, mut t2) = (w.begin(), w.begin());
    w.insert(&mut t2, T, b"d", b"x").unwrap();
    assert_eq!(keys(&mut w, &mut t1, Direction::Forward), "ace");
    commit(&mut w, t2).unwrap();
    assert_eq!(commit(&mut w, t1), CHANGED);
}

#[test]
fn an_aborted_delete_does_not_vanish_from_scans() {
    let (store, mut w) = with_rows(Conflict::Abort);
    let mut t = w.begin();
    assert_eq!(w.delete(&mut t, T, b"c"), Ok(true));
    assert_eq!((keys(&mut w, &mut t, Direction::Forward), get(&mut w, &mut t, b"c")), ("ae".into(), None));
    assert_eq!(w.delete(&mut t, T, b"c"), Ok(false));
    w.pre_commit(&mut t, Scope::Local).unwrap();
    w.abort(t);
    store.tick();
    w.collect(100);
    let mut t = w.begin();
    assert_eq!(keys(&mut w, &mut t, Direction::Backward), "eca");
    commit(&mut w, t).unwrap();
}

#[test]
fn an_insert_over_a_row_that_is_being_taken_away_is_not_lost() {
    let (store, mut w) = with_rows(Conflict::Abort);
    let mut t = w.begin();
    w.delete(&mut t, T, b"c").unwrap();
    commit(&mut w, t).unwrap();
    store.tick();
    // Finds the absent row, which then leaves the index.
    let mut t = w.begin();
    assert_eq!(w.insert(&mut t, T, b"c", &[33]), Ok(Inserted::Done));
    store.tick();
    w.collect(100);
    assert_eq!(commit(&mut w, t), CHANGED);
    let mut t = w.begin();
    assert_eq!(w.insert(&mut t, T, b"c", &[33]), Ok(Inserted::Done));
    commit(&mut w, t).unwrap();
    w.collect(100);
    assert_eq!(now(&mut w, b"c"), Some(33));
}

#[test]
fn of_two_inserts_of_a_key_one_wins_even_if_the_first_aborts() {
    let (_store, mut w) = with_rows(Conflict::Abort);
    let (mut t1, mut t2, mut t3) = (w.begin(), w.begin(), w.begin());
    for (t, value) in [(&mut t1, 41), (&mut t2, 42), (&mut t3, 43)] {
        assert_eq!(w.insert(t, T, b"d", &[value]), Ok(Inserted::Done));
        assert_eq!(w.insert(t, T, b"d", &[0]), Ok(Inserted::Exists));
    }
    w.abort(t1);
    commit(&mut w, t2).unwrap();
    w.collect(100);
    assert_eq!(commit(&mut w, t3), CHANGED);
    assert_eq!(now(&mut w, b"d"), Some(42));
    let mut t = w.begin();
    assert_eq!(w.insert(&mut t, T, b"d", &[0]), Ok(Inserted::Exists));
    commit(&mut w, t).unwrap();
}

#[test]
fn its_own_inserts_and_splits_are_no_phantoms() {
    let (_store, mut w) = with_rows(Conflict::Abort);
    let mut t = w.begin();
    assert_eq!(keys(&mut w, &mut t, Direction::Forward), "ace");
    for n in 0..100u8 {
        w.insert(&mut t, T, &[b'f', n], &[n]).unwrap();
        w.insert(&mut t, T, &[b'b', n], &[n]).unwrap();
    }
    assert_eq!(w.delete(&mut t, T, &[b'f', 7]), Ok(true));
    let mut found = 0;
    let mut count = |_: &[u8], _: &[u8]| {
        found += 1;
        Flow::More
    };
    w.scan(&mut t, T, Range::default(), Direction::Forward, &mut count).unwrap();
    assert_eq!(found, 202);
    commit(&mut w, t).unwrap();
    assert_eq!((now(&mut w, &[b'f', 7]), now(&mut w, &[b'b', 7])), (None, Some(7)));
}

#[test]
fn a_prepared_row_is_an_abort_or_a_wait_and_its_decision_holds() {
    for conflict in [Conflict::Abort, Conflict::Wait] {
        let (store, mut w) = with_rows(conflict);
        let mut other = store.worker(1).unwrap();
        let (mut t1, mut t2) = (w.begin(), other.begin());
        assert_eq!(get(&mut other, &mut t2, b"a"), Some(1));
        put(&mut w, &mut t1, b"a", 11);
        let tid = w.pre_commit(&mut t1, Scope::Local).unwrap();
        put(&mut other, &mut t2, b"e", 15);
        let met = commit_or_wait(&mut other, t2);
        let read = {
            let mut t = other.begin();
            let read = other.read(&mut t, T, b"a", |row| row[0]);
            other.abort(t);
            read
        };
        match conflict {
            Conflict::Abort => {
                assert_eq!(read, Err(Refused::Conflict(Cause::Locked)));
                assert!(met.is_none());
                assert_eq!(w.post_commit(t1).tid, tid);
            }
            Conflict::Wait => {
                let Err(Refused::Busy(row)) = read else { panic!("{read:?}") };
                assert!(store.is_busy(row));
                w.abort(t1);
                assert!(!store.is_busy(row));
                // It read the row in its committed state.
                commit(&mut other, met.expect("it waits")).unwrap();
                assert_eq!(now(&mut w, b"e"), Some(15));
            }
        }
        let expected = if conflict == Conflict::Abort { 11 } else { 1 };
        assert_eq!(now(&mut w, b"a"), Some(expected));
    }
}

fn commit_or_wait(w: &mut Worker, t: Box<Txn>) -> Option<Box<Txn>> {
    let (refused, t) = w.commit(t).unwrap_err();
    assert_eq!(matches!(refused, Refused::Busy(_)), t.is_some());
    t
}

#[test]
fn the_epoch_is_taken_after_the_locks() {
    let (store, mut w) = with_rows(Conflict::Abort);
    let mut other = store.worker(1).unwrap();
    let (mut t1, mut t2) = (w.begin(), other.begin());
    put(&mut w, &mut t1, b"c", 13);
    store.tick();
    let now = store.tick();
    put(&mut other, &mut t2, b"a", 11);
    let second = other.commit(t2).map_err(|(refused, _)| refused).unwrap();
    // It began in an earlier epoch than the other transaction, and comes after it, since it reads
    // from it.
    assert_eq!(get(&mut w, &mut t1, b"a"), Some(11));
    let first = w.commit(t1).map_err(|(refused, _)| refused).unwrap();
    assert!(first.tid > second.tid && first.epoch >= now);
}

#[test]
fn a_snapshot_sees_its_moment_whatever_comes_later() {
    let (store, mut w) = with_rows(Conflict::Abort);
    let mut prepared = w.begin();
    put(&mut w, &mut prepared, b"e", 50);
    w.pre_commit(&mut prepared, Scope::Local).unwrap();
    let early = w.open_snapshot();
    assert!(!w.is_ready(&early), "a transaction that comes before it has not written yet");
    assert_eq!(w.read_past(&early, T, b"a", |_| ()), Err(Refused::NotReady));
    w.post_commit(prepared);
    assert!(w.is_ready(&early));
    for round in 0..3 {
        let mut t = w.begin();
        put(&mut w, &mut t, b"a", 100 + round);
        w.update(&mut t, T, b"e", |row| row.resize(40 + usize::from(round) * 100, round)).unwrap();
        match round {
            0 => assert_eq!(w.delete(&mut t, T, b"c"), Ok(true)),
            1 => assert_eq!(w.insert(&mut t, T, b"c", b"again"), Ok(Inserted::Done)),
            _ => assert_eq!(w.insert(&mut t, T, b"b", b"new"), Ok(Inserted::Done)),
        }
        commit(&mut w, t).unwrap();
        store.tick();
        w.collect(100);
        let mid = w.open_snapshot();
        assert_eq!(w.read_past(&mid, T, b"a", |row| row[0]), Ok(Some(100 + round)));
        assert_eq!(w.read_past(&mid, T, b"e", <[u8]>::len), Ok(Some(40 + usize::from(round) * 100)));
        w.close_snapshot(mid);
        let mut seen = Vec::new();
        let visit = |key: &[u8], row: &[u8]| {
            seen.push((key.to_vec(), row.to_vec()));
            Flow::More
        };
        w.scan_past(&early, T, Range::default(), Direction::Forward, visit).unwrap();
        let was = [(b"a", 1), (b"c", 3), (b"e", 50)].map(|(key, value)| (key.to_vec(), vec![value]));
        assert_eq!(seen, was);
    }
    w.close_snapshot(early);
    w.collect(100);
    assert_eq!(w.own.garbage.len(), 0, "versions nobody can read were kept");
}

/// Two transactions that both read and write a row. One commits, so the other fails.
fn clash(w: &mut Worker, key: &[u8]) {
    let (mut t1, mut t2) = (w.begin(), w.begin());
    put(w, &mut t1, key, 7);
    put(w, &mut t2, key, 7);
    commit(w, t1).unwrap();
    assert_eq!(commit(w, t2), CHANGED);
}

#[test]
fn a_row_that_keeps_failing_is_carried_out_in_turn() {
    for (conflict, contention) in [
        (Conflict::Wait, Contention::Queues),
        (Conflict::Abort, Contention::Queues),
        (Conflict::Wait, Contention::Optimistic),
    ] {
        let (store, mut w) = with_rows_of(Options { contention, ..small(conflict) });
        let mut other = store.worker(1).unwrap();
        (0..3).for_each(|_| clash(&mut w, b"a"));
        let (mut t1, mut t2) = (w.begin(), other.begin());
        put(&mut w, &mut t1, b"a", 1);
        let met = other.update(&mut t2, T, b"a", |row| row[0] = 2);
        if (conflict, contention) != (Conflict::Wait, Contention::Queues) {
            // It goes on without its turn, and fails.
            assert_eq!(met, Ok(Some(())));
            commit(&mut w, t1).unwrap();
            assert_eq!(commit(&mut other, t2), CHANGED);
            continue;
        }
        let Err(Refused::Busy(row)) = met else { panic!("{met:?}") };
        assert!(store.is_busy(row));
        // Readers wait as well. Rows that are not hot need no turn.
        let mut t3 = other.begin();
        assert!(matches!(other.read(&mut t3, T, b"a", |_| ()), Err(Refused::Busy(_))));
        assert_eq!(get(&mut other, &mut t3, b"c"), Some(3));
        put(&mut w, &mut t1, b"c", 4);
        commit(&mut w, t1).unwrap();
        assert!(!store.is_busy(row));
        put(&mut other, &mut t2, b"a", 2);
        commit(&mut other, t2).unwrap();
        // It has its turn now. A row that it read before it waited has changed: it aborts at once.
        assert_eq!(other.read(&mut t3, T, b"a", |_| ()), Err(Refused::Conflict(Cause::Changed)));
        other.abort(t3);
        assert_eq!(now(&mut w, b"a"), Some(2));
    }
}

/// Deletes the first row from a key on.
fn take_first(w: &mut Worker, t: &mut Txn, from: &[u8]) -> Result<Vec<u8>, Refused> {
    w.queue_at(t, T, from)?;
    let mut first = Vec::new();
    let range = Range { low: Some(from), high: None };
    w.scan(t, T, range, Direction::Forward, |key, _| {
        first = key.to_vec();
        Flow::Enough
    })?;
    w.delete(t, T, &first).map(|_| first)
}

#[test]
fn whoever_takes_rows_from_where_others_have_failed_waits_for_its_turn() {
    for contention in [Contention::Queues, Contention::Optimistic] {
        let (store, mut w) = with_rows_of(Options { contention, ..small(Conflict::Wait) });
        let mut other = store.worker(1).unwrap();
        let mut fill = w.begin();
        (0..8).for_each(|n| assert_eq!(w.insert(&mut fill, T, &[b'q', n], &[n]), Ok(Inserted::Done)));
        commit(&mut w, fill).unwrap();
        for n in 0..3 {
            // Another row each time.
            let (mut t1, mut t2) = (w.begin(), other.begin());
            assert_eq!(take_first(&mut w, &mut t1, b"q"), Ok(vec![b'q', n]));
            assert_eq!(take_first(&mut other, &mut t2, b"q"), Ok(vec![b'q', n]));
            commit(&mut w, t1).unwrap();
            assert_eq!(commit(&mut other, t2), CHANGED);
        }
        let (mut t1, mut t2) = (w.begin(), other.begin());
        assert_eq!(take_first(&mut w, &mut t1, b"q"), Ok(vec![b'q', 3]));
        let met = take_first(&mut other, &mut t2, b"q");
        if contention == Contention::Optimistic {
            assert_eq!(met, Ok(vec![b'q', 3]));
            continue;
        }
        let Err(Refused::Busy(queue)) = met else { panic!("{met:?}") };
        // Transactions that begin at another key, and those that only read, do not wait.
        let mut t3 = other.begin();
        assert_eq!(take_first(&mut other, &mut t3, b"a"), Ok(b"a".to_vec()));
        assert_eq!(get(&mut other, &mut t3, b"q\x03"), Some(3));
        other.abort(t3);
        assert!(store.is_busy(queue));
        commit(&mut w, t1).unwrap();
        assert!(!store.is_busy(queue));
        assert_eq!(take_first(&mut other, &mut t2, b"q"), Ok(vec![b'q', 4]));
        commit(&mut other, t2).unwrap();
    }
}

#[test]
fn a_head_is_hot_until_nobody_has_waited_there_for_long() {
    let (_, mut w) = with_rows(Conflict::Wait);
    let head = Head::of(T, b"q");
    (0..3).for_each(|_| w.store.hot.failed_from(head, 1));
    // A failure long afterwards keeps it hot.
    w.store.hot.failed_from(head, 1000);
    let mut turns = 0;
    while w.store.hot.is_hot(head) {
        let mut t = w.begin();
        w.queue_at(&mut t, T, b"q").unwrap();
        assert!(t.has_turns());
        w.abort(t);
        turns += 1;
        assert!(turns < 10_000, "it stays hot");
    }
    assert!(turns > 100, "{turns}");
}

#[test]
fn waiting_for_turns_ends_and_cannot_close_a_cycle() {
    let (store, mut w) = with_rows(Conflict::Wait);
    let mut other = store.worker(1).unwrap();
    for key in [b"a", b"c"] {
        (0..3).for_each(|_| clash(&mut w, key));
    }
    let (mut t1, mut t2) = (w.begin(), other.begin());
    put(&mut w, &mut t1, b"a", 1);
    put(&mut other, &mut t2, b"c", 1);
    let crossed =
        [w.update(&mut t1, T, b"c", |row| row[0] = 3), other.update(&mut t2, T, b"a", |row| row[0] = 3)];
    assert_eq!(crossed.iter().filter(|met| met.is_ok()).count(), 1, "{crossed:?}");
    // Neither moves: a few epochs later the other one goes on as well.
    (0..10).for_each(|_| _ = store.tick());
    put(&mut w, &mut t1, b"c", 3);
    put(&mut other, &mut t2, b"a", 3);
    commit(&mut w, t1).unwrap();
    assert_eq!(commit(&mut other, t2), CHANGED);
}

#[test]
fn what_was_looked_up_ahead_is_taken_only_while_it_holds() {
    for look_ahead in [LookAhead::Batched, LookAhead::Never] {
        let (store, mut w) = with_rows_of(Options { look_ahead, ..small(Conflict::Abort) });
        let mut other = store.worker(1).unwrap();
        // A row that is still there, absent, goes for good. Another one comes, and one is written.
        let mut u = other.begin();
        assert_eq!(other.delete(&mut u, T, b"c"), Ok(true));
        commit(&mut other, u).unwrap();
        store.tick();
        let mut t = w.begin();
        w.prefetch(&mut t, T, &[b"a", b"b", b"c", b"d", b"e"]).unwrap();
        assert_eq!(w.prefetch(&mut t, TableId(9), &[b"a"]), Err(Refused::NoTable(TableId(9))));
        let mut u = other.begin();
        assert_eq!(other.insert(&mut u, T, b"b", &[2]), Ok(Inserted::Done));
        put(&mut other, &mut u, b"e", 15);
        commit(&mut other, u).unwrap();
        other.collect(100);
        assert_eq!(other.find(T, b"c"), Ok(false));
        let read = [b"a", b"b", b"c", b"d", b"e"].map(|key| get(&mut w, &mut t, key));
        assert_eq!(read, [Some(1), Some(2), None, None, Some(15)]);
        commit(&mut w, t).unwrap();
        // Nothing is left for the next transaction, neither a result nor a key that was never read.
        let mut t = w.begin();
        w.prefetch(&mut t, T, &[b"a", b"x"]).unwrap();
        assert_eq!(get(&mut w, &mut t, b"b"), Some(2));
        assert_eq!(get(&mut w, &mut t, b"a"), Some(1));
        let mut u = other.begin();
        assert_eq!(other.insert(&mut u, T, b"x", &[9]), Ok(Inserted::Done));
        commit(&mut other, u).unwrap();
        commit(&mut w, t).unwrap();
    }
}

#[test]
fn what_a_transaction_to_come_wants_is_no_part_of_any() {
    for look_ahead in [LookAhead::Batched, LookAhead::Never] {
        let (store, mut w) = with_rows_of(Options { look_ahead, ..small(Conflict::Abort) });
        let mut other = store.worker(1).unwrap();
        let mut t = w.begin();
        assert_eq!(get(&mut w, &mut t, b"a"), Some(1));
        let mut wanted = PrefetchList::default();
        for (table, key) in [(T, b"c"), (T, b"d"), (T, b"e"), (T, b"x"), (TableId(9), b"a")] {
            w.prefetch_hint(&mut wanted, table, key);
        }
        // By now one hint leads to a dead row, or to a row of another key.
        let mut u = other.begin();
        assert_eq!(other.delete(&mut u, T, b"c"), Ok(true));
        put(&mut other, &mut u, b"e", 15);
        commit(&mut other, u).unwrap();
        (0..3).for_each(|_| _ = store.tick());
        other.collect(100);
        w.prefetch_rows(&mut wanted);
        w.prefetch_rows(&mut wanted);
        assert_eq!(get(&mut w, &mut t, b"e"), Some(15));
        commit(&mut w, t).unwrap();
        let mut t = w.begin();
        assert_eq!([b"c", b"x"].map(|key| get(&mut w, &mut t, key)), [None, None]);
        commit(&mut w, t).unwrap();
    }
}

/// Runs of keys within one leaf, over the border of two leaves, and with numbers that no row has.
#[test]
fn keys_that_lie_together_are_looked_up_ahead_from_one_of_them() {
    let (_store, mut w) = open(small(Conflict::Abort));
    let key = |group: u64, n: u64| [group.to_be_bytes(), n.to_be_bytes()].concat();
    let mut t = w.begin();
    for (group, n) in (0..3).flat_map(|group| (0..200).map(move |n| (group, n))).filter(|(_, n)| n % 7 > 0) {
        assert_eq!(w.insert(&mut t, T, &key(group, n), &[n as u8]), Ok(Inserted::Done));
    }
    commit(&mut w, t).unwrap();
    for (group, first) in (0..3).flat_map(|group| (0..190).map(move |first| (group, first))) {
        let mut t = w.begin();
        let wanted: Vec<_> = (first..first + 12).map(|n| key(group, n)).collect();
        w.prefetch(&mut t, T, &wanted).unwrap();
        for (n, wanted) in (first..).zip(&wanted) {
            let there = n % 7 > 0 && n < 200;
            assert_eq!(get(&mut w, &mut t, wanted), there.then_some(n as u8), "{n} of {first} and on");
        }
        commit(&mut w, t).unwrap();
    }
}

#[test]
fn an_absence_looked_up_ahead_is_a_phantom_if_it_ends() {
    // Looked up alone, as one of two without a hint, and side by side.
    for wanted in [&[b"b"][..], &[b"b", b"a"], &[b"b", b"d"]] {
        let (_store, mut w) = with_rows(Conflict::Abort);
        let (mut t, mut u) = (w.begin(), w.begin());
        assert_eq!(get(&mut w, &mut u, b"a"), Some(1));
        w.prefetch(&mut t, T, wanted).unwrap();
        assert_eq!(get(&mut w, &mut t, b"b"), None);
        assert_eq!(w.insert(&mut u, T, b"b", &[2]), Ok(Inserted::Done));
        commit(&mut w, u).unwrap();
        assert_eq!(commit(&mut w, t), PHANTOM, "{wanted:?}");
    }
}

#[test]
fn rows_grow_shrink_and_come_back() {
    let (_store, mut w) = with_rows(Conflict::Abort);
    let mut random = fastrand::Rng::with_seed(4);
    for _ in 0..300 {
        let len = if random.bool() { random.usize(0..60) } else { random.usize(0..5000) };
        let byte = random.u8(..);
        let mut t = w.begin();
        w.update(&mut t, T, b"a", |row| {
            row.clear();
            row.resize(len, byte);
        })
        .unwrap();
        commit(&mut w, t).unwrap();
        let mut t = w.begin();
        assert_eq!(w.read(&mut t, T, b"a", <[u8]>::to_vec), Ok(Some(vec![byte; len])));
        commit(&mut w, t).unwrap();
    }
}

#[test]
fn what_does_not_fit_is_refused_and_the_store_lives_on() {
    let (store, mut w) = with_rows(Conflict::Abort);
    let mut t = w.begin();
    assert_eq!(w.insert(&mut t, T, &[0; 1025], b""), Err(Refused::KeyTooLong(1025)));
    assert_eq!(w.insert(&mut t, T, b"k", &vec![0; 262_145]), Err(Refused::RowTooLong(262_145)));
    assert_eq!(w.update(&mut t, T, b"a", |row| row.resize(262_145, 0)), Err(Refused::RowTooLong(262_145)));
    assert_eq!(w.read(&mut t, TableId(9), b"a", |_| ()), Err(Refused::NoTable(TableId(9))));
    assert!(store.create(TableId(999)).is_err() && store.worker(0).is_err() && store.worker(7).is_err());
    let mut n = 0u32;
    let full = loop {
        match w.insert(&mut t, T, &n.to_be_bytes(), &[7; 10_000]) {
            Ok(_) => n += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!(full, Refused::Full);
    assert_eq!(w.delete(&mut t, T, b"a"), Ok(true));
    commit(&mut w, t).unwrap();
    let mut t = w.begin();
    for n in 0..n {
        assert_eq!(w.delete(&mut t, T, &n.to_be_bytes()), Ok(true));
    }
    commit(&mut w, t).unwrap();
    w.collect(10_000);
    store.tick();
    w.collect(10_000);
    let mut t = w.begin();
    for n in 0..n {
        assert_eq!(w.insert(&mut t, T, &n.to_be_bytes(), &[8; 10_000]), Ok(Inserted::Done), "{n}");
    }
    commit(&mut w, t).unwrap();
    assert_eq!((now(&mut w, &0u32.to_be_bytes()), now(&mut w, b"c")), (Some(8), Some(3)));
}

fn finish<R>(w: &mut Worker, t: Box<Txn>, done: Result<R, Refused>) -> Result<R, Refused> {
    match done {
        Ok(done) => commit(w, t).map(|()| done),
        Err(refused) => {
            w.abort(t);
            Err(refused)
        }
    }
}

/// Inserts as many rows as fit, each in a transaction of its own.
fn fill_up(w: &mut Worker, first: u32) -> u32 {
    let mut n = first;
    loop {
        let mut t = w.begin();
        let inserted = w.insert(&mut t, T, &n.to_be_bytes(), &[7; 500]);
        match finish(w, t, inserted) {
            Ok(_) => n += 1,
            Err(refused) => {
                assert_eq!(refused, Refused::Full);
                return n - first;
            }
        }
    }
}

#[test]
fn what_one_worker_deletes_another_can_use() {
    let (store, mut w) = with_rows(Conflict::Abort);
    let mut other = store.worker(1).unwrap();
    let fitted = fill_up(&mut w, 0);
    assert!(fitted > 1000, "{fitted}");
    for n in 0..fitted {
        let mut t = other.begin();
        assert_eq!(other.delete(&mut t, T, &n.to_be_bytes()), Ok(true));
        commit(&mut other, t).unwrap();
        store.tick();
    }
    other.collect(10_000);
    let again = fill_up(&mut w, fitted);
    // The other worker keeps a slab or two of each class.
    assert!(again > fitted * 3 / 4, "{again} after {fitted}");
}

#[test]
fn a_full_store_under_load_lives_on_and_gets_its_memory_back() {
    const WORKERS: u32 = 3;
    const SIZES: [usize; 3] = [100, 1000, 2500];
    let (store, _) = with_rows_of(Options { workers: WORKERS as usize, ..small(Conflict::Abort) });
    let full = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for me in 0..WORKERS {
            let (store, full) = (&store, &full);
            scope.spawn(move || {
                let (mut w, mut random) =
                    (store.worker(me as usize).unwrap(), fastrand::Rng::with_seed(u64::from(me)));
                // Its own rows: all are there and no others, also after refusals.
                let mut own = std::collections::BTreeMap::new();
                for step in 0..6000u32 {
                    let key = (random.u32(..2000) * WORKERS + me).to_be_bytes();
                    let grows = step / 1500 % 2 == 0;
                    let mut t = w.begin();
                    let byte = step as u8;
                    let done = match own.contains_key(&key) {
                        true if grows => w.update(&mut t, T, &key, |row| row.fill(byte)).map(|_| Some(byte)),
                        true => w.delete(&mut t, T, &key).map(|_| None),
                        false => w
                            .insert(&mut t, T, &key, &vec![byte; SIZES[random.usize(..3)]])
                            .map(|_| Some(byte)),
                    };
                    match finish(&mut w, t, done) {
                        Ok(Some(byte)) => drop(own.insert(key, byte)),
                        Ok(None) => drop(own.remove(&key)),
                        Err(Refused::Full) => {
                            full.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        }
                        // A leaf or an absent row that another transaction changed.
                        Err(Refused::Conflict(_)) => {}
                        Err(refused) => panic!("{refused}"),
                    }
                    if step % 16 == 0 {
                        store.tick();
                        w.collect(1000);
                    }
                }
                for (key, byte) in own {
                    let mut t = w.begin();
                    assert_eq!(w.read(&mut t, T, &key, |row| row.iter().all(|b| *b == byte)), Ok(Some(true)));
                    assert_eq!(w.delete(&mut t, T, &key), Ok(true));
                    commit(&mut w, t).unwrap();
                }
            });
        }
    });
    assert!(full.into_inner() > 0, "the budget was never used up");
    // Memory that was given up in one epoch can be used in the next.
    for _ in 0..2 {
        store.tick();
        (0..WORKERS).for_each(|n| _ = store.worker(n as usize).unwrap().collect(100_000));
    }
    let mut w = store.worker(0).unwrap();
    let mut t = w.begin();
    assert_eq!(keys(&mut w, &mut t, Direction::Forward), "ace");
    for n in 0..200u32 {
        assert_eq!(w.insert(&mut t, T, &n.to_be_bytes(), &vec![1; SIZES[1]]), Ok(Inserted::Done));
    }
    commit(&mut w, t).unwrap();
}

#[test]
fn memory_does_not_grow_with_time() {
    let (store, mut w) = with_rows(Conflict::Abort);
    let mut used = 0;
    for round in 0..3000u32 {
        // A queue with rows that come and go, also in transactions that abort, and a row that is
        // updated under snapshots.
        for ends in [round % 3 != 0, true] {
            let mut t = w.begin();
            w.append(&mut t, T, &[1; 100]).unwrap();
            w.insert(&mut t, T, &(1 << 30 | round).to_be_bytes(), &[2; 200]).unwrap();
            put(&mut w, &mut t, b"a", round as u8);
            if !ends {
                w.abort(t);
                continue;
            }
            if let Some(old) = round.checked_sub(50) {
                assert_eq!(w.delete(&mut t, T, &(1 << 30 | old).to_be_bytes()), Ok(true));
                let mut first = Vec::new();
                let visit = |key: &[u8], _: &[u8]| {
                    first = key.to_vec();
                    Flow::Enough
                };
                w.scan(&mut t, T, Range::default(), Direction::Forward, visit).unwrap();
                assert_eq!(w.delete(&mut t, T, &first), Ok(true));
            }
            commit(&mut w, t).unwrap();
            break;
        }
        let snapshot = w.open_snapshot();
        w.close_snapshot(snapshot);
        store.tick();
        if round == 1000 {
            used = store.used_bytes();
        }
    }
    assert!(used > 0 && store.used_bytes() <= used, "{used} became {}", store.used_bytes());
}
