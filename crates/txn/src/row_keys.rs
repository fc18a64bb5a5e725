//! The keys of a row: of its primary tree, and of each secondary index.

use crate::row::Row;
use crate::schema::{IndexDef, TableDef};
use base::Key;

impl TableDef {
    /// Appends the encoding of one column of `row` to `key`.
    pub fn key_part(&self, key: Key, row: Row<'_>, column: u16) -> Key {
        let is_number = self.columns[column as usize].ty.is_number();
        if is_number { key.i64(row.int(column)) } else { key.bytes(row.bytes(column)) }
    }

    /// The primary key of `row`. Numbers of every type are encoded as `Key::i64`.
    pub fn key_of(&self, row: Row<'_>) -> Key {
        self.key.iter().fold(Key::new(), |k, &c| self.key_part(k, row, c))
    }

    /// The entry of `row` in secondary index `index`: its columns, then the primary key.
    pub fn entry_of(&self, index: &IndexDef, row: Row<'_>) -> Key {
        let k = index.columns.iter().fold(Key::new(), |k, &c| self.key_part(k, row, c));
        self.key.iter().fold(k, |k, &c| self.key_part(k, row, c))
    }

    /// Appends the entry of `row` in secondary index `index` to `out`: as [`TableDef::entry_of`],
    /// without allocating a key.
    pub fn put_entry(&self, index: &IndexDef, row: Row<'_>, out: &mut Vec<u8>) {
        for &column in index.columns.iter().chain(&self.key) {
            if self.columns[column as usize].ty.is_number() {
                Key::put_i64(out, row.int(column));
            } else {
                Key::put_bytes(out, row.bytes(column));
            }
        }
    }
}
