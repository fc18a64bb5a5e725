//! `DROP`, `TRUNCATE`, `CREATE INDEX`, `ALTER INDEX`.

use super::constraints::{columns, no_distinct_nulls};
use super::create_table::emptied;
use super::{Changing, KeyKind, Task};
use crate::error::{DEPENDENT_OBJECTS, WRONG_OBJECT_TYPE, no_table};
use sql::catalog::{ColumnDefault, Oid, Table};
use sql::{SqlError, SqlState};
use sqlparser::ast::{
    self, AlterIndexOperation, CreateIndex, IndexColumn, ObjectName, ObjectType, OrderBySort, Statement,
    Truncate,
};

impl Changing {
    pub fn create_index(&mut self, create: &CreateIndex) -> Result<&'static str, SqlError> {
        const TAG: &str = "CREATE INDEX";
        if create.predicate.is_some() {
            return Err(SqlError::unsupported("a partial index", Some("Leave WHERE out.")));
        }
        if !create.include.is_empty() {
            return Err(SqlError::unsupported(
                "INCLUDE",
                Some("Index entries lead to the rows; leave INCLUDE out."),
            ));
        }
        let table = self.table_named(&super::name(&create.table_name)?)?.oid;
        if create.nulls_distinct == Some(false) {
            return Err(no_distinct_nulls());
        }
        let names = columns(&create.columns)?;
        let positions = self.positions(table, &names)?;
        let name = match &create.name {
            Some(name) => super::name(name)?,
            None => self.free_name(&format!("{}_{}_idx", self.table_at(table)?.name, names.join("_"))),
        };
        if self.is_taken(&name) {
            if create.if_not_exists {
                self.change.notices.push(format!("relation \"{name}\" already exists, skipping"));
                return Ok(TAG);
            }
            return Err(super::taken(&name));
        }
        self.change.notices.extend(ascends_all_the_same(&name, &create.columns));
        self.add_index(table, name, positions, (create.unique, false), KeyKind::OfRows)?;
        Ok(TAG)
    }

    pub fn alter_index(
        &mut self,
        name: &ObjectName,
        operation: &AlterIndexOperation,
    ) -> Result<&'static str, SqlError> {
        let AlterIndexOperation::RenameIndex { index_name } = operation;
        let (from, to) = (super::name(name)?, super::name(index_name)?);
        if self.is_taken(&to) {
            return Err(super::taken(&to));
        }
        let is_it = |table: &&Table| {
            !table.key.is_empty() && table.key_name == from
                || table.indexes.iter().any(|index| index.name == from)
        };
        let oid = self.change.catalog.tables.values().find(is_it).map(|table| table.oid);
        let table = self.table_mut(oid.ok_or_else(|| no_table(&from))?)?;
        if table.key_name == from {
            table.key_name.clone_from(&to);
        }
        for index in table.indexes.iter_mut().filter(|index| index.name == from) {
            index.name.clone_from(&to);
        }
        Ok("ALTER INDEX")
    }

    pub fn drop_objects(&mut self, statement: &Statement) -> Result<&'static str, SqlError> {
        let Statement::Drop { object_type, if_exists, names, cascade, .. } = statement else {
            return Ok("DROP");
        };
        let (kind, tag) = match object_type {
            ObjectType::Table => ("table", "DROP TABLE"),
            ObjectType::Index => ("index", "DROP INDEX"),
            ObjectType::Sequence => ("sequence", "DROP SEQUENCE"),
            ObjectType::View => ("view", "DROP VIEW"),
            ObjectType::MaterializedView if *if_exists => ("materialized view", "DROP MATERIALIZED VIEW"),
            ObjectType::Type => ("type", "DROP TYPE"),
            ObjectType::Role | ObjectType::User if *if_exists => ("role", "DROP ROLE"),
            other => return Err(SqlError::unsupported(&format!("DROP {other}"), None)),
        };
        let mut tables = Vec::new();
        for name in names {
            let name = super::name(name)?;
            let found = match kind {
                "table" => match self.change.catalog.table(&name).map(|table| table.oid) {
                    Some(oid) => {
                        tables.push(oid);
                        true
                    }
                    None if self.is_taken(&name) => return Err(wrong_kind(&name, kind)),
                    None => false,
                },
                "index" => self.drop_index(&name)?,
                "sequence" => self.drop_sequence(&name, *cascade)?,
                "type" => self.drop_type(&name, *cascade)?,
                "view" if self.drop_view(&name, *cascade)? => true,
                "view" if self.is_taken(&name) => return Err(wrong_kind(&name, kind)),
                _ => false,
            };
            if !found {
                let message = format!("{kind} \"{name}\" does not exist");
                match (if_exists, kind) {
                    (true, _) => self.change.notices.push(format!("{message}, skipping")),
                    (false, "table" | "view") => {
                        return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
                    }
                    (false, _) => return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message)),
                }
            }
        }
        self.drop_tables(&tables, *cascade)?;
        Ok(tag)
    }

    fn drop_tables(&mut self, dropped: &[Oid], cascade: bool) -> Result<(), SqlError> {
        let referring: Vec<(Oid, String, String, Oid)> = self
            .change
            .catalog
            .tables
            .values()
            .filter(|table| !dropped.contains(&table.oid))
            .flat_map(|table| table.foreign_keys.iter().map(move |key| (table, key)))
            .filter(|(_, key)| dropped.contains(&key.to))
            .map(|(table, key)| (table.oid, table.name.clone(), key.name.clone(), key.to))
            .collect();
        for (table, name, key, to) in referring {
            if !cascade {
                let message = format!(
                    "cannot drop table {} because other objects depend on it",
                    self.table_at(to)?.name
                );
                return Err(SqlError::new(DEPENDENT_OBJECTS, message)
                    .with_detail(format!("constraint {key} on table {name} depends on it."))
                    .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            self.table_mut(table)?.foreign_keys.retain(|known| known.name != key);
            self.change.notices.push(format!("drop cascades to constraint {key} on table {name}"));
        }
        for oid in dropped {
            let what = format!("table {}", self.table_at(*oid)?.name);
            self.drop_users(&what, &[*oid], cascade)?;
        }
        for oid in dropped {
            let Some(table) = self.change.catalog.tables.remove(oid) else { continue };
            self.change.changed.remove(oid);
            self.change.removed.insert(*oid);
            self.change.tasks.push(emptied(table.store));
            self.change.tasks.extend(table.indexes.iter().map(|index| emptied(index.store)));
            let owned = self.change.catalog.sequences.values();
            let owned = owned.filter(|sequence| sequence.owned_by.is_some_and(|(owner, _)| owner == *oid));
            let owned: Vec<Oid> = owned.map(|sequence| sequence.oid).collect();
            for sequence in owned {
                self.change.catalog.sequences.remove(&sequence);
                self.change.removed.insert(sequence);
            }
        }
        Ok(())
    }

    fn drop_index(&mut self, name: &str) -> Result<bool, SqlError> {
        let tables = self.change.catalog.tables.values();
        let found = tables.flat_map(|table| table.indexes.iter().map(move |index| (table, index)));
        let found = found.into_iter().find(|(_, index)| index.name == name);
        let Some((table, index)) = found else {
            let is_key = |table: &Table| !table.key.is_empty() && table.key_name == name;
            if let Some(table) = self.change.catalog.tables.values().find(|table| is_key(table)) {
                return Err(needed(name, &table.name));
            }
            return if self.is_taken(name) { Err(wrong_kind(name, "index")) } else { Ok(false) };
        };
        if index.is_constraint {
            return Err(needed(name, &table.name));
        }
        let (table, index) = (table.oid, index.oid);
        self.remove_index(table, index)?;
        Ok(true)
    }

    pub fn remove_index(&mut self, table: Oid, index: Oid) -> Result<(), SqlError> {
        let owner = self.table_mut(table)?;
        let Some(at) = owner.indexes.iter().position(|known| known.oid == index) else { return Ok(()) };
        let removed = owner.indexes.remove(at);
        self.change.tasks.push(emptied(removed.store));
        Ok(())
    }

    fn drop_sequence(&mut self, name: &str, cascade: bool) -> Result<bool, SqlError> {
        let Some(oid) = self.change.catalog.sequence(name).map(|sequence| sequence.oid) else {
            return if self.is_taken(name) { Err(wrong_kind(name, "sequence")) } else { Ok(false) };
        };
        let is_default = |column: &sql::catalog::Column| {
            column.default == Some(ColumnDefault::Next(oid)) && !column.dropped
        };
        let tables = self.change.catalog.tables.values();
        let users = tables
            .filter(|table| table.columns.iter().any(is_default))
            .map(|table| (table.oid, table.name.clone()));
        let users: Vec<(Oid, String)> = users.collect();
        for (table, table_name) in users {
            if !cascade {
                let message = format!("cannot drop sequence {name} because other objects depend on it");
                let detail = format!("a default value of table {table_name} depends on sequence {name}");
                return Err(SqlError::new(DEPENDENT_OBJECTS, message).with_detail(detail));
            }
            for column in self.table_mut(table)?.columns.iter_mut().filter(|column| is_default(column)) {
                column.default = None;
            }
        }
        self.drop_users(&format!("sequence {name}"), &[oid], cascade)?;
        self.change.catalog.sequences.remove(&oid);
        self.change.removed.insert(oid);
        Ok(true)
    }

    /// All tables get empty stores.
    pub fn truncate(&mut self, truncate: &Truncate) -> Result<&'static str, SqlError> {
        let mut tables = Vec::with_capacity(truncate.table_names.len());
        for target in &truncate.table_names {
            let oid = self.table_named(&super::name(&target.name)?)?.oid;
            if !tables.contains(&oid) {
                tables.push(oid);
            }
        }
        self.refuse_referred(&mut tables, truncate.cascade == Some(ast::CascadeOption::Cascade))?;
        for oid in &tables {
            let store = self.store()?;
            let before = std::mem::replace(&mut self.table_mut(*oid)?.store, store);
            self.change.tasks.push(emptied(before));
            for at in 0..self.table_at(*oid)?.indexes.len() {
                let store = self.store()?;
                let before = std::mem::replace(&mut self.table_mut(*oid)?.indexes[at].store, store);
                self.change.tasks.push(emptied(before));
            }
            if truncate.identity == Some(ast::TruncateIdentityOption::Restart) {
                let owned = self.change.catalog.sequences.values();
                let owned =
                    owned.filter(|sequence| sequence.owned_by.is_some_and(|(owner, _)| owner == *oid));
                let tasks = owned.map(|owned| Task::SetSequence { sequence: owned.oid, next: owned.start });
                self.change.tasks.extend(tasks);
            }
        }
        Ok("TRUNCATE TABLE")
    }

    /// Tables that refer to the truncated ones must be truncated with them.
    fn refuse_referred(&self, tables: &mut Vec<Oid>, cascade: bool) -> Result<(), SqlError> {
        let mut at = 0;
        while at < tables.len() {
            let to = tables[at];
            for table in self.change.catalog.tables.values() {
                if tables.contains(&table.oid) || !table.foreign_keys.iter().any(|key| key.to == to) {
                    continue;
                }
                if !cascade {
                    let name = &self.table_at(to)?.name;
                    let message = "cannot truncate a table referenced in a foreign key constraint";
                    let hint = format!(
                        "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                        table.name
                    );
                    let detail = format!("Table \"{}\" references \"{name}\".", table.name);
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                        .with_detail(detail)
                        .with_hint(hint));
                }
                tables.push(table.oid);
            }
            at += 1;
        }
        Ok(())
    }
}

/// The notice for an index of which the statement wants another order than that of all indexes:
/// ascending, with nulls last.
fn ascends_all_the_same(index: &str, columns: &[IndexColumn]) -> Option<String> {
    let is_other = |column: &IndexColumn| {
        let options = &column.column.options;
        options.sort == Some(OrderBySort::Desc) || options.nulls_first == Some(true)
    };
    columns.iter().any(is_other).then(|| {
        format!(
            "index \"{index}\" has its columns ascending with nulls last; it is read in that order and in the opposite one"
        )
    })
}

fn needed(index: &str, table: &str) -> SqlError {
    let message =
        format!("cannot drop index {index} because constraint {index} on table {table} requires it");
    SqlError::new(DEPENDENT_OBJECTS, message)
        .with_hint(format!("You can drop constraint {index} on table {table} instead."))
}

fn wrong_kind(name: &str, kind: &str) -> SqlError {
    SqlError::new(WRONG_OBJECT_TYPE, format!("\"{name}\" is not a {kind}"))
}
