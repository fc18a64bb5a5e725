//! Walking the whole tree and saying what is wrong with it.

use super::node::{SLOT, SLOTS, Slot, head_of};
use super::{BTree, Node};
use crate::bytes::Garbled;
use crate::page::{KIND_NODE, is};
use base::PageId;
use latch::LatchPolicy;
use pages::{PAGE_SIZE, PageRef, Stop};
use std::collections::BTreeSet;

/// What a sound tree looks like.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TreeReport {
    /// Levels, 1 for a tree that is one leaf.
    pub levels: u8,
    pub leaves: u64,
    pub inner_nodes: u64,
    pub entries: u64,
    /// Bytes in use in all leaves, fences and slots included.
    pub leaf_bytes: u64,
    /// Bytes that could be in use in all leaves.
    pub leaf_capacity: u64,
}

/// What is wrong with a tree, and where.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TreeFlaw {
    #[error(transparent)]
    Stop(#[from] Stop),
    #[error("{0:?} is not a node of this tree")]
    Foreign(PageId),
    #[error("{page:?} is at level {found}, its parent is at {parent}")]
    Level { page: PageId, found: u8, parent: u8 },
    #[error("{0:?} is reached twice")]
    Twice(PageId),
    #[error("{0:?} has slots, keys or fences that point outside the page")]
    Garbled(PageId),
    #[error("{page:?} has content that overlaps at byte {at}")]
    Overlap { page: PageId, at: usize },
    #[error("{page:?} counts {counted} bytes of content, it has {found}")]
    Space { page: PageId, counted: usize, found: usize },
    #[error("{0:?} has other fences than its parent says")]
    Fences(PageId),
    #[error("{page:?} has a key out of order or outside its fences at position {position}")]
    Order { page: PageId, position: usize },
    #[error("{page:?} has a wrong key head at position {position}")]
    Head { page: PageId, position: usize },
}

impl TreeFlaw {
    /// The page that is not as it should be, where it is one.
    pub fn page(&self) -> Option<PageId> {
        match self {
            TreeFlaw::Stop(_) => None,
            TreeFlaw::Foreign(page)
            | TreeFlaw::Twice(page)
            | TreeFlaw::Garbled(page)
            | TreeFlaw::Fences(page)
            | TreeFlaw::Level { page, .. }
            | TreeFlaw::Overlap { page, .. }
            | TreeFlaw::Space { page, .. }
            | TreeFlaw::Order { page, .. }
            | TreeFlaw::Head { page, .. } => Some(*page),
        }
    }
}

/// The place a node must fit.
#[derive(Clone, Copy)]
struct Place<'a> {
    page: PageId,
    /// `None` for the root.
    parent: Option<u8>,
    low: &'a [u8],
    high: Option<&'a [u8]>,
}

impl<'p> BTree<'p> {
    /// Checks every node: kind, level, order, fences against the parent's keys, heads, space. Reads absent pages
    /// in, blocking. Other threads may use the tree meanwhile; they wait for the nodes on the way down.
    ///
    /// # Errors
    /// The first flaw met.
    pub fn verify<L: LatchPolicy>(&self) -> Result<TreeReport, TreeFlaw> {
        self.verify_into::<L>(&mut BTreeSet::new())
    }

    /// As [`BTree::verify`], adding every page of the tree to `seen`; a page that is there already is a flaw.
    ///
    /// # Errors
    /// The first flaw met.
    pub fn verify_into<L: LatchPolicy>(&self, seen: &mut BTreeSet<PageId>) -> Result<TreeReport, TreeFlaw> {
        let mut report = TreeReport::default();
        let place = Place { page: self.root, parent: None, low: &[], high: None };
        self.walk::<L>(place, seen, &mut report)?;
        Ok(report)
    }

    fn walk<L: LatchPolicy>(
        &self,
        place: Place<'_>,
        seen: &mut BTreeSet<PageId>,
        report: &mut TreeReport,
    ) -> Result<(), TreeFlaw> {
        if !seen.insert(place.page) {
            return Err(TreeFlaw::Twice(place.page));
        }
        let page = self.read_in::<L>(place.page)?;
        let node = Node::new(page.bytes());
        if !is(&page, KIND_NODE, self.id) {
            return Err(TreeFlaw::Foreign(place.page));
        }
        check_place(node, place)?;
        check_node(node, place.page)?;
        count(node, place.parent, report);
        if node.level() == 0 {
            return Ok(());
        }
        let garbled = |Garbled| TreeFlaw::Garbled(place.page);
        for i in 0..=node.count() {
            let low = if i == 0 { place.low } else { node.key(i - 1).map_err(garbled)? };
            let high = if i == node.count() { place.high } else { Some(node.key(i).map_err(garbled)?) };
            let child = node.child(i).map_err(garbled)?;
            self.walk::<L>(Place { page: child, parent: Some(node.level()), low, high }, seen, report)?;
        }
        Ok(())
    }

    fn read_in<L: LatchPolicy>(&self, id: PageId) -> Result<PageRef<'p, L>, Stop> {
        loop {
            match self.pool.shared::<L>(id) {
                Err(Stop::Page(id)) => self.pool.load(id)?,
                Err(Stop::Again) => {}
                page => return page,
            }
        }
    }
}

fn count(node: Node<'_>, parent: Option<u8>, report: &mut TreeReport) {
    if parent.is_none() {
        report.levels = node.level() + 1;
    }
    if node.level() > 0 {
        report.inner_nodes += 1;
        return;
    }
    report.leaves += 1;
    report.entries += node.count() as u64;
    report.leaf_bytes += node.used() as u64;
    report.leaf_capacity += super::CAPACITY as u64;
}

fn check_place(node: Node<'_>, place: Place<'_>) -> Result<(), TreeFlaw> {
    if let Some(parent) = place.parent
        && parent != node.level().saturating_add(1)
    {
        return Err(TreeFlaw::Level { page: place.page, found: node.level(), parent });
    }
    let garbled = |Garbled| TreeFlaw::Garbled(place.page);
    if node.low().map_err(garbled)? != place.low || node.high().map_err(garbled)? != place.high {
        return Err(TreeFlaw::Fences(place.page));
    }
    Ok(())
}

/// The node by itself.
fn check_node(node: Node<'_>, page: PageId) -> Result<(), TreeFlaw> {
    check_space(node, page)?;
    let garbled = |Garbled| TreeFlaw::Garbled(page);
    let mut before: Option<&[u8]> = None;
    for position in 0..node.count() {
        let (key, value) = node.entry(position).map_err(garbled)?;
        let ascends = before.is_none_or(|before| before < key);
        if !ascends || !node.covers(key).map_err(garbled)? {
            return Err(TreeFlaw::Order { page, position });
        }
        if node.level() > 0 && value.len() != 4 {
            return Err(TreeFlaw::Garbled(page));
        }
        let first = node.key(0).map_err(garbled)?;
        let common = key.get(..node.skip()).is_some_and(|prefix| first.get(..node.skip()) == Some(prefix));
        let common = common && node.prefix_is(first);
        let head = node.slot(position).map_err(garbled)?.head();
        if !common || head != head_of(key, node.skip()) {
            return Err(TreeFlaw::Head { page, position });
        }
        before = Some(key);
    }
    Ok(())
}

/// Content lies behind the slots, nowhere twice, and is what the counters say.
fn check_space(node: Node<'_>, page: PageId) -> Result<(), TreeFlaw> {
    let floor = node.heap();
    if floor < SLOTS + SLOT * node.count() || floor > PAGE_SIZE {
        return Err(TreeFlaw::Garbled(page));
    }
    let slots = node.slots().map_err(|Garbled| TreeFlaw::Garbled(page))?;
    let mut taken: Vec<_> = slots
        .iter()
        .map(|bytes| Slot(u64::from_le_bytes(*bytes)))
        .map(|slot| (slot.offset(), slot.offset() + slot.content()))
        .chain(node.fences())
        .filter(|(from, to)| from < to)
        .collect();
    taken.sort_unstable();
    let mut end = floor;
    for &(from, to) in &taken {
        if from < end || to > PAGE_SIZE {
            return Err(TreeFlaw::Overlap { page, at: from });
        }
        end = to;
    }
    let found: usize = taken.iter().map(|(from, to)| to - from).sum();
    let counted = PAGE_SIZE.saturating_sub(floor + node.dead());
    if found != counted {
        return Err(TreeFlaw::Space { page, counted, found });
    }
    Ok(())
}
