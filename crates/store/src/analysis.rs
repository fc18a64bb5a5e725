//! What the log says about transactions, notes and pages in use, read from the last checkpoint on.

use crate::StoreFault;
use crate::control::Checkpoint;
use crate::kind;
use crate::touched::row_of;
use crate::txn::UndoList;
use access::{Kind, PageUse, each_page};
use base::{Lsn, PageId, Rid, TableId, TxnId};
use pages::AllocatorState;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use wal::{RecordHeader, Span};

/// A transaction that has not ended, as far as the log was read.
#[derive(Default)]
pub(crate) struct Open {
    pub first: Lsn,
    pub last: Lsn,
    pub undo: UndoList,
    pub prepared: Option<Vec<u8>>,
}

/// What the pass over the log finds out.
pub(crate) struct Analysis {
    redo_start: Lsn,
    running: BTreeSet<TxnId>,
    pub open: HashMap<TxnId, Open, BuildHasherDefault<Spread>>,
    /// Undo lists of transactions that have ended, to be used again.
    spare: Vec<UndoList>,
    pub notes: BTreeMap<Lsn, Vec<u8>>,
    next_page: u32,
    free: BTreeSet<PageId>,
    /// Rows deleted by committed transactions and not yet purged.
    pub ghosts: BTreeSet<(TableId, Rid)>,
    pub redo_records: u64,
    pub redo_bytes: u64,
}

/// Transaction numbers are handed out in runs: a multiplication spreads them.
#[derive(Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.write_u64(self.0 << 8 | u64::from(b)));
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

impl Analysis {
    pub fn new(checkpoint: &Checkpoint) -> Analysis {
        Analysis {
            redo_start: checkpoint.redo_start,
            running: checkpoint.running.iter().map(|r| r.id).collect(),
            open: HashMap::default(),
            spare: Vec::new(),
            notes: checkpoint.notes.iter().cloned().collect(),
            next_page: checkpoint.next_page.0,
            free: checkpoint.free_pages.iter().copied().collect(),
            ghosts: BTreeSet::new(),
            redo_records: 0,
            redo_bytes: 0,
        }
    }

    /// Takes note of a record; `changed` is given the pages on which it must be repeated.
    ///
    /// # Errors
    /// A record that makes no sense.
    pub fn record(
        &mut self,
        span: Span,
        header: &RecordHeader,
        body: &[u8],
        changed: &mut Vec<PageId>,
    ) -> Result<(), StoreFault> {
        let old = span.start < self.redo_start;
        if !old {
            self.redo_records += 1;
            self.redo_bytes += span.end.0 - span.start.0;
            self.repeat(span, header, body, changed)?;
        }
        if header.txn != TxnId(0) && (!old || self.running.contains(&header.txn)) {
            self.follow(span, header, body);
        }
        Ok(())
    }

    /// Which pages are in use at the end.
    pub fn allocator(&self) -> AllocatorState {
        AllocatorState { next: PageId(self.next_page), free: self.free.iter().copied().collect() }
    }

    fn repeat(
        &mut self,
        span: Span,
        header: &RecordHeader,
        body: &[u8],
        changed: &mut Vec<PageId>,
    ) -> Result<(), StoreFault> {
        let malformed = |what| StoreFault::Record { lsn: span.start, what };
        match header.kind {
            kind::NOTE | kind::NOTED_COMMIT => {
                self.notes.insert(span.end, body.to_vec());
            }
            kind::FORGET => {
                let name = body.try_into().map_err(|_| malformed("it forgets no note"))?;
                self.notes.remove(&Lsn(u64::from_le_bytes(name)));
            }
            kind::COMMIT | kind::END | kind::PREPARE => {}
            kind if kind <= Kind::LAST => return self.pages(span, header, body, changed),
            _ => return Err(malformed("its kind is unknown")),
        }
        Ok(())
    }

    /// Keeps the books of the allocator and of the ghosts.
    fn pages(
        &mut self,
        span: Span,
        header: &RecordHeader,
        body: &[u8],
        changed: &mut Vec<PageId>,
    ) -> Result<(), StoreFault> {
        let (free, next) = (&mut self.free, &mut self.next_page);
        let sound = each_page(header.kind, body, |page, how| {
            if how.changes() {
                changed.push(page);
            }
            match how {
                PageUse::Changed => {}
                PageUse::Formatted | PageUse::Taken => {
                    free.remove(&page);
                    free.extend((*next..page.0).map(PageId));
                    *next = (*next).max(page.0 + 1);
                }
                PageUse::Freed | PageUse::Emptied => drop(free.insert(page)),
            }
        });
        if !sound {
            return Err(StoreFault::Record { lsn: span.start, what: "it changes no page" });
        }
        if header.txn == TxnId(0)
            && Kind::of(header.kind) == Some(Kind::HeapRemove)
            && let Some(ghost) = row_of(header.kind, body)
        {
            self.ghosts.remove(&ghost);
        }
        Ok(())
    }

    /// Keeps the books of the record's transaction.
    fn follow(&mut self, span: Span, header: &RecordHeader, body: &[u8]) {
        let spare = &mut self.spare;
        let new = || Open { first: span.start, undo: spare.pop().unwrap_or_default(), ..Open::default() };
        let open = self.open.entry(header.txn).or_insert_with(new);
        open.last = span.start;
        match header.kind {
            kind::COMMIT | kind::NOTED_COMMIT => {
                let Some(ended) = self.open.remove(&header.txn) else { return };
                let deleted = ended.undo.iter().filter(|(e, _)| Kind::of(e.kind) == Some(Kind::HeapDelete));
                self.ghosts.extend(deleted.filter_map(|(e, body)| row_of(e.kind, body)));
                self.reuse(ended);
            }
            kind::END => {
                if let Some(ended) = self.open.remove(&header.txn) {
                    self.reuse(ended);
                }
            }
            kind::PREPARE => open.prepared = Some(body.to_vec()),
            _ if header.is_clr() => {
                // Whoever compensates after a prepare knows that the decision was to abort.
                open.prepared = None;
                open.undo.undone_down_to(header.undo_next);
            }
            kind => open.undo.push(kind, span.start, header.prev, &[body]),
        }
    }

    fn reuse(&mut self, mut ended: Open) {
        ended.undo.clear();
        self.spare.push(ended.undo);
    }
}
