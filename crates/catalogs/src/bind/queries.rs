//! Queries: `WITH`, set operations, selects, order and limits.

use super::{Binder, Computed, Named, Scope, With, folded, unsupported};
use crate::plan::{self, Body, Ex, Output, Query, Select, SetKind, SortKey, all_of, conjuncts, push_down};
use crate::value::Type;
use sql::{SqlError, SqlState};
use sqlparser::ast::{
    self, Distinct, GroupByExpr, LimitClause, OrderByKind, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, SetOperator, SetQuantifier,
};

impl Binder<'_> {
    pub(super) fn query(&mut self, query: &ast::Query, outer: Option<&Scope<'_>>) -> Result<Query, SqlError> {
        self.deeper(|binder| {
            let (reach, saved) = (binder.with.len(), binder.computed.take());
            let bound = binder.whole(query, outer);
            binder.with.truncate(reach);
            binder.computed = saved;
            bound
        })
    }

    fn whole(&mut self, query: &ast::Query, outer: Option<&Scope<'_>>) -> Result<Query, SqlError> {
        let mut with = Vec::new();
        for table in query.with.iter().flat_map(|clause| &clause.cte_tables) {
            let is_recursive = query.with.as_ref().is_some_and(|clause| clause.recursive);
            with.push(self.with_table(table, is_recursive, outer)?);
        }
        let mut bound = self.body(&query.body, query.order_by.as_ref(), outer)?;
        bound.with = with;
        if let Some(clause) = &query.limit_clause {
            let LimitClause::LimitOffset { limit, offset, .. } = clause else {
                return Err(unsupported("this form of LIMIT"));
            };
            let none = Scope { columns: Vec::new(), parent: outer };
            bound.limit = limit.as_ref().map(|limit| self.number(&none, limit)).transpose()?;
            bound.offset = offset.as_ref().map(|offset| self.number(&none, &offset.value)).transpose()?;
        }
        Ok(bound)
    }

    /// A common table expression, which is in reach from here on.
    fn with_table(
        &mut self,
        table: &ast::Cte,
        is_recursive: bool,
        outer: Option<&Scope<'_>>,
    ) -> Result<plan::With, SqlError> {
        let union = match table.query.body.as_ref() {
            SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, left, right } if is_recursive => {
                Some((left, right, *set_quantifier == SetQuantifier::All))
            }
            _ => None,
        };
        let Some((left, right, all)) = union else {
            let query = self.query(&table.query, outer)?;
            let number = self.reach(table, &query);
            return Ok(plan::With { number, query, step: None });
        };
        if table.query.with.is_some() || table.query.order_by.is_some() || table.query.limit_clause.is_some()
        {
            return Err(unsupported("WITH, ORDER BY or LIMIT in a recursive query"));
        }
        let first = self.apart(|binder| binder.body(left, None, outer))?;
        let number = self.reach(table, &first);
        let step = self.apart(|binder| binder.body(right, None, outer))?;
        if self.named.contains(&number) {
            return Ok(plan::With { number, query: first, step: Some((step, all)) });
        }
        // It is not recursive.
        let columns = first.columns.clone();
        let body = Body::Set { kind: SetKind::Union, all, left: first.into(), right: step.into() };
        Ok(plan::With { number, query: plain(body, columns), step: None })
    }

    /// Binds something with aggregates of its own.
    fn apart<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T, SqlError>) -> Result<T, SqlError> {
        let saved = self.computed.take();
        let bound = self.deeper(bind);
        self.computed = saved;
        bound
    }

    /// The name of the expression means the rows of the query. Returns its number.
    fn reach(&mut self, table: &ast::Cte, query: &Query) -> usize {
        let mut columns: Vec<(String, Type)> =
            query.columns.iter().map(|column| (column.name.clone(), column.ty)).collect();
        for (column, alias) in columns.iter_mut().zip(&table.alias.columns) {
            column.0 = folded(&alias.name);
        }
        let number = self.withs;
        self.withs += 1;
        self.with.push(With { name: folded(&table.alias.name), number, columns });
        number
    }

    fn number(&mut self, scope: &Scope<'_>, expr: &ast::Expr) -> Result<Ex, SqlError> {
        let (ex, ty) = self.expr(scope, expr)?;
        self.decide(&ex, ty, Type::INT8);
        Ok(ex)
    }

    fn body(
        &mut self,
        body: &SetExpr,
        order: Option<&ast::OrderBy>,
        outer: Option<&Scope<'_>>,
    ) -> Result<Query, SqlError> {
        let mut query = match body {
            SetExpr::Select(select) => return self.select(select, order, outer),
            SetExpr::Query(query) => self.query(query, outer)?,
            SetExpr::Values(values) => self.values(values, outer)?,
            SetExpr::SetOperation { op, set_quantifier, left, right } => {
                self.set(*op, *set_quantifier, (left, right), outer)?
            }
            _ => return Err(unsupported("a query of this kind")),
        };
        for (expr, descending, nulls_first) in keys(order)? {
            let column = match position(expr) {
                Some(number) if (1..=query.columns.len()).contains(&number) => number - 1,
                _ => {
                    let name = name_of(expr);
                    let at = query.columns.iter().position(|column| column.name == name);
                    at.ok_or_else(|| unsupported("ORDER BY an expression over a set operation"))?
                }
            };
            query.order.push(SortKey { column, descending, nulls_first });
        }
        Ok(query)
    }

    fn values(&mut self, values: &ast::Values, outer: Option<&Scope<'_>>) -> Result<Query, SqlError> {
        let scope = Scope { columns: Vec::new(), parent: outer };
        let mut rows = Vec::new();
        let mut columns: Vec<Output> = Vec::new();
        for row in &values.rows {
            let mut items = Vec::new();
            for (at, expr) in row.content.iter().enumerate() {
                let (ex, ty) = self.expr(&scope, expr)?;
                items.push(ex);
                match columns.get_mut(at) {
                    None => columns.push(Output { name: format!("column{}", at + 1), ty }),
                    Some(column) if column.ty == Type::UNKNOWN => column.ty = ty,
                    Some(_) => {}
                }
            }
            if items.len() != columns.len() {
                let message = "VALUES lists must all be the same length";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            rows.push(items);
        }
        Ok(plain(Body::Values(rows), columns))
    }

    fn set(
        &mut self,
        op: SetOperator,
        quantifier: SetQuantifier,
        (left, right): (&SetExpr, &SetExpr),
        outer: Option<&Scope<'_>>,
    ) -> Result<Query, SqlError> {
        let kind = match op {
            SetOperator::Union => SetKind::Union,
            SetOperator::Except | SetOperator::Minus => SetKind::Except,
            SetOperator::Intersect => SetKind::Intersect,
        };
        let left = self.body(left, None, outer)?;
        let right = self.body(right, None, outer)?;
        if left.columns.len() != right.columns.len() {
            let message = "each UNION query must have the same number of columns";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let mut columns = left.columns.clone();
        for (column, other) in columns.iter_mut().zip(&right.columns) {
            if column.ty == Type::UNKNOWN {
                column.ty = other.ty;
            }
        }
        let all = quantifier == SetQuantifier::All;
        Ok(plain(Body::Set { kind, all, left: left.into(), right: right.into() }, columns))
    }

    fn select(
        &mut self,
        select: &ast::Select,
        order: Option<&ast::OrderBy>,
        outer: Option<&Scope<'_>>,
    ) -> Result<Query, SqlError> {
        let (mut from, columns) = self.from(&select.from, outer)?;
        let scope = Scope { columns, parent: outer };
        let filter = select.selection.as_ref().map(|filter| self.expr(&scope, filter)).transpose()?;
        let mut conditions = Vec::new();
        if let Some((filter, _)) = filter {
            conjuncts(filter, &mut conditions);
        }
        if let Some(from) = &mut from {
            conditions = push_down(from, conditions);
        }
        self.computed = Some(Computed::default());
        let mut output = Vec::new();
        let mut items = Vec::new();
        for item in &select.projection {
            self.item(&scope, item, &mut items, &mut output)?;
        }
        let having = select.having.as_ref().map(|having| self.expr(&scope, having)).transpose()?;
        let keys = self.group_keys(&scope, &select.group_by, &items, &output)?;
        let visible = output.len();
        let order = self.order(&scope, order, &mut items, &output)?;
        let (distinct, distinct_on) = match &select.distinct {
            None | Some(Distinct::All) => (false, Vec::new()),
            Some(Distinct::Distinct) => (true, Vec::new()),
            Some(Distinct::On(exprs)) => {
                let on = exprs.iter().map(|expr| Ok(self.expr(&scope, expr)?.0));
                (false, on.collect::<Result<Vec<_>, SqlError>>()?)
            }
        };
        let computed = self.computed.take().unwrap_or_default();
        let is_grouped = !keys.is_empty() || !computed.aggregates.is_empty() || having.is_some();
        let select = Select {
            from,
            filter: all_of(conditions),
            keys,
            aggregates: computed.aggregates,
            is_grouped,
            having: having.map(|(having, _)| having),
            windows: computed.windows,
            sets: computed.sets,
            items,
            distinct,
            distinct_on,
        };
        output.truncate(visible);
        Ok(Query { order, ..plain(Body::Select(select.into()), output) })
    }

    fn item(
        &mut self,
        scope: &Scope<'_>,
        item: &SelectItem,
        items: &mut Vec<Ex>,
        output: &mut Vec<Output>,
    ) -> Result<(), SqlError> {
        let mut add = |ex: Ex, name: String, ty: Type| {
            items.push(ex);
            output.push(Output { name, ty });
        };
        let mut all = |wanted: &dyn Fn(&Named) -> bool| {
            for (at, column) in scope.columns.iter().enumerate().filter(|(_, c)| !c.hidden && wanted(c)) {
                add(Ex::Column { depth: 0, at }, column.name.clone(), column.ty);
            }
        };
        match item {
            SelectItem::Wildcard(_) => all(&|_| true),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let name = super::parts(name).pop().unwrap_or_default();
                all(&|column| column.relation == name);
            }
            SelectItem::UnnamedExpr(expr) => {
                let (ex, ty) = self.expr(scope, expr)?;
                add(ex, name_of(expr), ty);
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                let (ex, ty) = self.expr(scope, expr)?;
                add(ex, folded(alias), ty);
            }
            _ => return Err(unsupported("an output of this kind")),
        }
        Ok(())
    }

    fn group_keys(
        &mut self,
        scope: &Scope<'_>,
        group: &GroupByExpr,
        items: &[Ex],
        output: &[Output],
    ) -> Result<Vec<Ex>, SqlError> {
        let GroupByExpr::Expressions(exprs, _) = group else { return Err(unsupported("GROUP BY ALL")) };
        let mut keys = Vec::new();
        for expr in exprs {
            let by_name = |name: &str| output.iter().position(|column| column.name == name);
            keys.push(match (position(expr), expr) {
                (Some(number), _) if (1..=items.len()).contains(&number) => items[number - 1].clone(),
                (_, ast::Expr::Identifier(ident)) if scope.find(None, &folded(ident))?.is_none() => {
                    match by_name(&folded(ident)) {
                        Some(at) => items[at].clone(),
                        None => self.expr(scope, expr)?.0,
                    }
                }
                _ => self.expr(scope, expr)?.0,
            });
        }
        Ok(keys)
    }

    /// The sort keys. Expressions that are no columns of the output are added behind it.
    fn order(
        &mut self,
        scope: &Scope<'_>,
        order: Option<&ast::OrderBy>,
        items: &mut Vec<Ex>,
        output: &[Output],
    ) -> Result<Vec<SortKey>, SqlError> {
        let mut sorted = Vec::new();
        for (expr, descending, nulls_first) in keys(order)? {
            let by_name = match expr {
                ast::Expr::Identifier(ident) => output.iter().position(|column| column.name == folded(ident)),
                _ => None,
            };
            let column = match (position(expr), by_name) {
                (Some(number), _) if (1..=output.len()).contains(&number) => number - 1,
                (_, Some(at)) => at,
                _ => {
                    let (ex, _) = self.expr(scope, expr)?;
                    items.iter().position(|item| *item == ex).unwrap_or_else(|| {
                        items.push(ex);
                        items.len() - 1
                    })
                }
            };
            sorted.push(SortKey { column, descending, nulls_first });
        }
        Ok(sorted)
    }
}

fn plain(body: Body, columns: Vec<Output>) -> Query {
    Query { with: Vec::new(), body, columns, order: Vec::new(), limit: None, offset: None }
}

/// The sort keys in the tree: expression, whether descending, whether nulls come first.
fn keys(order: Option<&ast::OrderBy>) -> Result<Vec<(&ast::Expr, bool, bool)>, SqlError> {
    let Some(order) = order else { return Ok(Vec::new()) };
    let OrderByKind::Expressions(exprs) = &order.kind else { return Err(unsupported("ORDER BY ALL")) };
    let key = |key: &'_ ast::OrderByExpr| {
        let descending = super::descends(&key.options);
        (descending, key.options.nulls_first.unwrap_or(descending))
    };
    Ok(exprs.iter().map(|expr| (&expr.expr, key(expr).0, key(expr).1)).collect())
}

/// The number of an output column that stands for it.
fn position(expr: &ast::Expr) -> Option<usize> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// PostgreSQL's name of an output column without an alias.
pub(super) fn name_of(expr: &ast::Expr) -> String {
    use ast::Expr as E;
    match expr {
        E::Identifier(ident) => folded(ident),
        E::CompoundIdentifier(idents) => idents.last().map(folded).unwrap_or_default(),
        E::Nested(inner) | E::Collate { expr: inner, .. } => name_of(inner),
        E::Function(function) => super::parts(&function.name).pop().unwrap_or_default(),
        E::Cast { expr, data_type, .. } => match name_of(expr) {
            name if name == "?column?" => {
                let name = data_type.to_string().to_lowercase();
                name.rsplit('.').next().unwrap_or(&name).trim_matches('"').to_owned()
            }
            name => name,
        },
        E::CompoundFieldAccess { root, access_chain } => match access_chain.last() {
            Some(ast::AccessExpr::Dot(E::Identifier(ident))) => folded(ident),
            _ => match access_chain.iter().rev().find_map(|access| match access {
                ast::AccessExpr::Dot(E::Identifier(ident)) => Some(folded(ident)),
                _ => None,
            }) {
                Some(name) => name,
                None => name_of(root),
            },
        },
        E::Case { else_result, .. } => match else_result.as_deref().map(name_of) {
            Some(name) if name != "?column?" => name,
            _ => "case".into(),
        },
        E::Subquery(query) => match query.body.as_ref() {
            SetExpr::Select(select) => match select.projection.first() {
                Some(SelectItem::UnnamedExpr(expr)) => name_of(expr),
                Some(SelectItem::ExprWithAlias { alias, .. }) => folded(alias),
                _ => "?column?".into(),
            },
            _ => "?column?".into(),
        },
        E::Exists { .. } => "exists".into(),
        E::Array(_) => "array".into(),
        E::Substring { .. } => "substring".into(),
        E::Value(value) if matches!(value.value, ast::Value::Boolean(_)) => "bool".into(),
        _ => "?column?".into(),
    }
}
