//! Eviction: making room for pages. Pages are evicted in the order of [`crate::replacement`]: clean
//! pages at once, dirty pages after they were written in a batch with other dirty pages.
//!
//! A few frames are kept free ahead of need, by the thread in [`Pool::serve`] or by the pages'
//! owner in [`Pool::tend`]. So a transaction finds a frame at once, and a new page never waits for
//! a device, unless pages are needed faster than the device can write.

use crate::batch::{BATCH, Batch, Leaving};
use crate::fault::PageFault;
use crate::page::PAGE_SIZE;
use crate::pool::Pool;
use crate::pool::write::Copied;
use crate::replacement::{Found, From, LEAVE, Offered, Replacement};
use crate::slots::Slot;
use base::PageId;
use latch::{Backoff, PageChange, RankedGuard};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Maximum number of pages examined in one call: some tens of microseconds.
const LOOKS: usize = 512;
/// Frames kept free: one in this many frames, but at most as many as a thread can use up while a
/// batch is written.
const RESERVE_SHARE: usize = 64;
const RESERVE_MOST: usize = 256;

impl Pool {
    pub(crate) fn queues(&self) -> RankedGuard<'_, Replacement> {
        self.replacement.lock()
    }

    pub(crate) fn reserve_frames(&self) -> usize {
        (self.slots.len() / RESERVE_SHARE).min(RESERVE_MOST)
    }

    /// Page `id` was just entered into `slot`, and the thread that loaded it still holds it.
    pub(crate) fn entered(&self, slot: usize, id: PageId) {
        let probe = self.queues().enter(slot, id);
        if let Some(id) = probe.and_then(|slot| self.slots.page(slot)) {
            let latch = self.latch(id);
            latch.mark(latch.look());
        }
    }

    /// A free slot, after evicting pages if needed. Blocks for the device if all pages that could
    /// be evicted are dirty.
    pub(crate) fn room(&self) -> Result<Slot, PageFault> {
        let mut backoff = Backoff::new();
        let failures = self.writer.failures();
        // Each page may have to be examined three times: to be proven, to be marked, and to be
        // evicted.
        let mut looks = self.slots.len() * 3;
        loop {
            if let Some(slot) = self.slots.take() {
                return Ok(slot);
            }
            self.settle();
            self.writer.failed_since(failures)?;
            if self.offers.any() {
                self.do_asked();
            }
            let found = self.make_room(1);
            if found.leaving > 0 && self.servers.load(Ordering::Acquire) == 0 {
                // If no thread serves, the batch would otherwise wait until no other page can be
                // evicted.
                self.write_out();
            }
            looks = looks.saturating_sub(found.looked);
            if found.left > 0 || self.write_out() || (found.looked > 0 && looks > 0) {
                backoff = Backoff::new();
            } else if self.writer.busy() {
                // Another thread writes a batch. Even with a slow device, there will be room.
                self.writer.wait(Duration::from_millis(1));
            } else if self.loads.waiting() {
                self.turn();
                self.loads.queue.wait(Duration::from_millis(1));
            } else if backoff.wait_bounded().is_err() {
                // Other threads may hold pages for a moment, so an empty search is repeated for
                // some time.
                return Err(PageFault::NoFrame { frames: self.slots.len() });
            }
        }
    }

    /// Evicts about `goal` pages, if a bounded search finds them. Never waits for a device.
    pub(crate) fn make_room(&self, goal: usize) -> Found {
        self.owner.check();
        self.shrink_pages();
        let mut found = Found::default();
        let mut batch = None;
        let looks = LOOKS.min(self.slots.len() * 3);
        while found.left < goal && found.looked < looks {
            found.looked += 1;
            let popped = self.queues().pop();
            let Some((slot, from)) = popped else { break };
            let Some(id) = self.slots.page(slot) else { continue };
            self.consider((slot, id, from), &mut found, &mut batch);
            // Pages in a batch are out of the queues until it is written, so a small pool must not
            // put too many of its pages there.
            if found.leaving >= BATCH.min(self.slots.len() / 4) {
                break;
            }
        }
        if let Some(mut batch) = batch {
            self.fill_up(&mut batch);
            self.hand_in(batch);
        }
        found
    }

    /// Gives page `id` another turn in the queues, evicts it, or copies it into `batch` to be
    /// evicted once it is written.
    pub(crate) fn consider(&self, offered: Offered, found: &mut Found, batch: &mut Option<Batch>) {
        let (slot, id, from) = offered;
        let latch = self.latch(id);
        let seen = latch.look();
        if let Some(owner) = seen.owner().filter(|_| seen.foreign()) {
            return self.offer(owner, offered);
        }
        if !seen.marked() {
            if from == From::Main {
                latch.mark(seen);
            }
            self.stays(slot);
        } else if seen.writing() {
            self.stays(slot);
        } else if !seen.dirty() {
            found.left += usize::from(self.evict(slot, id, from));
        } else {
            if batch.is_none() {
                *batch = self.writer.take_spare(0);
            }
            // If no batch is spare, the page stays, and the search goes on: the next page may be
            // clean.
            if let Some(batch) = batch.as_mut().filter(|batch| batch.room() > 0)
                && self.copy(id, batch) == Copied::Taken
            {
                batch.leaving.push((slot, id));
                found.leaving += 1;
            } else {
                self.stays(slot);
            }
        }
    }

    /// Adds dirty pages that are next for eviction to a batch that must be written anyway, so that
    /// they are clean when their turn comes.
    fn fill_up(&self, batch: &mut Batch) {
        if self.slots.len() < 4 * BATCH {
            return;
        }
        for id in self.dirty_pages(batch.room()) {
            self.copy(id, batch);
        }
    }

    /// Evicts pages that were to leave once they are written, unless they have been used meanwhile.
    pub(crate) fn leave(&self, leaving: Vec<Leaving>) {
        for (slot, id) in leaving {
            let seen = self.latch(id).look();
            if let Some(owner) = seen.owner().filter(|_| seen.foreign()) {
                self.offer(owner, (slot, id, From::Young));
            } else if seen.marked() {
                self.evict(slot, id, From::Young);
            } else {
                self.queues().stays(slot);
            }
        }
    }

    /// Evicts page `id`, named by `slot`, if it is unused and clean; otherwise it stays.
    fn evict(&self, slot: usize, id: PageId, from: From) -> bool {
        let latch = self.latch(id);
        if !latch.begin_evict() {
            self.queues().stays(slot);
            return false;
        }
        debug_assert_eq!(self.slots.page(slot), Some(id), "a slot in hand names its page");
        if !latch.look().marked() {
            // The page was used between the look and the latch.
            latch.unlock_exclusive(PageChange::Nothing);
            self.queues().stays(slot);
            return false;
        }
        // SAFETY: the page's exclusive latch is held, so no thread has a reference into it.
        unsafe { self.region.give_back(id.0 as usize * PAGE_SIZE, PAGE_SIZE) };
        self.counts.evicted.fetch_add(1, Ordering::Relaxed);
        self.queues().left(id, from);
        // The slot is emptied first. Once the page is absent, another thread may load it into
        // another slot, and two slots would name it.
        self.slots.empty(slot);
        latch.end_evict();
        true
    }

    /// One slice of housekeeping, some tens of microseconds. Settles finished batches. If fewer
    /// frames are free than there should be, it evicts pages or copies them for writing. Returns
    /// `true` if there was work. Called between transactions by the pages' owner, or by
    /// [`Pool::serve`]. Never waits for a device while a thread serves.
    pub fn tend(&self) -> bool {
        let mut any = self.settle();
        if self.slots.free() < self.reserve_frames() {
            let found = self.make_room(LEAVE.min(self.reserve_frames()));
            any |= found.left + found.leaving > 0;
        }
        if any {
            self.loads.wake_for_frames();
        }
        any
    }

    /// Whether a transaction waits for a frame, or fewer frames are free than there should be.
    fn short_of_frames(&self) -> bool {
        self.loads.frames_wanted() || self.slots.free() < self.reserve_frames()
    }

    /// The loop of the cleaner thread, until `stop` is set and [`Pool::stop_serving`] is called. It
    /// writes batches and, with [`Tending::Cleaner`], keeps frames free. One thread is enough.
    pub fn serve(&self, tending: Tending, stop: &AtomicBool) {
        self.servers.fetch_add(1, Ordering::AcqRel);
        while !stop.load(Ordering::Acquire) {
            let mut any = self.write_out();
            self.back_ahead();
            if tending == Tending::Cleaner {
                any |= self.tend();
            }
            if !any {
                match tending {
                    Tending::Cleaner => {
                        let nap = if self.short_of_frames() { 1 } else { 20 };
                        self.writer.nap(Duration::from_millis(nap));
                    }
                    Tending::Owner => self.writer.wait_for_work(Duration::from_millis(20)),
                }
            }
        }
        self.servers.fetch_sub(1, Ordering::AcqRel);
        // Writes the batches that were handed in meanwhile. From now on, a thread that waits for a
        // batch writes it.
        while self.write_out() {}
    }

    /// Wakes [`Pool::serve`] to check its flag.
    pub fn stop_serving(&self) {
        self.writer.moved.notify_all();
    }
}

/// The thread that evicts pages ahead of need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tending {
    /// The thread in [`Pool::serve`], if pages are latched.
    Cleaner,
    /// The pages' owner, in [`Pool::tend`].
    Owner,
}
