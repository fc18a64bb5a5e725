//! Who waits for which epoch to be durable.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// Tasks (by waker) and threads (by condition variable).
///
/// Who may do what: anyone may enter; who flushes wakes, after it has published its progress. A waiter looks at the progress
/// again after entering, so a wake-up between looking and entering is not lost.
#[derive(Default)]
pub(crate) struct Waiters {
    tasks: Mutex<Vec<(u64, Waker)>>,
    /// How many threads wait.
    threads: Mutex<usize>,
    progress: Condvar,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these mutexes is left half done by a panic.
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Waiters {
    /// The task is woken once `epoch` is durable. A task has one entry for it, however often it asks.
    pub(crate) fn enter(&self, epoch: u64, waker: &Waker) {
        let mut tasks = lock(&self.tasks);
        if !tasks.iter().any(|(e, w)| *e == epoch && w.will_wake(waker)) {
            tasks.push((epoch, waker.clone()));
        }
    }

    /// Wakes the tasks that wait for at most `reached`, and all threads.
    pub(crate) fn wake(&self, reached: u64) {
        // Woken behind the lock, which those who come to wait need meanwhile.
        let due: Vec<_> = lock(&self.tasks).extract_if(.., |(epoch, _)| *epoch <= reached).collect();
        due.into_iter().for_each(|(_, waker)| waker.wake());
        // Taken and released so that a thread between its look and its wait is waiting by now.
        drop(lock(&self.threads));
        self.progress.notify_all();
    }

    /// How many wait now.
    pub(crate) fn count(&self) -> usize {
        lock(&self.tasks).len() + *lock(&self.threads)
    }

    /// Blocks until `done` says so.
    pub(crate) fn block_until(&self, mut done: impl FnMut() -> bool) {
        let mut held = lock(&self.threads);
        *held += 1;
        while !done() {
            // The time limit is a belt beside the braces: progress is published before `wake`.
            let waited = self.progress.wait_timeout(held, Duration::from_millis(100));
            held = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *held -= 1;
    }
}
