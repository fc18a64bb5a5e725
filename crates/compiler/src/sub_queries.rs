//! Sub-queries that run before their statement.

use crate::Stop;
use crate::coerce::Typed;
use crate::compiled::Fill;
use crate::error::syntax;
use crate::expressions::Compiler;
use crate::flow::{Asked, Unit};
use crate::names::Scope;
use crate::tables::Cache;
use sql::program::{GivenValue, Statement};
use sql::{Expr, SqlState, SqlType};
use sqlparser::ast;

impl Compiler<'_> {
    /// A sub-query that names no column of the statement around it: it runs before that statement,
    /// and leaves its value in a parameter.
    ///
    /// # Errors
    /// `General` for other sub-queries, and where none is allowed.
    pub fn sub_query(&mut self, scope: &Scope, query: &ast::Query, asked: Asked) -> Result<Typed, Stop> {
        if self.tree.is_some() {
            return self.tree_sub(scope, query, matches!(asked, Asked::Value));
        }
        if self.branches > 0 && self.frame.is_none() {
            return Err(Stop::General("a sub-query in a CASE"));
        }
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
pub fn is_unknown(state: SqlState, message: &str) -> bool {
    state == SqlState::UNDEFINED_COLUMN
        || state == SqlState::UNDEFINED_TABLE && message.starts_with("missing FROM-clause")
}
