//! One word per page: who holds it, how often it changed, and where it is.
//!
//! ```text
//!   63          24 23    21   20      19      18       17        16      15        0
//!  | version      |  --  | writing | dirty | marked | resident | exclusive | shared |
//! ```
//!
//! A word of zero is a page that is not in memory, so a fresh zeroed array of words is a pool of absent pages.
//!
//! | state | resident | exclusive | leaves by |
//! |---|---|---|---|
//! | absent | 0 | 0 | `begin_load` |
//! | loading | 0 | 1 | `end_load` (resident) or `abandon_load` (absent) |
//! | resident | 1 | 0 | shared and exclusive latches; `begin_evict` when nobody holds it and it is clean |
//! | latched | 1 | 1 | `unlock_exclusive`, `end_evict` (absent) |
//!
//! Who may do what:
//! - *exclusive* is claimed by compare-and-swap and then waits for the sharers to leave (new ones keep away, so
//!   a writer is not starved). Its holder alone changes the page's bytes, and bumps the version when it lets go.
//! - *dirty* is set by the exclusive holder, cleared under a shared latch by the one page writer, which sets
//!   *writing* in the same step and clears that when the bytes are in the file.
//! - *marked* (second chance: evict me next time) is set by the clock and cleared by whoever latches the page.
//! - A page is evicted only when it is unlatched, not dirty and not being written.
//! - *optimistic readers* hold nothing: they note the word ([`PageLatch::glimpse`]), read, and believe what they read
//!   only if [`PageLatch::unchanged`] says that no exclusive holder came meanwhile. So **whoever changes a page's bytes
//!   or takes its memory away holds it exclusively and leaves another version behind**: a write, an eviction and a load
//!   alike. (An owner under `Owned` does so too; its only reader is itself.)
//!
//! Orderings: taking is Acquire, letting go is Release, so what was written under the latch is seen by the next holder.
//! Against optimistic readers, taking exclusively is also followed by a Release fence, which pairs with the Acquire
//! fence before their second look: a reader that saw one byte of a change sees the claim, or what came after it.

use super::backoff::Backoff;
use super::sync::{AtomicU64, Ordering, fence};

const SHARED_ONE: u64 = 1;
const SHARED: u64 = 0xffff;
const EXCLUSIVE: u64 = 1 << 16;
const RESIDENT: u64 = 1 << 17;
const MARKED: u64 = 1 << 18;
const DIRTY: u64 = 1 << 19;
const WRITING: u64 = 1 << 20;
const VERSION_SHIFT: u32 = 24;
const VERSION_ONE: u64 = 1 << VERSION_SHIFT;
/// The part of the word that stays the same while nobody changes the page's bytes.
const STABLE: u64 = u64::MAX << VERSION_SHIFT | EXCLUSIVE | RESIDENT;

/// Why a latch was not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The page is not in memory (or is being read in): load it and come back.
    Absent,
    /// Others held it for far longer than a latch may be held: let go of everything and come back.
    Busy,
}

/// Whether the holder of an exclusive latch changed the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Nothing,
    Bytes,
}

/// A look at the word, for the page writer and the clock. Only a compare-and-swap from it proves anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen(u64);

impl Seen {
    pub fn resident(self) -> bool {
        self.0 & RESIDENT != 0
    }
    pub fn exclusive(self) -> bool {
        self.0 & EXCLUSIVE != 0
    }
    pub fn sharers(self) -> u64 {
        self.0 & SHARED
    }
    pub fn marked(self) -> bool {
        self.0 & MARKED != 0
    }
    pub fn dirty(self) -> bool {
        self.0 & DIRTY != 0
    }
    pub fn writing(self) -> bool {
        self.0 & WRITING != 0
    }
    pub fn version(self) -> u64 {
        self.0 >> VERSION_SHIFT
    }
    fn free(self) -> bool {
        self.0 & (SHARED | EXCLUSIVE) == 0
    }
}

/// The word as an optimistic reader found it when it began: resident, not held exclusively.
#[derive(Clone, Copy, Debug)]
pub struct Glimpse(u64);

impl Glimpse {
    #[inline]
    pub fn version(self) -> u64 {
        self.0 >> VERSION_SHIFT
    }
}

/// The latch and state word of one page (see the file's head).
#[repr(transparent)]
pub struct PageLatch(AtomicU64);

impl PageLatch {
    /// Takes the word over as it is; zero is an absent page.
    pub const fn from_word(word: AtomicU64) -> PageLatch {
        PageLatch(word)
    }

    /// The word now.
    #[inline]
    pub fn look(&self) -> Seen {
        Seen(self.0.load(Ordering::Acquire))
    }

    #[inline]
    fn swap(&self, from: u64, to: u64) -> bool {
        self.0.compare_exchange_weak(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes a shared latch, waiting for an exclusive holder; gives the page's version.
    ///
    /// # Errors
    /// See [`Refused`].
    #[inline]
    pub fn shared(&self) -> Result<u64, Refused> {
        let word = self.0.load(Ordering::Relaxed);
        if word & (RESIDENT | EXCLUSIVE) == RESIDENT && self.swap(word, (word + SHARED_ONE) & !MARKED) {
            return Ok(word >> VERSION_SHIFT);
        }
        self.shared_slow()
    }

    #[cold]
    fn shared_slow(&self) -> Result<u64, Refused> {
        let mut backoff = Backoff::new();
        loop {
            let word = self.0.load(Ordering::Relaxed);
            if word & RESIDENT == 0 {
                return Err(Refused::Absent);
            }
            let room = word & SHARED != SHARED;
            if word & EXCLUSIVE == 0 && room && self.swap(word, (word + SHARED_ONE) & !MARKED) {
                return Ok(word >> VERSION_SHIFT);
            }
            backoff.wait_bounded().map_err(|_| Refused::Busy)?;
        }
    }

    /// Lets go of a shared latch.
    #[inline]
    pub fn unlock_shared(&self) {
        let before = self.0.fetch_sub(SHARED_ONE, Ordering::Release);
        debug_assert!(before & SHARED != 0, "a shared latch was let go that nobody held");
    }

    /// Begins a read without a latch, waiting for an exclusive holder. Writes to the word only when the page is
    /// about to be thrown out, to say that it is in use.
    ///
    /// # Errors
    /// See [`Refused`].
    #[inline]
    pub fn glimpse(&self) -> Result<Glimpse, Refused> {
        let word = self.0.load(Ordering::Acquire);
        if word & (RESIDENT | EXCLUSIVE | MARKED) == RESIDENT {
            Ok(Glimpse(word))
        } else {
            self.glimpse_slow()
        }
    }

    #[cold]
    fn glimpse_slow(&self) -> Result<Glimpse, Refused> {
        let mut backoff = Backoff::new();
        loop {
            let word = self.0.load(Ordering::Acquire);
            if word & RESIDENT == 0 {
                return Err(Refused::Absent);
            }
            if word & EXCLUSIVE == 0 {
                if word & MARKED != 0 {
                    self.0.fetch_and(!MARKED, Ordering::Relaxed);
                }
                return Ok(Glimpse(word));
            }
            backoff.wait_bounded().map_err(|_| Refused::Busy)?;
        }
    }

    /// Whether what was read since the glimpse was the page at that version, whole.
    #[inline]
    pub fn unchanged(&self, since: Glimpse) -> bool {
        fence(Ordering::Acquire);
        (self.0.load(Ordering::Relaxed) ^ since.0) & STABLE == 0
    }

    /// The claim is made: no byte of what follows is seen before it.
    #[inline]
    fn claimed(word: u64) -> u64 {
        fence(Ordering::Release);
        word >> VERSION_SHIFT
    }

    /// Takes the exclusive latch, waiting for others; gives the page's version.
    ///
    /// # Errors
    /// See [`Refused`].
    #[inline]
    pub fn exclusive(&self) -> Result<u64, Refused> {
        let word = self.0.load(Ordering::Relaxed);
        if word & (RESIDENT | EXCLUSIVE | SHARED) == RESIDENT && self.swap(word, (word | EXCLUSIVE) & !MARKED)
        {
            return Ok(Self::claimed(word));
        }
        self.exclusive_slow()
    }

    #[cold]
    fn exclusive_slow(&self) -> Result<u64, Refused> {
        let mut backoff = Backoff::new();
        loop {
            let word = self.0.load(Ordering::Relaxed);
            if word & RESIDENT == 0 {
                return Err(Refused::Absent);
            }
            if word & EXCLUSIVE == 0 && self.swap(word, (word | EXCLUSIVE) & !MARKED) {
                return self.drain(&mut backoff);
            }
            backoff.wait_bounded().map_err(|_| Refused::Busy)?;
        }
    }

    /// Exclusive is claimed; waits for those who shared it before. Gives the claim back when they stay.
    fn drain(&self, backoff: &mut Backoff) -> Result<u64, Refused> {
        loop {
            let word = self.0.load(Ordering::Acquire);
            if word & SHARED == 0 {
                return Ok(Self::claimed(word));
            }
            if backoff.wait_bounded().is_err() {
                self.0.fetch_and(!EXCLUSIVE, Ordering::Release);
                return Err(Refused::Busy);
            }
        }
    }

    /// Lets go of the exclusive latch; the version grows by one.
    #[inline]
    pub fn unlock_exclusive(&self, change: Change) {
        // Only the page writer's clearing of `writing` may run beside the holder, hence read-modify-writes.
        if change == Change::Bytes && self.0.load(Ordering::Relaxed) & DIRTY == 0 {
            self.0.fetch_or(DIRTY, Ordering::Relaxed);
        }
        let before = self.0.fetch_add(VERSION_ONE - EXCLUSIVE, Ordering::Release);
        debug_assert!(before & EXCLUSIVE != 0, "an exclusive latch was let go that nobody held");
    }

    /// Absent to loading. False when the page is resident or someone else loads it.
    pub fn begin_load(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        let taken = word & (RESIDENT | EXCLUSIVE) == 0
            && self.0.compare_exchange(word, word | EXCLUSIVE, Ordering::Acquire, Ordering::Relaxed).is_ok();
        fence(Ordering::Release);
        taken
    }

    /// Loading to resident and unlatched.
    pub fn end_load(&self) {
        self.0.fetch_add(RESIDENT + VERSION_ONE - EXCLUSIVE, Ordering::Release);
    }

    /// Loading to resident, the exclusive latch kept by the caller; gives the page's version.
    pub fn end_load_exclusive(&self) -> u64 {
        self.0.fetch_or(RESIDENT, Ordering::Relaxed) >> VERSION_SHIFT
    }

    /// Loading back to absent.
    pub fn abandon_load(&self) {
        self.0.fetch_and(!EXCLUSIVE, Ordering::Release);
    }

    /// Asks the page to prove itself: it loses its place at the next visit unless someone latches it before.
    pub fn mark(&self, seen: Seen) {
        if seen.free() {
            let _ = self.0.compare_exchange(seen.0, seen.0 | MARKED, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Takes the exclusive latch of a resident, unlatched, clean page without waiting, to throw it out.
    pub fn begin_evict(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        let taken = word & (RESIDENT | EXCLUSIVE | SHARED | DIRTY | WRITING) == RESIDENT
            && self.0.compare_exchange(word, word | EXCLUSIVE, Ordering::Acquire, Ordering::Relaxed).is_ok();
        fence(Ordering::Release);
        taken
    }

    /// The page's memory is given back: absent and unlatched. The version grows, so no stale copy passes for new.
    pub fn end_evict(&self) {
        let word = self.0.load(Ordering::Relaxed);
        let next = (word + VERSION_ONE) & !(EXCLUSIVE | RESIDENT | MARKED);
        self.0.store(next, Ordering::Release);
    }

    /// Takes a shared latch without waiting, leaving the mark alone: cleaning a page is no use of it.
    pub fn try_shared_unmarked(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        word & (RESIDENT | EXCLUSIVE) == RESIDENT
            && word & SHARED != SHARED
            && self.0.compare_exchange(word, word + SHARED_ONE, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Dirty to being written. To be called under a shared latch, by the page writer only.
    /// False when the page is clean.
    pub fn begin_write(&self) -> bool {
        if self.0.load(Ordering::Relaxed) & DIRTY == 0 {
            return false;
        }
        // Nobody sets `dirty` while a shared latch is held and only the page writer touches these two bits.
        self.0.fetch_add(WRITING - DIRTY, Ordering::Relaxed);
        true
    }

    /// The bytes copied at [`PageLatch::begin_write`] are in the file.
    pub fn end_write(&self) {
        self.0.fetch_and(!WRITING, Ordering::Release);
    }

    /// The bytes did not reach the file: the page is dirty (again).
    pub fn fail_write(&self) {
        self.0.fetch_or(DIRTY, Ordering::Relaxed);
        self.0.fetch_and(!WRITING, Ordering::Release);
    }

    /// Shared latch of an owned page: plain loads and stores, because nobody else touches the word.
    #[inline]
    pub(super) fn owned_shared(&self) -> Result<u64, Refused> {
        let word = self.0.load(Ordering::Relaxed);
        if word & (RESIDENT | EXCLUSIVE) != RESIDENT {
            return Err(if word & RESIDENT == 0 { Refused::Absent } else { Refused::Busy });
        }
        self.0.store((word + SHARED_ONE) & !MARKED, Ordering::Relaxed);
        Ok(word >> VERSION_SHIFT)
    }

    #[inline]
    pub(super) fn owned_unlock_shared(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) - SHARED_ONE, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn owned_exclusive(&self) -> Result<u64, Refused> {
        let word = self.0.load(Ordering::Relaxed);
        if word & (RESIDENT | EXCLUSIVE | SHARED) != RESIDENT {
            return Err(if word & RESIDENT == 0 { Refused::Absent } else { Refused::Busy });
        }
        self.0.store((word | EXCLUSIVE) & !MARKED, Ordering::Relaxed);
        Ok(word >> VERSION_SHIFT)
    }

    #[inline]
    pub(super) fn owned_unlock_exclusive(&self, change: Change) {
        let dirty = if change == Change::Bytes { DIRTY } else { 0 };
        let word = self.0.load(Ordering::Relaxed);
        self.0.store((word + VERSION_ONE - EXCLUSIVE) | dirty, Ordering::Relaxed);
    }
}
