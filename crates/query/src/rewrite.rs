//! The statement's tree, so that the engine's planner reads it as PostgreSQL would.
//!
//! - Casts, typed literals and numbers with a fraction become functions with PostgreSQL's meaning.
//! - Operators written in words (`BETWEEN`, `IN`, `EXTRACT`, `SUBSTRING`) become operators and
//!   calls, so that types are decided for each operand.
//! - Columns get PostgreSQL's names. The planner wants each name once: those that come again have a
//!   mark and a number behind them, which [`name_of`] takes off.
//! - Parameters and facts of the session become constants.

use crate::functions::{Constant, Meaning, Scalar};
use compiler::general::Facts;
use compiler::typed;
use datafusion::logical_expr::ScalarUDF;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, LimitClause, ObjectName, Query, Select, SelectItem,
    SetExpr, Statement, TrimWhereField, UnaryOperator, Value, VisitMut, VisitorMut,
};
use sql::{Datum, SqlError, SqlType};
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Between a name and the number that makes it the only one.
const MARK: char = '\u{1}';
/// Longer lists are left to the engine.
const MOST_IN_LIST: usize = 1000;

/// A column's name, without what made it the only one.
pub fn name_of(name: &str) -> &str {
    name.split(MARK).next().unwrap_or(name)
}

/// What a rewritten tree refers to.
pub struct Rewriter<'a> {
    /// Types of the parameters as far as they are known.
    pub types: &'a mut Vec<SqlType>,
    /// Their values, if the statement is about to run.
    pub values: Option<&'a [Datum]>,
    pub facts: &'a Facts,
    pub functions: BTreeMap<String, Arc<ScalarUDF>>,
}

impl Rewriter<'_> {
    /// # Errors
    /// `0A000` for what the engine would read in another way.
    pub fn statement(&mut self, statement: &mut Statement) -> Result<(), SqlError> {
        match statement.visit(self) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }

    fn add(&mut self, name: String, meaning: Meaning) -> String {
        if !self.functions.contains_key(&name) {
            self.functions.insert(name.clone(), Scalar::udf(&name, meaning));
        }
        name
    }

    fn cast(&mut self, expr: Expr, to: SqlType) -> Expr {
        let name = format!("cast_{to:?}").to_lowercase().replace(|c: char| !c.is_alphanumeric(), "_");
        let name = self.add(name, Meaning::Cast { to, explicit: true });
        call(&name, vec![expr])
    }

    fn type_of(&self, data_type: &DataType) -> Result<SqlType, SqlError> {
        typed::named_type(&data_type.to_string())
    }

    fn param(&mut self, text: &str) -> Result<Expr, SqlError> {
        let number = text.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
        let at = number.and_then(|number| number.checked_sub(1)).filter(|at| *at < self.types.len());
        let missing = || SqlError::new(sql::SqlState(*b"42P02"), format!("there is no parameter {text}"));
        let at = at.ok_or_else(missing)?;
        let ty = self.types[at];
        if ty == SqlType::Unknown {
            // The planner decides it.
            return Ok(Expr::value(Value::Placeholder(text.to_owned())));
        }
        let value = self.values.and_then(|values| values.get(at)).cloned().unwrap_or(Datum::Null);
        let name = self.add(format!("param_{}", at + 1), Meaning::Constant(Constant { ty, value }));
        Ok(call(&name, Vec::new()))
    }

    /// A value of the session, by the name of its function.
    fn fact(&self, name: &str) -> Option<Constant> {
        let text = |text: &str, ty| Some(Constant { ty, value: Datum::Text(text.to_owned()) });
        let time = |to| {
            let now = sql::Expr::Const(Datum::Timestamp(self.facts.now)).into();
            let cast = sql::Expr::Cast { expr: now, from: SqlType::TimestampTz, to, explicit: false };
            let context = sql::Context { params: &[], now: self.facts.now, random: &|| 0 };
            Some(Constant { ty: to, value: cast.eval(&context, &Vec::new()).ok()? })
        };
        match name {
            "now"
            | "current_timestamp"
            | "transaction_timestamp"
            | "statement_timestamp"
            | "clock_timestamp" => time(SqlType::TimestampTz),
            "localtimestamp" => time(SqlType::Timestamp),
            "localtime" => time(SqlType::Time),
            "current_date" => time(SqlType::Date),
            "current_user" | "session_user" | "user" | "current_role" => {
                text(&self.facts.user, SqlType::Name)
            }
            "current_database" | "current_catalog" => text(&self.facts.database, SqlType::Name),
            "current_schema" => text("public", SqlType::Name),
            "pg_backend_pid" => {
                Some(Constant { ty: SqlType::Int4, value: Datum::Int(self.facts.backend.into()) })
            }
            _ => None,
        }
    }

    fn function(&mut self, mut function: Function) -> Result<Expr, SqlError> {
        let name = function.name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default();
        if let Some(constant) = self.fact(&name)
            && function.over.is_none()
        {
            let name = self.add(format!("fact_{name}"), Meaning::Constant(constant));
            return Ok(call(&name, Vec::new()));
        }
        // A schema before the name says nothing more.
        function.name = ObjectName::from(vec![Ident::new(name)]);
        Ok(Expr::Function(function))
    }

    /// The expression in words that the planner reads well; its operands are done already.
    fn reworded(&mut self, expr: Expr) -> Result<Expr, SqlError> {
        Ok(match expr {
            Expr::Value(value) => match &value.value {
                Value::Number(text, _) if text.parse::<i64>().is_err() => {
                    let text = Expr::value(Value::SingleQuotedString(text.clone()));
                    self.cast(text, SqlType::Numeric(None))
                }
                Value::Placeholder(text) => self.param(&text.clone())?,
                _ => Expr::Value(value),
            },
            Expr::Cast { expr, data_type, kind: CastKind::Cast | CastKind::DoubleColon, .. } => {
                let to = self.type_of(&data_type)?;
                if let Expr::Value(value) = expr.as_ref()
                    && let Value::Placeholder(text) = &value.value
                {
                    let text = text.clone();
                    self.decide(&text, to);
                    let param = self.param(&text)?;
                    return Ok(self.cast(param, to));
                }
                self.cast(*expr, to)
            }
            Expr::TypedString(typed) => {
                let to = self.type_of(&typed.data_type)?;
                self.cast(Expr::Value(typed.value), to)
            }
            Expr::Interval(interval) => {
                let Expr::Value(value) = interval.value.as_ref() else {
                    return Err(SqlError::unsupported("an interval that is no literal", None));
                };
                let text = value.value.clone().into_string().unwrap_or_else(|| value.to_string());
                let field = interval.leading_field.map(|field| format!(" {field}")).unwrap_or_default();
                let text = Expr::value(Value::SingleQuotedString(format!("{text}{field}")));
                self.cast(text, SqlType::Interval)
            }
            Expr::Between { expr, negated, low, high } => {
                let (first, second) = if negated {
                    (BinaryOperator::Lt, BinaryOperator::Gt)
                } else {
                    (BinaryOperator::GtEq, BinaryOperator::LtEq)
                };
                let both = if negated { BinaryOperator::Or } else { BinaryOperator::And };
                let left = binary((*expr).clone(), first, *low);
                nested(binary(left, both, binary(*expr, second, *high)))
            }
            Expr::InList { expr, list, negated } if list.len() <= MOST_IN_LIST => {
                let (op, both) = if negated {
                    (BinaryOperator::NotEq, BinaryOperator::And)
                } else {
                    (BinaryOperator::Eq, BinaryOperator::Or)
                };
                balanced(
                    list.into_iter().map(|item| binary((*expr).clone(), op.clone(), item)).collect(),
                    &both,
                )
            }
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } if !matches!(*expr, Expr::Value(_)) => {
                let zero = Expr::value(Value::Number("0".into(), false));
                nested(binary(zero, BinaryOperator::Minus, *expr))
            }
            Expr::UnaryOp { op: UnaryOperator::Plus, expr } => *expr,
            Expr::Collate { expr, .. } => *expr,
            Expr::Function(function) => self.function(function)?,
            other => in_words(other)?,
        })
    }

    /// A parameter has the type that its first use asks for.
    fn decide(&mut self, text: &str, to: SqlType) {
        let at = text.strip_prefix('$').and_then(|number| number.parse::<usize>().ok()).unwrap_or(0);
        if let Some(ty) = at.checked_sub(1).and_then(|at| self.types.get_mut(at))
            && *ty == SqlType::Unknown
        {
            *ty = to;
        }
    }
}

/// Functions with a grammar of their own, as calls.
fn in_words(expr: Expr) -> Result<Expr, SqlError> {
    Ok(match expr {
        Expr::Extract { field, expr, .. } => {
            let field = Value::SingleQuotedString(field.to_string().to_lowercase());
            call("extract", vec![Expr::value(field), *expr])
        }
        Expr::Ceil { expr, .. } => call("ceil", vec![*expr]),
        Expr::Floor { expr, .. } => call("floor", vec![*expr]),
        Expr::Position { expr, r#in } => call("position", vec![*r#in, *expr]),
        Expr::Substring { expr, substring_from, substring_for, .. } => {
            let one = || Box::new(Expr::value(Value::Number("1".into(), false)));
            let mut args = vec![*expr, *substring_from.unwrap_or_else(one)];
            args.extend(substring_for.map(|length| *length));
            call("substring", args)
        }
        Expr::Trim { trim_where, trim_what, expr, trim_characters: None } => {
            let name = match trim_where {
                Some(TrimWhereField::Leading) => "ltrim",
                Some(TrimWhereField::Trailing) => "rtrim",
                _ => "btrim",
            };
            let mut args = vec![*expr];
            args.extend(trim_what.map(|what| *what));
            call(name, args)
        }
        Expr::SimilarTo { .. } | Expr::RLike { .. } => {
            return Err(SqlError::unsupported("SIMILAR TO", Some("Use LIKE.")));
        }
        Expr::AtTimeZone { .. } => return Err(SqlError::unsupported("AT TIME ZONE", None)),
        other => other,
    })
}

fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: left.into(), op, right: right.into() }
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(expr.into())
}

/// All of them joined by an operator, in a tree that is as flat as can be.
fn balanced(mut exprs: Vec<Expr>, op: &BinaryOperator) -> Expr {
    while exprs.len() > 1 {
        let mut pairs = Vec::with_capacity(exprs.len().div_ceil(2));
        let mut rest = exprs.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => nested(binary(left, op.clone(), right)),
                None => left,
            });
        }
        exprs = pairs;
    }
    exprs.pop().map_or_else(|| Expr::value(Value::Boolean(false)), nested)
}

/// A call of a function of one row.
fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None::<DuplicateTreatment>,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

impl VisitorMut for Rewriter<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        if query.for_clause.is_some() || !query.locks.is_empty() {
            let what = "FOR UPDATE in a query with joins without keys, groups or sub-queries";
            return ControlFlow::Break(SqlError::unsupported(
                what,
                Some("Lock the rows by a query on their keys."),
            ));
        }
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause {
            for count in limit.iter().chain(offset.iter().map(|offset| &offset.value)) {
                if let Expr::Value(value) = count
                    && let Value::Placeholder(text) = &value.value
                {
                    self.decide(text, SqlType::Int8);
                }
            }
        }
        if let SetExpr::Select(select) = query.body.as_mut() {
            name_columns(select);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let taken = std::mem::replace(expr, Expr::value(Value::Null));
        match self.reworded(taken) {
            Ok(done) => {
                *expr = done;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Gives the columns of a select the names that PostgreSQL gives them, each once.
fn name_columns(select: &mut Select) {
    let mut seen: HashSet<String> = HashSet::new();
    for item in &mut select.projection {
        let (name, expr) = match item {
            SelectItem::UnnamedExpr(expr) => (column_name(expr), expr.clone()),
            SelectItem::ExprWithAlias { alias, .. } => {
                let name = folded(alias);
                if !seen.insert(name.clone()) {
                    *alias = only(&name, seen.len());
                    seen.insert(alias.value.clone());
                }
                continue;
            }
            _ => continue,
        };
        let is_new = seen.insert(name.clone());
        let is_column = matches!(&expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        if is_new && is_column {
            continue;
        }
        let alias = if is_new { Ident::with_quote('"', name) } else { only(&name, seen.len()) };
        seen.insert(alias.value.clone());
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
}

fn only(name: &str, number: usize) -> Ident {
    Ident::with_quote('"', format!("{name}{MARK}{number}"))
}

/// PostgreSQL's name of a column without an alias.
fn column_name(expr: &Expr) -> String {
    let unknown = || "?column?".to_owned();
    match expr {
        Expr::Identifier(ident) => folded(ident),
        Expr::CompoundIdentifier(idents) => idents.last().map_or_else(unknown, folded),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => column_name(inner),
        Expr::Function(function) => {
            function.name.0.last().and_then(|part| part.as_ident()).map_or_else(unknown, folded)
        }
        Expr::Cast { expr, data_type, .. } => match column_name(expr) {
            name if name == "?column?" => typed::named_type(&data_type.to_string()).map_or(name, short_name),
            name => name,
        },
        Expr::TypedString(typed) => {
            typed::named_type(&typed.data_type.to_string()).map_or_else(|_| unknown(), short_name)
        }
        Expr::Case { else_result, .. } => match else_result.as_deref().map(column_name) {
            Some(name) if name != "?column?" => name,
            _ => "case".into(),
        },
        Expr::Interval(_) => "interval".into(),
        Expr::Exists { .. } => "exists".into(),
        Expr::Extract { .. } => "extract".into(),
        Expr::Ceil { .. } => "ceil".into(),
        Expr::Floor { .. } => "floor".into(),
        Expr::Position { .. } => "position".into(),
        Expr::Substring { .. } => "substring".into(),
        Expr::Trim { trim_where, .. } => match trim_where {
            Some(TrimWhereField::Leading) => "ltrim".into(),
            Some(TrimWhereField::Trailing) => "rtrim".into(),
            _ => "btrim".into(),
        },
        Expr::Array(_) => "array".into(),
        Expr::Value(value) => match &value.value {
            Value::Boolean(_) => "bool".into(),
            _ => unknown(),
        },
        Expr::Subquery(query) => match query.body.as_ref() {
            SetExpr::Select(select) => match select.projection.first() {
                Some(SelectItem::UnnamedExpr(expr)) => column_name(expr),
                Some(SelectItem::ExprWithAlias { alias, .. }) => folded(alias),
                _ => unknown(),
            },
            _ => unknown(),
        },
        _ => unknown(),
    }
}

/// PostgreSQL's own name of a type, which a cast of a literal has.
fn short_name(ty: SqlType) -> String {
    match ty {
        SqlType::Numeric(_) => "numeric".into(),
        SqlType::Char(_) => "bpchar".into(),
        SqlType::Varchar(_) => "varchar".into(),
        ty => format!("{ty:?}").to_lowercase(),
    }
}
