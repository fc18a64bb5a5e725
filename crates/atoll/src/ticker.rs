//! Progress in lines, for logs: one line at each change of row, and one every few seconds within
//! it. Lines also come while the run reports nothing (an instance opens a large database, or takes
//! memory from the system).

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A row prints its first line after this time, and another after each `THEN`.
const FIRST: Duration = Duration::from_secs(2);
const THEN: Duration = Duration::from_secs(5);

/// The position of a run, as text for a line.
pub trait Scene: Send + 'static {
    fn line(&self) -> String;
}

struct State<S> {
    scene: S,
    /// When the last line was printed, and the time until it is repeated.
    said: Instant,
    every: Duration,
    ended: bool,
}

struct Shared<S> {
    state: Mutex<State<S>>,
    changed: Condvar,
}

/// Access rules: the run changes the scene and the thread reads it, both under the mutex. The
/// thread ends when the run tells it to.
pub struct Ticker<S: Scene> {
    shared: Arc<Shared<S>>,
    thread: Option<JoinHandle<()>>,
}

impl<S: Scene> Ticker<S> {
    /// `say` prints a line.
    pub fn new(scene: S, say: impl Fn(&str) + Send + 'static) -> Ticker<S> {
        let state = State { scene, said: Instant::now(), every: FIRST, ended: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("progress".into()).spawn(move || tick(&theirs, say));
        // If the thread cannot be started, there are no lines between rows; nothing else is
        // affected.
        Ticker { shared, thread: thread.ok() }
    }

    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the scene.
    pub fn change(&self, change: impl FnOnce(&mut S)) {
        change(&mut self.state().scene);
    }

    /// Other text was printed: the next line comes `FIRST` after it if a row has begun, else
    /// `THEN`.
    pub fn was_said(&self, row: RowIs) {
        let mut state = self.state();
        state.said = Instant::now();
        state.every = if row == RowIs::New { FIRST } else { THEN };
        drop(state);
        self.shared.changed.notify_one();
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowIs {
    New,
    UnderWay,
}

impl<S: Scene> Drop for Ticker<S> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<S: Scene> Ticker<S> {
    /// Ends the thread; no line is printed after this.
    pub fn end(&mut self) {
        self.state().ended = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn tick<S: Scene>(shared: &Shared<S>, say: impl Fn(&str)) {
    let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
    while !state.ended {
        let wait = state.every.saturating_sub(state.said.elapsed());
        if wait.is_zero() {
            say(&state.scene.line());
            (state.said, state.every) = (Instant::now(), THEN);
            continue;
        }
        let woken = shared.changed.wait_timeout(state, wait);
        state = woken.unwrap_or_else(PoisonError::into_inner).0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    impl Scene for String {
        fn line(&self) -> String {
            self.clone()
        }
    }

    #[test]
    fn what_goes_on_is_said_though_nothing_reports() {
        let (send, said) = mpsc::channel();
        let begun = Instant::now();
        let ticker = Ticker::new("loading".to_owned(), move |line| send.send(line.to_owned()).unwrap());
        ticker.change(|scene| *scene = "loading, 3 %".into());
        assert_eq!(said.recv().unwrap(), "loading, 3 %");
        assert!(begun.elapsed() >= FIRST);
        drop(ticker);
        assert!(said.recv().is_err(), "the thread is gone");
    }
}
