//! The frames: a fixed number of slots. Each slot names a resident page or is free.

use base::PageId;
use latch::{Rank, SpinMutex};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Access rules:
///
/// - The thread that makes a page resident takes a slot from the free list, and names the page in
///   it while it holds that page exclusively.
/// - The thread that evicts the page empties the slot, also while it holds the page exclusively.
/// - Any thread may read a slot. The result is a hint, to be confirmed by the page's word.
pub(crate) struct Slots {
    /// Page numbers; 0 for an empty slot (page 0 is never resident).
    pages: Box<[AtomicU32]>,
    free: SpinMutex<Vec<u32>>,
    /// The length of `free`, changed under its lock.
    count: AtomicUsize,
}

/// A slot that is taken and does not name a page yet.
pub(crate) struct Slot(pub u32);

impl Slots {
    pub fn new(frames: usize) -> Slots {
        Slots {
            pages: (0..frames).map(|_| AtomicU32::new(0)).collect(),
            free: SpinMutex::ranked(Rank::PoolSlots, (0..frames as u32).rev().collect()),
            count: AtomicUsize::new(frames),
        }
    }

    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Slots that are free now.
    #[inline]
    pub fn free(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub fn take(&self) -> Option<Slot> {
        probe::enter(probe::Section::PageSpace);
        let mut free = self.free.lock();
        let slot = free.pop().map(Slot);
        self.count.store(free.len(), Ordering::Relaxed);
        slot
    }

    pub fn give(&self, slot: Slot) {
        probe::enter(probe::Section::PageSpace);
        let mut free = self.free.lock();
        free.push(slot.0);
        self.count.store(free.len(), Ordering::Relaxed);
    }

    pub fn name(&self, slot: Slot, page: PageId) {
        self.pages[slot.0 as usize].store(page.0, Ordering::Release);
    }

    /// Empties the slot that names an evicted page.
    pub fn empty(&self, index: usize) {
        self.pages[index].store(0, Ordering::Release);
        self.give(Slot(index as u32));
    }

    pub fn page(&self, index: usize) -> Option<PageId> {
        let id = self.pages[index].load(Ordering::Acquire);
        (id != 0).then_some(PageId(id))
    }
}
