//! Functions that give rows: in `FROM`, and as items of a select, which are relations too.
//!
//! ```text
//!   SELECT id, unnest(tags) FROM t
//!   SELECT id, "*rows*".c1 FROM t, LATERAL unnest(tags) "*rows*" (c1)
//! ```

use super::Source;
use crate::Stop;
use crate::coerce::{How, Typed};
use crate::error::no_function;
use crate::expressions::{Compiler, all_matches, documents, functions};
use crate::names::{Scope, parts};
use sql::{Datum, Element, Expr, SqlType};
use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, SelectItem};

/// The relation of the functions that are items.
pub const ITEMS: &str = "*rows*";

impl Compiler<'_> {
    /// The rows of a function, and the types of their columns. No row is around the arguments but
    /// those further out.
    pub fn rows_of(&mut self, name: &str, args: &[&ast::Expr]) -> Result<(Source, Vec<SqlType>), Stop> {
        if !functions::gives_rows(name) {
            return Err(Stop::General("a function in FROM"));
        }
        let scope = Scope::default();
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.expr(&scope, arg)?);
        }
        let one = |array: Expr, ty: SqlType| Ok((Source::Elements(vec![(array, ty)]), vec![ty]));
        match name {
            "generate_series" => series(self, values),
            "generate_subscripts" => {
                let length = functions::with_args(self, "array_upper", values)?;
                let one = Typed::new(Expr::Const(Datum::Int(1)), SqlType::Int4);
                series(self, vec![one, length])
            }
            "regexp_matches" => one(all_matches(self, &values)?, SqlType::Array(Element::Text)),
            "regexp_split_to_table" => {
                one(functions::with_args(self, "regexp_split_to_array", values)?.expr, SqlType::Text)
            }
            "string_to_table" => {
                one(functions::with_args(self, "string_to_array", values)?.expr, SqlType::Text)
            }
            name if sql::json::parts::gives_parts(name) => {
                let arrays = documents::parts(self, name, &values)?;
                let types = arrays.iter().map(|(_, ty)| *ty).collect();
                Ok((Source::Elements(arrays), types))
            }
            _ => elements(values),
        }
    }
}

/// `unnest`.
fn elements(values: Vec<Typed>) -> Result<(Source, Vec<SqlType>), Stop> {
    let given: Vec<SqlType> = values.iter().map(|value| value.ty).collect();
    let mut arrays = Vec::with_capacity(values.len());
    for value in values {
        let SqlType::Array(element) = value.ty else { return Err(no_function("unnest", &given).into()) };
        arrays.push((value.expr, element.ty()));
    }
    if arrays.is_empty() {
        return Err(no_function("unnest", &given).into());
    }
    let types = arrays.iter().map(|(_, ty)| *ty).collect();
    Ok((Source::Elements(arrays), types))
}

/// `generate_series`.
fn series(compiler: &mut Compiler<'_>, mut values: Vec<Typed>) -> Result<(Source, Vec<SqlType>), Stop> {
    if !(2..=3).contains(&values.len()) {
        let types: Vec<SqlType> = values.iter().map(|value| value.ty).collect();
        return Err(no_function("generate_series", &types).into());
    }
    let ty = values[..2].iter().map(|value| value.ty).try_fold(SqlType::Unknown, crate::types::common);
    let ty = ty.map(crate::types::without_length);
    let (ty, step_ty) = match ty {
        Some(SqlType::Unknown | SqlType::Int2 | SqlType::Int4) => {
            let is_long = values.iter().any(|value| value.ty == SqlType::Int8);
            let ty = if is_long { SqlType::Int8 } else { SqlType::Int4 };
            (ty, ty)
        }
        Some(ty @ (SqlType::Int8 | SqlType::Numeric(_))) => (ty, ty),
        Some(SqlType::Date | SqlType::Timestamp) => (SqlType::Timestamp, SqlType::Interval),
        Some(SqlType::TimestampTz) => (SqlType::TimestampTz, SqlType::Interval),
        _ => return Err(Stop::General("a series of this type")),
    };
    if values.len() == 2 {
        if step_ty == SqlType::Interval {
            return Err(Stop::General("a series of times without a step"));
        }
        values.push(Typed::new(Expr::Const(Datum::Int(1)), SqlType::Int4));
    }
    let mut args = Vec::with_capacity(3);
    for (value, at) in values.into_iter().zip(0..) {
        let to = if at == 2 { step_ty } else { ty };
        args.push(compiler.params.coerce(value, to, How::Implicit)?);
    }
    Ok((Source::Series { args, ty }, vec![ty]))
}

/// The call of a function that gives rows, if an item is one.
fn call_of(item: &SelectItem) -> Option<(&ast::Function, Option<&Ident>)> {
    let (expr, alias) = match item {
        SelectItem::UnnamedExpr(expr) => (expr, None),
        SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
        _ => return None,
    };
    match expr {
        ast::Expr::Function(call) if call.over.is_none() && functions::gives_rows(&name_of(call)) => {
            Some((call, alias))
        }
        _ => None,
    }
}

fn name_of(call: &ast::Function) -> String {
    parts(&call.name).pop().unwrap_or_default()
}

/// The select with its items that give rows as a relation; `None` if it has none.
///
/// # Errors
/// `General` for several of them that are not all arrays.
pub fn items_as_relation(select: &ast::Select) -> Result<Option<ast::Select>, Stop> {
    let count = select.projection.iter().filter(|item| call_of(item).is_some()).count();
    if count == 0 {
        return Ok(None);
    }
    let mut select = select.clone();
    let (mut args, mut name) = (Vec::new(), "unnest".to_owned());
    for item in &mut select.projection {
        let Some((call, alias)) = call_of(item) else { continue };
        let FunctionArguments::List(list) = &call.args else {
            return Err(Stop::General("a function without arguments that gives rows"));
        };
        let of = name_of(call);
        if of.contains("_each") {
            return Err(Stop::General("a function that gives rows of several columns, as an item"));
        }
        let alias = alias.cloned().unwrap_or_else(|| Ident::with_quote('"', &of));
        if count == 1 {
            (args, name) = (list.args.clone(), of);
        } else {
            args.push(array_of(call, &of, list)?);
        }
        let number = if count == 1 { 1 } else { args.len() };
        let column = vec![Ident::with_quote('"', ITEMS), Ident::with_quote('"', format!("c{number}"))];
        *item = SelectItem::ExprWithAlias { expr: ast::Expr::CompoundIdentifier(column), alias };
    }
    let column = |number: usize| ast::TableAliasColumnDef {
        name: Ident::with_quote('"', format!("c{number}")),
        data_type: None,
    };
    let alias = ast::TableAlias {
        explicit: true,
        name: Ident::with_quote('"', ITEMS),
        columns: (1..=count).map(column).collect(),
        at: None,
    };
    let relation = ast::TableFactor::Function {
        lateral: true,
        name: ObjectName::from(vec![Ident::new(name)]),
        args,
        with_ordinality: false,
        alias: Some(alias),
    };
    select.from.push(ast::TableWithJoins { relation, joins: Vec::new() });
    Ok(Some(select))
}

/// One of several functions as the array of which the elements are its rows.
fn array_of(call: &ast::Function, name: &str, list: &ast::FunctionArgumentList) -> Result<FunctionArg, Stop> {
    let array = match (name, list.args.as_slice()) {
        ("unnest", [one]) => return Ok(one.clone()),
        ("regexp_split_to_table", _) => "regexp_split_to_array",
        ("string_to_table", _) => "string_to_array",
        _ => return Err(Stop::General("several functions that give rows, among the items of one select")),
    };
    let mut call = call.clone();
    call.name = ObjectName::from(vec![Ident::new(array)]);
    Ok(FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::Function(call))))
}
