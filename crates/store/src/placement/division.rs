//! Division: separating the rows on both sides of a key into different pages before their partition
//! is split there, in pieces between transactions (thesis, section 4.3, Algorithm 2).
//!
//! ```text
//!   future border           k
//!   leaves        [ . . ][ . | . ][ . . ]   scanned a few at a time: which pages are mixed?
//!   heap pages     p  q    q   r    s  r    q and r: the side with fewer rows moves out
//! ```
//!
//! Transactions change the table between two pieces, so the pieces reduce the remaining work but
//! guarantee nothing. Before the split, the caller divides once more while no transaction runs
//! ([`Store::divide_rows`] with [`Writers::Gone`]). That call handles the pages that had to wait
//! for transactions to end, and the pages that transactions mixed meanwhile. The latter are few:
//! while a division is under way, new rows of the two sides do not go to the same *last page* of
//! their partition ([`Coming`]).
//!
//! By leaf, only the pages that the leaf at `k` leads to can have rows on both sides, as long as no
//! two leaves share pages; the rows of a page show whether they do. [`Store::settle_rows`] ensures
//! that for each leaf that was split since the store was opened. A caller that does not know
//! whether leaves share pages scans the whole partition ([`Reach`]).

use crate::catalog::borders::Coming;
use crate::catalog::definition::HeapForm;
use crate::catalog::tables::Table;
use crate::placement::row_placement::{Divided, NearPages, Sharing, Writers};
use crate::state::store::Store;
use crate::txn::chain::Txn;
use access::{ChunkEnd, Direction};
use base::{Key, PageId, Rid, TableId};
use latch::{Policies, acting_for};
use pages::Stop;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// How far apart in the tree the rows of one page may lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// By leaf: rows of different leaves do not share pages.
    Leaf,
    /// Rows from anywhere in the partition may share a page. Always so for
    /// [`HeapForm::ByPartition`].
    Partition,
}

/// A division that is under way. It ends when it is dropped.
pub struct Division {
    table: TableId,
    key: Key,
    reach: Reach,
    coming: Arc<Coming>,
    /// The leaves that are still to be scanned, from the first key to the first key after the last
    /// leaf. `from` is `None` once all leaves are scanned.
    from: Option<Key>,
    until: Option<Key>,
    /// By page number: on which sides of the key the page was seen to have rows ([`BELOW`],
    /// [`ABOVE`]).
    sides: Vec<u8>,
    /// Pages with rows on both sides, which are to be divided.
    mixed: Vec<PageId>,
    /// The pages that took the last moved rows: below the key, and from the key on.
    spill: [NearPages; 2],
}

/// Pages, each with the side of a key on which it has rows.
type Seen = SmallVec<[(u8, PageId); 64]>;

/// Bits of [`Division::sides`].
const BELOW: u8 = 1;
const ABOVE: u8 = 2;

impl Drop for Division {
    fn drop(&mut self) {
        self.coming.change(|keys| {
            let at = keys.iter().position(|key| *key == self.key);
            at.map(|at| keys.remove(at));
        });
    }
}

impl Division {
    /// Whether no leaf is left to scan and no page to divide.
    pub fn is_done(&self) -> bool {
        self.from.is_none() && self.mixed.is_empty()
    }

    fn saw(&mut self, side: u8, page: PageId) {
        let at = page.0 as usize;
        if self.sides.len() <= at {
            self.sides.resize(at + 1, 0);
        }
        let before = self.sides[at];
        self.sides[at] = before | side;
        if before | side == BELOW | ABOVE && before != BELOW | ABOVE {
            self.mixed.push(page);
        }
    }
}

impl Store {
    /// Starts to move rows of `table` on both sides of `key` into different pages; `None` if heap
    /// pages are shared anyway. The caller has exclusive use of the partition.
    ///
    /// # Errors
    /// [`Stop::Fault`]: the tree is damaged.
    pub fn begin_division<P: Policies>(
        &self,
        table: TableId,
        key: &[u8],
        reach: Reach,
    ) -> Result<Option<Division>, Stop> {
        let Some(table) = self.table(table).filter(|table| table.form() != HeapForm::Shared) else {
            return Ok(None);
        };
        let by_leaf = table.form() == HeapForm::ByLeaf && reach == Reach::Leaf;
        let (from, until) = if by_leaf { (None, None) } else { self.partition_around(table, key) };
        let key = Key::from_bytes(key);
        table.coming.change(|keys| {
            let at = keys.partition_point(|before| *before < key);
            keys.insert(at, key.clone());
        });
        let mut division = Division {
            table: table.def.id,
            reach: if by_leaf { Reach::Leaf } else { Reach::Partition },
            coming: table.coming.clone(),
            from,
            until,
            sides: Vec::new(),
            mixed: Vec::new(),
            spill: [NearPages::new(), NearPages::new()],
            key,
        };
        if by_leaf {
            division.mixed = self.led_to::<P>(table, &division.key)?;
        }
        Ok(Some(division))
    }

    fn partition_around(&self, table: &Table, key: &[u8]) -> (Option<Key>, Option<Key>) {
        let (from, until) = self.bounds(table, key);
        (Some(from), until)
    }

    /// The pages that the leaf covering `key` leads to and that may have rows on both sides of
    /// `key`: pages with entries on both sides, and pages with more rows than this leaf has
    /// entries.
    fn led_to<P: Policies>(&self, table: &Table, key: &Key) -> Result<Vec<PageId>, Stop> {
        let around = self.insist(|| self.tree(table).around::<P::Index>(key, |_| ControlFlow::Break(())))?;
        let mut entries = BTreeMap::<PageId, [usize; 2]>::new();
        self.each_leaf::<P>(table, around.low, around.high, |some| {
            for (entry, rid) in some {
                entries.entry(rid.page).or_default()[usize::from(entry >= key)] += 1;
            }
        })?;
        let mut pages = Vec::new();
        for (page, [below, above]) in entries {
            let rows = self.insist(|| self.heap(table).page_summary::<P::Heap>(page))?.rows;
            if (below > 0 && above > 0) || rows > below + above {
                pages.push(page);
            }
        }
        Ok(pages)
    }

    /// Continues a division: scans `most` leaves, or divides `most` pages. `txn` has ended. Blocks
    /// for absent pages.
    ///
    /// # Errors
    /// As [`Store::settle_rows`].
    pub fn go_on_dividing<P: Policies>(
        &self,
        txn: &mut Txn,
        division: &mut Division,
        writers: Writers,
        most: usize,
    ) -> Result<Divided, Stop> {
        let mut done = Divided::default();
        let Some(table) = self.table(division.table) else { return Ok(done) };
        // A page that has lost all its rows meanwhile may belong to another partition.
        let mine = |page: &PageId| acting_for().is_some() && self.pool.owner_of(*page) == acting_for();
        division.spill.iter_mut().for_each(|near_pages| near_pages.retain(|page| mine(page)));
        for _ in 0..most {
            if let Some(from) = division.from.take() {
                division.from = self.look_at_leaf::<P>(table, division, from)?;
                done.leaves_read += 1;
            } else if let Some(page) = division.mixed.pop() {
                let Division { key, spill, .. } = division;
                if table.form() == HeapForm::ByLeaf && division.reach == Reach::Partition {
                    // This page may belong to another leaf than the last one.
                    spill.iter_mut().for_each(NearPages::clear);
                }
                let sharing = Sharing::At { key, reserved: spill };
                done += self.divide_page::<P>(txn, table, page, sharing, writers)?;
            } else {
                division.sides = Vec::new();
                break;
            }
        }
        Ok(done)
    }

    /// Records the side of each page of one leaf. Returns where the next leaf begins.
    fn look_at_leaf<P: Policies>(
        &self,
        table: &Table,
        division: &mut Division,
        from: Key,
    ) -> Result<Option<Key>, Stop> {
        let Division { key, until, .. } = division;
        let (seen, next) = self.pages_of_leaf::<P>(table, &from, until.as_deref(), key)?;
        seen.into_iter().for_each(|(side, page)| division.saw(side, page));
        Ok(next)
    }

    /// The pages that a leaf's entries between two keys lead to, each with its side of `border`,
    /// and where the next leaf begins. Consecutive entries that lead to one page on one side give
    /// one element.
    fn pages_of_leaf<P: Policies>(
        &self,
        table: &Table,
        from: &Key,
        until: Option<&[u8]>,
        border: &[u8],
    ) -> Result<(Seen, Option<Key>), Stop> {
        let mut seen = Seen::new();
        let end = self.insist(|| {
            seen.clear();
            let start = Bound::Included(from.as_slice());
            self.tree(table).chunk::<P::Index>(start, until, Direction::Forward, |key, value| {
                let side = if key < border { BELOW } else { ABOVE };
                let page = Rid::decode(value).map_or(PageId(0), |rid| rid.page);
                if seen.last() != Some(&(side, page)) {
                    seen.push((side, page));
                }
            })
        })?;
        if seen.iter().any(|(_, page)| *page == PageId(0)) {
            return Err(self.broken(table, "an index entry is no row address"));
        }
        let next = match end {
            ChunkEnd::Continue(fence) if until.is_none_or(|until| fence.as_slice() < until) => Some(fence),
            _ => None,
        };
        Ok((seen, next))
    }

    /// The pages that hold rows of a table's partition.
    pub(crate) fn pages_of_partition<P: Policies>(
        &self,
        table: &Table,
        key: &[u8],
    ) -> Result<BTreeSet<PageId>, Stop> {
        let (from, until) = self.bounds(table, key);
        let (mut pages, mut next) = (BTreeSet::new(), Some(from));
        while let Some(from) = next {
            let (seen, behind) = self.pages_of_leaf::<P>(table, &from, until.as_deref(), &[])?;
            pages.extend(seen.into_iter().map(|(_, page)| page));
            next = behind;
        }
        Ok(pages)
    }

    /// Moves rows until no page holds rows on both sides of `key`, so that the partition can be
    /// split there ([`Store::split_partition`]) and the parts can have different owners. Does
    /// nothing if heap pages are shared. The caller has exclusive use of the partition, and `txn`
    /// has ended. Blocks for absent pages.
    ///
    /// # Errors
    /// As [`Store::settle_rows`].
    pub fn divide_rows<P: Policies>(
        &self,
        txn: &mut Txn,
        table: TableId,
        key: &[u8],
        (reach, writers): (Reach, Writers),
    ) -> Result<Divided, Stop> {
        let Some(mut division) = self.begin_division::<P>(table, key, reach)? else {
            return Ok(Divided::default());
        };
        let by_leaf = division.reach == Reach::Leaf;
        let mut done = self.go_on_dividing::<P>(txn, &mut division, writers, usize::MAX)?;
        done.leaves_read += usize::from(by_leaf);
        Ok(done)
    }
}
