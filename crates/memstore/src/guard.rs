//! What a prepared part of a distributed transaction has read is guarded until the decision: counted in the row's or the
//! leaf's own word, and nobody writes there, or enters a row, as long as anybody is counted.
//!
//! Validation at one moment is enough within a store. Over several it is not: each part is validated when its vote is asked
//! for, and between two of those moments another transaction may overwrite here what was read, having read there what
//! is going to be overwritten (write skew). So what was read has to stay as it is from its validation to the decision,
//! as what is written does. Readers do not exclude each other.
//!
//! Who may do what: a reader counts itself in, and only then looks whether the row is locked or the leaf has changed. A writer
//! locks, and only then looks whether anybody is counted. Each puts a fence between, so at least one of the two sees the
//! other and gives way; both may.
//!
//! The count is in bits of words that have room for it: of a row the upper ones of the word that names its older version
//! (whose lower ones the holder of the lock changes by additions, so that no count is lost), of a leaf the place of the
//! leftmost child, which leaves do not have.

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

/// Whether somebody is counted. The caller has locked, and a fence of [`settle`] lies between.
#[inline]
pub(crate) fn is_held(word: &AtomicU64, one: u64) -> bool {
    word.load(Ordering::Acquire) & !HOT >= one
}

/// Between locking and [`is_held`].
#[inline]
pub(crate) fn settle() {
    fence(Ordering::SeqCst);
}
