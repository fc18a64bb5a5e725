//! One stream: blocks, one after the other, in files.
//!
//! ```text
//!   buffers --take off: end an epoch, give a place--> block --fly--> written --sync--> on device
//!             one at a time, some microseconds               several at a time
//! ```
//! Access rules:
//!
//! - The thread that holds the lock of [`Work`] takes the buffers and gives a block its place. It
//!   writes and syncs without that lock, so that the next block can be made, and written,
//!   meanwhile.
//! - Blocks that have been written are counted without gaps, under the lock of [`Landing`], which
//!   no thread holds during a write or a sync. A block counts when all before it do, and a sync
//!   when all that began before it do.
//! - A thread that needs both locks takes `Work` first.
//! - Any thread reads the progress from the atomics.

use super::block::{ALIGN, Aligned, BLOCK_HEAD, BlockHead};
use super::buffer::Buffer;
use super::room::Room;
use super::{LogFault, LogFile, Segment, Shared};
use latch::{Backoff, CachePadded, Rank, RankedMutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar};
use std::thread::JoinHandle;
use std::time::Duration;
use world::Caching;

/// The longest time between two syncs, ns: the loss that mode `async` may have in a power cut.
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
    pub(super) number: usize,
    /// On a cache line of its own: every commit reads it, and it changes once per file.
    pub(super) room: CachePadded<Room>,
    /// All epochs up to this one are as safe in this stream as the mode promises.
    pub(crate) durable: AtomicU64,
    /// The blocks that have been taken, written or not, make the stream complete up to this epoch.
    /// Stored by the thread that holds `work`.
    sealed: AtomicU64,
    /// The device has all epochs up to this one. Kept in mode `async`.
    pub(crate) stable: AtomicU64,
    /// The latest epoch that a sync which has begun, or ended, brings to the device.
    syncing: AtomicU64,
    /// Blocks that have been taken and are not yet as safe as the mode promises.
    flying: AtomicUsize,
    pub(crate) counts: Counts,
    /// The segments before the current one, each with the latest epoch that its records can have.
    full: RankedMutex<Vec<(u64, u64)>>,
    work: RankedMutex<Work>,
    landing: RankedMutex<Landing>,
    /// Signalled when `landing` has changed.
    landed: Condvar,
}

/// The place of the next block.
pub(super) struct Work {
    segment: Segment,
    pub(super) file: Arc<LogFile>,
    pub(super) at: u64,
    /// The number of blocks in the file.
    index: u32,
    sequence: u64,
    sealed: u64,
    /// The last block has records. Some may be of an epoch after `sealed`: those that came while
    /// the block was being made.
    has_more: bool,
    /// Memory for the buffer that is taken next.
    taken: Vec<u8>,
    /// A block that has no place, because the device is full. The next block begins with it.
    pub(super) held: Option<Memory>,
    /// The next segment, while it is being made.
    pub(super) next: Option<Making>,
    /// When the making of a segment last began.
    pub(super) made_ns: u64,
    written_ns: u64,
}

/// The progress of blocks that have been taken.
struct Landing {
    /// All blocks before this one are written; they make the stream complete up to `sealed`.
    written: u64,
    sealed: u64,
    /// Blocks that are written although one before them is not.
    ahead: Vec<(u64, u64)>,
    /// All blocks before this one are on the device, or a sync that brings them there has begun.
    synced: u64,
    /// The syncs that run, in the order in which they began.
    syncs: VecDeque<Sync>,
    /// The number of syncs that have left `syncs`.
    counted: u64,
    /// The file of the latest blocks. Those of all other files are stable.
    file: Arc<LogFile>,
    /// All blocks before this one are on the device.
    stable: u64,
    sealed_stable: u64,
    synced_ns: u64,
    /// Memory for the next blocks.
    spare: Vec<Memory>,
}

/// A sync that is running, or that waits for those before it to count.
struct Sync {
    /// It covers all blocks before this one, which make the stream complete up to `sealed`.
    upto: u64,
    sealed: u64,
    has_succeeded: bool,
}

/// Memory in which a block is made.
#[derive(Default)]
pub(super) struct Memory {
    block: Vec<u8>,
    aligned: Aligned,
}

/// A block that has its place and is being written.
struct Flight {
    memory: Memory,
    file: Arc<LogFile>,
    at: u64,
    sequence: u64,
    sealed: u64,
}

/// Memory larger than this is not kept after a peak; bytes.
const KEPT: usize = 64 << 20;

/// A segment and its file.
pub(super) type Made = (Segment, LogFile);

/// A segment that is being made. The result is `None` if the device had no room for it.
pub(super) struct Making {
    pub(super) thread: JoinHandle<Result<Option<Made>, LogFault>>,
}

/// The aim of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Aim {
    /// Records that a transaction waits for, or that have waited long enough.
    Need,
    /// All records, on the device.
    Everything,
}

impl Landing {
    /// Notes that a block is written.
    fn land(&mut self, sequence: u64, sealed: u64) {
        self.ahead.push((sequence, sealed));
        while let Some(at) = self.ahead.iter().position(|(sequence, _)| *sequence == self.written) {
            self.written += 1;
            self.sealed = self.ahead.swap_remove(at).1;
        }
    }

    /// Notes that a sync of all written blocks begins; returns its number. `None` if a sync of
    /// these blocks has begun or ended.
    fn begin_sync(&mut self) -> Option<u64> {
        if self.synced == self.written {
            return None;
        }
        self.synced = self.written;
        self.syncs.push_back(Sync { upto: self.written, sealed: self.sealed, has_succeeded: false });
        Some(self.counted + self.syncs.len() as u64 - 1)
    }

    /// Notes that a sync has succeeded. It counts when all syncs that began before it have
    /// succeeded too. One of them may still fail, or may have failed: the system then drops the
    /// pages, takes them for written, and reports success to the next sync.
    fn end_sync(&mut self, number: u64) {
        self.syncs[(number - self.counted) as usize].has_succeeded = true;
        while let Some(first) = self.syncs.pop_front_if(|sync| sync.has_succeeded) {
            self.counted += 1;
            (self.stable, self.sealed_stable) = (first.upto, first.sealed);
        }
    }
}

impl Stream {
    pub(crate) fn new(number: usize, segment: Segment, file: LogFile, begun: u64, room: Room) -> Stream {
        let file = Arc::new(file);
        room.begins(ALIGN as u64, file.bytes);
        let work = Work {
            segment,
            file: Arc::clone(&file),
            at: ALIGN as u64,
            index: 0,
            sequence: 0,
            sealed: begun,
            has_more: false,
            taken: Vec::new(),
            held: None,
            next: None,
            made_ns: 0,
            written_ns: world::now_ns(),
        };
        let landing = Landing {
            written: 0,
            sealed: begun,
            ahead: Vec::new(),
            synced: 0,
            syncs: VecDeque::new(),
            counted: 0,
            file,
            stable: 0,
            sealed_stable: begun,
            synced_ns: world::now_ns(),
            spare: Vec::new(),
        };
        Stream {
            number,
            room: CachePadded::new(room),
            durable: AtomicU64::new(begun),
            sealed: AtomicU64::new(begun),
            stable: AtomicU64::new(begun),
            syncing: AtomicU64::new(begun),
            flying: AtomicUsize::new(0),
            counts: Counts::default(),
            full: RankedMutex::new(Rank::MemSegments, Vec::new()),
            work: RankedMutex::new(Rank::MemStream, work),
            landing: RankedMutex::new(Rank::MemLanding, landing),
            landed: Condvar::new(),
        }
    }

    /// Waits for the segment that is being made, if there is one. If it is not used, the next
    /// opening finds it empty.
    pub(crate) fn finish(&self) {
        let next = self.work.lock().next.take();
        if let Some(next) = next {
            let _ = next.thread.join();
        }
    }

    /// The epoch up to which the device has the stream complete.
    pub(crate) fn stable_epoch(&self) -> u64 {
        self.landing.lock().sealed_stable
    }

    /// Whether there is work that no thread has begun. Either an epoch is wanted that no block
    /// taken so far makes complete. Or one is wanted on the device, no sync that would bring it
    /// there has begun, and no thread is writing a block, after which it would sync.
    pub(crate) fn is_behind(&self, shared: &Shared) -> bool {
        let taken = self.sealed.load(Ordering::SeqCst);
        let unsynced = shared.wanted_stable.load(Ordering::SeqCst) > self.syncing.load(Ordering::SeqCst);
        shared.wanted.load(Ordering::SeqCst) > taken || (unsynced && self.is_at_rest())
    }

    /// Whether an epoch is wanted on the device that is not there.
    fn is_wanted_stable(&self, shared: &Shared) -> bool {
        shared.wanted_stable.load(Ordering::SeqCst) > self.stable.load(Ordering::SeqCst)
    }

    /// Whether no block is under way.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.flying.load(Ordering::SeqCst) == 0
    }

    /// Whether a segment of this life has only records from before `epoch`.
    pub(crate) fn is_outlived(&self, segment: u64, epoch: u64) -> bool {
        self.full.lock().iter().any(|(number, last)| *number == segment && *last < epoch)
    }

    pub(crate) fn forget(&self, segment: u64) {
        self.full.lock().retain(|(number, _)| *number != segment);
    }

    /// One round; `false` when the log is broken.
    pub(crate) fn attempt(&self, shared: &Arc<Shared>, aim: Aim) -> bool {
        if shared.fault.get().is_some() {
            return false;
        }
        let _guard = Guard(shared);
        let done = self.round(shared, aim);
        if let Err(fault) = done {
            shared.poison(fault);
            return false;
        }
        true
    }

    fn round(&self, shared: &Arc<Shared>, aim: Aim) -> Result<(), LogFault> {
        let flight = {
            let mut work = self.work.lock();
            if let Some(fault) = shared.fault.get() {
                return Err(fault.clone());
            }
            // The log is poisoned before the lock is released: records have been taken from the
            // buffers, and the next block would declare their epoch complete without them.
            let taken = self.take_off(shared, &mut work, aim);
            let taken = taken.and_then(|flight| self.look_ahead(shared, &mut work).map(|()| flight));
            taken.inspect_err(|fault| shared.poison(fault.clone()))?
        };
        let flies = usize::from(flight.is_some());
        if let Some(flight) = flight {
            self.fly(flight)?;
        }
        let is_promised = shared.options.durability.is_synced();
        let since = world::now_ns().saturating_sub(self.landing.lock().synced_ns);
        if is_promised {
            self.sync()?;
        }
        // Before this thread reads `wanted_stable`. A task that wants an epoch on the device stores
        // `wanted_stable` first and then reads `flying`. So either this thread sees the wish, or
        // the task finds the stream at rest and wakes a thread.
        self.flying.fetch_sub(flies, Ordering::SeqCst);
        let reached = {
            let landing = self.landing.lock();
            if is_promised { landing.sealed_stable } else { landing.sealed }
        };
        self.durable.fetch_max(reached, Ordering::AcqRel);
        shared.publish();
        // In mode `async` few transactions wait for the device, so `durable` is published first.
        if since >= SYNC_NS || aim == Aim::Everything || self.is_wanted_stable(shared) {
            self.sync()?;
        }
        if !is_promised {
            self.stable.fetch_max(self.landing.lock().sealed_stable, Ordering::AcqRel);
            shared.publish_stable();
        }
        if aim == Aim::Everything {
            let (upto, is_held) = {
                let work = self.work.lock();
                (work.sequence, work.held.is_some())
            };
            self.settle(shared, upto)?;
            if is_held && shared.stopping.load(Ordering::SeqCst) {
                return Err(shared.no_room());
            }
        }
        Ok(())
    }

    /// Whether the buffer of a worker is so full that it should be written now.
    pub(crate) fn is_pressed(&self, shared: &Shared) -> bool {
        shared.buffers_of(self.number).any(Buffer::is_filling)
    }

    /// Ends the running epoch, makes a block that completes it, and gives the block its place;
    /// `None` if there is nothing to write or it is too early.
    fn take_off(&self, shared: &Arc<Shared>, work: &mut Work, aim: Aim) -> Result<Option<Flight>, LogFault> {
        let now = world::now_ns();
        let wanted = shared.wanted.load(Ordering::Acquire);
        let is_old = now.saturating_sub(work.written_ns) >= shared.options.leisure.as_nanos() as u64;
        if aim == Aim::Need && wanted <= work.sealed && !is_old && !self.is_pressed(shared) {
            return Ok(None);
        }
        work.written_ns = now;
        let ended = shared.epochs.now();
        let nothing = work.held.is_none() && shared.buffers_of(self.number).all(Buffer::is_empty);
        if nothing && wanted <= work.sealed && !work.has_more {
            return Ok(None);
        }
        shared.epochs.end(ended);
        let sealed = complete(shared, ended).max(work.sealed);
        let mut memory = self.memory(work);
        let held = memory.block.len();
        for buffer in shared.buffers_of(self.number) {
            work.taken.clear();
            let records = buffer.take(&mut work.taken);
            self.counts.records.fetch_add(records, Ordering::Relaxed);
            memory.block.extend_from_slice(&work.taken);
        }
        if work.taken.capacity() > KEPT {
            work.taken = Vec::new();
        }
        let body = (memory.block.len() - BLOCK_HEAD) as u64;
        if body == 0 && sealed == work.sealed {
            self.landing.lock().spare.push(memory);
            return Ok(None);
        }
        self.counts.bytes.fetch_add((memory.block.len() - held) as u64, Ordering::Relaxed);
        work.has_more = body > 0;
        self.place(shared, work, memory, sealed)
    }

    /// The block that waits for room, or memory for a new one.
    fn memory(&self, work: &mut Work) -> Memory {
        work.held.take().unwrap_or_else(|| {
            let mut memory = self.landing.lock().spare.pop().unwrap_or_default();
            memory.block.clear();
            memory.block.resize(BLOCK_HEAD, 0);
            memory
        })
    }

    /// Gives the block its place; `None` if the device has no room for it. Then it is held.
    fn place(
        &self,
        shared: &Arc<Shared>,
        work: &mut Work,
        mut memory: Memory,
        sealed: u64,
    ) -> Result<Option<Flight>, LogFault> {
        let len = memory.block.len().next_multiple_of(ALIGN) as u64;
        let has_place = self.has_place(shared, work, len)?;
        self.room.hold_block(!has_place);
        if !has_place {
            work.held = Some(memory);
            return Ok(None);
        }
        let mut head = BlockHead::new(shared.store, work.segment.number, work.sequence);
        (head.index, head.sealed, head.stable) = (work.index, sealed, self.landing.lock().stable);
        head.finish(&mut memory.block);
        let flight = Flight { memory, file: work.file.clone(), at: work.at, sequence: work.sequence, sealed };
        work.at += len;
        work.sequence += 1;
        work.index += 1;
        work.sealed = sealed;
        self.sealed.store(sealed, Ordering::SeqCst);
        self.flying.fetch_add(1, Ordering::Relaxed);
        self.counts.written.fetch_add(len, Ordering::Relaxed);
        self.counts.flushes.fetch_add(1, Ordering::Relaxed);
        self.room.used(work.at, work.file.bytes);
        Ok(Some(flight))
    }

    /// Whether a block of `len` bytes has a place in the current file, which may be another one
    /// after this. `false` if the device has no room for it.
    fn has_place(&self, shared: &Arc<Shared>, work: &mut Work, len: u64) -> Result<bool, LogFault> {
        if work.at > ALIGN as u64 && work.at + len > work.file.bytes && !self.next_segment(shared, work)? {
            return Ok(false);
        }
        if work.at + len > work.file.bytes {
            // It is longer than a file.
            match work.file.file.allocate(work.at + len) {
                Err(full) if world::is_want_of_room(&full) => {
                    self.room.is_used_up();
                    return Ok(false);
                }
                done => done?,
            }
            self.room.begins(work.at, work.file.bytes);
        }
        Ok(true)
    }

    /// Writes a block.
    fn fly(&self, flight: Flight) -> Result<(), LogFault> {
        let Flight { mut memory, file, at, sequence, sealed } = flight;
        let bytes = match file.caching {
            Caching::Direct => memory.aligned.copy(&memory.block),
            Caching::System => &memory.block,
        };
        file.file.write_all_at(bytes, at)?;
        let mut landing = self.landing.lock();
        landing.land(sequence, sealed);
        if memory.block.capacity() <= KEPT {
            landing.spare.push(memory);
        }
        self.landed.notify_all();
        Ok(())
    }

    /// Begins the next segment; `false` if the device has no room for it. Before that, the device
    /// has all blocks of the present one: recovery relies on it.
    fn next_segment(&self, shared: &Arc<Shared>, work: &mut Work) -> Result<bool, LogFault> {
        self.settle(shared, work.sequence)?;
        let Some((segment, file)) = self.await_next(shared, work)? else { return Ok(false) };
        // Its last record has an epoch that has begun by now.
        self.full.lock().push((work.segment.number, shared.epochs.now()));
        (work.segment, work.file, work.at, work.index) = (segment, Arc::new(file), ALIGN as u64, 0);
        self.landing.lock().file = Arc::clone(&work.file);
        self.room.begins(work.at, work.file.bytes);
        Ok(true)
    }

    /// Waits until the device has all blocks before `upto`.
    fn settle(&self, shared: &Shared, upto: u64) -> Result<(), LogFault> {
        loop {
            self.sync()?;
            let landing = self.landing.lock();
            if landing.stable >= upto {
                return Ok(());
            }
            if let Some(fault) = shared.fault.get() {
                return Err(fault.clone());
            }
            // The time limit is for a fault, which does not signal `landed`.
            drop(landing.wait_timeout(&self.landed, Duration::from_millis(1)));
        }
    }

    /// Brings the written blocks to the device, except those that a running sync brings there
    /// already. Blocks that are being written meanwhile may be included or not.
    fn sync(&self) -> Result<(), LogFault> {
        let (file, number) = {
            let mut landing = self.landing.lock();
            let Some(number) = landing.begin_sync() else { return Ok(()) };
            self.syncing.fetch_max(landing.sealed, Ordering::SeqCst);
            (Arc::clone(&landing.file), number)
        };
        file.file.sync()?;
        self.counts.fsyncs.fetch_add(1, Ordering::Relaxed);
        let mut landing = self.landing.lock();
        landing.end_sync(number);
        landing.synced_ns = world::now_ns();
        self.landed.notify_all();
        Ok(())
    }
}

/// The latest epoch of which all records are in the buffers, or were: `ended`, once no worker
/// commits in it any more. An earlier one if a worker takes too long, for example because it has
/// lost its CPU.
fn complete(shared: &Shared, ended: u64) -> u64 {
    let mut wait = Backoff::new();
    loop {
        let oldest = shared.epochs.oldest(crate::epoch::EpochUse::Committing);
        if oldest > ended {
            return ended;
        }
        if wait.wait_bounded().is_err() {
            return oldest - 1;
        }
    }
}

/// Poisons the log when a flushing thread panics, so that no task waits for it any more.
struct Guard<'a>(&'a Shared);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison(std::io::Error::other("a flush of the log panicked").into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogFile;

    fn stream() -> Stream {
        let files = world::sim::Disk::new().files();
        let dir = std::path::Path::new("/db");
        files.create_dir_all(dir).unwrap();
        let file = files.open(&dir.join("log"), world::Open::Create).unwrap();
        let file = LogFile { file, bytes: 0, caching: Caching::System };
        let segment = Segment { number: 0, stream: 0, life: 0 };
        Stream::new(0, segment, file, 0, Room::new(1, &super::super::LogOptions::new(base::Durability::Sync)))
    }

    /// "A thread that needs both locks takes `Work` first": another order is found when a thread
    /// asks for the second lock, even if no other thread holds it.
    #[test]
    #[cfg(debug_assertions)]
    fn the_locks_of_a_stream_are_taken_in_their_order() {
        let stream = stream();
        drop((stream.work.lock(), stream.landing.lock()));
        let inverted = || drop((stream.landing.lock(), stream.work.lock()));
        let ended = std::thread::scope(|scope| scope.spawn(inverted).join());
        let text = *ended.expect_err("an inversion").downcast::<String>().expect("a panic with a text");
        assert!(text.contains("MemStream is asked for at"), "{text}");
        assert!(text.contains("while MemLanding is held"), "{text}");
    }

    /// Two threads sync a file at a time. The sync that began first fails, and the success of the
    /// other must not count for both: the blocks that the first one lost would be acknowledged.
    #[test]
    fn a_sync_counts_only_when_all_that_began_before_it_have_succeeded() {
        let mut landing = stream().landing.into_inner();
        landing.land(0, 10);
        let first = landing.begin_sync().expect("there is a block");
        assert_eq!(landing.begin_sync(), None, "the first sync brings it");
        landing.land(1, 20);
        let second = landing.begin_sync().expect("there is another one");
        landing.land(2, 30);
        let third = landing.begin_sync().expect("and one more");
        landing.end_sync(second);
        assert_eq!((landing.stable, landing.sealed_stable), (0, 0), "the first may fail, or has");
        landing.end_sync(first);
        assert_eq!((landing.stable, landing.sealed_stable), (2, 20));
        landing.end_sync(third);
        assert_eq!((landing.stable, landing.sealed_stable, landing.syncs.len()), (3, 30, 0));
        // The same holds after some syncs have ended.
        landing.land(3, 40);
        let fourth = landing.begin_sync().expect("a block");
        landing.end_sync(fourth);
        assert_eq!((landing.stable, landing.begin_sync()), (4, None));
    }
}
