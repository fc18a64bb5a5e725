//! Rows as bytes: `[null bits][fixed columns][ends of the varying columns][varying columns]`. An
//! end is a u16, or a u32 in tables with rows that may be longer than 65,535 bytes.
//!
//! Fixed columns lie at offsets that follow from the schema alone, so reading an integer is one
//! load. A [`Layout`] is computed once per table. [`Row`] reads, [`RowMut`] changes a scratch copy,
//! [`RowBuf`] builds.

use crate::schema::{Column, Columns, TableDef, Type};
use std::ops::Range;

/// The positions of the columns in a table's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    columns: Vec<Place>,
    nulls: usize,
    /// Offset of the array of ends.
    ends: usize,
    varying: usize,
    /// Bytes of one end.
    width: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    ty: Type,
    nullable: bool,
    /// Byte offset of a fixed column, ordinal of a varying one.
    at: usize,
    /// Bytes of a fixed column, [`VARYING`] for the others. Every read of a column tests this
    /// first.
    length: usize,
}

const VARYING: usize = usize::MAX;

impl Layout {
    /// Bytes of each row, if all are equally long.
    #[inline]
    pub fn row_bytes(&self) -> Option<usize> {
        (self.varying == 0).then_some(self.ends)
    }

    pub fn of(table: &TableDef) -> Layout {
        let nulls =
            if table.columns.iter().any(|c| c.nullable) { table.columns.len().div_ceil(8) } else { 0 };
        let (mut offset, mut varying) = (nulls, 0);
        let mut place = |len: Option<usize>| match len {
            Some(n) => {
                offset += n;
                offset - n
            }
            None => {
                varying += 1;
                varying - 1
            }
        };
        let columns = table
            .columns
            .iter()
            .map(|c| {
                let fixed = c.ty.fixed_len();
                Place { ty: c.ty, nullable: c.nullable, at: place(fixed), length: fixed.unwrap_or(VARYING) }
            })
            .collect();
        let most = |c: &Column| if let Type::Text(most) = c.ty { most as usize } else { 0 };
        let texts = table.columns.iter().map(most).sum::<usize>();
        let width = if offset + 2 * varying + texts > usize::from(u16::MAX) { 4 } else { 2 };
        Layout { columns, nulls, ends: offset, varying, width }
    }

    /// Bytes of the longest row that `table` allows.
    pub fn longest(table: &TableDef) -> usize {
        let most = |c: &Column| if let Type::Text(most) = c.ty { most as usize } else { 0 };
        Layout::of(table).head() + table.columns.iter().map(most).sum::<usize>()
    }

    /// Offset at which the `i`-th varying column ends.
    #[inline]
    fn end(&self, bytes: &[u8], i: usize) -> usize {
        let at = self.ends + self.width * i;
        match self.width {
            2 => u16::from_le_bytes([bytes[at], bytes[at + 1]]) as usize,
            _ => u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize,
        }
    }

    fn set_end(&self, bytes: &mut [u8], i: usize, end: usize) {
        let at = self.ends + self.width * i;
        bytes[at..at + self.width].copy_from_slice(&(end as u32).to_le_bytes()[..self.width]);
    }

    /// A row with no column set.
    fn fresh(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.head()];
        for (i, c) in self.columns.iter().enumerate() {
            if c.nullable {
                bytes[i / 8] |= 1 << (i % 8);
            }
            if let Type::Char(n) = c.ty {
                bytes[c.at..c.at + n as usize].fill(b' ');
            }
        }
        (0..self.varying).for_each(|i| self.set_end(&mut bytes, i, self.head()));
        bytes
    }

    /// Bytes before the first varying column.
    fn head(&self) -> usize {
        self.ends + self.width * self.varying
    }

    /// Whether `bytes` can be a row of this table: every offset in it stays inside.
    #[inline]
    pub fn fits(&self, bytes: &[u8]) -> bool {
        if self.varying == 0 { bytes.len() == self.ends } else { self.fits_varying(bytes) }
    }

    fn fits_varying(&self, bytes: &[u8]) -> bool {
        if bytes.len() < self.head() {
            return false;
        }
        let mut last = self.head();
        (0..self.varying)
            .map(|i| self.end(bytes, i))
            .all(|e| std::mem::replace(&mut last, e) <= e && e <= bytes.len())
            && last == bytes.len()
    }

    #[inline]
    fn span(&self, bytes: &[u8], column: u16) -> (usize, usize) {
        let Place { at, length, .. } = self.columns[column as usize];
        if length != VARYING { (at, at + length) } else { self.varying_span(bytes, at) }
    }

    /// First and end offset of the `i`-th varying column.
    fn varying_span(&self, bytes: &[u8], i: usize) -> (usize, usize) {
        let start = if i == 0 { self.head() } else { self.end(bytes, i - 1) };
        (start, self.end(bytes, i))
    }

    #[inline]
    fn is_null(&self, bytes: &[u8], column: u16) -> bool {
        self.nulls > 0 && bytes[column as usize / 8] & (1 << (column % 8)) != 0
    }

    #[inline]
    fn int(&self, bytes: &[u8], column: u16) -> i64 {
        let Place { at, length, .. } = self.columns[column as usize];
        let from = &bytes[at..];
        match length {
            4 => i64::from(i32::from_le_bytes(*from.first_chunk().expect("four bytes"))),
            8 => i64::from_le_bytes(*from.first_chunk().expect("eight bytes")),
            2 => i64::from(i16::from_le_bytes(*from.first_chunk().expect("two bytes"))),
            // A `Char` of one byte is a Bool for this purpose; other types are not read as numbers.
            1 => i64::from(from[0]),
            _ => panic!("column {column} is not an integer"),
        }
    }
}

/// A row as it lies in a page.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    layout: &'a Layout,
    bytes: &'a [u8],
}

impl<'a> Row<'a> {
    pub fn new(layout: &'a Layout, bytes: &'a [u8]) -> Row<'a> {
        Row { layout, bytes }
    }

    /// # Panics
    /// If the column is not an integer.
    #[inline]
    pub fn int(&self, column: u16) -> i64 {
        self.layout.int(self.bytes, column)
    }

    #[inline]
    pub fn bytes(&self, column: u16) -> &'a [u8] {
        let (at, end) = self.layout.span(self.bytes, column);
        &self.bytes[at..end]
    }

    pub fn text(&self, column: u16) -> &'a str {
        std::str::from_utf8(self.bytes(column)).unwrap_or("\u{fffd}")
    }

    pub fn is_null(&self, column: u16) -> bool {
        self.layout.is_null(self.bytes, column)
    }

    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// A row being changed: a scratch copy that the engine compares with the old bytes afterwards. It
/// records the columns that were set: the engine skips indexes on other columns. It also records
/// the range of bytes that was set: only this range is compared.
pub struct RowMut<'a> {
    layout: &'a Layout,
    bytes: &'a mut Vec<u8>,
    set: Columns,
    /// The first byte that was set, and the byte past the last.
    touched: (usize, usize),
}

impl<'a> RowMut<'a> {
    #[inline]
    pub fn new(layout: &'a Layout, bytes: &'a mut Vec<u8>) -> RowMut<'a> {
        RowMut { layout, bytes, set: Columns::NONE, touched: (usize::MAX, 0) }
    }

    /// The bytes outside of this range are unchanged. The range may reach past the row, and is
    /// empty if no byte was set. It has no meaning for a row that has changed its length.
    #[inline]
    pub fn touched(&self) -> Range<usize> {
        self.touched.0..self.touched.1
    }

    #[inline]
    fn touch(&mut self, from: usize, to: usize) {
        self.touched = (self.touched.0.min(from), self.touched.1.max(to));
    }

    /// The columns set so far, whether or not their value changed.
    pub fn columns_set(&self) -> Columns {
        self.set
    }

    #[inline]
    pub fn row(&self) -> Row<'_> {
        Row { layout: self.layout, bytes: self.bytes }
    }

    /// Replaces the whole row by `bytes`, a row of the same table.
    pub fn replace(&mut self, bytes: &[u8]) {
        debug_assert!(self.layout.fits(bytes), "a row of another table");
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.set = Columns::ALL;
        self.touch(0, usize::MAX);
    }

    #[inline]
    pub fn int(&self, column: u16) -> i64 {
        self.layout.int(self.bytes, column)
    }

    /// # Panics
    /// If the column is not an integer, or the value does not fit one of 4 or 2 bytes or a Bool.
    // Inlined: a call would be a third of the instructions, and a NewOrder makes a hundred of them.
    #[inline(always)]
    pub fn set_int(&mut self, column: u16, value: i64) {
        let Place { at, length, nullable, .. } = self.layout.columns[column as usize];
        let to = self.bytes.get_mut(at..).unwrap_or_default();
        if length == 4
            && let Ok(value) = i32::try_from(value)
            && let Some(to) = to.first_chunk_mut()
        {
            *to = value.to_le_bytes();
        } else if length == 8
            && let Some(to) = to.first_chunk_mut()
        {
            *to = value.to_le_bytes();
        } else if length == 2
            && let Ok(value) = i16::try_from(value)
            && let Some(to) = to.first_chunk_mut()
        {
            *to = value.to_le_bytes();
        } else if length == 1
            && (0..=1).contains(&value)
            && let Some(to) = to.first_mut()
        {
            *to = value as u8;
        } else {
            no_place_for(column, length, value);
        }
        self.touch(at, at + length);
        self.set = self.set.with(column);
        if nullable && self.layout.is_null(self.bytes, column) {
            self.set_null(column, false);
        }
    }

    /// # Panics
    /// If the value is longer (or, for a `Char`, of another length) than the column allows.
    pub fn set_bytes(&mut self, column: u16, value: &[u8]) {
        let place = self.layout.columns[column as usize];
        let (at, end) = self.layout.span(self.bytes, column);
        match place.ty {
            Type::Text(_) if value.len() == end - at => {
                self.bytes[at..end].copy_from_slice(value);
                self.touch(at, end);
            }
            Type::Text(max) => {
                assert!(value.len() <= max as usize, "{} bytes in a column of {max}", value.len());
                // The columns after this one move, and their ends change.
                self.touch(0, usize::MAX);
                self.resize(at..end, value.len());
                self.bytes[at..at + value.len()].copy_from_slice(value);
                for i in place.at..self.layout.varying {
                    let old = self.layout.end(self.bytes, i);
                    self.layout.set_end(self.bytes, i, old + value.len() - (end - at));
                }
            }
            _ => {
                self.bytes[at..end].copy_from_slice(value);
                self.touch(at, end);
            }
        }
        self.set_null(column, false);
    }

    /// Makes room for `length` bytes in place of some others; those behind them move.
    fn resize(&mut self, old: Range<usize>, length: usize) {
        let behind = self.bytes.len() - old.end;
        if length > old.len() {
            self.bytes.resize(old.start + length + behind, 0);
        }
        self.bytes.copy_within(old.end..old.end + behind, old.start + length);
        self.bytes.truncate(old.start + length + behind);
    }

    /// Replaces a part of a column's bytes, which begins at byte `from` of the column. The rest of
    /// the column stays, and its length.
    ///
    /// # Panics
    /// If the part reaches past the column.
    pub fn set_part(&mut self, column: u16, from: usize, value: &[u8]) {
        let (at, end) = self.layout.span(self.bytes, column);
        self.bytes[at..end][from..from + value.len()].copy_from_slice(value);
        self.touch(at + from, at + from + value.len());
        self.set = self.set.with(column);
    }

    pub fn set_text(&mut self, column: u16, value: &str) {
        self.set_bytes(column, value.as_bytes());
    }

    /// # Panics
    /// If the column is not nullable.
    #[inline]
    pub fn set_null(&mut self, column: u16, null: bool) {
        self.set = self.set.with(column);
        if self.layout.nulls == 0 {
            assert!(!null, "column {column} is not nullable");
            return;
        }
        assert!(!null || self.layout.columns[column as usize].nullable, "column {column} is not nullable");
        let (byte, bit) = (column as usize / 8, 1 << (column % 8));
        if self.layout.is_null(self.bytes, column) != null {
            self.bytes[byte] ^= bit;
            self.touch(byte, byte + 1);
        }
    }
}

#[cold]
fn no_place_for(column: u16, length: usize, value: i64) -> ! {
    assert!([1, 2, 4, 8].contains(&length), "column {column} is not an integer");
    panic!(
        "{value} in column {column} of {length} bytes, of a row that ends before them or a number too large"
    );
}

/// Builds rows of one table. Reuse it: it keeps its buffer.
#[derive(Clone, Debug)]
pub struct RowBuf {
    layout: Layout,
    bytes: Vec<u8>,
    /// A row with no column set.
    fresh: Vec<u8>,
}

impl RowBuf {
    pub fn new(table: &TableDef) -> RowBuf {
        let layout = Layout::of(table);
        RowBuf { bytes: Vec::new(), fresh: layout.fresh(), layout }
    }

    /// Starts a row: integers 0, texts empty, nullable columns null, `Char` columns spaces.
    #[inline]
    pub fn start(&mut self) -> RowMut<'_> {
        self.bytes.clear();
        self.bytes.extend_from_slice(&self.fresh);
        RowMut::new(&self.layout, &mut self.bytes)
    }

    /// Continues from the last row, for one that is much like it. No column counts as set.
    #[inline]
    pub fn again(&mut self) -> RowMut<'_> {
        RowMut::new(&self.layout, &mut self.bytes)
    }

    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn row(&self) -> Row<'_> {
        Row { layout: &self.layout, bytes: &self.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, TableKind};
    use base::TableId;

    fn table() -> TableDef {
        TableDef {
            id: TableId(1),
            name: "t".into(),
            columns: vec![
                Column::new("a", Type::I64),
                Column::new("b", Type::Text(10)),
                Column::new("c", Type::Char(3)),
                Column::new("d", Type::Text(20)).nullable(),
                Column::new("e", Type::I32),
            ],
            key: vec![0],
            indexes: vec![],
            domain: 1,
            kind: TableKind::Heap,
        }
    }

    #[test]
    fn a_row_reads_back_what_was_set() {
        let mut buf = RowBuf::new(&table());
        let mut r = buf.start();
        r.set_int(0, -7);
        r.set_text(3, "long one");
        r.set_text(1, "xy");
        r.set_bytes(2, b"abc");
        r.set_int(4, 99);
        r.set_text(1, "xyz");
        r.set_text(3, "long1one");
        r.set_part(3, 4, b" ");
        let row = buf.row();
        assert_eq!(
            (row.int(0), row.text(1), row.bytes(2), row.text(3), row.int(4)),
            (-7, "xyz", &b"abc"[..], "long one", 99)
        );
        assert!(!row.is_null(3));
        assert!(Layout::of(&table()).fits(buf.bytes()));
        assert!(!Layout::of(&table()).fits(&buf.bytes()[1..]));
    }

    #[test]
    fn numbers_of_every_type_read_back() {
        let types = [
            (Type::Bool, 1, 1),
            (Type::I16, -32_768, 2),
            (Type::Date, -5, 4),
            (Type::Timestamp, 1 << 45, 8),
            (Type::Decimal(5), -12_345, 8),
            (Type::ShortDecimal(2), 999_999_999, 4),
        ];
        let columns = types.iter().map(|(ty, ..)| Column::new("n", *ty)).collect();
        let def = TableDef::new(TableId(1), "t", columns, &[0, 1, 2, 3, 4, 5], 1);
        let mut buf = RowBuf::new(&def);
        let mut row = buf.start();
        types.iter().zip(0..).for_each(|((_, value, _), column)| row.set_int(column, *value));
        let row = buf.row();
        for ((ty, value, bytes), column) in types.iter().zip(0..) {
            assert_eq!((row.int(column), ty.fixed_len(), ty.is_number()), (*value, Some(*bytes), true));
        }
        let key = types.iter().fold(base::Key::new(), |key, (_, value, _)| key.i64(*value));
        assert_eq!((def.key_of(row), buf.bytes().len()), (key, 1 + 2 + 4 + 8 + 8 + 4));
    }

    #[test]
    fn a_row_knows_which_columns_were_set() {
        let (layout, mut bytes) =
            (Layout::of(&table()), RowBuf::new(&table()).start().row().as_bytes().to_vec());
        let set = |change: fn(&mut RowMut<'_>)| {
            let mut bytes = bytes.clone();
            let mut row = RowMut::new(&layout, &mut bytes);
            change(&mut row);
            row.columns_set()
        };
        assert_eq!(set(|_| ()), Columns::NONE);
        assert_eq!(set(|row| row.set_int(4, 0)), Columns::of(&[4]));
        assert_eq!(set(|row| row.set_text(1, "longer")), Columns::of(&[1]));
        assert_eq!(set(|row| row.set_null(3, true)), Columns::of(&[3]));
        assert_eq!(set(|row| row.set_bytes(2, b"abc")), Columns::of(&[2]));
        let same = bytes.clone();
        let mut row = RowMut::new(&layout, &mut bytes);
        assert!(row.touched().is_empty());
        row.replace(&same);
        assert!(row.columns_set().meets(Columns::of(&[0])) && row.columns_set().meets(Columns::of(&[500])));
    }

    /// After any change of a row, the bytes outside of the touched range are unchanged.
    #[test]
    fn bytes_that_were_not_touched_are_the_same() {
        let layout = Layout::of(&table());
        let before = RowBuf::new(&table()).start().row().as_bytes().to_vec();
        let changes: [fn(&mut RowMut<'_>); 9] = [
            |row| row.set_int(0, 5),
            |row| row.set_int(4, -1),
            |row| row.set_bytes(2, b"abc"),
            |row| row.set_null(3, false),
            |row| row.set_null(3, true),
            |row| row.set_text(1, "ab"),
            |row| row.set_text(3, ""),
            |row| row.set_part(2, 1, b"z"),
            |row| row.set_text(1, "cd"),
        ];
        let mut precise = 0;
        for i in 0..changes.len() * changes.len() {
            let mut after = before.clone();
            let mut row = RowMut::new(&layout, &mut after);
            changes[i % changes.len()](&mut row);
            changes[i / changes.len()](&mut row);
            let touched = row.touched();
            if before.len() != after.len() {
                continue;
            }
            for at in (0..before.len()).filter(|at| !touched.contains(at)) {
                assert_eq!(before[at], after[at], "changes {i}, byte {at}, touched {touched:?}");
                precise += 1;
            }
        }
        assert!(precise > 0, "never all of them");
    }

    #[test]
    fn texts_of_a_mebibyte_read_back() {
        let mut def = table();
        def.columns[1].ty = Type::Text(1 << 20);
        assert_eq!(Layout::longest(&def), 1 + 8 + 3 + 4 + 2 * 4 + (1 << 20) + 20);
        assert_eq!(Layout::longest(&table()), 1 + 8 + 3 + 4 + 2 * 2 + 10 + 20);
        let mut buf = RowBuf::new(&def);
        let mut r = buf.start();
        r.set_text(3, "behind it");
        r.set_text(1, &"x".repeat(70_000));
        r.set_text(1, &"y".repeat(1 << 20));
        let row = buf.row();
        assert_eq!((row.text(1).len(), &row.text(1)[..2], row.text(3)), (1 << 20, "yy", "behind it"));
        assert!(Layout::of(&def).fits(buf.bytes()));
        assert!(!Layout::of(&def).fits(&buf.bytes()[1..]));
    }

    #[test]
    fn a_fresh_row_is_null_where_it_may_be() {
        let mut buf = RowBuf::new(&table());
        buf.start();
        assert!(buf.row().is_null(3) && !buf.row().is_null(1));
    }
}
