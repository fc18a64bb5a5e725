//! Reading pages in, without waiting for them.
//!
//! ```text
//!   absent --a frame is free--> loading (in the table, its waiters with it) --the read ends--> resident, or absent again
//!          --none is----------> the waiter is told when pages have left
//! ```
//!
//! Who may do what: who moves the page's word to *loading* (`begin_load`) enters it in the table under the table's lock;
//! others who want it join the entry. Whoever takes the end of the read from the queue removes the entry, checks the
//! page, publishes it and wakes the waiters. What became of the read is in the [`Load`], which every waiter holds, so a
//! failure reaches each of them. The clock cannot meet a page being loaded: its slot is named when it is there.

use crate::fault::PageFault;
use crate::page::{PAGE_SIZE, Page};
use crate::pool::Pool;
use crate::renew::Renewed;
use crate::run::pages_of;
use crate::slots::Slot;
use base::PageId;
use latch::{Backoff, Change};
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use world::{Done, IoQueue, Means};

/// Reads the kernel is told of at once; more wait in the queue.
const DEPTH: u32 = 256;

/// Frames of the smallest pool in which pages are read ahead: a transaction asks for sixteen at once, and some run beside it.
const FRAMES_TO_READ_AHEAD: usize = 512;

/// One page being read.
#[derive(Default)]
pub(crate) struct Load {
    outcome: OnceLock<Result<(), PageFault>>,
}

pub(crate) struct Entry {
    pub load: Arc<Load>,
    pub slot: Slot,
    pub waiters: Vec<Waker>,
}

/// What is being read, and who waits for it.
pub(crate) struct Loads {
    pub queue: IoQueue,
    pub table: Mutex<HashMap<u32, Entry>>,
    /// Those who found no frame free.
    frames: Mutex<Vec<Waker>>,
    /// Length of `frames`, for a look without the lock.
    wanting: AtomicUsize,
}

/// How an attempt to load a page went.
enum Begun {
    Resident,
    /// It is being read; this says when.
    Reading(Arc<Load>),
    /// Somebody is throwing it out or making it new, which takes a moment.
    Again,
    NoFrame,
}

pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Maps and lists are whole between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Loads {
    pub fn new(means: Means) -> io::Result<Loads> {
        let queue = IoQueue::new(DEPTH, means)?;
        Ok(Loads { queue, table: Mutex::default(), frames: Mutex::default(), wanting: AtomicUsize::new(0) })
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
        let mut frames = held(&self.frames);
        if !frames.iter().any(|w| w.will_wake(waker)) {
            frames.push(waker.clone());
        }
        self.wanting.store(frames.len(), Ordering::Release);
    }

    /// Pages have left, or could now: everyone who found none tries again.
    pub fn wake_for_frames(&self) {
        if self.frames_wanted() {
            let mut frames = held(&self.frames);
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
            // The frame it waited for could not be cleaned.
            return Poll::Ready(Err(fault));
        }
        this.pool.poll_load(this.id, &mut this.load, cx)
    }
}

impl Pool {
    /// A future that is ready once page `id` has been read into memory, which this begins; the page may have left again
    /// when its waiter comes to look. Someone must call [`Pool::turn`] meanwhile. When the pages have an owner, it alone
    /// may poll this. Any number may wait for one page; it is read once.
    ///
    /// # Errors
    /// As [`Pool::load`]; the failure of one read reaches everyone who waits for it.
    pub fn wait_for(&self, id: PageId) -> PageWait<'_> {
        PageWait { pool: self, id, load: None, failures: self.writer.failures() }
    }

    /// Begins to read page `id` if it is absent, for someone who will come for it soon. `false` when no frame is free, or
    /// somebody is just throwing the page out.
    pub fn prefetch(&self, id: PageId) -> bool {
        self.check(id).is_ok() && matches!(self.begin(id, None), Begun::Resident | Begun::Reading(_))
    }

    /// Asks for the cache lines at these places of a page, for who comes for all of them next. A hint: the page may be absent.
    #[inline]
    pub fn prefetch_lines<const N: usize>(&self, id: PageId, at: [usize; N]) {
        if self.check(id).is_ok() {
            let page = self.page(id).cast::<u8>().as_ptr();
            at.iter().for_each(|at| latch::prefetch(page.wrapping_add(at % PAGE_SIZE)));
        }
    }

    /// As [`Pool::prefetch`], for a page among several that one operation will come for, so that they are read side by side.
    /// Does nothing where frames are short: what one has read ahead there throws out what another has gathered.
    #[cold]
    pub fn prefetch_beside(&self, id: PageId) {
        if self.slots.len() >= FRAMES_TO_READ_AHEAD && 2 * self.slots.free() > self.reserve_frames() {
            self.prefetch(id);
        }
    }

    /// Pages being read now.
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

    /// Every frame is in use: waits for one without blocking as long as one is to be expected.
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
                // Nothing is on its way out: latches of other threads, or all in use. The blocking way knows which.
                self.slots.give(self.room()?);
            }
            self.loads.wake_for_frames();
        }
        Poll::Pending
    }

    /// Joins the reading of page `id`, or begins it.
    fn begin(&self, id: PageId, waker: Option<&Waker>) -> Begun {
        let mut table = held(&self.loads.table);
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

    /// Takes the reads that have ended and wakes their waiters; hands over those asked for. `true` when any had ended.
    /// Costs one load when nothing is under way. Every thread may call it; when the pages have an owner, it must.
    ///
    /// A thread that acts for an owner of pages does here, too, what others ask of those: copies them to be written, or throws
    /// them out.
    #[inline]
    pub fn turn(&self) -> bool {
        let ended = self.loads.waiting() && self.take_ended();
        (self.offers.any() && self.do_asked()) | ended
    }

    /// Whether [`Pool::turn`] or [`Pool::tend`] has something to do: the look before a sleep on [`Pool::bell`].
    pub fn ready(&self) -> bool {
        self.loads.queue.ready() || self.writer.unsettled() > 0 || self.asked()
    }

    /// Hands over the reads asked for: to be called before a sleep.
    pub fn flush(&self) {
        if self.loads.waiting() {
            self.loads.queue.flush();
        }
    }

    /// Becomes readable, edge by edge, when [`Pool::ready`] may have become true.
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
            // A page that was being read could not leave; now it can.
            self.loads.wake_for_frames();
        }
        any
    }

    fn ended(&self, done: Done) {
        let pages = pages_of(done.token);
        match done.result {
            Ok(_) => pages.for_each(|page| self.read(PageId(page), Ok(()))),
            // One of them, or none, is to blame.
            Err(_) if pages.len() > 1 => pages.for_each(|page| self.read_run(page..page + 1)),
            Err(why) => self.read(PageId(pages.start), Err(why)),
        }
    }

    /// Page `id` has been read.
    fn read(&self, id: PageId, result: io::Result<()>) {
        // SAFETY: the page is still being loaded by this read, which has ended; nobody else looks at its bytes.
        let page = unsafe { self.page(id).as_mut() };
        let outcome = result.map_err(PageFault::from).and_then(|()| self.verify(id, page));
        let renewed = outcome.and_then(|()| match self.renew.get() {
            Some(renew) => renew.renew(id, page),
            None => Ok(Renewed::AsItWas),
        });
        self.publish(id, renewed);
    }

    fn publish(&self, id: PageId, renewed: Result<Renewed, PageFault>) {
        let mut table = held(&self.loads.table);
        let Some(Entry { load, slot, waiters }) = table.remove(&id.0) else { return };
        if let Ok(renewed) = renewed {
            let (index, latch) = (slot.0 as usize, self.latch(id));
            self.slots.name(slot, id);
            match renewed {
                Renewed::AsItWas => latch.end_load(),
                Renewed::Changed => {
                    latch.end_load_exclusive();
                    latch.unlock_exclusive(Change::Bytes);
                }
            }
            self.entered(index, id);
            self.counts.loaded.fetch_add(1, Ordering::Relaxed);
        } else {
            // SAFETY: the page is still being loaded by this entry, and no reference to its bytes is left.
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

    /// Checks what was read as page `id`, and repairs it from the doublewrite area if it has to be and can. The log had every
    /// change of it before it was written: one that the log does not reach is of another database, or that log is, and
    /// nothing could be logged about it.
    fn verify(&self, id: PageId, page: &mut Page) -> Result<(), PageFault> {
        if !page.intact(id) {
            self.repair(id, page)?;
        }
        let end = self.log.end();
        if page.lsn() <= end { Ok(()) } else { Err(self.writer.data.newer(id, page.lsn(), end)) }
    }

    fn repair(&self, id: PageId, page: &mut Page) -> Result<(), PageFault> {
        // So that the batch found there is not being replaced.
        let _writing = self.writer.stop_writing();
        let copy = self.writer.doublewrite.as_ref().map_or(Ok(None), |d| d.copy_of(id))?;
        let Some(copy) = copy else { return Err(self.writer.data.corrupt(id)) };
        self.writer.data.write(id, &copy)?;
        page.bytes_mut().copy_from_slice(copy.bytes());
        self.counts.repaired.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Reads page `id` into memory, unless it is there. A page never written is zeros, with lsn 0. Blocks. When the
    /// pages have an owner, it alone may call this: making room touches other pages' words.
    ///
    /// # Errors
    /// [`PageFault::Corrupt`] when its checksum does not match and the doublewrite area has no copy of it;
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
                        // Another thread may have taken the end and not yet published it: hence no longer.
                        self.loads.queue.wait(Duration::from_micros(500));
                    }
                },
            }
        }
    }
}
