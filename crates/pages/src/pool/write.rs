//! Writing dirty pages: for a checkpoint, and to make them evictable.
//!
//! ```text
//!   spare --filled with copies--> waiting --write_out--> finished --settle--> spare
//!          (thread that may               (any thread;            (thread that may
//!           touch the pages)               I/O)                    touch the pages)
//! ```
//!
//! A page is copied under a shared latch. From then on it is *being written*: it may be changed
//! (and is dirty again), but it cannot be evicted. The copies are written as a batch, in this
//! order:
//!
//! 1. Make the log durable up to the youngest change in the batch (the write-ahead rule).
//! 2. Sync the data file, so that the previous batch is durable in place.
//! 3. Write the batch to the doublewrite area and sync it.
//! 4. Write the pages in place, all at once.
//!
//! In memory mode only the last step happens, because no restart follows.
//!
//! Access rules:
//!
//! - Copying and settling touch the pages' words. If pages have an owner, only the owner does both.
//!   One thread copies at a time.
//! - `write_out` touches only the copies, so any thread may run it ([`Pool::serve`]). One thread
//!   writes at a time. A thread that must wait for a batch writes it, unless another thread has
//!   begun.

use crate::batch::Batch;
use crate::data_file::{DataFile, offset};
use crate::doublewrite::Doublewrite;
use crate::fault::PageFault;
use crate::pool::Pool;
use base::{Lsn, PageId};
use latch::{Backoff, OwnerId, Rank, RankedGuard, RankedMutex};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, OnceLock};
use std::time::Duration;
use world::{IoQueue, Means};

/// The number of batches: one being written, one being filled, and one that a checkpoint leaves to
/// threads that need frames.
const BATCHES: usize = 3;

/// The files, the batches, and the device.
pub(crate) struct Writer {
    pub data: DataFile,
    pub doublewrite: Option<Doublewrite>,
    /// Held while pages are copied.
    copying: RankedMutex<()>,
    batches: RankedMutex<Batches>,
    /// Signalled when a batch moves between the lists of `batches`.
    pub moved: Condvar,
    /// The number of sleeping threads that keep frames free.
    napping: AtomicUsize,
    device: RankedMutex<Device>,
    /// The failed sync after which no write is allowed.
    poison: OnceLock<Arc<io::Error>>,
    /// The number of batches that failed since the pool was opened.
    failures: AtomicU64,
    /// The number of finished batches that are not settled yet, readable without the lock.
    unsettled: AtomicUsize,
}

/// The lists of batches. The counters only grow, and batches are written in order.
struct Batches {
    spare: Vec<Batch>,
    waiting: VecDeque<Batch>,
    finished: VecDeque<(Batch, Result<(), PageFault>)>,
    /// The number of batches ever handed in for writing, and of those, the number written or
    /// failed.
    asked: u64,
    written: u64,
    last_failure: Option<PageFault>,
}

/// Held by the thread that writes. A panic during a write leaves a batch unfinished or pages dirty,
/// but no half-changed data.
pub(crate) struct Device {
    queue: IoQueue,
    /// Pages were written in place and not synced yet.
    unsynced: bool,
    /// A batch that is in the doublewrite area, but of which writing in place failed half-way.
    unfinished: Option<Batch>,
}

/// The writing of a checkpoint, in pieces; see [`Pool::step_write_back`].
pub struct WriteBack {
    pending: Vec<PageId>,
    missed: Vec<PageId>,
    written: usize,
    failures: u64,
    /// The number of batches that must be written before the checkpoint's pages are all written.
    upto: u64,
}

/// The state of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More can be done at once.
    More,
    /// A device or another thread must finish first.
    Waiting,
    Finished,
}

impl Writer {
    pub fn new(data: DataFile, doublewrite: Option<Doublewrite>) -> io::Result<Writer> {
        let spare = (0..BATCHES).map(|_| Batch::new()).collect();
        let batches = Batches {
            spare,
            waiting: VecDeque::new(),
            finished: VecDeque::new(),
            asked: 0,
            written: 0,
            last_failure: None,
        };
        let queue = IoQueue::new(crate::batch::BATCH as u32, Means::Best)?;
        Ok(Writer {
            data,
            doublewrite,
            copying: RankedMutex::new(Rank::PoolCopying, ()),
            batches: RankedMutex::new(Rank::PoolBatches, batches),
            moved: Condvar::new(),
            napping: AtomicUsize::new(0),
            device: RankedMutex::new(Rank::PoolDevice, Device { queue, unsynced: false, unfinished: None }),
            poison: OnceLock::new(),
            failures: AtomicU64::new(0),
            unsettled: AtomicUsize::new(0),
        })
    }

    /// No batch is written while the result is held.
    pub fn stop_writing(&self) -> RankedGuard<'_, Device> {
        self.device.lock()
    }

    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Acquire)
    }

    /// The error of a batch that failed after `failures` was read.
    pub fn failed_since(&self, failures: u64) -> Result<(), PageFault> {
        if self.failures() == failures {
            return Ok(());
        }
        self.batches.lock().last_failure.clone().map_or(Ok(()), Err)
    }

    /// Whether a batch is waiting, being written, or not settled.
    pub fn busy(&self) -> bool {
        let batches = self.batches.lock();
        batches.asked != batches.written || !batches.finished.is_empty()
    }

    #[inline]
    pub fn unsettled(&self) -> usize {
        self.unsettled.load(Ordering::Acquire)
    }

    fn take_finished(&self) -> Option<(Batch, Result<(), PageFault>)> {
        let mut batches = self.batches.lock();
        let finished = batches.finished.pop_front();
        self.unsettled.store(batches.finished.len(), Ordering::Release);
        finished
    }

    /// A batch to fill, if more than `keep` batches are spare.
    pub fn take_spare(&self, keep: usize) -> Option<Batch> {
        let mut batches = self.batches.lock();
        if batches.spare.len() > keep { batches.spare.pop() } else { None }
    }

    /// Waits until a batch moves, at most for `most`.
    pub fn wait(&self, most: Duration) {
        drop(self.batches.lock().wait_timeout(&self.moved, most));
    }

    /// Waits for a batch to write, at most for `most`.
    pub fn wait_for_work(&self, most: Duration) {
        let batches = self.batches.lock();
        if batches.waiting.is_empty() {
            drop(batches.wait_timeout(&self.moved, most));
        }
    }

    /// As [`Writer::wait_for_work`], for a thread that also keeps frames free.
    pub fn nap(&self, most: Duration) {
        self.napping.fetch_add(1, Ordering::Relaxed);
        self.wait_for_work(most);
        self.napping.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes the sleeping thread that keeps frames free, because a caller took a frame and few are
    /// left. The check avoids a system call for every page read when no thread sleeps. A thread
    /// that is just falling asleep may miss this call: the next page wakes it, or its timeout.
    #[inline]
    pub fn frames_are_short(&self) {
        if self.napping.load(Ordering::Relaxed) > 0 {
            self.moved.notify_all();
        }
    }

    fn check(&self) -> Result<(), PageFault> {
        self.poison.get().map_or(Ok(()), |why| Err(PageFault::Poisoned(why.clone())))
    }

    /// After a failed sync the contents of the device are unknown, so all later writes fail.
    fn synced(&self, done: io::Result<()>) -> Result<(), PageFault> {
        done.map_err(|e| PageFault::Poisoned(self.poison.get_or_init(|| Arc::new(e)).clone()))
    }

    /// Makes the pages written in place durable.
    fn settle_device(&self, device: &mut Device) -> Result<(), PageFault> {
        self.check()?;
        if let Some(batch) = device.unfinished.take() {
            let done = self.in_place(device, &batch);
            if done.is_err() {
                device.unfinished = Some(batch);
                return done;
            }
        }
        if self.doublewrite.is_some() && device.unsynced {
            self.synced(self.data.sync())?;
            device.unsynced = false;
        }
        Ok(())
    }

    fn in_place(&self, device: &mut Device, batch: &Batch) -> Result<(), PageFault> {
        device.unsynced = true;
        let writes: Vec<(&[u8], u64)> = batch.runs().map(|(id, pages)| (pages, offset(id))).collect();
        Ok(device.queue.write_all(&self.data.file, &writes)?)
    }

    /// Writes a batch. If writing in place fails half-way, the batch is kept: the doublewrite area
    /// holds the only whole copies of its pages, and must not be overwritten.
    fn output(&self, device: &mut Device, batch: &mut Batch) -> Result<(), PageFault> {
        self.settle_device(device)?;
        if let Some(doublewrite) = &self.doublewrite {
            doublewrite.write(batch)?;
            self.synced(doublewrite.sync())?;
        }
        let done = self.in_place(device, batch);
        if done.is_err() && self.doublewrite.is_some() {
            let mut settled = Batch::new();
            settled.ids.clone_from(&batch.ids);
            settled.leaving = std::mem::take(&mut batch.leaving);
            device.unfinished = Some(std::mem::replace(batch, settled));
        }
        done
    }
}

impl Pool {
    /// Writes every page that was dirty at the time of the call, and waits for the device. Returns
    /// the number of pages written. Waits for pages that are being changed; transactions may run
    /// meanwhile. The caller holds no latch, and is the owner if the pages have one. In memory mode
    /// there is nothing to write.
    ///
    /// # Errors
    /// I/O, or the log's fault. Pages that were not written stay dirty.
    pub fn write_back(&self) -> Result<usize, PageFault> {
        let mut run = self.begin_write_back();
        let mut backoff = Backoff::new();
        loop {
            match self.step_write_back(&mut run)? {
                Progress::Finished => break,
                Progress::More => backoff = Backoff::new(),
                Progress::Waiting if self.write_out() => backoff = Backoff::new(),
                // The wait for a latch is here and not in `copy`: the thread that holds a page's
                // latch may itself be waiting to write a batch.
                Progress::Waiting => backoff.wait(),
            }
        }
        self.sync_written()?;
        Ok(run.written)
    }

    /// Begins to write every page that is dirty now. A thread that may touch the pages calls
    /// [`Pool::step_write_back`] until it is finished. Then any thread calls
    /// [`Pool::sync_written`], and the pages are durable.
    pub fn begin_write_back(&self) -> WriteBack {
        let mut pending = Vec::new();
        if self.writer.doublewrite.is_some() {
            pending.extend((0..self.slots.len()).filter_map(|n| self.slots.page(n)));
            pending.retain(|&id| {
                let seen = self.latch(id).look();
                seen.resident() && (seen.dirty() || seen.writing() || seen.exclusive())
            });
            // Pages are taken from the end, so this order takes them ascending and writes
            // neighbours together.
            pending.sort_unstable_by(|a, b| b.cmp(a));
        }
        let failures = self.writer.failures();
        WriteBack { pending, missed: Vec::new(), written: 0, failures, upto: 0 }
    }

    /// Copies at most one more batch for writing. Never waits for a device, a latch or another
    /// thread.
    ///
    /// # Errors
    /// A batch failed, of this run or of an eviction.
    pub fn step_write_back(&self, run: &mut WriteBack) -> Result<Progress, PageFault> {
        self.settle();
        self.writer.failed_since(run.failures)?;
        if run.pending.is_empty() {
            if run.missed.is_empty() {
                let Some(upto) = self.offers.copied_upto() else { return Ok(Progress::Waiting) };
                let done = self.writer.batches.lock().written >= run.upto.max(upto);
                return Ok(if done { Progress::Finished } else { Progress::Waiting });
            }
            run.pending = std::mem::take(&mut run.missed);
            run.pending.sort_unstable_by(|a, b| b.cmp(a));
        }
        let Some(mut batch) = self.writer.take_spare(1) else { return Ok(Progress::Waiting) };
        while batch.room() > 0
            && let Some(id) = run.pending.pop()
        {
            match self.copy(id, &mut batch) {
                Copied::Missed => run.missed.push(id),
                Copied::Foreign(owner) => self.want(owner, id),
                Copied::Taken | Copied::Clean => {}
            }
        }
        run.written += batch.ids.len();
        let copied = !batch.ids.is_empty();
        let asked = self.hand_in(batch);
        if copied {
            run.upto = asked;
        }
        Ok(if copied { Progress::More } else { Progress::Waiting })
    }

    /// Makes everything written in place durable. Touches no page.
    ///
    /// # Errors
    /// I/O.
    pub fn sync_written(&self) -> Result<(), PageFault> {
        self.writer.settle_device(&mut self.writer.device.lock())
    }

    /// At most `budget` dirty pages that are next for eviction. If they are cleaned now, a thread
    /// that needs their frames does not have to wait. The design chooses the thread that cleans;
    /// see [`Pool::clean`].
    pub fn dirty_pages(&self, budget: usize) -> Vec<PageId> {
        let replacement = self.queues();
        let next = replacement.next().take(budget * 4).filter_map(|slot| self.slots.page(slot));
        next.filter(|&id| self.latch(id).look().dirty()).take(budget).collect()
    }

    /// Copies those of `ids` that are dirty and unlatched for writing, up to the size of a batch.
    /// Returns their number, or 0 if no batch is spare. Never waits.
    pub fn clean(&self, ids: &[PageId]) -> usize {
        let Some(mut batch) = self.writer.take_spare(0) else { return 0 };
        for &id in ids.iter().take(batch.room()) {
            self.copy(id, &mut batch);
        }
        let copied = batch.ids.len();
        self.hand_in(batch);
        copied
    }

    /// Copies page `id` into `batch` if it is dirty. Never waits for a latch, because a thread that
    /// holds one may be waiting for a batch.
    pub(crate) fn copy(&self, id: PageId, batch: &mut Batch) -> Copied {
        self.owner.check();
        let _copying = self.writer.copying.lock();
        let latch = self.latch(id);
        let seen = latch.look();
        if !seen.resident() && !seen.exclusive() {
            return Copied::Clean;
        }
        if !latch.try_shared_unmarked() {
            return match latch.look() {
                seen if !seen.resident() => Copied::Clean,
                seen => seen.owner().filter(|_| seen.foreign()).map_or(Copied::Missed, Copied::Foreign),
            };
        }
        // Only copying threads set the state *being written*, one at a time. So the state cannot
        // begin between this look and the copy.
        let copied = match latch.look() {
            seen if seen.writing() => Copied::Missed,
            seen if !seen.dirty() => Copied::Clean,
            _ => {
                latch.begin_write();
                // SAFETY: under a shared latch no thread changes or evicts the page.
                batch.add(id, unsafe { self.page(id).as_ref() });
                Copied::Taken
            }
        };
        latch.unlock_shared();
        copied
    }

    /// Hands a batch in for writing, or returns it to the spare ones if it is empty. Returns the
    /// number of batches handed in so far.
    pub(crate) fn hand_in(&self, mut batch: Batch) -> u64 {
        let mut batches = self.writer.batches.lock();
        if batch.ids.is_empty() {
            batch.clear();
            batches.spare.push(batch);
        } else {
            batches.asked += 1;
            batches.waiting.push_back(batch);
        }
        self.writer.moved.notify_all();
        batches.asked
    }

    /// Writes the oldest waiting batch, after any batch that is being written; `false` if none
    /// waits. Blocks for the device. Touches no page, so any thread may call it.
    pub fn write_out(&self) -> bool {
        let mut device = self.writer.device.lock();
        let Some(mut batch) = self.writer.batches.lock().waiting.pop_front() else { return false };
        let done = self.log_first(batch.youngest).and_then(|()| self.writer.output(&mut device, &mut batch));
        let mut batches = self.writer.batches.lock();
        batches.written += 1;
        match &done {
            Ok(()) => drop(self.counts.written.fetch_add(batch.ids.len() as u64, Ordering::Relaxed)),
            Err(fault) => {
                batches.last_failure = Some(fault.clone());
                self.writer.failures.fetch_add(1, Ordering::Release);
            }
        }
        batches.finished.push_back((batch, done));
        self.writer.unsettled.store(batches.finished.len(), Ordering::Release);
        drop(batches);
        self.writer.moved.notify_all();
        // An owner that must settle the batch may be asleep.
        self.loads.queue.ring_bell();
        true
    }

    /// Marks the pages of finished batches as written, and evicts those that were to leave. Returns
    /// `true` if there were any. Called by a thread that may touch the pages.
    pub(crate) fn settle(&self) -> bool {
        self.owner.check();
        let mut any = false;
        while self.writer.unsettled() > 0 {
            let Some((mut batch, done)) = self.writer.take_finished() else { break };
            any = true;
            for &id in &batch.ids {
                match &done {
                    Ok(()) => self.latch(id).end_write(),
                    Err(_) => self.latch(id).fail_write(),
                }
            }
            self.leave(std::mem::take(&mut batch.leaving));
            batch.clear();
            self.writer.batches.lock().spare.push(batch);
        }
        if any {
            self.writer.moved.notify_all();
            self.loads.wake_for_frames();
        }
        any
    }

    /// Enforces the write-ahead rule. A page's LSN may be the start or the end of its last record.
    /// In both cases the record is durable once the log is durable beyond the LSN, or up to its
    /// very end.
    fn log_first(&self, lsn: Lsn) -> Result<(), PageFault> {
        let beyond = Lsn(lsn.0 + 1).min(self.log.end());
        Ok(self.log.wait_stable(beyond)?)
    }
}

/// The result of an attempt to copy a page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copied {
    Taken,
    /// There was nothing to copy.
    Clean,
    /// It is being changed, or an earlier copy of it is being written.
    Missed,
    /// It belongs to another owner, which must be asked.
    Foreign(OwnerId),
}
