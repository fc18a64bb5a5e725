//! Reads all rows of one page, for a caller that divides them among pages.

use super::Heap;
use super::rows::Cell;
use crate::bytes::Garbled;
use crate::page::corrupt;
use base::{Lsn, PageId, Rid};
use latch::LatchPolicy;
use pages::Stop;

/// The rows of one page, in short.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageSummary {
    /// The number of rows, without ghosts.
    pub rows: usize,
    /// The LSN of the page's last change.
    pub lsn: Lsn,
}

impl Heap<'_> {
    /// The number of rows in `page`, and the LSN of the page's last change.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn page_summary<L: LatchPolicy>(&self, page: PageId) -> Result<PageSummary, Stop> {
        let mut rows = 0;
        let lsn = self.each_cell::<L>(page, |_, _| {
            rows += 1;
            Ok(())
        })?;
        Ok(PageSummary { rows, lsn })
    }

    /// Calls `visit` with the rows of which the address is in `page`, and with those addresses.
    ///
    /// # Errors
    /// [`Stop`]; some rows may have been visited already.
    pub fn rows_in<L: LatchPolicy>(
        &self,
        page: PageId,
        mut visit: impl FnMut(Rid, &[u8]),
    ) -> Result<PageSummary, Stop> {
        let (mut rows, mut long) = (0, Vec::new());
        let lsn = self.each_cell::<L>(page, |rid, cell| {
            rows += 1;
            match cell {
                Cell::Row(row) => visit(rid, row),
                _ => long.push(rid),
            }
            Ok(())
        })?;
        for rid in long {
            self.read::<L, _>(rid, |row| visit(rid, row))?;
        }
        Ok(PageSummary { rows, lsn })
    }

    fn each_cell<L: LatchPolicy>(
        &self,
        id: PageId,
        mut visit: impl FnMut(Rid, Cell<'_>) -> Result<(), Garbled>,
    ) -> Result<Lsn, Stop> {
        let page = self.page_to_read::<L>(id)?;
        let rows = self.rows(&page, id)?;
        let mut each = || {
            for slot in 0..rows.slots() {
                match rows.cell(slot)? {
                    None | Some(Cell::Moved { .. }) => {}
                    Some(cell) => visit(Rid { page: id, slot }, cell)?,
                }
            }
            Ok(())
        };
        each().map_err(|Garbled| corrupt(&page))?;
        Ok(page.lsn())
    }
}
