//! Functions of one row.

use super::eval::{Context, mistyped};
use super::{Expr, Function};
use crate::compare::{compare, hash};
use crate::row::Columns;
use crate::{Datum, SqlError, SqlType};
use std::cmp::Ordering;

/// The value of a function. But for those that choose among their arguments, a null argument gives
/// null.
pub(super) fn call(
    function: Function,
    args: &[Expr],
    ty: SqlType,
    cx: &Context<'_>,
    row: &dyn Columns,
) -> Result<Datum, SqlError> {
    match function {
        Function::Coalesce => {
            for arg in args {
                let value = arg.eval(cx, row)?;
                if !value.is_null() {
                    return Ok(value);
                }
            }
            Ok(Datum::Null)
        }
        Function::NullIf => {
            let [value, other] = args else { return Err(mistyped()) };
            let (value, other) = (value.eval(cx, row)?, other.operand(cx, row)?);
            Ok(if !value.is_null() && compare(&value, &other) == Ordering::Equal {
                Datum::Null
            } else {
                value
            })
        }
        Function::Greatest => extreme(args, Ordering::Greater, cx, row),
        Function::Least => extreme(args, Ordering::Less, cx, row),
        _ => {
            let values = args.iter().map(|arg| arg.operand(cx, row)).collect::<Result<Vec<_>, _>>()?;
            if values.iter().any(|value| value.is_null()) {
                return Ok(Datum::Null);
            }
            match (function, values.first().map(|v| &**v)) {
                (Function::Abs, Some(Datum::Int(v))) => {
                    super::arithmetic::integer(v.checked_abs(), ty).map(Datum::Int)
                }
                (Function::Hash, Some(v)) => Ok(Datum::Int(hash(v) as i64)),
                _ => Err(SqlError::unsupported("this function", None)),
            }
        }
    }
}

/// The greatest or the least argument that is not null.
fn extreme(args: &[Expr], wanted: Ordering, cx: &Context<'_>, row: &dyn Columns) -> Result<Datum, SqlError> {
    let mut best = Datum::Null;
    for arg in args {
        let value = arg.eval(cx, row)?;
        if !value.is_null() && (best.is_null() || compare(&value, &best) == wanted) {
            best = value;
        }
    }
    Ok(best)
}
