//! JSON documents as text.

use crate::{Datum, SqlError, SqlType};

pub fn concat(_a: &str, _b: &str) -> Result<String, SqlError> {
    Err(SqlError::unsupported("|| of jsonb", None))
}

pub fn get(_document: &str, _step: &Datum, _ty: SqlType) -> Result<Datum, SqlError> {
    Err(SqlError::unsupported("->", None))
}

pub fn get_text(_document: &str, _step: &Datum) -> Result<Datum, SqlError> {
    Err(SqlError::unsupported("->>", None))
}
