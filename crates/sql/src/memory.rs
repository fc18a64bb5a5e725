//! The memory that the values of a query take, and its limit.

use crate::{Datum, SqlError, SqlState};

/// The most bytes of memory of one query: the rows of its tables and all that it makes of them, or
/// the groups of a program.
pub const MOST: usize = 512 << 20;

/// The bytes of memory of a row.
pub fn size(row: &[Datum]) -> usize {
    let heap = |value: &Datum| match value {
        Datum::Text(text) => text.len() + 16,
        Datum::Bytes(bytes) => bytes.len() + 16,
        Datum::Numeric(_) => 32,
        _ => 0,
    };
    32 + size_of_val(row) + row.iter().map(heap).sum::<usize>()
}

/// A query that needs more than `most` bytes.
#[cold]
pub fn exceeded(most: usize) -> SqlError {
    let message = format!("the query needs more than {} MiB of memory", most >> 20);
    SqlError::new(SqlState(*b"53200"), message).with_hint(
        "Select fewer columns, add conditions on the columns of its tables, or ask for it in parts.",
    )
}
