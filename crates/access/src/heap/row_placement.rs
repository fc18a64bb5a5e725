//! Row placement: heap pages that are divided among ranges of the keys, and may be owned with them
//! (PLP-Partition and PLP-Leaf, section 3.3.3 of Pandis' thesis).
//!
//! The pages that a row may lie in depend on its key, which the heap does not know. So the caller
//! names them: [`Heap::among`] lists the pages in which rows with such keys lie already. A row goes
//! to the first listed page with room. If none has room, it goes to a page **without any row** (an
//! emptied page or a new one), and that page belongs to these keys from then on. When the last row
//! of a page is purged, the page is free for any keys again.
//!
//! ```text
//!   page:       without rows -- first row --> rows of some keys -- last row purged --> no rows
//!   directory:  EMPTY                         TAKEN                                    EMPTY
//!   owner:      none                          the owner of these keys, which           none
//!                                             claims the page when it changes it
//! ```
//!
//! # Access rules
//!
//! These apply where pages may have owners
//! ([`InsertPages::have_owners`](super::InsertPages::have_owners)).
//!
//! - A thread that claims pages ([`latch::claim`]) claims each unowned page that it reads or
//!   changes here. All rows of a page belong to one owner's keys, and only that owner touches them,
//!   so the claim is by the right owner. From then on the page is not latched.
//! - A page without rows is given up before the directory lists it as EMPTY. A thread that finds it
//!   in the directory latches it and checks that it still has no rows, and only then claims it.

use super::rows::{Cell, EMPTY, INLINE};
use super::slot::LEAST_ROOM;
use super::{Heap, check_length};
use crate::Journal;
use base::{PageId, Rid};
use latch::{LatchPolicy, Rank};
use pages::{PageFault, PageMut, PageRef, Stop};

/// The class that the directory notes for a page with rows of some keys: no search for an empty
/// page finds it.
const TAKEN: u8 = EMPTY - 1;

impl<'p> Heap<'p> {
    /// The same heap, for rows that may lie only in `pages`, tried in order, or in a page without
    /// rows. No forwards are made then: a row that outgrows its page must be moved with
    /// [`Moves::Report`](super::Moves::Report).
    #[must_use]
    pub fn among<'q>(self, pages: &'q [PageId]) -> Heap<'q>
    where
        'p: 'q,
    {
        Heap { candidates: Some(pages), ..self }
    }

    /// A heap page, latched exclusively for a change. If pages have owners and the calling thread
    /// acts for one, the thread first claims the page.
    #[inline(always)]
    pub(super) fn page_to_change<L: LatchPolicy>(&self, id: PageId) -> Result<PageMut<'p, L>, Stop> {
        if self.hints.claims() {
            self.pool.claim(id)?;
        }
        self.pool.exclusive_as::<L>(Rank::HeapPage, id)
    }

    /// Adds a row to one of the pages of [`Heap::among`]; `None` if none of them has room.
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
        let Some(mut page) = self.candidate_with_room::<L>(if long { LEAST_ROOM } else { row.len() })? else {
            return Ok(None);
        };
        let cell = match long {
            true => Cell::Large(self.make_large::<L>(journal, row)?),
            false => Cell::Row(row),
        };
        self.place(journal, &mut page, cell).map(Some)
    }

    fn candidate_with_room<L: LatchPolicy>(&self, len: usize) -> Result<Option<PageMut<'p, L>>, Stop> {
        for &id in self.candidates.unwrap_or_default() {
            let page = self.page_to_change::<L>(id)?;
            if self.rows(&page, id)?.fits(len) {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    /// As [`Heap::page_to_change`], latched shared for reading.
    pub(super) fn page_to_read<L: LatchPolicy>(&self, id: PageId) -> Result<PageRef<'p, L>, Stop> {
        if self.hints.claims() {
            self.pool.claim(id)?;
        }
        self.pool.shared_as::<L>(Rank::HeapPage, id)
    }

    /// A page that the row may go to, with room for `len` bytes, latched.
    pub(super) fn page_for<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        len: usize,
    ) -> Result<PageMut<'p, L>, Stop> {
        if self.candidates.is_none() {
            return self.page_with_room(journal, len);
        }
        match self.candidate_with_room(len)? {
            Some(page) => Ok(page),
            None => self.page_without_rows(journal),
        }
    }

    /// A page without rows, latched; claimed by the calling thread's owner if pages have owners.
    fn page_without_rows<L: LatchPolicy>(&self, journal: &mut impl Journal) -> Result<PageMut<'p, L>, Stop> {
        let worker = journal.worker();
        // The page that this worker took last may be empty again, when its insert was undone.
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
        let mut page = match self.pool.exclusive_as::<L>(Rank::HeapPage, id) {
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

    /// Gives up the ownership of a page that has lost its last row.
    pub(super) fn vacate(&self, id: PageId) -> Result<(), Stop> {
        if self.hints.claims() && !self.pool.is_foreign(id) { self.pool.disown(id) } else { Ok(()) }
    }
}
