//! Which page numbers are in use. Kept in memory; the layer above makes it durable.

use base::PageId;
use std::collections::BTreeSet;

/// A value of the allocator, for checkpoints: every page from 1 to before `next` that is not in `free` is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatorState {
    pub next: PageId,
    pub free: Vec<PageId>,
}

pub(crate) struct Allocator {
    next: u32,
    max_pages: u32,
    /// Lowest first, so that the data file stays dense.
    free: BTreeSet<u32>,
}

impl Allocator {
    pub fn new(max_pages: u32) -> Allocator {
        Allocator { next: 1, max_pages, free: BTreeSet::new() }
    }

    pub fn take(&mut self) -> Option<PageId> {
        if let Some(id) = self.free.pop_first() {
            return Some(PageId(id));
        }
        let id = self.next;
        (id < self.max_pages).then(|| {
            self.next += 1;
            PageId(id)
        })
    }

    pub fn give(&mut self, id: PageId) {
        let fresh = id.0 != 0 && id.0 < self.next && self.free.insert(id.0);
        debug_assert!(fresh, "{id:?} was freed that is not in use");
    }

    /// The page is in use whatever was known of it; pages skipped on the way are free.
    pub fn reserve(&mut self, id: PageId) {
        if id.0 >= self.next {
            self.free.extend(self.next..id.0);
            self.next = id.0 + 1;
        } else {
            self.free.remove(&id.0);
        }
    }

    pub fn state(&self) -> AllocatorState {
        AllocatorState { next: PageId(self.next), free: self.free.iter().copied().map(PageId).collect() }
    }

    pub fn restore(&mut self, state: &AllocatorState) {
        self.next = state.next.0.max(1);
        self.free = state.free.iter().map(|p| p.0).collect();
    }

    pub fn used(&self) -> u32 {
        self.next - 1 - self.free.len() as u32
    }
}
