//! The upkeep of an engine on pages: each worker's share between transactions, the cleaner thread,
//! and checkpoints.

use super::PageEngine;
use crate::design::Design;
use pages::{Progress, Tending};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use store::{CheckpointRun, StoreFault};

impl<D: Design> PageEngine<D> {
    /// The worker's share of work on pages between transactions: it takes the reads that have
    /// ended, has pages read that still await their redo after a restart, and where it owns the
    /// pages, does a slice of cleaning and of a checkpoint. `true` if there was any.
    #[inline]
    pub fn turn(self: &Arc<Self>) -> bool {
        let mut any = self.store.pool().turn();
        any |= self.store.redo_some();
        if !D::LATCHED {
            any |= self.store.pool().tend();
            any |= self.step_checkpoint();
        }
        any
    }

    /// Whether [`PageEngine::turn`] has work: the check before a sleep on the pool's bell.
    pub fn ready(&self) -> bool {
        self.store.pool().flush();
        self.store.pool().ready()
    }

    /// The body of the instance's cleaner thread, until `stop` is set and
    /// [`PageEngine::stop_cleaner`] called: it writes pages out and, where no worker owns them,
    /// keeps frames free.
    pub fn clean(&self, stop: &AtomicBool) {
        let tending = if D::LATCHED { Tending::Cleaner } else { Tending::Owner };
        self.store.pool().serve(tending, stop);
    }

    pub fn stop_cleaner(&self) {
        self.store.pool().stop_serving();
    }

    /// Takes a checkpoint if one is due. The workers call it from time to time. Where pages have
    /// one owner, it copies them for the checkpoint in slices between transactions
    /// ([`PageEngine::turn`]). Otherwise the first worker starts a thread that does all of it.
    pub fn checkpoint_if_due(self: &Arc<Self>, worker: usize) {
        if worker != 0 || !self.store.checkpoint_due() || self.checkpointing.swap(true, Ordering::Acquire) {
            return;
        }
        if D::LATCHED {
            self.beside("checkpoint", |engine| engine.store.checkpoint());
        } else {
            *self.run() = Some(self.store.begin_checkpoint());
        }
    }

    fn run(&self) -> MutexGuard<'_, Option<CheckpointRun>> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The owner's share of a checkpoint that has begun. `true` if there was any to do.
    fn step_checkpoint(self: &Arc<Self>) -> bool {
        if !self.checkpointing.load(Ordering::Relaxed) {
            return false;
        }
        let mut run = self.run();
        let Some(begun) = run.as_mut() else { return false };
        match self.store.step_checkpoint(begun) {
            Ok(Progress::More) => true,
            Ok(Progress::Waiting) => false,
            Ok(Progress::Finished) => {
                if let Some(begun) = run.take() {
                    drop(run);
                    self.beside("checkpoint", move |engine| engine.store.finish_checkpoint(&begun));
                }
                true
            }
            Err(_) => {
                // The fault has poisoned the store, or another checkpoint is due once there is
                // room.
                *run = None;
                self.checkpointing.store(false, Ordering::Release);
                false
            }
        }
    }

    /// Does the rest of a checkpoint on a thread of its own.
    fn beside(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce(&Self) -> Result<(), StoreFault> + Send + 'static,
    ) {
        let engine = Arc::clone(self);
        let write = move || {
            // The fault has poisoned the store, or another checkpoint is due once there is room.
            let _ = work(&engine);
            engine.checkpointing.store(false, Ordering::Release);
        };
        // If no thread can be started, the next call tries again.
        if std::thread::Builder::new().name(name.into()).spawn(write).is_err() {
            self.checkpointing.store(false, Ordering::Release);
        }
    }
}
