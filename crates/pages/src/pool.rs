//! The pool: reaching pages. `numbers` gives out and takes back their numbers.
//!
//! Access rules per page (its word is a [`PageLatch`], which has the state table):
//!
//! - Absent: the thread that wins `begin_load` has the page to itself, fills it and makes it
//!   resident.
//! - Resident: read under a shared latch, changed under the exclusive latch.
//! - Evicted by the thread that takes the exclusive latch of a clean, unused page.
//! - Read without a latch ([`crate::PageView`]): the bytes are valid only if the page's version did
//!   not change.
//!
//! Every event that touches a page's bytes counts as a change: the version grows when the page is
//! loaded, when it is evicted, and when a writer releases the latch. So take a reader that read a
//! page without a latch. If it then finds the same version, and the page resident and not
//! exclusively latched, no thread changed the bytes while it read them. (An absent page is not
//! resident, so the check fails for it.)
//!
//! The bytes of absent pages are never read. Each resident page has a slot, so there are at most as
//! many resident pages as frames.

pub(crate) mod evict;
pub(crate) mod guard;
pub(crate) mod load;
mod numbers;
pub(crate) mod offers;
mod options;
pub(crate) mod run;
pub(crate) mod seats;
pub(crate) mod write;

pub use options::{Latching, PoolOptions};

use crate::allocator::Allocator;
use crate::data_file::{DataFile, Lifetime};
use crate::doublewrite::Doublewrite;
use crate::fault::{PageFault, Stop};
use crate::page::{PAGE_SIZE, Page};
use crate::pool::guard::{PageMut, PageRef};
use crate::pool::load::Loads;
use crate::pool::offers::Offers;
use crate::pool::seats::Seats;
use crate::pool::write::Writer;
use crate::region::Region;
use crate::renew::Renew;
use crate::replacement::Replacement;
use crate::slots::Slots;
use base::PageId;
use latch::{Backoff, Held, LatchPolicy, Owner, PageLatch, Rank, RankedMutex, Refused, SpinMutex};
use probe::Latched;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use wal::{Durability, Log};
use world::{Caching, Files, Means};

/// Pages for which memory is allocated ahead of use: 8 to 64 MiB.
const AHEAD: std::ops::Range<usize> = 1 << 10..1 << 13;
const BACKED_AT_ONCE: usize = 1 << 8;

/// Reserves addresses for `pages` pages. If addresses are scarce (a limit of the process,
/// valgrind), tries a half, a quarter and so on, down to `least`.
pub(crate) fn reserve_most<T, E>(
    mut pages: u32,
    least: u64,
    reserve: impl Fn(usize) -> Result<T, E>,
) -> Result<(T, u32), E> {
    loop {
        match reserve(pages as usize * PAGE_SIZE) {
            Err(_) if u64::from(pages / 2) >= least => pages /= 2,
            reserved => return reserved.map(|region| (region, pages)),
        }
    }
}

/// Counts since the pool was opened. The first two are current values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Pages in memory.
    pub resident: usize,
    /// Pages allocated.
    pub allocated: u32,
    pub loaded: u64,
    pub evicted: u64,
    pub written: u64,
    /// Pages repaired from the doublewrite area, at opening or at loading.
    pub repaired: u64,
}

/// How the pool reaches its device and its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolMeans {
    /// Whether the system caches the pages as well.
    pub caching: Caching,
    /// The interface for asynchronous reads.
    pub reading: Means,
    /// Bytes of the pool that lie in huge pages at present, as the system reports; 0 if it does not
    /// report them.
    pub huge_bytes: u64,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub loaded: AtomicU64,
    pub evicted: AtomicU64,
    pub written: AtomicU64,
    pub repaired: AtomicU64,
}

/// A buffer pool over one data file.
pub struct Pool {
    /// The first field: dropping it waits for reads under way, which write into the memory of the
    /// next one.
    pub(crate) loads: Loads,
    pub(crate) region: Region,
    /// Memory of the pages' words, which `latch` reads.
    words: Region,
    max_pages: u32,
    latching: Latching,
    /// The `max_pages` of the options.
    pub(crate) asked_pages: u32,
    pub(crate) owner: Owner,
    pub(crate) slots: Slots,
    pub(crate) replacement: RankedMutex<Replacement>,
    pub(crate) writer: Writer,
    pub(crate) seats: Seats,
    /// Requests to the owners of pages.
    pub(crate) offers: Offers,
    /// The number of threads in [`Pool::serve`].
    pub(crate) servers: AtomicUsize,
    /// Whether the pool still asks for huge pages.
    huge: AtomicBool,
    /// Memory was allocated ahead of use for all pages before this number.
    backed: AtomicUsize,
    pub(crate) log: Arc<Log>,
    allocator: SpinMutex<Allocator>,
    /// The callback for pages that are read in; see [`Pool::renew_by`].
    pub(crate) renew: OnceLock<Arc<dyn Renew>>,
    pub(crate) counts: Counts,
}

impl Pool {
    /// Opens or creates the data file at `path`. Repairs pages that a crash tore, from the file
    /// `doublewrite` beside it. With a log in memory mode neither file is touched: evicted pages go
    /// to an unnamed file beside it.
    ///
    /// # Errors
    /// A file of another kind or version, options that cannot work, I/O.
    pub fn open(
        files: Arc<dyn Files>,
        path: &Path,
        options: PoolOptions,
        log: Arc<Log>,
    ) -> Result<Pool, PageFault> {
        Pool::open_by(files, path, options, log, Means::Best)
    }

    /// As [`Pool::open`], with a given interface for reads.
    pub(crate) fn open_by(
        files: Arc<dyn Files>,
        path: &Path,
        options: PoolOptions,
        log: Arc<Log>,
        means: Means,
    ) -> Result<Pool, PageFault> {
        let wrong = |what: String| PageFault::File { file: path.to_owned(), what };
        if options.frames < 8 || options.max_pages < 2 {
            return Err(wrong(format!(
                "a buffer pool of {} frames over {} pages: expected at least 8 frames and 2 pages",
                options.frames, options.max_pages
            )));
        }
        let reserve = |bytes: usize| {
            Region::new(bytes).map_err(|e| wrong(format!("cannot reserve {bytes} bytes of addresses: {e}")))
        };
        let (writer, repaired) = open_files(&*files, path, log.durability())?;
        let present = writer.data.pages()?;
        let frames = options.frames.min(options.max_pages as usize);
        let least = (frames as u64).max(present);
        let (region, max_pages) = reserve_most(options.max_pages, least, reserve)?;
        // In a larger database, pages come and go: one page would take the memory of a huge page,
        // but the pool would count it as one page.
        let huge = present <= frames as u64;
        if huge {
            region.prefer_huge_pages(frames * PAGE_SIZE);
        }
        let counts = Counts { repaired: AtomicU64::new(repaired as u64), ..Counts::default() };
        Ok(Pool {
            loads: Loads::new(means)?,
            region,
            words: reserve(max_pages as usize * size_of::<PageLatch>())?,
            max_pages,
            asked_pages: options.max_pages,
            latching: options.latching,
            owner: Owner::new(),
            slots: Slots::new(frames),
            replacement: RankedMutex::new(Rank::PoolQueues, Replacement::new(frames)),
            seats: Seats::new(frames),
            offers: Offers::new(),
            writer,
            servers: AtomicUsize::new(0),
            huge: AtomicBool::new(huge),
            backed: AtomicUsize::new(0),
            log,
            allocator: SpinMutex::ranked(Rank::PoolAllocator, Allocator::new(max_pages)),
            renew: OnceLock::new(),
            counts,
        })
    }

    /// A warning if the system granted addresses for fewer pages than the options ask for, which
    /// limits the size of the database.
    pub fn shortage(&self) -> Option<String> {
        let gib = |pages: u32| f64::from(pages) * PAGE_SIZE as f64 / (1u64 << 30) as f64;
        (self.max_pages < self.asked_pages).then(|| {
            format!(
                "the system gives addresses for {:.2} GiB of pages instead of {:.2}: the database cannot grow beyond that; \
                 raise the process' limit of virtual memory (ulimit -v), or allow overcommitted memory",
                gib(self.max_pages),
                gib(self.asked_pages)
            )
        })
    }

    /// Stops using huge pages, because pages are evicted from now on: giving back a part of a huge
    /// page does not free the rest of it.
    pub(crate) fn shrink_pages(&self) {
        if self.huge.load(Ordering::Relaxed) && self.huge.swap(false, Ordering::Relaxed) {
            self.region.refuse_huge_pages();
        }
    }

    /// Asks the system to allocate memory for the pages that will be used next, if the pool uses
    /// huge pages: the first touch of a huge page costs a worker hundreds of microseconds. The
    /// amount is a sixteenth of the pages in use, within limits, and never more than the pool may
    /// hold.
    pub(crate) fn back_ahead(&self) {
        if !self.huge.load(Ordering::Relaxed) {
            return;
        }
        let used = self.allocator.lock().next() as usize;
        let until = (used + (used / 16).clamp(AHEAD.start, AHEAD.end)).min(self.slots.len());
        let from = self.backed.load(Ordering::Relaxed).max(used);
        if until >= from + BACKED_AT_ONCE {
            self.region.back(from * PAGE_SIZE, until * PAGE_SIZE);
            self.backed.store(until, Ordering::Relaxed);
        }
    }

    /// Asks the system to allocate memory for all pages that the pool may hold, unless pages are
    /// evicted.
    pub fn back_all(&self) {
        if self.huge.load(Ordering::Relaxed) {
            self.region.back(0, self.slots.len() * PAGE_SIZE);
            self.backed.store(self.slots.len(), Ordering::Relaxed);
        }
    }

    /// Sets the callback that brings pages up to date when they are read. To be called once, before
    /// any page is touched.
    ///
    /// # Panics
    /// If it was set already.
    pub fn renew_by(&self, renew: Arc<dyn Renew>) {
        assert!(self.renew.set(renew).is_ok(), "pages are renewed in one way");
    }

    /// Page `id` is in memory and up to date.
    pub(crate) fn renewed(&self, id: PageId) {
        if let Some(renew) = self.renew.get() {
            renew.renewed(id);
        }
    }

    /// The word of page `id`. The caller has checked the number, or has it from a slot.
    #[inline]
    pub(crate) fn latch(&self, id: PageId) -> &PageLatch {
        debug_assert!(id.0 < self.max_pages);
        // SAFETY: there is a word for each page below `max_pages`; zeroed memory is an absent
        // page's latch; the memory lives as long as the pool and is only ever used as latches,
        // which are atomics.
        unsafe { &*self.words.start().cast::<PageLatch>().add(id.0 as usize) }
    }

    #[inline]
    pub(crate) fn page(&self, id: PageId) -> NonNull<Page> {
        debug_assert!(id.0 < self.max_pages);
        // SAFETY: the region has room for `max_pages` pages, so the address is inside it and not
        // null.
        unsafe { NonNull::new_unchecked(self.region.start().cast::<Page>().add(id.0 as usize)) }
    }

    #[cold]
    fn out_of_range(&self, page: PageId) -> PageFault {
        PageFault::Range { page, max_pages: self.max_pages }
    }

    /// Checks that `id` is a possible page number.
    ///
    /// # Errors
    /// [`PageFault::Range`] if it is not.
    #[inline]
    pub fn check(&self, id: PageId) -> Result<(), PageFault> {
        // Page 0 wraps around to the largest number, so one comparison checks both bounds.
        if id.0.wrapping_sub(1) < self.max_pages - 1 { Ok(()) } else { Err(self.out_of_range(id)) }
    }

    /// Whether readers under this policy read pages without a latch.
    #[inline]
    pub fn views<L: LatchPolicy>(&self) -> bool {
        L::VIEWS && (!L::LATCHED || self.latching == Latching::Optimistic)
    }

    /// Page `id` for reading, as a page of a tree in the order of latches ([`Rank::TreePage`]).
    ///
    /// # Errors
    /// See [`Stop`]; nothing was changed.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn shared<L: LatchPolicy>(&self, id: PageId) -> Result<PageRef<'_, L>, Stop> {
        self.shared_as(Rank::TreePage, id)
    }

    /// As [`Pool::shared`], with another place in the order of latches.
    ///
    /// # Errors
    /// As [`Pool::shared`].
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn shared_as<L: LatchPolicy>(&self, rank: Rank, id: PageId) -> Result<PageRef<'_, L>, Stop> {
        self.check(id)?;
        let (latch, held) = (self.latch(id), Held::checked(rank));
        let latching = latch_begins::<L>(latch);
        match L::shared(latch, &self.owner) {
            Ok(version) => {
                // SAFETY: the latch was taken just now, under this policy.
                let page = unsafe { PageRef::new(latch, self.page(id), id, version, held) };
                visited(latching, &page, id);
                Ok(page)
            }
            Err(refused) => Err(not_taken(latching, refused, id)),
        }
    }

    /// Page `id` for changing, as a page of a tree in the order of latches ([`Rank::TreePage`]).
    ///
    /// # Errors
    /// See [`Stop`]; nothing was changed.
    #[inline(always)] // a call would pass the page through memory
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn exclusive<L: LatchPolicy>(&self, id: PageId) -> Result<PageMut<'_, L>, Stop> {
        self.exclusive_as(Rank::TreePage, id)
    }

    /// As [`Pool::exclusive`], with another place in the order of latches.
    ///
    /// # Errors
    /// As [`Pool::exclusive`].
    #[inline(always)]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn exclusive_as<L: LatchPolicy>(&self, rank: Rank, id: PageId) -> Result<PageMut<'_, L>, Stop> {
        self.check(id)?;
        self.latched(id, Held::checked(rank))
    }

    /// Takes the exclusive latch of page `id`, which is in range.
    #[inline(always)]
    fn latched<L: LatchPolicy>(&self, id: PageId, held: Held) -> Result<PageMut<'_, L>, Stop> {
        let latch = self.latch(id);
        let latching = latch_begins::<L>(latch);
        match L::exclusive(latch, &self.owner) {
            Ok(version) => {
                // SAFETY: the latch was taken just now, under this policy.
                let page = unsafe { PageMut::new(latch, self.page(id), id, version, held) };
                visited(latching, &page, id);
                Ok(page)
            }
            Err(refused) => Err(not_taken(latching, refused, id)),
        }
    }

    /// Page `id`, which the caller has allocated: zeroed, and latched for changes. May evict
    /// another page, with I/O.
    ///
    /// # Errors
    /// [`Stop::NoSpace`] if every frame is in use, or as [`Pool::exclusive`].
    pub fn fresh<L: LatchPolicy>(&self, id: PageId) -> Result<PageMut<'_, L>, Stop> {
        self.check(id)?;
        self.owner.check();
        // No thread that holds another page waits for this one.
        let held = || Held::taken(Rank::TreePage);
        let mut backoff = Backoff::new();
        loop {
            if self.latch(id).look().resident() {
                match self.latched::<L>(id, held()) {
                    Err(Stop::Page(_)) => {}
                    taken => {
                        let mut page = taken?;
                        page.clear();
                        return Ok(page);
                    }
                }
            } else if let Some(version) = self.begin_fresh(id)? {
                let latch = self.latch(id);
                // SAFETY: the loader holds the exclusive latch and hands it over; every policy
                // releases it in the same way.
                let mut page = unsafe { PageMut::new(latch, self.page(id), id, version, held()) };
                page.clear();
                return Ok(page);
            }
            // The page may be one that another thread is reading from disk.
            self.turn();
            backoff.wait();
        }
    }

    /// Makes page `id` resident with the bytes it has, latched exclusively, and returns its
    /// version. `None` if another thread was faster.
    fn begin_fresh(&self, id: PageId) -> Result<Option<u64>, PageFault> {
        let slot = self.room()?;
        let latch = self.latch(id);
        if !latch.begin_load() {
            self.slots.give(slot);
            return Ok(None);
        }
        let index = slot.0 as usize;
        self.slots.name(slot, id);
        let version = latch.end_load_exclusive();
        self.entered(index, id);
        self.renewed(id);
        Ok(Some(version))
    }

    /// Whether page `id` is in memory, not latched exclusively, and still has this version.
    #[inline]
    pub fn version_unchanged(&self, id: PageId, version: u64) -> bool {
        if self.check(id).is_err() {
            return false;
        }
        let seen = self.latch(id).look();
        seen.resident() && !seen.exclusive() && seen.version() == version
    }

    /// The owner of the pages under [`latch::Owned`]. The worker of the `serial` design claims it.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Length of the data file in bytes.
    ///
    /// # Errors
    /// I/O.
    pub fn file_bytes(&self) -> Result<u64, PageFault> {
        Ok(self.writer.data.bytes()?)
    }

    /// The number of pages that can be in memory at the same time.
    pub fn frames(&self) -> usize {
        self.slots.len()
    }

    /// The addresses of the pages, for binding them to a NUMA node: first byte and length in bytes.
    pub fn region(&self) -> (*mut u8, usize) {
        (self.region.start(), self.region.bytes())
    }

    /// How the pool reaches its device and its memory. Reads a file of the system, so it is not for
    /// frequent calls.
    pub fn means(&self) -> PoolMeans {
        PoolMeans {
            caching: self.writer.data.caching,
            reading: self.loads.queue.means(),
            huge_bytes: world::huge_bytes(self.region.start() as usize, self.region.bytes()),
        }
    }

    pub fn stats(&self) -> PoolStats {
        let count = |c: &AtomicU64| c.load(Ordering::Relaxed);
        PoolStats {
            resident: self.slots.len() - self.slots.free(),
            allocated: self.allocator.lock().used(),
            loaded: count(&self.counts.loaded),
            evicted: count(&self.counts.evicted),
            written: count(&self.counts.written),
            repaired: count(&self.counts.repaired),
        }
    }
}

/// Runs `f`, which takes or releases a page's latch, and measures it. An owned page has no latch,
/// so nothing is measured for it.
#[inline(always)]
pub(crate) fn latching<L: LatchPolicy, R>(latch: &PageLatch, f: impl FnOnce() -> R) -> R {
    if L::latches(latch) { probe::latching(f) } else { f() }
}

#[inline(always)]
fn latch_begins<L: LatchPolicy>(latch: &PageLatch) -> Option<probe::Latching> {
    L::latches(latch).then(probe::latch_begins)
}

#[inline(always)]
fn visited(latching: Option<probe::Latching>, page: &Page, id: PageId) {
    match latching {
        Some(before) => probe::latched(before, || page.kind(), id.0),
        None => probe::visited(|| page.kind(), id.0, Latched::No),
    }
}

#[cold]
fn not_taken(latching: Option<probe::Latching>, refused: Refused, id: PageId) -> Stop {
    if let Some(before) = latching {
        probe::unlatched(before);
    }
    stop(refused, id)
}

#[cold]
pub(crate) fn stop(refused: Refused, id: PageId) -> Stop {
    match refused {
        Refused::Absent => Stop::Page(id),
        Refused::Busy => Stop::Again,
        Refused::Foreign => PageFault::Foreign { page: id }.into(),
    }
}

/// Opens the data file and the doublewrite area, and repairs torn pages. Returns the number of
/// pages repaired.
fn open_files(files: &dyn Files, path: &Path, durability: Durability) -> Result<(Writer, usize), PageFault> {
    if durability == Durability::Memory {
        let data = DataFile::open(files, path, Lifetime::Process)?;
        return Ok((Writer::new(data, None)?, 0));
    }
    let data = DataFile::open(files, path, Lifetime::Durable)?;
    let doublewrite = Doublewrite::open(files, &path.with_file_name("doublewrite"))?;
    files.sync_dir(path.parent().unwrap_or(Path::new(".")))?;
    let repaired = doublewrite.repair(&data)?;
    Ok((Writer::new(data, Some(doublewrite))?, repaired))
}
