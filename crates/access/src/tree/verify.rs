//! A check of the whole tree while other threads work on it: returns the first flaw.
//!
//! Each node is copied whole at one version. The copy is checked by itself and against its place:
//! the level and the fences in the copy of its parent. No latch is held during the check. When a
//! node does not fit its place, the parent may have changed since it was copied. In that case there
//! is no flaw, and the walk descends again from the root to the same place. A mismatch is a flaw
//! only if the parent is unchanged since its copy.
//!
//! All keys below the *cursor* have been checked; the cursor advances with every leaf. So each leaf
//! is counted once, however often the walk descends again. A page cannot be taken for two places,
//! because its fences fit only one.

use super::node::{COUNT, HEAP, HIGH, KeyBuf, LEVEL, LOW, PREFIX, SKIP, SLOT, SLOTS, head_of};
use super::{BTree, Node};
use crate::bytes::{Bytes, Garbled};
use base::{Key, PageId};
use latch::LatchPolicy;
use pages::{PAGE_SIZE, Page, Stop};
use std::collections::BTreeSet;

/// How often the walk descends again to the same place before it reports the flaw it sees there.
/// Each time the parent may have been evicted, which looks like a change.
const PATIENCE: usize = 100;
/// Copies tried before the page is latched for a copy.
const TRIES: usize = 16;

/// The figures of a sound tree. While other threads change the tree, each node counts as it was
/// when it was visited.
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
    /// Pages of the partition table; 0 for a tree of one root.
    pub table_pages: u64,
}

/// A flaw of a tree, and its place: page, and byte within the page.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TreeFlaw {
    #[error(transparent)]
    Stop(#[from] Stop),
    #[error("{page:?}, byte {at}: not a node of this tree")]
    Foreign { page: PageId, at: usize },
    #[error("{page:?}, byte {at}: a node of level {found} under a parent of level {parent}")]
    Level { page: PageId, at: usize, found: u8, parent: u8 },
    #[error("{page:?}: in use elsewhere too")]
    Twice { page: PageId },
    #[error("{page:?}, byte {at}: points outside the page, or contradicts itself")]
    Garbled { page: PageId, at: usize },
    #[error("{page:?}, byte {at}: content that overlaps other content")]
    Overlap { page: PageId, at: usize },
    #[error("{page:?}, byte {at}: {counted} bytes of content are counted, there are {found}")]
    Space { page: PageId, at: usize, counted: usize, found: usize },
    #[error("{page:?}, byte {at}: another fence than its parent says")]
    Fence { page: PageId, at: usize },
    #[error("{page:?}, byte {at}: the key is out of order or outside the fences")]
    Order { page: PageId, at: usize },
    #[error("{page:?}, byte {at}: a key head or prefix with bytes behind its end")]
    Head { page: PageId, at: usize },
}

impl TreeFlaw {
    /// The page with the flaw, if the flaw is in one page.
    pub fn page(&self) -> Option<PageId> {
        match self {
            TreeFlaw::Stop(_) => None,
            TreeFlaw::Foreign { page, .. }
            | TreeFlaw::Twice { page }
            | TreeFlaw::Garbled { page, .. }
            | TreeFlaw::Fence { page, .. }
            | TreeFlaw::Level { page, .. }
            | TreeFlaw::Overlap { page, .. }
            | TreeFlaw::Space { page, .. }
            | TreeFlaw::Order { page, .. }
            | TreeFlaw::Head { page, .. } => Some(*page),
        }
    }
}

/// The place that a node must fit.
#[derive(Clone, Copy)]
struct Place<'a> {
    page: PageId,
    /// Level, page and version of the parent; `None` for the root.
    parent: Option<(u8, PageId, u64)>,
    low: &'a [u8],
    high: Option<&'a [u8]>,
}

enum Walk {
    /// The node's whole range is checked.
    Done,
    /// A page on the path changed: descend again.
    Again,
}

/// The state of the check.
#[derive(Default)]
struct Progress {
    report: TreeReport,
    /// Pages visited so far. A page may be visited again after a new descent, or because it was
    /// freed and is in use again.
    pages: BTreeSet<PageId>,
    /// All keys below this one are checked.
    cursor: Key,
    /// The number of new descents since the cursor moved.
    stuck: usize,
}

impl<'p> BTree<'p> {
    /// Checks every node: kind, level, order, fences against the parent's keys, heads, space. Reads
    /// absent pages in, blocking. Other threads may read and change the tree meanwhile, and do not
    /// wait for the check.
    ///
    /// # Errors
    /// The first flaw met.
    pub fn verify<L: LatchPolicy>(&self) -> Result<TreeReport, TreeFlaw> {
        self.verify_into::<L>(&mut BTreeSet::new())
    }

    /// As [`BTree::verify`], and adds every page of the tree to `seen`; a page that is in `seen`
    /// already is a flaw.
    ///
    /// # Errors
    /// The first flaw met.
    pub fn verify_into<L: LatchPolicy>(&self, seen: &mut BTreeSet<PageId>) -> Result<TreeReport, TreeFlaw> {
        let mut progress = Progress::default();
        while let Walk::Again = self.walk_all::<L>(&mut progress)? {
            progress.stuck += 1;
        }
        if self.roots.is_some() {
            let table = self.check_table::<L>()?;
            progress.report.table_pages = table.len() as u64;
            progress.pages.extend(table);
        }
        if let Some(&page) = progress.pages.iter().find(|page| seen.contains(page)) {
            return Err(TreeFlaw::Twice { page });
        }
        seen.append(&mut progress.pages);
        Ok(progress.report)
    }

    /// Checks the tree, or the sub-trees one after the other as far as they are not checked yet.
    fn walk_all<L: LatchPolicy>(&self, progress: &mut Progress) -> Result<Walk, TreeFlaw> {
        let Some(roots) = self.roots else {
            let root = Place { page: self.root, parent: None, low: &[], high: None };
            return self.walk::<L>(root, progress);
        };
        let (starts, seen) = roots.starts();
        for (i, (low, page)) in starts.iter().enumerate() {
            let high = starts.get(i + 1).map(|(high, _)| high);
            if high.is_some_and(|high| high <= &progress.cursor) {
                continue;
            }
            let root = Place { page: *page, parent: None, low, high: high.map(Key::as_slice) };
            match self.walk::<L>(root, progress) {
                // Partitions were split or merged meanwhile.
                Err(_) if !roots.unchanged(seen) && progress.stuck < PATIENCE => return Ok(Walk::Again),
                Ok(Walk::Done) => {}
                other => return other,
            }
        }
        Ok(Walk::Done)
    }

    /// Checks that the partition table on disk equals the one in memory; returns its pages.
    fn check_table<L: LatchPolicy>(&self) -> Result<Vec<PageId>, TreeFlaw> {
        let mut tries = 0;
        loop {
            let before = self.roots.map(super::RootMap::starts);
            match super::table::starts_of::<L>(self.pool, self.id, self.root) {
                Err(Stop::Page(id)) => self.pool.load(id).map_err(Stop::from)?,
                Err(Stop::Again) => {}
                Err(stop) => return Err(stop.into()),
                Ok((starts, pages)) if before.is_some_and(|(before, _)| before == starts) => {
                    return Ok(pages);
                }
                Ok(_) if tries < PATIENCE => tries += 1,
                Ok(_) => return Err(TreeFlaw::Foreign { page: self.root, at: pages::PAGE_HEADER }),
            }
        }
    }

    fn walk<L: LatchPolicy>(&self, place: Place<'_>, progress: &mut Progress) -> Result<Walk, TreeFlaw> {
        let (copy, version) = self.copy_of::<L>(place.page)?;
        let node = Node::new(copy.bytes());
        if let Err(flaw) = self.check(node, place) {
            let moved =
                place.parent.is_some_and(|(_, id, version)| !self.pool.version_unchanged(id, version));
            return if moved && progress.stuck < PATIENCE { Ok(Walk::Again) } else { Err(flaw) };
        }
        progress.pages.insert(place.page);
        if node.level() > 0 {
            return self.children::<L>(node, version, place, progress);
        }
        progress.count_leaf(node, place.high);
        if place.parent.is_none() {
            progress.report.levels = progress.report.levels.max(1);
        }
        Ok(Walk::Done)
    }

    fn children<L: LatchPolicy>(
        &self,
        node: Node<&Bytes>,
        version: u64,
        place: Place<'_>,
        progress: &mut Progress,
    ) -> Result<Walk, TreeFlaw> {
        let garbled = |Garbled| TreeFlaw::Garbled { page: place.page, at: COUNT };
        let parent = Some((node.level(), place.page, version));
        for i in 0..=node.count() {
            let low = if i == 0 { Key::from_bytes(place.low) } else { node.key(i - 1).map_err(garbled)? };
            let high = match i == node.count() {
                true => place.high.map(Key::from_bytes),
                false => Some(node.key(i).map_err(garbled)?),
            };
            if high.as_ref().is_some_and(|high| high <= &progress.cursor) {
                continue;
            }
            let page = node.child(i).map_err(garbled)?;
            let child = Place { page, parent, low: &low, high: high.as_deref() };
            if let Walk::Again = self.walk::<L>(child, progress)? {
                return Ok(Walk::Again);
            }
        }
        progress.report.inner_nodes += 1;
        if place.parent.is_none() {
            progress.report.levels = progress.report.levels.max(node.level() + 1);
        }
        Ok(Walk::Done)
    }

    /// A copy of the page, and the version of the page at the copy.
    fn copy_of<L: LatchPolicy>(&self, id: PageId) -> Result<(Box<Page>, u64), Stop> {
        let mut copy = Page::zeroed();
        let mut tries = 0;
        loop {
            tries += 1;
            let version = match self.pool.view::<L>(id) {
                Err(stop) => Err(stop),
                Ok(view) if tries <= TRIES => Ok(view.snapshot(&mut copy).then(|| view.version())),
                Ok(_) => self.pool.shared::<L>(id).map(|page| {
                    copy.bytes_mut().copy_from_slice(page.bytes());
                    Some(page.version())
                }),
            };
            match version {
                Ok(Some(version)) => return Ok((copy, version)),
                Ok(None) | Err(Stop::Again) => {}
                Err(Stop::Page(id)) => self.pool.load(id)?,
                Err(stop) => return Err(stop),
            }
        }
    }

    fn check(&self, node: Node<&Bytes>, place: Place<'_>) -> Result<(), TreeFlaw> {
        if !self.is_node(node, None) {
            return Err(TreeFlaw::Foreign { page: place.page, at: 4 });
        }
        check_place(node, place)?;
        check_node(node, place.page)
    }
}

impl Progress {
    fn count_leaf(&mut self, node: Node<&Bytes>, high: Option<&[u8]>) {
        self.report.leaves += 1;
        self.report.entries += node.count() as u64;
        self.report.leaf_bytes += node.used() as u64;
        self.report.leaf_capacity += super::CAPACITY as u64;
        self.stuck = 0;
        if let Some(high) = high {
            self.cursor = Key::from_bytes(high);
        }
    }
}

fn check_place(node: Node<&Bytes>, place: Place<'_>) -> Result<(), TreeFlaw> {
    let page = place.page;
    if let Some((parent, ..)) = place.parent
        && parent != node.level().saturating_add(1)
    {
        return Err(TreeFlaw::Level { page, at: LEVEL, found: node.level(), parent });
    }
    if node.low() != Ok(place.low) {
        return Err(TreeFlaw::Fence { page, at: LOW });
    }
    if node.high() != Ok(place.high) {
        return Err(TreeFlaw::Fence { page, at: HIGH });
    }
    Ok(())
}

/// Checks the node by itself.
fn check_node(node: Node<&Bytes>, page: PageId) -> Result<(), TreeFlaw> {
    check_space(node, page)?;
    let (prefix, skip) = node.prefix().map_err(|Garbled| TreeFlaw::Garbled { page, at: SKIP })?;
    if prefix[skip..].iter().any(|b| *b != 0) {
        return Err(TreeFlaw::Head { page, at: PREFIX });
    }
    let (mut before, mut buf): (Option<Key>, _) = (None, KeyBuf::new());
    for position in 0..node.count() {
        let at = SLOTS + SLOT * position;
        let garbled = |Garbled| TreeFlaw::Garbled { page, at };
        let slot = node.slot(position).map_err(garbled)?;
        node.value(position).map_err(garbled)?;
        let key = node.key_in(position, &mut buf).map_err(garbled)?;
        if head_of(&key[skip..]) != slot.head() {
            return Err(TreeFlaw::Head { page, at });
        }
        let ascends = before.as_deref().is_none_or(|before| before < key);
        if !ascends || !node.covers(key).map_err(garbled)? {
            return Err(TreeFlaw::Order { page, at });
        }
        if node.level() > 0 && slot.value_len() != 4 {
            return Err(TreeFlaw::Garbled { page, at });
        }
        before = Some(Key::from_bytes(key));
    }
    Ok(())
}

/// Checks that content lies after the slots, does not overlap, and agrees with the counters.
fn check_space(node: Node<&Bytes>, page: PageId) -> Result<(), TreeFlaw> {
    let floor = node.heap();
    if floor < SLOTS + SLOT * node.count() || floor > PAGE_SIZE {
        return Err(TreeFlaw::Garbled { page, at: HEAP });
    }
    let content = |i| node.slot(i).and_then(|slot| node.content_of(slot));
    let content: Result<Vec<_>, _> =
        (0..node.count()).map(|i| content(i).map_err(|Garbled| SLOTS + SLOT * i)).collect();
    let mut taken: Vec<_> = content
        .map_err(|at| TreeFlaw::Garbled { page, at })?
        .into_iter()
        .map(|(at, len)| (at, at + len))
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
        return Err(TreeFlaw::Space { page, at: HEAP, counted, found });
    }
    Ok(())
}
