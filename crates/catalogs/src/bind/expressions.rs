//! Expressions.

use super::type_names::{common, wider};
use super::{Binder, Scope, folded, parts, type_named, unsupported};
use crate::functions;
use crate::plan::{Aggregate, Ex, Op, Window};
use crate::value::{Type, Value};
use sql::{SqlError, SqlState};
use sqlparser::ast::{
    self, BinaryOperator, DuplicateTreatment, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, TrimWhereField, UnaryOperator, WindowType,
};

type Typed = (Ex, Type);

const AGGREGATES: [&str; 10] =
    ["count", "sum", "min", "max", "bool_and", "bool_or", "every", "array_agg", "string_agg", "json_agg"];
const SETS: [&str; 5] =
    ["unnest", "generate_subscripts", "generate_series", "_pg_expandarray", "pg_partition_ancestors"];

impl Binder<'_> {
    pub(super) fn expr(&mut self, scope: &Scope<'_>, expr: &ast::Expr) -> Result<Typed, SqlError> {
        self.deeper(|binder| binder.any(scope, expr))
    }

    fn any(&mut self, scope: &Scope<'_>, expr: &ast::Expr) -> Result<Typed, SqlError> {
        use ast::Expr as E;
        match expr {
            E::Nested(inner) | E::Collate { expr: inner, .. } => self.expr(scope, inner),
            E::Value(value) => self.literal(&value.value),
            E::Identifier(ident) => self.name(scope, None, &folded(ident)),
            E::CompoundIdentifier(idents) => match idents.as_slice() {
                [.., relation, column] => self.name(scope, Some(&folded(relation)), &folded(column)),
                _ => Err(unsupported("a name of this kind")),
            },
            E::BinaryOp { left, op, right } => self.binary(scope, left, op, right),
            E::UnaryOp { op, expr } => self.unary(scope, *op, expr),
            E::Cast { expr, data_type, .. } => {
                let to = type_named(&data_type.to_string())?;
                let value = self.expr(scope, expr)?;
                Ok(self.cast(value, to))
            }
            E::TypedString(typed) => {
                let to = type_named(&typed.data_type.to_string())?;
                let value = self.literal(&typed.value.value)?;
                Ok(self.cast(value, to))
            }
            E::Case { operand, conditions, else_result, .. } => {
                self.case(scope, operand.as_deref(), conditions, else_result.as_deref())
            }
            E::Function(function) => self.call(scope, function),
            E::Array(array) => {
                let items = self.all(scope, &array.elem)?;
                let ty = items.first().map_or(Type::TEXT, |(_, ty)| *ty);
                let ty = if ty == Type::UNKNOWN { Type::TEXT } else { ty };
                Ok((Ex::Array(items.into_iter().map(|(ex, _)| ex).collect()), ty.array()))
            }
            E::Tuple(items) => {
                let items = self.all(scope, items)?;
                Ok((Ex::Row(items.into_iter().map(|(ex, _)| ex).collect()), Type::RECORD))
            }
            E::Subquery(query) => {
                let query = self.query(query, Some(scope))?;
                let ty = query.columns.first().map_or(Type::UNKNOWN, |column| column.ty);
                Ok((Ex::Scalar(query.into()), ty))
            }
            E::CompoundFieldAccess { root, access_chain } => self.access(scope, root, access_chain),
            _ => self.predicate(scope, expr),
        }
    }

    fn predicate(&mut self, scope: &Scope<'_>, expr: &ast::Expr) -> Result<Typed, SqlError> {
        use ast::Expr as E;
        let bool = |ex: Ex| Ok((ex, Type::BOOL));
        match expr {
            E::IsNull(inner) => bool(Ex::IsNull(self.expr(scope, inner)?.0.into())),
            E::IsNotNull(inner) => bool(not(Ex::IsNull(self.expr(scope, inner)?.0.into()))),
            E::IsTrue(inner) => bool(self.truth(scope, inner, true)?),
            E::IsNotTrue(inner) => bool(not(self.truth(scope, inner, true)?)),
            E::IsFalse(inner) => bool(self.truth(scope, inner, false)?),
            E::IsNotFalse(inner) => bool(not(self.truth(scope, inner, false)?)),
            E::IsDistinctFrom(a, b) => bool(not(self.same(scope, a, b)?)),
            E::IsNotDistinctFrom(a, b) => bool(self.same(scope, a, b)?),
            E::InList { expr, list, negated } => {
                let left = self.expr(scope, expr)?;
                let mut equal = Vec::with_capacity(list.len());
                for item in list {
                    let right = self.expr(scope, item)?;
                    equal.push(self.compared(Op::Equal, left.clone(), right));
                }
                let any = any_of(equal);
                bool(if *negated { not(any) } else { any })
            }
            E::InSubquery { expr, subquery, negated } => {
                let left = self.expr(scope, expr)?.0;
                let query = self.query(subquery, Some(scope))?;
                let any = Ex::OfQuery { op: Op::Equal, left: left.into(), query: query.into(), all: false };
                bool(if *negated { not(any) } else { any })
            }
            E::Between { expr, negated, low, high } => {
                let (value, low, high) =
                    (self.expr(scope, expr)?, self.expr(scope, low)?, self.expr(scope, high)?);
                let low = self.compared(Op::GreaterEqual, value.clone(), low);
                let high = self.compared(Op::LessEqual, value, high);
                let both = Ex::And(low.into(), high.into());
                bool(if *negated { not(both) } else { both })
            }
            E::Like { negated, expr, pattern, .. } => self.like(scope, expr, pattern, (false, *negated)),
            E::ILike { negated, expr, pattern, .. } => self.like(scope, expr, pattern, (true, *negated)),
            E::Exists { subquery, negated } => {
                let exists = Ex::Exists(self.query(subquery, Some(scope))?.into());
                bool(if *negated { not(exists) } else { exists })
            }
            E::AnyOp { left, compare_op, right, .. } => {
                bool(self.quantified(scope, left, compare_op, right, false)?)
            }
            E::AllOp { left, compare_op, right } => {
                bool(self.quantified(scope, left, compare_op, right, true)?)
            }
            _ => self.in_words(scope, expr),
        }
    }

    /// Functions that are written in words.
    fn in_words(&mut self, scope: &Scope<'_>, expr: &ast::Expr) -> Result<Typed, SqlError> {
        use ast::Expr as E;
        match expr {
            E::Substring { expr, substring_from, substring_for, .. } => {
                let mut args = vec![self.expr(scope, expr)?];
                for part in [substring_from, substring_for].into_iter().flatten() {
                    args.push(self.expr(scope, part)?);
                }
                self.function("substring", args)
            }
            E::Trim {
                expr,
                trim_what,
                trim_characters: None,
                trim_where: None | Some(TrimWhereField::Both),
            } => {
                let mut args = vec![self.expr(scope, expr)?];
                if let Some(what) = trim_what {
                    args.push(self.expr(scope, what)?);
                }
                self.function("btrim", args)
            }
            E::Position { expr, r#in } => {
                let args = vec![self.expr(scope, r#in)?, self.expr(scope, expr)?];
                self.function("strpos", args)
            }
            _ => Err(unsupported("an expression of this kind")),
        }
    }

    fn all(&mut self, scope: &Scope<'_>, exprs: &[ast::Expr]) -> Result<Vec<Typed>, SqlError> {
        exprs.iter().map(|expr| self.expr(scope, expr)).collect()
    }

    fn literal(&mut self, value: &ast::Value) -> Result<Typed, SqlError> {
        use ast::Value as V;
        Ok(match value {
            V::Null => (Ex::Const(Value::Null), Type::UNKNOWN),
            V::Boolean(v) => (Ex::Const(Value::Bool(*v)), Type::BOOL),
            V::Number(text, _) => match text.parse::<i64>() {
                Ok(v) if i32::try_from(v).is_ok() => (Ex::Const(Value::Int(v)), Type::INT4),
                Ok(v) => (Ex::Const(Value::Int(v)), Type::INT8),
                Err(_) => (Ex::Const(Value::Float(text.parse().unwrap_or(f64::NAN))), Type::FLOAT8),
            },
            V::Placeholder(text) => {
                let number = text.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
                let at = number.and_then(|number| number.checked_sub(1));
                let at = at.filter(|at| *at < self.params.len()).ok_or_else(|| {
                    SqlError::new(SqlState(*b"42P02"), format!("there is no parameter {text}"))
                })?;
                (Ex::Param(at), self.params[at])
            }
            other => match other.clone().into_string() {
                Some(text) => (Ex::Const(Value::Text(text)), Type::UNKNOWN),
                None => return Err(unsupported("a literal of this kind")),
            },
        })
    }

    /// A column, or a whole row by the name of its relation.
    fn name(&mut self, scope: &Scope<'_>, relation: Option<&str>, name: &str) -> Result<Typed, SqlError> {
        if let Some(found) = scope.find(relation, name)? {
            return Ok(found);
        }
        let constant =
            |text: &str| Ok((Ex::Call { function: functions::named(text), args: Vec::new() }, Type::NAME));
        if relation.is_none() {
            match name {
                "current_user" | "session_user" | "user" | "current_role" => return constant("current_user"),
                "current_catalog" => return constant("current_database"),
                "current_schema" => return constant("current_schema"),
                "current_database" => return constant("current_database"),
                _ => {}
            }
        }
        match relation {
            Some(relation) if !scope.has_relation(relation) => {
                let message = format!("missing FROM-clause entry for table \"{relation}\"");
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, message))
            }
            Some(relation) => {
                let message = format!("column {relation}.{name} does not exist");
                Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
            }
            None => {
                let message = format!("column \"{name}\" does not exist");
                Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
            }
        }
    }

    /// A parameter of which the type is not known has the one that is asked for.
    pub(super) fn decide(&mut self, ex: &Ex, ty: Type, wanted: Type) {
        if let (Ex::Param(at), Type::UNKNOWN) = (ex, ty)
            && self.params[*at] == Type::UNKNOWN
        {
            self.params[*at] = if wanted == Type::UNKNOWN { Type::TEXT } else { wanted };
        }
    }

    /// A comparison; a literal beside the name of an object is looked up.
    fn compared(&mut self, op: Op, left: Typed, right: Typed) -> Ex {
        let (a, b) = (left.1, right.1);
        self.decide(&left.0, a, b);
        self.decide(&right.0, b, a);
        let side = |(ex, ty): Typed, other: Type| match ty {
            Type::UNKNOWN if other.is_name_of_object() || other.element().is_some() => {
                Ex::Cast { value: ex.into(), from: ty, to: other }
            }
            _ => ex,
        };
        let (left, right) = (side(left, b), side(right, a));
        Ex::Binary(op, left.into(), right.into())
    }

    fn binary(
        &mut self,
        scope: &Scope<'_>,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
    ) -> Result<Typed, SqlError> {
        let (a, b) = (self.expr(scope, left)?, self.expr(scope, right)?);
        match op {
            BinaryOperator::And => return Ok((Ex::And(a.0.into(), b.0.into()), Type::BOOL)),
            BinaryOperator::Or => return Ok((Ex::Or(a.0.into(), b.0.into()), Type::BOOL)),
            _ => {}
        }
        let op = operator(op)?;
        let ty = match op {
            Op::Concat if a.1.element().is_some() => a.1,
            Op::Concat if b.1.element().is_some() => b.1,
            Op::Concat => Type::TEXT,
            Op::Add | Op::Subtract | Op::Multiply | Op::Divide | Op::Modulo | Op::BitAnd | Op::BitOr => {
                wider(a.1, b.1)
            }
            _ => Type::BOOL,
        };
        if op == Op::Concat {
            // Names of objects are joined as text.
            let (a, b) = (self.as_text(a), self.as_text(b));
            return Ok((Ex::Binary(op, a.into(), b.into()), ty));
        }
        Ok((self.compared(op, a, b), ty))
    }

    fn as_text(&mut self, value: Typed) -> Ex {
        match value.1 {
            ty if ty.is_name_of_object() => self.cast(value, Type::TEXT).0,
            ty => {
                self.decide(&value.0, ty, Type::TEXT);
                value.0
            }
        }
    }

    fn unary(&mut self, scope: &Scope<'_>, op: UnaryOperator, expr: &ast::Expr) -> Result<Typed, SqlError> {
        let (ex, ty) = self.expr(scope, expr)?;
        Ok(match op {
            UnaryOperator::Not => (not(ex), Type::BOOL),
            UnaryOperator::Plus => (ex, ty),
            UnaryOperator::Minus => {
                (Ex::Binary(Op::Subtract, Ex::Const(Value::Int(0)).into(), ex.into()), ty)
            }
            _ => return Err(unsupported("an operator of this kind")),
        })
    }

    fn cast(&mut self, (value, from): Typed, to: Type) -> Typed {
        self.decide(&value, from, to);
        (Ex::Cast { value: value.into(), from, to }, to)
    }

    fn truth(&mut self, scope: &Scope<'_>, inner: &ast::Expr, of: bool) -> Result<Ex, SqlError> {
        let value = self.expr(scope, inner)?.0;
        Ok(Ex::Same(value.into(), Ex::Const(Value::Bool(of)).into()))
    }

    fn same(&mut self, scope: &Scope<'_>, a: &ast::Expr, b: &ast::Expr) -> Result<Ex, SqlError> {
        Ok(Ex::Same(self.expr(scope, a)?.0.into(), self.expr(scope, b)?.0.into()))
    }

    fn like(
        &mut self,
        scope: &Scope<'_>,
        text: &ast::Expr,
        pattern: &ast::Expr,
        (ignore_case, negated): (bool, bool),
    ) -> Result<Typed, SqlError> {
        let (text, pattern) = (self.expr(scope, text)?, self.expr(scope, pattern)?);
        Ok((self.compared(Op::Like { ignore_case, negated }, text, pattern), Type::BOOL))
    }

    fn quantified(
        &mut self,
        scope: &Scope<'_>,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        all: bool,
    ) -> Result<Ex, SqlError> {
        let op = operator(op)?;
        let (left, ty) = self.expr(scope, left)?;
        let right = match right {
            ast::Expr::Nested(inner) => inner,
            right => right,
        };
        if let ast::Expr::Subquery(query) = right {
            let query = self.query(query, Some(scope))?;
            // The array that a query of one row gives is asked for by a cast or a name.
            return Ok(Ex::OfQuery { op, left: left.into(), query: query.into(), all });
        }
        let (array, of) = self.expr(scope, right)?;
        self.decide(&array, of, ty.array());
        if let Some(element) = of.element() {
            self.decide(&left, ty, element);
        }
        let array = match of {
            Type::UNKNOWN => Ex::Cast { value: array.into(), from: of, to: ty.array() },
            _ => array,
        };
        Ok(Ex::OfArray { op, left: left.into(), array: array.into(), all })
    }

    fn case(
        &mut self,
        scope: &Scope<'_>,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Result<Typed, SqlError> {
        let operand = operand.map(|operand| self.expr(scope, operand)).transpose()?;
        let mut branches = Vec::new();
        let mut ty = Type::UNKNOWN;
        for when in conditions {
            let condition = self.expr(scope, &when.condition)?;
            let condition = match &operand {
                Some(operand) => self.compared(Op::Equal, operand.clone(), condition),
                None => condition.0,
            };
            let then = self.expr(scope, &when.result)?;
            ty = common(ty, then.1);
            branches.push((condition, then));
        }
        let otherwise = otherwise.map(|otherwise| self.expr(scope, otherwise)).transpose()?;
        let otherwise = otherwise.unwrap_or((Ex::Const(Value::Null), Type::UNKNOWN));
        ty = common(ty, otherwise.1);
        let mut fit = |value: Typed| match value.1 == ty || !value.1.is_name_of_object() {
            true => value.0,
            false => self.cast(value, ty).0,
        };
        let branches = branches.into_iter().map(|(when, then)| (when, fit(then))).collect();
        let otherwise = fit(otherwise).into();
        Ok((Ex::Case { branches, otherwise }, ty))
    }

    fn access(
        &mut self,
        scope: &Scope<'_>,
        root: &ast::Expr,
        chain: &[ast::AccessExpr],
    ) -> Result<Typed, SqlError> {
        let mut chain = chain.iter().peekable();
        let mut value = match (root, chain.peek()) {
            // `table.column[1]`
            (ast::Expr::Identifier(table), Some(ast::AccessExpr::Dot(ast::Expr::Identifier(column))))
                if scope.has_relation(&folded(table)) =>
            {
                chain.next();
                self.name(scope, Some(&folded(table)), &folded(column))?
            }
            _ => self.expr(scope, root)?,
        };
        for access in chain {
            value = match access {
                ast::AccessExpr::Dot(ast::Expr::Identifier(ident)) => {
                    let name = folded(ident);
                    let ty = if name == "n" { Type::INT4 } else { Type::INT2 };
                    (Ex::Field(value.0.into(), name), ty)
                }
                ast::AccessExpr::Subscript(ast::Subscript::Index { index }) => {
                    let index = self.expr(scope, index)?.0;
                    // Vectors of the catalogs count from 0.
                    let from_0 = matches!(value.1, Type::INT2_VECTOR | Type::OID_VECTOR);
                    let one = Ex::Const(Value::Int(i64::from(from_0)));
                    let index = Ex::Binary(Op::Add, index.into(), one.into());
                    let ty = value.1.element().unwrap_or(Type::TEXT);
                    (Ex::Element(value.0.into(), index.into()), ty)
                }
                _ => return Err(unsupported("a part of an array")),
            };
        }
        Ok(value)
    }

    fn call(&mut self, scope: &Scope<'_>, call: &ast::Function) -> Result<Typed, SqlError> {
        let name = parts(&call.name).pop().unwrap_or_default();
        let list = match &call.args {
            FunctionArguments::None => return self.function(&name, Vec::new()),
            FunctionArguments::Subquery(query) if name == "array" => {
                let query = self.query(query, Some(scope))?;
                let ty = query.columns.first().map_or(Type::TEXT, |column| column.ty);
                return Ok((Ex::Collected(query.into()), ty.array()));
            }
            FunctionArguments::Subquery(_) => return Err(unsupported("a query as an argument")),
            FunctionArguments::List(list) => list,
        };
        let mut exprs = Vec::new();
        for arg in &list.args {
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => exprs.push(expr.clone()),
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => {}
                _ => return Err(unsupported("an argument of this kind")),
            }
        }
        if let Some(window) = &call.over {
            return self.window(scope, &name, window);
        }
        if AGGREGATES.contains(&name.as_str()) {
            return self.aggregate(scope, call, list, &name, &exprs);
        }
        let args = self.all(scope, &exprs)?;
        if SETS.contains(&name.as_str()) {
            return self.set_function(&name, args);
        }
        if let ("pg_typeof", [(_, ty)]) = (name.as_str(), &args[..]) {
            return Ok((Ex::Const(Value::Int(ty.0.into())), Type::REGTYPE));
        }
        self.function(&name, args)
    }

    /// A function of a set in the output.
    fn set_function(&mut self, name: &str, args: Vec<Typed>) -> Result<Typed, SqlError> {
        let of = args.first().map_or(Type::TEXT, |(_, ty)| *ty);
        let (ex, ty) = self.function(name, args)?;
        let ty = if name == "unnest" { of.element().unwrap_or(Type::TEXT) } else { ty };
        let Some(computed) = &mut self.computed else { return Err(unsupported("a set in this place")) };
        computed.sets.push(ex);
        Ok((Ex::Set(computed.sets.len() - 1), ty))
    }

    fn function(&mut self, name: &str, args: Vec<Typed>) -> Result<Typed, SqlError> {
        let types: Vec<Type> = args.iter().map(|(_, ty)| *ty).collect();
        let (function, ty) = functions::find(name, &types).ok_or_else(|| functions::missing(name))?;
        let mut values = Vec::with_capacity(args.len());
        let first = types.iter().copied().find(|ty| *ty != Type::UNKNOWN).unwrap_or(Type::TEXT);
        for (value, from) in args {
            self.decide(&value, from, if ty == Type::UNKNOWN { first } else { Type::TEXT });
            // Functions that take text take the names of objects as text.
            values.push(match from.is_name_of_object() && functions::takes_text(name) {
                true => self.cast((value, from), Type::TEXT).0,
                false => value,
            });
        }
        Ok((Ex::Call { function, args: values }, ty))
    }

    fn aggregate(
        &mut self,
        scope: &Scope<'_>,
        call: &ast::Function,
        list: &ast::FunctionArgumentList,
        name: &str,
        exprs: &[ast::Expr],
    ) -> Result<Typed, SqlError> {
        let Some(mut computed) = self.computed.take() else {
            let message = "aggregate functions are not allowed here";
            return Err(SqlError::new(SqlState::GROUPING_ERROR, message));
        };
        let args = self.all(scope, exprs)?;
        let filter = call.filter.as_ref().map(|filter| self.expr(scope, filter)).transpose()?;
        let mut order = Vec::new();
        for clause in &list.clauses {
            let FunctionArgumentClause::OrderBy(keys) = clause else {
                return Err(unsupported("an aggregate of this kind"));
            };
            for key in keys {
                order.push((self.expr(scope, &key.expr)?.0, super::descends(&key.options)));
            }
        }
        let of = args.first().map_or(Type::INT8, |(_, ty)| *ty);
        let of = if of == Type::UNKNOWN { Type::TEXT } else { of };
        let ty = match name {
            "count" | "sum" => Type::INT8,
            "array_agg" => of.array(),
            "string_agg" => Type::TEXT,
            "bool_and" | "bool_or" | "every" => Type::BOOL,
            "json_agg" => Type(114),
            _ => of,
        };
        computed.aggregates.push(Aggregate {
            name: name.to_owned(),
            args: args.into_iter().map(|(ex, _)| ex).collect(),
            distinct: list.duplicate_treatment == Some(DuplicateTreatment::Distinct),
            filter: filter.map(|(ex, _)| ex),
            order,
        });
        let at = computed.aggregates.len() - 1;
        self.computed = Some(computed);
        Ok((Ex::Aggregate(at), ty))
    }

    fn window(&mut self, scope: &Scope<'_>, name: &str, window: &WindowType) -> Result<Typed, SqlError> {
        let WindowType::WindowSpec(spec) = window else { return Err(unsupported("a named window")) };
        if !matches!(name, "row_number" | "rank" | "count") {
            return Err(unsupported("this window function"));
        }
        let partition = self.all(scope, &spec.partition_by)?.into_iter().map(|(ex, _)| ex).collect();
        let mut order = Vec::new();
        for key in &spec.order_by {
            order.push((self.expr(scope, &key.expr)?.0, super::descends(&key.options)));
        }
        let Some(computed) = &mut self.computed else { return Err(unsupported("a window in this place")) };
        computed.windows.push(Window { name: name.to_owned(), partition, order });
        Ok((Ex::Window(computed.windows.len() - 1), Type::INT8))
    }
}

/// A balanced tree: one that is as deep as the list is long could take more stack than there is.
fn any_of(mut all: Vec<Ex>) -> Ex {
    while all.len() > 1 {
        let mut others = all.split_off(all.len().div_ceil(2)).into_iter();
        let pair = |one: Ex| match others.next() {
            Some(other) => Ex::Or(one.into(), other.into()),
            None => one,
        };
        all = all.into_iter().map(pair).collect();
    }
    all.pop().unwrap_or(Ex::Const(Value::Bool(false)))
}

fn not(ex: Ex) -> Ex {
    Ex::Not(ex.into())
}

/// The operator, also in the form `OPERATOR(pg_catalog.~)`.
fn operator(op: &BinaryOperator) -> Result<Op, SqlError> {
    let matches = |ignore_case, negated| Op::Matches { ignore_case, negated };
    let like = |ignore_case, negated| Op::Like { ignore_case, negated };
    let text = match op {
        BinaryOperator::PGCustomBinaryOperator(parts) => parts.last().cloned().unwrap_or_default(),
        other => other.to_string(),
    };
    Ok(match text.as_str() {
        "=" => Op::Equal,
        "<>" | "!=" => Op::NotEqual,
        "<" => Op::Less,
        "<=" => Op::LessEqual,
        ">" => Op::Greater,
        ">=" => Op::GreaterEqual,
        "+" => Op::Add,
        "-" => Op::Subtract,
        "*" => Op::Multiply,
        "/" => Op::Divide,
        "%" => Op::Modulo,
        "&" => Op::BitAnd,
        "|" => Op::BitOr,
        "||" => Op::Concat,
        "~" => matches(false, false),
        "~*" => matches(true, false),
        "!~" => matches(false, true),
        "!~*" => matches(true, true),
        "~~" => like(false, false),
        "~~*" => like(true, false),
        "!~~" => like(false, true),
        "!~~*" => like(true, true),
        "@>" => Op::Contains,
        "&&" => Op::Overlaps,
        other => return Err(unsupported(&format!("the operator {other}"))),
    })
}
