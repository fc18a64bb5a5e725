//! In-doubt locks: those of transactions that restart found prepared.
//!
//! The worker that will receive the decision takes over all chains of such a transaction, whichever
//! workers wrote them: the number of workers, the owners and even the design may have changed with
//! the restart. The rows that it changed are locked again before any other transaction runs, and
//! stay locked until the decision is carried out.
//!
//! These locks belong to a *ward*, a local transaction that does nothing else. Most wards have one
//! transaction. But transactions that were compatible where they were prepared may conflict here,
//! where one lock may stand for more keys, or for the gap beside a key. Such transactions share a
//! ward, which does not conflict with itself, and its locks go when the last of them is decided.
//! Where workers own keys each worker takes its own part of a ward's locks on its own thread, and
//! releases them when a message tells it to.

use super::{PageEngine, PageWorkerContext};
use crate::branches::{BranchMessage, Ward};
use crate::design::Design;
use crate::local::{LocalTxn, Protection};
use base::hash64;
use locks::{Acquired, LockName, Mode};
use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};
use store::{Change, InDoubt, Touched};

/// The locks that a transaction needs, by owner of the table and name.
type Claims = HashMap<(usize, LockName), Mode>;

/// A ward's locks in one lock table.
pub(super) struct Keeper {
    ward: Ward,
    owner: usize,
    /// The locks that are still to be taken.
    claims: Claims,
    /// Holds the locks that are taken.
    txn: Option<LocalTxn>,
    /// Transactions that are not decided.
    doubts: usize,
}

impl Drop for Keeper {
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
    ward: Ward,
    /// The owners that have its locks in their tables.
    owners: Vec<usize>,
}

impl<D: Design> PageEngine<D> {
    /// Assigns the transactions found to wards, and returns each with its note; before any worker
    /// begins.
    pub(super) fn doubts(&self, found: Vec<InDoubt>) -> Vec<(Vec<u8>, Doubt)> {
        let claims: Vec<Claims> = found.iter().map(|doubt| self.claims(&doubt.touched)).collect();
        let wards = wards(&claims);
        let mut doubts = Vec::new();
        for ((mut found, claims), ward) in found.into_iter().zip(claims).zip(wards) {
            let note = std::mem::take(&mut found.note);
            doubts.push((note, Doubt { found, ward, owners: self.entrust(ward, claims) }));
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
                    Change::InPlace => Mode::ROW_X,
                    Change::PutOrTaken => Mode::ROW_AND_GAP_X,
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

    /// Adds a transaction's claims to a ward's keepers; returns the owners of the tables where they
    /// are.
    fn entrust(&self, ward: Ward, claims: Claims) -> Vec<usize> {
        let (mut keepers, mut owners) = (self.keepers(), Vec::new());
        for ((owner, name), mode) in claims {
            let at = keepers.iter().position(|k| k.ward == ward && k.owner == owner).unwrap_or_else(|| {
                keepers.push(Keeper { ward, owner, claims: Claims::new(), txn: None, doubts: 0 });
                keepers.len() - 1
            });
            let keeper = &mut keepers[at];
            let claimed = keeper.claims.entry((owner, name)).or_insert(mode);
            *claimed = claimed.with(mode);
            if !owners.contains(&owner) {
                owners.push(owner);
                keeper.doubts += 1;
            }
        }
        owners
    }

    fn keepers(&self) -> MutexGuard<'_, Vec<Keeper>> {
        self.keepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the locks of all wards in this worker's table. Where there is one table for all, the
    /// first worker to come does so.
    pub(super) fn take_wards(&self, ctx: &PageWorkerContext) {
        let mut keepers = self.keepers();
        let own = keepers.iter_mut().filter(|keeper| !D::OWNERS || keeper.owner == ctx.worker);
        for keeper in own.filter(|keeper| keeper.txn.is_none()) {
            let mut txn = LocalTxn { protection: Protection::Locks, ..self.local_txn_of(ctx.worker) };
            if D::OWNERS {
                self.begin_locking(&mut txn);
            } else {
                self.count_locking(0, 1);
            }
            let mut claims: Vec<_> = keeper.claims.drain().collect();
            claims.sort_by_key(|((_, name), _)| !name.is_granule());
            claims.into_iter().for_each(|((_, name), mode)| self.regain(&mut txn, name, mode));
            keeper.txn = Some(txn);
        }
    }

    /// Takes a lock for a ward.
    ///
    /// # Panics
    /// When another transaction holds the lock. No transaction has begun yet, and those with
    /// conflicting locks share a ward.
    fn regain(&self, txn: &mut LocalTxn, name: LockName, mode: Mode) {
        let granted = self.locks(txn.owner).acquire(&mut txn.locker, name, mode);
        assert!(matches!(granted, Acquired::Granted), "two wards claim {name:?}");
    }

    /// The decision on a transaction found prepared is carried out on all its chains.
    pub(super) fn release_wards(&self, ctx: &PageWorkerContext, txn: &mut LocalTxn) {
        let Some((ward, owners)) = txn.branches.wards.take() else { return };
        for owner in owners {
            if !D::OWNERS || owner == ctx.worker {
                self.release_ward(ward, owner);
            } else {
                ctx.mailbox().send(owner, BranchMessage::Release(ward));
            }
        }
    }

    /// One of a ward's transactions is decided. Called on the thread of the table's owner, if it
    /// has one.
    pub(super) fn release_ward(&self, ward: Ward, owner: usize) {
        let mut keepers = self.keepers();
        let Some(at) = keepers.iter().position(|k| k.ward == ward && k.owner == owner) else { return };
        keepers[at].doubts -= 1;
        if keepers[at].doubts == 0
            && let Some(mut txn) = keepers.swap_remove(at).txn.take()
        {
            self.end(&mut txn);
        }
    }

    /// Takes over a transaction that restart found prepared.
    pub(super) fn take_up(&self, ctx: &PageWorkerContext, doubt: Doubt) -> LocalTxn {
        let Doubt { found, ward, owners } = doubt;
        let mut txn =
            LocalTxn { store_txn: found.txn, protection: Protection::Locks, ..self.local_txn_of(ctx.worker) };
        txn.branches.found = found.others;
        txn.branches.wards = Some((ward, owners));
        if !D::OWNERS {
            self.count_locking(0, 1);
        }
        txn
    }
}

/// A ward for each transaction: the same one for those with claims that conflict.
fn wards(all: &[Claims]) -> Vec<Ward> {
    let mut wards: Vec<Ward> = (0..all.len()).map(Ward).collect();
    let mut claimants: HashMap<&(usize, LockName), Vec<usize>> = HashMap::new();
    for (i, claims) in all.iter().enumerate() {
        for (name, mode) in claims {
            let before = claimants.entry(name).or_default();
            for &other in before.iter().filter(|other| !all[**other][name].compatible(*mode)) {
                let (mine, theirs) = (wards[i], wards[other]);
                wards.iter_mut().filter(|ward| **ward == mine).for_each(|ward| *ward = theirs);
            }
            before.push(i);
        }
    }
    wards
}
