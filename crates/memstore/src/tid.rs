//! A row's transaction id word (Silo, section 4.2): who wrote it last, and its lock.
//!
//! ```text
//!   63 ......... 22 | 21 ........... 4 | 3 dead | 2 prepared | 1 absent | 0 locked
//!    epoch, 42 bits   number, 18 bits
//! ```
//! Each flush of the log ends an epoch, so 42 bits last for ten years of ten thousand flushes a second; when the numbers of
//! an epoch are used up, the next one begins.
//!
//! Absent: there is no such row, or not yet, or no more. Dead: it has left the index as well, for ever. Prepared: the lock is
//! held over the time that a distributed commit takes, so waiting for it on the spot is out of the question.

use std::sync::atomic::{AtomicU64, Ordering, fence};

pub(crate) const LOCKED: u64 = 1;
pub(crate) const ABSENT: u64 = 2;
pub(crate) const PREPARED: u64 = 4;
pub(crate) const DEAD: u64 = 8;
const FLAGS: u64 = 15;
const EPOCH_SHIFT: u32 = 22;

#[inline]
pub(crate) fn epoch(tid: u64) -> u64 {
    tid >> EPOCH_SHIFT
}

/// The id without the flags.
#[inline]
pub(crate) fn of(word: u64) -> u64 {
    word & !FLAGS
}

/// The first id of an epoch, or the next after `above`, whichever is later; `None` when that is in a later epoch.
#[inline]
pub(crate) fn next(now: u64, above: u64) -> Option<u64> {
    let tid = (now << EPOCH_SHIFT).max((above & !FLAGS) + FLAGS + 1);
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

#[cfg(test)]
mod tests {
    use super::*;

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
