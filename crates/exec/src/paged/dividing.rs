//! Rows that come apart before keys change owners, where workers own heap pages (`plp-partition`, `plp-leaf`; thesis, sections 4.3.2 and
//! 4.3.3).
//!
//! ```text
//!   errand ---> the giver divides pages that hold rows of both sides, one in each turn      transactions go on
//!               shuts its door, and waits until nothing is under way
//!               looks through its rows once more, and divides what is left                  short: little is left
//!               splits its trees, ...                                                       as in `moving`
//! ```
//!
//! By partition all rows on one side of a border may have to move, which takes as long as it takes: so most of it is done
//! while transactions run, by the worker that has the rows, between two of them, and other workers notice nothing of it. What a running
//! transaction has changed waits for the shut door: then nobody is left who could undo it. By leaf it is the rows of one leaf.
//!
//! A crash finds rows moved, each whole and in one place, and the tree cut or not: nothing is to be finished or undone.

use super::moving::{Carried, Errand};
use super::{PageDesk, PageEngine};
use crate::design::Design;
use crate::owners::{self, Gift, Owners};
use base::{Key, TableId};
use pages::Stop;
use partition::{Change, Ranges};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use store::{Divided, Division, Txn, Writers};

/// Leaves that are looked at in one turn: some 50 us. Of pages to be divided, each of which takes longer, one.
const LEAVES_A_TURN: usize = 16;

/// What an errand's cuts need before the door is shut.
pub(super) struct Apart {
    /// Those under way, then those that are done: they end with the errand, as rows of both sides keep apart until then.
    divisions: VecDeque<Division>,
    open: usize,
    done: Divided,
    txn: Txn,
}

/// Where a change needs a table's tree to be cut.
pub(super) fn cuts(
    owners: &Owners,
    table: TableId,
    change: Change,
    gifts: &[Gift],
    next: &Ranges,
) -> Vec<Key> {
    let mut sites = Vec::new();
    if let Change::Split { at, .. } = change {
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
    /// Goes on with what has to be apart before the first errand's door is shut. `false` when there is nothing left to do.
    pub(super) fn come_apart(&self, desk: &PageDesk) -> bool {
        if !self.property.rows() || !self.has_pages(desk) || desk.door.is_shutting() {
            return false;
        }
        let errands = desk.door.errands.borrow();
        let Some(errand) = errands.front() else { return false };
        let mut apart = desk.door.apart.borrow_mut();
        let apart = apart.get_or_insert_with(|| self.begin_apart(desk, errand));
        for _ in 0..LEAVES_A_TURN {
            if apart.open == 0 {
                return false;
            }
            if self.divide_a_little(apart) {
                break;
            }
        }
        errand.progress.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Looks at a leaf, or divides a page: `true` for a page.
    fn divide_a_little(&self, apart: &mut Apart) -> bool {
        let Apart { divisions, open, done, txn } = apart;
        let Some(division) = divisions.front_mut() else { return false };
        let did = self.store.go_on_dividing::<D::Latch>(txn, division, Writers::Running, 1);
        // What could not be done now is tried again behind the door, which will say what is the matter.
        let is_over = did.is_err() || division.is_done();
        if is_over {
            *open -= 1;
            divisions.rotate_left(1);
        }
        let Ok(did) = did else { return false };
        *done += did;
        did.pages_read > 0
    }

    fn begin_apart(&self, desk: &PageDesk, errand: &Errand) -> Apart {
        let cuts = self.cuts_to_come(desk, errand);
        let reach = self.property.reach();
        let begin = |(table, key): (TableId, Key)| {
            self.store.begin_division::<D::Latch>(table, &key, reach).ok().flatten()
        };
        let divisions: VecDeque<Division> = cuts.into_iter().filter_map(begin).collect();
        Apart { open: divisions.len(), divisions, done: Divided::default(), txn: Txn::default() }
    }

    /// Where this worker's trees are to be cut, as far as the errand can be carried out.
    fn cuts_to_come(&self, desk: &PageDesk, errand: &Errand) -> Vec<(TableId, Key)> {
        let Some(owners) = &self.owners else { return Vec::new() };
        let mut now = owners.ranges();
        self.own_missing(desk, &now);
        let mine = |ranges: &Ranges, site: u64| usize::from(ranges.find(site).owner.0) == desk.worker;
        let mut all = Vec::new();
        for (&change, made_for) in errand.changes.iter().zip(errand.made_for..) {
            let Ok(next) = now.apply(made_for, change) else { break };
            let gifts = owners::gifts(&now, &next);
            let elsewhere = matches!(change, Change::Split { at, .. } if !mine(&now, at));
            if elsewhere || gifts.iter().any(|gift| gift.from != desk.worker) {
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

    /// Has the rows on both sides of a border in different pages, for good; while nothing is under way at this worker.
    pub(super) fn divide_at_once(
        &self,
        table: TableId,
        key: &Key,
        carried: &mut Carried,
    ) -> Result<(), Stop> {
        if self.property.rows() {
            let how = (self.property.reach(), Writers::Gone);
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
