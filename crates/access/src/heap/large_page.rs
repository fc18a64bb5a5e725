//! The pages of a large row: their layout, and their content for reading and changing.

use crate::bytes::{Bytes, Garbled, put_u16, put_u32, u16_at, u32_at};
use crate::page::{KIND_LARGE_ROOT, name};
use base::{PageId, TableId};
use pages::{PAGE_HEADER as HEADER, PAGE_SIZE, Page};

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
pub(super) const DATA: usize = HEADER + 8;

/// Bytes of a row in a data page. Less in tests, so that rows have many pages.
pub(super) const PER_PAGE: usize = if cfg!(test) { 3000 } else { PAGE_SIZE - DATA };

const _: () = assert!(MAX_ROW.div_ceil(PER_PAGE) * 4 + IDS < PAGE_SIZE);

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
pub(super) fn head_bytes(pages: usize) -> usize {
    (PAGE_SIZE - IDS).saturating_sub(4 * pages).min(PER_PAGE)
}

/// Data pages of a row of `len` bytes.
pub(super) fn pages_for(len: usize) -> usize {
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

    pub(super) fn count(self) -> usize {
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
    pub(super) fn head(self) -> Result<&'a [u8], Garbled> {
        let from = IDS + 4 * self.count();
        let length = (self.length() as usize).min(head_bytes(self.count()));
        self.0.get(from..from + length).ok_or(Garbled)
    }

    /// The bytes in this page, which must be data page number `index` of the row at `root`.
    pub(super) fn data(self, root: PageId, index: usize) -> Result<&'a [u8], Garbled> {
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
