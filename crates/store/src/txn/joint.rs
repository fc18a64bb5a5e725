//! One transaction in several branches. Each branch has its own chain in the log, its own undo
//! list, and perhaps its own worker.
//!
//! Only the end makes the branches one transaction: **a single record names them all**. So after a
//! crash either all branches are committed or none, even if one had written more records than
//! another.
//!
//! Branches are rolled back one by one ([`Store::rollback`]), in any order, each by the worker that
//! ran it. That is safe: until the locks of a branch are released, no other transaction sees its
//! changes. Restart undoes the records of all losers in order of age anyway.

use crate::StoreFault;
use crate::kind::{self, Joint};
use crate::state::store::Store;
use crate::txn::chain::{Chain, Txn, TxnState};
use crate::txn::end::{DEPENDENT, cannot_prepare};
use base::{Lsn, TxnId};
use smallvec::SmallVec;
use wal::LogOrder;

type Branches<T> = SmallVec<[T; 8]>;

fn list(ids: Branches<TxnId>) -> Vec<u8> {
    let mut body = Vec::with_capacity(2 + 8 * ids.len());
    Joint::encode(ids.into_iter(), &mut body);
    body
}

impl Store {
    /// As [`Store::commit`], for all branches of one transaction at once, with one note. Branches
    /// that wrote nothing end without a record.
    ///
    /// # Errors
    /// As [`Store::commit`]: no branch was committed.
    ///
    /// # Panics
    /// Without a branch, or if the note is longer than [`wal::Log::max_body`] less 10 bytes per
    /// branch.
    pub fn commit_together(&self, txns: &mut [&mut Txn], note: Option<&[u8]>) -> Result<Lsn, StoreFault> {
        let Some(only) = writer_if_alone(txns) else { return self.commit_several(txns, note) };
        let lsn = self.commit(txns[only], note)?;
        for (_, txn) in txns.iter_mut().enumerate().filter(|(i, _)| *i != only) {
            txn.committed = lsn;
            txn.finish();
        }
        Ok(lsn)
    }

    fn commit_several(&self, txns: &mut [&mut Txn], note: Option<&[u8]>) -> Result<Lsn, StoreFault> {
        debug_assert!(
            txns.iter().all(|txn| txn.state != TxnState::Idle),
            "a branch commits before it begins"
        );
        self.fault().map_or(Ok(()), Err)?;
        let chains: Branches<&Chain> = txns.iter().filter(|txn| txn.wrote()).map(|txn| &txn.chain).collect();
        let ids = list(chains.iter().map(|chain| chain.id()).collect());
        let lsn = match note {
            None => Chain::append_last_of(&chains, &self.log, kind::JOINT_COMMIT, DEPENDENT, &[&ids]).holds,
            Some(note) => {
                let mut notes = self.notes.lock();
                let (kind, body) = (kind::NOTED_JOINT_COMMIT, [&ids[..], note]);
                let end = Chain::append_last_of(&chains, &self.log, kind, LogOrder::Last, &body).end;
                notes.insert(end, note.to_vec());
                end
            }
        };
        drop(chains);
        for txn in txns.iter_mut() {
            txn.committed = lsn;
            txn.finish();
        }
        Ok(lsn)
    }

    /// As [`Store::prepare`], for all branches of one transaction at once. Restart returns them as
    /// one transaction ([`InDoubt`](crate::InDoubt)). They end by [`Store::commit_together`], or
    /// each by [`Store::rollback`].
    ///
    /// # Errors
    /// As [`Store::prepare`]: no branch was prepared.
    ///
    /// # Panics
    /// As [`Store::commit_together`], and if no branch wrote.
    pub fn prepare_together(&self, txns: &mut [&mut Txn], note: &[u8]) -> Result<Lsn, StoreFault> {
        if let Some(only) = writer_if_alone(txns) {
            return self.prepare(txns[only], note);
        }
        self.fault().map_or(Ok(()), Err)?;
        if txns.iter().any(|txn| !txn.defined.is_empty()) {
            return Err(cannot_prepare());
        }
        let writers = || txns.iter().filter(|txn| txn.wrote());
        let ids = list(writers().map(|txn| txn.chain.id()).collect());
        // The record must follow the last record of each branch: otherwise a crash could keep the
        // prepare and lose changes that it promises.
        let last = writers().map(|txn| txn.chain.last).max().unwrap_or_default();
        let mut written = txns.iter_mut().filter(|txn| txn.wrote());
        let leader = written.next().expect("two branches or more wrote");
        let order = DEPENDENT.not_before(Lsn(last.0 + 1));
        let span = leader.chain.append(&self.log, kind::JOINT_PREPARE, order, &[&ids, note]);
        leader.state = TxnState::Prepared;
        written.for_each(|txn| txn.state = TxnState::Prepared);
        Ok(span.holds)
    }
}

/// The branch that ends for all: the only one that wrote, or the first if none wrote. `None` if
/// several wrote.
fn writer_if_alone(txns: &[&mut Txn]) -> Option<usize> {
    let mut writers = (0..txns.len()).filter(|&i| txns[i].wrote());
    match (writers.next(), writers.next()) {
        (Some(_), Some(_)) => None,
        (only, _) => Some(only.unwrap_or(0)),
    }
}
