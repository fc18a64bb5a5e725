//! The B+tree: byte-string keys in order, each with a value.
//!
//! ```text
//!                 root (its page never changes)
//!               /        |         \
//!          [.., m)    [m, t)     [t, ..)       inner nodes: fences, children, separators
//!          /   |        |   \       |   \
//!        leaf leaf    leaf leaf   leaf leaf     no links between leaves
//! ```
//!
//! **Look-up.** Under a policy with latch-free views ([`LatchPolicy::VIEWS`]) a descent holds
//! nothing. It reads a node, picks the child, reads the child's version, and only then validates
//! that the node has not changed. If the node has changed, the descent starts again (optimistic
//! lock coupling, Leis et al., DaMoN 2016). Data is copied out of a page and validated before the
//! caller sees it. A writer descends the same way, latches only the node that it changes,
//! exclusively, and then validates its parent.
//!
//! After a number of starts, and always under `Coupled`, the descent couples latches: it holds one
//! latch and takes the next before it releases the first. Latches are shared on the way down and
//! exclusive at the level that is changed. So no descent starts again for ever. Under `Owned` the
//! same code validates nothing, because no other thread touches the page.
//!
//! There are no sibling links. The next leaf is the one that covers this leaf's high fence; the
//! previous leaf covers the keys just below its low fence. So a scan in either direction never
//! holds one leaf while it looks for another, and two scans in opposite directions cannot deadlock.
//!
//! **Change of shape.** When a leaf is too full, the operation releases all its latches, makes room
//! from above (see `shape`) and starts again. A shape change holds a parent and at most two of its
//! children exclusively, and is one redo-only log record; so it is never left half done. Shape
//! changes under different parents do not conflict.
//!
//! **Several roots.** A tree may consist of several sub-trees, each with a range of the keys (see
//! `partition`). Then a descent begins at the root that covers its key. After it has taken the root
//! it validates that the map still names this root, as it validates a parent after it has taken a
//! child.
//!
//! **Latch order.** Top to bottom, then left to right. One kind of descent holds several leaves:
//! [`write`] looks at the next leaf, keeps its whole path latched shared, and goes right only.
//! Debug builds check the order where a latched page is read as a node ([`TreePlace`]).

mod batched_lookup;
mod bulk;
mod descend;
mod edit;
mod entries;
mod node;
mod owning;
mod partition;
mod read;
mod roots;
mod seam;
mod search;
mod shape;
mod table;
mod verify;
mod write;

#[cfg(test)]
mod owning_tests;
#[cfg(test)]
mod partition_tests;
#[cfg(test)]
mod race_tests;
#[cfg(test)]
mod tests;

pub use batched_lookup::{LANES, Sight};
pub use bulk::Loaded;
pub(crate) use edit::NodeMut;
use node::entry_size;
pub(crate) use node::{CAPACITY, Node, Probe};
pub use partition::Moved;
pub use read::{Around, ChunkEnd, Direction};
pub use roots::RootMap;
pub(crate) use table::{format as format_table, read as read_table};
pub use verify::{TreeFlaw, TreeReport};
pub use write::{Expect, TreeDelete, TreeInsert, TreeModify, TreeReplace};

use crate::bytes::{Bytes, Garbled, Source};
use crate::page::{Held, NODE_MARK, corrupt};
use crate::record::{Action, SystemBody};
use crate::{Journal, redo::perform};
use base::{PageId, TableId};
use edit::Image;
use latch::{LatchPolicy, TreePlace};
use node::MAX_LEVEL;
use pages::{Page, Pool, Stop};
use std::ops::Deref;

/// A tree in a pool: a handle of a few words, made for each use.
#[derive(Clone, Copy)]
pub struct BTree<'p> {
    pool: &'p Pool,
    /// The root, or the first page of the partition table.
    root: PageId,
    /// The sub-trees of a multi-rooted tree.
    roots: Option<&'p RootMap>,
    id: TableId,
    /// Bytes of a node that may be used: all of them, except in tests that want small nodes.
    fill: usize,
}

/// The target of a descent.
#[derive(Clone, Copy)]
enum Seek<'a> {
    /// The leaf that covers this key.
    Key(Probe<'a>),
    /// The leaf that covers the keys just below this one.
    Below(Probe<'a>),
    /// The rightmost leaf.
    Last,
}

impl Seek<'_> {
    #[inline]
    fn child<S: Source>(self, node: Node<S>) -> Result<PageId, Garbled> {
        let ordinal = match self {
            Seek::Key(key) => node.behind(key)?,
            Seek::Below(key) => node.at_or_behind(key)?,
            Seek::Last => node.count(),
        };
        node.child(ordinal)
    }
}

impl<'p> BTree<'p> {
    /// The tree of which the root lies in page `root`. `id` marks its pages and its log records.
    pub fn open(pool: &'p Pool, root: PageId, id: TableId) -> BTree<'p> {
        BTree { pool, root, roots: None, id, fill: CAPACITY }
    }

    /// A tree that uses only `bytes` of each node, so that tests reach splits and merges early. All
    /// users of one tree must give the same limit; it is clamped to at least 256 and at most a
    /// page.
    #[must_use]
    #[inline]
    pub fn with_fill_limit(self, bytes: usize) -> BTree<'p> {
        BTree { fill: bytes.clamp(256, CAPACITY), ..self }
    }

    /// Makes an empty tree and returns its root page, which the caller keeps in the catalog.
    ///
    /// # Errors
    /// The pool's [`Stop`] when it has no page left.
    pub fn create<L: LatchPolicy>(
        pool: &Pool,
        journal: &mut impl Journal,
        id: TableId,
    ) -> Result<PageId, Stop> {
        let page = pool.allocate()?;
        Self::create_at::<L>(pool, journal, id, page).inspect_err(|_| pool.free(page))?;
        Ok(page)
    }

    /// As [`BTree::create`], with the root in a page that the caller has allocated.
    ///
    /// # Errors
    /// The pool's [`Stop`] when no frame is free; nothing was changed.
    pub fn create_at<L: LatchPolicy>(
        pool: &Pool,
        journal: &mut impl Journal,
        id: TableId,
        page: PageId,
    ) -> Result<(), Stop> {
        let mut root = crate::page::fresh::<L>(pool, page)?;
        let image = Image::new(0, PageId(0), &[], None, &[]);
        let body = SystemBody::new(id).with(page, Action::Node(image.as_slice()));
        perform(journal, id, &body, &mut [&mut root])
    }

    /// The root of the tree, or of the sub-tree that `seek` leads to, and a number for
    /// [`BTree::is_top`]. The caller takes the root first and then calls `is_top`.
    #[inline]
    fn top(&self, seek: Seek<'_>) -> (PageId, u64) {
        match (self.roots, seek) {
            (None, _) => (self.root, 0),
            (Some(roots), Seek::Key(probe)) => roots.covering(probe),
            (Some(roots), Seek::Below(probe)) => roots.below(probe),
            (Some(roots), Seek::Last) => roots.last(),
        }
    }

    /// Whether the root that [`BTree::top`] returned with `seen` is still the root; so it was the
    /// root when the caller took it.
    #[inline]
    fn is_top(&self, seen: u64) -> bool {
        self.roots.is_none_or(|roots| roots.unchanged(seen))
    }

    pub fn root(&self) -> PageId {
        self.root
    }

    pub fn id(&self) -> TableId {
        self.id
    }

    /// The longest key that this tree takes, in bytes: an eighth of a node.
    pub fn max_key(&self) -> usize {
        self.fill / 8
    }

    /// Whether a leaf takes an entry with a key and a value of these lengths.
    ///
    /// Why a quarter of a node: two entries and two fences (an eighth each) always fit a node. So a
    /// node that cannot take another entry has at least three, and can be split until there is
    /// room.
    #[inline]
    pub fn takes(&self, key: usize, value: usize) -> bool {
        key <= self.max_key() && entry_size(key, value) <= self.fill / 4
    }

    /// The node in `page`, if it is a node of this tree at `level`.
    #[inline]
    fn node<'a, P>(&self, page: &'a P, level: Option<u8>) -> Result<Node<&'a Bytes>, Stop>
    where
        P: Held + Deref<Target = Page>,
    {
        let node = Node::new(page.bytes());
        if !self.is_node(node, level) {
            return Err(corrupt(page));
        }
        page.set_place(|| self.place_of(node).ok());
        Ok(node)
    }

    /// The place of a node, for the check of the order of latches in debug builds.
    fn place_of(&self, node: Node<&Bytes>) -> Result<TreePlace, Garbled> {
        let high = node.high()?.map(<[u8]>::to_vec);
        Ok(TreePlace { tree: self.id.0, level: node.level(), low: node.low()?.to_vec(), high })
    }

    #[inline]
    fn is_node<S: Source>(&self, node: Node<S>, level: Option<u8>) -> bool {
        node.belongs(NODE_MARK, self.id) && level.is_none_or(|level| level == node.level())
    }
}
