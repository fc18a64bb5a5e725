//! Who owns which keys, and when that should change: everything a partitioned design decides, as plain values.
//!
//! Takes in: where transactions' keys fall, how much work each partition did, which partitions met in transactions. Gives
//! back: an owner for a key ([`RangeMap`]), a list of splits, merges and moves with reasons ([`Balancer`], [`Plan`]), numbers of
//! partitions ([`counts`]), islands for partitions ([`placement`]). Knows no thread, no page, no clock and no I/O: who counts,
//! asks and carries plans out is above (`exec`), how a sub-tree is split is below (`access`).
//!
//! In the order of a key's way and then of a decision's: [`Routing`] makes a number of a key, [`Ranges`] finds its owner, the
//! owner counts it in a [`Histogram`], [`level`] finds new borders, [`Balancer`] judges whether they are worth it, [`Plan`] says
//! how to get there, [`cost`] what that costs. `docs/balancing.md` says where this differs from the thesis.

#![forbid(unsafe_code)]

mod routing;

mod range;

mod histogram;

pub mod level;

mod balancer;

mod count;

mod plan;

pub mod cost;

pub mod placement;

pub use balancer::{
    BalanceError, Balancer, Decision, Finding, Keep, Mode, Settings, SettingsError, Verdict, evened,
};
pub use count::{CountError, Demand, counts};
pub use histogram::{BadKeys, Grain, Histogram, PartitionLoad, QueueLength, QueueMeter, SubLoad, WEIGHT};
pub use plan::{Counts, Plan, PlanError};
pub use range::{Change, Partition, Place, RangeError, RangeMap, Ranges};
pub use routing::{MAX_DOMAIN, Routing, RoutingError};
