//! The two steps: read, or read and increment, the rows that a transaction touches in one site.

use super::{COUNTER, Ids, MICRO, key};
use serde::{Deserialize, Serialize};
use txn::step::{Effect, Route, Step, StepId};
use txn::{Abort, Access};

/// Gives the sum of the counters.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReadRows {
    /// Rows of one site, ascending.
    pub ids: Ids,
}

/// Adds one to each counter; gives the sum of the new ones.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UpdateRows {
    /// Rows of one site, ascending and distinct.
    pub ids: Ids,
}

/// The first row stands for all. A step that came over a wire may be empty, and then touches nothing anywhere.
fn route(ids: &Ids) -> Route {
    Route { table: MICRO, key: ids.first().copied().unwrap_or(0) }
}

impl Step for ReadRows {
    const ID: StepId = 1;
    const EFFECT: Effect = Effect::Reads;
    type Output = i64;

    fn route(&self) -> Route {
        route(&self.ids)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<i64, Abort> {
        let mut sum = 0i64;
        for &id in &self.ids {
            let counter = access.read(MICRO, &key(id), |row| row.int(COUNTER)).await?;
            sum = sum.wrapping_add(counter.ok_or(Abort::BadRequest)?);
        }
        Ok(sum)
    }
}

impl Step for UpdateRows {
    const ID: StepId = 2;
    type Output = i64;

    fn route(&self) -> Route {
        route(&self.ids)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<i64, Abort> {
        let mut sum = 0i64;
        for &id in &self.ids {
            let counter = access
                .update(MICRO, &key(id), |row| {
                    let counter = row.int(COUNTER).wrapping_add(1);
                    row.set_int(COUNTER, counter);
                    counter
                })
                .await?;
            sum = sum.wrapping_add(counter.ok_or(Abort::BadRequest)?);
        }
        Ok(sum)
    }
}
