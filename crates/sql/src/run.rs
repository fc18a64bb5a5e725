//! Runs programs: each statement as phases of steps, through [`Carrier`].
//!
//! ```text
//!   SELECT    find rows of the first source, then for each those of the next ...      find
//!             group, sort, cut                                                        select
//!   INSERT    evaluate rows --> put rows and index entries --> check references       insert
//!   UPDATE    one known row, no index:  change it where it is                         change
//!             else:  find and lock rows --> evaluate --> put rows and entries
//!   DELETE    find and lock rows --> remove rows and entries
//! ```
//!
//! An error of SQL may leave changes of its statement behind. The transaction then ends without
//! effect ([`txn::Transaction::abandon`]), or they are undone from the rows as they were before
//! ([`Work::undo_to`]), under the locks that the transaction still holds.

mod carrier;
mod change;
mod find;
mod flow;
mod insert;
mod round;
mod select;

use crate::Datum;
use crate::bound::Bound;
use crate::catalog::Store;
use crate::measured::{Did, Phases};
use crate::program::{Outcome, Program, RowLock, Statement};
use crate::step::{Put, Putting};
use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use txn::Abort;

pub use crate::error::Stop;
use carrier::Few;
pub use carrier::{Carrier, Transact};

/// Rows as values.
type Rows = Vec<Vec<Datum>>;

/// One transaction's work.
#[derive(Debug)]
pub struct Work<'t, T: ?Sized> {
    txn: &'t mut T,
    /// The number of slots.
    sites: u32,
    /// The number of the statement, never used again: with it begin the hidden keys of its rows.
    statement: i64,
    hidden: i64,
    /// The rows before each change, oldest first, if changes may have to be undone.
    undo: Option<Vec<Undo>>,
    /// What has been done, if that is asked for.
    pub phases: Phases,
    /// Where the rows of a part go on.
    rest: Option<Vec<u8>>,
}

/// A row, or none, as it was before a change.
#[derive(Clone, Debug)]
struct Undo {
    store: Store,
    slot: u32,
    key: Vec<u8>,
    before: Option<Vec<u8>>,
}

/// Steps of one phase: more would make too long a message.
const PHASE: usize = 256;

impl<'t, T: Carrier + ?Sized> Work<'t, T> {
    pub fn new(txn: &'t mut T, sites: u32, statement: i64) -> Work<'t, T> {
        Work { txn, sites, statement, hidden: 0, undo: None, phases: Phases::default(), rest: None }
    }

    pub fn txn(&mut self) -> &mut T {
        self.txn
    }

    pub fn sites(&self) -> u32 {
        self.sites
    }

    /// Begins a statement of this number: with it begin the hidden keys of its rows.
    pub fn begin_statement(&mut self, number: i64) {
        if number != self.statement {
            (self.statement, self.hidden) = (number, 0);
        }
    }

    /// From now on the rows before each change are kept. Returns the present point.
    pub fn savepoint(&mut self) -> usize {
        self.undo.get_or_insert_default().len()
    }

    /// Undoes all changes since a point.
    ///
    /// # Errors
    /// The transaction must end.
    pub async fn undo_to(&mut self, point: usize) -> Result<(), Abort> {
        let Some(undo) = &mut self.undo else { return Ok(()) };
        let changes = undo.split_off(point.min(undo.len()));
        // The oldest change of a row knows the row as it was.
        let mut seen = HashSet::new();
        let puts = changes.into_iter().filter(|u| seen.insert((u.store, u.slot, u.key.clone())));
        let puts: Vec<Put> = puts
            .map(|u| Put {
                store: u.store,
                slot: u.slot,
                key: u.key,
                how: u.before.map_or(Putting::Remove, Putting::Replace),
            })
            .collect();
        for puts in puts.chunks(PHASE) {
            self.txn.put(puts.iter().cloned().collect()).await?;
        }
        Ok(())
    }

    /// Runs one statement.
    pub(crate) async fn statement(
        &mut self,
        statement: &Statement,
        bound: &Arc<Bound>,
    ) -> Result<Outcome, Stop> {
        match statement {
            Statement::Select(select) => Box::pin(self.select(select, bound)).await,
            Statement::Insert(insert) => Box::pin(self.insert(insert, bound)).await,
            Statement::Update(update) => Box::pin(self.update(update, bound)).await,
            Statement::Delete(delete) => Box::pin(self.delete(delete, bound)).await,
        }
    }

    /// Puts rows and entries, and keeps what was there before. Returns that, in the same order.
    pub(crate) async fn put(&mut self, puts: Vec<Put>) -> Result<Vec<Option<Vec<u8>>>, Abort> {
        let mut befores = Vec::with_capacity(puts.len());
        for puts in puts.chunks(PHASE) {
            let phase: Few<Put> = puts.iter().cloned().collect();
            self.phases.add(Did::Put, || puts.iter().map(|put| put.slot));
            let found = pin!(self.txn.put(phase)).await?;
            self.phases.found(found.len());
            if let Some(undo) = &mut self.undo {
                for (put, before) in puts.iter().zip(&found) {
                    if matches!(put.how, Putting::New(_)) && before.is_some() {
                        continue;
                    }
                    let (store, slot, key) = (put.store, put.slot, put.key.clone());
                    undo.push(Undo { store, slot, key, before: before.clone() });
                }
            }
            befores.extend(found);
        }
        Ok(befores)
    }

    /// The key of the next row of a table without a key.
    fn hidden_key(&mut self) -> Vec<Datum> {
        self.hidden += 1;
        vec![Datum::Int(self.statement), Datum::Int(self.hidden)]
    }
}

impl Work<'_, dyn Transact + '_> {
    /// Runs the statements of a program: as its flow says, or one after the other. `reach` says
    /// whether steps may follow in the same transaction.
    ///
    /// # Errors
    /// [`Stop`]: the statements may have done a part of their work.
    pub async fn run(
        &mut self,
        program: &Program,
        bound: &Arc<Bound>,
        reach: Reach,
    ) -> Result<Vec<Outcome>, Stop> {
        if let Some(flow) = &program.flow {
            return self.run_flow((program, flow), bound, reach).await.map(|outcome| vec![outcome]);
        }
        if let [Statement::Select(select)] = program.statements.as_slice()
            && self.plans()
            && let Some((source, key)) = round::one_row(select)
            && source.lock == RowLock::None
        {
            return pin!(self.read_one(select, (source, key), bound)).await.map(|outcome| vec![outcome]);
        }
        let mut outcomes = Vec::with_capacity(program.statements.len());
        for statement in &program.statements {
            if self.plans() && round::is_plain(statement) {
                let only = std::iter::once((None, statement));
                outcomes.extend(pin!(self.planned(only, bound, false)).await?);
            } else {
                outcomes.push(self.statement(statement, bound).await?);
            }
        }
        Ok(outcomes)
    }
}

/// Whether steps of other programs may follow in the same transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    Whole,
    Part,
}
