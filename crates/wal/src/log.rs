//! Appending and waiting.
//!
//! ```text
//!   stable <= written <= end            positions only grow
//!          segment files |  ring
//! ```
//!
//! Who may do what:
//! - the holder of the append lock moves the tail: it puts a frame at `end`, then publishes the new `end`;
//! - the flusher alone moves `written` (bytes given to the file system, their ring space is free) and `stable`
//!   (bytes on the device);
//! - anyone reads all three. In memory mode there is no flusher: `written` and `stable` stay where they began.

use crate::fault::LogFault;
use crate::files::LogFiles;
use crate::flusher::Flusher;
use crate::frame::{self, RecordHeader, Span};
use crate::options::{Durability, LogOptions, LogStats};
use crate::order::Order;
use crate::reader::LogReader;
use crate::recover;
use crate::ring::Ring;
use crate::waiters::Waiters;
use base::Lsn;
use latch::{CachePadded, SpinMutex};
use probe::{Component, Section};
use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use world::Files;

/// Position of the first record of a new log. Not 0, which means "none".
pub(crate) const FIRST_LSN: u64 = 64;

thread_local! {
    /// Where an appender builds its frame before it takes the append lock.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What only the holder of the append lock touches.
pub(crate) struct Tail {
    /// Where the next record goes.
    pub next: u64,
    /// Where the current segment is full.
    pub segment_end: u64,
    /// Positions at which the flusher must begin a new segment.
    pub cuts: Vec<u64>,
    pub records: u64,
}

/// What appenders, waiters and the flusher share.
pub(crate) struct Shared {
    pub options: LogOptions,
    /// This opening's number, in every check.
    pub life: u64,
    /// Where this opening's first record starts.
    pub opened_at: u64,
    pub ring: Ring,
    pub tail: CachePadded<SpinMutex<Tail>>,
    pub end: CachePadded<AtomicU64>,
    pub written: CachePadded<AtomicU64>,
    pub stable: AtomicU64,
    /// How far someone wants the log on the device (for `Sync`, durable).
    pub wanted: CachePadded<AtomicU64>,
    pub flushes: AtomicU64,
    pub fsyncs: AtomicU64,
    pub fault: OnceLock<LogFault>,
    pub waiters: Waiters,
}

/// An open log. Dropping it writes (and, unless in memory, syncs) what was appended.
pub struct Log {
    pub(crate) shared: Arc<Shared>,
    files: Option<Arc<LogFiles>>,
    flusher: Option<Flusher>,
}

impl Shared {
    fn new(options: LogOptions, ring: Ring, end: u64, segment_end: u64, life: u64) -> Shared {
        Shared {
            options,
            life,
            opened_at: end,
            ring,
            tail: CachePadded::new(SpinMutex::new(Tail {
                next: end,
                segment_end,
                cuts: Vec::new(),
                records: 0,
            })),
            end: CachePadded::new(AtomicU64::new(end)),
            written: CachePadded::new(AtomicU64::new(end)),
            stable: AtomicU64::new(end),
            wanted: CachePadded::new(AtomicU64::new(0)),
            flushes: AtomicU64::new(0),
            fsyncs: AtomicU64::new(0),
            fault: OnceLock::new(),
            waiters: Waiters::default(),
        }
    }

    pub fn durable(&self) -> u64 {
        match self.options.durability {
            Durability::Sync => self.stable.load(Ordering::Acquire),
            // Once the flusher has stopped, the ring is overwritten without being written.
            Durability::Async if self.fault.get().is_some() => self.written.load(Ordering::Acquire),
            Durability::Async | Durability::Memory => self.end.load(Ordering::Acquire),
        }
    }

    fn fault(&self) -> Result<(), LogFault> {
        self.fault.get().map_or(Ok(()), |f| Err(f.clone()))
    }

    /// The log is broken from now on; the first reason stays.
    pub fn poison(&self, fault: LogFault) {
        let _ = self.fault.set(fault);
        self.waiters.wake(u64::MAX);
    }

    /// Whether a frame of `bytes` at `next` would overwrite what the flusher has not written yet. A waiter asks about
    /// the `next` it once saw: others may have appended there meanwhile, and the flusher may have written past it.
    pub(crate) fn crowded(&self, next: u64, bytes: usize) -> bool {
        self.overwrites(next, bytes) && self.fault.get().is_none()
    }

    fn overwrites(&self, next: u64, bytes: usize) -> bool {
        let ahead = (next + bytes as u64).saturating_sub(self.written.load(Ordering::Acquire));
        self.options.durability != Durability::Memory && ahead > self.ring.bytes() as u64
    }
}

impl Log {
    /// Opens the log in folder `dir`, making it when there is none, and cuts a torn tail off for ever.
    /// In memory mode `files` and `dir` are not used.
    ///
    /// # Errors
    /// [`LogFault`]: damage that a crash cannot explain, another version, a missing segment, I/O.
    pub fn open(files: Arc<dyn Files>, dir: &Path, options: LogOptions) -> Result<Log, LogFault> {
        options.check()?;
        if options.durability == Durability::Memory {
            let ring = Ring::own(options.buffer_bytes);
            let shared = Arc::new(Shared::new(options, ring, FIRST_LSN, u64::MAX, frame::IN_MEMORY));
            return Ok(Log { shared, files: None, flusher: None });
        }
        let found = recover::recover(files, dir, &options)?;
        let ring = found.files.ring(&options)?;
        let shared = Arc::new(Shared::new(options, ring, found.end, found.segment_end, found.life));
        let flusher = Flusher::start(shared.clone(), found.files.clone(), found.current)?;
        Ok(Log { shared, files: Some(found.files), flusher: Some(flusher) })
    }

    /// The largest body [`Log::append`] takes, in bytes.
    pub fn max_body(&self) -> usize {
        self.shared.ring.bytes() / 4
    }

    pub fn durability(&self) -> Durability {
        self.shared.options.durability
    }

    /// Appends a record whose body is the concatenation of `body`, at a place that `order` allows: positions grow
    /// with time only where it says so. Blocks only while the ring is full.
    ///
    /// # Panics
    /// When the body is larger than [`Log::max_body`].
    pub fn append(&self, header: &RecordHeader, order: Order, body: &[&[u8]]) -> Span {
        let build = |scratch: &mut Vec<u8>| {
            let sum = frame::build(scratch, header, body, self.shared.life);
            assert!(scratch.len() <= self.shared.ring.bytes() / 2, "a log record of {} bytes", scratch.len());
            self.place(scratch, sum, order)
        };
        probe::within(Component::Logging, || SCRATCH.with_borrow_mut(build))
    }

    #[inline]
    fn place(&self, frame: &mut [u8], sum: u32, order: Order) -> Span {
        let shared = &*self.shared;
        let bytes = frame.len() as u64;
        probe::enter(Section::LogReserve);
        let mut tail = shared.tail.lock();
        while shared.crowded(tail.next, frame.len()) {
            let next = tail.next;
            drop(tail);
            self.wait_for_room(next, frame.len());
            tail = shared.tail.lock();
        }
        let start = tail.next;
        debug_assert!(order.allows(start), "a record after {order:?} at {start}");
        let end = start + bytes;
        frame::seal(frame, sum, start, start - shared.stable.load(Ordering::Relaxed), shared.life);
        // On a poisoned log what is acknowledged but not written stays in the ring, for the next opening to find;
        // the new record goes nowhere, and nobody acknowledges it.
        if !shared.overwrites(start, frame.len()) {
            // SAFETY: the append lock is held, so no other appender is here; the flusher is done with these
            // positions, since the frame overwrites nothing that it has not written.
            unsafe { shared.ring.put(start, frame) };
        }
        if end > tail.segment_end {
            tail.cuts.push(start);
            tail.segment_end = start + bytes.max(shared.options.segment_bytes);
        }
        tail.next = end;
        tail.records += 1;
        shared.end.store(end, Ordering::Release);
        drop(tail);
        if let Some(flusher) = &self.flusher {
            flusher.appended(start, end);
        }
        Span { start: Lsn(start), end: Lsn(end) }
    }

    #[cold]
    fn wait_for_room(&self, next: u64, bytes: usize) {
        let shared = &*self.shared;
        self.nudge();
        shared.waiters.block_until(|| !shared.crowded(next, bytes));
    }

    fn nudge(&self) {
        if let Some(flusher) = &self.flusher {
            flusher.nudge();
        }
    }

    /// All records ending at or below this are as safe as the durability mode promises.
    #[inline]
    pub fn durable(&self) -> Lsn {
        Lsn(self.shared.durable())
    }

    /// Asks for the log to be durable up to `upto`, without waiting.
    pub fn kick(&self, upto: Lsn) {
        if self.shared.durable() < upto.0 {
            self.want(upto.0);
        }
    }

    fn want(&self, upto: u64) {
        self.shared.wanted.fetch_max(upto, Ordering::Release);
        self.nudge();
    }

    /// Ready once the log is durable up to `upto`; wakes the task then.
    ///
    /// # Errors
    /// The fault that poisoned the log, when it happened before `upto` was durable.
    pub fn poll_durable(&self, upto: Lsn, cx: &mut Context<'_>) -> Poll<Result<(), LogFault>> {
        let shared = &*self.shared;
        if shared.durable() >= upto.0 {
            return Poll::Ready(Ok(()));
        }
        probe::enter(Section::LogWaiters);
        shared.waiters.enter(upto.0, cx.waker());
        if shared.durable() >= upto.0 {
            return Poll::Ready(Ok(()));
        }
        if let Err(fault) = shared.fault() {
            return Poll::Ready(Err(fault));
        }
        self.want(upto.0);
        Poll::Pending
    }

    /// Blocks until the log is durable up to `upto`.
    ///
    /// # Errors
    /// As [`Log::poll_durable`].
    pub fn wait_durable(&self, upto: Lsn) -> Result<(), LogFault> {
        self.wait(upto.0, Shared::durable)
    }

    /// Blocks until the log up to `upto` is on the device, also in async mode: what must happen before a data
    /// page with that change may be written. In memory mode there is nothing to wait for.
    ///
    /// # Errors
    /// As [`Log::poll_durable`].
    pub fn wait_stable(&self, upto: Lsn) -> Result<(), LogFault> {
        if self.durability() == Durability::Memory {
            return Ok(());
        }
        self.wait(upto.0, |s| s.stable.load(Ordering::Acquire))
    }

    fn wait(&self, upto: u64, reached: impl Fn(&Shared) -> u64) -> Result<(), LogFault> {
        let shared = &*self.shared;
        if reached(shared) >= upto {
            return Ok(());
        }
        self.want(upto);
        shared.waiters.block_until(|| reached(shared) >= upto || shared.fault.get().is_some());
        if reached(shared) >= upto { Ok(()) } else { shared.fault() }
    }

    /// Where the next record will start.
    pub fn end(&self) -> Lsn {
        Lsn(self.shared.end.load(Ordering::Acquire))
    }

    /// Where the oldest record that is still kept starts (in memory mode, where the log began).
    pub fn first(&self) -> Lsn {
        Lsn(self.files.as_ref().map_or(self.shared.opened_at, |f| f.first()))
    }

    /// The reason why nothing becomes durable any more, if so.
    pub fn poisoned(&self) -> Option<LogFault> {
        self.shared.fault.get().cloned()
    }

    pub fn stats(&self) -> LogStats {
        let (next, records) = {
            let tail = self.shared.tail.lock();
            (tail.next, tail.records)
        };
        LogStats {
            bytes: next - self.shared.opened_at,
            records,
            flushes: self.shared.flushes.load(Ordering::Relaxed),
            fsyncs: self.shared.fsyncs.load(Ordering::Relaxed),
        }
    }

    /// The records from the one that starts at `from` to the end of the log as it is now.
    pub fn read_from(&self, from: Lsn) -> LogReader {
        LogReader::new(&self.shared, self.files.clone(), from.0, self.written())
    }

    /// Has all that was appended written, and gives the end of it.
    fn written(&self) -> Result<u64, LogFault> {
        let end = self.end().0;
        if self.durability() != Durability::Memory {
            self.nudge();
            self.wait(end, |s| s.written.load(Ordering::Acquire))?;
        }
        Ok(end)
    }

    /// Drops the segments that hold only records before `lsn`. What follows stays readable.
    ///
    /// # Errors
    /// I/O.
    pub fn truncate_before(&self, lsn: Lsn) -> Result<(), LogFault> {
        self.files.as_ref().map_or(Ok(()), |f| f.truncate_before(lsn.0))
    }
}
