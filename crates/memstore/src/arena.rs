//! Memory of a store: one reserved range of addresses, handed out to workers in slabs, by workers in blocks.
//!
//! A block is named by its [`Ref`], the number of its first word within the range. All words are atomics and none is ever
//! unmapped before the store goes, so a reader that follows a stale name reads a wrong word, never foreign memory; what it
//! read it believes only after a version said so.
//!
//! Who may do what: anybody reads and writes words through [`Arena::block`]; slabs are taken by an addition; a [`Local`]
//! belongs to one worker and holds its free blocks, by size class, and what it has retired but others may still read. What a
//! worker has too many of it puts into a pool, a slab's worth at a time, from which others take before they take slabs: so
//! what one worker deletes another can use. A block stays in its class for ever, and rows have classes of their own: where a row was
//! there will be rows ([`hints`](crate::hints)).

use crate::epoch::Epochs;
use latch::{SpinMutex, prefetch};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use world::Span;

/// A block: the number of its first word. 0 names none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub(crate) struct Ref(pub u64);

impl Ref {
    pub(crate) const NONE: Ref = Ref(0);
}

/// The budget is used up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Full;

/// A slab is what a worker takes at a time for one size class: large enough that taking one is rare, small enough that
/// a class with one block in use costs little. 64 KiB.
const SLAB_WORDS: u64 = if cfg!(test) { 1 << 9 } else { 1 << 13 };
/// Blocks up to this size come from slabs, larger ones one by one.
const SLABBED_WORDS: usize = 512;
/// The largest block, 512 KiB.
pub(crate) const MAX_WORDS: usize = 1 << 16;
/// The least and the most that is backed ahead of its use: 8 and 64 MiB.
const AHEAD: (u64, u64) = (1 << 20, 8 << 20);
/// And in steps of 2 MiB, huge pages.
const BACKED_AT_ONCE: u64 = 1 << 18;
/// Of a row that is likely to be taken next, words that are asked for.
const FETCHED: usize = 64;
/// Classes of 16-byte steps up to 512 bytes; from there four per doubling.
const FINE: usize = 32;
const SIZES: usize = FINE + 4 * 10;
/// For rows, then for everything else.
const CLASSES: usize = 2 * SIZES;

/// The class whose blocks have room for `words` words, in a row.
#[inline]
fn class_of_row(words: usize) -> usize {
    if words <= 2 * FINE {
        return words.max(1).div_ceil(2) - 1;
    }
    let doubling = (words - 1).ilog2();
    let quarter = (words - 1) >> (doubling - 2) & 3;
    FINE + 4 * (doubling as usize - 6) + quarter
}

/// The same for anything but a row.
#[inline]
fn class_of(words: usize) -> usize {
    SIZES + class_of_row(words)
}

fn words_of(class: usize) -> usize {
    let class = class % SIZES;
    if class < FINE {
        return 2 * (class + 1);
    }
    let (doubling, quarter) = ((class - FINE) / 4 + 6, (class - FINE) % 4);
    (1 << doubling) + ((quarter + 1) << (doubling - 2))
}

/// How many words a block asked for with `words` really has.
#[inline]
pub(crate) fn rounded(words: usize) -> usize {
    words_of(class_of_row(words))
}

pub(crate) struct Arena {
    span: Span,
    words: u64,
    used: AtomicU64,
    /// Words that the system was asked to back ahead of their use.
    backed: AtomicU64,
    /// Free blocks that are no worker's, by class.
    pool: Box<[SpinMutex<Vec<Vec<Ref>>>]>,
}

impl Arena {
    /// Reserves `bytes`; memory is used as blocks are.
    pub(crate) fn new(bytes: u64, pages: world::PageSize) -> std::io::Result<Arena> {
        let span = Span::reserve(bytes.max(1 << 16) as usize, pages)?;
        let words = span.words().len() as u64;
        // The first line is nobody's, so that no block has the number 0.
        let pool = (0..CLASSES).map(|_| SpinMutex::default()).collect();
        Ok(Arena { span, words, used: AtomicU64::new(8), backed: AtomicU64::new(0), pool })
    }

    /// Bytes handed out to workers.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed).min(self.words) * 8
    }

    /// Has the system back what will be handed out next, a sixteenth of what is in use: the first touch of a huge page
    /// costs a worker up to milliseconds. Two threads at it do it twice, which is harmless.
    pub(crate) fn back_ahead(&self) {
        let used = self.used.load(Ordering::Relaxed);
        let until = (used + (used / 16).clamp(AHEAD.0, AHEAD.1)).min(self.words);
        let from = self.backed.load(Ordering::Relaxed).max(used);
        if until >= from + BACKED_AT_ONCE {
            self.span.back(from as usize, until as usize);
            self.backed.store(until, Ordering::Relaxed);
        }
    }

    /// Has the system back all there is.
    pub(crate) fn back_all(&self) {
        self.span.back(0, self.words as usize);
        self.backed.store(self.words, Ordering::Relaxed);
    }

    /// The first `words` words of a block.
    #[inline]
    pub(crate) fn block(&self, at: Ref, words: usize) -> &[AtomicU64] {
        &self.span.words()[at.0 as usize..][..words]
    }

    /// As [`Arena::block`], with the size known to the compiler.
    #[inline]
    pub(crate) fn array<const N: usize>(&self, at: Ref) -> &[AtomicU64; N] {
        self.span.words()[at.0 as usize..].first_chunk().expect("a block ends within the arena")
    }

    /// Takes `words` words, the first on a cache line.
    fn take(&self, words: u64) -> Result<u64, Full> {
        let words = words.next_multiple_of(8);
        let fits = |used: u64| (used + words <= self.words).then_some(used + words);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).map_err(|_| Full)
    }
}

/// One worker's blocks.
pub(crate) struct Local {
    free: [Vec<Ref>; CLASSES],
    /// Taken out of shared structures, oldest first: tag, block, class.
    retired: VecDeque<(u64, Ref, u8)>,
}

impl Local {
    pub(crate) fn new() -> Local {
        Local { free: std::array::from_fn(|_| Vec::new()), retired: VecDeque::new() }
    }

    /// A block of at least `words` words, whose contents are anything.
    ///
    /// # Errors
    /// [`Full`] when the budget does not allow it.
    #[inline]
    pub(crate) fn alloc(&mut self, arena: &Arena, words: usize) -> Result<Ref, Full> {
        self.alloc_of(arena, class_of(words))
    }

    /// As [`Local::alloc`], for a row.
    ///
    /// # Errors
    /// As [`Local::alloc`].
    #[inline]
    pub(crate) fn alloc_row(&mut self, arena: &Arena, words: usize) -> Result<Ref, Full> {
        let class = class_of_row(words);
        let row = self.alloc_of(arena, class)?;
        // The next one's memory, which nobody may have touched for long, comes while this one is filled.
        if let Some(next) = self.free[class].last() {
            let next = arena.block(*next, words);
            (0..words.min(FETCHED)).step_by(8).for_each(|line| prefetch(&raw const next[line]));
        }
        Ok(row)
    }

    #[inline]
    fn alloc_of(&mut self, arena: &Arena, class: usize) -> Result<Ref, Full> {
        match self.free[class].pop() {
            Some(block) => Ok(block),
            None => self.refill(arena, class),
        }
    }

    #[cold]
    fn refill(&mut self, arena: &Arena, class: usize) -> Result<Ref, Full> {
        if let Some(mut blocks) = arena.pool[class].lock().pop() {
            let block = blocks.pop().expect("a part of a slab's worth");
            self.free[class] = blocks;
            return Ok(block);
        }
        let size = words_of(class);
        if size > SLABBED_WORDS {
            return arena.take(size as u64).map(Ref);
        }
        let first = arena.take(SLAB_WORDS)?;
        let blocks = SLAB_WORDS / size as u64;
        // In the order of their addresses when popped: rows loaded one after the other lie side by side.
        self.free[class].extend((1..blocks).rev().map(|i| Ref(first + i * size as u64)));
        Ok(Ref(first))
    }

    /// Gives back a block that nobody else has ever seen.
    pub(crate) fn free(&mut self, block: Ref, words: usize) {
        self.free[class_of(words)].push(block);
    }

    pub(crate) fn free_row(&mut self, row: Ref, words: usize) {
        self.free[class_of_row(words)].push(row);
    }

    /// Gives back a block that has left the shared structures, once nobody reads it any more.
    pub(crate) fn retire(&mut self, epochs: &Epochs, block: Ref, words: usize) {
        self.retired.push_back((epochs.tag(), block, class_of(words) as u8));
    }

    pub(crate) fn retire_row(&mut self, epochs: &Epochs, row: Ref, words: usize) {
        self.retired.push_back((epochs.tag(), row, class_of_row(words) as u8));
    }

    /// Gives all free blocks to others: of one that takes none for long.
    pub(crate) fn give_away(&mut self, arena: &Arena) {
        for (class, free) in self.free.iter_mut().enumerate().filter(|(_, free)| !free.is_empty()) {
            arena.pool[class].lock().push(std::mem::take(free));
        }
    }

    /// How many blocks wait for readers.
    pub(crate) fn waiting(&self) -> usize {
        self.retired.len()
    }

    /// Makes blocks nobody reads any more available, to others too if they are many; not in the epoch in which they were given up
    /// ([`tid`](crate::tid)).
    pub(crate) fn reclaim(&mut self, arena: &Arena, epochs: &Epochs) {
        let horizon = epochs.horizon().min(epochs.now());
        while let Some(&(tag, block, class)) = self.retired.front()
            && tag < horizon
        {
            let class = usize::from(class);
            self.free[class].push(block);
            self.retired.pop_front();
            let part = (SLAB_WORDS as usize / words_of(class)).max(1);
            if self.free[class].len() >= 2 * part {
                let blocks = self.free[class].drain(..part).collect();
                arena.pool[class].lock().push(blocks);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch::{IDLE, What};

    #[test]
    fn a_class_has_room_and_little_waste() {
        for words in 1..=MAX_WORDS {
            let size = rounded(words);
            assert!(size >= words, "{words} in {size}");
            assert!(size <= words + 1 || size * 4 <= words * 5 + 4, "{words} in {size}");
            assert!(class_of_row(words) < SIZES && class_of(words) < CLASSES);
        }
    }

    #[test]
    fn blocks_do_not_overlap_and_the_budget_holds() {
        let arena = Arena::new(1 << 18, world::PageSize::Normal).unwrap();
        let mut local = Local::new();
        let mut taken = std::collections::BTreeMap::new();
        let mut random = fastrand::Rng::with_seed(1);
        while let Ok(block) = {
            let words = random.usize(1..700);
            local.alloc(&arena, words).inspect(|b| assert_eq!(taken.insert(b.0, words as u64), None))
        } {
            assert_ne!(block, Ref::NONE);
        }
        assert!(taken.len() > 50);
        let mut end = 0;
        for (at, words) in taken {
            assert!(at >= end);
            end = at + words;
        }
        assert!(end * 8 <= 1 << 18);
    }

    #[test]
    fn a_retired_block_waits_for_its_readers() {
        let arena = Arena::new(1 << 18, world::PageSize::Normal).unwrap();
        let epochs = Epochs::new(2, 1);
        let mut local = Local::new();
        let block = local.alloc(&arena, 128).unwrap();
        epochs.publish(1, What::Reading, epochs.now());
        local.retire(&epochs, block, 128);
        epochs.tick();
        local.reclaim(&arena, &epochs);
        assert_eq!(local.waiting(), 1);
        epochs.withdraw(1, What::Reading, IDLE);
        epochs.publish(1, What::Reading, epochs.now());
        local.reclaim(&arena, &epochs);
        assert_eq!(local.waiting(), 0);
        assert_eq!(local.alloc(&arena, 128), Ok(block));
    }
}
