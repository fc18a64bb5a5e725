//! Views: queries with a name. A view is expanded where a statement names it in `FROM`, as a
//! sub-query would be.
//!
//! The catalog keeps a view among the procedures: its text, the names and types of its columns (as
//! output parameters), and the tables and views that it uses. Columns are found by their names, so
//! a `*` in the text stands for the columns that it had when the view was made.

use crate::parse::{Kind, Parsed, parse};
use crate::tree::{Tree, tree};
use crate::{Stop, error};
use sql::catalog::{Catalog, Procedure};
use sql::{SqlError, SqlState};
use sqlparser::ast;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The query of a view, parsed once for each catalog.
///
/// # Errors
/// `XX000` if the kept text is no query.
pub fn parsed(view: &Procedure) -> Result<Arc<Parsed>, SqlError> {
    if let Some(parsed) = view.compiled.get::<Parsed>() {
        return Ok(parsed);
    }
    let statement = parse(&view.body)?.pop().map(Arc::new);
    let parsed = statement.filter(|parsed| query(parsed).is_some()).ok_or_else(|| damaged(&view.name))?;
    view.compiled.keep(parsed.clone());
    Ok(parsed)
}

/// The query that is the statement.
pub fn query(parsed: &Parsed) -> Option<&ast::Query> {
    match parsed.kind() {
        Kind::Sql(statement) => match statement.as_ref() {
            ast::Statement::Query(query) => Some(query),
            _ => None,
        },
        _ => None,
    }
}

fn damaged(view: &str) -> SqlError {
    SqlError::new(SqlState::INTERNAL, format!("the text of view \"{view}\" is no query"))
}

/// The tree of a view's query. All columns of the view must be in it, with their types.
///
/// # Errors
/// Those of the query; `42703` for a column that it has no longer.
pub fn check(catalog: &Catalog, view: &Procedure) -> Result<Tree, SqlError> {
    let tree = tree(catalog, &*parsed(view)?, &[])?;
    for column in &view.params {
        let found = tree.fields.iter().find(|field| field.name == column.name);
        match found {
            None => return Err(error::no_column(&column.name)),
            Some(field) if field.ty != column.ty => {
                let message = format!("column \"{}\" would have another type", column.name);
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
            }
            Some(_) => {}
        }
    }
    Ok(tree)
}

/// The view of this name.
pub fn named<'a>(catalog: &'a Catalog, name: &ast::ObjectName) -> Option<&'a Procedure> {
    crate::names::in_public(name).ok().and_then(|name| catalog.view(&name))
}

/// The tables and views that a query uses.
pub fn uses(tree: &Tree) -> BTreeSet<sql::catalog::Oid> {
    tree.tables.iter().chain(&tree.views).copied().collect()
}

/// Refuses a statement that would change the rows of a view.
///
/// # Errors
/// `0A000` if the name is that of a view.
pub fn refuse_change(catalog: &Catalog, name: &ast::ObjectName) -> Result<(), Stop> {
    match named(catalog, name) {
        Some(view) => Err(SqlError::unsupported(
            &format!("a change of view \"{}\"", view.name),
            Some("Change the tables that it reads."),
        )
        .into()),
        None => Ok(()),
    }
}
