//! Redo: carries out the change that a log record describes, the first time and again at restart.
//!
//! Structure modifications are performed *from their log record*, so a replay cannot differ from
//! the first execution. Changes to one page call the same page functions in both cases; only the
//! first execution already knows the position.

use crate::Journal;
use crate::bytes::Garbled;
use crate::heap::{self, DirectoryMut, LargeMut, RootMut, RowsMut};
use crate::page::{
    KIND_DIRECTORY, KIND_HEAP_ROOT, KIND_LARGE_DATA, KIND_LARGE_ROOT, KIND_NODE, KIND_PARTITIONS, KIND_ROWS,
    bad_record, is, malformed, name,
};
use crate::record::{Action, Change, Kind, Record, SystemBody, each_page};
use crate::tree::{NodeMut, Probe, format_table};
use base::{Lsn, PageId, TableId};
use latch::{Coupled, LatchPolicy};
use pages::{Page, PageFault, PageMut, Pool, Stop};
use std::sync::Arc;
use wal::{LogOrder, RecordHeader};

/// Repeats the record's changes on those of its pages that do not carry them yet.
///
/// `lsn` is the LSN that the journal returned when the record was written. Redo is idempotent: it
/// compares each page's LSN with `lsn`. So after [`Stop::Page`] the caller loads that page (a page
/// never written loads as zeros) and calls again. The records of each page must come in log order.
///
/// # Errors
/// [`Stop`]. A record that does not fit the page it names, or bytes that form no record, are
/// [`Stop::Fault`].
pub fn redo(pool: &Pool, header: &RecordHeader, lsn: Lsn, body: &[u8]) -> Result<(), Stop> {
    let mut pages = Vec::new();
    if !each_page(header.kind, body, |page, how| pages.extend(how.changes().then_some(page))) {
        return Err(bad_record(header.kind, "is malformed"));
    }
    for id in pages {
        let mut page = pool.exclusive::<Coupled>(id)?;
        redo_page(id, &mut page, header.kind, lsn, body).map_err(|fault| Stop::Fault(Arc::new(fault)))?;
    }
    Ok(())
}

/// Repeats the record's change to `page`, which is page `id`, unless the page carries it already.
/// The change depends on that page and the record alone. So pages may be brought up to date in any
/// order and by different threads, as long as each page gets its own records in log order.
///
/// # Errors
/// A record that does not fit the page, or bytes that form no record.
pub fn redo_page(id: PageId, page: &mut Page, kind: u8, lsn: Lsn, body: &[u8]) -> Result<(), PageFault> {
    if page.lsn() >= lsn {
        return Ok(());
    }
    let misfit = |Garbled| PageFault::Malformed { page: id };
    let garbled = |Garbled| PageFault::Record { kind, why: "is malformed" };
    match Record::decode(kind, body).map_err(garbled)? {
        Record::One { owner, change, .. } => apply(page, owner, change).map_err(misfit)?,
        Record::System { owner, actions } => {
            for action in actions {
                let (of, action) = action.map_err(garbled)?;
                if of == id && action != Action::Freed {
                    act(page, owner, action).map_err(misfit)?;
                }
            }
        }
    }
    page.set_lsn(lsn);
    Ok(())
}

/// Repeats a change to one page; the position is found by key or slot.
fn apply(page: &mut Page, owner: TableId, change: Change<'_>) -> Result<(), Garbled> {
    match change {
        Change::TreeInsert { .. }
        | Change::TreeDelete { .. }
        | Change::TreeReplace { .. }
        | Change::TreeUpdate { .. } => {
            if !is(page, KIND_NODE, owner) {
                return Err(Garbled);
            }
            entry(&mut NodeMut::new(page.bytes_mut()), change)
        }
        change => heap::apply(page, owner, change),
    }
}

fn entry(node: &mut NodeMut<'_>, change: Change<'_>) -> Result<(), Garbled> {
    match change {
        Change::TreeInsert { key, value } => {
            let at = node.node().search(Probe::new(key))?.err().ok_or(Garbled)?;
            node.insert(at, key, value)
        }
        Change::TreeDelete { key, .. } => {
            let at = node.node().search(Probe::new(key))?.map_err(|_| Garbled)?;
            node.remove(at)
        }
        Change::TreeReplace { key, new, .. } => {
            let at = node.node().search(Probe::new(key))?.map_err(|_| Garbled)?;
            node.set_value(at, new)
        }
        Change::TreeUpdate { key, at: from, old, new } => {
            let at = node.node().search(Probe::new(key))?.map_err(|_| Garbled)?;
            node.splice(at, from, old.len(), new)
        }
        _ => Err(Garbled),
    }
}

/// The part of a system record that concerns one page.
fn act(page: &mut Page, owner: TableId, action: Action<'_>) -> Result<(), Garbled> {
    let (kind, formats) = (kind_of(action), action.formats());
    if formats {
        name(page, kind, owner);
    } else if !is(page, kind, owner) {
        return Err(Garbled);
    }
    let bytes = page.bytes_mut();
    match action {
        Action::Node(image) => NodeMut::new(bytes).format(image),
        Action::Cut(fence) => NodeMut::new(bytes).cut(fence),
        Action::Link { child, key } => link(&mut NodeMut::new(bytes), key, &child.0.to_le_bytes()),
        Action::Unlink { key } => unlink(&mut NodeMut::new(bytes), key).map(|_| ()),
        Action::Relink { old, new } => {
            let node = &mut NodeMut::new(bytes);
            let child = unlink(node, old)?;
            link(node, new, &child)
        }
        Action::Freed => Ok(()),
        Action::HeapRoot => {
            RootMut::new(bytes).format();
            Ok(())
        }
        Action::HeapDirectory => {
            DirectoryMut::new(bytes).format();
            Ok(())
        }
        Action::HeapPage { ordinal } => {
            RowsMut::new(bytes).format(ordinal);
            Ok(())
        }
        Action::RootAdd { directory } => RootMut::new(bytes).add(directory),
        Action::DirectoryAdd { page, class } => DirectoryMut::new(bytes).add(page, class),
        Action::Class { index, class } => DirectoryMut::new(bytes).set_class(index.into(), class),
        Action::HeapImage { ordinal, head, content } => RowsMut::new(bytes).fill(ordinal, head, content),
        Action::LargeData { root, index, bytes: row } => LargeMut::new(bytes).format_data(root, index, row),
        Action::LargeHead(row) => LargeMut::new(bytes).put_head(row),
        Action::Partitions(image) => format_table(bytes, image),
    }
}

fn kind_of(action: Action<'_>) -> u8 {
    match action {
        Action::HeapRoot | Action::RootAdd { .. } => KIND_HEAP_ROOT,
        Action::HeapDirectory | Action::DirectoryAdd { .. } | Action::Class { .. } => KIND_DIRECTORY,
        Action::HeapPage { .. } | Action::HeapImage { .. } => KIND_ROWS,
        Action::LargeData { .. } => KIND_LARGE_DATA,
        Action::LargeHead(_) => KIND_LARGE_ROOT,
        Action::Partitions(_) => KIND_PARTITIONS,
        _ => KIND_NODE,
    }
}

fn link(node: &mut NodeMut<'_>, key: &[u8], child: &[u8; 4]) -> Result<(), Garbled> {
    let at = node.node().search(Probe::new(key))?.err().ok_or(Garbled)?;
    node.insert(at, key, child)
}

fn unlink(node: &mut NodeMut<'_>, key: &[u8]) -> Result<[u8; 4], Garbled> {
    let at = node.node().search(Probe::new(key))?.map_err(|_| Garbled)?;
    let child = node.node().value(at)?.try_into().map_err(|_| Garbled)?;
    node.remove(at)?;
    Ok(child)
}

/// Logs a structure modification and carries it out on the pages, all of which the caller holds
/// exclusively.
pub(crate) fn perform<L: LatchPolicy>(
    journal: &mut impl Journal,
    owner: TableId,
    body: &SystemBody,
    pages: &mut [&mut PageMut<'_, L>],
) -> Result<(), Stop> {
    let lsn = journal.system(Kind::System as u8, LogOrder::Last, &[body.as_slice()]);
    let Ok(Record::System { actions, .. }) = Record::decode(Kind::System as u8, body.as_slice()) else {
        unreachable!("a body that was built here");
    };
    for action in actions {
        let (id, action) = action.map_err(|Garbled| malformed(pages[0].page_id()))?;
        if action == Action::Freed {
            continue;
        }
        let page =
            pages.iter_mut().find(|p| p.page_id() == id).expect("the caller holds every page it changes");
        act(page, owner, action).map_err(|Garbled| malformed(id))?;
        page.logged(lsn);
    }
    Ok(())
}
