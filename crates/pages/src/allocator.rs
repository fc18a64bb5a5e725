//! The page allocator: which page numbers are in use. It lives in memory; the layer above makes it
//! durable.
//!
//! ```text
//!            take             claimed
//!     free ---------> pending ---------> in use
//!       ^  <---------   give               | released
//!       |                                  v
//!       +--------------- give ---------- limbo
//! ```
//!
//! A page is *pending* from its allocation until the log has the record that gives it its first
//! content. It is in *limbo* from the record that frees it until it may be allocated again. A
//! checkpoint counts both as free, as the log does. So a crash in between neither loses a page nor
//! gives it to two users.

use base::PageId;
use std::collections::BTreeSet;

/// The allocator's state, for checkpoints: every page from 1 up to, but not including, `next` that
/// is not in `free` is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatorState {
    pub next: PageId,
    pub free: Vec<PageId>,
}

pub(crate) struct Allocator {
    next: u32,
    max_pages: u32,
    /// The lowest page is taken first, so that the data file stays dense.
    free: BTreeSet<u32>,
    pending: BTreeSet<u32>,
    limbo: BTreeSet<u32>,
}

impl Allocator {
    pub fn new(max_pages: u32) -> Allocator {
        let none = BTreeSet::new;
        Allocator { next: 1, max_pages, free: none(), pending: none(), limbo: none() }
    }

    pub fn take(&mut self) -> Option<PageId> {
        let id = match self.free.pop_first() {
            Some(id) => id,
            None if self.next < self.max_pages => {
                self.next += 1;
                self.next - 1
            }
            None => return None,
        };
        self.pending.insert(id);
        Some(PageId(id))
    }

    pub fn give(&mut self, id: PageId) {
        self.pending.remove(&id.0);
        self.limbo.remove(&id.0);
        let fresh = id.0 != 0 && id.0 < self.next && self.free.insert(id.0);
        debug_assert!(fresh, "{id:?} was freed that is not in use");
    }

    /// The log has the record that puts the page to use.
    pub fn claimed(&mut self, id: PageId) {
        self.pending.remove(&id.0);
    }

    /// The log has the record that frees the page. It may not be taken yet.
    pub fn released(&mut self, id: PageId) {
        self.limbo.insert(id.0);
    }

    pub fn uses(&self, id: PageId) -> bool {
        id.0 != 0
            && id.0 < self.next
            && ![&self.free, &self.pending, &self.limbo].iter().any(|s| s.contains(&id.0))
    }

    /// Marks the page as in use, in any previous state. Unused page numbers below it become free.
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

    pub fn logged(&self) -> AllocatorState {
        let mut free: Vec<u32> =
            [&self.free, &self.pending, &self.limbo].into_iter().flatten().copied().collect();
        free.sort_unstable();
        AllocatorState { next: PageId(self.next), free: free.into_iter().map(PageId).collect() }
    }

    pub fn restore(&mut self, state: &AllocatorState) {
        self.next = state.next.0.max(1);
        self.free = state.free.iter().map(|p| p.0).collect();
        self.pending.clear();
        self.limbo.clear();
    }

    /// The lowest page number that was never taken: used when no page is free.
    pub fn next(&self) -> u32 {
        self.next
    }

    pub fn used(&self) -> u32 {
        self.next - 1 - self.free.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_counts_as_the_log_does() {
        let mut all = Allocator::new(100);
        let (a, b) = (all.take().unwrap(), all.take().unwrap());
        assert_eq!(all.logged().free, [a, b], "nothing is logged yet");
        all.claimed(a);
        all.claimed(b);
        assert!(all.uses(a) && all.logged().free.is_empty());
        all.released(a);
        assert!(!all.uses(a));
        assert_eq!(all.logged().free, [a], "freed in the log");
        assert_eq!(all.take(), Some(PageId(3)), "but not to be had yet");
        all.give(a);
        assert_eq!((all.take(), all.used()), (Some(a), 3));
    }
}
