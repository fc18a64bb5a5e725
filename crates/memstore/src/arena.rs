//! Memory of a store: one reserved range of addresses, given to workers in slabs, and by workers in
//! blocks.
//!
//! A block is named by its [`Ref`], the number of its first word in the range. All words are
//! atomics, and none is unmapped before the store is dropped. So a reader that follows a stale name
//! reads wrong words, never foreign memory, and it believes them only after a version has confirmed
//! them.
//!
//! Access rules:
//!
//! - Any thread reads and writes words through [`Arena::block`].
//! - A slab is taken by an atomic addition.
//! - A [`Local`] belongs to one worker. It holds the worker's free blocks by size class, and the
//!   blocks that it has retired while others may still read them.
//! - A worker with too many free blocks of a class moves a slab's worth of them to the pool.
//!   Workers take from the pool before they take a new slab, so one worker can reuse the memory
//!   that another has freed.
//!
//! A block stays in its class for ever, and rows have classes of their own: a block that has once
//! held a row never holds anything but rows ([`hints`](crate::hints)).

use crate::epoch::Epochs;
use latch::{Rank, SpinMutex, prefetch};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use world::Span;

/// A block, by the number of its first word. 0 names no block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub(crate) struct Ref(pub u64);

impl Ref {
    pub(crate) const NONE: Ref = Ref(0);
}

/// The budget is used up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Full;

/// The amount that a worker takes at a time for one size class: 64 KiB. Large enough that a worker
/// rarely takes one, small enough that a class with a single block in use costs little.
const SLAB_WORDS: u64 = if cfg!(test) { 1 << 9 } else { 1 << 13 };
/// Blocks up to this size come from slabs, larger ones are taken one by one.
const SLABBED_WORDS: usize = 512;
/// The largest block, 512 KiB.
pub(crate) const MAX_WORDS: usize = 1 << 16;
/// The least and the most memory that is backed ahead of its use: 8 and 64 MiB.
const AHEAD: (u64, u64) = (1 << 20, 8 << 20);
/// Backing proceeds in steps of 2 MiB, one huge page.
const BACKED_AT_ONCE: u64 = 1 << 18;
/// Words to prefetch of a row that is likely to be taken next.
const FETCHED: usize = 64;
/// Number of classes in steps of 16 bytes, up to 512 bytes. Above that, four classes per doubling.
const FINE: usize = 32;
const SIZES: usize = FINE + 4 * 10;
/// Classes for rows, then for everything else.
const CLASSES: usize = 2 * SIZES;

/// The class of a row with `words` words.
#[inline]
fn class_of_row(words: usize) -> usize {
    if words <= 2 * FINE {
        return words.max(1).div_ceil(2) - 1;
    }
    let doubling = (words - 1).ilog2();
    let quarter = (words - 1) >> (doubling - 2) & 3;
    FINE + 4 * (doubling as usize - 6) + quarter
}

/// The class of any other block with `words` words.
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

/// The real size of a block that was asked for with `words` words.
#[inline]
pub(crate) fn rounded(words: usize) -> usize {
    words_of(class_of_row(words))
}

pub(crate) struct Arena {
    span: Span,
    words: u64,
    used: AtomicU64,
    /// Words that the system has been asked to back ahead of their use.
    backed: AtomicU64,
    /// Free blocks that belong to no worker, by class.
    pool: Box<[SpinMutex<Vec<Vec<Ref>>>]>,
}

impl Arena {
    /// Reserves `bytes` of addresses. Memory is used only as blocks are.
    pub(crate) fn new(bytes: u64, pages: world::PageSize) -> std::io::Result<Arena> {
        let span = Span::reserve(bytes.max(1 << 16) as usize, pages)?;
        let words = span.words().len() as u64;
        // The first cache line is never given out, so that no block has the number 0.
        let pool = (0..CLASSES).map(|_| SpinMutex::ranked(Rank::MemArena, Vec::new())).collect();
        Ok(Arena { span, words, used: AtomicU64::new(8), backed: AtomicU64::new(0), pool })
    }

    /// Bytes given to workers.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed).min(self.words) * 8
    }

    /// Has the system back the memory that comes next, a sixteenth of the amount in use: the first
    /// touch of a huge page costs a worker up to milliseconds. Two threads in here back the same
    /// memory twice, which is harmless.
    pub(crate) fn back_ahead(&self) {
        let used = self.used.load(Ordering::Relaxed);
        let until = (used + (used / 16).clamp(AHEAD.0, AHEAD.1)).min(self.words);
        let from = self.backed.load(Ordering::Relaxed).max(used);
        if until >= from + BACKED_AT_ONCE {
            self.span.back(from as usize, until as usize);
            self.backed.store(until, Ordering::Relaxed);
        }
    }

    /// Has the system back all memory.
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

    /// Takes `words` words; the first is at the start of a cache line.
    fn take(&self, words: u64) -> Result<u64, Full> {
        let words = words.next_multiple_of(8);
        let fits = |used: u64| (used + words <= self.words).then_some(used + words);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).map_err(|_| Full)
    }
}

/// The blocks of one worker.
pub(crate) struct Local {
    free: [Vec<Ref>; CLASSES],
    /// Blocks taken out of shared structures, oldest first: tag, block, class.
    retired: VecDeque<(u64, Ref, u8)>,
}

impl Local {
    pub(crate) fn new() -> Local {
        Local { free: std::array::from_fn(|_| Vec::new()), retired: VecDeque::new() }
    }

    /// A block of at least `words` words with arbitrary contents.
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
        // The memory of the next free block may have been untouched for long. It is prefetched
        // while the caller fills this one.
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
        // The order of the addresses when popped: rows that are loaded one after the other lie side
        // by side.
        self.free[class].extend((1..blocks).rev().map(|i| Ref(first + i * size as u64)));
        Ok(Ref(first))
    }

    /// Gives back a block that no other thread has ever seen.
    pub(crate) fn free(&mut self, block: Ref, words: usize) {
        self.free[class_of(words)].push(block);
    }

    pub(crate) fn free_row(&mut self, row: Ref, words: usize) {
        self.free[class_of_row(words)].push(row);
    }

    /// Gives back a block that has left the shared structures, once no thread reads it any more.
    pub(crate) fn retire(&mut self, epochs: &Epochs, block: Ref, words: usize) {
        self.retired.push_back((epochs.tag(), block, class_of(words) as u8));
    }

    pub(crate) fn retire_row(&mut self, epochs: &Epochs, row: Ref, words: usize) {
        self.retired.push_back((epochs.tag(), row, class_of_row(words) as u8));
    }

    /// Gives all free blocks to the pool: for a worker that will not need blocks for long.
    pub(crate) fn give_away(&mut self, arena: &Arena) {
        for (class, free) in self.free.iter_mut().enumerate().filter(|(_, free)| !free.is_empty()) {
            arena.pool[class].lock().push(std::mem::take(free));
        }
    }

    /// The number of retired blocks that may still have readers.
    pub(crate) fn waiting(&self) -> usize {
        self.retired.len()
    }

    /// Frees the retired blocks that no thread reads any more; if they are many, some go to the
    /// pool. A block is not freed in the epoch in which it was retired, so that the words of rows
    /// at one address grow ([`tid`](crate::tid)).
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
    use crate::epoch::{EpochUse, IDLE};

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
        epochs.publish(1, EpochUse::Reading, epochs.now());
        local.retire(&epochs, block, 128);
        epochs.tick();
        local.reclaim(&arena, &epochs);
        assert_eq!(local.waiting(), 1);
        epochs.withdraw(1, EpochUse::Reading, IDLE);
        epochs.publish(1, EpochUse::Reading, epochs.now());
        local.reclaim(&arena, &epochs);
        assert_eq!(local.waiting(), 0);
        assert_eq!(local.alloc(&arena, 128), Ok(block));
    }
}
