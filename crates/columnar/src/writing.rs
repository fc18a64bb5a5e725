//! From rows of texts to a file.

use crate::kind::{Kind, decimal_bytes};
use crate::{Column, Error};
use parquet::basic::{Compression, Repetition};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, FloatType,
    Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use sql::datetime::{BEGIN, BEGIN_DATE, DAY, END, END_DATE, UNIX_EPOCH};
use sql::{Datum, SqlType, text};
use std::io::Write;
use std::sync::Arc;

/// Rows that are kept in memory are written, as one group, when their texts have this many bytes.
const GROUP_BYTES: usize = 32 << 20;
/// The most rows of a group. Readers take a group at a time.
const GROUP_ROWS: usize = 1 << 20;

/// A file under way.
pub struct Writer<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<Buffered>,
    /// Rows so far, and how many of them are in no group yet, with the bytes of their texts.
    rows: u64,
    waiting: usize,
    bytes: usize,
}

/// A column's values since the last group.
struct Buffered {
    name: String,
    kind: Kind,
    ty: Option<SqlType>,
    values: Values,
    /// For each row 1, or 0 for null, which has no value.
    defined: Vec<i16>,
}

enum Values {
    Bool(Vec<bool>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Bytes(Vec<ByteArray>),
    Fixed(Vec<FixedLenByteArray>),
}

impl<W: Write + Send> Writer<W> {
    /// # Errors
    /// The file cannot be written.
    pub fn new(out: W, columns: &[Column]) -> Result<Writer<W>, Error> {
        let kinds: Vec<Kind> = columns.iter().map(|column| Kind::of(column.ty)).collect();
        let fields = columns.iter().zip(&kinds).map(|(column, kind)| kind.column(&column.name));
        let fields = fields.collect::<Result<Vec<_>, _>>().map_err(unwritten)?;
        let schema = Type::group_type_builder("table")
            .with_repetition(Repetition::REQUIRED)
            .with_fields(fields)
            .build()
            .map_err(unwritten)?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let file =
            SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties)).map_err(unwritten)?;
        let buffered = |(column, kind): (&Column, Kind)| Buffered {
            name: column.name.clone(),
            kind,
            ty: column.ty,
            values: Values::of(kind),
            defined: Vec::new(),
        };
        let columns = columns.iter().zip(kinds).map(buffered).collect();
        Ok(Writer { file, columns, rows: 0, waiting: 0, bytes: 0 })
    }

    /// Adds a row: a text for each column, `None` for null.
    ///
    /// # Errors
    /// A value that the file has no place for, and those of writing.
    pub fn row(&mut self, cells: &[Option<Vec<u8>>]) -> Result<(), Error> {
        self.rows += 1;
        if cells.len() != self.columns.len() {
            let (found, wanted) = (cells.len(), self.columns.len());
            return Err(Error::Unfit(format!("row {}: {found} values, expected {wanted}", self.rows)));
        }
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.defined.push(i16::from(cell.is_some()));
            let Some(cell) = cell else { continue };
            self.bytes += cell.len();
            column.values.push(column.kind, column.ty, cell).map_err(|why| {
                let (row, name) = (self.rows, &column.name);
                Error::Unfit(format!("row {row}, column {name}: {why}; a dump of SQL or CSV has it"))
            })?;
        }
        self.waiting += 1;
        if self.bytes >= GROUP_BYTES || self.waiting >= GROUP_ROWS { self.group() } else { Ok(()) }
    }

    /// Writes the rows that wait, as a group.
    fn group(&mut self) -> Result<(), Error> {
        (self.waiting, self.bytes) = (0, 0);
        let mut group = self.file.next_row_group().map_err(unwritten)?;
        for column in &mut self.columns {
            let out = group.next_column().map_err(unwritten)?;
            let out = out.ok_or_else(|| Error::Unwritten("a column has no place".into()))?;
            column.write(out).map_err(unwritten)?;
        }
        group.close().map(|_| ()).map_err(unwritten)
    }

    /// Writes the end of the file, and gives its output back.
    ///
    /// # Errors
    /// As [`Writer::row`].
    pub fn finish(mut self) -> Result<W, Error> {
        if self.waiting > 0 {
            self.group()?;
        }
        self.file.into_inner().map_err(unwritten)
    }
}

impl Buffered {
    fn write(&mut self, mut out: SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let defined = Some(self.defined.as_slice());
        match &mut self.values {
            Values::Bool(values) => out.typed::<BoolType>().write_batch(values, defined, None)?,
            Values::Int32(values) => out.typed::<Int32Type>().write_batch(values, defined, None)?,
            Values::Int64(values) => out.typed::<Int64Type>().write_batch(values, defined, None)?,
            Values::Float(values) => out.typed::<FloatType>().write_batch(values, defined, None)?,
            Values::Double(values) => out.typed::<DoubleType>().write_batch(values, defined, None)?,
            Values::Bytes(values) => out.typed::<ByteArrayType>().write_batch(values, defined, None)?,
            Values::Fixed(values) => {
                out.typed::<FixedLenByteArrayType>().write_batch(values, defined, None)?
            }
        };
        self.defined.clear();
        self.values = Values::of(self.kind);
        out.close()
    }
}

impl Values {
    fn of(kind: Kind) -> Values {
        match kind {
            Kind::Bool => Values::Bool(Vec::new()),
            Kind::Int32 { .. } | Kind::Date => Values::Int32(Vec::new()),
            Kind::Int64 | Kind::Time | Kind::Timestamp { .. } => Values::Int64(Vec::new()),
            Kind::Float => Values::Float(Vec::new()),
            Kind::Double => Values::Double(Vec::new()),
            Kind::Text | Kind::Json | Kind::Bytes => Values::Bytes(Vec::new()),
            Kind::Decimal { .. } | Kind::Uuid => Values::Fixed(Vec::new()),
        }
    }

    /// Adds a value, or says why it cannot.
    fn push(&mut self, kind: Kind, ty: Option<SqlType>, cell: &[u8]) -> Result<(), String> {
        let cell = std::str::from_utf8(cell).map_err(|_| "a text that is not in UTF-8".to_owned())?;
        match (kind, &mut *self) {
            (Kind::Text | Kind::Json, Values::Bytes(values)) => values.push(cell.into()),
            (Kind::Decimal { precision, scale }, Values::Fixed(values)) => {
                let number = unscaled(cell, scale).ok_or_else(|| no_place(cell, "DECIMAL"))?;
                let bytes = number.to_be_bytes();
                values.push(bytes[bytes.len() - decimal_bytes(precision)..].to_vec().into());
            }
            _ => {
                let read =
                    text::read(ty.unwrap_or(SqlType::Text), cell).map_err(|error| error.to_string())?;
                self.push_datum(&read).ok_or_else(|| no_place(cell, "its type"))?;
            }
        }
        Ok(())
    }

    /// `None` for a value that the file's type does not have.
    fn push_datum(&mut self, datum: &Datum) -> Option<()> {
        match (self, datum) {
            (Values::Bool(values), Datum::Bool(value)) => values.push(*value),
            (Values::Int32(values), Datum::Int(value)) => values.push((*value).try_into().ok()?),
            (Values::Int32(_), Datum::Date(BEGIN_DATE | END_DATE)) => return None,
            (Values::Int32(values), Datum::Date(days)) => {
                values.push((i64::from(*days) - UNIX_EPOCH).try_into().ok()?);
            }
            // 24:00 is a time of PostgreSQL only.
            (Values::Int64(values), Datum::Time(micros)) if *micros < DAY => values.push(*micros),
            (Values::Int64(_), Datum::Timestamp(BEGIN | END)) => return None,
            (Values::Int64(values), Datum::Timestamp(micros)) => {
                values.push(micros.checked_sub(UNIX_EPOCH * DAY)?);
            }
            (Values::Int64(values), Datum::Int(value)) => values.push(*value),
            (Values::Float(values), Datum::Float(value)) => values.push(*value as f32),
            (Values::Double(values), Datum::Float(value)) => values.push(*value),
            (Values::Bytes(values), Datum::Bytes(bytes)) => values.push(bytes.as_slice().into()),
            (Values::Fixed(values), Datum::Uuid(bytes)) => values.push(bytes.to_vec().into()),
            _ => return None,
        }
        Some(())
    }
}

fn no_place(cell: &str, of: &str) -> String {
    format!("{cell} is no value of {of} in a file of Parquet")
}

/// The digits of a number as one whole number, the last `scale` of them behind the point. `None`
/// for NaN.
fn unscaled(cell: &str, scale: u16) -> Option<i128> {
    let (sign, digits) = cell.strip_prefix('-').map_or((1, cell), |digits| (-1, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let missing = usize::from(scale).checked_sub(fraction.len())?;
    let number: u128 = format!("{whole}{fraction}{}", "0".repeat(missing)).parse().ok()?;
    Some(sign * i128::try_from(number).ok()?)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn unwritten(error: ParquetError) -> Error {
    Error::Unwritten(error.to_string())
}
