//! The lock table under shuttle: its own code, with a mutex at which shuttle may switch to any
//! other thread. All state that lockers share is behind such a mutex, except the counter of strong
//! requests, which the slots' mutexes order.

use base::TableId;
use latch::RawMutex;
use locks::{
    Acquired, Escalation, Inheritance, LockName, LockOptions, LockTable, LockTuning, Locker, Mode, Victim,
};
use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use shuttle::thread;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

struct Switching(AtomicBool);

impl RawMutex for Switching {
    const SHARED: bool = true;
    const RANKED: bool = false;
    const NEW: Switching = Switching(AtomicBool::new(false));

    fn lock(&self) {
        while self.0.swap(true, Ordering::SeqCst) {
            thread::yield_now();
        }
    }

    fn unlock(&self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

type Table = LockTable<Switching>;

const T: LockName = LockName::table(TableId(1));
const K: LockName = LockName::key(TableId(1), 5);
const L: LockName = LockName::key(TableId(1), 6);

fn table(inheritance: Inheritance, victim: Victim) -> Arc<Table> {
    let tuning = LockTuning { inheritance, victim, ..LockTuning::PLAIN };
    Arc::new(Table::with(LockOptions { buckets: 2, tuning }))
}

/// Whether the lock is held; if not, the transaction must end.
fn lock(table: &Table, locker: &mut Locker, name: LockName, mode: Mode) -> bool {
    match table.acquire(locker, name, mode) {
        Acquired::Granted => return true,
        Acquired::Deadlock => return false,
        Acquired::Crowded => panic!("there are few lockers"),
        Acquired::Waiting => {}
    }
    loop {
        match table.poll(locker, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => return result.is_ok(),
            Poll::Pending => thread::yield_now(),
        }
    }
}

/// The view of the holders of a name: how many are in, and whether one of them must be alone.
#[derive(Default)]
struct Room {
    shared: AtomicU64,
    alone: AtomicU64,
}

impl Room {
    fn visit(&self, alone: bool) {
        let (mine, others) = if alone { (&self.alone, &self.shared) } else { (&self.shared, &self.alone) };
        let before = mine.fetch_add(1, Ordering::SeqCst);
        assert!(!alone || before == 0, "two who must be alone are in");
        assert_eq!(others.load(Ordering::SeqCst), 0, "somebody is in with one who must be alone");
        mine.fetch_sub(1, Ordering::SeqCst);
    }
}

fn inherit_invalidate_reuse(crowd: Mode, alone: Mode) {
    let table = table(Inheritance::On, Victim::Requester);
    let room = Arc::new(Room::default());
    let agents: Vec<_> = (0..2)
        .map(|_| {
            let (table, room) = (Arc::clone(&table), Arc::clone(&room));
            thread::spawn(move || {
                let mut locker = table.locker();
                for _ in 0..3 {
                    assert!(lock(&table, &mut locker, T, crowd));
                    room.visit(false);
                    table.release_all(&mut locker);
                }
                locker.counts().inherited
            })
        })
        .collect();
    let mut locker = table.locker();
    for _ in 0..2 {
        assert!(lock(&table, &mut locker, T, alone));
        room.visit(true);
        table.release_all(&mut locker);
    }
    let inherited: u64 = agents.into_iter().map(|a| a.join().unwrap()).sum();
    assert!(inherited <= 4);
    assert_eq!(table.requests(), 0);
    // The locks that the agents have left parked block no request.
    assert!(lock(&table, &mut locker, T, Mode::X));
    table.release_all(&mut locker);
    assert_eq!(table.requests(), 0);
}

#[test]
fn intentions_parked_in_slots() {
    shuttle::check_random(|| inherit_invalidate_reuse(Mode::IX, Mode::S), 1500);
    shuttle::check_pct(|| inherit_invalidate_reuse(Mode::IS, Mode::X), 500, 4);
}

#[test]
fn shared_locks_parked_in_buckets() {
    shuttle::check_random(|| inherit_invalidate_reuse(Mode::S, Mode::IX), 1500);
    shuttle::check_pct(|| inherit_invalidate_reuse(Mode::S, Mode::X), 500, 4);
}

/// Two rows locked in opposite orders, and the whole table: each run ends, and no locker is in
/// where another must be alone. A lost wake-up or an undetected cycle would never end (shuttle
/// reports it as too many steps).
fn crossing(inheritance: Inheritance, victim: Victim) {
    let table = table(inheritance, victim);
    let rooms = Arc::new([Room::default(), Room::default()]);
    let crossers: Vec<_> = [[0, 1], [1, 0]]
        .into_iter()
        .enumerate()
        .map(|(who, order)| {
            let (table, rooms) = (Arc::clone(&table), Arc::clone(&rooms));
            thread::spawn(move || {
                let mut locker = table.locker();
                locker.begun_ns = who as u64;
                let mut tries = 0;
                loop {
                    tries += 1;
                    let all = lock(&table, &mut locker, T, Mode::IX)
                        && order.iter().all(|&at| lock(&table, &mut locker, [K, L][at], Mode::ROW_X));
                    if all {
                        rooms.iter().for_each(|r| r.visit(true));
                    }
                    table.release_all(&mut locker);
                    if all {
                        return tries;
                    }
                }
            })
        })
        .collect();
    let mut whole = table.locker();
    whole.begun_ns = 7;
    if lock(&table, &mut whole, T, Mode::S) {
        rooms.iter().for_each(|r| r.visit(false));
    }
    table.release_all(&mut whole);
    let tries: Vec<u32> = crossers.into_iter().map(|c| c.join().unwrap()).collect();
    if victim == Victim::Youngest {
        assert_eq!(tries[0], 1, "the oldest is never the victim");
    }
    assert_eq!(table.requests(), 0);
}

/// A locker requests again a lock that still blocked another locker when that one began its walk.
/// The walk must not take the old edge and the new one for a cycle.
#[test]
fn one_lock_alone_is_never_a_deadlock() {
    shuttle::check_random(
        || {
            let table = table(Inheritance::Off, Victim::Requester);
            let others: Vec<_> = (0..3)
                .map(|_| {
                    let table = Arc::clone(&table);
                    thread::spawn(move || {
                        let mut locker = table.locker();
                        for _ in 0..2 {
                            assert!(lock(&table, &mut locker, K, Mode::ROW_S));
                            table.release_all(&mut locker);
                        }
                    })
                })
                .collect();
            let mut locker = table.locker();
            for _ in 0..2 {
                assert!(lock(&table, &mut locker, K, Mode::ROW_X));
                table.release_all(&mut locker);
            }
            others.into_iter().for_each(|o| o.join().unwrap());
        },
        1500,
    );
}

/// Readers of many keys then read a row that writers change before they write one of those keys.
/// The readers escalate to the table and go back to keys before they wait, so no transaction
/// aborts, and no writer is in with a reader of its key.
fn escalated_readers_among_writers() {
    let tuning = LockTuning { escalation: Escalation { reads: Some(1), writes: None }, ..LockTuning::PLAIN };
    let table = Arc::new(Table::with(LockOptions { buckets: 2, tuning }));
    let rooms: Arc<[Room; 4]> = Arc::default();
    let other = LockName::table(TableId(2));
    let row = LockName::key(TableId(2), 1);
    let key = |at: usize| LockName::key(TableId(1), at as u64);
    let take = move |table: &Table, locker: &mut Locker, path, name, mode| loop {
        match table.acquire_below(locker, &[path], name, mode) {
            Acquired::Granted => return,
            Acquired::Deadlock => panic!("a deadlock that key locks would not have made"),
            Acquired::Crowded => panic!("there are few lockers"),
            Acquired::Waiting => loop {
                match table.poll(locker, &mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(granted) => break granted.unwrap(),
                    Poll::Pending => thread::yield_now(),
                }
            },
        }
    };
    let writers: Vec<_> = (2..4)
        .map(|at| {
            let (table, rooms) = (Arc::clone(&table), Arc::clone(&rooms));
            thread::spawn(move || {
                let mut locker = table.locker();
                take(&table, &mut locker, other, row, Mode::ROW_X);
                take(&table, &mut locker, T, key(at), Mode::ROW_X);
                rooms[at].visit(true);
                table.release_all(&mut locker);
            })
        })
        .collect();
    let mut locker = table.locker();
    for _ in 0..2 {
        (0..3).for_each(|at| take(&table, &mut locker, T, key(at), Mode::ROW_S));
        rooms[2].visit(false);
        table.release_all(&mut locker);
        (0..2).for_each(|at| take(&table, &mut locker, T, key(at), Mode::ROW_S));
        take(&table, &mut locker, other, row, Mode::ROW_S);
        rooms[1].visit(false);
        table.release_all(&mut locker);
    }
    writers.into_iter().for_each(|w| w.join().unwrap());
    assert_eq!(table.requests(), 0);
}

#[test]
fn who_waits_holds_no_escalated_table() {
    shuttle::check_random(escalated_readers_among_writers, 1500);
    shuttle::check_pct(escalated_readers_among_writers, 500, 4);
}

#[test]
fn crossing_transactions_end() {
    for inheritance in [Inheritance::Off, Inheritance::On] {
        for victim in [Victim::Requester, Victim::Youngest] {
            shuttle::check_random(move || crossing(inheritance, victim), 400);
        }
    }
}
