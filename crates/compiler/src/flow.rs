//! Statements that depend on each other: sub-queries that run before their statement, and the
//! statements of a body, in phases.

use crate::Stop;
use crate::coerce::Typed;
use crate::compiled::Fill;
use crate::error::syntax;
use crate::expressions::Compiler;
use crate::names::Scope;
use crate::tables::Cache;
use sql::catalog::Oid;
use sql::program::{Flow, FlowResult, Given, GivenValue, Statement};
use sql::{Expr, SqlState, SqlType};
use sqlparser::ast;
use std::collections::BTreeSet;

/// A statement among others.
pub struct Unit {
    pub statement: Statement,
    pub reads: Vec<Oid>,
    pub writes: Vec<Oid>,
    /// The parameters of which it needs values.
    pub uses: BTreeSet<u16>,
    /// The parameters in which it leaves values.
    pub gives: Vec<(GivenValue, u16)>,
}

impl Unit {
    /// Whether it must run after `before`, which stands before it in the text.
    pub fn follows(&self, before: &Unit) -> bool {
        self.values_of(before).next().is_some() || self.tables_of(before).next().is_some()
    }

    /// The parameters of which it needs the values that `before` gives.
    pub fn values_of<'u>(&'u self, before: &'u Unit) -> impl Iterator<Item = u16> + 'u {
        before.gives.iter().map(|(_, param)| *param).filter(|param| self.uses.contains(param))
    }

    /// The tables of both that one of them writes.
    pub fn tables_of<'u>(&'u self, before: &'u Unit) -> impl Iterator<Item = Oid> + 'u {
        let written =
            before.writes.iter().filter(|oid| self.writes.contains(oid) || self.reads.contains(oid));
        let read = before.reads.iter().filter(|oid| self.writes.contains(oid));
        written.chain(read).copied()
    }
}

/// The phases of statements in the order of the text, each as early as it can be.
pub fn phases(units: &[Unit]) -> Vec<Vec<u16>> {
    let mut levels: Vec<usize> = Vec::with_capacity(units.len());
    let mut phases: Vec<Vec<u16>> = Vec::new();
    for (at, unit) in units.iter().enumerate() {
        let before = units[..at].iter().zip(&levels).filter(|(before, _)| unit.follows(before));
        let level = before.map(|(_, level)| level + 1).max().unwrap_or(0);
        levels.push(level);
        if phases.len() <= level {
            phases.resize(level + 1, Vec::new());
        }
        phases[level].push(at as u16);
    }
    phases
}

/// The flow of some statements.
pub fn flow(units: &[Unit], result: FlowResult) -> Flow {
    let given = units.iter().zip(0_u16..).flat_map(|(unit, statement)| {
        unit.gives.iter().map(move |&(what, param)| Given { statement, what, param })
    });
    Flow { phases: phases(units), given: given.collect(), result }
}

/// What a statement needs of a sub-query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// The value of its only column and row.
    Value,
    /// Whether it has rows.
    Existence,
}

impl Compiler<'_> {
    /// A sub-query that names no column of the statement around it: it runs before that statement,
    /// and leaves its value in a parameter.
    ///
    /// # Errors
    /// `General` for other sub-queries, and where none is allowed.
    pub fn sub_query(&mut self, scope: &Scope, query: &ast::Query, asked: Asked) -> Result<Typed, Stop> {
        if self.hoisted.is_none() {
            return Err(Stop::General("a sub-query"));
        }
        let aggregates = self.aggregates.take();
        let outer_uses = std::mem::take(&mut self.uses);
        let selected = crate::select::query(self, &mut Cache::default(), query);
        self.aggregates = aggregates;
        let uses = std::mem::replace(&mut self.uses, outer_uses);
        let selected = selected.map_err(|stop| match stop {
            Stop::Error(error) if !scope.relations.is_empty() && is_unknown(error.state, &error.message) => {
                Stop::General("a correlated sub-query")
            }
            stop => stop,
        })?;
        let mut select = selected.select;
        let (what, ty) = match asked {
            Asked::Existence => {
                select.limit = select.limit.or(Some(Expr::Const(sql::Datum::Int(1))));
                (GivenValue::Exists, SqlType::Bool)
            }
            Asked::Value => match selected.fields.as_slice() {
                [field] => (GivenValue::Only(0), field.ty),
                _ => return Err(syntax("subquery must return only one column").into()),
            },
        };
        let param = self.given(ty)?;
        self.uses.insert(param);
        let unit = Unit {
            statement: Statement::Select(select),
            reads: selected.tables,
            writes: Vec::new(),
            uses,
            gives: vec![(what, param)],
        };
        self.hoisted.get_or_insert_default().push(unit);
        Ok(Typed::new(Expr::Param(param), ty))
    }

    /// A parameter for a value that a statement gives.
    ///
    /// # Errors
    /// `54000` for too many.
    pub fn given(&mut self, ty: SqlType) -> Result<u16, Stop> {
        match self.fill(Fill::Given(ty))? {
            Expr::Param(at) => Ok(at),
            _ => Err(Stop::General("a value of this kind")),
        }
    }
}

/// Whether a name is missing that the statement around the sub-query may have.
fn is_unknown(state: SqlState, message: &str) -> bool {
    state == SqlState::UNDEFINED_COLUMN
        || state == SqlState::UNDEFINED_TABLE && message.starts_with("missing FROM-clause")
}
