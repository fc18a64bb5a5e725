//! The files of a database, corrupted. The target opens the database, reads it in every way, checks
//! it and writes to it. The store must refuse to open it, or answer with errors that name the
//! defect. It must never crash the program.
//!
//! The databases are small ones on the simulated disk, made once. An input corrupts one of them:
//!
//! ```text
//!  [database][file][position u16][length u16][bytes]...
//!        the bytes replace those at the position; the checksum is corrected afterwards
//!        (except in the log's records, where that is impossible)
//!  [database][kind][flags][txn][previous][undo next][length u16][body]...
//!        records behind the end of the log
//! ```

use crate::input::{Input, put_piece};
use crate::{Pace, Target};
use access::Expect;
use base::{Key, Lsn, PageId, TableId, TxnId, crc32c};
use latch::Coupled;
use pages::PAGE_SIZE;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use store::{ChunkEnd, Recovered, Store, StoreFault, StoreOptions, Table, Txn};
use trials::ledger::Ledger;
use trials::store_run::{Mix, StoreRun};
use trials::table;
use txn::{Column, Direction, IndexDef, RowBuf, RowMut, Schema, TableDef, TableKind, Type};
use wal::{CLR, Durability, Log, LogOrder, RecordHeader};
use world::Open;
use world::sim::Disk;

/// The file at which a restart begins.
pub const CONTROL: Target = Target { name: "control", seeds: controls, run: control, pace: Pace::Slow };
/// Segments of the log, and the ring of an asynchronous log.
pub const LOG: Target = Target { name: "log", seeds: logs, run: log, pace: Pace::Slow };
/// Whole records with arbitrary content: the three passes of a restart over them.
pub const RECORDS: Target = Target { name: "records", seeds: tails, run: tail, pace: Pace::Slow };
/// Pages of every kind, with the catalog: reads and `check`.
pub const PAGES: Target = Target { name: "pages", seeds: page_edits, run: read_pages, pace: Pace::Slow };
/// The same, and changes of rows.
pub const CHANGES: Target =
    Target { name: "changes", seeds: page_edits, run: change_pages, pace: Pace::Slow };

const DIR: &str = "/db";
const DATA: &str = "/db/data";
/// A table with rows so long that they have pages of their own.
const LETTERS: TableId = TableId(20);
/// A scan that has met more rows than this must be going round in circles.
const MOST_ROWS: usize = 20_000;

/// A database and the way it is opened.
struct Victim {
    disk: Disk,
    kind: TableKind,
    durability: Durability,
}

static VICTIMS: LazyLock<Vec<Victim>> = LazyLock::new(|| {
    let made = [
        (TableKind::Heap, Durability::Sync, true),
        (TableKind::Clustered, Durability::Sync, true),
        (TableKind::Heap, Durability::Sync, false),
        (TableKind::Clustered, Durability::Async, false),
    ];
    made.into_iter()
        .enumerate()
        .map(|(n, (kind, durability, closes))| {
            victim(n as u64, kind, durability, closes).expect("a database of the trials can be made")
        })
        .collect()
});

/// The contents of all files, by path.
type Contents = Vec<(PathBuf, Vec<u8>)>;

static CONTENTS: LazyLock<Vec<Contents>> = LazyLock::new(|| {
    let content = |victim: &Victim| {
        let paths = victim.disk.paths().into_iter().map(|(path, _)| path);
        paths.map(|path| (path.clone(), victim.disk.bytes(&path).unwrap_or_default())).collect()
    };
    VICTIMS.iter().map(content).collect()
});

fn letters(kind: TableKind) -> TableDef {
    TableDef {
        id: LETTERS,
        name: "letters".into(),
        columns: vec![
            Column::new("id", Type::I64),
            Column::new("to", Type::Text(30)).nullable(),
            Column::new("text", Type::Text(60_000)),
        ],
        key: vec![0],
        indexes: vec![IndexDef { id: TableId(21), name: "by_to".into(), columns: vec![1] }],
        domain: 1,
        kind,
    }
}

fn options(kind: TableKind, durability: Durability) -> StoreOptions {
    let mut options = table::options_of(kind, durability, 64);
    options.pool.max_pages = 1 << 10;
    options
}

fn victim(seed: u64, kind: TableKind, durability: Durability, closes: bool) -> Result<Victim, StoreFault> {
    let disk = Disk::new();
    let (store, _) = Store::open(disk.files(), Path::new(DIR), options(kind, durability))?;
    let mut schema: Schema = table::schema_of(kind);
    schema.tables.push(letters(kind));
    store.create(&schema)?;
    let mut ledger = Ledger::default();
    let mix = Mix { keys: 40, commits: 40, wait_one_in: 2 };
    let mut run = StoreRun::new((&store, &disk), &mut ledger, BTreeMap::new(), (seed, mix));
    run.run()?;
    drop(run);
    write_letters(&store, [10, 9000, 200, 30_000])?;
    store.checkpoint()?;
    write_letters(&store, [9000, 20, 3000, 100])?;
    store.log().wait_durable(store.log().end())?;
    let disk = if closes {
        store.close()?;
        disk.killed()
    } else {
        disk.killed()
    };
    Ok(Victim { disk, kind, durability })
}

fn write_letters(store: &Store, lengths: [usize; 4]) -> Result<(), StoreFault> {
    let Some(table) = store.table(LETTERS) else { return Ok(()) };
    let mut txn = Txn::default();
    store.begin(&mut txn, 0);
    for (n, length) in lengths.into_iter().enumerate() {
        let mut row = RowBuf::new(&table.def);
        set_letter(&mut row.start(), n as i64, length);
        let key = table.def.key_of(row.row());
        let there = table::insist(store, || store.get::<Coupled, _>(table, &key, |_| ()))?.is_some();
        if there {
            let change = |row: &mut RowMut<'_>| set_letter(row, n as i64, length);
            table::insist(store, || store.update::<Coupled, _>(&mut txn, table, &key, change))?;
        } else {
            let bytes = row.bytes();
            table::insist(store, || store.insert::<Coupled>(&mut txn, table, &key, bytes, Expect::Any))?;
        }
    }
    store.commit(&mut txn, None)?;
    store.committed::<Coupled>(&mut txn);
    Ok(())
}

fn set_letter(row: &mut RowMut<'_>, id: i64, length: usize) {
    row.set_int(0, id);
    row.set_text(1, &format!("somebody {length}"));
    row.set_text(2, &"l".repeat(length));
}

/// A record of a victim's log.
#[derive(Clone)]
pub struct Logged {
    pub kind: u8,
    flags: u8,
    txn: u64,
    pub body: Vec<u8>,
}

/// The records of the two victims that were not closed.
pub fn records() -> Vec<Logged> {
    logged(&VICTIMS[2]).into_iter().chain(logged(&VICTIMS[3])).collect()
}

fn logged(victim: &Victim) -> Vec<Logged> {
    let disk = victim.disk.killed();
    let options = options(victim.kind, victim.durability).log;
    let Ok(log) = Log::open(disk.files(), &Path::new(DIR).join("log"), options) else { return Vec::new() };
    let read = log.read_from(log.first()).filter_map(Result::ok);
    read.map(|(_, header, body)| Logged { kind: header.kind, flags: header.flags, txn: header.txn.0, body })
        .collect()
}

/// The pages of all victims' data files, with their numbers; an empty page first.
pub fn images() -> &'static [(PageId, Vec<u8>)] {
    static IMAGES: LazyLock<Vec<(PageId, Vec<u8>)>> = LazyLock::new(|| {
        let data = CONTENTS.iter().flatten().filter(|(path, _)| path == Path::new(DATA));
        let pages = data.flat_map(|(_, bytes)| bytes.chunks_exact(PAGE_SIZE).enumerate().skip(1));
        let pages = pages.map(|(n, page)| (PageId(n as u32), page.to_vec()));
        [(PageId(1), vec![0; PAGE_SIZE])].into_iter().chain(pages).collect()
    });
    &IMAGES
}

/// The files of one victim with names that `which` accepts.
fn files_of(victim: usize, which: fn(&str) -> bool) -> Vec<&'static (PathBuf, Vec<u8>)> {
    let name = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    CONTENTS[victim].iter().filter(|(path, bytes)| which(&name(path)) && !bytes.is_empty()).collect()
}

fn is_control(name: &str) -> bool {
    name.starts_with("control-")
}

fn is_log(name: &str) -> bool {
    name.starts_with("log-") || name == "ring"
}

/// Replaces the content of the file.
fn write(disk: &Disk, path: &Path, bytes: &[u8]) {
    let file = disk.files().open(path, Open::ReadWrite).expect("a file of the simulated disk");
    file.set_len(bytes.len() as u64)
        .and_then(|()| file.write_all_at(bytes, 0))
        .expect("room on the simulated disk");
    file.sync().expect("a sync of the simulated disk");
}

/// One edit: the bytes replace those at `at`. The content grows if necessary.
fn splice(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if content.len() < at + bytes.len() {
        content.resize(at + bytes.len(), 0);
    }
    content[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Inputs that change nothing: each puts a piece of `step` bytes of a file in its own place. The
/// first `most` pieces of each file.
fn edits(which: fn(&str) -> bool, step: usize, most: usize) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for victim in 0..VICTIMS.len() {
        for (n, (_, bytes)) in files_of(victim, which).into_iter().enumerate() {
            for (at, piece) in bytes.chunks(step).enumerate().take(most) {
                let mut seed = vec![victim as u8, n as u8];
                seed.extend(((at * step) as u16).to_le_bytes());
                put_piece(&mut seed, piece);
                seeds.push(seed);
            }
        }
    }
    seeds
}

fn controls() -> Vec<Vec<u8>> {
    edits(is_control, 200, 2)
}

fn control(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (n, disk) = spoiled(&mut input);
    let files = files_of(n, is_control);
    let mut contents: Vec<Vec<u8>> = files.iter().map(|(_, bytes)| bytes.clone()).collect();
    while !input.is_empty() {
        let (file, at) = (usize::from(input.byte()) % files.len(), usize::from(input.u16()) % 4096);
        splice(&mut contents[file], at, input.piece());
    }
    for ((path, before), content) in files.iter().zip(&mut contents) {
        if content != before && content.len() >= 36 {
            // The length is corrected as well: the bytes behind it are not covered by the checksum.
            let body = (content.len() - 36) as u32;
            content[28..32].copy_from_slice(&body.to_le_bytes());
            content[32..36].fill(0);
            let sum = crc32c(content);
            content[32..36].copy_from_slice(&sum.to_le_bytes());
        }
        write(&disk, path, content);
    }
    live(n, &disk, Deeds::Reads);
}

/// The victim that the input names, and a copy of its disk.
fn spoiled(input: &mut Input<'_>) -> (usize, Disk) {
    let n = usize::from(input.byte()) % VICTIMS.len();
    (n, VICTIMS[n].disk.killed())
}

fn logs() -> Vec<Vec<u8>> {
    edits(is_log, 120, 12)
}

fn log(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (n, disk) = spoiled(&mut input);
    let files = files_of(n, is_log);
    let mut contents: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    while !input.is_empty() {
        let (file, at) = (usize::from(input.byte()) % files.len(), usize::from(input.u16()));
        let content = contents.entry(file).or_insert_with(|| files[file].1.clone());
        splice(content, at, input.piece());
    }
    for (file, mut content) in contents {
        let is_segment = content.starts_with(b"ATOLLLOG");
        if is_segment && content.len() >= 48 {
            let sum = crc32c(&content[16..48]);
            content[12..16].copy_from_slice(&sum.to_le_bytes());
        }
        write(&disk, &files[file].0, &content);
    }
    live(n, &disk, Deeds::Reads);
}

/// The last records of each log, some at a time.
fn tails() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (n, victim) in VICTIMS.iter().enumerate() {
        let all = records();
        let own = logged(victim);
        for some in own.chunks(6).chain(all.chunks(6).take(20)) {
            let mut seed = vec![n as u8];
            for record in some {
                seed.extend([record.kind, record.flags, record.txn as u8, 1, 1]);
                put_piece(&mut seed, &record.body);
            }
            seeds.push(seed);
        }
    }
    seeds
}

fn tail(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (n, disk) = spoiled(&mut input);
    let options = options(VICTIMS[n].kind, VICTIMS[n].durability).log;
    let log = Log::open(disk.files(), &Path::new(DIR).join("log"), options).expect("the log is as it was");
    let mut lsns: Vec<Lsn> =
        log.read_from(log.first()).filter_map(Result::ok).map(|(span, ..)| span.start).collect();
    let place = |lsns: &[Lsn], which: u8| match which {
        0 => Lsn(0),
        255 => Lsn(u64::MAX),
        back => lsns.len().checked_sub(back.into()).map_or(Lsn(back.into()), |at| lsns[at]),
    };
    while !input.is_empty() {
        let (kind, flags, txn) = (input.byte(), input.byte() & CLR, TxnId(input.byte().into()));
        let (prev, undo_next) = (place(&lsns, input.byte()), place(&lsns, input.byte()));
        let undo_next = if flags & CLR == 0 { Lsn(0) } else { undo_next };
        let header = RecordHeader { kind, flags, txn, prev, undo_next, ..RecordHeader::default() };
        let body = input.piece();
        let span = log.append(&header, LogOrder::ANY, &[&body[..body.len().min(log.max_body())]]);
        lsns.push(span.start);
    }
    log.wait_durable(log.end()).expect("room on the simulated disk");
    drop(log);
    live(n, &disk, Deeds::Reads);
}

/// For each page: its header, the bytes behind it and its end, unchanged.
fn page_edits() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for victim in 0..VICTIMS.len() {
        for (_, bytes) in files_of(victim, |name| name == "data") {
            for (page, content) in bytes.chunks_exact(PAGE_SIZE).enumerate().take(256) {
                for (at, length) in [(4, 20), (24, 40), (24, 400), (PAGE_SIZE - 64, 64)] {
                    let mut seed = vec![victim as u8, page as u8];
                    seed.extend((at as u16).to_le_bytes());
                    put_piece(&mut seed, &content[at..at + length]);
                    seeds.push(seed);
                }
            }
        }
    }
    seeds
}

fn read_pages(bytes: &[u8]) {
    pages(bytes, Deeds::Reads);
}

fn change_pages(bytes: &[u8]) {
    pages(bytes, Deeds::Changes);
}

fn pages(bytes: &[u8], deeds: Deeds) {
    let mut input = Input(bytes);
    let (n, disk) = spoiled(&mut input);
    let files = files_of(n, |name| name == "data");
    let Some((path, content)) = files.first() else { return };
    let file = disk.files().open(path, Open::ReadWrite).expect("a file of the simulated disk");
    let mut changed: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    while !input.is_empty() {
        let (page, at) = (usize::from(input.byte()) % (content.len() / PAGE_SIZE), usize::from(input.u16()));
        let start = page * PAGE_SIZE;
        let image = changed.entry(page).or_insert_with(|| content[start..start + PAGE_SIZE].to_vec());
        let piece = input.piece();
        let at = at % PAGE_SIZE;
        splice(image, at, &piece[..piece.len().min(PAGE_SIZE - at)]);
    }
    for (page, mut image) in changed {
        if page == 0 {
            let sum = crc32c(&image[..16]);
            image[16..20].copy_from_slice(&sum.to_le_bytes());
        } else {
            image[16..20].copy_from_slice(&(page as u32).to_le_bytes());
            let sum = crc32c(&image[4..]);
            image[..4].copy_from_slice(&sum.to_le_bytes());
        }
        file.write_all_at(&image, (page * PAGE_SIZE) as u64).expect("room on the simulated disk");
    }
    file.sync().expect("a sync of the simulated disk");
    live(n, &disk, deeds);
}

/// The operations on a database that was opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deeds {
    Reads,
    Changes,
}

/// Opens the corrupted victim `n`, and runs the operations on it.
fn live(n: usize, disk: &Disk, deeds: Deeds) {
    let (kind, durability) = (VICTIMS[n].kind, VICTIMS[n].durability);
    let scanned = store::scan_files(&*disk.files(), Path::new(DIR), &mut |_, _, _| {});
    scanned.into_iter().flatten().for_each(|finding| assert!(!finding.what.is_empty()));
    let (store, recovered) = match Store::open(disk.files(), Path::new(DIR), options(kind, durability)) {
        Ok(opened) => opened,
        Err(fault) => return assert!(!fault.to_string().is_empty()),
    };
    let _ = read_all(&store);
    let _ = store.examine(&mut |_, _, _| {});
    let _ = end_doubts(&store, recovered);
    if deeds == Deeds::Changes {
        let _ = change_all(&store);
        let _ = read_all(&store);
        let _ = store.examine(&mut |_, _, _| {});
    }
    let _ = store.finish_redo();
    let _ = store.close();
}

fn end_doubts(store: &Store, recovered: Recovered) -> Result<(), StoreFault> {
    for (n, mut doubt) in recovered.in_doubt.into_iter().enumerate() {
        for txn in std::iter::once(&mut doubt.txn).chain(&mut doubt.others) {
            if n % 2 == 0 {
                table::insist(store, || store.rollback::<Coupled>(txn))?;
            } else {
                store.commit(txn, None)?;
                store.committed::<Coupled>(txn);
            }
        }
    }
    recovered.notes.into_iter().for_each(|(id, _)| store.forget(id));
    Ok(())
}

/// Scans every table by every tree, both ways, and looks up keys.
fn read_all(store: &Store) -> Result<(), StoreFault> {
    for def in store.schema().unwrap_or_default().tables {
        let Some(table) = store.table(def.id) else { continue };
        let trees = def.indexes.iter().map(|index| index.id);
        for index in std::iter::once(def.id).chain(trees) {
            let ways = if def.key.is_empty() {
                &[Direction::Forward][..]
            } else {
                &[Direction::Forward, Direction::Backward]
            };
            for way in ways {
                let _ = scan(store, index, *way);
            }
        }
        if def.key.is_empty() {
            continue;
        }
        for key in some_keys(store, table)? {
            let _ = table::insist(store, || store.get::<Coupled, _>(table, &key, <[u8]>::len));
            let _ = table::insist(store, || store.successor::<Coupled>(def.id, Bound::Excluded(&key)));
            let _ = table::insist(store, || store.predecessor::<Coupled>(def.id, Bound::Excluded(&key)));
        }
    }
    Ok(())
}

fn scan(store: &Store, index: TableId, way: Direction) -> Result<usize, StoreFault> {
    let (mut from, mut met) = (Bound::Unbounded, 0);
    loop {
        let mut last = Key::new();
        let chunk = table::insist(store, || {
            let bound = from.as_ref().map(Key::as_slice);
            store.chunk::<Coupled>(index, bound, None, way, 16, |key, _| {
                met += 1;
                last = Key::from_bytes(key);
            })
        })?;
        assert!(met < MOST_ROWS, "a scan of {index:?} goes round in circles");
        match chunk {
            ChunkEnd::More(next) => {
                assert!(from != next, "a scan of {index:?} does not get on");
                from = next;
            }
            ChunkEnd::Done(_) => return Ok(met),
        }
    }
}

/// The first keys of the table, and some that it does not have.
fn some_keys(store: &Store, table: &Table) -> Result<Vec<Key>, StoreFault> {
    let mut keys = vec![Key::new(), Key::from_bytes(&[0xff; 40])];
    let read = table::insist(store, || {
        store.chunk::<Coupled>(table.def.id, Bound::Unbounded, None, Direction::Forward, 12, |key, _| {
            keys.push(Key::from_bytes(key));
        })
    });
    if read.is_err() && store.fault().is_some() {
        read?;
    }
    keys.extend((0..4).map(|n| Key::new().i64(n)));
    keys.extend((0..40).step_by(7).map(table::key));
    Ok(keys)
}

/// For each table one transaction that commits and one that is rolled back; then a checkpoint.
fn change_all(store: &Store) -> Result<(), StoreFault> {
    for def in store.schema().unwrap_or_default().tables {
        let Some(table) = store.table(def.id) else { continue };
        for commits in [true, false] {
            let mut txn = Txn::default();
            store.begin(&mut txn, 0);
            let changed = change_table(store, &mut txn, table);
            if changed.is_ok() && commits {
                store.commit(&mut txn, None)?;
                store.committed::<Coupled>(&mut txn);
            } else {
                table::insist(store, || store.rollback::<Coupled>(&mut txn))?;
            }
        }
    }
    store.checkpoint()
}

fn change_table(store: &Store, txn: &mut Txn, table: &Table) -> Result<(), StoreFault> {
    let mut row = RowBuf::new(&table.def);
    row.start();
    if table.def.key.is_empty() {
        return table::insist(store, || store.append::<Coupled>(txn, table, row.bytes())).map(drop);
    }
    for (n, key) in some_keys(store, table)?.into_iter().enumerate() {
        let own: Vec<u16> =
            (0..table.def.columns.len() as u16).filter(|c| !table.def.key.contains(c)).collect();
        let change = |row: &mut RowMut<'_>| {
            for &column in &own {
                match table.def.columns[usize::from(column)].ty {
                    Type::Text(most) => row.set_bytes(column, &vec![b'c'; most.min(60 * n as u32) as usize]),
                    Type::Char(_) => {}
                    Type::Bool => row.set_int(column, n as i64 % 2),
                    _ => row.set_int(column, n as i64),
                }
            }
        };
        let there = table::insist(store, || store.update::<Coupled, _>(txn, table, &key, change))?.is_some();
        if there && n % 3 == 0 {
            table::insist(store, || store.delete::<Coupled>(txn, table, &key, Expect::Any))?;
        }
    }
    let key = table.def.key_of(row.row());
    let put = table::insist(store, || store.insert::<Coupled>(txn, table, &key, row.bytes(), Expect::Any));
    // A row that does not fit an index is rejected by itself.
    match put {
        Err(StoreFault::Page(fault)) if matches!(*fault, pages::PageFault::TooLong { .. }) => Ok(()),
        put => put.map(drop),
    }
}
