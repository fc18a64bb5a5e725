//! Loading: new rows on their way into an empty engine.
//!
//! ```text
//!   is_blank   each worker: filling -> inserts -> filled --+
//!              each worker: filling -> inserts -> filled --+--> assemble, once
//! ```

use super::Engine;
use txn::Access;

/// An engine that takes many rows at once while it is empty.
pub trait Load: Engine {
    /// Access for the rows of one worker.
    type Filling<'a>: Access;
    /// The rows that a worker has filled in and that [`Load::assemble`] has still to put together.
    type Filled: Send + 'static;

    /// Whether the engine holds no row yet, so that [`Load::filling`] can be used.
    fn is_blank(&self) -> bool;

    /// Access for a load into an empty engine. It takes new rows only: none can be read before all
    /// are there.
    fn filling<'a>(&'a self, ctx: &'a Self::WorkerContext) -> Self::Filling<'a>;

    /// Ends the filling by one worker.
    ///
    /// # Errors
    /// A description of the failure.
    fn filled(&self, filling: Self::Filling<'_>) -> Result<Self::Filled, String>;

    /// Puts together the rows that all workers have filled in.
    ///
    /// # Errors
    /// A description of the failure.
    fn assemble(&self, all: Vec<Self::Filled>) -> Result<(), String>;

    /// Has the operating system back all the memory that data may take, so that no transaction
    /// waits for it. It may take seconds. Called by a thread that gets its memory from the
    /// instance's node.
    fn back_memory(&self);
}
