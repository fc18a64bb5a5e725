//! Types: their names, and which of them turn into which others without being asked.

use crate::written_names::parts;
use sql::SqlType::{
    Array, Bool, Bytea, Char, Date, Float4, Float8, Int2, Int4, Int8, Interval, Json, Jsonb, Name, Numeric,
    Oid, Text, Time, Timestamp, TimestampTz, Unknown, Uuid, Varchar,
};
use sql::catalog::Catalog;
use sql::{Element, Enum, SqlError, SqlState, SqlType};
use sqlparser::ast::{ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, TimezoneInfo};

/// The most characters of `char(n)` and `varchar(n)`.
const MAX_CHARS: u64 = 10_485_760;
const MAX_PRECISION: u64 = 1000;

/// The name that PostgreSQL's messages have for a type.
pub fn name_of(ty: SqlType) -> String {
    match ty {
        Bool => "boolean".into(),
        Int2 => "smallint".into(),
        Int4 => "integer".into(),
        Int8 => "bigint".into(),
        Float4 => "real".into(),
        Float8 => "double precision".into(),
        Numeric(_) => "numeric".into(),
        Char(_) => "character".into(),
        Varchar(_) => "character varying".into(),
        Text => "text".into(),
        Bytea => "bytea".into(),
        Date => "date".into(),
        Time => "time without time zone".into(),
        Timestamp => "timestamp without time zone".into(),
        TimestampTz => "timestamp with time zone".into(),
        Interval => "interval".into(),
        Uuid => "uuid".into(),
        Json => "json".into(),
        Jsonb => "jsonb".into(),
        Name => "name".into(),
        Oid => "oid".into(),
        Unknown => "unknown".into(),
        Array(element) => format!("{}[]", name_of(element.ty())),
        SqlType::Enum(labels) => quoted(&labels.name),
    }
}

/// The short name, with length or precision: that of a column in messages of `format_type`.
pub fn full_name_of(ty: SqlType) -> String {
    match ty {
        Char(length) if length > 0 => format!("character({length})"),
        Varchar(Some(length)) => format!("character varying({length})"),
        Numeric(Some((precision, scale))) => format!("numeric({precision},{scale})"),
        _ => name_of(ty),
    }
}

/// The type that a statement names.
///
/// # Errors
/// `42704` for a type that there is not, `0A000` for one that Atoll does not have, `22023` for a
/// length or precision out of range.
pub fn resolve(catalog: &Catalog, data_type: &DataType) -> Result<SqlType, SqlError> {
    Ok(match data_type {
        DataType::Bool | DataType::Boolean => Bool,
        DataType::SmallInt(_) | DataType::Int2(_) => Int2,
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => Int4,
        DataType::BigInt(_) | DataType::Int8(_) => Int8,
        DataType::Real | DataType::Float4 => Float4,
        DataType::Float(ExactNumberInfo::Precision(bits)) if *bits <= 24 => Float4,
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 | DataType::Float(_) => Float8,
        DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info) => Numeric(precision(*info)?),
        DataType::Char(length) | DataType::Character(length) => Char(chars(*length)?.unwrap_or(1)),
        DataType::Varchar(length) | DataType::CharacterVarying(length) | DataType::CharVarying(length) => {
            Varchar(chars(*length)?)
        }
        DataType::Text => Text,
        DataType::Bytea => Bytea,
        DataType::Date => Date,
        DataType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => Time,
        DataType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => Timestamp,
        DataType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => TimestampTz,
        DataType::Interval { .. } => Interval,
        DataType::Uuid => Uuid,
        DataType::JSON => Json,
        DataType::JSONB => Jsonb,
        DataType::Custom(name, modifiers) => custom(catalog, &parts(name), modifiers)?,
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => array_of(resolve(catalog, element)?)?,
        DataType::Regclass => return Err(SqlError::unsupported("regclass", None)),
        other => return Err(no_type(&other.to_string().to_lowercase())),
    })
}

/// The type of arrays of a type.
///
/// # Errors
/// `0A000` for elements that Atoll's arrays do not have.
pub fn array_of(ty: SqlType) -> Result<SqlType, SqlError> {
    let (what, hint) = match ty {
        Array(_) => ("an array of arrays", "Use a table of its own."),
        _ => ("an array of a type with a length or precision", "Leave the length or precision out."),
    };
    Element::of(ty).map(Array).ok_or_else(|| SqlError::unsupported(what, Some(hint)))
}

/// A type by the parts of its name.
fn custom(catalog: &Catalog, parts: &[String], modifiers: &[String]) -> Result<SqlType, SqlError> {
    let (schema, name) = match parts {
        [name] => ("", name.as_str()),
        [.., schema, name] => (schema.as_str(), name.as_str()),
        [] => ("", ""),
    };
    if matches!(schema, "" | "pg_catalog")
        && let Some(ty) = of_system(name, modifiers)
    {
        return Ok(ty);
    }
    let of_arrays = || catalog.types.values().find(|known| name.strip_prefix('_') == Some(&known.name));
    match (schema, catalog.enumeration(name)) {
        ("" | "public", Some(known)) => Ok(SqlType::Enum(Enum::of(known))),
        ("" | "public", None) if let Some(known) = of_arrays() => Ok(Array(Element::Enum(Enum::of(known)))),
        ("", _) => match name.strip_prefix('_').and_then(|element| of_system(element, modifiers)) {
            Some(element) => array_of(element),
            None => Err(no_type(name)),
        },
        _ => Err(no_type(&parts.join("."))),
    }
}

/// A type of the system.
fn of_system(name: &str, modifiers: &[String]) -> Option<SqlType> {
    Some(match name {
        "name" => Name,
        "oid" => Oid,
        "bool" => Bool,
        "int2" | "smallserial" | "serial2" => Int2,
        "int4" | "serial" | "serial4" => Int4,
        "int8" | "bigserial" | "serial8" => Int8,
        "float4" => Float4,
        "float8" => Float8,
        "numeric" => Numeric(None),
        "text" => Text,
        "bpchar" => match modifiers.first().and_then(|length| length.parse().ok()) {
            Some(length) => Char(length),
            None => Char(0),
        },
        "varchar" => Varchar(modifiers.first().and_then(|length| length.parse().ok())),
        "timestamptz" => TimestampTz,
        "timestamp" => Timestamp,
        "date" => Date,
        "time" => Time,
        "interval" => Interval,
        "uuid" => Uuid,
        "json" => Json,
        "jsonb" => Jsonb,
        "bytea" => Bytea,
        _ => return None,
    })
}

/// A name as a statement would have it.
pub fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_$".contains(c));
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn no_type(name: &str) -> SqlError {
    const KNOWN: [&str; 7] = ["money", "inet", "cidr", "xml", "tsvector", "tsquery", "point"];
    if KNOWN.contains(&name) || name.contains("time zone") || name.starts_with("bit") {
        return SqlError::unsupported(&format!("type \"{name}\""), Some("Use text."));
    }
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
}

/// Whether the name stands for an integer column that takes its values from a sequence.
pub fn is_serial(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Custom(name, _)
        if matches!(name.to_string().to_lowercase().as_str(),
            "serial" | "serial4" | "bigserial" | "serial8" | "smallserial" | "serial2"))
}

fn chars(length: Option<CharacterLength>) -> Result<Option<u32>, SqlError> {
    let Some(length) = length else { return Ok(None) };
    let CharacterLength::IntegerLength { length, .. } = length else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"max\""));
    };
    if length == 0 || length > MAX_CHARS {
        let message = format!("length for type char or varchar must be from 1 to {MAX_CHARS}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER, message));
    }
    Ok(u32::try_from(length).ok())
}

fn precision(info: ExactNumberInfo) -> Result<Option<(u16, u16)>, SqlError> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => return Ok(None),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    if !(1..=MAX_PRECISION).contains(&precision) {
        let message = format!("NUMERIC precision {precision} must be between 1 and {MAX_PRECISION}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER, message));
    }
    let (Ok(precision), Ok(scale)) = (u16::try_from(precision), u16::try_from(scale)) else {
        let message = format!("NUMERIC scale {scale} must be between 0 and {MAX_PRECISION}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER, message));
    };
    Ok(Some((precision, scale)))
}

pub fn is_integer(ty: SqlType) -> bool {
    matches!(ty, Int2 | Int4 | Int8)
}

pub fn is_number(ty: SqlType) -> bool {
    number_rank(ty).is_some()
}

pub fn is_text(ty: SqlType) -> bool {
    matches!(ty, Char(_) | Varchar(_) | Text | Name)
}

/// Numbers turn into those of a higher rank.
fn number_rank(ty: SqlType) -> Option<u8> {
    Some(match ty {
        Int2 => 1,
        Int4 => 2,
        Int8 => 3,
        Numeric(_) => 4,
        Float4 => 5,
        Float8 => 6,
        _ => return None,
    })
}

/// The type in which two values are compared, or of which both branches of a `CASE` are; `None` if
/// there is none. Lengths and precisions are kept where they are equal.
pub fn common(left: SqlType, right: SqlType) -> Option<SqlType> {
    if left == right {
        return Some(left);
    }
    Some(match (left, right) {
        // A literal need not fit the length of the other value.
        (Unknown | Numeric(_), Numeric(_)) | (Numeric(_), Unknown) => Numeric(None),
        (Unknown, Varchar(_)) | (Varchar(_), Unknown) => Varchar(None),
        (Unknown, other) | (other, Unknown) => other,
        (Char(_), Char(_)) => Char(0),
        (Varchar(_), Varchar(_)) => Varchar(None),
        (Oid, number) | (number, Oid) if is_integer(number) => Int8,
        _ if is_text(left) && is_text(right) => Text,
        (Date, Timestamp) | (Timestamp, Date) => Timestamp,
        (Date | Timestamp, TimestampTz) | (TimestampTz, Date | Timestamp) => TimestampTz,
        (Json, Jsonb) | (Jsonb, Json) => Jsonb,
        (Array(_), Array(_)) if is_same_value(left, right) => right,
        (Array(_), Array(_)) if is_same_value(right, left) => left,
        _ => match (number_rank(left)?, number_rank(right)?) {
            // There is no operator of a real and another kind of number.
            (5, _) | (_, 5) => Float8,
            (l, r) => without_length(if l > r { left } else { right }),
        },
    })
}

/// Whether a value of one type becomes one of the other without being asked.
pub fn is_implicit(from: SqlType, to: SqlType) -> bool {
    if same_kind(from, to) || from == Unknown {
        return true;
    }
    match (number_rank(from), number_rank(to)) {
        (Some(from), Some(to)) => return from < to,
        (Some(_), None) => return to == Oid && is_integer(from),
        _ => {}
    }
    match (from, to) {
        (Date, Timestamp | TimestampTz) | (Timestamp, TimestampTz) | (Time, Interval) => true,
        (Array(from), Array(to)) => is_implicit(from.ty(), to.ty()),
        _ => is_text(from) && is_text(to),
    }
}

/// Whether a value of one type may be stored in a column of the other.
pub fn is_assignable(from: SqlType, to: SqlType) -> bool {
    is_implicit(from, to)
        || is_number(from) && is_number(to)
        || matches!((from, to), (Timestamp | TimestampTz, Date | Time) | (TimestampTz, Timestamp))
        || matches!((from, to), (Interval, Time) | (Json, Jsonb) | (Jsonb, Json) | (Oid, Int4 | Int8))
        || is_text(to)
        || matches!((from, to), (Array(from), Array(to)) if is_assignable(from.ty(), to.ty()))
}

/// Whether a statement may ask for it (`CAST`, `::`).
pub fn is_castable(from: SqlType, to: SqlType) -> bool {
    is_assignable(from, to)
        || is_text(from)
        || matches!((from, to), (Bool, Int4) | (Int4, Bool))
        || matches!((from, to), (Jsonb, _) if is_number(to) || to == Bool)
        || matches!((from, to), (Array(from), Array(to)) if is_castable(from.ty(), to.ty()))
}

/// Types that differ at most in length or precision.
pub fn same_kind(left: SqlType, right: SqlType) -> bool {
    left == right
        || matches!((left, right), (Numeric(_), Numeric(_)) | (Char(_), Char(_)) | (Varchar(_), Varchar(_)))
}

/// Whether each value of one type is represented as the same value of the other.
pub fn is_same_value(from: SqlType, to: SqlType) -> bool {
    match (from, to) {
        _ if from == to => true,
        (Int2, Int4 | Int8) | (Int4, Int8) | (Oid, Int8) => true,
        (Float4, Float8) => true,
        (Numeric(_), Numeric(None)) | (Char(_), Char(0)) => true,
        (Char(_) | Varchar(_) | Text | Name, Text | Varchar(None)) => true,
        (Array(Element::Varchar), Array(Element::Text)) => true,
        _ => false,
    }
}

/// The type without its length or precision.
pub fn without_length(ty: SqlType) -> SqlType {
    match ty {
        SqlType::Char(_) => SqlType::Char(0),
        SqlType::Varchar(_) => SqlType::Varchar(None),
        SqlType::Numeric(_) => SqlType::Numeric(None),
        ty => ty,
    }
}
