//! Pages that workers own (PLP, chapter 3 of Pandis' thesis): those of the primary trees, cut where the workers' keys are cut, and where
//! heap pages are divided likewise, those of rows.
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
//! Under `plp-regular` rows are latched. Under `plp-partition` and `plp-leaf` each heap page holds rows of one partition
//! ([`store::HeapForm`]), and a worker that owns partitions takes over the heap pages that it changes, one by one as it comes to them. Pages
//! of a table without a key are those of whoever appends to them. Entries of secondary indexes are latched, always.
//!
//! `plp-leaf`: where leaves were parted rows may have to move, once no transaction that may be undone has changed them: the owner
//! notes it (`parted`) and comes back to it in its turns.

use super::{PageDesk, PageEngine};
use crate::design::Design;
use crate::engine::{EngineFault, Setup};
use crate::owners::Owners;
use base::{Key, TableId};
use latch::{Claiming, OwnerId, act_for, claim};
use pages::Stop;
use partition::Ranges;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use store::{HeapForm, Reach, StoreFault, Txn, Writers};

/// What is to be known of pages' owners.
#[derive(Default)]
pub(super) struct Property {
    /// Whether workers own pages at all.
    owned: bool,
    /// Whether they own heap pages.
    rows: bool,
    /// Whether leaves may lead to pages of others since before this life: after a crash, or after designs that leave it so.
    unsettled: bool,
    /// Transactions that restart found prepared and whose decision is not carried out yet.
    doubts: AtomicUsize,
    /// Workers that have not looked yet through all leaves that were theirs at the start; above 0 for good if any could not.
    unsettled_workers: AtomicUsize,
}

/// Turns that pass before rows are looked at again that could not be moved yet.
const PATIENCE: u32 = 256;

/// Leaves that are looked at in one turn.
const LEAVES_A_TURN: usize = 4;

/// What one worker has still to do about rows in the wrong pages.
#[derive(Default)]
pub(super) struct Parted {
    /// Leaves to look at: their tree, a key in them, and what is next.
    leaves: VecDeque<(TableId, Key, Then)>,
    /// Turns to let pass.
    rest: u32,
    txn: Txn,
    /// Under way through the leaves that were the worker's at the start.
    walks: bool,
    /// Some of what was to be looked at was not.
    skipped: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Then {
    Done,
    /// The leaf behind it, up to this key.
    Until(Option<Key>),
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

    /// Whether they own heap pages.
    pub fn rows(&self) -> bool {
        self.rows
    }

    /// Whether a transaction may be undone that no worker runs.
    pub fn in_doubt(&self) -> bool {
        self.doubts.load(Ordering::Acquire) > 0
    }

    /// How far apart rows may lie that share a page.
    pub fn reach(&self) -> Reach {
        if self.unsettled_workers.load(Ordering::Acquire) == 0 { Reach::Leaf } else { Reach::Partition }
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
        let form = setup.design.heap_form();
        let other = self.store.heap_form().filter(|other| form != HeapForm::Shared && *other != form);
        if let Some(other) = other {
            return Err(EngineFault::Form(setup.design, form.name(), other.name()));
        }
        let mut txn = Txn::default();
        let now = self.owners.as_ref().map(Owners::ranges);
        for (table, borders) in now.iter().flat_map(|now| self.divided(now)) {
            let starts = self.store.partitions(table);
            if starts.is_empty() {
                return Err(EngineFault::OneRoot(setup.design));
            }
            for (start, _) in borders.iter().filter(|(start, _)| !starts.contains(start)) {
                if doubts > 0 && self.store.heap_form().is_some_and(|form| form != HeapForm::Shared) {
                    // Rows that a transaction in doubt has changed cannot be told apart before it is decided: nobody owns pages until
                    // the next opening.
                    return Ok(());
                }
                let how = (Reach::Partition, Writers::Gone);
                self.store.divide_rows::<D::Latch>(&mut txn, table, start, how).map_err(fault)?;
                self.store.split_partition::<D::Latch>(table, start).map_err(fault)?;
            }
            // What an earlier life cut elsewhere: who owns what is not remembered.
            for start in
                starts.iter().skip(1).filter(|start| !borders.iter().any(|(border, _)| border == *start))
            {
                self.store.merge_partition::<D::Latch>(table, start).map_err(fault)?;
            }
        }
        let rows = form != HeapForm::Shared;
        if rows {
            let divided = self.divided_tables();
            self.store.have_owners(|table| divided.contains(&table));
        }
        self.property = Property {
            owned: true,
            rows,
            unsettled: form == HeapForm::ByLeaf,
            doubts: AtomicUsize::new(doubts),
            unsettled_workers: AtomicUsize::new(if form == HeapForm::ByLeaf { setup.workers } else { 0 }),
        };
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
        let property = self.property_of(desk.worker, now);
        for (table, start) in &property {
            if owned.contains(&(*table, start.clone())) {
                continue;
            }
            if self.store.own_partition(*table, start).is_err() {
                // A fault has poisoned the store. What is not owned is latched.
                return;
            }
            owned.insert((*table, start.clone()));
        }
        if self.property.rows {
            claim(Claiming::Pages);
        }
        if self.property.unsettled && !desk.looked.replace(true) {
            let leaves = property.into_iter().map(|(table, start)| {
                let end = self.store.partitions(table).into_iter().find(|next| *next > start);
                (table, start, Then::Until(end))
            });
            let mut parted = desk.parted.borrow_mut();
            parted.leaves.extend(leaves);
            parted.walks = true;
            self.walked(&mut parted);
        }
    }

    /// The worker may have looked through all leaves that were its own at the start.
    fn walked(&self, parted: &mut Parted) {
        if parted.walks && parted.leaves.iter().all(|(_, _, then)| *then == Then::Done) {
            parted.walks = false;
            if !parted.skipped {
                self.property.unsettled_workers.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// The worker has not looked, or will not look, at all it should have.
    fn skip(&self, parted: &mut Parted) {
        if !parted.walks && !parted.skipped {
            self.property.unsettled_workers.fetch_add(1, Ordering::AcqRel);
        }
        parted.skipped = true;
    }

    /// A transaction, or a branch of one, has ended here: where leaves were parted rows are to be looked at.
    #[inline]
    pub(super) fn note_parted(&self, desk: &PageDesk, txn: &mut Txn) {
        if D::OWNERS && txn.has_parted() {
            self.note_leaves(desk, txn);
        }
    }

    #[cold]
    fn note_leaves(&self, desk: &PageDesk, txn: &mut Txn) {
        let mut parted = self.store.parted(txn);
        // Of a copy every worker reads the rows: nobody has them to himself, to move them.
        parted.retain(|(table, _)| {
            self.owners.as_ref().is_some_and(|owners| owners.border(*table, 0).is_some())
        });
        if self.property.rows && desk.hold.get() == Hold::Pages {
            let leaves = parted.into_iter().map(|(table, key)| (table, key, Then::Done));
            desk.parted.borrow_mut().leaves.extend(leaves);
        } else if self.property.rows && !parted.is_empty() {
            self.skip(&mut desk.parted.borrow_mut());
        }
    }

    pub(super) fn has_pages(&self, desk: &PageDesk) -> bool {
        desk.hold.get() == Hold::Pages
    }

    /// Looks at a few of the leaves noted, between transactions. `true` when there were any.
    #[inline]
    pub(super) fn settle(&self, desk: &PageDesk) -> bool {
        D::OWNERS && self.property.rows && desk.hold.get() == Hold::Pages && self.settle_some(desk)
    }

    fn settle_some(&self, desk: &PageDesk) -> bool {
        let mut parted = desk.parted.borrow_mut();
        if parted.leaves.is_empty() || parted.rest > 0 {
            parted.rest = parted.rest.saturating_sub(1);
            return false;
        }
        let later = self.settle_leaves(&mut parted, LEAVES_A_TURN, Writers::Running);
        self.walked(&mut parted);
        if later > 0 {
            parted.rest = PATIENCE;
        }
        true
    }

    /// Looks at no more than `most` leaves; gives how many wait for transactions to end.
    fn settle_leaves(&self, parted: &mut Parted, most: usize, writers: Writers) -> usize {
        let mut later = 0;
        for _ in 0..most {
            let Some((table, key, then)) = parted.leaves.pop_front() else { break };
            // Without room rows stay where they are: it costs order, not truth. A fault has poisoned the store.
            let settled = self.store.settle_rows::<D::Latch>(&mut parted.txn, table, &key, writers);
            let Ok((divided, next)) = settled else {
                self.skip(parted);
                continue;
            };
            if divided.absent > 0 {
                self.skip(parted);
            }
            if divided.later > 0 {
                later += 1;
                parted.leaves.push_back((table, key, Then::Done));
            }
            if let (Then::Until(end), Some(next)) = (then, next)
                && end.as_ref().is_none_or(|end| next < *end)
            {
                parted.leaves.push_front((table, next, Then::Until(end)));
            }
        }
        later
    }

    /// Looks at every leaf that was parted; when nothing is under way at this worker.
    pub(super) fn settle_all(&self, desk: &PageDesk) {
        let mut parted = desk.parted.borrow_mut();
        let (walks, noted) = parted.leaves.drain(..).partition(|(_, _, then)| *then != Then::Done);
        parted.leaves = noted;
        let all = parted.leaves.len();
        self.settle_leaves(&mut parted, all, Writers::Gone);
        parted.leaves.extend::<VecDeque<_>>(walks);
    }

    /// Leaves from one key to another are another worker's to look at.
    pub(super) fn forget_leaves(&self, desk: &PageDesk, table: TableId, from: &Key, to: Option<&Key>) {
        let mut parted = desk.parted.borrow_mut();
        let is_given = |key: &Key| key >= from && to.is_none_or(|to| key < to);
        let mut kept = VecDeque::new();
        let mut skipped = false;
        for (of, key, then) in parted.leaves.drain(..) {
            let Then::Until(end) = &then else {
                if of != table || !is_given(&key) {
                    kept.push_back((of, key, then));
                }
                continue;
            };
            let apart = end.as_ref().is_some_and(|end| end <= from) || to.is_some_and(|to| key >= *to);
            if of != table || apart {
                kept.push_back((of, key, then));
                continue;
            }
            skipped = true;
            if key < *from {
                kept.push_back((of, key, Then::Until(Some(from.clone()))));
            }
            if let Some(to) = to.filter(|to| end.as_ref().is_none_or(|end| *to < end)) {
                kept.push_back((of, to.clone(), Then::Until(end.clone())));
            }
        }
        parted.leaves = kept;
        if skipped {
            self.skip(&mut parted);
        }
        self.walked(&mut parted);
    }

    /// The worker's pages become nobody's.
    pub(super) fn disown_pages(&self, desk: &PageDesk) {
        if desk.hold.get() != Hold::Pages {
            return;
        }
        {
            let mut parted = desk.parted.borrow_mut();
            let all = parted.leaves.len() * 2;
            self.settle_leaves(&mut parted, all, Writers::Running);
            self.walked(&mut parted);
            // What was left for later is no more than order; a walk goes on with the next load.
            let before = parted.leaves.len();
            parted.leaves.retain(|(_, _, then)| *then != Then::Done);
            if parted.leaves.len() < before {
                self.skip(&mut parted);
            }
        }
        desk.door.owned.borrow_mut().clear();
        desk.hold.set(Hold::Nothing);
        claim(Claiming::Nothing);
        // After a fault, which has poisoned the store, nobody will get at these pages.
        let _ = self.store.pool().disown_mine();
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
