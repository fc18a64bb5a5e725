//! One B+tree node in one page: its layout and how it is read. `search` finds a key in it.
//!
//! ```text
//! 0        pages' own header                                                   HEADER
//! +0       level u8 | run u8 | count u16 | heap u16 | dead u16 | first child u32
//! +12      low: offset u16, length u16 | high: offset u16, length u16 (0xffff: none)
//! +20      skip u16 | hole u16
//! +24      prefix, 24 bytes
//! SLOTS    slot 0 | slot 1 | ... | slot count-1 |     free     | content, growing down   PAGE_SIZE
//! ```
//!
//! **Prefix.** All keys of a node begin with the same `skip` bytes (at most 24), which are stored
//! only once, in `prefix`, padded with zeros.
//!
//! **Slots.** A slot is one `u64`. From the top: the *head* (the key's next four bytes, big-endian,
//! padded with zeros), 13 bits of offset, 10 bits for the length of the key after the prefix, and 8
//! bits of value length. The content at that offset is the *tail* (the rest of the key) and then
//! the value. So a typical key of a few bytes has no content except its value, slots compared as
//! numbers compare their heads, and a search reads few cache lines before it reaches the one key
//! that may be equal.
//!
//! **Long values.** The 8 bits of value length hold lengths up to 254. 255 stands for a longer
//! value, and two bytes in front of the value hold its length. Rows of clustered tables can be that
//! long; entries of other indexes never are.
//!
//! **Prefix changes.** A key without the prefix shortens the prefix, which takes room:
//! [`Node::room_for`] returns how much. A split or a merge lays the node out anew with the longest
//! possible prefix.
//!
//! **Fences.** Keys lie between the fences: `low <= key < high`; an absent high fence is infinity.
//! A leaf (level 0) maps keys to values. An inner node has the children
//! `first, value(0), value(1), ...` of four bytes each; `key(i)` is the low fence of the child
//! `value(i)`. Only a structure modification changes fences.
//!
//! **Counters.** `run` is the number of latest inserts in a row that went after the last key; a
//! high value means that keys arrive in order. `dead` is the number of content bytes to which no
//! slot refers; compaction frees them. Until then, dead ranges of at least four bytes form a list
//! of holes that starts at `hole` (0: none). Each hole stores the offset of the next hole and its
//! own length. So a full node in which entries are inserted and removed is not compacted at every
//! insert.
//!
//! **Reading** is generic over [`Source`], because optimistic readers read nodes that change
//! meanwhile. Any bytes give a value or [`Garbled`], and every loop ends.

use crate::bytes::{Bytes, Garbled, Source, common_prefix, copy_at, order, order_at, word};
use base::{Key, PageId, TableId};
use pages::{PAGE_HEADER as HEADER, PAGE_SIZE};
use std::cmp::Ordering;

pub(super) const LEVEL: usize = HEADER;
pub(super) const RUN: usize = LEVEL + 1;
pub(super) const COUNT: usize = HEADER + 2;
pub(super) const HEAP: usize = HEADER + 4;
pub(super) const DEAD: usize = HEADER + 6;
pub(super) const FIRST: usize = HEADER + 8;
pub(super) const LOW: usize = HEADER + 12;
pub(super) const HIGH: usize = HEADER + 16;
pub(super) const SKIP: usize = HEADER + 20;
pub(super) const HOLE: usize = HEADER + 22;
pub(super) const PREFIX: usize = HEADER + 24;
pub(super) const SLOTS: usize = HEADER + 48;
pub(super) const SLOT: usize = 8;
/// Bytes of the key in a slot.
pub(super) const HEAD: usize = 4;
/// The longest prefix: with it the header fills one cache line.
pub(super) const PREFIX_MAX: usize = SLOTS - PREFIX;
/// The length that means "no fence".
pub(super) const NO_FENCE: u16 = u16::MAX;

/// Bytes of a page that fences, slots and content share.
pub(crate) const CAPACITY: usize = PAGE_SIZE - SLOTS;
/// In a slot, the length of every value of at least this many bytes; the real length is stored in
/// front of the value.
const LONG: usize = 255;
/// Bytes of that stored length.
const LENGTH: usize = 2;
/// The longest value in a leaf, with an empty key: a quarter of a node, as in
/// [`BTree::takes`](super::BTree::takes).
pub(crate) const MAX_VALUE: usize = CAPACITY / 4;
/// The most slots that fit into a page.
pub(super) const MAX_SLOTS: usize = CAPACITY / SLOT;
/// More levels than any tree of 2^32 pages can have; a deeper tree is corrupt.
pub(crate) const MAX_LEVEL: u8 = 32;
/// The longest key that the layout can express; trees take less, an eighth of a page.
const MAX_KEY: usize = PREFIX_MAX + (1 << 10) - 1;

const _: () = assert!(SLOTS == 72, "the header with 16 bytes of prefix is one cache line");
const _: () = assert!(PAGE_SIZE <= 1 << 13, "13 bits of offset");
const _: () = assert!(CAPACITY / 8 < 1 << 10, "10 bits of key length");

/// A slot; the methods decode its fields.
#[derive(Clone, Copy)]
pub(super) struct Slot(pub(super) u64);

impl Slot {
    #[inline]
    pub(super) fn new(head: u32, offset: usize, key: usize, value: usize) -> Slot {
        debug_assert!(offset < 1 << 13 && key < 1 << 10);
        Slot(u64::from(head) << 32 | (offset as u64) << 18 | (key as u64) << 8 | value.min(LONG) as u64)
    }

    #[inline]
    pub(super) fn head(self) -> u32 {
        (self.0 >> 32) as u32
    }
    #[inline]
    pub(super) fn offset(self) -> usize {
        (self.0 >> 18) as usize & 0x1fff
    }
    /// Length of the key after the prefix.
    #[inline]
    pub(super) fn key_len(self) -> usize {
        (self.0 >> 8) as usize & 0x3ff
    }
    #[inline]
    pub(super) fn tail_len(self) -> usize {
        tail(self.key_len())
    }
    /// Length of the value; 255 for all lengths from 255 on.
    #[inline]
    pub(super) fn value_len(self) -> usize {
        self.0 as usize & 0xff
    }
    /// Offset of the value, or of the length in front of a long value.
    #[inline]
    pub(super) fn value_at(self) -> usize {
        self.offset() + self.tail_len()
    }
}

/// Bytes of a key that its slot does not hold; `rest` is the key's length after the prefix.
#[inline]
fn tail(rest: usize) -> usize {
    rest.saturating_sub(HEAD)
}

/// Bytes that a value of this length takes.
#[inline]
pub(crate) fn stored(value: usize) -> usize {
    if value < LONG { value } else { value + LENGTH }
}

/// The length in front of a long value; `None` for a short one.
#[inline]
pub(super) fn length_front(value: usize) -> Option<[u8; LENGTH]> {
    (value >= LONG).then(|| (value as u16).to_le_bytes())
}

/// Bytes of [`CAPACITY`] that an entry takes; `rest` is the key's length after the prefix.
#[inline]
pub(crate) fn entry_size(rest: usize, value: usize) -> usize {
    SLOT + tail(rest) + stored(value)
}

/// The longest prefix for a node with keys from `first` to `last`.
#[inline]
pub(crate) fn best_prefix<'a>(first: &'a [u8], last: &[u8]) -> &'a [u8] {
    let shared = &first[..first.len().min(PREFIX_MAX)];
    &shared[..common_prefix(shared, last)]
}

/// The first four bytes as a number with the same order, padded with zeros.
#[inline]
pub(super) fn head_of(rest: &[u8]) -> u32 {
    match rest.first_chunk::<HEAD>() {
        Some(four) => u32::from_be_bytes(*four),
        None => (word(rest) >> 32) as u32,
    }
}

/// A key to look for, with its first eight bytes as a number.
#[derive(Clone, Copy)]
pub(crate) struct Probe<'a> {
    pub(super) key: &'a [u8],
    pub(super) first: u64,
}

impl<'a> Probe<'a> {
    #[inline]
    pub(crate) fn new(key: &'a [u8]) -> Probe<'a> {
        Probe { key, first: word(key) }
    }

    #[inline]
    pub(crate) fn key(self) -> &'a [u8] {
        self.key
    }

    #[inline]
    pub(super) fn head(self, skip: usize) -> u32 {
        if skip <= HEAD || self.key.len() <= 8 {
            return (self.first.unbounded_shl(8 * skip as u32) >> 32) as u32;
        }
        self.far_head(skip)
    }

    #[cold]
    #[inline(never)]
    fn far_head(self, skip: usize) -> u32 {
        head_of(self.key.get(skip..).unwrap_or_default())
    }
}

/// A buffer in which a key is put together.
pub(crate) struct KeyBuf([u8; MAX_KEY]);

impl KeyBuf {
    #[inline]
    pub(crate) fn new() -> KeyBuf {
        KeyBuf([0; MAX_KEY])
    }
}

/// A node, for reading.
#[derive(Clone, Copy)]
pub(crate) struct Node<S>(pub(crate) S);

impl<S: Source> Node<S> {
    /// Whether the page's header says that it is a node of this format and tree; `mark` is the
    /// expected value of its bytes 4 and 5.
    #[inline]
    pub(crate) fn belongs(self, mark: u16, owner: TableId) -> bool {
        self.field(4) == usize::from(mark)
            && (self.0.word(2) >> 32) as u32 == u32::from(owner.0)
            && self.level() <= MAX_LEVEL
    }

    /// The two bytes at a fixed, even offset.
    #[inline]
    fn field(self, at: usize) -> usize {
        usize::from((self.0.word(at / 8) >> (8 * (at % 8))) as u16)
    }

    /// 0 for a leaf.
    #[inline]
    pub(crate) fn level(self) -> u8 {
        self.field(LEVEL) as u8
    }

    /// Latest inserts in a row after the last key, up to 255.
    pub(crate) fn run(self) -> u8 {
        (self.field(LEVEL) >> 8) as u8
    }

    #[inline]
    pub(crate) fn count(self) -> usize {
        self.field(COUNT)
    }

    #[inline]
    pub(super) fn heap(self) -> usize {
        self.field(HEAP)
    }

    pub(super) fn dead(self) -> usize {
        self.field(DEAD)
    }

    #[inline]
    pub(super) fn skip(self) -> usize {
        self.field(SKIP)
    }

    /// Bytes of [`CAPACITY`] in use; dead bytes do not count.
    #[inline]
    pub(crate) fn used(self) -> usize {
        (SLOT * self.count() + PAGE_SIZE).saturating_sub(self.heap() + self.dead())
    }

    /// The common prefix of all keys of the node, and its length.
    #[inline]
    pub(super) fn prefix(self) -> Result<([u8; PREFIX_MAX], usize), Garbled> {
        let mut bytes = [0; PREFIX_MAX];
        copy_at(self.0, PREFIX, &mut bytes)?;
        Ok((bytes, Some(self.skip()).filter(|skip| *skip <= PREFIX_MAX).ok_or(Garbled)?))
    }

    #[inline]
    pub(super) fn raw(self, i: usize) -> u64 {
        self.0.word(SLOTS / SLOT + i)
    }

    #[inline]
    pub(super) fn slot(self, i: usize) -> Result<Slot, Garbled> {
        if i < self.count() { Ok(Slot(self.raw(i))) } else { Err(Garbled) }
    }

    /// Key number `i`, put together in `buf`.
    #[inline]
    pub(crate) fn key_in(self, i: usize, buf: &mut KeyBuf) -> Result<&[u8], Garbled> {
        let slot = self.slot(i)?;
        let (prefix, skip) = self.prefix()?;
        buf.0[..PREFIX_MAX].copy_from_slice(&prefix);
        buf.0[skip..skip + HEAD].copy_from_slice(&slot.head().to_be_bytes());
        let end = skip + slot.key_len();
        if slot.tail_len() > 0 {
            copy_at(self.0, slot.offset(), &mut buf.0[skip + HEAD..end])?;
        }
        Ok(&buf.0[..end])
    }

    /// Offset and length of value number `i`; all of it lies inside the page.
    #[inline]
    pub(crate) fn value_at(self, i: usize) -> Result<(usize, usize), Garbled> {
        self.value_of(self.slot(i)?)
    }

    #[inline]
    fn value_of(self, slot: Slot) -> Result<(usize, usize), Garbled> {
        let (at, len) = (slot.value_at(), slot.value_len());
        if len == LONG {
            return self.long_value(at);
        }
        if at + len <= PAGE_SIZE { Ok((at, len)) } else { Err(Garbled) }
    }

    /// Offset and length of the long value, with its stored length at `at`.
    #[inline(never)]
    fn long_value(self, at: usize) -> Result<(usize, usize), Garbled> {
        let len = usize::from(self.0.u8(at)?) | usize::from(self.0.u8(at + 1)?) << 8;
        let at = at + LENGTH;
        if len >= LONG && at + len <= PAGE_SIZE { Ok((at, len)) } else { Err(Garbled) }
    }

    /// Offset and length of the content to which the slot refers; all of it lies inside the page.
    pub(super) fn content_of(self, slot: Slot) -> Result<(usize, usize), Garbled> {
        let (at, len) = self.value_of(slot)?;
        Ok((slot.offset(), at + len - slot.offset()))
    }

    pub(crate) fn key(self, i: usize) -> Result<Key, Garbled> {
        self.key_in(i, &mut KeyBuf::new()).map(Key::from_bytes)
    }

    /// Offset and length of the fence in this header field.
    #[inline]
    fn fence_at(self, field: usize) -> Option<(usize, usize)> {
        let (at, len) = (self.field(field), self.field(field + 2));
        (len != usize::from(NO_FENCE)).then_some((at, len))
    }

    /// The fences as byte ranges of the page.
    pub(super) fn fences(self) -> impl Iterator<Item = (usize, usize)> {
        [LOW, HIGH].into_iter().filter_map(move |field| self.fence_at(field).map(|(at, len)| (at, at + len)))
    }

    fn fence(self, field: usize) -> Result<Option<Key>, Garbled> {
        let Some((at, len)) = self.fence_at(field) else { return Ok(None) };
        if at + len > PAGE_SIZE {
            return Err(Garbled);
        }
        let mut bytes = vec![0; len];
        copy_at(self.0, at, &mut bytes)?;
        Ok(Some(Key::from_bytes(&bytes)))
    }

    pub(crate) fn low_key(self) -> Result<Key, Garbled> {
        self.fence(LOW)?.ok_or(Garbled)
    }

    pub(crate) fn high_key(self) -> Result<Option<Key>, Garbled> {
        self.fence(HIGH)
    }

    #[inline]
    pub(crate) fn is_last(self) -> bool {
        self.fence_at(HIGH).is_none()
    }

    /// Compares the low fence with `key`.
    #[inline]
    pub(crate) fn low_to(self, key: &[u8]) -> Result<Ordering, Garbled> {
        let (at, len) = self.fence_at(LOW).ok_or(Garbled)?;
        order_at(self.0, at, len, key)
    }

    /// Compares the high fence with `key`.
    #[inline]
    pub(crate) fn high_to(self, key: &[u8]) -> Result<Ordering, Garbled> {
        self.fence_at(HIGH).map_or(Ok(Ordering::Greater), |(at, len)| order_at(self.0, at, len, key))
    }

    #[inline]
    pub(crate) fn covers(self, key: &[u8]) -> Result<bool, Garbled> {
        Ok(self.low_to(key)? != Ordering::Greater && self.high_to(key)? == Ordering::Greater)
    }

    /// Compares the first `skip` bytes of the probe with the node's prefix.
    #[cold]
    #[inline(never)]
    pub(super) fn against_prefix(self, probe: Probe<'_>, skip: usize) -> Result<Ordering, Garbled> {
        // Not `prefix()`: under an optimistic reader `skip` may have changed meanwhile, and the
        // caller continues with this value.
        let mut prefix = [0; PREFIX_MAX];
        copy_at(self.0, PREFIX, &mut prefix)?;
        let prefix = prefix.get(..skip).ok_or(Garbled)?;
        Ok(order(probe.key.get(..skip).unwrap_or(probe.key), prefix))
    }

    /// Child number `i` of an inner node, from 0 to `count` inclusive.
    #[inline]
    pub(crate) fn child(self, i: usize) -> Result<PageId, Garbled> {
        let at = match i.checked_sub(1) {
            None => FIRST,
            Some(i) => {
                let slot = self.slot(i)?;
                if slot.value_len() != 4 {
                    return Err(Garbled);
                }
                slot.value_at()
            }
        };
        self.0.u32(at).map(PageId)
    }
}

impl<'a> Node<&'a Bytes> {
    pub(crate) fn new(bytes: &'a Bytes) -> Node<&'a Bytes> {
        Node(bytes)
    }

    #[inline]
    fn slice(self, at: usize, len: usize) -> Result<&'a [u8], Garbled> {
        self.0.get(at..at + len).ok_or(Garbled)
    }

    #[inline]
    pub(crate) fn value(self, i: usize) -> Result<&'a [u8], Garbled> {
        let (at, len) = self.value_at(i)?;
        self.slice(at, len)
    }

    /// The smallest key that may lie in this node.
    pub(crate) fn low(self) -> Result<&'a [u8], Garbled> {
        let (at, len) = self.fence_at(LOW).ok_or(Garbled)?;
        self.slice(at, len)
    }

    /// All keys of this node are less than this one.
    pub(crate) fn high(self) -> Result<Option<&'a [u8]>, Garbled> {
        self.fence_at(HIGH).map(|(at, len)| self.slice(at, len)).transpose()
    }

    /// Bytes that an entry with this key would add to [`Node::used`]. If the key does not begin
    /// with the node's prefix, this is more than the entry's own size, because all stored keys
    /// grow.
    #[inline]
    pub(crate) fn room_for(self, key: &[u8], value: usize) -> Result<usize, Garbled> {
        if self.count() == 0 {
            return Ok(entry_size(key.len().saturating_sub(PREFIX_MAX), value));
        }
        let skip = self.skip();
        if self.against_prefix(Probe::new(key), skip)? == Ordering::Equal {
            return Ok(entry_size(key.len() - skip, value));
        }
        let (prefix, skip) = self.prefix()?;
        let shared = common_prefix(&prefix[..skip], key);
        let mut growth = 0;
        for i in 0..self.count() {
            let rest = self.slot(i)?.key_len();
            growth += tail(rest + skip - shared) - tail(rest);
        }
        Ok(growth + entry_size(key.len() - shared, value))
    }
}

/// The child in the value of an inner node's entry.
#[inline]
pub(crate) fn child_id(value: &[u8]) -> Result<PageId, Garbled> {
    value.try_into().map(|four| PageId(u32::from_le_bytes(four))).map_err(|_| Garbled)
}
