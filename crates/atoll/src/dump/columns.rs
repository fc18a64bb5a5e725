//! Rows between COPY and files of Parquet. Types are those that the server tells of a query.

use super::place::Open;
use super::storing::copy;
use crate::failure::Failure;
use columnar::{Column, Error, Reader, Writer};
use futures_util::StreamExt;
use server::copy_format::{self, text_options};
use server::pgtype;
use sql::SqlType;
use sql::catalog::Catalog;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// By how much a modifier of a type is greater than the length, or precision and scale, that it
/// has.
const MODIFIER: i32 = 4;

/// # Errors
/// None: this build has Parquet.
pub fn require() -> Result<(), Failure> {
    Ok(())
}

/// Writes the rows of a table; `list` are its columns in parentheses.
///
/// # Errors
/// The server's, a value that Parquet has no place for, and I/O.
pub fn write(
    open: &Open<'_>,
    table: &str,
    list: &str,
    out: BufWriter<File>,
) -> Result<BufWriter<File>, Failure> {
    let columns = columns(open, table, list)?;
    let mut writer = Writer::new(out, &columns).map_err(Failure::run)?;
    let options = text_options();
    let mut reader = copy_format::Reader::new(&options, columns.len());
    let statement = format!("COPY {table} {list} TO STDOUT");
    let stream = open.wait(open.client.copy_out(statement.as_str()))?;
    let mut stream = std::pin::pin!(stream);
    let mut has_more = true;
    while has_more {
        match open.wait(async { stream.next().await.transpose() })? {
            Some(bytes) => reader.push(&bytes),
            None => {
                reader.end();
                has_more = false;
            }
        }
        while let Some(row) = reader.next().map_err(Failure::run)? {
            writer.row(&row).map_err(Failure::run)?;
        }
    }
    writer.finish().map_err(Failure::run)
}

/// The columns of a file.
///
/// # Errors
/// I/O, and a file that is damaged.
pub fn names(path: &Path) -> Result<Vec<String>, Failure> {
    let reader = opened(path)?;
    Ok(reader.names().into_iter().map(str::to_owned).collect())
}

/// Stores the rows of a file; `into` is a table, with columns in parentheses or all of them.
///
/// # Errors
/// The server's, a file that is damaged or has other columns.
pub fn read(open: &Open<'_>, into: &str, path: &Path) -> Result<u64, Failure> {
    let (table, list) = into.split_at(list_begins(into));
    let columns = columns(open, table, list)?;
    let mut reader = opened(path)?;
    reader.choose(&columns).map_err(|error| in_file(path, &error))?;
    let options = text_options();
    let writer = copy_format::Writer::new(&options);
    let mut next = || {
        let row = reader.row().map_err(|error| in_file(path, &error))?;
        let bytes = |row: Vec<Option<String>>| {
            let mut out = Vec::new();
            writer.row(row.len(), &mut out, |at, out| match &row[at] {
                Some(text) => {
                    out.extend_from_slice(text.as_bytes());
                    true
                }
                None => false,
            });
            out
        };
        Ok(row.map(bytes))
    };
    copy(open, &format!("COPY {into} FROM STDIN"), &mut next)
}

fn opened(path: &Path) -> Result<Reader, Failure> {
    let file = File::open(path).map_err(|why| Failure::Run(format!("{}: {why}", path.display())))?;
    Reader::open(file).map_err(|error| in_file(path, &error))
}

fn in_file(path: &Path, error: &Error) -> Failure {
    Failure::Run(format!("{}: {error}", path.display()))
}

/// Where the parentheses begin, outside of quoted names.
fn list_begins(into: &str) -> usize {
    let mut is_quoted = false;
    let begins = into.find(|c| {
        is_quoted ^= c == '"';
        c == '(' && !is_quoted
    });
    begins.unwrap_or(into.len())
}

fn columns(open: &Open<'_>, table: &str, list: &str) -> Result<Vec<Column>, Failure> {
    let list = list.trim().strip_prefix('(').and_then(|list| list.strip_suffix(')')).unwrap_or("*");
    let statement = open.wait(open.client.prepare(&format!("SELECT {list} FROM {table} LIMIT 0")))?;
    let column = |column: &tokio_postgres::Column| Column {
        name: column.name().to_owned(),
        ty: type_of(column.type_().oid(), column.type_modifier()),
        type_name: column.type_().name().to_owned(),
    };
    Ok(statement.columns().iter().map(column).collect())
}

/// The type of a number in the catalog; of a modifier only the number of digits.
fn type_of(number: u32, modifier: i32) -> Option<SqlType> {
    let ty = pgtype::of_number(&Catalog::default(), number).ok().flatten()?;
    match ty {
        SqlType::Numeric(_) if modifier >= MODIFIER => {
            let packed = (modifier - MODIFIER) as u32;
            Some(SqlType::Numeric(Some(((packed >> 16) as u16, packed as u16))))
        }
        ty => Some(ty),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_told_from_its_columns() {
        for (into, table) in [("public.t (a, b)", "public.t "), ("\"a(b\" (c)", "\"a(b\" "), ("t", "t")] {
            assert_eq!(&into[..list_begins(into)], table);
        }
        assert_eq!(type_of(1700, (8 << 16 | 2) + 4), Some(SqlType::Numeric(Some((8, 2)))));
        assert_eq!(type_of(1700, -1), Some(SqlType::Numeric(None)));
        // A range: a text.
        assert_eq!(type_of(3904, -1), None);
    }
}
