//! Queries: `WITH`, set operations, `VALUES`, order and limits.

use super::reference::{Bound, Reachable};
use super::{Body, Key, Query, Set, SetOp, select};
use crate::Stop;
use crate::coerce::{How, Typed};
use crate::compiled::Field;
use crate::error::syntax;
use crate::expressions::Compiler;
use crate::items::position;
use crate::names::folded;
use crate::select::limits;
use crate::types;
use sql::{Datum, Expr, SqlError, SqlState, SqlType};
use sqlparser::ast::{self, OrderByKind, SetExpr, SetOperator, SetQuantifier};

impl Compiler<'_> {
    /// # Errors
    /// Those of analysis; `General` for what trees lack.
    pub fn tree_query(&mut self, ast: &ast::Query) -> Result<Bound, Stop> {
        self.deeper(|compiler| {
            let known = compiler.tree.as_ref().map_or(0, |tree| tree.in_reach.len());
            let bound = compiler.query_with(ast);
            if let Some(tree) = &mut compiler.tree {
                tree.in_reach.truncate(known);
            }
            bound
        })
    }

    fn query_with(&mut self, ast: &ast::Query) -> Result<Bound, Stop> {
        let targets = std::mem::take(&mut self.targets);
        if !ast.locks.is_empty() {
            return Err(Stop::General("FOR UPDATE with joins, groups or sub-queries"));
        }
        if ast.for_clause.is_some() || !ast.pipe_operators.is_empty() || ast.settings.is_some() {
            return Err(Stop::General("a query of this kind"));
        }
        for table in ast.with.iter().flat_map(|with| &with.cte_tables) {
            let recursive = ast.with.as_ref().is_some_and(|with| with.recursive);
            self.with_table(table, recursive)?;
        }
        let mut bound = match ast.body.as_ref() {
            SetExpr::Select(select) => {
                self.targets = targets;
                self.selected(ast.order_by.as_ref(), select)?
            }
            body => {
                let mut bound = self.body(body)?;
                if ast.order_by.is_some() && !bound.query.order.is_empty()
                    || bound.query.limit.is_some()
                    || bound.query.offset.is_some()
                {
                    bound.query = nested(bound.query);
                }
                if let Some(order) = &ast.order_by {
                    bound.query.order = self.order_of_columns(order, &bound.fields)?;
                }
                bound
            }
        };
        let (limit, offset) = limits(self, ast)?;
        if limit.is_some() || offset.is_some() {
            (bound.query.limit, bound.query.offset) = (limit, offset);
        }
        Ok(bound)
    }

    /// A select, of which the aggregates and windows are its own.
    fn selected(&mut self, order: Option<&ast::OrderBy>, select: &ast::Select) -> Result<Bound, Stop> {
        self.apart(|compiler| select::select(compiler, order, select))
    }

    /// Rows without an order.
    fn body(&mut self, body: &SetExpr) -> Result<Bound, Stop> {
        match body {
            SetExpr::Select(select) => self.selected(None, select),
            SetExpr::Query(inner) => self.tree_query(inner),
            SetExpr::Values(values) => {
                let (rows, types) = crate::sources::rows_of_values(self, values)?;
                let field = |(at, ty): (usize, &SqlType)| Field {
                    name: format!("column{}", at + 1),
                    ty: *ty,
                    column: None,
                };
                let fields: Vec<Field> = types.iter().enumerate().map(field).collect();
                Ok(Bound { query: query_of(Body::Values(rows), fields.len()), fields })
            }
            SetExpr::SetOperation { op, set_quantifier, left, right } => {
                let op = match op {
                    SetOperator::Union => SetOp::Union,
                    SetOperator::Intersect => SetOp::Intersect,
                    SetOperator::Except | SetOperator::Minus => SetOp::Except,
                };
                let all = match set_quantifier {
                    SetQuantifier::All => true,
                    SetQuantifier::None | SetQuantifier::Distinct => false,
                    _ => return Err(Stop::General("a set operation by name")),
                };
                let (left, right) = self.deeper(|c| Ok((c.body(left)?, c.body(right)?)))?;
                self.set(op, all, left, right)
            }
            SetExpr::Table(table) => {
                let name = table.table_name.as_deref().unwrap_or_default();
                Err(syntax(format!("use SELECT * FROM {name}")).into())
            }
            _ => Err(Stop::General("a statement that writes, inside of a query")),
        }
    }

    fn set(&mut self, op: SetOp, all: bool, left: Bound, right: Bound) -> Result<Bound, Stop> {
        let word = match op {
            SetOp::Union => "UNION",
            SetOp::Intersect => "INTERSECT",
            SetOp::Except => "EXCEPT",
        };
        if left.fields.len() != right.fields.len() {
            let message = format!("each {word} query must have the same number of columns");
            return Err(syntax(message).into());
        }
        let (mut left_row, mut right_row, mut fields) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (a, b)) in left.fields.iter().zip(&right.fields).enumerate() {
            let a = column(&left.query, at, a);
            let b = column(&right.query, at, b);
            let ty = types::common(a.ty, b.ty).ok_or_else(|| {
                let (a, b) = (types::name_of(a.ty), types::name_of(b.ty));
                crate::error::mismatch(format!("{word} types {a} and {b} cannot be matched"))
            })?;
            let ty = if ty == SqlType::Unknown { SqlType::Text } else { ty };
            left_row.push(self.params.coerce(a, ty, How::Implicit)?);
            right_row.push(self.params.coerce(b, ty, How::Implicit)?);
            fields.push(Field { name: left.fields[at].name.clone(), ty, column: None });
        }
        let set = Set { op, all, left: left.query, right: right.query, left_row, right_row };
        Ok(Bound { query: query_of(Body::Set(Box::new(set)), fields.len()), fields })
    }

    /// `ORDER BY` of rows that are no select's: names and positions of their columns.
    fn order_of_columns(&mut self, order: &ast::OrderBy, fields: &[Field]) -> Result<Vec<Key>, Stop> {
        let OrderByKind::Expressions(exprs) = &order.kind else { return Err(Stop::General("ORDER BY ALL")) };
        let mut keys = Vec::with_capacity(exprs.len());
        for by in exprs {
            let named = match &by.expr {
                ast::Expr::Identifier(ident) => {
                    let name = folded(ident);
                    let at = fields.iter().position(|field| field.name == name);
                    Some(at.ok_or_else(|| crate::error::no_column(&name))?)
                }
                _ => None,
            };
            let at = match (named, position(&by.expr, fields.len(), "ORDER BY")?) {
                (Some(at), _) | (None, Some(at)) => at,
                (None, None) => {
                    let message = "invalid UNION/INTERSECT/EXCEPT ORDER BY clause";
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                        .with_detail("Only result column names can be used, not expressions or functions.")
                        .into());
                }
            };
            let (descending, nulls_first) = crate::items::direction(fields[at].ty, &by.options)?;
            keys.push(Key { column: at, descending, nulls_first });
        }
        Ok(keys)
    }

    pub(super) fn with_table(&mut self, table: &ast::Cte, recursive: bool) -> Result<(), Stop> {
        let name = folded(&table.alias.name);
        if let (true, SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, left, right }) =
            (recursive, table.query.body.as_ref())
        {
            let all = *set_quantifier == SetQuantifier::All;
            return self.recursive(table, name, (left, right, all));
        }
        let bound = self.alone(|compiler| compiler.tree_query(&table.query))?;
        self.reach(table, name, bound, false)
    }

    /// From here on the name means the rows that a part of the statement has given.
    pub(super) fn given_table(
        &mut self,
        table: &ast::Cte,
        fields: &[Field],
        part: usize,
    ) -> Result<(), Stop> {
        let query = query_of(Body::Values(Vec::new()), fields.len());
        self.reach(table, folded(&table.alias.name), Bound { query, fields: fields.to_vec() }, false)?;
        let with = self.tree.as_mut().and_then(|tree| tree.withs.last_mut());
        with.into_iter().for_each(|with| with.given = Some(part));
        Ok(())
    }

    fn recursive(
        &mut self,
        table: &ast::Cte,
        name: String,
        (first, step, all): (&SetExpr, &SetExpr, bool),
    ) -> Result<(), Stop> {
        if !crate::sources::is_plain(&table.query) {
            return Err(Stop::General("ORDER BY, LIMIT or WITH in a recursive query"));
        }
        let bound = self.alone(|compiler| compiler.body(first))?;
        let fields = bound.fields.clone();
        let types: Vec<SqlType> = fields.iter().map(|field| field.ty).collect();
        self.reach(table, name, bound, true)?;
        let step = self.alone(|compiler| compiler.body(step))?;
        let Some(tree) = &mut self.tree else { return Err(Stop::General("WITH")) };
        let Some(reachable) = tree.in_reach.last_mut() else { return Err(Stop::General("WITH")) };
        let number = reachable.number;
        reachable.is_working = false;
        if !tree.read_again.contains(&number) {
            // It is not recursive.
            let first = Bound { query: tree.withs[number].query.clone(), fields };
            let bound = self.set(SetOp::Union, all, first, step)?;
            if let Some(tree) = &mut self.tree {
                tree.withs[number].query = bound.query;
                let types = bound.fields.iter().map(|field| field.ty);
                let columns = tree.in_reach.last_mut().into_iter().flat_map(|with| &mut with.columns);
                columns.zip(types).for_each(|(column, ty)| column.1 = ty);
            }
            return Ok(());
        }
        if step.fields.len() != types.len() {
            return Err(syntax("each UNION query must have the same number of columns").into());
        }
        let mut row = Vec::with_capacity(types.len());
        for (at, (field, ty)) in step.fields.iter().zip(&types).enumerate() {
            let value = column(&step.query, at, field);
            if types::common(*ty, value.ty) != Some(*ty) {
                let message = format!(
                    "recursive query column {} has type {} in non-recursive term but type {} overall",
                    at + 1,
                    types::name_of(*ty),
                    types::name_of(value.ty)
                );
                return Err(crate::error::mismatch(message)
                    .with_hint("Cast the output of the non-recursive term to the correct type.")
                    .into());
            }
            row.push(self.params.coerce(value, *ty, How::Implicit)?);
        }
        let step = mapped(step.query, row);
        if let Some(tree) = &mut self.tree {
            tree.withs[number].step = Some((step, all));
        }
        Ok(())
    }

    /// From here on the name means the rows of the query.
    fn reach(&mut self, table: &ast::Cte, name: String, bound: Bound, is_working: bool) -> Result<(), Stop> {
        let Some(tree) = &mut self.tree else { return Err(Stop::General("WITH")) };
        let mut columns: Vec<(String, SqlType)> =
            bound.fields.iter().map(|field| (field.name.clone(), field.ty)).collect();
        if table.alias.columns.len() > columns.len() {
            let (has, given) = (columns.len(), table.alias.columns.len());
            let message =
                format!("WITH query \"{name}\" has {has} columns available but {given} columns specified");
            return Err(SqlError::new(crate::error::INVALID_COLUMN_REFERENCE, message).into());
        }
        for (column, alias) in columns.iter_mut().zip(&table.alias.columns) {
            column.0 = folded(&alias.name);
        }
        let number = tree.with(name.clone(), bound.query);
        tree.in_reach.push(Reachable { name, number, columns, is_working });
        Ok(())
    }
}

fn query_of(body: Body, width: usize) -> Query {
    Query { body, order: Vec::new(), limit: None, offset: None, width }
}

/// The query as the rows of another one.
fn nested(query: Query) -> Query {
    let row = (0..query.width as u16).map(Expr::Column).collect();
    mapped(query, row)
}

/// The rows of a query with other values in their columns.
fn mapped(query: Query, row: Vec<Expr>) -> Query {
    let width = query.width;
    query_of(Body::Mapped(Box::new(query), row), width)
}

/// A column of a query; a literal keeps its unknown type.
pub fn column(query: &Query, at: usize, field: &Field) -> Typed {
    let item = match &query.body {
        Body::Select(select) => select.items.get(at),
        Body::Values(rows) if rows.len() == 1 => rows[0].get(at),
        _ => None,
    };
    match item {
        Some(Expr::Const(datum @ (Datum::Null | Datum::Text(_)))) if field.ty == SqlType::Text => {
            Typed::new(Expr::Const(datum.clone()), SqlType::Unknown)
        }
        _ => Typed::new(Expr::Column(at as u16), field.ty),
    }
}
