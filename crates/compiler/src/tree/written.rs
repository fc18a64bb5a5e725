//! Statements that write what a tree finds: the tree gives a row for each change, and a statement
//! that is compiled once makes the change.
//!
//! ```text
//!   DELETE FROM t WHERE id IN (SELECT ...)
//!     tree:  SELECT t.id FROM t WHERE id IN (SELECT ...)
//!     each:  DELETE FROM t WHERE id = $1
//! ```
//!
//! The parameters of `each` are those of the client, then the row.

use super::before::Before;
use super::returning::{quoted, returning};
use super::{Body, Query, Tree, refused};
use crate::Stop;
use crate::coerce::Params;
use crate::compiled;
use crate::error::syntax;
use crate::expressions::Compiler;
use crate::insert::{assigned, columns, is_default};
use crate::names::folded;
use crate::parse::Parsed;
use sql::catalog::{Catalog, Table};
use sql::{SqlError, SqlType};
use sqlparser::ast::{self, Statement, TableFactor};

/// A statement that writes.
#[derive(Clone, PartialEq, Debug)]
pub struct Written {
    pub tree: Tree,
    pub each: compiled::Query,
}

/// # Errors
/// PostgreSQL's errors of analysis; `0A000` for what trees lack.
pub fn written(catalog: &Catalog, parsed: &Parsed, given: &[Option<SqlType>]) -> Result<Written, SqlError> {
    let statement = parsed.tree().ok_or_else(|| refused("a statement of this kind"))?;
    let part = || part(catalog, statement, (parsed.params(), given), &Before::default());
    crate::on_its_stack(catalog, parsed, part)
}

/// A statement that writes, behind `WITH`. `params` are the number of the client's parameters and
/// the types that are known.
///
/// # Errors
/// As [`written`].
pub fn part(
    catalog: &Catalog,
    statement: &Statement,
    params: (usize, &[Option<SqlType>]),
    before: &Before<'_>,
) -> Result<Written, SqlError> {
    let made = match statement {
        Statement::Insert(insert) => of_insert(catalog, insert, params, before),
        Statement::Update(update) => of_update(catalog, update, params.0, before),
        Statement::Delete(delete) => of_delete(catalog, delete, params.0, before),
        _ => Err(Stop::General("a statement of this kind with joins or sub-queries")),
    };
    let made = made.map_err(told)?;
    let (tree, mut types) = made.tree(catalog, params, before).map_err(told)?;
    types.splice(0..0, tree.params.iter().map(|ty| Some(*ty)));
    let each = crate::parse(&made.each)?.pop().ok_or_else(|| syntax("an empty statement"))?;
    match crate::compile(catalog, &each, &types)? {
        compiled::Compiled::Query(each) => Ok(Written { tree, each }),
        _ => Err(refused("what this statement does with each row")),
    }
}

pub fn told(stop: Stop) -> SqlError {
    match stop {
        Stop::Error(error) => error,
        Stop::General(what) => refused(what),
    }
}

/// The texts of both parts, and the columns of which the query's are values.
struct Made<'t> {
    table: &'t Table,
    query: String,
    each: String,
    /// Positions in the table, of each column of the query but the last ones.
    columns: Vec<u16>,
    /// The number of the last columns, which `RETURNING` needs.
    others: usize,
    /// Rows with the same values in so many first columns are one.
    distinct: usize,
}

impl Made<'_> {
    /// The tree, and the types of its columns.
    fn tree(
        &self,
        catalog: &Catalog,
        (params, given): (usize, &[Option<SqlType>]),
        before: &Before<'_>,
    ) -> Result<(Tree, Vec<Option<SqlType>>), Stop> {
        let parsed = crate::parse(&self.query)?.pop().ok_or_else(|| syntax("an empty query"))?;
        let Some(Statement::Query(query)) = parsed.tree() else {
            return Err(Stop::General("a query of this kind"));
        };
        let mut compiler = Compiler::new(catalog, Params::new(params, given));
        compiler.tree = Some(super::State::default());
        before.reach(&mut compiler)?;
        compiler.targets = self.columns.iter().map(|at| self.table.columns[usize::from(*at)].ty).collect();
        let bound = compiler.tree_query(query)?;
        let width = self.columns.len() + self.others;
        match bound.fields.len().cmp(&width) {
            std::cmp::Ordering::Greater => {
                return Err(syntax("INSERT has more expressions than target columns").into());
            }
            std::cmp::Ordering::Less => {
                return Err(syntax("INSERT has more target columns than expressions").into());
            }
            std::cmp::Ordering::Equal => {}
        }
        let (mut row, mut types) = (Vec::new(), Vec::new());
        for ((at, field), column) in bound.fields.iter().enumerate().zip(&self.columns) {
            let value = super::query::column(&bound.query, at, field);
            row.push(assigned(&mut compiler, self.table, *column, value)?);
            let ty = self.table.columns[usize::from(*column)].ty;
            types.push(Some(crate::types::without_length(ty)));
        }
        for (at, field) in bound.fields.iter().enumerate().skip(self.columns.len()) {
            row.push(sql::Expr::Column(at as u16));
            types.push(Some(crate::types::without_length(field.ty)));
        }
        let mut query = of_body(Body::Mapped(Box::new(bound.query), row), width);
        if self.distinct > 0 {
            query = of_body(Body::First(Box::new(query), self.distinct), width);
        }
        let tree = super::finished(&mut compiler, query, bound.fields)?;
        Ok((tree, types))
    }
}

fn of_body(body: Body, width: usize) -> Query {
    Query { body, order: Vec::new(), limit: None, offset: None, width }
}

/// The clause as it is written.
fn plain(items: Option<&Vec<ast::SelectItem>>) -> String {
    items.map_or_else(String::new, |items| format!(" RETURNING {}", listed(items)))
}

fn listed<T: std::fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

fn table<'c>(catalog: &'c Catalog, name: &ast::ObjectName) -> Result<&'c Table, Stop> {
    crate::views::refuse_change(catalog, name)?;
    crate::names::table(catalog, name)
}

fn of_insert<'c>(
    catalog: &'c Catalog,
    insert: &ast::Insert,
    (params, given): (usize, &[Option<SqlType>]),
    before: &Before<'_>,
) -> Result<Made<'c>, Stop> {
    let (ast::TableObject::TableName(name), Some(source)) = (&insert.table, &insert.source) else {
        return Err(Stop::General("INSERT of this kind"));
    };
    let table = table(catalog, name)?;
    let mut targets = columns(table, &insert.columns)?;
    if insert.columns.is_empty() {
        // A client that names no columns may leave out the last ones.
        targets.truncate(width(catalog, source, (params, given), before)?);
    }
    let names: Vec<String> = targets.iter().map(|at| quoted(&table.columns[usize::from(*at)].name)).collect();
    let values: Vec<String> = (1..=targets.len()).map(|at| format!("${}", params + at)).collect();
    let alias = insert.table_alias.as_ref().map(|alias| format!(" AS {}", alias.alias));
    let on = insert.on.as_ref().map(ToString::to_string).unwrap_or_default();
    let each = format!(
        "INSERT INTO {}{} ({}) VALUES ({}) {on}{}",
        quoted(&table.name),
        alias.unwrap_or_default(),
        names.join(", "),
        values.join(", "),
        plain(insert.returning.as_ref())
    );
    Ok(Made { table, query: source.to_string(), each, columns: targets, others: 0, distinct: 0 })
}

/// The number of columns of a query.
fn width(
    catalog: &Catalog,
    query: &ast::Query,
    (params, given): (usize, &[Option<SqlType>]),
    before: &Before<'_>,
) -> Result<usize, Stop> {
    let plain = |item: &ast::SelectItem| {
        matches!(item, ast::SelectItem::UnnamedExpr(_) | ast::SelectItem::ExprWithAlias { .. })
    };
    if let ast::SetExpr::Select(select) = query.body.as_ref()
        && select.projection.iter().all(plain)
    {
        return Ok(select.projection.len());
    }
    let mut compiler = Compiler::new(catalog, Params::new(params, given));
    compiler.tree = Some(super::State::default());
    before.reach(&mut compiler)?;
    Ok(compiler.tree_query(query)?.fields.len())
}

/// A table with its alias, and the other relations of the statement.
fn target<'c>(
    catalog: &'c Catalog,
    target: &ast::TableWithJoins,
) -> Result<(&'c Table, String, String, String), Stop> {
    let (TableFactor::Table { name, alias, args: None, .. }, []) =
        (&target.relation, target.joins.as_slice())
    else {
        return Err(Stop::General("a join as the table that is changed"));
    };
    let table = table(catalog, name)?;
    if table.key.is_empty() {
        return Err(Stop::General("a change by joins or sub-queries of a table without a primary key"));
    }
    let name = alias.as_ref().map_or_else(|| table.name.clone(), |alias| folded(&alias.name));
    let of = format!("{} AS {}", quoted(&table.name), quoted(&name));
    let quoted = quoted(&name);
    Ok((table, of, quoted, name))
}

/// The key of a row, as the query gives it and as the change looks for it.
fn key(table: &Table, alias: &str, first: usize) -> (Vec<String>, String) {
    let name = |column: &u16| format!("{alias}.{}", quoted(&table.columns[usize::from(*column)].name));
    let names: Vec<String> = table.key.iter().map(name).collect();
    let equal: Vec<String> = names.iter().zip(first..).map(|(name, at)| format!("{name} = ${at}")).collect();
    (names, equal.join(" AND "))
}

fn of_delete<'c>(
    catalog: &'c Catalog,
    delete: &ast::Delete,
    params: usize,
    before: &Before<'_>,
) -> Result<Made<'c>, Stop> {
    let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
    let [one] = from.as_slice() else { return Err(Stop::General("DELETE from several tables")) };
    let (table, of, alias, name) = target(catalog, one)?;
    let (names, equal) = key(table, &alias, params + 1);
    let others = delete.using.as_deref().unwrap_or_default();
    let first = params + table.key.len() + 1;
    let returning = returning(catalog, delete.returning.as_ref(), (others, before), (table, &name), first)?;
    let values = names.into_iter().chain(returning.values.iter().cloned()).collect::<Vec<_>>();
    let query =
        format!("SELECT {} FROM {of}{}{}", values.join(", "), more(others), filter(&delete.selection));
    let each = format!("DELETE FROM {of} WHERE {equal}{}", returning.clause);
    let (columns, distinct) = (table.key.clone(), table.key.len());
    Ok(Made { table, query, each, columns, others: returning.values.len(), distinct })
}

fn more(others: &[ast::TableWithJoins]) -> String {
    others.iter().map(|other| format!(", {other}")).collect()
}

fn filter(condition: &Option<ast::Expr>) -> String {
    condition.as_ref().map(|condition| format!(" WHERE {condition}")).unwrap_or_default()
}

fn of_update<'c>(
    catalog: &'c Catalog,
    update: &ast::Update,
    params: usize,
    before: &Before<'_>,
) -> Result<Made<'c>, Stop> {
    let (table, of, alias, name) = target(catalog, &update.table)?;
    let (names, equal) = key(table, &alias, params + 1);
    let others = match &update.from {
        None => &[][..],
        Some(ast::UpdateTableFromKind::BeforeSet(from) | ast::UpdateTableFromKind::AfterSet(from)) => from,
    };
    let (mut values, mut sets, mut columns) = (names, Vec::new(), table.key.clone());
    for assignment in &update.assignments {
        let ast::AssignmentTarget::ColumnName(name) = &assignment.target else {
            return Err(Stop::General("an assignment of several columns with joins or sub-queries"));
        };
        let name = crate::names::parts(name).pop().unwrap_or_default();
        let (position, _) =
            table.column(&name).ok_or_else(|| crate::error::no_column_of(&table.name, &name))?;
        if is_default(&assignment.value) {
            sets.push(format!("{} = DEFAULT", quoted(&name)));
            continue;
        }
        columns.push(position);
        values.push(assignment.value.to_string());
        sets.push(format!("{} = ${}", quoted(&name), params + columns.len()));
    }
    let first = params + columns.len() + 1;
    let returning = returning(catalog, update.returning.as_ref(), (others, before), (table, &name), first)?;
    values.extend(returning.values.iter().cloned());
    let query =
        format!("SELECT {} FROM {of}{}{}", values.join(", "), more(others), filter(&update.selection));
    let each = format!("UPDATE {of} SET {} WHERE {equal}{}", sets.join(", "), returning.clause);
    Ok(Made { table, query, each, columns, others: returning.values.len(), distinct: table.key.len() })
}
