//! How transactions end: what they held is free, and what they leave behind goes.

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

/// What it had read stayed guarded, and counted in again, for good, when it tried once more.
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

/// Each end of a transaction looked for it again, all through the epoch.
#[test]
fn garbage_that_waits_for_an_epoch_is_looked_for_once() {
    let store = small(2);
    let (mut w, mut other) = (store.worker(0).unwrap(), store.worker(1).unwrap());
    insert(&mut w, 0..1);
    let reader = other.begin();
    // Too long to be overwritten where they are.
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
