//! Repeating the log's changes to pages: each page's when the page is first read, whoever wants it.
//!
//! ```text
//!   log ──one pass──> kept in memory ─────────────┐
//!           └───────> (page, where its record lies) ──sorted by page──> page read in: its records repeated, dirty
//!                                                                          ^                ^
//!                                                                 a transaction    whoever drains (workers between
//!                                                                                  transactions, a checkpoint)
//! ```
//!
//! Redo is physiological: what a record does to one page depends on that page and the record alone, and a record
//! that changes several pages (a structure modification) changes each of them by itself. So pages may be brought up to
//! date one by one, in any order, as long as each sees its own records in log order. Nothing of a database has to be
//! read before it is open but what rolling losers back touches (instant restart by on-demand redo: Graefe, Guy and
//! Sauer, "Instant Recovery with Write-Ahead Logging", 2nd ed., chapter 4).
//!
//! Records are not copied. The pass writes eight bytes for each page that a record changes, one behind the other; they are
//! sorted by page at its end, a byte of the page number at a time, which leaves a page's records in log order. A page's
//! records lie anywhere in the log, so they are fetched side by side before the first is repeated.
//!
//! Who may do what: restart alone adds records, before any page is touched or between two complete drains. From then on
//! the records stand still, readers of pages look their pages up, and a page is crossed off once it is in memory
//! and dirty. A checkpoint first has everything crossed off ([`Store::finish_redo`]), so it never passes a page that
//! still waits; a crash before that finds the log as it was.
//!
//! Memory: the log as it lies in its files, at most four times what is logged between two checkpoints; a longer log is
//! repeated while it is read, each time so much has come together, and nothing of it is left to first touch (a page that is
//! in memory already is not read again).

use crate::StoreFault;
use crate::open::{Store, held};
use access::redo_page;
use base::{Lsn, PageId};
use latch::Coupled;
use pages::{Page, PageFault, Renew, Renewed, Stop};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use wal::Stretch;

/// Bytes of log kept for pages that nobody wanted yet, whatever the options say: places in it are 32 bits, of
/// [`GRAIN`] bytes each.
pub(crate) const MOST: u64 = 1 << 34;
/// Records start at multiples of this.
const GRAIN: u64 = 8;
/// Pages being read for a thread that waits for all of them.
const DEPTH: usize = 512;
/// Pages being read beside transactions: enough to keep a device busy, few enough that a transaction's own read does
/// not stand in a long line.
const BESIDE: usize = 16;
/// Records of a page that are fetched side by side.
const ABREAST: usize = 32;

/// What the pass over the log leaves: which record changes which page, in log order.
#[derive(Default)]
pub(crate) struct History {
    changes: Vec<Change>,
    /// Where the first one lies.
    start: u64,
    last_page: u32,
}

#[derive(Clone, Copy, Default)]
struct Change {
    page: u32,
    /// Where the record starts, in [`GRAIN`]s from the history's start.
    place: u32,
}

impl History {
    /// Notes that the record which starts at `start` changes `page`; called in log order.
    #[inline]
    pub fn add(&mut self, page: PageId, start: Lsn) {
        if self.changes.is_empty() {
            self.start = start.0;
        }
        self.last_page = self.last_page.max(page.0);
        self.changes.push(Change { page: page.0, place: ((start.0 - self.start) / GRAIN) as u32 });
    }

    /// By page, each page's in log order: sorted by one byte of the page number after the other, from the lowest.
    fn by_page(mut self) -> Vec<Change> {
        let mut sorted = vec![Change::default(); self.changes.len()];
        for shift in (0..u32::BITS - self.last_page.leading_zeros()).step_by(8) {
            let digit = |change: &Change| (change.page >> shift) as usize & 255;
            let mut next = [0usize; 257];
            self.changes.iter().for_each(|change| next[digit(change) + 1] += 1);
            (0..256).for_each(|n| next[n + 1] += next[n]);
            for change in &self.changes {
                let at = &mut next[digit(change)];
                sorted[*at] = *change;
                *at += 1;
            }
            std::mem::swap(&mut self.changes, &mut sorted);
        }
        self.changes
    }
}

/// What is still to be repeated.
#[derive(Default)]
pub(crate) struct Redo {
    /// Pages not crossed off, for a look without the lock.
    left: AtomicUsize,
    waiting: Mutex<Arc<Waiting>>,
}

/// Records by page; stands still but for what is atomic.
#[derive(Default)]
struct Waiting {
    log: Stretch,
    /// What places are counted from.
    start: u64,
    /// In the file's order, each with where its places begin.
    pages: Vec<(u32, u32)>,
    places: Vec<u32>,
    /// A bit for each page that is crossed off.
    done: Vec<AtomicU64>,
    /// The page that a drain comes to next.
    next: AtomicUsize,
}

impl Waiting {
    fn new(history: History, log: Stretch) -> Waiting {
        let start = history.start;
        let (mut pages, mut places) = (Vec::new(), Vec::with_capacity(history.changes.len()));
        for Change { page, place } in history.by_page() {
            if pages.last().is_none_or(|&(last, _)| last != page) {
                pages.push((page, places.len() as u32));
            }
            places.push(place);
        }
        let done = (0..pages.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Waiting { log, start, pages, places, done, next: AtomicUsize::new(0) }
    }

    fn find(&self, page: PageId) -> Option<usize> {
        self.pages.binary_search_by_key(&page.0, |&(page, _)| page).ok()
    }

    fn is_done(&self, at: usize) -> bool {
        self.done[at / 64].load(Ordering::Acquire) >> (at % 64) & 1 == 1
    }

    /// Crosses a page off; `true` the first time.
    fn finish(&self, at: usize) -> bool {
        let bit = 1 << (at % 64);
        self.done[at / 64].fetch_or(bit, Ordering::AcqRel) & bit == 0
    }

    fn places(&self, at: usize) -> &[u32] {
        let end = self.pages.get(at + 1).map_or(self.places.len(), |&(_, start)| start as usize);
        &self.places[self.pages[at].1 as usize..end]
    }

    /// Starts of the records for the `at`-th page, in log order.
    #[cfg(test)]
    fn starts(&self, at: usize) -> Vec<u64> {
        self.places(at).iter().map(|&place| self.lsn(place).0).collect()
    }

    fn lsn(&self, place: u32) -> Lsn {
        Lsn(self.start + u64::from(place) * GRAIN)
    }

    /// Repeats on the `at`-th page, `page`, what it does not carry.
    fn repeat(&self, at: usize, id: PageId, page: &mut Page) -> Result<(), PageFault> {
        for places in self.places(at).chunks(ABREAST) {
            // One independent load each, so that the waits for memory overlap.
            std::hint::black_box(places.iter().fold(0, |all, &place| all ^ self.log.peek(self.lsn(place))));
            for &place in places {
                let (kind, end, body) = self.log.record(self.lsn(place));
                redo_page(id, page, kind, end, body)?;
            }
        }
        Ok(())
    }
}

impl Redo {
    /// These pages are to be brought up to date from now on. Nothing else may be left.
    fn set(&self, waiting: Waiting) {
        let left = waiting.pages.len();
        *held(&self.waiting) = Arc::new(waiting);
        self.left.store(left, Ordering::Release);
    }

    /// Pages not yet brought up to date.
    #[inline]
    pub fn left(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    fn waiting(&self) -> Arc<Waiting> {
        held(&self.waiting).clone()
    }

    fn waits(&self, page: PageId) -> bool {
        let waiting = self.waiting();
        waiting.find(page).is_some_and(|at| !waiting.is_done(at))
    }

    /// Whether pages wait that no drain has come to.
    pub fn draining(&self) -> bool {
        self.left() > 0 && {
            let waiting = self.waiting();
            waiting.next.load(Ordering::Relaxed) < waiting.pages.len()
        }
    }

    /// The next pages in the file's order that wait, at most `most`.
    fn next(&self, most: usize) -> Vec<PageId> {
        let waiting = self.waiting();
        let mut found = Vec::with_capacity(most);
        while found.len() < most {
            let at = waiting.next.fetch_add(1, Ordering::Relaxed);
            let Some(&(page, _)) = waiting.pages.get(at) else {
                // Not counted on: it would wrap, one day.
                waiting.next.store(waiting.pages.len(), Ordering::Relaxed);
                break;
            };
            if !waiting.is_done(at) {
                found.push(PageId(page));
            }
        }
        found
    }

    /// All pages that still wait.
    fn rest(&self) -> Vec<PageId> {
        let waiting = self.waiting();
        let left = waiting.pages.iter().enumerate().filter(|(at, _)| !waiting.is_done(*at));
        left.map(|(_, &(page, _))| PageId(page)).collect()
    }
}

impl Renew for Redo {
    fn renew(&self, id: PageId, page: &mut Page) -> Result<Renewed, PageFault> {
        if self.left() == 0 {
            return Ok(Renewed::AsItWas);
        }
        let waiting = self.waiting();
        let Some(at) = waiting.find(id).filter(|&at| !waiting.is_done(at)) else {
            return Ok(Renewed::AsItWas);
        };
        waiting.repeat(at, id, page)?;
        // Also a page that carried everything, but perhaps only in the kernel's cache: when a sync failed, the last
        // process died of it, and the kernel shows what never came to the device and counts it as written. So it is
        // written again.
        Ok(Renewed::Changed)
    }

    fn renewed(&self, id: PageId) {
        if self.left() == 0 {
            return;
        }
        let waiting = self.waiting();
        if waiting.find(id).is_some_and(|at| waiting.finish(at))
            && self.left.fetch_sub(1, Ordering::AcqRel) == 1
        {
            *held(&self.waiting) = Arc::default();
        }
    }
}

impl Store {
    /// Pages that a restart has left to be brought up to date when they are read. Until there is none no checkpoint can be
    /// taken, and a crash has the next restart begin where this one did.
    #[inline]
    pub fn redo_left(&self) -> usize {
        self.redo.left()
    }

    /// A slice of bringing pages up to date that nobody has asked for: has some of them read, in the order of the file,
    /// unless enough reads are under way. Never waits; `true` when a read has begun. For workers between transactions, which call
    /// [`pages::Pool::turn`] besides; costs one load once nothing is left.
    #[inline]
    pub fn redo_some(&self) -> bool {
        self.redo.left() > 0 && self.redo_beside()
    }

    #[cold]
    fn redo_beside(&self) -> bool {
        let most = BESIDE.saturating_sub(self.pool.reading());
        // Where no frame is free the page is passed over: the checkpoint, which waits for frames, comes for it.
        self.pool.prefetch_all(&self.redo.next(most)) > 0
    }

    /// From now on pages are brought up to date by `history`, whose records lie in `log`.
    pub(crate) fn repeat_later(&self, history: History, log: Stretch) {
        self.redo.set(Waiting::new(history, log));
    }

    /// Brings every page up to date. Blocks; transactions go on meanwhile, but where pages have an owner it alone may call
    /// this. A checkpoint does it first.
    ///
    /// # Errors
    /// A page that cannot be read or does not fit its records: the store is poisoned from now on.
    pub fn finish_redo(&self) -> Result<(), StoreFault> {
        let depth = DEPTH.min(self.pool.frames() / 8).max(1);
        let (mut now, mut ahead) = (Vec::new(), self.redo.next(depth));
        while !(now.is_empty() && ahead.is_empty()) {
            self.pool.prefetch_all(&ahead);
            now.drain(..).try_for_each(|page| self.repeat_now(page))?;
            now = std::mem::replace(&mut ahead, self.redo.next(depth));
        }
        // Others may be in the middle of some, or have met a fault.
        while self.redo.left() > 0 {
            self.redo.rest().into_iter().try_for_each(|page| self.repeat_now(page))?;
        }
        Ok(())
    }

    /// Has page `id` read; and brings it up to date where it is, if it was in memory before its records came, as happens
    /// with a log too long to be read in one go.
    fn repeat_now(&self, id: PageId) -> Result<(), StoreFault> {
        while self.redo.waits(id) {
            self.load_page(id)?;
            match self.pool.exclusive::<Coupled>(id) {
                Ok(mut page) => {
                    self.redo.renew(id, &mut page).map_err(|why| self.unreadable(why))?;
                    self.redo.renewed(id);
                }
                Err(Stop::Fault(why)) => return Err(self.unreadable((*why).clone())),
                Err(_) => std::thread::yield_now(),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_keeps_its_records_in_log_order() {
        for pages in [1u64, 23, 300, 70_000, 20_000_000] {
            let mut history = History::default();
            let all: Vec<(u32, u64)> =
                (1..6000u64).map(|n| ((n * n * 7919 % pages) as u32 + 1, 4096 + n * 40)).collect();
            all.iter().for_each(|&(page, start)| history.add(PageId(page), Lsn(start)));
            let waiting = Waiting::new(history, Stretch::default());
            assert!(waiting.pages.is_sorted_by_key(|&(page, _)| page));
            for &(page, _) in &waiting.pages {
                let at = waiting.find(PageId(page)).unwrap();
                let expected: Vec<u64> = all.iter().filter(|(p, _)| *p == page).map(|(_, n)| *n).collect();
                assert_eq!(waiting.starts(at), expected, "page {page} of {pages}");
            }
            assert_eq!(waiting.places.len(), all.len());
            assert_eq!(waiting.find(PageId(0)), None);
        }
    }

    #[test]
    fn a_page_is_crossed_off_once_and_the_last_lets_the_log_go() {
        let redo = Redo::default();
        let mut history = History::default();
        (0..130).for_each(|n| history.add(PageId(n % 100 + 1), Lsn(64 + u64::from(n) * 8)));
        redo.set(Waiting::new(history, Stretch::default()));
        assert_eq!((redo.left(), redo.next(60).len(), redo.next(60).len()), (100, 60, 40));
        assert!(redo.next(60).is_empty() && !redo.draining());
        for n in 1..=100 {
            assert!(redo.waits(PageId(n)) && redo.rest().len() == 101 - n as usize);
            redo.renewed(PageId(n));
            redo.renewed(PageId(n));
            redo.renewed(PageId(n + 200));
            assert!(!redo.waits(PageId(n)));
            assert_eq!(redo.left(), 100 - n as usize);
        }
        assert!(redo.waiting().pages.is_empty());
    }
}
