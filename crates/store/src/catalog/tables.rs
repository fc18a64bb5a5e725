//! The catalog: the tables of the database, in memory for transactions, and in a heap of its own
//! for restart.
//!
//! The heap has its root in page 1. It is logged, undone and redone like any other heap, but not
//! locked. Its rows are [`Definition`]s. Why rows, and not one value that each change rewrites: a
//! transaction creates or drops a table by updating a row, so atomicity, savepoints and recovery
//! are those of rows, and a checkpoint contains no schema.
//!
//! Access rules, in memory:
//!
//! - The thread that holds `known` changes the meaning of a [`TableId`], by publishing a new
//!   [`Entry`].
//! - Any thread looks an id up, with three loads and no latch.
//!
//! A published entry stays until the store is closed, so a reference to a table stays valid after
//! the table is dropped. The table's lock determines whether the table may still be used: **a
//! transaction that waited for the lock must look the table up again afterwards**.

use crate::StoreFault;
use crate::catalog::borders::Coming;
use crate::catalog::definition::{Definition, HeapForm, Structure, StructureState};
use access::{InsertPages, RootMap, TreeRole};
use base::{PageId, Rid, TableId};
use latch::{Rank, RankedMutex};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use txn::row::Layout;
use txn::{Columns, IndexDef, Schema, TableDef, TableKind};

/// A table, looked up once and used for many operations of one transaction.
pub struct Table {
    pub def: TableDef,
    pub layout: Layout,
    /// The primary tree; `None` for a table without a key.
    pub(crate) tree: Option<TreePlace>,
    pub(crate) heap: PageId,
    pub(crate) insert_pages: InsertPages,
    /// The keys at which partitions of this table are about to be split.
    pub(crate) coming: Arc<Coming>,
    pub(crate) form: HeapForm,
    pub(crate) indexes: Vec<Index>,
}

impl Table {
    /// Whether setting these columns may change an entry of a secondary index.
    #[inline]
    pub(crate) fn indexed(&self, columns: Columns) -> bool {
        self.indexes.iter().any(|index| index.columns.meets(columns))
    }

    /// Whether its rows lie in the leaves of its primary tree. The heap then contains only rows
    /// that are too long for a leaf.
    #[inline]
    pub(crate) fn is_clustered(&self) -> bool {
        self.def.kind == TableKind::Clustered
    }

    /// Which of its rows share a heap page.
    pub fn form(&self) -> HeapForm {
        match self.tree.is_some() && !self.is_clustered() {
            true => self.form,
            false => HeapForm::Shared,
        }
    }

    /// The value of a secondary index entry for the row at `rid`.
    #[inline]
    pub(crate) fn reference(&self, rid: Rid) -> Reference {
        Reference(if self.is_clustered() { None } else { Some(rid.encode()) })
    }
}

/// Stands for the address of a row without one. No row lies in page 0.
pub(crate) const NOWHERE: Rid = Rid { page: PageId(0), slot: 0 };

/// The value of a secondary index entry: the row's address, or nothing in a clustered table.
pub(crate) struct Reference(Option<[u8; Rid::BYTES]>);

impl Reference {
    pub fn address(rid: Rid) -> Reference {
        Reference(Some(rid.encode()))
    }

    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |address| address)
    }
}

impl AsRef<[u8]> for Reference {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

/// Where a tree begins.
#[derive(Clone, Debug)]
pub(crate) struct TreePlace {
    /// Its root, or the first page of its partition table.
    pub root: PageId,
    /// The sub-trees of a multi-rooted tree. All users of the tree share this map.
    pub roots: Option<Arc<RootMap>>,
}

pub(crate) struct Index {
    pub def: IndexDef,
    pub tree: TreePlace,
    /// The columns of the index definition. An update of other columns leaves the entry as it is,
    /// because no update changes the key columns.
    pub columns: Columns,
}

enum Entry {
    Table(Box<Table>),
    /// The `position`-th secondary index of a table.
    Index {
        table: TableId,
        position: usize,
    },
}

/// The meaning of an id. The first meaning lies here, later ones in the catalog's `later`.
#[derive(Default)]
struct Meaning {
    first: OnceLock<Entry>,
    /// [`FIRST`], [`NOTHING`], or the position in `later` plus one.
    now: AtomicU32,
}

const FIRST: u32 = 0;
const NOTHING: u32 = u32::MAX;

const CHUNK: usize = 256;
/// Maximum number of meanings that change while the store is open. Beyond half of it no more schema
/// changes begin, so that those under way have room.
const LATER: usize = CHUNK * CHUNK;

type Chunks<T> = Box<[OnceLock<Box<[T]>>]>;

fn chunks<T>() -> Chunks<T> {
    (0..CHUNK).map(|_| OnceLock::new()).collect()
}

fn at<T: Default>(chunks: &Chunks<T>, n: usize) -> &T {
    &chunks[n / CHUNK].get_or_init(|| (0..CHUNK).map(|_| T::default()).collect())[n % CHUNK]
}

pub(crate) struct Catalog {
    meanings: Chunks<Meaning>,
    later: Chunks<OnceLock<Entry>>,
    /// The number of entries in `later`.
    changes: AtomicUsize,
    /// The sub-trees of each multi-rooted tree in use, by the first page of its partition table.
    pub roots: RankedMutex<BTreeMap<PageId, Arc<RootMap>>>,
    /// The rows of the catalog's heap, by address.
    pub known: RankedMutex<BTreeMap<Rid, Definition>>,
    /// Where the catalog's own rows are inserted.
    pub insert_pages: InsertPages,
}

impl Catalog {
    pub fn new() -> Catalog {
        Catalog {
            meanings: chunks(),
            later: chunks(),
            changes: AtomicUsize::new(0),
            roots: RankedMutex::new(Rank::CatalogRoots, BTreeMap::new()),
            known: RankedMutex::new(Rank::Catalog, BTreeMap::new()),
            insert_pages: InsertPages::new(),
        }
    }

    #[inline]
    fn entry(&self, id: TableId) -> Option<&Entry> {
        let meaning = &self.meanings[id.0 as usize / CHUNK].get()?[id.0 as usize % CHUNK];
        match meaning.now.load(Ordering::Acquire) {
            FIRST => meaning.first.get(),
            now => self.later(now),
        }
    }

    #[cold]
    fn later(&self, now: u32) -> Option<&Entry> {
        let n = now as usize - 1;
        if now == NOTHING { None } else { self.later[n / CHUNK].get()?[n % CHUNK].get() }
    }

    #[inline]
    pub fn table(&self, id: TableId) -> Option<&Table> {
        match self.entry(id)? {
            Entry::Table(table) => Some(table),
            Entry::Index { .. } => None,
        }
    }

    /// The table that `id` is or belongs to, and the index's position if `id` is an index.
    pub fn index(&self, id: TableId) -> Option<(&Table, Option<usize>)> {
        match self.entry(id)? {
            Entry::Table(table) => Some((table, None)),
            &Entry::Index { table, position } => Some((self.table(table)?, Some(position))),
        }
    }

    /// Where the tree with this id begins, and whether it is primary or secondary.
    pub fn tree(&self, id: TableId) -> Option<(&TreePlace, TreeRole)> {
        match self.index(id)? {
            (table, None) => table.tree.as_ref().map(|tree| (tree, TreeRole::Primary)),
            (table, Some(i)) => table.indexes.get(i).map(|i| (&i.tree, TreeRole::Secondary)),
        }
    }

    /// # Errors
    /// [`StoreFault::Schema`] if so much was changed since the store was opened that the catalog's
    /// memory is full.
    pub fn room_for_changes(&self) -> Result<(), StoreFault> {
        if self.changes.load(Ordering::Relaxed) < LATER / 2 {
            return Ok(());
        }
        let text =
            "too many tables were created and dropped since the database was opened; close and open it";
        Err(StoreFault::Schema(text.into()))
    }

    /// Publishes the table with this id and its indexes as `known` describes them. Indexes that the
    /// table no longer has lose their meaning.
    pub fn publish(&self, known: &BTreeMap<Rid, Definition>, id: TableId) -> Result<(), StoreFault> {
        let before: Vec<TableId> =
            self.table(id).map(|t| t.indexes.iter().map(|i| i.def.id).collect()).unwrap_or_default();
        let table = assemble(known, &self.roots.lock(), id)?;
        let now: Vec<TableId> =
            table.as_ref().map(|t| t.indexes.iter().map(|i| i.def.id).collect()).unwrap_or_default();
        for &gone in before.iter().filter(|b| !now.contains(b)) {
            self.mean(gone, None)?;
        }
        self.mean(id, table.map(|t| Entry::Table(Box::new(t))))?;
        for (position, &index) in now.iter().enumerate() {
            self.mean(index, Some(Entry::Index { table: id, position }))?;
        }
        Ok(())
    }

    fn mean(&self, id: TableId, entry: Option<Entry>) -> Result<(), StoreFault> {
        let meaning = at(&self.meanings, id.0.into());
        let Some(entry) = entry else {
            meaning.now.store(NOTHING, Ordering::Release);
            return Ok(());
        };
        let Err(entry) = meaning.first.set(entry) else {
            meaning.now.store(FIRST, Ordering::Release);
            return Ok(());
        };
        let n = self.changes.fetch_add(1, Ordering::Relaxed);
        if n >= LATER || at(&self.later, n).set(entry).is_err() {
            return Err(StoreFault::Schema(
                "the catalog's memory is full; close and open the database".into(),
            ));
        }
        meaning.now.store(n as u32 + 1, Ordering::Release);
        Ok(())
    }
}

/// All tables in order of their ids, each with its indexes.
pub(crate) fn schema(known: &BTreeMap<Rid, Definition>) -> Schema {
    let ids = known.values().filter(|d| d.state == StructureState::Used).filter_map(|d| match &d.structure {
        Structure::Table { def, .. } => Some(def.id),
        Structure::Index { .. } => None,
    });
    let mut ids: Vec<TableId> = ids.collect();
    ids.sort_unstable();
    let tables =
        ids.into_iter().filter_map(|id| assemble(known, &BTreeMap::new(), id).ok().flatten()).map(|t| t.def);
    Schema { tables: tables.collect() }
}

/// The table that the used rows of `known` describe; `None` if there is no such row.
fn assemble(
    known: &BTreeMap<Rid, Definition>,
    roots: &BTreeMap<PageId, Arc<RootMap>>,
    id: TableId,
) -> Result<Option<Table>, StoreFault> {
    let place = |root: PageId| TreePlace { root, roots: roots.get(&root).cloned() };
    let mut found = None;
    let mut indexes = Vec::new();
    for row in known.values().filter(|d| d.state == StructureState::Used && d.structure.table() == id) {
        match &row.structure {
            Structure::Table { def, tree, heap, form, .. } if found.is_none() => {
                found = Some((def.clone(), tree.map(place), *heap, *form));
            }
            Structure::Table { .. } => {
                let what = format!("there are two tables with the id {id}");
                return Err(StoreFault::Broken { table: crate::kind::CATALOG, what });
            }
            Structure::Index { def, root, .. } => {
                indexes.push(Index {
                    def: def.clone(),
                    tree: place(*root),
                    columns: Columns::of(&def.columns),
                });
            }
        }
    }
    indexes.sort_unstable_by_key(|i| i.def.id);
    Ok(found.map(|(mut def, tree, heap, form)| {
        def.indexes = indexes.iter().map(|i| i.def.clone()).collect();
        let coming = Arc::default();
        Table {
            layout: Layout::of(&def),
            tree,
            heap,
            insert_pages: InsertPages::new(),
            coming,
            form,
            indexes,
            def,
        }
    }))
}
