//! The index: an ordered map from byte strings to rows; a B+tree with optimistic lock coupling.
//!
//! Who may do what: anybody descends without locking: reads a node, finds the child, reads the child's version, and then
//! checks that the parent is unchanged. An insert or removal locks the leaf it changes; a split locks parent, then node;
//! sharing with a neighbour locks parent, full leaf and neighbour; taking out an empty node locks the lowest ancestor that
//! keeps another child, then the nodes between, down to the leaf. Every lock is taken from the version read on the way down,
//! or not at all: nobody waits holding one.
//!
//! Full inner nodes are split on the way down, so a split never climbs. Nodes have no bounds and no sibling links: a scan
//! goes on at the separator of the lowest ancestor that has one on that side, so each step has another bound and ends,
//! in both directions. A leaf that becomes empty leaves the tree, and its neighbour has its range from then on. Until
//! then it may well be found empty.
//!
//! Versions of leaves are also what protects transactions from phantoms: whatever comes into a range or leaves it moves
//! the version of the leaf that has it. The caller is pinned ([`crate::epoch`]) as long as it holds rows or versions.

use crate::arena::{Arena, Full, Local, Ref};
use crate::epoch::Epochs;
use crate::guard;
use crate::head::compare_key;
use crate::node::{Entry, INNER_CAP, LEAF_CAP, NODE_WORDS, Node, Sight, Sought, Torn};
use crate::row;
use crate::split::{New, retire_separator, room_beside};
use crate::version;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A leaf and the version under which something was, or was not, in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) leaf: Ref,
    pub(crate) version: u64,
}

impl Seen {
    /// Whether nothing has come or gone since.
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

/// What an insert did to leaves, for the transaction that has seen them before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Inserted {
    pub(crate) before: Seen,
    pub(crate) after: Seen,
    /// The leaf that has a part of `before` now, as it is and as it was, unless it is new.
    pub(crate) passed_to: Option<(Seen, Option<Seen>)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Insertion {
    Done(Inserted),
    /// Another row has the key.
    Exists(Ref, Seen),
    /// A prepared transaction has seen the leaf.
    Guarded(Ref),
}

/// Where a row was entered last: keys that come one after the other mostly lie beside each other, and the next one needs no way down.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spot {
    /// None if nothing is known.
    leaf: Ref,
    version: u64,
    at: usize,
    /// The separator that the leaf's keys lie below; none of the last leaf.
    bound: Ref,
}

/// How an entry left, or why not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Removal {
    Done,
    /// Done, and the leaf was empty then.
    Last,
    Missing,
    Guarded,
}

/// Where a scan goes on, which way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seek<'k> {
    /// Upwards from the first key, or the first that is not below this.
    Up(Option<&'k [u8]>),
    /// Downwards from the last key, or the last that is below this.
    Down(Option<&'k [u8]>),
}

/// What one leaf has of a scan, in its order.
#[derive(Default)]
pub(crate) struct Chunk {
    pub(crate) rows: Vec<Ref>,
    pub(crate) seen: Option<Seen>,
    /// The bound to go on from; the scan is at its end when there is none.
    pub(crate) next: Option<Vec<u8>>,
}

/// One step of a way down: an inner node and the child that was taken.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    pub(crate) node: Node<'a>,
    pub(crate) sight: Sight,
    pub(crate) child: usize,
}

/// Inner nodes from the root to the leaf's parent. 64-byte nodes of two children would still have fewer levels.
const MAX_LEVELS: usize = 40;

/// One index. `top` is an inner node without separators whose only child is the root: the root's parent, which never
/// splits and never goes.
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

/// Whether a prepared transaction has seen this leaf, which the caller has locked.
pub(crate) fn is_guarded(leaf: Node<'_>) -> bool {
    guard::settle();
    guard::is_held(leaf.readers(), guard::OF_LEAF)
}

impl Index {
    pub(crate) fn new(arena: &Arena, local: &mut Local) -> Result<Index, Full> {
        let root = new_node(arena, local, 0, Ref::NONE)?;
        Ok(Index { top: new_node(arena, local, 1, root.at)?.at })
    }

    /// Where every way down begins.
    #[inline]
    pub(crate) fn top(&self) -> Ref {
        self.top
    }

    /// Down to a leaf, by `pick` at every inner node; `visit` sees each inner node and the child taken.
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
            // The top has one child, which is in the caches.
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

    /// Keys that cut the index into pieces of about one size: `count` of them or more, where there are so many rows. A hint.
    pub(crate) fn cuts(&self, arena: &Arena, count: usize) -> Vec<Vec<u8>> {
        let (mut level, mut keys) = (vec![self.top], Vec::new());
        while keys.len() < count && !level.is_empty() {
            let mut below = Vec::new();
            for at in level {
                // A node that changes meanwhile is passed over.
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

    /// The row with this key, if any, and where that was seen.
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

    /// The row with this key if it lies in this leaf, which has been one of the index since the caller was pinned.
    #[inline]
    pub(crate) fn find_in(&self, arena: &Arena, leaf: Ref, key: &[u8]) -> Option<Ref> {
        let leaf = Node::at(arena, leaf);
        let s = leaf.sight().ok()?;
        let (i, same) = leaf.search(arena, &s, &Sought::new(key)).ok()?;
        let row = same.then(|| leaf.target(&s, i))?;
        Seen { leaf: leaf.at, version: s.version }.holds(arena).then_some(row)
    }

    /// Enters a row, whose block holds this key: it is dead until then. `spot` is where the caller has entered one before, if it has
    /// been pinned since, and where this one lies afterwards.
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

    /// Right behind the row that was entered last, without a way down; `None` if the key does not belong there, or does not fit.
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
        // The range of a leaf that has not changed is what it was, or has grown.
        if spot.at + 1 == s.count && spot.bound != Ref::NONE {
            let (len, words) = separator_key(arena, spot.bound);
            if compare_key(words, len, sought.key()).is_le() {
                return Ok(None);
            }
        }
        self.enter(arena, (leaf, s), (spot.at + 1, sought), row, spot).map(Some)
    }

    /// Into a leaf that has room, by a way down. `None` if it has none.
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

    /// Into a leaf that has room, as its entry `i`.
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
            return Ok(Insertion::Guarded(leaf.at));
        }
        row::enter(arena, row);
        leaf.insert(arena, i, sought, row);
        let before = Seen { leaf: leaf.at, version: s.version };
        let after = Seen { version: version::unlock(leaf.version()), ..before };
        (spot.leaf, spot.version, spot.at) = (leaf.at, after.version, i);
        Ok(Insertion::Done(Inserted { before, after, passed_to: None }))
    }

    /// Where the leaf may have to give entries away, and nodes above it to be split before.
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
            // The highest of the full ones right above the leaf: its parent has room for one more.
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
            // Then start over: there may be more than one.
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
            None => Insertion::Guarded(leaf.at),
        }))
    }

    /// Takes out the entry of this very row. Whether it was there; [`Removal::Guarded`] when its leaf would become empty and a
    /// prepared transaction has seen it: its range would go to a leaf that says nothing of that.
    pub(crate) fn remove(
        &self,
        arena: &Arena,
        local: &mut Local,
        epochs: &Epochs,
        key: &[u8],
        row: Ref,
    ) -> Removal {
        let removed = loop {
            if let Ok(removed) = self.try_remove(arena, key, row) {
                break removed;
            }
        };
        if removed == Removal::Last {
            while self.prune(arena, local, epochs, key).is_err() {}
        }
        removed
    }

    fn try_remove(&self, arena: &Arena, key: &[u8], row: Ref) -> Result<Removal, Torn> {
        let sought = &Sought::new(key);
        let (leaf, s) = self.leaf_of(arena, sought, |_| {})?;
        let (i, same) = leaf.search(arena, &s, sought)?;
        if !same || leaf.target(&s, i) != row {
            return if version::check(leaf.version(), s.version) { Ok(Removal::Missing) } else { Err(Torn) };
        }
        lock(leaf, &s)?;
        if s.count == 1 && is_guarded(leaf) {
            version::unlock_unchanged(leaf.version());
            return Ok(Removal::Guarded);
        }
        leaf.remove(i);
        version::unlock(leaf.version());
        Ok(if s.count == 1 { Removal::Last } else { Removal::Done })
    }

    /// Takes the leaf that has the range of `key` out of the tree if it is empty and not the last one, and with it the
    /// ancestors that have no other child.
    fn prune(&self, arena: &Arena, local: &mut Local, epochs: &Epochs, key: &[u8]) -> Result<(), Torn> {
        let mut way: [Option<Step>; MAX_LEVELS] = [None; MAX_LEVELS];
        let mut keeps = None;
        let (leaf, s) = self.leaf_of(arena, &Sought::new(key), |step| {
            way[step.sight.level] = Some(step);
            if step.sight.count > 0 {
                keeps = Some(step);
            }
        })?;
        let Some(keeps) = keeps.filter(|_| s.count == 0) else {
            return if version::check(leaf.version(), s.version) { Ok(()) } else { Err(Torn) };
        };
        let between = way[..keeps.sight.level].iter().rev().flatten().map(|step| (step.node, step.sight));
        let going: Vec<_> = between.chain([(leaf, s)]).collect();
        let locks = || [(keeps.node, keeps.sight)].into_iter().chain(going.iter().copied());
        for (n, (node, sight)) in locks().enumerate() {
            if lock(node, &sight).is_err() {
                locks().take(n).for_each(|(node, _)| version::unlock_unchanged(node.version()));
                return Err(Torn);
            }
        }
        if is_guarded(leaf) {
            // It stays, empty, until something comes and goes there again.
            locks().for_each(|(node, _)| version::unlock_unchanged(node.version()));
            return Ok(());
        }
        let gone = keeps.child.max(1) - 1;
        let separator = keeps.node.separator(gone);
        if keeps.child == 0 {
            keeps.node.set_leftmost(keeps.node.child(&keeps.sight, 1));
        }
        keeps.node.remove(gone);
        going.iter().for_each(|(node, _)| version::retire(node.version()));
        version::unlock(keeps.node.version());
        going.iter().for_each(|(node, _)| local.retire(epochs, node.at, NODE_WORDS));
        retire_separator(arena, local, epochs, separator);
        Ok(())
    }

    /// What the leaf at `seek` has of a scan that ends at `until` (not in it upwards, in it downwards).
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
            // The bound belongs to this leaf as long as the node that has it is unchanged.
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
