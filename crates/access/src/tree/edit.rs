//! Changes of a node. Every function is deterministic in the bytes that it finds, because restart
//! runs the same functions from the log: a replayed page equals the original byte for byte, free
//! space included.
//!
//! These functions make no decisions; the caller decides whether an entry may go in (the tree's
//! fill limit). A change that does not fit physically, or that meets a malformed page, returns
//! [`Garbled`] and leaves the entries as they were.

use super::node::{
    CAPACITY, COUNT, DEAD, FIRST, HEAD, HEAP, HIGH, HOLE, KeyBuf, LEVEL, LOW, MAX_VALUE, NO_FENCE, Node,
    PREFIX, PREFIX_MAX, Probe, RUN, SKIP, SLOT, SLOTS, Slot, best_prefix, entry_size, head_of, length_front,
};
use crate::bytes::{Bytes, Cursor, Garbled, common_prefix, push_sized, put_u16, put_u32, u16_at};
use base::PageId;
use pages::{PAGE_HEADER, PAGE_SIZE};

/// A slot has ten bits for the length of a key after the prefix.
const LONGEST_REST: usize = (1 << 10) - 1;
/// A hole must have room for its link and its length.
const HOLE_MIN: usize = 4;
/// The number of holes that are tried before a compaction.
const HOLES_TRIED: usize = 8;

/// In an image, in place of a value's length: the length follows as two bytes.
const LONG_VALUE: u8 = u8::MAX;

/// A node, for changing.
pub(crate) struct NodeMut<'a>(&'a mut Bytes);

/// The whole content of a node in the form of the log record; splits, merges and root changes build
/// it. Its keys come without the prefix, which is written once.
pub(crate) struct Image {
    out: Vec<u8>,
    skip: usize,
}

impl Image {
    /// `first` is the leftmost child, 0 in a leaf; all keys that follow must begin with `prefix`.
    pub(crate) fn new(level: u8, first: PageId, low: &[u8], high: Option<&[u8]>, prefix: &[u8]) -> Image {
        let mut out = Vec::with_capacity(256);
        out.push(level);
        out.extend_from_slice(&first.0.to_le_bytes());
        push_sized(&mut out, low);
        out.push(u8::from(high.is_some()));
        push_sized(&mut out, high.unwrap_or_default());
        push_sized(&mut out, prefix);
        Image { out, skip: prefix.len() }
    }

    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        push_sized(&mut self.out, &key[self.skip..]);
        let front = length_front(value.len());
        self.out.push(if front.is_some() { LONG_VALUE } else { value.len() as u8 });
        self.out.extend_from_slice(front.as_ref().map_or(&[], |front| front));
        self.out.extend_from_slice(value);
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.out
    }

    /// The image, with another leftmost child if one is given.
    pub(crate) fn with_first(&self, first: Option<PageId>) -> Vec<u8> {
        let mut out = self.out.clone();
        if let Some(first) = first {
            out[1..5].copy_from_slice(&first.0.to_le_bytes());
        }
        out
    }
}

/// The prefix of a node that is laid out anew.
enum Prefix {
    /// The longest possible.
    Best,
    /// The first bytes of the present prefix.
    Of(usize),
}

impl<'a> NodeMut<'a> {
    pub(crate) fn new(bytes: &'a mut Bytes) -> NodeMut<'a> {
        NodeMut(bytes)
    }

    #[inline]
    pub(crate) fn node(&self) -> Node<&Bytes> {
        Node(self.0)
    }

    /// Replaces the page's content by this image.
    pub(crate) fn format(&mut self, image: &[u8]) -> Result<(), Garbled> {
        let mut from = Cursor(image);
        let (level, first) = (from.u8()?, from.u32()?);
        let low = from.sized()?;
        let bounded = from.u8()? != 0;
        let high = from.sized()?;
        let prefix = from.sized()?;
        self.clear(level, PageId(first), low, bounded.then_some(high), prefix)?;
        while !from.is_empty() {
            let rest = from.sized()?;
            let value = match from.u8()? {
                LONG_VALUE => from.sized()?,
                short => from.take(short.into())?,
            };
            self.push(rest, value)?;
        }
        Ok(())
    }

    /// An empty node with these fences and prefix.
    fn clear(
        &mut self,
        level: u8,
        first: PageId,
        low: &[u8],
        high: Option<&[u8]>,
        prefix: &[u8],
    ) -> Result<(), Garbled> {
        if low.len() + high.map_or(0, <[u8]>::len) > CAPACITY || prefix.len() > PREFIX_MAX {
            return Err(Garbled);
        }
        self.0[PAGE_HEADER..].fill(0);
        self.0[LEVEL] = level;
        put_u32(self.0, FIRST, first.0);
        put_u16(self.0, HEAP, PAGE_SIZE);
        self.put_fence(LOW, Some(low));
        self.put_fence(HIGH, high);
        self.put_prefix(prefix);
        Ok(())
    }

    fn put_prefix(&mut self, prefix: &[u8]) {
        put_u16(self.0, SKIP, prefix.len());
        self.0[PREFIX..PREFIX + PREFIX_MAX].fill(0);
        self.0[PREFIX..PREFIX + prefix.len()].copy_from_slice(prefix);
    }

    fn put_fence(&mut self, field: usize, fence: Option<&[u8]>) {
        let bytes = fence.unwrap_or_default();
        let at = self.node().heap() - bytes.len();
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        put_u16(self.0, HEAP, at);
        put_u16(self.0, field, at);
        put_u16(self.0, field + 2, fence.map_or(usize::from(NO_FENCE), <[u8]>::len));
    }

    /// Contiguous free bytes between slots and content.
    fn gap(&self) -> Result<usize, Garbled> {
        let node = self.node();
        let heap = node.heap();
        heap.checked_sub(SLOTS + SLOT * node.count()).filter(|_| heap <= PAGE_SIZE).ok_or(Garbled)
    }

    /// Inserts an entry at `pos`, a position that [`Node::search`] returned.
    #[inline]
    pub(crate) fn insert(&mut self, pos: usize, key: &[u8], value: &[u8]) -> Result<(), Garbled> {
        if pos > self.node().count() || value.len() > MAX_VALUE {
            return Err(Garbled);
        }
        let skip = self.make_common(key)?;
        let rest = &key[skip..];
        if rest.len() > LONGEST_REST {
            return Err(Garbled);
        }
        let at = self.reserve(entry_size(rest.len(), value.len()) - SLOT)?;
        self.0[RUN] = if pos == self.node().count() { self.0[RUN].saturating_add(1) } else { 0 };
        self.place(at, pos, rest, value);
        Ok(())
    }

    /// Shortens the prefix until it is also a prefix of `key`; returns its length.
    #[inline]
    fn make_common(&mut self, key: &[u8]) -> Result<usize, Garbled> {
        if self.node().count() == 0 {
            let skip = key.len().min(PREFIX_MAX);
            self.put_prefix(&key[..skip]);
            return Ok(skip);
        }
        let (prefix, skip) = self.node().prefix()?;
        if key.starts_with(&prefix[..skip]) {
            return Ok(skip);
        }
        let shared = common_prefix(&prefix[..skip], key);
        self.rebuild(self.node().count(), None, Prefix::Of(shared))?;
        Ok(shared)
    }

    /// Takes `len` bytes of content, with room for one more slot: from the gap, else from a hole,
    /// else after a compaction.
    #[inline]
    fn reserve(&mut self, len: usize) -> Result<usize, Garbled> {
        if self.gap()? < SLOT + len {
            if self.gap()? >= SLOT
                && let Some(at) = self.take_hole(len)?
            {
                return Ok(at);
            }
            self.compact()?;
            if self.gap()? < SLOT + len {
                return Err(Garbled);
            }
        }
        let at = self.node().heap() - len;
        put_u16(self.0, HEAP, at);
        Ok(at)
    }

    /// Takes the first hole of at least `len` bytes among the first few. The rest of that hole
    /// stays a hole; if it is too short for one, it is dead until a compaction.
    fn take_hole(&mut self, len: usize) -> Result<Option<usize>, Garbled> {
        let mut link = HOLE;
        for _ in 0..HOLES_TRIED {
            let at = usize::from(u16_at(self.0, link));
            if at == 0 {
                return Ok(None);
            }
            let (next, size) = self.hole(at)?;
            if size >= len {
                put_u16(self.0, link, next);
                put_u16(self.0, DEAD, self.node().dead().checked_sub(len).ok_or(Garbled)?);
                self.leave_hole(at + len, size - len);
                return Ok(Some(at));
            }
            link = at;
        }
        Ok(None)
    }

    /// The hole at `at`: the offset of the next hole, and its length.
    fn hole(&self, at: usize) -> Result<(usize, usize), Garbled> {
        if at < SLOTS || at + HOLE_MIN > PAGE_SIZE {
            return Err(Garbled);
        }
        let (next, size) = (usize::from(u16_at(self.0, at)), usize::from(u16_at(self.0, at + 2)));
        if size < HOLE_MIN || at + size > PAGE_SIZE { Err(Garbled) } else { Ok((next, size)) }
    }

    /// Adds dead bytes to the list of holes, if they have room for a hole's link and length.
    fn leave_hole(&mut self, at: usize, size: usize) {
        if size >= HOLE_MIN {
            put_u16(self.0, at, usize::from(u16_at(self.0, HOLE)));
            put_u16(self.0, at + 2, size);
            put_u16(self.0, HOLE, at);
        }
    }

    /// Appends an entry after the last one; `rest` is the key after the prefix.
    fn push(&mut self, rest: &[u8], value: &[u8]) -> Result<(), Garbled> {
        let size = entry_size(rest.len(), value.len());
        if self.gap()? < size || rest.len() > LONGEST_REST {
            return Err(Garbled);
        }
        let at = self.node().heap() + SLOT - size;
        put_u16(self.0, HEAP, at);
        self.place(at, self.node().count(), rest, value);
        Ok(())
    }

    /// Copies the content in and opens a slot. The caller has checked that there is room.
    #[inline]
    fn place(&mut self, at: usize, pos: usize, rest: &[u8], value: &[u8]) {
        let count = self.node().count();
        let tail = rest.get(HEAD..).unwrap_or_default();
        self.0[at..at + tail.len()].copy_from_slice(tail);
        let mut value_at = at + tail.len();
        if let Some(front) = length_front(value.len()) {
            self.0[value_at..value_at + front.len()].copy_from_slice(&front);
            value_at += front.len();
        }
        self.0[value_at..value_at + value.len()].copy_from_slice(value);
        let slot = SLOTS + SLOT * pos;
        self.0.copy_within(slot..SLOTS + SLOT * count, slot + SLOT);
        // An entry without content gets offset 0: the end of an empty page is an offset that a slot
        // cannot hold.
        let at = if tail.len() + value.len() == 0 { 0 } else { at };
        self.put_slot(pos, Slot::new(head_of(rest), at, rest.len(), value.len()));
        put_u16(self.0, COUNT, count + 1);
    }

    fn put_slot(&mut self, pos: usize, slot: Slot) {
        let at = SLOTS + SLOT * pos;
        self.0[at..at + SLOT].copy_from_slice(&slot.0.to_le_bytes());
    }

    pub(crate) fn remove(&mut self, pos: usize) -> Result<(), Garbled> {
        let node = self.node();
        let (count, dead) = (node.count(), node.dead());
        let (content_at, content) = node.content_of(node.slot(pos)?)?;
        if content > 0 && content_at < SLOTS {
            return Err(Garbled);
        }
        let at = SLOTS + SLOT * pos;
        self.0.copy_within(at + SLOT..SLOTS + SLOT * count, at);
        put_u16(self.0, COUNT, count - 1);
        put_u16(self.0, DEAD, (dead + content).min(PAGE_SIZE));
        self.leave_hole(content_at, content);
        self.0[RUN] = 0;
        Ok(())
    }

    /// Replaces the value at `pos`; in place if the length stays the same.
    pub(crate) fn set_value(&mut self, pos: usize, value: &[u8]) -> Result<(), Garbled> {
        let (at, len) = self.node().value_at(pos)?;
        if len == value.len() {
            self.0[at..at + len].copy_from_slice(value);
            return Ok(());
        }
        let key = self.node().key(pos)?;
        let run = self.0[RUN];
        self.remove(pos)?;
        self.insert(pos, &key, value)?;
        self.0[RUN] = run;
        Ok(())
    }

    /// Replaces `old` bytes of the value at `pos`, from its byte `from` on, by `new`.
    pub(crate) fn splice(&mut self, pos: usize, from: usize, old: usize, new: &[u8]) -> Result<(), Garbled> {
        let (at, len) = self.node().value_at(pos)?;
        if from + old > len {
            return Err(Garbled);
        }
        if old == new.len() {
            self.0[at + from..at + from + old].copy_from_slice(new);
            return Ok(());
        }
        let value = self.node().value(pos)?;
        let spliced = [&value[..from], new, &value[from + old..]].concat();
        self.set_value(pos, &spliced)
    }

    /// Keeps the keys below `fence`, which becomes the high fence: the left half of a split.
    pub(crate) fn cut(&mut self, fence: &[u8]) -> Result<(), Garbled> {
        let keep = self.node().at_or_behind(Probe::new(fence))?;
        let run = if keep == self.node().count() { self.0[RUN] } else { 0 };
        self.rebuild(keep, Some(fence), Prefix::Best)?;
        self.0[RUN] = run;
        Ok(())
    }

    /// Gathers the free space into one run. The prefix stays, because the room for the new entry
    /// was computed with it.
    pub(crate) fn compact(&mut self) -> Result<(), Garbled> {
        self.rebuild(self.node().count(), None, Prefix::Of(self.node().skip()))
    }

    /// Lays the first `keep` entries out anew, under another high fence if one is given.
    fn rebuild(&mut self, keep: usize, fence: Option<&[u8]>, prefix: Prefix) -> Result<(), Garbled> {
        let old = Box::new(*self.0);
        let node = Node::new(&old);
        let high = match fence {
            Some(fence) => Some(fence),
            None => node.high()?,
        };
        let mut buf = KeyBuf::new();
        let (now, skip) = node.prefix()?;
        let best;
        let prefix = match prefix {
            Prefix::Of(len) => now[..skip].get(..len).ok_or(Garbled)?,
            Prefix::Best if keep == 0 => &[],
            Prefix::Best => {
                best = node.key(0)?;
                best_prefix(&best, node.key_in(keep - 1, &mut buf)?)
            }
        };
        self.clear(node.level(), node.child(0)?, node.low()?, high, prefix)?;
        self.0[RUN] = node.run();
        let mut buf = KeyBuf::new();
        for i in 0..keep {
            let rest = node.key_in(i, &mut buf)?.get(prefix.len()..).ok_or(Garbled)?;
            self.push(rest, node.value(i)?)?;
        }
        Ok(())
    }
}
