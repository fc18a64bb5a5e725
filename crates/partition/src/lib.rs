//! The owners of keys, and when they should change: all decisions of a partitioned design, as plain
//! values.
//!
//! In: the keys that transactions access, the work of each partition, the pairs of partitions that
//! met in transactions. Out: an owner for a key ([`RangeMap`]), a list of splits, merges and moves
//! with reasons ([`Balancer`], [`Plan`]), numbers of partitions ([`counts`]), islands for
//! partitions ([`placement`]). This crate knows no thread, page, clock or I/O. The crate above
//! (`exec`) counts, asks and carries plans out; the crate below (`access`) splits a sub-tree.
//!
//! In the order of a key's way and then of a decision's: [`Routing`] turns a key into a number,
//! [`Ranges`] finds its owner, the owner counts it in a [`Histogram`], [`level`] finds new borders,
//! [`Balancer`] judges whether they are worth the change, [`Plan`] lists the changes, and [`cost`]
//! gives their cost. `docs/partitioned.md` says where this differs from the thesis.

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
    BalanceError, BalanceVerdict, Balancer, Decision, Finding, Keep, Mode, Settings, SettingsError, evened,
};
pub use count::{CountError, Demand, counts};
pub use histogram::{BadKeys, Grain, Histogram, PartitionLoad, QueueLength, QueueMeter, SubLoad, WEIGHT};
pub use plan::{Counts, Plan, PlanError};
pub use range::{KeyPlace, Partition, RangeChange, RangeError, RangeMap, Ranges};
pub use routing::{MAX_DOMAIN, Routing, RoutingError};
