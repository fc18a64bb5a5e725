//! Errors of the engine as errors of SQL.

use datafusion::common::{DataFusionError, SchemaError};
use sql::{SqlError, SqlState};

/// An error of SQL on its way through the engine.
pub fn told(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// A mistake of this crate.
pub fn internal(what: &str) -> DataFusionError {
    told(SqlError::new(SqlState::INTERNAL, format!("the query engine: {what}")))
}

/// The error as a client sees it.
pub fn of_engine(error: &DataFusionError) -> SqlError {
    let mut inner = error;
    loop {
        inner = match inner {
            DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => inner,
            DataFusionError::Shared(inner) => inner,
            DataFusionError::Collection(errors) if !errors.is_empty() => &errors[0],
            DataFusionError::External(inner) => match inner.downcast_ref::<DataFusionError>() {
                Some(inner) => inner,
                None => {
                    return inner.downcast_ref::<SqlError>().cloned().unwrap_or_else(|| plain(error));
                }
            },
            DataFusionError::ArrowError(arrow, _) => match arrow.as_ref() {
                datafusion::arrow::error::ArrowError::ExternalError(inner) => {
                    return inner
                        .downcast_ref::<DataFusionError>()
                        .map(of_engine)
                        .or_else(|| inner.downcast_ref::<SqlError>().cloned())
                        .unwrap_or_else(|| plain(error));
                }
                _ => return plain(error),
            },
            _ => return plain(inner),
        };
    }
}

fn plain(error: &DataFusionError) -> SqlError {
    let text = error.strip_backtrace();
    let state = match error {
        DataFusionError::SchemaError(schema, _) => match schema.as_ref() {
            SchemaError::AmbiguousReference { .. } => SqlState::AMBIGUOUS_COLUMN,
            SchemaError::DuplicateQualifiedField { .. } | SchemaError::DuplicateUnqualifiedField { .. } => {
                SqlState::DUPLICATE_COLUMN
            }
            _ => SqlState::UNDEFINED_COLUMN,
        },
        DataFusionError::SQL(..) => SqlState::SYNTAX_ERROR,
        DataFusionError::ResourcesExhausted(_) => SqlState(*b"53200"),
        DataFusionError::NotImplemented(_) => SqlState::FEATURE_NOT_SUPPORTED,
        DataFusionError::Plan(text) if text.contains("Scalar subquery") => SqlState::CARDINALITY,
        DataFusionError::Plan(_) => SqlState::FEATURE_NOT_SUPPORTED,
        DataFusionError::Execution(text) if text.contains("more than one row") => SqlState::CARDINALITY,
        DataFusionError::ArrowError(arrow, _) => match arrow.as_ref() {
            datafusion::arrow::error::ArrowError::DivideByZero => SqlState::DIVISION_BY_ZERO,
            datafusion::arrow::error::ArrowError::ArithmeticOverflow(_) => SqlState::NUMERIC_OUT_OF_RANGE,
            _ => SqlState::INTERNAL,
        },
        _ => SqlState::INTERNAL,
    };
    let error = SqlError::new(state, text);
    match state {
        SqlState::FEATURE_NOT_SUPPORTED => error.with_detail("The query engine has no plan for it."),
        SqlState(state) if state == *b"53200" => error.with_hint(
            "The query needs more memory than one query may have. Select fewer rows or columns, or let keys \
             and indexes find them.",
        ),
        _ => error,
    }
}
