//! Flushing is done by threads of each stream, or by a worker that has nothing else to do.
//!
//! ```text
//!   other transactions could run:    worker --wake--> thread: take, write, sync --wake--> worker
//!   all of a worker's transactions
//!   wait, and no block is under way: worker: take, write, sync
//! ```
//! The two wake-ups take longer than a flush on a quick device. So a worker flushes by itself if
//! all its transactions wait for the log, unless a flush is under way: then it is better off
//! running when that one ends. While one thread of a stream waits for the device, another takes the
//! records that have come since. Both go on without a pause as long as a transaction waits for
//! records that no block has yet. So a transaction waits for about half a flush before its own
//! begins.

use super::stream::{Aim, Stream};
use super::{LogFault, Shared};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

/// The longest sleep of a thread that is not woken and finds nothing to do.
const IDLE: Duration = Duration::from_millis(50);
/// After a flush that is quicker than this a thread pauses before the next one: transactions that
/// commit meanwhile share it.
const QUICK: Duration = Duration::from_micros(50);
/// Threads per stream, and so the number of blocks that can be under way at a time.
const ABREAST: usize = 2;

pub(crate) struct Flushers {
    shared: Arc<Shared>,
    /// [`ABREAST`] threads of each stream.
    crews: Vec<Vec<Flusher>>,
}

struct Flusher {
    thread: Thread,
    handle: Option<JoinHandle<()>>,
    /// The thread sleeps, or is about to and checks once more whether it should.
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

    /// Wakes a thread of a stream to look for work, unless all are at work: then one of them will
    /// look.
    pub(crate) fn nudge(&self, stream: usize) {
        let is_woken = |flusher: &&Flusher| {
            flusher.is_resting.load(Ordering::SeqCst) && flusher.is_resting.swap(false, Ordering::SeqCst)
        };
        if let Some(flusher) = self.crews[stream].iter().find(is_woken) {
            flusher.thread.unpark();
        }
    }

    /// Has the threads flush everything that is waited for.
    pub(crate) fn flush(&self) {
        for (number, stream) in self.shared.streams.iter().enumerate() {
            if stream.is_behind(&self.shared) {
                self.nudge(number);
            }
        }
    }

    /// The same on this thread, for streams without a block under way.
    pub(crate) fn flush_here(&self) {
        for stream in self.shared.streams.iter().filter(|stream| stream.is_at_rest()) {
            stream.attempt(&self.shared, Aim::Need);
        }
        // A transaction may have come too late for this flush, or some streams had blocks under
        // way.
        self.flush();
    }

    /// Brings everything to the device, on this thread.
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
            // A flusher that panicked has said so on standard error; the log ends where it stopped.
            let _ = flusher.handle.take().map(JoinHandle::join);
        }
        self.shared.streams.iter().for_each(Stream::finish);
        self.shared.spares.clear(&*self.shared.files);
    }
}

/// A thread's body. The first thread of a stream also writes records that no transaction waits for.
fn run(shared: &Arc<Shared>, stream: &Stream, is_resting: &AtomicBool, is_first: bool) {
    let mut pause = shared.options.leisure;
    loop {
        let is_last = shared.stopping.load(Ordering::SeqCst);
        let aim = if is_last { Aim::Everything } else { Aim::Need };
        let (before, began) = (stream.counts.flushes.load(Ordering::Relaxed), world::now_ns());
        if !stream.attempt(shared, aim) || is_last {
            return;
        }
        // A block that waits for room on the device is tried again after the pause.
        let has_room = || !stream.room.holds_block();
        let is_called = || (stream.is_behind(shared) || stream.is_pressed(shared)) && has_room();
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
