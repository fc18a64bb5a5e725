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
//! Memory: the records' bodies, at most [`MOST`] of them; what a longer log has more is repeated while it is read.

use crate::StoreFault;
use crate::analysis::Spread;
use crate::open::{Store, held};
use access::redo_page;
use base::{Lsn, PageId};
use pages::{Page, PageFault, Renew, Renewed};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Bytes of records kept for pages that nobody wanted yet: four times what is logged between two checkpoints.
pub(crate) const MOST: usize = 256 << 20;
/// Page reads under way for a thread that waits for all of them.
const DEPTH: usize = 128;
/// Page reads under way beside transactions: enough to keep a device busy, few enough that a transaction's own read does
/// not stand in a long line.
const BESIDE: usize = 16;

const NONE: u32 = u32::MAX;

/// One record's part in the history of one page.
struct Node {
    lsn: Lsn,
    /// Where its body lies.
    at: u32,
    bytes: u32,
    /// The page's next one.
    next: u32,
    kind: u8,
}

/// Records by page, in log order.
#[derive(Default)]
pub(crate) struct History {
    bodies: Vec<u8>,
    nodes: Vec<Node>,
    /// First and last node of each page.
    chains: HashMap<u32, (u32, u32), BuildHasherDefault<Spread>>,
}

impl History {
    /// Takes a record in; `pages` are those it changes, `lsn` is its end, which they bear.
    pub fn add(&mut self, kind: u8, lsn: Lsn, body: &[u8], pages: &[PageId]) {
        let (at, bytes) = (self.bodies.len() as u32, body.len() as u32);
        self.bodies.extend_from_slice(body);
        for page in pages {
            let node = self.nodes.len() as u32;
            self.nodes.push(Node { lsn, at, bytes, next: NONE, kind });
            let (_, last) = self.chains.entry(page.0).or_insert((node, node));
            if *last != node {
                self.nodes[*last as usize].next = node;
                *last = node;
            }
        }
    }

    /// Whether there is no room for another record of any size.
    pub fn full(&self) -> bool {
        self.bodies.len() + self.nodes.len() * size_of::<Node>() > MOST
    }

    fn repeat(&self, first: u32, id: PageId, page: &mut Page) -> Result<(), PageFault> {
        let mut at = first;
        while let Some(node) = self.nodes.get(at as usize) {
            let body = &self.bodies[node.at as usize..][..node.bytes as usize];
            redo_page(id, page, node.kind, node.lsn, body)?;
            at = node.next;
        }
        Ok(())
    }
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
    history: Arc<History>,
    /// The first node of each page that is not crossed off.
    pages: HashMap<u32, u32, BuildHasherDefault<Spread>>,
}

/// All pages in the order of the file.
#[derive(Default)]
struct Drain {
    order: Vec<u32>,
    next: usize,
}

impl Redo {
    /// These pages are to be brought up to date from now on. Nothing else may be left.
    fn set(&self, mut history: History) {
        let mut drain = held(&self.drain);
        let mut waiting = held(&self.waiting);
        waiting.pages = history.chains.drain().map(|(page, (first, _))| (page, first)).collect();
        waiting.history = Arc::new(history);
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
        let Some(&first) = waiting.pages.get(&id.0) else { return Ok(Renewed::AsItWas) };
        let history = waiting.history.clone();
        drop(waiting);
        history.repeat(first, id, page)?;
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
            now.drain(..).try_for_each(|page| self.load_page(page))?;
            now = std::mem::replace(&mut ahead, self.redo.next(DEPTH));
        }
        // Others may be in the middle of some, or have met a fault.
        while self.redo.left() > 0 {
            let rest: Vec<u32> = held(&self.redo.waiting).pages.keys().copied().collect();
            rest.into_iter().try_for_each(|page| self.load_page(PageId(page)))?;
            std::thread::yield_now();
        }
        Ok(())
    }
}
