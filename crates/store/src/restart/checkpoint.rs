//! Checkpoints, taken while transactions run.
//!
//! 0. Finish the redo that restart has left. Pages that wait for redo are not dirty yet, and the
//!    log that they need lies before `begin`.
//! 1. Set `begin`: put a fence into the log ([`wal::Log::fence`]). Records appended before lie
//!    before it, later records after it. Every page changed by a record before it is now latched
//!    or dirty.
//! 2. Write all those pages. From now on redo needs nothing before `begin`.
//! 3. Collect the values that restart needs: running transactions, notes, allocator state. They may
//!    include effects of records after `begin`; replaying such a record again changes nothing.
//! 4. Wait until the log is durable up to its current end, because the values depend on records up
//!    to there. In particular, a transaction that is not listed has ended, and its end must not be
//!    lost.
//! 5. Write the control file. Then delete log segments before the oldest record still needed.
//!
//! **Why the allocator's state fits `begin`.** It must count every page that a record before
//! `begin` takes or frees. The writer of such a record holds the page from before the append until
//! the allocator has counted it, and step 2 waits for the page. So a crash loses no page to a
//! change that was never logged.
//!
//! Steps 1 and 2 touch pages. If pages have an owner, the owner runs these steps, a batch at a time
//! between transactions ([`Store::begin_checkpoint`], [`Store::step_checkpoint`]). Any thread may
//! run the rest ([`Store::finish_checkpoint`]).

use crate::StoreFault;
use crate::state::control::{Checkpoint, Control};
use crate::state::store::Store;
use base::Lsn;
use latch::RankedGuard;
use pages::{Progress, WriteBack};
use std::sync::atomic::Ordering;
use wal::Durability;

/// A checkpoint that is taken in pieces.
pub struct CheckpointRun {
    redo_start: Lsn,
    pages: WriteBack,
}

impl Store {
    /// Takes a checkpoint, which bounds the log that a restart must read. Blocks for I/O while
    /// transactions go on. Under `Owned`, only the owner may call this, or it takes the checkpoint
    /// in pieces. With durability `memory` it does nothing.
    ///
    /// # Errors
    /// The fault that poisoned the store, or one that poisons it now, or want of room, after which
    /// it goes on; the previous checkpoint stays valid.
    pub fn checkpoint(&self) -> Result<(), StoreFault> {
        self.fault().map_or(Ok(()), Err)?;
        if self.log.durability() == Durability::Memory {
            return Ok(());
        }
        self.take_checkpoint().map_err(|fault| self.failed_checkpoint(fault))
    }

    fn take_checkpoint(&self) -> Result<(), StoreFault> {
        let control = self.control.lock();
        self.finish_redo()?;
        let redo_start = self.log.fence();
        self.pool.write_back()?;
        self.conclude(control, redo_start)
    }

    /// Begins a checkpoint in pieces; only one may be under way. If a whole checkpoint
    /// ([`Store::checkpoint`]) is taken meanwhile, this one has no effect. Blocks if restart has
    /// left pages for redo that [`Store::redo_some`] did not reach. If one of them is unreadable,
    /// the first step returns the error.
    pub fn begin_checkpoint(&self) -> CheckpointRun {
        // A fault poisons the store, and the first step checks for that.
        let _ = self.finish_redo();
        let redo_start = self.log.fence();
        CheckpointRun { redo_start, pages: self.pool.begin_write_back() }
    }

    /// Copies the next batch of pages, which another thread writes when it serves the pool
    /// ([`pages::Pool::serve`]); never waits for a device. Once this returns
    /// [`Progress::Finished`], [`Store::finish_checkpoint`] is due.
    ///
    /// # Errors
    /// The fault that poisoned the store, or one that poisons it now, or want of room, after which
    /// it goes on; the previous checkpoint stays valid.
    pub fn step_checkpoint(&self, run: &mut CheckpointRun) -> Result<Progress, StoreFault> {
        self.fault().map_or(Ok(()), Err)?;
        self.pool.step_write_back(&mut run.pages).map_err(|e| self.failed_checkpoint(e.into()))
    }

    /// Ends a checkpoint of which all pages are written. Touches no page, so any thread may call
    /// it. Blocks for I/O.
    ///
    /// # Errors
    /// As [`Store::checkpoint`].
    pub fn finish_checkpoint(&self, run: &CheckpointRun) -> Result<(), StoreFault> {
        self.fault().map_or(Ok(()), Err)?;
        let finish = || {
            let control = self.control.lock();
            self.pool.sync_written()?;
            self.conclude(control, run.redo_start)
        };
        finish().map_err(|fault| self.failed_checkpoint(fault))
    }

    /// Steps 3 to 5. The changes before `redo_start` are in the data file.
    fn conclude(&self, mut control: RankedGuard<'_, Control>, redo_start: Lsn) -> Result<(), StoreFault> {
        if redo_start.0 < self.checkpointed.load(Ordering::Relaxed) {
            // A later checkpoint overtook this one: the log that this one would start from may be
            // deleted already.
            return Ok(());
        }
        // Other threads may have made the file longer since the last sync. The checkpoint relies on
        // this length, so it is synced first.
        let data_bytes = self.pool.file_bytes()?;
        self.pool.sync_written()?;
        let allocator = self.pool.logged_allocator();
        let checkpoint = Checkpoint {
            redo_start,
            running: self.active.running(),
            notes: self.notes.lock().iter().map(|(&lsn, note)| (lsn, note.clone())).collect(),
            data_bytes,
            next_page: allocator.next,
            free_pages: allocator.free,
        };
        self.log.wait_stable(self.log.end())?;
        let keep = checkpoint.scan_start();
        let next = Control { sequence: control.sequence + 1, checkpoint, ..control.clone() };
        next.write(&*self.files, &self.dir)?;
        *control = next;
        self.checkpointed.store(redo_start.0, Ordering::Relaxed);
        if self.log.is_short() {
            // The segments that go now may be the room that it lacks.
            self.pause_checkpoints();
        }
        Ok(self.log.truncate_before(keep)?)
    }
}
