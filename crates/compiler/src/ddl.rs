//! Statements on the catalog.
//!
//! A [`Definition`] is applied to the catalog when it is carried out, not when it is compiled:
//! other statements may have changed the catalog in between. [`Definition::apply`] gives the new
//! catalog and the [`Task`]s on stored rows. Both belong to one transaction.

mod alter_table;
mod constraints;
mod create_table;
mod drop;
mod enumeration;
mod procedure;
mod retype;
mod sequence;
mod view;

pub use create_table::slots_by_default;

use procedure::shown;

use crate::Stop;
use crate::error::{no_column_of, no_table};
use crate::names::in_public;
use crate::parse::{Kind, Parsed};
use sql::catalog::{Catalog, Column, Oid, Store, Table};
use sql::{Expr, SqlError, SqlState};
use sqlparser::ast::{ObjectName, Statement};
use std::collections::BTreeSet;

/// A statement that changes the catalog.
#[derive(Clone, PartialEq, Debug)]
pub struct Definition {
    parsed: Parsed,
}

/// The physical stores that no table or index uses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stores {
    pub free: BTreeSet<Store>,
}

/// What is done with the body of a new procedure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bodies {
    /// One that cannot be compiled is refused.
    Checked,
    /// One that cannot be compiled fails when it is called: what it uses may be defined later.
    Taken,
}

/// A changed catalog.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    pub catalog: Catalog,
    /// Objects that are new or other than before, and those that are gone.
    pub changed: BTreeSet<Oid>,
    pub removed: BTreeSet<Oid>,
    /// In the order in which they must be carried out.
    pub tasks: Vec<Task>,
    /// What the client is told beside the outcome.
    pub notices: Vec<String>,
    /// The word at the end of the statement.
    pub tag: &'static str,
}

/// Work on stored rows.
#[derive(Clone, PartialEq, Debug)]
pub enum Task {
    /// Fill an index with the entries of all rows; a unique one with equal entries is an error.
    FillIndex { table: Oid, index: Oid },
    /// Store all rows of a table under its new key in its new store, from the old one. Some columns
    /// get other values, over the old row.
    Rekey { table: Oid, from: Store, values: Vec<(u16, Expr)> },
    /// Rows of a store that nothing uses any more: to be purged. The store is among the catalog's
    /// `emptying` until then.
    Empty { store: Store },
    /// All rows must satisfy the named check.
    VerifyCheck { table: Oid, name: String },
    /// All rows must satisfy the named foreign key.
    VerifyForeignKey { table: Oid, name: String },
    /// No row may have a null in the column.
    VerifyNotNull { table: Oid, column: u16 },
    /// The sequence has another next number.
    SetSequence { sequence: Oid, next: i64 },
}

/// Whether the statement changes the catalog.
pub(crate) fn is_definition(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::CreateTable(_)
            | Statement::AlterTable(_)
            | Statement::CreateIndex(_)
            | Statement::AlterIndex { .. }
            | Statement::CreateSequence { .. }
            | Statement::CreateView(_)
            | Statement::CreateType { .. }
            | Statement::AlterType(_)
            | Statement::Drop { .. }
            | Statement::Truncate(_)
    )
}

impl Definition {
    pub(crate) fn new(parsed: &Parsed) -> Definition {
        Definition { parsed: parsed.clone() }
    }

    /// The text of the statement.
    pub fn text(&self) -> &str {
        self.parsed.text()
    }

    /// The catalog after the statement, and the work on stored rows. Stores are taken out of
    /// `stores`.
    ///
    /// # Errors
    /// PostgreSQL's errors of definitions: objects that exist already or not, and so on.
    pub fn apply(&self, catalog: &Catalog, stores: &mut Stores) -> Result<Change, SqlError> {
        self.apply_as(catalog, stores, Bodies::Checked)
    }

    /// As [`Definition::apply`], with or without a look at the bodies of new procedures.
    ///
    /// # Errors
    /// As [`Definition::apply`].
    pub fn apply_as(
        &self,
        catalog: &Catalog,
        stores: &mut Stores,
        bodies: Bodies,
    ) -> Result<Change, SqlError> {
        crate::on_its_stack(catalog, &self.parsed, || self.applied(catalog, stores, bodies))
    }

    fn applied(&self, catalog: &Catalog, stores: &mut Stores, bodies: Bodies) -> Result<Change, SqlError> {
        let mut changing = Changing::new(catalog, stores);
        changing.bodies = bodies;
        let result = match self.parsed.kind() {
            Kind::Sql(statement) => changing.statement(statement),
            Kind::AlterSequence(change) => changing.alter_sequence(change),
            Kind::CreateRoutine(create) => changing.create_routine(create),
            Kind::DropRoutine(drop) => changing.drop_routines(drop),
            _ => Err(SqlError::unsupported("this definition", None)),
        };
        let tag = result?;
        changing.check_procedures()?;
        let catalog = &mut changing.change.catalog;
        catalog.version += 1;
        for task in &changing.change.tasks {
            if let Task::Empty { store } = task {
                catalog.emptying.insert(*store);
            }
        }
        changing.change.tag = tag;
        *stores = changing.stores;
        Ok(changing.change)
    }
}

/// The least number of an object that is not the system's own, as in PostgreSQL.
const FIRST_OID: u32 = 16_384;

/// Whether a table may have rows when a constraint or index is added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyKind {
    OfEmptyTable,
    OfRows,
}

/// A catalog while a statement changes it.
struct Changing {
    before: Catalog,
    change: Change,
    stores: Stores,
    bodies: Bodies,
}

impl Changing {
    fn new(catalog: &Catalog, stores: &Stores) -> Changing {
        let change = Change {
            catalog: catalog.clone(),
            changed: BTreeSet::new(),
            removed: BTreeSet::new(),
            tasks: Vec::new(),
            notices: Vec::new(),
            tag: "",
        };
        Changing { before: catalog.clone(), change, stores: stores.clone(), bodies: Bodies::Checked }
    }

    fn statement(&mut self, statement: &Statement) -> Result<&'static str, SqlError> {
        match statement {
            Statement::CreateTable(create) => self.create_table(create),
            Statement::AlterTable(alter) => self.alter_table(alter),
            Statement::CreateIndex(create) => self.create_index(create),
            Statement::AlterIndex { name, operation } => self.alter_index(name, operation),
            Statement::CreateSequence { .. } => self.create_sequence(statement),
            Statement::CreateView(create) => self.create_view(create),
            Statement::CreateType { name, representation } => self.create_type(name, representation.as_ref()),
            Statement::AlterType(alter) => self.alter_type(alter),
            Statement::Drop { .. } => self.drop_objects(statement),
            Statement::Truncate(truncate) => self.truncate(truncate),
            _ => Err(SqlError::unsupported("this definition", None)),
        }
    }

    fn oid(&mut self) -> Oid {
        let next = self.change.catalog.next_oid.max(FIRST_OID);
        self.change.catalog.next_oid = next.saturating_add(1);
        Oid(next)
    }

    fn store(&mut self) -> Result<Store, SqlError> {
        self.stores.free.pop_first().ok_or_else(|| {
            let message = "all physical tables are in use";
            let hint = "Drop tables or indexes, or start the server with more physical tables.";
            SqlError::new(SqlState(*b"53400"), message).with_hint(hint)
        })
    }

    /// Whether a table, index, sequence or view has the name.
    fn is_taken(&self, name: &str) -> bool {
        let catalog = &self.change.catalog;
        let has_index = |table: &Table| {
            table.name == name
                || !table.key.is_empty() && table.key_name == name
                || table.indexes.iter().any(|index| index.name == name)
        };
        catalog.tables.values().any(has_index)
            || catalog.sequence(name).is_some()
            || catalog.view(name).is_some()
    }

    fn free_name(&self, wanted: &str) -> String {
        first_free(wanted, |name| self.is_taken(name))
    }

    fn table_named(&self, name: &str) -> Result<&Table, SqlError> {
        self.change.catalog.table(name).ok_or_else(|| no_table(name))
    }

    fn table_at(&self, oid: Oid) -> Result<&Table, SqlError> {
        self.change.catalog.tables.get(&oid).ok_or_else(|| no_table(&oid.0.to_string()))
    }

    /// A table that the statement changes.
    fn table_mut(&mut self, oid: Oid) -> Result<&mut Table, SqlError> {
        self.change.changed.insert(oid);
        self.change.catalog.tables.get_mut(&oid).ok_or_else(|| no_table(&oid.0.to_string()))
    }

    fn column_mut(&mut self, table: Oid, name: &str) -> Result<&mut Column, SqlError> {
        let table = self.table_mut(table)?;
        let owner = table.name.clone();
        let column = table.columns.iter_mut().find(|column| column.name == name && !column.dropped);
        column.ok_or_else(|| no_column_of(&owner, name))
    }
}

/// The name, or the name with the first number that makes it free.
fn first_free(wanted: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut base = wanted.to_owned();
    while base.len() > 60 {
        base.pop();
    }
    if base.len() == wanted.len() && !is_taken(wanted) {
        return wanted.to_owned();
    }
    let numbered = (1_u32..).map(|number| format!("{base}{number}"));
    numbered.into_iter().find(|name| !is_taken(name)).unwrap_or(base)
}

fn taken(name: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists"))
}

/// The name of an object in the only schema.
fn name(name: &ObjectName) -> Result<String, SqlError> {
    in_public(name).map_err(plain)
}

/// In definitions, what the direct path does not cover is not supported.
fn plain(stop: Stop) -> SqlError {
    match stop {
        Stop::Error(error) => error,
        Stop::General(reason) => SqlError::unsupported(&format!("{reason} in a definition"), None),
    }
}
