//! Why a command failed, and its exit code.

use base::counted;
use deploy::DeployError;
use std::io::ErrorKind;

/// The exit code that shells report for a process ended by SIGPIPE (13). A command that cannot
/// write all of its output ends with it, as other tools do; a bench that was cut off is no success.
const BROKEN_PIPE: u8 = 128 + 13;

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The request is impossible.
    #[error("{0}")]
    Usage(String),
    /// The request is possible, but failed.
    #[error("{0}")]
    Run(String),
    #[error(
        "{count} of {} {} inconsistent: a consistency check of the workload did not hold, see above",
        counted(*rows, "row"), if *rows == 1 { "is" } else { "are" }
    )]
    Inconsistent { count: usize, rows: usize },
    #[error(
        "{} is damaged: {}, see above for each and what to do about it", dir.display(), counted(*count, "finding")
    )]
    Damaged { count: usize, dir: std::path::PathBuf },
    #[error("interrupted; every instance is gone and nothing is left behind")]
    Interrupted,
    /// No instance had been started. The text says how far the work came.
    #[error("interrupted; {0}")]
    InterruptedAlone(&'static str),
    /// Nothing had begun.
    #[error("interrupted while reading; nothing was written")]
    InterruptedReading,
    /// The reader has closed standard output: no failure, and no message.
    #[error("standard output was closed")]
    OutputClosed,
}

impl Failure {
    pub fn usage(error: impl std::fmt::Display) -> Failure {
        Failure::Usage(error.to_string())
    }

    pub fn run(error: impl std::fmt::Display) -> Failure {
        Failure::Run(error.to_string())
    }

    pub fn code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Interrupted | Failure::InterruptedAlone(_) | Failure::InterruptedReading => 130,
            Failure::OutputClosed => BROKEN_PIPE,
            Failure::Run(_) | Failure::Inconsistent { .. } | Failure::Damaged { .. } => 1,
        }
    }
}

impl From<DeployError> for Failure {
    fn from(error: DeployError) -> Failure {
        match error {
            DeployError::Interrupted => Failure::Interrupted,
            other if other.is_usage() => Failure::usage(other),
            other => Failure::run(other),
        }
    }
}

/// Why a file of results cannot be written, with advice.
pub fn cannot_write(path: &std::path::Path, error: &std::io::Error) -> Failure {
    let advice = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space, or name another place",
        _ => "name another place",
    };
    Failure::Run(format!("cannot write {}: {error}; {advice} with --out", path.display()))
}
