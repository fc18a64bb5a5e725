//! The page latch: one word per page that holds its latch, its version, its owner and its state.
//!
//! ```text
//!   63          31 30   21   20      19      18       17        16      15        0
//!  | version      | owner | writing | dirty | marked | resident | exclusive | shared |
//! ```
//!
//! A word of zero is a page that is not in memory. So a fresh zeroed array of words is a pool of
//! absent pages.
//!
//! | state | resident | exclusive | leaves by |
//! |---|---|---|---|
//! | absent | 0 | 0 | `begin_load` |
//! | loading | 0 | 1 | `end_load` (resident) or `abandon_load` (absent) |
//! | resident | 1 | 0 | a latch; `begin_evict` if it is unlatched and clean |
//! | latched | 1 | 1 | `unlock_exclusive`, `end_evict` (absent) |
//!
//! Access rules:
//! - *exclusive* is claimed by compare-and-swap. The thread then waits for the sharers to leave;
//!   new ones stay away, so a writer is not starved. Only the holder changes the page's bytes. It
//!   increments the version when it releases the latch.
//! - *dirty* is set by the holder of the exclusive latch. The one page writer clears it under a
//!   shared latch, sets *writing* in the same step, and clears *writing* when the bytes are in the
//!   file.
//! - *marked* (second chance: evict at the next visit) is set by the clock and cleared by a thread
//!   that latches the page or reads it.
//! - A page is evicted only if it is unlatched, not dirty and not being written.
//! - *owner*, if not zero, names the page's owner. Then **only the thread that acts for that owner
//!   ([`act_for`](crate::act_for)) changes the word while the page is resident**, except that the
//!   page writer clears *writing*. So while *writing* is clear, plain loads and stores suffice for
//!   the owner's thread ([`ByPage`](crate::ByPage)). All other threads are refused. Setting the
//!   owner of a resident page takes the exclusive latch, so earlier holders have left and the
//!   version has changed. The owner's thread clears it, and holds no latch on the page then.
//!   [`PageLatch::abandon_owner`] clears it if no thread acts for the owner, or for a thread that
//!   holds the page exclusively.
//! - *Optimistic readers* take no latch. A reader notes the word ([`PageLatch::glimpse`]), reads,
//!   and uses the result only if [`PageLatch::unchanged`] shows that no exclusive holder came
//!   meanwhile. So **a thread that changes a page's bytes or takes its memory away holds the page
//!   exclusively and leaves another version**: for a write, an eviction and a load alike. (An owner
//!   under `Owned` does so too; its own thread is its only reader.)
//!
//! Memory ordering: taking a latch is Acquire and releasing it is Release, so the next holder sees
//! all writes made under the latch. For optimistic readers, taking the exclusive latch is also
//! followed by a Release fence. It pairs with the Acquire fence before the reader's second look:
//!
//! ```text
//! writer: claim exclusive | fence Release | write bytes     | release, version + 1
//! reader: glimpse         | read bytes    | fence Acquire   | look again
//! ```
//!
//! A reader that saw one byte of a change sees the claim or a later state of the word, and discards
//! its result.

use super::acting::mine;
use super::backoff::Backoff;
use super::sync::{AtomicU64, Ordering, fence};
use crate::owner_id::{NO_OWNER, OWNER, OwnerId, owner_in};

const SHARED_ONE: u64 = 1;
const SHARED: u64 = 0xffff;
const EXCLUSIVE: u64 = 1 << 16;
const RESIDENT: u64 = 1 << 17;
const MARKED: u64 = 1 << 18;
const DIRTY: u64 = 1 << 19;
const WRITING: u64 = 1 << 20;
const VERSION_SHIFT: u32 = 31;
const VERSION_ONE: u64 = 1 << VERSION_SHIFT;
/// The part of the word that stays the same while no thread changes the page's bytes.
const STABLE: u64 = u64::MAX << VERSION_SHIFT | EXCLUSIVE | RESIDENT;

/// The reason why a latch was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The page is not in memory (or is being read in): load it and try again.
    Absent,
    /// Other threads held it for far longer than a latch may be held: release all latches and try
    /// again.
    Busy,
    /// It belongs to an owner for which the calling thread does not act.
    Foreign,
}

/// Whether a page with this word belongs to an owner for which the calling thread does not act.
#[inline]
fn is_foreign(word: u64) -> bool {
    word & OWNER != 0 && word & OWNER != mine()
}

/// Whether the holder of an exclusive latch changed the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageChange {
    Nothing,
    Bytes,
}

/// A snapshot of the word, for the page writer and the clock. Only a compare-and-swap from it
/// proves that it still holds.
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
    /// The page's owner; `None` if it has none and latches protect it.
    pub fn owner(self) -> Option<OwnerId> {
        owner_in(self.0 & OWNER)
    }
    /// Whether it belongs to an owner for which the calling thread does not act.
    #[inline]
    pub fn foreign(self) -> bool {
        is_foreign(self.0)
    }
    fn free(self) -> bool {
        self.0 & (SHARED | EXCLUSIVE) == 0
    }
}

/// The word that an optimistic reader found when it began: resident, not held exclusively.
#[derive(Clone, Copy, Debug)]
pub struct Glimpse(u64);

impl Glimpse {
    #[inline]
    pub fn version(self) -> u64 {
        self.0 >> VERSION_SHIFT
    }
    /// Whether the page belonged to an owner for which the calling thread does not act.
    #[inline]
    pub fn foreign(self) -> bool {
        is_foreign(self.0)
    }
}

/// The latch and state word of one page (see the top of the file).
#[repr(transparent)]
pub struct PageLatch(AtomicU64);

impl PageLatch {
    /// Wraps an existing word; zero is an absent page.
    pub const fn from_word(word: AtomicU64) -> PageLatch {
        PageLatch(word)
    }

    /// A snapshot of the word.
    #[inline]
    pub fn look(&self) -> Seen {
        Seen(self.0.load(Ordering::Acquire))
    }

    #[inline]
    fn swap(&self, from: u64, to: u64) -> bool {
        self.0.compare_exchange_weak(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes a shared latch. Waits for an exclusive holder. Returns the page's version.
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

    /// Releases a shared latch.
    #[inline]
    pub fn unlock_shared(&self) {
        let before = self.0.fetch_sub(SHARED_ONE, Ordering::Release);
        debug_assert!(before & SHARED != 0, "a shared latch was released that no thread held");
    }

    /// Begins a read without a latch. Waits for an exclusive holder. Writes to the word only if the
    /// page is marked for eviction, to clear the mark.
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

    /// Whether the bytes read since the glimpse were the whole page at that version.
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

    /// Called after the claim: no later write becomes visible before the claim.
    #[inline]
    fn claimed(word: u64) -> u64 {
        fence(Ordering::Release);
        word >> VERSION_SHIFT
    }

    /// Takes the exclusive latch. Waits for other holders. Returns the page's version.
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

    /// Called after the claim of *exclusive*: waits for the sharers. Gives the claim back if they
    /// stay.
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

    /// Releases the exclusive latch. The version grows by one.
    #[inline]
    pub fn unlock_exclusive(&self, change: PageChange) {
        // The page writer may clear `writing` at the same time, hence read-modify-writes.
        if change == PageChange::Bytes && self.0.load(Ordering::Relaxed) & DIRTY == 0 {
            self.0.fetch_or(DIRTY, Ordering::Relaxed);
        }
        let before = self.0.fetch_add(VERSION_ONE - EXCLUSIVE, Ordering::Release);
        debug_assert!(before & EXCLUSIVE != 0, "an exclusive latch was released that no thread held");
    }

    /// Absent to loading. False if the page is resident or another thread is loading it.
    pub fn begin_load(&self) -> bool {
        // Retries if only the owner has changed: an absent page may also get an owner.
        let load = |word| (word & (RESIDENT | EXCLUSIVE) == 0).then_some(word | EXCLUSIVE);
        let taken = self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, load).is_ok();
        fence(Ordering::Release);
        taken
    }

    /// Loading to resident and unlatched.
    pub fn end_load(&self) {
        self.0.fetch_add(RESIDENT + VERSION_ONE - EXCLUSIVE, Ordering::Release);
    }

    /// Loading to resident; the caller keeps the exclusive latch. Returns the page's version.
    pub fn end_load_exclusive(&self) -> u64 {
        self.0.fetch_or(RESIDENT, Ordering::Relaxed) >> VERSION_SHIFT
    }

    /// Loading back to absent.
    pub fn abandon_load(&self) {
        self.0.fetch_and(!EXCLUSIVE, Ordering::Release);
    }

    /// Marks the page for eviction at the next visit of the clock, unless a thread latches it
    /// before.
    pub fn mark(&self, seen: Seen) {
        if seen.free() && !seen.foreign() {
            let _ = self.0.compare_exchange(seen.0, seen.0 | MARKED, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Takes the exclusive latch of a resident, unlatched, clean page without waiting, to evict it.
    pub fn begin_evict(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        let taken = word & (RESIDENT | EXCLUSIVE | SHARED | DIRTY | WRITING) == RESIDENT
            && !is_foreign(word)
            && self.0.compare_exchange(word, word | EXCLUSIVE, Ordering::Acquire, Ordering::Relaxed).is_ok();
        fence(Ordering::Release);
        taken
    }

    /// The page's memory was released: absent and unlatched. The version grows, so a stale copy
    /// does not pass for a new one.
    pub fn end_evict(&self) {
        let word = self.0.load(Ordering::Relaxed);
        let next = word.wrapping_add(VERSION_ONE) & !(EXCLUSIVE | RESIDENT | MARKED);
        self.0.store(next, Ordering::Release);
    }

    /// Takes a shared latch without waiting and without clearing the mark: writing a page out does
    /// not count as use.
    pub fn try_shared_unmarked(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        word & (RESIDENT | EXCLUSIVE) == RESIDENT
            && word & SHARED != SHARED
            && !is_foreign(word)
            && self.0.compare_exchange(word, word + SHARED_ONE, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Dirty to being written. False if the page is clean. Called under a shared latch, by the page
    /// writer only.
    pub fn begin_write(&self) -> bool {
        if self.0.load(Ordering::Relaxed) & DIRTY == 0 {
            return false;
        }
        // No thread sets `dirty` while a shared latch is held, and only the page writer changes
        // these two bits.
        self.0.fetch_add(WRITING - DIRTY, Ordering::Relaxed);
        true
    }

    /// The bytes copied after [`PageLatch::begin_write`] are in the file.
    pub fn end_write(&self) {
        self.0.fetch_and(!WRITING, Ordering::Release);
    }

    /// The bytes did not reach the file: the page is dirty again.
    pub fn fail_write(&self) {
        self.0.fetch_or(DIRTY, Ordering::Relaxed);
        self.0.fetch_and(!WRITING, Ordering::Release);
    }

    /// Shared latch of an owned page by plain loads and stores, since no other thread changes the
    /// word.
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
    pub(super) fn owned_unlock_exclusive(&self, change: PageChange) {
        let dirty = if change == PageChange::Bytes { DIRTY } else { 0 };
        let word = self.0.load(Ordering::Relaxed);
        self.0.store(word.wrapping_add(VERSION_ONE - EXCLUSIVE) | dirty, Ordering::Relaxed);
    }

    /// Gives the page to the owner for which the calling thread acts. Waits for the holders of a
    /// latch. An absent page can be owned too; a thread that loads it leaves the owner as it is.
    ///
    /// # Errors
    /// [`Refused::Busy`], and [`Refused::Foreign`] if it belongs to another owner.
    ///
    /// # Panics
    /// If the thread acts for no owner.
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
                // A thread that loads it, now or later, changes the word by read-modify-writes
                // only.
                if self.swap(word, word | mine) {
                    return Ok(());
                }
            } else {
                match self.exclusive() {
                    Ok(_) => {
                        self.own_held();
                        self.unlock_exclusive(PageChange::Nothing);
                        return Ok(());
                    }
                    Err(Refused::Absent) => {}
                    Err(refused) => return Err(refused),
                }
            }
            backoff.wait_bounded().map_err(|_| Refused::Busy)?;
        }
    }

    /// As [`PageLatch::own`], by the holder of the exclusive latch. No effect for a thread that
    /// acts for no owner.
    pub fn own_held(&self) {
        let mine = mine();
        if mine != NO_OWNER {
            self.0.fetch_or(mine, Ordering::Relaxed);
        }
    }

    /// Takes the owner off the page: latches protect it again. The owner's thread holds no latch on
    /// it.
    ///
    /// # Errors
    /// [`Refused::Busy`] if the owner's thread holds it, [`Refused::Foreign`] if it belongs to
    /// another owner.
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
            // Release: the next thread that latches the page sees the owner's plain stores.
            let done = self.0.compare_exchange(word, word & !OWNER, Ordering::Release, Ordering::Relaxed);
            if done.is_ok() {
                return Ok(());
            }
        }
    }

    /// As [`PageLatch::disown`], for any owner. Either no thread acts for the owner, or the caller
    /// holds the page exclusively and gives it away.
    pub fn abandon_owner(&self) {
        if self.0.load(Ordering::Relaxed) & OWNER != 0 {
            self.0.fetch_and(!OWNER, Ordering::Release);
        }
    }

    /// Whether the page belongs to the calling thread's owner.
    #[inline]
    pub fn is_mine(&self) -> bool {
        self.0.load(Ordering::Relaxed) & OWNER == mine()
    }

    /// Shared latch: by plain loads and stores if the page belongs to the thread's owner, by the
    /// latch if it has no owner. While the page is being written, the page writer may change the
    /// word too, so the owner's thread uses the latch.
    #[inline]
    pub(super) fn by_page_shared(&self) -> Result<u64, Refused> {
        // Acquire, since another thread may have loaded the page or written it out.
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
        debug_assert!(word & SHARED != 0, "a shared latch was released that no thread held");
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
    pub(super) fn by_page_unlock_exclusive(&self, change: PageChange) {
        let word = self.0.load(Ordering::Relaxed);
        if word & (OWNER | WRITING) != mine() {
            return self.unlock_exclusive(change);
        }
        debug_assert!(word & EXCLUSIVE != 0, "an exclusive latch was released that no thread held");
        let dirty = if change == PageChange::Bytes { DIRTY } else { 0 };
        self.0.store(word.wrapping_add(VERSION_ONE - EXCLUSIVE) | dirty, Ordering::Release);
    }
}
