//! The intentions in a slot under loom: every interleaving of a few steps of a locker and of one
//! that wants the whole table, in loom's memory model. This file compiles `fast.rs` a second time
//! against loom's atomics and mutex, so the model explores the shipped code. The steps around it
//! are those of `inherit.rs` and `table.rs`, with one bucket.

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU16, AtomicU64, Ordering};
}

mod guarded {
    use std::marker::PhantomData;

    pub(crate) struct Guarded<M, T>(loom::sync::Mutex<T>, PhantomData<M>);

    impl<M, T> Guarded<M, T> {
        pub(crate) fn new(_: latch::Rank, data: T) -> Self {
            Guarded(loom::sync::Mutex::new(data), PhantomData)
        }

        pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
            f(&mut self.0.lock().expect("no thread of a model panics and goes on"))
        }
    }
}

#[allow(dead_code, clippy::duplicate_mod)]
#[path = "fast.rs"]
mod fast;

use crate::mode::Mode;
use crate::tuning::Inheritance;
use base::TableId;
use fast::{Fast, Taken};
use latch::SpinRaw;
use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::sync::atomic::AtomicU64;
use loom::thread::spawn;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const T: TableId = TableId(7);
/// Another table of the locker, in the same word.
const U: TableId = TableId(9);

/// The requests in the bucket of the table.
#[derive(Default)]
struct Bucket {
    /// The locker's intention is here.
    intention: bool,
    /// A lock on the whole table is granted.
    whole: bool,
}

struct World {
    fast: Fast<SpinRaw>,
    strong: AtomicU64,
    bucket: Mutex<Bucket>,
    /// The table's rows: loom reports two threads that access them at once, or without ordering.
    rows: UnsafeCell<u64>,
}

impl World {
    #[expect(clippy::arc_with_non_send_sync, reason = "loom's threads are tasks of one thread")]
    fn new() -> Arc<World> {
        Arc::new(World {
            fast: Fast::new(),
            strong: AtomicU64::new(0),
            bucket: Mutex::default(),
            rows: UnsafeCell::new(0),
        })
    }

    fn bucket<R>(&self, f: impl FnOnce(&mut Bucket) -> R) -> R {
        f(&mut self.bucket.lock().expect("no thread of a model panics and goes on"))
    }

    fn touch(&self) {
        // SAFETY: no other thread accesses the rows: the model tests exactly that, and loom checks
        // it.
        self.rows.with_mut(|rows| unsafe { *rows += 1 });
    }

    /// As `LockTable::enter_fast`.
    fn enter(&self, table: TableId) -> bool {
        let free = || table != T || self.strong.load(Ordering::Acquire) == 0;
        self.fast.with(|f| free() && f.put(table, Mode::IX))
    }

    /// As the end of `LockTable::leave_granules`, for one intention in the slot. Returns whether it
    /// is parked.
    fn leave(&self, inheritance: Inheritance, tables: &[TableId]) -> bool {
        if self.fast.leave(inheritance) {
            return inheritance == Inheritance::On;
        }
        for &table in tables {
            if self.fast.with(|f| f.take(table)).is_none() {
                assert_eq!(table, T, "nobody asked for the other table");
                self.bucket(|b| assert!(std::mem::take(&mut b.intention), "an intention is nowhere"));
            }
        }
        false
    }

    /// Runs two transactions of one locker. Returns how many of them had the table.
    fn two_transactions(&self, inheritance: Inheritance) -> u32 {
        let mut had = 0;
        let mut parked = false;
        for _ in 0..2 {
            assert!(parked && self.fast.reuse(U, Mode::IX) || self.enter(U));
            let taken_up = parked && self.fast.reuse(T, Mode::IX);
            if parked && !taken_up {
                // As `LockTable::drop_parked`: it was discarded, so there is nothing to release.
                assert!(self.fast.with(|f| f.take(T)).is_none(), "what could not be taken up is there");
            }
            if taken_up || self.enter(T) {
                self.touch();
                had += 1;
                parked = self.leave(inheritance, &[T, U]);
            } else {
                // Here it would request the lock in the bucket. The other table's lock is released
                // as it came.
                self.leave(inheritance, &[U]);
                parked = false;
                self.fast.with(|f| f.clear());
            }
        }
        had
    }

    /// Requests a lock on the whole table once. Returns whether it was granted.
    fn whole_table(&self) -> bool {
        self.strong.fetch_add(1, Ordering::Relaxed);
        self.fast.with(|f| {
            if let Some(Taken::InUse(mode)) = f.rob(T) {
                assert_eq!(mode, Mode::IX);
                self.bucket(|b| b.intention = true);
            }
        });
        let granted = self.bucket(|b| {
            b.whole = !b.intention;
            b.whole
        });
        if granted {
            self.touch();
            self.bucket(|b| b.whole = false);
        }
        self.strong.fetch_sub(1, Ordering::Release);
        granted
    }
}

fn explore(inheritance: Inheritance) {
    let runs = Arc::new(std::sync::Mutex::new(std::collections::BTreeSet::new()));
    let seen = Arc::clone(&runs);
    loom::model(move || {
        let world = World::new();
        let other = spawn({
            let world = Arc::clone(&world);
            move || world.whole_table()
        });
        let had = world.two_transactions(inheritance);
        let granted = other.join().unwrap();
        seen.lock().unwrap().insert((had, granted));
        world.bucket(|b| assert!(!b.intention && !b.whole, "a lock was left behind"));
        // No lock is in use, only parked.
        assert!(world.fast.with(|f| f.in_use(T).is_none() && f.in_use(U).is_none()));
    });
    let runs = runs.lock().unwrap();
    for case in [(2, true), (2, false), (1, true)] {
        assert!(runs.contains(&case), "{case:?} was not met, only {runs:?}");
    }
}

#[test]
fn an_intention_that_is_parked_and_taken_up_never_meets_a_lock_of_the_table() {
    explore(Inheritance::On);
}

#[test]
fn an_intention_that_is_given_back_never_meets_a_lock_of_the_table() {
    explore(Inheritance::Off);
}
