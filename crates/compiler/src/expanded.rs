//! Views and queries in `FROM`, expanded.
//!
//! A select of tables with a condition, and no more, is expanded: the statement searches its tables
//! itself, under its condition and those of the statement. So a key that the statement names is
//! found through a view.
//!
//! ```text
//!   FROM v JOIN o ...      v: SELECT a.k, a.x + b.x AS s FROM a JOIN b ON ... WHERE ...
//!
//!   relations    v = a            (b)            o
//!   names        v.k, v.s         none           o.*
//!   s            is a.x + b.x wherever the statement names it
//! ```
//!
//! Queries that group, sort, cut or combine rows are left to trees.

use crate::Stop;
use crate::expressions::Compiler;
use crate::items::{Item, items};
use crate::names::{Named, folded};
use crate::sources::{From, is_plain, rename};
use crate::tables::Cache;
use crate::walk::{conjuncts, is_stable, renumber};
use sql::Expr;
use sql::catalog::Procedure;
use sqlparser::ast::{self, GroupByExpr, SetExpr, TableAlias};

/// What a query in `FROM` is, over the joined row of its own relations.
struct Expanded {
    from: From,
    columns: Vec<Named>,
}

impl From {
    /// The relations of a view, of which only the view's own columns can be named.
    pub fn view(
        &mut self,
        compiler: &mut Compiler<'_>,
        cache: &mut Cache,
        view: &Procedure,
        alias: Option<&TableAlias>,
    ) -> Result<(), Stop> {
        let parsed = crate::views::parsed(view)?;
        let query = crate::views::query(&parsed).ok_or(Stop::General("a view without a query"))?;
        // Names in the view's text mean what they meant where it was made.
        let (frame, place) = (compiler.frame.take(), compiler.place);
        let expanded = compiler.deeper(|compiler| expanded(compiler, cache, query));
        (compiler.frame, compiler.place) = (frame, place);
        let Expanded { mut from, columns } = expanded?;
        let mut own = Vec::with_capacity(view.params.len());
        for column in &view.params {
            let found = columns.iter().find(|known| known.name == column.name);
            own.push(found.cloned().ok_or_else(|| crate::error::no_column(&column.name))?);
        }
        from.tables.push(view.oid);
        self.splice(&view.name, alias, Expanded { from, columns: own })
    }

    /// The relations of a query in `FROM`.
    pub fn derived(
        &mut self,
        compiler: &mut Compiler<'_>,
        cache: &mut Cache,
        query: &ast::Query,
        alias: Option<&TableAlias>,
    ) -> Result<(), Stop> {
        let expanded = compiler.deeper(|compiler| expanded(compiler, cache, query))?;
        match alias {
            Some(alias) if alias.columns.len() <= expanded.columns.len() => {
                self.splice("", Some(alias), expanded)
            }
            _ => Err(Stop::General("a derived table")),
        }
    }

    /// Puts the relations behind those that are here. The first one has the name and the columns.
    fn splice(&mut self, name: &str, alias: Option<&TableAlias>, expanded: Expanded) -> Result<(), Stop> {
        let Expanded { from, columns } = expanded;
        let (at, offset) = (self.scope.relations.len(), self.scope.width());
        let moved = |expr: &mut Expr| renumber(expr, &|column| column.saturating_add(offset));
        let mut columns = Some(columns);
        for (inner, (mut relation, mut kind)) in from.scope.relations.into_iter().zip(from.kinds).enumerate()
        {
            relation.columns = columns.take().unwrap_or_default();
            relation.columns.iter_mut().filter_map(|column| column.value.as_mut()).for_each(moved);
            relation.name = match (inner, alias) {
                (0, Some(alias)) => folded(&alias.name),
                (0, None) => name.to_owned(),
                // No identifier has this name.
                _ => format!("\0{at}.{inner}"),
            };
            if inner == 0 {
                rename(&mut relation, alias);
            }
            (relation.is_open, relation.oid) = (inner == 0, None);
            relation.offset = self.scope.width();
            self.push(relation, kind.path.take())?;
            kind.outer.iter_mut().flatten().for_each(moved);
            if let Some(last) = self.kinds.last_mut() {
                (last.outer, last.owner) = (kind.outer, at);
            }
        }
        let mut conditions = from.conditions;
        conditions.iter_mut().for_each(moved);
        self.conditions.extend(conditions);
        self.tables.extend(from.tables);
        Ok(())
    }
}

fn expanded(compiler: &mut Compiler<'_>, cache: &mut Cache, query: &ast::Query) -> Result<Expanded, Stop> {
    let select = tables_and_condition(query).ok_or(Stop::General("a derived table"))?;
    let (aggregates, targets) = (compiler.aggregates.take(), std::mem::take(&mut compiler.targets));
    let fills = compiler.fills.len();
    let bound = bound(compiler, cache, select);
    let found = std::mem::replace(&mut compiler.aggregates, aggregates);
    compiler.targets = targets;
    let (from, items) = bound?;
    if found.is_some_and(|found| !found.is_empty()) {
        return Err(Stop::General("groups in a derived table"));
    }
    let exprs = || items.iter().map(|item| &item.value.expr).chain(&from.conditions);
    if compiler.fills.len() > fills || !exprs().all(is_stable) {
        return Err(Stop::General("a value of its own for each row of a derived table"));
    }
    let width = from.scope.width();
    let columns = items.into_iter().map(|item| named(item, width)).collect();
    Ok(Expanded { from, columns })
}

fn bound(
    compiler: &mut Compiler<'_>,
    cache: &mut Cache,
    select: &ast::Select,
) -> Result<(From, Vec<Item>), Stop> {
    let mut from = From::default();
    from.add(compiler, cache, &select.from)?;
    if let Some(condition) = &select.selection {
        conjuncts(compiler.condition(&from.scope, condition, "WHERE")?, &mut from.conditions);
    }
    compiler.aggregates = Some(Vec::new());
    let items = items(compiler, &from.scope, &select.projection)?;
    Ok((from, items))
}

/// A column of the first relation as it is, or the value that stands for it.
fn named(item: Item, width: u16) -> Named {
    let Item { name, value, .. } = item;
    let (position, expr) = match value.expr {
        Expr::Column(column) if column < width => (column, None),
        expr => (0, Some(expr)),
    };
    Named { name, ty: value.ty, position, is_merged: false, value: expr }
}

/// The select, if the query is one over tables with no more than a condition.
fn tables_and_condition(query: &ast::Query) -> Option<&ast::Select> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let has_groups = !matches!(&select.group_by, GroupByExpr::Expressions(keys, modifiers)
        if keys.is_empty() && modifiers.is_empty());
    let is_more = has_groups
        || !is_plain(query)
        || query.for_clause.is_some()
        || !query.pipe_operators.is_empty()
        || query.settings.is_some()
        || select.from.is_empty()
        || select.having.is_some()
        || matches!(&select.distinct, Some(distinct) if *distinct != ast::Distinct::All)
        || select.into.is_some()
        || select.top.is_some()
        || select.qualify.is_some()
        || select.prewhere.is_some()
        || !select.lateral_views.is_empty()
        || !select.named_window.is_empty();
    (!is_more).then_some(select)
}
