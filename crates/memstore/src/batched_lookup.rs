//! Batched look-up: several keys go down the index side by side. Each key takes one level per turn,
//! after it has prefetched the node that it needs in its next turn. So memory works for all keys at
//! once, while single look-ups in a row each wait a whole memory latency per level that is not in
//! the caches. (Coroutines by hand: Jonathan et al., "Exploiting Coroutines to Attack the Killer
//! Nanoseconds", VLDB 2018; group prefetching: Chen et al., ICDE 2004.)
//!
//! Access rules: as for a single look-up (`index`). Every turn reads a node under its version, and
//! then checks that the node above is unchanged. A lane that finds a change starts over; the others
//! go on.

use crate::arena::Arena;
use crate::index::{Found, Index, Seen};
use crate::node::{Node, Sought, Torn};
use crate::version;
use std::sync::atomic::AtomicU64;

/// The number of look-ups that keep a core's line fill buffers busy. More would only displace each
/// other's lines.
pub(crate) const LANES: usize = 16;

#[derive(Clone, Copy)]
struct Lane<'a> {
    node: Node<'a>,
    /// The version word of the node above, and its value when the way to `node` was read.
    above: (&'a AtomicU64, u64),
}

enum Turn<'a> {
    Down(Lane<'a>),
    Arrived(Found),
}

impl Index {
    /// Looks up each of at most [`LANES`] keys. Passes each result to `found`, with the key's
    /// position.
    pub(crate) fn find_batch(
        &self,
        arena: &Arena,
        keys: &[impl AsRef<[u8]>],
        mut found: impl FnMut(usize, Found),
    ) {
        let start = self.start(arena);
        let mut lanes = [start; LANES];
        let mut sought = [Sought::new(&[]); LANES];
        for (sought, key) in sought.iter_mut().zip(keys) {
            *sought = Sought::new(key.as_ref());
        }
        let mut under_way: u32 = (1 << keys.len()) - 1;
        while under_way != 0 {
            let mut turns = under_way;
            while turns != 0 {
                let i = turns.trailing_zeros() as usize;
                turns &= turns - 1;
                match lanes[i].turn(arena, &sought[i]) {
                    Ok(Turn::Down(lane)) => lanes[i] = lane,
                    Ok(Turn::Arrived(what)) => {
                        under_way &= !(1 << i);
                        found(i, what);
                    }
                    Err(Torn) => lanes[i] = self.start(arena),
                }
            }
        }
    }

    /// A lane at the root.
    fn start<'a>(&self, arena: &'a Arena) -> Lane<'a> {
        let top = Node::at(arena, self.top());
        loop {
            if let Ok(sight) = top.sight() {
                let root = top.child(&sight, 0);
                if version::check(top.version(), sight.version) {
                    return Lane { node: Node::at(arena, root), above: (top.version(), sight.version) };
                }
            }
        }
    }
}

impl<'a> Lane<'a> {
    #[inline]
    fn turn(self, arena: &'a Arena, key: &Sought<'_>) -> Result<Turn<'a>, Torn> {
        let node = self.node;
        let sight = node.sight()?;
        if !version::check(self.above.0, self.above.1) {
            return Err(Torn);
        }
        let (i, same) = node.search(arena, &sight, key)?;
        let seen = Seen { leaf: node.at, version: sight.version };
        if sight.level == 0 {
            let row = same.then(|| node.target(&sight, i));
            return if seen.holds(arena) { Ok(Turn::Arrived(Found { row, seen })) } else { Err(Torn) };
        }
        let below = node.child(&sight, i + usize::from(same));
        // Checked before the address that was read is used.
        if !seen.holds(arena) {
            return Err(Torn);
        }
        let below = Node::at(arena, below);
        below.prefetch(sight.level - 1);
        Ok(Turn::Down(Lane { node: below, above: (node.version(), sight.version) }))
    }
}
