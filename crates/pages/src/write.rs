//! Writing dirty pages out: for a checkpoint, and to make them fit to leave.
//!
//! ```text
//!   spare --copied full--> waiting --write_out--> finished --settle--> spare
//!          (who may touch            (anyone; I/O)          (who may touch
//!           the pages)                                       the pages)
//! ```
//!
//! A page is copied under a shared latch, and from then on is *being written*: it may be changed (and is dirty
//! again) but does not leave. The copies then go out as a batch, in this order:
//!
//! 1. the log is on the device up to the youngest change in the batch (the write-ahead rule);
//! 2. the batch before is on the device in place;
//! 3. the batch is on the device in the doublewrite area;
//! 4. each page is written in place, all at once.
//!
//! In memory mode only the last step happens: there is nothing to come back to.
//!
//! Who may do what: copying and settling touch the pages' words, so when the pages have an owner it alone does both;
//! `write_out` touches only the copies, so a thread that owns nothing can do it ([`Pool::serve`]). One thread copies at
//! a time, one writes at a time. Who has to wait for a batch writes it himself if nobody else has begun.

use crate::batch::Batch;
use crate::data_file::{DataFile, offset};
use crate::doublewrite::Doublewrite;
use crate::fault::PageFault;
use crate::pool::Pool;
use base::{Lsn, PageId};
use latch::{Backoff, OwnerId};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use world::{IoQueue, Means};

/// Batches at once: one being written, one being filled, and one that a checkpoint leaves to those who need frames.
const BATCHES: usize = 3;

/// The way to the files.
pub(crate) struct Writer {
    pub data: DataFile,
    pub doublewrite: Option<Doublewrite>,
    /// Held while pages are copied.
    copying: Mutex<()>,
    desk: Mutex<Desk>,
    /// Something on the desk has moved.
    pub moved: Condvar,
    /// Those asleep who keep frames free.
    napping: AtomicUsize,
    device: Mutex<Device>,
    /// Why nothing may be written any more.
    poison: OnceLock<Arc<io::Error>>,
    /// Batches that failed since the pool was opened.
    failures: AtomicU64,
    /// Finished batches that nobody has settled, for a look without the desk's lock.
    unsettled: AtomicUsize,
}

/// Where batches change hands. Positions only grow, and batches are written in their order.
struct Desk {
    spare: Vec<Batch>,
    waiting: VecDeque<Batch>,
    finished: VecDeque<(Batch, Result<(), PageFault>)>,
    /// Batches ever put here to be written, and of those, written or failed.
    asked: u64,
    written: u64,
    last_failure: Option<PageFault>,
}

/// Held by whoever writes.
pub(crate) struct Device {
    queue: IoQueue,
    /// Pages were written in place that the device may not have yet.
    unsynced: bool,
    /// A batch that is in the doublewrite area, and whose writing in place failed half-way.
    unfinished: Option<Batch>,
}

/// A checkpoint's writing, taken in pieces; see [`Pool::step_write_back`].
pub struct WriteBack {
    pending: Vec<PageId>,
    missed: Vec<PageId>,
    written: usize,
    failures: u64,
    /// How many batches must have been written.
    upto: u64,
}

/// How far a piece of work has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do at once.
    More,
    /// The device or another thread has to go on first.
    Waiting,
    Finished,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while writing leaves a batch that never finishes or dirty pages behind, nothing half-changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writer {
    pub fn new(data: DataFile, doublewrite: Option<Doublewrite>) -> io::Result<Writer> {
        let spare = (0..BATCHES).map(|_| Batch::new()).collect();
        let desk = Desk {
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
            copying: Mutex::default(),
            desk: Mutex::new(desk),
            moved: Condvar::new(),
            napping: AtomicUsize::new(0),
            device: Mutex::new(Device { queue, unsynced: false, unfinished: None }),
            poison: OnceLock::new(),
            failures: AtomicU64::new(0),
            unsettled: AtomicUsize::new(0),
        })
    }

    /// Keeps batches from being written while it is held.
    pub fn stop_writing(&self) -> MutexGuard<'_, Device> {
        held(&self.device)
    }

    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Acquire)
    }

    /// The error of a batch that failed since `failures` was read.
    pub fn failed_since(&self, failures: u64) -> Result<(), PageFault> {
        if self.failures() == failures {
            return Ok(());
        }
        held(&self.desk).last_failure.clone().map_or(Ok(()), Err)
    }

    /// Whether a batch is on its way: waiting, being written, or not settled.
    pub fn busy(&self) -> bool {
        let desk = held(&self.desk);
        desk.asked != desk.written || !desk.finished.is_empty()
    }

    #[inline]
    pub fn unsettled(&self) -> usize {
        self.unsettled.load(Ordering::Acquire)
    }

    fn take_finished(&self) -> Option<(Batch, Result<(), PageFault>)> {
        let mut desk = held(&self.desk);
        let finished = desk.finished.pop_front();
        self.unsettled.store(desk.finished.len(), Ordering::Release);
        finished
    }

    /// A batch to fill, if more than `keep` are spare.
    pub fn take_spare(&self, keep: usize) -> Option<Batch> {
        let mut desk = held(&self.desk);
        if desk.spare.len() > keep { desk.spare.pop() } else { None }
    }

    /// Waits for the desk to move, but no longer than `most`.
    pub fn wait(&self, most: Duration) {
        drop(self.moved.wait_timeout(held(&self.desk), most));
    }

    /// Waits for a batch to write, but no longer than `most`.
    pub fn wait_for_work(&self, most: Duration) {
        let desk = held(&self.desk);
        if desk.waiting.is_empty() {
            drop(self.moved.wait_timeout(desk, most));
        }
    }

    /// As [`Writer::wait_for_work`], for who also keeps frames free.
    pub fn nap(&self, most: Duration) {
        self.napping.fetch_add(1, Ordering::Relaxed);
        self.wait_for_work(most);
        self.napping.fetch_sub(1, Ordering::Relaxed);
    }

    /// Few frames are free, as whoever takes one says: a sleeper who keeps some free is woken. Where there is none, waking nobody would
    /// still be a system call for every page that is read. Who falls asleep just now is woken for the next page, or soon by itself.
    #[inline]
    pub fn frames_are_short(&self) {
        if self.napping.load(Ordering::Relaxed) > 0 {
            self.moved.notify_all();
        }
    }

    fn check(&self) -> Result<(), PageFault> {
        self.poison.get().map_or(Ok(()), |why| Err(PageFault::Poisoned(why.clone())))
    }

    /// After a failed sync nobody knows what is on the device.
    fn synced(&self, done: io::Result<()>) -> Result<(), PageFault> {
        done.map_err(|e| PageFault::Poisoned(self.poison.get_or_init(|| Arc::new(e)).clone()))
    }

    /// Has what was written in place on the device.
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

    /// Writes a batch; what failed half-way in place is kept, because its only whole copy is in the doublewrite area.
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
    /// Writes every page that was dirty when this was called, waiting for those being changed, and waits for the
    /// device; gives the number of pages written. Transactions may run meanwhile. The caller holds no latch, and
    /// owns the pages if anyone does. In memory mode there is nothing to write for.
    ///
    /// # Errors
    /// I/O, or the log's fault. Pages that were not written are still dirty.
    pub fn write_back(&self) -> Result<usize, PageFault> {
        let mut run = self.begin_write_back();
        let mut backoff = Backoff::new();
        loop {
            match self.step_write_back(&mut run)? {
                Progress::Finished => break,
                Progress::More => backoff = Backoff::new(),
                Progress::Waiting if self.write_out() => backoff = Backoff::new(),
                // Waited for here, not in the batch: who changes a page may itself be waiting to write a batch.
                Progress::Waiting => backoff.wait(),
            }
        }
        self.sync_written()?;
        Ok(run.written)
    }

    /// Begins to write every page that is dirty now. Whoever may touch the pages then steps until it is finished, has
    /// [`Pool::sync_written`] called, by any thread, and knows that those pages are on the device.
    pub fn begin_write_back(&self) -> WriteBack {
        let mut pending = Vec::new();
        if self.writer.doublewrite.is_some() {
            pending.extend((0..self.slots.len()).filter_map(|n| self.slots.page(n)));
            pending.retain(|&id| {
                let seen = self.latch(id).look();
                seen.resident() && (seen.dirty() || seen.writing() || seen.exclusive())
            });
            // Ascending from the end, where they are taken: neighbours are written together.
            pending.sort_unstable_by(|a, b| b.cmp(a));
        }
        let failures = self.writer.failures();
        WriteBack { pending, missed: Vec::new(), written: 0, failures, upto: 0 }
    }

    /// Copies at most one batch more for writing; never waits for a device, a latch or another thread.
    ///
    /// # Errors
    /// A batch failed, this run's or one of an eviction.
    pub fn step_write_back(&self, run: &mut WriteBack) -> Result<Progress, PageFault> {
        self.settle();
        self.writer.failed_since(run.failures)?;
        if run.pending.is_empty() {
            if run.missed.is_empty() {
                let Some(upto) = self.offers.copied_upto() else { return Ok(Progress::Waiting) };
                let done = held(&self.writer.desk).written >= run.upto.max(upto);
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

    /// Has everything that was written in place on the device. Touches no page.
    ///
    /// # Errors
    /// I/O.
    pub fn sync_written(&self) -> Result<(), PageFault> {
        self.writer.settle_device(&mut held(&self.writer.device))
    }

    /// Pages that are dirty and next to leave, at most `budget` of them: cleaning them now saves whoever needs their
    /// frames the wait. Who does it is the design's choice; see [`Pool::clean`].
    pub fn dirty_pages(&self, budget: usize) -> Vec<PageId> {
        let replacement = self.replacement.lock().unwrap_or_else(PoisonError::into_inner);
        let next = replacement.next().take(budget * 4).filter_map(|slot| self.slots.page(slot));
        next.filter(|&id| self.latch(id).look().dirty()).take(budget).collect()
    }

    /// Copies those of `ids` that are dirty and unlatched for writing, as many as a batch takes, and gives their
    /// number; 0 also when every batch is on its way. Never waits.
    pub fn clean(&self, ids: &[PageId]) -> usize {
        let Some(mut batch) = self.writer.take_spare(0) else { return 0 };
        for &id in ids.iter().take(batch.room()) {
            self.copy(id, &mut batch);
        }
        let copied = batch.ids.len();
        self.hand_in(batch);
        copied
    }

    /// Copies page `id` into `batch` if it is dirty. Never waits for a latch, because others wait for batches while they
    /// hold one.
    pub(crate) fn copy(&self, id: PageId, batch: &mut Batch) -> Copied {
        self.owner.check();
        let _copying = held(&self.writer.copying);
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
        // Only copiers begin to write a page, one at a time, so a page that is not being written stays so.
        let copied = match latch.look() {
            seen if seen.writing() => Copied::Missed,
            seen if !seen.dirty() => Copied::Clean,
            _ => {
                latch.begin_write();
                // SAFETY: under a shared latch nobody changes or evicts the page.
                batch.add(id, unsafe { self.page(id).as_ref() });
                Copied::Taken
            }
        };
        latch.unlock_shared();
        copied
    }

    /// Puts a batch on the desk to be written, or back to the spare ones if there is nothing in it; gives the number of
    /// batches so far.
    pub(crate) fn hand_in(&self, mut batch: Batch) -> u64 {
        let mut desk = held(&self.writer.desk);
        if batch.ids.is_empty() {
            batch.clear();
            desk.spare.push(batch);
        } else {
            desk.asked += 1;
            desk.waiting.push_back(batch);
        }
        self.writer.moved.notify_all();
        desk.asked
    }

    /// Writes the batch that has waited longest, after any that is being written; `false` when none waits. Blocks for
    /// the device. Touches no page, so any thread may.
    pub fn write_out(&self) -> bool {
        let mut device = held(&self.writer.device);
        let Some(mut batch) = held(&self.writer.desk).waiting.pop_front() else { return false };
        let done = self.log_first(batch.youngest).and_then(|()| self.writer.output(&mut device, &mut batch));
        let mut desk = held(&self.writer.desk);
        desk.written += 1;
        match &done {
            Ok(()) => drop(self.counts.written.fetch_add(batch.ids.len() as u64, Ordering::Relaxed)),
            Err(fault) => {
                desk.last_failure = Some(fault.clone());
                self.writer.failures.fetch_add(1, Ordering::Release);
            }
        }
        desk.finished.push_back((batch, done));
        self.writer.unsettled.store(desk.finished.len(), Ordering::Release);
        drop(desk);
        self.writer.moved.notify_all();
        // An owner may be asleep that alone can settle it.
        self.loads.queue.ring_bell();
        true
    }

    /// Tells the pages of finished batches that they were written, and has those leave that were to. `true` when there
    /// were any. To be called by who may touch the pages.
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
            held(&self.writer.desk).spare.push(batch);
        }
        if any {
            self.writer.moved.notify_all();
            self.loads.wake_for_frames();
        }
        any
    }

    /// The write-ahead rule. A page's lsn may be its last record's start or end: either way the log is stable far
    /// enough when it is stable beyond the lsn, or to its very end.
    fn log_first(&self, lsn: Lsn) -> Result<(), PageFault> {
        let beyond = Lsn(lsn.0 + 1).min(self.log.end());
        Ok(self.log.wait_stable(beyond)?)
    }
}

/// What became of an attempt to copy a page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copied {
    Taken,
    /// There was nothing to copy.
    Clean,
    /// It is being changed, or written as it was before.
    Missed,
    /// It is another owner's, who is to be asked.
    Foreign(OwnerId),
}
