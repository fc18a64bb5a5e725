//! Multi-rooted trees: several sub-trees in one file, each with a range of the keys (Pandis'
//! thesis, section 3.3.1).
//!
//! ```text
//!   partition table:   ""  ->  root     "g" -> root     "p" -> root     entries "start key, root"
//!                             /    \           |           /    \
//!                          leaf    leaf       leaf      leaf    leaf    fences as in one tree:
//!                                                                       ..g, g..p, p..
//! ```
//!
//! **Fences.** The outermost nodes of a sub-tree have the sub-tree's bounds as fences. So a scan
//! that reaches the end of one sub-tree continues at that fence and is led into the next. A descent
//! that finds a root in the map asks the map again after it has taken the root ([`RootMap`]), as it
//! validates a parent after it has taken a child.
//!
//! **Split.** A split cuts the path to the split key: from the root down to the node that has the
//! key as a separator, or to the leaf. The entries at or after the key move to one new node on each
//! level ([`BTree::split_partition`], Algorithm 1).
//!
//! **Merge.** Three cases (section 4.3.5). Two roots of the same height become one node, or get a
//! common parent. A lower sub-tree becomes a child of the outermost node of the higher one, on the
//! level above the lower root.
//!
//! **Crash and latches.** Each split or merge is one redo-only log record over the path, the new
//! pages and the partition table, so restart finds it whole or not at all. Latches go top to
//! bottom, then left to right, then the table. A page that is split off an owned sub-tree is owned
//! ([`pages::PageMut::own_beside`]). A thread that merges owns both sub-trees, or neither.

use super::edit::Image;
use super::entries::Entries;
use super::roots::RootMap;
use super::shape::{Parent, Parts};
use super::table::{self, Rewrite};
use super::{BTree, MAX_LEVEL, Probe, Seek};
use crate::Journal;
use crate::bytes::Garbled;
use crate::page::{corrupt, disordered, new_page, too_long};
use crate::record::{Action, SystemBody};
use crate::redo::perform;
use base::{Key, PageId, TableId};
use latch::{Coupled, LatchPolicy};
use pages::{PageMut, Pool, Stop};

/// The cost of a split or a merge of partitions: the counts in the cost model of repartitioning
/// (thesis, section 4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moved {
    /// Index pages read: the paths, and the partition table.
    pub pages_read: usize,
    /// Index pages that were allocated, and that were freed.
    pub pages_made: usize,
    pub pages_freed: usize,
    /// Entries of leaves, and of inner nodes, that were moved to another page.
    pub leaf_entries: usize,
    pub inner_entries: usize,
    /// Bytes of those entries, keys and values.
    pub bytes: usize,
    /// Fences, children and entries of the partition table that were set in pages that stayed.
    pub pointers: usize,
}

impl Moved {
    pub(super) fn entries(&mut self, level: u8, entries: &[(&[u8], &[u8])]) {
        let count = if level == 0 { &mut self.leaf_entries } else { &mut self.inner_entries };
        *count += entries.len();
        self.bytes += entries.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
    }
}

/// A right half that becomes a page: its level and content.
struct Cut {
    level: u8,
    image: Image,
}

impl<'p> BTree<'p> {
    /// Makes an empty multi-rooted tree with one sub-tree in the page `page`, which the caller has
    /// allocated; returns the sub-tree's root.
    ///
    /// # Errors
    /// The pool's [`Stop`] when no page is left; nothing was changed.
    pub fn create_multi_at<L: LatchPolicy>(
        pool: &Pool,
        journal: &mut impl Journal,
        id: TableId,
        page: PageId,
    ) -> Result<PageId, Stop> {
        let mut first = crate::page::fresh::<L>(pool, page)?;
        let mut root = new_page::<L>(pool)?;
        let start = table::TablePage { page, starts: vec![(Key::new(), root.page_id())] };
        let (table, leaf) = (start.image(PageId(0)), Image::new(0, PageId(0), &[], None, &[]));
        let body = SystemBody::new(id)
            .with(root.page_id(), Action::Node(leaf.as_slice()))
            .with(page, Action::Partitions(&table));
        perform(journal, id, &body, &mut [&mut root, &mut first])?;
        Ok(root.page_id())
    }

    /// Reads the partition table of the multi-rooted tree of which the first page is `root`. The
    /// caller keeps it in memory and gives it to [`BTree::with_roots`].
    ///
    /// # Errors
    /// [`Stop`]; [`Stop::Fault`] when there is no such tree.
    pub fn read_roots(pool: &Pool, root: PageId, id: TableId) -> Result<RootMap, Stop> {
        Ok(RootMap::new(&table::starts_of::<Coupled>(pool, id, root)?.0))
    }

    /// The tree as a multi-rooted one. All threads that use one tree must use the same map.
    #[must_use]
    pub fn with_roots(self, roots: &'p RootMap) -> BTree<'p> {
        BTree { roots: Some(roots), ..self }
    }

    /// The start keys of the sub-trees, in order; the first is the empty key. Empty for a tree of
    /// one root.
    pub fn partitions(&self) -> Vec<Key> {
        self.roots.map(|roots| roots.starts().0.into_iter().map(|(key, _)| key).collect()).unwrap_or_default()
    }

    /// The sub-tree that covers `key`, as a tree: for taking it over ([`BTree::own_pages`]),
    /// loading and checking it. Valid as long as no partition is split or merged.
    #[must_use]
    pub fn partition(&self, key: &[u8]) -> BTree<'p> {
        BTree { root: self.top(Seek::Key(Probe::new(key))).0, roots: None, ..*self }
    }

    pub(super) fn root_map(&self) -> Result<&'p RootMap, Stop> {
        self.roots.ok_or_else(|| disordered("the tree has one root and no partitions"))
    }

    /// Makes a partition begin at `key`. No effect if one begins there already.
    ///
    /// # Errors
    /// [`Stop`]: nothing was changed, but nodes may have been split to make room; [`Stop::Fault`]
    /// when the tree has one root, or the key is longer than the tree takes.
    pub fn split_partition<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        key: &[u8],
    ) -> Result<Moved, Stop> {
        let roots = self.root_map()?;
        if key.len() > self.max_key() {
            return Err(too_long("partition's start key", key.len(), self.max_key()));
        }
        let probe = Probe::new(key);
        loop {
            let Some(path) = self.path_to::<L>(roots, probe)? else { continue };
            if self.node(&path[0], None)?.low().is_ok_and(|low| low == key) {
                return Ok(Moved { pages_read: path.len(), ..Moved::default() });
            }
            let mut moved = Moved { pages_read: path.len(), ..Moved::default() };
            match self.cut_path(&path, key, &mut moved)? {
                Ok(cuts) => {
                    let (left, lowest) = self.low_and_level(&path[path.len() - 1])?;
                    let moved = self.split_at(journal, path, key, &cuts, moved)?;
                    self.tidy_path::<L>(journal, Probe::new(&left), lowest);
                    self.tidy_path::<L>(journal, probe, lowest);
                    return Ok(moved);
                }
                Err(level) => {
                    drop(path);
                    self.make_room::<L>(journal, probe, level, &|_| Ok(key.len()))?;
                }
            }
        }
    }

    /// The path to the probe, latched exclusively: down to the node that has the probe as a
    /// separator, or to the leaf. `None` when the partitions changed on the way.
    fn path_to<L: LatchPolicy>(
        &self,
        roots: &RootMap,
        probe: Probe<'_>,
    ) -> Result<Option<Vec<PageMut<'p, L>>>, Stop> {
        let (root, seen) = roots.covering(probe);
        let mut path = vec![self.pool.exclusive::<L>(root)?];
        if !roots.unchanged(seen) {
            return Ok(None);
        }
        loop {
            let last = &path[path.len() - 1];
            let level = path.len().checked_sub(2).map(|above| self.level_of(&path[above])).transpose()?;
            let node = self.node(last, level.map(|level| level.saturating_sub(1)))?;
            if node.level() == 0 {
                return Ok(Some(path));
            }
            let garbled = |Garbled| corrupt(last);
            if node.search(probe).map_err(garbled)?.is_ok() {
                return Ok(Some(path));
            }
            let child = node.behind(probe).and_then(|at| node.child(at)).map_err(garbled)?;
            path.push(self.pool.exclusive::<L>(child)?);
        }
    }

    fn low_and_level<L: LatchPolicy>(&self, page: &PageMut<'p, L>) -> Result<(Key, u8), Stop> {
        let node = self.node(page, None)?;
        Ok((node.low_key().map_err(|Garbled| corrupt(page))?, node.level()))
    }

    /// Fills up the nodes that a split or a merge of partitions left underfull, from level `from`
    /// on. Without this, repeated splits and merges would make a tree higher than its entries need.
    /// Errors are ignored, as after a delete.
    pub(super) fn tidy_path<L: LatchPolicy>(&self, journal: &mut impl Journal, probe: Probe<'_>, from: u8) {
        for level in from..MAX_LEVEL {
            match self.fill_up::<L>(journal, probe, level) {
                Ok(Parent::Root) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }

    pub(super) fn level_of<L: LatchPolicy>(&self, page: &PageMut<'p, L>) -> Result<u8, Stop> {
        Ok(self.node(page, None)?.level())
    }

    /// The entries at or after `key` in each node of the path, the lowest level first, as far as
    /// they need a new page. `Err` gives the level of a node that has no room for the key as a
    /// fence.
    fn cut_path<L: LatchPolicy>(
        &self,
        path: &[PageMut<'p, L>],
        key: &[u8],
        moved: &mut Moved,
    ) -> Result<Result<Vec<Cut>, u8>, Stop> {
        let mut cuts: Vec<Cut> = Vec::new();
        // The topmost new nodes would have only one child each, so they are not made.
        let mut useful = 0;
        for (up, page) in path.iter().rev().enumerate() {
            let node = self.node(page, None)?;
            let entries = Entries::of(node).map_err(|Garbled| corrupt(page))?;
            let parts = Parts::of(node, &entries).map_err(|Garbled| corrupt(page))?;
            let at = parts.entries.partition_point(|(k, _)| *k < key);
            let (left, mut right) = parts.entries.split_at(at);
            let mut first = PageId(0);
            if parts.level > 0 {
                // Above the lowest level, the new node's first child is the new page below; its
                // number is set when that page is allocated.
                let exact = right.split_first().filter(|((k, _), _)| up == 0 && *k == key);
                if let Some(((_, child), rest)) = exact {
                    (first, right) = (super::node::child_id(child).map_err(|Garbled| corrupt(page))?, rest);
                }
            }
            let sizes = [Parts::size(parts.low, Some(key), left), Parts::size(key, parts.high, right)];
            if sizes.iter().any(|size| *size > self.fill) {
                return Ok(Err(parts.level));
            }
            if parts.level == 0 || !right.is_empty() || up == 0 {
                useful = up + 1;
            }
            moved.entries(parts.level, right);
            moved.pointers += 1;
            let high = parts.high;
            cuts.push(Cut {
                level: parts.level,
                image: super::shape::image(parts.level, first, key, high, right),
            });
        }
        cuts.truncate(useful);
        Ok(Ok(cuts))
    }

    fn split_at<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        mut path: Vec<PageMut<'p, L>>,
        key: &[u8],
        cuts: &[Cut],
        mut moved: Moved,
    ) -> Result<Moved, Stop> {
        let mut made: Vec<PageMut<'p, L>> = Vec::new();
        let done = self.log_split(journal, &mut path, key, cuts, &mut made, &mut moved);
        if done.is_err() {
            made.iter().for_each(|page| self.pool.free(page.page_id()));
        }
        done.map(|()| moved)
    }

    fn log_split<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        path: &mut [PageMut<'p, L>],
        key: &[u8],
        cuts: &[Cut],
        made: &mut Vec<PageMut<'p, L>>,
        moved: &mut Moved,
    ) -> Result<(), Stop> {
        for _ in cuts {
            let mut page = new_page::<L>(self.pool)?;
            page.own_beside(&path[0]);
            made.push(page);
        }
        let top = made[made.len() - 1].page_id();
        let (mut table, parts) = table::held::<L>(self.pool, self.id, self.root)?;
        moved.pages_read += table.len();
        let mut spare = None;
        let start = (Key::from_bytes(key), top);
        let rewrite = table::with(parts, start, self.fill, || {
            let page = new_page::<L>(self.pool)?;
            let id = page.page_id();
            spare = Some(page);
            Ok(id)
        })?;
        let mut body = SystemBody::new(self.id);
        for (i, (cut, page)) in cuts.iter().zip(made.iter()).enumerate() {
            let below = i.checked_sub(1).map(|below| made[below].page_id());
            let image = cut.image.with_first(below.filter(|_| cut.level > 0));
            body = body.with(page.page_id(), Action::Node(&image));
        }
        for page in path.iter() {
            body = body.with(page.page_id(), Action::Cut(key));
        }
        moved.pages_made = made.len() + usize::from(spare.is_some());
        moved.pointers += 1;
        let grown = spare.as_ref().map(|page| page.page_id());
        table.extend(spare);
        let mut all: Vec<&mut PageMut<'p, L>> = made.iter_mut().chain(path.iter_mut()).collect();
        let done = self.log_table(journal, body, &rewrite, &mut all, &mut table);
        grown.filter(|_| done.is_err()).into_iter().for_each(|page| self.pool.free(page));
        done
    }

    /// Logs and carries out the actions in `body` together with the change of the partition table;
    /// then publishes the new table in memory.
    pub(super) fn log_table<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        mut body: SystemBody,
        rewrite: &Rewrite,
        pages: &mut Vec<&mut PageMut<'p, L>>,
        table: &mut [PageMut<'p, L>],
    ) -> Result<(), Stop> {
        for (page, image) in rewrite.images() {
            body = body.with(page, Action::Partitions(&image));
        }
        if let Some(page) = rewrite.freed {
            body = body.with(page, Action::Freed);
        }
        let (bytes, most) = (body.as_slice().len(), self.pool.log().max_body());
        if bytes > most {
            return Err(too_long("a partition's change in the log", bytes, most));
        }
        let mut all: Vec<&mut PageMut<'p, L>> = pages.iter_mut().map(|page| &mut **page).collect();
        all.extend(table.iter_mut());
        perform(journal, self.id, &body, &mut all)?;
        self.root_map()?.publish(&rewrite.starts());
        rewrite.freed.into_iter().for_each(|page| self.pool.free(page));
        Ok(())
    }
}
