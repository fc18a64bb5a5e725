//! The life of a row, from its entry into the index to its removal, as the word of its block shows
//! it. A reader that follows a hint (`hints`) needs this: a hint may be as old as the store.
//!
//! ```text
//!   block taken: dead, its key is written --enter--> alive, in its index
//!                                                      |
//!                                                    leave
//!                                                      v
//!                                                    dead --an epoch later--> block taken
//! ```
//! Protocol:
//!
//! - The thread that puts a row into its leaf, which it has locked, calls [`enter`].
//! - The thread that has locked the row and taken it out of its leaf calls [`leave`], and gives up
//!   the block only after that.
//! - Any thread may look. It believes the key in the block if the row is alive.
//!
//! Why a reader that finds the row alive reads the right key:
//!
//! - If it sees the store of [`enter`], it also sees the key, which was written before.
//! - If it still sees the previous row of the block alive, it looked before the end of that row was
//!   visible, and so before the block was given up. By the fences of `epoch`, no thread takes the
//!   block while this reader is pinned: the key is the previous row's.

use super::sync::{AtomicU64, Ordering};

/// The bit of a row's word that says that it has not entered its index yet, or has left it for
/// ever.
pub(crate) const DEAD: u64 = 8;

/// The row is about to be linked into its leaf, which is locked and has no other row of its key.
/// From here on, a thread that comes by another way may see it: as an absent row, which is correct.
#[inline]
pub(crate) fn enter(word: &AtomicU64) {
    word.store(word.load(Ordering::Relaxed) & !DEAD, Ordering::Release);
}

/// The row has been taken out of its leaf. `now` is its word without the dead bit. This store also
/// ends the lock.
#[inline]
pub(crate) fn leave(word: &AtomicU64, now: u64) {
    word.store(now | DEAD, Ordering::Release);
}

/// Whether the row is in its index. A key that is read after this call is that row's.
#[inline]
pub(crate) fn is_there(word: &AtomicU64) -> bool {
    word.load(Ordering::Acquire) & DEAD == 0
}
