//! A row's life, from when it enters its index to when it has left it, as the word of its block says it to whoever comes by a
//! hint (`hints`), which may be as old as the store.
//!
//! ```text
//!   block taken: dead, its key is written --enter--> alive, in its index --leave--> dead --an epoch later--> block taken
//! ```
//! Who may do what: whoever puts a row into its leaf, which is locked, lets it enter; whoever has locked the row and taken it out
//! of its leaf lets it leave, and gives the block up only then. Anybody looks, and believes the key that stands in the block
//! if it is alive.
//!
//! Why it holds: who sees a row alive by [`enter`]'s store sees the key that was written before it. Who sees it alive by the
//! store of the life before looked before that life's end was visible, so before the block was given up, by the fences of
//! `epoch`: then nobody takes the block while it reads, and the key is the former one.

use super::sync::{AtomicU64, Ordering};

/// The bit of a row's word that says that it has not entered its index, or has left it, for ever.
pub(crate) const DEAD: u64 = 8;

/// It is about to be linked in its leaf, which is locked and has no other row of its key. Whoever comes by another way may see
/// it from here on: absent, as it is.
#[inline]
pub(crate) fn enter(word: &AtomicU64) {
    word.store(word.load(Ordering::Relaxed) & !DEAD, Ordering::Release);
}

/// It has been taken out of its leaf. `now` is its word but for that; a lock ends with it.
#[inline]
pub(crate) fn leave(word: &AtomicU64, now: u64) {
    word.store(now | DEAD, Ordering::Release);
}

/// Whether the row is in its index; what is read of its key after this is that row's.
#[inline]
pub(crate) fn is_there(word: &AtomicU64) -> bool {
    word.load(Ordering::Acquire) & DEAD == 0
}
