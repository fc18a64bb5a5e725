//! Foreign keys and checks as programs have them.

use crate::paths::{Wanted, find};
use crate::tables::Cache;
use crate::walk::all_of;
use sql::catalog::{Catalog, ForeignKey, Oid, Reaction, Table};
use sql::expression::BinaryOp;
use sql::program::{Checked, Path, Reference, ReferenceKind, RowLock, Source};
use sql::{Expr, SqlType};
use std::sync::Arc;

/// The conditions on new rows: all, or those that a change of some columns can break.
pub fn checks(table: &Table, changed: Option<&[u16]>) -> Vec<Checked> {
    let concerns = |condition: &Expr| match changed {
        None => true,
        Some(changed) => !crate::walk::all_columns(condition, &|column| !changed.contains(&column)),
    };
    let concerned = table.checks.iter().filter(|check| concerns(&check.condition));
    concerned.map(|check| Checked { name: check.name.clone(), condition: check.condition.clone() }).collect()
}

/// The rows that a new row's foreign keys ask for.
pub fn of_new_rows(catalog: &Catalog, cache: &mut Cache, table: &Table) -> Vec<Reference> {
    table.foreign_keys.iter().filter_map(|key| must_exist(catalog, cache, table, key)).collect()
}

/// Those of an update of some columns, and the other tables that it changes.
pub fn of_changed_rows(
    catalog: &Catalog,
    cache: &mut Cache,
    table: &Table,
    changed: &[u16],
) -> (Vec<Reference>, Vec<Oid>) {
    let touched =
        table.foreign_keys.iter().filter(|key| key.columns.iter().any(|column| changed.contains(column)));
    let mut references: Vec<Reference> =
        touched.filter_map(|key| must_exist(catalog, cache, table, key)).collect();
    let (others, written) = of_old_rows(catalog, cache, table, Some(changed));
    references.extend(others);
    (references, written)
}

fn must_exist(catalog: &Catalog, cache: &mut Cache, table: &Table, key: &ForeignKey) -> Option<Reference> {
    let other = source(catalog, cache, table, key.to, &key.columns, &key.to_columns)?;
    Some(Reference {
        name: key.name.clone(),
        columns: key.columns.clone(),
        other,
        other_columns: key.to_columns.clone(),
        kind: ReferenceKind::MustExist,
        changed: cache.get(table),
        further: Vec::new(),
    })
}

/// The rows of other tables that refer to rows that are deleted, or of which some columns change.
/// Also the tables that change with them.
pub fn of_old_rows(
    catalog: &Catalog,
    cache: &mut Cache,
    table: &Table,
    changed: Option<&[u16]>,
) -> (Vec<Reference>, Vec<Oid>) {
    let mut left = MOST_REFERENCES;
    following(catalog, cache, table, changed, (0, &mut left))
}

/// Chains of cascades end here: rows that refer to those at the end forbid the statement.
const DEEPEST: usize = 12;
/// So do they after this many references of one statement: keys in a circle would double them with
/// each step.
const MOST_REFERENCES: usize = 500;

fn following(
    catalog: &Catalog,
    cache: &mut Cache,
    table: &Table,
    changed: Option<&[u16]>,
    (depth, left): (usize, &mut usize),
) -> (Vec<Reference>, Vec<Oid>) {
    let (mut references, mut written) = (Vec::new(), Vec::new());
    for other in catalog.tables.values() {
        for key in other.foreign_keys.iter().filter(|key| key.to == table.oid) {
            if changed.is_some_and(|changed| !key.to_columns.iter().any(|column| changed.contains(column))) {
                continue;
            }
            let reaction = if changed.is_some() { key.on_update } else { key.on_delete };
            let kind = match reaction {
                Reaction::Restrict => ReferenceKind::MustNot,
                _ if depth == DEEPEST || *left == 0 => ReferenceKind::MustNot,
                Reaction::Cascade if changed.is_some() => ReferenceKind::Follow,
                Reaction::Cascade => ReferenceKind::Cascade,
                Reaction::SetNull => ReferenceKind::SetNull,
            };
            let Some(mut source) = source(catalog, cache, table, other.oid, &key.to_columns, &key.columns)
            else {
                continue;
            };
            *left = left.saturating_sub(1);
            if kind != ReferenceKind::MustNot {
                source.lock = RowLock::Update;
                written.push(other.oid);
            }
            let (further, more) = match kind {
                ReferenceKind::Cascade => following(catalog, cache, other, None, (depth + 1, &mut *left)),
                ReferenceKind::Follow | ReferenceKind::SetNull => {
                    following(catalog, cache, other, Some(&key.columns), (depth + 1, &mut *left))
                }
                ReferenceKind::MustExist | ReferenceKind::MustNot => (Vec::new(), Vec::new()),
            };
            written.extend(more);
            references.push(Reference {
                name: key.name.clone(),
                columns: key.to_columns.clone(),
                other: source,
                other_columns: key.columns.clone(),
                kind,
                changed: cache.get(table),
                further,
            });
        }
    }
    (references, written)
}

/// The rows of `to` of which `to_columns` equal `columns` of the changed row.
fn source(
    catalog: &Catalog,
    cache: &mut Cache,
    table: &Table,
    to: Oid,
    columns: &[u16],
    to_columns: &[u16],
) -> Option<Source> {
    let other = cache.of(catalog, to)?;
    let width = u16::try_from(table.columns.len()).unwrap_or(u16::MAX);
    let equal = |(from, to): (&u16, &u16)| Expr::Binary {
        op: BinaryOp::Equal,
        left: Expr::Column(width + to).into(),
        right: Expr::Column(*from).into(),
        ty: SqlType::Bool,
    };
    let conditions: Vec<Expr> = columns.iter().zip(to_columns).map(equal).collect();
    let wanted = Wanted {
        table: &other,
        offset: width,
        is_known: &|column| column < width,
        order: &[],
        is_limited: false,
    };
    let way = find(&wanted, &conditions);
    let rest = conditions.into_iter().enumerate().filter(|(at, _)| !way.used.contains(at));
    let filter = all_of(rest.map(|(_, condition)| condition).collect()).map(Arc::new);
    let path: Path = way.path;
    Some(Source { table: other, path, filter, lock: RowLock::None })
}
