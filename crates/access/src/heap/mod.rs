//! The heap: rows that keep their address.
//!
//! ```text
//! root ── directory 0 ── page, page, page, ...          (free-space class of each in the directory)
//!      └─ directory 1 ── page, page, ...
//! ```
//!
//! **Reading** goes straight to the page a [`Rid`] names: one latch. **Inserting** goes to the worker's own current page
//! ([`InsertPages`]), so that workers do not meet; when that is full, to a page that the directory promises to have
//! room, else to a new page. **Deleting** makes a ghost, which [`Heap::purge`] takes away once the deletion is
//! committed; until then bringing it back needs no room. A row that outgrows its page moves, and the caller is told
//! where to.
//!
//! **Latch order.** Root, then directory, then nothing else but a page no one has seen. Two heap pages are only held
//! together by a move, in the order of their numbers.

mod directory;
mod rows;
mod space;
mod verify;

#[cfg(test)]
mod tests;

pub(crate) use directory::{Directory, DirectoryMut, Root, RootMut};
pub use rows::MAX_ROW;
pub(crate) use rows::RowsMut;
pub use space::InsertPages;
pub use verify::{HeapFlaw, HeapReport};

use crate::Journal;
use crate::bytes::{Garbled, common_prefix, common_suffix};
use crate::page::{KIND_ROWS, bytes_mut, corrupt, is, too_long};
use crate::record::{Change, Kind, range_front, slot_front};
use base::{Lsn, PageId, Rid, TableId};
use latch::LatchPolicy;
use pages::{Page, PageMut, Pool, Stop};
use rows::Rows;
use wal::Order;

/// A heap in a pool: a handle of a few words, made for each use.
#[derive(Clone, Copy)]
pub struct Heap<'p> {
    pool: &'p Pool,
    root: PageId,
    id: TableId,
    hints: &'p InsertPages,
}

/// What [`Heap::update`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeapUpdate {
    Done,
    /// The row did not fit its page any more and is here now; the old place is a ghost, to be purged after commit.
    Relocated(Rid),
    /// There is no row at this place.
    Missing,
}

/// What [`Heap::modify`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeapModify<R> {
    Done(R),
    /// The closure has run, but the row has become too long for its page and nothing was changed: call
    /// [`Heap::update`] with the buffer's content.
    Outgrown(R),
    /// There is no row at this place; the closure was not called.
    Missing,
}

impl<'p> Heap<'p> {
    /// The heap whose root lies in page `root`. `hints` lives with the table and is shared by all workers.
    pub fn open(pool: &'p Pool, root: PageId, id: TableId, hints: &'p InsertPages) -> Heap<'p> {
        Heap { pool, root, id, hints }
    }

    /// Makes an empty heap and gives its root page, to be kept in the catalog.
    ///
    /// # Errors
    /// What the pool says when it has no page left.
    pub fn create<L: LatchPolicy>(
        pool: &Pool,
        journal: &mut impl Journal,
        id: TableId,
    ) -> Result<PageId, Stop> {
        let page = pool.allocate()?;
        Self::create_at::<L>(pool, journal, id, page).inspect_err(|_| pool.free(page))?;
        Ok(page)
    }

    /// As [`Heap::create`], with its root in a page that the caller has allocated.
    ///
    /// # Errors
    /// What the pool says when no frame is free; nothing was changed.
    pub fn create_at<L: LatchPolicy>(
        pool: &Pool,
        journal: &mut impl Journal,
        id: TableId,
        page: PageId,
    ) -> Result<(), Stop> {
        space::create_at::<L>(pool, journal, id, page)
    }

    pub fn root(&self) -> PageId {
        self.root
    }

    pub fn id(&self) -> TableId {
        self.id
    }

    #[inline]
    fn rows<'a>(&self, page: &'a Page, id: PageId) -> Result<Rows<'a>, Stop> {
        rows_of(page, id, self.id)
    }

    /// Adds a row.
    ///
    /// # Errors
    /// [`Stop`]: no row was added; [`Stop::Fault`] also when it is longer than [`MAX_ROW`].
    pub fn insert<L: LatchPolicy>(&self, journal: &mut impl Journal, row: &[u8]) -> Result<Rid, Stop> {
        check_length(row)?;
        let mut page = self.page_with_room::<L>(journal, row.len())?;
        self.put(journal, &mut page, row)
    }

    /// Adds a row to a page that has room.
    fn put<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        page: &mut PageMut<'p, L>,
        row: &[u8],
    ) -> Result<Rid, Stop> {
        let rid = Rid {
            page: page.page_id(),
            slot: Rows::new(page.bytes()).next_slot().map_err(|Garbled| corrupt(page))?,
        };
        let lsn = journal.undoable(Kind::HeapInsert as u8, page.lsn(), &[&self.front(rid), row]);
        change(page, lsn, |rows| rows.insert(rid.slot, row))?;
        Ok(rid)
    }

    fn front(&self, rid: Rid) -> [u8; 8] {
        slot_front(rid.page, self.id, rid.slot)
    }

    /// Calls `f` on the row at `rid`, under the page's latch; `None` if there is none.
    ///
    /// # Errors
    /// [`Stop`]; `f` was not called.
    #[inline]
    pub fn read<L: LatchPolicy, R>(&self, rid: Rid, f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Stop> {
        let page = self.pool.shared::<L>(rid.page)?;
        let row = self.rows(&page, rid.page)?.row(rid.slot);
        Ok(row.map_err(|Garbled| corrupt(&page))?.map(f))
    }

    /// Makes the row at `rid` these bytes. Logs the range that changes; no change logs nothing.
    ///
    /// # Errors
    /// [`Stop`]: nothing was changed; [`Stop::Fault`] also when the row is longer than [`MAX_ROW`].
    pub fn update<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        rid: Rid,
        row: &[u8],
    ) -> Result<HeapUpdate, Stop> {
        check_length(row)?;
        let mut page = self.pool.exclusive::<L>(rid.page)?;
        let rows = self.rows(&page, rid.page)?;
        let find = || Ok((rows.row(rid.slot)?.is_some(), rows.fits_grown(rid.slot, row.len())?));
        match find().map_err(|Garbled| corrupt(&page))? {
            (false, _) => Ok(HeapUpdate::Missing),
            (true, true) => self.overwrite(journal, &mut page, rid, row).map(|()| HeapUpdate::Done),
            (true, false) => {
                drop(page);
                self.relocate::<L>(journal, rid, row)
            }
        }
    }

    /// Lets `f` change a copy of the row in `buffer` and writes back what changed, in one hold of the page.
    ///
    /// # Errors
    /// [`Stop`]: `f` was not called and nothing was changed; but [`Stop::Fault`] because `f` made the row longer than
    /// [`MAX_ROW`] comes after the call.
    pub fn modify<L: LatchPolicy, R>(
        &self,
        journal: &mut impl Journal,
        rid: Rid,
        buffer: &mut Vec<u8>,
        f: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> Result<HeapModify<R>, Stop> {
        let mut page = self.pool.exclusive::<L>(rid.page)?;
        let row = self.rows(&page, rid.page)?.row(rid.slot).map_err(|Garbled| corrupt(&page))?;
        let Some(row) = row else { return Ok(HeapModify::Missing) };
        buffer.clear();
        buffer.extend_from_slice(row);
        let result = f(buffer);
        check_length(buffer)?;
        let fits = Rows::new(page.bytes()).fits_grown(rid.slot, buffer.len());
        if !fits.map_err(|Garbled| corrupt(&page))? {
            return Ok(HeapModify::Outgrown(result));
        }
        self.overwrite(journal, &mut page, rid, buffer)?;
        Ok(HeapModify::Done(result))
    }

    /// Logs and writes the bytes in which `row` differs from the row at `rid`, which is there.
    fn overwrite<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        page: &mut PageMut<'p, L>,
        rid: Rid,
        row: &[u8],
    ) -> Result<(), Stop> {
        let old = Rows::new(page.bytes()).row(rid.slot).map_err(|Garbled| corrupt(page))?.unwrap_or_default();
        if old == row {
            return Ok(());
        }
        let at = common_prefix(old, row);
        let tail = common_suffix(&old[at..], &row[at..]);
        let (old, new) = (&old[at..old.len() - tail], &row[at..row.len() - tail]);
        let range = range_front(at, old.len());
        let lsn = journal.undoable(Kind::HeapUpdate as u8, page.lsn(), &[&self.front(rid), &range, old, new]);
        let old = old.len();
        change(page, lsn, |rows| rows.splice(rid.slot, at, old, new))
    }

    /// Moves the row at `rid` to a page where its new form fits.
    fn relocate<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        rid: Rid,
        row: &[u8],
    ) -> Result<HeapUpdate, Stop> {
        let mut page = self.page_with_room::<L>(journal, row.len())?;
        let target = page.page_id();
        if target == rid.page {
            // Room came up just there.
            let rows = self.rows(&page, target)?;
            let find = || Ok((rows.row(rid.slot)?.is_some(), rows.fits_grown(rid.slot, row.len())?));
            return match find().map_err(|Garbled| corrupt(&page))? {
                (false, _) => Ok(HeapUpdate::Missing),
                (true, true) => self.overwrite(journal, &mut page, rid, row).map(|()| HeapUpdate::Done),
                (true, false) => Err(corrupt(&page)),
            };
        }
        drop(page);
        let low = self.pool.exclusive::<L>(target.min(rid.page))?;
        let high = self.pool.exclusive::<L>(target.max(rid.page))?;
        let (mut old, mut new) = if target < rid.page { (high, low) } else { (low, high) };
        let there = self.rows(&old, rid.page)?.row(rid.slot).map_err(|Garbled| corrupt(&old))?;
        if there.is_none() {
            return Ok(HeapUpdate::Missing);
        }
        if !self.rows(&new, target)?.fits(row.len()) {
            return Err(Stop::Again);
        }
        let to = self.put(journal, &mut new, row)?;
        let lsn = journal.undoable(Kind::HeapDelete as u8, old.lsn(), &[&self.front(rid)]);
        change(&mut old, lsn, |rows| rows.bury(rid.slot))?;
        Ok(HeapUpdate::Relocated(to))
    }

    /// Makes the row at `rid` a ghost: gone for readers, its place kept until [`Heap::purge`]. `false` if there is
    /// no row.
    ///
    /// # Errors
    /// [`Stop`]: nothing was changed.
    pub fn delete<L: LatchPolicy>(&self, journal: &mut impl Journal, rid: Rid) -> Result<bool, Stop> {
        let mut page = self.pool.exclusive::<L>(rid.page)?;
        let row = self.rows(&page, rid.page)?.row(rid.slot).map_err(|Garbled| corrupt(&page))?;
        if row.is_none() {
            return Ok(false);
        }
        let lsn = journal.undoable(Kind::HeapDelete as u8, page.lsn(), &[&self.front(rid)]);
        change(&mut page, lsn, |rows| rows.bury(rid.slot))?;
        Ok(true)
    }

    /// Takes away the ghost that a committed delete (or move) left, once. `false` if there is no ghost.
    ///
    /// # Errors
    /// [`Stop`]: nothing was changed.
    pub fn purge<L: LatchPolicy>(&self, journal: &mut impl Journal, rid: Rid) -> Result<bool, Stop> {
        let mut page = self.pool.exclusive::<L>(rid.page)?;
        let rows = self.rows(&page, rid.page)?;
        if !rows.slot(rid.slot).map_err(|Garbled| corrupt(&page))?.is_ghost() {
            return Ok(false);
        }
        let before = rows.class();
        let lsn = journal.system(Kind::HeapRemove as u8, Order::After(page.lsn()), &[&self.front(rid)]);
        change(&mut page, lsn, |rows| rows.remove(rid.slot))?;
        let rows = Rows::new(page.bytes());
        let (ordinal, class) = (rows.ordinal(), rows.class());
        drop(page);
        if class > before {
            // A courtesy: the directory's promise may lag behind.
            let _ = self.note_class::<L>(journal, ordinal, class);
        }
        Ok(true)
    }

    /// Calls `visit` with the rows of the heap's `ordinal`-th page; `false` behind the last page.
    ///
    /// # Errors
    /// [`Stop`]; on a malformed page some rows may have been visited before [`Stop::Fault`].
    pub fn chunk<L: LatchPolicy>(
        &self,
        ordinal: u32,
        mut visit: impl FnMut(Rid, &[u8]),
    ) -> Result<bool, Stop> {
        let Some(id) = self.page_at::<L>(ordinal)? else { return Ok(false) };
        let page = self.pool.shared::<L>(id)?;
        let rows = self.rows(&page, id)?;
        for slot in 0..rows.slots() {
            if let Some(row) = rows.row(slot).map_err(|Garbled| corrupt(&page))? {
                visit(Rid { page: id, slot }, row);
            }
        }
        Ok(true)
    }
}

/// The heap page in `page`, if it is one of heap `owner`.
#[inline]
fn rows_of(page: &Page, id: PageId, owner: TableId) -> Result<Rows<'_>, Stop> {
    if is(page, KIND_ROWS, owner) { Ok(Rows::new(page.bytes())) } else { Err(crate::page::malformed(id)) }
}

fn check_length(row: &[u8]) -> Result<(), Stop> {
    if row.len() > MAX_ROW { Err(too_long("row", row.len(), MAX_ROW)) } else { Ok(()) }
}

/// Changes a heap page whose change was logged at `lsn`; a page that does not take it is corrupt.
fn change<L: LatchPolicy>(
    page: &mut PageMut<'_, L>,
    lsn: Lsn,
    change: impl FnOnce(&mut RowsMut<'_>) -> Result<(), Garbled>,
) -> Result<(), Stop> {
    change(&mut RowsMut::new(bytes_mut(page))).map_err(|Garbled| corrupt(page))?;
    page.logged(lsn);
    Ok(())
}

/// Takes back one change to a heap page, by another one that the journal writes as compensation.
pub(crate) fn compensate<L: LatchPolicy>(
    pool: &Pool,
    journal: &mut impl Journal,
    owner: TableId,
    page: PageId,
    undone: Change<'_>,
) -> Result<(), Stop> {
    let mut page = pool.exclusive::<L>(page)?;
    rows_of(&page, page.page_id(), owner)?;
    let front = |slot| slot_front(page.page_id(), owner, slot);
    match undone {
        Change::HeapInsert { slot, .. } => {
            let lsn = journal.undoable(Kind::HeapRemove as u8, page.lsn(), &[&front(slot)]);
            change(&mut page, lsn, |rows| rows.remove(slot))
        }
        Change::HeapUpdate { slot, at, old, new } => {
            let range = range_front(at, new.len());
            let lsn = journal.undoable(Kind::HeapUpdate as u8, page.lsn(), &[&front(slot), &range, new, old]);
            change(&mut page, lsn, |rows| rows.splice(slot, at, new.len(), old))
        }
        Change::HeapDelete { slot } => {
            let lsn = journal.undoable(Kind::HeapRestore as u8, page.lsn(), &[&front(slot)]);
            change(&mut page, lsn, |rows| rows.restore(slot))
        }
        _ => Ok(()),
    }
}
