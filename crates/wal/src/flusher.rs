//! The thread that writes the ring to segments and waits for the device, so that nobody else has to.

use crate::LogFault;
use crate::files::LogFiles;
use crate::log::Shared;
use crate::segment::Segment;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

/// Appending wakes the flusher once per this many bytes (a power of two), so that the ring drains early.
const NUDGE_SHIFT: u32 = 18;
/// Records nobody asks for are written after this time, or when the ring fills.
const BUSY: Duration = Duration::from_millis(5);
const IDLE: Duration = Duration::from_millis(50);

pub(crate) struct Flusher {
    stop: Arc<AtomicBool>,
    thread: Thread,
    handle: Option<JoinHandle<()>>,
}

impl Flusher {
    pub fn start(shared: Arc<Shared>, files: Arc<LogFiles>, current: Segment) -> Result<Flusher, LogFault> {
        let stop = Arc::new(AtomicBool::new(false));
        let work = Work { shared, files, current, spare: None, stop: stop.clone() };
        let guard = Guard(work.shared.clone());
        let run = move || {
            let _guard = guard;
            work.run();
        };
        let handle = std::thread::Builder::new().name("log-flusher".into()).spawn(run)?;
        Ok(Flusher { stop, thread: handle.thread().clone(), handle: Some(handle) })
    }

    /// Has the flusher look around now.
    pub fn nudge(&self) {
        self.thread.unpark();
    }

    /// To be called after each append.
    #[inline]
    pub fn appended(&self, start: u64, end: u64) {
        if start >> NUDGE_SHIFT != end >> NUDGE_SHIFT {
            self.nudge();
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.nudge();
        if let Some(handle) = self.handle.take() {
            // A flusher that panicked has told so on standard error; the log ends where it stopped.
            let _ = handle.join();
        }
    }
}

/// Poisons the log when the flusher panics: nobody may wait for it any more.
struct Guard(Arc<Shared>);

impl Drop for Guard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison(std::io::Error::other("the log's flusher thread panicked").into());
        }
    }
}

struct Work {
    shared: Arc<Shared>,
    files: Arc<LogFiles>,
    current: Segment,
    /// Makes the next segment's file meanwhile.
    spare: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Work {
    fn run(mut self) {
        loop {
            let stop = self.stop.load(Ordering::Acquire);
            match self.round(stop) {
                Err(fault) => {
                    self.shared.poison(fault);
                    break;
                }
                Ok(_) if stop => break,
                Ok(Duration::ZERO) => {}
                Ok(pause) => std::thread::park_timeout(pause),
            }
        }
        if let Some(spare) = self.spare.take() {
            let _ = spare.join();
        }
    }

    /// Writes what there is, syncs if someone waits for that; gives how long to sleep.
    fn round(&mut self, stop: bool) -> Result<Duration, LogFault> {
        let shared = self.shared.clone();
        let written = shared.written.load(Ordering::Relaxed);
        let appended = shared.end.load(Ordering::Acquire) > written;
        if appended {
            self.write()?;
        }
        let stable = shared.stable.load(Ordering::Relaxed);
        let unstable = shared.written.load(Ordering::Relaxed) > stable;
        if unstable && (stop || shared.wanted.load(Ordering::Acquire) > stable) {
            self.sync()?;
        }
        if appended {
            shared.waiters.wake(shared.durable());
            self.look_ahead();
        }
        let wanted = shared.wanted.load(Ordering::Acquire) > shared.stable.load(Ordering::Relaxed);
        Ok(if wanted && shared.end.load(Ordering::Acquire) > stable {
            Duration::ZERO
        } else if appended {
            BUSY
        } else {
            IDLE
        })
    }

    fn write(&mut self) -> Result<(), LogFault> {
        let shared = self.shared.clone();
        let (end, cuts) = {
            let mut tail = shared.tail.lock();
            (tail.next, std::mem::take(&mut tail.cuts))
        };
        for cut in cuts {
            self.write_up_to(cut)?;
            // A segment that has a successor is complete on the device: recovery relies on it.
            self.sync()?;
            self.current = self.files.begin(cut, shared.life)?;
        }
        self.write_up_to(end)?;
        shared.flushes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn write_up_to(&self, to: u64) -> Result<(), LogFault> {
        let from = self.shared.written.load(Ordering::Relaxed);
        // SAFETY: these positions are appended (`to` was read under the append lock) and not yet given back:
        // appenders leave them alone until `written` passes them, below.
        let pieces = unsafe { self.shared.ring.pieces(from, to) };
        let mut at = self.current.offset(from);
        for piece in pieces.into_iter().filter(|p| !p.is_empty()) {
            self.current.file.write_all_at(piece, at)?;
            at += piece.len() as u64;
        }
        self.shared.written.store(to, Ordering::Release);
        Ok(())
    }

    fn sync(&self) -> Result<(), LogFault> {
        let written = self.shared.written.load(Ordering::Relaxed);
        self.current.file.sync()?;
        self.shared.fsyncs.fetch_add(1, Ordering::Relaxed);
        self.shared.stable.store(written, Ordering::Release);
        Ok(())
    }

    /// Has the next segment's file made once this one is half full.
    fn look_ahead(&mut self) {
        let used = self.shared.written.load(Ordering::Relaxed) - self.current.start;
        let busy = self.spare.as_ref().is_some_and(|s| !s.is_finished());
        if used < self.shared.options.segment_bytes / 2 || busy {
            return;
        }
        let files = self.files.clone();
        self.spare =
            std::thread::Builder::new().name("log-segments".into()).spawn(move || files.prepare()).ok();
    }
}
