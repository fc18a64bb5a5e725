//! Tables of the catalog as programs have them.

use sql::catalog::{Catalog, Oid, Slots, Store, Table};
use sql::program::{Stored, StoredColumn, StoredIndex};
use sql::{Datum, SqlType};
use std::collections::BTreeMap;
use std::sync::Arc;

pub fn stored(table: &Table) -> Stored {
    let column = |column: &sql::catalog::Column| StoredColumn {
        name: column.name.clone(),
        ty: column.ty,
        nullable: column.nullable || column.dropped,
        missing: column.missing.clone(),
    };
    let index = |index: &sql::catalog::Index| StoredIndex {
        name: index.name.clone(),
        store: index.store,
        columns: index.columns.clone(),
        unique: index.unique,
        slots: index.slots.clone(),
    };
    Stored {
        name: table.name.clone(),
        store: table.store,
        columns: table.columns.iter().map(column).collect(),
        key: table.key.clone(),
        key_name: table.key_name.clone(),
        slots: table.slots.clone(),
        indexes: table.indexes.iter().map(index).collect(),
    }
}

/// Rows that are in no table.
pub fn unstored(name: &str, columns: Vec<(String, SqlType)>) -> Stored {
    let column =
        |(name, ty): (String, SqlType)| StoredColumn { name, ty, nullable: true, missing: Datum::Null };
    Stored {
        name: name.into(),
        store: Store(0),
        columns: columns.into_iter().map(column).collect(),
        key: Vec::new(),
        key_name: String::new(),
        slots: Slots::Hash(Vec::new()),
        indexes: Vec::new(),
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
