//! Values as text.

use crate::{Type, Value};

/// The text of a value of this type, as PostgreSQL writes it; empty for a null.
///
/// ```
/// use atoll::{Type, Value, to_text};
///
/// assert_eq!(to_text(Type::Date, &Value::Date(1)), "2000-01-02");
/// assert_eq!(to_text(Type::Bytea, &Value::Bytes(vec![1, 255])), "\\x01ff");
/// assert_eq!(to_text(Type::Int8, &Value::Null), "");
/// ```
pub fn to_text(ty: Type, value: &Value) -> String {
    if value.is_null() { String::new() } else { sql::text::to_string(ty, value) }
}
