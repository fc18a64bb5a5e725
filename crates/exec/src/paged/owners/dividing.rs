//! Division of rows before keys change owners, where workers own heap pages (`plp-partition`,
//! `plp-leaf`; thesis, sections 4.3.2 and 4.3.3).
//!
//! ```text
//!   request --> the giver divides pages with rows of both sides,
//!               one in each turn                                      transactions go on
//!               shuts its drain gate, and waits until no transaction
//!               is under way
//!               looks through its rows once more, and divides the
//!               pages that are left                                   short: few are left
//!               splits its trees, ...                                 as in `moving`
//! ```
//!
//! By partition all rows on one side of a border may have to move, which can take long. So the
//! worker that has the rows does most of it while transactions run, between two of them, and other
//! workers are not disturbed. Rows that a running transaction has changed wait until the gate is
//! shut and drained: then no transaction is left that could undo the change. By leaf only the rows
//! of one leaf move.
//!
//! A crash finds rows moved, each whole and in one place, and the tree cut or not. There is nothing
//! to complete or undo.

use super::moving::{Carried, RepartitionRequest};
use crate::design::Design;
use crate::owners::{self, Gift, Owners};
use crate::paged::{PageEngine, PageWorkerContext};
use base::{Key, TableId};
use pages::Stop;
use partition::{RangeChange, Ranges};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use store::{Divided, Division, Txn, Writers};

/// The number of leaves to look at in one turn: some 50 us. A page to divide takes longer: there is
/// one in a turn.
const LEAVES_A_TURN: usize = 16;

/// The division of rows for a request's cuts, before the gate is shut.
pub(in crate::paged) struct Apart {
    /// The open divisions first, then those that are done. All of them end with the request: until
    /// then rows of the two sides are kept apart.
    divisions: VecDeque<Division>,
    open: usize,
    done: Divided,
    txn: Txn,
}

/// The keys at which a change needs a table's tree to be cut.
pub(in crate::paged) fn cuts(
    owners: &Owners,
    table: TableId,
    change: RangeChange,
    gifts: &[Gift],
    next: &Ranges,
) -> Vec<Key> {
    let mut sites = Vec::new();
    if let RangeChange::Split { at, .. } = change {
        sites.push(at);
    }
    for Gift { sites: given, .. } in gifts {
        sites.push(given.start);
        sites.extend(Some(given.end).filter(|end| *end < next.domain()));
    }
    let mut keys: Vec<Key> = sites.into_iter().filter_map(|site| owners.border(table, site)).collect();
    keys.retain(|key| !key.is_empty());
    keys.dedup();
    keys
}

impl<D: Design> PageEngine<D> {
    /// Continues the division that must precede the shutting of the gate for the first request.
    /// `false` when there is nothing left to do.
    pub(in crate::paged) fn come_apart(&self, ctx: &PageWorkerContext) -> bool {
        if !self.ownership.rows() || !self.has_pages(ctx) || ctx.gate.is_shutting() {
            return false;
        }
        let requests = ctx.gate.requests.borrow();
        let Some(request) = requests.front() else { return false };
        let mut apart = ctx.gate.apart.borrow_mut();
        let apart = apart.get_or_insert_with(|| self.begin_apart(ctx, request));
        for _ in 0..LEAVES_A_TURN {
            if apart.open == 0 {
                return false;
            }
            if self.divide_a_little(apart) {
                break;
            }
        }
        request.progress.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Looks at a leaf, or divides a page: `true` for a page.
    fn divide_a_little(&self, apart: &mut Apart) -> bool {
        let Apart { divisions, open, done, txn } = apart;
        let Some(division) = divisions.front_mut() else { return false };
        let did = self.store.go_on_dividing::<D::Latch>(txn, division, Writers::Running, 1);
        // A division that fails here is tried again behind the shut gate, which reports the error.
        let is_over = did.is_err() || division.is_done();
        if is_over {
            *open -= 1;
            divisions.rotate_left(1);
        }
        let Ok(did) = did else { return false };
        *done += did;
        did.pages_read > 0
    }

    fn begin_apart(&self, ctx: &PageWorkerContext, request: &RepartitionRequest) -> Apart {
        let cuts = self.cuts_to_come(ctx, request);
        let reach = self.ownership.reach();
        let begin = |(table, key): (TableId, Key)| {
            self.store.begin_division::<D::Latch>(table, &key, reach).ok().flatten()
        };
        let divisions: VecDeque<Division> = cuts.into_iter().filter_map(begin).collect();
        Apart { open: divisions.len(), divisions, done: Divided::default(), txn: Txn::default() }
    }

    /// The keys at which this worker's trees are to be cut, as far as the request can be carried
    /// out.
    fn cuts_to_come(&self, ctx: &PageWorkerContext, request: &RepartitionRequest) -> Vec<(TableId, Key)> {
        let Some(owners) = &self.owners else { return Vec::new() };
        let mut now = owners.ranges();
        self.own_missing(ctx, &now);
        let mine = |ranges: &Ranges, site: u64| usize::from(ranges.find(site).owner.0) == ctx.worker;
        let mut all = Vec::new();
        for (&change, made_for) in request.changes.iter().zip(request.made_for..) {
            let Ok(next) = now.apply(made_for, change) else { break };
            let gifts = owners::gifts(&now, &next);
            let elsewhere = matches!(change, RangeChange::Split { at, .. } if !mine(&now, at));
            if elsewhere || gifts.iter().any(|gift| gift.from != ctx.worker) {
                break;
            }
            for table in self.divided_tables() {
                let there = self.store.partitions(table);
                let cuts = cuts(owners, table, change, &gifts, &next).into_iter();
                all.extend(cuts.filter(|key| !there.contains(key)).map(|key| (table, key)));
            }
            now = next;
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Puts the rows on the two sides of a border into different pages, for good; while no
    /// transaction is under way at this worker.
    pub(in crate::paged) fn divide_at_once(
        &self,
        table: TableId,
        key: &Key,
        carried: &mut Carried,
    ) -> Result<(), Stop> {
        if self.ownership.rows() {
            let how = (self.ownership.reach(), Writers::Gone);
            carried.rows += self.store.divide_rows::<D::Latch>(&mut Txn::default(), table, key, how)?;
        }
        Ok(())
    }
}

impl Apart {
    pub fn done(&self) -> Divided {
        self.done
    }
}
