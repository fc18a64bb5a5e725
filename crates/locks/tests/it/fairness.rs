//! No request waits for ever: one writer among readers that never leave the lock free, readers
//! among writers, and one request for the whole table among lockers that inherit it.

use crate::{Table, inheriting, wait};
use base::TableId;
use locks::{Acquired, LockName, Locker, Mode};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const T: LockName = LockName::table(TableId(1));
const K: LockName = LockName::key(TableId(1), 5);

fn lock(table: &Table, locker: &mut Locker, name: LockName, mode: Mode) {
    if table.acquire(locker, name, mode) == Acquired::Waiting {
        wait(table, locker).expect("nobody cancels");
    }
}

/// Two crowd members hold `crowd` in turns that overlap, so the lock is never free. Meanwhile one
/// locker requests `alone` again and again, and must get it (the wait fails the test after 5 s).
fn alone_in_a_crowd(table: &Table, name: LockName, crowd: Mode, alone: Mode) {
    const TIMES: u64 = 50;
    let (over, inside, turns) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let (mut one, mut other) = (table.locker(), table.locker());
                lock(table, &mut one, name, crowd);
                while !over.load(Ordering::Relaxed) {
                    // The next lock is requested before the last is released, unless the locker
                    // would wait for itself.
                    if table.acquire(&mut other, name, crowd) == Acquired::Waiting {
                        table.release_all(&mut one);
                        wait(table, &mut other).expect("nobody cancels");
                    }
                    inside.fetch_add(1, Ordering::SeqCst);
                    table.release_all(&mut one);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    turns.fetch_add(1, Ordering::Relaxed);
                    std::mem::swap(&mut one, &mut other);
                }
                table.release_all(&mut one);
            });
        }
        let mut locker = table.locker();
        for _ in 0..TIMES {
            let before = turns.load(Ordering::Relaxed);
            lock(table, &mut locker, name, alone);
            assert!(alone.compatible(crowd) || inside.load(Ordering::SeqCst) == 0);
            table.release_all(&mut locker);
            while turns.load(Ordering::Relaxed) == before {
                std::thread::yield_now();
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(table.requests(), 0);
    assert!(table.stats().waits > 0, "the crowd was never in the way");
}

#[test]
fn a_writer_among_readers() {
    alone_in_a_crowd(&Table::new(4), K, Mode::ROW_S, Mode::ROW_X);
}

#[test]
fn a_reader_among_writers() {
    alone_in_a_crowd(&Table::new(4), K, Mode::ROW_X, Mode::ROW_S);
}

#[test]
fn one_who_wants_the_table_among_those_who_inherit_it() {
    for (crowd, alone) in [(Mode::IX, Mode::S), (Mode::IS, Mode::X), (Mode::S, Mode::IX)] {
        alone_in_a_crowd(&inheriting(4), T, crowd, alone);
    }
}
