//! Locks where workers own keys: in the owner's table, one for all keys that begin alike.
//!
//! How much of a key a lock stands for is the workload's choice ([`txn::Workload::lock_columns`]), and right whatever it is: every
//! access asks for the lock of its key if the transaction has not got it yet, so no step needs to say beforehand what it
//! will touch. What an access may not do is reach past the keys that its worker owns; debug builds look.
//!
//! A scan that does so is spread over the owners ([`txn::Spread`]), and here is one share of it: it locks and visits what its worker owns
//! of the range. Through an index whose entries are not cut like the rows every owner goes through the same entries, which are
//! latched as anybody's are, and visits its own rows. An entry is put in and taken out by the owner of its row, under that row's
//! lock; so as each owner keeps its own rows as they are, all together keep the entries, and entries need no locks.

use super::{Here, Purpose};
use crate::design::Design;
use crate::local::Protection;
use base::{Key, TableId, hash64};
use locks::LockName;
use store::Table;
use txn::{Abort, IndexDef, Range};

impl<D: Design> Here<'_, D> {
    /// Whether neighbours and gaps are locked, too.
    #[inline]
    pub(super) fn ranges(&self) -> bool {
        !D::OWNERS && self.locks()
    }

    /// The lock of a row.
    #[inline]
    pub(super) fn name(&self, table: TableId, key: &[u8]) -> LockName {
        let locked = match &self.engine.owners {
            Some(owners) if D::OWNERS => owners.locked(table, key),
            _ => key,
        };
        LockName::key(table, hash64(locked))
    }

    /// Asserts in debug builds that this worker owns the key: nobody else's locks protect it.
    #[inline]
    pub(super) fn belongs(&self, table: TableId, key: &[u8]) {
        if cfg!(debug_assertions) && D::OWNERS && self.part.protection != Protection::Quiet {
            self.check_owner(table, key);
        }
    }

    fn check_owner(&self, table: TableId, key: &[u8]) {
        let owner = self.engine.owners.as_ref().and_then(|owners| owners.owner_of(table, key));
        assert!(
            owner.is_none_or(|owner| owner == self.part.owner),
            "a step at worker {} touches key {key:02x?} of {table}, which worker {} owns: a step must touch keys of the \
             site that it is routed to, and no others",
            self.part.owner,
            owner.unwrap_or_default(),
        );
    }

    /// A row that a scan has met.
    #[inline]
    pub(super) fn met(&self, table: &Table, index: TableId, key: &[u8]) {
        if index == table.def.id {
            self.belongs(index, key);
        }
    }

    /// Which rows a scan of `range` is to visit; `None` for all that it names.
    ///
    /// # Errors
    /// [`Abort::BadRequest`] for one that goes on into other workers' keys, or through an index to other workers' rows, without being
    /// a share of a spread step: nothing here keeps those as they are. So for rows that nobody can be told to own.
    pub(super) fn own(&self, table: &Table, index: TableId, range: Range<'_>) -> Result<Option<Own>, Abort> {
        let Some(owners) = &self.engine.owners else { return Ok(None) };
        let Some(sites) = &self.part.sites else {
            let is_open = range.low.is_none() || range.high.is_none();
            let is_astray = is_open && owners.divide(index) || !owners.holds_entries(index);
            let is_alone = self.part.protection == Protection::Quiet;
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

    /// Before a scan: the lock of the keys' common beginning, or of all that this worker owns of the table.
    pub(super) async fn lock_range(
        &mut self,
        purpose: Purpose,
        table: &Table,
        index: TableId,
        range: Range<'_>,
    ) -> Result<(), Abort> {
        let id = table.def.id;
        let Some(owners) = &self.engine.owners else { return Ok(()) };
        #[cfg(feature = "planted")]
        if crate::planted::is(crate::planted::Bug::NoGapLocks) {
            return Ok(());
        }
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

/// What of a table a scan may visit: the rows with keys from `from` to before `to`, to the end of the instance's if that is `None`.
pub(super) struct Own {
    from: Key,
    to: Option<Key>,
    /// Of an index whose entries are not in the order of these keys: they are anybody's, and looked through for the worker's own.
    index: Option<IndexDef>,
}

impl Own {
    /// What of `range` is to be looked through; `None` if it is nothing.
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
        key.is_some_and(|key| key >= self.from.as_slice() && self.to.as_deref().is_none_or(|to| key < to))
    }
}
