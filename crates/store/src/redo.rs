//! Repeating the log's changes to pages: each page's when the page is first read, whoever wants it.
//!
//! ```text
//!   log ──one pass──> records by page ──> page read in: its records repeated, in memory, dirty
//!                        (in memory)        ^                ^
//!                                           a transaction    whoever drains (workers between transactions, a checkpoint)
//! ```
//!
//! Redo is physiological: what a record does to one page depends on that page and the record alone, and a record
//! that changes several pages (a structure modification) changes each of them by itself. So pages may be brought up to
//! date one by one, in any order, as long as each sees its own records in log order. Nothing of a database has to be
//! read before it is open but what rolling losers back touches (instant restart by on-demand redo: Graefe, Guy and
//! Sauer, "Instant Recovery with Write-Ahead Logging", 2nd ed., chapter 4).
//!
//! Who may do what: restart alone adds records, before any page is touched or between two complete drains. From then on
//! the records stand still, readers of pages look their pages up, and a page is crossed off once it is in memory
//! and dirty. A checkpoint first has everything crossed off ([`Store::finish_redo`]), so it never passes a page that
//! still waits; a crash before that finds the log as it was.
//!
//! Memory: the records, packed by page, four times what is logged between two checkpoints; a longer log is repeated while it
//! is read, each time so much has come together, and nothing of it is left to first touch (a page that is in memory
//! already is not read again).

use crate::StoreFault;
use crate::analysis::Spread;
use crate::open::{Store, held};
use access::redo_page;
use base::{Lsn, PageId};
use latch::Coupled;
use pages::{Page, PageFault, Renew, Renewed, Stop};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Bytes of records kept for pages that nobody wanted yet, whatever the options say: places in them are 32 bits.
const MOST: u64 = 1 << 30;
/// Page reads under way for a thread that waits for all of them.
const DEPTH: usize = 128;
/// Page reads under way beside transactions: enough to keep a device busy, few enough that a transaction's own read does
/// not stand in a long line.
const BESIDE: usize = 16;

/// Bytes of a page's first chunk, and what the later ones grow to: a page that is changed often has its records side by
/// side, one that is changed once costs little.
const CHUNK: std::ops::Range<usize> = 128..4096;
/// Before each record: its kind, its body's length, its end.
const FRONT: usize = 13;
/// At the end of each chunk: kind 0 and where the next one begins, 0 if there is none.
const LINK: usize = 5;

/// Records by page, in log order.
///
/// ```text
///   chunk of page 7: kind u8 | length u32 | lsn u64 | body | kind ... | 0 u8 | next chunk u32 | zeros
/// ```
pub(crate) struct History {
    bytes: Vec<u8>,
    chains: Chains,
    most: usize,
}

type Chains = HashMap<u32, Chain, BuildHasherDefault<Spread>>;

/// One page's chunks, as places in the bytes.
#[derive(Clone, Copy, Default)]
struct Chain {
    first: u32,
    /// Where the next record goes, and where the last chunk ends.
    at: u32,
    end: u32,
    /// Bytes of the last chunk.
    chunk: u32,
}

impl History {
    /// A history of at most about `most` bytes, that `expected` bytes of log will be added to.
    pub fn new(expected: u64, most: u64) -> History {
        let most = most.min(MOST) as usize;
        let expected = most.min(usize::try_from(expected).unwrap_or(most));
        // Place 0 means none.
        let mut bytes = Vec::with_capacity(expected + expected / 2 + LINK);
        bytes.resize(LINK, 0);
        History { bytes, chains: Chains::default(), most }
    }

    /// Takes a record in for a page that it changes; `lsn` is its end, which the page bears.
    pub fn add(&mut self, page: PageId, kind: u8, lsn: Lsn, body: &[u8]) {
        let chain = self.chains.entry(page.0).or_default();
        let need = FRONT + body.len() + LINK;
        if (chain.end - chain.at) as usize <= need {
            let size = (chain.chunk as usize * 2).clamp(CHUNK.start, CHUNK.end).max(need + 1);
            let start = self.bytes.len();
            if chain.end == 0 {
                chain.first = start as u32;
            } else {
                self.bytes[chain.at as usize + 1..][..4].copy_from_slice(&(start as u32).to_le_bytes());
            }
            self.bytes.resize(start + size, 0);
            (chain.at, chain.end, chain.chunk) = (start as u32, (start + size) as u32, size as u32);
        }
        let to = &mut self.bytes[chain.at as usize..][..FRONT + body.len()];
        to[0] = kind;
        to[1..5].copy_from_slice(&(body.len() as u32).to_le_bytes());
        to[5..FRONT].copy_from_slice(&lsn.0.to_le_bytes());
        to[FRONT..].copy_from_slice(body);
        chain.at += to.len() as u32;
    }

    /// Whether it has taken as much as it should.
    pub fn full(&self) -> bool {
        self.bytes.len() > self.most
    }
}

/// The records in the chunks from `at` on: kind, end, body.
fn records(bytes: &[u8], first: u32) -> impl Iterator<Item = (u8, Lsn, &[u8])> {
    let mut at = first as usize;
    std::iter::from_fn(move || {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if at != 0 && bytes[at] == 0 {
            at = word(at + 1) as usize;
        }
        if at == 0 {
            return None;
        }
        let lsn = u64::from_le_bytes(bytes[at + 5..at + FRONT].try_into().expect("eight bytes"));
        let (kind, body) = (bytes[at], &bytes[at + FRONT..][..word(at + 1) as usize]);
        at += FRONT + body.len();
        Some((kind, Lsn(lsn), body))
    })
}

/// What is still to be repeated.
#[derive(Default)]
pub(crate) struct Redo {
    /// Pages not crossed off, for a look without the lock.
    left: AtomicUsize,
    waiting: Mutex<Waiting>,
    /// Where a drain is. Locked before `waiting`.
    drain: Mutex<Drain>,
}

#[derive(Default)]
struct Waiting {
    records: Arc<Vec<u8>>,
    /// Pages that are not crossed off.
    pages: Chains,
}

/// All pages in the order of the file.
#[derive(Default)]
struct Drain {
    order: Vec<u32>,
    next: usize,
}

impl Redo {
    /// These pages are to be brought up to date from now on. Nothing else may be left.
    fn set(&self, history: History) {
        let mut drain = held(&self.drain);
        let mut waiting = held(&self.waiting);
        waiting.pages = history.chains;
        waiting.records = Arc::new(history.bytes);
        drain.order = waiting.pages.keys().copied().collect();
        drain.order.sort_unstable();
        drain.next = 0;
        self.left.store(waiting.pages.len(), Ordering::Release);
    }

    /// Pages not yet brought up to date.
    #[inline]
    pub fn left(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    fn waits(&self, page: PageId) -> bool {
        held(&self.waiting).pages.contains_key(&page.0)
    }

    /// Whether pages wait that no drain has come to.
    pub fn draining(&self) -> bool {
        self.left() > 0 && {
            let drain = held(&self.drain);
            drain.next < drain.order.len()
        }
    }

    /// The next pages in the file's order that wait, at most `most`.
    fn next(&self, most: usize) -> Vec<PageId> {
        let mut drain = held(&self.drain);
        let waiting = held(&self.waiting);
        let mut found = Vec::with_capacity(most);
        while found.len() < most
            && let Some(&page) = drain.order.get(drain.next)
        {
            drain.next += 1;
            if waiting.pages.contains_key(&page) {
                found.push(PageId(page));
            }
        }
        found
    }
}

impl Renew for Redo {
    fn renew(&self, id: PageId, page: &mut Page) -> Result<Renewed, PageFault> {
        if self.left() == 0 {
            return Ok(Renewed::AsItWas);
        }
        let waiting = held(&self.waiting);
        let Some(&Chain { first, .. }) = waiting.pages.get(&id.0) else { return Ok(Renewed::AsItWas) };
        let bytes = waiting.records.clone();
        drop(waiting);
        records(&bytes, first).try_for_each(|(kind, lsn, body)| redo_page(id, page, kind, lsn, body))?;
        // Also a page that carried everything, but perhaps only in the kernel's cache: when a sync failed, the last
        // process died of it, and the kernel shows what never came to the device and counts it as written. So it is
        // written again.
        Ok(Renewed::Changed)
    }

    fn renewed(&self, id: PageId) {
        if self.left() == 0 {
            return;
        }
        let mut waiting = held(&self.waiting);
        if waiting.pages.remove(&id.0).is_some() {
            let left = waiting.pages.len();
            if left == 0 {
                *waiting = Waiting::default();
            }
            self.left.store(left, Ordering::Release);
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
        let begun = self.redo.next(most).into_iter().filter(|&page| self.pool.prefetch(page)).count();
        begun > 0
    }

    pub(crate) fn repeat_later(&self, history: History) {
        self.redo.set(history);
    }

    /// Brings every page up to date. Blocks; transactions go on meanwhile, but where pages have an owner it alone may call
    /// this. A checkpoint does it first.
    ///
    /// # Errors
    /// A page that cannot be read or does not fit its records: the store is poisoned from now on.
    pub fn finish_redo(&self) -> Result<(), StoreFault> {
        let (mut now, mut ahead) = (Vec::new(), self.redo.next(DEPTH));
        while !(now.is_empty() && ahead.is_empty()) {
            ahead.iter().for_each(|&page| _ = self.pool.prefetch(page));
            now.drain(..).try_for_each(|page| self.repeat_now(page))?;
            now = std::mem::replace(&mut ahead, self.redo.next(DEPTH));
        }
        // Others may be in the middle of some, or have met a fault.
        while self.redo.left() > 0 {
            let rest: Vec<u32> = held(&self.redo.waiting).pages.keys().copied().collect();
            rest.into_iter().try_for_each(|page| self.repeat_now(PageId(page)))?;
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
        let mut history = History::new(0, 1 << 21);
        let body =
            |n: u64| vec![n as u8; (n * 37 % 300) as usize + if n.is_multiple_of(50) { 9000 } else { 0 }];
        let all: Vec<(u32, u64)> = (1..4000).map(|n: u64| ((n * n % 23) as u32 + 1, n)).collect();
        for &(page, n) in &all {
            history.add(PageId(page), (n % 31) as u8 + 1, Lsn(n), &body(n));
        }
        assert_eq!(history.full(), history.bytes.len() > 1 << 21);
        for (page, chain) in &history.chains {
            let expected: Vec<u64> = all.iter().filter(|(p, _)| p == page).map(|(_, n)| *n).collect();
            let found: Vec<u64> = records(&history.bytes, chain.first)
                .map(|(kind, lsn, found)| {
                    assert_eq!((kind, found), ((lsn.0 % 31) as u8 + 1, &body(lsn.0)[..]));
                    lsn.0
                })
                .collect();
            assert_eq!(found, expected, "page {page}");
        }
    }
}
