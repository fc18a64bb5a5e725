//! Who owns which keys, and when that should change: everything a partitioned design decides, as plain values.
#![forbid(unsafe_code)]

pub mod cost;
mod histogram;
pub mod level;
mod plan;
mod range;
mod routing;

pub use histogram::{BadKeys, Grain, Histogram, PartitionLoad, QueueLength, QueueMeter, SubLoad, WEIGHT};
pub use plan::{Counts, Plan, PlanError};
pub use range::{Change, Partition, Place, RangeError, RangeMap, Ranges};
pub use routing::{MAX_DOMAIN, Routing, RoutingError};
