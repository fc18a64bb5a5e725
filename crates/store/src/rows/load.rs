//! Bulk loading of an empty database: heap pages are filled and logged once, trees are built from
//! sorted entries.
//!
//! ```text
//!   each worker:  Loader -- rows --> heap pages (one record each)   one worker at the end:
//!                    \---- entries, kept in memory ----> Loaded --> build_trees: sort, pack
//! ```
//!
//! A clustered table has no heap pages to fill. A worker keeps up to [`WAITING`] bytes of its rows,
//! to be packed into leaves like the other entries. If the limit is exceeded, the worker sorts the
//! rows it has and inserts them one by one, logged as system records.
//!
//! A load belongs to no transaction: it cannot be rolled back, and a crash in the middle leaves
//! rows without entries. Restart repeats the logged part, but the caller must record by itself
//! whether the load was finished. Until the trees are built, each entry takes about 50 bytes of
//! memory.

use crate::catalog::definition::HeapForm;
use crate::catalog::tables::{NOWHERE, Reference, Table};
use crate::rows::clustered;
use crate::state::store::Store;
use access::{BTree, Expect, HeapFiller, Journal, TreeInsert};
use base::{Key, Lsn, Rid, TableId};
use latch::{LatchPolicy, Policies};
use pages::{PageFault, Stop};
use std::collections::BTreeMap;
use std::ops::Bound;
use txn::Row;

/// How full the nodes become, in per cent. The rest leaves room for inserts before the first split.
const FILL: u8 = 90;

/// Bytes of rows of one clustered table that a worker keeps before it inserts them.
const WAITING: usize = 64 << 20;

/// Adds rows to the tables of an empty store. Each worker has its own.
pub struct Loader<'s> {
    store: &'s Store,
    tables: BTreeMap<TableId, HeapFiller<'s>>,
    loaded: Loaded,
    /// Limit for the bytes of rows kept for one clustered table.
    waiting: usize,
    value: Vec<u8>,
}

/// The entries that are still to be put into trees.
#[derive(Default)]
pub struct Loaded {
    /// Entries of rows in heaps and entries of secondary indexes, by the id of their tree.
    entries: BTreeMap<TableId, Vec<(Key, Rid)>>,
    /// Entries of clustered tables.
    rows: BTreeMap<TableId, Vec<Waiting>>,
}

/// Entries with values, in order of arrival.
#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// Where each key and each value ends.
    ends: Vec<(usize, usize)>,
}

type Pair<'a> = (&'a [u8], &'a [u8]);

impl Waiting {
    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    fn iter(&self) -> impl Iterator<Item = Pair<'_>> {
        let mut from = 0;
        self.ends.iter().map(move |&(middle, to)| {
            let start = std::mem::replace(&mut from, to);
            (&self.bytes[start..middle], &self.bytes[middle..to])
        })
    }
}

fn pairs<K: AsRef<[u8]>, V: AsRef<[u8]>>(entries: &[(K, V)]) -> impl Iterator<Item = Pair<'_>> {
    entries.iter().map(|(key, value)| (key.as_ref(), value.as_ref()))
}

/// All of these entries in key order.
fn sorted(parts: &[Waiting]) -> Vec<Pair<'_>> {
    let mut all: Vec<Pair<'_>> = parts.iter().flat_map(Waiting::iter).collect();
    if !all.is_sorted() {
        all.sort_unstable();
    }
    all
}

impl Loaded {
    /// Adds the entries of another loader.
    pub fn merge(&mut self, other: Loaded) {
        for (tree, mut entries) in other.entries {
            self.entries.entry(tree).or_default().append(&mut entries);
        }
        for (tree, mut rows) in other.rows {
            self.rows.entry(tree).or_default().append(&mut rows);
        }
    }
}

impl<'s> Loader<'s> {
    /// Sets the limit for the bytes of rows kept for each clustered table.
    #[must_use]
    pub fn keeping_at_most(self, waiting: usize) -> Loader<'s> {
        Loader { waiting, ..self }
    }

    /// Adds a row, with its key if the table has one.
    ///
    /// # Errors
    /// [`Stop::Fault`], also for a row or a key that is too long; the row was not added.
    pub fn add<P: Policies>(&mut self, table: &'s Table, key: Option<&[u8]>, row: &[u8]) -> Result<(), Stop> {
        debug_assert!(table.layout.fits(row), "a row of another table");
        let rid = match key.filter(|_| table.is_clustered()) {
            Some(key) => {
                self.add_clustered::<P>(table, key, row)?;
                NOWHERE
            }
            None => self.fill::<P>(table, row)?,
        };
        if let Some(key) = key.filter(|_| !table.is_clustered()) {
            self.loaded.entries.entry(table.def.id).or_default().push((Key::from_bytes(key), rid));
        }
        for index in &table.indexes {
            let entry = table.def.entry_of(&index.def, Row::new(&table.layout, row));
            self.loaded.entries.entry(index.def.id).or_default().push((entry, rid));
        }
        Ok(())
    }

    /// Puts a row into a page of the heap.
    fn fill<P: Policies>(&mut self, table: &'s Table, row: &[u8]) -> Result<Rid, Stop> {
        let store = self.store;
        let filler = self.tables.entry(table.def.id).or_insert_with(|| HeapFiller::new(store.heap(table)));
        let mut journal = store.system(Lsn(0));
        store.insist(|| filler.push::<P::Heap>(&mut journal, row))
    }

    fn add_clustered<P: Policies>(&mut self, table: &'s Table, key: &[u8], row: &[u8]) -> Result<(), Stop> {
        let (store, mut value) = (self.store, std::mem::take(&mut self.value));
        match store.tree(table).takes(key.len(), clustered::length_here(row)) {
            true => clustered::here(&mut value, row),
            false => {
                value.clear();
                value.extend_from_slice(&clustered::away(self.fill::<P>(table, row)?));
            }
        }
        let parts = self.loaded.rows.entry(table.def.id).or_default();
        if parts.is_empty() {
            parts.push(Waiting::default());
        }
        parts[0].push(key, &value);
        self.value = value;
        if parts[0].bytes.len() > self.waiting {
            store.put_in::<P>(table, sorted(parts))?;
            parts.clear();
        }
        Ok(())
    }

    /// Writes the last page of each table, and returns the entries for [`Store::build_trees`].
    ///
    /// # Errors
    /// [`Stop`].
    pub fn finish<P: Policies>(mut self) -> Result<Loaded, Stop> {
        let mut journal = self.store.system(Lsn(0));
        for filler in self.tables.values_mut() {
            self.store.insist(|| filler.finish::<P::Heap>(&mut journal))?;
        }
        Ok(self.loaded)
    }
}

impl Store {
    pub fn loader(&self) -> Loader<'_> {
        Loader {
            store: self,
            tables: BTreeMap::new(),
            loaded: Loaded::default(),
            waiting: WAITING,
            value: Vec::new(),
        }
    }

    /// Whether no table has ever had a row, which loading requires.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn is_blank<P: Policies>(&self) -> Result<bool, Stop> {
        let schema = self.schema().unwrap_or_default();
        for table in schema.tables.iter().filter_map(|def| self.table(def.id)) {
            if self.insist(|| self.heap(table).pages::<P::Heap>())? > 0 {
                return Ok(false);
            }
            if table.is_clustered() && !self.is_empty::<P>(table)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_empty<P: Policies>(&self, table: &Table) -> Result<bool, Stop> {
        self.insist(|| self.tree(table).successor::<P::Index>(Bound::Unbounded)).map(|first| first.is_none())
    }

    /// Inserts entries of a clustered table, outside any transaction.
    fn put_in<P: Policies>(&self, table: &Table, entries: Vec<Pair<'_>>) -> Result<(), Stop> {
        let (tree, mut journal) = (self.tree(table), self.system(Lsn(0)));
        for (key, value) in entries {
            if self.insist(|| tree.insert::<P::Index>(&mut journal, key, value, Expect::Any))?
                != TreeInsert::Done
            {
                let what = "two of its rows have the same key";
                return Err(Stop::Fault(PageFault::Disordered { what }.into()));
            }
        }
        Ok(())
    }

    /// Builds every tree from the entries of all loaders together. Trees without entries stay
    /// empty.
    ///
    /// # Errors
    /// [`Stop::Fault`] for two rows with one key, or keys that are too long. That tree and the
    /// trees after it stay empty.
    pub fn build_trees<P: Policies>(&self, loaded: Loaded) -> Result<(), Stop> {
        let mut journal = self.system(Lsn(0));
        for (id, rows) in loaded.rows {
            let Some(table) = self.table(id) else { continue };
            let rows = sorted(&rows);
            if self.is_empty::<P>(table)? {
                self.pack::<P::Index, _, _>(self.tree(table), &mut journal, &rows, HeapForm::Shared)?;
            } else {
                self.put_in::<P>(table, rows)?;
            }
        }
        for (id, mut entries) in loaded.entries {
            let Some((table, tree)) = self.tree_of(id) else { continue };
            entries.sort_unstable();
            let address = |rid| match id == table.def.id {
                true => Reference::address(rid),
                false => table.reference(rid),
            };
            let sorted: Vec<_> = entries.iter().map(|(key, rid)| (key.as_slice(), address(*rid))).collect();
            match id == table.def.id {
                true => self.pack::<P::Index, _, _>(tree, &mut journal, &sorted, table.form())?,
                false => self.pack::<P::Secondary, _, _>(tree, &mut journal, &sorted, HeapForm::Shared)?,
            }
        }
        // Rows are placed last, once all trees exist, because each tree must learn the new
        // addresses.
        let schema = self.schema().unwrap_or_default();
        let tables = schema.tables.iter().filter_map(|def| self.table(def.id));
        tables.map(|table| self.place_loaded_rows::<P>(table)).try_for_each(|placed| placed.map(drop))
    }

    /// Fills an empty tree with sorted entries. A multi-rooted tree gets `partitions` sub-trees
    /// with about equally many entries. If the form is not `Shared`, the values are row addresses.
    fn pack<L: LatchPolicy, K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        tree: BTree<'_>,
        journal: &mut impl Journal,
        entries: &[(K, V)],
        form: HeapForm,
    ) -> Result<(), Stop> {
        let together = |a: &[u8], b: &[u8]| {
            form == HeapForm::ByLeaf
                && Rid::decode(a).map(|rid| rid.page) == Rid::decode(b).map(|rid| rid.page)
        };
        if tree.partitions().is_empty() {
            let bulk = || tree.bulk_together::<L, _, _>(journal, pairs(entries), FILL, together);
            return self.insist(bulk).map(drop);
        }
        let parts = self.partitions.clamp(1, entries.len().max(1));
        for at in (1..parts).map(|part| entries.len() * part / parts) {
            let (last, first) = (entries[at - 1].0.as_ref(), entries[at].0.as_ref());
            let shared = last.iter().zip(first).take_while(|(a, b)| a == b).count();
            let start = first.get(..=shared).unwrap_or(first);
            self.insist(|| tree.split_partition::<L>(journal, start))?;
        }
        let mut rest = entries;
        let starts = tree.partitions();
        for (i, start) in starts.iter().enumerate() {
            let until = starts
                .get(i + 1)
                .map_or(rest.len(), |next| rest.partition_point(|(key, _)| key.as_ref() < next.as_slice()));
            let (part, behind) = rest.split_at(until);
            let tree = tree.partition(start);
            self.insist(|| tree.bulk_together::<L, _, _>(journal, pairs(part), FILL, together))?;
            rest = behind;
        }
        Ok(())
    }
}
