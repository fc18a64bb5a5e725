//! `INSERT`.

use crate::Stop;
use crate::coerce::{How, Typed};
use crate::compiled::{Field, Fill};
use crate::error::{INVALID_COLUMN_REFERENCE, no_column_of, syntax};
use crate::expressions::Compiler;
use crate::names::{Relation, Scope, folded, in_public, parts};
use crate::tables::Cache;
use sql::catalog::{ColumnDefault, Table};
use sql::program::{Assignment, Conflict, Insert, InsertRows, Statement};
use sql::{Datum, Expr, SqlError, SqlState};
use sqlparser::ast::{self, ConflictTarget, OnConflictAction, OnInsert, SetExpr, TableObject};

/// A statement that writes, with the columns that a client gets.
pub struct Written {
    pub statement: Statement,
    pub fields: Vec<Field>,
    pub reads: Vec<sql::catalog::Oid>,
    pub writes: Vec<sql::catalog::Oid>,
}

pub fn insert(compiler: &mut Compiler<'_>, cache: &mut Cache, insert: &ast::Insert) -> Result<Written, Stop> {
    let TableObject::TableName(name) = &insert.table else {
        return Err(Stop::General("INSERT into a function"));
    };
    crate::views::refuse_change(compiler.catalog, name)?;
    let table = compiler.table(name)?;
    let columns = columns(table, &insert.columns)?;
    let mut reads = Vec::new();
    let rows = match &insert.source {
        None => InsertRows::Values(vec![row(compiler, table, &[], Vec::new())?]),
        Some(query) => match query.body.as_ref() {
            SetExpr::Values(values) if crate::sources::is_plain(query) => {
                let mut rows = Vec::with_capacity(values.rows.len());
                for values in &values.rows {
                    rows.push(of_values(
                        compiler,
                        table,
                        &columns,
                        insert.columns.is_empty(),
                        &values.content,
                    )?);
                }
                InsertRows::Values(rows)
            }
            _ => of_query(compiler, cache, (table, &columns), insert.columns.is_empty(), query, &mut reads)?,
        },
    };
    let alias = insert.table_alias.as_ref().map(|alias| folded(&alias.alias));
    let alias = alias.unwrap_or_else(|| table.name.clone());
    let stored = cache.get(table);
    let conflict = match &insert.on {
        None => None,
        Some(OnInsert::OnConflict(on)) => Some(conflict(compiler, cache, table, &alias, on)?),
        Some(_) => return Err(syntax("syntax error at or near \"DUPLICATE\"").into()),
    };
    let scope = Scope::one(Relation::of_table(table, stored.clone(), alias, 0));
    let (returning, fields) = crate::items::returning(compiler, &scope, insert.returning.as_ref())?;
    let references = crate::references::of_new_rows(compiler.catalog, cache, table);
    reads.extend(table.foreign_keys.iter().map(|key| key.to));
    let checks = crate::references::checks(table, None);
    let statement =
        Statement::Insert(Insert { table: stored, rows, checks, references, conflict, returning });
    Ok(Written { statement, fields, reads, writes: vec![table.oid] })
}

/// The columns that a statement names, or all.
pub fn columns(table: &Table, names: &[ast::ObjectName]) -> Result<Vec<u16>, SqlError> {
    if names.is_empty() {
        return Ok(table.visible().map(|(position, _)| position).collect());
    }
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let name = parts(name).pop().unwrap_or_default();
        let (position, _) = table.column(&name).ok_or_else(|| no_column_of(&table.name, &name))?;
        if columns.contains(&position) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        columns.push(position);
    }
    Ok(columns)
}

/// A row of `VALUES`, in which `DEFAULT` stands for itself.
fn of_values(
    compiler: &mut Compiler<'_>,
    table: &Table,
    columns: &[u16],
    is_open: bool,
    values: &[ast::Expr],
) -> Result<Vec<Expr>, Stop> {
    let scope = Scope::default();
    check_width(columns.len(), values.len(), is_open)?;
    let mut stored = Vec::with_capacity(values.len());
    for (column, value) in columns.iter().zip(values) {
        stored.push(match is_default(value) {
            true => default(compiler, table, *column)?,
            false => {
                let value = compiler.expr(&scope, value)?;
                assigned(compiler, table, *column, value)?
            }
        });
    }
    row(compiler, table, columns, stored)
}

/// A client may leave values out at the end only if it names no columns.
fn check_width(columns: usize, values: usize, is_open: bool) -> Result<(), SqlError> {
    match values.cmp(&columns) {
        std::cmp::Ordering::Greater => Err(syntax("INSERT has more expressions than target columns")),
        std::cmp::Ordering::Less if !is_open => {
            Err(syntax("INSERT has more target columns than expressions"))
        }
        _ => Ok(()),
    }
}

pub fn is_default(value: &ast::Expr) -> bool {
    matches!(value, ast::Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// A value as it is stored in a column.
///
/// # Errors
/// `42804` for a value of another type.
pub fn assigned(compiler: &mut Compiler<'_>, table: &Table, column: u16, value: Typed) -> Result<Expr, Stop> {
    let column = &table.columns[usize::from(column)];
    let from = value.ty;
    compiler.params.coerce(value, column.ty, How::Assigned).map_err(|error| {
        if error.state != SqlState::DATATYPE_MISMATCH {
            return error.into();
        }
        let (to, from) = (crate::types::name_of(column.ty), crate::types::name_of(from));
        let message = format!("column \"{}\" is of type {to} but expression is of type {from}", column.name);
        let hint = "You will need to rewrite or cast the expression.";
        Stop::from(SqlError::new(SqlState::DATATYPE_MISMATCH, message).with_hint(hint))
    })
}

/// The value of a column that the statement leaves out.
pub fn default(compiler: &mut Compiler<'_>, table: &Table, column: u16) -> Result<Expr, Stop> {
    match &table.columns[usize::from(column)].default {
        None => Ok(Expr::Const(Datum::Null)),
        Some(ColumnDefault::Expr(expr, _)) => Ok(expr.clone()),
        Some(ColumnDefault::Next(sequence)) => {
            let value = compiler.fill(Fill::Next(*sequence))?;
            assigned(compiler, table, column, Typed::new(value, sql::SqlType::Int8))
        }
    }
}

/// One expression for each column of the table, from those that are given.
fn row(
    compiler: &mut Compiler<'_>,
    table: &Table,
    columns: &[u16],
    given: Vec<Expr>,
) -> Result<Vec<Expr>, Stop> {
    let mut row: Vec<Option<Expr>> = vec![None; table.columns.len()];
    for (column, value) in columns.iter().zip(given) {
        row[usize::from(*column)] = Some(value);
    }
    let mut full = Vec::with_capacity(row.len());
    for (value, position) in row.into_iter().zip(0_u16..) {
        full.push(match value {
            Some(value) => value,
            None if table.columns[usize::from(position)].dropped => Expr::Const(Datum::Null),
            None => default(compiler, table, position)?,
        });
    }
    Ok(full)
}

fn of_query(
    compiler: &mut Compiler<'_>,
    cache: &mut Cache,
    (table, columns): (&Table, &[u16]),
    is_open: bool,
    query: &ast::Query,
    reads: &mut Vec<sql::catalog::Oid>,
) -> Result<InsertRows, Stop> {
    let fills = compiler.fills.len();
    compiler.targets = columns.iter().map(|at| table.columns[usize::from(*at)].ty).collect();
    let selected = crate::select::query(compiler, cache, query);
    compiler.targets.clear();
    let selected = selected?;
    check_width(columns.len(), selected.fields.len(), is_open)?;
    let mut given = Vec::with_capacity(columns.len());
    for ((field, column), at) in selected.fields.iter().zip(columns).zip(0_u16..) {
        // A literal of the output fits any column, as in VALUES.
        let output = &selected.select.output[usize::from(at)];
        let value = match (&output.expr, field.ty) {
            (Expr::Const(value @ (Datum::Text(_) | Datum::Null)), sql::SqlType::Text) => {
                Typed::new(Expr::Const(value.clone()), sql::SqlType::Unknown)
            }
            _ => Typed::new(Expr::Column(at), field.ty),
        };
        given.push(assigned(compiler, table, *column, value)?);
    }
    let row = row(compiler, table, columns, given)?;
    if compiler.fills[fills..].iter().any(|fill| matches!(fill, Fill::Next(_))) {
        return Err(Stop::General("INSERT ... SELECT with values of a sequence"));
    }
    reads.extend(selected.tables);
    Ok(InsertRows::Query { select: Box::new(selected.select), row })
}

fn conflict(
    compiler: &mut Compiler<'_>,
    cache: &mut Cache,
    table: &Table,
    alias: &str,
    on: &ast::OnConflict,
) -> Result<Conflict, Stop> {
    let index = match &on.conflict_target {
        None => None,
        Some(ConflictTarget::Columns(columns)) => {
            let mut wanted = Vec::with_capacity(columns.len());
            for column in columns {
                let name = folded(column);
                wanted.push(table.column(&name).ok_or_else(|| no_column_of(&table.name, &name))?.0);
            }
            unique(table, &wanted)?
        }
        Some(ConflictTarget::OnConstraint(name)) => constraint(table, &in_public(name)?)?,
    };
    let OnConflictAction::DoUpdate(update) = &on.action else { return Ok(Conflict { index, update: None }) };
    if on.conflict_target.is_none() {
        return Err(
            syntax("ON CONFLICT DO UPDATE requires inference specification or constraint name").into()
        );
    }
    let stored = cache.get(table);
    let mut scope = Scope::one(Relation::of_table(table, stored.clone(), alias.to_owned(), 0));
    let excluded = Relation::of_table(table, stored, "excluded".into(), scope.width());
    scope.relations.push(Relation { is_open: false, ..excluded });
    let set = assignments(compiler, &scope, table, &update.assignments)?;
    let filter = update.selection.as_ref();
    let filter = filter.map(|filter| compiler.condition(&scope, filter, "WHERE")).transpose()?;
    Ok(Conflict { index, update: Some((set, filter)) })
}

fn same_columns(left: &[u16], right: &[u16]) -> bool {
    left.len() == right.len() && left.iter().all(|column| right.contains(column))
}

fn unique(table: &Table, columns: &[u16]) -> Result<Option<u16>, SqlError> {
    if !table.key.is_empty() && same_columns(&table.key, columns) {
        return Ok(None);
    }
    let index = table.indexes.iter().position(|index| index.unique && same_columns(&index.columns, columns));
    let index = index.and_then(|index| u16::try_from(index).ok());
    index.map(Some).ok_or_else(|| {
        let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
        SqlError::new(INVALID_COLUMN_REFERENCE, message)
    })
}

fn constraint(table: &Table, name: &str) -> Result<Option<u16>, SqlError> {
    if !table.key.is_empty() && table.key_name == name {
        return Ok(None);
    }
    let index = table.indexes.iter().position(|index| index.unique && index.name == name);
    let index = index.and_then(|index| u16::try_from(index).ok());
    index.map(Some).ok_or_else(|| {
        let message = format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
        SqlError::new(SqlState::UNDEFINED_OBJECT, message)
    })
}

/// The assignments of `SET`, over the scope's row.
pub fn assignments(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    table: &Table,
    list: &[ast::Assignment],
) -> Result<Vec<Assignment>, Stop> {
    let mut pairs: Vec<(String, &ast::Expr)> = Vec::with_capacity(list.len());
    for assignment in list {
        match &assignment.target {
            ast::AssignmentTarget::ColumnName(name) => {
                pairs.push((parts(name).pop().unwrap_or_default(), &assignment.value));
            }
            ast::AssignmentTarget::Tuple(names) => {
                let value = match &assignment.value {
                    ast::Expr::Tuple(values) => values.as_slice(),
                    ast::Expr::Nested(value) if names.len() == 1 => std::slice::from_ref(value.as_ref()),
                    _ => return Err(Stop::General("SET of several columns from a query")),
                };
                if value.len() != names.len() {
                    return Err(syntax("number of columns does not match number of values").into());
                }
                let names = names.iter().map(|name| parts(name).pop().unwrap_or_default());
                pairs.extend(names.zip(value));
            }
        }
    }
    let mut set: Vec<Assignment> = Vec::with_capacity(pairs.len());
    for (name, value) in pairs {
        let (column, _) = table.column(&name).ok_or_else(|| no_column_of(&table.name, &name))?;
        if set.iter().any(|known| known.column == column) {
            let message = format!("multiple assignments to same column \"{name}\"");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).into());
        }
        let value = match is_default(value) {
            true => default(compiler, table, column)?,
            false => {
                let value = compiler.expr(scope, value)?;
                assigned(compiler, table, column, value)?
            }
        };
        set.push(Assignment { column, value });
    }
    Ok(set)
}
