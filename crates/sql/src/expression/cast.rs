//! Casts: between numbers, between times, from every type to text and back.

use super::arithmetic::{float_overflow, integer};
use crate::datetime::zone::Zone;
use crate::power::float_underflow;
use crate::text::{Excess, array_of, fit, read, read_in, to_string_in, values_of};
use crate::value::{Interval, Numeric};
use crate::{Datum, SqlError, SqlState, SqlType, datetime, json};

/// The value as the type `to`, in the session's zone. A cast that is not `explicit` is that of an
/// assignment: strings that are too long are refused, not cut.
///
/// # Errors
/// PostgreSQL's for values that the type does not have; `42846` if there is no such cast.
pub(super) fn cast(
    value: Datum,
    from: SqlType,
    to: SqlType,
    explicit: bool,
    zone: &Zone,
) -> Result<Datum, SqlError> {
    let excess = if explicit { Excess::Cut } else { Excess::Refused };
    if let (Datum::Text(text), SqlType::Array(of), SqlType::Array(element)) = (&value, from, to) {
        let values = values_of(of, text)?.into_iter();
        let values = values.map(|value| cast(value, of.ty(), element.ty(), explicit, zone));
        return Ok(array_of(element, &values.collect::<Result<Vec<_>, _>>()?));
    }
    match (value, to) {
        (Datum::Null, _) => Ok(Datum::Null),
        (Datum::Text(text), to) if is_string(to) => fit(to, text, excess).map(Datum::Text),
        (Datum::Text(text), SqlType::Json | SqlType::Jsonb) => to_json(text, from, to),
        (Datum::Text(text), to) if from == SqlType::Jsonb => from_jsonb(&text, to),
        (Datum::Text(text), to) => read_in(to, &text, zone),
        // The text of a boolean is a word, unlike the letter that clients get.
        (Datum::Bool(v), to) if is_string(to) => fit(to, v.to_string(), excess).map(Datum::Text),
        (value, to) if is_string(to) => fit(to, to_string_in(from, &value, zone), excess).map(Datum::Text),
        (Datum::Int(code), SqlType::Enum(_)) if from == to => Ok(Datum::Int(code)),
        (Datum::Bool(v), SqlType::Int4) => Ok(Datum::Int(v.into())),
        (Datum::Int(v), to) => from_int(v, to),
        (Datum::Float(v), to) => from_float(v, from, to),
        (Datum::Numeric(v), to) => from_numeric(&v, to),
        (value, to) if from == to => Ok(value),
        (value, to) => between_times(value, from, to, zone),
    }
}

/// A value from outside as a column of type `to` takes it: the cast of an assignment, from the type
/// that the value shows, in universal time.
///
/// # Errors
/// As `cast`.
pub fn cast_to(value: Datum, to: SqlType) -> Result<Datum, SqlError> {
    let from = match &value {
        Datum::Null => return Ok(Datum::Null),
        Datum::Bool(_) => SqlType::Bool,
        Datum::Int(_) => SqlType::Int8,
        Datum::Float(_) => SqlType::Float8,
        Datum::Numeric(_) => SqlType::Numeric(None),
        Datum::Text(_) => SqlType::Text,
        Datum::Bytes(_) => SqlType::Bytea,
        Datum::Date(_) => SqlType::Date,
        Datum::Time(_) => SqlType::Time,
        Datum::Timestamp(_) if to == SqlType::Timestamp => SqlType::Timestamp,
        Datum::Timestamp(_) => SqlType::TimestampTz,
        Datum::Interval(_) => SqlType::Interval,
        Datum::Uuid(_) => SqlType::Uuid,
    };
    cast(value, from, to, false, &Zone::UTC)
}

fn is_string(ty: SqlType) -> bool {
    matches!(ty, SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Text | SqlType::Name | SqlType::Unknown)
}

fn no_cast(from: SqlType, to: SqlType) -> SqlError {
    SqlError::new(SqlState::CANNOT_COERCE, format!("cannot cast type {from:?} to {to:?}"))
}

fn to_json(text: String, from: SqlType, to: SqlType) -> Result<Datum, SqlError> {
    match (from, to) {
        (SqlType::Jsonb, _) | (SqlType::Json, SqlType::Json) => Ok(Datum::Text(text)),
        _ => read(to, &text),
    }
}

/// A scalar of a `jsonb` as a number or a boolean.
fn from_jsonb(text: &str, to: SqlType) -> Result<Datum, SqlError> {
    let kind = json::type_of(text);
    match (kind, to) {
        ("boolean", SqlType::Bool) => Ok(Datum::Bool(text == "true")),
        (
            "number",
            SqlType::Int2
            | SqlType::Int4
            | SqlType::Int8
            | SqlType::Float4
            | SqlType::Float8
            | SqlType::Numeric(_),
        ) => from_numeric(&Numeric::parse(text)?, to),
        _ => {
            let message = format!("cannot cast jsonb {kind} to type {}", name(to));
            Err(SqlError::new(SqlState::INVALID_PARAMETER, message))
        }
    }
}

fn name(ty: SqlType) -> &'static str {
    match ty {
        SqlType::Bool => "boolean",
        SqlType::Int2 => "smallint",
        SqlType::Int4 => "integer",
        SqlType::Int8 => "bigint",
        SqlType::Float4 => "real",
        SqlType::Float8 => "double precision",
        SqlType::Numeric(_) => "numeric",
        _ => "this type",
    }
}

fn from_int(v: i64, to: SqlType) -> Result<Datum, SqlError> {
    match to {
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 | SqlType::Oid => integer(Some(v), to).map(Datum::Int),
        SqlType::Bool => Ok(Datum::Bool(v != 0)),
        SqlType::Float4 => Ok(Datum::Float(f64::from(v as f32))),
        SqlType::Float8 => Ok(Datum::Float(v as f64)),
        SqlType::Numeric(limits) => fit_numeric(Numeric::from(v), limits),
        _ => Err(no_cast(SqlType::Int8, to)),
    }
}

fn fit_numeric(number: Numeric, limits: Option<(u16, u16)>) -> Result<Datum, SqlError> {
    let number = match limits {
        Some((precision, scale)) => number.fit(precision, scale)?,
        None => number,
    };
    Ok(Datum::Numeric(number))
}

fn from_float(v: f64, from: SqlType, to: SqlType) -> Result<Datum, SqlError> {
    match to {
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => {
            let rounded = v.round_ties_even();
            // 2^63 is a float, the greatest integer is not.
            let fits = (i64::MIN as f64..i64::MAX as f64).contains(&rounded);
            integer(fits.then_some(rounded as i64), to).map(Datum::Int)
        }
        SqlType::Float4 => {
            let narrow = f64::from(v as f32);
            match narrow {
                narrow if narrow.is_infinite() && v.is_finite() => Err(float_overflow()),
                0.0 if v != 0.0 => Err(float_underflow()),
                narrow => Ok(Datum::Float(narrow)),
            }
        }
        SqlType::Float8 => Ok(Datum::Float(v)),
        SqlType::Numeric(limits) => {
            fit_numeric(Numeric::from_float(v, if from == SqlType::Float4 { 6 } else { 15 })?, limits)
        }
        _ => Err(no_cast(from, to)),
    }
}

fn from_numeric(v: &Numeric, to: SqlType) -> Result<Datum, SqlError> {
    match to {
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 if *v == Numeric::NaN => {
            let message = format!("cannot convert NaN to {}", name(to));
            Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
        }
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => integer(v.to_i64(), to).map(Datum::Int),
        SqlType::Float4 | SqlType::Float8 => read(to, &v.to_string()),
        SqlType::Numeric(limits) => fit_numeric(v.clone(), limits),
        _ => Err(no_cast(SqlType::Numeric(None), to)),
    }
}

fn between_times(value: Datum, from: SqlType, to: SqlType, zone: &Zone) -> Result<Datum, SqlError> {
    let value = match value {
        Datum::Timestamp(t) if from == SqlType::TimestampTz => Datum::Timestamp(zone.local(t)),
        value => value,
    };
    match (value, to) {
        (Datum::Date(date), SqlType::Timestamp) => datetime::midnight(date).map(Datum::Timestamp),
        (Datum::Date(date), SqlType::TimestampTz) => {
            zone.instant(datetime::midnight(date)?).map(Datum::Timestamp)
        }
        (Datum::Timestamp(t), SqlType::Timestamp) => Ok(Datum::Timestamp(t)),
        (Datum::Timestamp(t), SqlType::TimestampTz) => zone.instant(t).map(Datum::Timestamp),
        (Datum::Timestamp(t), SqlType::Date) => Ok(Datum::Date(datetime::date_of(t))),
        (Datum::Timestamp(datetime::BEGIN | datetime::END), SqlType::Time) => Ok(Datum::Null),
        (Datum::Timestamp(t), SqlType::Time) => Ok(Datum::Time(t.rem_euclid(datetime::DAY))),
        (Datum::Time(t), SqlType::Interval) => {
            Ok(Datum::Interval(Interval { micros: t, ..Interval::default() }))
        }
        (Datum::Interval(span), SqlType::Time) => Ok(Datum::Time(span.micros.rem_euclid(datetime::DAY))),
        _ => Err(no_cast(from, to)),
    }
}
