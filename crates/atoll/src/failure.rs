//! Why a command did not succeed, and what it exits with.

use deploy::DeployError;

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// What was asked for cannot be.
    #[error("{0}")]
    Usage(String),
    /// It could be, and did not work.
    #[error("{0}")]
    Run(String),
    #[error(
        "{count} of {rows} rows are inconsistent: a consistency check of the workload did not hold, see above"
    )]
    Inconsistent { count: usize, rows: usize },
    #[error(
        "{} is damaged: {count} findings, see above for each and what to do about it", dir.display()
    )]
    Damaged { count: usize, dir: std::path::PathBuf },
    #[error("interrupted; every instance is gone and nothing is left behind")]
    Interrupted,
    /// Whoever read standard output has had enough.
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
            Failure::Interrupted => 130,
            Failure::Run(_)
            | Failure::Inconsistent { .. }
            | Failure::Damaged { .. }
            | Failure::OutputClosed => 1,
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
