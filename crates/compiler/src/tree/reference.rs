//! What the binding of a tree collects, and names that mean columns of rows further out.

use super::{OUTER, Outer, Place, Query, SUB, Sub, Window, With};
use crate::Stop;
use crate::coerce::Typed;
use crate::compiled::Field;
use crate::expressions::Compiler;
use crate::names::Scope;
use crate::tree::OrderBy;
use crate::walk::children_mut;
use sql::catalog::Oid;
use sql::{Expr, SqlError, SqlState, SqlType};
use sqlparser::ast;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A relation of `WITH` that is in reach.
#[derive(Clone)]
pub struct Reachable {
    pub name: String,
    pub number: usize,
    pub columns: Vec<(String, SqlType)>,
    /// Whether its own recursive part is bound: it reads what the last round has added.
    pub is_working: bool,
}

/// A query with its columns.
pub struct Bound {
    pub query: Query,
    pub fields: Vec<Field>,
}

/// The rows of a table that are wanted.
pub struct Wanted {
    pub oid: Oid,
    pub used: BTreeSet<u16>,
    /// Over the table's columns.
    pub conditions: Vec<Expr>,
}

#[derive(Default)]
pub struct State {
    pub scans: Vec<Wanted>,
    /// With the scan that each relation is.
    pub places: Vec<(Vec<Place>, Vec<Option<usize>>)>,
    pub outers: Vec<Outer>,
    pub subs: Vec<Sub>,
    pub withs: Vec<With>,
    pub tables: Vec<Oid>,
    pub views: Vec<Oid>,
    pub in_reach: Vec<Reachable>,
    /// The recursive ones of which the rows of the last round are read.
    pub read_again: BTreeSet<usize>,
    /// The orders of the aggregates that the compiler has found, at their positions.
    pub orders: Vec<Vec<OrderBy>>,
    /// The arguments of each `GROUPING` found so far.
    pub groupings: Vec<Vec<Expr>>,
    /// Window functions found so far, where they are allowed.
    pub windows: Option<Vec<Window>>,
    /// The windows of the clause `WINDOW`.
    pub named_windows: Vec<(String, ast::WindowSpec)>,
    /// The rows around the query that is bound, the innermost last.
    around: Vec<Rc<Scope>>,
    /// What the queries that are bound need of rows further out, of each row in `around`.
    free: Vec<BTreeSet<Outer>>,
}

impl State {
    pub fn with(&mut self, name: String, query: Query) -> usize {
        self.withs.push(With { name, query, step: None, given: None });
        self.withs.len() - 1
    }
}

/// A column's value in a scope.
fn find(scope: &Scope, relation: Option<&str>, name: &str) -> Result<Typed, SqlError> {
    if let Some(relation) = relation {
        return Ok(scope.column_of(relation, name)?.value);
    }
    let mut merged = scope.merged.iter().filter(|merged| merged.is_open && merged.name == name);
    match (merged.next(), scope.column(name)) {
        (Some(merged), Err(error)) if error.state == SqlState::UNDEFINED_COLUMN => Ok(merged.value.clone()),
        (Some(_), _) => {
            let message = format!("column reference \"{name}\" is ambiguous");
            Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message))
        }
        (None, found) => found.map(|found| found.value),
    }
}

impl Compiler<'_> {
    /// A column by its name, of the scope or of rows further out.
    ///
    /// # Errors
    /// `42703`, `42702`, `42P01`.
    pub fn named_column(
        &mut self,
        scope: &Scope,
        relation: Option<&str>,
        name: &str,
    ) -> Result<Typed, SqlError> {
        let elsewhere = match relation {
            None => SqlState::UNDEFINED_COLUMN,
            Some(_) => SqlState::UNDEFINED_TABLE,
        };
        let error = match find(scope, relation, name) {
            Ok(value) => {
                self.note_used(scope, &value.expr);
                return Ok(value);
            }
            Err(error) if error.state == elsewhere && self.tree.is_some() => error,
            Err(error) => return Err(error),
        };
        let around = self.tree.as_ref().map_or_else(Vec::new, |tree| tree.around.clone());
        for (scope, depth) in around.iter().rev().zip(1_u16..) {
            match find(scope, relation, name) {
                Ok(value) => {
                    self.note_used(scope, &value.expr);
                    return Ok(Typed::new(self.outer(value.expr, depth)?, value.ty));
                }
                Err(error) if error.state == elsewhere => {}
                Err(error) => return Err(error),
            }
        }
        Err(error)
    }

    /// Notes which columns of tables a statement uses.
    pub fn note_used(&mut self, scope: &Scope, expr: &Expr) {
        let Some(tree) = &mut self.tree else { return };
        for column in crate::typed::columns(expr) {
            let relation = scope.relations.iter().rfind(|relation| relation.offset <= column);
            let Some(relation) = relation.filter(|_| column < OUTER) else { continue };
            if let Some(scan) = relation.scan.and_then(|scan| tree.scans.get_mut(scan)) {
                scan.used.insert(column - relation.offset);
            }
        }
    }

    /// An expression over a row `depth` queries further out.
    fn outer(&mut self, mut expr: Expr, depth: u16) -> Result<Expr, SqlError> {
        let Some(tree) = &mut self.tree else { return Ok(expr) };
        let mut result = Ok(());
        tree.push_out(&mut expr, depth, &mut result);
        result.map(|()| expr)
    }

    /// Binds something of which the rows have those of `scope` around them. Gives what it needs of
    /// them, where they have depth 0.
    pub fn inside<T>(
        &mut self,
        scope: &Scope,
        bind: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<(T, Vec<Outer>), Stop> {
        if let Some(tree) = &mut self.tree {
            tree.around.push(Rc::new(scope.clone()));
            tree.free.push(BTreeSet::new());
        }
        let bound = self.apart(bind);
        let free = self.tree.as_mut().and_then(|tree| {
            tree.around.pop();
            tree.free.pop()
        });
        Ok((bound?, free.unwrap_or_default().into_iter().collect()))
    }

    /// Binds something that no row is around of.
    pub fn alone<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T, Stop>) -> Result<T, Stop> {
        let kept =
            self.tree.as_mut().map(|tree| (std::mem::take(&mut tree.around), std::mem::take(&mut tree.free)));
        let bound = self.apart(bind);
        if let (Some(tree), Some((around, free))) = (&mut self.tree, kept) {
            (tree.around, tree.free) = (around, free);
        }
        bound
    }

    /// Binds a query, of which the aggregates and windows are not those of the query around it.
    pub fn apart<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T, Stop>) -> Result<T, Stop> {
        let aggregates = self.aggregates.take();
        let kept = self.tree.as_mut().map(|tree| {
            let named = std::mem::take(&mut tree.named_windows);
            let groupings = std::mem::take(&mut tree.groupings);
            (std::mem::take(&mut tree.orders), tree.windows.take(), named, groupings)
        });
        let bound = bind(self);
        self.aggregates = aggregates;
        if let (Some(tree), Some((orders, windows, named, groupings))) = (&mut self.tree, kept) {
            (tree.orders, tree.windows, tree.named_windows) = (orders, windows, named);
            tree.groupings = groupings;
        }
        bound
    }
}

impl State {
    fn push_out(&mut self, expr: &mut Expr, depth: u16, result: &mut Result<(), SqlError>) {
        if let Expr::Column(column) = expr {
            match self.number(Outer { depth, column: *column }) {
                Some(number) => *column = OUTER + number,
                None => *result = Err(too_many("references to columns further out")),
            }
        }
        children_mut(expr, &mut |inner| self.push_out(inner, depth, result));
    }

    fn number(&mut self, outer: Outer) -> Option<u16> {
        let at = self.outers.iter().position(|known| *known == outer);
        let at = at.unwrap_or_else(|| {
            self.outers.push(outer);
            self.outers.len() - 1
        });
        for (free, further) in self.free.iter_mut().rev().zip(1..=outer.depth) {
            free.insert(Outer { depth: outer.depth - further, column: outer.column });
        }
        u16::try_from(at).ok().filter(|at| *at < SUB - OUTER)
    }
}

pub fn too_many(what: &str) -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT, format!("a query has too many {what}"))
        .with_hint("Ask for it in several statements.")
}
