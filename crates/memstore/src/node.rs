//! Nodes of the index: 1 KiB of words, for leaves and inner nodes alike.
//!
//! ```text
//!   word   0        1              2..5          5              6..     ..      ..
//!          version  next, level,   prefix bytes  leftmost       heads   values  separators
//!                   prefix length,               child, or      CAP     CAP     CAP (inner
//!                   count                        readers                        nodes only)
//! ```
//! A value is the mark of the key (20 bits, see `head`) and the [`Ref`] (44 bits) of a row or
//! child. Full keys are in the rows and, for inner nodes, in separators: immutable blocks of a
//! length and bytes.
//!
//! The prefix is the common beginning of all keys *in the node*, at most 24 bytes, and is left out
//! of the heads. It depends on the keys that are present, not on those that may come: a search
//! compares it, and an insert may shorten it. So a node can take over its neighbour's range without
//! being touched.

use crate::arena::{Arena, Ref};
use crate::head::{
    Beginning, MARK_BITS, MAX_PREFIX, common_prefix, compare_key, head, is_open, load_key, padded,
};
use crate::version;
use latch::prefetch;
use std::cmp::Ordering as Order;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) const NODE_WORDS: usize = 128;
const HEADS: usize = 6;
/// Small in tests, so that nodes split and vanish all the time.
pub(crate) const LEAF_CAP: usize = if cfg!(test) { 5 } else { 61 };
pub(crate) const INNER_CAP: usize = if cfg!(test) { 4 } else { 40 };
const _: () = assert!(HEADS + 2 * LEAF_CAP <= NODE_WORDS && HEADS + 3 * INNER_CAP <= NODE_WORDS);
const REF_BITS: u32 = 64 - MARK_BITS;

/// Position, in the word of counts, of a hint for splits: the entry position behind the entry that
/// was inserted last, as long as it is known.
const NEXT_SHIFT: u32 = 40;

/// Fills the place of a head that has no entry. It is the largest head, so a search never passes
/// it.
const NO_HEAD: u64 = u64::MAX;

/// A key that is searched for.
#[derive(Clone, Copy)]
pub(crate) struct Sought<'k> {
    key: &'k [u8],
    beginning: Beginning,
}

impl<'k> Sought<'k> {
    #[inline]
    pub(crate) fn new(key: &'k [u8]) -> Sought<'k> {
        Sought { key, beginning: Beginning::new(key) }
    }

    #[inline]
    pub(crate) fn key(&self) -> &'k [u8] {
        self.key
    }
}

/// The words that were read do not fit together: start over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Torn;

/// Positions, within a row, of the length of its key and of the key.
pub(crate) const ROW_LENGTHS: usize = 2;
pub(crate) const ROW_KEY: usize = 3;

#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    pub(crate) at: Ref,
    words: &'a [AtomicU64; NODE_WORDS],
}

/// The shape of a node as one reader or writer found it. `version` is the version it was read
/// under, or the locked word.
#[derive(Clone, Copy)]
pub(crate) struct Sight {
    pub(crate) level: usize,
    pub(crate) count: usize,
    prefix: usize,
    pub(crate) version: u64,
}

/// A key, and the row or child that goes with it; in an inner node also the separator's block.
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) target: Ref,
    pub(crate) separator: Ref,
}

#[inline]
fn word_of(mark: u64, target: Ref) -> u64 {
    mark << REF_BITS | target.0
}

#[inline]
fn target_of(word: u64) -> Ref {
    Ref(word & ((1 << REF_BITS) - 1))
}

impl<'a> Node<'a> {
    #[inline]
    pub(crate) fn at(arena: &'a Arena, at: Ref) -> Node<'a> {
        Node { at, words: arena.array(at) }
    }

    /// Prefetches all lines that a search of a node of this level may read, values included, so
    /// that the search waits for memory once. At 3 million rows this is a tenth to a fifth faster
    /// than prefetching only the heads, and than nodes of half the size.
    #[inline]
    pub(crate) fn prefetch(self, level: usize) {
        match level {
            0 => self.prefetch_words::<{ HEADS + 2 * LEAF_CAP }>(),
            _ => self.prefetch_words::<{ HEADS + 2 * INNER_CAP }>(),
        }
    }

    /// With the number known to the compiler: the search of a node has not many more instructions
    /// than this.
    #[inline]
    fn prefetch_words<const N: usize>(self) {
        (0..N.div_ceil(8)).for_each(|line| prefetch(&raw const self.words[8 * line]));
    }

    #[inline]
    pub(crate) fn version(self) -> &'a AtomicU64 {
        &self.words[0]
    }

    #[inline]
    fn get(self, i: usize) -> u64 {
        self.words[i].load(Relaxed)
    }

    #[inline]
    fn set(self, i: usize, to: u64) {
        self.words[i].store(to, Relaxed);
    }

    #[inline]
    fn check(self, version: u64) -> Result<(), Torn> {
        if version::check(self.version(), version) { Ok(()) } else { Err(Torn) }
    }

    /// The node's shape, to be read under its version.
    #[inline]
    pub(crate) fn sight(self) -> Result<Sight, Torn> {
        let version = version::begin(self.version()).ok_or(Torn)?;
        Ok(self.sight_under(version))
    }

    #[inline]
    fn sight_under(self, version: u64) -> Sight {
        let shape = self.get(1);
        let (level, count) = ((shape >> 32 & 0xff) as usize, (shape & 0xffff) as usize);
        let cap = if level == 0 { LEAF_CAP } else { INNER_CAP };
        Sight { level, count: count.min(cap), prefix: (shape >> 16 & 0xffff) as usize, version }
    }

    /// The node's shape as the holder of its lock sees it.
    pub(crate) fn held(self) -> Sight {
        self.sight_under(self.get(0))
    }

    fn set_shape(self, level: usize, prefix: usize, count: usize) {
        self.set(1, (level as u64) << 32 | (prefix as u64) << 16 | count as u64);
    }

    #[inline]
    fn value(self, s: &Sight, i: usize) -> usize {
        HEADS + if s.level == 0 { LEAF_CAP } else { INNER_CAP } + i
    }

    /// The row of entry `i`.
    #[inline]
    pub(crate) fn target(self, s: &Sight, i: usize) -> Ref {
        target_of(self.get(self.value(s, i)))
    }

    /// Child `i`: its keys are not below separator `i - 1`.
    #[inline]
    pub(crate) fn child(self, s: &Sight, i: usize) -> Ref {
        if i == 0 { target_of(self.get(5)) } else { self.target(s, i - 1) }
    }

    #[inline]
    pub(crate) fn separator(self, i: usize) -> Ref {
        Ref(self.get(HEADS + 2 * INNER_CAP + i))
    }

    /// Length and words of the full key of entry `i`.
    #[inline]
    fn full_key(self, arena: &'a Arena, s: &Sight, i: usize) -> Result<(usize, &'a [AtomicU64]), Torn> {
        let (block, lengths, key) = match s.level {
            0 => (self.target(s, i), ROW_LENGTHS, ROW_KEY),
            _ => (self.separator(i), 0, 1),
        };
        // The version check says that the block was linked when it was read. It stays unchanged
        // while the caller is pinned.
        self.check(s.version)?;
        let len = (arena.block(block, key)[lengths].load(Relaxed) & 0xffff) as usize;
        Ok((len, &arena.block(block, key + len.div_ceil(8))[key..]))
    }

    /// Appends the full key of entry `i` to `out`.
    pub(crate) fn copy_key(self, arena: &Arena, s: &Sight, i: usize, out: &mut Vec<u8>) -> Result<(), Torn> {
        let (len, words) = self.full_key(arena, s, i)?;
        load_key(words, len, out);
        Ok(())
    }

    /// Whether a key begins with the node's prefix.
    #[inline]
    fn has_prefix_of(self, s: &Sight, key: &Beginning) -> bool {
        key.begins_with([self.get(2), self.get(3), self.get(4)], s.prefix.min(MAX_PREFIX))
    }

    /// Compares a key with the prefix: equal if it begins with the prefix.
    #[cold]
    fn compare_prefix(self, s: &Sight, key: &Beginning) -> Order {
        let len = s.prefix.min(MAX_PREFIX);
        key.compare((0..len.div_ceil(8)).map(|i| self.get(2 + i)), len)
    }

    /// The position of `key`: the number of smaller keys, and whether the entry at this position
    /// has exactly this key.
    #[inline]
    pub(crate) fn search(self, arena: &Arena, s: &Sight, sought: &Sought<'_>) -> Result<(usize, bool), Torn> {
        let Sought { key, beginning } = sought;
        if s.prefix > 0 && !self.has_prefix_of(s, beginning) {
            // All keys of the node lie on one side of the key.
            let is_below = self.compare_prefix(s, beginning).is_lt();
            return Ok((if is_below { 0 } else { s.count }, false));
        }
        let (wanted, mark) = beginning.head(s.prefix.min(MAX_PREFIX));
        let mut at = self.heads_below(s.level, wanted);
        let mut end = at;
        while end < s.count && self.get(HEADS + end) == wanted {
            end += 1;
        }
        // A binary search, since each comparison of a full key costs a cache line: many entries of
        // a secondary index may begin alike.
        while at < end {
            let middle = at.midpoint(end);
            let found = self.get(self.value(s, middle)) >> REF_BITS;
            let mut order = found.cmp(&mark);
            if order.is_eq() && is_open(mark) {
                let (len, words) = self.full_key(arena, s, middle)?;
                order = compare_key(words, len, key);
            }
            match order {
                Order::Less => at = middle + 1,
                Order::Equal => return Ok((middle, true)),
                Order::Greater => end = middle,
            }
        }
        Ok((at, false))
    }

    /// Whether `key` comes between entry `i` and the next one, if there is a next one. `false` if
    /// the key does not begin with the prefix.
    #[inline]
    pub(crate) fn lies_behind(
        self,
        arena: &Arena,
        s: &Sight,
        i: usize,
        sought: &Sought<'_>,
    ) -> Result<bool, Torn> {
        let Sought { key, beginning } = sought;
        if i >= s.count || s.prefix > 0 && !self.has_prefix_of(s, beginning) {
            return Ok(false);
        }
        let (wanted, mark) = beginning.head(s.prefix.min(MAX_PREFIX));
        let compare = |i: usize| {
            let found = self.get(self.value(s, i)) >> REF_BITS;
            let order = self.get(HEADS + i).cmp(&wanted).then(found.cmp(&mark));
            if order.is_ne() || !is_open(mark) {
                return Ok(order);
            }
            let (len, words) = self.full_key(arena, s, i)?;
            Ok(compare_key(words, len, key))
        };
        Ok(compare(i)?.is_lt() && (i + 1 == s.count || compare(i + 1)?.is_gt()))
    }

    /// The number of heads that are smaller than `wanted`.
    #[inline]
    fn heads_below(self, level: usize, wanted: u64) -> usize {
        let heads = &self.words[HEADS..];
        match level {
            0 => below::<LEAF_CAP>(heads.first_chunk().expect("a node has its heads"), wanted),
            _ => below::<INNER_CAP>(heads.first_chunk().expect("a node has its heads"), wanted),
        }
    }

    /// Makes this a node without entries.
    pub(crate) fn init(self, level: usize, leftmost: Ref) {
        self.set(0, version::FRESH);
        self.set_shape(level, 0, 0);
        self.set(5, leftmost.0);
        self.no_heads(level, 0);
    }

    /// Clears the heads from entry `first` on.
    fn no_heads(self, level: usize, first: usize) {
        let cap = if level == 0 { LEAF_CAP } else { INNER_CAP };
        (first..cap).for_each(|i| self.set(HEADS + i, NO_HEAD));
    }

    /// The word in which a leaf counts its read reservations (`read_reservation`).
    #[inline]
    pub(crate) fn readers(self) -> &'a AtomicU64 {
        &self.words[5]
    }

    pub(crate) fn set_leftmost(self, child: Ref) {
        self.set(5, child.0);
    }

    fn put(self, s: &Sight, i: usize, prefix: usize, key: &[u8], target: Ref, separator: Ref) {
        let (first, mark) = head(key, prefix);
        self.set(HEADS + i, first);
        self.set(self.value(s, i), word_of(mark, target));
        if s.level > 0 {
            self.set(HEADS + 2 * INNER_CAP + i, separator.0);
        }
    }

    /// Heads, values and (in inner nodes) separators, for all entries that have room.
    fn columns(self, level: usize) -> impl Iterator<Item = &'a [AtomicU64]> {
        let (columns, cap) = if level == 0 { (2, LEAF_CAP) } else { (3, INNER_CAP) };
        (0..columns).map(move |column| &self.words[HEADS + column * cap..][..cap])
    }

    /// Puts a row at `i` into a locked leaf that has room.
    pub(crate) fn insert(self, arena: &Arena, i: usize, sought: &Sought<'_>, row: Ref) {
        self.insert_entry(arena, i, sought, row, Ref::NONE);
    }

    /// Puts an entry at `i` into a locked node that has room. A leaf's entry has no separator.
    pub(crate) fn insert_entry(
        self,
        arena: &Arena,
        i: usize,
        sought: &Sought<'_>,
        target: Ref,
        separator: Ref,
    ) {
        let s = self.held();
        let key = sought.key;
        if s.count == 0 || !self.has_prefix_of(&s, &sought.beginning) {
            let mut entries = self.entries(arena);
            entries.insert(i, Entry { key: key.to_vec(), target, separator });
            return self.fill(s.level, &entries);
        }
        for column in self.columns(s.level) {
            column[i..=s.count]
                .windows(2)
                .rev()
                .for_each(|pair| pair[1].store(pair[0].load(Relaxed), Relaxed));
        }
        self.put(&s, i, s.prefix, key, target, separator);
        self.set_shape(s.level, s.prefix, s.count + 1);
        self.set(1, self.get(1) | (i as u64 + 1) << NEXT_SHIFT);
    }

    /// Whether an entry at `i` would come directly behind the entry that was inserted last, with
    /// none removed or split off since. Then more entries are likely to come there.
    pub(crate) fn goes_on_at(self, i: usize) -> bool {
        i > 0 && self.get(1) >> NEXT_SHIFT == i as u64
    }

    /// Takes entry `i` out of a locked node.
    pub(crate) fn remove(self, i: usize) {
        let s = self.held();
        for column in self.columns(s.level) {
            column[i..s.count].windows(2).for_each(|pair| pair[0].store(pair[1].load(Relaxed), Relaxed));
        }
        self.set(HEADS + s.count - 1, NO_HEAD);
        self.set_shape(s.level, s.prefix, s.count - 1);
    }

    /// Whether heads and marks hold the whole keys of a locked node. Then entries can be moved word
    /// by word, and a longer prefix would say no more.
    pub(crate) fn is_whole(self) -> bool {
        let s = self.held();
        (0..s.count).all(|i| !is_open(self.get(self.value(&s, i)) >> REF_BITS))
    }

    /// Moves entries between a locked leaf and the next one above it, locked or new, until this one
    /// has `count`.
    pub(crate) fn share_with(self, upper: Node<'_>, arena: &Arena, count: usize) {
        let (s, other) = (self.held(), upper.held());
        // The prefix of a leaf without entries has no meaning.
        let (from, to) = if s.count > 0 { (self, upper) } else { (upper, self) };
        let prefix = from.held().prefix;
        let words = 2..2 + prefix.div_ceil(8);
        let is_alike = to.held().count == 0
            || to.held().prefix == prefix && words.clone().all(|i| to.get(i) == from.get(i));
        if !(is_alike && self.is_whole() && upper.is_whole()) {
            let mut entries = self.entries(arena);
            entries.append(&mut upper.entries(arena));
            upper.fill(0, &entries[count..]);
            return self.fill(0, &entries[..count]);
        }
        words.for_each(|i| to.set(i, from.get(i)));
        let copy = |from: &AtomicU64, to: &AtomicU64| to.store(from.load(Relaxed), Relaxed);
        let total = s.count + other.count;
        for (low, high) in self.columns(0).zip(upper.columns(0)) {
            match s.count.checked_sub(count) {
                Some(moved) => {
                    (0..other.count).rev().for_each(|i| copy(&high[i], &high[i + moved]));
                    (0..moved).for_each(|i| copy(&low[count + i], &high[i]));
                }
                None => {
                    (s.count..count).for_each(|i| copy(&high[i - s.count], &low[i]));
                    (0..total - count).for_each(|i| copy(&high[i + count - s.count], &high[i]));
                }
            }
        }
        for (leaf, count) in [(self, count), (upper, total - count)] {
            leaf.set_shape(0, prefix, count);
            leaf.no_heads(0, count);
        }
    }

    /// The full key of entry `i` of a locked node.
    pub(crate) fn key(self, arena: &Arena, i: usize) -> Vec<u8> {
        let mut key = Vec::with_capacity(40);
        let copied = self.copy_key(arena, &self.held(), i, &mut key);
        copied.expect("only the thread that locked a node changes it");
        key
    }

    /// All entries of a locked node.
    pub(crate) fn entries(self, arena: &Arena) -> Vec<Entry> {
        let s = self.held();
        let entry = |i| {
            let key = self.key(arena, i);
            let separator = if s.level == 0 { Ref::NONE } else { self.separator(i) };
            Entry { key, target: self.target(&s, i), separator }
        };
        (0..s.count).map(entry).collect()
    }

    /// Replaces all entries of a locked or new node by these.
    pub(crate) fn fill(self, level: usize, entries: &[Entry]) {
        let prefix = prefix_for(entries);
        if let Some(first) = entries.first() {
            for (i, part) in first.key[..prefix].chunks(8).enumerate() {
                self.set(2 + i, padded(part));
            }
        }
        self.set_shape(level, prefix, entries.len());
        let s = self.held();
        for (i, Entry { key, target, separator }) in entries.iter().enumerate() {
            self.put(&s, i, prefix, key, *target, *separator);
        }
        self.no_heads(level, entries.len());
    }
}

/// The number of heads smaller than `wanted`, without a branch that depends on them. The number of
/// steps is always the same: the places behind the last head hold [`NO_HEAD`].
#[inline]
fn below<const N: usize>(heads: &[AtomicU64; N], wanted: u64) -> usize {
    let (mut base, mut len) = (0, N);
    while len > 1 {
        let half = len / 2;
        let skip = heads[base + half - 1].load(Relaxed) < wanted;
        base += if skip { half } else { 0 };
        len -= half;
    }
    base + usize::from(heads[base].load(Relaxed) < wanted)
}

/// The length of the prefix for these entries: 0 if ten bytes hold each key whole, otherwise the
/// length of their common beginning, up to the room for it.
fn prefix_for(entries: &[Entry]) -> usize {
    match entries {
        [first, .., last] if entries.iter().any(|e| e.key.len() > 10) => {
            common_prefix(&first.key, &last.key).min(MAX_PREFIX)
        }
        [only] if only.key.len() > 10 => (only.key.len() - 8).min(MAX_PREFIX),
        _ => 0,
    }
}
