//! Evaluation of expressions. Numbers, times and comparisons do not allocate; constants and
//! parameters are used where they are.

use super::context::{Context, mistyped};
use super::{BinaryOp, Expr, arithmetic, call, cast, like};
use crate::compare::compare;
use crate::row::Columns;
use crate::{Datum, SqlError, SqlState};
use std::borrow::Cow;
use std::cmp::Ordering;

impl Expr {
    /// The value of this expression for one row.
    ///
    /// # Errors
    /// Those of its operators, functions and casts, with PostgreSQL's code and text; `XX000` if an
    /// operand has a type that the compiler should not have let pass.
    pub fn eval(&self, cx: &Context<'_>, row: &dyn Columns) -> Result<Datum, SqlError> {
        match self {
            Expr::Const(datum) => Ok(datum.clone()),
            Expr::Param(i) => parameter(cx, *i).cloned(),
            Expr::Column(i) => row.column(*i),
            Expr::Now => Ok(Datum::Timestamp(cx.now)),
            Expr::Binary { op, left, right, ty } if !op.is_comparison() => {
                let left = left.operand(cx, row)?;
                let right = right.operand(cx, row)?;
                arithmetic::binary(*op, &left, &right, (*ty, cx.zone))
            }
            Expr::Not(_)
            | Expr::And(_)
            | Expr::Or(_)
            | Expr::IsNull(_)
            | Expr::Same(..)
            | Expr::In { .. }
            | Expr::Like { .. }
            | Expr::Binary { .. } => Ok(self.truth(cx, row)?.map_or(Datum::Null, Datum::Bool)),
            Expr::Negate(expr, ty) => arithmetic::negate(&*expr.operand(cx, row)?, *ty),
            Expr::Case { branches, otherwise } => {
                for (condition, result) in branches {
                    if condition.is_true(cx, row)? {
                        return result.eval(cx, row);
                    }
                }
                otherwise.eval(cx, row)
            }
            Expr::Cast { expr, from, to, explicit } => {
                cast::cast(expr.eval(cx, row)?, *from, *to, *explicit, cx.zone)
            }
            Expr::Call { function, args, ty } => call::call(*function, args, *ty, cx, row),
        }
    }

    /// The values of some expressions for one row.
    ///
    /// # Errors
    /// Those of [`Expr::eval`], of the first one that fails.
    pub fn eval_all(exprs: &[Expr], cx: &Context<'_>, row: &dyn Columns) -> Result<Vec<Datum>, SqlError> {
        // Collected as results, they would be moved whenever the list grows.
        let mut values = Vec::with_capacity(exprs.len());
        for expr in exprs {
            values.push(expr.eval(cx, row)?);
        }
        Ok(values)
    }

    /// Whether a condition holds; null does not.
    ///
    /// # Errors
    /// Those of [`Expr::eval`].
    #[inline]
    pub fn is_true(&self, cx: &Context<'_>, row: &dyn Columns) -> Result<bool, SqlError> {
        Ok(self.truth(cx, row)? == Some(true))
    }

    /// Whether a check is violated: it is false, neither true nor null.
    ///
    /// # Errors
    /// Those of [`Expr::eval`].
    pub fn is_false(&self, cx: &Context<'_>, row: &dyn Columns) -> Result<bool, SqlError> {
        Ok(self.truth(cx, row)? == Some(false))
    }

    /// The value of a condition; `None` is null.
    fn truth(&self, cx: &Context<'_>, row: &dyn Columns) -> Result<Option<bool>, SqlError> {
        Ok(match self {
            Expr::Binary { op, left, right, .. } if op.is_comparison() => {
                let left = left.operand(cx, row)?;
                let right = right.operand(cx, row)?;
                comparison(*op, &left, &right)
            }
            Expr::And(parts) => return all(parts, false, cx, row),
            Expr::Or(parts) => return all(parts, true, cx, row),
            Expr::Not(expr) => expr.truth(cx, row)?.map(|truth| !truth),
            Expr::IsNull(expr) => Some(expr.operand(cx, row)?.is_null()),
            Expr::Same(left, right) => {
                Some(compare(&*left.operand(cx, row)?, &*right.operand(cx, row)?) == Ordering::Equal)
            }
            Expr::In { expr, list } => return is_in(expr, list, cx, row),
            Expr::Like { expr, pattern, escape, ignore_case } => {
                let (text, pattern) = (expr.operand(cx, row)?, pattern.operand(cx, row)?);
                return like::like(&text, &pattern, *escape, *ignore_case);
            }
            _ => match self.eval(cx, row)? {
                Datum::Bool(truth) => Some(truth),
                Datum::Null => None,
                _ => return Err(mistyped()),
            },
        })
    }

    /// The value, borrowed where it exists already.
    #[inline]
    pub(super) fn operand<'a>(
        &'a self,
        cx: &Context<'a>,
        row: &dyn Columns,
    ) -> Result<Cow<'a, Datum>, SqlError> {
        match self {
            Expr::Const(datum) => Ok(Cow::Borrowed(datum)),
            Expr::Param(i) => parameter(cx, *i).map(Cow::Borrowed),
            _ => self.eval(cx, row).map(Cow::Owned),
        }
    }
}

impl BinaryOp {
    #[inline]
    fn is_comparison(self) -> bool {
        use BinaryOp::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
        matches!(self, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual)
    }
}

fn parameter<'a>(cx: &Context<'a>, i: u16) -> Result<&'a Datum, SqlError> {
    cx.params.get(usize::from(i)).ok_or_else(|| {
        let message = format!("there is no parameter ${}: {} were given", i + 1, cx.params.len());
        SqlError::new(SqlState::UNDEFINED_OBJECT, message)
    })
}

#[inline]
fn comparison(op: BinaryOp, left: &Datum, right: &Datum) -> Option<bool> {
    if left.is_null() || right.is_null() {
        return None;
    }
    let order = compare(left, right);
    Some(match op {
        BinaryOp::NotEqual => order.is_ne(),
        BinaryOp::Less => order.is_lt(),
        BinaryOp::LessEqual => order.is_le(),
        BinaryOp::Greater => order.is_gt(),
        BinaryOp::GreaterEqual => order.is_ge(),
        _ => order.is_eq(),
    })
}

/// `AND` (`decides` is false) or `OR` (true): the first part with the value `decides` gives the
/// result; else it is null if one part is.
fn all(parts: &[Expr], decides: bool, cx: &Context<'_>, row: &dyn Columns) -> Result<Option<bool>, SqlError> {
    let mut result = Some(!decides);
    for part in parts {
        match part.truth(cx, row)? {
            Some(truth) if truth == decides => return Ok(Some(decides)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(result)
}

fn is_in(expr: &Expr, list: &[Expr], cx: &Context<'_>, row: &dyn Columns) -> Result<Option<bool>, SqlError> {
    let value = expr.operand(cx, row)?;
    let mut result = Some(false);
    for entry in list {
        match comparison(BinaryOp::Equal, &value, &*entry.operand(cx, row)?) {
            Some(true) => return Ok(Some(true)),
            Some(false) => {}
            None => result = None,
        }
    }
    Ok(result)
}
