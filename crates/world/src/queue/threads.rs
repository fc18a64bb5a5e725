//! The way without the kernel's ring: a few threads that block in its place. They are started when
//! the first operation needs them.

use super::{Flight, Shared, lock};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Reads that block at the same time; a disk behind a kernel without io_uring gains little from
/// more.
const THREADS: usize = 8;

pub(super) struct Helpers {
    jobs: Arc<Jobs>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Jobs {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Flight>,
    idle: usize,
    stop: bool,
}

impl Helpers {
    pub fn new(shared: Arc<Shared>) -> Helpers {
        Helpers { jobs: Arc::default(), threads: Mutex::default(), shared }
    }

    pub fn push(&self, flight: Flight) {
        let mut state = lock(&self.jobs.state);
        state.waiting.push_back(flight);
        let short_of_hands = state.waiting.len() > state.idle;
        drop(state);
        self.jobs.changed.notify_one();
        if short_of_hands
            && !self.hire()
            && let Some(flight) = lock(&self.jobs.state).waiting.pop_back()
        {
            // Not even one thread can be started: the caller performs the operation itself.
            self.shared.finish(flight.run());
        }
    }

    /// Starts one more thread, if fewer than [`THREADS`] run; `false` when none runs.
    fn hire(&self) -> bool {
        let mut threads = lock(&self.threads);
        if threads.len() < THREADS {
            let (jobs, shared) = (self.jobs.clone(), self.shared.clone());
            let work = move || {
                while let Some(flight) = jobs.next() {
                    shared.finish(flight.run());
                }
            };
            threads.extend(std::thread::Builder::new().name("io".into()).spawn(work));
        }
        !threads.is_empty()
    }

    pub fn stop(&self) {
        lock(&self.jobs.state).stop = true;
        self.jobs.changed.notify_all();
        for thread in lock(&self.threads).drain(..) {
            // A helper's panic is a bug of a file. Its operation never ends, and the queue's drop
            // would wait for it.
            let _ = thread.join();
        }
    }
}

impl Jobs {
    fn next(&self) -> Option<Flight> {
        let mut state = lock(&self.state);
        loop {
            if let Some(flight) = state.waiting.pop_front() {
                return Some(flight);
            }
            if state.stop {
                return None;
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}
