//! Locks where workers own keys: in the owner's table, one for all keys that begin alike.
//!
//! How much of a key a lock stands for is the workload's choice ([`txn::Workload::lock_columns`]), and right whatever it is: every
//! access asks for the lock of its key if the transaction has not got it yet, so no step needs to say beforehand what it
//! will touch. What an access may not do is reach past the keys that its worker owns; debug builds look.

use super::{Here, Purpose};
use crate::design::Design;
use crate::local::Protection;
use base::{TableId, hash64};
use locks::LockName;
use store::Table;
use txn::{Abort, Range};

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

    /// Before a scan.
    ///
    /// # Errors
    /// [`Abort::BadRequest`] for one that goes on into other workers' keys: nothing here keeps them as they are.
    pub(super) fn stays_inside(&self, index: TableId, range: Range<'_>) -> Result<(), Abort> {
        let Some(owners) = &self.engine.owners else { return Ok(()) };
        let is_open = range.low.is_none() || range.high.is_none();
        if is_open && self.part.protection != Protection::Quiet && owners.divide(index) {
            return Err(Abort::BadRequest);
        }
        Ok(())
    }

    /// Before a scan: the lock of the keys' common beginning, or of all that this worker owns of the table.
    ///
    /// # Errors
    /// [`Abort::BadRequest`] for an index whose entries lie with other workers than their rows.
    pub(super) async fn lock_range(
        &mut self,
        purpose: Purpose,
        table: &Table,
        index: TableId,
        range: Range<'_>,
    ) -> Result<(), Abort> {
        let id = table.def.id;
        let Some(owners) = &self.engine.owners else { return Ok(()) };
        if !owners.holds_entries(index) {
            return Err(Abort::BadRequest);
        }
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
                range.low.into_iter().for_each(|low| self.belongs(id, low));
                self.lock_table(id, purpose.table()).await
            }
        }
    }
}
