//! Names resolved and types decided: a statement's tree becomes a plan.

mod expressions;
mod queries;
mod sources;
mod type_names;

pub use type_names::type_named;

use crate::plan::{Aggregate, Ex, Query, Window};
use crate::relations::Relations;
use crate::value::Type;
use sql::{SqlError, SqlState};
use sqlparser::ast;
use std::collections::BTreeSet;

/// A column that an expression can name.
#[derive(Clone, PartialEq, Debug)]
pub struct Named {
    pub relation: String,
    pub name: String,
    pub ty: Type,
    /// Not part of `*`: a system column, or the second of two that `USING` made one.
    pub hidden: bool,
}

/// The columns of a row, and of the rows around it.
pub struct Scope<'a> {
    pub columns: Vec<Named>,
    pub parent: Option<&'a Scope<'a>>,
}

/// A common table expression that is in reach.
#[derive(Clone)]
struct With {
    name: String,
    number: usize,
    columns: Vec<(String, Type)>,
}

/// What an output may hold besides the row's columns.
#[derive(Default)]
struct Computed {
    aggregates: Vec<Aggregate>,
    windows: Vec<Window>,
    sets: Vec<Ex>,
}

pub struct Binder<'a> {
    pub relations: &'a Relations,
    /// Types of the parameters; those that are unknown are decided by their first use.
    pub params: Vec<Type>,
    with: Vec<With>,
    withs: usize,
    /// The common table expressions that were named.
    named: BTreeSet<usize>,
    /// Where aggregates are allowed.
    computed: Option<Computed>,
    depth: u32,
}

/// Queries and operators inside each other.
const MOST_DEPTH: u32 = 200;

impl<'a> Binder<'a> {
    pub fn new(relations: &'a Relations, params: Vec<Type>) -> Binder<'a> {
        Binder {
            relations,
            params,
            with: Vec::new(),
            withs: 0,
            named: BTreeSet::new(),
            computed: None,
            depth: 0,
        }
    }

    /// # Errors
    /// PostgreSQL's errors of analysis, `0A000` for what the catalogs' queries lack.
    pub fn statement(&mut self, query: &ast::Query) -> Result<Query, SqlError> {
        self.query(query, None)
    }

    fn deeper<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T, SqlError>) -> Result<T, SqlError> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            self.depth -= 1;
            let message = "the query has too many queries and operators inside each other";
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
        }
        let bound = bind(self);
        self.depth -= 1;
        bound
    }
}

impl Scope<'_> {
    /// A column by the names that stand before it, and its own.
    fn find(&self, relation: Option<&str>, name: &str) -> Result<Option<(Ex, Type)>, SqlError> {
        let mut scope = Some(self);
        let mut depth = 0;
        while let Some(here) = scope {
            let fits = |column: &Named| {
                column.name == name
                    && match relation {
                        Some(relation) => column.relation == relation,
                        None => !column.hidden || column.name == "tableoid",
                    }
            };
            let mut found = here.columns.iter().enumerate().filter(|(_, column)| fits(column));
            if let Some((at, column)) = found.next() {
                if relation.is_none() && found.next().is_some() {
                    let message = format!("column reference \"{name}\" is ambiguous");
                    return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message));
                }
                return Ok(Some((Ex::Column { depth, at }, column.ty)));
            }
            depth += 1;
            scope = here.parent;
        }
        Ok(None)
    }

    fn has_relation(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.relation == name)
            || self.parent.is_some_and(|parent| parent.has_relation(name))
    }
}

pub fn folded(ident: &ast::Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// The parts of a name.
pub fn parts(name: &ast::ObjectName) -> Vec<String> {
    name.0.iter().filter_map(|part| part.as_ident().map(folded)).collect()
}

fn unsupported(what: &str) -> SqlError {
    SqlError::unsupported(&format!("{what} in a query on the system catalogs"), None)
}

fn descends(options: &ast::OrderByOptions) -> bool {
    matches!(options.sort, Some(ast::OrderBySort::Desc))
}
