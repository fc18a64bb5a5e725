//! Writing dirty pages out: for a checkpoint, and to make them fit to leave.
//!
//! A page is copied under a shared latch, and from then on is *being written*: it may be changed (and is dirty
//! again) but does not leave. The copies then go out as a batch, in this order:
//!
//! 1. the log is on the device up to the youngest change in the batch (the write-ahead rule);
//! 2. the batch before is on the device in place;
//! 3. the batch is on the device in the doublewrite area;
//! 4. each page is written in place.
//!
//! In memory mode only the last step happens: there is nothing to come back to.

use crate::data_file::DataFile;
use crate::doublewrite::{BATCH, Doublewrite};
use crate::fault::PageFault;
use crate::page::Page;
use crate::pool::Pool;
use base::{Lsn, PageId};
use latch::{Backoff, PageLatch};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::{io, mem};

/// The way to the files. Who may do what: the holder of `state` writes; anyone reads pages not in memory.
pub(crate) struct Writer {
    pub data: DataFile,
    pub doublewrite: Option<Doublewrite>,
    state: Mutex<State>,
    /// Why nothing may be written any more.
    poison: OnceLock<Arc<io::Error>>,
    /// Batches that failed since the pool was opened.
    failures: AtomicU64,
}

#[derive(Default)]
pub(crate) struct State {
    /// Copies of the batch being written; its boxes are reused.
    batch: Vec<(PageId, Box<Page>)>,
    spare: Vec<Box<Page>>,
    /// Pages were written in place that the device may not have yet.
    unsynced: bool,
    /// The last batch is in the doublewrite area, but writing it in place failed half-way.
    unfinished: bool,
}

/// What became of a batch.
pub(crate) struct Written {
    pub pages: usize,
    /// Pages that were being changed, so that they could not be copied.
    pub missed: Vec<PageId>,
}

impl Writer {
    pub fn new(data: DataFile, doublewrite: Option<Doublewrite>) -> Writer {
        Writer {
            data,
            doublewrite,
            state: Mutex::default(),
            poison: OnceLock::new(),
            failures: AtomicU64::new(0),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while writing leaves `unfinished` or dirty pages behind, both of which are dealt with.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self) -> Result<(), PageFault> {
        self.poison.get().map_or(Ok(()), |why| Err(PageFault::Poisoned(why.clone())))
    }

    /// After a failed sync nobody knows what is on the device.
    fn synced(&self, done: io::Result<()>) -> Result<(), PageFault> {
        done.map_err(|e| PageFault::Poisoned(self.poison.get_or_init(|| Arc::new(e)).clone()))
    }

    /// Has what was written in place on the device.
    fn settle(&self, state: &mut State) -> Result<(), PageFault> {
        self.check()?;
        if mem::take(&mut state.unfinished) {
            self.in_place(state)?;
        }
        if self.doublewrite.is_some() && state.unsynced {
            self.synced(self.data.sync())?;
            state.unsynced = false;
        }
        Ok(())
    }

    fn in_place(&self, state: &mut State) -> Result<(), PageFault> {
        state.unsynced = true;
        let done = state.batch.iter().try_for_each(|(id, page)| self.data.write(*id, page));
        state.unfinished = done.is_err() && self.doublewrite.is_some();
        done
    }

    fn output(&self, state: &mut State) -> Result<(), PageFault> {
        if let Some(doublewrite) = &self.doublewrite {
            doublewrite.write(&state.batch)?;
            self.synced(doublewrite.sync())?;
        }
        self.in_place(state)
    }
}

impl State {
    fn recycle(&mut self) {
        self.spare.extend(self.batch.drain(..).map(|(_, page)| page));
    }

    fn add(&mut self, id: PageId, from: &Page) -> Lsn {
        let mut copy = self.spare.pop().unwrap_or_else(Page::zeroed);
        copy.bytes_mut().copy_from_slice(from.bytes());
        copy.seal(id);
        self.batch.push((id, copy));
        from.lsn()
    }
}

impl Pool {
    /// Writes every page that was dirty when this was called, waiting for those being changed, and waits for the
    /// device; gives the number of pages written. Transactions may run meanwhile. The caller holds no latch, and
    /// owns the pages if anyone does. In memory mode there is nothing to write for.
    ///
    /// # Errors
    /// I/O, or the log's fault. Pages that were not written are still dirty.
    pub fn write_back(&self) -> Result<usize, PageFault> {
        if self.writer.doublewrite.is_none() {
            return Ok(0);
        }
        let failures = self.writer.failures.load(Ordering::Acquire);
        let mut dirty: Vec<PageId> = (0..self.slots.len()).filter_map(|n| self.slots.page(n)).collect();
        dirty.retain(|&id| {
            let seen = self.latch(id).look();
            seen.resident() && (seen.dirty() || seen.exclusive())
        });
        dirty.sort_unstable();
        let (mut written, mut backoff) = (0, Backoff::new());
        while !dirty.is_empty() {
            let mut missed = Vec::new();
            for batch in dirty.chunks(BATCH) {
                let done = self.write_batch(batch)?;
                written += done.pages;
                missed.extend(done.missed);
            }
            // Waited for here, not in the batch: who changes the page may itself be waiting to write a batch.
            if !missed.is_empty() {
                backoff.wait();
            }
            dirty = missed;
        }
        // Pages that an eviction was writing meanwhile count too: it is over once the state is ours.
        let mut state = self.writer.lock();
        self.writer.settle(&mut state)?;
        if self.writer.failures.load(Ordering::Acquire) != failures {
            return Err(io::Error::other("a page could not be written; it is still in memory").into());
        }
        Ok(written)
    }

    /// Writes those of `ids` that are dirty and not being changed. Never waits for a latch, because others wait for
    /// the writer while they hold one.
    pub(crate) fn write_batch(&self, ids: &[PageId]) -> Result<Written, PageFault> {
        self.owner.check();
        let mut state = self.writer.lock();
        self.writer.settle(&mut state)?;
        state.recycle();
        let (mut youngest, mut missed) = (Lsn(0), Vec::new());
        for &id in ids {
            let latch = self.latch(id);
            if latch.try_shared_unmarked() {
                if latch.begin_write() {
                    // SAFETY: under a shared latch nobody changes or evicts the page.
                    youngest = youngest.max(state.add(id, unsafe { self.page(id).as_ref() }));
                }
                latch.unlock_shared();
            } else if latch.look().resident() {
                missed.push(id);
            }
        }
        if state.batch.is_empty() {
            return Ok(Written { pages: 0, missed });
        }
        let done = self.log_first(youngest).and_then(|()| self.writer.output(&mut state));
        let settled = if done.is_ok() { PageLatch::end_write } else { PageLatch::fail_write };
        state.batch.iter().for_each(|(id, _)| settled(self.latch(*id)));
        match done {
            Ok(()) => self.counts.written.fetch_add(state.batch.len() as u64, Ordering::Relaxed),
            Err(_) => self.writer.failures.fetch_add(1, Ordering::Release),
        };
        done.map(|()| Written { pages: state.batch.len(), missed })
    }

    /// The write-ahead rule. A page's lsn may be its last record's start or end: either way the log is stable far
    /// enough when it is stable beyond the lsn, or to its very end.
    fn log_first(&self, lsn: Lsn) -> Result<(), PageFault> {
        let beyond = Lsn(lsn.0 + 1).min(self.log.end());
        Ok(self.log.wait_stable(beyond)?)
    }
}
