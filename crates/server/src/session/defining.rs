//! Changes of the catalog: one transaction at a time makes them, and other sessions know them from
//! its commit on.
//!
//! A physical table that nothing uses any more is emptied later ([`crate::emptying`]).

use super::block::{Changing, Kind};
use super::carry::{Product, Reach};
use super::{Failure, Session, Stream};
use crate::engine::{Engine, RunError, done};
use crate::guards::Hold;
use crate::language::{Prepared, Ready};
use crate::outgoing::Severity;
use crate::settings::Limit;
use compiler::TableOfRows;
use compiler::ddl::{Bodies, Change, Definition, Stores, Task};
use sql::bound::Bound;
use sql::catalog::{Catalog, Check, Column, ForeignKey, Oid, Store, Table};
use sql::database::{CATALOG, Command};
use sql::program::{Checked, Stored};
use sql::{Datum, Expr, SqlError, SqlState};
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

impl<S: Stream, E: Engine> Session<S, E> {
    pub(super) async fn define(&mut self, definition: &Definition, reach: Reach) -> Result<Product, Failure> {
        if self.block.read_only {
            let message = "cannot change definitions in a read-only transaction";
            return Err(SqlError::new(SqlState(*b"25006"), message).into());
        }
        let alone = reach == Reach::Alone && self.block.kind == Kind::None;
        if self.block.kind == Kind::None {
            self.begin(Kind::Implicit);
        }
        self.change_alone().await?;
        let before = self.catalog();
        let mut stores = Stores { free: self.free_stores(&before) };
        let are_checked = self.settings.get("check_function_bodies")? == "on";
        let bodies = if are_checked { Bodies::Checked } else { Bodies::Taken };
        let change = definition.apply_as(&before, &mut stores, bodies)?;
        for oid in change.changed.union(&change.removed).filter(|oid| is_guarded(&before, **oid)) {
            self.guard(*oid, Hold::Alone).await?;
        }
        let tag = change.tag;
        for notice in &change.notices {
            self.notice(Severity::Notice, SqlState(*b"00000"), notice);
        }
        if !change.tasks.is_empty() || !is_same(&before, &change.catalog) {
            self.make(&before, change).await?;
        }
        if alone {
            self.commit().await?;
        }
        Ok(Product::Done(tag.into()))
    }

    /// Makes a table of the rows of a query. The statement that stores them is one inside of this
    /// one: the future is boxed.
    pub(super) fn create_as<'s>(
        &'s mut self,
        table: &'s TableOfRows,
        reach: Reach,
    ) -> Pin<Box<dyn Future<Output = Result<Product, Failure>> + Send + 's>> {
        Box::pin(async move {
            let alone = reach == Reach::Alone && self.block.kind == Kind::None;
            if self.block.kind == Kind::None {
                self.begin(Kind::Implicit);
            }
            self.change_alone().await?;
            let before = self.catalog();
            self.define(&table.create, Reach::WithOthers).await?;
            let is_new = before.version != self.catalog().version;
            let mut tag = "CREATE TABLE AS".to_owned();
            if let Some(insert) = table.insert.clone().filter(|_| is_new) {
                let insert = Prepared::of(Some(insert), Vec::new(), &self.catalog())?;
                let stored = self.carry(&insert, Vec::new(), Reach::WithOthers).await?;
                if let Some((_, Product::Done(done))) = stored {
                    tag = format!("SELECT {}", done.rsplit(' ').next().unwrap_or("0"));
                }
            }
            if alone {
                self.commit().await?;
            }
            Ok(Product::Done(tag))
        })
    }

    /// Becomes the transaction that changes the catalog.
    async fn change_alone(&mut self) -> Result<(), SqlError> {
        if self.block.changing.is_some() {
            return Ok(());
        }
        let patience = self.settings.limit(Limit::Lock).unwrap_or(Duration::from_secs(365 * 86_400));
        let alone = Arc::clone(&self.shared.defining).lock_owned();
        let alone = tokio::time::timeout(patience, alone).await.map_err(|_| {
            SqlError::new(SqlState(*b"55P03"), "canceling statement due to lock timeout")
                .with_detail("Another transaction changes definitions.")
        })?;
        self.block.changing = Some(Changing { catalog: self.shared.catalog(), _alone: alone });
        Ok(())
    }

    /// Physical tables that neither this transaction nor any other session uses.
    fn free_stores(&self, catalog: &Catalog) -> BTreeSet<Store> {
        let (own, known) = (catalog.stores(), self.shared.catalog().stores());
        let is_free = |store: &Store| !own.contains(store) && !known.contains(store);
        (CATALOG.0 + 1..self.shared.stores).map(Store).filter(is_free).collect()
    }

    /// Makes the change in the transaction: the stored catalog, then the stored rows.
    async fn make(&mut self, before: &Catalog, change: Change) -> Result<(), Failure> {
        let mut catalog = change.catalog;
        catalog.emptying.extend(change.tasks.iter().filter_map(|task| match task {
            Task::Empty { store } => Some(*store),
            _ => None,
        }));
        let catalog = Arc::new(catalog);
        self.obey(Command::Define { from: before.version, catalog: Box::new(Catalog::clone(&catalog)) })
            .await?;
        if let Some(changing) = &mut self.block.changing {
            changing.catalog = Arc::clone(&catalog);
        }
        for task in &change.tasks {
            self.carry_task(before, &catalog, task).await?;
        }
        Ok(())
    }

    async fn obey(&mut self, command: Command) -> Result<(), SqlError> {
        let answer = self.command(command).await?;
        done(answer).map_err(RunError::into_sql)
    }

    async fn carry_task(&mut self, before: &Catalog, catalog: &Catalog, task: &Task) -> Result<(), Failure> {
        match task {
            Task::FillIndex { table, index } => {
                let table = table_of(catalog, *table)?;
                let Some(at) = table.indexes.iter().position(|known| known.oid == *index) else {
                    return Err(missing().into());
                };
                self.obey(Command::Fill { table: Arc::new(Stored::of(table)), index: at as u16 }).await?;
            }
            Task::Rekey { table, from, values } => {
                let to = table_of(catalog, *table)?;
                let mut old = table_of(before, *table).unwrap_or(to).clone();
                old.store = *from;
                let value = |(column, new): (u16, &Column)| {
                    let other = values.iter().find(|(of, _)| *of == column).map(|(_, value)| value.clone());
                    other.unwrap_or_else(|| match usize::from(column) < old.columns.len() {
                        true => Expr::Column(column),
                        false => Expr::Const(new.missing.clone()),
                    })
                };
                let all = (0..).zip(&to.columns).map(value).collect();
                // Values that are other than before are checked.
                let checks = to.checks.iter().filter(|_| !values.is_empty()).map(checked).collect();
                let copy = Command::Copy {
                    from: Arc::new(Stored::of(&old)),
                    to: Arc::new(Stored::of(to)),
                    values: all,
                    checks,
                    bound: self.bound(),
                    statement: self.shared.statement(),
                };
                self.obey(copy).await?;
            }
            // It is emptied after the commit.
            Task::Empty { .. } => {}
            Task::VerifyNotNull { table, .. } => self.verify(catalog, *table, None).await?,
            Task::VerifyCheck { table, name } => self.verify(catalog, *table, Some(name)).await?,
            Task::VerifyForeignKey { table, name } => self.verify_key(catalog, *table, name).await?,
            Task::SetSequence { sequence, next } => {
                self.obey(Command::SetNumber { sequence: *sequence, number: *next, is_taken: false }).await?;
                self.shared.sequences.forget(*sequence);
            }
        }
        Ok(())
    }

    /// Whether the rows of a table meet a check, and have no nulls where there must be none.
    async fn verify(&mut self, catalog: &Catalog, table: Oid, check: Option<&str>) -> Result<(), Failure> {
        let table = table_of(catalog, table)?;
        let checks = table.checks.iter().filter(|known| Some(known.name.as_str()) == check);
        let command = Command::Verify {
            table: Arc::new(Stored::of(table)),
            checks: checks.map(checked).collect(),
            references: Vec::new(),
            bound: self.bound(),
        };
        Ok(self.obey(command).await?)
    }

    /// What expressions over stored rows are evaluated with.
    fn bound(&self) -> Bound {
        Bound { params: Vec::new(), now: self.block.now, zone: self.settings.zone() }
    }

    /// Looks for a row that refers to none.
    async fn verify_key(&mut self, catalog: &Catalog, table: Oid, name: &str) -> Result<(), Failure> {
        let table = table_of(catalog, table)?;
        let key = table.foreign_keys.iter().find(|key| key.name == name).ok_or_else(missing)?;
        let other = table_of(catalog, key.to)?;
        let query = without_partner(table, other, key);
        let parsed = compiler::parse(&query)?.pop().ok_or_else(missing)?;
        let ready = Ready::of(&parsed, &[], &Arc::new(catalog.clone()))?;
        let found = self.run_program(&ready, Vec::new()).await?;
        let Some(row) = found.iter().find_map(|outcome| outcome.rows.first()) else { return Ok(()) };
        let mut values = vec![Datum::Null; table.columns.len()];
        for (&column, value) in key.columns.iter().zip(row) {
            values[usize::from(column)] = value.clone();
        }
        let (stored, zone) = (Stored::of(table), self.settings.zone());
        Err(stored.refers_to_none(name, &key.columns, &values, &other.name, &zone).into())
    }
}

fn checked(check: &Check) -> Checked {
    Checked { name: check.name.clone(), condition: check.condition.clone() }
}

/// The query that finds a row against a foreign key: the key's values.
fn without_partner(table: &Table, other: &Table, key: &ForeignKey) -> String {
    let of = |table: &Table, column: &u16| quoted(&table.columns[usize::from(*column)].name);
    let from: Vec<String> = key.columns.iter().map(|column| format!("a.{}", of(table, column))).collect();
    let to = key.to_columns.iter().map(|column| format!("b.{}", of(other, column)));
    let on: Vec<String> = from.iter().zip(to).map(|(from, to)| format!("{from} = {to}")).collect();
    let there: Vec<String> = from.iter().map(|from| format!("{from} IS NOT NULL")).collect();
    format!(
        "SELECT {} FROM {} a LEFT JOIN {} b ON {} WHERE b.{} IS NULL AND {} LIMIT 1",
        from.join(", "),
        quoted(&table.name),
        quoted(&other.name),
        on.join(" AND "),
        key.to_columns.first().map_or_else(String::new, |column| of(other, column)),
        there.join(" AND ")
    )
}

/// A name as SQL text.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn missing() -> SqlError {
    SqlError::new(SqlState::INTERNAL, "an object of the change is not in the catalog")
}

fn table_of(catalog: &Catalog, oid: Oid) -> Result<&Table, SqlError> {
    catalog.tables.get(&oid).ok_or_else(missing)
}

/// Whether nothing but the version has changed (`IF NOT EXISTS` of what exists).
fn is_same(before: &Catalog, after: &Catalog) -> bool {
    before.tables == after.tables
        && before.sequences == after.sequences
        && before.procedures == after.procedures
        && before.types == after.types
}

/// Whether statements hold a guard on the object while they run.
fn is_guarded(catalog: &Catalog, oid: Oid) -> bool {
    catalog.tables.contains_key(&oid) || catalog.procedures.contains_key(&oid)
}
