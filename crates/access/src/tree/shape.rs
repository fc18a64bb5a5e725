//! Structure modifications: split, merge, even out, grow and shrink the root.
//!
//! Each is one redo-only log record over a parent and at most two of its children. Splits do not
//! propagate upwards from the leaf. When a parent has no room for another separator, the operation
//! releases its latches, makes room *in the parent* first (the same function, one level up), and
//! looks again. Between two such steps the tree is complete, so other threads may run between them,
//! and an operation may stop there without harm.
//!
//! Where to split: about in the middle by bytes, with a separator as short as possible. But when
//! keys have been arriving in order ([`Node::run`]), the split is after the last key, so that
//! loading in key order leaves full nodes.

use super::edit::Image;
use super::entries::{Entries, prefix_of, size_behind};
use super::node::{Node, entry_size};
use super::{BTree, MAX_LEVEL, Probe, Seek};
use crate::Journal;
use crate::bytes::{Bytes, Garbled, common_prefix};
use crate::page::{corrupt, new_page};
use crate::record::{Action, SystemBody};
use crate::redo::perform;
use base::PageId;
use latch::LatchPolicy;
use pages::{PageMut, Stop};
use probe::mark::{self, marked};

/// The number of keys in a row that must have gone to the end before a split treats them as
/// arriving in order.
const ORDERLY: usize = 8;

/// The content of one node, or of two neighbours together, to be divided anew.
pub(super) struct Parts<'a> {
    pub level: u8,
    pub first: PageId,
    pub low: &'a [u8],
    pub high: Option<&'a [u8]>,
    pub entries: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Parts<'a> {
    /// Returns an error for a node that is not in order or miscounts its space: dividing it would
    /// spread the damage, and might never end. `entries` are the node's own.
    pub(super) fn of(node: Node<&'a Bytes>, entries: &'a Entries) -> Result<Parts<'a>, Garbled> {
        let entries: Vec<_> = entries.iter().collect();
        let (low, high) = (node.low()?, node.high()?);
        let inside = entries.first().is_none_or(|(key, _)| low <= *key)
            && entries.last().is_none_or(|(key, _)| high.is_none_or(|high| *key < high));
        let ordered = entries.is_sorted_by(|a, b| a.0 < b.0);
        let counted = fence_bytes(low, high) + size_behind(node.skip(), &entries);
        if !inside || !ordered || counted != node.used() {
            return Err(Garbled);
        }
        Ok(Parts { level: node.level(), first: node.child(0)?, low, high, entries })
    }

    /// The content of two neighbours. If they are inner nodes, `between` is the value for the right
    /// node's first child.
    pub(super) fn of_both(left: Parts<'a>, right: Parts<'a>, between: &'a [u8]) -> Parts<'a> {
        let mut parts = left;
        if parts.level > 0 {
            parts.entries.push((right.low, between));
        }
        parts.entries.extend(right.entries);
        parts.high = right.high;
        parts
    }

    /// Bytes of a node with these fences and entries, when it is laid out anew.
    pub(super) fn size(low: &[u8], high: Option<&[u8]>, entries: &[(&[u8], &[u8])]) -> usize {
        fence_bytes(low, high) + size_behind(prefix_of(entries).len(), entries)
    }

    pub(super) fn whole(&self) -> Image {
        image(self.level, self.first, self.low, self.high, &self.entries)
    }

    /// The position that halves the bytes, with at least one entry on either side.
    fn middle(&self) -> usize {
        let skip = prefix_of(&self.entries).len();
        let half = size_behind(skip, &self.entries) / 2;
        let mut sum = 0;
        let at = self.entries.iter().take_while(|(key, value)| {
            sum += entry_size(key.len() - skip, value.len());
            sum <= half
        });
        at.count().clamp(1, self.entries.len().saturating_sub(1).max(1))
    }

    /// The position with the shortest separator, within an eighth of the entries around the middle.
    /// Short separators make wide inner nodes, and tend to lie where one group of keys ends and
    /// another begins.
    fn natural(&self) -> usize {
        let (middle, count) = (self.middle(), self.entries.len());
        let reach = count / 8;
        let window =
            middle.saturating_sub(reach).max(1)..=(middle + reach).min(count.saturating_sub(1)).max(1);
        let length = |at: &usize| match (self.level, self.entries.get(at - 1..=*at)) {
            (0, Some([last, first])) => common_prefix(last.0, first.0) + 1,
            (_, Some([_, up])) => up.0.len(),
            _ => usize::MAX,
        };
        window.min_by_key(|at| (length(at), at.abs_diff(middle))).unwrap_or(middle)
    }

    /// Two halves at the natural position, or in the middle if the natural position would make one
    /// of them too full.
    fn halve(&self, next: &[u8], fill: usize) -> Result<Halves, Garbled> {
        let halves = self.divide(self.natural(), next)?;
        if halves.larger <= fill { Ok(halves) } else { self.divide(self.middle(), next) }
    }

    /// The halves of a split before position `at`. If `at` is the end of a leaf, `next` is the key
    /// that follows the last one.
    fn divide(&self, at: usize, next: &[u8]) -> Result<Halves, Garbled> {
        let (left, right) = self.entries.split_at_checked(at).ok_or(Garbled)?;
        let last = left.last().ok_or(Garbled)?.0;
        if self.level == 0 {
            let first = right.first().map_or(next, |(key, _)| key);
            let separator = first.get(..=common_prefix(last, first)).ok_or(Garbled)?.to_vec();
            return Ok(Halves::new(self, left, separator, PageId(0), right));
        }
        // The separator moves up, and its child becomes the right node's first child.
        let (&(separator, child), right) = right.split_first().ok_or(Garbled)?;
        let child = super::node::child_id(child)?;
        Ok(Halves::new(self, left, separator.to_vec(), child, right))
    }
}

/// Two nodes made from one set of entries.
struct Halves {
    separator: Vec<u8>,
    left: Image,
    right: Image,
    /// Bytes used in the fuller one, and in the other.
    larger: usize,
    smaller: usize,
}

impl Halves {
    fn new(
        parts: &Parts<'_>,
        left: &[(&[u8], &[u8])],
        separator: Vec<u8>,
        child: PageId,
        right: &[(&[u8], &[u8])],
    ) -> Halves {
        let sizes =
            [Parts::size(parts.low, Some(&separator), left), Parts::size(&separator, parts.high, right)];
        let (larger, smaller) = (sizes[0].max(sizes[1]), sizes[0].min(sizes[1]));
        let left = image(parts.level, parts.first, parts.low, Some(&separator), left);
        let right = image(parts.level, child, &separator, parts.high, right);
        Halves { separator, left, right, larger, smaller }
    }
}

fn fence_bytes(low: &[u8], high: Option<&[u8]>) -> usize {
    low.len() + high.map_or(0, <[u8]>::len)
}

pub(super) fn image(
    level: u8,
    first: PageId,
    low: &[u8],
    high: Option<&[u8]>,
    entries: &[(&[u8], &[u8])],
) -> Image {
    let mut image = Image::new(level, first, low, high, prefix_of(entries));
    entries.iter().for_each(|(key, value)| image.push(key, value));
    image
}

/// How to split a node that must take one more entry for `key`; neither half may exceed `fill`
/// bytes.
fn split_of(node: Node<&Bytes>, probe: Probe<'_>, fill: usize) -> Result<Halves, Garbled> {
    let entries = Entries::of(node)?;
    let parts = Parts::of(node, &entries)?;
    let (count, key) = (parts.entries.len(), probe.key());
    let at_end = node.behind(probe)? == count;
    let orderly = usize::from(node.run()) >= ORDERLY.min(count.saturating_sub(1));
    if at_end && orderly && count > 1 {
        // In an inner node one entry moves up. A full node may also have to give one entry away, to
        // have room for its new fence.
        let most = if parts.level == 0 { count } else { count - 1 };
        for at in (most.saturating_sub(1).max(1)..=most).rev() {
            let halves = parts.divide(at, key)?;
            if halves.larger <= fill {
                return Ok(halves);
            }
        }
    }
    parts.halve(key, fill)
}

impl<'p> BTree<'p> {
    /// Makes sure that the node at `level` that covers the probe has the number of free bytes that
    /// `need` returns; splits nodes as necessary. The caller may need several calls, because other
    /// threads use the room too.
    pub(super) fn make_room<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        probe: Probe<'_>,
        level: u8,
        need: &dyn Fn(Node<&Bytes>) -> Result<usize, Garbled>,
    ) -> Result<(), Stop> {
        if level >= MAX_LEVEL {
            return Err(Stop::NoSpace);
        }
        loop {
            let Some(mut parent) = self.exclusive_at::<L>(probe, level + 1)? else {
                return self.split_root::<L>(journal, probe, level, need);
            };
            let child = self.child_of(&parent, probe)?;
            let mut child = self.pool.exclusive::<L>(child)?;
            let node = self.node(&child, Some(level))?;
            if node.used() + need(node).map_err(|Garbled| corrupt(&child))? <= self.fill {
                return Ok(());
            }
            let halves = split_of(node, probe, self.fill).map_err(|Garbled| corrupt(&child))?;
            let room = |node: Node<&Bytes>| node.room_for(&halves.separator, 4);
            let node = self.node(&parent, None)?;
            if node.used() + room(node).map_err(|Garbled| corrupt(&parent))? <= self.fill {
                return self.split(journal, &mut parent, &mut child, &halves);
            }
            drop((parent, child));
            // For the levels above, the separator lies in the same node as the probe.
            self.make_room::<L>(journal, Probe::new(&halves.separator), level + 1, &room)?;
        }
    }

    fn child_of<L: LatchPolicy>(&self, parent: &PageMut<'p, L>, probe: Probe<'_>) -> Result<PageId, Stop> {
        let node = self.node(parent, None)?;
        node.behind(probe).and_then(|at| node.child(at)).map_err(|Garbled| corrupt(parent))
    }

    fn split<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        parent: &mut PageMut<'p, L>,
        child: &mut PageMut<'p, L>,
        halves: &Halves,
    ) -> Result<(), Stop> {
        let _traced = marked::<{ mark::RESTRUCTURE }>();
        let mut right = new_page::<L>(self.pool)?;
        right.own_beside(child);
        let separator = &halves.separator;
        let body = SystemBody::new(self.id)
            .with(right.page_id(), Action::Node(halves.right.as_slice()))
            .with(child.page_id(), Action::Cut(separator))
            .with(parent.page_id(), Action::Link { child: right.page_id(), key: separator });
        perform(journal, self.id, &body, &mut [&mut right, child, parent])?;
        self.tell(journal, &right, separator)
    }

    /// Moves the root's content to two new children; the root is one level higher then.
    fn split_root<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        probe: Probe<'_>,
        level: u8,
        need: &dyn Fn(Node<&Bytes>) -> Result<usize, Garbled>,
    ) -> Result<(), Stop> {
        let _traced = marked::<{ mark::RESTRUCTURE }>();
        let (root, seen) = self.top(Seek::Key(probe));
        let mut root = self.pool.exclusive::<L>(root)?;
        if !self.is_top(seen) {
            return Ok(());
        }
        let node = self.node(&root, None)?;
        let need = need(node).map_err(|Garbled| corrupt(&root))?;
        if node.level() != level || node.used() + need <= self.fill {
            return Ok(());
        }
        let halves = split_of(node, probe, self.fill).map_err(|Garbled| corrupt(&root))?;
        let mut left = new_page::<L>(self.pool)?;
        let mut right = match new_page::<L>(self.pool) {
            Ok(right) => right,
            Err(stop) => {
                self.give_back(left);
                return Err(stop);
            }
        };
        left.own_beside(&root);
        right.own_beside(&root);
        let child = right.page_id().0.to_le_bytes();
        // The root of a sub-tree keeps the bounds of the sub-tree as fences.
        let fences = || Ok((node.low()?, node.high()?));
        let (low, high) = fences().map_err(|Garbled| corrupt(&root))?;
        let top = image(level + 1, left.page_id(), low, high, &[(&halves.separator, &child)]);
        let body = SystemBody::new(self.id)
            .with(left.page_id(), Action::Node(halves.left.as_slice()))
            .with(right.page_id(), Action::Node(halves.right.as_slice()))
            .with(root.page_id(), Action::Node(top.as_slice()));
        perform(journal, self.id, &body, &mut [&mut left, &mut right, &mut root])?;
        self.tell(journal, &right, &halves.separator)
    }

    /// Tells the journal where a leaf begins that has taken entries from another one.
    fn tell<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        right: &PageMut<'p, L>,
        separator: &[u8],
    ) -> Result<(), Stop> {
        if self.node(right, None)?.level() == 0 {
            journal.parted(self.id, separator);
        }
        Ok(())
    }

    /// Whether this node, which is held exclusively and covers the probe, is a root. The latch
    /// keeps the answer valid.
    fn is_root<L: LatchPolicy>(&self, page: &PageMut<'p, L>, probe: Probe<'_>) -> bool {
        self.top(Seek::Key(probe)).0 == page.page_id()
    }

    /// Frees a page that no other thread has seen, or that a log record has freed.
    fn give_back<L: LatchPolicy>(&self, page: PageMut<'p, L>) {
        self.pool.free(page.page_id());
    }

    pub(super) fn is_underfull(&self, node: Node<&Bytes>) -> bool {
        node.used() < self.fill / 3
    }

    /// Called after a delete that left the leaf of `key` underfull. The delete itself is done, so
    /// an error here (an absent page, no room) is ignored, and the next delete tries again.
    pub(super) fn tidy<L: LatchPolicy>(&self, journal: &mut impl Journal, probe: Probe<'_>) {
        let mut level = 0;
        while level < MAX_LEVEL && matches!(self.fill_up::<L>(journal, probe, level), Ok(Parent::Underfull)) {
            level += 1;
        }
    }

    /// Merges the node at `level` that covers `key` with a neighbour, or evens the two out.
    pub(super) fn fill_up<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        probe: Probe<'_>,
        level: u8,
    ) -> Result<Parent, Stop> {
        let Some(mut parent) = self.exclusive_at::<L>(probe, level + 1)? else { return Ok(Parent::Root) };
        let node = self.node(&parent, None)?;
        if node.count() == 0 {
            return self.lone_child(journal, parent, probe);
        }
        let pair = || {
            let right = node.behind(probe)?.max(1);
            Ok((node.child(right - 1)?, node.child(right)?, node.key(right - 1)?))
        };
        let (left, right, separator) = pair().map_err(|Garbled| corrupt(&parent))?;
        let mut left = self.pool.exclusive::<L>(left)?;
        let mut right = self.pool.exclusive::<L>(right)?;
        let (l, r) = (self.node(&left, Some(level))?, self.node(&right, Some(level))?);
        if !self.is_underfull(l) && !self.is_underfull(r) {
            return Ok(Parent::Fine);
        }
        let between = r.child(0).map_err(|Garbled| corrupt(&right))?.0.to_le_bytes();
        let whose = || Ok((Entries::of(l)?, Entries::of(r)?));
        let (l_own, r_own) = whose().map_err(|Garbled| corrupt(&left))?;
        let both = || Ok(Parts::of_both(Parts::of(l, &l_own)?, Parts::of(r, &r_own)?, &between));
        let parts = both().map_err(|Garbled| corrupt(&left))?;
        if Parts::size(parts.low, parts.high, &parts.entries) <= self.fill / 4 * 3 {
            let image = parts.whole();
            self.merge(journal, &mut parent, &mut left, right, &separator, &image)?;
            // The left node is released, because the root may take over its content below.
            drop(left);
        } else {
            // Exactly in the middle: a half that was underfull would be evened out again at the
            // next delete.
            let halves = parts.divide(parts.middle(), &[]).map_err(|Garbled| corrupt(&left))?;
            if halves.smaller > l.used().min(r.used()) {
                self.even_out(journal, &mut parent, &mut left, &mut right, &separator, &halves)?;
            }
            drop((left, right));
        }
        let node = self.node(&parent, None)?;
        if node.count() == 0 && self.is_root(&parent, probe) {
            return self.lone_child(journal, parent, probe);
        }
        Ok(if self.is_underfull(node) { Parent::Underfull } else { Parent::Fine })
    }

    fn merge<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        parent: &mut PageMut<'p, L>,
        left: &mut PageMut<'p, L>,
        right: PageMut<'p, L>,
        separator: &[u8],
        image: &Image,
    ) -> Result<(), Stop> {
        let body = SystemBody::new(self.id)
            .with(left.page_id(), Action::Node(image.as_slice()))
            .with(parent.page_id(), Action::Unlink { key: separator })
            .with(right.page_id(), Action::Freed);
        perform(journal, self.id, &body, &mut [left, parent])?;
        self.give_back(right);
        Ok(())
    }

    fn even_out<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        parent: &mut PageMut<'p, L>,
        left: &mut PageMut<'p, L>,
        right: &mut PageMut<'p, L>,
        separator: &[u8],
        halves: &Halves,
    ) -> Result<(), Stop> {
        // The old separator is removed before the new one is added, so this much room is more than
        // enough.
        let node = self.node(parent, None)?;
        let room = node.room_for(&halves.separator, 4).map_err(|Garbled| corrupt(parent))?;
        if halves.larger > self.fill || node.used() + room > self.fill {
            return Ok(());
        }
        let body = SystemBody::new(self.id)
            .with(left.page_id(), Action::Node(halves.left.as_slice()))
            .with(right.page_id(), Action::Node(halves.right.as_slice()))
            .with(parent.page_id(), Action::Relink { old: separator, new: &halves.separator });
        perform(journal, self.id, &body, &mut [left, right, parent])?;
        self.tell(journal, right, &halves.separator)
    }

    /// An inner node with one child. A root takes over the child's content; another node remains
    /// until it is merged itself.
    fn lone_child<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        mut parent: PageMut<'p, L>,
        probe: Probe<'_>,
    ) -> Result<Parent, Stop> {
        if !self.is_root(&parent, probe) {
            return Ok(Parent::Underfull);
        }
        let node = self.node(&parent, None)?;
        let (level, child) = (node.level(), node.child(0).map_err(|Garbled| corrupt(&parent))?);
        let child = self.pool.exclusive::<L>(child)?;
        let node = self.node(&child, level.checked_sub(1))?;
        let whole = || Ok(Parts::of(node, &Entries::of(node)?)?.whole());
        let image = whole().map_err(|Garbled| corrupt(&child))?;
        let body = SystemBody::new(self.id)
            .with(parent.page_id(), Action::Node(image.as_slice()))
            .with(child.page_id(), Action::Freed);
        perform(journal, self.id, &body, &mut [&mut parent])?;
        self.give_back(child);
        Ok(Parent::Fine)
    }
}

/// The state of the parent after `fill_up`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Parent {
    /// There is no parent: the node is a root.
    Root,
    Fine,
    Underfull,
}
