//! For whom a thread acts when pages have owners.
//!
//! Pages may be divided among owners, each of whom is one thread at a time; a page's word says whose it is
//! ([`PageLatch`](crate::PageLatch)). A thread says once for which owner it acts; what it finds to be another owner's
//! it leaves alone.

use std::cell::Cell;
use std::fmt;

/// Owners there can be: what a page's word has room for, less the number that stands for nobody.
const MOST: u16 = 1023;

thread_local! {
    static ACTING: Cell<u64> = const { Cell::new(super::page_latch::NO_OWNER) };
    static CLAIMING: Cell<bool> = const { Cell::new(false) };
}

/// One of those among whom pages are divided.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OwnerId(u16);

impl OwnerId {
    /// The owner number `n`, from 0 on; `None` beyond the 1023 there can be.
    pub fn new(n: usize) -> Option<OwnerId> {
        u16::try_from(n).ok().filter(|n| *n < MOST).map(|n| OwnerId(n + 1))
    }

    /// Its number, from 0 on.
    pub fn number(self) -> usize {
        usize::from(self.0) - 1
    }

    /// As page words carry it, above zero.
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

/// From now on the calling thread acts for `owner`, or for none. That no two threads act for one owner at a time is
/// the caller's promise.
pub fn act_for(owner: Option<OwnerId>) {
    ACTING.with(|a| a.set(super::page_latch::owner_bits(owner)));
}

/// Whether a thread takes over what it comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claiming {
    /// Pages that may be owned and are nobody's become those of the owner for whom the thread acts when it changes them.
    Pages,
    Nothing,
}

/// What the calling thread does from now on with pages that may be owned and are nobody's.
pub fn claim(claiming: Claiming) {
    CLAIMING.with(|c| c.set(claiming == Claiming::Pages));
}

/// Whether the calling thread acts for an owner and takes over what may be owned.
#[inline]
pub fn is_claiming() -> bool {
    CLAIMING.with(Cell::get) && mine() != super::page_latch::NO_OWNER
}

/// For whom the calling thread acts.
pub fn acting_for() -> Option<OwnerId> {
    super::page_latch::owner_in(mine())
}

/// The owner's bits in the word of a page that is the calling thread's; no word has them if it acts for nobody.
#[inline]
pub(crate) fn mine() -> u64 {
    ACTING.with(Cell::get)
}
