//! Rows of a result.

use crate::pipe::Column;
use crate::{Error, FromValue, Value};
use sql::native::convert::of_column;
use sql::{SqlError, SqlState};
use std::sync::Arc;

/// A row of a result.
///
/// ```
/// # fn main() -> Result<(), atoll::Error> {
/// let db = atoll::Database::in_memory()?;
/// let row = db.query_one("SELECT 1 AS number, 'one' AS name, NULL::int8 AS nothing", ())?;
/// assert_eq!((row.get::<i64>("number")?, row.at::<String>(1)?), (1, "one".to_owned()));
/// assert_eq!(row.get::<Option<i64>>("nothing")?, None);
/// assert!(row.get::<i64>("nothing").is_err());
/// # db.close()
/// # }
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    pub(crate) columns: Arc<[Column]>,
    pub(crate) values: Vec<Value>,
}

impl Row {
    /// The value of the column of this name.
    ///
    /// # Errors
    /// `42703` if there is none, `42804` if its value is no `T`. `Option<T>` takes nulls.
    pub fn get<T: FromValue>(&self, name: &str) -> Result<T, Error> {
        match self.columns.iter().position(|column| column.name == name) {
            Some(position) => self.at(position),
            None => {
                let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
                let message = format!("there is no column \"{name}\" in ({})", names.join(", "));
                Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message).into())
            }
        }
    }

    /// The value of the column at this position, from 0.
    ///
    /// # Errors
    /// As [`Row::get`].
    pub fn at<T: FromValue>(&self, position: usize) -> Result<T, Error> {
        let Some(value) = self.values.get(position) else {
            let message = format!("column {position} of a row of {}; they count from 0", self.values.len());
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message).into());
        };
        Ok(of_column(value, &self.columns[position].name)?)
    }

    /// All values, in the order of the columns.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Names and types of the columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }
}
