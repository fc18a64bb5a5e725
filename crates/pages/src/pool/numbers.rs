//! Page numbers: which are in use, by the pool and by the log.
//!
//! [`Pool::allocate`] and [`Pool::free`] change the set of numbers that the pool gives out;
//! [`Pool::claimed`] and [`Pool::released`] the set that the log counts as used (`allocator`).
//!
//! A checkpoint stores the second set. So if a crash comes after [`Pool::allocate`] and before the
//! record of [`Pool::claimed`], the page is free after restart.

use super::Pool;
use crate::allocator::AllocatorState;
use crate::fault::{PageFault, Stop};
use base::PageId;
use probe::Section;

impl Pool {
    /// An unused page number. The page has its old bytes, so the caller begins with
    /// [`Pool::fresh`]. After the log has the record that gives the page its content, the thread
    /// that logs calls [`Pool::claimed`].
    ///
    /// # Errors
    /// [`Stop::NoSpace`] if all `max_pages` are in use.
    pub fn allocate(&self) -> Result<PageId, Stop> {
        probe::enter(Section::PageSpace);
        let id = self.allocator.lock().take().ok_or(Stop::NoSpace)?;
        probe::count(probe::Counter::AllocatedPages);
        Ok(id)
    }

    /// Frees page `id` and ends its ownership.
    pub fn free(&self, id: PageId) {
        self.give_up(id);
        probe::enter(Section::PageSpace);
        self.allocator.lock().give(id);
    }

    /// The log has the record that gives the allocated page `id` its first content. From now on
    /// [`Pool::logged_allocator`] counts it as used. Called while the page is held.
    pub fn claimed(&self, id: PageId) {
        self.allocator.lock().claimed(id);
    }

    /// The log has the record that frees page `id`. From now on [`Pool::logged_allocator`] counts
    /// it as free, but it is not allocated again before [`Pool::free`]. Called while the page is
    /// held.
    pub fn released(&self, id: PageId) {
        self.allocator.lock().released(id);
    }

    /// Whether page `id` is in use according to the log.
    pub fn uses(&self, id: PageId) -> bool {
        self.allocator.lock().uses(id)
    }

    /// Marks page `id` as in use, in any previous state: for replaying the log.
    ///
    /// # Errors
    /// [`Stop::Fault`] if the page number is out of range.
    pub fn reserve(&self, id: PageId) -> Result<(), Stop> {
        self.check(id)?;
        self.allocator.lock().reserve(id);
        Ok(())
    }

    /// The pages in use according to the log, for a checkpoint.
    pub fn logged_allocator(&self) -> AllocatorState {
        self.allocator.lock().logged()
    }

    /// The pages that can be allocated.
    pub fn allocator(&self) -> AllocatorState {
        self.allocator.lock().state()
    }

    /// Replaces the set of pages that can be allocated.
    ///
    /// # Errors
    /// [`PageFault::Range`] if it names a page out of range. Nothing was changed.
    pub fn restore_allocator(&self, state: &AllocatorState) -> Result<(), PageFault> {
        let beyond = state.free.iter().find(|page| page.0 >= state.next.0);
        let end = Some(&state.next).filter(|next| next.0 > self.max_pages);
        if let Some(page) = beyond.or(end) {
            return Err(self.out_of_range(*page));
        }
        state.free.iter().try_for_each(|page| self.check(*page))?;
        self.allocator.lock().restore(state);
        Ok(())
    }
}
