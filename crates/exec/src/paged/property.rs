//! Pages that workers own (PLP, chapter 3 of Pandis' thesis): those of the primary trees, cut where the workers' keys are cut.
//!
//! ```text
//!   open: trees are cut at the owners' borders      pages are nobody's: latched, whoever touches them
//!   a load begins: take_over, and once every transaction that restart found is decided,
//!                  each worker owns its partitions  pages are their owner's: not latched
//!   the load halts: give_back                       pages are nobody's: filling, audits and checks go anywhere
//! ```
//!
//! While a load runs keys may change owners (`moving`): then the giver's pages become nobody's before the keys are another's, and the
//! taker owns them in its next turn. What is wanted of a worker is what the map says, what it has is its `Door::owned`.
//!
//! Who may do what: a worker owns and disowns on its own thread, between operations, when it holds no page; so
//! whether a page has an owner may change under any transaction, and each access finds out from the page ([`latch::ByPage`]). What keeps others away
//! is the routing of steps: only the owner of a key runs steps on it, whether or not its pages are owned. Three kinds of
//! work do not follow the routing, and none of them is done while pages are owned: filling and auditing (they come when the load has halted),
//! and carrying out the decision on a transaction that restart found (it is counted in `doubts`).
//!
//! Rows in heaps and entries of secondary indexes are latched, always (`plp-regular`).

use super::{PageDesk, PageEngine};
use crate::design::Design;
use crate::engine::{EngineFault, Setup};
use crate::owners::Owners;
use base::{Key, TableId};
use latch::{OwnerId, act_for};
use pages::Stop;
use partition::Ranges;
use std::sync::atomic::{AtomicUsize, Ordering};
use store::StoreFault;

/// What is to be known of pages' owners.
#[derive(Default)]
pub(super) struct Property {
    /// Whether workers own pages at all.
    owned: bool,
    /// Transactions that restart found prepared and whose decision is not carried out yet.
    doubts: AtomicUsize,
}

/// What a worker has, and would have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hold {
    Nothing,
    /// It asks for its pages.
    Wanted,
    Pages,
}

impl Property {
    /// Whether workers own pages at all.
    pub fn owned(&self) -> bool {
        self.owned
    }
}

impl<D: Design> PageEngine<D> {
    /// Cuts every tree where the owners' keys are cut; before any worker begins.
    ///
    /// # Errors
    /// A tree with one root; too many workers; no room.
    pub(super) fn divide(&mut self, setup: &Setup, doubts: usize) -> Result<(), EngineFault> {
        let last = setup.workers - 1;
        if OwnerId::new(last).is_none() {
            return Err(EngineFault::TooManyOwners(setup.design, setup.workers));
        }
        let now = self.owners.as_ref().map(Owners::ranges);
        for (table, borders) in now.iter().flat_map(|now| self.divided(now)) {
            let starts = self.store.partitions(table);
            if starts.is_empty() {
                return Err(EngineFault::OneRoot(setup.design));
            }
            for (start, _) in borders.iter().filter(|(start, _)| !starts.contains(start)) {
                self.store.split_partition::<D::Latch>(table, start).map_err(fault)?;
            }
            // What an earlier life cut elsewhere: who owns what is not remembered.
            for start in
                starts.iter().skip(1).filter(|start| !borders.iter().any(|(border, _)| border == *start))
            {
                self.store.merge_partition::<D::Latch>(table, start).map_err(fault)?;
            }
        }
        self.property = Property { owned: true, doubts: AtomicUsize::new(doubts) };
        Ok(())
    }

    /// The tables whose primary trees have owners.
    pub(super) fn divided_tables(&self) -> Vec<TableId> {
        let (Some(owners), Some(schema)) = (&self.owners, self.store.schema()) else { return Vec::new() };
        let tables = schema.tables.iter().filter(|table| !table.key.is_empty());
        tables.map(|table| table.id).filter(|id| owners.border(*id, 0).is_some()).collect()
    }

    /// They, and where their keys begin.
    fn divided(&self, now: &Ranges) -> Vec<(TableId, Vec<(Key, usize)>)> {
        let Some(owners) = &self.owners else { return Vec::new() };
        self.divided_tables().into_iter().map(|table| (table, owners.borders_in(table, now))).collect()
    }

    /// Every partition with keys of this worker's: its tree, and a key in it.
    fn property_of(&self, worker: usize, now: &Ranges) -> Vec<(TableId, Key)> {
        let mut all = Vec::new();
        for (table, borders) in self.divided(now) {
            for start in self.store.partitions(table) {
                let behind = borders.partition_point(|(border, _)| *border <= start);
                if behind > 0 && borders[behind - 1].1 == worker {
                    all.push((table, start));
                }
            }
        }
        all
    }

    /// The worker begins: pages that say they are its own are touched by this thread only.
    pub(super) fn act(&self, desk: &PageDesk) {
        if self.property.owned {
            act_for(OwnerId::new(desk.worker));
        }
    }

    /// The worker would have its pages to itself.
    pub(super) fn want_pages(&self, desk: &PageDesk) {
        if self.property.owned && desk.hold.get() == Hold::Nothing {
            desk.hold.set(Hold::Wanted);
        }
    }

    /// Owns what is wanted, if it can be had by now, and what has come to this worker since.
    #[inline]
    pub(super) fn own_wanted(&self, desk: &PageDesk) {
        if D::OWNERS && self.property.owned {
            let hold = desk.hold.get();
            let changed =
                || self.owners.as_ref().is_some_and(|owners| owners.version() != desk.door.seen.get());
            if hold == Hold::Wanted || (hold == Hold::Pages && changed()) {
                self.own_pages(desk);
            }
        }
    }

    #[cold]
    fn own_pages(&self, desk: &PageDesk) {
        if self.property.doubts.load(Ordering::Acquire) > 0 {
            return;
        }
        desk.hold.set(Hold::Pages);
        if let Some(owners) = &self.owners {
            // In this order: what changes in between is looked at in the next turn.
            desk.door.seen.set(owners.version());
            self.own_missing(desk, &owners.ranges());
        }
    }

    /// Owns what is this worker's and not owned yet; nothing outside a load.
    pub(super) fn own_missing(&self, desk: &PageDesk, now: &Ranges) {
        if desk.hold.get() != Hold::Pages {
            return;
        }
        let mut owned = desk.door.owned.borrow_mut();
        for (table, start) in self.property_of(desk.worker, now) {
            if owned.contains(&(table, start.clone())) {
                continue;
            }
            if self.store.own_partition(table, &start).is_err() {
                // A fault has poisoned the store. What is not owned is latched.
                return;
            }
            owned.insert((table, start));
        }
    }

    /// The worker's pages become nobody's.
    pub(super) fn disown_pages(&self, desk: &PageDesk) {
        if desk.hold.replace(Hold::Nothing) != Hold::Pages {
            return;
        }
        for (table, start) in desk.door.owned.borrow_mut().drain() {
            // A fault has poisoned the store, and nobody will get at these pages.
            let _ = self.store.disown_partition(table, &start);
        }
    }

    /// The worker ends: its pages are nobody's, and what others have asked of it is done.
    pub(super) fn stop_acting(&self, desk: &PageDesk) {
        if !self.property.owned {
            return;
        }
        self.disown_pages(desk);
        while self.store.pool().asked() && self.store.fault().is_none() {
            self.store.pool().turn();
            std::thread::yield_now();
        }
        act_for(None);
    }

    /// The decision on a transaction that restart found is carried out.
    pub(super) fn undoubted(&self) {
        if self.property.owned {
            self.property.doubts.fetch_sub(1, Ordering::Release);
        }
    }
}

fn fault(stop: Stop) -> EngineFault {
    match stop {
        Stop::Fault(fault) => EngineFault::Store(StoreFault::from(fault)),
        stop => EngineFault::Divide(stop.to_string()),
    }
}
