//! Redo on demand: the log's changes to a page are repeated when the page is first read.
//!
//! ```text
//!   log --one pass--> kept in memory -----------------------+
//!           +-------> (page, position of record), sorted    |
//!                     by page --------------------------+   |
//!                                                       v   v
//!      a transaction, or a worker that drains  -->  page read: its records are repeated,
//!      (between transactions, or a checkpoint)      the page is dirty
//! ```
//!
//! Redo is physiological: the effect of a record on one page depends on that page and the record
//! alone. A record that changes several pages (a structure modification) changes each of them
//! independently. So pages may be brought up to date one by one, in any order, as long as each page
//! gets its own records in log order. Before the database is open, only the pages that the rollback
//! of losers touches must be read (instant restart by on-demand redo: Graefe, Guy and Sauer,
//! "Instant Recovery with Write-Ahead Logging", 2nd ed., chapter 4).
//!
//! **Cost.** Records are not copied. The pass appends eight bytes for each page that a record
//! changes. At its end these are sorted by page with a radix sort, one byte of the page number at a
//! time, which keeps a page's records in log order. The records of a page lie anywhere in the log,
//! so they are prefetched together before the first is repeated.
//!
//! Access rules:
//!
//! - Restart alone adds records: before any page is touched, or between two complete drains. After
//!   that the records do not change.
//! - A reader of a page looks the page up here. The page is crossed off once it is in memory and
//!   dirty.
//! - A checkpoint first waits until all pages are crossed off (`Store::finish_redo`), so it never
//!   passes a page that still waits. After a crash before that point, the next restart finds the
//!   same log.
//!
//! **Memory.** The log is kept in the format of its files, at most four times the bytes logged
//! between two checkpoints. A longer log is repeated in portions: each time the limit is reached,
//! all pages are brought up to date, and no page is left for its first read. A page that is in
//! memory already is not read again.

use access::redo_page;
use base::{Lsn, PageId};
use latch::{Rank, RankedMutex};
use pages::{Page, PageFault, Renew, Renewed};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use wal::Stretch;

/// Upper limit for the bytes of log kept, independent of the options: positions in it are 32 bits,
/// in units of [`GRAIN`] bytes.
pub(crate) const MOST: u64 = 1 << 34;
/// Records start at multiples of this many bytes.
const GRAIN: u64 = 8;
/// The number of records of a page that are prefetched together.
const ABREAST: usize = 32;

/// The result of the pass over the log: which record changes which page, in log order.
#[derive(Default)]
pub(crate) struct History {
    changes: Vec<PageRecord>,
    /// The position of the first record.
    start: u64,
    last_page: u32,
}

#[derive(Clone, Copy, Default)]
struct PageRecord {
    page: u32,
    /// The start of the record, in [`GRAIN`]s from the history's start.
    place: u32,
}

impl History {
    /// Notes that the record at `start` changes `page`. Called in log order.
    #[inline]
    pub fn add(&mut self, page: PageId, start: Lsn) {
        if self.changes.is_empty() {
            self.start = start.0;
        }
        self.last_page = self.last_page.max(page.0);
        self.changes.push(PageRecord { page: page.0, place: ((start.0 - self.start) / GRAIN) as u32 });
    }

    /// The changes by page, each page's in log order. A stable radix sort by the bytes of the page
    /// number, lowest first.
    fn by_page(mut self) -> Vec<PageRecord> {
        let mut sorted = vec![PageRecord::default(); self.changes.len()];
        for shift in (0..u32::BITS - self.last_page.leading_zeros()).step_by(8) {
            let digit = |change: &PageRecord| (change.page >> shift) as usize & 255;
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

/// The redo that is left.
pub(crate) struct Redo {
    /// The number of pages not crossed off, readable without the lock.
    left: AtomicUsize,
    waiting: RankedMutex<Arc<Waiting>>,
}

impl Default for Redo {
    fn default() -> Redo {
        Redo { left: AtomicUsize::new(0), waiting: RankedMutex::new(Rank::Redo, Arc::default()) }
    }
}

/// Records by page. Only the atomic fields change.
#[derive(Default)]
struct Waiting {
    log: Stretch,
    /// The log position that `places` are relative to.
    start: u64,
    /// In the order of the file: page number, and the index of its first element in `places`.
    pages: Vec<(u32, u32)>,
    places: Vec<u32>,
    /// One bit for each page: whether it is crossed off.
    done: Vec<AtomicU64>,
    /// The next page for a drain.
    next: AtomicUsize,
}

impl Waiting {
    fn new(history: History, log: Stretch) -> Waiting {
        let start = history.start;
        let (mut pages, mut places) = (Vec::new(), Vec::with_capacity(history.changes.len()));
        for PageRecord { page, place } in history.by_page() {
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

    /// Repeats on the `at`-th page, `page`, the records that it does not contain yet.
    fn repeat(&self, at: usize, id: PageId, page: &mut Page) -> Result<(), PageFault> {
        for places in self.places(at).chunks(ABREAST) {
            // One independent load for each record, so that the cache misses overlap.
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
    /// Sets the redo that is left: `history`, with its records in `log`. No page may be left from
    /// before.
    pub fn repeat_later(&self, history: History, log: Stretch) {
        self.set(Waiting::new(history, log));
    }

    /// Sets the pages to bring up to date. No page may be left from before.
    fn set(&self, waiting: Waiting) {
        let left = waiting.pages.len();
        *self.waiting.lock() = Arc::new(waiting);
        self.left.store(left, Ordering::Release);
    }

    /// Pages not yet brought up to date.
    #[inline]
    pub fn left(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    fn waiting(&self) -> Arc<Waiting> {
        self.waiting.lock().clone()
    }

    pub fn waits(&self, page: PageId) -> bool {
        let waiting = self.waiting();
        waiting.find(page).is_some_and(|at| !waiting.is_done(at))
    }

    /// Whether pages wait that no drain has reached.
    pub fn draining(&self) -> bool {
        self.left() > 0 && {
            let waiting = self.waiting();
            waiting.next.load(Ordering::Relaxed) < waiting.pages.len()
        }
    }

    /// The next waiting pages in the order of the file, at most `most`.
    pub fn next(&self, most: usize) -> Vec<PageId> {
        let waiting = self.waiting();
        let mut found = Vec::with_capacity(most);
        while found.len() < most {
            let at = waiting.next.fetch_add(1, Ordering::Relaxed);
            let Some(&(page, _)) = waiting.pages.get(at) else {
                // The counter stays at the end: if every call increased it, it could wrap.
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
    pub fn rest(&self) -> Vec<PageId> {
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
        // The page counts as changed even if it contained every record, and is written again.
        // Reason: after a failed sync the last process stopped, but the kernel's cache may show
        // data that never reached the device and regard it as written.
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
            *self.waiting.lock() = Arc::default();
        }
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
