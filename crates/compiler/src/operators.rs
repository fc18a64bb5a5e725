//! Operators: which one a statement means, by the types of its operands.

use crate::coerce::{How, Params, Typed};
use crate::error::no_operator;
use crate::types;
use sql::SqlType::{
    Bool, Bytea, Date, Float8, Int2, Int4, Int8, Interval, Json, Jsonb, Numeric, Text, Time, Timestamp,
    TimestampTz, Unknown,
};
use sql::expression::BinaryOp;
use sql::{Expr, SqlError, SqlState, SqlType};

/// The operator of two operands.
///
/// # Errors
/// `42883` if there is no such operator, `42725` if the types do not decide.
pub fn binary(params: &mut Params, op: BinaryOp, left: Typed, right: Typed) -> Result<Typed, SqlError> {
    use BinaryOp::{
        Add, BitAnd, BitOr, BitXor, Concat, Divide, Equal, Greater, GreaterEqual, JsonGet, JsonGetText, Less,
        LessEqual, Modulo, Multiply, NotEqual, Power, ShiftLeft, ShiftRight, Subtract,
    };
    match op {
        Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual => comparison(params, op, left, right),
        Add | Subtract | Multiply | Divide | Modulo => arithmetic(params, op, left, right),
        Power => {
            let ty = match types::common(left.ty, right.ty) {
                Some(Numeric(_)) => Numeric(None),
                _ => Float8,
            };
            with_types(params, op, (left, ty), (right, ty), ty)
        }
        Concat => concatenation(params, left, right),
        BitAnd | BitOr | BitXor => {
            let ty = types::common(left.ty, right.ty).filter(|ty| types::is_integer(*ty));
            let ty = ty.ok_or_else(|| no_operator(left.ty, symbol(op), right.ty))?;
            with_types(params, op, (left, ty), (right, ty), ty)
        }
        ShiftLeft | ShiftRight => {
            let ty = if types::is_integer(left.ty) { left.ty } else { Int4 };
            with_types(params, op, (left, ty), (right, Int4), ty)
        }
        JsonGet | JsonGetText => {
            let json = if left.ty == Json { Json } else { Jsonb };
            let key = if types::is_integer(right.ty) { Int4 } else { Text };
            let ty = if op == JsonGet { json } else { Text };
            with_types(params, op, (left, json), (right, key), ty)
        }
    }
}

pub fn symbol(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Subtract => "-",
        BinaryOp::Multiply => "*",
        BinaryOp::Divide => "/",
        BinaryOp::Modulo => "%",
        BinaryOp::Power => "^",
        BinaryOp::Equal => "=",
        BinaryOp::NotEqual => "<>",
        BinaryOp::Less => "<",
        BinaryOp::LessEqual => "<=",
        BinaryOp::Greater => ">",
        BinaryOp::GreaterEqual => ">=",
        BinaryOp::Concat => "||",
        BinaryOp::BitAnd => "&",
        BinaryOp::BitOr => "|",
        BinaryOp::BitXor => "#",
        BinaryOp::ShiftLeft => "<<",
        BinaryOp::ShiftRight => ">>",
        BinaryOp::JsonGet => "->",
        BinaryOp::JsonGetText => "->>",
    }
}

/// The operator that holds for swapped operands.
pub fn mirrored(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Less => BinaryOp::Greater,
        BinaryOp::LessEqual => BinaryOp::GreaterEqual,
        BinaryOp::Greater => BinaryOp::Less,
        BinaryOp::GreaterEqual => BinaryOp::LessEqual,
        op => op,
    }
}

fn with_types(
    params: &mut Params,
    op: BinaryOp,
    (left, left_ty): (Typed, SqlType),
    (right, right_ty): (Typed, SqlType),
    ty: SqlType,
) -> Result<Typed, SqlError> {
    let (from, to) = (left.ty, right.ty);
    let fits = |from, to| types::is_implicit(from, to);
    if !fits(from, left_ty) || !fits(to, right_ty) {
        return Err(no_operator(from, symbol(op), to));
    }
    let left = params.coerce(left, left_ty, How::Implicit)?;
    let right = params.coerce(right, right_ty, How::Implicit)?;
    Ok(Typed::new(Expr::Binary { op, left: left.into(), right: right.into(), ty }, ty))
}

fn comparison(params: &mut Params, op: BinaryOp, left: Typed, right: Typed) -> Result<Typed, SqlError> {
    let (from, to) = (left.ty, right.ty);
    let (left, right, ty) = alike(params, left, right).map_err(|error| match error.state {
        SqlState::DATATYPE_MISMATCH => no_operator(from, symbol(op), to),
        _ => error,
    })?;
    if matches!(ty, SqlType::Array(_)) && !matches!(op, BinaryOp::Equal | BinaryOp::NotEqual) {
        return Err(crate::error::no_order());
    }
    Ok(Typed::bool(Expr::Binary { op, left: left.into(), right: right.into(), ty: Bool }))
}

/// Both values with the type in which they are compared.
///
/// # Errors
/// `42804` if there is none.
pub fn alike(params: &mut Params, left: Typed, right: Typed) -> Result<(Expr, Expr, SqlType), SqlError> {
    let ty = match types::common(left.ty, right.ty) {
        Some(Unknown) => Text,
        Some(ty) => crate::types::without_length(ty),
        None => return Err(crate::error::mismatch("types do not match")),
    };
    let left = params.coerce(left, ty, How::Implicit)?;
    let right = params.coerce(right, ty, How::Implicit)?;
    Ok((left, right, ty))
}

fn arithmetic(params: &mut Params, op: BinaryOp, left: Typed, right: Typed) -> Result<Typed, SqlError> {
    if left.ty == Unknown && right.ty == Unknown {
        let message = format!("operator is not unique: unknown {} unknown", symbol(op));
        let hint = "Could not choose a best candidate operator. You might need to add explicit type casts.";
        return Err(SqlError::new(SqlState(*b"42725"), message).with_hint(hint));
    }
    if let Some((left_ty, right_ty, ty)) = of_times(op, left.ty, right.ty) {
        return with_types(params, op, (left, left_ty), (right, right_ty), ty);
    }
    let ty = types::common(left.ty, right.ty).map(crate::types::without_length);
    match ty {
        Some(Float8) if op == BinaryOp::Modulo => Err(no_operator(left.ty, symbol(op), right.ty)),
        Some(ty) if types::is_number(ty) => with_types(params, op, (left, ty), (right, ty), ty),
        _ => Err(no_operator(left.ty, symbol(op), right.ty)),
    }
}

/// Operators on dates, times and intervals: the types of both operands and of the result.
fn of_times(op: BinaryOp, left: SqlType, right: SqlType) -> Option<(SqlType, SqlType, SqlType)> {
    use BinaryOp::{Add, Divide, Multiply, Subtract};
    Some(match (op, left, right) {
        (Add | Subtract, Date, Int2 | Int4 | Int8) => (Date, Int4, Date),
        (Add, Int2 | Int4 | Int8, Date) => (Int4, Date, Date),
        (Subtract, Date, Date | Unknown) | (Subtract, Unknown, Date) => (Date, Date, Int4),
        (Add | Subtract, Date | Timestamp, Interval) => (Timestamp, Interval, Timestamp),
        (Add, Interval, Date | Timestamp) => (Interval, Timestamp, Timestamp),
        (Add, Date, Time) => (Date, Time, Timestamp),
        (Add, Time, Date) => (Time, Date, Timestamp),
        (Add | Subtract, TimestampTz, Interval) => (TimestampTz, Interval, TimestampTz),
        (Add, Interval, TimestampTz) => (Interval, TimestampTz, TimestampTz),
        (Add, Timestamp | TimestampTz, Unknown) => (left, Interval, left),
        (Add, Unknown, Timestamp | TimestampTz) => (Interval, right, right),
        (Subtract, Timestamp, Date | Timestamp | Unknown) | (Subtract, Date | Unknown, Timestamp) => {
            (Timestamp, Timestamp, Interval)
        }
        (Subtract, TimestampTz, Date | Timestamp | TimestampTz | Unknown)
        | (Subtract, Date | Timestamp | Unknown, TimestampTz) => (TimestampTz, TimestampTz, Interval),
        (Add | Subtract, Time, Interval | Unknown) => (Time, Interval, Time),
        (Add, Interval, Time) => (Interval, Time, Time),
        (Subtract, Time, Time) => (Time, Time, Interval),
        (Add | Subtract, Interval, Interval | Unknown) | (Add | Subtract, Unknown, Interval) => {
            (Interval, Interval, Interval)
        }
        (Multiply | Divide, Interval, number) if types::is_number(number) || number == Unknown => {
            (Interval, Float8, Interval)
        }
        (Multiply, number, Interval) if types::is_number(number) || number == Unknown => {
            (Float8, Interval, Interval)
        }
        _ => return None,
    })
}

fn concatenation(params: &mut Params, left: Typed, right: Typed) -> Result<Typed, SqlError> {
    let op = BinaryOp::Concat;
    for ty in [Bytea, Jsonb] {
        if left.ty == ty && matches!(right.ty, Unknown)
            || right.ty == ty && matches!(left.ty, Unknown)
            || left.ty == ty && right.ty == ty
        {
            return with_types(params, op, (left, ty), (right, ty), ty);
        }
    }
    if !types::is_text(left.ty) && !types::is_text(right.ty) && left.ty != Unknown && right.ty != Unknown {
        return Err(no_operator(left.ty, "||", right.ty));
    }
    let left = params.coerce(left, Text, How::Assigned)?;
    let right = params.coerce(right, Text, How::Assigned)?;
    Ok(Typed::new(Expr::Binary { op, left: left.into(), right: right.into(), ty: Text }, Text))
}
