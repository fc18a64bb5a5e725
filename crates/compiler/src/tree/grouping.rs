//! `GROUP BY` with several sets of keys, and `GROUPING`.

use super::{AGGREGATES, GroupingSet, State};
use crate::Stop;
use crate::coerce::Typed;
use crate::expressions::{Compiler, aggregates};
use crate::items::Item;
use crate::names::Scope;
use crate::select::key_of_group;
use crate::walk::children_mut;
use sql::{Expr, SqlError, SqlState, SqlType};
use sqlparser::ast::{self, GroupByExpr};

/// PostgreSQL's limits.
const MOST_SETS: usize = 4096;
const MOST_OF_CUBE: usize = 12;
/// The values of `GROUPING` until the keys are known.
const GROUPINGS: u16 = AGGREGATES + aggregates::MOST;

/// The keys of a select, and the sets of them; no set if there is only one, of all keys.
pub struct Keys {
    pub keys: Vec<Expr>,
    pub sets: Vec<Vec<usize>>,
}

type Sets = Vec<Vec<usize>>;

/// What is known while the keys are bound.
pub struct Binding<'b, 'a> {
    pub compiler: &'b mut Compiler<'a>,
    pub scope: &'b Scope,
    pub items: &'b [Item],
    pub keys: Vec<Expr>,
}

impl Binding<'_, '_> {
    /// # Errors
    /// Those of the keys; `54001` and `54011` for too many sets.
    pub fn clause(mut self, clause: &GroupByExpr) -> Result<Keys, Stop> {
        let GroupByExpr::Expressions(exprs, modifiers) = clause else {
            return Err(Stop::General("GROUP BY ALL"));
        };
        if !modifiers.is_empty() {
            return Err(Stop::General("GROUP BY WITH"));
        }
        let mut all: Sets = vec![Vec::new()];
        let mut has_sets = false;
        for expr in exprs {
            let sets = self.sets(expr)?;
            has_sets |= sets.len() != 1 || sets[0].is_empty();
            if all.len() * sets.len() > MOST_SETS {
                return Err(too_many().into());
            }
            let joined = |set: &Vec<usize>, more: &Vec<usize>| {
                let mut set = set.clone();
                set.extend(more.iter().filter(|key| !set.contains(key)).copied().collect::<Vec<_>>());
                set
            };
            all = all
                .iter()
                .flat_map(|set| sets.iter().map(|more| joined(set, more)).collect::<Vec<_>>())
                .collect();
        }
        Ok(Keys { keys: self.keys, sets: if has_sets { all } else { Vec::new() } })
    }

    fn key(&mut self, expr: &ast::Expr) -> Result<usize, Stop> {
        let key = key_of_group(self.compiler, self.scope, expr, self.items)?;
        Ok(self.keys.iter().position(|known| *known == key).unwrap_or_else(|| {
            self.keys.push(key);
            self.keys.len() - 1
        }))
    }

    fn set(&mut self, exprs: &[ast::Expr]) -> Result<Vec<usize>, Stop> {
        let mut set = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let key = self.key(expr)?;
            if !set.contains(&key) {
                set.push(key);
            }
        }
        Ok(set)
    }

    fn sets(&mut self, expr: &ast::Expr) -> Result<Sets, Stop> {
        use ast::Expr as E;
        match expr {
            E::Tuple(exprs) => Ok(vec![self.set(exprs)?]),
            E::Rollup(parts) => {
                let parts = parts.iter().map(|part| self.set(part)).collect::<Result<Sets, Stop>>()?;
                Ok((0..=parts.len()).rev().map(|count| of_parts(&parts, (1 << count) - 1)).collect())
            }
            E::Cube(parts) if parts.len() > MOST_OF_CUBE => {
                let message = format!("CUBE is limited to {MOST_OF_CUBE} elements");
                Err(SqlError::new(SqlState(*b"54011"), message).into())
            }
            E::Cube(parts) => {
                let parts = parts.iter().map(|part| self.set(part)).collect::<Result<Sets, Stop>>()?;
                Ok((0..1_u64 << parts.len()).rev().map(|bits| of_parts(&parts, bits)).collect())
            }
            E::GroupingSets(sets) => {
                let mut all = Vec::new();
                for set in sets {
                    match set.as_slice() {
                        [one] => all.extend(self.sets(&nested(one))?),
                        exprs => all.push(self.set(exprs)?),
                    }
                }
                if all.len() > MOST_SETS { Err(too_many().into()) } else { Ok(all) }
            }
            expr => Ok(vec![vec![self.key(expr)?]]),
        }
    }
}

/// `ROLLUP` and `CUBE` inside of `GROUPING SETS` are read as calls.
fn nested(expr: &ast::Expr) -> ast::Expr {
    let ast::Expr::Function(call) = expr else { return expr.clone() };
    let ast::FunctionArguments::List(list) = &call.args else { return expr.clone() };
    let part = |arg: &ast::FunctionArg| match arg {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Tuple(exprs))) => Some(exprs.clone()),
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(vec![expr.clone()]),
        _ => None,
    };
    let parts = || list.args.iter().map(part).collect::<Option<Vec<_>>>();
    match crate::names::parts(&call.name).pop().as_deref() {
        Some("rollup") => parts().map_or_else(|| expr.clone(), ast::Expr::Rollup),
        Some("cube") => parts().map_or_else(|| expr.clone(), ast::Expr::Cube),
        _ => expr.clone(),
    }
}

/// The keys of the parts that have a bit.
fn of_parts(parts: &[Vec<usize>], bits: u64) -> Vec<usize> {
    let mut set = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        if bits & 1 << at != 0 {
            set.extend(part.iter().copied().filter(|key| !set.contains(key)).collect::<Vec<_>>());
        }
    }
    set
}

fn too_many() -> SqlError {
    SqlError::new(
        SqlState::STATEMENT_TOO_COMPLEX,
        format!("too many grouping sets present (maximum {MOST_SETS})"),
    )
}

impl Compiler<'_> {
    /// `GROUPING(...)`.
    pub fn grouping(&mut self, scope: &Scope, args: &[&ast::Expr]) -> Result<Typed, Stop> {
        if self.tree.is_none() {
            return Err(Stop::General("GROUPING"));
        }
        let Some(found) = self.aggregates.take() else {
            let message = "grouping operations are not allowed here";
            return Err(SqlError::new(SqlState::GROUPING_ERROR, message).into());
        };
        let exprs = args.iter().map(|arg| self.expr(scope, arg)).collect::<Result<Vec<Typed>, Stop>>();
        self.aggregates = Some(found);
        let exprs: Vec<Expr> = exprs?.into_iter().map(|value| value.expr).collect();
        if exprs.len() > 31 {
            return Err(
                SqlError::new(SqlState(*b"54023"), "GROUPING must have fewer than 32 arguments").into()
            );
        }
        let Some(tree) = &mut self.tree else { return Err(Stop::General("GROUPING")) };
        tree.groupings.push(exprs);
        let at = u16::try_from(tree.groupings.len() - 1).ok().filter(|at| *at < aggregates::MOST);
        let at = at.ok_or_else(|| super::reference::too_many("GROUPING operations"))?;
        Ok(Typed::new(Expr::Column(GROUPINGS + at), SqlType::Int4))
    }
}

/// The sets with the values of each `GROUPING`.
///
/// # Errors
/// `42803` for arguments that are no keys.
pub fn with_groupings(state: &mut State, keys: &Keys) -> Result<Vec<GroupingSet>, SqlError> {
    let groupings = std::mem::take(&mut state.groupings);
    if groupings.is_empty() && keys.sets.is_empty() {
        return Ok(Vec::new());
    }
    let mut args = Vec::with_capacity(groupings.len());
    for exprs in &groupings {
        let places = exprs.iter().map(|expr| keys.keys.iter().position(|key| key == expr));
        let places = places.collect::<Option<Vec<usize>>>().ok_or_else(|| {
            let message = "arguments to GROUPING must be grouping expressions of the associated query level";
            SqlError::new(SqlState::GROUPING_ERROR, message)
        })?;
        args.push(places);
    }
    let one = [(0..keys.keys.len()).collect()];
    let sets = if keys.sets.is_empty() { &one[..] } else { &keys.sets };
    let of_set = |set: &Vec<usize>| {
        let value = |places: &Vec<usize>| {
            places.iter().fold(0, |value, place| value << 1 | i64::from(!set.contains(place)))
        };
        GroupingSet { keys: set.clone(), groupings: args.iter().map(value).collect() }
    };
    Ok(sets.iter().map(of_set).collect())
}

/// In place of keys and of `GROUPING`: what a group has behind its aggregates.
pub fn placed(expr: &mut Expr, keys: &[Expr], aggregates: usize) {
    let first = AGGREGATES + aggregates as u16;
    if let Some(at) = keys.iter().position(|key| key == expr) {
        *expr = Expr::Column(first + at as u16);
        return;
    }
    match expr {
        Expr::Column(column) if (GROUPINGS..super::WINDOWS).contains(column) => {
            *column = *column - GROUPINGS + first + keys.len() as u16;
        }
        expr => children_mut(expr, &mut |inner| placed(inner, keys, aggregates)),
    }
}
