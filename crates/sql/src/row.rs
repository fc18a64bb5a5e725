//! A stored row: its columns at places that follow from the types alone, so that one column is read
//! without reading the others.
//!
//! ```text
//!   u16     number of columns; bit 15: the ends below have four bytes each, not two
//!   bytes   one bit for each column: set if it is null
//!   bytes   the columns of fixed width, one after the other; a null one has zeros
//!   ends    for each column of variable width, where its bytes end, counted from the first such
//! byte   bytes   the columns of variable width
//! ```
//!
//! All numbers are little-endian. A row that was stored before a column was added has fewer
//! columns; the column's `missing` value is read instead.

use crate::value::{Interval, Numeric};
use crate::{Datum, SqlError, SqlState, SqlType};
use bigdecimal::num_bigint::BigInt;
use serde::{Deserialize, Serialize};

/// A column as rows are stored.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StoredColumn {
    pub name: String,
    pub ty: SqlType,
    pub nullable: bool,
    /// The value in rows that are stored without this column.
    pub missing: Datum,
    /// Rows keep its place; no message shows it.
    pub dropped: bool,
}

/// A row that is read by column, so that a stored row need not be decoded as a whole.
pub trait Columns {
    /// # Errors
    /// `XX001` if the row is malformed or has no such column.
    fn column(&self, position: u16) -> Result<Datum, SqlError>;
}

impl Columns for [Datum] {
    fn column(&self, position: u16) -> Result<Datum, SqlError> {
        self.get(usize::from(position)).cloned().ok_or_else(corrupt)
    }
}

impl Columns for Vec<Datum> {
    fn column(&self, position: u16) -> Result<Datum, SqlError> {
        self.as_slice().column(position)
    }
}

/// One row after the other: columns from `split` on are the second's.
pub struct Pair<'a> {
    pub first: &'a dyn Columns,
    pub second: &'a dyn Columns,
    pub split: u16,
}

impl Columns for Pair<'_> {
    fn column(&self, position: u16) -> Result<Datum, SqlError> {
        match position.checked_sub(self.split) {
            Some(position) => self.second.column(position),
            None => self.first.column(position),
        }
    }
}

const WIDE: u16 = 1 << 15;

/// Where the columns of a table are in its rows.
#[derive(Clone, PartialEq, Debug)]
pub struct Layout {
    places: Box<[Place]>,
    missing: Box<[Datum]>,
    /// Bytes of fixed width, and columns of variable width, in a row of all columns.
    fixed: u32,
    variable: u16,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Place {
    form: Form,
    /// Bytes of fixed width, and columns of variable width, before this column.
    fixed: u32,
    variable: u16,
}

/// How the bytes of a column are read.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Form {
    Bool,
    Int2,
    Int4,
    Int8,
    Oid,
    Float4,
    Float8,
    Date,
    Time,
    Timestamp,
    Interval,
    Uuid,
    Numeric,
    Text,
    Bytes,
}

impl Form {
    fn of(ty: SqlType) -> Form {
        match ty {
            SqlType::Bool => Form::Bool,
            SqlType::Int2 => Form::Int2,
            SqlType::Int4 => Form::Int4,
            SqlType::Int8 | SqlType::Enum(_) => Form::Int8,
            SqlType::Oid => Form::Oid,
            SqlType::Float4 => Form::Float4,
            SqlType::Float8 => Form::Float8,
            SqlType::Date => Form::Date,
            SqlType::Time => Form::Time,
            SqlType::Timestamp | SqlType::TimestampTz => Form::Timestamp,
            SqlType::Interval => Form::Interval,
            SqlType::Uuid => Form::Uuid,
            SqlType::Numeric(_) => Form::Numeric,
            SqlType::Bytea => Form::Bytes,
            SqlType::Char(_)
            | SqlType::Varchar(_)
            | SqlType::Text
            | SqlType::Json
            | SqlType::Jsonb
            | SqlType::Name
            | SqlType::Array(_)
            | SqlType::Unknown => Form::Text,
        }
    }

    /// In bytes; `None` if it varies.
    fn width(self) -> Option<usize> {
        match self {
            Form::Bool => Some(1),
            Form::Int2 => Some(2),
            Form::Int4 | Form::Oid | Form::Float4 | Form::Date => Some(4),
            Form::Int8 | Form::Float8 | Form::Time | Form::Timestamp => Some(8),
            Form::Interval | Form::Uuid => Some(16),
            Form::Numeric | Form::Text | Form::Bytes => None,
        }
    }
}

impl Layout {
    pub fn of(columns: &[StoredColumn]) -> Layout {
        Layout::new(columns.iter().map(|column| (column.ty, column.missing.clone())))
    }

    /// The layout of columns, given as types and missing values.
    pub fn new(columns: impl IntoIterator<Item = (SqlType, Datum)>) -> Layout {
        let (mut fixed, mut variable) = (0, 0);
        let places = columns.into_iter().map(|(ty, missing)| {
            let place = Place { form: Form::of(ty), fixed, variable };
            match place.form.width() {
                Some(width) => fixed += width as u32,
                None => variable += 1,
            }
            (place, missing)
        });
        let (places, missing): (Vec<_>, Vec<_>) = places.unzip();
        Layout { places: places.into(), missing: missing.into(), fixed, variable }
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The stored form of a row with all columns.
    ///
    /// # Errors
    /// `XX000` if a value does not have its column's type; `54000` if there are more than 32767
    /// columns or the row has 4 GiB or more.
    pub fn encode(&self, values: &[Datum]) -> Result<Vec<u8>, SqlError> {
        if values.len() != self.places.len() {
            return Err(mistyped());
        }
        let count = u16::try_from(values.len()).ok().filter(|n| n & WIDE == 0).ok_or_else(too_large)?;
        let bitmap = values.len().div_ceil(8);
        let head = 2 + bitmap + self.fixed as usize;
        let variable = usize::from(self.variable);
        let mut out = vec![0; head + 2 * variable];
        let mut ends = smallvec::SmallVec::<[usize; 16]>::new();
        for (i, (place, value)) in self.places.iter().zip(values).enumerate() {
            match value {
                Datum::Null => out[2 + i / 8] |= 1 << (i % 8),
                value => place.form.put(&mut out, 2 + bitmap + place.fixed as usize, value)?,
            }
            if place.form.width().is_none() {
                ends.push(out.len() - head - 2 * variable);
            }
        }
        let is_wide = ends.last().is_some_and(|end| *end > usize::from(u16::MAX));
        out[..2].copy_from_slice(&(count | if is_wide { WIDE } else { 0 }).to_le_bytes());
        if is_wide {
            let mut wide = Vec::with_capacity(4 * variable);
            for end in ends {
                wide.extend_from_slice(&u32::try_from(end).map_err(|_| too_large())?.to_le_bytes());
            }
            out.splice(head..head + 2 * variable, wide);
        } else {
            for (place, end) in out[head..].chunks_exact_mut(2).zip(ends) {
                place.copy_from_slice(&(end as u16).to_le_bytes());
            }
        }
        Ok(out)
    }

    /// A row to read columns from.
    ///
    /// # Errors
    /// `XX001` if the bytes are too few for the columns that they claim to have.
    #[inline]
    pub fn read<'a>(&'a self, bytes: &'a [u8]) -> Result<Row<'a>, SqlError> {
        let head = u16::from_le_bytes(*bytes.first_chunk().ok_or_else(corrupt)?);
        let count = usize::from(head & !WIDE);
        let (fixed, variable) = match self.places.get(count) {
            Some(place) => (place.fixed, place.variable),
            None if count == self.places.len() => (self.fixed, self.variable),
            None => return Err(corrupt()),
        };
        let first = 2 + count.div_ceil(8);
        let ends = first + fixed as usize;
        let end_width = if head & WIDE == 0 { 2 } else { 4 };
        let variable = ends + end_width * usize::from(variable);
        if variable > bytes.len() {
            return Err(corrupt());
        }
        Ok(Row { layout: self, bytes, count, first, ends, end_width, variable })
    }

    /// All columns of a row.
    ///
    /// # Errors
    /// `XX001` if it is malformed.
    pub fn decode_all(&self, bytes: &[u8]) -> Result<Vec<Datum>, SqlError> {
        let row = self.read(bytes)?;
        (0..self.places.len()).map(|i| row.get(i)).collect()
    }
}

/// A stored row of which columns are read one by one.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    layout: &'a Layout,
    bytes: &'a [u8],
    count: usize,
    /// Where the columns of fixed width, the ends, and the columns of variable width begin.
    first: usize,
    ends: usize,
    end_width: usize,
    variable: usize,
}

impl Columns for Row<'_> {
    #[inline]
    fn column(&self, position: u16) -> Result<Datum, SqlError> {
        self.get(usize::from(position))
    }
}

impl Row<'_> {
    #[inline]
    fn get(&self, i: usize) -> Result<Datum, SqlError> {
        let place = self.layout.places.get(i).ok_or_else(corrupt)?;
        if i >= self.count {
            return Ok(self.layout.missing[i].clone());
        }
        if self.is_null(i) {
            return Ok(Datum::Null);
        }
        if place.form.width().is_some() {
            return place.form.read_fixed(&self.bytes[self.first + place.fixed as usize..]);
        }
        let number = usize::from(place.variable);
        let start = if number == 0 { 0 } else { self.end(number - 1) };
        let bytes = self.bytes.get(self.variable + start..self.variable + self.end(number));
        place.form.read_variable(bytes.ok_or_else(corrupt)?)
    }

    /// Whether a column that the row has is null.
    #[inline]
    fn is_null(&self, i: usize) -> bool {
        self.bytes[2 + i / 8] & (1 << (i % 8)) != 0
    }

    /// The bytes that change if a column gets a value; `None` if those are not all: the column or
    /// the value is null, or its width varies, or the row was stored before the column was added.
    ///
    /// # Errors
    /// `XX000` if the value does not have the column's type.
    pub fn part(&self, column: u16, value: &Datum) -> Result<Option<Part>, SqlError> {
        let i = usize::from(column);
        let place = self.layout.places.get(i).ok_or_else(corrupt)?;
        let Some(length) = place.form.width() else { return Ok(None) };
        if i >= self.count || self.is_null(i) || value.is_null() {
            return Ok(None);
        }
        let mut bytes = [0; WIDEST];
        place.form.put_fixed(&mut bytes, value)?;
        Ok(Some(Part { at: self.first + place.fixed as usize, bytes, length }))
    }

    fn end(&self, number: usize) -> usize {
        let bytes = &self.bytes[self.ends + number * self.end_width..];
        match self.end_width {
            2 => usize::from(u16::from_le_bytes([bytes[0], bytes[1]])),
            _ => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize,
        }
    }
}

/// Bytes of the widest column of fixed width.
const WIDEST: usize = 16;

/// New bytes for a part of a stored row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Where they begin in the row.
    pub at: usize,
    bytes: [u8; WIDEST],
    length: usize,
}

impl Part {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Form {
    /// Writes a value of fixed width at `at`, or appends one of variable width.
    fn put(self, out: &mut Vec<u8>, at: usize, value: &Datum) -> Result<(), SqlError> {
        match (self, value) {
            (Form::Text, Datum::Text(v)) => out.extend_from_slice(v.as_bytes()),
            (Form::Bytes, Datum::Bytes(v)) => out.extend_from_slice(v),
            (Form::Numeric, Datum::Numeric(v)) => put_numeric(out, v),
            _ => self.put_fixed(&mut out[at..], value)?,
        }
        Ok(())
    }

    /// Writes a value of fixed width to the front of `to`.
    fn put_fixed(self, to: &mut [u8], value: &Datum) -> Result<(), SqlError> {
        let mut fixed = |bytes: &[u8]| to[..bytes.len()].copy_from_slice(bytes);
        match (self, value) {
            (Form::Bool, Datum::Bool(v)) => fixed(&[u8::from(*v)]),
            (Form::Int2, Datum::Int(v)) => fixed(&narrow(i16::try_from(*v))?.to_le_bytes()),
            (Form::Int4, Datum::Int(v)) => fixed(&narrow(i32::try_from(*v))?.to_le_bytes()),
            (Form::Int8, Datum::Int(v)) => fixed(&v.to_le_bytes()),
            (Form::Oid, Datum::Int(v)) => fixed(&narrow(u32::try_from(*v))?.to_le_bytes()),
            (Form::Float4, Datum::Float(v)) => fixed(&(*v as f32).to_le_bytes()),
            (Form::Float8, Datum::Float(v)) => fixed(&v.to_le_bytes()),
            (Form::Date, Datum::Date(v)) => fixed(&v.to_le_bytes()),
            (Form::Time, Datum::Time(v)) | (Form::Timestamp, Datum::Timestamp(v)) => fixed(&v.to_le_bytes()),
            (Form::Interval, Datum::Interval(v)) => {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&v.micros.to_le_bytes());
                bytes[8..12].copy_from_slice(&v.days.to_le_bytes());
                bytes[12..].copy_from_slice(&v.months.to_le_bytes());
                fixed(&bytes);
            }
            (Form::Uuid, Datum::Uuid(v)) => fixed(v),
            _ => return Err(mistyped()),
        }
        Ok(())
    }

    /// Reads from the front of `bytes`, which may be longer.
    #[inline]
    fn read_fixed(self, bytes: &[u8]) -> Result<Datum, SqlError> {
        Ok(match self {
            Form::Bool => Datum::Bool(front::<1>(bytes)? != [0]),
            Form::Int2 => Datum::Int(i16::from_le_bytes(front(bytes)?).into()),
            Form::Int4 => Datum::Int(i32::from_le_bytes(front(bytes)?).into()),
            Form::Int8 => Datum::Int(i64::from_le_bytes(front(bytes)?)),
            Form::Oid => Datum::Int(u32::from_le_bytes(front(bytes)?).into()),
            Form::Float4 => Datum::Float(f32::from_le_bytes(front(bytes)?).into()),
            Form::Float8 => Datum::Float(f64::from_le_bytes(front(bytes)?)),
            Form::Date => Datum::Date(i32::from_le_bytes(front(bytes)?)),
            Form::Time => Datum::Time(i64::from_le_bytes(front(bytes)?)),
            Form::Timestamp => Datum::Timestamp(i64::from_le_bytes(front(bytes)?)),
            Form::Interval => {
                let bits = u128::from_le_bytes(front(bytes)?);
                let (micros, days, months) = (bits as i64, (bits >> 64) as i32, (bits >> 96) as i32);
                Datum::Interval(Interval { months, days, micros })
            }
            Form::Uuid => Datum::Uuid(front(bytes)?),
            Form::Numeric | Form::Text | Form::Bytes => return Err(corrupt()),
        })
    }

    #[inline]
    fn read_variable(self, bytes: &[u8]) -> Result<Datum, SqlError> {
        match self {
            Form::Text => {
                std::str::from_utf8(bytes).map(|text| Datum::Text(text.to_owned())).map_err(|_| corrupt())
            }
            Form::Bytes => Ok(Datum::Bytes(bytes.to_vec())),
            Form::Numeric => read_numeric(bytes).map(Datum::Numeric),
            _ => Err(corrupt()),
        }
    }
}

/// The scale as two bytes, then the digits as a two's complement. NaN has no bytes.
fn put_numeric(out: &mut Vec<u8>, number: &Numeric) {
    let Numeric::Number(number) = number else { return };
    let (digits, scale) = number.as_bigint_and_scale();
    out.extend_from_slice(&(scale as u16).to_le_bytes());
    match i64::try_from(digits.as_ref()) {
        Ok(digits) => {
            // As few bytes as leave the sign.
            let bits = 65 - (digits ^ (digits >> 63)).leading_zeros() as usize;
            out.extend_from_slice(&digits.to_le_bytes()[..bits.div_ceil(8)]);
        }
        Err(_) => out.extend_from_slice(&digits.to_signed_bytes_le()),
    }
}

fn read_numeric(bytes: &[u8]) -> Result<Numeric, SqlError> {
    if bytes.is_empty() {
        return Ok(Numeric::NaN);
    }
    let (scale, digits) = bytes.split_first_chunk().ok_or_else(corrupt)?;
    let scale = i64::from(u16::from_le_bytes(*scale));
    if digits.len() > 8 {
        return Ok(Numeric::new(BigInt::from_signed_bytes_le(digits), scale));
    }
    let is_negative = digits.last().is_some_and(|byte| *byte >= 0x80);
    let mut place = if is_negative { [0xff; 8] } else { [0; 8] };
    place[..digits.len()].copy_from_slice(digits);
    Ok(Numeric::new(i64::from_le_bytes(place).into(), scale))
}

#[inline]
fn front<const N: usize>(bytes: &[u8]) -> Result<[u8; N], SqlError> {
    bytes.first_chunk().copied().ok_or_else(corrupt)
}

fn narrow<T, E>(number: Result<T, E>) -> Result<T, SqlError> {
    number.map_err(|_| mistyped())
}

#[cold]
fn corrupt() -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, "a stored row does not have the form of its table's columns")
}

#[cold]
fn mistyped() -> SqlError {
    SqlError::new(SqlState::INTERNAL, "a value to store does not have the type of its column")
}

#[cold]
fn too_large() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT, "row is too large: at most 32767 columns and 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare;
    use crate::sample;
    use fastrand::Rng;

    fn row(rng: &mut Rng) -> (Vec<SqlType>, Vec<Datum>) {
        let types: Vec<SqlType> = (0..rng.usize(..20)).map(|_| *rng.choice(sample::TYPES).unwrap()).collect();
        let values = types.iter().map(|ty| sample::datum(rng, *ty)).collect();
        (types, values)
    }

    fn layout(types: &[SqlType]) -> Layout {
        Layout::new(types.iter().map(|ty| (*ty, Datum::Null)))
    }

    fn same(a: &Datum, b: &Datum) -> bool {
        a == b || (compare(a, b).is_eq() && matches!(a, Datum::Float(_)))
    }

    #[test]
    fn columns_come_back_in_any_order() {
        let mut rng = Rng::with_seed(4);
        for _ in 0..4000 {
            let (types, values) = row(&mut rng);
            let layout = layout(&types);
            let bytes = layout.encode(&values).unwrap();
            let row = layout.read(&bytes).unwrap();
            for i in (0..types.len()).rev() {
                assert!(same(&row.column(i as u16).unwrap(), &values[i]), "{:?}", values[i]);
            }
            assert_eq!(layout.decode_all(&bytes).unwrap().len(), values.len());
            assert!(row.column(types.len() as u16).is_err());
        }
    }

    #[test]
    fn a_row_with_new_parts_is_the_row_encoded_with_their_values() {
        let mut rng = Rng::with_seed(7);
        let (mut parts, mut whole) = (0, 0);
        for _ in 0..4000 {
            let (types, mut values) = row(&mut rng);
            let (layout, column) = (layout(&types), rng.usize(..types.len().max(1)));
            let mut bytes = layout.encode(&values).unwrap();
            let Some(ty) = types.get(column) else { continue };
            let new = sample::datum(&mut rng, *ty);
            match layout.read(&bytes).unwrap().part(column as u16, &new).unwrap() {
                Some(part) => {
                    bytes[part.at..part.at + part.bytes().len()].copy_from_slice(part.bytes());
                    values[column] = new;
                    assert_eq!(bytes, layout.encode(&values).unwrap());
                    parts += 1;
                }
                None => {
                    let varies = Form::of(*ty).width().is_none();
                    assert!(varies || new.is_null() || values[column].is_null());
                    whole += 1;
                }
            }
        }
        assert!(parts > 500 && whole > 500, "{parts} {whole}");
    }

    #[test]
    fn a_row_without_the_column_has_no_part_for_it() {
        let bytes = layout(&[SqlType::Int4]).encode(&[Datum::Int(1)]).unwrap();
        let longer = layout(&[SqlType::Int4, SqlType::Int8]);
        let row = longer.read(&bytes).unwrap();
        assert_eq!(row.part(1, &Datum::Int(2)).unwrap(), None);
        assert!(row.part(0, &Datum::Bool(true)).is_err() && row.part(2, &Datum::Int(2)).is_err());
    }

    #[test]
    fn added_columns_have_their_missing_value() {
        let mut rng = Rng::with_seed(5);
        for _ in 0..1000 {
            let (types, values) = row(&mut rng);
            let bytes = layout(&types).encode(&values).unwrap();
            let added = [(SqlType::Text, Datum::Text("new".into())), (SqlType::Int4, Datum::Int(7))];
            let longer = Layout::new(types.iter().map(|ty| (*ty, Datum::Null)).chain(added.clone()));
            let read = longer.decode_all(&bytes).unwrap();
            assert!(read.iter().zip(&values).all(|(a, b)| same(a, b)));
            assert_eq!(read[types.len()..], [added[0].1.clone(), added[1].1.clone()]);
        }
    }

    #[test]
    fn long_values_have_wide_ends() {
        let layout = layout(&[SqlType::Text, SqlType::Int4, SqlType::Bytea]);
        let values = [Datum::Text("x".repeat(70_000)), Datum::Int(-3), Datum::Bytes(vec![1; 5])];
        let bytes = layout.encode(&values).unwrap();
        assert_eq!(layout.decode_all(&bytes).unwrap(), values);
    }

    #[test]
    fn malformed_rows_are_an_error() {
        let mut rng = Rng::with_seed(6);
        let mut refused = 0;
        for _ in 0..20_000 {
            let (types, values) = row(&mut rng);
            let layout = layout(&types);
            let mut bytes = layout.encode(&values).unwrap();
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..bytes.len());
                bytes[at] = rng.u8(..);
            }
            bytes.truncate(rng.usize(..=bytes.len()));
            refused += usize::from(layout.decode_all(&bytes).is_err());
        }
        assert!(refused > 1000, "{refused}");
    }

    #[test]
    fn a_value_of_another_type_is_not_stored() {
        assert!(layout(&[SqlType::Int2]).encode(&[Datum::Int(40_000)]).is_err());
        assert!(layout(&[SqlType::Int2]).encode(&[Datum::Bool(true)]).is_err());
        assert!(layout(&[SqlType::Int2]).encode(&[]).is_err());
    }
}
