//! The order in which a thread may take latches, checked in debug builds.
//!
//! ```text
//!   holds HeapPage:  may ask for LockBucket, LogTail, ...  and for another HeapPage
//!                    may not ask for TreePage              two threads could wait for each other
//! ```
//!
//! Each class of latches has a [`Rank`]. A debug build keeps a record of the latches that a thread
//! holds, and panics if the thread is about to wait for one that the order does not allow. The
//! panic names both ranks and both places in the code. A latch that is taken without waiting is
//! entered in the record and not checked: a thread that does not wait closes no cycle of waiting
//! threads. A wait while it is held can close one, and is checked.
//!
//! A thread holds several pages of one tree at a time. Their rank is the same; their order follows
//! from the tree, and is checked once the place of the page in it is known ([`TreePlace`]).
//!
//! The record belongs to the thread, not to the task. That is exact, because no task keeps a latch
//! across an await: the guards stay on their thread ([`Held`] is not `Send`), and the executor of a
//! worker calls [`assert_none_held`] after each step of a task.
//!
//! In a release build all of this is empty: [`Held`] and [`RankTag`] have no bytes, and the
//! functions no code.

use std::marker::PhantomData;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

#[cfg(debug_assertions)]
use std::panic::Location;

/// The classes of latches, in the order in which a thread may take them. A thread that holds one
/// waits only for latches of later classes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rank {
    /// The store's checkpoint: held from its begin to its end.
    Checkpoint,
    /// The rows of the catalog in memory.
    Catalog,
    /// The sub-trees of multi-rooted trees. Held while they are read from their pages.
    CatalogRoots,
    /// A page of a B+tree. Several are held at a time: parent before child, a sub-tree before the
    /// next one, the partition table last.
    TreePage,
    /// A page of a heap: rows, directory or root. Several are held at a time, in the heap's order.
    HeapPage,
    /// The deadlock detector of a lock table.
    LockDetector,
    /// The list of a locker's intention locks.
    LockFast,
    /// A bucket of the lock table.
    LockBucket,
    /// The wait of a locker, or its parked locks.
    LockSlot,
    /// The numbers of the lockers.
    LockNumbers,
    /// The device of the pool's writer. Held while a batch is written, and while the log is made
    /// durable before.
    PoolDevice,
    /// The right to copy pages for writing.
    PoolCopying,
    /// The lists of batches.
    PoolBatches,
    /// The table of reads under way.
    PoolReads,
    /// The list of waiters for a frame.
    PoolFrames,
    /// The queues of the replacement.
    PoolQueues,
    /// The requests to the owners of pages.
    PoolOffers,
    /// The free list of frames.
    PoolSlots,
    /// The allocator of pages.
    PoolAllocator,
    /// The seats of operations that gather pages.
    PoolSeats,
    /// The redo that restart has left for the first read of a page.
    Redo,
    /// The notes of the store. Held while a note's record is appended.
    Notes,
    /// The right to write the log and to sync it.
    LogFlush,
    /// The file of the next segment. Held while it is created.
    LogSpare,
    /// The list of segments. Held while a segment is begun or removed.
    LogSegments,
    /// The end of the log: one append, or a part of it.
    LogTail,
    /// Ranges of the log that were filled before earlier ones.
    LogEarly,
    /// A checkpoint of the main-memory store: held from its begin to its end.
    MemCheckpoint,
    /// The parts of a checkpoint.
    MemParts,
    /// The right to make the index of a table, and its memory.
    MemTables,
    /// The results of the threads that recover the store.
    MemRecovery,
    /// The next block of a stream of the log. Held while the block is made, and while the next
    /// segment is begun.
    MemStream,
    /// The control file. Held while it is replaced.
    MemControl,
    /// The segments of a stream before its current one.
    MemSegments,
    /// The progress of a stream's blocks and syncs.
    MemLanding,
    /// The log files that are kept to be written again. Held while one is renamed.
    MemSpares,
    /// The notes and the undecided transactions.
    MemNames,
    /// The state that the last worker of a number has left.
    MemWorkers,
    /// The buffer of a worker's log records: one append.
    MemBuffer,
    /// A queue of transactions for a contended row.
    MemTurns,
    /// Free blocks of one size.
    MemArena,
}

impl Rank {
    /// Whether a thread holds several latches of this class at a time. [`TreePlace`] has the order
    /// of a tree's pages; the order of a heap's pages is the matter of the heap.
    #[cfg(debug_assertions)]
    fn is_taken_in_numbers(self) -> bool {
        matches!(self, Rank::TreePage | Rank::HeapPage)
    }

    /// Whether a thread that holds a latch of this class may wait for one of class `next`.
    #[cfg(debug_assertions)]
    fn allows(self, next: Rank) -> bool {
        self < next || self == next && self.is_taken_in_numbers()
    }
}

/// The place of a page in a B+tree: its level, leaves being at level 0, and its keys.
///
/// A thread that holds pages of a tree does not wait for a page above one of them, nor for one to
/// the left of one of them at the same level. This is checked by keys and not by page numbers, and
/// two pages of different levels without a common key are not compared. Nor is a place that a sound
/// tree does not have: an empty range, or one outside of all held pages of the level above. The
/// operation reports such a page as damaged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreePlace {
    pub tree: u16,
    pub level: u8,
    /// The first key of the page's range.
    pub low: Vec<u8>,
    /// The first key behind the page's range; `None` if the range ends with the last key.
    pub high: Option<Vec<u8>>,
}

#[cfg(debug_assertions)]
impl TreePlace {
    /// Whether all keys of the page are below `key`.
    fn ends_by(&self, key: &[u8]) -> bool {
        self.high.as_deref().is_some_and(|high| high <= key)
    }

    /// Whether a thread that holds the page at this place may wait for the one at `next`.
    fn allows(&self, next: &TreePlace) -> bool {
        let is_above = next.level > self.level && !next.ends_by(&self.low) && !self.ends_by(&next.low);
        let is_left = next.level == self.level && next.ends_by(&self.low);
        self.tree != next.tree || !(is_above || is_left)
    }

    /// Whether a sound tree can have the page, if its thread holds pages at the places `held`.
    fn is_sound<'a>(&self, held: impl Iterator<Item = &'a TreePlace>) -> bool {
        let contains = |above: &TreePlace| {
            let is_within = above.high.is_none() || self.high.is_some() && self.high <= above.high;
            above.low <= self.low && is_within
        };
        let parents = held.filter(|place| place.tree == self.tree && place.level == self.level + 1);
        let (all, containing) = parents
            .fold((0, 0), |(all, containing), above| (all + 1, containing + usize::from(contains(above))));
        !self.ends_by(&self.low) && (all == 0 || containing > 0)
    }
}

/// A latch in the record of the thread that holds it; dropping it removes the entry.
#[must_use = "dropped, the latch counts as released"]
#[derive(Debug)]
pub struct Held {
    /// 0 for a latch without a rank.
    #[cfg(debug_assertions)]
    number: u64,
    /// The record is the thread's own.
    thread: PhantomData<*const ()>,
}

impl Held {
    /// To be called before the thread waits for a latch of this rank.
    ///
    /// # Panics
    /// In a debug build, if the thread holds a latch that must not be held then.
    #[inline(always)]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn checked(rank: Rank) -> Held {
        #[cfg(debug_assertions)]
        {
            record::check(rank, Location::caller());
            let number = record::enter(rank, Location::caller(), record::Taken::Waiting);
            Held { number, thread: PhantomData }
        }
        #[cfg(not(debug_assertions))]
        {
            let _ = rank;
            Held { thread: PhantomData }
        }
    }

    /// The thread has taken a latch of this rank without waiting.
    #[inline(always)]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn taken(rank: Rank) -> Held {
        #[cfg(debug_assertions)]
        {
            let number = record::enter(rank, Location::caller(), record::Taken::AtOnce);
            Held { number, thread: PhantomData }
        }
        #[cfg(not(debug_assertions))]
        {
            let _ = rank;
            Held { thread: PhantomData }
        }
    }

    /// The page that this latch protects is at `place` in a tree. Only the first call counts: the
    /// place is the one at which the page was latched.
    ///
    /// # Panics
    /// In a debug build, if the order of the tree's pages does not allow the latches that the
    /// thread holds.
    #[inline(always)]
    pub fn set_place(&self, place: impl FnOnce() -> Option<TreePlace>) {
        #[cfg(debug_assertions)]
        record::set_place(self.number, place);
        #[cfg(not(debug_assertions))]
        let _ = place;
    }

    #[inline(always)]
    const fn unranked() -> Held {
        Held {
            #[cfg(debug_assertions)]
            number: 0,
            thread: PhantomData,
        }
    }
}

#[cfg(debug_assertions)]
impl Drop for Held {
    fn drop(&mut self) {
        if self.number > 0 {
            record::leave(self.number);
        }
    }
}

/// Asserts in debug builds that the calling thread holds no latch.
///
/// # Panics
/// If it holds one.
#[inline(always)]
pub fn assert_none_held() {
    #[cfg(debug_assertions)]
    record::check_empty();
}

/// The rank of a mutex, as a field of it.
#[derive(Clone, Copy, Debug)]
pub struct RankTag {
    #[cfg(debug_assertions)]
    rank: Option<Rank>,
}

impl RankTag {
    /// A mutex without a rank: no other one is taken while it is held.
    pub const NONE: RankTag = RankTag {
        #[cfg(debug_assertions)]
        rank: None,
    };

    #[inline(always)]
    pub const fn of(rank: Rank) -> RankTag {
        #[cfg(not(debug_assertions))]
        let _ = rank;
        RankTag {
            #[cfg(debug_assertions)]
            rank: Some(rank),
        }
    }

    /// As [`Held::checked`].
    ///
    /// # Panics
    /// As [`Held::checked`].
    #[inline(always)]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn checked(self) -> Held {
        #[cfg(debug_assertions)]
        if let Some(rank) = self.rank {
            return Held::checked(rank);
        }
        Held::unranked()
    }

    /// As [`Held::taken`].
    #[inline(always)]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn taken(self) -> Held {
        #[cfg(debug_assertions)]
        if let Some(rank) = self.rank {
            return Held::taken(rank);
        }
        Held::unranked()
    }
}

/// A mutex of the system with a rank. It ignores poisoning, so it is for values that are consistent
/// between any two statements of their users.
#[derive(Debug)]
pub struct RankedMutex<T> {
    rank: RankTag,
    mutex: Mutex<T>,
}

impl<T> RankedMutex<T> {
    pub const fn new(rank: Rank, value: T) -> RankedMutex<T> {
        RankedMutex { rank: RankTag::of(rank), mutex: Mutex::new(value) }
    }

    /// Waits for the mutex and locks it.
    ///
    /// # Panics
    /// In a debug build, if the thread holds a latch that must not be held then ([`Rank`]).
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lock(&self) -> RankedGuard<'_, T> {
        let held = self.rank.checked();
        let guard = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
        RankedGuard { guard, held }
    }

    /// The value of a mutex that no thread uses any more.
    pub fn into_inner(self) -> T {
        self.mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the mutex unless it is locked.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn try_lock(&self) -> Option<RankedGuard<'_, T>> {
        let guard = match self.mutex.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(RankedGuard { guard, held: self.rank.taken() })
    }
}

/// Access to the value of a [`RankedMutex`]; unlocks when dropped.
#[derive(Debug)]
pub struct RankedGuard<'a, T> {
    /// The first field: the mutex is unlocked before its entry leaves the record.
    guard: MutexGuard<'a, T>,
    held: Held,
}

impl<'a, T> RankedGuard<'a, T> {
    /// Unlocks, waits for `signal` at most for `most`, and locks again.
    pub fn wait_timeout(self, signal: &Condvar, most: Duration) -> RankedGuard<'a, T> {
        let RankedGuard { guard, held } = self;
        let (guard, _) = signal.wait_timeout(guard, most).unwrap_or_else(PoisonError::into_inner);
        RankedGuard { guard, held }
    }
}

impl<T> std::ops::Deref for RankedGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> std::ops::DerefMut for RankedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// The latches that the calling thread holds.
#[cfg(debug_assertions)]
mod record {
    use super::{Rank, TreePlace};
    use std::cell::{Cell, RefCell};
    use std::panic::Location;

    /// In the order in which the latches were taken.
    struct Entry {
        number: u64,
        rank: Rank,
        at: &'static Location<'static>,
        taken: Taken,
        place: Option<TreePlace>,
    }

    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(super) enum Taken {
        Waiting,
        AtOnce,
    }

    thread_local! {
        static HELD: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
        static NEXT: Cell<u64> = const { Cell::new(1) };
    }

    /// The text of the panic, if `allowed` is false for a latch that is held. A thread that panics
    /// already, or that ends, is not checked.
    fn offence(allowed: impl Fn(Rank) -> bool) -> Option<(Rank, &'static Location<'static>)> {
        if std::thread::panicking() {
            return None;
        }
        let held = |held: &RefCell<Vec<Entry>>| {
            held.borrow().iter().find(|entry| !allowed(entry.rank)).map(|entry| (entry.rank, entry.at))
        };
        HELD.try_with(held).ok().flatten()
    }

    pub(super) fn check(next: Rank, at: &Location<'_>) {
        if let Some((rank, since)) = offence(|held| held.allows(next)) {
            panic!("latch order: {next:?} is asked for at {at} while {rank:?} is held, taken at {since}");
        }
    }

    pub(super) fn check_empty() {
        if let Some((rank, since)) = offence(|_| false) {
            panic!("latch order: a task waits while {rank:?} is held, taken at {since}");
        }
    }

    pub(super) fn set_place(number: u64, place: impl FnOnce() -> Option<TreePlace>) {
        let offence = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            let own = held.iter().position(|entry| entry.number == number)?;
            if held[own].place.is_some() || std::thread::panicking() {
                return None;
            }
            let place = place()?;
            if !place.is_sound(held.iter().filter_map(|entry| entry.place.as_ref())) {
                return None;
            }
            held[own].place = Some(place);
            let inverted = |first: &Entry, next: &Entry| match (&first.place, &next.place) {
                (Some(held), Some(asked)) if next.taken == Taken::Waiting && !held.allows(asked) => {
                    let (first, next) = (first.at, next.at);
                    Some(format!("{asked:?} is asked for at {next} while {held:?} is held, taken at {first}"))
                }
                _ => None,
            };
            let before = held[..own].iter().find_map(|first| inverted(first, &held[own]));
            before.or_else(|| held[own + 1..].iter().find_map(|next| inverted(&held[own], next)))
        });
        if let Ok(Some(offence)) = offence {
            panic!("latch order: {offence}");
        }
    }

    pub(super) fn enter(rank: Rank, at: &'static Location<'static>, taken: Taken) -> u64 {
        let number = NEXT.try_with(|next| next.replace(next.get() + 1)).unwrap_or(0);
        let _ = HELD.try_with(|held| held.borrow_mut().push(Entry { number, rank, at, taken, place: None }));
        number
    }

    pub(super) fn leave(number: u64) {
        // Guards are dropped in any order.
        let _ = HELD.try_with(|held| held.borrow_mut().retain(|entry| entry.number != number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SpinMutex;

    /// The text of the panic of `f`, which runs in a thread of its own.
    fn panic_of(f: impl FnOnce() + Send) -> Option<String> {
        let ended = std::thread::scope(|s| s.spawn(f).join());
        ended.err().map(|why| *why.downcast::<String>().expect("a panic with a text"))
    }

    #[test]
    fn the_usual_order_passes() {
        let (tail, device) = (SpinMutex::ranked(Rank::LogTail, 0), RankedMutex::new(Rank::PoolDevice, 0));
        let parent = Held::checked(Rank::TreePage);
        let child = Held::checked(Rank::TreePage);
        drop(parent);
        let row = Held::checked(Rank::HeapPage);
        drop((child, device.lock(), tail.lock()));
        *tail.lock() += 1;
        drop(row);
        let above = Held::checked(Rank::Catalog);
        drop((Held::checked(Rank::TreePage), above));
        assert_none_held();
    }

    #[test]
    #[cfg(debug_assertions)]
    fn a_planted_inversion_panics() {
        let (tail, device) = (SpinMutex::ranked(Rank::LogTail, 0), RankedMutex::new(Rank::PoolDevice, 0));
        let text = panic_of(|| drop((tail.lock(), device.lock()))).expect("an inversion");
        assert!(text.contains("PoolDevice is asked for at") && text.contains("LogTail is held"), "{text}");
        assert_eq!(text.matches("rank.rs:").count(), 2, "{text}");
        let same = RankedMutex::new(Rank::PoolDevice, 0);
        assert!(panic_of(|| drop((device.lock(), same.lock()))).is_some(), "two of one class");
        let pages = || drop((Held::checked(Rank::HeapPage), Held::checked(Rank::TreePage)));
        assert!(panic_of(pages).is_some(), "a tree's page after a heap's");
    }

    #[test]
    #[cfg(debug_assertions)]
    fn pages_of_a_tree_are_taken_downwards_and_to_the_right() {
        let place = |level, low: &[u8], high: Option<&[u8]>| TreePlace {
            tree: 7,
            level,
            low: low.to_vec(),
            high: high.map(<[u8]>::to_vec),
        };
        let (root, other) = (place(2, b"", None), TreePlace { tree: 8, ..place(2, b"", None) });
        let (left, right) = (place(1, b"", Some(b"m")), place(1, b"m", None));
        let (first, last) = (place(0, b"", Some(b"c")), place(0, b"t", None));
        let taken = |held: Held, place: &TreePlace| {
            held.set_place(|| Some(place.clone()));
            held
        };
        let one_by_one = |places: &[&TreePlace]| {
            let take = |place: &&TreePlace| taken(Held::checked(Rank::TreePage), place);
            panic_of(|| drop(places.iter().map(take).collect::<Vec<_>>()))
        };
        assert_eq!(one_by_one(&[&root, &left, &right, &last]), None);
        assert_eq!(one_by_one(&[&root, &left, &first, &right, &last, &other]), None);
        for inverted in [[&right, &left], [&last, &first], [&last, &right], [&first, &root]] {
            let text = one_by_one(&inverted).unwrap_or_else(|| panic!("{inverted:?} was not found"));
            assert!(text.contains("latch order: TreePlace"), "{text}");
        }
        // A damaged tree is the matter of the operation that meets it.
        let (empty, outside) = (place(0, b"c", Some(b"b")), place(0, b"a", Some(b"c")));
        assert_eq!(one_by_one(&[&last, &empty]), None);
        assert_eq!(one_by_one(&[&right, &last, &outside]), None);
        // No thread holds a new page, so taking it is no wait. Places become known in any order.
        let new = || {
            drop((taken(Held::checked(Rank::TreePage), &last), taken(Held::taken(Rank::TreePage), &first)))
        };
        assert_eq!(panic_of(new), None);
        let late = || {
            let (held, asked) = (Held::checked(Rank::TreePage), Held::checked(Rank::TreePage));
            drop((taken(asked, &left), taken(held, &right)));
        };
        assert!(panic_of(late).is_some());
    }

    #[test]
    #[cfg(debug_assertions)]
    fn a_latch_taken_without_waiting_is_held_and_not_checked() {
        let (tail, device) = (SpinMutex::ranked(Rank::LogTail, 0), RankedMutex::new(Rank::PoolDevice, 0));
        assert_eq!(panic_of(|| drop((tail.lock(), device.try_lock()))), None);
        assert!(panic_of(|| drop((tail.try_lock(), device.lock()))).is_some(), "the record has it");
    }

    #[test]
    #[cfg(debug_assertions)]
    fn a_task_that_waits_with_a_latch_is_found() {
        let text = panic_of(|| {
            let _held = Held::taken(Rank::HeapPage);
            assert_none_held();
        });
        assert!(text.is_some_and(|text| text.contains("a task waits while HeapPage is held")));
    }

    #[test]
    fn a_release_build_has_nothing_of_it() {
        let expected = if cfg!(debug_assertions) { 8 } else { 0 };
        assert_eq!(size_of::<Held>(), expected);
        assert_eq!(size_of::<RankTag>() > 0, cfg!(debug_assertions));
        assert_eq!(std::mem::needs_drop::<Held>(), cfg!(debug_assertions));
    }
}
