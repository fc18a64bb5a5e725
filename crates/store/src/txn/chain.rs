//! One transaction: its chain of log records and its undo list.
//!
//! A transaction has no begin record: its first record begins it. Before that record it has no
//! number, so a read-only transaction never touches the log.

use crate::state::active::{Active, Slot};
use crate::state::store::Store;
use access::{Journal, Kind, PageUse, each_page};
use base::{Key, Lsn, Rid, TableId, TxnId, copy_short};
use pages::Pool;
use std::ops::Range;
use std::sync::Arc;
use wal::{CLR, Log, LogOrder, RecordHeader, Span};

/// An undoable record, kept in memory so that rollback need not read the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub kind: u8,
    /// Where the record starts.
    pub lsn: Lsn,
    /// The record to undo after this one.
    pub prev: Lsn,
    /// Where its body begins in the arena.
    at: usize,
    len: u32,
}

/// The undoable records of a transaction, oldest first. All bodies lie in one arena, which is
/// reused by the next transaction.
#[derive(Default)]
pub(crate) struct UndoList {
    entries: Vec<Entry>,
    arena: Vec<u8>,
}

/// Bodies up to this length, in bytes, take the fast path of [`UndoList::push`]. Most updates and
/// short rows fit.
const SHORT: usize = 64;

impl UndoList {
    #[inline]
    pub fn push(&mut self, kind: u8, lsn: Lsn, prev: Lsn, body: &[&[u8]]) {
        let (at, mut len) = (self.arena.len(), 0);
        for part in body {
            len += part.len();
        }
        if len <= SHORT {
            // Reserving a fixed length checks the arena's capacity once instead of once per part.
            self.arena.extend_from_slice(&[0; SHORT]);
            let mut room = &mut self.arena[at..];
            for part in body {
                let (place, behind) = room.split_at_mut(part.len());
                copy_short(place, part);
                room = behind;
            }
            self.arena.truncate(at + len);
        } else {
            body.iter().for_each(|part| self.arena.extend_from_slice(part));
        }
        self.entries.push(Entry { kind, lsn, prev, at, len: len as u32 });
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn last(&self) -> Option<(Entry, &[u8])> {
        self.entries.last().map(|&e| (e, self.body(e)))
    }

    fn body(&self, e: Entry) -> &[u8] {
        &self.arena[e.at..e.at + e.len as usize]
    }

    pub fn pop(&mut self) {
        if let Some(e) = self.entries.pop() {
            self.arena.truncate(e.at);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (Entry, &[u8])> {
        self.entries.iter().map(|&e| (e, self.body(e)))
    }

    /// Where the record at `len - 1` starts; 0 if there is none.
    pub fn lsn_before(&self, len: usize) -> Lsn {
        len.checked_sub(1).and_then(|at| self.entries.get(at)).map_or(Lsn(0), |e| e.lsn)
    }

    /// Drops the records that a compensation record declares undone: all records after `undo_next`.
    pub fn undone_down_to(&mut self, undo_next: Lsn) {
        while self.entries.last().is_some_and(|e| e.lsn > undo_next) {
            self.pop();
        }
    }

    pub fn clear(&mut self) {
        self.entries.clear();
        self.arena.clear();
        // One bulk load must not keep its undo memory for the life of the worker.
        self.arena.shrink_to(1 << 20);
        self.entries.shrink_to(1 << 14);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum TxnState {
    #[default]
    Idle,
    Running,
    Prepared,
}

/// A position in a transaction that undo can return to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Mark {
    pub undo: usize,
    pub ghosts: usize,
}

/// A point in one transaction that [`Store::rollback_to`](crate::Store::rollback_to) can return to,
/// any number of times. It is valid until the transaction ends or is rolled back to an earlier
/// savepoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint {
    pub(crate) mark: Mark,
    /// The value of [`Txn`]'s counter `begun` when the savepoint was taken: tells apart the
    /// transactions that reuse one [`Txn`].
    pub(crate) begun: u64,
    /// The youngest undoable record at that time. Log positions are never reused, so this field
    /// shows whether that record is still in the undo list.
    pub(crate) last: Lsn,
}

/// Where a transaction is registered. It does not hold the log: a `Txn` that outlives its store
/// must not keep the log's files open.
pub(crate) struct Home {
    pub slot: Arc<Slot>,
    pub active: Arc<Active>,
}

/// The chain of a transaction's log records. Only the worker that runs the transaction writes it.
#[derive(Default)]
pub(crate) struct Chain {
    pub home: Option<Home>,
    /// 0 until the first record. Then the next number of `ids`.
    id: TxnId,
    /// Numbers reserved for this `Txn`, taken from the store in batches.
    ids: Range<u64>,
    /// Starts of the first and of the last record; 0 until there is one.
    pub first: Lsn,
    pub last: Lsn,
    pub worker: usize,
    pub undo: UndoList,
    /// Leaves that were split or rebalanced in this transaction, or that got an entry back by undo:
    /// the tree, and the separator or the key. For [`Store::parted`].
    pub parted: Vec<(TableId, Key)>,
    /// During undo of a record: the record to undo next. The compensation record names it.
    pub compensating: Option<Lsn>,
}

/// One transaction. One worker at a time uses it. After its end it can begin again, and keeps its
/// buffers.
#[derive(Default)]
pub struct Txn {
    pub(crate) chain: Chain,
    pub(crate) state: TxnState,
    /// The number of transactions that began in this `Txn`.
    pub(crate) begun: u64,
    /// Deleted rows (ghosts), to be purged after the commit.
    pub(crate) ghosts: Vec<(TableId, Rid)>,
    /// Rows of the catalog that the transaction changed, to be cleared at its end if they are
    /// unused.
    pub(crate) defined: Vec<Rid>,
    /// The log position that makes the last commit durable. A purge record must follow it.
    pub(crate) committed: Lsn,
    /// The row as an update makes it, and the row as it was. Buffers of the record operations.
    pub(crate) row: Vec<u8>,
    pub(crate) old_row: Vec<u8>,
}

impl Chain {
    pub fn id(&self) -> TxnId {
        self.id
    }

    #[inline]
    fn home(&self) -> &Home {
        self.home.as_ref().expect("a transaction writes only between begin and its end")
    }

    #[inline]
    fn number(&mut self) -> TxnId {
        if self.id == TxnId(0) {
            if self.ids.is_empty() {
                self.ids = self.home().active.ids();
            }
            self.id = TxnId(self.ids.start);
            self.ids.start += 1;
        }
        self.id
    }

    /// Appends a record of this transaction, linked to the one before it.
    pub fn append(&mut self, log: &Log, kind: u8, order: LogOrder, body: &[&[u8]]) -> Span {
        let id = self.number();
        let header = RecordHeader {
            kind,
            flags: if self.compensating.is_some() { CLR } else { 0 },
            txn: id,
            prev: self.last,
            undo_next: self.compensating.unwrap_or_default(),
            depends_on: Lsn(0),
        };
        // A record is longer than one byte, so `last + 1` lies after the start of the last record,
        // and no record can start inside another.
        let order = order.not_before(Lsn(self.last.0 + 1));
        let mut span = Span::default();
        self.home().slot.record(id, self.first, || {
            span = log.append(&header, order, body);
            span.start
        });
        if self.first == Lsn(0) {
            self.first = span.start;
        }
        self.last = span.start;
        span
    }

    /// Appends an undoable record and adds it to the undo list. Returns the end of the record.
    #[inline]
    fn append_undoable(&mut self, log: &Log, kind: u8, after: Lsn, body: &[&[u8]]) -> Lsn {
        let (id, prev) = (self.number(), self.last);
        let after = after.max(Lsn(prev.0 + 1));
        let (mut start, mut end) = (Lsn(0), Lsn(0));
        self.home().slot.record(id, self.first, || {
            (start, end) = log.append_plain(kind, id, prev, after, body);
            start
        });
        if self.first == Lsn(0) {
            self.first = start;
        }
        self.last = start;
        self.undo.push(kind, start, prev, body);
        end
    }

    /// Appends the transaction's last record. From then on a checkpoint does not list the
    /// transaction.
    ///
    /// `order` must be `LogOrder::Last` or `LogOrder::Dependent`: if this transaction read data of
    /// others, and a crash loses the end of one of those, then this end must not count either.
    pub fn append_last(&mut self, log: &Log, kind: u8, order: LogOrder, body: &[&[u8]]) -> Span {
        debug_assert!(!matches!(order, LogOrder::After(_)), "an end that rests on nothing");
        let order = order.not_before(Lsn(self.last.0 + 1));
        let header = RecordHeader { kind, txn: self.id, prev: self.last, ..RecordHeader::default() };
        let mut span = Span::default();
        self.home().slot.end(|| {
            span = log.append(&header, order, body);
            span.end
        });
        span
    }

    /// As [`Chain::append_last`], with one record for several transactions that have written. The
    /// header names the first of them.
    pub fn append_last_of(chains: &[&Chain], log: &Log, kind: u8, order: LogOrder, body: &[&[u8]]) -> Span {
        let last = chains.iter().map(|chain| chain.last).max().unwrap_or_default();
        let order = order.not_before(Lsn(last.0 + 1));
        let header =
            RecordHeader { kind, txn: chains[0].id, prev: chains[0].last, ..RecordHeader::default() };
        let mut span = Span::default();
        Slot::end_all(chains.iter().map(|chain| &*chain.home().slot), || {
            span = log.append(&header, order, body);
            span.end
        });
        span
    }

    /// Makes this the chain of a transaction that restart found in the log.
    pub fn adopt(&mut self, id: TxnId, first: Lsn, last: Lsn, undo: UndoList) {
        self.home().slot.record(id, first, || last);
        (self.id, self.first, self.last, self.undo) = (id, first, last, undo);
    }

    pub fn reset(&mut self) {
        (self.id, self.first, self.last, self.compensating) = (TxnId(0), Lsn(0), Lsn(0), None);
        self.undo.clear();
    }
}

/// The journal that the access methods use to log for a transaction.
pub(crate) struct Writer<'a> {
    pub log: &'a Log,
    pub pool: &'a Pool,
    pub chain: &'a mut Chain,
}

impl Journal for Writer<'_> {
    #[inline]
    fn undoable(&mut self, kind: u8, after: Lsn, body: &[&[u8]]) -> Lsn {
        let end = match self.chain.compensating {
            None => self.chain.append_undoable(self.log, kind, after, body),
            Some(_) => self.chain.append(self.log, kind, LogOrder::After(after), body).end,
        };
        account(self.pool, kind, body);
        end
    }

    fn system(&mut self, kind: u8, order: LogOrder, body: &[&[u8]]) -> Lsn {
        let lsn = system_record(self.log, kind, order, body).end;
        account(self.pool, kind, body);
        lsn
    }

    fn parted(&mut self, tree: TableId, separator: &[u8]) {
        self.chain.parted.push((tree, Key::from_bytes(separator)));
    }

    fn worker(&self) -> usize {
        self.chain.worker
    }
}

/// Appends a redo-only record that belongs to no transaction.
pub(crate) fn system_record(log: &Log, kind: u8, order: LogOrder, body: &[&[u8]]) -> Span {
    log.append(&RecordHeader { kind, ..RecordHeader::default() }, order, body)
}

/// Tells the allocator about the pages that the appended record takes or frees. The writer of the
/// record still holds these pages.
#[inline]
fn account(pool: &Pool, kind: u8, body: &[&[u8]]) {
    const PAGES_COME_AND_GO: [u8; 3] = [Kind::System as u8, Kind::HeapRemove as u8, Kind::LargeMake as u8];
    if PAGES_COME_AND_GO.contains(&kind) {
        account_for(pool, kind, &body.concat());
    }
}

#[cold]
fn account_for(pool: &Pool, kind: u8, body: &[u8]) {
    each_page(kind, body, |page, how| match how {
        PageUse::Changed => {}
        PageUse::Formatted | PageUse::Taken => pool.claimed(page),
        PageUse::Freed | PageUse::Emptied => pool.released(page),
    });
}

/// The journal of work that stays, even if the transaction that caused it is rolled back.
pub(crate) struct SystemJournal<'a> {
    log: &'a Log,
    pool: &'a Pool,
    /// Every record follows this position. A purge passes the position of the commit that allowed
    /// it, so that no crash keeps the purge and loses the commit.
    after: Lsn,
}

impl Store {
    #[inline]
    pub(crate) fn writer<'a>(&'a self, chain: &'a mut Chain) -> Writer<'a> {
        Writer { log: &self.log, pool: &self.pool, chain }
    }

    /// The journal of work that belongs to no transaction. Its records follow `after`.
    pub(crate) fn system(&self, after: Lsn) -> SystemJournal<'_> {
        SystemJournal { log: &self.log, pool: &self.pool, after }
    }
}

impl Journal for SystemJournal<'_> {
    fn undoable(&mut self, kind: u8, after: Lsn, body: &[&[u8]]) -> Lsn {
        self.system(kind, LogOrder::After(after), body)
    }

    fn system(&mut self, kind: u8, order: LogOrder, body: &[&[u8]]) -> Lsn {
        let lsn = system_record(self.log, kind, order.not_before(self.after), body).end;
        account(self.pool, kind, body);
        lsn
    }

    fn worker(&self) -> usize {
        0
    }
}

impl Txn {
    /// Whether the transaction has written log records; if so, its commit must be logged.
    #[inline]
    pub fn wrote(&self) -> bool {
        self.chain.last != Lsn(0)
    }

    /// Where its youngest log record starts; `Lsn(0)` if it has none.
    pub fn last_record(&self) -> Lsn {
        self.chain.last
    }

    /// The row of [`UpdateOutcome::Entries`](crate::UpdateOutcome::Entries): as it is, and as the
    /// update would make it.
    pub fn held_back(&self) -> (&[u8], &[u8]) {
        (&self.old_row, &self.row)
    }

    /// The transaction's number; `None` before its first record.
    pub fn id(&self) -> Option<TxnId> {
        (self.chain.id != TxnId(0)).then_some(self.chain.id)
    }

    /// Whether leaves were split or rebalanced in it: see [`Store::parted`].
    #[inline]
    pub fn has_parted(&self) -> bool {
        !self.chain.parted.is_empty()
    }

    /// Whether it waits for a decision.
    pub fn is_prepared(&self) -> bool {
        self.state == TxnState::Prepared
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { undo: self.chain.undo.len(), ghosts: self.ghosts.len() }
    }

    pub(crate) fn savepoint(&self) -> Savepoint {
        let mark = self.mark();
        Savepoint { mark, begun: self.begun, last: self.chain.undo.lsn_before(mark.undo) }
    }

    /// Whether `savepoint` belongs to this transaction and no rollback went back to before it.
    pub(crate) fn reaches(&self, savepoint: &Savepoint) -> bool {
        let len = savepoint.mark.undo;
        self.begun == savepoint.begun
            && len <= self.chain.undo.len()
            && self.chain.undo.lsn_before(len) == savepoint.last
    }

    #[inline]
    pub(crate) fn finish(&mut self) {
        self.chain.reset();
        self.state = TxnState::Idle;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_any_length_and_in_any_parts_come_back_youngest_first() {
        let bytes: Vec<u8> = (1..=200).collect();
        let cuts = [0, 1, 3, 8, 12, 20, 58, SHORT, SHORT + 1, 130];
        let bodies = || cuts.iter().flat_map(|&a| cuts.iter().map(move |&b| (a.min(b), a.max(b))));
        let mut list = UndoList::default();
        for (n, (a, b)) in bodies().enumerate() {
            list.push(1, Lsn(n as u64 + 1), Lsn(n as u64), &[&bytes[..a], &[], &bytes[a..b]]);
        }
        for (n, (_, b)) in bodies().enumerate().collect::<Vec<_>>().into_iter().rev() {
            let (entry, body) = list.last().unwrap();
            assert_eq!((entry.lsn, body), (Lsn(n as u64 + 1), &bytes[..b]));
            list.pop();
        }
        assert!(list.last().is_none() && list.arena.is_empty());
    }
}
