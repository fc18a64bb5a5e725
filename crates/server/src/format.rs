//! Values as clients send and get them, in text or binary form.

use crate::incoming::{Format, utf8};
use crate::outgoing::decimal;
use crate::pgtype;
use compiler::arrays::Elements;
use sql::catalog::Catalog;
use sql::datetime::zone::Zone;
use sql::{Datum, Expr, SqlError, SqlState, SqlType};

/// Appends a value's bytes and returns true; returns false for null, which has none. The text of an
/// instant is a time in the zone.
pub fn write(ty: SqlType, value: &Datum, format: Format, zone: &Zone, out: &mut Vec<u8>) -> bool {
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
            (SqlType::Int2 | SqlType::Int4 | SqlType::Int8, Datum::Int(number)) => decimal(number, out),
            _ => {
                let mut text = String::new();
                sql::text::write_in(&mut text, ty, value, zone);
                out.extend_from_slice(text.as_bytes());
            }
        },
    }
    true
}

/// A value; an instant's text that names no zone is a time in this one.
///
/// # Errors
/// When the bytes are no value of the type.
pub fn read(ty: SqlType, bytes: &[u8], format: Format, zone: &Zone) -> Result<Datum, SqlError> {
    match format {
        Format::Binary => sql::binary::read(ty, bytes),
        Format::Text => sql::text::read_in(ty, utf8(bytes)?, zone),
    }
}

/// The elements of an array as texts; `ty` is the type of those that say none.
///
/// # Errors
/// When the bytes are no array of one dimension, or its elements no values of their type.
pub fn read_array(ty: SqlType, bytes: &[u8], format: Format) -> Result<Elements, SqlError> {
    if format == Format::Text {
        return compiler::arrays::elements(utf8(bytes)?);
    }
    let wrong = || {
        let message = "incorrect binary data format in an array";
        SqlError::new(SqlState(*b"22P03"), message).with_hint("Expected an array of one dimension.")
    };
    let mut rest = bytes;
    let mut take = |count: usize| {
        let (taken, others) = rest.split_at_checked(count)?;
        rest = others;
        Some(taken)
    };
    let integer = |bytes: &[u8]| bytes.try_into().map(i32::from_be_bytes).ok();
    let mut number = || take(4).and_then(integer);
    let (dimensions, _, element) = (number(), number(), number());
    let (Some(dimensions), Some(element)) = (dimensions, element) else { return Err(wrong()) };
    if dimensions == 0 {
        return Ok(Vec::new());
    }
    let (count, _) = (number(), number());
    let count = count.and_then(|count| usize::try_from(count).ok());
    let Some(count) = count.filter(|count| dimensions == 1 && *count <= bytes.len()) else {
        return Err(wrong());
    };
    sql::array::check_count(count)?;
    // An element of one of the user's types is what the parameter is.
    let ty = pgtype::of_number(&Catalog::default(), element as u32).ok().flatten().unwrap_or(ty);
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        let length = take(4).and_then(integer);
        all.push(match length.ok_or_else(wrong)? {
            -1 => None,
            length => {
                let length = usize::try_from(length).map_err(|_| wrong())?;
                let value = sql::binary::read(ty, take(length).ok_or_else(wrong)?)?;
                Some(sql::text::to_string(ty, &value))
            }
        });
    }
    if rest.is_empty() { Ok(all) } else { Err(wrong()) }
}

/// The value of an expression without columns and parameters, as a parameter of type `to`.
///
/// # Errors
/// Those of the expression.
pub fn evaluate(
    expr: &Expr,
    from: SqlType,
    to: SqlType,
    (now, zone): (i64, &Zone),
) -> Result<Datum, SqlError> {
    let cast = Expr::Cast { expr: Box::new(expr.clone()), from, to, explicit: false };
    let context = sql::expression::Context {
        params: &[],
        now,
        zone,
        random: &|| u64::from_ne_bytes(crate::scram::random().unwrap_or_default()),
    };
    cast.eval(&context, &Vec::new())
}
