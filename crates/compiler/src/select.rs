//! `SELECT`.

use crate::Stop;
use crate::coerce::{How, Typed};
use crate::compiled::Field;
use crate::error::{INVALID_COLUMN_REFERENCE, syntax};
use crate::expressions::{AGGREGATES, Compiler};
use crate::items::{Item, Ordering, items, ordering, position};
use crate::names::{Scope, folded, parts};
use crate::sources::{From, Plan};
use crate::tables::Cache;
use crate::walk::{all_of, children_mut, conjuncts};
use sql::catalog::Oid;
use sql::program::{AggregateCall, Grouping, Output, RowLock, Select, SortKey};
use sql::{Datum, Expr, SqlError, SqlState, SqlType};
use sqlparser::ast::{self, GroupByExpr, SetExpr};

/// A query with the columns that a client gets.
pub struct Selected {
    pub select: Select,
    pub fields: Vec<Field>,
    pub tables: Vec<Oid>,
    pub is_locking: bool,
}

pub fn query(compiler: &mut Compiler<'_>, cache: &mut Cache, query: &ast::Query) -> Result<Selected, Stop> {
    if query.with.is_some() {
        return Err(Stop::General("WITH"));
    }
    if query.for_clause.is_some() || !query.pipe_operators.is_empty() || query.settings.is_some() {
        return Err(Stop::General("a query of this kind"));
    }
    match query.body.as_ref() {
        SetExpr::Select(select) => Selecting { compiler, cache, query, select }.run(),
        SetExpr::Query(inner) if crate::sources::is_plain(query) => self::query(compiler, cache, inner),
        SetExpr::Values(values) => self::values(compiler, query, values),
        SetExpr::SetOperation { .. } => Err(Stop::General("a set operation")),
        SetExpr::Query(_) => Err(Stop::General("a query in parentheses")),
        _ => Err(Stop::General("a query of this kind")),
    }
}

/// `VALUES` as a query.
fn values(compiler: &mut Compiler<'_>, query: &ast::Query, values: &ast::Values) -> Result<Selected, Stop> {
    if query.order_by.is_some() {
        return Err(Stop::General("an ordered VALUES list"));
    }
    let (rows, types) = crate::sources::rows_of_values(compiler, values)?;
    let columns: Vec<(String, SqlType)> =
        types.iter().enumerate().map(|(at, ty)| (format!("column{}", at + 1), *ty)).collect();
    let mut from = From::default();
    from.unstored("*VALUES*", columns.clone(), None, sql::program::Path::Values(rows))?;
    let (plan, _) = from.plan(None, 0, &[], false)?;
    let output = columns.iter().zip(0_u16..).map(|((name, ty), at)| Output {
        name: name.clone(),
        expr: Expr::Column(at),
        ty: *ty,
    });
    let (limit, offset) = limits(compiler, query)?;
    let fields =
        columns.iter().map(|(name, ty)| Field { name: name.clone(), ty: *ty, column: None }).collect();
    let select = Select { output: output.collect(), limit, offset, ..over(plan) };
    Ok(Selected { select, fields, tables: Vec::new(), is_locking: false })
}

/// A query of all joined rows, without output.
pub fn over(plan: Plan) -> Select {
    Select {
        sources: plan.sources,
        grouping: None,
        having: plan.rest,
        output: Vec::new(),
        distinct: false,
        order: Vec::new(),
        is_ordered: false,
        limit: None,
        offset: None,
        hidden: 0,
    }
}

struct Selecting<'c, 'a, 'q> {
    compiler: &'c mut Compiler<'a>,
    cache: &'c mut Cache,
    query: &'q ast::Query,
    select: &'q ast::Select,
}

impl Selecting<'_, '_, '_> {
    fn run(mut self) -> Result<Selected, Stop> {
        self.refuse()?;
        let targets = std::mem::take(&mut self.compiler.targets);
        let mut from = From { is_stored: !targets.is_empty(), ..From::default() };
        from.add(self.compiler, self.cache, &self.select.from)?;
        let condition = self.select.selection.as_ref();
        let condition = condition.map(|c| self.compiler.condition(&from.scope, c, "WHERE")).transpose()?;
        self.compiler.aggregates = Some(Vec::new());
        self.compiler.targets = targets;
        let mut items = self.items(&from.scope)?;
        let having = self.select.having.as_ref();
        let having = having.map(|h| self.compiler.condition(&from.scope, h, "HAVING")).transpose()?;
        let mut order = ordering(self.compiler, &from.scope, self.query.order_by.as_ref(), &mut items)?;
        let aggregates = self.compiler.aggregates.take().unwrap_or_default();
        let keys = group_keys(self.compiler, &from.scope, &self.select.group_by, &items)?;
        let is_grouped = !keys.is_empty() || !aggregates.is_empty() || having.is_some();
        let hidden = items.len() - order.visible;
        let distinct = self.distinct(hidden)?;
        let (limit, offset) = limits(self.compiler, self.query)?;
        let is_locking = self.lock(&mut from)?;
        if is_locking && (is_grouped || distinct) {
            let message = "FOR UPDATE is not allowed with GROUP BY, aggregates or DISTINCT";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
        }
        let by_path =
            if is_grouped || distinct { Vec::new() } else { path_order(&from.scope, &order, &items) };
        let tables = std::mem::take(&mut from.tables);
        let (plan, scope) = from.plan(condition, 0, &by_path, limit.is_some())?;
        let is_ordered = !by_path.is_empty() && plan.is_ordered;
        let mut select = self.output(&scope, plan, items, (keys, aggregates, is_grouped), having)?;
        let fields = select.1;
        select.0.is_ordered = is_ordered;
        select.0.order = std::mem::take(&mut order.keys);
        (select.0.distinct, select.0.limit, select.0.offset) = (distinct, limit, offset);
        select.0.hidden = u16::try_from(hidden).unwrap_or(u16::MAX);
        Ok(Selected { select: select.0, fields, tables, is_locking })
    }

    fn refuse(&self) -> Result<(), Stop> {
        let select = self.select;
        if select.into.is_some() {
            return Err(SqlError::unsupported(
                "SELECT INTO",
                Some("Create the table, then INSERT ... SELECT."),
            )
            .into());
        }
        if select.top.is_some()
            || select.qualify.is_some()
            || !select.lateral_views.is_empty()
            || select.prewhere.is_some()
        {
            return Err(Stop::General("a query of this kind"));
        }
        if !select.named_window.is_empty() {
            return Err(Stop::General("a window"));
        }
        Ok(())
    }

    fn items(&mut self, scope: &Scope) -> Result<Vec<Item>, Stop> {
        items(self.compiler, scope, &self.select.projection)
    }

    fn distinct(&self, hidden: usize) -> Result<bool, Stop> {
        match &self.select.distinct {
            None | Some(ast::Distinct::All) => Ok(false),
            Some(ast::Distinct::On(_)) => Err(Stop::General("DISTINCT ON")),
            Some(ast::Distinct::Distinct) if hidden > 0 => {
                let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                Err(SqlError::new(INVALID_COLUMN_REFERENCE, message).into())
            }
            Some(ast::Distinct::Distinct) => Ok(true),
        }
    }

    fn lock(&self, from: &mut From) -> Result<bool, Stop> {
        for lock in &self.query.locks {
            let wanted = match lock.nonblock {
                None => RowLock::Update,
                Some(ast::NonBlock::Nowait) => RowLock::NoWait,
                Some(ast::NonBlock::SkipLocked) if from.kinds.len() == 1 => RowLock::Skip,
                Some(ast::NonBlock::SkipLocked) => {
                    let hint = "Lock rows of one table, and read the others by another statement.";
                    return Err(SqlError::unsupported("SKIP LOCKED of a join", Some(hint)).into());
                }
            };
            let named = lock.of.as_ref().map(|name| parts(name).pop().unwrap_or_default());
            if let Some(name) = &named {
                from.scope.relation(name)?;
            }
            for kind in &mut from.kinds {
                let relation = &from.scope.relations[kind.owner];
                if named.as_ref().is_none_or(|name| *name == relation.name) && kind.path.is_none() {
                    kind.lock = wanted;
                }
            }
        }
        Ok(!self.query.locks.is_empty())
    }

    /// The output over the joined row, or over the groups' row.
    fn output(
        &mut self,
        scope: &Scope,
        plan: Plan,
        items: Vec<Item>,
        (keys, aggregates, is_grouped): (Vec<Expr>, Vec<AggregateCall>, bool),
        having: Option<Expr>,
    ) -> Result<(Select, Vec<Field>), Stop> {
        let visible = items.len();
        let mut fields = Vec::with_capacity(visible);
        let mut output = Vec::with_capacity(visible);
        let mut groups = Groups { scope, keys, aggregates };
        groups.add_dependent(&items, having.as_ref());
        let mut having = having;
        for Item { name, value, origin } in items {
            let Typed { mut expr, ty } = value;
            if is_grouped {
                groups.regroup(&mut expr)?;
            } else {
                plan.place(&mut expr);
            }
            if !name.is_empty() {
                fields.push(Field { name: name.clone(), ty, column: origin });
            }
            output.push(Output { name, expr, ty });
        }
        if let Some(having) = &mut having {
            groups.regroup(having)?;
        }
        let Groups { mut keys, mut aggregates, .. } = groups;
        keys.iter_mut().for_each(|key| plan.place(key));
        for aggregate in &mut aggregates {
            aggregate.args.iter_mut().chain(&mut aggregate.filter).for_each(|expr| plan.place(expr));
        }
        if is_grouped && plan.rest.is_some() {
            return Err(Stop::General("a condition after an outer join"));
        }
        let mut conditions = Vec::new();
        having.into_iter().for_each(|having| conjuncts(having, &mut conditions));
        let mut select = over(plan);
        select.grouping = is_grouped.then_some(Grouping { keys, aggregates });
        select.having = match select.having.take() {
            Some(rest) => Some(rest),
            None => all_of(conditions),
        };
        select.output = output;
        Ok((select, fields))
    }
}

/// `GROUP BY`: positions and names of the output, or expressions.
///
/// # Errors
/// Those of the expressions; `42803` for aggregates.
pub fn group_keys(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    clause: &GroupByExpr,
    items: &[Item],
) -> Result<Vec<Expr>, Stop> {
    let GroupByExpr::Expressions(exprs, modifiers) = clause else {
        return Err(Stop::General("GROUP BY ALL"));
    };
    if !modifiers.is_empty() {
        return Err(Stop::General("grouping sets"));
    }
    let mut keys = Vec::with_capacity(exprs.len());
    for expr in exprs {
        let key = key_of_group(compiler, scope, expr, items)?;
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    Ok(keys)
}

/// A key of `GROUP BY`: a position or name of the output, or an expression.
///
/// # Errors
/// Those of [`group_keys`].
pub fn key_of_group(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    expr: &ast::Expr,
    items: &[Item],
) -> Result<Expr, Stop> {
    let key = match position(expr, items.len(), "GROUP BY")? {
        Some(at) => items[at].value.expr.clone(),
        None => group_key(compiler, scope, items, expr)?,
    };
    if !crate::walk::all_columns(&key, &|column| column < AGGREGATES) {
        let message = "aggregate functions are not allowed in GROUP BY";
        return Err(SqlError::new(SqlState::GROUPING_ERROR, message).into());
    }
    Ok(key)
}

/// A name is a column first, an output's alias second.
fn group_key(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    items: &[Item],
    expr: &ast::Expr,
) -> Result<Expr, Stop> {
    let alias = match expr {
        ast::Expr::Identifier(ident) if !scope.has_column(&folded(ident)) => {
            items.iter().find(|item| item.name == folded(ident))
        }
        _ => None,
    };
    match alias {
        Some(item) => Ok(item.value.expr.clone()),
        None => {
            let value = compiler.expr(scope, expr)?;
            Ok(compiler.params.settle(value)?.expr)
        }
    }
}

/// The order as columns of the only relation; empty if it is not of that kind.
fn path_order(scope: &Scope, order: &Ordering, items: &[Item]) -> Vec<(u16, bool)> {
    if scope.relations.len() != 1 {
        return Vec::new();
    }
    let column = |key: &SortKey| match items[usize::from(key.column)].value.expr {
        Expr::Column(column) if key.nulls_first == key.descending => Some((column, key.descending)),
        _ => None,
    };
    order.keys.iter().map(column).collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// The row of a group: its keys, then the aggregates.
struct Groups<'s> {
    scope: &'s Scope,
    keys: Vec<Expr>,
    aggregates: Vec<AggregateCall>,
}

impl Groups<'_> {
    /// Where a table's whole primary key is among the keys, its other columns have one value for
    /// each group: they become keys too.
    fn add_dependent(&mut self, items: &[Item], having: Option<&Expr>) {
        let mut more = Vec::new();
        for relation in &self.scope.relations {
            let key = &relation.stored.key;
            let is_key = |column: &u16| self.keys.contains(&Expr::Column(relation.offset + column));
            if key.is_empty() || !key.iter().all(is_key) {
                continue;
            }
            let columns = (relation.offset..relation.offset + relation.width()).map(Expr::Column);
            more.extend(columns.filter(|column| !self.keys.contains(column)));
        }
        let exprs = || items.iter().map(|item| &item.value.expr).chain(having);
        let is_used = |column: &Expr| {
            exprs().any(|expr| !crate::walk::all_columns(expr, &|used| Expr::Column(used) != *column))
        };
        self.keys.extend(more.into_iter().filter(is_used));
    }

    /// An expression over the joined row and aggregates becomes one over the groups' row.
    fn regroup(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        if let Some(at) = self.keys.iter().position(|key| key == expr) {
            *expr = Expr::Column(at as u16);
            return Ok(());
        }
        match expr {
            Expr::Column(column) if *column >= AGGREGATES => {
                *column = *column - AGGREGATES + self.keys.len() as u16;
                Ok(())
            }
            Expr::Column(column) => Err(ungrouped(self.scope, *column)),
            _ => {
                let mut result = Ok(());
                children_mut(expr, &mut |inner| {
                    if result.is_ok() {
                        result = self.regroup(inner);
                    }
                });
                result
            }
        }
    }
}

/// The error for a column of no group.
pub fn ungrouped(scope: &Scope, column: u16) -> SqlError {
    let relation = scope.relations.iter().rfind(|relation| relation.offset <= column);
    let name = relation.and_then(|relation| {
        let column = relation.columns.iter().find(|named| match &named.value {
            Some(value) => !crate::walk::all_columns(value, &|used| used != column),
            None => named.position + relation.offset == column,
        })?;
        Some(format!("{}.{}", relation.name, column.name))
    });
    let name = name.unwrap_or_default();
    let message =
        format!("column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function");
    SqlError::new(SqlState::GROUPING_ERROR, message)
}

/// `LIMIT`, `OFFSET`, `FETCH`.
pub fn limits(compiler: &mut Compiler<'_>, query: &ast::Query) -> Result<(Option<Expr>, Option<Expr>), Stop> {
    let (mut limit, mut offset) = match &query.limit_clause {
        None => (None, None),
        Some(ast::LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
        }
        Some(_) => {
            return Err(syntax("LIMIT #,# syntax is not supported")
                .with_hint("Use separate LIMIT and OFFSET clauses.")
                .into());
        }
    };
    let one = ast::Expr::value(ast::Value::Number("1".into(), false));
    if let Some(fetch) = &query.fetch {
        if fetch.with_ties || fetch.percent {
            return Err(Stop::General("FETCH WITH TIES"));
        }
        limit = Some(fetch.quantity.as_ref().unwrap_or(&one));
    }
    if matches!(limit, Some(ast::Expr::Identifier(ident)) if folded(ident) == "all") {
        limit = None;
    }
    let scope = Scope::default();
    let mut count = |expr: &mut Option<&ast::Expr>, clause: &str| {
        let Some(expr) = expr else { return Ok(None) };
        let value = compiler.expr(&scope, expr)?;
        if value.expr == Expr::Const(Datum::Null) {
            return Ok(None);
        }
        let allowed = crate::types::is_number(value.ty) || value.ty == SqlType::Unknown;
        if !allowed {
            let message = format!(
                "argument of {clause} must be type bigint, not type {}",
                crate::types::name_of(value.ty)
            );
            return Err(Stop::from(crate::error::mismatch(message)));
        }
        Ok(Some(compiler.params.coerce(value, SqlType::Int8, How::Assigned)?))
    };
    Ok((count(&mut limit, "LIMIT")?, count(&mut offset, "OFFSET")?))
}
