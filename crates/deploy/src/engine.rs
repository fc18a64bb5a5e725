//! The engine as this crate sees it: one instance from outside, and the types of its configuration.

pub use channel::Address;
pub use exec::options::{Column, Designs, OPTIONS, Run, Section, Size, Takes, Values, option};
pub use exec::{DesignKind, EngineOption, EngineOptions, HeapForm, OccConflict, TreeKind};
pub use instance::{Backing, Balance, InstanceConfig, InstanceFault, Mode, RelayConfig, TrafficOrder};
pub use txn::TableKind;
pub use wal::Durability;

use exec::EngineKind;
use relay::files::{Opening, Part, Replicated};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use workload::AnyWorkload;
use world::Files;

/// How long a relay may give no answer to a reader that may ask again.
const READ: Duration = Duration::from_secs(5);

/// An instance that runs any workload.
pub type Instance = instance::Instance<AnyWorkload>;

/// Starts an instance on the engine of its design, and returns its log at a relay too. As
/// [`instance::Instance::start`] does, but each engine is compiled in a crate of its own.
pub(crate) fn start(
    workload: AnyWorkload,
    config: InstanceConfig,
) -> Result<(Instance, Option<Distance>), InstanceFault> {
    let replicated = replicated(&config)?.map(Arc::new);
    let files = replicated.clone().map_or_else(world::real, |files| files as Arc<dyn Files>);
    let instance = match config.design.engine() {
        EngineKind::Conventional => engine_conventional::start(workload, config, files),
        EngineKind::Partitioned => engine_partitioned::start(workload, config, files),
        EngineKind::Serial => engine_serial::start(workload, config, files),
        EngineKind::Memory => engine_occ::start(workload, config, files),
    }?;
    Ok((instance, replicated.map(|files| Distance { files, told: 0 })))
}

/// How far a quorum has the log of an instance. The log ends with this value and the instance.
pub(crate) struct Distance {
    files: Arc<Replicated>,
    /// What [`Distance::grown`] returned last.
    told: u64,
}

impl Distance {
    /// The number of entries that a quorum has, if it has grown since the last call.
    pub fn grown(&mut self) -> Option<u64> {
        let kept = self.files.log().kept();
        (std::mem::replace(&mut self.told, kept) < kept).then_some(kept)
    }
}

/// Checks an address of a relay and gives it back.
///
/// # Errors
/// What is expected.
pub fn relay_address(text: &str) -> Result<String, String> {
    text.parse::<relay::Address>().map(|address| address.to_string())
}

/// How many entries that count are in the log at a relay, which the folder `dir` follows. The log
/// is read from the folder's mark on, and stays as it is.
///
/// # Errors
/// The relay cannot be read; it has lost entries; the folder is of another log.
pub fn log_reaches(address: &str, name: &str, dir: &Path) -> Result<u64, String> {
    let address: relay::Address = address.parse()?;
    let tape = address.open(name).map_err(|fault| fault.to_string())?;
    relay::files::reaches(&*world::real(), dir, &*tape, READ).map_err(|fault| fault.to_string())
}

/// The file system of an instance with a relay: the changes of its log go there first.
fn replicated(config: &InstanceConfig) -> Result<Option<Replicated>, InstanceFault> {
    let Some(place) = &config.relay else { return Ok(None) };
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
    Ok(Some(files))
}
