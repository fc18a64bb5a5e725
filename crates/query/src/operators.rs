//! Which operator a pair of operands has, and what a query's expressions mean once their types are
//! known.
//!
//! Comparisons of values that Arrow compares as PostgreSQL does stay the engine's own, so that it
//! can join by hashing and push conditions down. All other operators are those of compiled
//! statements.

use crate::error::{internal, told};
use crate::functions::{Meaning, Scalar, operand};
use crate::values;
use compiler::typed::{self, Operand};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Case, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::sql::sqlparser::ast::BinaryOperator as Symbol;
use sql::SqlType;
use sql::expression::BinaryOp;
use std::sync::{Arc, Mutex, PoisonError};

/// Plans operators, and decides the types of parameters by their first use.
#[derive(Debug, Default)]
pub struct Operators {
    pub decided: Mutex<Vec<(String, SqlType)>>,
}

impl Operators {
    fn decide(&self, param: &str, ty: SqlType) {
        let mut decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        decided.push((param.to_owned(), ty));
    }

    /// The operand, unless it is a parameter of which the type is not known.
    fn operand(&self, expr: &Expr, schema: &DFSchema) -> Result<Option<Operand>> {
        if let Expr::Placeholder(_) = expr {
            return Ok(None);
        }
        operand_of(expr, schema).map(Some)
    }
}

fn operand_of(expr: &Expr, schema: &DFSchema) -> Result<Operand> {
    let (_, field) = expr.to_field(schema)?;
    operand(&field, constant(expr))
}

fn constant(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value),
        Expr::Alias(alias) => constant(&alias.expr),
        _ => None,
    }
}

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let Some(op) = operator(&expr.op)? else { return Ok(PlannerResult::Original(expr)) };
        let (left, right) = (self.operand(&expr.left, schema)?, self.operand(&expr.right, schema)?);
        let (left, right) = match (left, right) {
            (Some(left), Some(right)) => (left, right),
            // The type of the other operand is the parameter's. The plan is made again with it.
            (Some(known), None) | (None, Some(known)) => {
                let ty = if known.ty == SqlType::Unknown { SqlType::Text } else { known.ty };
                let ty = compiler::typed::without_length(ty);
                for side in [&expr.left, &expr.right] {
                    if let Expr::Placeholder(placeholder) = side {
                        self.decide(&placeholder.id, ty);
                    }
                }
                let known = Operand { ty, constant: None };
                (known.clone(), known)
            }
            (None, None) => return Ok(PlannerResult::Original(expr)),
        };
        planned(op, (expr.left, left), (expr.right, right)).map(PlannerResult::Planned)
    }
}

fn planned(op: BinaryOp, (left, a): (Expr, Operand), (right, b): (Expr, Operand)) -> Result<Expr> {
    let (_, _) = typed::operator(op, &a, &b).map_err(told)?;
    if let Some(op) = comparison(op)
        && let Some(ty) = typed::common([a.ty, b.ty])
    {
        let side = |expr: Expr, operand: &Operand| -> Result<Expr> {
            let is_number = matches!(ty, SqlType::Numeric(_));
            let expr = match (operand.ty == ty, is_number) {
                (true, _) => expr,
                (false, true) if matches!(operand.ty, SqlType::Numeric(_)) => expr,
                _ => cast(expr, operand.ty, compiler::typed::without_length(ty)),
            };
            if !is_number {
                return Ok(expr);
            }
            let key = Scalar::frozen("numeric_key", Meaning::NumericKey, vec![SqlType::Numeric(None)]);
            Ok(Expr::ScalarFunction(ScalarFunction::new_udf(key, vec![expr])))
        };
        if is_native(ty) {
            return Ok(Expr::BinaryExpr(BinaryExpr::new(
                Box::new(side(left, &a)?),
                op,
                Box::new(side(right, &b)?),
            )));
        }
    }
    let function = Scalar::operator(op, vec![a.ty, b.ty]);
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![left, right])))
}

/// Types of which Arrow compares the values as PostgreSQL does: all but floats, of which zero has
/// two signs, and intervals, of which a month equals thirty days.
fn is_native(ty: SqlType) -> bool {
    !matches!(
        ty,
        SqlType::Float4
            | SqlType::Float8
            | SqlType::Interval
            | SqlType::Unknown
            | SqlType::Json
            | SqlType::Jsonb
    )
}

/// The value as one of another type.
fn cast(expr: Expr, from: SqlType, to: SqlType) -> Expr {
    let name = format!("to_{to:?}").to_lowercase().replace(|c: char| !c.is_alphanumeric(), "_");
    let function = Scalar::frozen(&name, Meaning::Cast { to, explicit: false }, vec![from]);
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr]))
}

fn comparison(op: BinaryOp) -> Option<Operator> {
    Some(match op {
        BinaryOp::Equal => Operator::Eq,
        BinaryOp::NotEqual => Operator::NotEq,
        BinaryOp::Less => Operator::Lt,
        BinaryOp::LessEqual => Operator::LtEq,
        BinaryOp::Greater => Operator::Gt,
        BinaryOp::GreaterEqual => Operator::GtEq,
        _ => return None,
    })
}

/// The operator of a symbol; `None` for `AND` and `OR`, which the engine has.
fn operator(symbol: &Symbol) -> Result<Option<BinaryOp>> {
    Ok(Some(match symbol {
        Symbol::And | Symbol::Or => return Ok(None),
        Symbol::Plus => BinaryOp::Add,
        Symbol::Minus => BinaryOp::Subtract,
        Symbol::Multiply => BinaryOp::Multiply,
        Symbol::Divide => BinaryOp::Divide,
        Symbol::Modulo => BinaryOp::Modulo,
        Symbol::PGExp => BinaryOp::Power,
        Symbol::Eq => BinaryOp::Equal,
        Symbol::NotEq => BinaryOp::NotEqual,
        Symbol::Lt => BinaryOp::Less,
        Symbol::LtEq => BinaryOp::LessEqual,
        Symbol::Gt => BinaryOp::Greater,
        Symbol::GtEq => BinaryOp::GreaterEqual,
        Symbol::StringConcat => BinaryOp::Concat,
        Symbol::BitwiseAnd => BinaryOp::BitAnd,
        Symbol::BitwiseOr => BinaryOp::BitOr,
        Symbol::PGBitwiseXor => BinaryOp::BitXor,
        Symbol::PGBitwiseShiftLeft => BinaryOp::ShiftLeft,
        Symbol::PGBitwiseShiftRight => BinaryOp::ShiftRight,
        Symbol::Arrow => BinaryOp::JsonGet,
        Symbol::LongArrow => BinaryOp::JsonGetText,
        other => return Err(told(sql::SqlError::unsupported(&format!("the operator {other}"), None))),
    }))
}

/// Decides all types of a plan for good: those of functions, and of the branches of a `CASE`.
///
/// # Errors
/// `42883` for functions that there are not, `42804` for branches of different types.
pub fn decided(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|plan| {
        let mut schema = merge_schema(&plan.inputs());
        if let LogicalPlan::TableScan(scan) = &plan {
            schema.merge(&scan.projected_schema);
        }
        let is_output = matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Values(_));
        let names = NamePreserver::new(&plan);
        let plan = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let done = expr.transform_up(|expr| one(expr, &schema))?;
            let done = if is_output { done.data.transform_down(short_literal)? } else { done };
            Ok(Transformed::yes(name.restore(done.data)))
        })?;
        let plan = plan.data.recompute_schema()?;
        Ok(Transformed::yes(plan))
    })
    .map(|plan| plan.data)
}

/// An integer that is a column has four bytes if they suffice.
fn short_literal(expr: Expr) -> Result<Transformed<Expr>> {
    use datafusion::common::tree_node::TreeNodeRecursion::Jump;
    Ok(match expr {
        Expr::Alias(_) => Transformed::no(expr),
        Expr::Literal(ScalarValue::Int64(Some(v)), meta) if meta.is_none() => match i32::try_from(v) {
            Ok(v) => Transformed::new(Expr::Literal(ScalarValue::Int32(Some(v)), None), true, Jump),
            Err(_) => Transformed::no(Expr::Literal(ScalarValue::Int64(Some(v)), None)),
        },
        other => Transformed::new(other, false, Jump),
    })
}

fn one(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::ScalarFunction(function) => {
            let Some(scalar) = function.func.inner().downcast_ref::<Scalar>() else {
                return Ok(Transformed::no(Expr::ScalarFunction(function)));
            };
            if scalar.is_frozen() {
                return Ok(Transformed::no(Expr::ScalarFunction(function)));
            }
            let types = function.args.iter().map(|arg| operand_of(arg, schema).map(|operand| operand.ty));
            let func = scalar.freeze(types.collect::<Result<Vec<SqlType>>>()?);
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(func, function.args))))
        }
        Expr::Case(case) => branches(case, schema).map(Transformed::yes),
        Expr::AggregateFunction(mut call) => {
            for arg in &mut call.params.args {
                let taken = std::mem::replace(arg, Expr::Literal(ScalarValue::Null, None));
                *arg = short_literal(taken)?.data;
            }
            Ok(Transformed::yes(Expr::AggregateFunction(call)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// A `CASE` with branches of one type.
fn branches(mut case: Case, schema: &DFSchema) -> Result<Expr> {
    let mut types = Vec::new();
    for branch in case.when_then_expr.iter().map(|(_, then)| then).chain(case.else_expr.iter()) {
        types.push(operand_of(branch, schema)?.ty);
    }
    let mismatch = || {
        let message = "CASE types do not match";
        told(sql::SqlError::new(sql::SqlState::DATATYPE_MISMATCH, message))
    };
    let to = typed::common(types.iter().copied()).ok_or_else(mismatch)?;
    let to = if to == SqlType::Unknown { SqlType::Text } else { to };
    let all = case.when_then_expr.iter_mut().map(|(_, then)| then).chain(case.else_expr.iter_mut());
    for (branch, from) in all.zip(types) {
        if from == to {
            continue;
        }
        let taken = std::mem::replace(branch.as_mut(), Expr::Literal(ScalarValue::Null, None));
        **branch = match taken {
            Expr::Literal(value, _) if value.is_null() => {
                Expr::Literal(ScalarValue::try_from(values::data_type(to))?, None)
            }
            other => cast(other, from, to),
        };
    }
    if case.expr.is_some() {
        return simple(case, schema);
    }
    Ok(Expr::Case(case))
}

/// `CASE x WHEN y`: with the comparisons written out, so that they have PostgreSQL's types.
fn simple(mut case: Case, schema: &DFSchema) -> Result<Expr> {
    let Some(subject) = case.expr.take() else { return Err(internal("a CASE without a subject")) };
    let a = operand_of(&subject, schema)?;
    for (when, _) in &mut case.when_then_expr {
        let b = operand_of(when, schema)?;
        let taken = std::mem::replace(when.as_mut(), Expr::Literal(ScalarValue::Null, None));
        **when = planned(BinaryOp::Equal, ((*subject).clone(), a.clone()), (taken, b))?;
    }
    Ok(Expr::Case(case))
}

pub type Planner = Arc<Operators>;
