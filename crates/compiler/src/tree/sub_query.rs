//! Queries in expressions.

use super::{AGGREGATES, Asked, SUB, Sub};
use crate::Stop;
use crate::coerce::Typed;
use crate::error::syntax;
use crate::expressions::Compiler;
use crate::names::Scope;
use crate::tree::reference::too_many;
use sql::expression::BinaryOp;
use sql::{Expr, SqlType};
use sqlparser::ast;

impl Compiler<'_> {
    /// A query as a value, or whether it has a row.
    pub fn tree_sub(&mut self, scope: &Scope, query: &ast::Query, is_value: bool) -> Result<Typed, Stop> {
        let (bound, free) = self.inside(scope, |compiler| compiler.tree_query(query))?;
        let (what, ty) = match (is_value, bound.fields.as_slice()) {
            (false, _) => (Asked::Existence, SqlType::Bool),
            (true, [field]) => (Asked::Value, field.ty),
            (true, _) => return Err(syntax("subquery must return only one column").into()),
        };
        self.keep(Sub { what, query: bound.query, free }, ty)
    }

    /// `ARRAY(query)`.
    pub fn tree_array(&mut self, scope: &Scope, query: &ast::Query) -> Result<Typed, Stop> {
        let (bound, free) = self.inside(scope, |compiler| compiler.tree_query(query))?;
        let [field] = bound.fields.as_slice() else {
            return Err(syntax("subquery must return only one column").into());
        };
        let ty = crate::types::array_of(crate::types::without_length(field.ty))?;
        let SqlType::Array(element) = ty else { return Err(Stop::General("an array")) };
        self.keep(Sub { what: Asked::Array(element), query: bound.query, free }, ty)
    }

    /// `left op ANY (query)`, or `ALL`.
    pub fn tree_comparison(
        &mut self,
        scope: &Scope,
        left: &ast::Expr,
        (op, all): (BinaryOp, bool),
        query: &ast::Query,
    ) -> Result<Typed, Stop> {
        let lefts = match left {
            ast::Expr::Tuple(parts) => parts.iter().collect(),
            ast::Expr::Nested(inner) => vec![inner.as_ref()],
            left => vec![left],
        };
        if lefts.len() > 1 && !matches!(op, BinaryOp::Equal | BinaryOp::NotEqual) {
            return Err(Stop::General("a comparison of row values"));
        }
        let (bound, free) = self.inside(scope, |compiler| compiler.tree_query(query))?;
        if bound.fields.len() != lefts.len() {
            let many = if bound.fields.len() > lefts.len() { "many" } else { "few" };
            return Err(syntax(format!("subquery has too {many} columns")).into());
        }
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for ((expr, field), at) in lefts.into_iter().zip(&bound.fields).zip(0_u16..) {
            let value = self.expr(scope, expr)?;
            let column = Typed::new(Expr::Column(at), field.ty);
            match crate::operators::binary(&mut self.params, op, value, column)?.expr {
                Expr::Binary { left: a, right: b, .. } => {
                    left.push(*a);
                    right.push(*b);
                }
                _ => return Err(Stop::General("an operator of this kind before ANY or ALL")),
            }
        }
        let what = Asked::Comparison { op, all, left, right };
        self.keep(Sub { what, query: bound.query, free }, SqlType::Bool)
    }

    fn keep(&mut self, sub: Sub, ty: SqlType) -> Result<Typed, Stop> {
        let Some(tree) = &mut self.tree else { return Err(Stop::General("a sub-query")) };
        tree.subs.push(sub);
        let at = u16::try_from(tree.subs.len() - 1).ok().filter(|at| *at < AGGREGATES - SUB);
        let at = at.ok_or_else(|| too_many("sub-queries"))?;
        Ok(Typed::new(Expr::Column(SUB + at), ty))
    }
}
