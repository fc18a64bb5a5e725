//! One stream: blocks, one after the other, in files.
//!
//! Who may do what: whoever holds the lock around [`Work`] takes buffers, writes and syncs. Anybody reads how far it is.

use super::block::{ALIGN, BLOCK_HEAD, BlockHead};
use super::buffer::Buffer;
use super::{Durability, LogFault, LogFile, Place, Segment, Shared, held, make_segment};
use latch::{Backoff, Pace};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use world::Caching;

/// A stream is synced this often at least, ns: what `async` may lose to a power cut.
const SYNC_NS: u64 = 500_000_000;

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) bytes: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) written: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) fsyncs: AtomicU64,
}

pub(crate) struct Stream {
    number: usize,
    /// All epochs up to this are as safe here as the mode promises. Stored by who holds the work.
    pub(crate) durable: AtomicU64,
    pub(crate) counts: Counts,
    /// The segments before the current one, each with the latest epoch its records can have.
    full: Mutex<Vec<(u64, u64)>>,
    work: Mutex<Work>,
}

pub(crate) struct Work {
    segment: Segment,
    file: LogFile,
    /// Where the next block goes, and how many there are in the file.
    at: u64,
    index: u32,
    sequence: u64,
    /// How many blocks the device has.
    stable: u64,
    /// The epochs that blocks written, and blocks on the device, make complete.
    sealed: u64,
    sealed_stable: u64,
    /// The last block has records, some perhaps of an epoch behind `sealed`: those that came while it was being made.
    has_more: bool,
    block: Vec<u8>,
    aligned: Aligned,
    spare_buffer: Vec<u8>,
    /// The next segment, being made.
    next: Option<JoinHandle<Result<Made, LogFault>>>,
    pub(crate) pace: Pace,
    synced_ns: u64,
    written_ns: u64,
}

/// A segment and its file.
type Made = (Segment, LogFile);

/// What a round is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Aim {
    /// What somebody waits for, and what has waited long enough by itself.
    Need,
    /// Everything, on the device.
    Everything,
}

/// Bytes at an address that is a multiple of [`ALIGN`], as writing past the system's cache wants it.
#[derive(Default)]
struct Aligned(Vec<u8>);

impl Aligned {
    fn copy(&mut self, bytes: &[u8]) -> &[u8] {
        if self.0.len() < bytes.len() + ALIGN {
            self.0 = vec![0; (bytes.len() + ALIGN).next_power_of_two()];
        }
        let start = self.0.as_ptr().addr().wrapping_neg() % ALIGN;
        let place = &mut self.0[start..start + bytes.len()];
        place.copy_from_slice(bytes);
        place
    }
}

impl Work {
    /// Up to which epoch the device has the stream complete.
    pub(crate) fn stable_epoch(&self) -> u64 {
        self.sealed_stable
    }
}

impl Stream {
    pub(crate) fn new(number: usize, segment: Segment, file: LogFile, begun: u64) -> Stream {
        let work = Work {
            segment,
            file,
            at: ALIGN as u64,
            index: 0,
            sequence: 0,
            stable: 0,
            sealed: begun,
            sealed_stable: begun,
            has_more: false,
            block: Vec::new(),
            aligned: Aligned::default(),
            spare_buffer: Vec::new(),
            next: None,
            pace: Pace::default(),
            synced_ns: world::now_ns(),
            written_ns: 0,
        };
        Stream {
            number,
            durable: AtomicU64::new(begun),
            counts: Counts::default(),
            full: Mutex::default(),
            work: Mutex::new(work),
        }
    }

    /// After a panic the log is poisoned, so whatever state the work is in, nothing more is done with it.
    pub(crate) fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_work(&self) -> Option<MutexGuard<'_, Work>> {
        match self.work.try_lock() {
            Ok(work) => Some(work),
            Err(TryLockError::Poisoned(work)) => Some(work.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Waits for the segment that is being made, if any. What was made for nothing is found empty.
    pub(crate) fn finish(&self) {
        let next = self.work().next.take();
        if let Some(next) = next {
            let _ = next.join();
        }
    }

    /// Whether a segment of this life has only records from before `epoch`.
    pub(crate) fn is_outlived(&self, segment: u64, epoch: u64) -> bool {
        held(&self.full).iter().any(|(number, last)| *number == segment && *last < epoch)
    }

    pub(crate) fn forget(&self, segment: u64) {
        held(&self.full).retain(|(number, _)| *number != segment);
    }

    /// One round; `false` when the log is broken.
    pub(crate) fn attempt(&self, shared: &Arc<Shared>, work: &mut Work, aim: Aim) -> bool {
        if shared.fault.get().is_some() {
            return false;
        }
        // Here, so that a panic poisons the log before the next one gets the work.
        let _guard = Guard(shared);
        let done = self.round(shared, work, aim);
        if let Err(fault) = done {
            shared.poison(fault);
            return false;
        }
        true
    }

    fn round(&self, shared: &Arc<Shared>, work: &mut Work, aim: Aim) -> Result<(), LogFault> {
        let (began, group) = (world::now_ns(), shared.waiters.count());
        let wanted = shared.wanted.load(Ordering::Acquire);
        let is_asked = wanted > self.durable.load(Ordering::Relaxed);
        let is_old = began.saturating_sub(work.written_ns) >= shared.options.leisure.as_nanos() as u64;
        let is_sealed = wanted <= work.sealed;
        if aim == Aim::Everything || !is_sealed || is_old || self.is_pressed(shared) {
            self.write(shared, work, wanted)?;
        }
        let is_due = began.saturating_sub(work.synced_ns) >= SYNC_NS || aim == Aim::Everything;
        let is_promised = shared.options.durability == Durability::Sync;
        if is_promised && (is_due || is_asked) {
            self.sync(work)?;
        }
        let reached = if is_promised { work.sealed_stable } else { work.sealed };
        self.durable.store(reached, Ordering::Release);
        shared.publish();
        if is_asked {
            work.pace.flushed(world::now_ns() - began, group);
        }
        // Where the device is not promised, nobody is kept waiting for it.
        if is_due {
            self.sync(work)?;
        }
        Ok(())
    }

    fn is_pressed(&self, shared: &Shared) -> bool {
        shared.buffers_of(self.number).any(Buffer::is_filling)
    }

    /// Ends the running epoch and writes a block that makes it complete, if there is anything in it.
    fn write(&self, shared: &Arc<Shared>, work: &mut Work, wanted: u64) -> Result<(), LogFault> {
        work.written_ns = world::now_ns();
        let ended = shared.epochs.now();
        let nothing = shared.buffers_of(self.number).all(Buffer::is_empty);
        if nothing && wanted <= work.sealed && !work.has_more {
            return Ok(());
        }
        shared.epochs.end(ended);
        let sealed = complete(shared, ended).max(work.sealed);
        work.block.clear();
        work.block.resize(BLOCK_HEAD, 0);
        let mut taken = std::mem::take(&mut work.spare_buffer);
        for buffer in shared.buffers_of(self.number) {
            let records = buffer.take(&mut taken);
            self.counts.records.fetch_add(records, Ordering::Relaxed);
            work.block.extend_from_slice(&taken);
            taken.clear();
        }
        work.spare_buffer = taken;
        let body = (work.block.len() - BLOCK_HEAD) as u64;
        if body == 0 && sealed == work.sealed {
            return Ok(());
        }
        self.counts.bytes.fetch_add(body, Ordering::Relaxed);
        work.has_more = body > 0;
        self.put(shared, work, sealed)
    }

    fn put(&self, shared: &Arc<Shared>, work: &mut Work, sealed: u64) -> Result<(), LogFault> {
        let len = work.block.len().next_multiple_of(ALIGN) as u64;
        if work.at > ALIGN as u64 && work.at + len > work.file.bytes {
            self.next_segment(shared, work)?;
        }
        let mut head = BlockHead::new(shared.store, work.segment.number, work.sequence);
        (head.index, head.sealed, head.stable) = (work.index, sealed, work.stable);
        head.finish(&mut work.block);
        let bytes = match work.file.caching {
            Caching::Direct => work.aligned.copy(&work.block),
            Caching::System => &work.block,
        };
        work.file.file.write_all_at(bytes, work.at)?;
        work.at += work.block.len() as u64;
        work.sequence += 1;
        work.index += 1;
        work.sealed = sealed;
        self.counts.written.fetch_add(work.block.len() as u64, Ordering::Relaxed);
        self.counts.flushes.fetch_add(1, Ordering::Relaxed);
        /// What a spike leaves is not kept.
        const KEPT: usize = 64 << 20;
        if work.block.capacity() > KEPT {
            work.block = Vec::new();
            work.aligned = Aligned::default();
            work.spare_buffer = Vec::new();
        }
        if work.next.is_none() && work.at > work.file.bytes / 2 {
            let (shared, number) = (shared.clone(), self.number);
            let make = move || make_next(&shared, number);
            work.next = std::thread::Builder::new().name("log-segments".into()).spawn(make).ok();
        }
        Ok(())
    }

    /// A segment that has a successor with blocks is complete on the device: recovery relies on it.
    fn next_segment(&self, shared: &Arc<Shared>, work: &mut Work) -> Result<(), LogFault> {
        self.sync(work)?;
        let made = work.next.take().map(JoinHandle::join);
        let (segment, file) = match made {
            Some(Ok(made)) => made?,
            Some(Err(_)) | None => make_next(shared, self.number)?,
        };
        // Its last record has an epoch that had begun.
        held(&self.full).push((work.segment.number, shared.epochs.now()));
        (work.segment, work.file, work.at, work.index) = (segment, file, ALIGN as u64, 0);
        Ok(())
    }

    /// Brings the blocks that the device does not have there.
    fn sync(&self, work: &mut Work) -> Result<(), LogFault> {
        if work.stable == work.sequence {
            return Ok(());
        }
        work.file.file.sync()?;
        self.counts.fsyncs.fetch_add(1, Ordering::Relaxed);
        (work.stable, work.sealed_stable) = (work.sequence, work.sealed);
        work.synced_ns = world::now_ns();
        Ok(())
    }
}

/// The latest epoch of which all records are in the buffers or were: `ended`, once nobody commits in it any more; less when
/// somebody takes too long, a worker whose CPU was taken away.
fn complete(shared: &Shared, ended: u64) -> u64 {
    let mut wait = Backoff::new();
    loop {
        let oldest = shared.epochs.oldest(crate::epoch::What::Committing);
        if oldest > ended {
            return ended;
        }
        if wait.wait_bounded().is_err() {
            return oldest - 1;
        }
    }
}

/// Makes the next segment of a stream and enters it in the control file.
fn make_next(shared: &Shared, stream: usize) -> Result<Made, LogFault> {
    let segment = {
        let mut control = held(&shared.control);
        let number = control.next_segment;
        control.next_segment += 1;
        Segment { number, stream: stream as u16, life: control.life }
    };
    let head = shared.file_head(&segment);
    let which = (&shared.options, Place::Later);
    let file = make_segment(&*shared.files, &shared.dir, &head, &segment.name(), which)?;
    // Its name first: a control file that names a missing file is damage.
    shared.files.sync_dir(&shared.dir)?;
    shared.recontrol(|control| {
        let at = control.segments.partition_point(|s| s.number < segment.number);
        control.segments.insert(at, segment);
    })?;
    Ok((segment, file))
}

/// Poisons the log when whoever flushes panics: nobody may wait for it any more.
struct Guard<'a>(&'a Shared);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison(std::io::Error::other("a flush of the log panicked").into());
        }
    }
}
