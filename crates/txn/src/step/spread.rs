//! Steps over the keys of many sites: scans of a whole table, scans across a site border, and scans
//! through an index of which the entries are not partitioned like their rows.
//!
//! ```text
//!   procedure --over(step)--> cut into shares: one per run of sites with one owner, in key order
//!                             each runs the whole step there; its scans see only rows of its sites
//!             <--join-------- outputs, joined in key order where the procedure runs
//! ```
//!
//! The step is written as if it ran in one place, and does so where one place has all rows. The
//! engine cuts it, since the engine knows the owners. The locks of each share stay until the
//! transaction ends, like those of any step. Together they protect the whole range that was read.

use crate::{Abort, Access, Direction, Effect, Flow, Route, Step, StepId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The order in which the shares of a step run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visits {
    /// All at once.
    AtOnce,
    /// One after the other in key order, until [`Spread::flow`] returns [`Flow::Enough`].
    InOrder(Direction),
}

/// A step over many sites. A workload lists it as [`Share`] among its kinds of steps
/// ([`crate::run_one_of`]).
///
/// Its scans may be open at either end, and may use any index of the table. Its other accesses must
/// keep to keys of the sites of the scanned rows, for example reading a row by a key that a scan
/// has found.
pub trait Spread: Step + Clone {
    /// The routing keys that it reaches, in the table of its route. Keys past the table's domain
    /// are ignored.
    fn keys(&self) -> Range<u64>;

    fn visits(&self) -> Visits {
        Visits::AtOnce
    }

    /// Adds the output of the next share, in key order (backwards if they are visited so).
    fn join(&self, so_far: &mut Self::Output, next: Self::Output);

    /// Whether to visit further shares, if they run in order.
    fn flow(&self, _so_far: &Self::Output) -> Flow {
        Flow::More
    }
}

/// The part of a spread step for one run of sites: a step like any other.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(bound(serialize = "S: Serialize", deserialize = "S: DeserializeOwned"))]
pub struct Share<S> {
    step: S,
    /// Sites of the deployment; `None` for all rows of the place where the step runs.
    sites: Option<Range<u32>>,
    /// Routing key of the share: a key of one of these sites.
    key: u64,
}

impl<S: Spread> Share<S> {
    /// The whole step in one place.
    pub fn whole(step: S) -> Share<S> {
        let key = Step::route(&step).key;
        Share { step, sites: None, key }
    }

    /// The part of the step for `sites`, of which `key` is a routing key.
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
