//! Descents: without latches, and with coupled latches where the latch-free descent does not come
//! to an end.

use super::node::{Node, Probe};
use super::{BTree, Seek};
use crate::bytes::Garbled;
use crate::page::{corrupt, malformed};
use base::PageId;
use latch::LatchPolicy;
use pages::{PageMut, PageRef, PageView, Stop};

/// How often a descent without latches starts again before it couples latches. Each start costs
/// less than a microsecond. A descent starts again only after a structure modification or an
/// eviction on its path; these are rare, so several in a row are unlikely.
pub(super) const TRIES: usize = 16;

/// The result of an attempt without latches.
pub(super) enum Look<T> {
    Saw(T),
    /// Another thread changed a page that was being read.
    Changed,
}

/// The result of a latch-free descent to a level.
enum Above<'p> {
    /// The root is below that level.
    None,
    /// The root is at that level: its page, and the number for [`BTree::is_top`].
    Root(PageId, u64),
    /// The parent, and the page of the node itself.
    Parent(PageView<'p>, PageId),
}

impl<'p> BTree<'p> {
    /// Handles something impossible that a reader without latches has read: either the page changed
    /// meanwhile ([`Look::Changed`]), or it is corrupt.
    #[cold]
    pub(super) fn doubt<L: LatchPolicy, T>(view: PageView<'p>, stop: Stop) -> Result<Look<T>, Stop> {
        if L::LATCHED && !view.still() { Ok(Look::Changed) } else { Err(stop) }
    }

    #[inline]
    fn child_view<L: LatchPolicy>(
        &self,
        view: PageView<'p>,
        child: PageId,
    ) -> Result<Look<PageView<'p>>, Stop> {
        // First read the child's version, then validate the parent. So the page was the parent's
        // child at that version.
        match self.pool.view::<L>(child) {
            Err(stop) => Self::doubt::<L, _>(view, stop),
            Ok(_) if L::LATCHED && !view.still() => Ok(Look::Changed),
            Ok(next) => Ok(Look::Saw(next)),
        }
    }

    /// A view of the root that `seek` leads to.
    #[inline]
    pub(super) fn top_view<L: LatchPolicy>(&self, seek: Seek<'_>) -> Result<Look<(PageView<'p>, u64)>, Stop> {
        let (root, seen) = self.top(seek);
        match self.pool.view::<L>(root) {
            // First view the root, then ask whether it is the root. So it was the root at that
            // version.
            _ if !self.is_top(seen) => Ok(Look::Changed),
            Ok(view) => Ok(Look::Saw((view, seen))),
            Err(stop) => Err(stop),
        }
    }

    /// A view of the leaf that `seek` leads to.
    #[inline]
    pub(super) fn leaf_view<L: LatchPolicy>(&self, seek: Seek<'_>) -> Result<Look<PageView<'p>>, Stop> {
        let Look::Saw((mut view, _)) = self.top_view::<L>(seek)? else { return Ok(Look::Changed) };
        let mut level = None;
        loop {
            let node = Node(view.bytes());
            if !self.is_node(node, level) {
                return Self::doubt::<L, _>(view, malformed(view.page_id()));
            }
            let Some(below) = node.level().checked_sub(1) else { return Ok(Look::Saw(view)) };
            let Ok(child) = seek.child(node) else {
                return Self::doubt::<L, _>(view, malformed(view.page_id()));
            };
            match self.child_view::<L>(view, child)? {
                Look::Changed => return Ok(Look::Changed),
                Look::Saw(next) => view = next,
            }
            level = Some(below);
        }
    }

    /// Descends to the parent of the node at `level` that covers `probe`.
    #[inline]
    fn above<L: LatchPolicy>(&self, probe: Probe<'_>, level: u8) -> Result<Look<Above<'p>>, Stop> {
        let Look::Saw((mut view, seen)) = self.top_view::<L>(Seek::Key(probe))? else {
            return Ok(Look::Changed);
        };
        let mut here = Node(view.bytes()).level();
        if here <= level {
            if !self.is_node(Node(view.bytes()), Some(here)) {
                return Self::doubt::<L, _>(view, malformed(view.page_id()));
            }
            if L::LATCHED && !view.still() {
                return Ok(Look::Changed);
            }
            let root = Above::Root(view.page_id(), seen);
            return Ok(Look::Saw(if here < level { Above::None } else { root }));
        }
        loop {
            let node = Node(view.bytes());
            let child = match self.is_node(node, Some(here)) {
                true => Seek::Key(probe).child(node),
                false => Err(Garbled),
            };
            let Ok(child) = child else {
                return Self::doubt::<L, _>(view, malformed(view.page_id()));
            };
            here -= 1;
            if here == level {
                return Ok(Look::Saw(Above::Parent(view, child)));
            }
            match self.child_view::<L>(view, child)? {
                Look::Changed => return Ok(Look::Changed),
                Look::Saw(next) => view = next,
            }
        }
    }

    /// As [`BTree::exclusive_at`]: one attempt, without latches on the path.
    #[inline]
    fn exclusive_below<L: LatchPolicy>(
        &self,
        probe: Probe<'_>,
        level: u8,
    ) -> Result<Look<Option<PageMut<'p, L>>>, Stop> {
        let (parent, child) = match self.above::<L>(probe, level)? {
            Look::Changed => return Ok(Look::Changed),
            Look::Saw(Above::None) => return Ok(Look::Saw(None)),
            Look::Saw(Above::Root(root, seen)) => {
                let root = match self.pool.exclusive::<L>(root) {
                    _ if !self.is_top(seen) => return Ok(Look::Changed),
                    root => root?,
                };
                let same = self.node(&root, None)?.level() == level;
                return Ok(if same { Look::Saw(Some(root)) } else { Look::Changed });
            }
            Look::Saw(Above::Parent(parent, child)) => (parent, child),
        };
        // Validate the parent twice. Before the latch: without this check the latch might be taken
        // on an unrelated page. After the latch: only now the parent cannot give the child away
        // unnoticed.
        if L::LATCHED && !parent.still() {
            return Ok(Look::Changed);
        }
        let found = match self.pool.exclusive::<L>(child) {
            Ok(found) => found,
            Err(stop) => return Self::doubt::<L, _>(parent, stop),
        };
        if L::LATCHED && !parent.still() {
            return Ok(Look::Changed);
        }
        self.node(&found, Some(level))?;
        Ok(Look::Saw(Some(found)))
    }

    /// The node at `level` that covers the probe, latched exclusively; `None` if the root is below
    /// that level.
    #[inline]
    pub(super) fn exclusive_at<L: LatchPolicy>(
        &self,
        probe: Probe<'_>,
        level: u8,
    ) -> Result<Option<PageMut<'p, L>>, Stop> {
        if self.pool.views::<L>() {
            for _ in 0..TRIES {
                if let Look::Saw(found) = self.exclusive_below::<L>(probe, level)? {
                    return Ok(found);
                }
            }
        }
        self.exclusive_coupled(probe, level)
    }

    #[cold]
    fn exclusive_coupled<L: LatchPolicy>(
        &self,
        probe: Probe<'_>,
        level: u8,
    ) -> Result<Option<PageMut<'p, L>>, Stop> {
        loop {
            let mut page = self.top_shared::<L>(Seek::Key(probe))?;
            let mut here = self.node(&page, None)?.level();
            if here < level {
                return Ok(None);
            }
            if here == level {
                drop(page);
                let (root, seen) = self.top(Seek::Key(probe));
                let root = self.pool.exclusive::<L>(root)?;
                if self.is_top(seen) && self.node(&root, None)?.level() == level {
                    return Ok(Some(root));
                }
                continue;
            }
            loop {
                let child = Seek::Key(probe)
                    .child(self.node(&page, Some(here))?)
                    .map_err(|Garbled| corrupt(&page))?;
                here -= 1;
                if here == level {
                    let found = self.pool.exclusive::<L>(child)?;
                    self.node(&found, Some(level))?;
                    return Ok(Some(found));
                }
                page = self.pool.shared::<L>(child)?;
            }
        }
    }

    /// The leaf that covers the probe, latched exclusively.
    #[inline]
    pub(super) fn leaf_exclusive<L: LatchPolicy>(&self, probe: Probe<'_>) -> Result<PageMut<'p, L>, Stop> {
        // No root is below level 0, so a node is always found.
        self.exclusive_at(probe, 0)?.ok_or(Stop::Again)
    }

    /// The root that `seek` leads to, latched shared.
    pub(super) fn top_shared<L: LatchPolicy>(&self, seek: Seek<'_>) -> Result<PageRef<'p, L>, Stop> {
        loop {
            let (root, seen) = self.top(seek);
            let page = self.pool.shared::<L>(root);
            if self.is_top(seen) {
                return page;
            }
        }
    }

    /// The leaf that `seek` leads to, latched shared; latches are coupled on the path.
    pub(super) fn leaf<L: LatchPolicy>(&self, seek: Seek<'_>) -> Result<PageRef<'p, L>, Stop> {
        let mut page = self.top_shared::<L>(seek)?;
        let mut level = None;
        loop {
            let node = self.node(&page, level)?;
            let Some(below) = node.level().checked_sub(1) else { return Ok(page) };
            let child = seek.child(node).map_err(|Garbled| corrupt(&page))?;
            page = self.pool.shared::<L>(child)?;
            level = Some(below);
        }
    }
}
