//! Checking a whole store: every tree, every heap, and that they agree.

use crate::StoreFault;
use crate::catalog::Table;
use crate::open::Store;
use access::{BTree, HeapPlace, HeapReport, TreeReport};
use base::{Key, PageId, Rid, TableId};
use latch::Coupled;
use std::collections::BTreeMap;
use std::ops::Bound;
use txn::Row;

/// What a sound store looks like.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckReport {
    pub tables: Vec<TableReport>,
    /// Pages that the log says are in use and that belong to nothing: room lost, no harm.
    pub lost_pages: Vec<PageId>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableReport {
    pub id: TableId,
    pub name: String,
    pub heap: HeapReport,
    /// The primary tree, then the secondary ones.
    pub trees: Vec<(TableId, TreeReport)>,
}

impl Store {
    /// Walks all tables and verifies trees, heaps, and that each row has its entry in each tree and each entry its
    /// row. No transaction may run meanwhile. Keeps all rows' keys of one table in memory.
    ///
    /// # Errors
    /// The first flaw met; the store is poisoned by it.
    pub fn check(&self) -> Result<CheckReport, StoreFault> {
        self.check_all().inspect_err(|fault| self.poison(fault.clone()))
    }

    fn check_all(&self) -> Result<CheckReport, StoreFault> {
        let schema = self.schema().unwrap_or_default();
        let tables = schema.tables.iter().filter_map(|def| self.table(def.id));
        let tables = tables.map(|t| self.check_table(t)).collect::<Result<_, _>>()?;
        Ok(CheckReport { tables, lost_pages: self.lost_pages()? })
    }

    fn check_table(&self, table: &Table) -> Result<TableReport, StoreFault> {
        let flaw = |what: String| StoreFault::Broken { table: table.def.id, what };
        let heap = self.heap(table).verify::<Coupled>().map_err(|e| flaw(e.to_string()))?;
        let rows = self.rows_of(table)?;
        if rows.len() as u64 != heap.rows {
            return Err(flaw(format!("{} rows were met, {} counted", rows.len(), heap.rows)));
        }
        let mut trees = Vec::new();
        if table.tree.is_some() {
            let tree = self.tree(table);
            let keys = rows.iter().map(|(&rid, row)| (table.def.key_of(Row::new(&table.layout, row)), rid));
            trees.push((table.def.id, self.check_tree(table, tree, keys.collect())?));
        }
        for index in &table.indexes {
            let tree = self.secondary(index);
            let entry = |row| table.def.entry_of(&index.def, Row::new(&table.layout, row));
            let keys = rows.iter().map(|(&rid, row)| (entry(row), rid));
            trees.push((index.def.id, self.check_tree(table, tree, keys.collect())?));
        }
        Ok(TableReport { id: table.def.id, name: table.def.name.clone(), heap, trees })
    }

    fn rows_of(&self, table: &Table) -> Result<BTreeMap<Rid, Vec<u8>>, StoreFault> {
        let (mut rows, mut place) = (BTreeMap::new(), HeapPlace::default());
        let flaw = |what: String| StoreFault::Broken { table: table.def.id, what };
        let heap = self.heap(table);
        while let Some(next) = self
            .insist(|| heap.chunk::<Coupled>(place, |rid, row| drop(rows.insert(rid, row.to_vec()))))
            .map_err(|e| flaw(e.to_string()))?
        {
            place = next;
        }
        match rows.iter().find(|(_, row)| !table.layout.fits(row)) {
            Some((rid, _)) => Err(flaw(format!("the row at {rid:?} does not have the table's layout"))),
            None => Ok(rows),
        }
    }

    /// Verifies the tree and that it holds exactly these entries.
    fn check_tree(
        &self,
        table: &Table,
        tree: BTree<'_>,
        mut expected: Vec<(Key, Rid)>,
    ) -> Result<TreeReport, StoreFault> {
        let flaw = |what: String| StoreFault::Broken { table: table.def.id, what };
        let report = tree.verify::<Coupled>().map_err(|e| flaw(e.to_string()))?;
        expected.sort_unstable();
        let mut found = Vec::new();
        let mut from = Bound::Unbounded;
        loop {
            let mut part = Vec::new();
            let read = || {
                part.clear();
                let entry = |key: &[u8], value: &[u8]| part.push((Key::from_bytes(key), Rid::decode(value)));
                tree.chunk::<Coupled>(
                    from.as_ref().map(Key::as_slice),
                    None,
                    access::Direction::Forward,
                    entry,
                )
            };
            let chunk = self.insist(read).map_err(|e| flaw(e.to_string()))?;
            found.append(&mut part);
            match chunk.end {
                access::ChunkEnd::Continue(fence) => from = Bound::Included(fence),
                _ => break,
            }
        }
        let differs = expected.iter().map(|(k, r)| (k, Some(*r))).zip(found.iter().map(|(k, r)| (k, *r)));
        if let Some((want, is)) = differs.clone().find(|(want, is)| want != is) {
            return Err(flaw(format!("index {} has {is:?} where the rows have {want:?}", tree.id())));
        }
        if expected.len() != found.len() {
            let counts = (found.len(), expected.len());
            return Err(flaw(format!("index {} has {} entries for {} rows", tree.id(), counts.0, counts.1)));
        }
        Ok(report)
    }
}
