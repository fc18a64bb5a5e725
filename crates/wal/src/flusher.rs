//! Flushing: writing the ring to segments and waiting for the device. Either the flusher's own
//! thread does it, so that no worker has to, or a worker that has nothing else to do.
//!
//! ```text
//!   several wait, or others could run:  worker --wake--> thread: write, sync --wake--> worker
//!   all of a worker wait for the log:   worker: write, sync
//! ```
//!
//! The two wake-ups take longer than a fast device takes for a sync. So a worker of which all
//! transactions wait for the log flushes by itself ([`Flusher::flush_here`]). If more waiters are
//! expected than there are, the thread collects them instead ([`Pace`]).
//!
//! Access rules: the thread that holds the lock around [`Work`] writes and syncs. Only the
//! flusher's thread waits for that lock. A worker that finds it taken leaves its flush to that
//! thread, which runs next.

use crate::LogFault;
use crate::files::LogFiles;
use crate::insert::{Complete, Holes};
use crate::segment::Segment;
use crate::shared::Shared;
use latch::{Pace, Rank, RankedGuard, RankedMutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

/// Appending wakes the flusher once per 2^18 bytes, so that the ring drains early.
const NUDGE_SHIFT: u32 = 18;
/// Records that no waiter asks for are written after this time, or when the ring fills.
const BUSY: Duration = Duration::from_millis(5);
/// Pause of the flusher's thread after a round that found no new record.
const IDLE: Duration = Duration::from_millis(50);
/// Pause before the next segment is tried again after the device had no room for it, ns.
const PAUSE_NS: u64 = 50_000_000;

/// Handle of the flusher's thread. Dropping it flushes the log a last time and ends the thread.
pub(crate) struct Flusher {
    state: Arc<FlushState>,
    thread: Thread,
    handle: Option<JoinHandle<()>>,
}

/// State shared by the flusher's thread and the workers that flush by themselves.
struct FlushState {
    shared: Arc<Shared>,
    /// The lock of the access rules: its holder writes and syncs.
    work: RankedMutex<Work>,
    /// Set once, when the log is dropped.
    stop: AtomicBool,
}

impl Flusher {
    pub fn start(shared: Arc<Shared>, files: Arc<LogFiles>, current: Segment) -> Result<Flusher, LogFault> {
        let work = Work {
            shared: shared.clone(),
            files,
            current,
            spare: None,
            looked_ahead: None,
            looked_ns: 0,
            pace: Pace::default(),
            all_written_ns: 0,
        };
        let work = RankedMutex::new(Rank::LogFlush, work);
        let state = Arc::new(FlushState { shared, work, stop: AtomicBool::new(false) });
        let own = state.clone();
        let handle = std::thread::Builder::new().name("log-flusher".into()).spawn(move || own.run())?;
        Ok(Flusher { state, thread: handle.thread().clone(), handle: Some(handle) })
    }

    /// Wakes the flusher's thread.
    pub fn nudge(&self) {
        self.thread.unpark();
    }

    pub fn thread(&self) -> &Thread {
        &self.thread
    }

    /// To be called after each append, with the positions reserved for it.
    #[inline]
    pub fn reserved(&self, (start, end): (u64, u64)) {
        if start >> NUDGE_SHIFT != end >> NUDGE_SHIFT {
            self.nudge();
        }
    }

    /// See [`crate::Log::flush_here`].
    pub fn flush_here(&self) {
        if !self.state.shared.is_wanted() {
            return;
        }
        let flushed =
            self.state.work.try_lock().filter(|work| work.is_company_here()).map(|mut w| w.attempt(Stop::No));
        // Another thread is flushing, more waiters are expected, or a record came too late for this
        // flush.
        if matches!(flushed, None | Some(Some(Duration::ZERO))) {
            self.nudge();
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Release);
        self.nudge();
        if let Some(handle) = self.handle.take() {
            // A flusher that panicked has reported that on standard error. The log ends where it
            // stopped.
            let _ = handle.join();
        }
    }
}

impl FlushState {
    /// Ignores mutex poisoning: after a panic the log is poisoned, so the state of the work is not
    /// used again.
    fn work(&self) -> RankedGuard<'_, Work> {
        self.work.lock()
    }

    /// Body of the flusher's thread.
    fn run(&self) {
        loop {
            let stop = if self.stop.load(Ordering::Acquire) { Stop::Yes } else { Stop::No };
            if stop == Stop::No && self.shared.is_wanted() {
                self.wait_for_company();
            }
            // A statement of its own, so that the lock is released before the pause.
            let pause = self.work().attempt(stop);
            match pause {
                Some(pause) if stop == Stop::No => match pause {
                    Duration::ZERO => {}
                    pause => std::thread::park_timeout(pause),
                },
                _ => break,
            }
        }
        let spare = self.work().spare.take();
        if let Some(spare) = spare {
            let _ = spare.join();
        }
    }

    fn wait_for_company(&self) {
        let shared = &*self.shared;
        let (expected, patience_ns) = self.work().pace.company();
        let until = world::now_ns() + patience_ns;
        while shared.waiters.count() < expected && !self.stop.load(Ordering::Relaxed) {
            let left = until.saturating_sub(world::now_ns());
            if left == 0 || shared.pressed.load(Ordering::Relaxed) > shared.written.load(Ordering::Relaxed) {
                return;
            }
            std::thread::park_timeout(Duration::from_nanos(left));
        }
    }
}

/// Poisons the log when the flushing thread panics, so that no waiter waits for ever.
struct Guard<'a>(&'a Shared);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison(std::io::Error::other("a flush of the log panicked").into());
        }
    }
}

/// Whether this is the last flush.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Yes,
    No,
}

/// The state of writing and syncing, used by the thread that holds the lock.
struct Work {
    shared: Arc<Shared>,
    files: Arc<LogFiles>,
    /// The segment that the log is written to.
    current: Segment,
    /// Thread that creates the file of the next segment ahead of need.
    spare: Option<JoinHandle<()>>,
    /// Start of the segment in which that thread was started: one thread a segment, not one a
    /// flush.
    looked_ahead: Option<u64>,
    /// Time at which it was started, ns.
    looked_ns: u64,
    /// Decides whether to wait for more waiters before a sync.
    pace: Pace,
    /// Time at which the flusher last closed the open extents and wrote all records, ns.
    all_written_ns: u64,
}

impl Work {
    /// Whether a sync may begin without waiting for more waiters.
    fn is_company_here(&self) -> bool {
        self.pace.is_company_here(self.shared.waiters.count())
    }

    /// Does one round. Returns the time to sleep, `None` if the log is broken.
    fn attempt(&mut self, stop: Stop) -> Option<Duration> {
        let shared = self.shared.clone();
        if shared.fault.get().is_some() {
            return None;
        }
        // Within this call, so that a panic poisons the log before the next thread takes the work.
        let _guard = Guard(&shared);
        self.round(stop).inspect_err(|fault| shared.poison(fault.clone())).ok()
    }

    /// Writes the complete records, and syncs if a waiter waits for the device. Returns the time to
    /// sleep.
    fn round(&mut self, stop: Stop) -> Result<Duration, LogFault> {
        let shared = self.shared.clone();
        let before = shared.written.load(Ordering::Relaxed);
        let end = shared.inserter.end();
        if end > before {
            self.write(end, stop)?;
        }
        let stable = shared.stable.load(Ordering::Relaxed);
        let written = shared.written.load(Ordering::Relaxed);
        if written > stable && (stop == Stop::Yes || shared.is_wanted()) {
            self.sync()?;
        }
        if written > before || shared.stable.load(Ordering::Relaxed) > stable {
            shared.waiters.wake(shared.durable());
        }
        self.look_ahead();
        let pressed = shared.pressed.load(Ordering::Acquire) > written;
        Ok(if (shared.is_wanted() || pressed) && shared.inserter.end() > stable {
            Duration::ZERO
        } else if end > before {
            BUSY
        } else {
            IDLE
        })
    }

    /// Writes the complete records below `end`. Closes open extents only as far as a waiter needs
    /// the records after them, or once per [`BUSY`].
    fn write(&mut self, end: u64, stop: Stop) -> Result<(), LogFault> {
        let shared = self.shared.clone();
        let asked = shared.pressed.load(Ordering::Acquire).max(shared.wanted.load(Ordering::Acquire));
        let now = world::now_ns();
        let holes = if stop == Stop::Yes || now - self.all_written_ns > BUSY.as_nanos() as u64 {
            self.all_written_ns = now;
            Holes::Close { upto: end }
        } else if asked > shared.written.load(Ordering::Relaxed) {
            Holes::Close { upto: asked.min(end) }
        } else {
            Holes::Leave
        };
        let Complete { upto, cuts } = shared.inserter.complete(holes, &shared.room());
        for cut in cuts {
            self.write_up_to(cut)?;
            // A segment that has a successor is complete on the device: recovery relies on it.
            self.sync()?;
            self.current = self.files.begin(cut, shared.life)?;
        }
        if upto > shared.written.load(Ordering::Relaxed) {
            self.write_up_to(upto)?;
            shared.flushes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn write_up_to(&self, to: u64) -> Result<(), LogFault> {
        let from = self.shared.written.load(Ordering::Relaxed);
        // SAFETY: below `to` the log is complete, so its writers have finished. Appenders leave
        // these bytes of the ring alone until `written` passes them, below.
        let pieces = unsafe { self.shared.ring.pieces(from, to) };
        let mut at = self.current.offset(from);
        for piece in pieces.into_iter().filter(|p| !p.is_empty()) {
            self.current.file.write_all_at(piece, at)?;
            at += piece.len() as u64;
        }
        self.shared.written.store(to, Ordering::Release);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), LogFault> {
        let written = self.shared.written.load(Ordering::Relaxed);
        let (group, began) = (self.shared.waiters.count(), world::now_ns());
        self.current.file.sync()?;
        self.pace.flushed(world::now_ns() - began, group);
        self.shared.fsyncs.fetch_add(1, Ordering::Relaxed);
        self.shared.stable.store(written, Ordering::Release);
        Ok(())
    }

    /// Starts to create the file of the next segment once an eighth of the current one is used: no
    /// change begins in its last quarter before the next one is there ([`crate::Log::room`]).
    /// Starts again if the device had no room for it.
    fn look_ahead(&mut self) {
        let start = self.current.start;
        let used = self.shared.inserter.reserved().saturating_sub(start);
        let is_first = self.looked_ahead != Some(start) && used >= self.shared.options.segment_bytes / 8;
        let now = world::now_ns();
        let is_due = is_first || self.files.is_short() && now.saturating_sub(self.looked_ns) >= PAUSE_NS;
        if !is_due || self.spare.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        let files = self.files.clone();
        let prepare = move || files.prepare();
        self.spare = std::thread::Builder::new().name("log-segments".into()).spawn(prepare).ok();
        self.looked_ahead = self.spare.as_ref().map(|_| start);
        self.looked_ns = now;
    }
}
