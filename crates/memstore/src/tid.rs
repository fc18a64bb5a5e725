//! A row's transaction id word (Silo, section 4.2): who wrote it last, and its lock.
//!
//! ```text
//!   63 ......... 16 | 15 ........... 4 | 3 dead | 2 prepared | 1 absent | 0 locked
//!    epoch, 48 bits   number, 12 bits
//! ```
//! Each flush of the log ends an epoch, and so does each snapshot that is opened: 48 bits last for nine years of a million
//! snapshots a second. A store that has used them up commits nothing more ([`LAST_EPOCH`]). When the numbers of an epoch are
//! used up, the next one begins: a worker that commits a million transactions a second begins 250 of them.
//!
//! A row that was only entered has the epoch in which that was, and the number 0, which no transaction has. Memory is of another row
//! in a later epoch only ([`Local::reclaim`](crate::arena::Local::reclaim)), so the words of what lies at one address grow from
//! life to life, and a word says which row is meant.
//!
//! Absent: there is no such row, or not yet, or no more. Dead: it has left the index as well, for ever. Prepared: the lock is
//! held over the time that a distributed commit takes, so waiting for it on the spot is out of the question.

pub(crate) use crate::life::DEAD;
use std::sync::atomic::{AtomicU64, Ordering, fence};

pub(crate) const LOCKED: u64 = 1;
pub(crate) const ABSENT: u64 = 2;
pub(crate) const PREPARED: u64 = 4;
const FLAGS: u64 = 15;
const EPOCH_SHIFT: u32 = 16;
/// No transaction has an id of a later one.
pub(crate) const LAST_EPOCH: u64 = (1 << (u64::BITS - EPOCH_SHIFT)) - 1;
/// Nor one of the last ones, but those that were prepared before: they have to end.
pub(crate) const LAST_OF_ALL: u64 = LAST_EPOCH - (1 << 32);
const FIRST: u64 = FLAGS + 1;
const NUMBER: u64 = (1 << EPOCH_SHIFT) - FIRST;

#[inline]
pub(crate) fn epoch(tid: u64) -> u64 {
    tid >> EPOCH_SHIFT
}

/// The word of a row that is entered in this epoch and was never there.
#[inline]
pub(crate) fn entered(now: u64) -> u64 {
    now << EPOCH_SHIFT | ABSENT
}

/// Whether nobody has ever committed the row.
#[inline]
pub(crate) fn was_only_entered(word: u64) -> bool {
    word & NUMBER == 0 && word & ABSENT != 0
}

/// The id without the flags; 0 of a row that was only entered.
#[inline]
pub(crate) fn of(word: u64) -> u64 {
    if was_only_entered(word) { 0 } else { word & !FLAGS }
}

/// The first id of an epoch, or the next after `above`, whichever is later; `None` when that is in a later epoch.
#[inline]
pub(crate) fn next(now: u64, above: u64) -> Option<u64> {
    let tid = (now << EPOCH_SHIFT | FIRST).max((above & !FLAGS) + FIRST);
    (epoch(tid) == now).then_some(tid)
}

/// How an attempt to lock went.
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
            // What is written under the lock is seen by nobody who does not also see the lock (see `row::read`).
            fence(Ordering::Release);
            Lock::Taken(tid)
        }
        Err(now) => Lock::Busy(now),
    }
}

/// Locks a row if its word still is this one. Where memory may have become another row's meanwhile, or none's, nothing is written.
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
