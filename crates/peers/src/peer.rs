//! Another engine as ordered maps of bytes with transactions, and the workload's procedures on it.
//!
//! ```text
//!   Workload::run  ->  Door (Access, Transaction)  ->  Session  ->  the engine
//! ```
//!
//! The procedure is the one that Atoll runs. Only the engine itself waits, inside its calls, so
//! each future is polled once.

use crate::fault::PeerFault;
use base::{Key, TableId};
use txn::row::Layout;
use txn::step::{Steps, Transaction};
use txn::{Abort, Access, Direction, Flow, Inserted, Range, Row, RowMut, Schema};

/// The kind of a transaction. Some engines must know it at the beginning.
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

/// One thread's session with an engine, with at most one transaction at a time. After
/// [`PeerFault::Conflict`] the caller must roll back and begin again.
pub trait Session {
    fn begin(&mut self, intent: Intent) -> Result<(), PeerFault>;
    fn read<R>(
        &mut self,
        table: usize,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, PeerFault>;
    /// Reads for update, and writes the row back as `f` left it.
    fn update<R>(
        &mut self,
        table: usize,
        key: &[u8],
        f: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> Result<Option<R>, PeerFault>;
    fn insert(&mut self, table: usize, key: &[u8], row: &[u8]) -> Result<Inserted, PeerFault>;
    /// Visits all rows in key order. Called only while no other session runs.
    fn scan(&mut self, table: usize, f: impl FnMut(&[u8], &[u8]) -> Flow) -> Result<(), PeerFault>;
    fn commit(&mut self) -> Result<(), PeerFault>;
    fn rollback(&mut self) -> Result<(), PeerFault>;
}

/// The tables of a workload, with the engine's numbers for them.
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

/// Key numbers for rows of tables without a key: distinct between sessions, ascending within one.
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

/// A transaction of another engine, as the workload's procedure uses it.
pub struct Door<'a, S> {
    session: &'a mut S,
    tables: &'a Tables,
    appended: &'a mut Appended,
    /// The reason for [`Abort::Fault`], if the procedure got that.
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

    /// Commits the transaction if the procedure succeeded, otherwise rolls it back.
    ///
    /// # Errors
    /// The reason why it did not commit. After [`PeerFault::Conflict`] it can be repeated.
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

    /// No workload of a comparison deletes rows.
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
