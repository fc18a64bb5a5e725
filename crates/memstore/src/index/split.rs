//! A full node is relieved in one of two ways: a leaf passes entries to a neighbour that has room
//! for them, or the node is split in two.
//!
//! If full leaves are only split, keys in random order leave leaves 69 % full. If full leaves first
//! share with a neighbour below the same parent, it is 82 % (simulated). The price: sharing writes
//! two old leaves where a split writes one, and leaves share more often than they would split.

use crate::arena::{Arena, Full, Local, Ref};
use crate::epoch::Epochs;
use crate::head::{common_prefix, store_key};
use crate::index::{Index, Inserted, Seen, Step, is_guarded, lock, new_node, separator_key};
use crate::node::{Entry, LEAF_CAP, NODE_WORDS, Node, Sight, Sought, Torn};
use crate::row;
use crate::version;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A neighbour with less room than this is not worth the changes.
const ROOM: usize = LEAF_CAP.div_ceil(8);

impl Index {
    /// Passes entries from a full leaf to its neighbour until both have the same number, and enters
    /// the new row as the full leaf's entry `i`. `None` if either leaf is reserved. `full.child`
    /// and `beside.child` are the positions of the two leaves in the parent.
    #[allow(clippy::type_complexity)]
    pub(crate) fn share(
        &self,
        arena: &Arena,
        local: &mut Local,
        epochs: &Epochs,
        parent: Step<'_>,
        [full, beside]: [Step<'_>; 2],
        (i, new): (usize, &Entry),
    ) -> Result<Result<Option<Inserted>, Full>, Torn> {
        let all = [parent, full, beside];
        let unlock_unchanged =
            |steps: &[Step<'_>]| steps.iter().for_each(|step| version::unlock_unchanged(step.node.version()));
        for (n, step) in all.iter().enumerate() {
            if let Err(torn) = lock(step.node, &step.sight) {
                unlock_unchanged(&all[..n]);
                return Err(torn);
            }
        }
        // A range that a prepared transaction has read would move to a leaf without its
        // reservation, or its reserved leaf would change.
        if is_guarded(full.node) || is_guarded(beside.node) {
            unlock_unchanged(&all);
            return Ok(Ok(None));
        }
        let is_lower = full.child < beside.child;
        let (lower, upper) = if is_lower { (full, beside) } else { (beside, full) };
        let at = if is_lower { i } else { lower.sight.count + i };
        let middle = (lower.sight.count + upper.sight.count).div_ceil(2);
        let separator = cut(arena, &[lower.node, upper.node], (at, new), middle);
        let block = match new_separator(arena, local, &separator) {
            Ok(block) => block,
            Err(full) => {
                unlock_unchanged(&all);
                return Ok(Err(full));
            }
        };
        spread(arena, [lower.node, upper.node], (at, new), middle);
        let old = parent.node.separator(lower.child);
        parent.node.remove(lower.child);
        parent.node.insert_entry(arena, lower.child, &Sought::new(&separator), upper.node.at, block);
        version::unlock(parent.node.version());
        let [was, is] = [full, beside].map(|step| {
            let before = Seen { leaf: step.node.at, version: step.sight.version };
            (before, Seen { version: version::unlock(step.node.version()), ..before })
        });
        retire_separator(arena, local, epochs, old);
        Ok(Ok(Some(Inserted { before: was.0, after: was.1, passed_to: Some((is.1, Some(is.0))) })))
    }

    /// Splits a full node. If `new` is an entry of this node, it is entered too. Returns both
    /// halves as they are afterwards; `None` for a reserved leaf.
    #[allow(clippy::type_complexity)]
    pub(crate) fn split(
        &self,
        arena: &Arena,
        local: &mut Local,
        parent: Step<'_>,
        (node, sight): (Node<'_>, Sight),
        new: New,
    ) -> Result<Result<Option<(Seen, Seen)>, Full>, Torn> {
        lock(parent.node, &parent.sight)?;
        if lock(node, &sight).is_err() {
            version::unlock_unchanged(parent.node.version());
            return Err(Torn);
        }
        if sight.level == 0 && is_guarded(node) {
            version::unlock_unchanged(parent.node.version());
            version::unlock_unchanged(node.version());
            return Ok(Ok(None));
        }
        let made = self.halve(arena, local, parent, node, new);
        Ok(match made {
            Ok(right) => {
                version::unlock(parent.node.version());
                let left = Seen { leaf: node.at, version: version::unlock(node.version()) };
                Ok(Some((left, Seen { leaf: right.at, version: version::FRESH })))
            }
            Err(full) => {
                version::unlock_unchanged(parent.node.version());
                version::unlock_unchanged(node.version());
                Err(full)
            }
        })
    }

    /// Under the locks of both nodes: allocates everything first, then changes.
    fn halve<'a>(
        &self,
        arena: &'a Arena,
        local: &mut Local,
        parent: Step<'_>,
        node: Node<'_>,
        new: New,
    ) -> Result<Node<'a>, Full> {
        let new = match new {
            New::Here(i, entry) => return self.halve_leaf(arena, local, parent, node, (i, &entry)),
            New::Below(child) => child,
        };
        let mut entries = node.entries(arena);
        // As in leaves: if the last child is going to be split, more keys are likely to come behind
        // it.
        let middle = if new == entries.len() { entries.len() - 1 } else { entries.len() / 2 };
        let mut upper = entries.split_off(middle);
        let separator = Bound::Known(upper[0].key.clone(), upper[0].separator);
        let (right, above, entry) = self.room_for_half(arena, local, parent, node, separator)?;
        right.set_leftmost(upper.remove(0).target);
        let level = node.held().level;
        right.fill(level, &upper);
        node.fill(level, &entries);
        self.link_half(arena, parent, above, entry);
        Ok(right)
    }

    fn halve_leaf<'a>(
        &self,
        arena: &'a Arena,
        local: &mut Local,
        parent: Step<'_>,
        leaf: Node<'_>,
        (i, new): (usize, &Entry),
    ) -> Result<Node<'a>, Full> {
        let middle = middle_for(leaf, i);
        let separator = Bound::New(cut(arena, &[leaf], (i, new), middle));
        let (right, above, entry) = self.room_for_half(arena, local, parent, leaf, separator)?;
        spread(arena, [leaf, right], (i, new), middle);
        self.link_half(arena, parent, above, entry);
        Ok(right)
    }

    /// Allocates the upper half of a node (empty), the parent's entry for it, and, if the root is
    /// split, the node that becomes the parent of both halves.
    #[allow(clippy::type_complexity)]
    fn room_for_half<'a>(
        &self,
        arena: &'a Arena,
        local: &mut Local,
        parent: Step<'_>,
        node: Node<'_>,
        separator: Bound,
    ) -> Result<(Node<'a>, Option<Node<'a>>, Entry), Full> {
        let level = node.held().level;
        let right = new_node(arena, local, level, Ref::NONE)?;
        let is_root = parent.node.at == self.top();
        let above = is_root.then(|| new_node(arena, local, level + 1, node.at)).transpose();
        let (key, block, is_new) = match separator {
            Bound::New(key) => {
                let block = new_separator(arena, local, &key);
                (key, block, true)
            }
            Bound::Known(key, block) => (key, Ok(block), false),
        };
        match (above, block) {
            (Ok(above), Ok(block)) => Ok((right, above, Entry { key, target: right.at, separator: block })),
            (above, block) => {
                local.free(right.at, NODE_WORDS);
                if let Ok(Some(above)) = above {
                    local.free(above.at, NODE_WORDS);
                }
                if let (true, Ok(block)) = (is_new, block) {
                    local.free(block, 1 + key.len().div_ceil(8));
                }
                Err(Full)
            }
        }
    }

    fn link_half(&self, arena: &Arena, parent: Step<'_>, above: Option<Node<'_>>, entry: Entry) {
        let Entry { key, target, separator } = entry;
        let key = &Sought::new(&key);
        match above {
            Some(above) => {
                above.insert_entry(arena, 0, key, target, separator);
                parent.node.set_leftmost(above.at);
            }
            None => parent.node.insert_entry(arena, parent.child, key, target, separator),
        }
    }
}

/// The neighbour of a full leaf, below the same parent, with the most room; `None` if sharing is
/// not worth while. It is not where keys come in order, since they leave full leaves behind in any
/// case.
pub(crate) fn room_beside<'a>(
    arena: &'a Arena,
    parent: &Step<'a>,
    leaf: Node<'_>,
    i: usize,
) -> Result<Option<Step<'a>>, Torn> {
    let Step { node, sight, child } = parent;
    let comes_in_order = i == LEAF_CAP || leaf.goes_on_at(i);
    let upper = (*child < sight.count).then_some(child + 1);
    let mut found: Option<Step<'a>> = None;
    for child in [child.checked_sub(1), upper].into_iter().flatten().filter(|_| !comes_in_order) {
        let beside = Node::at(arena, node.child(sight, child));
        if !version::check(node.version(), sight.version) {
            return Err(Torn);
        }
        let sight = beside.sight()?;
        let is_emptier = found.is_none_or(|found| sight.count < found.sight.count);
        if sight.count + ROOM <= LEAF_CAP && is_emptier {
            found = Some(Step { node: beside, sight, child });
        }
    }
    Ok(found)
}

/// The separator between the first `middle` entries and the rest, for adjacent locked leaves and a
/// new entry at `at`.
fn cut(arena: &Arena, leaves: &[Node<'_>], (at, new): (usize, &Entry), middle: usize) -> Vec<u8> {
    let key = |n: usize| {
        if n == at {
            return new.key.clone();
        }
        let mut n = n - usize::from(n > at);
        for leaf in leaves {
            let count = leaf.held().count;
            if n < count {
                return leaf.key(arena, n);
            }
            n -= count;
        }
        unreachable!("there is an entry on either side of a cut")
    };
    separator_between(&key(middle - 1), &key(middle))
}

/// Distributes the entries of two leaves, with a new one at `at`: the lower leaf gets the first
/// `middle`, the upper one the others.
fn spread(arena: &Arena, [lower, upper]: [Node<'_>; 2], (at, new): (usize, &Entry), middle: usize) {
    row::enter(arena, new.target);
    lower.share_with(upper, arena, middle - usize::from(at < middle));
    let (leaf, at) = if at < middle { (lower, at) } else { (upper, at - middle) };
    leaf.insert(arena, at, &Sought::new(&new.key), new.target);
}

/// The number of entries that the lower half of a full leaf keeps, with the new one at `i`. Keys
/// that come in order leave full leaves behind: at the end of the index, and also where other keys
/// lie behind them (the newest orders of one district among many). These get a leaf of their own.
fn middle_for(leaf: Node<'_>, i: usize) -> usize {
    let count = leaf.held().count;
    match i == count {
        true => count,
        false if leaf.goes_on_at(i) => i + 1,
        false => count / 2,
    }
}

/// The reason for a split.
pub(crate) enum New {
    /// This entry is to be entered into the node, which is a leaf, at this position.
    Here(usize, Entry),
    /// A leaf below this child of the node is going to be split.
    Below(usize),
}

/// The separator of two halves.
enum Bound {
    New(Vec<u8>),
    /// It moves up from the node that is split, with its block.
    Known(Vec<u8>, Ref),
}

/// The shortest string above `low` that is not above `high`.
fn separator_between(low: &[u8], high: &[u8]) -> Vec<u8> {
    high[..(common_prefix(low, high) + 1).min(high.len())].to_vec()
}

fn new_separator(arena: &Arena, local: &mut Local, key: &[u8]) -> Result<Ref, Full> {
    let words = 1 + key.len().div_ceil(8);
    let block = local.alloc(arena, words)?;
    let all: &[AtomicU64] = arena.block(block, words);
    all[0].store(key.len() as u64, Relaxed);
    store_key(&all[1..], key);
    Ok(block)
}

/// Retires the separator of an inner node's entry that has been removed. A thread may still be
/// reading it.
pub(crate) fn retire_separator(arena: &Arena, local: &mut Local, epochs: &Epochs, separator: Ref) {
    let (len, _) = separator_key(arena, separator);
    local.retire(epochs, separator, 1 + len.div_ceil(8));
}
