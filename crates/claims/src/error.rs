//! The errors in the files of this crate, and in expressions over rows.

/// An invalid file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}{place}: {what}")]
pub struct DataError {
    pub file: String,
    /// `:7` for line 7; empty if the line is not known.
    pub place: String,
    pub what: String,
}

impl DataError {
    pub fn at(file: &str, line: usize, what: impl Into<String>) -> DataError {
        DataError { file: file.into(), place: format!(":{line}"), what: what.into() }
    }

    pub fn of(file: &str, what: impl Into<String>) -> DataError {
        DataError { file: file.into(), place: String::new(), what: what.into() }
    }
}

/// Why an expression has no value over the given rows.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EvalError {
    #[error("no row has {0}")]
    NoField(String),
    #[error("no {field}: {why}")]
    Missing { field: String, why: String },
    #[error("no row is left by [{0}]")]
    NoRows(String),
    #[error("{left} values beside {right}: expected as many, or one")]
    Lengths { left: usize, right: usize },
    #[error("{0} of no values")]
    Nothing(&'static str),
    #[error("{0} is no number")]
    NotFinite(String),
}
