//! Frames, keys, rows and single log records: bytes that need no file around them.

use crate::input::{Input, put_piece};
use crate::{Pace, Target, disk};
use base::{Gtid, InstanceId, Key, KeyReader, Lsn, PageId, TableId, hash64};
use pages::{PAGE_SIZE, Page};
use twophase::{Decision, LockPoint, Message, Vote};
use txn::row::Layout;
use txn::{Abort, Column, Row, RowBuf, RowMut, TableDef, TableKind, Type};
use wire::{Batch, BatchReader, Caller, Frame, Hello, Piggyback};

/// The messages between instances and clients.
pub const FRAME: Target = Target { name: "frame", seeds: frames, run: frame, pace: Pace::Brisk };
/// Order-preserving keys.
pub const KEY: Target = Target { name: "key", seeds: keys, run: key, pace: Pace::Brisk };
/// Rows of any table.
pub const ROW: Target = Target { name: "row", seeds: rows, run: row, pace: Pace::Brisk };
/// Log records with arbitrary content, repeated on pages.
pub const REDO: Target = Target { name: "redo", seeds: redos, run: redo, pace: Pace::Brisk };

fn frames() -> Vec<Vec<u8>> {
    let gtid = Gtid { home: InstanceId(1), life: 7, number: 99 };
    let mut batch = Batch::default();
    for (tag, body) in [(1, &b"one"[..]), (0xffff, b""), (3, &[0; 300])] {
        let item = batch.open(tag);
        batch.buffer().extend_from_slice(body);
        batch.close(item);
    }
    let messages = [
        Message::Prepare { gtid, lock_point: LockPoint::Reached },
        Message::Vote { gtid, vote: Vote::No },
        Message::Release { gtid },
        Message::Decide { gtid, decision: Decision::Commit },
        Message::Ack { gtid },
        Message::Inquire { gtid },
    ];
    let mut frames = vec![
        Frame::Steps { call: 3, gtid, piggyback: Piggyback::Prepare(LockPoint::Ahead), steps: batch.bytes() },
        Frame::Steps { call: u32::MAX, gtid, piggyback: Piggyback::More, steps: b"" },
        Frame::Steps { call: 4, gtid, piggyback: Piggyback::Check, steps: b"" },
        Frame::StepsDone { call: 3, gtid, outcome: Ok(Some(Vote::Yes)), outputs: batch.bytes() },
        Frame::StepsDone { call: 4, gtid, outcome: Err(Abort::User(5)), outputs: b"" },
        Frame::Submit { call: 1 << 40, request: b"x" },
        Frame::Done { call: 1, outcome: Err(Abort::NoSpace), reply: b"" },
        Frame::Done { call: 1, outcome: Ok(()), reply: &[9; 40] },
        Frame::Known { yours: 3, mine: 1 << 20 },
        Frame::Said { call: 1 << 40, said: b"rows" },
        Frame::More { call: 1 << 40, message: b"statement" },
    ];
    frames.extend(messages.map(Frame::TwoPhase));
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for frame in frames {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        seeds.push(bytes);
    }
    for from in [Caller::Client, Caller::Instance(InstanceId(3), base::WorkerId(1), 7)] {
        seeds.push(Hello { version: wire::VERSION, deployment: 1 << 50, from }.encode());
    }
    seeds
}

fn frame(bytes: &[u8]) {
    let _ = Hello::decode(bytes);
    let Ok(frame) = Frame::decode(bytes) else { return };
    let mut again = Vec::new();
    frame.encode(&mut again);
    assert_eq!(Frame::decode(&again).as_ref(), Ok(&frame), "a frame that was read is written otherwise");
    match frame {
        Frame::Steps { steps: batch, .. } | Frame::StepsDone { outputs: batch, .. } => {
            let mut reader = BatchReader::new(batch);
            let items: usize = reader.by_ref().map(|(_, body)| body.len() + 6).sum();
            assert!(items <= batch.len() && reader.finished() == (items == batch.len()));
        }
        Frame::TwoPhase(message) => {
            let _ = (message.gtid(), message.is_for_coordinator(), twophase::reply_unknown(message));
        }
        Frame::Submit { .. } | Frame::Done { .. } | Frame::Known { .. } => {}
        Frame::Said { .. } | Frame::More { .. } => {}
    }
}

fn keys() -> Vec<Vec<u8>> {
    let keys = [
        Key::new().u32(7).i64(-1).str("a\0b"),
        Key::new().bytes(&[0, 0xff, 0, 0]).u64(u64::MAX),
        Key::new().str("").str(""),
    ];
    // The first byte gives the order in which the parts are read.
    keys.iter().enumerate().map(|(n, key)| [&[n as u8][..], key].concat()).collect()
}

fn key(bytes: &[u8]) {
    let Some((&how, bytes)) = bytes.split_first() else { return };
    let (mut reader, mut how, mut built) = (KeyReader::new(bytes), u32::from(how), Key::new());
    loop {
        let before = reader.rest().len();
        let read = match how % 4 {
            0 => reader.u32().map(|v| built = std::mem::take(&mut built).u32(v)),
            1 => reader.i64().map(|v| built = std::mem::take(&mut built).i64(v)),
            2 => reader.bytes().map(|v| built = std::mem::take(&mut built).bytes(&v)),
            _ => reader.u64().map(|v| built = std::mem::take(&mut built).u64(v)),
        };
        if read.is_none() || before == reader.rest().len() {
            break;
        }
        assert_eq!(&built[..], &bytes[..bytes.len() - reader.rest().len()], "read and written differ");
        how = how.wrapping_mul(5).wrapping_add(3);
    }
    let key = Key::from_bytes(bytes);
    let _ = hash64(&key);
    if let Some(end) = key.prefix_end() {
        assert!(end > key && !end.starts_with(&key), "{key:?} ends at {end:?}");
    }
    // The order of strings is the order of their keys.
    let (a, b) = bytes.split_at(bytes.len() / 2);
    assert_eq!(a.cmp(b), Key::new().bytes(a).cmp(&Key::new().bytes(b)));
}

/// A table as the input describes it.
fn table(input: &mut Input<'_>) -> TableDef {
    let count = usize::from(input.byte() % 9) + 1;
    let mut columns = Vec::new();
    for n in 0..count {
        let (sort, length) = (input.byte(), input.u16());
        let ty = match (sort % 4, sort & 32) {
            (0, 0) => Type::I32,
            (0, _) if length % 2 == 0 => Type::Bool,
            (0, _) => Type::I16,
            (1, 0) => Type::I64,
            (1, _) => Type::Timestamp,
            (2, _) => Type::Char(length.min(1000)),
            _ => Type::Text(length.into()),
        };
        let column = Column::new(&format!("c{n}"), ty);
        columns.push(if sort & 64 == 0 { column } else { column.nullable() });
    }
    let key = (0..count as u16).filter(|n| n % 2 == 0).collect();
    let indexes = vec![txn::IndexDef { id: TableId(2), name: "i".into(), columns: vec![count as u16 - 1] }];
    TableDef { id: TableId(1), name: "t".into(), columns, key, indexes, domain: 1, kind: TableKind::Heap }
}

/// The description of a table in the form that [`table`] reads, and the table.
fn described(columns: &[(u8, u16)]) -> (Vec<u8>, TableDef) {
    let mut bytes = vec![columns.len() as u8 - 1];
    for (sort, length) in columns {
        bytes.push(*sort);
        bytes.extend(length.to_le_bytes());
    }
    let table = table(&mut Input(&bytes));
    (bytes, table)
}

fn rows() -> Vec<Vec<u8>> {
    let tables: [&[(u8, u16)]; 6] = [
        &[(33, 0), (32, 0), (3, 7)],
        &[(1, 0), (67, 20), (0, 0), (3, 9)],
        &[(65, 0), (66, 12), (3, 60_000), (67, 60_000)],
        &[(0, 0)],
        &[(32, 1), (3, 9), (96, 1)],
        &[(3, 40), (3, 40), (67, 40)],
    ];
    let seed = |columns: &&[(u8, u16)]| {
        let (mut bytes, table) = described(columns);
        let mut row = RowBuf::new(&table);
        fill(&mut row.start(), &table, 5);
        put_piece(&mut bytes, row.bytes());
        bytes.extend([1, 7, 2, 9, 0, 0]);
        bytes
    };
    tables.iter().map(seed).collect()
}

/// Sets every column to a value of about `length`.
fn fill(row: &mut RowMut<'_>, table: &TableDef, length: usize) {
    for (n, column) in table.columns.iter().enumerate() {
        match column.ty {
            Type::Bool => row.set_int(n as u16, length as i64 % 2),
            Type::Char(n_bytes) => row.set_bytes(n as u16, &vec![b'x'; n_bytes.into()]),
            Type::Text(most) => row.set_bytes(n as u16, &vec![b'y'; length.min(most as usize)]),
            _ => row.set_int(n as u16, length as i64),
        }
    }
}

fn row(bytes: &[u8]) {
    let mut input = Input(bytes);
    let table = table(&mut input);
    let layout = Layout::of(&table);
    let mut bytes = input.piece().to_vec();
    if !layout.fits(&bytes) {
        return;
    }
    look(&table, Row::new(&layout, &bytes));
    let mut row = RowMut::new(&layout, &mut bytes);
    while !input.is_empty() {
        let (at, length) = (input.byte() as usize % table.columns.len(), input.u16());
        match table.columns[at].ty {
            Type::Bool => row.set_int(at as u16, (length % 2).into()),
            Type::Char(n) => row.set_bytes(at as u16, &vec![length as u8; n.into()]),
            Type::Text(most) => row.set_bytes(at as u16, &vec![b'z'; most.min(length.into()) as usize]),
            Type::I16 => row.set_int(at as u16, i64::from(length as i16)),
            _ => row.set_int(at as u16, length.into()),
        }
        if table.columns[at].nullable && length % 2 == 1 {
            row.set_null(at as u16, true);
        }
        look(&table, row.row());
    }
    // A text longer than its column allows is not a valid row, and may push the other columns
    // beyond the offsets that a row can store.
    let within = |(n, column): (usize, &Column)| match column.ty {
        Type::Text(most) => row.row().bytes(n as u16).len() <= most as usize,
        _ => true,
    };
    if table.columns.iter().enumerate().all(within) {
        assert!(layout.fits(row.row().as_bytes()), "a changed row does not fit any more");
    }
}

fn look(table: &TableDef, row: Row<'_>) {
    for (n, column) in table.columns.iter().enumerate() {
        let n = n as u16;
        let _ = (row.is_null(n), row.bytes(n).len(), row.text(n).len());
        if column.ty.is_number() {
            let _ = row.int(n);
        }
    }
    let key = table.key_of(row);
    let entry = table.entry_of(&table.indexes[0], row);
    assert_eq!(table.key_in_entry(&table.indexes[0], &entry), Some(key), "an entry lost its key");
}

fn redos() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for record in disk::records().iter().filter(|record| record.kind <= access::Kind::LAST) {
        let mut pages = Vec::new();
        access::each_page(record.kind, &record.body, |page, _| pages.push(page.0 as u8));
        // Once on the page in its final state, once on an empty one.
        for page in [pages.first().copied().unwrap_or(0), 0] {
            let mut seed = vec![page, record.kind];
            put_piece(&mut seed, &record.body);
            seeds.push(seed);
        }
    }
    seeds
}

/// `[page number][kind][body with its length]...`, all on the same page.
fn redo(bytes: &[u8]) {
    let mut input = Input(bytes);
    let all = disk::images();
    let (id, image) = &all[input.byte() as usize % all.len()];
    let mut page = Page::zeroed();
    page.bytes_mut().copy_from_slice(&image[..PAGE_SIZE]);
    let mut lsn = Lsn(1 << 40);
    while !input.is_empty() {
        let (kind, body) = (input.byte(), input.piece());
        let mut named = Vec::new();
        let sound = access::each_page(kind, body, |page, how| named.extend(how.changes().then_some(page)));
        let _ = (access::entry_of(kind, body), named.len());
        if !sound {
            continue;
        }
        let id = if named.contains(id) { *id } else { named.first().copied().unwrap_or(PageId(1)) };
        lsn = Lsn(lsn.0 + 8);
        match access::redo_page(id, &mut page, kind, lsn, body) {
            Ok(()) => assert!(page.lsn() == lsn),
            // A restart ends here.
            Err(fault) => return drop(fault.to_string()),
        }
        let _ = access::check_kind(&page);
    }
}
