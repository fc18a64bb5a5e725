//! Another engine, seen as ordered maps of bytes with transactions, and the workload's procedures on it.
//!
//! ```text
//!   Workload::run  ->  Door (Access, Transaction)  ->  Session  ->  the engine
//! ```
//!
//! The procedure is the one that Atoll runs; nothing on this way waits but inside the engine, so its futures are polled once.

use crate::fault::PeerFault;
use base::{Key, TableId};
use txn::row::Layout;
use txn::step::{Steps, Transaction};
use txn::{Abort, Access, Direction, Flow, Inserted, Range, Row, RowMut, Schema};

/// What a transaction is going to do: some engines must know beforehand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intent {
    Reads,
    Writes,
}

/// An engine with tables 0, 1, 2, ..., shared by threads.
pub trait Engine: Sync {
    type Session<'a>: Session
    where
        Self: 'a;

    /// # Errors
    /// The engine's own.
    fn session(&self) -> Result<Self::Session<'_>, PeerFault>;
}

/// One thread's door to an engine, with at most one transaction at a time. [`PeerFault::Conflict`] asks to roll back and to
/// begin again.
pub trait Session {
    fn begin(&mut self, intent: Intent) -> Result<(), PeerFault>;
    fn read<R>(
        &mut self,
        table: usize,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, PeerFault>;
    /// Reads for update and writes back what `f` left.
    fn update<R>(
        &mut self,
        table: usize,
        key: &[u8],
        f: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> Result<Option<R>, PeerFault>;
    fn insert(&mut self, table: usize, key: &[u8], row: &[u8]) -> Result<Inserted, PeerFault>;
    /// Visits all rows in key order. Used when nothing else runs.
    fn scan(&mut self, table: usize, f: impl FnMut(&[u8], &[u8]) -> Flow) -> Result<(), PeerFault>;
    fn commit(&mut self) -> Result<(), PeerFault>;
    fn rollback(&mut self) -> Result<(), PeerFault>;
}

/// The tables of a workload as an engine counts them.
pub struct Tables(Vec<(TableId, Layout)>);

impl Tables {
    pub fn of(schema: &Schema) -> Tables {
        Tables(schema.tables.iter().map(|t| (t.id, Layout::of(t))).collect())
    }

    fn find(&self, id: TableId) -> Result<(usize, &Layout), Abort> {
        let at = self.0.iter().position(|(t, _)| *t == id).ok_or(Abort::BadRequest)?;
        Ok((at, &self.0[at].1))
    }
}

/// Numbers for the rows of tables without a key: unlike those of other sessions, ascending within one.
pub struct Appended(u64);

impl Appended {
    pub fn session(number: usize) -> Appended {
        Appended((number as u64) << 40)
    }

    fn key(&mut self) -> Key {
        self.0 += 1;
        Key::new().i64(self.0 as i64)
    }
}

/// What a procedure sees of a transaction of another engine.
pub struct Door<'a, S> {
    session: &'a mut S,
    tables: &'a Tables,
    appended: &'a mut Appended,
    /// Why the procedure was told [`Abort::Fault`].
    fault: Option<PeerFault>,
}

impl<'a, S: Session> Door<'a, S> {
    /// Begins a transaction.
    ///
    /// # Errors
    /// The engine's own.
    pub fn begin(
        session: &'a mut S,
        tables: &'a Tables,
        appended: &'a mut Appended,
        intent: Intent,
    ) -> Result<Self, PeerFault> {
        session.begin(intent)?;
        Ok(Door { session, tables, appended, fault: None })
    }

    fn note<R>(&mut self, outcome: Result<R, PeerFault>) -> Result<R, Abort> {
        outcome.map_err(|fault| {
            self.fault = Some(fault);
            Abort::Fault
        })
    }

    /// Commits what the procedure did, or rolls it back.
    ///
    /// # Errors
    /// Why it did not commit; [`PeerFault::Conflict`] can be tried again.
    pub fn end<R>(self, name: &str, outcome: Result<R, Abort>) -> Result<R, PeerFault> {
        let failed = match (self.fault, outcome) {
            (None, Ok(reply)) => match self.session.commit() {
                Ok(()) => return Ok(reply),
                // A commit that failed has ended the transaction.
                Err(fault) => return Err(fault),
            },
            (Some(fault), _) => fault,
            (None, Err(abort)) => PeerFault::Aborted { name: name.into(), abort },
        };
        self.session.rollback()?;
        Err(failed)
    }
}

impl<S: Session> Access for Door<'_, S> {
    async fn read<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        let (table, layout) = self.tables.find(table)?;
        let found = self.session.read(table, key, |bytes| f(Row::new(layout, bytes)));
        self.note(found)
    }

    async fn update<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        let (table, layout) = self.tables.find(table)?;
        let found = self.session.update(table, key, |bytes| f(&mut RowMut::new(layout, bytes)));
        self.note(found)
    }

    async fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<Inserted, Abort> {
        let (table, _) = self.tables.find(table)?;
        let inserted = self.session.insert(table, key, row);
        self.note(inserted)
    }

    async fn append(&mut self, table: TableId, row: &[u8]) -> Result<(), Abort> {
        let key = self.appended.key();
        self.insert(table, &key, row).await.map(drop)
    }

    /// No workload that is compared deletes anything.
    async fn delete(&mut self, _: TableId, _: &[u8]) -> Result<bool, Abort> {
        Err(Abort::BadRequest)
    }

    async fn scan(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        let (table, layout) = self.tables.find(index)?;
        if range != Range::ALL || direction != Direction::Forward {
            return Err(Abort::BadRequest);
        }
        let scanned = self.session.scan(table, |key, bytes| f(key, Row::new(layout, bytes)));
        self.note(scanned)
    }
}

impl<S: Session> Transaction for Door<'_, S> {
    async fn all<T: Steps>(&mut self, steps: T) -> Result<T::Outputs, Abort> {
        steps.run_all(self).await
    }

    async fn last<T: Steps>(&mut self, steps: T) -> Result<T::Outputs, Abort> {
        steps.run_all(self).await
    }
}
