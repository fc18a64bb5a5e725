//! Statements that have one round of steps, without a lane or a box of their own: their steps are
//! made, run as one phase of the transaction, and what they gave is taken.
//!
//! ```text
//!   UPDATE, keys known   --plan--> change --.           .--> take --> outcome
//!   INSERT ... VALUES    --plan--> put ... --+-- phase --+--> take --> outcome
//!   SELECT, one row      --plan--> fetch ---'           '--> take --> outcome
//! ```
//!
//! A statement that fails while it is planned keeps those after it from being planned; those before
//! it run, since one of them may fail too, and the first statement's error is told. The transaction
//! then ends without effect. So nothing is planned here where changes may have to be undone
//! ([`Work::savepoint`]), nor where an account is wanted of what was done.

use super::carrier::{AfterChange, Batch, Few, Outputs, Transact};
use super::{PHASE, Stop, Work, change, insert, select};
use crate::bound::Bound;
use crate::program::{Insert, InsertRows, Outcome, Path, RowLock, Select, Source, Statement, Update};
use crate::step::{Before, FetchForUpdate, Hits};
use crate::{Datum, Expr, SqlError};
use std::sync::Arc;

/// A statement of which the steps are made, and how many they are.
enum Planned<'s> {
    Select { select: &'s Select, lock: RowLock, steps: usize },
    Insert { insert: &'s Insert, rows: Vec<Vec<Datum>>, wrong: Option<SqlError>, steps: usize },
    Update { update: &'s Update, steps: usize },
}

/// Whether a statement can be planned.
pub(super) fn is_plain(statement: &Statement) -> bool {
    match statement {
        Statement::Select(select) => one_row(select).is_some(),
        Statement::Insert(insert) => {
            let InsertRows::Values(rows) = &insert.rows else { return false };
            insert.conflict.is_none()
                && insert.references.is_empty()
                && rows.len() * (1 + insert.table.indexes.len()) <= PHASE
        }
        Statement::Update(update) => change::is_in_place(update),
        Statement::Delete(_) => false,
    }
}

/// The source of a query for one row by its whole key, of which nothing but columns is asked.
pub(super) fn one_row(select: &Select) -> Option<(&Source, &[Expr])> {
    let [joined] = select.sources.as_slice() else { return None };
    let Path::Keys(keys) = &joined.source.path else { return None };
    let [key] = keys.as_slice() else { return None };
    let is_plain = !joined.is_outer
        && select.grouping.is_none()
        && select.having.is_none()
        && select.limit.is_none()
        && select.offset.is_none();
    is_plain.then_some((&joined.source, key.as_slice()))
}

impl Work<'_, dyn Transact + '_> {
    /// Whether statements may be planned.
    pub(super) fn plans(&self) -> bool {
        self.undo.is_none() && !self.phases.are_noted()
    }

    /// Runs statements that can be planned, each with the number where its hidden keys begin.
    pub(super) async fn planned<'s>(
        &mut self,
        statements: impl Iterator<Item = (Option<i64>, &'s Statement)>,
        bound: &Arc<Bound>,
        ends: bool,
    ) -> Result<Vec<Outcome>, Stop> {
        let count = statements.size_hint().0;
        let (mut batch, mut plans, mut wrong) = (Batch::default(), Vec::with_capacity(count), None);
        if count > 1 {
            batch.changes.reserve(count);
        }
        for (hidden, statement) in statements {
            self.hidden = hidden.unwrap_or(self.hidden);
            match self.plan(statement, bound, &mut batch) {
                Ok(plan) => plans.push(plan),
                Err(error) => {
                    wrong = Some(error);
                    break;
                }
            }
        }
        let outputs = self.round(batch, ends).await?;
        let outcomes = taken(plans, bound, outputs)?;
        wrong.map_or(Ok(outcomes), |error| Err(error.into()))
    }

    /// Runs a query for which [`one_row`] holds, by itself: most queries are such.
    pub(super) async fn read_one(
        &mut self,
        select: &Select,
        (source, key): (&Source, &[Expr]),
        bound: &Arc<Bound>,
    ) -> Result<Outcome, Stop> {
        let none: Vec<Datum> = Vec::new();
        let key = Expr::eval_all(key, &bound.context(), &none)?;
        if key.iter().any(Datum::is_null) {
            return Ok(Outcome::default());
        }
        let fetch = self.fetch_of(source, &key, bound, None);
        let hits = self.txn.fetch_one(fetch, RowLock::None).await?;
        Ok(select::of_one_source(select, bound, std::iter::once(hits))?)
    }

    /// Makes the steps of a statement.
    fn plan<'s>(
        &mut self,
        statement: &'s Statement,
        bound: &Arc<Bound>,
        batch: &mut Batch,
    ) -> Result<Planned<'s>, SqlError> {
        match statement {
            Statement::Select(select) => self.plan_select(select, bound, batch),
            Statement::Insert(insert) => {
                let InsertRows::Values(rows) = &insert.rows else { return Err(unplanned()) };
                let (rows, wrong) = self.evaluated_rows(insert, bound, rows);
                let (puts, rows) = self.puts(&insert.table, rows)?;
                let steps = puts.len();
                batch.puts.extend(puts);
                Ok(Planned::Insert { insert, rows, wrong, steps })
            }
            Statement::Update(update) => {
                let before = batch.changes.len();
                let returns = !update.returning.is_empty();
                self.changes(update, bound, (returns, &mut batch.changes))?;
                Ok(Planned::Update { update, steps: batch.changes.len() - before })
            }
            Statement::Delete(_) => Err(unplanned()),
        }
    }

    fn plan_select<'s>(
        &self,
        select: &'s Select,
        bound: &Arc<Bound>,
        batch: &mut Batch,
    ) -> Result<Planned<'s>, SqlError> {
        let (source, key) = one_row(select).ok_or_else(unplanned)?;
        let none: Vec<Datum> = Vec::new();
        let key = Expr::eval_all(key, &bound.context(), &none)?;
        let lock = source.lock;
        if key.iter().any(Datum::is_null) {
            return Ok(Planned::Select { select, lock, steps: 0 });
        }
        let fetch = self.fetch_of(source, &key, bound, None);
        match lock {
            RowLock::None => batch.reads.push(fetch),
            lock => batch.locked.push(FetchForUpdate(fetch, lock)),
        }
        Ok(Planned::Select { select, lock, steps: 1 })
    }

    /// Carries out the steps, as one phase. Those of one kind go a shorter way.
    async fn round(&mut self, mut batch: Batch, ends: bool) -> Result<Outcomes, Stop> {
        let mut outputs = Outputs::default();
        let counts = (batch.reads.len(), batch.locked.len(), batch.puts.len(), batch.changes.len());
        match counts {
            (0, 0, 0, 0) => {}
            (1, 0, 0, 0) if !ends => {
                if let Some(fetch) = batch.reads.pop() {
                    outputs.0.push(self.txn.fetch_one(fetch, RowLock::None).await?);
                }
            }
            (0, 0, _, 0) if !ends => outputs.2 = self.txn.put(batch.puts).await?,
            (0, 0, 0, _) if !ends => outputs.3 = self.txn.change(batch.changes).await?,
            _ => outputs = self.txn.batch(batch, ends).await?,
        }
        let (reads, locked, puts, changes) = outputs;
        Ok(Outcomes {
            reads: reads.into_iter(),
            locked: locked.into_iter(),
            puts: puts.into_iter(),
            changes: changes.into_iter(),
        })
    }
}

/// What the steps gave, by kind, in the order of the statements.
struct Outcomes {
    reads: smallvec::IntoIter<[Hits; 1]>,
    locked: smallvec::IntoIter<[Hits; 1]>,
    puts: smallvec::IntoIter<[Before; 1]>,
    changes: smallvec::IntoIter<[AfterChange; 1]>,
}

/// The outcomes of the statements. Of several errors the first statement's is told.
fn taken(plans: Vec<Planned<'_>>, bound: &Bound, mut outputs: Outcomes) -> Result<Vec<Outcome>, SqlError> {
    let mut outcome = |plan| match plan {
        Planned::Select { select, lock, steps } => {
            let hits = if lock == RowLock::None { &mut outputs.reads } else { &mut outputs.locked };
            select::of_one_source(select, bound, hits.take(steps))
        }
        Planned::Insert { insert, rows, wrong, steps } => {
            let befores: Few<Before> = outputs.puts.by_ref().take(steps).collect();
            insert::all_new(&insert.table, &befores, &rows)?;
            wrong.map_or_else(|| insert::stored_rows(insert, bound, &rows), Err)
        }
        Planned::Update { update, steps } => {
            change::changed(update, bound, outputs.changes.by_ref().take(steps), |_, _| ())
        }
    };
    let mut outcomes = Vec::with_capacity(plans.len());
    for plan in plans {
        outcomes.push(outcome(plan)?);
    }
    Ok(outcomes)
}

/// No statement for which [`is_plain`] holds.
fn unplanned() -> SqlError {
    SqlError::new(crate::SqlState::INTERNAL, "a statement has more than one round of steps")
}
