//! The work of an engine between transactions, and the checks of a worker before it sleeps.

use super::{Engine, EngineFault};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The work of an engine that no transaction asks for.
pub trait Maintenance: Engine {
    /// Has the log's own thread flush the log for transactions that wait with
    /// [`FlushBy::Caller`](wal::FlushBy::Caller).
    fn flush_log(&self);

    /// The same on the calling thread, if no other thread is flushing: for a worker that has
    /// nothing else to do.
    fn flush_log_here(&self);

    /// A bounded piece of the work that makes room for later transactions, for a worker that has
    /// nothing else to do. `true` if there was some, and there may be more.
    fn tidy(&self, _: &Self::WorkerContext) -> bool {
        false
    }

    /// Whether there is neither a message nor a transaction that has finished its wait for the log:
    /// part of the check before a sleep.
    fn is_quiet(&self, ctx: &Self::WorkerContext) -> bool;

    /// Whether [`Engine::turn`] has work: the check before a sleep on the [`Maintenance::bell`].
    fn ready(&self) -> bool;

    /// A descriptor that becomes readable, edge-triggered, when [`Maintenance::ready`] may have
    /// become true.
    fn bell(&self) -> Option<BorrowedFd<'_>>;

    /// The body of the engine's own thread, until `stop` is set and [`Maintenance::stop_cleaner`]
    /// called.
    fn clean(&self, stop: &AtomicBool);
    fn stop_cleaner(&self);

    /// Takes a checkpoint if one is due. The workers call it from time to time.
    fn checkpoint_if_due(self: &Arc<Self>, ctx: &Self::WorkerContext);

    /// Writes a checkpoint. Called on a worker, because that may own the pages.
    ///
    /// # Errors
    /// [`EngineFault`].
    fn checkpoint(&self) -> Result<(), EngineFault>;
}
