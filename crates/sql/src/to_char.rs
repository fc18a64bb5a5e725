//! `to_char`.

use crate::{Datum, SqlError};

pub fn number(_v: &Datum, _format: &str) -> Result<String, SqlError> {
    Err(SqlError::unsupported("to_char", None))
}
pub fn time(_v: &Datum, _format: &str) -> Result<Datum, SqlError> {
    Err(SqlError::unsupported("to_char", None))
}
