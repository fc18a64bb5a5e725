//! Rows that come and go beside a range that a transaction has read, and within it.

use crate::{Cause, Conflict, Contention, Memstore, Options, Refused, Scope, Txn, Worker};
use base::TableId;
use txn::{Direction, Flow, Inserted, Range};

const T: TableId = TableId(1);
const CHANGED: Result<(), Refused> = Err(Refused::Conflict(Cause::Changed));

/// Two workers of a store with rows `a`, `c` and `e`. The first worker has deleted `c` and not
/// removed it from the index.
fn with_one_deleted() -> (Worker, Worker) {
    with_one_deleted_of(Contention::Queues)
}

fn with_one_deleted_of(contention: Contention) -> (Worker, Worker) {
    let (pages, conflict) = (world::PageSize::Normal, Conflict::Abort);
    let options = Options { pages, conflict, contention, ..Options::new(4 << 20, 2) };
    let store = Memstore::open(options).expect("a small store");
    store.create(T).unwrap();
    let mut w = store.worker(0).unwrap();
    let mut t = w.begin();
    for (key, value) in [(b"a", 1), (b"c", 3), (b"e", 5)] {
        assert_eq!(w.insert(&mut t, T, key, &[value]), Ok(Inserted::Done));
    }
    commit(&mut w, t).unwrap();
    let mut t = w.begin();
    assert_eq!(w.delete(&mut t, T, b"c"), Ok(true));
    commit(&mut w, t).unwrap();
    // Transactions that begin from here on began after the deletion.
    _ = store.tick();
    let other = store.worker(1).unwrap();
    (w, other)
}

fn commit(w: &mut Worker, t: Box<Txn>) -> Result<(), Refused> {
    w.commit(t).map(drop).map_err(|(refused, _)| refused)
}

fn put(w: &mut Worker, t: &mut Txn, key: &[u8], value: u8) {
    assert_eq!(w.update(t, T, key, |row| row[0] = value), Ok(Some(())));
}

/// All keys; absent rows are passed over.
fn all_keys(w: &mut Worker, t: &mut Txn) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let key_of = |key: &[u8], _: &[u8]| {
        keys.push(key.to_vec());
        Flow::More
    };
    w.scan(t, T, Range::default(), Direction::Forward, key_of).unwrap();
    keys
}

#[test]
fn an_absent_row_that_was_passed_may_be_taken_away_but_its_key_may_not_come_back() {
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Then {
        Nothing,
        ComesBack,
        ComesAndGoes,
        OthersCome,
        OwnComes,
    }
    use Then::{ComesAndGoes, ComesBack, Nothing, OthersCome, OwnComes};
    for scope in [Scope::Local, Scope::Distributed] {
        for then in [Nothing, ComesBack, ComesAndGoes, OthersCome, OwnComes] {
            let (mut w, mut other) = with_one_deleted();
            let mut t = other.begin();
            assert_eq!(all_keys(&mut other, &mut t), [b"a", b"e"]);
            put(&mut other, &mut t, b"a", 7);
            // No transaction reads the row any more except this one, which has passed over it.
            w.collect(100);
            assert_eq!(w.find(T, b"c"), Ok(false));
            let mut u = w.begin();
            match then {
                Nothing => {}
                ComesBack | ComesAndGoes => assert_eq!(w.insert(&mut u, T, b"c", &[9]), Ok(Inserted::Done)),
                OthersCome => assert_eq!(w.insert(&mut u, T, b"d", &[9]), Ok(Inserted::Done)),
                OwnComes => assert_eq!(other.insert(&mut t, T, b"d", &[9]), Ok(Inserted::Done)),
            }
            commit(&mut w, u).unwrap();
            if then == ComesAndGoes {
                let mut u = w.begin();
                assert_eq!(w.delete(&mut u, T, b"c"), Ok(true));
                commit(&mut w, u).unwrap();
                w.collect(100);
            }
            let validated = other.pre_commit(&mut t, scope).map(drop);
            let expected = match (scope, then) {
                // A row that a part of a distributed transaction has passed over must stay, and did
                // not.
                (Scope::Distributed, _) => Err(Refused::Conflict(Cause::Changed)),
                (Scope::Local, Nothing | OwnComes) => Ok(()),
                (Scope::Local, _) => Err(Refused::Conflict(Cause::Phantom)),
            };
            assert_eq!(validated, expected, "{scope:?} {then:?}");
            match validated {
                Ok(()) => drop(other.post_commit(t)),
                Err(_) => other.abort(t),
            }
        }
    }
}

#[test]
fn an_absent_row_that_was_passed_does_not_appear_unnoticed() {
    let (mut w, mut other) = with_one_deleted();
    let mut t = other.begin();
    assert_eq!(all_keys(&mut other, &mut t), [b"a", b"e"]);
    put(&mut other, &mut t, b"a", 7);
    // In the same row, without a change of the leaf.
    let mut u = w.begin();
    assert_eq!(w.insert(&mut u, T, b"c", &[9]), Ok(Inserted::Done));
    commit(&mut w, u).unwrap();
    assert_eq!(commit(&mut other, t), CHANGED);
}

#[test]
fn a_scan_goes_past_a_row_that_leaves_as_it_comes_by() {
    let (mut w, mut other) = with_one_deleted();
    let (mut t, mut keys) = (other.begin(), Vec::new());
    let key_of = |key: &[u8], _: &[u8]| {
        // The scan has read the leaf, and not yet the row behind this one.
        w.collect(100);
        keys.push(key.to_vec());
        Flow::More
    };
    other.scan(&mut t, T, Range::default(), Direction::Forward, key_of).unwrap();
    assert_eq!(keys, [b"a", b"e"]);
    assert_eq!(w.find(T, b"c"), Ok(false));
    put(&mut other, &mut t, b"a", 7);
    commit(&mut other, t).unwrap();
}

/// Has another worker insert rows, and if `goes` delete them, while a transaction is open. Returns
/// the result of its commit.
fn with_others(look: impl Fn(&mut Worker, &mut Txn), comes: &[&[u8]], goes: bool) -> Result<(), Refused> {
    let (mut w, mut other) = with_one_deleted();
    let mut t = other.begin();
    look(&mut other, &mut t);
    put(&mut other, &mut t, b"a", 7);
    for key in comes {
        let mut u = w.begin();
        assert_eq!(w.insert(&mut u, T, key, &[9]), Ok(Inserted::Done));
        commit(&mut w, u).unwrap();
        if goes {
            let mut u = w.begin();
            assert_eq!(w.delete(&mut u, T, key), Ok(true));
            commit(&mut w, u).unwrap();
        }
    }
    _ = w.store.tick();
    w.collect(100);
    commit(&mut other, t)
}

#[test]
fn what_comes_beside_a_range_is_no_phantom() {
    let first_of = |low: &'static [u8], high: &'static [u8], direction, flow| {
        move |w: &mut Worker, t: &mut Txn| {
            w.scan(t, T, Range::new(low, high), direction, |_, _| flow).unwrap();
        }
    };
    let (up, down) = (Direction::Forward, Direction::Backward);
    let phantom = Err(Refused::Conflict(Cause::Phantom));
    // Three ends: the end of the range, and a scan that stops, upwards or downwards.
    let all = first_of(b"a", b"m", up, Flow::More);
    let upwards = first_of(b"b", b"m", up, Flow::Enough);
    let downwards = first_of(b"b", b"m", down, Flow::Enough);
    for goes in [false, true] {
        for (key, in_all, up_to_e, down_to_e) in [
            (&b"A"[..], Ok(()), Ok(()), Ok(())),
            (b"a\0", phantom, Ok(()), Ok(())),
            (b"d", phantom, phantom, Ok(())),
            (b"e\0", phantom, Ok(()), phantom),
            (b"f", phantom, Ok(()), phantom),
            (b"m", Ok(()), Ok(()), Ok(())),
        ] {
            assert_eq!(with_others(all, &[key], goes), in_all, "{key:?}");
            assert_eq!(with_others(upwards, &[key], goes), up_to_e, "{key:?} {goes}");
            assert_eq!(with_others(downwards, &[key], goes), down_to_e, "{key:?} {goes}");
        }
        let looked_for_d = |w: &mut Worker, t: &mut Txn| assert_eq!(w.read(t, T, b"d", |_| ()), Ok(None));
        assert_eq!(with_others(looked_for_d, &[b"D", b"d\0", b"dd"], goes), Ok(()));
        assert_eq!(with_others(looked_for_d, &[b"D", b"d"], goes), phantom);
    }
}

#[test]
fn as_in_silo_whatever_comes_to_a_leaf_is_a_phantom() {
    let (mut w, mut other) = with_one_deleted_of(Contention::Optimistic);
    let mut t = other.begin();
    other.scan(&mut t, T, Range::new(b"a", b"b"), Direction::Forward, |_, _| Flow::More).unwrap();
    put(&mut other, &mut t, b"a", 7);
    let mut u = w.begin();
    assert_eq!(w.insert(&mut u, T, b"x", &[9]), Ok(Inserted::Done));
    commit(&mut w, u).unwrap();
    assert_eq!(commit(&mut other, t), Err(Refused::Conflict(Cause::Phantom)));
}

/// Many rows come beside the range, so that the leaf is split by then. In the last case the
/// transaction enters them itself.
#[test]
fn a_leaf_that_was_split_is_looked_at_in_both_halves() {
    let many: Vec<[u8; 2]> = (0..200).map(|n| [b'x', n]).collect();
    let many: Vec<&[u8]> = many.iter().map(|key| &key[..]).collect();
    let range = |w: &mut Worker, t: &mut Txn| {
        w.scan(t, T, Range::new(b"a", b"x"), Direction::Forward, |_, _| Flow::More).unwrap();
    };
    assert_eq!(with_others(range, &many, false), Ok(()));
    let inside: Vec<&[u8]> = many.iter().copied().chain([&b"b"[..]]).collect();
    assert_eq!(with_others(range, &inside, false), Err(Refused::Conflict(Cause::Phantom)));
    let with_own = |w: &mut Worker, t: &mut Txn| {
        range(w, t);
        (0..200).for_each(|n| assert_eq!(w.insert(t, T, &[b'b', n], &[1]), Ok(Inserted::Done)));
    };
    assert_eq!(with_others(with_own, &many, false), Ok(()));
    assert_eq!(with_others(with_own, &[b"b\0\0"], false), Err(Refused::Conflict(Cause::Phantom)));
}

#[test]
fn what_has_come_and_gone_stays_in_the_index_while_anybody_runs_who_could_look_for_it() {
    let (mut w, mut other) = with_one_deleted();
    let t = other.begin();
    let mut u = w.begin();
    assert_eq!(w.insert(&mut u, T, b"d", &[9]), Ok(Inserted::Done));
    commit(&mut w, u).unwrap();
    let mut u = w.begin();
    assert_eq!(w.delete(&mut u, T, b"d"), Ok(true));
    commit(&mut w, u).unwrap();
    (0..5).for_each(|_| _ = w.store.tick());
    w.collect(100);
    assert_eq!((w.find(T, b"d"), w.find(T, b"c")), (Ok(true), Ok(false)));
    other.abort(t);
    w.collect(100);
    assert_eq!(w.find(T, b"d"), Ok(false));
}

#[test]
fn a_prepared_transaction_keeps_nothing_in_the_index_but_what_it_guards() {
    for scope in [Scope::Local, Scope::Distributed] {
        let (mut w, mut other) = with_one_deleted();
        let mut t = other.begin();
        put(&mut other, &mut t, b"a", 7);
        assert_eq!(other.read(&mut t, T, b"e", |row| row[0]), Ok(Some(5)));
        other.pre_commit(&mut t, scope).unwrap();
        // Independent of the time until the decision.
        for n in 0..50 {
            let mut u = w.begin();
            assert_eq!(w.insert(&mut u, T, &[b'q', n], &[9]), Ok(Inserted::Done));
            commit(&mut w, u).unwrap();
            let mut u = w.begin();
            assert_eq!(w.delete(&mut u, T, &[b'q', n]), Ok(true));
            commit(&mut w, u).unwrap();
            _ = w.store.tick();
            w.collect(100);
            assert_eq!(w.find(T, &[b'q', n]), Ok(false));
        }
        let mut u = w.begin();
        let deleted = w.delete(&mut u, T, b"e").and_then(|_| commit(&mut w, u));
        _ = w.store.tick();
        w.collect(100);
        let is_guarded = scope == Scope::Distributed;
        assert_eq!((deleted.is_err(), w.find(T, b"e")), (is_guarded, Ok(is_guarded)));
        other.post_commit(t);
        let mut u = w.begin();
        assert_eq!(w.read(&mut u, T, b"a", |row| row[0]), Ok(Some(7)));
        w.abort(u);
    }
}
