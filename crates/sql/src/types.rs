//! The types of SQL values.

use serde::{Deserialize, Serialize};

/// A type as a column or a parameter has it. Names and limits are PostgreSQL's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum SqlType {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    /// Precision and scale, in decimal digits; `None` for any.
    Numeric(Option<(u16, u16)>),
    /// Blank-padded to this many characters; 0 for any number, without blanks (the type of a
    /// parameter that is compared with a padded column).
    Char(u32),
    /// At most this many characters; `None` for any.
    Varchar(Option<u32>),
    Text,
    Bytea,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Interval,
    Uuid,
    Json,
    Jsonb,
    /// Names of catalog objects, at most 63 bytes.
    Name,
    /// Numbers of catalog objects.
    Oid,
    /// A literal or parameter of which the type is not known yet; text in form.
    Unknown,
}
