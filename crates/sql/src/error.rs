//! Errors of SQL.

use serde::{Deserialize, Serialize};
use std::ops::{Deref, DerefMut};
use txn::Abort;

/// A five-character code of the SQL standard or of PostgreSQL, on which clients act.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct SqlState(pub [u8; 5]);

impl SqlState {
    pub const UNIQUE_VIOLATION: SqlState = SqlState(*b"23505");
    pub const NOT_NULL_VIOLATION: SqlState = SqlState(*b"23502");
    pub const FOREIGN_KEY_VIOLATION: SqlState = SqlState(*b"23503");
    pub const CHECK_VIOLATION: SqlState = SqlState(*b"23514");
    pub const SERIALIZATION_FAILURE: SqlState = SqlState(*b"40001");
    pub const DEADLOCK_DETECTED: SqlState = SqlState(*b"40P01");
    pub const FEATURE_NOT_SUPPORTED: SqlState = SqlState(*b"0A000");
    pub const SYNTAX_ERROR: SqlState = SqlState(*b"42601");
    pub const UNDEFINED_TABLE: SqlState = SqlState(*b"42P01");
    pub const UNDEFINED_COLUMN: SqlState = SqlState(*b"42703");
    pub const AMBIGUOUS_COLUMN: SqlState = SqlState(*b"42702");
    pub const UNDEFINED_FUNCTION: SqlState = SqlState(*b"42883");
    pub const UNDEFINED_OBJECT: SqlState = SqlState(*b"42704");
    pub const DUPLICATE_TABLE: SqlState = SqlState(*b"42P07");
    pub const DUPLICATE_COLUMN: SqlState = SqlState(*b"42701");
    pub const DUPLICATE_OBJECT: SqlState = SqlState(*b"42710");
    pub const DATATYPE_MISMATCH: SqlState = SqlState(*b"42804");
    pub const INDETERMINATE_DATATYPE: SqlState = SqlState(*b"42P18");
    pub const GROUPING_ERROR: SqlState = SqlState(*b"42803");
    pub const INVALID_TEXT: SqlState = SqlState(*b"22P02");
    pub const INVALID_BINARY: SqlState = SqlState(*b"22P03");
    pub const INVALID_DATETIME: SqlState = SqlState(*b"22007");
    pub const DATETIME_OVERFLOW: SqlState = SqlState(*b"22008");
    pub const NUMERIC_OUT_OF_RANGE: SqlState = SqlState(*b"22003");
    pub const STRING_TOO_LONG: SqlState = SqlState(*b"22001");
    pub const DIVISION_BY_ZERO: SqlState = SqlState(*b"22012");
    pub const INVALID_PARAMETER: SqlState = SqlState(*b"22023");
    pub const CARDINALITY: SqlState = SqlState(*b"21000");
    pub const PROGRAM_LIMIT: SqlState = SqlState(*b"54000");
    pub const STATEMENT_TOO_COMPLEX: SqlState = SqlState(*b"54001");
    pub const INVALID_ESCAPE: SqlState = SqlState(*b"22025");
    pub const INVALID_CHARACTER: SqlState = SqlState(*b"22021");
    pub const UNTRANSLATABLE_CHARACTER: SqlState = SqlState(*b"22P05");
    pub const INVALID_SUBSTRING: SqlState = SqlState(*b"22011");
    pub const INVALID_LOGARITHM: SqlState = SqlState(*b"2201E");
    pub const INVALID_POWER: SqlState = SqlState(*b"2201F");
    pub const CANNOT_COERCE: SqlState = SqlState(*b"42846");
    pub const DATA_CORRUPTED: SqlState = SqlState(*b"XX001");
    pub const INTERNAL: SqlState = SqlState(*b"XX000");

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("XX000")
    }
}

/// An error that a client sees. The statement had no effect. It is one pointer, so that the results
/// of expressions stay small.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{}", .0.message)]
pub struct SqlError(Box<Report>);

/// What a client is told about an error.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Report {
    pub state: SqlState,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// Position in the statement's text, in characters from 1.
    pub position: Option<u32>,
    /// The table, column or constraint that the error is about.
    pub table: Option<String>,
    pub column: Option<String>,
    pub constraint: Option<String>,
}

impl Deref for SqlError {
    type Target = Report;
    fn deref(&self) -> &Report {
        &self.0
    }
}

impl DerefMut for SqlError {
    fn deref_mut(&mut self) -> &mut Report {
        &mut self.0
    }
}

impl SqlError {
    #[cold]
    pub fn new(state: SqlState, message: impl Into<String>) -> SqlError {
        SqlError(Box::new(Report {
            state,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            table: None,
            column: None,
            constraint: None,
        }))
    }

    /// SQL that Atoll does not have: `word` is the part that is missing, `instead` what to use.
    pub fn unsupported(word: &str, instead: Option<&str>) -> SqlError {
        let mut error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{word} is not supported"));
        error.hint = instead.map(Into::into);
        error
    }

    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> SqlError {
        self.detail = Some(detail.into());
        self
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> SqlError {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn on_constraint(mut self, table: &str, constraint: &str) -> SqlError {
        (self.table, self.constraint) = (Some(table.into()), Some(constraint.into()));
        self
    }
}

/// Why a statement did not run to its end.
#[derive(Clone, PartialEq, Debug)]
pub enum Stop {
    /// The transaction ends.
    Abort(Abort),
    /// The statement is wrong, or what it asks for.
    Error(SqlError),
}

impl From<Abort> for Stop {
    fn from(abort: Abort) -> Stop {
        Stop::Abort(abort)
    }
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Stop {
        Stop::Error(error)
    }
}
