//! Looking ahead: where several keys lie, found side by side.
//!
//! A descent is a chain of cache misses, each of which waits for the one before: the node's header, the slots the search
//! reads, the value. Several descents have nothing to wait for in each other. So they go down abreast, one step of each after the
//! other, and every step asks for the memory that the next one reads (group prefetching, Chen, Ailamaki, Gibbons and Mowry,
//! ICDE 2004). Nothing is held and nothing promised: what was seen is used only if the leaf is still at the same
//! version, and a key whose way was disturbed is just not seen. A page that is absent is asked for, and so are the heap pages of
//! what was found: a transaction then waits for the disk once and not for each of its rows.

use super::BTree;
use super::Seek;
use super::descend::Look;
use super::node::{Node, Probe};
use base::PageId;
use latch::LatchPolicy;
use pages::{PAGE_SIZE, PageView, Pool, Stop};
use smallvec::SmallVec;

/// Descents that go down abreast: about as many misses as a core has under way at once.
pub const LANES: usize = 16;

/// The most of a value that is asked for, in bytes.
const VALUE_AHEAD: usize = 512;

/// Where a key was seen, and its value if that is short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sight {
    pub(super) leaf: PageId,
    /// The leaf's, when the entry was at `slot`.
    pub(super) version: u64,
    pub(super) slot: u16,
    /// Bytes of the value; `value` has them if there are at most eight.
    len: u16,
    value: [u8; 8],
}

impl Sight {
    /// The key's value, if the leaf is as it was and the value is of at most eight bytes.
    #[inline]
    pub fn value(&self, pool: &Pool) -> Option<&[u8]> {
        let value = self.value.get(..usize::from(self.len))?;
        pool.version_unchanged(self.leaf, self.version).then_some(value)
    }
}

/// One descent.
#[derive(Clone, Copy)]
struct Lane<'p, 'k> {
    /// Which of the keys.
    key: usize,
    probe: Probe<'k>,
    at: PageView<'p>,
    /// The entry in the leaf.
    slot: usize,
    /// Whether the way was undisturbed so far.
    good: bool,
}

impl<'p> BTree<'p> {
    /// Looks for up to [`LANES`] keys at once; gives a sight of each that was found, by its place among the keys. Of a key
    /// whose way could not even begin nothing is said.
    #[inline]
    pub fn ahead<'k, L: LatchPolicy>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        mut seen: impl FnMut(usize, Option<Sight>),
    ) {
        let mut lanes = SmallVec::<[Lane<'p, 'k>; LANES]>::new();
        // A tree of one root is looked at once for all.
        let mut only = None;
        for (key, bytes) in keys.take(LANES).enumerate() {
            let probe = Probe::new(bytes);
            let Some(at) = only.or_else(|| self.top_ahead::<L>(probe)) else { continue };
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

    /// The root that a key's way begins at. One that is absent is asked for.
    #[inline]
    fn top_ahead<L: LatchPolicy>(&self, probe: Probe<'_>) -> Option<PageView<'p>> {
        match self.top_view::<L>(Seek::Key(probe)) {
            Ok(Look::Saw((root, _))) => Some(root),
            Err(Stop::Page(page)) => {
                self.pool.prefetch_beside(page);
                None
            }
            Ok(Look::Changed) | Err(_) => None,
        }
    }

    /// To the child that covers the key, whose first lines are asked for.
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
                // The header, and the first slots behind it.
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
        // A word at the end of the page begins before the value.
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
