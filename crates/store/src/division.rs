//! Rows that come apart before their partition is split, in pieces beside transactions (thesis, section 4.3, Algorithm 2).
//!
//! ```text
//!   key to be a border      k
//!   leaves        [ . . ][ . | . ][ . . ]        looked through, a few at a time: which pages have rows on both sides
//!   heap pages     p  q    q   r    s  r         q and r: the side with fewer rows moves out, page by page
//! ```
//!
//! What is looked at changes between two pieces, so what they leave behind is less work and no promise: whoever is about to split does it
//! once more when nothing is under way ([`Store::divide_rows`] with [`Writers::Gone`]). That finds what transactions mixed meanwhile,
//! which is little, since rows of the two sides do not go to the same *last page* of their partition while a division is under way
//! ([`Coming`]), and what had to wait for transactions to end.
//!
//! By leaf, pages with rows on both sides are those that the leaf at the key leads to, as long as no other leaves share pages; their rows
//! say which. That was seen to for each leaf that was parted since the store was opened ([`Store::settle_rows`]); whoever cannot tell looks
//! through the whole partition ([`Reach`]).

use crate::catalog::Table;
use crate::definition::HeapForm;
use crate::housing::{Divided, Homes, Part};
use crate::open::Store;
use crate::txn::Txn;
use access::{ChunkEnd, Direction};
use base::{Key, PageId, Rid, TableId};
use latch::{Policies, acting_for};
use pages::Stop;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Whether transactions that have changed rows of a partition may still be running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writers {
    /// What one may have changed waits ([`Divided::later`]).
    Running,
    /// None is: the caller has seen to it.
    Gone,
}

/// How far rows lie apart that share a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// By leaf, rows of different leaves do not share pages.
    Leaf,
    /// They may, anywhere in the partition. By partition that is so anyway.
    Partition,
}

/// Keys at which divisions of a table are under way: rows on different sides go to different last pages.
#[derive(Default)]
pub(crate) struct Coming {
    any: AtomicBool,
    /// In order; one may stand there twice.
    keys: Mutex<Vec<Key>>,
}

impl Coming {
    fn change(&self, change: impl FnOnce(&mut Vec<Key>)) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut keys);
        self.any.store(!keys.is_empty(), Ordering::Release);
    }

    /// A number for the side of `key` in the group of keys with number `group`; the group's own where nothing is being divided.
    #[inline]
    pub fn group(&self, group: u32, key: &[u8]) -> u32 {
        if self.any.load(Ordering::Acquire) { self.side(group, key) } else { group }
    }

    #[cold]
    fn side(&self, group: u32, key: &[u8]) -> u32 {
        // Any odd number far from the numbers of pages: two groups that meet forget each other's page, and a page that two sides share
        // is found at the end.
        const STEP: u32 = 0x9e37_79b1;
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let below = keys.partition_point(|border| border.as_slice() <= key) as u32;
        group.wrapping_add(below.wrapping_mul(STEP))
    }
}

/// A division that is under way. Ends when it is dropped.
pub struct Division {
    table: TableId,
    key: Key,
    reach: Reach,
    coming: Arc<Coming>,
    /// Leaves to look at, from the first key to the one behind the last; none when all have been looked at.
    from: Option<Key>,
    until: Option<Key>,
    /// By page number, which sides a page was seen to have rows of.
    sides: Vec<u8>,
    /// Pages with rows on both, to be divided.
    mixed: Vec<PageId>,
    /// Where rows that move out go, below the key and from it on: the pages that the last ones went to.
    spill: [Homes; 2],
}

/// Pages, and on which side of a key they were seen to have rows.
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
    /// Whether nothing is left to look at.
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
    /// Begins to put rows of `table` on both sides of `key` into different pages; `None` where they need not be. For whoever has the
    /// partition to itself.
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
            spill: [Homes::new(), Homes::new()],
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

    /// The pages that the leaf covering `key` leads to and that may have rows on both sides of it: entries say so, or are fewer than rows.
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
            let rows = self.insist(|| self.heap(table).housed::<P::Heap>(page))?.rows;
            if (below > 0 && above > 0) || rows > below + above {
                pages.push(page);
            }
        }
        Ok(pages)
    }

    /// Goes on with a division: looks at `most` leaves, or divides `most` pages. `txn` has ended. Blocks for absent pages.
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
        // A page that has lost its rows since may be anybody's.
        let mine = |page: &PageId| acting_for().is_some() && self.pool.owner_of(*page) == acting_for();
        division.spill.iter_mut().for_each(|homes| homes.retain(|page| mine(page)));
        for _ in 0..most {
            if let Some(from) = division.from.take() {
                division.from = self.look_at_leaf::<P>(table, division, from)?;
                done.leaves_read += 1;
            } else if let Some(page) = division.mixed.pop() {
                let Division { key, spill, .. } = division;
                if table.form() == HeapForm::ByLeaf && division.reach == Reach::Partition {
                    // This page may be another leaf's than the last one.
                    spill.iter_mut().for_each(Homes::clear);
                }
                let part = Part::At { key, reserved: spill };
                done += self.divide_page::<P>(txn, table, page, part, writers)?;
            } else {
                division.sides = Vec::new();
                break;
            }
        }
        Ok(done)
    }

    /// Notes which side of the key each page of one leaf is on; gives where the next leaf begins.
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

    /// The pages that a leaf's entries from one key to another lead to, and on which side of `border`: of a run of entries that lead
    /// to one page on one side, one. And where the next leaf begins.
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

    /// The pages with rows of a partition of a table.
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

    /// Sees to it that no page holds rows on both sides of `key`, so that a partition can be split there
    /// ([`Store::split_partition`]) and the parts have different owners. Nothing to do where pages are shared. For whoever has
    /// the partition to itself. `txn` has ended. Blocks for absent pages.
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
