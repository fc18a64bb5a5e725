//! Changes of the catalog: one transaction at a time makes them, and other sessions know them from
//! its commit on.
//!
//! A physical table that nothing uses may hold rows of a dropped one. It is emptied before it is
//! used again, in transactions of its own, so a crash leaves nothing that matters.

use super::block::{Changing, Kind};
use super::carry::{Product, Reach};
use super::{Failure, Session, Stream};
use crate::engine::{Conversation, Engine, RunError, done, outcomes};
use crate::guards::Hold;
use crate::language::Ready;
use crate::outgoing::Severity;
use crate::sequences;
use crate::shared::now;
use compiler::ddl::{Change, Definition, Stores, Task};
use sql::catalog::{Catalog, Oid, Store, Table};
use sql::database::Command;
use sql::program::Stored;
use sql::{SqlError, SqlState};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Rows that one transaction removes of a table that is emptied.
const PURGED_AT_ONCE: u64 = 2000;

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
        let change = definition.apply(&before, &mut stores)?;
        for oid in change.changed.union(&change.removed).filter(|oid| before.tables.contains_key(oid)) {
            self.guard(*oid, Hold::Alone).await?;
        }
        let tag = change.tag;
        for notice in &change.notices {
            self.notice(Severity::Notice, SqlState(*b"00000"), notice);
        }
        if change.catalog.version != before.version && !is_same(&before, &change.catalog) {
            self.make(&before, change).await?;
        }
        if alone {
            self.commit().await?;
        }
        Ok(Product::Done(tag.into()))
    }

    /// Becomes the transaction that changes the catalog.
    async fn change_alone(&mut self) -> Result<(), SqlError> {
        if self.block.changing.is_some() {
            return Ok(());
        }
        let patience = self.settings.limit("lock_timeout").unwrap_or(Duration::from_secs(365 * 86_400));
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
        let used: BTreeSet<Store> = stores_of(catalog).chain(stores_of(&self.shared.catalog())).collect();
        (sequences::STORE.0 + 1..self.shared.stores).map(Store).filter(|store| !used.contains(store)).collect()
    }

    /// Makes the change in the transaction: the stored catalog, then the stored rows.
    async fn make(&mut self, before: &Catalog, change: Change) -> Result<(), Failure> {
        let old: BTreeSet<Store> = stores_of(before).collect();
        let taken: BTreeSet<Store> = stores_of(&change.catalog).filter(|store| !old.contains(store)).collect();
        for store in taken {
            self.empty(store).await?;
        }
        let catalog = Arc::new(change.catalog);
        self.obey(Command::Define { from: before.version, catalog: Box::new(Catalog::clone(&catalog)) }).await?;
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

    /// Removes what a dropped table has left, in transactions of their own.
    async fn empty(&mut self, store: Store) -> Result<(), SqlError> {
        loop {
            let mut conversation = self.shared.engine.begin();
            let purge = Command::Purge { store, most: PURGED_AT_ONCE };
            let purged = async {
                let purged = outcomes(conversation.command(purge).await?)?;
                conversation.commit().await?;
                Ok(purged.iter().map(|outcome| outcome.count).sum::<u64>())
            };
            match purged.await {
                Ok(count) if count < PURGED_AT_ONCE => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(RunError::into_sql(error)),
            }
        }
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
            Task::Rekey { table, from } => {
                let to = table_of(catalog, *table)?;
                let mut old = table_of(before, *table).unwrap_or(to).clone();
                old.store = *from;
                let columns = (0..to.columns.len() as u16).map(|i| Some(i).filter(|i| usize::from(*i) < old.columns.len()));
                let copy = Command::Copy {
                    from: Arc::new(Stored::of(&old)),
                    to: Arc::new(Stored::of(to)),
                    columns: columns.collect(),
                    statement: self.shared.statement(),
                };
                self.obey(copy).await?;
            }
            // It is emptied when it is used again.
            Task::Empty { .. } => {}
            Task::VerifyCheck { .. } | Task::VerifyForeignKey { .. } | Task::VerifyNotNull { .. } => {
                self.verify(catalog, task).await?;
            }
            Task::SetSequence { sequence, next } => {
                let program = Arc::new(sequences::writing(*sequence, *next, false));
                let call = self.shared.call(program, Vec::new(), now());
                let answer = self.command(Command::Run(call)).await?;
                outcomes(answer).map_err(RunError::into_sql)?;
                self.shared.sequences.forget(*sequence);
            }
        }
        Ok(())
    }

    /// Looks for a row that violates a new condition.
    async fn verify(&mut self, catalog: &Catalog, task: &Task) -> Result<(), Failure> {
        let (text, error) = violation(catalog, task)?;
        let parsed = compiler::parse(&text)?.pop().ok_or_else(missing)?;
        let ready = Ready::of(&parsed, &[], catalog)?;
        let found = self.run_program(&ready, Vec::new()).await?;
        match found.iter().any(|outcome| !outcome.rows.is_empty()) {
            true => Err(error.into()),
            false => Ok(()),
        }
    }
}

/// The query that finds a row against the condition, and the error if there is one.
fn violation(catalog: &Catalog, task: &Task) -> Result<(String, SqlError), SqlError> {
    match task {
        Task::VerifyNotNull { table, column } => {
            let table = table_of(catalog, *table)?;
            let column = &table.columns[usize::from(*column)].name;
            let text = format!("SELECT 1 FROM {} WHERE {} IS NULL LIMIT 1", quoted(&table.name), quoted(column));
            let message = format!("column \"{column}\" of relation \"{}\" contains null values", table.name);
            Ok((text, SqlError::new(SqlState::NOT_NULL_VIOLATION, message)))
        }
        Task::VerifyCheck { table, name } => {
            let table = table_of(catalog, *table)?;
            let check = table.checks.iter().find(|check| check.name == *name).ok_or_else(missing)?;
            let text = format!("SELECT 1 FROM {} WHERE NOT ({}) LIMIT 1", quoted(&table.name), check.text);
            let message = format!("check constraint \"{name}\" of relation \"{}\" is violated by some row", table.name);
            let error = SqlError::new(SqlState::CHECK_VIOLATION, message).on_constraint(&table.name, name);
            Ok((text, error))
        }
        Task::VerifyForeignKey { table, name } => {
            let table = table_of(catalog, *table)?;
            let key = table.foreign_keys.iter().find(|key| key.name == *name).ok_or_else(missing)?;
            let other = table_of(catalog, key.to)?;
            let pairs = || key.columns.iter().zip(&key.to_columns);
            let of = |table: &Table, column: &u16| quoted(&table.columns[usize::from(*column)].name);
            let on: Vec<String> =
                pairs().map(|(from, to)| format!("a.{} = b.{}", of(table, from), of(other, to))).collect();
            let there: Vec<String> =
                key.columns.iter().map(|column| format!("a.{} IS NOT NULL", of(table, column))).collect();
            let text = format!(
                "SELECT 1 FROM {} a LEFT JOIN {} b ON {} WHERE b.{} IS NULL AND {} LIMIT 1",
                quoted(&table.name),
                quoted(&other.name),
                on.join(" AND "),
                key.to_columns.first().map_or_else(String::new, |column| of(other, column)),
                there.join(" AND ")
            );
            let message = format!(
                "insert or update on table \"{}\" violates foreign key constraint \"{name}\"",
                table.name
            );
            let error = SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message).on_constraint(&table.name, name);
            Ok((text, error))
        }
        _ => Err(missing()),
    }
}

/// A name as SQL text.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn missing() -> SqlError {
    SqlError::new(SqlState::INTERNAL, "an object of the change is not in the catalog")
}

fn table_of(catalog: &Catalog, oid: Oid) -> Result<&Table, SqlError> {
    catalog.tables.get(&oid).ok_or_else(missing)
}

/// The physical tables that a catalog uses.
fn stores_of(catalog: &Catalog) -> impl Iterator<Item = Store> {
    catalog.tables.values().flat_map(|table| {
        std::iter::once(table.store).chain(table.indexes.iter().map(|index| index.store))
    })
}

/// Whether nothing but the version has changed (`IF NOT EXISTS` of what exists).
fn is_same(before: &Catalog, after: &Catalog) -> bool {
    before.tables == after.tables && before.sequences == after.sequences
}
