//! Batched look-up of the rows that a transaction is about to use.
//!
//! [`Store::prefetch`] finds the addresses of the rows and prefetches their bytes. The operations
//! that follow use these addresses, in the same order, as long as the index has not changed. The
//! look-up reads no row and holds no latch; an address that is no longer valid is looked up again.

use crate::catalog::tables::Table;
use crate::state::store::Store;
use access::{LANES, Sight};
use base::{Rid, TableId};
use latch::Policies;

/// The results of the look-ups for one transaction.
#[derive(Default)]
pub struct Prefetched {
    keys: Vec<u8>,
    seen: Vec<Seen>,
    /// The first result that no operation has used yet.
    next: usize,
}

struct Seen {
    table: TableId,
    /// Where its key ends in `keys`.
    end: u32,
    sight: Option<Sight>,
}

impl Prefetched {
    /// Forgets everything.
    #[inline]
    pub fn clear(&mut self) {
        self.keys.clear();
        self.seen.clear();
        self.next = 0;
    }

    fn note(&mut self, table: TableId, key: &[u8]) {
        self.keys.extend_from_slice(key);
        self.seen.push(Seen { table, end: self.keys.len() as u32, sight: None });
    }

    /// The result for this key, if it is the next one.
    #[inline]
    pub fn take(&mut self, table: TableId, key: &[u8]) -> Option<Sight> {
        let seen = self.seen.get(self.next)?;
        let start = self.next.checked_sub(1).map_or(0, |before| self.seen[before].end as usize);
        if seen.table != table || &self.keys[start..seen.end as usize] != key {
            return None;
        }
        self.next += 1;
        seen.sight
    }
}

impl Store {
    /// Looks up the rows of `keys`, any number of them, and prefetches the bytes that will be read.
    #[inline]
    pub fn prefetch<P: Policies>(&self, table: &Table, keys: &[impl AsRef<[u8]>], into: &mut Prefetched) {
        // A batched look-up takes no latches, so it is only for policies under which readers take
        // none.
        if table.def.key.is_empty() || !self.pool.views::<P::Index>() {
            return;
        }
        for keys in keys.chunks(LANES) {
            let first = into.seen.len();
            keys.iter().for_each(|key| into.note(table.def.id, key.as_ref()));
            let seen = &mut into.seen[first..];
            self.tree(table)
                .find_batch::<P::Index>(keys.iter().map(AsRef::as_ref), |i, sight| seen[i].sight = sight);
            if table.is_clustered() {
                continue;
            }
            let rids = || seen.iter().filter_map(|seen| Rid::decode(seen.sight.as_ref()?.value(&self.pool)?));
            rids().for_each(|rid| self.heap(table).prefetch_slot::<P::Heap>(rid));
            rids().for_each(|rid| self.heap(table).prefetch_row::<P::Heap>(rid));
        }
    }
}
