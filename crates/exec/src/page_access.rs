//! Page access ([`PageAccess`]): the record operations of one transaction at this instance. Each
//! operation locks first and then calls the access methods.
//!
//! Transactions are serialisable by key-range locking on key *names* (Graefe's orthogonal form: a
//! lock has a part for the row and a part for the gap below it). A name exists whether or not its
//! row does, so an operation on one key needs its neighbour only for the sake of scans:
//!
//! | operation | locks, besides the table's intention lock |
//! |---|---|
//! | read k (found or not) | row S on k |
//! | update k | row X on k |
//! | insert k below n | row X + gap X on k; gap Insert on n for the moment of the insertion |
//! | delete k below n | row X + gap X on k; gap X on n |
//! | scan | row S + gap S on every key met, gap S on the key that ends it |
//! | scan through a secondary index | as for a scan, on the entries; row S on each row |
//! | scan of an index's entries alone | the same without the rows |
//! | scan for update | as the others with U in place of S on rows |
//! | scan of everything | S on the table (U for update) |
//! | append to a keyless table | none more: its readers lock the table |
//! | look | none: the caller reads each row again under its lock |
//!
//! Insert locks on one gap are compatible with each other and conflict with a scan's S: phantoms
//! cannot appear. An operation finds the neighbour, locks it, and tells the access method to act
//! only if that key still is the neighbour (`Expect::Next`). If it is not, the access method
//! returns the new neighbour, and the operation repeats. No operation waits for a lock while it
//! holds a latch. The entries of a table's secondary indexes are locked alike (`entries`).
//!
//! Where workers own keys, one lock in the owner's table stands for all keys with the same first
//! columns (`owned`): row S to read any of them, row X to update, insert or delete any of them. No
//! gap is locked, since a transaction that fills it needs the same lock.

use crate::design::Design;
use crate::executor::Executor;
use crate::local::{LocalTxn, Protection};
use crate::paged::PageEngine;
use access::Expect;
use base::{Key, TableId, hash64};
use locks::{LockName, Mode};
use probe::mark::{self, marked};
use probe::{Component, Counter};
use std::ops::Bound;
use std::pin::pin;
use store::{DeleteOutcome, Entries, InsertOutcome, StoreFault, Table, UpdateOutcome};
use txn::{Abort, Access, Direction, Flow, Inserted, Range, Route, Row, RowMut};

/// Page access: the rows of this instance as one local transaction sees them.
pub struct PageAccess<'a, D: Design> {
    pub engine: &'a PageEngine<D>,
    pub executor: &'a Executor,
    pub txn: &'a mut LocalTxn,
    /// The rows that the next scan is likely to visit; 0 if that is not known.
    expected: usize,
}

impl<'a, D: Design> PageAccess<'a, D> {
    pub fn new(engine: &'a PageEngine<D>, executor: &'a Executor, txn: &'a mut LocalTxn) -> Self {
        PageAccess { engine, executor, txn, expected: 0 }
    }
}

/// Repeats an operation on pages until it does not stop for a page or a latch. An absent page parks
/// the transaction.
macro_rules! retry {
    ($access:expr, $op:expr) => {{
        let mut seat = None;
        loop {
            match $op {
                Ok(value) => break value,
                // Boxed because it is rare, and the future of every operation would hold it.
                Err(stop) => Box::pin($access.engine.resume(stop, $access.txn.protection, &mut seat)).await?,
            }
        }
    }};
}

mod cursor;
mod entries;
mod owned;
mod scans;

/// Why rows are scanned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Read,
    /// The rows may be changed next.
    Update,
    /// The rows are not read: the caller wants the keys, or the entries of an index.
    Keys,
    /// As `Keys`, but next the caller changes one of the rows that the entries lead to.
    Choice,
}

impl Purpose {
    /// Whether the rows are not read.
    fn is_of_keys(self) -> bool {
        matches!(self, Purpose::Keys | Purpose::Choice)
    }

    /// The lock mode of the table if rows beneath it are to be locked.
    fn intention(self) -> Mode {
        self.row().above()
    }

    /// The lock mode of the table to cover all of it.
    fn table(self) -> Mode {
        match self {
            Purpose::Read | Purpose::Keys => Mode::S,
            Purpose::Update | Purpose::Choice => Mode::U,
        }
    }

    /// The lock mode of a key that the scan meets.
    fn key(self) -> Mode {
        match self {
            Purpose::Read | Purpose::Keys | Purpose::Choice => Mode::ROW_AND_GAP_S,
            Purpose::Update => Mode::ROW_U_AND_GAP_S,
        }
    }

    /// The lock mode of the row that an index entry leads to, or of the one lock for all rows of
    /// the range.
    fn row(self) -> Mode {
        match self {
            Purpose::Read | Purpose::Keys => Mode::ROW_S,
            Purpose::Update => Mode::ROW_U,
            Purpose::Choice => Mode::ROW_X,
        }
    }
}

/// Counts one record.
fn counted<T>(outcome: T) -> T {
    probe::count(Counter::Records);
    outcome
}

fn gap_name(index: TableId, next: Option<&[u8]>) -> LockName {
    next.map_or(LockName::end(index), |key| LockName::key(index, hash64(key)))
}

impl<'a, D: Design> PageAccess<'a, D> {
    /// Locks a key of `table` or of one of its indexes.
    #[inline]
    pub(crate) async fn lock(&mut self, table: TableId, name: LockName, mode: Mode) -> Result<(), Abort> {
        let _traced = marked::<{ mark::LOCK }>();
        pin!(self.engine.lock(self.executor, self.txn, &[LockName::table(table)], name, mode)).await
    }

    pub(crate) async fn lock_table(&mut self, table: TableId, mode: Mode) -> Result<(), Abort> {
        let _traced = marked::<{ mark::LOCK }>();
        self.engine.lock(self.executor, self.txn, &[], LockName::table(table), mode).await
    }

    /// The table. To be looked up **after** the wait for its lock: meanwhile the table may have
    /// been dropped, or have got another index.
    fn table(&self, id: TableId) -> Result<&'a Table, Abort> {
        self.engine.store.table(id).ok_or(Abort::BadRequest)
    }

    /// The table that an index belongs to; as [`PageAccess::table`].
    fn table_of(&self, index: TableId) -> Result<&'a Table, Abort> {
        self.engine.store.index(index).map(|(table, _)| table).ok_or(Abort::BadRequest)
    }

    /// Locks the table that an index belongs to, and returns it as it is after the wait.
    async fn lock_table_of(&mut self, index: TableId, mode: Mode) -> Result<&'a Table, Abort> {
        self.lock_table(self.table_of(index)?.def.id, mode).await?;
        self.table_of(index)
    }

    fn locks(&self) -> bool {
        self.txn.protection == Protection::Locks
    }

    /// Poisons the store: an index entry has no row, although no other transaction may be changing
    /// either.
    #[cold]
    fn lost_row(&self, table: &Table) -> Abort {
        let what = "an index entry has no row".to_owned();
        self.engine.store.poison(StoreFault::Broken { table: table.def.id, what });
        Abort::Fault
    }
}

impl<D: Design> Access for PageAccess<'_, D> {
    fn enter(&mut self, route: Route) -> Result<(), Abort> {
        match self.engine.owners.as_ref().and_then(|owners| owners.owner(route)) {
            Some(owner) if D::OWNERS && (owner != self.txn.owner || !self.engine.admit(self.txn)) => {
                Err(Abort::NotHere(owner as u16))
            }
            _ => Ok(()),
        }
    }

    fn within(&mut self, sites: Option<std::ops::Range<u32>>) -> Result<(), Abort> {
        if let (Some(owners), Some(sites)) = (self.engine.owners.as_ref().filter(|_| D::OWNERS), &sites) {
            owners.all_of(self.txn.owner, sites)?;
        }
        self.txn.sites = sites.filter(|_| D::OWNERS);
        Ok(())
    }

    fn expect(&mut self, rows: usize) {
        self.expected = rows;
    }

    fn wait_for_locks(&mut self, waits: bool) {
        self.txn.hurries = !waits;
    }

    #[inline]
    async fn read<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        let _traced = marked::<{ mark::READ }>();
        self.belongs(table, key);
        if self.locks() {
            pin!(self.lock(table, self.name(table, key), Mode::ROW_S)).await?;
        }
        let t = self.table(table)?;
        let seen = self.txn.prefetched.take(table, key);
        let mut f = Some(f);
        let read = retry!(
            self,
            self.engine.store.get_seen::<D::Latch, _>(t, key, seen, |bytes| f
                .take()
                .map(|f| f(Row::new(&t.layout, bytes))))
        );
        probe::add(Counter::Records, u64::from(read.is_some()));
        Ok(read.flatten())
    }

    #[inline]
    async fn update<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        let _traced = marked::<{ mark::UPDATE }>();
        self.belongs(table, key);
        if self.locks() {
            pin!(self.lock(table, self.name(table, key), Mode::ROW_X)).await?;
        }
        let t = self.table(table)?;
        let seen = self.txn.prefetched.take(table, key);
        let entries = if self.ranges() { Entries::HoldBack } else { Entries::Follow };
        let mut f = Some(f);
        let updated = retry!(
            self,
            self.engine.store.update_seen::<D::Latch, _>(
                &mut self.txn.store_txn,
                t,
                key,
                (seen, entries),
                |row| f.take().map(|f| f(row))
            )
        );
        let result = match updated {
            UpdateOutcome::Missing => return Ok(None),
            UpdateOutcome::Done(result) => result,
            UpdateOutcome::Entries(result) => {
                Box::pin(self.update_with_entries(t, key)).await?;
                result
            }
        };
        probe::count(Counter::Records);
        Ok(result)
    }

    fn prefetch(&mut self, table: TableId, keys: &[Key]) {
        let _traced = marked::<{ mark::AHEAD }>();
        let Some(t) = self.engine.store.table(table) else { return };
        if self.locks() {
            let locks = self.engine.locks(self.txn.owner);
            keys.iter().for_each(|key| locks.prefetch(self.name(table, key)));
        }
        self.engine.store.prefetch::<D::Latch>(t, keys, &mut self.txn.prefetched);
    }

    async fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<Inserted, Abort> {
        let _traced = marked::<{ mark::INSERT }>();
        self.belongs(table, key);
        if !self.ranges() {
            if self.locks() {
                self.lock(table, self.name(table, key), Mode::ROW_X).await?;
            }
            let t = self.table(table)?;
            let done = retry!(
                self,
                self.engine.store.insert::<D::Latch>(&mut self.txn.store_txn, t, key, row, Expect::Any)
            );
            return match done {
                InsertOutcome::Done => Ok(counted(Inserted::Done)),
                InsertOutcome::Exists => Ok(Inserted::Exists),
                InsertOutcome::Next(_) => unreachable!("any neighbour was accepted"),
                InsertOutcome::TooLong => Err(Abort::BadRequest),
            };
        }
        self.lock(table, LockName::key(table, hash64(key)), Mode::ROW_AND_GAP_X).await?;
        let t = self.table(table)?;
        let mut entries = self.lock_new(t, entries::of_row(t, row)).await?;
        let mut next = retry!(self, self.engine.store.successor::<D::Latch>(table, Bound::Excluded(key)));
        loop {
            let gap = gap_name(table, next.as_deref());
            self.lock(table, gap, Mode::GAP_INSERT).await?;
            let expect = Expect::Next(next.as_deref());
            let done = retry!(
                self,
                self.engine.store.insert::<D::Latch>(&mut self.txn.store_txn, t, key, row, expect)
            );
            probe::within(Component::Locking, || {
                self.engine.locks(self.txn.owner).release_instant(&mut self.txn.locker, gap)
            });
            match done {
                InsertOutcome::Done => {
                    self.settle_new(table, &mut entries).await?;
                    return Ok(counted(Inserted::Done));
                }
                InsertOutcome::Exists => {
                    self.release_gaps(&entries);
                    return Ok(Inserted::Exists);
                }
                InsertOutcome::Next(actual) => next = actual,
                InsertOutcome::TooLong => return Err(Abort::BadRequest),
            }
        }
    }

    async fn append(&mut self, table: TableId, row: &[u8]) -> Result<(), Abort> {
        let _traced = marked::<{ mark::APPEND }>();
        // A local transaction without locks need not build the future for one.
        if self.locks() {
            pin!(self.lock_table(table, Mode::IX)).await?;
        }
        let t = self.table(table)?;
        let fits = retry!(self, self.engine.store.append::<D::Latch>(&mut self.txn.store_txn, t, row));
        probe::add(Counter::Records, u64::from(fits));
        if fits { Ok(()) } else { Err(Abort::BadRequest) }
    }

    async fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        let _traced = marked::<{ mark::DELETE }>();
        self.belongs(table, key);
        if self.locks() {
            let mode = if self.ranges() { Mode::ROW_AND_GAP_X } else { Mode::ROW_X };
            self.lock(table, self.name(table, key), mode).await?;
        }
        let t = self.table(table)?;
        if self.ranges() {
            self.lock_entries_of(t, key).await?;
        }
        let mut next = None;
        if self.ranges() {
            next = retry!(self, self.engine.store.successor::<D::Latch>(table, Bound::Excluded(key)));
        }
        loop {
            let mut expect = Expect::Any;
            if self.ranges() {
                self.lock(table, gap_name(table, next.as_deref()), Mode::GAP_X).await?;
                expect = Expect::Next(next.as_deref());
            }
            let done =
                retry!(self, self.engine.store.delete::<D::Latch>(&mut self.txn.store_txn, t, key, expect));
            match done {
                DeleteOutcome::Done => return Ok(counted(true)),
                DeleteOutcome::Missing => return Ok(false),
                DeleteOutcome::Next(actual) => next = actual,
            }
        }
    }

    async fn scan(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        self.scan_with(Purpose::Read, index, range, direction, &mut f).await
    }

    async fn scan_keys(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8]) -> Flow,
    ) -> Result<(), Abort> {
        self.scan_with(Purpose::Keys, index, range, direction, &mut |key: &[u8], _: Row<'_>| f(key)).await
    }

    async fn scan_keys_for_update(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8]) -> Flow,
    ) -> Result<(), Abort> {
        self.scan_with(Purpose::Choice, index, range, direction, &mut |key: &[u8], _: Row<'_>| f(key)).await
    }

    async fn scan_for_update(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        self.scan_with(Purpose::Update, index, range, direction, &mut f).await
    }

    async fn look(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        self.look_at(index, range, direction, &mut f).await
    }
}
