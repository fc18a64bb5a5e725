//! Casts.

use super::arithmetic::integer;
use crate::value::Numeric;
use crate::{Datum, SqlError, SqlType};

/// The value as the type `to`. A cast that is not `explicit` is that of an assignment: strings that
/// are too long are refused, not cut.
pub(super) fn cast(value: Datum, from: SqlType, to: SqlType, _explicit: bool) -> Result<Datum, SqlError> {
    if from == to {
        return Ok(value);
    }
    match (value, to) {
        (Datum::Null, _) => Ok(Datum::Null),
        (Datum::Int(v), SqlType::Int2 | SqlType::Int4 | SqlType::Int8 | SqlType::Oid) => {
            integer(Some(v), to).map(Datum::Int)
        }
        (Datum::Int(v), SqlType::Float8) => Ok(Datum::Float(v as f64)),
        (Datum::Int(v), SqlType::Float4) => Ok(Datum::Float(f64::from(v as f32))),
        (Datum::Int(v), SqlType::Numeric(None)) => Ok(Datum::Numeric(Numeric::from(v))),
        (Datum::Int(v), SqlType::Text) => Ok(Datum::Text(v.to_string())),
        (Datum::Text(v), _) => Ok(Datum::Text(v)),
        _ => Err(SqlError::unsupported("this cast", None)),
    }
}
