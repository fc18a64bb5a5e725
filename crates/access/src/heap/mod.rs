//! The heap: rows that keep their address.
//!
//! ```text
//! root -- directory 0 -- page, page, page, ...     (with the free-space class of each)
//!      \- directory 1 -- page, page, ...
//! ```
//!
//! **Read.** A reader goes straight to the page that a [`Rid`] names: one latch.
//!
//! **Insert.** A row goes to the worker's own current page ([`InsertPages`]), so that workers do
//! not contend. When that page is full, it goes to a page that has room by its directory's entry,
//! and otherwise to a new page.
//!
//! **Delete.** The row becomes a ghost; [`Heap::purge`] removes it after the deletion has
//! committed. Until then the ghost keeps its bytes, so an undo of the deletion needs no room.
//!
//! **Address.** A row that outgrows its page moves and leaves a *forward* at its address. A forward
//! always leads to the row itself, never to another forward; when the row moves again, the forward
//! is changed. A row longer than a page lies in pages of its own (`large`), with a stub at its
//! address. A caller that prefers a new address over the detour asks for moves to be reported
//! ([`Moves::Report`]) and changes the indexes.
//!
//! **Choice of page.** A row goes to any page with room, unless the caller lists the pages that it
//! may lie in ([`Heap::among`]). With such lists, pages can be divided among ranges of keys, and be
//! owned with them; this crate does not know the ranges (see `row_placement`).
//!
//! **Latch order.** Root, then directory, then at most a new page that no other thread can reach.
//! Several heap pages are held together only to move a row or to delete a moved row; they are
//! latched in the order of their numbers, and after them the pages of large rows.

mod change;
mod directory;
mod dividing;
mod fill;
mod large;
mod large_page;
mod row_placement;
mod rows;
mod slot;
mod space;
mod verify;

#[cfg(test)]
mod row_placement_tests;
#[cfg(test)]
mod tests;

pub use change::{HeapModify, HeapUpdate, Moves};
pub(crate) use directory::{Directory, DirectoryMut, Root, RootMut};
pub use dividing::PageSummary;
pub use fill::HeapFiller;
pub use large_page::MAX_ROW;
pub(crate) use large_page::{LargeMut, LargeView};
pub(crate) use rows::{Cell, Rows, RowsMut};
pub(crate) use slot::Form;
pub use space::InsertPages;
pub use verify::{HeapFlaw, HeapReport};

use crate::Journal;
use crate::bytes::Garbled;
use crate::page::{KIND_LARGE_ROOT, KIND_ROWS, ROWS_MARK, bytes_mut, corrupt, is, too_long};
use crate::record::{Change, Kind, Record, range_front, replace_front, slot_front};
use base::{Lsn, PageId, Rid, TableId};
use large_page::LargeRowState;
use latch::{LINE, LatchPolicy, Rank};
use pages::{PAGE_SIZE, Page, PageMut, PageRef, PageView, Pool, Stop};
use rows::{INLINE, plain_at, slot_at};
use slot::LEAST_ROOM;
use wal::LogOrder;

/// How often a reader without a latch tries before it takes one. Each try fails because a writer
/// changes the page during it.
const TRIES: usize = 16;

/// A heap in a pool: a handle of a few words, made for each use.
#[derive(Clone, Copy)]
pub struct Heap<'p> {
    pool: &'p Pool,
    root: PageId,
    id: TableId,
    hints: &'p InsertPages,
    /// The pages to which new rows and rows that outgrow their page may go; `None`: any page. Set
    /// by [`Heap::among`].
    candidates: Option<&'p [PageId]>,
}

/// A position in a walk through a heap; the default is its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeapPlace {
    /// The number of the page in its heap.
    pub ordinal: u32,
    pub slot: u16,
}

/// The most bytes of a row that are prefetched.
const ROW_AHEAD: usize = 512;

impl<'p> Heap<'p> {
    /// The heap of which the root lies in page `root`. `hints` lives with the table and is shared
    /// by all workers.
    pub fn open(pool: &'p Pool, root: PageId, id: TableId, hints: &'p InsertPages) -> Heap<'p> {
        Heap { pool, root, id, hints, candidates: None }
    }

    /// Makes an empty heap and returns its root page, which the caller keeps in the catalog.
    ///
    /// # Errors
    /// The pool's [`Stop`] when it has no page left.
    pub fn create<L: LatchPolicy>(
        pool: &Pool,
        journal: &mut impl Journal,
        id: TableId,
    ) -> Result<PageId, Stop> {
        let page = pool.allocate()?;
        Self::create_at::<L>(pool, journal, id, page).inspect_err(|_| pool.free(page))?;
        Ok(page)
    }

    /// As [`Heap::create`], with the root in a page that the caller has allocated.
    ///
    /// # Errors
    /// The pool's [`Stop`] when no frame is free; nothing was changed.
    pub fn create_at<L: LatchPolicy>(
        pool: &Pool,
        journal: &mut impl Journal,
        id: TableId,
        page: PageId,
    ) -> Result<(), Stop> {
        space::create_at::<L>(pool, journal, id, page)
    }

    pub fn root(&self) -> PageId {
        self.root
    }

    pub fn id(&self) -> TableId {
        self.id
    }

    #[inline]
    fn rows<'a>(&self, page: &'a Page, id: PageId) -> Result<Rows<'a>, Stop> {
        rows_of(page, id, self.id)
    }

    /// Adds a row and returns its address.
    ///
    /// # Errors
    /// [`Stop`]: no row was added; [`Stop::Fault`] also when the row is longer than [`MAX_ROW`].
    /// When a row longer than a page meets [`Stop::NoSpace`] or a fault, pages may already have
    /// been taken for it; only undo frees them.
    pub fn insert<L: LatchPolicy>(&self, journal: &mut impl Journal, row: &[u8]) -> Result<Rid, Stop> {
        check_length(row)?;
        if row.len() > INLINE {
            let mut page = self.page_for::<L>(journal, LEAST_ROOM)?;
            let large = self.make_large::<L>(journal, row)?;
            return self.place(journal, &mut page, Cell::Large(large));
        }
        let mut page = self.page_for::<L>(journal, row.len())?;
        self.place(journal, &mut page, Cell::Row(row))
    }

    /// Puts a cell into a page that has room.
    fn place<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        page: &mut PageMut<'p, L>,
        cell: Cell<'_>,
    ) -> Result<Rid, Stop> {
        let rid = Rid {
            page: page.page_id(),
            slot: Rows::new(page.bytes()).next_slot().map_err(|Garbled| corrupt(page))?,
        };
        let (form, (tag, rest)) = (cell.form(), cell.parts());
        let kind = if form == Form::Plain { Kind::HeapInsert } else { Kind::HeapPlace };
        let lsn = journal.undoable(kind as u8, page.lsn(), &[&self.front(rid), tag.as_slice(), rest]);
        change(page, lsn, |rows| rows.insert(rid.slot, form, tag.as_slice(), rest))?;
        Ok(rid)
    }

    fn front(&self, rid: Rid) -> [u8; 8] {
        slot_front(rid.page, self.id, rid.slot)
    }

    /// Calls `f` on the row at `rid`: under its page's latch, or on a validated copy where readers
    /// take no latch. `None` if there is no row.
    ///
    /// # Errors
    /// [`Stop`]; `f` was not called.
    #[inline]
    pub fn read<L: LatchPolicy, R>(&self, rid: Rid, f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Stop> {
        if !(L::LATCHED && self.pool.views::<L>()) {
            return self.read_held::<L, R>(rid, f);
        }
        let mut f = Some(f);
        for _ in 0..TRIES {
            let view = self.pool.view::<L>(rid.page)?;
            // A forward or a large row needs the latched path, because it may lead to other pages.
            let Some((at, len)) = self.plain_in(view, rid.slot) else { break };
            if let Some(done) = view.copied::<L, _>(at, len, |row| f.take().map(|f| f(row))) {
                return Ok(done);
            }
        }
        f.map_or(Ok(None), |f| self.read_held::<L, R>(rid, f))
    }

    /// Prefetches the row at `rid`, which the caller reads next. With `row_bytes`, the row's place
    /// is computed as in a page that was filled with rows of that length one after the other; so
    /// slot and row are prefetched at once.
    #[inline]
    pub fn ask(&self, rid: Rid, row_bytes: Option<usize>) {
        let slot = slot_at(rid.slot);
        let row = row_bytes
            .map_or(slot, |len| PAGE_SIZE.wrapping_sub((usize::from(rid.slot) + 1) * len.max(LEAST_ROOM)));
        self.pool.prefetch_lines(rid.page, [0, slot, row, row + LINE]);
    }

    /// The first of two prefetches for the row at `rid`: its slot. Takes no latch.
    #[inline]
    pub fn prefetch_slot<L: LatchPolicy>(&self, rid: Rid) {
        match self.pool.glance::<L>(rid.page) {
            Ok(view) => {
                view.prefetch(0, 1);
                view.prefetch(slot_at(rid.slot), 1);
            }
            Err(Stop::Page(page)) => self.pool.prefetch_beside(page),
            Err(_) => {}
        }
    }

    /// The second prefetch: the row itself.
    #[inline]
    pub fn prefetch_row<L: LatchPolicy>(&self, rid: Rid) {
        if let Ok(view) = self.pool.glance::<L>(rid.page)
            && let Ok(Some((at, len))) = plain_at(view.bytes(), rid.slot)
        {
            view.prefetch(at, len.min(ROW_AHEAD));
        }
    }

    /// Offset and length of the row, if the page belongs to this heap and the slot holds a plain
    /// row.
    #[inline]
    fn plain_in(&self, view: PageView<'_>, slot: u16) -> Option<(usize, usize)> {
        let page = view.bytes();
        let ours =
            (page.word(0) >> 32) as u16 == ROWS_MARK && (page.word(2) >> 32) as u32 == u32::from(self.id.0);
        plain_at(page, slot).ok().flatten().filter(|_| ours)
    }

    #[inline]
    fn read_held<L: LatchPolicy, R>(&self, rid: Rid, f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Stop> {
        let page = self.page_to_read::<L>(rid.page)?;
        if is(&page, KIND_ROWS, self.id)
            && let Some(row) = Rows::new(page.bytes()).plain(rid.slot).map_err(|Garbled| corrupt(&page))?
        {
            return Ok(Some(f(row)));
        }
        self.read_special(page, rid, f)
    }

    /// As [`Heap::read`], for a slot that does not hold a plain row.
    #[cold]
    fn read_special<L: LatchPolicy, R>(
        &self,
        page: PageRef<'p, L>,
        rid: Rid,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Stop> {
        // Restart names a large row by its root page; that is no row's address.
        if is(&page, KIND_LARGE_ROOT, self.id) {
            return Ok(None);
        }
        match self.rows(&page, rid.page)?.cell(rid.slot).map_err(|Garbled| corrupt(&page))? {
            None | Some(Cell::Moved { .. }) => Ok(None),
            Some(Cell::Row(row)) => Ok(Some(f(row))),
            Some(Cell::Large(large)) => self.read_large::<L>(large).map(|row| Some(f(&row))),
            Some(Cell::Forward(to)) => {
                // The two pages are not latched together: their numbers may be in the wrong latch
                // order.
                drop(page);
                let page = self.pool.shared_as::<L>(Rank::HeapPage, to.page)?;
                match self.rows(&page, to.page)?.cell(to.slot).map_err(|Garbled| corrupt(&page))? {
                    Some(Cell::Moved { home, row }) if home == rid => Ok(Some(f(row))),
                    // The row moved after the forward was read.
                    _ => Err(Stop::Again),
                }
            }
        }
    }

    /// As [`Heap::read`], also for a row that moved to `rid` from its address. For callers that
    /// have the place from a log record and not from an index.
    ///
    /// # Errors
    /// [`Stop`]; `f` was not called.
    pub fn read_at<L: LatchPolicy, R>(
        &self,
        rid: Rid,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Stop> {
        let page = self.pool.shared_as::<L>(Rank::HeapPage, rid.page)?;
        if is(&page, KIND_ROWS, self.id)
            && let Ok(Some(Cell::Moved { row, .. })) = Rows::new(page.bytes()).cell(rid.slot)
        {
            return Ok(Some(f(row)));
        }
        self.read_special(page, rid, f)
    }

    /// Makes the row at `rid` a ghost: readers do not see it, and it keeps its place until
    /// [`Heap::purge`]. `false` if there is no row.
    ///
    /// # Errors
    /// [`Stop`]: nothing was changed.
    pub fn delete<L: LatchPolicy>(&self, journal: &mut impl Journal, rid: Rid) -> Result<bool, Stop> {
        let mut page = self.page_to_change::<L>(rid.page)?;
        let to = match self.rows(&page, rid.page)?.cell(rid.slot).map_err(|Garbled| corrupt(&page))? {
            None | Some(Cell::Moved { .. }) => return Ok(false),
            Some(Cell::Row(_) | Cell::Large(_)) => {
                self.bury(journal, &mut page, rid.slot)?;
                return Ok(true);
            }
            Some(Cell::Forward(to)) => to,
        };
        drop(page);
        let mut held = self.hold::<L>([rid.page, to.page])?;
        let found = Rows::new(held.page(rid.page).bytes()).cell(rid.slot);
        if found != Ok(Some(Cell::Forward(to))) {
            return Err(Stop::Again);
        }
        self.bury(journal, held.page(to.page), to.slot)?;
        self.bury(journal, held.page(rid.page), rid.slot)?;
        Ok(true)
    }

    fn bury<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        page: &mut PageMut<'p, L>,
        slot: u16,
    ) -> Result<(), Stop> {
        let front = self.front(Rid { page: page.page_id(), slot });
        let lsn = journal.undoable(Kind::HeapDelete as u8, page.lsn(), &[&front]);
        change(page, lsn, |rows| rows.bury(slot))
    }

    /// Removes the remains of a committed delete or update at `rid`: a ghost, with the moved row or
    /// the large row that it leads to, or a large row that was replaced. `false` if there is
    /// nothing to remove; so a second call has no effect.
    ///
    /// # Errors
    /// [`Stop`]: call again, part of the work may be done.
    pub fn purge<L: LatchPolicy>(&self, journal: &mut impl Journal, rid: Rid) -> Result<bool, Stop> {
        let page = self.page_to_change::<L>(rid.page)?;
        if is(&page, KIND_LARGE_ROOT, self.id) {
            return self.purge_large(journal, page);
        }
        match self.ghost_in(&page, rid)? {
            None => Ok(false),
            Some(Cell::Row(_) | Cell::Moved { .. }) => self.remove(journal, page, rid.slot, &[]),
            Some(Cell::Large(large)) => {
                let freed = self.pages_of_large::<L>(large.root)?;
                self.remove(journal, page, rid.slot, &freed)
            }
            Some(Cell::Forward(to)) => {
                drop(page);
                let there = self.pool.exclusive_as::<L>(Rank::HeapPage, to.page)?;
                // Restart may have purged the moved row already, and the slot may hold another row.
                if matches!(self.ghost_in(&there, to)?, Some(Cell::Moved { home, .. }) if home == rid) {
                    self.remove(journal, there, to.slot, &[])?;
                } else {
                    drop(there);
                }
                let page = self.pool.exclusive_as::<L>(Rank::HeapPage, rid.page)?;
                match self.ghost_in(&page, rid)? {
                    Some(Cell::Forward(again)) if again == to => self.remove(journal, page, rid.slot, &[]),
                    _ => Ok(false),
                }
            }
        }
    }

    fn ghost_in<'a, L: LatchPolicy>(
        &self,
        page: &'a PageMut<'p, L>,
        rid: Rid,
    ) -> Result<Option<Cell<'a>>, Stop> {
        let rows = self.rows(page, rid.page)?;
        let find = || {
            let ghost = rows.slot(rid.slot)?.is_ghost();
            if ghost { rows.any_cell(rid.slot) } else { Ok(None) }
        };
        find().map_err(|Garbled| corrupt(page))
    }

    /// Frees a slot and, by the same record, the pages to which only this slot led.
    fn remove<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        mut page: PageMut<'p, L>,
        slot: u16,
        freed: &[PageId],
    ) -> Result<bool, Stop> {
        let before = Rows::new(page.bytes()).class();
        let front = self.front(Rid { page: page.page_id(), slot });
        // A freed page may be allocated again at once. The records of its next use must come after
        // this one, and this one after all earlier records of the page.
        let order = if freed.is_empty() { LogOrder::After(page.lsn()) } else { LogOrder::Last };
        let lsn = journal.system(Kind::HeapRemove as u8, order, &[&front, &large::listed(freed)]);
        change(&mut page, lsn, |rows| rows.remove(slot))?;
        let rows = Rows::new(page.bytes());
        let (ordinal, class, id) = (rows.ordinal(), rows.class(), page.page_id());
        drop(page);
        if class == rows::EMPTY {
            self.vacate(id)?;
        }
        freed.iter().for_each(|id| self.pool.free(*id));
        if class > before {
            // An error is ignored: the class in the directory may lag behind the page.
            let _ = self.note_class::<L>(journal, ordinal, class);
        }
        Ok(true)
    }

    /// Calls `visit` with rows and their addresses, from `place` to the end of its page or through
    /// the first large row. Returns the place to go on from, `None` after the last page.
    ///
    /// # Errors
    /// [`Stop`]; some rows may have been visited already.
    pub fn chunk<L: LatchPolicy>(
        &self,
        place: HeapPlace,
        mut visit: impl FnMut(Rid, &[u8]),
    ) -> Result<Option<HeapPlace>, Stop> {
        let Some(id) = self.page_at::<L>(place.ordinal)? else { return Ok(None) };
        let page = self.pool.shared_as::<L>(Rank::HeapPage, id)?;
        let rows = self.rows(&page, id)?;
        for slot in place.slot..rows.slots() {
            let rid = Rid { page: id, slot };
            match rows.cell(slot).map_err(|Garbled| corrupt(&page))? {
                None | Some(Cell::Forward(_)) => {}
                Some(Cell::Row(row)) => visit(rid, row),
                Some(Cell::Moved { home, row }) => visit(home, row),
                Some(Cell::Large(large)) => {
                    visit(rid, &self.read_large::<L>(large)?);
                    return Ok(Some(HeapPlace { slot: slot + 1, ..place }));
                }
            }
        }
        Ok(Some(HeapPlace { ordinal: place.ordinal + 1, slot: 0 }))
    }
}

/// Whether a row of `bytes` bytes fits a heap page wherever it moves, and so never needs pages of
/// its own.
pub fn fits_page(bytes: usize) -> bool {
    bytes + rows::MOVED <= INLINE
}

/// The address by which log records name a large row: slot 0 of its root page.
fn slot_zero(page: PageId) -> Rid {
    Rid { page, slot: 0 }
}

/// The rows of `page`, if it is a heap page of heap `owner`.
#[inline]
fn rows_of(page: &Page, id: PageId, owner: TableId) -> Result<Rows<'_>, Stop> {
    if is(page, KIND_ROWS, owner) { Ok(Rows::new(page.bytes())) } else { Err(crate::page::malformed(id)) }
}

fn check_length(row: &[u8]) -> Result<(), Stop> {
    if row.len() > MAX_ROW { Err(too_long("row", row.len(), MAX_ROW)) } else { Ok(()) }
}

/// Applies a change, logged at `lsn`, to a heap page. A page on which it fails is corrupt.
fn change<L: LatchPolicy>(
    page: &mut PageMut<'_, L>,
    lsn: Lsn,
    change: impl FnOnce(&mut RowsMut<'_>) -> Result<(), Garbled>,
) -> Result<(), Stop> {
    change(&mut RowsMut::new(bytes_mut(page))).map_err(|Garbled| corrupt(page))?;
    page.logged(lsn);
    Ok(())
}

/// Carries out a heap record on its page, the first time or at redo.
pub(crate) fn apply(page: &mut Page, owner: TableId, change: Change<'_>) -> Result<(), Garbled> {
    if let Change::LargeMake { length, pages } = change {
        return large_page::format_root(page, owner, length, pages.iter());
    }
    if is(page, KIND_LARGE_ROOT, owner) {
        return apply_to_root(&mut LargeMut::new(page.bytes_mut()), change);
    }
    if !is(page, KIND_ROWS, owner) {
        return Err(Garbled);
    }
    let rows = &mut RowsMut::new(page.bytes_mut());
    match change {
        Change::HeapInsert { slot, row } => rows.insert(slot, Form::Plain, &[], row),
        Change::HeapPlace { slot, content } => rows.insert(slot, Form::Special, &[], content),
        Change::HeapUpdate { slot, at, old, new } => rows.splice(slot, at, old.len(), new),
        Change::HeapReplace { slot, new: (form, content), .. } => rows.replace(slot, form, content),
        Change::HeapDelete { slot } => rows.bury(slot),
        Change::HeapRestore { slot } => rows.restore(slot),
        Change::HeapRemove { slot, .. } => rows.remove(slot),
        _ => Err(Garbled),
    }
}

fn apply_to_root(root: &mut LargeMut<'_>, change: Change<'_>) -> Result<(), Garbled> {
    match change {
        Change::HeapDelete { .. } => root.turn(LargeRowState::Live, LargeRowState::Ghost),
        Change::HeapRestore { .. } => root.turn(LargeRowState::Ghost, LargeRowState::Live),
        Change::HeapRemove { .. } => {
            root.end_as(LargeRowState::Gone);
            Ok(())
        }
        _ => Err(Garbled),
    }
}

/// Undoes one change to a heap page by its inverse, which the journal logs as a compensation
/// record.
pub(crate) fn compensate<L: LatchPolicy>(
    pool: &Pool,
    journal: &mut impl Journal,
    owner: TableId,
    page: PageId,
    undone: Change<'_>,
) -> Result<(), Stop> {
    let mut page = pool.exclusive_as::<L>(Rank::HeapPage, page)?;
    let id = page.page_id();
    let front = |slot| slot_front(id, owner, slot);
    let mut freed = Vec::new();
    let (kind, body) = match undone {
        Change::HeapInsert { slot, .. } | Change::HeapPlace { slot, .. } => {
            (Kind::HeapRemove, [&front(slot)[..]].concat())
        }
        Change::HeapUpdate { slot, at, old, new } => {
            (Kind::HeapUpdate, [&front(slot)[..], &range_front(at, new.len()), new, old].concat())
        }
        Change::HeapReplace { slot, old, new } => {
            let forms = replace_front((new.0, new.1.len()), old.0);
            (Kind::HeapReplace, [&front(slot)[..], &forms, new.1, old.1].concat())
        }
        Change::HeapDelete { slot } => (Kind::HeapRestore, front(slot).to_vec()),
        Change::LargeMake { pages, .. } => {
            freed = [id].into_iter().chain(pages.iter()).collect();
            (Kind::HeapRemove, [&front(0)[..], &large::listed(&freed)].concat())
        }
        _ => return Ok(()),
    };
    let after = if freed.is_empty() { page.lsn() } else { pool.log().end() };
    let lsn = journal.undoable(kind as u8, after, &[&body]);
    let Ok(Record::One { change, .. }) = Record::decode(kind as u8, &body) else {
        unreachable!("a body that was built here")
    };
    apply(&mut page, owner, change).map_err(|Garbled| corrupt(&page))?;
    page.logged(lsn);
    drop(page);
    freed.into_iter().for_each(|id| pool.free(id));
    Ok(())
}
