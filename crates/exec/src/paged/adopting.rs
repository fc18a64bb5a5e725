//! In-doubt locks: those of transactions that restart found prepared.
//!
//! The worker that will receive the decision takes over all chains of such a transaction, whichever
//! workers wrote them: the number of workers, the owners and even the design may have changed with
//! the restart. The rows that it changed are locked again before any other transaction runs, and
//! stay locked until the decision is carried out.
//!
//! These locks belong to a *group*, a local transaction that does nothing else. Most groups have
//! one transaction. But transactions that were compatible where they were prepared may conflict
//! here, where one lock may stand for more keys, or for the gap beside a key. Such transactions
//! share a group, which does not conflict with itself, and its locks go when the last of them is
//! decided. Where workers own keys each worker takes its own part of a group's locks on its own
//! thread, and releases them when a message tells it to.

use super::{PageEngine, PageWorkerContext};
use crate::branches::{BranchMessage, DoubtGroup};
use crate::design::Design;
use crate::local::{LocalTxn, Protection};
use base::hash64;
use locks::{Acquired, LockName, Mode};
use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};
use store::{InDoubt, KeyChange, Touched};

/// The locks that a transaction needs, by owner of the table and name.
type Claims = HashMap<(usize, LockName), Mode>;

/// A group's locks in one lock table.
pub(super) struct InDoubtLocks {
    group: DoubtGroup,
    owner: usize,
    /// The locks that are still to be taken.
    claims: Claims,
    /// Holds the locks that are taken.
    txn: Option<LocalTxn>,
    /// Transactions that are not decided.
    doubts: usize,
}

impl Drop for InDoubtLocks {
    /// Keeps the locks of undecided transactions: the tables end with the engine, and until then
    /// others may be at work.
    fn drop(&mut self) {
        if let Some(txn) = self.txn.take() {
            std::mem::forget(txn.locker);
        }
    }
}

/// A transaction found prepared.
pub struct Doubt {
    found: InDoubt,
    group: DoubtGroup,
    /// The owners that have its locks in their tables.
    owners: Vec<usize>,
}

impl<D: Design> PageEngine<D> {
    /// Assigns the transactions found to groups, and returns each with its note; before any worker
    /// begins.
    pub(super) fn doubts(&self, found: Vec<InDoubt>) -> Vec<(Vec<u8>, Doubt)> {
        let claims: Vec<Claims> = found.iter().map(|doubt| self.claims(&doubt.touched)).collect();
        let groups = groups(&claims);
        let mut doubts = Vec::new();
        for ((mut found, claims), group) in found.into_iter().zip(claims).zip(groups) {
            let note = std::mem::take(&mut found.note);
            doubts.push((note, Doubt { found, group, owners: self.entrust(group, claims) }));
        }
        doubts
    }

    /// The locks for a transaction that made these changes.
    fn claims(&self, touched: &[Touched]) -> Claims {
        let mut claims = Claims::new();
        let mut claim = |owner, name, mode: Mode| {
            claims.entry((owner, name)).and_modify(|claimed| *claimed = claimed.with(mode)).or_insert(mode);
        };
        for Touched { table, index, key, change, gap } in touched {
            if let Some(owners) = self.owners.as_ref().filter(|_| D::OWNERS) {
                // An entry of an index is protected with its row.
                if table != index {
                    continue;
                }
                let owner = owners.owner_of(*table, key).unwrap_or(0);
                claim(owner, LockName::table(*table), Mode::IX);
                if !key.is_empty() {
                    claim(owner, LockName::key(*table, hash64(owners.locked(*table, key))), Mode::ROW_X);
                }
                continue;
            }
            claim(0, LockName::table(*table), Mode::IX);
            if !key.is_empty() {
                let mode = match change {
                    KeyChange::InPlace => Mode::ROW_X,
                    KeyChange::PutOrTaken => Mode::ROW_AND_GAP_X,
                };
                claim(0, LockName::key(*index, hash64(key)), mode);
            }
            if let Some(next) = gap {
                let end = LockName::end(*index);
                claim(0, next.as_deref().map_or(end, |key| LockName::key(*index, hash64(key))), Mode::GAP_X);
            }
        }
        claims
    }

    /// Adds a transaction's claims to a group's locks; returns the owners of the tables where they
    /// are.
    fn entrust(&self, group: DoubtGroup, claims: Claims) -> Vec<usize> {
        let (mut all, mut owners) = (self.in_doubt_locks(), Vec::new());
        for ((owner, name), mode) in claims {
            let at = all.iter().position(|k| k.group == group && k.owner == owner).unwrap_or_else(|| {
                all.push(InDoubtLocks { group, owner, claims: Claims::new(), txn: None, doubts: 0 });
                all.len() - 1
            });
            let locks = &mut all[at];
            let claimed = locks.claims.entry((owner, name)).or_insert(mode);
            *claimed = claimed.with(mode);
            if !owners.contains(&owner) {
                owners.push(owner);
                locks.doubts += 1;
            }
        }
        owners
    }

    fn in_doubt_locks(&self) -> MutexGuard<'_, Vec<InDoubtLocks>> {
        self.in_doubt_locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the locks of all groups in this worker's table. Where there is one table for all, the
    /// first worker to come does so.
    pub(super) fn take_in_doubt_locks(&self, ctx: &PageWorkerContext) {
        let mut all = self.in_doubt_locks();
        let own = all.iter_mut().filter(|locks| !D::OWNERS || locks.owner == ctx.worker);
        for locks in own.filter(|locks| locks.txn.is_none()) {
            let mut txn = LocalTxn { protection: Protection::Locks, ..self.local_txn_of(ctx.worker) };
            if D::OWNERS {
                self.begin_locking(&mut txn);
            } else {
                self.count_locking(0, 1);
            }
            let mut claims: Vec<_> = locks.claims.drain().collect();
            claims.sort_by_key(|((_, name), _)| !name.is_granule());
            claims.into_iter().for_each(|((_, name), mode)| self.regain(&mut txn, name, mode));
            locks.txn = Some(txn);
        }
    }

    /// Takes a lock for a group.
    ///
    /// # Panics
    /// When another transaction holds the lock. No transaction has begun yet, and those with
    /// conflicting locks share a group.
    fn regain(&self, txn: &mut LocalTxn, name: LockName, mode: Mode) {
        let granted = self.locks(txn.owner).acquire(&mut txn.locker, name, mode);
        assert!(matches!(granted, Acquired::Granted), "two groups claim {name:?}");
    }

    /// The decision on a transaction found prepared is carried out on all its chains.
    pub(super) fn release_in_doubt(&self, ctx: &PageWorkerContext, txn: &mut LocalTxn) {
        let Some((group, owners)) = txn.branches.group.take() else { return };
        for owner in owners {
            if !D::OWNERS || owner == ctx.worker {
                self.release_group(group, owner);
            } else {
                ctx.mailbox().send(owner, BranchMessage::Release(group));
            }
        }
    }

    /// One of a group's transactions is decided. Called on the thread of the table's owner, if it
    /// has one.
    pub(super) fn release_group(&self, group: DoubtGroup, owner: usize) {
        let mut all = self.in_doubt_locks();
        let Some(at) = all.iter().position(|k| k.group == group && k.owner == owner) else { return };
        all[at].doubts -= 1;
        if all[at].doubts == 0
            && let Some(mut txn) = all.swap_remove(at).txn.take()
        {
            // The transactions in doubt to which these locks belong have left no marks.
            self.commit_marks.raise_all(self.store.log().end());
            self.end(&mut txn);
        }
    }

    /// Takes over a transaction that restart found prepared.
    pub(super) fn take_up(&self, ctx: &PageWorkerContext, doubt: Doubt) -> LocalTxn {
        let Doubt { found, group, owners } = doubt;
        let mut txn =
            LocalTxn { store_txn: found.txn, protection: Protection::Locks, ..self.local_txn_of(ctx.worker) };
        txn.branches.found = found.others;
        txn.branches.group = Some((group, owners));
        if !D::OWNERS {
            self.count_locking(0, 1);
        }
        txn
    }
}

/// A group for each transaction: the same one for those with claims that conflict.
fn groups(all: &[Claims]) -> Vec<DoubtGroup> {
    let mut groups: Vec<DoubtGroup> = (0..all.len()).map(DoubtGroup).collect();
    let mut claimants: HashMap<&(usize, LockName), Vec<usize>> = HashMap::new();
    for (i, claims) in all.iter().enumerate() {
        for (name, mode) in claims {
            let before = claimants.entry(name).or_default();
            for &other in before.iter().filter(|other| !all[**other][name].compatible(*mode)) {
                let (mine, theirs) = (groups[i], groups[other]);
                groups.iter_mut().filter(|group| **group == mine).for_each(|group| *group = theirs);
            }
            before.push(i);
        }
    }
    groups
}
