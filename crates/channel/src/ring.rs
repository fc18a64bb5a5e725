//! A ring for one sender and one receiver in memory that both see, and the protocol that wakes a
//! sleeping end.
//!
//! The ring consists of 64-bit words, all atomic. So a peer that writes arbitrary values at any
//! moment can cause wrong *values* here, but never undefined behaviour:
//!
//! ```text
//!  line 0: head      words given back so far    written by the receiver only
//!  line 1: dozing    the receiver may sleep     receiver sets 1, either end sets 0
//!  line 2: starved   the sender waits for room  sender sets 1, either end sets 0
//!  line 3...: data   a power of two of words; position p lies at p mod capacity;
//!                    written by the sender only
//!  frame  =  header word: bit 63 set, bit 32: the message goes on in the next frame,
//!                         low 32 bits: bytes
//!            then the bytes; a frame begins on a 64-byte boundary
//! ```
//!
//! No index tells how far the sender has written. The receiver watches the header at its own
//! position, which is 0 until the frame is complete; so the cache line that announces the frame
//! also brings its first bytes. To keep this true, the sender writes a 0 where the *next* header
//! will be before it writes this header. And it writes the words in the header's own line last, so
//! that the watching receiver does not take the line away from it in between.
//!
//! Each index has a *line* of 128 bytes, because adjacent 64-byte lines are prefetched in pairs.
//! Each end keeps its position in private memory. The sender reads `head` only when its private
//! copy of `head` shows no room. Positions never wrap (2^64 words).
//!
//! **Trust.** An end believes only its private position. It reads each value from the ring (the
//! other end's index, a header) once, and checks it against that position and the capacity before
//! it uses it.
//!
//! **No wake-up is lost.**
//!
//! ```text
//!   receiver before it sleeps              sender after it published
//!   1. dozing = 1                          1. full fence
//!   2. full fence                          2. read dozing
//!   3. look at the header again            3. if 1: swap it to 0; if it was still 1,
//!   4. sleep only if no frame is there        ring the receiver's bell (an eventfd)
//! ```
//!
//! The two fences are ordered in the single total order of such fences. If the sender's fence is
//! first, the receiver's second look (3) sees the message. If the receiver's fence is first, the
//! sender reads `dozing` = 1. The eventfd remembers a ring until the sleeper collects it, so a ring
//! before the actual sleep also counts. The same protocol with `head` and `starved` wakes a sender
//! that waits for room. Many messages may share one fence: the sender needs it only before it turns
//! to other work (`flush`).
//!
//! **Room.** A frame takes at most a quarter of the ring, and the receiver gives room back a
//! quarter at a time (one fence for many messages). So once the receiver has read everything, the
//! free room that the sender does not see yet is less than a quarter, and every frame fits into the
//! rest.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words from one index to the next: 128 bytes. Adjacent in unit tests, because loom explores every
/// word.
const LINE: usize = if cfg!(test) { 1 } else { 16 };
/// Words of a cache line, at which frames begin. 1 in unit tests, so that frames lie across the
/// ring's end in every way.
const ALIGN: u64 = if cfg!(test) { 1 } else { 8 };
const HEAD: usize = 0;
const DOZING: usize = LINE;
const STARVED: usize = 2 * LINE;
/// Words of the indices, in front of the data.
pub(crate) const INDEX_WORDS: usize = 3 * LINE;

/// Set in every header: a word that is 0 is not a header yet.
const PRESENT: u64 = 1 << 63;
/// Set in a frame's header when the next frame continues the message.
const CONTINUES: u64 = 1 << 32;
const LENGTH: u64 = 0xffff_ffff;

/// Lines of the next frame that the sender prefetches: 512 bytes, more than most requests have.
const MOST_CLAIMED_LINES: u64 = 8;

/// Prefetches a line for writing. Has no other effect, for any use of the line.
#[inline(always)]
fn claim<T>(word: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of a mapped address has no effect that a program can see, and it never
    // faults. Processors without the instruction execute it as a no-op.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) word, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = word;
}

/// An atomic word and the full fence that goes with it: the real ones, or loom's.
pub(crate) trait Word {
    fn load(&self, order: Ordering) -> u64;
    fn store(&self, value: u64, order: Ordering);
    fn swap(&self, value: u64, order: Ordering) -> u64;
    fn full_fence();
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }
    #[inline(always)]
    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order)
    }
    #[inline(always)]
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        AtomicU64::swap(self, value, order)
    }
    #[inline(always)]
    fn full_fence() {
        fence(Ordering::SeqCst)
    }
}

/// The words of one ring: `INDEX_WORDS` and then the data.
pub(crate) trait Words {
    type Word: Word;
    fn words(&self) -> &[Self::Word];
}

/// Announces that the owner of `flag` may sleep. A full fence must follow before the second look.
pub(crate) fn announce_sleep<W: Word>(flag: &W) {
    flag.store(1, Ordering::Relaxed);
}

/// Takes the announcement back.
pub(crate) fn announce_awake<W: Word>(flag: &W) {
    flag.store(0, Ordering::Relaxed);
}

/// After a publication: whether the other end must be woken by its bell. Returns true at most once
/// per announcement.
#[inline]
pub(crate) fn must_wake<W: Word>(flag: &W) -> bool {
    W::full_fence();
    flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::AcqRel) != 0
}

/// The sleeping side of the protocol, apart from the ends themselves, so that a parker can call it.
pub(crate) struct Bells<C>(pub C);

impl<C: Words> Bells<C> {
    pub(crate) fn receiver_may_sleep(&self) {
        announce_sleep(&self.0.words()[DOZING]);
    }
    pub(crate) fn receiver_awake(&self) {
        announce_awake(&self.0.words()[DOZING]);
    }
    /// The receiver's second look: whether a frame is at its private position `head`.
    pub(crate) fn anything_for(&self, head: u64) -> bool {
        header_at(&self.0, head).load(Ordering::Acquire) != 0
    }
    pub(crate) fn sender_may_sleep(&self) {
        announce_sleep(&self.0.words()[STARVED]);
    }
    pub(crate) fn sender_awake(&self) {
        announce_awake(&self.0.words()[STARVED]);
    }
    /// The sender's second look: whether a frame of `needed` words fits after its private position
    /// `tail`.
    pub(crate) fn room_for(&self, tail: u64, needed: u64) -> bool {
        let words = self.0.words();
        let capacity = (words.len() - INDEX_WORDS) as u64;
        let used = tail.wrapping_sub(words[HEAD].load(Ordering::Acquire));
        // An impossible head counts as room: then the sender wakes and finds the corruption.
        used > capacity || used + needed < capacity
    }
}

/// The sending end.
pub(crate) struct Producer<C> {
    cells: C,
    tail: u64,
    head_seen: u64,
    capacity: u64,
}

/// The receiving end.
pub(crate) struct Consumer<C> {
    cells: C,
    head: u64,
    given_back: u64,
    capacity: u64,
}

/// One frame, as read from the ring.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub bytes: usize,
    pub continues: bool,
}

/// The peer wrote an impossible value; the text describes it.
pub(crate) type Corrupt = &'static str;

fn words_of(bytes: usize) -> u64 {
    (1 + bytes.div_ceil(8) as u64).next_multiple_of(ALIGN)
}

fn header_at<C: Words>(cells: &C, at: u64) -> &C::Word {
    let data = &cells.words()[INDEX_WORDS..];
    &data[at as usize & (data.len() - 1)]
}

fn capacity_of<C: Words>(cells: &C) -> u64 {
    let capacity = cells.words().len() - INDEX_WORDS;
    assert!(
        capacity.is_power_of_two() && capacity >= 8 * ALIGN as usize,
        "a ring holds a power of two of lines, at least 8"
    );
    capacity as u64
}

/// The words at position `at`, as the two runs in which they lie in the ring.
fn runs<C: Words>(cells: &C, at: u64, count: usize, capacity: u64) -> (&[C::Word], &[C::Word]) {
    let data = &cells.words()[INDEX_WORDS..];
    let first = (at & (capacity - 1)) as usize;
    let until = (first + count).min(data.len());
    (&data[first..until], &data[..count - (until - first)])
}

impl<C: Words> Producer<C> {
    pub(crate) fn new(cells: C) -> Self {
        let capacity = capacity_of(&cells);
        Producer { cells, tail: 0, head_seen: 0, capacity }
    }

    /// The most bytes that one frame carries; longer messages go in several frames.
    pub(crate) fn frame_bytes(&self) -> usize {
        (self.capacity as usize / 4 - 1) * 8
    }

    /// The position after the last published word. A parker needs it, and [`Producer::words_of`],
    /// to look for room.
    pub(crate) fn tail(&self) -> u64 {
        self.tail
    }
    pub(crate) fn words_of(bytes: usize) -> u64 {
        words_of(bytes)
    }

    /// Publishes one frame if there is room for it. `padded` holds `bytes` bytes and zeros up to a
    /// whole word.
    #[inline]
    pub(crate) fn push(&mut self, padded: &[u8], bytes: usize, continues: bool) -> Result<bool, Corrupt> {
        debug_assert!(bytes <= self.frame_bytes() && padded.len() == bytes.next_multiple_of(8));
        let needed = words_of(bytes);
        if !self.has_room(needed)? {
            return Ok(false);
        }
        let words = padded.as_chunks::<8>().0;
        let (first, rest) = words.split_at(words.len().min(ALIGN as usize - 1));
        self.write(1 + first.len() as u64, rest);
        header_at(&self.cells, self.tail + needed).store(0, Ordering::Relaxed);
        self.write(1, first);
        let header = PRESENT | bytes as u64 | if continues { CONTINUES } else { 0 };
        // Release: an end that sees the header also sees the frame and the 0 after it.
        header_at(&self.cells, self.tail).store(header, Ordering::Release);
        self.tail += needed;
        self.claim_ahead(needed);
        Ok(true)
    }

    /// Prefetches the lines of the next frame for writing; that frame is assumed to be as long as
    /// this one. The receiver read these lines one lap ago and still caches them. Taking them now
    /// keeps that cost out of the next send.
    #[inline]
    fn claim_ahead(&self, words: u64) {
        for line in 1..(words / ALIGN).min(MOST_CLAIMED_LINES) {
            claim(header_at(&self.cells, self.tail + line * ALIGN));
        }
    }

    /// Writes words, beginning `offset` words after the header's position.
    #[inline]
    fn write(&self, offset: u64, words: &[[u8; 8]]) {
        let (first, second) = runs(&self.cells, self.tail + offset, words.len(), self.capacity);
        let (before, after) = words.split_at(first.len());
        for (run, chunks) in [(first, before), (second, after)] {
            run.iter()
                .zip(chunks)
                .for_each(|(word, c)| word.store(u64::from_le_bytes(*c), Ordering::Relaxed));
        }
    }

    /// Whether there is room for a frame and for the 0 after it.
    #[inline]
    fn has_room(&mut self, needed: u64) -> Result<bool, Corrupt> {
        let needed = needed + 1;
        if self.tail - self.head_seen + needed <= self.capacity {
            return Ok(true);
        }
        // Acquire: the receiver's reads of these words come before it gave them back, so the words
        // may be overwritten.
        let head = self.cells.words()[HEAD].load(Ordering::Acquire);
        if head < self.head_seen || head > self.tail {
            return Err("the ring's head lies outside what was sent");
        }
        self.head_seen = head;
        Ok(self.tail - head + needed <= self.capacity)
    }

    /// Required after a run of pushes: whether the receiver's bell must be rung.
    #[inline]
    pub(crate) fn must_wake_receiver(&self) -> bool {
        must_wake(&self.cells.words()[DOZING])
    }
}

impl<C: Words> Consumer<C> {
    pub(crate) fn new(cells: C) -> Self {
        let capacity = capacity_of(&cells);
        Consumer { cells, head: 0, given_back: 0, capacity }
    }

    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Whether a frame is there: one load of a line that changes only when a frame comes.
    #[inline]
    pub(crate) fn poll(&self) -> bool {
        header_at(&self.cells, self.head).load(Ordering::Relaxed) != 0
    }

    /// Copies the next frame, if there is one, to `into[at..]`; grows `into` when it is too short.
    #[inline]
    pub(crate) fn pop(&mut self, into: &mut Vec<u8>, at: usize) -> Result<Option<Piece>, Corrupt> {
        // Acquire: pairs with the sender's release of the frame.
        let header = header_at(&self.cells, self.head).load(Ordering::Acquire);
        if header == 0 {
            return Ok(None);
        }
        let piece = self.check(header)?;
        let words = piece.bytes.div_ceil(8);
        if into.len() < at + 8 * words {
            into.resize(at + 8 * words, 0);
        }
        let (first, second) = runs(&self.cells, self.head + 1, words, self.capacity);
        let target = into[at..at + 8 * words].as_chunks_mut::<8>().0;
        let (before, after) = target.split_at_mut(first.len());
        for (run, chunks) in [(first, before), (second, after)] {
            run.iter().zip(chunks).for_each(|(word, c)| *c = word.load(Ordering::Relaxed).to_le_bytes());
        }
        self.head += words_of(piece.bytes);
        Ok(Some(piece))
    }

    #[inline]
    fn check(&self, header: u64) -> Result<Piece, Corrupt> {
        if header & !(CONTINUES | LENGTH) != PRESENT {
            return Err("a frame's header has unknown bits");
        }
        let (bytes, continues) = ((header & LENGTH) as usize, header & CONTINUES != 0);
        if words_of(bytes) > self.capacity / 4 {
            return Err("a frame is longer than a quarter of the ring");
        }
        if continues && bytes == 0 {
            return Err("an empty frame promises more");
        }
        Ok(Piece { bytes, continues })
    }

    /// Gives room back once a quarter of the ring has been read. Returns whether the sender's bell
    /// must be rung.
    #[inline]
    pub(crate) fn give_back(&mut self) -> bool {
        if self.head - self.given_back < self.capacity / 4 {
            return false;
        }
        self.given_back = self.head;
        let words = self.cells.words();
        // Release: the reads of these words come before the sender overwrites them.
        words[HEAD].store(self.head, Ordering::Release);
        must_wake(&words[STARVED])
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
