//! Restart: bringing everything back to the last promise made (ARIES, Mohan et al. 1992).
//!
//! One pass over the log does analysis and redo: every record from the checkpoint's `redo_start` on is repeated
//! where its pages do not carry it yet, and what transactions that have not ended did is collected. Then those that
//! were not prepared are rolled back, by the same code as in normal running, with compensation records; so a crash
//! in the middle leaves a log that the next restart understands. Prepared ones are handed out.
//!
//! Records before `redo_start` are read only for transactions that were running then, and only collected.

use crate::StoreFault;
use crate::control::{Checkpoint, Control};
use crate::end::NoteId;
use crate::kind;
use crate::open::{Store, held};
use crate::touched::{Touched, row_of};
use crate::txn::{State, Txn, UndoList};
use access::{Kind, PageUse, each_page};
use base::{Lsn, PageId, Rid, TableId, TxnId};
use latch::Coupled;
use pages::{AllocatorState, Stop};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use wal::{RecordHeader, Span};

/// What opening found.
pub struct Recovered {
    /// Transactions that were prepared and whose decision is not known here, each to be ended by
    /// [`Store::commit`] or [`Store::rollback`].
    pub in_doubt: Vec<InDoubt>,
    /// Notes that were not forgotten, oldest first.
    pub notes: Vec<(NoteId, Vec<u8>)>,
    /// How often the database has been opened, this time included; 1 for a new one.
    pub life: u32,
    /// Log records repeated, and their bytes.
    pub redo_records: u64,
    pub redo_bytes: u64,
    /// Transactions rolled back.
    pub rolled_back: usize,
}

/// A prepared transaction.
pub struct InDoubt {
    pub txn: Txn,
    /// The note given with [`Store::prepare`].
    pub note: Vec<u8>,
    /// What must be protected until the decision.
    pub touched: Vec<Touched>,
}

/// A transaction that has not ended, as far as the log was read.
#[derive(Default)]
struct Open {
    first: Lsn,
    last: Lsn,
    undo: UndoList,
    prepared: Option<Vec<u8>>,
}

/// What the pass over the log finds out.
struct Analysis<'a> {
    store: &'a Store,
    redo_start: Lsn,
    running: BTreeSet<TxnId>,
    open: HashMap<TxnId, Open>,
    notes: BTreeMap<Lsn, Vec<u8>>,
    next_page: u32,
    free: BTreeSet<PageId>,
    /// Rows deleted by committed transactions and not yet purged.
    ghosts: BTreeSet<(TableId, Rid)>,
    redo_records: u64,
    redo_bytes: u64,
}

pub(crate) fn restart(store: &Store, control: &Control) -> Result<Recovered, StoreFault> {
    let checkpoint = &control.checkpoint;
    let mut analysis = Analysis::new(store, checkpoint);
    if checkpoint.redo_start > store.log.end() {
        return Err(StoreFault::LogBehind {
            dir: store.dir.join("log"),
            found: store.log.end(),
            expected: checkpoint.redo_start,
        });
    }
    for record in store.log.read_from(checkpoint.scan_start()) {
        let (span, header, body) = record?;
        analysis.record(span, &header, &body)?;
    }
    analysis.finish(control.life)
}

impl<'a> Analysis<'a> {
    fn new(store: &'a Store, checkpoint: &Checkpoint) -> Analysis<'a> {
        Analysis {
            store,
            redo_start: checkpoint.redo_start,
            running: checkpoint.running.iter().map(|r| r.id).collect(),
            open: HashMap::new(),
            notes: checkpoint.notes.iter().cloned().collect(),
            next_page: checkpoint.next_page.0,
            free: checkpoint.free_pages.iter().copied().collect(),
            ghosts: BTreeSet::new(),
            redo_records: 0,
            redo_bytes: 0,
        }
    }

    fn record(&mut self, span: Span, header: &RecordHeader, body: &[u8]) -> Result<(), StoreFault> {
        let old = span.start < self.redo_start;
        if !old {
            self.redo_records += 1;
            self.redo_bytes += span.end.0 - span.start.0;
            self.repeat(span, header, body)?;
        }
        if header.txn != TxnId(0) && (!old || self.running.contains(&header.txn)) {
            self.follow(span, header, body);
        }
        Ok(())
    }

    /// Does once more what the record did.
    fn repeat(&mut self, span: Span, header: &RecordHeader, body: &[u8]) -> Result<(), StoreFault> {
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
            kind if kind <= Kind::LAST => self.redo(span, header, body)?,
            _ => return Err(malformed("its kind is unknown")),
        }
        Ok(())
    }

    fn redo(&mut self, span: Span, header: &RecordHeader, body: &[u8]) -> Result<(), StoreFault> {
        let mut uses = Vec::new();
        if !each_page(header.kind, body, |page, how| uses.push((page, how))) {
            return Err(StoreFault::Record { lsn: span.start, what: "it changes no page" });
        }
        for (page, how) in uses {
            match how {
                PageUse::Changed => {}
                PageUse::Formatted => {
                    self.free.remove(&page);
                    self.free.extend((self.next_page..page.0).map(PageId));
                    self.next_page = self.next_page.max(page.0 + 1);
                }
                PageUse::Freed => {
                    self.free.insert(page);
                }
            }
        }
        if header.txn == TxnId(0) && Kind::of(header.kind) == Some(Kind::HeapRemove) {
            self.ghosts.retain(|ghost| Some(*ghost) != row_of(header.kind, body));
        }
        let redo = || access::redo(&self.store.pool, header, span.end, body);
        self.store.insist(redo).map_err(stopped)
    }

    /// Keeps the books of the record's transaction.
    fn follow(&mut self, span: Span, header: &RecordHeader, body: &[u8]) {
        let open = self.open.entry(header.txn).or_default();
        if open.first == Lsn(0) {
            open.first = span.start;
        }
        open.last = span.start;
        match header.kind {
            kind::COMMIT | kind::NOTED_COMMIT => {
                let ended = self.open.remove(&header.txn).unwrap_or_default();
                let deleted = ended.undo.iter().filter(|(e, _)| Kind::of(e.kind) == Some(Kind::HeapDelete));
                self.ghosts.extend(deleted.filter_map(|(e, body)| row_of(e.kind, body)));
            }
            kind::END => {
                self.open.remove(&header.txn);
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

    fn finish(self, life: u32) -> Result<Recovered, StoreFault> {
        let store = self.store;
        store.pool.restore_allocator(&AllocatorState {
            next: PageId(self.next_page),
            free: self.free.into_iter().collect(),
        });
        *held(&store.notes) = self.notes;
        store.open_catalog()?;
        let (mut in_doubt, mut losers) = (Vec::new(), Vec::new());
        for (id, found) in self.open {
            let (txn, prepared) = adopt(store, id, found);
            match prepared {
                Some(note) => in_doubt.push((txn, note)),
                None => losers.push(txn),
            }
        }
        in_doubt.sort_unstable_by_key(|(txn, _)| txn.chain.first);
        let rolled_back = losers.len();
        roll_back(store, losers)?;
        purge(store, &self.ghosts)?;
        store.clear_catalog()?;
        let in_doubt = in_doubt.into_iter().map(|(txn, note)| {
            let touched = store.touched(&txn.chain.undo).map_err(stopped)?;
            Ok(InDoubt { txn, note, touched })
        });
        Ok(Recovered {
            in_doubt: in_doubt.collect::<Result<_, StoreFault>>()?,
            notes: held(&store.notes).iter().map(|(&lsn, note)| (NoteId(lsn), note.clone())).collect(),
            life,
            redo_records: self.redo_records,
            redo_bytes: self.redo_bytes,
            rolled_back,
        })
    }
}

/// Makes a transaction found in the log one that can go on.
fn adopt(store: &Store, id: TxnId, found: Open) -> (Txn, Option<Vec<u8>>) {
    let mut txn = Txn::default();
    store.attach(&mut txn);
    // A prepared deletion leaves ghosts, to be purged should it commit.
    let deleted = found.undo.iter().filter(|(e, _)| Kind::of(e.kind) == Some(Kind::HeapDelete));
    txn.ghosts = deleted.filter_map(|(e, body)| row_of(e.kind, body)).collect();
    txn.state = if found.prepared.is_some() { State::Prepared } else { State::Running };
    txn.chain.adopt(id, found.first, found.last, found.undo);
    (txn, found.prepared)
}

/// Rolls the losers back together: of all records still to be undone the youngest is undone next, whoever wrote it.
///
/// The order matters. Locks go once a commit record is in the log buffer, so a second transaction may have changed
/// the same row before a crash took the commit record of the first: both are losers, and the younger change must
/// be undone first. Each alone, in whatever order, would bring back what never was.
fn roll_back(store: &Store, mut losers: Vec<Txn>) -> Result<(), StoreFault> {
    let next = |txn: &Txn| txn.chain.undo.lsn_before(txn.chain.undo.len());
    let mut order: BinaryHeap<(Lsn, usize)> = losers.iter().map(next).zip(0..).collect();
    while let Some((_, who)) = order.pop() {
        let txn = &mut losers[who];
        if txn.chain.undo.len() == 0 {
            // Nothing is left but to say so.
            store.insist(|| store.rollback::<Coupled>(txn)).map_err(stopped)?;
            continue;
        }
        store.insist(|| store.undo_last::<Coupled>(txn)).map_err(stopped)?;
        order.push((next(txn), who));
    }
    Ok(())
}

/// Takes away the ghosts of deletions that committed, which a crash came before.
fn purge(store: &Store, ghosts: &BTreeSet<(TableId, Rid)>) -> Result<(), StoreFault> {
    for &(id, rid) in ghosts {
        let Some(table) = store.table(id) else { continue };
        let mut journal = store.system(Lsn(0));
        store.insist(|| store.heap(table).purge::<Coupled>(&mut journal, rid)).map_err(stopped)?;
    }
    Ok(())
}

fn stopped(stop: Stop) -> StoreFault {
    match stop {
        Stop::Fault(fault) => StoreFault::Page(fault),
        stop => std::io::Error::other(format!("restart cannot go on: {stop}")).into(),
    }
}
