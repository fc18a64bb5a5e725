//! `FROM`: the relations of a statement, and the order in which they are searched.
//!
//! Expressions are compiled over the relations in the order of the text. The plan puts them in
//! another order, in which each is found by a key or an index from those before it, and gives the
//! columns their new positions.

use crate::Stop;
use crate::coerce::How;
use crate::compiled::{AdvisoryWord, Fill};
use crate::error::{DUPLICATE_ALIAS, syntax};
use crate::expressions::Compiler;
use crate::names::{Named, Relation, Scope, folded, parts};
use crate::paths::{Wanted, find};
use crate::tables::{Cache, unstored};
use crate::walk::{all_columns, all_of, conjuncts, renumber};
use sql::catalog::Oid;
use sql::expression::BinaryOp;
use sql::program::{Joined, Path, RowLock, Source};
use sql::{Datum, Expr, SqlError, SqlType};
use sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, JoinConstraint, JoinOperator, TableAlias, TableFactor,
};
use std::sync::Arc;

/// The relations of a statement, in the order of its text.
#[derive(Default)]
pub struct From {
    pub scope: Scope,
    pub kinds: Vec<Kind>,
    /// Conditions of inner joins.
    pub conditions: Vec<Expr>,
    /// Tables that are read.
    pub tables: Vec<Oid>,
    /// Whether the rows are stored: a program then holds them in any case.
    pub is_stored: bool,
}

/// How the rows of a relation join those before it.
pub struct Kind {
    /// The conditions of a `LEFT JOIN`.
    pub outer: Option<Vec<Expr>>,
    /// The path of rows that are in no table.
    pub path: Option<Path>,
    pub lock: RowLock,
    /// The relation of which the name stands for this one too: the first one of a view.
    pub owner: usize,
}

/// The sources in the order of the search.
pub struct Plan {
    pub sources: Vec<Joined>,
    /// The position of each column of the scope in the joined row.
    pub positions: Vec<u16>,
    /// A condition on the joined row that no source can check.
    pub rest: Option<Expr>,
    pub is_ordered: bool,
}

impl Plan {
    pub fn place(&self, expr: &mut Expr) {
        renumber(expr, &|column| self.positions.get(usize::from(column)).copied().unwrap_or(column));
    }
}

impl From {
    /// The relations of a `FROM` clause, behind those that are here already.
    pub fn add(
        &mut self,
        compiler: &mut Compiler<'_>,
        cache: &mut Cache,
        clause: &[ast::TableWithJoins],
    ) -> Result<(), Stop> {
        for joined in clause {
            self.relation(compiler, cache, &joined.relation)?;
            for join in &joined.joins {
                self.join(compiler, cache, join)?;
            }
        }
        Ok(())
    }

    fn join(&mut self, compiler: &mut Compiler<'_>, cache: &mut Cache, join: &ast::Join) -> Result<(), Stop> {
        use JoinOperator as J;
        let (constraint, is_outer) = match &join.join_operator {
            J::Join(constraint) | J::Inner(constraint) | J::CrossJoin(constraint) => (constraint, false),
            J::Left(constraint) | J::LeftOuter(constraint) => (constraint, true),
            J::Right(_) | J::RightOuter(_) => return Err(Stop::General("a right join")),
            J::FullOuter(_) => return Err(Stop::General("a full join")),
            _ => return Err(Stop::General("a join of this kind")),
        };
        let (at, before) = (self.scope.relations.len(), self.conditions.len());
        self.relation(compiler, cache, &join.relation)?;
        // Those of a view, or of a query in its place.
        let mut conditions = self.conditions.split_off(before);
        match constraint {
            JoinConstraint::On(condition) => {
                conjuncts(compiler.condition(&self.scope, condition, "JOIN/ON")?, &mut conditions);
            }
            JoinConstraint::Using(columns) => {
                for column in columns {
                    let name = parts(column).pop().unwrap_or_default();
                    conditions.push(self.merge(compiler, at, &name)?);
                }
            }
            JoinConstraint::Natural => return Err(Stop::General("a natural join")),
            JoinConstraint::None => {}
        }
        if is_outer {
            let is_value = |column: &Named| column.value.is_some();
            if self.kinds.len() > at + 1 || self.scope.relations[at].columns.iter().any(is_value) {
                return Err(Stop::General("an outer join with a derived table of this kind"));
            }
            self.kinds[at].outer = Some(conditions);
        } else {
            self.conditions.extend(conditions);
        }
        Ok(())
    }

    /// The condition of one column of `USING`. From here on the left one stands for both.
    fn merge(&mut self, compiler: &mut Compiler<'_>, at: usize, name: &str) -> Result<Expr, Stop> {
        let right = self.scope.relations.split_off(at);
        let left = self.scope.column(name);
        self.scope.relations.extend(right);
        let left = left?;
        let relation = self.scope.relations[at].name.clone();
        let right = self.scope.column_of(&relation, name)?;
        for column in self.scope.relations[at].columns.iter_mut().filter(|column| column.name == name) {
            column.is_merged = true;
        }
        let equal = crate::operators::binary(&mut compiler.params, BinaryOp::Equal, left.value, right.value)?;
        Ok(equal.expr)
    }

    fn relation(
        &mut self,
        compiler: &mut Compiler<'_>,
        cache: &mut Cache,
        factor: &TableFactor,
    ) -> Result<(), Stop> {
        match factor {
            TableFactor::Table { name, alias, args: None, with_ordinality: false, sample: None, .. } => {
                if let Some(view) = crate::views::named(compiler.catalog, name) {
                    return self.view(compiler, cache, view, alias.as_ref());
                }
                let table = compiler.table(name)?;
                self.table(cache, table, alias.as_ref())
            }
            TableFactor::Table { name, alias, args: Some(args), with_ordinality: false, .. } => {
                self.function(compiler, name, &args.args, alias.as_ref())
            }
            TableFactor::Function { name, args, alias, with_ordinality: false, .. } => {
                self.function(compiler, name, args, alias.as_ref())
            }
            TableFactor::Derived { subquery, alias, lateral: false, sample: None } => {
                match subquery.body.as_ref() {
                    ast::SetExpr::Values(values) if is_plain(subquery) => {
                        self.values(compiler, values, alias.as_ref())
                    }
                    _ => self.derived(compiler, cache, subquery, alias.as_ref()),
                }
            }
            TableFactor::NestedJoin { .. } => Err(Stop::General("a join in parentheses")),
            _ => Err(Stop::General("a table of this kind")),
        }
    }

    /// A table of the catalog.
    pub fn table(
        &mut self,
        cache: &mut Cache,
        table: &sql::catalog::Table,
        alias: Option<&TableAlias>,
    ) -> Result<(), Stop> {
        let name = alias.map_or_else(|| table.name.clone(), |alias| folded(&alias.name));
        let mut relation = Relation::of_table(table, cache.get(table), name, self.scope.width());
        rename(&mut relation, alias);
        self.tables.push(table.oid);
        self.push(relation, None)
    }

    fn function(
        &mut self,
        compiler: &mut Compiler<'_>,
        name: &ast::ObjectName,
        args: &[FunctionArg],
        alias: Option<&TableAlias>,
    ) -> Result<(), Stop> {
        let name = parts(name).pop().unwrap_or_default();
        if name != "generate_series" || !(2..=3).contains(&args.len()) {
            return Err(Stop::General("a function in FROM"));
        }
        // A program holds all rows of a join until it has joined them.
        if !self.scope.relations.is_empty() {
            return Err(Stop::General("a series for each row before it"));
        }
        let scope = Scope::default();
        let mut values = Vec::with_capacity(3);
        for arg in args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg else {
                return Err(Stop::General("an argument of this kind"));
            };
            values.push(compiler.expr(&scope, arg).map_err(|stop| match stop {
                Stop::Error(error) if crate::sub_queries::is_unknown(error.state, &error.message) => {
                    Stop::General("a function of the rows before it")
                }
                stop => stop,
            })?);
        }
        let is_integer = |ty| crate::types::is_integer(ty) || ty == SqlType::Unknown;
        if !values.iter().all(|value| is_integer(value.ty)) {
            return Err(Stop::General("a series that is not of integers"));
        }
        let ty =
            if values.iter().any(|value| value.ty == SqlType::Int8) { SqlType::Int8 } else { SqlType::Int4 };
        let values = values.into_iter().map(|value| compiler.params.coerce(value, ty, How::Implicit));
        let mut values = values.collect::<Result<Vec<_>, _>>()?.into_iter();
        let mut next = || values.next().unwrap_or(Expr::Const(Datum::Int(1)));
        let path = Path::Series { from: next(), to: next(), step: next() };
        if is_long(&path) && !self.is_stored {
            return Err(Stop::General("a long series"));
        }
        // The alias of the table names its only column too.
        let column = alias.map_or_else(|| name.clone(), |alias| folded(&alias.name));
        self.unstored(&name, vec![(column, ty)], alias, path)
    }

    fn values(
        &mut self,
        compiler: &mut Compiler<'_>,
        values: &ast::Values,
        alias: Option<&TableAlias>,
    ) -> Result<(), Stop> {
        let (rows, types) = rows_of_values(compiler, values)?;
        let columns = types.iter().enumerate().map(|(at, ty)| (format!("column{}", at + 1), *ty)).collect();
        self.unstored("*VALUES*", columns, alias, Path::Values(rows))
    }

    /// Rows that are in no table.
    pub fn unstored(
        &mut self,
        name: &str,
        columns: Vec<(String, SqlType)>,
        alias: Option<&TableAlias>,
        path: Path,
    ) -> Result<(), Stop> {
        let mut relation = made(name, columns, alias, self.scope.width());
        rename(&mut relation, alias);
        self.push(relation, Some(path))
    }

    /// One more relation, which joins those before it by conditions alone.
    ///
    /// # Errors
    /// `42712` if one has this name; `54000` for too many columns.
    pub fn push(&mut self, relation: Relation, path: Option<Path>) -> Result<(), Stop> {
        if self.scope.relations.iter().any(|known| known.name == relation.name) {
            let message = format!("table name \"{}\" specified more than once", relation.name);
            return Err(SqlError::new(DUPLICATE_ALIAS, message).into());
        }
        if usize::from(self.scope.width()) + relation.stored.columns.len()
            >= usize::from(crate::expressions::AGGREGATES)
        {
            return Err(
                SqlError::new(sql::SqlState::PROGRAM_LIMIT, "too many columns in the joined row").into()
            );
        }
        self.scope.relations.push(relation);
        let owner = self.kinds.len();
        self.kinds.push(Kind { outer: None, path, lock: RowLock::None, owner });
        Ok(())
    }

    /// The order of the search. `conditions` are those of `WHERE`; `first` is how many relations
    /// keep their places at the front, as the table of an `UPDATE` does.
    ///
    /// # Errors
    /// `General` if a relation would be searched wholly for each row before it.
    pub fn plan(
        mut self,
        condition: Option<Expr>,
        first: usize,
        order: &[(u16, bool)],
        is_limited: bool,
    ) -> Result<(Plan, Scope), Stop> {
        let mut pending = std::mem::take(&mut self.conditions);
        if let Some(condition) = condition {
            conjuncts(condition, &mut pending);
        }
        self.reject_nulls(&mut pending);
        let mut planner = Planner {
            known: vec![false; self.kinds.len()],
            plan: Plan {
                sources: Vec::new(),
                positions: vec![u16::MAX; usize::from(self.scope.width())],
                rest: None,
                is_ordered: order.is_empty(),
            },
            from: self,
            pending,
            again: Vec::new(),
            width: 0,
        };
        let order = if planner.from.kinds.len() == 1 { order } else { &[] };
        for at in planner.best_order(first, order)? {
            planner.put(at, order, is_limited);
        }
        let Planner { mut plan, from, mut pending, again, .. } = planner;
        pending.extend(again);
        pending.iter_mut().for_each(|condition| plan.place(condition));
        plan.rest = all_of(pending);
        Ok((plan, from.scope))
    }

    /// A left join of which a later condition refuses the rows without a partner is an inner join.
    fn reject_nulls(&mut self, pending: &mut Vec<Expr>) {
        for at in (0..self.kinds.len()).rev() {
            let relation = &self.scope.relations[at];
            let range = relation.offset..relation.offset + relation.width();
            if self.kinds[at].outer.is_some()
                && pending.iter().any(|condition| refuses_null(condition, &range))
            {
                pending.extend(self.kinds[at].outer.take().unwrap_or_default());
            }
        }
    }
}

/// Whether the condition is not true for a row of which the columns in `range` are null.
pub fn refuses_null(condition: &Expr, range: &std::ops::Range<u16>) -> bool {
    let is_own = |expr: &Expr| matches!(expr, Expr::Column(column) if range.contains(column));
    match condition {
        Expr::Binary { op, left, right, .. } => {
            use BinaryOp::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
            matches!(op, Equal | Greater | GreaterEqual | Less | LessEqual | NotEqual)
                && (is_own(left) || is_own(right))
        }
        Expr::In { expr, .. } | Expr::Like { expr, .. } => is_own(expr),
        Expr::Not(inner) => matches!(inner.as_ref(), Expr::IsNull(inner) if is_own(inner)),
        _ => false,
    }
}

struct Planner {
    from: From,
    /// The relations that are searched before the next one.
    known: Vec<bool>,
    plan: Plan,
    /// Conditions that no source checks so far.
    pending: Vec<Expr>,
    /// Those of a path that is searched without locks: a row is checked again under its lock.
    again: Vec<Expr>,
    width: u16,
}

impl Planner {
    fn is_known(&self, column: u16) -> bool {
        let at = self.from.scope.relations.iter().rposition(|relation| relation.offset <= column);
        at.is_some_and(|at| self.known[at])
    }

    /// The order that starts with the best first relation from which keys and indexes lead to all
    /// others.
    fn best_order(&mut self, first: usize, by: &[(u16, bool)]) -> Result<Vec<usize>, Stop> {
        let starts: Vec<usize> = if first > 0 { vec![0] } else { (0..self.known.len()).collect() };
        let mut scored: Vec<(u32, usize)> = Vec::with_capacity(starts.len());
        for at in starts.into_iter().filter(|at| self.is_ready(*at, first)) {
            scored.push((self.score(at, by), at));
        }
        scored.sort_by_key(|(score, at)| (std::cmp::Reverse(*score), *at));
        if self.known.is_empty() {
            return Ok(Vec::new());
        }
        for (_, start) in scored {
            let order = self.order_from(start, first);
            self.known.fill(false);
            if let Some(order) = order {
                return Ok(order);
            }
        }
        Err(Stop::General("a join without a key or index"))
    }

    /// The order from a start, each time with the relation that those before lead to best; `None`
    /// if they lead to none.
    fn order_from(&mut self, start: usize, first: usize) -> Option<Vec<usize>> {
        let mut order = vec![start];
        self.known[start] = true;
        while self.known.contains(&false) {
            let ready = (0..self.known.len()).filter(|at| self.is_ready(*at, first));
            let scored = ready.map(|at| (self.score(at, &[]), std::cmp::Reverse(at)));
            let (_, std::cmp::Reverse(at)) = scored.max().filter(|(score, _)| *score > 0)?;
            order.push(at);
            self.known[at] = true;
        }
        Some(order)
    }

    /// Whether the relation may be searched next: outer joins keep their places.
    fn is_ready(&self, at: usize, first: usize) -> bool {
        let before = if self.from.kinds[at].outer.is_some() { at } else { first.min(at) };
        !self.known[at] && self.known[..before].iter().all(|known| *known)
    }

    fn score(&self, at: usize, order: &[(u16, bool)]) -> u32 {
        match self.from.kinds[at].path {
            Some(_) => 1,
            None => self.way(at, order, false).score,
        }
    }

    fn conditions(&self, at: usize) -> &[Expr] {
        self.from.kinds[at].outer.as_deref().unwrap_or(&self.pending)
    }

    fn way(&self, at: usize, order: &[(u16, bool)], is_limited: bool) -> crate::paths::Way {
        let relation = &self.from.scope.relations[at];
        let wanted = Wanted {
            table: &relation.stored,
            offset: relation.offset,
            is_known: &|column| self.is_known(column),
            order,
            is_limited,
        };
        find(&wanted, self.conditions(at))
    }

    fn put(&mut self, at: usize, order: &[(u16, bool)], is_limited: bool) {
        let mut way = self.way(at, order, is_limited);
        if let Some(path) = self.from.kinds[at].path.take() {
            way = crate::paths::Way { path, used: Vec::new(), score: 1, is_ordered: order.is_empty() };
        }
        self.known[at] = true;
        let relation = &self.from.scope.relations[at];
        for column in 0..relation.width() {
            self.plan.positions[usize::from(relation.offset + column)] = self.width + column;
        }
        self.width += relation.width();
        let table = relation.stored.clone();
        let is_outer = self.from.kinds[at].outer.is_some();
        let mut filter = Vec::new();
        if let Some(conditions) = self.from.kinds[at].outer.take() {
            let unused = conditions.into_iter().enumerate().filter(|(at, _)| !way.used.contains(at));
            filter.extend(unused.map(|(_, condition)| condition));
        } else {
            let skips = self.from.kinds[at].lock == RowLock::Skip;
            let used: std::collections::BTreeSet<usize> = way.used.iter().copied().collect();
            for (at, condition) in std::mem::take(&mut self.pending).into_iter().enumerate() {
                if used.contains(&at) {
                    self.again.extend(skips.then_some(condition));
                    continue;
                }
                if all_columns(&condition, &|column| self.is_known(column)) {
                    filter.push(condition);
                } else {
                    self.pending.push(condition);
                }
            }
        }
        filter.iter_mut().for_each(|condition| self.plan.place(condition));
        place_path(&mut way.path, &self.plan);
        let filter = all_of(filter).map(Arc::new);
        let source = Source { table, path: way.path, filter, lock: self.from.kinds[at].lock };
        self.plan.is_ordered = way.is_ordered && self.known.len() == 1;
        self.plan.sources.push(Joined { source, is_outer });
    }
}

fn place_path(path: &mut Path, plan: &Plan) {
    match path {
        Path::Keys(keys) | Path::Values(keys) => {
            keys.iter_mut().flatten().for_each(|value| plan.place(value))
        }
        Path::Ranges { ranges, .. } => {
            for range in ranges {
                range.equal.iter_mut().for_each(|value| plan.place(value));
                range.low.iter_mut().chain(&mut range.high).for_each(|(value, _)| plan.place(value));
            }
        }
        Path::All | Path::Part(_) | Path::Series { .. } => {}
    }
}

/// Whether a query is its body and nothing else.
pub fn is_plain(query: &ast::Query) -> bool {
    query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty()
}

/// A relation with these columns that no table stores, behind `offset` columns of others.
pub fn made(
    name: &str,
    columns: Vec<(String, SqlType)>,
    alias: Option<&TableAlias>,
    offset: u16,
) -> Relation {
    let named = columns.iter().zip(0_u16..).map(|((name, ty), position)| Named {
        name: name.clone(),
        ty: *ty,
        position,
        is_merged: false,
        value: None,
    });
    Relation {
        name: alias.map_or_else(|| name.to_owned(), |alias| folded(&alias.name)),
        oid: None,
        offset,
        columns: named.collect(),
        stored: Arc::new(unstored(name, columns)),
        is_open: true,
        scan: None,
    }
}

/// The new names of a relation's columns.
pub fn rename(relation: &mut Relation, alias: Option<&TableAlias>) {
    let Some(alias) = alias else { return };
    for (column, alias) in relation.columns.iter_mut().zip(&alias.columns) {
        column.name = folded(&alias.name);
    }
}

/// The rows of a `VALUES` list and the types of its columns.
pub fn rows_of_values(
    compiler: &mut Compiler<'_>,
    values: &ast::Values,
) -> Result<(Vec<Vec<Expr>>, Vec<SqlType>), Stop> {
    let scope = Scope::default();
    let width = values.rows.first().map_or(0, |row| row.content.len());
    let mut columns: Vec<Vec<crate::coerce::Typed>> = vec![Vec::new(); width];
    for row in &values.rows {
        if row.content.len() != width {
            return Err(syntax("VALUES lists must all be the same length").into());
        }
        for (column, value) in columns.iter_mut().zip(&row.content) {
            column.push(compiler.expr(&scope, value)?);
        }
    }
    let mut rows: Vec<Vec<Expr>> = values.rows.iter().map(|_| Vec::with_capacity(width)).collect();
    let mut types = Vec::with_capacity(width);
    for column in columns {
        let (values, ty) = compiler.of_one_type("VALUES", column)?;
        types.push(ty);
        rows.iter_mut().zip(values).for_each(|(row, value)| row.push(value));
    }
    Ok((rows, types))
}

/// Programs that only read make series up to this length.
const LONGEST_SERIES: i64 = 1_000_000;

/// Whether a series is known to be long.
fn is_long(path: &Path) -> bool {
    let Path::Series { from: Expr::Const(Datum::Int(from)), to: Expr::Const(Datum::Int(to)), step } = path
    else {
        return false;
    };
    let step = if let Expr::Const(Datum::Int(step)) = step { step.saturating_abs().max(1) } else { 1 };
    to.saturating_sub(*from).saturating_abs() / step >= LONGEST_SERIES
}

/// The type of a parameter that the server fills.
pub fn fill_type(fill: &Fill) -> SqlType {
    match fill {
        Fill::Next(_) | Fill::Current(_) | Fill::LastValue | Fill::SetSequence(..) => SqlType::Int8,
        Fill::User | Fill::Database => SqlType::Name,
        Fill::Setting(_) | Fill::Sleep(_) => SqlType::Text,
        Fill::Backend => SqlType::Int4,
        Fill::StatementTime | Fill::ClockTime => SqlType::TimestampTz,
        Fill::Given(ty) => *ty,
        Fill::Advisory(lock) => match lock.does {
            AdvisoryWord::Lock(_) | AdvisoryWord::UnlockAll => SqlType::Text,
            AdvisoryWord::TryLock(_) | AdvisoryWord::Unlock => SqlType::Bool,
        },
    }
}
