//! Creating and dropping tables and indexes, as part of a transaction.
//!
//! ```text
//!   create:  allocate roots -> row planned -> format roots -> row idle -> build  (system records,
//!            which stay) -> row used -> ... commit  (the transaction's records)
//!   drop:    row idle -> ... commit  (the transaction's records)
//!            -> free all pages -> remove the row  (system records)
//! ```
//!
//! After the end of a transaction, by commit or rollback, every row that it changed and that is not
//! *used* is removed, and its pages are freed. Such a row is a committed drop or an undone
//! creation. Restart does the same with all such rows, so a crash at any point leaves nothing
//! behind.
//!
//! The order makes removal repeatable. First every page is found and freed in the log, then the row
//! goes, and the allocator gives out none of the pages before the row is gone. So if restart finds
//! the row, the pages still have their old contents, even if log or checkpoint list them as free.
//! Restart reserves them again ([`Store::open_catalog`]) before it undoes anything.
//!
//! The caller isolates: no other transaction may use the table. A definition is checked before the
//! first change. A change that fails half-way is undone, so the transaction may continue after an
//! error. All functions here block for pages.

use crate::StoreFault;
use crate::catalog::definition::{self, Definition, Structure, StructureState, TreeKind};
use crate::catalog::tables::{self, NOWHERE, Reference, Table, TreePlace};
use crate::kind::CATALOG;
use crate::rows::scan::ChunkEnd;
use crate::state::store::Store;
use crate::txn::chain::{Mark, Txn};
use access::{
    BTree, Below, Expect, Heap, HeapPlace, HeapUpdate, Moves, RootMap, TreeInsert, log_freed, pages_below,
};
use base::{Key, Lsn, PageId, Rid, TableId};
use latch::{Coupled, Policies};
use pages::{PageFault, Stop};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use txn::{Direction, IndexDef, Row, Schema, TableDef};

/// Where the catalog's heap begins, in every database.
pub(crate) const CATALOG_ROOT: PageId = PageId(1);

/// Number of entries of a new index that are sorted in memory at a time; about 60 bytes each.
const RUN: usize = 1 << 20;

impl Store {
    /// Creates the tables of `schema` that do not exist yet, with their indexes. Existing tables
    /// must be defined alike. Durable on return. No other transaction may use the new tables before
    /// that.
    ///
    /// # Errors
    /// A schema that contradicts itself or the existing tables; no space; I/O. Nothing was created.
    pub fn create(&self, schema: &Schema) -> Result<(), StoreFault> {
        let mut txn = Txn::default();
        self.begin(&mut txn, 0);
        let made = schema.tables.iter().try_for_each(|def| self.create_table::<Coupled>(&mut txn, def));
        if let Err(fault) = made {
            self.insist_on_undo(|| self.rollback::<Coupled>(&mut txn)).map_err(no_room)?;
            return Err(fault);
        }
        let end = self.commit(&mut txn, None)?;
        Ok(self.log.wait_durable(end)?)
    }

    /// All tables in order of their ids, each with its indexes; `None` if there are none.
    pub fn schema(&self) -> Option<Schema> {
        let schema = tables::schema(&self.catalog.known.lock());
        (!schema.tables.is_empty()).then_some(schema)
    }

    /// Creates a table with its indexes. Does nothing if the same table exists already.
    ///
    /// # Errors
    /// A definition that contradicts itself or the existing tables; no space; I/O. Nothing was
    /// created.
    pub fn create_table<P: Policies>(&self, txn: &mut Txn, def: &TableDef) -> Result<(), StoreFault> {
        let there = tables::schema(&self.catalog.known.lock());
        match there.table(def.id) {
            Some(old) if alike(old, def) => return Ok(()),
            Some(old) => {
                return Err(StoreFault::Schema(format!(
                    "table '{}' cannot be created: its id {} belongs to table '{}', which is defined otherwise",
                    def.name, def.id, old.name
                )));
            }
            None => definition::check(def, &there)?,
        }
        self.statement::<P>(txn, |store, txn| {
            for index in &def.indexes {
                let root = store.pool.allocate().map_err(no_room)?;
                let structure =
                    Structure::Index { table: def.id, def: index.clone(), root, kind: store.trees };
                let rid = store.make::<P>(txn, structure)?;
                store.set_state::<P>(txn, rid, StructureState::Used)?;
            }
            let heap = store.pool.allocate().map_err(no_room)?;
            let tree = if def.key.is_empty() { None } else { Some(store.pool.allocate()) };
            let tree = tree.transpose().inspect_err(|_| store.pool.free(heap)).map_err(no_room)?;
            let def = TableDef { indexes: Vec::new(), ..def.clone() };
            let rid = store
                .make::<P>(txn, Structure::Table { def, tree, heap, kind: store.trees, form: store.heaps })?;
            store.set_state::<P>(txn, rid, StructureState::Used)
        })
    }

    /// Drops a table and its indexes. Their pages become free once the transaction has committed.
    ///
    /// # Errors
    /// The table does not exist; I/O. Nothing was dropped.
    pub fn drop_table<P: Policies>(&self, txn: &mut Txn, id: TableId) -> Result<(), StoreFault> {
        self.table(id).ok_or_else(|| StoreFault::Schema(format!("there is no table {id} to drop")))?;
        let rows = self.used(|s| s.table() == id);
        self.statement::<P>(txn, |store, txn| {
            // The table first: without it, its indexes have no meaning in memory either.
            let (indexes, table): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(_, owner)| *owner != id);
            table.into_iter().chain(indexes).try_for_each(|(rid, _)| store.retire::<P>(txn, rid))
        })
    }

    /// Creates an index and fills it from the table's rows.
    ///
    /// # Errors
    /// The table does not exist; a definition that contradicts the existing ones; a row with an
    /// entry that is too long; no space; I/O. Nothing was created.
    pub fn create_index<P: Policies>(
        &self,
        txn: &mut Txn,
        table: TableId,
        def: &IndexDef,
    ) -> Result<(), StoreFault> {
        let missing = || StoreFault::Schema(format!("there is no table {table} to index"));
        let there = tables::schema(&self.catalog.known.lock());
        let mut whole = there.table(table).ok_or_else(missing)?.clone();
        whole.indexes.push(def.clone());
        definition::check(&whole, &there)?;
        self.statement::<P>(txn, |store, txn| {
            let root = store.pool.allocate().map_err(no_room)?;
            let structure = Structure::Index { table, def: def.clone(), root, kind: store.trees };
            let rid = store.make::<P>(txn, structure.clone())?;
            let rows = store.table(table).ok_or_else(missing)?;
            let place = TreePlace { root, roots: store.roots_of(&structure).map_err(no_room)? };
            store.build::<P>(rows, def, store.tree_at(&place, def.id))?;
            store.set_state::<P>(txn, rid, StructureState::Used)
        })
    }

    /// Drops an index. Its pages become free once the transaction has committed.
    ///
    /// # Errors
    /// The index does not exist; I/O. Nothing was dropped.
    pub fn drop_index<P: Policies>(&self, txn: &mut Txn, id: TableId) -> Result<(), StoreFault> {
        let row = self.used(|s| s.owner() == id && s.table() != id).into_iter().next();
        let (rid, _) = row.ok_or_else(|| StoreFault::Schema(format!("there is no index {id} to drop")))?;
        self.statement::<P>(txn, |store, txn| store.retire::<P>(txn, rid))
    }

    /// The rows of used structures that `wanted` accepts, each with its owner.
    fn used(&self, wanted: impl Fn(&Structure) -> bool) -> Vec<(Rid, TableId)> {
        let known = self.catalog.known.lock();
        let rows = known.iter().filter(|(_, d)| d.state == StructureState::Used && wanted(&d.structure));
        rows.map(|(&rid, d)| (rid, d.structure.owner())).collect()
    }

    /// Runs a change of the schema atomically.
    fn statement<P: Policies>(
        &self,
        txn: &mut Txn,
        change: impl FnOnce(&Store, &mut Txn) -> Result<(), StoreFault>,
    ) -> Result<(), StoreFault> {
        self.fault().map_or(Ok(()), Err)?;
        self.log.room()?;
        self.catalog.room_for_changes()?;
        let (mark, from): (Mark, usize) = (txn.mark(), txn.defined.len());
        let done = change(self, txn);
        if done.is_err() && self.fault().is_none() {
            self.insist_on_undo(|| self.undo_to::<P>(txn, mark)).map_err(no_room)?;
            for rid in txn.defined.split_off(from) {
                self.take_away::<P>(rid, &[]).map_err(no_room)?;
            }
        }
        done
    }

    pub(crate) fn catalog_heap(&self) -> Heap<'_> {
        Heap::open(&self.pool, CATALOG_ROOT, CATALOG, &self.catalog.insert_pages)
    }

    /// Makes an empty structure in its allocated roots, and its catalog row, idle.
    fn make<P: Policies>(&self, txn: &mut Txn, structure: Structure) -> Result<Rid, StoreFault> {
        let roots = structure.roots();
        let plan = Definition { state: StructureState::Planned, structure };
        let heap = self.catalog_heap();
        let planned = plan.encode().and_then(|row| {
            self.insist(|| heap.insert::<P::Heap>(&mut self.system(Lsn(0)), &row)).map_err(no_room)
        });
        let rid = planned.inspect_err(|_| roots.iter().for_each(|&root| self.pool.free(root)))?;
        self.catalog.known.lock().insert(rid, plan.clone());
        if let Err(stop) = self.format::<P>(&plan.structure) {
            self.take_away::<P>(rid, &roots).map_err(no_room)?;
            return Err(no_room(stop));
        }
        let idle = Definition { state: StructureState::Idle, ..plan };
        let row = idle.encode()?;
        self.insist(|| heap.update::<P::Heap>(&mut self.system(Lsn(0)), rid, &row, Moves::Forward))
            .map_err(no_room)?;
        self.catalog.known.lock().insert(rid, idle);
        txn.defined.push(rid);
        Ok(rid)
    }

    fn format<P: Policies>(&self, structure: &Structure) -> Result<(), Stop> {
        let mut journal = self.system(Lsn(0));
        let owner = structure.owner();
        match structure.tree() {
            None => {}
            Some((root, TreeKind::BTree)) => {
                self.insist(|| BTree::create_at::<P::Index>(&self.pool, &mut journal, owner, root))?;
            }
            Some((root, TreeKind::MultiRooted)) => {
                self.insist(|| BTree::create_multi_at::<P::Index>(&self.pool, &mut journal, owner, root))?;
            }
        }
        if let Structure::Table { def, heap, .. } = structure {
            self.insist(|| Heap::create_at::<P::Heap>(&self.pool, &mut journal, def.id, *heap))?;
        }
        Ok(())
    }

    fn retire<P: Policies>(&self, txn: &mut Txn, rid: Rid) -> Result<(), StoreFault> {
        txn.defined.push(rid);
        self.set_state::<P>(txn, rid, StructureState::Idle)
    }

    /// The transaction's own change of a definition, undone with the transaction.
    fn set_state<P: Policies>(
        &self,
        txn: &mut Txn,
        rid: Rid,
        state: StructureState,
    ) -> Result<(), StoreFault> {
        let lost =
            || StoreFault::Broken { table: CATALOG, what: format!("the definition at {rid:?} is gone") };
        let old = self.catalog.known.lock().get(&rid).cloned().ok_or_else(lost)?;
        let new = Definition { state, ..old };
        let row = new.encode()?;
        let heap = self.catalog_heap();
        let done = self
            .insist(|| heap.update::<P::Heap>(&mut self.writer(&mut txn.chain), rid, &row, Moves::Forward));
        if done.map_err(no_room)? != HeapUpdate::Done(None) {
            return Err(lost());
        }
        self.learn(rid, Some(new))
    }

    /// Updates the catalog in memory after a change of one of its rows.
    fn learn(&self, rid: Rid, row: Option<Definition>) -> Result<(), StoreFault> {
        let loaded = row.as_ref().map_or(Ok(None), |row| self.roots_of(&row.structure));
        loaded.map_err(no_room)?;
        let mut known = self.catalog.known.lock();
        let table = row.as_ref().map(|r| r.structure.table());
        let old = match row {
            Some(row) => known.insert(rid, row),
            None => known.remove(&rid),
        };
        match table.or(old.map(|r| r.structure.table())) {
            Some(table) => self.catalog.publish(&known, table),
            None => Ok(()),
        }
    }

    /// Re-reads the catalog row at `rid` after an undo changed it.
    pub(crate) fn relearn<P: Policies>(&self, rid: Rid) -> Result<(), Stop> {
        let row = self.insist_on_undo(|| self.catalog_heap().read::<P::Heap, _>(rid, Definition::decode))?;
        let learnt = row.transpose().and_then(|row| self.learn(rid, row));
        learnt.map_err(|fault| {
            self.poison(fault);
            Stop::Fault(self.corrupt(rid.page))
        })
    }

    /// After the end of the transaction: removes the structures that it worked on and that no table
    /// uses.
    pub(crate) fn clear_away<P: Policies>(&self, txn: &mut Txn) {
        for rid in std::mem::take(&mut txn.defined) {
            // A structure that cannot be removed now (no free frame) is removed by the next
            // restart.
            let _ = self.take_away::<P>(rid, &[]);
        }
    }

    /// Frees the pages of an unused structure and removes its row. `unformatted` are the roots that
    /// were allocated and may have no content yet.
    fn take_away<P: Policies>(&self, rid: Rid, unformatted: &[PageId]) -> Result<(), Stop> {
        let row = self.catalog.known.lock().get(&rid).cloned();
        let Some(row) = row.filter(|d| d.state != StructureState::Used) else { return Ok(()) };
        self.active.wait_for_visitors();
        let pages = self.pages_of::<P>(&row)?;
        log_freed(&mut self.system(Lsn(0)), row.structure.owner(), &pages);
        let heap = self.catalog_heap();
        self.insist(|| heap.delete::<P::Heap>(&mut self.system(self.log.end()), rid))?;
        self.insist(|| heap.purge::<P::Heap>(&mut self.system(Lsn(0)), rid))?;
        self.catalog.known.lock().remove(&rid);
        row.structure.partition_table().map(|table| self.catalog.roots.lock().remove(&table));
        let never = unformatted.iter().filter(|root| !pages.contains(root));
        pages.iter().chain(never).for_each(|&page| self.pool.free(page));
        Ok(())
    }

    /// Every page of an unused structure.
    fn pages_of<P: Policies>(&self, row: &Definition) -> Result<Vec<PageId>, Stop> {
        let roots = row.structure.roots();
        if row.state == StructureState::Planned {
            // Formatted roots are empty structures; the other roots were never used. An empty
            // multi-rooted tree may have two pages.
            let formatted: Vec<PageId> = roots.into_iter().filter(|&root| self.pool.uses(root)).collect();
            return match row.structure.partition_table().filter(|table| formatted.contains(table)) {
                None => Ok(formatted),
                Some(_) => self.walk::<P>(row.structure.owner(), formatted, false),
            };
        }
        self.walk::<P>(row.structure.owner(), roots, row.structure.has_large_rows())
    }

    /// The pages of the trees and heaps of `owner` that begin at `roots`.
    fn walk<P: Policies>(
        &self,
        owner: TableId,
        roots: Vec<PageId>,
        large: bool,
    ) -> Result<Vec<PageId>, Stop> {
        let (mut all, mut ahead) = (BTreeSet::new(), roots);
        while let Some(page) = ahead.pop() {
            if !all.insert(page) {
                continue;
            }
            // The heap policy serves for trees, too: within a design all latch policies exclude
            // each other.
            match self.insist(|| pages_below::<P::Heap>(&self.pool, owner, page))? {
                Below::More(below) => ahead.extend(below),
                Below::Rows(below) if large => ahead.extend(below),
                Below::Rows(below) | Below::Last(below) => all.extend(below),
                Below::Foreign => return Err(Stop::Fault(PageFault::Malformed { page }.into())),
            }
        }
        Ok(all.into_iter().collect())
    }

    /// Fills a new index, which no other transaction sees yet, by redo-only records.
    fn build<P: Policies>(&self, table: &Table, def: &IndexDef, tree: BTree<'_>) -> Result<(), StoreFault> {
        if table.is_clustered() {
            return self.build_by_key::<P>(table, def, tree);
        }
        let heap = self.heap(table);
        let mut place = Some(HeapPlace::default());
        while place.is_some() {
            let mut run: Vec<(Key, Rid)> = Vec::new();
            while let Some(here) = place.filter(|_| run.len() < RUN) {
                let from = run.len();
                let read = || {
                    run.truncate(from);
                    let entry = |row: &[u8]| table.def.entry_of(def, Row::new(&table.layout, row));
                    heap.chunk::<P::Heap>(here, |rid, row| run.push((entry(row), rid)))
                };
                place = self.insist(read).map_err(no_room)?;
            }
            run.sort_unstable();
            self.fill::<P>(tree, run.iter().map(|(key, rid)| (key, table.reference(*rid))))?;
        }
        Ok(())
    }

    /// As [`Store::build`], for a clustered table.
    fn build_by_key<P: Policies>(
        &self,
        table: &Table,
        def: &IndexDef,
        tree: BTree<'_>,
    ) -> Result<(), StoreFault> {
        let mut from = Some(Bound::Unbounded);
        while from.is_some() {
            let mut run: Vec<Key> = Vec::new();
            while let Some(here) = from.as_ref().filter(|_| run.len() < RUN) {
                let begin = run.len();
                let read = || {
                    run.truncate(begin);
                    let bound = here.as_ref().map(Key::as_slice);
                    self.chunk::<P>(table.def.id, bound, None, Direction::Forward, usize::MAX, |_, row| {
                        run.push(table.def.entry_of(def, Row::new(&table.layout, row)));
                    })
                };
                from = match self.insist(read).map_err(no_room)? {
                    ChunkEnd::More(next) => Some(next),
                    ChunkEnd::Done(_) => None,
                };
            }
            run.sort_unstable();
            self.fill::<P>(tree, run.iter().map(|key| (key, table.reference(NOWHERE))))?;
        }
        Ok(())
    }

    fn fill<'k, P: Policies>(
        &self,
        tree: BTree<'_>,
        entries: impl Iterator<Item = (&'k Key, Reference)>,
    ) -> Result<(), StoreFault> {
        let mut journal = self.system(Lsn(0));
        for (key, reference) in entries {
            if key.len() > tree.max_key() {
                return Err(StoreFault::Schema(format!(
                    "index {} cannot be created: a row's entry is {} bytes long, at most {} fit",
                    tree.id(),
                    key.len(),
                    tree.max_key()
                )));
            }
            let put = self
                .insist(|| tree.insert::<P::Secondary>(&mut journal, key, reference.as_slice(), Expect::Any));
            if put.map_err(no_room)? != TreeInsert::Done {
                let what = format!("two rows have the same entry in index {}", tree.id());
                return Err(StoreFault::Broken { table: tree.id(), what });
            }
        }
        Ok(())
    }

    /// Part of restart, once all pages have their contents: reads the catalog, or creates it in a
    /// new database. Reserves the pages of unused structures, even if the log had freed them, so
    /// that they are not given out.
    pub(crate) fn open_catalog(&self) -> Result<(), StoreFault> {
        if self.pool.allocator().next <= CATALOG_ROOT {
            let root = self.pool.allocate().map_err(no_room)?;
            debug_assert_eq!(root, CATALOG_ROOT);
            let mut journal = self.system(Lsn(0));
            return Heap::create_at::<Coupled>(&self.pool, &mut journal, CATALOG, root).map_err(no_room);
        }
        let (heap, mut place) = (self.catalog_heap(), HeapPlace::default());
        let mut rows = BTreeMap::new();
        while let Some(next) = self
            .insist(|| {
                heap.chunk::<Coupled>(place, |rid, row| drop(rows.insert(rid, Definition::decode(row))))
            })
            .map_err(no_room)?
        {
            place = next;
        }
        {
            let mut known = self.catalog.known.lock();
            for (rid, row) in rows {
                known.insert(rid, row?);
            }
            for row in known.values().filter(|d| d.state == StructureState::Used) {
                self.roots_of(&row.structure).map_err(no_room)?;
            }
            let tables: BTreeSet<TableId> = known.values().map(|d| d.structure.table()).collect();
            tables.into_iter().try_for_each(|table| self.catalog.publish(&known, table))?;
        }
        for (_, row) in self.unused() {
            for page in self.pages_of::<Coupled>(&row).map_err(no_room)? {
                self.pool.reserve(page).map_err(no_room)?;
            }
        }
        Ok(())
    }

    /// The sub-trees of a structure's tree, if it is multi-rooted. They are read on first use.
    fn roots_of(&self, structure: &Structure) -> Result<Option<Arc<RootMap>>, Stop> {
        let Some(table) = structure.partition_table() else { return Ok(None) };
        let mut roots = self.catalog.roots.lock();
        if let Some(known) = roots.get(&table) {
            return Ok(Some(known.clone()));
        }
        let read = self.insist(|| BTree::read_roots(&self.pool, table, structure.owner()))?;
        Ok(Some(roots.entry(table).or_insert(Arc::new(read)).clone()))
    }

    fn unused(&self) -> Vec<(Rid, Definition)> {
        let known = self.catalog.known.lock();
        known
            .iter()
            .filter(|(_, d)| d.state != StructureState::Used)
            .map(|(&rid, d)| (rid, d.clone()))
            .collect()
    }

    /// At the end of restart, removes all unused structures. No transaction works on the catalog
    /// then, because a transaction that changed the schema cannot be prepared.
    pub(crate) fn clear_catalog(&self) -> Result<(), StoreFault> {
        self.unused()
            .into_iter()
            .try_for_each(|(rid, _)| self.take_away::<Coupled>(rid, &[]).map_err(no_room))
    }
}

/// Whether two definitions are equal, apart from the order of the indexes.
fn alike(a: &TableDef, b: &TableDef) -> bool {
    let sorted = |def: &TableDef| {
        let mut def = def.clone();
        def.indexes.sort_unstable_by_key(|i| i.id);
        def
    };
    sorted(a) == sorted(b)
}

/// A schema change reports lack of space as its own error.
fn no_room(stop: Stop) -> StoreFault {
    match stop {
        Stop::Fault(fault) => StoreFault::Page(fault),
        stop => StoreFault::Schema(format!("the schema cannot be changed: {stop}")),
    }
}
