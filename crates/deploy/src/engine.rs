//! The engine as this crate sees it: one instance from outside, and the types of its configuration.

pub use channel::Address;
pub use exec::options::{Run, Size};
pub use exec::{DesignKind, EngineOptions, HeapForm, Latching, OccAhead, OccConflict, OccReads, TreeKind};
pub use instance::{Backing, Balance, Instance, InstanceConfig, InstanceFault, Mode, Scene};
pub use locks::{Escalation, Inheritance};
pub use txn::TableKind;
pub use wal::Durability;
