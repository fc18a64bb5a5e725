//! Transactions that restart found prepared.
//!
//! Their chains are taken up by the worker that will hear of the decision, all of them, whichever workers they were written at:
//! how many workers there are, who owns what, and even the design may have changed with the restart. What they changed is
//! locked again before anything else runs, and stays so until the decision is carried out.
//!
//! These locks belong to a *ward*, a part that does nothing else. Most wards have one transaction. But transactions that got along
//! where they were prepared need not get along here, where one lock may stand for more keys than it did, or for the gap
//! beside a key: those share a ward, for it does not exclude itself, and its locks go when the last of them is decided.
//! Where workers own keys each takes its own of a ward's locks on its own thread, and lets go of them when letters say so.

use super::{PageDesk, PageEngine};
use crate::branches::{Letter, Ward};
use crate::design::Design;
use crate::local::{Part, Protection};
use base::hash64;
use locks::{Acquired, LockName, Mode};
use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};
use store::{Change, InDoubt, Touched};

/// What a transaction has to lock, and in whose table.
type Claims = HashMap<(usize, LockName), Mode>;

/// A ward's locks in one lock table.
pub(super) struct Keeper {
    ward: Ward,
    owner: usize,
    /// Those that are still to be taken.
    claims: Claims,
    /// Has those that are taken.
    part: Option<Part>,
    /// Transactions that are not decided.
    doubts: usize,
}

impl Drop for Keeper {
    /// What is not decided by now keeps its locks: the tables end with the engine, and until then others may be at work.
    fn drop(&mut self) {
        if let Some(part) = self.part.take() {
            std::mem::forget(part.locker);
        }
    }
}

/// A transaction found prepared.
pub struct Doubt {
    found: InDoubt,
    ward: Ward,
    /// In whose tables it has locks.
    owners: Vec<usize>,
}

impl<D: Design> PageEngine<D> {
    /// Makes wards of what was found, and gives each transaction's note; before any worker begins.
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

    /// What has to be locked for a transaction that changed this.
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

    /// Leaves a transaction's claims to a ward's keepers; gives the tables where they are.
    fn entrust(&self, ward: Ward, claims: Claims) -> Vec<usize> {
        let (mut keepers, mut owners) = (self.keepers(), Vec::new());
        for ((owner, name), mode) in claims {
            let at = keepers.iter().position(|k| k.ward == ward && k.owner == owner).unwrap_or_else(|| {
                keepers.push(Keeper { ward, owner, claims: Claims::new(), part: None, doubts: 0 });
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

    /// Takes the locks of all wards in this worker's table; where there is one for all, whoever comes first does.
    pub(super) fn take_wards(&self, desk: &PageDesk) {
        let mut keepers = self.keepers();
        let own = keepers.iter_mut().filter(|keeper| !D::OWNERS || keeper.owner == desk.worker);
        for keeper in own.filter(|keeper| keeper.part.is_none()) {
            let mut part = Part { protection: Protection::Locks, ..self.part_of(desk.worker) };
            if D::OWNERS {
                self.begin_locking(&mut part);
            } else {
                self.count_locking(0, 1);
            }
            let mut claims: Vec<_> = keeper.claims.drain().collect();
            claims.sort_by_key(|((_, name), _)| !name.is_granule());
            claims.into_iter().for_each(|((_, name), mode)| self.regain(&mut part, name, mode));
            keeper.part = Some(part);
        }
    }

    /// # Panics
    /// When somebody else holds the lock: nobody has begun, and whose locks exclude each other share a ward.
    fn regain(&self, part: &mut Part, name: LockName, mode: Mode) {
        let granted = self.locks(part.owner).acquire(&mut part.locker, name, mode);
        assert!(matches!(granted, Acquired::Granted), "two wards claim {name:?}");
    }

    /// The decision on a transaction that was found is carried out, whole.
    pub(super) fn release_wards(&self, desk: &PageDesk, part: &mut Part) {
        let Some((ward, owners)) = part.branches.wards.take() else { return };
        for owner in owners {
            if !D::OWNERS || owner == desk.worker {
                self.release_ward(ward, owner);
            } else {
                desk.mailbox().send(owner, Letter::Release(ward));
            }
        }
    }

    /// One of a ward's transactions is decided. On the thread of the table's owner, if it has one.
    pub(super) fn release_ward(&self, ward: Ward, owner: usize) {
        let mut keepers = self.keepers();
        let Some(at) = keepers.iter().position(|k| k.ward == ward && k.owner == owner) else { return };
        keepers[at].doubts -= 1;
        if keepers[at].doubts == 0
            && let Some(mut part) = keepers.swap_remove(at).part.take()
        {
            self.end(&mut part);
        }
    }

    /// Takes up a transaction that restart found prepared.
    pub(super) fn take_up(&self, desk: &PageDesk, doubt: Doubt) -> Part {
        let Doubt { found, ward, owners } = doubt;
        let mut part = Part { txn: found.txn, protection: Protection::Locks, ..self.part_of(desk.worker) };
        part.branches.found = found.others;
        part.branches.wards = Some((ward, owners));
        if !D::OWNERS {
            self.count_locking(0, 1);
        }
        part
    }
}

/// A ward for each transaction: the same one for those whose claims exclude each other.
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
