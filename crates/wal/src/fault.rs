//! What can go wrong with a log.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The log cannot be read or written. After a fault while writing the log is poisoned: nothing that was not
/// durable before will ever be reported as durable.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogFault {
    /// The file system refused; the message names the file.
    #[error("the log failed: {0}")]
    Io(Arc<io::Error>),
    /// Bytes that were durable once are not what was written.
    #[error(
        "{}: the log is corrupt at byte {offset}: {what}; restore the file from a copy, or the database from a backup",
        file.display()
    )]
    Corrupt { file: PathBuf, offset: u64, what: String },
    /// Written by another version of Atoll.
    #[error(
        "{}: a log of format {found}, expected format {expected}; open it with the version of Atoll that wrote it",
        file.display()
    )]
    Version { file: PathBuf, found: u32, expected: u32 },
    /// A segment that must exist does not.
    #[error("{}: this log segment is missing ({why}); put the file back, or restore from a backup", file.display())]
    Missing { file: PathBuf, why: String },
    /// A record that the log in memory has overwritten since.
    #[error("the log in memory no longer has the record at {lsn}; only files keep them all")]
    Forgotten { lsn: u64 },
    /// Options that cannot work.
    #[error("{0}")]
    Options(String),
}

impl From<io::Error> for LogFault {
    fn from(e: io::Error) -> Self {
        LogFault::Io(Arc::new(e))
    }
}
