//! Loading rows: each page is filled in memory, then written and logged once as a whole.
//!
//! A page gets its number from the pool when it is begun, so its rows have addresses at once. It
//! becomes part of the heap when it is full: one log record gives it its content and enters it in
//! the heap's directory. If the load ends before that, the heap is unchanged, and the begun page is
//! not part of it: the filler frees the page when it is dropped. After a crash the page is free,
//! because restart counts a page as used only if a log record gives it content
//! ([`Pool::claimed`](pages::Pool::claimed)), and none names this one.

use super::rows::{Cell, INLINE, Rows, RowsMut};
use super::slot::LEAST_ROOM;
use super::{Heap, check_length};
use crate::Journal;
use crate::bytes::Bytes;
use crate::page::malformed;
use crate::record::Action;
use base::{PageId, Rid};
use latch::LatchPolicy;
use pages::{PAGE_SIZE, Stop};

/// A page that is being filled.
struct Filling {
    id: PageId,
    bytes: Box<Bytes>,
}

/// Adds rows to a heap, page by page. Several fillers may fill one heap at the same time, each its
/// own pages.
///
/// The last rows are in the heap once [`HeapFiller::finish`] has succeeded. A load has no undo.
pub struct HeapFiller<'p> {
    heap: Heap<'p>,
    page: Option<Filling>,
}

impl<'p> HeapFiller<'p> {
    pub fn new(heap: Heap<'p>) -> HeapFiller<'p> {
        HeapFiller { heap, page: None }
    }

    /// Adds a row and returns its address.
    ///
    /// # Errors
    /// [`Stop`]: the row was not added; [`Stop::Fault`] also when it is longer than
    /// [`MAX_ROW`](crate::MAX_ROW).
    pub fn push<L: LatchPolicy>(&mut self, journal: &mut impl Journal, row: &[u8]) -> Result<Rid, Stop> {
        check_length(row)?;
        let large = row.len() > INLINE;
        self.make_room::<L>(journal, if large { LEAST_ROOM } else { row.len() })?;
        let cell = match large {
            true => Cell::Large(self.heap.make_large::<L>(journal, row)?),
            false => Cell::Row(row),
        };
        let Some(page) = &mut self.page else { unreachable!("room was made in it") };
        let garbled = |_| malformed(page.id);
        let slot = Rows::new(&page.bytes).next_slot().map_err(garbled)?;
        let (tag, rest) = cell.parts();
        let put = RowsMut::new(&mut page.bytes).insert(slot, cell.form(), tag.as_slice(), rest);
        put.map_err(garbled)?;
        Ok(Rid { page: page.id, slot })
    }

    fn make_room<L: LatchPolicy>(&mut self, journal: &mut impl Journal, len: usize) -> Result<(), Stop> {
        if self.page.as_ref().is_some_and(|page| Rows::new(&page.bytes).fits(len)) {
            return Ok(());
        }
        self.finish::<L>(journal)?;
        let mut page = Filling { id: self.heap.pool.allocate()?, bytes: Box::new([0; PAGE_SIZE]) };
        // Its real ordinal is set when it becomes part of the heap.
        RowsMut::new(&mut page.bytes).format(0);
        self.page = Some(page);
        Ok(())
    }

    /// Writes the page that was begun last.
    ///
    /// # Errors
    /// [`Stop`]: the page is not written; call again.
    pub fn finish<L: LatchPolicy>(&mut self, journal: &mut impl Journal) -> Result<(), Stop> {
        let Some(page) = &self.page else { return Ok(()) };
        let rows = Rows::new(&page.bytes);
        let (head, content) = rows.image();
        let class = rows.class();
        let image = |ordinal| Action::HeapImage { ordinal, head, content };
        drop(self.heap.extend_by::<L>(journal, Some(page.id), class, image)?);
        self.page = None;
        Ok(())
    }
}

impl Drop for HeapFiller<'_> {
    fn drop(&mut self) {
        if let Some(page) = self.page.take() {
            self.heap.pool.free(page.id);
        }
    }
}
