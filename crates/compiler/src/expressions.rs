//! Expressions: names resolved in their scope, types decided, casts inserted.

pub mod aggregates;
mod array;
mod composed;
pub mod documents;
mod enumeration;
pub mod functions;
mod json;
mod predicates;
mod regex;

pub use predicates::not;
use predicates::{like_operator, negate_if};
pub use regex::all_matches;
use regex::regex_operator;

use crate::coerce::{Frame, How, Params, Typed, literal, negated};
use crate::compiled::Fill;
use crate::error::{syntax, too_complex};
use crate::flow::Unit;
use crate::names::{Scope, folded};
use crate::operators::binary;
use crate::{Stop, types};
use sql::catalog::Catalog;
use sql::expression::{BinaryOp, Function};
use sql::program::AggregateCall;
use sql::{Datum, Expr, SqlError, SqlState, SqlType};
use sqlparser::ast::{self, BinaryOperator, Spanned, UnaryOperator};
use sqlparser::tokenizer::Location;
use std::collections::BTreeSet;

/// Operators and functions inside each other; the evaluation calls itself as often.
const MAX_DEPTH: u32 = 200;
/// The first of the columns that stand for aggregates until the groups are known.
pub const AGGREGATES: u16 = 0x8000;

/// The compiler of one statement.
pub struct Compiler<'a> {
    pub catalog: &'a Catalog,
    pub params: Params,
    pub fills: Vec<Fill>,
    /// Aggregates found so far, where they are allowed.
    pub aggregates: Option<Vec<AggregateCall>>,
    /// The parameters of the procedure that this is the body of.
    pub frame: Option<Frame>,
    /// Sub-queries that run before the statement, where there may be some.
    pub hoisted: Option<Vec<Unit>>,
    /// The parameters of which the statement needs the value that another one gives.
    pub uses: BTreeSet<u16>,
    /// Where the first error is, if that is known.
    pub place: Option<Location>,
    /// The types that the output of the next select is stored as: those of its parameters.
    pub targets: Vec<SqlType>,
    /// Branches around the expression: what is in them may not be run.
    pub branches: u32,
    /// What a tree collects, if the statement becomes one.
    pub tree: Option<crate::tree::State>,
    depth: u32,
}

impl<'a> Compiler<'a> {
    pub fn new(catalog: &'a Catalog, params: Params) -> Compiler<'a> {
        Compiler {
            catalog,
            params,
            fills: Vec::new(),
            aggregates: None,
            frame: None,
            hoisted: None,
            uses: BTreeSet::new(),
            place: None,
            targets: Vec::new(),
            branches: 0,
            tree: None,
            depth: 0,
        }
    }

    /// A parameter that the server fills.
    ///
    /// # Errors
    /// `54000` for too many.
    pub fn fill(&mut self, fill: Fill) -> Result<Expr, SqlError> {
        let position = self.params.len() + self.fills.len();
        let position = u16::try_from(position).map_err(|_| {
            SqlError::new(
                SqlState::PROGRAM_LIMIT,
                "a statement has at most 65535 parameters and values of sequences",
            )
            .with_hint("Insert the rows in several statements.")
        })?;
        self.fills.push(fill);
        Ok(Expr::Param(position))
    }

    /// A condition.
    pub fn condition(&mut self, scope: &Scope, expr: &ast::Expr, clause: &str) -> Result<Expr, Stop> {
        let value = self.expr(scope, expr)?;
        if !matches!(value.ty, SqlType::Bool | SqlType::Unknown) {
            let message =
                format!("argument of {clause} must be type boolean, not type {}", types::name_of(value.ty));
            return Err(crate::error::mismatch(message).into());
        }
        Ok(self.params.coerce(value, SqlType::Bool, How::Implicit)?)
    }

    /// Binds something that is inside of what is bound.
    ///
    /// # Errors
    /// `54001` for too deep a nesting.
    pub fn deeper<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T, Stop>) -> Result<T, Stop> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.depth -= 1;
            return Err(too_complex().into());
        }
        let bound = bind(self);
        self.depth -= 1;
        bound
    }

    pub fn expr(&mut self, scope: &Scope, expr: &ast::Expr) -> Result<Typed, Stop> {
        let value = self.deeper(|compiler| compiler.any(scope, expr));
        if let Err(Stop::Error(error)) = &value {
            self.note_place(expr, error.state);
        }
        value
    }

    /// Keeps the place of an error that has happened in an expression: of names, functions, and of
    /// literals that cannot be read.
    pub fn note_place(&mut self, expr: &ast::Expr, state: SqlState) {
        use ast::Expr as E;
        if self.place.is_some() {
            return;
        }
        let at = match expr {
            E::Identifier(_) | E::CompoundIdentifier(_) | E::Function(_) => expr,
            E::Cast { expr, .. } if state == SqlState::INVALID_TEXT => expr,
            E::BinaryOp { left, right, .. } if state == SqlState::INVALID_TEXT => {
                match (left.as_ref(), right.as_ref()) {
                    (_, E::Value(_)) => right,
                    (E::Value(_), _) => left,
                    _ => return,
                }
            }
            _ => return,
        };
        self.place = Some(at.span().start).filter(|place| place.line > 0);
    }

    /// The table that a statement names.
    ///
    /// # Errors
    /// Those of [`crate::names::table`].
    pub fn table(&mut self, name: &ast::ObjectName) -> Result<&'a sql::catalog::Table, Stop> {
        let found = crate::names::table(self.catalog, name);
        if let (Err(Stop::Error(_)), None) = (&found, self.place) {
            self.place = Some(name.span().start).filter(|place| place.line > 0);
        }
        found
    }

    fn any(&mut self, scope: &Scope, expr: &ast::Expr) -> Result<Typed, Stop> {
        use ast::Expr as E;
        match expr {
            E::Nested(inner) => self.expr(scope, inner),
            E::Value(value) => match &value.value {
                ast::Value::Placeholder(text) => Ok(self.params.get(text)?),
                value => Ok(literal(value)?),
            },
            E::Identifier(ident) => {
                let name = folded(ident);
                match self.named_column(scope, None, &name) {
                    Ok(value) => Ok(value),
                    Err(error) if error.state != SqlState::UNDEFINED_COLUMN => Err(error.into()),
                    Err(error) => self.param_named(&name).ok_or_else(|| error.into()),
                }
            }
            E::CompoundIdentifier(idents) => {
                let [.., relation, column] = idents.as_slice() else {
                    return Err(syntax("a column has a name").into());
                };
                let (relation, column) = (folded(relation), folded(column));
                if self.frame.as_ref().is_some_and(|frame| frame.procedure == relation)
                    && scope.relation(&relation).is_err()
                    && let Some(value) = self.param_named(&column)
                {
                    return Ok(value);
                }
                Ok(self.named_column(scope, Some(&relation), &column)?)
            }
            E::TypedString(typed) => {
                let value = literal(&typed.value.value)?;
                self.cast(value, &typed.data_type)
            }
            E::Interval(interval) => self.interval(scope, interval),
            E::BinaryOp { left, op, right } => self.binary(scope, left, op, right),
            E::UnaryOp { op, expr } => self.unary(scope, *op, expr),
            E::Cast { expr, data_type, .. } => {
                let value = match expr.as_ref() {
                    // Its type is that of the cast.
                    E::Array(array) if array.elem.is_empty() => array::empty(),
                    expr => self.expr(scope, expr)?,
                };
                self.cast(value, data_type)
            }
            E::Case { operand, conditions, else_result, .. } => {
                self.branches += 1;
                let value = self.case(scope, operand.as_deref(), conditions, else_result.as_deref());
                self.branches -= 1;
                value
            }
            E::Function(function) => functions::call(self, scope, function),
            E::Collate { expr, collation } => match collation.to_string().trim_matches('"') {
                "C" | "POSIX" | "pg_catalog.default" | "default" => self.expr(scope, expr),
                _ => Err(SqlError::unsupported("another collation than \"C\"", None).into()),
            },
            _ => self.predicate(scope, expr),
        }
    }

    /// The value of a procedure's parameter.
    fn param_named(&mut self, name: &str) -> Option<Typed> {
        let value = self.frame.as_ref()?.get(name)?.clone();
        self.note_uses(&value.expr);
        Some(value)
    }

    fn note_uses(&mut self, expr: &Expr) {
        if let Expr::Param(at) = expr {
            self.uses.insert(*at);
        }
        crate::walk::children(expr, &mut |inner| self.note_uses(inner));
    }

    fn cast(&mut self, value: Typed, data_type: &ast::DataType) -> Result<Typed, Stop> {
        if matches!(data_type, ast::DataType::Regclass) {
            return Err(Stop::General("a cast to this type"));
        }
        let ty = types::resolve(self.catalog, data_type)?;
        let ty = match data_type {
            ast::DataType::Custom(name, _) if name.to_string().eq_ignore_ascii_case("bpchar") => {
                SqlType::Char(0)
            }
            _ => ty,
        };
        Ok(Typed::new(self.params.coerce(value, ty, How::Explicit)?, ty))
    }

    fn interval(&mut self, scope: &Scope, interval: &ast::Interval) -> Result<Typed, Stop> {
        let mut value = self.expr(scope, &interval.value)?;
        if let (Some(field), Typed { expr: Expr::Const(Datum::Text(text)), .. }) =
            (&interval.leading_field, &mut value)
        {
            *text = format!("{text} {field}");
        }
        Ok(Typed::new(self.params.coerce(value, SqlType::Interval, How::Explicit)?, SqlType::Interval))
    }

    fn unary(&mut self, scope: &Scope, op: UnaryOperator, expr: &ast::Expr) -> Result<Typed, Stop> {
        match op {
            UnaryOperator::Not => {
                let condition = self.condition(scope, expr, "NOT")?;
                Ok(not(Typed::bool(condition)))
            }
            UnaryOperator::Plus => self.expr(scope, expr),
            UnaryOperator::Minus => {
                let mut value = self.expr(scope, expr)?;
                if value.ty == SqlType::Unknown {
                    value = Typed::new(
                        self.params.coerce(value, SqlType::Float8, How::Implicit)?,
                        SqlType::Float8,
                    );
                }
                Ok(negated(value)?)
            }
            UnaryOperator::PGAbs => functions::named(self, scope, "abs", &[expr]),
            UnaryOperator::PGSquareRoot | UnaryOperator::PGCubeRoot => {
                let value = self.expr(scope, expr)?;
                let float = self.params.coerce(value, SqlType::Float8, How::Implicit)?;
                let name = if op == UnaryOperator::PGSquareRoot { "sqrt" } else { "cbrt" };
                functions::with_args(self, name, vec![Typed::new(float, SqlType::Float8)])
            }
            UnaryOperator::BitwiseNot => {
                let value = self.expr(scope, expr)?;
                let ones = Typed::new(Expr::Const(Datum::Int(-1)), value.ty);
                Ok(binary(&mut self.params, BinaryOp::BitXor, value, ones)?)
            }
            other => Err(SqlError::unsupported(&format!("the operator {other}"), None).into()),
        }
    }

    fn binary(
        &mut self,
        scope: &Scope,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
    ) -> Result<Typed, Stop> {
        if matches!(op, BinaryOperator::And | BinaryOperator::Or) {
            return self.chain(scope, left, op, right);
        }
        if let (ast::Expr::Tuple(left), ast::Expr::Tuple(right)) = (left, right) {
            return match op {
                BinaryOperator::Overlaps => self.overlaps(scope, left, right),
                BinaryOperator::Eq => self.tuples_equal(scope, left, right),
                BinaryOperator::NotEq => Ok(not(self.tuples_equal(scope, left, right)?)),
                _ => Err(Stop::General("a comparison of row values")),
            };
        }
        if let Some((ignore_case, is_negated)) = like_operator(op) {
            return negate_if(is_negated, self.like(scope, left, right, None, ignore_case)?);
        }
        if let Some(is_negated) = regex_operator(op) {
            return negate_if(is_negated, self.matches(scope, left, right, op)?);
        }
        if matches!(op, BinaryOperator::PGCustomBinaryOperator(_)) {
            return Err(Stop::General("an operator with its schema"));
        }
        let (left, right) = (self.expr(scope, left)?, self.expr(scope, right)?);
        if let Some(value) = documents::operator(&mut self.params, op, &left, &right)? {
            return Ok(value);
        }
        if let Some(value) = array::operator(&mut self.params, op, &left, &right)? {
            return Ok(value);
        }
        Ok(binary(&mut self.params, operator(op)?, left, right)?)
    }

    /// `AND` or `OR` of any number of conditions: the tree is as deep as the chain is long.
    fn chain(
        &mut self,
        scope: &Scope,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
    ) -> Result<Typed, Stop> {
        let clause = if *op == BinaryOperator::And { "AND" } else { "OR" };
        let (mut arms, mut rest) = (vec![right], left);
        while let ast::Expr::BinaryOp { left, op: inner, right } = rest
            && inner == op
        {
            arms.push(right);
            rest = left;
        }
        arms.push(rest);
        let mut conditions = Vec::with_capacity(arms.len());
        for arm in arms.into_iter().rev() {
            match (self.condition(scope, arm, clause)?, clause) {
                (Expr::And(inner), "AND") | (Expr::Or(inner), "OR") => conditions.extend(inner),
                (condition, _) => conditions.push(condition),
            }
        }
        Ok(Typed::bool(if clause == "AND" { Expr::And(conditions) } else { Expr::Or(conditions) }))
    }

    fn case(
        &mut self,
        scope: &Scope,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Result<Typed, Stop> {
        let operand = operand.map(|operand| self.expr(scope, operand)).transpose()?;
        let mut branches = Vec::with_capacity(conditions.len());
        let mut results = Vec::with_capacity(conditions.len() + 1);
        for when in conditions {
            branches.push(match &operand {
                None => self.condition(scope, &when.condition, "CASE/WHEN")?,
                Some(operand) => {
                    let value = self.expr(scope, &when.condition)?;
                    binary(&mut self.params, BinaryOp::Equal, operand.clone(), value)?.expr
                }
            });
            results.push(self.expr(scope, &when.result)?);
        }
        results.push(match otherwise {
            Some(otherwise) => self.expr(scope, otherwise)?,
            None => Typed::new(Expr::Const(Datum::Null), SqlType::Unknown),
        });
        let (mut results, ty) = self.of_one_type("CASE", results)?;
        let otherwise = results.pop().unwrap_or(Expr::Const(Datum::Null)).into();
        let branches = branches.into_iter().zip(results).collect();
        Ok(Typed::new(Expr::Case { branches, otherwise }, ty))
    }

    /// All values as of their common type.
    pub fn of_one_type(&mut self, what: &str, values: Vec<Typed>) -> Result<(Vec<Expr>, SqlType), SqlError> {
        let is_null = |value: &&Typed| value.expr == Expr::Const(Datum::Null) && value.ty == SqlType::Unknown;
        let mut ty = values.iter().find(|value| !is_null(value)).map_or(SqlType::Unknown, |value| value.ty);
        for value in values.iter().filter(|value| !is_null(value)) {
            ty = types::common(ty, value.ty).ok_or_else(|| {
                let (left, right) = (types::name_of(ty), types::name_of(value.ty));
                crate::error::mismatch(format!("{what} types {left} and {right} cannot be matched"))
            })?;
        }
        let ty = if ty == SqlType::Unknown { SqlType::Text } else { ty };
        let values = values.into_iter().map(|value| self.params.coerce(value, ty, How::Implicit));
        Ok((values.collect::<Result<_, _>>()?, ty))
    }
}

fn operator(op: &BinaryOperator) -> Result<BinaryOp, Stop> {
    Ok(match op {
        BinaryOperator::Plus => BinaryOp::Add,
        BinaryOperator::Minus => BinaryOp::Subtract,
        BinaryOperator::Multiply => BinaryOp::Multiply,
        BinaryOperator::Divide => BinaryOp::Divide,
        BinaryOperator::Modulo => BinaryOp::Modulo,
        BinaryOperator::PGExp => BinaryOp::Power,
        BinaryOperator::StringConcat => BinaryOp::Concat,
        BinaryOperator::Eq => BinaryOp::Equal,
        BinaryOperator::NotEq => BinaryOp::NotEqual,
        BinaryOperator::Lt => BinaryOp::Less,
        BinaryOperator::LtEq => BinaryOp::LessEqual,
        BinaryOperator::Gt => BinaryOp::Greater,
        BinaryOperator::GtEq => BinaryOp::GreaterEqual,
        BinaryOperator::BitwiseAnd => BinaryOp::BitAnd,
        BinaryOperator::BitwiseOr => BinaryOp::BitOr,
        BinaryOperator::PGBitwiseXor => BinaryOp::BitXor,
        BinaryOperator::PGBitwiseShiftLeft => BinaryOp::ShiftLeft,
        BinaryOperator::PGBitwiseShiftRight => BinaryOp::ShiftRight,
        BinaryOperator::Arrow => BinaryOp::JsonGet,
        BinaryOperator::LongArrow => BinaryOp::JsonGetText,
        other => return Err(SqlError::unsupported(&format!("the operator {other}"), None).into()),
    })
}

/// The function that picks the first value that is not null, of values of one type.
pub fn coalesce(args: Vec<Expr>, ty: SqlType) -> Typed {
    Typed::new(Expr::Call { function: Function::Coalesce, args, ty }, ty)
}
