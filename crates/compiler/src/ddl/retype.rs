//! `ALTER TABLE ... ALTER COLUMN ... TYPE`.

use super::create_table::{emptied, slots_of_key};
use super::{Changing, Task, plain};
use crate::coerce::{How, Params, Typed};
use crate::error::mismatch;
use crate::expressions::Compiler;
use crate::names::{Relation, Scope};
use crate::tables::stored;
use crate::types::{self, full_name_of, is_assignable, is_same_value, name_of};
use sql::catalog::{ColumnDefault, Oid, Table};
use sql::{Datum, Expr, SqlError, SqlType};
use sqlparser::ast;
use std::sync::Arc;

impl Changing {
    /// Another type. Where stored values have another form in it, all rows are stored anew.
    pub fn retype(
        &mut self,
        oid: Oid,
        name: &str,
        data_type: &ast::DataType,
        using: Option<&ast::Expr>,
    ) -> Result<(), SqlError> {
        let to = types::resolve(&self.change.catalog, data_type)?;
        let from = self.column_mut(oid, name)?.ty;
        let is_stored_anew = using.is_some() || !keeps_form(from, to);
        if is_stored_anew {
            self.convert(oid, name, (from, to), using)?;
        }
        self.column_mut(oid, name)?.ty = to;
        // The default becomes a value of the new type.
        if let Some(ColumnDefault::Expr(expr, text)) = self.column_mut(oid, name)?.default.clone() {
            if !is_assignable(from, to) {
                let to = name_of(to);
                let message =
                    format!("default for column \"{name}\" cannot be cast automatically to type {to}");
                return Err(mismatch(message));
            }
            let mut compiler = Compiler::new(&self.change.catalog, Params::default());
            let expr = compiler.params.coerce(Typed::new(expr, from), to, How::Assigned)?;
            self.column_mut(oid, name)?.default = Some(ColumnDefault::Expr(expr, text));
        }
        if is_stored_anew { self.settle(oid, name) } else { Ok(()) }
    }

    /// The value of the column over the old row, as a task.
    fn convert(
        &mut self,
        oid: Oid,
        name: &str,
        (from, to): (SqlType, SqlType),
        using: Option<&ast::Expr>,
    ) -> Result<(), SqlError> {
        let table = self.table_at(oid)?;
        let (position, _) =
            table.column(name).ok_or_else(|| crate::error::no_column_of(&table.name, name))?;
        self.refuse_relatives(table, position, (from, to))?;
        let is_pending = |task: &Task| {
            matches!(task, Task::Rekey { table, values, .. }
            if *table == oid && !values.is_empty())
        };
        let pending = self.change.tasks.iter().position(is_pending);
        let scope = Scope::one(Relation::of_table(table, Arc::new(stored(table)), table.name.clone(), 0));
        let mut compiler = Compiler::new(&self.change.catalog, Params::default());
        let value = match using {
            Some(using) => compiler.expr(&scope, using).map_err(plain)?,
            None => Typed::new(Expr::Column(position), from),
        };
        if !compiler.fills.is_empty() {
            return Err(SqlError::unsupported("a conversion by the session or a sequence", None));
        }
        if !is_assignable(value.ty, to) {
            let to = full_name_of(to);
            let (what, hint) = match using {
                Some(_) => {
                    ("result of USING clause for column", "You might need to add an explicit cast.".into())
                }
                None => ("column", format!("You might need to specify \"USING {name}::{to}\".")),
            };
            let message = format!("{what} \"{name}\" cannot be cast automatically to type {to}");
            return Err(mismatch(message).with_hint(hint));
        }
        let value = compiler.params.coerce(value, to, How::Assigned)?;
        // Several columns of one statement are converted at once, over rows of the old types.
        if let Some(Task::Rekey { values, .. }) = pending.and_then(|at| self.change.tasks.get_mut(at)) {
            let is_other = |column: u16| !values.iter().any(|(known, _)| *known == column);
            if !crate::walk::all_columns(&value, &is_other) {
                let what = "a conversion that uses a column of which the type changes too";
                return Err(SqlError::unsupported(what, Some("Change the types in two statements.")));
            }
            values.push((position, value));
            return Ok(());
        }
        let store = self.store()?;
        let before = std::mem::replace(&mut self.table_mut(oid)?.store, store);
        self.change.tasks.push(Task::Rekey { table: oid, from: before, values: vec![(position, value)] });
        self.change.tasks.push(emptied(before));
        self.renew_indexes(oid)
    }

    /// What depends on the column's type.
    fn refuse_relatives(
        &self,
        table: &Table,
        position: u16,
        (from, to): (SqlType, SqlType),
    ) -> Result<(), SqlError> {
        let refused = |what: &str| {
            let (from, to) = (full_name_of(from), full_name_of(to));
            let what = format!("a change of type from {from} to {to} of {what}");
            SqlError::unsupported(&what, Some("Drop the constraint, change the types, and add it again."))
        };
        let own = table.foreign_keys.iter().any(|key| key.columns.contains(&position));
        let others = || {
            let keys = self.change.catalog.tables.values().flat_map(|other| &other.foreign_keys);
            keys.into_iter().any(|key| key.to == table.oid && key.to_columns.contains(&position))
        };
        if own || others() {
            return Err(refused("a column of a foreign key"));
        }
        if table.key.contains(&position) && table.slots != slots_of_key(&key_types(table)) {
            return Err(refused("a column of the key that places the rows"));
        }
        Ok(())
    }

    /// After the new type: slots, and the checks that name the column.
    fn settle(&mut self, oid: Oid, name: &str) -> Result<(), SqlError> {
        let table = self.table_mut(oid)?;
        let Some((position, _)) = table.column(name) else { return Ok(()) };
        table.columns[usize::from(position)].missing = Datum::Null;
        if table.key.contains(&position) {
            let types = key_types(table);
            super::constraints::refuse_types(&types)?;
            table.slots = slots_of_key(&types);
        }
        let of_indexes = table.indexes.iter().filter(|index| index.columns.contains(&position));
        if of_indexes.count() > 0 {
            super::constraints::refuse_types(&[table.columns[usize::from(position)].ty])?;
        }
        let table = self.table_at(oid)?.clone();
        let scope = Scope::one(Relation::of_table(&table, Arc::new(stored(&table)), table.name.clone(), 0));
        let mut checks = table.checks.clone();
        for check in &mut checks {
            if crate::walk::all_columns(&check.condition, &|column| column != position) {
                continue;
            }
            let expr = crate::reading::expression(&check.text)?;
            let mut compiler = Compiler::new(&self.change.catalog, Params::default());
            check.condition = compiler.condition(&scope, &expr, "CHECK").map_err(plain)?;
        }
        self.table_mut(oid)?.checks = checks;
        self.place_indexes(oid)
    }
}

fn key_types(table: &Table) -> Vec<SqlType> {
    table.key.iter().map(|column| table.columns[usize::from(*column)].ty).collect()
}

/// Whether stored values of one type are stored values of the other.
fn keeps_form(from: SqlType, to: SqlType) -> bool {
    match (from, to) {
        (SqlType::Varchar(Some(from)), SqlType::Varchar(Some(to))) => from <= to,
        (SqlType::Char(from), SqlType::Char(to)) => from <= to,
        (SqlType::Numeric(Some((precision, scale))), SqlType::Numeric(Some((wider, same)))) => {
            same == scale && wider >= precision
        }
        // A float of another width is sent with other digits.
        (SqlType::Float4, SqlType::Float8) => false,
        (SqlType::Char(_), _) | (_, SqlType::Char(_)) => false,
        _ => is_same_value(from, to),
    }
}
