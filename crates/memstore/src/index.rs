//! The index: an ordered map from byte strings to rows, as a B+tree with optimistic lock coupling.
//!
//! Access rules:
//!
//! - Any thread descends without a lock. It reads a node, finds the child, reads the child's
//!   version, and then checks that the parent is unchanged.
//! - An insert or removal locks the leaf that it changes.
//! - A split locks the parent, then the node.
//! - Sharing with a neighbour locks the parent, the full leaf and the neighbour.
//! - Removing an empty leaf locks the lowest ancestor that keeps another child, then the nodes
//!   between, down to the leaf.
//! - Every lock is tried, from the version that was read on the way down. If that fails, all locks
//!   are released: no thread waits while it holds one.
//!
//! Full inner nodes are split on the way down, so a split never climbs. Nodes have no bounds and no
//! sibling links. A scan that is through with a leaf continues at the separator of the lowest
//! ancestor that has one on that side. Each step has another bound, so the scan ends, in both
//! directions:
//!
//! ```text
//!         [ 20 | 40 ]
//!        /     |     \      up:   leaf A ends at 20; next, the first key from 20 on is sought
//!       A      B      C     down: leaf B begins at 20; next, the last key below 20 is sought
//! ```
//! A leaf that becomes empty leaves the tree, and a neighbour takes over its range. Until then a
//! scan may find it empty.
//!
//! The versions of leaves also protect transactions from phantoms: a row that enters or leaves a
//! range changes the version of the leaf with that range. The caller is pinned ([`crate::epoch`])
//! as long as it holds rows or versions.

mod removal;
pub(crate) mod split;

pub(crate) use removal::Removal;

use crate::arena::{Arena, Full, Local, Ref};
use crate::epoch::Epochs;
use crate::head::compare_key;
use crate::node::{Entry, INNER_CAP, LEAF_CAP, NODE_WORDS, Node, Sight, Sought, Torn};
use crate::read_reservation;
use crate::row;
use crate::version;
use split::{New, room_beside};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A leaf, and the version under which it did, or did not, contain a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) leaf: Ref,
    pub(crate) version: u64,
}

impl Seen {
    /// Whether no row has come or gone since.
    #[inline]
    pub(crate) fn holds(&self, arena: &Arena) -> bool {
        version::check(Node::at(arena, self.leaf).version(), self.version)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Found {
    pub(crate) row: Option<Ref>,
    pub(crate) seen: Seen,
}

/// The effect of an insert on leaves, for the transaction that has seen them before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Inserted {
    pub(crate) before: Seen,
    pub(crate) after: Seen,
    /// The leaf that has a part of the entries of `before` now: as it is, and as it was (`None` if
    /// it is new).
    pub(crate) passed_to: Option<(Seen, Option<Seen>)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Insertion {
    Done(Inserted),
    /// Another row has the key.
    Exists(Ref, Seen),
    /// A prepared transaction holds a reservation on the leaf.
    Reserved(Ref),
}

/// The place where a row was entered last. Keys that come one after the other mostly lie side by
/// side, and then the next one needs no descent.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spot {
    /// [`Ref::NONE`] if there is no such place.
    leaf: Ref,
    version: u64,
    at: usize,
    /// The separator that bounds the leaf's keys from above; [`Ref::NONE`] for the last leaf.
    bound: Ref,
}

/// The place where a scan continues, and its direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seek<'k> {
    /// Upwards from the first key of all, or from the first that is not below this bound.
    Up(Option<&'k [u8]>),
    /// Downwards from the last key of all, or from the last that is below this bound.
    Down(Option<&'k [u8]>),
}

/// The rows of a scan that lie in one leaf, in the order of the scan.
#[derive(Default)]
pub(crate) struct Chunk {
    pub(crate) rows: Vec<Ref>,
    pub(crate) seen: Option<Seen>,
    /// The bound at which the scan continues; `None` at its end.
    pub(crate) next: Option<Vec<u8>>,
}

/// One step of a descent: an inner node, and the child that was taken.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    pub(crate) node: Node<'a>,
    pub(crate) sight: Sight,
    pub(crate) child: usize,
}

/// The most inner nodes from the root to the leaf's parent. Even a tree with two children per node
/// has fewer levels, if each node takes 64 bytes of memory.
const MAX_LEVELS: usize = 40;

/// One index. `top` is an inner node without separators, and its only child is the root. It never
/// splits and never goes, so the root has a parent like any other node.
pub(crate) struct Index {
    top: Ref,
}

pub(crate) fn new_node<'a>(
    arena: &'a Arena,
    local: &mut Local,
    level: usize,
    leftmost: Ref,
) -> Result<Node<'a>, Full> {
    let node = Node::at(arena, local.alloc(arena, NODE_WORDS)?);
    node.init(level, leftmost);
    Ok(node)
}

pub(crate) fn lock(node: Node<'_>, sight: &Sight) -> Result<(), Torn> {
    if version::try_lock(node.version(), sight.version) { Ok(()) } else { Err(Torn) }
}

/// Whether a prepared transaction holds a reservation on this leaf, which the caller has locked.
pub(crate) fn is_guarded(leaf: Node<'_>) -> bool {
    read_reservation::settle();
    read_reservation::is_held(leaf.readers(), read_reservation::OF_LEAF)
}

impl Index {
    pub(crate) fn new(arena: &Arena, local: &mut Local) -> Result<Index, Full> {
        let root = new_node(arena, local, 0, Ref::NONE)?;
        Ok(Index { top: new_node(arena, local, 1, root.at)?.at })
    }

    /// The node at which every descent begins.
    #[inline]
    pub(crate) fn top(&self) -> Ref {
        self.top
    }

    /// Descends to a leaf. `pick` chooses the child at every inner node; `visit` is called with
    /// each inner node and the child taken.
    #[inline]
    fn descend<'a>(
        &self,
        arena: &'a Arena,
        pick: impl Fn(Node<'a>, &Sight) -> Result<usize, Torn>,
        mut visit: impl FnMut(Step<'a>),
    ) -> Result<(Node<'a>, Sight), Torn> {
        let mut node = Node::at(arena, self.top);
        let mut sight = node.sight()?;
        while sight.level > 0 {
            // The top has one child, and it is in the caches.
            let is_top = node.at == self.top;
            let child = if is_top { 0 } else { pick(node, &sight)? };
            let at = node.child(&sight, child);
            if !version::check(node.version(), sight.version) {
                return Err(Torn);
            }
            let below = Node::at(arena, at);
            if !is_top {
                below.prefetch(sight.level - 1);
            }
            let below_sight = below.sight()?;
            if !version::check(node.version(), sight.version) {
                return Err(Torn);
            }
            visit(Step { node, sight, child });
            (node, sight) = (below, below_sight);
        }
        Ok((node, sight))
    }

    #[inline]
    fn leaf_of<'a>(
        &self,
        arena: &'a Arena,
        key: &Sought<'_>,
        visit: impl FnMut(Step<'a>),
    ) -> Result<(Node<'a>, Sight), Torn> {
        self.descend(
            arena,
            |node, s| node.search(arena, s, key).map(|(i, same)| i + usize::from(same)),
            visit,
        )
    }

    /// Keys that cut the index into pieces of about one size: `count` of them or more, if there are
    /// that many separators. The result is a hint.
    pub(crate) fn cuts(&self, arena: &Arena, count: usize) -> Vec<Vec<u8>> {
        let (mut level, mut keys) = (vec![self.top], Vec::new());
        while keys.len() < count && !level.is_empty() {
            let mut below = Vec::new();
            for at in level {
                // A node that changes meanwhile is left out.
                let _ = self.look_into(arena, at, &mut keys, &mut below);
            }
            level = below;
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn look_into(
        &self,
        arena: &Arena,
        at: Ref,
        keys: &mut Vec<Vec<u8>>,
        below: &mut Vec<Ref>,
    ) -> Result<(), Torn> {
        let node = Node::at(arena, at);
        let sight = node.sight()?;
        if sight.level == 0 {
            return Ok(());
        }
        let (mut own, mut children) = (Vec::new(), Vec::new());
        for i in 0..=sight.count {
            children.push(node.child(&sight, i));
            if i < sight.count {
                let mut key = Vec::new();
                node.copy_key(arena, &sight, i, &mut key)?;
                own.push(key);
            }
        }
        if version::check(node.version(), sight.version) {
            keys.append(&mut own);
            below.append(&mut children);
        }
        Ok(())
    }

    /// The row with this key, if there is one, and the leaf and version that say so.
    #[inline]
    pub(crate) fn find(&self, arena: &Arena, key: &[u8]) -> Found {
        loop {
            if let Ok(found) = self.try_find(arena, &Sought::new(key)) {
                return found;
            }
        }
    }

    #[inline]
    fn try_find(&self, arena: &Arena, key: &Sought<'_>) -> Result<Found, Torn> {
        let (leaf, s) = self.leaf_of(arena, key, |_| {})?;
        let (i, same) = leaf.search(arena, &s, key)?;
        let row = same.then(|| leaf.target(&s, i));
        let seen = Seen { leaf: leaf.at, version: s.version };
        if seen.holds(arena) { Ok(Found { row, seen }) } else { Err(Torn) }
    }

    /// The row with this key if it lies in this leaf, which was part of the index at some time
    /// since the caller was pinned.
    #[inline]
    pub(crate) fn find_in(&self, arena: &Arena, leaf: Ref, key: &[u8]) -> Option<Ref> {
        let leaf = Node::at(arena, leaf);
        let s = leaf.sight().ok()?;
        let (i, same) = leaf.search(arena, &s, &Sought::new(key)).ok()?;
        let row = same.then(|| leaf.target(&s, i))?;
        Seen { leaf: leaf.at, version: s.version }.holds(arena).then_some(row)
    }

    /// Enters a row. Its block holds this key, and it is dead until it is entered. `spot` is the
    /// place where the caller entered a row before, if the caller has been pinned since. Afterwards
    /// it is the place of this row.
    ///
    /// # Errors
    /// [`Full`]; nothing was entered.
    pub(crate) fn insert(
        &self,
        arena: &Arena,
        local: &mut Local,
        epochs: &Epochs,
        key: &[u8],
        row: Ref,
        spot: &mut Spot,
    ) -> Result<Insertion, Full> {
        let sought = &Sought::new(key);
        if spot.leaf != Ref::NONE
            && let Ok(Some(done)) = self.insert_behind(arena, sought, row, spot)
        {
            return Ok(done);
        }
        *spot = Spot::default();
        loop {
            if let Ok(done) = self.try_insert(arena, sought, row, spot) {
                match done {
                    Some(done) => return Ok(done),
                    None => break,
                }
            }
        }
        loop {
            if let Ok(done) = self.try_insert_full(arena, local, epochs, sought, row) {
                return done;
            }
        }
    }

    /// Tries to enter the row directly behind the one that was entered last, without a descent.
    /// `None` if the key does not belong there, or the leaf has no room.
    fn insert_behind(
        &self,
        arena: &Arena,
        sought: &Sought<'_>,
        row: Ref,
        spot: &mut Spot,
    ) -> Result<Option<Insertion>, Torn> {
        let leaf = Node::at(arena, spot.leaf);
        let s = leaf.sight()?;
        if s.version != spot.version
            || s.count == LEAF_CAP
            || !leaf.lies_behind(arena, &s, spot.at, sought)?
        {
            return Ok(None);
        }
        // As long as a leaf does not change, its range stays the same or grows.
        if spot.at + 1 == s.count && spot.bound != Ref::NONE {
            let (len, words) = separator_key(arena, spot.bound);
            if compare_key(words, len, sought.key()).is_le() {
                return Ok(None);
            }
        }
        self.enter(arena, (leaf, s), (spot.at + 1, sought), row, spot).map(Some)
    }

    /// Enters the row into a leaf that has room, by a descent. `None` if the leaf has none.
    fn try_insert(
        &self,
        arena: &Arena,
        sought: &Sought<'_>,
        row: Ref,
        spot: &mut Spot,
    ) -> Result<Option<Insertion>, Torn> {
        let mut above: Option<Step> = None;
        let (leaf, s) = self.leaf_of(arena, sought, |step| {
            if step.child < step.sight.count {
                above = Some(step);
            }
        })?;
        let (i, same) = leaf.search(arena, &s, sought)?;
        if same {
            let (row, seen) = (leaf.target(&s, i), Seen { leaf: leaf.at, version: s.version });
            return if seen.holds(arena) { Ok(Some(Insertion::Exists(row, seen))) } else { Err(Torn) };
        }
        if s.count == LEAF_CAP {
            return Ok(None);
        }
        if let Some(step) = above {
            spot.bound = step.node.separator(step.child);
            if !version::check(step.node.version(), step.sight.version) {
                return Err(Torn);
            }
        }
        self.enter(arena, (leaf, s), (i, sought), row, spot).map(Some)
    }

    /// Enters the row into a leaf that has room, as its entry `i`.
    #[inline]
    fn enter(
        &self,
        arena: &Arena,
        (leaf, s): (Node<'_>, Sight),
        (i, sought): (usize, &Sought<'_>),
        row: Ref,
        spot: &mut Spot,
    ) -> Result<Insertion, Torn> {
        lock(leaf, &s)?;
        if is_guarded(leaf) {
            version::unlock_unchanged(leaf.version());
            return Ok(Insertion::Reserved(leaf.at));
        }
        row::enter(arena, row);
        leaf.insert(arena, i, sought, row);
        let before = Seen { leaf: leaf.at, version: s.version };
        let after = Seen { version: version::unlock(leaf.version()), ..before };
        (spot.leaf, spot.version, spot.at) = (leaf.at, after.version, i);
        Ok(Insertion::Done(Inserted { before, after, passed_to: None }))
    }

    /// Enters the row when the leaf may have to pass entries on, or nodes above it have to be split
    /// first.
    fn try_insert_full(
        &self,
        arena: &Arena,
        local: &mut Local,
        epochs: &Epochs,
        sought: &Sought<'_>,
        row: Ref,
    ) -> Result<Result<Insertion, Full>, Torn> {
        let mut last: [Option<Step>; 2] = [None; 2];
        let mut full: Option<(Step, Step)> = None;
        let (leaf, s) = self.leaf_of(arena, sought, |step| {
            // The highest node of the run of full nodes directly above the leaf: its parent has
            // room for one more entry.
            full = match (step.sight.count == INNER_CAP, full) {
                (false, _) => None,
                (true, None) => last[1].map(|parent| (parent, step)),
                (true, highest) => highest,
            };
            last = [last[1], Some(step)];
        })?;
        let (i, same) = leaf.search(arena, &s, sought)?;
        let before = Seen { leaf: leaf.at, version: s.version };
        if same {
            let row = leaf.target(&s, i);
            return if before.holds(arena) { Ok(Ok(Insertion::Exists(row, before))) } else { Err(Torn) };
        }
        if s.count < LEAF_CAP {
            return self.enter(arena, (leaf, s), (i, sought), row, &mut Spot::default()).map(Ok);
        }
        if let Some((parent, step)) = full {
            // Then start over: there may be more full nodes below.
            let new = New::Below(step.child);
            return match self.split(arena, local, parent, (step.node, step.sight), new)? {
                Ok(_) => Err(Torn),
                Err(full) => Ok(Err(full)),
            };
        }
        let parent = last[1].expect("a leaf has a parent");
        let entry = Entry { key: sought.key().to_vec(), target: row, separator: Ref::NONE };
        if let Some(beside) = room_beside(arena, &parent, leaf, i)? {
            let full = Step { node: leaf, sight: s, child: parent.child };
            match self.share(arena, local, epochs, parent, [full, beside], (i, &entry))? {
                Ok(None) => {}
                done => return Ok(done.map(|done| Insertion::Done(done.expect("what was done")))),
            }
        }
        let split = self.split(arena, local, parent, (leaf, s), New::Here(i, entry))?;
        Ok(split.map(|split| match split {
            Some((after, off)) => Insertion::Done(Inserted { before, after, passed_to: Some((off, None)) }),
            None => Insertion::Reserved(leaf.at),
        }))
    }

    /// The part of a scan that lies in the leaf at `seek`. `until` ends the scan: it is exclusive
    /// upwards and inclusive downwards.
    pub(crate) fn chunk(&self, arena: &Arena, seek: Seek<'_>, until: Option<&[u8]>, out: &mut Chunk) {
        while self.try_chunk(arena, seek, until, out).is_err() {}
    }

    fn try_chunk(
        &self,
        arena: &Arena,
        seek: Seek<'_>,
        until: Option<&[u8]>,
        out: &mut Chunk,
    ) -> Result<(), Torn> {
        out.rows.clear();
        out.next = None;
        let mut turn: Option<(Step, usize)> = None;
        let (Seek::Up(bound) | Seek::Down(bound)) = seek;
        let from = Sought::new(bound.unwrap_or_default());
        let pick = |node: Node<'_>, s: &Sight| match seek {
            Seek::Up(None) => Ok(0),
            Seek::Down(None) => Ok(s.count),
            Seek::Up(Some(_)) => node.search(arena, s, &from).map(|(i, same)| i + usize::from(same)),
            Seek::Down(Some(_)) => node.search(arena, s, &from).map(|(i, _)| i),
        };
        let (leaf, s) = self.descend(arena, pick, |step| match seek {
            Seek::Up(_) if step.child < step.sight.count => turn = Some((step, step.child)),
            Seek::Down(_) if step.child > 0 => turn = Some((step, step.child - 1)),
            _ => {}
        })?;
        let at = |key: &Sought<'_>| leaf.search(arena, &s, key).map(|(i, _)| i);
        let (begin, end) = (bound.map(|_| at(&from)), until.map(|key| at(&Sought::new(key))));
        let (first, last) = match seek {
            Seek::Up(_) => (begin.unwrap_or(Ok(0))?, end.unwrap_or(Ok(s.count))?),
            Seek::Down(_) => (end.unwrap_or(Ok(0))?, begin.unwrap_or(Ok(s.count))?),
        };
        out.rows.extend((first..last.max(first)).map(|i| leaf.target(&s, i)));
        if matches!(seek, Seek::Down(_)) {
            out.rows.reverse();
        }
        if let Some((step, i)) = turn {
            let mut bound = Vec::new();
            step.node.copy_key(arena, &step.sight, i, &mut bound)?;
            let over = match (seek, until) {
                (_, None) => false,
                (Seek::Up(_), Some(until)) => *bound >= *until,
                (Seek::Down(_), Some(until)) => *bound <= *until,
            };
            out.next = (!over).then_some(bound);
            // The bound is this leaf's as long as the node that holds it is unchanged.
            if !version::check(step.node.version(), step.sight.version) {
                return Err(Torn);
            }
        }
        let seen = Seen { leaf: leaf.at, version: s.version };
        out.seen = Some(seen);
        if seen.holds(arena) { Ok(()) } else { Err(Torn) }
    }
}

pub(crate) fn separator_key(arena: &Arena, separator: Ref) -> (usize, &[AtomicU64]) {
    let len = arena.block(separator, 1)[0].load(Relaxed) as usize;
    (len, &arena.block(separator, 1 + len.div_ceil(8))[1..])
}
