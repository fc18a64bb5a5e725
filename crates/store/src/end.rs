//! How a transaction begins and ends, and notes.
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
//! A running transaction may go back to a [`Savepoint`]: the same undo, not all the way. The compensation records name
//! what comes before the savepoint as next to undo, so a later rollback or restart skips what was undone (ARIES,
//! Mohan et al. 1992, section 5.2).

use crate::StoreFault;
use crate::joint::cannot_prepare;
use crate::kind;
use crate::open::{Store, held};
use crate::touched::row_of;
use crate::txn::{Home, Mark, Savepoint, State, Txn, system_record};
use base::{Lsn, PageId};
use latch::Policies;
use pages::{PageFault, Stop};
use std::sync::Arc;
use wal::{Order, RecordHeader};

/// A live note. A note given with a commit is named by the position that [`Store::commit`] returned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NoteId(pub Lsn);

/// Where the end of a transaction goes: wherever there is room, and it does not count without what the transaction may have
/// seen of others.
pub(crate) const RESTING: Order = Order::Resting(Lsn(0));

impl Store {
    /// Starts a transaction in `txn`, which is new or has ended. `worker` says who runs it: a hint that spreads
    /// inserts over pages.
    pub fn begin(&self, txn: &mut Txn, worker: usize) {
        assert_eq!(txn.state, State::Idle, "a transaction begins before the last one in its place has ended");
        self.attach(txn);
        txn.chain.worker = worker;
        txn.begun += 1;
        txn.state = State::Running;
    }

    pub(crate) fn attach(&self, txn: &mut Txn) {
        if txn.chain.home.as_ref().is_none_or(|home| !Arc::ptr_eq(&home.active, &self.active)) {
            *txn = Txn::default();
            txn.chain.home = Some(Home { slot: self.active.slot(), active: self.active.clone() });
        }
    }

    /// Commits: from here on the transaction's changes stay. The commit may be told to others once the log is
    /// durable up to the returned position; `Lsn(0)` if nothing was logged. `note` stays live until
    /// [`Store::forget`]; with one, a commit is logged even if nothing else was.
    ///
    /// # Errors
    /// What poisoned the store: nothing was committed; [`Store::rollback`] ends the transaction.
    ///
    /// # Panics
    /// If the note is longer than [`wal::Log::max_body`].
    pub fn commit(&self, txn: &mut Txn, note: Option<&[u8]>) -> Result<Lsn, StoreFault> {
        debug_assert_ne!(txn.state, State::Idle, "a transaction commits before it begins");
        self.fault().map_or(Ok(()), Err)?;
        let lsn = match note {
            None if !txn.wrote() => Lsn(0),
            None => txn.chain.append_last(&self.log, kind::COMMIT, RESTING, &[]).holds,
            Some(note) => {
                let mut notes = held(&self.notes);
                let kind = if txn.wrote() { kind::NOTED_COMMIT } else { kind::NOTE };
                // A note is named by where its record ends, and that is what its writer is told: so it comes after everything.
                let end = txn.chain.append_last(&self.log, kind, Order::Last, &[note]).end;
                notes.insert(end, note.to_vec());
                end
            }
        };
        txn.committed = lsn;
        txn.finish();
        Ok(lsn)
    }

    /// Work after a commit that no other transaction needs: purges the rows it deleted, and takes away what it
    /// dropped. Blocks for absent pages.
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
            // The locks are gone: the table may be, too.
            let Some(table) = self.table(table) else { continue };
            let heap = self.heap(table);
            // A ghost that cannot be purged now (no frame free) stays one: it costs room, not truth. A fault
            // has poisoned the store already.
            let _ = self.insist(|| heap.purge::<P::Heap>(&mut self.system(txn.committed), rid));
        }
    }

    /// Makes the transaction wait for a decision made elsewhere: after a crash [`Store::open`] hands it out again,
    /// with `note`. The promise may be given once the log is durable up to the returned position. It then ends
    /// by [`Store::commit`] or [`Store::rollback`].
    ///
    /// # Errors
    /// What poisoned the store, or [`StoreFault::Schema`] for a transaction that changed the schema: nothing was
    /// prepared.
    ///
    /// # Panics
    /// If the note is longer than [`wal::Log::max_body`].
    pub fn prepare(&self, txn: &mut Txn, note: &[u8]) -> Result<Lsn, StoreFault> {
        debug_assert_eq!(txn.state, State::Running, "a transaction is prepared twice, or before it begins");
        self.fault().map_or(Ok(()), Err)?;
        if !txn.defined.is_empty() {
            return Err(cannot_prepare());
        }
        let span = txn.chain.append(&self.log, kind::PREPARE, RESTING, &[note]);
        txn.state = State::Prepared;
        Ok(span.holds)
    }

    /// Undoes everything the transaction did and ends it. On a poisoned store nothing is undone here: the next
    /// restart does that.
    ///
    /// # Errors
    /// [`Stop`]: part is undone; call again once the page is there.
    pub fn rollback<P: Policies>(&self, txn: &mut Txn) -> Result<(), Stop> {
        if self.fault().is_none() {
            self.undo_to::<P>(txn, Mark::default())?;
            if txn.wrote() {
                txn.chain.append_last(&self.log, kind::END, RESTING, &[]);
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

    /// Where the transaction stands, to come back to with [`Store::rollback_to`].
    pub fn savepoint(&self, txn: &Txn) -> Savepoint {
        debug_assert_eq!(txn.state, State::Running, "a savepoint belongs to a running transaction");
        txn.savepoint()
    }

    /// Undoes what the transaction did since `savepoint`, by compensation records; it goes on from there. Locks
    /// are the caller's, and kept: what was undone was visible to nobody, and may be done again.
    ///
    /// # Errors
    /// [`Stop`]: part is undone; call again once the page is there. On a poisoned store nothing is undone: all
    /// that is left is [`Store::rollback`].
    ///
    /// # Panics
    /// If the savepoint belongs to another transaction, or was rolled back over.
    pub fn rollback_to<P: Policies>(&self, txn: &mut Txn, savepoint: &Savepoint) -> Result<(), Stop> {
        assert!(
            txn.reaches(savepoint),
            "a savepoint of another transaction, or one that was rolled back over"
        );
        debug_assert_eq!(txn.state, State::Running, "a prepared transaction is kept or undone whole");
        self.undo_to::<P>(txn, savepoint.mark)
    }

    /// Undoes down to where the transaction stood at `mark`. After an error it may be repeated.
    pub(crate) fn undo_to<P: Policies>(&self, txn: &mut Txn, mark: Mark) -> Result<(), Stop> {
        while txn.chain.undo.len() > mark.undo {
            self.undo_last::<P>(txn)?;
        }
        txn.ghosts.truncate(mark.ghosts);
        Ok(())
    }

    /// Undoes the youngest record that is not undone yet, if any. After an error nothing has happened.
    pub(crate) fn undo_last<P: Policies>(&self, txn: &mut Txn) -> Result<(), Stop> {
        // The list is taken out while the chain writes; compensation records never add to it.
        let mut undo = std::mem::take(&mut txn.chain.undo);
        let undone = undo.last().map(|(entry, body)| {
            txn.chain.compensating = Some(entry.prev);
            let trees = |id| self.catalog.tree(id).map(|(place, role)| (self.tree_at(place, id), role));
            let header = RecordHeader { kind: entry.kind, ..RecordHeader::default() };
            access::undo::<P>(&self.pool, &mut self.writer(&mut txn.chain), &trees, &header, body)?;
            Ok::<_, Stop>(row_of(entry.kind, body).filter(|(table, _)| *table == kind::CATALOG))
        });
        txn.chain.compensating = None;
        let undone = undone.transpose().inspect(|_| undo.pop());
        txn.chain.undo = undo;
        // Undone is undone: what fails from here on is no reason to do it again.
        undone?.flatten().map_or(Ok(()), |(_, rid)| self.relearn::<P>(rid))
    }

    /// Runs one operation of several parts so that it happens whole or not at all: what it had done when it
    /// failed is undone. On a store that meets a fault on the way back nothing more can be done here; restart
    /// undoes the transaction.
    pub(crate) fn whole<P: Policies, R>(
        &self,
        txn: &mut Txn,
        operation: impl FnOnce(&Store, &mut Txn) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        let mark = txn.mark();
        let done = operation(self, txn);
        if done.is_err() && self.fault().is_none() {
            self.insist(|| self.undo_to::<P>(txn, mark))?;
        }
        done
    }

    /// Logs a note of no transaction. It is safe once the log is durable up to the returned position.
    ///
    /// # Errors
    /// What poisoned the store.
    ///
    /// # Panics
    /// If the note is longer than [`wal::Log::max_body`].
    pub fn note(&self, note: &[u8]) -> Result<(NoteId, Lsn), StoreFault> {
        self.fault().map_or(Ok(()), Err)?;
        let mut notes = held(&self.notes);
        let end = system_record(&self.log, kind::NOTE, Order::Last, &[note]).end;
        notes.insert(end, note.to_vec());
        Ok((NoteId(end), end))
    }

    /// The note need not survive any more. Nothing is waited for: after a crash it may be there once more.
    pub fn forget(&self, note: NoteId) {
        let mut notes = held(&self.notes);
        if notes.remove(&note.0).is_some() {
            system_record(&self.log, kind::FORGET, Order::Last, &[&note.0.0.to_le_bytes()]);
        }
    }

    /// A fault that names `page` as corrupt.
    pub(crate) fn corrupt(&self, page: PageId) -> Arc<PageFault> {
        let offset = u64::from(page.0) * pages::PAGE_SIZE as u64;
        Arc::new(PageFault::Corrupt { page, file: self.dir.join(crate::DATA), offset })
    }
}
