//! Batched look-up: finds several keys side by side, with prefetches.
//!
//! A descent is a chain of cache misses, each of which waits for the one before: the node's header,
//! the slots that the search reads, the value. Descents for different keys do not depend on each
//! other. So they advance together, one step of each in turn, and each step prefetches the memory
//! that the next one reads (group prefetching, Chen, Ailamaki, Gibbons and Mowry, ICDE 2004).
//!
//! A batched look-up takes no latch and guarantees nothing. Its result is used only if the leaf
//! still has the same version; a key on the path of which a page changed is not found. A read of
//! each absent page is started in the background, also of the heap pages of the rows that were
//! found. So a transaction waits for the disk once, and not for each of its rows.

use super::BTree;
use super::Seek;
use super::descend::Look;
use super::node::{Node, Probe};
use base::PageId;
use latch::LatchPolicy;
use pages::{PAGE_SIZE, PageView, Pool, Stop};
use smallvec::SmallVec;

/// Descents that advance together: about as many cache misses as a core has under way at once.
pub const LANES: usize = 16;

/// The most bytes of a value that are prefetched.
const VALUE_AHEAD: usize = 512;

/// The place where a key was found, and its value if the value is short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sight {
    pub(super) leaf: PageId,
    /// The version of the leaf at which the entry was at `slot`.
    pub(super) version: u64,
    pub(super) slot: u16,
    /// Length of the value in bytes; `value` holds it if it is at most eight.
    len: u16,
    value: [u8; 8],
}

impl Sight {
    /// The key's value, if the leaf is unchanged and the value is at most eight bytes long.
    #[inline]
    pub fn value(&self, pool: &Pool) -> Option<&[u8]> {
        let value = self.value.get(..usize::from(self.len))?;
        pool.version_unchanged(self.leaf, self.version).then_some(value)
    }
}

/// One descent.
#[derive(Clone, Copy)]
struct Lane<'p, 'k> {
    /// The position of its key among the keys.
    key: usize,
    probe: Probe<'k>,
    at: PageView<'p>,
    /// The entry in the leaf.
    slot: usize,
    /// Whether the path was undisturbed so far.
    good: bool,
}

impl<'p> BTree<'p> {
    /// Looks up to [`LANES`] keys up at once. Calls `seen` with the position of each key and its
    /// sight; `None` if the key was not found or a page on its path changed. For a key of which the
    /// root could not be read, `seen` is not called.
    #[inline]
    pub fn find_batch<'k, L: LatchPolicy>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        mut seen: impl FnMut(usize, Option<Sight>),
    ) {
        let mut lanes = SmallVec::<[Lane<'p, 'k>; LANES]>::new();
        // A tree with one root: its root is viewed once for all keys.
        let mut only = None;
        for (key, bytes) in keys.take(LANES).enumerate() {
            let probe = Probe::new(bytes);
            let Some(at) = only.or_else(|| self.top_of_batch::<L>(probe)) else { continue };
            only = self.roots.is_none().then_some(at);
            lanes.push(Lane { key, probe, at, slot: 0, good: self.is_node(Node(at.bytes()), None) });
        }
        let levels = lanes.iter().map(|lane| Node(lane.at.bytes()).level()).max().unwrap_or_default();
        for _ in 0..levels.min(super::node::MAX_LEVEL) {
            lanes.iter_mut().for_each(|lane| self.step::<L>(lane));
        }
        for lane in &lanes {
            lane.at.prefetch(Node(lane.at.bytes()).last_slot_at(), 1);
        }
        for lane in &lanes {
            lane.at.prefetch(Node(lane.at.bytes()).guess_at(lane.probe), 1);
        }
        for lane in &mut lanes {
            let node = Node(lane.at.bytes());
            match node.search(lane.probe) {
                Ok(Ok(slot)) if node.level() == 0 && lane.good => {
                    lane.slot = slot;
                    if let Ok((at, len)) = node.value_at(slot) {
                        lane.at.prefetch(at, len.min(VALUE_AHEAD));
                    }
                }
                _ => lane.good = false,
            }
        }
        for lane in &lanes {
            seen(lane.key, lane.sight());
        }
    }

    /// The root at which the key's path begins. An absent root page is prefetched from disk.
    #[inline]
    fn top_of_batch<L: LatchPolicy>(&self, probe: Probe<'_>) -> Option<PageView<'p>> {
        match self.top_view::<L>(Seek::Key(probe)) {
            Ok(Look::Saw((root, _))) => Some(root),
            Err(Stop::Page(page)) => {
                self.pool.prefetch_beside(page);
                None
            }
            Ok(Look::Changed) | Err(_) => None,
        }
    }

    /// One step down, to the child that covers the key; prefetches the child's first lines.
    #[inline]
    fn step<L: LatchPolicy>(&self, lane: &mut Lane<'p, '_>) {
        let node = Node(lane.at.bytes());
        if !lane.good || node.level() == 0 {
            return;
        }
        lane.good = false;
        let Ok(child) = Seek::Key(lane.probe).child(node) else { return };
        match self.pool.view::<L>(child) {
            Ok(next) if lane.at.still() => {
                // The header, and the first slots after it.
                next.prefetch(0, 2 * latch::LINE);
                lane.at = next;
                lane.good = true;
            }
            Err(Stop::Page(page)) if lane.at.still() => self.pool.prefetch_beside(page),
            _ => {}
        }
    }
}

impl Lane<'_, '_> {
    #[inline]
    fn sight(&self) -> Option<Sight> {
        if !self.good {
            return None;
        }
        let (at, len) = Node(self.at.bytes()).value_at(self.slot).ok()?;
        // A word that would reach beyond the page is read from before the value.
        let from = at.min(PAGE_SIZE - 8);
        let word = self.at.bytes().u64_at(from)? >> (8 * (at - from).min(7));
        if !self.at.still() {
            return None;
        }
        Some(Sight {
            leaf: self.at.page_id(),
            version: self.at.version(),
            slot: self.slot as u16,
            len: len as u16,
            value: word.to_le_bytes(),
        })
    }
}
