//! Access to rows that notes which were touched, and their versions.

use base::{Key, TableId};
use serde::{Deserialize, Serialize};
use txn::step::Route;
use txn::{Abort, Access, Direction, Flow, Inserted, Range, Row, RowMut, Schema};

/// A row by its table and key, and its version: the hash of its bytes, `None` for no row.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Touch {
    Read((TableId, Vec<u8>), Option<u64>),
    Wrote((TableId, Vec<u8>), Option<u64>),
}

pub struct Noted<'a, A> {
    pub access: &'a mut A,
    pub schema: &'a Schema,
    pub touched: &'a mut Vec<Touch>,
}

fn version(row: Row<'_>) -> u64 {
    base::hash64(row.as_bytes())
}

impl<A> Noted<'_, A> {
    fn read(&mut self, table: TableId, key: &[u8], version: Option<u64>) {
        self.touched.push(Touch::Read((table, key.to_vec()), version));
    }

    fn wrote(&mut self, table: TableId, key: &[u8], version: Option<u64>) {
        self.touched.push(Touch::Wrote((table, key.to_vec()), version));
    }
}

/// The row's table and key, from the key of a table or the entry of an index.
fn row_of(schema: &Schema, index: TableId, entry: &[u8]) -> (TableId, Vec<u8>) {
    let of = schema.tables.iter().find_map(|t| Some((t, t.indexes.iter().find(|def| def.id == index)?)));
    match of {
        Some((table, def)) => {
            (table.id, table.key_in_entry(def, entry).map_or_else(|| entry.to_vec(), |key| key.to_vec()))
        }
        None => (index, entry.to_vec()),
    }
}

impl<A: Access> Access for Noted<'_, A> {
    fn enter(&mut self, route: Route) -> Result<(), Abort> {
        self.access.enter(route)
    }

    fn within(&mut self, sites: Option<std::ops::Range<u32>>) -> Result<(), Abort> {
        self.access.within(sites)
    }

    fn expect(&mut self, rows: usize) {
        self.access.expect(rows);
    }

    async fn read<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        let read = self.access.read(table, key, |row| (version(row), f(row))).await?;
        Noted::read(self, table, key, read.as_ref().map(|(version, _)| *version));
        Ok(read.map(|(_, value)| value))
    }

    fn prefetch(&mut self, table: TableId, keys: &[Key]) {
        self.access.prefetch(table, keys);
    }

    async fn update<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        let change = |row: &mut RowMut<'_>| {
            let before = version(row.row());
            let value = f(row);
            (before, version(row.row()), value)
        };
        let changed = self.access.update(table, key, change).await?;
        Noted::read(self, table, key, changed.as_ref().map(|(before, ..)| *before));
        if let Some((before, after, _)) = &changed
            && before != after
        {
            self.wrote(table, key, Some(*after));
        }
        Ok(changed.map(|(_, _, value)| value))
    }

    async fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<Inserted, Abort> {
        let inserted = self.access.insert(table, key, row).await?;
        if inserted == Inserted::Done {
            Noted::read(self, table, key, None);
            self.wrote(table, key, Some(base::hash64(row)));
        }
        Ok(inserted)
    }

    async fn append(&mut self, table: TableId, row: &[u8]) -> Result<(), Abort> {
        self.access.append(table, row).await
    }

    async fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        let deleted = self.access.delete(table, key).await?;
        if deleted {
            self.wrote(table, key, None);
        }
        Ok(deleted)
    }

    async fn scan(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        let (schema, mut met) = (self.schema, Vec::new());
        let visit = |entry: &[u8], row: Row<'_>| {
            met.push(Touch::Read(row_of(schema, index, entry), Some(version(row))));
            f(entry, row)
        };
        self.access.scan(index, range, direction, visit).await?;
        self.touched.append(&mut met);
        Ok(())
    }

    async fn scan_keys(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        f: impl FnMut(&[u8]) -> Flow,
    ) -> Result<(), Abort> {
        self.access.scan_keys(index, range, direction, f).await
    }

    async fn scan_keys_for_update(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        f: impl FnMut(&[u8]) -> Flow,
    ) -> Result<(), Abort> {
        self.access.scan_keys_for_update(index, range, direction, f).await
    }

    async fn scan_for_update(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        let (schema, mut met) = (self.schema, Vec::new());
        let visit = |entry: &[u8], row: Row<'_>| {
            met.push(Touch::Read(row_of(schema, index, entry), Some(version(row))));
            f(entry, row)
        };
        self.access.scan_for_update(index, range, direction, visit).await?;
        self.touched.append(&mut met);
        Ok(())
    }
}
