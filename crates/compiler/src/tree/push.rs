//! Conditions on the rows of a query in `FROM`, inside of it.
//!
//! A condition stays where it is. A copy goes into the query as far as its columns are values of
//! single rows there: to a scan if it can, so that a key or an index finds the rows.
//!
//! ```text
//!   (SELECT k, sum(v) AS s FROM t GROUP BY k) x WHERE x.k = 5 AND x.s > 1
//!     k is a key of the groups: the scan of t takes k = 5
//!     s is an aggregate: s > 1 stays outside alone
//! ```

use super::condition::is_plain;
use super::{Body, Distinct, Node, Query, Select, Source, State};
use crate::walk::{all_columns, children_mut, is_stable};
use sql::Expr;

/// Takes a condition over the query's columns into it.
pub fn push(state: &mut State, query: &mut Query, condition: &Expr) {
    // Which rows a limit keeps depends on all of them.
    if query.limit.is_some() || query.offset.is_some() {
        return;
    }
    match &mut query.body {
        Body::Select(select) => into_select(state, select, condition),
        Body::Set(set) => {
            for (row, side) in [(&set.left_row, &mut set.left), (&set.right_row, &mut set.right)] {
                if let Some(condition) = over(condition, row, &|_| true) {
                    push(state, side, &condition);
                }
            }
        }
        Body::Mapped(inner, row) => {
            if let Some(condition) = over(condition, row, &|_| true) {
                push(state, inner, &condition);
            }
        }
        Body::Values(_) | Body::First(..) => {}
    }
}

fn into_select(state: &mut State, select: &mut Select, condition: &Expr) {
    if !select.windows.is_empty() || matches!(select.distinct, Distinct::On(_)) {
        return;
    }
    let keys = match &select.grouping {
        None => None,
        Some(grouping) if grouping.sets.is_empty() => Some(&grouping.keys),
        Some(_) => return,
    };
    let is_of_rows = |item: &Expr| keys.is_none_or(|keys| keys.contains(item));
    let condition = over(condition, &select.items, &is_of_rows);
    if let (Some(condition), Some(node)) = (condition, &mut select.from) {
        into_node(state, select.places, node, condition);
    }
}

/// The condition with values in place of columns; `None` if one of them is not known for each row.
fn over(condition: &Expr, values: &[Expr], is_fine: &dyn Fn(&Expr) -> bool) -> Option<Expr> {
    let is_known = |column: u16| {
        let value = values.get(usize::from(column));
        value.is_some_and(|value| is_plain(value) && is_stable(value) && is_fine(value))
    };
    if !all_columns(condition, &is_known) {
        return None;
    }
    let mut condition = condition.clone();
    replace(&mut condition, values);
    Some(condition)
}

fn replace(expr: &mut Expr, values: &[Expr]) {
    match expr {
        Expr::Column(column) => {
            if let Some(value) = values.get(usize::from(*column)) {
                *expr = value.clone();
            }
        }
        _ => children_mut(expr, &mut |inner| replace(inner, values)),
    }
}

/// Takes a condition over the joined row to the part that has all of its columns.
fn into_node(state: &mut State, places: usize, node: &mut Node, mut condition: Expr) {
    let bits = bits_of_condition(state, places, &condition);
    match node {
        Node::Leaf(leaf) => {
            let row = state.places[places].0.clone();
            crate::walk::renumber(&mut condition, &|column| row[usize::from(column)].column);
            match &mut leaf.source {
                Source::Scan(scan) => state.scans[*scan].conditions.push(condition),
                Source::Query { query, is_lateral: false } => push(state, query, &condition),
                _ => {}
            }
        }
        Node::Filter { input, .. } => into_node(state, places, input, condition),
        Node::Inner { parts, .. } => {
            if let Some(part) = parts.iter_mut().find(|part| bits & !bits_of(part) == 0) {
                into_node(state, places, part, condition);
            }
        }
        // Only the side of which all rows stay may lose some of them.
        Node::Outer(join) => {
            let side = match (join.keeps_left, join.keeps_right) {
                (true, false) => &mut join.left,
                (false, true) => &mut join.right,
                _ => return,
            };
            if bits & !bits_of(side) == 0 {
                into_node(state, places, side, condition);
            }
        }
    }
}

fn bits_of_condition(state: &State, places: usize, condition: &Expr) -> u64 {
    let row = &state.places[places].0;
    let columns = crate::typed::columns(condition);
    columns.iter().map(|column| 1 << row[usize::from(*column)].relation).fold(0, |bits, bit| bits | bit)
}

/// The relations of a node, a bit each.
fn bits_of(node: &Node) -> u64 {
    match node {
        Node::Leaf(leaf) => 1 << leaf.relation,
        Node::Filter { input, .. } => bits_of(input),
        Node::Inner { parts, .. } => parts.iter().map(bits_of).fold(0, |bits, part| bits | part),
        Node::Outer(join) => bits_of(&join.left) | bits_of(&join.right),
    }
}
