//! Steps that reach over the keys of many sites: scans of a whole table, over a border, or through an index whose entries are
//! not cut like their rows.
//!
//! ```text
//!   procedure --over(step)--> cut into shares: one for each run of sites with one owner, in the order of keys
//!                             each runs the whole step there, and its scans see the rows of its own sites only
//!             <--join-------- outputs, put together in that order where the procedure runs
//! ```
//!
//! The step is written as if it ran in one place, and does where one place has all rows. What cuts it is the engine, which knows who
//! owns what. Each share's locks stay until the transaction ends, as any step's do: together they keep the range as it was seen.

use crate::{Abort, Access, Direction, Effect, Flow, Route, Step, StepId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// In which order the shares of a step are run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visits {
    /// All are under way together.
    AtOnce,
    /// One after the other by their keys, until [`Spread::flow`] says that it is enough.
    InOrder(Direction),
}

/// A step over many sites. A workload names it as [`Share`] among its kinds of steps ([`crate::run_one_of`]).
///
/// Its scans may be open at either end, and go through any index of the table. Its other accesses must keep to keys of the
/// sites that the scans meet: a row that is read by a key which was met, say.
pub trait Spread: Step + Clone {
    /// The routing keys it reaches, of its route's table; those past the table's domain do not matter.
    fn keys(&self) -> Range<u64>;

    fn visits(&self) -> Visits {
        Visits::AtOnce
    }

    /// Adds the output of the next share, in the order of keys (backwards if they are visited so).
    fn join(&self, so_far: &mut Self::Output, next: Self::Output);

    /// Whether shares are still to be visited, where that is done in order.
    fn flow(&self, _so_far: &Self::Output) -> Flow {
        Flow::More
    }
}

/// What a spread step has to do in a run of sites: a step like any other.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(bound(serialize = "S: Serialize", deserialize = "S: DeserializeOwned"))]
pub struct Share<S> {
    step: S,
    /// Of the deployment; `None` for all that is where the step runs.
    sites: Option<Range<u32>>,
    /// Where it is routed to, one of these sites' keys.
    key: u64,
}

impl<S: Spread> Share<S> {
    /// All of it in one place.
    pub fn whole(step: S) -> Share<S> {
        let key = Step::route(&step).key;
        Share { step, sites: None, key }
    }

    /// What lies in `sites`, of which `key` is a routing key.
    pub fn of(step: S, sites: Range<u32>, key: u64) -> Share<S> {
        Share { step, sites: Some(sites), key }
    }
}

impl<S: Spread> Step for Share<S> {
    const ID: StepId = S::ID;
    const EFFECT: Effect = S::EFFECT;
    type Output = S::Output;

    fn route(&self) -> Route {
        Route { key: self.key, ..Step::route(&self.step) }
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<S::Output, Abort> {
        access.within(self.sites.clone())?;
        let done = Step::run(&self.step, access).await;
        access.within(None)?;
        done
    }
}
