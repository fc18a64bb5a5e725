//! `FROM`: relations, and how they are joined.

use super::{OUTER, Place, Source};
use crate::Stop;
use crate::error::{DUPLICATE_ALIAS, no_column, syntax};
use crate::expressions::{Compiler, coalesce};
use crate::names::{Merged, Relation, Scope, folded, parts};
use crate::sources::{made, rename};
use crate::tables::stored;
use crate::tree::reference::{Wanted, too_many};
use crate::walk::conjuncts;
use sql::catalog::Procedure;
use sql::expression::BinaryOp;
use sql::{Expr, SqlError, SqlState, SqlType};
use sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, JoinConstraint, JoinOperator, TableAlias, TableFactor,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a clause names, before conditions have their places.
pub enum Part {
    Leaf { relation: usize, source: Source, is_lateral: bool },
    Join(Box<Join>),
}

pub struct Join {
    pub left: Part,
    pub right: Part,
    pub on: Vec<Expr>,
    /// Whether rows without a partner stay; an inner join if neither do.
    pub keeps_left: bool,
    pub keeps_right: bool,
}

#[derive(Default)]
pub struct From {
    pub scope: Scope,
    /// The place of each column of the scope, and the scan that each relation is.
    pub places: Vec<Place>,
    pub scans: Vec<Option<usize>>,
}

impl From {
    /// The relations of a clause; `None` for an empty one.
    pub fn clause(
        &mut self,
        compiler: &mut Compiler<'_>,
        clause: &[ast::TableWithJoins],
    ) -> Result<Option<Part>, Stop> {
        let mut whole = None;
        for joined in clause {
            let part = self.joined(compiler, joined)?;
            whole = Some(match whole {
                None => part,
                Some(left) => Part::Join(Box::new(Join {
                    left,
                    right: part,
                    on: Vec::new(),
                    keeps_left: false,
                    keeps_right: false,
                })),
            });
        }
        Ok(whole)
    }

    fn joined(&mut self, compiler: &mut Compiler<'_>, joined: &ast::TableWithJoins) -> Result<Part, Stop> {
        let start = self.scope.relations.len();
        let mut part = self.relation(compiler, &joined.relation)?;
        for join in &joined.joins {
            part = self.join(compiler, (part, start), join)?;
        }
        Ok(part)
    }

    fn join(
        &mut self,
        compiler: &mut Compiler<'_>,
        (left, start): (Part, usize),
        join: &ast::Join,
    ) -> Result<Part, Stop> {
        use JoinOperator as J;
        let (constraint, keeps_left, keeps_right) = match &join.join_operator {
            J::Join(constraint) | J::Inner(constraint) | J::CrossJoin(constraint) => {
                (constraint, false, false)
            }
            J::Left(constraint) | J::LeftOuter(constraint) => (constraint, true, false),
            J::Right(constraint) | J::RightOuter(constraint) => (constraint, false, true),
            J::FullOuter(constraint) => (constraint, true, true),
            _ => return Err(Stop::General("a join of this kind")),
        };
        let middle = self.scope.relations.len();
        let right = self.relation(compiler, &join.relation)?;
        if keeps_right && is_lateral(&right) {
            let message = "LATERAL reference to the left side of a RIGHT or FULL JOIN";
            return Err(SqlError::new(sql::SqlState(*b"42P10"), message).into());
        }
        let mut on = Vec::new();
        let names = match constraint {
            JoinConstraint::On(condition) => {
                let hidden = self.hide(start);
                let condition = compiler.condition(&self.scope, condition, "JOIN/ON");
                self.show(hidden);
                conjuncts(condition?, &mut on);
                Vec::new()
            }
            JoinConstraint::Using(columns) => {
                columns.iter().map(|column| parts(column).pop().unwrap_or_default()).collect()
            }
            JoinConstraint::Natural => self.common(start, middle),
            JoinConstraint::None => Vec::new(),
        };
        for name in names {
            on.push(self.merge(compiler, (start, middle), &name, (keeps_left, keeps_right))?);
        }
        Ok(Part::Join(Box::new(Join { left, right, on, keeps_left, keeps_right })))
    }

    /// Relations before `start` cannot be named for a while.
    fn hide(&mut self, start: usize) -> Vec<bool> {
        let mut hidden = Vec::with_capacity(start);
        for relation in &mut self.scope.relations[..start] {
            hidden.push(std::mem::replace(&mut relation.is_open, false));
        }
        for merged in &mut self.scope.merged {
            merged.is_open = merged.since >= start;
        }
        hidden
    }

    fn show(&mut self, hidden: Vec<bool>) {
        for (relation, is_open) in self.scope.relations.iter_mut().zip(hidden) {
            relation.is_open = is_open;
        }
        self.scope.merged.iter_mut().for_each(|merged| merged.is_open = true);
    }

    /// The columns that both sides have, in the order of the left one.
    fn common(&self, start: usize, middle: usize) -> Vec<String> {
        let names = |relations: &[Relation]| {
            let open = relations.iter().flat_map(|relation| &relation.columns).filter(|c| !c.is_merged);
            open.map(|column| column.name.clone()).collect::<Vec<_>>()
        };
        let merged = self.scope.merged.iter().filter(|merged| merged.since >= start);
        let mut left: Vec<String> = merged.map(|merged| merged.name.clone()).collect();
        left.extend(names(&self.scope.relations[start..middle]));
        let right = names(&self.scope.relations[middle..]);
        let mut seen = BTreeSet::new();
        left.into_iter().filter(|name| right.contains(name) && seen.insert(name.clone())).collect()
    }

    /// The condition of one column of `USING`. From here on one column stands for both.
    fn merge(
        &mut self,
        compiler: &mut Compiler<'_>,
        (start, middle): (usize, usize),
        name: &str,
        (keeps_left, keeps_right): (bool, bool),
    ) -> Result<Expr, Stop> {
        let hidden = self.hide(start);
        let rights = self.scope.relations.split_off(middle);
        let left = compiler.named_column(&self.scope, None, name);
        self.scope.relations.extend(rights);
        self.show(hidden);
        let left = left?;
        let hidden = self.hide(middle);
        let right = compiler.named_column(&self.scope, None, name);
        self.show(hidden);
        let right = right?;
        self.scope.merged.retain(|merged| merged.since < start || merged.name != name);
        for relation in &mut self.scope.relations[start..] {
            for column in relation.columns.iter_mut().filter(|column| column.name == name) {
                column.is_merged = true;
            }
        }
        let value = match (keeps_left, keeps_right) {
            (true, true) => {
                let (values, ty) = compiler.of_one_type("JOIN/USING", vec![left.clone(), right.clone()])?;
                coalesce(values, ty)
            }
            (false, true) => right.clone(),
            _ => left.clone(),
        };
        self.scope.merged.push(Merged { name: name.to_owned(), value, since: start, is_open: true });
        let equal = crate::operators::binary(&mut compiler.params, BinaryOp::Equal, left, right)?;
        Ok(equal.expr)
    }

    fn relation(&mut self, compiler: &mut Compiler<'_>, factor: &TableFactor) -> Result<Part, Stop> {
        match factor {
            TableFactor::Table { name, alias, args: None, with_ordinality: false, sample: None, .. } => {
                self.named(compiler, name, alias.as_ref())
            }
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                let args = arguments(&args.args)?;
                self.function(compiler, &function_name(name), &args, (alias.as_ref(), *with_ordinality))
            }
            TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                let args = arguments(args)?;
                self.function(compiler, &function_name(name), &args, (alias.as_ref(), *with_ordinality))
            }
            TableFactor::UNNEST { array_exprs, alias, with_offset: false, with_ordinality, .. } => {
                let args: Vec<&ast::Expr> = array_exprs.iter().collect();
                self.function(compiler, "unnest", &args, (alias.as_ref(), *with_ordinality))
            }
            TableFactor::Derived { subquery, alias, lateral, sample: None } => {
                let Some(alias) = alias else {
                    return Err(syntax("subquery in FROM must have an alias")
                        .with_hint("For example, FROM (SELECT ...) [AS] foo.")
                        .into());
                };
                self.derived(compiler, subquery, alias, *lateral)
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.joined(compiler, table_with_joins)
            }
            _ => Err(Stop::General("a table of this kind")),
        }
    }

    fn named(
        &mut self,
        compiler: &mut Compiler<'_>,
        name: &ast::ObjectName,
        alias: Option<&TableAlias>,
    ) -> Result<Part, Stop> {
        if let [ast::ObjectNamePart::Identifier(ident)] = name.0.as_slice() {
            let ident = folded(ident);
            let tree = compiler.tree.as_ref();
            let with = tree.and_then(|tree| tree.in_reach.iter().rfind(|with| with.name == ident).cloned());
            if let Some(with) = with {
                if with.columns.is_empty() {
                    let message = format!("WITH query \"{ident}\" does not have a RETURNING clause");
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
                }
                if let Some(tree) = compiler.tree.as_mut().filter(|_| with.is_working) {
                    tree.read_again.insert(with.number);
                }
                let source =
                    if with.is_working { Source::Working(with.number) } else { Source::With(with.number) };
                return self.unstored(&ident, with.columns, alias, (source, false));
            }
        }
        if let Some(view) = crate::views::named(compiler.catalog, name) {
            return self.view(compiler, view, alias);
        }
        let table = compiler.table(name)?;
        let Some(tree) = &mut compiler.tree else { return Err(Stop::General("a table of this kind")) };
        tree.scans.push(Wanted { oid: table.oid, used: BTreeSet::new(), conditions: Vec::new() });
        tree.tables.push(table.oid);
        let scan = tree.scans.len() - 1;
        let name = alias.map_or_else(|| table.name.clone(), |alias| folded(&alias.name));
        let mut relation = Relation::of_table(table, Arc::new(stored(table)), name, self.scope.width());
        relation.scan = Some(scan);
        rename(&mut relation, alias);
        self.push(relation, Source::Scan(scan), false)
    }

    /// The query of a view, of which only the view's own columns can be named.
    fn view(
        &mut self,
        compiler: &mut Compiler<'_>,
        view: &Procedure,
        alias: Option<&TableAlias>,
    ) -> Result<Part, Stop> {
        let parsed = crate::views::parsed(view)?;
        let query = crate::views::query(&parsed).ok_or(Stop::General("a view without a query"))?;
        // Names in the view's text mean what they meant where it was made.
        let in_reach = compiler.tree.as_mut().map(|tree| {
            tree.views.push(view.oid);
            std::mem::take(&mut tree.in_reach)
        });
        let (frame, place) = (compiler.frame.take(), compiler.place);
        let bound = compiler.apart(|compiler| compiler.tree_query(query));
        (compiler.frame, compiler.place) = (frame, place);
        if let (Some(tree), Some(in_reach)) = (&mut compiler.tree, in_reach) {
            tree.in_reach = in_reach;
        }
        let bound = bound?;
        let fields = bound.fields.iter().map(|field| (field.name.clone(), field.ty)).collect();
        let mut relation = made(&view.name, fields, alias, self.scope.width());
        let all = std::mem::take(&mut relation.columns);
        for column in &view.params {
            let found = all.iter().find(|known| known.name == column.name);
            relation.columns.push(found.cloned().ok_or_else(|| no_column(&column.name))?);
        }
        rename(&mut relation, alias);
        let source = Source::Query { query: Box::new(bound.query), is_lateral: false };
        self.push(relation, source, false)
    }

    fn function(
        &mut self,
        compiler: &mut Compiler<'_>,
        name: &str,
        args: &[&ast::Expr],
        (alias, is_numbered): (Option<&TableAlias>, bool),
    ) -> Result<Part, Stop> {
        let scope = self.scope.clone();
        let (found, free) = compiler.inside(&scope, |compiler| compiler.rows_of(name, args))?;
        let is_lateral = free.iter().any(|outer| outer.depth == 0);
        let (mut source, types) = found;
        // The alias of the table names its only column too.
        let column = alias.filter(|_| types.len() == 1);
        let column = column.map_or_else(|| name.to_owned(), |alias| folded(&alias.name));
        let names: &[&str] = match name {
            "json_each" | "jsonb_each" | "json_each_text" | "jsonb_each_text" => &["key", "value"],
            name if sql::json::parts::gives_parts(name) && name.contains("_array_") => &["value"],
            _ => &[],
        };
        let named = |(ty, at): (SqlType, usize)| match names.get(at) {
            Some(name) => ((*name).to_owned(), ty),
            None => (column.clone(), ty),
        };
        let mut columns: Vec<(String, SqlType)> = types.into_iter().zip(0..).map(named).collect();
        if is_numbered {
            columns.push(("ordinality".into(), SqlType::Int8));
            source = Source::Numbered(Box::new(source));
        }
        self.unstored(name, columns, alias, (source, is_lateral))
    }

    fn derived(
        &mut self,
        compiler: &mut Compiler<'_>,
        query: &ast::Query,
        alias: &TableAlias,
        lateral: bool,
    ) -> Result<Part, Stop> {
        let (bound, is_lateral) = if lateral {
            let scope = self.scope.clone();
            // Even one that needs nothing of the row before it is bound as if that were around it.
            let (bound, _) = compiler.inside(&scope, |compiler| compiler.tree_query(query))?;
            (bound, true)
        } else {
            (compiler.apart(|compiler| compiler.tree_query(query))?, false)
        };
        let columns = bound.fields.iter().map(|field| (field.name.clone(), field.ty)).collect();
        let source = Source::Query { query: Box::new(bound.query), is_lateral };
        self.unstored("subquery", columns, Some(alias), (source, is_lateral))
    }

    fn unstored(
        &mut self,
        name: &str,
        columns: Vec<(String, SqlType)>,
        alias: Option<&TableAlias>,
        (source, is_lateral): (Source, bool),
    ) -> Result<Part, Stop> {
        let mut relation = made(name, columns, alias, self.scope.width());
        if alias.is_some_and(|alias| alias.columns.len() > relation.columns.len()) {
            let message = format!(
                "table \"{}\" has {} columns available but {} columns specified",
                relation.name,
                relation.columns.len(),
                alias.map_or(0, |alias| alias.columns.len())
            );
            return Err(SqlError::new(crate::error::INVALID_COLUMN_REFERENCE, message).into());
        }
        rename(&mut relation, alias);
        self.push(relation, source, is_lateral)
    }

    fn push(&mut self, relation: Relation, source: Source, is_lateral: bool) -> Result<Part, Stop> {
        if self.scope.relations.iter().any(|known| known.name == relation.name) {
            let message = format!("table name \"{}\" specified more than once", relation.name);
            return Err(SqlError::new(DUPLICATE_ALIAS, message).into());
        }
        let at = self.scope.relations.len();
        if usize::from(relation.offset) + relation.stored.columns.len() >= usize::from(OUTER) {
            return Err(too_many("columns").into());
        }
        if at >= 64 {
            return Err(too_many("tables in one FROM").into());
        }
        let places = (0..relation.width()).map(|column| Place { relation: at as u16, column });
        self.places.extend(places);
        self.scans.push(relation.scan);
        self.scope.relations.push(relation);
        Ok(Part::Leaf { relation: at, source, is_lateral })
    }
}

/// Whether a part needs the rows of those before it.
pub fn is_lateral(part: &Part) -> bool {
    match part {
        Part::Leaf { is_lateral, .. } => *is_lateral,
        Part::Join(join) => is_lateral(&join.left) || is_lateral(&join.right),
    }
}

fn function_name(name: &ast::ObjectName) -> String {
    parts(name).pop().unwrap_or_default()
}

fn arguments(args: &[FunctionArg]) -> Result<Vec<&ast::Expr>, Stop> {
    let one = |arg| match arg {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref arg)) => Ok(arg),
        _ => Err(Stop::General("an argument of this kind")),
    };
    args.iter().map(one).collect()
}
