//! The errors of a log.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The log cannot be read or written. A fault while writing poisons the log: a record that was not
/// durable before is never reported as durable.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogFault {
    /// The file system returned an error; the message names the file.
    #[error("the log failed: {0}")]
    Io(Arc<io::Error>),
    /// Bytes that were durable differ from the bytes that were written.
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
    /// A segment of the middle of the log does not exist.
    #[error("{}: this log segment is missing ({why}); put the file back, or restore from a backup", file.display())]
    Missing { file: PathBuf, why: String },
    /// The log in memory has overwritten this record.
    #[error("the log in memory no longer has the record at {lsn}; only files keep them all")]
    Forgotten { lsn: u64 },
    /// Options that cannot work.
    #[error("{0}")]
    Options(String),
}

impl LogFault {
    /// Whether the only reason was lack of space on the device.
    pub fn is_want_of_room(&self) -> bool {
        matches!(self, LogFault::Io(e) if world::is_want_of_room(e))
    }
}

impl From<io::Error> for LogFault {
    fn from(e: io::Error) -> Self {
        LogFault::Io(Arc::new(e))
    }
}
