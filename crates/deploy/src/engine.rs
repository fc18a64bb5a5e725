//! The engine as this crate sees it: one instance from outside, and the types of its configuration.

pub use channel::Address;
pub use exec::options::{Column, Designs, OPTIONS, Run, Section, Size, Takes, Values, option};
pub use exec::{DesignKind, EngineOption, EngineOptions, HeapForm, OccConflict, TreeKind};
pub use instance::{Backing, Balance, Instance, InstanceConfig, InstanceFault, Mode, TrafficOrder};
pub use txn::TableKind;
pub use wal::Durability;
