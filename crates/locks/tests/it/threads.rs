//! Many threads against one invariant: no two threads ever hold conflicting locks.

use crate::{Table, wait};
use base::TableId;
use locks::{Acquired, Gap, Inheritance, LockName, LockOptions, LockTuning, Locker, Mode, Row, Victim};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};

/// The locks that each thread should hold, recorded apart from the table.
#[derive(Default)]
struct Ledger(Mutex<HashMap<LockName, Vec<(usize, Mode)>>>);

impl Ledger {
    fn write(&self, who: usize, name: LockName, mode: Mode) {
        let mut all = self.0.lock().unwrap();
        let holders = all.entry(name).or_default();
        holders.retain(|h| h.0 != who);
        for (other, held) in holders.iter() {
            assert!(held.compatible(mode), "{who} got {mode:?} on {name:?} while {other} holds {held:?}");
        }
        holders.push((who, mode));
    }

    fn erase(&self, who: usize) {
        self.0.lock().unwrap().values_mut().for_each(|h| h.retain(|h| h.0 != who));
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

fn any_lock(random: &mut Random) -> (LockName, Mode) {
    let table = TableId(random.below(2) as u16);
    if random.below(3) == 0 {
        let at = if random.below(4) == 0 { random.below(6) } else { random.below(2) };
        return (LockName::table(table), Mode::TABLE[at as usize]);
    }
    let rows = [Row::None, Row::S, Row::U, Row::X];
    let gaps = [Gap::None, Gap::S, Gap::Insert, Gap::X];
    let mode = Mode::key(rows[random.below(4) as usize], gaps[random.below(4) as usize]);
    let mode = if mode == Mode::NONE { Mode::ROW_AND_GAP_S } else { mode };
    match random.below(8) {
        0 => (LockName::end(table), mode),
        k => (LockName::key(table, k), mode),
    }
}

fn transaction(table: &Table, locker: &mut Locker, who: usize, random: &mut Random, ledger: &Ledger) -> bool {
    let mut done = true;
    for _ in 0..random.below(8) {
        let (name, mode) = any_lock(random);
        let before = locker.holds(name);
        match table.acquire(locker, name, mode) {
            Acquired::Granted => {}
            Acquired::Waiting => {
                if random.below(16) == 0 {
                    table.cancel(locker);
                }
                if wait(table, locker).is_err() {
                    assert_eq!(locker.holds(name), before);
                    done = false;
                    break;
                }
            }
            Acquired::Deadlock => {
                assert_eq!(locker.holds(name), before);
                done = false;
                break;
            }
            Acquired::Crowded => panic!("there are few lockers"),
        }
        assert!(locker.holds(name).covers(mode));
        if random.below(4) == 0 {
            std::thread::yield_now();
        }
        ledger.write(who, name, locker.holds(name));
        if random.below(8) == 0 {
            ledger.write(who, name, before);
            table.restore(locker, name, before);
        }
    }
    ledger.erase(who);
    table.release_all(locker);
    done
}

#[test]
fn no_two_hold_what_conflicts_and_no_wake_up_is_lost() {
    for inheritance in [Inheritance::Off, Inheritance::On] {
        for victim in [Victim::Requester, Victim::Youngest] {
            many_threads(LockTuning { inheritance, victim, ..LockTuning::PLAIN });
        }
    }
}

fn many_threads(tuning: LockTuning) {
    let table = Table::with(LockOptions { buckets: 4, tuning });
    let ledger = Ledger::default();
    let committed = AtomicU64::new(0);
    let together = Barrier::new(6);
    std::thread::scope(|scope| {
        for who in 0..6 {
            let (table, ledger, committed, together) = (&table, &ledger, &committed, &together);
            scope.spawn(move || {
                together.wait();
                let mut random = Random(0x1234_5678 + who as u64 * 7919);
                let mut locker = table.locker();
                for begun in 0..2_000 {
                    locker.begun_ns = begun;
                    let done = transaction(table, &mut locker, who, &mut random, ledger);
                    committed.fetch_add(u64::from(done), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(table.requests(), 0);
    let stats = table.stats();
    assert!(stats.waits > 100 && stats.deadlocks > 0 && stats.migrated > 0, "the run met nothing: {stats:?}");
    let inherits = tuning.inheritance == Inheritance::On;
    assert_eq!((stats.inherited > 0, stats.invalidated > 0), (inherits, inherits), "{stats:?}");
    assert!(committed.into_inner() > 4_000);
}

/// A scan counts the rows of a table that only holders of `IX` change. The fast path must not let
/// such a holder pass.
#[test]
fn a_scanner_never_meets_a_writer() {
    for inheritance in [Inheritance::Off, Inheritance::On] {
        let tuning = LockTuning { inheritance, ..LockTuning::PLAIN };
        scanner_and_writers(&Table::with(LockOptions { buckets: 4, tuning }));
    }
}

fn scanner_and_writers(table: &Table) {
    let writers = AtomicU64::new(0);
    let name = LockName::table(TableId(9));
    let hold = |locker: &mut Locker, mode, inside: &dyn Fn()| {
        if table.acquire(locker, name, mode) == Acquired::Waiting {
            wait(table, locker).expect("nobody cancels");
        }
        inside();
        table.release_all(locker);
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut locker = table.locker();
                for _ in 0..20_000 {
                    hold(&mut locker, Mode::IX, &|| {
                        writers.fetch_add(1, Ordering::SeqCst);
                        writers.fetch_sub(1, Ordering::SeqCst);
                    });
                }
            });
        }
        scope.spawn(|| {
            let mut locker = table.locker();
            for _ in 0..5_000 {
                hold(&mut locker, Mode::S, &|| assert_eq!(writers.load(Ordering::SeqCst), 0));
            }
        });
    });
    assert_eq!(table.requests(), 0);
}
