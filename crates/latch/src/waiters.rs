//! Tasks and threads that wait for a number to grow: the durable end of a log, an epoch.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// Tasks (by waker) and threads (by condition variable) that wait for the progress of another
/// thread.
///
/// Access rules: any thread may enter. The thread that makes progress publishes it first and then
/// wakes. A waiter checks the progress again after entering, so a wake-up between the first check
/// and entering is not lost.
#[derive(Debug, Default)]
pub struct Waiters {
    tasks: Mutex<Vec<(u64, Waker)>>,
    /// Number of threads that wait.
    threads: Mutex<usize>,
    progress: Condvar,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves nothing half done under these mutexes.
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Waiters {
    /// Wakes the task once `upto` is reached. Repeated calls with one task and one `upto` make one
    /// entry.
    pub fn enter(&self, upto: u64, waker: &Waker) {
        let mut tasks = lock(&self.tasks);
        if !tasks.iter().any(|(waits_for, w)| *waits_for == upto && w.will_wake(waker)) {
            tasks.push((upto, waker.clone()));
        }
    }

    /// Wakes the tasks that wait for at most `reached`, and all threads.
    pub fn wake(&self, reached: u64) {
        // Woken outside the lock, which new waiters need meanwhile.
        let due: Vec<_> = lock(&self.tasks).extract_if(.., |(upto, _)| *upto <= reached).collect();
        due.into_iter().for_each(|(_, waker)| waker.wake());
        // Taken and released so that a thread between its check and its wait has begun to wait.
        drop(lock(&self.threads));
        self.progress.notify_all();
    }

    /// Number of waiting tasks and threads.
    pub fn count(&self) -> usize {
        lock(&self.tasks).len() + *lock(&self.threads)
    }

    /// Blocks until `done` returns true.
    pub fn block_until(&self, mut done: impl FnMut() -> bool) {
        let mut held = lock(&self.threads);
        *held += 1;
        while !done() {
            // The time limit is only a safety net: progress is published before `wake`.
            let waited = self.progress.wait_timeout(held, Duration::from_millis(100));
            held = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *held -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_is_woken_once_and_only_when_it_is_time() {
        let (waiters, woken) = (Waiters::default(), Arc::new(Woken::default()));
        let waker = Waker::from(woken.clone());
        for upto in [7, 7, 9] {
            waiters.enter(upto, &waker);
        }
        assert_eq!(waiters.count(), 2, "asking twice is asking once");
        for (reached, times) in [(6, 0), (7, 1), (8, 1), (9, 2), (u64::MAX, 2)] {
            waiters.wake(reached);
            assert_eq!(woken.0.load(Ordering::Relaxed), times, "at {reached}");
        }
        assert_eq!(waiters.count(), 0);
    }

    #[test]
    fn a_thread_waits_until_the_progress_it_wants_is_published() {
        const STEPS: u64 = 200;
        let (waiters, reached) = (Waiters::default(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for upto in [1, STEPS / 2, STEPS] {
                let (waiters, reached) = (&waiters, &reached);
                scope.spawn(move || {
                    waiters.block_until(|| reached.load(Ordering::Acquire) >= upto);
                    assert!(reached.load(Ordering::Acquire) >= upto);
                });
            }
            for _ in 0..STEPS {
                reached.fetch_add(1, Ordering::Release);
                waiters.wake(reached.load(Ordering::Acquire));
            }
        });
        assert_eq!(waiters.count(), 0);
    }
}
