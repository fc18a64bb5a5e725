//! Conditions: comparisons of lists and rows, patterns, and operators written in words.

use super::{Compiler, functions, operator};
use crate::coerce::{How, Typed, literal};
use crate::error::{no_operator, syntax};
use crate::flow::Asked;
use crate::names::Scope;
use crate::operators::{alike, binary};
use crate::{Stop, types};
use sql::expression::{BinaryOp, Function};
use sql::{Datum, Expr, SqlError, SqlState, SqlType};
use sqlparser::ast::{self, BinaryOperator};

impl Compiler<'_> {
    /// Expressions that are true or false.
    pub(super) fn predicate(&mut self, scope: &Scope, expr: &ast::Expr) -> Result<Typed, Stop> {
        use ast::Expr as E;
        match expr {
            E::IsNull(inner) => self.is_null(scope, inner),
            E::IsNotNull(inner) => Ok(not(self.is_null(scope, inner)?)),
            E::IsTrue(inner) => self.is_truth(scope, inner, Some(true)),
            E::IsNotTrue(inner) => Ok(not(self.is_truth(scope, inner, Some(true))?)),
            E::IsFalse(inner) => self.is_truth(scope, inner, Some(false)),
            E::IsNotFalse(inner) => Ok(not(self.is_truth(scope, inner, Some(false))?)),
            E::IsUnknown(inner) => self.is_truth(scope, inner, None),
            E::IsNotUnknown(inner) => Ok(not(self.is_truth(scope, inner, None)?)),
            E::IsDistinctFrom(left, right) => Ok(not(self.same(scope, left, right)?)),
            E::IsNotDistinctFrom(left, right) => self.same(scope, left, right),
            E::InList { expr, list, negated } => negate_if(*negated, self.in_list(scope, expr, list)?),
            E::Between { expr, negated, low, high } => {
                negate_if(*negated, self.between(scope, expr, low, high)?)
            }
            E::Like { negated, expr, pattern, escape_char, any: false } => {
                negate_if(*negated, self.like(scope, expr, pattern, escape_char.as_deref(), false)?)
            }
            E::ILike { negated, expr, pattern, escape_char, any: false } => {
                negate_if(*negated, self.like(scope, expr, pattern, escape_char.as_deref(), true)?)
            }
            E::Subquery(query) => self.sub_query(scope, query, Asked::Value),
            E::Exists { subquery, negated } => {
                negate_if(*negated, self.sub_query(scope, subquery, Asked::Existence)?)
            }
            E::InSubquery { expr, subquery, negated } if self.tree.is_some() => {
                let found = self.tree_comparison(scope, expr, (BinaryOp::Equal, false), subquery)?;
                negate_if(*negated, found)
            }
            E::InSubquery { .. } => Err(Stop::General("a sub-query")),
            E::AnyOp { left, compare_op, right, .. } => {
                self.quantified(scope, (left, compare_op), right, false)
            }
            E::AllOp { left, compare_op, right } => self.quantified(scope, (left, compare_op), right, true),
            E::Array(array) => self.array(scope, array),
            E::CompoundFieldAccess { root, access_chain } => self.element(scope, root, access_chain),
            E::InUnnest { .. } => Err(Stop::General("an array")),
            E::GroupingSets(_) | E::Cube(_) | E::Rollup(_) => Err(Stop::General("grouping sets")),
            E::SimilarTo { negated, expr, pattern, escape_char } => {
                negate_if(*negated, self.similar(scope, expr, pattern, escape_char.as_deref())?)
            }
            E::Tuple(_) => Err(Stop::General("a row value")),
            E::Wildcard(_) | E::QualifiedWildcard(..) => Err(syntax("syntax error at or near \"*\"").into()),
            _ => self.in_words(scope, expr),
        }
    }

    /// Functions and operators that are written in words.
    fn in_words(&mut self, scope: &Scope, expr: &ast::Expr) -> Result<Typed, Stop> {
        use ast::Expr as E;
        match expr {
            E::Extract { field, expr, .. } => {
                functions::date_part(self, scope, &field.to_string(), expr, SqlType::Numeric(None))
            }
            E::Ceil { expr, .. } => functions::named(self, scope, "ceil", &[expr]),
            E::Floor { expr, .. } => functions::named(self, scope, "floor", &[expr]),
            E::Position { expr, r#in } => {
                let args = vec![self.expr(scope, r#in)?, self.expr(scope, expr)?];
                functions::with_args(self, "position", args)
            }
            E::Substring { expr, substring_from, substring_for, .. } => {
                let start = ast::Expr::value(ast::Value::Number("1".into(), false));
                let mut args = vec![expr.as_ref(), substring_from.as_deref().unwrap_or(&start)];
                args.extend(substring_for.as_deref());
                functions::named(self, scope, "substring", &args)
            }
            E::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let mut args = vec![self.expr(scope, expr)?, self.expr(scope, overlay_what)?];
                args.push(self.expr(scope, overlay_from)?);
                args.extend(overlay_for.as_deref().map(|count| self.expr(scope, count)).transpose()?);
                functions::with_args(self, "overlay", args)
            }
            E::Trim { trim_where, trim_what, expr, trim_characters: None } => {
                let name = match trim_where {
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                    _ => "btrim",
                };
                let mut args = vec![expr.as_ref()];
                args.extend(trim_what.as_deref());
                functions::named(self, scope, name, &args)
            }
            E::AtTimeZone { timestamp, time_zone } => {
                let args = vec![self.expr(scope, time_zone)?, self.expr(scope, timestamp)?];
                functions::with_args(self, "timezone", args)
            }
            _ => Err(Stop::General("an expression of this kind")),
        }
    }

    pub(super) fn tuples_equal(
        &mut self,
        scope: &Scope,
        left: &[ast::Expr],
        right: &[ast::Expr],
    ) -> Result<Typed, Stop> {
        if left.len() != right.len() {
            return Err(syntax("unequal number of entries in row expressions").into());
        }
        let mut equal = Vec::with_capacity(left.len());
        for (left, right) in left.iter().zip(right) {
            let (left, right) = (self.expr(scope, left)?, self.expr(scope, right)?);
            equal.push(binary(&mut self.params, BinaryOp::Equal, left, right)?.expr);
        }
        Ok(Typed::bool(Expr::And(equal)))
    }

    fn is_null(&mut self, scope: &Scope, inner: &ast::Expr) -> Result<Typed, Stop> {
        let value = self.expr(scope, inner)?;
        let value = self.params.settle(value)?;
        Ok(Typed::bool(Expr::IsNull(value.expr.into())))
    }

    fn is_truth(&mut self, scope: &Scope, inner: &ast::Expr, truth: Option<bool>) -> Result<Typed, Stop> {
        let condition = self.condition(scope, inner, "IS")?;
        let truth = Expr::Const(truth.map_or(Datum::Null, Datum::Bool));
        Ok(Typed::bool(Expr::Same(condition.into(), truth.into())))
    }

    fn same(&mut self, scope: &Scope, left: &ast::Expr, right: &ast::Expr) -> Result<Typed, Stop> {
        let (left, right) = (self.expr(scope, left)?, self.expr(scope, right)?);
        let (from, to) = (left.ty, right.ty);
        let (left, right, _) = alike(&mut self.params, left, right).map_err(|error| match error.state {
            SqlState::DATATYPE_MISMATCH => no_operator(from, "=", to),
            _ => error,
        })?;
        Ok(Typed::bool(Expr::Same(left.into(), right.into())))
    }

    fn in_list(&mut self, scope: &Scope, expr: &ast::Expr, list: &[ast::Expr]) -> Result<Typed, Stop> {
        if let ast::Expr::Tuple(columns) = expr {
            let mut arms = Vec::with_capacity(list.len());
            for row in list {
                let ast::Expr::Tuple(values) = row else { return Err(Stop::General("a list of rows")) };
                arms.push(self.tuples_equal(scope, columns, values)?.expr);
            }
            return Ok(Typed::bool(if arms.len() == 1 { arms.remove(0) } else { Expr::Or(arms) }));
        }
        let value = self.expr(scope, expr)?;
        let mut values = Vec::with_capacity(list.len());
        let mut ty = value.ty;
        for entry in list {
            let entry = self.expr(scope, entry)?;
            ty = types::common(ty, entry.ty).ok_or_else(|| no_operator(value.ty, "=", entry.ty))?;
            values.push(entry);
        }
        let ty = match crate::types::without_length(ty) {
            SqlType::Unknown => SqlType::Text,
            ty => ty,
        };
        let expr = self.params.coerce(value, ty, How::Implicit)?;
        let list: Result<Vec<Expr>, SqlError> =
            values.into_iter().map(|value| self.params.coerce(value, ty, How::Implicit)).collect();
        Ok(Typed::bool(Expr::In { expr: expr.into(), list: list? }))
    }

    /// `left op ANY (right)`, or `ALL`.
    fn quantified(
        &mut self,
        scope: &Scope,
        (left, op): (&ast::Expr, &BinaryOperator),
        right: &ast::Expr,
        all: bool,
    ) -> Result<Typed, Stop> {
        let mut right = right;
        while let ast::Expr::Nested(inner) = right {
            right = inner;
        }
        match right {
            ast::Expr::Subquery(query) if self.tree.is_some() => {
                self.tree_comparison(scope, left, (operator(op)?, all), query)
            }
            ast::Expr::Subquery(_) => Err(Stop::General("a sub-query")),
            ast::Expr::Array(array) if *op == BinaryOperator::Eq && !all => {
                self.in_list(scope, left, &array.elem)
            }
            right if matches!(op, BinaryOperator::Eq | BinaryOperator::NotEq) => {
                self.any_element(scope, left, (*op == BinaryOperator::NotEq, all), right)
            }
            _ => Err(Stop::General("an array")),
        }
    }

    fn between(
        &mut self,
        scope: &Scope,
        expr: &ast::Expr,
        low: &ast::Expr,
        high: &ast::Expr,
    ) -> Result<Typed, Stop> {
        let value = self.expr(scope, expr)?;
        let (low, is_symmetric) = symmetric(low).map_or((low, false), |low| (low, true));
        let (low, high) = (self.expr(scope, low)?, self.expr(scope, high)?);
        let mut between = |value: Typed, low: Typed, high: Typed| {
            let low = binary(&mut self.params, BinaryOp::GreaterEqual, value.clone(), low)?;
            let high = binary(&mut self.params, BinaryOp::LessEqual, value, high)?;
            Ok::<_, SqlError>(Expr::And(vec![low.expr, high.expr]))
        };
        if is_symmetric {
            let other = between(value.clone(), high.clone(), low.clone())?;
            return Ok(Typed::bool(Expr::Or(vec![between(value, low, high)?, other])));
        }
        Ok(Typed::bool(between(value, low, high)?))
    }

    /// `(begin, end) OVERLAPS (begin, end)`, of which an end may be a length.
    pub(super) fn overlaps(
        &mut self,
        scope: &Scope,
        left: &[ast::Expr],
        right: &[ast::Expr],
    ) -> Result<Typed, Stop> {
        let mut ends = Vec::with_capacity(4);
        for end in left.iter().chain(right) {
            ends.push(self.expr(scope, end)?);
        }
        let types: Vec<SqlType> = ends.iter().map(|end| end.ty).collect();
        let refused = || crate::error::no_function("pg_catalog.overlaps", &types);
        for at in [1, 3] {
            if let Some(SqlType::Interval) = types.get(at) {
                let begin = ends[at - 1].clone();
                ends[at] = binary(&mut self.params, BinaryOp::Add, begin, ends[at].clone())?;
            }
        }
        let (args, ty) = self.of_one_type("OVERLAPS", ends).map_err(|_| refused())?;
        let is_time = matches!(ty, SqlType::Date | SqlType::Time | SqlType::Timestamp | SqlType::TimestampTz);
        if args.len() != 4 || !is_time {
            return Err(refused().into());
        }
        Ok(Typed::bool(Expr::Call { function: Function::Overlaps, args, ty: SqlType::Bool }))
    }

    pub(super) fn like(
        &mut self,
        scope: &Scope,
        expr: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
        ignore_case: bool,
    ) -> Result<Typed, Stop> {
        let (value, pattern) = (self.expr(scope, expr)?, self.expr(scope, pattern)?);
        for ty in [value.ty, pattern.ty] {
            if !types::is_text(ty) && ty != SqlType::Unknown {
                return Err(no_operator(value.ty, "~~", pattern.ty).into());
            }
        }
        let value = self.params.coerce(value, SqlType::Text, How::Implicit)?;
        let pattern = self.params.coerce(pattern, SqlType::Text, How::Implicit)?;
        let escape = match escape {
            None => Some('\\'),
            Some(ast::Expr::Value(value)) => match literal(&value.value)?.expr {
                Expr::Const(Datum::Text(text)) if text.chars().count() <= 1 => text.chars().next(),
                _ => return Err(SqlError::new(SqlState(*b"22025"), "invalid escape string").into()),
            },
            Some(_) => return Err(Stop::General("an escape that is no literal")),
        };
        Ok(Typed::bool(Expr::Like { expr: value.into(), pattern: pattern.into(), escape, ignore_case }))
    }
}

/// The bound of a `BETWEEN SYMMETRIC`, which stands for a call of a function of this name.
fn symmetric(low: &ast::Expr) -> Option<&ast::Expr> {
    let ast::Expr::Function(call) = low else { return None };
    let ast::FunctionArguments::List(list) = &call.args else { return None };
    let is_it = crate::names::parts(&call.name) == ["symmetric"];
    match list.args.as_slice() {
        [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(bound))] if is_it => Some(bound),
        _ => None,
    }
}

pub fn not(value: Typed) -> Typed {
    Typed::bool(Expr::Not(value.expr.into()))
}

pub(super) fn negate_if(negated: bool, value: Typed) -> Result<Typed, Stop> {
    Ok(if negated { not(value) } else { value })
}

pub(super) fn like_operator(op: &BinaryOperator) -> Option<(bool, bool)> {
    Some(match op {
        BinaryOperator::PGLikeMatch => (false, false),
        BinaryOperator::PGILikeMatch => (true, false),
        BinaryOperator::PGNotLikeMatch => (false, true),
        BinaryOperator::PGNotILikeMatch => (true, true),
        _ => return None,
    })
}
