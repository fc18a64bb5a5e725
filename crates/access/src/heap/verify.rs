//! A check of the whole heap: returns the first flaw.

use super::Heap;
use super::directory::{Directory, PER_DIRECTORY, Root};
use super::large_page::{LargeRowState, LargeView, bytes_in};
use super::rows::{Cell, Large, Rows};
use crate::bytes::Garbled;
use crate::page::{KIND_DIRECTORY, KIND_HEAP_ROOT, KIND_LARGE_DATA, KIND_LARGE_ROOT, KIND_ROWS, is};
use base::{PageId, Rid};
use latch::{LatchPolicy, Rank};
use pages::{PAGE_SIZE, PageRef, Stop};
use std::collections::{BTreeMap, BTreeSet};

/// The figures of a sound heap.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HeapReport {
    pub directories: u64,
    pub pages: u64,
    pub rows: u64,
    /// Deleted rows that were not purged, and places that rows have moved away from.
    pub ghosts: u64,
    /// Bytes of all rows.
    pub row_bytes: u64,
    /// Rows that have moved away from their address.
    pub moved_rows: u64,
    /// Rows longer than a page, and the pages that they lie in.
    pub large_rows: u64,
    pub large_pages: u64,
}

/// A flaw of a heap, and its place.
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
    #[error("the row at {at:?} shall lie at {to:?}, where no row of that address is")]
    Forward { at: Rid, to: Rid },
    #[error("the row at {at:?} has moved away from {home:?}, which does not lead to it")]
    Moved { at: Rid, home: Rid },
    #[error("the row at {at:?} lies in {page:?}, which is not what it should be: {why}")]
    Large { at: Rid, page: PageId, why: &'static str },
}

impl HeapFlaw {
    /// The page with the flaw, if the flaw is in one page.
    pub fn page(&self) -> Option<PageId> {
        match self {
            HeapFlaw::Stop(_) => None,
            HeapFlaw::Foreign(page)
            | HeapFlaw::Twice(page)
            | HeapFlaw::List(page)
            | HeapFlaw::Garbled(page)
            | HeapFlaw::Ordinal { page, .. }
            | HeapFlaw::Overlap { page, .. }
            | HeapFlaw::Count { page, .. }
            | HeapFlaw::Large { page, .. } => Some(*page),
            HeapFlaw::Forward { at, .. } | HeapFlaw::Moved { at, .. } => Some(at.page),
        }
    }
}

/// The state of a check.
struct Walk<'s> {
    report: HeapReport,
    seen: &'s mut BTreeSet<PageId>,
    /// From a row's address to the place that its forward names.
    forwards: BTreeMap<Rid, Rid>,
    moved: BTreeMap<Rid, Rid>,
    large: Vec<(Rid, Large)>,
}

impl<'p> Heap<'p> {
    /// Checks the directories and all their pages, that forwards and moved rows match, and the
    /// pages of large rows. Reads absent pages in, blocking. No transaction may change the heap
    /// meanwhile.
    ///
    /// # Errors
    /// The first flaw met.
    pub fn verify<L: LatchPolicy>(&self) -> Result<HeapReport, HeapFlaw> {
        self.verify_into::<L>(&mut BTreeSet::new())
    }

    /// As [`Heap::verify`], and adds each page of the heap to `seen`; a page that is in `seen`
    /// already is a flaw.
    ///
    /// # Errors
    /// The first flaw met.
    pub fn verify_into<L: LatchPolicy>(&self, seen: &mut BTreeSet<PageId>) -> Result<HeapReport, HeapFlaw> {
        let (forwards, moved) = (BTreeMap::new(), BTreeMap::new());
        let mut walk = Walk { report: HeapReport::default(), seen, forwards, moved, large: Vec::new() };
        walk.meet(self.root)?;
        let directories = self.listed_directories::<L>()?;
        for (i, id) in directories.iter().enumerate() {
            walk.meet(*id)?;
            walk.report.directories += 1;
            for (index, page) in self.listed_pages::<L>(*id)?.into_iter().enumerate() {
                walk.meet(page)?;
                self.check_page::<L>(page, (i * PER_DIRECTORY + index) as u32, &mut walk)?;
                for (at, large) in std::mem::take(&mut walk.large) {
                    self.check_large::<L>(at, large, &mut walk)?;
                }
            }
            let full = (i + 1) * PER_DIRECTORY == walk.report.pages as usize;
            if !full && i + 1 < directories.len() {
                return Err(HeapFlaw::List(*id));
            }
        }
        walk.check_moves()?;
        Ok(walk.report)
    }

    fn check_large<L: LatchPolicy>(
        &self,
        at: Rid,
        large: Large,
        walk: &mut Walk<'_>,
    ) -> Result<(), HeapFlaw> {
        let flaw = |page, why| HeapFlaw::Large { at, page, why };
        let garbled = |page| move |Garbled| flaw(page, "it contradicts itself");
        walk.meet(large.root)?;
        let root = self.read_in::<L>(large.root, KIND_LARGE_ROOT)?;
        let view = LargeView::new(root.bytes());
        let pages: Vec<PageId> = view.pages().map_err(garbled(large.root))?.collect();
        if view.length() != large.length {
            return Err(flaw(large.root, "it is as long as another row"));
        }
        if view.state() != Ok(LargeRowState::Live) {
            return Err(flaw(large.root, "it was replaced"));
        }
        let mut bytes = bytes_in(&root, None).map_err(garbled(large.root))?;
        for (index, &id) in pages.iter().enumerate() {
            walk.meet(id)?;
            let page = self.read_in::<L>(id, KIND_LARGE_DATA)?;
            bytes += bytes_in(&page, Some((large.root, index))).map_err(garbled(id))?;
        }
        if bytes != large.length as usize {
            return Err(flaw(large.root, "its pages hold more or less than the row"));
        }
        walk.report.large_pages += 1 + pages.len() as u64;
        Ok(())
    }

    fn read_in<L: LatchPolicy>(&self, id: PageId, kind: u8) -> Result<PageRef<'p, L>, HeapFlaw> {
        loop {
            match self.pool.shared_as::<L>(Rank::HeapPage, id) {
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
        walk: &mut Walk<'_>,
    ) -> Result<(), HeapFlaw> {
        let page = self.read_in::<L>(id, KIND_ROWS)?;
        let rows = Rows::new(page.bytes());
        if rows.ordinal() != listed {
            return Err(HeapFlaw::Ordinal { page: id, found: rows.ordinal(), listed });
        }
        walk.report.pages += 1;
        check_rows(rows, id, walk)
    }
}

impl Walk<'_> {
    fn meet(&mut self, page: PageId) -> Result<(), HeapFlaw> {
        if self.seen.insert(page) { Ok(()) } else { Err(HeapFlaw::Twice(page)) }
    }

    fn note(&mut self, at: Rid, cell: Cell<'_>) {
        self.report.rows += u64::from(!matches!(cell, Cell::Forward(_)));
        match cell {
            Cell::Row(row) => self.report.row_bytes += row.len() as u64,
            Cell::Forward(to) => drop(self.forwards.insert(at, to)),
            Cell::Moved { home, row } => {
                self.report.moved_rows += 1;
                self.report.row_bytes += row.len() as u64;
                self.moved.insert(at, home);
            }
            Cell::Large(large) => {
                self.report.large_rows += 1;
                self.report.row_bytes += u64::from(large.length);
                self.large.push((at, large));
            }
        }
    }

    /// Each forward must lead to a row that has moved from there, and each moved row must have its
    /// forward.
    fn check_moves(&self) -> Result<(), HeapFlaw> {
        let stray = self.forwards.iter().find(|(home, to)| self.moved.get(to) != Some(home));
        if let Some((&at, &to)) = stray {
            return Err(HeapFlaw::Forward { at, to });
        }
        match self.moved.iter().find(|(at, home)| self.forwards.get(home) != Some(at)) {
            Some((&at, &home)) => Err(HeapFlaw::Moved { at, home }),
            None => Ok(()),
        }
    }
}

/// Checks that rows lie inside the page, that they do not overlap, and that the counters are right.
fn check_rows(rows: Rows<'_>, page: PageId, walk: &mut Walk<'_>) -> Result<(), HeapFlaw> {
    let garbled = |Garbled| HeapFlaw::Garbled(page);
    let mut taken = Vec::new();
    let (mut free, mut ghosts) = (0, 0);
    for i in 0..rows.slots() {
        let slot = rows.slot(i).map_err(garbled)?;
        if slot.is_free() {
            free += 1;
            continue;
        }
        taken.push(slot.extent());
        if slot.len() > slot.extent().len() {
            return Err(HeapFlaw::Garbled(page));
        }
        let at = Rid { page, slot: i };
        match rows.any_cell(i).map_err(garbled)? {
            Some(cell) if !slot.is_ghost() => walk.note(at, cell),
            // A ghost keeps its large row: undo restores both together, and purge frees both
            // together.
            Some(Cell::Large(large)) => {
                walk.large.push((at, large));
                ghosts += 1;
            }
            _ => ghosts += 1,
        }
    }
    walk.report.ghosts += ghosts as u64;
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
