//! `SELECT` of a tree: its output, groups and order, and where each condition is checked.

use super::condition::{across, condition, relations};
use super::from::{From, Join, Part, is_lateral};
use super::grouping::{Binding, placed, with_groupings};
use super::push::push;
use super::reference::{Bound, State};
use super::rows::{ITEMS, items_as_relation};
use super::{
    AGGREGATES, Aggregated, Asked, Body, Distinct, Grouping, Key, Leaf, Node, OUTER, OuterJoin, Query, SUB,
    Select, Source, WINDOWS, Window,
};
use crate::Stop;
use crate::compiled::Field;
use crate::error::{INVALID_COLUMN_REFERENCE, syntax};
use crate::expressions::Compiler;
use crate::items::{Item, Ordering, items, ordering};
use crate::names::Scope;
use crate::select::ungrouped;
use crate::sources::refuses_null;
use crate::walk::{children, conjuncts};
use sql::program::SortKey;
use sql::{Expr, SqlError, SqlState};
use sqlparser::ast;

/// Binds a select with the order of its query.
pub fn select(
    compiler: &mut Compiler<'_>,
    order: Option<&ast::OrderBy>,
    ast: &ast::Select,
) -> Result<Bound, Stop> {
    refuse(ast)?;
    if let Some(ast) = items_as_relation(ast)? {
        return match select(compiler, order, &ast) {
            Err(Stop::Error(error)) if error.state == SqlState::GROUPING_ERROR => {
                Err(Stop::General("a function that gives rows for each group"))
            }
            bound => bound,
        };
    }
    let targets = std::mem::take(&mut compiler.targets);
    let mut from = From::default();
    let part = from.clause(compiler, &ast.from)?;
    // Functions that are items have no columns in `*`.
    let items_rows = from.scope.relations.iter_mut().filter(|relation| relation.name == ITEMS);
    items_rows.for_each(|relation| relation.is_open = false);
    let mut conditions = Vec::new();
    if let Some(filter) = &ast.selection {
        conjuncts(compiler.condition(&from.scope, filter, "WHERE")?, &mut conditions);
    }
    compiler.aggregates = Some(Vec::new());
    if let Some(tree) = &mut compiler.tree {
        (tree.orders, tree.windows) = (Vec::new(), Some(Vec::new()));
    }
    compiler.keep_windows(&ast.named_window)?;
    compiler.targets = targets;
    let mut items = items(compiler, &from.scope, &ast.projection)?;
    let windows = compiler.tree.as_mut().and_then(|tree| tree.windows.take());
    let having = ast.having.as_ref();
    let having = having.map(|having| compiler.condition(&from.scope, having, "HAVING")).transpose()?;
    if let Some(tree) = &mut compiler.tree {
        tree.windows = windows;
    }
    let order = ordering(compiler, &from.scope, order, &mut items)?;
    let distinct = distinct(compiler, &from.scope, ast, (&mut items, &order))?;
    let mut having = having;
    let (grouping, windows) = grouped(compiler, (&from.scope, ast), &mut items, &mut having)?;
    let Some(state) = &mut compiler.tree else { return Err(Stop::General("a query of this kind")) };
    let node = part.map(|part| Placing { state: &mut *state, from: &from }.whole(part, conditions.clone()));
    let places = state.places.len();
    state.places.push((from.places, from.scans));
    let visible = order.visible;
    let field = |item: &Item| Field { name: item.name.clone(), ty: item.value.ty, column: item.origin };
    let fields = items[..visible].iter().map(field).collect();
    let select = Select {
        places,
        relations: from.scope.relations.len(),
        from: match node {
            Some(node) => Some(node),
            None if conditions.is_empty() => None,
            None => return Err(Stop::General("WHERE without FROM")),
        },
        grouping,
        having,
        windows,
        items: items.into_iter().map(|item| item.value.expr).collect(),
        distinct,
    };
    let body = Body::Select(Box::new(select));
    let order = order.keys.iter().map(key_of).collect();
    let query = Query { body, order, limit: None, offset: None, width: visible };
    Ok(Bound { query, fields })
}

/// The groups of a select, and its windows. What is over groups names keys and aggregates only.
fn grouped(
    compiler: &mut Compiler<'_>,
    (scope, ast): (&Scope, &ast::Select),
    items: &mut [Item],
    having: &mut Option<Expr>,
) -> Result<(Option<Grouping>, Vec<Window>), Stop> {
    let calls = compiler.aggregates.take().unwrap_or_default();
    let binding = Binding { compiler: &mut *compiler, scope, items, keys: Vec::new() };
    let keys = binding.clause(&ast.group_by)?;
    let Some(state) = &mut compiler.tree else { return Err(Stop::General("a query of this kind")) };
    let mut windows = state.windows.take().unwrap_or_default();
    let mut orders = std::mem::take(&mut state.orders).into_iter();
    let has_groups = !keys.keys.is_empty() || !keys.sets.is_empty() || !state.groupings.is_empty();
    if !has_groups && calls.is_empty() && having.is_none() {
        return Ok((None, windows));
    }
    let sets = with_groupings(state, &keys)?;
    let aggregates: Vec<Aggregated> =
        calls.into_iter().map(|call| Aggregated { call, order: orders.next().unwrap_or_default() }).collect();
    let groups = Groups { state, scope, keys: &keys.keys, has_sets: !sets.is_empty() };
    items.iter().map(|item| &item.value.expr).chain(&*having).try_for_each(|expr| groups.check(expr))?;
    windows.iter().try_for_each(|window| groups.check_window(window))?;
    if !sets.is_empty() {
        let values = items.iter_mut().map(|item| &mut item.value.expr).chain(having);
        let values = values.chain(windows.iter_mut().flat_map(exprs_of));
        values.for_each(|expr| placed(expr, &keys.keys, aggregates.len()));
    }
    Ok((Some(Grouping { keys: keys.keys, aggregates, sets }), windows))
}

fn key_of(key: &SortKey) -> Key {
    let SortKey { column, descending, nulls_first } = *key;
    Key { column: usize::from(column), descending, nulls_first }
}

fn refuse(ast: &ast::Select) -> Result<(), Stop> {
    if ast.into.is_some() {
        let hint = Some("Create the table, then INSERT ... SELECT.");
        return Err(SqlError::unsupported("SELECT INTO", hint).into());
    }
    if ast.top.is_some() || ast.qualify.is_some() || !ast.lateral_views.is_empty() || ast.prewhere.is_some() {
        return Err(Stop::General("a query of this kind"));
    }
    Ok(())
}

fn distinct(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    ast: &ast::Select,
    (items, order): (&mut Vec<Item>, &Ordering),
) -> Result<Distinct, Stop> {
    let told = |message: &str| SqlError::new(INVALID_COLUMN_REFERENCE, message);
    Ok(match &ast.distinct {
        None | Some(ast::Distinct::All) => Distinct::No,
        Some(ast::Distinct::Distinct) if items.len() > order.visible => {
            let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
            return Err(told(message).into());
        }
        Some(ast::Distinct::Distinct) => Distinct::Rows,
        Some(ast::Distinct::On(exprs)) => {
            let mut on = Vec::with_capacity(exprs.len());
            for expr in exprs {
                on.push(crate::items::item_of(compiler, scope, expr, (items, order.visible), "DISTINCT ON")?);
            }
            let first = order.keys.iter().take(on.len());
            if !first.map(|key| usize::from(key.column)).all(|column| on.contains(&column)) {
                let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
                return Err(told(message).into());
            }
            Distinct::On(on)
        }
    })
}

/// What is checked of expressions over groups.
struct Groups<'g> {
    state: &'g State,
    scope: &'g Scope,
    keys: &'g [Expr],
    /// Whether a key may be null in some groups.
    has_sets: bool,
}

/// The expressions of a window over its rows.
fn exprs_of(window: &mut Window) -> impl Iterator<Item = &mut Expr> {
    let order = window.order.iter_mut().map(|by| &mut by.expr);
    window.args.iter_mut().chain(&mut window.partition).chain(&mut window.filter).chain(order)
}

impl Groups<'_> {
    fn check(&self, expr: &Expr) -> Result<(), SqlError> {
        if self.keys.contains(expr) {
            return Ok(());
        }
        if let Expr::Column(column) = expr {
            return match *column {
                column if column < OUTER => self.check_column(column),
                column if (SUB..AGGREGATES).contains(&column) => self.check_sub(column - SUB),
                _ => Ok(()),
            };
        }
        let mut result = Ok(());
        children(expr, &mut |inner| {
            if result.is_ok() {
                result = self.check(inner);
            }
        });
        result
    }

    fn check_window(&self, window: &Window) -> Result<(), SqlError> {
        let order = window.order.iter().map(|by| &by.expr);
        window
            .args
            .iter()
            .chain(&window.partition)
            .chain(&window.filter)
            .chain(order)
            .try_for_each(|expr| self.check(expr))
    }

    /// A column is a key, or of a table of which the whole primary key is among the keys.
    fn check_column(&self, column: u16) -> Result<(), SqlError> {
        let is_key = |column: u16| self.keys.contains(&Expr::Column(column));
        let relation = self.scope.relations.iter().rfind(|relation| relation.offset <= column);
        let depends = relation.is_some_and(|relation| {
            let key = &relation.stored.key;
            !key.is_empty() && key.iter().all(|column| is_key(relation.offset + column))
        });
        let depends = depends && !self.has_sets;
        if is_key(column) || depends { Ok(()) } else { Err(ungrouped(self.scope, column)) }
    }

    fn check_sub(&self, number: u16) -> Result<(), SqlError> {
        let Some(sub) = self.state.subs.get(usize::from(number)) else { return Ok(()) };
        let has_left = matches!(&sub.what, Asked::Comparison { .. });
        if self.has_sets && (has_left || sub.free.iter().any(|outer| outer.depth == 0)) {
            let what = "a sub-query that needs a key, with several sets of keys";
            return Err(SqlError::unsupported(what, Some("Group in a query in FROM.")));
        }
        for outer in sub.free.iter().filter(|outer| outer.depth == 0) {
            self.check_column(outer.column).map_err(|error| {
                let name = error.message.split('"').nth(1).unwrap_or_default();
                let message = format!("subquery uses ungrouped column \"{name}\" from outer query");
                SqlError::new(SqlState::GROUPING_ERROR, message)
            })?;
        }
        match &sub.what {
            Asked::Comparison { left, .. } => left.iter().try_for_each(|expr| self.check(expr)),
            _ => Ok(()),
        }
    }
}

/// Puts conditions where they are checked first.
pub struct Placing<'p> {
    pub state: &'p mut State,
    pub from: &'p From,
}

impl Placing<'_> {
    fn whole(mut self, part: Part, conditions: Vec<Expr>) -> Node {
        let part = self.reduce(part, &conditions);
        // Conditions that name no relation are checked once for each row at the top.
        let (bare, conditions) = self.split(conditions, |bits| bits == 0);
        let node = self.place(part, conditions);
        filtered(node, bare)
    }

    fn bits(&self, expr: &Expr) -> u64 {
        relations(self.state, &self.from.scope, expr)
    }

    fn split(&self, conditions: Vec<Expr>, is_first: impl Fn(u64) -> bool) -> (Vec<Expr>, Vec<Expr>) {
        conditions.into_iter().partition(|expr| is_first(self.bits(expr)))
    }

    /// Outer joins of which a condition refuses the rows without a partner become inner ones.
    fn reduce(&self, part: Part, conditions: &[Expr]) -> Part {
        let Part::Join(join) = part else { return part };
        let Join { left, right, on, mut keeps_left, mut keeps_right } = *join;
        let refuses = |part: &Part| {
            let of_part = bits_of(part);
            let mut relations = self.from.scope.relations.iter().enumerate();
            relations.any(|(at, relation)| {
                let range = relation.offset..relation.offset + relation.width();
                of_part & 1 << at != 0 && conditions.iter().any(|condition| refuses_null(condition, &range))
            })
        };
        keeps_left = keeps_left && !refuses(&right);
        keeps_right = keeps_right && !refuses(&left);
        let mut both = conditions.to_vec();
        both.extend(on.iter().cloned());
        let is_inner = !keeps_left && !keeps_right;
        let of_left = if is_inner || !keeps_left && keeps_right { &both[..] } else { conditions };
        let of_right = if is_inner || keeps_left && !keeps_right { &both[..] } else { conditions };
        let left = self.reduce(left, if keeps_left && keeps_right { conditions } else { of_left });
        let right = self.reduce(right, if keeps_left && keeps_right { conditions } else { of_right });
        Part::Join(Box::new(Join { left, right, on, keeps_left, keeps_right }))
    }

    fn place(&mut self, part: Part, conditions: Vec<Expr>) -> Node {
        match part {
            Part::Leaf { relation, source, .. } => Node::Leaf(self.leaf(relation, source, conditions)),
            Part::Join(join) if join.keeps_left || join.keeps_right => self.outer(*join, conditions),
            part => self.inner(part, conditions),
        }
    }

    fn inner(&mut self, part: Part, mut conditions: Vec<Expr>) -> Node {
        let mut parts = Vec::new();
        flatten(part, &mut parts, &mut conditions);
        let in_order = parts.iter().any(is_lateral);
        let (bare, mut conditions) = self.split(conditions, |bits| bits == 0);
        let mut nodes = Vec::with_capacity(parts.len());
        for part in parts {
            let bits = bits_of(&part);
            let (own, others) = self.split(conditions, |of| of & !bits == 0);
            conditions = others;
            nodes.push(self.place(part, own));
        }
        let conditions = conditions.into_iter();
        let conditions = conditions.map(|expr| condition(self.state, &self.from.scope, expr)).collect();
        filtered(Node::Inner { parts: nodes, conditions, in_order }, bare)
    }

    fn outer(&mut self, join: Join, conditions: Vec<Expr>) -> Node {
        let Join { left, right, on, keeps_left, keeps_right } = join;
        let (of_left, of_right) = (bits_of(&left), bits_of(&right));
        // A side of which all rows stay takes conditions on the result; the other one, those of ON.
        let is_both = keeps_left && keeps_right;
        let takes =
            |part: u64, is_kept: bool| move |bits: u64| is_kept && !is_both && bits != 0 && bits & !part == 0;
        let (to_left, above) = self.split(conditions, takes(of_left, keeps_left));
        let (to_right, above) = self.split(above, takes(of_right, keeps_right));
        let (on_left, on) = self.split(on, takes(of_left, keeps_right));
        let (on_right, on) = self.split(on, takes(of_right, keeps_left));
        let lateral = is_lateral(&right);
        let left = self.place(left, to_left.into_iter().chain(on_left).collect());
        let right = self.place(right, to_right.into_iter().chain(on_right).collect());
        let mut outer = OuterJoin {
            left,
            right,
            keeps_left,
            keeps_right,
            equal: Vec::new(),
            conditions: Vec::new(),
            is_lateral: lateral,
        };
        for expr in on {
            match across(self.state, &self.from.scope, &expr, (of_left, of_right)) {
                Some(pair) => outer.equal.push(pair),
                None => outer.conditions.push(expr),
            }
        }
        filtered(Node::Outer(Box::new(outer)), above)
    }
}

impl Placing<'_> {
    /// A leaf with the conditions on its rows.
    pub fn leaf(&mut self, relation: usize, source: Source, conditions: Vec<Expr>) -> Leaf {
        let mut leaf = Leaf { relation: relation as u16, source, lookup: Vec::new(), conditions: Vec::new() };
        for condition in conditions {
            if super::condition::is_plain(&condition) && crate::walk::is_stable(&condition) {
                let local = super::scan::local(&self.from.scope, relation, condition.clone());
                match &mut leaf.source {
                    Source::Scan(scan) => {
                        self.state.scans[*scan].conditions.push(local);
                        continue;
                    }
                    Source::Query { query, is_lateral: false } => push(self.state, query, &local),
                    _ => {}
                }
            }
            match self.lookup(&condition, relation) {
                Some(pair) => leaf.lookup.push(pair),
                None => leaf.conditions.push(condition),
            }
        }
        leaf
    }

    /// The condition as an equality of a value of the leaf's row and one from outside.
    fn lookup(&self, condition: &Expr, relation: usize) -> Option<(Expr, Expr)> {
        let own = 1 << relation;
        let [(a, of_a), (b, of_b)] = super::condition::sides(self.state, &self.from.scope, condition)?;
        let is_local = |expr: &Expr, bits: u64| bits == own && super::condition::is_plain(expr);
        if is_local(&a, of_a) && of_b == 0 && !super::condition::is_plain(&b) {
            Some((a, b))
        } else if is_local(&b, of_b) && of_a == 0 && !super::condition::is_plain(&a) {
            Some((b, a))
        } else {
            None
        }
    }
}

fn filtered(node: Node, conditions: Vec<Expr>) -> Node {
    if conditions.is_empty() { node } else { Node::Filter { input: Box::new(node), conditions } }
}

fn flatten(part: Part, parts: &mut Vec<Part>, conditions: &mut Vec<Expr>) {
    match part {
        Part::Join(join) if !join.keeps_left && !join.keeps_right => {
            let Join { left, right, on, .. } = *join;
            conditions.extend(on);
            flatten(left, parts, conditions);
            flatten(right, parts, conditions);
        }
        part => parts.push(part),
    }
}

/// The relations of a part, a bit each.
fn bits_of(part: &Part) -> u64 {
    match part {
        Part::Leaf { relation, .. } => 1 << relation,
        Part::Join(join) => bits_of(&join.left) | bits_of(&join.right),
    }
}

/// The number of windows that a select has so far.
pub fn window_column(count: usize) -> Result<Expr, Stop> {
    let at = u16::try_from(count).ok().filter(|at| *at < u16::MAX - WINDOWS);
    let at = at.ok_or_else(|| Stop::from(syntax("too many window functions")))?;
    Ok(Expr::Column(WINDOWS + at))
}
