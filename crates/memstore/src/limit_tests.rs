//! Near the last epoch: commits are refused with a reason, and nothing hangs.

use crate::durable_tests::{T, options};
use crate::{Memstore, Refused, Scope, tid};
use txn::Inserted;

#[test]
fn a_store_that_has_used_up_its_epochs_refuses_commits_and_can_be_read() {
    let store = Memstore::empty(options(), 0, tid::LAST_OF_ALL - 3).unwrap();
    store.create(T).unwrap();
    assert_eq!(store.epochs_left(), 3);
    let mut w = store.worker(0).unwrap();
    let mut refused = None;
    for n in 0..20u8 {
        // Each snapshot ends an epoch.
        let snapshot = w.open_snapshot();
        w.close_snapshot(snapshot);
        let mut txn = w.begin();
        assert_eq!(w.insert(&mut txn, T, &[n], &[n]), Ok(Inserted::Done));
        if let Err((why, _)) = w.commit(txn) {
            refused = refused.or(Some((n, why)));
        } else {
            assert_eq!(refused, None, "refused once, refused for good");
        }
    }
    assert_eq!(refused, Some((3, Refused::EpochsUsedUp)));
    assert_eq!(store.epochs_left(), 0);
    let snapshot = w.open_snapshot();
    assert_eq!(w.read_past(&snapshot, T, &[2], |row| row[0]), Ok(Some(2)));
    assert_eq!(w.read_past(&snapshot, T, &[3], |row| row[0]), Ok(None));
    w.close_snapshot(snapshot);
    // Read-only transactions go on.
    let mut txn = w.begin();
    assert_eq!(w.read(&mut txn, T, &[2], |row| row[0]), Ok(Some(2)));
    assert!(w.commit(txn).is_ok());
    for scope in [Scope::Local, Scope::Distributed] {
        let mut txn = w.begin();
        assert_eq!(w.delete(&mut txn, T, &[2]), Ok(true));
        assert_eq!(w.pre_commit(&mut txn, scope).map(drop), Err(Refused::EpochsUsedUp));
        w.abort(txn);
    }
}

/// A worker that has committed as many transactions as an epoch has numbers begins the next epoch,
/// until the last one.
#[test]
fn the_numbers_of_the_last_epochs_are_used_up_as_well() {
    let store = Memstore::empty(options(), 0, tid::LAST_OF_ALL - 1).unwrap();
    store.create(T).unwrap();
    let mut w = store.worker(0).unwrap();
    let mut txn = w.begin();
    w.insert(&mut txn, T, b"a", b"0").unwrap();
    let mut committed = u32::from(w.commit(txn).is_ok());
    loop {
        let mut txn = w.begin();
        assert!(w.update(&mut txn, T, b"a", |row| row[0] ^= 1).unwrap().is_some());
        match w.commit(txn) {
            Ok(_) => committed += 1,
            Err((why, _)) => break assert_eq!(why, Refused::EpochsUsedUp),
        }
    }
    assert!((8_000..8_200).contains(&committed), "{committed} transactions in two epochs of 4,095");
}
