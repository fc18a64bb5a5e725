//! The tables of every trial. Few rows produce the shapes of many: keys are 200 bytes long and
//! differ early, names differ late. So a few hundred rows produce trees of several levels that
//! split and merge often.

use base::{Key, KeyReader, TableId};
use latch::Coupled;
use pages::{PoolOptions, Stop};
use std::collections::BTreeMap;
use std::ops::Bound;
use store::{ChunkEnd, HeapForm, Store, StoreFault, StoreOptions, TreeKind};
use txn::{Column, Direction, IndexDef, Row, RowBuf, Schema, TableDef, TableKind, Type};
use wal::{Durability, LogOptions};

/// Where the database is on the simulated disk.
pub const DIR: &str = "/db";

/// Keyed rows with two secondary indexes.
pub const ACCOUNTS: TableId = TableId(1);
const BY_SCORE: TableId = TableId(2);
const BY_NAME: TableId = TableId(3);
/// The numbers of the transactions that changed anything; each transaction writes its own.
pub const HISTORY: TableId = TableId(10);

/// Columns of [`ACCOUNTS`].
pub const SCORE: u16 = 1;
pub const NAME: u16 = 2;

/// A row without its key: score and name.
pub type Value = (i64, String);
/// Rows of [`ACCOUNTS`] by id.
pub type Rows = BTreeMap<i64, Value>;

/// The schema with heap tables.
pub fn schema() -> Schema {
    schema_of(TableKind::Heap)
}

/// The clustered accounts have no index by name: its entries would be too long for nodes that are
/// small enough for middle-sized rows to leave them.
pub fn schema_of(kind: TableKind) -> Schema {
    let index = |id, name: &str, column| IndexDef { id, name: name.into(), columns: vec![column] };
    let columns = vec![
        Column::new("id", Type::Text(220)),
        Column::new("score", Type::I64),
        Column::new("name", Type::Text(600)),
    ];
    let accounts = TableDef {
        indexes: match kind {
            TableKind::Heap => vec![index(BY_SCORE, "by_score", SCORE), index(BY_NAME, "by_name", NAME)],
            TableKind::Clustered => vec![index(BY_SCORE, "by_score", SCORE)],
        },
        kind,
        ..TableDef::new(ACCOUNTS, "accounts", columns, &[0], 1)
    };
    let history = TableDef::new(HISTORY, "history", vec![Column::new("number", Type::I64)], &[], 1);
    Schema { tables: vec![accounts, history] }
}

/// As [`options`]. For clustered tables nodes hold rows of up to 240 bytes besides their keys;
/// longer rows lie in the heap.
pub fn options_of(kind: TableKind, durability: Durability, frames: usize) -> StoreOptions {
    let options = options(durability, frames);
    match kind {
        TableKind::Heap => options,
        TableKind::Clustered => StoreOptions { node_bytes: 1800, ..options },
    }
}

/// Heap pages shared by rows of any key, of one partition, or of one leaf, chosen by the seed.
pub fn with_heap_form(options: StoreOptions, seed: u64) -> StoreOptions {
    let heaps = HeapForm::ALL[seed as usize % 3];
    let trees = if heaps == HeapForm::Shared { options.trees } else { TreeKind::MultiRooted };
    StoreOptions { heaps, trees, ..options }
}

/// Small segments, a small ring and few frames: cuts, waits for room and evictions come early.
pub fn options(durability: Durability, frames: usize) -> StoreOptions {
    let mut options = StoreOptions::new(durability, frames);
    let mut log = LogOptions::new(durability);
    (log.segment_bytes, log.buffer_bytes) = (1 << 16, 1 << 16);
    options.log = log;
    options.pool = PoolOptions { max_pages: 1 << 14, ..PoolOptions::new(frames) };
    options.checkpoint_bytes = 1 << 17;
    options
}

fn id_text(id: i64) -> String {
    let spread = (id as u32).wrapping_mul(0x9e37_79b1);
    format!("{spread:08x}{id:~>192}")
}

/// The key of a row of [`ACCOUNTS`].
pub fn key(id: i64) -> Key {
    Key::new().str(&id_text(id))
}

/// The id in a key of [`ACCOUNTS`].
pub fn id_of(key: &[u8]) -> Option<i64> {
    let text = String::from_utf8(KeyReader::new(key).bytes()?).ok()?;
    text.rsplit('~').next()?.parse().ok()
}

/// A row of [`ACCOUNTS`].
pub fn row(id: i64, value: &Value) -> Vec<u8> {
    let mut buf = RowBuf::new(&schema().tables[0]);
    let mut row = buf.start();
    row.set_text(0, &id_text(id));
    row.set_int(SCORE, value.0);
    row.set_text(NAME, &value.1);
    buf.bytes().to_vec()
}

/// A row of [`HISTORY`].
pub fn history_row(number: i64) -> Vec<u8> {
    let mut buf = RowBuf::new(&schema().tables[1]);
    buf.start().set_int(0, number);
    buf.bytes().to_vec()
}

/// Repeats an operation, loading pages as needed, until it succeeds or fails.
///
/// # Errors
/// The fault.
pub fn insist<T>(store: &Store, mut operation: impl FnMut() -> Result<T, Stop>) -> Result<T, StoreFault> {
    loop {
        match operation() {
            Ok(done) => return Ok(done),
            Err(Stop::Page(page)) => store.load_page(page)?,
            Err(Stop::Again) => std::thread::yield_now(),
            Err(Stop::Fault(fault)) => return Err(fault.into()),
            Err(stop @ Stop::NoSpace) => return Err(StoreFault::Schema(stop.to_string())),
        }
    }
}

/// All rows of a table, in order.
fn scan(store: &Store, table: TableId) -> Result<Vec<(Key, Vec<u8>)>, StoreFault> {
    let (mut all, mut from) = (Vec::new(), Bound::Unbounded);
    loop {
        let mut part = Vec::new();
        let chunk = insist(store, || {
            part.clear();
            let from = from.as_ref().map(Key::as_slice);
            store.chunk::<Coupled>(table, from, None, Direction::Forward, 64, |k, r| {
                part.push((Key::from_bytes(k), r.to_vec()));
            })
        })?;
        all.append(&mut part);
        match chunk {
            ChunkEnd::More(next) => from = next,
            ChunkEnd::Done(_) => return Ok(all),
        }
    }
}

/// The present accounts, including those of transactions in doubt.
pub fn accounts(store: &Store) -> Result<Rows, StoreFault> {
    let Some(table) = store.table(ACCOUNTS) else { return Ok(Rows::new()) };
    let rows = scan(store, ACCOUNTS)?;
    let value = |(key, bytes): &(Key, Vec<u8>)| {
        let row = Row::new(&table.layout, bytes);
        (id_of(key).unwrap_or(-1), (row.int(SCORE), row.text(NAME).to_owned()))
    };
    Ok(rows.iter().map(value).collect())
}

/// The numbers in the history, sorted; duplicates are kept.
pub fn history(store: &Store) -> Result<Vec<i64>, StoreFault> {
    let Some(table) = store.table(HISTORY) else { return Ok(Vec::new()) };
    let rows = scan(store, HISTORY)?;
    let mut all: Vec<i64> = rows.iter().map(|(_, r)| Row::new(&table.layout, r).int(0)).collect();
    all.sort_unstable();
    Ok(all)
}
