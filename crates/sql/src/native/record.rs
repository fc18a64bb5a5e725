//! One row, with its columns by name.

use super::NativeTable;
use super::convert::{FromDatum, of_column};
use crate::expression::cast_to;
use crate::{Datum, SqlError, SqlState};

/// A row of a table, as a step reads and changes it.
#[derive(Debug)]
pub struct Record<'t> {
    table: &'t NativeTable,
    values: Vec<Datum>,
    /// The first error of [`Record::set`], which has no result: the step fails with it.
    pub(super) wrong: Option<SqlError>,
}

impl<'t> Record<'t> {
    pub(super) fn new(table: &'t NativeTable, values: Vec<Datum>) -> Record<'t> {
        Record { table, values, wrong: None }
    }

    /// A row of nulls.
    pub(super) fn empty(table: &'t NativeTable) -> Record<'t> {
        Record::new(table, vec![Datum::Null; table.stored.columns.len()])
    }

    fn position(&self, column: &str) -> Result<usize, SqlError> {
        let found = self.table.stored.columns.iter().rposition(|known| known.name == column);
        found.ok_or_else(|| {
            let message =
                format!("column \"{column}\" of relation \"{}\" does not exist", self.table.stored.name);
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })
    }

    /// The value of a column.
    ///
    /// # Errors
    /// `42703` if there is no such column, `42804` if its value is no `T`. `Option<T>` takes nulls.
    pub fn get<T: FromDatum>(&self, column: &str) -> Result<T, SqlError> {
        of_column(&self.values[self.position(column)?], column)
    }

    /// Changes the value of a column. A value of another type becomes one of the column's, as in an
    /// SQL assignment. If that is not possible, the step fails.
    pub fn set(&mut self, column: &str, value: impl Into<Datum>) {
        let put = self.position(column).and_then(|position| {
            self.values[position] = cast_to(value.into(), self.table.stored.columns[position].ty)?;
            Ok(())
        });
        if let Err(error) = put {
            self.wrong.get_or_insert(error);
        }
    }

    /// The row's values, in the order of the table's columns.
    pub fn values(&self) -> &[Datum] {
        &self.values
    }

    /// The values, unless a change has failed.
    pub(super) fn finish(self) -> Result<Vec<Datum>, SqlError> {
        self.wrong.map_or(Ok(self.values), Err)
    }
}
