//! Rows longer than a page: their bytes lie in pages of their own; a stub in the heap page leads to
//! them.
//!
//! ```text
//! heap page: stub (root, length)
//!               \- root -- page 0, page 1, ...    the row: first bytes in the root, then the pages
//!
//! root   HEADER | length u32 | pages u16 | state u8 | 0 u8 | page id u32 of page 0 | 1 | ...
//!               | first bytes of the row
//! data   HEADER | root u32 | index u16 | bytes here u16 | bytes of the row
//! ```
//!
//! A large row is written once. An update writes a new one beside it and changes the stub, so undo
//! only needs to restore the stub. The old large row goes through these states:
//!
//! ```text
//!            make                bury (heap delete)          purge after commit (heap remove)
//!   (free) ------> LIVE ---------------------> GHOST ---------------------------> GONE, pages free
//!            undo: pages free      undo: LIVE again
//! ```
//!
//! Log records name a large row by its root page as if it were slot 0 of a heap page, so restart
//! finds buried large rows like any deleted row. The stub of a deleted row keeps its large row
//! LIVE; purging the stub frees both by one record.
//!
//! **Latch order.** After heap pages; the root before its data pages.

use super::rows::Large;
use super::{Heap, slot_zero};
use crate::Journal;
use crate::bytes::{Bytes, Garbled, put_u16, put_u32, u16_at, u32_at};
use crate::page::{KIND_LARGE_DATA, KIND_LARGE_ROOT, bytes_mut, corrupt, is, name};
use crate::record::{Action, Kind, SystemBody, slot_front};
use crate::redo::perform;
use base::{Lsn, PageId, Rid, TableId};
use latch::LatchPolicy;
use pages::{PAGE_HEADER as HEADER, PAGE_SIZE, Page, PageMut, PageRef, Pool, Stop};
use std::sync::{Mutex, PoisonError};
use wal::LogOrder;

/// The longest row, in bytes. The numbers of its pages leave room for row data in the root
/// (asserted below), and its undo information is small.
pub const MAX_ROW: usize = 4 << 20;

const LENGTH: usize = HEADER;
const PAGES: usize = HEADER + 4;
const STATE: usize = HEADER + 6;
const IDS: usize = HEADER + 8;

const ROOT: usize = HEADER;
const INDEX: usize = HEADER + 4;
const USED: usize = HEADER + 6;
const DATA: usize = HEADER + 8;

/// Bytes of a row in a data page. Less in tests, so that rows have many pages.
const PER_PAGE: usize = if cfg!(test) { 3000 } else { PAGE_SIZE - DATA };

const _: () = assert!(MAX_ROW.div_ceil(PER_PAGE) * 4 + IDS < PAGE_SIZE);

/// The most partly read rows kept for one heap, of reads that stopped for an absent page and will
/// be repeated.
const KEPT: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum LargeRowState {
    Live = 0,
    /// Replaced by a transaction that is still running, or that has committed and left it to be
    /// purged.
    Ghost = 1,
    /// Its pages are free.
    Gone = 2,
}

/// Bytes of the row that lie in a root with `pages` data pages.
fn head_bytes(pages: usize) -> usize {
    (PAGE_SIZE - IDS).saturating_sub(4 * pages).min(PER_PAGE)
}

/// Data pages of a row of `len` bytes.
fn pages_for(len: usize) -> usize {
    let mut pages = len.saturating_sub(head_bytes(0)).div_ceil(PER_PAGE);
    while head_bytes(pages) + pages * PER_PAGE < len {
        pages += 1;
    }
    pages
}

/// The root or a data page of a large row, for reading.
#[derive(Clone, Copy)]
pub(crate) struct LargeView<'a>(&'a Bytes);

impl<'a> LargeView<'a> {
    pub(crate) fn new(bytes: &'a Bytes) -> LargeView<'a> {
        LargeView(bytes)
    }

    pub(super) fn length(self) -> u32 {
        u32_at(self.0, LENGTH)
    }

    pub(super) fn state(self) -> Result<LargeRowState, Garbled> {
        [LargeRowState::Live, LargeRowState::Ghost, LargeRowState::Gone]
            .into_iter()
            .find(|s| *s as u8 == self.0[STATE])
            .ok_or(Garbled)
    }

    fn count(self) -> usize {
        u16_at(self.0, PAGES).into()
    }

    /// The data pages, in the row's order.
    pub(crate) fn pages(self) -> Result<impl ExactSizeIterator<Item = PageId> + use<'a>, Garbled> {
        let length = self.length() as usize;
        if length > MAX_ROW || self.count() != pages_for(length) {
            return Err(Garbled);
        }
        let ids = self.0.get(IDS..IDS + 4 * self.count()).ok_or(Garbled)?.as_chunks::<4>().0;
        Ok(ids.iter().map(|id| PageId(u32::from_le_bytes(*id))))
    }

    /// The row's first bytes.
    fn head(self) -> Result<&'a [u8], Garbled> {
        let from = IDS + 4 * self.count();
        let length = (self.length() as usize).min(head_bytes(self.count()));
        self.0.get(from..from + length).ok_or(Garbled)
    }

    /// The bytes in this page, which must be data page number `index` of the row at `root`.
    fn data(self, root: PageId, index: usize) -> Result<&'a [u8], Garbled> {
        let used = usize::from(u16_at(self.0, USED));
        let found = (PageId(u32_at(self.0, ROOT)), usize::from(u16_at(self.0, INDEX)));
        if found != (root, index) || used > PER_PAGE {
            return Err(Garbled);
        }
        Ok(&self.0[DATA..DATA + used])
    }
}

/// The root or a data page of a large row, for changing.
pub(crate) struct LargeMut<'a>(&'a mut Bytes);

impl<'a> LargeMut<'a> {
    pub(crate) fn new(bytes: &'a mut Bytes) -> LargeMut<'a> {
        LargeMut(bytes)
    }

    /// Formats a root without the row's first bytes.
    pub(super) fn format_root(
        &mut self,
        length: u32,
        pages: impl ExactSizeIterator<Item = PageId>,
    ) -> Result<(), Garbled> {
        self.0[HEADER..].fill(0);
        if length as usize > MAX_ROW || pages.len() != pages_for(length as usize) {
            return Err(Garbled);
        }
        put_u32(self.0, LENGTH, length);
        put_u16(self.0, PAGES, pages.len());
        pages.enumerate().for_each(|(i, page)| put_u32(self.0, IDS + 4 * i, page.0));
        Ok(())
    }

    pub(crate) fn put_head(&mut self, row: &[u8]) -> Result<(), Garbled> {
        let view = LargeView(self.0);
        if row.len() != view.head()?.len() {
            return Err(Garbled);
        }
        let from = IDS + 4 * view.count();
        self.0[from..from + row.len()].copy_from_slice(row);
        Ok(())
    }

    pub(crate) fn format_data(&mut self, root: PageId, index: u16, row: &[u8]) -> Result<(), Garbled> {
        self.0[HEADER..].fill(0);
        if row.len() > PER_PAGE {
            return Err(Garbled);
        }
        put_u32(self.0, ROOT, root.0);
        put_u16(self.0, INDEX, index.into());
        put_u16(self.0, USED, row.len());
        self.0[DATA..DATA + row.len()].copy_from_slice(row);
        Ok(())
    }

    pub(super) fn turn(&mut self, from: LargeRowState, to: LargeRowState) -> Result<(), Garbled> {
        if LargeView(self.0).state()? != from {
            return Err(Garbled);
        }
        self.end_as(to);
        Ok(())
    }

    pub(super) fn end_as(&mut self, state: LargeRowState) {
        self.0[STATE] = state as u8;
    }
}

/// Gives page `root` the content that a [`Kind::LargeMake`] record describes.
pub(super) fn format_root(
    page: &mut Page,
    owner: TableId,
    length: u32,
    pages: impl ExactSizeIterator<Item = PageId>,
) -> Result<(), Garbled> {
    name(page, KIND_LARGE_ROOT, owner);
    LargeMut(page.bytes_mut()).format_root(length, pages)
}

/// Large rows that are partly read. With them, a row of more pages than can be resident together is
/// read to its end over several calls.
///
/// # Access rules
///
/// A thread that begins to read a large row takes the kept part out; a thread that stops for a page
/// puts its part back. A large row never changes, so a part is valid as long as the same row begins
/// at its root, which the root's LSN shows. Only reads that met an absent page put parts here.
pub(super) struct PartialRows(Mutex<Vec<PartialRow>>);

struct PartialRow {
    root: PageId,
    lsn: Lsn,
    pages: usize,
    bytes: Vec<u8>,
}

impl PartialRows {
    pub(super) const fn new() -> PartialRows {
        PartialRows(Mutex::new(Vec::new()))
    }

    fn take(&self, root: PageId, lsn: Lsn) -> Option<PartialRow> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|p| p.root == root && p.lsn == lsn)?;
        Some(kept.swap_remove(at))
    }

    fn give(&self, part: PartialRow) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push(part);
    }
}

impl<'p> Heap<'p> {
    /// The root of a large row, for reading.
    pub(super) fn large_root<L: LatchPolicy>(&self, root: PageId) -> Result<PageRef<'p, L>, Stop> {
        let page = self.pool.shared::<L>(root)?;
        if is(&page, KIND_LARGE_ROOT, self.id) { Ok(page) } else { Err(corrupt(&page)) }
    }

    /// Reads a large row; the caller holds the page of its stub.
    pub(super) fn read_large<L: LatchPolicy>(&self, large: Large) -> Result<Vec<u8>, Stop> {
        let root = self.large_root::<L>(large.root)?;
        let view = LargeView::new(root.bytes());
        if view.length() != large.length || view.state() != Ok(LargeRowState::Live) {
            return Err(corrupt(&root));
        }
        let mut part = match self.hints.parts.take(large.root, root.lsn()) {
            Some(part) => part,
            None => {
                let mut bytes = Vec::with_capacity((large.length as usize).min(MAX_ROW));
                bytes.extend_from_slice(view.head().map_err(|Garbled| corrupt(&root))?);
                PartialRow { root: large.root, lsn: root.lsn(), pages: 0, bytes }
            }
        };
        let pages = view.pages().map_err(|Garbled| corrupt(&root))?;
        for id in pages.skip(part.pages) {
            let page = match self.pool.shared::<L>(id) {
                Ok(page) => page,
                Err(stop) => {
                    self.hints.parts.give(part);
                    return Err(stop);
                }
            };
            if !is(&page, KIND_LARGE_DATA, self.id) {
                return Err(corrupt(&page));
            }
            let bytes = LargeView::new(page.bytes()).data(large.root, part.pages);
            part.bytes.extend_from_slice(bytes.map_err(|Garbled| corrupt(&page))?);
            part.pages += 1;
        }
        if part.bytes.len() == large.length as usize { Ok(part.bytes) } else { Err(corrupt(&root)) }
    }

    /// Writes a row into pages of its own.
    ///
    /// # Errors
    /// [`Stop::NoSpace`] and [`Stop::Fault`]; pages may have been taken, which the transaction's
    /// rollback frees.
    pub(super) fn make_large<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        row: &[u8],
    ) -> Result<Large, Stop> {
        let (mut root, pages) = self.take_pages::<L>(pages_for(row.len()))?;
        let large = Large { root: root.page_id(), length: row.len() as u32 };
        let ids: Vec<u8> = pages.iter().flat_map(|id| id.0.to_le_bytes()).collect();
        let front = slot_front(large.root, self.id, 0);
        // After the records that freed these pages.
        let after = self.pool.log().end();
        let lsn =
            journal.undoable(Kind::LargeMake as u8, after, &[&front, &large.length.to_le_bytes(), &ids]);
        let formatted = format_root(&mut root, self.id, large.length, pages.iter().copied());
        formatted.map_err(|Garbled| corrupt(&root))?;
        root.logged(lsn);
        let (head, rest) = row.split_at(head_bytes(pages.len()).min(row.len()));
        for (index, (id, bytes)) in pages.into_iter().zip(rest.chunks(PER_PAGE)).enumerate() {
            let mut page = fresh::<L>(self.pool, id)?;
            let data = Action::LargeData { root: large.root, index: index as u16, bytes };
            perform(journal, self.id, &SystemBody::new(self.id).with(id, data), &mut [&mut page])?;
        }
        let body = SystemBody::new(self.id).with(large.root, Action::LargeHead(head));
        perform(journal, self.id, &body, &mut [&mut root])?;
        Ok(large)
    }

    /// Takes a root, latched, and `count` more pages. Nothing is logged yet, so a failure here has
    /// no effect.
    fn take_pages<L: LatchPolicy>(&self, count: usize) -> Result<(PageMut<'p, L>, Vec<PageId>), Stop> {
        let mut pages = Vec::with_capacity(count + 1);
        let taken = (0..=count).try_for_each(|_| self.pool.allocate().map(|id| pages.push(id)));
        let root = taken.and_then(|()| fresh::<L>(self.pool, pages[0]));
        match root {
            Ok(root) => {
                pages.remove(0);
                Ok((root, pages))
            }
            Err(stop) => {
                pages.into_iter().for_each(|id| self.pool.free(id));
                Err(stop)
            }
        }
    }

    /// Turns a large row to which its stub does not lead any more into a ghost. The caller holds
    /// its root.
    pub(super) fn bury_large<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        root: &mut PageMut<'p, L>,
    ) -> Result<Rid, Stop> {
        let rid = slot_zero(root.page_id());
        let lsn = journal.undoable(Kind::HeapDelete as u8, root.lsn(), &[&self.front(rid)]);
        let turned = LargeMut(bytes_mut(root)).turn(LargeRowState::Live, LargeRowState::Ghost);
        turned.map_err(|Garbled| corrupt(root))?;
        root.logged(lsn);
        Ok(rid)
    }

    /// The numbers of all pages of the large row at `root`, the root's first, in the order of the
    /// log record.
    pub(super) fn pages_of_large<L: LatchPolicy>(&self, root: PageId) -> Result<Vec<PageId>, Stop> {
        let page = self.large_root::<L>(root)?;
        let pages = LargeView::new(page.bytes()).pages().map_err(|Garbled| corrupt(&page))?;
        Ok([root].into_iter().chain(pages).collect())
    }

    /// Frees the pages of a large row that was buried; `false` if it was not. The caller holds its
    /// root.
    pub(super) fn purge_large<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        mut root: PageMut<'p, L>,
    ) -> Result<bool, Stop> {
        let view = LargeView::new(root.bytes());
        let state = view.state().map_err(|Garbled| corrupt(&root))?;
        if state != LargeRowState::Ghost {
            return Ok(false);
        }
        let pages = view.pages().map_err(|Garbled| corrupt(&root))?;
        let freed: Vec<PageId> = [root.page_id()].into_iter().chain(pages).collect();
        let front = self.front(slot_zero(root.page_id()));
        let lsn = journal.system(Kind::HeapRemove as u8, LogOrder::Last, &[&front, &listed(&freed)]);
        LargeMut(bytes_mut(&mut root)).end_as(LargeRowState::Gone);
        root.logged(lsn);
        drop(root);
        freed.into_iter().for_each(|id| self.pool.free(id));
        Ok(true)
    }
}

/// Page numbers in the form of the log record.
pub(super) fn listed(pages: &[PageId]) -> Vec<u8> {
    pages.iter().flat_map(|id| id.0.to_le_bytes()).collect()
}

/// Latches a page that was just allocated. Only a thread that still writes its old content out can
/// hold it, and only for a short time.
fn fresh<L: LatchPolicy>(pool: &Pool, id: PageId) -> Result<PageMut<'_, L>, Stop> {
    loop {
        match pool.fresh::<L>(id) {
            Err(Stop::Again | Stop::Page(_)) => std::thread::yield_now(),
            taken => return taken,
        }
    }
}

/// The number of the large row's bytes in its root (`place` is `None`) or in one of its data pages
/// (its root and index).
pub(super) fn bytes_in(page: &Page, place: Option<(PageId, usize)>) -> Result<usize, Garbled> {
    let view = LargeView(page.bytes());
    let bytes = match place {
        None => view.head(),
        Some((root, index)) => view.data(root, index),
    };
    bytes.map(<[u8]>::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_as_many_as_the_bytes_need() {
        for len in (8000..60_000).step_by(37).chain([MAX_ROW - 1, MAX_ROW]) {
            let pages = pages_for(len);
            let room = |pages: usize| head_bytes(pages) + pages * PER_PAGE;
            assert!(room(pages) >= len && (pages == 0 || room(pages - 1) < len), "{len} in {pages}");
        }
    }
}
