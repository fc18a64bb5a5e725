//! Keys, unique constraints, checks and foreign keys; and the indexes under them.

use super::create_table::slots_of_key;
use super::{Changing, KeyKind, Task};
use crate::coerce::Params;
use crate::error::{INVALID_FOREIGN_KEY, INVALID_TABLE_DEFINITION, no_column_of, syntax};
use crate::expressions::Compiler;
use crate::names::{Relation, Scope, folded};
use crate::tables::stored;
use crate::types;
use sql::catalog::{Check, ForeignKey, Index, Oid, Reaction, Slots, Table};
use sql::{SqlError, SqlState, SqlType};
use sqlparser::ast::{
    self, ForeignKeyConstraint, IndexColumn, NullsDistinctOption, OrderBySort, ReferentialAction,
    TableConstraint, UniqueConstraint,
};
use std::sync::Arc;

impl Changing {
    pub fn add_constraint(
        &mut self,
        table: Oid,
        constraint: &TableConstraint,
        kind: KeyKind,
    ) -> Result<(), SqlError> {
        let named = |name: &Option<ast::Ident>| name.as_ref().map(folded);
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                self.add_key(table, &constrained(&key.columns)?, named(&key.name), kind)
            }
            TableConstraint::Unique(unique) => {
                refuse_not_distinct(unique)?;
                let columns = constrained(&unique.columns)?;
                self.add_unique(table, &columns, named(&unique.name), kind).map(drop)
            }
            TableConstraint::Check(check) => self.add_check(table, named(&check.name), &check.expr, kind),
            TableConstraint::ForeignKey(key) => {
                let names: Vec<String> = key.columns.iter().map(folded).collect();
                self.add_foreign_key(table, named(&key.name), &names, key, kind)
            }
            TableConstraint::Exclude(_) => Err(SqlError::unsupported("EXCLUDE", None)),
            other => Err(SqlError::unsupported(&format!("the constraint {other}"), None)),
        }
    }

    pub fn positions(&self, table: Oid, names: &[String]) -> Result<Vec<u16>, SqlError> {
        let table = self.table_at(table)?;
        let mut positions = Vec::with_capacity(names.len());
        for name in names {
            let (position, _) = table.column(name).ok_or_else(|| no_column_of(&table.name, name))?;
            if positions.contains(&position) {
                let message = format!("column \"{name}\" appears twice in the constraint or index");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            positions.push(position);
        }
        Ok(positions)
    }

    /// The primary key. A table with rows stores them anew under it.
    pub fn add_key(
        &mut self,
        oid: Oid,
        names: &[String],
        name: Option<String>,
        kind: KeyKind,
    ) -> Result<(), SqlError> {
        let key = self.positions(oid, names)?;
        let table = self.table_at(oid)?;
        if !table.key.is_empty() {
            let message = format!("multiple primary keys for table \"{}\" are not allowed", table.name);
            return Err(SqlError::new(INVALID_TABLE_DEFINITION, message));
        }
        let types: Vec<SqlType> = key.iter().map(|column| table.columns[usize::from(*column)].ty).collect();
        refuse_types(&types)?;
        let wanted = format!("{}_pkey", table.name);
        let name = self.constraint_name(name, &wanted)?;
        let before = self.table_at(oid)?.store;
        let store = if kind == KeyKind::OfEmptyTable { before } else { self.store()? };
        let table = self.table_mut(oid)?;
        let nullable: Vec<u16> =
            key.iter().copied().filter(|column| table.columns[usize::from(*column)].nullable).collect();
        for column in &key {
            table.columns[usize::from(*column)].nullable = false;
        }
        (table.key, table.key_name, table.store, table.slots) = (key, name, store, slots_of_key(&types));
        if kind == KeyKind::OfRows {
            let tasks = nullable.into_iter().map(|column| Task::VerifyNotNull { table: oid, column });
            self.change.tasks.extend(tasks);
            self.change.tasks.push(Task::Rekey { table: oid, from: before, values: Vec::new() });
            self.change.tasks.push(super::create_table::emptied(before));
            return self.renew_indexes(oid);
        }
        self.place_indexes(oid)
    }

    /// Index entries lead to the keys of rows: with another key, all are other entries. They are
    /// stored with the rows, in stores of their own.
    pub fn renew_indexes(&mut self, oid: Oid) -> Result<(), SqlError> {
        for at in 0..self.table_at(oid)?.indexes.len() {
            let store = self.store()?;
            let index = &mut self.table_mut(oid)?.indexes[at];
            let before = std::mem::replace(&mut index.store, store);
            self.change.tasks.push(super::create_table::emptied(before));
        }
        self.place_indexes(oid)
    }

    pub fn add_unique(
        &mut self,
        oid: Oid,
        names: &[String],
        name: Option<String>,
        kind: KeyKind,
    ) -> Result<Oid, SqlError> {
        let columns = self.positions(oid, names)?;
        let wanted = format!("{}_{}_key", self.table_at(oid)?.name, names.join("_"));
        let name = self.constraint_name(name, &wanted)?;
        self.add_index(oid, name, columns, (true, true), kind)
    }

    /// An index; `(unique, is_constraint)`.
    pub fn add_index(
        &mut self,
        table: Oid,
        name: String,
        columns: Vec<u16>,
        (unique, is_constraint): (bool, bool),
        kind: KeyKind,
    ) -> Result<Oid, SqlError> {
        let (oid, store) = (self.oid(), self.store()?);
        let owner = self.table_at(table)?;
        let types: Vec<SqlType> =
            columns.iter().map(|column| owner.columns[usize::from(*column)].ty).collect();
        refuse_types(&types)?;
        let slots = index_slots(owner, &columns);
        self.table_mut(table)?.indexes.push(Index {
            oid,
            name,
            columns,
            unique,
            is_constraint,
            store,
            slots,
        });
        // Rows that the statement stores anew bring their entries along.
        let is_stored_anew = self
            .change
            .tasks
            .iter()
            .any(|task| matches!(task, Task::Rekey { table: of, .. } if *of == table));
        if kind == KeyKind::OfRows && !is_stored_anew {
            self.change.tasks.push(Task::FillIndex { table, index: oid });
        }
        Ok(oid)
    }

    /// Indexes of a table without rows follow its slots.
    pub fn place_indexes(&mut self, table: Oid) -> Result<(), SqlError> {
        let owner = self.table_at(table)?;
        let slots: Vec<Slots> =
            owner.indexes.iter().map(|index| index_slots(owner, &index.columns)).collect();
        for (index, slots) in self.table_mut(table)?.indexes.iter_mut().zip(slots) {
            index.slots = slots;
        }
        Ok(())
    }

    /// A check without a name has that of its column, if it is about one column.
    pub fn add_check(
        &mut self,
        oid: Oid,
        name: Option<String>,
        expr: &ast::Expr,
        kind: KeyKind,
    ) -> Result<(), SqlError> {
        let table = self.table_at(oid)?;
        let scope = Scope::one(Relation::of_table(table, Arc::new(stored(table)), table.name.clone(), 0));
        let mut compiler = Compiler::new(&self.change.catalog, Params::default());
        let condition = compiler.condition(&scope, expr, "CHECK").map_err(super::plain)?;
        if !compiler.fills.is_empty() {
            return Err(SqlError::unsupported("a check on the session or a sequence", None));
        }
        let wanted = match crate::typed::columns(&condition).as_slice() {
            [only] => format!("{}_{}_check", table.name, table.columns[usize::from(*only)].name),
            _ => format!("{}_check", table.name),
        };
        let name = self.own_constraint_name(oid, name, &wanted)?;
        if kind == KeyKind::OfRows {
            self.change.tasks.push(Task::VerifyCheck { table: oid, name: name.clone() });
        }
        self.table_mut(oid)?.checks.push(Check { name, condition, text: expr.to_string() });
        Ok(())
    }

    pub fn add_foreign_key(
        &mut self,
        oid: Oid,
        name: Option<String>,
        names: &[String],
        key: &ForeignKeyConstraint,
        kind: KeyKind,
    ) -> Result<(), SqlError> {
        let columns = self.positions(oid, names)?;
        let to = self.table_named(&super::name(&key.foreign_table)?)?;
        let to_oid = to.oid;
        let to_names: Vec<String> = match key.referred_columns.is_empty() {
            false => key.referred_columns.iter().map(folded).collect(),
            true => to.key.iter().map(|column| to.columns[usize::from(*column)].name.clone()).collect(),
        };
        if to_names.is_empty() {
            let message = format!("there is no primary key for referenced table \"{}\"", to.name);
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        let to_columns = self.positions(to_oid, &to_names)?;
        let (table, to) = (self.table_at(oid)?, self.table_at(to_oid)?);
        if columns.len() != to_columns.len() {
            let message = "number of referencing and referenced columns for foreign key disagree";
            return Err(SqlError::new(INVALID_FOREIGN_KEY, message));
        }
        if !is_unique(to, &to_columns) {
            let message = format!(
                "there is no unique constraint matching given keys for referenced table \"{}\"",
                to.name
            );
            return Err(SqlError::new(INVALID_FOREIGN_KEY, message));
        }
        for (column, to_column) in columns.iter().zip(&to_columns) {
            let (from, to) = (table.columns[usize::from(*column)].ty, to.columns[usize::from(*to_column)].ty);
            if types::common(from, to).is_none() {
                let (from, to) = (types::name_of(from), types::name_of(to));
                let message = format!("foreign key constraint compares incompatible types: {from} and {to}");
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
            }
        }
        let wanted = format!("{}_{}_fkey", table.name, names.join("_"));
        let name = self.own_constraint_name(oid, name, &wanted)?;
        if kind == KeyKind::OfRows {
            self.change.tasks.push(Task::VerifyForeignKey { table: oid, name: name.clone() });
        }
        let (on_delete, on_update) = (reaction(key.on_delete)?, reaction(key.on_update)?);
        let key = ForeignKey { name, columns, to: to_oid, to_columns, on_delete, on_update };
        self.table_mut(oid)?.foreign_keys.push(key);
        Ok(())
    }

    /// A name for a constraint with an index: indexes share the names of tables.
    fn constraint_name(&self, name: Option<String>, wanted: &str) -> Result<String, SqlError> {
        match name {
            Some(name) if self.is_taken(&name) => Err(super::taken(&name)),
            Some(name) => Ok(name),
            None => Ok(self.free_name(wanted)),
        }
    }

    /// A name for a constraint without an index.
    fn own_constraint_name(&self, oid: Oid, name: Option<String>, wanted: &str) -> Result<String, SqlError> {
        let table = self.table_at(oid)?;
        let is_known = |name: &str| {
            table.key_name == name
                || table.checks.iter().any(|check| check.name == name)
                || table.foreign_keys.iter().any(|key| key.name == name)
                || table.indexes.iter().any(|index| index.name == name)
        };
        match name {
            Some(name) if is_known(&name) => {
                let message = format!("constraint \"{name}\" for relation \"{}\" already exists", table.name);
                Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message))
            }
            Some(name) => Ok(name),
            None => Ok(super::first_free(wanted, is_known)),
        }
    }
}

/// Whether rows with these columns equal are the same row.
fn is_unique(table: &Table, columns: &[u16]) -> bool {
    let same = |key: &[u16]| key.len() == columns.len() && key.iter().all(|column| columns.contains(column));
    same(&table.key) || table.indexes.iter().any(|index| index.unique && same(&index.columns))
}

pub fn refuse_types(types: &[SqlType]) -> Result<(), SqlError> {
    let wrong = types.iter().find(|ty| matches!(ty, SqlType::Json | SqlType::Jsonb | SqlType::Array(_)));
    match wrong {
        None => Ok(()),
        Some(ty) => {
            let message =
                format!("data type {} has no default operator class for a key", types::name_of(*ty));
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
        }
    }
}

/// Entries lie where their rows do, if the index has the columns that decide; otherwise by the
/// first column of the index.
fn index_slots(table: &Table, columns: &[u16]) -> Slots {
    let own = |position: &u16| {
        let column = table.key.get(usize::from(*position))?;
        columns.iter().position(|known| known == column).map(|at| at as u16)
    };
    let same = match &table.slots {
        Slots::Hash(positions) => positions.iter().map(own).collect::<Option<Vec<_>>>().map(Slots::Hash),
        Slots::Runs { position, run } => own(position).map(|position| Slots::Runs { position, run: *run }),
        Slots::Ranges { position, bounds } => {
            own(position).map(|position| Slots::Ranges { position, bounds: bounds.clone() })
        }
    };
    let first = || columns.first().map(|column| table.columns[usize::from(*column)].ty);
    same.unwrap_or_else(|| slots_of_key(first().as_slice()))
}

fn reaction(action: Option<ReferentialAction>) -> Result<Reaction, SqlError> {
    match action {
        None | Some(ReferentialAction::NoAction | ReferentialAction::Restrict) => Ok(Reaction::Restrict),
        Some(ReferentialAction::Cascade) => Ok(Reaction::Cascade),
        Some(ReferentialAction::SetNull) => Ok(Reaction::SetNull),
        Some(ReferentialAction::SetDefault) => {
            Err(SqlError::unsupported("SET DEFAULT of a foreign key", None))
        }
    }
}

/// The names of columns in a constraint or index.
pub fn columns(columns: &[IndexColumn]) -> Result<Vec<String>, SqlError> {
    let name = |column: &IndexColumn| match &column.column.expr {
        ast::Expr::Identifier(ident) => Ok(folded(ident)),
        _ => Err(SqlError::unsupported("an index on an expression", Some("Store the value in a column."))),
    };
    columns.iter().map(name).collect()
}

/// The names of columns in a constraint. Only an index has words of an order behind them.
fn constrained(list: &[IndexColumn]) -> Result<Vec<String>, SqlError> {
    let has_order = |column: &IndexColumn| {
        let options = &column.column.options;
        options.sort.is_some() || options.nulls_first.is_some()
    };
    let first = |column: &IndexColumn| match column.column.options.sort {
        Some(OrderBySort::Asc) => "ASC",
        Some(OrderBySort::Desc) => "DESC",
        Some(OrderBySort::Using(_)) => "USING",
        None => "NULLS",
    };
    match list.iter().find(|column| has_order(column)) {
        Some(column) => Err(syntax(format!("syntax error at or near \"{}\"", first(column)))),
        None => columns(list),
    }
}

fn refuse_not_distinct(unique: &UniqueConstraint) -> Result<(), SqlError> {
    match unique.nulls_distinct {
        NullsDistinctOption::NotDistinct => Err(no_distinct_nulls()),
        NullsDistinctOption::None | NullsDistinctOption::Distinct => Ok(()),
    }
}

pub fn no_distinct_nulls() -> SqlError {
    SqlError::unsupported("NULLS NOT DISTINCT", Some("Declare the columns NOT NULL: nulls are distinct."))
}
