//! Values as clients send and get them, in text or binary form.

use crate::incoming::{Format, utf8};
use sql::{Datum, Expr, SqlError, SqlType};

/// Appends a value's bytes and returns true; returns false for null, which has none.
pub fn write(ty: SqlType, value: &Datum, format: Format, out: &mut Vec<u8>) -> bool {
    if value.is_null() {
        return false;
    }
    match format {
        Format::Binary => sql::binary::write(out, ty, value),
        Format::Text => match (ty, value) {
            // The commonest values need no text of their own.
            (SqlType::Varchar(_) | SqlType::Text | SqlType::Name, Datum::Text(text)) => {
                out.extend_from_slice(text.as_bytes());
            }
            _ => {
                let mut text = String::new();
                sql::text::write(&mut text, ty, value);
                out.extend_from_slice(text.as_bytes());
            }
        },
    }
    true
}

/// # Errors
/// When the bytes are no value of the type.
pub fn read(ty: SqlType, bytes: &[u8], format: Format) -> Result<Datum, SqlError> {
    match format {
        Format::Binary => sql::binary::read(ty, bytes),
        Format::Text => sql::text::read(ty, utf8(bytes)?),
    }
}

/// The value of an expression without columns and parameters, as a parameter of type `to`.
///
/// # Errors
/// Those of the expression.
pub fn evaluate(expr: &Expr, from: SqlType, to: SqlType, now: i64) -> Result<Datum, SqlError> {
    let cast = Expr::Cast { expr: Box::new(expr.clone()), from, to, explicit: false };
    let context = sql::expression::Context {
        params: &[],
        now,
        random: &|| u64::from_ne_bytes(crate::scram::random().unwrap_or_default()),
    };
    cast.eval(&context, &Vec::new())
}
