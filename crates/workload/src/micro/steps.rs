//! The two steps: read the rows of a transaction in one site, or increment them.

use super::{COUNTER, Ids, MICRO, key};
use base::Key;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::pin::pin;
use txn::step::{Effect, Route, Step, StepId};
use txn::{Abort, Access, RowMut};

/// Returns the sum of the counters.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReadRows {
    /// Rows of one site, ascending.
    pub ids: Ids,
}

/// Adds one to each counter; returns the sum of the new values.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UpdateRows {
    /// Rows of one site, ascending and distinct.
    pub ids: Ids,
}

/// The first row determines the route. A step from the wire may be empty, and then touches no row.
fn route(ids: &Ids) -> Route {
    Route { table: MICRO, key: ids.first().copied().unwrap_or(0) }
}

/// A step that consists of its rows.
pub(super) trait RowStep: Step<Output = i64> {
    fn of(ids: Ids) -> Self;
    /// The step's operation, on rows of any place.
    async fn run_on<A: Access>(ids: &[u64], access: &mut A) -> Result<i64, Abort>;
}

impl RowStep for ReadRows {
    fn of(ids: Ids) -> ReadRows {
        ReadRows { ids }
    }

    async fn run_on<A: Access>(ids: &[u64], access: &mut A) -> Result<i64, Abort> {
        let mut sum = 0i64;
        for ids in ids.chunks(ABREAST) {
            let mut keys: SmallVec<[Key; ABREAST]> = SmallVec::new();
            keys.extend(ids.iter().map(|&id| key(id)));
            access.prefetch(MICRO, &keys);
            for key in &keys {
                let counter = pin!(access.read(MICRO, key, |row| row.int(COUNTER))).await?;
                sum = sum.wrapping_add(counter.ok_or(Abort::BadRequest)?);
            }
        }
        Ok(sum)
    }
}

impl RowStep for UpdateRows {
    fn of(ids: Ids) -> UpdateRows {
        UpdateRows { ids }
    }

    async fn run_on<A: Access>(ids: &[u64], access: &mut A) -> Result<i64, Abort> {
        let mut sum = 0i64;
        for ids in ids.chunks(ABREAST) {
            let mut keys: SmallVec<[Key; ABREAST]> = SmallVec::new();
            keys.extend(ids.iter().map(|&id| key(id)));
            access.prefetch(MICRO, &keys);
            for key in &keys {
                let counter = pin!(access.update(MICRO, key, increment)).await?;
                sum = sum.wrapping_add(counter.ok_or(Abort::BadRequest)?);
            }
        }
        Ok(sum)
    }
}

/// Rows per batched look-up.
const ABREAST: usize = 16;

fn increment(row: &mut RowMut<'_>) -> i64 {
    let counter = row.int(COUNTER).wrapping_add(1);
    row.set_int(COUNTER, counter);
    counter
}

impl Step for ReadRows {
    const ID: StepId = 1;
    const EFFECT: Effect = Effect::Reads;
    type Output = i64;

    fn route(&self) -> Route {
        route(&self.ids)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<i64, Abort> {
        pin!(Self::run_on(&self.ids, access)).await
    }
}

impl Step for UpdateRows {
    const ID: StepId = 2;
    type Output = i64;

    fn route(&self) -> Route {
        route(&self.ids)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<i64, Abort> {
        pin!(Self::run_on(&self.ids, access)).await
    }
}
