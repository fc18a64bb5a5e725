//! The engine as this crate sees it: one instance from outside, and the types of its configuration.

pub use channel::Address;
pub use exec::options::{Column, Designs, OPTIONS, Run, Section, Size, Takes, Values, option};
pub use exec::{DesignKind, EngineOption, EngineOptions, HeapForm, OccConflict, TreeKind};
pub use instance::{Backing, Balance, InstanceConfig, InstanceFault, Mode, TrafficOrder};
pub use txn::TableKind;
pub use wal::Durability;

use exec::EngineKind;
use workload::AnyWorkload;

/// An instance that runs any workload.
pub type Instance = instance::Instance<AnyWorkload>;

/// Starts an instance on the engine of its design. As [`instance::Instance::start`] does, but each
/// engine is compiled in a crate of its own.
pub(crate) fn start(workload: AnyWorkload, config: InstanceConfig) -> Result<Instance, InstanceFault> {
    match config.design.engine() {
        EngineKind::Conventional => engine_conventional::start(workload, config),
        EngineKind::Partitioned => engine_partitioned::start(workload, config),
        EngineKind::Serial => engine_serial::start(workload, config),
        EngineKind::Memory => engine_occ::start(workload, config),
    }
}
