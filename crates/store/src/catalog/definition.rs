//! The catalog's row for a table or an index, and the rules for a sound definition.
//!
//! ```text
//! 0 state u8   1 format u8   2 body (postcard)
//! ```
//!
//! | state | the pages that the row names |
//! |---|---|
//! | planned | are allocated; they may have no content yet |
//! | idle | belong to a structure that no table uses |
//! | used | belong to the table or the index |
//!
//! A transaction creates a structure by changing the row from *idle* to *used*, and drops it by
//! changing it back. Both are ordinary updates of a row, logged and undone as such. A row that is
//! *idle* while no transaction works on it names garbage, whether its transaction committed or not:
//! the pages are to be freed.

use crate::StoreFault;
use crate::kind::CATALOG;
use access::{MAX_ROW, fits_page};
use base::{PageId, TableId};
use serde::{Deserialize, Serialize};
use txn::row::Layout;
use txn::{IndexDef, Schema, TableDef, TableKind};

const FORMAT: u8 = 4;
const FRONT: usize = 2;
/// Maximum length of a catalog row in bytes: it fits into one page, so that it never moves into
/// pages of its own.
const LONGEST: usize = 8000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum StructureState {
    Planned = 1,
    Idle = 2,
    Used = 3,
}

/// The kind of a table's trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum TreeKind {
    /// A tree with one root.
    #[default]
    BTree,
    /// Multi-rooted: a sub-tree for each partition of the keys. Partitions can be split and merged.
    MultiRooted,
}

impl TreeKind {
    pub const ALL: [TreeKind; 2] = [TreeKind::BTree, TreeKind::MultiRooted];

    /// As the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            TreeKind::BTree => "btree",
            TreeKind::MultiRooted => "mrbtree",
        }
    }
}

/// Which rows of a table with a key share a heap page. Rows of clustered tables lie in their tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum HeapForm {
    /// Any rows.
    #[default]
    Shared,
    /// Rows of one partition of the primary tree (PLP-Partition).
    ByPartition,
    /// Rows of one leaf of the primary tree (PLP-Leaf).
    ByLeaf,
}

impl HeapForm {
    pub const ALL: [HeapForm; 3] = [HeapForm::Shared, HeapForm::ByPartition, HeapForm::ByLeaf];

    /// As the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            HeapForm::Shared => "shared",
            HeapForm::ByPartition => "partition",
            HeapForm::ByLeaf => "leaf",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Structure {
    /// The definition does not include the indexes, which have rows of their own. A table without a
    /// key has no tree.
    Table {
        def: TableDef,
        tree: Option<PageId>,
        heap: PageId,
        kind: TreeKind,
        form: HeapForm,
    },
    Index {
        table: TableId,
        def: IndexDef,
        root: PageId,
        kind: TreeKind,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Definition {
    pub state: StructureState,
    pub structure: Structure,
}

impl Structure {
    /// The table that it is or belongs to.
    pub fn table(&self) -> TableId {
        match self {
            Structure::Table { def, .. } => def.id,
            Structure::Index { table, .. } => *table,
        }
    }

    /// The id in the headers of its pages.
    pub fn owner(&self) -> TableId {
        match self {
            Structure::Table { def, .. } => def.id,
            Structure::Index { def, .. } => def.id,
        }
    }

    /// Whether its rows may be long enough for pages of their own.
    pub fn has_large_rows(&self) -> bool {
        matches!(self, Structure::Table { def, .. } if !fits_page(Layout::longest(def)))
    }

    /// The root page of its tree, if it has one, and the kind of the tree.
    pub fn tree(&self) -> Option<(PageId, TreeKind)> {
        match self {
            Structure::Table { tree, kind, .. } => tree.map(|tree| (tree, *kind)),
            Structure::Index { root, kind, .. } => Some((*root, *kind)),
        }
    }

    /// The first page of its partition table, if its tree is multi-rooted.
    pub fn partition_table(&self) -> Option<PageId> {
        self.tree().filter(|(_, kind)| *kind == TreeKind::MultiRooted).map(|(root, _)| root)
    }

    pub fn roots(&self) -> Vec<PageId> {
        match self {
            Structure::Table { tree, heap, .. } => tree.iter().copied().chain([*heap]).collect(),
            Structure::Index { root, .. } => vec![*root],
        }
    }
}

impl Definition {
    /// # Errors
    /// [`StoreFault::Schema`] if it does not fit a page.
    pub fn encode(&self) -> Result<Vec<u8>, StoreFault> {
        let mut row = vec![self.state as u8, FORMAT];
        row.extend(postcard::to_stdvec(&self.structure).expect("plain values serialise"));
        if row.len() <= LONGEST {
            return Ok(row);
        }
        Err(StoreFault::Schema(format!(
            "a definition of {} bytes: the catalog takes {LONGEST}; use fewer columns, or shorter names",
            row.len()
        )))
    }

    /// # Errors
    /// [`StoreFault::Broken`] if these bytes are not a definition of this version.
    pub fn decode(row: &[u8]) -> Result<Definition, StoreFault> {
        let broken = |what: String| StoreFault::Broken { table: CATALOG, what };
        let states = [StructureState::Planned, StructureState::Idle, StructureState::Used];
        let front = row.first_chunk::<FRONT>().ok_or_else(|| broken("a definition is cut short".into()))?;
        if front[1] != FORMAT {
            let found = front[1];
            return Err(broken(format!("a definition of format {found}, expected {FORMAT}")));
        }
        let state = states.into_iter().find(|s| *s as u8 == front[0]);
        let structure = postcard::from_bytes(&row[FRONT..]).ok();
        match (state, structure) {
            (Some(state), Some(structure)) => Ok(Definition { state, structure }),
            _ => Err(broken("a definition is malformed".into())),
        }
    }
}

/// Whether a table can be created beside the existing ones: ids must be unique, and the columns of
/// keys and indexes must exist.
///
/// # Errors
/// [`StoreFault::Schema`].
pub(crate) fn check(def: &TableDef, there: &Schema) -> Result<(), StoreFault> {
    let wrong = |what: String| Err(StoreFault::Schema(format!("table '{}'{what}", def.name)));
    let used = def.key.iter().chain(def.indexes.iter().flat_map(|i| &i.columns));
    if let Some(c) = used.into_iter().find(|&&c| usize::from(c) >= def.columns.len()) {
        return wrong(format!(": a key names column {c}, but there are {} columns", def.columns.len()));
    }
    let longest = Layout::longest(def);
    if longest > MAX_ROW {
        return wrong(format!(
            ": its rows may be {longest} bytes long, the longest possible has {MAX_ROW}; shorten its columns"
        ));
    }
    if def.key.is_empty() && !def.indexes.is_empty() {
        return wrong(" has an index but no primary key".into());
    }
    if def.key.is_empty() && def.kind == TableKind::Clustered {
        return wrong(" is clustered but has no primary key; give it one, or make it a heap".into());
    }
    check_ids(def, there)
}

fn check_ids(def: &TableDef, there: &Schema) -> Result<(), StoreFault> {
    let mut ids: Vec<(TableId, &str)> = Vec::new();
    for table in there.tables.iter().filter(|t| t.id != def.id).chain([def]) {
        ids.push((table.id, &table.name));
        ids.extend(table.indexes.iter().map(|i| (i.id, i.name.as_str())));
    }
    ids.sort_unstable();
    if let Some(w) = ids.windows(2).find(|w| w[0].0 == w[1].0) {
        let both = format!("'{}' and '{}' have the same id {}", w[0].1, w[1].1, w[0].0);
        return Err(StoreFault::Schema(both));
    }
    match ids.last() {
        Some(&(CATALOG, name)) => {
            Err(StoreFault::Schema(format!("'{name}' has the id {CATALOG}, which is the catalog's own")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_row_fits_a_page() {
        assert!(fits_page(LONGEST));
    }

    #[test]
    fn a_row_reads_back_and_another_version_is_refused() {
        let def = IndexDef { id: TableId(4), name: "by".into(), columns: vec![1] };
        let structure =
            Structure::Index { table: TableId(3), def, root: PageId(9), kind: TreeKind::MultiRooted };
        for state in [StructureState::Planned, StructureState::Idle, StructureState::Used] {
            let definition = Definition { state, structure: structure.clone() };
            let mut row = definition.encode().unwrap();
            assert_eq!(Definition::decode(&row).unwrap(), definition);
            assert!(Definition::decode(&row[..row.len() - 1]).is_err());
            row[1] = 9;
            assert!(Definition::decode(&row).unwrap_err().to_string().contains("format 9"));
        }
        assert!(Definition::decode(&[1]).is_err() && Definition::decode(&[7, FORMAT, 0]).is_err());
    }
}
