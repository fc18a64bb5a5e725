//! Reading pages asynchronously.
//!
//! ```text
//!   absent --a frame is free--> loading (in the table, with its waiters) --read ends--> resident,
//!          --no frame--> the waiter is woken when pages have been evicted               or absent
//! ```
//!
//! Access rules:
//!
//! - The thread that moves the page's word to *loading* (`begin_load`) adds an entry to the table,
//!   under the table's lock. Other threads that need the page join the entry.
//! - The thread that takes the completed read from the queue checks the page, publishes it, removes
//!   the entry and wakes the waiters.
//!
//! The result of the read is in the [`Load`], which every waiter holds, so a failure reaches all of
//! them. Eviction cannot meet a page that is being loaded: its slot gets the page's number only at
//! the end.

use crate::fault::PageFault;
use crate::page::{PAGE_SIZE, Page};
use crate::pool::Pool;
use crate::renew::Renewed;
use crate::slots::Slot;
use base::PageId;
use latch::{Backoff, PageChange, Rank, RankedMutex};
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use world::{Done, IoQueue, Means};

/// Maximum number of reads submitted to the kernel at once; more wait in the queue.
const DEPTH: u32 = 256;

/// Frames of the smallest pool with read-ahead: a transaction asks for sixteen pages at once, and
/// several transactions run at the same time.
const FRAMES_TO_READ_AHEAD: usize = 512;

/// One read of a page.
#[derive(Default)]
pub(crate) struct Load {
    outcome: OnceLock<Result<(), PageFault>>,
}

pub(crate) struct Entry {
    pub load: Arc<Load>,
    pub slot: Slot,
    pub waiters: Vec<Waker>,
}

/// The reads under way, and their waiters.
pub(crate) struct Loads {
    pub queue: IoQueue,
    pub table: RankedMutex<HashMap<u32, Entry>>,
    /// Waiters that found no free frame.
    frames: RankedMutex<Vec<Waker>>,
    /// The length of `frames`, readable without the lock.
    wanting: AtomicUsize,
}

/// The result of an attempt to load a page.
enum Begun {
    Resident,
    /// It is being read; the `Load` gets the result.
    Reading(Arc<Load>),
    /// Another thread is evicting it or making it new, which is over in a moment.
    Again,
    NoFrame,
}

impl Loads {
    pub fn new(means: Means) -> io::Result<Loads> {
        let queue = IoQueue::new(DEPTH, means)?;
        Ok(Loads {
            queue,
            table: RankedMutex::new(Rank::PoolReads, HashMap::new()),
            frames: RankedMutex::new(Rank::PoolFrames, Vec::new()),
            wanting: AtomicUsize::new(0),
        })
    }

    /// Whether a read is under way.
    #[inline]
    pub fn waiting(&self) -> bool {
        self.queue.pending() > 0
    }

    pub fn frames_wanted(&self) -> bool {
        self.wanting.load(Ordering::Acquire) > 0
    }

    fn want_frame(&self, waker: &Waker) {
        let mut frames = self.frames.lock();
        if !frames.iter().any(|w| w.will_wake(waker)) {
            frames.push(waker.clone());
        }
        self.wanting.store(frames.len(), Ordering::Release);
    }

    /// Pages have been evicted, or can be: wakes all waiters for a frame to try again.
    pub fn wake_for_frames(&self) {
        if self.frames_wanted() {
            let mut frames = self.frames.lock();
            let wakers = std::mem::take(&mut *frames);
            self.wanting.store(0, Ordering::Release);
            drop(frames);
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

/// Waits until a page is in memory; see [`Pool::wait_for`].
#[must_use = "a future does nothing unless polled"]
pub struct PageWait<'p> {
    pool: &'p Pool,
    id: PageId,
    load: Option<Arc<Load>>,
    failures: u64,
}

impl Future for PageWait<'_> {
    type Output = Result<(), PageFault>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(load) = &this.load {
            if let Some(outcome) = load.outcome.get() {
                return Poll::Ready(outcome.clone());
            }
        } else if let Err(fault) = this.pool.writer.failed_since(this.failures) {
            // The frame that this future waited for could not be cleaned.
            return Poll::Ready(Err(fault));
        }
        this.pool.poll_load(this.id, &mut this.load, cx)
    }
}

/// The token of the read of these pages.
pub(crate) fn token(pages: &Range<u32>) -> u64 {
    (pages.len() as u64) << 32 | u64::from(pages.start)
}

/// The pages of the read with this token.
fn pages_of(token: u64) -> Range<u32> {
    let first = token as u32;
    first..first + (token >> 32) as u32
}

impl Pool {
    /// Begins to read page `id` and returns a future that is ready once the page is in memory. The
    /// page may be evicted again before its waiter looks. A thread must call [`Pool::turn`]
    /// meanwhile. If the pages have an owner, only the owner may poll this. Any number of futures
    /// may wait for one page; it is read once.
    ///
    /// # Errors
    /// As [`Pool::load`]; the failure of one read reaches all its waiters.
    pub fn wait_for(&self, id: PageId) -> PageWait<'_> {
        PageWait { pool: self, id, load: None, failures: self.writer.failures() }
    }

    /// Begins to read page `id`, if it is absent, for a caller that will need it soon. `false` if
    /// no frame is free, or another thread is evicting the page.
    pub fn prefetch(&self, id: PageId) -> bool {
        self.check(id).is_ok() && matches!(self.begin(id, None), Begun::Resident | Begun::Reading(_))
    }

    /// Prefetches the cache lines at these offsets of a page that the caller will read next. A
    /// hint: the page may be absent.
    #[inline]
    pub fn prefetch_lines<const N: usize>(&self, id: PageId, at: [usize; N]) {
        if self.check(id).is_ok() {
            let page = self.page(id).cast::<u8>().as_ptr();
            at.iter().for_each(|at| latch::prefetch(page.wrapping_add(at % PAGE_SIZE)));
        }
    }

    /// As [`Pool::prefetch`], for several pages that one operation will need, so that they are read
    /// at the same time. Does nothing if frames are short: there, the pages that one operation
    /// reads ahead would evict pages that another one has gathered.
    #[cold]
    pub fn prefetch_beside(&self, id: PageId) {
        if self.slots.len() >= FRAMES_TO_READ_AHEAD && 2 * self.slots.free() > self.reserve_frames() {
            self.prefetch(id);
        }
    }

    /// The number of pages being read.
    #[inline]
    pub fn reading(&self) -> usize {
        self.loads.queue.pending()
    }

    fn poll_load(
        &self,
        id: PageId,
        load: &mut Option<Arc<Load>>,
        cx: &Context<'_>,
    ) -> Poll<Result<(), PageFault>> {
        self.check(id)?;
        self.owner.check();
        match self.begin(id, Some(cx.waker())) {
            Begun::Resident => Poll::Ready(Ok(())),
            Begun::Reading(reading) => {
                let outcome = reading.outcome.get().cloned();
                *load = Some(reading);
                outcome.map_or(Poll::Pending, Poll::Ready)
            }
            Begun::Again => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Begun::NoFrame => self.poll_frame(cx),
        }
    }

    /// All frames are in use: waits for one without blocking, as long as one can become free.
    #[cold]
    fn poll_frame(&self, cx: &Context<'_>) -> Poll<Result<(), PageFault>> {
        self.loads.want_frame(cx.waker());
        self.settle();
        let found = self.make_room(4);
        let served = self.servers.load(Ordering::Acquire) > 0;
        if found.left > 0 || (!served && self.write_out()) {
            self.loads.wake_for_frames();
        } else if !self.writer.busy() && !self.loads.waiting() {
            if found.looked > 0 && found.leaving == 0 && self.slots.free() == 0 {
                // No page is about to be evicted: other threads hold latches for a moment, or all
                // pages are in use. The blocking function `room` finds out which.
                self.slots.give(self.room()?);
            }
            self.loads.wake_for_frames();
        }
        Poll::Pending
    }

    /// Joins the read of page `id`, or begins it.
    fn begin(&self, id: PageId, waker: Option<&Waker>) -> Begun {
        let mut table = self.loads.table.lock();
        if self.latch(id).look().resident() {
            return Begun::Resident;
        }
        if let Some(entry) = table.get_mut(&id.0) {
            if let Some(waker) = waker
                && !entry.waiters.iter().any(|w| w.will_wake(waker))
            {
                entry.waiters.push(waker.clone());
            }
            return Begun::Reading(entry.load.clone());
        }
        let Some(slot) = self.slots.take() else { return Begun::NoFrame };
        if !self.latch(id).begin_load() {
            self.slots.give(slot);
            return Begun::Again;
        }
        if self.slots.free() < self.reserve_frames() {
            self.writer.frames_are_short();
        }
        let load = Arc::new(Load::default());
        let waiters = waker.cloned().into_iter().collect();
        table.insert(id.0, Entry { load: load.clone(), slot, waiters });
        self.read_run(id.0..id.0 + 1);
        Begun::Reading(load)
    }

    /// Takes completed reads and wakes their waiters; submits queued reads. Returns `true` if a
    /// read had ended. Costs one load if no read is under way. Every thread may call it; the owner
    /// of the pages must.
    ///
    /// A thread that acts for an owner of pages also handles the requests to this owner here: it
    /// copies pages for writing, or evicts them.
    #[inline]
    pub fn turn(&self) -> bool {
        let ended = self.loads.waiting() && self.take_ended();
        (self.offers.any() && self.do_asked()) | ended
    }

    /// Whether [`Pool::turn`] or [`Pool::tend`] has work. Checked before a sleep on [`Pool::bell`].
    pub fn ready(&self) -> bool {
        self.loads.queue.ready() || self.writer.unsettled() > 0 || self.asked()
    }

    /// Submits queued reads. To be called before a sleep.
    pub fn flush(&self) {
        if self.loads.waiting() {
            self.loads.queue.flush();
        }
    }

    /// Becomes readable, edge-triggered, when [`Pool::ready`] may have become true.
    pub fn bell(&self) -> std::os::fd::BorrowedFd<'_> {
        self.loads.queue.bell()
    }

    #[cold]
    fn take_ended(&self) -> bool {
        let mut ended = Vec::new();
        self.loads.queue.flush();
        self.loads.queue.poll(&mut ended);
        let any = !ended.is_empty();
        ended.into_iter().for_each(|done| self.ended(done));
        if any {
            // A page could not be evicted while it was being read; now it can.
            self.loads.wake_for_frames();
        }
        any
    }

    fn ended(&self, done: Done) {
        let pages = pages_of(done.token);
        match done.result {
            Ok(_) => pages.for_each(|page| self.read(PageId(page), Ok(()))),
            // The pages of a failed run are read one by one, because not all of them need to be
            // bad.
            Err(_) if pages.len() > 1 => pages.for_each(|page| self.read_run(page..page + 1)),
            Err(why) => self.read(PageId(pages.start), Err(why)),
        }
    }

    /// The read of page `id` has ended.
    fn read(&self, id: PageId, result: io::Result<()>) {
        // SAFETY: the page is still being loaded by this read, which has ended; no other thread
        // reads its bytes.
        let page = unsafe { self.page(id).as_mut() };
        let outcome = result.map_err(PageFault::from).and_then(|()| self.verify(id, page));
        let renewed = outcome.and_then(|()| match self.renew.get() {
            Some(renew) => renew.renew(id, page),
            None => Ok(Renewed::AsItWas),
        });
        self.publish(id, renewed);
    }

    fn publish(&self, id: PageId, renewed: Result<Renewed, PageFault>) {
        let mut table = self.loads.table.lock();
        let Some(Entry { load, slot, waiters }) = table.remove(&id.0) else { return };
        if let Ok(renewed) = renewed {
            let (index, latch) = (slot.0 as usize, self.latch(id));
            self.slots.name(slot, id);
            match renewed {
                Renewed::AsItWas => latch.end_load(),
                Renewed::Changed => {
                    latch.end_load_exclusive();
                    latch.unlock_exclusive(PageChange::Bytes);
                }
            }
            self.entered(index, id);
            self.counts.loaded.fetch_add(1, Ordering::Relaxed);
        } else {
            // SAFETY: the page is still being loaded by this entry, and no reference to its bytes
            // is left.
            unsafe { self.region.give_back(id.0 as usize * PAGE_SIZE, PAGE_SIZE) };
            self.latch(id).abandon_load();
            self.slots.give(slot);
        }
        drop(table);
        if matches!(renewed, Ok(Renewed::Changed)) {
            self.renewed(id);
        }
        let _ = load.outcome.set(renewed.map(drop));
        waiters.into_iter().for_each(Waker::wake);
    }

    /// Checks the bytes read as page `id`, and repairs the page from the doublewrite area if needed
    /// and possible.
    ///
    /// The log is durable beyond a page's last change before the page is written. So if a page's
    /// LSN lies beyond the end of the log, page and log are not of one database, or the log has
    /// lost its end. Then changes of the page could not be logged correctly.
    fn verify(&self, id: PageId, page: &mut Page) -> Result<(), PageFault> {
        if !page.intact(id) {
            self.repair(id, page)?;
        }
        let end = self.log.end();
        if page.lsn() <= end { Ok(()) } else { Err(self.writer.data.newer(id, page.lsn(), end)) }
    }

    fn repair(&self, id: PageId, page: &mut Page) -> Result<(), PageFault> {
        // While this lock is held, the batch in the doublewrite area is not replaced.
        let _writing = self.writer.stop_writing();
        let copy = self.writer.doublewrite.as_ref().map_or(Ok(None), |d| d.copy_of(id))?;
        let Some(copy) = copy else { return Err(self.writer.data.corrupt(id)) };
        self.writer.data.write(id, &copy)?;
        page.bytes_mut().copy_from_slice(copy.bytes());
        self.counts.repaired.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Reads page `id` into memory, unless it is there. A page that was never written has zero
    /// bytes and LSN 0. Blocks. If the pages have an owner, only the owner may call this, because
    /// making room touches the words of other pages.
    ///
    /// # Errors
    /// [`PageFault::Corrupt`] if the checksum does not match and the doublewrite area has no copy;
    /// [`PageFault::NoFrame`]; I/O.
    pub fn load(&self, id: PageId) -> Result<(), PageFault> {
        self.check(id)?;
        self.owner.check();
        let mut backoff = Backoff::new();
        loop {
            match self.begin(id, None) {
                Begun::Resident => return Ok(()),
                Begun::Again => backoff.wait(),
                Begun::NoFrame => self.slots.give(self.room()?),
                Begun::Reading(load) => loop {
                    if let Some(outcome) = load.outcome.get() {
                        return outcome.clone();
                    }
                    if !self.turn() {
                        // Another thread may have taken the completed read and not published it
                        // yet, hence the short wait.
                        self.loads.queue.wait(Duration::from_micros(500));
                    }
                },
            }
        }
    }
}
