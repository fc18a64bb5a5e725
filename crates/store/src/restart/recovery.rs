//! Restart: recovery after a crash (ARIES, Mohan et al. 1992).
//!
//! 1. *Analysis* is one pass over the log. It determines the transactions that have not ended. For
//!    each record from the checkpoint's `redo_start` on it notes the record's position with the
//!    pages that the record changes.
//! 2. *Redo* of a page happens when the page is read: the records that the page does not contain
//!    yet are repeated (see `redo`).
//! 3. *Undo*: the records of unfinished transactions are collected (see `analysis`). Transactions
//!    that were not prepared (losers) are rolled back by the same code as in normal operation, with
//!    compensation records. So a crash during restart leaves a log that the next restart handles.
//!    Prepared transactions are returned to the caller.
//!
//! Records before `redo_start` are read only for transactions that were running at the checkpoint,
//! and only collected.
//!
//! **Duration.** Opening reads about
//! [`StoreOptions::checkpoint_bytes`](crate::StoreOptions::checkpoint_bytes) of log, plus the log
//! written while the checkpoint was taken, and the pages that losers changed. It reads no other
//! page before a transaction asks for it, and writes none. The remaining pages are brought up to
//! date between transactions ([`Store::redo_some`]). The next checkpoint is due at the same time as
//! without a restart.

use crate::StoreFault;
use crate::restart::analysis::{Analysis, Open, Prepared};
use crate::state::control::{Checkpoint, Control};
use crate::state::redo::{History, MOST};
use crate::state::store::Store;
use crate::txn::chain::{Txn, TxnState};
use crate::txn::end::NoteId;
use crate::txn::touched::{Touched, row_of};
use access::Kind;
use base::{Lsn, Rid, TableId, TxnId};
use latch::Coupled;
use pages::Stop;
use std::collections::{BTreeSet, BinaryHeap};

/// The result of opening.
pub struct Recovered {
    /// Prepared transactions without a known decision (in doubt). The caller ends each by
    /// [`Store::commit`] or [`Store::rollback`].
    pub in_doubt: Vec<InDoubt>,
    /// Live notes, oldest first.
    pub notes: Vec<(NoteId, Vec<u8>)>,
    /// The number of times the database has been opened, including this time; 1 for a new one.
    pub life: u32,
    /// Log records to repeat, and their bytes.
    pub redo_records: u64,
    pub redo_bytes: u64,
    /// Transactions rolled back.
    pub rolled_back: usize,
}

/// A prepared transaction.
pub struct InDoubt {
    pub txn: Txn,
    /// Its other branches, if it was prepared with [`Store::prepare_together`].
    pub others: Vec<Txn>,
    /// The note given with [`Store::prepare`].
    pub note: Vec<u8>,
    /// The keys to lock until the decision.
    pub touched: Vec<Touched>,
}

pub(crate) fn restart(store: &Store, control: &Control) -> Result<Recovered, StoreFault> {
    let checkpoint = &control.checkpoint;
    if checkpoint.redo_start > store.log.end() {
        return Err(StoreFault::LogBehind {
            dir: store.dir.join("log"),
            found: store.log.end(),
            expected: checkpoint.redo_start,
        });
    }
    let analysis = read(store, checkpoint)?;
    store.pool.restore_allocator(&analysis.allocator())?;
    *store.notes.lock() = analysis.notes;
    store.open_catalog()?;
    let (mut in_doubt, mut losers) = (Vec::new(), Vec::new());
    for (id, found) in analysis.open {
        let (txn, prepared) = adopt(store, id, found);
        match prepared {
            Some(note) => in_doubt.push((txn, note)),
            None => losers.push(txn),
        }
    }
    in_doubt.sort_unstable_by_key(|(txn, _): &(Txn, Prepared)| txn.chain.first);
    let rolled_back = losers.len();
    roll_back(store, losers)?;
    purge(store, &analysis.ghosts)?;
    store.clear_catalog()?;
    Ok(Recovered {
        in_doubt: together(store, in_doubt)?,
        notes: store.notes.lock().iter().map(|(&lsn, note)| (NoteId(lsn), note.clone())).collect(),
        life: control.life,
        redo_records: analysis.redo_records,
        redo_bytes: analysis.redo_bytes,
        rolled_back,
    })
}

/// Reads the log once for analysis, and notes the positions of records for the pages they change.
fn read(store: &Store, checkpoint: &Checkpoint) -> Result<Analysis, StoreFault> {
    let mut analysis = Analysis::new(checkpoint);
    if checkpoint.scan_start() < checkpoint.redo_start {
        read_up_to(store, checkpoint, &mut analysis)?;
    }
    let mut log = store.log.read_from(checkpoint.redo_start);
    let most = store.checkpoint_bytes.saturating_mul(4).min(MOST);
    let expected = store.log.end().0.saturating_sub(checkpoint.redo_start.0).min(most);
    log.keep(expected as usize);
    let (mut history, mut long) = (History::default(), false);
    while let Some(read) = log.advance(|span, header, body| {
        analysis.record(span, header, body, |page, how| {
            store.pool.check(page)?;
            if how.changes() {
                history.add(page, span.start);
            }
            Ok(())
        })
    }) {
        read??;
        if log.kept() as u64 > most {
            long = true;
            store.redo.repeat_later(std::mem::take(&mut history), log.take_kept());
            store.finish_redo()?;
        }
    }
    store.redo.repeat_later(history, log.take_kept());
    if long {
        store.finish_redo()?;
    }
    if let Some(oldest) = analysis.oldest() {
        let mut log = store.log.read_from(oldest);
        while let Some(read) = log.advance(|span, header, body| analysis.collect(span, header, body)) {
            read?;
        }
    }
    Ok(analysis)
}

/// Reads the log before `redo_start`, for the transactions that were running at the checkpoint.
fn read_up_to(store: &Store, checkpoint: &Checkpoint, analysis: &mut Analysis) -> Result<(), StoreFault> {
    let mut log = store.log.read_from(checkpoint.scan_start());
    while let Some(read) = log.advance(|span, header, body| {
        if span.start >= checkpoint.redo_start {
            return Ok(Progress::Over);
        }
        analysis.record(span, header, body, |_, _| Ok(())).map(|()| Progress::Going)
    }) {
        if read?? == Progress::Over {
            break;
        }
    }
    Ok(())
}

#[derive(PartialEq, Eq)]
enum Progress {
    Going,
    Over,
}

/// Combines the branches that were prepared together.
fn together(store: &Store, branches: Vec<(Txn, Prepared)>) -> Result<Vec<InDoubt>, StoreFault> {
    let mut all: Vec<(TxnId, InDoubt)> = Vec::new();
    for (txn, Prepared { leader, note }) in branches {
        let touched = store.touched(&txn.chain.undo).map_err(stopped)?;
        match all.iter_mut().find(|(known, _)| *known == leader) {
            Some((_, doubt)) => {
                doubt.others.push(txn);
                doubt.touched.extend(touched);
            }
            None => all.push((leader, InDoubt { txn, others: Vec::new(), note, touched })),
        }
    }
    Ok(all.into_iter().map(|(_, doubt)| doubt).collect())
}

/// Makes a transaction from the log one that can continue.
fn adopt(store: &Store, id: TxnId, found: Open) -> (Txn, Option<Prepared>) {
    let mut txn = Txn::default();
    store.attach(&mut txn);
    // If a prepared deletion commits, its ghosts must be purged.
    let deleted = found.undo.iter().filter(|(e, _)| Kind::of(e.kind) == Some(Kind::HeapDelete));
    txn.ghosts = deleted.filter_map(|(e, body)| row_of(e.kind, body)).collect();
    txn.state = if found.prepared.is_some() { TxnState::Prepared } else { TxnState::Running };
    txn.chain.adopt(id, found.first, found.last, found.undo);
    (txn, found.prepared)
}

/// Rolls the losers back together. The next record to undo is always the youngest of all losers'
/// records.
///
/// The order matters. T1 changes a row and appends its commit record. Its locks are released then,
/// before the record is durable, and T2 changes the same row. A crash loses T1's commit record:
/// both are losers now. T2's change must be undone first. If T1 were undone before T2, the undo of
/// T2 would bring back the value that T1 wrote, which never committed. And if T1 and T2 changed two
/// rows in opposite orders, undoing one whole transaction after the other is wrong in both orders.
fn roll_back(store: &Store, mut losers: Vec<Txn>) -> Result<(), StoreFault> {
    let next = |txn: &Txn| txn.chain.undo.lsn_before(txn.chain.undo.len());
    let mut order: BinaryHeap<(Lsn, usize)> = losers.iter().map(next).zip(0..).collect();
    while let Some((_, who)) = order.pop() {
        let txn = &mut losers[who];
        if txn.chain.undo.len() == 0 {
            // Only the end record is left to write.
            store.insist(|| store.rollback::<Coupled>(txn)).map_err(stopped)?;
            continue;
        }
        store.insist(|| store.undo_last::<Coupled>(txn)).map_err(stopped)?;
        order.push((next(txn), who));
    }
    Ok(())
}

/// Purges the ghosts of committed deletions, which a crash left.
fn purge(store: &Store, ghosts: &BTreeSet<(TableId, Rid)>) -> Result<(), StoreFault> {
    for &(id, rid) in ghosts {
        let Some(table) = store.table(id) else { continue };
        let mut journal = store.system(Lsn(0));
        store.insist(|| store.heap(table).purge::<Coupled>(&mut journal, rid)).map_err(stopped)?;
    }
    Ok(())
}

pub(crate) fn stopped(stop: Stop) -> StoreFault {
    match stop {
        Stop::Fault(fault) => StoreFault::Page(fault),
        stop => std::io::Error::other(format!("restart cannot go on: {stop}")).into(),
    }
}
