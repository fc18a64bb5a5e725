//! Errors.

use deploy::DeployError;
use server::engine::RunError;
use sql::SqlError;
use std::fmt;

/// Why something was not done.
///
/// ```
/// # fn main() -> Result<(), atoll::Error> {
/// let db = atoll::Database::in_memory()?;
/// let error = db.query("SELECT * FROM missing", ()).unwrap_err();
/// assert_eq!(error.sqlstate(), Some("42P01"));
/// assert!(!error.is_transient());
/// # db.close()
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// An error of SQL, with its code. The statement had no effect, and its transaction has none
    /// either, unless [`Error::is_outcome_unknown`].
    Sql(Box<Sql>),
    /// The options, or the directory, do not fit; the text says what was expected.
    Usage(String),
    /// The database could not be opened, copied or closed, or has failed while it was open.
    Failed(String),
    /// The database was closed.
    Closed,
}

/// An error of SQL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sql {
    /// Five characters, those of PostgreSQL: `23505` for a key that is there already.
    pub state: String,
    pub message: String,
    pub detail: Option<String>,
    /// What to do.
    pub hint: Option<String>,
    /// The table, column and constraint that the error is about.
    pub table: Option<String>,
    pub column: Option<String>,
    pub constraint: Option<String>,
}

impl Error {
    /// The code of an error of SQL.
    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            Error::Sql(error) => Some(&error.state),
            _ => None,
        }
    }

    /// Whether the same transaction may succeed if it is run again: it met another one, and had no
    /// effect (`40001`, `40P01`).
    pub fn is_transient(&self) -> bool {
        matches!(self.sqlstate(), Some("40001" | "40P01"))
    }

    /// Whether the transaction may have committed or not, because an instance died before its
    /// answer came (`08007`).
    pub fn is_outcome_unknown(&self) -> bool {
        self.sqlstate() == Some("08007")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Sql(error) => {
                write!(f, "{} ({})", error.message, error.state)?;
                error.detail.iter().chain(&error.hint).try_for_each(|more| write!(f, ". {more}"))
            }
            Error::Usage(why) | Error::Failed(why) => f.write_str(why),
            Error::Closed => f.write_str("the database is closed"),
        }
    }
}

impl std::error::Error for Error {}

impl From<SqlError> for Error {
    fn from(error: SqlError) -> Error {
        Error::Sql(Box::new(Sql {
            state: error.state.as_str().to_owned(),
            message: error.message.clone(),
            detail: error.detail.clone(),
            hint: error.hint.clone(),
            table: error.table.clone(),
            column: error.column.clone(),
            constraint: error.constraint.clone(),
        }))
    }
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Error {
        error.into_sql().into()
    }
}

impl From<DeployError> for Error {
    fn from(error: DeployError) -> Error {
        match error.is_usage() {
            true => Error::Usage(error.to_string()),
            false => Error::Failed(error.to_string()),
        }
    }
}
