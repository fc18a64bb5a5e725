//! Checkpoints, taken while transactions run.
//!
//! 0. What a restart has left to be repeated is repeated: pages that wait for it are not dirty yet, and the log they
//!    need is before any `begin`.
//! 1. `begin` = a fence in the log ([`wal::Log::fence`]): records that were appended before lie before it, later ones
//!    behind it. Every page changed by a record before it is latched or dirty.
//! 2. Write all those pages. From now on redo needs nothing before `begin`.
//! 3. Take the values restart needs: running transactions, notes, allocator. They may already contain
//!    effects of records after `begin`; replaying such a record again changes nothing.
//! 4. Wait until the log is on the device up to its end now: everything the values rest on is.
//!    In particular a transaction that is not listed has ended, and its end is never lost.
//! 5. Write the control file; then log segments before the oldest record still needed may go.
//!
//! Why the allocator's value fits `begin`: it counts a page as the records so far do, and a record before `begin` has
//! been counted, since its writer held the page from before it was appended until it was counted, and step 2 waited for
//! it to let go. So a crash loses no page to a change that was never logged.
//!
//! Steps 1 and 2 touch pages, so when those have an owner it does them, a batch at a time between transactions
//! ([`Store::begin_checkpoint`], [`Store::step_checkpoint`]); the rest is any thread's ([`Store::finish_checkpoint`]).

use crate::StoreFault;
use crate::control::{Checkpoint, Control};
use crate::open::{Store, held};
use base::Lsn;
use pages::{Progress, WriteBack};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use wal::Durability;

/// A checkpoint that is being taken in pieces.
pub struct CheckpointRun {
    redo_start: Lsn,
    pages: WriteBack,
}

impl Store {
    /// Takes a checkpoint, which bounds what a restart has to read. Blocks for I/O; transactions go on meanwhile
    /// (under `Owned` the owner itself calls this, or takes it in pieces). With durability `memory` there is nothing to
    /// do.
    ///
    /// # Errors
    /// What poisoned the store, or poisons it now; the previous checkpoint stands.
    pub fn checkpoint(&self) -> Result<(), StoreFault> {
        self.fault().map_or(Ok(()), Err)?;
        if self.log.durability() == Durability::Memory {
            return Ok(());
        }
        self.take_checkpoint().inspect_err(|fault| self.poison(fault.clone()))
    }

    fn take_checkpoint(&self) -> Result<(), StoreFault> {
        let control = held(&self.control);
        self.finish_redo()?;
        let redo_start = self.log.fence();
        self.pool.write_back()?;
        self.conclude(control, redo_start)
    }

    /// Begins a checkpoint in pieces, one at a time. Should one of the other kind be taken meanwhile, this one concludes nothing. Blocks if a restart has left pages
    /// to be brought up to date that [`Store::redo_some`] did not; should one of them be unreadable, the first step says so.
    pub fn begin_checkpoint(&self) -> CheckpointRun {
        // It poisons the store, where the first step looks.
        let _ = self.finish_redo();
        let redo_start = self.log.fence();
        CheckpointRun { redo_start, pages: self.pool.begin_write_back() }
    }

    /// Copies one batch of pages more, for whoever serves the pool to write; never waits for a device. Once this is
    /// [`Progress::Finished`], [`Store::finish_checkpoint`] is due.
    ///
    /// # Errors
    /// What poisoned the store, or poisons it now; the previous checkpoint stands.
    pub fn step_checkpoint(&self, run: &mut CheckpointRun) -> Result<Progress, StoreFault> {
        self.fault().map_or(Ok(()), Err)?;
        self.pool.step_write_back(&mut run.pages).map_err(|e| self.failed_checkpoint(e.into()))
    }

    /// Ends a checkpoint whose pages are written. Touches no page, so any thread may; blocks for I/O.
    ///
    /// # Errors
    /// As [`Store::checkpoint`].
    pub fn finish_checkpoint(&self, run: &CheckpointRun) -> Result<(), StoreFault> {
        self.fault().map_or(Ok(()), Err)?;
        let finish = || {
            let control = held(&self.control);
            self.pool.sync_written()?;
            self.conclude(control, run.redo_start)
        };
        finish().map_err(|fault| self.failed_checkpoint(fault))
    }

    fn failed_checkpoint(&self, fault: StoreFault) -> StoreFault {
        self.poison(fault.clone());
        fault
    }

    /// The changes before `redo_start` are on the device in place.
    fn conclude(&self, mut control: MutexGuard<'_, Control>, redo_start: Lsn) -> Result<(), StoreFault> {
        if redo_start.0 < self.checkpointed.load(Ordering::Relaxed) {
            // Taken in pieces, and overtaken: the log it would start from may be gone already.
            return Ok(());
        }
        // Others may have made the file longer since it was synced: what is relied on is synced first.
        let data_bytes = self.pool.file_bytes()?;
        self.pool.sync_written()?;
        let allocator = self.pool.logged_allocator();
        let checkpoint = Checkpoint {
            redo_start,
            running: self.active.running(),
            notes: held(&self.notes).iter().map(|(&lsn, note)| (lsn, note.clone())).collect(),
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
        Ok(self.log.truncate_before(keep)?)
    }
}
