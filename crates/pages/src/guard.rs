//! The right to read or change a page, as a value: taking it is latching, dropping it is letting go.

use crate::page::Page;
use crate::pool::latching;
use base::{Lsn, PageId};
use latch::{Change, LatchPolicy, PageLatch};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A page held for reading. Not to be kept across a wait.
pub struct PageRef<'p, L: LatchPolicy> {
    latch: &'p PageLatch,
    page: NonNull<Page>,
    id: PageId,
    version: u64,
    /// Latches are let go where they were taken: an owned page has no other thread.
    policy: PhantomData<(L, *const ())>,
}

impl<'p, L: LatchPolicy> PageRef<'p, L> {
    /// # Safety
    /// The caller has taken `latch`, which protects `page`, shared and under policy `L`, and hands it over.
    #[inline]
    pub(crate) unsafe fn new(latch: &'p PageLatch, page: NonNull<Page>, id: PageId, version: u64) -> Self {
        PageRef { latch, page, id, version, policy: PhantomData }
    }

    #[inline]
    pub fn page_id(&self) -> PageId {
        self.id
    }

    /// Grows at every change of the page; see [`crate::Pool::version_unchanged`].
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }
}

impl<L: LatchPolicy> Deref for PageRef<'_, L> {
    type Target = Page;
    #[inline]
    fn deref(&self) -> &Page {
        // SAFETY: under the shared latch that this guard holds nobody changes or evicts the page.
        unsafe { self.page.as_ref() }
    }
}

impl<L: LatchPolicy> Drop for PageRef<'_, L> {
    #[inline]
    fn drop(&mut self) {
        latching::<L, _>(self.latch, || L::unlock_shared(self.latch));
    }
}

/// A page held for changing. Touching it mutably marks it dirty. Not to be kept across a wait.
pub struct PageMut<'p, L: LatchPolicy> {
    latch: &'p PageLatch,
    page: NonNull<Page>,
    id: PageId,
    version: u64,
    change: Change,
    policy: PhantomData<(L, *const ())>,
}

impl<'p, L: LatchPolicy> PageMut<'p, L> {
    /// # Safety
    /// The caller has taken `latch`, which protects `page`, exclusively and under policy `L`, and hands it over.
    #[inline]
    pub(crate) unsafe fn new(latch: &'p PageLatch, page: NonNull<Page>, id: PageId, version: u64) -> Self {
        PageMut { latch, page, id, version, change: Change::Nothing, policy: PhantomData }
    }

    #[inline]
    pub fn page_id(&self) -> PageId {
        self.id
    }

    /// The version before this hold; it grows when the page is let go.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The page, new to the owner for whom the calling thread acts, is that owner's if `beside` is: what an owner's page
    /// is split into is its own.
    pub fn own_beside(&mut self, beside: &PageMut<'_, L>) {
        if beside.latch.is_mine() {
            self.latch.own_held();
        }
    }

    /// The page, if it is nobody's, becomes the property of the owner for whom the calling thread acts and takes pages over
    /// ([`latch::claim`]).
    pub fn claim(&mut self) {
        if latch::is_claiming() && self.latch.look().owner().is_none() {
            self.latch.own_held();
        }
    }

    /// The change was logged as the record at `lsn`: the page carries it from now on, and is dirty.
    #[inline]
    pub fn logged(&mut self, lsn: Lsn) {
        self.set_lsn(lsn);
    }
}

impl<L: LatchPolicy> Deref for PageMut<'_, L> {
    type Target = Page;
    #[inline]
    fn deref(&self) -> &Page {
        // SAFETY: under the exclusive latch that this guard holds nobody else reaches the page.
        unsafe { self.page.as_ref() }
    }
}

impl<L: LatchPolicy> DerefMut for PageMut<'_, L> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Page {
        self.change = Change::Bytes;
        // SAFETY: under the exclusive latch that this guard holds nobody else reaches the page.
        unsafe { self.page.as_mut() }
    }
}

impl<L: LatchPolicy> Drop for PageMut<'_, L> {
    #[inline]
    fn drop(&mut self) {
        latching::<L, _>(self.latch, || L::unlock_exclusive(self.latch, self.change));
    }
}
