//! Making room: pages leave in the order of [`crate::replacement`], clean ones at once, dirty ones with a batch of
//! others of their kind once they are written.
//!
//! A few frames are kept free ahead of need: by [`Pool::serve`]'s thread, or by the pages' owner in [`Pool::tend`]. So a
//! transaction finds a frame at once, and a new page never waits for a device, unless work comes faster than the
//! device can take it.

use crate::batch::{BATCH, Batch, Leaving};
use crate::fault::PageFault;
use crate::offers::Offered;
use crate::page::PAGE_SIZE;
use crate::pool::Pool;
use crate::replacement::{From, Replacement};
use crate::slots::Slot;
use crate::write::Copied;
use base::PageId;
use latch::{Backoff, Change};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

/// Pages looked at in one go: some tens of microseconds.
const LOOKS: usize = 512;
/// Pages thrown out in one go: each costs a system call that gives its memory back.
pub(crate) const LEAVE: usize = 32;
/// Frames kept free: this share of all, and no more than a thread can use up while a batch is written.
const RESERVE_SHARE: usize = 64;
const RESERVE_MOST: usize = 256;

/// What one search for pages to throw out brought.
#[derive(Default)]
pub(crate) struct Found {
    pub left: usize,
    /// Pages put into a batch, to leave once it is written.
    pub leaving: usize,
    pub looked: usize,
}

impl Pool {
    pub(crate) fn queues(&self) -> MutexGuard<'_, Replacement> {
        // The queues are whole between any two statements.
        self.replacement.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reserve_frames(&self) -> usize {
        (self.slots.len() / RESERVE_SHARE).min(RESERVE_MOST)
    }

    /// Page `id` has just been named in `slot` and is still held by whoever loaded it.
    pub(crate) fn entered(&self, slot: usize, id: PageId) {
        let probe = self.queues().enter(slot, id);
        if let Some(id) = probe.and_then(|slot| self.slots.page(slot)) {
            let latch = self.latch(id);
            latch.mark(latch.look());
        }
    }

    /// A free slot, after throwing pages out if need be. Blocks for the device when everything that could leave is dirty.
    pub(crate) fn room(&self) -> Result<Slot, PageFault> {
        let mut backoff = Backoff::new();
        let failures = self.writer.failures();
        // Every page may have to be met three times: proven, marked, and then thrown out.
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
                // Otherwise it would lie there until nothing else can leave.
                self.write_out();
            }
            looks = looks.saturating_sub(found.looked);
            if found.left > 0 || self.write_out() || (found.looked > 0 && looks > 0) {
                backoff = Backoff::new();
            } else if self.writer.busy() {
                // Another thread writes: however slow the device, there will be room.
                self.writer.wait(Duration::from_millis(1));
            } else if self.loads.waiting() {
                self.turn();
                self.loads.queue.wait(Duration::from_millis(1));
            } else if backoff.wait_bounded().is_err() {
                // Pages may be held by others for a moment, so an empty search is repeated for a while.
                return Err(PageFault::NoFrame { frames: self.slots.len() });
            }
        }
    }

    /// Throws out `goal` pages or a few more, as far as a bounded look finds them. Never waits for a device.
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
            // What leaves is out of the queues for as long as it is written: not too much of a small pool.
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

    /// Has page `id` prove itself, throws it out, or copies it into `batch` to leave once it is written.
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
            // Where all batches are on their way, a clean page may be behind it.
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

    /// A batch that has to be written anyway takes along dirty pages that are next to leave: they will be clean then.
    fn fill_up(&self, batch: &mut Batch) {
        if self.slots.len() < 4 * BATCH {
            return;
        }
        for id in self.dirty_pages(batch.room()) {
            self.copy(id, batch);
        }
    }

    /// Pages that were to leave once they are written, which they are: unless they have been used meanwhile.
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

    /// Throws page `id`, named by `slot`, out if it is unused and clean; otherwise it stays.
    fn evict(&self, slot: usize, id: PageId, from: From) -> bool {
        let latch = self.latch(id);
        if !latch.begin_evict() {
            self.queues().stays(slot);
            return false;
        }
        debug_assert_eq!(self.slots.page(slot), Some(id), "a slot in hand names its page");
        if !latch.look().marked() {
            // Used between the look and the latch.
            latch.unlock_exclusive(Change::Nothing);
            self.queues().stays(slot);
            return false;
        }
        // SAFETY: the page's exclusive latch is held, so nobody has a reference into it.
        unsafe { self.region.give_back(id.0 as usize * PAGE_SIZE, PAGE_SIZE) };
        self.counts.evicted.fetch_add(1, Ordering::Relaxed);
        self.queues().left(id, from);
        // The slot first: once the page is absent it may come back to another slot, and must not be named twice.
        self.slots.empty(slot);
        latch.end_evict();
        true
    }

    /// One slice of housekeeping, some tens of microseconds: settles what was written, and throws pages out or copies
    /// them for writing while fewer frames are free than should be. `true` when there was something to do. To be called
    /// between transactions by the pages' owner, or by [`Pool::serve`]; never waits for a device as long as someone
    /// serves.
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

    /// Whether somebody waits for a frame or fewer are free than should be.
    fn short_of_frames(&self) -> bool {
        self.loads.frames_wanted() || self.slots.free() < self.reserve_frames()
    }

    /// The cleaner's work until `stop` is set and [`Pool::stop_serving`] called: writes batches as they come and, where
    /// pages are latched, keeps frames free. One thread is enough.
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
        // What was handed in meanwhile: whoever waits for it does it himself from now on.
        while self.write_out() {}
    }

    /// Has [`Pool::serve`] look at its flag.
    pub fn stop_serving(&self) {
        self.writer.moved.notify_all();
    }
}

/// Who throws pages out ahead of need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tending {
    /// The thread in [`Pool::serve`]: pages are latched.
    Cleaner,
    /// The pages' owner, by [`Pool::tend`].
    Owner,
}
