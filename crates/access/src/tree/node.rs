//! One B+tree node in one page: how its bytes lie and how they are read.
//!
//! ```text
//! 0        pages' own header                                                        HEADER
//! +0       level u8 | run u8 | count u16 | heap u16 | dead u16 | first child u32
//! +12      low: offset u16, length u16 | high: offset u16, length u16 (0xffff: none) | skip u16 | hole u16
//! +24      prefix u64
//! SLOTS    slot 0 | slot 1 | ... | slot count-1 |      free      | content, growing down      PAGE_SIZE
//! ```
//!
//! A slot is one `u64`: the key's head (its four bytes after the first `skip`, big-endian, zero padded) above
//! 13 bits of offset, 10 bits of key length and 8 bits of value length; the content there is key, then value. So
//! comparing slots as numbers compares heads, and a search reads few cache lines before it meets the one key it has
//! to compare in full.
//!
//! `skip` is a number of leading bytes that all keys of the node have in common: heads tell keys apart even
//! where they are counters that share seven bytes of eight. `prefix` holds the first eight of those bytes as a number
//! (big-endian, zero padded), so that a probe is compared with them without looking at a key.
//!
//! Keys lie between the fences: `low <= key < high`; an absent high fence is infinity. A leaf (level 0) maps keys to
//! values. An inner node has children `first, value(0), value(1), ...` of four bytes each; `key(i)` is the low
//! fence of the child `value(i)`. Fences never move except in a structure modification.
//!
//! `run` counts how many inserts in a row went behind the last key: the sign of keys that arrive in order.
//! `dead` counts bytes of content that no slot refers to any more; compaction gets them back. Until then, those of
//! at least four bytes form a list that starts at `hole` (0: none), each holding where the next one is and its own
//! length, so that a full node in which entries come and go is not compacted at every insert.

use crate::bytes::{Bytes, Garbled, order, u16_at, u32_at, u64_at, word};
use base::PageId;
use pages::{PAGE_HEADER as HEADER, PAGE_SIZE};
use std::cmp::Ordering;
use std::hint::select_unpredictable;

pub(super) const LEVEL: usize = HEADER;
pub(super) const RUN: usize = HEADER + 1;
pub(super) const COUNT: usize = HEADER + 2;
pub(super) const HEAP: usize = HEADER + 4;
pub(super) const DEAD: usize = HEADER + 6;
pub(super) const FIRST: usize = HEADER + 8;
pub(super) const LOW: usize = HEADER + 12;
pub(super) const HIGH: usize = HEADER + 16;
pub(super) const SKIP: usize = HEADER + 20;
pub(super) const HOLE: usize = HEADER + 22;
pub(super) const PREFIX: usize = HEADER + 24;
pub(super) const SLOTS: usize = HEADER + 32;
pub(super) const SLOT: usize = 8;
/// The length that means "no fence".
pub(super) const NO_FENCE: u16 = u16::MAX;

/// Bytes of a page that fences, slots and content share.
pub(crate) const CAPACITY: usize = PAGE_SIZE - SLOTS;
/// Longest value a leaf holds: the slot has eight bits for its length.
pub(crate) const MAX_VALUE: usize = 255;
/// More levels than any tree of 2^32 pages can have; a deeper one is corrupt.
pub(crate) const MAX_LEVEL: u8 = 32;

const _: () = assert!(PAGE_SIZE <= 1 << 13, "13 bits of offset");
const _: () = assert!(CAPACITY / 8 < 1 << 10, "10 bits of key length");

/// A slot taken apart.
#[derive(Clone, Copy)]
pub(super) struct Slot(pub(super) u64);

impl Slot {
    #[inline]
    pub(super) fn new(head: u32, offset: usize, key: usize, value: usize) -> Slot {
        debug_assert!(offset < 1 << 13 && key < 1 << 10 && value < 1 << 8);
        Slot(u64::from(head) << 32 | (offset as u64) << 18 | (key as u64) << 8 | value as u64)
    }

    #[inline]
    pub(super) fn read(bytes: &[u8; SLOT]) -> Slot {
        Slot(u64::from_le_bytes(*bytes))
    }

    #[inline]
    pub(super) fn head(self) -> u32 {
        (self.0 >> 32) as u32
    }
    #[inline]
    pub(super) fn offset(self) -> usize {
        (self.0 >> 18) as usize & 0x1fff
    }
    #[inline]
    pub(super) fn key_len(self) -> usize {
        (self.0 >> 8) as usize & 0x3ff
    }
    #[inline]
    pub(super) fn value_len(self) -> usize {
        self.0 as usize & 0xff
    }
    /// Bytes of content the slot refers to.
    pub(super) fn content(self) -> usize {
        self.key_len() + self.value_len()
    }
}

/// Bytes an entry takes out of [`CAPACITY`].
#[inline]
pub(crate) fn entry_size(key: usize, value: usize) -> usize {
    SLOT + key + value
}

/// The four bytes of `key` behind its first `skip`, as a number that sorts like them.
#[inline]
pub(super) fn head_of(key: &[u8], skip: usize) -> u32 {
    let tail = key.get(skip..).unwrap_or_default();
    if let Some(four) = tail.first_chunk::<4>() {
        return u32::from_be_bytes(*four);
    }
    // Fewer than four: out of the last eight bytes of the key in one load, where there are as many.
    match key.last_chunk::<8>() {
        Some(eight) => (u64::from_be_bytes(*eight).unbounded_shl(64 - 8 * tail.len() as u32) >> 32) as u32,
        None => (word(tail) >> 32) as u32,
    }
}

/// A node, to be read.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a>(pub(super) &'a Bytes);

impl<'a> Node<'a> {
    pub(crate) fn new(bytes: &'a Bytes) -> Node<'a> {
        Node(bytes)
    }

    /// 0 for a leaf.
    #[inline]
    pub(crate) fn level(self) -> u8 {
        self.0[LEVEL]
    }

    /// Inserts in a row that went to the end, up to 255.
    pub(crate) fn run(self) -> u8 {
        self.0[RUN]
    }

    #[inline]
    pub(crate) fn count(self) -> usize {
        usize::from(u16_at(self.0, COUNT))
    }

    pub(super) fn heap(self) -> usize {
        usize::from(u16_at(self.0, HEAP))
    }

    pub(super) fn dead(self) -> usize {
        usize::from(u16_at(self.0, DEAD))
    }

    #[inline]
    pub(super) fn skip(self) -> usize {
        usize::from(u16_at(self.0, SKIP))
    }

    /// Bytes in use out of [`CAPACITY`], after a compaction if need be.
    #[inline]
    pub(crate) fn used(self) -> usize {
        (SLOT * self.count() + PAGE_SIZE).saturating_sub(self.heap() + self.dead())
    }

    #[inline]
    pub(super) fn slots(self) -> Result<&'a [[u8; SLOT]], Garbled> {
        let bytes = self.0.get(SLOTS..SLOTS + SLOT * self.count()).ok_or(Garbled)?;
        Ok(bytes.as_chunks().0)
    }

    #[inline]
    pub(super) fn slot(self, i: usize) -> Result<Slot, Garbled> {
        let slot = self.slots()?.get(i).ok_or(Garbled)?;
        Ok(Slot::read(slot))
    }

    #[inline]
    fn key_of(self, slot: Slot) -> Result<&'a [u8], Garbled> {
        let at = slot.offset();
        self.0.get(at..at + slot.key_len()).ok_or(Garbled)
    }

    #[inline]
    pub(crate) fn key(self, i: usize) -> Result<&'a [u8], Garbled> {
        self.key_of(self.slot(i)?)
    }

    #[inline]
    pub(crate) fn entry(self, i: usize) -> Result<(&'a [u8], &'a [u8]), Garbled> {
        let slot = self.slot(i)?;
        let at = slot.offset();
        let both = self.0.get(at..at + slot.content()).ok_or(Garbled)?;
        Ok(both.split_at(slot.key_len()))
    }

    #[inline]
    pub(crate) fn value(self, i: usize) -> Result<&'a [u8], Garbled> {
        self.entry(i).map(|(_, value)| value)
    }

    fn fence(self, field: usize) -> Result<Option<&'a [u8]>, Garbled> {
        let (at, len) = (usize::from(u16_at(self.0, field)), u16_at(self.0, field + 2));
        match len {
            NO_FENCE => Ok(None),
            len => self.0.get(at..at + usize::from(len)).map(Some).ok_or(Garbled),
        }
    }

    /// Where the fences lie, as byte ranges.
    pub(super) fn fences(self) -> impl Iterator<Item = (usize, usize)> {
        [LOW, HIGH].into_iter().filter_map(move |field| {
            let (at, len) = (u16_at(self.0, field), u16_at(self.0, field + 2));
            (len != NO_FENCE).then_some((usize::from(at), usize::from(at) + usize::from(len)))
        })
    }

    /// Smallest key that may lie here.
    pub(crate) fn low(self) -> Result<&'a [u8], Garbled> {
        self.fence(LOW)?.ok_or(Garbled)
    }

    /// All keys here are less than this.
    pub(crate) fn high(self) -> Result<Option<&'a [u8]>, Garbled> {
        self.fence(HIGH)
    }

    pub(crate) fn covers(self, key: &[u8]) -> Result<bool, Garbled> {
        Ok(self.low()? <= key && self.high()?.is_none_or(|high| key < high))
    }

    /// How the first `skip` bytes of `probe` compare with what all keys here begin with.
    #[inline]
    fn against_prefix(self, probe: &[u8], skip: usize) -> Result<Ordering, Garbled> {
        if let Some(eight) = probe.first_chunk::<8>()
            && skip <= 8
        {
            let mask = u64::MAX.unbounded_shl(8 * (8 - skip as u32));
            return Ok((u64::from_be_bytes(*eight) & mask).cmp(&u64_at(self.0, PREFIX)));
        }
        let common = self.key(0)?.get(..skip).ok_or(Garbled)?;
        Ok(order(probe.get(..skip).unwrap_or(probe), common))
    }

    /// Whether the prefix in the header is that of `key`.
    pub(super) fn prefix_is(self, key: &[u8]) -> bool {
        let skip = self.skip().min(8);
        key.get(..skip).is_some_and(|common| word(common) == u64_at(self.0, PREFIX))
    }

    /// Where `probe` is (`Ok`) or would have to be inserted (`Err`), as in the standard library's binary search.
    #[inline]
    pub(crate) fn search(self, probe: &[u8]) -> Result<Result<usize, usize>, Garbled> {
        let slots = self.slots()?;
        if slots.is_empty() {
            return Ok(Err(0));
        }
        let skip = self.skip();
        match self.against_prefix(probe, skip)? {
            Ordering::Less => return Ok(Err(0)),
            Ordering::Greater => return Ok(Err(slots.len())),
            Ordering::Equal => {}
        }
        let head = head_of(probe, skip);
        let from = lower_bound(slots, u64::from(head) << 32);
        match slots.get(from) {
            Some(slot) if Slot::read(slot).head() == head => self.search_run(slots, probe, head, from),
            _ => Ok(Err(from)),
        }
    }

    /// Among the keys with this head, of which `from` is the first.
    #[inline]
    fn search_run(
        self,
        slots: &[[u8; SLOT]],
        probe: &[u8],
        head: u32,
        mut from: usize,
    ) -> Result<Result<usize, usize>, Garbled> {
        let mut to = from + 1;
        if slots.get(to).is_some_and(|s| Slot::read(s).head() == head) {
            to = head.checked_add(1).map_or(slots.len(), |h| lower_bound(slots, u64::from(h) << 32));
        }
        let within = self.skip() + 4;
        while from < to {
            let mid = from.midpoint(to);
            let slot = Slot::read(&slots[mid]);
            // Keys as long as each other that end within the head are told apart by it: no look at the key itself.
            if slot.key_len() == probe.len() && probe.len() <= within {
                return Ok(Ok(mid));
            }
            match order(self.key_of(slot)?, probe) {
                Ordering::Less => from = mid + 1,
                Ordering::Equal => return Ok(Ok(mid)),
                Ordering::Greater => to = mid,
            }
        }
        Ok(Err(from))
    }

    /// The position of the first key at or behind `probe`.
    pub(crate) fn at_or_behind(self, probe: &[u8]) -> Result<usize, Garbled> {
        self.search(probe).map(|found| found.unwrap_or_else(|at| at))
    }

    /// The position of the first key behind `probe`; in an inner node, also the ordinal of the child that covers it.
    #[inline]
    pub(crate) fn behind(self, probe: &[u8]) -> Result<usize, Garbled> {
        self.search(probe).map(|found| match found {
            Ok(at) => at + 1,
            Err(at) => at,
        })
    }

    /// Child number `i` of an inner node, from 0 to `count` inclusive.
    #[inline]
    pub(crate) fn child(self, i: usize) -> Result<PageId, Garbled> {
        match i.checked_sub(1) {
            None => Ok(PageId(u32_at(self.0, FIRST))),
            Some(i) => child_id(self.value(i)?),
        }
    }
}

/// The child in an inner entry's value.
#[inline]
pub(crate) fn child_id(value: &[u8]) -> Result<PageId, Garbled> {
    value.try_into().map(|four| PageId(u32::from_le_bytes(four))).map_err(|_| Garbled)
}

/// Nodes with fewer slots are searched without a guess.
const GUESS_FROM: usize = 32;
/// How far a guess may be off, in slots: on either side one cache line.
const GUESS_REACH: usize = 8;

/// The first slot at or above `bound`.
///
/// Where the keys are spread evenly, as counters are, their place can be calculated. So a guess is tried first: a wrong
/// one still narrows the search, a right one saves most of its cache misses.
#[inline]
fn lower_bound(slots: &[[u8; SLOT]], bound: u64) -> usize {
    let at = |i: usize| Slot::read(&slots[i]).0;
    let count = slots.len();
    if count < GUESS_FROM {
        return bisect(slots, bound);
    }
    let (first, last) = (at(0), at(count - 1));
    if bound <= first {
        return 0;
    }
    if bound > last {
        return count;
    }
    // Heads are 32 bits and a page has fewer than 2^13 slots. A malformed page may have its last below its first.
    let (offset, span) = ((bound - first) >> 32, (last.saturating_sub(first) >> 32).max(1));
    let guess = (offset * (count as u64 - 1) / span).min(count as u64 - 1) as usize;
    let low = guess.saturating_sub(GUESS_REACH);
    let high = (guess + GUESS_REACH).min(count - 1);
    match (at(low) < bound, at(high) < bound) {
        (true, false) => low + count_below(&slots[low..high], bound),
        (true, true) => high + bisect(&slots[high..], bound),
        (false, _) => bisect(&slots[..low], bound),
    }
}

/// How many of a few slots are below `bound`: all looked at, because none of the looks waits for another.
#[inline]
fn count_below(slots: &[[u8; SLOT]], bound: u64) -> usize {
    slots.iter().map(|s| usize::from(Slot::read(s).0 < bound)).sum()
}

/// The first slot at or above `bound`, by halving, without a branch that depends on the data.
#[inline]
fn bisect(slots: &[[u8; SLOT]], bound: u64) -> usize {
    let mut base = 0;
    let mut len = slots.len();
    while len > 1 {
        let half = len / 2;
        let below = Slot::read(&slots[base + half - 1]).0 < bound;
        base = select_unpredictable(below, base + half, base);
        len -= half;
    }
    base + usize::from(slots.get(base).is_some_and(|s| Slot::read(s).0 < bound))
}
