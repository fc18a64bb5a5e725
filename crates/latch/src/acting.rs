//! The owner for which a thread acts when pages have owners.
//!
//! Pages may be divided among owners. At most one thread at a time acts for an owner. A page's word
//! names its owner ([`PageLatch`](crate::PageLatch)). A thread declares once for which owner it
//! acts, and leaves the pages of other owners alone.

use std::cell::Cell;
use std::fmt;

/// Number of owners: the values that fit a page's word, less the one for no owner.
const MOST: u16 = 1023;

thread_local! {
    static ACTING: Cell<u64> = const { Cell::new(super::page_latch::NO_OWNER) };
    static CLAIMING: Cell<bool> = const { Cell::new(false) };
}

/// One of the owners among which pages are divided.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OwnerId(u16);

impl OwnerId {
    /// The owner with number `n`, counted from 0; `None` for 1023 and above.
    pub fn new(n: usize) -> Option<OwnerId> {
        u16::try_from(n).ok().filter(|n| *n < MOST).map(|n| OwnerId(n + 1))
    }

    /// Its number, counted from 0.
    pub fn number(self) -> usize {
        usize::from(self.0) - 1
    }

    /// Its value in page words, above zero.
    pub(crate) fn raw(self) -> u64 {
        self.0.into()
    }

    pub(crate) fn from_raw(raw: u64) -> Option<OwnerId> {
        u16::try_from(raw).ok().filter(|n| *n > 0).map(OwnerId)
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "owner {}", self.number())
    }
}

/// From now on the calling thread acts for `owner`, or for none. The caller guarantees that no two
/// threads act for one owner at a time.
pub fn act_for(owner: Option<OwnerId>) {
    ACTING.with(|a| a.set(super::page_latch::owner_bits(owner)));
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
    CLAIMING.with(Cell::get) && mine() != super::page_latch::NO_OWNER
}

/// The owner for which the calling thread acts.
pub fn acting_for() -> Option<OwnerId> {
    super::page_latch::owner_in(mine())
}

/// The owner bits of the pages that belong to the calling thread's owner. If it has none, a value
/// that no word has.
#[inline]
pub(crate) fn mine() -> u64 {
    ACTING.with(Cell::get)
}
