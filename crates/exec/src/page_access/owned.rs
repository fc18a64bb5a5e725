//! Locks where workers own keys: in the owner's table, one for all keys with the same first
//! columns.
//!
//! The workload chooses how many columns of a key a lock covers ([`txn::Workload::lock_columns`]),
//! and every choice is correct: each access acquires the lock of its key unless the transaction has
//! it already, so no step needs to declare beforehand the keys it will touch. But an access must
//! not touch keys of another worker; debug builds check that.
//!
//! A scan over keys of several workers is spread over the owners ([`txn::Spread`]), and this file
//! runs one share of it: the share locks and visits this worker's part of the range. If the entries
//! of an index are not cut like the rows, every owner goes through the same entries, which have no
//! owner and are latched, and visits its own rows. The owner of a row inserts and deletes the row's
//! entries under the row's lock. Each owner protects its own rows, so together they protect all
//! entries, and entries need no locks.

use super::{PageAccess, Purpose};
use crate::design::Design;
use crate::local::Protection;
use crate::seams;
use base::{Key, TableId, hash64};
use locks::LockName;
use store::Table;
use txn::{Abort, IndexDef, Range};

impl<D: Design> PageAccess<'_, D> {
    /// Whether neighbours and gaps are locked, too.
    #[inline]
    pub(super) fn ranges(&self) -> bool {
        !D::OWNERS && self.locks()
    }

    /// The name of a row's lock.
    #[inline]
    pub(super) fn name(&self, table: TableId, key: &[u8]) -> LockName {
        let locked = match &self.engine.owners {
            Some(owners) if D::OWNERS => owners.locked(table, key),
            _ => key,
        };
        LockName::key(table, hash64(locked))
    }

    /// Asserts in debug builds that this worker owns the key: no other worker's locks protect it.
    #[inline]
    pub(super) fn belongs(&self, table: TableId, key: &[u8]) {
        if cfg!(debug_assertions) && D::OWNERS && self.txn.protection != Protection::Exclusive {
            self.check_owner(table, key);
        }
    }

    fn check_owner(&self, table: TableId, key: &[u8]) {
        let owner = self.engine.owners.as_ref().and_then(|owners| owners.owner_of(table, key));
        assert!(
            owner.is_none_or(|owner| owner == self.txn.owner),
            "a step at worker {} touches key {key:02x?} of {table}, which worker {} owns: a step must touch keys of the \
             site that it is routed to, and no others",
            self.txn.owner,
            owner.unwrap_or_default(),
        );
    }

    /// Checks a row that a scan has met.
    #[inline]
    pub(super) fn met(&self, table: &Table, index: TableId, key: &[u8]) {
        if index == table.def.id {
            self.belongs(index, key);
        }
    }

    /// The rows that a scan of `range` visits; `None` for all that the range names.
    ///
    /// # Errors
    /// [`Abort::BadRequest`] for a scan that reaches other workers' keys, or other workers' rows
    /// through an index, without being a share of a spread step: no lock here protects those. The
    /// same for rows that have no certain owner.
    pub(super) fn own(&self, table: &Table, index: TableId, range: Range<'_>) -> Result<Option<Own>, Abort> {
        let Some(owners) = &self.engine.owners else { return Ok(None) };
        let Some(sites) = &self.txn.sites else {
            let is_open = range.low.is_none() || range.high.is_none();
            let is_astray = is_open && owners.divide(index) || !owners.holds_entries(index);
            let is_alone = self.txn.protection == Protection::Exclusive;
            return if is_astray && !is_alone { Err(Abort::BadRequest) } else { Ok(None) };
        };
        match owners.keys_of(table.def.id, sites) {
            // Every instance has a copy.
            None => Ok(None),
            Some(_) if table.def.key.is_empty() => Err(Abort::BadRequest),
            Some((from, to)) if owners.is_routed(index) => Ok(Some(Own { from, to, index: None })),
            Some((from, to)) => {
                let def = table.def.indexes.iter().find(|def| def.id == index);
                Ok(Some(Own { from, to, index: def.cloned() }))
            }
        }
    }

    /// Takes the lock for a scan: the one lock that covers the range, or the table lock, which
    /// covers all that this worker owns of the table.
    pub(super) async fn lock_range(
        &mut self,
        purpose: Purpose,
        table: &Table,
        index: TableId,
        range: Range<'_>,
    ) -> Result<(), Abort> {
        let id = table.def.id;
        let Some(owners) = seams::owners_of_ranges(self.engine.owners.as_ref()) else { return Ok(()) };
        match owners.covering(index, range.low, range.high) {
            Some((table, prefix)) => {
                self.belongs(table, prefix);
                self.lock(table, LockName::key(table, hash64(prefix)), purpose.row()).await
            }
            None => {
                range
                    .low
                    .into_iter()
                    .filter(|_| owners.is_routed(index))
                    .for_each(|low| self.belongs(id, low));
                self.lock_table(id, purpose.table()).await
            }
        }
    }
}

/// The rows that a scan may visit: those with keys from `from` to before `to`, or to the end of the
/// instance's keys if that is `None`.
pub(super) struct Own {
    from: Key,
    to: Option<Key>,
    /// Set if the entries of the index are not in the order of these keys. They have no owner then,
    /// and the scan filters them for the worker's own rows.
    index: Option<IndexDef>,
}

impl Own {
    /// The part of `range` to scan; `None` if it is empty.
    pub fn clip<'r>(&'r self, range: Range<'r>) -> Option<Range<'r>> {
        if self.index.is_some() {
            return Some(range);
        }
        let from = Some(self.from.as_slice()).filter(|from| !from.is_empty());
        let low = range.low.max(from);
        let high = match (range.high, self.to.as_deref()) {
            (Some(high), Some(to)) => Some(high.min(to)),
            (high, to) => high.or(to),
        };
        if low.zip(high).is_some_and(|(low, high)| low >= high) { None } else { Some(Range { low, high }) }
    }

    /// Whether an entry leads to one of the rows.
    pub fn has(&self, table: &Table, entry: &[u8]) -> bool {
        let Some(index) = &self.index else { return true };
        let key = table.def.key_in_entry(index, entry);
        key.is_some_and(|key| key >= self.from && self.to.as_ref().is_none_or(|to| key < *to))
    }
}
