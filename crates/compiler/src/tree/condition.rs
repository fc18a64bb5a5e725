//! Conditions of joins: which relations they name, and by which values rows find each other.

use super::{AGGREGATES, Asked, Condition, OUTER, SUB, State};
use crate::names::Scope;
use crate::walk::children;
use sql::Expr;
use sql::expression::BinaryOp;

/// The relations that an expression names, a bit each; those that its sub-queries name too.
pub fn relations(state: &State, scope: &Scope, expr: &Expr) -> u64 {
    let mut bits = 0;
    if let Expr::Column(column) = expr {
        bits |= match *column {
            column if column < OUTER => bit(scope, column),
            column if (SUB..AGGREGATES).contains(&column) => of_sub(state, scope, column - SUB),
            _ => 0,
        };
    }
    children(expr, &mut |inner| bits |= relations(state, scope, inner));
    bits
}

fn bit(scope: &Scope, column: u16) -> u64 {
    let at = scope.relations.iter().rposition(|relation| relation.offset <= column);
    at.map_or(0, |at| 1 << at)
}

fn of_sub(state: &State, scope: &Scope, number: u16) -> u64 {
    let Some(sub) = state.subs.get(usize::from(number)) else { return 0 };
    let mut bits = 0;
    for outer in sub.free.iter().filter(|outer| outer.depth == 0) {
        bits |= bit(scope, outer.column);
    }
    if let Asked::Comparison { left, .. } = &sub.what {
        left.iter().for_each(|expr| bits |= relations(state, scope, expr));
    }
    bits
}

/// Whether an expression is one over plain columns of its row and parameters.
pub fn is_plain(expr: &Expr) -> bool {
    crate::walk::all_columns(expr, &|column| column < OUTER)
}

/// Both sides of an equality, with the relations that each names.
pub fn sides(state: &State, scope: &Scope, expr: &Expr) -> Option<[(Expr, u64); 2]> {
    let Expr::Binary { op: BinaryOp::Equal, left, right, .. } = expr else { return None };
    let side = |expr: &Expr| (expr.clone(), relations(state, scope, expr));
    Some([side(left), side(right)])
}

/// The equality as one of a side over `left` and one over `right`.
pub fn across(state: &State, scope: &Scope, expr: &Expr, (left, right): (u64, u64)) -> Option<(Expr, Expr)> {
    let is_within = |bits: u64, all: u64| bits != 0 && bits & !all == 0;
    let [(a, of_a), (b, of_b)] = sides(state, scope, expr)?;
    if is_within(of_a, left) && is_within(of_b, right) {
        Some((a, b))
    } else if is_within(of_b, left) && is_within(of_a, right) {
        Some((b, a))
    } else {
        None
    }
}

pub fn condition(state: &State, scope: &Scope, expr: Expr) -> Condition {
    let relations = relations(state, scope, &expr);
    let equal = sides(state, scope, &expr);
    let equal = equal.filter(|[(_, a), (_, b)]| *a != 0 && *b != 0 && a & b == 0);
    Condition { expr, relations, equal: equal.map(Box::new) }
}
