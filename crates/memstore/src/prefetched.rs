//! The rows that were looked up in advance for a transaction, until its operations take them.

use crate::arena::Ref;
use crate::hints::Hash;

/// Look-ups in advance for one transaction.
#[derive(Default)]
pub(crate) struct Prefetched {
    pub(crate) seen: Vec<PrefetchedRow>,
    /// The first result that no operation has taken yet.
    next: usize,
}

pub(crate) struct PrefetchedRow {
    pub(crate) hash: Hash,
    pub(crate) row: Option<Ref>,
}

impl Prefetched {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.seen.clear();
        self.next = 0;
    }

    /// The row that was found for this key, if this is the next key and there was one.
    #[inline]
    pub(crate) fn take(&mut self, hash: Hash) -> Option<Ref> {
        let asked = self.seen.get(self.next).filter(|asked| asked.hash == hash)?;
        self.next += 1;
        asked.row
    }
}
