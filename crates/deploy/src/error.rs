//! The errors between a `Deployment` and a running one. Every message is one line: the value, the
//! expected value, the remedy.

use base::InstanceId;
use std::path::PathBuf;

/// Why a deployment or a database is not usable, or a run failed.
#[derive(thiserror::Error, Debug)]
pub enum DeployError {
    /// The requested deployment cannot exist on any machine: the options are wrong.
    #[error("{0}")]
    Impossible(String),
    #[error(
        "data directory {} is in use by {holder}: wait for it to end, or name another directory", path.display()
    )]
    InUse { path: PathBuf, holder: String },
    /// Callers that know the command line add the command to type; see [`crate::standing`].
    #[error("data directory {} holds {found}, this run needs {wanted}: name another directory", path.display())]
    Mismatch { path: PathBuf, found: String, wanted: String },
    #[error(
        "data directory {} was written in format {found}, this version reads format {expected}: use the version of Atoll that \
         loaded it, or name another directory", path.display()
    )]
    Format { path: PathBuf, found: u64, expected: u32 },
    #[error("{}: there is no such directory", path.display())]
    NoDirectory { path: PathBuf },
    #[error("{} is a file, expected a directory", path.display())]
    NotADirectory { path: PathBuf },
    #[error(
        "{} holds no database: there is no {} in it; atoll load with --data makes one", path.display(), crate::manifest::FILE
    )]
    NoDatabase { path: PathBuf },
    #[error("{} is the directory of a sweep, with these databases: {within}", path.display())]
    Sweep { path: PathBuf, within: String },
    #[error(
        "{} is a backup, not a database: `atoll restore {0} --to {}` makes a database of it",
        path.display(), restored.display()
    )]
    Backup { path: PathBuf, restored: PathBuf },
    #[error(
        "data directory {} has {name}, which is {what}: move it away, or name another directory", path.display()
    )]
    Occupied { path: PathBuf, name: String, what: &'static str },
    /// Part of a database is missing or in the wrong place.
    #[error(
        "data directory {} cannot be used: {}: {what}; {remedy} (`atoll check --data {0}` lists all other faults)",
        path.display(), file.display()
    )]
    NotWhole { path: PathBuf, file: PathBuf, what: String, remedy: String },
    #[error(
        "data directory {} holds data whose loading has not ended: atoll load with the options of that load starts it \
         anew", path.display()
    )]
    Unfinished { path: PathBuf },
    #[error(
        "{} is damaged ({why}): restore the database from a backup, or remove the directory and load again", path.display()
    )]
    Manifest { path: PathBuf, why: String },
    #[error(
        "{} has {available_mib} MiB free, this deployment needs about {needed_mib}: free some space, name another \
         directory with --data, or ask for a smaller --dataset or --scale", path.display()
    )]
    NoSpace { path: PathBuf, available_mib: u64, needed_mib: u64 },
    #[error("{} exists already: nothing is overwritten; name another place", path.display())]
    Exists { path: PathBuf },
    #[error("{} is being written by another process: wait for it to end, or name another place", path.display())]
    BeingWritten { path: PathBuf },
    #[error("{} is no backup: there is no {} in it; expected a copy by atoll backup", path.display(), crate::layout::BACKUP)]
    NoBackup { path: PathBuf },
    #[error("{} is not as it was written: {what}; restore from another backup", path.display())]
    BadBackup { path: PathBuf, what: String },
    #[error(
        "{} has {available_mib} MiB free, the copy needs about {needed_mib} MiB: free some space, or name another place",
        path.display()
    )]
    NoRoom { path: PathBuf, available_mib: u64, needed_mib: u64 },
    #[error("cannot {action} {}: {error}; {}", path.display(), remedy(error))]
    Io { action: &'static str, path: PathBuf, error: std::io::Error },
    #[error("cannot start instance {instance}: {why}")]
    Start { instance: InstanceId, why: String },
    /// The instance reported why it could not carry out an order.
    #[error("instance {instance} could not {order}: {why}")]
    Order { instance: InstanceId, order: &'static str, why: String },
    /// Its engine has failed, and nothing commits there any more.
    #[error("{}", fault_in_words(*instance, why))]
    Fault { instance: InstanceId, why: String },
    #[error("instance {instance} was lost ({how}){hint}")]
    Lost { instance: InstanceId, how: String, hint: &'static str },
    #[error(
        "instance {instance} did not {order} within {seconds} s: it hangs or the machine is overloaded; run again \
             with less load"
    )]
    Timeout { instance: InstanceId, order: &'static str, seconds: u64 },
    #[error(
        "cannot start a thread: {0}; raise the limit of processes (ulimit -u), or ask for fewer --clients"
    )]
    Thread(std::io::Error),
    /// One of several machines; the text has the cause and the remedy.
    #[error("{0}")]
    Machine(String),
    #[error("interrupted")]
    Interrupted,
}

/// The system's error numbers for a full device and a full quota, and the words of a log without
/// room for its next segment. An instance reports its faults as text.
const FULL: [&str; 3] = ["(os error 28)", "(os error 122)", "no space is left"];

/// A full device is checked first, since its advice is different.
fn fault_in_words(instance: InstanceId, why: &str) -> String {
    match FULL.iter().any(|number| why.contains(number)) {
        true => format!(
            "no space left on device while instance {instance} was writing: {why}; nothing acknowledged is lost: free some space, \
             then a database that was kept opens again"
        ),
        false => format!("instance {instance} has failed, and nothing commits there any more: {why}"),
    }
}

impl DeployError {
    /// Makes a [`DeployError::Io`] from a system error; `action` completes "cannot ...".
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> DeployError {
        let path = path.into();
        move |error| DeployError::Io { action, path, error }
    }

    /// Whether the options were wrong (exit code 2), as opposed to a run that failed (exit code 1).
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            DeployError::Impossible(_)
                | DeployError::Mismatch { .. }
                | DeployError::Format { .. }
                | DeployError::NoDirectory { .. }
                | DeployError::NotADirectory { .. }
                | DeployError::NoDatabase { .. }
                | DeployError::Sweep { .. }
                | DeployError::Backup { .. }
                | DeployError::Occupied { .. }
                | DeployError::Exists { .. }
                | DeployError::NoBackup { .. }
        )
    }
}

/// The advice for an error that the system reported about a file.
pub(crate) fn remedy(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::PermissionDenied => {
            "make it readable and writable for this user, or name another place (--data, --to, TMPDIR)"
        }
        ErrorKind::ReadOnlyFilesystem => "name another place (--data, --to, TMPDIR)",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free some space, or name another place (--data, --to, TMPDIR)"
        }
        ErrorKind::NotFound => {
            "see that its directory is there, or name another place (--data, --to, TMPDIR)"
        }
        _ => "see the system's log about that device, or name another place (--data, --to, TMPDIR)",
    }
}
