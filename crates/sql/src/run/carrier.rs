//! What carries out the steps of a statement.

use crate::SqlError;
use crate::group::Group;
use crate::program::RowLock;
use crate::step::{Before, Change, Changed, Fetch, FetchAll, FetchForUpdate, Gather, Hits, Put};
use smallvec::{SmallVec, smallvec};
use txn::step::Each;
use txn::{Abort, Transaction};

/// Values, one for each step, in the steps' order.
pub type Few<V> = SmallVec<[V; 4]>;
/// The output of [`Change`].
pub type AfterChange = Result<Option<Changed>, SqlError>;

/// Carries out steps: the transaction itself, or a lane of a program with statements that run
/// together.
/// The steps of one call are one phase.
pub trait Carrier {
    async fn fetch(&mut self, fetches: Few<Fetch>, lock: RowLock) -> Result<Few<Hits>, Abort>;
    /// One fetch, as a phase of its own.
    async fn fetch_one(&mut self, fetch: Fetch, lock: RowLock) -> Result<Hits, Abort> {
        let mut hits = self.fetch(smallvec![fetch], lock).await?;
        Ok(hits.pop().unwrap_or_else(|| Ok(Vec::new())))
    }
    async fn put(&mut self, puts: Few<Put>) -> Result<Few<Before>, Abort>;
    async fn change(&mut self, changes: Few<Change>) -> Result<Few<AfterChange>, Abort>;
    async fn fetch_all(&mut self, fetch: FetchAll) -> Result<Hits, Abort>;
    async fn gather(&mut self, gather: Gather) -> Result<Result<Vec<Group>, SqlError>, Abort>;
}

impl<T: Transaction> Carrier for T {
    async fn fetch(&mut self, mut fetches: Few<Fetch>, lock: RowLock) -> Result<Few<Hits>, Abort> {
        if fetches.len() == 1
            && let Some(fetch) = fetches.pop()
        {
            return Ok(smallvec![self.fetch_one(fetch, lock).await?]);
        }
        match lock {
            RowLock::None => self.all(Each(fetches)).await,
            RowLock::Update => {
                self.all(Each::<FetchForUpdate>(fetches.into_iter().map(FetchForUpdate).collect())).await
            }
        }
    }

    async fn fetch_one(&mut self, fetch: Fetch, lock: RowLock) -> Result<Hits, Abort> {
        match lock {
            RowLock::None => self.all(fetch).await,
            RowLock::Update => self.all(FetchForUpdate(fetch)).await,
        }
    }

    async fn put(&mut self, puts: Few<Put>) -> Result<Few<Before>, Abort> {
        self.all(Each(puts)).await
    }

    async fn change(&mut self, mut changes: Few<Change>) -> Result<Few<AfterChange>, Abort> {
        if changes.len() == 1
            && let Some(change) = changes.pop()
        {
            return Ok(smallvec![self.all(change).await?]);
        }
        self.all(Each(changes)).await
    }

    async fn fetch_all(&mut self, fetch: FetchAll) -> Result<Hits, Abort> {
        self.over(fetch).await
    }

    async fn gather(&mut self, gather: Gather) -> Result<Result<Vec<Group>, SqlError>, Abort> {
        self.over(gather).await
    }
}
