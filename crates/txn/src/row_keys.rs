//! The keys of a row: of its primary tree, and of each secondary index.

use crate::row::Row;
use crate::schema::{IndexDef, TableDef, Type};
use base::Key;

impl TableDef {
    /// Appends the encoding of one column of `row` to `key`.
    pub fn key_part(&self, key: Key, row: Row<'_>, column: u16) -> Key {
        match self.columns[column as usize].ty {
            Type::I32 | Type::I64 => key.i64(row.int(column)),
            Type::Char(_) | Type::Text(_) => key.bytes(row.bytes(column)),
        }
    }

    /// The primary key of `row`. Integer columns of either width are encoded as `Key::i64`.
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
            match self.columns[column as usize].ty {
                Type::I32 | Type::I64 => Key::put_i64(out, row.int(column)),
                Type::Char(_) | Type::Text(_) => Key::put_bytes(out, row.bytes(column)),
            }
        }
    }
}
