//! From a file to rows of texts.

use crate::kind::takes;
use crate::shape::{Shape, Unit, told};
use crate::text_of::{self, Unfit};
use crate::{Column, Error};
use parquet::basic::Compression;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::schema::types::ColumnDescriptor;
use sql::SqlType;
use std::fs::File;

/// Rows that are read at once, column by column.
const BATCH: u64 = 1024;

/// The rows of a file.
pub struct Reader {
    file: SerializedFileReader<File>,
    /// The file's bytes.
    length: u64,
    /// The columns that rows have, in their order.
    chosen: Vec<Chosen>,
    /// The next group, and the rows that the present one has left.
    group: usize,
    left: u64,
    streams: Vec<ColumnReader>,
    /// Columns of texts, up to [`BATCH`] of each, and the next row in them.
    batch: Vec<Vec<Option<String>>>,
    at: usize,
    /// Rows before the batch.
    rows: u64,
}

struct Chosen {
    name: String,
    /// The number among the columns of the file.
    leaf: usize,
    shape: Shape,
    is_optional: bool,
    ty: Option<SqlType>,
}

impl Reader {
    /// # Errors
    /// It is no file of Parquet, or its end is damaged.
    pub fn open(file: File) -> Result<Reader, Error> {
        let length = file.metadata().map_err(|why| Error::Damaged(why.to_string()))?.len();
        let file = SerializedFileReader::new(file).map_err(damaged)?;
        let chosen = Vec::new();
        Ok(Reader {
            file,
            length,
            chosen,
            group: 0,
            left: 0,
            streams: Vec::new(),
            batch: Vec::new(),
            at: 0,
            rows: 0,
        })
    }

    /// The names of the columns in the file.
    pub fn names(&self) -> Vec<&str> {
        let root = self.file.metadata().file_metadata().schema_descr().root_schema();
        root.get_fields().iter().map(|field| field.name()).collect()
    }

    /// Chooses the columns of the rows, by name, with the types of a table.
    ///
    /// # Errors
    /// A column that the file does not have, or of a type that does not go into that of the table.
    pub fn choose(&mut self, columns: &[Column]) -> Result<(), Error> {
        self.chosen = columns.iter().map(|column| self.chosen(column)).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn chosen(&self, column: &Column) -> Result<Chosen, Error> {
        let name = &column.name;
        let schema = self.file.metadata().file_metadata().schema_descr();
        match self.names().iter().filter(|known| *known == name).count() {
            0 => {
                let known = self.names().join(", ");
                return Err(Error::Unfit(format!("it has no column {name}; it has: {known}")));
            }
            1 => {}
            count => return Err(Error::Unfit(format!("it has {count} columns {name}; expected one"))),
        }
        let is_leaf = |leaf: &ColumnDescriptor| leaf.path().parts() == [name.as_str()];
        let leaf = schema.columns().iter().position(|leaf| is_leaf(leaf) && leaf.max_rep_level() == 0);
        let Some(leaf) = leaf else {
            let why = format!("its column {name} has lists or parts; expected one value a row");
            return Err(Error::Unfit(why));
        };
        let descriptor = schema.column(leaf);
        let shape = Shape::of(&descriptor).filter(|shape| takes(column.ty, *shape)).ok_or_else(|| {
            let (found, wanted) = (told(&descriptor), &column.type_name);
            Error::Unfit(format!(
                "its column {name} is {found}, which does not go into a column of type {wanted}"
            ))
        })?;
        for group in self.file.metadata().row_groups() {
            let (chunk, codec) = (group.column(leaf), group.column(leaf).compression());
            // The library of Parquet panics at some of these.
            let begin = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
            let end = begin.checked_add(chunk.compressed_size()).and_then(|end| u64::try_from(end).ok());
            if begin < 0 || chunk.compressed_size() < 0 || end.is_none_or(|end| end > self.length) {
                return Err(Error::Damaged(format!("column {name} lies outside of the file")));
            }
            if !is_built(codec) {
                let why = format!(
                    "its column {name} is compressed by {codec}; expected SNAPPY, ZSTD or UNCOMPRESSED"
                );
                return Err(Error::Unfit(why));
            }
        }
        let is_optional = descriptor.max_def_level() > 0;
        Ok(Chosen { name: name.clone(), leaf, shape, is_optional, ty: column.ty })
    }

    /// The next row: a text for each chosen column, `None` for null.
    ///
    /// # Errors
    /// The file is damaged, or has a value that PostgreSQL does not have.
    pub fn row(&mut self) -> Result<Option<Vec<Option<String>>>, Error> {
        if self.batch.first().is_none_or(|column| self.at >= column.len()) && !self.fill()? {
            return Ok(None);
        }
        let at = self.at;
        self.at += 1;
        Ok(Some(self.batch.iter_mut().map(|column| column[at].take()).collect()))
    }

    /// Reads a batch; false at the end.
    fn fill(&mut self) -> Result<bool, Error> {
        self.rows += self.at as u64;
        self.at = 0;
        while self.left == 0 {
            if self.group == self.file.num_row_groups() || self.chosen.is_empty() {
                return Ok(false);
            }
            let group = self.file.get_row_group(self.group).map_err(damaged)?;
            self.left = u64::try_from(group.metadata().num_rows())
                .map_err(|_| Error::Damaged("a group of rows has a negative length".into()))?;
            let streams = self.chosen.iter().map(|chosen| group.get_column_reader(chosen.leaf));
            self.streams = streams.collect::<Result<_, _>>().map_err(damaged)?;
            self.group += 1;
        }
        let count = self.left.min(BATCH) as usize;
        self.left -= count as u64;
        let columns = self.chosen.iter().zip(&mut self.streams);
        self.batch = columns
            .map(|(chosen, stream)| chosen.read(stream, count, self.rows))
            .collect::<Result<_, _>>()?;
        Ok(true)
    }
}

impl Chosen {
    fn read(
        &self,
        stream: &mut ColumnReader,
        count: usize,
        before: u64,
    ) -> Result<Vec<Option<String>>, Error> {
        let (shape, ty) = (self.shape, self.ty);
        let narrow = |value: i64| text_of::of_int(shape, value, 32);
        let read = match stream {
            ColumnReader::BoolColumnReader(stream) => {
                self.cells(stream, count, |value| Ok(if *value { "t" } else { "f" }.into()))
            }
            ColumnReader::Int32ColumnReader(stream) => {
                self.cells(stream, count, |value| narrow(i64::from(*value)))
            }
            ColumnReader::Int64ColumnReader(stream) => {
                self.cells(stream, count, |value| text_of::of_int(shape, *value, 64))
            }
            ColumnReader::Int96ColumnReader(stream) => {
                self.cells(stream, count, |value| text_of::timestamp(Unit::Micros, false, value.to_micros()))
            }
            ColumnReader::FloatColumnReader(stream) => {
                self.cells(stream, count, |value| Ok(text_of::of_float(f64::from(*value), true, ty)))
            }
            ColumnReader::DoubleColumnReader(stream) => {
                self.cells(stream, count, |value| Ok(text_of::of_float(*value, false, ty)))
            }
            ColumnReader::ByteArrayColumnReader(stream) => {
                self.cells(stream, count, |value| text_of::of_bytes(shape, value.data(), ty))
            }
            ColumnReader::FixedLenByteArrayColumnReader(stream) => {
                self.cells(stream, count, |value| text_of::of_bytes(shape, value.data(), ty))
            }
        };
        read?.map_err(|(at, why)| {
            let (row, name) = (before + at as u64 + 1, &self.name);
            Error::Unfit(format!("row {row}, column {name}: {why}"))
        })
    }

    /// The next texts, or the place of the value that has none.
    #[expect(clippy::type_complexity, reason = "two kinds of errors")]
    fn cells<T: DataType>(
        &self,
        stream: &mut ColumnReaderImpl<T>,
        count: usize,
        text: impl Fn(&T::T) -> Result<String, Unfit>,
    ) -> Result<Result<Vec<Option<String>>, (usize, Unfit)>, Error> {
        let (mut values, mut defined) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (rows, ..) =
            stream.read_records(count, Some(&mut defined), None, &mut values).map_err(damaged)?;
        if rows != count {
            return Err(Error::Damaged(format!("column {} has too few values", self.name)));
        }
        let mut values = values.iter();
        let mut cell = |at: usize| {
            let is_null = self.is_optional && defined.get(at) != Some(&1);
            let value = if is_null { None } else { values.next() };
            value.map(|value| text(value).map_err(|why| (at, why))).transpose()
        };
        Ok((0..count).map(&mut cell).collect())
    }
}

/// Whether the library of Parquet is built with this compression.
fn is_built(codec: Compression) -> bool {
    matches!(codec, Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn damaged(error: ParquetError) -> Error {
    let text = error.to_string();
    Error::Damaged(text.strip_prefix("Parquet error: ").unwrap_or(&text).to_owned())
}
