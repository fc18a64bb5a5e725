//! The keys that a transaction found in the log has changed, so that the caller can lock them again
//! (in-doubt locks).

use crate::catalog::tables::Table;
use crate::state::store::Store;
use crate::txn::chain::UndoList;
use access::{Kind, entry_of};
use base::{Key, PageId, Rid, TableId};
use latch::Coupled;
use pages::Stop;
use std::collections::BTreeMap;
use std::ops::Bound;
use txn::Row;

/// A key that an in-doubt transaction changed. No other transaction may read or write it before the
/// decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Touched {
    /// The table it belongs to.
    pub table: TableId,
    /// The tree of the key: the table's own id for its primary key, otherwise a secondary index. A
    /// table without a key has one entry with an empty key, if rows were appended.
    pub index: TableId,
    pub key: Key,
    pub change: KeyChange,
    /// For a deleted key: the key that follows it (`None` for the end of the index). The gap before
    /// that key must stay locked, because a rollback brings the deleted key back.
    pub gap: Option<Option<Key>>,
}

/// How a key was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyChange {
    /// The contents of its row or entry changed.
    InPlace,
    /// It was inserted or deleted, perhaps both, so the gap below it changed.
    PutOrTaken,
}

impl KeyChange {
    fn of(kind: u8) -> KeyChange {
        match Kind::of(kind) {
            Some(Kind::TreeInsert | Kind::TreeDelete | Kind::TreeReplace) => KeyChange::PutOrTaken,
            _ => KeyChange::InPlace,
        }
    }
}

/// The subject of a record of the access methods. Their layouts are in `access`'s documentation of
/// records.
enum Subject<'a> {
    Entry { index: TableId, key: &'a [u8] },
    Row { table: TableId, rid: Rid },
}

fn subject(kind: u8, body: &[u8]) -> Option<Subject<'_>> {
    let u16_at = |at: usize| Some(u16::from_le_bytes(body.get(at..at + 2)?.try_into().ok()?));
    let page = PageId(u32::from_le_bytes(body.get(..4)?.try_into().ok()?));
    let owner = TableId(u16_at(4)?);
    match Kind::of(kind)? {
        Kind::TreeInsert | Kind::TreeDelete | Kind::TreeReplace | Kind::TreeUpdate => {
            entry_of(kind, body).map(|(index, key)| Subject::Entry { index, key })
        }
        Kind::System => None,
        _ => Some(Subject::Row { table: owner, rid: Rid { page, slot: u16_at(6)? } }),
    }
}

/// The row that a heap record names.
pub(crate) fn row_of(kind: u8, body: &[u8]) -> Option<(TableId, Rid)> {
    match subject(kind, body)? {
        Subject::Row { table, rid } => Some((table, rid)),
        Subject::Entry { .. } => None,
    }
}

impl Store {
    /// The keys that the records in `undo` changed, each once.
    pub(crate) fn touched(&self, undo: &UndoList) -> Result<Vec<Touched>, Stop> {
        let mut all: BTreeMap<(TableId, Key), Touched> = BTreeMap::new();
        for (entry, body) in undo.iter() {
            let Some((table, index, key)) = self.key_touched(entry.kind, body)? else { continue };
            let gap = match Kind::of(entry.kind) {
                Some(Kind::TreeDelete) => Some(self.key_behind(index, &key)?),
                _ => None,
            };
            let change = KeyChange::of(entry.kind);
            let touched = Touched { table: table.def.id, index, key: key.clone(), change, gap };
            let seen = all.entry((index, key)).or_insert_with(|| touched.clone());
            if change == KeyChange::PutOrTaken {
                seen.change = change;
            }
            if touched.gap.is_some() {
                seen.gap = touched.gap;
            }
        }
        Ok(all.into_values().collect())
    }

    fn key_touched(&self, kind: u8, body: &[u8]) -> Result<Option<(&Table, TableId, Key)>, Stop> {
        match subject(kind, body) {
            None => Ok(None),
            Some(Subject::Entry { index, key }) => {
                Ok(self.catalog.index(index).map(|(table, _)| (table, index, Key::from_bytes(key))))
            }
            Some(Subject::Row { table, rid }) => {
                let Some(table) = self.table(table) else { return Ok(None) };
                if table.tree.is_none() {
                    return Ok(Some((table, table.def.id, Key::new())));
                }
                // If the row is gone, the same transaction also deleted its key from the tree, with
                // a record of its own.
                let key = self.insist(|| {
                    self.heap(table).read_at::<Coupled, _>(rid, |row| {
                        let fits = table.layout.fits(row);
                        fits.then(|| table.def.key_of(Row::new(&table.layout, row)))
                    })
                })?;
                Ok(key.flatten().map(|key| (table, table.def.id, key)))
            }
        }
    }

    fn key_behind(&self, index: TableId, key: &Key) -> Result<Option<Key>, Stop> {
        self.insist(|| self.successor::<Coupled>(index, Bound::Excluded(key)))
    }
}
