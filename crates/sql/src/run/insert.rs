//! Inserts.

use super::carrier::Few;
use super::select::projected;
use super::{Carrier, Stop, Work};
use crate::bound::Bound;
use crate::place::{self, Placed};
use crate::program::{Assignment, Conflict, Insert, InsertRows, Outcome, Stored};
use crate::row::Pair;
use crate::step::{Before, Put, Putting};
use crate::{Datum, Expr, SqlError, SqlState};
use std::collections::HashSet;
use std::sync::Arc;

/// A new row, encoded and placed.
pub(crate) struct NewRow {
    pub values: Vec<Datum>,
    pub place: Placed,
    pub row: Vec<u8>,
}

impl<T: Carrier + ?Sized> Work<'_, T> {
    pub(super) async fn insert(&mut self, insert: &Insert, bound: &Arc<Bound>) -> Result<Outcome, Stop> {
        let table = &insert.table;
        let (new, wrong) = self.new_rows(insert, bound).await?;
        let mut stored = Vec::new();
        match &insert.conflict {
            None => stored = self.put_new(table, new).await?,
            Some(conflict) => {
                let mut changed = HashSet::new();
                for row in new {
                    let row = Box::pin(self.insert_or(insert, conflict, row, (bound, &mut changed))).await?;
                    stored.extend(row);
                }
            }
        }
        if let Some(wrong) = wrong {
            return Err(wrong.into());
        }
        for values in &stored {
            self.check_references(&insert.references, bound, values).await?;
        }
        Ok(stored_rows(insert, bound, &stored)?)
    }

    /// The rows to be stored, up to the first one that is wrong, and what is wrong with it. As the
    /// statement stores row by row, an error of a row before it is told first.
    async fn new_rows(
        &mut self,
        insert: &Insert,
        bound: &Arc<Bound>,
    ) -> Result<(Vec<NewRow>, Option<SqlError>), Stop> {
        match &insert.rows {
            InsertRows::Values(rows) => Ok(self.evaluated_rows(insert, bound, rows)),
            InsertRows::Query { select, row } => {
                let selected = self.selected(select, bound).await?;
                Ok(self.rows_of(insert, bound, selected.iter().map(|from| (row, from))))
            }
        }
    }

    /// As [`Work::new_rows`], for rows of expressions.
    pub(super) fn evaluated_rows(
        &mut self,
        insert: &Insert,
        bound: &Bound,
        rows: &[Vec<Expr>],
    ) -> (Vec<NewRow>, Option<SqlError>) {
        let none: Vec<Datum> = Vec::new();
        self.rows_of(insert, bound, rows.iter().map(|row| (row, &none)))
    }

    /// As [`Work::new_rows`], for expressions over columns.
    fn rows_of<'a>(
        &mut self,
        insert: &Insert,
        bound: &Bound,
        rows: impl ExactSizeIterator<Item = (&'a Vec<Expr>, &'a Vec<Datum>)>,
    ) -> (Vec<NewRow>, Option<SqlError>) {
        let mut new = Vec::with_capacity(rows.len());
        for (exprs, from) in rows {
            let row = Expr::eval_all(exprs, &bound.context(), from).and_then(|values| {
                insert.table.check(&insert.checks, bound, &values)?;
                self.new_row(&insert.table, values)
            });
            match row {
                Ok(row) => new.push(row),
                Err(error) => return (new, Some(error)),
            }
        }
        (new, None)
    }

    pub(crate) fn new_row(&mut self, table: &Stored, values: Vec<Datum>) -> Result<NewRow, SqlError> {
        let key = if table.key.is_empty() { self.hidden_key() } else { columns(&values, &table.key) };
        let place = table.place(&key, self.sites);
        fits(table, &place.key)?;
        let row = table.layout().encode(&values)?;
        Ok(NewRow { values, place, row })
    }

    /// Puts rows with their index entries, none of which may be there. Returns the rows' values.
    pub(crate) async fn put_new(
        &mut self,
        table: &Stored,
        rows: Vec<NewRow>,
    ) -> Result<Vec<Vec<Datum>>, Stop> {
        let (puts, values) = self.puts(table, rows)?;
        let befores = self.put(puts.into_vec()).await?;
        all_new(table, &befores, &values)?;
        Ok(values)
    }

    /// The steps that store rows with their index entries, and the rows' values.
    pub(super) fn puts(
        &self,
        table: &Stored,
        rows: Vec<NewRow>,
    ) -> Result<(Few<Put>, Vec<Vec<Datum>>), SqlError> {
        let mut puts = Few::with_capacity(rows.len() * (1 + table.indexes.len()));
        let mut values = Vec::with_capacity(rows.len());
        for new in rows {
            let entries = self.entries(table, &new.values, &new.place)?;
            let Placed { slot, key } = new.place;
            puts.push(Put { store: table.store, slot, key, how: Putting::New(new.row) });
            puts.extend(entries);
            values.push(new.values);
        }
        Ok((puts, values))
    }

    /// The new index entries of a row.
    pub(crate) fn entries(
        &self,
        table: &Stored,
        values: &[Datum],
        row: &Placed,
    ) -> Result<Vec<Put>, SqlError> {
        let entry = place::entry(row);
        let of = |index: &crate::program::StoredIndex| {
            let Placed { slot, key } = index.place(&columns(values, &index.columns), &row.key, self.sites);
            fits(table, &key)?;
            Ok(Put { store: index.store, slot, key, how: Putting::New(entry.clone()) })
        };
        table.indexes.iter().map(of).collect()
    }

    /// Inserts one row, or does what `ON CONFLICT` says. Returns the row as it is stored then.
    /// `changed` has the places of the rows that the statement has stored so far.
    async fn insert_or(
        &mut self,
        insert: &Insert,
        conflict: &Conflict,
        new: NewRow,
        (bound, changed): (&Arc<Bound>, &mut HashSet<Placed>),
    ) -> Result<Option<Vec<Datum>>, Stop> {
        let table = &insert.table;
        let met = self.conflicting(table, conflict, &new).await?;
        let Some(place) = met else {
            changed.insert(new.place.clone());
            return Ok(self.put_new(table, vec![new]).await?.pop());
        };
        let Some((set, condition)) = &conflict.update else { return Ok(None) };
        if !changed.insert(place.clone()) {
            return Err(twice().into());
        }
        let Some(old) = self.lock_row(table, &place, bound).await? else { return Ok(None) };
        let old = table.values(&old)?;
        let cx = bound.context();
        let both = Pair { first: &old, second: &new.values, split: old.len() as u16 };
        if let Some(condition) = condition
            && condition.eval(&cx, &both)? != Datum::Bool(true)
        {
            return Ok(None);
        }
        let mut values = old.clone();
        for Assignment { column, value } in set {
            values[usize::from(*column)] = value.eval(&cx, &both)?;
        }
        table.check(&insert.checks, bound, &values)?;
        self.replace(table, &place, &old, &values).await?;
        Ok(Some(values))
    }

    /// The row that a new one conflicts with.
    async fn conflicting(
        &mut self,
        table: &Stored,
        conflict: &Conflict,
        new: &NewRow,
    ) -> Result<Option<Placed>, Stop> {
        let any = conflict.update.is_none() && conflict.index.is_none();
        if conflict.index.is_none()
            && !table.key.is_empty()
            && self.read_raw(table.store, &new.place).await?.is_some()
        {
            return Ok(Some(new.place.clone()));
        }
        for (i, index) in table.indexes.iter().enumerate() {
            if !index.unique || !(any || conflict.index == Some(i as u16)) {
                continue;
            }
            let values = columns(&new.values, &index.columns);
            if values.iter().any(Datum::is_null) {
                continue;
            }
            let at = index.place(&values, &new.place.key, self.sites);
            if let Some(entry) = self.read_raw(index.store, &at).await?
                && let Some(row) = place::place_in_entry(&entry)
            {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}

/// Whether rows were stored, with their index entries, where there were none.
///
/// # Errors
/// The first key that was there.
pub(super) fn all_new(table: &Stored, befores: &[Before], rows: &[Vec<Datum>]) -> Result<(), SqlError> {
    for (befores, values) in befores.chunks(1 + table.indexes.len()).zip(rows) {
        if let Some(at) = befores.iter().position(Option::is_some) {
            return Err(table.duplicate(at.checked_sub(1), values));
        }
    }
    Ok(())
}

/// The outcome of an insert that has stored these rows.
pub(super) fn stored_rows(
    insert: &Insert,
    bound: &Bound,
    stored: &[Vec<Datum>],
) -> Result<Outcome, SqlError> {
    let mut rows = Vec::new();
    if !insert.returning.is_empty() {
        let returned = stored.iter().map(|values| projected(&insert.returning, bound, values));
        rows = returned.collect::<Result<_, SqlError>>()?;
    }
    Ok(Outcome { count: stored.len() as u64, rows, rest: None })
}

/// A statement that would change a row a second time, with PostgreSQL's words.
fn twice() -> SqlError {
    SqlError::new(SqlState::CARDINALITY, "ON CONFLICT DO UPDATE command cannot affect row a second time")
        .with_hint("Give no two rows with the same key in one command.")
}

/// The values of some columns.
pub(super) fn columns(values: &[Datum], columns: &[u16]) -> Vec<Datum> {
    columns.iter().map(|&column| values[usize::from(column)].clone()).collect()
}

fn fits(table: &Stored, key: &[u8]) -> Result<(), SqlError> {
    if key.len() * 2 <= place::LONGEST_KEY as usize {
        return Ok(());
    }
    let message =
        format!("a key of \"{}\" has {} bytes, which is more than an index takes", table.name, key.len());
    Err(SqlError::new(SqlState::PROGRAM_LIMIT, message)
        .with_hint(format!("keys take at most {} bytes", place::LONGEST_KEY / 2)))
}
