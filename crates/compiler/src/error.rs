//! The errors of the compiler, with PostgreSQL's words and codes.

use sql::{SqlError, SqlState, SqlType};

/// Too many nested expressions.
pub const TOO_COMPLEX: SqlState = SqlState(*b"54001");
/// Two uses of a parameter ask for different types.
pub const AMBIGUOUS_PARAMETER: SqlState = SqlState(*b"42P08");
/// `ON CONFLICT` without a matching index, `SELECT DISTINCT` with another order.
pub const INVALID_COLUMN_REFERENCE: SqlState = SqlState(*b"42P10");
pub const INVALID_TABLE_DEFINITION: SqlState = SqlState(*b"42P16");
pub const INVALID_FOREIGN_KEY: SqlState = SqlState(*b"42830");
pub const CANNOT_COERCE: SqlState = SqlState(*b"42846");
pub const WRONG_OBJECT_TYPE: SqlState = SqlState(*b"42809");
pub const DUPLICATE_ALIAS: SqlState = SqlState(*b"42712");
pub const DEPENDENT_OBJECTS: SqlState = SqlState(*b"2BP01");

pub fn syntax(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

pub fn no_table(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}

pub fn no_column(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))
}

pub fn no_column_of(table: &str, name: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_COLUMN,
        format!("column \"{name}\" of relation \"{table}\" does not exist"),
    )
}

pub fn mismatch(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::DATATYPE_MISMATCH, message)
}

pub fn no_operator(left: SqlType, op: &str, right: SqlType) -> SqlError {
    let (left, right) = (crate::types::name_of(left), crate::types::name_of(right));
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("operator does not exist: {left} {op} {right}"),
    )
    .with_hint("No operator matches the given name and argument types. You might need to add explicit type casts.")
}

pub fn no_function(name: &str, args: &[SqlType]) -> SqlError {
    let args: Vec<String> = args.iter().map(|&ty| crate::types::name_of(ty)).collect();
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("function {name}({}) does not exist", args.join(", ")),
    )
    .with_hint(
        "No function matches the given name and argument types. You might need to add explicit type casts.",
    )
}

pub fn too_complex() -> SqlError {
    SqlError::new(TOO_COMPLEX, "stack depth limit exceeded").with_hint(
        "The statement nests expressions too deeply, or has too long a chain of operators: split it.",
    )
}

/// The error for arrays that would have to be sorted.
pub fn no_order() -> SqlError {
    SqlError::unsupported("the order of arrays", Some("Sort by an element, or by array_to_string(...)."))
}
