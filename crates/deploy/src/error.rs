//! What can go wrong between a `Deployment` and a running one. Every message is one line: the value, what was
//! expected, what to do.

use base::InstanceId;
use std::path::PathBuf;

#[derive(thiserror::Error, Debug)]
pub enum DeployError {
    /// The deployment asked for cannot exist, whatever the machine's state: the caller's wrong usage.
    #[error("{0}")]
    Impossible(String),
    #[error(
        "data directory {} is in use by {holder}: wait for it to end, or name another directory", path.display()
    )]
    InUse { path: PathBuf, holder: String },
    #[error("data directory {} holds {found}, this run needs {wanted}: name another directory, or repeat the run \
             with the options it was built with", path.display())]
    Mismatch { path: PathBuf, found: String, wanted: String },
    #[error("data directory {} is not empty and has no {} in it: name an empty directory or one that atoll built",
            path.display(), crate::manifest::FILE)]
    Foreign { path: PathBuf },
    #[error(
        "data directory {} holds data whose loading has not ended: atoll load with the options of that load starts it \
         anew", path.display()
    )]
    Unfinished { path: PathBuf },
    #[error("{} is damaged ({why}): restore it, or remove the directory and load again", path.display())]
    Manifest { path: PathBuf, why: String },
    #[error(
        "{} has {available_mib} MiB free, this deployment needs about {needed_mib}: free some space, name another \
         directory with --data, or ask for a smaller --dataset or --scale", path.display()
    )]
    NoSpace { path: PathBuf, available_mib: u64, needed_mib: u64 },
    #[error("cannot {action} {}: {error}; make it writable, or name another place with --data or TMPDIR", path.display())]
    Io { action: &'static str, path: PathBuf, error: std::io::Error },
    #[error("cannot start instance {instance}: {why}")]
    Start { instance: InstanceId, why: String },
    /// The instance said why it could not do what it was ordered to.
    #[error("instance {instance} could not {order}: {why}")]
    Order { instance: InstanceId, order: &'static str, why: String },
    #[error("instance {instance} was lost ({how}){hint}")]
    Lost { instance: InstanceId, how: String, hint: &'static str },
    #[error(
        "instance {instance} did not {order} within {seconds} s: it hangs or the machine is overloaded; run again \
             with less load"
    )]
    Timeout { instance: InstanceId, order: &'static str, seconds: u64 },
    #[error("interrupted")]
    Interrupted,
}

impl DeployError {
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> DeployError {
        let path = path.into();
        move |error| DeployError::Io { action, path, error }
    }

    /// Whether the options were wrong (exit code 2), as against a run that failed (exit code 1).
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            DeployError::Impossible(_) | DeployError::Mismatch { .. } | DeployError::Foreign { .. }
        )
    }
}
