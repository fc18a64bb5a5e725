//! Reading the tree: one key, a neighbour, or the entries of one leaf at a time.
//!
//! A scan goes leaf by leaf and holds no latch between two leaves; [`ChunkEnd`] tells where it
//! continues. The caller's locks protect the keys that it met, and prevent new keys between two
//! chunks.

use super::descend::{Look, TRIES};
use super::node::KeyBuf;
use super::{BTree, Node, Probe, Seek, Sight};
use crate::bytes::{Bytes, Garbled, Source};
use crate::page::{corrupt, malformed};
use base::Key;
use latch::LatchPolicy;
use pages::{Page, PageView, Stop};
use std::cell::Cell;
use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow, Range};

thread_local! {
    /// A page to copy a leaf into. It is taken out while in use, so that a visitor may read the
    /// tree itself.
    static SCRATCH: Cell<Option<Box<Page>>> = const { Cell::new(None) };
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    Forward,
    Backward,
}

/// The end of a chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChunkEnd {
    /// The range is done, and this is the first key beyond it. In a forward scan the gap below
    /// this key must be locked.
    Key(Key),
    /// The range continues in another leaf: read the next chunk from [`ChunkEnd::resume`].
    Continue(Key),
    /// The range is done and no key beyond it was met. In a forward scan no such key exists: the
    /// gap after the last key of the index must be locked.
    End,
    /// `visit` broke. The caller knows at which entry.
    Cut,
}

impl ChunkEnd {
    /// The bound at which the next chunk of a scan in this direction begins; `None` if the scan is
    /// done, or was cut.
    pub fn resume(&self, direction: Direction) -> Option<Bound<&[u8]>> {
        match (self, direction) {
            (ChunkEnd::Continue(fence), Direction::Forward) => Some(Bound::Included(fence)),
            (ChunkEnd::Continue(fence), Direction::Backward) => Some(Bound::Excluded(fence)),
            _ => None,
        }
    }
}

impl<'p> BTree<'p> {
    /// Calls `f` on the value of `key`: under the leaf's latch, or on a validated copy where
    /// readers take no latch.
    ///
    /// # Errors
    /// [`Stop`] when a page is absent; nothing was changed and `f` was not called.
    #[inline]
    pub fn get<L: LatchPolicy, R>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Stop> {
        let probe = Probe::new(key);
        if !self.pool.views::<L>() {
            return self.get_latched::<L, R>(probe, f);
        }
        let mut f = Some(f);
        for _ in 0..TRIES {
            let Look::Saw(leaf) = self.leaf_view::<L>(Seek::Key(probe))? else { continue };
            let done = match value_in(leaf, probe) {
                Ok(Some((at, len))) => leaf.copied::<L, _>(at, len, |value| f.take().map(|f| f(value))),
                Ok(None) if !L::LATCHED || leaf.still() => Some(None),
                Ok(None) => None,
                Err(Garbled) => match Self::doubt::<L, Option<R>>(leaf, malformed(leaf.page_id()))? {
                    Look::Saw(_) | Look::Changed => None,
                },
            };
            if let Some(done) = done {
                return Ok(done);
            }
        }
        f.map_or(Ok(None), |f| self.get_latched::<L, R>(probe, f))
    }

    /// As [`BTree::get`], with the sight that [`BTree::find_batch`] returned for the key: no
    /// descent if the leaf is unchanged since.
    ///
    /// # Errors
    /// As [`BTree::get`].
    #[inline]
    pub fn get_seen<L: LatchPolicy, R>(
        &self,
        key: &[u8],
        sight: Option<Sight>,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Stop> {
        let mut f = Some(f);
        if self.pool.views::<L>()
            && let Some(sight) = sight
            && let Ok(leaf) = self.pool.view::<L>(sight.leaf)
            && leaf.version() == sight.version
            && let Ok((at, len)) = Node(leaf.bytes()).value_at(sight.slot.into())
            && let Some(result) = leaf.copied::<L, _>(at, len, |value| f.take().map(|f| f(value)))
        {
            return Ok(result);
        }
        f.map_or(Ok(None), |f| self.get::<L, R>(key, f))
    }

    #[inline(never)]
    fn get_latched<L: LatchPolicy, R>(
        &self,
        probe: Probe<'_>,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Stop> {
        let leaf = self.leaf::<L>(Seek::Key(probe))?;
        let node = self.node(&leaf, Some(0))?;
        let found = node.search(probe).and_then(|found| found.ok().map(|at| node.value(at)).transpose());
        Ok(found.map_err(|Garbled| corrupt(&leaf))?.map(f))
    }

    /// The first key at or after `bound`.
    ///
    /// # Errors
    /// See [`BTree::get`].
    pub fn successor<L: LatchPolicy>(&self, bound: Bound<&[u8]>) -> Result<Option<Key>, Stop> {
        self.neighbour::<L>(bound, Direction::Forward)
    }

    /// The last key at or before `bound`.
    ///
    /// # Errors
    /// See [`BTree::get`].
    pub fn predecessor<L: LatchPolicy>(&self, bound: Bound<&[u8]>) -> Result<Option<Key>, Stop> {
        self.neighbour::<L>(bound, Direction::Backward)
    }

    fn neighbour<L: LatchPolicy>(
        &self,
        bound: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<Option<Key>, Stop> {
        let mut fence = None;
        loop {
            let from = fence.as_ref().map_or(bound, |fence| onward(fence, direction));
            match self.nearest::<L>(from, direction)? {
                Nearest::Key(key) => return Ok(Some(key)),
                Nearest::None => return Ok(None),
                Nearest::Beyond(next) => fence = Some(next),
            }
        }
    }

    fn nearest<L: LatchPolicy>(&self, from: Bound<&[u8]>, direction: Direction) -> Result<Nearest, Stop> {
        if self.pool.views::<L>() {
            for _ in 0..TRIES {
                let Look::Saw(leaf) = self.leaf_view::<L>(seek(from, direction))? else { continue };
                match nearest_in(Node(leaf.bytes()), from, direction) {
                    Ok(found) if !L::LATCHED || leaf.still() => return Ok(found),
                    Ok(_) => {}
                    Err(Garbled) => _ = Self::doubt::<L, ()>(leaf, malformed(leaf.page_id()))?,
                }
            }
        }
        let leaf = self.leaf::<L>(seek(from, direction))?;
        nearest_in(self.node(&leaf, Some(0))?, from, direction).map_err(|Garbled| corrupt(&leaf))
    }

    /// Calls `visit` with the entries of one leaf that lie in the range, in the direction of the
    /// scan.
    ///
    /// The range begins at `from` and ends at `until`: forwards exclusive (keys below it),
    /// backwards inclusive (keys down to it).
    ///
    /// # Errors
    /// See [`BTree::get`]; on a malformed leaf some entries may have been visited before
    /// [`Stop::Fault`].
    pub fn chunk<L: LatchPolicy>(
        &self,
        from: Bound<&[u8]>,
        until: Option<&[u8]>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<ChunkEnd, Stop> {
        let visit = |key: &[u8], value: &[u8]| {
            visit(key, value);
            ControlFlow::Continue(())
        };
        self.chunk_while::<L>(from, until, direction, visit)
    }

    /// As [`BTree::chunk`], until `visit` breaks.
    ///
    /// # Errors
    /// As [`BTree::chunk`].
    pub fn chunk_while<L: LatchPolicy>(
        &self,
        from: Bound<&[u8]>,
        until: Option<&[u8]>,
        direction: Direction,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<ChunkEnd, Stop> {
        if L::LATCHED && self.pool.views::<L>() {
            for _ in 0..TRIES {
                let Look::Saw(leaf) = self.leaf_view::<L>(seek(from, direction))? else { continue };
                let Some(copy) = Copied::of(leaf) else { continue };
                let end = walk(copy.node(), from, until, direction, visit);
                return end.map_err(|Garbled| malformed(leaf.page_id()));
            }
        }
        let leaf = self.leaf::<L>(seek(from, direction))?;
        let node = self.node(&leaf, Some(0))?;
        walk(node, from, until, direction, visit).map_err(|Garbled| corrupt(&leaf))
    }

    /// Calls `visit` with the values in the leaf that covers `key`, the nearest to the key first,
    /// until `visit` breaks; returns a description of the leaf.
    ///
    /// # Errors
    /// As [`BTree::chunk`].
    pub fn around<L: LatchPolicy>(
        &self,
        key: &[u8],
        visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<Around, Stop> {
        let probe = Probe::new(key);
        if L::LATCHED && self.pool.views::<L>() {
            for _ in 0..TRIES {
                let Look::Saw(leaf) = self.leaf_view::<L>(Seek::Key(probe))? else { continue };
                let Some(copy) = Copied::of(leaf) else { continue };
                let around = outwards(copy.node(), probe, visit);
                return around.map_err(|Garbled| malformed(leaf.page_id()));
            }
        }
        let leaf = self.leaf::<L>(Seek::Key(probe))?;
        outwards(self.node(&leaf, Some(0))?, probe, visit).map_err(|Garbled| corrupt(&leaf))
    }
}

/// A description of the leaf that covers a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Around {
    /// Whether the key is in it.
    pub found: bool,
    /// Its low fence, which no other leaf of the tree has.
    pub low: Key,
    /// The low fence of the next leaf.
    pub high: Option<Key>,
}

/// Visits the values of a leaf in the order of their distance to the probe.
fn outwards(
    node: Node<&Bytes>,
    probe: Probe<'_>,
    mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<Around, Garbled> {
    let (at, found) = match node.search(probe)? {
        Ok(at) => (at, true),
        Err(at) => (at, false),
    };
    let count = node.count();
    for distance in 0..count {
        let right = Some(at + distance).filter(|at| *at < count);
        for at in at.checked_sub(distance + 1).into_iter().chain(right) {
            if visit(node.value(at)?).is_break() {
                return Ok(Around { found, low: node.low_key()?, high: node.high_key()? });
            }
        }
    }
    Ok(Around { found, low: node.low_key()?, high: node.high_key()? })
}

enum Nearest {
    Key(Key),
    Beyond(Key),
    None,
}

/// A validated copy of a whole node, made without a latch.
pub(super) struct Copied(Option<Box<Page>>);

impl Copied {
    /// `None` when the page changed during the copy.
    pub(super) fn of(view: PageView<'_>) -> Option<Copied> {
        let mut page = SCRATCH.take().unwrap_or_else(Page::zeroed);
        let whole = view.snapshot(&mut page);
        let copied = Copied(Some(page));
        whole.then_some(copied)
    }

    pub(super) fn node(&self) -> Node<&Bytes> {
        Node::new(self.0.as_ref().expect("there until it is dropped").bytes())
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        SCRATCH.set(self.0.take());
    }
}

/// Offset and length of the probe's value in this leaf, if the key is there.
#[inline]
fn value_in(leaf: PageView<'_>, probe: Probe<'_>) -> Result<Option<(usize, usize)>, Garbled> {
    let node = Node(leaf.bytes());
    let Ok(at) = node.search(probe)? else { return Ok(None) };
    node.value_at(at).map(Some)
}

fn nearest_in<S: Source>(
    node: Node<S>,
    from: Bound<&[u8]>,
    direction: Direction,
) -> Result<Nearest, Garbled> {
    leads_on(node, from, direction)?;
    let all = span(node, from, None, direction)?;
    if !all.is_empty() {
        let at = match direction {
            Direction::Forward => all.start,
            Direction::Backward => all.end - 1,
        };
        return Ok(Nearest::Key(node.key(at)?));
    }
    Ok(beyond(node, direction)?.map_or(Nearest::None, Nearest::Beyond))
}

fn seek(from: Bound<&[u8]>, direction: Direction) -> Seek<'_> {
    match (from, direction) {
        (Bound::Included(key), _) | (Bound::Excluded(key), Direction::Forward) => Seek::Key(Probe::new(key)),
        (Bound::Excluded(key), Direction::Backward) => Seek::Below(Probe::new(key)),
        (Bound::Unbounded, Direction::Forward) => Seek::Key(Probe::new(&[])),
        (Bound::Unbounded, Direction::Backward) => Seek::Last,
    }
}

/// The bound at which a scan continues after the leaf with this fence.
fn onward(fence: &Key, direction: Direction) -> Bound<&[u8]> {
    match direction {
        Direction::Forward => Bound::Included(fence),
        Direction::Backward => Bound::Excluded(fence),
    }
}

/// Checks that the leaf covers the place where the scan came in. Without this, the far fence of a
/// corrupt leaf might lead the scan back for ever.
fn leads_on<S: Source>(node: Node<S>, from: Bound<&[u8]>, direction: Direction) -> Result<(), Garbled> {
    let covers = match (from, direction) {
        (Bound::Included(key), _) | (Bound::Excluded(key), Direction::Forward) => node.covers(key)?,
        (Bound::Excluded(key), Direction::Backward) => {
            node.high_to(key)? != Ordering::Less && (node.low_to(key)? == Ordering::Less || key.is_empty())
        }
        (Bound::Unbounded, Direction::Forward) => node.low_to(&[])? == Ordering::Equal,
        (Bound::Unbounded, Direction::Backward) => node.is_last(),
    };
    if covers { Ok(()) } else { Err(Garbled) }
}

/// The fence on the far side, if another leaf follows.
fn beyond<S: Source>(node: Node<S>, direction: Direction) -> Result<Option<Key>, Garbled> {
    match direction {
        Direction::Forward => node.high_key(),
        // The empty key is the smallest key, so no leaf lies below that fence.
        Direction::Backward => Ok(Some(node.low_key()?).filter(|low| !low.is_empty())),
    }
}

/// The positions that lie in the range.
fn span<S: Source>(
    node: Node<S>,
    from: Bound<&[u8]>,
    until: Option<&[u8]>,
    direction: Direction,
) -> Result<Range<usize>, Garbled> {
    let far = until.map(|key| node.at_or_behind(Probe::new(key))).transpose()?;
    Ok(match direction {
        Direction::Forward => {
            let start = match from {
                Bound::Included(key) => node.at_or_behind(Probe::new(key))?,
                Bound::Excluded(key) => node.behind(Probe::new(key))?,
                Bound::Unbounded => 0,
            };
            start..far.unwrap_or(node.count()).max(start)
        }
        Direction::Backward => {
            let end = match from {
                Bound::Included(key) => node.behind(Probe::new(key))?,
                Bound::Excluded(key) => node.at_or_behind(Probe::new(key))?,
                Bound::Unbounded => node.count(),
            };
            far.unwrap_or(0).min(end)..end
        }
    })
}

fn walk(
    node: Node<&Bytes>,
    from: Bound<&[u8]>,
    until: Option<&[u8]>,
    direction: Direction,
    mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
) -> Result<ChunkEnd, Garbled> {
    leads_on(node, from, direction)?;
    let range = span(node, from, until, direction)?;
    let mut buf = KeyBuf::new();
    let mut each = |range: &mut dyn Iterator<Item = usize>| -> Result<ControlFlow<()>, Garbled> {
        for at in range {
            if visit(node.key_in(at, &mut buf)?, node.value(at)?).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    };
    let (walked, behind) = match direction {
        Direction::Forward => (each(&mut range.clone())?, Some(range.end).filter(|at| *at < node.count())),
        Direction::Backward => (each(&mut range.clone().rev())?, range.start.checked_sub(1)),
    };
    if walked.is_break() {
        return Ok(ChunkEnd::Cut);
    }
    if let Some(at) = behind {
        return Ok(ChunkEnd::Key(node.key(at)?));
    }
    // Backwards: a leaf that reaches down to `until` ends the range.
    if direction == Direction::Backward
        && until.is_some_and(|until| node.low_to(until).is_ok_and(|order| order != Ordering::Greater))
    {
        return Ok(ChunkEnd::End);
    }
    Ok(beyond(node, direction)?.map_or(ChunkEnd::End, ChunkEnd::Continue))
}
