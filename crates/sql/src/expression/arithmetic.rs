//! Operators on two values: numbers, strings, bits; those on times and documents lead to
//! [`crate::datetime`] and [`crate::json`].

use super::BinaryOp;
use crate::datetime::zone::Zone;
use crate::numeric::division_by_zero;
use crate::value::Numeric;
use crate::{Datum, SqlError, SqlState, SqlType, json, power};

/// The result, of type `ty`, of an operator that is no comparison. A null operand gives null.
#[inline]
pub(super) fn binary(
    op: BinaryOp,
    left: &Datum,
    right: &Datum,
    (ty, zone): (SqlType, &Zone),
) -> Result<Datum, SqlError> {
    match (left, right) {
        (Datum::Null, _) | (_, Datum::Null) => Ok(Datum::Null),
        (Datum::Int(a), Datum::Int(b)) => integers(op, *a, *b, ty).map(Datum::Int),
        (Datum::Float(a), Datum::Float(b)) => floats(op, *a, *b, ty).map(Datum::Float),
        (Datum::Numeric(a), Datum::Numeric(b)) => numerics(op, a, b).map(Datum::Numeric),
        _ => others(op, left, right, (ty, zone)),
    }
}

fn others(
    op: BinaryOp,
    left: &Datum,
    right: &Datum,
    (ty, zone): (SqlType, &Zone),
) -> Result<Datum, SqlError> {
    match (op, left, right) {
        (BinaryOp::Concat, Datum::Text(a), Datum::Text(b)) if ty == SqlType::Jsonb => {
            json::concat(a, b).map(Datum::Text)
        }
        (BinaryOp::Concat, Datum::Text(a), Datum::Text(b)) => Ok(Datum::Text([a.as_str(), b].concat())),
        (BinaryOp::Concat, Datum::Bytes(a), Datum::Bytes(b)) => Ok(Datum::Bytes([a.as_slice(), b].concat())),
        (BinaryOp::JsonGet, Datum::Text(document), step) => json::get(document, step),
        (BinaryOp::JsonGetText, Datum::Text(document), step) => json::get_text(document, step),
        _ => {
            super::times::binary(op, left, right, if ty == SqlType::TimestampTz { zone } else { &Zone::UTC })
        }
    }
}

#[inline]
fn integers(op: BinaryOp, a: i64, b: i64, ty: SqlType) -> Result<i64, SqlError> {
    let result = match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Subtract => a.checked_sub(b),
        BinaryOp::Multiply => a.checked_mul(b),
        BinaryOp::Divide if b == 0 => return Err(division_by_zero()),
        BinaryOp::Modulo if b == 0 => return Err(division_by_zero()),
        BinaryOp::Divide => a.checked_div(b),
        BinaryOp::Modulo => Some(a.wrapping_rem(b)),
        BinaryOp::BitAnd => Some(a & b),
        BinaryOp::BitOr => Some(a | b),
        BinaryOp::BitXor => Some(a ^ b),
        // A shift counts modulo the width, as in PostgreSQL on common processors.
        BinaryOp::ShiftLeft => Some(match ty {
            SqlType::Int2 => i64::from((a as i32).wrapping_shl(b as u32) as i16),
            SqlType::Int4 => i64::from((a as i32).wrapping_shl(b as u32)),
            _ => a.wrapping_shl(b as u32),
        }),
        BinaryOp::ShiftRight => Some(match ty {
            SqlType::Int2 | SqlType::Int4 => i64::from((a as i32).wrapping_shr(b as u32)),
            _ => a.wrapping_shr(b as u32),
        }),
        _ => return Err(super::context::mistyped()),
    };
    integer(result, ty)
}

/// The integer, if it fits its type.
///
/// # Errors
/// `22003`, with PostgreSQL's text for the type.
#[inline]
pub(super) fn integer(v: Option<i64>, ty: SqlType) -> Result<i64, SqlError> {
    let fits = |v: &i64| match ty {
        SqlType::Int2 => i16::try_from(*v).is_ok(),
        SqlType::Int4 => i32::try_from(*v).is_ok(),
        SqlType::Oid => u32::try_from(*v).is_ok(),
        _ => true,
    };
    v.filter(fits).ok_or_else(|| integer_out_of_range(ty))
}

#[cold]
fn integer_out_of_range(ty: SqlType) -> SqlError {
    let name = match ty {
        SqlType::Int2 => "smallint",
        SqlType::Int4 => "integer",
        SqlType::Oid => "OID",
        _ => "bigint",
    };
    SqlError::new(SqlState::NUMERIC_OUT_OF_RANGE, format!("{name} out of range"))
}

fn floats(op: BinaryOp, a: f64, b: f64, ty: SqlType) -> Result<f64, SqlError> {
    let (result, may_be_zero) = match op {
        BinaryOp::Add => (a + b, true),
        BinaryOp::Subtract => (a - b, true),
        BinaryOp::Multiply => (a * b, a == 0.0 || b == 0.0),
        BinaryOp::Divide if b == 0.0 && !a.is_nan() => return Err(division_by_zero()),
        BinaryOp::Divide => (a / b, a == 0.0 || b.is_infinite()),
        BinaryOp::Power => return power::float_power(a, b),
        _ => return Err(super::context::mistyped()),
    };
    let result = if ty == SqlType::Float4 { f64::from(result as f32) } else { result };
    if result.is_infinite() && a.is_finite() && b.is_finite() {
        return Err(float_overflow());
    }
    if result == 0.0 && !may_be_zero {
        return Err(power::float_underflow());
    }
    Ok(result)
}

pub(super) use power::float_overflow;

fn numerics(op: BinaryOp, a: &Numeric, b: &Numeric) -> Result<Numeric, SqlError> {
    match op {
        BinaryOp::Add => a.add(b),
        BinaryOp::Subtract => a.subtract(b),
        BinaryOp::Multiply => a.multiply(b),
        BinaryOp::Divide => a.divide(b),
        BinaryOp::Modulo => a.modulo(b),
        BinaryOp::Power => power::numeric_power(a, b),
        _ => Err(super::context::mistyped()),
    }
}

pub(super) fn negate(value: &Datum, ty: SqlType) -> Result<Datum, SqlError> {
    match value {
        Datum::Null => Ok(Datum::Null),
        Datum::Int(v) => integer(v.checked_neg(), ty).map(Datum::Int),
        Datum::Float(v) => Ok(Datum::Float(-v)),
        Datum::Numeric(v) => Ok(Datum::Numeric(v.negate())),
        Datum::Interval(v) => v.negate().map(Datum::Interval),
        _ => Err(super::context::mistyped()),
    }
}
