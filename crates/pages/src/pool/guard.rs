//! Guards: the right to read or change a page, as a value. Taking one latches the page, dropping it
//! releases the latch.

use crate::page::Page;
use crate::pool::latching;
use base::{Lsn, PageId};
use latch::{Held, LatchPolicy, PageChange, PageLatch, TreePlace};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A page held for reading. Must not be kept across a wait.
pub struct PageRef<'p, L: LatchPolicy> {
    latch: &'p PageLatch,
    page: NonNull<Page>,
    id: PageId,
    version: u64,
    held: Held,
    /// The raw pointer makes the guard stay on its thread: latches are released by the thread that
    /// took them, and an owned page is used by one thread only.
    policy: PhantomData<(L, *const ())>,
}

impl<'p, L: LatchPolicy> PageRef<'p, L> {
    /// # Safety
    /// The caller has taken `latch`, which protects `page`, shared and under policy `L`, and hands
    /// it over.
    #[inline]
    pub(crate) unsafe fn new(
        latch: &'p PageLatch,
        page: NonNull<Page>,
        id: PageId,
        version: u64,
        held: Held,
    ) -> Self {
        PageRef { latch, page, id, version, held, policy: PhantomData }
    }

    #[inline]
    pub fn page_id(&self) -> PageId {
        self.id
    }

    /// Grows with every change of the page; see [`crate::Pool::version_unchanged`].
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The page is at this place in a tree: see [`Held::set_place`].
    ///
    /// # Panics
    /// As [`Held::set_place`].
    #[inline(always)]
    pub fn set_place(&self, place: impl FnOnce() -> Option<TreePlace>) {
        self.held.set_place(place);
    }
}

impl<L: LatchPolicy> Deref for PageRef<'_, L> {
    type Target = Page;
    #[inline]
    fn deref(&self) -> &Page {
        // SAFETY: under the shared latch that this guard holds no thread changes or evicts the
        // page.
        unsafe { self.page.as_ref() }
    }
}

impl<L: LatchPolicy> Drop for PageRef<'_, L> {
    #[inline]
    fn drop(&mut self) {
        latching::<L, _>(self.latch, || L::unlock_shared(self.latch));
    }
}

/// A page held for changing. A mutable access marks it dirty. Must not be kept across a wait.
pub struct PageMut<'p, L: LatchPolicy> {
    latch: &'p PageLatch,
    page: NonNull<Page>,
    id: PageId,
    version: u64,
    change: PageChange,
    held: Held,
    policy: PhantomData<(L, *const ())>,
}

impl<'p, L: LatchPolicy> PageMut<'p, L> {
    /// # Safety
    /// The caller has taken `latch`, which protects `page`, exclusively and under policy `L`, and
    /// hands it over.
    #[inline]
    pub(crate) unsafe fn new(
        latch: &'p PageLatch,
        page: NonNull<Page>,
        id: PageId,
        version: u64,
        held: Held,
    ) -> Self {
        PageMut { latch, page, id, version, change: PageChange::Nothing, held, policy: PhantomData }
    }

    #[inline]
    pub fn page_id(&self) -> PageId {
        self.id
    }

    /// The version before this hold. It grows when the page is released.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The page is at this place in a tree: see [`Held::set_place`].
    ///
    /// # Panics
    /// As [`Held::set_place`].
    #[inline(always)]
    pub fn set_place(&self, place: impl FnOnce() -> Option<TreePlace>) {
        self.held.set_place(place);
    }

    /// Gives this new page to the owner for which the calling thread acts, if `beside` belongs to
    /// that owner: the pages that an owned page is split into are owned, too.
    pub fn own_beside(&mut self, beside: &PageMut<'_, L>) {
        if beside.latch.is_mine() {
            self.latch.own_held();
        }
    }

    /// Gives the page, if it has no owner, to the owner for which the calling thread acts, if that
    /// thread takes over pages ([`latch::claim`]).
    pub fn claim(&mut self) {
        if latch::is_claiming() && self.latch.look().owner().is_none() {
            self.latch.own_held();
        }
    }

    /// The change was logged with this LSN: sets the page's LSN and marks the page dirty.
    #[inline]
    pub fn logged(&mut self, lsn: Lsn) {
        self.set_lsn(lsn);
    }
}

impl<L: LatchPolicy> Deref for PageMut<'_, L> {
    type Target = Page;
    #[inline]
    fn deref(&self) -> &Page {
        // SAFETY: under the exclusive latch that this guard holds no other thread reaches the page.
        unsafe { self.page.as_ref() }
    }
}

impl<L: LatchPolicy> DerefMut for PageMut<'_, L> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Page {
        self.change = PageChange::Bytes;
        // SAFETY: under the exclusive latch that this guard holds no other thread reaches the page.
        unsafe { self.page.as_mut() }
    }
}

impl<L: LatchPolicy> Drop for PageMut<'_, L> {
    #[inline]
    fn drop(&mut self) {
        latching::<L, _>(self.latch, || L::unlock_exclusive(self.latch, self.change));
    }
}
