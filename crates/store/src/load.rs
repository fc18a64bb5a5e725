//! Loading a database that is empty: heap pages filled and logged once, trees built from sorted entries.
//!
//! ```text
//!   each worker:  Loader -- rows --> heap pages (one record each)        one worker, when all are done:
//!                    \---- entries, kept in memory ----> Loaded ----->  build_trees: sort, trees packed bottom up
//! ```
//!
//! None of it belongs to a transaction: what is loaded cannot be rolled back, and a crash in the middle leaves rows without
//! entries. Restart repeats what was logged, but whoever loads must know by itself whether the load was finished.
//! Entries take about 50 bytes of memory each until the trees are built.

use crate::catalog::Table;
use crate::open::Store;
use access::HeapFiller;
use base::{Key, Lsn, Rid, TableId};
use latch::LatchPolicy;
use pages::Stop;
use std::collections::BTreeMap;
use txn::Row;

/// How full the trees' nodes become, in per cent: room for some inserts before the first split.
const FILL: u8 = 90;

/// Adds rows to the tables of an empty store. One for each worker.
pub struct Loader<'s> {
    store: &'s Store,
    tables: BTreeMap<TableId, HeapFiller<'s>>,
    loaded: Loaded,
}

/// Entries of rows that are in their heaps, by the tree that they belong into.
#[derive(Default)]
pub struct Loaded(BTreeMap<TableId, Vec<(Key, Rid)>>);

impl Loaded {
    /// Takes another loader's entries in.
    pub fn merge(&mut self, other: Loaded) {
        for (tree, mut entries) in other.0 {
            self.0.entry(tree).or_default().append(&mut entries);
        }
    }
}

impl<'s> Loader<'s> {
    /// Adds a row, with its key if the table has one.
    ///
    /// # Errors
    /// [`Stop::Fault`] also for a row or a key that is too long; the row was not added.
    pub fn add<L: LatchPolicy>(
        &mut self,
        table: &'s Table,
        key: Option<&[u8]>,
        row: &[u8],
    ) -> Result<(), Stop> {
        let store = self.store;
        debug_assert!(table.layout.fits(row), "a row of another table");
        let filler = self.tables.entry(table.def.id).or_insert_with(|| HeapFiller::new(store.heap(table)));
        let mut journal = store.system(Lsn(0));
        let rid = store.insist(|| filler.push::<L>(&mut journal, row))?;
        if let Some(key) = key {
            self.loaded.0.entry(table.def.id).or_default().push((Key::from_bytes(key), rid));
        }
        for index in &table.indexes {
            let entry = table.def.entry_of(&index.def, Row::new(&table.layout, row));
            self.loaded.0.entry(index.def.id).or_default().push((entry, rid));
        }
        Ok(())
    }

    /// Writes the last page of each table, and gives the entries for [`Store::build_trees`].
    ///
    /// # Errors
    /// [`Stop`].
    pub fn finish<L: LatchPolicy>(mut self) -> Result<Loaded, Stop> {
        let mut journal = self.store.system(Lsn(0));
        for filler in self.tables.values_mut() {
            self.store.insist(|| filler.finish::<L>(&mut journal))?;
        }
        Ok(self.loaded)
    }
}

impl Store {
    pub fn loader(&self) -> Loader<'_> {
        Loader { store: self, tables: BTreeMap::new(), loaded: Loaded::default() }
    }

    /// Whether no table has ever had a row: what loading asks for.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn is_blank<L: LatchPolicy>(&self) -> Result<bool, Stop> {
        let schema = self.schema().unwrap_or_default();
        for table in schema.tables.iter().filter_map(|def| self.table(def.id)) {
            if self.insist(|| self.heap(table).pages::<L>())? > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Builds every tree from the entries of all loaders together. Trees that have none stay empty.
    ///
    /// # Errors
    /// [`Stop::Fault`] for two rows with one key, or keys that are too long; that tree and those behind it are empty.
    pub fn build_trees<L: LatchPolicy>(&self, loaded: Loaded) -> Result<(), Stop> {
        let mut journal = self.system(Lsn(0));
        for (id, mut entries) in loaded.0 {
            let Some((_, tree)) = self.tree_of(id) else { continue };
            entries.sort_unstable();
            let sorted = || entries.iter().map(|(key, rid)| (key.as_slice(), rid.encode()));
            self.insist(|| tree.bulk::<L, _, _>(&mut journal, sorted(), FILL))?;
        }
        Ok(())
    }
}
