//! Appending and waiting.
//!
//! ```text
//!   stable <= written <= end            positions only grow
//!          segment files |  ring
//! ```
//!
//! Access rules:
//! - Appenders give records their places as [`crate::insert`] says, and copy them into the ring.
//! - The flusher alone moves `written` (bytes given to the file system; their space in the ring is
//!   free) and `stable` (bytes on the device), as far as the log is complete.
//! - Any thread reads both. Memory mode has no flusher: `stable` stays where it began, and a thread
//!   that reserves moves `written` past the records that the ring discards.

use crate::fault::LogFault;
use crate::files::LogFiles;
use crate::flusher::Flusher;
use crate::frame::{self, RecordHeader, Span};
use crate::insert::{Content, Crowded, Draft, Placed, Room, Slot};
use crate::options::{LogOptions, LogStats};
use crate::order::LogOrder;
use crate::reader::LogReader;
use crate::recover;
use crate::ring::Ring;
use crate::segment::FIRST_LSN;
use crate::shared::Shared;
use base::{Durability, FlushBy, Lsn, TxnId};
use probe::{Component, Section};
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use world::Files;

/// State of one thread for its appends.
struct ThreadState {
    /// Buffer in which the thread builds a frame before it asks for a place.
    scratch: Vec<u8>,
    /// Id of the log of the thread's last append; `slot` is the thread's slot there.
    log: u64,
    slot: Option<Arc<Slot>>,
    /// The thread's slots in other logs.
    others: Vec<(u64, Arc<Slot>)>,
}

thread_local! {
    static THREAD_STATE: RefCell<ThreadState> =
        const { RefCell::new(ThreadState { scratch: Vec::new(), log: 0, slot: None, others: Vec::new() }) };
}

impl ThreadState {
    #[cold]
    fn turn_to(&mut self, shared: &Shared) {
        if let Some(slot) = self.slot.take() {
            self.others.push((self.log, slot));
        }
        // A slot that only this thread refers to belongs to a log that was dropped.
        self.others.retain(|(_, slot)| Arc::strong_count(slot) > 1);
        let known = self.others.iter().position(|(log, _)| *log == shared.id);
        self.slot = Some(known.map_or_else(|| shared.inserter.slot(), |n| self.others.swap_remove(n).1));
        self.log = shared.id;
    }
}

/// The pause between two looks at a segment that is being created.
const SEGMENT_PAUSE: Duration = Duration::from_micros(200);

#[cold]
fn no_room(files: &LogFiles) -> LogFault {
    let text = format!("{}: no space is left for the next segment of the log", files.dir.display());
    std::io::Error::new(std::io::ErrorKind::StorageFull, text).into()
}

/// An open log. Dropping it writes all that was appended, and syncs it unless the log is in memory.
pub struct Log {
    pub(crate) shared: Arc<Shared>,
    /// The segments; `None` in memory mode.
    files: Option<Arc<LogFiles>>,
    /// `None` in memory mode.
    flusher: Option<Flusher>,
}

impl Log {
    /// Opens the log in folder `dir`, creates it if there is none, and cuts off a torn tail for
    /// good. In memory mode `files` and `dir` are not used.
    ///
    /// # Errors
    /// [`LogFault`]: damage that a crash cannot explain, another version, a missing segment, I/O.
    pub fn open(files: Arc<dyn Files>, dir: &Path, options: LogOptions) -> Result<Log, LogFault> {
        options.check()?;
        let options = options.where_holes_are_told(files.boot());
        if options.durability == Durability::Memory {
            let ring = Ring::own(options.buffer_bytes);
            let shared = Arc::new(Shared::new(options, ring, FIRST_LSN, u64::MAX, frame::IN_MEMORY));
            return Ok(Log { shared, files: None, flusher: None });
        }
        let found = recover::recover(files, dir, &options)?;
        let ring = found.files.ring(found.life)?;
        let shared = Arc::new(Shared::new(options, ring, found.end, found.segment_end, found.life));
        let flusher = Flusher::start(shared.clone(), found.files.clone(), found.current)?;
        Ok(Log { shared, files: Some(found.files), flusher: Some(flusher) })
    }

    /// The largest body that [`Log::append`] takes, in bytes.
    pub fn max_body(&self) -> usize {
        self.shared.ring.bytes() / 4
    }

    pub fn durability(&self) -> Durability {
        self.shared.options.durability
    }

    /// Appends a record with the concatenation of `body` as its body, at a place that `order`
    /// allows. Positions ascend with time only as far as `order` requires. Blocks only while the
    /// ring is full.
    ///
    /// # Panics
    /// When the body is larger than [`Log::max_body`].
    pub fn append(&self, header: &RecordHeader, order: LogOrder, body: &[&[u8]]) -> Span {
        let shared = &*self.shared;
        let append = |state: &mut ThreadState| {
            if state.log != shared.id {
                state.turn_to(shared);
            }
            let slot = state.slot.as_ref().expect("turned to this log");
            let depends_on = match order {
                LogOrder::Dependent(_) => Lsn(shared.inserter.depends_on(slot)),
                LogOrder::After(_) | LogOrder::Last => Lsn(0),
            };
            let stable = shared.stable.load(Ordering::Relaxed);
            let plain = shared.life == frame::IN_MEMORY && depends_on == Lsn(0) && !header.is_clr();
            let (content, bytes) = if plain {
                let plain = frame::Plain::new(header.kind, header.txn, header.prev, body);
                (Content::Plain(plain), frame::padded(plain.length))
            } else {
                let header = RecordHeader { depends_on, ..*header };
                let sum = frame::build(&mut state.scratch, &header, body, shared.life);
                let bytes = state.scratch.len();
                (Content::Built(&mut state.scratch, sum), bytes)
            };
            assert!(bytes <= shared.ring.bytes() / 2, "a log record of {bytes} bytes");
            let start = self.put(slot, Draft { content, stable }, order);
            Span::new(start, start + bytes as u64, depends_on)
        };
        probe::within(Component::Logging, || THREAD_STATE.with_borrow_mut(append))
    }

    /// As [`Log::append`], for a record that is no compensation record and depends on nothing.
    /// Returns its start and end. Most records are of this kind and take a shorter path: in a log
    /// in memory the frame is built in the ring.
    ///
    /// # Panics
    /// As [`Log::append`].
    #[inline]
    pub fn append_plain(&self, kind: u8, txn: TxnId, prev: Lsn, after: Lsn, body: &[&[u8]]) -> (Lsn, Lsn) {
        if self.shared.life != frame::IN_MEMORY {
            let header = RecordHeader { kind, txn, prev, ..RecordHeader::default() };
            let span = self.append(&header, LogOrder::After(after), body);
            return (span.start, span.end);
        }
        self.append_unsummed(frame::Plain::new(kind, txn, prev, body), after)
    }

    // Inlined at its one caller: a call would pass two structs through memory.
    #[inline(always)]
    fn append_unsummed(&self, plain: frame::Plain<'_>, after: Lsn) -> (Lsn, Lsn) {
        let shared = &*self.shared;
        let bytes = frame::padded(plain.length);
        assert!(bytes <= shared.ring.bytes() / 2, "a log record of {bytes} bytes");
        let append = |state: &mut ThreadState| {
            if state.log != shared.id {
                state.turn_to(shared);
            }
            let slot = state.slot.as_ref().expect("turned to this log");
            let stable = shared.stable.load(Ordering::Relaxed);
            self.put(slot, Draft { content: Content::Plain(plain), stable }, LogOrder::After(after))
        };
        let start = probe::within(Component::Logging, || THREAD_STATE.with_borrow_mut(append));
        (Lsn(start), Lsn(start + bytes as u64))
    }

    /// Finds a place for a record and copies it there. Returns its start.
    // Inlined: the caller knows the kind of draft and of order at compile time.
    #[inline(always)]
    fn put(&self, slot: &Arc<Slot>, mut draft: Draft<'_>, order: LogOrder) -> u64 {
        let has_place = self.shared.inserter.append_within(slot, &mut draft, order, &self.shared.room());
        has_place.unwrap_or_else(|| self.put_further(slot, draft, order))
    }

    /// As [`Log::put`], where the positions that the thread has reserved are not suitable.
    #[inline(never)]
    fn put_further(&self, slot: &Arc<Slot>, mut draft: Draft<'_>, order: LogOrder) -> u64 {
        let Placed { start, reserved } = self.place(slot, &mut draft, order);
        if reserved.0 != reserved.1 {
            probe::enter(Section::LogReserve);
        }
        if let (Some(flusher), Some(files)) = (&self.flusher, &self.files) {
            flusher.reserved(reserved);
            files.reserved(reserved.1);
        }
        start
    }

    #[inline]
    fn place(&self, slot: &Arc<Slot>, draft: &mut Draft<'_>, order: LogOrder) -> Placed {
        let room = Room { flusher: self.flusher.as_ref().map(Flusher::thread), ..self.shared.room() };
        loop {
            match self.shared.inserter.append(slot, draft, order, &room) {
                Ok(placed) => return placed,
                Err(crowded) => self.wait_for_room(crowded, &room),
            }
        }
    }

    #[cold]
    pub(crate) fn wait_for_room(&self, Crowded { next, bytes }: Crowded, room: &Room<'_>) {
        let shared = &*self.shared;
        let needed = (next + bytes).saturating_sub(shared.ring.bytes() as u64);
        shared.pressed.fetch_max(needed, Ordering::Release);
        self.nudge();
        // The flusher may have written past `next` meanwhile. That counts as room.
        shared.waiters.block_until(|| !room.must_wait(next + bytes));
    }

    fn nudge(&self) {
        if let Some(flusher) = &self.flusher {
            flusher.nudge();
        }
    }

    /// All records that end at or below this position are as safe as the durability mode promises.
    #[inline]
    pub fn durable(&self) -> Lsn {
        Lsn(self.shared.durable())
    }

    /// Whether the device has the log up to `upto` in the sense of [`Log::poll_stable`]. Requests
    /// it if not, without waiting.
    pub fn ask_stable(&self, upto: Lsn) -> bool {
        let is_there = self.shared.on_device() >= upto.0;
        if !is_there {
            self.want(upto.0);
        }
        is_there
    }

    /// Requests that the log become durable up to `upto`, without waiting.
    pub fn kick(&self, upto: Lsn) {
        if self.shared.durable() < upto.0 {
            self.want(upto.0);
        }
    }

    fn want(&self, upto: u64) {
        self.shared.wanted.fetch_max(upto, Ordering::Release);
        self.nudge();
    }

    /// Wakes the flusher's thread to do the flush that was requested with [`FlushBy::Caller`],
    /// without waiting.
    pub fn flush(&self) {
        self.nudge();
    }

    /// As [`Log::flush`], but the calling thread writes and syncs the log itself if no other thread
    /// is flushing and as many transactions wait as are expected. The call lasts as long as the
    /// device takes, and saves the wake-ups to the flusher and back. For a thread that has nothing
    /// else to do.
    pub fn flush_here(&self) {
        if let Some(flusher) = &self.flusher {
            flusher.flush_here();
        }
    }

    /// Ready once the log is durable up to `upto`; wakes the task then.
    ///
    /// # Errors
    /// The fault that poisoned the log, if it happened before `upto` was durable.
    pub fn poll_durable(
        &self,
        upto: Lsn,
        flush_by: FlushBy,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), LogFault>> {
        self.poll(upto, flush_by, cx, Shared::durable)
    }

    /// Ready once the device has the log up to `upto`, in every mode; in memory mode at once. For
    /// transactions on which several logs must agree: a log that loses its end in a power cut must
    /// still have the records on which the other logs rely.
    ///
    /// # Errors
    /// As [`Log::poll_durable`].
    pub fn poll_stable(
        &self,
        upto: Lsn,
        flush_by: FlushBy,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), LogFault>> {
        self.poll(upto, flush_by, cx, Shared::on_device)
    }

    fn poll(
        &self,
        upto: Lsn,
        flush_by: FlushBy,
        cx: &mut Context<'_>,
        reached: impl Fn(&Shared) -> u64,
    ) -> Poll<Result<(), LogFault>> {
        let shared = &*self.shared;
        if reached(shared) >= upto.0 {
            return Poll::Ready(Ok(()));
        }
        probe::enter(Section::LogWaiters);
        shared.waiters.enter(upto.0, cx.waker());
        if reached(shared) >= upto.0 {
            return Poll::Ready(Ok(()));
        }
        if let Err(fault) = shared.fault() {
            return Poll::Ready(Err(fault));
        }
        match flush_by {
            FlushBy::Flusher => self.want(upto.0),
            FlushBy::Caller => drop(shared.wanted.fetch_max(upto.0, Ordering::Release)),
        }
        Poll::Pending
    }

    /// Blocks until the log is durable up to `upto`.
    ///
    /// # Errors
    /// As [`Log::poll_durable`].
    pub fn wait_durable(&self, upto: Lsn) -> Result<(), LogFault> {
        self.wait(upto.0, Shared::durable)
    }

    /// Blocks until the log up to `upto` is on the device, also in async mode. A data page may be
    /// written only after this, with `upto` the end of its last change. In memory mode the call
    /// returns at once.
    ///
    /// # Errors
    /// As [`Log::poll_durable`].
    pub fn wait_stable(&self, upto: Lsn) -> Result<(), LogFault> {
        self.wait(upto.0, Shared::on_device)
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

    /// A position at or past the end of each record of which the append is over. The log becomes
    /// durable up to it on request. Later records may lie before it.
    pub fn end(&self) -> Lsn {
        Lsn(self.shared.inserter.end())
    }

    /// A position that divides the log in time: each record appended before this call starts below
    /// it and is complete, each record appended after it starts there or later. It closes all open
    /// extents, so it is meant for checkpoints, not for transactions.
    pub fn fence(&self) -> Lsn {
        Lsn(self.shared.inserter.fence(&self.shared.room()))
    }

    /// Start of the oldest record that is kept (in memory mode, the start of the log).
    pub fn first(&self) -> Lsn {
        Lsn(self.files.as_ref().map_or(self.shared.opened_at, |f| f.first()))
    }

    /// Whether there is room for more than the records that transactions need to end.
    ///
    /// The creation of the next segment begins when an eighth of the current one is used. The
    /// last quarter of the last segment on the device is left for commits and rollbacks, so no
    /// change begins there: if the device has no room for the next segment, this fails; while that
    /// is not known, it blocks. The flusher tries again from time to time.
    ///
    /// # Errors
    /// A fault for want of room; the log is not poisoned.
    #[inline]
    pub fn room(&self) -> Result<(), LogFault> {
        match &self.files {
            Some(files) if files.is_tight() => self.wait_for_segment(files),
            _ => Ok(()),
        }
    }

    #[cold]
    fn wait_for_segment(&self, files: &LogFiles) -> Result<(), LogFault> {
        while !self.shared.broken.load(Ordering::Acquire) {
            match files.has_room(self.shared.inserter.reserved()) {
                Some(true) => return Ok(()),
                Some(false) => return Err(no_room(files)),
                None => self.nudge(),
            }
            std::thread::sleep(SEGMENT_PAUSE);
        }
        Ok(()) // the operation will meet the fault
    }

    /// Whether the device had no room for the next segment when it was last tried.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.files.as_ref().is_some_and(|files| files.is_short())
    }

    /// The fault that poisoned the log, after which nothing becomes durable.
    pub fn poisoned(&self) -> Option<LogFault> {
        self.shared.fault.get().cloned()
    }

    pub fn stats(&self) -> LogStats {
        let counts = self.shared.inserter.counts();
        LogStats {
            bytes: self.end().0 - self.shared.opened_at,
            padding: counts.padding,
            records: counts.records,
            flushes: self.shared.flushes.load(Ordering::Relaxed),
            fsyncs: self.shared.fsyncs.load(Ordering::Relaxed),
        }
    }

    /// The records from the one that starts at `from` to the present end of the log.
    pub fn read_from(&self, from: Lsn) -> LogReader {
        LogReader::new(&self.shared, self.files.clone(), from.0, self.written())
    }

    /// Waits until all appended records are written. Returns their end.
    fn written(&self) -> Result<u64, LogFault> {
        let shared = &*self.shared;
        if self.durability() == Durability::Memory {
            return Ok(self.fence().0);
        }
        let end = self.end().0;
        let written = || shared.written.load(Ordering::Acquire);
        shared.pressed.fetch_max(end, Ordering::Release);
        self.nudge();
        shared.waiters.block_until(|| written() >= end || shared.fault.get().is_some());
        if written() >= end { Ok(end) } else { shared.fault().map(|()| end) }
    }

    /// Start of the oldest archived record; `None` without an archive, or while it is empty. From
    /// there on [`Log::read_from`] gives every record, to restore a database from an old copy.
    ///
    /// # Errors
    /// I/O.
    pub fn archived_from(&self) -> Result<Option<Lsn>, LogFault> {
        self.files.as_ref().map_or(Ok(None), |f| Ok(f.archived_from()?.map(Lsn)))
    }

    /// Drops the segments that hold only records before `lsn`, or moves them to the archive. Later
    /// records stay readable; with an archive, all records do.
    ///
    /// # Errors
    /// I/O.
    pub fn truncate_before(&self, lsn: Lsn) -> Result<(), LogFault> {
        self.files.as_ref().map_or(Ok(()), |f| f.truncate_before(lsn.0))
    }
}
