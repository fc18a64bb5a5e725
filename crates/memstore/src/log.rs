//! The value log: the writes of transactions, kept so that they outlive the process.
//!
//! ```text
//!   worker --record--> its buffer --\
//!   worker --record--> its buffer ---+--> a block of the stream's file --> the device
//!                                              --> the epoch is durable --> waiters are woken
//! ```
//! A flush is a group commit. It ends the running epoch and waits until no worker commits in it or
//! an earlier one. Then it writes the contents of all buffers of the stream as one block, which
//! says up to which epoch the stream is complete. An epoch is durable when all streams are complete
//! up to it and as safe as the mode promises. Flushes follow one another as long as a transaction
//! waits, so an epoch lasts as long as a flush does (Silo's last 40 ms).
//!
//! A commit depends only on commits with the same or an earlier epoch. After a crash all records of
//! epochs up to the durable one are left: whole transactions, and everything that they have read
//! (Silo, section 4.10).
//!
//! A *life* of the store is the time from one opening to the next.
//!
//! Read: records (`record`), the buffers in which they wait (`buffer`), files (`block`, `control`),
//! how they are written (`stream`, `flusher`), and a full device (`room`, `making`).

mod block;
mod buffer;
mod control;
mod fault;
mod flusher;
mod making;
mod options;
mod record;
mod room;
mod segments;
mod stream;

pub use base::{Durability, FlushBy};
pub(crate) use block::{ALIGN, BLOCK_HEAD, BlockHead, Blocks, FileHead, Kind, short_read};
use buffer::{Buffer, NUDGE_BYTES};
pub(crate) use control::{CONTROL, Checkpoint, CheckpointPart, Control, Ended, Segment, Undecided};
pub use fault::LogFault;
pub use options::{LogOptions, LogStats};
pub(crate) use record::{Bytes, Changes, Left, Malformed, Open, Record, RowChange, Runs, TxnVerdict};
pub(crate) use record::{Read, Reads, next as next_record, put_guards, put_read};
pub(crate) use record::{put_change, put_decision, put_forget, put_named_note, put_placed, put_write};

use segments::reuse_segment;
pub(crate) use segments::{LogFile, SegmentPlace, Spares, make_segment, segment_head};

use crate::epoch::Epochs;
use crate::sync;
use flusher::Flushers;
use latch::{CachePadded, Rank, RankedMutex, Waiters};
use room::Room;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use stream::{Aim, Stream};
use world::{Files, FolderLock};

/// The pause before the next checkpoint after one that found no room, ns.
const CHECKPOINT_PAUSE_NS: u64 = 1_000_000_000;

/// Notes and undecided transactions by name. Only a worker that has published that it commits
/// changes them, after it has appended the record that says the same. So for a checkpoint that
/// reads them, the log from the checkpoint's first epoch on has the rest.
#[derive(Default)]
pub(crate) struct Named {
    pub(crate) notes: BTreeMap<u64, Vec<u8>>,
    pub(crate) undecided: BTreeMap<u64, Undecided>,
    pub(crate) next: u64,
}

/// State that the workers, the flushers and a checkpoint share.
pub(crate) struct Shared {
    /// The store's number, which every block has.
    store: u64,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) files: Arc<dyn Files>,
    pub(crate) dir: PathBuf,
    pub(crate) options: LogOptions,
    pub(crate) control: RankedMutex<Control>,
    pub(crate) named: RankedMutex<Named>,
    /// By the number of the worker.
    buffers: Box<[Buffer]>,
    streams: Box<[Stream]>,
    /// All streams are durable up to this epoch. Grows; stored by threads that have flushed.
    durable: CachePadded<AtomicU64>,
    /// The latest epoch that a transaction waits for.
    wanted: AtomicU64,
    /// The device has all streams complete up to this epoch. Kept in mode `async`; in mode `sync`,
    /// `durable` has this role.
    stable: AtomicU64,
    /// The latest epoch that is wanted on the device, in mode `async`.
    wanted_stable: AtomicU64,
    stable_waiters: Waiters,
    /// The latest epoch in which a transaction was written that had got its id in an earlier one. A
    /// read-only transaction may have read from it.
    late: AtomicU64,
    waiters: Waiters,
    broken: AtomicBool,
    fault: OnceLock<LogFault>,
    /// Bytes of log that existed before this life.
    inherited: u64,
    /// `Log::appended` at the beginning of the last checkpoint.
    checkpointed: AtomicU64,
    /// No checkpoint is due before this time: the last one found no room.
    checkpoint_ns: AtomicU64,
    /// The first refusal of a change for want of room.
    refused: OnceLock<LogFault>,
    stopping: AtomicBool,
    spares: Spares,
}

impl Shared {
    /// The buffers of stream `number`'s workers.
    fn buffers_of(&self, number: usize) -> impl Iterator<Item = &Buffer> {
        self.buffers.iter().skip(number).step_by(self.streams.len())
    }

    fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire) > self.durable.load(Ordering::Acquire)
            || self.wanted_stable.load(Ordering::Acquire) > self.stable.load(Ordering::Acquire)
    }

    /// Publishes the progress of the streams, and wakes the tasks that waited for it.
    fn publish(&self) {
        let reached = self.streams.iter().map(|s| s.durable.load(Ordering::Acquire)).min().unwrap_or(0);
        if self.durable.fetch_max(reached, Ordering::AcqRel) < reached {
            self.waiters.wake(reached);
        }
    }

    /// The same, for the device.
    fn publish_stable(&self) {
        let reached = self.streams.iter().map(|s| s.stable.load(Ordering::Acquire)).min().unwrap_or(0);
        if self.stable.fetch_max(reached, Ordering::AcqRel) < reached {
            self.stable_waiters.wake(reached);
        }
    }

    /// From here on nothing becomes durable, and no task waits for it.
    pub(crate) fn poison(&self, fault: LogFault) {
        let _ = self.fault.set(fault);
        self.broken.store(true, Ordering::Release);
        self.waiters.wake(u64::MAX);
        self.stable_waiters.wake(u64::MAX);
    }

    /// Replaces the control file by the result of `change`.
    ///
    /// # Errors
    /// An error of the file system; the state in memory is then as before. If it is uncertain which
    /// of the two control files a crash would leave, the log is broken, so the files that either of
    /// them names are kept.
    pub(crate) fn recontrol(&self, change: impl FnOnce(&mut Control)) -> Result<(), LogFault> {
        let mut control = self.control.lock();
        let mut next = control.clone();
        change(&mut next);
        next.write_beside(&*self.files, &self.dir)?;
        match Control::put_in_place(&*self.files, &self.dir) {
            Ok(()) => *control = next,
            Err(fault) => {
                drop(control);
                self.poison(fault.clone());
                return Err(fault);
            }
        }
        Ok(())
    }

    /// Brings the names of files to the device. If that fails, no name that was made since the last
    /// success is certain any more, whichever thread made it, and the log is broken.
    pub(crate) fn sync_names(&self) -> Result<(), LogFault> {
        let synced = self.files.sync_dir(&self.dir).map_err(LogFault::from);
        synced.inspect_err(|fault| self.poison(fault.clone()))
    }

    /// The fault of a log that cannot grow. It does not break the log.
    fn no_room(&self) -> LogFault {
        let text = format!("{}: no space is left for the next file of the log", self.dir.display());
        LogFault::NoRoom(Arc::new(std::io::Error::new(std::io::ErrorKind::StorageFull, text)))
    }

    fn file_head(&self, segment: &Segment) -> FileHead {
        segment_head(&self.control.lock(), segment)
    }
}

/// The log of an open store. Dropping it writes and syncs everything.
pub(crate) struct Log {
    pub(crate) shared: Arc<Shared>,
    flushers: Flushers,
    /// Held during a checkpoint.
    pub(crate) checkpoint: RankedMutex<()>,
    _lock: FolderLock,
}

/// The state from which a log begins.
pub(crate) struct Beginning {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) dir: PathBuf,
    pub(crate) options: LogOptions,
    pub(crate) lock: FolderLock,
    /// Already written to disk, with the first segment of each stream.
    pub(crate) control: Control,
    pub(crate) first: Vec<(Segment, LogFile)>,
    pub(crate) named: Named,
    /// Bytes of log that the next opening would have to read at present.
    pub(crate) inherited: u64,
}

impl Log {
    pub(crate) fn begin(beginning: Beginning, epochs: Arc<Epochs>, workers: usize) -> Result<Log, LogFault> {
        let Beginning { files, dir, options, lock, control, first, named, inherited } = beginning;
        let begun = control.begun;
        let writers = workers.div_ceil(first.len().max(1));
        let room = || Room::new(writers, &options);
        let stream = |(number, (segment, file))| Stream::new(number, segment, file, begun, room());
        let streams = first.into_iter().enumerate().map(stream).collect();
        let shared = Arc::new(Shared {
            store: control.store,
            epochs,
            files,
            dir,
            options,
            control: RankedMutex::new(Rank::MemControl, control),
            named: RankedMutex::new(Rank::MemNames, named),
            buffers: (0..workers).map(|_| Buffer::new()).collect(),
            streams,
            durable: CachePadded::new(AtomicU64::new(begun)),
            wanted: AtomicU64::new(begun),
            stable: AtomicU64::new(begun),
            wanted_stable: AtomicU64::new(begun),
            stable_waiters: Waiters::default(),
            late: AtomicU64::new(begun),
            waiters: Waiters::default(),
            broken: AtomicBool::new(false),
            fault: OnceLock::new(),
            inherited,
            checkpointed: AtomicU64::new(0),
            checkpoint_ns: AtomicU64::new(0),
            refused: OnceLock::new(),
            stopping: AtomicBool::new(false),
            spares: Spares::new(),
        });
        let flushers = Flushers::start(&shared)?;
        let checkpoint = RankedMutex::new(Rank::MemCheckpoint, ());
        Ok(Log { shared, flushers, checkpoint, _lock: lock })
    }

    #[inline]
    pub(crate) fn is_broken(&self) -> bool {
        self.shared.broken.load(Ordering::Relaxed)
    }

    pub(crate) fn fault(&self) -> Option<LogFault> {
        self.shared.fault.get().cloned()
    }

    /// Appends a worker's records. Returns the bytes in the worker's buffer.
    #[inline]
    pub(crate) fn append(&self, worker: usize, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let shared = &*self.shared;
        let (before, after) = shared.buffers[worker].append(write);
        if before / NUDGE_BYTES != after / NUDGE_BYTES {
            self.flushers.nudge(worker % shared.streams.len());
        }
        after
    }

    /// A worker that has fewer bytes than this in its buffer may begin to commit.
    #[inline]
    pub(crate) fn allowance(&self, worker: usize) -> usize {
        let streams = &self.shared.streams;
        streams[if streams.len() == 1 { 0 } else { worker % streams.len() }].room.allowance()
    }

    /// Waits until the worker may begin to commit, or never may since the log is broken. Returns
    /// the bytes in its buffer; `None` if the device has no room for more of the log.
    #[cold]
    pub(crate) fn wait_for_room(&self, worker: usize) -> Option<usize> {
        let shared = &*self.shared;
        let number = worker % shared.streams.len();
        let (room, mut wait) = (&shared.streams[number].room, latch::Backoff::new());
        let mut is_asked = false;
        loop {
            let unwritten = shared.buffers[worker].len();
            if unwritten < room.allowance() || self.is_broken() {
                return Some(unwritten);
            }
            if room.is_short() {
                shared.refused.get_or_init(|| shared.no_room());
                return None;
            }
            if unwritten > 0 && !std::mem::replace(&mut is_asked, true) {
                shared.wanted.fetch_max(shared.epochs.now(), Ordering::SeqCst);
            }
            self.flushers.nudge(number);
            wait.wait();
        }
    }

    /// The first refusal of a change for want of room, if there was one.
    pub(crate) fn refused(&self) -> Option<LogFault> {
        self.shared.refused.get().cloned()
    }

    /// Whether a block waits for room on the device.
    fn holds_block(&self) -> bool {
        self.shared.streams.iter().any(|stream| stream.room.holds_block())
    }

    /// Has to be called before the rows of a transaction that got its id in an earlier epoch are
    /// unlocked.
    pub(crate) fn is_late(&self, epoch: u64) {
        self.shared.late.fetch_max(epoch, Ordering::AcqRel);
    }

    /// The epoch on which a transaction depends that may have read from a transaction with a late
    /// epoch.
    #[inline]
    pub(crate) fn late(&self) -> u64 {
        self.shared.late.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn durable(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    /// `None` when the epoch has to be waited for.
    #[inline]
    fn known(&self, epoch: u64) -> Option<Result<(), LogFault>> {
        if self.durable() >= epoch {
            return Some(Ok(()));
        }
        self.fault().map(Err)
    }

    pub(crate) fn poll_durable(
        &self,
        epoch: u64,
        flush_by: FlushBy,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), LogFault>> {
        if let Some(known) = self.known(epoch) {
            return Poll::Ready(known);
        }
        probe::enter(probe::Section::LogWaiters);
        self.shared.waiters.enter(epoch, cx.waker());
        self.shared.wanted.fetch_max(epoch, Ordering::SeqCst);
        if let Some(known) = self.known(epoch) {
            return Poll::Ready(known);
        }
        if flush_by == FlushBy::Flusher {
            self.flush();
        }
        Poll::Pending
    }

    pub(crate) fn durability(&self) -> Durability {
        self.shared.options.durability
    }

    fn stable_known(&self, epoch: u64) -> Option<Result<(), LogFault>> {
        match self.durability() {
            Durability::Async if self.shared.stable.load(Ordering::Acquire) >= epoch => Some(Ok(())),
            Durability::Async => self.fault().map(Err),
            Durability::Sync | Durability::Replicated | Durability::Memory => self.known(epoch),
        }
    }

    /// Asks for everything up to `epoch` to reach the device, without waiting.
    fn want_stable(&self, epoch: u64) {
        self.shared.wanted.fetch_max(epoch, Ordering::SeqCst);
        if self.durability() == Durability::Async {
            self.shared.wanted_stable.fetch_max(epoch, Ordering::SeqCst);
        }
    }

    pub(crate) fn poll_stable(
        &self,
        epoch: u64,
        flush_by: FlushBy,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), LogFault>> {
        if self.durability() != Durability::Async {
            return self.poll_durable(epoch, flush_by, cx);
        }
        if let Some(known) = self.stable_known(epoch) {
            return Poll::Ready(known);
        }
        self.shared.stable_waiters.enter(epoch, cx.waker());
        self.want_stable(epoch);
        if let Some(known) = self.stable_known(epoch) {
            return Poll::Ready(known);
        }
        if flush_by == FlushBy::Flusher {
            self.flush();
        }
        Poll::Pending
    }

    /// `true` when the device has everything up to `epoch`; otherwise asks for it.
    pub(crate) fn ask_stable(&self, epoch: u64) -> bool {
        if let Some(known) = self.stable_known(epoch) {
            return known.is_ok();
        }
        self.want_stable(epoch);
        self.flush();
        false
    }

    pub(crate) fn wait_durable(&self, epoch: u64) -> Result<(), LogFault> {
        self.shared.wanted.fetch_max(epoch, Ordering::SeqCst);
        self.flush();
        self.shared.waiters.block_until(|| self.known(epoch).is_some());
        self.known(epoch).unwrap_or(Ok(()))
    }

    /// Waits until the device has everything up to `epoch`, in every mode. Fails if it is not there
    /// and the device has no room for more of the log.
    pub(crate) fn wait_stable(&self, epoch: u64) -> Result<(), LogFault> {
        self.shared.wanted.fetch_max(epoch, Ordering::SeqCst);
        self.flush();
        self.shared.waiters.block_until(|| self.known(epoch).is_some() || self.holds_block());
        self.known(epoch).unwrap_or_else(|| Err(self.shared.no_room()))?;
        let is_there =
            |stream: &Stream| stream.stable_epoch() >= epoch || stream.attempt(&self.shared, Aim::Everything);
        match self.shared.streams.iter().all(is_there) {
            true => Ok(()),
            false => Err(self.fault().expect("a broken log says why")),
        }
    }

    /// `true` when the epoch is durable; otherwise asks for it, once.
    pub(crate) fn ask_durable(&self, epoch: u64) -> bool {
        if self.durable() >= epoch {
            return true;
        }
        if self.shared.wanted.fetch_max(epoch, Ordering::SeqCst) < epoch {
            self.flush();
        }
        false
    }

    /// Writes and syncs everything, on this thread.
    pub(crate) fn write_out(&self) -> Result<(), LogFault> {
        self.flushers.write_out();
        let unwritten = self.holds_block().then(|| self.shared.no_room());
        self.fault().or(unwritten).map_or(Ok(()), Err)
    }

    /// Has the flushers' threads flush everything that is waited for.
    pub(crate) fn flush(&self) {
        self.flushers.flush();
    }

    /// The same on this thread, unless a flush is under way.
    pub(crate) fn flush_here(&self) {
        if self.shared.is_wanted() {
            self.flushers.flush_here();
        }
    }

    /// Bytes appended and taken so far, with those of earlier lives.
    fn appended(&self) -> u64 {
        let inherited = self.shared.inherited;
        inherited + self.shared.streams.iter().map(|s| s.counts.bytes.load(Ordering::Relaxed)).sum::<u64>()
    }

    /// Bytes of log that the next opening has to read, about.
    pub(crate) fn since_checkpoint(&self) -> u64 {
        self.appended().saturating_sub(self.shared.checkpointed.load(Ordering::Relaxed))
    }

    pub(crate) fn checkpoint_due(&self) -> bool {
        self.since_checkpoint() >= self.shared.options.checkpoint_bytes
            && world::now_ns() >= self.shared.checkpoint_ns.load(Ordering::Relaxed)
    }

    /// Returns the value for [`Log::checkpoint_waits`].
    pub(crate) fn checkpoint_begins(&self) -> u64 {
        self.shared.checkpointed.swap(self.appended(), Ordering::Relaxed)
    }

    /// The checkpoint has found no room: another one is due after a pause.
    pub(crate) fn checkpoint_waits(&self, before: u64) {
        self.shared.checkpoint_ns.store(world::now_ns() + CHECKPOINT_PAUSE_NS, Ordering::Relaxed);
        self.shared.checkpointed.store(before, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> LogStats {
        let mut all = LogStats::default();
        for stream in &self.shared.streams {
            let counts = &stream.counts;
            all.bytes += counts.bytes.load(Ordering::Relaxed);
            all.records += counts.records.load(Ordering::Relaxed);
            all.written += counts.written.load(Ordering::Relaxed);
            all.flushes += counts.flushes.load(Ordering::Relaxed);
            all.fsyncs += counts.fsyncs.load(Ordering::Relaxed);
        }
        all
    }
}
