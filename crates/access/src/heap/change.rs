//! Updating rows: in place, or at a new place where they fit.
//!
//! ```text
//!                       the new row fits ...               then it lies
//!   at its address:     its page                           there
//!   where it moved to:  that page                          there, behind the same forward
//!   some heap page:     with its address in front          in that page, behind a forward
//!   none of these                                          in pages of its own, with a stub
//! ```
//!
//! The lines are tried from the top; each applies only if those above do not. The first two change
//! bytes of the row. The others write up to three records: they write the row at its new place,
//! then change the content at the address (to a forward, a stub or the row), then bury the old
//! content if it lay elsewhere. The existing pages of these records are latched before the first
//! record is written.

use super::large_page::LargeView;
use super::rows::{Cell, INLINE, Large, MOVED, Rows, plain_at};
use super::slot::Form;
use super::{Heap, change, check_length};
use crate::Journal;
use crate::bytes::{Garbled, difference};
use crate::page::{KIND_LARGE_ROOT, bytes_mut, corrupt, is, malformed};
use crate::record::{Kind, replace_front, update_front};
use base::{PageId, Rid, copy_short};
use latch::{LatchPolicy, Rank};
use pages::{PageMut, Stop};
use std::ops::{ControlFlow, Range};

/// The rule for a row's address when the row outgrows its page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moves {
    /// The address stays: a forward is left there.
    Forward,
    /// The address changes: the caller gets the new one and changes the indexes. Applies only to a
    /// row that lies at its address.
    Report,
}

/// The result of [`Heap::update`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeapUpdate {
    /// The update is done. The place, if any, is to be purged after commit.
    Done(Option<Rid>),
    /// The row has this new address; the old place is a ghost, to be purged after commit. Only with
    /// [`Moves::Report`].
    Relocated(Rid),
    /// There is no row at this address.
    Missing,
}

/// The result of [`Heap::modify`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeapModify<R> {
    Done(R),
    /// The closure has run, but the row does not fit at its place and nothing was changed: call
    /// [`Heap::update`] with the buffer's content.
    Outgrown(R),
    /// The closure has run and asked for no change.
    Left(R),
    /// There is no row at this address; the closure was not called.
    Missing,
}

/// The place where a row lies before an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lies {
    /// At its address.
    Here,
    There(Rid),
    Large(Large),
}

impl Lies {
    /// `None` for a cell that is no row's address.
    fn of(cell: Option<Cell<'_>>) -> Option<Lies> {
        match cell? {
            Cell::Row(_) => Some(Lies::Here),
            Cell::Forward(to) => Some(Lies::There(to)),
            Cell::Large(large) => Some(Lies::Large(large)),
            Cell::Moved { .. } => None,
        }
    }
}

/// The touched range of a row of which any byte may have changed.
const ALL: Range<usize> = 0..usize::MAX;

/// The place where the row will lie after the update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Goal {
    Here,
    There(Rid),
    In(PageId),
    Large,
}

/// Heap pages that are latched exclusively together.
pub(super) struct Holds<'p, L: LatchPolicy>(Vec<PageMut<'p, L>>);

impl<'p, L: LatchPolicy> Holds<'p, L> {
    /// # Panics
    /// If the page is not one of those held.
    pub(super) fn page(&mut self, id: PageId) -> &mut PageMut<'p, L> {
        self.0.iter_mut().find(|p| p.page_id() == id).expect("a page that is held")
    }
}

impl<'p> Heap<'p> {
    /// Latches heap pages in the order of their numbers.
    pub(super) fn hold<L: LatchPolicy>(
        &self,
        pages: impl IntoIterator<Item = PageId>,
    ) -> Result<Holds<'p, L>, Stop> {
        let mut ids: Vec<PageId> = pages.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        let hold = |id| {
            let page = self.page_to_change::<L>(id)?;
            self.rows(&page, id)?;
            Ok(page)
        };
        ids.into_iter().map(hold).collect::<Result<_, _>>().map(Holds)
    }

    /// Replaces the row at `rid` by `row`. Logs the range of bytes that changes; an unchanged row
    /// logs nothing.
    ///
    /// # Errors
    /// [`Stop`]: nothing was changed; [`Stop::Fault`] also when the row is longer than
    /// [`MAX_ROW`](super::MAX_ROW). For a row longer than a page as in [`Heap::insert`].
    pub fn update<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        rid: Rid,
        row: &[u8],
        moves: Moves,
    ) -> Result<HeapUpdate, Stop> {
        check_length(row)?;
        let mut page = self.page_to_change::<L>(rid.page)?;
        let rows = self.rows(&page, rid.page)?;
        let find = || Ok((Lies::of(rows.cell(rid.slot)?), rows.fits_grown(rid.slot, row.len())?));
        match find().map_err(|Garbled| corrupt(&page))? {
            (None, _) => Ok(HeapUpdate::Missing),
            (Some(Lies::Here), true) => {
                self.overwrite(journal, &mut page, rid.slot, 0, (row, ALL))?;
                Ok(HeapUpdate::Done(None))
            }
            (Some(lies), fits) => {
                drop(page);
                let goal = if fits { Goal::Here } else { self.goal::<L>(journal, row, lies, moves)? };
                self.move_row::<L>(journal, rid, row, (lies, goal), moves)
            }
        }
    }

    /// Lets `f` change a copy of the row in `buffer` and writes the changed bytes back, all under
    /// one latch of its page. If `f` breaks, nothing is written. If `f` continues, it returns the
    /// range that it has touched: unless the length has changed, all bytes outside that range must
    /// be unchanged.
    ///
    /// # Errors
    /// [`Stop`]: `f` was not called and nothing was changed. One exception: [`Stop::Fault`] for a
    /// row that `f` made longer than [`MAX_ROW`](super::MAX_ROW) comes after the call.
    #[inline]
    pub fn modify<L: LatchPolicy, R>(
        &self,
        journal: &mut impl Journal,
        rid: Rid,
        buffer: &mut Vec<u8>,
        f: impl FnOnce(&mut Vec<u8>) -> ControlFlow<R, (R, Range<usize>)>,
    ) -> Result<HeapModify<R>, Stop> {
        let mut page = self.page_to_change::<L>(rid.page)?;
        self.rows(&page, rid.page)?;
        let Some((at, len)) = plain_at(page.bytes(), rid.slot).map_err(|Garbled| corrupt(&page))? else {
            return self.modify_special(journal, page, rid, buffer, f);
        };
        buffer.clear();
        buffer.extend_from_slice(&page.bytes()[at..at + len]);
        let (result, touched) = match f(buffer) {
            ControlFlow::Break(result) => return Ok(HeapModify::Left(result)),
            ControlFlow::Continue(done) => done,
        };
        if buffer.len() != len {
            return self.put_back(journal, &mut page, (rid.slot, 0), buffer, (result, touched));
        }
        let old = &page.bytes()[at..at + len];
        let Range { start, end } = difference(old, buffer, touched);
        if start < end {
            let front = update_front(page.page_id(), self.id, rid.slot, start, end - start);
            let body = [&front[..], &old[start..end], &buffer[start..end]];
            let lsn = journal.undoable(Kind::HeapUpdate as u8, page.lsn(), &body);
            copy_short(&mut bytes_mut(&mut page)[at + start..at + end], &buffer[start..end]);
            page.logged(lsn);
        }
        Ok(HeapModify::Done(result))
    }

    /// As [`Heap::modify`], for a slot that does not hold a plain row.
    #[cold]
    fn modify_special<L: LatchPolicy, R>(
        &self,
        journal: &mut impl Journal,
        mut page: PageMut<'p, L>,
        rid: Rid,
        buffer: &mut Vec<u8>,
        f: impl FnOnce(&mut Vec<u8>) -> ControlFlow<R, (R, Range<usize>)>,
    ) -> Result<HeapModify<R>, Stop> {
        let (mut slot, mut skip) = (rid.slot, 0);
        buffer.clear();
        match self.rows(&page, rid.page)?.cell(slot).map_err(|Garbled| corrupt(&page))? {
            None | Some(Cell::Moved { .. }) => return Ok(HeapModify::Missing),
            Some(Cell::Row(row)) => buffer.extend_from_slice(row),
            Some(Cell::Large(large)) => {
                *buffer = self.read_large::<L>(large)?;
                return match f(buffer) {
                    ControlFlow::Break(result) => Ok(HeapModify::Left(result)),
                    ControlFlow::Continue((result, _)) => {
                        check_length(buffer)?;
                        Ok(HeapModify::Outgrown(result))
                    }
                };
            }
            Some(Cell::Forward(to)) => {
                drop(page);
                page = self.page_to_change::<L>(to.page)?;
                (slot, skip) = (to.slot, MOVED);
                match self.rows(&page, to.page)?.cell(slot).map_err(|Garbled| corrupt(&page))? {
                    Some(Cell::Moved { home, row }) if home == rid => buffer.extend_from_slice(row),
                    _ => return Err(Stop::Again),
                }
            }
        }
        match f(buffer) {
            ControlFlow::Break(result) => Ok(HeapModify::Left(result)),
            ControlFlow::Continue(done) => self.put_back(journal, &mut page, (slot, skip), buffer, done),
        }
    }

    /// Writes back a row that was changed in `buffer`. In its slot the row begins after `skip`
    /// bytes.
    fn put_back<L: LatchPolicy, R>(
        &self,
        journal: &mut impl Journal,
        page: &mut PageMut<'p, L>,
        (slot, skip): (u16, usize),
        buffer: &[u8],
        (result, touched): (R, Range<usize>),
    ) -> Result<HeapModify<R>, Stop> {
        check_length(buffer)?;
        let fits = Rows::new(page.bytes()).fits_grown(slot, skip + buffer.len());
        if !fits.map_err(|Garbled| corrupt(page))? {
            return Ok(HeapModify::Outgrown(result));
        }
        self.overwrite(journal, page, slot, skip, (buffer, touched))?;
        Ok(HeapModify::Done(result))
    }

    /// Logs and writes the bytes in which `row` differs from the content of a slot after its first
    /// `skip` bytes. All differences lie within `touched`.
    fn overwrite<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        page: &mut PageMut<'p, L>,
        slot: u16,
        skip: usize,
        (row, touched): (&[u8], Range<usize>),
    ) -> Result<(), Stop> {
        let old = Rows::new(page.bytes()).content_of(slot).map_err(|Garbled| corrupt(page))?;
        let old = old.get(skip..).unwrap_or_default();
        let Range { start: at, end } = difference(old, row, touched);
        if at == end && old.len() == row.len() {
            return Ok(());
        }
        let tail = old.len() - end;
        let (old, new) = (&old[at..end], &row[at..row.len() - tail]);
        let at = skip + at;
        let front = update_front(page.page_id(), self.id, slot, at, old.len());
        let lsn = journal.undoable(Kind::HeapUpdate as u8, page.lsn(), &[&front, old, new]);
        let old = old.len();
        change(page, lsn, |rows| rows.splice(slot, at, old, new))
    }

    /// Chooses the new place of a row that does not fit at its address.
    fn goal<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        row: &[u8],
        lies: Lies,
        moves: Moves,
    ) -> Result<Goal, Stop> {
        if let Lies::There(to) = lies {
            let page = self.pool.shared_as::<L>(Rank::HeapPage, to.page)?;
            let fits = self.rows(&page, to.page)?.fits_grown(to.slot, MOVED + row.len());
            if fits.map_err(|Garbled| corrupt(&page))? {
                return Ok(Goal::There(to));
            }
        }
        let length = row.len() + if reports(lies, moves) { 0 } else { MOVED };
        // Where pages are divided among owners, no forward leads from page to page, so a large row
        // stays large.
        let apart = self.candidates.is_some() && matches!(lies, Lies::Large(_));
        if length > INLINE || apart {
            return Ok(Goal::Large);
        }
        Ok(Goal::In(self.page_for::<L>(journal, length)?.page_id()))
    }

    /// Latches the pages that the change needs, checks that nothing has changed since the choice,
    /// and makes the change.
    fn move_row<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        rid: Rid,
        row: &[u8],
        (lies, goal): (Lies, Goal),
        moves: Moves,
    ) -> Result<HeapUpdate, Stop> {
        let there = if let Lies::There(to) = lies { Some(to) } else { None };
        let target = if let Goal::In(page) = goal { Some(page) } else { None };
        if target == Some(rid.page) || target.is_some() && target == there.map(|to| to.page) {
            // Room became free in a page that the row already uses: start again, to use it in
            // place.
            return Err(Stop::Again);
        }
        let pages = [Some(rid.page), there.map(|to| to.page), target];
        let mut held = self.hold::<L>(pages.into_iter().flatten())?;
        match Lies::of(cell_in(held.page(rid.page), rid.slot)?) {
            None => return Ok(HeapUpdate::Missing),
            Some(now) if now != lies => return Err(Stop::Again),
            Some(_) => {}
        }
        if let Some(to) = there {
            let page = held.page(to.page);
            match cell_in(page, to.slot)? {
                Some(Cell::Moved { home, .. }) if home == rid => {}
                _ => return Err(corrupt(page)),
            }
        }
        if !fits(&mut held, rid, goal, row.len() + extra(goal, lies, moves))? {
            return Err(Stop::Again);
        }
        if let Goal::There(to) = goal {
            self.overwrite(journal, held.page(to.page), to.slot, MOVED, (row, ALL))?;
            return Ok(HeapUpdate::Done(None));
        }
        let mut old_root = match lies {
            Lies::Large(large) => Some(self.root_to_bury::<L>(large)?),
            _ => None,
        };
        if let (Some(target), true) = (target, reports(lies, moves)) {
            let to = self.place(journal, held.page(target), Cell::Row(row))?;
            self.bury(journal, held.page(rid.page), rid.slot)?;
            return Ok(HeapUpdate::Relocated(to));
        }
        let now = match goal {
            Goal::In(page) => {
                Cell::Forward(self.place(journal, held.page(page), Cell::Moved { home: rid, row })?)
            }
            Goal::Large => Cell::Large(self.make_large::<L>(journal, row)?),
            Goal::Here | Goal::There(_) => Cell::Row(row),
        };
        self.replace(journal, held.page(rid.page), rid.slot, now)?;
        let left = match (there, &mut old_root) {
            (Some(to), _) => {
                self.bury(journal, held.page(to.page), to.slot)?;
                Some(to)
            }
            (None, Some(root)) => Some(self.bury_large(journal, root)?),
            (None, None) => None,
        };
        Ok(HeapUpdate::Done(left))
    }

    fn root_to_bury<L: LatchPolicy>(&self, large: Large) -> Result<PageMut<'p, L>, Stop> {
        let root = self.pool.exclusive_as::<L>(Rank::HeapPage, large.root)?;
        let good = is(&root, KIND_LARGE_ROOT, self.id);
        if good && LargeView::new(root.bytes()).length() == large.length {
            Ok(root)
        } else {
            Err(corrupt(&root))
        }
    }

    /// Logs and writes another cell into a slot that is in use.
    fn replace<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        page: &mut PageMut<'p, L>,
        slot: u16,
        now: Cell<'_>,
    ) -> Result<(), Stop> {
        let rows = Rows::new(page.bytes());
        let find = || Ok((rows.slot(slot)?.form(), rows.content_of(slot)?));
        let (old_form, old) = find().map_err(|Garbled| malformed(page.page_id()))?;
        let (form, (tag, rest)) = (now.form(), now.parts());
        let front = self.front(Rid { page: page.page_id(), slot });
        let forms = replace_front((old_form, old.len()), form);
        let body = [&front[..], &forms, old, tag.as_slice(), rest];
        let lsn = journal.undoable(Kind::HeapReplace as u8, page.lsn(), &body);
        match form {
            Form::Plain => change(page, lsn, |rows| rows.replace(slot, form, rest)),
            // The content of a forward or a stub is the tag part alone.
            Form::Special => change(page, lsn, |rows| rows.replace(slot, form, tag.as_slice())),
        }
    }
}

/// Whether the row gets a new address that is reported, instead of a forward.
fn reports(lies: Lies, moves: Moves) -> bool {
    lies == Lies::Here && moves == Moves::Report
}

fn cell_in<'a, L: LatchPolicy>(page: &'a PageMut<'_, L>, slot: u16) -> Result<Option<Cell<'a>>, Stop> {
    Rows::new(page.bytes()).cell(slot).map_err(|Garbled| corrupt(page))
}

/// The number of bytes in front of the row at its goal.
fn extra(goal: Goal, lies: Lies, moves: Moves) -> usize {
    match goal {
        Goal::There(_) => MOVED,
        Goal::In(_) if !reports(lies, moves) => MOVED,
        _ => 0,
    }
}

/// Whether a content of `len` bytes still fits at the goal.
fn fits<L: LatchPolicy>(held: &mut Holds<'_, L>, rid: Rid, goal: Goal, len: usize) -> Result<bool, Stop> {
    let (page, slot) = match goal {
        Goal::Here => (rid.page, rid.slot),
        Goal::There(to) => (to.page, to.slot),
        Goal::In(page) => return Ok(Rows::new(held.page(page).bytes()).fits(len)),
        Goal::Large => return Ok(true),
    };
    let page = held.page(page);
    Rows::new(page.bytes()).fits_grown(slot, len).map_err(|Garbled| corrupt(page))
}
