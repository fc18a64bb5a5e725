//! The owners among which pages may be divided, and how a page's word names one.

use std::fmt;

/// Number of owners: the values that fit a page's word, less the one for no owner.
const MOST: u16 = 1023;

/// The bits of a page's word that name its owner.
pub(crate) const OWNER_SHIFT: u32 = 21;
pub(crate) const OWNER: u64 = 0x3ff << OWNER_SHIFT;
/// Owner bits of a thread that acts for no owner. No word has them.
pub(crate) const NO_OWNER: u64 = u64::MAX;

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

/// The bits of a word that name this owner.
pub(crate) fn owner_bits(owner: Option<OwnerId>) -> u64 {
    owner.map_or(NO_OWNER, |owner| owner.raw() << OWNER_SHIFT)
}

/// The owner that a word, or the bits of one, name.
pub(crate) fn owner_in(word: u64) -> Option<OwnerId> {
    if word == NO_OWNER { None } else { OwnerId::from_raw((word & OWNER) >> OWNER_SHIFT) }
}
