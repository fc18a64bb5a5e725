//! This crate's view of a page: its kind, the tree or heap that it belongs to, and the faults that
//! report a bad page or record.

use crate::bytes::Bytes;
use base::{PageId, TableId};
use latch::{LatchPolicy, TreePlace};
use pages::{Page, PageFault, PageMut, PageRef, Pool, Stop};
use std::sync::Arc;

pub(crate) const KIND_NODE: u8 = 1;
pub(crate) const KIND_HEAP_ROOT: u8 = 2;
pub(crate) const KIND_DIRECTORY: u8 = 3;
pub(crate) const KIND_ROWS: u8 = 4;
pub(crate) const KIND_LARGE_ROOT: u8 = 5;
pub(crate) const KIND_LARGE_DATA: u8 = 6;
pub(crate) const KIND_PARTITIONS: u8 = 7;

/// The version of the layouts of nodes, heap pages, directories and partition tables.
pub(crate) const FORMAT: u8 = 5;

/// Bytes 4 and 5 (format and kind) of a tree node and of a heap page, as one number.
pub(crate) const NODE_MARK: u16 = u16::from_le_bytes([FORMAT, KIND_NODE]);
pub(crate) const ROWS_MARK: u16 = u16::from_le_bytes([FORMAT, KIND_ROWS]);

/// Whether a page in use is of a kind and a layout that this version knows.
///
/// # Errors
/// A text that names the kind or format that was found.
pub fn check_kind(page: &Page) -> Result<(), String> {
    let (kind, format) = (page.kind(), page.format());
    if !(KIND_NODE..=KIND_PARTITIONS).contains(&kind) {
        return Err(format!("a page of kind {kind}; expected kinds {KIND_NODE} to {KIND_PARTITIONS}"));
    }
    if format != FORMAT {
        return Err(format!("a page of format {format}, expected format {FORMAT}"));
    }
    Ok(())
}

/// A page that is latched shared or exclusive: gives its page number, and takes the place of the
/// page in a tree, for the check of the order of latches.
pub(crate) trait Held {
    fn page_id(&self) -> PageId;
    fn set_place(&self, place: impl FnOnce() -> Option<TreePlace>);
}

impl<L: LatchPolicy> Held for PageRef<'_, L> {
    fn page_id(&self) -> PageId {
        PageRef::page_id(self)
    }
    #[inline(always)]
    fn set_place(&self, place: impl FnOnce() -> Option<TreePlace>) {
        PageRef::set_place(self, place);
    }
}

impl<L: LatchPolicy> Held for PageMut<'_, L> {
    fn page_id(&self) -> PageId {
        PageMut::page_id(self)
    }
    #[inline(always)]
    fn set_place(&self, place: impl FnOnce() -> Option<TreePlace>) {
        PageMut::set_place(self, place);
    }
}

/// Whether the page is of this kind and belongs to the tree or heap `owner`.
#[inline]
pub(crate) fn is(page: &Page, kind: u8, owner: TableId) -> bool {
    page.kind() == kind && page.owner() == u32::from(owner.0) && page.format() == FORMAT
}

/// Writes kind, format and owner into the header of a page that gets new content.
pub(crate) fn name(page: &mut Page, kind: u8, owner: TableId) {
    page.set_kind(kind);
    page.set_format(FORMAT);
    page.set_flags(0);
    page.set_owner(u32::from(owner.0));
}

/// The page's bytes contradict each other or the place where the page was found.
#[cold]
pub(crate) fn corrupt(page: &impl Held) -> Stop {
    malformed(page.page_id())
}

#[cold]
pub(crate) fn malformed(page: PageId) -> Stop {
    Stop::Fault(Arc::new(PageFault::Malformed { page }))
}

#[cold]
pub(crate) fn too_long(what: &'static str, bytes: usize, most: usize) -> Stop {
    Stop::Fault(Arc::new(PageFault::TooLong { what, bytes, most }))
}

/// The fault of a bulk load that was given entries it cannot take.
#[cold]
pub(crate) fn disordered(what: &'static str) -> Stop {
    Stop::Fault(Arc::new(PageFault::Disordered { what }))
}

/// The fault of a log record that cannot be replayed or undone.
#[cold]
pub(crate) fn bad_record(kind: u8, why: &'static str) -> Stop {
    Stop::Fault(Arc::new(PageFault::Record { kind, why }))
}

/// A page that is in no use, latched exclusive and zeroed.
pub(crate) fn new_page<L: LatchPolicy>(pool: &Pool) -> Result<PageMut<'_, L>, Stop> {
    let id = pool.allocate()?;
    fresh::<L>(pool, id).inspect_err(|_| pool.free(id))
}

/// [`Pool::fresh`], repeated until the last holder of the page has released its latch.
pub(crate) fn fresh<L: LatchPolicy>(pool: &Pool, id: PageId) -> Result<PageMut<'_, L>, Stop> {
    loop {
        match pool.fresh::<L>(id) {
            Err(Stop::Again) => std::thread::yield_now(),
            done => return done,
        }
    }
}

/// The page's bytes as the array type that the layouts work on.
#[inline]
pub(crate) fn bytes_mut<'a, L: LatchPolicy>(page: &'a mut PageMut<'_, L>) -> &'a mut Bytes {
    page.bytes_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe::PageKind;

    /// The profile tells pages apart by these numbers.
    #[test]
    fn the_profile_knows_the_kinds_of_pages() {
        assert_eq!(PageKind::of(KIND_NODE), PageKind::Index);
        assert_eq!(PageKind::of(KIND_HEAP_ROOT), PageKind::FreeSpace);
        assert_eq!(PageKind::of(KIND_DIRECTORY), PageKind::FreeSpace);
        assert_eq!(PageKind::of(KIND_ROWS), PageKind::Heap);
    }
}
