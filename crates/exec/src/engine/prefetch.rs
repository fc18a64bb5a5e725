//! Rows brought near before their transaction runs.

use super::Engine;
use base::TableId;

/// An engine that may be told beforehand which rows a transaction will ask for. The defaults
/// prefetch nothing.
pub trait Prefetch: Engine {
    /// Whether telling it has any effect.
    const PREFETCHES: bool = false;
    /// The rows that one transaction to come is known to ask for.
    type PrefetchList: Default + 'static;

    /// Prefetches the data by which a row is found, for a row that a transaction to come will ask
    /// for. It takes no lock and promises nothing.
    fn prefetch_hint(&self, _: &Self::WorkerContext, _: &mut Self::PrefetchList, _: TableId, _: &[u8]) {}

    /// Prefetches the rows themselves, and clears the list. To be called a while after
    /// [`Prefetch::prefetch_hint`], right before that transaction.
    fn prefetch_rows(&self, _: &Self::WorkerContext, _: &mut Self::PrefetchList) {}
}
