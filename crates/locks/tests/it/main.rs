//! Tests of the lock table through its interface: modes against their definition, queues, cycles,
//! inheritance, escalation; random schedules against a naive model, real threads, and every
//! interleaving that shuttle draws.

mod crowd;
mod cycles;
mod de_escalation;
mod escalation;
mod fairness;
mod inheritance;
mod model;
mod modes;
mod queues;
mod schedules;
mod threads;

use latch::SpinRaw;
use locks::{Acquired, Inheritance, LockAbort, LockOptions, LockTable, LockTuning, Locker};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

type Table = LockTable<SpinRaw>;

fn inheriting(buckets: usize) -> Table {
    let tuning = LockTuning { inheritance: Inheritance::On, ..LockTuning::PLAIN };
    Table::with(LockOptions { buckets, tuning })
}

/// Counts its wake-ups, and unparks the thread that made it.
struct Bell(AtomicUsize, std::thread::Thread);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        self.1.unpark();
    }
}

fn bell() -> (Arc<Bell>, Waker) {
    let bell = Arc::new(Bell(AtomicUsize::new(0), std::thread::current()));
    (Arc::clone(&bell), Waker::from(bell))
}

fn poll(table: &Table, locker: &mut Locker) -> Poll<Result<(), LockAbort>> {
    table.poll(locker, &mut Context::from_waker(Waker::noop()))
}

fn is_granted(table: &Table, locker: &mut Locker) -> bool {
    poll(table, locker) == Poll::Ready(Ok(()))
}

fn granted(acquired: Acquired) -> bool {
    matches!(acquired, Acquired::Granted)
}

/// Parks until the lock is granted. A wake-up that never comes fails the test.
fn wait(table: &Table, locker: &mut Locker) -> Result<(), LockAbort> {
    let (_, waker) = bell();
    let begun = Instant::now();
    let mut wait = std::future::poll_fn(|cx| table.poll(locker, cx));
    loop {
        match Future::poll(Pin::new(&mut wait), &mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park_timeout(Duration::from_secs(5)),
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "a wake-up was lost");
    }
}
