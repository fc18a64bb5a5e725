//! The writes of a transaction before it commits: new rows with their values already in place,
//! several writes of one row, and stores of only the bytes that changed.

use crate::{Cause, Memstore, Options, Refused, Txn, Worker};
use base::TableId;
use std::sync::Arc;
use txn::{Direction, Flow, Inserted, Range};

const T: TableId = TableId(1);
const CHANGED: Refused = Refused::Conflict(Cause::Changed);

fn store() -> (Arc<Memstore>, Worker, Worker) {
    let options = Options { pages: world::PageSize::Normal, ..Options::new(8 << 20, 2) };
    let store = Memstore::open(options).expect("a small store");
    store.create(T).unwrap();
    let workers = [0, 1].map(|worker| store.worker(worker).unwrap());
    let [a, b] = workers;
    (store, a, b)
}

fn get(w: &mut Worker, t: &mut Txn, key: &[u8]) -> Result<Option<Vec<u8>>, Refused> {
    w.read(t, T, key, <[u8]>::to_vec)
}

fn all(w: &mut Worker, t: &mut Txn) -> Vec<Vec<u8>> {
    let mut rows = Vec::new();
    let visit = |_: &[u8], row: &[u8]| {
        rows.push(row.to_vec());
        Flow::More
    };
    w.scan(t, T, Range::ALL, Direction::Forward, visit).unwrap();
    rows
}

fn commit(w: &mut Worker, t: Box<Txn>) -> Result<(), Refused> {
    w.commit(t).map(drop).map_err(|(refused, _)| refused)
}

fn committed(w: &mut Worker, key: &[u8]) -> Option<Vec<u8>> {
    let mut t = w.begin();
    let found = get(w, &mut t, key).unwrap();
    commit(w, t).unwrap();
    found
}

#[test]
fn a_transaction_sees_and_changes_what_it_has_inserted() {
    let (_store, mut w, _) = store();
    let mut t = w.begin();
    for key in [b"a", b"b", b"c"] {
        assert_eq!(w.insert(&mut t, T, key, b"first of three"), Ok(Inserted::Done));
    }
    assert_eq!(w.insert(&mut t, T, b"a", b"again"), Ok(Inserted::Exists));
    assert_eq!(get(&mut w, &mut t, b"a"), Ok(Some(b"first of three".to_vec())));
    // Not only the range of bytes that it names: nothing of the row has been committed before.
    let second = |row: &mut Vec<u8>| {
        row[..6].copy_from_slice(b"second");
        ((), 0..6)
    };
    assert_eq!(w.update_within(&mut t, T, b"b", second), Ok(Some(())));
    assert_eq!(w.delete(&mut t, T, b"c"), Ok(true));
    assert_eq!(w.delete(&mut t, T, b"c"), Ok(false));
    let now = [b"first of three".to_vec(), b"secondof three".to_vec()];
    assert_eq!(all(&mut w, &mut t), now);
    commit(&mut w, t).unwrap();
    let mut t = w.begin();
    assert_eq!(all(&mut w, &mut t), now);
    w.abort(t);
    assert_eq!(committed(&mut w, b"c"), None);
}

#[test]
fn a_row_that_another_one_has_filled_is_not_read_as_ones_own() {
    for len in [3, 300, 100_000] {
        let (_store, mut a, mut b) = store();
        let (mut t, mut u) = (a.begin(), b.begin());
        assert_eq!(a.insert(&mut t, T, b"k", b"mine"), Ok(Inserted::Done));
        assert_eq!(b.insert(&mut u, T, b"k", &vec![7; len]), Ok(Inserted::Done));
        commit(&mut b, u).unwrap();
        assert_eq!(get(&mut a, &mut t, b"k"), Err(CHANGED));
        assert_eq!(a.update(&mut t, T, b"k", |_| ()), Err(CHANGED));
        assert_eq!(commit(&mut a, t), Err(CHANGED));
        assert_eq!(committed(&mut a, b"k"), Some(vec![7; len]));
    }
}

#[test]
fn what_is_written_twice_is_stored_wherever_it_changed() {
    let (_store, mut w, _) = store();
    let mut t = w.begin();
    w.insert(&mut t, T, b"k", &[0; 100]).unwrap();
    commit(&mut w, t).unwrap();
    let mut t = w.begin();
    let set = |at: usize| move |row: &mut Vec<u8>| (row[at] = 1, at..at + 1);
    for at in [90, 17, 55] {
        assert_eq!(w.update_within(&mut t, T, b"k", set(at)), Ok(Some(())));
    }
    commit(&mut w, t).unwrap();
    let mut expected = vec![0; 100];
    [90, 17, 55].into_iter().for_each(|at| expected[at] = 1);
    assert_eq!(committed(&mut w, b"k"), Some(expected.clone()));
    // If the length of the row changes, the range has no meaning.
    let mut t = w.begin();
    let longer = |row: &mut Vec<u8>| {
        row.resize(120, 9);
        ((), 0..0)
    };
    assert_eq!(w.update_within(&mut t, T, b"k", longer), Ok(Some(())));
    commit(&mut w, t).unwrap();
    expected.resize(120, 9);
    assert_eq!(committed(&mut w, b"k"), Some(expected));
}

#[test]
fn a_row_that_was_written_blindly_counts_as_read() {
    let (_store, mut a, mut b) = store();
    let mut t = a.begin();
    a.insert(&mut t, T, b"k", b"old").unwrap();
    commit(&mut a, t).unwrap();
    for ending in ["update", "delete"] {
        let (mut t, mut u) = (a.begin(), b.begin());
        match ending {
            "update" => assert_eq!(a.update(&mut t, T, b"k", |row| row.push(1)), Ok(Some(()))),
            _ => assert_eq!(a.delete(&mut t, T, b"k"), Ok(true)),
        }
        assert_eq!(b.update(&mut u, T, b"k", |row| row.push(2)), Ok(Some(())));
        commit(&mut b, u).unwrap();
        assert_eq!(commit(&mut a, t), Err(CHANGED), "{ending}");
    }
    assert_eq!(committed(&mut a, b"k"), Some(b"old\x02\x02".to_vec()));
}
