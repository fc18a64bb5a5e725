//! Transactions that restart found prepared.
//!
//! Their chains are taken up by the worker that will hear of the decision, all of them, whichever workers they were written at:
//! how many workers there are and who owns what may have changed with the restart. What they changed is locked again
//! before anything else runs. Where workers own keys each takes the locks of its own on its own thread, as a part that
//! does nothing else (a *ward*), and lets go of them when a letter says that the decision is carried out.

use super::{PageDesk, PageEngine};
use crate::branches::{Letter, Ward};
use crate::design::Design;
use crate::local::{Part, Protection};
use base::hash64;
use locks::{Acquired, LockName, Mode};
use std::sync::PoisonError;
use store::{InDoubt, Touched};

/// The locks that one owner takes for one transaction.
pub(super) struct Wards {
    ward: Ward,
    owner: usize,
    names: Vec<(LockName, Mode)>,
}

/// A transaction found prepared.
pub struct Doubt {
    found: InDoubt,
    ward: Ward,
    /// Who keeps locks for it; nobody where there is one table for all.
    owners: Vec<usize>,
}

impl<D: Design> PageEngine<D> {
    /// Shares out among the owners what a transaction changed; before any worker begins.
    pub(super) fn doubt(&mut self, found: InDoubt, number: usize) -> Doubt {
        let ward = Ward(number);
        let mut shares: Vec<Wards> = Vec::new();
        if let Some(owners) = &self.owners {
            // An entry of an index is protected with its row.
            for touched in found.touched.iter().filter(|t| t.table == t.index) {
                let (table, key) = (touched.table, &touched.key);
                let owner = owners.owner_of(table, key).unwrap_or(0);
                let name = LockName::key(table, hash64(owners.locked(table, key)));
                if !shares.iter().any(|share| share.owner == owner) {
                    shares.push(Wards { ward, owner, names: Vec::new() });
                }
                let share = shares.iter_mut().find(|share| share.owner == owner);
                let names = &mut share.expect("just made").names;
                names.push((LockName::table(table), Mode::IX));
                if !key.is_empty() {
                    names.push((name, Mode::ROW_X));
                }
            }
        }
        let owners = shares.iter().map(|share| share.owner).collect();
        self.wards.get_mut().unwrap_or_else(PoisonError::into_inner).extend(shares);
        Doubt { found, ward, owners }
    }

    /// Takes an owner's locks for transactions found prepared.
    pub(super) fn take_wards(&self, desk: &PageDesk) {
        let mut wards = self.wards.lock().unwrap_or_else(PoisonError::into_inner);
        for Wards { ward, names, .. } in wards.extract_if(.., |share| share.owner == desk.worker) {
            let mut part = self.part_of(desk.worker);
            part.protection = Protection::Locks;
            self.begin_locking(&mut part);
            names.into_iter().for_each(|(name, mode)| self.regain(&mut part, name, mode));
            desk.wards.borrow_mut().insert(ward, part);
        }
    }

    pub(super) fn release_wards(&self, desk: &PageDesk, part: &mut Part) {
        let Some((ward, owners)) = part.branches.wards.take() else { return };
        for owner in owners {
            if owner == desk.worker {
                self.release_ward(desk, ward);
            } else {
                desk.mailbox().send(owner, Letter::Release(ward));
            }
        }
    }

    pub(super) fn release_ward(&self, desk: &PageDesk, ward: Ward) {
        if let Some(mut part) = desk.wards.borrow_mut().remove(&ward) {
            self.end(&mut part);
        }
    }

    /// Takes up a transaction that restart found prepared.
    pub(super) fn take_up(&self, desk: &PageDesk, doubt: Doubt) -> Part {
        let Doubt { found, ward, owners } = doubt;
        let mut part = Part { txn: found.txn, protection: Protection::Locks, ..self.part_of(desk.worker) };
        part.branches.found = found.others;
        if D::OWNERS {
            part.branches.wards = Some((ward, owners));
        } else {
            self.count_locking(0, 1);
            self.lock_touched(&mut part, &found.touched);
        }
        part
    }

    fn lock_touched(&self, part: &mut Part, touched: &[Touched]) {
        for Touched { table, index, key, gap } in touched {
            self.regain(part, LockName::table(*table), Mode::IX);
            if !key.is_empty() {
                self.regain(part, LockName::key(*index, hash64(key)), Mode::ROW_AND_GAP_X);
            }
            if let Some(next) = gap {
                let name =
                    next.as_deref().map_or(LockName::end(*index), |k| LockName::key(*index, hash64(k)));
                self.regain(part, name, Mode::GAP_X);
            }
        }
    }

    /// # Panics
    /// When somebody else holds the lock: prepared transactions held theirs together before the crash.
    fn regain(&self, part: &mut Part, name: LockName, mode: Mode) {
        let granted = self.locks(part.owner).acquire(&mut part.locker, name, mode);
        assert!(matches!(granted, Acquired::Granted), "two transactions in doubt claim {name:?}");
    }
}
