//! A table of the places where rows were found recently, by the hash of table and key. A look-up
//! that finds its row here needs no descent of the index.
//!
//! ```text
//!   bucket   one cache line
//!   narrow   words 0..3: 10 tags of 16 bits from the hash, 0 for none
//!            words 3..8: 10 rows of 32 bits, in units of 16 bytes
//!   wide     8 slots of one word: tag 20 | row 44, or 0    for rows more than 64 GiB apart
//! ```
//! An entry is only a hint: it names a block that once held the row of some key with this hash. So
//! the reader asks the block itself ([`row::is_of`]):
//!
//! - Rows lie in blocks of their own (`arena`). A block that has held a row always holds a row: a
//!   dead one, or one with its table and key.
//! - A row that has not entered the index yet, or has left it, is marked dead. A row that is not
//!   dead is in its index under its key.
//! - A reader that began after the block was given up sees that it is dead, by the fences of
//!   `epoch`. A reader that began earlier finds the block as it was.
//!
//! Access rules: any thread reads and overwrites words of slots at any time. Two errors are
//! possible, and both leave a slot that names some row, only not the one that is sought. A tag in a
//! narrow bucket may stand beside the row of another key. Of two threads that write a word at the
//! same time, one may undo the other's change.
//!
//! The number of buckets in use grows with the rows found. Then some entries lie in another bucket
//! than the one where they are sought. A look-up misses them, the index finds the row, and it is
//! entered again.

use crate::arena::Ref;
use crate::head::padded;
use base::TableId;
use latch::{CachePadded, prefetch};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use world::Span;

/// Words of a bucket, a cache line.
const WORDS: usize = 8;
const REF_BITS: u32 = 44;
/// Words of tags in a narrow bucket, and its slots.
const TAG_WORDS: usize = 3;
const NARROW_SLOTS: usize = 2 * (WORDS - TAG_WORDS);
/// The largest budget for which buckets are narrow.
const NARROW: u64 = 1 << (32 + 4);
/// Buckets to begin with. Few in tests, so that rows displace each other.
const FIRST: u64 = if cfg!(test) { 2 } else { 1 << 10 };
/// One entry in this many is counted, and counts for all of them.
const SAMPLE: u64 = if cfg!(test) { 1 } else { 16 };
/// Slots take at most this fraction of the memory of rows (one thirty-second).
const SHARE: u64 = 32;

pub(crate) struct Hints {
    span: Span,
    shape: Shape,
    /// Buckets in use, less one.
    mask: AtomicU64,
    most: u64,
    /// Slots taken, about.
    filled: CachePadded<AtomicU64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    Narrow,
    Wide,
}

type Bucket = [AtomicU64; WORDS];

/// Hash of a table and a key.
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
        // Once more, so that the upper bits, which are the tag, are well mixed.
        Hash(mix(hash, if rest.is_empty() { 0 } else { padded(rest) }))
    }

    /// The part that this key belongs to, if all keys are divided into `of` equal parts. Uses other
    /// bits than the buckets do.
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
        Hints::shaped(if budget <= NARROW { Shape::Narrow } else { Shape::Wide }, budget, pages)
    }

    fn shaped(shape: Shape, budget: u64, pages: world::PageSize) -> std::io::Result<Hints> {
        let most = prev_power_of_two(budget / SHARE / (8 * WORDS as u64));
        let span = Span::reserve(most as usize * 8 * WORDS, pages)?;
        let filled = CachePadded::new(AtomicU64::new(0));
        Ok(Hints { span, shape, mask: AtomicU64::new(FIRST.min(most) - 1), most, filled })
    }

    /// Bytes in use.
    pub(crate) fn used_bytes(&self) -> u64 {
        (self.mask.load(Relaxed) + 1) * 8 * WORDS as u64
    }

    #[inline]
    fn bucket(&self, hash: Hash) -> &Bucket {
        let at = (hash.0 & self.mask.load(Relaxed)) as usize * WORDS;
        self.span.words()[at..].first_chunk().expect("a bucket ends within the span")
    }

    /// Prefetches the bucket that [`Hints::candidate`] will read.
    #[inline]
    pub(crate) fn prefetch(&self, hash: Hash) {
        prefetch(self.bucket(hash).as_ptr());
    }

    /// The row that may be the one sought.
    #[inline]
    pub(crate) fn candidate(&self, hash: Hash) -> Option<Ref> {
        let bucket = self.bucket(hash);
        let row = match self.shape {
            Shape::Narrow => narrow_row(bucket, narrow_slot(bucket, narrow_tag(hash))?),
            Shape::Wide => {
                let tag = hash.tag();
                let slot =
                    bucket.iter().map(|slot| slot.load(Relaxed)).find(|slot| slot >> REF_BITS == tag)?;
                Ref(slot & ((1 << REF_BITS) - 1))
            }
        };
        (row != Ref::NONE).then_some(row)
    }

    /// Notes the place of a row. `rows` is the memory that rows take, in bytes.
    #[cold]
    pub(crate) fn enter(&self, hash: Hash, row: Ref, rows: u64) {
        let bucket = self.bucket(hash);
        let any = |slots: usize| (hash.0 >> 33) as usize % slots;
        let was_free = match self.shape {
            Shape::Narrow => {
                debug_assert!(row.0.is_multiple_of(2) && row.0 >> 33 == 0, "blocks are of 16 bytes each");
                let tag = narrow_tag(hash);
                let at = narrow_slot(bucket, tag).or_else(|| narrow_slot(bucket, 0));
                let at = at.unwrap_or_else(|| any(NARROW_SLOTS));
                let was = narrow_row(bucket, at);
                set_part(&bucket[TAG_WORDS + at / 2], 32, at % 2, row.0 / 2);
                set_part(&bucket[at / 4], 16, at % 4, tag);
                was
            }
            Shape::Wide => {
                let of = |tag: u64| bucket.iter().position(|slot| slot.load(Relaxed) >> REF_BITS == tag);
                let free = || bucket.iter().position(|slot| slot.load(Relaxed) == 0);
                let at = of(hash.tag()).or_else(free).unwrap_or_else(|| any(WORDS));
                Ref(bucket[at].swap(hash.tag() << REF_BITS | row.0, Relaxed))
            }
        } == Ref::NONE;
        if was_free && (hash.0 >> 36).is_multiple_of(SAMPLE) {
            self.count(rows);
        }
    }

    /// Doubles the buckets when half of their slots are taken, as long as the memory of rows allows
    /// it.
    fn count(&self, rows: u64) {
        let filled = self.filled.fetch_add(SAMPLE, Relaxed) + SAMPLE;
        let mask = self.mask.load(Relaxed);
        let buckets = mask + 1;
        let is_worth_it = buckets * 2 * WORDS as u64 * 8 * SHARE <= rows;
        let slots = if self.shape == Shape::Narrow { NARROW_SLOTS } else { WORDS };
        if filled * 2 > buckets * slots as u64 && buckets < self.most && is_worth_it {
            // A thread that loses this race finds that another one has doubled them.
            let _ = self.mask.compare_exchange(mask, 2 * buckets - 1, Relaxed, Relaxed);
        }
    }
}

/// The tag of a hash. Never 0, which stands for none.
#[inline]
fn narrow_tag(hash: Hash) -> u64 {
    (hash.0 >> 48).max(1)
}

/// The first slot with this tag. Four tags are compared at a time. The lowest part of a word that
/// is found equal is really equal; a higher one may be a false match.
#[inline]
fn narrow_slot(bucket: &Bucket, tag: u64) -> Option<usize> {
    const ONES: u64 = 0x0001_0001_0001_0001;
    (0..TAG_WORDS)
        .find_map(|word| {
            let other = bucket[word].load(Relaxed) ^ (tag * ONES);
            let equal = other.wrapping_sub(ONES) & !other & ONES << 15;
            (equal != 0).then(|| 4 * word + equal.trailing_zeros() as usize / 16)
        })
        .filter(|slot| *slot < NARROW_SLOTS)
}

#[inline]
fn narrow_row(bucket: &Bucket, slot: usize) -> Ref {
    let pair = bucket[TAG_WORDS + slot / 2].load(Relaxed);
    Ref((pair >> (32 * (slot % 2)) & u64::from(u32::MAX)) * 2)
}

/// Overwrites part `n` of a word with parts of `bits` bits.
fn set_part(word: &AtomicU64, bits: usize, n: usize, to: u64) {
    let mask = ((1 << bits) - 1) << (bits * n);
    word.store(word.load(Relaxed) & !mask | to << (bits * n), Relaxed);
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

    const SHAPES: [Shape; 2] = [Shape::Narrow, Shape::Wide];

    #[test]
    fn what_was_entered_is_found_until_something_takes_its_place() {
        for shape in SHAPES {
            let hints = Hints::shaped(shape, 1 << 20, world::PageSize::Normal).unwrap();
            assert_eq!(hints.candidate(hash(1)), None);
            for n in 1..=6 {
                hints.enter(hash(n), Ref(8 * n), 0);
            }
            assert!((1..=6).all(|n| hints.candidate(hash(n)) == Some(Ref(8 * n))), "{shape:?}");
            hints.enter(hash(3), Ref(800), 0);
            assert_eq!(hints.candidate(hash(3)), Some(Ref(800)));
        }
    }

    #[test]
    fn every_slot_of_a_bucket_is_used() {
        for (shape, slots) in [(Shape::Narrow, NARROW_SLOTS), (Shape::Wide, WORDS)] {
            let hints = Hints::shaped(shape, 1 << 20, world::PageSize::Normal).unwrap();
            let of_one: Vec<u64> =
                (0..).filter(|n| hash(*n).0.is_multiple_of(1 << 20)).take(slots + 1).collect();
            let place = |n: u64| Ref((1 << 32) + 2 * n);
            of_one[..slots].iter().for_each(|n| hints.enter(hash(*n), place(*n), 0));
            assert!(
                of_one[..slots].iter().all(|n| hints.candidate(hash(*n)) == Some(place(*n))),
                "{shape:?}"
            );
            hints.enter(hash(of_one[slots]), place(of_one[slots]), 0);
            let found = of_one.iter().filter(|n| hints.candidate(hash(**n)) == Some(place(**n))).count();
            assert_eq!(found, slots, "{shape:?}");
        }
    }

    #[test]
    fn it_grows_with_what_is_in_it_up_to_its_share() {
        for shape in SHAPES {
            let hints = Hints::shaped(shape, 1 << 20, world::PageSize::Normal).unwrap();
            for n in 0..100_000 {
                hints.enter(hash(n), Ref(2 * n + 2), 1 << 20);
            }
            assert_eq!(hints.used_bytes(), prev_power_of_two((1 << 20) / SHARE / 64) * 64);
            // The latest entries are mostly there, each in the bucket where it is sought.
            let found =
                (99_000..100_000).filter(|n| hints.candidate(hash(*n)) == Some(Ref(2 * n + 2))).count();
            assert!(found > 800, "{found}");
        }
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
