//! The pool: reaching pages, giving out new ones.
//!
//! Who may do what, per page (its word is a [`PageLatch`], which has the state table):
//! - absent: whoever wins `begin_load` has the page to itself, fills it and makes it resident;
//! - resident: read under a shared latch, changed under the exclusive one;
//! - thrown out by whoever takes the exclusive latch of a clean, unused page.
//!
//! - looked at without a latch ([`crate::PageView`]), and believed only if its version is what it was before: so an
//!   eviction and a load leave another version behind, exactly like a change.
//!
//! Whatever happens to a page's bytes counts as a change: a page's version grows when it is loaded and when it leaves, as
//! it does when a writer lets go. So who read a page without a latch and finds its version unchanged, the page resident
//! and not exclusive (absent pages are neither), has read what was there all the while.
//!
//! Bytes of absent pages are never looked at. A slot is held for each resident page, so there are at most as many
//! as frames.

use crate::allocator::{Allocator, AllocatorState};
use crate::data_file::{DataFile, Lifetime};
use crate::doublewrite::Doublewrite;
use crate::fault::{PageFault, Stop};
use crate::guard::{PageMut, PageRef};
use crate::load::Loads;
use crate::offers::Offers;
use crate::page::{PAGE_SIZE, Page};
use crate::region::Region;
use crate::renew::Renew;
use crate::replacement::Replacement;
use crate::seats::Seats;
use crate::slots::Slots;
use crate::write::Writer;
use base::PageId;
use latch::{Backoff, LatchPolicy, Owner, PageLatch, Refused, SpinMutex};
use probe::{Latched, Section};
use std::fmt;
use std::path::Path;
use std::ptr::NonNull;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use wal::{Durability, Log};
use world::{Caching, Files, Means};

/// Pages that are backed ahead of their use: 8 to 64 MiB.
const AHEAD: std::ops::Range<usize> = 1 << 10..1 << 13;
const BACKED_AT_ONCE: usize = 1 << 8;

/// Sizes in pages of 8192 bytes.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Pages in memory at the same time.
    pub frames: usize,
    /// Pages there can ever be; addresses for all of them are reserved (for fewer, where the system does not give so many:
    /// [`Pool::shortage`]), memory is not. When there are frames for all of them nothing is ever evicted.
    pub max_pages: u32,
    pub latching: Latching,
}

/// How who only reads keeps out of the way of who changes, where pages are latched at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Latching {
    /// It looks without a latch, and at the page's version before and after, where its policy allows.
    #[default]
    Optimistic,
    /// It latches each page before it lets go of the one that led there, whatever its policy allows: what the literature's
    /// conventional systems do, to compare with.
    Coupled,
}

impl Latching {
    pub const ALL: [Latching; 2] = [Latching::Optimistic, Latching::Coupled];

    /// As the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            Latching::Optimistic => "optimistic",
            Latching::Coupled => "coupled",
        }
    }
}

impl fmt::Display for Latching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Latching {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let known = Latching::ALL.into_iter().find(|l| l.name() == s);
        known.ok_or_else(|| format!("latching '{s}' is unknown; expected optimistic or coupled"))
    }
}

/// Addresses for as many pages as there are to be, or, where addresses are scarce (a limit of the process, valgrind), for a half,
/// a quarter and so on, down to `least`.
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

impl PoolOptions {
    /// A pool that keeps `frames` pages, of a database of at most 128 GiB.
    pub fn new(frames: usize) -> PoolOptions {
        PoolOptions { frames, max_pages: 1 << 24, latching: Latching::Optimistic }
    }
}

/// Counts since the pool was opened, but for the first two, which are of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Pages in memory.
    pub resident: usize,
    /// Pages allocated.
    pub allocated: u32,
    pub loaded: u64,
    pub evicted: u64,
    pub written: u64,
    /// Pages repaired from the doublewrite area when the pool was opened or when they were loaded.
    pub repaired: u64,
}

/// How the pool reaches its device and its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolMeans {
    /// Whether the system keeps copies of the pages as well.
    pub caching: Caching,
    /// What reads pages without anyone waiting in a system call.
    pub reading: Means,
    /// Bytes of the pool that lie in huge pages now, as the system tells; 0 where it does not tell.
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
    /// First: dropping it waits for reads that are under way, into the memory below.
    pub(crate) loads: Loads,
    pub(crate) region: Region,
    /// Memory of the pages' words, which `latch` reads.
    words: Region,
    max_pages: u32,
    latching: Latching,
    /// What `max_pages` was to be.
    pub(crate) asked_pages: u32,
    pub(crate) owner: Owner,
    pub(crate) slots: Slots,
    pub(crate) replacement: Mutex<Replacement>,
    pub(crate) writer: Writer,
    pub(crate) seats: Seats,
    /// What owners of pages are asked for.
    pub(crate) offers: Offers,
    /// Threads in [`Pool::serve`].
    pub(crate) servers: AtomicUsize,
    /// Whether huge pages are still asked for.
    huge: AtomicBool,
    /// Pages that the system was asked to back ahead of their use: all before this.
    backed: AtomicUsize,
    pub(crate) log: Arc<Log>,
    allocator: SpinMutex<Allocator>,
    /// What is done to pages as they are read in; see [`Pool::renew_by`].
    pub(crate) renew: OnceLock<Arc<dyn Renew>>,
    pub(crate) counts: Counts,
}

impl Pool {
    /// Opens the data file at `path`, making it when there is none, and repairs pages that a crash tore, from the
    /// file `doublewrite` beside it. With a log in memory mode neither file is touched: evicted pages go to a
    /// nameless file beside it.
    ///
    /// # Errors
    /// A file of something else or of another version, options that cannot work, I/O.
    pub fn open(
        files: Arc<dyn Files>,
        path: &Path,
        options: PoolOptions,
        log: Arc<Log>,
    ) -> Result<Pool, PageFault> {
        Pool::open_by(files, path, options, log, Means::Best)
    }

    /// As [`Pool::open`], reading pages by these means.
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
        // One page of a larger database would take a huge page's memory, of which the pool counts a page's.
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
            replacement: Mutex::new(Replacement::new(frames)),
            seats: Seats::new(frames),
            offers: Offers::default(),
            writer,
            servers: AtomicUsize::new(0),
            huge: AtomicBool::new(huge),
            backed: AtomicUsize::new(0),
            log,
            allocator: SpinMutex::new(Allocator::new(max_pages)),
            renew: OnceLock::new(),
            counts,
        })
    }

    /// What to say when the system gave addresses for fewer pages than the pool was to have: the database cannot grow as
    /// large.
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

    /// No more huge pages: from now on pages leave, and giving back a part of a huge page frees nothing else of it.
    pub(crate) fn shrink_pages(&self) {
        if self.huge.load(Ordering::Relaxed) && self.huge.swap(false, Ordering::Relaxed) {
            self.region.refuse_huge_pages();
        }
    }

    /// Has the system back the pages that will be given out next, where they lie in huge pages: the first touch of one costs
    /// a worker hundreds of microseconds. A sixteenth of what is in use, and never more than the pool may hold.
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

    /// Has the system back all the pages that the pool may hold, unless pages come and go.
    pub fn back_all(&self) {
        if self.huge.load(Ordering::Relaxed) {
            self.region.back(0, self.slots.len() * PAGE_SIZE);
            self.backed.store(self.slots.len(), Ordering::Relaxed);
        }
    }

    /// From now on pages are brought up to date by `renew` as they are read in. To be given once, before any page is
    /// touched.
    ///
    /// # Panics
    /// When it was given already.
    pub fn renew_by(&self, renew: Arc<dyn Renew>) {
        assert!(self.renew.set(renew).is_ok(), "pages are renewed in one way");
    }

    /// Page `id` is in memory, and as it should be.
    pub(crate) fn renewed(&self, id: PageId) {
        if let Some(renew) = self.renew.get() {
            renew.renewed(id);
        }
    }

    /// Page `id`'s word. Callers have checked the number, or have it from a slot.
    #[inline]
    pub(crate) fn latch(&self, id: PageId) -> &PageLatch {
        debug_assert!(id.0 < self.max_pages);
        // SAFETY: there is a word for each page below `max_pages`; zeroed memory is an absent page's latch; the
        // memory lives as long as the pool and is only ever used as latches, which are atomics.
        unsafe { &*self.words.start().cast::<PageLatch>().add(id.0 as usize) }
    }

    #[inline]
    pub(crate) fn page(&self, id: PageId) -> NonNull<Page> {
        debug_assert!(id.0 < self.max_pages);
        // SAFETY: the region has room for `max_pages` pages, so the address is inside it and not null.
        unsafe { NonNull::new_unchecked(self.region.start().cast::<Page>().add(id.0 as usize)) }
    }

    #[cold]
    fn out_of_range(&self, page: PageId) -> PageFault {
        PageFault::Range { page, max_pages: self.max_pages }
    }

    /// Whether there can be a page `id`.
    ///
    /// # Errors
    /// [`PageFault::Range`] when not.
    #[inline]
    pub fn check(&self, id: PageId) -> Result<(), PageFault> {
        // Page 0 wraps to the largest number: one comparison.
        if id.0.wrapping_sub(1) < self.max_pages - 1 { Ok(()) } else { Err(self.out_of_range(id)) }
    }

    /// Whether readers under this policy look at pages that they do not hold.
    #[inline]
    pub fn views<L: LatchPolicy>(&self) -> bool {
        L::VIEWS && (!L::LATCHED || self.latching == Latching::Optimistic)
    }

    /// Page `id` for reading.
    ///
    /// # Errors
    /// See [`Stop`]; nothing was changed.
    #[inline]
    pub fn shared<L: LatchPolicy>(&self, id: PageId) -> Result<PageRef<'_, L>, Stop> {
        self.check(id)?;
        let latch = self.latch(id);
        let latching = latch_begins::<L>(latch);
        match L::shared(latch, &self.owner) {
            Ok(version) => {
                // SAFETY: the latch was taken just now, under this policy.
                let page = unsafe { PageRef::new(latch, self.page(id), id, version) };
                visited(latching, &page, id);
                Ok(page)
            }
            Err(refused) => Err(not_taken(latching, refused, id)),
        }
    }

    /// Page `id` for changing.
    ///
    /// # Errors
    /// See [`Stop`]; nothing was changed.
    #[inline(always)] // a call gives the page through memory
    pub fn exclusive<L: LatchPolicy>(&self, id: PageId) -> Result<PageMut<'_, L>, Stop> {
        self.check(id)?;
        let latch = self.latch(id);
        let latching = latch_begins::<L>(latch);
        match L::exclusive(latch, &self.owner) {
            Ok(version) => {
                // SAFETY: the latch was taken just now, under this policy.
                let page = unsafe { PageMut::new(latch, self.page(id), id, version) };
                visited(latching, &page, id);
                Ok(page)
            }
            Err(refused) => Err(not_taken(latching, refused, id)),
        }
    }

    /// Page `id`, which the caller has allocated, zeroed and for changing. May evict another page, with I/O.
    ///
    /// # Errors
    /// [`Stop::NoSpace`] when every frame is in use, or as [`Pool::exclusive`].
    pub fn fresh<L: LatchPolicy>(&self, id: PageId) -> Result<PageMut<'_, L>, Stop> {
        self.check(id)?;
        self.owner.check();
        let mut backoff = Backoff::new();
        loop {
            if self.latch(id).look().resident() {
                match self.exclusive::<L>(id) {
                    Err(Stop::Page(_)) => {}
                    taken => {
                        let mut page = taken?;
                        page.clear();
                        return Ok(page);
                    }
                }
            } else if let Some(version) = self.begin_fresh(id)? {
                let latch = self.latch(id);
                // SAFETY: the loader holds the exclusive latch and hands it over; every policy lets go of it alike.
                let mut page = unsafe { PageMut::new(latch, self.page(id), id, version) };
                page.clear();
                return Ok(page);
            }
            // It may be one that someone reads.
            self.turn();
            backoff.wait();
        }
    }

    /// Makes page `id` resident as it is, held exclusively, and gives its version; `None` when someone else was faster.
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

    /// Whether page `id` is in memory, unlocked for changes, and as it was at `version`.
    #[inline]
    pub fn version_unchanged(&self, id: PageId, version: u64) -> bool {
        if self.check(id).is_err() {
            return false;
        }
        let seen = self.latch(id).look();
        seen.resident() && !seen.exclusive() && seen.version() == version
    }

    /// A page number nobody uses. Its bytes are what they were: begin with [`Pool::fresh`]. Whoever writes the log says
    /// [`Pool::claimed`] once it has the record that gives the page its content.
    ///
    /// # Errors
    /// [`Stop::NoSpace`] when all `max_pages` are in use.
    pub fn allocate(&self) -> Result<PageId, Stop> {
        probe::enter(Section::PageSpace);
        let id = self.allocator.lock().take().ok_or(Stop::NoSpace)?;
        probe::count(probe::Counter::AllocatedPages);
        Ok(id)
    }

    /// Page `id` is not in use any more, and nobody's.
    pub fn free(&self, id: PageId) {
        self.give_up(id);
        probe::enter(Section::PageSpace);
        self.allocator.lock().give(id);
    }

    /// The log has the record that gives page `id`, which was allocated, its first content: from now on
    /// [`Pool::logged_allocator`] counts it as used. Called while the page is held.
    pub fn claimed(&self, id: PageId) {
        self.allocator.lock().claimed(id);
    }

    /// The log has the record that frees page `id`: from now on [`Pool::logged_allocator`] counts it as free, though nobody
    /// gets it before [`Pool::free`]. Called while the page is held.
    pub fn released(&self, id: PageId) {
        self.allocator.lock().released(id);
    }

    /// Whether the log says that page `id` is in use.
    pub fn uses(&self, id: PageId) -> bool {
        self.allocator.lock().uses(id)
    }

    /// Page `id` is in use, whatever the allocator thought: for replaying the log.
    ///
    /// # Errors
    /// [`Stop::Fault`] when there can be no such page.
    pub fn reserve(&self, id: PageId) -> Result<(), Stop> {
        self.check(id)?;
        self.allocator.lock().reserve(id);
        Ok(())
    }

    /// Which pages the log says are in use, for a checkpoint.
    pub fn logged_allocator(&self) -> AllocatorState {
        self.allocator.lock().logged()
    }

    /// Which pages can be had.
    pub fn allocator(&self) -> AllocatorState {
        self.allocator.lock().state()
    }

    /// From now on these pages can be had.
    ///
    /// # Errors
    /// [`PageFault::Range`]: it speaks of a page that there cannot be. Nothing was changed.
    pub fn restore_allocator(&self, state: &AllocatorState) -> Result<(), PageFault> {
        let beyond = state.free.iter().find(|page| page.0 >= state.next.0);
        let end = Some(&state.next).filter(|next| next.0 > self.max_pages);
        if let Some(page) = beyond.or(end) {
            return Err(self.out_of_range(*page));
        }
        state.free.iter().try_for_each(|page| self.check(*page))?;
        self.allocator.lock().restore(state);
        Ok(())
    }

    /// Who owns the pages when they are touched under [`latch::Owned`]; the serial worker claims it.
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

    /// Pages that can be in memory at the same time.
    pub fn frames(&self) -> usize {
        self.slots.len()
    }

    /// The pages' addresses, for binding them to a NUMA node: first byte and length in bytes.
    pub fn region(&self) -> (*mut u8, usize) {
        (self.region.start(), self.region.bytes())
    }

    /// How the pool reaches its device and its memory. Reads a system file: not for every second.
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

/// Takes or leaves a page's latch. What an owned page has instead is none.
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

/// Opens the data file and the doublewrite area, and repairs the one from the other; gives the pages repaired.
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
