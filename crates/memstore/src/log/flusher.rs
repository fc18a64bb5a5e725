//! Who flushes: threads of each stream, or a worker that has nothing else to do.
//!
//! ```text
//!   transactions could run:               worker --wake--> thread: take, write, sync --wake--> worker
//!   all that a worker has waits, and nothing flies:        worker: take, write, sync
//! ```
//! The two wake-ups take longer than a quick device takes for a flush. So a worker whose every transaction waits for the log
//! flushes by itself, unless a flush is on its way: then it had better be there when that ends. While one thread of a stream
//! waits for the device, another takes what has come since; both go on without a pause as long as somebody waits for what no
//! block has yet, so that a transaction waits for about half a flush before its own begins.

use super::stream::{Aim, Stream};
use super::{LogFault, Shared};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

/// How long a thread that nobody wakes sleeps when the last look found nothing.
const IDLE: Duration = Duration::from_millis(50);
/// A flush that is quicker than this is not worth another one at once: whoever commits meanwhile shares the next.
const QUICK: Duration = Duration::from_micros(50);
/// Threads of a stream, and so blocks on their way at a time.
const ABREAST: usize = 2;

pub(crate) struct Flushers {
    shared: Arc<Shared>,
    /// [`ABREAST`] of each stream.
    crews: Vec<Vec<Flusher>>,
}

struct Flusher {
    thread: Thread,
    handle: Option<JoinHandle<()>>,
    /// It sleeps, or is about to and looks once more whether it should.
    is_resting: Arc<AtomicBool>,
}

impl Flushers {
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Flushers, LogFault> {
        let mut flushers = Flushers { shared: shared.clone(), crews: Vec::new() };
        for stream in 0..shared.streams.len() {
            flushers.crews.push(Vec::new());
            for number in 0..ABREAST {
                let is_resting = Arc::new(AtomicBool::new(false));
                let (shared, resting) = (shared.clone(), Arc::clone(&is_resting));
                let body = move || run(&shared, &shared.streams[stream], &resting, number == 0);
                let handle = std::thread::Builder::new().name("log-flusher".into()).spawn(body)?;
                let (thread, handle) = (handle.thread().clone(), Some(handle));
                flushers.crews[stream].push(Flusher { thread, handle, is_resting });
            }
        }
        Ok(flushers)
    }

    /// Has a thread of a stream look around now, unless all are at work: then one of them will.
    pub(crate) fn nudge(&self, stream: usize) {
        let is_woken = |flusher: &&Flusher| {
            flusher.is_resting.load(Ordering::SeqCst) && flusher.is_resting.swap(false, Ordering::SeqCst)
        };
        if let Some(flusher) = self.crews[stream].iter().find(is_woken) {
            flusher.thread.unpark();
        }
    }

    /// Has what is waited for flushed by the threads.
    pub(crate) fn flush(&self) {
        for (number, stream) in self.shared.streams.iter().enumerate() {
            if stream.is_behind(&self.shared) {
                self.nudge(number);
            }
        }
    }

    /// The same on this thread, as far as no block is on its way.
    pub(crate) fn flush_here(&self) {
        for stream in self.shared.streams.iter().filter(|stream| stream.is_at_rest()) {
            stream.attempt(&self.shared, Aim::Need);
        }
        // Somebody came too late for this flush, or not all streams were at rest.
        self.flush();
    }

    /// Everything there is, on the device, by this thread.
    pub(crate) fn write_out(&self) {
        for stream in &self.shared.streams {
            stream.attempt(&self.shared, Aim::Everything);
        }
    }
}

impl Drop for Flushers {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for flusher in self.crews.iter_mut().flatten() {
            flusher.thread.unpark();
            // A flusher that panicked has told so on standard error; the log ends where it stopped.
            let _ = flusher.handle.take().map(JoinHandle::join);
        }
        self.shared.streams.iter().for_each(Stream::finish);
        self.shared.spares.clear(&*self.shared.files);
    }
}

/// A thread's body. The first of a stream's also sees to what nobody waits for.
fn run(shared: &Arc<Shared>, stream: &Stream, is_resting: &AtomicBool, is_first: bool) {
    let mut pause = shared.options.leisure;
    loop {
        let is_last = shared.stopping.load(Ordering::SeqCst);
        let aim = if is_last { Aim::Everything } else { Aim::Need };
        let (before, began) = (stream.counts.flushes.load(Ordering::Relaxed), world::now_ns());
        if !stream.attempt(shared, aim) || is_last {
            return;
        }
        let is_called = || stream.is_behind(shared) || stream.is_pressed(shared);
        let wrote = stream.counts.flushes.load(Ordering::Relaxed) > before;
        if is_called() {
            if wrote && u128::from(world::now_ns() - began) < QUICK.as_nanos() {
                std::thread::park_timeout(QUICK);
            }
            continue;
        }
        pause = if wrote { shared.options.leisure } else { (pause * 2).min(IDLE) };
        is_resting.store(true, Ordering::SeqCst);
        if !is_called() && !shared.stopping.load(Ordering::SeqCst) {
            if is_first { std::thread::park_timeout(pause) } else { std::thread::park() }
        }
        is_resting.store(false, Ordering::SeqCst);
    }
}
