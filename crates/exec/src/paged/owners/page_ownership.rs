//! Page ownership (PLP, chapter 3 of Pandis' thesis). Workers own the pages of the primary trees,
//! which are cut where the workers' keys are cut. Where heap pages are divided likewise, workers
//! own those of rows, too.
//!
//! ```text
//!   open: trees are cut at the owners' borders    pages have no owner: every thread latches them
//!   a load begins: take_over, and once every
//!   transaction that restart found is decided,
//!   each worker owns its partitions               pages have owners: not latched
//!   the load halts: give_back                     pages have no owner: filling, audits and checks
//!                                                 go anywhere
//! ```
//!
//! While a load runs keys may change owners (`moving`). The giver then disowns its pages before it
//! gives the keys away, and the taker owns them in its next turn. The owner map holds the keys that
//! a worker should own; `DrainGate::owned` holds the partitions with pages that it owns.
//!
//! Access rules: a worker owns and disowns on its own thread, between operations, when it holds no
//! page. So the owner of a page may change during any transaction, and each access reads it from
//! the page ([`latch::ByPage`]). The routing of steps keeps others away: only the owner of a key
//! runs steps on it, whether or not its pages are owned. Three kinds of work do not follow the
//! routing, and none of them runs while pages are owned: filling and auditing (both start after the
//! load has halted), and carrying out the decision on a transaction that restart found (`doubts`
//! counts those).
//!
//! Under `plp-regular` rows are latched. Under `plp-partition` and `plp-leaf` each heap page holds
//! rows of one partition ([`store::HeapForm`]), and a worker that owns partitions takes over the
//! heap pages that it changes, one by one as it comes to them. The pages of a table without a key
//! belong to the workers that append to them. Entries of secondary indexes are always latched.
//!
//! `plp-leaf`: where a leaf was split (parted) rows may have to move, but not before every
//! transaction that changed them and may be undone has ended. The owner notes the leaf (`parted`)
//! and returns to it in its turns.

use crate::design::Design;
use crate::engine::{EngineFault, Setup};
use crate::owners::Owners;
use crate::paged::{PageEngine, PageWorkerContext};
use base::{Key, TableId};
use latch::{Claiming, OwnerId, act_for, claim};
use pages::Stop;
use partition::Ranges;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use store::{HeapForm, Reach, StoreFault, Txn, Writers};

/// The state of page ownership.
#[derive(Default)]
pub(in crate::paged) struct PageOwnership {
    /// Whether workers own pages at all.
    owned: bool,
    /// Whether they own heap pages.
    rows: bool,
    /// Whether leaves may lead to pages with rows of other leaves since before this opening: after
    /// a crash, or after designs that leave them so.
    unsettled: bool,
    /// Transactions that restart found prepared, with a decision that is not carried out yet.
    doubts: AtomicUsize,
    /// Workers that have not looked through all leaves that were theirs at the start. Above 0 for
    /// good if any worker could not.
    unsettled_workers: AtomicUsize,
}

/// Turns that pass before a worker looks again at rows that it could not move.
const PATIENCE: u32 = 256;

/// Leaves to look at in one turn.
const LEAVES_A_TURN: usize = 4;

/// One worker's remaining work on rows in the wrong pages.
#[derive(Default)]
pub(in crate::paged) struct Parted {
    /// Leaves to look at: their tree, a key in them, and the continuation.
    leaves: VecDeque<(TableId, Key, Then)>,
    /// Turns to let pass.
    rest: u32,
    txn: Txn,
    /// The worker is on its way through the leaves that were its own at the start.
    walks: bool,
    /// It has left out leaves that it should have looked at.
    skipped: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Then {
    Done,
    /// The leaf behind it, up to this key.
    Until(Option<Key>),
}

/// A worker's hold on its pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::paged) enum Hold {
    Nothing,
    /// It wants its pages and does not own them yet.
    Wanted,
    Pages,
}

impl PageOwnership {
    /// Whether workers own pages at all.
    pub fn owned(&self) -> bool {
        self.owned
    }

    /// Whether they own heap pages.
    pub fn rows(&self) -> bool {
        self.rows
    }

    /// Whether a transaction that no worker runs may still be undone.
    pub fn in_doubt(&self) -> bool {
        self.doubts.load(Ordering::Acquire) > 0
    }

    /// How far apart two rows on one page may lie.
    pub fn reach(&self) -> Reach {
        if self.unsettled_workers.load(Ordering::Acquire) == 0 { Reach::Leaf } else { Reach::Partition }
    }
}

impl<D: Design> PageEngine<D> {
    /// Cuts every tree where the owners' keys are cut; before any worker starts.
    ///
    /// # Errors
    /// A tree with one root; too many workers; no free pages.
    pub(in crate::paged) fn divide(&mut self, setup: &Setup, doubts: usize) -> Result<(), EngineFault> {
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
                    // Rows that a transaction in doubt has changed cannot be separated before its
                    // decision. So no worker owns pages until the next opening.
                    return Ok(());
                }
                let how = (Reach::Partition, Writers::Gone);
                self.store.divide_rows::<D::Latch>(&mut txn, table, start, how).map_err(fault)?;
                self.store.split_partition::<D::Latch>(table, start).map_err(fault)?;
            }
            // Cuts of an earlier opening at other keys: owners are not stored.
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
        self.ownership = PageOwnership {
            owned: true,
            rows,
            unsettled: form == HeapForm::ByLeaf,
            doubts: AtomicUsize::new(doubts),
            unsettled_workers: AtomicUsize::new(if form == HeapForm::ByLeaf { setup.workers } else { 0 }),
        };
        Ok(())
    }

    /// The tables with primary trees that workers own.
    pub(in crate::paged) fn divided_tables(&self) -> Vec<TableId> {
        let (Some(owners), Some(schema)) = (&self.owners, self.store.schema()) else { return Vec::new() };
        let tables = schema.tables.iter().filter(|table| !table.key.is_empty());
        tables.map(|table| table.id).filter(|id| owners.border(*id, 0).is_some()).collect()
    }

    /// The same tables, with the borders of each.
    fn divided(&self, now: &Ranges) -> Vec<(TableId, Vec<(Key, usize)>)> {
        let Some(owners) = &self.owners else { return Vec::new() };
        self.divided_tables().into_iter().map(|table| (table, owners.borders_in(table, now))).collect()
    }

    /// Every partition with keys of this worker: its tree, and a key in it.
    fn partitions_of(&self, worker: usize, now: &Ranges) -> Vec<(TableId, Key)> {
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

    /// The worker starts: from here on only this thread touches pages that are marked as its own.
    pub(in crate::paged) fn act(&self, ctx: &PageWorkerContext) {
        if self.ownership.owned {
            act_for(OwnerId::new(ctx.worker));
        }
    }

    /// The worker asks for its pages.
    pub(in crate::paged) fn want_pages(&self, ctx: &PageWorkerContext) {
        if self.ownership.owned && ctx.hold.get() == Hold::Nothing {
            ctx.hold.set(Hold::Wanted);
        }
    }

    /// Owns the pages that the worker asked for, if that is possible yet, and those of keys that it
    /// got since.
    #[inline]
    pub(in crate::paged) fn own_wanted(&self, ctx: &PageWorkerContext) {
        if D::OWNERS && self.ownership.owned {
            let hold = ctx.hold.get();
            let changed =
                || self.owners.as_ref().is_some_and(|owners| owners.version() != ctx.gate.seen.get());
            if hold == Hold::Wanted || (hold == Hold::Pages && changed()) {
                self.own_pages(ctx);
            }
        }
    }

    #[cold]
    fn own_pages(&self, ctx: &PageWorkerContext) {
        if self.ownership.doubts.load(Ordering::Acquire) > 0 {
            return;
        }
        ctx.hold.set(Hold::Pages);
        if let Some(owners) = &self.owners {
            // The version first: a change in between is seen in the next turn.
            ctx.gate.seen.set(owners.version());
            self.own_missing(ctx, &owners.ranges());
        }
    }

    /// Owns the pages that are this worker's and not owned yet; does nothing outside a load.
    pub(in crate::paged) fn own_missing(&self, ctx: &PageWorkerContext, now: &Ranges) {
        if ctx.hold.get() != Hold::Pages {
            return;
        }
        let mut owned = ctx.gate.owned.borrow_mut();
        let partitions = self.partitions_of(ctx.worker, now);
        for (table, start) in &partitions {
            if owned.contains(&(*table, start.clone())) {
                continue;
            }
            if self.store.own_partition(*table, start).is_err() {
                // A fault has poisoned the store. Pages without an owner are latched.
                return;
            }
            owned.insert((*table, start.clone()));
        }
        if self.ownership.rows {
            claim(Claiming::Pages);
        }
        if self.ownership.unsettled && !ctx.looked.replace(true) {
            let leaves = partitions.into_iter().map(|(table, start)| {
                let end = self.store.partitions(table).into_iter().find(|next| *next > start);
                (table, start, Then::Until(end))
            });
            let mut parted = ctx.parted.borrow_mut();
            parted.leaves.extend(leaves);
            parted.walks = true;
            self.walked(&mut parted);
        }
    }

    /// Checks whether the worker has looked through all leaves that were its own at the start.
    fn walked(&self, parted: &mut Parted) {
        if parted.walks && parted.leaves.iter().all(|(_, _, then)| *then == Then::Done) {
            parted.walks = false;
            if !parted.skipped {
                self.ownership.unsettled_workers.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// Records that the worker has not looked, or will not look, at all leaves it should have.
    fn skip(&self, parted: &mut Parted) {
        if !parted.walks && !parted.skipped {
            self.ownership.unsettled_workers.fetch_add(1, Ordering::AcqRel);
        }
        parted.skipped = true;
    }

    /// To be called when a transaction or a branch has ended here: notes the leaves that it parted.
    #[inline]
    pub(in crate::paged) fn note_parted(&self, ctx: &PageWorkerContext, txn: &mut Txn) {
        if D::OWNERS && txn.has_parted() {
            self.note_leaves(ctx, txn);
        }
    }

    #[cold]
    fn note_leaves(&self, ctx: &PageWorkerContext, txn: &mut Txn) {
        let mut parted = self.store.parted(txn);
        // Every worker reads the rows of a copy: no worker owns them, so none moves them.
        parted.retain(|(table, _)| {
            self.owners.as_ref().is_some_and(|owners| owners.border(*table, 0).is_some())
        });
        if self.ownership.rows && ctx.hold.get() == Hold::Pages {
            let leaves = parted.into_iter().map(|(table, key)| (table, key, Then::Done));
            ctx.parted.borrow_mut().leaves.extend(leaves);
        } else if self.ownership.rows && !parted.is_empty() {
            self.skip(&mut ctx.parted.borrow_mut());
        }
    }

    pub(in crate::paged) fn has_pages(&self, ctx: &PageWorkerContext) -> bool {
        ctx.hold.get() == Hold::Pages
    }

    /// Looks at a few of the noted leaves, between transactions. `true` if there were any.
    #[inline]
    pub(in crate::paged) fn settle(&self, ctx: &PageWorkerContext) -> bool {
        D::OWNERS && self.ownership.rows && ctx.hold.get() == Hold::Pages && self.settle_some(ctx)
    }

    fn settle_some(&self, ctx: &PageWorkerContext) -> bool {
        let mut parted = ctx.parted.borrow_mut();
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

    /// Looks at `most` leaves at most; returns how many wait for transactions to end.
    fn settle_leaves(&self, parted: &mut Parted, most: usize, writers: Writers) -> usize {
        let mut later = 0;
        for _ in 0..most {
            let Some((table, key, then)) = parted.leaves.pop_front() else { break };
            // Without free pages rows stay where they are: that is worse order, not an error. A
            // fault has poisoned the store.
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

    /// Looks at every parted leaf; to be called when no transaction is under way at this worker.
    pub(in crate::paged) fn settle_all(&self, ctx: &PageWorkerContext) {
        let mut parted = ctx.parted.borrow_mut();
        let (walks, noted) = parted.leaves.drain(..).partition(|(_, _, then)| *then != Then::Done);
        parted.leaves = noted;
        let all = parted.leaves.len();
        self.settle_leaves(&mut parted, all, Writers::Gone);
        parted.leaves.extend::<VecDeque<_>>(walks);
    }

    /// Forgets the leaves in a range of keys: they are another worker's to look at.
    pub(in crate::paged) fn forget_leaves(
        &self,
        ctx: &PageWorkerContext,
        table: TableId,
        from: &Key,
        to: Option<&Key>,
    ) {
        let mut parted = ctx.parted.borrow_mut();
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

    /// The worker disowns its pages.
    pub(in crate::paged) fn disown_pages(&self, ctx: &PageWorkerContext) {
        if ctx.hold.get() != Hold::Pages {
            return;
        }
        {
            let mut parted = ctx.parted.borrow_mut();
            let all = parted.leaves.len() * 2;
            self.settle_leaves(&mut parted, all, Writers::Running);
            self.walked(&mut parted);
            // Leaves left for later lose order only; a walk continues with the next load.
            let before = parted.leaves.len();
            parted.leaves.retain(|(_, _, then)| *then != Then::Done);
            if parted.leaves.len() < before {
                self.skip(&mut parted);
            }
        }
        ctx.gate.owned.borrow_mut().clear();
        ctx.hold.set(Hold::Nothing);
        claim(Claiming::Nothing);
        // After a fault, which has poisoned the store, no thread uses these pages.
        let _ = self.store.pool().disown_mine();
    }

    /// The worker ends: it disowns its pages, and completes the requests of others to it.
    pub(in crate::paged) fn stop_acting(&self, ctx: &PageWorkerContext) {
        if !self.ownership.owned {
            return;
        }
        self.disown_pages(ctx);
        while self.store.pool().asked() && self.store.fault().is_none() {
            self.store.pool().turn();
            std::thread::yield_now();
        }
        act_for(None);
    }

    /// The decision on a transaction that restart found is carried out.
    pub(in crate::paged) fn undoubted(&self) {
        if self.ownership.owned {
            self.ownership.doubts.fetch_sub(1, Ordering::Release);
        }
    }
}

fn fault(stop: Stop) -> EngineFault {
    match stop {
        Stop::Fault(fault) => EngineFault::Store(StoreFault::from(fault)),
        stop => EngineFault::Divide(stop.to_string()),
    }
}
