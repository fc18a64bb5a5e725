//! Checkpoints, taken while transactions run.
//!
//! 1. `begin` = a fence in the log ([`wal::Log::fence`]): records that were appended before lie before it, later ones
//!    behind it. Every page changed by a record before it is latched or dirty.
//! 2. Write all those pages. From now on redo needs nothing before `begin`.
//! 3. Take the values restart needs: running transactions, notes, allocator, catalog. They may already contain
//!    effects of records after `begin`; replaying such a record again changes nothing.
//! 4. Wait until the log is on the device up to its end now: everything the values rest on is.
//!    In particular a transaction that is not listed has ended, and its end is never lost.
//! 5. Write the control file; then log segments before the oldest record still needed may go.
//!
//! Why the allocator's value fits `begin`: it counts a page as the records so far do, and a record before `begin` has
//! been counted, since its writer held the page from before it was appended until it was counted, and step 2 waited for
//! it to let go. So a crash loses no page to a change that was never logged.

use crate::StoreFault;
use crate::control::{Checkpoint, Control};
use crate::open::{Store, held};
use std::sync::atomic::Ordering;
use wal::Durability;

impl Store {
    /// Takes a checkpoint, which bounds what a restart has to read. Blocks for I/O; transactions go on meanwhile
    /// (under `Owned` the owner itself calls this). With durability `memory` there is nothing to do.
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
        let mut control = held(&self.control);
        let redo_start = self.log.fence();
        // What lies in the file now is on the device once the pages are written back.
        let data_bytes = self.pool.file_bytes()?;
        self.pool.write_back()?;
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
