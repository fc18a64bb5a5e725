//! Functions that build JSON documents. A document is a text put together from the documents of its
//! parts: `json_build_object('a', 1)` is `'{' || '"a"' || ' : ' || '1' || '}'`. A `jsonb` is that
//! text, cast.

use super::{Compiler, aggregates};
use crate::Stop;
use crate::coerce::{How, Typed};
use crate::error::no_function;
use crate::names::{Scope, folded};
use crate::tree::OrderBy;
use sql::SqlType::{Json, Jsonb, Text, Unknown};
use sql::expression::{Aggregate, BinaryOp, Function};
use sql::json::Kind;
use sql::{Datum, Expr, SqlError, SqlState, SqlType};
use sqlparser::ast;

/// A function of this module.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Builds {
    Value,
    Row,
    Object,
    Array,
    /// Of many rows.
    ArrayOfRows,
    ObjectOfRows,
}

const NAMES: [(&str, Builds, SqlType); 11] = [
    ("to_json", Builds::Value, Json),
    ("to_jsonb", Builds::Value, Jsonb),
    ("row_to_json", Builds::Row, Json),
    ("json_build_object", Builds::Object, Json),
    ("jsonb_build_object", Builds::Object, Jsonb),
    ("json_build_array", Builds::Array, Json),
    ("jsonb_build_array", Builds::Array, Jsonb),
    ("json_agg", Builds::ArrayOfRows, Json),
    ("jsonb_agg", Builds::ArrayOfRows, Jsonb),
    ("json_object_agg", Builds::ObjectOfRows, Json),
    ("jsonb_object_agg", Builds::ObjectOfRows, Jsonb),
];

/// The rest of an aggregate's call.
pub struct Of<'a> {
    pub is_distinct: bool,
    pub order: Vec<OrderBy>,
    pub filter: Option<&'a ast::Expr>,
}

/// A value in a document.
struct Part {
    /// A text; null for a null.
    text: Expr,
    is_row: bool,
}

/// Whether a function of this name builds a document.
pub fn has(name: &str) -> bool {
    NAMES.iter().any(|known| known.0 == name)
}

/// A call of a function that builds a document.
pub fn call(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    name: &str,
    args: &[&ast::Expr],
    of: Of<'_>,
) -> Result<Typed, Stop> {
    let wrong = || no_function(name, &vec![Unknown; args.len()]);
    let &(_, builds, ty) = NAMES.iter().find(|known| known.0 == name).ok_or_else(wrong)?;
    let text = match (builds, args) {
        (Builds::Value, [arg]) => part(compiler, scope, arg)?.text,
        (Builds::Row, [arg]) => match part(compiler, scope, arg)? {
            Part { text, is_row: true } => text,
            Part { .. } => return Err(no_function(name, &[compiler.expr(scope, arg)?.ty]).into()),
        },
        (Builds::Object, pairs) => object(compiler, scope, (name, ty), pairs)?,
        (Builds::Array, items) => array(compiler, scope, items)?,
        (Builds::ArrayOfRows, [_]) | (Builds::ObjectOfRows, [_, _]) => {
            aggregate(compiler, scope, (name, builds), args, of)?
        }
        _ => {
            let types = args.iter().map(|arg| compiler.expr(scope, arg).map(|value| value.ty));
            return Err(no_function(name, &types.collect::<Result<Vec<_>, _>>()?).into());
        }
    };
    let expr = match ty {
        Jsonb => Expr::Cast { expr: text.into(), from: Text, to: Jsonb, explicit: true },
        _ => text,
    };
    Ok(Typed::new(expr, ty))
}

fn constant(text: impl Into<String>) -> Expr {
    Expr::Const(Datum::Text(text.into()))
}

fn joined(parts: Vec<Expr>) -> Expr {
    Expr::Call { function: Function::Concat, args: parts, ty: Text }
}

fn or_null(text: Expr) -> Expr {
    Expr::Call { function: Function::Coalesce, args: vec![text, constant("null")], ty: Text }
}

/// The document of an argument: a value, or a row if it names a relation of the scope.
fn part(compiler: &mut Compiler<'_>, scope: &Scope, arg: &ast::Expr) -> Result<Part, Stop> {
    if let ast::Expr::Identifier(ident) = arg
        && !scope.has_column(&folded(ident))
        && let Ok(relation) = scope.relation(&folded(ident))
    {
        let names: Vec<String> = relation.columns.iter().map(|column| column.name.clone()).collect();
        return row(compiler, scope, ident, &names);
    }
    let value = compiler.expr(scope, arg)?;
    let Typed { expr, ty } = compiler.params.settle(value)?;
    Ok(Part { text: document(compiler, Typed::new(expr, ty))?, is_row: false })
}

fn document(compiler: &mut Compiler<'_>, value: Typed) -> Result<Expr, Stop> {
    let kind = Kind::name_of(value.ty);
    let text = compiler.params.coerce(value, Text, How::Explicit)?;
    Ok(Expr::Call { function: Function::ToJson, args: vec![text, constant(kind)], ty: Text })
}

/// `{"column":value,...}`. A row of nulls alone is null: an outer join has found none.
fn row(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    relation: &ast::Ident,
    names: &[String],
) -> Result<Part, Stop> {
    let (mut parts, mut nulls) = (vec![constant("{")], Vec::new());
    for (at, name) in names.iter().enumerate() {
        let column = ast::Ident::with_quote('"', name.as_str());
        let column = compiler.expr(scope, &ast::Expr::CompoundIdentifier(vec![relation.clone(), column]))?;
        nulls.push(Expr::IsNull(column.expr.clone().into()));
        let before = if at == 0 { "" } else { "," };
        parts.push(constant(format!("{before}{}:", sql::json::quoted(name)?)));
        parts.push(or_null(document(compiler, column)?));
    }
    parts.push(constant("}"));
    let branches = vec![(Expr::And(nulls), Expr::Const(Datum::Null))];
    Ok(Part { text: Expr::Case { branches, otherwise: joined(parts).into() }, is_row: true })
}

/// A name of an object; `message` is the error for a null.
fn key(compiler: &mut Compiler<'_>, scope: &Scope, arg: &ast::Expr, message: String) -> Result<Expr, Stop> {
    let value = compiler.expr(scope, arg)?;
    let text = compiler.params.coerce(value, Text, How::Explicit)?;
    Ok(Expr::Call { function: Function::JsonKey, args: vec![text, constant(message)], ty: Text })
}

fn object(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    (name, ty): (&str, SqlType),
    args: &[&ast::Expr],
) -> Result<Expr, Stop> {
    if !args.len().is_multiple_of(2) {
        let message = "argument list must have even number of elements";
        let hint = format!("The arguments of {name}() must consist of alternating keys and values.");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER, message).with_hint(&hint).into());
    }
    let mut parts = vec![constant("{")];
    for (at, pair) in args.chunks_exact(2).enumerate() {
        let number = 2 * at + 1;
        let message = match ty {
            Jsonb => format!("argument {number}: key must not be null"),
            _ => format!("argument {number} cannot be null"),
        };
        if at > 0 {
            parts.push(constant(", "));
        }
        parts.push(key(compiler, scope, pair[0], message)?);
        parts.push(constant(" : "));
        parts.push(or_null(part(compiler, scope, pair[1])?.text));
    }
    parts.push(constant("}"));
    Ok(joined(parts))
}

fn array(compiler: &mut Compiler<'_>, scope: &Scope, args: &[&ast::Expr]) -> Result<Expr, Stop> {
    let mut parts = vec![constant("[")];
    for (at, arg) in args.iter().enumerate() {
        if at > 0 {
            parts.push(constant(", "));
        }
        parts.push(or_null(part(compiler, scope, arg)?.text));
    }
    parts.push(constant("]"));
    Ok(joined(parts))
}

/// The documents of rows, joined by `string_agg`; null if there are none.
fn aggregate(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    (name, builds): (&str, Builds),
    args: &[&ast::Expr],
    Of { is_distinct, order, filter }: Of<'_>,
) -> Result<Expr, Stop> {
    if is_distinct {
        return Err(Stop::General("DISTINCT in an aggregate of JSON"));
    }
    let (open, close) = if builds == Builds::ArrayOfRows { ("[", "]") } else { ("{ ", " }") };
    let bind = |compiler: &mut Compiler<'_>| {
        let (each, separator) = match args {
            [key_arg, value] => {
                let message = "field name must not be null".to_owned();
                let key = key(compiler, scope, key_arg, message)?;
                let value = or_null(part(compiler, scope, value)?.text);
                (joined(vec![key, constant(" : "), value]), ", ")
            }
            _ => {
                let Part { text, is_row } = part(compiler, scope, args[0])?;
                (or_null(text), if is_row { ", \n " } else { ", " })
            }
        };
        Ok(vec![Typed::new(each, Text), Typed::new(constant(separator), Text)])
    };
    let found = (Aggregate::StringAgg, name);
    let all = aggregates::of_bound(compiler, scope, found, &bind, (false, order), filter)?;
    let concat = |left: Expr, right: Expr| Expr::Binary {
        op: BinaryOp::Concat,
        left: left.into(),
        right: right.into(),
        ty: Text,
    };
    Ok(concat(concat(constant(open), all.expr), constant(close)))
}
