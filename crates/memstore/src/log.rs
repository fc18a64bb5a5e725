//! The value log: what transactions wrote, so that it outlives the process.
//!
//! ```text
//!   worker --record--> its buffer --\
//!   worker --record--> its buffer ---+--> a block of the stream's file --> the device --> epoch durable --> waiters
//! ```
//! A flush ends the running epoch, waits until nobody commits in it or before any more, and writes what all buffers of the
//! stream hold as one block, which says up to which epoch it makes the stream complete. An epoch is durable when all
//! streams are complete up to it and as safe as the mode promises. Flushes follow one another as long as somebody waits,
//! so an epoch lasts as long as a flush does (Silo's last 40 ms).
//!
//! What a commit depends on has an epoch not later than its own, so what is left after a crash, all records of
//! epochs up to the durable one, is whole transactions and everything they have seen (Silo, section 4.10).
//!
//! Read: records (`record`), where they wait (`buffer`), files (`block`, `control`), how they are written (`stream`,
//! `flusher`).

mod block;
mod buffer;
mod control;
mod fault;
mod flusher;
mod options;
mod record;
mod stream;

use block::Aligned;
pub(crate) use block::{ALIGN, BLOCK_HEAD, BlockHead, Blocks, FileHead, Kind, short_read};
use buffer::{Buffer, NUDGE_BYTES};
pub(crate) use control::{CONTROL, Checkpoint, Control, Ended, Part, Segment, Undecided};
pub use fault::LogFault;
pub use options::{Durability, LogOptions, LogStats, Urge};
pub(crate) use record::{Bytes, Change, Changes, Left, Malformed, Open, Record, Runs, Verdict};
pub(crate) use record::{Read, Reads, next as next_record, put_guards, put_read};
pub(crate) use record::{put_change, put_decision, put_forget, put_named_note, put_placed, put_write};

use crate::epoch::Epochs;
use crate::sync;
use flusher::Flushers;
use latch::{CachePadded, Waiters};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use stream::{Aim, Stream};
use world::{Caching, File, Files, FolderLock};

/// What is behind these mutexes is whole between any two statements that hold them.
pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Live notes and undecided transactions by name. Changed only by a worker that says that it commits, after it has
/// appended the record that says the same; so a checkpoint that looks here has the rest from its first epoch on.
#[derive(Default)]
pub(crate) struct Named {
    pub(crate) notes: BTreeMap<u64, Vec<u8>>,
    pub(crate) undecided: BTreeMap<u64, Undecided>,
    pub(crate) next: u64,
}

/// What the workers, the flushers and a checkpoint share.
pub(crate) struct Shared {
    /// The store's number, which every block has.
    store: u64,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) files: Arc<dyn Files>,
    pub(crate) dir: PathBuf,
    pub(crate) options: LogOptions,
    pub(crate) control: Mutex<Control>,
    pub(crate) named: Mutex<Named>,
    /// By the number of the worker.
    buffers: Box<[Buffer]>,
    streams: Box<[Stream]>,
    /// Of all streams. Grows; stored by whoever has flushed.
    durable: CachePadded<AtomicU64>,
    /// The latest epoch that somebody waits for.
    wanted: AtomicU64,
    /// Of all streams: the device has them complete up to this epoch. Where the mode promises that,
    /// it is `durable`.
    stable: AtomicU64,
    /// The latest epoch that is wanted on the device, where the mode does not promise it.
    wanted_stable: AtomicU64,
    stable_waiters: Waiters,
    /// The latest epoch in which a transaction was written that got its id in an earlier one. Who only read may have seen it.
    late: AtomicU64,
    waiters: Waiters,
    broken: AtomicBool,
    fault: OnceLock<LogFault>,
    /// Bytes of log that were there before this life.
    inherited: u64,
    /// Bytes appended, and those, when the last checkpoint began.
    checkpointed: AtomicU64,
    stopping: AtomicBool,
    spares: Spares,
}

impl Shared {
    /// The files of stream `number`'s workers.
    fn buffers_of(&self, number: usize) -> impl Iterator<Item = &Buffer> {
        self.buffers.iter().skip(number).step_by(self.streams.len())
    }

    fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire) > self.durable.load(Ordering::Acquire)
            || self.wanted_stable.load(Ordering::Acquire) > self.stable.load(Ordering::Acquire)
    }

    /// Takes over how far the streams are, and wakes those who waited for it.
    fn publish(&self) {
        let reached = self.streams.iter().map(|s| s.durable.load(Ordering::Acquire)).min().unwrap_or(0);
        if self.durable.fetch_max(reached, Ordering::AcqRel) < reached {
            self.waiters.wake(reached);
        }
    }

    /// The same, of what the device has.
    fn publish_stable(&self) {
        let reached = self.streams.iter().map(|s| s.stable.load(Ordering::Acquire)).min().unwrap_or(0);
        if self.stable.fetch_max(reached, Ordering::AcqRel) < reached {
            self.stable_waiters.wake(reached);
        }
    }

    /// Nothing becomes durable any more, and nobody waits for it.
    pub(crate) fn poison(&self, fault: LogFault) {
        let _ = self.fault.set(fault);
        self.broken.store(true, Ordering::Release);
        self.waiters.wake(u64::MAX);
        self.stable_waiters.wake(u64::MAX);
    }

    /// Replaces the control file by what `change` makes of it.
    ///
    /// # Errors
    /// The file system's; what is in memory is then as before. If it is unknown which of the two control files is there after
    /// a crash, the log is broken: so whatever either of them names has to stay.
    pub(crate) fn recontrol(&self, change: impl FnOnce(&mut Control)) -> Result<(), LogFault> {
        let mut control = held(&self.control);
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

    /// Has the names of files on the device. Where that fails nobody knows what has become of any name since the last time, whoever made it,
    /// and the log is broken.
    pub(crate) fn sync_names(&self) -> Result<(), LogFault> {
        let synced = self.files.sync_dir(&self.dir).map_err(LogFault::from);
        synced.inspect_err(|fault| self.poison(fault.clone()))
    }

    fn file_head(&self, segment: &Segment) -> FileHead {
        segment_head(&held(&self.control), segment)
    }
}

pub(crate) fn segment_head(control: &Control, segment: &Segment) -> FileHead {
    FileHead {
        store: control.store,
        kind: Kind::Log,
        part: u32::from(segment.stream),
        number: segment.number,
        life: segment.life,
        streams: u32::from(control.streams),
    }
}

/// A log file to be written, and whether past the system's cache.
pub(crate) struct LogFile {
    pub(crate) file: Arc<dyn File>,
    pub(crate) caching: Caching,
    /// A block that would end behind this goes to the next file.
    pub(crate) bytes: u64,
}

/// The size of a life's first log file at most: it is made while somebody waits for the store.
const FIRST_BYTES: u64 = 4 << 20;

/// Which of a life's log files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    FirstOfLife,
    Later,
}

/// Makes a log file whose bytes are all there, so that later writes neither fail for lack of room nor change what the file
/// system knows about it. Durable but for its name. Filled past the system's cache, a piece at a time: what a cache gives to
/// the device all at once keeps the log's own writes waiting. `between` is called between two pieces, with the part of the
/// file that is filled.
pub(crate) fn make_segment(
    files: &dyn Files,
    dir: &Path,
    head: &FileHead,
    name: &str,
    (options, place): (&LogOptions, Place),
    mut between: impl FnMut(f64),
) -> Result<LogFile, LogFault> {
    const PIECE: usize = 1 << 18;
    let bytes = match place {
        Place::FirstOfLife => options.segment_bytes.min(FIRST_BYTES),
        Place::Later => options.segment_bytes,
    };
    let (path, bytes) = (dir.join(name), bytes.next_multiple_of(ALIGN as u64));
    let (file, _) = files.open_direct(&path, world::Open::Create)?;
    file.set_len(0)?;
    file.allocate(bytes)?;
    let mut aligned = Aligned::default();
    let zeros = aligned.copy(&vec![0; PIECE.min(bytes as usize)]);
    for at in (0..bytes).step_by(PIECE) {
        let n = (bytes - at).min(PIECE as u64) as usize;
        file.write_all_at(&zeros[..n], at)?;
        if at + (n as u64) < bytes {
            between((at + n as u64) as f64 / bytes as f64);
        }
    }
    file.write_all_at(aligned.copy(&head.encode()), 0)?;
    file.sync()?;
    open_segment(files, &path, options, bytes)
}

/// Makes one from a file that was one, and whose blocks nobody needs any more: they have another file's number, so they are
/// never taken for blocks of this one.
fn reuse_segment(
    files: &dyn Files,
    (from, to): (&Path, &Path),
    head: &FileHead,
    options: &LogOptions,
) -> Result<LogFile, LogFault> {
    let (file, _) = files.open_direct(from, world::Open::ReadWrite)?;
    file.write_all_at(Aligned::default().copy(&head.encode()), 0)?;
    file.sync()?;
    files.rename(from, to)?;
    open_segment(files, to, options, file.len()?)
}

/// Where each write is synced, the system's cache would only be one more copy.
fn open_segment(
    files: &dyn Files,
    path: &Path,
    options: &LogOptions,
    bytes: u64,
) -> Result<LogFile, LogFault> {
    if options.durability == Durability::Sync {
        let (file, caching) = files.open_direct(path, world::Open::ReadWrite)?;
        return Ok(LogFile { file, caching, bytes });
    }
    let file = files.open(path, world::Open::ReadWrite)?;
    Ok(LogFile { file, caching: Caching::System, bytes })
}

/// Log files that a checkpoint has made superfluous, kept to be written again: filling new ones costs the device as much as
/// the log itself does.
#[derive(Default)]
pub(crate) struct Spares(Mutex<Vec<PathBuf>>);

impl Spares {
    fn take(&self) -> Option<PathBuf> {
        held(&self.0).pop()
    }

    /// Removes them, for their room.
    fn clear(&self, files: &dyn Files) {
        for path in held(&self.0).drain(..) {
            // One that stays behind is removed at the next opening.
            let _ = files.remove(&path);
        }
    }
}

/// The log of an open store. Dropping it writes and syncs what there is.
pub(crate) struct Log {
    pub(crate) shared: Arc<Shared>,
    flushers: Flushers,
    /// Held during a checkpoint.
    pub(crate) checkpoint: Mutex<()>,
    _lock: FolderLock,
}

/// What a log begins from.
pub(crate) struct Beginning {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) dir: PathBuf,
    pub(crate) options: LogOptions,
    pub(crate) lock: FolderLock,
    /// Written, with the first segment of each stream.
    pub(crate) control: Control,
    pub(crate) first: Vec<(Segment, LogFile)>,
    pub(crate) named: Named,
    /// Bytes of log that the next opening would have to read as it is.
    pub(crate) inherited: u64,
}

impl Log {
    pub(crate) fn begin(beginning: Beginning, epochs: Arc<Epochs>, workers: usize) -> Result<Log, LogFault> {
        let Beginning { files, dir, options, lock, control, first, named, inherited } = beginning;
        let begun = control.begun;
        let stream = |(number, (segment, file))| Stream::new(number, segment, file, begun);
        let shared = Arc::new(Shared {
            store: control.store,
            epochs,
            files,
            dir,
            options,
            control: Mutex::new(control),
            named: Mutex::new(named),
            buffers: (0..workers).map(|_| Buffer::new()).collect(),
            streams: first.into_iter().enumerate().map(stream).collect(),
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
            stopping: AtomicBool::new(false),
            spares: Spares::default(),
        });
        let flushers = Flushers::start(&shared)?;
        Ok(Log { shared, flushers, checkpoint: Mutex::new(()), _lock: lock })
    }

    #[inline]
    pub(crate) fn is_broken(&self) -> bool {
        self.shared.broken.load(Ordering::Relaxed)
    }

    pub(crate) fn fault(&self) -> Option<LogFault> {
        self.shared.fault.get().cloned()
    }

    /// Appends a worker's records. `true` when so much is there that the worker should wait before it commits more.
    #[inline]
    pub(crate) fn append(&self, worker: usize, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let shared = &*self.shared;
        let (before, after) = shared.buffers[worker].append(write);
        if before / NUDGE_BYTES != after / NUDGE_BYTES {
            self.flushers.nudge(worker % shared.streams.len());
        }
        after > shared.options.backlog_bytes
    }

    /// Waits until the worker's records were taken, or will never be.
    #[cold]
    pub(crate) fn drain(&self, worker: usize) {
        let mut wait = latch::Backoff::new();
        while !self.shared.buffers[worker].is_empty() && !self.is_broken() {
            self.flushers.nudge(worker % self.shared.streams.len());
            wait.wait();
        }
    }

    /// To be called before the rows of a transaction that got its id in an earlier epoch are unlocked.
    pub(crate) fn is_late(&self, epoch: u64) {
        self.shared.late.fetch_max(epoch, Ordering::AcqRel);
    }

    /// What has to be durable of transactions with late epochs, for one who may have seen any.
    #[inline]
    pub(crate) fn late(&self) -> u64 {
        self.shared.late.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn durable(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    /// `None` when it has to be waited for.
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
        urge: Urge,
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
        if urge == Urge::Flusher {
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
            Durability::Sync | Durability::Memory => self.known(epoch),
        }
    }

    /// Has the device get everything up to `epoch`, without waiting.
    fn want_stable(&self, epoch: u64) {
        self.shared.wanted.fetch_max(epoch, Ordering::SeqCst);
        if self.durability() == Durability::Async {
            self.shared.wanted_stable.fetch_max(epoch, Ordering::SeqCst);
        }
    }

    pub(crate) fn poll_stable(
        &self,
        epoch: u64,
        urge: Urge,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), LogFault>> {
        if self.durability() != Durability::Async {
            return self.poll_durable(epoch, urge, cx);
        }
        if let Some(known) = self.stable_known(epoch) {
            return Poll::Ready(known);
        }
        self.shared.stable_waiters.enter(epoch, cx.waker());
        self.want_stable(epoch);
        if let Some(known) = self.stable_known(epoch) {
            return Poll::Ready(known);
        }
        if urge == Urge::Flusher {
            self.flush();
        }
        Poll::Pending
    }

    /// `true` when the device has everything up to `epoch`; else it is asked for.
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

    /// Waits until the device has everything up to `epoch`, whatever the mode promises.
    pub(crate) fn wait_stable(&self, epoch: u64) -> Result<(), LogFault> {
        self.wait_durable(epoch)?;
        let is_there =
            |stream: &Stream| stream.stable_epoch() >= epoch || stream.attempt(&self.shared, Aim::Everything);
        match self.shared.streams.iter().all(is_there) {
            true => Ok(()),
            false => Err(self.fault().expect("a broken log says why")),
        }
    }

    /// `true` when it is durable; else it is asked for, once.
    pub(crate) fn ask_durable(&self, epoch: u64) -> bool {
        if self.durable() >= epoch {
            return true;
        }
        if self.shared.wanted.fetch_max(epoch, Ordering::SeqCst) < epoch {
            self.flush();
        }
        false
    }

    /// Writes and syncs all there is, on this thread.
    pub(crate) fn write_out(&self) -> Result<(), LogFault> {
        self.flushers.write_out();
        self.fault().map_or(Ok(()), Err)
    }

    /// Has what is waited for flushed by the flushers' threads.
    pub(crate) fn flush(&self) {
        self.flushers.flush();
    }

    /// The same on this thread, where nobody else is at it.
    pub(crate) fn flush_here(&self) {
        if self.shared.is_wanted() {
            self.flushers.flush_here();
        }
    }

    /// Bytes appended and taken so far, and those of earlier lives.
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
    }

    pub(crate) fn checkpoint_begins(&self) {
        self.shared.checkpointed.store(self.appended(), Ordering::Relaxed);
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

    /// Nobody needs these segments any more: keeps the files of as many as the log uses up between two checkpoints, and
    /// removes the others.
    pub(crate) fn discard(&self, segments: &[Segment]) {
        let Shared { files, dir, options, spares, .. } = &*self.shared;
        let most = options.checkpoint_bytes.div_ceil(options.segment_bytes) + 1;
        for segment in segments {
            let path = dir.join(segment.name());
            let is_whole =
                || files.open(&path, world::Open::Read)?.len().map(|len| len == options.segment_bytes);
            let spare = dir.join(format!("spare-{}", segment.number));
            let mut kept = held(&spares.0);
            match (kept.len() as u64) < most
                && is_whole().unwrap_or(false)
                && files.rename(&path, &spare).is_ok()
            {
                true => kept.push(spare),
                // One that stays behind is removed at the next opening.
                false => _ = files.remove(&path),
            }
        }
        self.forget(segments);
    }

    /// Gives back the room of the files that are kept for later.
    pub(crate) fn discard_spares(&self) {
        self.shared.spares.clear(&*self.shared.files);
    }

    /// These segments are gone.
    fn forget(&self, segments: &[Segment]) {
        for segment in segments {
            if let Some(stream) = self.shared.streams.get(usize::from(segment.stream)) {
                stream.forget(segment.number);
            }
        }
    }

    /// Segments all of whose records are older than `epoch`, one of a later segment of their stream included.
    pub(crate) fn outlived(&self, epoch: u64) -> Vec<Segment> {
        let control = held(&self.shared.control);
        let is_over = |segment: &Segment| {
            segment.life < control.life
                || self.shared.streams[usize::from(segment.stream)].is_outlived(segment.number, epoch)
        };
        control.segments.iter().copied().filter(is_over).collect()
    }
}
