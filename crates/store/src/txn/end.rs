//! The begin and the ends of a transaction, and notes.
//!
//! ```text
//!            begin            first record                commit
//!     idle ---------> running ------------> running ------------------> idle
//!                        |                     | prepare       rollback  ^
//!                        |                     v                         |
//!                        |                  prepared --------------------+
//!                        +--- commit or rollback of a reader: no record -+
//! ```
//!
//! A running transaction may roll back to a [`Savepoint`]: the same undo, but not of all records.
//! The compensation records name the record before the savepoint as the next one to undo. So a
//! later rollback or restart skips the undone part (ARIES, Mohan et al. 1992, section 5.2).

use crate::StoreFault;
use crate::catalog::definition::HeapForm;
use crate::kind;
use crate::state::store::Store;
use crate::txn::chain::{Home, Mark, Savepoint, Txn, TxnState, system_record};
use crate::txn::touched::row_of;
use access::{Kind, entry_of};
use base::{Key, Lsn, TableId};
use latch::Policies;
use pages::{PageFault, Stop};
use std::sync::Arc;
use wal::{LogOrder, RecordHeader};

/// The name of a live note: the end of its record. For a note given with a commit that is the
/// position that [`Store::commit`] returned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NoteId(pub Lsn);

/// The log order of a transaction's end record: wherever there is room. It depends on everything
/// logged before (a commit dependency), because the transaction may have read changes of other
/// transactions. If a crash loses one of those records, this end does not count.
pub(crate) const DEPENDENT: LogOrder = LogOrder::Dependent(Lsn(0));

impl Store {
    /// Starts a transaction in `txn`, which is new or has ended. `worker` is the number of the
    /// worker that runs it, a hint that spreads inserts over pages.
    #[inline]
    pub fn begin(&self, txn: &mut Txn, worker: usize) {
        assert_eq!(
            txn.state,
            TxnState::Idle,
            "a transaction begins before the last one in its place has ended"
        );
        self.attach(txn);
        txn.chain.worker = worker;
        txn.chain.parted.clear();
        txn.begun += 1;
        txn.state = TxnState::Running;
    }

    pub(crate) fn attach(&self, txn: &mut Txn) {
        if txn.chain.home.as_ref().is_none_or(|home| !Arc::ptr_eq(&home.active, &self.active)) {
            *txn = Txn::default();
            txn.chain.home = Some(Home { slot: self.active.slot(), active: self.active.clone() });
        }
    }

    /// Commits the transaction: its changes stay. The caller may report the commit once the log is
    /// durable up to the returned position, which is `Lsn(0)` if nothing was logged. `note` stays
    /// live until [`Store::forget`]. A commit with a note is logged even if the transaction wrote
    /// nothing else.
    ///
    /// # Errors
    /// The fault that poisoned the store: nothing was committed, and [`Store::rollback`] ends the
    /// transaction.
    ///
    /// # Panics
    /// If the note is longer than [`wal::Log::max_body`].
    pub fn commit(&self, txn: &mut Txn, note: Option<&[u8]>) -> Result<Lsn, StoreFault> {
        debug_assert_ne!(txn.state, TxnState::Idle, "a transaction commits before it begins");
        self.fault().map_or(Ok(()), Err)?;
        let lsn = match note {
            None if !txn.wrote() => Lsn(0),
            None => txn.chain.append_last(&self.log, kind::COMMIT, DEPENDENT, &[]).holds,
            Some(note) => {
                let mut notes = self.notes.lock();
                let kind = if txn.wrote() { kind::NOTED_COMMIT } else { kind::NOTE };
                // A note is named by the end of its record, and the caller waits for that same
                // position. So the record must follow everything it depends on.
                let end = txn.chain.append_last(&self.log, kind, LogOrder::Last, &[note]).end;
                notes.insert(end, note.to_vec());
                end
            }
        };
        txn.committed = lsn;
        txn.finish();
        Ok(lsn)
    }

    /// Work after a commit that no other transaction waits for: purges the rows that the
    /// transaction deleted, and frees the structures that it dropped. Blocks for absent pages.
    pub fn committed<P: Policies>(&self, txn: &mut Txn) {
        if !txn.ghosts.is_empty() {
            let slot = txn.chain.home.as_ref().map(|home| home.slot.clone());
            slot.unwrap_or_default().visiting(|| self.purge_ghosts::<P>(txn));
        }
        if !txn.defined.is_empty() {
            self.clear_away::<P>(txn);
        }
    }

    fn purge_ghosts<P: Policies>(&self, txn: &mut Txn) {
        while let Some((table, rid)) = txn.ghosts.pop() {
            // The locks are released, so another transaction may have dropped the table.
            let Some(table) = self.table(table) else { continue };
            let heap = self.heap(table);
            // If a ghost cannot be purged now (no free frame), it stays: it takes space and does no
            // harm. A fault has poisoned the store already.
            let _ = self.insist(|| heap.purge::<P::Heap>(&mut self.system(txn.committed), rid));
        }
    }

    /// Makes the transaction wait for a decision that is made elsewhere. After a crash,
    /// [`Store::open`] returns it together with `note`. The caller may vote yes once the log is
    /// durable up to the returned position. The transaction then ends by [`Store::commit`] or
    /// [`Store::rollback`].
    ///
    /// # Errors
    /// The fault that poisoned the store, or [`StoreFault::Schema`] for a transaction that changed
    /// the schema: nothing was prepared.
    ///
    /// # Panics
    /// If the note is longer than [`wal::Log::max_body`].
    pub fn prepare(&self, txn: &mut Txn, note: &[u8]) -> Result<Lsn, StoreFault> {
        debug_assert_eq!(
            txn.state,
            TxnState::Running,
            "a transaction is prepared twice, or before it begins"
        );
        self.fault().map_or(Ok(()), Err)?;
        if !txn.defined.is_empty() {
            return Err(cannot_prepare());
        }
        let span = txn.chain.append(&self.log, kind::PREPARE, DEPENDENT, &[note]);
        txn.state = TxnState::Prepared;
        Ok(span.holds)
    }

    /// Undoes everything the transaction did and ends it. On a poisoned store nothing is undone
    /// here: the next restart does that.
    ///
    /// # Errors
    /// [`Stop`]: part is undone; call again once the page is there.
    pub fn rollback<P: Policies>(&self, txn: &mut Txn) -> Result<(), Stop> {
        if self.fault().is_none() {
            self.undo_to::<P>(txn, Mark::default())?;
            if txn.wrote() {
                txn.chain.append_last(&self.log, kind::END, DEPENDENT, &[]);
            }
        }
        txn.ghosts.clear();
        txn.finish();
        if !txn.defined.is_empty() && self.fault().is_none() {
            self.clear_away::<P>(txn);
        }
        txn.defined.clear();
        Ok(())
    }

    /// The current point of the transaction, for [`Store::rollback_to`].
    pub fn savepoint(&self, txn: &Txn) -> Savepoint {
        debug_assert_eq!(txn.state, TxnState::Running, "a savepoint belongs to a running transaction");
        txn.savepoint()
    }

    /// Undoes the changes since `savepoint` by compensation records. The transaction continues from
    /// there. The caller keeps the transaction's locks: no other transaction saw the undone
    /// changes, and this one may repeat them.
    ///
    /// # Errors
    /// [`Stop`]: part is undone; call again once the page is loaded. On a poisoned store nothing is
    /// undone, and only [`Store::rollback`] is left.
    ///
    /// # Panics
    /// If the savepoint belongs to another transaction, or the transaction was rolled back to a
    /// point before it.
    pub fn rollback_to<P: Policies>(&self, txn: &mut Txn, savepoint: &Savepoint) -> Result<(), Stop> {
        assert!(
            txn.reaches(savepoint),
            "a savepoint of another transaction, or one that was rolled back over"
        );
        debug_assert_eq!(txn.state, TxnState::Running, "a prepared transaction is kept or undone whole");
        self.undo_to::<P>(txn, savepoint.mark)
    }

    /// Undoes all records after `mark`. May be repeated after an error.
    pub(crate) fn undo_to<P: Policies>(&self, txn: &mut Txn, mark: Mark) -> Result<(), Stop> {
        while txn.chain.undo.len() > mark.undo {
            self.undo_last::<P>(txn)?;
        }
        txn.ghosts.truncate(mark.ghosts);
        Ok(())
    }

    /// Undoes the youngest record that is not undone yet, if any. After an error nothing was
    /// changed.
    pub(crate) fn undo_last<P: Policies>(&self, txn: &mut Txn) -> Result<(), Stop> {
        // The list is taken out while the chain writes. Compensation records never add to it.
        let mut undo = std::mem::take(&mut txn.chain.undo);
        let undone = undo.last().map(|(entry, body)| {
            txn.chain.compensating = Some(entry.prev);
            let trees = |id| self.catalog.tree(id).map(|(place, role)| (self.tree_at(place, id), role));
            let header = RecordHeader { kind: entry.kind, ..RecordHeader::default() };
            access::undo::<P>(&self.pool, &mut self.writer(&mut txn.chain), &trees, &header, body)?;
            Ok::<_, Stop>(row_of(entry.kind, body).filter(|(table, _)| *table == kind::CATALOG))
        });
        txn.chain.compensating = None;
        if matches!(undone, Some(Ok(_))) {
            txn.chain.parted.extend(undo.last().and_then(|(entry, body)| self.back_in(entry.kind, body)));
        }
        let undone = undone.transpose().inspect(|_| undo.pop());
        txn.chain.undo = undo;
        // The record is undone: an error from here on must not cause a second undo.
        undone?.flatten().map_or(Ok(()), |(_, rid)| self.relearn::<P>(rid))
    }

    /// The key of an undone deletion. Its entry may be back in another leaf than the neighbours of
    /// its row.
    fn back_in(&self, kind: u8, body: &[u8]) -> Option<(TableId, Key)> {
        let (tree, key) = entry_of(kind, body).filter(|_| kind == Kind::TreeDelete as u8)?;
        let divided = self.table(tree).is_some_and(|table| table.form() == HeapForm::ByLeaf);
        divided.then(|| (tree, Key::from_bytes(key)))
    }

    /// Runs an operation of several parts atomically: if it fails, the parts that were done are
    /// undone. If the store meets a fault during that undo, restart undoes the transaction. While
    /// the log has no room for another segment, no operation begins; those that have begun can end.
    pub(crate) fn whole<P: Policies, R>(
        &self,
        txn: &mut Txn,
        operation: impl FnOnce(&Store, &mut Txn) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        self.log.room().map_err(|full| Stop::Fault(Arc::new(PageFault::LogRoom(full))))?;
        let mark = txn.mark();
        let done = operation(self, txn);
        if done.is_err() && self.fault().is_none() {
            self.insist_on_undo(|| self.undo_to::<P>(txn, mark))?;
        }
        done
    }

    /// Logs a note without a transaction. It survives a crash once the log is durable up to the
    /// returned position.
    ///
    /// # Errors
    /// The fault that poisoned the store.
    ///
    /// # Panics
    /// If the note is longer than [`wal::Log::max_body`].
    pub fn note(&self, note: &[u8]) -> Result<(NoteId, Lsn), StoreFault> {
        self.fault().map_or(Ok(()), Err)?;
        let mut notes = self.notes.lock();
        let end = system_record(&self.log, kind::NOTE, LogOrder::Last, &[note]).end;
        notes.insert(end, note.to_vec());
        Ok((NoteId(end), end))
    }

    /// Drops a note. The log record is not waited for, so after a crash the note may exist once
    /// more.
    pub fn forget(&self, note: NoteId) {
        let mut notes = self.notes.lock();
        if notes.remove(&note.0).is_some() {
            system_record(&self.log, kind::FORGET, LogOrder::Last, &[&note.0.0.to_le_bytes()]);
        }
    }
}

pub(crate) fn cannot_prepare() -> StoreFault {
    let text = "a transaction that changes the schema cannot be prepared; commit it alone";
    StoreFault::Schema(text.into())
}
