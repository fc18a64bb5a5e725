//! `ALTER TABLE`.

use super::create_table::{column, emptied};
use super::{Changing, KeyKind, Task};
use crate::error::{DEPENDENT_OBJECTS, INVALID_TABLE_DEFINITION, no_column_of};
use crate::names::folded;
use crate::types;
use sql::catalog::{ColumnDefault, Oid, Table};
use sql::{Datum, Expr, SqlError, SqlState};
use sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ColumnDef, ColumnOption, DropBehavior,
    RenameTableNameKind,
};

impl Changing {
    pub fn alter_table(&mut self, alter: &AlterTable) -> Result<&'static str, SqlError> {
        const TAG: &str = "ALTER TABLE";
        let name = super::name(&alter.name)?;
        let Some(oid) = self.change.catalog.table(&name).map(|table| table.oid) else {
            if alter.if_exists {
                self.change.notices.push(format!("relation \"{name}\" does not exist, skipping"));
                return Ok(TAG);
            }
            // `pg_dump` names the owners of sequences so.
            let is_owner = |operation| matches!(operation, &AlterTableOperation::OwnerTo { .. });
            if self.change.catalog.sequence(&name).is_some() && alter.operations.iter().all(is_owner) {
                return Ok(TAG);
            }
            return Err(crate::error::no_table(&name));
        };
        for operation in &alter.operations {
            self.alter(oid, operation)?;
        }
        self.change.changed.insert(oid);
        Ok(TAG)
    }

    fn alter(&mut self, oid: Oid, operation: &AlterTableOperation) -> Result<(), SqlError> {
        use AlterTableOperation as A;
        match operation {
            A::AddConstraint { constraint, .. } => self.add_constraint(oid, constraint, KeyKind::OfRows),
            A::AddColumn { if_not_exists, column_def, .. } => {
                self.add_column(oid, column_def, *if_not_exists)
            }
            A::DropColumn { column_names, if_exists, drop_behavior, .. } => {
                for name in column_names {
                    self.drop_column(
                        oid,
                        &folded(name),
                        *if_exists,
                        *drop_behavior == Some(DropBehavior::Cascade),
                    )?;
                }
                Ok(())
            }
            A::DropConstraint { if_exists, name, drop_behavior } => {
                let cascade = *drop_behavior == Some(DropBehavior::Cascade);
                self.drop_constraint(oid, &folded(name), *if_exists, cascade)
            }
            A::RenameColumn { old_column_name, new_column_name } => {
                let (from, to) = (folded(old_column_name), folded(new_column_name));
                if self.table_at(oid)?.column(&to).is_some() {
                    let message = format!(
                        "column \"{to}\" of relation \"{}\" already exists",
                        self.table_at(oid)?.name
                    );
                    return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
                }
                self.column_mut(oid, &from)?.name = to;
                Ok(())
            }
            A::RenameTable { table_name: RenameTableNameKind::To(name) | RenameTableNameKind::As(name) } => {
                let name = super::name(name)?;
                if self.is_taken(&name) {
                    return Err(super::taken(&name));
                }
                self.table_mut(oid)?.name = name;
                Ok(())
            }
            A::RenameConstraint { old_name, new_name } => {
                self.rename_constraint(oid, &folded(old_name), folded(new_name))
            }
            A::AlterColumn { column_name, op } => self.alter_column(oid, &folded(column_name), op),
            // Storage parameters and owners mean nothing here.
            A::SetOptionsParens { .. } | A::OwnerTo { .. } | A::ValidateConstraint { .. } => Ok(()),
            A::SetLogged | A::ReplicaIdentity { .. } => Ok(()),
            other => Err(SqlError::unsupported(&format!("ALTER TABLE ... {other}"), None)),
        }
    }

    fn add_column(&mut self, oid: Oid, definition: &ColumnDef, if_not_exists: bool) -> Result<(), SqlError> {
        let name = folded(&definition.name);
        let table = self.table_at(oid)?;
        if table.column(&name).is_some() {
            let message = format!("column \"{name}\" of relation \"{}\" already exists", table.name);
            if if_not_exists {
                self.change.notices.push(format!("{message}, skipping"));
                return Ok(());
            }
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        let needs_rows = |option: &ColumnOption| {
            matches!(option, ColumnOption::PrimaryKey(_) | ColumnOption::Generated { .. })
        };
        if types::is_serial(&definition.data_type)
            || definition.options.iter().any(|option| needs_rows(&option.option))
        {
            let hint = "Add the column, UPDATE the rows, then ALTER COLUMN SET DEFAULT or ADD PRIMARY KEY.";
            return Err(SqlError::unsupported("ADD COLUMN with a key or a sequence", Some(hint)));
        }
        let added = column(&self.change.catalog, table, definition)?;
        let position = table.columns.len() as u16;
        self.table_mut(oid)?.columns.push(added);
        let first = self.change.tasks.len();
        self.added_options(oid, &name, definition)?;
        let column = self.column_mut(oid, &name)?;
        column.missing = match &column.default {
            None => Datum::Null,
            Some(ColumnDefault::Expr(Expr::Const(value), _)) => value.clone(),
            Some(_) => {
                let hint =
                    "Add the column without a default, UPDATE the rows, then ALTER COLUMN SET DEFAULT.";
                return Err(SqlError::unsupported(
                    "ADD COLUMN with a default that is no constant",
                    Some(hint),
                ));
            }
        };
        if !column.nullable && column.missing.is_null() {
            self.change.tasks.insert(first, Task::VerifyNotNull { table: oid, column: position });
        }
        Ok(())
    }

    /// Like the options of a new table's column, but rows exist.
    fn added_options(&mut self, oid: Oid, name: &str, definition: &ColumnDef) -> Result<(), SqlError> {
        for option in &definition.options {
            let constraint = option.name.as_ref().map(folded);
            match &option.option {
                ColumnOption::Unique(_) => {
                    self.add_unique(oid, &[name.to_owned()], constraint, KeyKind::OfRows)?;
                }
                ColumnOption::Check(check) => {
                    self.add_check(oid, constraint, &check.expr, KeyKind::OfRows)?;
                }
                ColumnOption::ForeignKey(key) => {
                    self.add_foreign_key(oid, constraint, &[name.to_owned()], key, KeyKind::OfRows)?;
                }
                _ => {
                    let one = ColumnDef { options: vec![option.clone()], ..definition.clone() };
                    self.column_options(oid, &one)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn drop_column(
        &mut self,
        oid: Oid,
        name: &str,
        if_exists: bool,
        cascade: bool,
    ) -> Result<(), SqlError> {
        let table = self.table_at(oid)?;
        let Some((position, _)) = table.column(name) else {
            if if_exists {
                self.change.notices.push(format!("column \"{name}\" does not exist, skipping"));
                return Ok(());
            }
            return Err(no_column_of(&table.name, name));
        };
        if table.key.contains(&position) {
            let hint = "Drop the table, and create it with another key.";
            return Err(SqlError::unsupported("DROP COLUMN of the primary key", Some(hint)));
        }
        let tables = self.change.catalog.tables.values();
        let is_user = |user: &&Table| {
            user.foreign_keys.iter().any(|key| key.to == oid && key.to_columns.contains(&position))
        };
        let users: Vec<Oid> = tables.filter(is_user).map(|user| user.oid).collect();
        if !cascade && !users.is_empty() {
            let message = format!("cannot drop column {name} because other objects depend on it");
            return Err(SqlError::new(DEPENDENT_OBJECTS, message)
                .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for user in users {
            self.table_mut(user)?
                .foreign_keys
                .retain(|key| key.to != oid || !key.to_columns.contains(&position));
        }
        let indexes = self.table_at(oid)?.indexes.iter().filter(|index| index.columns.contains(&position));
        let indexes: Vec<Oid> = indexes.map(|index| index.oid).collect();
        for index in indexes {
            self.remove_index(oid, index)?;
        }
        let table = self.table_mut(oid)?;
        table.foreign_keys.retain(|key| !key.columns.contains(&position));
        table.checks.retain(|check| crate::walk::all_columns(&check.condition, &|column| column != position));
        let column = &mut table.columns[usize::from(position)];
        (column.dropped, column.nullable, column.default, column.missing) = (true, true, None, Datum::Null);
        let owned = |owner: Option<(Oid, u16)>| owner == Some((oid, position));
        let sequences = self.change.catalog.sequences.values().filter(|sequence| owned(sequence.owned_by));
        let sequences: Vec<Oid> = sequences.map(|sequence| sequence.oid).collect();
        for sequence in sequences {
            self.change.catalog.sequences.remove(&sequence);
            self.change.removed.insert(sequence);
        }
        Ok(())
    }

    fn drop_constraint(
        &mut self,
        oid: Oid,
        name: &str,
        if_exists: bool,
        cascade: bool,
    ) -> Result<(), SqlError> {
        let table = self.table_mut(oid)?;
        let before = (table.checks.len(), table.foreign_keys.len());
        table.checks.retain(|check| check.name != name);
        table.foreign_keys.retain(|key| key.name != name);
        if before != (table.checks.len(), table.foreign_keys.len()) {
            return Ok(());
        }
        let table = self.table_at(oid)?;
        let index = table.indexes.iter().find(|index| index.is_constraint && index.name == name);
        if let Some((index, columns)) = index.map(|index| (index.oid, index.columns.clone())) {
            self.release(oid, &columns, name, cascade)?;
            return self.remove_index(oid, index);
        }
        if !table.key.is_empty() && table.key_name == name {
            let columns = table.key.clone();
            self.release(oid, &columns, name, cascade)?;
            return self.drop_key(oid);
        }
        let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
        if if_exists {
            self.change.notices.push(format!("{message}, skipping"));
            return Ok(());
        }
        Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
    }

    /// Rows get hidden numbers as their keys again.
    fn drop_key(&mut self, oid: Oid) -> Result<(), SqlError> {
        let store = self.store()?;
        let table = self.table_mut(oid)?;
        let before = std::mem::replace(&mut table.store, store);
        table.key = Vec::new();
        table.key_name = String::new();
        table.slots = super::create_table::slots_of_key(&[]);
        self.change.tasks.push(Task::Rekey { table: oid, from: before, values: Vec::new() });
        self.change.tasks.push(emptied(before));
        self.renew_indexes(oid)
    }

    /// Foreign keys that need a unique constraint go with it.
    fn release(&mut self, oid: Oid, columns: &[u16], name: &str, cascade: bool) -> Result<(), SqlError> {
        let same = |key: &sql::catalog::ForeignKey| {
            key.to == oid
                && key.to_columns.len() == columns.len()
                && key.to_columns.iter().all(|c| columns.contains(c))
        };
        let users = self.change.catalog.tables.values().filter(|table| table.foreign_keys.iter().any(same));
        let users: Vec<Oid> = users.map(|table| table.oid).collect();
        if !users.is_empty() && !cascade {
            let message = format!("cannot drop constraint {name} because other objects depend on it");
            return Err(SqlError::new(DEPENDENT_OBJECTS, message)
                .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for user in users {
            self.table_mut(user)?.foreign_keys.retain(|key| !same(key));
        }
        Ok(())
    }

    fn rename_constraint(&mut self, oid: Oid, from: &str, to: String) -> Result<(), SqlError> {
        if self.is_taken(&to) {
            return Err(super::taken(&to));
        }
        let table = self.table_mut(oid)?;
        let owner = table.name.clone();
        let checks = table.checks.iter_mut().map(|check| &mut check.name);
        let keys = table.foreign_keys.iter_mut().map(|key| &mut key.name);
        let indexes = table.indexes.iter_mut().map(|index| &mut index.name);
        let mut names = checks.chain(keys).chain(indexes).chain([&mut table.key_name]);
        match names.find(|name| *name == from) {
            Some(name) => *name = to,
            None => {
                let message = format!("constraint \"{from}\" for table \"{owner}\" does not exist");
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            }
        }
        Ok(())
    }

    fn alter_column(&mut self, oid: Oid, name: &str, op: &AlterColumnOperation) -> Result<(), SqlError> {
        let table = self.table_at(oid)?;
        let (position, _) = table.column(name).ok_or_else(|| no_column_of(&table.name, name))?;
        match op {
            AlterColumnOperation::SetNotNull => {
                let column = self.column_mut(oid, name)?;
                if std::mem::replace(&mut column.nullable, false) {
                    self.change.tasks.push(Task::VerifyNotNull { table: oid, column: position });
                }
                Ok(())
            }
            AlterColumnOperation::DropNotNull => {
                if table.key.contains(&position) {
                    let message = format!("column \"{name}\" is in a primary key");
                    return Err(SqlError::new(INVALID_TABLE_DEFINITION, message));
                }
                self.column_mut(oid, name)?.nullable = true;
                Ok(())
            }
            AlterColumnOperation::SetDefault { value } => self.set_default(oid, name, value),
            AlterColumnOperation::DropDefault => {
                self.column_mut(oid, name)?.default = None;
                Ok(())
            }
            AlterColumnOperation::SetDataType { data_type, using, .. } => {
                self.retype(oid, name, data_type, using.as_ref())
            }
            AlterColumnOperation::AddGenerated { sequence_options, .. } => {
                self.own_sequence(oid, name, sequence_options.as_deref())
            }
        }
    }
}
