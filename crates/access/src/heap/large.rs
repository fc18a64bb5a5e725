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

use super::large_page::{
    LargeMut, LargeRowState, LargeView, MAX_ROW, PER_PAGE, format_root, head_bytes, pages_for,
};
use super::rows::Large;
use super::{Heap, slot_zero};
use crate::Journal;
use crate::bytes::Garbled;
use crate::page::{KIND_LARGE_DATA, KIND_LARGE_ROOT, bytes_mut, corrupt, is};
use crate::record::{Action, Kind, SystemBody, slot_front};
use crate::redo::perform;
use base::{Lsn, PageId, Rid};
use latch::{LatchPolicy, Rank};
use pages::{PageMut, PageRef, Pool, Stop};
use std::sync::{Mutex, PoisonError};
use wal::LogOrder;

/// The most partly read rows kept for one heap, of reads that stopped for an absent page and will
/// be repeated.
const KEPT: usize = 8;

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
        let page = self.pool.shared_as::<L>(Rank::HeapPage, root)?;
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
            let page = match self.pool.shared_as::<L>(Rank::HeapPage, id) {
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
        let turned = LargeMut::new(bytes_mut(root)).turn(LargeRowState::Live, LargeRowState::Ghost);
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
        LargeMut::new(bytes_mut(&mut root)).end_as(LargeRowState::Gone);
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
