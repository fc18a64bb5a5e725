//! Tables of the catalog as programs have them.

use sql::catalog::{Catalog, Oid, Slots, Store, Table};
use sql::program::{Stored, StoredColumn};
use sql::{Datum, SqlType};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

pub fn stored(table: &Table) -> Stored {
    Stored::of(table)
}

/// Rows that are in no table.
pub fn unstored(name: &str, columns: Vec<(String, SqlType)>) -> Stored {
    let column = |(name, ty): (String, SqlType)| StoredColumn {
        name,
        ty,
        nullable: true,
        missing: Datum::Null,
        dropped: false,
    };
    Stored {
        name: name.into(),
        store: Store(0),
        columns: columns.into_iter().map(column).collect(),
        key: Vec::new(),
        key_name: String::new(),
        slots: Slots::Hash(Vec::new()),
        indexes: Vec::new(),
        layout: OnceLock::new(),
    }
}

/// The stored form of each table that a statement names, made once.
#[derive(Default)]
pub struct Cache(BTreeMap<Oid, Arc<Stored>>);

impl Cache {
    pub fn get(&mut self, table: &Table) -> Arc<Stored> {
        self.0.entry(table.oid).or_insert_with(|| Arc::new(stored(table))).clone()
    }

    pub fn of(&mut self, catalog: &Catalog, oid: Oid) -> Option<Arc<Stored>> {
        catalog.tables.get(&oid).map(|table| self.get(table))
    }
}
