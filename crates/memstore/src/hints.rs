//! Where rows were found lately, by the hash of table and key: a look-up that finds its row here is spared the way down the index.
//!
//! ```text
//!   bucket   one cache line: 8 slots          slot   tag 20, of the hash | row 44, or 0
//! ```
//! Nothing here is true, it is only likely: a slot names a place that was once the row of some key with this hash. So whoever follows
//! it asks the place itself ([`row::is_of`]): rows lie in blocks of their own (`arena`), which are always a row that is dead, or
//! one whose table and key stand in it; and who is not dead is in its index under that key. Rows that are not in the index any
//! more, or not yet, are marked dead. That a place is dead is seen by whoever began after it was given up, by the fences that
//! `epoch` argues with; whoever began before has it as it was.
//!
//! Who may do what: anybody reads and overwrites slots, one word each, at any time. The number of buckets in use grows with the rows
//! found; what then stands in another bucket than where it is looked for is found by the index, and entered again.

use crate::arena::Ref;
use crate::head::padded;
use base::TableId;
use latch::{CachePadded, prefetch};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use world::Span;

/// Slots of a bucket, a cache line.
const SLOTS: usize = 8;
const REF_BITS: u32 = 44;
/// Buckets to begin with. Few in tests, so that rows get into each other's way.
const FIRST: u64 = if cfg!(test) { 2 } else { 1 << 10 };
/// One in so many entries is counted, as so many.
const SAMPLE: u64 = if cfg!(test) { 1 } else { 16 };
/// Slots take no more than this part of the memory of rows.
const SHARE: u64 = 32;

pub(crate) struct Hints {
    span: Span,
    /// Buckets in use, less one.
    mask: AtomicU64,
    most: u64,
    /// Slots taken, about.
    filled: CachePadded<AtomicU64>,
}

/// Of a table and a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Hash(u64);

impl Hash {
    #[inline]
    pub(crate) fn of(table: TableId, key: &[u8]) -> Hash {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mix = |hash: u64, word: u64| {
            let mixed = (hash ^ word).wrapping_mul(ODD);
            mixed ^ mixed >> 32
        };
        let (whole, rest) = key.as_chunks::<8>();
        let begun = (u64::from(table.0) + 1).wrapping_mul(ODD) ^ key.len() as u64;
        let hash = whole.iter().fold(begun, |hash, bytes| mix(hash, u64::from_be_bytes(*bytes)));
        // Once more, for the sake of the upper bits, which are the tag.
        Hash(mix(hash, if rest.is_empty() { 0 } else { padded(rest) }))
    }

    /// Which of `of` equal parts of all keys this one belongs to: told by other bits than the buckets are.
    #[inline]
    pub(crate) fn part(self, of: usize) -> usize {
        (self.0 >> 32) as usize % of
    }

    #[inline]
    fn tag(self) -> u64 {
        self.0 >> REF_BITS
    }
}

impl Hints {
    /// For a store of `budget` bytes.
    pub(crate) fn new(budget: u64, pages: world::PageSize) -> std::io::Result<Hints> {
        let most = prev_power_of_two(budget / SHARE / (8 * SLOTS as u64));
        let span = Span::reserve(most as usize * 8 * SLOTS, pages)?;
        let filled = CachePadded::new(AtomicU64::new(0));
        Ok(Hints { span, mask: AtomicU64::new(FIRST.min(most) - 1), most, filled })
    }

    /// Bytes in use.
    pub(crate) fn used_bytes(&self) -> u64 {
        (self.mask.load(Relaxed) + 1) * 8 * SLOTS as u64
    }

    #[inline]
    fn bucket(&self, hash: Hash) -> &[AtomicU64; SLOTS] {
        let at = (hash.0 & self.mask.load(Relaxed)) as usize * SLOTS;
        self.span.words()[at..].first_chunk().expect("a bucket ends within the span")
    }

    /// Asks for what [`Hints::candidate`] will look at.
    #[inline]
    pub(crate) fn ask_for(&self, hash: Hash) {
        prefetch(self.bucket(hash).as_ptr());
    }

    /// What may be the row.
    #[inline]
    pub(crate) fn candidate(&self, hash: Hash) -> Option<Ref> {
        let tag = hash.tag();
        let slot =
            self.bucket(hash).iter().map(|slot| slot.load(Relaxed)).find(|slot| slot >> REF_BITS == tag)?;
        (slot != 0).then_some(Ref(slot & ((1 << REF_BITS) - 1)))
    }

    /// Notes where the row is. `rows` is the memory that rows take, in bytes.
    #[cold]
    pub(crate) fn enter(&self, hash: Hash, row: Ref, rows: u64) {
        let bucket = self.bucket(hash);
        let of = |tag: u64| bucket.iter().position(|slot| slot.load(Relaxed) >> REF_BITS == tag);
        let free = || bucket.iter().position(|slot| slot.load(Relaxed) == 0);
        let at = of(hash.tag()).or_else(free).unwrap_or((hash.0 >> 33) as usize % SLOTS);
        if bucket[at].swap(hash.tag() << REF_BITS | row.0, Relaxed) == 0
            && (hash.0 >> 36).is_multiple_of(SAMPLE)
        {
            self.count(rows);
        }
    }

    /// Doubles the buckets when half of their slots are taken, as far as that is worth the memory.
    fn count(&self, rows: u64) {
        let filled = self.filled.fetch_add(SAMPLE, Relaxed) + SAMPLE;
        let mask = self.mask.load(Relaxed);
        let buckets = mask + 1;
        let is_worth_it = buckets * 2 * SLOTS as u64 * 8 * SHARE <= rows;
        if filled * 2 > buckets * SLOTS as u64 && buckets < self.most && is_worth_it {
            // Whoever loses this has seen it done.
            let _ = self.mask.compare_exchange(mask, 2 * buckets - 1, Relaxed, Relaxed);
        }
    }
}

fn prev_power_of_two(n: u64) -> u64 {
    if n == 0 { 1 } else { 1 << n.ilog2() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> Hash {
        Hash::of(TableId(1), &n.to_be_bytes())
    }

    #[test]
    fn what_was_entered_is_found_until_something_takes_its_place() {
        let hints = Hints::new(1 << 20, world::PageSize::Normal).unwrap();
        assert_eq!(hints.candidate(hash(1)), None);
        for n in 1..=6 {
            hints.enter(hash(n), Ref(8 * n), 0);
        }
        assert!((1..=6).all(|n| hints.candidate(hash(n)) == Some(Ref(8 * n))));
        hints.enter(hash(3), Ref(800), 0);
        assert_eq!(hints.candidate(hash(3)), Some(Ref(800)));
    }

    #[test]
    fn it_grows_with_what_is_in_it_up_to_its_share() {
        let hints = Hints::new(1 << 20, world::PageSize::Normal).unwrap();
        for n in 0..100_000 {
            hints.enter(hash(n), Ref(n + 1), 1 << 20);
        }
        assert_eq!(hints.used_bytes(), prev_power_of_two((1 << 20) / SHARE / 64) * 64);
        // The latest ones are mostly there, and each where it is looked for.
        let found = (99_000..100_000).filter(|n| hints.candidate(hash(*n)) == Some(Ref(n + 1))).count();
        assert!(found > 800, "{found}");
    }

    #[test]
    fn keys_of_one_table_spread_over_buckets_and_tags() {
        let buckets: std::collections::HashSet<u64> = (0..4096).map(|n| hash(n).0 % 4096).collect();
        assert!(buckets.len() > 2_300, "{}", buckets.len());
        let tags: std::collections::HashSet<u64> = (0..4096).map(|n| hash(n).tag()).collect();
        assert!(tags.len() > 4_000, "{}", tags.len());
        assert_ne!(Hash::of(TableId(1), b"k"), Hash::of(TableId(2), b"k"));
        assert_ne!(Hash::of(TableId(1), b"k"), Hash::of(TableId(1), b"k\0"));
    }
}
