//! The engine as this crate sees it: one instance from outside, and the types of its configuration.

pub use channel::Address;
pub use exec::options::{Column, Designs, OPTIONS, Run, Section, Size, Takes, Values, option};
pub use exec::{DesignKind, EngineOption, EngineOptions, HeapForm, OccConflict, TreeKind};
pub use instance::{Backing, Balance, InstanceConfig, InstanceFault, Mode, RelayConfig, TrafficOrder};
pub use txn::TableKind;
pub use wal::Durability;

use exec::EngineKind;
use relay::files::{Opening, Part, Replicated};
use std::sync::Arc;
use workload::AnyWorkload;
use world::Files;

/// An instance that runs any workload.
pub type Instance = instance::Instance<AnyWorkload>;

/// Starts an instance on the engine of its design. As [`instance::Instance::start`] does, but each
/// engine is compiled in a crate of its own.
pub(crate) fn start(workload: AnyWorkload, config: InstanceConfig) -> Result<Instance, InstanceFault> {
    let files = files_of(&config)?;
    match config.design.engine() {
        EngineKind::Conventional => engine_conventional::start(workload, config, files),
        EngineKind::Partitioned => engine_partitioned::start(workload, config, files),
        EngineKind::Serial => engine_serial::start(workload, config, files),
        EngineKind::Memory => engine_occ::start(workload, config, files),
    }
}

/// Checks an address of a relay and gives it back.
///
/// # Errors
/// What is expected.
pub fn relay_address(text: &str) -> Result<String, String> {
    text.parse::<relay::Address>().map(|address| address.to_string())
}

/// The file system of an instance: with a relay, the changes of its log go there first.
fn files_of(config: &InstanceConfig) -> Result<Arc<dyn Files>, InstanceFault> {
    let Some(place) = &config.relay else { return Ok(world::real()) };
    place.answers_until.inspect(|ns| instance::lease::answer_until(*ns));
    let fault = |fault: relay::Fault| InstanceFault::Relay(fault.to_string());
    let address: relay::Address = place.address.parse().map_err(InstanceFault::Relay)?;
    let tape = address.open(&place.name).map_err(fault)?;
    let part = if config.design.is_in_memory() { Part::All } else { Part::Log };
    let opening = Opening {
        claim: place.term.map(relay::Term),
        at_least: place.at_least,
        loss: if place.accept_loss { relay::Loss::Accept } else { relay::Loss::Refuse },
        ..Opening::new(part)
    };
    let files = Replicated::open(world::real(), &config.dir, tape, &opening).map_err(fault)?;
    if let Some(lost) = &files.lost {
        world::tell(format_args!("atoll: warning: {:?}: opened with a loss: {lost}", config.id));
    }
    Ok(Arc::new(files))
}
