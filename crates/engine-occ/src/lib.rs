//! The instance compiled for the engine of
//! `occ`: rows in main memory and validation.
//!
//! All generic code from the worker's loop down to the pages and rows becomes machine code here,
//! for every workload. The crates of the engines know nothing of one another: a compiler builds
//! them side by side, each in one piece.

#![forbid(unsafe_code)]

use exec::MemoryEngine;
use instance::{Instance, InstanceConfig, InstanceFault};
use std::sync::Arc;
use workload::AnyWorkload;

/// See [`Instance::start_in`]. The configured design is one of this engine.
///
/// # Errors
/// As [`Instance::start`].
#[inline(never)]
pub fn start(
    workload: AnyWorkload,
    config: InstanceConfig,
    files: Arc<dyn world::Files>,
) -> Result<Instance<AnyWorkload>, InstanceFault> {
    Instance::with_engine::<MemoryEngine>(workload, config, files)
}
