//! Finding a page with room, and adding pages.

use super::Heap;
use super::directory::{DIRECTORIES, Directory, PER_DIRECTORY, Root};
use super::large::Parts;
use super::rows::{CLASS_OF_NEW, Rows, class_needed};
use crate::Journal;
use crate::page::{KIND_DIRECTORY, KIND_HEAP_ROOT, corrupt, is, new_page};
use crate::record::{Action, SystemBody};
use crate::redo::perform;
use base::{PageId, TableId};
use latch::{CachePadded, LatchPolicy};
use pages::{PageMut, PageRef, Pool, Stop};
use std::sync::atomic::{AtomicU32, Ordering};

/// Workers beyond this many share current pages.
const CURRENT: usize = 64;
/// Directories that one search for room looks through: some ten thousand pages in a few microseconds.
const LOOK: usize = 4;

/// Which page each worker of an instance inserts into. One for each heap, in memory only.
///
/// Who may do what: anyone reads; a worker writes its own entry. All of it is hints: whoever comes to a page latches
/// it and looks, so a stale or lost value costs time, never truth, and `Relaxed` is enough.
pub struct InsertPages {
    /// Page number, 0 for none.
    current: [CachePadded<AtomicU32>; CURRENT],
    /// The directory where the last search ended.
    rover: AtomicU32,
    /// Large rows that are being read.
    pub(super) parts: Parts,
}

impl InsertPages {
    pub const fn new() -> InsertPages {
        InsertPages {
            current: [const { CachePadded::new(AtomicU32::new(0)) }; CURRENT],
            rover: AtomicU32::new(0),
            parts: Parts::new(),
        }
    }

    fn of(&self, worker: usize) -> Option<PageId> {
        let page = self.current[worker % CURRENT].load(Ordering::Relaxed);
        (page != 0).then_some(PageId(page))
    }

    fn set(&self, worker: usize, page: Option<PageId>) {
        self.current[worker % CURRENT].store(page.map_or(0, |p| p.0), Ordering::Relaxed);
    }

    fn anyones(&self, page: PageId) -> bool {
        self.current.iter().any(|c| c.load(Ordering::Relaxed) == page.0)
    }
}

impl Default for InsertPages {
    fn default() -> Self {
        InsertPages::new()
    }
}

/// A page that the directory promises to have room.
struct Promise {
    page: PageId,
    ordinal: u32,
}

pub(super) fn create_at<L: LatchPolicy>(
    pool: &Pool,
    journal: &mut impl Journal,
    id: TableId,
    page: PageId,
) -> Result<(), Stop> {
    let mut root = crate::page::fresh::<L>(pool, page)?;
    let body = SystemBody::new(id).with(page, Action::HeapRoot);
    perform(journal, id, &body, &mut [&mut root])
}

impl<'p> Heap<'p> {
    pub(super) fn heap_root<L: LatchPolicy>(&self) -> Result<PageRef<'p, L>, Stop> {
        let root = self.pool.shared::<L>(self.root)?;
        if is(&root, KIND_HEAP_ROOT, self.id) { Ok(root) } else { Err(corrupt(&root)) }
    }

    fn directory<L: LatchPolicy>(&self, id: PageId) -> Result<PageRef<'p, L>, Stop> {
        let page = self.pool.shared::<L>(id)?;
        if is(&page, KIND_DIRECTORY, self.id) { Ok(page) } else { Err(corrupt(&page)) }
    }

    /// Pages in the heap: the next page's ordinal.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn pages<L: LatchPolicy>(&self) -> Result<u32, Stop> {
        let root = self.heap_root::<L>()?;
        let root = Root::new(root.bytes());
        let Some(last) = root.directories().checked_sub(1) else { return Ok(0) };
        let Some(id) = root.directory(last) else { return Err(crate::page::malformed(self.root)) };
        let directory = self.directory::<L>(id)?;
        Ok((last * PER_DIRECTORY + Directory::new(directory.bytes()).pages()) as u32)
    }

    /// The page with this ordinal; `None` behind the last one.
    pub(super) fn page_at<L: LatchPolicy>(&self, ordinal: u32) -> Result<Option<PageId>, Stop> {
        let root = self.heap_root::<L>()?;
        let (directory, index) = place(ordinal);
        let Some(id) = Root::new(root.bytes()).directory(directory) else { return Ok(None) };
        let directory = self.directory::<L>(id)?;
        Ok(Directory::new(directory.bytes()).page(index))
    }

    /// A page with room for a row of `len` bytes, latched: the worker's own, a promised one, or a new one.
    pub(super) fn page_with_room<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        len: usize,
    ) -> Result<PageMut<'p, L>, Stop> {
        let worker = journal.worker();
        if let Some(page) = self.current::<L>(journal, worker, len)? {
            return Ok(page);
        }
        while let Some(promise) = self.promised::<L>(len)? {
            let page = self.pool.exclusive::<L>(promise.page)?;
            let rows = self.rows(&page, promise.page)?;
            if rows.fits(len) {
                self.hints.set(worker, Some(promise.page));
                return Ok(page);
            }
            let class = rows.class();
            drop(page);
            self.note_class::<L>(journal, promise.ordinal, class)?;
        }
        let page = self.extend::<L>(journal)?;
        self.hints.set(worker, Some(page.page_id()));
        Ok(page)
    }

    /// The worker's current page, if the row fits; if not, the directory learns what is left and the page is given up.
    fn current<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        worker: usize,
        len: usize,
    ) -> Result<Option<PageMut<'p, L>>, Stop> {
        let Some(id) = self.hints.of(worker) else { return Ok(None) };
        let page = self.pool.exclusive::<L>(id)?;
        let rows = self.rows(&page, id)?;
        if rows.fits(len) {
            return Ok(Some(page));
        }
        let (ordinal, class) = (rows.ordinal(), rows.class());
        drop(page);
        self.note_class::<L>(journal, ordinal, class)?;
        self.hints.set(worker, None);
        Ok(None)
    }

    /// A page that should have room and is nobody's current page.
    fn promised<L: LatchPolicy>(&self, len: usize) -> Result<Option<Promise>, Stop> {
        let root_page = self.heap_root::<L>()?;
        let root = Root::new(root_page.bytes());
        let directories = root.directories().min(DIRECTORIES);
        let start = self.hints.rover.load(Ordering::Relaxed) as usize;
        for step in 0..directories.min(LOOK) {
            let at = (start + step) % directories;
            let Some(id) = root.directory(at) else { break };
            let directory = self.directory::<L>(id)?;
            let directory = Directory::new(directory.bytes());
            for index in directory.with_room(class_needed(len)) {
                let Some(page) = directory.page(index) else { break };
                if !self.hints.anyones(page) {
                    self.hints.rover.store(at as u32, Ordering::Relaxed);
                    return Ok(Some(Promise { page, ordinal: (at * PER_DIRECTORY + index) as u32 }));
                }
            }
        }
        let looked = directories.min(LOOK);
        self.hints
            .rover
            .store((start + looked).checked_rem(directories).unwrap_or(0) as u32, Ordering::Relaxed);
        Ok(None)
    }

    /// Writes into the directory how much room a page has, if that is not what it says.
    pub(super) fn note_class<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        ordinal: u32,
        class: u8,
    ) -> Result<(), Stop> {
        let (directory, index) = place(ordinal);
        let root = self.heap_root::<L>()?;
        let id = Root::new(root.bytes()).directory(directory).ok_or_else(|| corrupt(&root))?;
        let mut directory = self.pool.exclusive::<L>(id)?;
        drop(root);
        if !is(&directory, KIND_DIRECTORY, self.id) {
            return Err(corrupt(&directory));
        }
        match Directory::new(directory.bytes()).class(index) {
            Some(now) if now == class => Ok(()),
            Some(_) => {
                let body = SystemBody::new(self.id).with(id, Action::Class { index: index as u16, class });
                perform(journal, self.id, &body, &mut [&mut directory])
            }
            None => Err(corrupt(&directory)),
        }
    }

    /// Adds a page to the heap, and a directory when the last one is full. The root's latch makes adders queue.
    fn extend<L: LatchPolicy>(&self, journal: &mut impl Journal) -> Result<PageMut<'p, L>, Stop> {
        let mut root = self.pool.exclusive::<L>(self.root)?;
        if !is(&root, KIND_HEAP_ROOT, self.id) {
            return Err(corrupt(&root));
        }
        let directories = Root::new(root.bytes()).directories();
        if let Some(last) = directories.checked_sub(1) {
            let id = Root::new(root.bytes()).directory(last).ok_or_else(|| corrupt(&root))?;
            let mut directory = self.pool.exclusive::<L>(id)?;
            if !is(&directory, KIND_DIRECTORY, self.id) {
                return Err(corrupt(&directory));
            }
            let index = Directory::new(directory.bytes()).pages();
            if index < PER_DIRECTORY {
                drop(root);
                return self.add_page(journal, &mut directory, (last * PER_DIRECTORY + index) as u32);
            }
        }
        if directories >= DIRECTORIES {
            return Err(Stop::NoSpace);
        }
        let mut directory = new_page::<L>(self.pool)?;
        let body = SystemBody::new(self.id)
            .with(directory.page_id(), Action::HeapDirectory)
            .with(self.root, Action::RootAdd { directory: directory.page_id() });
        perform(journal, self.id, &body, &mut [&mut directory, &mut root])?;
        drop(root);
        self.add_page(journal, &mut directory, (directories * PER_DIRECTORY) as u32)
    }

    fn add_page<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        directory: &mut PageMut<'p, L>,
        ordinal: u32,
    ) -> Result<PageMut<'p, L>, Stop> {
        let mut page = new_page::<L>(self.pool)?;
        let id = page.page_id();
        let body = SystemBody::new(self.id)
            .with(id, Action::HeapPage { ordinal })
            .with(directory.page_id(), Action::DirectoryAdd { page: id, class: CLASS_OF_NEW });
        perform(journal, self.id, &body, &mut [&mut page, directory])?;
        debug_assert_eq!(Rows::new(page.bytes()).ordinal(), ordinal);
        Ok(page)
    }
}

/// Directory and index in it of the page with this ordinal.
fn place(ordinal: u32) -> (usize, usize) {
    (ordinal as usize / PER_DIRECTORY, ordinal as usize % PER_DIRECTORY)
}
