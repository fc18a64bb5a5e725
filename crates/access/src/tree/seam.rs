//! Merging two neighbouring partitions of a multi-rooted tree (Pandis' thesis, section 4.3.5; see
//! `partition`).

use super::edit::Image;
use super::entries::Entries;
use super::partition::Moved;
use super::roots::Start;
use super::shape::Parts;
use super::table;
use super::{BTree, MAX_LEVEL, Probe};
use crate::Journal;
use crate::bytes::Garbled;
use crate::page::{corrupt, disordered, malformed, new_page};
use crate::record::{Action, SystemBody};
use base::PageId;
use latch::LatchPolicy;
use pages::{PageMut, Stop};

/// The partitions of a merge: the start key of the right one, and the entry of the left one.
struct Ends<'a> {
    key: &'a [u8],
    before: &'a Start,
}

/// The side on which the higher of two sub-trees meets the lower one.
#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

impl<'p> BTree<'p> {
    /// Merges the partition that begins at `key` into the one before it.
    ///
    /// # Errors
    /// [`Stop`]: nothing was changed, but nodes may have been split to make room; [`Stop::Fault`]
    /// when no partition begins at `key`, or none lies before it.
    pub fn merge_partition<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        key: &[u8],
    ) -> Result<Moved, Stop> {
        let roots = self.root_map()?;
        loop {
            let (starts, seen) = roots.starts();
            let at = starts.iter().position(|(start, _)| start.as_slice() == key);
            let Some(at) = at.filter(|at| *at > 0) else {
                return Err(disordered("no partition that has another one before it begins at this key"));
            };
            let (before, after) = (&starts[at - 1], &starts[at]);
            if before.1 == after.1 {
                return Err(malformed(self.root));
            }
            let left = self.pool.exclusive::<L>(before.1)?;
            let right = self.pool.exclusive::<L>(after.1)?;
            if !roots.unchanged(seen) {
                continue;
            }
            let ends = Ends { key, before };
            if let Some(moved) = self.merge_roots(journal, left, right, &ends)? {
                self.tidy_path::<L>(journal, Probe::new(key), 0);
                return Ok(moved);
            }
        }
    }

    /// `None` when room had to be made first: the caller looks again.
    fn merge_roots<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        left: PageMut<'p, L>,
        right: PageMut<'p, L>,
        ends: &Ends<'_>,
    ) -> Result<Option<Moved>, Stop> {
        let meet = self.node(&left, None)?.high() == Ok(Some(ends.key));
        if !meet || self.node(&right, None)?.low() != Ok(ends.key) {
            return Err(corrupt(&right));
        }
        match self.level_of(&left)?.cmp(&self.level_of(&right)?) {
            std::cmp::Ordering::Equal => self.merge_alike(journal, left, right, ends).map(Some),
            std::cmp::Ordering::Greater => self.hang(journal, Side::Right, (left, right), ends),
            std::cmp::Ordering::Less => self.hang(journal, Side::Left, (right, left), ends),
        }
    }

    /// Merges two roots of one level. Either all entries go into the left root, or the two get a
    /// common parent in the left root's page.
    fn merge_alike<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        mut left: PageMut<'p, L>,
        mut right: PageMut<'p, L>,
        ends: &Ends<'_>,
    ) -> Result<Moved, Stop> {
        let mut moved = Moved { pages_read: 2, pointers: 1, ..Moved::default() };
        let (l, r) = (self.node(&left, None)?, self.node(&right, None)?);
        let level = l.level();
        let between = r.child(0).map_err(|Garbled| corrupt(&right))?.0.to_le_bytes();
        let whose = || Ok((Entries::of(l)?, Entries::of(r)?));
        let (l_own, r_own) = whose().map_err(|Garbled| corrupt(&left))?;
        let parts = || Ok((Parts::of(l, &l_own)?, Parts::of(r, &r_own)?));
        let (l_parts, r_parts) = parts().map_err(|Garbled| corrupt(&left))?;
        let (low, high) = (l_parts.low.to_vec(), r_parts.high.map(<[u8]>::to_vec));
        let content = l_parts.whole();
        let mut counted = moved;
        counted.entries(level, &r_parts.entries);
        let mut lifted = moved;
        lifted.entries(level, &l_parts.entries);
        let both = Parts::of_both(l_parts, r_parts, &between);
        let root = left.page_id();
        if Parts::size(both.low, both.high, &both.entries) <= self.fill {
            let image = both.whole();
            let body = SystemBody::new(self.id)
                .with(root, Action::Node(image.as_slice()))
                .with(right.page_id(), Action::Freed);
            moved = Moved { pages_freed: 1, ..counted };
            self.log_merge(journal, body, ends, root, vec![&mut left], &mut moved)?;
            self.pool.free(right.page_id());
            return Ok(moved);
        }
        if level + 1 >= MAX_LEVEL {
            return Err(Stop::NoSpace);
        }
        let mut below = new_page::<L>(self.pool)?;
        below.own_beside(&left);
        let child = right.page_id().0.to_le_bytes();
        let entries: [(&[u8], &[u8]); 1] = [(ends.key, &child)];
        let top = super::shape::image(level + 1, below.page_id(), &low, high.as_deref(), &entries);
        let body = SystemBody::new(self.id)
            .with(below.page_id(), Action::Node(content.as_slice()))
            .with(root, Action::Node(top.as_slice()));
        moved = Moved { pages_made: 1, pointers: 3, ..lifted };
        let done =
            self.log_merge(journal, body, ends, root, vec![&mut below, &mut left, &mut right], &mut moved);
        if done.is_err() {
            self.pool.free(below.page_id());
        }
        done.map(|()| moved)
    }

    /// Merges two roots of different levels. The lower root becomes the outermost child, on the
    /// side where they meet, of the node one level above it. All nodes on the path to there get its
    /// outer bound.
    fn hang<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        side: Side,
        (higher, lower): (PageMut<'p, L>, PageMut<'p, L>),
        ends: &Ends<'_>,
    ) -> Result<Option<Moved>, Stop> {
        let node = self.node(&lower, None)?;
        let bounds = || Ok((node.low()?, node.high()?));
        let (low, high) = bounds().map_err(|Garbled| corrupt(&lower))?;
        let level = node.level() + 1;
        let (root, child) = (higher.page_id(), lower.page_id());
        let child_bytes = child.0.to_le_bytes();
        let mut path = self.edge(side, higher, level)?;
        let mut images = Vec::new();
        for page in &path {
            let node = self.node(page, None)?;
            let entries = Entries::of(node).map_err(|Garbled| corrupt(page))?;
            let mut parts = Parts::of(node, &entries).map_err(|Garbled| corrupt(page))?;
            let (begins, first) = (parts.low.to_vec(), parts.first.0.to_le_bytes());
            let bound = match side {
                Side::Right => {
                    parts.high = high;
                    high.unwrap_or_default()
                }
                Side::Left => {
                    parts.low = low;
                    low
                }
            };
            match side {
                _ if parts.level != level => {}
                Side::Right => parts.entries.push((ends.key, &child_bytes)),
                Side::Left => {
                    parts.first = child;
                    parts.entries.insert(0, (ends.key, &first));
                }
            }
            if Parts::size(parts.low, parts.high, &parts.entries) > self.fill {
                let (level, more) = (parts.level, ends.key.len() + bound.len() + 64);
                drop((path, lower));
                // A descent to the first key of the node's range reaches the node.
                self.make_room::<L>(journal, Probe::new(&begins), level, &move |_| Ok(more))?;
                return Ok(None);
            }
            images.push((page.page_id(), parts.whole()));
        }
        let mut moved = Moved { pages_read: path.len() + 1, pointers: path.len() + 1, ..Moved::default() };
        let pages = path.iter_mut().collect();
        self.log_merge(journal, self.body_of(&images), ends, root, pages, &mut moved)?;
        Ok(Some(moved))
    }

    /// The outermost nodes on one side, from `root` down to `level`, latched exclusively.
    fn edge<L: LatchPolicy>(
        &self,
        side: Side,
        root: PageMut<'p, L>,
        level: u8,
    ) -> Result<Vec<PageMut<'p, L>>, Stop> {
        let mut path = vec![root];
        loop {
            let page = &path[path.len() - 1];
            let node = self.node(page, None)?;
            if node.level() <= level {
                return Ok(path);
            }
            let outermost = match side {
                Side::Left => 0,
                Side::Right => node.count(),
            };
            let next = node.child(outermost).map_err(|Garbled| corrupt(page))?;
            path.push(self.pool.exclusive::<L>(next)?);
        }
    }

    fn body_of(&self, images: &[(PageId, Image)]) -> SystemBody {
        let nodes = images.iter().map(|(page, image)| (*page, Action::Node(image.as_slice())));
        nodes.fold(SystemBody::new(self.id), |body, (page, action)| body.with(page, action))
    }

    fn log_merge<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        body: SystemBody,
        ends: &Ends<'_>,
        root: PageId,
        mut pages: Vec<&mut PageMut<'p, L>>,
        moved: &mut Moved,
    ) -> Result<(), Stop> {
        let (mut table, parts) = table::held::<L>(self.pool, self.id, self.root)?;
        moved.pages_read += table.len();
        let rewrite = table::without(parts, ends.key, (&ends.before.0, root));
        moved.pages_freed += usize::from(rewrite.freed.is_some());
        self.log_table(journal, body, &rewrite, &mut pages, &mut table)
    }
}
