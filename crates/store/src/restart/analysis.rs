//! Analysis (the first phase of restart): the transactions, notes and pages in use, read from the
//! log since the last checkpoint.
//!
//! One pass over the log determines the transactions that are open at its end. The records of those
//! are then read again ([`Analysis::collect`]), from the oldest first record on. That part is short
//! unless a transaction was long.

use crate::StoreFault;
use crate::kind::{self, Joint};
use crate::state::control::Checkpoint;
use crate::txn::chain::UndoList;
use crate::txn::touched::row_of;
use access::{Kind, PageUse, each_page};
use base::{Lsn, PageId, Rid, TableId, TxnId};
use pages::AllocatorState;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use wal::{RecordHeader, Span};

/// The prepare record of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    /// The branch that the record names first. Branches with the same leader were prepared
    /// together.
    pub leader: TxnId,
    pub note: Vec<u8>,
}

/// A transaction that has not ended, as far as the log was read.
#[derive(Default)]
pub(crate) struct Open {
    pub first: Lsn,
    pub prepared: Option<Prepared>,
    /// Deleted rows, each with the start of its deletion record. Compensated deletions are taken
    /// out.
    deleted: Vec<(Lsn, (TableId, Rid))>,
    /// The records to undo, and the last record. Both are known only after the log was read again
    /// for the transactions that are still open ([`Analysis::collect`]).
    pub undo: UndoList,
    pub last: Lsn,
}

/// The result of the pass over the log.
///
/// Nearly all transactions in the log have ended by its end. So the pass keeps of each only the
/// facts that its end may need: a record that is neither a transaction's first or last nor a
/// deletion costs no look-up.
pub(crate) struct Analysis {
    redo_start: Lsn,
    running: BTreeSet<TxnId>,
    pub open: HashMap<TxnId, Open, BuildHasherDefault<Spread>>,
    pub notes: BTreeMap<Lsn, Vec<u8>>,
    next_page: u32,
    free: BTreeSet<PageId>,
    /// Rows that committed transactions deleted and that are not purged yet.
    pub ghosts: BTreeSet<(TableId, Rid)>,
    pub redo_records: u64,
    pub redo_bytes: u64,
}

/// A hasher for transaction numbers: they are handed out in consecutive runs, and a multiplication
/// spreads them.
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
        let open = |first| Open { first, ..Open::default() };
        Analysis {
            redo_start: checkpoint.redo_start,
            running: checkpoint.running.iter().map(|r| r.id).collect(),
            open: checkpoint.running.iter().map(|r| (r.id, open(r.first))).collect(),
            notes: checkpoint.notes.iter().cloned().collect(),
            next_page: checkpoint.next_page.0,
            free: checkpoint.free_pages.iter().copied().collect(),
            ghosts: BTreeSet::new(),
            redo_records: 0,
            redo_bytes: 0,
        }
    }

    /// Processes a record. `meet` is called for every page that the record names, before the
    /// allocator's state is changed; it refuses page numbers that cannot exist. If
    /// [`PageUse::changes`], redo must repeat the record on that page.
    ///
    /// # Errors
    /// A malformed record, or an error of `meet`.
    #[inline]
    pub fn record(
        &mut self,
        span: Span,
        header: &RecordHeader,
        body: &[u8],
        meet: impl FnMut(PageId, PageUse) -> Result<(), StoreFault>,
    ) -> Result<(), StoreFault> {
        let old = span.start < self.redo_start;
        if !old {
            self.redo_records += 1;
            self.redo_bytes += span.end.0 - span.start.0;
            self.repeat(span, header, body, meet)?;
        }
        if header.txn != TxnId(0) && (!old || self.running.contains(&header.txn)) {
            self.follow(span, header, body);
        }
        Ok(())
    }

    /// The allocator's state at the end of the log.
    pub fn allocator(&self) -> AllocatorState {
        AllocatorState { next: PageId(self.next_page), free: self.free.iter().copied().collect() }
    }

    #[inline]
    fn repeat(
        &mut self,
        span: Span,
        header: &RecordHeader,
        body: &[u8],
        meet: impl FnMut(PageId, PageUse) -> Result<(), StoreFault>,
    ) -> Result<(), StoreFault> {
        match header.kind {
            kind if kind <= Kind::LAST => self.pages(span, header, body, meet),
            kind::COMMIT | kind::END | kind::PREPARE => Ok(()),
            kind::JOINT_COMMIT | kind::JOINT_PREPARE => joint(span, body).map(drop),
            kind::NOTED_JOINT_COMMIT => {
                let (_, note) = joint(span, body)?;
                self.notes.insert(span.end, note.to_vec());
                Ok(())
            }
            _ => self.note(span, header, body),
        }
    }

    fn note(&mut self, span: Span, header: &RecordHeader, body: &[u8]) -> Result<(), StoreFault> {
        let malformed = |what| StoreFault::Record { lsn: span.start, what };
        match header.kind {
            kind::NOTE | kind::NOTED_COMMIT => {
                self.notes.insert(span.end, body.to_vec());
            }
            kind::FORGET => {
                let name = body.try_into().map_err(|_| malformed("it forgets no note"))?;
                self.notes.remove(&Lsn(u64::from_le_bytes(name)));
            }
            _ => return Err(malformed("its kind is unknown")),
        }
        Ok(())
    }

    /// Updates the allocator's state and the list of ghosts.
    #[inline]
    fn pages(
        &mut self,
        span: Span,
        header: &RecordHeader,
        body: &[u8],
        mut meet: impl FnMut(PageId, PageUse) -> Result<(), StoreFault>,
    ) -> Result<(), StoreFault> {
        let (free, next) = (&mut self.free, &mut self.next_page);
        let mut met = Ok(());
        let sound = each_page(header.kind, body, |page, how| {
            if met.is_ok() {
                met = meet(page, how);
            }
            // Checked first: a wrong page number could be huge, and all pages below it would be
            // added to the free list.
            if met.is_err() {
                return;
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
        met?;
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

    /// Updates the record's transaction.
    #[inline]
    fn follow(&mut self, span: Span, header: &RecordHeader, body: &[u8]) {
        match header.kind {
            kind::COMMIT | kind::NOTED_COMMIT => self.committed(header.txn),
            kind::JOINT_COMMIT | kind::NOTED_JOINT_COMMIT => {
                let branches = Joint::decode(body);
                branches.iter().flat_map(|(joint, _)| joint.ids()).for_each(|id| self.committed(id));
            }
            kind::JOINT_PREPARE => self.prepared_together(body),
            kind::END => {
                let ended = self.open.remove(&header.txn);
                self.aborted(ended.and_then(|open| open.prepared));
            }
            kind if header.prev == Lsn(0)
                || header.is_clr()
                || kind == kind::PREPARE
                || kind == Kind::HeapDelete as u8 =>
            {
                self.begun(span, header, body);
            }
            _ => {}
        }
    }

    fn committed(&mut self, id: TxnId) {
        if let Some(ended) = self.open.remove(&id) {
            self.ghosts.extend(ended.deleted.into_iter().map(|(_, row)| row));
        }
    }

    /// The record names only branches that have written, so each is known. The exception: a branch
    /// that ended before the checkpoint. It was rolled back, because a commit would have ended all
    /// branches. Then nothing is prepared.
    fn prepared_together(&mut self, body: &[u8]) {
        let Some((joint, note)) = Joint::decode(body) else { return };
        let Some(leader) = joint.ids().next() else { return };
        if joint.ids().any(|id| !self.open.contains_key(&id)) {
            return;
        }
        for id in joint.ids() {
            if let Some(open) = self.open.get_mut(&id) {
                open.prepared = Some(Prepared { leader, note: note.to_vec() });
            }
        }
    }

    /// A branch of a joint prepare is rolled back, so the decision for all its branches was to
    /// abort.
    fn aborted(&mut self, prepared: Option<Prepared>) {
        let Some(Prepared { leader, .. }) = prepared else { return };
        for open in self.open.values_mut() {
            open.prepared.take_if(|p| p.leader == leader);
        }
    }

    /// Processes a record that says more than that its transaction continues.
    fn begun(&mut self, span: Span, header: &RecordHeader, body: &[u8]) {
        let open =
            self.open.entry(header.txn).or_insert_with(|| Open { first: span.start, ..Open::default() });
        match header.kind {
            kind::PREPARE => {
                open.prepared = Some(Prepared { leader: header.txn, note: body.to_vec() });
            }
            _ if header.is_clr() => {
                // A compensation record after a prepare shows that the decision was to abort.
                let prepared = open.prepared.take();
                open.deleted.retain(|(lsn, _)| *lsn <= header.undo_next);
                self.aborted(prepared);
            }
            kind if kind == Kind::HeapDelete as u8 => {
                open.deleted.extend(row_of(kind, body).map(|row| (span.start, row)));
            }
            _ => {}
        }
    }

    /// The start of the oldest record of an open transaction; `None` if all have ended.
    pub fn oldest(&self) -> Option<Lsn> {
        self.open.values().map(|open| open.first).min()
    }

    /// Collects the records to undo. Called after the pass, for all records from
    /// [`Analysis::oldest`] on.
    pub fn collect(&mut self, span: Span, header: &RecordHeader, body: &[u8]) {
        let Some(open) = self.open.get_mut(&header.txn) else { return };
        open.last = span.start;
        match header.kind {
            kind::PREPARE | kind::JOINT_PREPARE => {}
            _ if header.is_clr() => open.undo.undone_down_to(header.undo_next),
            kind => open.undo.push(kind, span.start, header.prev, &[body]),
        }
    }
}

/// The branches that a joint record names, and the note after them.
fn joint(span: Span, body: &[u8]) -> Result<(Joint<'_>, &[u8]), StoreFault> {
    Joint::decode(body).ok_or(StoreFault::Record { lsn: span.start, what: "it names no branches" })
}
