//! The B+tree: byte-string keys in order, each with a short value.
//!
//! ```text
//!                 root (its page never changes)
//!               /        |         \
//!          [.., m)    [m, t)     [t, ..)        inner nodes: fences, first child, (separator, child)...
//!          /   |        |   \       |   \
//!        leaf leaf    leaf leaf   leaf leaf     no links between leaves
//! ```
//!
//! **Finding.** A descent holds one latch and takes the next before it lets go (coupling): shared down, exclusive at
//! the level to be changed. Under the `Owned` policy the same code takes no latch. There are no sibling links: the
//! next leaf is the one that covers this leaf's high fence, the previous one covers keys just below its low
//! fence, so a scan in either direction never holds a leaf while it looks for another.
//!
//! **Changing the shape.** When a leaf is too full, the operation lets go of everything, makes room from above
//! (see `shape`) and starts again. A shape change holds a parent and at most two of its children exclusively and is
//! one redo-only log record, so whatever happens next it is complete.
//!
//! **Latch order.** Top to bottom, then left to right. The one descent that holds several leaves ([`write`]'s
//! look at the next leaf) keeps its whole path shared, and goes right only.

mod bulk;
mod edit;
mod node;
mod read;
mod shape;
mod verify;
mod write;

#[cfg(test)]
mod tests;

pub use bulk::Loaded;
pub(crate) use edit::NodeMut;
pub(crate) use node::{CAPACITY, Node};
pub use read::{Chunk, ChunkEnd, Direction, Stamp};
pub use verify::{TreeFlaw, TreeReport};
pub use write::{Expect, TreeDelete, TreeInsert, TreeReplace};

use crate::bytes::Garbled;
use crate::page::{Held, KIND_NODE, corrupt, is};
use crate::record::{Action, SystemBody};
use crate::{Journal, redo::perform};
use base::{PageId, TableId};
use edit::Image;
use latch::LatchPolicy;
use node::MAX_LEVEL;
use pages::{Page, PageMut, PageRef, Pool, Stop};
use std::ops::Deref;

/// A tree in a pool: a handle of a few words, made for each use.
#[derive(Clone, Copy)]
pub struct BTree<'p> {
    pool: &'p Pool,
    root: PageId,
    id: TableId,
    /// Bytes of a node that may be used: all of them, less in tests that want small nodes.
    fill: usize,
}

/// Where a descent goes.
#[derive(Clone, Copy)]
enum Seek<'a> {
    /// To the leaf that covers this key.
    Key(&'a [u8]),
    /// To the leaf that covers the keys just below this one.
    Below(&'a [u8]),
    /// To the rightmost leaf.
    Last,
}

impl Seek<'_> {
    #[inline]
    fn child(self, node: Node<'_>) -> Result<PageId, Garbled> {
        let ordinal = match self {
            Seek::Key(key) => node.behind(key)?,
            Seek::Below(key) => node.at_or_behind(key)?,
            Seek::Last => node.count(),
        };
        node.child(ordinal)
    }
}

impl<'p> BTree<'p> {
    /// The tree whose root lies in page `root`. `id` marks its pages and its log records.
    pub fn open(pool: &'p Pool, root: PageId, id: TableId) -> BTree<'p> {
        BTree { pool, root, id, fill: CAPACITY }
    }

    /// A tree that uses only `bytes` of each node, so that tests meet splits and merges early. Every user of
    /// one tree must give the same limit; at least 256, at most a page.
    #[must_use]
    pub fn with_fill_limit(self, bytes: usize) -> BTree<'p> {
        BTree { fill: bytes.clamp(256, CAPACITY), ..self }
    }

    /// Makes an empty tree and gives its root page, to be kept in the catalog.
    ///
    /// # Errors
    /// What the pool says when it has no page left.
    pub fn create<L: LatchPolicy>(
        pool: &Pool,
        journal: &mut impl Journal,
        id: TableId,
    ) -> Result<PageId, Stop> {
        let page = pool.allocate()?;
        Self::create_at::<L>(pool, journal, id, page).inspect_err(|_| pool.free(page))?;
        Ok(page)
    }

    /// As [`BTree::create`], with its root in a page that the caller has allocated.
    ///
    /// # Errors
    /// What the pool says when no frame is free; nothing was changed.
    pub fn create_at<L: LatchPolicy>(
        pool: &Pool,
        journal: &mut impl Journal,
        id: TableId,
        page: PageId,
    ) -> Result<(), Stop> {
        let mut root = crate::page::fresh::<L>(pool, page)?;
        let image = Image::new(0, PageId(0), &[], None);
        let body = SystemBody::new(id).with(page, Action::Node(image.as_slice()));
        perform(journal, id, &body, &mut [&mut root])
    }

    pub fn root(&self) -> PageId {
        self.root
    }

    pub fn id(&self) -> TableId {
        self.id
    }

    /// The longest key this tree takes, in bytes: an eighth of a node.
    pub fn max_key(&self) -> usize {
        self.fill / 8
    }

    /// The node in `page`, if it is one of this tree at `level`.
    #[inline]
    fn node<'a, P>(&self, page: &'a P, level: Option<u8>) -> Result<Node<'a>, Stop>
    where
        P: Held + Deref<Target = Page>,
    {
        let node = Node::new(page.bytes());
        let right = is(page, KIND_NODE, self.id) && node.level() <= MAX_LEVEL;
        if right && level.is_none_or(|level| level == node.level()) { Ok(node) } else { Err(corrupt(page)) }
    }

    /// The leaf that `seek` leads to, latched shared.
    #[inline]
    fn leaf<L: LatchPolicy>(&self, seek: Seek<'_>) -> Result<PageRef<'p, L>, Stop> {
        let mut page = self.pool.shared::<L>(self.root)?;
        let mut level = None;
        loop {
            let node = self.node(&page, level)?;
            let Some(below) = node.level().checked_sub(1) else { return Ok(page) };
            let child = seek.child(node).map_err(|Garbled| corrupt(&page))?;
            page = self.pool.shared::<L>(child)?;
            level = Some(below);
        }
    }

    /// The node at `level` that covers `key`, latched exclusively; `None` if the root is below that level.
    fn exclusive_at<L: LatchPolicy>(&self, key: &[u8], level: u8) -> Result<Option<PageMut<'p, L>>, Stop> {
        loop {
            let mut page = self.pool.shared::<L>(self.root)?;
            let mut here = self.node(&page, None)?.level();
            if here < level {
                return Ok(None);
            }
            if here == level {
                drop(page);
                let root = self.pool.exclusive::<L>(self.root)?;
                if self.node(&root, None)?.level() == level {
                    return Ok(Some(root));
                }
                continue;
            }
            loop {
                let child =
                    Seek::Key(key).child(self.node(&page, Some(here))?).map_err(|Garbled| corrupt(&page))?;
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

    /// The leaf that covers `key`, latched exclusively.
    fn leaf_exclusive<L: LatchPolicy>(&self, key: &[u8]) -> Result<PageMut<'p, L>, Stop> {
        // No root is below level 0, so there is a node.
        self.exclusive_at(key, 0)?.ok_or(Stop::Again)
    }
}
