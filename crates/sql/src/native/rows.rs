//! How a step in Rust reads and writes the rows of its place.

use super::convert::Values;
use super::issued::Issued;
use super::record::Record;
use super::{NativeTable, find};
use crate::bound::Bound;
use crate::error::Stop;
use crate::place::{self, Placed};
use crate::{Datum, SqlError, SqlState};
use txn::erased::AnyAccess;
use txn::{Abort, Direction, Flow, Inserted, Range};

/// The rows of one place: those of which the step's table and key say that they lie there, and
/// those of other tables that lie at the same place (`colocate_with`).
///
/// Rows that a step reads stay as they are until the transaction ends, and so do the gaps between
/// those that it scans. What it writes becomes visible with the transaction's commit.
///
/// A step may change columns that no key, index or foreign key has; `NOT NULL` and `CHECK` are
/// kept. It may insert and delete where no index or foreign key is concerned. For all else there
/// are statements ([`super::procedure::Txn::query`]).
pub struct Rows<'a> {
    access: &'a mut dyn AnyAccess,
    step: &'a Issued,
    /// An abort that an access has had: the step ends with it, also if its code goes on.
    pub(super) aborted: Option<Abort>,
}

/// A row's place within the step's.
struct Found<'t> {
    table: &'t NativeTable,
    at: Placed,
}

impl<'a> Rows<'a> {
    pub(super) fn new(access: &'a mut dyn AnyAccess, step: &'a Issued) -> Rows<'a> {
        Rows { access, step, aborted: None }
    }

    /// The row with this key, read by `f`; `None` if there is none.
    ///
    /// # Errors
    /// When the step cannot go on, and errors of `f`.
    pub async fn get<R>(
        &mut self,
        table: &str,
        key: impl Values,
        f: impl FnOnce(&Record<'_>) -> Result<R, SqlError>,
    ) -> Result<Option<R>, Stop> {
        let found = self.whole(table, key.into_values())?;
        let (id, physical) = (place::table_id(found.table.stored.store), physical(&found.at));
        let (mut f, mut read) = (Some(f), None);
        let outcome = self
            .access
            .read(id, &physical, &mut |row| {
                if let Some(f) = f.take() {
                    read = Some(record(found.table, row.bytes(place::ROW)).and_then(|record| f(&record)));
                }
            })
            .await;
        self.noted(outcome)?;
        Ok(read.transpose()?)
    }

    /// Changes the row with this key by `f`, and returns the result of `f`; `None` if there is no
    /// such row.
    ///
    /// # Errors
    /// When the step cannot go on, errors of `f`, and violations of the table's conditions. The
    /// transaction then has no effect.
    pub async fn update<R>(
        &mut self,
        table: &str,
        key: impl Values,
        f: impl FnOnce(&mut Record<'_>) -> Result<R, SqlError>,
    ) -> Result<Option<R>, Stop> {
        let found = self.whole(table, key.into_values())?;
        let (id, physical) = (place::table_id(found.table.stored.store), physical(&found.at));
        let bound = Bound { now: self.step.now, ..Bound::default() };
        let (mut f, mut changed) = (Some(f), None);
        let outcome = self
            .access
            .update(id, &physical, &mut |row| {
                let Some(f) = f.take() else { return };
                let after = change(found.table, &bound, row.row().bytes(place::ROW), f);
                changed = Some(after.map(|(bytes, result)| {
                    row.set_bytes(place::ROW, &bytes);
                    result
                }));
            })
            .await;
        self.noted(outcome)?;
        Ok(changed.transpose()?)
    }

    /// Inserts a row, of which `f` sets the columns; those that it leaves are null, for defaults
    /// are an affair of statements.
    ///
    /// # Errors
    /// `23505` if there is a row with its key, violations of the table's conditions, `0A000` if the
    /// table has indexes or foreign keys.
    pub async fn insert(&mut self, table: &str, f: impl FnOnce(&mut Record<'_>)) -> Result<(), Stop> {
        let native = find(&self.step.tables, table)?;
        refuse(native, native.no_insert.as_deref(), "INSERT")?;
        let mut record = Record::empty(native);
        f(&mut record);
        let values = record.finish()?;
        let stored = &native.stored;
        stored.check(&native.checks, &Bound { now: self.step.now, ..Bound::default() }, &values)?;
        let key: Vec<Datum> = stored.key.iter().map(|&column| values[usize::from(column)].clone()).collect();
        let found = self.whole(table, key)?;
        let row = place::physical_row(found.at.slot, &found.at.key, &stored.layout().encode(&values)?);
        let (id, physical) = (place::table_id(stored.store), physical(&found.at));
        let outcome = self.access.insert(id, &physical, &row).await;
        match self.noted(outcome)? {
            Inserted::Done => Ok(()),
            Inserted::Exists => Err(stored.duplicate(None, &values).into()),
        }
    }

    /// Deletes the row with this key; `false` if there is none.
    ///
    /// # Errors
    /// When the step cannot go on; `0A000` if the table has indexes, or is referenced.
    pub async fn delete(&mut self, table: &str, key: impl Values) -> Result<bool, Stop> {
        let found = self.whole(table, key.into_values())?;
        refuse(found.table, found.table.no_delete.as_deref(), "DELETE")?;
        let (id, physical) = (place::table_id(found.table.stored.store), physical(&found.at));
        let outcome = self.access.delete(id, &physical).await;
        Ok(self.noted(outcome)?)
    }

    /// Visits the rows of which the keys begin with `first`, in the order of their keys, until `f`
    /// returns [`Flow::Enough`].
    ///
    /// # Errors
    /// When the step cannot go on, and errors of `f`; `22023` if `first` does not determine the
    /// place of the rows.
    pub async fn scan(
        &mut self,
        table: &str,
        first: impl Values,
        direction: Direction,
        mut f: impl FnMut(&Record<'_>) -> Result<Flow, SqlError>,
    ) -> Result<(), Stop> {
        let found = self.found(table, first.into_values())?;
        let low = place::physical_prefix(found.at.slot, &found.at.key);
        let high = after_prefix(&low);
        let range = Range { low: Some(&low), high: high.as_deref() };
        let mut wrong = None;
        let mut visit = |_: &[u8], row: txn::Row<'_>| {
            let flow = record(found.table, row.bytes(place::ROW)).and_then(|record| f(&record));
            flow.unwrap_or_else(|error| {
                wrong = Some(error);
                Flow::Enough
            })
        };
        let id = place::table_id(found.table.stored.store);
        let outcome = self.access.scan(id, range, direction, &mut visit).await;
        self.noted(outcome)?;
        wrong.map_or(Ok(()), |error| Err(error.into()))
    }

    /// The place of a row, of which the whole key is given.
    fn whole(&self, table: &str, key: Vec<Datum>) -> Result<Found<'a>, SqlError> {
        let (given, columns) = (key.len(), find(&self.step.tables, table)?.stored.key.len());
        if given != columns {
            let message =
                format!("a key of table \"{table}\" has {columns} columns, and {given} values were given");
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        self.found(table, key)
    }

    /// The place of a key, or of its first values, which must be the step's.
    fn found(&self, table: &str, key: Vec<Datum>) -> Result<Found<'a>, SqlError> {
        let table = find(&self.step.tables, table)?;
        let key = table.key(&key)?;
        let slot = table.slot(&key, self.step.sites)?;
        if slot != self.step.slot {
            let message = format!(
                "step \"{}\" is at another place than the row of table \"{}\" with the key {key:?}",
                self.step.step, table.stored.name
            );
            return Err(SqlError::new(SqlState::INVALID_PARAMETER, message)
                .with_hint("Issue a step for each place; rows of one place have the same leading key."));
        }
        let at = Placed { slot, key: place::encode_key(&key) };
        Ok(Found { table, at })
    }

    fn noted<T>(&mut self, outcome: Result<T, Abort>) -> Result<T, Abort> {
        outcome.inspect_err(|abort| self.aborted = Some(*abort))
    }
}

fn physical(at: &Placed) -> base::Key {
    place::physical_key(at.slot, &at.key)
}

/// The first key after all that begin with `prefix`; `None` if there is none.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(after)
}

fn record<'t>(table: &'t NativeTable, bytes: &[u8]) -> Result<Record<'t>, SqlError> {
    Ok(Record::new(table, table.stored.layout().decode_all(bytes)?))
}

/// The row after a change, and the result of the change.
fn change<R>(
    table: &NativeTable,
    bound: &Bound,
    before: &[u8],
    f: impl FnOnce(&mut Record<'_>) -> Result<R, SqlError>,
) -> Result<(Vec<u8>, R), SqlError> {
    let layout = table.stored.layout();
    let old = layout.decode_all(before)?;
    let mut record = Record::new(table, old.clone());
    let result = f(&mut record)?;
    let new = record.finish()?;
    if let Some(&column) = table.fixed.iter().find(|&&c| old[usize::from(c)] != new[usize::from(c)]) {
        let column = &table.stored.columns[usize::from(column)].name;
        let what = format!("a step's change of column \"{column}\", which a key or an index has,");
        return Err(SqlError::unsupported(&what, Some("Use an UPDATE statement in the procedure.")));
    }
    table.stored.check(&table.checks, bound, &new)?;
    Ok((layout.encode(&new)?, result))
}

fn refuse(table: &NativeTable, why: Option<&str>, statement: &str) -> Result<(), SqlError> {
    let Some(why) = why else { return Ok(()) };
    let what = format!("a step's {statement} on table \"{}\", which {why},", table.stored.name);
    let instead = format!("Use an {statement} statement in the procedure.").replace("an DELETE", "a DELETE");
    Err(SqlError::unsupported(&what, Some(&instead)))
}
