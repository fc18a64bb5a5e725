//! The owner for which a thread acts when pages have owners.
//!
//! Pages may be divided among owners. At most one thread at a time acts for an owner. A page's word
//! names its owner ([`PageLatch`](crate::PageLatch)). A thread declares once for which owner it
//! acts, and leaves the pages of other owners alone.

use crate::owner_id::{NO_OWNER, OwnerId, owner_bits, owner_in};
use std::cell::Cell;

thread_local! {
    static ACTING: Cell<u64> = const { Cell::new(NO_OWNER) };
    static CLAIMING: Cell<bool> = const { Cell::new(false) };
}

/// From now on the calling thread acts for `owner`, or for none. The caller guarantees that no two
/// threads act for one owner at a time.
pub fn act_for(owner: Option<OwnerId>) {
    ACTING.with(|a| a.set(owner_bits(owner)));
}

/// Whether a thread takes over pages without an owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claiming {
    /// A page that may be owned and has no owner goes to the thread's owner when the thread changes
    /// it.
    Pages,
    Nothing,
}

/// Sets how the calling thread treats pages that may be owned and have no owner.
pub fn claim(claiming: Claiming) {
    CLAIMING.with(|c| c.set(claiming == Claiming::Pages));
}

/// Whether the calling thread acts for an owner and takes over pages.
#[inline]
pub fn is_claiming() -> bool {
    CLAIMING.with(Cell::get) && mine() != NO_OWNER
}

/// The owner for which the calling thread acts.
pub fn acting_for() -> Option<OwnerId> {
    owner_in(mine())
}

/// The owner bits of the pages that belong to the calling thread's owner. If it has none, a value
/// that no word has.
#[inline]
pub(crate) fn mine() -> u64 {
    ACTING.with(Cell::get)
}
