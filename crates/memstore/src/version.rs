//! A node's version word: optimistic lock coupling (Leis et al., "The ART of Practical
//! Synchronization", DaMoN 2016).
//!
//! ```text
//!   63 ........................ 2 | 1 obsolete | 0 locked
//!        changes so far
//! ```
//!
//! Protocol:
//!
//! - Any thread reads the node's other words at any time, and believes none of them until [`check`]
//!   says that the version is still the one that [`begin`] returned.
//! - A thread that sets the locked bit by [`try_lock`], from the version it has read under, is the
//!   only writer. It ends that by [`unlock`], which gives another version, or by [`retire`]: then
//!   the node is never used again, and readers start over.
//! - No thread waits for a second lock while it holds one. The second is tried, and if that fails
//!   all locks are released.
//!
//! Orderings: the node's words are loaded and stored relaxed. The writer has a release fence after
//! locking, and the reader an acquire fence before its second look at the version. So a reader that
//! sees a word of a change also sees that the version has moved.

use super::sync::{AtomicU64, Backoff, Ordering, fence};

const LOCKED: u64 = 1;
const OBSOLETE: u64 = 2;
const CHANGE: u64 = 4;
/// The first version of a node.
pub(crate) const FRESH: u64 = CHANGE;

/// The version to read under, once no thread is changing the node; `None` when the node has left
/// the tree.
#[inline]
pub(crate) fn begin(word: &AtomicU64) -> Option<u64> {
    let mut wait = Backoff::new();
    loop {
        let v = word.load(Ordering::Acquire);
        if v & (LOCKED | OBSOLETE) == 0 {
            return Some(v);
        }
        if v & OBSOLETE != 0 {
            return None;
        }
        wait.wait();
    }
}

/// Whether the node has been unchanged since [`begin`] returned `seen`: then everything read since
/// is valid.
#[inline]
pub(crate) fn check(word: &AtomicU64, seen: u64) -> bool {
    fence(Ordering::Acquire);
    word.load(Ordering::Relaxed) == seen
}

/// Locks the node if its version is still `seen`.
#[inline]
pub(crate) fn try_lock(word: &AtomicU64, seen: u64) -> bool {
    let locked = word.compare_exchange(seen, seen | LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok();
    if locked {
        fence(Ordering::Release);
    }
    locked
}

/// Ends a change. Returns the new version.
#[inline]
pub(crate) fn unlock(word: &AtomicU64) -> u64 {
    let next = (word.load(Ordering::Relaxed) & !LOCKED) + CHANGE;
    word.store(next, Ordering::Release);
    next
}

/// Ends a lock under which nothing was changed.
#[inline]
pub(crate) fn unlock_unchanged(word: &AtomicU64) {
    word.store(word.load(Ordering::Relaxed) & !LOCKED, Ordering::Release);
}

/// Ends the lock of a node that has left the tree.
#[inline]
pub(crate) fn retire(word: &AtomicU64) {
    word.store(((word.load(Ordering::Relaxed) & !LOCKED) + CHANGE) | OBSOLETE, Ordering::Release);
}
