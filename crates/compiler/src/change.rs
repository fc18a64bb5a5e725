//! `UPDATE` and `DELETE`.

use crate::Stop;
use crate::error::syntax;
use crate::expressions::Compiler;
use crate::insert::{Written, assignments};
use crate::sources::From;
use crate::tables::Cache;
use sql::catalog::Table;
use sql::program::{Delete, Joined, RowLock, Source, Statement, Update};
use sqlparser::ast::{self, FromTable, TableFactor, UpdateTableFromKind};
use std::sync::Arc;

/// The only table of a clause, with its alias.
fn target<'a, 'q>(
    compiler: &mut Compiler<'a>,
    clause: &'q ast::TableWithJoins,
) -> Result<(&'a Table, Option<&'q ast::TableAlias>), Stop> {
    match &clause.relation {
        TableFactor::Table { name, alias, args: None, .. } if clause.joins.is_empty() => {
            crate::views::refuse_change(compiler.catalog, name)?;
            Ok((compiler.table(name)?, alias.as_ref()))
        }
        _ => Err(syntax("UPDATE and DELETE change one table").into()),
    }
}

pub fn update(compiler: &mut Compiler<'_>, cache: &mut Cache, update: &ast::Update) -> Result<Written, Stop> {
    if !update.order_by.is_empty() || update.limit.is_some() || update.or.is_some() {
        return Err(syntax("UPDATE has no ORDER BY and no LIMIT").into());
    }
    let (table, alias) = target(compiler, &update.table)?;
    let mut from = From::default();
    from.table(cache, table, alias)?;
    from.kinds[0].lock = RowLock::Update;
    match &update.from {
        None => {}
        Some(UpdateTableFromKind::AfterSet(clause) | UpdateTableFromKind::BeforeSet(clause)) => {
            from.add(compiler, cache, clause)?;
        }
    }
    let mut set = assignments(compiler, &from.scope, table, &update.assignments)?;
    let condition = update.selection.as_ref();
    let condition = condition.map(|c| compiler.condition(&from.scope, c, "WHERE")).transpose()?;
    let (mut returning, fields) = crate::items::returning(compiler, &from.scope, update.returning.as_ref())?;
    let mut reads = from.tables.split_off(1);
    let (plan, _) = from.plan(condition, 1, &[], false)?;
    set.iter_mut().for_each(|assignment| plan.place(&mut assignment.value));
    returning.iter_mut().for_each(|output| plan.place(&mut output.expr));
    let (source, from) = split(plan)?;
    let changed: Vec<u16> = set.iter().map(|assignment| assignment.column).collect();
    let checks = crate::references::checks(table, Some(&changed));
    let (references, others) = crate::references::of_changed_rows(compiler.catalog, cache, table, &changed);
    reads.extend(table.foreign_keys.iter().map(|key| key.to));
    let (set, checks) = (Arc::new(set), Arc::new(checks));
    let statement = Statement::Update(Update { source, from, set, checks, references, returning });
    let mut writes = vec![table.oid];
    writes.extend(others);
    Ok(Written { statement, fields, reads, writes })
}

pub fn delete(compiler: &mut Compiler<'_>, cache: &mut Cache, delete: &ast::Delete) -> Result<Written, Stop> {
    if !delete.order_by.is_empty() || delete.limit.is_some() || !delete.tables.is_empty() {
        return Err(syntax("DELETE has no ORDER BY and no LIMIT").into());
    }
    let (FromTable::WithFromKeyword(clause) | FromTable::WithoutKeyword(clause)) = &delete.from;
    let [clause] = clause.as_slice() else { return Err(syntax("DELETE changes one table").into()) };
    let (table, alias) = target(compiler, clause)?;
    let mut from = From::default();
    from.table(cache, table, alias)?;
    from.kinds[0].lock = RowLock::Update;
    if let Some(using) = &delete.using {
        from.add(compiler, cache, using)?;
    }
    let condition = delete.selection.as_ref();
    let condition = condition.map(|c| compiler.condition(&from.scope, c, "WHERE")).transpose()?;
    let (mut returning, fields) = crate::items::returning(compiler, &from.scope, delete.returning.as_ref())?;
    let reads = from.tables.split_off(1);
    let (plan, _) = from.plan(condition, 1, &[], false)?;
    returning.iter_mut().for_each(|output| plan.place(&mut output.expr));
    let (source, from) = split(plan)?;
    let (references, others) = crate::references::of_old_rows(compiler.catalog, cache, table, None);
    let statement = Statement::Delete(Delete { source, from, references, returning });
    let mut writes = vec![table.oid];
    writes.extend(others);
    Ok(Written { statement, fields, reads, writes })
}

/// The changed table's source, and those after it.
fn split(plan: crate::sources::Plan) -> Result<(Source, Vec<Joined>), Stop> {
    if plan.rest.is_some() {
        return Err(Stop::General("a condition after an outer join"));
    }
    let mut sources = plan.sources.into_iter();
    let first = sources.next().ok_or(Stop::General("a change without a table"))?;
    Ok((first.source, sources.collect()))
}
