//! Who owns which keys, and when that should change: everything a partitioned design decides, as plain values.
#![forbid(unsafe_code)]

mod balancer;
pub mod cost;
mod count;
mod histogram;
pub mod level;
mod plan;
mod range;
mod routing;

pub use balancer::{
    BalanceError, Balancer, Decision, Finding, Keep, Mode, Settings, SettingsError, Verdict, evened,
};
pub use count::{CountError, Demand, counts};
pub use histogram::{BadKeys, Grain, Histogram, PartitionLoad, QueueLength, QueueMeter, SubLoad, WEIGHT};
pub use plan::{Counts, Plan, PlanError};
pub use range::{Change, Partition, Place, RangeError, RangeMap, Ranges};
pub use routing::{MAX_DOMAIN, Routing, RoutingError};
