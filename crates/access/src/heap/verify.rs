//! Walking the whole heap and saying what is wrong with it.

use super::Heap;
use super::directory::{Directory, PER_DIRECTORY, Root};
use super::rows::Rows;
use crate::bytes::Garbled;
use crate::page::{KIND_DIRECTORY, KIND_HEAP_ROOT, KIND_ROWS, is};
use base::PageId;
use latch::LatchPolicy;
use pages::{PAGE_SIZE, PageRef, Stop};
use std::collections::BTreeSet;

/// What a sound heap looks like.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HeapReport {
    pub directories: u64,
    pub pages: u64,
    pub rows: u64,
    /// Deleted rows that were not purged.
    pub ghosts: u64,
    /// Bytes of all rows.
    pub row_bytes: u64,
}

/// What is wrong with a heap, and where.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HeapFlaw {
    #[error(transparent)]
    Stop(#[from] Stop),
    #[error("{0:?} is not a page of this heap")]
    Foreign(PageId),
    #[error("{0:?} is listed twice")]
    Twice(PageId),
    #[error("{0:?} lists fewer pages than it says, or is not full though another follows it")]
    List(PageId),
    #[error("{page:?} says it is page {found} of the heap, the directory says {listed}")]
    Ordinal { page: PageId, found: u32, listed: u32 },
    #[error("{0:?} has slots or rows that point outside the page")]
    Garbled(PageId),
    #[error("{page:?} has rows that overlap at byte {at}")]
    Overlap { page: PageId, at: usize },
    #[error("{page:?} counts {counted} {what}, it has {found}")]
    Count { page: PageId, what: &'static str, counted: usize, found: usize },
}

impl<'p> Heap<'p> {
    /// Checks the directory and every page of it. Reads absent pages in, blocking.
    ///
    /// # Errors
    /// The first flaw met.
    pub fn verify<L: LatchPolicy>(&self) -> Result<HeapReport, HeapFlaw> {
        let mut report = HeapReport::default();
        let mut seen = BTreeSet::from([self.root]);
        for (i, id) in self.listed_directories::<L>()?.into_iter().enumerate() {
            if !seen.insert(id) {
                return Err(HeapFlaw::Twice(id));
            }
            report.directories += 1;
            for (index, page) in self.listed_pages::<L>(id)?.into_iter().enumerate() {
                if !seen.insert(page) {
                    return Err(HeapFlaw::Twice(page));
                }
                self.check_page::<L>(page, (i * PER_DIRECTORY + index) as u32, &mut report)?;
            }
            if (report.directories as usize) * PER_DIRECTORY != report.pages as usize
                && i + 1 < self.listed_directories::<L>()?.len()
            {
                return Err(HeapFlaw::List(id));
            }
        }
        Ok(report)
    }

    fn read_in<L: LatchPolicy>(&self, id: PageId, kind: u8) -> Result<PageRef<'p, L>, HeapFlaw> {
        loop {
            match self.pool.shared::<L>(id) {
                Err(Stop::Page(id)) => self.pool.load(id).map_err(Stop::from)?,
                Err(Stop::Again) => {}
                Ok(page) if is(&page, kind, self.id) => return Ok(page),
                Ok(_) => return Err(HeapFlaw::Foreign(id)),
                Err(stop) => return Err(stop.into()),
            }
        }
    }

    fn listed_directories<L: LatchPolicy>(&self) -> Result<Vec<PageId>, HeapFlaw> {
        let page = self.read_in::<L>(self.root, KIND_HEAP_ROOT)?;
        let root = Root::new(page.bytes());
        let all = (0..root.directories()).map_while(|i| root.directory(i)).collect::<Vec<_>>();
        if all.len() == root.directories() { Ok(all) } else { Err(HeapFlaw::List(self.root)) }
    }

    fn listed_pages<L: LatchPolicy>(&self, id: PageId) -> Result<Vec<PageId>, HeapFlaw> {
        let page = self.read_in::<L>(id, KIND_DIRECTORY)?;
        let directory = Directory::new(page.bytes());
        Ok((0..directory.pages()).map_while(|i| directory.page(i)).collect())
    }

    fn check_page<L: LatchPolicy>(
        &self,
        id: PageId,
        listed: u32,
        report: &mut HeapReport,
    ) -> Result<(), HeapFlaw> {
        let page = self.read_in::<L>(id, KIND_ROWS)?;
        let rows = Rows::new(page.bytes());
        if rows.ordinal() != listed {
            return Err(HeapFlaw::Ordinal { page: id, found: rows.ordinal(), listed });
        }
        report.pages += 1;
        check_rows(rows, id, report)
    }
}

/// Rows inside the page, apart from each other, and as many as the counters say.
fn check_rows(rows: Rows<'_>, page: PageId, report: &mut HeapReport) -> Result<(), HeapFlaw> {
    let garbled = |Garbled| HeapFlaw::Garbled(page);
    let mut taken = Vec::new();
    let (mut free, mut ghosts) = (0, 0);
    for i in 0..rows.slots() {
        let slot = rows.slot(i).map_err(garbled)?;
        if slot.is_free() {
            free += 1;
            continue;
        }
        ghosts += usize::from(slot.is_ghost());
        taken.push(slot.extent());
        if let Some(row) = rows.row(i).map_err(garbled)? {
            if row.len() > slot.extent().len() {
                return Err(HeapFlaw::Garbled(page));
            }
            report.rows += 1;
            report.row_bytes += row.len() as u64;
        }
    }
    report.ghosts += ghosts as u64;
    let used: usize = taken.iter().map(|t| t.len()).sum();
    check_overlap(rows, page, taken)?;
    let counts = [
        ("free slots", usize::from(rows.free_slots()), free),
        ("ghosts", usize::from(rows.ghosts()), ghosts),
        ("bytes of rows", rows.content().saturating_sub(rows.dead()), used),
    ];
    match counts.into_iter().find(|(_, counted, found)| counted != found) {
        Some((what, counted, found)) => Err(HeapFlaw::Count { page, what, counted, found }),
        None => Ok(()),
    }
}

fn check_overlap(
    rows: Rows<'_>,
    page: PageId,
    mut taken: Vec<std::ops::Range<usize>>,
) -> Result<(), HeapFlaw> {
    taken.retain(|t| !t.is_empty());
    taken.sort_unstable_by_key(|t| t.start);
    let mut end = PAGE_SIZE.saturating_sub(rows.content()).max(rows.slots_end());
    for t in taken {
        if t.start < end || t.end > PAGE_SIZE {
            return Err(HeapFlaw::Overlap { page, at: t.start });
        }
        end = t.end;
    }
    Ok(())
}
