//! The tables there are, and where their trees and heaps begin.
//!
//! Who may do what: tables are only ever added, by whoever holds `adding`; a look-up is two loads and takes no
//! latch. The catalog is durable as a log record and in every checkpoint.

use crate::control::Roots;
use crate::{StoreFault, kind};
use access::{InsertPages, MAX_ROW};
use base::{PageId, TableId};
use std::sync::{Mutex, OnceLock};
use txn::row::Layout;
use txn::{IndexDef, Schema, TableDef};

/// A table, looked up once and used for many operations.
pub struct Table {
    pub def: TableDef,
    pub layout: Layout,
    /// Root page of the primary tree; `None` for a table without a key.
    pub(crate) tree: Option<PageId>,
    pub(crate) heap: PageId,
    pub(crate) insert_pages: InsertPages,
    pub(crate) indexes: Vec<Index>,
}

pub(crate) struct Index {
    pub def: IndexDef,
    pub root: PageId,
}

enum Entry {
    Table(Box<Table>),
    /// The `position`-th secondary index of a table.
    Index {
        table: TableId,
        position: usize,
    },
}

const CHUNK: usize = 256;
type Chunk = Box<[OnceLock<Entry>]>;

pub(crate) struct Catalog {
    chunks: Box<[OnceLock<Chunk>]>,
    /// What is in `chunks`, as a value.
    pub adding: Mutex<Roots>,
}

impl Catalog {
    pub fn new() -> Catalog {
        Catalog { chunks: (0..CHUNK).map(|_| OnceLock::new()).collect(), adding: Mutex::default() }
    }

    #[inline]
    fn entry(&self, id: TableId) -> Option<&Entry> {
        self.chunks[id.0 as usize / CHUNK].get()?[id.0 as usize % CHUNK].get()
    }

    #[inline]
    pub fn table(&self, id: TableId) -> Option<&Table> {
        match self.entry(id)? {
            Entry::Table(table) => Some(table),
            Entry::Index { .. } => None,
        }
    }

    /// The table that `id` is, or is an index of, and which index.
    pub fn index(&self, id: TableId) -> Option<(&Table, Option<usize>)> {
        match self.entry(id)? {
            Entry::Table(table) => Some((table, None)),
            &Entry::Index { table, position } => Some((self.table(table)?, Some(position))),
        }
    }

    /// Where the tree with this id begins.
    pub fn root(&self, id: TableId) -> Option<PageId> {
        match self.index(id)? {
            (table, None) => table.tree,
            (table, Some(i)) => table.indexes.get(i).map(|i| i.root),
        }
    }

    /// What in `schema` is new. Tables that are there must be there alike.
    pub fn additions(&self, there: &Roots, schema: &Schema) -> Result<Vec<TableDef>, StoreFault> {
        let mut new: Vec<TableDef> = Vec::new();
        for def in &schema.tables {
            match there.schema.table(def.id) {
                Some(old) if old == def => {}
                Some(old) => {
                    return Err(StoreFault::Schema(format!(
                        "table '{}' cannot be created: its id {} belongs to table '{}', which is defined otherwise",
                        def.name, def.id, old.name
                    )));
                }
                None => new.push(def.clone()),
            }
        }
        check(&new, &there.schema)?;
        Ok(new)
    }

    /// Makes the tables of `roots` visible. `false` if the roots do not fit the schema or an id is taken.
    #[must_use]
    pub fn publish(&self, roots: &Roots) -> bool {
        roots.schema.tables.iter().all(|def| {
            let root = |id: TableId| roots.trees.iter().find(|t| t.0 == id).map(|t| t.1);
            let heap = roots.heaps.iter().find(|h| h.0 == def.id).map(|h| h.1);
            let indexes: Option<Vec<Index>> =
                def.indexes.iter().map(|d| Some(Index { def: d.clone(), root: root(d.id)? })).collect();
            let (Some(heap), Some(indexes)) = (heap, indexes) else { return false };
            if !def.key.is_empty() && root(def.id).is_none() {
                return false;
            }
            let places = def.indexes.iter().enumerate();
            let mut links = places.map(|(position, i)| (i.id, Entry::Index { table: def.id, position }));
            let table = Table {
                layout: Layout::of(def),
                tree: root(def.id),
                heap,
                insert_pages: InsertPages::new(),
                indexes,
                def: def.clone(),
            };
            links.all(|(id, entry)| self.put(id, entry)) && self.put(def.id, Entry::Table(Box::new(table)))
        })
    }

    fn put(&self, id: TableId, entry: Entry) -> bool {
        let chunk =
            self.chunks[id.0 as usize / CHUNK].get_or_init(|| (0..CHUNK).map(|_| OnceLock::new()).collect());
        chunk[id.0 as usize % CHUNK].set(entry).is_ok()
    }
}

/// Ids must be unique, and columns named by keys and indexes must exist.
fn check(new: &[TableDef], there: &Schema) -> Result<(), StoreFault> {
    let mut ids: Vec<(TableId, &str)> = Vec::new();
    for def in there.tables.iter().chain(new) {
        ids.push((def.id, &def.name));
        ids.extend(def.indexes.iter().map(|i| (i.id, i.name.as_str())));
        let used = def.key.iter().chain(def.indexes.iter().flat_map(|i| &i.columns));
        if let Some(c) = used.into_iter().find(|&&c| usize::from(c) >= def.columns.len()) {
            let columns = def.columns.len();
            return Err(StoreFault::Schema(format!(
                "table '{}': a key names column {c}, but there are {columns} columns",
                def.name
            )));
        }
        let longest = Layout::longest(def);
        if longest > MAX_ROW {
            return Err(StoreFault::Schema(format!(
                "table '{}': its rows may be {longest} bytes long, the longest possible has {MAX_ROW}; shorten its \
                 columns",
                def.name,
            )));
        }
        if def.key.is_empty() && !def.indexes.is_empty() {
            return Err(StoreFault::Schema(format!("table '{}' has an index but no primary key", def.name)));
        }
    }
    ids.sort_unstable();
    match ids.windows(2).find(|w| w[0].0 == w[1].0) {
        Some(w) => {
            Err(StoreFault::Schema(format!("'{}' and '{}' have the same id {}", w[0].1, w[1].1, w[0].0)))
        }
        None => Ok(()),
    }
}

/// The body of a catalog record.
pub(crate) fn record(new: &Roots) -> (u8, Vec<u8>) {
    (kind::CATALOG, postcard::to_stdvec(new).expect("plain values serialise"))
}

impl Roots {
    pub fn extend(&mut self, new: Roots) {
        self.schema.tables.extend(new.schema.tables);
        self.trees.extend(new.trees);
        self.heaps.extend(new.heaps);
    }
}
