//! Helpers of the steps: keys, new rows, scans of a prefix.

use super::geometry::Symbol;
use super::rows;
use base::{Key, TableId};
use std::cell::RefCell;
use std::rc::Rc;
use txn::{Abort, Access, Direction, Flow, Inserted, Range, Row, RowBuf, RowMut, TableDef};

/// The key of a row of a site, or its beginning.
#[inline]
pub(super) fn key<const N: usize>(site: u32, rest: [i64; N]) -> Key {
    rest.into_iter().fold(Key::new().i64(site.into()), Key::i64)
}

/// The key of a site's row for a symbol.
#[inline]
pub(super) fn symbol_key(site: u32, symbol: &[u8]) -> Key {
    Key::new().i64(site.into()).bytes(symbol)
}

/// Unwraps a row that the schema guarantees.
#[inline]
pub(super) fn found<R>(row: Option<R>) -> Result<R, Abort> {
    row.ok_or(Abort::BadRequest)
}

pub(super) fn symbol_in(row: &Row<'_>, column: u16) -> Symbol {
    Symbol::from_slice(row.bytes(column))
}

/// The number of the security with a symbol that a row names.
pub(super) fn security_in(row: &Row<'_>, column: u16) -> Result<u32, Abort> {
    super::geometry::security_of(row.bytes(column)).ok_or(Abort::BadRequest)
}

pub(super) fn text(row: &Row<'_>, column: u16) -> String {
    row.text(column).trim_end().to_owned()
}

/// Visits the rows of a table or index with a key that begins with `prefix`.
pub(super) async fn scan_prefix<A: Access>(
    access: &mut A,
    index: TableId,
    prefix: &Key,
    direction: Direction,
    f: impl FnMut(&[u8], Row<'_>) -> Flow,
) -> Result<(), Abort> {
    let end = prefix.prefix_end();
    access.scan(index, Range { low: Some(prefix), high: end.as_deref() }, direction, f).await
}

struct Buffer {
    def: Rc<TableDef>,
    row: RowBuf,
}

thread_local! {
    /// A buffer for rows of each table, by its number; taken out while in use.
    static BUFFERS: RefCell<Vec<Option<Box<Buffer>>>> = const { RefCell::new(Vec::new()) };
}

fn take(table: TableId) -> Box<Buffer> {
    BUFFERS.with_borrow_mut(|all| {
        let at = usize::from(table.0);
        if all.len() <= at {
            all.resize_with(at + 1, || None);
        }
        all[at].take().unwrap_or_else(|| {
            let def = rows::schema(1).table(table).cloned().expect("a table of TPC-E");
            Box::new(Buffer { row: RowBuf::new(&def), def: Rc::new(def) })
        })
    })
}

/// Inserts a row.
///
/// # Errors
/// [`Abort::BadRequest`] if there is one with this key.
pub(super) async fn insert<A: Access>(
    access: &mut A,
    table: TableId,
    fill: impl FnOnce(&mut RowMut<'_>),
) -> Result<(), Abort> {
    let mut buffer = take(table);
    fill(&mut buffer.row.start());
    let key = buffer.def.key_of(buffer.row.row());
    let inserted = access.insert(table, &key, buffer.row.bytes()).await;
    BUFFERS.with_borrow_mut(|all| all[usize::from(table.0)] = Some(buffer));
    match inserted? {
        Inserted::Done => Ok(()),
        Inserted::Exists => Err(Abort::BadRequest),
    }
}
