//! `FROM`.

use super::{Binder, Named, Scope, folded, parts, unsupported};
use crate::functions;
use crate::plan::{Ex, Join, JoinKind, Op, Source, add, conjuncts};
use crate::value::Type;
use sql::{SqlError, SqlState};
use sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, JoinConstraint, JoinOperator, TableAlias, TableFactor,
};

type Bound = (Source, Vec<Named>);

impl Binder<'_> {
    /// All relations of the clause as one join; `None` if there are none.
    pub(super) fn from(
        &mut self,
        clause: &[ast::TableWithJoins],
        outer: Option<&Scope<'_>>,
    ) -> Result<(Option<Source>, Vec<Named>), SqlError> {
        let mut all: Option<Bound> = None;
        for joined in clause {
            all = Some(self.joined(joined, all, outer)?);
        }
        Ok(match all {
            Some((source, columns)) => (Some(source), columns),
            None => (None, Vec::new()),
        })
    }

    /// A relation with its joins, after the relations before it.
    fn joined(
        &mut self,
        joined: &ast::TableWithJoins,
        before: Option<Bound>,
        outer: Option<&Scope<'_>>,
    ) -> Result<Bound, SqlError> {
        let (source, columns) =
            before.map_or((None, Vec::new()), |(source, columns)| (Some(source), columns));
        let scope = Scope { columns, parent: outer };
        let first = self.factor(&joined.relation, &scope)?;
        let mut all = match source {
            Some(source) => cross((source, scope.columns), first, JoinKind::Inner),
            None => first,
        };
        for join in &joined.joins {
            all = self.join(join, all, outer)?;
        }
        Ok(all)
    }

    fn join(&mut self, join: &ast::Join, left: Bound, outer: Option<&Scope<'_>>) -> Result<Bound, SqlError> {
        use JoinOperator as J;
        let (constraint, kind) = match &join.join_operator {
            J::Join(c) | J::Inner(c) | J::CrossJoin(c) => (c, JoinKind::Inner),
            J::Left(c) | J::LeftOuter(c) => (c, JoinKind::Left),
            J::Right(c) | J::RightOuter(c) => (c, JoinKind::Right),
            J::FullOuter(c) => (c, JoinKind::Full),
            _ => return Err(unsupported("a join of this kind")),
        };
        let (source, columns) = left;
        let width = columns.len();
        let scope = Scope { columns, parent: outer };
        let right = self.factor(&join.relation, &scope)?;
        let (source, columns) = cross((source, scope.columns), right, kind);
        let mut scope = Scope { columns, parent: outer };
        let mut conditions = Vec::new();
        match constraint {
            JoinConstraint::On(expr) => conjuncts(self.expr(&scope, expr)?.0, &mut conditions),
            JoinConstraint::Using(names) => {
                for name in names {
                    let name = parts(name).pop().unwrap_or_default();
                    conditions.push(merge(&mut scope, width, &name)?);
                }
            }
            JoinConstraint::Natural => {
                let names: Vec<String> = scope.columns[..width].iter().map(|c| c.name.clone()).collect();
                for name in names {
                    if scope.columns[width..].iter().any(|c| c.name == name && !c.hidden) {
                        conditions.push(merge(&mut scope, width, &name)?);
                    }
                }
            }
            JoinConstraint::None => {}
        }
        let Source::Join(mut all) = source else { return Err(unsupported("a join of this kind")) };
        conditions.into_iter().for_each(|condition| add(&mut all, condition));
        Ok((Source::Join(all), scope.columns))
    }

    fn factor(&mut self, factor: &TableFactor, left: &Scope<'_>) -> Result<Bound, SqlError> {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => self.table(name, alias.as_ref()),
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                self.table_function(name, &args.args, (alias.as_ref(), *with_ordinality), left)
            }
            TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                self.table_function(name, args, (alias.as_ref(), *with_ordinality), left)
            }
            TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
                let mut args = Vec::new();
                let mut columns = Vec::new();
                for expr in array_exprs {
                    let (arg, ty) = self.expr(left, expr)?;
                    args.push(arg);
                    columns.push(("unnest".to_owned(), ty.element().unwrap_or(Type::TEXT)));
                }
                self.set_of("unnest", args, columns, (alias.as_ref(), *with_ordinality))
            }
            TableFactor::Derived { lateral, subquery, alias, .. } => {
                let query = match lateral {
                    true => self.query(subquery, Some(left))?,
                    false => self.query(subquery, left.parent)?,
                };
                let columns = query.columns.iter().map(|c| (c.name.clone(), c.ty)).collect();
                let columns = named(alias.as_ref(), "", columns);
                Ok((Source::Query { query: query.into(), lateral: *lateral }, columns))
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.joined(table_with_joins, None, left.parent)
            }
            _ => Err(unsupported("a table of this kind")),
        }
    }

    fn table(&mut self, name: &ast::ObjectName, alias: Option<&TableAlias>) -> Result<Bound, SqlError> {
        let mut path = parts(name);
        let name = path.pop().unwrap_or_default();
        if path.is_empty()
            && let Some(with) = self.with.iter().rev().find(|with| with.name == name)
        {
            self.named.insert(with.number);
            return Ok((Source::With(with.number), named(alias, &name, with.columns.clone())));
        }
        let schema = path.pop();
        let number = self.relations.find(schema.as_deref(), &name).ok_or_else(|| {
            let schema = schema.map(|schema| format!("{schema}.")).unwrap_or_default();
            let message = format!("relation \"{schema}{name}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_TABLE, message)
        })?;
        let columns = self.relations.columns(number);
        let mut columns = named(alias, &name, columns);
        if let Some(last) = columns.last_mut() {
            last.hidden = true;
        }
        Ok((Source::Relation(number), columns))
    }

    fn table_function(
        &mut self,
        name: &ast::ObjectName,
        args: &[FunctionArg],
        (alias, ordinality): (Option<&TableAlias>, bool),
        left: &Scope<'_>,
    ) -> Result<Bound, SqlError> {
        let name = parts(name).pop().unwrap_or_default();
        let mut values = Vec::new();
        let mut types = Vec::new();
        for arg in args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg else {
                return Err(unsupported("an argument of this kind"));
            };
            let (value, ty) = self.expr(left, expr)?;
            values.push(value);
            types.push(ty);
        }
        let columns = match name.as_str() {
            "unnest" => {
                types.iter().map(|ty| ("unnest".to_owned(), ty.element().unwrap_or(Type::TEXT))).collect()
            }
            "_pg_expandarray" => vec![
                ("x".to_owned(), types.first().and_then(|ty| ty.element()).unwrap_or(Type::INT4)),
                ("n".to_owned(), Type::INT4),
            ],
            "pg_options_to_table" => {
                vec![("option_name".to_owned(), Type::TEXT), ("option_value".to_owned(), Type::TEXT)]
            }
            _ => match functions::find(&name, &types) {
                Some((_, ty)) => vec![(name.clone(), ty)],
                None => return Err(functions::missing(&name)),
            },
        };
        self.set_of(&name, values, columns, (alias, ordinality))
    }

    fn set_of(
        &mut self,
        name: &str,
        args: Vec<Ex>,
        mut columns: Vec<(String, Type)>,
        (alias, ordinality): (Option<&TableAlias>, bool),
    ) -> Result<Bound, SqlError> {
        let (function, _) = functions::find(name, &[Type::TEXT]).ok_or_else(|| functions::missing(name))?;
        let width = columns.len();
        // The alias of the table names its only column too.
        if let (1, Some(alias)) = (width, alias) {
            columns[0].0 = folded(&alias.name);
        }
        if ordinality {
            columns.push(("ordinality".into(), Type::INT8));
        }
        let source = Source::Function { function, args, ordinality, columns: width };
        Ok((source, named(alias, name, columns)))
    }
}

/// The columns under their relation's alias.
fn named(alias: Option<&TableAlias>, name: &str, columns: Vec<(String, Type)>) -> Vec<Named> {
    let relation = alias.map_or_else(|| name.to_owned(), |alias| folded(&alias.name));
    let named = columns.into_iter().enumerate().map(|(at, (name, ty))| {
        let renamed = alias.and_then(|alias| alias.columns.get(at)).map(|column| folded(&column.name));
        Named { relation: relation.clone(), name: renamed.unwrap_or(name), ty, hidden: false }
    });
    named.collect()
}

fn cross(left: Bound, right: Bound, kind: JoinKind) -> Bound {
    let widths = (left.1.len(), right.1.len());
    let join = Join { left: left.0, right: right.0, widths, kind, equal: Vec::new(), on: None };
    let columns = left.1.into_iter().chain(right.1).collect();
    (Source::Join(join.into()), columns)
}

/// The condition of one column of `USING`; the right one is not seen any more.
fn merge(scope: &mut Scope<'_>, width: usize, name: &str) -> Result<Ex, SqlError> {
    let at = |columns: &[Named]| columns.iter().position(|column| column.name == name && !column.hidden);
    let (Some(left), Some(right)) = (at(&scope.columns[..width]), at(&scope.columns[width..])) else {
        let message = format!("column \"{name}\" specified in USING clause does not exist in both tables");
        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
    };
    scope.columns[width + right].hidden = true;
    let column = |at| Ex::Column { depth: 0, at };
    Ok(Ex::Binary(Op::Equal, column(left).into(), column(width + right).into()))
}
