//! Shared by the tests: a pool in memory, journals, and random numbers from a seed.

use crate::{Journal, PageUse, TreeRole, each_page, redo, undo};
use base::{Lsn, PageId, TableId};
use pages::{Coupled, Pool, PoolOptions, Stop};
use std::path::Path;
use std::sync::Arc;
use wal::{CLR, Durability, Log, LogOptions, LogOrder, RecordHeader};
use world::memory;

pub(crate) const TABLE: TableId = TableId(7);

/// A record as [`Recorder`] keeps it.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) header: RecordHeader,
    pub(crate) lsn: Lsn,
    pub(crate) body: Vec<u8>,
    undoable: bool,
}

/// A journal that appends to a log in memory, to get LSNs, and keeps every record.
pub(crate) struct Recorder {
    log: Arc<Log>,
    pub(crate) kept: Vec<Kept>,
    compensating: bool,
    pub(crate) worker: usize,
}

impl Recorder {
    pub(crate) fn new(pool: &Pool) -> Recorder {
        Recorder { log: pool.log().clone(), kept: Vec::new(), compensating: false, worker: 0 }
    }

    fn keep(&mut self, kind: u8, order: LogOrder, body: &[&[u8]], undoable: bool) -> Lsn {
        let flags = if self.compensating && undoable { CLR } else { 0 };
        let header = RecordHeader { kind, flags, ..RecordHeader::default() };
        let lsn = self.log.append(&header, order, body).end;
        self.kept.push(Kept { header, lsn, body: body.concat(), undoable });
        lsn
    }

    /// Makes this journal's log as long as `other`'s, so that new records are younger than copies
    /// of records from `other`.
    pub(crate) fn log_after(&self, other: &Recorder) {
        while self.log.end() < other.log.end() {
            self.log.append(&RecordHeader::default(), LogOrder::Last, &[&[0; 1000]]);
        }
    }

    /// Undoes the undoable records from number `from` on, youngest first; the journal keeps the
    /// compensation records.
    pub(crate) fn roll_back(&mut self, pool: &Pool, root: Option<PageId>, from: usize) {
        let records = self.kept[from..].to_vec();
        self.compensating = true;
        for kept in records.iter().rev().filter(|k| k.undoable) {
            let tree = |id| root.map(|root| (crate::BTree::open(pool, root, id), TreeRole::Primary));
            settle(pool, || undo::<Coupled>(pool, self, &tree, &kept.header, &kept.body));
        }
        self.compensating = false;
    }
}

impl Journal for Recorder {
    fn undoable(&mut self, kind: u8, after: Lsn, body: &[&[u8]]) -> Lsn {
        self.keep(kind, LogOrder::After(after), body, true)
    }
    fn system(&mut self, kind: u8, order: LogOrder, body: &[&[u8]]) -> Lsn {
        self.keep(kind, order, body, false)
    }
    fn worker(&self) -> usize {
        self.worker
    }
}

pub(crate) fn pool(frames: usize) -> Pool {
    pool_logging(frames, LogOptions::new(Durability::Memory))
}

/// A pool of which the log takes records of up to a quarter of `buffer_bytes`.
pub(crate) fn pool_with_short_records(frames: usize, buffer_bytes: usize) -> Pool {
    pool_logging(frames, LogOptions { buffer_bytes, ..LogOptions::new(Durability::Memory) })
}

fn pool_logging(frames: usize, options: LogOptions) -> Pool {
    let log = Log::open(memory(), Path::new("log"), options).expect("a memory log");
    let options = PoolOptions { max_pages: 1 << 16, ..PoolOptions::new(frames) };
    Pool::open(memory(), Path::new("data"), options, Arc::new(log)).expect("a pool in memory")
}

/// Calls `f`, and loads pages for it, until it no longer stops for a page or a latch, as the layer
/// above does.
pub(crate) fn settle<T>(pool: &Pool, f: impl FnMut() -> Result<T, Stop>) -> T {
    try_settle(pool, f).unwrap_or_else(|stop| panic!("{stop}"))
}

pub(crate) fn try_settle<T>(pool: &Pool, mut f: impl FnMut() -> Result<T, Stop>) -> Result<T, Stop> {
    loop {
        match f() {
            Err(Stop::Page(id)) => pool.load(id)?,
            Err(Stop::Again) => std::thread::yield_now(),
            done => return done,
        }
    }
}

/// A new pool into which all records are replayed, each twice; its allocator follows the records
/// too.
pub(crate) fn replay(kept: &[Kept]) -> Pool {
    let to = pool(4096);
    for kept in kept {
        for _ in 0..2 {
            settle(&to, || redo(&to, &kept.header, kept.lsn, &kept.body));
        }
        let well_formed = each_page(kept.header.kind, &kept.body, |page, used| match used {
            PageUse::Changed => {}
            PageUse::Formatted | PageUse::Taken => to.reserve(page).expect("a page the original had"),
            PageUse::Freed | PageUse::Emptied => to.free(page),
        });
        assert!(well_formed);
    }
    to
}

/// Asserts that pages 1 to `count` are equal byte for byte, except checksum and page number, which
/// the pool sets.
pub(crate) fn assert_same_pages(a: &Pool, b: &Pool, count: u32) {
    for id in (1..=count).map(PageId) {
        let one = settle(a, || Ok(*a.shared::<Coupled>(id)?.bytes()));
        let two = settle(b, || Ok(*b.shared::<Coupled>(id)?.bytes()));
        let differ = (4..one.len()).filter(|i| !(16..20).contains(i)).find(|&i| one[i] != two[i]);
        assert_eq!(differ, None, "{id:?} differs at this byte after replay");
    }
}

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// A journal that returns LSNs and keeps no records, so that each thread can have its own.
pub(crate) struct Forgetful {
    log: Arc<Log>,
    worker: usize,
}

impl Forgetful {
    pub(crate) fn new(pool: &Pool, worker: usize) -> Forgetful {
        Forgetful { log: pool.log().clone(), worker }
    }
}

impl Journal for Forgetful {
    fn undoable(&mut self, kind: u8, after: Lsn, body: &[&[u8]]) -> Lsn {
        self.system(kind, LogOrder::After(after), body)
    }
    fn system(&mut self, kind: u8, order: LogOrder, body: &[&[u8]]) -> Lsn {
        self.log.append(&RecordHeader { kind, ..RecordHeader::default() }, order, body).end
    }
    fn worker(&self) -> usize {
        self.worker
    }
}
