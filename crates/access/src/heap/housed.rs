//! Heap pages that are divided among parts of the keys, and may be owned with them (PLP-Partition and PLP-Leaf, section 3.3.3 of
//! Pandis' thesis).
//!
//! Which page a row may lie in depends on its key, of which a heap knows nothing. So it is told: [`Heap::among`] names the pages that
//! rows with such keys lie in already. A row goes to the first of them that has room, else to a page **without any row**, which
//! belongs to these keys from then on: one that was emptied, or a new one. A page whose last row was purged is
//! anybody's again.
//!
//! ```text
//!   a page:   without rows ----- first row ------> of the rows' keys ---- last row purged ----> without rows
//!             EMPTY in the directory               TAKEN in the directory                       EMPTY
//!             nobody's                             claimed by who changes it, if pages have owners   nobody's
//! ```
//!
//! Who may do what: where pages may have owners ([`InsertPages::have_owners`](super::InsertPages::have_owners)), a thread that takes pages over
//! ([`latch::claim`]) does so with each that it changes and that is nobody's; since all rows of a page are of one owner's keys, and only owners touch rows, that is
//! the right one. From then on the page is not latched. A page without rows is given up before the directory says so;
//! who is promised one latches it and looks whether it still has none before it becomes its own.

use super::rows::{Cell, EMPTY, INLINE, LEAST_ROOM};
use super::{Heap, check_length};
use crate::Journal;
use base::{PageId, Rid};
use latch::LatchPolicy;
use pages::{PageFault, PageMut, PageRef, Stop};

/// The class that a page with rows of some keys is noted as: no promise to others.
const TAKEN: u8 = EMPTY - 1;

impl<'p> Heap<'p> {
    /// The heap, for a row that may lie in these pages, to be tried in order, or in one that has no row. No forwards are made then:
    /// rows that outgrow their page are to be moved with [`Moves::Report`](super::Moves::Report).
    #[must_use]
    pub fn among<'q>(self, pages: &'q [PageId]) -> Heap<'q>
    where
        'p: 'q,
    {
        Heap { homes: Some(pages), ..self }
    }

    /// A page of rows, to be changed: the calling thread's own from then on if pages have owners and it acts for one.
    #[inline(always)]
    pub(super) fn page_to_change<L: LatchPolicy>(&self, id: PageId) -> Result<PageMut<'p, L>, Stop> {
        if self.hints.claims() {
            self.pool.claim(id)?;
        }
        self.pool.exclusive::<L>(id)
    }

    /// Adds a row to one of the pages that it may lie in ([`Heap::among`]); `None` if none of them has room.
    ///
    /// # Errors
    /// As [`Heap::insert`].
    pub fn insert_among<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        row: &[u8],
    ) -> Result<Option<Rid>, Stop> {
        check_length(row)?;
        let long = row.len() > INLINE;
        let Some(mut page) = self.home_with_room::<L>(if long { LEAST_ROOM } else { row.len() })? else {
            return Ok(None);
        };
        let cell = match long {
            true => Cell::Large(self.make_large::<L>(journal, row)?),
            false => Cell::Row(row),
        };
        self.place(journal, &mut page, cell).map(Some)
    }

    fn home_with_room<L: LatchPolicy>(&self, len: usize) -> Result<Option<PageMut<'p, L>>, Stop> {
        for &id in self.homes.unwrap_or_default() {
            let page = self.page_to_change::<L>(id)?;
            if self.rows(&page, id)?.fits(len) {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    /// As [`Heap::page_to_change`], to be read by who holds what it reads.
    pub(super) fn page_to_read<L: LatchPolicy>(&self, id: PageId) -> Result<PageRef<'p, L>, Stop> {
        if self.hints.claims() {
            self.pool.claim(id)?;
        }
        self.pool.shared::<L>(id)
    }

    /// A page with room for `len` bytes that a row may go to, latched.
    pub(super) fn home<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        len: usize,
    ) -> Result<PageMut<'p, L>, Stop> {
        if self.homes.is_none() {
            return self.page_with_room(journal, len);
        }
        match self.home_with_room(len)? {
            Some(page) => Ok(page),
            None => self.page_without_rows(journal),
        }
    }

    /// A page that has no row, latched, and the calling owner's if pages have owners.
    fn page_without_rows<L: LatchPolicy>(&self, journal: &mut impl Journal) -> Result<PageMut<'p, L>, Stop> {
        let worker = journal.worker();
        // The last one it took may be empty again: an insertion was undone.
        if let Some(last) = self.hints.of(worker).filter(|last| !self.hints.is_of_group(*last))
            && let Some(page) = self.if_without_rows::<L>(last)?
        {
            return Ok(page);
        }
        while let Some(promise) = self.promised::<L>(INLINE)? {
            self.note_class::<L>(journal, promise.ordinal, TAKEN)?;
            if let Some(page) = self.if_without_rows::<L>(promise.page)? {
                self.hints.set(worker, Some(promise.page));
                return Ok(page);
            }
        }
        let page = self.extend_as::<L>(journal, TAKEN)?;
        self.hints.set(worker, Some(page.page_id()));
        Ok(page)
    }

    fn if_without_rows<L: LatchPolicy>(&self, id: PageId) -> Result<Option<PageMut<'p, L>>, Stop> {
        let mut page = match self.pool.exclusive::<L>(id) {
            Err(Stop::Fault(fault)) if matches!(*fault, PageFault::Foreign { .. }) => return Ok(None),
            page => page?,
        };
        if self.rows(&page, id)?.slots() > 0 {
            return Ok(None);
        }
        if self.hints.claims() {
            page.claim();
        }
        Ok(Some(page))
    }

    /// The page has lost its last row: it is nobody's.
    pub(super) fn vacate(&self, id: PageId) -> Result<(), Stop> {
        if self.hints.claims() && !self.pool.is_foreign(id) { self.pool.disown(id) } else { Ok(()) }
    }
}
