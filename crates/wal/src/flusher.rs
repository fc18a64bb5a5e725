//! The thread that writes the ring to segments and waits for the device, so that nobody else has to.

use crate::LogFault;
use crate::files::LogFiles;
use crate::insert::{Complete, Holes};
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
/// A device that syncs faster than this, in nanoseconds, is not worth waiting for company.
const QUICK_NS: u64 = 50_000;
/// Nobody waits for company longer than this, whatever the device does.
const PATIENCE_NS: u64 = 2_000_000;

pub(crate) struct Flusher {
    stop: Arc<AtomicBool>,
    thread: Thread,
    handle: Option<JoinHandle<()>>,
}

impl Flusher {
    pub fn start(shared: Arc<Shared>, files: Arc<LogFiles>, current: Segment) -> Result<Flusher, LogFault> {
        let stop = Arc::new(AtomicBool::new(false));
        let work = Work {
            shared,
            files,
            current,
            spare: None,
            stop: stop.clone(),
            pace: Pace::default(),
            all_written_ns: 0,
        };
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
    pace: Pace,
    /// When all there was had been written, ns.
    all_written_ns: u64,
}

/// How fast the device is and how many wait for it at a time.
///
/// After a sync everybody it served comes back at about the same time. A sync begun for the first of them serves one,
/// and the others wait for two; so it is begun when as many are there as last time, or after a quarter of the time
/// that a sync takes. Who is alone is never kept waiting.
#[derive(Default)]
struct Pace {
    /// A sync's duration, smoothed, ns.
    sync_ns: u64,
    /// How many waited for each of the last two syncs.
    groups: [usize; 2],
}

impl Pace {
    fn synced(&mut self, took_ns: u64, group: usize) {
        let smooth = if self.sync_ns == 0 { took_ns } else { self.sync_ns / 8 * 7 + took_ns / 8 };
        *self = Pace { sync_ns: smooth, groups: [group, self.groups[0]] };
    }

    /// How many to expect, and how long to wait for them, ns.
    fn company(&self) -> (usize, u64) {
        let expected = self.groups[0].max(self.groups[1]);
        let patience = if self.sync_ns < QUICK_NS { 0 } else { (self.sync_ns / 4).min(PATIENCE_NS) };
        (expected, if expected > 1 { patience } else { 0 })
    }
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
        if self.is_wanted() && !stop {
            self.wait_for_company();
        }
        let before = shared.written.load(Ordering::Relaxed);
        let end = shared.inserter.end();
        if end > before {
            self.write(end, stop)?;
        }
        let stable = shared.stable.load(Ordering::Relaxed);
        let written = shared.written.load(Ordering::Relaxed);
        if written > stable && (stop || self.is_wanted()) {
            self.sync()?;
        }
        if written > before {
            shared.waiters.wake(shared.durable());
            self.look_ahead();
        }
        let pressed = shared.pressed.load(Ordering::Acquire) > written;
        Ok(if (self.is_wanted() || pressed) && shared.inserter.end() > stable {
            Duration::ZERO
        } else if end > before {
            BUSY
        } else {
            IDLE
        })
    }

    /// Whether someone waits for the device.
    fn is_wanted(&self) -> bool {
        self.shared.wanted.load(Ordering::Acquire) > self.shared.stable.load(Ordering::Relaxed)
    }

    fn wait_for_company(&self) {
        let (expected, patience_ns) = self.pace.company();
        let until = world::now_ns() + patience_ns;
        while self.shared.waiters.count() < expected && !self.stop.load(Ordering::Relaxed) {
            let left = until.saturating_sub(world::now_ns());
            if left == 0
                || self.shared.pressed.load(Ordering::Relaxed) > self.shared.written.load(Ordering::Relaxed)
            {
                return;
            }
            std::thread::park_timeout(Duration::from_nanos(left));
        }
    }

    /// Writes what is whole below `end`; closes what appenders have reserved only as far as somebody asks for what lies
    /// behind, or once in a while.
    fn write(&mut self, end: u64, stop: bool) -> Result<(), LogFault> {
        let shared = self.shared.clone();
        let asked = shared.pressed.load(Ordering::Acquire).max(shared.wanted.load(Ordering::Acquire));
        let now = world::now_ns();
        let holes = if stop || now - self.all_written_ns > BUSY.as_nanos() as u64 {
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
        // SAFETY: below `to` all is whole: its owners are gone, and appenders leave the ring's bytes alone until
        // `written` passes them, below.
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
        self.pace.synced(world::now_ns() - began, group);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn company_is_waited_for_only_when_there_was_some() {
        let mut pace = Pace::default();
        assert_eq!(pace.company(), (0, 0), "nothing is known yet");
        pace.synced(4_000_000, 1);
        pace.synced(4_000_000, 1);
        assert_eq!(pace.company(), (1, 0), "a client that is alone");
        pace.synced(4_000_000, 15);
        pace.synced(4_000_000, 1);
        assert_eq!(
            pace.company(),
            (15, 1_000_000),
            "one came early: the others follow, within a quarter of a sync"
        );
        pace.synced(4_000_000, 1);
        assert_eq!(pace.company(), (1, 0), "the others have gone");
        for _ in 0..100 {
            pace.synced(80_000_000, 9);
        }
        assert_eq!(pace.company(), (9, PATIENCE_NS), "however slow the device");
        for _ in 0..100 {
            pace.synced(20_000, 9);
        }
        assert_eq!(pace.company(), (9, 0), "a quick device");
    }
}
