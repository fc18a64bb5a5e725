//! Loading a sorted stream: packed nodes from left to right, each page written and logged once.
//!
//! ```text
//!   stream --> leaf being filled --full--> page, logged as an image
//!                                   | (its low fence, its page)
//!                                   v
//!              inner node being filled --full--> page ...       one node in memory on each level
//! ```
//!
//! The tree stays empty until the last step, one record that makes the root page the topmost node.
//! So a load that ends early (an error, a crash) leaves an empty tree. After an error its pages are
//! freed, also in the log.
//!
//! After a crash they stay in use and belong to no tree: the log has their content, and no record
//! links them. Nothing searches for them. That is enough because only the load of an empty store
//! builds trees in this way, and a load that did not end leaves rows without entries, too: the
//! caller loads into a new folder. A check of the old folder reports the pages as lost.
//!
//! A load only makes pages and never reads them again, so it needs no page to be resident, and a
//! pool of any size suffices.

use super::edit::Image;
use super::entries::{Entries, prefix_of};
use super::node::{best_prefix, entry_size};
use super::{BTree, MAX_LEVEL};
use crate::Journal;
use crate::bytes::{Garbled, common_prefix};
use crate::page::{corrupt, disordered, new_page};
use crate::record::{Action, SystemBody};
use crate::redo::perform;
use base::{Key, PageId};
use latch::LatchPolicy;
use pages::Stop;

/// The result of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Loaded {
    pub entries: u64,
    /// Pages, without the root.
    pub pages: u64,
    pub levels: u8,
}

/// A node that is being filled.
#[derive(Default)]
struct Filling {
    /// Leftmost child; 0 in a leaf.
    first: PageId,
    low: Vec<u8>,
    entries: Entries,
    /// Length of the common prefix of the entries, and the size of the entries without it.
    skip: usize,
    size: usize,
}

impl Filling {
    fn new(first: PageId, low: &[u8]) -> Filling {
        Filling { first, low: low.to_vec(), ..Filling::default() }
    }

    /// Prefix length and size of the node with this entry added.
    fn with(&self, key: &[u8], value: &[u8]) -> (usize, usize) {
        let first = self.entries.get(0).map_or(key, |(first, _)| first);
        let skip = best_prefix(first, key).len();
        let entry = |key: &[u8], value: &[u8]| entry_size(key.len() - skip, value.len());
        let others = match skip == self.skip {
            true => self.size,
            false => self.entries.iter().map(|(key, value)| entry(key, value)).sum(),
        };
        (skip, others + entry(key, value))
    }

    /// Adds the entry if it fits with a high fence of `fence` bytes behind it.
    fn push(&mut self, key: &[u8], value: &[u8], most: usize, fence: usize) -> bool {
        let (skip, size) = self.with(key, value);
        let fits = self.low.len() + size + fence <= most;
        if fits {
            self.entries.push(key, value);
            (self.skip, self.size) = (skip, size);
        }
        fits
    }

    /// The position at which a node ends that has no room for `next`. The position must not
    /// separate entries that belong `together`, and at least half of the entries and of their bytes
    /// must stay here; the last such position is taken. If there is none, the node ends after its
    /// last entry.
    fn end(&self, next: (&[u8], &[u8]), together: &dyn Fn(&[u8], &[u8]) -> bool) -> usize {
        let count = self.entries.len();
        let value = |at: usize| self.entries.get(at).map_or(next.1, |(_, value)| value);
        let apart = |at: &usize| !together(value(at - 1), value(*at));
        // The entries that go to the next node must not need more room there: they must keep the
        // common prefix that they have here.
        let alike = |at: &usize| {
            self.entries.get(*at).is_none_or(|(first, _)| best_prefix(first, next.0).len() >= self.skip)
        };
        let mut behind = 0;
        let little = |at: &usize| {
            let entry = self.entries.get(*at);
            behind += entry.map_or(0, |(key, value)| entry_size(key.len() - self.skip, value.len()));
            behind <= self.size / 2
        };
        let mut near = ((count / 2).max(1)..=count).rev().take_while(little);
        near.find(|at| apart(at) && alike(at)).unwrap_or(count)
    }

    /// Keeps the entries before position `at`; returns the others.
    fn split_off(&mut self, at: usize) -> Entries {
        let mut behind = Entries::default();
        if at < self.entries.len() {
            let all = std::mem::take(&mut self.entries);
            (self.skip, self.size) = (0, 0);
            for (i, (key, value)) in all.iter().enumerate() {
                if i < at {
                    self.push(key, value, usize::MAX, 0);
                } else {
                    behind.push(key, value);
                }
            }
        }
        behind
    }

    fn image(&self, level: u8, high: Option<&[u8]>) -> Image {
        let entries: Vec<_> = self.entries.iter().collect();
        let mut image = Image::new(level, self.first, &self.low, high, prefix_of(&entries));
        entries.iter().for_each(|(key, value)| image.push(key, value));
        image
    }
}

/// The nodes being filled, leaf level first.
struct Loader<'t, 'p> {
    tree: &'t BTree<'p>,
    levels: Vec<Filling>,
    /// The high fence of the whole tree; only a sub-tree has one.
    high: Option<Key>,
    /// Bytes of each node that the load may use.
    most: usize,
    /// Pages made so far, to be freed if the load fails.
    made: Vec<PageId>,
}

impl<'p> BTree<'p> {
    /// Fills this tree with `entries` in ascending order of their keys. The tree must be empty, and
    /// no other thread may use it. `fill` is how full nodes become, in per cent (50 to 100): a
    /// lower value leaves room for later inserts.
    ///
    /// # Errors
    /// [`Stop`]: the tree is empty as before. [`Stop::Fault`] when keys do not ascend, the tree is
    /// not empty, or an entry is longer than [`BTree::insert`] takes.
    pub fn bulk<L: LatchPolicy, K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        journal: &mut impl Journal,
        entries: impl IntoIterator<Item = (K, V)>,
        fill: u8,
    ) -> Result<Loaded, Stop> {
        self.bulk_together::<L, K, V>(journal, entries, fill, |_, _| false)
    }

    /// As [`BTree::bulk`], but ends leaves between two entries of which the values are not
    /// `together`, if the leaf then keeps at least half of its entries.
    ///
    /// # Errors
    /// As [`BTree::bulk`].
    pub fn bulk_together<L: LatchPolicy, K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        journal: &mut impl Journal,
        entries: impl IntoIterator<Item = (K, V)>,
        fill: u8,
        together: impl Fn(&[u8], &[u8]) -> bool,
    ) -> Result<Loaded, Stop> {
        let (low, high) = self.check_empty::<L>()?;
        let most = self.fill * usize::from(fill.clamp(50, 100)) / 100;
        let mut loader =
            Loader { tree: self, levels: vec![Filling::new(PageId(0), &low)], high, most, made: Vec::new() };
        let done = loader.load::<L, K, V>(journal, entries, &together);
        if done.is_err() {
            loader.give_back(journal);
        }
        done
    }

    /// The fences of the tree's only node.
    fn check_empty<L: LatchPolicy>(&self) -> Result<(Key, Option<Key>), Stop> {
        let root = self.pool.shared::<L>(self.root)?;
        let node = self.node(&root, None)?;
        if node.level() > 0 || node.count() > 0 {
            return Err(disordered("the tree is not empty"));
        }
        let fences = || Ok((node.low_key()?, node.high_key()?));
        fences().map_err(|Garbled| corrupt(&root))
    }
}

impl Loader<'_, '_> {
    fn load<L: LatchPolicy, K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        journal: &mut impl Journal,
        entries: impl IntoIterator<Item = (K, V)>,
        together: &dyn Fn(&[u8], &[u8]) -> bool,
    ) -> Result<Loaded, Stop> {
        let (mut loaded, mut entries) = (Loaded::default(), entries.into_iter().peekable());
        while let Some((key, value)) = entries.next() {
            let (key, value) = (key.as_ref(), value.as_ref());
            self.tree.check_lengths(key, value)?;
            let fence = match entries.peek() {
                Some((next, _)) => common_prefix(key, next.as_ref()) + 1,
                None => self.high.as_ref().map_or(0, |high| high.len()),
            };
            self.add_entry::<L>(journal, (key, value), fence, together)?;
            loaded.entries += 1;
        }
        self.finish::<L>(journal)?;
        Ok(Loaded { pages: self.made.len() as u64, levels: self.levels.len() as u8, ..loaded })
    }

    /// `fence` is the length of the high fence of a leaf that ends with this entry.
    fn add_entry<L: LatchPolicy>(
        &mut self,
        journal: &mut impl Journal,
        (key, value): (&[u8], &[u8]),
        fence: usize,
        together: &dyn Fn(&[u8], &[u8]) -> bool,
    ) -> Result<(), Stop> {
        let leaf = &mut self.levels[0];
        if leaf.entries.last().is_some_and(|last| last >= key) {
            return Err(disordered("its keys do not ascend"));
        }
        if key < &leaf.low[..] || self.high.as_ref().is_some_and(|high| key >= &high[..]) {
            return Err(disordered("a key lies outside the partition"));
        }
        if leaf.push(key, value, self.most, fence) {
            return Ok(());
        }
        let end = leaf.end((key, value), together);
        let first = leaf.entries.get(end).map_or(key, |(first, _)| first);
        let shared = end.checked_sub(1).and_then(|last| leaf.entries.get(last));
        let shared = shared.map_or(0, |(last, _)| common_prefix(last, first));
        let separator = first.get(..=shared).unwrap_or(first).to_vec();
        let mut full = std::mem::replace(leaf, Filling::new(PageId(0), &separator));
        let behind = full.split_off(end);
        // These are fewer entries than filled a node, and an entry of legal length fits a node of
        // its own, so the pushes succeed.
        for (key, value) in behind.iter().chain([(key, value)]) {
            self.levels[0].push(key, value, usize::MAX, 0);
        }
        self.close::<L>(journal, 0, &full, Some(&separator))
    }

    /// Writes a node to a page of its own and adds it to the level above.
    fn close<L: LatchPolicy>(
        &mut self,
        journal: &mut impl Journal,
        level: usize,
        node: &Filling,
        high: Option<&[u8]>,
    ) -> Result<(), Stop> {
        if level >= usize::from(MAX_LEVEL) {
            return Err(Stop::NoSpace);
        }
        let image = node.image(level as u8, high);
        let mut page = new_page::<L>(self.tree.pool)?;
        let id = page.page_id();
        self.made.push(id);
        let body = SystemBody::new(self.tree.id).with(id, Action::Node(image.as_slice()));
        perform(journal, self.tree.id, &body, &mut [&mut page])?;
        drop(page);
        self.add_child::<L>(journal, level + 1, &node.low, id)
    }

    fn add_child<L: LatchPolicy>(
        &mut self,
        journal: &mut impl Journal,
        level: usize,
        low: &[u8],
        child: PageId,
    ) -> Result<(), Stop> {
        let Some(node) = self.levels.get_mut(level) else {
            self.levels.push(Filling::new(child, low));
            return Ok(());
        };
        let value = child.0.to_le_bytes();
        if node.push(low, &value, self.most, self.tree.max_key()) {
            return Ok(());
        }
        let full = std::mem::replace(node, Filling::new(child, low));
        self.close::<L>(journal, level, &full, Some(low))
    }

    /// Closes the rightmost node of each level; the topmost becomes the root.
    fn finish<L: LatchPolicy>(&mut self, journal: &mut impl Journal) -> Result<(), Stop> {
        let mut level = 0;
        loop {
            let node = std::mem::take(&mut self.levels[level]);
            if level + 1 == self.levels.len() {
                let image = node.image(level as u8, self.high.as_deref());
                let mut root = self.tree.pool.exclusive::<L>(self.tree.root)?;
                let body = SystemBody::new(self.tree.id).with(self.tree.root, Action::Node(image.as_slice()));
                return perform(journal, self.tree.id, &body, &mut [&mut root]);
            }
            let high = self.high.clone();
            self.close::<L>(journal, level, &node, high.as_deref())?;
            level += 1;
        }
    }

    /// Frees the pages of a load that failed, also in the log.
    fn give_back(&mut self, journal: &mut impl Journal) {
        for id in self.made.drain(..) {
            let body = SystemBody::new(self.tree.id).with(id, Action::Freed);
            journal.system(crate::Kind::System as u8, wal::LogOrder::Last, &[body.as_slice()]);
            self.tree.pool.free(id);
        }
    }
}
