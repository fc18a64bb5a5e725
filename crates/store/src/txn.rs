//! One transaction: its chain in the log, and what it takes to undo it.
//!
//! A transaction has no begin record; its first record begins it. Until then it has no number either, and a
//! transaction that only reads never touches the log.

use crate::active::{Active, Slot};
use crate::open::Store;
use access::{Journal, Kind, PageUse, each_page};
use base::{Key, Lsn, Rid, TableId, TxnId, copy_short};
use pages::Pool;
use std::ops::Range;
use std::sync::Arc;
use wal::{CLR, Log, Order, RecordHeader, Span};

/// An undoable record, kept for rollback without reading the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub kind: u8,
    /// Where the record starts.
    pub lsn: Lsn,
    /// What is to be undone after it.
    pub prev: Lsn,
    /// Its body in the arena.
    at: usize,
    len: u32,
}

/// What a transaction did, oldest first. All bodies lie in one arena, which is kept from one transaction to
/// the next.
#[derive(Default)]
pub(crate) struct UndoList {
    entries: Vec<Entry>,
    arena: Vec<u8>,
}

/// A body that is put into the arena at once: most updates' and short rows'.
const SHORT: usize = 64;

impl UndoList {
    #[inline]
    pub fn push(&mut self, kind: u8, lsn: Lsn, prev: Lsn, body: &[&[u8]]) {
        let (at, mut len) = (self.arena.len(), 0);
        for part in body {
            len += part.len();
        }
        if len <= SHORT {
            // Room of a known length first, which takes one look at what is left of the arena; then the parts.
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

    /// Where the record at `len - 1` starts; 0 when there is none.
    pub fn lsn_before(&self, len: usize) -> Lsn {
        len.checked_sub(1).and_then(|at| self.entries.get(at)).map_or(Lsn(0), |e| e.lsn)
    }

    /// Drops what a compensation record says is undone: everything younger than `undo_next`.
    pub fn undone_down_to(&mut self, undo_next: Lsn) {
        while self.entries.last().is_some_and(|e| e.lsn > undo_next) {
            self.pop();
        }
    }

    pub fn clear(&mut self) {
        self.entries.clear();
        self.arena.clear();
        // One bulk load must not keep its undo information in memory for ever.
        self.arena.shrink_to(1 << 20);
        self.entries.shrink_to(1 << 14);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum State {
    #[default]
    Idle,
    Running,
    Prepared,
}

/// Where a transaction stands, to go back to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Mark {
    pub undo: usize,
    pub ghosts: usize,
}

/// A moment of one transaction that [`Store::rollback_to`](crate::Store::rollback_to) can go back to, any number of
/// times. It ends with its transaction, and with a rollback to an earlier savepoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint {
    pub(crate) mark: Mark,
    /// Which of the transactions that used the same [`Txn`] it belongs to.
    pub(crate) begun: u64,
    /// The record that was the last to be undone then. Positions are never used twice, so it tells whether
    /// that record is still there.
    pub(crate) last: Lsn,
}

/// Where a transaction is accounted for. Not the log itself: a transaction that outlives its store must not keep
/// the log's files open.
pub(crate) struct Home {
    pub slot: Arc<Slot>,
    pub active: Arc<Active>,
}

/// A transaction's place in the log.
#[derive(Default)]
pub(crate) struct Chain {
    pub home: Option<Home>,
    id: TxnId,
    ids: Range<u64>,
    pub first: Lsn,
    pub last: Lsn,
    pub worker: usize,
    pub undo: UndoList,
    /// Trees whose leaves were parted, and where, for [`Store::parted`].
    pub parted: Vec<(TableId, Key)>,
    /// While a record is being undone: what comes after it.
    pub compensating: Option<Lsn>,
}

/// One transaction. Owned by one worker at a time; after its end it may begin again, and keeps its buffers.
#[derive(Default)]
pub struct Txn {
    pub(crate) chain: Chain,
    pub(crate) state: State,
    /// How many transactions began here.
    pub(crate) begun: u64,
    /// Rows deleted, to be purged after the commit.
    pub(crate) ghosts: Vec<(TableId, Rid)>,
    /// Rows of the catalog it is at work on, to be looked after at its end.
    pub(crate) defined: Vec<Rid>,
    /// How much of the log the last commit takes to count: purges come behind that.
    pub(crate) committed: Lsn,
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

    /// Appends a record of this transaction, behind the one before it.
    pub fn append(&mut self, log: &Log, kind: u8, order: Order, body: &[&[u8]]) -> Span {
        let id = self.number();
        let header = RecordHeader {
            kind,
            flags: if self.compensating.is_some() { CLR } else { 0 },
            txn: id,
            prev: self.last,
            undo_next: self.compensating.unwrap_or_default(),
            rests_on: Lsn(0),
        };
        // Records are longer than a byte, so behind the start of the last one is behind it.
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

    /// Appends a record that can be undone, and remembers how; gives its end.
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

    /// Appends the transaction's last record; the checkpoint does not see it any more. `order` is one that comes after
    /// everything or rests on it: what this transaction has seen of others must have ended in the log, or this end does not
    /// count.
    pub fn append_last(&mut self, log: &Log, kind: u8, order: Order, body: &[&[u8]]) -> Span {
        debug_assert!(!matches!(order, Order::After(_)), "an end that rests on nothing");
        let order = order.not_before(Lsn(self.last.0 + 1));
        let header = RecordHeader { kind, txn: self.id, prev: self.last, ..RecordHeader::default() };
        let mut span = Span::default();
        self.home().slot.end(|| {
            span = log.append(&header, order, body);
            span.end
        });
        span
    }

    /// As [`Chain::append_last`], one record for several transactions that have written: the first one's by its header.
    pub fn append_last_of(chains: &[&Chain], log: &Log, kind: u8, order: Order, body: &[&[u8]]) -> Span {
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

    /// Makes this the chain of a transaction found in the log.
    pub fn adopt(&mut self, id: TxnId, first: Lsn, last: Lsn, undo: UndoList) {
        self.home().slot.record(id, first, || last);
        (self.id, self.first, self.last, self.undo) = (id, first, last, undo);
    }

    pub fn reset(&mut self) {
        (self.id, self.first, self.last, self.compensating) = (TxnId(0), Lsn(0), Lsn(0), None);
        self.undo.clear();
    }
}

/// How the access methods log on behalf of a transaction.
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
            Some(_) => self.chain.append(self.log, kind, Order::After(after), body).end,
        };
        account(self.pool, kind, body);
        end
    }

    fn system(&mut self, kind: u8, order: Order, body: &[&[u8]]) -> Lsn {
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

/// Appends a record of the system: redo only, of no transaction.
pub(crate) fn system_record(log: &Log, kind: u8, order: Order, body: &[&[u8]]) -> Span {
    log.append(&RecordHeader { kind, ..RecordHeader::default() }, order, body)
}

/// Tells the allocator what a record that was just appended says of pages; its writer still holds them.
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

/// The journal of work that stays whatever becomes of any transaction.
pub(crate) struct SystemJournal<'a> {
    log: &'a Log,
    pool: &'a Pool,
    /// None of it comes before this: a purge must not outlive the commit that allowed it.
    after: Lsn,
}

impl Store {
    /// The journal of work that belongs to no transaction and comes after `after`.
    pub(crate) fn system(&self, after: Lsn) -> SystemJournal<'_> {
        SystemJournal { log: &self.log, pool: &self.pool, after }
    }
}

impl Journal for SystemJournal<'_> {
    fn undoable(&mut self, kind: u8, after: Lsn, body: &[&[u8]]) -> Lsn {
        self.system(kind, Order::After(after), body)
    }

    fn system(&mut self, kind: u8, order: Order, body: &[&[u8]]) -> Lsn {
        let lsn = system_record(self.log, kind, order.not_before(self.after), body).end;
        account(self.pool, kind, body);
        lsn
    }

    fn worker(&self) -> usize {
        0
    }
}

impl Txn {
    /// Whether anything was logged: whether its commit must be.
    #[inline]
    pub fn wrote(&self) -> bool {
        self.chain.last != Lsn(0)
    }

    /// The row that [`UpdateOutcome::Entries`](crate::UpdateOutcome::Entries) told of: as it is, and as it would be.
    pub fn held_back(&self) -> (&[u8], &[u8]) {
        (&self.old_row, &self.row)
    }

    /// The transaction's number; `None` before its first record.
    pub fn id(&self) -> Option<TxnId> {
        (self.chain.id != TxnId(0)).then_some(self.chain.id)
    }

    /// Whether leaves were parted in it: see [`Store::parted`].
    #[inline]
    pub fn has_parted(&self) -> bool {
        !self.chain.parted.is_empty()
    }

    /// Whether it waits for a decision.
    pub fn is_prepared(&self) -> bool {
        self.state == State::Prepared
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { undo: self.chain.undo.len(), ghosts: self.ghosts.len() }
    }

    pub(crate) fn savepoint(&self) -> Savepoint {
        let mark = self.mark();
        Savepoint { mark, begun: self.begun, last: self.chain.undo.lsn_before(mark.undo) }
    }

    /// Whether `savepoint` is of this transaction and was not rolled back over.
    pub(crate) fn reaches(&self, savepoint: &Savepoint) -> bool {
        let len = savepoint.mark.undo;
        self.begun == savepoint.begun
            && len <= self.chain.undo.len()
            && self.chain.undo.lsn_before(len) == savepoint.last
    }

    pub(crate) fn finish(&mut self) {
        self.chain.reset();
        self.state = State::Idle;
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
