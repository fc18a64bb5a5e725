//! What carries out the steps of a statement.
//!
//! ```text
//!   Work -- find, change, insert, select ... compiled once
//!     |  Carrier: one call and one box per phase
//!     +-- &mut dyn Transact  the engine's transaction   phases of steps, compiled for each engine
//!     +-- Waiting            a lane of a program with statements that run together
//! ```
//!
//! Only the phases and their steps are compiled for each engine. A box per phase costs some 50 ns;
//! a message of a client costs the server over 10 us.

use crate::SqlError;
use crate::group::Group;
use crate::native::issued::Issued;
use crate::native::run_step::{IssuedRead, Said};
use crate::program::RowLock;
use crate::step::{Before, Change, Changed, Fetch, FetchAll, FetchForUpdate, Gather, Hits, Put};
use smallvec::{SmallVec, smallvec};
use txn::erased::Local;
use txn::step::Each;
use txn::{Abort, Transaction};

/// Values, one for each step, in the steps' order. More than one are in memory of their own: the
/// futures through which steps and outputs go are copied, and have a place for each kind.
pub type Few<V> = SmallVec<[V; 1]>;
/// The output of [`Change`].
pub type AfterChange = Result<Option<Changed>, SqlError>;

/// Carries out steps. The steps of one call are one phase.
pub trait Carrier {
    fn fetch(&mut self, fetches: Few<Fetch>, lock: RowLock) -> Local<'_, Result<Few<Hits>, Abort>>;
    /// One fetch, as a phase of its own.
    fn fetch_one(&mut self, fetch: Fetch, lock: RowLock) -> Local<'_, Result<Hits, Abort>>;
    fn put(&mut self, puts: Few<Put>) -> Local<'_, Result<Few<Before>, Abort>>;
    fn change(&mut self, changes: Few<Change>) -> Local<'_, Result<Few<AfterChange>, Abort>>;
    fn fetch_all(&mut self, fetch: FetchAll) -> Local<'_, Result<Hits, Abort>>;
    fn gather(&mut self, gather: Gather) -> Local<'_, Result<Result<Vec<Group>, SqlError>, Abort>>;
}

/// A whole transaction: the methods of [`Transaction`] that SQL uses, without its generic steps.
pub trait Transact: Carrier {
    /// Steps of several statements as one phase; the last one if `ends`.
    fn batch(&mut self, batch: Batch, ends: bool) -> Local<'_, Result<Outputs, Abort>>;
    /// Steps in Rust as one phase; the last one if `ends`.
    fn issued(&mut self, steps: Few<Issued>, ends: bool) -> Local<'_, Result<Few<Said>, Abort>>;
    /// As [`Transact::issued`], for steps that change nothing.
    fn issued_reads(&mut self, steps: Few<IssuedRead>, ends: bool) -> Local<'_, Result<Few<Said>, Abort>>;
    fn hear(&mut self, said: Vec<u8>) -> Local<'_, Result<Vec<u8>, Abort>>;
    fn abandon(&mut self);
}

/// The steps of one round of several statements, by kind.
#[derive(Default)]
pub struct Batch {
    pub reads: Few<Fetch>,
    pub locked: Few<FetchForUpdate>,
    pub puts: Few<Put>,
    pub changes: Few<Change>,
}

/// The outputs of a [`Batch`], by kind.
pub type Outputs = (Few<Hits>, Few<Hits>, Few<Before>, Few<AfterChange>);

impl<T: Transaction> Carrier for T {
    fn fetch(&mut self, fetches: Few<Fetch>, lock: RowLock) -> Local<'_, Result<Few<Hits>, Abort>> {
        match lock {
            RowLock::None => Box::pin(self.all(Each(fetches))),
            lock => {
                let fetches = fetches.into_iter().map(|fetch| FetchForUpdate(fetch, lock));
                Box::pin(self.all(Each::<FetchForUpdate, 1>(fetches.collect())))
            }
        }
    }

    fn fetch_one(&mut self, fetch: Fetch, lock: RowLock) -> Local<'_, Result<Hits, Abort>> {
        match lock {
            RowLock::None => Box::pin(self.all(fetch)),
            lock => Box::pin(self.all(FetchForUpdate(fetch, lock))),
        }
    }

    fn put(&mut self, puts: Few<Put>) -> Local<'_, Result<Few<Before>, Abort>> {
        Box::pin(self.all(Each(puts)))
    }

    fn change(&mut self, mut changes: Few<Change>) -> Local<'_, Result<Few<AfterChange>, Abort>> {
        if changes.len() == 1
            && let Some(change) = changes.pop()
        {
            return Box::pin(async move { Ok(smallvec![self.all(change).await?]) });
        }
        Box::pin(self.all(Each(changes)))
    }

    fn fetch_all(&mut self, fetch: FetchAll) -> Local<'_, Result<Hits, Abort>> {
        Box::pin(self.over(fetch))
    }

    fn gather(&mut self, gather: Gather) -> Local<'_, Result<Result<Vec<Group>, SqlError>, Abort>> {
        Box::pin(self.over(gather))
    }
}

impl<T: Transaction> Transact for T {
    fn batch(&mut self, batch: Batch, ends: bool) -> Local<'_, Result<Outputs, Abort>> {
        let Batch { reads, locked, puts, changes } = batch;
        if locked.is_empty() && puts.is_empty() && changes.is_empty() {
            let reads = Each(reads);
            return Box::pin(async move {
                let hits = if ends { self.last(reads).await? } else { self.all(reads).await? };
                Ok((hits, Few::new(), Few::new(), Few::new()))
            });
        }
        let steps = (Each(reads), Each(locked), Each(puts), Each(changes));
        if ends { Box::pin(self.last(steps)) } else { Box::pin(self.all(steps)) }
    }

    fn issued(&mut self, steps: Few<Issued>, ends: bool) -> Local<'_, Result<Few<Said>, Abort>> {
        if ends { Box::pin(self.last(Each(steps))) } else { Box::pin(self.all(Each(steps))) }
    }

    fn issued_reads(&mut self, steps: Few<IssuedRead>, ends: bool) -> Local<'_, Result<Few<Said>, Abort>> {
        if ends { Box::pin(self.last(Each(steps))) } else { Box::pin(self.all(Each(steps))) }
    }

    fn hear(&mut self, said: Vec<u8>) -> Local<'_, Result<Vec<u8>, Abort>> {
        Box::pin(Transaction::hear(self, said))
    }

    fn abandon(&mut self) {
        Transaction::abandon(self);
    }
}
