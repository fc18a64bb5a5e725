//! The keys of a row: of its primary tree, and of each secondary index.

use crate::row::Row;
use crate::schema::{IndexDef, TableDef};
use base::{Key, KeyReader};

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

    /// The columns in an entry of secondary index `index`: those of the index, then those of the
    /// primary key that the index has not.
    fn entry_columns<'a>(&'a self, index: &'a IndexDef) -> impl Iterator<Item = u16> + 'a {
        let others = self.key.iter().filter(|column| !index.columns.contains(column));
        index.columns.iter().chain(others).copied()
    }

    /// The entry of `row` in secondary index `index`: its columns, then the columns of the primary
    /// key that are not among them.
    pub fn entry_of(&self, index: &IndexDef, row: Row<'_>) -> Key {
        self.entry_columns(index).fold(Key::new(), |k, c| self.key_part(k, row, c))
    }

    /// Appends the entry of `row` in secondary index `index` to `out`: as [`TableDef::entry_of`],
    /// without allocating a key.
    pub fn put_entry(&self, index: &IndexDef, row: Row<'_>, out: &mut Vec<u8>) {
        for column in self.entry_columns(index) {
            if self.columns[column as usize].ty.is_number() {
                Key::put_i64(out, row.int(column));
            } else {
                Key::put_bytes(out, row.bytes(column));
            }
        }
    }

    /// The primary key in an entry of secondary index `index`: its columns are put together from
    /// those of the index and from what follows them. `None` if the bytes are not such an entry.
    pub fn key_in_entry(&self, index: &IndexDef, entry: &[u8]) -> Option<Key> {
        let mut behind = KeyReader::new(entry);
        index.columns.iter().try_for_each(|&column| self.part(&mut behind, column).map(drop))?;
        let mut key = Key::new();
        for column in &self.key {
            let part = match index.columns.iter().position(|other| other == column) {
                None => self.part(&mut behind, *column)?,
                Some(at) => {
                    let mut from = KeyReader::new(entry);
                    index.columns[..at].iter().try_for_each(|&c| self.part(&mut from, c).map(drop))?;
                    self.part(&mut from, *column)?
                }
            };
            key = key.encoded(part);
        }
        behind.is_empty().then_some(key)
    }

    /// Reads past one column of a key, and returns its encoding.
    #[inline]
    fn part<'k>(&self, reader: &mut KeyReader<'k>, column: u16) -> Option<&'k [u8]> {
        let all = reader.rest();
        if self.columns[column as usize].ty.is_number() {
            reader.i64()?;
        } else {
            reader.skip_bytes()?;
        }
        Some(&all[..all.len() - reader.rest().len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::RowBuf;
    use crate::schema::{Column, Type};
    use base::TableId;

    /// A table with the key (site, name, number), and an index on these columns.
    fn table(columns: &[u16]) -> (TableDef, IndexDef) {
        let list = vec![
            Column::new("site", Type::I32),
            Column::new("number", Type::I64),
            Column::new("name", Type::Text(9)),
            Column::new("weight", Type::I64),
        ];
        let index = IndexDef { id: TableId(2), name: "i".into(), columns: columns.to_vec() };
        (TableDef::new(TableId(1), "t", list, &[0, 2, 1], 1), index)
    }

    const INDEXES: [&[u16]; 7] = [&[3], &[0, 3], &[2, 3], &[0, 1, 2], &[1], &[0, 1, 2, 3], &[3, 1, 2, 0]];

    fn rows(table: &TableDef) -> Vec<Vec<u8>> {
        let mut buffer = RowBuf::new(table);
        let mut rows = Vec::new();
        for (site, number, name, weight) in [
            (0, 5, "b", 7),
            (0, -1, "b", 7),
            (0, 5, "", 7),
            (1, 2, "a\0c", -3),
            (1, 2, "a", -3),
            (1, 3, "a", 0),
        ] {
            let mut row = buffer.start();
            row.set_int(0, site);
            row.set_int(1, number);
            row.set_text(2, name);
            row.set_int(3, weight);
            rows.push(buffer.bytes().to_vec());
        }
        rows
    }

    #[test]
    fn an_entry_gives_its_rows_key_and_repeats_no_column() {
        for columns in INDEXES {
            let (table, index) = table(columns);
            let layout = crate::row::Layout::of(&table);
            for bytes in rows(&table) {
                let row = Row::new(&layout, &bytes);
                let entry = table.entry_of(&index, row);
                assert_eq!(table.key_in_entry(&index, &entry), Some(table.key_of(row)), "{columns:?}");
                let of = |columns: &[u16]| {
                    columns.iter().map(|&c| table.key_part(Key::new(), row, c).len()).sum::<usize>()
                };
                let repeated: Vec<u16> = table.key.iter().copied().filter(|c| columns.contains(c)).collect();
                assert_eq!(entry.len(), of(columns) + of(&table.key) - of(&repeated), "{columns:?}");
                let mut put = Vec::new();
                table.put_entry(&index, row, &mut put);
                assert_eq!(put, entry.as_slice());
            }
        }
    }

    /// Entries are in the order of the index's columns, and then of the primary key.
    #[test]
    fn entries_are_in_the_order_of_index_and_key() {
        for columns in INDEXES {
            let (table, index) = table(columns);
            let layout = crate::row::Layout::of(&table);
            let mut all: Vec<_> = rows(&table)
                .iter()
                .map(|bytes| {
                    let row = Row::new(&layout, bytes);
                    let by_columns = columns.iter().fold(Key::new(), |k, &c| table.key_part(k, row, c));
                    (by_columns, table.key_of(row), table.entry_of(&index, row))
                })
                .collect();
            all.sort();
            assert!(all.is_sorted_by(|a, b| a.2 < b.2), "{columns:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_entry_have_no_key() {
        let (table, index) = table(&[0, 1]);
        let layout = crate::row::Layout::of(&table);
        let entry = table.entry_of(&index, Row::new(&layout, &rows(&table)[3]));
        assert!((0..entry.len()).all(|end| table.key_in_entry(&index, &entry[..end]).is_none()));
        assert!(table.key_in_entry(&index, &entry.u32(0)).is_none());
    }
}
