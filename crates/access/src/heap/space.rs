//! Finding a page with room, and adding pages.

use super::Heap;
use super::directory::{DIRECTORIES, Directory, PER_DIRECTORY, Root};
use super::large::PartialRows;
use super::rows::{CLASS_OF_NEW, class_needed};
use crate::Journal;
use crate::page::{KIND_DIRECTORY, KIND_HEAP_ROOT, corrupt, is, new_page};
use crate::record::{Action, SystemBody};
use crate::redo::perform;
use base::{PageId, TableId};
use latch::{CachePadded, LatchPolicy, Rank};
use pages::{PageMut, PageRef, Pool, Stop};
use probe::mark::{self, marked};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Workers beyond this number share current pages.
const CURRENT: usize = 64;
/// Directories that one search for room reads: about ten thousand pages in a few microseconds.
const LOOK: usize = 4;

/// The page that each worker of an instance inserts into. One value for each heap, in memory only.
///
/// # Access rules
///
/// Every thread may read. A worker writes its own entry of `current`; any thread may write `groups`
/// and `rover`. The page numbers are hints: a thread that comes to a page latches it and checks. So
/// a stale or lost value costs time but never correctness, and `Relaxed` is enough.
///
/// `claims` is only ever set. It publishes nothing: a page's owner is in the word of its latch, and
/// each claim is ordered by that word. It is set while the store is opened, and the start of the
/// worker threads orders it before their first look. So `Relaxed` is enough here, too.
pub struct InsertPages {
    /// Page number of each worker's current page, 0 for none.
    current: [CachePadded<AtomicU32>; CURRENT],
    /// The page that rows of a group of keys went to last, indexed by group number modulo the
    /// length. Group number in the upper half, page number in the lower half.
    groups: [AtomicU64; CURRENT],
    /// The directory in which the last search ended.
    rover: AtomicU32,
    /// Whether a thread that claims pages also claims the heap pages that it touches.
    claims: CachePadded<AtomicBool>,
    /// Large rows that are partly read.
    pub(super) parts: PartialRows,
}

impl InsertPages {
    pub const fn new() -> InsertPages {
        InsertPages {
            current: [const { CachePadded::new(AtomicU32::new(0)) }; CURRENT],
            groups: [const { AtomicU64::new(0) }; CURRENT],
            rover: AtomicU32::new(0),
            claims: CachePadded::new(AtomicBool::new(false)),
            parts: PartialRows::new(),
        }
    }

    /// From this call on, heap pages may belong to the owners that change them ([`latch::claim`]).
    /// To be called before the threads start that work on the heap.
    pub fn have_owners(&self) {
        self.claims.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn claims(&self) -> bool {
        self.claims.load(Ordering::Relaxed)
    }

    /// The page that rows of this group of keys went to last. Two groups may share an entry; then
    /// each overwrites the other's page.
    pub fn of_group(&self, group: u32) -> Option<PageId> {
        let both = self.groups[group as usize % CURRENT].load(Ordering::Relaxed);
        (both >> 32 == u64::from(group) && both as u32 != 0).then_some(PageId(both as u32))
    }

    pub fn set_group(&self, group: u32, page: PageId) {
        let both = u64::from(group) << 32 | u64::from(page.0);
        self.groups[group as usize % CURRENT].store(both, Ordering::Relaxed);
    }

    /// Whether rows of some group of keys went to this page last.
    pub(super) fn is_of_group(&self, page: PageId) -> bool {
        self.groups.iter().any(|g| g.load(Ordering::Relaxed) as u32 == page.0)
    }

    /// Forgets the pages of all groups, because the groups have changed.
    pub fn forget_groups(&self) {
        self.groups.iter().for_each(|group| group.store(0, Ordering::Relaxed));
    }

    pub(super) fn of(&self, worker: usize) -> Option<PageId> {
        let page = self.current[worker % CURRENT].load(Ordering::Relaxed);
        (page != 0).then_some(PageId(page))
    }

    pub(super) fn set(&self, worker: usize, page: Option<PageId>) {
        self.current[worker % CURRENT].store(page.map_or(0, |p| p.0), Ordering::Relaxed);
    }

    fn anyones(&self, page: PageId) -> bool {
        self.current.iter().any(|c| c.load(Ordering::Relaxed) == page.0) || self.is_of_group(page)
    }
}

impl Default for InsertPages {
    fn default() -> Self {
        InsertPages::new()
    }
}

/// A page that has enough room by its directory entry.
pub(super) struct Promise {
    pub page: PageId,
    pub ordinal: u32,
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
        let root = self.pool.shared_as::<L>(Rank::HeapPage, self.root)?;
        if is(&root, KIND_HEAP_ROOT, self.id) { Ok(root) } else { Err(corrupt(&root)) }
    }

    fn directory<L: LatchPolicy>(&self, id: PageId) -> Result<PageRef<'p, L>, Stop> {
        let page = self.pool.shared_as::<L>(Rank::HeapPage, id)?;
        if is(&page, KIND_DIRECTORY, self.id) { Ok(page) } else { Err(corrupt(&page)) }
    }

    /// The number of pages in the heap, which is also the ordinal of the next page.
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

    /// The page with this ordinal; `None` after the last one.
    pub(super) fn page_at<L: LatchPolicy>(&self, ordinal: u32) -> Result<Option<PageId>, Stop> {
        let root = self.heap_root::<L>()?;
        let (directory, index) = place(ordinal);
        let Some(id) = Root::new(root.bytes()).directory(directory) else { return Ok(None) };
        let directory = self.directory::<L>(id)?;
        Ok(Directory::new(directory.bytes()).page(index))
    }

    /// A page with room for a row of `len` bytes, latched: the worker's current page, one found in
    /// a directory, or a new one.
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
            let page = self.page_to_change::<L>(promise.page)?;
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

    /// The worker's current page, if the row fits. If it does not fit, the directory gets the
    /// page's free-space class, and the page is no longer current.
    fn current<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        worker: usize,
        len: usize,
    ) -> Result<Option<PageMut<'p, L>>, Stop> {
        let Some(id) = self.hints.of(worker) else { return Ok(None) };
        if self.pool.is_foreign(id) {
            self.hints.set(worker, None);
            return Ok(None);
        }
        let page = self.page_to_change::<L>(id)?;
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

    /// A page that has room by its directory entry, is no worker's current page and belongs to no
    /// other owner.
    pub(super) fn promised<L: LatchPolicy>(&self, len: usize) -> Result<Option<Promise>, Stop> {
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
                if !self.hints.anyones(page) && !self.pool.is_foreign(page) {
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

    /// Writes a page's free-space class into the directory, unless it is there already.
    pub(super) fn note_class<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        ordinal: u32,
        class: u8,
    ) -> Result<(), Stop> {
        let (directory, index) = place(ordinal);
        let root = self.heap_root::<L>()?;
        let id = Root::new(root.bytes()).directory(directory).ok_or_else(|| corrupt(&root))?;
        let mut directory = self.pool.exclusive_as::<L>(Rank::HeapPage, id)?;
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

    /// Adds an empty page to the heap.
    fn extend<L: LatchPolicy>(&self, journal: &mut impl Journal) -> Result<PageMut<'p, L>, Stop> {
        self.extend_as(journal, CLASS_OF_NEW)
    }

    /// Adds an empty page to the heap and notes it with this class in the directory.
    pub(super) fn extend_as<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        class: u8,
    ) -> Result<PageMut<'p, L>, Stop> {
        let mut page = self.extend_by(journal, None, class, |ordinal| Action::HeapPage { ordinal })?;
        if self.hints.claims() {
            page.claim();
        }
        Ok(page)
    }

    /// Adds a page to the heap, and a directory when the last one is full. The exclusive latch of
    /// the root serializes this. `id` is a page that the caller has allocated, if any; `content`
    /// makes the page's content from its ordinal.
    pub(super) fn extend_by<'a, L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        id: Option<PageId>,
        class: u8,
        content: impl Fn(u32) -> Action<'a>,
    ) -> Result<PageMut<'p, L>, Stop> {
        let _traced = marked::<{ mark::ALLOCATE }>();
        let mut root = self.pool.exclusive_as::<L>(Rank::HeapPage, self.root)?;
        if !is(&root, KIND_HEAP_ROOT, self.id) {
            return Err(corrupt(&root));
        }
        let directories = Root::new(root.bytes()).directories();
        if let Some(last) = directories.checked_sub(1) {
            let at = Root::new(root.bytes()).directory(last).ok_or_else(|| corrupt(&root))?;
            let mut directory = self.pool.exclusive_as::<L>(Rank::HeapPage, at)?;
            if !is(&directory, KIND_DIRECTORY, self.id) {
                return Err(corrupt(&directory));
            }
            let index = Directory::new(directory.bytes()).pages();
            if index < PER_DIRECTORY {
                drop(root);
                let content = content((last * PER_DIRECTORY + index) as u32);
                return self.add_page(journal, &mut directory, id, class, content);
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
        let content = content((directories * PER_DIRECTORY) as u32);
        self.add_page(journal, &mut directory, id, class, content)
    }

    fn add_page<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        directory: &mut PageMut<'p, L>,
        id: Option<PageId>,
        class: u8,
        content: Action<'_>,
    ) -> Result<PageMut<'p, L>, Stop> {
        let mut page = match id {
            Some(id) => self.pool.fresh::<L>(id)?,
            None => new_page::<L>(self.pool)?,
        };
        let id = page.page_id();
        let body = SystemBody::new(self.id)
            .with(id, content)
            .with(directory.page_id(), Action::DirectoryAdd { page: id, class });
        perform(journal, self.id, &body, &mut [&mut page, directory])?;
        Ok(page)
    }
}

/// The directory of the page with this ordinal, and its index there.
fn place(ordinal: u32) -> (usize, usize) {
    (ordinal as usize / PER_DIRECTORY, ordinal as usize % PER_DIRECTORY)
}
