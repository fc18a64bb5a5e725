//! A row's transaction id word (Silo, section 4.2): the transaction that wrote it last, and its
//! lock.
//!
//! ```text
//!   63 ......... 16 | 15 ........... 4 | 3 dead | 2 prepared | 1 absent | 0 locked
//!    epoch, 48 bits   number, 12 bits
//! ```
//! Each flush of the log ends an epoch, and so does each snapshot that is opened. 48 bits last for
//! nine years at a million snapshots a second. A store that has used them up commits nothing more
//! ([`LAST_EPOCH`]). When the numbers of an epoch are used up, the next epoch begins: a worker that
//! commits a million transactions a second begins about 250 of them per second.
//!
//! A row that was entered and never committed has the epoch of its entry and the number 0, which no
//! transaction has. A block becomes another row's only in a later epoch
//! ([`Local::reclaim`](crate::arena::Local::reclaim)). So the words at one address grow from one
//! row to the next, and a word says which of these rows it means.
//!
//! Absent: there is no such row, or not yet, or no longer. Dead: the row has also left the index,
//! for ever. Prepared: the lock is held while a distributed commit waits for its decision, which is
//! too long to wait for on the spot.

pub(crate) use crate::life::DEAD;
use std::sync::atomic::{AtomicU64, Ordering, fence};

pub(crate) const LOCKED: u64 = 1;
pub(crate) const ABSENT: u64 = 2;
pub(crate) const PREPARED: u64 = 4;
const FLAGS: u64 = 15;
const EPOCH_SHIFT: u32 = 16;
/// No transaction has an id of a later epoch.
pub(crate) const LAST_EPOCH: u64 = (1 << (u64::BITS - EPOCH_SHIFT)) - 1;
/// The last epoch for ordinary transactions. Those that were prepared before a restart may use the
/// epochs after it, up to [`LAST_EPOCH`]: they have to end.
pub(crate) const LAST_OF_ALL: u64 = LAST_EPOCH - (1 << 32);
const FIRST: u64 = FLAGS + 1;
const NUMBER: u64 = (1 << EPOCH_SHIFT) - FIRST;

#[inline]
pub(crate) fn epoch(tid: u64) -> u64 {
    tid >> EPOCH_SHIFT
}

/// The word of a row that is entered in this epoch and has never been committed.
#[inline]
pub(crate) fn entered(now: u64) -> u64 {
    now << EPOCH_SHIFT | ABSENT
}

/// Whether no transaction has ever committed the row.
#[inline]
pub(crate) fn was_only_entered(word: u64) -> bool {
    word & NUMBER == 0 && word & ABSENT != 0
}

/// The id without the flags; 0 for a row that was only entered.
#[inline]
pub(crate) fn of(word: u64) -> u64 {
    if was_only_entered(word) { 0 } else { word & !FLAGS }
}

/// The first id of an epoch, or the next one after `above`, if that is later; `None` when it is in
/// a later epoch.
#[inline]
pub(crate) fn next(now: u64, above: u64) -> Option<u64> {
    let tid = (now << EPOCH_SHIFT | FIRST).max((above & !FLAGS) + FIRST);
    (epoch(tid) == now).then_some(tid)
}

/// The result of an attempt to lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lock {
    /// With the word as it was before.
    Taken(u64),
    Busy(u64),
    Dead,
}

#[inline]
pub(crate) fn try_lock(word: &AtomicU64) -> Lock {
    let tid = word.load(Ordering::Relaxed);
    if tid & DEAD != 0 {
        return Lock::Dead;
    }
    if tid & LOCKED != 0 {
        return Lock::Busy(tid);
    }
    match word.compare_exchange(tid, tid | LOCKED, Ordering::Acquire, Ordering::Relaxed) {
        Ok(_) => {
            // A reader that sees a write made under the lock also sees the lock (see `row::read`).
            fence(Ordering::Release);
            Lock::Taken(tid)
        }
        Err(now) => Lock::Busy(now),
    }
}

/// Locks a row if its word still is the expected one. Otherwise nothing is written: the memory may
/// have become another row's meanwhile, or be free.
#[inline]
pub(crate) fn try_lock_as(word: &AtomicU64, expected: u64) -> Lock {
    match word.compare_exchange(expected, expected | LOCKED, Ordering::Acquire, Ordering::Relaxed) {
        Ok(_) => {
            fence(Ordering::Release);
            Lock::Taken(expected)
        }
        Err(now) if now & !PREPARED == expected | LOCKED => Lock::Busy(now),
        Err(_) => Lock::Dead,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_only_entered_comes_before_all_that_was_committed_in_its_epoch() {
        let (word, first) = (entered(7), next(7, 0).unwrap());
        assert!(
            was_only_entered(word)
                && !was_only_entered(first | ABSENT)
                && !was_only_entered(7 << EPOCH_SHIFT)
        );
        assert!(next(7, entered(7)) == Some(first) && next(6, entered(7)).is_none() && word < first);
        assert_eq!((of(word), of(first | ABSENT), epoch(word)), (0, first, 7));
    }

    #[test]
    fn a_word_is_locked_as_the_one_expected_or_left_alone() {
        let word = AtomicU64::new(entered(7));
        assert_eq!(try_lock_as(&word, entered(6)), Lock::Dead);
        assert_eq!(word.load(Ordering::Relaxed), entered(7));
        assert_eq!(try_lock_as(&word, entered(7)), Lock::Taken(entered(7)));
        for locked in [entered(7) | LOCKED, entered(7) | LOCKED | PREPARED] {
            word.store(locked, Ordering::Relaxed);
            assert_eq!(try_lock_as(&word, entered(7)), Lock::Busy(locked));
        }
    }

    #[test]
    fn ids_grow_within_an_epoch_and_end_with_it() {
        let first = next(7, 0).unwrap();
        assert_eq!((epoch(first), first & FLAGS), (7, 0));
        let second = next(7, first | ABSENT).unwrap();
        assert!(second > first && second & FLAGS == 0);
        assert_eq!(next(7, next(8, 0).unwrap()), None);
        assert_eq!(next(7, (8 << EPOCH_SHIFT) - 1), None, "the numbers of an epoch are used up");
    }
}
