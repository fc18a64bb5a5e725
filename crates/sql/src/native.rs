//! Procedures and steps written in Rust, over the tables of a catalog.
//!
//! ```text
//!   caller:   arguments as bytes, tables, programs --> NativeCall
//!   home:     registry --> Procedure::run  issues steps and statements             procedure
//!   owner:    registry --> Step::run       reads and writes rows of one slot       rows
//! ```
//!
//! A procedure of a workload is compiled into the engine. One of these is compiled into the program
//! that embeds the database, so the engine calls it through a table (`registry`) and by boxed
//! futures. Everything that leaves a thread is a plain value: the names of the procedure and of its
//! steps, and their arguments as bytes.

pub mod convert;
pub(crate) mod issued;
pub mod phase;
pub mod procedure;
pub mod record;
pub mod registry;
pub mod rows;
pub(crate) mod run;
pub(crate) mod run_step;
pub mod step;

use crate::catalog::{Catalog, Oid, Store, Table};
use crate::expression::cast_to;
use crate::program::{Checked, Program, Stored};
use crate::{Datum, SqlError, SqlState, place};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One call of a procedure, with all that it needs of the catalog.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NativeCall {
    pub procedure: String,
    pub args: Vec<u8>,
    pub tables: Arc<Vec<NativeTable>>,
    /// The procedure's statements, compiled.
    pub programs: Arc<Vec<Arc<Program>>>,
    /// The places that the call surely touches, its home first.
    pub places: Vec<(Store, u32)>,
    /// The begin of the transaction, in the form of [`Datum::Timestamp`].
    pub now: i64,
    /// A number that no other statement of the database has. Each statement of the procedure gets
    /// it plus its own number in the call.
    pub statement: i64,
}

/// A table as steps see it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NativeTable {
    pub stored: Arc<Stored>,
    pub checks: Vec<Checked>,
    /// Why a step cannot insert a row, or cannot delete one: another place would have to know.
    pub no_insert: Option<String>,
    pub no_delete: Option<String>,
    /// Columns that a step cannot change: those of keys, indexes and foreign keys.
    pub fixed: Vec<u16>,
}

impl NativeTable {
    /// The table of this name, with its number.
    ///
    /// # Errors
    /// `42P01` if there is none, `0A000` if it has no primary key.
    pub fn of(catalog: &Catalog, name: &str) -> Result<(Oid, NativeTable), SqlError> {
        let table = catalog.table(name).ok_or_else(|| unknown_table(name))?;
        if table.key.is_empty() {
            return Err(SqlError::unsupported(
                &format!("a step on table \"{name}\", which has no primary key"),
                Some("Give the table a primary key, or use a statement."),
            ));
        }
        let referring: Vec<&Table> = catalog
            .tables
            .values()
            .filter(|t| t.foreign_keys.iter().any(|key| key.to == table.oid))
            .collect();
        let outgoing = table.foreign_keys.first().map(|key| format!("has the foreign key \"{}\"", key.name));
        let incoming = referring.first().map(|other| format!("is referenced by table \"{}\"", other.name));
        let indexed = table.indexes.first().map(|index| format!("has the index \"{}\"", index.name));
        let mut fixed = table.key.clone();
        fixed.extend(table.indexes.iter().flat_map(|index| index.columns.iter().copied()));
        fixed.extend(table.foreign_keys.iter().flat_map(|key| key.columns.iter().copied()));
        let keys = referring.iter().flat_map(|other| &other.foreign_keys).filter(|key| key.to == table.oid);
        fixed.extend(keys.flat_map(|key| key.to_columns.iter().copied()));
        fixed.sort_unstable();
        fixed.dedup();
        let checks = table.checks.iter();
        let checks = checks.map(|c| Checked { name: c.name.clone(), condition: c.condition.clone() });
        let native = NativeTable {
            stored: Arc::new(Stored::of(table)),
            checks: checks.collect(),
            no_insert: indexed.clone().or(outgoing),
            no_delete: indexed.or(incoming),
            fixed,
        };
        Ok((table.oid, native))
    }

    /// The first values of a key, as the key's columns have them.
    ///
    /// # Errors
    /// For more values than the key has columns, and for values that are not of the columns' types.
    pub(crate) fn key(&self, values: &[Datum]) -> Result<Vec<Datum>, SqlError> {
        let stored = &self.stored;
        if values.len() > stored.key.len() {
            let message = format!(
                "a key of table \"{}\" has {} columns, and {} values were given",
                stored.name,
                stored.key.len(),
                values.len()
            );
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        let fit = |(value, &column): (&Datum, &u16)| {
            let column = &stored.columns[usize::from(column)];
            match value {
                Datum::Null => Err(SqlError::new(
                    SqlState::NOT_NULL_VIOLATION,
                    format!("a key of table \"{}\" cannot have a null", stored.name),
                )),
                value => cast_to(value.clone(), column.ty),
            }
        };
        values.iter().zip(&stored.key).map(fit).collect()
    }

    /// The slot of the rows of which the keys begin with these values.
    ///
    /// # Errors
    /// When they do not determine it.
    pub(crate) fn slot(&self, key: &[Datum], sites: u32) -> Result<u32, SqlError> {
        place::slot_of(&self.stored.slots, key, sites).ok_or_else(|| {
            let message =
                format!("the place of rows of table \"{}\" needs more of their key", self.stored.name);
            SqlError::new(SqlState::INVALID_PARAMETER, message).with_hint("Give all columns of the key.")
        })
    }
}

pub(crate) fn unknown_table(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}

/// The table of this name among those of a call.
///
/// # Errors
/// `42P01` if the procedure does not name it.
pub(crate) fn find<'t>(tables: &'t [NativeTable], name: &str) -> Result<&'t NativeTable, SqlError> {
    tables
        .iter()
        .find(|table| table.stored.name == name)
        .ok_or_else(|| unknown_table(name).with_hint(format!("The procedure's TABLES must have \"{name}\".")))
}
