//! The frames: a fixed number of slots, each naming a resident page or free. The clock's face.

use base::PageId;
use latch::SpinMutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Who may do what: a slot is taken from the free list by who makes a page resident, who then names the page in it
/// while holding that page exclusively; it is emptied by who evicts the page, likewise. Anyone may look; what is
/// seen is a hint, which the page's word confirms.
pub(crate) struct Slots {
    /// Page numbers; 0 is an empty slot (page 0 is never resident).
    pages: Box<[AtomicU32]>,
    free: SpinMutex<Vec<u32>>,
    hand: AtomicUsize,
}

/// A slot taken and not yet named.
pub(crate) struct Slot(pub u32);

impl Slots {
    pub fn new(frames: usize) -> Slots {
        Slots {
            pages: (0..frames).map(|_| AtomicU32::new(0)).collect(),
            free: SpinMutex::new((0..frames as u32).rev().collect()),
            hand: AtomicUsize::new(0),
        }
    }

    pub fn len(&self) -> usize {
        self.pages.len()
    }

    pub fn used(&self) -> usize {
        self.len() - self.free.lock().len()
    }

    pub fn take(&self) -> Option<Slot> {
        probe::enter(probe::Section::PageSpace);
        self.free.lock().pop().map(Slot)
    }

    pub fn give(&self, slot: Slot) {
        probe::enter(probe::Section::PageSpace);
        self.free.lock().push(slot.0);
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

    /// The next slot under the clock's hand.
    pub fn advance(&self) -> usize {
        self.hand.fetch_add(1, Ordering::Relaxed) % self.len()
    }
}
