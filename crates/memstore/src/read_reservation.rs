//! Read reservations: the rows and leaves that a prepared part of a distributed transaction has
//! read stay unchanged until the decision. Each reader is counted in the row's or the leaf's own
//! word. While the count is not zero, no thread writes the row or enters a row into the leaf.
//!
//! Within one store, validation at a single moment is enough. Over several stores it is not, since
//! each part is validated at another moment, when its vote is asked for (write skew):
//!
//! ```text
//!   T1 reads a in store A, writes b in store B      T2 reads b in store B, writes a in store A
//!
//!   store A: T1 validates a -------------- T2 writes a      each read is valid when it is checked,
//!   store B: T2 validates b -------------- T1 writes b      and both commit
//! ```
//! So a row that was read has to stay as it is from its validation to the decision, as a row to be
//! written does. Readers do not exclude each other.
//!
//! Protocol: a reader adds itself to the count, and only then checks whether the row is locked or
//! the leaf has changed. A writer locks, and only then checks the count. Each puts a fence between
//! the two steps, so at least one of them sees the other and gives way. Both may.
//!
//! The count uses spare bits of existing words. In a row these are the upper bits of the word with
//! the address of its older version; the holder of the lock changes the lower bits by additions, so
//! that no count is lost. In a leaf it is the place of the leftmost child, which leaves do not
//! have.

use super::sync::{AtomicU64, Ordering, fence};

/// One reader in a row's word: the lower bits are a [`Ref`](crate::arena::Ref).
pub(crate) const OF_ROW: u64 = 1 << 44;
/// One reader in a leaf's word.
pub(crate) const OF_LEAF: u64 = 1;

#[inline]
pub(crate) fn enter(word: &AtomicU64, one: u64) {
    word.fetch_add(one, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

#[inline]
pub(crate) fn leave(word: &AtomicU64, one: u64) {
    word.fetch_sub(one, Ordering::Release);
}

/// The bit of a row's word that says the row is hot (`hot`).
pub(crate) const HOT: u64 = 1 << 63;

/// Whether the count is above zero. The caller has taken the lock and then called [`settle`].
#[inline]
pub(crate) fn is_held(word: &AtomicU64, one: u64) -> bool {
    word.load(Ordering::Acquire) & !HOT >= one
}

/// The fence between locking and [`is_held`].
#[inline]
pub(crate) fn settle() {
    fence(Ordering::SeqCst);
}
