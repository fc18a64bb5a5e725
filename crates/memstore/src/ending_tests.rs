//! The end of a transaction: everything that it held is released, and its garbage goes.

use crate::{Memstore, Options, Refused, Scope, Worker};
use base::TableId;
use std::sync::Arc;
use txn::Inserted;

const T: TableId = TableId(0);

fn small(workers: usize) -> Arc<Memstore> {
    let options = Options { pages: world::PageSize::Normal, tables: 1, ..Options::new(1 << 18, workers) };
    let store = Memstore::open(options).expect("a small store");
    store.create(T).expect("a table");
    store
}

fn insert(w: &mut Worker, keys: std::ops::Range<u8>) {
    let mut t = w.begin();
    keys.for_each(|key| assert_eq!(w.insert(&mut t, T, &[key], &[0]), Ok(Inserted::Done)));
    w.commit(t).map_err(|(refused, _)| refused).expect("alone");
}

fn overwrite(w: &mut Worker, key: u8) -> Result<(), Refused> {
    let mut t = w.begin();
    w.update(&mut t, T, &[key], |row| row[0] += 1).expect("a row").expect("it is there");
    w.commit(t).map(drop).map_err(|(refused, _)| refused)
}

/// A reservation must not outlive a pre-commit that fails, nor be counted twice when it is tried
/// again.
#[test]
fn a_part_that_finds_no_memory_guards_nothing() {
    let store = small(2);
    let (mut w, mut other) = (store.worker(0).unwrap(), store.worker(1).unwrap());
    insert(&mut w, 0..30);
    let mut t = w.begin();
    assert_eq!(w.read(&mut t, T, &[0], |row| row[0]), Ok(Some(0)));
    for key in 1..30 {
        w.update(&mut t, T, &[key], |row| row.resize(20_000, 1)).expect("not yet");
    }
    for _ in 0..2 {
        assert_eq!(w.pre_commit(&mut t, Scope::Distributed), Err(Refused::Full));
    }
    w.abort(t);
    assert_eq!(overwrite(&mut other, 0), Ok(()));
    let mut t = w.begin();
    assert_eq!(w.read(&mut t, T, &[0], |row| row[0]), Ok(Some(1)));
    for key in 1..30 {
        w.update(&mut t, T, &[key], |row| row.resize(20_000, 1)).expect("not yet");
    }
    assert_eq!(w.pre_commit(&mut t, Scope::Distributed), Err(Refused::Full));
    assert_eq!(overwrite(&mut other, 0), Ok(()), "nothing is guarded between two tries");
    w.abort(t);
}

/// While an epoch lasts, only the first search looks for garbage that waits for its end.
#[test]
fn garbage_that_waits_for_an_epoch_is_looked_for_once() {
    let store = small(2);
    let (mut w, mut other) = (store.worker(0).unwrap(), store.worker(1).unwrap());
    insert(&mut w, 0..1);
    let reader = other.begin();
    // Too long to be overwritten in place.
    let grow = |w: &mut Worker, n: usize| {
        let mut t = w.begin();
        w.update(&mut t, T, &[0], |row| row.resize(1 + n % 2 * 100, 0)).unwrap();
        w.commit(t).map_err(|(refused, _)| refused).unwrap();
    };
    (0..200).for_each(|n| grow(&mut w, n));
    let waiting = w.own.local.waiting();
    assert!(waiting > 64, "{waiting}");
    assert_eq!(w.own.looked, store.epochs.now());
    other.abort(reader);
    grow(&mut w, 0);
    assert!(w.own.local.waiting() >= waiting, "it is looked for again only in the next epoch");
    store.tick();
    grow(&mut w, 1);
    assert!(w.own.local.waiting() < 64, "{} are left of {waiting}", w.own.local.waiting());
}

/// T1 enters a row and aborts. T2 has made the row present and deleted it meanwhile, so both leave
/// it as garbage. When T1's worker looks for it, its memory may be a new row's. That one is absent
/// too, and must not be removed: its transaction would lose it.
#[test]
fn what_an_aborted_insert_left_is_not_mistaken_for_a_new_row_in_its_memory() {
    let store = small(2);
    let (mut w, mut other) = (store.worker(0).unwrap(), store.worker(1).unwrap());
    let (mut t, mut u) = (w.begin(), other.begin());
    assert_eq!(w.insert(&mut t, T, b"k", b"never"), Ok(Inserted::Done));
    let row = t.entered[0].1;
    // The other transaction makes the row present that this one has entered, and deletes it.
    assert_eq!(other.insert(&mut u, T, b"k", b"once"), Ok(Inserted::Done));
    other.commit(u).map_err(|(refused, _)| refused).unwrap();
    w.abort(t);
    let mut u = other.begin();
    assert_eq!(other.delete(&mut u, T, b"k"), Ok(true));
    other.commit(u).map_err(|(refused, _)| refused).unwrap();
    let reused = |other: &mut Worker| {
        let mut u = other.begin();
        assert_eq!(other.insert(&mut u, T, b"k", b"again"), Ok(Inserted::Done));
        let is_reused = u.entered.iter().any(|entered| entered.1 == row);
        (u, is_reused)
    };
    // Repeated until the memory is free again.
    let mut u = loop {
        store.tick();
        other.collect(10);
        match reused(&mut other) {
            (u, true) => break u,
            (u, false) => other.abort(u),
        }
    };
    w.collect(10);
    assert_eq!(other.read(&mut u, T, b"k", <[u8]>::to_vec), Ok(Some(b"again".to_vec())));
    other.commit(u).map_err(|(refused, _)| refused).expect("nobody is in the way");
    assert!(w.own.garbage.is_empty(), "what it was for is gone");
}

/// Within an epoch the words of two rows in the same memory would be equal.
#[test]
fn memory_is_another_rows_only_in_a_later_epoch() {
    let store = small(1);
    let mut w = store.worker(0).unwrap();
    let entered = |w: &mut Worker| {
        let mut t = w.begin();
        assert_eq!(w.insert(&mut t, T, b"k", b"row"), Ok(Inserted::Done));
        let (_, row, word) = t.entered[0];
        w.abort(t);
        w.collect(10);
        (row, word)
    };
    let first = entered(&mut w);
    let second = entered(&mut w);
    assert_ne!(first.0, second.0);
    store.tick();
    w.collect(10);
    let third = entered(&mut w);
    assert!([first, second].iter().any(|old| old.0 == third.0 && old.1 < third.1), "{first:?} {third:?}");
}
