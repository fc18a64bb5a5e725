//! The reasons why a comparison could not be made.

use std::path::{Path, PathBuf};
use txn::Abort;

#[derive(Debug, thiserror::Error)]
pub enum PeerFault {
    #[error(transparent)]
    Instance(#[from] instance::InstanceFault),
    #[error(transparent)]
    Options(#[from] workload::SpecError),
    #[error(transparent)]
    Pin(#[from] topology::PinError),
    #[error("{engine}: {what}")]
    Engine { engine: &'static str, what: String },
    /// The engine chose the transaction as a victim. It must be rolled back and can be repeated.
    #[error("a conflict with another transaction")]
    Conflict,
    #[error("{name}: a transaction that should have committed ended with '{}'", .abort.name())]
    Aborted { name: String, abort: Abort },
    #[error("{name}: the data are wrong after the run: {}", .violations.join("; "))]
    Wrong { name: String, violations: Vec<String> },
    #[error("{0}: the instance's audit cannot be read: {1}")]
    Audit(String, postcard::Error),
    #[error("{0}: no transaction was committed in the window; choose a longer --duration")]
    Idle(String),
    #[error("engine '{0}' is unknown; expected some of {1}")]
    UnknownEngine(String, String),
    #[error("this figure needs {needed} CPUs, this process may use {given}")]
    TooFewCpus { needed: usize, given: usize },
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("a thread of {0} panicked")]
    Panicked(String),
}

impl PeerFault {
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> PeerFault + '_ {
        move |source| PeerFault::Io { path: path.to_owned(), source }
    }
}
