//! Who flushes: a thread for each stream, or whoever has nothing else to do.
//!
//! ```text
//!   several wait, or transactions could run:  worker --wake--> thread: write, sync --wake--> worker
//!   all that a worker has waits for the log:  worker: write, sync
//! ```
//! The two wake-ups take longer than a quick device takes for a flush. So a worker whose every transaction waits for the log
//! flushes by itself, unless more are expected to wait than do: then the thread collects them.

use super::stream::{Aim, Stream, Work};
use super::{LogFault, Shared};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

/// How long a thread that nobody wakes sleeps when the last look found nothing.
const IDLE: Duration = Duration::from_millis(50);

pub(crate) struct Flushers {
    shared: Arc<Shared>,
    threads: Vec<(Thread, Option<JoinHandle<()>>)>,
}

impl Flushers {
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Flushers, LogFault> {
        let mut flushers = Flushers { shared: shared.clone(), threads: Vec::new() };
        for number in 0..shared.streams.len() {
            let shared = shared.clone();
            let body = move || run(&shared, &shared.streams[number]);
            let handle = std::thread::Builder::new().name("log-flusher".into()).spawn(body)?;
            flushers.threads.push((handle.thread().clone(), Some(handle)));
        }
        Ok(flushers)
    }

    /// Has a stream's thread look around now.
    pub(crate) fn nudge(&self, stream: usize) {
        self.threads[stream].0.unpark();
    }

    /// Flushes what is waited for on this thread, as far as nobody else is at it.
    pub(crate) fn flush_here(&self) {
        for (number, stream) in self.shared.streams.iter().enumerate() {
            match stream.try_work().filter(|work| is_company_here(&self.shared, work)) {
                Some(mut work) => {
                    stream.attempt(&self.shared, &mut work, Aim::Need);
                }
                None => self.nudge(number),
            }
        }
        if self.shared.is_wanted() {
            // Somebody came too late for this flush.
            (0..self.threads.len()).for_each(|number| self.nudge(number));
        }
    }
}

impl Flushers {
    /// Everything there is, on the device, by this thread.
    pub(crate) fn write_out(&self) {
        for stream in &self.shared.streams {
            stream.attempt(&self.shared, &mut stream.work(), Aim::Everything);
        }
    }
}

impl Drop for Flushers {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        (0..self.threads.len()).for_each(|number| self.nudge(number));
        for (_, handle) in &mut self.threads {
            // A flusher that panicked has told so on standard error; the log ends where it stopped.
            let _ = handle.take().map(JoinHandle::join);
        }
        self.shared.streams.iter().for_each(Stream::finish);
    }
}

/// Whether nobody is to be waited for.
fn is_company_here(shared: &Shared, work: &Work) -> bool {
    work.pace.is_company_here(shared.waiters.count())
}

/// A thread's body.
fn run(shared: &Arc<Shared>, stream: &Stream) {
    let mut pause = shared.options.leisure;
    loop {
        let is_last = shared.stopping.load(Ordering::Acquire);
        if !is_last && shared.is_wanted() {
            wait_for_company(shared, stream);
        }
        let aim = if is_last { Aim::Everything } else { Aim::Need };
        let before = stream.counts.flushes.load(Ordering::Relaxed);
        // Let go of before the pause.
        let goes_on = stream.attempt(shared, &mut stream.work(), aim);
        if is_last || !goes_on {
            return;
        }
        let wrote = stream.counts.flushes.load(Ordering::Relaxed) > before;
        let behind = shared.wanted.load(Ordering::Acquire) > stream.durable.load(Ordering::Acquire);
        if !behind {
            pause = if wrote { shared.options.leisure } else { (pause * 2).min(IDLE) };
            std::thread::park_timeout(pause);
        }
    }
}

fn wait_for_company(shared: &Shared, stream: &Stream) {
    let (expected, patience_ns) = stream.work().pace.company();
    let until = world::now_ns() + patience_ns;
    while shared.waiters.count() < expected && !shared.stopping.load(Ordering::Relaxed) {
        let left = until.saturating_sub(world::now_ns());
        if left == 0 {
            return;
        }
        std::thread::park_timeout(Duration::from_nanos(left));
    }
}
