//! Statements on the catalog.
//!
//! A [`Definition`] is applied to the catalog when it is carried out, not when it is compiled: other
//! statements may have changed the catalog in between. [`Definition::apply`] gives the new catalog and
//! the [`Task`]s on stored rows; whoever carries them out does both in one transaction.

mod create_table;

use crate::parse::{Kind, Parsed};
use sql::SqlError;
use sql::catalog::{Catalog, Oid, Store};
use sqlparser::ast::Statement;
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
    /// Store all rows of a table under its new key in its new store, from the old one.
    Rekey { table: Oid, from: Store },
    /// Rows of a store that nothing uses any more: to be purged, then the store is free.
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
            | Statement::Drop { .. }
            | Statement::Truncate(_)
    )
}

impl Definition {
    pub(crate) fn new(parsed: &Parsed) -> Definition {
        Definition { parsed: parsed.clone() }
    }

    /// The catalog after the statement, and the work on stored rows. Stores are taken out of
    /// `stores`.
    ///
    /// # Errors
    /// PostgreSQL's errors of definitions: objects that exist already or not, and so on.
    pub fn apply(&self, catalog: &Catalog, stores: &mut Stores) -> Result<Change, SqlError> {
        let mut changing = Changing::new(catalog, stores);
        let result = match self.parsed.kind() {
            Kind::Sql(statement) => changing.statement(statement),
            _ => Ok(""),
        };
        let tag = result?;
        changing.change.catalog.version += 1;
        changing.change.tag = tag;
        *stores = changing.stores;
        Ok(changing.change)
    }
}

/// A catalog while a statement changes it.
struct Changing {
    change: Change,
    stores: Stores,
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
        Changing { change, stores: stores.clone() }
    }

    fn statement(&mut self, statement: &Statement) -> Result<&'static str, SqlError> {
        match statement {
            Statement::CreateTable(create) => self.create_table(create),
            _ => Err(SqlError::unsupported("this definition", None)),
        }
    }
}
