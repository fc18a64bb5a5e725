//! Making room: which page leaves (second chance) and how.
//!
//! The clock's hand passes over the slots. A page it meets unmarked is marked, and loses the mark when someone
//! latches it; one it meets marked has not been used for a whole turn and leaves: at once when it is clean, with a
//! batch of others of its kind when it must be written first.

use crate::doublewrite::BATCH;
use crate::fault::PageFault;
use crate::page::PAGE_SIZE;
use crate::pool::Pool;
use crate::slots::Slot;
use base::PageId;
use latch::{Backoff, Change};
use std::sync::atomic::Ordering;

impl Pool {
    /// A free slot, after throwing pages out if need be.
    pub(crate) fn room(&self) -> Result<Slot, PageFault> {
        let mut backoff = Backoff::new();
        loop {
            if let Some(slot) = self.slots.take() {
                return Ok(slot);
            }
            // Pages may be held by others for a moment, so an empty sweep is tried again for a while.
            if self.sweep()? == 0 && backoff.wait_bounded().is_err() {
                return Err(PageFault::NoFrame { frames: self.slots.len() });
            }
        }
    }

    /// Two turns of the clock, or less once enough left; gives how many did.
    fn sweep(&self) -> Result<usize, PageFault> {
        let frames = self.slots.len();
        let enough = (frames / 16).clamp(1, BATCH);
        let (mut gone, mut dirty) = (0, Vec::new());
        for _ in 0..frames * 2 {
            let index = self.slots.advance();
            let Some(id) = self.slots.page(index) else { continue };
            let latch = self.latch(id);
            let seen = latch.look();
            if !seen.marked() {
                latch.mark(seen);
            } else if seen.dirty() || seen.writing() {
                // Being written by someone else already: the batch below waits for them, however slow the device.
                dirty.push((index, id));
            } else if self.evict(index, id) {
                gone += 1;
            }
            if gone + dirty.len() >= enough {
                break;
            }
        }
        Ok(gone + self.clean_and_evict(dirty)?)
    }

    fn clean_and_evict(&self, mut dirty: Vec<(usize, PageId)>) -> Result<usize, PageFault> {
        if dirty.is_empty() {
            return Ok(0);
        }
        dirty.sort_unstable_by_key(|&(_, id)| id);
        let ids: Vec<PageId> = dirty.iter().map(|&(_, id)| id).collect();
        self.write_batch(&ids)?;
        Ok(dirty.into_iter().filter(|&(index, id)| self.evict(index, id)).count())
    }

    /// Throws page `id`, named by slot `index`, out if it is unused and clean.
    fn evict(&self, index: usize, id: PageId) -> bool {
        let latch = self.latch(id);
        if !latch.begin_evict() {
            return false;
        }
        if self.slots.page(index) != Some(id) {
            // It left and came back to another slot since the hand passed.
            latch.unlock_exclusive(Change::Nothing);
            return false;
        }
        // SAFETY: the page's exclusive latch is held, so nobody has a reference into it.
        unsafe { self.region.give_back(id.0 as usize * PAGE_SIZE, PAGE_SIZE) };
        self.counts.evicted.fetch_add(1, Ordering::Relaxed);
        // The slot first: once the page is absent it may come back to another slot, and must not be named twice.
        self.slots.empty(index);
        latch.end_evict();
        true
    }
}
