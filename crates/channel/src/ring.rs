//! A ring for one sender and one receiver in memory that both see, and the rule by which a sleeping end is woken.
//!
//! The ring is nothing but 64-bit words, all atomic, so that a peer which writes whatever it likes at any moment can
//! produce wrong *values* here but never undefined behaviour:
//!
//! ```text
//!  line 0: tail      words ever published     written by the sender only
//!  line 1: head      words ever given back    written by the receiver only
//!  line 2: dozing    the receiver may sleep   receiver sets 1, either end sets 0
//!  line 3: starved   the sender waits for room  sender sets 1, either end sets 0
//!  line 4...: data   a power of two of words; position p lies at p mod capacity
//!  frame  =  header word (bytes in the low 32 bits, bit 32: the message goes on in the next frame)
//!            then the bytes, padded to whole words
//! ```
//!
//! A *line* is 128 bytes, because adjacent 64-byte lines are prefetched in pairs: each end writes only lines of its
//! own while it is awake, keeps its position in private memory, and reads the other's index only when its cached
//! copy says "nothing there" or "no room". Positions never wrap (2^64 words).
//!
//! **Trust.** An end believes only its private position. Whatever it reads from the ring (the other's index, a
//! length) is checked against that position and the capacity before it is used.
//!
//! **No wake-up is lost.** Receiver before it sleeps: `dozing = 1`; full fence; look at `tail` again; sleep only if
//! still nothing is there. Sender after it published: full fence; read `dozing`; if 1, swap it to 0 and, if it was
//! still 1, ring the receiver's bell (an eventfd). One of the two fences comes first in the one total order of
//! such fences: if the sender's, the receiver's second look sees the message; if the receiver's, the sender sees
//! `dozing`. A bell rung is remembered by the eventfd until the sleeper collects it, so ringing before the actual
//! sleep is as good. The same rule with `head` and `starved` wakes a sender that waits for room. Many messages may
//! share one fence: the sender owes it only before it turns to something else (`flush`).
//!
//! **Room.** A frame takes at most a quarter of the ring and the receiver gives room back a quarter at a time (one
//! fence for many messages). What the sender does not yet see as free is thus less than a quarter once the receiver
//! has read everything, and every frame fits into the rest.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words from one index to the next: 128 bytes; next to each other in unit tests, where loom counts every word.
const LINE: usize = if cfg!(test) { 1 } else { 16 };
const TAIL: usize = 0;
const HEAD: usize = LINE;
const DOZING: usize = 2 * LINE;
const STARVED: usize = 3 * LINE;
/// Words of the indices, in front of the data.
pub(crate) const INDEX_WORDS: usize = 4 * LINE;

/// Set in a frame's header when the next frame continues the message.
const CONTINUES: u64 = 1 << 32;

/// An atomic word and the full fence that goes with it: real, or loom's.
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

/// After something was published: whether the other end must be woken by its bell. Asks for it at most once per
/// announcement.
#[inline]
pub(crate) fn must_wake<W: Word>(flag: &W) -> bool {
    W::full_fence();
    flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::AcqRel) != 0
}

/// What the sleeping side of the rule needs, apart from the ends themselves, so that a parker can do it.
pub(crate) struct Bells<C>(pub C);

impl<C: Words> Bells<C> {
    pub(crate) fn receiver_may_sleep(&self) {
        announce_sleep(&self.0.words()[DOZING]);
    }
    pub(crate) fn receiver_awake(&self) {
        announce_awake(&self.0.words()[DOZING]);
    }
    /// The receiver's second look: whether anything lies behind its private position `head`.
    pub(crate) fn anything_for(&self, head: u64) -> bool {
        self.0.words()[TAIL].load(Ordering::Acquire) != head
    }
    pub(crate) fn sender_may_sleep(&self) {
        announce_sleep(&self.0.words()[STARVED]);
    }
    pub(crate) fn sender_awake(&self) {
        announce_awake(&self.0.words()[STARVED]);
    }
    /// The sender's second look: whether `needed` words fit behind its private position `tail`.
    pub(crate) fn room_for(&self, tail: u64, needed: u64) -> bool {
        let words = self.0.words();
        let capacity = (words.len() - INDEX_WORDS) as u64;
        let used = tail.wrapping_sub(words[HEAD].load(Ordering::Acquire));
        // An impossible head counts as room: the sender shall come and find it.
        used > capacity || used + needed <= capacity
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
    tail_seen: u64,
    given_back: u64,
    capacity: u64,
}

/// One frame as it came out of the ring.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub bytes: usize,
    pub continues: bool,
}

/// The peer wrote something impossible; the text says what.
pub(crate) type Corrupt = &'static str;

fn words_of(bytes: usize) -> u64 {
    1 + bytes.div_ceil(8) as u64
}

fn capacity_of<C: Words>(cells: &C) -> u64 {
    let capacity = cells.words().len() - INDEX_WORDS;
    assert!(capacity.is_power_of_two() && capacity >= 8, "a ring holds a power of two of words, at least 8");
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

    /// The most bytes one frame carries; longer messages go in several.
    pub(crate) fn frame_bytes(&self) -> usize {
        (self.capacity as usize / 4 - 1) * 8
    }

    /// The position behind the last published word, and the words that a frame of `bytes` takes: what a parker
    /// needs to look for room.
    pub(crate) fn tail(&self) -> u64 {
        self.tail
    }
    pub(crate) fn words_of(bytes: usize) -> u64 {
        words_of(bytes)
    }

    /// Publishes one frame if there is room for it. `padded` holds `bytes` bytes and zeros up to a whole word.
    #[inline]
    pub(crate) fn push(&mut self, padded: &[u8], bytes: usize, continues: bool) -> Result<bool, Corrupt> {
        debug_assert!(bytes <= self.frame_bytes() && padded.len() == bytes.next_multiple_of(8));
        let needed = words_of(bytes);
        if !self.has_room(needed)? {
            return Ok(false);
        }
        let header = bytes as u64 | if continues { CONTINUES } else { 0 };
        self.slot(self.tail).store(header, Ordering::Relaxed);
        let (first, second) = runs(&self.cells, self.tail + 1, padded.len() / 8, self.capacity);
        let (before, after) = padded.as_chunks::<8>().0.split_at(first.len());
        for (run, chunks) in [(first, before), (second, after)] {
            run.iter()
                .zip(chunks)
                .for_each(|(word, c)| word.store(u64::from_le_bytes(*c), Ordering::Relaxed));
        }
        self.tail += needed;
        // Release: who sees the new tail sees the frame.
        self.cells.words()[TAIL].store(self.tail, Ordering::Release);
        Ok(true)
    }

    fn slot(&self, at: u64) -> &C::Word {
        &self.cells.words()[INDEX_WORDS + (at & (self.capacity - 1)) as usize]
    }

    fn has_room(&mut self, needed: u64) -> Result<bool, Corrupt> {
        if self.tail - self.head_seen + needed <= self.capacity {
            return Ok(true);
        }
        // Acquire: the receiver has read the words before it gave them back, so they may be overwritten.
        let head = self.cells.words()[HEAD].load(Ordering::Acquire);
        if head < self.head_seen || head > self.tail {
            return Err("the ring's head lies outside what was sent");
        }
        self.head_seen = head;
        Ok(self.tail - head + needed <= self.capacity)
    }

    /// Owed after a run of pushes: whether the receiver's bell must be rung.
    #[inline]
    pub(crate) fn must_wake_receiver(&self) -> bool {
        must_wake(&self.cells.words()[DOZING])
    }
}

impl<C: Words> Consumer<C> {
    pub(crate) fn new(cells: C) -> Self {
        let capacity = capacity_of(&cells);
        Consumer { cells, head: 0, tail_seen: 0, given_back: 0, capacity }
    }

    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Whether a frame is there: one load of a line that changes only when one comes.
    #[inline]
    pub(crate) fn poll(&self) -> bool {
        self.head != self.tail_seen || self.cells.words()[TAIL].load(Ordering::Relaxed) != self.head
    }

    /// Copies the next frame to `into[at..]`, growing `into` when it is too short, if a frame is there. The length
    /// is read once and checked before anything is done with it.
    #[inline]
    pub(crate) fn pop(&mut self, into: &mut Vec<u8>, at: usize) -> Result<Option<Piece>, Corrupt> {
        if self.head == self.tail_seen && !self.look()? {
            return Ok(None);
        }
        let slot = INDEX_WORDS + (self.head & (self.capacity - 1)) as usize;
        let piece = self.check(self.cells.words()[slot].load(Ordering::Relaxed))?;
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
        self.head += 1 + words as u64;
        Ok(Some(piece))
    }

    fn look(&mut self) -> Result<bool, Corrupt> {
        // Acquire: pairs with the sender's release of the frames before this tail.
        let tail = self.cells.words()[TAIL].load(Ordering::Acquire);
        if tail < self.head || tail - self.head > self.capacity {
            return Err("the ring's tail lies outside the ring");
        }
        self.tail_seen = tail;
        Ok(tail != self.head)
    }

    fn check(&self, header: u64) -> Result<Piece, Corrupt> {
        if header & !(CONTINUES | 0xffff_ffff) != 0 {
            return Err("a frame's header has unknown bits");
        }
        let (bytes, continues) = ((header & 0xffff_ffff) as usize, header & CONTINUES != 0);
        let words = words_of(bytes);
        if words > self.capacity / 4 || words > self.tail_seen - self.head {
            return Err("a frame is longer than what was sent");
        }
        if continues && bytes == 0 {
            return Err("an empty frame promises more");
        }
        Ok(Piece { bytes, continues })
    }

    /// Gives room back once a quarter of the ring has been read. Returns whether the sender's bell must be rung.
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
