//! More transactions at once than a table has numbers: none panics, each gets an answer, and all
//! get their turn.

use crate::{Table, granted};
use base::TableId;
use locks::{Acquired, Inheritance, LockName, LockOptions, LockTuning, Locker, MAX_LOCKERS, Mode};

const T: LockName = LockName::table(TableId(1));

fn key(n: usize) -> LockName {
    LockName::key(TableId(1), n as u64)
}

fn table(inheritance: Inheritance) -> Table {
    Table::with(LockOptions { buckets: 1 << 12, tuning: LockTuning { inheritance, ..LockTuning::PLAIN } })
}

fn lock(table: &Table, locker: &mut Locker, n: usize) -> Acquired {
    table.acquire_below(locker, &[T], key(n), Mode::ROW_X)
}

#[test]
fn one_transaction_too_many_is_told_and_let_in_when_another_ends() {
    for inheritance in [Inheritance::Off, Inheritance::On] {
        let table = table(inheritance);
        let mut lockers: Vec<Locker> = (0..MAX_LOCKERS).map(|_| table.locker()).collect();
        for (n, locker) in lockers.iter_mut().enumerate() {
            assert!(granted(lock(&table, locker, n)));
        }
        let mut more = table.locker();
        table.label(&mut more, 77);
        for _ in 0..2 {
            assert_eq!(lock(&table, &mut more, MAX_LOCKERS), Acquired::Crowded);
            assert_eq!(table.acquire(&mut more, T, Mode::S), Acquired::Crowded);
            assert_eq!(table.acquire(&mut more, key(MAX_LOCKERS), Mode::ROW_S), Acquired::Crowded);
        }
        assert_eq!(more.held().count(), 0);
        // A transaction that aborts for this reason does the same.
        table.release_all(&mut more);

        table.release_all(&mut lockers[500]);
        assert!(granted(lock(&table, &mut more, MAX_LOCKERS)));
        let mut labels = Vec::new();
        table.labels(|label| labels.push(label));
        assert!(labels.contains(&77));
        assert_eq!(lock(&table, &mut lockers[500], 500), Acquired::Crowded);
        table.release_all(&mut lockers[500]);

        // A dropped locker makes room as well, and the last to come sees the locks of the others.
        let mut first = lockers.swap_remove(0);
        table.release_all(&mut first);
        drop(first);
        let mut last = table.locker();
        assert_eq!(lock(&table, &mut last, 1), Acquired::Waiting);
        lockers.iter_mut().for_each(|locker| table.release_all(locker));
        assert!(crate::is_granted(&table, &mut last));
        table.release_all(&mut more);
        table.release_all(&mut last);
        assert_eq!(table.requests(), 0);
        let requests = table.stats().granule_requests;
        assert_eq!(requests, MAX_LOCKERS as u64 + 2, "a number that changes hands takes no counts along");
    }
}

/// Lockers are kept from one transaction to the next; a burst leaves many of them behind.
#[test]
fn those_that_have_nothing_to_do_keep_nobody_out() {
    for inheritance in [Inheritance::Off, Inheritance::On] {
        let table = table(inheritance);
        let mut lockers: Vec<Locker> = (0..MAX_LOCKERS + 1000).map(|_| table.locker()).collect();
        for (n, locker) in lockers.iter_mut().enumerate().rev() {
            assert!(granted(lock(&table, locker, n)), "{n}");
            table.release_all(locker);
        }
        assert_eq!(table.requests(), 0);
        // The locks that they have left parked do not block a lock on the whole table.
        assert!(granted(table.acquire(&mut lockers[0], T, Mode::X)));
        table.release_all(&mut lockers[0]);
    }
}
