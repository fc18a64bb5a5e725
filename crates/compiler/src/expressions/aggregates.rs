//! Functions of many rows.

use super::{AGGREGATES, Compiler};
use crate::coerce::{How, Typed};
use crate::error::no_function;
use crate::names::Scope;
use crate::tree::OrderBy;
use crate::{Stop, types};
use sql::SqlType::{
    Bool, Float4, Float8, Int2, Int4, Int8, Interval, Json, Jsonb, Numeric, Text, Unknown, Uuid,
};
use sql::expression::Aggregate;
use sql::program::AggregateCall;
use sql::{Element, Expr, SqlError, SqlState, SqlType};
use sqlparser::ast;

/// More aggregates than a statement has; behind them, trees have numbers for `GROUPING`.
pub const MOST: u16 = 0x2000;

/// The order of an aggregate's rows.
pub fn ordered(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    list: &ast::FunctionArgumentList,
    is_window: bool,
) -> Result<Vec<OrderBy>, Stop> {
    match list.clauses.as_slice() {
        [] => Ok(Vec::new()),
        [ast::FunctionArgumentClause::OrderBy(exprs)] if compiler.tree.is_some() && !is_window => {
            let aggregates = compiler.aggregates.take();
            let order = compiler.order_by(scope, exprs);
            compiler.aggregates = aggregates;
            order
        }
        _ => Err(Stop::General("an ordered aggregate")),
    }
}

pub fn named(name: &str, args: usize, written: usize) -> Option<Aggregate> {
    Some(match (name, args) {
        ("count", 0) if written == 1 => Aggregate::CountRows,
        ("count", 1) => Aggregate::Count,
        ("sum", 1) => Aggregate::Sum,
        ("avg", 1) => Aggregate::Avg,
        ("min", 1) => Aggregate::Min,
        ("max", 1) => Aggregate::Max,
        ("bool_and" | "every", 1) => Aggregate::BoolAnd,
        ("bool_or", 1) => Aggregate::BoolOr,
        ("string_agg", 2) => Aggregate::StringAgg,
        ("array_agg", 1) => Aggregate::ArrayAgg,
        ("var_pop", 1) => Aggregate::VarPop,
        ("var_samp" | "variance", 1) => Aggregate::VarSamp,
        ("stddev_pop", 1) => Aggregate::StddevPop,
        ("stddev_samp" | "stddev", 1) => Aggregate::StddevSamp,
        ("covar_pop", 2) => Aggregate::CovarPop,
        ("covar_samp", 2) => Aggregate::CovarSamp,
        ("corr", 2) => Aggregate::Corr,
        ("regr_slope", 2) => Aggregate::RegrSlope,
        ("regr_intercept", 2) => Aggregate::RegrIntercept,
        ("regr_r2", 2) => Aggregate::RegrR2,
        ("bit_and", 1) => Aggregate::BitAnd,
        ("bit_or", 1) => Aggregate::BitOr,
        ("bit_xor", 1) => Aggregate::BitXor,
        _ => return None,
    })
}

pub fn call(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    (function, name): (Aggregate, &str),
    args: &[&ast::Expr],
    (distinct, order): (bool, Vec<OrderBy>),
    filter: Option<&ast::Expr>,
) -> Result<Typed, Stop> {
    let bind = |compiler: &mut Compiler<'_>| {
        args.iter().map(|arg| compiler.expr(scope, arg)).collect::<Result<_, _>>()
    };
    of_bound(compiler, scope, (function, name), &bind, (distinct, order), filter)
}

/// An aggregate of the values that `bind` makes of its arguments.
pub fn of_bound(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    (function, name): (Aggregate, &str),
    bind: &dyn Fn(&mut Compiler<'_>) -> Result<Vec<Typed>, Stop>,
    (distinct, order): (bool, Vec<OrderBy>),
    filter: Option<&ast::Expr>,
) -> Result<Typed, Stop> {
    // Inside the arguments no aggregate is allowed.
    let Some(found) = compiler.aggregates.take() else { return Err(not_allowed()) };
    let parts = (|| {
        let values = bind(compiler)?;
        let filter = filter.map(|filter| compiler.condition(scope, filter, "FILTER")).transpose()?;
        Ok::<_, Stop>((values, filter))
    })();
    let (mut values, filter) = match parts {
        Ok(parts) => parts,
        Err(stop) => {
            compiler.aggregates = Some(found);
            return Err(stop);
        }
    };
    if !matches!(function, Aggregate::Count | Aggregate::CountRows) {
        for value in &mut values {
            let settled = compiler.params.settle(value.clone());
            *value = settled.inspect_err(|_| compiler.aggregates = None)?;
        }
    }
    let ty = type_of(function, values.first().map_or(Unknown, |value| value.ty));
    let Some(ty) = ty else {
        let types: Vec<SqlType> = values.iter().map(|value| value.ty).collect();
        return Err(no_function(name, &types).into());
    };
    let mut one = |value: Typed| match function.is_of_pairs() {
        true => compiler.params.coerce(value, Float8, How::Implicit),
        false => compiler.params.settle(value).map(|value| value.expr),
    };
    let args = values.into_iter().map(&mut one);
    let args = args.collect::<Result<Vec<Expr>, _>>()?;
    let call = AggregateCall { function, args, distinct, filter, ty };
    registered(compiler, found, call, order)
}

/// The column that stands for an aggregate. `found` are those found before.
fn registered(
    compiler: &mut Compiler<'_>,
    mut found: Vec<AggregateCall>,
    call: AggregateCall,
    order: Vec<OrderBy>,
) -> Result<Typed, Stop> {
    let ty = call.ty;
    let orders = compiler.tree.as_ref().map_or(&[][..], |tree| &tree.orders);
    let is_same = |at: &usize| found[*at] == call && orders.get(*at).is_none_or(|known| *known == order);
    let at = (0..found.len()).find(is_same).unwrap_or(found.len());
    if at == found.len() {
        found.push(call);
        if let Some(tree) = &mut compiler.tree {
            tree.orders.push(order);
        }
    }
    compiler.aggregates = Some(found);
    let at = u16::try_from(at).ok().filter(|at| *at < MOST);
    let at = at.ok_or_else(|| SqlError::new(SqlState::PROGRAM_LIMIT, "too many aggregates"))?;
    Ok(Typed::new(Expr::Column(AGGREGATES + at), ty))
}

/// `percentile_cont(...)`, `percentile_disc(...)`, `mode()`, `WITHIN GROUP (ORDER BY ...)`.
pub fn within_group(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    name: &str,
    args: &[&ast::Expr],
    (order, filter): (&[ast::OrderByExpr], Option<&ast::Expr>),
) -> Result<Typed, Stop> {
    let function = match (name, args.len(), order.len()) {
        ("percentile_cont", 1, 1) => Aggregate::PercentileCont,
        ("percentile_disc", 1, 1) => Aggregate::PercentileDisc,
        ("mode", 0, 1) => Aggregate::Mode,
        _ => return Err(Stop::General("WITHIN GROUP of this function")),
    };
    if compiler.tree.is_none() {
        return Err(Stop::General("WITHIN GROUP"));
    }
    let Some(found) = compiler.aggregates.take() else { return Err(not_allowed()) };
    let bound = (|| {
        let by = &order[0];
        let value = compiler.expr(scope, &by.expr)?;
        let Typed { expr, ty } = match (function, value.ty) {
            (Aggregate::PercentileCont, from) => {
                let to = if from == Interval { Interval } else { Float8 };
                if !types::is_implicit(from, to) {
                    return Err(no_function(name, &[Float8, from]).into());
                }
                Typed::new(compiler.params.coerce(value, to, How::Implicit)?, to)
            }
            _ => compiler.params.settle(value)?,
        };
        let filter = filter.map(|filter| compiler.condition(scope, filter, "FILTER")).transpose()?;
        let (descending, nulls_first) = crate::items::direction(ty, &by.options)?;
        let (mut exprs, mut result) = (Vec::new(), ty);
        if let Some(fraction) = args.first() {
            let fraction = compiler.expr(scope, fraction)?;
            let is_array = matches!(fraction.ty, SqlType::Array(_));
            let to = if is_array { SqlType::Array(Element::Float8) } else { Float8 };
            exprs.push(compiler.params.coerce(fraction, to, How::Implicit)?);
            if is_array {
                result = types::array_of(types::without_length(ty))?;
            }
        }
        let call = AggregateCall { function, args: exprs, distinct: false, filter, ty: result };
        Ok::<_, Stop>((call, vec![OrderBy { expr, ty, descending, nulls_first }]))
    })();
    match bound {
        Ok((call, order)) => registered(compiler, found, call, order),
        Err(stop) => {
            compiler.aggregates = Some(found);
            Err(stop)
        }
    }
}

pub fn type_of(function: Aggregate, arg: SqlType) -> Option<SqlType> {
    Some(match (function, arg) {
        (function, Int2 | Int4 | Int8 | Numeric(_)) if function.is_variance() => Numeric(None),
        (function, Float4 | Float8) if function.is_variance() => Float8,
        (function, ty) if function.is_of_pairs() && types::is_implicit(ty, Float8) => Float8,
        (Aggregate::BitAnd | Aggregate::BitOr | Aggregate::BitXor, Int2 | Int4 | Int8) => arg,
        (Aggregate::CountRows | Aggregate::Count, _) => Int8,
        (Aggregate::Sum, Int2 | Int4) => Int8,
        (Aggregate::Sum | Aggregate::Avg, Int8 | Numeric(_)) | (Aggregate::Avg, Int2 | Int4) => Numeric(None),
        (Aggregate::Sum, Float4) => Float4,
        (Aggregate::Sum | Aggregate::Avg, Float8) | (Aggregate::Avg, Float4) => Float8,
        (Aggregate::Sum | Aggregate::Avg, Interval) => Interval,
        (Aggregate::Sum | Aggregate::Avg, _) => return None,
        (Aggregate::Min | Aggregate::Max, Bool | Json | Jsonb | Uuid | SqlType::Array(_)) => return None,
        // The length of a column is not one of what is found among its values.
        (Aggregate::Min | Aggregate::Max, Numeric(_)) => Numeric(None),
        (Aggregate::Min | Aggregate::Max, SqlType::Varchar(_)) => Text,
        (Aggregate::Min | Aggregate::Max, ty) => ty,
        (Aggregate::BoolAnd | Aggregate::BoolOr, Bool) => Bool,
        (Aggregate::BoolAnd | Aggregate::BoolOr, _) => return None,
        (Aggregate::StringAgg, ty) if types::is_text(ty) => Text,
        (Aggregate::StringAgg, _) => return None,
        (Aggregate::ArrayAgg, ty) => SqlType::Array(Element::of(types::without_length(ty))?),
        _ => return None,
    })
}

fn not_allowed() -> Stop {
    SqlError::new(SqlState::GROUPING_ERROR, "aggregate functions are not allowed here").into()
}
