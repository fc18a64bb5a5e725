//! One word per page: who holds it, how often it changed, and where it is.
//!
//! ```text
//!   63          31 30   21   20      19      18       17        16      15        0
//!  | version      | owner | writing | dirty | marked | resident | exclusive | shared |
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
//! - *owner*, where it is not zero, says whose the page is. Then **only the thread that acts for that owner
//!   ([`act_for`](crate::act_for)) changes the word while the page is resident**, but for the one who clears *writing*: so as long
//!   as the owner has not set that itself, plain loads and stores serve it ([`ByPage`](crate::ByPage)). Everybody else is
//!   refused. Setting the owner takes the exclusive latch, so whoever held the page before has let go and
//!   the version has moved; clearing it is its owner's, who holds nothing then.
//! - *optimistic readers* hold nothing: they note the word ([`PageLatch::glimpse`]), read, and believe what they read
//!   only if [`PageLatch::unchanged`] says that no exclusive holder came meanwhile. So **whoever changes a page's bytes
//!   or takes its memory away holds it exclusively and leaves another version behind**: a write, an eviction and a load
//!   alike. (An owner under `Owned` does so too; its only reader is itself.)
//!
//! Orderings: taking is Acquire, letting go is Release, so what was written under the latch is seen by the next holder.
//! Against optimistic readers, taking exclusively is also followed by a Release fence, which pairs with the Acquire
//! fence before their second look: a reader that saw one byte of a change sees the claim, or what came after it.

use super::acting::{OwnerId, mine};
use super::backoff::Backoff;
use super::sync::{AtomicU64, Ordering, fence};

const SHARED_ONE: u64 = 1;
const SHARED: u64 = 0xffff;
const EXCLUSIVE: u64 = 1 << 16;
const RESIDENT: u64 = 1 << 17;
const MARKED: u64 = 1 << 18;
const DIRTY: u64 = 1 << 19;
const WRITING: u64 = 1 << 20;
const OWNER_SHIFT: u32 = 21;
const OWNER: u64 = 0x3ff << OWNER_SHIFT;
/// What a thread has for its owner's bits that acts for nobody: no word has them.
pub(super) const NO_OWNER: u64 = u64::MAX;
const VERSION_SHIFT: u32 = 31;
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
    /// It belongs to an owner for whom the calling thread does not act.
    Foreign,
}

/// The bits of a word that name this owner.
pub(super) fn owner_bits(owner: Option<OwnerId>) -> u64 {
    owner.map_or(NO_OWNER, |owner| owner.raw() << OWNER_SHIFT)
}

/// The owner that a word, or bits of one, name.
pub(super) fn owner_in(word: u64) -> Option<OwnerId> {
    if word == NO_OWNER { None } else { OwnerId::from_raw((word & OWNER) >> OWNER_SHIFT) }
}

/// Whether a page with this word belongs to somebody else than the calling thread.
#[inline]
fn is_foreign(word: u64) -> bool {
    word & OWNER != 0 && word & OWNER != mine()
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
    /// Whose the page is; `None` where it is nobody's and latches protect it.
    pub fn owner(self) -> Option<OwnerId> {
        owner_in(self.0 & OWNER)
    }
    /// Whether it belongs to somebody for whom the calling thread does not act.
    pub fn foreign(self) -> bool {
        is_foreign(self.0)
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
    /// Whether the page was another owner's.
    pub fn foreign(self) -> bool {
        is_foreign(self.0)
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
        if word & (RESIDENT | EXCLUSIVE | OWNER) == RESIDENT && self.swap(word, (word + SHARED_ONE) & !MARKED)
        {
            return Ok(word >> VERSION_SHIFT);
        }
        self.shared_slow()
    }

    #[cold]
    fn shared_slow(&self) -> Result<u64, Refused> {
        let mut backoff = Backoff::new();
        loop {
            let word = self.0.load(Ordering::Relaxed);
            if is_foreign(word) {
                return Err(Refused::Foreign);
            }
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
                if word & MARKED != 0 && !is_foreign(word) {
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
        let unchanged = (self.0.load(Ordering::Relaxed) ^ since.0) & STABLE == 0;
        debug_assert!(
            !(unchanged && is_foreign(since.0)),
            "a page was read by a thread that does not own it"
        );
        unchanged
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
        if word & (RESIDENT | EXCLUSIVE | SHARED | OWNER) == RESIDENT
            && self.swap(word, (word | EXCLUSIVE) & !MARKED)
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
            if is_foreign(word) {
                return Err(Refused::Foreign);
            }
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
        // Again where only its owner has changed: an absent page may be taken over, too.
        let load = |word| (word & (RESIDENT | EXCLUSIVE) == 0).then_some(word | EXCLUSIVE);
        let taken = self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, load).is_ok();
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
        if seen.free() && !seen.foreign() {
            let _ = self.0.compare_exchange(seen.0, seen.0 | MARKED, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Takes the exclusive latch of a resident, unlatched, clean page without waiting, to throw it out.
    pub fn begin_evict(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        let taken = word & (RESIDENT | EXCLUSIVE | SHARED | DIRTY | WRITING) == RESIDENT
            && !is_foreign(word)
            && self.0.compare_exchange(word, word | EXCLUSIVE, Ordering::Acquire, Ordering::Relaxed).is_ok();
        fence(Ordering::Release);
        taken
    }

    /// The page's memory is given back: absent and unlatched. The version grows, so no stale copy passes for new.
    pub fn end_evict(&self) {
        let word = self.0.load(Ordering::Relaxed);
        let next = word.wrapping_add(VERSION_ONE) & !(EXCLUSIVE | RESIDENT | MARKED);
        self.0.store(next, Ordering::Release);
    }

    /// Takes a shared latch without waiting, leaving the mark alone: cleaning a page is no use of it.
    pub fn try_shared_unmarked(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        word & (RESIDENT | EXCLUSIVE) == RESIDENT
            && word & SHARED != SHARED
            && !is_foreign(word)
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
        self.0.store(word.wrapping_add(VERSION_ONE - EXCLUSIVE) | dirty, Ordering::Relaxed);
    }

    /// The page becomes the property of the owner for whom the calling thread acts. Waits for those who hold it; an
    /// absent page can be owned too, and whoever reads it in leaves that as it is.
    ///
    /// # Errors
    /// [`Refused::Busy`], and [`Refused::Foreign`] when it is another owner's.
    ///
    /// # Panics
    /// When the thread acts for nobody.
    pub fn own(&self) -> Result<(), Refused> {
        let mine = mine();
        assert!(mine != NO_OWNER, "a thread that acts for no owner takes a page");
        let mut backoff = Backoff::new();
        loop {
            let word = self.0.load(Ordering::Relaxed);
            if word & OWNER == mine {
                return Ok(());
            }
            if is_foreign(word) {
                return Err(Refused::Foreign);
            }
            if word & RESIDENT == 0 {
                // Whoever loads it, now or later, changes the word by read-modify-writes only.
                if self.swap(word, word | mine) {
                    return Ok(());
                }
            } else {
                match self.exclusive() {
                    Ok(_) => {
                        self.own_held();
                        self.unlock_exclusive(Change::Nothing);
                        return Ok(());
                    }
                    Err(Refused::Absent) => {}
                    Err(refused) => return Err(refused),
                }
            }
            backoff.wait_bounded().map_err(|_| Refused::Busy)?;
        }
    }

    /// As [`PageLatch::own`], by the holder of the exclusive latch; for a thread that acts for nobody nothing happens.
    pub fn own_held(&self) {
        let mine = mine();
        if mine != NO_OWNER {
            self.0.fetch_or(mine, Ordering::Relaxed);
        }
    }

    /// The page is nobody's from now on: latches protect it again. Its owner holds nothing of it.
    ///
    /// # Errors
    /// [`Refused::Busy`] when the owner itself holds it, [`Refused::Foreign`] when it is another's.
    pub fn disown(&self) -> Result<(), Refused> {
        loop {
            let word = self.0.load(Ordering::Relaxed);
            if word & OWNER == 0 {
                return Ok(());
            }
            if is_foreign(word) {
                return Err(Refused::Foreign);
            }
            if word & RESIDENT != 0 && word & (SHARED | EXCLUSIVE) != 0 {
                return Err(Refused::Busy);
            }
            // What the owner did by plain stores is seen by whoever latches next.
            let done = self.0.compare_exchange(word, word & !OWNER, Ordering::Release, Ordering::Relaxed);
            if done.is_ok() {
                return Ok(());
            }
        }
    }

    /// As [`PageLatch::disown`], whoever the owner was: there is no thread any more that acts for it, or it holds the page
    /// exclusively and gives it away.
    pub fn abandon_owner(&self) {
        if self.0.load(Ordering::Relaxed) & OWNER != 0 {
            self.0.fetch_and(!OWNER, Ordering::Release);
        }
    }

    /// Whether the page is the calling thread's own.
    #[inline]
    pub fn is_mine(&self) -> bool {
        self.0.load(Ordering::Relaxed) & OWNER == mine()
    }

    /// Shared latch by plain loads and stores where the page is the thread's own, and by its latch where it is nobody's.
    /// While the page is being written, its owner is not alone with the word and does as others do.
    #[inline]
    pub(super) fn by_page_shared(&self) -> Result<u64, Refused> {
        // Acquire, as the page may have been loaded or written out by others.
        let word = self.0.load(Ordering::Acquire);
        if word & (OWNER | WRITING | RESIDENT | EXCLUSIVE) != mine() | RESIDENT {
            return self.shared();
        }
        self.0.store((word + SHARED_ONE) & !MARKED, Ordering::Relaxed);
        Ok(word >> VERSION_SHIFT)
    }

    #[inline]
    pub(super) fn by_page_unlock_shared(&self) {
        let word = self.0.load(Ordering::Relaxed);
        if word & (OWNER | WRITING) != mine() {
            return self.unlock_shared();
        }
        debug_assert!(word & SHARED != 0, "a shared latch was let go that nobody held");
        self.0.store(word - SHARED_ONE, Ordering::Release);
    }

    #[inline]
    pub(super) fn by_page_exclusive(&self) -> Result<u64, Refused> {
        let word = self.0.load(Ordering::Acquire);
        if word & (OWNER | WRITING | RESIDENT | EXCLUSIVE | SHARED) != mine() | RESIDENT {
            return self.exclusive();
        }
        self.0.store((word | EXCLUSIVE) & !MARKED, Ordering::Relaxed);
        Ok(Self::claimed(word))
    }

    #[inline]
    pub(super) fn by_page_unlock_exclusive(&self, change: Change) {
        let word = self.0.load(Ordering::Relaxed);
        if word & (OWNER | WRITING) != mine() {
            return self.unlock_exclusive(change);
        }
        debug_assert!(word & EXCLUSIVE != 0, "an exclusive latch was let go that nobody held");
        let dirty = if change == Change::Bytes { DIRTY } else { 0 };
        self.0.store(word.wrapping_add(VERSION_ONE - EXCLUSIVE) | dirty, Ordering::Release);
    }
}
